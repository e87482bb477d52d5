/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread's calls look like again and again: a call site mostly repeats the communicator, the count, the datatype
 * and the partner it had before. What follows from these alone is remembered: communicator, bytes, datatype and
 * reduction codes, what all ranks must agree on, and the rows of the aggregates that such a call is counted in.
 * Lives here: the memory of shapes, of one thread each.
 * Must not live here: how anything is found out the first time; numbers and times, which differ from call to call.
 */
#ifndef COMMTAP_SHIM_RECORD_CALL_CACHE_H
#define COMMTAP_SHIM_RECORD_CALL_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/call.h"
#include "shim/record/aggregates.h"
#include "shim/record/recorder.h"

#define SHAPES      256u /* per thread, in pairs */
#define SHAPE_FACTS 48u  /* bytes of a frame's facts, see call_frame.h */

struct communicator;

struct shape {
    /* of what: the arguments as they were passed; but for the tag, which is no wildcard */
    const struct call *call; /* NULL: free */
    uintptr_t object, count, type, partner, redop;
    uint32_t stack;
    uint32_t generation; /* shapes_generation at its making */

    /* what follows */
    struct communicator *comm;
    uint64_t facts[SHAPE_FACTS / sizeof(uint64_t)];
    uint64_t signature; /* collectives: what the communicator's history takes up */
    uint64_t channel;   /* messages: see ordinals.h; of the `tag` seen last, 0 = none yet */
    int32_t tag;

    /* rows of this thread's lane, NULL until there are any. `row_bytes` is what the operation's row is for. */
    uint64_t row_bytes;
    struct operation_row *operation;
    struct site_row *site;
    struct peer_row *peer;

    uint64_t serial; /* of the making, in the process: no two shapes ever have the same */
};

/* Moved when a handle may come to mean something else, and when further calls count in other rows: what was
 * remembered before is not believed any more. */
extern uint32_t shapes_generation;

static inline void shapes_forget(void) {
    __atomic_fetch_add(&shapes_generation, 1, __ATOMIC_RELEASE);
}

/* An empty memory for a thread; without room it has none. */
void shapes_attach(struct thread *self);

/* The memory of a thread, NULL: it has none. */
static inline struct shape *shapes_of(const struct thread *self) {
    return self->parts[PART_CALL_CACHE].memory;
}

/* The two places where a call's shape may be. `a`: arguments, with a word 0 before the first: position 0 is "has none".
 * A call has one object and one partner at most. */
static ALWAYS_INLINE struct shape *shape_places(struct thread *self, const struct call *call, const uintptr_t *a,
                                                uintptr_t pc) {
    uint64_t h = pc ^ a[(call->comm | call->win | call->file) - 1] << 2 ^ (uint64_t)a[call->count - 1] << 20 ^
                 (uint64_t)a[(call->peer | call->root) - 1] << 44;
    return &shapes_of(self)[(h * 0xd6e8feb86659fd93u >> 57) * 2];
}
_Static_assert(SHAPES == 2 << (64 - 57), "as many pairs as the hash has values");

static ALWAYS_INLINE bool shape_is_of(const struct shape *s, const struct call *call, const uintptr_t *a,
                                      uint32_t stack) {
    return s->call == call && s->object == a[(call->comm | call->win | call->file) - 1] &&
           s->count == a[call->count - 1] && s->type == a[call->type - 1] &&
           s->partner == a[(call->peer | call->root) - 1] && s->redop == a[call->redop - 1] && s->stack == stack &&
           s->generation == __atomic_load_n(&shapes_generation, __ATOMIC_ACQUIRE);
}

/* The shape of a call from `pc` with these arguments and this stack, NULL when it is not remembered. */
static ALWAYS_INLINE struct shape *shape_find(struct thread *self, const struct call *call, const uintptr_t *a,
                                              uintptr_t pc, uint32_t stack) {
    if (unlikely(!shapes_of(self)))
        return NULL;
    struct shape *s = shape_places(self, call, a, pc);
    for (unsigned way = 0; way < 2; way++, s++)
        if (likely(shape_is_of(s, call, a, stack)))
            return s;
    return NULL;
}

/* Takes one of a call's places for a new shape, nothing of what follows filled in. NULL: this thread remembers none. */
struct shape *shape_make(struct thread *self, const struct call *call, const uintptr_t *a, uintptr_t pc,
                         uint32_t stack);

/* Where it lies in the thread's memory of shapes, in bytes. */
static inline uint32_t shape_offset(const struct thread *self, const struct shape *s) {
    return (uint32_t)((const char *)s - (const char *)shapes_of(self));
}

/* One that was seen before, unless its place was taken since. `serial`: the one it had. */
static inline struct shape *shape_again(struct thread *self, uint32_t offset, uint64_t serial) {
    if (unlikely(!shapes_of(self)))
        return NULL;
    struct shape *s = (struct shape *)((char *)shapes_of(self) + offset);
    return likely(s->serial == serial && s->generation == __atomic_load_n(&shapes_generation, __ATOMIC_RELAXED)) ? s
                                                                                                                 : NULL;
}

/* ---- counting what is remembered ------------------------------------------------------------- */

/* One call from a call site, by the shape where there is one. */
static inline void count_site(struct lane *lane, struct shape *s, uint32_t stack, uint32_t comm, uint16_t call,
                              uint64_t bytes, uint64_t time) {
    if (likely(s && s->site)) {
        site_count(s->site, bytes, time);
    } else if (table_of(&lane->sites)) {
        struct site_row *row = sites_add(lane, stack, comm, call, bytes, time);
        if (s)
            s->site = row;
    }
}

/* One message, likewise. */
static inline void count_peer(struct lane *lane, struct shape *s, uint32_t comm, int32_t peer, uint16_t call,
                              uint16_t direction, uint64_t bytes, uint64_t time, uint64_t wait) {
    if (likely(s && s->peer)) {
        peer_count(s->peer, bytes, time, wait);
        return;
    }
    struct peer_row *row = peers_add(lane, comm, peer, call, direction, bytes, time, wait);
    if (s)
        s->peer = row;
}

/* Does the shape have the row of an operation of so many bytes? These are never unknown. */
static inline bool shape_counts(const struct shape *s, uint64_t bytes) {
    return likely(s && s->operation && s->row_bytes == bytes);
}

/* Counts one there: timed, and successful. */
static inline void shape_count(struct shape *s, uint64_t bytes, uint64_t time, uint64_t posting, bool posted_size) {
    struct operation_row *row = s->operation;
    uint64_t before = row_begin(&row->version);
    operation_count(row, bytes, time);
    row->posting_total += posting;
    row->posted_size += posted_size;
    row_end(&row->version, before);
}

/* The same for one of which only the enqueueing is known. */
static inline void shape_count_untimed(struct shape *s, uint64_t posting) {
    struct operation_row *row = s->operation;
    uint64_t before = row_begin(&row->version);
    row->count++;
    row->untimed++;
    row->bytes_total += s->row_bytes;
    row->posting_total += posting;
    row_end(&row->version, before);
}

/* The next operation like this one will be counted by the shape, if any. */
void shape_learn(struct shape *s, struct lane *lane, const struct operation_sample *sample);

#endif
