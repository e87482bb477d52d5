/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs as people run them, with something wrong planted in them: data parallel training, sharded training, pipelines,
 * stencils and solvers, on hosts and on GPUs.
 * Lives here: what the ranks of such jobs do, what is planted, judging what the analyzer says of it.
 * Must not live here: how time passes (actors.h), what counts as good enough.
 */
#ifndef COMMTAP_TEST_WORKLOAD_H
#define COMMTAP_TEST_WORKLOAD_H

#include "analyzer/stragglers/stragglers.h"
#include "test/scenes/actors.h"

enum workload_kind {
    WORKLOAD_DATA_PARALLEL, /* backward pass in pieces, an all-reduce after each, all on the world */
    WORKLOAD_SHARDED,       /* gather, forward, gather, backward, reduce per layer; norm at the end */
    WORKLOAD_PIPELINE,      /* stages x tensor parallel x data parallel; one forward one backward, blocking messages */
    WORKLOAD_STENCIL,       /* four neighbours, non-blocking; a norm on the world each step */
    WORKLOAD_SOLVER,        /* neighbours, two scalar products on the world per step */
    WORKLOAD_GPU,           /* data parallel, by NCCL on a stream */
    WORKLOADS
};

enum plant {
    PLANT_NOBODY,
    PLANT_RANK,       /* `who` takes `factor` times as long for its own work */
    PLANT_HOST,       /* all ranks of host `who` do */
    PLANT_LINK,       /* between `who` and `whom` only `factor` of the bandwidth is left */
    PLANT_HOST_LINK,  /* ... between the hosts `who` and `whom` */
    PLANT_NETWORK,    /* ... between host `who` and all others */
    PLANT_ROTATING,   /* in each step another rank, by chance, takes `factor` times as long */
    PLANT_PAUSES,     /* every rank, each at a time of its own, takes `factor` times as long in each `who`-th step */
    PLANT_RANK_CLASS, /* all ranks of stage `who` of a pipeline do */
    PLANT_LATE_HOST,  /* GPU: the host of rank `who` enqueues late, by factor - 1 of the step */
};

struct workload {
    uint64_t seed;
    enum workload_kind kind;
    unsigned ranks, ranks_per_host, steps;
    unsigned stages, tensor;   /* of a pipeline; ranks are a multiple of their product */
    unsigned pieces;           /* buckets, layers, micro-batches */
    int64_t step_ns;           /* own work per step */
    double noise;              /* of each stretch of work, sd relative to it */
    uint64_t bytes;            /* of a large operation */
    double overlap;            /* stencil: share of a step's work done while its messages are under way */
    unsigned hosts_per_switch; /* 0 = all on one */
    double switch_latency;     /* ns more for what passes between switches */
    unsigned evaluation;       /* after so many steps an evaluation; 0 = never */
    enum plant plant;
    unsigned who, whom;
    double factor;
    double outliers;
    struct actor_clocks clocks;
    uint32_t ring_records; /* 0 = enough for everything */
    uint32_t windows, trace_window_level;
};

/* 8 ranks on 2 hosts, 100 steps of 20 ms, 5 % noise, clocks off by up to a second and 100 ppm, nobody slow. */
struct workload workload_standard(enum workload_kind kind);
const char *workload_name(enum workload_kind kind);

/* Plays it; freed with stage_free. */
struct stage *workload_play(const struct workload *workload);

/* What is said of many jobs of one kind. */
struct workload_result {
    unsigned jobs;
    unsigned right; /* jobs in which exactly what was planted is named, or nobody where nobody is slow */
    unsigned found; /* jobs in which it is named, whoever else is */
    unsigned
        named_right; /* names in all jobs: of the planted rank, host, rank class or link, or of those that take turns */
    unsigned named_wrong;  /* ... of others, or of another class */
    unsigned rotating;     /* jobs in which ranks are said to take turns */
    unsigned jobs_wrong;   /* jobs that name somebody else */
    unsigned groups;       /* jobs in which slow communicators accuse somebody ... */
    unsigned groups_right; /* ... and what was planted is among those */
    unsigned uneven;       /* jobs in which many ranks are called unevenly loaded */
};

/* Whether it is what was planted that is named. */
bool workload_planted(const struct workload *workload, const struct straggler *straggler);

/* Plays `jobs` jobs with seeds from `first_seed` on through the whole analysis. */
struct workload_result workload_try(const struct workload *workload, unsigned jobs, uint64_t first_seed);

/* Whether every rank's steps are found: their number up to start and end, each holding one true beginning. */
bool workload_steps_are_exact(const struct workload *workload);

#endif
