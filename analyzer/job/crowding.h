/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that outnumber the processors they may run on.
 * Lives here: counting both, host by host. Must not live here: what follows from it, sentences.
 */
#ifndef COMMTAP_JOB_CROWDING_H
#define COMMTAP_JOB_CROWDING_H

#include "analyzer/load/dump.h"

struct crowding {
    const struct dump *on; /* one of the ranks; its host is where it is */
    size_t ranks, processors;
};

/* The ranks that share processors and are more than these, where there are most for each: all of a host, or those of it
 * that are bound to the same ones. False where there are none, or dumps do not tell (before format 1.1), or memory is
 * short. */
bool crowding_find(struct dump *const *dumps, size_t count, struct crowding *worst);

#endif
