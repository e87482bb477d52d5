/* SPDX-License-Identifier: Apache-2.0
 *
 * Every domain keeps the operations whose mixed key has its low bits zero; when there are too many, one bit more. A key
 * is then either kept by all domains or, in the end, by none.
 */
#include "analyzer/align/observations.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash.h"
#include "analyzer/load/replays.h"

enum { PER_DOMAIN_MAX = 8192, PER_DOMAIN_MIN = 512, ALTOGETHER = 1 << 20, FIRST_ROOM = 4096 };

struct observation_collector {
    const struct common_clock *clock;
    uint32_t *domain_of_rank; /* by world rank, NOWHERE_DOMAIN */
    int32_t rank_count;
    struct observations *into;
    size_t room, limit; /* of `items`; observations kept at most */
    uint64_t mask;
    bool no_memory;
};

#define NOWHERE_DOMAIN UINT32_MAX

static int compare_observations(const void *a, const void *b) {
    const struct observation *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->domain < right->domain ? -1 : left->domain > right->domain;
}

/* Several ranks of one domain become one observation; returns how many there are then. */
static size_t merge_equal(struct observation *items, size_t count) {
    size_t n = 0;
    if (count > 1)
        qsort(items, count, sizeof *items, compare_observations);
    for (size_t i = 0; i < count; i++) {
        struct observation *last = n > 0 ? &items[n - 1] : NULL;
        if (!last || last->key != items[i].key || last->domain != items[i].domain) {
            items[n++] = items[i];
            continue;
        }
        last->exact = last->exact && items[i].exact;
        if (items[i].cause > last->cause)
            last->cause = items[i].cause;
        if (last->effect == OBSERVATION_NONE || (items[i].effect != OBSERVATION_NONE && items[i].effect < last->effect))
            last->effect = items[i].effect;
    }
    return n;
}

static size_t thin(struct observation *items, size_t count, uint64_t mask) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if ((hash_scramble(items[i].key) & mask) == 0)
            items[kept++] = items[i];
    return kept;
}

static bool make_room(struct observation_collector *c) {
    struct observations *into = c->into;
    into->count = merge_equal(into->items, into->count);
    while (into->count > c->limit && c->mask != UINT64_MAX) {
        c->mask = c->mask * 2 + 1;
        into->count = thin(into->items, into->count, c->mask);
    }
    if (into->count < c->room / 2)
        return true;
    return grow_to(into->items, c->room, c->room ? c->room + 1 : FIRST_ROOM);
}

static void add_observation(struct observation_collector *c, struct observation observation) {
    if (c->no_memory || (hash_scramble(observation.key) & c->mask) != 0)
        return;
    if (c->into->count == c->room && !make_room(c)) {
        c->no_memory = true;
        return;
    }
    c->into->items[c->into->count++] = observation;
}

/* ---- records --------------------------------------------------------------------------------- */

/* Earlier by what a device's clock may be off where the times are a device's. */
struct times {
    int64_t enter, leave;
    bool exact;
};

static bool device_times(const struct record *record, int64_t error, struct times *times) {
    if (record->t0 >= NS_MOST || record->t1 >= NS_MOST)
        return false;
    *times = (struct times){add_ns((int64_t)record->t0, -error), add_ns((int64_t)record->t1, error), true};
    return error > 0; /* a device without an anchor has no place in time */
}

static bool times_of(const struct observation_collector *c, size_t index, const struct record *record,
                     const struct call_name *call, struct times *times) {
    const struct dump *dump = c->clock->dumps[index];
    if (record->kind == RECORD_GPU || record->kind == RECORD_KERNEL)
        return device_times(record, c->clock->device_error[index], times);
    if (call->api == API_NCCL)
        return false;
    if (record->kind != RECORD_CALL && record->kind != RECORD_DONE)
        return false;
    *times = (struct times){dump_monotonic_ns(dump, record->t0), dump_monotonic_ns(dump, record->t1),
                            record->kind == RECORD_CALL};
    return true;
}

/* `replay`: of what a graph replayed, which has its number from the capture, the same at every replay. */
static void add_collective(struct observation_collector *c, struct observation o, const struct record *record,
                           const struct call_name *call, struct times times, uint32_t replay) {
    bool root = (record->flags & FLAG_ROOT) != 0;
    enum flow flow = record_flow(record, call);
    o.key = hash_scramble(o.key ^ hash_scramble(record->seq + UINT64_C(1)));
    if (record->flags & FLAG_STARTED)
        o.key = hash_scramble(o.key ^ (uint64_t)(uint32_t)record->tag << 32);
    if (replay > 0)
        o.key = hash_scramble(o.key ^ (uint64_t)replay << 32 ^ 2);
    if (flow == FLOW_ALL || (flow == FLOW_FROM_ROOT && root) || (flow == FLOW_TO_ROOT && !root))
        o.cause = times.enter;
    if (flow == FLOW_ALL || (flow == FLOW_FROM_ROOT && !root) || (flow == FLOW_TO_ROOT && root))
        o.effect = times.leave;
    o.exact = flow == FLOW_ALL && times.exact;
    if (record->bytes == 0 && call->busbw != BUSBW_NONE)
        return; /* nothing to exchange: nobody need wait */
    if (o.cause != OBSERVATION_NONE || o.effect != OBSERVATION_NONE)
        add_observation(c, o);
}

static void add_message(struct observation_collector *c, struct observation o, const struct record *record,
                        int32_t my_rank, struct times times) {
    bool send = (record->flags & FLAG_SEND) != 0;
    if (record->peer < 0 || my_rank < 0 ||
        (record->flags & (FLAG_WILDCARD | FLAG_ORDINAL_UNKNOWN | FLAG_PARTITIONED | FLAG_CANCELLED)))
        return;
    int32_t tag = record_is_device(record) ? 0 : record->tag; /* there it is the device's number */
    uint32_t from = (uint32_t)(send ? my_rank : record->peer), to = (uint32_t)(send ? record->peer : my_rank);
    o.key = hash_scramble(o.key ^ hash_scramble((uint64_t)from << 32 | to));
    o.key = hash_scramble(o.key ^ hash_scramble((uint64_t)(uint32_t)tag << 32 | record->seq) ^ 1);
    if (send)
        o.cause = times.enter;
    else
        o.effect = times.leave;
    add_observation(c, o);
    if (!(record->flags & FLAG_SYNCHRONOUS) && send)
        return;
    /* the way back: only synchronous sends have an effect there, and without one the entry proves nothing */
    o.key = hash_scramble(o.key ^ UINT64_C(0x5bd1e995));
    o.cause = send ? OBSERVATION_NONE : times.enter;
    o.effect = send ? times.leave : OBSERVATION_NONE;
    add_observation(c, o);
}

/* Whether communicator members are in more than one domain, as far as the dumps tell. */
static bool spans_domains(const struct observation_collector *c, const struct dump_communicator *communicator,
                          uint32_t domain) {
    const struct communicator_definition *definition = communicator->definition;
    if (!communicator->runs)
        return true;
    for (uint32_t i = 0; i < definition->run_count; i++) {
        const struct member_run *run = &communicator->runs[i];
        int64_t rank = run->start;
        for (uint32_t k = 0; k < run->count; k++, rank += run->stride)
            if (rank < 0 || rank >= c->rank_count || c->domain_of_rank[rank] != domain)
                return true;
    }
    return false;
}

static void observe_record(struct observation_collector *c, size_t index, const struct record *record,
                           const bool *wanted, uint32_t replay) {
    const struct dump *dump = c->clock->dumps[index];
    const struct call_name *call = dump_call(dump, record->call);
    struct times times;
    if (!call || record->comm >= dump->communicator_count || !wanted[record->comm] || record->seq == SEQ_NONE ||
        (record->flags & FLAG_FAILED) || (record_is_replayed(record) && replay == 0) ||
        !times_of(c, index, record, call, &times))
        return;
    const struct communicator_definition *definition = dump->communicators[record->comm].definition;
    struct observation o = {.key = definition->uid,
                            .domain = c->clock->domain_of[index],
                            .cause = OBSERVATION_NONE,
                            .effect = OBSERVATION_NONE};
    if (record->flags & FLAG_COLLECTIVE && (call->call_class == CLASS_COLLECTIVE || call->call_class == CLASS_GROUP))
        add_collective(c, o, record, call, times, replay);
    else if (record->flags & (FLAG_SEND | FLAG_RECV) && !record_is_replayed(record))
        add_message(c, o, record, definition->my_rank, times);
}

static bool collect_dump(struct observation_collector *c, size_t index) {
    const struct dump *dump = c->clock->dumps[index];
    bool *wanted = calloc(dump->communicator_count + 1u, sizeof *wanted);
    if (!wanted)
        return false;
    for (uint32_t i = 0; i < dump->communicator_count; i++) {
        const struct dump_communicator *communicator = dump_communicator(dump, i);
        wanted[i] = communicator && communicator->definition->kind != COMMUNICATOR_INTER &&
                    !(communicator->definition->flags & (COMMUNICATOR_FOREIGN | COMMUNICATOR_UID_UNSURE)) &&
                    spans_domains(c, communicator, c->clock->domain_of[index]);
    }
    for (uint32_t lane = 0; lane < dump->lane_count && !c->no_memory; lane++) {
        struct record_cursor cursor;
        if (!record_cursor_begin(&cursor, dump, lane)) {
            c->no_memory = true;
            break;
        }
        struct replay_reader replays = {0};
        for (const struct record *record; (record = record_cursor_next(&cursor)) != NULL;)
            observe_record(c, index, record, wanted, replay_of_record(&replays, record).number);
        record_cursor_end(&cursor);
    }
    free(wanted);
    return !c->no_memory;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool find_domains_of_ranks(struct observation_collector *c) {
    for (size_t i = 0; i < c->clock->dump_count; i++)
        if (c->clock->dumps[i]->header->rank >= c->rank_count)
            c->rank_count = c->clock->dumps[i]->header->rank < (1 << 24) ? c->clock->dumps[i]->header->rank + 1 : 0;
    c->domain_of_rank = malloc(((size_t)c->rank_count + 1) * sizeof *c->domain_of_rank);
    if (!c->domain_of_rank)
        return false;
    for (int32_t r = 0; r < c->rank_count; r++)
        c->domain_of_rank[r] = NOWHERE_DOMAIN;
    for (size_t i = 0; i < c->clock->dump_count; i++) {
        int32_t rank = c->clock->dumps[i]->header->rank;
        if (rank >= 0 && rank < c->rank_count)
            c->domain_of_rank[rank] = c->clock->domain_of[i];
    }
    return true;
}

/* Operations seen in one domain only say nothing. */
static void drop_single(struct observations *o) {
    size_t kept = 0;
    for (size_t i = 0; i < o->count;) {
        size_t end = i + 1;
        while (end < o->count && o->items[end].key == o->items[i].key)
            end++;
        for (size_t k = i; end - i > 1 && k < end; k++)
            o->items[kept++] = o->items[k];
        i = end;
    }
    o->count = kept;
}

bool observations_collect(struct observations *observations, const struct common_clock *clock) {
    *observations = (struct observations){0};
    size_t per_domain = ALTOGETHER / clock->domain_count;
    per_domain = per_domain > PER_DOMAIN_MAX   ? PER_DOMAIN_MAX
                 : per_domain < PER_DOMAIN_MIN ? PER_DOMAIN_MIN
                                               : per_domain;
    struct observation_collector c = {.clock = clock, .into = observations, .limit = per_domain * clock->domain_count};
    bool done = find_domains_of_ranks(&c);
    for (size_t i = 0; done && i < clock->dump_count; i++)
        done = collect_dump(&c, i);
    free(c.domain_of_rank);
    if (!done)
        return false;
    observations->count = merge_equal(observations->items, thin(observations->items, observations->count, c.mask));
    drop_single(observations);
    return true;
}

void observations_free(struct observations *observations) {
    free(observations->items);
    *observations = (struct observations){0};
}
