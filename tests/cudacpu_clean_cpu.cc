/* SPDX-License-Identifier: MIT */
/* Planted kernels as C++. */
#include "tests/cudacpu_clean.cu"
