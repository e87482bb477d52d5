/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a summary, put together by powers of two of their sizes: series must not be as many as sizes.
 * Must not live here: printing.
 */
#ifndef COMMTAP_METRICS_OPERATION_CLASSES_H
#define COMMTAP_METRICS_OPERATION_CLASSES_H

#include "analyzer/profile/summary.h"

struct operation_class {
    const struct summary_entry *like; /* function, communicator, rank and source are its */
    int size_log2;                    /* sizes from 2^this to below twice that; -1: 0 bytes, -2: unknown */
    uint64_t calls, failed, bytes, time_ns;
    double bus_bytes, bus_seconds; /* of rows whose bandwidth is known: their quotient is that of the class */
};

struct operation_classes {
    struct operation_class *items; /* by function, communicator, rank, source, size */
    size_t count;
};

/* Points into `summary`. False: memory is short. The caller frees with operation_classes_free. */
bool operation_classes_build(struct operation_classes *classes, const struct summary *summary);
void operation_classes_free(struct operation_classes *classes);

#endif
