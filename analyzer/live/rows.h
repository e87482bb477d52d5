/* SPDX-License-Identifier: Apache-2.0
 *
 * What every rank of a job does now, and how much it did between two readings.
 * Lives here: rates, shares, who is waited for, who is behind.
 * Must not live here: reading dumps (sample.h), what is shown of it.
 */
#ifndef COMMTAP_LIVE_ROWS_H
#define COMMTAP_LIVE_ROWS_H

#include "analyzer/diagnose/diagnose.h"
#include "analyzer/live/sample.h"

enum live_state {
    LIVE_COMPUTING = 0, /* outside of communication calls */
    LIVE_WAITING,       /* in a call that ends when others do something */
    LIVE_POLLING,       /* in Test or Iprobe */
    LIVE_IN_CALL,       /* in a call that waits for nobody */
    LIVE_STARTING,      /* MPI_Init has not returned */
    LIVE_FINALIZING,
    LIVE_FINISHED,
    LIVE_STOPPED,       /* the process is, by a signal */
    LIVE_ABORTED,       /* it called MPI_Abort */
    LIVE_EXITED,        /* without MPI_Finalize */
    LIVE_GONE,          /* there is no such process any more */
    LIVE_NO_DUMP,       /* it left none here */
    LIVE_NOT_REACHABLE, /* its dump lies on another host */
};

enum { LIVE_TARGETS_MOST = 64, LIVE_MISSING_MOST = 1024 };

/* A rank. Negative times and numbers are not known. */
struct live_row {
    int32_t rank;
    enum live_state state;
    char host[65];
    int64_t pid;
    char call[48];      /* the one it is in; empty: none */
    uint64_t comm;      /* of that, where has_comm */
    char comm_name[64]; /* "" when unnamed */
    bool has_comm;
    int64_t since_ns; /* in it, or outside of calls */
    double calls_per_s, bytes_per_s, wait_share;
    int32_t waits_for[LIVE_TARGETS_MOST]; /* ascending */
    size_t waits_for_count;
    int64_t waited_by; /* ranks that wait for it */
    int64_t behind;    /* collectives that another member has entered and this rank has not, at least */
    uint64_t behind_comm;
    char behind_comm_name[64];
};

struct live_rows {
    struct live_row *items;
    size_t count;
    size_t missing; /* ranks that left no dump here; rows are made of LIVE_MISSING_MOST at most */
};

struct live_request {
    const struct job *job;
    const struct diagnosis *waits; /* of diagnose_waits */
    const struct live_sample *now;
    const struct live_head *heads; /* read before `now`; NULL: nobody is behind */
    const struct dump_stub *stubs; /* of the job's run: dumps on other hosts */
    size_t stub_count;
};

/* Makes a row per rank, by rank. Returns false when memory is short; the caller frees with live_rows_free in every
 * case. */
bool live_rows_make(struct live_rows *rows, const struct live_request *request);
void live_rows_free(struct live_rows *rows);

const char *live_state_name(enum live_state state);
/* Whether the process is there, as far as is known. */
bool live_state_is_alive(enum live_state state);

#endif
