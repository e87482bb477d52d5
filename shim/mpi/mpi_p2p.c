/* SPDX-License-Identifier: Apache-2.0
 *
 * Point-to-point calls: sends, receives, probes, matched probes; blocking, non-blocking and persistent.
 * Must not live here: what happens when a request completes (mpi_requests.c).
 */
#include "shim/mpi/mpi_p2p.h"

static uint8_t class_of(const struct call_frame *f, int32_t peer) {
    if (peer == PEER_NULL)
        return PEER_CLASS_NULL;
    return f->comm && f->comm->kind == COMMUNICATOR_INTRA && peer == f->comm->rank ? PEER_CLASS_SELF : PEER_CLASS_RANK;
}

static void set_bytes(struct call_frame *f, bool ask) {
    f->bytes = mpi_bytes(f->call, f->a, f->comm, false, ask);
}

/* Before the call: what is known already. Nothing goes to MPI_PROC_NULL, or comes from it. */
static void find_bytes(struct call_frame *f) {
    if (!mpi_bytes_quick(f->call, f->a, &f->bytes, &f->dtype))
        set_bytes(f, false);
    if (unlikely(f->peer == PEER_NULL))
        f->bytes = 0;
}

/* ---- destinations and sources ---------------------------------------------------------------- */

/* But for the tag. */
static void set_destination(struct call_frame *f) {
    int32_t peer = (int32_t)argument(f, f->call->peer);
    f->peer = peer == mpi_abi.proc_null ? PEER_NULL : peer;
    f->peer_class = class_of(f, f->peer);
    f->flags |= FLAG_SEND;
    if (f->call->bits & CALL_SYNCHRONOUS)
        f->flags |= FLAG_SYNCHRONOUS;
}

static int32_t source_argument(const struct call_frame *f, uint8_t position) {
    int32_t peer = (int32_t)argument(f, position);
    return peer == mpi_abi.any_source ? PEER_ANY : peer == mpi_abi.proc_null ? PEER_NULL : peer;
}

static void set_source(struct call_frame *f, uint8_t peer, uint8_t tag) {
    f->peer = source_argument(f, peer);
    f->tag = tag_argument(f, tag);
    f->peer_class = class_of(f, f->peer);
    f->flags |= FLAG_RECV;
    if (f->peer == PEER_ANY || (f->tag == TAG_ANY && f->peer != PEER_NULL))
        f->flags |= FLAG_WILDCARD;
}

static void take_source(struct call_frame *f, const void *status) {
    int32_t source = mpi_status_source(status);
    f->peer = source == mpi_abi.proc_null ? PEER_NULL : source;
    f->tag = mpi_status_tag(status);
    f->peer_class = class_of(f, f->peer);
}

/* What a finished blocking receive got. */
static void take_received(struct call_frame *f) {
    const void *status = status_argument(f);
    if (f->failed)
        return;
    if (status && f->flags & FLAG_WILDCARD)
        take_source(f, status);
    if (f->peer == PEER_NULL)
        f->bytes = 0;
    else if (status)
        f->bytes = mpi_bytes_received(status);
    else {
        if (f->bytes == BYTES_UNKNOWN)
            set_bytes(f, true);
        f->flags |= FLAG_BYTES_POSTED;
    }
}

static void add_peer(const struct call_frame *f, uint16_t direction) {
    if (!f->quiet && !f->failed && f->peer >= 0)
        count_peer(f->self->lane, f->cached, f->comm_index, f->peer, f->call->id, direction, f->bytes, f->t1 - f->t0,
                   0);
}

/* ---- blocking -------------------------------------------------------------------------------- */

void send_find_facts(struct call_frame *f) {
    frame_set_comm(f, frame_find_comm(f));
    set_destination(f);
    find_bytes(f);
    if (f->comm && call_is_cached(f->call))
        remember_frame(f, 0);
}

static void settle_bytes(struct call_frame *f) {
    if (f->failed)
        return;
    if (unlikely(!f->comm))
        frame_find_unseen(f);
    if (unlikely(f->bytes == BYTES_UNKNOWN))
        set_bytes(f, true);
}

void send_after(struct call_frame *f) {
    settle_bytes(f);
    emit_call(f);
    add_peer(f, FLAG_SEND);
}

/* One from anybody differs from the next: it is not cached. */
void receive_find_facts(struct call_frame *f) {
    frame_set_comm(f, frame_find_comm(f));
    set_source(f, f->call->peer, f->call->tag);
    find_bytes(f);
    if (f->comm && !(f->flags & FLAG_WILDCARD) && call_is_cached(f->call))
        remember_frame(f, 0);
}

void recv_after(struct call_frame *f) {
    if (!f->failed && unlikely(!f->comm))
        frame_find_unseen(f);
    take_received(f);
    emit_call(f);
    add_peer(f, FLAG_RECV);
}

/* The sent half is the call's record; the received half follows as a record of its own with the same `op`. */
void sendrecv_before(struct call_frame *f) {
    frame_set_comm(f, frame_find_comm(f));
    int32_t source = source_argument(f, f->call->peer2), tag = tag_argument(f, f->call->tag2);
    mpi_tail(f)->ordinal = receive_ordinal(f, source, tag);
    f->flags = 0;
    set_destination(f);
    f->tag = (int32_t)argument(f, f->call->tag);
    f->op = next_op();
    find_bytes(f);
    if (f->comm && f->peer >= 0)
        f->seq = ordinal_next(f->comm_index, f->peer, f->tag, true);
    if (source == PEER_ANY || tag == TAG_ANY)
        want_status(f);
    mpi_tail(f)->n = f->op; /* the slot tells the source instead, until the call returns */
    f->op = (uint32_t)source;
    f->flags |= FLAG_RECV;
}

static void sendrecv_forget_source(struct call_frame *f) {
    f->op = mpi_tail(f)->n;
    f->flags &= (uint16_t)~FLAG_RECV;
}

static struct call_frame received_half(const struct call_frame *f) {
    struct call_frame half = *f;
    half.flags = FLAG_RECEIVE_HALF;
    set_source(&half, f->call->peer2, f->call->tag2);
    half.seq = mpi_tail(f)->ordinal;
    if (half.seq == SEQ_NONE)
        half.flags |= FLAG_ORDINAL_UNKNOWN;
    half.bytes = mpi_bytes_second(f->call, f->a, !f->failed);
    return half;
}

void sendrecv_after(struct call_frame *f) {
    sendrecv_forget_source(f);
    settle_bytes(f);
    struct call_frame half = received_half(f);
    take_received(&half);
    if (!f->quiet) {
        record_frame(f, RECORD_CALL);
        record_frame(&half, RECORD_CALL);
        aggregate_frame(f, half.bytes == BYTES_UNKNOWN ? 0 : half.bytes);
        if (recorder.verbose)
            verbose_line(f->call, f->comm ? f->comm->others : 0, f->bytes, f->t1 - f->t0);
    }
    add_peer(f, FLAG_SEND);
    add_peer(&half, FLAG_RECV);
}

/* ---- non-blocking and persistent ------------------------------------------------------------- */

void isend_settle_after(struct call_frame *f) {
    settle_bytes(f);
    if (f->failed)
        emit_call(f);
    else
        operation_posted(f, REQUEST_SEND);
}

void irecv_settle_after(struct call_frame *f) {
    settle_bytes(f);
    if (f->failed)
        emit_call(f);
    else
        operation_posted(f, REQUEST_RECEIVE);
}

void isendrecv_before(struct call_frame *f) {
    sendrecv_before(f);
    sendrecv_forget_source(f);
    f->op = 0;
}

void isendrecv_after(struct call_frame *f) {
    settle_bytes(f);
    if (f->failed) {
        emit_call(f);
        return;
    }
    operation_posted(f, REQUEST_SEND);
    if (!f->quiet) {
        struct call_frame half = received_half(f);
        half.flags |= FLAG_BYTES_POSTED;
        record_frame(&half, RECORD_POST);
    }
}

void send_init_before(struct call_frame *f) {
    frame_set_comm(f, frame_find_comm(f));
    set_destination(f);
    f->tag = (int32_t)argument(f, f->call->tag);
    find_bytes(f);
}

void send_init_after(struct call_frame *f) {
    settle_bytes(f);
    if (f->failed)
        emit_call(f);
    else
        operation_prepared(f, REQUEST_SEND);
}

void recv_init_before(struct call_frame *f) {
    frame_set_comm(f, frame_find_comm(f));
    set_source(f, f->call->peer, f->call->tag);
    find_bytes(f);
}

void recv_init_after(struct call_frame *f) {
    settle_bytes(f);
    if (f->failed)
        emit_call(f);
    else
        operation_prepared(f, REQUEST_RECEIVE);
}

/* ---- probes ---------------------------------------------------------------------------------- */

static bool flag_is_set(const struct call_frame *f) {
    return !f->call->flag || *(const int *)argument(f, f->call->flag);
}

void probe_before(struct call_frame *f) {
    frame_set_comm(f, frame_find_comm(f));
    set_source(f, f->call->peer, f->call->tag);
}

void probe_after(struct call_frame *f) {
    const void *status = status_argument(f);
    bool found = !f->failed && flag_is_set(f);
    if (found && status && f->flags & FLAG_WILDCARD)
        take_source(f, status);
    if (f->quiet)
        return;
    if (found || f->failed)
        record_frame(f, RECORD_CALL);
    else
        record_poll(f);
    aggregate_frame(f, 0);
}

/* From here on the order of receives is not the order of their posting. */
void mprobe_before(struct call_frame *f) {
    probe_before(f);
    if (f->comm)
        mpi_communicator(f->comm)->wildcards = 1;
}

void mprobe_after(struct call_frame *f) {
    uintptr_t message = mpi_handle_at(argument(f, f->call->message), 0);
    if (!f->failed && flag_is_set(f) && f->comm && message != mpi_abi.message_no_proc)
        handle_map_set(&mpi_handles->messages, message, (uintptr_t)f->comm);
    probe_after(f);
}

/* The message carries communicator, source and tag; only the status tells. */
void mrecv_before(struct call_frame *f) {
    mpi_tail(f)->handle = mpi_handle_at(argument(f, f->call->message), 0);
    frame_set_comm(f, (struct communicator *)handle_map_get(&mpi_handles->messages, mpi_tail(f)->handle));
    f->peer = mpi_tail(f)->handle == mpi_abi.message_no_proc ? PEER_NULL : PEER_ANY;
    f->tag = TAG_ANY;
    f->flags |= FLAG_RECV | FLAG_WILDCARD | FLAG_ORDINAL_UNKNOWN;
    f->peer_class = class_of(f, f->peer);
    f->op = f->call->request ? 0 : next_op();
    find_bytes(f);
    want_status(f);
}

void mrecv_after(struct call_frame *f) {
    handle_map_remove(&mpi_handles->messages, mpi_tail(f)->handle);
    take_received(f);
    emit_call(f);
    add_peer(f, FLAG_RECV);
}

void imrecv_after(struct call_frame *f) {
    handle_map_remove(&mpi_handles->messages, mpi_tail(f)->handle);
    irecv_after(f);
}
