/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of ranks that are slow at times: the table that they are judged on, and what comes of it.
 * Lives here: these data. Must not live here: the test (leads.h), when a rank is slow (slow_stretches.h).
 */
#ifndef COMMTAP_LEADS_LEADS_TABLE_H
#define COMMTAP_LEADS_LEADS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Self times of stretches (rows, by ascending number) on ranks (columns): rows * columns values, ns >= 0. */
struct leads_table {
    size_t rows, columns;
    const int64_t *self_ns;
    const uint32_t *numbers; /* per row */
    bool level;              /* the ranks do different work: each is compared by how far it is from its own median, as a
                                multiple of its own median distance from that */
    uint32_t at_once;        /* so many stretches, counted from the first, are one observation: they follow each other
                                faster than a scheduler lets ranks be independent; 0 and 1: each is one */
};

/* Of each rank: a regular distance shows in as many, and they are kept for all ranks. */
enum { SLOW_NOTED = 32 };

struct rank_leads {
    bool without_peer; /* the other of two does different work */
    double p;          /* chance of as much where nobody is slow; 1 where too little is known */
    double confidence; /* as in significance.h, set by leads_correct */
    double lead_ns;    /* of its mean stretch, less the median rank's: what goes of each stretch on its account */
    double self_ratio; /* all of its time / all of the others' median; 0: not judged */
    /* when it is slow (slow_stretches.h); stretches in a row that come regularly count as one */
    size_t rows, slow_rows;
    double slow_ratio;  /* in the slow ones, its time / the others' median */
    double usual_ratio; /* the same in its median stretch, where it is slow for a part of the run of those beside it */
    double longer_ns;   /* by how much longer a slow stretch is, on average; of a phase as its median ratio says */
    bool phase;         /* the slow stretches are all those of a part of the run */
    bool regular;       /* ... or lie at equal distances, which is what tells (regular_rows.h) */
    uint32_t first, last; /* places in the run between which they lie, in 1/1000 */
    uint32_t every;       /* most of them come so many stretches after the one before; 0: not regularly */
    uint32_t every_steps; /* the same in steps of the job; 0: not regularly, or nobody has looked (slow_steps.h) */
    /* the first slow stretches by number; none of a part of the run, or where not all stretches are on record */
    uint32_t noted[SLOW_NOTED];
    unsigned noted_count;
};

#endif
