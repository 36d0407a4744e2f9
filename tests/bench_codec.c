/* SPDX-License-Identifier: MIT */
/* Speed of the codec at the real widths against the sgemm rate of the same run:
 *   bench_codec FOLDER [FRAMES] [THREADS] [PIECE, -1: no decoding]
 * FOLDER exists and keeps the synthetic codec (1.6 GB) between runs. */
#include "kvref/codec.h"
#include "kvref/synth_codec.h"

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Multiply-adds of one frame, from the shapes: decoding is the sum of spec 06 section 9. */
#define DECODE_MADDS 3382e6
#define ENCODE_MADDS 1782e6

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what OpenBLAS does with two square matrices, sampled all through the run ---- */

enum { N = 1024, MAX_THREAD = 64, MAX_SAMPLE = 4096 };

/* GFLOP/s of all threads by the clock, and GFLOP of one second of processor time. */
typedef struct rates {
    double wall[MAX_SAMPLE], cpu[MAX_SAMPLE];
    int n;
} rates;

typedef struct square {
    float *a; /* a, b and their product */
    double wall, cpu;
} square;

/* One thread's share: the product twice, of which the second is timed. */
static void *multiply(void *arg)
{
    square *s = arg;
    float *a = s->a, *b = a + N * N, *c = b + N * N;
    for (int r = 0; r < 2; r++) {
        s->wall = -seconds(CLOCK_MONOTONIC);
        s->cpu = -seconds(CLOCK_THREAD_CPUTIME_ID);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1, a, N, b, N, 0, c, N);
        s->wall += seconds(CLOCK_MONOTONIC);
        s->cpu += seconds(CLOCK_THREAD_CPUTIME_ID);
    }
    return NULL;
}

static void sample(rates *rate, square *share, int n_thread)
{
    pthread_t thread[MAX_THREAD];
    double flop = 2e-9 * N * N * N, wall = 0, cpu = 0;
    if (rate->n == MAX_SAMPLE) return;
    openblas_set_num_threads(1);
    for (int i = 0; i < n_thread; i++) pthread_create(&thread[i], NULL, multiply, &share[i]);
    for (int i = 0; i < n_thread; i++) {
        pthread_join(thread[i], NULL);
        wall += flop / share[i].wall;
        cpu += share[i].cpu;
    }
    rate->wall[rate->n] = wall;
    rate->cpu[rate->n++] = flop * n_thread / cpu;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

/* ---- the codec's time, less that of the samples within ---- */

typedef struct bench {
    int n_thread;
    square square[MAX_THREAD];
    rates rate;
    double wall, cpu; /* time used; while it runs, less the time at which it began */
    double since;     /* the last sample */
} bench;

static void resume(bench *b)
{
    b->wall -= seconds(CLOCK_MONOTONIC);
    b->cpu -= seconds(CLOCK_PROCESS_CPUTIME_ID);
}

static void pause_for_samples(bench *b, int n)
{
    b->wall += seconds(CLOCK_MONOTONIC);
    b->cpu += seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < n; i++) sample(&b->rate, b->square, b->n_thread);
    b->since = seconds(CLOCK_MONOTONIC);
}

/* A tap: the codec stops here at the end of every piece. */
static void tap(void *user, const kvref_tap_data *data)
{
    bench *b = user;
    bool end = !strcmp(data->name, "decoder.model.7") || !strcmp(data->name, "pre_module");
    if (!end || seconds(CLOCK_MONOTONIC) - b->since < 0.2) return;
    pause_for_samples(b, 2);
    resume(b);
}

static void begin(bench *b)
{
    b->rate.n = 0;
    b->wall = b->cpu = 0;
    pause_for_samples(b, 5);
    b->wall = b->cpu = 0;
    resume(b);
}

static void report(bench *b, const char *what, int n_frame, double madds)
{
    pause_for_samples(b, 5);
    rates *rate = &b->rate;
    double wall = median(rate->wall, rate->n), cpu = median(rate->cpu, rate->n);
    double flop = 2e-9 * madds * n_frame;
    printf("%-20s %6.2f ms a frame %6.2f frames/s %.2f x real time %6.1f GFLOP/s %3.0f %%; "
           "a processor second %5.1f GFLOP %3.0f %%\n"
           "    of sgemm's, median of %d: %.1f (best %.1f); a processor second %.1f (%.1f)\n",
           what,
           1e3 * b->wall / n_frame,
           n_frame / b->wall,
           n_frame / b->wall / 21.533203125,
           flop / b->wall,
           100 * flop / b->wall / wall,
           flop / b->cpu,
           100 * flop / b->cpu / cpu,
           rate->n,
           wall,
           rate->wall[rate->n - 1],
           cpu,
           rate->cpu[rate->n - 1]);
    fflush(stdout);
}

static void bench_decode(bench *b, kvref_codec *codec, int n_frame, int piece)
{
    kvref_error err;
    kvref_codec_stream *stream;
    char what[32];
    int32_t *code = malloc((size_t)n_frame * 10 * sizeof *code);
    for (int i = 0; i < 10 * n_frame; i++) code[i] = i * 7919 % 1024;
    float *pcm = malloc((size_t)n_frame * 2048 * sizeof *pcm);
    begin(b);
    if (kvref_codec_stream_open(&stream, codec, &err) != KVREF_OK) puts(err.text);
    for (int t = 0; t < n_frame; t += piece) {
        int n = n_frame - t < piece ? n_frame - t : piece;
        if (kvref_codec_stream_push(stream, pcm + 2048 * t, code + 10 * t, n, &err) != KVREF_OK)
            puts(err.text);
    }
    kvref_codec_stream_close(&stream);
    snprintf(what, sizeof what, "decode, pieces of %d", piece);
    report(b, what, n_frame, DECODE_MADDS);
    free(code);
    free(pcm);
}

static void bench_encode(bench *b, kvref_codec *codec, int n_frame)
{
    kvref_error err;
    kvref_codes codes;
    float *pcm = malloc((size_t)n_frame * 2048 * sizeof *pcm);
    for (int i = 0; i < 2048 * n_frame; i++) pcm[i] = (float)(i * 7919 % 255 - 127) / 256.0f;
    begin(b);
    if (kvref_codec_encode(codec, &codes, pcm, (size_t)n_frame * 2048, &err) != KVREF_OK)
        puts(err.text);
    report(b, "encode", n_frame, ENCODE_MADDS);
    kvref_codes_clear(&codes);
    free(pcm);
}

static int number(int argc, char **argv, int i, int otherwise)
{
    return i < argc ? (int)strtol(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    kvref_error err;
    kvref_codec_dims dims = kvref_codec_dims_real();
    const char *dir = argc > 1 ? argv[1] : NULL;
    int n_frame = number(argc, argv, 2, 64), n_thread = number(argc, argv, 3, 2);
    int piece = number(argc, argv, 4, 0);
    char path[1024];
    if (!dir) return 2;
    snprintf(path, sizeof path, "%s/codec.safetensors", dir);
    kvref_synth_codec_opts o = {0};
    if (access(path, F_OK) != 0 && kvref_synth_codec_write(dir, &dims, &o, &err) != KVREF_OK) {
        puts(err.text);
        return 2;
    }
    bench *b = calloc(1, sizeof *b);
    b->n_thread = n_thread < MAX_THREAD ? n_thread : MAX_THREAD;
    for (int i = 0; i < b->n_thread; i++) {
        b->square[i].a = calloc(3 * N * N, sizeof(float));
        for (int j = 0; j < 2 * N * N; j++) b->square[i].a[j] = (float)(j % 17) - 8.0f;
    }
    printf("core %s, %d threads\n", openblas_get_corename(), b->n_thread);
    for (unsigned part = piece < 0 ? KVREF_CODEC_ENCODE : KVREF_CODEC_DECODE;
         part <= KVREF_CODEC_ENCODE;
         part++) {
        kvref_codec *codec;
        kvref_codec_opts opts = {
            .parts = part, .n_thread = b->n_thread, .tap = {tap, b, KVREF_TAP_LAYERS}};
        double t0 = seconds(CLOCK_MONOTONIC);
        if (kvref_codec_open(&codec, path, &opts, &err) != KVREF_OK) {
            puts(err.text);
            return 2;
        }
        printf("open %.2f s\n", seconds(CLOCK_MONOTONIC) - t0);
        if (part == KVREF_CODEC_ENCODE) {
            bench_encode(b, codec, n_frame);
        } else if (piece) {
            bench_decode(b, codec, n_frame, piece);
        } else {
            bench_decode(b, codec, n_frame, n_frame);
            bench_decode(b, codec, n_frame / 4, 1);
            bench_decode(b, codec, n_frame, 8);
            printf("stream %.1f MiB\n", (double)kvref_codec_stream_bytes(codec) / 1048576);
        }
        kvref_codec_close(&codec);
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("peak resident %.0f MiB\n", (double)use.ru_maxrss / 1024);
    return 0;
}
