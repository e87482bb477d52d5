/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said above the table of a running job.
 * Lives here: its sentences. Must not live here: what they rest on (live/), layout.
 */
#ifndef COMMTAP_FINDINGS_LIVE_TEXT_H
#define COMMTAP_FINDINGS_LIVE_TEXT_H

#include "analyzer/live/summary.h"

enum { LIVE_LINE = 256 };

struct live_text {
    char job[LIVE_LINE];     /* which job, how many of its ranks are there */
    char state[LIVE_LINE];   /* whether it comes on, stands or has ended */
    char verdict[LIVE_LINE]; /* and who is to blame; empty where nothing is wrong */
    char awaited[LIVE_LINE]; /* whom most wait for; empty: nobody waits for anybody */
    bool alarm;              /* the verdict is that something is wrong */
};

void live_text_make(struct live_text *text, const struct live_summary *summary, const struct live_rows *rows,
                    const struct job *job);

/* What a rank does, in a few words: "MPI_Allreduce", "computing", "on node7, not reachable". */
void live_text_doing(char *text, size_t size, const struct live_row *row);

#endif
