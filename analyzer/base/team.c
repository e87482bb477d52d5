/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/team.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/parcel.h"

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

/* ---- parts of one work ------------------------------------------------------------------------------------------- */

static bool take_parts(const struct team *team, team_part *part, void *context) {
    bool done = true;
    for (unsigned p = 0; done && p < team->processes; p++) {
        struct team_head head;
        if (p == team->number)
            continue;
        struct parcel got = parcel_to_unpack(team->incoming[p].bytes, team->incoming[p].count);
        parcel_field(&got, &head);
        part(context, p, &got);
        done = parcel_is_used_up(&got);
    }
    return done;
}

bool team_share(struct team *team, enum team_purpose purpose, bool failed, team_part *part, void *context) {
    struct team_head head = {.purpose = purpose}; /* as it travels: the checksum goes over it */
    struct team_block mine = {(char *)&head, sizeof head};
    struct parcel own = parcel_to_pack();
    if (!team_is_shared(team))
        return !failed;
    if (!failed) {
        parcel_field(&own, &head);
        part(context, team->number, &own);
        parcel_seal(&own);
    }
    if (!failed && !own.failed)
        mine = (struct team_block){(char *)own.bytes, own.size};
    bool done = team_meet(team, purpose, failed || own.failed, &mine, team->incoming);
    done = done && take_parts(team, part, context);
    team_free(team, team->incoming);
    parcel_free(&own);
    return done;
}
