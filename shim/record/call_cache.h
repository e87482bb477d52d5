/* SPDX-License-Identifier: Apache-2.0
 *
 * The call-site cache: a call site mostly repeats the communicator, the count, the datatype and the partner it had
 * before. What follows from these alone is remembered: communicator, bytes, datatype and reduction codes, what all
 * ranks must agree on, and the rows of the aggregates that such a call is counted in. Lives here: the caches, one per
 * thread. Must not live here: how anything is found out the first time; numbers and times, which differ from call to
 * call.
 */
#ifndef COMMTAP_SHIM_RECORD_CALL_CACHE_H
#define COMMTAP_SHIM_RECORD_CALL_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/call.h"
#include "shim/record/aggregates.h"
#include "shim/record/recorder.h"

#define CALL_CACHE_ENTRIES 256u /* per thread, in pairs */
#define CACHED_FACTS       48u  /* bytes of a frame's facts, see call_frame.h */

struct communicator;

/* The template, of this thread's lane, of the last record that had one: all that a record says and a template holds
 * follows from the call, but for these, and a result, which is none. A record that says the same has it, too. Where the
 * record is one that rows count, there is one only while the call knows its rows for so many bytes: they need not be
 * looked for. */
struct known_template {
    uint64_t bytes;
    int32_t tag;
    uint16_t flags; /* NO_KNOWN_TEMPLATE: none yet */
    uint16_t number;
};
#define NO_KNOWN_TEMPLATE UINT16_MAX /* no record has all flags */

struct cached_call {
    /* of what: the arguments as they were passed; but for the tag, which is no wildcard */
    const struct call *call; /* NULL: free */
    uintptr_t object, count, type, partner, redop;
    uint32_t stack;
    uint32_t generation; /* call_cache_generation at its making */

    /* what follows */
    struct communicator *comm;
    uint64_t facts[CACHED_FACTS / sizeof(uint64_t)];
    uint64_t signature; /* collectives: what the communicator's history takes up */
    uint64_t channel;   /* messages: see ordinals.h; of the `tag` seen last, 0 = none yet */
    int32_t tag;

    /* rows of this thread's lane, NULL until there are any. `row_bytes` is what the operation's row is for. */
    uint64_t row_bytes;
    struct operation_row *operation;
    struct site_row *site;
    struct peer_row *peer;

    struct known_template recorded; /* of the call's record, and */
    struct known_template done;     /* of its operation's completion */

    uint64_t serial; /* of the making, in the process: no two entries ever have the same */
    uint64_t reserved[6];
};
_Static_assert(sizeof(struct cached_call) == 256, "four cache lines, the first for what it is found by");

/* Moved when a handle may come to mean something else, and when further calls count in other rows: what was
 * remembered before is not believed any more. */
extern uint32_t call_cache_generation;

static inline void call_cache_forget(void) {
    __atomic_fetch_add(&call_cache_generation, 1, __ATOMIC_RELEASE);
}

/* An empty cache for a thread; without room it has none. */
void call_cache_attach(struct thread *self);

/* The cache of a thread, NULL: it has none. */
static inline struct cached_call *call_cache_of(const struct thread *self) {
    return self->parts[PART_CALL_CACHE].memory;
}

/* The two places where a call may be. `a`: arguments, with a word 0 before the first: position 0 is "has none".
 * A call has one object and one partner at most. */
static ALWAYS_INLINE struct cached_call *call_cache_places(struct thread *self, const struct call *call,
                                                           const uintptr_t *a, uintptr_t pc) {
    uint64_t h = pc ^ a[(call->comm | call->win | call->file) - 1] << 2 ^ (uint64_t)a[call->count - 1] << 20 ^
                 (uint64_t)a[(call->peer | call->root) - 1] << 44;
    return &call_cache_of(self)[(h * 0xd6e8feb86659fd93u >> 57) * 2];
}
_Static_assert(CALL_CACHE_ENTRIES == 2 << (64 - 57), "as many pairs as the hash has values");

/* What a call does not have cannot differ. */
static ALWAYS_INLINE bool argument_matches(uintptr_t remembered, const uintptr_t *a, unsigned position) {
    return !position || remembered == a[position - 1];
}

static ALWAYS_INLINE bool cached_call_matches(const struct cached_call *c, const struct call *call, const uintptr_t *a,
                                              uint32_t stack) {
    return c->call == call && argument_matches(c->object, a, call->comm | call->win | call->file) &&
           argument_matches(c->count, a, call->count) && argument_matches(c->type, a, call->type) &&
           argument_matches(c->partner, a, call->peer | call->root) && argument_matches(c->redop, a, call->redop) &&
           c->stack == stack && c->generation == __atomic_load_n(&call_cache_generation, __ATOMIC_ACQUIRE);
}

/* What is remembered of a call from `pc` with these arguments and this stack; NULL: nothing. */
static ALWAYS_INLINE struct cached_call *call_cache_find(struct thread *self, const struct call *call,
                                                         const uintptr_t *a, uintptr_t pc, uint32_t stack) {
    if (unlikely(!call_cache_of(self)))
        return NULL;
    struct cached_call *c = call_cache_places(self, call, a, pc);
    for (unsigned way = 0; way < 2; way++, c++)
        if (likely(cached_call_matches(c, call, a, stack)))
            return c;
    return NULL;
}

/* Takes one of a call's places for it, nothing of what follows filled in. NULL: this thread has no cache. */
struct cached_call *call_cache_add(struct thread *self, const struct call *call, const uintptr_t *a, uintptr_t pc,
                                   uint32_t stack);

/* Where it lies in the thread's cache, in bytes. */
static inline uint32_t cached_call_offset(const struct thread *self, const struct cached_call *c) {
    return (uint32_t)((const char *)c - (const char *)call_cache_of(self));
}

/* One that was seen before, unless its place was taken since. `serial`: the one it had. */
static inline struct cached_call *cached_call_again(struct thread *self, uint32_t offset, uint64_t serial) {
    if (unlikely(!call_cache_of(self)))
        return NULL;
    struct cached_call *c = (struct cached_call *)((char *)call_cache_of(self) + offset);
    return likely(c->serial == serial && c->generation == __atomic_load_n(&call_cache_generation, __ATOMIC_RELAXED))
               ? c
               : NULL;
}

/* ---- records like the last one --------------------------------------------------------------- */

static inline bool template_is_known(const struct known_template *t, uint64_t bytes, int32_t tag, uint16_t flags) {
    return t->bytes == bytes && t->tag == tag && t->flags == flags;
}

/* `number`: what ring_write_rare returned, 0: none. What failed says more than its flags. */
static inline void template_learn(struct known_template *t, uint64_t bytes, int32_t tag, uint16_t flags,
                                  uint32_t number) {
    if (number && !(flags & FLAG_FAILED))
        *t = (struct known_template){bytes, tag, flags, (uint16_t)number};
}

/* ---- counting what is remembered ------------------------------------------------------------- */

/* One call from a call site, by the cached call where there is one. */
static inline void count_site(struct lane *lane, struct cached_call *c, uint32_t stack, uint32_t comm, uint16_t call,
                              uint64_t bytes, uint64_t time, uint64_t posting) {
    if (likely(c && c->site)) {
        site_count(c->site, known_bytes(bytes), time, posting);
    } else if (recorder.tells_sites) {
        struct site_row *row = sites_add(lane, stack, comm, call, bytes, time, posting);
        if (c)
            c->site = row;
    }
}

/* One message, likewise. */
static inline void count_peer(struct lane *lane, struct cached_call *c, uint32_t comm, int32_t peer, uint16_t call,
                              uint16_t direction, uint64_t bytes, uint64_t time, uint64_t wait) {
    if (likely(c && c->peer)) {
        peer_count(c->peer, known_bytes(bytes), time, wait);
        return;
    }
    struct peer_row *row = peers_add(lane, comm, peer, call, direction, bytes, time, wait);
    if (c)
        c->peer = row;
}

/* Does it have the row of an operation of so many bytes? These are never unknown. */
static inline bool cached_call_has_row(const struct cached_call *c, uint64_t bytes) {
    return likely(c && c->operation && c->row_bytes == bytes);
}

/* Does it have all rows for so many bytes? `message`: one that is counted by its partner, too. */
static inline bool cached_call_has_rows(const struct cached_call *c, uint64_t bytes, bool message) {
    return cached_call_has_row(c, bytes) && (c->site || !recorder.tells_sites) && (c->peer || !message);
}

/* Counts one there: timed, and successful. */
static inline void cached_call_count(struct cached_call *c, uint64_t bytes, uint64_t time, uint64_t posting,
                                     bool posted_size) {
    struct operation_row *row = c->operation;
    uint64_t before = row_begin(&row->version);
    operation_count(row, bytes, time);
    row->posting_total += posting;
    row->posted_size += posted_size;
    row_end(&row->version, before);
}

/* The same with the row of its call site, where it has one. */
static inline void cached_call_count_all(struct cached_call *c, uint64_t bytes, uint64_t time, uint64_t posting,
                                         bool posted_size) {
    cached_call_count(c, bytes, time, posting, posted_size);
    if (c->site)
        site_count(c->site, bytes, time, posting);
}

/* The same for one of which only the enqueueing is known. */
static inline void cached_call_count_untimed(struct cached_call *c, uint64_t posting) {
    struct operation_row *row = c->operation;
    uint64_t before = row_begin(&row->version);
    row->count++;
    row->untimed++;
    row->bytes_total += c->row_bytes;
    row->posting_total += posting;
    row_end(&row->version, before);
}

/* The next operation like this one will be counted by the cached call, if any. */
void cached_call_learn(struct cached_call *c, struct lane *lane, const struct operation_sample *sample);

#endif
