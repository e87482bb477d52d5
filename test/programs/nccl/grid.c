/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a training job on a grid of data x pipeline x tensor parallel ranks: per micro-batch a stage receives
 * activations, works, reduces among its tensor parallel group and sends on; gradients come back the same way; each step
 * ends with a reduction among the data parallel ranks. With one data and one tensor parallel rank it is a pipeline of
 * sends and receives alone. Prints "time BEGIN END OVER": CLOCK_MONOTONIC ns of its steps by its own clock, and by how
 * many ns its work took longer than it should: what a busy machine does to a job must not be taken for the job's own.
 *
 *   grid RANK FOLDER [--data 2] [--stages 2] [--tensor 2] [--steps 40] [--batches 4] [--work-us 1500] [--seed 1]
 *        [--late-rank R] [--late-us U] [--late-host 0|1] [--one-by-one 0|1] [--streams 1|2] [--noise 5]
 *
 * The late rank takes U us more per micro-batch: on its GPU, or on its host before it enqueues. --one-by-one: stages
 * go to and fro between micro-batches (1F1B), and what is sent and received at once is a group; otherwise all
 * micro-batches go forward, then all back. --streams 2: messages have a stream of their own. --noise: how far single
 * pieces of work differ, in percent. FOLDER: where rank 0 leaves the unique id.
 * Must not live here: anything that knows of commtap.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/programs/nccl/unique_id.h"
#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

#define FLOATS   4096
#define OK(call) ok((int)(call), #call)

static struct options {
    int data, stages, tensor, steps, batches, work_us, seed, late_rank, late_us, late_host, one_by_one, streams, noise;
} options = {2, 2, 2, 40, 4, 1500, 1, -1, 0, 0, 0, 1, 5};

static int rank, stage;
static ncclComm_t world, data_group, pipeline, tensor_group;
static cudaStream_t compute, transfer;
static cudaEvent_t turn;
static float *values, *received;
static unsigned long long random_state;
static long long over_ns;

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "grid: rank %d: %s: %d\n", rank, call, status);
    _exit(2);
}

static void parse(int argc, char **argv) {
    const struct {
        const char *name;
        int *value;
    } known[] = {{"--data", &options.data},
                 {"--stages", &options.stages},
                 {"--tensor", &options.tensor},
                 {"--steps", &options.steps},
                 {"--batches", &options.batches},
                 {"--work-us", &options.work_us},
                 {"--seed", &options.seed},
                 {"--late-rank", &options.late_rank},
                 {"--late-us", &options.late_us},
                 {"--late-host", &options.late_host},
                 {"--streams", &options.streams},
                 {"--noise", &options.noise},
                 {"--one-by-one", &options.one_by_one}};
    for (int i = 3; i < argc; i++) {
        int *value = NULL;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            if (strcmp(argv[i], known[k].name) == 0)
                value = known[k].value;
        if (!value || i + 1 == argc)
            ok(1, argv[i]);
        *value = atoi(argv[++i]);
    }
}

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- work ------------------------------------------------------------------------------------ */

static double uniform(void) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(random_state >> 11) / (double)(1ull << 53);
}

static double normal(void) {
    return sqrt(-2 * log(uniform() + 1e-12)) * cos(2 * 3.14159265358979 * uniform());
}

static void rest_us(size_t us) {
    struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    long long begin = now_ns();
    nanosleep(&t, NULL);
    __atomic_fetch_add(&over_ns, now_ns() - begin - (long long)us * 1000, __ATOMIC_RELAXED);
}

static void busy(void *us) {
    rest_us((size_t)us);
}

static void work(void) {
    double us = options.work_us * exp(options.noise / 100.0 * normal());
    if (rank == options.late_rank && !options.late_host)
        us += options.late_us;
    OK(cudaLaunchHostFunc(compute, busy, (void *)(size_t)us));
    if (options.tensor > 1)
        OK(ncclAllReduce(values, values, FLOATS, ncclFloat32, ncclSum, tensor_group, compute));
}

/* What `after` does from here on comes after all that `before` has been given. */
static void follow(cudaStream_t after, cudaStream_t before) {
    if (after == before)
        return;
    OK(cudaEventRecord(turn, before));
    OK(cudaStreamWaitEvent(after, turn, 0));
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Sends to the stage `to` and receives from the stage `from`, at once where there are both; -1: no such stage. */
static void exchange(int to, int from) {
    int sends = to >= 0 && to < options.stages, receives = from >= 0 && from < options.stages;
    follow(transfer, compute);
    if (sends && receives)
        OK(ncclGroupStart());
    if (sends)
        OK(ncclSend(values, FLOATS, ncclFloat32, to, pipeline, transfer));
    if (receives)
        OK(ncclRecv(received, FLOATS, ncclFloat32, from, pipeline, transfer));
    if (sends && receives)
        OK(ncclGroupEnd());
    follow(compute, transfer);
}

static void late_host(void) {
    if (rank == options.late_rank && options.late_host)
        rest_us((size_t)options.late_us);
}

static void all_forward_then_back(void) {
    for (int b = 0; b < options.batches; b++) {
        late_host();
        exchange(-1, stage - 1);
        work();
        exchange(stage + 1, -1);
    }
    for (int b = 0; b < options.batches; b++) {
        exchange(-1, stage + 1);
        work();
        exchange(stage - 1, -1);
    }
}

/* As many micro-batches go ahead as there are stages behind this one; then one forward, one back. */
static void one_forward_one_back(void) {
    int last = stage == options.stages - 1, ahead = options.stages - 1 - stage;
    ahead = ahead < options.batches ? ahead : options.batches;
    for (int b = 0; b < ahead; b++) {
        late_host();
        exchange(-1, stage - 1);
        work();
        exchange(stage + 1, -1);
    }
    exchange(-1, ahead < options.batches ? stage - 1 : -1);
    for (int b = ahead; b < options.batches; b++) {
        late_host();
        work();
        if (!last)
            exchange(stage + 1, stage + 1);
        work();
        exchange(stage - 1, b + 1 < options.batches ? stage - 1 : -1);
    }
    for (int b = 0; b < ahead; b++) {
        exchange(-1, stage + 1);
        work();
        exchange(stage - 1, -1);
    }
}

static void step(void) {
    if (options.one_by_one)
        one_forward_one_back();
    else
        all_forward_then_back();
    if (options.data > 1)
        OK(ncclAllReduce(values, values, FLOATS, ncclFloat32, ncclSum, data_group, compute));
    OK(cudaStreamSynchronize(compute));
}

/* ---- the job --------------------------------------------------------------------------------- */

/* Ranks of a tensor parallel group are neighbours, then come the data parallel ones, then the stages. */
static void join(const char *folder) {
    int ranks = options.data * options.stages * options.tensor;
    int tensor = rank % options.tensor, data = rank / options.tensor % options.data;
    stage = rank / options.tensor / options.data;
    char id_path[512];
    snprintf(id_path, sizeof id_path, "%s/id", folder);
    OK(ncclCommInitRank(&world, ranks, unique_id_exchange(id_path, rank), rank));
    OK(ncclCommSplit(world, stage * options.data + data, rank, &tensor_group, NULL));
    OK(ncclCommSplit(world, stage * options.tensor + tensor, rank, &data_group, NULL));
    OK(ncclCommSplit(world, data * options.tensor + tensor, rank, &pipeline, NULL));
}

static void leave(void) {
    OK(cudaDeviceSynchronize());
    OK(ncclCommDestroy(pipeline));
    OK(ncclCommDestroy(data_group));
    OK(ncclCommDestroy(tensor_group));
    OK(ncclCommDestroy(world));
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    rank = atoi(argv[1]);
    parse(argc, argv);
    random_state = (unsigned long long)options.seed * 1000003u + (unsigned long long)rank * 7919u;
    for (int i = 0; i < 16; i++)
        uniform();
    OK(cudaSetDevice(rank));
    OK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    transfer = compute;
    if (options.streams > 1)
        OK(cudaStreamCreateWithFlags(&transfer, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&turn, cudaEventDisableTiming));
    OK(cudaMallocHost((void **)&values, FLOATS * sizeof *values));
    OK(cudaMallocHost((void **)&received, FLOATS * sizeof *received));
    memset(values, 0, FLOATS * sizeof *values);
    join(argv[2]);
    long long begin = now_ns();
    for (int i = 0; i < options.steps; i++)
        step();
    printf("time %lld %lld %lld\n", begin, now_ns(), __atomic_load_n(&over_ns, __ATOMIC_RELAXED));
    leave();
    return 0;
}
