/* SPDX-License-Identifier: MIT */
/* attention_full.cu for the CPU execution layer. */
#include "gpu/attention_full.cu"
