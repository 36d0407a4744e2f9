#!/usr/bin/env bash
# Counts the instructions of fixed runs under callgrind and compares them with the committed
# counts of build-aux/instructions.txt: a slow-down of the code shows without a clock.
# usage: bench-check.sh BUILD [--update]
# Counts hold for one compiler, its flags and one instruction set; another one is skipped with a
# message. Exit 0: within 2 %, or skipped; 1: beyond; 2: a run failed. --update writes the counts
# of this build into the file.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
build=${1:?usage: bench-check.sh BUILD [--update]}
program=$build/tools/kvref
file=$top/build-aux/instructions.txt
[ -x "$program" ] || { echo "bench-check: $program is not built"; exit 2; }
command -v valgrind >/dev/null || { echo "bench-check: skipped: valgrind not found"; exit 0; }
work=$(mktemp -d "${TMPDIR:-/tmp}/kvref-count.XXXXXX")
trap 'rm -rf "$work"' EXIT
export OPENBLAS_NUM_THREADS=1 LC_ALL=C TERM=dumb

# count ARGS...: instructions of a run, in $n.
count() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" "$program" "$@" >"$work/stdout" 2>"$work/stderr" ||
        { echo "bench-check: kvref $* failed:"; tail -n 5 "$work/stderr"; exit 2; }
    n=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$work/stderr")
}

value() { sed -n "s/^ *\"$1\": \"\(.*\)\",*\$/\1/p" "$work/stdout"; }

"$program" make-model "$work/toy" --quiet --codec none || exit 2
count doctor --no-test --json
[ "$(value sanitizer)" = none ] || { echo "bench-check: skipped: a build with sanitizers"; exit 0; }
key="$(value compiler), $(value flags), $(value vectors)"
if [ "${2:-}" != --update ] && ! grep -qF "$key | " "$file"; then
    echo "bench-check: skipped: no counts for $key; add them by bench-check.sh BUILD --update"
    exit 0
fi

bad=0
check() {
    local name=$1 was
    shift
    count "$@"
    if [ "$update" = 1 ]; then
        echo "$key | $name | $n" >>"$work/new"
        echo "$name: $n"
        return
    fi
    was=$(sed -n "s/^$(printf %s "$key" | sed 's/[][\.*^$/]/\\&/g') | $name | //p" "$file")
    awk -v name="$name" -v n="$n" -v was="${was:-0}" 'BEGIN {
        part = was > 0 ? n / was - 1 : 1
        good = part <= 0.02 && part >= -0.02
        said = good ? "" : (part > 0) ? ": MORE" : ": fewer, update the counts"
        printf("%s: %.0f instructions, committed %.0f, %+.2f %%%s\n", name, n, was, 100 * part, said)
        exit !good
    }' || bad=1
}

update=0
[ "${2:-}" != --update ] || update=1
bench=(bench --model "$work/toy" --threads 1 --bandwidth-mb 0 --warm-up 0 --repeat 1)
check start inspect "$work/toy" --no-scan
check prefill "${bench[@]}" --capacity 512 --prompt-length 200 --frames 2 --arm name=prefix
check decode "${bench[@]}" --capacity 512 --prompt-length 10 --frames 60 --arm name=prefix
check context "${bench[@]}" --prompt-length 1900 --frames 40 --synthetic-past --arm name=prefix
check full "${bench[@]}" --capacity 512 --prompt-length 10 --frames 10 --arm attention=full
check text generate --model "$work/toy" --threads 1 --text "A text to be read." --max-new-tokens 4 -o "$work/x.npy"
if [ "$update" = 1 ]; then
    {
        if [ -f "$file" ]; then
            grep -vF "$key | " "$file"
        else
            echo "# compiler, flags, instruction set | run | instructions; made by build-aux/bench-check.sh BUILD --update"
        fi
        cat "$work/new"
    } >"$work/all"
    cp "$work/all" "$file"
fi
[ "$bad" = 0 ] || echo "bench-check: beyond 2 %"
exit "$bad"
