/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/call_frame.h"

struct facts frame_facts(const struct call_frame *f, enum record_kind kind, int32_t tag) {
    uint64_t tail = facts_word(&f->id) & ~(0xffull << KIND_SHIFT);
    return (struct facts){{f->bytes, facts_word(&f->comm_index), (uint32_t)tag | (uint64_t)f->stack << 32,
                           tail | (uint64_t)kind << KIND_SHIFT}};
}

void record_frame_rare(const struct call_frame *f, enum record_kind kind, int32_t tag, uint32_t seq, uint32_t op) {
    const struct facts facts = frame_facts(f, kind, tag);
    bool remembers = f->cached && !f->result;
    uint32_t template =
        ring_write_rare(f->self->lane, &facts, &(struct record_moment){f->t0, f->t1, seq, op}, remembers);
    if (remembers)
        template_learn(&f->cached->recorded, f->bytes, tag, f->flags, template);
}

/* What a Test was about stands in the frame for as long as it runs (mpi_requests.c), and is not told here either. */
void record_poll_rare(const struct call_frame *f) {
    bool is_test = commtap_call_class(f->call) == CLASS_TEST;
    const struct facts facts = frame_facts(f, RECORD_POLL, is_test ? TAG_NONE : f->tag);
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

void record_and_count_rare(const struct call_frame *f, int32_t tag, uint32_t seq, uint32_t op) {
    struct cached_call *c = f->cached;
    record_frame_rare(f, RECORD_CALL, tag, seq, op);
    aggregate_frame(f, 0);
    if (c && !cached_call_has_rows(c, c->recorded.bytes, false))
        c->recorded.flags = NO_KNOWN_TEMPLATE;
}
