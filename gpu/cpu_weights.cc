/* SPDX-License-Identifier: MIT */
/* For the CPU execution layer. */
#include "gpu/weights.cu"
