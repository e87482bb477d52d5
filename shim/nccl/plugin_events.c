/* SPDX-License-Identifier: Apache-2.0
 *
 * What NCCL calls its profiler plugin for: calls, tasks, channels of kernels. The exported tables of functions are at
 * the end.
 * Must not live here: proxies' events (plugin_proxy.h), which events are asked for (plugin.h).
 *
 * NCCL's threads call in here: no locks, no memory, no waiting.
 *
 * Version 4 of the interface (2.27) has no events of calls. There a task belongs to the call that its thread is in;
 * replays of graphs, announced by other threads, cannot be told from each other and are not timed.
 */
#include <errno.h>
#include <string.h>

#include "shim/base/self_path.h"
#include "shim/gpu/kernel_times.h"
#include "shim/intercept/activate.h"
#include "shim/nccl/nccl_begin.h"
#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/nccl_frame.h"
#include "shim/nccl/nccl_groups.h"
#include "shim/nccl/nccl_sensors.h"
#include "shim/nccl/plugin.h"
#include "shim/nccl/plugin_abi.h"
#include "shim/nccl/plugin_contexts.h"
#include "shim/nccl/plugin_proxy.h"

#define NAME_PREFIX 4u /* "nccl" */

static uint32_t announced; /* groups of tasks so far */

/* ---- being used ------------------------------------------------------------------------------ */

/* A library that no wrapper stands before (linked statically) still tells its plugin: the dump then says what is
 * missing in it. */
static bool is_recording(void) {
    recorder_read_environment();
    if (recorder.gave_up || !plugin_is_wanted(&recorder.knobs))
        return false;
    return (*recorder_armed || activate_process()) && nccl_begin(NULL);
}

/* Anything but success would be worse where we are not wanted: 2.28 keeps asking a plugin that failed, later versions
 * count their users wrong after it. Without a context and with an empty mask nothing more comes. */
static int initialise(void **context, int *mask, bool v4) {
    int saved = errno;
    *context = self_preloaded() && is_recording() ? plugin_admit(mask, v4) : NULL;
    errno = saved;
    return 0;
}

static int finalize(void *context) {
    plugin_dismiss(context);
    return 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The wrapper that the calling thread is in; NULL when no wrapper saw the call. */
static struct call_frame *frame_of_thread(void) {
    const struct thread *self = this_thread;
    uint32_t armed = *recorder_armed;
    return self && armed && self->generation == armed && thread_is_in_call(self) ? self->frame : NULL;
}

/* Without a wrapper around the making of communicators this is the first that is known of the library being up. */
static void count_unseen(const char *function) {
    nccl_library_is_up();
    for (unsigned i = 0; function && i < CALL_INDEX_COUNT; i++) {
        const struct call *call = &commtap_calls[i];
        struct sensor_row *row = call->api == API_NCCL ? sensor_row(call) : NULL;
        if (row && call->stream && !strcmp(call->name + NAME_PREFIX, function)) {
            __atomic_fetch_add(&row->plugged, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}

/* Once per call: a function may be made of several of the library's own. */
static void count_seen(struct call_frame *f) {
    struct sensor_row *row = f->told ? NULL : sensor_row(f->call);
    f->told = 1;
    if (row)
        __atomic_fetch_add(&row->plugged, 1, __ATOMIC_RELAXED);
}

static void count_told(struct call_frame *f, const char *function) {
    if (f && f->call->stream)
        count_seen(f);
    else
        count_unseen(function);
}

/* The launch that an operation of this call belongs to. */
static struct kernel_span *span_of_call(struct call_frame *f) {
    struct kernel_span **place = &nccl_tail(f)->kernel;
    if (group_is_open(f->self)) {
        struct group_launch *launch = group_find_launch(f->self, f->comm);
        if (!launch)
            return NULL;
        place = &launch->kernel;
    }
    if (!*place)
        *place = kernel_span_take();
    return *place;
}

static void *pack(const struct kernel_span *span, enum plugin_handle_kind kind) {
    return plugin_handle_pack(
        (struct plugin_handle){.number = span->number, .life = span->life, .kind = (uint8_t)kind});
}

static void *start_call(const void *context, const char *function, bool captured) {
    struct call_frame *f = frame_of_thread();
    count_told(f, function);
    if (!kernel_times_live() || !f || !f->comm)
        return NULL;
    plugin_learn_comm(context, f->comm->index);
    struct kernel_span *span = span_of_call(f);
    if (!span)
        return NULL;
    span->members++;
    span->captured |= captured;
    span->owner = plugin_owner_number(context);
    return pack(span, PLUGIN_CALL);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Version 4: the call is the one that the thread is in, or ends a group in. Its launch is under way already. */
static struct kernel_span *span_of_thread(const void *context) {
    struct call_frame *f = frame_of_thread();
    if (!f)
        return NULL;
    if (f->comm && !group_is_open(f->self)) {
        plugin_learn_comm(context, f->comm->index);
        return span_of_call(f);
    }
    struct nccl_group *group = group_of(f->self);
    for (uint32_t i = 0; group && i < group->launch_count; i++) {
        struct group_launch *launch = &group->launches[i];
        if (group->launch_count > 1 && launch->comm->index != plugin_comm_of(context))
            continue;
        plugin_learn_comm(context, launch->comm->index);
        if (!launch->kernel)
            launch->kernel = kernel_span_take();
        return launch->kernel;
    }
    return NULL;
}

static void *task_started(struct kernel_span *span, uint32_t channels) {
    if (!span)
        return NULL;
    kernel_span_task(span, channels);
    return pack(span, PLUGIN_TASK);
}

static void *start_task_v4(const void *context, const char *function, uint32_t channels) {
    struct call_frame *f = frame_of_thread();
    /* A task of no call that is being made is a replay; where none can be, it is a call that was not seen. */
    bool in_call = f && f->call->stream;
    if (in_call || !kernel_times_live())
        count_told(in_call ? f : NULL, function);
    if (!kernel_times_live())
        return NULL;
    struct kernel_span *span = span_of_thread(context);
    if (!span) {
        count_loss(&recorder.header->losses.replays_untimed);
        return NULL;
    }
    span->members++;
    span->enqueued_ns = 0;
    return task_started(span, channels);
}

static void *start_task(const void *parent, const void *group, uint32_t channels) {
    struct kernel_span *span = kernel_times_live() ? plugin_span_of(parent, PLUGIN_CALL) : NULL;
    if (span && span->captured)
        span = kernel_span_replayed(span, plugin_handle_unpack(group).number);
    return task_started(span, channels);
}

static void *start_channel(const struct profiler_event *event) {
    struct kernel_span *span = kernel_times_live() ? plugin_span_of(event->parent, PLUGIN_TASK) : NULL;
    if (!span)
        return NULL;
    kernel_span_started(span, event->kernel.stamp);
    return pack(span, PLUGIN_CHANNEL);
}

/* Tasks follow that were announced together: those of one launch, or of one replay. */
static void *start_group(void) {
    uint32_t number = __atomic_add_fetch(&announced, 1, __ATOMIC_RELAXED) & 0xffffff;
    return plugin_handle_pack((struct plugin_handle){.kind = PLUGIN_GROUP, .number = number ? number : 1});
}

/* ---- the interface --------------------------------------------------------------------------- */

static void *start_common(const void *context, uint64_t type, const struct profiler_event *event) {
    switch (type) {
    case PROFILER_GROUP:
        return start_group();
    case PROFILER_KERNEL_CH:
        return start_channel(event);
    case PROFILER_PROXY_OP:
        return kernel_times_live() ? proxy_start(context, event) : NULL;
    case PROFILER_PROXY_STEP:
        return kernel_times_live() ? proxy_step_start(event) : NULL;
    default:
        return NULL;
    }
}

static int start_v4(void *context, void **handle, const struct profiler_event *event) {
    *handle = NULL;
    if (!*recorder_armed)
        return 0;
    if (event->type_v4 == PROFILER_COLL)
        *handle = start_task_v4(context, event->collective.function, event->collective.channels);
    else if (event->type_v4 == PROFILER_P2P)
        *handle = start_task_v4(context, event->message.function, 0);
    else
        *handle = start_common(context, event->type_v4, event);
    return 0;
}

static int start_v5(void *context, void **handle, const struct profiler_event *event) {
    *handle = NULL;
    if (!*recorder_armed)
        return 0;
    if (event->type == PROFILER_COLL_API)
        *handle = start_call(context, event->collective_call.function, event->collective_call.captured);
    else if (event->type == PROFILER_P2P_API)
        *handle = start_call(context, event->message_call.function, event->message_call.captured);
    else if (event->type == PROFILER_COLL)
        *handle = start_task(event->parent, event->collective.group, event->collective.channels);
    else if (event->type == PROFILER_P2P)
        *handle = start_task(event->parent, event->message.group, event->message.channels);
    else
        *handle = start_common(context, event->type, event);
    return 0;
}

/* Calls and tasks end when they are enqueued: of no interest. A channel's end came with its stamp. */
static int stop(void *handle) {
    if (!*recorder_armed)
        return 0;
    uint8_t kind = plugin_handle_unpack(handle).kind;
    if (kind == PLUGIN_STEP)
        proxy_step_stop(handle);
    else if (kind == PLUGIN_PROXY)
        proxy_stop(handle);
    return 0;
}

static int state(void *handle, int reached, const union profiler_state_details *details) {
    if (!*recorder_armed)
        return 0;
    struct kernel_span *span = reached == PROFILER_KERNEL_CH_STOP ? plugin_span_of(handle, PLUGIN_CHANNEL) : NULL;
    if (span && details)
        kernel_span_stopped(span, details->kernel.stamp);
    else
        proxy_step_state(handle, reached, details);
    return 0;
}

static int init_v4(void **context, int *mask, const char *comm_name, uint64_t comm_hash, int nodes, int ranks, int rank,
                   profiler_logger log) {
    (void)comm_name, (void)comm_hash, (void)nodes, (void)ranks, (void)rank, (void)log;
    return initialise(context, mask, true);
}

static int init_v5(void **context, uint64_t comm_hash, int *mask, const char *comm_name, int nodes, int ranks, int rank,
                   profiler_logger log) {
    (void)comm_name, (void)comm_hash, (void)nodes, (void)ranks, (void)rank, (void)log;
    return initialise(context, mask, false);
}

#define EXPORTED __attribute__((visibility("default")))
EXPORTED extern const struct profiler_v4 ncclProfiler_v4;
EXPORTED extern const struct profiler_v5 ncclProfiler_v5, ncclProfiler_v6;
const struct profiler_v4 ncclProfiler_v4 = {"commtap", init_v4, start_v4, stop, state, finalize};
const struct profiler_v5 ncclProfiler_v5 = {"commtap", init_v5, start_v5, stop, state, finalize};
const struct profiler_v5 ncclProfiler_v6 = {"commtap", init_v5, start_v5, stop, state, finalize};
