/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/epochs.h"

HASH_TABLE_OF(epoch_groups, struct epoch_group, struct epoch_key);

void epochs_free(struct epochs *epochs) {
    hash_table_free(&epochs->open);
}

/* Partners come in order, the first one begins the epoch: where one is missing, the group is not whole. */
bool epochs_begin(struct epochs *epochs, const struct epoch_key *key, const struct record *record,
                  const struct epoch_partner *partner) {
    struct epoch_group *group = epoch_groups_add(&epochs->open, key);
    if (!group)
        return false;
    if (record->tag == 0)
        group->count = 0;
    group->size = record->op;
    if (record->tag == (int32_t)group->count && group->count < EPOCH_PARTNERS_KEPT)
        group->partners[group->count++] = *partner;
    else
        group->count = 0;
    return true;
}

bool epochs_end(struct epochs *epochs, const struct epoch_key *key, struct epoch_group *group) {
    struct epoch_group *open = epoch_groups_find(&epochs->open, key);
    bool whole = open && open->count > 0 && open->count == open->size;
    if (whole)
        *group = *open;
    if (open)
        open->count = 0;
    return whole;
}

void epochs_forget(struct epochs *epochs, uint32_t dump) {
    struct epoch_group *groups = epoch_groups_items(&epochs->open);
    for (size_t i = 0; i < epochs->open.count; i++)
        if (groups[i].key.dump == dump)
            groups[i].count = 0;
}
