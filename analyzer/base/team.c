/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/team.h"

#include <stdlib.h>
#include <string.h>

void team_free(const struct team *team, struct team_block *blocks) {
    for (unsigned p = 0; p < team->processes; p++) {
        if (p != team->number)
            free(blocks[p].bytes);
        blocks[p] = (struct team_block){0};
    }
}

static bool is_well_formed(const struct team_block *block) {
    return block->count >= sizeof(struct team_head);
}

static bool all_came_for(const struct team *team, enum team_purpose purpose, const struct team_block *all) {
    bool same = true;
    for (unsigned p = 0; p < team->processes; p++) {
        const struct team_head *head = (const void *)all[p].bytes;
        same = same && head->purpose == purpose && !head->failed;
    }
    return same;
}

/* Everybody gets the same of this process. */
static bool tell_all(struct team *team, const struct team_block *mine, struct team_block *all) {
    for (unsigned p = 0; p < team->processes; p++)
        team->outgoing[p] = *mine;
    bool done = team->exchange(team->context, team->outgoing, all);
    all[team->number] = *mine;
    for (unsigned p = 0; done && p < team->processes; p++)
        done = is_well_formed(&all[p]);
    return done;
}

bool team_meet(struct team *team, enum team_purpose purpose, bool failed, const struct team_block *mine,
               struct team_block *all) {
    struct team_head *head = (void *)mine->bytes;
    memset(all, 0, team->processes * sizeof *all);
    if (team->parted && purpose != TEAM_END)
        return false;
    *head = (struct team_head){purpose, failed};
    bool met = tell_all(team, mine, all), agreed = met && all_came_for(team, purpose, all);
    if (purpose == TEAM_END)
        return met;
    if (!agreed) {
        team->parted = true;
        team->bystander = !failed;
        team_free(team, all);
    }
    return agreed;
}
