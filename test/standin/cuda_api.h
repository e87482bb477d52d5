/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of CUDA's driver API that the stand-in libcuda.so.1 has, in our own words so that nothing needs CUDA's
 * headers. Names are the symbols of the library (cuStreamDestroy_v2), not those that cuda.h renames. Values and layouts
 * are those of CUDA 13.0's cuda.h; where that header is present, check_headers.c includes both and the compiler
 * compares. No code and nothing of our own lives here.
 */
#ifndef COMMTAP_TEST_STANDIN_CUDA_API_H
#define COMMTAP_TEST_STANDIN_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

/* X(name, value, the text of cuGetErrorString) */
#define STANDIN_CUDA_ERRORS(X)                                                                                         \
    X(CUDA_SUCCESS, 0, "no error")                                                                                     \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                                                 \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                                    \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                                           \
    X(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                                                             \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                                 \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                                        \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                                       \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                                       \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")                         \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                                             \
    X(CUDA_ERROR_NOT_READY, 600, "device not ready")                                                                   \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled")                                   \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                                    \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "part or all of the requested memory range is already mapped")   \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "pointer does not correspond to a registered memory region")         \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                                        \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")                  \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, "operation failed due to a previous error during capture")           \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, "operation would result in a merge of separate capture sequences")         \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, "capture was not ended in the same stream as it began")                \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                                   \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, "dependency created on uncaptured work in another stream")             \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                                                         \
      "operation would make the legacy stream depend on a capturing blocking stream")                                  \
    X(CUDA_ERROR_CAPTURED_EVENT, 907, "operation not permitted on an event last recorded in a capturing stream")       \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                                                                     \
      "attempt to terminate a thread-local capture sequence from another thread")                                      \
    X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910,                                                                       \
      "the graph update was not performed because it included changes which violated constraints specific to "         \
      "instantiated graph update")                                                                                     \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

/* X(name, value): every other constant. */
#define STANDIN_CUDA_CONSTANTS(X)                                                                                      \
    X(CU_CTX_SCHED_AUTO, 0x0)                                                                                          \
    X(CU_STREAM_DEFAULT, 0x0)                                                                                          \
    X(CU_STREAM_NON_BLOCKING, 0x1)                                                                                     \
    X(CU_EVENT_DEFAULT, 0x0)                                                                                           \
    X(CU_EVENT_BLOCKING_SYNC, 0x1)                                                                                     \
    X(CU_EVENT_DISABLE_TIMING, 0x2)                                                                                    \
    X(CU_EVENT_INTERPROCESS, 0x4)                                                                                      \
    X(CU_EVENT_RECORD_EXTERNAL, 0x1)                                                                                   \
    X(CU_EVENT_WAIT_EXTERNAL, 0x1)                                                                                     \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                                                \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                                                              \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)                                                                         \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                                                                \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                                                          \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                                                               \
    X(CU_GRAPH_NODE_TYPE_KERNEL, 0)                                                                                    \
    X(CU_GRAPH_NODE_TYPE_MEMCPY, 1)                                                                                    \
    X(CU_GRAPH_NODE_TYPE_MEMSET, 2)                                                                                    \
    X(CU_GRAPH_NODE_TYPE_HOST, 3)                                                                                      \
    X(CU_GRAPH_NODE_TYPE_EMPTY, 5)                                                                                     \
    X(CU_GRAPH_NODE_TYPE_WAIT_EVENT, 6)                                                                                \
    X(CU_GRAPH_NODE_TYPE_EVENT_RECORD, 7)                                                                              \
    X(CU_GRAPH_EXEC_UPDATE_SUCCESS, 0)                                                                                 \
    X(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 2)                                                                  \
    X(CUDA_GRAPH_INSTANTIATE_SUCCESS, 0)                                                                               \
    X(CU_MEMORYTYPE_HOST, 1)                                                                                           \
    X(CU_MEMORYTYPE_DEVICE, 2)                                                                                         \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                                                                 \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                                             \
    X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)                                                                          \
    X(CU_POINTER_ATTRIBUTE_HOST_POINTER, 4)                                                                            \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                                          \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                                                                    \
    X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10)                                                                               \
    X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                                                                              \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                                    \
    X(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 31)                                                                      \
    X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                                                                              \
    X(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34)                                                                           \
    X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                                                                      \
    X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                                                                      \
    X(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 50)                                                                           \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                                                \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                                                \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)                                                                 \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0)                                                                                  \
    X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)

#ifndef __cuda_cuda_h__ /* cuda.h's own guard: with it come these types */
#define STANDIN_ENUMERATOR(name, value, ...) name = (value),
typedef enum cudaError_enum { STANDIN_CUDA_ERRORS(STANDIN_ENUMERATOR) } CUresult;
enum { STANDIN_CUDA_CONSTANTS(STANDIN_ENUMERATOR) };
#undef STANDIN_ENUMERATOR

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUfunc_st *CUfunction;
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct CUlaunchAttribute_st CUlaunchAttribute;
typedef void (*CUhostFn)(void *argument);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *argument);

/* Enumerations whose values are above; all are ints to the compilers that matter here. */
typedef unsigned CUdevice_attribute;
typedef unsigned CUstreamCaptureMode;
typedef unsigned CUstreamCaptureStatus;
typedef unsigned CUgraphNodeType;
typedef unsigned CUpointer_attribute;
typedef unsigned CUdriverProcAddressQueryResult;
typedef unsigned CUgraphInstantiateResult;
typedef unsigned CUgraphExecUpdateResult;

typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;

typedef struct CUDA_HOST_NODE_PARAMS_st {
    CUhostFn fn;
    void *userData;
} CUDA_HOST_NODE_PARAMS;

typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
    uint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    CUgraphInstantiateResult result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

typedef struct CUgraphExecUpdateResultInfo_st {
    CUgraphExecUpdateResult result;
    CUgraphNode errorNode, errorFromNode;
} CUgraphExecUpdateResultInfo;

typedef struct CUlaunchConfig_st {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

#define CU_STREAM_LEGACY     ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)
#endif

/* X(function, parameters): every function of the library in the order of CUDA's manual. */
#define STANDIN_CUDA_FUNCTIONS(X)                                                                                      \
    X(cuGetErrorString, (CUresult error, const char **text))                                                           \
    X(cuGetErrorName, (CUresult error, const char **text))                                                             \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDriverGetVersion, (int *version))                                                                              \
    X(cuDeviceGet, (CUdevice * device, int ordinal))                                                                   \
    X(cuDeviceGetCount, (int *count))                                                                                  \
    X(cuDeviceGetName, (char *name, int room, CUdevice device))                                                        \
    X(cuDeviceGetUuid, (CUuuid * uuid, CUdevice device))                                                               \
    X(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                                            \
    X(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                                          \
    X(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))                               \
    X(cuDeviceGetByPCIBusId, (CUdevice * device, const char *id))                                                      \
    X(cuDeviceGetPCIBusId, (char *id, int room, CUdevice device))                                                      \
    X(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))                                               \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                                \
    X(cuDevicePrimaryCtxRelease, (CUdevice device))                                                                    \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                                 \
    X(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags))                                                \
    X(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active))                                     \
    X(cuDevicePrimaryCtxReset, (CUdevice device))                                                                      \
    X(cuDevicePrimaryCtxReset_v2, (CUdevice device))                                                                   \
    X(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device))                                          \
    X(cuCtxCreate_v4, (CUcontext * context, CUctxCreateParams * parameters, unsigned flags, CUdevice device))          \
    X(cuCtxDestroy_v2, (CUcontext context))                                                                            \
    X(cuCtxPushCurrent_v2, (CUcontext context))                                                                        \
    X(cuCtxPopCurrent_v2, (CUcontext * context))                                                                       \
    X(cuCtxSetCurrent, (CUcontext context))                                                                            \
    X(cuCtxGetCurrent, (CUcontext * context))                                                                          \
    X(cuCtxGetDevice, (CUdevice * device))                                                                             \
    X(cuCtxGetDevice_v2, (CUdevice * device, CUcontext context))                                                       \
    X(cuCtxGetFlags, (unsigned *flags))                                                                                \
    X(cuCtxGetId, (CUcontext context, unsigned long long *id))                                                         \
    X(cuCtxGetApiVersion, (CUcontext context, unsigned *version))                                                      \
    X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                                        \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuCtxSynchronize_v2, (CUcontext context))                                                                        \
    X(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))                                                         \
    X(cuMemGetInfo_v2, (size_t * unused, size_t * total))                                                              \
    X(cuMemAlloc_v2, (CUdeviceptr * pointer, size_t bytes))                                                            \
    X(cuMemFree_v2, (CUdeviceptr pointer))                                                                             \
    X(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t * bytes, CUdeviceptr pointer))                              \
    X(cuMemAllocAsync, (CUdeviceptr * pointer, size_t bytes, CUstream stream))                                         \
    X(cuMemFreeAsync, (CUdeviceptr pointer, CUstream stream))                                                          \
    X(cuMemAllocHost_v2, (void **pointer, size_t bytes))                                                               \
    X(cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags))                                                  \
    X(cuMemFreeHost, (void *pointer))                                                                                  \
    X(cuMemHostGetDevicePointer_v2, (CUdeviceptr * pointer, void *host, unsigned flags))                               \
    X(cuMemHostRegister_v2, (void *pointer, size_t bytes, unsigned flags))                                             \
    X(cuMemHostUnregister, (void *pointer))                                                                            \
    X(cuPointerGetAttribute, (void *value, CUpointer_attribute attribute, CUdeviceptr pointer))                        \
    X(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                                                      \
    X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                                               \
    X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                                                     \
    X(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                                               \
    X(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                                \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                         \
    X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                               \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                         \
    X(cuMemcpyPeerAsync,                                                                                               \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)) \
    X(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count))                                              \
    X(cuMemsetD32_v2, (CUdeviceptr to, unsigned value, size_t count))                                                  \
    X(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))                           \
    X(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream stream))                               \
    X(cuStreamCreate, (CUstream * stream, unsigned flags))                                                             \
    X(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))                                   \
    X(cuStreamDestroy_v2, (CUstream stream))                                                                           \
    X(cuStreamGetPriority, (CUstream stream, int *priority))                                                           \
    X(cuStreamGetFlags, (CUstream stream, unsigned *flags))                                                            \
    X(cuStreamGetId, (CUstream stream, unsigned long long *id))                                                        \
    X(cuStreamGetCtx, (CUstream stream, CUcontext * context))                                                          \
    X(cuStreamGetCtx_v2, (CUstream stream, CUcontext * context, CUgreenCtx * green))                                   \
    X(cuGreenCtxCreate, (CUgreenCtx * green, CUdevResourceDesc description, CUdevice device, unsigned flags))          \
    X(cuGreenCtxStreamCreate, (CUstream * stream, CUgreenCtx green, unsigned flags, int priority))                     \
    X(cuCtxFromGreenCtx, (CUcontext * context, CUgreenCtx green))                                                      \
    X(cuStreamGetDevice, (CUstream stream, CUdevice * device))                                                         \
    X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                             \
    X(cuStreamAddCallback, (CUstream stream, CUstreamCallback callback, void *argument, unsigned flags))               \
    X(cuStreamQuery, (CUstream stream))                                                                                \
    X(cuStreamSynchronize, (CUstream stream))                                                                          \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                            \
    X(cuStreamBeginCaptureToGraph, (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,                   \
                                    const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode))             \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                          \
    X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                                          \
    X(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id))                        \
    X(cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id, CUgraph * graph,     \
                                  const CUgraphNode **dependencies, size_t *count))                                    \
    X(cuStreamGetCaptureInfo_v3, (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id, CUgraph * graph,     \
                                  const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count))     \
    X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode))                                                 \
    X(cuEventCreate, (CUevent * event, unsigned flags))                                                                \
    X(cuEventRecord, (CUevent event, CUstream stream))                                                                 \
    X(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags))                                        \
    X(cuEventQuery, (CUevent event))                                                                                   \
    X(cuEventSynchronize, (CUevent event))                                                                             \
    X(cuEventDestroy_v2, (CUevent event))                                                                              \
    X(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))                                           \
    X(cuEventElapsedTime_v2, (float *milliseconds, CUevent start, CUevent end))                                        \
    X(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *argument))                                          \
    X(cuLaunchKernel,                                                                                                  \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra))                     \
    X(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))          \
    X(cuGraphCreate, (CUgraph * graph, unsigned flags))                                                                \
    X(cuGraphDestroy, (CUgraph graph))                                                                                 \
    X(cuGraphGetNodes, (CUgraph graph, CUgraphNode * nodes, size_t * count))                                           \
    X(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType * type))                                                  \
    X(cuGraphAddEmptyNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, size_t count))         \
    X(cuGraphAddHostNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, size_t count,           \
                           const CUDA_HOST_NODE_PARAMS *parameters))                                                   \
    X(cuGraphAddEventRecordNode,                                                                                       \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUevent event))               \
    X(cuGraphInstantiate_v2, (CUgraphExec * exec, CUgraph graph, CUgraphNode * failed, char *log, size_t room))        \
    X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                      \
    X(cuGraphInstantiateWithParams, (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * parameters))   \
    X(cuGraphUpload, (CUgraphExec exec, CUstream stream))                                                              \
    X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                                              \
    X(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo * info))                     \
    X(cuGraphExecDestroy, (CUgraphExec exec))                                                                          \
    X(cuGetProcAddress, (const char *name, void **function, int version, uint64_t flags))                              \
    X(cuGetProcAddress_v2,                                                                                             \
      (const char *name, void **function, int version, uint64_t flags, CUdriverProcAddressQueryResult *status))

/* The library's own version, as cuDriverGetVersion tells it. */
#define STANDIN_DRIVER_VERSION 13000

#define STANDIN_DECLARE(name, parameters) CUresult name parameters;
STANDIN_CUDA_FUNCTIONS(STANDIN_DECLARE)
#undef STANDIN_DECLARE

#endif
