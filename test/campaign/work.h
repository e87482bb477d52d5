// SPDX-License-Identifier: Apache-2.0
//
// A rank at work: it computes what the plan says, and keeps by its own clock what that took, fault and rest apart.
// Must not live here: what is planned, how a kind of job communicates.
#ifndef COMMTAP_TEST_CAMPAIGN_WORK_H
#define COMMTAP_TEST_CAMPAIGN_WORK_H

#include "test/campaign/plan.h"

// One computation by the clock of the rank that did it.
struct clocked {
    int step;
    double planned_us, base_us, extra_us;
};

struct job {
    struct plan plan;
    bool mended;         // the fault's share is left out
    double turns_per_us; // of the loop in spin, on this machine
    struct clocked *done;
    int done_count;
    char *sent, *received; // plan.message_bytes for each rank
};

double now_us(void);

// How often the loop turns in a microsecond: the best of several tries, as anything else on the core only delays it.
double calibrate(void);

// Computes for that long. Never sleeps: a core that is taken away is part of what is measured.
void spin(const struct job *job, double us);

// Computation number index of the plan, in that step, with what the fault adds.
void do_work(struct job *job, int step, int index);

// The two halves of it where something lies between: what the fault adds is then the second half.
void do_base_work(struct job *job, int step, int index);
void do_extra_work(struct job *job, int step, int index);

#endif
