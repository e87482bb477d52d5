/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's streams, events, captures and graphs: the driver's by other names.
 */
#include "test/standin/runtime/runtime.h"

EXPORT cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    FORWARD(cuStreamCreate(stream, CU_STREAM_DEFAULT));
}

EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    FORWARD(cuStreamCreate(stream, flags));
}

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    FORWARD(cuStreamCreateWithPriority(stream, flags, priority));
}

EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    FORWARD(cuStreamGetPriority(stream, priority));
}

EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags) {
    FORWARD(cuStreamGetFlags(stream, flags));
}

EXPORT cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id) {
    FORWARD(cuStreamGetId(stream, id));
}

EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device) {
    FORWARD(cuStreamGetDevice(stream, device));
}

EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    FORWARD(cuStreamDestroy_v2(stream));
}

EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    FORWARD(cuStreamWaitEvent(stream, event, flags));
}

/* The two kinds of callback differ only in the name of the status's type. */
EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *argument,
                                         unsigned flags) {
    FORWARD(cuStreamAddCallback(stream, (CUstreamCallback)(void *)callback, argument, flags));
}

EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    FORWARD(cuStreamSynchronize(stream));
}

EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
    FORWARD(cuStreamQuery(stream));
}

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    FORWARD(cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode));
}

EXPORT cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                 const cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges,
                                                 size_t count, enum cudaStreamCaptureMode mode) {
    FORWARD(cuStreamBeginCaptureToGraph(stream, graph, dependencies, (const CUgraphEdgeData *)edges, count,
                                        (CUstreamCaptureMode)mode));
}

EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    if (!mode)
        return runtime_result(CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode exchanged = (CUstreamCaptureMode)*mode;
    CUresult result = cuInit(0);
    if (!result)
        result = cuThreadExchangeStreamCaptureMode(&exchanged);
    *mode = (enum cudaStreamCaptureMode)exchanged;
    return runtime_result(result);
}

EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    FORWARD(cuStreamEndCapture(stream, graph));
}

EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                            unsigned long long *id, cudaGraph_t *graph,
                                            const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                                            size_t *count) {
    CUstreamCaptureStatus found;
    uint64_t found_id = 0;
    CUresult result = status ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = cuStreamGetCaptureInfo_v2(stream, &found, &found_id, graph, dependencies, count);
    if (result)
        return runtime_result(result);
    *status = (enum cudaStreamCaptureStatus)found;
    if (id && found == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        *id = found_id;
    if (edges && found == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        *edges = NULL;
    return cudaSuccess;
}

EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    return cudaStreamGetCaptureInfo(stream, status, NULL, NULL, NULL, NULL, NULL);
}

EXPORT cudaError_t cudaEventCreate(cudaEvent_t *event) {
    FORWARD(cuEventCreate(event, CU_EVENT_DEFAULT));
}

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    FORWARD(cuEventCreate(event, flags));
}

EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    FORWARD(cuEventRecord(event, stream));
}

EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    FORWARD(cuEventRecordWithFlags(event, stream, flags));
}

EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
    FORWARD(cuEventQuery(event));
}

EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    FORWARD(cuEventSynchronize(event));
}

EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
    FORWARD(cuEventDestroy_v2(event));
}

EXPORT cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    FORWARD(cuEventElapsedTime_v2(milliseconds, start, end));
}

EXPORT cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags) {
    FORWARD(cuGraphCreate(graph, flags));
}

EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    FORWARD(cuGraphGetNodes(graph, nodes, count));
}

EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    FORWARD(cuGraphInstantiateWithFlags(exec, graph, flags));
}

EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    FORWARD(cuGraphInstantiateWithFlags(exec, graph, flags));
}

EXPORT cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *exec, cudaGraph_t graph,
                                                  cudaGraphInstantiateParams *parameters) {
    FORWARD(cuGraphInstantiateWithParams(exec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)(void *)parameters));
}

EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
    FORWARD(cuGraphUpload(exec, stream));
}

EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    FORWARD(cuGraphLaunch(exec, stream));
}

EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info) {
    FORWARD(cuGraphExecUpdate_v2(exec, graph, (CUgraphExecUpdateResultInfo *)(void *)info));
}

EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    FORWARD(cuGraphExecDestroy(exec));
}

EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    FORWARD(cuGraphDestroy(graph));
}

EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument) {
    FORWARD(cuLaunchHostFunc(stream, function, argument));
}
