/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is who across dumps: communicators by uid, calls by name.
 * Lives here: sorting all definitions by uid, and merging the files' lists of calls.
 * Must not live here: records.
 */
#include "analyzer/match/directory.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash_table.h"

enum { CALL_IDS = 4096 };

/* One dump's definition of one communicator. */
struct local_member {
    uint64_t uid;
    uint64_t group; /* which group of an intercommunicator: its members_hash, else 0 */
    uint32_t rank, dump, local;
};

static int compare_members(const void *a, const void *b) {
    const struct local_member *left = a, *right = b;
    if (left->uid != right->uid)
        return left->uid < right->uid ? -1 : 1;
    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->dump != right->dump)
        return left->dump < right->dump ? -1 : 1;
    return left->local < right->local ? -1 : left->local > right->local;
}

static bool can_match(const struct communicator_definition *definition) {
    return definition && definition->my_rank >= 0 && (uint32_t)definition->my_rank < definition->size &&
           !(definition->flags & (COMMUNICATOR_FOREIGN | COMMUNICATOR_UID_UNSURE)) &&
           (definition->kind != COMMUNICATOR_INTER ||
            (definition->remote_size > 0 && definition->remote_size <= INT32_MAX - definition->size));
}

static struct local_member make_member(const struct communicator_definition *definition, size_t dump, uint32_t local) {
    return (struct local_member){.uid = definition->uid,
                                 .group = definition->kind == COMMUNICATOR_INTER ? definition->members_hash : 0,
                                 .rank = (uint32_t)definition->my_rank,
                                 .dump = (uint32_t)dump,
                                 .local = local};
}

static size_t list_local_members(struct match_directory *directory, struct local_member *members) {
    size_t count = 0;
    for (size_t d = 0; d < directory->dump_count; d++)
        for (uint32_t local = 0; local < directory->dumps[d]->communicator_count; local++) {
            const struct communicator_definition *definition = directory->dumps[d]->communicators[local].definition;
            if (!can_match(definition))
                continue;
            if (members)
                members[count] = make_member(definition, d, local);
            count++;
        }
    return count;
}

/* Takes a member in, unless it contradicts those before it. */
static void add_member(struct match_directory *directory, struct match_communicator *communicator,
                       const struct local_member *first, const struct local_member *member) {
    const struct dump_communicator *local = &directory->dumps[member->dump]->communicators[member->local];
    const struct communicator_definition *definition = local->definition;
    bool inter = communicator->kind == COMMUNICATOR_INTER, second = member->group != first->group;
    uint32_t position = communicator->dump_count;
    uint32_t own = second ? communicator->size - communicator->first_size : communicator->first_size;
    uint32_t rank = member->rank + (second ? communicator->first_size : 0);
    if (definition->kind != communicator->kind || definition->size != own ||
        (inter && definition->remote_size != communicator->size - own) ||
        (position > 0 && communicator->rank_of[position - 1] >= rank))
        return;
    communicator->dump_of[position] = member->dump;
    communicator->rank_of[position] = rank;
    communicator->local_of[position] = member->local;
    communicator->dump_count++;
    communicator->first_dumps += !second;
    if (!communicator->name[0])
        communicator->name = local->name;
    directory->places[member->dump][member->local] =
        (struct match_place){(uint32_t)(communicator - directory->communicators), position};
}

/* `members`: all of one uid, by group and in rank order. */
static bool add_communicator(struct match_directory *directory, const struct local_member *members, size_t count) {
    struct match_communicator *communicator = &directory->communicators[directory->communicator_count];
    const struct communicator_definition *definition =
        directory->dumps[members->dump]->communicators[members->local].definition;
    bool inter = definition->kind == COMMUNICATOR_INTER;
    *communicator = (struct match_communicator){.uid = members->uid,
                                                .name = "",
                                                .kind = definition->kind,
                                                .size = definition->size + (inter ? definition->remote_size : 0),
                                                .first_size = definition->size,
                                                .dump_of = malloc(count * sizeof *communicator->dump_of),
                                                .rank_of = malloc(count * sizeof *communicator->rank_of),
                                                .local_of = malloc(count * sizeof *communicator->local_of)};
    directory->communicator_count++;
    if (!communicator->dump_of || !communicator->rank_of || !communicator->local_of)
        return false;
    for (size_t i = 0; i < count; i++)
        add_member(directory, communicator, members, &members[i]);
    return true;
}

static bool join_communicators(struct match_directory *directory) {
    size_t count = list_local_members(directory, NULL);
    struct local_member *members = malloc((count ? count : 1) * sizeof *members);
    directory->communicators = calloc(count ? count : 1, sizeof *directory->communicators);
    bool done = members && directory->communicators;
    if (done) {
        list_local_members(directory, members);
        qsort(members, count, sizeof *members, compare_members);
    }
    for (size_t first = 0, end; done && first < count; first = end) {
        for (end = first + 1; end < count && members[end].uid == members[first].uid;)
            end++;
        done = add_communicator(directory, &members[first], end - first);
    }
    free(members);
    return done;
}

uint32_t match_position_of(const struct match_communicator *communicator, int32_t rank) {
    uint32_t low = 0, high = communicator->dump_count;
    while (rank >= 0 && low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (communicator->rank_of[middle] == (uint32_t)rank)
            return middle;
        if (communicator->rank_of[middle] < (uint32_t)rank)
            low = middle + 1;
        else
            high = middle;
    }
    return NOWHERE;
}

int32_t match_rank_of(const struct match_communicator *communicator, uint32_t position, int32_t peer) {
    if (communicator->kind != COMMUNICATOR_INTER)
        return peer;
    bool second = position >= communicator->first_dumps;
    if (peer == PEER_ROOT)
        return (int32_t)communicator->rank_of[position];
    if (peer < 0)
        return peer;
    uint32_t others = second ? communicator->first_size : communicator->size - communicator->first_size;
    if ((uint32_t)peer >= others)
        return RANK_UNKNOWN;
    return second ? peer : peer + (int32_t)communicator->first_size;
}

static bool make_places(struct match_directory *directory) {
    directory->places = calloc(directory->dump_count, sizeof *directory->places);
    if (!directory->places)
        return false;
    for (size_t d = 0; d < directory->dump_count; d++) {
        size_t count = directory->dumps[d]->communicator_count;
        directory->places[d] = malloc((count ? count : 1) * sizeof **directory->places);
        if (!directory->places[d])
            return false;
        for (size_t i = 0; i < count; i++)
            directory->places[d][i] = (struct match_place){NOWHERE, 0};
    }
    return true;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* The index of a call by its name, with zeros behind it. */
struct call_name_key {
    char name[sizeof((struct call_name *)0)->name];
};

struct named_call {
    struct call_name_key key;
    uint32_t number; /* index + 1; 0: it has none */
};

HASH_TABLE_OF(named_calls, struct named_call, struct call_name_key);

static struct call_name_key key_of(const char *name, size_t length) {
    struct call_name_key key = {{0}};
    memcpy(key.name, name, length);
    return key;
}

/* Finds or adds a call by its name. Returns its index, CALL_UNKNOWN when there are too many, a negative number when
 * memory is short. */
static int32_t index_of(struct match_directory *directory, struct hash_table *names, const struct call_name *name) {
    struct call_name_key key = key_of(name->name, strnlen(name->name, sizeof name->name));
    struct named_call *known = named_calls_add(names, &key);
    if (!known)
        return -1;
    if (known->number == 0 && directory->call_count >= CALL_UNKNOWN)
        return CALL_UNKNOWN;
    if (known->number == 0) {
        if (!grow_list(directory->calls, directory->call_count))
            return -1;
        directory->calls[directory->call_count++].name = name;
        known->number = (uint32_t)directory->call_count;
    }
    return (int32_t)known->number - 1;
}

static bool add_table(struct match_directory *directory, struct hash_table *names, const struct dump *dump) {
    uint16_t *table = malloc(CALL_IDS * sizeof *table);
    if (!table)
        return false;
    directory->tables[directory->table_count++] = table;
    memset(table, 0xff, CALL_IDS * sizeof *table);
    for (uint32_t i = 0; i < dump->call_count; i++) {
        if (dump->calls[i].id >= CALL_IDS)
            continue;
        int32_t index = index_of(directory, names, &dump->calls[i]);
        if (index < 0)
            return false;
        if (index != CALL_UNKNOWN)
            table[dump->calls[i].id] = (uint16_t)index;
    }
    return true;
}

/* A member may use a function's large count twin where others use the plain one: that is no mismatch. */
static void find_bases(struct match_directory *directory, const struct hash_table *names) {
    for (size_t i = 0; i < directory->call_count; i++) {
        const char *name = directory->calls[i].name->name;
        size_t length = strnlen(name, sizeof directory->calls[i].name->name);
        directory->calls[i].base = (uint16_t)i;
        if (length <= 2 || name[length - 2] != '_' || name[length - 1] != 'c')
            continue;
        struct call_name_key key = key_of(name, length - 2);
        const struct named_call *plain = named_calls_find(names, &key);
        if (plain && plain->number > 0)
            directory->calls[i].base = (uint16_t)(plain->number - 1);
    }
}

static bool join_calls(struct match_directory *directory) {
    directory->call_tables = calloc(directory->dump_count, sizeof *directory->call_tables);
    directory->tables = calloc(directory->dump_count, sizeof *directory->tables);
    size_t *first = calloc(directory->dump_count, sizeof *first); /* a dump with that table */
    struct hash_table names = {0};
    bool done = directory->call_tables && directory->tables && first;
    for (size_t d = 0; done && d < directory->dump_count; d++) {
        size_t t = 0;
        while (t < directory->table_count && directory->dumps[first[t]]->calls != directory->dumps[d]->calls)
            t++; /* equal lists are one (load/call_table.h) */
        if (t == directory->table_count) {
            first[t] = d;
            done = add_table(directory, &names, directory->dumps[d]);
        }
        if (done)
            directory->call_tables[d] = directory->tables[t];
    }
    free(first);
    if (done)
        find_bases(directory, &names);
    hash_table_free(&names);
    return done;
}

bool match_directory_build(struct match_directory *directory, struct dump *const *dumps, size_t count) {
    *directory = (struct match_directory){.dumps = dumps, .dump_count = count};
    return make_places(directory) && join_communicators(directory) && join_calls(directory);
}

void match_directory_free(struct match_directory *directory) {
    for (size_t i = 0; directory->communicators && i < directory->communicator_count; i++) {
        free(directory->communicators[i].dump_of);
        free(directory->communicators[i].rank_of);
        free(directory->communicators[i].local_of);
    }
    for (size_t d = 0; directory->places && d < directory->dump_count; d++)
        free(directory->places[d]);
    for (size_t t = 0; directory->tables && t < directory->table_count; t++)
        free(directory->tables[t]);
    free(directory->communicators);
    free(directory->places);
    free(directory->tables);
    free(directory->call_tables);
    free(directory->calls);
    *directory = (struct match_directory){0};
}
