/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of point-to-point calls, named in wrap_mpi.c's table of kinds. Each takes the frame of one call, before or
 * after the real function.
 */
#ifndef COMMTAP_MPI_P2P_H
#define COMMTAP_MPI_P2P_H

#include "shim/comm/ordinals.h"
#include "shim/mpi/messages.h"

/* What follows from the arguments of a send, of a receive. */
void send_find_facts(struct call_frame *f);
void receive_find_facts(struct call_frame *f);

static inline uint32_t next_op(void) {
    return count_up(&recorder.next_op) + 1;
}

static inline int32_t tag_argument(const struct call_frame *f, uint8_t position) {
    int32_t tag = (int32_t)argument(f, position);
    return tag == mpi_abi.any_tag ? TAG_ANY : tag;
}

/* Only a status tells what a wildcard matched: an ignored one is replaced by ours. */
static inline void want_status(struct call_frame *f) {
    if (f->call->status && argument(f, f->call->status) == mpi_abi.status_ignore)
        f->a[f->call->status - 1] = (uintptr_t)mpi_tail(f)->status;
}

/* A message's number in its channel, which the cached call knows while the tag stays the same. */
static inline uint32_t frame_ordinal(const struct call_frame *f, bool send) {
    struct cached_call *c = f->cached;
    if (likely(c && c->channel && c->tag == f->tag))
        return ordinal_next_of(c->channel);
    uint64_t channel = ordinal_channel(f->comm_index, f->peer, f->tag, send);
    if (c) {
        c->channel = channel;
        c->tag = f->tag;
    }
    return ordinal_next_of(channel);
}

/* A receive's number in its channel. Behind a wildcard nobody can tell at posting which message it will get. */
static inline uint32_t receive_ordinal(struct call_frame *f, int32_t peer, int32_t tag) {
    if (!f->comm || peer == PEER_NULL)
        return SEQ_NONE;
    if (peer == PEER_ANY || tag == TAG_ANY)
        mpi_communicator(f->comm)->wildcards = 1;
    if (mpi_communicator(f->comm)->wildcards) {
        f->flags |= FLAG_ORDINAL_UNKNOWN;
        return SEQ_NONE;
    }
    return ordinal_next(f->comm_index, peer, tag, false);
}

static inline void send_before(struct call_frame *f) {
    if (unlikely(!f->cached))
        send_find_facts(f);
    f->tag = (int32_t)argument(f, f->call->tag);
    if (likely(f->comm && f->peer >= 0))
        f->seq = frame_ordinal(f, true);
}

/* Its `op` is given when it is posted. */
static inline void irecv_before(struct call_frame *f) {
    f->tag = tag_argument(f, f->call->tag);
    if (unlikely(f->tag == TAG_ANY)) /* the cache does not tell tags apart */
        f->cached = NULL;
    if (unlikely(!f->cached))
        receive_find_facts(f);
    if (likely(f->cached && f->peer >= 0 && !mpi_communicator(f->comm)->wildcards))
        f->seq = frame_ordinal(f, false);
    else
        f->seq = receive_ordinal(f, f->peer, f->tag);
    if (unlikely(f->flags & FLAG_WILDCARD))
        want_status(f);
}

static inline void recv_before(struct call_frame *f) {
    irecv_before(f);
    f->op = next_op();
}

/* The end of a posting call of which not all was known before, or that failed. */
void isend_settle_after(struct call_frame *f);
void irecv_settle_after(struct call_frame *f);

static inline void isend_after(struct call_frame *f) {
    if (likely(f->cached && !f->failed))
        post_operation(f, REQUEST_SEND);
    else
        isend_settle_after(f);
}

static inline void irecv_after(struct call_frame *f) {
    if (likely(f->cached && !f->failed))
        post_operation(f, REQUEST_RECEIVE);
    else
        irecv_settle_after(f);
}

void send_after(struct call_frame *f);
void recv_after(struct call_frame *f);
void sendrecv_before(struct call_frame *f);
void sendrecv_after(struct call_frame *f);
void isendrecv_before(struct call_frame *f);
void isendrecv_after(struct call_frame *f);
void send_init_before(struct call_frame *f);
void send_init_after(struct call_frame *f);
void recv_init_before(struct call_frame *f);
void recv_init_after(struct call_frame *f);
void probe_before(struct call_frame *f);
void probe_after(struct call_frame *f);
void mprobe_before(struct call_frame *f);
void mprobe_after(struct call_frame *f);
void mrecv_before(struct call_frame *f);
void mrecv_after(struct call_frame *f);
void imrecv_after(struct call_frame *f);

#endif
