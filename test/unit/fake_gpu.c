/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of fake_gpu.h. One lock around everything: tests may start the real harvester beside it.
 */
#include "fake_gpu.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "shim/base/os.h"
#include "shim/gpu/driver.h"

#define DEVICE_OFFSET_NS 1000000u /* device time 0 is this long before the fake began */
#define QUEUE_MAX        65536
#define NODES_MAX        1024
#define EVENTS_MAX       65536

struct gpu_driver gpu_driver;
struct fake_gpu fake;

struct stream {
    int context;
    bool immediate, capturing;
    unsigned first, end;
    struct fake_event *queue[QUEUE_MAX];
};

static struct stream streams[FAKE_STREAMS + 1], legacy[FAKE_CONTEXTS], anchors[FAKE_CONTEXTS];
static struct fake_event events[EVENTS_MAX], *nodes[NODES_MAX];
static unsigned node_count;
static char contexts[FAKE_CONTEXTS];
static uint64_t base_ns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t device_time(uint64_t host_ns) {
    return host_ns - base_ns + DEVICE_OFFSET_NS;
}

static int context_number(const void *context) {
    return (int)((const char *)context - contexts);
}

static struct stream *stream_of(void *handle) {
    if ((uintptr_t)handle > 2)
        return handle;
    return fake.current >= 0 ? &legacy[fake.current] : NULL;
}

void *fake_context(int number) {
    return &contexts[number];
}

void *fake_stream(int number, int context) {
    streams[number].context = context;
    return &streams[number];
}

void *fake_legacy_stream(int context) {
    return &legacy[context];
}

static void complete(struct fake_event *event, uint64_t device_ns) {
    event->state = 2;
    event->device_ns = device_ns;
}

unsigned fake_run(void *handle, unsigned count, uint64_t host_ns, uint64_t gap_ns) {
    struct stream *s = handle;
    unsigned done = 0;
    pthread_mutex_lock(&lock);
    for (; done < count && s->first < s->end; done++)
        complete(s->queue[s->first++], device_time(host_ns + done * gap_ns));
    pthread_mutex_unlock(&lock);
    return done;
}

void fake_capture(void *handle, bool on) {
    ((struct stream *)handle)->capturing = on;
    if (on)
        node_count = 0;
}

unsigned fake_replay(uint64_t host_ns, uint64_t gap_ns) {
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < node_count; i++)
        complete(nodes[i], device_time(host_ns + i * gap_ns));
    pthread_mutex_unlock(&lock);
    return node_count;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int event_create(void **event, unsigned flags) {
    (void)flags;
    if (fake.current < 0)
        return GPU_INVALID_CONTEXT;
    unsigned number = __atomic_fetch_add(&fake.calls.events_created, 1, __ATOMIC_RELAXED);
    if (number >= EVENTS_MAX)
        return GPU_INVALID_CONTEXT;
    struct fake_event *made = &events[number];
    *made = (struct fake_event){.context = fake.current};
    *event = made;
    return GPU_SUCCESS;
}

static int record(struct fake_event *event, struct stream *s, bool external) {
    if (fake.record_error)
        return fake.record_error;
    if (!s || s->context != event->context)
        return GPU_INVALID_HANDLE;
    event->records++;
    if (s->capturing && !external) {
        event->state = 3;
    } else if (external) {
        if (!s->capturing)
            return 1;
        event->state = 1;
        nodes[node_count++] = event;
    } else if (s->immediate) {
        complete(event, device_time(os_monotonic_ns()));
    } else {
        event->state = 1;
        s->queue[s->end++ % QUEUE_MAX] = event;
    }
    return GPU_SUCCESS;
}

static int event_record(void *event, void *stream) {
    pthread_mutex_lock(&lock);
    fake.calls.records++;
    fake.recorded_on = stream;
    int result = record(event, stream_of(stream), false);
    pthread_mutex_unlock(&lock);
    return result;
}

static int event_record_flags(void *event, void *stream, unsigned flags) {
    pthread_mutex_lock(&lock);
    fake.calls.external_records++;
    int result = record(event, stream_of(stream), flags == GPU_EVENT_RECORD_EXTERNAL);
    pthread_mutex_unlock(&lock);
    return result;
}

static int status_of(const struct fake_event *event) {
    static const int statuses[] = {GPU_SUCCESS, GPU_NOT_READY, GPU_SUCCESS, FAKE_POISONED};
    return statuses[event->state];
}

static int event_query(void *handle) {
    struct fake_event *event = handle;
    while (__atomic_load_n(&fake.hang, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&fake.hanging, true, __ATOMIC_RELEASE);
        sched_yield();
    }
    pthread_mutex_lock(&lock);
    fake.calls.queries++;
    event->queries++;
    int result = fake.query_error ? fake.query_error : status_of(event);
    pthread_mutex_unlock(&lock);
    return result;
}

static int event_elapsed(float *milliseconds, void *start, void *end) {
    struct fake_event *a = start, *b = end;
    pthread_mutex_lock(&lock);
    int result = status_of(a) ? status_of(a) : status_of(b);
    if (a->context != b->context || !a->state || !b->state)
        result = GPU_INVALID_HANDLE;
    if (result == GPU_SUCCESS)
        *milliseconds = (float)((double)(int64_t)(b->device_ns - a->device_ns) / 1e6);
    pthread_mutex_unlock(&lock);
    return result;
}

static int stream_create(void **stream, unsigned flags) {
    if (flags != GPU_STREAM_NON_BLOCKING)
        return 1;
    anchors[fake.current].context = fake.current;
    anchors[fake.current].immediate = true;
    *stream = &anchors[fake.current];
    return GPU_SUCCESS;
}

static int stream_context(void *stream, void **context) {
    struct stream *s = stream_of(stream);
    if (s->capturing)
        return FAKE_IN_CAPTURE;
    *context = &contexts[s->context];
    return GPU_SUCCESS;
}

static int stream_is_capturing(void *stream, int *status) {
    *status = stream_of(stream)->capturing;
    return GPU_SUCCESS;
}

static int stream_capture(void *stream, int *status, uint64_t *id, void **graph, const void ***list, size_t *count) {
    (void)list, (void)count;
    *status = stream_of(stream)->capturing;
    *id = fake.capture_id;
    *graph = fake.capture_graph;
    return GPU_SUCCESS;
}

static int capture_mode(int *mode) {
    (void)mode;
    return GPU_SUCCESS;
}

static int context_current(void **context) {
    *context = fake.current < 0 ? NULL : &contexts[fake.current];
    return GPU_SUCCESS;
}

static int context_device(int *ordinal) {
    *ordinal = fake.current;
    return fake.current < 0 ? GPU_INVALID_CONTEXT : GPU_SUCCESS;
}

static int before_push;
static int context_push(void *context) {
    if (fake.push_error)
        return fake.push_error;
    fake.calls.pushes++;
    before_push = fake.current;
    fake.current = context_number(context);
    return GPU_SUCCESS;
}

static int context_pop(void **context) {
    fake.calls.pops++;
    *context = &contexts[fake.current];
    fake.current = before_push;
    return GPU_SUCCESS;
}

static int primary_context(void **context, int ordinal) {
    *context = ordinal < FAKE_CONTEXTS - 1 ? &contexts[ordinal] : NULL;
    return GPU_SUCCESS;
}

static int memory_info(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = fake.free_memory;
    *total_bytes = fake.total_memory;
    return GPU_SUCCESS;
}

static int device_name(char *name, int bytes, int ordinal) {
    (void)ordinal;
    copy_text(name, (size_t)bytes, "Fake GPU");
    return GPU_SUCCESS;
}

static int device_bus(char *bus, int bytes, int ordinal) {
    (void)ordinal;
    copy_text(bus, (size_t)bytes, "0000:3b:00.0");
    return GPU_SUCCESS;
}

bool gpu_driver_find(void) {
    return gpu_driver.backend != GPU_BACKEND_NONE;
}

void fake_gpu_begin(bool graphs) {
    memset(streams, 0, sizeof streams);
    memset(legacy, 0, sizeof legacy);
    memset(anchors, 0, sizeof anchors);
    for (int i = 0; i < FAKE_CONTEXTS; i++)
        legacy[i].context = i;
    base_ns = os_monotonic_ns();
    fake = (struct fake_gpu){.free_memory = 3u << 20, .total_memory = 16u << 20};
    gpu_driver = (struct gpu_driver){
        .backend = GPU_BACKEND_CUDA,
        .event_create = event_create,
        .event_record = event_record,
        .event_record_flags = graphs ? event_record_flags : NULL,
        .event_query = event_query,
        .event_elapsed = event_elapsed,
        .stream_create = stream_create,
        .stream_context = stream_context,
        .stream_is_capturing = stream_is_capturing,
        .stream_capture = graphs ? stream_capture : NULL,
        .capture_mode = capture_mode,
        .context_current = context_current,
        .context_device = context_device,
        .context_push = context_push,
        .context_pop = context_pop,
        .primary_context = primary_context,
        .memory_info = memory_info,
        .device_name = device_name,
        .device_bus = device_bus,
    };
}
