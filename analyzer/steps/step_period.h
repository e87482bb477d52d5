/* SPDX-License-Identifier: Apache-2.0
 *
 * Iterations in a sequence of operations, without markers.
 * Lives here: the periods of a sequence of symbols, and where they begin.
 * Must not live here: records, times, what a symbol stands for.
 *
 * A symbol that comes back at a regular distance proposes that distance as a period. The step is the smallest proposal
 * under which the sequence repeats itself (a symbol equals the one a period later), which most recurring symbols
 * recur within, and in nearly every stretch of which they are present. Smaller proposals are levels inside a step
 * (layers, micro-batches), larger ones span several steps (evaluations, checkpoints). O(n log n).
 */
#ifndef COMMTAP_STEPS_STEP_PERIOD_H
#define COMMTAP_STEPS_STEP_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STEP_PERIOD_LEVELS_MAX = 8 };

struct step_period {
    size_t length;       /* symbols */
    uint64_t anchor;     /* of the symbols that come back after `length`, the first in the caller's order */
    size_t first, count; /* its first position, how often it occurs */
    double regularity;   /* share of the anchor's distances that are `length` */
    double match;        /* share of positions i with s[i] == s[i + length] */
};

struct step_periods {
    struct step_period levels[STEP_PERIOD_LEVELS_MAX]; /* by length; the best supported where there are more */
    size_t count;
    size_t step; /* index of the step in levels; = count: no steps found */
};

/* Looks at the sequence without its first tenth (start-up). `order` says of each position's symbol how much it is
 * wanted as an anchor, the smallest most. Of equal ones `numbers` decide (of each position, counted alike in all
 * sequences of the job: of a collective on its communicator; 0 where there is none): the symbol whose numbers leave the
 * smallest remainder when they are divided by their distance, then the rarest, then the first. A caller that looks at
 * several sequences of one job gives the same symbol's counterparts the same order and numbers, so that the anchors are
 * counterparts, too, wherever the sequences begin. Returns false when memory is short. */
bool step_periods_find(struct step_periods *periods, const uint64_t *symbols, const uint64_t *order,
                       const uint32_t *numbers, size_t count);

#endif
