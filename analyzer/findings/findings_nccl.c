/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/findings_nccl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/statistics.h"
#include "analyzer/findings/words.h"
#include "analyzer/load/rows.h"

enum { LIST = 160, NAMES_MAX = 16 };

/* Calls `each` for every row of every dump that holds calls of NCCL. */
static void walk_rows(const struct job *job,
                      void (*each)(void *state, size_t d, const struct call_name *call, const struct operation_row *),
                      void *state) {
    for (size_t d = 0; d < job->process_count; d++)
        for (uint32_t l = 0; l < job->processes[d]->lane_count; l++)
            for (uint32_t i = 0; i < job->processes[d]->lanes[l].operation_count; i++) {
                struct operation_row row;
                enum row_state read =
                    operation_row_read(job->processes[d], &job->processes[d]->lanes[l].operations[i], &row);
                const struct call_name *call =
                    read == ROW_STABLE || read == ROW_TORN ? dump_call(job->processes[d], row.call) : NULL;
                if (call && call->api == API_NCCL && row.count > 0)
                    each(state, d, call, &row);
            }
}

/* ---- errors ---------------------------------------------------------------------------------- */

struct errors {
    const char *names[NAMES_MAX]; /* functions that reported some */
    size_t count;
    const char *name; /* the one whose ranks are looked for */
    const struct job *job;
    int32_t *ranks;
    size_t rank_count;
    uint64_t failed;
};

static void find_name(void *state, size_t d, const struct call_name *call, const struct operation_row *row) {
    struct errors *errors = state;
    (void)d;
    if (row->failed == 0)
        return;
    for (size_t i = 0; i < errors->count; i++)
        if (strcmp(errors->names[i], call->name) == 0)
            return;
    if (errors->count < NAMES_MAX)
        errors->names[errors->count++] = call->name;
}

static void find_ranks(void *state, size_t d, const struct call_name *call, const struct operation_row *row) {
    struct errors *errors = state;
    if (row->failed == 0 || strcmp(call->name, errors->name) != 0)
        return;
    errors->failed += row->failed;
    int32_t rank = errors->job->processes[d]->header->rank;
    if (errors->rank_count == 0 || errors->ranks[errors->rank_count - 1] != rank)
        errors->ranks[errors->rank_count++] = rank;
}

static void add_error_findings(struct findings *findings, const struct job *job, int32_t *ranks) {
    struct errors errors = {.job = job, .ranks = ranks};
    walk_rows(job, find_name, &errors);
    qsort(errors.names, errors.count, sizeof *errors.names, compare_text);
    for (size_t i = 0; i < errors.count; i++) {
        char who[LIST];
        errors.name = errors.names[i];
        errors.rank_count = 0;
        errors.failed = 0;
        walk_rows(job, find_ranks, &errors);
        say_ranks(who, sizeof who, ranks, errors.rank_count);
        if (strcmp(errors.name, "ncclCommGetAsyncError") == 0)
            findings_add(findings, FINDING_NCCL_ERROR,
                         "NCCL reported an asynchronous error on %s: from then on their communicator is unusable.",
                         who);
        else
            findings_add(findings, FINDING_NCCL_ERROR, "%.64s returned an error %" PRIu64 " times, on %s.", errors.name,
                         errors.failed, who);
    }
}

/* ---- communicators given up ------------------------------------------------------------------ */

/* A member's communicator that was given up with work on it. */
struct given_up {
    uint64_t uid, completed;
    const struct dump_communicator *local;
    int32_t rank; /* of the process in the world */
};

struct all_given_up {
    const struct job *job;
    struct given_up *items;
    size_t count;
    bool no_memory;
};

static void find_given_up(void *state, size_t d, const struct call_name *call, const struct operation_row *row) {
    struct all_given_up *all = state;
    const struct dump *dump = all->job->processes[d];
    uint32_t index = row->comm_epoch & ROW_COMM_NONE;
    if ((strcmp(call->name, "ncclCommAbort") != 0 && strcmp(call->name, "ncclCommRevoke") != 0) ||
        index >= dump->communicator_count)
        return;
    const struct dump_communicator *local = &dump->communicators[index];
    if (!local->definition || !local->freed || local->freed_completed >= local->freed_enqueued)
        return;
    if (!grow_list(all->items, all->count)) {
        all->no_memory = true;
        return;
    }
    all->items[all->count++] =
        (struct given_up){local->definition->uid, local->freed_completed, local, dump->header->rank};
}

static int by_communicator(const void *a, const void *b) {
    const struct given_up *x = a, *y = b;
    if (x->uid != y->uid)
        return x->uid < y->uid ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Ranks of members of the communicator that never called collective number `seq`. */
static size_t never_called(const struct job *job, uint64_t uid, uint64_t seq, int32_t *ranks) {
    size_t count = 0;
    for (size_t d = 0; d < job->process_count; d++)
        for (uint32_t c = 0; c < job->processes[d]->communicator_count; c++) {
            const struct dump_communicator *local = &job->processes[d]->communicators[c];
            if (!local->definition || local->definition->uid != uid)
                continue;
            uint64_t came = local->freed      ? local->freed_enqueued
                            : local->progress ? local->progress->enqueued
                                              : UINT64_MAX; /* unknown */
            if (came <= seq) {
                ranks[count++] = job->processes[d]->header->rank;
                break;
            }
        }
    return count;
}

/* All members that gave up one communicator: items[0] .. items[count - 1]. */
static void say_given_up(struct findings *findings, const struct job *job, const struct given_up *items, size_t count,
                         int32_t *ranks) {
    char who[LIST], missing[LIST], late[LIST + 40] = "";
    uint64_t first = UINT64_MAX;
    size_t members = 0;
    for (size_t i = 0; i < count; i++) {
        first = items[i].completed < first ? items[i].completed : first;
        if (members == 0 || ranks[members - 1] != items[i].rank)
            ranks[members++] = items[i].rank;
    }
    say_ranks(who, sizeof who, ranks, members);
    size_t absent = never_called(job, items[0].uid, first, ranks);
    if (absent > 0) {
        qsort(ranks, absent, sizeof *ranks, compare_int32);
        say_ranks(missing, sizeof missing, ranks, absent);
        snprintf(late, sizeof late, ", which %s never called,", missing);
    }
    findings_add(findings, FINDING_GIVEN_UP,
                 "%s gave up communicator %016" PRIx64 " (ncclCommAbort or ncclCommRevoke) with work unfinished: its "
                 "collective #%" PRIu64 "%s did not end.",
                 who, items[0].uid, first, late);
}

static void add_given_up(struct findings *findings, const struct job *job, int32_t *ranks) {
    struct all_given_up all = {.job = job};
    walk_rows(job, find_given_up, &all);
    if (all.count > 0)
        qsort(all.items, all.count, sizeof *all.items, by_communicator);
    for (size_t from = 0, to; from < all.count; from = to) {
        for (to = from + 1; to < all.count && all.items[to].uid == all.items[from].uid; to++)
            ;
        say_given_up(findings, job, &all.items[from], to - from, ranks);
    }
    findings->no_memory |= all.no_memory;
    free(all.items);
}

void findings_add_nccl(struct findings *findings, const struct job *job) {
    int32_t *ranks = malloc((job->process_count + 1) * sizeof *ranks);
    if (!ranks) {
        findings->no_memory = true;
        return;
    }
    add_given_up(findings, job, ranks);
    add_error_findings(findings, job, ranks);
    free(ranks);
}
