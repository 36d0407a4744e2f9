#!/bin/bash
# SPDX-License-Identifier: MIT
# Files that kvref encode, decode, say and generate write: never over what they read, standard
# output under any name, pipes that nobody reads, what is kept after a failure or a signal.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"

run make-model "$work/m" --quiet
model=(--model "$work/m")
hello=("${model[@]}" --text "Hello." --max-new-tokens 6)
cd "$work" || exit 1
run say "${hello[@]}" -o a.wav --codes-out a.npy
claim there_are_sound_and_codes test -s a.wav -a -s a.npy
printf 'Hello.' >t.txt
sums() { cat m/* a.wav a.npy t.txt | sha256sum; }
before=$(sums)
# spares NAME TEXT COMMAND...: refused with TEXT, and no input is another one.
spares() {
    local name=$1 text=$2
    shift 2
    run "$@"
    claim "${name}_is_refused" refused 2 "$text"
    claim "${name}_changes_nothing" test "$(sums)" = "$before"
}
ln -s a.wav wav.npy
ln a.wav hard.npy
ln -s a.npy codes.wav
ln -s m/codec.json json.npy
ln -s m here
other="expected another file than that of"
mine="expected a name that is none of the files of m"
spares codes_over_their_sound "$other SOUND" encode a.wav --model m -o ./wav.npy
spares codes_over_a_hard_link "$other SOUND" encode a.wav --model m -o hard.npy
spares sound_over_its_codes "$other CODES" decode a.npy --model m -o a.npy --format pcm16
spares sound_through_a_link "$other CODES" decode a.npy --model m -o codes.wav
spares codes_over_the_codec "$mine" encode a.wav --model m -o m/codec.safetensors
spares codes_over_codec_json_by_a_link "$mine" encode a.wav --model m -o json.npy
spares sound_over_the_named_codec "none of the files of m/codec" decode a.npy --codec m/codec.safetensors -o here/codec.safetensors
spares sound_over_the_json_beside_it "none of the files of m/codec" decode a.npy --codec m/codec.safetensors -o json.npy --format pcm16
spares sound_over_the_tokenizer "$mine" say --model m --text Hi -o here/tokenizer.json
spares sound_over_the_text "$other --text-file" say --model m --text-file t.txt -o t.txt
spares sound_over_a_reference "$other a reference" say --model m --text Hi --reference a.wav --reference-text A -o a.wav
spares codes_over_a_reference "$other a reference" say --model m --text Hi --reference-codes a.npy --reference-text A -o x.wav --codes-out a.npy
spares a_trace_over_a_reference "$other a reference" say --model m --text Hi --reference-codes a.npy --reference-text A -o x.wav --trace a.npy
spares codes_over_the_text "$other --text-file" generate --model m --text-file t.txt -o t.txt
run say "${hello[@]}" -o x.wav --trace t.safetensors
before=$(sums)
cp t.safetensors t2.safetensors
run compare t.safetensors t2.safetensors --html t.safetensors
claim a_page_over_its_trace_is_refused refused 2 "--html: expected another file than that of A"
claim a_page_over_its_trace_changes_nothing same t.safetensors t2.safetensors
rm x.wav
spares a_plot_over_the_model "$mine" bench --model m --plot m/config.json
cp a.wav n_1.wav
run say --model m --text Hi --reference n_1.wav --reference-text A --samples 2 -o n.wav
claim a_numbered_name_over_a_reference_is_refused refused 2 "$other a reference"
claim and_changes_nothing same a.wav n_1.wav
ln -s out.wav link.npy
run say "${hello[@]}" -o out.wav --codes-out link.npy
claim a_link_to_the_sound_that_is_to_come_is_refused refused 2 "expected two files"
ln -s later.npy late.npy
run encode a.wav --model m -o late.npy
claim a_link_to_nothing_is_kept_and_its_target_made test -L late.npy -a -f later.npy
run say "${hello[@]}" -o m/hello.wav
run say "${hello[@]}" -o m/hello.wav
claim a_sound_in_the_folder_of_the_model_may_be_made_again test "$status" = 0 -a -s m/hello.wav
rm m/hello.wav

# Names.
run encode a.wav --model m -o x.wav
claim codes_named_as_a_sound_are_refused refused 2 "expected a name for codes (.npy)"
run say "${hello[@]}" -o x.wav --codes-out y.flac
claim so_are_those_of_say refused 2 "--codes-out: expected a name for codes"
run generate "${hello[@]}" -o y.mp3
claim and_of_generate refused 2 "expected a name for codes"
run decode a.npy --model m -o x.flac --format float
claim wav_named_flac_is_refused refused 2 "expected one of auto|flac for a name in .flac"
run decode a.npy --model m -o x.wav --format flac
claim flac_named_wav_is_refused refused 2 "for a name in .wav, found flac"
run encode - --model m -o x.npy
claim encode_does_not_take_standard_input refused 2 "SOUND: expected a file, found \"-\": standard input"
run decode - --model m -o x.wav
claim nor_does_decode refused 2 "CODES: expected a file"
run say "${hello[@]}" --reference - --reference-text A -o x.wav
claim nor_is_it_a_reference refused 2 "--reference: expected a file"
claim none_of_these_is_there no_file "x.*"
esc=$(printf 'e\033[31m.wav')
run decode a.npy --model m -o "$esc"
claim names_are_clean_in_reports test "$status" = 0 -a -s "$esc" -a "${out/$'\033'/}" = "$out"
ln -s m "$esc.d"
run inspect "$esc.d"
claim of_inspect_too test "$status" = 0 -a "${out/$'\033'/}" = "$out"
cp a.wav "$esc"
run encode "$esc" --model m -o "$esc.npy"
claim of_encode_too test "$status" = 0 -a "${out/$'\033'/}" = "$out"

# Standard output under its other names.
for name in /dev/stdout /dev/fd/1; do
    "$program" decode a.npy --model m -o $name 2>.err | cat >pipe.wav
    claim "$name in_a_pipe_is_the_sound_alone" same a.wav pipe.wav
    claim "$name gets_its_report_on_the_other" grep -q "samples" .err
    "$program" encode a.wav --model m -o $name 2>.err | cat >pipe.npy
    claim "$name takes_codes_alone" test "$(head -c 6 pipe.npy | tail -c 5)" = NUMPY -a "$(stat -c %s pipe.npy)" = "$(stat -c %s a.npy)"
done
"$program" say "${hello[@]}" -o /dev/stdout 2>.err | cat >pipe.wav
claim so_does_say same a.wav pipe.wav
"$program" decode a.npy --model m -o same.wav >same.wav 2>.err
claim the_file_of_standard_output_is_it_too same a.wav same.wav

# A pipe that nobody reads: a signal ends the program, held or not.
mkfifo pipe
# blocked NAME SIGNAL COMMAND...: ends within 5 s of the signal.
blocked() {
    local name=$1 signal=$2 pid
    shift 2
    env --default-signal "$program" "$@" >.out 2>.err &
    pid=$!
    sleep 2
    kill -0 $pid 2>/dev/null || echo "    it did not wait"
    kill -"$signal" $pid
    for _ in $(seq 50); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    status=still
    if ! kill -0 $pid 2>/dev/null; then
        status=0
        wait $pid || status=$?
    fi
    claim "$name" test "$status" = $((128 + $(kill -l "$signal")))
    kill -KILL $pid 2>/dev/null
}
blocked decode_into_a_pipe_ends_on_INT INT decode a.npy --model m -o pipe
blocked encode_into_a_pipe_ends_on_TERM TERM encode a.wav --model m -o pipe
blocked say_with_keep_partial_ends_on_HUP HUP say "${hello[@]}" --keep-partial -o pipe

# After a failure and after a signal.
run say "${hello[@]}" -o kept.wav --codes-out /dev/full
claim codes_that_fail_name_the_sound_that_is_kept refused 2 "the sound kept.wav is kept"
claim and_it_is_whole same a.wav kept.wav
status=0
(cd m && TMPDIR=/none "$program" decode ../a.npy --model . -o ../tmp.wav) >.out 2>.err || status=$?
claim a_sound_is_gathered_in_its_own_folder same a.wav tmp.wav
status=0
TMPDIR=/none "$program" decode a.npy --model m -o - >.out 2>.err || status=$?
err=$(cat .err)
claim for_standard_output_in_TMPDIR refused 2 "/none: cannot make a temporary file there"
# finished WAIT OPTIONS...: a signal once the first of many samples is in place.
finished() {
    rm -f f_*
    env --default-signal "$program" say "${hello[@]}" --samples 100000 -o f.wav --codes-out f.npy "$@" >.out 2>.err &
    local pid=$!
    for _ in $(seq 200); do
        [ -e f_1.npy ] && break
        sleep 0.05
    done
    kill -INT $pid
    status=0
    wait $pid || status=$?
}
finished
claim a_signal_removes_finished_samples test "$status" = 130 -a ! -e f_0.wav -a ! -e f_0.npy
claim and_says_so grep -q "what was finished is removed" .err
finished --keep-partial
claim with_keep_partial_they_stay test "$status" = 130 -a -s f_0.wav -a -s f_0.npy
claim no_temporary_file_is_left no_file ".kvref*"
finish
