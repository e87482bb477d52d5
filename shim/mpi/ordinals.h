/* SPDX-License-Identifier: Apache-2.0
 *
 * Point-to-point ordinals: the how-manieth message a send or receive is in its channel (communicator, direction,
 * partner, tag). Fixed in size: jobs with unique tags must not make it grow, what is evicted is unknown from then on.
 */
#ifndef COMMTAP_ORDINALS_H
#define COMMTAP_ORDINALS_H

#include <stdbool.h>
#include <stdint.h>

/* Once per activation; further calls find it done. False when there is no memory. */
bool ordinals_begin(void);

/* The next ordinal of a channel (0, 1, ...), or SEQ_NONE when the channel was evicted since it was first seen. */
uint32_t ordinal_next(uint32_t comm, int32_t peer, int32_t tag, bool send);

#endif
