/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording: threads and lanes. The hot path's own state.
 * Lives here: whether this process records, what each thread writes to.
 * Must not live here: anything about MPI or NCCL, how a record is written (ring.h), what is aggregated (aggregates.h),
 * who begins all this (intercept/activate.h, intercept/threads.h).
 */
#ifndef COMMTAP_SHIM_RECORD_RECORDER_H
#define COMMTAP_SHIM_RECORD_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/call.h"
#include "shim/format.h"
#include "shim/record/budget.h"
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

struct templates;

/* Where the next compact record of a lane goes (ring.h). */
struct page_writer {
    struct ring_page *page; /* NULL: the lane's ring is one of plain records */
    uint64_t base;          /* what times count from, and */
    uint32_t base_op;       /* operations */
    uint32_t used;          /* slots of the page; all of them before there is a page */
    struct templates *templates;
    struct ring_page *pages;
    uint32_t count;
    uint32_t roomy;  /* pages from the front that have room */
    uint32_t next;   /* page to be taken next; `roomy`: one more, or the first again */
    uint64_t number; /* of the page */
};

struct lane {
    struct page_writer pages;
    struct record *ring; /* of plain records */
    uint64_t mask;
    uint64_t head;               /* next ticket (exclusive lanes) */
    uint64_t room;               /* plain: tickets from here on: ring_make_room first */
    uint64_t slots;              /* of the plain ring, from its front, that have room; atomic */
    uint64_t keep_from;          /* plain records about to be overwritten go to a trace window from this t0 on */
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
    uint64_t shed_to; /* 1 + head when a record was left out last: if that still holds, none was written since */
};

/* Polls that found nothing, one after another: one record, which grows in its place while no other one follows it. */
struct poll_series {
    uint64_t next;          /* the lane's head while it can go on, + 1; 0: there is none */
    struct ring_slot *slot; /* the record's, or `nowhere` */
    uint64_t base, t0, left;
    uint32_t worked;
    uint64_t ran_ns;          /* processor time of the thread at the end of the last gap, 0: not known */
    struct ring_slot nowhere; /* lanes that can hold no such record grow this one */
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

enum measured_phase {
    MEASURED_NOTHING,
    MEASURED_NEXT, /* the next call will be */
    MEASURED_ENTRY /* up to the real function, the rest when it returned */
};

/* The call of a thread that tells what commtap takes (intercept/own_cost.h). Times in ticks. */
struct measured_call {
    uint64_t begin;            /* of it, while it is on its way in; else 0 */
    uint64_t ticks;            /* what commtap took on its way in */
    uint64_t rare;             /* of that: work that is measured whenever it is done */
    uint64_t rare_unaccounted; /* such work since the last measured call */
    uint64_t usual;            /* what commtap takes in a call, in the mean of the last ones */
    uint64_t last;             /* when that one ended */
    uint32_t gap;              /* calls from one to the next, in the mean */
    uint32_t drawn;            /* and to the next one */
    uint32_t stands_for;       /* calls */
    uint32_t random;
    enum measured_phase phase;
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
    uint64_t due;                /* a call that ends from then on has more to do: an anchor, its measuring */
    uint32_t until_measured;     /* calls that begin until one has to do with measuring */
    struct in_flight spare_slot; /* for threads beyond THREAD_SLOTS */
    struct poll_series polls;
    struct thread_part parts[THREAD_PARTS];
    void *frame; /* of the call under way, where a library calls back in its midst; of interest only while `outer` is
                    set */
    struct measured_call measured;
    bool pooled;
};

/* Why a call leaves nothing but what a hang is told from. */
enum {
    QUIET_PAUSED = 1,   /* MPI_Pcontrol(0) */
    QUIET_OUTSIDE = 2,  /* of the regions that COMMTAP_REGION names */
    QUIET_LEFT_OUT = 4, /* by COMMTAP_OPS */
    QUIET_ORDERED = 8   /* commtap ctl pause */
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
    uint64_t poll_gap;  /* POLL_GAP_NS in ticks */
    uint64_t poll_nap;  /* POLL_NAP_NS in ticks */
    bool ready;         /* the library is initialised and known: its calls may be looked into */
    uint8_t paused;     /* QUIET_PAUSED, QUIET_OUTSIDE, QUIET_ORDERED; 0: calls are recorded */
    bool records_shed;  /* for COMMTAP_BUDGET's sake */
    bool multithreaded; /* calls may come from several threads at once: counters need atomic additions */
    bool verbose;
    bool marks_steps; /* COMMTAP_STEP names ranges */
    bool tells_sites; /* calls are counted by call site, too: stacks are on */
    bool gave_up;     /* activation failed or recording was switched off: never tried again */
    uint32_t generation;
    struct budget budget;
    uint64_t unaccounted; /* ticks that commtap took and the budget does not know of yet; atomic */
    uint32_t budget_busy; /* one thread at a time */
    struct knobs knobs;
    uint8_t left_out[CALL_INDEX_COUNT]; /* QUIET_LEFT_OUT, or 0 */
};

extern struct recorder recorder;
extern __thread struct thread *this_thread;

/* Generation of the live activation, 0 when this process does not record. It lies in a page that the kernel wipes in
 * a forked child: two writers must never share a dump. */
extern const volatile uint32_t *recorder_armed;

/* Reads the knobs, at the first call only: the constructor's, or a communication call's from a library whose own
 * constructor runs before ours. False when nothing sets any: they were not touched then. */
bool recorder_read_environment(void);

/* Stops recording in this process for good, with `why` in the dump and on world rank 0's stderr. */
void recorder_switch_off(const char *why);

/* From now on the functions that recorder.knobs.ops names are recorded, and no others. */
void recorder_choose_calls(void);

#define OUTER_MEASURED UINTPTR_MAX /* `outer` of a thread that is in no call, and whose next one is measured */

static inline bool thread_is_in_call(const struct thread *self) {
    return self->outer + 1 > 1;
}

/* Work of commtap's own that is too rare to be told from samples. */
static inline void thread_took(struct thread *self, uint64_t ticks) {
    self->measured.rare += ticks;
    self->measured.rare_unaccounted += ticks;
}

/* Scratch memory of at least `bytes`, the same until the thread asks again. NULL when there is none. */
void *thread_scratch_more(struct thread *self, size_t bytes);
static inline void *thread_scratch(struct thread *self, size_t bytes) {
    const struct thread_part *scratch = &self->parts[PART_SCRATCH];
    return likely(bytes <= scratch->bytes) ? scratch->memory : thread_scratch_more(self, bytes);
}

/* QUIET_* of a call made now. */
static inline uint8_t recorder_quiet(unsigned index) {
    return __atomic_load_n(&recorder.paused, __ATOMIC_RELAXED) |
           __atomic_load_n(&recorder.left_out[index], __ATOMIC_RELAXED);
}

/* Adds without a lock prefix where only one thread can be here. Returns the value before. */
static inline uint32_t count_up(uint32_t *counter) {
    if (recorder.multithreaded)
        return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    return (*counter)++;
}

/* A counter of a lane's state. */
static inline void lane_count(const struct lane *lane, uint64_t *counter) {
    if (unlikely(lane->shared))
        __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    else
        ++*counter;
}

static inline void count_loss(uint64_t *counter) {
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

#endif
