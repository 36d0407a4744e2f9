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
        claim "a_value_at_row_${row}_of_column_${column}_is_checked" refused 2 "position $column, row $row: expected 0.."
    done
fi
run make-model "$work/toy" --quiet
run trace --model "$work/toy" --text "Hello." --max-new-tokens 4 --seed 5 --temperature 1.5 \
    --top-p 0.97 --top-k 60 -o "$work/text.safetensors"
claim a_text_is_traced test "$status" = 0
run trace --model "$work/toy" --from "$work/text.safetensors" --free --hash --level layers
claim sampling_settings_come_with_a_trace test "$status" = 0
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
refuses an_absent_file "absent" "${m[@]}" --prompt "$work/absent"
refuses a_file_of_another_kind "config.json: not a safetensors file" "${m[@]}" --prompt "$work/a/config.json"
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

finish
