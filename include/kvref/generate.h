/* SPDX-License-Identifier: MIT */
/* The generation loop, one for every backend (spec 04 sections 4-6). */
#ifndef KVREF_GENERATE_H
#define KVREF_GENERATE_H

#include "kvref/backend.h"
#include "kvref/prompt.h"
#include "kvref/sample.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvref_stop {
    KVREF_STOP_END,    /* the model drew the end token                 */
    KVREF_STOP_LENGTH, /* max_new_tokens or the capacity was reached   */
    KVREF_STOP_FORCED  /* all forced frames were made                  */
} kvref_stop;

typedef struct kvref_generate_opts {
    kvref_sampling sampling;
    int max_new_tokens;         /* frames, the prefill's included; 0: to the capacity        */
    int min_frames;             /* the end token cannot be drawn in the first min_frames     */
    bool stop_at_first_end;     /* also test the prefill's token (upstream does not)         */
    bool keep_last_frame;       /* keep a last frame that is not the end (upstream drops it) */
    int sample;                 /* address of the noise, kvref_draw.sample                   */
    int frame_base;             /* added to the frame address: frames of earlier batches     */
    const kvref_frames *forced; /* NULL, or frames to feed instead of what is drawn          */
    kvref_trace *trace;         /* NULL, or receives what the loop knows (kvref/trace.h)     */

    /* NULL, or called after every frame; returning non-zero stops with KVREF_E_STOPPED. */
    int (*progress)(void *user, int n_frame, int limit);
    void *user;
} kvref_generate_opts;

typedef struct kvref_generated {
    kvref_frames frames; /* every column produced, the one upstream drops included */
    kvref_codes codes;   /* what is returned: rows 1..N of the kept columns        */
    kvref_stop stop;
} kvref_generated;

/* Decodes one batch from an empty cache (the decoder is rewound first). Everything is checked
 * and allocated before the first write; no frame allocates, apart from what a trace collects.
 *
 * Room: after a prompt of T positions at most capacity - T frames can be made, as upstream has
 * it (the last one is never fed back). A prompt that leaves none, or a max_new_tokens beyond,
 * is CAPACITY (upstream lowers the latter silently). Other errors before the first write: ARG
 * (a parameter, column or id out of range, an end token that is not known), MEMORY. Later:
 * those of the backend, CAPACITY of file noise, FORMAT when logits are not numbers.
 *
 * Repetition rule: a semantic token among the last ten of decode calls is drawn again at
 * temperature 1 and top_p 0.9 with the user's top_k, also when temperature 0 asks for the
 * first rank otherwise. A budget of one frame gives zero codes (spec 07 no. 42) unless
 * keep_last_frame.
 *
 * With forced frames nothing is drawn: noise may be NULL, sampling, min_frames and
 * stop_at_first_end are not looked at, an end token among them does not stop, and
 * max_new_tokens can only shorten them (then the stop is LENGTH).
 *
 * On KVREF_E_STOPPED *out holds the frames made so far, and codes by the same rule as at the
 * limit; on other errors it is empty. */
kvref_status kvref_generate(const kvref_backend *backend,
                            kvref_decoder *d,
                            const kvref_config *config,
                            kvref_generated *out,
                            const kvref_frames *prompt,
                            kvref_noise *noise,
                            const kvref_generate_opts *opts,
                            kvref_error *err);

void kvref_generated_clear(kvref_generated *g);

#ifdef __cplusplus
}
#endif
#endif
