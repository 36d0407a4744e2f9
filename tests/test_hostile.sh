#!/bin/bash
# SPDX-License-Identifier: MIT
# Some 400 malformed checkpoints: every one ends with a status and one line, under 64 MB and 1 s.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"
top=$(cd "${srcdir:-.}" && pwd)

if ! python3 -c '' 2>/dev/null; then
    echo "skipped: no python3"
    exit 77
fi
memory=64
seconds=1
if "$program" doctor --no-test --json | grep -q '"sanitizer": "none"'; then :; else
    memory=2000 # a sanitizer keeps shadow memory and quarantines
    seconds=10
fi
if [ -n "${KVREF_SLOW:-}" ]; then seconds=20; fi

run make-model "$work/base" --preset a --set max_seq_len=256 --quiet
claim the_base_model_is_made test "$status" = 0
mkdir "$work/cases"
cd "$work" || exit 2
export PYTHONDONTWRITEBYTECODE=1
python3 "$top/tests/hostile/make.py" "$work/base" "$work/cases" "$top/golden/pth" \
    >"$work/.out" 2>"$work/.err"
status=$?
claim the_hostile_models_are_made test "$status" = 0
python3 "$top/tests/hostile/run.py" "$program" "$work/cases" "$memory" "$seconds" \
    >"$work/.out" 2>"$work/.err"
status=$?
cat "$work/.out"
claim every_hostile_checkpoint_is_refused_cheaply test "$status" = 0
claim there_are_at_least_60_of_them \
    test "$(sed -n 's/^\([0-9]*\) checkpoints.*/\1/p' "$work/.out")" -ge 60

finish
