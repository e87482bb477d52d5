/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of nanoseconds that cannot run over, whatever a damaged dump says.
 * Lives here: saturating addition.
 * Must not live here: clocks.
 */
#ifndef COMMTAP_ALIGN_NS_H
#define COMMTAP_ALIGN_NS_H

#include <stdint.h>

/* a + b, at most NS_MOST in either direction: differences and sums of two such sums stay in range, too. */
#define NS_MOST (INT64_MAX / 4)
static inline int64_t add_ns(int64_t a, int64_t b) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        sum = a > 0 ? NS_MOST : -NS_MOST;
    return sum > NS_MOST ? NS_MOST : sum < -NS_MOST ? -NS_MOST : sum;
}

#endif
