#!/bin/bash
# SPDX-License-Identifier: MIT
# kvref say: the whole path equals its two halves, references, samples, refusals, signals, and
# the sound of the demonstration.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"

run make-model "$work/m" --quiet
claim the_toy_model_is_made test "$status" = 0
model=(--model "$work/m")
# speak NAME OPTIONS...: "Hello." to NAME, 6 frames.
speak() {
    local name=$1
    shift
    run say "${model[@]}" --text "Hello." --max-new-tokens 6 -o "$work/$name" "$@"
}
began=$(date +%s%N)
speak a.wav
ended=$(date +%s%N)
claim a_text_becomes_sound succeeded "5 frames, 10240 samples, 0.232 s at 44100 Hz"
claim batches_clipping_and_factor_are_said needs "stopped by length" "0 clipped" "real-time factor"
claim the_file_is_wav test "$(head -c 4 "$work/a.wav")" = RIFF
run generate "${model[@]}" --text "Hello." --max-new-tokens 6 -o "$work/g.npy"
run decode "$work/g.npy" "${model[@]}" -o "$work/g.wav"
claim say_is_generate_and_then_decode same "$work/a.wav" "$work/g.wav"
for same in "--threads 1" "--threads 3" "--capacity 100" "--attention full" "--codec $work/m"; do
    # shellcheck disable=SC2086
    speak b.wav $same
    claim "the_sound_is_the_same_with_${same%%/*}" same "$work/a.wav" "$work/b.wav"
done
speak c.wav --codes-out "$work/c.npy"
claim codes_are_written_if_asked_for same "$work/g.npy" "$work/c.npy"
claim and_told needs "c.npy: 10 books, 5 frames"
speak other.wav --seed 43
claim another_seed_is_another_sound differ "$work/a.wav" "$work/other.wav"
speak a.flac
claim the_suffix_chooses_flac test "$(head -c 4 "$work/a.flac")" = fLaC
speak f.wav --format float
claim float_is_an_option test "$(stat -c %s "$work/f.wav")" -gt 40960
speak j.wav --json
claim json_holds_sound_codes_and_settings succeeded '"samples": 10240'
claim json_has_its_parts needs '"sound"' '"settings"' '"conv": "blas"' '"batches"' '"hash"' \
    '"real_time_factor"' '"file": null' '"partial": false'
"$program" say "${model[@]}" --text "Hello." --max-new-tokens 6 -o - >"$work/pipe.wav" 2>"$work/.err"
claim a_dash_writes_to_standard_output same "$work/a.wav" "$work/pipe.wav"
printf 'Hello.' | "$program" say "${model[@]}" --text-file - --max-new-tokens 6 -o "$work/in.wav" >"$work/.out"
claim text_comes_from_standard_input same "$work/a.wav" "$work/in.wav"
printf 'Hello.' >"$work/hello.txt"
run say "${model[@]}" --text-file "$work/hello.txt" --max-new-tokens 6 -o "$work/in.wav"
claim text_comes_from_a_file same "$work/a.wav" "$work/in.wav"
speak end.wav --require-end
claim require_end_gives_1_when_length_stopped_it test "$status" = 1 -a -s "$work/end.wav"
speak v.wav --verbose
claim verbose_says_which_core needs_err "OpenBLAS core"
run make-model "$work/p" --codec pth --quiet
run say --model "$work/p" --text "Hello." --max-new-tokens 6 -o "$work/p.wav"
claim a_pth_codec_speaks_alike same "$work/a.wav" "$work/p.wav"
speak s.wav --samples 3 --noise counter --codes-out "$work/s.npy"
claim samples_are_numbered test -s "$work/s_0.wav" -a -s "$work/s_1.wav" -a -s "$work/s_2.wav" -a -s "$work/s_2.npy"
claim samples_differ differ "$work/s_0.wav" "$work/s_1.wav"
run decode "$work/s_2.npy" "${model[@]}" -o "$work/s2.wav"
claim each_sound_is_of_its_codes same "$work/s_2.wav" "$work/s2.wav"
speak t.wav --trace "$work/t.safetensors"
claim a_trace_can_be_recorded test -s "$work/t.safetensors"

# Batches: one sound of all their codes.
dialogue='<|speaker:0|> Good day to you. <|speaker:1|> And to you. <|speaker:0|> Bye.'
two=(--text "$dialogue" --chunk-length 30 --max-new-tokens 4)
run say "${model[@]}" "${two[@]}" --codes-out "$work/d.npy" -o "$work/d.wav"
claim batches_are_spoken needs "sample 0 batch 0" "sample 0 batch 2" "10 books, 9 frames" "18432 samples"
run decode "$work/d.npy" "${model[@]}" -o "$work/d2.wav"
claim and_decoded_together same "$work/d.wav" "$work/d2.wav"

# References.
speak voice.wav --seed 7
run encode "$work/voice.wav" "${model[@]}" -o "$work/voice.npy"
speak r1.wav --reference "$work/voice.wav" --reference-text "Good day." --verbose
claim a_recording_is_a_reference succeeded "5 frames"
claim and_is_described needs_err "voice.wav: 0.232 s at 44100 Hz, 1 channels: 5 frames"
claim and_changes_the_sound differ "$work/a.wav" "$work/r1.wav"
speak r2.wav --reference-codes "$work/voice.npy" --reference-text "Good day."
claim as_its_codes_do same "$work/r1.wav" "$work/r2.wav"
speak r3.wav --reference "$work/voice.wav" --reference-text A --reference-codes "$work/g.npy" --reference-text B
claim both_kinds_mix test "$status" = 0
speak r4.wav --reference-codes "$work/voice.npy" --reference-codes "$work/g.npy" --reference-text A --reference-text B
claim in_the_order_of_the_command_line same "$work/r3.wav" "$work/r4.wav"
speak r5.wav --reference-codes "$work/g.npy" --reference "$work/voice.wav" --reference-text A --reference-text B
claim which_matters differ "$work/r3.wav" "$work/r5.wav"

# Refusals: status 2, one line, no file.
refuses() {
    local name=$1 text=$2
    shift 2
    rm -f "$work/x.wav"
    run say -o "$work/x.wav" "$@"
    claim "${name}_is_refused" refused 2 "$text"
    claim "${name}_writes_nothing" test ! -e "$work/x.wav"
}
t=("${model[@]}" --text Hello --max-new-tokens 6)
refuses a_budget_of_one "no audio" "${model[@]}" --text Hello --max-new-tokens 1
refuses no_text "expected exactly one of them, found neither" "${model[@]}"
refuses two_texts "expected exactly one of them, found both" "${t[@]}" --text-file x
refuses no_model "--model: required" --text Hello
refuses an_absent_model "none" --model "$work/none" --text Hello
refuses a_reference_without_text "--reference-text: expected one for each reference, found 0 for 1" \
    "${t[@]}" --reference "$work/a.wav"
refuses a_text_without_reference "--reference-text: expected one for each reference, found 1 for 0" \
    "${t[@]}" --reference-text a
refuses an_absent_reference "none.wav" "${t[@]}" --reference "$work/none.wav" --reference-text a
refuses codes_as_recording "g.npy" "${t[@]}" --reference "$work/g.npy" --reference-text a
refuses a_recording_as_codes "a.wav" "${t[@]}" --reference-codes "$work/a.wav" --reference-text a
refuses an_absent_codec "none.pth" "${t[@]}" --codec "$work/none.pth"
refuses an_unknown_format "expected one of auto|pcm16" "${t[@]}" --format mp3
refuses a_misspelt_option "did you mean --keep-partial?" "${t[@]}" --keep-partal
refuses temperature_of_2 "temperature" "${t[@]}" --temperature 2
refuses standard_output_for_codes "--codes-out: expected a file name" "${t[@]}" --codes-out -
refuses codes_over_the_sound "--output and --codes-out: expected two files" "${t[@]}" --codes-out "$work/x.wav"
refuses codes_into_nowhere "--codes-out: " "${t[@]}" --codes-out "$work/no/such.npy"
run say "${t[@]}" -o "$work/no/such.wav"
claim an_absent_folder_is_refused_before_the_work refused 2 "cannot write there"
run say "${t[@]}" -o - --samples 2
claim two_samples_do_not_fit_one_stream refused 2 "expected one sample"
run say "${t[@]}" -o "$work/x.mp3"
claim a_name_of_another_format_is_refused refused 2 "expected a name in .wav or .flac"
run make-model "$work/none-codec" --codec none --quiet
refuses a_model_without_codec "codec.pth or codec.safetensors" --model "$work/none-codec" --text Hello
run make-model "$work/a" --preset a --quiet
refuses a_codec_of_another_model "expected 10 books as in the model, found 4" "${t[@]}" --codec "$work/a"

refuses a_codec_of_another_model_for_a_reference "expected 10 books as in the model, found 4" \
    "${t[@]}" --codec "$work/a" --reference "$work/a.wav" --reference-text A
# 300 s of 16-bit samples at 100 Hz.
wav_header='RIFF\204\352\0\0WAVEfmt \20\0\0\0\1\0\1\0\144\0\0\0\310\0\0\0\2\0\20\0data\140\352\0\0'
{ printf "$wav_header"; head -c 60000 /dev/zero; } >"$work/long.wav"
refuses a_reference_that_cannot_fit "long.wav: expected at most 1024 frames" \
    "${t[@]}" --reference "$work/long.wav" --reference-text A
claim and_its_length_is_said needs_err "found 6460 (300.0 s)"

# A codec that gives NaN: the bytes of the first tensor, a bias of the decoder, are spoilt.
cp -r "$work/m" "$work/m2"
head=$(od -An -tu8 -N8 "$work/m2/codec.safetensors")
printf '\0\0\300\177' | dd of="$work/m2/codec.safetensors" bs=1 seek=$((8 + head)) conv=notrunc status=none
refuses a_codec_with_NaN "not finite" --model "$work/m2" --text Hello --max-new-tokens 6

# Broken output.
run say "${t[@]}" -o /dev/full
claim a_full_disk_gives_2 refused 2 "/dev/full"
status=0
"$program" say "${model[@]}" --text "Hello." --max-new-tokens 6 -o "$work/c.wav" >&- 2>"$work/.err" || status=$?
err=$(cat "$work/.err")
claim a_closed_standard_output_gives_2 refused 2 "standard output"
claim and_does_not_spoil_the_sound same "$work/a.wav" "$work/c.wav"
status=0
"$program" say "${t[@]}" -o - >/dev/full 2>"$work/.err" || status=$?
claim sound_to_a_full_standard_output_gives_2 test "$status" = 2

# Ctrl-C while speaking 2000 frames, a moment after what a short run takes here.
pause=$(awk "BEGIN {print ($ended - $began) / 1e9 + 0.4}")
# interrupt N OPTIONS...: N signals.
interrupt() {
    local n=$1 pid i
    shift
    rm -f "$work"/int*
    env --default-signal=INT "$program" say "${model[@]}" --text "Hello." --min-frames 1900 \
        --threads 1 --codes-out "$work/int.npy" -o "$work/int.wav" "$@" >"$work/.out" 2>"$work/.err" &
    pid=$!
    for i in $(seq "$n"); do
        sleep "$pause"
        kill -INT $pid 2>/dev/null
    done
    status=0
    wait $pid || status=$?
    out=$(cat "$work/.out")
    err=$(cat "$work/.err")
}
interrupt 1
claim ctrl_c_gives_130 test "$status" = 130
claim ctrl_c_leaves_nothing no_file "*int*"
interrupt 2 --keep-partial
claim ctrl_c_with_keep_partial_gives_130_too test "$status" = 130
claim the_batch_says_what_stopped_it needs "stopped by signal"
claim and_so_does_the_message needs_err "what was finished is kept"
spoken=$(sed -n 's/.*int.npy: 10 books, \([0-9]*\) frames.*/\1/p' <<<"$out")
heard=$(sed -n 's/.*int.wav: \([0-9]*\) frames.*/\1/p' <<<"$out")
claim what_was_spoken_is_kept test "${spoken:-0}" -gt 0 -a "${spoken:-0}" -lt 1900
claim what_was_decoded_is_kept test "${heard:-0}" -gt 0 -a "${heard:-0}" -le "${spoken:-0}"
claim the_partial_sound_is_whole_frames test "$(stat -c %s "$work/int.wav")" = $((44 + 4096 * ${heard:-0}))
if [ "${spoken:-0}" -gt 0 ]; then
    run decode "$work/int.npy" "${model[@]}" -o "$work/i.wav"
    claim and_the_beginning_of_the_whole cmp -s -i 44 -n $((4096 * ${heard:-0})) "$work/int.wav" "$work/i.wav"
fi

# The sound of the demonstration: the same bytes on every machine.
say=(--text 'Hello, world.' --seed 42 --max-new-tokens 40 --conv exact)
run say "${model[@]}" "${say[@]}" -o "$work/hello.wav"
claim hello_is_as_long_as_stated needs "30 frames, 61440 samples, 1.393 s"
claim hello_has_the_stated_hash test "$(sha256sum <"$work/hello.wav")" = \
    "$(sed -n 's/  hello.wav$/  -/p' "${srcdir:-.}/tools/hello.sha256")"
run say "${model[@]}" "${say[@]}" --attention full --capacity 300 --threads 3 -o "$work/hello2.wav"
claim in_full_capacity_too same "$work/hello.wav" "$work/hello2.wav"
finish
