#!/usr/bin/env bash
# Builds with gcov, runs the suite, prints line and branch coverage of base/ and ref/.
# usage: coverage.sh DIR    Exit 1 below 95 % of lines or 85 % of branches.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:?usage: coverage.sh DIR}
mkdir -p "$dir" && cd "$dir" || exit 2
"$top/configure" -q --without-cuda CFLAGS="-O0 -g --coverage -fno-inline" LDFLAGS="--coverage" &&
    make -s -j2 && KVREF_SLOW=1 make -s -j2 check > check.out 2>&1 || { grep -E '^(FAIL|ERROR)' check.out; exit 2; }
lcov -q --rc lcov_branch_coverage=1 -c -d . -o all.info 2> lcov.err &&
    lcov -q --rc lcov_branch_coverage=1 -e all.info '*/base/*' '*/ref/*' -o part.info 2>> lcov.err ||
    { cat lcov.err; exit 2; }
lcov --rc lcov_branch_coverage=1 --list part.info
summary=$(lcov --rc lcov_branch_coverage=1 --summary part.info 2>&1)
lines=$(echo "$summary" | sed -n 's/.*lines\.*: \([0-9.]*\)%.*/\1/p')
branches=$(echo "$summary" | sed -n 's/.*branches\.*: \([0-9.]*\)%.*/\1/p')
genhtml -q --branch-coverage part.info -o html > /dev/null 2>&1 && echo "report: $dir/html/index.html"
echo "coverage of base and ref: $lines % of lines (at least 95), $branches % of branches (at least 85)"
awk -v l="$lines" -v b="$branches" 'BEGIN {exit !(l >= 95 && b >= 85)}'
