/* SPDX-License-Identifier: Apache-2.0
 *
 * What a GPU did beside operations with known partners: computation, copies, communication that names nobody.
 * Lives here: from single kernels to pieces of work, as events of a trace; from a sample of memory per allocation to
 * few. Must not live here: how a format tells kernels.
 */
#ifndef COMMTAP_KINETO_GPU_WORK_H
#define COMMTAP_KINETO_GPU_WORK_H

#include "analyzer/import/trace.h"

#define GPU_LAUNCH_UNKNOWN INT64_MIN

struct gpu_kernel {
    int64_t start_ns, end_ns;
    int64_t correlation; /* that of its launch, as the trace numbers them */
    int64_t launched_ns; /* GPU_LAUNCH_UNKNOWN: not on record */
    uint16_t call;       /* import_gpu_work, import_gpu_copies or import_gpu_nccl */
};

/* Appends the rank's work to the trace, and sorts the kernels. Kernels of one kind become one piece where they overlap,
 * but kernels that were launched in two steps never do, and none that follow each other: a collective may have needed
 * the first of them. `steps` are the beginnings of the rank's steps, ascending. Returns false when memory is short, or
 * a limit is exceeded. */
bool gpu_work_add(struct trace *trace, int32_t rank, struct gpu_kernel *kernels, size_t count, const int64_t *steps,
                  size_t step_count);

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
