/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree of a job: who called which operation from where, how often, with how many bytes, for how long.
 * Lives here: merging the call sites of all ranks into one tree, telling passes apart, pairing backward collectives
 * with the modules that caused them. Must not live here: names of addresses (symbols/), printing.
 *
 * Counts, bytes and times come from the dumps' tables of call sites, which hold every call, exactly; of a part of the
 * time, and of imported traces, from the records that are still there. What is told beside them (sizes and types of
 * single calls, times on GPUs, waits, single records) always comes from records.
 *
 * Calls of NCCL enqueue: their host time is not that of the operation. Where it ran on a GPU with times of its own,
 * that time stands beside it.
 *
 * Backward collectives run in threads without Python frames, so nothing says which module they belong to. They are
 * paired with the collectives of the forward pass: same communicator, same size, latest first. A call site is moved as
 * a whole to the forward site that most of its records were paired with, and marked as inferred.
 */
#ifndef COMMTAP_PROFILE_CALL_TREE_H
#define COMMTAP_PROFILE_CALL_TREE_H

#include "analyzer/job/job.h"
#include "analyzer/load/filter.h"
#include "analyzer/symbols/frames.h"

struct call_sums {
    uint64_t count, bytes;
    uint64_t time_ns;      /* host time inside the calls, as summary's time_total: of NCCL's calls, of enqueueing */
    uint64_t in_flight_ns; /* beside it: from posting until the operations were seen complete */
    uint64_t gpu_ns;       /* on GPUs, of the launches on record */
    uint64_t gpu_count;    /* these launches; 0: none is on record */
    uint64_t replay_ns;    /* on GPUs, of replays of graphs that captured the calls; in no other of these times */
    uint64_t replay_count; /* operations of theirs on record */
    uint64_t enqueue_ns;   /* of time_ns: by calls whose operation has a time on GPUs */
    uint64_t wait_ns;      /* on record: waiting for a later rank; 0 where no waits were given */
};

/* Calls of one size among those on record. */
struct call_size {
    uint64_t bytes; /* BYTES_UNKNOWN = unknown */
    uint8_t dtype;  /* enum datatype_code */
    uint64_t count;
};

/* What one function did on one communicator, from this very node. */
struct call_entry {
    const char *op;
    uint8_t api;
    enum pass pass;
    bool inferred; /* it stands here because of the pairing */
    bool setup;    /* it moves nothing: Init, communicators, files ... */
    bool collective;
    bool has_comm;
    uint64_t comm; /* uid */
    const char *comm_name;
    uint32_t comm_size;
    int32_t *ranks; /* members' world ranks: in rank order, an intercommunicator's ascending; NULL = unknown; owned */
    uint32_t rank_count;
    struct call_sums sums;
    struct call_size *sizes; /* by bytes, then type; owned; noise 1 and up */
    size_t size_count;
};

/* Calls on one type of data among those on record. */
struct call_type {
    uint8_t dtype; /* enum datatype_code */
    uint64_t count;
};

/* An operation's inclusive sums, per pass. */
struct call_op {
    const char *op;
    enum pass pass;
    bool inferred; /* at least one of them */
    bool setup, collective;
    struct call_sums sums;
    struct call_type *types; /* by type; owned by the node; noise 1 and up */
    size_t type_count;
};

/* One record, at noise 3. */
struct call_record {
    int64_t realtime_ns; /* when it began */
    uint64_t ns, bytes;
    int32_t rank;
    uint32_t seq, entry; /* index into the node's entries */
    uint8_t kind;        /* enum record_kind */
};

struct call_node {
    struct frame frame;
    struct call_node *parent, **children; /* the longest time first */
    size_t child_count;
    struct call_entry *entries; /* by op, pass, communicator */
    size_t entry_count;
    struct call_op *ops; /* by op, then pass */
    size_t op_count;
    struct call_sums sums; /* inclusive */
    struct call_record *records;
    size_t record_count;
};

struct call_tree {
    struct call_node *root; /* "Global" */
    bool passes;            /* some call is known to be of a pass */
    bool enqueued;          /* some call is NCCL's */
    bool posting_unknown;   /* some operations' time inside the calls is not known: 0 of it is here */
    bool gpu_partial;       /* records of launches were overwritten: their times on the GPU are not here */
    uint64_t without_stack; /* calls whose stack is not known */
    uint64_t sites_lost;    /* calls that found no room in a full table: in no node */
    uint64_t records_left_out;
    uint64_t ranks_listed; /* members in all entries' lists */
    bool ranks_left_out;   /* further lists would be too long together */
};

struct site_waits; /* waits/site_waits.h */
struct scope;      /* profile/scope.h */

struct call_tree_request {
    const struct job *job;
    const struct symbols *symbols; /* over job->dumps, with every stack looked up */
    const struct skip_list *skip;
    const struct filter *filter;
    const struct scope *scope;      /* over the job's dumps; NULL or without limits: all calls, from the tables */
    const struct site_waits *waits; /* NULL = none */
    unsigned noise;                 /* 0 sums; 1 sizes and types, too; 2 every frame; 3 every record */
};

/* How often an operation was called; of what several calls are together, which are counted under their own names, how
 * many launches there are. */
uint64_t call_times(const struct call_sums *sums);

/* The time that operations cost: on GPUs where it is on record, else the host's inside the calls. */
uint64_t call_time_ns(const struct call_sums *sums);
void call_sums_add(struct call_sums *sum, const struct call_sums *part);

/* Returns false when memory is short; the caller frees with call_tree_free in every case. Nodes point into dumps and
 * symbols, which must outlive the tree. */
bool call_tree_build(struct call_tree *tree, const struct call_tree_request *request);
void call_tree_free(struct call_tree *tree);

#endif
