#!/bin/bash
# SPDX-License-Identifier: MIT
# kvref trace: golden runs replayed, hashes that must not change, inputs, refusals.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"
golden=${srcdir:-.}/golden/lm

# Golden runs: frames drawn here equal upstream's.
replay() {
    local name=$1 preset=$2
    shift 2
    run make-model "$work/$preset" --preset "$preset" --quiet --layout flat
    run trace --model "$work/$preset" --from "$golden/$name.safetensors" --free --hash --level codes "$@"
    claim "golden_${name}_frames_are_drawn_again" test "$status" = 0
    claim "golden_${name}_is_said_to_be_equal" needs_err "frames equal"
}
replay A a --temperature 0.9 --top-p 0.95 --top-k 8 --seed 42
replay B b --temperature 0.9 --top-p 0.95 --top-k 8 --seed 42
replay L l --temperature 0.8 --top-p 0.8 --top-k 30 --seed 15
run trace --model "$work/a" --from "$golden/A.safetensors" --free --hash --level codes --seed 43
claim another_seed_is_told_by_status_1 test "$status" = 1
claim and_the_frame_is_named needs_err "frames differ from those of"

# The same bits whatever may not matter.
a=(--model "$work/a" --from "$golden/A.safetensors" --level ops)
run trace "${a[@]}" --hash
hash=$out
claim a_hash_is_16_digits test "${#hash}" = 16
for same in "--threads 1" "--threads 3" "--capacity 40" "--capacity 300" "--capacity 4096" \
    "--seed 7" "--attention full"; do
    # shellcheck disable=SC2086
    run trace "${a[@]}" --hash $same
    claim "the_hash_is_the_same_with${same// /_}" test "$out" = "$hash"
done
run trace "${a[@]}" --hash --rope-table f32
claim another_table_gives_another_hash test "$status" = 0 -a "$out" != "$hash"
for level in codes logits layers; do
    run trace --model "$work/a" --from "$golden/A.safetensors" --level $level --hash
    claim "level_${level}_has_its_own_hash" test "$status" = 0 -a "$out" != "$hash"
done

# Files.
run trace "${a[@]}" -o "$work/t.safetensors"
claim a_trace_is_written succeeded "hash $hash"
run trace --model "$work/a" --from "$work/t.safetensors" --level ops --hash
claim a_trace_can_be_traced_again test "$out" = "$hash"
run trace --model "$work/a" --prompt "$work/t.safetensors" --forced "$work/t.safetensors" --level ops --hash
claim prompt_and_forced_frames_can_come_apart test "$out" = "$hash"
if python3 -c '' 2>/dev/null; then
    python3 - "$work" <<'EOF'
import json, struct, sys
raw = open(sys.argv[1] + "/t.safetensors", "rb").read()
(n,) = struct.unpack("<Q", raw[:8])
h = json.loads(raw[8 : 8 + n])
def npy(name, rows, columns):
    head = str({"descr": "<i4", "fortran_order": True, "shape": (rows, columns)}).encode()
    head += b" " * (-(10 + len(head) + 1) % 64) + b"\n"
    a, b = h[name]["data_offsets"]
    out = b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + raw[8 + n + a : 8 + n + b]
    open(f"{sys.argv[1]}/{name}.npy", "wb").write(out)
for name in ("prompt", "frames"):
    columns, rows = h[name]["shape"]
    npy(name, rows, columns)  # time-major in the trace is Fortran order of [rows, columns]
m = h["__metadata__"]
need = ["format", "program", "config", "capacity", "attention", "seed", "temperature", "stop", "noise", "rope_table"]
missing = [k for k in need if k not in m]
have = ["prompt", "frames", "candidates", "slow.L00.k", "slow.logits", "fast.logits", "slow.L01.ffn_act"]
missing += [k for k in have if k not in h]
open(sys.argv[1] + "/.missing", "w").write(" ".join(missing))
EOF
    claim the_trace_describes_itself test ! -s "$work/.missing"
    run trace --model "$work/a" --prompt "$work/prompt.npy" --forced "$work/frames.npy" --level ops --hash
    claim npy_files_do_as_well test "$out" = "$hash"
    run trace "${a[@]}" --attention full -o "$work/full.safetensors"
    python3 - "$work/t.safetensors" "$work/full.safetensors" <<'EOF' >"$work/.out" 2>&1
import json, struct, sys
rows = []
for path in sys.argv[1:]:
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    t = json.loads(raw[8 : 8 + n])["slow.kv_rows"]
    a, b = t["data_offsets"]
    rows.append(struct.unpack(f"<{(b - a) // 8}q", raw[8 + n + a : 8 + n + b])[2:])  # decode steps
assert rows[0] == tuple(21 + i // 2 for i in range(30)), rows[0]  # kv_len in each of two layers
assert rows[1] == (2 * 64,) * 30, rows[1]  # the capacity, for two query heads each
EOF
    status=$?
    claim prefix_reads_kv_len_rows_and_full_the_capacity test "$status" = 0
    for bad in "0 0 320" "0 19 -1" "2 7 32"; do
        read -r row column value <<<"$bad"
        python3 - "$work" "$row" "$column" "$value" <<'EOF'
import struct, sys
raw = bytearray(open(sys.argv[1] + "/prompt.npy", "rb").read())
row, column, value = map(int, sys.argv[2:])
struct.pack_into("<i", raw, len(raw) - 4 * 5 * 20 + 4 * (5 * column + row), value)
open(sys.argv[1] + "/bad.npy", "wb").write(raw)
EOF
        run trace --model "$work/a" --prompt "$work/bad.npy" --hash
        claim "a_value_at_row_${row}_of_column_${column}_is_checked" refused 2 "column $column, row $row: expected 0.."
    done
fi
# One NaN among the weights: the trace is written and is not taken for a good one.
if python3 -c '' 2>/dev/null; then
    cp -r "$work/a" "$work/nan"
    python3 - "$work/nan/model.safetensors" <<'EOF'
import json, struct, sys
raw = bytearray(open(sys.argv[1], "rb").read())
(n,) = struct.unpack("<Q", raw[:8])
h = json.loads(raw[8 : 8 + n])
name = next(k for k in h if k.endswith("norm.weight") and "layers" not in k and "fast" not in k and "audio" not in k)
at = 8 + n + h[name]["data_offsets"][0]
raw[at : at + 2] = b"\xc0\x7f"
open(sys.argv[1], "wb").write(raw)
EOF
    run trace --model "$work/nan" --from "$golden/A.safetensors" --level logits -o "$work/nan.safetensors"
    claim a_nan_gives_status_1 test "$status" = 1 -a -s "$work/nan.safetensors"
    claim and_its_tensor_and_row_are_named needs_err "row 0 holds a NaN or an infinity"
fi
run make-model "$work/toy" --quiet
run trace --model "$work/toy" --text "Hello." --max-new-tokens 4 --seed 5 --temperature 1.5 \
    --top-p 0.97 --top-k 60 -o "$work/text.safetensors"
claim a_text_is_traced test "$status" = 0
run trace --model "$work/toy" --from "$work/text.safetensors" --free --hash --level layers
claim sampling_settings_come_with_a_trace test "$status" = 0
# Every setting that can change what comes out.
toy=(--model "$work/toy" --text Hello. --max-new-tokens 3)
again() {
    run trace --model "$work/${2:-toy}" --from "$work/r.safetensors" --free --level codes -o "$work/r2.safetensors"
    claim "$1" test "$status" = 0
}
run trace "${toy[@]}" --noise counter --sample 2 -o "$work/r.safetensors"
again noise_and_sample_come_with_a_trace
run trace --model "$work/toy" --from "$work/r.safetensors" --free --hash --noise mt19937
claim an_option_comes_before_what_is_recorded test "$status" = 1
run trace --model "$work/toy" --from "$work/r.safetensors" --free --hash --sample 0
claim so_does_the_sample test "$status" = 1
run trace --model "$work/a" --from "$golden/A.safetensors" --free --level codes --seed 100 --temperature 1.9 \
    --top-p 1 --top-k 99 --max-new-tokens 3 --stop-at-first-end --keep-last-frame --rope-table f32 \
    --capacity 99 -o "$work/r.safetensors"
claim the_prefill_draws_the_end test "$status" = 1 -a "${out#*then 1 frames, stopped by end}" != "$out"
again flags_come_with_a_trace a
if python3 -c '' 2>/dev/null; then
    claim options_are_recorded_again python3 - "$work/r.safetensors" "$work/r2.safetensors" <<'EOF'
import json, struct, sys
def meta(path):
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + n])["__metadata__"]
a, b = map(meta, sys.argv[1:])
assert a.pop("capacity") == "99" and b.pop("capacity") == "64"  # which cannot change anything
assert a == b, (a, b)
want = {"stop_at_first_end": "true", "keep_last_frame": "true", "rope_table": "f32", "sample": "0",
        "frame_base": "0", "frames_before": "0", "linear": "exact", "top_k": "99", "stop": "end"}
assert want.items() <= a.items(), a
EOF
fi
run trace "${toy[@]}" --rope-table f32 --level layers --hash
hash=$out
run trace "${toy[@]}" --rope-table f32 -o "$work/r.safetensors"
run trace --model "$work/toy" --from "$work/r.safetensors" --level layers --hash
claim the_rope_table_comes_with_forced_frames_too test "$out" = "$hash"
for noise in mt19937 counter; do
    run generate --model "$work/toy" --text "<|speaker:0|>One.<|speaker:1|>Two." --chunk-length 10 --samples 2 \
        --max-new-tokens 3 --noise $noise -o "$work/s.npy" --trace "$work/s.safetensors" --trace-level codes
    cp "$work/s_1_1.safetensors" "$work/r.safetensors"
    again "the_last_batch_of_the_last_sample_is_drawn_again_from_$noise"
done
spoil() {
    run trace "${toy[@]}" -o "$work/r.safetensors"
    sed -i "s/$1/$2/" "$work/r.safetensors"
    run trace --model "$work/toy" --from "$work/r.safetensors" --free --hash
    claim "a_recorded_${3}_is_refused" refused 2 "$4"
}
spoil '"bf16"' '"bf17"' false_table "r.safetensors: setting rope_table: --rope-table: expected one of"
spoil '"keep_last_frame":"false"' '"keep_last_frame":"falsE"' false_flag "setting keep_last_frame: expected true or false"

run generate --model "$work/toy" --text "Hello." --max-new-tokens 4 -o "$work/g.npy" \
    --trace "$work/g.safetensors" --trace-level layers
run trace --model "$work/toy" --from "$work/g.safetensors" --free --hash --level layers
claim generate_and_trace_agree test "$status" = 0

run trace --model "$work/toy" --from "$work/g.safetensors" --free --hash --max-new-tokens 3
claim fewer_frames_are_other_frames test "$status" = 1
claim and_the_missing_one_is_named needs_err "at frame 3"
run generate --model "$work/toy" --text "Hello." --max-new-tokens 4 --keep-last-frame -o "$work/k.npy"
run trace --model "$work/toy" --from "$work/g.safetensors" --hash
hash=$out
run trace --model "$work/toy" --prompt "$work/g.safetensors" --forced "$work/k.npy" --hash
claim codes_alone_can_be_forced test "$status" = 0 -a "$out" = "$hash"

# Books beyond any real model's: no column is lost.
run make-model "$work/wide" --preset b --set num_codebooks=1024 --set max_seq_len=256 --quiet
run trace --model "$work/wide" --text a --max-new-tokens 1 -o "$work/wide.safetensors" --level codes
run trace --model "$work/wide" --from "$work/wide.safetensors" --level codes --hash
claim frames_of_1024_books_are_read test "$status" = 0
run generate --model "$work/toy" --text "Hello." --max-new-tokens 1 -o "$work/none.npy"
run trace --model "$work/toy" --prompt "$work/none.npy" --hash
claim codes_without_a_frame_are_no_prompt refused 2 "expected at least one position, found 0"

# Refusals.
refuses() {
    local name=$1 text=$2
    shift 2
    rm -f "$work/x"
    run trace -o "$work/x" "$@"
    claim "${name}_is_refused" refused 2 "$text"
    claim "${name}_writes_nothing" test ! -e "$work/x"
}
m=(--model "$work/a")
refuses no_input "expected one of them" "${m[@]}"
refuses text_and_prompt "expected one of them" "${m[@]}" --text a --prompt "$work/t.safetensors"
refuses free_without_from "--free: expected --from" "${m[@]}" --prompt "$work/t.safetensors" --free
refuses an_absent_file "--prompt: $work/absent" "${m[@]}" --prompt "$work/absent"
refuses a_file_of_another_kind "--prompt: $work/a/config.json: not a safetensors file" "${m[@]}" --prompt "$work/a/config.json"
refuses a_file_without_prompt 'expected a tensor "prompt"' "${m[@]}" --prompt "$work/a/model.safetensors"
refuses frames_of_another_model "expected I32 [positions, 11]" --model "$work/toy" --from "$golden/A.safetensors"
refuses a_prompt_past_the_capacity "capacity" "${m[@]}" --from "$golden/A.safetensors" --capacity 20
refuses an_unknown_level "expected one of codes|logits" "${m[@]}" --text a --level everything
run trace "${m[@]}" --from "$golden/A.safetensors"
claim an_output_is_required refused 2 "--output and --hash"
run trace "${m[@]}" --from "$golden/A.safetensors" -o -
claim a_trace_needs_a_file refused 2 "expected a file name"
run trace "${m[@]}" --from "$golden/A.safetensors" -o /dev/full
claim a_full_disk_gives_2 refused 2 "/dev/full"

# Output names: one of the model's files, one too long for a name; a noise path of odd bytes.
cp "$work/a/config.json" "$work/before"
for name in config.json model.safetensors new.safetensors; do
    run trace --model "$work/a" --from "$golden/A.safetensors" --level codes -o "$work/a/../a/$name"
    claim "${name}_of_the_model_is_not_replaced" refused 2 "none of the files of $work"
done
claim the_model_is_as_before cmp "$work/a/config.json" "$work/before"
run trace --model "$work/a" --from "$golden/A.safetensors" --level codes -o "$work/$(printf '%0300d' 0)"
claim a_name_that_is_too_long_is_refused_at_once refused 2 "File name too long"
if python3 -c '' 2>/dev/null; then
    noise=$work/$(printf 'odd\377.npy')
    python3 - "$noise" <<'EOF'
import sys
text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 40, 162), }"
text += b" " * (117 - len(text)) + b"\n"
with open(sys.argv[1], "wb") as f:
    f.write(b"\x93NUMPY\1\0" + bytes([len(text), 0]) + text)
    f.truncate(f.tell() + 40 * 162 * 4)
EOF
    run trace --model "$work/a" --prompt "$golden/A.safetensors" --noise "file:$noise" --level codes \
        --max-new-tokens 2 -o "$work/odd.safetensors"
    claim a_noise_path_of_odd_bytes_does_not_spoil_the_trace test "$status" = 0 -a -s "$work/odd.safetensors"
fi

finish
