#!/bin/bash
# SPDX-License-Identifier: MIT
# kvref decode and kvref encode: what must not change samples and codes, odd codes, odd sound
# files, spoilt codecs, broken output.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"

run make-model "$work/m" --quiet
claim the_toy_model_has_a_codec test -s "$work/m/codec.safetensors" -a -s "$work/m/codec.json"
model=(--model "$work/m")
python3 -c '' 2>/dev/null || {
    echo "skipped: python3, which makes the files, is not there"
    exit 77
}
cat >"$work/npy.py" <<'EOP'
"""npy.py FILE DESCR FORTRAN SHAPE EXPRESSION: value of element i, in file order."""
import struct, sys
path, descr, fortran, shape, rule = sys.argv[1:]
shape = tuple(int(n) for n in shape.split(","))
n = 1
for d in shape:
    n *= d
code = {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
        "f4": "f", "f8": "d", "b1": "?"}[descr[1:]]
head = str({"descr": descr, "fortran_order": fortran == "F", "shape": shape}).encode()
head += b" " * (-(10 + len(head) + 1) % 64) + b"\n"
order = ">" if descr[0] == ">" else "<"
with open(path, "wb") as f:
    f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head)
    f.write(b"".join(struct.pack(order + code, eval(rule)) for i in range(n)))
EOP
# npy NAME DESCR FORTRAN SHAPE EXPRESSION
npy() { python3 "$work/npy.py" "$work/$1.npy" "${@:2}"; }
# hash: of the last report.
hash_of() { sed -n 's/.*hash \([0-9a-f]*\).*/\1/p' <<<"$out"; }

# What must not matter.
npy c '<i8' C 10,30 'i * 37 % 128'
run decode "$work/c.npy" "${model[@]}" -o "$work/c.wav"
claim codes_become_sound succeeded "30 frames, 61440 samples, 1.393 s at 44100 Hz"
claim clipped_samples_and_rate_are_said needs "0 clipped" "real-time factor"
claim the_file_is_wav test "$(head -c 4 "$work/c.wav")" = RIFF
claim a_frame_is_2048_samples test "$(stat -c %s "$work/c.wav")" = $((44 + 2 * 61440))
blas=$(hash_of)
run decode "$work/c.npy" "${model[@]}" --conv exact -o "$work/e.wav"
exact=$(hash_of)
claim exact_has_other_bits test "$exact" != "$blas"
for n in 1 2 3; do
    run decode "$work/c.npy" "${model[@]}" --threads $n -o "$work/t.wav"
    claim "$n threads_give_the_same_file" same "$work/c.wav" "$work/t.wav"
    run decode "$work/c.npy" "${model[@]}" --conv exact --threads $n -o "$work/t.wav"
    claim "exact_with_$n threads_too" same "$work/e.wav" "$work/t.wav"
done
run decode "$work/c.npy" --codec "$work/m/codec.safetensors" -o "$work/t.wav"
claim the_codec_can_be_named same "$work/c.wav" "$work/t.wav"
run decode "$work/c.npy" --codec "$work/m" -o "$work/t.wav"
claim or_its_folder same "$work/c.wav" "$work/t.wav"
"$program" decode "$work/c.npy" "${model[@]}" -o - >"$work/pipe.wav" 2>"$work/.err"
claim a_dash_writes_to_standard_output same "$work/c.wav" "$work/pipe.wav"
claim and_the_report_to_the_other grep -q "61440 samples" "$work/.err"
run decode "$work/c.npy" "${model[@]}" -o "$work/c.wav"
claim an_existing_file_is_replaced test "$status" = 0
run make-model "$work/p" --codec pth --quiet
run decode "$work/c.npy" --model "$work/p" -o "$work/t.wav"
claim a_pth_codec_gives_the_same_sound same "$work/c.wav" "$work/t.wav"
npy f '<i4' F 10,30 '(i % 10 * 30 + i // 10) * 37 % 128'
run decode "$work/f.npy" "${model[@]}" -o "$work/t.wav"
claim fortran_order_is_the_same_sound same "$work/c.wav" "$work/t.wav"
for descr in '|i1' '|u1' '<i2' '>i2' '<u2' '>u4' '>i8' '<u8'; do
    npy d "$descr" C 10,30 'i * 37 % 128'
    run decode "$work/d.npy" "${model[@]}" -o "$work/t.wav"
    claim "dtype_$descr is_the_same_sound" same "$work/c.wav" "$work/t.wav"
done

# Formats: one piece is 25 frames; 30 are decoded above, their first 26 must begin alike.
npy s '<i8' C 10,26 '(i // 26 * 30 + i % 26) * 37 % 128'
run decode "$work/s.npy" "${model[@]}" -o "$work/s.wav"
claim a_prefix_of_codes_is_a_prefix_of_the_sound cmp -s -i 44 -n $((26 * 4096)) "$work/c.wav" "$work/s.wav"
for format in pcm16 float pcm24 flac; do
    run decode "$work/c.npy" "${model[@]}" --format $format -o "$work/$format.out"
    claim "format_${format}_has_the_same_samples" test "$(hash_of)" = "$blas"
    run encode "$work/$format.out" "${model[@]}" -o "$work/$format.npy"
    claim "and_is_read_back_as_long_$format" needs "44100 Hz, 1 channels, 61440 samples"
done
claim pcm16_is_the_default same "$work/c.wav" "$work/pcm16.out"
claim flac_holds_the_samples_of_wav same "$work/pcm16.npy" "$work/flac.npy"
claim flac_is_another_container test "$(head -c 4 "$work/flac.out")" = fLaC
run decode "$work/c.npy" "${model[@]}" -o "$work/c.FLAC"
claim the_suffix_chooses_flac same "$work/c.FLAC" "$work/flac.out"
claim float_is_four_bytes test "$(stat -c %s "$work/float.out")" -gt $((4 * 61440))
run decode "$work/c.npy" "${model[@]}" --json -o "$work/c.wav"
claim json_is_reported needs '"samples": 61440' '"clipped": 0' '"codes_lowered": 0' '"peak"' \
    '"real_time_factor"' '"sample_rate": 44100'
run decode "$work/c.npy" "${model[@]}" --verbose -o "$work/c.wav"
claim verbose_says_which_core needs_err "OpenBLAS core"

# Codes.
npy top '<i8' C 10,3 '127'
npy high '<i8' C 10,3 '2147483647 if i % 3 else 128'
run decode "$work/top.npy" "${model[@]}" -o "$work/t.wav"
run decode "$work/high.npy" "${model[@]}" -o "$work/h.wav"
claim codes_above_the_last_count_as_the_last same "$work/t.wav" "$work/h.wav"
claim and_are_counted needs_err "30 codes above the last"
refuses() {
    local name=$1 text=$2
    shift 2
    rm -f "$work/x.wav"
    run decode -o "$work/x.wav" "$@"
    claim "${name}_is_refused" refused 2 "$text"
    claim "${name}_writes_nothing" test ! -e "$work/x.wav"
}
# bad NAME TEXT NPY-ARGUMENTS...
bad() {
    npy bad "${@:3}"
    refuses "$1" "$2" "$work/bad.npy" "${model[@]}"
}
bad a_negative_code "code of book 1, frame 2: expected 0 to 127, found -1" '<i8' C 10,3 '-(i == 5)'
bad a_code_past_32_bits "book 0, frame 1 does not fit 32 bits" '<i8' C 10,3 '(i == 1) << 40'
bad too_few_books "the codec has 10 books, found 9" '<i8' C 9,3 0
bad too_many_books "1 to 10 books, found shape (11, 3)" '<i8' C 11,3 0
bad frames_before_books "the codec has 10 books, found 3" '<i8' C 3,10 0
bad no_frames "there is not one frame" '<i8' C 10,0 0
bad one_axis "expected 2 axes" '<i8' C 30 0
bad three_axes "expected 2 axes" '<i8' C 1,10,3 0
bad float_codes "expected an integer dtype" '<f4' C 10,3 0
bad bool_codes "expected an integer dtype" '|b1' C 10,3 0
for n in 0 5 9 40 127 200 2527; do
    head -c $n "$work/c.npy" >"$work/cut.npy"
    refuses "codes_cut_at_$n" "cut.npy" "$work/cut.npy" "${model[@]}"
done
(cat "$work/c.npy"; echo) >"$work/more.npy"
refuses codes_with_more_behind "more.npy" "$work/more.npy" "${model[@]}"
refuses absent_codes "CODES: $work/none.npy" "$work/none.npy" "${model[@]}"
refuses a_folder_of_codes "$work" "$work" "${model[@]}"
refuses sound_as_codes "c.wav" "$work/c.wav" "${model[@]}"
refuses no_codec "expected exactly one of them, found neither" "$work/c.npy"
refuses two_codecs "expected exactly one of them, found both" "$work/c.npy" "${model[@]}" --codec x
refuses an_absent_codec "--codec: $work/none" "$work/c.npy" --codec "$work/none"
refuses an_absent_model "--model: \"$work/none\"" "$work/c.npy" --model "$work/none"
refuses a_file_as_model "expected a folder, found a file" "$work/c.npy" --model "$work/c.npy"
mkdir "$work/bare"
refuses a_folder_without_codec "codec.pth or codec.safetensors" "$work/c.npy" --model "$work/bare"
refuses codes_as_codec "c.npy" "$work/c.npy" --codec "$work/c.npy"
refuses an_unknown_format "expected one of auto|pcm16" "$work/c.npy" "${model[@]}" --format mp3
refuses threads_below_0 "--threads: expected" "$work/c.npy" "${model[@]}" --threads -1
refuses an_unknown_variant "expected one of blas|exact" "$work/c.npy" "${model[@]}" --conv fft
run decode "$work/c.npy" "${model[@]}" -o "$work/x.mp3"
claim a_name_of_another_format_is_refused refused 2 "expected a name in .wav or .flac"
run decode "${model[@]}" -o "$work/x.wav"
claim codes_are_required refused 2 "CODES: required"
run decode "$work/c.npy" "${model[@]}"
claim the_output_is_required refused 2 "--output: required"

# Spoilt codecs. at TENSOR: where its data begins in the file, then its bytes.
at() {
    local head
    head=$(od -An -tu8 -N8 "$work/m/codec.safetensors")
    head -c $((head + 8)) "$work/m/codec.safetensors" | grep -ao "\"$1\":{[^}]*}" |
        sed -n 's/.*\[\([0-9]*\), *\([0-9]*\)\]}$/\1 \2/p' |
        { read -r from to && echo $((8 + head + from)) $((to - from)); }
}
# spoil TENSOR COMMAND: the bytes of a tensor come from the command.
spoil() {
    read -r from size < <(at "$1")
    head -c "$size" <("${@:2}") | dd of="$work/m2/codec.safetensors" bs=64k seek="$from" \
        oflag=seek_bytes conv=notrunc status=none
}
fresh() { rm -rf "$work/m2"; cp -r "$work/m" "$work/m2"; }
nan() { printf '\0\0\300\177'; }
for tensor in decoder.model.6.conv.bias decoder.model.2.block.2.block.0.alpha \
    quantizer.post_module.norm.weight quantizer.upsample.1.1.gamma; do
    fresh
    spoil $tensor nan
    refuses "a_NaN_in_$tensor" "decoding $work/c.npy with $work/m2: codec: sample" "$work/c.npy" --model "$work/m2"
    refuses "a_NaN_in_$tensor with_exact" "not finite" "$work/c.npy" --model "$work/m2" --conv exact
done
fresh
spoil decoder.model.6.conv.bias cat /dev/zero
spoil decoder.model.6.conv.parametrizations.weight.original0 cat /dev/zero
refuses a_silent_codec "30 frames of silence" "$work/c.npy" --model "$work/m2"
refuses a_silent_codec_as_float "30 frames of silence" "$work/c.npy" --model "$work/m2" --format float
fresh
spoil encoder.block.0.conv.bias nan
run encode "$work/c.wav" --model "$work/m2" -o "$work/x.npy"
claim a_NaN_in_the_encoder_is_refused refused 2 "c.wav"
claim a_NaN_in_the_encoder_writes_nothing test ! -e "$work/x.npy"
run decode "$work/c.npy" --model "$work/m2" -o "$work/t.wav"
claim decoding_does_not_need_the_encoder same "$work/c.wav" "$work/t.wav"

# Sound files.
cat >"$work/wav.py" <<'EOP'
import math, struct, sys, os
d = sys.argv[1]
def wav(name, rate=44100, channels=1, bits=16, n=3000, tag=1, data=None, head=None, block=None):
    if data is None:
        x = [0.5 * math.sin(0.05 * (i // channels)) for i in range(n * channels)]
        if tag == 3:
            data = b"".join(struct.pack("<f" if bits == 32 else "<d", v) for v in x)
        elif bits == 8:
            data = bytes(int(128 + 100 * v) for v in x)
        else:
            data = b"".join(int(v * (1 << bits - 1)).to_bytes(bits // 8, "little", signed=True) for v in x)
    align = block or channels * bits // 8
    fmt = struct.pack("<HHIIHH", tag, channels, rate, rate * align, align, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + b"data"
    body += struct.pack("<I", len(data) if head is None else head) + data
    with open(f"{d}/{name}.wav", "wb") as f:
        f.write(b"RIFF" + struct.pack("<I", len(body)) + body)
for bits in (8, 16, 24, 32):
    wav(f"good_pcm{bits}", bits=bits)
wav("good_float", bits=32, tag=3)
wav("good_double", bits=64, tag=3)
wav("good_stereo", channels=2)
wav("good_eight", channels=8)
for rate in (8000, 16000, 22050, 24000, 48000, 96000):
    wav(f"good_{rate}", rate=rate)
wav("good_one", n=1)
wav("good_2048", n=2048)
wav("good_2049", n=2049)
wav("good_claims_more", head=1 << 31)
wav("bad_empty", n=0)
wav("bad_nan", bits=32, tag=3, data=struct.pack("<4f", 0, 1, float("nan"), 0))
wav("bad_inf", bits=32, tag=3, data=struct.pack("<4f", 0, 1, float("inf"), 0))
wav("bad_channels", channels=0, block=2)
wav("bad_100_channels", channels=100, n=50)
wav("bad_rate", rate=44101)
wav("bad_rate0", rate=0)
wav("bad_hours", rate=1, n=20000)
wav("bad_tag", tag=0x7777)
whole = open(f"{d}/good_pcm16.wav", "rb").read()
for n in (0, 4, 12, 20, 30, 43):
    open(f"{d}/bad_cut{n}.wav", "wb").write(whole[:n])
open(f"{d}/bad_text.wav", "w").write("no sound at all\n" * 50)
open(f"{d}/bad_riff.wav", "wb").write(b"RIFX" + whole[4:])
open(f"{d}/bad_bytes.wav", "wb").write(bytes(i * 7919 % 251 for i in range(5000)))
EOP
mkdir "$work/sound"
python3 "$work/wav.py" "$work/sound"
for f in "$work"/sound/*.wav; do
    name=$(basename "$f" .wav)
    rm -f "$work/x.npy"
    run encode "$f" "${model[@]}" -o "$work/x.npy"
    case $name in
    good_*) claim "${name}_is_encoded" succeeded "10 books" ;;
    *)
        claim "${name}_is_refused" refused 2 "$name.wav"
        claim "${name}_writes_nothing" test ! -e "$work/x.npy"
        ;;
    esac
done
# frames FILE: of its codes.
frames() {
    run encode "$work/sound/$1.wav" "${model[@]}" --json -o "$work/x.npy"
    sed -n 's/.*"frames": \([0-9]*\).*/\1/p' <<<"$out"
}
claim one_sample_is_one_frame test "$(frames good_one)" = 1
claim as_are_2048 test "$(frames good_2048)" = 1
claim but_2049_are_two test "$(frames good_2049)" = 2
claim half_the_rate_is_twice_the_frames test "$(frames good_22050)" = 3
run encode "$work/sound/good_stereo.wav" "${model[@]}" -o "$work/x.npy"
run encode "$work/sound/good_pcm16.wav" "${model[@]}" -o "$work/y.npy"
claim equal_channels_are_their_mean same "$work/x.npy" "$work/y.npy"
claim the_file_is_described needs "44100 Hz, 1 channels, 3000 samples, 0.068 s"
run encode "$work/none.wav" "${model[@]}" -o "$work/x.npy"
claim an_absent_sound_is_refused refused 2 "SOUND: $work/none.wav"
run encode "$work/none.wav" --codec "$work/none" -o "$work/x.npy"
claim before_the_codec_is_loaded refused 2 "SOUND: $work/none.wav"
run encode "$work/sound/bad_hours.wav" "${model[@]}" -o "$work/x.npy"
claim hours_at_a_low_rate_are_too_long refused 2 "expected at most 536870912 samples at 44100 Hz, found 20000 s"
run encode "$work" "${model[@]}" -o "$work/x.npy"
claim a_folder_is_no_sound refused 2 "$work"
run encode "$work/c.wav" -o "$work/x.npy"
claim encoding_needs_a_codec refused 2 "found neither"
"$program" encode "$work/c.wav" "${model[@]}" -o - >"$work/pipe.npy" 2>"$work/.err"
claim codes_go_to_standard_output same "$work/pcm16.npy" "$work/pipe.npy"

# A recording of a voice, where there is one.
for voice in /usr/share/sounds/alsa/Front_Center.wav /usr/share/sounds/alsa/Rear_Left.wav; do
    [ -r "$voice" ] || continue
    name=$(basename "$voice" .wav)
    run encode "$voice" "${model[@]}" --threads 1 --json -o "$work/v1.npy"
    samples=$(sed -n 's/.*"resampled": \([0-9]*\).*/\1/p' <<<"$out")
    n=$(sed -n 's/.*"frames": \([0-9]*\).*/\1/p' <<<"$out")
    claim "${name}_has_a_frame_for_2048_samples" test "$n" = $(((samples + 2047) / 2048))
    for threads in 2 3; do
        run encode "$voice" "${model[@]}" --threads $threads -o "$work/v2.npy"
        claim "${name}_has_the_same_codes_in_$threads threads" same "$work/v1.npy" "$work/v2.npy"
    done
    run decode "$work/v1.npy" "${model[@]}" -o "$work/v1.wav" --threads 1
    claim "${name}_is_decoded_as_long" needs "$n frames, $((n * 2048)) samples"
    run decode "$work/v1.npy" "${model[@]}" -o "$work/v2.wav" --threads 3
    claim "${name}_has_the_same_samples_in_3_threads" same "$work/v1.wav" "$work/v2.wav"
done

[ -r /usr/share/sounds/alsa/Front_Center.wav ] || echo "skipped: no recording of alsa-utils to encode"

# Broken output.
run decode "$work/c.npy" "${model[@]}" -o /dev/full
claim a_full_disk_gives_2 refused 2 "/dev/full"
run decode "$work/c.npy" "${model[@]}" -o "$work"
claim a_folder_as_output_is_refused refused 2 "found a folder"
run decode "$work/c.npy" "${model[@]}" -o "$work/no/such.wav"
claim an_absent_folder_is_refused refused 2 "cannot write there"
run encode "$work/c.wav" "${model[@]}" -o "$work/no/such.npy"
claim for_codes_too refused 2 "cannot write there"
if [ "$(id -u)" != 0 ]; then
    mkdir -m 500 "$work/locked"
    run decode "$work/c.npy" "${model[@]}" -o "$work/locked/x.wav"
    claim a_read_only_folder_is_refused refused 2 "cannot write there"
fi
status=0
"$program" decode "$work/c.npy" "${model[@]}" -o "$work/t.wav" >&- 2>"$work/.err" || status=$?
err=$(cat "$work/.err")
claim a_closed_standard_output_gives_2 refused 2 "standard output"
claim and_does_not_spoil_the_sound same "$work/c.wav" "$work/t.wav"
status=0
"$program" decode "$work/c.npy" "${model[@]}" -o - >&- 2>"$work/.err" || status=$?
claim sound_to_a_closed_standard_output_gives_2 test "$status" = 2
status=0
"$program" decode "$work/c.npy" "${model[@]}" -o - >/dev/full 2>"$work/.err" || status=$?
claim sound_to_a_full_standard_output_gives_2 test "$status" = 2
status=0
(ulimit -f 50 && exec "$program" decode "$work/c.npy" "${model[@]}" -o "$work/u.wav") \
    >"$work/.out" 2>"$work/.err" || status=$?
claim a_file_that_cannot_grow_gives_2 test "$status" = 2
claim and_leaves_nothing no_file "*u.wav*"

# Ctrl-C, and the line that moves.
npy long '<i8' C 10,5000 'i * 37 % 128'
env --default-signal=INT "$program" decode "$work/long.npy" "${model[@]}" -o "$work/int.wav" \
    >"$work/.out" 2>"$work/.err" &
pid=$!
sleep 0.5
kill -INT $pid
status=0
wait $pid || status=$?
claim ctrl_c_gives_130 test "$status" = 130
claim ctrl_c_leaves_nothing no_file "*int.wav*"
if command -v script >/dev/null; then
    TERM=vt100 script -qec "'$program' decode '$work/f.npy' --model '$work/m' -o '$work/t.wav'" /dev/null \
        </dev/null >"$work/.out" 2>&1
    claim progress_shows_frames_seconds_and_factor \
        grep -aq "of at most 30 frames, .* s of audio, real-time factor" "$work/.out"
fi
finish
