/* SPDX-License-Identifier: Apache-2.0
 *
 * kineto/: PyTorch profiler (Kineto) traces, one document per rank, as a format that `import` reads.
 * Lives here: what a rank's document holds, piece by piece (reading.c); which of its kernels are operations, of whom
 * and with whom (operations.c); one trace of all ranks out of it (kineto.c). Inside of kineto/ only. Must not live
 * here: numbering, dumps, what formats have in common (import/).
 *
 * An operation is a kernel of NCCL: its GPU time. What it is stands in the kernel's arguments (PyTorch 2.2 on:
 * Collective name, Group size, Process Group Name and Ranks, In msg nelems, dtype) or in the call "record_param_comms"
 * or the annotation "nccl:..." around the launch, found by the kernel's correlation number and the time and thread of
 * that launch; else in the kernel's name. A message's partner stands there too (Dst Rank, Src Rank, or the annotation
 * "nccl:send 0->1"); kernels that do not name it are counted, and are communication that cannot be matched. Who called
 * is told by what encloses the launch on its thread: Python's functions and modules (with_stack=True), operators of the
 * framework, annotations. A Python function has the line on which it begins. Where no function is on record, the
 * argument "Call stack" of an operator tells them, as older releases and TorchScript do: with the lines that were
 * executed. What other kernels do is the rank's own work, what copies do is apart (gpu_work.h). Operations are numbered
 * as PyTorch does where it tells, else per process group in the order of their kernels (trace_order_cycles). Several
 * traces of one rank are what the profiler's schedule wrote, one per cycle (cycles.h); between them recording was
 * paused.
 */
#ifndef COMMTAP_KINETO_KINETO_H
#define COMMTAP_KINETO_KINETO_H

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/kineto/cycles.h"
#include "analyzer/import/formats.h"
#include "analyzer/kineto/gpu_work.h"

enum { NAME = 96, RANKS_NAMED = 4096, ANNOTATIONS_BACK = 256 /* that ended, inside one that has not */ };
enum { GPUS_MOST = 1024 /* of a host */ };

/* What PyTorch says of a collective or a message. */
struct told {
    char name[NAME]; /* of the collective where `named`, else of the kernel */
    bool named;
    uint32_t
        group; /* process group: index of a communicator of kineto.groups, without members where they are not told */
    uint32_t group_size;
    uint64_t elements, type_bytes; /* elements UINT64_MAX = unknown */
    enum datatype_code dtype;
    int64_t number;        /* of a collective in its group, -1: not told */
    int64_t partner;       /* of a message, world rank, -1: not told */
    int64_t partner_place; /* ... rank in the group; of a collective, the own one */
};

struct kernel {
    int64_t start_ns, end_ns;
    int64_t correlation;
    struct told told;
};

struct launch {
    int64_t correlation, at_ns;
    int64_t thread;
};

/* When something was on a thread. */
struct thread_span {
    int64_t start_ns, end_ns, thread;
};

struct annotation {
    struct thread_span on;
    char name[NAME];
    uint64_t elements, type_bytes;
    enum datatype_code dtype;
};

/* "record_param_comms": the framework's call that launches a collective or a message. */
struct call_note {
    struct thread_span on;
    struct told told;
    bool launched; /* a kernel, of its own or with others */
};

#define LIST(TYPE)                                                                                                     \
    struct {                                                                                                           \
        struct TYPE *items;                                                                                            \
        size_t count;                                                                                                  \
    }

/* A frame, for as long as it was on its thread. */
struct frame_span {
    struct thread_span on;
    uint32_t frame;
    uint32_t around;     /* index + 1 of the span that encloses it, 0 = none */
    uint32_t stack;      /* once it was asked for */
    uint32_t call_stack; /* what its argument tells; TRACE_STACK_NONE also where what is around it tells the same */
    bool functions;      /* it is a function, or one is known around it */
};

struct gpu {
    int64_t ordinal;
    int64_t bytes; /* of memory */
    char name[64];
};

struct rank_trace {
    int32_t rank, world_size; /* -1: not told */
    int64_t base_ns;          /* that its times count from */
    int64_t first_step;       /* as the profiler counts them, -1: not told */
    LIST(gpu) gpus;           /* of its host */
    int64_t gpu;              /* the one that its first kernel ran on, -1: not told */
    bool messages;            /* it calls sends or receives */
    bool kineto;              /* it has what only such a trace has, whatever else is there */
    char name[NAME];
    struct process_groups groups;
    LIST(kernel) kernels;
    LIST(launch) launches;
    LIST(annotation) annotations;
    LIST(call_note) notes;
    LIST(cycle_span) steps; /* of the profiler */
    LIST(gpu_kernel) work;  /* what is no operation */
    LIST(gpu_memory) memory;
    LIST(frame_span) frames;
};

/* Why an operation is left out: what its record lacks. */
enum dropped { DROPPED_TIME, DROPPED_KIND, DROPPED_GROUP, DROPPED_MEMBER, DROPPED_PARTNER, DROPPED_REASONS };

struct kineto {
    struct import_limits *limits;
    LIST(rank_trace) ranks; /* the last one is being read */
    struct trace groups;    /* the process groups of all ranks: its communicators alone, and stacks */
    uint32_t *group_places; /* per group: index + 1 of its communicator in the finished trace, 0 = not yet there */
    int32_t *named;         /* RANKS_NAMED: members as they are read */
    size_t dropped[DROPPED_REASONS];
    bool reading;
    char refused[3 * NAME + 160];
};

/* One more item, zeroed; NULL when memory is short or a limit is exceeded. The array doubles. */
#define GROW(LIMITS, LIST_)                                                                                            \
    (limits_keep(LIMITS, 2 * sizeof *(LIST_).items) && grow_list((LIST_).items, (LIST_).count)                         \
         ? memset(&(LIST_).items[(LIST_).count++], 0, sizeof *(LIST_).items)                                           \
         : NULL)

/* Takes a piece of the document that is being read (struct import_format). */
bool kineto_piece(void *state, const char *key, const json_t *value);

/* Keeps what ran on the GPU and is no operation. False when memory is short or a limit is exceeded. */
bool kineto_add_work(struct kineto *kineto, struct rank_trace *rank, const struct gpu_kernel *work);

/* Adds the operations of one rank's trace. False when memory is short or a limit is exceeded. Sorts what the rank
 * holds; kineto_launch_of works from then on. */
bool kineto_add_operations(struct kineto *kineto, struct trace *trace, struct rank_trace *rank, uint32_t cycle);
/* The launch of that correlation number, NULL where it is not on record. */
const struct launch *kineto_launch_of(const struct rank_trace *rank, int64_t correlation);

#endif
