/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/between.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/parcel.h"

/* ---- queues ------------------------------------------------------------------------------------------------------ */

struct round_note {
    struct team_head head;
    uint64_t fingerprint, read;
    uint64_t more;
    struct arrival_turn next[BETWEEN_OWN_MOST];
};

/* Before the bytes of a queue. */
struct queue_head {
    uint64_t bytes, batches;
};

static struct arrivals *queue(const struct between *between, unsigned from, unsigned to) {
    return &between->told[(size_t)from * between->count + to];
}

/* All queues from own workers to those of a process, one behind the other, which empties them. */
static bool collect_queues(const struct between *between, unsigned process, struct team_block *block) {
    unsigned me = between->team->number, from = between_first(between, me), to = between_first(between, process);
    size_t bytes = 0;
    for (unsigned w = 0; w < between_own(between, me); w++)
        for (unsigned v = 0; v < between_own(between, process); v++)
            bytes += sizeof(struct queue_head) + arrivals_bytes(queue(between, from + w, to + v));
    char *at = malloc(bytes + 1);
    *block = (struct team_block){at, at ? bytes : 0};
    for (unsigned w = 0; at && w < between_own(between, me); w++)
        for (unsigned v = 0; v < between_own(between, process); v++) {
            struct arrivals *told = queue(between, from + w, to + v);
            const struct queue_head head = {arrivals_bytes(told), told->batches};
            memcpy(at, &head, sizeof head);
            if (head.bytes > 0)
                memcpy(at + sizeof head, told->bytes + told->begin, head.bytes);
            at += sizeof head + head.bytes;
            arrivals_clear(told);
        }
    return block->bytes != NULL;
}

/* The other way round. False when memory is short, or what came is not what was expected. */
static bool spread_queues(const struct between *between, unsigned process, const struct team_block *block) {
    unsigned me = between->team->number, from = between_first(between, process), to = between_first(between, me);
    size_t at = 0;
    bool done = true;
    for (unsigned w = 0; done && w < between_own(between, process); w++)
        for (unsigned v = 0; done && v < between_own(between, me); v++) {
            struct queue_head head = {0};
            done = block->count - at >= sizeof head;
            if (done)
                memcpy(&head, block->bytes + at, sizeof head);
            at += sizeof head;
            done = done && head.bytes <= block->count - at &&
                   arrivals_append(queue(between, from + w, to + v), block->bytes + at, head.bytes, head.batches);
            at += head.bytes;
        }
    return done && at == block->count;
}

static void drop_outgoing(const struct team *team) {
    for (unsigned p = 0; p < team->processes; p++) {
        free(team->outgoing[p].bytes);
        team->outgoing[p] = (struct team_block){0};
    }
}

/* Everybody is here, and has said that there are no failures. What fails here shows in the next meeting. */
static bool exchange_queues(const struct between *between) {
    struct team *team = between->team;
    bool done = true;
    for (unsigned p = 0; p < team->processes; p++) {
        team->outgoing[p] = (struct team_block){0};
        done = (p == team->number || collect_queues(between, p, &team->outgoing[p])) && done;
    }
    done = team->exchange(team->context, team->outgoing, team->incoming) && done;
    drop_outgoing(team);
    for (unsigned p = 0; done && p < team->processes; p++)
        done = p == team->number || spread_queues(between, p, &team->incoming[p]);
    team_free(team, team->incoming);
    return done;
}

/* What all have said, in one. False where another process walks something else. */
static bool sum_up(const struct between *between, const struct team_block *all, struct between_round *round) {
    *round = (struct between_round){0};
    for (unsigned p = 0; p < between->team->processes; p++) {
        struct round_note note;
        memcpy(&note, all[p].bytes, all[p].count < sizeof note ? all[p].count : sizeof note);
        if (all[p].count != sizeof note || note.fingerprint != between->fingerprint)
            return false;
        round->more |= note.more != 0;
        round->read += note.read;
        unsigned first = between_first(between, p);
        for (unsigned w = 0; w < between_own(between, p); w++)
            between->next[first + w] = note.next[w];
    }
    return true;
}

bool between_rounds(const struct between *between, bool failed, struct between_round *round) {
    struct team *team = between->team;
    struct round_note note = {.fingerprint = between->fingerprint, .read = round->read, .more = round->more};
    unsigned first = between_first(between, team->number);
    for (unsigned w = 0; w < between_own(between, team->number); w++)
        note.next[w] = between->next[first + w];
    if (!team_meet(team, TEAM_ROUND, failed, &(struct team_block){(char *)&note, sizeof note}, team->incoming))
        return false;
    bool same = sum_up(between, team->incoming, round);
    team_free(team, team->incoming);
    if (!same) /* as they all see */
        team->parted = team->bystander = true;
    return same && exchange_queues(between);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* What a process brings: this, then for each of its workers a number of bytes and so many of them, filled up to a
 * multiple of 8. */
struct states_note {
    struct team_head head;
    struct match_totals totals;
};

static size_t padded(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

static bool add_state(struct team_block *block, size_t *room, const struct match_sink *sink, void *state) {
    struct parcel parcel = parcel_to_pack();
    sink->parcel(state, &parcel);
    parcel_seal(&parcel);
    uint64_t bytes = parcel.size;
    bool done = !parcel.failed && grow_to(block->bytes, *room, block->count + sizeof bytes + padded(parcel.size));
    if (done) {
        memcpy(block->bytes + block->count, &bytes, sizeof bytes);
        memset(block->bytes + block->count + sizeof bytes, 0, padded(parcel.size));
        memcpy(block->bytes + block->count + sizeof bytes, parcel.bytes, parcel.size);
        block->count += sizeof bytes + padded(parcel.size);
    }
    parcel_free(&parcel);
    return done;
}

/* The states of one other process. */
static bool take_states(const struct between *between, unsigned process, const struct team_block *block,
                        const struct match_sink *sink, void *const *states, struct match_totals *totals) {
    size_t at = sizeof(struct states_note);
    if (block->count < at)
        return false;
    match_totals_add(totals, &((const struct states_note *)(const void *)block->bytes)->totals);
    for (unsigned w = 0; w < between_own(between, process); w++) {
        uint64_t bytes;
        if (block->count - at < sizeof bytes)
            return false;
        memcpy(&bytes, block->bytes + at, sizeof bytes);
        at += sizeof bytes;
        if (bytes > block->count - at || padded(bytes) > block->count - at)
            return false;
        struct parcel parcel = parcel_to_unpack(block->bytes + at, bytes);
        sink->parcel(states[between_first(between, process) + w], &parcel);
        if (!parcel_is_used_up(&parcel))
            return false;
        at += padded(bytes);
    }
    return at == block->count;
}

bool between_states(const struct between *between, bool failed, const struct match_sink *sink, void *const *states,
                    struct match_totals *totals) {
    struct team *team = between->team;
    struct states_note note = {.totals = *totals};
    struct team_block mine = {(char *)&note, sizeof note}, packed = {0};
    unsigned first = between_first(between, team->number);
    size_t room = 0;
    bool done = !failed && grow_to(packed.bytes, room, sizeof note);
    if (done) {
        memcpy(packed.bytes, &note, sizeof note);
        packed.count = sizeof note;
    }
    for (unsigned w = 0; done && w < between_own(between, team->number); w++)
        done = add_state(&packed, &room, sink, states[first + w]);
    bool met = team_meet(team, TEAM_STATES, !done, done ? &packed : &mine, team->incoming);
    for (unsigned p = 0; met && p < team->processes; p++)
        met = p == team->number || take_states(between, p, &team->incoming[p], sink, states, totals);
    team_free(team, team->incoming);
    free(packed.bytes);
    return met;
}
