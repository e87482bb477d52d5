/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of samples.h.
 */
#include "analyzer/stragglers/samples.h"

#include <stdlib.h>
#include <string.h>

bool samples_init(struct samples *samples, uint32_t segments) {
    *samples = (struct samples){.capacity = segments,
                                .self_ns = malloc((size_t)segments * SAMPLE_SEGMENT * sizeof *samples->self_ns)};
    return samples->self_ns != NULL;
}

void samples_free(struct samples *samples) {
    free(samples->self_ns);
    *samples = (struct samples){0};
}

static int64_t *segment_at(const struct samples *samples, uint32_t index) {
    return samples->self_ns + (size_t)index * SAMPLE_SEGMENT;
}

void samples_thin(struct samples *samples, unsigned thin) {
    for (; samples->thin < thin; samples->thin++) {
        uint32_t odd = samples->first & 1, kept = 0;
        for (uint32_t i = odd; i < samples->count; i += 2)
            memmove(segment_at(samples, kept++), segment_at(samples, i), SAMPLE_SEGMENT * sizeof *samples->self_ns);
        samples->first = samples->first / 2 + odd;
        samples->count = kept;
    }
}

void samples_add(struct samples *samples, uint32_t seq, int64_t self_ns) {
    uint32_t segment = seq / SAMPLE_SEGMENT;
    if (samples->count > 0 && segment >> samples->thin < samples->first) /* numbers rise; one that does not is damage */
        return;
    while (samples->count > 0 && (segment >> samples->thin) - samples->first >= samples->capacity)
        samples_thin(samples, samples->thin + 1);
    if (segment & ((UINT32_C(1) << samples->thin) - 1))
        return;
    if (samples->count == 0)
        samples->first = segment >> samples->thin;
    uint32_t index = (segment >> samples->thin) - samples->first;
    while (samples->count <= index) {
        int64_t *fresh = segment_at(samples, samples->count++);
        for (unsigned i = 0; i < SAMPLE_SEGMENT; i++)
            fresh[i] = SAMPLE_NONE;
    }
    segment_at(samples, index)[seq % SAMPLE_SEGMENT] = self_ns;
}

const int64_t *samples_segment(const struct samples *samples, uint32_t number) {
    if (number < samples->first || number - samples->first >= samples->count)
        return NULL;
    return segment_at(samples, number - samples->first);
}
