/* SPDX-License-Identifier: MIT */
/* Which backends this build has. cuda needs nvcc when kvref is built, and a GPU when it runs.
 */
#include "tools/backends.h"

#include "base/base.h"
#include "config.h"

#ifdef WITH_CUDA

kvref_status backend_gpu(kvref_gpu *out, kvref_error *err)
{
    return kvref_cuda_gpu(out, err);
}

static const kvref_backend *cuda(void)
{
    return kvref_backend_cuda();
}

#else

kvref_status backend_gpu(kvref_gpu *out, kvref_error *err)
{
    *out = (kvref_gpu){0};
    return kvref_fail(
        err, KVREF_E_DEVICE, "not built in: configure found no nvcc, or had --without-cuda");
}

static const kvref_backend *cuda(void)
{
    return NULL;
}

#endif

kvref_status backend_find(const kvref_backend **out, int choice, kvref_error *err)
{
    kvref_gpu gpu;
    *out = choice == 0 ? kvref_backend_ref() : choice == 1 ? kvref_backend_cudacpu() : cuda();
    if (choice < 2) return KVREF_OK;
    kvref_status status = backend_gpu(&gpu, err);
    if (status != KVREF_OK && err) {
        const kvref_error why = *err;
        return kvref_fail(err, status, "--backend cuda: %s", why.text);
    }
    return status;
}
