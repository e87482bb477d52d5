/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up jobs whose truth is known: what every rank does, step by step, and the dumps it would leave.
 * Lives here: the definition of a scene and playing it.
 * Must not live here: anything of the analyzer's that could share a mistake with it.
 *
 * A step of a rank is: own work (mean, noise, what makes it slow), then `collectives` all-reduces on the world that
 * nobody leaves before everybody entered. True time is one clock; hosts may show it with an offset.
 */
#ifndef COMMTAP_TEST_SCENE_H
#define COMMTAP_TEST_SCENE_H

#include <stdint.h>

#include "analyzer/load/dump.h"
#include "test/support/dump_builder.h"

enum noise {
    NOISE_NONE = 0,
    NOISE_GAUSS,          /* sd = amplitude * work */
    NOISE_EXPONENTIAL,    /* adds work * amplitude on average */
    NOISE_WANDERING,      /* each rank's own speed wanders: AR(1) with 0.98 per step, sd = amplitude */
    NOISE_SPIKES,         /* one step in a hundred takes amplitude * work more */
    NOISE_OVERSUBSCRIBED, /* each step takes once or twice the work, by chance */
};

struct scene {
    uint64_t seed;
    unsigned ranks;          /* at least 1 */
    unsigned ranks_per_host; /* 0 = all on one */
    unsigned steps;
    unsigned collectives; /* per step, 0 = 1 */
    int64_t work_ns;      /* mean own work per step */
    int64_t latency_ns;   /* a collective's time after the last arrival */
    enum noise noise;
    double amplitude;
    int slow_rank; /* -1 = nobody; its work takes slow_factor times as long and late_ns more */
    int slow_host; /* -1 = none; all its ranks likewise */
    double slow_factor;
    int64_t late_ns;
    int64_t start_ns;          /* extra work before the first step, on rank 0 only */
    uint32_t ring_records;     /* 0 = enough for everything */
    int64_t host_offset_ns;    /* host h shows true time + h * this */
    int64_t realtime_error_ns; /* and its CLOCK_REALTIME is wrong by h * this */
};

struct scene_job {
    unsigned ranks;
    struct dump_builder **builders;
    struct dump **dumps; /* by rank */
};

/* A scene of nobody slow: 8 ranks, 300 steps of 10 ms, 20 us latency, Gaussian noise of 5 %. */
struct scene scene_standard(void);

/* Plays it into builders only, or into open dumps as well. Ends the program when memory is short. */
void scene_play(struct scene_job *job, const struct scene *scene);
void scene_open(struct scene_job *job, const struct scene *scene);
void scene_close(struct scene_job *job);

/* Deterministic random numbers of a scene's kind. */
uint64_t scene_random(uint64_t *state);
double scene_uniform(uint64_t *state); /* [0, 1) */
double scene_gauss(uint64_t *state);

#endif
