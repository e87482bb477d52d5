/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/findings_left_out.h"

#include <inttypes.h>

static void add_filter(struct findings *findings, const struct job *job) {
    const struct dump *first = NULL;
    size_t filtered = 0;
    for (size_t d = 0; d < job->count; d++) {
        bool has = job->dumps[d]->operations[0];
        first = has && !first ? job->dumps[d] : first;
        filtered += has;
    }
    if (filtered > 0)
        findings_add(findings, FINDING_FILTERED,
                     "%zu rank%s recorded only the functions of COMMTAP_OPS=%.200s: all others are in no total, and "
                     "time spent in them counts as the rank's own work.",
                     filtered, filtered > 1 ? "s" : "", first->operations);
}

static void add_pauses(struct findings *findings, const struct job *job) {
    uint64_t pauses = 0;
    size_t ranks = 0;
    for (size_t d = 0; d < job->count; d++) {
        pauses += job->dumps[d]->pauses;
        ranks += job->dumps[d]->pauses > 0;
    }
    if (pauses > 0)
        findings_add(findings, FINDING_PAUSED,
                     "MPI_Pcontrol(0) paused recording %" PRIu64 " time%s on %zu rank%s: what was called until "
                     "MPI_Pcontrol(1) is in no total.",
                     pauses, pauses > 1 ? "s" : "", ranks, ranks > 1 ? "s" : "");
}

/* The program's own MPI_X calls PMPI_X, which is where the library does not stand. */
static void add_unseen(struct findings *findings, const struct job *job) {
    const struct dump *first = NULL;
    uint64_t calls = 0;
    size_t ranks = 0;
    for (size_t d = 0; d < job->count; d++) {
        const struct dump *dump = job->dumps[d];
        if (dump->unseen_calls == 0)
            continue;
        calls += dump->unseen_calls;
        ranks++;
        first = first ? first : dump;
    }
    if (!first)
        return;
    uint32_t id = first->unseen_call;
    const struct call_name *call = id <= UINT16_MAX ? dump_call(first, (uint16_t)id) : NULL;
    const char *name = call ? call->name : "MPI_X";
    findings_add(findings, FINDING_PMPI_CALLS,
                 "%" PRIu64 " calls of %zu rank%s went past commtap, straight to PMPI functions (the first to P%.40s): "
                 "the program, or a tool in it, has an %.40s of its own. They are in no total and no wait, and time "
                 "spent in them counts as the rank's own work.",
                 calls, ranks, ranks > 1 ? "s" : "", name, name);
}

void findings_add_left_out(struct findings *findings, const struct job *job) {
    add_filter(findings, job);
    add_pauses(findings, job);
    add_unseen(findings, job);
}
