/* SPDX-License-Identifier: MIT */
/* rmsnorm.cu for the CPU execution layer. */
#include "gpu/rmsnorm.cu"
