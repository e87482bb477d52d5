/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/call_frame.h"

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
    count_site(lane, f->cached, f->stack, f->comm_index, f->id, f->bytes, sample.time);
    operations_add(lane, &sample);
    cached_call_learn(f->cached, lane, &sample);
}
