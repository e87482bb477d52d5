/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPUs of this process as timing sees them: a context, a pool of events, spans on their way.
 * Lives here: the state that application threads and the harvester share, and its rules.
 * Must not live here: what a wrapper may call (timing.h), how a span becomes a record (span_ends.h).
 *
 * Application threads take spans from a device's pool and push them on one queue; the harvester empties the queue and
 * gives spans back. Neither ever waits for the other. Events are never destroyed: behind a stuck kernel that hangs.
 */
#ifndef COMMTAP_GPU_DEVICE_H
#define COMMTAP_GPU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/format.h"
#include "shim/gpu/captures.h"
#include "shim/gpu/device_clock.h"
#include "shim/gpu/driver.h"
#include "shim/gpu/launch.h"
#include "shim/record/recorder.h"

#define GPU_DEVICES_MAX     64u
#define GPU_SPANS_PER_CHUNK 256u
#define GPU_SPANS_MAX       8192u /* launches of one device in flight */

enum span_kind {
    SPAN_LAUNCH,   /* start and stop around a launch */
    SPAN_WAIT,     /* stop alone: a stream had come to its wait for a launch */
    SPAN_REPLAY,   /* stop alone: behind a graph's launch */
    SPAN_CAPTURED, /* not of the pool: a launch being captured */
};

struct captured_graph;
struct captured_launch;

struct gpu_span {
    struct gpu_span *next; /* in the queue; then the next younger one of the same stream */
    struct gpu_device *device;
    void *start, *stop, *stream;
    uint64_t enqueued_ns; /* CLOCK_MONOTONIC before the start was recorded: the GPU cannot have begun earlier */
    uint64_t reached;     /* progress->enqueued at the end of the launch, 0 = moves no progress */
    uint32_t epoch_bits;
    uint32_t number;    /* in the pool, from 1 */
    uint32_t free_next; /* number of the next free span */
    uint32_t incarnation;
    uint8_t kind;
    uint8_t started;                  /* seen running */
    uint32_t pushed;                  /* 1 from gpu_span_push until somebody has taken account of it */
    uint32_t replay;                  /* SPAN_REPLAY: which one */
    uint32_t launches;                /* ... how many launches its executable graph has that may be timed */
    struct captured_graph *graph;     /* SPAN_REPLAY: of which graph; its place may be another's by the end */
    struct capture_list captures;     /* ... the rows that it counts in */
    uint64_t launch_number;           /* ... there; 0: in none */
    struct captured_launch *captured; /* SPAN_CAPTURED; NULL: is counted, not timed */
    struct gpu_launch launch;
};

enum device_life {
    DEVICE_NEW = 0,
    DEVICE_LIVE = 1,
    DEVICE_GONE = 2, /* reset, destroyed, or its events no longer answer: nothing may be asked of the context */
};

struct gpu_device {
    void *context; /* NULL = this place is free; claimed atomically */
    int32_t ordinal;
    uint32_t life;          /* enum device_life */
    uint32_t incarnation;   /* grows when a device comes back after a reset: older spans are void */
    uint32_t span_count;    /* numbers given away, at most GPU_SPANS_MAX */
    uint32_t newest;        /* number of the first span of the newest chunk */
    uint32_t missed;        /* spans that were not there when they were needed, since the pool was last looked after */
    uint32_t wake_at;       /* whoever takes the span with this number wakes the harvester, once; 0 = nobody */
    uint64_t free;          /* number of the first free span, low half; a count of changes, high half */
    struct gpu_span *spans; /* GPU_SPANS_MAX, of which what was never used has no memory; NULL: none, yet */

    /* the harvester's own */
    struct device_clock clock;
    uint32_t introduced; /* incarnation whose name and bus stand in the dump, 0 = none */
    uint32_t waiting;    /* spans in the harvester's lists */
    uint64_t memory_due_ns;
    struct {
        uint64_t t0, t1;
    } busy[16]; /* last disjoint stretches of timed communication, for the union of them all */
    uint32_t busy_count;
};

/* A device's number in the dump is its place here. */
struct gpu_engine {
    uint32_t generation;    /* recorder generation that this serves, 0 = none: a forked child's copy never matches */
    uint32_t stopped;       /* no more spans: the process ends */
    uint32_t kernel;        /* launches are timed by stamps from inside kernels (kernel_times.h), nothing by events */
    uint32_t shed;          /* launches are not timed, for COMMTAP_BUDGET's sake */
    uint32_t events_asked;  /* the job's owner asked for events, whatever they cost */
    uint32_t device_limit;  /* places that have ever been used */
    uint32_t wanted;        /* a pool runs low: the harvester, who sleeps on this word, is to look now */
    struct gpu_span *queue; /* newest first */
    struct device_state *rows;
    struct gpu_device devices[GPU_DEVICES_MAX];
};
extern struct gpu_engine gpu;

/* Launches are taken from application threads now. */
static inline bool gpu_is_live(void) {
    uint32_t generation = *recorder_armed;
    return generation && gpu.generation == generation && !__atomic_load_n(&gpu.stopped, __ATOMIC_RELAXED);
}

/* Places in use are below this. */
static inline uint32_t gpu_device_limit(void) {
    return __atomic_load_n(&gpu.device_limit, __ATOMIC_ACQUIRE);
}

static inline uint32_t gpu_device_index(const struct gpu_device *device) {
    return (uint32_t)(device - gpu.devices);
}

static inline bool gpu_device_is_live(const struct gpu_device *device) {
    return __atomic_load_n(&device->life, __ATOMIC_ACQUIRE) == DEVICE_LIVE;
}

/* The entry of a context, made when it has none: claims a place, creates the first events where events are used. The
 * context must be current on the calling thread. NULL when there is no room or the driver refuses. */
struct gpu_device *gpu_device_attach(void *context, int ordinal);

/* The live entry of a context, NULL when it has none. */
struct gpu_device *gpu_device_of_context(const void *context);

/* The entry whose context `stream` belongs to. For a special handle that is `fallback`. NULL when there is none. */
struct gpu_device *gpu_device_of_stream(struct gpu_device *fallback, void *stream);

/* Forgets what gpu_device_of_stream remembers of a stream: its handle now means another one. */
void gpu_stream_forget(void *stream);

/* Adds a chunk of spans with their events; the device's context must be current. False when there is no more room. */
bool gpu_pool_grow(struct gpu_device *device);
/* Once half of the newest chunk is in use, which is taken from first, the harvester is woken. Where the pool does not
 * grow then, that is to be asked for again. */
void gpu_pool_watch(struct gpu_device *device);

/* A span of the pool: a free one, else one that is made on the spot, for a burst does not wait for the harvester. NULL
 * where GPU_SPANS_MAX are in use, or the driver makes no event. Any thread. */
struct gpu_span *gpu_span_take(struct gpu_device *device);
/* Gives one back; its events may be recorded anew at once. Any thread. */
void gpu_span_put(struct gpu_span *span);
/* Hands one to the harvester. */
void gpu_span_push(struct gpu_span *span);

/* Whether the caller is the one that takes account of a span that was handed over: its record, or its loss. Any thread.
 */
static inline bool gpu_span_claim(struct gpu_span *span) {
    return __atomic_exchange_n(&span->pushed, 0, __ATOMIC_ACQ_REL);
}
/* Claims all that were handed over and not claimed; `lost` hears of each. */
void gpu_spans_claim_all(void (*lost)(const struct gpu_span *span));

/* After this nobody asks the device's context for anything. */
void gpu_device_drop(struct gpu_device *device);

/* Says what a driver's error means for the device: those after which its events are worth nothing drop it. */
void gpu_device_error(struct gpu_device *device, int status);

/* Makes the device's context current on this thread where it is not. Returns whether gpu_context_leave must undo it. A
 * context that was destroyed unannounced shows itself here: the device is dropped then, and the caller must look at
 * gpu_device_is_live before it asks for events, which may have gone with the context. */
static inline bool gpu_context_enter(struct gpu_device *device) {
    void *current = NULL, *context = __atomic_load_n(&device->context, __ATOMIC_ACQUIRE);
    if (!gpu_device_is_live(device) || (gpu_driver.context_current(&current) == GPU_SUCCESS && current == context))
        return false;
    int status = gpu_driver.context_push(context);
    if (status != GPU_SUCCESS)
        gpu_device_error(device, status);
    return status == GPU_SUCCESS;
}

static inline void gpu_context_leave(bool entered) {
    void *ignored;
    if (entered)
        gpu_driver.context_pop(&ignored);
}

#endif
