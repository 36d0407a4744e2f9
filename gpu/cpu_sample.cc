/* SPDX-License-Identifier: MIT */
/* sample.cu for the CPU execution layer. */
#include "gpu/sample.cu"
