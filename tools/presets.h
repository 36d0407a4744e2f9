/* SPDX-License-Identifier: MIT */
/* Ready configurations for make-model, and how a configuration is changed by KEY=VALUE. */
#ifndef KVREF_TOOLS_PRESETS_H
#define KVREF_TOOLS_PRESETS_H

#include "kvref/model.h"

/* Names for the option table: "toy|tiny|...". */
#define PRESET_NAMES "toy|tiny|a|b|c|l|s2-2layer|s2-pro"

enum { PRESET_TOY, PRESET_TINY };

/* The configuration of a preset (index in PRESET_NAMES), or of the file when not NULL, with
 * every "key=value" of set [n_set] put into its JSON object first. Keys of a nested file are
 * written text_config.dim. *nested: the object had the nested form. */
kvref_status preset_config(kvref_config *out,
                           bool *nested,
                           int preset,
                           const char *file,
                           const char *const *set,
                           int n_set,
                           kvref_error *err);

#endif
