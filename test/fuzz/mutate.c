/* SPDX-License-Identifier: Apache-2.0
 *
 * How libFuzzer changes inputs that are lists of steps: whole steps are put in, taken out, doubled, moved and taken
 * from other inputs; within a step, numbers become those at which arithmetic goes wrong. Must not live here: what a
 * step means.
 */
#include <stdbool.h>

#include "shim/format.h"
#include "test/fuzz/step.h"

enum { STEP = sizeof(struct fuzz_step) };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t first_size, const uint8_t *second, size_t second_size,
                                 uint8_t *out, size_t out_size_max, unsigned seed);

static uint64_t state;

static uint64_t random_number(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t below(uint64_t limit) {
    return limit > 0 ? random_number() % limit : 0;
}

static uint64_t odd_number(void) {
    static const uint64_t special[] = {0,
                                       1,
                                       2,
                                       7,
                                       8,
                                       63,
                                       64,
                                       65,
                                       255,
                                       256,
                                       257,
                                       65535,
                                       65536,
                                       INT32_MAX,
                                       (uint64_t)INT32_MAX + 1,
                                       UINT32_MAX,
                                       UINT32_MAX - 1,
                                       (uint64_t)UINT32_MAX + 1,
                                       INT64_MAX,
                                       (uint64_t)INT64_MAX + 1,
                                       UINT64_MAX,
                                       UINT64_MAX - 1,
                                       INT64_MAX / 1000,
                                       INT64_MAX / 2,
                                       (uint32_t)PEER_ANY,
                                       (uint32_t)PEER_NULL,
                                       1000000000,
                                       1000};
    switch (below(5)) {
    case 0:
        return below(16);
    case 1:
        return random_number();
    case 2:
        return (UINT64_C(1) << below(64)) + below(3) - 1;
    case 3:
        return below(1000000);
    default:
        return special[below(sizeof special / sizeof *special)];
    }
}

/* Mostly all ranks take part, and everything is small: a job in which something matches. One alone, where it is
 * damage, is what the others do not agree with. */
static struct fuzz_step new_step(void) {
    unsigned who = (unsigned)below(4);
    struct fuzz_step step = {.op = (uint8_t)random_number(),
                             .who = (uint8_t)(who == 0   ? random_number()
                                              : who == 1 ? 1u << below(8)
                                                         : 0xff),
                             .where = (uint8_t)(below(2) ? 0 : random_number()),
                             .what = (uint8_t)random_number(),
                             .x = (uint16_t)(below(3) ? below(20) : random_number()),
                             .y = (uint16_t)(below(3) ? below(1000) : random_number()),
                             .value = below(2) ? random_number() & UINT64_C(0x0f0f0f0f0f0f0f0f) : odd_number()};
    if (below(3) == 0) { /* calls rather than anything else, and now and then one that a rank is refused */
        step.op = (uint8_t)below(4);
        step.x = (uint16_t)(below(8) ? step.x : (0x80 + below(8)) << 8);
    }
    return step;
}

static size_t insert(uint8_t *data, size_t size, size_t size_max, const struct fuzz_step *step, size_t at) {
    if (size + STEP > size_max)
        return size;
    memmove(data + at + STEP, data + at, size - at);
    memcpy(data + at, step, STEP);
    return size + STEP;
}

static void change_within(uint8_t *place) {
    struct fuzz_step step;
    memcpy(&step, place, STEP);
    switch (below(8)) {
    case 0:
        step.op = (uint8_t)random_number();
        break;
    case 1:
        step.who ^= (uint8_t)(1u << below(8));
        break;
    case 2:
        step.where = (uint8_t)random_number();
        break;
    case 3:
        step.what ^= (uint8_t)(1u << below(8));
        break;
    case 4:
        step.x = (uint16_t)odd_number();
        break;
    case 5:
        step.y = (uint16_t)odd_number();
        break;
    case 6:
        step.value = odd_number();
        break;
    default:
        step.value ^= UINT64_C(1) << below(64);
    }
    memcpy(place, &step, STEP);
}

/* The first two steps are the command line and the job's size: they stay in front. */
static size_t change(uint8_t *data, size_t size, size_t size_max) {
    size_t count = size / STEP, at = below(count) * STEP, other = below(count) * STEP;
    struct fuzz_step step = new_step();
    switch (below(9)) {
    case 0:
    case 1:
        return insert(data, size, size_max, &step, below(count + 1) * STEP);
    case 2:
        if (count < 4)
            return size;
        memmove(data + at, data + at + STEP, size - at - STEP);
        return size - STEP;
    case 3:
        memcpy(&step, data + at, STEP);
        return insert(data, size, size_max, &step, other);
    case 4:
        memcpy(&step, data + at, STEP);
        memmove(data + at, data + other, STEP);
        memcpy(data + other, &step, STEP);
        return size;
    case 5: /* the command */
        data[below(4) ? below(STEP) : 0] = (uint8_t)random_number();
        return size;
    default:
        change_within(data + at);
        return size;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed) {
    state = UINT64_C(0x9e3779b97f4a7c15) * (seed + UINT64_C(1));
    if (below(12) == 0)
        return LLVMFuzzerMutate(data, size, size_max);
    size_t steps = size / STEP * STEP;
    if (steps < 3 * STEP && size_max >= 3 * STEP) {
        memset(data + size, 0, 3 * STEP - size);
        steps = 3 * STEP;
    }
    if (steps == 0)
        return LLVMFuzzerMutate(data, size, size_max);
    for (uint64_t i = 0, changes = 1 + below(4) * below(3); i < changes; i++)
        steps = change(data, steps, size_max);
    return steps;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t first_size, const uint8_t *second, size_t second_size,
                                 uint8_t *out, size_t out_size_max, unsigned seed) {
    state = UINT64_C(0x9e3779b97f4a7c15) * (seed + UINT64_C(1));
    size_t keep = below(first_size / STEP + 1) * STEP, from = below(second_size / STEP + 1) * STEP;
    size_t add = second_size - from;
    keep = keep < out_size_max ? keep : out_size_max;
    add = add < out_size_max - keep ? add : out_size_max - keep;
    memcpy(out, first, keep);
    memcpy(out + keep, second + from, add);
    return keep + add;
}
