/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up jobs whose truth is known.
 * Lives here: drawing each rank's work, the rule of the collectives, writing it down as dumps.
 * Must not live here: anything of the analyzer's that could share a mistake with it.
 */
#include "test/scenes/scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { START_NS = 1000000000, WINDOW_RANDOM = 11 };

uint64_t scene_random(uint64_t *state) {
    uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

double scene_uniform(uint64_t *state) {
    return (double)(scene_random(state) >> WINDOW_RANDOM) * 0x1p-53;
}

double scene_gauss(uint64_t *state) {
    double radius = sqrt(-2 * log(1 - scene_uniform(state)));
    return radius * cos(2 * M_PI * scene_uniform(state));
}

struct scene scene_standard(void) {
    return (struct scene){.seed = 1,
                          .ranks = 8,
                          .steps = 300,
                          .work_ns = 10000000,
                          .latency_ns = 20000,
                          .noise = NOISE_GAUSS,
                          .amplitude = 0.05,
                          .slow_rank = -1,
                          .slow_host = -1,
                          .slow_factor = 1};
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) {
        fputs("scene: no memory\n", stderr);
        abort();
    }
    return memory;
}

/* Own work of one step relative to the mean; `wander` is the rank's own state. */
static double draw_noise(const struct scene *scene, uint64_t *random, double *wander) {
    switch (scene->noise) {
    case NOISE_NONE:
        return 1;
    case NOISE_GAUSS:
        return 1 + scene->amplitude * scene_gauss(random);
    case NOISE_EXPONENTIAL:
        return 1 - scene->amplitude * log(1 - scene_uniform(random));
    case NOISE_WANDERING:
        *wander = 0.98 * *wander + sqrt(1 - 0.98 * 0.98) * scene_gauss(random);
        return 1 + scene->amplitude * *wander;
    case NOISE_SPIKES:
        return 1 + (scene_uniform(random) < 0.01 ? scene->amplitude : 0);
    case NOISE_OVERSUBSCRIBED:
        return scene_uniform(random) < 0.5 ? 1 : 2;
    }
    return 1;
}

static unsigned host_of(const struct scene *scene, unsigned rank) {
    return scene->ranks_per_host ? rank / scene->ranks_per_host : 0;
}

static int64_t draw_work(const struct scene *scene, unsigned rank, uint64_t *random, double *wander) {
    double work = (double)scene->work_ns * draw_noise(scene, random, wander);
    if ((int)rank == scene->slow_rank || (int)host_of(scene, rank) == scene->slow_host)
        work = work * scene->slow_factor + (double)scene->late_ns;
    return work > 1 ? (int64_t)work : 1;
}

/* What a rank's own clock shows at a moment of true time. */
static uint64_t shown(const struct scene *scene, unsigned rank, int64_t when) {
    return (uint64_t)(when + (int64_t)host_of(scene, rank) * scene->host_offset_ns);
}

static uint32_t ring_for(const struct scene *scene) {
    uint32_t need = scene->steps * (scene->collectives ? scene->collectives : 1) + 2, size = 64;
    while (size < need)
        size *= 2;
    return scene->ring_records ? scene->ring_records : size;
}

static void anchor_at(const struct scene *scene, struct dump_builder *builder, unsigned rank, int64_t when) {
    int64_t realtime = INT64_C(1700000000000000000) + when + (int64_t)host_of(scene, rank) * scene->realtime_error_ns;
    dump_builder_anchor(builder, shown(scene, rank, when), shown(scene, rank, when), (uint64_t)realtime, 40);
}

static struct dump_builder *make_builder(const struct scene *scene, unsigned rank) {
    struct dump_plan plan = {
        .rank = (int32_t)rank, .world_size = (int32_t)scene->ranks, .ring_records = ring_for(scene)};
    struct dump_builder *builder = dump_builder_new(&plan);
    char host[32], boot[40];
    snprintf(host, sizeof host, "node%u", host_of(scene, rank));
    snprintf(boot, sizeof boot, "00000000-0000-4000-8000-%012u", host_of(scene, rank));
    dump_builder_host(builder, host, boot, 4026531834u);
    dump_builder_standard_calls(builder);
    dump_builder_world(builder);
    anchor_at(scene, builder, rank, START_NS);
    dump_builder_header(builder)->activated_ticks = shown(scene, rank, START_NS);
    dump_builder_header(builder)->initialised_ticks = shown(scene, rank, START_NS);
    dump_builder_header(builder)->process_start_realtime_ns = UINT64_C(1700000000000000000);
    return builder;
}

/* One collective: everybody leaves a latency after the last arrival, a little apart. `now` moves to the exits. */
static void play_collective(const struct scene *scene, struct scene_job *job, uint32_t seq, int64_t *now,
                            uint64_t *random) {
    int64_t last = 0;
    for (unsigned r = 0; r < scene->ranks; r++)
        last = now[r] > last ? now[r] : last;
    for (unsigned r = 0; r < scene->ranks; r++) {
        int64_t leave = last + scene->latency_ns + (int64_t)(scene_uniform(random) * (double)scene->latency_ns / 4);
        dump_builder_collective(job->builders[r], 0, BUILDER_ALLREDUCE, 0, seq, 4096, shown(scene, r, now[r]),
                                shown(scene, r, leave));
        now[r] = leave;
    }
}

static void finish(const struct scene *scene, struct scene_job *job, uint32_t collectives, const int64_t *now) {
    for (unsigned r = 0; r < scene->ranks; r++) {
        anchor_at(scene, job->builders[r], r, now[r] + 1000);
        struct dump_header *header = dump_builder_header(job->builders[r]);
        header->finalise_ticks = shown(scene, r, now[r] + 1000);
        header->finalised_ticks = header->exited_ticks = shown(scene, r, now[r] + 2000);
        header->state |= STATE_FINALISING | STATE_FINALISED | STATE_EXITED;
        struct progress *progress = dump_builder_progress(job->builders[r], 0);
        progress->enqueued = progress->started = progress->completed = collectives;
    }
}

void scene_play(struct scene_job *job, const struct scene *scene) {
    *job = (struct scene_job){.ranks = scene->ranks,
                              .builders = allocate(scene->ranks, sizeof *job->builders),
                              .dumps = allocate(scene->ranks, sizeof *job->dumps)};
    int64_t *now = allocate(scene->ranks, sizeof *now);
    double *wander = allocate(scene->ranks, sizeof *wander);
    uint64_t random = scene->seed * UINT64_C(0x100000001b3) + 7;
    uint32_t seq = 0;
    for (unsigned r = 0; r < scene->ranks; r++) {
        job->builders[r] = make_builder(scene, r);
        now[r] = START_NS + (r == 0 ? scene->start_ns : 0);
        wander[r] = scene_gauss(&random);
    }
    for (unsigned step = 0; step < scene->steps; step++) {
        for (unsigned r = 0; r < scene->ranks; r++)
            now[r] += draw_work(scene, r, &random, &wander[r]);
        for (unsigned c = 0; c < (scene->collectives ? scene->collectives : 1); c++)
            play_collective(scene, job, seq++, now, &random);
    }
    finish(scene, job, seq, now);
    free(now);
    free(wander);
}

void scene_open(struct scene_job *job, const struct scene *scene) {
    scene_play(job, scene);
    for (unsigned r = 0; r < job->ranks; r++) {
        size_t bytes;
        const void *data = dump_builder_data(job->builders[r], &bytes);
        job->dumps[r] = dump_open_buffer("scene", data, bytes);
        if (!job->dumps[r] || !job->dumps[r]->header) {
            fputs("scene: a dump cannot be opened\n", stderr);
            abort();
        }
    }
}

void scene_close(struct scene_job *job) {
    for (unsigned r = 0; r < job->ranks; r++) {
        if (job->dumps[r])
            dump_close(job->dumps[r]);
        dump_builder_free(job->builders[r]);
    }
    free(job->builders);
    free(job->dumps);
}
