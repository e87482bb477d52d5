/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of clocks.h.
 */
#include "test/scenes/clocks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/scenes/scene.h"

enum { MOMENTS = 200 };

struct clock_scene clock_scene_standard(void) {
    return (struct clock_scene){.seed = 1,
                                .hosts = 32,
                                .operations = 5000,
                                .seconds = 600,
                                .offset = 1,
                                .drift = 100e-6,
                                .wander_period = 400,
                                .arrival = 1e-3,
                                .latency = 15e-6,
                                .bias = 8e-6,
                                .jitter = 4e-6,
                                .outliers = 0.01,
                                .straggler = -1};
}

static double exponential(uint64_t *state, double mean) {
    return -mean * log(1 - scene_uniform(state));
}

/* What a host's clock shows at true time t; they were all started long ago. */
static int64_t shown(const struct clock_job *job, unsigned host, double t) {
    double wander = job->scene.wander * sin(2 * M_PI * t / job->scene.wander_period + host);
    return (int64_t)llround((100 + job->offsets[host] + (1 + job->drifts[host]) * t + wander) * 1e9);
}

static void observe(struct clock_job *job, uint64_t key, unsigned host, double cause, double effect, bool exact) {
    struct observation o = {
        .key = key, .domain = host, .exact = exact, .cause = OBSERVATION_NONE, .effect = OBSERVATION_NONE};
    if (!isnan(cause))
        o.cause = shown(job, host, cause);
    if (!isnan(effect))
        o.effect = shown(job, host, effect);
    job->observations.items[job->observations.count++] = o;
}

/* Members are hosts [from, to). */
static void play_collective(struct clock_job *job, uint64_t key, double t, unsigned from, unsigned to, uint64_t *state,
                            const double *bias) {
    const struct clock_scene *s = &job->scene;
    double enter[CLOCK_HOSTS_MAX], last = 0;
    for (unsigned h = from; h < to; h++) {
        enter[h] = t + exponential(state, s->arrival) + ((int)h == s->straggler ? 5e-3 : 0);
        last = enter[h] > last ? enter[h] : last;
    }
    for (unsigned h = from; h < to; h++) {
        double leave = last + s->latency + bias[h] + exponential(state, s->jitter);
        if (scene_uniform(state) < s->outliers)
            leave += exponential(state, 1e-3);
        /* a false match: one host shows another operation's times, a tenth of a second away */
        double wrong = h + 1 == to && key <= s->false_matches ? 0.1 : 0;
        observe(job, key, h, enter[h] + wrong, leave + wrong, true);
    }
}

static void play_message(struct clock_job *job, uint64_t key, double t, unsigned from, unsigned to, uint64_t *state) {
    double sent = t + exponential(state, job->scene.arrival);
    double received = sent + job->scene.latency + exponential(state, job->scene.jitter);
    observe(job, key, from, sent, NAN, false);
    observe(job, key, to, NAN, received, false);
}

static int compare_observations(const void *a, const void *b) {
    const struct observation *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return (left->domain > right->domain) - (left->domain < right->domain);
}

void clock_scene_play(struct clock_job *job, const struct clock_scene *scene) {
    uint64_t state = scene->seed * 7919 + 17;
    double bias[CLOCK_HOSTS_MAX];
    *job = (struct clock_job){.scene = *scene};
    job->observations.items = malloc((size_t)scene->operations * scene->hosts * sizeof *job->observations.items);
    if (!job->observations.items) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    for (unsigned h = 0; h < scene->hosts; h++) {
        job->offsets[h] = h ? scene->offset * (2 * scene_uniform(&state) - 1) : 0;
        job->drifts[h] = h ? scene->drift * (2 * scene_uniform(&state) - 1) : 0;
        bias[h] = scene->bias * scene_uniform(&state);
        job->hosts[h].offset_ns = h ? (int64_t)((0.05 - job->offsets[h]) * 1e9) : 0;
        job->hosts[h].error_ns = 20;
        job->hosts[h].first_ns = shown(job, h, 0);
        job->hosts[h].last_ns = shown(job, h, scene->seconds);
    }
    for (unsigned k = 0; k < scene->operations; k++) {
        double t = scene->seconds * (k + scene_uniform(&state)) / scene->operations;
        unsigned pair = k % (scene->hosts - 1), back = k / (scene->hosts - 1) % 2;
        if (scene->traffic == TRAFFIC_ALL)
            play_collective(job, k + 1, t, 0, scene->hosts, &state, bias);
        else if (scene->traffic == TRAFFIC_NEIGHBOURS)
            play_collective(job, k + 1, t, pair, pair + 2, &state, bias);
        else
            play_message(job, k + 1, t, pair + back, pair + 1 - back, &state);
    }
    qsort(job->observations.items, job->observations.count, sizeof *job->observations.items, compare_observations);
}

void clock_scene_free(struct clock_job *job) {
    for (unsigned h = 0; h < job->scene.hosts; h++)
        free(job->hosts[h].knots);
    free(job->observations.items);
}

struct clock_verdict clock_scene_judge(const struct clock_job *job) {
    struct clock_verdict verdict = {0};
    double squares = 0;
    for (unsigned h = 1; h < job->scene.hosts; h++) {
        const struct clock_domain *host = &job->hosts[h];
        int64_t worst = 0;
        for (int i = 0; i <= MOMENTS; i++) {
            double t = job->scene.seconds * (0.005 + 0.99 * i / MOMENTS);
            int64_t error = llabs(clock_domain_common(host, shown(job, h, t)) - shown(job, 0, t));
            worst = error > worst ? error : worst;
            squares += (double)error * (double)error / (MOMENTS + 1) / (job->scene.hosts - 1);
        }
        if ((double)worst / 1e3 > verdict.worst_us)
            verdict.worst_us = (double)worst / 1e3;
        verdict.contradicted += host->contradictions > 0;
        verdict.unknown += host->error_ns == CLOCK_ERROR_UNKNOWN;
        verdict.stretches += (unsigned)(host->knot_count - 1);
        verdict.violated += host->contradictions == 0 && worst > host->bound_ns;
        verdict.beyond += worst > host->error_ns;
    }
    verdict.rms_us = sqrt(squares) / 1e3;
    return verdict;
}
