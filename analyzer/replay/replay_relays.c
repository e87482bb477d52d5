/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is needed in a collective with a root though its definition does not say so: libraries hand data on from member
 * to member, so that one who comes late holds up those behind it, and a root that sends much waits for who takes it.
 * Lives here: learning from all collectives of one kind who waits for whom, by places counted from the root, as
 * libraries build their trees. Must not live here: what follows from it (replay.h).
 */
#include <stdlib.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/base/radix_sort.h"
#include "analyzer/match/instances.h"
#include "analyzer/replay/replay_build.h"

enum {
    SEEN_LEAST = 2,      /* what happened once may be chance */
    RELAYS_OF_MEMBER = 4 /* as deep as a binomial tree of 16 ranks */
};

struct relay_kind {
    uint32_t communicator;
    uint16_t call;
    uint16_t size;
};

struct relay_key {
    struct relay_kind kind;
    uint32_t who, whom; /* places behind the root */
};

/* Of the times that `whom` came after `who` and the root. */
struct relay {
    struct relay_key key;
    uint64_t released; /* who left as soon as whom, the last until then, had come */
    uint64_t left;     /* who was gone before */
};

HASH_TABLE_OF(relays, struct relay, struct relay_key);

struct relay_search {
    struct hash_table table;
    struct sort_key *entries, *scratch; /* a link's members by entry */
    struct relay *list;                 /* the relays that there may be, by kind and place */
    size_t count;
};

static struct relay_kind kind_of(const struct replay_link *link) {
    return (struct relay_kind){link->rooted.communicator, link->call, link->size};
}

static bool is_rooted(const struct replay_link *link) {
    return link->has_root && link->count > 1;
}

static uint32_t member_at(const struct replay_link *link, uint32_t place) {
    return (link->rooted.root + place) % link->count;
}

/* What the collective's definition says already. */
static bool is_needed(const struct member *members, uint32_t who, uint32_t whom) {
    return (members[who].parts & TAKES) && (members[whom].parts & GIVES);
}

/* When a member had come, and all that it needs by definition; INT64_MAX: that is everybody. */
static int64_t base_of(const struct replay_link *link, const struct member *members, uint32_t who) {
    uint32_t root = link->rooted.root;
    if (who == root)
        return members[root].parts & TAKES ? INT64_MAX : members[root].enter;
    bool needs_root = is_needed(members, who, root);
    return needs_root && members[root].enter > members[who].enter ? members[root].enter : members[who].enter;
}

/* The last of the others who had come when a member left, NOWHERE: none after `base`. */
static uint32_t last_before(const struct relay_search *search, const struct member *members, uint32_t count,
                            uint32_t who, int64_t base) {
    uint64_t limit = sort_value(members[who].leave);
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (search->entries[middle].value <= limit)
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- > 0 && members[search->entries[low].index].enter > base) {
        uint32_t whom = search->entries[low].index;
        if (whom != who && !is_needed(members, who, whom))
            return whom;
    }
    return NOWHERE;
}

static bool see_releases(struct relay_search *search, const struct replay_link *link, const struct member *members) {
    for (uint32_t i = 0; i < link->count; i++)
        search->entries[i] = (struct sort_key){sort_value(members[i].enter), i};
    radix_sort(search->entries, search->scratch, link->count);
    for (uint32_t i = 0; i < link->count; i++) {
        int64_t base = base_of(link, members, i);
        uint32_t whom = base < INT64_MAX ? last_before(search, members, link->count, i, base) : NOWHERE;
        if (whom == NOWHERE || !message_over_soon(base, members[whom].enter, members[i].leave))
            continue;
        uint32_t count = link->count, root = link->rooted.root;
        struct relay_key key = {kind_of(link), (i + count - root) % count, (whom + count - root) % count};
        struct relay *relay = relays_add(&search->table, &key);
        if (!relay)
            return false;
        relay->released++;
    }
    return true;
}

static int compare_kinds(const struct relay_kind *left, const struct relay_kind *right) {
    if (left->communicator != right->communicator)
        return left->communicator < right->communicator ? -1 : 1;
    if (left->call != right->call)
        return left->call < right->call ? -1 : 1;
    return (left->size > right->size) - (left->size < right->size);
}

static int compare_relays(const void *a, const void *b) {
    const struct relay *left = a, *right = b;
    int order = compare_kinds(&left->key.kind, &right->key.kind);
    if (order != 0)
        return order;
    if (left->key.who != right->key.who)
        return left->key.who < right->key.who ? -1 : 1;
    if (left->released != right->released)
        return left->released > right->released ? -1 : 1;
    return (left->key.whom > right->key.whom) - (left->key.whom < right->key.whom);
}

static bool of_one_member(const struct relay *one, const struct relay *other) {
    return compare_kinds(&one->key.kind, &other->key.kind) == 0 && one->key.who == other->key.who;
}

/* Those seen more than once, of each member those seen most often. */
static bool list_relays(struct relay_search *search) {
    const struct relay *items = relays_items(&search->table);
    search->list = calloc(search->table.count + 1, sizeof *search->list);
    if (!search->list)
        return false;
    size_t found = 0, of_member = 0;
    for (size_t i = 0; i < search->table.count; i++)
        if (items[i].released >= SEEN_LEAST)
            search->list[found++] = items[i];
    if (found > 0)
        qsort(search->list, found, sizeof *search->list, compare_relays);
    for (size_t i = 0; i < found; i++) {
        bool same = search->count > 0 && of_one_member(&search->list[search->count - 1], &search->list[i]);
        of_member = same ? of_member + 1 : 1;
        if (of_member <= RELAYS_OF_MEMBER)
            search->list[search->count++] = search->list[i];
    }
    return true;
}

/* The first of a link's kind. */
static size_t first_of(const struct relay_search *search, const struct relay_kind *kind) {
    size_t low = 0, high = search->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_kinds(&search->list[middle].key.kind, kind) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whoever left before another one had come did not need it. */
static void see_who_left(struct relay_search *search, const struct replay_link *link, const struct member *members) {
    struct relay_kind kind = kind_of(link);
    for (size_t r = first_of(search, &kind); r < search->count; r++) {
        struct relay *relay = &search->list[r];
        if (compare_kinds(&relay->key.kind, &kind) != 0)
            return;
        const struct member *who = &members[member_at(link, relay->key.who)];
        const struct member *whom = &members[member_at(link, relay->key.whom)];
        if (whom->enter > who->leave && whom->enter > base_of(link, members, member_at(link, relay->key.who)))
            relay->left++;
    }
}

/* A link for each member that needs others. */
static void add_relays(const struct relay_search *search, struct replay_gathered *to, const struct replay_link *link,
                       const struct replay_gathered *from) {
    struct relay_kind kind = kind_of(link);
    for (size_t r = first_of(search, &kind), next; r < search->count; r = next) {
        if (compare_kinds(&search->list[r].key.kind, &kind) != 0)
            return;
        struct replay_link added = {.first = (uint32_t)to->member_count, .from = NOWHERE, .to = NOWHERE};
        struct member who = from->members[link->first + member_at(link, search->list[r].key.who)];
        for (next = r; next < search->count && of_one_member(&search->list[r], &search->list[next]); next++) {
            const struct relay *relay = &search->list[next];
            struct member whom = from->members[link->first + member_at(link, relay->key.whom)];
            if (relay->released > relay->left && whom.enter <= who.leave)
                replay_add_member(to, &whom, GIVES);
        }
        if (to->member_count > added.first) {
            replay_add_member(to, &who, TAKES);
            replay_add_link(to, added);
        }
    }
}

static uint32_t most_members(const struct replay_build *build) {
    uint32_t most = 0;
    for (unsigned w = 0; w < build->workers; w++)
        for (size_t l = 0; l < build->gathered[w].link_count; l++)
            if (is_rooted(&build->gathered[w].links[l]) && build->gathered[w].links[l].count > most)
                most = build->gathered[w].links[l].count;
    return most;
}

static bool search_relays(struct relay_search *search, const struct replay_build *build) {
    for (unsigned w = 0; w < build->workers; w++)
        for (size_t l = 0; l < build->gathered[w].link_count; l++) {
            const struct replay_gathered *g = &build->gathered[w];
            if (is_rooted(&g->links[l]) && !see_releases(search, &g->links[l], g->members + g->links[l].first))
                return false;
        }
    if (!list_relays(search))
        return false;
    for (unsigned w = 0; search->count > 0 && w < build->workers; w++)
        for (size_t l = 0; l < build->gathered[w].link_count; l++) {
            const struct replay_gathered *g = &build->gathered[w];
            if (is_rooted(&g->links[l]))
                see_who_left(search, &g->links[l], g->members + g->links[l].first);
        }
    return true;
}

bool replay_find_relays(struct replay_build *build) {
    uint32_t most = most_members(build);
    struct relay_search search = {.entries = malloc((most + 1u) * sizeof *search.entries),
                                  .scratch = malloc((most + 1u) * sizeof *search.scratch)};
    bool done = search.entries && search.scratch && (most == 0 || search_relays(&search, build));
    for (unsigned w = 0; done && search.count > 0 && w < build->workers; w++) {
        size_t count = build->gathered[w].link_count;
        for (size_t l = 0; l < count; l++) {
            struct replay_link link = build->gathered[w].links[l];
            if (is_rooted(&link))
                add_relays(&search, &build->gathered[0], &link, &build->gathered[w]);
        }
    }
    free(search.entries);
    free(search.scratch);
    free(search.list);
    hash_table_free(&search.table);
    return done && !build->gathered[0].no_memory;
}
