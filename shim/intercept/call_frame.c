/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/call_frame.h"

void begin_frame_as_ordered(struct call_frame *f, const uintptr_t *frame, uintptr_t sp) {
    orders_follow();
    begin_frame(f, f->call, f->a, f->self);
    f->pc = frame[1];
    f->stack = stack_here(f->self, frame, sp);
}

void record_facts_rare(const struct call_frame *f, const struct facts *facts, uint32_t seq, uint32_t op) {
    uint32_t template = ring_write_rare(f->self->lane, facts, &(struct record_moment){f->t0, f->t1, seq, op});
    if (f->cached && template)
        f->cached->template = (uint16_t) template;
}

/* What a Test was about stands in the frame for as long as it runs (mpi_requests.c), and is not told here either. */
void record_poll_rare(const struct call_frame *f) {
    struct facts facts = frame_facts(f, RECORD_POLL);
    if (commtap_call_class(f->call) == CLASS_TEST)
        facts.words[2] = (uint32_t)TAG_NONE | (uint64_t)f->stack << 32;
    ring_add_poll_rare(f->self->lane, &f->self->polls, &facts, f->t0, f->t1);
}

void aggregate_frame_first(const struct call_frame *f, uint64_t received_bytes) {
    struct lane *lane = f->self->lane;
    const struct operation_sample sample = {
        .call = f->id,
        .peer_class = f->peer_class,
        .comm = f->comm_index,
        .bytes = f->bytes,
        .time = f->t1 - f->t0,
        .received_bytes = received_bytes,
        .failed = f->failed,
        .posted_size = (f->flags & FLAG_BYTES_POSTED) != 0,
    };
    count_site(lane, f->cached, f->stack, f->comm_index, f->id, f->bytes, sample.time, 0);
    operations_add(lane, &sample);
    cached_call_learn(f->cached, lane, &sample);
}
