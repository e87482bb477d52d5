/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's public interface as the stand-in serves it: own declarations, so that nothing of CUDA or NCCL is needed to
 * build. Source of values and layouts: the public nccl.h of 2.28.9 and, for what is newer, of 2.30.7 (ncclConfig_t
 * grows at its end only). Lives here: types, codes and prototypes. Must not live here: anything the stand-in adds of
 * its own.
 */
#ifndef STANDIN_NCCL_API_H
#define STANDIN_NCCL_API_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_SIM_INFO_MAGIC       0x74685283
#define STANDIN_NCCL_CONFIG_MAGIC 0xcafebeef

/* Declares ncclX and pncclX. The real library defines a strong pncclX with a weak ncclX at the same address. */
#define STANDIN_NCCL_DECLARE(type, name, ...)                                                                          \
    type name(__VA_ARGS__);                                                                                            \
    type p##name(__VA_ARGS__)

#ifdef STANDIN_REAL_NCCL /* compile what includes this against the vendor's header instead, to compare */
#include <nccl.h>
#else
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct CUstream_st *cudaStream_t;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclNumOps = 5 } ncclRedOp_t;

typedef enum {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_SPLIT_NOCOLOR    -1
#define NCCL_SHRINK_ABORT     0x01

/* As of 2.30; `size` says how much of it the caller knows. */
typedef struct {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
    int nChannelsPerNetPeer;
    int nvlinkCentricSched;
    int graphUsageMode;
    int numRmaCtx;
    int maxP2pPeers;
    int graphStreamOrdering;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                                        \
    {                                                                                                                  \
        .size = sizeof(ncclConfig_t), .magic = STANDIN_NCCL_CONFIG_MAGIC, .version = 22809,                            \
        .blocking = NCCL_CONFIG_UNDEF_INT, .cgaClusterSize = NCCL_CONFIG_UNDEF_INT, .minCTAs = NCCL_CONFIG_UNDEF_INT,  \
        .maxCTAs = NCCL_CONFIG_UNDEF_INT, .splitShare = NCCL_CONFIG_UNDEF_INT, .trafficClass = NCCL_CONFIG_UNDEF_INT,  \
        .collnetEnable = NCCL_CONFIG_UNDEF_INT, .CTAPolicy = NCCL_CONFIG_UNDEF_INT,                                    \
        .shrinkShare = NCCL_CONFIG_UNDEF_INT, .nvlsCTAs = NCCL_CONFIG_UNDEF_INT,                                       \
        .nChannelsPerNetPeer = NCCL_CONFIG_UNDEF_INT, .nvlinkCentricSched = NCCL_CONFIG_UNDEF_INT,                     \
        .graphUsageMode = NCCL_CONFIG_UNDEF_INT, .numRmaCtx = NCCL_CONFIG_UNDEF_INT,                                   \
        .maxP2pPeers = NCCL_CONFIG_UNDEF_INT, .graphStreamOrdering = NCCL_CONFIG_UNDEF_INT,                            \
    }

typedef struct {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime;
} ncclSimInfo_t;

STANDIN_NCCL_DECLARE(ncclResult_t, ncclGetVersion, int *version);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclGetUniqueId, ncclUniqueId *id);
STANDIN_NCCL_DECLARE(const char *, ncclGetErrorString, ncclResult_t code);
STANDIN_NCCL_DECLARE(const char *, ncclGetLastError, ncclComm_t comm);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclMemAlloc, void **pointer, size_t size);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclMemFree, void *pointer);

STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommInitRank, ncclComm_t *comm, int ranks, ncclUniqueId id, int rank);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommInitRankConfig, ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                     ncclConfig_t *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommInitAll, ncclComm_t *comms, int devices, const int *list);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommInitRankScalable, ncclComm_t *comm, int ranks, int rank, int ids,
                     ncclUniqueId *list, ncclConfig_t *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t *child,
                     ncclConfig_t *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommShrink, ncclComm_t comm, int *excluded, int count, ncclComm_t *child,
                     ncclConfig_t *config, int flags);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommFinalize, ncclComm_t comm);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommDestroy, ncclComm_t comm);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommAbort, ncclComm_t comm);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int flags);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *error);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommCount, ncclComm_t comm, int *count);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommCuDevice, ncclComm_t comm, int *device);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommUserRank, ncclComm_t comm, int *rank);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommRegister, ncclComm_t comm, void *buffer, size_t size, void **handle);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommDeregister, ncclComm_t comm, void *handle);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void *buffer, size_t size,
                     ncclWindow_t *window, int flags);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t window);

STANDIN_NCCL_DECLARE(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                     ncclScalarResidence_t residence, ncclComm_t comm);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm);

STANDIN_NCCL_DECLARE(ncclResult_t, ncclGroupStart, void);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclGroupEnd, void);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t *info);

STANDIN_NCCL_DECLARE(ncclResult_t, ncclAllReduce, const void *send, void *recv, size_t count, ncclDataType_t type,
                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclBroadcast, const void *send, void *recv, size_t count, ncclDataType_t type,
                     int root, ncclComm_t comm, cudaStream_t stream);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclBcast, void *buffer, size_t count, ncclDataType_t type, int root,
                     ncclComm_t comm, cudaStream_t stream);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclReduce, const void *send, void *recv, size_t count, ncclDataType_t type,
                     ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclAllGather, const void *send, void *recv, size_t count, ncclDataType_t type,
                     ncclComm_t comm, cudaStream_t stream);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclReduceScatter, const void *send, void *recv, size_t count, ncclDataType_t type,
                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclAlltoAll, const void *send, void *recv, size_t count, ncclDataType_t type,
                     ncclComm_t comm, cudaStream_t stream);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclGather, const void *send, void *recv, size_t count, ncclDataType_t type,
                     int root, ncclComm_t comm, cudaStream_t stream);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclScatter, const void *send, void *recv, size_t count, ncclDataType_t type,
                     int root, ncclComm_t comm, cudaStream_t stream);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclSend, const void *buffer, size_t count, ncclDataType_t type, int peer,
                     ncclComm_t comm, cudaStream_t stream);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclRecv, void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                     cudaStream_t stream);

#endif

/* Not in 2.28's nccl.h: what came later, and what is in nccl_device.h. */
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId *id);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclCommGrow, ncclComm_t comm, int ranks, const ncclUniqueId *id, int rank,
                     ncclComm_t *child, ncclConfig_t *config);
#ifndef NCCL_WIN_COLL_SYMMETRIC
#define NCCL_WIN_DEFAULT        0
#define NCCL_WIN_COLL_SYMMETRIC 1
#endif
STANDIN_NCCL_DECLARE(ncclResult_t, ncclAllReduceConfig, const void *send, void *recv, size_t count, ncclDataType_t type,
                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const void *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclBroadcastConfig, const void *send, void *recv, size_t count, ncclDataType_t type,
                     int root, ncclComm_t comm, cudaStream_t stream, const void *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclReduceConfig, const void *send, void *recv, size_t count, ncclDataType_t type,
                     ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream, const void *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclAllGatherConfig, const void *send, void *recv, size_t count, ncclDataType_t type,
                     ncclComm_t comm, cudaStream_t stream, const void *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclReduceScatterConfig, const void *send, void *recv, size_t count,
                     ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const void *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclAlltoAllConfig, const void *send, void *recv, size_t count, ncclDataType_t type,
                     ncclComm_t comm, cudaStream_t stream, const void *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclGatherConfig, const void *send, void *recv, size_t count, ncclDataType_t type,
                     int root, ncclComm_t comm, cudaStream_t stream, const void *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclScatterConfig, const void *send, void *recv, size_t count, ncclDataType_t type,
                     int root, ncclComm_t comm, cudaStream_t stream, const void *config);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclDevCommCreate, ncclComm_t comm, const void *requirements, void *device_comm);
STANDIN_NCCL_DECLARE(ncclResult_t, ncclDevCommDestroy, ncclComm_t comm, const void *device_comm);

#endif
