/* SPDX-License-Identifier: Apache-2.0
 *
 * One process of a job that has several GPUs in each, as JAX and nccl-tests with -g do: every round computes on each
 * GPU and reduces over all of them. One GPU of the job takes longer to compute. Prints "took_us N", and of the process
 * with that GPU "late_us N", by which its computations took longer than those of the others, by their own clock.
 *
 *   gpus MODE GPUS ROUNDS LATE_GPU LATE_MS FILE RANK RANKS
 *
 * MODE: `group` has one thread that enqueues for all of its GPUs between ncclGroupStart and ncclGroupEnd, `threads` one
 * thread per GPU. LATE_GPU: counted over all processes, -1: none. FILE: where process 0 leaves the unique id. RANK: of
 * the process, of RANKS. Must not live here: anything that knows of commtap.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/programs/nccl/unique_id.h"
#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

enum { GPUS_MOST = 8, FLOATS = 4096, COMPUTE_US = 2000 };
#define OK(call) ok((int)(call), #call)

static int gpus, rounds, late_gpu, late_ms, rank, ranks = 1;
static ncclUniqueId id;
static double late_us; /* only the late GPU's stream writes it */

struct gpu {
    int place; /* in the job: its number in the machine, too */
    ncclComm_t comm;
    cudaStream_t stream;
    float *data;
    pthread_t thread;
};
static struct gpu all[GPUS_MOST];

static void ok(int status, const char *call) {
    if (status == 0)
        return;
    fprintf(stderr, "gpus: %s: %d\n", call, status);
    _exit(2);
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void compute(void *argument) {
    const struct gpu *gpu = argument;
    usleep(COMPUTE_US);
    if (gpu->place != late_gpu)
        return;
    double since = now_us();
    usleep((unsigned)late_ms * 1000);
    late_us += now_us() - since;
}

static void prepare(struct gpu *gpu) {
    OK(cudaSetDevice(gpu->place));
    OK(cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking));
    OK(cudaMallocHost((void **)&gpu->data, FLOATS * sizeof *gpu->data));
    memset(gpu->data, 0, FLOATS * sizeof *gpu->data);
}

static void reduce(struct gpu *gpu) {
    OK(ncclAllReduce(gpu->data, gpu->data, FLOATS, ncclFloat32, ncclSum, gpu->comm, gpu->stream));
}

/* One thread, all GPUs. */
static void run_group(void) {
    OK(ncclGroupStart());
    for (int i = 0; i < gpus; i++) {
        OK(cudaSetDevice(all[i].place));
        OK(ncclCommInitRank(&all[i].comm, ranks * gpus, id, all[i].place));
    }
    OK(ncclGroupEnd());
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < gpus; i++) {
            OK(cudaSetDevice(all[i].place));
            OK(cudaLaunchHostFunc(all[i].stream, compute, &all[i]));
        }
        OK(ncclGroupStart());
        for (int i = 0; i < gpus; i++)
            reduce(&all[i]);
        OK(ncclGroupEnd());
        for (int i = 0; i < gpus; i++)
            OK(cudaStreamSynchronize(all[i].stream));
    }
    for (int i = 0; i < gpus; i++)
        OK(ncclCommDestroy(all[i].comm));
}

static void *run_thread(void *argument) {
    struct gpu *gpu = argument;
    OK(cudaSetDevice(gpu->place));
    OK(ncclCommInitRank(&gpu->comm, ranks * gpus, id, gpu->place));
    for (int round = 0; round < rounds; round++) {
        OK(cudaLaunchHostFunc(gpu->stream, compute, gpu));
        reduce(gpu);
        OK(cudaStreamSynchronize(gpu->stream));
    }
    OK(ncclCommDestroy(gpu->comm));
    return NULL;
}

static void run_threads(void) {
    for (int i = 0; i < gpus; i++)
        OK(pthread_create(&all[i].thread, NULL, run_thread, &all[i]));
    for (int i = 0; i < gpus; i++)
        OK(pthread_join(all[i].thread, NULL));
}

int main(int argc, char **argv) {
    if (argc != 9 || (gpus = atoi(argv[2])) > GPUS_MOST)
        return 2;
    rounds = atoi(argv[3]);
    late_gpu = atoi(argv[4]);
    late_ms = atoi(argv[5]);
    rank = atoi(argv[7]);
    ranks = atoi(argv[8]);
    for (int i = 0; i < gpus; i++) {
        all[i].place = rank * gpus + i;
        prepare(&all[i]);
    }
    id = unique_id_exchange(argv[6], rank);
    double since = now_us();
    if (strcmp(argv[1], "group") == 0)
        run_group();
    else
        run_threads();
    printf("took_us %.0f\n", now_us() - since);
    if (late_gpu / gpus == rank && late_gpu >= 0)
        printf("late_us %.0f\n", late_us);
    return 0;
}
