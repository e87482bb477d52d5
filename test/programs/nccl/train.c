/* SPDX-License-Identifier: Apache-2.0
 *
 * Data-parallel training on GPUs: the NCCL demo's job. One process per GPU, gradients reduced in buckets on a stream of
 * their own while the backward pass goes on, as training frameworks do it.
 * Lives here: streams, events, collectives and the training loop, as a user would write them. Must not live here:
 * anything that knows of commtap. The work itself is done by host functions in the streams, so that the program needs
 * no GPU compiler; on a real GPU they delay the streams just the same.
 *
 *   train [--steps N] [--slow-rank R] [--slow-ms M] [--slow-where 0|1]
 *
 * A slow rank takes M ms more in every step: in its stream (0), or on the host before it enqueues (1). Rank, size and
 * local rank come from the launcher's variables; TRAIN_ID_FILE names a file that all ranks can reach.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/programs/network.h"
#include "test/programs/nccl/unique_id.h"
#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

enum { BUCKETS = 4, FORWARD_MS = 2, BACKWARD_MS = 1 };

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        cudaError_t error = (call);                                                                                    \
        if (error != cudaSuccess)                                                                                      \
            fail(#call, (int)error);                                                                                   \
    } while (0)
#define NCCL(call)                                                                                                     \
    do {                                                                                                               \
        ncclResult_t result = (call);                                                                                  \
        if (result != ncclSuccess)                                                                                     \
            fail(#call, (int)result);                                                                                  \
    } while (0)

static void fail(const char *what, int code) {
    fprintf(stderr, "train: %s: error %d\n", what, code);
    exit(1);
}

struct options {
    int steps, slow_rank, slow_ms, slow_where;
};

static struct options parse(int argc, char **argv) {
    struct options options = {.steps = 100, .slow_rank = -1, .slow_ms = 10};
    const struct {
        const char *name;
        int *value;
    } known[] = {{"--steps", &options.steps},
                 {"--slow-rank", &options.slow_rank},
                 {"--slow-ms", &options.slow_ms},
                 {"--slow-where", &options.slow_where}};
    for (int i = 1; i < argc; i++) {
        int *value = NULL;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            if (strcmp(argv[i], known[k].name) == 0)
                value = known[k].value;
        if (!value || i + 1 == argc) {
            fprintf(stderr, "usage: train [--steps N] [--slow-rank R] [--slow-ms M] [--slow-where 0|1]\n");
            exit(2);
        }
        *value = atoi(argv[++i]);
    }
    return options;
}

/* ---- who we are ------------------------------------------------------------------------------ */

static int from_launcher(const char *const *names, int fallback) {
    for (; *names; names++)
        if (getenv(*names))
            return atoi(getenv(*names));
    return fallback;
}

/* ---- training -------------------------------------------------------------------------------- */

struct trainer {
    ncclComm_t comm;
    cudaStream_t compute, reduce;
    cudaEvent_t ready[BUCKETS], reduced;
    double *device, *host; /* the gradient and, behind it, the error */
    struct model model;
    int ranks;
};
enum { VALUES = PARAMETERS + 1 };

static void work(void *milliseconds) {
    sleep_ms((int)(size_t)milliseconds);
}

static void keep_busy(cudaStream_t stream, int milliseconds) {
    if (milliseconds > 0)
        CUDA(cudaLaunchHostFunc(stream, work, (void *)(size_t)milliseconds));
}

static void begin(struct trainer *t, int rank, int local_rank) {
    int devices;
    CUDA(cudaGetDeviceCount(&devices));
    CUDA(cudaSetDevice(local_rank % devices));
    CUDA(cudaStreamCreateWithFlags(&t->compute, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&t->reduce, cudaStreamNonBlocking));
    for (int b = 0; b < BUCKETS; b++)
        CUDA(cudaEventCreateWithFlags(&t->ready[b], cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&t->reduced, cudaEventDisableTiming));
    CUDA(cudaMalloc((void **)&t->device, VALUES * sizeof *t->device));
    CUDA(cudaMallocHost((void **)&t->host, VALUES * sizeof *t->host));
    const char *path = getenv("TRAIN_ID_FILE");
    if (!path)
        fail("TRAIN_ID_FILE is not set", 0);
    NCCL(ncclCommInitRank(&t->comm, t->ranks, unique_id_exchange(path, rank), rank));
}

static void end(struct trainer *t) {
    NCCL(ncclCommDestroy(t->comm));
    CUDA(cudaFreeHost(t->host));
    CUDA(cudaFree(t->device));
}

/* Each bucket is reduced as soon as the backward pass has come to it; the optimizer waits for the last. */
static double train_step(struct trainer *t, double x[SAMPLES][INPUTS], const double y[SAMPLES], int slow_stream_ms) {
    static const int share[BUCKETS + 1] = {0, 1, 3, 6, 10}; /* of ten: no two buckets are equal */
    struct model *gradient = (struct model *)t->host;
    t->host[PARAMETERS] = gradient_of(&t->model, x, y, gradient);
    CUDA(cudaMemcpyAsync(t->device, t->host, VALUES * sizeof *t->host, cudaMemcpyHostToDevice, t->compute));
    keep_busy(t->compute, FORWARD_MS + slow_stream_ms);
    for (int b = 0; b < BUCKETS; b++) {
        size_t from = (size_t)(VALUES * share[b] / 10), to = (size_t)(VALUES * share[b + 1] / 10);
        keep_busy(t->compute, BACKWARD_MS);
        CUDA(cudaEventRecord(t->ready[b], t->compute));
        CUDA(cudaStreamWaitEvent(t->reduce, t->ready[b], 0));
        NCCL(ncclAllReduce(t->device + from, t->device + from, to - from, ncclFloat64, ncclSum, t->comm, t->reduce));
    }
    CUDA(cudaEventRecord(t->reduced, t->reduce));
    CUDA(cudaStreamWaitEvent(t->compute, t->reduced, 0));
    CUDA(cudaMemcpyAsync(t->host, t->device, VALUES * sizeof *t->host, cudaMemcpyDeviceToHost, t->compute));
    CUDA(cudaStreamSynchronize(t->compute));
    descend(&t->model, gradient, t->ranks);
    return t->host[PARAMETERS] / (SAMPLES * t->ranks);
}

int main(int argc, char **argv) {
    static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK", NULL};
    static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE", NULL};
    static const char *const local_names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK", NULL};
    static struct trainer trainer;
    static double x[SAMPLES][INPUTS], y[SAMPLES];
    struct options options = parse(argc, argv);
    int rank = from_launcher(rank_names, 0);
    trainer.ranks = from_launcher(size_names, 1);
    begin(&trainer, rank, from_launcher(local_names, rank));

    model_init(&trainer.model); /* the same on all ranks */
    random_state = 1000 + (unsigned long long)rank;
    draw_samples(x, y);
    double loss = 0.0;
    for (int step = 0; step < options.steps; step++) {
        int slow = rank == options.slow_rank ? options.slow_ms : 0;
        if (slow > 0 && options.slow_where == 1)
            sleep_ms(slow);
        loss = train_step(&trainer, x, y, options.slow_where == 0 ? slow : 0);
        if (rank == 0 && (step % 50 == 0 || step + 1 == options.steps))
            printf("step %4d  loss %.6f\n", step, loss);
    }
    if (rank == 0)
        printf("final loss %a\n", loss);
    end(&trainer);
    return 0;
}
