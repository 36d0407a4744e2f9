/* SPDX-License-Identifier: MIT */
#include "tests/draws.h"

#include "tests/support.h"

#include <math.h>

namespace draws
{

/* ---- inputs ---- */

static uint64_t dice_state = 1;

static uint32_t dice()
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(dice_state >> 33);
}

int below(int n)
{
    return static_cast<int>(dice() % static_cast<uint32_t>(n));
}

static float logit(int kind, int i)
{
    float x = static_cast<float>(below(2001) - 1000) / 100.0f;
    if (kind == TIES) return static_cast<float>(below(4));
    if (kind == EQUAL) return 3.5f;
    if (kind == ZEROS) return below(2) ? 0.0f : -0.0f;
    if (kind == HOLES) return below(3) ? -INFINITY : x;
    if (kind == EXTREME) return below(2) ? 65504.0f : -65504.0f * static_cast<float>(below(2));
    if (kind == PEAK) return i == 5 ? 60.0f : x / 10;
    if (kind == TINY) return x * 1e-6f;
    if (kind == FALLING) return static_cast<float>(1000 - i) / 8.0f;
    return x;
}

static float number()
{
    return static_cast<float>(below(1 << 24)) / 16777216.0f;
}

trial make_trial(int n, int kind)
{
    static const float temperature[] = {0, 1e-6f, 1e-5f, 0.3f, 0.7f, 1, 1.99f};
    static const float top_p[] = {1e-6f, 0.1f, 0.5f, 0.8f, 0.9f, 0.95f, 1};
    const int top_k[] = {0, 1, 2, 30, n, 1 << 30};
    trial t = {};
    for (int i = 0; i < n; i++) t.logits.push_back(gpu_f16(logit(kind, i)));
    if (kind == HOLES) t.logits[static_cast<size_t>(below(n))] = gpu_f16(1.25f);
    int zeros = below(4);
    for (int i = 0; i < n; i++) {
        t.u.push_back(zeros == 0 ? 0 : zeros == 1 && below(2) ? 0 : number());
        t.again.push_back(zeros == 2 ? 0.5f : number());
    }
    t.args = {temperature[below(7)],
              top_p[below(7)],
              top_k[below(6)],
              below(4) == 0,
              below(4) > 0,
              0};
    t.end = below(3) - 1 < n ? below(3) - 1 : -1;
    t.state.n_main = below(25);
    return t;
}

void make_close(std::vector<float> *u, const std::vector<float> &p)
{
    float pace = static_cast<float>(1 + below(50)) / 10.0f;
    for (size_t i = 0; i < p.size(); i++) (*u)[i] = kvref_expf(-p[i] * pace);
    for (float &each : *u)
        if (!(each < 1)) each = 1 - 0x1p-24f;
}

/* ---- the host's draw ---- */

int host_choose(std::vector<float> *p,
                const std::vector<float> &logits,
                const kvref_sampling &s,
                const std::vector<float> &u)
{
    int n = static_cast<int>(logits.size());
    kvref_error err;
    std::vector<int32_t> scratch(2 * logits.size());
    p->resize(logits.size());
    if (kvref_sample_probs(p->data(), logits.data(), n, &s, scratch.data(), &err) != KVREF_OK)
        return -1;
    return kvref_sample_draw(p->data(), u.data(), n);
}

std::vector<float> host_logits(const trial &t)
{
    std::vector<float> x;
    for (gpu_half h : t.logits) x.push_back(gpu_f32(h));
    if (t.args.no_end && t.end >= 0) x[static_cast<size_t>(t.end)] = -INFINITY;
    return x;
}

/* Ids ascending: the end token, if any, has one that is no semantic token. */
static std::vector<int32_t> candidates(const trial &t)
{
    std::vector<int32_t> id;
    int32_t next = BEGIN;
    for (int i = 0; i < static_cast<int>(t.logits.size()); i++)
        id.push_back(i == t.end ? (i == 0 ? 7 : BEGIN + MAX_N + 5) : next++);
    return id;
}

static int semantic_end(const trial &t)
{
    return BEGIN + static_cast<int>(t.logits.size()) - 1 - (t.end >= 0);
}

bool host_main(const trial &t, int32_t *frame, gpu_frame_state *state)
{
    std::vector<float> p, x = host_logits(t);
    std::vector<int32_t> id = candidates(t);
    *state = t.state;
    int index = host_choose(&p, x, settings(t), t.u);
    if (index < 0) {
        state->fault = 1;
        return false;
    }
    int32_t token = id[static_cast<size_t>(index)];
    if (t.args.remember) {
        bool same = false;
        for (int32_t each : t.state.window) same |= each == token;
        if (same && token >= BEGIN && token <= semantic_end(t)) {
            index = host_choose(&p, x, {1.0f, 0.9f, t.args.top_k}, t.again);
            token = id[static_cast<size_t>(index)];
        }
        state->window[state->n_main++ % GPU_RAS_WINDOW] = token;
    }
    frame[0] = token;
    int32_t code = token - BEGIN, last = semantic_end(t) - BEGIN;
    frame[1] = code < 0 ? 0 : code > last ? last : code;
    return true;
}

/* ---- the device's draw ---- */

template <class T> static void make(T **p, size_t n)
{
    ck_assert(cudaMalloc(p, n * sizeof(T)) == cudaSuccess);
}

machine::machine()
{
    make(&logits, MAX_N);
    make(&u, MAX_N);
    make(&again, MAX_N);
    make(&p, MAX_N);
    make(&order, MAX_N);
    make(&candidate, MAX_N);
    make(&args, 1);
    make(&state, 1);
    make(&forced, 1 + N_BOOK);
    make(&frame, 1 + N_BOOK);
}

machine::~machine()
{
    const std::vector<void *> all = {
        logits, u, again, p, order, candidate, args, state, forced, frame};
    for (void *each : all) cudaFree(each);
}

template <class T> static void put(T *to, const T *from, size_t n)
{
    ck_assert(cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
}

template <class T> static void get(T *to, const T *from, size_t n)
{
    ck_assert(cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
}

const int32_t unwritten[1 + N_BOOK] = {-77, -78, -79, -80};
const int32_t forced_frame[1 + N_BOOK] = {BEGIN + 3, 9, 8, 7};

void device_draw(
    const machine &m, const trial &t, int book, int32_t *frame, gpu_frame_state *state)
{
    size_t n = t.logits.size();
    put(m.logits, t.logits.data(), n);
    put(m.u, t.u.data(), n);
    put(m.args, &t.args, 1);
    put(m.state, &t.state, 1);
    put(m.forced, forced_frame, 1 + N_BOOK);
    put(m.frame, unwritten, 1 + N_BOOK);
    gpu_draw d = {m.logits, static_cast<int>(n), m.u, m.args, m.state, m.forced, m.p, m.order};
    if (book == 0) {
        put(m.again, t.again.data(), n);
        put(m.candidate, candidates(t).data(), n);
        gpu_draw_main(
            nullptr, m.frame, &d, m.again, m.candidate, t.end, BEGIN, semantic_end(t));
    } else {
        gpu_draw_code(nullptr, m.frame, book, &d);
    }
    ck_assert(cudaDeviceSynchronize() == cudaSuccess);
    get(frame, m.frame, 1 + N_BOOK);
    get(state, m.state, 1);
}

} /* namespace draws */
