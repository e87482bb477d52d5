/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts: nobody is named without reason, and who is slow is found.
 * Lives here: the statistics on small tables, and the situations of test/scenes in small numbers.
 * Must not live here: single waits (test_waits.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/align/align.h"
#include "analyzer/findings/findings_stragglers.h"
#include "analyzer/stragglers/stragglers.h"
#include "test/scenes/trial.h"
#include "test/unit/job_builder.h"

static void medians_leave_one_out(void **state) {
    (void)state;
    static const int64_t values[] = {10, 20, 30, 50};
    assert_int_equal(median_without(values, 4, 0), 30);
    assert_int_equal(median_without(values, 4, 1), 30);
    assert_int_equal(median_without(values, 4, 2), 20);
    assert_int_equal(median_without(values, 4, 3), 20);
    assert_int_equal(median_without(values, 3, 1), 20);
    assert_int_equal(median_without(values, 2, 0), 20);
    assert_int_equal(median_without(values, 2, 1), 10);
}

static void chance_is_exact_for_two(void **state) {
    (void)state;
    /* ten batches, the second subject slower in all, no pattern in by how much */
    static const int64_t extra[10] = {500, 100, 300, 200, 600, 100, 400, 700, 200, 500};
    int64_t table[20];
    struct significance verdict[2];
    for (int b = 0; b < 10; b++) {
        table[2 * b] = 1000;
        table[2 * b + 1] = 1000 + extra[b];
    }
    double independent = significance_judge(table, 10, 2, ROWS_ARE_TIME, verdict);
    assert_true(independent > 9.99);
    assert_true(fabs(verdict[1].p - 1.0 / 1024) < 1e-9);
    assert_true(verdict[0].p > 0.99);
    assert_true(fabs(verdict[1].slowest - 1) < 1e-9);
    assert_true(fabs(verdict[1].persistence - 1) < 1e-9);
    assert_true(fabs(verdict[1].ratio - 1.35) < 0.01);
}

static void batches_that_resemble_each_other_count_for_less(void **state) {
    (void)state;
    enum { BATCHES = 32 };
    int64_t steady[BATCHES * 2], wave[BATCHES * 2];
    struct significance verdict[2];
    for (int b = 0; b < BATCHES; b++) {
        steady[2 * b] = wave[2 * b] = 1000;
        steady[2 * b + 1] = 1200 + (b * 7919) % 100;
        wave[2 * b + 1] = 1200 + (int64_t)(100 * sin(b / 5.0)); /* above all the while, wandering */
    }
    double all = significance_judge(steady, BATCHES, 2, ROWS_ARE_TIME, verdict), chance = verdict[1].p;
    double few = significance_judge(wave, BATCHES, 2, ROWS_ARE_TIME, verdict);
    assert_true(all > 20);
    assert_true(few < 8);
    assert_true(verdict[1].p > chance * 1000);
}

/* Another job comes in the middle of the run: all steps take longer from then on, the slow rank's relatively less. */
static void a_drift_does_not_hide_a_rank_many_times_as_slow(void **state) {
    (void)state;
    enum { BATCHES = 31 };
    static const struct {
        double before, after;
        bool slow;
    } cases[] = {{5, 3.5, true}, {1.6, 1.2, false}, {5, 1, false}, {1, 5, false}, {1, 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t table[BATCHES * 2];
        struct significance verdict[2], *both[2] = {&verdict[0], &verdict[1]};
        for (int b = 0; b < BATCHES; b++) {
            double factor = b < BATCHES / 2 ? cases[i].before : cases[i].after;
            table[2 * b] = 10000 + (b * 7919) % 300;
            table[2 * b + 1] = (int64_t)(factor * (10000 + (b * 104729) % 300));
        }
        double independent = significance_judge(table, BATCHES, 2, ROWS_ARE_TIME, verdict);
        assert_true(independent < 8 || cases[i].before == cases[i].after);
        assert_true(significance_correct(both, 2));
        assert_int_equal(verdict[1].confidence >= CONFIDENCE_VERDICT, cases[i].slow);
        assert_true(verdict[0].confidence < CONFIDENCE_SUSPECT);
    }
}

/* `subjects` columns of which the last stands exp(level + wave(b)) above the others, who are equal. Returns the batches
 * that count as independent; *judged is the last one's. */
static double judge_wave(size_t subjects, double level, double (*wave)(int batch), struct significance *judged) {
    enum { BATCHES = 32, SUBJECTS_MOST = 16 };
    int64_t table[BATCHES * SUBJECTS_MOST];
    struct significance verdicts[SUBJECTS_MOST];
    for (int b = 0; b < BATCHES; b++)
        for (size_t i = 0; i < subjects; i++)
            table[(size_t)b * subjects + i] =
                i + 1 < subjects ? 1000000000 : (int64_t)(1000000000 * exp(level + wave(b)));
    double independent = significance_judge(table, BATCHES, subjects, ROWS_ARE_TIME, verdicts);
    *judged = verdicts[subjects - 1];
    return independent;
}

static double turn(int batch, double period) {
    return sin(2 * 3.14159265358979 * batch / period);
}
static double slow_wave(int batch) {
    return 0.1 * turn(batch, 10);
}
static double wave_with_some_zigzag(int batch) {
    return 0.1 * turn(batch, 8) + 0.013 * (batch % 2 ? 1 : -1);
}
static double wave_with_more_zigzag(int batch) {
    return 0.1 * turn(batch, 8) + 0.027 * (batch % 2 ? 1 : -1);
}
static double two_up_two_down(int batch) {
    return batch % 4 < 2 ? 0.1 : -0.1;
}

/* White noise has a lag-1 autocorrelation of -1 / K on average where the mean is estimated, too: 1 / K is added. This
 * column's is 1 / 32 as it stands: 32 (1 - 2 / 32) / (1 + 2 / 32). */
static void the_autocorrelations_bias_is_taken_out(void **state) {
    (void)state;
    struct significance judged;
    double independent = judge_wave(2, 0.5, two_up_two_down, &judged);
    assert_true(independent > 27.9 && independent < 28.5);
}

/* The slowest of 16 in every batch: below five independent ones that is no proof, with six it is. */
static void fewer_than_five_independent_batches_prove_nothing(void **state) {
    (void)state;
    struct significance judged;
    double independent = judge_wave(16, 0.5, slow_wave, &judged);
    assert_true(independent > 2.5 && independent < 5);
    assert_true(judged.p >= 1);
    independent = judge_wave(16, 0.5, wave_with_some_zigzag, &judged);
    assert_true(independent >= 5 && independent < 8);
    assert_true(judged.p < 0.001);
}

/* Of two ranks one is slower in 6 of 6 batches, by less than a drift may be: two ways to be named were looked at. In 10
 * of 10 counting is enough. */
static void from_eight_independent_batches_on_counting_is_enough(void **state) {
    (void)state;
    struct significance judged;
    double independent = judge_wave(2, 0.5, wave_with_some_zigzag, &judged);
    assert_true(independent >= 6 && independent < 7);
    assert_true(fabs(judged.p - 2.0 / 64) < 1e-9);
    independent = judge_wave(2, 0.5, wave_with_more_zigzag, &judged);
    assert_true(independent >= 9 && independent < 12);
    assert_true(fabs(judged.p - pow(2, -floor(independent))) < 1e-9);
}

static double wide_wave(int batch) {
    return 0.62 * turn(batch, 10);
}
static double narrow_wave(int batch) {
    return 0.49 * turn(batch, 10);
}

/* A rank 16 times as slow as the other, in a drift whose neighbours correlate by 0.975: its standard deviation is
 * sqrt(1 / 2 / 0.025) = 4.5 times the root mean square of its steps. 2.3 of these are no proof, 2.9 are. */
static void a_level_is_weighed_against_the_slowest_drift(void **state) {
    (void)state;
    struct significance judged[2], *both[2] = {&judged[0], &judged[1]};
    judged[0] = (struct significance){.p = 1};
    assert_true(judge_wave(2, log(16), wide_wave, &judged[1]) < 5);
    assert_true(significance_correct(both, 2));
    assert_true(judged[1].confidence < CONFIDENCE_VERDICT);
    judged[0] = (struct significance){.p = 1};
    assert_true(judge_wave(2, log(16), narrow_wave, &judged[1]) < 5);
    assert_true(significance_correct(both, 2));
    assert_true(judged[1].confidence >= CONFIDENCE_VERDICT);
}

static void few_batches_prove_nothing(void **state) {
    (void)state;
    int64_t table[7 * 4];
    struct significance verdict[4];
    for (int i = 0; i < 7 * 4; i++)
        table[i] = i % 4 == 2 ? 5000 : 1000;
    significance_judge(table, 7, 4, ROWS_ARE_TIME, verdict);
    assert_true(verdict[2].p >= 1);
    assert_true(verdict[2].ratio > 4.9);
}

static void testing_many_costs_confidence(void **state) {
    (void)state;
    struct significance verdicts[4] = {{.p = 0.001}, {.p = 0.9}, {.p = 0.004}, {.p = 0.5}};
    struct significance *all[4] = {&verdicts[0], &verdicts[1], &verdicts[2], &verdicts[3]};
    assert_true(significance_correct(all, 4));
    /* q = p * 4 / place: 0.004, -, 0.008, - */
    assert_true(fabs(verdicts[0].confidence - 0.96) < 1e-9);
    assert_true(fabs(verdicts[2].confidence - 0.92) < 1e-9);
    assert_true(verdicts[1].confidence == 0 && verdicts[3].confidence == 0);
}

static void situations_are_judged_right(void **state) {
    (void)state;
    enum { JOBS = 24 };
    unsigned nobody = 0, alarms = 0, planted = 0, found = 0;
    for (size_t i = 0; i < trial_count; i++) {
        struct trial_result result = trial_run(&trials[i], JOBS, 1000);
        if (trials[i].planted) {
            planted += JOBS;
            found += result.right;
        } else {
            nobody += JOBS;
            alarms += result.wrong;
        }
    }
    assert_true(alarms * 100 <= nobody);
    assert_true(found * 100 >= planted * 98);
}

/* ---- whole analyses -------------------------------------------------------------------------- */

struct played {
    struct scene_job job;
    struct common_clock clock;
    struct match_directory directory;
    struct straggler_analysis analysis;
};

static void play(struct played *played, const struct scene *scene, unsigned workers) {
    scene_open(&played->job, scene);
    assert_true(common_clock_build(&played->clock, played->job.dumps, played->job.ranks));
    assert_true(match_directory_build(&played->directory, played->job.dumps, played->job.ranks));
    assert_true(straggler_analyse(&played->analysis, &played->clock, &played->directory,
                                  &(struct straggler_request){.workers = workers}));
}

static void put_away(struct played *played) {
    straggler_analysis_free(&played->analysis);
    match_directory_free(&played->directory);
    common_clock_free(&played->clock);
    scene_close(&played->job);
}

static void one_rank_has_nobody_to_wait_for(void **state) {
    (void)state;
    struct scene scene = scene_standard();
    struct played played;
    scene.ranks = 1;
    play(&played, &scene, 1);
    assert_int_equal(played.analysis.judgement, JUDGED_ALONE);
    assert_int_equal(played.analysis.straggler_count, 0);
    assert_int_equal(played.analysis.waits.ranks[0].wait_ns, 0);
    put_away(&played);
}

static void a_short_job_is_too_short(void **state) {
    (void)state;
    struct scene scene = scene_standard();
    struct played played;
    scene.ranks = 4;
    scene.steps = 6;
    scene.slow_rank = 1;
    scene.slow_factor = 2;
    play(&played, &scene, 1);
    assert_int_equal(played.analysis.judgement, JUDGED_TOO_SHORT);
    assert_int_equal(played.analysis.straggler_count, 0);
    put_away(&played);
}

static void steps_are_not_cut_into_batches_without_work(void **state) {
    (void)state;
    struct scene scene = scene_standard();
    struct played played;
    scene.ranks = 4;
    scene.steps = 12;
    scene.collectives = 40;
    play(&played, &scene, 1);
    assert_in_range(played.analysis.batches, 11, 12);
    put_away(&played);
}

/* A batch lasts 10 ms at least: 20 steps of 5 ms make 10 of them. */
static void batches_are_not_shorter_than_time_slices(void **state) {
    (void)state;
    struct scene scene = scene_standard();
    struct played played;
    scene.ranks = 4;
    scene.steps = 20;
    scene.work_ns = 5000000;
    play(&played, &scene, 1);
    assert_in_range(played.analysis.batches, 8, 11);
    put_away(&played);
}

/* Rank 2 takes half as long again in two of three steps of `work_ns`. */
static size_t named_at_times(unsigned steps, uint64_t work_ns) {
    enum { RANKS = 4 };
    struct hand_job job;
    struct straggler_analysis analysis;
    hand_job_make(&job, RANKS, (struct dump_plan){0});
    for (unsigned r = 0; r < RANKS; r++) {
        uint64_t now = 1000000, random = 1 + r;
        for (uint32_t seq = 0; seq < steps; seq++) {
            bool slow = seq % 3 > 0;
            uint64_t work = (r == 2 && slow ? work_ns * 3 / 2 : work_ns) + scene_random(&random) % (work_ns / 50);
            uint64_t leave = now + (slow ? work_ns * 3 / 2 : work_ns) + work_ns / 10;
            dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, seq, 8, now + work, leave);
            now = leave;
        }
    }
    hand_job_open(&job, RANKS);
    assert_true(straggler_analyse(&analysis, &job.clock, &job.directory, &(struct straggler_request){.workers = 1}));
    size_t named = analysis.straggler_count;
    straggler_analysis_free(&analysis);
    hand_job_free(&job);
    return named;
}

/* Seven batches of 10 ms are too few whatever they hold. Were batches half as long, the first would be named; were they
 * twice as long, the second would not. */
static void what_lasts_a_few_time_slices_proves_nothing(void **state) {
    (void)state;
    assert_int_equal(named_at_times(24, 2000000), 0);
    assert_int_equal(named_at_times(42, 2000000), 1);
}

/* Rank 2 is away in every fifth step, after `iterations` collectives, up to `more` more by turns, and one at its end.
 */
static void away_in_every_fifth_step(unsigned iterations, unsigned more, uint32_t every) {
    enum { RANKS = 4, STEPS = 60, WORK = 1000000, SYNC = 1 << 10 };
    struct hand_job job;
    struct straggler_analysis analysis;
    char text[640];
    hand_job_make(&job, RANKS, (struct dump_plan){0});
    for (unsigned r = 0; r < RANKS; r++) {
        uint64_t now = 1000000, random = 1 + r;
        uint32_t seq = 0;
        for (unsigned step = 0; step < STEPS; step++) {
            unsigned last = iterations + step * 7 % (more + 1);
            for (unsigned i = 0; i <= last; i++) {
                uint64_t away = step % 5 == 4 && i == last ? 20 * WORK : 0;
                uint64_t work = WORK + scene_random(&random) % (WORK / 50) + (r == 2 ? away : 0);
                uint64_t leave = now + WORK + away + WORK / 10;
                dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, seq++, i < last ? 8 : SYNC,
                                        now + work, leave);
                now = leave;
            }
        }
    }
    hand_job_open(&job, RANKS);
    assert_true(straggler_analyse(&analysis, &job.clock, &job.directory, &(struct straggler_request){.workers = 1}));
    assert_int_equal(analysis.straggler_count, 1);
    assert_true(analysis.stragglers[0].at_times && analysis.stragglers[0].dumps[0] == 2);
    assert_int_equal(analysis.stragglers[0].when.every, every);
    assert_int_equal(analysis.stragglers[0].when.every_steps, 5);
    findings_evidence(&analysis, &analysis.stragglers[0], text, sizeof text);
    assert_non_null(strstr(text, "stretches (most of them 5 steps apart)"));
    straggler_analysis_free(&analysis);
    hand_job_free(&job);
}

static void slow_stretches_are_counted_in_steps(void **state) {
    (void)state;
    away_in_every_fifth_step(2, 0, 15);
    away_in_every_fifth_step(3, 5, 0);
}

/* Steps end in collectives of pairs; the world meets only before and after. Rank 2 takes twice as long as rank 3. */
static void ranks_are_compared_where_they_meet(void **state) {
    (void)state;
    enum { RANKS = 4, STEPS = 400, FRAME = 20 };
    struct hand_job job;
    struct straggler_analysis analysis;
    hand_job_make(&job, RANKS, (struct dump_plan){0});
    for (unsigned r = 0; r < RANKS; r++) {
        uint64_t now = 1000000, random = 1 + r;
        struct member_run pair = {(int32_t)(r / 2 * 2), 2, 1};
        uint32_t comm = dump_builder_communicator(job.builders[r], 0x50 + r / 2, "pair", (int32_t)(r % 2), &pair, 1);
        for (uint32_t seq = 0; seq < FRAME; seq++, now += 1000)
            dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, seq, 0, now, now + 900);
        for (uint32_t seq = 0; seq < STEPS; seq++) {
            uint64_t work = (r == 2 ? 2000000 : 1000000) + scene_random(&random) % 100000;
            uint64_t leave = now + (r / 2 ? 2200000 : 1200000);
            dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, comm, seq, 8, now + work, leave);
            now = leave;
        }
        uint64_t all_come = 1000000 + FRAME * UINT64_C(1000) + STEPS * UINT64_C(2200000);
        for (uint32_t seq = FRAME; seq < 2 * FRAME; seq++, now = all_come += 1000)
            dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, seq, 0, now, all_come + 900);
    }
    hand_job_open(&job, RANKS);
    assert_true(straggler_analyse(&analysis, &job.clock, &job.directory, &(struct straggler_request){.workers = 1}));
    assert_int_equal(analysis.comparison_groups.count, 2);
    assert_int_equal(analysis.straggler_count, 1);
    assert_int_equal(analysis.stragglers[0].dumps[0], 2);
    straggler_analysis_free(&analysis);
    hand_job_free(&job);
}

static void half_of_the_ranks_slow_is_uneven_work(void **state) {
    (void)state;
    struct scene scene = scene_standard();
    struct played played;
    scene.ranks_per_host = 4; /* hosts only to make half of the ranks slow; they share a boot id below */
    scene.slow_host = 1;
    scene.slow_factor = 1.5;
    scene_play(&played.job, &scene);
    for (unsigned r = 0; r < scene.ranks; r++) {
        size_t bytes;
        dump_builder_host(played.job.builders[r], "node", "00000000-0000-4000-8000-000000000000", 4026531834u);
        const void *data = dump_builder_data(played.job.builders[r], &bytes);
        played.job.dumps[r] = dump_open_buffer("scene", data, bytes);
    }
    assert_true(common_clock_build(&played.clock, played.job.dumps, played.job.ranks));
    assert_true(match_directory_build(&played.directory, played.job.dumps, played.job.ranks));
    assert_true(straggler_analyse(&played.analysis, &played.clock, &played.directory,
                                  &(struct straggler_request){.workers = 1}));
    assert_int_equal(played.analysis.straggler_count, 0);
    assert_int_equal(played.analysis.uneven_count, 4);
    put_away(&played);
}

static void the_verdict_does_not_depend_on_workers(void **state) {
    (void)state;
    struct scene scene = scene_standard();
    struct played one, four;
    scene.steps = 2000;
    scene.ring_records = 1024;
    scene.slow_rank = 3;
    scene.slow_factor = 1.1;
    play(&one, &scene, 1);
    play(&four, &scene, 4);
    assert_int_equal(one.analysis.straggler_count, 1);
    assert_int_equal(four.analysis.straggler_count, 1);
    assert_memory_equal(one.analysis.ranks, four.analysis.ranks, 8 * sizeof *one.analysis.ranks);
    assert_memory_equal(one.analysis.waits.ranks, four.analysis.waits.ranks, 8 * sizeof(struct rank_waits));
    assert_int_equal(one.analysis.stragglers[0].dumps[0], 3);
    assert_true(one.analysis.stragglers[0].what_if_speedup == four.analysis.stragglers[0].what_if_speedup);
    assert_true(one.analysis.stragglers[0].what_if_speedup > 1.03 && one.analysis.stragglers[0].what_if_speedup < 1.1);
    put_away(&one);
    put_away(&four);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_leave_one_out),
        cmocka_unit_test(chance_is_exact_for_two),
        cmocka_unit_test(batches_that_resemble_each_other_count_for_less),
        cmocka_unit_test(a_drift_does_not_hide_a_rank_many_times_as_slow),
        cmocka_unit_test(the_autocorrelations_bias_is_taken_out),
        cmocka_unit_test(fewer_than_five_independent_batches_prove_nothing),
        cmocka_unit_test(from_eight_independent_batches_on_counting_is_enough),
        cmocka_unit_test(a_level_is_weighed_against_the_slowest_drift),
        cmocka_unit_test(few_batches_prove_nothing),
        cmocka_unit_test(testing_many_costs_confidence),
        cmocka_unit_test(situations_are_judged_right),
        cmocka_unit_test(one_rank_has_nobody_to_wait_for),
        cmocka_unit_test(a_short_job_is_too_short),
        cmocka_unit_test(steps_are_not_cut_into_batches_without_work),
        cmocka_unit_test(batches_are_not_shorter_than_time_slices),
        cmocka_unit_test(what_lasts_a_few_time_slices_proves_nothing),
        cmocka_unit_test(slow_stretches_are_counted_in_steps),
        cmocka_unit_test(ranks_are_compared_where_they_meet),
        cmocka_unit_test(half_of_the_ranks_slow_is_uneven_work),
        cmocka_unit_test(the_verdict_does_not_depend_on_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
