/* SPDX-License-Identifier: MIT */
/* rope.cu for the CPU execution layer. */
#include "gpu/rope.cu"
