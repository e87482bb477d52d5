/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/findings/words.h"

enum { LONGEST = 1024 }; /* of a finding without its note on coverage */

const char *severity_name(enum severity severity) {
    static const char *const names[] = {"info", "warning", "error"};
    return names[severity];
}

static const struct {
    enum severity severity;
    enum evidence evidence;
    const char *name;
} codes[] = {
    [FINDING_STRAGGLER] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "straggler"},
    [FINDING_SUSPECT] = {SEVERITY_INFO, EVIDENCE_EVENTS, "suspect"},
    [FINDING_UNEVEN] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "uneven"},
    [FINDING_TOGETHER] = {SEVERITY_INFO, EVIDENCE_EVENTS, "together"},
    [FINDING_HIDDEN] = {SEVERITY_INFO, EVIDENCE_EVENTS, "hidden"},
    [FINDING_LATE_FINALIZE] = {SEVERITY_INFO, EVIDENCE_STATE, "late_finalize"},
    [FINDING_ROTATING] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "rotating"},
    [FINDING_ONCE_AWAY] = {SEVERITY_INFO, EVIDENCE_EVENTS, "once_away"},
    [FINDING_FEW_PAUSES] = {SEVERITY_INFO, EVIDENCE_EVENTS, "few_pauses"},
    [FINDING_SLOW_LINK] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "slow_link"},
    [FINDING_SLOW_GROUP] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "slow_group"},
    [FINDING_TOO_SHORT] = {SEVERITY_INFO, EVIDENCE_EVENTS, "too_short"},
    [FINDING_NOTHING_ALIKE] = {SEVERITY_INFO, EVIDENCE_EVENTS, "nothing_alike"},
    [FINDING_NO_COLLECTIVES] = {SEVERITY_INFO, EVIDENCE_EVENTS, "no_collectives"},
    [FINDING_DESYNC] = {SEVERITY_ERROR, EVIDENCE_EVENTS, "desync"},
    [FINDING_REFUSED] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "refused"},
    [FINDING_HANG] = {SEVERITY_ERROR, EVIDENCE_STATE, "hang"},
    [FINDING_MAYBE_HANG] = {SEVERITY_WARNING, EVIDENCE_STATE, "maybe_hang"},
    [FINDING_DEADLOCK] = {SEVERITY_ERROR, EVIDENCE_STATE, "deadlock"},
    [FINDING_DEAD_RANK] = {SEVERITY_ERROR, EVIDENCE_STATE, "dead_rank"},
    [FINDING_MISSING_RANKS] = {SEVERITY_WARNING, EVIDENCE_FILES, "missing_ranks"},
    [FINDING_UNCOLLECTED] = {SEVERITY_WARNING, EVIDENCE_FILES, "uncollected"},
    [FINDING_UNUSABLE_FILES] = {SEVERITY_WARNING, EVIDENCE_FILES, "unusable_files"},
    [FINDING_DAMAGED_FILES] = {SEVERITY_INFO, EVIDENCE_FILES, "damaged_files"},
    [FINDING_DUPLICATES] = {SEVERITY_WARNING, EVIDENCE_FILES, "duplicates"},
    [FINDING_SEVERAL_RUNS] = {SEVERITY_INFO, EVIDENCE_FILES, "several_runs"},
    [FINDING_SEVERAL_LAUNCHES] = {SEVERITY_INFO, EVIDENCE_FILES, "several_launches"},
    [FINDING_SEVERAL_GENERATIONS] = {SEVERITY_INFO, EVIDENCE_FILES, "several_generations"},
    [FINDING_GENERATION_BEFORE] = {SEVERITY_INFO, EVIDENCE_FILES, "generation_before"},
    [FINDING_SEVERAL_WORLDS] = {SEVERITY_INFO, EVIDENCE_FILES, "several_worlds"},
    [FINDING_SWITCHED_OFF] = {SEVERITY_WARNING, EVIDENCE_STATE, "switched_off"},
    [FINDING_KEPT_IN_MEMORY] = {SEVERITY_INFO, EVIDENCE_STATE, "kept_in_memory"},
    [FINDING_RECORDS_NOT_KEPT] = {SEVERITY_INFO, EVIDENCE_STATE, "records_not_kept"},
    [FINDING_FILTERED] = {SEVERITY_INFO, EVIDENCE_TOTALS, "filtered"},
    [FINDING_REGION] = {SEVERITY_INFO, EVIDENCE_TOTALS, "region"},
    [FINDING_PAUSED] = {SEVERITY_INFO, EVIDENCE_TOTALS, "paused"},
    [FINDING_LEFT_OUT] = {SEVERITY_INFO, EVIDENCE_TOTALS, "left_out"},
    [FINDING_OVER_BUDGET] = {SEVERITY_WARNING, EVIDENCE_TOTALS, "over_budget"},
    [FINDING_PMPI_CALLS] = {SEVERITY_WARNING, EVIDENCE_TOTALS, "pmpi_calls"},
    [FINDING_NO_CALLS] = {SEVERITY_WARNING, EVIDENCE_TOTALS, "no_calls"},
    [FINDING_OVERSUBSCRIBED] = {SEVERITY_INFO, EVIDENCE_STATE, "oversubscribed"},
    [FINDING_TOTALS_INCOMPLETE] = {SEVERITY_WARNING, EVIDENCE_TOTALS, "totals_incomplete"},
    [FINDING_EVENTS_LOST] = {SEVERITY_INFO, EVIDENCE_TOTALS, "events_lost"},
    [FINDING_UNMATCHED] = {SEVERITY_INFO, EVIDENCE_EVENTS, "unmatched"},
    [FINDING_CLOCKS] = {SEVERITY_INFO, EVIDENCE_EVENTS, "clocks"},
    [FINDING_UNSEEN_CALLS] = {SEVERITY_WARNING, EVIDENCE_TOTALS, "unseen_calls"},
    [FINDING_GPU_UNTIMED] = {SEVERITY_INFO, EVIDENCE_TOTALS, "gpu_untimed"},
    [FINDING_REPLAYS_UNTIMED] = {SEVERITY_INFO, EVIDENCE_TOTALS, "replays_untimed"},
    [FINDING_HOST_BOUND] = {SEVERITY_INFO, EVIDENCE_EVENTS, "host_bound"},
    [FINDING_EXPOSED] = {SEVERITY_INFO, EVIDENCE_EVENTS, "exposed"},
    [FINDING_DEVICE_MEMORY] = {SEVERITY_INFO, EVIDENCE_TOTALS, "device_memory"},
    [FINDING_STEP_INTERVAL] = {SEVERITY_INFO, EVIDENCE_EVENTS, "step_interval"},
    [FINDING_STEP_COMMUNICATION] = {SEVERITY_INFO, EVIDENCE_EVENTS, "step_communication"},
    [FINDING_STEP_RECEIVE] = {SEVERITY_INFO, EVIDENCE_EVENTS, "step_receive"},
    [FINDING_STEP_COLLECTIVE] = {SEVERITY_INFO, EVIDENCE_EVENTS, "step_collective"},
    [FINDING_LINK_BANDWIDTH] = {SEVERITY_INFO, EVIDENCE_EVENTS, "link_bandwidth"},
    [FINDING_GIVEN_UP] = {SEVERITY_ERROR, EVIDENCE_STATE, "given_up"},
    [FINDING_NCCL_ERROR] = {SEVERITY_WARNING, EVIDENCE_TOTALS, "nccl_error"},
    [FINDING_ABORTED] = {SEVERITY_ERROR, EVIDENCE_STATE, "aborted"},
    [FINDING_HANG_INIT] = {SEVERITY_ERROR, EVIDENCE_STATE, "hang_init"},
    [FINDING_KILLED] = {SEVERITY_ERROR, EVIDENCE_STATE, "killed"},
    [FINDING_NO_FINALIZE] = {SEVERITY_WARNING, EVIDENCE_STATE, "no_finalize"},
    [FINDING_RUNNING] = {SEVERITY_INFO, EVIDENCE_STATE, "running"},
};

bool finding_code_known(const char *name) {
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(name, codes[i].name) == 0)
            return true;
    return false;
}

const char *finding_code_at(size_t index) {
    return index < sizeof codes / sizeof codes[0] ? codes[index].name : NULL;
}

static void add(struct findings *findings, enum finding_code code, enum evidence evidence, const char *text) {
    char *copy = strdup(text);
    if (!copy || !grow_list(findings->items, findings->count)) {
        free(copy);
        findings->no_memory = true;
        return;
    }
    findings->items[findings->count++] = (struct finding){codes[code].severity, codes[code].name, copy, evidence};
}

void findings_add(struct findings *findings, enum finding_code code, const char *format, ...) {
    char text[LONGEST + COVERAGE_TEXT] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text - COVERAGE_TEXT, format, arguments);
    va_end(arguments);
    coverage_say(text + strlen(text), COVERAGE_TEXT, &findings->coverage, codes[code].evidence);
    add(findings, code, codes[code].evidence, text);
}

void findings_put_first(struct findings *findings, enum finding_code code, const char *text) {
    size_t before = findings->count;
    add(findings, code, EVIDENCE_STATE, text);
    if (findings->count == before)
        return;
    struct finding first = findings->items[before];
    memmove(findings->items + 1, findings->items, before * sizeof *findings->items);
    findings->items[0] = first;
}

void findings_extend(struct findings *findings, enum finding_code code, const char *sentence) {
    for (size_t i = 0; i < findings->count; i++) {
        char *text;
        if (findings->items[i].code != codes[code].name)
            continue;
        if (asprintf(&text, "%s %s", findings->items[i].text, sentence) < 0) {
            findings->no_memory = true;
            return;
        }
        free(findings->items[i].text);
        findings->items[i].text = text;
    }
}

void findings_drop(struct findings *findings, enum finding_code code) {
    size_t kept = 0;
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].code == codes[code].name)
            free(findings->items[i].text);
        else
            findings->items[kept++] = findings->items[i];
    findings->count = kept;
}

void findings_free(struct findings *findings) {
    for (size_t i = 0; i < findings->count; i++)
        free(findings->items[i].text);
    free(findings->items);
    *findings = (struct findings){0};
}

static int compare_findings(const void *a, const void *b) {
    const struct finding *left = a, *right = b;
    return (int)right->severity - (int)left->severity;
}

const char *findings_nobody(const struct findings *findings) {
    for (size_t i = 0; i < findings->count; i++)
        for (int code = FINDING_ONCE_AWAY; code <= FINDING_FEW_PAUSES; code++)
            if (strcmp(findings->items[i].code, codes[code].name) == 0)
                return "but for that, nobody";
    return "nobody";
}

void findings_sort(struct findings *findings) {
    for (size_t i = 1; i < findings->count; i++) {
        struct finding moving = findings->items[i];
        size_t at = i;
        for (; at > 0 && compare_findings(&findings->items[at - 1], &moving) > 0; at--)
            findings->items[at] = findings->items[at - 1];
        findings->items[at] = moving;
    }
}
