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
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Multiply-adds of one frame, from the shapes: decoding is the sum of spec 06 section 9. */
#define DECODE_MADDS 3382e6
#define ENCODE_MADDS 1782e6

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of processor time of all threads: what is left of a rate on a busy machine. */
static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct rates {
    double wall, cpu; /* sgemm GFLOP/s: of all threads, and of a second of processor time */
} rates;

typedef struct span {
    double wall, cpu;
} span;

static span start(void)
{
    return (span){now(), cpu()};
}

/* One thread's share: 1024 cubed, a few times. */
static void *multiply(void *arg)
{
    enum { N = 1024 };
    float *a = calloc(3 * N * N, sizeof *a), *b = a + N * N, *c = b + N * N;
    for (int i = 0; i < 2 * N * N; i++) a[i] = (float)(i % 17) - 8.0f;
    double best = 1e9;
    for (int r = 0; r < 12; r++) {
        double t0 = now();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1, a, N, b, N, 0, c, N);
        if (now() - t0 < best) best = now() - t0;
    }
    *(double *)arg = 2.0 * N * N * N / best * 1e-9;
    free(a);
    return NULL;
}

static rates sgemm_rates(int n_thread)
{
    pthread_t thread[64];
    double rate[64];
    rates sum = {0, 0};
    openblas_set_num_threads(1);
    double t0 = cpu();
    for (int i = 0; i < n_thread; i++) pthread_create(&thread[i], NULL, multiply, &rate[i]);
    for (int i = 0; i < n_thread; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < n_thread; i++) sum.wall += rate[i];
    sum.cpu = 2e-9 * 1024 * 1024 * 1024 * 12 * n_thread / (cpu() - t0);
    return sum;
}

static void report(const char *what, span from, int n_frame, double madds, rates rate)
{
    double wall = now() - from.wall, used = cpu() - from.cpu;
    double flop = 2e-9 * madds * n_frame;
    printf("%-20s %7.2f ms a frame %6.2f frames/s %.2f x real time %6.1f GFLOP/s %3.0f %% of "
           "sgemm; a processor second: %5.1f GFLOP, %.0f %%\n",
           what,
           1e3 * wall / n_frame,
           n_frame / wall,
           n_frame / wall / 21.533203125,
           flop / wall,
           100 * flop / wall / rate.wall,
           flop / used,
           100 * flop / used / rate.cpu);
    fflush(stdout);
}

static void bench_decode(kvref_codec *codec, int n_frame, int piece, rates rate)
{
    kvref_error err;
    kvref_codec_stream *stream;
    char what[32];
    int32_t *code = malloc((size_t)n_frame * 10 * sizeof *code);
    for (int i = 0; i < 10 * n_frame; i++) code[i] = i * 7919 % 1024;
    float *pcm = malloc((size_t)n_frame * 2048 * sizeof *pcm);
    span from = start();
    if (kvref_codec_stream_open(&stream, codec, &err) != KVREF_OK) puts(err.text);
    for (int t = 0; t < n_frame; t += piece) {
        int n = n_frame - t < piece ? n_frame - t : piece;
        if (kvref_codec_stream_push(stream, pcm + 2048 * t, code + 10 * t, n, &err) != KVREF_OK)
            puts(err.text);
    }
    kvref_codec_stream_close(&stream);
    snprintf(what, sizeof what, "decode, pieces of %d", piece);
    report(what, from, n_frame, DECODE_MADDS, rate);
    free(code);
    free(pcm);
}

static void bench_encode(kvref_codec *codec, int n_frame, rates rate)
{
    kvref_error err;
    kvref_codes codes;
    float *pcm = malloc((size_t)n_frame * 2048 * sizeof *pcm);
    for (int i = 0; i < 2048 * n_frame; i++) pcm[i] = (float)(i * 7919 % 255 - 127) / 256.0f;
    span from = start();
    if (kvref_codec_encode(codec, &codes, pcm, (size_t)n_frame * 2048, &err) != KVREF_OK)
        puts(err.text);
    report("encode", from, n_frame, ENCODE_MADDS, rate);
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
    rates rate = sgemm_rates(n_thread);
    printf("core %s, %d threads, sgemm %.1f GFLOP/s, %.1f in a processor second\n",
           openblas_get_corename(),
           n_thread,
           rate.wall,
           rate.cpu);
    for (unsigned part = piece < 0 ? KVREF_CODEC_ENCODE : KVREF_CODEC_DECODE;
         part <= KVREF_CODEC_ENCODE;
         part++) {
        kvref_codec *codec;
        kvref_codec_opts opts = {.parts = part, .n_thread = n_thread};
        double t0 = now();
        if (kvref_codec_open(&codec, path, &opts, &err) != KVREF_OK) {
            puts(err.text);
            return 2;
        }
        printf("open %.2f s\n", now() - t0);
        if (part == KVREF_CODEC_ENCODE) {
            bench_encode(codec, n_frame, rate);
        } else if (piece) {
            bench_decode(codec, n_frame, piece, rate);
        } else {
            bench_decode(codec, n_frame, n_frame, rate);
            bench_decode(codec, n_frame / 4, 1, rate);
            bench_decode(codec, n_frame, 8, rate);
            printf("stream %.1f MiB\n", (double)kvref_codec_stream_bytes(codec) / 1048576);
        }
        kvref_codec_close(&codec);
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("peak resident %.0f MiB\n", (double)use.ru_maxrss / 1024);
    return 0;
}
