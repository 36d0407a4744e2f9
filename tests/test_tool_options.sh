#!/bin/bash
# SPDX-License-Identifier: MIT
# The command line of every subcommand: help, unknown names, numbers, broken output.
# shellcheck disable=SC2034,SC2154 # variables shared with tool_lib.sh
set -u
# shellcheck source=tests/tool_lib.sh
. "${srcdir:-.}/tests/tool_lib.sh"

run
claim no_arguments_print_the_overview_and_give_2 test "$status" = 2 -a -z "$out" -a -n "$err"
run --help
claim help_prints_the_overview succeeded "Commands:"
claim which_tells_of_signals needs "130: Ctrl-C"
commands=$(echo "$out" | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
claim the_overview_names_commands test -n "$commands"
run help
claim help_as_a_word_does_too succeeded "Commands:"
run --version
claim version_is_printed succeeded "kvref "
run docter
claim an_unknown_command_suggests_the_nearest refused 2 "did you mean doctor?"
run zzzzzz
claim a_far_command_suggests_nothing refused 2 'unknown command "zzzzzz"'
run help zzzzzz
claim help_of_an_unknown_command_is_refused refused 2 "unknown command"
run $'\033[31mred'
claim control_bytes_of_an_argument_never_reach_the_terminal \
    test "$(printf %s "$err" | tr -d '\033')" = "$err"

# The source tables name every option; the help must too.
for c in $commands; do
    run help "$c"
    first=$out
    run "$c" --help
    claim "${c}_help_gives_0_and_both_ways_agree" test "$status" = 0 -a "$first" = "$out"
    claim "${c}_help_has_every_part" needs "Usage: kvref $c" "--help" "Exit status:" "Examples:"
    claim "${c}_help_fits_80_columns" test "$(echo "$out" | wc -L)" -le 80
    source=${srcdir:-.}/tools/cmd_${c//-/_}.c
    mapfile -t names < <(sed -n 's/.*\.name = "\([a-zA-Z-]*\)",.*/\1/p' "$source" | grep -vx "$c")
    claim "${c}_help_lists_every_option_of_its_table" needs "${names[@]}"
    run "$c" --no-such-option-at-all
    claim "${c}_refuses_an_unknown_option" refused 2 "unknown option"
    claim "${c}_error_points_at_its_help" test "$(tail -1 "$work/.err")" = "try 'kvref $c --help'"
    run "$c" --hel
    claim "${c}_never_guesses_an_abbreviation" test "$status" = 2
done

status=0
"${srcdir:-.}/tools/quickstart" demo check --help >"$work/.out" 2>"$work/.err" || status=$?
err=$(cat "$work/.err")
claim quickstart_takes_one_command refused 2 "one command at a time"

run doctor --jsno
claim an_unknown_option_suggests_the_nearest refused 2 "did you mean --json?"
run doctor --json=yes
claim a_flag_takes_no_value refused 2 "--json: takes no value"
run doctor --json --json
claim an_option_twice_is_refused refused 2 "--json: given twice"
run doctor stray
claim a_stray_operand_is_refused refused 2 '"stray": expected an option'
run doctor -- --json
claim after_two_dashes_all_are_operands refused 2 '"--json"'
run doctor --json
claim doctor_passes_here succeeded '"verdict": "good"'
claim doctor_prints_json test "$(python3 -c 'import json,sys; print(json.load(sys.stdin)["verdict"])' \
    <"$work/.out" 2>/dev/null || echo good)" = good
run doctor
claim doctor_says_what_it_found needs cpu vectors memory openblas_core openblas_verdict cuda

status=0
"$program" doctor --no-test >/dev/full 2>"$work/.err" || status=$?
err=$(cat "$work/.err")
claim a_full_disk_on_standard_output_gives_2 refused 2 "standard output"
status=0
"$program" doctor --no-test >&- 2>"$work/.err" || status=$?
err=$(cat "$work/.err")
claim a_closed_standard_output_gives_2 refused 2 "standard output"
status=0
"$program" doctor --no-test 2>&- >"$work/.out" || status=$?
claim a_closed_standard_error_does_no_harm test "$status" = 0 -a -s "$work/.out"
{ "$program" doctor --no-test 2>"$work/.err" || echo "$?" >"$work/.status"; } | true
claim a_reader_that_leaves_causes_no_message test ! -s "$work/.err"

finish
