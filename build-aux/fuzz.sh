#!/usr/bin/env bash
# Builds every tests/fuzz/fuzz_*.cc with clang's libFuzzer and runs each on its corpus.
# usage: build-aux/fuzz.sh [--seconds N] [--dir DIR] [--only NAME] [--seed N]
set -u
cd "$(dirname "$0")/.." || exit 2
seconds=60 dir="" only="" seed=0 # 0: another one in each run
while [ "$#" -gt 0 ]; do
    case $1 in
    --seconds) seconds=$2; shift ;;
    --dir) dir=$2; shift ;;
    --only) only=$2; shift ;;
    --seed) seed=$2; shift ;;
    *) echo "usage: build-aux/fuzz.sh [--seconds N] [--dir DIR] [--only NAME] [--seed N]" >&2; exit 2 ;;
    esac
    shift
done
if [ -z "$dir" ]; then # removed at the end, unless something was found
    dir=$(mktemp -d "${TMPDIR:-/tmp}/kvref-fuzz-XXXXXX")
    trap '[ "${bad:-1}" != 0 ] || rm -rf "$dir"' EXIT
fi
mkdir -p "$dir" || exit 2
pkgs="openblas jansson libutf8proc libpcre2-8 sndfile"
# shellcheck disable=SC2207
flags=($(pkg-config --cflags $pkgs) -Iinclude -I. -D_GNU_SOURCE -O1 -g -ffp-contract=off
    '-fsanitize=address,undefined' -fno-sanitize-recover=all -pthread)
# shellcheck disable=SC2207
libs=($(pkg-config --libs $pkgs) -lm -pthread)
objects=()
newest=$(find include base ref -name '*.h' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
# ref/simd_naive.c stands in for ref/simd.c in another build of the same folder.
mapfile -t sources < <(printf '%s\n' base/*.c ref/*.c | grep -v '^ref/simd_naive')
for c in "${sources[@]}"; do
    o=$dir/$(echo "$c" | tr / _).o
    objects+=("$o")
    [ "$o" -nt "$c" ] && [ "$o" -nt "$newest" ] || echo "$c" "$o"
done | xargs -r -P 2 -L 1 sh -c 'exec clang -std=c11 -fsanitize=fuzzer-no-link '"${flags[*]}"' -c "$0" -o "$1"' ||
    { echo "fuzz: build failed"; exit 1; }
for c in "${sources[@]}"; do objects+=("$dir/$(echo "$c" | tr / _).o"); done

run() { # name: builds and runs one target
    local name=$1 corpus=tests/fuzz/corpus/$1 live=$dir/corpus-$1
    mkdir -p "$live"
    clang++ -std=c++17 -fsanitize=fuzzer "${flags[@]}" "tests/fuzz/fuzz_$name.cc" "${objects[@]}" \
        "${libs[@]}" -o "$dir/fuzz_$name" || return 1
    if "$dir/fuzz_$name" -max_total_time="$seconds" -timeout=10 -seed="$seed" -rss_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix="$dir/$name-" "$live" "$corpus" > "$dir/$name.out" 2>&1; then
        echo "fuzz $name: $(sed -n 's/stat::number_of_executed_units: *//p' "$dir/$name.out") runs, no finding"
    else
        tail -n 40 "$dir/$name.out"
        echo "fuzz $name: FOUND, input in $dir/$name-*"
        return 1
    fi
}
export -f run
export seconds dir seed
bad=0
names=()
for f in tests/fuzz/fuzz_*.cc; do
    [ -f "$f" ] || continue
    n=$(basename "$f" .cc) n=${n#fuzz_}
    [ -z "$only" ] || [ "$only" = "$n" ] || continue
    names+=("$n")
done
[ "${#names[@]}" -gt 0 ] || { echo "fuzz: no target"; exit 1; }
jobs=()
for n in "${names[@]}"; do
    run "$n" &
    jobs+=($!)
    if [ "${#jobs[@]}" -eq 2 ]; then
        wait "${jobs[0]}" || bad=1
        jobs=("${jobs[1]}")
    fi
done
for j in "${jobs[@]}"; do wait "$j" || bad=1; done
exit "$bad"
