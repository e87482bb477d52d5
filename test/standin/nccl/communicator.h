/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's communicator. Lives here: its fields, its life (references, jobs that create it), argument checks.
 * Must not live here: how operations are queued (group.h) and carried out (kernel.h).
 */
#ifndef STANDIN_NCCL_COMMUNICATOR_H
#define STANDIN_NCCL_COMMUNICATOR_H

#include "test/standin/nccl_api.h"
#include "test/standin/nccl/device.h"
#include "test/standin/nccl/reduce.h"
#include "test/standin/nccl/segment.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* As the real library: a strong pncclX, a weak ncclX at the same address, calls between them through the PLT. */
#define NCCL_API(type, name, ...)                                                                                      \
    __attribute__((visibility("default"), weak)) type name(__VA_ARGS__);                                               \
    __attribute__((visibility("default"), alias(#name))) type p##name(__VA_ARGS__);                                    \
    type name(__VA_ARGS__)

#define COMMUNICATOR_MAGIC      0x280c0ffee0ddf00dull
#define MAX_USER_OPS            64
#define FUNCTIONS_WITH_SEQUENCE 8

struct plan;

struct user_op {
    bool used;
    ncclDataType_t type;
    struct reduction_op op;
};

struct ncclComm {
    uint64_t magic;
    _Atomic int references; /* the job's handle, and one for each launch that has not ended */
    ncclUniqueId id;
    uint64_t hash;
    int rank, ranks, device;
    int ordinal; /* of this process's communicators, in order of creation */
    int hosts;   /* STANDIN_HOSTS, at most `ranks` */
    bool blocking, finalized, revoked;
    char name[64];
    device_context context;
    struct segment *segment;
    _Atomic int async_error; /* ncclResult_t */
    _Atomic bool aborted;
    _Atomic unsigned running; /* launches not ended; those of a graph count while they run */
    unsigned children;        /* split, shrunk or grown so far: part of the child's identity */
    ncclUniqueId growth;      /* of ncclCommGetUniqueId, until a grow has used it */
    bool growth_pending;

    /* Launch order. `finished` is recorded by every launch, inside a graph as an external node, so that whatever is
     * launched next waits for it; `captured` orders the launches inside one capture, where only its own events count.
     */
    device_event scratch, finished, captured;
    uint64_t last_capture;  /* the capture in which `captured` was recorded */
    pthread_mutex_t kernel; /* one kernel of this communicator at a time, whatever the job's streams do */

    struct plan *pending;       /* what the open group of some thread has collected */
    uint64_t operations;        /* calls so far: number of the next operation for faults */
    uint64_t delayed_operation; /* whose delay lies in a stream already; 0 = none */
    struct user_op user_ops[MAX_USER_OPS];

    void *profiler; /* the plugin's context */
    _Atomic uint64_t sequence[FUNCTIONS_WITH_SEQUENCE];
};

/* ncclInvalidArgument where comm is NULL or no communicator. */
ncclResult_t communicator_check(ncclComm_t comm);
/* Is comm idle and sound? Asks through the public ncclCommGetAsyncError, as the real library does on every call. */
ncclResult_t communicator_ready(ncclComm_t comm);
void communicator_hold(ncclComm_t comm);
void communicator_drop(ncclComm_t comm);
/* Host of a rank, of `hosts` equal shares. */
int communicator_host(const struct ncclComm *comm, int rank);

/* What cannot be done by one rank alone: creation, and waiting for the end. A job is stepped until it is done; all jobs
 * of a group are stepped in turn, so that one thread may create several ranks of one communicator. */
struct job {
    struct job *next;
    ncclComm_t comm; /* whose blocking mode counts and whose async error shows progress */
    bool done;
    ncclResult_t result;
    bool (*step)(struct job *job); /* true when done; sets result */
    int stage;
    ncclComm_t parent, *target; /* where the finished handle goes, once */
    int color, key, root;
    ncclUniqueId id;
    bool aborts_parent;
};

void message_set(const char *format, ...) __attribute__((format(printf, 1, 2))); /* for ncclGetLastError */
/* The library's hash of an id, as its commHash. */
uint64_t hash_bytes(const void *data, size_t bytes);

#endif
