/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams as the job sees them: handles, special handles, and what puts work there or asks about it. How work runs is
 * in queue.c, what changes under capture in capture.c.
 */
#include <stdlib.h>
#include <time.h>

#include "test/standin/driver/engine.h"

/* Its address is the mark of the thread that owns a per-thread default stream. */
static _Thread_local char thread_mark;

static CUstream per_thread_stream(CUcontext context) {
    for (CUstream stream = context->streams; stream; stream = stream->next)
        if (stream->thread == &thread_mark)
            return stream;
    CUstream stream = stream_new(context, CU_STREAM_DEFAULT, 0);
    stream->implicit = true;
    stream->thread = &thread_mark;
    return stream;
}

CUresult stream_of(CUstream handle, CUstream *stream) {
    if ((uintptr_t)handle <= 2) {
        CUcontext context;
        CUresult result = context_current(&context);
        if (!result)
            *stream = handle == CU_STREAM_PER_THREAD ? per_thread_stream(context) : context->legacy;
        return result;
    }
    if (handle->object.kind != KIND_STREAM)
        return CUDA_ERROR_INVALID_HANDLE;
    if (context_check(handle->context))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *stream = handle;
    return handle->object.destroyed ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult stream_submit(CUstream stream, struct command *command) {
    CUresult result = stream->capture ? capture_add(stream, command) : capture_check_legacy(stream);
    if (!stream->capture && !result)
        work_drop(stream_append(stream, command, NULL));
    if (result)
        command->release = NULL;
    command_drop(command);
    return result;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    ENTER();
    CUcontext context;
    CUresult result = !stream || flags & ~CU_STREAM_NON_BLOCKING ? CUDA_ERROR_INVALID_VALUE : context_current(&context);
    if (!result)
        *stream = stream_new(context, flags, priority);
    LEAVE(result);
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result && stream->implicit)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result) {
        capture_leave(stream);
        stream_close(stream);
    }
    LEAVE(result);
}

EXPORT CUresult cuStreamGetPriority(CUstream handle, int *priority) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        *priority = stream->priority;
    LEAVE(result);
}

EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned *flags) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        *flags = stream->flags;
    LEAVE(result);
}

EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long *id) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        *id = stream->id;
    LEAVE(result);
}

EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        *context = stream->context;
    LEAVE(result);
}

EXPORT CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *context, CUgreenCtx *green) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result) {
        *context = context_of_events(stream->context);
        *green = stream->context->primary ? (CUgreenCtx)stream->context : NULL;
    }
    LEAVE(result);
}

EXPORT CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned flags, int priority) {
    ENTER();
    CUresult result =
        !stream || flags != CU_STREAM_NON_BLOCKING ? CUDA_ERROR_INVALID_VALUE : context_check((CUcontext)green);
    if (!result)
        *stream = stream_new((CUcontext)green, flags, priority);
    LEAVE(result);
}

/* Unlike cuStreamGetCtx not allowed on a stream under capture, which it ends. */
EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice *device) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result && stream->capture) {
        result = stream->capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                              : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        capture_invalidate(stream->capture);
    }
    if (!result)
        *device = stream->context->device;
    LEAVE(result);
}

/* The legacy stream stands for all blocking streams of its context. */
static bool is_idle(CUstream stream) {
    if (stream != stream->context->legacy)
        return stream_is_idle(stream);
    for (CUstream other = stream->context->streams; other; other = other->next)
        if (!(other->flags & CU_STREAM_NON_BLOCKING) && !stream_is_idle(other))
            return false;
    return true;
}

EXPORT CUresult cuStreamQuery(CUstream handle) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        result = capture_check_wait(stream);
    if (!result && !is_idle(stream))
        result = CUDA_ERROR_NOT_READY;
    LEAVE(result);
}

EXPORT CUresult cuStreamSynchronize(CUstream handle) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        result = capture_check_wait(stream);
    if (result)
        LEAVE(result);
    count_call(STANDIN_SYNCHRONIZE, __builtin_return_address(0));
    if (stream == stream->context->legacy)
        stream_append_done_with(stream, command_new(COMMAND_EMPTY)); /* comes after all blocking streams */
    stream_wait(stream);
    LEAVE(CUDA_SUCCESS);
}

static CUresult submit_host(CUstream handle, void (*function)(void *), void *argument, void (*release)(void *)) {
    CUstream stream;
    CUresult result = function ? stream_of(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    struct command *command = command_new(COMMAND_HOST);
    command->function = function;
    command->argument = argument;
    command->release = release;
    return stream_submit(stream, command);
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument) {
    ENTER();
    LEAVE(submit_host(stream, function, argument, NULL));
}

EXPORT int standin_stream_enqueue(struct CUstream_st *stream, void (*work)(void *), void *argument) {
    return cuLaunchHostFunc(stream, work, argument);
}

EXPORT int standin_stream_enqueue_owned(struct CUstream_st *stream, void (*work)(void *), void *argument,
                                        void (*release)(void *)) {
    ENTER();
    LEAVE(submit_host(stream, work, argument, release));
}

EXPORT int standin_stream_enqueue_late(struct CUstream_st *handle, void (*work)(void *), void *argument,
                                       void (*release)(void *)) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result && (stream->capture || stream->late))
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result)
        LEAVE(result);
    stream->late = command_new(COMMAND_HOST);
    stream->late->function = work;
    stream->late->argument = argument;
    stream->late->release = release;
    LEAVE(CUDA_SUCCESS);
}

static void sleep_ns(void *nanoseconds) {
    uint64_t left = *(uint64_t *)nanoseconds;
    struct timespec time = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
    while (nanosleep(&time, &time))
        ;
}

EXPORT int standin_stream_busy(struct CUstream_st *stream, uint64_t nanoseconds) {
    uint64_t *argument = allocate(sizeof *argument);
    *argument = nanoseconds;
    int result = standin_stream_enqueue_owned(stream, sleep_ns, argument, free);
    if (result)
        free(argument);
    return result;
}

struct callback {
    CUstreamCallback function;
    CUstream stream;
    void *argument;
};

static void run_callback(void *argument) {
    const struct callback *callback = argument;
    callback->function(callback->stream, CUDA_SUCCESS, callback->argument);
}

/* Not allowed under capture, unlike cuLaunchHostFunc. */
EXPORT CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback function, void *argument, unsigned flags) {
    ENTER();
    CUstream stream;
    CUresult result = !function || flags ? CUDA_ERROR_INVALID_VALUE : stream_of(handle, &stream);
    if (!result && stream->capture) {
        capture_invalidate(stream->capture);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (result)
        LEAVE(result);
    struct callback *callback = allocate(sizeof *callback);
    *callback = (struct callback){function, handle, argument};
    result = submit_host(handle, run_callback, callback, free);
    if (result)
        free(callback);
    LEAVE(result);
}

/* Kernels do not run; one takes its place in the stream and, captured, in the graph. */
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream handle,
                               void **parameters, void **extra) {
    (void)function, (void)shared_bytes, (void)parameters, (void)extra;
    if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z)
        return CUDA_ERROR_INVALID_VALUE;
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    LEAVE(result ? result : stream_submit(stream, command_new(COMMAND_KERNEL)));
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                          config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, parameters,
                          extra);
}
