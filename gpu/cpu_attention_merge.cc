/* SPDX-License-Identifier: MIT */
/* attention_merge.cu for the CPU execution layer. */
#include "gpu/attention_merge.cu"
