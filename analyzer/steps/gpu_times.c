/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/steps/gpu_times.h"

#include <stdlib.h>

static int compare_spans(const void *a, const void *b) {
    const struct gpu_span *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

void gpu_spans_sort(struct gpu_span *spans, size_t count) {
    if (count > 0)
        qsort(spans, count, sizeof *spans, compare_spans);
}

static int compare_by_step(const void *a, const void *b) {
    const struct gpu_span *left = a, *right = b;
    if (left->step != right->step)
        return left->step < right->step ? -1 : 1;
    return compare_spans(a, b);
}

void gpu_spans_sort_by_step(struct gpu_span *spans, size_t count) {
    if (count > 0)
        qsort(spans, count, sizeof *spans, compare_by_step);
}

/* The length of a union of spans that come in the order of their beginnings. */
struct covered {
    int64_t length, until;
    bool any;
};

static void cover(struct covered *covered, const struct gpu_span *span) {
    int64_t from = covered->any && covered->until > span->from ? covered->until : span->from;
    if (span->to > from)
        covered->length += span->to - from;
    covered->until = !covered->any || span->to > covered->until ? span->to : covered->until;
    covered->any = true;
}

bool gpu_times_sum(struct gpu_times *times, const struct gpu_span *spans, size_t count, const bool *wanted) {
    struct covered busy = {0}, compute = {0}, copies = {0}, communication = {0}, either = {0};
    int64_t first = 0, unseen = 0;
    uint32_t stretch = 0;
    for (size_t i = 0; i < count; i++) {
        const struct gpu_span *span = &spans[i];
        if (wanted && (span->step == GPU_NO_STEP || !wanted[span->step]))
            continue;
        first = busy.any ? first : span->from;
        if (busy.any && span->stretch != stretch && span->from > busy.until)
            unseen += span->from - busy.until;
        stretch = span->stretch;
        cover(&busy, span);
        cover(span->kind == GPU_SPAN_COMPUTE ? &compute : span->kind == GPU_SPAN_COPY ? &copies : &communication, span);
        if (span->kind != GPU_SPAN_COPY)
            cover(&either, span);
    }
    *times = (struct gpu_times){.span_ns = busy.any ? busy.until - first - unseen : 0,
                                .busy_ns = busy.length,
                                .compute_ns = compute.length,
                                .copy_ns = copies.length,
                                .communication_ns = communication.length,
                                .overlap_ns = compute.length - (either.length - communication.length)};
    return busy.any;
}
