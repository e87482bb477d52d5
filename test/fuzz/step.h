/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of the structured targets: a list of steps of equal size, so that taking one out, doubling or moving it
 * leaves the others what they were.
 * Lives here: the layout of a step.
 * Must not live here: what a step does (job.c, faults.c, fuzz_import.c), how inputs are changed (mutate.c).
 */
#ifndef COMMTAP_TEST_FUZZ_STEP_H
#define COMMTAP_TEST_FUZZ_STEP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fuzz_step {
    uint8_t op;
    uint8_t who; /* mostly a bit per rank */
    uint8_t where;
    uint8_t what;
    uint16_t x, y;
    uint64_t value;
};
_Static_assert(sizeof(struct fuzz_step) == 16, "a step is 16 bytes");

/* Step `index` of an input, zeros behind its end. */
static inline struct fuzz_step step_at(const uint8_t *data, size_t size, size_t index) {
    struct fuzz_step step = {0};
    size_t at = index * sizeof step;
    if (at < size)
        memcpy(&step, data + at, size - at < sizeof step ? size - at : sizeof step);
    return step;
}

static inline size_t step_count(size_t size) {
    return (size + sizeof(struct fuzz_step) - 1) / sizeof(struct fuzz_step);
}

#endif
