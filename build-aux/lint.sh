#!/usr/bin/env bash
# Checks what a compiler does not: include rule, file and function sizes, banned calls,
# whitespace, invisible characters, formatting, shell scripts. With --tidy also clang-tidy and
# cppcheck (slow). Exit 0: clean; 1: findings, one line each.
set -u
cd "$(dirname "$0")/.." || exit 2
bad=0
say() { echo "lint: $*"; bad=1; }

mapfile -t code < <(git ls-files '*.c' '*.h' '*.cc' '*.cu' '*.cuh' '*.cpp')
mapfile -t shell < <(git ls-files | while read -r f; do
    head -c 40 "$f" | head -n 1 | grep -qE '^#!.*(bash|/sh)' && echo "$f"; done)
mapfile -t text < <(git ls-files | grep -vE '\.(safetensors|pth|npy|bin|xz|png|wav|flac)$|corpus/')

# Includes: tools, tests -> ref, gpu -> base -> include; ref and gpu never meet.
rule() { # folder, folders it may include
    local hits
    hits=$(grep -nE '^#include "' "$1"/*.[ch]* 2>/dev/null | grep -vE "#include \"($2)/" || true)
    [ -z "$hits" ] || say "include rule of $1/ (may use: $2): $hits"
}
rule include/kvref 'kvref'
rule base 'kvref|base'
rule ref 'kvref|base|ref'
rule gpu 'kvref|base|gpu'
rule gpu/cudacpu 'gpu/cudacpu'

for f in "${code[@]}"; do
    n=$(wc -l < "$f")
    [ "$n" -le 400 ] || say "$f: $n lines, limit 400"
    head -n 1 "$f" | grep -q 'SPDX-License-Identifier: MIT' || say "$f: no SPDX line"
done

# Function bodies: '{' alone in column 0 to '}' in column 0 (the formatting guarantees this).
lengths=$(for f in "${code[@]}"; do
    awk -v f="$f" '/^\{/{s=NR} /^\}/{if(s){print NR-s-1, f ":" s; s=0}}' "$f"; done | sort -n)
echo "$lengths" | awk '$1 > 60 {print "lint: " $2 ": function of " $1 " lines, limit 60"; x=1}
    END {exit x}' || bad=1
p90=$(echo "$lengths" | awk '{a[NR]=$1} END {print a[int(NR*0.9)]}')
[ "${p90:-0}" -le 40 ] || say "p90 of function length is $p90 lines, limit 40"

# The library never prints, exits, aborts, reads the environment. gpu/cudacpu/ is left out: it is
# a test instrument, which by default describes a fault on stderr and aborts.
mapfile -t library < <(printf '%s\n' "${code[@]}" | grep -E '^(base|ref|gpu|include/kvref)/[^/]*$')
hits=$(grep -nE '\b(printf|puts|putchar|perror|exit|_exit|abort|getenv|setenv|putenv|system|popen)\(|\b(stdout|stderr|stdin)\b' \
    "${library[@]}" | grep -vE '^[^:]*:[0-9]*: *(/\*|\*)' || true)
[ -z "$hits" ] || say "banned in the library: $hits"
hits=$(grep -nE '\b(strcpy|strcat|sprintf|gets|atoi|atof|strtok|rand|alloca)\(' "${code[@]}" || true)
[ -z "$hits" ] || say "banned everywhere: $hits"
hits=$(grep -nE '\b(TODO|FIXME|XXX|HACK)\b' "${text[@]}" | grep -v '^build-aux/lint.sh' || true)
[ -z "$hits" ] || say "marks left: $hits"
hits=$(grep -nE '(fabsf?\([^)]*\)|err|diff|worst) *> *(tol|limit|eps|1e-)' "${code[@]}" || true)
[ -z "$hits" ] || say "NaN passes 'error > limit'; write !(error <= limit): $hits"
hits=$(printf '%s\n' "${code[@]}" | grep -E '\.[ch]$' | xargs grep -nE '(^|[^:])//' | grep -vE '"[^"]*//[^"]*"|/\*.*//|\} // namespace' || true)
[ -z "$hits" ] || say "use /* */ comments: $hits"

hits=$(grep -nE '[[:space:]]+$' "${text[@]}" | cut -d: -f1,2 | head -n 20 || true)
[ -z "$hits" ] || say "trailing space: $hits"
for f in "${text[@]}"; do
    case $f in golden/*.json) continue ;; esac # copies, kept to the byte
    [ ! -s "$f" ] || [ -z "$(tail -c 1 "$f" | tr -d '\n')" ] || say "$f: no newline at the end"
done
hits=$(grep -nP '[\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2069}\x{feff}]' "${text[@]}" 2>/dev/null | cut -d: -f1,2 || true)
[ -z "$hits" ] || say "invisible characters: $hits"

if command -v clang-format > /dev/null; then
    clang-format --dry-run -Werror "${code[@]}" 2>&1 | grep -E 'error' | head -n 20 | grep . && bad=1
else
    echo "lint: clang-format not found, formatting not checked"
fi
if command -v clang++ > /dev/null; then # make check does not build these
    for f in tests/fuzz/*.cc; do
        clang++ -std=c++17 -fsyntax-only -D_GNU_SOURCE -Iinclude -I. "$f" || say "$f does not compile"
    done
fi
if command -v shellcheck > /dev/null; then
    shellcheck -S warning "${shell[@]}" || bad=1
else
    echo "lint: shellcheck not found, scripts not checked"
fi

if [ "${1:-}" = --tidy ]; then
    config=$(mktemp -d) # stands in for the config.h of a build
    for name in PACKAGE_VERSION BUILD_COMMIT BUILD_FLAGS; do
        echo "#define $name \"0\""
    done > "$config/config.h"
    flags="-std=c11 -D_GNU_SOURCE -Iinclude -I. -I$config \
        $(pkg-config --cflags openblas jansson libutf8proc sndfile)"
    # shellcheck disable=SC2086
    printf '%s\n' base/*.c ref/*.c tools/*.c | xargs -P 2 -n 6 sh -c \
        'clang-tidy --quiet "$@" -- '"$flags"' 2> /dev/null' tidy || say "clang-tidy has findings"
    cppcheck --quiet --error-exitcode=1 --enable=warning --inline-suppr --library=gnu \
        --suppress=missingInclude --suppress=unknownMacro --suppress=uninitvar --std=c11 -Iinclude -I. "-I$config" \
        -D_GNU_SOURCE base ref tools || say "cppcheck has findings"
    rm -rf "$config"
fi
[ "$bad" = 0 ] && echo "lint: ${#code[@]} files clean, p90 of function length $p90"
exit "$bad"
