/* SPDX-License-Identifier: Apache-2.0
 *
 * One clock for all hosts, with an error bound; and which ranks share a host.
 * Lives here: which dumps share a host or a clock, the offset of every domain and how far it can be wrong, times on
 * that clock. Must not live here: how the offsets are found (align.h), one process's clock (load/), what the times
 * mean.
 *
 * A host is one running kernel, told by its boot id: containers with names of their own share it. A clock domain is
 * what shares a clock exactly, a boot id and a time namespace.
 * Common time is CLOCK_MONOTONIC of the first clock domain in nanoseconds. Other domains get a line each, or several
 * where their clock wanders (estimate.h), from the operations they share; a domain that shares none keeps the offset of
 * its CLOCK_REALTIME and an unknown error.
 */
#ifndef COMMTAP_ALIGN_COMMON_CLOCK_H
#define COMMTAP_ALIGN_COMMON_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/ns.h"
#include "analyzer/load/dump.h"

/* Error of a domain whose offset rests on CLOCK_REALTIME alone: nothing in the traces bounds it. */
#define CLOCK_ERROR_UNKNOWN INT64_MAX

struct clock_knot {
    int64_t at_ns; /* domain's CLOCK_MONOTONIC */
    int64_t offset_ns;
};

struct clock_domain {
    int64_t offset_ns; /* common = monotonic + offset, in the middle of the run */
    int64_t error_ns;  /* bound of |common - true|, CLOCK_ERROR_UNKNOWN where there is none */
    uint64_t samples;  /* exits that the offset rests on; 0 for the first domain */
    size_t first_dump, dump_count;
    int64_t first_ns, last_ns; /* that its dumps were seen alive, its own CLOCK_MONOTONIC */

    struct clock_knot *knots; /* by time; between two the offset is a line, outside the outer lines go on. NULL: the
                                 offset is constant */
    size_t knot_count;
    int64_t bound_ns;        /* what causality alone guarantees, NS_MOST: nothing */
    int64_t exit_spread_ns;  /* how far medians of neighbouring exits lie from the line */
    int64_t corridor_ns;     /* width of the narrowest corridor of lines that contradict nothing; negative: none does */
    uint32_t contradictions; /* stretches in which no line fits, however short: a false match, or a clock set anew */
};

struct clock_host {
    const char *name; /* by which its first rank knows it; points into the dump */
    size_t first_dump;
};

/* A process's first anchor of a GPU may be much wider than all later ones: once each GPU that begins so has a second
 * one, times are better known. */
struct device_settled {
    int64_t at_ns; /* common */
    int64_t error_ns;
};

struct common_clock {
    struct dump *const *dumps; /* not owned */
    size_t dump_count;
    struct clock_domain *domains; /* in order of their first dump */
    size_t domain_count;
    struct clock_host *hosts; /* in order of their first dump */
    size_t host_count;
    uint32_t *domain_of;    /* per dump */
    uint32_t *host_of;      /* per dump */
    int64_t *reading_error; /* per dump: how far one reading of its clock can be off */
    int64_t *device_error;  /* per dump: how far one of its GPUs' clocks can be off beside that; 0 without GPUs */
    struct device_settled *device_settled; /* per dump: that, from then on; NULL: nothing better is known */
};

void common_clock_free(struct common_clock *clock);

/* How many hosts there are, 0 where nothing tells: some dumps, made of other tools' files, do not name theirs. */
static inline size_t common_clock_known_hosts(const struct common_clock *clock) {
    size_t known = 0;
    for (size_t h = 0; h < clock->host_count; h++)
        known += clock->hosts[h].name[0] != '\0';
    return known == clock->host_count ? known : 0;
}

/* A domain's CLOCK_MONOTONIC ns -> common ns, within +-NS_MOST. Monotone. */
int64_t clock_domain_common(const struct clock_domain *domain, int64_t monotonic_ns);

/* Raw ticks of a dump -> common nanoseconds, within +-NS_MOST. Monotone in `ticks` for one dump. */
static inline int64_t to_common(const struct common_clock *clock, size_t dump, uint64_t ticks) {
    const struct clock_domain *domain = &clock->domains[clock->domain_of[dump]];
    int64_t monotonic = dump_monotonic_ns(clock->dumps[dump], ticks);
    return domain->knots ? clock_domain_common(domain, monotonic) : add_ns(monotonic, domain->offset_ns);
}

/* The same for a device record's nanoseconds. */
static inline int64_t device_to_common(const struct common_clock *clock, size_t dump, uint64_t device_ns) {
    return clock_domain_common(&clock->domains[clock->domain_of[dump]],
                               device_ns < NS_MOST ? (int64_t)device_ns : NS_MOST);
}

/* How far one of the dump's GPUs' clocks can be off at a moment of the common clock. */
static inline int64_t device_error_at(const struct common_clock *clock, size_t dump, int64_t at_ns) {
    const struct device_settled *settled = clock->device_settled ? &clock->device_settled[dump] : NULL;
    return settled && at_ns >= settled->at_ns ? settled->error_ns : clock->device_error[dump];
}

/* A record's two times on the common clock, whichever clock they were taken by. */
static inline int64_t record_begin(const struct common_clock *clock, size_t dump, const struct record *record) {
    return record_is_device(record) ? device_to_common(clock, dump, record->t0) : to_common(clock, dump, record->t0);
}
static inline int64_t record_end(const struct common_clock *clock, size_t dump, const struct record *record) {
    return record_is_device(record) ? device_to_common(clock, dump, record->t1) : to_common(clock, dump, record->t1);
}

/* Bound of the error of a difference between times of two dumps, CLOCK_ERROR_UNKNOWN where there is none. */
int64_t common_clock_error(const struct common_clock *clock, size_t dump_a, size_t dump_b);

/* The largest error of any pair of dumps of this job. */
int64_t common_clock_worst_error(const struct common_clock *clock);

#endif
