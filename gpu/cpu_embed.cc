/* SPDX-License-Identifier: MIT */
/* embed.cu for the CPU execution layer. */
#include "gpu/embed.cu"
