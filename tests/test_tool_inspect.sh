#!/bin/bash
# SPDX-License-Identifier: MIT
# kvref inspect: its figures for the real sizes, the range report, and its verdicts.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"

run make-model "$work/a" --preset a
claim a_model_is_made test "$status" = 0
run inspect "$work/a"
claim a_sound_model_fits succeeded "fits"
claim it_says_what_it_found needs "slow" "fast" "tokenizer" "38 of 38" "surplus" \
    "key/value cache" "in float16" "at capacity 64" "64 positions, 32 for a prompt"
run inspect "$work/a" --capacity 1000 --no-scan
claim capacity_and_scan_are_options needs "at capacity 1000" "not scanned"
run inspect "$work/a" --json
cp "$work/.out" "$work/a.json"
claim json_is_printed succeeded '"fits": true'

run inspect "$work/none"
claim an_absent_model_gives_2 refused 2 "DIR: \"$work/none\""
run inspect "$work/a/config.json"
claim a_file_gives_2 refused 2 "expected a folder, found a file"
run inspect
claim the_folder_is_required refused 2 "DIR: required"
run inspect "$work/a" "$work/a"
claim one_folder_only refused 2 "one operand too many"
run inspect "$work/a" --capacity -1
claim a_negative_capacity_is_refused refused 2 "--capacity: expected a whole number"
run inspect "$work/a" --capacity 2147483648
claim an_overflowing_capacity_is_refused refused 2 "--capacity: expected a whole number"
status=0
"$program" inspect "$work/a" >/dev/full 2>"$work/.err" || status=$?
err=$(cat "$work/.err")
claim a_full_disk_gives_2 refused 2 "standard output"

if ! python3 -c '' 2>/dev/null; then
    echo "no python3: the rest is left out"
    finish
fi

# spoil FILE CODE: python code changes h, the header object, and d, the data as bytearray.
spoil() {
    python3 - "$1" "$2" <<'EOP'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
(n,) = struct.unpack("<Q", raw[:8])
h, d = json.loads(raw[8 : 8 + n]), bytearray(raw[8 + n :])
exec(sys.argv[2])
t = json.dumps(h).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(t)) + t + d)
EOP
}
# change FOLDER CODE: a copy of model a (or $from) whose weights python code has changed.
change() {
    rm -rf "${work:?}/$1"
    cp -r "$work/${from:-a}" "$work/$1"
    spoil "$work/$1/model.safetensors" "$2"
    run inspect "$work/$1"
}
norm='"text_model.model.norm.weight"'
change surplus 'h["extra"] = {"dtype": "U8", "shape": [3], "data_offsets": [len(d), len(d) + 3]}; d += b"abc"'
claim a_surplus_tensor_is_reported_and_fits needs "fits" "surplus      1: extra"
change missing "h['x'] = h.pop($norm)"
claim a_missing_tensor_gives_1_and_its_name refused 1 "norm.weight: missing"
change shape "h['text_model.model.embeddings.weight']['shape'].reverse()"
claim a_wrong_shape_gives_1_and_both_shapes refused 1 "shape [24, 320], config needs [320, 24]"
claim whose_tokenizer_is_described_all_the_same needs "tokenizer    320 ids, 32 semantic 256..287, end 250"
run inspect "$work/shape" --json
claim in_json_too needs '"tokenizer": true'
change shapes "[h[k]['shape'].reverse() for k in h if 'wo.weight' in k]"
claim every_wrong_shape_is_listed needs "layers.0.attention.wo.weight: shape [32, 24]" \
    "layers.1.attention.wo.weight: shape [32, 24]" "audio_decoder.layers.1.attention.wo.weight: shape"
change both "h['x'] = h.pop($norm); h['y'] = h.pop('audio_decoder.norm.weight')"
claim every_problem_is_listed needs "norm.weight: missing" "fast_norm.weight: missing"
change dtype "h[$norm]['dtype'] = 'I16'"
claim a_wrong_dtype_gives_1 refused 1 "dtype I16"
put="b = h[$norm]['data_offsets'][0]; d[b:b+16] = struct.pack('<8H', *w)"
change range "w = [0x4780, 0x477F, 0xC800, 0x2F00, 0x0001, 0x3880, 0x387F, 0x3F80]; $put"
# 65536 and -131072 overflow, 65280 does not; 2^-33 and the subnormal become zero; 2^-14 and 1
# are exact, and so is 1.9921875 * 2^-15, which needs 8 of the 9 bits left there
claim float16_losses_are_counted needs "2 would become infinite, 2 zero, 0 another value"
claim and_the_tensor_is_named needs "most in text_model.model.norm.weight"
change inexact "w = [0x3401, 0x3F80] * 4; $put"
claim lost_bits_are_counted needs "0 would become infinite, 0 zero, 4 another value"
change nan "w = [0x7FC0, 0x7F80, 0xFF80, 0x3F80] * 2; $put"
claim weights_that_are_no_numbers_give_1 refused 1 "2 NaN and 4 infinite"
bad='h["extra"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(d), len(d) + 4]}; d += b"\xff" * 4'
change unused "$bad"
claim values_of_surplus_tensors_do_not_count test "$status" = 0
claim nor_does_any_of_them_enter_the_range needs "0 NaN" "surplus      1: extra"
run inspect "$work/nan" --no-scan
claim which_needs_the_scan test "$status" = 0
change name "h['a\\x1b[2Jb'] = h.pop($norm)"
claim hostile_names_do_not_reach_the_terminal test "$(printf %s "$out" | tr -d '\033')" = "$out"

# q, k and v apart, biases too: what the loader accepts is accepted, and counted as it lies.
run make-model "$work/b" --preset b --layout flat --quiet
run inspect "$work/b" --json
cp "$work/.out" "$work/b.json"
run make-model "$work/split" --preset b --layout flat --split-qkv --quiet
run inspect "$work/split"
claim split_weights_and_biases_fit succeeded "61 of 61"
run inspect "$work/split" --json
claim a_frame_reads_the_same_of_split_as_of_fused python3 - "$work/b.json" "$work/.out" <<'EOF'
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
assert b["tensors"]["demanded"] == a["tensors"]["demanded"] + 2 * 6  # weights of 4 layers, biases of 2
assert a["frame_reads"] == b["frame_reads"] and a["tensors"]["bytes"] == b["tensors"]["bytes"]
EOF
from="split"
change half "h['x'] = h.pop('layers.1.attention.wk.bias')"
claim a_missing_part_is_named refused 1 "layers.1.attention.wk.bias: missing, config needs [24]"
claim and_is_the_only_problem test "$(grep -c ^problem "$work/.out")" = 1
change part "h['fast_layers.1.attention.wv.weight']['shape'].reverse(); h['layers.0.attention.wq.bias']['dtype'] = 'I16'"
claim parts_are_checked_one_by_one needs "wv.weight: shape [16, 8]" "wq.bias: dtype I16"
change both "h['layers.0.attention.wqkv.bias'] = {'dtype': 'F32', 'shape': [1], 'data_offsets': [len(d), len(d) + 4]}; d += b'abcd'"
claim fused_and_split_together_are_refused_as_by_the_loader refused 2 "found both"
from="a"

# The real sizes: a header as the official files have it over data that is a hole.
python3 - "$work/real" <<'EOF'
import json, os, struct, sys
os.mkdir(sys.argv[1])
D, H, G, E, F, V, K, N = 2560, 32, 8, 128, 9728, 155776, 4096, 10
config = {
    "model_type": "fish_qwen3_omni", "semantic_start_token_id": 151678,
    "semantic_end_token_id": 155773, "eos_token_id": 151645,
    "text_config": {"vocab_size": V, "n_layer": 36, "n_head": H, "n_local_heads": G, "head_dim": E,
                    "dim": D, "intermediate_size": F, "rope_base": 1000000, "norm_eps": 1e-6,
                    "max_seq_len": 32768, "attention_qk_norm": True},
    "audio_decoder_config": {"vocab_size": K, "num_codebooks": N, "n_layer": 4,
                             "attention_qk_norm": False},
}
json.dump(config, open(sys.argv[1] + "/config.json", "w"))
t = {"text_model.model.embeddings.weight": [V, D], "text_model.model.norm.weight": [D],
     "audio_decoder.codebook_embeddings.weight": [K * N, D], "audio_decoder.embeddings.weight": [K, D],
     "audio_decoder.norm.weight": [D], "audio_decoder.output.weight": [K, D]}
for side, layers in (("text_model.model", 36), ("audio_decoder", 4)):
    for l in range(layers):
        p = f"{side}.layers.{l}."
        t.update({p + "attention.wqkv.weight": [(H + 2 * G) * E, D], p + "attention.wo.weight": [D, H * E],
                  p + "attention_norm.weight": [D], p + "ffn_norm.weight": [D],
                  p + "feed_forward.w1.weight": [F, D], p + "feed_forward.w3.weight": [F, D],
                  p + "feed_forward.w2.weight": [D, F]})
        if layers == 36:
            t.update({p + "attention.q_norm.weight": [E], p + "attention.k_norm.weight": [E]})
header, at = {}, 0
for name, shape in t.items():
    n = 2
    for d in shape:
        n *= d
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
    at += n
text = json.dumps(header).encode()
with open(sys.argv[1] + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(8 + len(text) + at)
EOF
run inspect "$work/real" --no-scan
claim the_real_sizes_fit test "$status" = 0
claim the_real_tensors_are_counted needs "358 of 358" "4561852416 values"
claim a_frame_of_the_real_model_reads_what_it_must needs 3633509376 10488320 3633500160 94371840
claim the_real_cache_takes_147456_bytes_a_position_at_16_bit needs "147456 at 16 bit" "4.8 GB at 16 bit"

python3 - "$work/a.json" "$work" <<'EOF' >"$work/.out" 2>&1
import json, sys
o = json.load(open(sys.argv[1]))
r = o["frame_reads"]
assert o["tensors"]["demanded"] == o["tensors"]["found"] == 38 and o["tensors"]["surplus"] == 0
# by hand: a slow layer of case A has 64*24 + 24*32 + 2*8 + 2*24 + 3*40*24 values
layer = 64 * 24 + 24 * 32 + 2 * 8 + 2 * 24 + 3 * 40 * 24
assert r["slow_layers"]["values"] == 2 * layer
assert r["fast_layers"]["values"] == 3 * 2 * (layer - 2 * 8)
assert r["head"]["values"] == 33 * 24 and r["fast_head"]["values"] == 3 * 32 * 24
assert r["kv_bytes_per_position_f32"] == 2 * 2 * 2 * 8 * 4
assert o["range"]["nan"] == 0 and o["range"]["values"] == o["tensors"]["values"]
EOF
status=$?
claim json_figures_equal_those_by_hand test "$status" = 0

# The codec.
run make-model "$work/c" --codec both
run inspect "$work/c"
claim the_codec_is_compared needs "codec.pth, named by parametrizations" "382 of 382" "0 dead" \
    "10 books of 128 and 128 codes; frames of 2048 samples at 44100 Hz"
claim and_reckoned needs "decoding uses 168755 values" "encoding 263668" "fits"
rm "$work/c/codec.pth"
run inspect "$work/c" --no-scan
claim without_pth_the_other_form_is_read needs "codec.safetensors" "382 of 382" "fits"
run inspect "$work/c" --json
claim json_has_the_codec needs '"decode_values": 168755' '"naming": "parametrizations"' '"dead": 0' \
    '"opened": true'
rm "$work/a/codec.safetensors"
run inspect "$work/a"
claim a_model_without_codec_fits needs "no sound can be made" "fits"
# codec FOLDER CODE: a copy of model c whose codec python code has changed.
codec() {
    rm -rf "${work:?}/$1"
    cp -r "$work/c" "$work/$1"
    spoil "$work/$1/codec.safetensors" "$2"
    run inspect "$work/$1"
}
codec gone "h['x'] = h.pop('decoder.model.3.block.0.alpha')"
claim a_missing_tensor_of_the_codec_gives_1 test "$status" = 1
claim and_is_named needs "codec: decoder.model.3.block.0.alpha: missing" "381 of 382" "surplus: x"
codec dead "h['quantizer.pre_module.causal_mask'] = {'dtype': 'U8', 'shape': [2, 2],
    'data_offsets': [len(d), len(d) + 4]}; d += bytes([255]) * 4"
claim dead_buffers_are_counted_and_fit needs "1 dead (4 bytes)" "fits"
codec shape "t = h['decoder.model.3.block.0.alpha']; t['shape'] = [t['shape'][1], 1, 1]"
claim a_shape_of_the_codec_gives_1 test "$status" = 1
claim and_is_named_too needs "decoder.model.3.block.0.alpha: shape"
codec nan "o = h['decoder.model.3.block.0.alpha']['data_offsets'][0]; d[o : o + 4] = bytes([0, 0, 192, 127])"
claim a_NaN_of_the_codec_gives_1 test "$status" = 1
claim and_is_counted needs "codec: weights: 1 NaN and 0 infinite"
codec old "h = {'generator.' + k.replace('parametrizations.weight.original0', 'weight_g').replace(
    'parametrizations.weight.original1', 'weight_v'): v for k, v in h.items() if k[0] != '_'}"
claim older_names_are_told needs "weight_g and weight_v, under \"generator.\"" "382 of 382" "fits"
run make-model "$work/b" --preset a
cp "$work/b/codec.safetensors" "$work/b/codec.json" "$work/c"
run inspect "$work/c"
claim a_codec_of_other_books_gives_1 test "$status" = 1
claim and_says_so needs "codec: 4 books, the model has 10"
head -c 1000 "$work/b/codec.safetensors" >"$work/c/codec.safetensors"
run inspect "$work/c"
claim a_broken_codec_gives_2 refused 2 "codec.safetensors"
finish
