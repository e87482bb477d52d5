/* SPDX-License-Identifier: Apache-2.0
 *
 * What mending would really have given: a job played with what is planted in it, and once more without.
 * Lives here: the true ratio of their times beside what the analyzer says of the first alone.
 * Must not live here: jobs (workload.h), what is close enough.
 */
#ifndef COMMTAP_TEST_MENDED_H
#define COMMTAP_TEST_MENDED_H

#include "test/scenes/workload.h"

struct mended {
    double really;    /* time with the plant / time without, true time */
    double said;      /* what_if_speedup of what was planted; 0: it was not named */
    double everybody; /* report's slowdown: with all ranks alike */
    double site;      /* the best of its call sites, 1: none */
};

struct mended mended_try(const struct workload *workload);

#endif
