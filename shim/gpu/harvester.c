/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/harvester.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/background_thread.h"
#include "shim/base/os.h"
#include "shim/gpu/device_lane.h"
#include "shim/gpu/finish.h"
#include "shim/gpu/kernel_times.h"
#include "shim/gpu/span_ends.h"

#define STREAMS_MAX       256u
#define POLL_MIN_NS       50000u
#define POLL_BUSY_MAX_NS  1000000u /* while something is in flight */
#define POLL_IDLE_MAX_NS  10000000u
#define POLL_MAX          256u /* launches of one stream taken in one round */
#define WAIT_FOR_ROUND_NS 20000000u
#define WAIT_BRIEFLY_NS   20000u
#define WAIT_AT_RESET_NS  100000000u /* of what itself takes longer */

/* Launches of one stream, oldest first: they finish in this order. */
struct stream_list {
    const struct gpu_device *device;
    const void *stream;
    struct gpu_span *oldest, *youngest;
};

/* Who is at work: a round, or nobody; at the end of the process the last one keeps it. */
enum { NOBODY, SOMEBODY, CLOSED };

bool (*harvester_also)(void);

static struct {
    uint32_t at_work;
    uint32_t in_lists; /* spans waiting; atomic: read by a thread that could not get the harvester's place */
    uint32_t stream_count;
    struct stream_list streams[STREAMS_MAX];
} harvester;

/* ---- lists ----------------------------------------------------------------------------------- */

/* A stream without launches gives up its place to another; where there is none, streams share the last one and wait
 * for each other's launches. */
static struct stream_list *list_of(const struct gpu_device *device, const void *stream) {
    struct stream_list *empty = NULL;
    for (uint32_t i = 0; i < harvester.stream_count; i++) {
        struct stream_list *list = &harvester.streams[i];
        if (list->device == device && list->stream == stream)
            return list;
        if (!list->oldest)
            empty = list;
    }
    if (!empty && harvester.stream_count < STREAMS_MAX)
        empty = &harvester.streams[harvester.stream_count++];
    if (!empty)
        return &harvester.streams[STREAMS_MAX - 1];
    *empty = (struct stream_list){.device = device, .stream = stream};
    return empty;
}

static void append_span(struct gpu_span *span) {
    struct stream_list *list = list_of(span->device, span->stream);
    span->next = NULL;
    if (list->oldest)
        list->youngest->next = span;
    else
        list->oldest = span;
    list->youngest = span;
    span->device->waiting++;
    __atomic_fetch_add(&harvester.in_lists, 1, __ATOMIC_RELAXED);
}

static void remove_oldest_span(struct stream_list *list) {
    struct gpu_span *span = list->oldest;
    list->oldest = span->next;
    span->device->waiting--;
    __atomic_fetch_sub(&harvester.in_lists, 1, __ATOMIC_RELAXED);
    gpu_span_put(span);
}

/* Empties the queue, which is newest first, into the lists. */
static bool collect_spans(void) {
    struct gpu_span *span = __atomic_exchange_n(&gpu.queue, NULL, __ATOMIC_ACQUIRE), *reversed = NULL;
    bool any = span != NULL;
    while (span) {
        struct gpu_span *next = span->next;
        span->next = reversed;
        reversed = span;
        span = next;
    }
    while (reversed) {
        struct gpu_span *next = reversed->next;
        append_span(reversed);
        reversed = next;
    }
    return any;
}

/* ---- a round --------------------------------------------------------------------------------- */

/* Asks for the oldest launches of a stream until one is not done. Every status but success and not-ready is an error:
 * the launch is lost, never taken for done. */
static bool look_at_launches(struct stream_list *list) {
    bool any = false;
    for (uint32_t i = 0; i < POLL_MAX && list->oldest; i++) {
        struct gpu_span *span = list->oldest;
        int status = GPU_INVALID_CONTEXT;
        if (gpu_device_is_live(span->device) && span->incarnation == span->device->incarnation)
            status = gpu_driver.event_query(span->stop);
        if (status == GPU_NOT_READY) {
            span_started(span);
            break;
        }
        status = status == GPU_SUCCESS ? span_ended(span) : status;
        if (status == GPU_NOT_READY) /* no anchor yet */
            break;
        if (status != GPU_SUCCESS)
            span_failed(span, status);
        remove_oldest_span(list);
        any = true;
    }
    return any;
}

/* A driver may refuse to speak of events to a thread without a context. */
static bool look_at_stream(struct stream_list *list) {
    if (!list->oldest)
        return false;
    struct gpu_device *device = list->oldest->device;
    bool entered = gpu_context_enter(device);
    bool any = look_at_launches(list);
    gpu_context_leave(entered);
    return any;
}

/* All there are, where a burst had to make its own; twice as many as wait now. */
static uint32_t spans_needed(struct gpu_device *device, uint32_t there) {
    uint32_t missed = __atomic_exchange_n(&device->missed, 0, __ATOMIC_RELAXED);
    uint32_t peak = missed ? there : 0;
    return peak > device->waiting * 2 ? peak : device->waiting * 2;
}

/* At once to what is needed: the burst that showed it may go on, or come again before the next look. */
static void grow_pool(struct gpu_device *device) {
    uint32_t there = __atomic_load_n(&device->span_count, __ATOMIC_RELAXED);
    if (gpu.kernel || there == GPU_SPANS_MAX)
        return;
    uint32_t needed = spans_needed(device, there);
    if (needed < there) {
        if (needed * 2 >= there)
            gpu_pool_watch(device);
        return;
    }
    bool entered = gpu_context_enter(device);
    for (; gpu_device_is_live(device) && needed >= there && gpu_pool_grow(device); there += GPU_SPANS_PER_CHUNK)
        ;
    gpu_context_leave(entered);
}

static bool take_place(uint64_t patience_ns) {
    uint64_t begin = patience_ns ? os_monotonic_ns() : 0;
    for (;;) {
        uint32_t nobody = NOBODY;
        if (__atomic_compare_exchange_n(&harvester.at_work, &nobody, SOMEBODY, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return true;
        if (nobody == CLOSED || os_monotonic_ns() - begin >= patience_ns)
            return false;
        sched_yield();
    }
}

static void leave_place(uint32_t to) {
    __atomic_store_n(&harvester.at_work, to, __ATOMIC_RELEASE);
}

static bool look_at_all(void) {
    bool any = collect_spans();
    for (uint32_t i = 0; i < harvester.stream_count; i++)
        any |= look_at_stream(&harvester.streams[i]);
    if (gpu.kernel && harvester_also)
        any |= harvester_also();
    if (gpu.kernel)
        any |= kernel_times_look();
    return any;
}

static void keep_house(void) {
    uint64_t now = os_monotonic_ns();
    for (uint32_t i = 0; i < gpu_device_limit(); i++)
        if (gpu_device_is_live(&gpu.devices[i]))
            keep_device(&gpu.devices[i], now);
}

bool harvester_round(void) {
    if (!gpu_is_live() || !take_place(0))
        return false;
    keep_house();
    bool any = look_at_all();
    for (uint32_t i = 0; i < gpu_device_limit(); i++)
        if (gpu_device_is_live(&gpu.devices[i]))
            grow_pool(&gpu.devices[i]);
    leave_place(NOBODY);
    return any;
}

/* A device that has come up only just: without an anchor nothing of it has a time. */
static void wait_for_first_anchors(void) {
    uint64_t begin = os_monotonic_ns(), now = begin;
    for (uint32_t i = 0; i < gpu_device_limit() && !gpu.kernel; i++) {
        struct gpu_device *device = &gpu.devices[i];
        while (gpu_device_is_live(device) && !device->clock.taken && now - begin < WAIT_FOR_ROUND_NS) {
            device->clock.due_ns = 0;
            keep_device(device, now);
            sched_yield();
            now = os_monotonic_ns();
        }
    }
}

/* From a thread of the job: a query would end a capture that another one has under way. `last`: there may be no later
 * look, and what has run needs an anchor to have a time. */
static void look_relaxed(bool last) {
    int mode = GPU_CAPTURE_MODE_RELAXED;
    bool changed = gpu_driver.capture_mode(&mode) == GPU_SUCCESS;
    if (last) {
        keep_house();
        wait_for_first_anchors();
    }
    look_at_all();
    if (changed)
        gpu_driver.capture_mode(&mode);
}

static void look_within(uint64_t patience_ns) {
    if (take_place(patience_ns)) {
        look_relaxed(false);
        leave_place(NOBODY);
    }
}

void harvester_look(void) {
    look_within(WAIT_FOR_ROUND_NS);
}

void harvester_look_briefly(void) {
    look_within(WAIT_BRIEFLY_NS);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static uint32_t launches_waiting(void) {
    return __atomic_load_n(&harvester.in_lists, __ATOMIC_RELAXED) + (gpu.kernel ? kernel_times_waiting() : 0);
}

static void lose_unfinished(const struct gpu_device *device) {
    for (uint32_t i = 0; i < harvester.stream_count; i++) {
        struct stream_list *list = &harvester.streams[i];
        while (list->oldest && (!device || list->oldest->device == device)) {
            span_unfinished(list->oldest);
            remove_oldest_span(list);
        }
    }
}

void harvester_quiesce(struct gpu_device *device) {
    bool mine = take_place(WAIT_AT_RESET_NS);
    if (mine)
        look_relaxed(true);
    gpu_device_drop(device); /* without the place: the harvester loses what it finds of it */
    if (mine) {
        lose_unfinished(device);
        leave_place(NOBODY);
    }
}

void harvester_end(void) {
    __atomic_store_n(&gpu.stopped, 1, __ATOMIC_RELEASE);
    if (take_place(WAIT_FOR_ROUND_NS)) {
        look_relaxed(true);
        lose_unfinished(NULL);
        if (gpu.kernel)
            kernel_times_lose();
        leave_place(CLOSED); /* the thread asks the driver for nothing from now on */
    } else if (__atomic_exchange_n(&harvester.at_work, CLOSED, __ATOMIC_ACQ_REL) != CLOSED) {
        spans_unfinished();
        if (gpu.kernel)
            __atomic_fetch_add(&recorder.header->losses.gpu_unfinished, kernel_times_waiting(), __ATOMIC_RELAXED);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Until then, or until a pool runs low. */
static void nap(uint64_t ns) {
    struct timespec t = {.tv_nsec = (long)ns};
    syscall(SYS_futex, &gpu.wanted, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
    __atomic_store_n(&gpu.wanted, 0, __ATOMIC_RELAXED);
}

static void *harvest(void *nothing) {
    int mode = GPU_CAPTURE_MODE_RELAXED; /* or our queries would end captures that other threads have under way */
    uint64_t pause = POLL_MIN_NS;
    gpu_driver.capture_mode(&mode);
    prctl(PR_SET_NAME, "commtap-gpu");
    while (gpu_is_live()) {
        bool any = harvester_round();
        uint64_t limit = launches_waiting() ? POLL_BUSY_MAX_NS : POLL_IDLE_MAX_NS;
        pause = any ? POLL_MIN_NS : pause * 2;
        pause = pause < limit ? pause : limit;
        nap(pause);
    }
    return nothing;
}

const char *harvester_prepare(void) {
    static bool
        before; /* a forked child has its parent's; otherwise there is nothing to forget, and no page to touch */
    if (before)
        finish_begin();
    before = true;
    harvester.at_work = NOBODY;
    harvester.in_lists = 0;
    harvester.stream_count = 0;
    return device_lane_begin() ? NULL : "no room in the dump for GPU times";
}

const char *harvester_begin(void) {
    int saved = errno;
    const char *trouble = harvester_prepare();
    if (!trouble && !background_thread_start(harvest, THREAD_TOLD))
        trouble = "no thread for GPU times";
    errno = saved;
    return trouble;
}
