/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up hosts whose clocks are wrong in a known way, and what they see of common operations.
 * Lives here: the definition of such a scene, playing it, how far an estimate is from its truth.
 * Must not live here: anything of the analyzer's that could share a mistake with it.
 */
#ifndef COMMTAP_TEST_CLOCKS_H
#define COMMTAP_TEST_CLOCKS_H

#include "analyzer/align/observations.h"

enum { CLOCK_HOSTS_MAX = 64 };

enum clock_traffic {
    TRAFFIC_ALL = 0,    /* all-to-all collectives of all hosts */
    TRAFFIC_NEIGHBOURS, /* ... of hosts h and h + 1 only */
    TRAFFIC_MESSAGES,   /* messages both ways between h and h + 1, nothing else */
};

/* Seconds; a clock shows offset + (1 + drift) * t + wander * sin(2 pi t / wander_period + host). */
struct clock_scene {
    uint64_t seed;
    unsigned hosts, operations;
    double seconds;
    enum clock_traffic traffic;
    double offset, drift; /* +- */
    double wander, wander_period;
    double arrival; /* mean spread of arrivals */
    double latency, bias, jitter;
    double outliers;        /* share of exits that come a millisecond late on average */
    int straggler;          /* host that always comes 5 ms late, -1 */
    unsigned false_matches; /* operations whose times on one host are those of another operation */
};

/* 32 hosts, 5000 operations in 600 s, +-1 s, +-100 ppm, 15 us latency, exit bias up to 8 us, 1 % outliers. */
struct clock_scene clock_scene_standard(void);

struct clock_job {
    struct clock_scene scene;
    double offsets[CLOCK_HOSTS_MAX], drifts[CLOCK_HOSTS_MAX];
    struct observations observations;
    struct clock_domain hosts[CLOCK_HOSTS_MAX]; /* first guesses are 50 ms off */
};

/* Ends the program when memory is short. */
void clock_scene_play(struct clock_job *job, const struct clock_scene *scene);
void clock_scene_free(struct clock_job *job);

struct clock_verdict {
    double rms_us, worst_us;
    unsigned violated; /* hosts whose truth lies outside the claimed guaranteed bound */
    unsigned beyond;   /* ... outside the claimed error */
    unsigned contradicted, unknown, stretches;
};
/* Compares the hosts' maps with the truth at many moments. */
struct clock_verdict clock_scene_judge(const struct clock_job *job);

#endif
