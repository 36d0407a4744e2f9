/* SPDX-License-Identifier: MIT */
/* A function compiled for several instruction sets, chosen when the program starts. Without
 * contraction and with written orders all of them give the same bits. */
#ifndef KVREF_REF_CLONES_H
#define KVREF_REF_CLONES_H

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define REF_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define REF_CLONES
#endif

#endif
