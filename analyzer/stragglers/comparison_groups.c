/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranks are compared with each other.
 * Lives here: sampling how often each communicator is used, and the choice.
 * Must not live here: times.
 */
#include "analyzer/stragglers/comparison_groups.h"

#include <stdlib.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/base/significance.h"
#include "analyzer/load/gpu_view.h"

/* Neighbouring records are looked at in runs: each run touches one page, so that little of a large ring is read. */
enum { RUN = 32, RUNS_IN_ALL = 1 << 15, RUNS_MOST = 32, RUNS_LEAST = 2 };

/* Often enough to compare ranks by: so many calls, and such a share of its members' collectives; or, however many there
 * are of others, calls for all the batches that are asked for, in nearly all parts of the run. Then the ranks of a
 * pipeline are compared by what they do once per step, and not only with those of their tensor parallel group, which
 * sit on one host and are slow together. A few barriers at the beginning and the end of a run say nothing about its
 * steps. */
enum { OFTEN_CALLS = 16, OFTEN_SHARE = 8, SPREAD_CALLS = TIME_BATCHES_MOST, PARTS = 16, SPREAD_PARTS = 12 };

struct group_candidate {
    uint32_t communicator;
    uint32_t size;
    uint64_t calls; /* estimated collectives per member */
    bool often;
};

/* GPU operations count where they ran, if that is known. */
static bool is_plain_collective(const struct match_directory *directory, size_t dump, const struct record *record) {
    bool device = record->kind == RECORD_GPU || record->kind == RECORD_KERNEL;
    if (!(record->flags & FLAG_COLLECTIVE) || (record->flags & FLAG_CAPTURED && !device) || record->seq == SEQ_NONE ||
        (record->kind != RECORD_CALL && record->kind != RECORD_POST && !device))
        return false;
    uint16_t call = match_call_of(directory, dump, record->call);
    if (call == CALL_UNKNOWN)
        return false;
    const struct call_name *name = directory->calls[call].name;
    if (name->api == API_NCCL && !device && dump_has_device_times(directory->dumps[dump]))
        return false;
    return name->call_class == CLASS_COLLECTIVE || name->call_class == CLASS_GROUP || call_makes_communicator(name) ||
           record_is_barrier(record, name);
}

/* How often graphs replayed one captured collective, or a persistent one was started. */
struct captured_key {
    uint32_t communicator, seq;
};
struct captured {
    struct captured_key key;
    uint64_t replays; /* estimated, of all members */
};
HASH_TABLE_OF(captured_calls, struct captured, struct captured_key);

/* What a communicator's members were seen to call. */
struct usage {
    uint64_t calls;   /* estimated, of all members */
    uint32_t parts;   /* bit i: in the i-th of PARTS parts of a member's records */
    uint64_t eager;   /* of the calls: those that no graph replayed, and that started no persistent one */
    uint64_t replays; /* of the captured collective that was replayed most, or the persistent one most often started */
    uint32_t captured;
};

struct sampling {
    struct usage *usage;        /* per communicator */
    struct hash_table captured; /* what graphs replayed, and what was started */
    bool no_memory;
};

static void count_replay(struct sampling *sampling, uint32_t communicator, uint32_t seq, uint64_t weight) {
    struct captured *captured = captured_calls_add(&sampling->captured, &(struct captured_key){communicator, seq});
    sampling->no_memory |= !captured;
    if (captured)
        captured->replays += weight;
}

/* Of equally many the first one captured or prepared: all members of the communicator have it. */
static void find_most_replayed(struct sampling *sampling) {
    const struct captured *items = captured_calls_items(&sampling->captured);
    for (size_t i = 0; i < sampling->captured.count; i++) {
        struct usage *usage = &sampling->usage[items[i].key.communicator];
        if (items[i].replays > usage->replays ||
            (items[i].replays == usage->replays && items[i].key.seq < usage->captured)) {
            usage->replays = items[i].replays;
            usage->captured = items[i].key.seq;
        }
    }
}

static void sample_record(const struct match_directory *directory, size_t dump, struct record_reader *reader,
                          uint64_t ticket, uint64_t weight, struct sampling *sampling, uint64_t *total) {
    const struct dump_lane *lane = &directory->dumps[dump]->lanes[reader->lane];
    const struct record *record = record_reader_at(reader, ticket);
    if (!record || !dump_shows(directory->dumps[dump], record) || !is_plain_collective(directory, dump, record))
        return;
    struct match_place place = match_place_of(directory, dump, record->comm);
    uint64_t count = lane->end_ticket - lane->first_ticket;
    if (place.communicator != NOWHERE) {
        struct usage *usage = &sampling->usage[place.communicator];
        usage->calls += weight;
        usage->parts |= 1u << ((ticket - lane->first_ticket) * PARTS / count);
        if (record->flags & (FLAG_CAPTURED | FLAG_STARTED))
            count_replay(sampling, place.communicator, record->seq, weight);
        else
            usage->eager += weight;
    }
    *total += weight;
}

/* Looks at evenly spread runs of records of every ring, not the same ones in every dump, and adds their weight to the
 * communicators' usage. Returns all collectives of the dump. */
static uint64_t sample_dump(const struct match_directory *directory, size_t dump, uint64_t runs,
                            struct sampling *sampling) {
    uint64_t total = 0;
    struct record_reader reader;
    for (uint32_t l = 0; l < directory->dumps[dump]->lane_count; l++) {
        const struct dump_lane *lane = &directory->dumps[dump]->lanes[l];
        record_reader_begin(&reader, directory->dumps[dump], l);
        uint64_t weight = (lane->end_ticket - lane->first_ticket) / (runs * RUN) + 1;
        uint64_t shift = dump % PARTS * (weight - 1) / PARTS * RUN;
        for (uint64_t start = lane->first_ticket + shift; start < lane->end_ticket; start += weight * RUN)
            for (uint64_t ticket = start; ticket < start + RUN && ticket < lane->end_ticket; ticket++)
                sample_record(directory, dump, &reader, ticket, weight, sampling, &total);
    }
    return total;
}

static int compare_candidates(const void *a, const void *b) {
    const struct group_candidate *left = a, *right = b;
    if (left->often != right->often)
        return left->often ? -1 : 1;
    if (left->size != right->size)
        return left->size > right->size ? -1 : 1;
    if (left->calls != right->calls)
        return left->calls > right->calls ? -1 : 1;
    return left->communicator < right->communicator ? -1 : left->communicator > right->communicator;
}

/* All collectives of the members, together. */
static uint64_t members_calls(const struct match_communicator *communicator, const uint64_t *totals) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < communicator->dump_count; i++)
        sum += totals[communicator->dump_of[i]];
    return sum;
}

static size_t list_group_candidates(const struct match_directory *directory, const struct usage *usage,
                                    const uint64_t *totals, struct group_candidate *candidates, bool *met) {
    size_t count = 0;
    for (uint32_t c = 0; c < directory->communicator_count; c++) {
        const struct match_communicator *communicator = &directory->communicators[c];
        if (communicator->kind == COMMUNICATOR_FILE || communicator->dump_count < 2 || usage[c].calls == 0)
            continue;
        uint64_t each = usage[c].calls / communicator->dump_count;
        met[c] = each >= OFTEN_CALLS && __builtin_popcount(usage[c].parts) >= SPREAD_PARTS;
        bool often = each >= OFTEN_CALLS && usage[c].calls >= members_calls(communicator, totals) / OFTEN_SHARE;
        often |= each >= SPREAD_CALLS && __builtin_popcount(usage[c].parts) >= SPREAD_PARTS;
        candidates[count++] = (struct group_candidate){c, communicator->dump_count, each, often};
    }
    qsort(candidates, count, sizeof *candidates, compare_candidates);
    return count;
}

static bool all_free(const struct comparison_groups *groups, const struct match_communicator *communicator) {
    for (uint32_t i = 0; i < communicator->dump_count; i++)
        if (groups->group_of[communicator->dump_of[i]] != NOWHERE)
            return false;
    return true;
}

/* `usage`: of the chosen communicator. Stretches end where most of its collectives do: at those that were called, at
 * the replays of a captured one, or at the starts of a persistent one. */
static void take_group(struct comparison_groups *groups, const struct match_directory *directory,
                       const struct group_candidate *chosen, const struct usage *usage) {
    const struct match_communicator *communicator = &directory->communicators[chosen->communicator];
    for (uint32_t i = 0; i < communicator->dump_count; i++) {
        uint32_t dump = communicator->dump_of[i];
        groups->group_of[dump] = (uint32_t)groups->count;
        for (uint32_t local = 0; local < directory->dumps[dump]->communicator_count; local++)
            if (match_place_of(directory, dump, local).communicator == chosen->communicator)
                groups->cuts[dump] = (struct cut){.kind = CUT_COLLECTIVE,
                                                  .comm = local,
                                                  .replays = usage->replays > usage->eager,
                                                  .captured = usage->captured};
    }
    groups->collectives[groups->count] = true;
    groups->often[groups->count] = chosen->often;
    groups->calls[groups->count] = chosen->calls;
    groups->communicators[groups->count++] = chosen->communicator;
}

bool comparison_groups_choose(struct comparison_groups *groups, const struct match_directory *directory) {
    /* room for those that are found by messages, too: each has two ranks at least */
    size_t communicators = directory->communicator_count + directory->dump_count + 1;
    struct sampling sampling = {.usage = calloc(communicators, sizeof *sampling.usage)};
    uint64_t *totals = calloc(directory->dump_count, sizeof *totals);
    struct group_candidate *candidates = calloc(communicators, sizeof *candidates);
    *groups = (struct comparison_groups){
        .communicators = calloc(communicators, sizeof *groups->communicators),
        .collectives = calloc(communicators, sizeof *groups->collectives),
        .often = calloc(communicators, sizeof *groups->often),
        .calls = calloc(communicators, sizeof *groups->calls),
        .met = calloc(communicators, sizeof *groups->met),
        .group_of = malloc(directory->dump_count * sizeof *groups->group_of),
        .cuts = calloc(directory->dump_count, sizeof *groups->cuts),
        .tasks = calloc(directory->dump_count, sizeof *groups->tasks),
    };
    bool done = sampling.usage && totals && candidates && groups->communicators && groups->collectives &&
                groups->often && groups->calls && groups->met && groups->group_of && groups->cuts && groups->tasks;
    if (done) {
        uint64_t runs = RUNS_IN_ALL / directory->dump_count;
        runs = runs > RUNS_MOST ? RUNS_MOST : runs < RUNS_LEAST ? RUNS_LEAST : runs;
        for (size_t d = 0; d < directory->dump_count; d++) {
            groups->group_of[d] = NOWHERE;
            groups->cuts[d].comm = COMM_NONE;
            totals[d] = sample_dump(directory, d, runs, &sampling);
        }
        find_most_replayed(&sampling);
        size_t count = list_group_candidates(directory, sampling.usage, totals, candidates, groups->met);
        for (size_t i = 0; i < count; i++)
            if (all_free(groups, &directory->communicators[candidates[i].communicator]))
                take_group(groups, directory, &candidates[i], &sampling.usage[candidates[i].communicator]);
    }
    hash_table_free(&sampling.captured);
    free(sampling.usage);
    free(totals);
    free(candidates);
    return done && !sampling.no_memory;
}

void comparison_groups_free(struct comparison_groups *groups) {
    free(groups->communicators);
    free(groups->collectives);
    free(groups->often);
    free(groups->calls);
    free(groups->met);
    free(groups->group_of);
    free(groups->cuts);
    free(groups->tasks);
    *groups = (struct comparison_groups){0};
}
