/* SPDX-License-Identifier: Apache-2.0
 *
 * Events. An event is what its newest record is: a work in a stream, done or not, with the time at which it was done.
 */
#include <unistd.h>

#include "test/standin/driver/engine.h"

CUresult event_check(CUevent event) {
    if (!event || event->object.kind != KIND_EVENT)
        return CUDA_ERROR_INVALID_HANDLE;
    if (context_check(event->context))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return event->object.destroyed ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

void event_set_record(CUevent event, struct work *work) {
    work_hold(work);
    work_drop(event->record);
    event->record = work;
    event->capture = 0;
    nodes_clear(&event->nodes);
}

void event_unname(CUevent event) {
    if (--event->commands == 0 && event->object.destroyed)
        object_retire(event);
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
    enum { KNOWN = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS };
    ENTER();
    CUcontext context;
    bool bad =
        !event || flags & ~(unsigned)KNOWN || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING));
    CUresult result = bad ? CUDA_ERROR_INVALID_VALUE : context_current(&context);
    if (result)
        LEAVE(result);
    *event = allocate(sizeof **event);
    (*event)->object.kind = KIND_EVENT;
    (*event)->context = context;
    (*event)->flags = flags;
    LEAVE(CUDA_SUCCESS);
}

static bool is_busy(CUevent event) {
    return event->record && !event->record->done;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
    ENTER();
    CUresult result = event_check(event);
    if (result)
        LEAVE(result);
    if (is_busy(event))
        count_call(STANDIN_DESTROY_BUSY, __builtin_return_address(0));
    while (is_busy(event) && knobs.destroy_hangs)
        pthread_cond_wait(&engine_changed, &engine_lock);
    work_drop(event->record);
    event->record = NULL;
    nodes_clear(&event->nodes);
    event->object.destroyed = true;
    if (!event->commands)
        object_retire(event);
    LEAVE(CUDA_SUCCESS);
}

/* Under capture EXTERNAL makes a node that records at every launch; otherwise the event only marks a place among the
 * captured work and cannot be asked. */
static CUresult record_captured(CUevent event, CUstream stream, bool external) {
    if (!external)
        return capture_record(stream, event);
    struct command *command = command_with_event(COMMAND_RECORD, event);
    return stream_submit(stream, command);
}

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags) {
    ENTER();
    CUstream stream;
    bool external = flags & CU_EVENT_RECORD_EXTERNAL;
    CUresult result = flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_INVALID_VALUE : event_check(event);
    if (!result)
        result = stream_of(handle, &stream);
    if (!result && context_of_events(event->context) != context_of_events(stream->context))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = capture_check_legacy(stream);
    if (result)
        LEAVE(result);
    if (stream->capture)
        LEAVE(record_captured(event, stream, external));
    if (external)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    struct command *command = command_new(COMMAND_RECORD);
    struct work *work = stream_append(stream, command, NULL);
    event_set_record(event, work);
    work_drop(work);
    command_drop(command);
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    return cuEventRecordWithFlags(event, stream, CU_EVENT_DEFAULT);
}

/* A captured event stands for no execution; asking for it also spoils the capture, if that still goes on. */
static CUresult check_not_captured(CUevent event) {
    if (!event->capture)
        return CUDA_SUCCESS;
    struct capture *capture = capture_find(event->capture);
    if (capture)
        capture_invalidate(capture);
    return CUDA_ERROR_CAPTURED_EVENT;
}

static CUresult check_askable(CUevent event) {
    CUresult result = event_check(event);
    if (!result)
        result = check_not_captured(event);
    return result ? result : capture_check_unsafe();
}

EXPORT CUresult cuEventQuery(CUevent event) {
    while (knobs.query_hangs_for && caller_is(knobs.query_hangs_for, __builtin_return_address(0)))
        pause();
    ENTER();
    CUresult result = check_askable(event);
    if (!result && is_busy(event))
        result = CUDA_ERROR_NOT_READY;
    LEAVE(result);
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
    ENTER();
    CUresult result = check_askable(event);
    if (result)
        LEAVE(result);
    count_call(STANDIN_SYNCHRONIZE, __builtin_return_address(0));
    if (event->record) {
        struct work *record = work_hold(event->record);
        work_wait(record);
        work_drop(record);
    }
    LEAVE(CUDA_SUCCESS);
}

static CUresult check_timed(CUevent event) {
    CUresult result = event_check(event);
    if (!result)
        result = check_not_captured(event);
    if (!result && (event->flags & CU_EVENT_DISABLE_TIMING || !event->record))
        result = CUDA_ERROR_INVALID_HANDLE;
    return result;
}

/* Float milliseconds as in CUDA: from a minute on a microsecond is lost in them. */
EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    ENTER();
    CUresult result = milliseconds ? check_timed(start) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = check_timed(end);
    if (!result && context_of_events(start->context) != context_of_events(end->context))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = capture_check_unsafe();
    if (!result && (is_busy(start) || is_busy(end)))
        result = CUDA_ERROR_NOT_READY;
    if (!result)
        *milliseconds = (float)((double)(int64_t)(end->record->time - start->record->time) * 1e-6);
    LEAVE(result);
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    return cuEventElapsedTime_v2(milliseconds, start, end);
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
    ENTER();
    CUstream stream;
    CUresult result = flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL ? CUDA_ERROR_INVALID_VALUE : event_check(event);
    if (!result)
        result = stream_of(handle, &stream);
    if (!result)
        result = capture_check_legacy(stream);
    if (result)
        LEAVE(result);
    if (flags & CU_EVENT_WAIT_EXTERNAL) {
        if (!stream->capture)
            LEAVE(CUDA_ERROR_INVALID_VALUE);
        LEAVE(stream_submit(stream, command_with_event(COMMAND_WAIT, event)));
    }
    if (stream->capture || event->capture)
        LEAVE(capture_wait(stream, event));
    if (is_busy(event)) {
        struct work_list after = {0};
        works_add(&after, event->record);
        struct command *command = command_new(COMMAND_WAIT);
        work_drop(stream_append(stream, command, &after));
        command_drop(command);
    }
    LEAVE(CUDA_SUCCESS);
}
