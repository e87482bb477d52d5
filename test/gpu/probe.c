/* SPDX-License-Identifier: Apache-2.0
 *
 * Short jobs on one GPU, one process and as a rule one rank, for test/gpu/check.py: each prints what it saw as lines of
 * "name value ..." and ends with 0 unless a call failed that must not. The same binary runs on the stand-in and, with
 * the vendor's libraries in the loader's path, on a real GPU; no GPU compiler is needed.
 * Must not live here: anything that knows of commtap; verdicts.
 *
 *   probe SCENE [ARGUMENT ...]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

#define OK(call) ok((int)(call), #call)
#define MIB      (1u << 20)

static int arguments;
static char **argument;
static ncclComm_t comm;
static cudaStream_t stream;
static char *from, *to;

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "probe: %s: %d\n", call, status);
    fflush(stdout);
    _exit(2);
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static long number(int index, long otherwise) {
    return index < arguments ? atol(argument[index]) : otherwise;
}

static void begin(size_t bytes) {
    ncclUniqueId id;
    OK(cudaSetDevice(0));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&from, bytes));
    OK(cudaMalloc((void **)&to, bytes));
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
}

static void end(void) {
    OK(cudaStreamSynchronize(stream));
    OK(ncclCommDestroy(comm));
}

/* What launches a real kernel on one rank. */
static void to_self(size_t bytes, cudaStream_t where) {
    OK(ncclGroupStart());
    OK(ncclSend(from, bytes, ncclInt8, 0, comm, where));
    OK(ncclRecv(to, bytes, ncclInt8, 0, comm, where));
    OK(ncclGroupEnd());
}

/* ---- 1 --------------------------------------------------------------------------------------- */

static void versions(void) {
    char name[256];
    int driver = 0, runtime = 0, nccl = 0, active = -1;
    unsigned flags;
    OK(cudaDriverGetVersion(&driver));
    OK(cudaRuntimeGetVersion(&runtime));
    OK(ncclGetVersion(&nccl));
    OK(cuInit(0));
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id)); /* whoever records starts here */
    usleep(200000);
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    printf("driver %d\nruntime %d\nnccl %d\ncontext %d\n", driver, runtime, nccl, active);
    OK(cuDeviceGetName(name, sizeof name, 0));
    printf("device %s\n", name);
}

static void symbols(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    for (int i = 0; i < arguments; i++)
        printf("%s %d\n", argument[i], driver && dlsym(driver, argument[i]));
}

/* ---- 2 --------------------------------------------------------------------------------------- */

enum { SAMPLES = 2000 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say_percentiles(const char *what, const char *load, double *values) {
    qsort(values, SAMPLES, sizeof *values, by_value);
    printf("%s-%s %.0f %.0f\n", what, load, values[SAMPLES / 2], values[SAMPLES * 99 / 100]);
}

static void costs_under(const char *load) {
    static double values[4][SAMPLES];
    static cudaEvent_t events[SAMPLES];
    float ms;
    for (int i = 0; i < SAMPLES; i++) {
        double start = now_ns();
        OK(cudaEventCreate(&events[i]));
        values[0][i] = now_ns() - start;
        if (i % 50 == 0 && load[0] == 'b')
            for (int k = 0; k < 4; k++)
                OK(cudaMemcpyAsync(to, from, 64 * MIB, cudaMemcpyDeviceToDevice, stream));
        start = now_ns();
        OK(cudaEventRecord(events[i], stream));
        values[1][i] = now_ns() - start;
        start = now_ns();
        (void)cudaEventQuery(events[i]);
        values[2][i] = now_ns() - start;
    }
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < SAMPLES; i++) {
        double start = now_ns();
        OK(cudaEventElapsedTime(&ms, events[0], events[i]));
        values[3][i] = now_ns() - start;
    }
    static const char *const names[] = {"create", "record", "query", "elapsed"};
    for (int k = 0; k < 4; k++)
        say_percentiles(names[k], load, values[k]);
    for (int i = 0; i < SAMPLES; i++)
        OK(cudaEventDestroy(events[i]));
}

static void costs(void) {
    begin(64 * MIB);
    costs_under("idle");
    costs_under("busy");
    end();
}

/* ---- 3, 8 ------------------------------------------------------------------------------------ */

/* Each size ten times, after one to connect. */
static void sizes(void) {
    size_t most = (size_t)number(0, 256) * MIB;
    begin(most);
    to_self(1024, stream);
    OK(cudaStreamSynchronize(stream));
    for (size_t bytes = 2048; bytes <= most; bytes *= 8)
        for (int i = 0; i < 10; i++) {
            to_self(bytes, stream);
            OK(cudaStreamSynchronize(stream));
        }
    end();
}

/* ---- 5 --------------------------------------------------------------------------------------- */

static void capture(void) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    begin(MIB);
    to_self(MIB, stream);
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    to_self(MIB, stream);
    usleep(50000); /* whoever polls has time to disturb it */
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 100; i++) {
        OK(cudaGraphLaunch(executable, stream));
        OK(cudaStreamSynchronize(stream));
    }
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    end();
}

static void *query_from_elsewhere(void *event) {
    return (void *)(long)cudaEventQuery(event);
}

/* What must fail, and how. */
static void errors(void) {
    cudaEvent_t never, recorded, busy;
    cudaStream_t other;
    cudaGraph_t graph = NULL;
    pthread_t thread;
    void *code;
    float ms;
    begin(64 * MIB);
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaEventCreate(&never));
    OK(cudaEventCreate(&recorded));
    OK(cudaEventCreate(&busy));
    OK(cudaEventRecord(recorded, stream));
    OK(cudaStreamSynchronize(stream));
    printf("unrecorded %d\n", (int)cudaEventElapsedTime(&ms, recorded, never));
    for (int i = 0; i < 64; i++)
        OK(cudaMemcpyAsync(to, from, 64 * MIB, cudaMemcpyDeviceToDevice, stream));
    OK(cudaEventRecord(busy, stream));
    printf("unfinished %d\n", (int)cudaEventQuery(busy));
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(cudaEventRecord(busy, stream));
    printf("captured %d\n", (int)cudaEventQuery(busy));
    (void)cudaStreamEndCapture(stream, &graph);
    (void)cudaGetLastError();
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(pthread_create(&thread, NULL, query_from_elsewhere, recorded));
    OK(pthread_join(thread, &code));
    printf("other-thread %d\n", (int)(long)code);
    printf("broken %d\n", (int)cudaStreamEndCapture(stream, &graph));
    (void)cudaGetLastError();
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(cudaEventRecord(busy, stream));
    OK(cudaStreamWaitEvent(other, busy, 0));
    OK(cudaMemcpyAsync(to, from, MIB, cudaMemcpyDeviceToDevice, other));
    printf("unjoined %d\n", (int)cudaStreamEndCapture(stream, &graph));
    (void)cudaGetLastError();
}

/* ---- 6 --------------------------------------------------------------------------------------- */

static void handles(void) {
    begin(MIB);
    for (long handle = 0; handle < 3; handle++)
        for (int i = 0; i < 3; i++)
            to_self(MIB, (cudaStream_t)handle);
    OK(cudaDeviceSynchronize());
    end();
}

static void settle(void) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        OK(ncclCommGetAsyncError(comm, &state));
        usleep(200);
    }
    ok((int)state, "what is in progress");
}

static void nonblocking(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    config.blocking = 0;
    OK(cudaSetDevice(0));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&from, MIB));
    OK(cudaMalloc((void **)&to, MIB));
    OK(ncclGetUniqueId(&id));
    ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
    ok(result == ncclInProgress ? 0 : (int)result, "init");
    settle();
    for (int i = 0; i < 5; i++) {
        OK(ncclGroupStart());
        OK(ncclSend(from, MIB, ncclInt8, 0, comm, stream));
        OK(ncclRecv(to, MIB, ncclInt8, 0, comm, stream));
        result = ncclGroupEnd();
        ok(result == ncclInProgress ? 0 : (int)result, "group");
        settle();
    }
    OK(cudaStreamSynchronize(stream));
    OK(ncclCommAbort(comm));
}

static void reset(void) {
    begin(MIB);
    for (int i = 0; i < 5; i++)
        to_self(MIB, stream);
    OK(cudaStreamSynchronize(stream));
    OK(ncclCommDestroy(comm));
    OK(cudaDeviceReset());
    begin(MIB);
    to_self(MIB, stream);
    end();
    printf("again 1\n");
}

static void aborted(void) {
    begin(64 * MIB);
    for (int i = 0; i < 20; i++)
        to_self(64 * MIB, stream);
    OK(ncclCommAbort(comm));
    printf("aborted 1\n");
}

static void exit_busy(void) {
    begin(64 * MIB);
    for (int i = 0; i < 50; i++)
        to_self(64 * MIB, stream);
    exit(0);
}

/* ---- 9, 11, 12 ------------------------------------------------------------------------------- */

static void drift(void) {
    double until = now_ns() + (double)number(0, 60) * 1e9;
    begin(MIB);
    while (now_ns() < until) {
        to_self(MIB, stream);
        OK(cudaStreamSynchronize(stream));
        usleep(100000);
    }
    end();
}

/* Median host time of one group, at a fixed rate per second. */
static void rate(void) {
    static double inside[SAMPLES];
    long per_second = number(0, 1000);
    begin(MIB);
    to_self(4096, stream);
    OK(cudaStreamSynchronize(stream));
    double next = now_ns(), start = next;
    for (int i = 0; i < SAMPLES; i++) {
        double enter = now_ns();
        to_self(4096, stream);
        inside[i] = now_ns() - enter;
        next += 1e9 / (double)per_second;
        while (now_ns() < next)
            ;
    }
    double wall = now_ns() - start;
    qsort(inside, SAMPLES, sizeof *inside, by_value);
    printf("group-ns %.0f\nwall-ms %.1f\n", inside[SAMPLES / 2], wall / 1e6);
    end();
}

/* pair RANK ID-FILE: two processes on one device. */
static void pair(void) {
    ncclUniqueId id;
    int rank = (int)number(0, 0);
    const char *path = arguments > 1 ? argument[1] : "id";
    char draft[512];
    snprintf(draft, sizeof draft, "%s.new", path);
    OK(cudaSetDevice(0));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&from, MIB));
    OK(cudaMalloc((void **)&to, MIB));
    FILE *file;
    if (rank == 0) {
        OK(ncclGetUniqueId(&id));
        file = fopen(draft, "wb");
        ok(!file || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) || rename(draft, path), "writing the id");
    } else {
        for (int i = 0; access(path, R_OK) && i < 10000; i++)
            usleep(1000);
        file = fopen(path, "rb");
        ok(!file || fread(&id, sizeof id, 1, file) != 1, "reading the id");
    }
    OK(ncclCommInitRank(&comm, 2, id, rank));
    for (int i = 0; i < 20; i++)
        OK(ncclAllReduce(from, to, MIB / 4, ncclFloat32, ncclSum, comm, stream));
    end();
    printf("reduced 20\n");
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = {{"versions", versions}, {"symbols", symbols}, {"costs", costs},
                  {"sizes", sizes},       {"capture", capture}, {"errors", errors},
                  {"handles", handles},   {"reset", reset},     {"nonblocking", nonblocking},
                  {"abort", aborted},     {"exit", exit_busy},  {"drift", drift},
                  {"rate", rate},         {"pair", pair}};
    arguments = argc - 2;
    argument = argv + 2;
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(argv[1], scenes[i].name)) {
            scenes[i].run();
            return 0;
        }
    return 2;
}
