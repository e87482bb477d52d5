/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/sampled_collectives.h"

#include <stdlib.h>
#include <string.h>

bool sampled_collectives_init(struct sampled_collectives *sampled, uint32_t segments) {
    *sampled = (struct sampled_collectives){
        .capacity = segments, .self_ns = malloc((size_t)segments * SAMPLED_SEGMENT * sizeof *sampled->self_ns)};
    return sampled->self_ns != NULL;
}

void sampled_collectives_free(struct sampled_collectives *sampled) {
    free(sampled->self_ns);
    *sampled = (struct sampled_collectives){0};
}

static int64_t *segment_at(const struct sampled_collectives *sampled, uint32_t index) {
    return sampled->self_ns + (size_t)index * SAMPLED_SEGMENT;
}

void sampled_collectives_thin(struct sampled_collectives *sampled, unsigned thin) {
    for (; sampled->thin < thin; sampled->thin++) {
        uint32_t odd = sampled->first & 1, kept = 0;
        for (uint32_t i = odd; i < sampled->count; i += 2)
            memmove(segment_at(sampled, kept++), segment_at(sampled, i), SAMPLED_SEGMENT * sizeof *sampled->self_ns);
        sampled->first = sampled->first / 2 + odd;
        sampled->count = kept;
    }
}

void sampled_collectives_add(struct sampled_collectives *sampled, uint32_t seq, int64_t self_ns) {
    uint32_t segment = seq / SAMPLED_SEGMENT;
    if (sampled->count > 0 && segment >> sampled->thin < sampled->first) /* numbers rise; one that does not is damage */
        return;
    while (sampled->count > 0 && (segment >> sampled->thin) - sampled->first >= sampled->capacity)
        sampled_collectives_thin(sampled, sampled->thin + 1);
    if (segment & ((UINT32_C(1) << sampled->thin) - 1))
        return;
    if (sampled->count == 0)
        sampled->first = segment >> sampled->thin;
    uint32_t index = (segment >> sampled->thin) - sampled->first;
    while (sampled->count <= index) {
        int64_t *fresh = segment_at(sampled, sampled->count++);
        for (unsigned i = 0; i < SAMPLED_SEGMENT; i++)
            fresh[i] = SAMPLED_NONE;
    }
    segment_at(sampled, index)[seq % SAMPLED_SEGMENT] = self_ns;
}

const int64_t *sampled_collectives_segment(const struct sampled_collectives *sampled, uint32_t number) {
    if (number < sampled->first || number - sampled->first >= sampled->count)
        return NULL;
    return segment_at(sampled, number - sampled->first);
}
