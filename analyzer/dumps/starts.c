/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/dumps/starts.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/dumps/lifetime.h"

/* A dump of a run; those that were started together form a tree. */
struct started {
    struct dump *dump;
    size_t parent; /* its own number: the root */
    bool joined;   /* a member of some communicator */
    struct lifetime life;
};

/* What the processes of a start come to, by the number of its root. */
struct start {
    size_t root, members;
    uint64_t world_id;
    uint32_t generation, launch;
    int64_t start_ns;
};

struct communicator_place {
    uint64_t key;  /* uid */
    size_t member; /* the first one found */
};
HASH_TABLE_OF(communicator_places, struct communicator_place, uint64_t);

static size_t root_of(struct started *all, size_t at) {
    while (all[at].parent != at) {
        all[at].parent = all[all[at].parent].parent;
        at = all[at].parent;
    }
    return at;
}

static void join(struct started *all, size_t a, size_t b) {
    size_t left = root_of(all, a), right = root_of(all, b);
    all[left > right ? left : right].parent = left < right ? left : right;
}

/* Made from an id that NCCL drew, so that no other start has the same. MPI's are numbered from the world's id, which
 * all starts with one count share. */
static bool tells_start(const struct dump *dump, const struct dump_communicator *communicator) {
    const struct communicator_definition *definition = communicator->definition;
    if (!definition || definition->size < 2 || definition->flags & (COMMUNICATOR_FOREIGN | COMMUNICATOR_UID_UNSURE))
        return false;
    const struct call_name *call = dump_call(dump, (uint16_t)definition->created_by);
    return call && call->api == API_NCCL;
}

static bool join_by_communicators(struct started *all, size_t count) {
    struct hash_table places = {0};
    bool done = true;
    for (size_t i = 0; done && i < count; i++)
        for (uint32_t c = 0; done && c < all[i].dump->communicator_count; c++) {
            const struct dump_communicator *communicator = &all[i].dump->communicators[c];
            if (!tells_start(all[i].dump, communicator))
                continue;
            size_t before = places.count;
            struct communicator_place *place = communicator_places_add(&places, &communicator->definition->uid);
            done = place != NULL;
            if (!done)
                continue;
            if (places.count > before)
                place->member = i;
            all[i].joined = true;
            join(all, i, place->member);
        }
    hash_table_free(&places);
    return done;
}

static bool is_same_launch(const struct dump *a, const struct dump *b) {
    return a->world_id == b->world_id && a->generation == b->generation && a->launch == b->launch;
}

/* Who has no communicator belongs to those with whom it was launched, as far as time tells. */
static void join_others(struct started *all, size_t count) {
    for (size_t first = 0, end; first < count; first = end) {
        size_t with = count;
        for (end = first; end < count && is_same_launch(all[first].dump, all[end].dump); end++)
            if (with == count && all[end].joined)
                with = end;
        with = with == count ? first : with;
        for (size_t i = first; i < end; i++)
            if (!all[i].joined)
                join(all, i, with);
    }
}

static void add_member(struct start *start, const struct started *member) {
    if (start->members++ == 0 || member->dump->generation > start->generation) {
        start->generation = member->dump->generation;
        start->world_id = member->dump->world_id;
    }
    if (member->life.known && member->life.start_ns < start->start_ns)
        start->start_ns = member->life.start_ns;
}

static int compare_starts(const void *a, const void *b) {
    const struct start *left = a, *right = b;
    if (left->world_id != right->world_id)
        return left->world_id < right->world_id ? -1 : 1;
    if (left->generation != right->generation)
        return left->generation < right->generation ? -1 : 1;
    if (left->start_ns != right->start_ns)
        return left->start_ns < right->start_ns ? -1 : 1;
    return (left->root > right->root) - (left->root < right->root);
}

static int compare_roots(const void *a, const void *b) {
    const struct start *left = a, *right = b;
    return (left->root > right->root) - (left->root < right->root);
}

static bool is_same_world(const struct start *a, const struct start *b) {
    return a->members > 0 && b->members > 0 && a->world_id == b->world_id && a->generation == b->generation;
}

/* Numbers those of one world by their beginnings; afterwards each has its root's place again. */
static void number_launches(struct start *starts, size_t count) {
    qsort(starts, count, sizeof *starts, compare_starts);
    for (size_t i = 1; i < count; i++)
        starts[i].launch = is_same_world(&starts[i - 1], &starts[i]) ? starts[i - 1].launch + 1 : 0;
    qsort(starts, count, sizeof *starts, compare_roots);
}

static int compare_members(const void *a, const void *b) {
    const struct started *left = a, *right = b;
    int32_t left_rank = left->dump->header->rank, right_rank = right->dump->header->rank;
    if (left->parent != right->parent)
        return left->parent < right->parent ? -1 : 1;
    if (left_rank != right_rank)
        return left_rank < right_rank ? -1 : 1;
    if (left->life.start_ns != right->life.start_ns)
        return left->life.start_ns < right->life.start_ns ? -1 : 1;
    return strcmp(left->dump->path, right->dump->path);
}

/* Of one rank's dumps in a start the first is the rank's own. */
static void tell_duplicates(struct started *all, size_t count) {
    qsort(all, count, sizeof *all, compare_members);
    for (size_t i = 0; i < count; i++) {
        const struct dump_header *header = all[i].dump->header;
        all[i].dump->is_duplicate = i > 0 && header->rank != RANK_UNKNOWN && all[i - 1].parent == all[i].parent &&
                                    all[i - 1].dump->header->rank == header->rank;
    }
}

static bool join_run(struct dump **dumps, size_t count) {
    struct started *all = calloc(count, sizeof *all);
    struct start *starts = calloc(count, sizeof *starts);
    bool done = all && starts;
    for (size_t i = 0; done && i < count; i++) {
        all[i] = (struct started){.dump = dumps[i], .parent = i, .life = dump_lifetime(dumps[i])};
        starts[i] = (struct start){.root = i, .start_ns = INT64_MAX};
    }
    done = done && join_by_communicators(all, count);
    if (done) {
        join_others(all, count);
        for (size_t i = 0; i < count; i++)
            add_member(&starts[all[i].parent = root_of(all, i)], &all[i]);
        number_launches(starts, count);
        for (size_t i = 0; i < count; i++) {
            const struct start *start = &starts[all[i].parent];
            all[i].dump->world_id = start->world_id;
            all[i].dump->generation = start->generation;
            all[i].dump->launch = start->launch;
        }
        tell_duplicates(all, count);
    }
    free(starts);
    free(all);
    return done;
}

/* Several restart counts are torchrun's: no other launcher has agents that count each for itself. */
static bool counts_differ(struct dump *const *dumps, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (dumps[i]->generation != dumps[0]->generation)
            return true;
    return false;
}

bool starts_join(struct dump **dumps, size_t count) {
    bool done = true;
    for (size_t first = 0, end; done && first < count; first = end) {
        for (end = first + 1; end < count && strcmp(dumps[first]->run_id, dumps[end]->run_id) == 0;)
            end++;
        done = !counts_differ(dumps + first, end - first) || join_run(dumps + first, end - first);
    }
    return done;
}
