/* SPDX-License-Identifier: Apache-2.0
 *
 * What the calls cost: sums over all ranks, of the whole run from the dumps' operation tables, which hold every call,
 * exactly, of a part of it from the records that are still there.
 * Lives here: grouping, sums, percentiles, bandwidth.
 * Must not live here: anything that needs matched calls or clocks of several processes; printing.
 */
#ifndef COMMTAP_PROFILE_SUMMARY_H
#define COMMTAP_PROFILE_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/parallel_role.h"
#include "analyzer/dumps/set.h"
#include "analyzer/load/dump.h"
#include "analyzer/load/filter.h"
#include "analyzer/symbols/site_labels.h"

struct scope; /* profile/scope.h */

/* What entries are told apart by. Without SUMMARY_BY_OP an entry holds calls of several functions, and so on. */
enum summary_key {
    SUMMARY_BY_OP = 1u << 0, /* and by api and source */
    SUMMARY_BY_BYTES = 1u << 1,
    SUMMARY_BY_COMM = 1u << 2,
    SUMMARY_BY_RANK = 1u << 3,
    SUMMARY_BY_SITE = 1u << 4,   /* of the call; together with SUMMARY_BY_BYTES from records alone */
    SUMMARY_BY_EPOCH = 1u << 5,  /* from tables alone: records do not tell theirs */
    SUMMARY_BY_CALLER = 1u << 6, /* the function that a call site lies in: as SUMMARY_BY_SITE */
};
#define SUMMARY_BY_SITES   (SUMMARY_BY_SITE | SUMMARY_BY_CALLER) /* what needs labels */
#define EPOCH_SEVERAL      UINT32_MAX
#define SUMMARY_BY_DEFAULT (SUMMARY_BY_OP | SUMMARY_BY_BYTES | SUMMARY_BY_COMM)

enum percentiles { PERCENTILES_NONE = 0, PERCENTILES_EXACT, PERCENTILES_APPROXIMATE };

/* A time and how many calls took it. From a histogram it is the middle of a bucket. */
struct summary_sample {
    uint64_t ns;
    uint64_t count;
};

/* Times of calls. */
struct summary_times {
    uint64_t count;     /* calls that have one */
    uint64_t sums_only; /* of these, calls of whom only the sum is known: then least and longest are not, nor are
                           percentiles unless they are exact */
    uint64_t total_ns;
    uint64_t min_ns, max_ns; /* 0 when there are none */
    enum percentiles percentiles;
    uint64_t p50_ns, p95_ns, p99_ns; /* nearest rank; 0 when percentiles is PERCENTILES_NONE */
    /* ascending: every time when percentiles is PERCENTILES_EXACT, else histogram buckets */
    struct summary_sample *samples;
    size_t sample_count;
};

struct summary_entry {
    /* key; parts that were not asked for hold the "unknown" values named here */
    uint8_t api;           /* enum api, 0 = several or unknown */
    uint8_t source;        /* enum source, 0 = several */
    const char *op;        /* function's own name, NULL = several; lives as long as the summary */
    const char *torch;     /* torch.distributed's name, "" = none */
    bool has_comm;         /* false: several, or calls without a communicator */
    uint64_t comm;         /* uid; windows and files count for their communicator */
    const char *comm_name; /* "" = unnamed */
    char comm_role[PARALLEL_ROLE_TEXT];
    uint32_t comm_size; /* 0 = unknown */
    uint64_t bytes;     /* BYTES_UNKNOWN = unknown or several */
    bool size_class;    /* `bytes` is the lower bound of a class of sizes */
    int32_t rank;       /* RANK_UNKNOWN = several or unknown */
    const char *site;   /* compact label of the call site, NULL = several */
    const char *caller; /* function that the call site lies in, NULL = several */
    uint32_t epoch;     /* EPOCH_SEVERAL = several, or unknown */

    uint64_t count;           /* calls; operations that were posted and never seen complete included */
    uint64_t untimed;         /* of these, calls without a time */
    uint64_t failed;          /* of these, calls that returned an error */
    uint64_t estimated_bytes; /* of these, receives whose posted size stands for the unknown actual one */
    uint64_t shared_times;    /* of these, GPU operations whose time is a share of an interval (record_is_share) */
    uint64_t shared_ns;       /* all these times */
    uint64_t bytes_total;     /* sum of known bytes */
    uint64_t received_bytes;  /* Sendrecv: what came back */
    uint64_t posting_total_ns;

    struct summary_times time;      /* inside the calls; by site the least is known where percentiles are exact */
    struct summary_times in_flight; /* of operations that were posted: from there until they were seen complete. Beside
                                       `time`, not in it: the process may have computed meanwhile */

    /* bandwidth, from calls that have known bytes and a time (in flight where they were posted); < 0 = none, as where
       any bytes are estimated: what came may be far less than the buffer holds. Shares of an interval count for none */
    double algbw_bytes_per_s;
    double busbw_bytes_per_s; /* with each communicator's own size; < 0 also where that is unknown */

    /* of the calls that were matched with all their partners' (summary_transfers.h): from when the last one that a
       member needs had come until it left; 0 members: not known. Bandwidths as above, < 0 = none. */
    uint64_t transfer_members;
    int64_t transfer_ns, completion_ns;
    int64_t transfer_wait_ns; /* before it, waiting for that last one */
    double transfer_algbw_bytes_per_s, transfer_busbw_bytes_per_s;
};

struct summary {
    struct summary_entry *entries; /* by total time inside, longest first, then by key */
    size_t count;
    unsigned by;
    uint64_t calls_lost; /* calls that found no row in a full table: in no entry */
    uint64_t rows_torn;  /* rows whose writer died inside an update: off by at most one call each */
    uint64_t pending;    /* of all counts: posted and never seen complete */
    void *strings;       /* private */
};

/* Sums over the dumps of `set` (duplicates left out) that pass `filter` (NULL = all), epochs added up. The result does
 * not depend on the order of files. Points into `set` nowhere. Returns false when memory is short; otherwise the caller
 * frees with summary_free. */
bool summary_build(struct summary *summary, const struct dump_set *set, const struct filter *filter, unsigned by);
/* The same from the tables of call sites: `by` holds one of SUMMARY_BY_SITES. Percentiles are known only where every
 * record is still there. The symbols of `labels` are those of set->dumps. */
bool summary_build_sites(struct summary *summary, const struct dump_set *set, const struct filter *filter, unsigned by,
                         struct site_labels *labels);
/* The same from the records that lie in a scope with limits, for what passes its filter; `set` holds the dumps of the
 * scope's clock, in their order. Only calls on record are counted. `labels` is NULL unless `by` holds one of
 * SUMMARY_BY_SITES.
 */
bool summary_build_scope(struct summary *summary, const struct dump_set *set, const struct scope *scope, unsigned by,
                         struct site_labels *labels);
void summary_free(struct summary *summary);

/* Bandwidth factor of nccl-tests for `n` processes, < 0 for BUSBW_NONE. */
double busbw_factor(enum busbw kind, uint32_t n);

/* The communicator that calls on `communicator` count for: its parent where it is a window's or file's, else itself.
 * NULL when `communicator` is NULL; a parent that this dump does not define is NULL, too, and *uid still tells it. */
const struct dump_communicator *summary_communicator(const struct dump *dump,
                                                     const struct dump_communicator *communicator, uint64_t *uid);

#endif
