/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/replay/alike.h"

#include <stdlib.h>

#include "analyzer/base/hash_table.h"

struct group_key {
    uint64_t key;
};

struct group {
    struct group_key key;
    uint32_t number; /* + 1; 0: new */
};

HASH_TABLE_OF(group_table, struct group, struct group_key);

/* Returns false when memory is short. */
static bool number_groups(struct alike *groups, const struct replay *replay, alike_key *key_of) {
    struct hash_table table = {0};
    bool done = true;
    for (size_t n = 0; done && n < replay->node_count; n++) {
        struct group_key key;
        groups->of[n] = NOWHERE;
        if (!key_of(replay, n, &key.key))
            continue;
        struct group *group = group_table_add(&table, &key);
        if (group && group->number == 0)
            group->number = ++groups->count;
        groups->of[n] = group ? group->number - 1 : NOWHERE;
        done = group != NULL;
    }
    hash_table_free(&table);
    return done;
}

bool alike_find(struct alike *groups, const struct replay *replay, alike_key *key_of) {
    *groups = (struct alike){.of = malloc((replay->node_count + 1) * sizeof *groups->of),
                             .list = malloc((replay->node_count + 1) * sizeof *groups->list)};
    if (!groups->of || !groups->list || !number_groups(groups, replay, key_of))
        return false;
    groups->first = calloc(groups->count + 2u, sizeof *groups->first);
    if (!groups->first)
        return false;
    for (size_t n = 0; n < replay->node_count; n++)
        if (groups->of[n] != NOWHERE)
            groups->first[groups->of[n] + 2]++;
    for (uint32_t g = 0; g < groups->count; g++)
        groups->first[g + 2] += groups->first[g + 1];
    for (size_t n = 0; n < replay->node_count; n++) /* moves the beginnings to where they belong */
        if (groups->of[n] != NOWHERE)
            groups->list[groups->first[groups->of[n] + 1]++] = (uint32_t)n;
    return true;
}

void alike_free(struct alike *groups) {
    free(groups->of);
    free(groups->list);
    free(groups->first);
    *groups = (struct alike){0};
}
