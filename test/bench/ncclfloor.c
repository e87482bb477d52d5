/* SPDX-License-Identifier: Apache-2.0
 *
 * The floor of any timing wrapper of NCCL: two bare reads of the time stamp counter around the call, and their sum.
 * Preloaded into ncclcall in place of commtap. Must not live here: anything a real tool would do besides.
 */
#include <stdint.h>

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

ncclResult_t ncclAllReduce(const void *sent, void *received, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    uint64_t enter = ticks();
    ncclResult_t result = pncclAllReduce(sent, received, count, type, op, comm, stream);
    total += ticks() - enter;
    return result;
}
