/* SPDX-License-Identifier: Apache-2.0
 *
 * Our declarations of CUDA (shim/gpu/driver.h, shim/wrap_cuda.c) beside the vendor's: compiled where its headers
 * are, never run. Every function of the table is called with what the table passes, every intercepted one with its
 * arguments where wrap_cuda.c expects them; -Wconversion does the rest.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "shim/gpu/driver.h"

_Static_assert((int)GPU_SUCCESS == (int)CUDA_SUCCESS, "");
_Static_assert((int)GPU_DEINITIALIZED == (int)CUDA_ERROR_DEINITIALIZED, "");
_Static_assert((int)GPU_DEINITIALIZED == (int)cudaErrorCudartUnloading, "");
_Static_assert((int)GPU_INVALID_CONTEXT == (int)CUDA_ERROR_INVALID_CONTEXT, "");
_Static_assert((int)GPU_INVALID_HANDLE == (int)CUDA_ERROR_INVALID_HANDLE, "");
_Static_assert((int)GPU_NOT_READY == (int)CUDA_ERROR_NOT_READY, "");
_Static_assert((int)GPU_CONTEXT_IS_DESTROYED == (int)CUDA_ERROR_CONTEXT_IS_DESTROYED, "");
_Static_assert(302 == CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND && 302 == cudaErrorSharedObjectSymbolNotFound, "");
_Static_assert(GPU_EVENT_RECORD_EXTERNAL == CU_EVENT_RECORD_EXTERNAL, "");
_Static_assert(GPU_STREAM_NON_BLOCKING == CU_STREAM_NON_BLOCKING, "");
_Static_assert(GPU_CAPTURE_STATUS_NONE == CU_STREAM_CAPTURE_STATUS_NONE, "");
_Static_assert(GPU_CAPTURE_STATUS_ACTIVE == CU_STREAM_CAPTURE_STATUS_ACTIVE, "");
_Static_assert(GPU_CAPTURE_MODE_RELAXED == CU_STREAM_CAPTURE_MODE_RELAXED, "");
_Static_assert(sizeof(CUstreamCaptureStatus) == sizeof(int) && sizeof(CUstreamCaptureMode) == sizeof(int), "");
_Static_assert(sizeof(cuuint64_t) == sizeof(uint64_t) && sizeof(CUdevice) == sizeof(int), "");

/* shim/gpu/driver.h: event, stream, context and graph handles are void *. */
int driver_table(void *event, void *stream, void *context, void **handle, int ordinal, int *number, float *ms,
                 size_t *bytes, uint64_t *id, char *text, unsigned *flags) {
    const void **edges = NULL;
    cuEventCreate((CUevent *)handle, *flags);
    cuEventRecord(event, stream);
    cuEventRecordWithFlags(event, stream, GPU_EVENT_RECORD_EXTERNAL);
    cuEventQuery(event);
    cuEventElapsedTime(ms, event, event); /* is cuEventElapsedTime_v2 from 12.8 on */
    cuStreamCreate((CUstream *)handle, GPU_STREAM_NON_BLOCKING);
    cuStreamGetCtx(stream, (CUcontext *)handle);
    cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)number);
#if CUDA_VERSION >= 13000 /* cuStreamGetCaptureInfo_v3; before, the same without the edges */
    cuStreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)number, (cuuint64_t *)id, (CUgraph *)handle, NULL,
                           (const CUgraphEdgeData **)edges, bytes);
#endif
    cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)number);
    cuCtxGetCurrent((CUcontext *)handle);
    cuCtxGetDevice(number);
    cuCtxPushCurrent(context);
    cuCtxPopCurrent((CUcontext *)handle);
    cuDevicePrimaryCtxGetState(ordinal, flags, number);
    cuDevicePrimaryCtxRetain((CUcontext *)handle, ordinal);
    cuDevicePrimaryCtxRelease(ordinal);
    cuMemGetInfo(bytes, bytes);
    cuDeviceGetName(text, ordinal, ordinal);
    return cuDeviceGetPCIBusId(text, ordinal, ordinal);
}

/* shim/wrap_cuda.c: which argument is what. */
int intercepted(void **executable_out, void *graph, void *executable, void *event, void *stream, void *context,
                int ordinal) {
    cudaGraphInstantiate((cudaGraphExec_t *)executable_out, graph, 0);
    cudaGraphInstantiateWithFlags((cudaGraphExec_t *)executable_out, graph, 0);
    cudaGraphInstantiateWithParams((cudaGraphExec_t *)executable_out, graph, NULL);
    cuGraphInstantiate((CUgraphExec *)executable_out, graph, 0);
    cuGraphInstantiateWithParams((CUgraphExec *)executable_out, graph, NULL);
    cudaGraphExecUpdate(executable, graph, NULL);
    cuGraphExecUpdate(executable, graph, NULL);
    cudaGraphLaunch(executable, stream);
    cuGraphLaunch(executable, stream);
    cudaGraphExecDestroy(executable);
    cuGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cuGraphDestroy(graph);
    cudaEventRecord(event, stream);
    cudaEventRecordWithFlags(event, stream, 0);
    cuEventRecord(event, stream);
    cuEventRecordWithFlags(event, stream, 0);
    cudaStreamWaitEvent(stream, event, 0);
    cuStreamWaitEvent(stream, event, 0);
    cudaDeviceReset();
    cuDevicePrimaryCtxReset(ordinal);
    return cuCtxDestroy(context);
}
