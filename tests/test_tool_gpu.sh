#!/bin/bash
# SPDX-License-Identifier: MIT
# The FP16 decoder from the command line, on the execution layer: modes that may not change a bit,
# what is reported, what is refused.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"
golden=${srcdir:-.}/golden/lm

run make-model "$work/a" --preset a --quiet
run trace --model "$work/a" --from "$golden/A.safetensors" --level ops --hash
float32=$out
run trace --model "$work/a" --from "$golden/A.safetensors" --level ops --hash --backend cudacpu
want=$out
claim float16_has_another_hash_than_float32 test "$status" = 0 -a "${#want}" = 16 -a "$want" != "$float32"
for how in "--exec graph" "--exec graph --attention full" "--exec eager --capacity 1024"; do
    # shellcheck disable=SC2086
    run trace --model "$work/a" --from "$golden/A.safetensors" --level ops --hash --backend cudacpu $how
    claim "the_hash_is_the_same_with${how// /_}" test "$out" = "$want"
done

run make-model "$work/toy" --preset toy --quiet
toy=(--model "$work/toy" --text Hi --max-new-tokens 3 --min-frames 3 --seed 5 --capacity 64)
for how in eager graph; do
    run generate "${toy[@]}" --backend cudacpu --exec $how -o "$work/$how.npy" --trace "$work/$how.safetensors"
    claim "a_text_becomes_codes_with_$how" succeeded "hash"
    claim "device_memory_is_reported_with_$how" succeeded "device memory: "
    claim "the_trace_names_backend_and_mode_with_$how" grep -qa "\"exec\":\"$how\"" "$work/$how.safetensors"
done
claim graph_and_eager_give_the_same_codes same "$work/graph.npy" "$work/eager.npy"
run generate "${toy[@]}" --backend cudacpu --json -o "$work/j.npy"
claim json_holds_device_bytes succeeded '"device_bytes": '

run say "${toy[@]}" --backend cudacpu --exec graph -o "$work/x.wav" --codes-out "$work/x.npy"
claim say_speaks_with_it test -s "$work/x.wav"
claim from_the_same_codes same "$work/x.npy" "$work/graph.npy"

run generate "${toy[@]}" --exec graph -o "$work/no.npy"
claim graphs_need_a_device refused 2 "has no device"
run generate "${toy[@]}" --backend cudacpu --linear blas -o "$work/no.npy"
claim blas_is_not_for_the_device refused 2 "exact only"
claim nothing_is_written_after_a_refusal no_file "no.npy*"

finish
