/* SPDX-License-Identifier: Apache-2.0
 *
 * What a report says first: sentences about the job, worst first.
 * Lives here: turning the job's state and the straggler analysis into findings.
 * Must not live here: layout; any figure that was not computed before.
 *
 * Texts hold names that come from the job (hosts, communicators): printers escape them.
 */
#ifndef COMMTAP_FINDINGS_FINDINGS_H
#define COMMTAP_FINDINGS_FINDINGS_H

#include "analyzer/job/coverage.h"
#include "analyzer/stragglers/stragglers.h"

enum severity { SEVERITY_INFO = 0, SEVERITY_WARNING, SEVERITY_ERROR };

/* What is found. Each has one severity and one name, which --fail-on takes (findings.c). */
enum finding_code {
    FINDING_STRAGGLER,
    FINDING_SUSPECT,
    FINDING_UNEVEN,
    FINDING_ROTATING,
    FINDING_SLOW_LINK,
    FINDING_SLOW_GROUP,
    FINDING_TOO_SHORT,
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
    FINDING_SEVERAL_GENERATIONS,
    FINDING_SEVERAL_WORLDS,
    FINDING_SWITCHED_OFF,
    FINDING_KEPT_IN_MEMORY,
    FINDING_EVENTS_LOST,
    FINDING_UNMATCHED,
    FINDING_CLOCKS,
    FINDING_UNSEEN_CALLS,
    FINDING_GPU_UNTIMED,
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

/* Everything worth saying, errors first, each severity in a fixed order. `set` is the whole directory. Check no_memory
 * afterwards; the caller frees with findings_free. */
void findings_collect(struct findings *findings, const struct dump_set *set, const struct job *job,
                      const struct straggler_analysis *analysis);
/* Says something before everything else: of how the processes stand. */
void findings_put_first(struct findings *findings, enum finding_code code, const char *text);
void findings_free(struct findings *findings);

/* What is known against one straggler, in one phrase, cut to `size`. */
void findings_evidence(const struct straggler_analysis *analysis, const struct straggler *straggler, char *text,
                       size_t size);

/* Name of the call site at which the others waited for it longest, NULL where none is known. */
const char *findings_site(const struct straggler_analysis *analysis, const struct straggler *straggler);
/* The same of work before a call (what_if.h). */
const char *findings_what_if_site(const struct straggler_analysis *analysis, const struct what_if_site *site);

/* "rank 3", "ranks 0-2, 5", "ranks 0-4, 9, 11 and 20 more", cut to `size`; ranks ascend, an unknown rank is "?". */
void say_ranks(char *text, size_t size, const int32_t *ranks, size_t count);

/* "12.3 ms", "4.0 s". */
void say_seconds(char *text, size_t size, int64_t ns);

const char *severity_name(enum severity severity);
/* Whether a finding is called that. */
bool finding_code_known(const char *name);

#endif
