/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/gpu_memory.h"

#include <stdlib.h>

#include "analyzer/import/formats.h"

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
