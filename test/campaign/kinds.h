// SPDX-License-Identifier: Apache-2.0
//
// The kinds of jobs, after real codes: how the ranks communicate between their computations.
// Must not live here: how long a computation takes, what is wrong with a rank.
#ifndef COMMTAP_TEST_CAMPAIGN_KINDS_H
#define COMMTAP_TEST_CAMPAIGN_KINDS_H

#include "test/campaign/work.h"

struct kind {
    const char *name;
    struct shape shape;
    bool late_receiver; // a rank can come late to its receives only
    void (*run)(struct job *);
};

// collectives.c
void train(struct job *job);     // data-parallel training: one Allreduce per step
void gradients(struct job *job); // conjugate gradients: two Allreduces per iteration
void transpose(struct job *job); // FFT: an Alltoall per step
void mix(struct job *job);       // pairs reduce among themselves, then all of them
// messages.c
void halo(struct job *job);     // 1-D halo exchange
void pairs(struct job *job);    // exchange with one neighbour, then with the other
void pipeline(struct job *job); // each stage hands on to the next
// masters.c
void rounds(struct job *job);    // the master gives everybody one part and collects all
void on_demand(struct job *job); // who has finished gets the next task

#endif
