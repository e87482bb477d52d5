/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: two readings and the graph of waits put together. Must not live here: reading dumps, printing.
 */
#include "analyzer/live/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/wait_for_graph/moments.h"
#include "analyzer/wait_for_graph/ranks.h"

const char *live_state_name(enum live_state state) {
    static const char *const names[] = {"computing",  "waiting",  "polling",      "in_call", "starting",
                                        "finalizing", "finished", "stopped",      "aborted", "exited",
                                        "gone",       "no_dump",  "not_reachable"};
    return names[state];
}

bool live_state_is_alive(enum live_state state) {
    return state < LIVE_FINISHED || state == LIVE_STOPPED;
}

/* ---- what it does ---------------------------------------------------------------------------- */

static bool is_in_place(const struct party *party) {
    return party->process == PROCESS_RUNS || party->process == PROCESS_STOPPED;
}

/* Of a process that is no more. */
static enum live_state end_of(const struct dump *dump) {
    return dump->header->state & STATE_ABORTING ? LIVE_ABORTED
           : dump->header->state & STATE_EXITED ? LIVE_EXITED
                                                : LIVE_GONE;
}

static enum live_state state_of(const struct party *party, const struct party_state *now) {
    if (now->doing == DOING_FINISHED)
        return LIVE_FINISHED;
    if (now->doing == DOING_GONE || party->process == PROCESS_GONE || party->dump->header->state & STATE_EXITED)
        return end_of(party->dump);
    if (!is_in_place(party)) /* an old copy: what it says may be long over */
        return LIVE_NOT_REACHABLE;
    if (now->stopped)
        return LIVE_STOPPED;
    switch (now->doing) {
    case DOING_BLOCKED:
        return LIVE_WAITING;
    case DOING_CALL:
        return LIVE_IN_CALL;
    case DOING_POLL:
        return LIVE_POLLING;
    case DOING_INIT:
        return LIVE_STARTING;
    case DOING_FINALIZE:
        return LIVE_FINALIZING;
    default:
        return LIVE_COMPUTING;
    }
}

static void name_communicator(char name[64], const struct shared_communicator *communicator) {
    snprintf(name, 64, "%s", communicator->name);
}

/* Of several threads that wait, the one that has waited longest. */
static const struct wait *oldest_wait(const struct wait_for_graph *waits, const struct party_state *now) {
    const struct wait *oldest = NULL;
    for (uint32_t i = 0; i < now->wait_count; i++) {
        const struct wait *wait = &waits->items[now->first_wait + i];
        if (!oldest || wait->enter < oldest->enter)
            oldest = wait;
    }
    return oldest;
}

static int64_t age_ns(const struct dump *dump, const struct live_counters *counters, uint64_t ticks) {
    if (ticks == 0)
        return -1;
    int64_t age = difference_ns(counters->when_ns, dump_monotonic_ns(dump, ticks));
    return age > 0 ? age : 0;
}

/* When an end, or a stay outside of calls, began that the threads' slots do not tell of. */
static uint64_t began(const struct dump *dump, enum live_state state, uint64_t since) {
    const struct dump_header *header = dump->header;
    switch (state) {
    case LIVE_STARTING:
        return header->activated_ticks;
    case LIVE_FINALIZING:
        return header->finalise_ticks ? header->finalise_ticks : since;
    case LIVE_FINISHED:
        return header->finalised_ticks ? header->finalised_ticks : header->exited_ticks;
    case LIVE_EXITED:
    case LIVE_ABORTED:
        return header->exited_ticks;
    case LIVE_GONE:
    case LIVE_NOT_REACHABLE:
        return 0;
    default:
        return since;
    }
}

static void set_wait(struct live_row *row, const struct diagnosis *waits, const struct wait *wait) {
    snprintf(row->call, sizeof row->call, "%.40s", wait->call->name);
    if (wait->communicator) {
        row->has_comm = true;
        row->comm = wait->communicator->uid;
        name_communicator(row->comm_name, wait->communicator);
    }
    row->waits_for_count = wait_targets(&waits->wait_for_graph, wait, row->waits_for, LIVE_TARGETS_MOST);
}

static void set_doing(struct live_row *row, const struct diagnosis *waits, uint32_t p,
                      const struct live_counters *counters) {
    const struct party *party = &waits->world.parties[p];
    const struct party_state *now = &waits->wait_for_graph.parties[p];
    const struct wait *wait = oldest_wait(&waits->wait_for_graph, now);
    uint64_t since = now->since;
    row->state = state_of(party, now);
    bool in_wait = wait && (row->state == LIVE_WAITING || (row->state == LIVE_STOPPED && now->doing == DOING_BLOCKED));
    if (in_wait) {
        set_wait(row, waits, wait);
        since = wait->enter;
    } else if (live_state_is_alive(row->state) && now->call) {
        snprintf(row->call, sizeof row->call, "%.40s", now->call->name);
    }
    row->since_ns = age_ns(party->dump, counters, began(party->dump, row->state, since));
}

/* ---- who is behind --------------------------------------------------------------------------- */

static uint64_t more(uint64_t now, uint64_t before) {
    return now > before ? now - before : 0;
}

struct behind {
    const struct live_request *request;
    struct live_row *rows; /* by party */
};

/* When a member entered its newest collective, by CLOCK_MONOTONIC of the host of `other`; a second later where that is
 * another host, whose clock may be off by so much. */
static int64_t entered_ns(const struct dump *dump, uint64_t ticks, const struct dump *other) {
    int64_t entered = dump_monotonic_ns(dump, ticks);
    if (strcmp(dump->boot_id, other->boot_id) == 0)
        return entered;
    int64_t apart = difference_ns(live_clocks_apart_ns(dump), live_clocks_apart_ns(other));
    return difference_ns(entered, difference_ns(difference_ns(0, apart), REALTIME_APART_NS));
}

static void set_behind(const struct behind *b, const struct shared_communicator *communicator, size_t foremost,
                       size_t member) {
    const struct world *world = &b->request->waits->world;
    const struct membership *first = &world->memberships[foremost], *mine = &world->memberships[member];
    const struct live_head *head = &b->request->heads[foremost];
    const struct dump *dump = world->parties[mine->party].dump;
    const struct dump_communicator *local = dump_communicator(dump, mine->local);
    struct live_row *row = &b->rows[mine->party];
    struct progress own;
    if (!live_state_is_alive(row->state) || !local || local->freed || !membership_progress(world, mine, &own))
        return;
    uint64_t missing = more(head->enqueued, own.enqueued);
    /* Members are read one after the other, and go on meanwhile: only what the foremost had entered before this one was
     * read is known to be missing. */
    bool before = entered_ns(world->parties[first->party].dump, head->last_enter, dump) <=
                  b->request->now->items[mine->party].when_ns;
    if (row->behind < 0)
        row->behind = 0;
    if (!before || missing > INT64_MAX || (int64_t)missing <= row->behind)
        return;
    row->behind = (int64_t)missing;
    row->behind_comm = communicator->uid;
    name_communicator(row->behind_comm_name, communicator);
}

static void find_behind(const struct behind *b, const struct shared_communicator *communicator, size_t first) {
    const struct live_head *heads = b->request->heads;
    size_t end = first + communicator->present_count, foremost = end;
    for (size_t i = first; i < end; i++)
        if (heads[i].known && (foremost == end || heads[i].enqueued > heads[foremost].enqueued))
            foremost = i;
    for (size_t i = first; foremost < end && i < end; i++)
        set_behind(b, communicator, foremost, i);
}

static void find_all_behind(const struct live_request *request, struct live_row *rows) {
    const struct world *world = &request->waits->world;
    const struct behind b = {request, rows};
    size_t first = 0;
    for (uint32_t c = 0; request->heads && c < world->communicator_count; c++) {
        find_behind(&b, &world->communicators[c], first);
        first += world->communicators[c].present_count;
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct live_row new_row(int32_t rank, enum live_state state) {
    return (struct live_row){.rank = rank,
                             .state = state,
                             .pid = -1,
                             .since_ns = -1,
                             .calls_per_s = -1,
                             .bytes_per_s = -1,
                             .wait_share = -1,
                             .behind = -1};
}

static const struct dump_stub *stub_of(const struct live_request *request, int32_t rank) {
    for (size_t i = 0; i < request->stub_count; i++)
        if (request->stubs[i].rank == rank)
            return &request->stubs[i];
    return NULL;
}

static void add_stub(struct live_rows *rows, const struct dump_stub *stub) {
    struct live_row *row = &rows->items[rows->count++];
    *row = new_row(stub->rank, LIVE_NOT_REACHABLE);
    snprintf(row->host, sizeof row->host, "%s", stub->host);
    row->pid = stub->pid;
}

/* Ranks without a dump here: on another host, as their stubs say, or nobody knows where. */
static void add_missing(struct live_rows *rows, const struct live_request *request) {
    for (size_t i = 0; i < request->stub_count; i++)
        add_stub(rows, &request->stubs[i]);
    for (size_t i = 0; i < request->job->missing_count; i++) {
        int32_t rank = request->job->missing[i];
        if (stub_of(request, rank))
            continue;
        if (rows->missing++ < LIVE_MISSING_MOST)
            rows->items[rows->count++] = new_row(rank, LIVE_NO_DUMP);
    }
}

static int compare_rows(const void *a, const void *b) {
    const struct live_row *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    return left->pid < right->pid ? -1 : left->pid > right->pid;
}

static int compare_rank(const void *key, const void *row) {
    int32_t rank = *(const int32_t *)key, other = ((const struct live_row *)row)->rank;
    return rank < other ? -1 : rank > other;
}

static void count_waiters(struct live_rows *rows) {
    for (size_t i = 0; i < rows->count; i++)
        for (size_t t = 0; t < rows->items[i].waits_for_count; t++) {
            struct live_row *target =
                bsearch(&rows->items[i].waits_for[t], rows->items, rows->count, sizeof *rows->items, compare_rank);
            if (target && target != &rows->items[i])
                target->waited_by++;
        }
}

bool live_rows_make(struct live_rows *rows, const struct live_request *request) {
    const struct job *job = request->job;
    size_t missing = job->missing_count < LIVE_MISSING_MOST ? job->missing_count : LIVE_MISSING_MOST;
    *rows = (struct live_rows){.items = calloc(job->count + request->stub_count + missing + 1, sizeof *rows->items)};
    if (!rows->items)
        return false;
    for (size_t d = 0; d < job->count; d++) {
        const struct dump *dump = job->dumps[d];
        const struct live_counters *now = &request->now->items[d];
        struct live_row *row = &rows->items[rows->count++];
        *row = new_row(dump->header->rank, LIVE_COMPUTING);
        snprintf(row->host, sizeof row->host, "%s", dump->host);
        row->pid = dump->header->pid;
        set_doing(row, request->waits, (uint32_t)d, now);
        if (now->interval_ns > 0 && !now->untold && live_state_is_alive(row->state)) {
            row->calls_per_s = now->calls_per_s;
            row->bytes_per_s = now->bytes_per_s;
            row->wait_share = now->wait_share;
        }
    }
    find_all_behind(request, rows->items);
    add_missing(rows, request);
    qsort(rows->items, rows->count, sizeof *rows->items, compare_rows);
    count_waiters(rows);
    return true;
}

void live_rows_free(struct live_rows *rows) {
    free(rows->items);
    *rows = (struct live_rows){0};
}
