/* SPDX-License-Identifier: Apache-2.0
 *
 * Which jobs' files go, and removing them.
 * Must not live here: finding jobs (fleet.h), words.
 *
 * Never a job that runs, nor one that may: its processes ran elsewhere and did not end properly, unless the caller says
 * that they have ended. Only files whose names the library or commtap gave and that are what their names say; only
 * below the directory that was named, by descriptors, following no link.
 */
#ifndef COMMTAP_FLEET_PRUNE_H
#define COMMTAP_FLEET_PRUNE_H

#include "analyzer/fleet/fleet.h"

struct prune_rules {
    int64_t now_ns;
    int64_t older_ns;    /* jobs whose last change is longer ago go; INT64_MAX: none for that */
    int64_t shorter_ns;  /* jobs that ended well after less than that go; 0: none for that */
    uint64_t most_bytes; /* the oldest go until the others take so much together; UINT64_MAX: none for that */
    bool ended;          /* processes elsewhere have ended */
};

enum prune_reason { PRUNE_NOT = 0, PRUNE_OLD, PRUNE_SHORT, PRUNE_ROOM };

struct pruned {
    enum prune_reason reason;
    bool gone;      /* all its files are removed, or would be */
    uint64_t bytes; /* of those that were */
    size_t files;
    int error; /* errno of the first that could not be, 0: none */
};

/* Whether it may be removed at all. */
bool prune_may(const struct fleet_job *job, const struct prune_rules *rules);

/* Chooses; `pruned` has an element per job. */
void prune_choose(const struct fleet *fleet, const struct prune_rules *rules, struct pruned *pruned);

/* Removes the files of those of jobs[0..count-1] that were chosen, several jobs at a time, and their directories and
 * those above them below `descriptor` where nothing is left in them. `dry`: only finds what could be removed and what
 * not. pruned[i] tells of jobs[i], whatever the others came to. */
void prune_remove(int descriptor, const struct fleet_job *jobs, struct pruned *pruned, size_t count, bool dry);

#endif
