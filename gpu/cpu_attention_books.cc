/* SPDX-License-Identifier: MIT */
/* attention_books.cu for the CPU execution layer. */
#include "gpu/attention_books.cu"
