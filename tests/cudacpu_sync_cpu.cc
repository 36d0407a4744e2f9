/* SPDX-License-Identifier: MIT */
/* Planted kernels as C++. */
#include "tests/cudacpu_sync.cu"
