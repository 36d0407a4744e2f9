/* SPDX-License-Identifier: MIT */
/* The backends by name, in the order of BACKEND_CHOICES, and what is known of a GPU. */
#ifndef KVREF_TOOLS_BACKENDS_H
#define KVREF_TOOLS_BACKENDS_H

#include "kvref/backend.h"

#define BACKEND_CHOICES "ref|cudacpu|cuda"

/* DEVICE with the reason when this build does not have it. */
kvref_status backend_find(const kvref_backend **out, int choice, kvref_error *err);

/* Describes GPU 0; DEVICE with the reason when there is none, or no support for one. */
kvref_status backend_gpu(kvref_gpu *out, kvref_error *err);

#endif
