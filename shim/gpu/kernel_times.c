/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/kernel_times.h"

#include <string.h>

#include "shim/base/free_list.h"
#include "shim/base/os.h"
#include "shim/gpu/device_lane.h"
#include "shim/gpu/finish.h"
#include "shim/gpu/globaltimer.h"

#define ANCHOR_INTERVAL_NS 1000000000u
#define ANCHOR_WIDTH_NS    (GLOBALTIMER_FETCH_NS + 1)

static struct {
    struct free_list free;
    struct kernel_span *spans;
    struct kernel_span *queue; /* launched, newest first */
    bool offered;

    /* the harvester's own: launches of one communicator, oldest first; several communicators may share a list */
    struct {
        struct kernel_span *oldest, *youngest;
    } lists[KERNEL_LISTS];
    uint32_t waiting; /* atomic: read by a thread without the harvester's place */
    struct globaltimer clocks[GPU_DEVICES_MAX];
    uint64_t anchored_ns[GPU_DEVICES_MAX]; /* CLOCK_MONOTONIC, 0 = has no anchor */
    uint64_t last_stamp[GPU_DEVICES_MAX];
} times;

void kernel_times_offer(bool offered) {
    times.offered = offered;
}

bool kernel_times_offered(void) {
    return times.offered;
}

bool kernel_times_begin(void) {
    bool offered = times.offered;
    struct kernel_span *spans = os_memory(KERNEL_SPANS * sizeof *spans);
    uint32_t *next = os_memory(KERNEL_SPANS * sizeof *next);
    memset(&times, 0, sizeof times);
    times.offered = offered;
    times.spans = spans;
    times.free = (struct free_list){.capacity = KERNEL_SPANS, .next = next};
    return spans && next;
}

void kernel_times_give_up(const char *why) {
    if (!kernel_times_live() || __atomic_exchange_n(&gpu.stopped, 1, __ATOMIC_ACQ_REL))
        return;
    recorder.header->gpu_timing = GPU_TIMING_HOST;
    copy_text(recorder.header->gpu_timing_why, sizeof recorder.header->gpu_timing_why, why);
}

/* ---- pool ------------------------------------------------------------------------------------ */

struct kernel_span *kernel_span_take(void) {
    uint32_t number = free_list_take(&times.free);
    if (!number)
        return NULL;
    struct kernel_span *span = &times.spans[number - 1];
    uint32_t life = span->life + 1;
    memset((char *)span + offsetof(struct kernel_span, state), 0, sizeof *span - offsetof(struct kernel_span, state));
    span->number = number;
    span->first = UINT64_MAX;
    span->device = -1;
    span->enqueued_ns = os_monotonic_ns();
    __atomic_store_n(&span->state, KERNEL_GATHERS, __ATOMIC_RELAXED);
    __atomic_store_n(&span->life, life, __ATOMIC_RELEASE);
    return span;
}

/* From here on its name means nothing. */
static void put_back(struct kernel_span *span) {
    __atomic_store_n(&span->state, KERNEL_FREE, __ATOMIC_RELAXED);
    __atomic_store_n(&span->life, span->life + 1, __ATOMIC_RELEASE);
    free_list_put(&times.free, span->number);
}

struct kernel_span *kernel_span_find(uint32_t number, uint32_t life) {
    if (number == 0 || number > free_list_limit(&times.free))
        return NULL;
    struct kernel_span *span = &times.spans[number - 1];
    return __atomic_load_n(&span->life, __ATOMIC_ACQUIRE) == life ? span : NULL;
}

void kernel_span_drop(struct kernel_span *span) {
    if (span)
        put_back(span);
}

/* ---- launches -------------------------------------------------------------------------------- */

void kernel_span_enqueue(struct kernel_span *span) {
    if (span)
        span->enqueued_ns = os_monotonic_ns();
}

static void push(struct kernel_span *span) {
    struct kernel_span *head = __atomic_load_n(&times.queue, __ATOMIC_RELAXED);
    __atomic_store_n(&span->state, KERNEL_LAUNCHED, __ATOMIC_RELEASE);
    do
        span->next = head;
    while (!__atomic_compare_exchange_n(&times.queue, &head, span, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

static uint64_t reached_by(const struct gpu_launch *launch) {
    return launch->progress && launch->collectives ? __atomic_load_n(&launch->progress->enqueued, __ATOMIC_RELAXED) : 0;
}

void kernel_span_launch(struct kernel_span *span, int device, const struct gpu_launch *launch) {
    span->device = device;
    span->launch = *launch;
    span->epoch_bits = recorder.epoch_bits;
    span->reached = reached_by(launch);
    if (span->captured) {
        span->launch.flags |= FLAG_CAPTURED;
        span->launch.quiet &= QUIET_LEFT_OUT; /* it is recorded where its replay is */
        __atomic_store_n(&span->state, KERNEL_CAPTURED, __ATOMIC_RELEASE);
    } else {
        push(span);
    }
}

/* A graph runs long after its capture, and again: it moves no communicator's progress. */
static struct kernel_span *begin_replay(const struct kernel_span *captured, uint32_t replay) {
    struct kernel_span *span = kernel_span_take();
    if (!span)
        return NULL;
    span->device = captured->device;
    span->launch = captured->launch;
    span->launch.replay = replay;
    span->launch.quiet |= __atomic_load_n(&recorder.paused, __ATOMIC_RELAXED);
    span->members = captured->members;
    span->epoch_bits = recorder.epoch_bits;
    span->enqueued_ns = 0; /* the kernel may be running before this is told */
    push(span);
    return span;
}

struct kernel_span *kernel_span_replayed(struct kernel_span *captured, uint32_t replay) {
    if (__atomic_load_n(&captured->state, __ATOMIC_ACQUIRE) != KERNEL_CAPTURED)
        return NULL;
    if (captured->replay == replay)
        return kernel_span_find(captured->replay_span, captured->replay_life);
    struct kernel_span *span = begin_replay(captured, ++captured->replays);
    captured->replay = replay;
    captured->replay_span = span ? span->number : 0;
    captured->replay_life = span ? span->life : 0;
    if (!span)
        __atomic_fetch_add(&recorder.header->losses.replays_untimed, captured->members, __ATOMIC_RELAXED);
    return span;
}

void kernel_spans_release(uint32_t owner) {
    for (uint32_t i = 0; i < free_list_limit(&times.free); i++) {
        struct kernel_span *span = &times.spans[i];
        if (__atomic_load_n(&span->state, __ATOMIC_ACQUIRE) == KERNEL_CAPTURED && span->owner == owner)
            put_back(span);
    }
}

/* ---- stamps ---------------------------------------------------------------------------------- */

void kernel_span_task(struct kernel_span *span, uint32_t channels) {
    __atomic_fetch_add(&span->channels, channels, __ATOMIC_RELAXED);
    if (!channels)
        __atomic_fetch_add(&span->vague, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&span->tasks, 1, __ATOMIC_RELEASE);
}

void kernel_span_started(struct kernel_span *span, uint64_t stamp) {
    uint64_t earliest = __atomic_load_n(&span->first, __ATOMIC_RELAXED);
    if (earliest == UINT64_MAX)
        __atomic_store_n(&span->started_ns, os_monotonic_ns(), __ATOMIC_RELAXED);
    while (stamp < earliest &&
           !__atomic_compare_exchange_n(&span->first, &earliest, stamp, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    __atomic_fetch_add(&span->started, 1, __ATOMIC_RELEASE);
}

void kernel_span_stopped(struct kernel_span *span, uint64_t stamp) {
    uint64_t latest = __atomic_load_n(&span->last, __ATOMIC_RELAXED);
    while (stamp > latest &&
           !__atomic_compare_exchange_n(&span->last, &latest, stamp, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    __atomic_store_n(&span->stopped_ns, os_monotonic_ns(), __ATOMIC_RELAXED);
    __atomic_fetch_add(&span->stopped, 1, __ATOMIC_RELEASE);
}

/* ---- the look -------------------------------------------------------------------------------- */

static void append_launch(struct kernel_span *span) {
    uint32_t list = span->launch.comm % KERNEL_LISTS;
    span->next = NULL;
    if (times.lists[list].oldest)
        times.lists[list].youngest->next = span;
    else
        times.lists[list].oldest = span;
    times.lists[list].youngest = span;
    __atomic_fetch_add(&times.waiting, 1, __ATOMIC_RELAXED);
}

static bool collect_launches(void) {
    struct kernel_span *span = __atomic_exchange_n(&times.queue, NULL, __ATOMIC_ACQUIRE), *reversed = NULL;
    bool any = span != NULL;
    while (span) {
        struct kernel_span *next = span->next;
        span->next = reversed;
        reversed = span;
        span = next;
    }
    while (reversed) {
        struct kernel_span *next = reversed->next;
        append_launch(reversed);
        reversed = next;
    }
    return any;
}

static void remove_oldest_launch(uint32_t list) {
    struct kernel_span *span = times.lists[list].oldest;
    times.lists[list].oldest = span->next;
    __atomic_fetch_sub(&times.waiting, 1, __ATOMIC_RELAXED);
    put_back(span);
}

/* All channels that were said to take part have come and gone. Where that is not known, or was said wrongly, nothing
 * has happened for so long that nothing more can be on its way: what starts a channel polls all of them. */
static bool is_complete(const struct kernel_span *span, uint64_t now) {
    uint32_t stopped = __atomic_load_n(&span->stopped, __ATOMIC_ACQUIRE);
    if (!stopped || stopped != __atomic_load_n(&span->started, __ATOMIC_ACQUIRE))
        return false;
    if (__atomic_load_n(&span->tasks, __ATOMIC_ACQUIRE) < span->members)
        return false;
    uint64_t last_told = __atomic_load_n(&span->stopped_ns, __ATOMIC_RELAXED);
    bool all = !span->vague && stopped >= __atomic_load_n(&span->channels, __ATOMIC_RELAXED);
    return all || (now > last_told && now - last_told > KERNEL_QUIET_NS);
}

/* Upper bounds last: there is one afterwards in any case. */
static void adjust_clock(const struct kernel_span *span) {
    struct globaltimer *clock = &times.clocks[span->device];
    if (span->enqueued_ns)
        globaltimer_not_before(clock, span->first, span->enqueued_ns);
    globaltimer_not_after(clock, span->first, span->started_ns);
    globaltimer_not_after(clock, span->last, span->stopped_ns);
}

static void keep_anchor(uint32_t device, uint64_t stamp) {
    int64_t distance;
    uint64_t width;
    if (globaltimer_distance(&times.clocks[device], &distance, &width) && width)
        device_tell_anchor(&gpu.devices[device], SOURCE_IN_KERNEL, stamp + (uint64_t)distance, width, stamp);
}

/* One a second. A wide one, of the first launches, is only worth keeping while there is no better. */
static void note_clock(uint32_t device, const struct kernel_span *span, uint64_t width) {
    times.last_stamp[device] = span->last;
    if (!width || width > ANCHOR_WIDTH_NS ||
        (times.anchored_ns[device] && span->stopped_ns - times.anchored_ns[device] < ANCHOR_INTERVAL_NS))
        return;
    times.anchored_ns[device] = span->stopped_ns;
    keep_anchor(device, span->last);
}

static void finish_stamped(const struct kernel_span *span) {
    int64_t distance = 0;
    uint64_t width = 0;
    adjust_clock(span);
    finish_progress(&span->launch, span->reached, true);
    globaltimer_distance(&times.clocks[span->device], &distance, &width);
    uint64_t t0 = span->first + (uint64_t)distance;
    uint64_t length = span->last > span->first ? span->last - span->first : 0;
    if (t0 < span->enqueued_ns)
        t0 = span->enqueued_ns;
    finish_operation(&gpu.devices[span->device], &span->launch, span->epoch_bits, t0, t0 + length);
    note_clock((uint32_t)span->device, span, width);
}

/* A communicator's launches run one after the other: when a later one is done, this one has told all that it ever will
 * (what has no data, or is done by the copy engines, tells no stamps). */
static bool was_overtaken(const struct kernel_span *span, uint64_t now) {
    const struct kernel_span *later = span->next;
    while (later && later->launch.comm != span->launch.comm)
        later = later->next;
    return later && is_complete(later, now);
}

static void finish_overtaken(const struct kernel_span *span) {
    uint32_t stopped = __atomic_load_n(&span->stopped, __ATOMIC_ACQUIRE);
    if (stopped && stopped == __atomic_load_n(&span->started, __ATOMIC_ACQUIRE)) {
        finish_stamped(span);
        return;
    }
    finish_progress(&span->launch, span->reached, true);
    count_loss(&recorder.header->losses.gpu_no_event);
}

static void note_running(struct kernel_span *span) {
    if (span->seen_running || !__atomic_load_n(&span->started, __ATOMIC_RELAXED))
        return;
    span->seen_running = 1;
    finish_progress(&span->launch, span->reached, false);
}

static bool look_at_list(uint32_t list, uint64_t now) {
    bool any = false;
    for (uint32_t i = 0; i < KERNEL_SPANS_OF_LOOK && times.lists[list].oldest; i++) {
        struct kernel_span *span = times.lists[list].oldest;
        if (is_complete(span, now)) {
            finish_stamped(span);
        } else if (finish_is_aborted(span->launch.comm)) {
            count_loss(&recorder.header->losses.gpu_unfinished);
        } else if (was_overtaken(span, now)) {
            finish_overtaken(span);
        } else {
            note_running(span);
            break;
        }
        remove_oldest_launch(list);
        any = true;
    }
    return any;
}

bool kernel_times_look(void) {
    if (!times.spans)
        return false;
    bool any = collect_launches();
    uint64_t now = os_monotonic_ns();
    for (uint32_t i = 0; i < KERNEL_LISTS; i++)
        any |= look_at_list(i, now);
    return any;
}

uint32_t kernel_times_waiting(void) {
    return __atomic_load_n(&times.waiting, __ATOMIC_RELAXED);
}

void kernel_times_lose(void) {
    for (uint32_t i = 0; i < KERNEL_LISTS; i++)
        while (times.lists[i].oldest) {
            count_loss(&recorder.header->losses.gpu_unfinished);
            remove_oldest_launch(i);
        }
    for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++)
        if (times.last_stamp[i] && !times.anchored_ns[i])
            keep_anchor(i, times.last_stamp[i]);
}
