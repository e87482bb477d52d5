/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/kineto/gpu_work.h"

#include <stdlib.h>

#include "analyzer/import/formats.h"
#include "analyzer/load/dump.h"

static int compare_kernels(const void *a, const void *b) {
    const struct gpu_kernel *left = a, *right = b;
    if (left->call != right->call)
        return left->call < right->call ? -1 : 1;
    if (left->start_ns != right->start_ns)
        return left->start_ns < right->start_ns ? -1 : 1;
    if (left->end_ns != right->end_ns)
        return left->end_ns < right->end_ns ? -1 : 1;
    return (left->launched_ns > right->launched_ns) - (left->launched_ns < right->launched_ns);
}

/* How many steps had begun when the kernel was launched; SIZE_MAX where its launch is not known. */
static size_t step_of(const struct gpu_kernel *kernel, const int64_t *steps, size_t count) {
    size_t low = 0;
    if (kernel->launched_ns == GPU_LAUNCH_UNKNOWN)
        return SIZE_MAX;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (steps[middle] <= kernel->launched_ns)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* As a record has it (shim/format.h). */
static uint32_t launch_delay(const struct gpu_kernel *piece) {
    if (piece->launched_ns == GPU_LAUNCH_UNKNOWN)
        return SEQ_NONE;
    int64_t delay = piece->launched_ns < piece->start_ns ? (piece->start_ns - piece->launched_ns) / 1000 : 0;
    return delay < SEQ_NONE ? (uint32_t)delay : SEQ_NONE;
}

static bool add_piece(struct trace *trace, int32_t rank, const struct gpu_kernel *piece) {
    trace->work_count++;
    return trace_add(trace, &(struct trace_event){.posted_ns = piece->start_ns,
                                                  .returned_ns = piece->start_ns,
                                                  .enter_ns = piece->start_ns,
                                                  .leave_ns = piece->end_ns,
                                                  .bytes = BYTES_UNKNOWN,
                                                  .communicator = COMM_NONE,
                                                  .seq = launch_delay(piece),
                                                  .rank = rank,
                                                  .peer = PEER_NONE,
                                                  .tag = TAG_NONE,
                                                  .call = piece->call,
                                                  .state = TRACE_FINISHED,
                                                  .timed = true});
}

bool gpu_work_add(struct trace *trace, int32_t rank, struct gpu_kernel *kernels, size_t count, const int64_t *steps,
                  size_t step_count) {
    if (count > 0)
        qsort(kernels, count, sizeof *kernels, compare_kernels);
    for (size_t i = 0; i < count;) {
        struct gpu_kernel piece = kernels[i];
        size_t step = step_of(&piece, steps, step_count);
        for (i++; i < count && kernels[i].call == piece.call && kernels[i].start_ns < piece.end_ns - TRACE_ROUNDED_NS &&
                  step_of(&kernels[i], steps, step_count) == step;
             i++)
            piece.end_ns = kernels[i].end_ns > piece.end_ns ? kernels[i].end_ns : piece.end_ns;
        if (!add_piece(trace, rank, &piece))
            return false;
    }
    return true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int compare_samples(const void *a, const void *b) {
    const struct gpu_memory *left = a, *right = b;
    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns ? -1 : 1;
    if (left->allocated != right->allocated)
        return left->allocated < right->allocated ? -1 : 1;
    return (left->reserved > right->reserved) - (left->reserved < right->reserved);
}

static bool add_both(struct trace *trace, int32_t rank, const struct gpu_memory *most) {
    return trace_add_sample(trace,
                            &(struct trace_sample){most->at_ns, most->allocated, rank, import_memory_allocated}) &&
           trace_add_sample(trace, &(struct trace_sample){most->at_ns, most->reserved, rank, import_memory_reserved});
}

bool gpu_memory_add(struct trace *trace, int32_t rank, int64_t device, struct gpu_memory *samples, size_t count) {
    size_t own = 0;
    if (device < 0 && count > 0)
        device = samples[0].device;
    for (size_t i = 0; i < count; i++)
        if (samples[i].device == device)
            samples[own++] = samples[i];
    if (own > 0)
        qsort(samples, own, sizeof *samples, compare_samples);
    for (size_t i = 0; i < own;) {
        struct gpu_memory most = samples[i];
        for (i++; i < own && samples[i].at_ns - MEMORY_SAMPLE_NS < most.at_ns; i++) {
            most.allocated = samples[i].allocated > most.allocated ? samples[i].allocated : most.allocated;
            most.reserved = samples[i].reserved > most.reserved ? samples[i].reserved : most.reserved;
        }
        if (!add_both(trace, rank, &most))
            return false;
    }
    return true;
}
