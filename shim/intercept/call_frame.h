/* SPDX-License-Identifier: Apache-2.0
 *
 * One intercepted call on its way through: what the handlers before and after the real function share.
 * Lives here: the frame, the recording of a finished call.
 * Must not live here: what a particular kind of call does, anything about one library's handles or calls: their frames
 * begin with this one and go on with a tail of their own (mpi/mpi_frame.h, nccl/nccl_frame.h).
 */
#ifndef COMMTAP_SHIM_INTERCEPT_CALL_FRAME_H
#define COMMTAP_SHIM_INTERCEPT_CALL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shim/call.h"
#include "shim/comm/communicators.h"
#include "shim/intercept/orders.h"
#include "shim/intercept/own_cost.h"
#include "shim/record/aggregates.h"
#include "shim/record/call_cache.h"
#include "shim/record/recorder.h"
#include "shim/record/ring.h"
#include "shim/record/verbose.h"
#include "shim/stacks/stacks.h"

struct call_frame {
    struct thread *self; /* NULL: this call is only forwarded */
    const struct call *call;
    uintptr_t *a; /* arguments; handlers may replace an ignored status by one of ours */
    struct communicator *comm;
    struct cached_call *cached; /* NULL: not seen before, or not worth remembering */
    uintptr_t pc;               /* where it returns to */
    uint64_t t0, t1;
    uint64_t bytes;
    uint32_t seq;
    uint32_t op;
    uint32_t comm_index; /* from here to `stack` as in a record: copied in one piece */
    int32_t peer;
    int32_t tag;
    uint32_t stack;
    uint16_t id; /* of the call */
    uint16_t flags;
    uint8_t told; /* the library has told of it by itself, too. (In a record its kind stands here.) */
    uint8_t dtype, redop, result;

    uint8_t peer_class;
    uint8_t quiet; /* QUIET_*: bookkeeping only; 0: recorded */
    bool failed;   /* the real function returned an error */
};

static inline uintptr_t argument(const struct call_frame *f, uint8_t position) {
    return f->a[position - 1];
}

/* A call of the job's own begins, in the wrapper whose frame and canonical frame address these are. */
static inline void begin_outer_call(struct thread *self, struct call_frame *f, const uintptr_t *frame, uintptr_t sp) {
    self->outer = sp;
    self->outer_owner = &f->self;
    self->outer_return = frame[1];
}

/* Fills in what all calls on a communicator have. */
static inline void frame_set_comm(struct call_frame *f, struct communicator *comm) {
    f->comm = comm;
    f->comm_index = comm ? comm->index : COMM_NONE;
}

_Static_assert(sizeof(struct call_frame) - offsetof(struct call_frame, bytes) == CACHED_FACTS,
               "a frame's facts lie together, at its end");

/* A frame of a call like an earlier one, whose facts it takes over; without one (NULL) it has neither communicator nor
 * bytes yet. */
static inline void begin_frame_like(struct call_frame *f, const struct call *call, uintptr_t *a, struct thread *self,
                                    struct cached_call *cached) {
    static const struct call_frame fresh = {
        .comm_index = COMM_NONE, .seq = SEQ_NONE, .peer = PEER_NONE, .tag = TAG_NONE, .peer_class = PEER_CLASS_NONE};
    memcpy(&f->bytes, likely(cached != NULL) ? (const void *)cached->facts : &fresh.bytes, CACHED_FACTS);
    f->comm = likely(cached) ? cached->comm : NULL;
    f->self = self;
    f->call = call;
    f->a = a;
    f->cached = cached;
    if (!cached) /* a call like it has the same */
        f->id = call->id;
}

static inline void begin_frame(struct call_frame *f, const struct call *call, uintptr_t *a, struct thread *self) {
    begin_frame_like(f, call, a, self, NULL);
}

/* Where the call comes from, by the wrapper's frame, and whether it is recorded. */
static ALWAYS_INLINE void place_frame(struct call_frame *f, const uintptr_t *frame, uint32_t stack, uint8_t quiet) {
    f->pc = frame[1];
    if (!f->cached) /* a call like it has the same */
        f->stack = stack;
    f->quiet = quiet;
}

/* The facts of this call are complete, and follow from what a cached call is known by: they need not be found again.
 * Before anything that differs from call to call is put in. */
static inline void remember_frame(struct call_frame *f, uint64_t signature) {
    if (f->bytes == BYTES_UNKNOWN)
        return;
    f->cached = call_cache_add(f->self, f->call, f->a, f->pc, f->stack);
    if (!f->cached)
        return;
    memcpy(f->cached->facts, &f->bytes, CACHED_FACTS);
    f->cached->comm = f->comm;
    f->cached->signature = signature;
}

/* Right before the real function: tells the dump what the thread is about to do. f->t0 is read. */
static inline void publish_in_flight(const struct call_frame *f) {
    struct in_flight *slot = f->self->slot;
    slot->comm = f->comm_index;
    slot->bytes = f->bytes;
    slot->seq = f->seq;
    slot->peer = f->peer;
    slot->tag = f->tag;
    slot->op = f->op;
    slot->flags = f->flags;
    slot->stack = f->stack;
    slot->enter = f->t0;
    __atomic_store_n(&slot->call, f->id, __ATOMIC_RELEASE);
    own_cost_before(f->self);
}

/* The real function has returned. */
static inline void clear_in_flight(struct call_frame *f) {
    struct in_flight *slot = f->self->slot;
    f->t1 = ticks();
    __atomic_store_n(&slot->call, 0, __ATOMIC_RELAXED);
    slot->last_leave = f->t1;
}

/* A call of the job's own is over, which may have taken hours: what was ordered meanwhile is in force before the next
 * one. */
static inline void end_outer_call(const struct call_frame *f) {
    orders_look();
    own_cost_after(f->self, f->t1);
}

/* ---- recording ------------------------------------------------------------------------------- */

/* What a call is about, alike in frames, entries and records: communicator, peer, tag, stack. */
#define RECORD_FACTS (offsetof(struct record, call) - offsetof(struct record, comm))
_Static_assert(offsetof(struct call_frame, id) - offsetof(struct call_frame, comm_index) == RECORD_FACTS &&
                   offsetof(struct pending, call) - offsetof(struct pending, comm) == RECORD_FACTS,
               "frames and entries hold a record's facts in a record's order");

#define RECORD_TAIL (sizeof(struct record) - offsetof(struct record, call))
/* Of the last word of a record_template: its kind. */
#define KIND_SHIFT (8 * (offsetof(struct record_template, kind) - offsetof(struct record_template, call)))
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte of a word is its lowest");
_Static_assert(offsetof(struct call_frame, result) + 1 - offsetof(struct call_frame, id) == RECORD_TAIL,
               "frames hold a record's last fields in a record's order");

/* What repeats of a frame's record. */
struct facts frame_facts(const struct call_frame *f, enum record_kind kind, int32_t tag);

/* Its slow half, with the tag and numbers to be written. */
void record_frame_rare(const struct call_frame *f, enum record_kind kind, int32_t tag, uint32_t seq, uint32_t op);

/* Writes the record of a finished call like the one before, with that tag and numbers. False: for record_frame_rare. */
static ALWAYS_INLINE bool record_frame_known(const struct call_frame *f, int32_t tag, uint32_t seq, uint32_t op) {
    const struct cached_call *c = f->cached;
    return likely(c && template_is_known(&c->recorded, f->bytes, tag, f->flags) && !f->result &&
                  ring_write_known(f->self->lane, c->recorded.number, NULL, f->t0, f->t1, seq, op));
}

/* The ring's share of a finished call. Its kind follows from the call, unless that failed. */
static inline void record_frame(const struct call_frame *f, enum record_kind kind) {
    if (unlikely(!record_frame_known(f, f->tag, f->seq, f->op)))
        record_frame_rare(f, kind, f->tag, f->seq, f->op);
}

/* The slow half of record_poll. */
void record_poll_rare(const struct call_frame *f);

/* Notes a poll that found nothing: many in a row are one record. */
static inline void record_poll(const struct call_frame *f) {
    if (unlikely(!ring_add_poll(f->self->lane, &f->self->polls, f->t0, f->t1)))
        record_poll_rare(f);
}

/* The aggregates' share of a finished blocking call, where no cached call has the rows. */
void aggregate_frame_first(const struct call_frame *f, uint64_t received_bytes);

/* The aggregates' share of a finished blocking call. */
static inline void aggregate_frame(const struct call_frame *f, uint64_t received_bytes) {
    struct cached_call *c = f->cached;
    if (unlikely(received_bytes || f->failed || !cached_call_has_rows(c, f->bytes, false)))
        aggregate_frame_first(f, received_bytes);
    else
        cached_call_count_all(c, f->bytes, f->t1 - f->t0, 0, (f->flags & FLAG_BYTES_POSTED) != 0);
}

/* The aggregates' share alone, for a call that the ring has no use for. */
static inline void count_call(const struct call_frame *f) {
    if (!f->quiet)
        aggregate_frame(f, 0);
}

/* The slow half of record_and_count. */
void record_and_count_rare(const struct call_frame *f, int32_t tag, uint32_t seq, uint32_t op);

/* Both, for a call that is complete, with that tag and numbers in its record. */
static ALWAYS_INLINE void record_and_count(const struct call_frame *f, int32_t tag, uint32_t seq, uint32_t op) {
    if (likely(record_frame_known(f, tag, seq, op)))
        cached_call_count_all(f->cached, f->bytes, f->t1 - f->t0, 0, (f->flags & FLAG_BYTES_POSTED) != 0);
    else
        record_and_count_rare(f, tag, seq, op);
}

/* The same with its own. */
static inline void emit_call(const struct call_frame *f) {
    if (f->quiet)
        return;
    record_and_count(f, f->tag, f->seq, f->op);
    if (unlikely(recorder.verbose))
        verbose_line(f->call, f->comm ? f->comm->others : 0, f->bytes, f->t1 - f->t0);
}

#endif
