/* SPDX-License-Identifier: Apache-2.0
 *
 * What application threads do. On the way of a launch there is no lock, no allocation and no driver call that could
 * wait.
 */
#include "shim/gpu/timing.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/fork_page.h"
#include "shim/base/os.h"
#include "shim/gpu/device.h"
#include "shim/gpu/driver.h"
#include "shim/gpu/finish.h"
#include "shim/gpu/graphs.h"
#include "shim/gpu/harvester.h"
#include "shim/gpu/kernel_times.h"
#include "shim/gpu/mode.h"
#include "shim/gpu/waits.h"

#define START_PATIENCE_NS 1000000000u

/* ---- attaching ------------------------------------------------------------------------------- */

static void say_why(const char *why) {
    recorder.header->gpu_timing = GPU_TIMING_HOST;
    copy_text(recorder.header->gpu_timing_why, sizeof recorder.header->gpu_timing_why, why);
}

/* Before the destructors of the driver's library, which was loaded before this is called. */
static void end_with_process(void) {
    static bool registered;
    if (!registered)
        registered = atexit(gpu_timing_exit) == 0;
}

static void start_engine(uint32_t generation) {
    enum gpu_timing mode = gpu_mode_begin(gpu_driver_find());
    memset(&gpu, 0, sizeof gpu);
    graphs_begin();
    gpu.kernel = mode == GPU_TIMING_KERNEL;
    gpu.events_asked = !strcmp(recorder.knobs.gpu_timing, "events");
    gpu.stopped = mode != GPU_TIMING_EVENTS && mode != GPU_TIMING_KERNEL;
    const char *trouble = NULL;
    if (gpu.kernel && !kernel_times_begin())
        trouble = "no memory for in-kernel times";
    __atomic_store_n(&gpu.generation, generation, __ATOMIC_RELEASE);
    if (!gpu.stopped) {
        captures_begin();
        end_with_process();
        trouble = trouble ? trouble : harvester_begin();
    }
    if (trouble) {
        gpu.stopped = 1;
        say_why(trouble);
    }
}

/* The first communicator of the process starts everything; others that come at the same time wait for it, which is
 * much shorter than what they are about to do. */
static bool started(void) {
    uint32_t generation = *recorder_armed;
    if (!generation)
        return false;
    uint64_t begin = os_monotonic_ns();
    while (!fork_lock_try(FORK_LOCK_GPU)) {
        if (os_monotonic_ns() - begin > START_PATIENCE_NS)
            return false;
        sched_yield();
    }
    if (gpu.generation != generation)
        start_engine(generation);
    fork_lock_release(FORK_LOCK_GPU);
    return gpu_is_live();
}

static int attach_current(void *context) {
    int ordinal;
    if (gpu_driver.context_device(&ordinal) != GPU_SUCCESS)
        return -1;
    struct gpu_device *device = gpu_device_attach(context, ordinal);
    return device ? (int)gpu_device_index(device) : -1;
}

static int attach(void *context) {
    void *ignored;
    if (gpu_driver.context_push(context) != GPU_SUCCESS)
        return -1;
    int index = attach_current(context);
    gpu_driver.context_pop(&ignored);
    return index;
}

/* Where a green context is current, the one that its streams are found by: the context of the default stream. */
int gpu_attach_device(void) {
    int saved = errno, index = -1;
    void *context = NULL, *of_streams = NULL;
    if (started() && gpu_driver.context_current(&context) == GPU_SUCCESS && context) {
        bool other = gpu_driver.stream_context(NULL, &of_streams) == GPU_SUCCESS && of_streams != context;
        index = other && of_streams ? attach(of_streams) : attach_current(context);
    }
    errno = saved;
    return index;
}

int gpu_attach_ordinal(int ordinal) {
    int saved = errno, index = -1;
    void *context = NULL;
    if (started() && gpu_driver.primary_context && gpu_driver.primary_context(&context, ordinal) == GPU_SUCCESS &&
        context)
        index = attach(context);
    errno = saved;
    return index;
}

/* ---- a launch -------------------------------------------------------------------------------- */

/* For a special handle the device's context must be current: it means another stream in each. */
static bool enter_for(struct gpu_device *device, const void *stream) {
    return GPU_STREAM_IS_SPECIAL(stream) && gpu_context_enter(device);
}

static struct gpu_device *live_device(int device, void *stream) {
    struct gpu_device *found = gpu_device_of_stream(&gpu.devices[device], stream);
    if (found && gpu_device_is_live(found))
        return found;
    /* another thread may just be making the events of this context */
    bool coming = found && __atomic_load_n(&found->life, __ATOMIC_RELAXED) != DEVICE_GONE;
    count_loss(coming ? &recorder.header->losses.gpu_no_event : &recorder.header->losses.gpu_failed);
    return NULL;
}

static void launch_failed(struct gpu_span *span, int status) {
    count_loss(&recorder.header->losses.gpu_failed);
    if (status == GPU_INVALID_HANDLE)
        gpu_stream_forget(span->stream);
    else
        gpu_device_error(span->device, status);
    gpu_span_put(span);
}

static struct gpu_span *begin_timing(struct gpu_device *device, void *stream) {
    if (unlikely(__atomic_load_n(&gpu.shed, __ATOMIC_RELAXED))) {
        count_loss(&recorder.header->own_cost.gpu_shed);
        return NULL;
    }
    struct gpu_span *span = gpu_span_take(device);
    if (!span) {
        count_loss(&recorder.header->losses.gpu_no_event);
        return NULL;
    }
    span->kind = SPAN_LAUNCH;
    span->started = 0;
    span->stream = stream;
    span->enqueued_ns = os_monotonic_ns();
    int status = gpu_driver.event_record(span->start, stream);
    if (status != GPU_SUCCESS) {
        launch_failed(span, status);
        return NULL;
    }
    return span;
}

/* Capture is asked about first: of a stream under capture little else may be asked. */
struct gpu_span *gpu_span_begin(int index, void *stream, uint32_t streams) {
    if (index < 0 || gpu.kernel || !gpu_is_live())
        return NULL;
    int saved = errno, capturing = GPU_CAPTURE_STATUS_NONE;
    struct gpu_device *device = &gpu.devices[index];
    struct gpu_span *span = NULL;
    bool entered = enter_for(device, stream);
    if (gpu_driver.stream_is_capturing(stream, &capturing) != GPU_SUCCESS)
        count_loss(&recorder.header->losses.gpu_failed);
    else if (capturing == GPU_CAPTURE_STATUS_ACTIVE)
        span = graphs_capture_begin(device, stream, streams);
    else if (capturing == GPU_CAPTURE_STATUS_NONE && (device = live_device(index, stream)))
        span = begin_timing(device, stream);
    gpu_context_leave(entered);
    errno = saved;
    return span;
}

#define CAPABILITY_MAJOR 75    /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
#define OVERLAPPING      9     /* ... of devices that have programmatic dependent launches */
#define OVERLAPPING_CUDA 12030 /* and the driver's version from which NCCL asks for them */

bool gpu_overlaps_launches(int index) {
    int capability = OVERLAPPING, version = OVERLAPPING_CUDA;
    if (index < 0 || !gpu_is_live() || gpu_driver.backend != GPU_BACKEND_CUDA)
        return false;
    if (gpu_driver.attribute)
        gpu_driver.attribute(&capability, CAPABILITY_MAJOR, gpu.devices[index].ordinal);
    if (gpu_driver.version)
        gpu_driver.version(&version);
    return capability >= OVERLAPPING && version >= OVERLAPPING_CUDA;
}

struct gpu_span *gpu_span_begin_overlapping(int index, void *stream, uint32_t streams) {
    if (gpu.events_asked)
        return gpu_span_begin(index, stream, streams);
    if (gpu_stream_is_capturing(index, stream))
        return gpu_span_begin(index, stream, GPU_STREAMS_UNTIMED);
    if (index >= 0 && !gpu.kernel && gpu_is_live())
        count_loss(&recorder.header->losses.gpu_overlapping);
    return NULL;
}

bool gpu_span_is_captured(const struct gpu_span *span) {
    return span && span->kind == SPAN_CAPTURED;
}

void gpu_span_holds(const struct gpu_span *span, const struct capture_part *part) {
    graphs_capture_holds(span, part);
}

void gpu_span_holds_more(const struct gpu_span *span) {
    graphs_capture_holds_more(span);
}

static void end_launch(struct gpu_span *span, const struct gpu_launch *launch) {
    int status = gpu_driver.event_record(span->stop, span->stream);
    if (status != GPU_SUCCESS) {
        launch_failed(span, status);
        finish_unfollowed(launch);
        return;
    }
    span->launch = *launch;
    span->epoch_bits = recorder.epoch_bits;
    span->reached =
        launch->progress && launch->collectives ? __atomic_load_n(&launch->progress->enqueued, __ATOMIC_RELAXED) : 0;
    if (!launch->quiet)
        waits_launched(span->stream, launch->op);
    gpu_span_push(span);
}

void gpu_span_end(struct gpu_span *span, const struct gpu_launch *launch) {
    if (!span)
        return;
    int saved = errno;
    bool entered = enter_for(span->device, span->stream);
    if (span->kind == SPAN_CAPTURED)
        graphs_capture_end(span, launch);
    else
        end_launch(span, launch);
    gpu_context_leave(entered);
    errno = saved;
}

void gpu_span_drop(struct gpu_span *span) {
    if (span && span->kind == SPAN_CAPTURED)
        graphs_capture_drop(span);
    else if (span)
        gpu_span_put(span);
}

bool gpu_stream_is_capturing(int index, void *stream) {
    int saved = errno, capturing = GPU_CAPTURE_STATUS_NONE;
    if (index < 0 || !gpu_is_live())
        return false;
    bool entered = enter_for(&gpu.devices[index], stream);
    int status = gpu_driver.stream_is_capturing(stream, &capturing);
    gpu_context_leave(entered);
    errno = saved;
    return status == GPU_SUCCESS && capturing != GPU_CAPTURE_STATUS_NONE;
}

/* ---- COMMTAP_BUDGET --------------------------------------------------------------------------- */

bool gpu_events_are_in_use(void) {
    return gpu_is_live() && !gpu.kernel;
}

void gpu_events_shed(bool shed) {
    __atomic_store_n(&gpu.shed, shed, __ATOMIC_RELAXED);
}

/* ---- ends ------------------------------------------------------------------------------------ */

void gpu_abort_communicator(uint32_t comm) {
    int saved = errno;
    if (gpu_is_live()) {
        harvester_look();
        finish_abort(comm);
    }
    errno = saved;
}

void gpu_timing_exit(void) {
    int saved = errno;
    if (gpu_is_live())
        harvester_end();
    errno = saved;
}
