/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs drawn by chance: what their steps hold, how noise is spread, who is slow and when.
 * Lives here: drawing and playing them, what the analyzer says of one.
 * Must not live here: what has to hold for it.
 */
#ifndef COMMTAP_TEST_DRAWN_JOB_H
#define COMMTAP_TEST_DRAWN_JOB_H

#include "analyzer/stragglers/stragglers.h"
#include "test/scenes/actors.h"

enum drawn_shape {
    DRAWN_COLLECTIVE,      /* work, all-reduce on the world */
    DRAWN_TWO_COLLECTIVES, /* work, all-reduce, work, all-reduce */
    DRAWN_HALO,            /* work, exchange with both neighbours */
    DRAWN_HALO_AND_NORM,   /* the same, all-reduce */
    DRAWN_GROUPS,          /* work, all-reduce in each half, all-reduce on the world */
    DRAWN_SHAPES
};

/* How long a stretch of work takes, as a multiple of its least or usual length. */
enum drawn_tail {
    TAIL_NORMAL,    /* standard deviation 5 % */
    TAIL_OUTLIERS,  /* the same; one in twenty is 5 to 20 times as long */
    TAIL_LOGNORMAL, /* sigma 1.5 */
    TAIL_PARETO,    /* exponent 1.5 */
    DRAWN_TAILS,
    TAIL_SHARED = DRAWN_TAILS, /* normal, times what all ranks of the step share: lognormal, sigma 1 */
    TAIL_WANDERING,            /* normal, times the rank's own speed: sigma 15 %, 0.95 of it is kept in each step */
    DRAWN_NULLS,
    TAIL_QUIET = DRAWN_NULLS, /* standard deviation half a per cent: as of sleeping */
};

struct drawn_plant {
    int rank; /* -1: none */
    double factor;
    unsigned every; /* in every so many-th step; 1: in all */
    bool late;      /* in the second half of the run only */
};

enum { DRAWN_PLANTS = 2 };

struct drawn_job {
    uint64_t seed;
    unsigned ranks, steps;
    enum drawn_shape shape;
    enum drawn_tail tail;
    struct drawn_plant plants[DRAWN_PLANTS];
    double together; /* all plants are slow in this share of the steps, drawn once for all; 0: each by `every` */
    double turns;    /* in each step another rank takes so many times as long; 0: none does */
    bool by_chance;  /* which one; else one after the other */
    bool per_half;   /* one in each half of the ranks */
};

/* 4 to 12 ranks, 60 to 140 steps of any shape and tail, up to two plants. */
struct drawn_job drawn_job_of(uint64_t seed);
/* 6 to 12 ranks, 120 to 200 steps, in at least ten of which two ranks are slow, both as much: three to six times as
 * long in every so many-th step or in a tenth to a fifth of them by chance, or 1.2 to 1.8 times all through the second
 * half. */
struct drawn_job drawn_job_of_two(uint64_t seed);
/* As the first with nobody slow, and that tail. */
struct drawn_job drawn_null_job(uint64_t seed, enum drawn_tail tail);
/* In each step another rank takes five times as long, normal noise. */
struct drawn_job drawn_job_of_turns(uint64_t seed, bool per_half);

/* What is said of a job. */
struct drawn_result {
    struct stage *stage;
    struct common_clock clock;
    struct match_directory directory;
    struct straggler_analysis analysis;
};

/* Plays and analyses it. Ends the program when memory is short. */
void drawn_job_judge(struct drawn_result *result, const struct drawn_job *job);
void drawn_result_free(struct drawn_result *result);

#endif
