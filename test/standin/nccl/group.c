/* SPDX-License-Identifier: Apache-2.0
 *
 * See group.h. The rules are those of 2.28.9's group.cc and enqueue.cc.
 */
#include "test/standin/nccl/group.h"
#include "test/standin/nccl/kernel.h"
#include "test/standin/nccl/plugin.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKING_UNKNOWN = -1, NON_BLOCKING, BLOCKING };

/* What a group has collected; a non-blocking one travels to its helper thread. */
struct collected {
    struct plan *plans, **plans_end;
    struct job *jobs, **jobs_end;
};

static _Thread_local struct {
    int depth;
    ncclResult_t error; /* the first */
    int blocking;       /* of the communicators so far */
    struct collected collected;
} group;

int group_depth(void) {
    return group.depth;
}

ncclResult_t group_error(ncclResult_t error) {
    if (group.depth > 0 && group.error == ncclSuccess && error != ncclInProgress)
        group.error = error;
    return error;
}

ncclResult_t group_begin(void) {
    if (group.depth++ == 0) {
        group.error = ncclSuccess;
        group.blocking = BLOCKING_UNKNOWN;
        group.collected = (struct collected){0};
    }
    return ncclSuccess;
}

/* Blocking and non-blocking communicators must not share a group. */
static ncclResult_t join_mode(ncclComm_t comm) {
    if (group.blocking == BLOCKING_UNKNOWN)
        group.blocking = comm->blocking ? BLOCKING : NON_BLOCKING;
    return group.blocking == (comm->blocking ? BLOCKING : NON_BLOCKING) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t group_add_job(const struct job *job) {
    struct job *copy = malloc(sizeof *copy);
    if (!copy)
        return ncclSystemError;
    *copy = *job;
    copy->next = NULL;
    struct collected *c = &group.collected;
    *(c->jobs_end ? c->jobs_end : &c->jobs) = copy;
    c->jobs_end = &copy->next;
    return join_mode(copy->comm);
}

/* Plans */

void plan_drop(void *argument) {
    struct plan *p = argument;
    if (--p->references > 0)
        return;
    while (p->streams) {
        struct plan_stream *next = p->streams->next;
        free(p->streams);
        p->streams = next;
    }
    communicator_drop(p->comm);
    free(p->tasks);
    free(p);
}

static struct plan *plan_of(ncclComm_t comm) {
    if (comm->pending)
        return comm->pending;
    struct plan *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->references = 1;
    p->comm = comm;
    communicator_hold(comm);
    comm->pending = p;
    struct collected *c = &group.collected;
    *(c->plans_end ? c->plans_end : &c->plans) = p;
    c->plans_end = &p->next;
    return p;
}

static ncclResult_t plan_add_stream(struct plan *p, cudaStream_t stream) {
    for (struct plan_stream *s = p->streams; s; s = s->next)
        if (s->stream == stream)
            return ncclSuccess;
    uint64_t capture;
    if (!device_capture(stream, &capture))
        return ncclUnhandledCudaError;
    if (p->streams && capture != p->capture) {
        message_set("Streams given to a communicator within a NCCL group must either be all uncaptured or all captured "
                    "by the same graph.");
        return ncclInvalidUsage;
    }
    struct plan_stream *s = malloc(sizeof *s);
    if (!s)
        return ncclSystemError;
    p->capture = capture;
    *s = (struct plan_stream){.stream = stream, .next = p->streams};
    p->streams = s;
    return ncclSuccess;
}

static ncclResult_t append_task(const struct task *task) {
    struct plan *p = plan_of(task->operation.comm);
    if (!p)
        return ncclSystemError;
    ncclResult_t result = join_mode(p->comm);
    if (result == ncclSuccess)
        result = plan_add_stream(p, task->operation.stream);
    if (result != ncclSuccess)
        return result;
    if (p->count == p->capacity) {
        p->capacity = p->capacity ? 2 * p->capacity : 4;
        struct task *grown = realloc(p->tasks, p->capacity * sizeof *grown);
        if (!grown)
            return ncclSystemError;
        p->tasks = grown;
    }
    struct task *t = &p->tasks[p->count++];
    *t = *task;
    plugin_call_begin(t, p->capture);
    plugin_call_end(t);
    return ncclSuccess;
}

/* Launching */

#define EVENT_EXTERNAL 1u /* CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL: a node of the graph */

/* The launch stream waits for the other streams of the plan and for the communicator's previous launch. */
static int wait_for_inputs(struct plan *p) {
    const struct device_functions *driver = device_driver();
    ncclComm_t comm = p->comm;
    cudaStream_t launch_stream = p->streams->stream;
    int error = 0;
    for (struct plan_stream *s = p->streams->next; s && !error; s = s->next) {
        error = driver->event_record(comm->scratch, s->stream);
        if (!error)
            error = driver->stream_wait(launch_stream, comm->scratch, 0);
    }
    if (error)
        return error;
    if (p->capture && p->capture == comm->last_capture)
        return driver->stream_wait(launch_stream, comm->captured, 0);
    return driver->stream_wait(launch_stream, comm->finished, p->capture ? EVENT_EXTERNAL : 0);
}

/* External nodes come before the event that joins the streams: work after it would be unjoined. */
static int let_streams_wait(struct plan *p) {
    const struct device_functions *driver = device_driver();
    ncclComm_t comm = p->comm;
    cudaStream_t launch_stream = p->streams->stream;
    int error = driver->event_record_with_flags(comm->finished, launch_stream, p->capture ? EVENT_EXTERNAL : 0);
    device_event joined = comm->finished;
    if (!error && p->capture) {
        joined = comm->captured;
        comm->last_capture = p->capture;
        error = driver->event_record(joined, launch_stream);
    }
    for (struct plan_stream *s = p->streams->next; s && !error; s = s->next)
        error = driver->stream_wait(s->stream, joined, 0);
    return error;
}

struct stream_delay {
    ncclComm_t comm;
    uint64_t ns;
};

static void run_stream_delay(void *argument) {
    struct stream_delay *d = argument;
    kernel_delay(d->comm, d->ns);
}

static void free_stream_delay(void *argument) {
    struct stream_delay *d = argument;
    communicator_drop(d->comm);
    free(d);
}

/* The fault of the next operation that lies in the stream before it. */
static void delay_next_operation(struct plan *p) {
    uint64_t next = p->comm->operations, ns = faults_stream_delay(p->comm, next);
    struct stream_delay *d = ns && !p->capture ? malloc(sizeof *d) : NULL;
    if (!d)
        return;
    *d = (struct stream_delay){p->comm, ns};
    communicator_hold(p->comm);
    if (device_driver()->enqueue_late(p->streams->stream, run_stream_delay, d, free_stream_delay) == 0)
        p->comm->delayed_operation = next;
    else
        free_stream_delay(d);
}

/* The plan may have run before this returns: the stream has a reference of its own. */
static ncclResult_t launch(struct plan *p) {
    const struct device_functions *driver = device_driver();
    ncclComm_t comm = p->comm;
    bool captured = p->capture != 0;
    device_enter(comm->context);
    int error = wait_for_inputs(p);
    if (!error) {
        comm->running += !captured;
        plugin_launch_begin(p, p->streams->stream);
        p->references++;
        error = driver->enqueue_owned(p->streams->stream, kernel_run, p, plan_drop);
        if (error) {
            comm->running -= !captured;
            plan_drop(p);
        }
        plugin_launch_end(p);
    }
    if (!error)
        error = let_streams_wait(p);
    if (!error)
        delay_next_operation(p);
    device_leave();
    if (!error && !plugin_announces_at_replay(p))
        plugin_announce(p);
    if (error)
        message_set("Cuda failure %d", error);
    return error ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t launch_all(struct plan *plans) {
    bool captured = false, uncaptured = false;
    for (struct plan *p = plans; p; p = p->next)
        *(p->capture ? &captured : &uncaptured) = true;
    if (captured && uncaptured) {
        message_set("Either none or all communicators in a ncclGroup() can be CUDA graph captured.");
        return ncclInvalidUsage;
    }
    ncclResult_t result = ncclSuccess;
    for (struct plan *p = plans; p && result == ncclSuccess; p = p->next)
        result = launch(p);
    return result;
}

static ncclResult_t run_jobs(struct job *jobs) {
    ncclResult_t result = ncclSuccess;
    for (bool pending = true; pending;) {
        pending = false;
        for (struct job *j = jobs; j; j = j->next) {
            if (!j->done)
                j->done = j->step(j);
            pending |= !j->done;
        }
        if (pending)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    for (struct job *j = jobs; j; j = j->next)
        if (result == ncclSuccess)
            result = j->result;
    return result;
}

static void discard(struct collected *c) {
    while (c->plans) {
        struct plan *next = c->plans->next;
        plan_drop(c->plans);
        c->plans = next;
    }
    while (c->jobs) {
        struct job *next = c->jobs->next;
        free(c->jobs);
        c->jobs = next;
    }
}

static ncclResult_t run(struct collected *c) {
    ncclResult_t result = run_jobs(c->jobs);
    return result == ncclSuccess ? launch_all(c->plans) : result;
}

static void set_async_errors(struct collected *c, ncclResult_t error) {
    for (struct plan *p = c->plans; p; p = p->next)
        p->comm->async_error = error;
    for (struct job *j = c->jobs; j; j = j->next) {
        j->comm->async_error = error;
        if (j->parent) /* it is busy until the child's handle is there */
            j->parent->async_error = error;
    }
}

static void *helper(void *argument) {
    struct collected *c = argument;
    set_async_errors(c, run(c));
    for (struct job *j = c->jobs; j; j = j->next) {
        communicator_drop(j->comm);
        if (j->parent)
            communicator_drop(j->parent);
    }
    discard(c);
    free(c);
    return NULL;
}

static ncclResult_t run_in_helper(const struct collected *collected) {
    pthread_t thread;
    struct collected *c = malloc(sizeof *c);
    if (!c)
        return ncclSystemError;
    *c = *collected;
    set_async_errors(c, ncclInProgress);
    for (struct job *j = c->jobs; j; j = j->next) {
        communicator_hold(j->comm);
        if (j->parent)
            communicator_hold(j->parent);
    }
    if (pthread_create(&thread, NULL, helper, c) != 0)
        abort();
    pthread_detach(thread);
    return ncclInProgress;
}

static ncclResult_t simulate_into(ncclSimInfo_t *info) {
    if (info->magic != NCCL_SIM_INFO_MAGIC) {
        message_set("ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
        return ncclInvalidArgument;
    }
    double bytes = 0;
    for (struct plan *p = group.collected.plans; p; p = p->next)
        for (size_t i = 0; i < p->count; i++)
            bytes += (double)(p->tasks[i].operation.count * type_size(p->tasks[i].operation.type));
    info->estimatedTime = (float)(10.0 + bytes / 1e5); /* microseconds: 10 of latency, 100 GB/s */
    return ncclSuccess;
}

/* The outermost end. */
static ncclResult_t close_group(ncclSimInfo_t *simulate) {
    struct collected *c = &group.collected;
    ncclResult_t result = group.error;
    if (result == ncclSuccess && simulate)
        result = simulate_into(simulate);
    for (struct plan *p = c->plans; p; p = p->next)
        p->comm->pending = NULL;
    if (result == ncclSuccess && !simulate && group.blocking == NON_BLOCKING)
        return run_in_helper(c);
    if (result == ncclSuccess && !simulate)
        result = run(c);
    discard(c);
    return result;
}

ncclResult_t group_end(ncclSimInfo_t *simulate) {
    if (group.depth == 0) {
        message_set("ncclGroupEnd: not in a group call.");
        return ncclInvalidUsage;
    }
    ncclResult_t result = ncclSuccess;
    plugin_group_unnest();
    if (--group.depth == 0)
        result = close_group(simulate);
    plugin_group_closed();
    return result;
}

NCCL_API(ncclResult_t, ncclGroupStart, void) {
    return group_begin();
}

NCCL_API(ncclResult_t, ncclGroupEnd, void) {
    return group_end(NULL);
}

NCCL_API(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t *info) {
    return group_end(info);
}

/* From a call to tasks */

static ncclResult_t check_arguments(const struct operation *o) {
    ncclComm_t comm = o->comm;
    int user = (int)o->op - ncclNumOps;
    if (o->root < 0 || o->root >= comm->ranks) {
        message_set("%s : invalid root %d (root should be in the 0..%d range)", o->name, o->root, comm->ranks);
        return ncclInvalidArgument;
    }
    if ((int)o->type < 0 || o->type >= ncclNumTypes) {
        message_set("%s : invalid type %d", o->name, o->type);
        return ncclInvalidArgument;
    }
    if ((int)o->op < 0 || user >= MAX_USER_OPS || (user >= 0 && !comm->user_ops[user].used)) {
        message_set("%s : reduction operation %d unknown to this communicator", o->name, o->op);
        return ncclInvalidArgument;
    }
    return ncclSuccess;
}

/* Takes the operator's state out of its handle, which may be destroyed before the group ends. */
static ncclResult_t resolve_operator(struct task *t) {
    const struct operation *o = &t->operation;
    bool reduces =
        o->function == FUNCTION_ALL_REDUCE || o->function == FUNCTION_REDUCE || o->function == FUNCTION_REDUCE_SCATTER;
    t->reduction.op = o->op;
    if (reduces && !type_reduces(o->type)) {
        message_set("FP8 reduction support begins with sm90 capable devices.");
        return ncclInvalidArgument;
    }
    if (o->op < ncclNumOps)
        return ncclSuccess;
    const struct user_op *user = &o->comm->user_ops[o->op - ncclNumOps];
    t->reduction = user->op;
    return user->type == o->type ? ncclSuccess : ncclInvalidArgument;
}

static void free_task(void *task) {
    communicator_drop(((struct task *)task)->operation.comm);
    free(task);
}

/* On a communicator of one rank nothing waits for the group's end. */
static ncclResult_t launch_one_rank(const struct task *task) {
    const struct operation *o = &task->operation;
    bool floating = o->type >= ncclFloat16 && o->type <= ncclBfloat16;
    if (o->send == o->recv && !task->reduction.premultiply && !(o->op == ncclAvg && floating))
        return ncclSuccess;
    struct task *t = malloc(sizeof *t);
    if (!t)
        return ncclSystemError;
    *t = *task;
    communicator_hold(o->comm);
    device_enter(o->comm->context);
    int error = device_driver()->enqueue_owned(o->stream, kernel_one_rank, t, free_task);
    device_leave();
    if (error)
        free_task(t);
    return error ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t append_peer(struct task *task, enum function half, void *buffer, int peer) {
    struct task t = *task;
    task->faults.stream_delay_ns = task->faults.inside_delay_ns = 0; /* the first has them */
    t.operation.function = half;
    t.operation.name = half == FUNCTION_SEND ? "Send" : "Recv";
    t.operation.send = NULL;
    t.operation.recv = buffer;
    t.operation.root = peer;
    return append_task(&t);
}

/* AlltoAll, Gather and Scatter are sends and receives, as in the real library. */
static ncclResult_t append_as_peers(struct task *task) {
    const struct operation *o = &task->operation;
    size_t bytes = o->count * type_size(o->type);
    bool all = o->function == FUNCTION_ALL_TO_ALL, root = o->comm->rank == o->root;
    ncclResult_t result = ncclSuccess;
    if (o->function == FUNCTION_GATHER)
        result = append_peer(task, FUNCTION_SEND, (void *)o->send, o->root);
    for (int rank = 0; rank < o->comm->ranks && result == ncclSuccess; rank++) {
        if (all || (root && o->function == FUNCTION_SCATTER))
            result = append_peer(task, FUNCTION_SEND, (char *)o->send + bytes * (size_t)rank, rank);
        if (result == ncclSuccess && (all || (root && o->function == FUNCTION_GATHER)))
            result = append_peer(task, FUNCTION_RECV, (char *)o->recv + bytes * (size_t)rank, rank);
    }
    if (o->function == FUNCTION_SCATTER && result == ncclSuccess)
        result = append_peer(task, FUNCTION_RECV, o->recv, o->root);
    return result;
}

static ncclResult_t append(const struct operation *o) {
    struct task t = {.operation = *o};
    if (!faults_of_operation(o->comm, o->comm->operations++, &t.faults))
        return ncclSuccess;
    if (o->function == FUNCTION_SEND || o->function == FUNCTION_RECV)
        return append_task(&t);
    if (o->count == 0)
        return ncclSuccess;
    ncclResult_t result = resolve_operator(&t);
    if (result != ncclSuccess)
        return result;
    if (o->comm->ranks == 1)
        return launch_one_rank(&t);
    return o->function >= FUNCTION_ALL_TO_ALL ? append_as_peers(&t) : append_task(&t);
}

ncclResult_t operation_call(const struct operation *o) {
    ncclResult_t result = communicator_check(o->comm);
    if (result == ncclSuccess && o->comm->revoked)
        result = ncclInvalidUsage;
    if (result != ncclSuccess)
        return group_error(result);
    ncclComm_t comm = o->comm;
    bool blocking = comm->blocking;
    plugin_group_nest();
    group_begin();
    result = communicator_ready(comm);
    if (result == ncclSuccess)
        result = check_arguments(o);
    if (result == ncclSuccess)
        result = append(o);
    group_error(result);
    if (!blocking && result != ncclSuccess)
        comm->async_error = result;
    ncclResult_t closed = group_end(NULL);
    if (closed != ncclSuccess && closed != ncclInProgress)
        return closed;
    if (!blocking)
        ncclCommGetAsyncError(comm, &result);
    return result;
}
