/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of CUDA's runtime API that the stand-in libcudart.so.13 has, in our own words so that nothing needs CUDA's
 * headers. Values and layouts are those of CUDA 13.0's cuda_runtime_api.h; where that header is present,
 * check_headers.c includes both and the compiler compares. No code and nothing of our own lives here.
 */
#ifndef COMMTAP_TEST_STANDIN_CUDART_API_H
#define COMMTAP_TEST_STANDIN_CUDART_API_H

#include <stddef.h>
#include <stdint.h>

#include "test/standin/cuda_api.h"

/* X(name, value). Errors of the driver keep their number in the runtime, under other names. */
#define STANDIN_CUDART_ERRORS(X)                                                                                       \
    X(cudaSuccess, 0)                                                                                                  \
    X(cudaErrorInvalidValue, 1)                                                                                        \
    X(cudaErrorMemoryAllocation, 2)                                                                                    \
    X(cudaErrorInitializationError, 3)                                                                                 \
    X(cudaErrorCudartUnloading, 4)                                                                                     \
    X(cudaErrorInvalidConfiguration, 9)                                                                                \
    X(cudaErrorInvalidDeviceFunction, 98)                                                                              \
    X(cudaErrorNoDevice, 100)                                                                                          \
    X(cudaErrorInvalidDevice, 101)                                                                                     \
    X(cudaErrorDeviceUninitialized, 201)                                                                               \
    X(cudaErrorInvalidResourceHandle, 400)                                                                             \
    X(cudaErrorIllegalState, 401)                                                                                      \
    X(cudaErrorSymbolNotFound, 500)                                                                                    \
    X(cudaErrorNotReady, 600)                                                                                          \
    X(cudaErrorPeerAccessAlreadyEnabled, 704)                                                                          \
    X(cudaErrorContextIsDestroyed, 709)                                                                                \
    X(cudaErrorHostMemoryAlreadyRegistered, 712)                                                                       \
    X(cudaErrorHostMemoryNotRegistered, 713)                                                                           \
    X(cudaErrorNotSupported, 801)                                                                                      \
    X(cudaErrorStreamCaptureUnsupported, 900)                                                                          \
    X(cudaErrorStreamCaptureInvalidated, 901)                                                                          \
    X(cudaErrorStreamCaptureMerge, 902)                                                                                \
    X(cudaErrorStreamCaptureUnmatched, 903)                                                                            \
    X(cudaErrorStreamCaptureUnjoined, 904)                                                                             \
    X(cudaErrorStreamCaptureIsolation, 905)                                                                            \
    X(cudaErrorStreamCaptureImplicit, 906)                                                                             \
    X(cudaErrorCapturedEvent, 907)                                                                                     \
    X(cudaErrorStreamCaptureWrongThread, 908)                                                                          \
    X(cudaErrorGraphExecUpdateFailure, 910)                                                                            \
    X(cudaErrorUnknown, 999)

#define STANDIN_CUDART_MEMORY_TYPES(X)                                                                                 \
    X(cudaMemoryTypeUnregistered, 0) X(cudaMemoryTypeHost, 1) X(cudaMemoryTypeDevice, 2) X(cudaMemoryTypeManaged, 3)
#define STANDIN_CUDART_ENTRY_RESULTS(X)                                                                                \
    X(cudaDriverEntryPointSuccess, 0)                                                                                  \
    X(cudaDriverEntryPointSymbolNotFound, 1)                                                                           \
    X(cudaDriverEntryPointVersionNotSufficent, 2)
#define STANDIN_CUDART_MEMCPY_KINDS(X)                                                                                 \
    X(cudaMemcpyHostToHost, 0)                                                                                         \
    X(cudaMemcpyHostToDevice, 1)                                                                                       \
    X(cudaMemcpyDeviceToHost, 2)                                                                                       \
    X(cudaMemcpyDeviceToDevice, 3)                                                                                     \
    X(cudaMemcpyDefault, 4)
#define STANDIN_CUDART_CAPTURE_MODES(X)                                                                                \
    X(cudaStreamCaptureModeGlobal, 0) X(cudaStreamCaptureModeThreadLocal, 1) X(cudaStreamCaptureModeRelaxed, 2)
#define STANDIN_CUDART_CAPTURE_STATUSES(X)                                                                             \
    X(cudaStreamCaptureStatusNone, 0)                                                                                  \
    X(cudaStreamCaptureStatusActive, 1)                                                                                \
    X(cudaStreamCaptureStatusInvalidated, 2)

/* X(type, last member of interest, its offset, sizeof the type): asserted of our types here and of theirs there. */
#define STANDIN_CUDART_LAYOUTS(X)                                                                                      \
    X(struct cudaDeviceProp, multiProcessorCount, 384, 1008)                                                           \
    X(struct cudaDeviceProp, maxThreadsPerBlock, 320, 1008)                                                            \
    X(struct cudaPointerAttributes, reserved, 24, 88)                                                                  \
    X(cudaLaunchConfig_t, numAttrs, 48, 56)                                                                            \
    X(cudaGraphInstantiateParams, result_out, 24, 32)                                                                  \
    X(CUDA_GRAPH_INSTANTIATE_PARAMS, result_out, 24, 32)                                                               \
    X(CUDA_HOST_NODE_PARAMS, userData, 8, 16)                                                                          \
    X(CUlaunchConfig, numAttrs, 48, 56)
#define STANDIN_ASSERT_LAYOUT(type, member, offset, size)                                                              \
    _Static_assert(offsetof(type, member) == (offset) && sizeof(type) == (size), #type);

#ifndef __CUDA_RUNTIME_API_H__ /* cuda_runtime_api.h's own guard: with it come these types */
#define STANDIN_ENUMERATOR(name, value) name = (value),
typedef enum cudaError { STANDIN_CUDART_ERRORS(STANDIN_ENUMERATOR) } cudaError_t;
enum cudaMemoryType { STANDIN_CUDART_MEMORY_TYPES(STANDIN_ENUMERATOR) };
enum cudaDriverEntryPointQueryResult { STANDIN_CUDART_ENTRY_RESULTS(STANDIN_ENUMERATOR) };
enum cudaMemcpyKind { STANDIN_CUDART_MEMCPY_KINDS(STANDIN_ENUMERATOR) };
enum cudaStreamCaptureMode { STANDIN_CUDART_CAPTURE_MODES(STANDIN_ENUMERATOR) };
enum cudaStreamCaptureStatus { STANDIN_CUDART_CAPTURE_STATUSES(STANDIN_ENUMERATOR) };
enum cudaDeviceAttr { cudaDevAttrMaxThreadsPerBlock = 1 }; /* and the driver's others, by their numbers */
#undef STANDIN_ENUMERATOR

#define cudaStreamNonBlocking   0x1
#define cudaEventDisableTiming  0x2
#define cudaEventRecordExternal 0x1
#define cudaStreamLegacy        ((cudaStream_t)0x1)
#define cudaStreamPerThread     ((cudaStream_t)0x2)

typedef CUstream cudaStream_t;
typedef CUevent cudaEvent_t;
typedef CUgraph cudaGraph_t;
typedef CUgraphExec cudaGraphExec_t;
typedef CUgraphNode cudaGraphNode_t;
typedef struct CUkern_st *cudaKernel_t;
typedef struct cudaGraphEdgeData_st cudaGraphEdgeData;
typedef struct cudaLaunchAttribute_st cudaLaunchAttribute;
typedef CUhostFn cudaHostFn_t;
typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void *argument);

typedef struct dim3 {
    unsigned x, y, z;
} dim3;

typedef struct cudaLaunchConfig_st {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
} cudaLaunchConfig_t;

typedef struct cudaGraphInstantiateParams_st {
    unsigned long long flags;
    cudaStream_t uploadStream;
    cudaGraphNode_t errNode_out;
    unsigned result_out;
} cudaGraphInstantiateParams;

typedef struct cudaGraphExecUpdateResultInfo_st {
    unsigned result;
    cudaGraphNode_t errorNode, errorFromNode;
} cudaGraphExecUpdateResultInfo;

struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
    long reserved[8];
};

/* The named part of the structure is the one that the stand-in fills; the rest is zero. */
struct cudaDeviceProp {
    char name[256];
    CUuuid uuid;
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    int regsPerBlock;
    int warpSize;
    size_t memPitch;
    int maxThreadsPerBlock;
    int maxThreadsDim[3];
    int maxGridSize[3];
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment;
    size_t texturePitchAlignment;
    int multiProcessorCount;
    char others[1008 - 388];
};
#endif

STANDIN_CUDART_LAYOUTS(STANDIN_ASSERT_LAYOUT)

/* X(function, parameters): every function of the library that returns a cudaError_t. */
#define STANDIN_CUDART_FUNCTIONS(X)                                                                                    \
    X(cudaDeviceReset, (void))                                                                                         \
    X(cudaDeviceSynchronize, (void))                                                                                   \
    X(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest))                                                   \
    X(cudaDeviceGetByPCIBusId, (int *device, const char *id))                                                          \
    X(cudaDeviceGetPCIBusId, (char *id, int room, int device))                                                         \
    X(cudaDeviceCanAccessPeer, (int *can, int device, int peer))                                                       \
    X(cudaDeviceEnablePeerAccess, (int peer, unsigned flags))                                                          \
    X(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device))                                 \
    X(cudaGetLastError, (void))                                                                                        \
    X(cudaPeekAtLastError, (void))                                                                                     \
    X(cudaGetDeviceCount, (int *count))                                                                                \
    X(cudaGetDeviceProperties, (struct cudaDeviceProp * properties, int device))                                       \
    X(cudaInitDevice, (int device, unsigned device_flags, unsigned flags))                                             \
    X(cudaSetDevice, (int device))                                                                                     \
    X(cudaGetDevice, (int *device))                                                                                    \
    X(cudaSetDeviceFlags, (unsigned flags))                                                                            \
    X(cudaDriverGetVersion, (int *version))                                                                            \
    X(cudaRuntimeGetVersion, (int *version))                                                                           \
    X(cudaGetDriverEntryPoint,                                                                                         \
      (const char *name, void **function, unsigned long long flags, enum cudaDriverEntryPointQueryResult *result))     \
    X(cudaGetDriverEntryPointByVersion, (const char *name, void **function, unsigned version,                          \
                                         unsigned long long flags, enum cudaDriverEntryPointQueryResult *result))      \
    X(cudaStreamCreate, (cudaStream_t * stream))                                                                       \
    X(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags))                                              \
    X(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority))                             \
    X(cudaStreamGetPriority, (cudaStream_t stream, int *priority))                                                     \
    X(cudaStreamGetFlags, (cudaStream_t stream, unsigned *flags))                                                      \
    X(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id))                                                  \
    X(cudaStreamGetDevice, (cudaStream_t stream, int *device))                                                         \
    X(cudaStreamDestroy, (cudaStream_t stream))                                                                        \
    X(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags))                                   \
    X(cudaStreamAddCallback, (cudaStream_t stream, cudaStreamCallback_t callback, void *argument, unsigned flags))     \
    X(cudaStreamSynchronize, (cudaStream_t stream))                                                                    \
    X(cudaStreamQuery, (cudaStream_t stream))                                                                          \
    X(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode))                                  \
    X(cudaStreamBeginCaptureToGraph, (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,     \
                                      const cudaGraphEdgeData *edges, size_t count, enum cudaStreamCaptureMode mode))  \
    X(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode))                                        \
    X(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t * graph))                                                \
    X(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus * status))                             \
    X(cudaStreamGetCaptureInfo,                                                                                        \
      (cudaStream_t stream, enum cudaStreamCaptureStatus * status, unsigned long long *id, cudaGraph_t *graph,         \
       const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count))                          \
    X(cudaEventCreate, (cudaEvent_t * event))                                                                          \
    X(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags))                                                 \
    X(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream))                                                       \
    X(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags))                              \
    X(cudaEventQuery, (cudaEvent_t event))                                                                             \
    X(cudaEventSynchronize, (cudaEvent_t event))                                                                       \
    X(cudaEventDestroy, (cudaEvent_t event))                                                                           \
    X(cudaEventElapsedTime, (float *milliseconds, cudaEvent_t start, cudaEvent_t end))                                 \
    X(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags))                                                          \
    X(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t * nodes, size_t * count))                                 \
    X(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags))                     \
    X(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags))            \
    X(cudaGraphInstantiateWithParams,                                                                                  \
      (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams * parameters))                            \
    X(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream))                                                    \
    X(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream))                                                    \
    X(cudaGraphExecUpdate, (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo * info))            \
    X(cudaGraphExecDestroy, (cudaGraphExec_t exec))                                                                    \
    X(cudaGraphDestroy, (cudaGraph_t graph))                                                                           \
    X(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *argument))                                \
    X(cudaLaunchKernel,                                                                                                \
      (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream))       \
    X(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *function, void **arguments))                 \
    X(cudaMalloc, (void **pointer, size_t bytes))                                                                      \
    X(cudaFree, (void *pointer))                                                                                       \
    X(cudaMallocAsync, (void **pointer, size_t bytes, cudaStream_t stream))                                            \
    X(cudaFreeAsync, (void *pointer, cudaStream_t stream))                                                             \
    X(cudaMallocHost, (void **pointer, size_t bytes))                                                                  \
    X(cudaHostAlloc, (void **pointer, size_t bytes, unsigned flags))                                                   \
    X(cudaFreeHost, (void *pointer))                                                                                   \
    X(cudaHostRegister, (void *pointer, size_t bytes, unsigned flags))                                                 \
    X(cudaHostUnregister, (void *pointer))                                                                             \
    X(cudaHostGetDevicePointer, (void **pointer, void *host, unsigned flags))                                          \
    X(cudaMemGetInfo, (size_t * unused, size_t * total))                                                               \
    X(cudaPointerGetAttributes, (struct cudaPointerAttributes * attributes, const void *pointer))                      \
    X(cudaMemcpy, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind))                                \
    X(cudaMemcpyAsync, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream))      \
    X(cudaMemcpyPeerAsync,                                                                                             \
      (void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream))                 \
    X(cudaMemset, (void *to, int value, size_t bytes))                                                                 \
    X(cudaMemsetAsync, (void *to, int value, size_t bytes, cudaStream_t stream))

#define STANDIN_DECLARE(name, parameters) cudaError_t name parameters;
STANDIN_CUDART_FUNCTIONS(STANDIN_DECLARE)
#undef STANDIN_DECLARE

const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

/* What nvcc's output calls (crt/host_runtime.h, crt/device_functions.h): kernels are registered by the address of their
 * host stub and launched by it. */
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
struct uint3;
void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function, const char *name,
                            int thread_limit, struct uint3 *thread, struct uint3 *block, dim3 *block_size,
                            dim3 *grid_size, int *warp_size);
void __cudaRegisterVar(void **handle, char *host_variable, char *device_address, const char *name, int external,
                       size_t bytes, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                               cudaStream_t stream);

#endif
