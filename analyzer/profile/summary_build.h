/* SPDX-License-Identifier: Apache-2.0
 *
 * What the summary's files share: entries while they are being summed up.
 * Lives here: the group of calls behind one entry, how a call finds its group.
 * Must not live here: anything that others than summary*.c need (summary.h).
 */
#ifndef COMMTAP_PROFILE_SUMMARY_BUILD_H
#define COMMTAP_PROFILE_SUMMARY_BUILD_H

#include "analyzer/base/hash_table.h"
#include "analyzer/load/rows.h"
#include "analyzer/profile/recorded_calls.h"
#include "analyzer/profile/scope.h"
#include "analyzer/profile/summary.h"

/* Exact percentiles keep every time; beyond this many the histograms do, so that memory stays bounded. */
enum { SUMMARY_SAMPLES_MAX = 2000000 };

/* A row of some dump's operation table: where an entry's histogram comes from. */
struct row_reference {
    struct row_reference *next;
    const struct dump *dump;
    const struct operation_row *row;
    bool in_flight; /* its histogram is of such times */
};

/* An entry while it is being summed up. */
struct summary_group {
    struct summary_entry entry;
    struct row_reference *rows;
    uint64_t band_bytes, band_ns; /* calls with bytes, time and a bandwidth convention */
    double bus_bytes;
    bool bus_unknown;
};

struct summary_build {
    struct summary *summary;
    const struct filter *filter;
    unsigned by;
    struct hash_table by_key;
    struct summary_group **groups; /* in order of appearance */
    size_t count;
    struct site_labels *labels; /* NULL: not by site */
    size_t d;                   /* number of the dump at hand in its set */
    size_t samples;             /* taken from records so far */
    const char **call_names;    /* of the dump at hand: call index -> interned name */
};

/* What a call is and on which communicator. */
struct summary_subject {
    const struct call_name *call; /* NULL = the dump does not name it */
    const struct dump_communicator *communicator;
    bool has_comm;
    uint64_t uid;
    uint32_t size; /* of the communicator that the call was made on */
};

/* Calls alike. */
struct summary_row {
    const struct operation_row *row;
    const struct operation_row *in_file; /* where its histogram is, NULL when it has none */
    enum row_time time;
    uint32_t stack; /* where the calls were made; not used unless by site */
};

/* Adds the calls of a row. Sets *to to their group, NULL where the filter leaves them out; `to` may be NULL. Returns
 * false when memory is short. */
bool summary_add_row(struct summary_build *build, const struct dump *dump, const struct summary_row *row,
                     struct summary_group **to);
/* One operation that was posted, in so many ticks, and never seen complete. */
bool summary_add_incomplete(struct summary_build *build, const struct dump *dump, const struct pending *pending,
                            struct summary_group **to);
/* Adds `count` calls that took `ns`, for percentiles. Returns false when memory is short. */
bool summary_add_sample(struct summary_times *times, uint64_t ns, uint64_t count);
/* Adds the times of a call that a row of that group has counted already. */
bool summary_add_recorded(struct summary_group *group, const struct dump *dump, const struct recorded_call *call);
/* The group that a recorded call counts for, NULL where it is filtered out or in no row of its own. Returns false when
 * memory is short. */
bool summary_group_of(struct summary_build *build, const struct dump *dump, const struct recorded_call *call,
                      struct summary_group **group);

/* Begins the rows or records of another dump. Returns false when memory is short. */
bool summary_enter(struct summary_build *build, const struct dump *dump, size_t d);

/* A time of a record or row -> ns. */
uint64_t summary_ns(const struct dump *dump, uint8_t source, uint64_t time);
/* True when a dump is to be counted: no duplicate, and of a rank that the filter lets pass. */
bool summary_counts(const struct summary_build *build, const struct dump_set *set, size_t d);

/* Fills a build from the tables of a set's dumps (summary_tables.c), or from the records of a scope
 * (summary_records.c). Return false when memory is short. */
bool summary_take_tables(struct summary_build *build, const struct dump_set *set);
bool summary_take_records(struct summary_build *build, const struct dump_set *set, const struct scope *scope);
/* Puts the histograms of a group's rows in the place of the samples of its times inside or in flight. */
bool summary_take_histograms(struct summary_group *group, bool in_flight);

#endif
