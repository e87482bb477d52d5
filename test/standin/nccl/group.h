/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: what the calls of a thread collect, and its launch in the outermost ncclGroupEnd.
 * Lives here: tasks, plans (the tasks that one communicator launches at once), streams of a plan.
 * Must not live here: what a task does when it runs (kernel.h).
 */
#ifndef STANDIN_NCCL_GROUP_H
#define STANDIN_NCCL_GROUP_H

#include "test/standin/nccl/communicator.h"
#include "test/standin/nccl/faults.h"

/* Numbers of ncclFunc_t in 2.28, which index the per-function sequence numbers of collectives. */
enum function {
    FUNCTION_BROADCAST,
    FUNCTION_REDUCE,
    FUNCTION_ALL_GATHER,
    FUNCTION_REDUCE_SCATTER,
    FUNCTION_ALL_REDUCE,
    FUNCTION_SEND = 6,
    FUNCTION_RECV = 7,
    FUNCTION_ALL_TO_ALL,
    FUNCTION_GATHER,
    FUNCTION_SCATTER
};

/* The arguments of one call. For Send and Recv the buffer is `recv` and the peer `root`. */
struct operation {
    enum function function;
    const char *name; /* "AllReduce" */
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
    ncclComm_t comm;
    cudaStream_t stream;
};

struct task {
    struct operation operation;
    struct reduction_op reduction;
    struct fault_plan faults;
    /* Profiler: mask when the call was made, handles of its events. The handles of a captured task stay for all
     * replays. */
    int mask;
    void *group_api, *api, *event;
};

struct plan_stream {
    cudaStream_t stream;
    struct plan_stream *next;
};

struct plan {
    _Atomic int references; /* the group's, and the stream's or graph's */
    ncclComm_t comm;
    struct plan *next; /* in the order in which the communicators joined the group */
    struct task *tasks;
    size_t count, capacity;
    struct plan_stream *streams; /* the newest first: it launches */
    uint64_t capture;            /* id of the capture all streams are part of; 0 = none */
    void *launch_event, *group_event;
    _Atomic uint32_t announced; /* the profiler knows the tasks: a futex */
};

/* Opens an implicit group, checks, records a task and closes the group: what every operation's call does. */
ncclResult_t operation_call(const struct operation *operation);
ncclResult_t group_begin(void);
ncclResult_t group_end(ncclSimInfo_t *simulate);
int group_depth(void);
/* A job for the end of the group this thread is in. */
ncclResult_t group_add_job(const struct job *job);
/* The error with which the group will end, where it is the first. Returns it. */
ncclResult_t group_error(ncclResult_t error);
/* Gives up one reference; the last one frees. */
void plan_drop(void *plan);

#endif
