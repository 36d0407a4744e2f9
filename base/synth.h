/* SPDX-License-Identifier: MIT */
/* Inside of kvref_synth_write: the value table, and the text of the two small files. */
#ifndef KVREF_BASE_SYNTH_H
#define KVREF_BASE_SYNTH_H

#include "kvref/model.h"

/* The 256 values that elements of a tensor can take, by the top byte of mix. value [256] */
void kvref_synth_table(float *value, const char *name, const int64_t *dim, int n_dim);

/* The text of config.json in one of the two forms, with every key that reading it back needs;
 * to be freed. ARG when the form cannot express the config. */
kvref_status
kvref_synth_config(char **text, const kvref_config *config, bool nested, kvref_error *err);

/* The text of a byte-level BPE tokenizer.json whose ids agree with the config; to be freed.
 * ARG when the vocabulary has no room for 256 bytes and the tokens a prompt needs. */
kvref_status kvref_synth_tokenizer(char **text, const kvref_config *config, kvref_error *err);

#endif
