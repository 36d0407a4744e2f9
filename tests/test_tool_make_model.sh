#!/bin/bash
# SPDX-License-Identifier: MIT
# kvref make-model: every preset and layout fits its own config; nothing is left on failure.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"

run make-model "$work/toy"
claim the_toy_is_made succeeded "nested config.json"
claim it_has_config_weights_and_tokenizer test -s "$work/toy/config.json" \
    -a -s "$work/toy/model.safetensors" -a -s "$work/toy/tokenizer.json"
sum=$(cat "$work"/toy/* | cksum)
run make-model "$work/toy"
claim a_checkpoint_is_never_overwritten refused 2 "already holds"
claim and_stays_as_it_was test "$sum" = "$(cat "$work"/toy/* | cksum)"
run make-model "$work/again/"
claim a_slash_at_the_end_does_no_harm test "$status" = 0
claim the_same_model_has_the_same_bytes test "$sum" = "$(cat "$work"/again/* | cksum)"
claim it_has_a_codec_too test -s "$work/toy/codec.safetensors" -a -s "$work/toy/codec.json"
for form in none pth both; do
    run make-model "$work/codec-$form" --preset tiny --codec $form
    claim "codec_${form}_is_made" test "$status" = 0
    claim "codec_${form}_has_its_files" test "$(cd "$work/codec-$form" && echo codec.*)" = \
        "$(case $form in none) echo 'codec.*' ;; pth) echo codec.json codec.pth ;;
        both) echo codec.json codec.pth codec.safetensors ;; esac)"
done
mkdir "$work/held"
echo old >"$work/held/codec.pth"
run make-model "$work/held"
claim a_codec_is_never_overwritten refused 2 "already holds codec.pth"
claim and_stays_as_it_was_too test "$(ls "$work/held")$(cat "$work/held/codec.pth")" = codec.pthold
mkdir "$work/half"
echo old >"$work/half/config.json"
run make-model "$work/half"
claim beside_a_config_nothing_is_left test "$status" = 2 -a "$(ls "$work/half")" = config.json
run make-model "$work/books" --preset a --set num_codebooks=33
claim a_model_of_many_books_has_no_codec_and_says_so needs_err "codec left out"
claim but_is_made succeeded "no codec"
run make-model "$work/books2" --preset a --set num_codebooks=33 --codec pth
claim unless_one_was_asked_for refused 2 "expected 2 to 32 books"
mkdir "$work/ready"
run make-model "$work/ready" --preset a --quiet
claim an_empty_folder_is_used test "$status" = 0 -a -s "$work/ready/config.json"
claim quiet_prints_nothing test -z "$out$err"

# Every preset that is small, in every layout that can hold it.
for preset in tiny a b l toy; do
    for layout in nested flat; do
        for dtype in bf16 f16 f32; do
            d=$work/$preset-$layout-$dtype
            run make-model "$d" --preset $preset --layout $layout --dtype $dtype
            if [ $preset$layout = bnested ]; then
                claim "${preset}_${layout}_${dtype}_cannot_be_said" refused 2 "norm_fastlayer_input"
                claim "${preset}_${layout}_${dtype}_leaves_nothing" test ! -e "$d"
                continue
            fi
            claim "${preset}_${layout}_${dtype}_is_made" test "$status" = 0
            run inspect "$d"
            claim "${preset}_${layout}_${dtype}_fits_its_config" succeeded "fits"
            rm -rf "$d"
        done
    done
done
for more in "--shards 3" "--split-qkv" "--shards 2 --split-qkv --layout flat" "--no-tokenizer"; do
    # shellcheck disable=SC2086
    run make-model "$work/m" --preset a $more
    claim "a_with${more// /_}_is_made" test "$status" = 0
    run inspect "$work/m"
    claim "a_with${more// /_}_fits" test "$status" = 0
    rm -rf "$work/m"
done
run make-model "$work/m" --preset tiny
claim a_vocabulary_without_room_gets_no_tokenizer_and_says_so \
    test "$status" = 0 -a ! -e "$work/m/tokenizer.json" -a -n "$err"
run make-model "$work/m2" --config "$work/m/config.json" --set text_config.n_layer=1
claim a_config_file_is_taken_and_changed test "$status" = 0
run inspect "$work/m2"
claim and_fits needs "1 layers"
run make-model "$work/m3" --preset a --set n_layer=1 --set max_seq_len=100
claim keys_of_a_preset_are_changed test "$status" = 0
run inspect "$work/m3"
claim and_show needs "1 layers" "100 positions"

# Refusals leave nothing.
d=$work/none
refuses() {
    local name=$1 text=$2
    shift 2
    run make-model "$d" "$@"
    claim "${name}_is_refused" refused 2 "$text"
    claim "${name}_leaves_nothing" test ! -e "$d"
}
refuses an_unknown_preset "expected one of toy|tiny" --preset toyy
refuses an_unknown_key "did you mean n_layer?" --set n_layr=2
refuses a_set_without_value "expected KEY=VALUE" --set n_layer
refuses a_value_that_is_no_number "expected a number" --set n_layer=many
refuses a_config_that_cannot_be "multiple of" --set n_head=7
refuses preset_with_config "expected one of them" --preset a --config "$work/m/config.json"
refuses an_absent_config "--config: $work/absent.json" --config "$work/absent.json"
refuses shards_of_0 "--shards: expected a whole number" --shards 0
refuses shards_of_1x "--shards: expected a whole number" --shards 1x
refuses shards_of_99999999999 "--shards: expected a whole number" --shards 99999999999
refuses more_shards_than_tensors "shards" --shards 1000
refuses no_disk_space "free disk space" --set vocab_size=16000000 --set dim=32768 --dtype f32 --no-tokenizer
run make-model
claim a_missing_folder_name_is_refused refused 2 "DIR: required"
touch "$work/file"
run make-model "$work/file/m"
claim a_folder_below_a_file_is_refused refused 2 "file/m"
run make-model "$work/no/such/m"
claim a_folder_below_nothing_is_refused refused 2 "no/such/m"
if [ "$(id -u)" != 0 ]; then
    mkdir -m 500 "$work/locked"
    run make-model "$work/locked/m"
    claim a_read_only_folder_is_refused refused 2 "Permission denied"
fi

status=0
(ulimit -f 100 && exec "$program" make-model "$d") >"$work/.out" 2>"$work/.err" || status=$?
err=$(cat "$work/.err")
claim a_file_that_cannot_grow_gives_2 refused 2 "cannot write"
claim a_file_that_cannot_grow_leaves_nothing test ! -e "$d"

for signal in INT TERM HUP QUIT; do
    rm -rf "$d"
    env --default-signal=INT,TERM,HUP,QUIT "$program" make-model "$d" --preset c >"$work/.out" 2>"$work/.err" &
    pid=$!
    for _ in $(seq 200); do
        [ -n "$(find "$d" -type f -size +1M 2>/dev/null)" ] && break
        sleep 0.02
    done
    kill -$signal $pid
    status=0
    wait $pid || status=$?
    err=$(cat "$work/.err")
    claim "signal_${signal}_gives_128_plus_its_number" test "$status" = $((128 + $(kill -l $signal)))
    claim "signal_${signal}_leaves_nothing" test ! -e "$d"
done

finish
