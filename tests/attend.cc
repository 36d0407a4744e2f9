/* SPDX-License-Identifier: MIT */
#include "tests/attend.h"

#include <math.h>
#include <stdlib.h>

namespace attend
{

/* ---- inputs ---- */

/* Steps of a linear congruence, upper bits. */
struct dice {
    uint64_t state;

    uint32_t next()
    {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<uint32_t>(state >> 33);
    }
    /* In [-1, 1). */
    float number()
    {
        return static_cast<float>(next() % 65536) / 32768.0f - 1.0f;
    }
};

static int row_width(const shape &s)
{
    return gpu_pad(s.n_head * s.d_head);
}

static size_t layer_size(const shape &s)
{
    return static_cast<size_t>(s.n_kv_head) * static_cast<size_t>(s.capacity) *
           static_cast<size_t>(gpu_pad(s.d_head));
}

size_t place(const shape &s, int g, int r, int e)
{
    size_t row =
        static_cast<size_t>(g) * static_cast<size_t>(s.capacity) + static_cast<size_t>(r);
    return layer_size(s) + row * static_cast<size_t>(gpu_pad(s.d_head)) +
           static_cast<size_t>(e);
}

static float key_value(input kind, dice *d, const scene &w, int g, int r, int e)
{
    const shape &s = w.s;
    int group = s.n_head / s.n_kv_head;
    float x = d->number();
    if (kind == LARGE) return 14 * x;
    if (kind == FLAT) return 0.01f * x;
    if (kind == EQUAL) return 0.25f;
    if (kind == DOMINANT && r == (s.n_past + s.n_row) / 2)
        return 8 * gpu_f32(w.q[static_cast<size_t>(g * group * s.d_head + e)]);
    return x;
}

scene make_scene(const shape &s, input kind, uint64_t seed)
{
    dice d = {seed * 7919 + 17};
    scene w = {s, {}, {}, {}};
    w.q.assign(static_cast<size_t>(s.n_row * row_width(s)), 0);
    w.k.assign(2 * layer_size(s), gpu_f16(77)); /* the other layer is not to be used */
    w.v = w.k;
    for (int t = 0; t < s.n_row; t++)
        for (int i = 0; i < s.n_head * s.d_head; i++) {
            float x = kind == EQUAL ? 0.5f : (kind == LARGE ? 14 : 1.5f) * d.number();
            w.q[static_cast<size_t>(t * row_width(s) + i)] = gpu_f16(x);
        }
    for (int g = 0; g < s.n_kv_head; g++)
        for (int r = 0; r < s.capacity; r++)
            for (int e = 0; e < gpu_pad(s.d_head); e++) {
                bool pad = e >= s.d_head;
                w.k[place(s, g, r, e)] = gpu_f16(pad ? 0 : key_value(kind, &d, w, g, r, e));
                w.v[place(s, g, r, e)] = gpu_f16(pad ? 0 : 2 * d.number());
            }
    return w;
}

scene at_capacity(const scene &from, int capacity)
{
    scene w = from;
    w.s.capacity = capacity;
    w.k.assign(2 * layer_size(w.s), 0);
    w.v = w.k;
    for (int g = 0; g < w.s.n_kv_head; g++)
        for (int r = 0; r < capacity; r++)
            for (int e = 0; e < w.s.d_head; e++) {
                int source = r < from.s.capacity ? r : from.s.capacity - 1;
                w.k[place(w.s, g, r, e)] = from.k[place(from.s, g, source, e)];
                w.v[place(w.s, g, r, e)] = from.v[place(from.s, g, source, e)];
            }
    return w;
}

void fill_tail(scene *w, int bits)
{
    dice d = {99};
    for (int g = 0; g < w->s.n_kv_head; g++)
        for (int r = w->s.n_past + w->s.n_row; r < w->s.capacity; r++)
            for (int e = 0; e < w->s.d_head; e++) {
                size_t i = place(w->s, g, r, e);
                w->k[i] =
                    static_cast<gpu_half>(bits < 0 ? d.next() : static_cast<uint32_t>(bits));
                w->v[i] =
                    static_cast<gpu_half>(bits < 0 ? d.next() : static_cast<uint32_t>(bits));
            }
}

/* ---- on the execution layer ---- */

static void check(cudaError_t e)
{
    if (e != cudaSuccess) abort();
}

/* Device memory of one run. */
struct device {
    std::vector<void *> all;

    template <class T> T *make(size_t n)
    {
        void *p = nullptr;
        check(cudaMalloc(&p, n * sizeof(T)));
        all.push_back(p);
        return static_cast<T *>(p);
    }
    template <class T> T *copy(const std::vector<T> &from)
    {
        T *p = make<T>(from.size());
        check(cudaMemcpy(p, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
        return p;
    }
    ~device()
    {
        cudacpu_allow_all();
        for (void *p : all) check(cudaFree(p));
    }
};

static void forbid_tail(const shape &s, const gpu_kv &kv)
{
    int n = s.n_past + s.n_row;
    size_t left = static_cast<size_t>((s.capacity - n) * gpu_pad(s.d_head)) * sizeof(gpu_half);
    for (int g = 0; left > 0 && g < s.n_kv_head; g++) {
        cudacpu_forbid(kv.k + place(s, g, n, 0), left);
        cudacpu_forbid(kv.v + place(s, g, n, 0), left);
    }
}

static void launch(form f, const gpu_attention *a)
{
    if (f == PREFIX) gpu_attention_prefix(nullptr, a);
    if (f == FULL) gpu_attention_full(nullptr, a);
    if (f == BOOKS || f == BOOKS_FULL) gpu_attention_books(nullptr, a, f == BOOKS_FULL);
}

halves run(const scene &w, form f, bool forbid)
{
    const shape &s = w.s;
    device d;
    gpu_kv kv = {d.copy(w.k), d.copy(w.v), 2, s.n_kv_head, s.d_head, s.capacity};
    halves out(w.q.size(), UNWRITTEN);
    gpu_attention a = {};
    size_t n[4];
    gpu_attention_floats(n, s.n_head, s.d_head, s.capacity);
    a.out = d.copy(out);
    a.q = d.copy(w.q);
    a.kv = &kv;
    a.layer = 1;
    a.n_head = s.n_head;
    a.n_row = s.n_row;
    a.first = d.copy(std::vector<int32_t>(1, s.n_past));
    if (f == PREFIX || f == FULL) {
        a.score = d.make<float>(n[0]);
        a.peak = d.make<float>(n[1]);
        a.total = d.make<float>(n[2]);
        a.part = d.make<float>(n[3]);
    }
    if (f == FULL) {
        size_t group = static_cast<size_t>(s.n_head / s.n_kv_head);
        a.wide_k = d.make<gpu_half>(layer_size(s) * group);
        a.wide_v = d.make<gpu_half>(layer_size(s) * group);
    }
    if (forbid) forbid_tail(s, kv);
    launch(f, &a);
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(out.data(), a.out, out.size() * sizeof(gpu_half), cudaMemcpyDeviceToHost));
    return out;
}

/* ---- the formulas, on the host ---- */

static float r16(float x)
{
    return gpu_f32(gpu_f16(x));
}

struct head {
    const scene *w;
    int t, h, g;

    float q(int e) const
    {
        return gpu_f32(w->q[static_cast<size_t>(t * row_width(w->s) + h * w->s.d_head + e)]);
    }
    float k(int r, int e) const
    {
        return gpu_f32(w->k[place(w->s, g, r, e)]);
    }
    float v(int r, int e) const
    {
        return gpu_f32(w->v[place(w->s, g, r, e)]);
    }
    float dot(int r) const
    {
        float lane[GPU_WARP] = {};
        for (int e = 0; e < w->s.d_head; e++) lane[e / 8 % 32] += q(e) * k(r, e);
        for (int n = 16; n > 0; n /= 2)
            for (int l = 0; l < n; l++) lane[l] += lane[l + n];
        return lane[0];
    }
};

static void attend_head(const head &x, int n, gpu_half *out)
{
    int width = x.w->s.d_head;
    float scale = 1.0f / sqrtf(static_cast<float>(width)), most = -INFINITY, total = 0;
    std::vector<float> weight, sum(static_cast<size_t>(width), 0.0f);
    for (int r = 0; r < n; r++) {
        weight.push_back(x.dot(r) * scale);
        if (weight.back() > most) most = weight.back();
    }
    for (float &each : weight) each = kvref_expf(each - most);
    for (int first = 0; first < n; first += 64) {
        int last = first + 64 < n ? first + 64 : n;
        float part = 0;
        for (int r = first; r < last; r++) part += weight[static_cast<size_t>(r)];
        total += part;
        for (int e = 0; e < width; e++) {
            part = 0;
            for (int r = first; r < last; r++)
                part += weight[static_cast<size_t>(r)] * x.v(r, e);
            sum[static_cast<size_t>(e)] += part;
        }
    }
    for (int e = 0; e < width; e++) out[e] = gpu_f16(sum[static_cast<size_t>(e)] / total);
}

static void attend_books(const head &x, int n, gpu_half *out)
{
    int width = x.w->s.d_head;
    float scale = 1.0f / sqrtf(static_cast<float>(width)), most = -INFINITY, total = 0;
    std::vector<float> p;
    for (int r = 0; r < n; r++) {
        p.push_back(r16(r16(x.dot(r)) * scale));
        if (p.back() > most) most = p.back();
    }
    for (float &each : p) {
        each = kvref_expf(each - most);
        total += each;
    }
    for (float &each : p) each = r16(each / total);
    for (int e = 0; e < width; e++) {
        float sum = 0;
        for (int r = 0; r < n; r++) sum += p[static_cast<size_t>(r)] * x.v(r, e);
        out[e] = gpu_f16(sum);
    }
}

halves expected(const scene &w, form f)
{
    const shape &s = w.s;
    halves out(w.q.size(), UNWRITTEN);
    for (int t = 0; t < s.n_row; t++)
        for (int h = 0; h < s.n_head; h++) {
            head x = {&w, t, h, h / (s.n_head / s.n_kv_head)};
            gpu_half *at = &out[static_cast<size_t>(t * row_width(s) + h * s.d_head)];
            if (f == BOOKS || f == BOOKS_FULL)
                attend_books(x, s.n_past + t + 1, at);
            else
                attend_head(x, s.n_past + t + 1, at);
        }
    return out;
}

std::vector<double> exact(const scene &w, std::vector<double> *magnitude)
{
    const shape &s = w.s;
    std::vector<double> out;
    magnitude->clear();
    for (int t = 0; t < s.n_row; t++)
        for (int h = 0; h < s.n_head; h++) {
            head x = {&w, t, h, h / (s.n_head / s.n_kv_head)};
            std::vector<double> weight;
            double most = -HUGE_VAL, total = 0;
            for (int r = 0; r <= s.n_past + t; r++) {
                double dot = 0;
                for (int e = 0; e < s.d_head; e++)
                    dot += static_cast<double>(x.q(e)) * static_cast<double>(x.k(r, e));
                weight.push_back(dot / sqrt(static_cast<double>(s.d_head)));
                most = fmax(most, weight.back());
            }
            for (double &each : weight) {
                each = exp(each - most);
                total += each;
            }
            for (int e = 0; e < s.d_head; e++) {
                double sum = 0, size = 0;
                for (int r = 0; r <= s.n_past + t; r++) {
                    double v = static_cast<double>(x.v(r, e));
                    sum += weight[static_cast<size_t>(r)] * v;
                    size += weight[static_cast<size_t>(r)] * fabs(v);
                }
                out.push_back(sum / total);
                magnitude->push_back(size / total);
            }
        }
    return out;
}

int differ(const halves &a, const halves &b)
{
    int n = a.size() != b.size();
    for (size_t i = 0; i < a.size() && i < b.size(); i++) {
        bool both_nan = (a[i] & 0x7fff) > 0x7c00 && (b[i] & 0x7fff) > 0x7c00;
        n += a[i] != b[i] && !both_nan;
    }
    return n;
}

} /* namespace attend */
