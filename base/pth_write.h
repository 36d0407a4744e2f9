/* SPDX-License-Identifier: MIT */
/* Writes a torch archive (spec 01 section 5) as torch.save lays it out: a dict of tensors, one
 * stored entry for each storage, data on multiples of 64. Used for synthetic codecs. */
#ifndef KVREF_BASE_PTH_WRITE_H
#define KVREF_BASE_PTH_WRITE_H

#include "base/base.h"
#include "kvref/file.h"

typedef struct kvref_pth_writer kvref_pth_writer;

/* Declares the tensors (borrowed until the end); dtypes F32, F16, BF16 and BOOL. Archives of
 * 4 GiB and more are UNSUPPORTED. */
kvref_status kvref_pth_writer_open(kvref_pth_writer **out,
                                   const char *path,
                                   const kvref_tensor *tensor,
                                   int n_tensor,
                                   kvref_error *err);

/* Appends bytes of the tensors in declared order, in pieces that do not cross a tensor. */
kvref_status
kvref_pth_writer_put(kvref_pth_writer *w, const void *data, size_t n_byte, kvref_error *err);

kvref_status kvref_pth_writer_commit(kvref_pth_writer **w, kvref_error *err);
void kvref_pth_writer_abort(kvref_pth_writer **w);

#endif
