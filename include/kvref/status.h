/* SPDX-License-Identifier: MIT */
/* Status codes, the error record and the log callback.
 *
 * Rules shared by every header here:
 *   - argument order: object, outputs, in-outs, inputs (each array followed by its length),
 *     options, error record last;
 *   - a function that can fail returns kvref_status and writes one line into *err (err may be
 *     NULL): what failed, which item, what was expected, what was found;
 *   - nothing in the library prints, exits, aborts, reads the environment or keeps mutable
 *     globals;
 *   - any thread may call anything, but one object is for one thread at a time: a decoder, a
 *     noise source, a trace, a writer, a codec together with its streams, and every structure a
 *     call fills. Models, tokenizers and files do not change once they are open and may be
 *     shared by any number of threads until they are closed;
 *   - files are mapped, not copied: one that another process cuts short while it is open raises
 *     SIGBUS on access, as any mapping does. Replace files by renaming, not in place. */
#ifndef KVREF_STATUS_H
#define KVREF_STATUS_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "kvref needs strict IEEE arithmetic: remove -ffast-math and -ffinite-math-only"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvref_status {
    KVREF_OK = 0,
    KVREF_E_ARG,         /* a parameter is out of range                       */
    KVREF_E_IO,          /* the system refused: open, read, write, map        */
    KVREF_E_FORMAT,      /* the bytes are not what the format allows          */
    KVREF_E_MISSING,     /* a file, tensor or key is absent                   */
    KVREF_E_SHAPE,       /* a tensor exists with another shape or dtype       */
    KVREF_E_MEMORY,      /* an allocation failed                              */
    KVREF_E_CAPACITY,    /* positions would not fit the reserved cache        */
    KVREF_E_DEVICE,      /* no usable device, or the device failed            */
    KVREF_E_UNSUPPORTED, /* valid, but not something this program handles     */
    KVREF_E_STOPPED      /* a callback asked to stop                          */
} kvref_status;

/* One error. text is a complete line without newline, never empty after a failure. */
typedef struct kvref_error {
    kvref_status status;
    char text[500];
} kvref_error;

/* Short lower-case name of a status, for example "format". Never NULL. */
const char *kvref_status_name(kvref_status status);

/* Notes that are not errors (surplus tensors, a slow BLAS core). One line per call. */
typedef struct kvref_log {
    void (*line)(void *user, const char *text);
    void *user;
} kvref_log;

/* Returns from the calling function when a call fails. */
#define KVREF_TRY(call)                                                                        \
    do {                                                                                       \
        kvref_status kvref_try_status = (call);                                                \
        if (kvref_try_status != KVREF_OK) return kvref_try_status;                             \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
