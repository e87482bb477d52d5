/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of plugin.h.
 */
#include "shim/nccl/plugin.h"

#include <errno.h>
#include <string.h>

#include "shim/base/fork_page.h"
#include "shim/base/self_path.h"
#include "shim/gpu/harvester.h"
#include "shim/intercept/activate.h"
#include "shim/nccl/nccl_begin.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/nccl/nccl_frame.h"
#include "shim/nccl/nccl_groups.h"
#include "shim/nccl/nccl_sensors.h"
#include "shim/nccl/plugin_abi.h"
#include "shim/nccl/plugin_proxy.h"

#define VARIABLE      "NCCL_PROFILER_PLUGIN"
#define FIRST_VERSION 22700u /* of NCCL, with version 4 of the interface */
#define CONTEXTS      1024u
#define NAME_PREFIX   4u /* "nccl" */
#define CALLS_MASK    (PROFILER_COLL_API | PROFILER_P2P_API)
#define CALLS_MASK_V4 (PROFILER_COLL | PROFILER_P2P)
#define KERNEL_MASK   (CALLS_MASK_V4 | PROFILER_KERNEL_CH | PROFILER_PROXY_OP | PROFILER_PROXY_STEP)

/* A communicator as NCCL names it to the plugin. */
struct context {
    uint32_t taken;
    uint32_t comm;  /* local index + 1, 0 = not seen with a call yet */
    uint32_t asker; /* place in `askers` + 1 */
};

/* A copy of NCCL: its event mask, and how many of its communicators are alive. */
struct asker {
    int *mask; /* NULL = free; what it points to goes away with the last communicator */
    uint32_t users;
    bool v4;
};

static struct {
    uint32_t used;      /* generation in which the plugin was loaded */
    uint32_t announced; /* groups of tasks so far */
    uint32_t proxies;   /* generation that proxies have their tables for */
    struct asker askers[NCCL_COPIES];
    struct context contexts[CONTEXTS];
} plugin;

extern char **environ;

/* ---- being loaded ---------------------------------------------------------------------------- */

static inline bool is_wanted(const struct knobs *knobs) {
    return knobs_enabled(knobs) && strcmp(knobs->gpu_timing, "off") != 0;
}

AT_START void plugin_offer(const struct knobs *knobs) {
    static char variable[] = VARIABLE; /* not constant: then it lies in a page that is touched anyway */
    if (!knobs || is_wanted(knobs))
        self_offer(variable);
}

/* Before the first communicator of a process nobody has loaded it; where it is ours and the library knows plugins it
 * will be. */
static bool is_expected(void) {
    char path[512];
    if (recorder.header->nccl_version < FIRST_VERSION || !self_path(path, sizeof path))
        return false;
    for (char **entry = environ; entry && *entry; entry++)
        if (!strncmp(*entry, VARIABLE "=", sizeof VARIABLE) && !strcmp(*entry + sizeof VARIABLE, path))
            return true;
    return false;
}

void plugin_begin(void) {
    harvester_also = proxy_look;
    kernel_times_offer(is_wanted(&recorder.knobs) && (plugin_is_used() || is_expected()));
}

bool plugin_is_used(void) {
    return __atomic_load_n(&plugin.used, __ATOMIC_ACQUIRE) == *recorder_armed && *recorder_armed;
}

/* Copies that look at the same time are rare and quick; whoever is refused leaves its mask as it is: empty. */
static bool change_begin(void) {
    for (int i = 0; i < 1000; i++)
        if (fork_lock_try(FORK_LOCK_PLUGIN))
            return true;
    return false;
}

static void change_end(void) {
    fork_lock_release(FORK_LOCK_PLUGIN);
}

static int mask_of(const struct asker *asker) {
    if (!*recorder_armed)
        return 0;
    int calls = asker->v4 ? CALLS_MASK_V4 : CALLS_MASK;
    return kernel_times_live() ? calls | KERNEL_MASK : calls;
}

void plugin_follow_mode(void) {
    if (!change_begin())
        return;
    if (kernel_times_live() && plugin.proxies != *recorder_armed) {
        plugin.proxies = *recorder_armed;
        proxy_begin();
    }
    for (uint32_t i = 0; i < NCCL_COPIES; i++) {
        const struct asker *asker = &plugin.askers[i];
        if (asker->mask && __atomic_load_n(asker->mask, __ATOMIC_RELAXED) != mask_of(asker))
            __atomic_store_n(asker->mask, mask_of(asker), __ATOMIC_RELAXED);
    }
    change_end();
}

/* The copy that a mask belongs to; NULL when there are too many. */
static struct asker *asker_of(int *mask, bool v4) {
    struct asker *free = NULL;
    for (uint32_t i = 0; i < NCCL_COPIES; i++) {
        if (plugin.askers[i].mask == mask)
            return &plugin.askers[i];
        if (!plugin.askers[i].mask)
            free = &plugin.askers[i];
    }
    if (free)
        *free = (struct asker){.mask = mask, .v4 = v4};
    return free;
}

static struct context *take_context(struct asker *asker) {
    for (uint32_t i = 0; i < CONTEXTS; i++)
        if (!__atomic_exchange_n(&plugin.contexts[i].taken, 1, __ATOMIC_ACQUIRE)) {
            plugin.contexts[i].comm = 0;
            plugin.contexts[i].asker = (uint32_t)(asker - plugin.askers) + 1;
            asker->users++;
            return &plugin.contexts[i];
        }
    return NULL;
}

/* A library that no wrapper stands before (linked statically) still tells its plugin: the dump then says what is
 * missing in it. */
static bool is_recording(void) {
    recorder_read_environment();
    if (recorder.gave_up || !is_wanted(&recorder.knobs))
        return false;
    return (*recorder_armed || activate_process()) && nccl_begin(NULL);
}

/* Anything but success would be worse where we are not wanted: 2.28 keeps asking a plugin that failed, later versions
 * count their users wrong after it. Without a context and with an empty mask nothing more comes. */
static int initialise(void **context, int *mask, bool v4) {
    int saved = errno;
    *context = NULL;
    if (self_preloaded() && is_recording() && change_begin()) {
        struct asker *asker = asker_of(mask, v4);
        struct context *taken = asker ? take_context(asker) : NULL;
        if (taken) {
            __atomic_store_n(&plugin.used, *recorder_armed, __ATOMIC_RELEASE);
            __atomic_store_n(mask, mask_of(asker), __ATOMIC_RELAXED);
            *context = taken;
        }
        change_end();
    }
    errno = saved;
    return 0;
}

static struct context *context_of(const void *pointer) {
    uintptr_t offset = (uintptr_t)pointer - (uintptr_t)plugin.contexts;
    if (offset >= sizeof plugin.contexts || offset % sizeof *plugin.contexts)
        return NULL;
    return &plugin.contexts[offset / sizeof *plugin.contexts];
}

uint32_t plugin_comm_of(const void *pointer) {
    const struct context *context = context_of(pointer);
    return context ? __atomic_load_n(&context->comm, __ATOMIC_RELAXED) - 1 : COMM_NONE;
}

static uint32_t owner_number(const void *pointer) {
    const struct context *context = context_of(pointer);
    return context ? (uint32_t)(context - plugin.contexts) + 1 : 0;
}

static int finalize(void *pointer) {
    struct context *context = context_of(pointer);
    if (!context || !__atomic_load_n(&context->taken, __ATOMIC_ACQUIRE))
        return 0;
    if (kernel_times_live())
        kernel_spans_release(owner_number(pointer));
    while (!change_begin())
        ;
    struct asker *asker = &plugin.askers[context->asker - 1];
    if (asker->users && --asker->users == 0) { /* the library may be unloaded now */
        __atomic_store_n(asker->mask, 0, __ATOMIC_RELAXED);
        asker->mask = NULL;
    }
    change_end();
    __atomic_store_n(&context->taken, 0, __ATOMIC_RELEASE);
    return 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The wrapper that the calling thread is in; NULL when no wrapper saw the call. */
static struct call_frame *frame_of_thread(void) {
    const struct thread *self = this_thread;
    uint32_t armed = *recorder_armed;
    return self && armed && self->generation == armed && self->outer ? self->frame : NULL;
}

/* Without a wrapper around the making of communicators this is the first that is known of the library being up. */
static void library_is_up(void) {
    if (__atomic_load_n(&recorder.header->state, __ATOMIC_RELAXED) & STATE_INITIALISED)
        return;
    recorder.header->initialised_ticks = ticks();
    __atomic_fetch_or(&recorder.header->state, STATE_INITIALISED, __ATOMIC_RELEASE);
}

static void count_unseen(const char *function) {
    library_is_up();
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

static void count(struct call_frame *f, const char *function) {
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

struct kernel_span *plugin_span_of(const void *handle, enum plugin_handle_kind kind) {
    struct plugin_handle h = plugin_handle_unpack(handle);
    return h.kind == kind ? kernel_span_find(h.number, h.life) : NULL;
}

static void learn_communicator(const void *pointer, uint32_t comm) {
    struct context *context = context_of(pointer);
    if (context && context->comm != comm + 1)
        __atomic_store_n(&context->comm, comm + 1, __ATOMIC_RELAXED);
}

static void *start_call(const void *context, const char *function, bool captured) {
    struct call_frame *f = frame_of_thread();
    count(f, function);
    if (!kernel_times_live() || !f || !f->comm)
        return NULL;
    learn_communicator(context, f->comm->index);
    struct kernel_span *span = span_of_call(f);
    if (!span)
        return NULL;
    span->members++;
    span->captured |= captured;
    span->owner = owner_number(context);
    return pack(span, PLUGIN_CALL);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Version 4: the call is the one that the thread is in, or ends a group in. Its launch is under way already. */
static struct kernel_span *span_of_thread(const void *context) {
    struct call_frame *f = frame_of_thread();
    if (!f)
        return NULL;
    if (f->comm && !group_is_open(f->self)) {
        learn_communicator(context, f->comm->index);
        return span_of_call(f);
    }
    struct nccl_group *group = group_of(f->self);
    for (uint32_t i = 0; group && i < group->launch_count; i++) {
        struct group_launch *launch = &group->launches[i];
        if (group->launch_count > 1 && launch->comm->index != plugin_comm_of(context))
            continue;
        learn_communicator(context, launch->comm->index);
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
        count(in_call ? f : NULL, function);
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
    uint32_t number = __atomic_add_fetch(&plugin.announced, 1, __ATOMIC_RELAXED) & 0xffffff;
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
