#!/usr/bin/env bash
# usage: build-aux/ptxas.sh [NVCC]
#
# Compiles every kernel of gpu/ for sm_80 and sm_90 and prints what the assembler says of it, as
# a Markdown table: registers of a thread and static shared memory of a block. Status 1 when a
# kernel spills registers or has local memory. docs/gpu.md has the table.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
nvcc=${1:-nvcc}
work=$(mktemp -d "${TMPDIR:-/tmp}/kvref-ptxas-XXXXXX")
trap 'rm -rf "$work"' EXIT

for f in "$top"/gpu/*.cu; do
    grep -q __global__ "$f" || continue
    "$nvcc" -std=c++17 -O3 -fmad=false -I"$top/include" -I"$top" -Xptxas -v \
        -Xcompiler -ffp-contract=off,-fno-math-errno,-fno-strict-aliasing,-fno-exceptions,-fno-rtti \
        -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
        -c -o "$work/out.o" "$f" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    sed "s|^|$(basename "$f") |" "$work/log" >> "$work/all"
done

c++filt < "$work/all" | awk '
    function kernel(text) {
        sub(/.*entry function ./, "", text); sub(/. for .sm_.*/, "", text)
        sub(/^void /, "", text)
        gsub(/[A-Za-z_0-9]+::|\(anonymous namespace\)::|\(int\)|\(bool\)/, "", text); sub(/\(.*/, "", text)
        return text
    }
    /Compiling entry function/ {
        name = kernel($0); arch = $0; sub(/.*for .sm_/, "", arch); sub(/[^0-9].*/, "", arch)
        key = $1 " " name
        if (!(key in seen)) { seen[key] = 1; order[++n] = key }
    }
    /bytes stack frame/ {
        match($0, /[0-9]+ bytes stack frame/); stack = substr($0, RSTART) + 0
        match($0, /[0-9]+ bytes spill stores/); spill = substr($0, RSTART) + 0
        if (stack || spill) {
            printf "%s, sm_%s: %d bytes of local memory, %d spilled\n", key, arch, stack, spill > "/dev/stderr"
            bad = 1
        }
    }
    /Used [0-9]+ registers/ {
        match($0, /Used [0-9]+/); used[key, arch] = substr($0, RSTART + 5) + 0
        shared[key] = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART) + 0 : 0
    }
    END {
        print "| file | kernel | registers sm_80 | registers sm_90 | static shared bytes |"
        print "|---|---|---|---|---|"
        for (i = 1; i <= n; i++) {
            split(order[i], part, " "); name = substr(order[i], length(part[1]) + 2)
            printf "| %s | `%s` | %d | %d | %d |\n", part[1], name, used[order[i], 80],
                used[order[i], 90], shared[order[i]]
        }
        exit bad || n == 0
    }'
