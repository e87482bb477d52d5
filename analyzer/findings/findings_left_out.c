/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/findings_left_out.h"

#include <inttypes.h>
#include <string.h>

#include "analyzer/findings/words.h"
#include "analyzer/job/own_cost.h"
#include "analyzer/load/rows.h"

static void add_filter(struct findings *findings, const struct job *job) {
    const struct dump *first = NULL;
    size_t filtered = 0;
    for (size_t d = 0; d < job->process_count; d++) {
        bool has = job->processes[d]->operations[0];
        first = has && !first ? job->processes[d] : first;
        filtered += has;
    }
    if (filtered > 0)
        findings_add(findings, FINDING_FILTERED,
                     "%zu rank%s recorded only the functions of COMMTAP_OPS=%.200s: all others are in no total, and "
                     "time spent in them counts as the rank's own work.",
                     filtered, filtered > 1 ? "s" : "", first->operations);
}

static void add_region(struct findings *findings, const struct job *job) {
    const struct dump *first = NULL;
    size_t ranks = 0;
    for (size_t d = 0; d < job->process_count; d++) {
        bool has = job->processes[d]->region[0];
        first = has && !first ? job->processes[d] : first;
        ranks += has;
    }
    if (ranks > 0)
        findings_add(
            findings, FINDING_REGION,
            "%zu rank%s recorded only inside the regions of COMMTAP_REGION=%.128s: what was called outside is in "
            "no total, and time spent there counts as the rank's own work.",
            ranks, ranks > 1 ? "s" : "", first->region);
}

static void add_pauses(struct findings *findings, const struct job *job) {
    uint64_t pauses = 0;
    size_t ranks = 0;
    bool imported = false;
    for (size_t d = 0; d < job->process_count; d++) {
        pauses += job->processes[d]->pauses;
        ranks += job->processes[d]->pauses > 0;
        imported |= job->processes[d]->header->pid == 0;
    }
    if (pauses > 0 && imported)
        findings_add(findings, FINDING_PAUSED,
                     "The profiler recorded cycles, and nothing between them, %" PRIu64
                     " time%s on %zu rank%s: what was "
                     "called there is in no total.",
                     pauses, pauses > 1 ? "s" : "", ranks, ranks > 1 ? "s" : "");
    else if (pauses > 0)
        findings_add(findings, FINDING_PAUSED,
                     "MPI_Pcontrol(0) paused recording %" PRIu64 " time%s on %zu rank%s: what was called until "
                     "MPI_Pcontrol(1) is in no total.",
                     pauses, pauses > 1 ? "s" : "", ranks, ranks > 1 ? "s" : "");
}

/* By `commtap ctl`, from outside of the program. */
static void add_ordered_pauses(struct findings *findings, const struct job *job) {
    uint64_t most = 0;
    size_t ranks = 0, still = 0;
    for (size_t d = 0; d < job->process_count; d++) {
        const struct order_answer *answer = &job->processes[d]->order_answer;
        most = answer->pauses > most ? answer->pauses : most;
        ranks += answer->pauses > 0;
        still += answer->paused_since > 0;
    }
    if (most == 0)
        return;
    findings_add(findings, FINDING_PAUSED,
                 "commtap ctl paused recording on %zu rank%s, %s%" PRIu64
                 " time%s%s: what was called meanwhile is in no "
                 "total.",
                 ranks, ranks > 1 ? "s" : "", ranks > 1 && most > 1 ? "up to " : "", most, most > 1 ? "s" : "",
                 ranks > 1 ? " each" : "");
    if (still > 0)
        findings_add(findings, FINDING_PAUSED,
                     "Recording is still paused by commtap ctl on %zu rank%s, or was when the dump ended.", still,
                     still > 1 ? "s" : "");
}

static void add_ordered_filter(struct findings *findings, const struct job *job) {
    const struct dump *first = NULL;
    size_t ranks = 0;
    for (size_t d = 0; d < job->process_count; d++) {
        const struct dump *dump = job->processes[d];
        bool has = dump->order_answer.filters > 0;
        first = has && !first ? dump : first;
        ranks += has;
    }
    if (ranks > 0)
        findings_add(findings, FINDING_FILTERED,
                     "commtap ctl changed on %zu rank%s what is recorded, last to the functions %.200s: of others the "
                     "totals hold a part or nothing, and time spent in them counts as the rank's own work meanwhile.",
                     ranks, ranks > 1 ? "s" : "", first->ordered_operations);
}

static void add_left_out(struct findings *findings, const struct own_cost_sums *sums) {
    static const struct {
        const char *what, *meaning;
    } steps[SHED_STEPS] = {
        [SHED_GPU_TIMING] = {"GPU timing", "GPU operations have no times"},
        [SHED_STACKS] = {"stacks", "calls have no call site"},
        [SHED_RECORDS] = {"records", "calls are in totals alone"},
    };
    char text[256] = "";
    for (int step = 0; step < SHED_STEPS; step++)
        if (sums->shed[step].ranks > 0)
            phrase(text, sizeof text, "%s%s on %zu rank%s (%s)", text[0] ? ", " : "", steps[step].what,
                   sums->shed[step].ranks, sums->shed[step].ranks > 1 ? "s" : "", steps[step].meaning);
    if (text[0])
        findings_add(findings, FINDING_LEFT_OUT,
                     "to stay within COMMTAP_BUDGET, %g %% of the time, some of the recording was left out at times: "
                     "%s. Totals hold every call.",
                     100 * sums->budget, text);
}

static void add_over_budget(struct findings *findings, const struct own_cost_sums *sums) {
    if (sums->over == 0)
        return;
    char others[48] = "";
    if (sums->over > 1)
        phrase(others, sizeof others, ", and more than was set on %zu other rank%s", sums->over - 1,
               sums->over > 2 ? "s" : "");
    findings_add(findings, FINDING_OVER_BUDGET,
                 "commtap took %.2g %% of the time of %s%s, where COMMTAP_BUDGET allows %g %%: counting every call "
                 "takes that much where calls are so many, or the run was too short to make up for its beginning.",
                 100 * sums->over_share, rank_text(sums->over_rank).text, others, 100 * sums->over_budget);
}

static void add_budget(struct findings *findings, const struct job *job) {
    struct own_cost_sums sums = own_cost_sum(job);
    add_left_out(findings, &sums);
    add_over_budget(findings, &sums);
}

/* The program's own MPI_X calls PMPI_X, which is where the library does not stand. */
static void add_unseen(struct findings *findings, const struct job *job) {
    const struct dump *first = NULL;
    uint64_t calls = 0;
    size_t ranks = 0;
    for (size_t d = 0; d < job->process_count; d++) {
        const struct dump *dump = job->processes[d];
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

/* Calls by which a process begins and ends, whatever it does in between. */
static bool is_frame(const struct call_name *call) {
    static const char *const starts[] = {"MPI_Init", "MPI_Finalize", "MPI_Session_", "ncclGetUniqueId", "ncclComm"};
    for (size_t i = 0; call && i < sizeof starts / sizeof *starts; i++)
        if (strncmp(call->name, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* Counts the rows of calls, and those of them that frame the others. */
static void count_calls(const struct dump *dump, size_t *rows, size_t *frames) {
    for (uint32_t l = 0; l < dump->lane_count; l++)
        for (uint32_t i = 0; i < dump->lanes[l].operation_count; i++) {
            struct operation_row row;
            enum row_state state = operation_row_read(dump, &dump->lanes[l].operations[i], &row);
            bool is_call = state == ROW_STABLE || state == ROW_TORN;
            *rows += is_call;
            *frames += is_call && is_frame(dump_call(dump, row.call));
        }
}

/* It did not communicate, or by functions that the library did not come in front of. */
static void add_no_calls(struct findings *findings, const struct job *job) {
    size_t rows = 0, frames = 0;
    for (size_t d = 0; d < job->count; d++) {
        count_calls(job->dumps[d], &rows, &frames);
        if (job->dumps[d]->operations[0] || job->dumps[d]->region[0] || job->dumps[d]->unseen_calls > 0 ||
            job->dumps[d]->order_answer.pauses > 0 || job->dumps[d]->order_answer.filters > 0)
            return; /* that is why, and is said */
    }
    if (rows == 0 || frames < rows)
        return;
    findings_drop(findings, FINDING_NO_COLLECTIVES);
    findings_add(findings, FINDING_NO_CALLS,
                 "no rank made a call that commtap saw between its beginning and its end: commtap doctor COMMAND, with "
                 "the job's command, says what would be seen of it here and what not.");
}

void findings_add_left_out(struct findings *findings, const struct job *job) {
    add_no_calls(findings, job);
    add_filter(findings, job);
    add_ordered_filter(findings, job);
    add_region(findings, job);
    add_pauses(findings, job);
    add_ordered_pauses(findings, job);
    add_budget(findings, job);
    add_unseen(findings, job);
}
