/* SPDX-License-Identifier: Apache-2.0
 *
 * The public operations. Lives here: from the arguments of each to a struct operation. Must not live here: anything
 * else.
 */
#include "test/standin/nccl/group.h"

NCCL_API(ncclResult_t, ncclAllReduce, const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
         ncclComm_t comm, cudaStream_t stream) {
    return operation_call(
        &(struct operation){FUNCTION_ALL_REDUCE, "AllReduce", send, recv, count, type, op, 0, comm, stream});
}

NCCL_API(ncclResult_t, ncclBroadcast, const void *send, void *recv, size_t count, ncclDataType_t type, int root,
         ncclComm_t comm, cudaStream_t stream) {
    return operation_call(
        &(struct operation){FUNCTION_BROADCAST, "Broadcast", send, recv, count, type, ncclSum, root, comm, stream});
}

NCCL_API(ncclResult_t, ncclBcast, void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
         cudaStream_t stream) {
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclReduce, const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
         int root, ncclComm_t comm, cudaStream_t stream) {
    return operation_call(
        &(struct operation){FUNCTION_REDUCE, "Reduce", send, recv, count, type, op, root, comm, stream});
}

NCCL_API(ncclResult_t, ncclAllGather, const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
         cudaStream_t stream) {
    return operation_call(
        &(struct operation){FUNCTION_ALL_GATHER, "AllGather", send, recv, count, type, ncclSum, 0, comm, stream});
}

NCCL_API(ncclResult_t, ncclReduceScatter, const void *send, void *recv, size_t count, ncclDataType_t type,
         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return operation_call(
        &(struct operation){FUNCTION_REDUCE_SCATTER, "ReduceScatter", send, recv, count, type, op, 0, comm, stream});
}

NCCL_API(ncclResult_t, ncclAlltoAll, const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
         cudaStream_t stream) {
    return operation_call(
        &(struct operation){FUNCTION_ALL_TO_ALL, "AlltoAll", send, recv, count, type, ncclSum, 0, comm, stream});
}

NCCL_API(ncclResult_t, ncclGather, const void *send, void *recv, size_t count, ncclDataType_t type, int root,
         ncclComm_t comm, cudaStream_t stream) {
    return operation_call(
        &(struct operation){FUNCTION_GATHER, "Gather", send, recv, count, type, ncclSum, root, comm, stream});
}

NCCL_API(ncclResult_t, ncclScatter, const void *send, void *recv, size_t count, ncclDataType_t type, int root,
         ncclComm_t comm, cudaStream_t stream) {
    return operation_call(
        &(struct operation){FUNCTION_SCATTER, "Scatter", send, recv, count, type, ncclSum, root, comm, stream});
}

NCCL_API(ncclResult_t, ncclSend, const void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
         cudaStream_t stream) {
    return operation_call(
        &(struct operation){FUNCTION_SEND, "Send", NULL, (void *)buffer, count, type, ncclSum, peer, comm, stream});
}

NCCL_API(ncclResult_t, ncclRecv, void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
         cudaStream_t stream) {
    return operation_call(
        &(struct operation){FUNCTION_RECV, "Recv", NULL, buffer, count, type, ncclSum, peer, comm, stream});
}

/* Since 2.31: each collective with a configuration of this one call, which tells nothing that shows here. */
#define WITH_CONFIG(name, arguments, ...)                                                                              \
    NCCL_API(ncclResult_t, name##Config, __VA_ARGS__, const void *config) {                                            \
        (void)config;                                                                                                  \
        return name arguments;                                                                                         \
    }

WITH_CONFIG(ncclAllReduce, (send, recv, count, type, op, comm, stream), const void *send, void *recv, size_t count,
            ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
WITH_CONFIG(ncclBroadcast, (send, recv, count, type, root, comm, stream), const void *send, void *recv, size_t count,
            ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
WITH_CONFIG(ncclReduce, (send, recv, count, type, op, root, comm, stream), const void *send, void *recv, size_t count,
            ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
WITH_CONFIG(ncclAllGather, (send, recv, count, type, comm, stream), const void *send, void *recv, size_t count,
            ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
WITH_CONFIG(ncclReduceScatter, (send, recv, count, type, op, comm, stream), const void *send, void *recv, size_t count,
            ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
WITH_CONFIG(ncclAlltoAll, (send, recv, count, type, comm, stream), const void *send, void *recv, size_t count,
            ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
WITH_CONFIG(ncclGather, (send, recv, count, type, root, comm, stream), const void *send, void *recv, size_t count,
            ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
WITH_CONFIG(ncclScatter, (send, recv, count, type, root, comm, stream), const void *send, void *recv, size_t count,
            ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
