/* SPDX-License-Identifier: Apache-2.0
 *
 * What tells wishes that are whole from wishes that are just being written (struct order_wishes).
 * Must not live here: what the wishes mean.
 * Header only, for the analyzer writes it and the library reads it.
 */
#ifndef COMMTAP_SHIM_BASE_ORDER_CHECK_H
#define COMMTAP_SHIM_BASE_ORDER_CHECK_H

#include "shim/format.h"

/* FNV-1a, 32 bits, of what stands behind the check itself. */
static inline uint32_t order_check(const struct order_wishes *wishes) {
    const unsigned char *bytes = (const unsigned char *)wishes;
    uint32_t hash = 2166136261u;
    for (unsigned i = sizeof wishes->check; i < sizeof *wishes; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

#endif
