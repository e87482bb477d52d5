/* SPDX-License-Identifier: Apache-2.0
 *
 * How a GPU spent the time of some steps: busy or idle, computing or communicating, and how much of both at once.
 * Lives here: what ran on a rank's GPU (imported traces hold all of it), sums of it as Holistic Trace Analysis has
 * them. Must not live here: reading records, where steps begin.
 *
 * A kernel belongs to the step in which it was launched, as for that tool, wherever steps go from mark to mark: the
 * host runs ahead of its GPU. Where they are found from operations, which have the GPU's times, to the one it began in.
 */
#ifndef COMMTAP_STEPS_GPU_TIMES_H
#define COMMTAP_STEPS_GPU_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_LAUNCH_UNKNOWN INT64_MIN
#define GPU_NO_STEP        SIZE_MAX

enum gpu_span_kind { GPU_SPAN_COMPUTE, GPU_SPAN_COPY, GPU_SPAN_COMMUNICATION };

struct gpu_span {
    int64_t from, to;
    int64_t launched; /* GPU_LAUNCH_UNKNOWN */
    size_t step;      /* of the rank's steps, GPU_NO_STEP */
    uint32_t stretch; /* counts on where some time before it is not on record */
    enum gpu_span_kind kind;
};

/* All times that several do at once count once. */
struct gpu_times {
    int64_t span_ns; /* first beginning to last end, of each stretch on record by itself */
    int64_t busy_ns; /* of it, anything ran */
    int64_t compute_ns, copy_ns, communication_ns;
    int64_t overlap_ns; /* compute and communication at once */
};

void gpu_spans_sort(struct gpu_span *spans, size_t count);
/* The same step by step, what is of none last. */
void gpu_spans_sort_by_step(struct gpu_span *spans, size_t count);

/* Sums up the sorted spans: of the steps that are wanted (by their index), all where `wanted` is NULL. Returns false
 * where there are none. */
bool gpu_times_sum(struct gpu_times *times, const struct gpu_span *spans, size_t count, const bool *wanted);

#endif
