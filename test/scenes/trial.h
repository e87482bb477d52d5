/* SPDX-License-Identifier: Apache-2.0
 *
 * Situations in which the verdict is tried, and running many jobs of one.
 * Lives here: the table of situations, right and wrong answers counted.
 * Must not live here: what counts as good enough.
 */
#ifndef COMMTAP_TEST_TRIAL_H
#define COMMTAP_TEST_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/scenes/scene.h"

struct trial {
    const char *name;
    bool planted;       /* somebody is slow, or another one each time */
    struct scene scene; /* the seed differs from job to job */
};

extern const struct trial trials[];
extern const size_t trial_count;

struct trial_result {
    unsigned right;           /* jobs that name exactly the slow one, or that ranks take turns where they do */
    unsigned wrong;           /* jobs that name anybody else */
    unsigned rotating;        /* jobs in which ranks are said to take turns */
    unsigned suspected_right; /* the same of suspicions, in jobs that name nobody */
    unsigned suspected_wrong;
};

/* Plays `jobs` jobs with seeds from `first_seed` on. */
struct trial_result trial_run(const struct trial *trial, unsigned jobs, uint64_t first_seed);

#endif
