/* SPDX-License-Identifier: Apache-2.0
 *
 * Situations in which the verdict is tried.
 * Lives here: the table of situations, right and wrong answers counted.
 * Must not live here: what counts as good enough.
 */
#include "test/scenes/trial.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyzer/align/align.h"
#include "analyzer/stragglers/stragglers.h"

#define MS INT64_C(1000000)
/* clang-format off */
#define NOBODY .slow_rank = -1, .slow_host = -1, .slow_factor = 1, .latency_ns = 20000
#define RANK(R, FACTOR) .slow_rank = (R), .slow_host = -1, .slow_factor = (FACTOR), .latency_ns = 20000

const struct trial trials[] = {
    {"nobody, 2 ranks, 5 % noise", false,
     {.ranks = 2, .steps = 300, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.05, NOBODY}},
    {"nobody, 8 ranks, 20 % noise", false,
     {.ranks = 8, .steps = 300, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.2, NOBODY}},
    {"nobody, 4 ranks, 40 short steps, exponential", false,
     {.ranks = 4, .steps = 40, .work_ns = 5 * MS, .noise = NOISE_EXPONENTIAL, .amplitude = 0.5, NOBODY}},
    {"nobody, 3 ranks, 12 steps, 30 % noise", false,
     {.ranks = 3, .steps = 12, .work_ns = 5 * MS, .noise = NOISE_GAUSS, .amplitude = 0.3, NOBODY}},
    {"nobody, 8 ranks, spikes that cost 0.4 %", false,
     {.ranks = 8, .steps = 300, .work_ns = 10 * MS, .noise = NOISE_SPIKES, .amplitude = 0.05, NOBODY}},
    {"nobody, 4 ranks, oversubscribed", false,
     {.ranks = 4, .steps = 200, .work_ns = 4 * MS, .noise = NOISE_OVERSUBSCRIBED, NOBODY}},
    {"nobody, 8 ranks, speeds that wander", false,
     {.ranks = 8, .steps = 400, .work_ns = 10 * MS, .noise = NOISE_WANDERING, .amplitude = 0.1, NOBODY}},
    {"nobody, 16 ranks, 10 collectives a step", false,
     {.ranks = 16, .steps = 60, .collectives = 10, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.1, NOBODY}},
    {"nobody, 2 x 4 ranks on hosts with other clocks", false,
     {.ranks = 8, .ranks_per_host = 4, .steps = 200, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.1,
      .host_offset_ns = -500 * MS, .realtime_error_ns = 3 * MS, NOBODY}},
    {"nobody, 4 ranks, rank 0 starts 2 s late", false,
     {.ranks = 4, .steps = 100, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.1, .start_ns = 2000 * MS, NOBODY}},
    {"10 % slow, 4 ranks, 5 % noise", true,
     {.ranks = 4, .steps = 300, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.05, RANK(2, 1.1)}},
    {"10 % slow, 16 ranks, 10 % noise", true,
     {.ranks = 16, .steps = 300, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.1, RANK(7, 1.1)}},
    {"20 % slow, 2 ranks, 20 % noise", true,
     {.ranks = 2, .steps = 300, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.2, RANK(1, 1.2)}},
    {"50 % slow, 4 ranks, 20 steps", true,
     {.ranks = 4, .steps = 20, .work_ns = 20 * MS, .noise = NOISE_GAUSS, .amplitude = 0.1, RANK(3, 1.5)}},
    {"5 ms late on 30 ms with 10 ms of noise, 4 ranks", true,
     {.ranks = 4, .steps = 400, .work_ns = 30 * MS, .noise = NOISE_GAUSS, .amplitude = 0.333, .late_ns = 5 * MS, RANK(1, 1)}},
    {"20 % slow, 8 ranks, exponential noise", true,
     {.ranks = 8, .steps = 400, .work_ns = 10 * MS, .noise = NOISE_EXPONENTIAL, .amplitude = 0.3, RANK(0, 1.2)}},
    {"50 % slow, 4 ranks, oversubscribed", true,
     {.ranks = 4, .steps = 300, .work_ns = 4 * MS, .noise = NOISE_OVERSUBSCRIBED, RANK(3, 1.5)}},
    {"20 % slow, 2 x 4 ranks on hosts with other clocks", true,
     {.ranks = 8, .ranks_per_host = 4, .steps = 200, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.1,
      .host_offset_ns = -500 * MS, .realtime_error_ns = 3 * MS, RANK(5, 1.2)}},
    {"a host 20 % slow, 4 x 4 ranks", true,
     {.ranks = 16, .ranks_per_host = 4, .steps = 200, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.1,
      .host_offset_ns = 100 * MS, .slow_rank = -1, .slow_host = 2, .slow_factor = 1.2, .latency_ns = 20000}},
    {"8 ranks with spikes that cost 160 %", true,
     {.ranks = 8, .steps = 300, .work_ns = 10 * MS, .noise = NOISE_SPIKES, .amplitude = 20, NOBODY}},
    {"10 % slow, 64 ranks, 10 % noise", true,
     {.ranks = 64, .steps = 200, .work_ns = 10 * MS, .noise = NOISE_GAUSS, .amplitude = 0.1, RANK(40, 1.1)}},
};
/* clang-format on */
const size_t trial_count = sizeof trials / sizeof trials[0];

static bool is_planted(const struct scene *scene, const struct straggler *straggler) {
    if (scene->slow_host < 0 && scene->slow_rank < 0) /* who has the next spike is chance */
        return scene->noise == NOISE_SPIKES && scene->amplitude > 1 && straggler->kind == STRAGGLER_ROTATING;
    if (scene->slow_host >= 0)
        return straggler->kind == STRAGGLER_HOST && straggler->host == (uint32_t)scene->slow_host;
    return straggler->kind == STRAGGLER_RANK && straggler->dumps[0] == (size_t)scene->slow_rank;
}

static void count(const struct scene *scene, const struct straggler *named, size_t named_count, unsigned *right,
                  unsigned *wrong) {
    size_t others = 0;
    for (size_t i = 0; i < named_count; i++)
        others += !is_planted(scene, &named[i]);
    *wrong += others > 0;
    *right += named_count == 1 && others == 0;
}

static void run_one(const struct scene *scene, struct trial_result *result) {
    struct scene_job job;
    struct common_clock clock;
    struct match_directory directory;
    struct straggler_analysis analysis;
    scene_open(&job, scene);
    if (!common_clock_build(&clock, job.dumps, job.ranks) || !match_directory_build(&directory, job.dumps, job.ranks) ||
        !straggler_analyse(&analysis, &clock, &directory, &(struct straggler_request){.workers = 1})) {
        fputs("trial: no memory\n", stderr);
        abort();
    }
    count(scene, analysis.stragglers, analysis.straggler_count, &result->right, &result->wrong);
    bool rotating = false;
    for (size_t i = 0; i < analysis.straggler_count; i++)
        rotating |= analysis.stragglers[i].kind == STRAGGLER_ROTATING;
    result->rotating += rotating;
    if (analysis.straggler_count == 0)
        count(scene, analysis.suspects, analysis.suspect_count, &result->suspected_right, &result->suspected_wrong);
    straggler_analysis_free(&analysis);
    match_directory_free(&directory);
    common_clock_free(&clock);
    scene_close(&job);
}

struct trial_result trial_run(const struct trial *trial, unsigned jobs, uint64_t first_seed) {
    struct trial_result result = {0};
    for (unsigned i = 0; i < jobs; i++) {
        struct scene scene = trial->scene;
        scene.seed = first_seed + i;
        run_one(&scene, &result);
    }
    return result;
}
