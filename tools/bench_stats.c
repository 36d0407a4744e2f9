/* SPDX-License-Identifier: MIT */
/* Median and spread of a list of times, and hashes against each other. */
#include "tools/bench.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(const double *x, int n, double p)
{
    double place = p * (n - 1);
    int i = (int)place;
    return i + 1 < n ? x[i] + (place - i) * (x[i + 1] - x[i]) : x[n - 1];
}

bench_stats bench_stats_of(double *x, int n)
{
    if (n == 0) return (bench_stats){0};
    qsort(x, (size_t)n, sizeof *x, compare);
    return (bench_stats){n, x[0], at(x, n, 0.25), at(x, n, 0.5), at(x, n, 0.75), x[n - 1]};
}

int bench_compare(bench_point *point, int n, int n_round)
{
    int bad = 0;
    for (int i = 0; i < n; i++) {
        int first = 0;
        while (first < i && (point[first].n_prompt != point[i].n_prompt ||
                             point[first].arm->key != point[i].arm->key))
            first++;
        size_t size = (size_t)n_round * sizeof *point[i].hash;
        if (point[i].arm->key < 0 || first == i) continue;
        point[i].differs = memcmp(point[first].hash, point[i].hash, size) != 0;
        bad += point[i].differs;
    }
    return bad;
}
