/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/own_steps.h"

#include <stdlib.h>

#include "analyzer/base/ns.h"

void own_steps_free(struct own_steps *steps) {
    free(steps->rows);
    steps->rows = NULL;
    steps->count = 0;
}

static bool begin_step(struct own_steps *steps, int64_t at_ns) {
    if (steps->too_many || steps->count == OWN_STEPS_MOST) {
        steps->too_many = true;
        own_steps_free(steps);
        return true;
    }
    if (!steps->rows && !(steps->rows = calloc(OWN_STEPS_MOST, sizeof *steps->rows)))
        return false;
    steps->rows[steps->count++] = (struct own_step){.begin_ns = at_ns};
    return true;
}

bool own_steps_mark(struct own_steps *steps, int64_t at_ns) {
    if (!steps->marked) { /* collectives do not count any more */
        own_steps_free(steps);
        steps->too_many = false;
    }
    steps->marked = true;
    return begin_step(steps, at_ns);
}

bool own_steps_meet(struct own_steps *steps, int64_t at_ns) {
    return steps->marked || !steps->meets || begin_step(steps, at_ns);
}

size_t own_steps_whole(const struct own_steps *steps) {
    return steps->marked || steps->count == 0 ? steps->count : steps->count - 1;
}

struct own_step *own_steps_at(const struct own_steps *steps, int64_t at_ns) {
    size_t at = steps->count;
    while (at > 0 && steps->rows[at - 1].begin_ns > at_ns)
        at--;
    return at > 0 ? &steps->rows[at - 1] : NULL;
}

void own_steps_launched(struct own_steps *steps, uint32_t op, int64_t at_ns) {
    struct own_step *step = own_steps_at(steps, at_ns);
    if (step && step->launches++ == 0)
        step->first_op = op;
}

struct own_step *own_steps_of_launch(const struct own_steps *steps, uint32_t op) {
    size_t at = steps->count;
    while (at > 0 && (steps->rows[at - 1].launches == 0 || steps->rows[at - 1].first_op > op))
        at--;
    return at > 0 ? &steps->rows[at - 1] : NULL;
}

void own_steps_add(struct own_step *step, int64_t from_ns, int64_t to_ns) {
    if (step && from_ns < to_ns)
        step->self_ns = add_ns(step->self_ns, to_ns - from_ns);
}

void own_steps_count_beside(struct own_steps *steps, int sign) {
    for (size_t i = 0; i < steps->count; i++)
        steps->rows[i].self_ns = add_ns(steps->rows[i].self_ns, sign * steps->rows[i].beside_ns);
}

void own_steps_parcel(struct own_steps *steps, struct parcel *parcel) {
    size_t count = steps->count;
    parcel_flag(parcel, &steps->too_many);
    parcel_flag(parcel, &steps->marked);
    parcel_field(parcel, &count);
    if (count > OWN_STEPS_MOST ||
        (count > 0 && !steps->rows && !(steps->rows = calloc(OWN_STEPS_MOST, sizeof *steps->rows))))
        parcel->failed = true;
    if (parcel->failed)
        return;
    steps->count = count;
    if (count > 0)
        parcel_bytes(parcel, steps->rows, count * sizeof *steps->rows);
}
