/* SPDX-License-Identifier: Apache-2.0
 *
 * How long GPU work takes by stamps from inside its kernels, instead of events around it.
 * Lives here: one launch from the calls that announce it to its record: a pool, what each stamp adds, the look that
 * finds the finished ones. Must not live here: how a library hands out stamps (nccl/plugin.c).
 *
 * Stamps of one launch come from several threads of the library, at any time after the launch was announced, also
 * before its facts are known; each adds to the span by atomic operations alone. Only the harvester's place
 * (harvester.c) looks at spans as a whole, writes records and gives spans back. A span is named by its number and how
 * often that was used before: whoever comes too late with a stamp finds another life there, and is ignored.
 */
#ifndef COMMTAP_GPU_KERNEL_TIMES_H
#define COMMTAP_GPU_KERNEL_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/device.h"

#define KERNEL_SPANS         32768u /* launches in flight and captured ones */
#define KERNEL_QUIET_NS      20000000u
#define KERNEL_LISTS         64u
#define KERNEL_SPANS_OF_LOOK 1024u

enum kernel_span_state {
    KERNEL_FREE = 0,
    KERNEL_GATHERS,  /* calls announce their operations */
    KERNEL_LAUNCHED, /* facts are known */
    KERNEL_CAPTURED, /* facts are known; nothing runs but copies of it, one per replay */
};

struct kernel_span {
    struct kernel_span *next; /* in the queue; then the next younger one of its list */
    uint32_t number, life;
    uint32_t state; /* enum kernel_span_state, released last */
    uint32_t captured;
    uint32_t owner;   /* of a captured one: who will say that it is gone */
    uint32_t members; /* operations that calls announced */
    uint32_t tasks;   /* of these, given to the GPU */
    uint32_t vague;   /* of these, those that do not tell their channels */
    uint32_t channels, started, stopped;
    uint32_t replay, replay_span, replay_life; /* of a captured one: the copy for the latest replay */
    uint32_t replays;                          /* ... and how many there were */
    uint32_t seen_running;                     /* the harvester's */
    uint32_t epoch_bits;
    uint64_t first, last;            /* earliest start, latest stop: the device's clock */
    uint64_t enqueued_ns;            /* CLOCK_MONOTONIC before anything was launched, 0 = unknown */
    uint64_t started_ns, stopped_ns; /* ... when the first start, the last stop was told */
    uint64_t reached;                /* as in gpu_span */
    int32_t device;
    struct gpu_launch launch;
};

/* Somebody who tells stamps is there, or is expected (nccl/plugin.c); asked when the mode is chosen. */
void kernel_times_offer(bool offered);
bool kernel_times_offered(void);

/* Launches are timed by stamps now. */
static inline bool kernel_times_live(void) {
    return gpu.kernel && gpu_is_live();
}

/* Memory, once per activation; false when there is none. */
bool kernel_times_begin(void);

/* Those who were to tell stamps never came: what is known of launches is their enqueueing. */
void kernel_times_give_up(const char *why);

/* ---- any thread ------------------------------------------------------------------------------ */

/* A launch begins to gather; NULL when all are in use. */
struct kernel_span *kernel_span_take(void);

/* The one with this number, if it still is in that life; NULL otherwise. */
struct kernel_span *kernel_span_find(uint32_t number, uint32_t life);

/* The launch is about to be made: nothing of it ran before now. NULL is accepted. */
void kernel_span_enqueue(struct kernel_span *span);

/* It was made on `device` (an index). A captured one is kept, others go to the harvester. */
void kernel_span_launch(struct kernel_span *span, int device, const struct gpu_launch *launch);

/* It never happened. NULL is accepted. */
void kernel_span_drop(struct kernel_span *span);

/* The span for replay number `replay` of a captured launch (numbers of replays under way at a time differ): a copy of
 * it, launched. NULL when all are in use, or it is not ready. */
struct kernel_span *kernel_span_replayed(struct kernel_span *captured, uint32_t replay);

/* Everything captured on behalf of `owner` is gone. */
void kernel_spans_release(uint32_t owner);

/* One of its operations was given to the GPU, on that many channels (0 = unknown). */
void kernel_span_task(struct kernel_span *span, uint32_t channels);

/* A channel of it started or stopped, by the device's clock. */
void kernel_span_started(struct kernel_span *span, uint64_t stamp);
void kernel_span_stopped(struct kernel_span *span, uint64_t stamp);

/* ---- the harvester's place ------------------------------------------------------------------- */

/* Takes what has finished; true when there was something. */
bool kernel_times_look(void);

/* How many are waited for. */
uint32_t kernel_times_waiting(void);

/* Nobody will look again: the rest is counted as unfinished. */
void kernel_times_lose(void);

#endif
