/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: counting. Must not live here: sentences.
 */
#include "analyzer/live/summary.h"

#include "analyzer/wait_for_graph/moments.h"

size_t live_moving(const struct live_sample *now, int32_t *ranks) {
    size_t count = 0;
    for (size_t d = 0; d < now->count; d++)
        if (difference_ns(now->items[d].when_ns, now->items[d].moved_ns) < LIVE_STANDS_NS)
            ranks[count++] = now->items[d].rank;
    return count;
}

int64_t live_last_move_ns(const struct live_sample *now) {
    int64_t last = INT64_MIN;
    for (size_t d = 0; d < now->count; d++)
        if (now->items[d].moved_ns > last)
            last = now->items[d].moved_ns;
    return last;
}

static const struct live_row *find_row(const struct live_rows *rows, int32_t rank, int64_t pid) {
    for (size_t i = 0; i < rows->count; i++)
        if (rows->items[i].rank == rank && rows->items[i].pid == pid)
            return &rows->items[i];
    return NULL;
}

/* For how long a process has not come on: since its call began or the last one ended, but for one that asks again and
 * again, of which only the readings tell. */
static int64_t still_for_ns(const struct live_row *row, const struct live_counters *now) {
    int64_t seen = difference_ns(now->when_ns, now->moved_ns);
    return row->state != LIVE_POLLING && row->since_ns > seen ? row->since_ns : seen;
}

static void count_moves(struct live_summary *summary, const struct live_rows *rows,
                        const struct live_request *request) {
    for (size_t d = 0; d < request->now->count; d++) {
        const struct live_counters *now = &request->now->items[d];
        const struct dump_header *header = request->job->dumps[d]->header;
        const struct live_row *row = find_row(rows, header->rank, header->pid);
        if (!row || !live_state_is_alive(row->state) || now->interval_ns <= 0)
            continue;
        int64_t still = still_for_ns(row, now);
        summary->paused += now->paused;
        summary->interval_ns = now->interval_ns > summary->interval_ns ? now->interval_ns : summary->interval_ns;
        summary->moved += now->moved;
        if (summary->moved == 0 && (summary->standing_ns < 0 || still < summary->standing_ns))
            summary->standing_ns = still;
    }
    if (summary->moved > 0)
        summary->standing_ns = -1;
}

void live_summary_make(struct live_summary *summary, const struct live_rows *rows, const struct live_request *request) {
    *summary = (struct live_summary){.standing_ns = -1, .with_dump = request->job->count};
    for (size_t i = 0; i < rows->count; i++) {
        const struct live_row *row = &rows->items[i];
        summary->alive += live_state_is_alive(row->state);
        summary->reachable += row->state != LIVE_NOT_REACHABLE && row->state != LIVE_NO_DUMP;
        if (row->waited_by > 0 && (!summary->awaited || row->waited_by > summary->awaited->waited_by))
            summary->awaited = row;
    }
    count_moves(summary, rows, request);
}

static struct live_culprit culprit_of(const struct diagnosis *diagnosis, const struct culprit *culprit) {
    return (struct live_culprit){.rank = diagnosis->world.parties[culprit->party].rank,
                                 .state = culprit->state,
                                 .stopped = diagnosis->wait_for_graph.parties[culprit->party].stopped};
}

void live_summary_judge(struct live_summary *summary, const struct diagnosis *diagnosis) {
    summary->judged = true;
    summary->verdict = diagnosis->verdict;
    summary->may_come_back = diagnosis->may_come_back;
    summary->untold = diagnosis->verdict == VERDICT_HANG && diagnosis->standing.kind == STANDING_UNTOLD;
    summary->culprit_count = 0;
    for (size_t i = 0; i < diagnosis->culprit_count && i < LIVE_CULPRITS_MOST; i++)
        summary->culprits[summary->culprit_count++] = culprit_of(diagnosis, &diagnosis->culprits[i]);
}
