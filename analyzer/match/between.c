/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/between.h"

#include <stdlib.h>
#include <string.h>

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

/* What a process brings to the meeting; the states of its workers come behind it. */
struct states_note {
    struct team_head head;
    struct match_totals totals;
};

static bool add_totals(const struct team *team, struct match_totals *totals) {
    bool done = true;
    for (unsigned p = 0; p < team->processes; p++) {
        const struct team_block *block = &team->incoming[p];
        done = done && block->count == sizeof(struct states_note);
        if (done && p != team->number)
            match_totals_add(totals, &((const struct states_note *)(const void *)block->bytes)->totals);
    }
    return done;
}

/* What of the states is on its way. */
struct transit {
    const struct match_sink *sink;
    void *const *states;
    unsigned part, worker; /* of each process that has so many */
};

static bool take_state(const struct team_block *block, const struct transit *transit, void *state) {
    struct parcel parcel = parcel_to_unpack(block->bytes, block->count);
    parcel.part = transit->part;
    transit->sink->parcel(state, &parcel);
    return parcel_is_used_up(&parcel);
}

/* Nothing where this process has no such worker, or memory is short: others see that it is missing. */
static struct parcel pack_state(const struct between *between, const struct transit *transit, bool *done) {
    unsigned me = between->team->number;
    struct parcel parcel = parcel_to_pack();
    if (transit->worker >= between_own(between, me))
        return parcel;
    parcel.part = transit->part;
    transit->sink->parcel(transit->states[between_first(between, me) + transit->worker], &parcel);
    parcel_seal(&parcel);
    *done = *done && !parcel.failed;
    if (parcel.failed)
        parcel_free(&parcel);
    return parcel;
}

/* Of each process a part of the state of one worker; the own one is freed before the others' are unpacked. *done: so
 * far. Returns false, in all processes alike, when nothing more can be exchanged. */
static bool exchange_states(const struct between *between, const struct transit *transit, bool *done) {
    struct team *team = between->team;
    struct parcel mine = pack_state(between, transit, done);
    for (unsigned p = 0; p < team->processes; p++)
        team->outgoing[p] = (struct team_block){(char *)mine.bytes, mine.bytes ? mine.size : 0};
    bool exchanged = team->exchange(team->context, team->outgoing, team->incoming);
    memset(team->outgoing, 0, team->processes * sizeof *team->outgoing);
    parcel_free(&mine);
    for (unsigned p = 0; exchanged && p < team->processes; p++)
        if (p != team->number && transit->worker < between_own(between, p))
            *done = *done && take_state(&team->incoming[p], transit,
                                        transit->states[between_first(between, p) + transit->worker]);
    team_free(team, team->incoming);
    return exchanged;
}

bool between_states(const struct between *between, bool failed, const struct match_sink *sink, void *const *states,
                    struct match_totals *totals) {
    struct team *team = between->team;
    struct states_note note = {.totals = *totals};
    const struct team_block mine = {(char *)&note, sizeof note};
    unsigned parts = sink->parcel_parts > 0 ? sink->parcel_parts : 1;
    bool done = team_meet(team, TEAM_STATES, failed, &mine, team->incoming), goes_on = done;
    done = done && add_totals(team, totals);
    team_free(team, team->incoming);
    for (unsigned part = 1; part <= parts; part++)
        for (unsigned w = 0; goes_on && w < between->own; w++)
            goes_on = exchange_states(between, &(struct transit){sink, states, part, w}, &done);
    return done && goes_on;
}
