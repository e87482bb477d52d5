/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recording lost, by its own count.
 * Lives here: the table of the kinds of loss, their sums.
 * Must not live here: overwritten events, when to speak of a loss, printing.
 */
#include "analyzer/load/losses.h"

#define OF_PROCESS(FIELD, TEXT)                                                                                        \
    { #FIELD, TEXT, offsetof(struct losses, FIELD), LOSS_OF_PROCESS }
#define OF_LANE(FIELD, TEXT)                                                                                           \
    { #FIELD, TEXT, offsetof(struct lane_state, FIELD), LOSS_OF_LANE }
/* A counter that came later and lies elsewhere in the header. */
#define OF_HEADER(FIELD, TEXT)                                                                                         \
    { #FIELD, TEXT, offsetof(struct dump_header, FIELD) - offsetof(struct dump_header, losses), LOSS_OF_PROCESS }
/* One of what commtap itself took, which lies behind the section table. */
#define OF_OWN_COST(FIELD, TEXT)                                                                                       \
    { #FIELD, TEXT, offsetof(struct own_cost, FIELD), LOSS_OF_OWN_COST }
const struct loss_kind loss_kinds[LOSS_KINDS] = {
    [LOSS_OPERATIONS] = OF_LANE(operations_lost, "calls are in no total: a table of operations was full, or found no "
                                                 "room"),
    [LOSS_TABLES] =
        OF_PROCESS(tables_in_memory, "tables of totals, events or call sites are not in the dumps, whose file "
                                     "system was full: what they hold is missing"),
    [LOSS_PROVIDERS] = OF_PROCESS(
        providers_handed_raw, "functions of a further copy of a library were handed out: calls of them are not seen"),
    [LOSS_COMMUNICATORS] = OF_PROCESS(communicators_untracked,
                                      "communicators could not be followed: nothing on them is matched between ranks"),
    [LOSS_PENDING] = OF_PROCESS(pending_untracked, "operations could not be followed: when they completed is unknown"),
    [LOSS_ORDINALS] =
        OF_PROCESS(ordinals_evicted, "point-to-point channels lost count: messages on them are not paired"),
    [LOSS_THREADS] = OF_PROCESS(threads_without_slot, "threads found no place to show their call: what they hang in is "
                                                      "unknown"),
    [LOSS_WINDOWS] =
        OF_LANE(windows_lost,
                "of the overwritten events are of sampled windows that had no room: less is known of the run's past"),
    [LOSS_SITES] = OF_LANE(sites_lost, "calls have no call site: a table was full"),
    [LOSS_PEERS] = OF_LANE(peers_lost, "messages are missing from who sent to whom: a table was full"),
    [LOSS_DEFINITIONS] = OF_PROCESS(definitions_full, "communicators, names or call sites were not written down"),
    [LOSS_EPOCHS] = OF_PROCESS(epochs_merged, "phases of the job were added to the one before: there are too many"),
    [LOSS_GPU_EVENTS] = OF_PROCESS(gpu_no_event, "GPU operations were not timed: no event was free"),
    [LOSS_GPU_UNFINISHED] =
        OF_PROCESS(gpu_unfinished, "GPU operations had not finished when the process ended, or were aborted"),
    [LOSS_GPU_FAILED] = OF_PROCESS(gpu_failed, "GPU operations were not timed: their events returned errors"),
    [LOSS_GPU_OVERLAPPING] = OF_PROCESS(
        gpu_overlapping, "GPU operations on symmetric memory were not timed: they may overlap with the kernel "
                         "before them, which an event between the two would forbid "
                         "(COMMTAP_GPU_TIMING=events times them at that price)"),
    [LOSS_REPLAYS] = OF_PROCESS(replays_untimed, "GPU operations of graph replays were counted but not timed"),
    [LOSS_UNFOLLOWED] =
        OF_HEADER(captured_unfollowed, "GPU operations were captured into graphs that were not seen to be made "
                                       "executable: how often they ran is in no total"),
    [LOSS_STACKS_CUT] = OF_PROCESS(stacks_truncated, "call stacks are cut short"),
    [LOSS_CHILDREN] = OF_PROCESS(children_unrecorded, "processes forked from ranks left no dump: there were more than "
                                                      "COMMTAP_CHILDREN"),
    [LOSS_QUOTA] = OF_PROCESS(quota_refusals, "times COMMTAP_QUOTA or COMMTAP_NODE_QUOTA left no room: there are "
                                              "fewer events, or what is said above is missing"),
    [LOSS_GPU_SHED] = OF_OWN_COST(gpu_shed, "GPU operations were not timed, to stay within COMMTAP_BUDGET"),
    [LOSS_STACKS_SHED] = OF_LANE(stacks_shed, "calls have no call site, to stay within COMMTAP_BUDGET"),
    [LOSS_RECORDS_SHED] = OF_LANE(records_shed, "events were not written down, to stay within COMMTAP_BUDGET: they "
                                                "are in totals alone"),
};

static void add_counter(uint64_t *sum, uint64_t counter) {
    *sum = counter < (uint64_t)INT64_MAX - *sum ? *sum + counter : INT64_MAX;
}

void losses_add(struct loss_counts *counts, const struct dump *dump) {
    for (int kind = 0; kind < LOSS_KINDS; kind++) {
        size_t offset = loss_kinds[kind].offset;
        enum loss_place place = loss_kinds[kind].place;
        const void *counters = place == LOSS_OF_PROCESS ? (const void *)&dump->header->losses : &dump->own_cost;
        if (place != LOSS_OF_LANE)
            add_counter(&counts->of[kind], *(const uint64_t *)((const char *)counters + offset));
        for (uint32_t i = 0; place == LOSS_OF_LANE && i < dump->lane_count; i++)
            if (dump->lanes[i].state)
                add_counter(&counts->of[kind], *(const uint64_t *)((const char *)dump->lanes[i].state + offset));
    }
}
