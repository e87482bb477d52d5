/* SPDX-License-Identifier: Apache-2.0
 *
 * A master hands out tasks to whoever is free: who is named in such a job, and who is not.
 * Must not live here: jobs whose steps are the same on all ranks (test_message_jobs.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/stragglers/stragglers.h"
#include "analyzer/stragglers/verdicts.h"
#include "test/scenes/scene.h"
#include "test/unit/job_builder.h"

enum { TASK = 1, RESULT = 2, ROUNDS = 60, START_NS = 1000000, CALL_NS = 5000 };

enum spread { EVEN, EXPONENTIAL, LOG_NORMAL, SPREADS };

struct demand {
    uint64_t seed;
    unsigned ranks;  /* the first one is the master */
    unsigned rounds; /* 0: ROUNDS */
    enum spread spread;
    double task_ns;
    double master_ns; /* of its own work with each result */
    double pause_ns;  /* that it is away with every 20th result */
    unsigned slow;    /* this worker takes ... */
    double factor;    /* ... so many times as long; 0: nobody does */
    double wander;    /* sd of each worker's own speed, which changes in some twenty tasks */
    double late_ns;   /* what comes in is seen up to so much later: others run on its processor */
    double turns_ns;  /* workers but the first take turns on a processor: tasks are seen so much later, 0.5 to 1.5 */
};

struct desk {
    struct hand_job job;
    const struct demand *demand;
    uint64_t random;
    double speed[HAND_RANKS_MAX];
    double free_at[HAND_RANKS_MAX]; /* when a worker's result is ready; the master: when it looks for the next one */
    unsigned taken;                 /* results */
    uint32_t given[HAND_RANKS_MAX], returned[HAND_RANKS_MAX];
};

static double task_time(struct desk *desk) {
    double u = scene_uniform(&desk->random), g = scene_gauss(&desk->random);
    switch (desk->demand->spread) {
    case EXPONENTIAL:
        return desk->demand->task_ns * (0.3 - 0.7 * log(1 - u));
    case LOG_NORMAL:
        return desk->demand->task_ns * exp(0.8 * g - 0.32);
    default:
        return desk->demand->task_ns * (0.9 + 0.2 * u);
    }
}

static double seen_later(struct desk *desk) {
    return CALL_NS + desk->demand->late_ns * scene_uniform(&desk->random);
}

static void say(struct desk *desk, unsigned rank, bool send, unsigned peer, int32_t tag, uint32_t number, double from,
                double to) {
    struct record *record = dump_builder_p2p(desk->job.builders[rank], 0, send ? BUILDER_SEND : BUILDER_RECV, 0,
                                             send ? FLAG_SEND : FLAG_RECV, (int32_t)peer, tag, number, 64,
                                             START_NS + (uint64_t)from, START_NS + (uint64_t)to);
    if (!send)
        record->flags |= FLAG_WILDCARD;
}

/* The master gives a task at `at`; the worker, who waits since `since`, works on it and sends its result. */
static void give_task(struct desk *desk, unsigned worker, double since, double at) {
    double seen = at + seen_later(desk);
    say(desk, 0, true, worker, TASK, desk->given[worker], at, at + CALL_NS);
    seen = seen > since + CALL_NS ? seen : since + CALL_NS;
    if (worker > 1 && desk->demand->turns_ns > 0)
        seen += desk->demand->turns_ns * (0.5 + scene_uniform(&desk->random));
    say(desk, worker, false, 0, TASK, desk->given[worker]++, since, seen);
    double slower = desk->demand->factor > 0 && worker == desk->demand->slow ? desk->demand->factor : 1;
    if (desk->demand->wander > 0) {
        double drawn = scene_gauss(&desk->random) * desk->demand->wander;
        desk->speed[worker] = 0.95 * desk->speed[worker] + sqrt(1 - 0.95 * 0.95) * drawn;
        slower *= exp(desk->speed[worker]);
    }
    desk->free_at[worker] = seen + slower * task_time(desk);
}

/* Takes the result that is there first; returns whose it is. */
static unsigned take_result(struct desk *desk) {
    unsigned first = 1;
    for (unsigned w = 2; w < desk->demand->ranks; w++)
        if (desk->free_at[w] < desk->free_at[first])
            first = w;
    double at = desk->free_at[first], since = desk->free_at[0];
    double seen = (at > since ? at : since) + seen_later(desk);
    say(desk, first, true, 0, RESULT, desk->returned[first], at, at + CALL_NS);
    say(desk, 0, false, first, RESULT, desk->returned[first]++, since, seen);
    desk->free_at[0] = seen + desk->demand->master_ns * (0.8 + 0.4 * scene_uniform(&desk->random));
    desk->free_at[0] += ++desk->taken % 20 == 0 ? desk->demand->pause_ns : 0;
    return first;
}

static void play(struct desk *desk, const struct demand *demand) {
    *desk = (struct desk){.demand = demand, .random = demand->seed};
    hand_job_make(&desk->job, demand->ranks, (struct dump_plan){.ring_records = 2048});
    for (unsigned w = 1; w < demand->ranks; w++, desk->free_at[0] += 2 * CALL_NS)
        give_task(desk, w, 0, desk->free_at[0]);
    for (unsigned left = (demand->rounds ? demand->rounds : ROUNDS) * (demand->ranks - 1),
                  under_way = demand->ranks - 1;
         under_way > 0;) {
        unsigned worker = take_result(desk);
        double since = desk->free_at[worker] + CALL_NS;
        if (left > under_way) {
            give_task(desk, worker, since, desk->free_at[0]);
            desk->free_at[0] += 2 * CALL_NS;
        } else {
            desk->free_at[worker] = INFINITY;
            under_way--;
        }
        left--;
    }
    hand_job_open(&desk->job, demand->ranks);
}

/* Bit r: rank r is named. `compared`: whether the master is compared with its workers. */
static unsigned named(const struct demand *demand, bool *compared) {
    struct desk desk;
    struct straggler_analysis analysis;
    unsigned ranks = 0;
    play(&desk, demand);
    assert_true(
        straggler_analyse(&analysis, &desk.job.clock, &desk.job.directory, &(struct straggler_request){.workers = 1}));
    for (size_t i = 0; i < analysis.straggler_count; i++)
        for (size_t d = 0; d < analysis.stragglers[i].dump_count; d++)
            ranks |= 1u << analysis.stragglers[i].dumps[d];
    *compared = analysis.ranks[0].ratio > 0 && analysis.ranks[1].ratio > 0;
    assert_true(analysis.judgement == (demand->ranks == 2 && !*compared ? JUDGED_UNLIKE : JUDGED));
    straggler_analysis_free(&analysis);
    hand_job_free(&desk.job);
    return ranks;
}

/* Nobody is slow; by chance some worker has the longest tasks and is the busiest. At most one job in a hundred names
 * somebody. */
static void the_busiest_of_equal_workers_is_not_named(void **state) {
    (void)state;
    unsigned accused = 0;
    bool compared;
    for (uint64_t seed = 1; seed <= 900; seed++) {
        struct demand demand = {.seed = 7100 + seed,
                                .ranks = 3 + (unsigned)(seed % 6),
                                .spread = (enum spread)(seed / 6 % SPREADS),
                                .task_ns = 15e6,
                                .master_ns = seed % 2 ? 0 : 0.5e6,
                                .late_ns = seed % 4 < 2 ? 0 : 8e6};
        accused += named(&demand, &compared) != 0;
    }
    assert_in_range(accused, 0, 9);
}

/* It does twice as many tasks as the others, who wait for a processor before each: it works for all of its time, they
 * for half of theirs. */
static void who_is_dealt_out_the_most_tasks_is_not_named(void **state) {
    (void)state;
    bool compared;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct demand demand = {.seed = 4400 + seed,
                                .ranks = 4,
                                .rounds = 200,
                                .spread = (enum spread)(seed % SPREADS),
                                .task_ns = 4e6,
                                .turns_ns = 4e6};
        assert_int_equal(named(&demand, &compared), 0);
    }
}

/* It works on each result longer than its workers need to bring the next one. */
static void a_master_who_cannot_keep_up_is_named(void **state) {
    (void)state;
    unsigned right = 0;
    bool compared;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct demand demand = {.seed = 9300 + seed,
                                .ranks = 4 + (unsigned)(seed % 4),
                                .spread = (enum spread)(seed % SPREADS),
                                .task_ns = 15e6,
                                .master_ns = 9e6,
                                .late_ns = seed % 2 ? 0 : 1e6};
        right += named(&demand, &compared) == 1;
    }
    assert_in_range(right, 38, 40);
}

/* With less than half of its workers' own work the master does something else by design. */
static void who_works_half_as_much_is_compared(void **state) {
    (void)state;
    static const struct {
        double share;
        bool compared;
    } cases[] = {{0.4, false}, {0.6, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool compared;
        struct demand demand = {
            .seed = 5, .ranks = 5, .task_ns = 15e6, .master_ns = cases[i].share * 15e6 / 4, .late_ns = 0};
        named(&demand, &compared);
        assert_int_equal(compared, cases[i].compared);
    }
}

/* The end of the job, true time. */
static double wall_of(const struct desk *desk) {
    return desk->free_at[0];
}

/* A worker gets fewer tasks the slower it is, so that all are busy alike: its tasks tell. */
static void a_slow_worker_is_named(void **state) {
    (void)state;
    enum { JOBS = 40 };
    unsigned right = 0, promised = 0;
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct desk desk, mended;
        struct straggler_analysis analysis;
        struct demand demand = {.seed = 9900 + seed,
                                .ranks = 3 + (unsigned)(seed % 4),
                                .rounds = 100,
                                .spread = (enum spread)(seed % SPREADS),
                                .task_ns = 8e6,
                                .master_ns = 20e3,
                                .factor = 1.5 + (double)(seed % 5) / 4};
        demand.slow = 1 + (unsigned)(seed / 4 % (demand.ranks - 1));
        play(&desk, &demand);
        assert_true(straggler_analyse(&analysis, &desk.job.clock, &desk.job.directory,
                                      &(struct straggler_request){.workers = 1}));
        demand.factor = 0;
        play(&mended, &demand);
        double really = wall_of(&desk) / wall_of(&mended);
        bool named = analysis.straggler_count == 1 && analysis.stragglers[0].dumps[0] == demand.slow;
        right += named;
        promised += named && fabs(analysis.stragglers[0].what_if_speedup / really - 1) < 0.1;
        if (named) {
            assert_true(analysis.stragglers[0].by_tasks && analysis.named_speedup >= 1 && analysis.even_speedup >= 1);
            assert_true(fabs(analysis.stragglers[0].slowdown_ratio / (1.5 + (double)(seed % 5) / 4) - 1) < 0.4);
        }
        straggler_analysis_free(&analysis);
        hand_job_free(&desk.job);
        hand_job_free(&mended.job);
    }
    assert_in_range(right, 38, JOBS);
    assert_in_range(promised, 34, JOBS);
}

/* Each worker's speed changes slowly, as where other jobs come and go: that is nobody's, however many tasks tell of it.
 */
static void workers_whose_speed_wanders_are_not_named(void **state) {
    (void)state;
    unsigned accused = 0;
    bool compared;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct demand demand = {.seed = 12000 + seed,
                                .ranks = 4 + (unsigned)(seed % 3),
                                .rounds = 150,
                                .task_ns = 8e6,
                                .master_ns = 20e3,
                                .wander = 0.15};
        accused += named(&demand, &compared) != 0;
    }
    assert_in_range(accused, 0, 2);
}

/* The only worker has all the work, and nobody to be compared with. */
static void the_only_worker_is_not_slow(void **state) {
    (void)state;
    static const struct {
        double share;
        bool compared;
    } cases[] = {{0, false}, {0.005, false}, {0.02, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool compared;
        struct demand demand = {
            .seed = 5, .ranks = 2, .task_ns = 15e6, .master_ns = cases[i].share * 15e6, .late_ns = 0};
        assert_true(named(&demand, &compared) == 0 || cases[i].compared);
        assert_int_equal(compared, cases[i].compared);
    }
}

/* Its master writes checkpoints: that holds it up, and costs what they take; after the last result nobody waits. */
static void a_pause_of_the_only_workers_master_is_seen(void **state) {
    (void)state;
    unsigned right = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct desk desk;
        struct straggler_analysis analysis;
        struct demand demand = {.seed = 8800 + seed,
                                .ranks = 2,
                                .rounds = 240,
                                .spread = (enum spread)(seed % SPREADS),
                                .task_ns = 5e6,
                                .master_ns = 10e3,
                                .pause_ns = 90e6};
        play(&desk, &demand);
        assert_true(straggler_analyse(&analysis, &desk.job.clock, &desk.job.directory,
                                      &(struct straggler_request){.workers = 1}));
        right += analysis.straggler_count == 1 && analysis.stragglers[0].dumps[0] == 0 &&
                 fabs(analysis.stragglers[0].what_if_speedup / ((240 * 5.0 + 11 * 90) / (240 * 5.0)) - 1) < 0.1;
        straggler_analysis_free(&analysis);
        hand_job_free(&desk.job);
    }
    assert_in_range(right, 18, 20);
}

/* Of the waits that go back to four ranks, compared by slices of time. */
static void half_of_all_waits_hold_up_the_others(void **state) {
    (void)state;
    static const size_t dumps[] = {0, 1, 2, 3};
    struct rank_delay_costs costs[] = {{.delay_cost_ns = 60}, {.delay_cost_ns = 20}, {.delay_cost_ns = 20}, {0}};
    struct cut cuts[] = {{.kind = CUT_TIME}, {.kind = CUT_TIME}, {.kind = CUT_TIME}, {.kind = CUT_TIME}};
    uint32_t group_of[] = {0, 0, 0, 0};
    const struct match_directory directory = {.dump_count = 4};
    struct straggler_analysis analysis = {.directory = &directory,
                                          .delay_costs = {.ranks = costs},
                                          .comparison_groups = {.cuts = cuts, .group_of = group_of}};
    assert_true(verdicts_may_hold_up(&analysis, &dumps[0], 1));
    assert_false(verdicts_may_hold_up(&analysis, &dumps[1], 2));
    assert_true(verdicts_may_hold_up(&analysis, &dumps[0], 2));
    cuts[1].kind = CUT_MESSAGE;
    assert_true(verdicts_may_hold_up(&analysis, &dumps[1], 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_busiest_of_equal_workers_is_not_named),
        cmocka_unit_test(who_is_dealt_out_the_most_tasks_is_not_named),
        cmocka_unit_test(a_master_who_cannot_keep_up_is_named),
        cmocka_unit_test(who_works_half_as_much_is_compared),
        cmocka_unit_test(a_slow_worker_is_named),
        cmocka_unit_test(workers_whose_speed_wanders_are_not_named),
        cmocka_unit_test(the_only_worker_is_not_slow),
        cmocka_unit_test(a_pause_of_the_only_workers_master_is_seen),
        cmocka_unit_test(half_of_all_waits_hold_up_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
