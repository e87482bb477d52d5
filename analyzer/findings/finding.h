/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of findings: sentences about the job, each with its severity, its name and what it rests on.
 * Lives here: the names of all findings, and adding to the list. Must not live here: when something is worth saying.
 *
 * Texts hold names that come from the job (hosts, communicators): printers escape them.
 */
#ifndef COMMTAP_FINDINGS_FINDING_H
#define COMMTAP_FINDINGS_FINDING_H

#include "analyzer/job/coverage.h"

enum severity { SEVERITY_INFO = 0, SEVERITY_WARNING, SEVERITY_ERROR };

/* What is found. Each has one severity and one name, which --fail-on takes (findings.c). */
enum finding_code {
    FINDING_STRAGGLER,
    FINDING_SUSPECT,
    FINDING_UNEVEN,
    FINDING_TOGETHER,
    FINDING_HIDDEN,
    FINDING_LATE_FINALIZE,
    FINDING_ROTATING,
    FINDING_ONCE_AWAY,
    FINDING_FEW_PAUSES,
    FINDING_SLOW_LINK,
    FINDING_SLOW_GROUP,
    FINDING_TOO_SHORT,
    FINDING_NOTHING_ALIKE,
    FINDING_NO_COLLECTIVES,
    FINDING_DESYNC,
    FINDING_REFUSED,
    FINDING_HANG,
    FINDING_MAYBE_HANG,
    FINDING_DEADLOCK,
    FINDING_DEAD_RANK,
    FINDING_MISSING_RANKS,
    FINDING_UNCOLLECTED,
    FINDING_UNUSABLE_FILES,
    FINDING_DAMAGED_FILES,
    FINDING_DUPLICATES,
    FINDING_SEVERAL_RUNS,
    FINDING_SEVERAL_LAUNCHES,
    FINDING_SEVERAL_GENERATIONS,
    FINDING_GENERATION_BEFORE,
    FINDING_SEVERAL_WORLDS,
    FINDING_SWITCHED_OFF,
    FINDING_KEPT_IN_MEMORY,
    FINDING_RECORDS_NOT_KEPT,
    FINDING_FILTERED,
    FINDING_REGION,
    FINDING_PAUSED,
    FINDING_LEFT_OUT,
    FINDING_OVER_BUDGET,
    FINDING_PMPI_CALLS,
    FINDING_NO_CALLS,
    FINDING_OVERSUBSCRIBED,
    FINDING_TOTALS_INCOMPLETE,
    FINDING_EVENTS_LOST,
    FINDING_UNMATCHED,
    FINDING_CLOCKS,
    FINDING_UNSEEN_CALLS,
    FINDING_GPU_UNTIMED,
    FINDING_REPLAYS_UNTIMED,
    FINDING_HOST_BOUND,
    FINDING_EXPOSED,
    FINDING_DEVICE_MEMORY,
    FINDING_STEP_INTERVAL,
    FINDING_STEP_COMMUNICATION,
    FINDING_STEP_RECEIVE,
    FINDING_STEP_COLLECTIVE,
    FINDING_LINK_BANDWIDTH,
    FINDING_GIVEN_UP,
    FINDING_NCCL_ERROR,
    FINDING_ABORTED,
    FINDING_HANG_INIT,
    FINDING_KILLED,
    FINDING_NO_FINALIZE,
    FINDING_RUNNING,
};

struct finding {
    enum severity severity;
    const char *code; /* its name: "straggler", "killed", "desync" ... */
    char *text;       /* one or two sentences without a final newline */
    enum evidence evidence;
};

struct findings {
    struct finding *items;
    size_t count;
    struct coverage coverage; /* of those that rest on events; set before the first of them */
    bool no_memory;           /* some could not be added */
};

/* Adds one finding; its text is formatted as by printf. Where memory is short, no_memory is set. */
__attribute__((format(printf, 3, 4))) void findings_add(struct findings *findings, enum finding_code code,
                                                        const char *format, ...);
/* Says something before everything else: of how the processes stand. */
void findings_put_first(struct findings *findings, enum finding_code code, const char *text);
/* Adds a sentence to those of that name. */
void findings_extend(struct findings *findings, enum finding_code code, const char *sentence);
/* Takes all findings of that name back. */
void findings_drop(struct findings *findings, enum finding_code code);
/* Sorts by severity, errors first, keeping the order within one. */
/* Nobody, in the sentence that says so of slow ranks: it stands below what was said of a rank's few pauses. */
const char *findings_nobody(const struct findings *findings);
void findings_sort(struct findings *findings);
void findings_free(struct findings *findings);

const char *severity_name(enum severity severity);
/* Whether a finding is called that. */
bool finding_code_known(const char *name);
/* The names of all findings, for help: one after the other, NULL behind the last. */
const char *finding_code_at(size_t index);

#endif
