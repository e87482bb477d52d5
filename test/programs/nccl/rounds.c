/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a job that reduces round after round, as training does, and looks after its communicator like a
 * framework's watchdog: it polls, and may lose patience. What goes wrong is not planted here but by the stand-in
 * (STANDIN_NCCL_FAULTS). Prints "digest HEX" of all results, or what became of the job.
 *
 *   rounds SCENE RANK RANKS FOLDER [ROUNDS [PATIENCE_MS]]
 *
 * FOLDER: where rank 0 leaves the unique id. PATIENCE_MS: how long a round may take before the communicator is aborted;
 * 0 waits for ever, after a line "waiting". Must not live here: anything that knows of commtap.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/programs/nccl/unique_id.h"
#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

#define FLOATS   16384
#define OK(call) ok((int)(call), #call)

static int rank, ranks, rounds = 40, patience_ms;
static ncclComm_t world;
static cudaStream_t stream;
static float *data, *into;
static unsigned long long digest = 14695981039346656037ull;

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "rounds: rank %d: %s: %d\n", rank, call, status);
    _exit(2);
}

static void say(const char *what, int number) {
    printf("%s %d\n", what, number);
    fflush(stdout);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void give_up(const char *why, int code) {
    say(why, code);
    OK(ncclCommAbort(world));
    say("aborted", 0);
    exit(0);
}

/* Until the stream is empty. */
static void watch(void) {
    double since = now_ms();
    int told = 0;
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        ncclResult_t state = ncclSuccess;
        OK(ncclCommGetAsyncError(world, &state));
        if (state != ncclSuccess)
            give_up("error", (int)state);
        if (patience_ms && now_ms() - since > patience_ms)
            give_up("timeout", 0);
        if (!told && !patience_ms && now_ms() - since > 1000) {
            told = 1;
            say("waiting", 0);
        }
        usleep(500);
    }
    ncclResult_t state = ncclSuccess;
    OK(ncclCommGetAsyncError(world, &state));
    if (state != ncclSuccess)
        give_up("error", (int)state);
}

static void add_to_digest(const float *values, size_t count) {
    const unsigned char *bytes = (const unsigned char *)values;
    for (size_t i = 0; i < count * sizeof *values; i++)
        digest = (digest ^ bytes[i]) * 1099511628211ull;
}

static void compute(void *unused) {
    (void)unused;
    usleep(1000);
}

static void fill(int round) {
    for (int i = 0; i < FLOATS; i++)
        data[i] = 1.0f / (float)(1 + i + 7 * rank + 31 * round);
}

static void steady(void) {
    for (int round = 0; round < rounds; round++) {
        fill(round);
        OK(cudaLaunchHostFunc(stream, compute, NULL));
        OK(ncclAllReduce(data, into, FLOATS, ncclFloat32, ncclSum, world, stream));
        watch();
        add_to_digest(into, FLOATS);
    }
}

/* Two rounds are in the stream at any time: the host is ahead of the device. */
static void ahead(void) {
    cudaEvent_t done[2];
    for (int i = 0; i < 2; i++)
        OK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
    for (int round = 0; round < rounds; round++) {
        if (round >= 2)
            OK(cudaEventSynchronize(done[round % 2]));
        OK(cudaLaunchHostFunc(stream, compute, NULL));
        OK(ncclAllReduce(data, into, FLOATS, ncclFloat32, ncclSum, world, stream));
        OK(cudaEventRecord(done[round % 2], stream));
    }
    watch();
    add_to_digest(into, FLOATS);
}

static void replays(void) {
    cudaGraph_t captured;
    cudaGraphExec_t executable;
    fill(0);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(ncclAllReduce(data, into, 64, ncclFloat32, ncclSum, world, stream));
    OK(ncclAllReduce(into, data, 32, ncclFloat32, ncclMax, world, stream));
    OK(cudaStreamEndCapture(stream, &captured));
    OK(cudaGraphInstantiate(&executable, captured, 0));
    for (int round = 0; round < rounds; round++) {
        OK(cudaGraphLaunch(executable, stream));
        OK(cudaStreamSynchronize(stream));
        add_to_digest(into, 64);
    }
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(captured));
}

static double late_ms; /* by this rank's own clock */

static void compute_late(void *unused) {
    double since = now_ms();
    (void)unused;
    usleep(8000);
    late_ms += now_ms() - since;
}

/* A whole step is captured: rank 2 takes 8 ms longer in it. Says by how much, and how long all of it took. */
static void captured(void) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    fill(0);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaLaunchHostFunc(stream, rank == 2 ? compute_late : compute, NULL));
    OK(ncclAllReduce(data, into, FLOATS, ncclFloat32, ncclSum, world, stream));
    OK(cudaLaunchHostFunc(stream, compute, NULL));
    OK(ncclAllReduce(into, data, 32, ncclFloat32, ncclMax, world, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    double since = now_ms();
    for (int round = 0; round < rounds; round++) {
        OK(cudaGraphLaunch(executable, stream));
        OK(cudaStreamSynchronize(stream));
    }
    say("took_us", (int)((now_ms() - since) * 1e3));
    say("late_us", (int)(late_ms * 1e3));
    add_to_digest(data, 32);
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
}

/* A captured step that reduces nothing: it passes values on around a ring, in one group. */
static void passed_on(void) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    fill(0);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaLaunchHostFunc(stream, rank == 2 ? compute_late : compute, NULL));
    OK(ncclGroupStart());
    OK(ncclSend(data, 64, ncclFloat32, (rank + 1) % ranks, world, stream));
    OK(ncclRecv(into, 64, ncclFloat32, (rank + ranks - 1) % ranks, world, stream));
    OK(ncclGroupEnd());
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    for (int round = 0; round < rounds; round++) {
        OK(cudaGraphLaunch(executable, stream));
        OK(cudaStreamSynchronize(stream));
    }
    say("late_us", (int)(late_ms * 1e3));
    add_to_digest(into, 64);
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
}

/* Every operation on communicators of half the ranks. */
static void halves(void) {
    ncclComm_t half;
    int n = ranks / 2, me = rank / 2;
    OK(ncclCommSplit(world, rank % 2, rank, &half, NULL));
    for (int round = 0; round < rounds; round++) {
        fill(round);
        OK(ncclAllReduce(data, into, 100, ncclFloat32, ncclAvg, half, stream));
        OK(ncclAllGather(data, into, 200, ncclFloat32, half, stream));
        OK(ncclReduceScatter(data, into, 300, ncclFloat32, ncclSum, half, stream));
        OK(ncclBroadcast(data, into, 400, ncclFloat64, 0, half, stream));
        OK(ncclReduce(data, into, 500, ncclFloat32, ncclMin, 0, half, stream));
        OK(ncclAlltoAll(data, into, 600, ncclFloat32, half, stream));
        OK(ncclGather(data, into, 700, ncclInt8, 0, half, stream));
        OK(ncclScatter(data, into, 800, ncclInt8, 0, half, stream));
        if (me == 0)
            OK(ncclSend(data, 900, ncclFloat32, n - 1, half, stream));
        else if (me == n - 1)
            OK(ncclRecv(into, 900, ncclFloat32, 0, half, stream));
        OK(cudaStreamSynchronize(stream));
        add_to_digest(into, 300);
    }
    OK(ncclCommDestroy(half));
}

/* Rounds, and then one that rank 2 plays differently from the others: with another function, with another count, or not
 * at all. */
static void odd_round(int (*oddly)(void)) {
    steady();
    if (rank == 2)
        OK(oddly());
    else
        OK(ncclAllReduce(data, into, FLOATS, ncclFloat32, ncclSum, world, stream));
    watch();
}

static int other_function(void) {
    return (int)ncclAllGather(data, into, FLOATS / 4, ncclFloat32, world, stream);
}

static int other_count(void) {
    return (int)ncclAllReduce(data, into, FLOATS / 2, ncclFloat32, ncclSum, world, stream);
}

static int lost_in_thought(void) {
    say("elsewhere", 0);
    while (patience_ms == 0)
        sleep(1);
    return 0;
}

static void function(void) {
    odd_round(other_function);
}

static void count(void) {
    odd_round(other_count);
}

static void absent(void) {
    odd_round(lost_in_thought);
}

/* Rank 2 dies between two rounds. */
static void dies(void) {
    steady();
    if (rank == 2)
        kill(getpid(), SIGKILL);
    OK(ncclAllReduce(data, into, FLOATS, ncclFloat32, ncclSum, world, stream));
    watch();
}

/* Dies with ten launches in the stream. */
static void killed(void) {
    steady();
    fill(0);
    for (int i = 0; i < 10; i++) {
        OK(cudaLaunchHostFunc(stream, compute, NULL));
        OK(ncclAllReduce(data, into, FLOATS, ncclFloat32, ncclSum, world, stream));
    }
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = {{"steady", steady},     {"ahead", ahead},       {"replays", replays},    {"halves", halves},
                  {"function", function}, {"count", count},       {"absent", absent},      {"dies", dies},
                  {"killed", killed},     {"captured", captured}, {"passed-on", passed_on}};
    if (argc < 5)
        return 2;
    rank = atoi(argv[2]);
    ranks = atoi(argv[3]);
    if (argc > 5)
        rounds = atoi(argv[5]);
    if (argc > 6)
        patience_ms = atoi(argv[6]);
    OK(cudaSetDevice(rank));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    /* memory that the host may touch, on a real device too */
    OK(cudaMallocHost((void **)&data, FLOATS * sizeof *data));
    OK(cudaMallocHost((void **)&into, FLOATS * sizeof *into));
    char id_path[512];
    snprintf(id_path, sizeof id_path, "%s/id", argv[4]);
    OK(ncclCommInitRank(&world, ranks, unique_id_exchange(id_path, rank), rank));
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(argv[1], scenes[i].name))
            scenes[i].run();
    OK(ncclCommDestroy(world));
    printf("digest %016llx\n", digest);
    return 0;
}
