/* SPDX-License-Identifier: MIT */
/* attention_mix.cu for the CPU execution layer. */
#include "gpu/attention_mix.cu"
