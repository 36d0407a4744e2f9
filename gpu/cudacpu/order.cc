/* SPDX-License-Identifier: MIT */
/* Settings, counters, and the orders in which threads and blocks run. The seeded order is
 * xorshift64* (Vigna 2016) over Fisher-Yates; a launch starts it anew from the seed and its own
 * number, so that a failing launch can be run again. */
#include "gpu/cudacpu/engine.h"

namespace cudacpu_engine
{

static settings defaults()
{
    settings s = {};
    s.n_processor = 4;
    return s;
}

settings set = defaults();
cudacpu_counts counts;
static uint64_t state = 1;

void random_restart()
{
    state = (set.seed + 1) * 0x9e3779b97f4a7c15u ^ (counts.n_launch << 20);
    if (!state) state = 1;
    for (int i = 0; i < 4; i++) random_word();
}

uint64_t random_word()
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du >> 16;
}

void fill_order(uint16_t *list, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        list[i] = static_cast<uint16_t>(set.order == CUDACPU_DESCENDING ? n - 1 - i : i);
    if (set.order != CUDACPU_SEEDED) return;
    for (unsigned i = n; i > 1; i--) {
        unsigned j = static_cast<unsigned>((random_word() & 0xffffffffu) * i >> 32);
        uint16_t x = list[i - 1];
        list[i - 1] = list[j];
        list[j] = x;
    }
}

} /* namespace cudacpu_engine */

using namespace cudacpu_engine;

extern "C" void cudacpu_set_order(cudacpu_order order, uint64_t seed)
{
    set.order = order;
    set.seed = seed;
}

extern "C" void cudacpu_set_deferred(int on)
{
    drain_all();
    set.deferred = on != 0;
}

extern "C" void cudacpu_set_early_exit(int allowed)
{
    set.early_exit = allowed != 0;
}

extern "C" void cudacpu_set_memory_limit(size_t n_byte)
{
    set.memory_limit = n_byte;
}

extern "C" void cudacpu_set_processors(int n)
{
    set.n_processor = n;
}

extern "C" void cudacpu_set_protected(int on)
{
    set.protect = on != 0;
    memory_protect_changed();
}

extern "C" void cudacpu_set_launch_hook(void (*hook)(void *, const cudacpu_launch *),
                                        void *user)
{
    set.launch_hook = hook;
    set.launch_user = user;
}

extern "C" void cudacpu_reset(void)
{
    drain_all();
    set = defaults();
    memory_protect_changed();
    cudacpu_allow_all();
    cudacpu_set_recording(0);
    cudacpu_set_report_hook(nullptr, nullptr);
    cudacpu_clear_reports();
}

extern "C" cudacpu_counts cudacpu_get_counts(void)
{
    return counts;
}

extern "C" void cudacpu_reset_counts(void)
{
    cudacpu_counts c = {};
    c.live_byte = c.peak_byte = counts.live_byte;
    counts = c;
    if (check) check->forget_traffic();
}

extern "C" void cudacpu_traffic(const void *p, uint64_t *read_byte, uint64_t *write_byte)
{
    *read_byte = *write_byte = 0;
    if (check) check->traffic(p, read_byte, write_byte);
}
