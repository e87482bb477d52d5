/* SPDX-License-Identifier: Apache-2.0
 *
 * The floor of any timing wrapper of NCCL: two bare reads of the time stamp counter around a call, and their sum.
 * Preloaded into ncclcall and launches in place of commtap. Must not live here: anything a real tool would do besides.
 */
#include <dlfcn.h>
#include <stdint.h>

#include "test/standin/cudart_api.h"
#include "test/standin/nccl_api.h"

static volatile uint64_t total;

static inline uint64_t ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#endif
}

#define TIMED(type, call)                                                                                              \
    uint64_t enter = ticks();                                                                                          \
    type result = call;                                                                                                \
    total += ticks() - enter;                                                                                          \
    return result

ncclResult_t ncclAllReduce(const void *sent, void *received, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    TIMED(ncclResult_t, pncclAllReduce(sent, received, count, type, op, comm, stream));
}

ncclResult_t ncclSend(const void *sent, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    TIMED(ncclResult_t, pncclSend(sent, count, type, peer, comm, stream));
}

ncclResult_t ncclRecv(void *received, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    TIMED(ncclResult_t, pncclRecv(received, count, type, peer, comm, stream));
}

ncclResult_t ncclGroupStart(void) {
    TIMED(ncclResult_t, pncclGroupStart());
}

ncclResult_t ncclGroupEnd(void) {
    TIMED(ncclResult_t, pncclGroupEnd());
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    static cudaError_t (*real)(cudaGraphExec_t, cudaStream_t);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "cudaGraphLaunch");
    TIMED(cudaError_t, real(executable, stream));
}
