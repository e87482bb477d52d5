/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a job that uses NCCL without MPI, keeps its own books and prints them.
 *
 *   exercise SCENE RANK RANKS FOLDER     (FOLDER: where rank 0 leaves unique ids for the others)
 *
 * Built three times: linked to NCCL; as a module that is linked to it (-DMODULE, loaded by host.c); and looking each
 * function up in $NCCL_LIBRARY (-DLOOKED_UP).
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/programs/nccl/ledger.h"
#include "test/standin/nccl_api.h"

int cudaSetDevice(int device);
int cudaMalloc(void **pointer, size_t bytes);
int cudaFree(void *pointer);
int cudaStreamCreate(cudaStream_t *stream);
int cudaStreamSynchronize(cudaStream_t stream);
int cudaStreamDestroy(cudaStream_t stream);
int cudaProfilerStart(void);
int cudaProfilerStop(void);

#define FLOATS 4096

static int rank, ranks, ids;
static const char *folder;
static float *from, *to;
static cudaStream_t stream, second;

#ifdef LOOKED_UP
static void *look_up(const char *name) {
    static void *library;
    if (!library)
        library = dlopen(getenv("NCCL_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        exit(3);
    }
    return found;
}
#define REACH(function) ((__typeof__(&function))look_up(#function))
#else
#define REACH(function) function
#endif

/* Notes the call with its bytes, makes it, and ends the program unless it succeeds. */
#define CALL(size, function, ...)                                                                                      \
    do {                                                                                                               \
        ledger_add(#function, size);                                                                                   \
        expect(#function, REACH(function)(__VA_ARGS__), ncclSuccess);                                                  \
    } while (0)

static void expect(const char *what, int result, int wanted) {
    if (result == wanted)
        return;
    fprintf(stderr, "rank %d: %s returned %d, not %d\n", rank, what, result, wanted);
    exit(4);
}

static void settle(void) {
    expect("cudaStreamSynchronize", cudaStreamSynchronize(stream), 0);
    expect("cudaStreamSynchronize", cudaStreamSynchronize(second), 0);
}

/* Rank 0 makes an id, the others read it. */
static ncclUniqueId agree_on_id(void) {
    ncclUniqueId id;
    char path[512], draft[520];
    snprintf(path, sizeof path, "%s/id.%d", folder, ids++);
    snprintf(draft, sizeof draft, "%s.new", path);
    if (rank == 0) {
        CALL(0, ncclGetUniqueId, &id);
        FILE *file = fopen(draft, "wb");
        if (!file || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) || rename(draft, path))
            exit(5);
        return id;
    }
    while (access(path, R_OK))
        usleep(1000);
    FILE *file = fopen(path, "rb");
    if (!file || fread(&id, sizeof id, 1, file) != 1)
        exit(5);
    fclose(file);
    return id;
}

static ncclComm_t make_communicator(void) {
    ncclComm_t comm = NULL;
    ncclUniqueId id = agree_on_id();
    CALL(0, ncclCommInitRank, &comm, ranks, id, rank);
    return comm;
}

#define BYTES(count) ((unsigned long long)(count)*4)

static void collectives(ncclComm_t comm, int n) {
    for (size_t count = 64; count <= 1024; count *= 4)
        CALL(BYTES(count), ncclAllReduce, from, to, count, ncclFloat32, ncclSum, comm, stream);
    CALL(BYTES(100) / 2, ncclAllReduce, from, to, 100, ncclFloat16, ncclMax, comm, stream);
    CALL(BYTES(128), ncclBroadcast, from, to, 128, ncclFloat32, n - 1, comm, stream);
    CALL(BYTES(128), ncclBcast, to, 128, ncclFloat32, 0, comm, stream);
    CALL(BYTES(96), ncclReduce, from, to, 96, ncclFloat32, ncclProd, 0, comm, stream);
    CALL(BYTES(64) * n, ncclAllGather, from, to, 64, ncclFloat32, comm, stream);
    CALL(BYTES(64) * n, ncclReduceScatter, from, to, 64, ncclFloat32, ncclSum, comm, stream);
    CALL(BYTES(32) * n, ncclAlltoAll, from, to, 32, ncclFloat32, comm, stream);
    CALL(BYTES(32) * n, ncclGather, from, to, 32, ncclFloat32, 0, comm, stream);
    CALL(BYTES(32) * n, ncclScatter, from, to, 32, ncclFloat32, 0, comm, stream);
}

static void groups(ncclComm_t comm) {
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    for (int i = 0; i < 3; i++) { /* point to point */
        CALL(0, ncclGroupStart);
        CALL(BYTES(256), ncclSend, from, 256, ncclFloat32, next, comm, stream);
        CALL(BYTES(256), ncclRecv, to, 256, ncclFloat32, previous, comm, stream);
        CALL(0, ncclGroupEnd);
    }
    CALL(0, ncclGroupStart); /* several collectives, on two streams, nested */
    CALL(BYTES(10), ncclAllReduce, from, to, 10, ncclFloat32, ncclSum, comm, stream);
    CALL(0, ncclGroupStart);
    CALL(BYTES(20), ncclAllReduce, from + 64, to + 64, 20, ncclFloat32, ncclSum, comm, second);
    CALL(0, ncclGroupEnd);
    CALL(BYTES(30), ncclAllReduce, from + 128, to + 128, 30, ncclFloat32, ncclSum, comm, stream);
    CALL(0, ncclGroupEnd);
    CALL(0, ncclGroupStart); /* of one */
    CALL(BYTES(40), ncclAllReduce, from, to, 40, ncclFloat32, ncclSum, comm, stream);
    CALL(0, ncclGroupEnd);
    CALL(0, ncclGroupStart); /* of none */
    CALL(0, ncclGroupEnd);
}

static void memory(ncclComm_t comm) {
    void *buffer = NULL, *handle = NULL;
    CALL(0, ncclMemAlloc, &buffer, 65536);
    CALL(0, ncclCommRegister, comm, buffer, 65536, &handle);
    CALL(0, ncclCommDeregister, comm, handle);
    CALL(0, ncclMemFree, buffer);
}

/* Children by color, one of them without this rank, handles freed and given out again. */
static void children(ncclComm_t comm) {
    for (int round = 0; round < 3; round++) {
        ncclComm_t child = NULL;
        int color = round == 1 && rank == 0 ? NCCL_SPLIT_NOCOLOR : rank % 2;
        CALL(0, ncclCommSplit, comm, color, rank, &child, NULL);
        if (!child)
            continue;
        CALL(BYTES(8), ncclAllReduce, from, to, 8, ncclFloat32, ncclSum, child, stream);
        settle();
        CALL(0, ncclCommDestroy, child);
    }
}

static void end(ncclComm_t comm) {
    settle();
    CALL(0, ncclCommFinalize, comm);
    CALL(0, ncclCommDestroy, comm);
}

/* ---- scenes ---------------------------------------------------------------------------------- */

static void scene_all(void) {
    ncclComm_t comm = make_communicator();
    collectives(comm, ranks);
    settle();
    groups(comm);
    settle();
    memory(comm);
    if (ranks > 1)
        children(comm);
    end(comm);
}

static void message(bool send, size_t count, int peer, ncclComm_t comm) {
    if (send)
        CALL(BYTES(count), ncclSend, from, count, ncclFloat32, peer, comm, stream);
    else
        CALL(BYTES(count), ncclRecv, to + peer * 256, count, ncclFloat32, peer, comm, stream);
}

/* As PyTorch makes an all-to-all; without what a rank has for itself where `others`. */
static void all_to_all(ncclComm_t comm, size_t count, bool others) {
    CALL(0, ncclGroupStart);
    for (int peer = 0; peer < ranks; peer++) {
        if (others && peer == rank)
            continue;
        message(true, count, peer, comm);
        message(false, count, peer, comm);
    }
    CALL(0, ncclGroupEnd);
}

/* Groups whose operations are one operation together; five of each. */
static void scene_patterns(void) {
    ncclComm_t comm = make_communicator(), other = make_communicator();
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    for (int round = 0; round < 5; round++) {
        CALL(0, ncclGroupStart); /* alike */
        for (int i = 0; i < 3; i++)
            CALL(BYTES(500), ncclAllReduce, from, to, 500, ncclFloat32, ncclSum, comm, stream);
        CALL(0, ncclGroupEnd);
        CALL(0, ncclGroupStart); /* an exchange */
        message(true, 200, next, comm);
        message(false, 200, previous, comm);
        CALL(0, ncclGroupEnd);
        all_to_all(comm, 100, false);
        all_to_all(comm, 50, true);
        CALL(0, ncclGroupStart); /* a mixture */
        CALL(BYTES(60), ncclAllReduce, from, to, 60, ncclFloat32, ncclSum, comm, stream);
        CALL(BYTES(70), ncclBroadcast, from, to, 70, ncclFloat32, 0, comm, stream);
        CALL(0, ncclGroupEnd);
        settle();
        CALL(0, ncclGroupStart); /* of two communicators */
        CALL(BYTES(80), ncclAllReduce, from, to, 80, ncclFloat32, ncclSum, comm, stream);
        CALL(BYTES(90), ncclAllReduce, from, to, 90, ncclFloat32, ncclSum, other, stream);
        CALL(0, ncclGroupEnd);
        settle();
    }
    CALL(0, ncclCommDestroy, other);
    end(comm);
}

/* Collectives of one kind in a group: of different sizes, as PyTorch coalesces them, and more than a record counts. */
static void scene_coalesced(void) {
    ncclComm_t comm = make_communicator();
    for (int round = 0; round < 5; round++) {
        CALL(0, ncclGroupStart);
        for (size_t i = 1; i <= 3; i++)
            CALL((size_t)ranks * BYTES(10 * i), ncclAllGather, from, to, 10 * i, ncclFloat32, comm, stream);
        CALL(0, ncclGroupEnd);
        CALL(0, ncclGroupStart);
        for (int i = 0; i < 300; i++)
            CALL(BYTES(4), ncclAllReduce, from, to, 4, ncclFloat32, ncclSum, comm, stream);
        CALL(0, ncclGroupEnd);
        settle();
    }
    end(comm);
}

/* Gathers and scatters of parts that differ in size, as PyTorch makes them of rooted collectives. */
static void parts(ncclComm_t comm) {
    CALL(0, ncclGroupStart);
    for (int root = 0; root < ranks; root++)
        CALL(BYTES(40 * root), ncclBroadcast, from, to + 256 * root, 40 * (size_t)root, ncclFloat32, root, comm,
             stream);
    CALL(0, ncclGroupEnd);
    CALL(0, ncclGroupStart);
    for (int root = 0; root < ranks; root++)
        CALL(BYTES(50 + root), ncclReduce, from, to, 50 + (size_t)root, ncclFloat32, ncclSum, root, comm, stream);
    CALL(0, ncclGroupEnd);
}

/* Messages of different sizes: to the next rank two and one back; from rank 0 to the last one alone; and as an
 * all-to-all of experts who have nothing for their own rank's successor. */
static void messages(ncclComm_t comm) {
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, last = ranks - 1;
    CALL(0, ncclGroupStart);
    message(true, 10, next, comm);
    message(true, 30, next, comm);
    message(false, 10, previous, comm);
    message(false, 30, previous, comm);
    CALL(0, ncclGroupEnd);
    CALL(0, ncclGroupStart);
    for (size_t i = 1; i <= 3 && (rank == 0 || rank == last); i++)
        message(rank == 0, 100 * i, rank == 0 ? last : 0, comm);
    CALL(0, ncclGroupEnd);
    CALL(0, ncclGroupStart);
    for (int peer = 0; peer < ranks; peer++) {
        if (peer != next)
            message(true, 20 * (size_t)(1 + rank + peer), peer, comm);
        if (peer != previous)
            message(false, 20 * (size_t)(1 + rank + peer), peer, comm);
    }
    CALL(0, ncclGroupEnd);
}

static void scene_uneven(void) {
    ncclComm_t comm = make_communicator();
    for (int round = 0; round < 5; round++) {
        parts(comm);
        settle();
        messages(comm);
        settle();
    }
    end(comm);
}

/* Reductions outside of what a profiler is to look at go into no book. */
static void scene_profiled(void) {
    ncclComm_t comm = make_communicator();
    for (int i = 0; i < 9; i++) {
        bool inside = i == 3 || i == 4;
        if (i == 3)
            expect("cudaProfilerStart", cudaProfilerStart(), 0);
        if (i == 5)
            expect("cudaProfilerStop", cudaProfilerStop(), 0);
        if (inside)
            ledger_add("ncclAllReduce", BYTES(64));
        expect("ncclAllReduce", REACH(ncclAllReduce)(from, to, 64, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
    }
    settle();
}

/* Each rank by itself: everything runs inside the calls. */
static void scene_alone(void) {
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    CALL(0, ncclGetUniqueId, &id);
    CALL(0, ncclCommInitRank, &comm, 1, id, 0);
    collectives(comm, 1);
    CALL(0, ncclGroupStart);
    CALL(BYTES(12), ncclAllReduce, from, to, 12, ncclFloat32, ncclSum, comm, stream);
    CALL(BYTES(13), ncclAllReduce, from, to, 13, ncclFloat32, ncclSum, comm, stream);
    CALL(0, ncclGroupEnd);
    end(comm);
}

/* All devices in one process. */
static void scene_devices(void) {
    ncclComm_t comms[2];
    cudaStream_t streams[2];
    float *buffers[2];
    CALL(0, ncclCommInitAll, comms, 2, NULL);
    for (int i = 0; i < 2; i++) {
        expect("device", cudaSetDevice(i) | cudaStreamCreate(&streams[i]), 0);
        expect("memory", cudaMalloc((void **)&buffers[i], BYTES(FLOATS)), 0);
    }
    for (int round = 0; round < 5; round++) {
        CALL(0, ncclGroupStart);
        for (int i = 0; i < 2; i++)
            CALL(BYTES(100), ncclAllReduce, buffers[i], buffers[i], 100, ncclFloat32, ncclSum, comms[i], streams[i]);
        CALL(0, ncclGroupEnd);
    }
    for (int i = 0; i < 2; i++)
        expect("synchronize", cudaStreamSynchronize(streams[i]), 0);
    for (int i = 0; i < 2; i++)
        CALL(0, ncclCommDestroy, comms[i]);
}

static void wait_until_done(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        CALL(0, ncclCommGetAsyncError, comm, &state);
        usleep(500);
    }
    expect("async error", state, ncclSuccess);
}

/* Calls may say "in progress": neither an error nor the end of the launch. */
static void scene_nonblocking(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclUniqueId id = agree_on_id();
    config.blocking = 0;
    config.commName = "patient";
    ledger_add("ncclCommInitRankConfig", 0);
    ncclResult_t result = REACH(ncclCommInitRankConfig)(&comm, ranks, id, rank, &config);
    expect("init", result == ncclInProgress ? ncclSuccess : result, ncclSuccess);
    wait_until_done(comm);
    for (int i = 0; i < 4; i++) {
        ledger_add("ncclAllReduce", BYTES(50));
        result = REACH(ncclAllReduce)(from, to, 50, ncclFloat32, ncclSum, comm, stream);
        expect("reduce", result == ncclInProgress ? ncclSuccess : result, ncclSuccess);
        wait_until_done(comm);
    }
    settle();
    CALL(0, ncclCommDestroy, comm);
}

/* The parent is in progress until the child's handle is there; then the child is like any other. */
static void scene_nonblocking_split(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL, child = NULL;
    ncclUniqueId id = agree_on_id();
    config.blocking = 0;
    ledger_add("ncclCommInitRankConfig", 0);
    ncclResult_t result = REACH(ncclCommInitRankConfig)(&comm, ranks, id, rank, &config);
    expect("init", result == ncclInProgress ? ncclSuccess : result, ncclSuccess);
    wait_until_done(comm);
    ledger_add("ncclCommSplit", 0);
    expect("split", REACH(ncclCommSplit)(comm, 0, rank, &child, NULL), ncclInProgress);
    wait_until_done(comm);
    for (int i = 0; i < 4; i++) {
        ledger_add("ncclAllReduce", BYTES(50));
        result = REACH(ncclAllReduce)(from, to, 50, ncclFloat32, ncclSum, child, stream);
        expect("reduce", result == ncclInProgress ? ncclSuccess : result, ncclSuccess);
        wait_until_done(child);
    }
    settle();
    CALL(0, ncclCommDestroy, child);
    CALL(0, ncclCommDestroy, comm);
}

/* Refused calls are counted as failed and take no number. */
static void scene_errors(void) {
    ncclComm_t comm = make_communicator();
    ledger_add("ncclAllReduce", BYTES(7));
    expect("no stream's business", REACH(ncclAllReduce)(from, to, 7, ncclFloat32, (ncclRedOp_t)77, comm, stream),
           ncclInvalidArgument);
    CALL(BYTES(7), ncclAllReduce, from, to, 7, ncclFloat32, ncclSum, comm, stream);
    end(comm);
}

/* One rank is refused a call, and a group of which one call was refused: nothing of these takes place. */
static void scene_refused(void) {
    ncclComm_t comm = make_communicator();
    for (int i = 0; i < 70; i++)
        CALL(BYTES(5), ncclAllReduce, from, to, 5, ncclFloat32, ncclSum, comm, stream);
    if (rank == 1) {
        ledger_add("ncclAllReduce", BYTES(7));
        expect("refused", REACH(ncclAllReduce)(from, to, 7, ncclFloat32, (ncclRedOp_t)77, comm, stream),
               ncclInvalidArgument);
        CALL(0, ncclGroupStart);
        CALL(BYTES(6), ncclAllReduce, from, to, 6, ncclFloat32, ncclSum, comm, stream);
        CALL(BYTES(6), ncclBroadcast, from, to, 6, ncclFloat32, 0, comm, stream);
        ledger_add("ncclAllReduce", BYTES(7));
        expect("refused in a group", REACH(ncclAllReduce)(from, to, 7, ncclFloat32, (ncclRedOp_t)77, comm, stream),
               ncclInvalidArgument);
        ledger_add("ncclGroupEnd", 0);
        expect("a group that fails", REACH(ncclGroupEnd)(), ncclInvalidArgument);
    }
    for (int i = 0; i < 130; i++)
        CALL(BYTES(5), ncclAllReduce, from, to, 5, ncclFloat32, ncclSum, comm, stream);
    end(comm);
}

/* Every collective with a configuration of its own on odd ranks, without one on even ranks: they may be mixed. */
static void scene_configured(void) {
    ncclComm_t comm = make_communicator();
    if (rank % 2 == 0) {
        CALL(BYTES(64), ncclAllReduce, from, to, 64, ncclFloat32, ncclSum, comm, stream);
        CALL(BYTES(64), ncclBroadcast, from, to, 64, ncclFloat32, 1, comm, stream);
        CALL(BYTES(64), ncclReduce, from, to, 64, ncclFloat32, ncclSum, 1, comm, stream);
        CALL(BYTES(64) * ranks, ncclAllGather, from, to, 64, ncclFloat32, comm, stream);
        CALL(BYTES(64) * ranks, ncclReduceScatter, from, to, 64, ncclFloat32, ncclSum, comm, stream);
        CALL(BYTES(64) * ranks, ncclAlltoAll, from, to, 64, ncclFloat32, comm, stream);
        CALL(BYTES(64) * ranks, ncclGather, from, to, 64, ncclFloat32, 1, comm, stream);
        CALL(BYTES(64) * ranks, ncclScatter, from, to, 64, ncclFloat32, 1, comm, stream);
    } else {
        CALL(BYTES(64), ncclAllReduceConfig, from, to, 64, ncclFloat32, ncclSum, comm, stream, NULL);
        CALL(BYTES(64), ncclBroadcastConfig, from, to, 64, ncclFloat32, 1, comm, stream, NULL);
        CALL(BYTES(64), ncclReduceConfig, from, to, 64, ncclFloat32, ncclSum, 1, comm, stream, NULL);
        CALL(BYTES(64) * ranks, ncclAllGatherConfig, from, to, 64, ncclFloat32, comm, stream, NULL);
        CALL(BYTES(64) * ranks, ncclReduceScatterConfig, from, to, 64, ncclFloat32, ncclSum, comm, stream, NULL);
        CALL(BYTES(64) * ranks, ncclAlltoAllConfig, from, to, 64, ncclFloat32, comm, stream, NULL);
        CALL(BYTES(64) * ranks, ncclGatherConfig, from, to, 64, ncclFloat32, 1, comm, stream, NULL);
        CALL(BYTES(64) * ranks, ncclScatterConfig, from, to, 64, ncclFloat32, 1, comm, stream, NULL);
    }
    end(comm);
}

/* Collectives on symmetric memory, and on other memory of the same communicator. */
static void scene_windows(void) {
    ncclWindow_t window;
    ncclComm_t comm = make_communicator();
    CALL(0, ncclCommWindowRegister, comm, from, BYTES(FLOATS), &window, NCCL_WIN_COLL_SYMMETRIC);
    for (int i = 0; i < 3; i++)
        CALL(BYTES(5), ncclAllReduce, from, to, 5, ncclFloat32, ncclSum, comm, stream);
    CALL(BYTES(6), ncclBroadcast, from, to, 6, ncclFloat32, 0, comm, stream);
    CALL(BYTES(7), ncclAllReduce, to, to, 7, ncclFloat32, ncclSum, comm, stream);
    CALL(0, ncclGroupStart);
    CALL(BYTES(8), ncclAllReduce, to, to, 8, ncclFloat32, ncclSum, comm, stream);
    CALL(BYTES(8), ncclAllReduce, to, from, 8, ncclFloat32, ncclSum, comm, stream);
    CALL(0, ncclGroupEnd);
    CALL(0, ncclCommWindowDeregister, comm, window);
    CALL(BYTES(9), ncclAllReduce, from, to, 9, ncclFloat32, ncclSum, comm, stream);
    CALL(0, ncclCommWindowRegister, comm, from, BYTES(FLOATS), &window, NCCL_WIN_DEFAULT);
    CALL(BYTES(10), ncclAllReduce, from, to, 10, ncclFloat32, ncclSum, comm, stream);
    CALL(0, ncclCommWindowDeregister, comm, window);
    CALL(0, ncclGroupStart);
    CALL(0, ncclCommWindowRegister, comm, from, BYTES(FLOATS), &window, NCCL_WIN_COLL_SYMMETRIC);
    CALL(0, ncclGroupEnd);
    CALL(BYTES(11), ncclAllReduce, from, to, 11, ncclFloat32, ncclSum, comm, stream);
    CALL(0, ncclCommWindowDeregister, comm, window);
    CALL(BYTES(12), ncclAllReduce, from, to, 12, ncclFloat32, ncclSum, comm, stream);
    end(comm);
}

/* A simulated group launches nothing. */
static void scene_simulated(void) {
    ncclSimInfo_t info = {sizeof info, NCCL_SIM_INFO_MAGIC, 22809, -1.0f};
    ncclComm_t comm = make_communicator();
    CALL(BYTES(5), ncclAllReduce, from, to, 5, ncclFloat32, ncclSum, comm, stream);
    if (rank == 0) { /* of no consequence for the others */
        CALL(0, ncclGroupStart);
        CALL(BYTES(6), ncclAllReduce, from, to, 6, ncclFloat32, ncclSum, comm, stream);
        CALL(0, ncclGroupSimulateEnd, &info);
    }
    CALL(BYTES(7), ncclAllReduce, from, to, 7, ncclFloat32, ncclSum, comm, stream);
    end(comm);
}

/* Rank 1 never comes: the others give up. */
static void scene_abort(void) {
    ncclComm_t comm = make_communicator();
    CALL(BYTES(5), ncclAllReduce, from, to, 5, ncclFloat32, ncclSum, comm, stream);
    settle();
    if (rank != 1)
        CALL(BYTES(6), ncclAllReduce, from, to, 6, ncclFloat32, ncclSum, comm, stream);
    usleep(200000);
    CALL(0, ncclCommAbort, comm);
}

static const struct scene {
    const char *name;
    void (*play)(void);
} scenes[] = {
    {"all", scene_all},
    {"patterns", scene_patterns},
    {"coalesced", scene_coalesced},
    {"uneven", scene_uneven},
    {"profiled", scene_profiled},
    {"alone", scene_alone},
    {"devices", scene_devices},
    {"nonblocking", scene_nonblocking},
    {"nonblocking-split", scene_nonblocking_split},
    {"errors", scene_errors},
    {"refused", scene_refused},
    {"simulated", scene_simulated},
    {"windows", scene_windows},
    {"abort", scene_abort},
    {"configured", scene_configured},
};

#ifdef MODULE
#define main exercise
int exercise(int argc, char **argv);
#endif

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    rank = atoi(argv[2]);
    ranks = atoi(argv[3]);
    folder = argv[4];
    expect("cudaSetDevice", cudaSetDevice(rank), 0);
    expect("cudaMalloc", cudaMalloc((void **)&from, BYTES(FLOATS)) | cudaMalloc((void **)&to, BYTES(FLOATS)), 0);
    expect("cudaStreamCreate", cudaStreamCreate(&stream) | cudaStreamCreate(&second), 0);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(argv[1], scenes[i].name)) {
            scenes[i].play();
            ledger_print();
            return 0;
        }
    return 2;
}
