/* SPDX-License-Identifier: Apache-2.0
 *
 * Since when a thread has been asking for what it got in the end: by Test until an operation was complete, or by Iprobe
 * until there was a message to receive.
 * Lives here: the state of one lane's walk. Must not live here: whom it waited for.
 */
#ifndef COMMTAP_MATCH_POLLING_H
#define COMMTAP_MATCH_POLLING_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/load/dump.h"

/* Own work between polls counts as done before the first of them: their times then follow each other closely, and end
 * when they did. */
struct polling {
    bool any;
    bool found;       /* the last one, a probe, found a message */
    uint32_t comm;    /* in which */
    uint32_t stretch; /* of the covered time */
    int64_t from, to; /* common ns */
};

/* One record of the lane, without those of completions. */
struct polling_call {
    const struct record *record;
    enum call_class call_class;
    uint32_t stretch;
    bool gap;       /* records before it are missing */
    int64_t t0, t1; /* common ns; of a series of polls without the own work in it */
};

/* Takes the lane's next record. Returns since when what the call got was asked for, without own work in between: its t0
 * where no polls came before it. */
int64_t polling_pass(struct polling *polling, const struct polling_call *call);

#endif
