/* SPDX-License-Identifier: Apache-2.0
 *
 * See communicator.h. The public functions that make, question and end communicators.
 */
#include "test/standin/nccl/communicator.h"
#include "test/standin/nccl/group.h"
#include "test/standin/nccl/plugin.h"
#include "test/standin/nccl/version.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define DEFAULT_VERSION 22809

static char last_message[256];

void message_set(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_message, sizeof last_message, format, arguments);
    va_end(arguments);
    if (getenv("NCCL_DEBUG"))
        fprintf(stderr, "NCCL stand-in: %s\n", last_message);
}

uint64_t hash_bytes(const void *data, size_t bytes) {
    const unsigned char *at = data;
    uint64_t hash = 5381;
    for (size_t i = 0; i < bytes; i++)
        hash = hash * 33 ^ at[i];
    return hash;
}

int standin_nccl_version(void) {
    const char *setting = getenv("STANDIN_NCCL_VERSION");
    return setting ? atoi(setting) : DEFAULT_VERSION;
}

int communicator_host(const struct ncclComm *comm, int rank) {
    return (int)((long)rank * comm->hosts / comm->ranks);
}

ncclResult_t communicator_check(ncclComm_t comm) {
    if (comm && comm->magic == COMMUNICATOR_MAGIC)
        return ncclSuccess;
    message_set(comm ? "Error: corrupted comm object detected" : "comm argument is NULL");
    return ncclInvalidArgument;
}

ncclResult_t communicator_ready(ncclComm_t comm) {
    ncclResult_t error = ncclSuccess;
    if (comm->aborted)
        return ncclSuccess;
    ncclResult_t result = ncclCommGetAsyncError(comm, &error);
    if (result != ncclSuccess)
        return result;
    if (error != ncclInProgress)
        return error;
    message_set("Attempt to use communicator before the previous operation returned ncclSuccess");
    return ncclInvalidArgument;
}

void communicator_hold(ncclComm_t comm) {
    comm->references++;
}

void communicator_drop(ncclComm_t comm) {
    if (--comm->references > 0)
        return;
    if (comm->segment)
        segment_leave(comm->segment);
    pthread_mutex_destroy(&comm->kernel);
    comm->magic = 0;
    free(comm);
}

/* Creation */

static ncclResult_t apply_config(ncclComm_t comm, const ncclConfig_t *config) {
    if (!config)
        return ncclSuccess;
    if (config->magic != STANDIN_NCCL_CONFIG_MAGIC) {
        message_set("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
        return ncclInvalidArgument;
    }
    bool has_name = config->size >= offsetof(ncclConfig_t, commName) + sizeof config->commName;
    comm->blocking = config->blocking != 0;
    if (has_name && config->commName)
        snprintf(comm->name, sizeof comm->name, "%s", config->commName);
    return ncclSuccess;
}

static ncclResult_t new_communicator(ncclComm_t *result, int device) {
    static _Atomic int created;
    faults_read();
    const struct device_functions *driver = device_driver();
    device_context context = device_primary(device);
    if (!context) {
        message_set("Cuda failure: no CUDA-capable device is detected");
        return ncclUnhandledCudaError;
    }
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (!comm)
        return ncclSystemError;
    comm->magic = COMMUNICATOR_MAGIC;
    comm->references = 1;
    comm->device = device;
    comm->context = context;
    comm->ordinal = created++;
    const char *blocking = getenv("NCCL_COMM_BLOCKING");
    comm->blocking = !blocking || atoi(blocking) != 0;
    pthread_mutex_init(&comm->kernel, NULL);
    const unsigned no_timing = 2; /* CU_EVENT_DISABLE_TIMING */
    device_enter(context);
    int error = driver->event_create(&comm->scratch, no_timing);
    if (!error)
        error = driver->event_create(&comm->finished, no_timing);
    if (!error)
        error = driver->event_create(&comm->captured, no_timing);
    device_leave();
    *result = comm;
    return error ? ncclUnhandledCudaError : ncclSuccess;
}

static void place(ncclComm_t comm, const ncclUniqueId *id, int rank, int ranks) {
    const char *hosts = getenv("STANDIN_HOSTS");
    comm->id = *id;
    comm->hash = hash_bytes(id, sizeof *id);
    comm->rank = rank;
    comm->ranks = ranks;
    comm->hosts = hosts && atoi(hosts) > 0 ? atoi(hosts) : 1;
    if (comm->hosts > ranks)
        comm->hosts = ranks;
}

static bool finish(struct job *job, ncclResult_t result) {
    job->result = result;
    if (result == ncclSuccess && job->target)
        *job->target = job->comm;
    return true;
}

/* What tells two ranks on one device from two on different hosts' devices. */
struct position {
    int device, host;
    uint64_t host_id;
};

static ncclResult_t check_devices(ncclComm_t comm) {
    const char *allowed = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (allowed && atoi(allowed))
        return ncclSuccess;
    const struct position *mine = segment_given(comm->segment, comm->rank);
    for (int rank = 0; rank < comm->ranks; rank++) {
        const struct position *other = segment_given(comm->segment, rank);
        if (rank != comm->rank && memcmp(mine, other, sizeof *mine) == 0) {
            message_set("Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", comm->rank, rank,
                        comm->device);
            return ncclInvalidUsage;
        }
    }
    return ncclSuccess;
}

static void give_position(ncclComm_t comm) {
    struct position mine;
    memset(&mine, 0, sizeof mine);
    mine.device = comm->device;
    mine.host = communicator_host(comm, comm->rank);
    const char *id = getenv("NCCL_HOSTID");
    mine.host_id = id ? hash_bytes(id, strlen(id)) : 0;
    segment_give(comm->segment, &mine, sizeof mine);
}

enum { MEET_JOIN, MEET_WAIT, MEET_CHECK };

/* The members of a new communicator find each other. */
static bool step_meet(struct job *job) {
    ncclComm_t comm = job->comm;
    if (comm->aborted)
        return finish(job, ncclInternalError);
    switch (job->stage) {
    case MEET_JOIN:
        comm->segment = segment_join(comm->hash, comm->rank, comm->ranks);
        if (!comm->segment)
            return finish(job, ncclSystemError);
        job->stage = MEET_WAIT;
        return false;
    case MEET_WAIT:
        if (segment_complete(comm->segment)) {
            give_position(comm);
            job->stage = MEET_CHECK;
        }
        return false;
    default:
        if (!segment_all_given(comm->segment))
            return false;
        ncclResult_t result = check_devices(comm);
        if (result == ncclSuccess)
            plugin_init(comm);
        return finish(job, result);
    }
}

static void meet(struct job *job) {
    job->step = step_meet;
    job->stage = MEET_JOIN;
}

/* Adds the job to the group of this thread and closes that; for a non-blocking communicator the outcome is its state.
 */
static ncclResult_t run_job(const struct job *job) {
    bool blocking = job->comm->blocking;
    group_begin();
    ncclResult_t result = group_add_job(job);
    group_error(result);
    ncclResult_t closed = group_end(NULL);
    if (closed != ncclSuccess && closed != ncclInProgress)
        return closed;
    return blocking || result != ncclSuccess ? result : closed;
}

static ncclResult_t init_rank(ncclComm_t *target, int ranks, const ncclUniqueId *id, int rank, int device,
                              const ncclConfig_t *config) {
    if (!target || ranks < 1 || rank < 0 || rank >= ranks || ranks > SEGMENT_MAX_RANKS) {
        message_set("Invalid rank requested : %d/%d", rank, ranks);
        return group_error(ncclInvalidArgument);
    }
    ncclComm_t comm = NULL;
    ncclResult_t result = new_communicator(&comm, device);
    if (result == ncclSuccess)
        result = apply_config(comm, config);
    if (result != ncclSuccess) {
        if (comm)
            communicator_drop(comm);
        return group_error(result);
    }
    place(comm, id, rank, ranks);
    *target = comm;
    struct job job = {.comm = comm};
    meet(&job);
    return run_job(&job);
}

NCCL_API(ncclResult_t, ncclGetVersion, int *version) {
    if (!version)
        return ncclInvalidArgument;
    *version = standin_nccl_version();
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId *id) {
    faults_read();
    if (!id)
        return ncclInvalidArgument;
    return getrandom(id, sizeof *id, 0) == (ssize_t)sizeof *id ? ncclSuccess : ncclSystemError;
}

NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
    return init_rank(comm, ranks, &id, rank, device_of_thread(), NULL);
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
         ncclConfig_t *config) {
    return init_rank(comm, ranks, &id, rank, device_of_thread(), config);
}

NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t *comm, int ranks, int rank, int ids, ncclUniqueId *list,
         ncclConfig_t *config) {
    if (ids < 1 || ids > ranks || !list)
        return group_error(ncclInvalidArgument);
    return init_rank(comm, ranks, &list[0], rank, device_of_thread(), config);
}

NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t *comms, int devices, const int *list) {
    ncclUniqueId id;
    if (!comms || devices < 1)
        return ncclInvalidArgument;
    ncclResult_t result = ncclGetUniqueId(&id);
    group_begin();
    for (int i = 0; i < devices && result == ncclSuccess; i++)
        result = init_rank(&comms[i], devices, &id, i, list ? list[i] : i, NULL);
    group_error(result);
    ncclResult_t closed = group_end(NULL);
    return result == ncclSuccess ? closed : result;
}

/* Children */

/* The id of a child, the same on all its ranks without a message between them. */
static ncclUniqueId child_id(const ncclUniqueId *parent, unsigned number, uint64_t what) {
    ncclUniqueId id = *parent;
    for (size_t i = 0; i < sizeof id; i += sizeof(uint64_t)) {
        uint64_t word[3] = {number, what, i}, mixed;
        memcpy(&mixed, id.internal + i, sizeof mixed);
        mixed ^= hash_bytes(word, sizeof word) * 0x9e3779b97f4a7c15ull;
        memcpy(id.internal + i, &mixed, sizeof mixed);
    }
    return id;
}

/* The child's handle: inherits the parent's configuration unless one is given. */
static ncclResult_t new_child(ncclComm_t *child, ncclComm_t parent, const ncclConfig_t *config) {
    ncclResult_t result = new_communicator(child, parent->device);
    if (result != ncclSuccess)
        return result;
    (*child)->blocking = parent->blocking;
    if (!config)
        memcpy((*child)->name, parent->name, sizeof parent->name);
    return apply_config(*child, config);
}

struct split_choice {
    int color, key;
};

/* Rank of this process among those of its color, ordered by key, then by rank in the parent. */
static void place_split(struct job *job, int color, int key) {
    int rank = 0, ranks = 0;
    for (int other = 0; other < job->parent->ranks; other++) {
        const struct split_choice *choice = segment_given(job->parent->segment, other);
        if (choice->color != color)
            continue;
        ranks++;
        rank += choice->key < key || (choice->key == key && other < job->parent->rank);
    }
    ncclUniqueId id = child_id(&job->parent->id, (unsigned)job->root, (uint64_t)(unsigned)color);
    place(job->comm, &id, rank, ranks);
}

static bool step_split(struct job *job) {
    struct split_choice mine = {job->color, job->key};
    if (job->parent->aborted)
        return finish(job, ncclInternalError);
    if (job->stage == 0) {
        segment_give(job->parent->segment, &mine, sizeof mine);
        job->stage = 1;
    }
    if (!segment_all_given(job->parent->segment))
        return false;
    if (job->color == NCCL_SPLIT_NOCOLOR) {
        job->result = ncclSuccess;
        return true;
    }
    place_split(job, job->color, job->key);
    meet(job);
    return false;
}

static ncclResult_t check_child_call(ncclComm_t parent, ncclComm_t *child) {
    ncclResult_t result = communicator_check(parent);
    if (result == ncclSuccess && !child)
        result = ncclInvalidArgument;
    return result == ncclSuccess ? communicator_ready(parent) : result;
}

NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config) {
    ncclResult_t result = check_child_call(comm, child);
    if (result == ncclSuccess && color < NCCL_SPLIT_NOCOLOR)
        result = ncclInvalidArgument;
    if (result != ncclSuccess)
        return group_error(result);
    *child = NULL;
    struct job job = {.parent = comm, .target = child, .color = color, .key = key, .root = (int)++comm->children};
    job.comm = comm;
    job.step = step_split;
    if (color != NCCL_SPLIT_NOCOLOR)
        result = new_child(&job.comm, comm, config);
    return result == ncclSuccess ? run_job(&job) : group_error(result);
}

static void wait_until_idle(ncclComm_t comm) {
    while (comm->running > 0 || comm->async_error == ncclInProgress)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int *excluded, int count, ncclComm_t *child,
         ncclConfig_t *config, int flags) {
    ncclResult_t result = communicator_check(comm);
    if (result == ncclSuccess && (!child || !excluded || count < 1))
        result = ncclInvalidArgument;
    if (result != ncclSuccess)
        return group_error(result);
    if (flags & NCCL_SHRINK_ABORT) {
        comm->aborted = true;
        wait_until_idle(comm);
        comm->aborted = false;
    } else if ((result = communicator_ready(comm)) != ncclSuccess) {
        return group_error(result);
    }
    *child = NULL;
    bool gone[SEGMENT_MAX_RANKS] = {false};
    for (int i = 0; i < count; i++)
        if (excluded[i] >= 0 && excluded[i] < comm->ranks)
            gone[excluded[i]] = true;
    int rank = 0, ranks = 0;
    for (int other = 0; other < comm->ranks; other++) {
        rank += !gone[other] && other < comm->rank;
        ranks += !gone[other];
    }
    if (gone[comm->rank])
        return group_error(ncclInvalidArgument);
    struct job job = {.target = child};
    result = new_child(&job.comm, comm, config);
    if (result != ncclSuccess)
        return group_error(result);
    ncclUniqueId id = child_id(&comm->id, ++comm->children, hash_bytes(gone, sizeof gone));
    place(job.comm, &id, rank, ranks);
    meet(&job);
    return run_job(&job);
}

NCCL_API(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId *id) {
    ncclResult_t result = communicator_check(comm);
    if (result != ncclSuccess)
        return result;
    if (!id || comm->growth_pending)
        return ncclInvalidUsage;
    comm->growth_pending = true;
    return ncclGetUniqueId(id);
}

/* Members of the old communicator learn the new id from the one that made it. */
static bool step_grow(struct job *job) {
    static const ncclUniqueId none;
    if (job->stage == 0) {
        segment_give(job->parent->segment, &job->id, sizeof job->id);
        job->stage = 1;
    }
    if (!segment_all_given(job->parent->segment))
        return false;
    ncclUniqueId id = none;
    for (int rank = 0; rank < job->parent->ranks; rank++)
        if (memcmp(segment_given(job->parent->segment, rank), &none, sizeof none) != 0)
            memcpy(&id, segment_given(job->parent->segment, rank), sizeof id);
    job->parent->growth_pending = false;
    place(job->comm, &id, job->parent->rank, job->key);
    meet(job);
    return false;
}

NCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t comm, int ranks, const ncclUniqueId *id, int rank, ncclComm_t *child,
         ncclConfig_t *config) {
    if (!comm)
        return id ? init_rank(child, ranks, id, rank, device_of_thread(), config) : group_error(ncclInvalidArgument);
    ncclResult_t result = check_child_call(comm, child);
    if (result == ncclSuccess && (rank != -1 || ranks <= comm->ranks || ranks > SEGMENT_MAX_RANKS))
        result = ncclInvalidArgument;
    if (result != ncclSuccess)
        return group_error(result);
    *child = NULL;
    struct job job = {.parent = comm, .target = child, .key = ranks, .step = step_grow};
    if (id)
        job.id = *id;
    comm->children++;
    result = new_child(&job.comm, comm, config);
    return result == ncclSuccess ? run_job(&job) : group_error(result);
}

/* The end */

static bool step_idle(struct job *job) {
    if (job->comm->running > 0)
        return false;
    job->result = ncclSuccess;
    return true;
}

NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
    ncclResult_t result = communicator_check(comm);
    if (result == ncclSuccess)
        result = communicator_ready(comm);
    if (result == ncclSuccess && comm->finalized)
        result = ncclInvalidArgument;
    if (result != ncclSuccess)
        return group_error(result);
    comm->finalized = true;
    return run_job(&(struct job){.comm = comm, .step = step_idle});
}

/* Waits for the communicator's kernels, as the real library does, then lets go of the handle. */
static void end(ncclComm_t comm) {
    const struct device_functions *driver = device_driver();
    wait_until_idle(comm);
    if (comm->ranks > 0 && comm->segment)
        plugin_finalize(comm);
    device_enter(comm->context);
    driver->event_destroy(comm->scratch);
    driver->event_destroy(comm->finished);
    driver->event_destroy(comm->captured);
    device_leave();
    communicator_drop(comm);
}

NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
    if (!comm)
        return ncclSuccess;
    ncclResult_t result = communicator_check(comm);
    if (result != ncclSuccess)
        return group_error(result);
    communicator_ready(comm); /* for its call through the public name; whatever the state, the handle goes */
    end(comm);
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
    if (!comm)
        return ncclSuccess;
    ncclResult_t result = communicator_check(comm);
    if (result != ncclSuccess)
        return group_error(result);
    comm->aborted = true;
    end(comm);
    return ncclSuccess;
}

static bool step_revoke(struct job *job) {
    if (!step_idle(job))
        return false;
    job->comm->aborted = false;
    return true;
}

NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int flags) {
    if (!comm)
        return ncclSuccess;
    if (communicator_check(comm) != ncclSuccess || flags != 0 || comm->finalized || comm->revoked)
        return group_error(ncclInvalidArgument);
    comm->aborted = true;
    comm->revoked = comm->finalized = true;
    return run_job(&(struct job){.comm = comm, .step = step_revoke});
}

/* Questions */

NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *error) {
    ncclResult_t result = communicator_check(comm);
    if (result != ncclSuccess || !error)
        return ncclInvalidArgument;
    *error = (ncclResult_t)comm->async_error;
    return ncclSuccess;
}

/* One number of a communicator that is ready. */
static ncclResult_t tell(ncclComm_t comm, int *answer, size_t field) {
    ncclResult_t result = communicator_check(comm);
    if (result == ncclSuccess && !answer)
        result = ncclInvalidArgument;
    if (result == ncclSuccess)
        result = communicator_ready(comm);
    if (result == ncclSuccess)
        memcpy(answer, (const char *)comm + field, sizeof *answer);
    return result;
}

NCCL_API(ncclResult_t, ncclCommCount, ncclComm_t comm, int *count) {
    return tell(comm, count, offsetof(struct ncclComm, ranks));
}

NCCL_API(ncclResult_t, ncclCommCuDevice, ncclComm_t comm, int *device) {
    return tell(comm, device, offsetof(struct ncclComm, device));
}

NCCL_API(ncclResult_t, ncclCommUserRank, ncclComm_t comm, int *rank) {
    return tell(comm, rank, offsetof(struct ncclComm, rank));
}

NCCL_API(const char *, ncclGetErrorString, ncclResult_t code) {
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
    };
    return (unsigned)code < sizeof texts / sizeof *texts ? texts[code] : "unknown result code";
}

NCCL_API(const char *, ncclGetLastError, ncclComm_t comm) {
    (void)comm;
    return last_message;
}
