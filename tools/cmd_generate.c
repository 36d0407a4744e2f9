/* SPDX-License-Identifier: MIT */
/* kvref generate: text to codes. */
#include "tools/commands.h"
#include "tools/speak.h"

#include <string.h>

typedef struct generate_args {
    speak_args speak;
    const char *out;
} generate_args;

#define AT(field) offsetof(generate_args, field)
static const cli_option generate_options[] = {
    {.kind = CLI_TABLE, .name = "", .table = speak_options, .at = AT(speak)},
    {.kind = CLI_GROUP, .name = "Output"},
    {.kind = CLI_TEXT,
     .name = "output",
     .letter = 'o',
     .arg = "FILE",
     .required = true,
     .at = AT(out),
     .help = "codes as .npy, int64 [books, frames]; - is standard output. With several samples "
             "codes.npy becomes codes_0.npy, codes_1.npy, ..."},
    {.kind = CLI_END},
};

typedef struct job {
    speaker k;
    const char *out;
} job;

static kvref_status
write_codes(void *user, int sample, const kvref_codes *codes, kvref_error *err)
{
    job *j = user;
    char numbered[4096];
    const char *path;
    KVREF_TRY(speak_path(&path, numbered, sizeof numbered, &j->k, j->out, sample, err));
    term_writing(path);
    kvref_status s = kvref_codes_write(codes, path, err);
    term_written();
    if (s == KVREF_OK) report_sample(j->k.report, path, codes, NULL, NULL);
    return s;
}

static int run_generate(const cli_command *self, void *args, const cli_given *given)
{
    (void)given;
    generate_args *a = args;
    a->out = output_or_dash(a->out);
    kvref_error err = {0};
    job j = {.out = a->out};
    FILE *to = strcmp(a->out, "-") == 0 ? stderr : stdout; /* the codes go to the other */
    kvref_status s = check_codes_name("--output", a->out, &err);
    if (s == KVREF_OK) s = speak_check(&a->speak, a->out, &err);
    if (s != KVREF_OK) return term_error(self->name, &err);
    s = speak_open(&j.k, self->name, &a->speak, to, &err);
    if (s == KVREF_OK) s = speak_run(&j.k, write_codes, &j, &err);
    return speak_close(&j.k, s, &err);
}

const cli_command cmd_generate = {
    .name = "generate",
    .summary = "Speak a text: codes of a speech model as .npy",
    .usage = "--model DIR (--text TEXT | --text-file FILE) -o FILE [options]",
    .text =
        "With the same seed the tokens are those of the upstream program run in float32 on a "
        "CPU. Text with speaker tags is cut into batches; each is decoded after all earlier "
        "text and codes.\n"
        "Of the model's max_seq_len, 2048 positions, or half when that is less, are kept for "
        "speech: a prompt, with all earlier text and codes and the references, has to fit the "
        "rest. kvref inspect shows max_seq_len; --capacity does not change it.\n"
        "Nothing is written before a sample is complete; Ctrl-C leaves no partial file.",
    .option = generate_options,
    .status = "0 spoken, 1 with --require-end: stopped by length, 2 failed (bad option, text, "
              "model, a prompt or budget that does not fit)",
    .example = "kvref make-model toy        # once, for the others\n"
               "kvref generate --model toy --text 'Hello.' -o codes.npy\n"
               "kvref generate --model toy --text-file dialogue.txt --samples 3 -o codes.npy\n"
               "kvref generate --model toy --text Hi --seed -1 --temperature 0.8 -o -",
    .n_args = sizeof(generate_args),
    .run = run_generate,
};
