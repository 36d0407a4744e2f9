/* SPDX-License-Identifier: MIT */
/* attention.cu for the CPU execution layer. */
#include "gpu/attention.cu"
