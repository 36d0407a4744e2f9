/* SPDX-License-Identifier: MIT */
/* elementwise.cu for the CPU execution layer. */
#include "gpu/elementwise.cu"
