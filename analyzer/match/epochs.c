/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/epochs.h"

HASH_TABLE_OF(epoch_groups, struct epoch_group, struct epoch_key);

void epochs_init(struct epochs *epochs, uint64_t interval) {
    *epochs = (struct epochs){0};
    messages_init(&epochs->needs, interval);
}

void epochs_free(struct epochs *epochs) {
    messages_free(&epochs->needs, &epochs->totals);
    hash_table_free(&epochs->open);
}

void epochs_walked(struct epochs *epochs, uint64_t records) {
    messages_walked(&epochs->needs, records, &epochs->totals);
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

bool epochs_arrive(struct epochs *epochs, const struct message_half *half, const struct match_sink *sink, void *state) {
    const struct match_sink needs = {.message = sink->epoch};
    return messages_arrive(&epochs->needs, half, &needs, state, &epochs->totals);
}
