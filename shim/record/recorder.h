/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording: threads, lanes and their rings. The hot path's own state.
 * Lives here: whether this process records, what each thread writes to, the commit of one record.
 * Must not live here: anything about MPI or NCCL, what is aggregated (aggregates.h), who begins all this
 * (intercept/activate.h, intercept/threads.h).
 */
#ifndef COMMTAP_SHIM_RECORD_RECORDER_H
#define COMMTAP_SHIM_RECORD_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/call.h"
#include "shim/format.h"
#include "shim/record/clock.h"
#include "shim/record/definitions.h"
#include "shim/record/dump_file.h"
#include "shim/record/knobs.h"
#include "shim/record/trace_windows.h"

#define LANES_EXCLUSIVE 7u                     /* one writer each; the next one is shared by all further threads */
#define LANE_DEVICE     (LANES_EXCLUSIVE + 1u) /* the GPU harvester's own */
#define LANES_MAX       (LANE_DEVICE + 1u)
#define LANE_STATES     64u /* the others hold further tables of lanes whose first ones are full */
#define THREAD_SLOTS    256u

struct lane {
    struct record *ring;
    uint64_t mask;
    uint64_t head;               /* next ticket (exclusive lanes) */
    uint64_t room;               /* tickets from here on: ring_make_room first */
    uint64_t slots;              /* of the ring, from its front, that have room; atomic */
    uint64_t keep_from;          /* records about to be overwritten are offered to a trace window from this t0 on */
    const struct anchors *clock; /* of the records' t0: ticks, or device ns in the harvester's lane */
    struct lane_state *state;
    struct row_table *operations; /* aggregates.h */
    struct row_table *peers;
    struct row_table *sites;  /* NULL while stacks are off */
    struct size_count *sizes; /* distinct sizes per (call, communicator), aggregates.c */
    uint32_t index;
    bool shared;
    uint32_t ready; /* released once the above is filled */
    struct trace_window_writer trace_window;
};

/* Memory that another layer keeps for a thread: made and read by that layer alone. It goes with the thread; only a
 * place's next thread takes over what stands before THREAD_OWN_PARTS. */
enum thread_part_owner {
    PART_STACKS,     /* stacks/stacks.c */
    PART_CALL_CACHE, /* call_cache.h */
    PART_SCRATCH,    /* thread_scratch */
    THREAD_OWN_PARTS,
    PART_GROUP = THREAD_OWN_PARTS, /* operations that a library gathers before it starts them: nccl/nccl_groups.h */
    THREAD_PARTS
};

struct thread_part {
    void *memory; /* from os_memory; NULL: there is none (yet) */
    size_t bytes;
};

/* What a thread needs in its calls; in anonymous memory, found through one TLS pointer. */
struct thread {
    uint32_t generation; /* of the activation it belongs to: a forked child's copy never matches */
    uint32_t tid;
    uintptr_t outer;                   /* stack pointer of the outermost wrapper's caller while inside one, 0 outside */
    struct thread *const *outer_owner; /* where that wrapper's own frame says whose call it is, */
    uintptr_t outer_return;            /* and where it returns to: of interest only while `outer` is set */
    struct lane *lane;
    struct in_flight *slot;
    struct in_flight spare_slot; /* for threads beyond THREAD_SLOTS */
    struct thread_part parts[THREAD_PARTS];
    void *frame; /* of the call under way, where a library calls back in its midst; of interest only while `outer` is
                    set */
    bool pooled;
};

struct recorder {
    struct dumpfile file;
    struct dump_header *header;
    struct anchors anchors;
    struct lane lanes[LANES_MAX];
    struct lane_state *lane_states;
    uint32_t extensions; /* lane states taken for further tables */
    struct in_flight *slots;
    struct thread *threads; /* THREAD_SLOTS of them, thread i owns slot i */
    struct pending *pending;
    uint32_t pending_count;
    struct progress *progress;
    uint32_t progress_count;
    struct trace_windows trace_windows;
    struct definitions definitions;
    uint32_t epoch_bits; /* current epoch, shifted to where rows want it */
    uint32_t next_op;
    bool ready; /* the library is initialised and known: its calls may be looked into */
    bool paused;
    bool multithreaded; /* calls may come from several threads at once: counters need atomic additions */
    bool verbose;
    bool marks_steps; /* COMMTAP_STEP names ranges */
    bool tells_sites; /* calls are counted by call site, too: stacks are on */
    bool gave_up;     /* activation failed or recording was switched off: never tried again */
    uint32_t generation;
    struct knobs knobs;
    bool enabled[CALL_INDEX_COUNT]; /* by COMMTAP_OPS */
};

extern struct recorder recorder;
extern __thread struct thread *this_thread;

/* Generation of the live activation, 0 when this process does not record. It lies in a page that the kernel wipes in
 * a forked child: two writers must never share a dump. */
extern const volatile uint32_t *recorder_armed;

/* Reads the knobs, at the first call only: the constructor's, or a communication call's from a library whose own
 * constructor runs before ours. False when the environment sets none: they were not touched then. */
bool recorder_read_environment(void);

/* Stops recording in this process for good, with `why` in the dump and on world rank 0's stderr. */
void recorder_switch_off(const char *why);

/* Scratch memory of at least `bytes`, the same until the thread asks again. NULL when there is none. */
void *thread_scratch_more(struct thread *self, size_t bytes);
static inline void *thread_scratch(struct thread *self, size_t bytes) {
    const struct thread_part *scratch = &self->parts[PART_SCRATCH];
    return likely(bytes <= scratch->bytes) ? scratch->memory : thread_scratch_more(self, bytes);
}

/* Notes a mark of the job's: `level` as MPI_Pcontrol has it, 100 and above begin a step. */
void record_mark(struct thread *self, int32_t level);

/* Adds without a lock prefix where only one thread can be here. Returns the value before. */
static inline uint32_t count_up(uint32_t *counter) {
    if (recorder.multithreaded)
        return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    return (*counter)++;
}

static inline void count_loss(uint64_t *counter) {
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* Is there room for the record of that ticket? The ring grows by pages from its front; while its file is full only
 * those records are kept whose slots have room already. */
bool ring_make_room(struct lane *lane, uint64_t ticket);

/* A record that finds no room, in a ring with one writer: counted, as it has a ticket. */
void ring_skip(struct lane *lane);

/* Takes a slot of a shared ring; NULL when a slower thread is still writing it. */
struct record *ring_claim_shared(struct lane *lane, uint64_t *ticket);

/* The slot for the next record, marked as being written. NULL: there is none. */
static inline struct record *ring_begin(struct lane *lane, uint64_t *ticket) {
    if (unlikely(lane->shared)) {
        uint64_t claimed = 0; /* of its own: a caller's ticket whose address is known to nobody stays in a register */
        struct record *record = ring_claim_shared(lane, &claimed);
        *ticket = claimed;
        return record;
    }
    uint64_t next = lane->head;
    if (unlikely(next >= lane->room) && !ring_make_room(lane, next)) {
        ring_skip(lane);
        return NULL;
    }
    struct record *record = &lane->ring[next & lane->mask];
    if (next > lane->mask && unlikely(record->t0 >= lane->keep_from))
        trace_windows_keep(&recorder.trace_windows, &lane->trace_window, lane->clock, record, &lane->keep_from);
    __atomic_store_n(&record->commit, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *ticket = next;
    return record;
}

/* Publishes it. */
static inline void ring_end(struct lane *lane, struct record *record, uint64_t ticket) {
    __atomic_store_n(&record->commit, ticket + 1, __ATOMIC_RELEASE);
    if (likely(!lane->shared)) {
        lane->head = ticket + 1;
        __atomic_store_n(&lane->state->head, ticket + 1, __ATOMIC_RELAXED);
    }
}

#endif
