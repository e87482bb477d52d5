/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch's allocator held of a GPU: from one sample per allocation to few, as samples of a trace.
 * Lives here: which of them stay. Must not live here: how a format tells them.
 */
#ifndef COMMTAP_IMPORT_GPU_MEMORY_H
#define COMMTAP_IMPORT_GPU_MEMORY_H

#include "analyzer/import/trace.h"

/* A trace has a sample for every tensor that comes or goes, thousands in a step. Of those within so much time after the
 * first of them, the largest stay: a page shows intervals that are longer (heat.h), and peaks are kept as they were. */
#define MEMORY_SAMPLE_NS 1000000

struct gpu_memory {
    int64_t at_ns;
    int64_t device;
    uint64_t allocated, reserved; /* bytes, in tensors, and in all */
};

/* Appends the rank's samples of that GPU (-1: of the first one that there is a sample of) to the trace, and sorts them.
 * Returns false when memory is short, or a limit is exceeded. */
bool gpu_memory_add(struct trace *trace, int32_t rank, int64_t device, struct gpu_memory *samples, size_t count);

#endif
