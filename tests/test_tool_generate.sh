#!/bin/bash
# SPDX-License-Identifier: MIT
# kvref generate: what must not change the codes, what must, naming of files, refusals.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"

run make-model "$work/m" --quiet
claim the_toy_model_is_made test "$status" = 0
model=(--model "$work/m")
# speak NAME OPTIONS...: "Hello." to NAME.npy, 6 frames.
speak() {
    local name=$1
    shift
    run generate "${model[@]}" --text "Hello." --max-new-tokens 6 -o "$work/$name.npy" "$@"
}
speak first
claim a_text_becomes_codes succeeded "10 books, 5 frames"
claim the_stop_reason_is_said needs "stopped by length"
magic=$(head -c 6 "$work/first.npy" | tr -d '\223')
claim the_file_is_npy test "$magic" = NUMPY
speak second
claim the_same_seed_gives_the_same_file same "$work/first.npy" "$work/second.npy"
speak other --seed 43
claim another_seed_gives_other_codes differ "$work/first.npy" "$work/other.npy"
speak truncated --seed 4294967338
claim seeds_count_by_their_low_32_bits same "$work/first.npy" "$work/truncated.npy"
speak negative --seed -1
claim a_negative_seed_is_taken test "$status" = 0
speak wrapped --seed 18446744073709551615
claim as_twos_complement same "$work/negative.npy" "$work/wrapped.npy"
for same in "--threads 1" "--threads 2" "--threads 3" "--capacity 100" "--capacity 300" \
    "--attention full"; do
    # shellcheck disable=SC2086
    speak same $same
    claim "the_codes_are_the_same_with${same// /_}" same "$work/first.npy" "$work/same.npy"
done
speak longer --max-new-tokens 9 2>/dev/null
claim an_option_twice_is_refused refused 2 "--max-new-tokens: given twice"
run generate "${model[@]}" --text "Hello." --max-new-tokens 9 -o "$work/longer.npy" --json
claim json_is_reported succeeded '"stop": "length"'
claim json_holds_settings_and_rates needs '"seed": "42"' '"frames_kept": 8' '"hash"' \
    '"frames_per_second"' '"prompt_positions"' '"attention": "prefix"' '"threads": 0' \
    '"chunk_length": 300' '"stop_at_first_end": false' '"keep_last_frame": false'
run generate "${model[@]}" --text "Hello." --max-new-tokens 6 --keep-last-frame -o "$work/kept.npy"
claim the_last_frame_can_be_kept needs "10 books, 6 frames"
run generate "${model[@]}" --text "Hello." --max-new-tokens 1 -o "$work/none.npy"
claim a_budget_of_one_gives_no_frames needs "10 books, 0 frames"
run generate "${model[@]}" --text a --reference-text b --reference-codes "$work/none.npy" -o "$work/x.npy"
claim which_are_no_reference refused 2 "reference 0: expected codes, found no frame"
speak blas --linear blas --verbose
claim blas_is_an_option test "$status" = 0
claim and_verbose_says_which_core needs_err "OpenBLAS core"
speak f32 --rope-table f32
claim rotation_tables_are_an_option test "$status" = 0
speak end --require-end
claim require_end_gives_1_when_length_stopped_it test "$status" = 1 -a -s "$work/end.npy"
run generate "${model[@]}" --text "Hello." --capacity 60 -o "$work/full.npy"
claim a_budget_of_zero_goes_to_the_capacity_or_the_end test "$status" = 0

# Noise, samples, files.
speak counter --noise counter
claim counter_noise_is_an_option test "$status" = 0
run generate "${model[@]}" --text "Hello." --max-new-tokens 4 --samples 3 --noise counter -o "$work/s.x.npy"
claim samples_are_numbered test -s "$work/s.x_0.npy" -a -s "$work/s.x_1.npy" -a -s "$work/s.x_2.npy"
claim samples_differ differ "$work/s.x_0.npy" "$work/s.x_1.npy"
run generate "${model[@]}" --text "Hello." --max-new-tokens 4 --noise counter -o "$work/s0.npy"
claim sample_0_is_the_only_one same "$work/s.x_0.npy" "$work/s0.npy"
"$program" generate "${model[@]}" --text "Hello." --max-new-tokens 6 -o - >"$work/pipe.npy" 2>"$work/.err"
claim a_dash_writes_to_standard_output same "$work/first.npy" "$work/pipe.npy"
printf 'Hello.' | "$program" generate "${model[@]}" --text-file - --max-new-tokens 6 -o "$work/stdin.npy" >"$work/.out"
claim text_comes_from_standard_input same "$work/first.npy" "$work/stdin.npy"
printf 'Hello.' >"$work/hello.txt"
run generate "${model[@]}" --text-file "$work/hello.txt" --max-new-tokens 6 -o "$work/file.npy"
claim text_comes_from_a_file same "$work/first.npy" "$work/file.npy"

# Batches and references.
dialogue='lost <|speaker:0|> Good day to you. <|speaker:1|> And to you. <|speaker:0|> Bye.'
run generate "${model[@]}" --text "$dialogue" --chunk-length 30 --max-new-tokens 4 --verbose \
    -o "$work/d.npy" --trace "$work/d.safetensors"
claim speaker_tags_make_batches needs "sample 0 batch 0" "sample 0 batch 1" "10 books, "
claim text_before_the_first_tag_is_noted needs_err "5 bytes before the first speaker tag"
claim each_batch_has_its_trace test -s "$work/d_0_0.safetensors" -a -s "$work/d_0_1.safetensors"
# Three batches of 3 frames take the numbers of frames 0..8: eight are one too few.
if python3 -c '' 2>/dev/null; then
    python3 - "$work" <<'EOF'
import struct, sys
for frames in (8, 9):
    n = 2 * 129 + 9 * 128
    head = str({"descr": "<f4", "fortran_order": False, "shape": (1, frames, n)}).encode()
    head += b" " * (-(10 + len(head) + 1) % 64) + b"\n"
    with open(f"{sys.argv[1]}/noise{frames}.npy", "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head)
        f.write(b"".join(struct.pack("<f", (i * 7919 % 1000 + 0.5) / 1001) for i in range(frames * n)))
EOF
    two=(--text "$dialogue" --chunk-length 30 --max-new-tokens 3 --min-frames 3)
    run generate "${model[@]}" "${two[@]}" --noise "file:$work/noise9.npy" -o "$work/n.npy"
    claim noise_comes_from_a_file needs "10 books, 6 frames"
    run generate "${model[@]}" "${two[@]}" --noise "file:$work/noise8.npy" -o "$work/n.npy"
    claim frames_of_later_batches_take_later_numbers refused 2 "frame below 8"
fi
run generate "${model[@]}" --text Hi --reference-text "Good day." --reference-codes "$work/first.npy" \
    --reference-text "Bye." --reference-codes "$work/other.npy" --max-new-tokens 3 -o "$work/r.npy"
claim references_are_taken test "$status" = 0
run generate "${model[@]}" --text Hi --reference-text "Good day." -o "$work/x.npy"
claim references_need_both_parts refused 2 "--reference-text: expected one for each reference, found 1 for 0"
run generate "${model[@]}" --text '<|im_end|>' --max-new-tokens 3 --json -o "$work/h.npy"
honoured=$(echo "$out" | sed -n 's/.*"prompt_positions": \([0-9]*\).*/\1/p')
run generate "${model[@]}" --text '<|im_end|>' --control plain --max-new-tokens 3 --json -o "$work/p.npy"
plain=$(echo "$out" | sed -n 's/.*"prompt_positions": \([0-9]*\).*/\1/p')
claim control_tokens_can_be_plain_text test "$plain" -gt "$honoured"
for text in "" " " "." "a"; do
    run generate "${model[@]}" --text "$text" --max-new-tokens 2 -o "$work/t.npy"
    claim "a_text_of_'$text'_is_spoken" test "$status" = 0
done

# Refusals: status 2, one line, no file.
refuses() {
    local name=$1 text=$2
    shift 2
    rm -f "$work/x.npy"
    run generate "${model[@]}" -o "$work/x.npy" "$@"
    claim "${name}_is_refused" refused 2 "$text"
    claim "${name}_writes_nothing" test ! -e "$work/x.npy"
}
t=(--text Hello)
refuses no_text "expected exactly one of them, found neither"
refuses two_texts "expected exactly one of them, found both" "${t[@]}" --text-file x
refuses an_absent_text_file "--text-file: \"$work/absent.txt\"" --text-file "$work/absent.txt"
refuses bad_utf8 "--text: text: byte 1: expected UTF-8" --text $'a\377'
printf 'ab\377' >"$work/bad.txt"
refuses bad_utf8_in_a_file "bad.txt: text: byte 2: expected UTF-8" --text-file "$work/bad.txt"
refuses a_long_prompt "expected at most 1024 positions (max_seq_len 2048 leaves half of it for speech)" \
    --text "$(printf 'x %.0s' $(seq 600))"
turn="$(printf 'x %.0s' $(seq 60))"
refuses batches_that_cannot_fit "prompt of batch 7 of 20: expected at most 1024 positions" --verbose --chunk-length 0 \
    --text "$(printf "<|speaker:0|>$turn%.0s" $(seq 20))"
claim before_any_is_decoded test -z "$out"
refuses a_second_batch_that_cannot_fit "prompt of batch 1 of 2" --chunk-length 0 \
    --text "<|speaker:0|>a<|speaker:1|>$(printf 'x %.0s' $(seq 600))"
refuses more_least_frames_than_most "--min-frames: expected at most --max-new-tokens, 3, found 4" \
    "${t[@]}" --max-new-tokens 3 --min-frames 4
refuses a_prompt_past_the_capacity "capacity" "${t[@]}" --capacity 10
refuses temperature_of_2 "--temperature: expected a number from 0 to below 2" "${t[@]}" --temperature 2
refuses what_rounds_to_2 "--temperature: expected a number from 0 to below 2" "${t[@]}" --temperature 1.99999999999
refuses temperature_of_nan "--temperature: expected a number" "${t[@]}" --temperature nan
refuses temperature_of_inf "--temperature: expected a number" "${t[@]}" --temperature inf
refuses temperature_of_0x1 "--temperature: expected a number" "${t[@]}" --temperature 0x1
refuses temperature_below_0 "--temperature: expected a number" "${t[@]}" --temperature -1
refuses top_p_of_0 "--top-p: expected a number above 0 up to 1" "${t[@]}" --top-p 0
refuses top_p_of_1.5 "--top-p: expected a number" "${t[@]}" --top-p 1.5
refuses top_p_with_more "--top-p: expected a number" "${t[@]}" --top-p 0.9x
refuses top_k_below_0 "--top-k: expected a whole number" "${t[@]}" --top-k -1
refuses top_k_of_2_31 "--top-k: expected a whole number" "${t[@]}" --top-k 2147483648
refuses top_k_of_half "--top-k: expected a whole number" "${t[@]}" --top-k 1.5
refuses top_k_of_nothing "--top-k: expected a whole number" "${t[@]}" --top-k ""
refuses max_new_tokens_below_0 "--max-new-tokens: expected" "${t[@]}" --max-new-tokens -1
refuses a_seed_past_64_bits "--seed: expected" "${t[@]}" --seed 18446744073709551616
refuses a_seed_below_64_bits "--seed: expected" "${t[@]}" --seed -9223372036854775809
refuses unknown_noise "--noise: expected" "${t[@]}" --noise dice
refuses absent_noise "--noise: $work/absent.npy" "${t[@]}" --noise "file:$work/absent.npy"
refuses unknown_attention "expected one of prefix|full" "${t[@]}" --attention flash
refuses samples_of_0 "--samples: expected" "${t[@]}" --samples 0
refuses threads_of_65 "--threads: expected" "${t[@]}" --threads 65
refuses a_bad_reference "--reference-codes: $work/first.txt" "${t[@]}" --reference-text a --reference-codes "$work/first.txt"
refuses an_unknown_backend "expected one of ref" "${t[@]}" --backend tpu
refuses graphs_without_a_device "has no device" "${t[@]}" --exec graph
[ -e /dev/nvidia0 ] || refuses a_gpu_that_is_not_there "--backend cuda: " "${t[@]}" --backend cuda
refuses a_misspelt_option "did you mean --temperature?" "${t[@]}" --temprature 1
refuses a_model_twice "--model: given twice" "${t[@]}" --model x
run generate --text Hi -o "$work/x.npy"
claim the_model_is_required refused 2 "--model: required"
run generate "${model[@]}" --text Hi
claim the_output_is_required refused 2 "--output: required"
run generate "${model[@]}" --text
claim a_missing_value_is_refused refused 2 "--text: expected TEXT after it"
for value in -h --help -o --seed -- -x; do
    run generate "${model[@]}" --text $value
    claim "a_value_of_${value}_is_refused" refused 2 "--text: expected TEXT after it, found \"$value\"; write --text=$value"
done
for value in --text=-h '--text=--' '--text -5' '--text -'; do
    # shellcheck disable=SC2086
    run generate "${model[@]}" $value --max-new-tokens 2 -o "$work/dash.npy"
    claim "but_${value// /_}_is_spoken" test "$status" = 0
done
run generate --temprature 1 --text -h --help
claim help_is_still_seen_after_a_value succeeded "Usage: kvref generate"
run generate "${model[@]}" --text Hi -o "$work"
claim a_folder_as_output_is_refused refused 2 "found a folder"
run generate "${model[@]}" --text Hi -o ""
claim an_empty_name_is_refused refused 2 '--output: expected a file name, found ""'
run generate "${model[@]}" --text Hi -o "$work/none/"
claim so_is_one_that_ends_in_a_slash refused 2 "--output: expected a file name"
run generate "${model[@]}" --text Hi -o /proc/codes.npy
claim a_folder_that_takes_no_file_is_refused_before_the_work refused 2 "--output: /proc/codes.npy: cannot write there"
run generate "${model[@]}" --text Hi -o "$work/x.npy" --trace "$work/../$(basename "$work")/x.npy"
claim one_file_for_codes_and_trace_is_refused refused 2 "--output and --trace: expected two files"
claim nothing_is_left_of_trying_to_write no_file ".kvref*"
run generate "${model[@]}" --text Hi --max-new-tokens 2 -o /dev/null --trace /dev/null
claim devices_may_be_given_twice test "$status" = 0
run generate "${model[@]}" --text Hi --max-new-tokens 2 --capacity 3000 -o "$work/wide.npy"
claim a_capacity_past_the_model_is_noted needs_err "note: --capacity 3000 is more than the max_seq_len"
run generate "${model[@]}" --text $' \n' --max-new-tokens 2 -o "$work/blank.npy"
claim a_blank_text_is_noted needs_err "note: the text is blank"
run generate "${model[@]}" --text Hi -o "$work/no/such.npy"
claim an_absent_folder_is_refused_before_the_work refused 2 "cannot write there"
run generate "${model[@]}" --text Hi -o "$work/x.npy" --trace "$work/no/such"
claim the_trace_is_checked_before_the_work_too refused 2 "--trace: "
run generate "${model[@]}" --text Hi -o - --samples 2
claim two_samples_do_not_fit_one_stream refused 2 "expected one sample"
run generate --model "$work/none" --text Hi -o "$work/x.npy"
claim an_absent_model_is_refused refused 2 "--model: \"$work/none\""
run generate --model "$work/m/config.json" --text Hi -o "$work/x.npy"
claim a_file_is_no_model refused 2 "--model: $work/m/config.json: expected a folder, found a file"
for preset in "l" "a --set max_seq_len=640" "b --set max_seq_len=640"; do
    rm -rf "$work/l"
    # shellcheck disable=SC2086
    run make-model "$work/l" --preset $preset --codec none
    run generate --model "$work/l" --text Hi --max-new-tokens 2 -o "$work/x.npy"
    claim "preset_${preset// /_}_speaks" test "$status" = 0
done
for preset in a b; do
    rm -rf "$work/l"
    run make-model "$work/l" --preset $preset --codec none
    run generate --model "$work/l" --text Hi --max-new-tokens 2 -o "$work/x.npy"
    claim "preset_${preset}_has_no_room_for_a_prompt" refused 2 "expected at most 32 positions"
done
run make-model "$work/t" --preset tiny --quiet
run generate --model "$work/t" --text Hi -o "$work/x.npy"
claim a_model_without_tokenizer_reads_no_text refused 2 "tokenizer.json"
rm -f "$work"/x.npy*

# Broken output.
run generate "${model[@]}" --text Hi --max-new-tokens 2 -o /dev/full
claim a_full_disk_gives_2 refused 2 "/dev/full"
claim and_the_device_is_still_one test -c /dev/full
status=0
(ulimit -f 0 && exec "$program" generate "${model[@]}" --text Hi --max-new-tokens 2 -o "$work/u.npy") \
    2>&1 >/dev/null | head -c 600 >"$work/.limited"
claim a_file_that_cannot_grow_leaves_nothing no_file "*u.npy*"
claim nor_a_temporary_file no_file ".*tmp*"
status=0
"$program" generate "${model[@]}" --text "Hello." --max-new-tokens 6 -o "$work/c.npy" >&- 2>"$work/.err" || status=$?
err=$(cat "$work/.err")
claim a_closed_standard_output_gives_2 refused 2 "standard output"
claim and_does_not_spoil_the_codes same "$work/first.npy" "$work/c.npy"
status=0
"$program" generate "${model[@]}" --text Hi --max-new-tokens 6 -o - >/dev/full 2>"$work/.err" || status=$?
claim codes_to_a_full_standard_output_give_2 test "$status" = 2
if [ "$(id -u)" != 0 ]; then
    mkdir -m 500 "$work/locked"
    run generate "${model[@]}" --text Hi -o "$work/locked/x.npy"
    claim a_read_only_folder_is_refused refused 2 "cannot write there"
fi

# Ctrl-C.
env --default-signal=INT "$program" generate "${model[@]}" --text "Hello." --samples 100000 -o "$work/int.npy" \
    --max-new-tokens 40 --noise counter >"$work/.out" 2>"$work/.err" &
pid=$!
for _ in $(seq 200); do
    [ -e "$work/int_0.npy" ] && break
    sleep 0.02
done
kill -INT $pid
status=0
wait $pid || status=$?
claim ctrl_c_gives_130 test "$status" = 130
claim and_is_said grep -qx "kvref: stopped by a signal" "$work/.err"
claim ctrl_c_leaves_whole_files_only no_file ".*tmp*"

finish
