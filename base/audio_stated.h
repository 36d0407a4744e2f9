/* SPDX-License-Identifier: MIT */
/* What the header of a sound file states. */
#ifndef KVREF_BASE_AUDIO_STATED_H
#define KVREF_BASE_AUDIO_STATED_H

#include "base/base.h"

/* Whether a file of n bytes holds fewer bytes of sound than its header states, for formats
 * whose header does; sizes that only a writer into a pipe leaves are none. */
bool kvref_audio_short(uint64_t *stated, uint64_t *found, const uint8_t *data, size_t n);

#endif
