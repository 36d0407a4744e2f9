#!/bin/bash
# SPDX-License-Identifier: MIT
# kvref compare --html: the page holds everything it needs, can be read by everybody, and opens
# in a browser without a complaint. The browser is Chromium; without it those cases are left out
# and this test counts as skipped once the others have passed.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"
golden=${srcdir:-.}/golden/lm
command -v python3 >/dev/null || {
    echo "skipped: no python3"
    exit 77
}
page() { python3 -B "${srcdir:-.}/tests/page_check.py" "$@" >"$work/.out" 2>&1; }

run make-model "$work/a" --preset a --quiet --layout flat
run make-model "$work/eps" --preset a --quiet --layout flat --set norm_eps=1e-5
for model in a eps; do
    run trace --model "$work/$model" --from "$golden/A.safetensors" --level layers -o "$work/$model.st"
done
run compare "$work/a.st" "$work/a.st" --html "$work/same.html"
claim a_page_of_equal_traces_is_written test "$status" = 0
claim and_is_well_made page "$work/same.html"
claim with_what_it_says page "$work/same.html" "Two traces: the same" "slow L00" "fast out" "within"
run compare "$golden/A.safetensors" "$work/eps.st" --html "$work/differs.html"
claim a_page_of_other_traces_is_written test "$status" = 1
claim and_tells_the_first_divergence page "$work/differs.html" "Two traces: differs" "First divergence" \
    "frame 0 (position 0), slow, layer 0, k, head 1" "over 100: out of limit" "In A alone: 24 tensors"
run compare "$golden/L.safetensors" "$work/a.st" --html "$work/unlike.html"
claim other_prompts_make_a_page page "$work/unlike.html" "First divergence" "prompt, column"

# Names from a file are text, never markup.
python3 - "$work/odd.st" <<'EOF'
import json, struct, sys
name = "slow.<script>alert(1)</script>&\"'\x1b[31m"
head = {"__metadata__": {"format": "kvref-trace-1", "program": "<img src=x onerror=alert(2)>"}}
head[name] = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
head["slow.logits"] = {"dtype": "F32", "shape": [1, 1], "data_offsets": [4, 8]}
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + b"\0" * 8)
EOF
run compare "$work/odd.st" "$work/odd.st" --html "$work/odd.html"
claim names_are_text_in_the_page page "$work/odd.html" "slow.<script>alert(1)</script>&\"'?[31m"
sed -i 's/onerror=alert(2)/onerror=alert(3)/' "$work/odd.st"
run compare "$work/odd.st" "$work/a.st" --html "$work/odd.html"
claim settings_are_text_in_the_page page "$work/odd.html" "<img src=x onerror=alert(3)>"
claim no_escape_reaches_the_terminal test "${out/$'\x1b'/}" = "$out"

# The checks of this test have teeth.
sed 's/<main>/<main><script>1<\/script>/' "$work/same.html" >"$work/bad.html"
claim a_script_would_be_seen test "$(page "$work/bad.html"; echo $?)" = 1
sed 's/--fg:#1b1d21/--fg:#999999/' "$work/same.html" >"$work/bad.html"
claim grey_text_would_be_seen test "$(page "$work/bad.html"; echo $?)" = 1
sed 's/ scope="col"//' "$work/same.html" >"$work/bad.html"
claim a_heading_without_scope_would_be_seen test "$(page "$work/bad.html"; echo $?)" = 1

run compare "$work/a.st" "$work/a.st" --html "$work/absent/x.html"
claim a_page_that_cannot_be_written_gives_2 refused 2 "absent/x.html"
run compare "$work/a.st" "$work/a.st" --html /dev/full
claim a_full_disk_gives_2 refused 2 "/dev/full"

# In a browser.
chromium=
for name in chromium chromium-browser google-chrome; do
    chromium=$(command -v $name) && break
done
if [ -z "$chromium" ]; then
    (finish) || exit 1
    echo "skipped: no chromium to open the page with"
    exit 77
fi
# browse PAGE OPTIONS...: its document in .out, what the browser says in .err.
browse() {
    local file=$1
    shift
    timeout 120 "$chromium" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
        --disable-extensions --user-data-dir="$work/profile" --enable-logging=stderr --hide-scrollbars \
        --window-size=1200,1600 "$@" "file://$file" </dev/null >"$work/.out" 2>"$work/.err"
}
silent() { ! grep -q CONSOLE "$work/.err"; }
for name in same differs odd; do
    browse "$work/$name.html" --dump-dom
    claim "${name}_opens_in_a_browser" grep -q "</main>" "$work/.out"
    claim "${name}_makes_no_console_message" silent
done
sed 's/<main>/<main><img src="http:\/\/localhost\/x.png">/' "$work/same.html" >"$work/bad.html"
browse "$work/bad.html" --dump-dom
claim a_request_would_be_refused_and_seen grep -q "CONSOLE.*Content Security Policy" "$work/.err"
browse "$work/differs.html" --screenshot="$work/light.png" --blink-settings=preferredColorScheme=1
browse "$work/differs.html" --screenshot="$work/dark.png" --blink-settings=preferredColorScheme=0
claim light_and_dark_are_drawn test -s "$work/light.png" -a -s "$work/dark.png"
claim and_are_not_the_same differ "$work/light.png" "$work/dark.png"

finish
