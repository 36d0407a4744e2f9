#!/bin/bash
# SPDX-License-Identifier: MIT
# kvref bench: what it prints, what it refuses, the bytes it reckons, bits that differ. No time
# is ever judged.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"

run make-model "$work/tiny" --preset l --quiet
run make-model "$work/b" --preset b --set max_seq_len=128 --layout flat --dtype f32 --quiet
l=(--model "$work/tiny" --repeat 2 --capacity 64) # without a length
m=("${l[@]}" --frames 3 --prompt-length 12)
quick=("${m[@]}" --bandwidth-mb 1)

run bench "${quick[@]}"
claim prefix_and_full_are_the_arms_by_default needs "prefix " "full " "attention full" "attention prefix"
claim machine_build_and_date_are_told needs "machine" "commit" "build" "threads read" "resident" "page faults"
claim bits_are_equal succeeded "bits      equal wherever they have to be"
run bench "${m[@]}" --bandwidth-mb 0 --profile
claim a_profile_has_operations_of_both_transformers needs "slow gate and up" "fast gate and up" "sampling, loop"
claim rates_can_be_left_out test "${out#*threads read}" = "$out"

# Everything that may not change a bit, and what may.
run bench "${m[@]}" --bandwidth-mb 0 --arm attention=prefix --arm attention=full --arm threads=1 \
    --arm threads=3,capacity=40 --arm linear=blas --arm rope=f32 --arm layers=1
claim arms_of_another_function_are_not_compared succeeded "bits      equal"
run bench "${m[@]}" --bandwidth-mb 0 --arm rope-table=bf16 --arm rope-table=f32 --same-bits
claim a_planted_difference_gives_1 test "$status" = 1
claim and_is_named needs "DIFFERS" "bits      DIFFER: rope-table=f32, prompt of 12"
claim and_counted needs_err "1 points differ in bits"
run bench "${m[@]}" --bandwidth-mb 0 --arm backend=cudacpu --arm backend=cudacpu,exec=graph \
    --arm backend=cudacpu,attention=full
claim the_device_form_runs_in_both_ways succeeded "bits      equal"
claim and_its_memory_is_told needs "cudacpu graph" "on the device"
run bench "${m[@]}" --bandwidth-mb 0 --arm backend=ref --arm backend=cudacpu --same-bits
claim float16_has_other_bits_than_float32 test "$status" = 1
run bench "${l[@]}" --frames 3 --bandwidth-mb 0 --synthetic-past --prompt-length 1,50
claim a_past_that_is_filled_in_gives_equal_bits_too succeeded "bits      equal"

# Checks.
run bench "${m[@]}" --bandwidth-mb 0 --require-ratio 1e6
claim a_ratio_that_is_not_reached_gives_1 test "$status" = 1
claim and_says_so needs_err "--require-ratio: expected 1e+06 or more"
run bench "${m[@]}" --bandwidth-mb 0 --require-share 1
claim a_share_that_is_not_known_is_not_reached test "$status" = 1
run bench "${m[@]}" --bandwidth-mb 0 --require-ratio 1e-6
claim a_ratio_that_is_reached_gives_0 test "$status" = 0

# The table of the protocol.
run bench --model "$work/tiny" --frames 2 --capacity 400 --bandwidth-mb 0 --seed-protocol
claim the_protocol_has_a_table succeeded "| ref, cpu | "
claim and_says_what_it_ran needs "prompt [5, 234], capacity 400" "median of 3" "| | full capacity | active prefix | ratio |"

# CSV and picture.
run bench "${l[@]}" --frames 3 --bandwidth-mb 0 --csv --sweep capacity=32,64 --prompt-length 4,12 --plot "$work/p.svg"
claim csv_has_a_line_a_point test "$(wc -l <"$work/.out")" = 9
claim a_picture_is_drawn grep -q "</svg>" "$work/p.svg"
claim with_both_curves test "$(grep -c '<circle' "$work/p.svg")" = 8
claim and_no_number_that_is_none test -z "$(grep -E 'nan|inf' "$work/p.svg")"
run bench "${m[@]}" --bandwidth-mb 0 --sweep capacity=14,64
claim a_point_that_does_not_fit_is_left_out needs_err "do not fit capacity 14; left out"
claim and_the_others_are_measured test "$status" = 0

# Refusals.
refuses() {
    local name=$1 text=$2
    shift 2
    run bench "${l[@]}" "$@"
    claim "${name}_is_refused" refused 2 "$text"
}
refuses an_unknown_key 'unknown key "speed"' --arm speed=1
refuses an_arm_without_a_value 'expected KEY=VALUE, found "full"' --arm full
refuses a_wrong_value "--arm: --attention: expected one of" --arm attention=half
refuses a_model_in_an_arm 'unknown key "model"' --arm model=x
refuses a_sweep_without_values "--sweep: expected KEY=VALUE,VALUE" --sweep capacity=
refuses too_many_arms "expected at most 64 arms" --sweep threads=1,2,3,4,5,6,7,8 --sweep capacity=1,2,3,4,5
refuses too_many_layers "layers: expected at most 3, found 4" --arm layers=4
refuses layers_elsewhere "expected the backend ref" --arm backend=cudacpu,layers=1
refuses a_graph_without_a_device "has no device" --arm exec=graph
refuses a_length_of_nothing "--prompt-length: expected up to" --prompt-length 0
refuses a_list_with_a_gap "--prompt-length: expected up to" --prompt-length 1,,2
refuses two_formats "--json and --csv" --json --csv
refuses a_single_frame "--frames: expected" --frames 1
refuses the_protocol_and_arms "--seed-protocol: it sets --arm itself" --seed-protocol --arm threads=1
refuses a_picture_nowhere "--plot" --plot "$work/absent/p.svg"
run bench "${l[@]}" --prompt-length 65
claim a_prompt_that_fits_nowhere_gives_2 test "$status" = 2
claim and_is_told_so needs_err "no prompt length fits the capacity of any arm"
run bench --model "$work/absent"
claim an_absent_model_is_refused refused 2 "--model"

if ! python3 -c '' 2>/dev/null; then
    echo "no python3: the rest is left out"
    finish
fi

# JSON, and bytes against those of inspect.
bytes_agree() {
    run inspect "$1" --json
    cp "$work/.out" "$work/inspect.json"
    run bench --model "$1" --frames 3 --repeat 2 --prompt-length 12 --bandwidth-mb 1 --profile --json
    cp "$work/.out" "$work/bench.json"
    python3 - "$work/bench.json" "$work/inspect.json" <<'EOP' >"$work/.out" 2>"$work/.err"
import json, sys
b, i = (json.load(open(p)) for p in sys.argv[1:])
cost = b["arms"][0]["frame_bytes"]
frame = i["frame_reads"]
for mine, theirs in (("slow_layers", "slow_layers"), ("head", "head"), ("fast_layers", "fast_layers"),
                     ("fast_head", "fast_head"), ("other", "other")):
    assert cost[mine] == frame[theirs]["bytes"], (mine, cost[mine], frame[theirs])
assert cost["together"] == sum(cost[k] for k in ("slow_layers", "head", "fast_layers", "fast_head", "other"))
assert b["equal"] and len(b["points"]) == 2 and len(b["profiles"]) == 2
for p in b["points"]:
    assert p["kv_first"] == 13 and p["kv_last"] == 14 and p["kv_len"] == 13.5, p
    assert p["move_bytes"] == cost["together"] + 13.5 * cost["kv_position"], p
    assert len(set(p["hash"])) == 2, "prompts are unique"
    s = p["step_s"]
    assert s["n"] == 4 and 0 < s["min"] <= s["q1"] <= s["median"] <= s["q3"] <= s["max"], s
    assert p["read_share"] > 0
prefix, full = b["points"]
assert prefix["hash"] == full["hash"]
# The last step reads kv_len positions, in float32: 14 K and V rows of every layer.
assert prefix["kv_counted_bytes"] == 14 * cost["kv_position"], prefix
assert full["kv_counted_bytes"] > prefix["kv_counted_bytes"]
for p in b["profiles"]:
    assert abs(sum(o["share"] for o in p["ops"]) - 1) < 1e-6
for key in ("cpu", "compiler", "flags", "commit", "date", "vectors"):
    assert b["machine"][key], key
EOP
    status=$?
    err=$(cat "$work/.err")
}
bytes_agree "$work/tiny"
claim bytes_are_those_of_inspect test "$status" = 0
bytes_agree "$work/b"
claim also_with_biases_a_projection_and_float32 test "$status" = 0
finish
