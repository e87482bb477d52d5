/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of nearly all messages through their requests: posted by a remembered call, waited for in a list without
 * statuses. Lives here: that way, which wrappers have as code of their own. Must not live here: whatever else may
 * happen to a request (mpi_requests.c), to which everything goes that is not so.
 */
#ifndef COMMTAP_MPI_MESSAGES_H
#define COMMTAP_MPI_MESSAGES_H

#include "shim/comm/ordinals.h"
#include "shim/mpi/mpi_frame.h"

/* ---- the rest, in mpi_requests.c -------------------------------------------------------------- */

struct completion {
    const void *status; /* NULL: none */
    uint64_t t1;
    uint64_t wait; /* ticks of the call that saw it */
    bool failed;   /* it, and not just any of those waited for */
    bool observed; /* by a Wait or Test */
    bool timed;    /* t1 is an upper bound of the completion */
};

/* An entry that this thread has claimed is complete: records it and lets it go. */
void complete_entry(struct thread *self, uint32_t index, uintptr_t handle, const struct completion *c);
/* `handle` is given out again while the entry `stale` holds it: what that stood for is complete. */
void complete_stale(struct call_frame *f, uintptr_t handle, uint32_t stale);
/* The whole list that a call waited for is complete. */
void complete_all(struct call_frame *f);
/* A posted operation that was complete when posted: there is nothing to follow. */
void finish_at_once(struct call_frame *f, uint16_t traits);
/* One that the table has no room for is counted now, without a time. */
void aggregate_untracked(const struct call_frame *f);
/* After a call that waited for requests, or tested them. */
void wait_after(struct call_frame *f);

/* What a field of 32 bits can say of it. */
static inline uint32_t saturate(uint64_t value) {
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static inline bool request_is_null(uintptr_t handle) {
    return handle == 0 || handle == mpi_abi.request_null;
}

static inline bool waits_for_any(const struct pending *e) {
    return (e->flags & FLAG_WILDCARD) != 0;
}

static inline void count_wildcard(const struct pending *e, int change) {
    if (waits_for_any(e))
        __atomic_fetch_add(&requests.wildcards, (uint32_t)change, __ATOMIC_RELAXED);
}

/* ---- posting --------------------------------------------------------------------------------- */

/* `op`: the frame's, which was just put there: the two words beside each other would be slow to read. */
static inline void fill_entry(struct pending *e, struct request_private *p, const struct call_frame *f, uint32_t op,
                              uint16_t traits) {
    e->t0 = f->t0;
    e->bytes = f->bytes;
    e->seq = f->seq;
    e->op = op;
    memcpy(&e->comm, &f->comm_index, RECORD_FACTS);
    e->call = f->id;
    e->flags = f->flags;
    e->tid = f->self->tid;
    e->posting_ticks = saturate(f->t1 - f->t0);
    e->dtype = f->dtype;
    e->redop = f->redop;
    e->persistent = 0;
    e->active = 1;
    p->comm = f->comm;
    p->waits_before = requests.waits;
    p->traits = traits;
    p->starting_call = 0;
    p->peer_class = f->peer_class;
    p->cached = f->cached ? cached_call_offset(f->self, f->cached) : 0;
    p->cached_serial = f->cached ? f->cached->serial : 0;
    if (unlikely(traits & REQUEST_CREATES)) {
        p->output = argument(f, f->call->output);
        p->ordinal = mpi_tail(f)->ordinal;
        p->topology = mpi_tail(f)->topology;
    }
}

/* A free entry for a request, or REQUEST_NO_ENTRY. */
static ALWAYS_INLINE uint32_t take_entry(struct call_frame *f, uintptr_t handle) {
    uint32_t stale, index = request_take(handle, &stale);
    if (unlikely(stale != REQUEST_NO_ENTRY))
        complete_stale(f, handle, stale);
    return index;
}

/* The same of most, both records together: a send like one before. False: it is for finish_at_once. */
static ALWAYS_INLINE bool finish_known(const struct call_frame *f, uint32_t op) {
    struct cached_call *c = f->cached;
    uint64_t bytes = f->bytes, time = f->t1 - f->t0;
    if (unlikely(f->quiet || !c || !template_is_known(&c->recorded, bytes, f->tag, f->flags) ||
                 !template_is_known(&c->done, bytes, f->tag, f->flags) ||
                 !ring_write_known(f->self->lane, c->recorded.number, &c->done.number, f->t0, f->t1, f->seq, op)))
        return false;
    cached_call_count_all(c, bytes, time, time, false); /* it fits the slot: no longer than 32 bits */
    if (likely(c->peer))
        peer_count(c->peer, bytes, time, 0);
    return true;
}

/* A non-blocking operation was posted: records it and follows its request. `traits`: enum request_trait. */
static ALWAYS_INLINE void post_operation(struct call_frame *f, uint16_t traits) {
    uintptr_t handle = mpi_handle_at(argument(f, f->call->request), 0);
    if (f->quiet && !(traits & REQUEST_CREATES))
        return;
    uint32_t op = f->op = count_up(&recorder.next_op) + 1;
    if (request_is_null(handle) || (traits & REQUEST_SEND && request_is_shared(handle))) {
        if (traits != REQUEST_SEND || !finish_known(f, op))
            finish_at_once(f, traits);
        return;
    }
    if (likely(!f->quiet) && unlikely(!record_frame_known(f, f->tag, f->seq, op)))
        record_frame_rare(f, RECORD_POST, f->tag, f->seq, op);
    uint32_t index = take_entry(f, handle);
    if (unlikely(index == REQUEST_NO_ENTRY)) {
        aggregate_untracked(f);
        return;
    }
    fill_entry(request_entry(index), request_private(index), f, op, traits);
    if (unlikely(f->flags & FLAG_WILDCARD))
        count_wildcard(request_entry(index), +1);
    request_publish(index, handle);
}

/* ---- completion ------------------------------------------------------------------------------ */

/* complete_entry of most: a message that a remembered call posted, and nothing more is known of than that it is over at
 * `t1`. False: it is for complete_entry. */
static ALWAYS_INLINE bool complete_known(struct thread *self, uint32_t index, uint64_t t1, uint64_t wait) {
    const struct pending *e = request_entry(index);
    const struct request_private *p = request_private(index);
    struct cached_call *cached = cached_call_again(self, p->cached, p->cached_serial);
    bool receive = (e->flags & FLAG_RECV) != 0;
    uint16_t flags = e->flags | (receive ? FLAG_BYTES_POSTED : 0);
    uint64_t bytes = e->bytes, time = t1 - e->t0, posting = e->posting_ticks;
    if (unlikely(p->traits > REQUEST_RECEIVE || !cached || !template_is_known(&cached->done, bytes, e->tag, flags) ||
                 !ring_write_known(self->lane, cached->done.number, NULL, e->t0, t1, e->seq, e->op)))
        return false;
    cached_call_count_all(cached, bytes, time, posting, receive);
    if (likely(cached->peer))
        peer_count(cached->peer, bytes, time, wait);
    request_release(index);
    return true;
}

/* The entry this call waited for. One posted after the call began belongs to another thread, which got the handle when
 * the library had it back. */
static inline uint32_t claim_waited(const struct call_frame *f, uintptr_t handle) {
    uint32_t index = request_claim(handle);
    if (index != REQUEST_NO_ENTRY && unlikely(request_entry(index)->t0 > f->t0)) {
        request_publish(index, handle);
        return REQUEST_NO_ENTRY;
    }
    return index;
}

/* The whole list is complete, and nothing is told of its messages. A library that has one handle for all that was
 * complete when posted may fill the list with it. */
static ALWAYS_INLINE void complete_list(struct call_frame *f) {
    struct thread *self = f->self;
    const struct completion c = {.t1 = f->t1, .wait = f->t1 - f->t0, .observed = true, .timed = true};
    const uintptr_t *handles = mpi_tail(f)->handles, null = mpi_abi.request_null;
    uintptr_t untracked = 0;
    for (uint32_t i = 0, n = mpi_tail(f)->n; i < n; i++) {
        uintptr_t handle = handles[i];
        if (handle == untracked || handle == null)
            continue;
        uint32_t index = claim_waited(f, handle);
        if (index == REQUEST_NO_ENTRY)
            untracked = handle;
        else if (unlikely(!complete_known(self, index, c.t1, c.wait)))
            complete_entry(self, index, handle, &c);
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static inline uint32_t request_count(const struct call_frame *f) {
    int32_t n = f->call->n ? (int32_t)argument(f, f->call->n) : 1;
    return n > 0 ? (uint32_t)n : 0;
}

static inline bool returns_one_status(const struct call *call) {
    return call->kind == KIND_WAIT || call->kind == KIND_TEST || call->kind == KIND_WAITANY ||
           call->kind == KIND_TESTANY;
}

/* While wildcards are pending, ignored statuses are replaced: `room` is behind the copied handles. */
static inline void want_statuses(struct call_frame *f, void *room) {
    if (argument(f, f->call->status) == mpi_abi.status_ignore)
        f->a[f->call->status - 1] = (uintptr_t)room;
}

static inline uint32_t op_of(uintptr_t handle) {
    uint32_t index = request_find(handle);
    return likely(index != REQUEST_NO_ENTRY) ? request_entry(index)->op : 0;
}

/* Copies a list of requests, and tells what it is, should the call never return: first, last, how many. */
static inline void copy_list(struct call_frame *f, uintptr_t list) {
    uintptr_t first = 0, last = 0;
    uint32_t live = 0;
    for (uint32_t i = 0; i < mpi_tail(f)->n; i++) {
        uintptr_t handle = mpi_tail(f)->handles[i] = mpi_handle_at(list, i);
        if (request_is_null(handle))
            continue;
        last = handle;
        if (live++ == 0)
            first = handle;
    }
    if (!live)
        return;
    f->op = op_of(first);
    f->seq = op_of(last);
    f->tag = (int32_t)live;
}

/* Before a call that waits for a list, or tests it: the requests are copied, for the call clears the job's. */
static ALWAYS_INLINE void waitall_before(struct call_frame *f) {
    if (unlikely(!f->cached))
        remember_frame(f, 0);
    count_up(&requests.waits);
    uint32_t n = request_count(f);
    bool any = __atomic_load_n(&requests.wildcards, __ATOMIC_RELAXED) != 0;
    size_t handles = ((size_t)n * sizeof *mpi_tail(f)->handles + 15) & ~(size_t)15;
    size_t statuses = any ? (returns_one_status(f->call) ? 1u : (size_t)n) * mpi_abi.status_bytes : 0;
    char *room = thread_scratch(f->self, handles + statuses + 64);
    mpi_tail(f)->n = room ? n : 0;
    mpi_tail(f)->handles = (uintptr_t *)room;
    copy_list(f, argument(f, f->call->request));
    if (any && room)
        want_statuses(f, room + handles);
    if (n > 16)
        f->t0 = ticks(); /* copying a long list is not waiting */
}

/* A Wait's or Test's own share: what it waited for, which stands in the frame, was of interest while it did. */
static inline void emit_wait(const struct call_frame *f) {
    record_and_count(f, TAG_NONE, SEQ_NONE, 0);
}

/* Wait and Waitall that succeeded: the whole list is complete. */
static ALWAYS_INLINE void waitall_after(struct call_frame *f) {
    if (unlikely(f->failed || f->quiet)) {
        wait_after(f);
        return;
    }
    emit_wait(f);
    if (likely(!status_argument(f)))
        complete_list(f);
    else
        complete_all(f);
}

#endif
