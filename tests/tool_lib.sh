# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For the shell tests of the program: run it, check a claim, count. Sourced, never run.

export LC_ALL=C
program=$(cd "${top_builddir:-.}" && pwd)/tools/kvref
if [ ! -x "$program" ]; then
    echo "skipped: $program is not built"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/kvref-tool.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
n_ok=0
n_bad=0

# run ARGS...: the program, with $status, $out and $err of it.
run() {
    status=0
    "$program" "$@" >"$work/.out" 2>"$work/.err" </dev/null || status=$?
    out=$(cat "$work/.out")
    err=$(cat "$work/.err")
}

# claim NAME COMMAND...: ok when the command succeeds.
claim() {
    local name=$1
    shift
    if "$@"; then
        n_ok=$((n_ok + 1))
        echo "ok $name"
    else
        n_bad=$((n_bad + 1))
        echo "not ok $name ($*)"
        echo "    status $status"
        sed 's/^/    stdout: /' "$work/.out" | head -5
        sed 's/^/    stderr: /' "$work/.err" | head -5
    fi
}

# refused STATUS TEXT: the program ended with STATUS and its message holds TEXT. The message is
# one line, or two when the second points at --help.
refused() {
    [ "$status" = "$1" ] && [[ $err == *"$2"* ]] &&
        [ "$(grep -vc '^try ' "$work/.err")" = 1 ]
}

# succeeded TEXT: status 0 and TEXT on standard output.
succeeded() { [ "$status" = 0 ] && [[ $out == *"$1"* ]]; }

# empty DIR: nothing lies in it.
empty() { [ -z "$(ls -A "$1")" ]; }

# same A B: equal files.
same() { cmp -s "$1" "$2"; }

differ() { ! cmp -s "$1" "$2"; }

# no_file PATTERN: no file in $work has such a name.
no_file() { [ -z "$(find "$work" -maxdepth 1 -name "$1")" ]; }

# needs WORD...: every word is in $out.
needs() {
    local word
    for word in "$@"; do
        if [[ $out != *"$word"* ]]; then
            echo "    missing: $word"
            return 1
        fi
    done
}

# needs_err TEXT: it is on standard error.
needs_err() { [[ $err == *"$1"* ]]; }

finish() {
    echo "$n_ok passed, $n_bad failed"
    [ "$n_bad" = 0 ] || exit 1
    exit 0
}
