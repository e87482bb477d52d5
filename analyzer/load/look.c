/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a process came on between two looks.
 * Lives here: what of a dump counts as progress.
 * Must not live here: waiting between looks (the command).
 */
#include <string.h>

#include "analyzer/base/hash.h"
#include "analyzer/load/dump.h"
#include "analyzer/load/rows.h"

static bool asks_in_vain(const struct dump *dump, uint32_t id) {
    const struct call_name *call = id <= UINT16_MAX ? dump_call(dump, (uint16_t)id) : NULL;
    return call && (call->call_class == CLASS_TEST || strncmp(call->name, "MPI_Iprobe", 10) == 0 ||
                    strncmp(call->name, "MPI_Improbe", 11) == 0);
}

/* A thread between two vain questions looks like one that asks. */
static uint64_t look_at_slots(const struct dump *dump, uint64_t h) {
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        const struct in_flight *slot = &dump->in_flight[i];
        uint32_t call = __atomic_load_n(&slot->call, __ATOMIC_ACQUIRE);
        if (slot->tid == 0 || call == 0 || asks_in_vain(dump, call))
            continue;
        h = hash_mix(hash_mix(hash_mix(h, call), slot->enter), i);
    }
    return h;
}

static uint64_t look_at_progress(const struct dump *dump, uint64_t h) {
    for (uint32_t i = 0; i < dump->progress_count; i++) {
        const struct progress *progress = &dump->progress[i];
        if (__atomic_load_n(&progress->version, __ATOMIC_ACQUIRE) == 0)
            continue;
        h = hash_mix(hash_mix(hash_mix(hash_mix(hash_mix(h, progress->comm), progress->enqueued), progress->started),
                              progress->completed),
                     progress->hashed);
        h = hash_mix(h, (uint64_t)progress->begun_op << 32 | progress->ended_op);
    }
    return h;
}

/* How many records a lane has without the polls in vain at its end: those begin another record every few seconds. */
static uint64_t records_without_polls(const struct dump *dump, uint32_t lane) {
    const struct dump_lane *l = &dump->lanes[lane];
    uint64_t count = __atomic_load_n(&l->state->head, __ATOMIC_RELAXED);
    struct record_reader reader;
    if (count > l->end_ticket || count <= l->first_ticket) /* written since it was opened, or nothing to look at */
        return count;
    record_reader_begin(&reader, dump, lane);
    for (const struct record *r; count > l->first_ticket; count--)
        if (!(r = record_reader_at(&reader, count - 1)) || r->kind != RECORD_POLL)
            break;
    return count;
}

/* A process may do nothing but launch graphs. */
static uint64_t look_at_captures(const struct dump *dump, uint64_t h) {
    for (uint32_t i = 0; i < dump->capture_count; i++)
        h = hash_mix(hash_mix(h, __atomic_load_n(&dump->captures[i].launched, __ATOMIC_RELAXED)),
                     __atomic_load_n(&dump->captures[i].ended, __ATOMIC_RELAXED));
    return h;
}

uint64_t dump_look(const struct dump *dump) {
    uint64_t h = look_at_progress(dump, look_at_slots(dump, dump->header->state));
    h = look_at_captures(dump, h);
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending pending;
        if (pending_read(dump, &dump->pending[i], &pending))
            h = hash_mix(h, pending.op);
    }
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) /* the harvester's lane also moves when nothing happens */
        if (dump->lanes[lane].state && !dump_lane_is_device(&dump->lanes[lane]))
            h = hash_mix(h, records_without_polls(dump, lane));
    return h;
}
