#!/usr/bin/env bash
# Runs the unit test programs of a finished build under valgrind. usage: valgrind.sh BUILD
# Programs listed in tests/valgrind-skip (with the reason) are left out: they would run for
# many minutes there.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
cd "${1:?usage: valgrind.sh BUILD}" || exit 2
export srcdir=$top top_builddir=. OPENBLAS_NUM_THREADS=1 CK_FORK=no CK_TIMEOUT_MULTIPLIER=100
bad=0 n=0
for t in tests/test_*; do
    [ -x "$t" ] && [ -f "$t" ] || continue
    case $t in *.sh | *.log | *.trs | *.o) continue ;; esac
    name=$(basename "$t")
    if grep -q "^$name " "$top/tests/valgrind-skip"; then continue; fi
    valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
        --suppressions="$top/build-aux/valgrind.supp" "$t" > "valgrind-$name.out" 2>&1
    status=$?
    if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then
        echo "valgrind: $name: status $status"
        tail -n 25 "valgrind-$name.out"
        bad=1
    fi
    n=$((n + 1))
done
echo "valgrind: $n programs"
[ "$n" -gt 0 ] || bad=1
exit "$bad"
