/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/standstill.h"

#include <inttypes.h>
#include <stdio.h>

#include "analyzer/render/escape.h"
#include "analyzer/wait_for_graph/ranks.h"

static json_t *text_or_null(const char *text) {
    return text && text[0] ? escape_json(text) : json_null();
}

static json_t *process_to_json(const struct party *party, const struct party_state *state) {
    static const char *const doings[] = {
        [DOING_USER_CODE] = "user_code", [DOING_BLOCKED] = "blocked", [DOING_CALL] = "call",
        [DOING_POLL] = "poll",           [DOING_INIT] = "init",       [DOING_FINALIZE] = "finalize",
        [DOING_FINISHED] = "finished",   [DOING_GONE] = "gone",       [DOING_UNKNOWN] = "no_dump"};
    bool calls = (state->doing == DOING_CALL || state->doing == DOING_POLL) && state->call;
    return json_pack("{s:o, s:s, s:o, s:b}", "rank", party->rank >= 0 ? json_integer(party->rank) : json_null(),
                     "doing", doings[state->doing], "op", calls ? escape_json(state->call->name) : json_null(),
                     "stopped", state->stopped);
}

/* Place of the collective that is waited in among those of the block "diagnosis", which has all that stall in this
 * order. */
static json_t *collective_of(const struct wait_for_graph *waits, const struct wait *wait) {
    for (size_t i = 0; wait->collective && i < waits->stalled_count; i++)
        if (wait_is_in(wait, &waits->stalled[i]))
            return json_integer((json_int_t)i);
    return json_null();
}

/* Of a collective they are those that have not come to it, which are many and the same for all of its waits. */
static json_t *targets_of(const struct diagnosis *diagnosis, const struct wait *wait, const json_t *collective) {
    int32_t ranks[STANDSTILL_TARGETS_MOST];
    json_t *array = json_array();
    size_t count =
        json_is_null(collective) ? wait_targets(&diagnosis->wait_for_graph, wait, ranks, STANDSTILL_TARGETS_MOST) : 0;
    for (size_t i = 0; array && i < count; i++)
        json_array_append_new(array, json_integer(ranks[i]));
    return array;
}

/* Whether any one of the ranks lets it go on, as with a receive from any source. A node that is a process says nothing
 * of the wait, and members of a collective are always waited for together. */
static bool goes_on_with_any(const struct diagnosis *diagnosis, const struct wait *wait) {
    return !wait->collective && wait->node >= diagnosis->world.party_count &&
           diagnosis->wait_for_graph.graph.any[wait->node];
}

static json_t *wait_to_json(const struct diagnosis *diagnosis, const struct wait *wait, struct site_labels *labels) {
    char uid[17] = "";
    const struct dump *dump = diagnosis->world.parties[wait->party].dump;
    const char *site = dump && wait->stack != STACK_NONE ? site_label(labels, wait->party, wait->stack) : NULL;
    json_t *collective = collective_of(&diagnosis->wait_for_graph, wait);
    if (wait->communicator)
        snprintf(uid, sizeof uid, "%016" PRIx64, wait->communicator->uid);
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "process", (json_int_t)wait->party, "op",
                     escape_json(wait->call->name), "comm", text_or_null(uid), "comm_name",
                     text_or_null(wait->communicator ? wait->communicator->name : NULL), "seq",
                     wait->collective ? json_integer(wait->seq) : json_null(), "site", text_or_null(site), "waits_for",
                     targets_of(diagnosis, wait, collective), "any", json_boolean(goes_on_with_any(diagnosis, wait)),
                     "collective", collective);
}

json_t *standstill_to_json(const struct diagnosis *diagnosis, struct site_labels *labels) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    json_t *processes = json_array(), *rows = json_array();
    for (uint32_t p = 0; p < diagnosis->world.party_count && p < STANDSTILL_ROWS_MOST; p++)
        json_array_append_new(processes, process_to_json(&diagnosis->world.parties[p], &waits->parties[p]));
    for (size_t i = 0; i < waits->count && i < STANDSTILL_ROWS_MOST; i++)
        json_array_append_new(rows, wait_to_json(diagnosis, &waits->items[i], labels));
    return json_pack("{s:s, s:I, s:o, s:I, s:o}", "schema", "commtap.page.standstill/1", "processes_found",
                     (json_int_t)diagnosis->world.party_count, "processes", processes, "waits_found",
                     (json_int_t)waits->count, "waits", rows);
}
