/* SPDX-License-Identifier: Apache-2.0
 *
 * Nanoseconds that cannot run over, whatever a damaged dump says.
 * Lives here: saturating addition, and the way back from floating point.
 * Must not live here: clocks.
 */
#ifndef COMMTAP_BASE_NS_H
#define COMMTAP_BASE_NS_H

#include <stdint.h>

/* a + b, at most NS_MOST in either direction: differences and sums of two such sums stay in range, too. */
#define NS_MOST (INT64_MAX / 4)
static inline int64_t add_ns(int64_t a, int64_t b) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        sum = a > 0 ? NS_MOST : -NS_MOST;
    return sum > NS_MOST ? NS_MOST : sum < -NS_MOST ? -NS_MOST : sum;
}

/* A figure that was worked out in floating point, within the same bounds; 0 where it is no number. */
static inline int64_t ns_clamped(double ns) {
    if (ns >= (double)NS_MOST || ns <= -(double)NS_MOST)
        return ns > 0 ? NS_MOST : -NS_MOST;
    return ns == ns ? (int64_t)ns : 0;
}

#endif
