/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: posting, starting, waiting, testing, freeing. Posting, waiting and completion are told apart: the posting
 * call's record is POST, the Wait's or Test's own is CALL, and each operation seen complete gets a DONE.
 */
#include "shim/mpi/mpi_requests.h"

#include "shim/comm/ordinals.h"
#include "shim/mpi/mpi_library.h"

static uint32_t saturate(uint64_t value) {
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static bool is_null(uintptr_t handle) {
    return handle == 0 || handle == mpi_abi.request_null;
}

static bool waits_for_any(const struct pending *e) {
    return (e->flags & FLAG_WILDCARD) != 0;
}

static void count_wildcard(const struct pending *e, int change) {
    if (waits_for_any(e))
        __atomic_fetch_add(&requests.wildcards, (uint32_t)change, __ATOMIC_RELAXED);
}

/* ---- completion ------------------------------------------------------------------------------ */

struct completion {
    const void *status; /* NULL: none */
    uint64_t t1;
    uint64_t wait; /* ticks of the call that saw it */
    bool failed;   /* it, and not just any of those waited for */
    bool observed; /* by a Wait or Test */
    bool timed;    /* t1 is an upper bound of the completion */
};

static void take_status(struct pending *e, const struct request_private *p, const void *status) {
    int cancelled = 0;
    if (p->traits & REQUEST_CANCELLED && mpi_library.Test_cancelled(status, &cancelled) == 0 && cancelled) {
        e->flags |= FLAG_CANCELLED;
        return;
    }
    if (!(p->traits & REQUEST_RECEIVE))
        return;
    if (waits_for_any(e)) {
        int32_t source = mpi_status_source(status);
        e->peer = source == mpi_abi.proc_null ? PEER_NULL : source;
        e->tag = mpi_status_tag(status);
    }
    e->bytes = mpi_bytes_received(status);
    e->flags &= (uint16_t)~FLAG_BYTES_POSTED;
}

/* What repeats of an entry's record. */
static inline struct facts entry_facts(const struct pending *e, enum record_kind kind) {
    uint64_t tail = e->call | (uint64_t)e->flags << 16 | (uint64_t)kind << KIND_SHIFT |
                    (uint64_t)e->dtype << (KIND_SHIFT + 8) | (uint64_t)e->redop << (KIND_SHIFT + 16);
    return (struct facts){{e->bytes, facts_word(&e->comm), facts_word(&e->tag), tail}};
}

static __attribute__((noinline)) void record_entry_rare(struct thread *self, const struct pending *e, uint64_t t1,
                                                        enum record_kind kind, struct cached_call *cached) {
    const struct facts facts = entry_facts(e, kind);
    const struct record_moment moment = {e->t0, t1, e->seq, e->op};
    uint32_t template = ring_write_rare(self->lane, &facts, &moment);
    if (cached)
        template_learn(&cached->done, e->bytes, e->tag, e->flags, template);
}

/* `cached`: the call that posted it, NULL: not known any more. */
static inline void record_done(struct thread *self, const struct pending *e, uint64_t t1, struct cached_call *cached) {
    if (unlikely(!cached || !template_is_known(&cached->done, e->bytes, e->tag, e->flags) ||
                 !ring_write_known(self->lane, cached->done.number, NULL, e->t0, t1, e->seq, e->op)))
        record_entry_rare(self, e, t1, RECORD_DONE, cached);
}

/* Whom a message came from or went to, a rank; -1 when `e` is none, or none that took place. */
static inline int32_t partner(const struct pending *e, const struct request_private *p) {
    return p->traits & (REQUEST_SEND | REQUEST_RECEIVE) && !(e->flags & FLAG_CANCELLED) ? e->peer : -1;
}

static __attribute__((noinline)) void aggregate_first(struct thread *self, const struct pending *e,
                                                      const struct request_private *p, const struct completion *c,
                                                      struct cached_call *cached) {
    uint16_t call = p->starting_call ? p->starting_call : e->call;
    uint64_t time = c->timed ? c->t1 - e->t0 : 0;
    const struct operation_sample sample = {.call = call,
                                            .peer_class = p->peer_class,
                                            .comm = e->comm,
                                            .bytes = e->bytes,
                                            .time = c->timed ? time : UINT64_MAX,
                                            .posting = e->posting_ticks,
                                            .posted_size = (e->flags & FLAG_BYTES_POSTED) != 0};
    operations_add(self->lane, &sample);
    cached_call_learn(cached, self->lane, &sample);
    count_site(self->lane, cached, e->stack, e->comm, call, e->bytes, time, e->posting_ticks);
    if (partner(e, p) >= 0)
        count_peer(self->lane, cached, e->comm, e->peer, call, p->traits & REQUEST_SEND ? FLAG_SEND : FLAG_RECV,
                   e->bytes, time, c->wait);
}

static inline void aggregate_done(struct thread *self, const struct pending *e, const struct request_private *p,
                                  const struct completion *c, struct cached_call *cached) {
    bool message = partner(e, p) >= 0;
    if (unlikely(!c->timed || !cached_call_has_rows(cached, e->bytes, message))) {
        aggregate_first(self, e, p, c, cached);
        return;
    }
    uint64_t bytes = e->bytes, time = c->t1 - e->t0;
    cached_call_count_all(cached, bytes, time, e->posting_ticks, (e->flags & FLAG_BYTES_POSTED) != 0);
    if (message)
        peer_count(cached->peer, bytes, time, c->wait);
}

/* The communicator, unless it was freed and its place taken by another. */
static struct communicator *live_comm(const struct pending *e, const struct request_private *p) {
    return p->comm && p->comm->index == e->comm ? p->comm : NULL;
}

static void finish_creation(const struct pending *e, const struct request_private *p) {
    struct mpi_creation creation = {.call = e->call, .parent = live_comm(e, p), .topology = p->topology};
    mpi_communicator_register(mpi_handle_at(p->output, 0), &creation, p->ordinal);
}

/* The operation's own line: from its posting until it was seen to be complete. */
static __attribute__((noinline)) void say_operation(const struct pending *e, const struct request_private *p,
                                                    const struct completion *c) {
    const struct communicator *comm = live_comm(e, p);
    uint16_t id = p->starting_call ? p->starting_call : e->call;
    for (unsigned i = 0; i < commtap_call_count; i++)
        if (commtap_calls[i].id == id)
            verbose_line(&commtap_calls[i], comm ? comm->others : 0, e->bytes, c->t1 - e->t0);
}

/* Everything a completed operation leaves in the dump. */
static void account(struct thread *self, struct pending *e, struct request_private *p, const struct completion *c) {
    if (p->traits & REQUEST_RECEIVE) {
        if (e->peer == PEER_NULL)
            e->bytes = 0;
        else
            e->flags |= FLAG_BYTES_POSTED;
    }
    if (c->status)
        take_status(e, p, c->status);
    if (!c->observed)
        e->flags |= FLAG_UNOBSERVED;
    if (unlikely(p->traits & REQUEST_CREATES) && !c->failed)
        finish_creation(e, p);
    if (p->traits & REQUEST_COLLECTIVE && live_comm(e, p))
        collective_complete(p->comm);
    struct cached_call *cached = cached_call_again(self, p->cached, p->cached_serial);
    record_done(self, e, c->t1, cached);
    aggregate_done(self, e, p, c, cached);
    if (unlikely(recorder.verbose) && c->timed)
        say_operation(e, p, c);
    if (cached && (recorder.verbose || !cached_call_has_rows(cached, cached->done.bytes, partner(e, p) >= 0)))
        cached->done.flags = NO_KNOWN_TEMPLATE;
}

/* An entry that this thread has claimed is complete: records it and lets it go. */
static __attribute__((noinline)) void complete_entry(struct thread *self, uint32_t index, uintptr_t handle,
                                                     const struct completion *c) {
    struct pending *e = request_entry(index);
    if (e->persistent && !e->active) {
        request_publish(index, handle);
        return;
    }
    count_wildcard(e, -1);
    account(self, e, request_private(index), c);
    if (!e->persistent) {
        request_release(index);
        return;
    }
    e->active = 0;
    request_publish(index, handle);
}

/* The same of most: a message that a remembered call posted, and nothing more is known of than that it is over at `t1`.
 * False: it is for complete_entry. */
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

/* What the table has no room for is counted now, without a time. */
static void aggregate_untracked(const struct call_frame *f) {
    const struct operation_sample sample = {.call = f->call->id,
                                            .peer_class = f->peer_class,
                                            .comm = f->comm_index,
                                            .bytes = f->bytes,
                                            .time = UINT64_MAX,
                                            .posting = f->t1 - f->t0};
    operations_add(f->self->lane, &sample);
    count_site(f->self->lane, f->cached, f->stack, f->comm_index, f->id, f->bytes, 0, f->t1 - f->t0);
}

/* `handle` is given out again while the entry `stale` holds it: what that stood for is complete. */
static __attribute__((noinline)) void complete_stale(struct call_frame *f, uintptr_t handle, uint32_t stale) {
    struct pending *e = request_entry(stale);
    uint64_t posted = e->t0 + e->posting_ticks; /* another thread's posting may end after this one's began */
    struct completion c = {.t1 = posted > f->t0 ? posted : f->t0, .timed = true};
    if (f->flags & FLAG_SEND)
        request_learn_shared(handle, stale);
    if (e->persistent)
        request_release(stale);
    else
        complete_entry(f->self, stale, handle, &c);
}

static ALWAYS_INLINE uint32_t take_entry(struct call_frame *f, uintptr_t handle) {
    uint32_t stale, index = request_take(handle, &stale);
    if (unlikely(stale != REQUEST_NO_ENTRY))
        complete_stale(f, handle, stale);
    return index;
}

/* Complete when posted: there is nothing to follow. */
static __attribute__((noinline)) void finish_at_once(struct call_frame *f, uint16_t traits) {
    struct pending e;
    struct request_private p;
    struct completion c = {.t1 = f->t1, .observed = true, .timed = true};
    if (!f->quiet)
        record_frame(f, RECORD_POST);
    fill_entry(&e, &p, f, f->op, traits);
    account(f->self, &e, &p, &c);
}

/* The same of most, both records together: a send like one before. False: it is for finish_at_once. */
static __attribute__((noinline)) bool finish_known(const struct call_frame *f, uint32_t op) {
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

static ALWAYS_INLINE void post_operation(struct call_frame *f, uint16_t traits) {
    uintptr_t handle = mpi_handle_at(argument(f, f->call->request), 0);
    if (f->quiet && !(traits & REQUEST_CREATES))
        return;
    uint32_t op = f->op = count_up(&recorder.next_op) + 1;
    if (is_null(handle) || (traits & REQUEST_SEND && request_is_shared(handle))) {
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

void operation_posted(struct call_frame *f, uint16_t traits) {
    post_operation(f, traits);
}

void send_posted(struct call_frame *f) {
    post_operation(f, REQUEST_SEND);
}

void receive_posted(struct call_frame *f) {
    post_operation(f, REQUEST_RECEIVE);
}

void operation_prepared(struct call_frame *f, uint16_t traits) {
    uintptr_t handle = mpi_handle_at(argument(f, f->call->request), 0);
    uint32_t index = is_null(handle) ? REQUEST_NO_ENTRY : take_entry(f, handle);
    uint64_t bytes = f->bytes;
    if (index != REQUEST_NO_ENTRY) {
        fill_entry(request_entry(index), request_private(index), f, f->op, traits);
        request_entry(index)->persistent = 1;
        request_entry(index)->active = 0;
        request_private(index)->any_peer = f->peer;
        request_private(index)->any_tag = f->tag;
        request_private(index)->posted_bytes = bytes;
        request_private(index)->prepared_seq = f->seq;
        request_private(index)->ordinal = 0;
        request_publish(index, handle);
    }
    f->bytes = 0; /* preparing moves nothing */
    f->peer_class = PEER_CLASS_NONE;
    emit_call(f);
}

/* ---- starting -------------------------------------------------------------------------------- */

static uint32_t start_ordinal(const struct pending *e, struct request_private *p) {
    struct communicator *comm = live_comm(e, p);
    if (p->traits & REQUEST_COLLECTIVE)
        return p->prepared_seq;
    if (!comm || e->peer == PEER_NULL)
        return SEQ_NONE;
    if (p->traits & REQUEST_RECEIVE && waits_for_any(e))
        mpi_communicator(comm)->wildcards = 1;
    if (p->traits & REQUEST_RECEIVE && mpi_communicator(comm)->wildcards)
        return SEQ_NONE;
    return ordinal_next(e->comm, e->peer, e->tag, p->traits & REQUEST_SEND);
}

/* `together`: how many operations the call starts; its time is shared among them. */
static void start_entry(const struct call_frame *f, uint32_t index, uintptr_t handle, uint32_t together) {
    struct pending *e = request_entry(index);
    struct request_private *p = request_private(index);
    e->peer = p->any_peer;
    e->tag = p->traits & REQUEST_COLLECTIVE ? (int32_t)p->ordinal++ : p->any_tag;
    e->bytes = p->posted_bytes;
    e->flags = (uint16_t)((e->flags & ~(FLAG_ORDINAL_UNKNOWN | FLAG_UNOBSERVED | FLAG_CANCELLED)) | FLAG_STARTED);
    e->seq = start_ordinal(e, p);
    if (p->traits & REQUEST_RECEIVE && e->seq == SEQ_NONE)
        e->flags |= FLAG_ORDINAL_UNKNOWN;
    e->op = count_up(&recorder.next_op) + 1;
    e->t0 = f->t0;
    e->posting_ticks = saturate((f->t1 - f->t0) / together);
    e->tid = f->self->tid;
    e->active = 1;
    p->starting_call = f->call->id;
    p->traits &= (uint16_t)~REQUEST_CANCELLED;
    p->waits_before = requests.waits;
    count_wildcard(e, +1);
    if (!f->quiet)
        record_entry_rare(f->self, e, f->t1, RECORD_POST, NULL);
    request_publish(index, handle);
}

static void start_handle(struct call_frame *f, uintptr_t handle, uint32_t together) {
    uint32_t index = is_null(handle) ? REQUEST_NO_ENTRY : request_claim(handle);
    if (index != REQUEST_NO_ENTRY && request_entry(index)->persistent)
        start_entry(f, index, handle, together);
    else if (index != REQUEST_NO_ENTRY)
        request_publish(index, handle);
    else
        aggregate_untracked(f);
}

void start_after(struct call_frame *f) {
    if (f->failed)
        emit_call(f);
    else
        start_handle(f, mpi_handle_at(argument(f, f->call->request), 0), 1);
}

void startall_after(struct call_frame *f) {
    int32_t n = (int32_t)argument(f, f->call->n);
    if (f->failed)
        emit_call(f);
    for (int32_t i = 0; !f->failed && i < n; i++)
        start_handle(f, mpi_handle_at(argument(f, f->call->request), (size_t)i), (uint32_t)n);
}

/* ---- waiting and testing --------------------------------------------------------------------- */

static uint32_t request_count(const struct call_frame *f) {
    int32_t n = f->call->n ? (int32_t)argument(f, f->call->n) : 1;
    return n > 0 ? (uint32_t)n : 0;
}

static bool returns_one_status(const struct call *call) {
    return call->kind == KIND_WAIT || call->kind == KIND_TEST || call->kind == KIND_WAITANY ||
           call->kind == KIND_TESTANY;
}

/* While wildcards are pending, ignored statuses are replaced: `room` is behind the copied handles. */
static void want_statuses(struct call_frame *f, void *room) {
    if (argument(f, f->call->status) == mpi_abi.status_ignore)
        f->a[f->call->status - 1] = (uintptr_t)room;
}

void wait_before(struct call_frame *f) {
    if (unlikely(!f->cached))
        remember_frame(f, 0);
    count_up(&requests.waits);
    mpi_tail(f)->n = 1;
    mpi_tail(f)->handle = mpi_handle_at(argument(f, f->call->request), 0);
    mpi_tail(f)->handles = &mpi_tail(f)->handle;
    if (unlikely(__atomic_load_n(&requests.wildcards, __ATOMIC_RELAXED)))
        want_statuses(f, mpi_tail(f)->status);
    uint32_t index = is_null(mpi_tail(f)->handle) ? REQUEST_NO_ENTRY : request_find(mpi_tail(f)->handle);
    if (likely(index != REQUEST_NO_ENTRY))
        f->op = request_entry(index)->op; /* what it waits for, should it never return */
}

static uint32_t op_of(uintptr_t handle) {
    uint32_t index = request_find(handle);
    return likely(index != REQUEST_NO_ENTRY) ? request_entry(index)->op : 0;
}

/* Copies a list of requests, and tells what it is, should the call never return: first, last, how many. */
static inline void copy_list(struct call_frame *f, uintptr_t list) {
    uintptr_t first = 0, last = 0;
    uint32_t live = 0;
    for (uint32_t i = 0; i < mpi_tail(f)->n; i++) {
        uintptr_t handle = mpi_tail(f)->handles[i] = mpi_handle_at(list, i);
        if (is_null(handle))
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

void waits_before(struct call_frame *f) {
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

/* Which requests a returned call completed: how many, whether listed by `index`, and where their statuses lie. */
struct completed {
    uint32_t count;
    const int32_t *indices; /* NULL: request i is i */
    bool statuses_by_order; /* statuses follow the list, not the requests */
};

static struct completed find_completed(const struct call_frame *f) {
    const struct call *call = f->call;
    struct completed none = {0}, done = {0};
    if (call->flag && !*(const int32_t *)argument(f, call->flag))
        return none;
    switch (call->kind) {
    case KIND_WAITANY:
    case KIND_TESTANY:
        done.indices = (const int32_t *)argument(f, call->index);
        done.count = 1;
        done.statuses_by_order = true;
        return done.indices[0] == mpi_abi.undefined ? none : done;
    case KIND_WAITSOME:
    case KIND_TESTSOME:
        done.indices = (const int32_t *)argument(f, call->index);
        done.statuses_by_order = true;
        int32_t count = *(const int32_t *)argument(f, call->outcount);
        done.count = count > 0 ? (uint32_t)count : 0;
        return done;
    default:
        done.count = mpi_tail(f)->n;
        return done;
    }
}

/* The entry this call waited for. One posted after the call began belongs to another thread, which got the handle when
 * the library had it back. */
static uint32_t claim_waited(const struct call_frame *f, uintptr_t handle) {
    uint32_t index = request_claim(handle);
    if (index != REQUEST_NO_ENTRY && unlikely(request_entry(index)->t0 > f->t0)) {
        request_publish(index, handle);
        return REQUEST_NO_ENTRY;
    }
    return index;
}

static void complete_requests(struct call_frame *f, const struct completed *done) {
    const char *statuses = status_argument(f);
    struct completion c = {.t1 = f->t1, .wait = f->t1 - f->t0, .observed = true, .timed = true};
    for (uint32_t k = 0; k < done->count; k++) {
        uint32_t i = done->indices ? (uint32_t)done->indices[k] : k;
        if (i >= mpi_tail(f)->n || is_null(mpi_tail(f)->handles[i]))
            continue;
        uint32_t index = claim_waited(f, mpi_tail(f)->handles[i]);
        if (index == REQUEST_NO_ENTRY)
            continue;
        if (statuses)
            c.status = statuses + (size_t)(done->statuses_by_order ? k : i) * mpi_abi.status_bytes;
        if ((c.status && request_private(index)->traits != REQUEST_SEND) ||
            unlikely(!complete_known(f->self, index, c.t1, c.wait)))
            complete_entry(f->self, index, mpi_tail(f)->handles[i], &c);
    }
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

/* After an error only requests whose handles are gone are known to be over. */
static void complete_failed(struct call_frame *f) {
    struct completion c = {.t1 = f->t1, .failed = mpi_tail(f)->n == 1, .observed = true, .timed = true};
    for (uint32_t i = 0; i < mpi_tail(f)->n; i++) {
        if (is_null(mpi_tail(f)->handles[i]) || !is_null(mpi_handle_at(argument(f, f->call->request), i)))
            continue;
        uint32_t index = claim_waited(f, mpi_tail(f)->handles[i]);
        if (index != REQUEST_NO_ENTRY)
            complete_entry(f->self, index, mpi_tail(f)->handles[i], &c);
    }
}

/* A Wait's or Test's own share: what it waited for, which stands in the frame, was of interest while it did. */
static inline void emit_wait(const struct call_frame *f) {
    record_and_count(f, TAG_NONE, SEQ_NONE, 0);
}

/* Wait and Waitall that succeeded: the whole list is complete. */
void waitall_after(struct call_frame *f) {
    if (unlikely(f->failed || f->quiet)) {
        wait_after(f);
        return;
    }
    const struct completed done = {.count = mpi_tail(f)->n};
    emit_wait(f);
    if (likely(!status_argument(f)))
        complete_list(f);
    else
        complete_requests(f, &done);
}

void wait_after(struct call_frame *f) {
    struct completed done = {0};
    bool test = f->call->flag || f->call->kind == KIND_TESTSOME;
    if (likely(!f->failed))
        done = find_completed(f);
    if (!f->quiet) {
        if (!test || done.count || f->failed) {
            emit_wait(f);
        } else {
            record_poll(f);
            aggregate_frame(f, 0);
        }
    }
    if (unlikely(f->failed))
        complete_failed(f);
    else
        complete_requests(f, &done);
}

/* ---- freeing, cancelling, looking ------------------------------------------------------------ */

void request_free_before(struct call_frame *f) {
    mpi_tail(f)->handle = mpi_handle_at(argument(f, f->call->request), 0);
}

void request_free_after(struct call_frame *f) {
    struct completion c = {.t1 = f->t1, .observed = false};
    uint32_t index = f->failed || is_null(mpi_tail(f)->handle) ? REQUEST_NO_ENTRY : request_claim(mpi_tail(f)->handle);
    emit_call(f);
    if (index == REQUEST_NO_ENTRY)
        return;
    bool persistent = request_entry(index)->persistent;
    if (request_entry(index)->active)
        complete_entry(f->self, index, mpi_tail(f)->handle, &c);
    if (persistent)
        request_release(index);
}

void cancel_after(struct call_frame *f) {
    uint32_t index = f->failed ? REQUEST_NO_ENTRY : request_find(mpi_handle_at(argument(f, f->call->request), 0));
    if (index != REQUEST_NO_ENTRY)
        request_private(index)->traits |= REQUEST_CANCELLED;
    emit_call(f);
}

void poll_after(struct call_frame *f) {
    if (f->quiet)
        return;
    if (f->failed || (f->call->flag && *(const int32_t *)argument(f, f->call->flag)))
        record_frame(f, RECORD_CALL);
    else
        record_poll(f);
    aggregate_frame(f, 0);
}
