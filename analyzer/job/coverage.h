/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of the run something was judged on.
 * Lives here: how much of a job's events is there, of which time; what kinds of evidence there are.
 * Must not live here: sentences about findings, printing.
 */
#ifndef COMMTAP_JOB_COVERAGE_H
#define COMMTAP_JOB_COVERAGE_H

#include "analyzer/job/job.h"

/* What a finding rests on. */
enum evidence {
    EVIDENCE_EVENTS, /* single events: what rings and sampled windows hold of them */
    EVIDENCE_TOTALS, /* the dumps' tables, which hold every call */
    EVIDENCE_STATE,  /* where every process was when last seen */
    EVIDENCE_FILES,  /* the directory */
};

/* How events were kept. */
enum events_kept {
    KEPT_ALL,
    KEPT_LAST,    /* rings: the last of every thread */
    KEPT_SAMPLES, /* and sampled windows of what was before */
};

struct coverage {
    enum events_kept kept;
    uint64_t events, events_seen; /* ever recorded; of these, there to be looked at */
    bool known;                   /* whether the time of the events is */
    int64_t from_ns, to_ns;       /* first and last event looked at, since the job's start */
    size_t ranks_seen;
    int32_t ranks_expected; /* 0 = unknown */
};

/* `from_ns` > `to_ns`: nothing was looked at; `start_ns` behind both: the job's start is not known. All three on the
 * common clock. */
struct coverage coverage_of(const struct job *job, int64_t start_ns, int64_t from_ns, int64_t to_ns);

/* Share of the events that are there, 1 where none was ever recorded. */
double coverage_share(const struct coverage *coverage);

const char *evidence_name(enum evidence evidence); /* "events", "totals", "state", "files" */
const char *kept_name(enum events_kept kept);      /* "all", "rings", "rings and windows" */

#endif
