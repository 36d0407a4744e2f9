#!/bin/bash
# SPDX-License-Identifier: MIT
# kvref compare: the verdict as exit status, golden traces, partial traces, switches that it
# recognises, what it links.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"
golden=${srcdir:-.}/golden/lm

# says TEXT: it stands on standard output.
says() { [[ $out == *"$1"* ]]; }
# verdict STATUS TEXT: the exit status, and the last line begins with TEXT.
verdict() { [ "$status" = "$1" ] && [[ $(tail -n 1 "$work/.out") == "$2"* ]]; }

run make-model "$work/a" --preset a --quiet --layout flat
run make-model "$work/l" --preset l --quiet --layout flat
trace() { # OUT MODEL FROM OPTIONS...
    local to=$1 model=$2 from=$3
    shift 3
    run trace --model "$work/$model" --from "$golden/$from.safetensors" -o "$work/$to" "$@"
    [ "$status" = 0 ] || claim "trace_$to" false
}
trace a.st a A --level ops
trace full.st a A --level ops --attention full --capacity 300
trace l.st l L --level layers

# Same.
run compare "$work/a.st" "$work/full.st" --rule exact
claim prefix_and_full_are_equal_bit_for_bit verdict 0 "the same, within limits: 62253 of A's 62253 values"
claim settings_that_differ_are_told says "settings differ: attention: A prefix, B full"
claim work_done_is_shown_and_not_judged says "slow.kv_rows: differs, not judged"
run compare "$golden/A.safetensors" "$work/a.st"
claim the_decoder_agrees_with_upstream verdict 0 "the same, within limits: 62204 of A's 62204 values"
claim forced_codes_are_told says "the same 16 frames in both (B teacher-forced): every step had the same input"
claim tensors_of_one_side_are_listed says "in B alone: candidates, slow.decision, slow.kv_bytes, slow.kv_len, slow.kv_rows"
claim shares_stand_in_a_table_of_layers says "fast L01       0.03"
claim narrow_choices_are_told says "greedy choices: 0 would turn"
run compare "$golden/A.safetensors" "$work/a.st" --rule exact
claim upstream_is_not_equal_to_the_bit verdict 1 "differs"
run compare "$golden/L.safetensors" "$work/l.st"
claim a_trace_of_some_taps_is_enough verdict 0 "the same, within limits: 151188 of A's 151188 values judged, in 8 tensors"
claim many_taps_are_gathered says "slow.v (2)"
run compare "$golden/C.safetensors" "$golden/C.safetensors"
claim cut_rows_compare_with_themselves verdict 0 "the same"

# Parts of a trace.
for level in codes logits; do
    trace "$level.st" a A --level $level
    run compare "$golden/A.safetensors" "$work/$level.st"
    claim "${level}_alone_are_compared" verdict 0 "the same, within limits"
    claim "what_${level}_lack_is_listed" says "in A alone: fast.attn (2), fast.attn_norm (2)"
done

# Differs. A smaller eps than the golden one is the nearest fault.
run make-model "$work/eps" --preset a --quiet --layout flat --set norm_eps=1e-5
trace eps.st eps A --level ops
run compare "$golden/A.safetensors" "$work/eps.st"
claim a_wrong_eps_differs verdict 1 "differs"
claim and_it_is_first_seen_after_the_first_norm says "first divergence: frame 0 (position 2), slow, layer 0, attn_norm, channel 0"
claim both_values_limit_and_rule_are_told says "(T2: 1e-05 of the largest magnitude"
run compare "$golden/A.safetensors" "$work/eps.st" --rule f16
claim which_fp16_cannot_see verdict 0 "the same"
run make-model "$work/unscaled" --preset a --quiet --layout flat --set scale_codebook_embeddings=false
trace unscaled.st unscaled A --level ops
run compare "$golden/A.safetensors" "$work/unscaled.st" --rule f16
claim unscaled_sums_are_seen_in_fp16 verdict 1 "differs"
claim at_the_first_audio_column says "first divergence: frame 0 (position 8), slow, embed, channel 0"

# Rotation.
trace f32.st a A --level layers --rope-table f32
run compare "$work/a.st" "$work/f32.st"
claim other_tables_differ verdict 1 "differs"
claim other_tables_are_recognised says "looks like: K of layer 0 differs by one factor"
claim their_setting_is_told says "settings differ: rope_table: A bf16, B f32"
run make-model "$work/base" --preset a --quiet --layout flat --set rope_base=10000
trace base.st base A --level layers
run compare "$golden/A.safetensors" "$work/base.st"
claim another_base_is_another_rotation says "looks like: K of layer 0 keeps the length of every head but not its direction, position 0 apart"
run compare "$golden/A.safetensors" "$work/eps.st"
claim an_eps_is_no_rotation test "${out/looks like/}" = "$out"

# Free-running.
free() { # OUT OPTIONS...
    local to=$1
    shift
    run trace --model "$work/a" --prompt "$golden/A.safetensors" --level logits -o "$work/$to" "$@"
}
free g.st --temperature 0 --max-new-tokens 12
free g2.st --temperature 0 --max-new-tokens 12 --rope-table f32
free s.st --seed 1 --max-new-tokens 12
free s2.st --seed 2 --max-new-tokens 12
run compare "$work/s.st" "$work/s2.st"
claim another_seed_differs verdict 1 "differs"
claim judging_ends_at_the_first_other_code says "(free-running, or not said): steps after it had other inputs"
claim a_choice_parts_first says "first divergence: a choice, frame 0, "
claim drawn_codes_have_no_excuse says "drawn, not the best ones"
claim and_another_seed_is_named says "looks like: all numbers up to there agree, and the traces name other random numbers"
sed -i 's/"seed":"2"/"seed":"1"/' "$work/s2.st"
run compare "$work/s.st" "$work/s2.st"
claim the_sampler_is_blamed_not_the_arithmetic says "looks like: all numbers up to there agree"
claim the_second_draw_is_suspected says "as when numbers are drawn on demand"
run compare "$work/g.st" "$work/s.st"
claim greedy_and_drawn_codes_are_told_apart says "every code of books 1 and on is the best logit in A ("
run compare "$work/g.st" "$work/g2.st"
claim the_first_other_code_follows_other_numbers test "$status" = 1
free k.st --seed 1 --max-new-tokens 11
run compare "$work/s.st" "$work/k.st"
claim a_column_more_is_recognised says "looks like: A has one column more and is equal before it"
claim and_differs verdict 1 "differs"
free k.st --seed 1 --max-new-tokens 7
run compare "$work/k.st" "$work/s.st"
claim a_run_that_stops_earlier_is_told says "it stops 5 columns before B"
run trace --model "$work/a" --prompt "$golden/A.safetensors" --seed 100 --temperature 1.9 --top-p 1 --top-k 99 \
    --max-new-tokens 9 --level codes -o "$work/go.st"
run trace --model "$work/a" --prompt "$golden/A.safetensors" --seed 100 --temperature 1.9 --top-p 1 --top-k 99 \
    --max-new-tokens 9 --level codes --stop-at-first-end -o "$work/end.st"
run compare "$work/go.st" "$work/end.st"
claim stopping_at_the_first_end_is_recognised says "stops because the first frame drew the end token"

# FP16: the CUDA kernels, executed on the CPU, where they are built in.
run trace --model "$work/a" --from "$golden/A.safetensors" --level ops --backend cudacpu -o "$work/gpu.st"
if [ "$status" = 0 ]; then
    run compare "$golden/A.safetensors" "$work/gpu.st" --rule f16
    claim the_kernels_agree_with_upstream_in_fp16 verdict 0 "the same, within limits: 62204 of A's 62204 values"
    run compare "$golden/A.safetensors" "$work/gpu.st"
    claim and_not_in_float32 verdict 1 "differs"
fi

# Limits of one's own.
echo '{"format": "kvref-limits-1", "taps": {"*": {"rule": "T2", "rel": 0.5}}}' >"$work/wide.json"
echo '{"format": "kvref-limits-1", "taps": {"slow.L01.q": {"rule": "T2", "rel": 1e-9}}}' >"$work/tight.json"
run compare "$golden/A.safetensors" "$work/eps.st" --limits "$work/wide.json"
claim wider_limits_let_more_pass verdict 0 "the same"
run compare "$golden/A.safetensors" "$work/a.st" --limits "$work/tight.json"
claim a_tighter_limit_of_one_tensor_fails verdict 1 "differs"
claim and_names_it says "slow, layer 1, q, head"
run compare "$golden/A.safetensors" "$work/a.st" --limits "$work/a.st"
claim a_file_that_holds_no_limits_is_refused refused 2 "a.st: JSON byte 0: expected '{'"

# JSON.
if python3 -c '' 2>/dev/null; then
    for pair in "a.st eps.st" "s.st s2.st" "a.st a.st" "codes.st a.st" "a.st l.st"; do
        read -r x y <<<"$pair"
        run compare "$work/$x" "$work/$y" --json
        claim "json_of_${x}_and_${y}_agrees_with_the_status" python3 - "$work/.out" "$status" <<'EOF'
import json, sys
d = json.load(open(sys.argv[1]), parse_constant=lambda s: 1 / 0)
assert ["the same", "differs", "cannot tell"].index(d["verdict"]) == int(sys.argv[2])
assert d["format"] == "kvref-compare-1" and d["summary"].startswith(d["verdict"])
if d["verdict"] == "differs":
    assert d["first"] or d["choice"] or d["inputs"]["state"] == "prompts differ"
for t in d["taps"]:
    if t["state"] == "out of limit":
        assert t["first"]["error"] is None or t["first"]["error"] > t["limit"]
        assert t["used"] is None or t["used"] > 1
    if t["state"] == "within" and t["limit"]:
        assert t["used"] <= 1 and t["used"] * t["limit"] <= t["largest_error"] * 1.0001
n = {len(lane["used"]) for lane in d["heat"]["lanes"]}
assert len(n) <= 1
EOF
    done
    run compare "$golden/A.safetensors" "$work/eps.st" --json
    claim json_has_the_first_divergence_in_full python3 - "$work/.out" <<'EOF'
import json, sys
f = json.load(open(sys.argv[1]))["first"]
need = "tensor index frame position layer tap channel a b error limit rule".split()
assert all(k in f for k in need), f
EOF
fi

# Cannot tell.
run compare "$work/a.st" "$work/absent"
claim an_absent_file_gives_2 refused 2 "$work/absent: No such file"
head -c 1000 "$work/a.st" >"$work/short"
run compare "$work/a.st" "$work/short"
claim a_short_file_gives_2 refused 2 "$work/short"
run compare "$work/a.st" "$work/wide.json"
claim another_kind_of_file_gives_2 refused 2 "not a safetensors file"
run compare "$work/a/model.safetensors" "$work/a/model.safetensors"
claim a_checkpoint_is_no_trace verdict 2 "cannot tell, no result of a run is in both traces"
run compare "$work/a.st"
claim two_traces_are_needed test "$status" = 2
run compare "$work/a.st" "$work/a.st" --rule f64
claim an_unknown_rule_is_refused refused 2 "expected one of exact|f32|f16"
run compare "$work/a.st" "$work/l.st"
claim runs_of_other_prompts_differ verdict 1 "differs"
claim the_position_is_told says "first divergence: prompt, column"

# The comparison knows files and limits; no code of the model, the loop or the backends.
if command -v nm >/dev/null; then
    nm -u "${top_builddir:-.}"/base/*diff*.o "${top_builddir:-.}"/base/*limits*.o \
        "${top_builddir:-.}"/tools/*compare*.o >"$work/.out" 2>"$work/.err"
    out=$(sed -n 's/.* U \(\(kvref\|ref\|session\|replay\)_[a-z0-9_]*\)$/\1/p' "$work/.out" |
        grep -vE '^kvref_(file|tensor|dtype|map|out|json|report|grow|compare$|limit|rule|tap_of|tap_parse|t3|diff|rows|side|within|load|is_float|place)' | sort -u)
    claim it_links_no_code_of_the_model test -s "$work/.out" -a -z "$out"
fi

finish
