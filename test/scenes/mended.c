/* SPDX-License-Identifier: Apache-2.0
 *
 * What mending would really have given.
 * Lives here: playing both, and asking the analyzer.
 * Must not live here: what is close enough.
 */
#include "test/scenes/mended.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyzer/align/align.h"

/* True time from the first step to the last, of the rank that takes longest. */
static double time_of(const struct stage *stage, const struct workload *w) {
    int64_t longest = 0;
    for (unsigned r = 0; r < w->ranks; r++) {
        int64_t time = stage_step_began(stage, r, w->steps - 1) - stage_step_began(stage, r, 0);
        longest = time > longest ? time : longest;
    }
    return (double)longest;
}

static void ask(struct mended *mended, const struct workload *w, struct stage *stage) {
    struct dump **dumps = stage_open(stage);
    struct common_clock clock;
    struct match_directory directory;
    struct straggler_analysis analysis;
    if (!common_clock_build(&clock, dumps, w->ranks) || !match_directory_build(&directory, dumps, w->ranks) ||
        !straggler_analyse(&analysis, &clock, &directory, &(struct straggler_request){.workers = 1})) {
        fputs("mended: no memory\n", stderr);
        abort();
    }
    for (size_t i = 0; i < analysis.straggler_count; i++)
        if (workload_planted(w, &analysis.stragglers[i]))
            mended->said = analysis.stragglers[i].what_if_speedup;
    mended->everybody = analysis.what_if.slowdown;
    mended->site = analysis.what_if.site_count > 0 ? analysis.what_if.sites[0].speedup : 1;
    straggler_analysis_free(&analysis);
    match_directory_free(&directory);
    common_clock_free(&clock);
}

struct mended mended_try(const struct workload *workload) {
    struct workload without = *workload;
    struct mended mended = {0};
    without.plant = PLANT_NOBODY;
    struct stage *stage = workload_play(&without);
    double usual = time_of(stage, &without);
    stage_free(stage);
    stage = workload_play(workload);
    mended.really = time_of(stage, workload) / usual;
    ask(&mended, workload, stage);
    stage_free(stage);
    return mended;
}
