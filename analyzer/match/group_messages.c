/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/group_messages.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"

HASH_TABLE_OF(posted_groups, struct posted_group, struct group_key);

static void free_table(struct hash_table *table) {
    for (size_t i = 0; i < table->count; i++)
        free(posted_groups_items(table)[i].messages);
    hash_table_free(table);
}

void group_messages_init(struct group_messages *groups, uint64_t interval) {
    *groups = (struct group_messages){.turn_at = interval, .interval = interval};
}

void group_messages_free(struct group_messages *groups) {
    free_table(&groups->young);
    free_table(&groups->old);
    free_table(&groups->captured);
}

void group_messages_walked(struct group_messages *groups, uint64_t records) {
    if (records < groups->turn_at)
        return;
    free_table(&groups->old);
    groups->old = groups->young;
    groups->young = (struct hash_table){0};
    groups->turn_at = records + groups->interval;
}

static struct posted_group *find(const struct group_messages *groups, uint32_t dump, uint32_t op) {
    const struct group_key key = {dump, op};
    struct posted_group *group = posted_groups_find(&groups->young, &key);
    return group ? group : posted_groups_find(&groups->old, &key);
}

bool group_messages_post(struct group_messages *groups, uint32_t dump, const struct record *record) {
    const struct group_key key = {dump, (uint32_t)record->tag};
    struct posted_group *group = find(groups, dump, key.op);
    if (!group)
        group = posted_groups_add(&groups->young, &key);
    if (!group || !grow_list(group->messages, group->count))
        return false;
    group->messages[group->count++] = *record;
    return true;
}

const struct posted_group *group_messages_find(const struct group_messages *groups, uint32_t dump, uint32_t op) {
    return groups->young.count + groups->old.count > 0 ? find(groups, dump, op) : NULL;
}

const struct posted_group *group_messages_captured(const struct group_messages *groups, uint32_t dump, uint32_t op) {
    return posted_groups_find(&groups->captured, &(struct group_key){dump, op});
}

static void forget(struct group_messages *groups, const struct group_key *key) {
    posted_groups_remove(&groups->young, key);
    posted_groups_remove(&groups->old, key);
}

bool group_messages_capture(struct group_messages *groups, uint32_t dump, uint32_t op) {
    const struct group_key key = {dump, op};
    struct posted_group *group = find(groups, dump, op);
    if (!group)
        return true;
    struct posted_group *kept = posted_groups_add(&groups->captured, &key);
    if (!kept)
        return false;
    free(kept->messages); /* damage: the number twice */
    *kept = *group;
    forget(groups, &key);
    return true;
}

void group_messages_drop(struct group_messages *groups, uint32_t dump, uint32_t op) {
    const struct group_key key = {dump, op};
    struct posted_group *group = find(groups, dump, op);
    if (!group)
        return;
    free(group->messages);
    forget(groups, &key);
}
