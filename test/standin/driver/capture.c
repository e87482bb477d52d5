/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream capture: which streams take part, what they collect, and the errors with which CUDA protects a capture.
 * Sources: the manual of the driver API (cuStreamBeginCapture, CUstreamCaptureMode, cuEventRecordWithFlags,
 * cuStreamWaitEvent) and the chapter on graphs of the programming guide. Graphs after capture are in graph.c.
 */
#include <stdlib.h>

#include "test/standin/driver/engine.h"

static struct capture *captures;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

struct capture *capture_find(uint64_t id) {
    struct capture *capture = captures;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

void capture_invalidate(struct capture *capture) {
    capture->invalidated = true;
}

/* Whether a capture forbids this thread the calls that may synchronize. */
static bool forbids_unsafe(const struct capture *capture) {
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->invalidated)
        return false;
    if (pthread_equal(capture->thread, pthread_self()))
        return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_check_unsafe(void) {
    CUresult result = CUDA_SUCCESS;
    for (struct capture *capture = captures; capture; capture = capture->next)
        if (forbids_unsafe(capture)) {
            capture_invalidate(capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

CUresult capture_check_legacy(CUstream stream) {
    CUresult result = CUDA_SUCCESS;
    if (stream != stream->context->legacy)
        return result;
    for (CUstream other = stream->context->streams; other; other = other->next)
        if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING)) {
            capture_invalidate(other->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return result;
}

/* What a call that a captured stream does not allow returns. */
static CUresult refuse(struct capture *capture) {
    if (capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    capture_invalidate(capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_check_wait(CUstream stream) {
    if (stream->capture)
        return refuse(stream->capture);
    CUresult result = capture_check_legacy(stream);
    return result ? result : capture_check_unsafe();
}

CUresult capture_check_wait_context(CUcontext context) {
    CUresult result = CUDA_SUCCESS;
    for (CUstream stream = context->streams; stream; stream = stream->next)
        if (stream->capture) {
            capture_invalidate(stream->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result ? result : capture_check_unsafe();
}

CUresult capture_add(CUstream stream, struct command *command) {
    struct capture *capture = stream->capture;
    if (capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUgraphNode node = graph_add(capture->graph, command, &stream->nodes, stream->lane);
    stream->nodes.count = 0;
    nodes_add(&stream->nodes, node);
    return CUDA_SUCCESS;
}

CUresult capture_record(CUstream stream, CUevent event) {
    if (stream->capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    work_drop(event->record);
    event->record = NULL;
    event->capture = stream->capture->id;
    nodes_copy(&event->nodes, &stream->nodes);
    return CUDA_SUCCESS;
}

static void join(struct capture *capture, CUstream stream) {
    stream->capture = capture;
    stream->lane = capture->lanes++;
    stream->next_captured = capture->streams;
    capture->streams = stream;
    nodes_clear(&stream->nodes);
}

/* A captured stream waits for work outside the capture. */
static CUresult wait_for_outside(struct capture *capture, CUevent event) {
    if (capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!event->record)
        return CUDA_SUCCESS;
    capture_invalidate(capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

CUresult capture_wait(CUstream stream, CUevent event) {
    if (!event->capture)
        return wait_for_outside(stream->capture, event);
    struct capture *capture = capture_find(event->capture);
    if (!capture)
        return CUDA_ERROR_CAPTURED_EVENT; /* of a capture that has ended */
    if (capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream == stream->context->legacy) {
        capture_invalidate(capture);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture && stream->capture != capture) {
        capture_invalidate(capture);
        capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!stream->capture)
        join(capture, stream);
    for (size_t i = 0; i < event->nodes.count; i++)
        nodes_add(&stream->nodes, event->nodes.items[i]);
    return CUDA_SUCCESS;
}

/* All its streams go back to normal; the graph is the caller's. */
static CUgraph capture_end(struct capture *capture) {
    struct capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    for (CUstream stream = capture->streams; stream; stream = stream->next_captured) {
        stream->capture = NULL;
        nodes_clear(&stream->nodes);
    }
    CUgraph graph = capture->graph;
    free(capture);
    return graph;
}

void capture_leave(CUstream stream) {
    struct capture *capture = stream->capture;
    if (!capture)
        return;
    if (stream == capture->origin) {
        bool into = capture->into;
        CUgraph graph = capture_end(capture);
        if (!into)
            graph_free(graph);
        return;
    }
    capture_invalidate(capture);
    CUstream *link = &capture->streams;
    while (*link != stream)
        link = &(*link)->next_captured;
    *link = stream->next_captured;
    stream->capture = NULL;
}

/* Into `graph`, NULL: a new one. The engine is entered. */
static CUresult begin_capture(CUstream handle, CUstreamCaptureMode mode, CUgraph graph) {
    CUstream stream;
    CUresult result = mode > CU_STREAM_CAPTURE_MODE_RELAXED ? CUDA_ERROR_INVALID_VALUE : stream_of(handle, &stream);
    if (!result && stream == stream->context->legacy)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!result && stream->capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result)
        return result;
    struct capture *capture = allocate(sizeof *capture);
    *capture = (struct capture){
        .next = captures,
        .id = engine_next_id(),
        .mode = mode,
        .origin = stream,
        .thread = pthread_self(),
        .graph = graph ? graph : graph_new(),
        .into = graph != NULL,
        .first = graph ? graph->nodes.count : 0,
    };
    captures = capture;
    join(capture, stream);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
    ENTER();
    LEAVE(begin_capture(handle, mode, NULL));
}

EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode *dependencies,
                                            const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) {
    ENTER();
    CUstream stream;
    (void)edges; /* no node of the stand-in's has more than one kind of them */
    bool valid = graph && graph->object.kind == KIND_GRAPH && !graph->object.destroyed && (dependencies || !count);
    CUresult result = valid ? begin_capture(handle, mode, graph) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = stream_of(handle, &stream);
    for (size_t i = 0; !result && i < count; i++)
        nodes_add(&stream->nodes, dependencies[i]);
    LEAVE(result);
}

EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
    ENTER();
    CUstream stream;
    CUresult result = graph ? stream_of(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        LEAVE(result);
    *graph = NULL;
    struct capture *capture = stream->capture;
    if (!capture)
        LEAVE(CUDA_ERROR_ILLEGAL_STATE);
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        LEAVE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    if (stream != capture->origin) {
        capture_invalidate(capture);
        LEAVE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    if (capture->invalidated)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!graph_is_joined(capture->graph, capture->first, &stream->nodes))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    bool into = capture->into;
    CUgraph captured = capture_end(capture);
    if (!result)
        *graph = captured;
    else if (!into)
        graph_free(captured);
    LEAVE(result);
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    if (engine_ready())
        return engine_ready();
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static CUstreamCaptureStatus status_of(CUstream stream) {
    if (!stream->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* 906 for the legacy stream where it would be in a capture's way; unlike other calls asking spoils nothing. */
static CUresult check_asking(CUstream stream) {
    if (stream != stream->context->legacy)
        return CUDA_SUCCESS;
    for (CUstream other = stream->context->streams; other; other = other->next)
        if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING))
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph,
                                          const CUgraphNode **dependencies, const CUgraphEdgeData **edges,
                                          size_t *count) {
    ENTER();
    CUstream stream;
    CUresult result = status ? stream_of(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = check_asking(stream);
    if (result)
        LEAVE(result);
    *status = status_of(stream);
    if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (id)
            *id = stream->capture->id;
        if (graph)
            *graph = stream->capture->graph;
        if (dependencies)
            *dependencies = stream->nodes.items;
        if (edges)
            *edges = NULL;
        if (count)
            *count = stream->nodes.count;
    }
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph,
                                          const CUgraphNode **dependencies, size_t *count) {
    return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, NULL, count);
}

EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id) {
    return cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    return cuStreamGetCaptureInfo_v3(stream, status, NULL, NULL, NULL, NULL, NULL);
}
