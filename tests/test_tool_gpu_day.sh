#!/bin/bash
# SPDX-License-Identifier: MIT
# tools/gpu-day on a machine that only seems to have a GPU: a tree whose build gives programs that
# answer as told. What is shown is the script: its paths, its verdicts and its exit status.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"

top=$work/top
mkdir -p "$top/tools" "$work/elsewhere"
cp "${srcdir:-.}/tools/gpu-day" "$top/tools/gpu-day"
cat > "$top/configure" << 'EOF'
#!/bin/sh
mkdir -p tools tests
printf 'all tests/test_cuda:\n\t@true\n.PHONY: all tests/test_cuda\n' > Makefile
cat > tools/kvref << 'END'
#!/bin/sh
case $1 in
doctor) echo "cuda_driver  $FAKE_DRIVER" | sed 's/^.* $/cuda  none/' ;;
make-model) mkdir -p "$2" ;;
generate)
    [ "$FAKE_BENCH" = good ] || { echo "out of memory" >&2; exit 2; }
    batch='{"decode_seconds": 0.064, "frames_decoded": 33, "prompt_positions": 234}'
    sample="{\"batches\": [$batch]}"
    echo "{\"samples\": [$sample, $sample, $sample, $sample], \"settings\": {\"device_bytes\": 5}}" ;;
esac
END
printf '#!/bin/sh\nexit %s\n' '$FAKE_TEST' > tests/test_cuda
chmod +x tools/kvref tests/test_cuda
EOF
chmod +x "$top/configure"

day() { # driver, status of the test, bench, argument...
    export FAKE_DRIVER=$1 FAKE_TEST=$2 FAKE_BENCH=$3
    shift 3
    rm -f "$work/elsewhere/day.txt"
    (cd "$work/elsewhere" && "$top/tools/gpu-day" --quick --build b --out day.txt "$@") \
        >"$work/.out" 2>"$work/.err"
    status=$?
}
reported() { grep -q "$1" "$work/elsewhere/day.txt"; }

day 13 0 good
claim relative_paths_begin_where_the_user_is test "$status" = 0 -a -x "$work/elsewhere/b/tools/kvref"
claim the_report_has_verdict_and_times reported "^ok .*bit for bit"
claim milliseconds_are_those_after_the_first_frame reported "^graph prefix: 2.00 ms a frame"
day 13 1 good
claim a_hash_that_differs_fails_the_day test "$status" = 1
claim and_is_in_the_report reported "^NOT OK .*bit for bit"
day 13 0 bad
claim a_run_that_cannot_be_timed_fails_the_day test "$status" = 1
claim with_its_reason reported "^NOT OK  eager full: out of memory"
day "" 0 good
claim no_gpu_is_status_2_and_no_report test "$status" = 2 -a ! -e "$work/elsewhere/day.txt"

finish
