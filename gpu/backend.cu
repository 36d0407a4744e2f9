/* SPDX-License-Identifier: MIT */
/* The FP16 decoder as a backend: "cuda" when compiled by nvcc, "cudacpu" for the execution
 * layer. Opening checks everything before the first allocation and takes everything before the
 * first launch. */
#include "gpu/attention.h"
#include "gpu/decoder.h"
#include "gpu/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace GPU_NAMESPACE
{

#define GPU_MAX_POS (1 << 20) /* angles below this have correctly rounded sine and cosine */

static void close_decoder(kvref_decoder **out)
{
    gpu_decoder *d = gpu_of(*out);
    if (!d) return;
    if (d->stream) (void)cudaStreamSynchronize(d->stream);
    if (d->exec) (void)cudaGraphExecDestroy(d->exec);
    if (d->graph) (void)cudaGraphDestroy(d->graph);
    gpu_release(&d->plan); /* writes through pointers that the next line frees */
    gpu_release_host(d);
    if (d->stream) (void)cudaStreamDestroy(d->stream);
    free(d);
    *out = nullptr;
}

static kvref_status at_most(const char *what, int n, int limit, kvref_error *err)
{
    if (n <= limit) return KVREF_OK;
    return kvref_fail(
        err, KVREF_E_UNSUPPORTED, "%s: this backend has up to %d, found %d", what, limit, n);
}

/* Sizes that a config may have and the kernels have no room for: a rank is half a key of
 * sample.cu, a head is a block in the second dimension of a grid. */
static kvref_status check_sizes(const kvref_config *c, kvref_error *err)
{
    const int draw = 65536, grid = 65535;
    KVREF_TRY(at_most("num_codebooks", c->n_codebook, GPU_MAX_BOOKS, err));
    KVREF_TRY(at_most("codebook_size", c->n_code, draw, err));
    KVREF_TRY(at_most("candidates", kvref_config_candidates(c, nullptr, 0), draw, err));
    KVREF_TRY(at_most("head_dim", c->slow.d_head, GPU_MAX_D_HEAD, err));
    KVREF_TRY(at_most("fast_head_dim", c->fast.d_head, GPU_MAX_D_HEAD, err));
    KVREF_TRY(at_most("n_head", c->slow.n_head, grid, err));
    return at_most("fast_n_head", c->fast.n_head, grid, err);
}

/* An enumeration as the integer it is in C: C++ may not even look at a value without a name. */
template <class type> static int number(const type *from)
{
    int n;
    static_assert(sizeof n == sizeof *from, "enumerations are as large as int");
    memcpy(&n, from, sizeof n);
    return n;
}

static kvref_status check_modes(const kvref_decoder_opts *o, kvref_error *err)
{
    const struct {
        const char *name;
        int value;
    } mode[] = {{"attention", number(&o->attention)},
                {"exec", number(&o->exec)},
                {"linear", number(&o->linear)},
                {"rope table", number(&o->rope_table)}};
    for (const auto &m : mode)
        if (m.value != 0 && m.value != 1)
            return kvref_fail(err, KVREF_E_ARG, "%s: unknown mode %d", m.name, m.value);
    return KVREF_OK;
}

static kvref_status check(const kvref_config *c, const kvref_decoder_opts *o, kvref_error *err)
{
    if (o->capacity < 0 || o->capacity > GPU_MAX_POS)
        return kvref_fail(
            err, KVREF_E_ARG, "capacity: expected 0..%d, found %d", GPU_MAX_POS, o->capacity);
    KVREF_TRY(check_modes(o, err));
    if (o->linear != KVREF_LINEAR_EXACT)
        return kvref_fail(err, KVREF_E_UNSUPPORTED, "linear: this backend has exact only");
    return check_sizes(c, err);
}

/* A driver that is absent, too old or without a device leaves the count untouched. */
static kvref_status find_device(kvref_error *err)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaSuccess && n > 0) return gpu_check("choosing device 0", cudaSetDevice(0), err);
    (void)cudaGetLastError();
    return kvref_fail(err,
                      KVREF_E_DEVICE,
                      "expected a GPU, found none (%s)",
                      e == cudaSuccess ? "no device" : cudaGetErrorString(e));
}

static kvref_status open_parts(gpu_decoder *d, kvref_error *err)
{
    KVREF_TRY(gpu_layout(d, err));
    KVREF_TRY(gpu_take(&d->plan, err));
    cudaError_t e = cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking);
    KVREF_TRY(gpu_check("creating a stream", e, err));
    KVREF_TRY(gpu_fill(d, err));
    return gpu_check("opening", cudaDeviceSynchronize(), err); /* copies so far had no stream */
}

static kvref_status open_on(kvref_decoder **out,
                            const kvref_config *config,
                            const kvref_weights *weights,
                            const kvref_decoder_opts *opts,
                            kvref_error *err)
{
    *out = nullptr;
    KVREF_TRY(check(config, opts, err));
    KVREF_TRY(find_device(err));
    gpu_decoder *d = static_cast<gpu_decoder *>(calloc(1, sizeof *d));
    if (!d) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    d->config = *config;
    d->source = weights;
    d->opts = *opts;
    if (d->opts.capacity == 0) d->opts.capacity = config->max_seq_len;
    kvref_status status = open_parts(d, err);
    *out = reinterpret_cast<kvref_decoder *>(d);
    if (status != KVREF_OK) close_decoder(out);
    return status;
}

static kvref_status open_decoder(kvref_decoder **out,
                                 const kvref_model *model,
                                 const kvref_decoder_opts *opts,
                                 kvref_error *err)
{
    return open_on(out, kvref_model_config(model), kvref_model_weights(model), opts, err);
}

static int length(const kvref_decoder *d)
{
    return gpu_of(d)->n_pos;
}

static int capacity(const kvref_decoder *d)
{
    return gpu_of(d)->opts.capacity;
}

static kvref_kv_count count(const kvref_decoder *opaque, int layer)
{
    const gpu_decoder *d = gpu_of(opaque);
    if (layer == -1) return d->fast.count;
    if (layer < 0 || layer >= d->config.slow.n_layer) return kvref_kv_count();
    return d->slow.count;
}

static bool has_frame(const kvref_decoder *d)
{
    return gpu_of(d)->opts.exec == KVREF_EXEC_GRAPH;
}

static size_t device_bytes(const kvref_decoder *d)
{
    return gpu_of(d)->plan.n_byte;
}

} // namespace GPU_NAMESPACE

#ifdef __CUDACC__
#define GPU_NAME         "cuda"
#define GPU_BACKEND      kvref_backend_cuda
#define GPU_INSIDE(name) kvref_cuda_##name
#else
#define GPU_NAME         "cudacpu"
#define GPU_BACKEND      kvref_backend_cudacpu
#define GPU_INSIDE(name) kvref_cudacpu_##name
#endif

kvref_status GPU_INSIDE(open)(kvref_decoder **out,
                              const kvref_config *config,
                              const kvref_weights *weights,
                              const kvref_decoder_opts *opts,
                              kvref_error *err)
{
    return GPU_NAMESPACE::open_on(out, config, weights, opts, err);
}

void GPU_INSIDE(ten_passes)(kvref_decoder *d, bool on)
{
    GPU_NAMESPACE::gpu_of(d)->ten = on;
}

uint16_t *GPU_INSIDE(cache)(kvref_decoder *d, bool fast, bool value, size_t *n_byte)
{
    const GPU_NAMESPACE::gpu_decoder *g = GPU_NAMESPACE::gpu_of(d);
    const GPU_NAMESPACE::gpu_kv *kv = fast ? &g->fast.kv : &g->slow.kv;
    *n_byte = static_cast<size_t>(kv->n_layer) * static_cast<size_t>(kv->n_head) *
              static_cast<size_t>(kv->capacity) *
              static_cast<size_t>(GPU_NAMESPACE::gpu_pad(kv->d_head)) * sizeof(uint16_t);
    return value ? kv->v : kv->k;
}

void *GPU_INSIDE(buffer)(kvref_decoder *d, size_t i, const char **name, size_t *n_byte)
{
    const GPU_NAMESPACE::gpu_plan *plan = &GPU_NAMESPACE::gpu_of(d)->plan;
    if (i >= plan->n) return nullptr;
    *name = plan->buffer[i].name;
    *n_byte = plan->buffer[i].n_byte;
    return *plan->buffer[i].at;
}

#ifdef __CUDACC__
kvref_status kvref_cuda_gpu(kvref_gpu *out, kvref_error *err)
{
    cudaDeviceProp p;
    *out = kvref_gpu();
    KVREF_TRY(GPU_NAMESPACE::find_device(err));
    cudaError_t e = cudaGetDeviceProperties(&p, 0);
    if (e == cudaSuccess) e = cudaDriverGetVersion(&out->driver);
    if (e == cudaSuccess) e = cudaRuntimeGetVersion(&out->runtime);
    if (e == cudaSuccess) e = cudaMemGetInfo(&out->n_byte_free, &out->n_byte);
    KVREF_TRY(GPU_NAMESPACE::gpu_check("asking for properties", e, err));
    snprintf(out->name, sizeof out->name, "%.127s", p.name);
    out->major = p.major;
    out->minor = p.minor;
    out->n_processor = p.multiProcessorCount;
    return KVREF_OK;
}

#endif

const kvref_backend *GPU_BACKEND(void)
{
    using namespace GPU_NAMESPACE;
    static const kvref_backend table = {GPU_NAME,
                                        open_decoder,
                                        gpu_slow,
                                        gpu_fast,
                                        gpu_rewind,
                                        length,
                                        capacity,
                                        count,
                                        close_decoder,
                                        has_frame,
                                        gpu_frame,
                                        device_bytes};
    return &table;
}
