/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/progress.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"

void match_away_free(struct match_away *away) {
    free(away->keys);
    *away = (struct match_away){0};
}

static bool was_away(const struct match_member *member) {
    return member->wait > member->enter && member->wait < member->leave;
}

static bool may_be_needed(const struct match_instance *instance, enum flow flow, uint32_t i) {
    return flow == FLOW_ALL || (flow == FLOW_FROM_ROOT) == (i == instance->root);
}

static bool may_need(const struct match_instance *instance, enum flow flow, uint32_t i) {
    return flow == FLOW_ALL || (flow == FLOW_TO_ROOT) == (i == instance->root);
}

static bool is_judged(const struct match_instance *instance, enum flow flow) {
    bool rooted = (flow == FLOW_FROM_ROOT || flow == FLOW_TO_ROOT) && instance->root != NOWHERE;
    return (flow == FLOW_ALL || rooted) && !instance->device && instance->communicator->kind != COMMUNICATOR_INTER;
}

bool match_away_list(struct match_away *away, const struct match_instance *instance, enum flow flow) {
    uint32_t members = instance->communicator->dump_count;
    away->count = 0;
    for (uint32_t i = 0; i < members && is_judged(instance, flow); i++) {
        if (instance->members[i].enter == MATCH_ABSENT || !was_away(&instance->members[i]) ||
            !may_be_needed(instance, flow, i))
            continue;
        if (!grow_to(away->keys, away->room, 2 * (size_t)members))
            return false;
        away->keys[away->count++] = (struct sort_key){sort_value(instance->members[i].wait), i};
    }
    if (away->count > 1)
        radix_sort(away->keys, away->keys + away->count, away->count);
    return true;
}

/* How many of those that were away were back at a moment. */
static size_t back_by(const struct match_away *away, int64_t at) {
    size_t low = 0, high = away->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (away->keys[middle].value <= sort_value(at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of the first `count` that were back the last one but member i, as its place + 1; 0: there is none. */
static size_t last_but(const struct match_away *away, size_t count, uint32_t i) {
    return count - (count > 0 && away->keys[count - 1].index == i);
}

struct match_away_cause match_away_cause(const struct match_away *away, const struct match_instance *instance,
                                         enum flow flow, uint32_t i) {
    const struct match_member *member = &instance->members[i];
    struct match_away_cause cause = {NOWHERE, MATCH_ABSENT, MATCH_ABSENT};
    if (away->count == 0 || member->enter == MATCH_ABSENT || !may_need(instance, flow, i))
        return cause;
    size_t last = last_but(away, back_by(away, member->leave), i);
    if (last == 0)
        return cause;
    int64_t since = member->wait > member->enter ? member->wait : member->enter;
    const struct match_member *late = &instance->members[away->keys[last - 1].index];
    if (late->wait <= since || !message_over_soon(late->enter, late->wait, member->leave) ||
        !message_over_soon(since, late->wait, member->leave))
        return cause;
    size_t before = last_but(away, last - 1, i);
    cause.member = away->keys[last - 1].index;
    cause.back = late->wait;
    cause.previous = before > 0 ? sort_number(away->keys[before - 1].value) : MATCH_ABSENT;
    return cause;
}
