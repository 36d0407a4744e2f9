/* SPDX-License-Identifier: MIT */
/* attention_score.cu for the CPU execution layer. */
#include "gpu/attention_score.cu"
