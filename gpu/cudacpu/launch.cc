/* SPDX-License-Identifier: MIT */
/* Launches: what CUDA refuses, then block after block; and the error that cudaGetLastError
 * gives. The call object with the arguments stays where the launch was made or captured. */
#include "gpu/cudacpu/engine.h"

#include <stdlib.h>

namespace cudacpu_engine
{

const checks *check;
static cudaError_t last_error;
static bool broken; /* a recorded fault: CUDA's sticky error */

cudaError_t note_error(cudaError_t e)
{
    if (e != cudacpu::cudaSuccess) last_error = e;
    return e;
}

void forget_error()
{
    last_error = cudacpu::cudaSuccess;
    broken = false;
}

static bool shape_is_valid(const launch_work &w)
{
    const dim3 &g = w.grid, &b = w.block;
    if (!g.x || !g.y || !g.z || !b.x || !b.y || !b.z) return false;
    if (g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) return false;
    if (b.x > MAX_THREAD || b.y > MAX_THREAD || b.z > 64) return false;
    return b.x * b.y <= MAX_THREAD && b.x * b.y * b.z <= MAX_THREAD;
}

static void begin(const launch_work &w)
{
    counts.n_launch++;
    m.serial++;
    m.launch = &w.site;
    m.call = w.call;
    m.block_shape = {w.block.x, w.block.y, w.block.z};
    m.grid_shape = {w.grid.x, w.grid.y, w.grid.z};
    m.dynamic_byte = w.shared_byte;
    m.read_byte = m.write_byte = 0;
    m.abandoned = false;
    prepare_threads();
    random_restart();
    shared_begin_launch(w.shared_byte);
    if (check) check->begin_launch();
}

static void end(const launch_work &w)
{
    counts.read_byte += m.read_byte;
    counts.write_byte += m.write_byte;
    if (m.abandoned) {
        broken = true;
        last_error = cudacpu::cudaErrorLaunchFailure;
    } else if (set.launch_hook) {
        cudacpu_launch l = {w.site.kernel,
                            {w.grid.x, w.grid.y, w.grid.z},
                            {w.block.x, w.block.y, w.block.z},
                            shared_used(),
                            m.read_byte,
                            m.write_byte};
        set.launch_hook(set.launch_user, &l);
    }
    m.launch = nullptr;
    m.call = nullptr;
}

/* Blocks in seeded order: a walk through the grid with a stride prime to its size, from a
 * random start; a table of a large grid would cost more than the launch. */
static uint64_t stride_for(uint64_t n)
{
    for (;;) {
        uint64_t s = random_word() % n, a = n, b = s;
        while (b) {
            uint64_t r = a % b;
            a = b;
            b = r;
        }
        if (a == 1) return s;
        if (n == 1) return 0;
    }
}

void run_launch(const launch_work &w)
{
    if (broken) return;
    memory_open();
    begin(w);
    uint64_t n = static_cast<uint64_t>(w.grid.x) * w.grid.y * w.grid.z;
    uint64_t at = 0, stride = 1;
    if (set.order == CUDACPU_DESCENDING) at = n - 1, stride = n - 1;
    if (set.order == CUDACPU_SEEDED) at = random_word() % n, stride = stride_for(n);
    for (uint64_t i = 0; i < n && !m.abandoned; i++) {
        uint64_t row = at / w.grid.x;
        m.block = {static_cast<unsigned>(at % w.grid.x),
                   static_cast<unsigned>(row % w.grid.y),
                   static_cast<unsigned>(row / w.grid.y)};
        if (i) shared_begin_block();
        if (check) check->begin_block();
        run_block();
        if (!m.abandoned) shared_end_block();
        at = (at + stride) % n;
    }
    end(w);
    memory_close();
}

cudaError_t refuse_launch(const launch_work &w)
{
    if (broken) return cudacpu::cudaErrorLaunchFailure;
    if (!shape_is_valid(w)) return cudacpu::cudaErrorInvalidConfiguration;
    if (w.shared_byte > SHARED_LIMIT) return cudacpu::cudaErrorInvalidValue;
    return cudacpu::cudaSuccess;
}

cudaError_t peek_error()
{
    return last_error;
}

cudaError_t take_error()
{
    cudaError_t e = last_error;
    if (!broken) last_error = cudacpu::cudaSuccess;
    return e;
}

cudaError_t sticky_error()
{
    return broken ? cudacpu::cudaErrorLaunchFailure : cudacpu::cudaSuccess;
}

} /* namespace cudacpu_engine */
