/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/diagnose/diagnosis.h"

#include <stdlib.h>

const char *verdict_name(enum verdict verdict) {
    static const char *const names[] = {"ok", "hang", "desync", "deadlock", "dead_rank", "unknown"};
    return names[verdict];
}

const char *culprit_state_name(enum culprit_state state) {
    static const char *const names[] = {"never_entered", "blocked",      "mismatch",  "dead",
                                        "no_dump",       "in_user_code", "finalised", "not_collected"};
    return names[state];
}

/* Parties with a dump are numbered as the dumps. */
uint32_t certain_death(const struct diagnosis *diagnosis) {
    if (diagnosis->end.dead_known && diagnosis->end.sure)
        return (uint32_t)diagnosis->end.dead;
    return diagnosis->first_death.missed ? diagnosis->first_death.party : NOBODY;
}

bool is_at_work(const struct party_state *state) {
    return state->doing == DOING_USER_CODE || state->doing == DOING_CALL || state->doing == DOING_POLL;
}

bool circle_has_gpus(const struct diagnosis *diagnosis) {
    for (size_t i = 0; i < diagnosis->cycle_count; i++)
        if (diagnosis->wait_for_graph.items[diagnosis->cycle[i]].device)
            return diagnosis->verdict == VERDICT_DEADLOCK;
    return false;
}

void diagnosis_free(struct diagnosis *diagnosis) {
    unmatched_messages_free(&diagnosis->unmatched);
    free(diagnosis->culprits);
    free(diagnosis->cycle);
    mismatch_free(&diagnosis->mismatch);
    mismatch_free(&diagnosis->overcome);
    wait_for_graph_free(&diagnosis->wait_for_graph);
    world_free(&diagnosis->world);
    *diagnosis = (struct diagnosis){0};
}
