/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading rows of the operation tables.
 * Lives here: the version protocol of those rows, the bounds of their histogram's buckets.
 * Must not live here: sums over rows.
 */
#include "analyzer/load/rows.h"

#include <string.h>

enum { ROW_READ_TRIES = 64 };

enum row_state operation_row_read(const struct operation_row *row, struct operation_row *copy) {
    for (int i = 0; i < ROW_READ_TRIES; i++) {
        uint64_t version = __atomic_load_n(&row->version, __ATOMIC_ACQUIRE);
        if (version == 0)
            return ROW_UNUSED;
        memcpy(copy, row, offsetof(struct operation_row, histogram));
        memset(copy->histogram, 0, sizeof copy->histogram);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (version % 2 == 0 && __atomic_load_n(&row->version, __ATOMIC_RELAXED) == version)
            return ROW_STABLE;
    }
    return ROW_TORN;
}

uint64_t histogram_middle(unsigned bucket) {
    if (bucket == 0)
        return UINT64_C(1) << (HISTOGRAM_FIRST - 1);
    unsigned octave = bucket / 4 + HISTOGRAM_FIRST;
    uint64_t width = UINT64_C(1) << (octave - 2);
    return (4 + bucket % 4) * width + width / 2;
}
