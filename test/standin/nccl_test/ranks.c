/* SPDX-License-Identifier: Apache-2.0
 *
 * See ranks.h.
 */
#include "test/standin/nccl_test/ranks.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void sleep_ms(double ms) {
    long ns = (long)(ms * 1e6);
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

static enum outcome outcome_of(int status) {
    if (WIFSIGNALED(status))
        return RANK_KILLED;
    return WEXITSTATUS(status) == 0 ? RANK_OK : RANK_FAILED;
}

void ranks_run(int ranks, double seconds, void (*body)(struct rank *), enum outcome *outcomes) {
    pid_t pids[MAX_TEST_RANKS];
    struct rank r = {.ranks = ranks};
    r.shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    /* Not by ncclGetUniqueId: the library must see its environment in the ranks only. */
    if (r.shared == MAP_FAILED || getrandom(&r.id, sizeof r.id, 0) != (ssize_t)sizeof r.id)
        abort();
    for (r.rank = 0; r.rank < ranks; r.rank++) {
        pids[r.rank] = fork();
        if (pids[r.rank] == 0) {
            body(&r);
            _exit(0);
        }
    }
    double end = now_ms() + seconds * 1e3;
    int left = ranks, status;
    for (int i = 0; i < ranks; i++)
        outcomes[i] = RANK_HUNG;
    while (left > 0 && now_ms() < end) {
        for (int i = 0; i < ranks; i++)
            if (outcomes[i] == RANK_HUNG && waitpid(pids[i], &status, WNOHANG) == pids[i]) {
                outcomes[i] = outcome_of(status);
                left--;
            }
        sleep_ms(1);
    }
    for (int i = 0; i < ranks; i++)
        if (outcomes[i] == RANK_HUNG) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], &status, 0);
        }
    munmap(r.shared, 4096);
}

void ranks_succeed(int ranks, void (*body)(struct rank *)) {
    enum outcome outcomes[MAX_TEST_RANKS];
    ranks_run(ranks, 10, body, outcomes);
    for (int i = 0; i < ranks; i++)
        EXPECT(outcomes[i] == RANK_OK);
}

void use_device(int device) {
    CUcontext context;
    EXPECT(cuInit(0) == CUDA_SUCCESS);
    EXPECT(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
    EXPECT(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

ncclComm_t rank_communicator(struct rank *r) {
    ncclComm_t comm;
    use_device(r->rank);
    EXPECT(ncclCommInitRank(&comm, r->ranks, r->id, r->rank) == ncclSuccess);
    return comm;
}

CUstream new_stream(void) {
    CUstream stream;
    EXPECT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    return stream;
}

CUevent recorded(CUstream stream) {
    CUevent event;
    EXPECT(cuEventCreate(&event, 0) == CUDA_SUCCESS);
    EXPECT(cuEventRecord(event, stream) == CUDA_SUCCESS);
    return event;
}

double elapsed_ms(CUevent from, CUevent to) {
    float ms;
    EXPECT(cuEventElapsedTime(&ms, from, to) == CUDA_SUCCESS);
    return (double)ms;
}
