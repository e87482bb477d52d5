/* SPDX-License-Identifier: Apache-2.0 */
#include "test/scenes/drawn_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/align/align.h"
#include "test/scenes/scene.h"

enum { STEP_NS = 4000000, BYTES = 4096, TAG = 3, HALVES = 2 };

/* ---- drawing --------------------------------------------------------------------------------- */

static double uniform(uint64_t *random) {
    return ((double)(scene_random(random) >> 11) + 0.5) / 9007199254740992.0;
}

static unsigned below(uint64_t *random, unsigned limit) {
    return (unsigned)(scene_random(random) % limit);
}

static void draw_plants(struct drawn_job *job, uint64_t *random) {
    unsigned count = below(random, DRAWN_PLANTS + 1);
    for (unsigned i = 0; i < count; i++) {
        unsigned kind = below(random, 3);
        job->plants[i] = (struct drawn_plant){.rank = (int)below(random, job->ranks),
                                              .factor = 1.03 + uniform(random),
                                              .every = kind == 1 ? 5 + below(random, 16) : 1,
                                              .late = kind == 2};
        if (kind == 1)
            job->plants[i].factor *= 4;
    }
}

static struct drawn_job draw(uint64_t seed, uint64_t *random) {
    *random = seed * 7919 + 17;
    struct drawn_job job = {.seed = seed,
                            .ranks = 4 + 2 * below(random, 5),
                            .steps = 60 + below(random, 81),
                            .shape = (enum drawn_shape)below(random, DRAWN_SHAPES)};
    for (unsigned i = 0; i < DRAWN_PLANTS; i++)
        job.plants[i] = (struct drawn_plant){.rank = -1, .factor = 1, .every = 1};
    return job;
}

struct drawn_job drawn_job_of(uint64_t seed) {
    uint64_t random;
    struct drawn_job job = draw(seed, &random);
    job.tail = below(&random, 2) ? TAIL_NORMAL : (enum drawn_tail)below(&random, DRAWN_TAILS);
    draw_plants(&job, &random);
    return job;
}

struct drawn_job drawn_job_of_two(uint64_t seed) {
    uint64_t random;
    struct drawn_job job = draw(seed, &random);
    unsigned kind = below(&random, 3), every = 5 + below(&random, 6);
    double factor = kind == 2 ? 1.2 + 0.6 * uniform(&random) : 3 + 3.5 * uniform(&random);
    job.steps += 60;
    job.ranks = job.ranks < 6 ? 6 : job.ranks; /* two of four are half of all: as well the others might be fast */
    job.together = kind == 1 ? 0.1 + 0.1 * uniform(&random) : 0;
    for (unsigned i = 0; i < DRAWN_PLANTS; i++)
        job.plants[i] = (struct drawn_plant){
            .factor = factor * (1 + 0.03 * uniform(&random)), .every = kind == 0 ? every : 1, .late = kind == 2};
    job.plants[0].rank = (int)below(&random, job.ranks);
    job.plants[1].rank = (job.plants[0].rank + 1 + (int)below(&random, job.ranks - 1)) % (int)job.ranks;
    return job;
}

struct drawn_job drawn_null_job(uint64_t seed, enum drawn_tail tail) {
    uint64_t random;
    struct drawn_job job = draw(seed, &random);
    job.tail = tail;
    return job;
}

struct drawn_job drawn_job_of_turns(uint64_t seed, bool per_half) {
    uint64_t random;
    struct drawn_job job = draw(seed, &random);
    job.ranks = 8 + 2 * below(&random, 5);
    job.shape = per_half ? DRAWN_GROUPS : (enum drawn_shape)below(&random, DRAWN_TWO_COLLECTIVES + 1);
    job.turns = 5;
    job.by_chance = below(&random, 2);
    job.per_half = per_half;
    return job;
}

/* ---- playing --------------------------------------------------------------------------------- */

struct play {
    const struct drawn_job *job;
    uint64_t *random; /* per rank */
    double *speed;    /* per rank: how far it has wandered, in standard deviations */
    uint32_t half[HALVES];
};

static double noise_of(enum drawn_tail tail, uint64_t *random) {
    double usual = 1 + (tail == TAIL_QUIET ? 0.005 : 0.05) * scene_gauss(random);
    switch (tail) {
    case TAIL_OUTLIERS:
        return uniform(random) < 0.05 ? usual * (5 + 15 * uniform(random)) : usual;
    case TAIL_LOGNORMAL:
        return exp(1.5 * scene_gauss(random));
    case TAIL_PARETO:
        return pow(uniform(random), -1 / 1.5);
    default:
        return usual;
    }
}

static bool has_its_turn(const struct drawn_job *job, unsigned rank, unsigned step) {
    unsigned ranks = job->per_half ? job->ranks / HALVES : job->ranks;
    uint64_t chance = job->seed * 1000 + step * HALVES + (job->per_half ? rank / ranks : 0);
    return rank % ranks == (job->by_chance ? scene_random(&chance) : step) % ranks;
}

/* Whether a plant is at work in a step. */
static bool is_slow_now(const struct drawn_job *job, const struct drawn_plant *plant, unsigned step) {
    uint64_t chance = job->seed * 1000 + step;
    if (job->together > 0)
        return uniform(&chance) < job->together;
    return step % plant->every == plant->every - 1 && (!plant->late || step >= job->steps / 2);
}

static double slowness(const struct drawn_job *job, unsigned rank, unsigned step) {
    double factor = job->turns > 0 && has_its_turn(job, rank, step) ? job->turns : 1;
    for (unsigned i = 0; i < DRAWN_PLANTS; i++) {
        const struct drawn_plant *plant = &job->plants[i];
        factor *= plant->rank == (int)rank && is_slow_now(job, plant, step) ? plant->factor : 1;
    }
    return factor;
}

/* What a step is longer by beside the noise of its parts. */
static double noise_of_step(struct play *play, unsigned rank, unsigned step) {
    const double kept = 0.95;
    uint64_t shared = play->job->seed * 1000 + step;
    if (play->job->tail == TAIL_SHARED)
        return exp(scene_gauss(&shared));
    if (play->job->tail != TAIL_WANDERING)
        return 1;
    play->speed[rank] = kept * play->speed[rank] + sqrt(1 - kept * kept) * scene_gauss(&play->random[rank]);
    return exp(0.15 * play->speed[rank]);
}

static void work(struct play *play, unsigned rank, double factor, double share, struct script *script) {
    double ns = STEP_NS * share * factor * noise_of(play->job->tail, &play->random[rank]);
    script_add(script, (struct action){.act = ACT_WORK, .ns = (int64_t)fmin(ns, 1e12)});
}

static void reduce(uint32_t group, struct script *script) {
    script_add(script,
               (struct action){.act = ACT_COLLECTIVE, .call = BUILDER_ALLREDUCE, .group = group, .bytes = BYTES});
}

static void message(enum act act, unsigned peer, int32_t tag, struct script *script) {
    script_add(script, (struct action){.act = act, .peer = (int32_t)peer, .tag = tag, .bytes = BYTES});
}

static void exchange(unsigned rank, unsigned ranks, struct script *script) {
    unsigned left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    message(ACT_IRECEIVE, left, TAG, script);
    message(ACT_IRECEIVE, right, TAG + 1, script);
    message(ACT_ISEND, right, TAG, script);
    message(ACT_ISEND, left, TAG + 1, script);
    script_add(script, (struct action){.act = ACT_WAIT_ALL});
}

static void write_step(void *context, unsigned rank, unsigned step, struct script *script) {
    struct play *play = context;
    const struct drawn_job *job = play->job;
    double factor = slowness(job, rank, step) * noise_of_step(play, rank, step);
    work(play, rank, factor, 0.6, script);
    switch (job->shape) {
    case DRAWN_TWO_COLLECTIVES:
        reduce(0, script);
        work(play, rank, factor, 0.4, script);
        break;
    case DRAWN_HALO:
    case DRAWN_HALO_AND_NORM:
        exchange(rank, job->ranks, script);
        break;
    case DRAWN_GROUPS:
        reduce(play->half[rank / (job->ranks / HALVES)], script);
        break;
    default:
        break;
    }
    if (job->shape != DRAWN_HALO)
        reduce(0, script);
}

static struct stage *play_job(const struct drawn_job *job) {
    struct actor_rules rules = {.seed = job->seed,
                                .ranks = job->ranks,
                                .latency = 5000,
                                .bandwidth = 10,
                                .slow_from = -1,
                                .slow_to = -1,
                                .slow_link = 1,
                                .ring_records = 1 << 11};
    struct play play = {
        .job = job, .random = calloc(job->ranks, sizeof *play.random), .speed = calloc(job->ranks, sizeof *play.speed)};
    struct stage *stage = stage_new(&rules);
    for (unsigned r = 0; play.random && r < job->ranks; r++)
        play.random[r] = job->seed * 1000003 + r * 97 + 1;
    for (unsigned h = 0; h < HALVES; h++)
        play.half[h] = stage_group(stage, "half", h * job->ranks / HALVES, job->ranks / HALVES, 1);
    if (play.random && play.speed)
        stage_play(stage, job->steps, write_step, &play);
    free(play.random);
    free(play.speed);
    return stage;
}

void drawn_job_judge(struct drawn_result *result, const struct drawn_job *job) {
    result->stage = play_job(job);
    struct dump **dumps = stage_open(result->stage);
    if (!common_clock_build(&result->clock, dumps, job->ranks) ||
        !match_directory_build(&result->directory, dumps, job->ranks) ||
        !straggler_analyse(&result->analysis, &result->clock, &result->directory,
                           &(struct straggler_request){.workers = 1})) {
        fputs("drawn job: no memory\n", stderr);
        abort();
    }
}

void drawn_result_free(struct drawn_result *result) {
    straggler_analysis_free(&result->analysis);
    match_directory_free(&result->directory);
    common_clock_free(&result->clock);
    stage_free(result->stage);
}
