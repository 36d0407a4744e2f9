/* SPDX-License-Identifier: MIT */
/* linear.cu for the CPU execution layer. */
#include "gpu/linear.cu"
