/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/job/coverage.h"

struct coverage coverage_of(const struct job *job, int64_t start_ns, int64_t from_ns, int64_t to_ns) {
    uint64_t in_rings = 0;
    for (size_t d = 0; d < job->process_count; d++)
        for (uint32_t lane = 0; lane < job->processes[d]->lane_count; lane++)
            in_rings += job->processes[d]->lanes[lane].end_ticket - job->processes[d]->lanes[lane].first_ticket;
    uint64_t lost = job->events_lost < job->events ? job->events_lost : job->events;
    struct coverage coverage = {.events = job->events,
                                .events_seen = job->events - lost,
                                .known = from_ns <= to_ns && start_ns <= to_ns,
                                .ranks_seen = job->process_count,
                                .ranks_expected = job->ranks_expected};
    if (lost > 0)
        coverage.kept = coverage.events_seen > in_rings ? KEPT_SAMPLES : KEPT_LAST;
    if (coverage.known) {
        coverage.from_ns = add_ns(from_ns, -start_ns);
        coverage.to_ns = add_ns(to_ns, -start_ns);
    }
    return coverage;
}

double coverage_share(const struct coverage *coverage) {
    return coverage->events > 0 ? (double)coverage->events_seen / (double)coverage->events : 1;
}

const char *evidence_name(enum evidence evidence) {
    static const char *const names[] = {[EVIDENCE_EVENTS] = "events",
                                        [EVIDENCE_TOTALS] = "totals",
                                        [EVIDENCE_STATE] = "state",
                                        [EVIDENCE_FILES] = "files"};
    return names[evidence];
}

const char *kept_name(enum events_kept kept) {
    static const char *const names[] = {
        [KEPT_ALL] = "all", [KEPT_LAST] = "rings", [KEPT_SAMPLES] = "rings and windows"};
    return names[kept];
}
