/* SPDX-License-Identifier: Apache-2.0
 *
 * What all trace formats have in common: operations of ranks on communicators.
 * Lives here: the collection, and numbering operations as the shim would have.
 * Must not live here: any format, the dumps.
 */
#ifndef COMMTAP_IMPORT_TRACE_H
#define COMMTAP_IMPORT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/import/limits.h"
#include "analyzer/import/trace_stacks.h"
#include "shim/format.h"

#define TRACE_RANKS_MOST 65536

/* One kind of operation. `name` is the function's where it is known, else the trace's own word. */
struct trace_call {
    const char *name, *torch;
    enum api api;
    enum call_class call_class;
    enum flow flow;
    enum busbw busbw;
};

struct trace_communicator {
    char name[96];
    uint64_t uid;
    int32_t *members; /* world ranks in the communicator's order */
    uint32_t *order;  /* places in `members`, by world rank */
    uint32_t size;
};

enum trace_state { TRACE_POSTED = 0, TRACE_STARTED = 1, TRACE_FINISHED = 2 };

struct trace_event {
    int64_t posted_ns, returned_ns; /* the enqueueing call, for operations of NCCL; equal: its end is unknown */
    int64_t enter_ns, leave_ns;
    uint64_t order; /* orders operations of a communicator, or messages of a channel, alike on all members */
    uint64_t bytes;
    uint64_t signature;    /* of a collective: equal on all members that called the same; 0: not known */
    uint32_t communicator; /* COMM_NONE: own work, of a call of CLASS_OTHER */
    uint32_t seq;          /* set by trace_number; of own work as its record has it, SEQ_NONE where nothing is known */
    int32_t rank;          /* world rank */
    int32_t peer;          /* partner or root, a rank of the communicator, PEER_NONE */
    int32_t tag;           /* TAG_NONE for collectives */
    uint32_t stack;        /* who called it: number in the trace's stacks, TRACE_STACK_NONE = unknown */
    uint16_t call;         /* index in the trace's calls */
    uint8_t state;         /* enum trace_state */
    bool timed;            /* finished, and enter_ns and leave_ns are known */
    uint8_t dtype;         /* enum datatype_code */
    bool grouped;          /* a message of a group, whose event has the times; both have one `launch` */
    bool batched;          /* ... or the only one of it */
    bool gone;             /* private to who adds events: to be left out in the end */
    bool ordinal_unknown;  /* nothing tells which message of its channel it is: its seq is SEQ_NONE */
    bool begun_seen;       /* that it has begun was noted, not concluded */
    uint16_t title;        /* what its format calls it: number in the trace's titles + 1, 0: nothing else than `call` */
    uint32_t number;       /* that its format gives it, SEQ_NONE: none */
    uint64_t bytes_out;    /* of what it puts out, BYTES_UNKNOWN: as `bytes` tells, or not told */
    int64_t epoch;         /* of a message: collectives that its communicator had called by then, -1: not told */
    uint32_t cycle;        /* of its rank's traces that follow each other (cycles.h), for trace_order_cycles */
    int64_t told_number;   /* ... of a collective, that the framework gave it, alike on all members; -1: not told */
    uint32_t launch;       /* orders what a rank launched, where that is known: from 1; 0: it is not */
};

struct trace_rank {
    bool seen;                         /* some document is about it */
    bool unread;                       /* ... of which nothing could be read: what the rank did is not known */
    bool tells_start;                  /* of operations that have not ended, whether they have started */
    bool lost;                         /* its first operations are not there */
    bool only_open;                    /* what had ended is not there */
    int64_t first_record, last_record; /* numbers of its first and last entry in the recorder */
    uint32_t pauses;                   /* how often it was not recorded, between marks */
    int64_t written_ns;                /* when the document was, of a job that ran; 0: not known */
    uint32_t host;                     /* number of its host; ranks of one share a clock */
    char host_name[64];                /* empty: not known which host that is */
    uint32_t gpus_seen;                /* of its host, by its process; 0: not told */
    uint32_t gpu;                      /* that it worked on, as its process counts them */
    uint64_t gpu_bytes;                /* of memory it has, 0: not told */
    char gpu_name[64];                 /* "GPU" where its model is not told, empty: nor is which GPU */
    char where[128];                   /* "data-parallel rank 0, pipeline rank 3", or the document's name */
};

enum trace_mark_kind { TRACE_PAUSED, TRACE_RESUMED, TRACE_STEP };

/* The beginning of a step, by the trace's own word; at the end of the last one, its end. Or: from there to the next one
 * that resumes, the rank was not recorded. */
struct trace_mark {
    int64_t at_ns;
    int32_t rank;
    enum trace_mark_kind kind;
};

enum { TRACE_NAME = 40, TRACE_NAMES = 256 };

/* Names that a format met, for operations and for calls. */
struct trace_names {
    char (*items)[TRACE_NAME];
    size_t count;
};

/* Memory of a rank's GPU. */
struct trace_sample {
    int64_t at_ns;
    uint64_t bytes;
    int32_t rank;
    uint16_t call; /* which part of it: import_memory_allocated, import_memory_reserved */
};

struct trace {
    struct import_limits *limits;
    const char *format;             /* what it was made from */
    uint64_t fingerprint;           /* of the documents, in whatever order they came */
    const struct trace_call *calls; /* of the format */
    size_t call_count;
    struct trace_names titles, call_names; /* of the latter, calls are made: */
    struct trace_call *own_calls;          /* then `calls` is these. Private */
    bool device;                           /* events have a GPU's times; else a clock common to all ranks of a host */
    bool kernels;                          /* ... and that is when kernels ran, not when events around them passed */
    bool running;                          /* taken from a job that had not ended */
    bool numbered;                         /* `order` is the number of messages as well */
    bool only_open;                        /* operations that had ended are left out */
    char left_out[320];                    /* what was left out, and what it lacks; empty: not told */
    char note[160];                        /* something that the user should know, empty: nothing */
    int64_t resolution_ns;                 /* of a GPU's times */
    bool order_by_time; /* `order` tells operations apart, the earliest entry orders them; else order is the number */
    int32_t world_size;
    struct trace_rank *ranks; /* world_size of them */
    size_t rank_room;         /* private */
    struct trace_communicator *communicators;
    size_t communicator_count;
    struct hash_table numbers; /* private: of communicators by uid */
    size_t seen_count;         /* ranks */
    struct trace_event *events;
    size_t event_count;
    size_t work_count; /* of the events: own work, no operation */
    struct trace_stacks stacks;
    struct trace_mark *marks; /* in any order until trace_number */
    size_t mark_count;
    struct trace_sample *samples; /* likewise */
    size_t sample_count;
};

/* All of these return false (SIZE_MAX) when memory is short or a limit is exceeded. */
/* Makes room for ranks 0 .. world_size - 1, at most TRACE_RANKS_MOST. */
bool trace_set_world(struct trace *trace, int32_t world_size);
/* Notes that some document is about the rank. */
bool trace_see_rank(struct trace *trace, int32_t rank);
void trace_free(struct trace *trace);

/* Finds or adds the communicator with this name and these members; copies both. Returns its index. */
size_t trace_communicator(struct trace *trace, const char *name, const int32_t *members, uint32_t size);
/* Place of a world rank in a communicator, -1 where it is no member. */
int32_t trace_member(const struct trace_communicator *communicator, int32_t rank);

/* Numbers a title + 1; 0 where there is no room for another one. */
uint16_t trace_title(struct trace *trace, const char *title);
/* A call like number `like` under another name; that number where there is no room for another one. */
uint16_t trace_call_named(struct trace *trace, uint16_t like, const char *name);

/* Appends an event. */
bool trace_add(struct trace *trace, const struct trace_event *event);

/* What is wrong with the events' times: an end before its beginning, moments more than a year apart. NULL = nothing. */
const char *trace_time_problem(const struct trace *trace);

bool trace_add_mark(struct trace *trace, int32_t rank, int64_t at_ns);
/* Notes that the rank was not recorded from one moment to another one, if that is later. */
bool trace_add_pause(struct trace *trace, int32_t rank, int64_t from_ns, int64_t to_ns);
bool trace_add_sample(struct trace *trace, const struct trace_sample *sample);

/* Finds out which ranks have one host: by the names of their hosts, where all ranks have one that their GPUs do not
 * speak against, else by their GPUs. False: memory is short. */
bool trace_place_hosts(struct trace *trace);

/* Sets the order of all events, of which only the times are known, and a number for some. A trace begins anywhere: what
 * ranks have in one place is one operation where that agrees, else nothing tells which belong together. Of ranks of one
 * host (trace_place_hosts comes before) that have fewer collectives the ends tell how many they lack at the beginning.
 */
bool trace_order_cycles(struct trace *trace);

/* Sets every event's seq, and sorts the events, the marks and the samples by rank, then time. */
bool trace_number(struct trace *trace);

#endif
