/* SPDX-License-Identifier: Apache-2.0
 *
 * Moments on the clocks of several hosts.
 * Lives here: one host's moment on another one's clock, the last moment that a dump tells of.
 * Must not live here: what happened then.
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_MOMENTS_H
#define COMMTAP_WAIT_FOR_GRAPH_MOMENTS_H

#include "analyzer/load/dump.h"

#define REALTIME_APART_NS INT64_C(1000000000) /* clocks of hosts agree to that */

struct moment {
    const char *boot_id;  /* of the host */
    int64_t monotonic_ns; /* there */
    int64_t realtime_ns;  /* for other hosts */
};

/* A moment of the dump's own host, from its ticks. */
struct moment moment_of(const struct dump *dump, uint64_t ticks);
/* The same, from CLOCK_MONOTONIC of its host. */
struct moment moment_at(const struct dump *dump, int64_t monotonic_ns);
/* CLOCK_MONOTONIC of the dump's host at that moment; of a moment on another host REALTIME_APART_NS before it, so that
 * what came before this came before the moment. */
int64_t moment_here(const struct dump *dump, const struct moment *moment);
/* The same in ticks: a moment of `dump` on the clock of `other`; 0 where that had not begun. Processes of a host share
 * the counter: nothing is lost by what each of them knows of its rate. */
uint64_t ticks_elsewhere(const struct dump *dump, uint64_t ticks, const struct dump *other);
/* Clocks of one host are compared to the nanosecond, those of several as the hosts keep them. */
bool moment_is_earlier(const struct moment *a, const struct moment *b);
/* How far they are apart, 0 or more. */
int64_t moments_apart(const struct moment *a, const struct moment *b);

/* The newest time, in ticks, that a dump tells of its process. */
uint64_t last_sign_of_life(const struct dump *dump);
/* The newest record of a lane. False: it has none. */
bool newest_record(const struct dump *dump, uint32_t lane, struct record *newest);

/* later - earlier; 0 where a damaged dump's numbers have no difference. */
int64_t difference_ns(int64_t later, int64_t earlier);

#endif
