/* SPDX-License-Identifier: MIT */
/* A whole frame on the device: slow step, main token, and the codes of all books, each drawn
 * where its logits are. What a frame feeds, reads and depends on lies at fixed addresses of
 * device memory (the tokens of the frame before, the position, the noise), so one captured
 * graph serves every decode step of a decoder's life: nothing is captured again, and the host
 * waits once, for the finished frame.
 *
 * A prefill has another shape and is queued launch by launch; its draws are the same ones. */
#include "gpu/decoder.h"

#include <string.h>

namespace GPU_NAMESPACE
{

static size_t frame_width(const gpu_decoder *d)
{
    return 1 + static_cast<size_t>(d->config.n_codebook);
}

static size_t n_noise(const gpu_decoder *d)
{
    return 2 * static_cast<size_t>(d->n_candidate) +
           static_cast<size_t>(d->config.n_codebook - 1) *
               static_cast<size_t>(d->config.n_code);
}

/* Settings, noise and a forced frame go to the device. */
static void queue_inputs(gpu_decoder *d)
{
    const cudaMemcpyKind up = cudaMemcpyHostToDevice;
    (void)cudaMemcpyAsync(d->args, &d->host->args, sizeof *d->args, up, d->stream);
    (void)cudaMemcpyAsync(
        d->noise, d->host_noise, n_noise(d) * sizeof *d->noise, up, d->stream);
    (void)cudaMemcpyAsync(
        d->forced, d->host_forced, frame_width(d) * sizeof *d->forced, up, d->stream);
    (void)cudaMemsetAsync(&d->state->fault, 0, sizeof d->state->fault, d->stream);
}

/* The draws, and the fast transformer between them; then the frame goes to the host. */
static void queue_draws(gpu_decoder *d)
{
    const kvref_config *c = &d->config;
    gpu_draw draw = gpu_draw();
    draw.logits = d->main_logits;
    draw.n = d->n_candidate;
    draw.u = d->noise;
    draw.args = d->args;
    draw.state = d->state;
    draw.forced = d->forced;
    draw.p = d->p;
    draw.order = d->order;
    const float *u = d->noise + d->n_candidate;
    gpu_draw_main(d->stream,
                  d->frame,
                  &draw,
                  u,
                  d->candidate,
                  d->end,
                  c->semantic_begin,
                  c->semantic_end);
    u += d->n_candidate;
    draw.logits = d->logits;
    draw.n = c->n_code;
    for (int book = 1; book < c->n_codebook; book++, u += c->n_code) {
        gpu_fast_book(d, book);
        draw.u = u;
        gpu_draw_code(d->stream, d->frame, book, &draw);
    }
    const cudaMemcpyKind down = cudaMemcpyDeviceToHost;
    (void)cudaMemcpyAsync(
        d->host_frame, d->frame, frame_width(d) * sizeof *d->frame, down, d->stream);
    (void)cudaMemcpyAsync(&d->host->state, d->state, sizeof *d->state, down, d->stream);
    size_t n_byte = static_cast<size_t>(d->n_candidate) * sizeof *d->main_logits;
    (void)cudaMemcpyAsync(d->host_logits, d->main_logits, n_byte, down, d->stream);
}

/* Once in a decoder's life. */
static kvref_status capture(gpu_decoder *d, kvref_error *err)
{
    if (d->exec) return KVREF_OK;
    gpu_tap_begin(d, &d->tap.graph);
    cudaError_t e = cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal);
    KVREF_TRY(gpu_check("beginning to capture a frame", e, err));
    queue_inputs(d);
    gpu_slow_pass(d, d->frame, 1);
    gpu_slow_finish(d, 0);
    queue_draws(d);
    e = cudaStreamEndCapture(d->stream, &d->graph);
    if (e == cudaSuccess) e = cudaGetLastError(); /* a launch refused is not in the graph */
    if (e == cudaSuccess) e = cudaGraphInstantiate(&d->exec, d->graph, 0);
    if (e == cudaSuccess) return KVREF_OK;
    if (d->graph) (void)cudaGraphDestroy(d->graph);
    d->graph = nullptr;
    d->exec = nullptr;
    return gpu_check("capturing a frame", e, err);
}

static kvref_status check(const gpu_decoder *d, const kvref_frame_call *call, kvref_error *err)
{
    if (call->frames) return gpu_check_call(d, call->frames, call->n_frame, err);
    if (!d->has_frame || call->n_frame != 1)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "frame: expected one frame made since the last change, found %s",
                          d->has_frame ? "a count other than 1" : "none");
    if (d->n_pos >= d->opts.capacity)
        return kvref_fail(err,
                          KVREF_E_CAPACITY,
                          "cache: %d positions held and 1 more do not fit capacity %d",
                          d->n_pos,
                          d->opts.capacity);
    return KVREF_OK;
}

/* What the host has to say, in memory that the device reads. */
static kvref_status put_inputs(gpu_decoder *d, const kvref_frame_call *call, kvref_error *err)
{
    gpu_frame_args *a = &d->host->args;
    *a = gpu_frame_args();
    a->no_end = call->no_end;
    a->remember = call->remember;
    a->forced = call->forced != nullptr;
    if (call->forced) {
        KVREF_TRY(kvref_frames_check(call->forced, 1, &d->config, "forced frame", err));
        memcpy(d->host_forced, call->forced, frame_width(d) * sizeof *call->forced);
        return KVREF_OK;
    }
    KVREF_TRY(kvref_sampling_check(&call->sampling, err));
    if (!call->noise)
        return kvref_fail(err, KVREF_E_ARG, "noise: expected numbers, found none");
    a->temperature = call->sampling.temperature;
    a->top_p = call->sampling.top_p;
    a->top_k = call->sampling.top_k;
    memcpy(d->host_noise, call->noise, n_noise(d) * sizeof *call->noise);
    return KVREF_OK;
}

/* One position through the captured graph. */
static kvref_status replay(gpu_decoder *d, const int32_t *frame, kvref_error *err)
{
    KVREF_TRY(capture(d, err));
    gpu_place(d);
    if (frame) {
        size_t n_byte = frame_width(d) * sizeof *frame;
        memcpy(d->host_frame, frame, n_byte);
        (void)cudaMemcpyAsync(
            d->frame, d->host_frame, n_byte, cudaMemcpyHostToDevice, d->stream);
    }
    d->slow.count = kvref_kv_count();
    gpu_count(d, &d->slow.count, &d->slow, d->n_pos, 1);
    return gpu_check(
        "launching the graph of a frame", cudaGraphLaunch(d->exec, d->stream), err);
}

/* The frame is on the host: does it mean something? */
static kvref_status finish(gpu_decoder *d, int32_t *frame, float *logits, kvref_error *err)
{
    int32_t fault = d->host->state.fault;
    if (fault == 1)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "main logits: expected numbers below infinity and a finite one");
    if (fault > 1)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "logits of book %d: expected numbers below infinity and a finite one",
                          static_cast<int>(fault) - 1);
    memcpy(frame, d->host_frame, frame_width(d) * sizeof *frame);
    if (logits)
        for (int i = 0; i < d->n_candidate; i++) logits[i] = kvref_f16_f32(d->host_logits[i]);
    d->fast.count = kvref_kv_count();
    for (int l = 0; l < d->config.fast.n_layer; l++)
        gpu_count(d, &d->fast.count, &d->fast, 0, d->config.n_codebook);
    d->n_call++;
    d->book = d->config.n_codebook - 1;
    d->has_hidden = d->has_frame = true;
    return KVREF_OK;
}

kvref_status gpu_frame(kvref_decoder *opaque,
                       int32_t *frame,
                       float *logits,
                       const kvref_frame_call *call,
                       kvref_error *err)
{
    gpu_decoder *d = gpu_of(opaque);
    bool one = call->n_frame == 1;
    int from = d->n_pos;
    KVREF_TRY(check(d, call, err));
    KVREF_TRY(put_inputs(d, call, err));
    d->has_hidden = d->has_frame = false;
    if (one) {
        KVREF_TRY(replay(d, call->frames, err));
        d->device_pos = ++d->n_pos;
    } else {
        queue_inputs(d);
        KVREF_TRY(gpu_feed(d, call->frames, call->n_frame, &from, err));
        KVREF_TRY(gpu_tap_flush(d, &d->tap.call, from, d->n_call, err));
        gpu_tap_begin(d, &d->tap.call);
        queue_draws(d);
    }
    KVREF_TRY(gpu_wait(d, "frame", err));
    KVREF_TRY(gpu_tap_flush(d, one ? &d->tap.graph : &d->tap.call, from, d->n_call, err));
    return finish(d, frame, logits, err);
}

} // namespace GPU_NAMESPACE
