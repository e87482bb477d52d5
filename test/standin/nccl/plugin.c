/* SPDX-License-Identifier: Apache-2.0
 *
 * See plugin.h. Order, parents and peculiarities are those of 2.28.9: a call's event is stopped before its launch;
 * Coll is stopped when its work is enqueued; KernelCh comes after Coll was started and leaves `rank` 0; a call's handle
 * outlives the call in captured tasks.
 */
#include "test/standin/nccl/plugin.h"
#include "test/standin/nccl/plugin_api.h"
#include "test/standin/nccl/version.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_GLOBALTIMER_NS 1000000000000ull
#define CHANNEL_BYTES          65536 /* a further channel for each, up to MAX_CHANNELS */
#define MAX_CHANNELS           4
#define WARPS                  16

#define TASK_PARTS (PROFILER_PROXY_OP | PROFILER_PROXY_STEP | PROFILER_KERNEL_CH | PROFILER_NET_PLUGIN)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *library;
    bool failed;
    int users; /* communicators */
    pid_t pid;
    int version;
    const struct profiler_v4 *v4;
    const struct profiler_v6 *v6; /* or version 5 */
} plugin;
static int event_mask; /* the plugin keeps its address and changes it when it likes */

/* The state of the calling thread's group. */
static _Thread_local struct {
    int depth; /* of groups since the group's event was opened; 0 = none is open */
    int mask;
    void *group;
    enum { GROUP_IDLE, GROUP_STARTED, GROUP_START_DONE } state;
} api;

static int mask_now(void) {
    return __atomic_load_n(&event_mask, __ATOMIC_RELAXED);
}

static bool loaded(void) {
    return plugin.v4 || plugin.v6;
}

static void start_event(void *context, void **handle, struct profiler_event_v6 *event) {
    if (plugin.v6) {
        plugin.v6->startEvent(context, handle, event);
        return;
    }
    struct profiler_event_v4 old = {.type = (uint8_t)event->type, .parentObj = event->parentObj, .rank = event->rank};
    switch (event->type) {
    case PROFILER_COLL:
        memcpy(&old.coll, &event->coll, sizeof old.coll);
        old.parentObj = event->coll.parentGroup;
        break;
    case PROFILER_P2P:
        memcpy(&old.p2p, &event->p2p, sizeof old.p2p);
        old.parentObj = event->p2p.parentGroup;
        break;
    case PROFILER_PROXY_OP:
        memcpy(&old.proxyOp, &event->proxyOp, sizeof old.proxyOp);
        break;
    case PROFILER_PROXY_STEP:
        old.proxyStep.step = event->proxyStep.step;
        break;
    case PROFILER_KERNEL_CH:
        memcpy(&old.kernelCh, &event->kernelCh, sizeof old.kernelCh);
        break;
    case PROFILER_GROUP:
        break;
    default: /* the calls' events came with version 5 */
        return;
    }
    plugin.v4->startEvent(context, handle, &old);
}

static void stop_event(void *handle) {
    if (loaded() && handle)
        (plugin.v6 ? plugin.v6->stopEvent : plugin.v4->stopEvent)(handle);
}

static void record_state(void *handle, enum profiler_state state, union profiler_state_args *args) {
    bool of_calls = state == STATE_GROUP_START_API_STOP || state == STATE_GROUP_END_API_START;
    if (!loaded() || !handle || (plugin.v4 && of_calls))
        return;
    (plugin.v6 ? plugin.v6->recordEventState : plugin.v4->recordEventState)(handle, (int)state, args);
}

/* Loading */

static int newest_version(void) {
    const char *forced = getenv("STANDIN_PROFILER_VERSION");
    int version = standin_nccl_version();
    return forced ? atoi(forced) : version >= 22902 ? 6 : version >= 22803 ? 5 : 4;
}

static void load(void) {
    const char *name = getenv("NCCL_PROFILER_PLUGIN");
    if (name && strcasecmp(name, "none") == 0)
        return;
    const char *path = name && *name ? name : "libnccl-profiler.so";
    plugin.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin.library && name && *name && !strchr(name, '/')) {
        char with_prefix[256];
        snprintf(with_prefix, sizeof with_prefix, "libnccl-profiler-%s.so", name);
        plugin.library = dlopen(with_prefix, RTLD_NOW | RTLD_LOCAL);
    }
    for (int version = newest_version(); plugin.library && !loaded() && version >= 4; version--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
        void *found = dlsym(plugin.library, symbol);
        if (version == 4)
            plugin.v4 = found;
        else
            plugin.v6 = found;
    }
    if (plugin.library && !loaded())
        dlclose(plugin.library);
    plugin.pid = getpid();
}

static void log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    (void)flags;
    if (getenv("NCCL_DEBUG"))
        fprintf(stderr, "NCCL stand-in: %s:%d level %d: %s\n", file, line, level, format);
}

void plugin_init(ncclComm_t comm) {
    pthread_mutex_lock(&lock);
    if (!loaded() && !plugin.failed) {
        load();
        plugin.failed = !loaded();
    }
    plugin.users += loaded();
    pthread_mutex_unlock(&lock);
    const char *name = comm->name[0] ? comm->name : NULL;
    if (plugin.v6)
        plugin.v6->init(&comm->profiler, comm->hash, &event_mask, name, comm->hosts, comm->ranks, comm->rank, log_line);
    else if (plugin.v4)
        plugin.v4->init(&comm->profiler, &event_mask, name, comm->hash, comm->hosts, comm->ranks, comm->rank, log_line);
}

void plugin_finalize(ncclComm_t comm) {
    if (!loaded())
        return;
    if (comm->profiler)
        (plugin.v6 ? plugin.v6->finalize : plugin.v4->finalize)(comm->profiler);
    pthread_mutex_lock(&lock);
    if (--plugin.users == 0) {
        dlclose(plugin.library);
        plugin.v4 = NULL;
        plugin.v6 = NULL;
        plugin.library = NULL;
    }
    pthread_mutex_unlock(&lock);
}

/* The caller's thread: groups and calls */

static bool is_peer_to_peer(const struct task *t) {
    return t->operation.function == FUNCTION_SEND || t->operation.function == FUNCTION_RECV;
}

/* The outermost group of this thread, at its first operation. */
static void open_group(ncclComm_t comm, uint64_t capture) {
    const int wanted = PROFILER_GROUP_API | PROFILER_P2P_API | PROFILER_COLL_API | PROFILER_KERNEL_LAUNCH |
                       PROFILER_GROUP | PROFILER_COLL | PROFILER_P2P | TASK_PARTS;
    api.mask = mask_now();
    if (!loaded() || !(api.mask & wanted) || api.depth != 0)
        return;
    struct profiler_event_v6 event = {.type = PROFILER_GROUP_API};
    event.groupApi.graphCaptured = capture != 0;
    event.groupApi.groupDepth = group_depth();
    start_event(comm->profiler, &api.group, &event);
    api.depth = group_depth();
    api.state = GROUP_STARTED;
}

static void start_call(struct task *t, uint64_t capture) {
    const struct operation *o = &t->operation;
    struct profiler_event_v6 event = {.parentObj = api.group};
    if (is_peer_to_peer(t)) {
        event.type = PROFILER_P2P_API;
        event.p2pApi.func = o->name;
        event.p2pApi.count = o->count;
        event.p2pApi.datatype = type_name(o->type);
        event.p2pApi.stream = o->stream;
        event.p2pApi.graphCaptured = capture != 0;
    } else {
        event.type = PROFILER_COLL_API;
        event.collApi.func = o->name;
        event.collApi.count = o->count;
        event.collApi.datatype = type_name(o->type);
        event.collApi.root = o->root;
        event.collApi.stream = o->stream;
        event.collApi.graphCaptured = capture != 0;
    }
    start_event(o->comm->profiler, &t->api, &event);
}

void plugin_call_begin(struct task *t, uint64_t capture) {
    t->group_api = t->api = t->event = NULL;
    open_group(t->operation.comm, capture);
    if (api.state == GROUP_STARTED) {
        api.state = GROUP_START_DONE;
        record_state(api.group, STATE_GROUP_START_API_STOP, NULL);
    }
    t->mask = api.mask;
    t->group_api = api.group;
    int own = is_peer_to_peer(t) ? PROFILER_P2P_API | PROFILER_P2P : PROFILER_COLL_API | PROFILER_COLL;
    if (loaded() && (api.mask & (own | TASK_PARTS)))
        start_call(t, capture);
}

void plugin_call_end(const struct task *t) {
    stop_event(t->api);
}

void plugin_group_nest(void) {
    if (api.depth > 0)
        api.depth++;
}

void plugin_group_unnest(void) {
    if (api.depth > 0)
        api.depth--;
    if (api.depth == 0 && api.state == GROUP_START_DONE) {
        api.state = GROUP_IDLE;
        record_state(api.group, STATE_GROUP_END_API_START, NULL);
    }
}

void plugin_group_closed(void) {
    if (api.depth > 0)
        return;
    stop_event(api.group);
    api.group = NULL;
}

/* The launching thread */

static const struct task *first_with_mask(const struct plan *p) {
    for (const struct task *t = p->tasks; t < p->tasks + p->count; t++)
        if (t->mask)
            return t;
    return NULL;
}

void plugin_launch_begin(struct plan *p, cudaStream_t stream) {
    const struct task *t = first_with_mask(p);
    p->launch_event = NULL;
    if (!loaded() || !t || !(t->mask & PROFILER_KERNEL_LAUNCH))
        return;
    struct profiler_event_v6 event = {.type = PROFILER_KERNEL_LAUNCH, .parentObj = t->group_api};
    event.kernelLaunch.stream = stream;
    start_event(p->comm->profiler, &p->launch_event, &event);
}

void plugin_launch_end(struct plan *p) {
    stop_event(p->launch_event);
}

static uint8_t channels_of(const struct task *t) {
    size_t channels = 1 + t->operation.count * type_size(t->operation.type) / CHANNEL_BYTES;
    return (uint8_t)(channels < MAX_CHANNELS ? channels : MAX_CHANNELS);
}

static void start_collective(struct plan *p, struct task *t) {
    const struct operation *o = &t->operation;
    bool in_bytes = o->function == FUNCTION_ALL_GATHER || o->function == FUNCTION_BROADCAST;
    struct profiler_event_v6 event = {.type = PROFILER_COLL, .parentObj = t->api, .rank = p->comm->rank};
    event.coll.parentGroup = p->group_event;
    event.coll.seqNumber = p->comm->sequence[o->function];
    event.coll.func = o->name;
    event.coll.sendBuff = o->send;
    event.coll.recvBuff = o->recv;
    event.coll.count = in_bytes ? o->count * type_size(o->type) : o->count;
    event.coll.root = o->root;
    event.coll.datatype = type_name(in_bytes ? ncclInt8 : o->type);
    event.coll.nChannels = channels_of(t);
    event.coll.nWarps = WARPS;
    event.coll.algo = "RING";
    event.coll.proto = "SIMPLE";
    start_event(p->comm->profiler, &t->event, &event);
}

static void start_peer_to_peer(struct plan *p, struct task *t) {
    const struct operation *o = &t->operation;
    struct profiler_event_v6 event = {.type = PROFILER_P2P, .parentObj = t->api, .rank = p->comm->rank};
    event.p2p.parentGroup = p->group_event;
    event.p2p.func = o->name;
    event.p2p.buff = o->recv;
    event.p2p.count = o->count;
    event.p2p.datatype = type_name(o->type);
    event.p2p.peer = o->root;
    event.p2p.nChannels = channels_of(t);
    start_event(p->comm->profiler, &t->event, &event);
}

static void start_tasks(struct plan *p) {
    for (struct task *t = p->tasks; t < p->tasks + p->count; t++) {
        bool peer_to_peer = is_peer_to_peer(t);
        t->event = NULL;
        if (loaded() && (t->mask & ((peer_to_peer ? PROFILER_P2P : PROFILER_COLL) | TASK_PARTS)))
            (peer_to_peer ? start_peer_to_peer : start_collective)(p, t);
        if (!peer_to_peer && (!p->capture || ((p->group_event || t->api) && (t->mask & PROFILER_KERNEL_CH))))
            p->comm->sequence[t->operation.function]++;
    }
}

static bool crosses_hosts(const struct plan *p) {
    return p->comm->hosts > 1;
}

bool plugin_announces_at_replay(const struct plan *p) {
    if (!p->capture)
        return false;
    for (const struct task *t = p->tasks; t < p->tasks + p->count; t++)
        if (loaded() && (t->mask & PROFILER_KERNEL_CH))
            return true;
    return crosses_hosts(p);
}

void plugin_announce(struct plan *p) {
    const struct task *first = first_with_mask(p);
    p->group_event = NULL;
    if (loaded() && first && (first->mask & (PROFILER_GROUP | PROFILER_COLL | PROFILER_P2P | TASK_PARTS))) {
        struct profiler_event_v6 event = {.type = PROFILER_GROUP};
        start_event(p->comm->profiler, &p->group_event, &event);
    }
    start_tasks(p);
    for (struct task *t = p->tasks; t < p->tasks + p->count; t++)
        stop_event(t->event);
    stop_event(p->group_event);
    p->announced = 1;
    syscall(SYS_futex, &p->announced, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The stream's thread, in the place of GPU and proxy */

static uint64_t globaltimer(void) {
    static _Atomic uint64_t ahead;
    if (!ahead) {
        const char *setting = getenv("STANDIN_GLOBALTIMER_NS");
        ahead = setting ? strtoull(setting, NULL, 0) : DEFAULT_GLOBALTIMER_NS;
    }
    return monotonic_ns() + ahead;
}

struct kernel_trace {
    size_t count;
    void *handles[];
};

/* A proxy sees a kernel only after it was told of its tasks. */
static void wait_until_announced(struct plan *p) {
    while (!p->announced)
        syscall(SYS_futex, &p->announced, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

struct kernel_trace *kernel_begin(struct plan *p) {
    uint64_t start = globaltimer();
    if (plugin_announces_at_replay(p))
        plugin_announce(p);
    if (!loaded())
        return NULL;
    wait_until_announced(p);
    struct kernel_trace *trace = calloc(1, sizeof *trace + p->count * MAX_CHANNELS * sizeof *trace->handles);
    if (!trace)
        abort();
    for (struct task *t = p->tasks; t < p->tasks + p->count; t++) {
        for (uint8_t channel = 0; (t->mask & PROFILER_KERNEL_CH) && channel < channels_of(t); channel++) {
            struct profiler_event_v6 event = {.type = PROFILER_KERNEL_CH, .parentObj = t->event};
            event.kernelCh.channelId = channel;
            event.kernelCh.pTimer = start;
            start_event(p->comm->profiler, &trace->handles[trace->count++], &event);
        }
    }
    return trace;
}

void kernel_end(struct kernel_trace *trace) {
    if (!trace)
        return;
    uint64_t stop = globaltimer();
    for (size_t i = 0; i < trace->count; i++) {
        union profiler_state_args args = {.kernelCh = {.pTimer = stop}};
        record_state(trace->handles[i], STATE_KERNEL_CH_STOP, &args);
        stop_event(trace->handles[i]);
    }
    free(trace);
}

void proxy_begin(struct proxy_trace *trace, ncclComm_t comm, struct task *t, int peer, bool sends, size_t bytes) {
    *trace = (struct proxy_trace){.context = comm->profiler, .mask = t->mask, .rank = comm->rank, .sends = sends};
    trace->active = loaded() && bytes && communicator_host(comm, peer) != communicator_host(comm, comm->rank);
    if (!trace->active || !(t->mask & (PROFILER_PROXY_OP | PROFILER_PROXY_STEP | PROFILER_NET_PLUGIN)))
        return;
    size_t chunk = segment_chunk_bytes(comm->segment);
    struct profiler_event_v6 event = {.type = PROFILER_PROXY_OP, .parentObj = t->event, .rank = comm->rank};
    event.proxyOp.pid = plugin.pid;
    event.proxyOp.peer = peer;
    event.proxyOp.nSteps = (int)((bytes + chunk - 1) / chunk);
    event.proxyOp.chunkSize = (int)chunk;
    event.proxyOp.isSend = sends;
    start_event(comm->profiler, &trace->op, &event);
    union profiler_state_args args = {0};
    record_state(trace->op, STATE_PROXY_OP_IN_PROGRESS, &args);
}

static void step_state(struct proxy_trace *trace, enum profiler_state state, size_t bytes) {
    union profiler_state_args args = {.proxyStep = {.transSize = bytes}};
    record_state(trace->step_handle, state, &args);
}

void proxy_step_begin(struct proxy_trace *trace) {
    if (!trace->active || trace->step_handle || !(trace->mask & (PROFILER_PROXY_STEP | PROFILER_NET_PLUGIN)))
        return;
    struct profiler_event_v6 event = {.type = PROFILER_PROXY_STEP, .parentObj = trace->op, .rank = trace->rank};
    event.proxyStep.step = trace->step++;
    start_event(trace->context, &trace->step_handle, &event);
    if (!trace->sends) {
        step_state(trace, STATE_RECV_WAIT, 0);
        return;
    }
    step_state(trace, STATE_SEND_GPU_WAIT, 0); /* the data are there already: a kernel here is its own GPU */
    step_state(trace, STATE_SEND_PEER_WAIT, 0);
}

void proxy_step_sent(struct proxy_trace *trace, size_t bytes) {
    step_state(trace, STATE_SEND_WAIT, bytes);
}

void proxy_step_received(struct proxy_trace *trace, size_t bytes) {
    step_state(trace, STATE_RECV_FLUSH_WAIT, bytes);
    step_state(trace, STATE_RECV_GPU_WAIT, bytes);
    proxy_step_end(trace);
}

void proxy_step_end(struct proxy_trace *trace) {
    stop_event(trace->step_handle);
    trace->step_handle = NULL;
}

void proxy_end(struct proxy_trace *trace) {
    proxy_step_end(trace);
    stop_event(trace->op);
    trace->op = NULL;
}
