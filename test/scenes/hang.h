/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up jobs that hang for a known reason: random legal programs of collectives and messages with one fault, played
 * by MPI's rules until nothing moves, and the dumps they would leave.
 * Lives here: the faults, what a scene's truth is. Must not live here: anything of the analyzer's that could share a
 * mistake with it.
 */
#ifndef COMMTAP_TEST_HANG_H
#define COMMTAP_TEST_HANG_H

#include "analyzer/diagnose/diagnose.h"
#include "test/support/dump_builder.h"

enum fault {
    FAULT_NONE = 0,   /* the program runs to its end */
    FAULT_STOP,       /* a rank stays in its own code */
    FAULT_FREEZE,     /* its process is stopped by a signal */
    FAULT_DIE,        /* its process is dead */
    FAULT_NO_DUMP,    /* ... and it left no dump */
    FAULT_SKIP,       /* it leaves out a collective */
    FAULT_OPERATION,  /* it calls another one */
    FAULT_COUNT,      /* with another count */
    FAULT_ROOT,       /* with another root */
    FAULT_SWAP,       /* two communicators in the other order than everybody else */
    FAULT_RING,       /* some ranks receive from each other before they send */
    FAULT_SEND_RING,  /* ... send what is never buffered before they receive */
    FAULT_NO_MESSAGE, /* a rank waits for a message that the sender, which is in a collective with it, never sends */
    FAULT_WILDCARD,   /* receives from anybody; all wait for it but the one at work, which would send */
    /* of jobs whose collectives run on GPUs, in streams (hang_nccl.c) */
    FAULT_NCCL_NONE,      /* the program runs to its end */
    FAULT_NCCL_STOP,      /* a rank's host stays in its own code */
    FAULT_NCCL_DIE,       /* its process is dead */
    FAULT_NCCL_NO_DUMP,   /* ... and it left no dump */
    FAULT_NCCL_STREAM,    /* what lies on its stream before a collective never ends */
    FAULT_NCCL_TRANSPORT, /* a collective that all GPUs began never ends */
    FAULT_NCCL_SKIP,      /* it leaves out a collective */
    FAULT_NCCL_OPERATION, /* it calls another one */
    FAULT_NCCL_COUNT,     /* with another count */
    FAULT_NCCL_DTYPE,     /* with another type of the same size */
    FAULT_NCCL_ROOT,      /* with another root */
    FAULT_NCCL_SWAP,      /* two communicators on one stream in the other order than everybody else */
    FAULT_MIXED_CIRCLE,   /* its host waits for a message of one whose GPU waits for it in a collective */
    FAULT_MIXED_CHAIN,    /* all others wait for it in a barrier, its GPU for one that stays in its own code */
    FAULTS
};

struct hang_scene {
    uint64_t seed;
    unsigned ranks;  /* at least 4 */
    unsigned before; /* events before the fault: collectives and messages */
    unsigned after;
    unsigned moments; /* tries of random ranks to take a step, after which all are killed; 0: until nothing moves */
    enum fault fault;
    uint32_t ring_records;
};

struct hang_job {
    unsigned ranks;
    struct dump_builder **builders; /* by rank */
    struct dump **dumps;            /* of those that left one; by rank */
    struct dump_set set;
    enum process_state *states; /* per dump of the set, while the job hangs */
    double open_seconds;        /* spent opening the dumps */
    /* the truth */
    enum verdict verdict;
    bool guilty[64];          /* by rank, where ranks <= 64: who is to blame; of a ring, its members */
    bool dies;                /* the guilty one's process is dead */
    bool lost;                /* ... and it left no dump */
    bool on_gpus;             /* of a deadlock: that GPUs do not go on with something else only time tells */
    bool frozen;              /* its process is stopped */
    enum culprit_state state; /* of the guilty one, where `stated` */
    bool stated;
    bool in_circle; /* the guilty are exactly the deadlock's circle; otherwise they are among it */
    uint32_t seq;   /* of a desync: number of the first collective that differs, SEQ_NONE */
    uint64_t uid;   /* ... and its communicator */
};

/* Plays a scene and opens its dumps. Ends the program when memory is short. */
void hang_open(struct hang_job *job, const struct hang_scene *scene);
void hang_close(struct hang_job *job);

const char *fault_name(enum fault fault);

#endif
