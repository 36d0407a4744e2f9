/* SPDX-License-Identifier: MIT */
/* What the race build remembers of memory. For every two bytes a cell: who wrote and who read
 * last, each a 32-bit mark of time (21 bits), thread (10) and a flag; for every byte, whether
 * anything wrote it. So 4 bytes and a bit of shadow per byte, in pages that exist once touched.
 * Time ticks when a block begins, a barrier opens or a __syncwarp ends. */
#ifndef KVREF_GPU_CUDACPU_SHADOW_H
#define KVREF_GPU_CUDACPU_SHADOW_H

#include "gpu/cudacpu/engine.h"

namespace cudacpu_engine
{

enum access_kind { READ_ACCESS, WRITE_ACCESS, ATOMIC_ACCESS };

struct cell {
    uint32_t writer; /* flag: atomically */
    uint32_t reader; /* flag: others read as well, unordered with this one */
};

/* One allocation, or the shared memory of the block. */
struct shadow {
    char *base;
    size_t n_byte;
    cell *cells;
    uint8_t *written;               /* a bit per byte */
    uint64_t read_byte, write_byte; /* asked for by kernels since the counts were last reset */
};

/* How an access collides with what was done before. */
enum collision : uint8_t { NO_COLLISION, SAME_BLOCK, OTHER_BLOCK };
struct verdict {
    collision with;
    uint32_t mark; /* of the other side */
    bool other_wrote;
};

enum { CLOCK_BITS = 21, CLOCK_LIMIT = (1 << CLOCK_BITS) - 1 };
inline uint32_t mark_thread(uint32_t mark)
{
    return mark >> 1 & 1023;
}

extern shadow shared_shadow;

/* The live allocation whose pages hold p; NULL: none. */
shadow *shadow_of(const void *p);
void shadow_add(const allocation &a);
void shadow_drop(const allocation &a);
void shadow_forget_traffic();

/* Marks bytes as written, or as read; false: a byte to be read was never written. */
void set_written(const shadow *s, size_t at, size_t n_byte);
bool all_written(const shadow *s, size_t at, size_t n_byte);
void copy_written(const shadow *to, size_t to_at, const shadow *from, size_t from_at, size_t n);
/* Nothing in [at, at + n) was ever written. */
void forget_written(const shadow *s, size_t at, size_t n_byte);

/* Notes an access of the running thread and says what it collides with. */
verdict note_access(const shadow *s, size_t at, size_t n_byte, access_kind kind);

uint32_t clock_tick();
uint32_t clock_now();
void clock_begin_launch();
void clock_begin_block();
void clock_barrier();

} /* namespace cudacpu_engine */

#endif
