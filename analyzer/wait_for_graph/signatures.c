/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/wait_for_graph/signatures.h"

#include "analyzer/load/rows.h"

static bool read_slot(const struct dump *dump, uint32_t local, uint64_t seq, struct signature *signature) {
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        const struct in_flight slot = dump->in_flight[i];
        if (slot.tid == 0 || slot.call == 0 || slot.call > UINT16_MAX || slot.comm != local || slot.seq != seq ||
            !(slot.flags & FLAG_COLLECTIVE))
            continue;
        *signature = (struct signature){
            .call = dump_call(dump, (uint16_t)slot.call), .bytes = slot.bytes, .root = slot.peer, .stack = slot.stack};
        return signature->call != NULL;
    }
    return false;
}

static bool take_pending(const struct dump *dump, uint32_t local, uint64_t seq, struct signature *signature) {
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending copy;
        const struct pending *p = &copy;
        if (!pending_read(dump, &dump->pending[i], &copy) || p->comm != local || p->seq != seq ||
            !(p->flags & FLAG_COLLECTIVE))
            continue;
        *signature = (struct signature){.call = dump_call(dump, p->call),
                                        .bytes = p->bytes,
                                        .root = p->peer,
                                        .dtype = p->dtype,
                                        .redop = p->redop,
                                        .recorded = true,
                                        .stack = p->stack};
        return true;
    }
    return false;
}

/* The record right before that of a collective is what an import tells beside. */
static void take_told(struct signature *signature, const struct record *record) {
    if (!record || record->kind != RECORD_TOLD)
        return;
    signature->told = true;
    signature->begun = record->result == TOLD_BEGUN;
    signature->unfit = record->bytes != BYTES_UNKNOWN;
    signature->bytes_out = record->bytes;
}

static bool read_record(const struct dump *dump, uint32_t local, uint64_t seq, struct signature *signature) {
    struct record_reader reader;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        record_reader_begin(&reader, dump, lane);
        uint64_t last = l->end_ticket > RECORDS_LOOKED_AT ? l->end_ticket - RECORDS_LOOKED_AT : 0;
        last = last > l->first_ticket ? last : l->first_ticket;
        for (uint64_t t = l->end_ticket; t > last; t--) {
            const struct record *r = record_reader_at(&reader, t - 1);
            if (!r || (r->kind != RECORD_CALL && r->kind != RECORD_POST) || r->comm != local || r->seq != seq ||
                !(r->flags & FLAG_COLLECTIVE))
                continue;
            *signature = (struct signature){.call = dump_call(dump, r->call),
                                            .bytes = r->bytes,
                                            .root = r->peer,
                                            .dtype = r->dtype,
                                            .redop = r->redop,
                                            .recorded = true,
                                            .captured = r->kind == RECORD_POST && r->flags & FLAG_CAPTURED,
                                            .stack = r->stack};
            take_told(signature, t - 1 > l->first_ticket ? record_reader_at(&reader, t - 2) : NULL);
            return signature->call != NULL;
        }
    }
    return false;
}

struct signature signature_of(const struct world *world, const struct membership *member, uint64_t seq) {
    const struct dump *dump = world->parties[member->party].dump;
    struct signature signature = {0};
    if (!read_slot(dump, member->local, seq, &signature) && !take_pending(dump, member->local, seq, &signature) &&
        !read_record(dump, member->local, seq, &signature))
        signature.call = NULL;
    return signature;
}
