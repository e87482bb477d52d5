/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: posting, starting, waiting, testing, freeing. Posting, waiting and completion are told apart: the posting
 * call's record is POST, the Wait's or Test's own is CALL, and each operation seen complete gets a DONE.
 */
#include "shim/mpi/mpi_requests.h"

#include "shim/mpi/messages.h"
#include "shim/mpi/mpi_library.h"
#include "shim/mpi/mpi_topology.h"

/* ---- completion ------------------------------------------------------------------------------ */

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
    uint32_t template = ring_write_rare(self->lane, &facts, &moment, cached != NULL);
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
    mpi_topology_define(mpi_communicator_register(mpi_handle_at(p->output, 0), &creation, p->ordinal));
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

void complete_entry(struct thread *self, uint32_t index, uintptr_t handle, const struct completion *c) {
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

/* ---- posting --------------------------------------------------------------------------------- */

void aggregate_untracked(const struct call_frame *f) {
    const struct operation_sample sample = {.call = f->call->id,
                                            .peer_class = f->peer_class,
                                            .comm = f->comm_index,
                                            .bytes = f->bytes,
                                            .time = UINT64_MAX,
                                            .posting = f->t1 - f->t0};
    operations_add(f->self->lane, &sample);
    count_site(f->self->lane, f->cached, f->stack, f->comm_index, f->id, f->bytes, 0, f->t1 - f->t0);
}

void complete_stale(struct call_frame *f, uintptr_t handle, uint32_t stale) {
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

void finish_at_once(struct call_frame *f, uint16_t traits) {
    struct pending e;
    struct request_private p;
    struct completion c = {.t1 = f->t1, .observed = true, .timed = true};
    if (!f->quiet)
        record_frame(f, RECORD_POST);
    fill_entry(&e, &p, f, f->op, traits);
    account(f->self, &e, &p, &c);
}

void operation_posted(struct call_frame *f, uint16_t traits) {
    post_operation(f, traits);
}

void operation_prepared(struct call_frame *f, uint16_t traits) {
    uintptr_t handle = mpi_handle_at(argument(f, f->call->request), 0);
    uint32_t index = request_is_null(handle) ? REQUEST_NO_ENTRY : take_entry(f, handle);
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
    uint32_t index = request_is_null(handle) ? REQUEST_NO_ENTRY : request_claim(handle);
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

void wait_before(struct call_frame *f) {
    if (unlikely(!f->cached))
        remember_frame(f, 0);
    count_up(&requests.waits);
    mpi_tail(f)->n = 1;
    mpi_tail(f)->handle = mpi_handle_at(argument(f, f->call->request), 0);
    mpi_tail(f)->handles = &mpi_tail(f)->handle;
    if (unlikely(__atomic_load_n(&requests.wildcards, __ATOMIC_RELAXED)))
        want_statuses(f, mpi_tail(f)->status);
    uint32_t index = request_is_null(mpi_tail(f)->handle) ? REQUEST_NO_ENTRY : request_find(mpi_tail(f)->handle);
    if (likely(index != REQUEST_NO_ENTRY))
        f->op = request_entry(index)->op; /* what it waits for, should it never return */
}

void waits_before(struct call_frame *f) {
    waitall_before(f);
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

static void complete_requests(struct call_frame *f, const struct completed *done) {
    const char *statuses = status_argument(f);
    struct completion c = {.t1 = f->t1, .wait = f->t1 - f->t0, .observed = true, .timed = true};
    for (uint32_t k = 0; k < done->count; k++) {
        uint32_t i = done->indices ? (uint32_t)done->indices[k] : k;
        if (i >= mpi_tail(f)->n || request_is_null(mpi_tail(f)->handles[i]))
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

void complete_all(struct call_frame *f) {
    const struct completed done = {.count = mpi_tail(f)->n};
    complete_requests(f, &done);
}

/* After an error only requests whose handles are gone are known to be over. */
static void complete_failed(struct call_frame *f) {
    struct completion c = {.t1 = f->t1, .failed = mpi_tail(f)->n == 1, .observed = true, .timed = true};
    for (uint32_t i = 0; i < mpi_tail(f)->n; i++) {
        if (request_is_null(mpi_tail(f)->handles[i]) ||
            !request_is_null(mpi_handle_at(argument(f, f->call->request), i)))
            continue;
        uint32_t index = claim_waited(f, mpi_tail(f)->handles[i]);
        if (index != REQUEST_NO_ENTRY)
            complete_entry(f->self, index, mpi_tail(f)->handles[i], &c);
    }
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
    uint32_t index =
        f->failed || request_is_null(mpi_tail(f)->handle) ? REQUEST_NO_ENTRY : request_claim(mpi_tail(f)->handle);
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
