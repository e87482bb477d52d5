/* SPDX-License-Identifier: Apache-2.0
 *
 * When shares of a job's steps, and its launches on GPUs, are worth a finding: cases just below and just above every
 * limit, from figures made by hand.
 * Must not live here: how steps are divided (test_steps.c), links (test_link_bandwidth.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/findings/advice.h"
#include "analyzer/findings/findings_gpu.h"
#include "analyzer/load/call_table.h"

enum { RANKS = 4, STEPS = 8 };

#define STEP INT64_C(100000000)

/* Steps of 100 ms, in which nothing is long. */
struct hand_steps {
    struct step steps[RANKS][STEPS];
    struct rank_steps ranks[RANKS];
    struct steps all;
    struct dump_header headers[RANKS];
    struct dump dumps[RANKS], *list[RANKS];
    struct job job;
    uint32_t stage_of[RANKS];
};

static void make_steps(struct hand_steps *hand, uint32_t count) {
    memset(hand, 0, sizeof *hand);
    for (unsigned r = 0; r < RANKS; r++) {
        for (uint32_t i = 0; i < count; i++)
            hand->steps[r][i] = (struct step){.number = i, .start_ns = i * STEP, .end_ns = (i + 1) * STEP};
        hand->ranks[r] = (struct rank_steps){.dump = r, .steps = hand->steps[r], .count = count};
        hand->headers[r].rank = (int32_t)r;
        hand->dumps[r].header = &hand->headers[r];
        hand->list[r] = &hand->dumps[r];
    }
    hand->all = (struct steps){.ranks = hand->ranks, .rank_count = RANKS, .count = count};
    hand->job = (struct job){.processes = hand->list, .process_count = RANKS, .dumps = hand->list, .count = RANKS};
}

/* Sets a figure of all steps of the ranks from `from` on, in ms. */
static void set_ms(struct hand_steps *hand, unsigned from, size_t offset, double ms) {
    for (unsigned r = from; r < RANKS; r++)
        for (size_t i = 0; i < hand->ranks[r].count; i++)
            *(int64_t *)((char *)&hand->steps[r][i] + offset) = (int64_t)(ms * 1e6);
}
#define SET(HAND, FROM, FIELD, MS) set_ms(HAND, FROM, offsetof(struct step, FIELD), MS)

static bool has(const struct findings *findings, const char *code) {
    for (size_t i = 0; i < findings->count; i++)
        if (strcmp(findings->items[i].code, code) == 0)
            return true;
    return false;
}

static bool is_advised(const struct hand_steps *hand, const char *code) {
    struct findings findings = {0};
    struct advice_limits limits = advice_standard();
    advice_add(&findings, &hand->all, &hand->job, hand->stage_of, &limits);
    bool found = has(&findings, code);
    findings_free(&findings);
    return found;
}

static void a_tenth_of_the_steps_is_worth_a_note(void **state) {
    (void)state;
    for (unsigned long_ = 0; long_ < 2; long_++) {
        struct hand_steps hand;
        make_steps(&hand, STEPS);
        SET(&hand, 0, communication_alone_ns, long_ ? 10.5 : 9.5);
        assert_int_equal(is_advised(&hand, "step_communication"), long_);
        make_steps(&hand, STEPS);
        SET(&hand, 0, receive_alone_ns, long_ ? 10.5 : 9.5);
        assert_int_equal(is_advised(&hand, "step_receive"), long_);
        make_steps(&hand, STEPS);
        SET(&hand, 3, collective_alone_ns, long_ ? 10.5 : 9.5);
        assert_int_equal(is_advised(&hand, "step_collective"), long_);
    }
}

/* What one rank spends in collectives is said where all ranks together spend less by a fifth. */
static void one_ranks_collectives_stand_out_by_a_fifth(void **state) {
    (void)state;
    for (unsigned less = 0; less < 2; less++) {
        struct hand_steps hand;
        make_steps(&hand, STEPS);
        SET(&hand, 0, communication_alone_ns, less ? 8.8 : 9.5);
        SET(&hand, 3, collective_alone_ns, 11);
        assert_int_equal(is_advised(&hand, "step_collective"), less);
    }
}

/* A fifth above the mean of all ranks, itself included: 1.2 (3 * 20 + x) / 4 is x at 25.7 ms. */
static void an_interval_a_fifth_above_the_mean_is_late(void **state) {
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct hand_steps hand;
        make_steps(&hand, STEPS);
        SET(&hand, 0, first_ns, 20);
        SET(&hand, 3, first_ns, late ? 26.5 : 25);
        assert_int_equal(is_advised(&hand, "step_interval"), late);
    }
}

/* A hundredth of a step longer than on average: 1 ms. */
static void short_intervals_are_nobodys_trouble(void **state) {
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct hand_steps hand;
        make_steps(&hand, STEPS);
        SET(&hand, 0, first_ns, 0.1);
        SET(&hand, 3, first_ns, late ? 1.5 : 1.35); /* 1.05 and 0.94 ms above the mean */
        assert_int_equal(is_advised(&hand, "step_interval"), late);
    }
}

/* A pipeline's first stage sends what it has worked, the others post receives at once. */
static void who_begins_with_something_else_is_not_late(void **state) {
    (void)state;
    for (unsigned alike = 0; alike < 2; alike++) {
        struct hand_steps hand;
        make_steps(&hand, STEPS);
        SET(&hand, 0, first_ns, 20);
        SET(&hand, 3, first_ns, 40);
        for (unsigned r = 0; r < RANKS; r++)
            for (size_t i = 0; i < STEPS; i++)
                hand.steps[r][i].begins = r == 3 && !alike ? STEP_BEGINS_WITH_SEND : STEP_BEGINS_WITH_RECEIVE;
        assert_int_equal(is_advised(&hand, "step_interval"), alike);
    }
}

/* Of an import, which has no process: 6 ms are nobody's where each time is known to 200 ms, and 280 ms are. */
static void times_that_were_looked_at_seldom_make_nobody_late(void **state) {
    (void)state;
    static const struct device_anchor anchor = {.version = 2, .width_ns = 200000000};
    for (unsigned late = 0; late < 2; late++)
        for (int32_t pid = 0; pid < 2; pid++) {
            struct hand_steps hand;
            make_steps(&hand, STEPS);
            for (unsigned r = 0; r < RANKS; r++) {
                hand.ranks[r].device = true;
                hand.headers[r].pid = pid;
                hand.dumps[r].device_anchors = &anchor;
                hand.dumps[r].device_anchor_count = 1;
            }
            SET(&hand, 0, first_ns, 20);
            SET(&hand, 3, first_ns, late ? 300 : 26.5);
            assert_int_equal(is_advised(&hand, "step_interval"), late || pid != 0);
        }
}

static bool is_blamed_on_its_gpu(const struct hand_steps *hand) {
    struct findings findings = {0};
    struct advice_limits limits = advice_standard();
    advice_add(&findings, &hand->all, &hand->job, hand->stage_of, &limits);
    bool gpu = false, host = false;
    for (size_t i = 0; i < findings.count; i++) {
        gpu |= strstr(findings.items[i].text, "work on its GPU") != NULL;
        host |= strstr(findings.items[i].text, "data loading") != NULL;
    }
    findings_free(&findings);
    assert_int_not_equal(gpu, host);
    return gpu;
}

/* Late by 10 ms: half of that in its stream is the GPU's doing, less of it the host's, as where nothing is known. */
static void who_was_enqueued_in_time_is_late_on_its_gpu(void **state) {
    (void)state;
    struct hand_steps hand;
    make_steps(&hand, STEPS);
    SET(&hand, 0, first_ns, 20);
    SET(&hand, 3, first_ns, 30);
    SET(&hand, 3, queued_ns, 5.5);
    assert_true(is_blamed_on_its_gpu(&hand));
    SET(&hand, 3, queued_ns, 4.5);
    assert_false(is_blamed_on_its_gpu(&hand));
    SET(&hand, 0, queued_ns, 2); /* all enqueue that much ahead of their GPUs */
    SET(&hand, 3, queued_ns, 7.5);
    assert_true(is_blamed_on_its_gpu(&hand));
    SET(&hand, 3, queued_ns, 6.5);
    assert_false(is_blamed_on_its_gpu(&hand));
    hand.steps[3][1].queued_ns = STEP_UNKNOWN;
    SET(&hand, 0, queued_ns, 20); /* of the others it tells nothing */
    hand.steps[3][1].queued_ns = STEP_UNKNOWN;
    assert_false(is_blamed_on_its_gpu(&hand));
}

/* Its replays do not tell when their graph was launched. */
static void a_gpu_of_which_too_little_is_known_blames_nobody(void **state) {
    (void)state;
    struct hand_steps hand;
    struct findings findings = {0};
    struct advice_limits limits = advice_standard();
    make_steps(&hand, STEPS);
    SET(&hand, 0, first_ns, 20);
    SET(&hand, 3, first_ns, 30);
    hand.all.ranks[3].device = true;
    hand.steps[3][1].queued_ns = STEP_UNKNOWN;
    advice_add(&findings, &hand.all, &hand.job, hand.stage_of, &limits);
    assert_int_equal(findings.count, 1);
    assert_non_null(strstr(findings.items[0].text, "is not known: that is its host or its GPU"));
    assert_null(strstr(findings.items[0].text, "data loading"));
    findings_free(&findings);
}

static void four_steps_are_enough(void **state) {
    (void)state;
    for (uint32_t count = 3; count <= 4; count++) {
        struct hand_steps hand;
        make_steps(&hand, count);
        SET(&hand, 0, communication_alone_ns, 50);
        assert_int_equal(is_advised(&hand, "step_communication"), count == 4);
    }
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

static char text_said[512];

static bool is_said(uint64_t joined, uint64_t bound, double memory, const char *code) {
    struct hand_steps hand;
    struct rank_launches launches[RANKS] = {{.joined = joined, .host_bound = bound}};
    struct rank_times times[RANKS] = {0};
    struct device_state devices[2] = {
        {.version = 2, .ordinal = 4, .capacity = 1000, .memory_samples = 9},
        {.version = 2, .ordinal = 5, .capacity = 1000, .memory_samples = 9, .memory_peak = (uint64_t)(memory * 1000)}};
    make_steps(&hand, STEPS);
    hand.dumps[1].devices = devices;
    hand.dumps[1].device_count = 1;
    hand.dumps[2].devices = devices;
    hand.dumps[2].device_count = 2;
    struct match_directory directory = {.dump_count = RANKS};
    struct straggler_analysis analysis = {.directory = &directory, .launches = launches, .times = times};
    struct findings findings = {0};
    findings_add_gpu(&findings, &hand.job, &analysis);
    bool found = has(&findings, code);
    snprintf(text_said, sizeof text_said, "%s", findings.count > 0 ? findings.items[0].text : "");
    findings_free(&findings);
    return found;
}

static void most_of_eight_launches_make_a_job_host_bound(void **state) {
    (void)state;
    assert_true(is_said(8, 5, 0, "host_bound"));
    assert_false(is_said(7, 7, 0, "host_bound"));
    assert_true(is_said(100, 51, 0, "host_bound"));
    assert_false(is_said(100, 49, 0, "host_bound"));
}

static void memory_is_full_at_nine_tenths(void **state) {
    (void)state;
    assert_true(is_said(0, 0, 0.91, "device_memory"));
    assert_non_null(strstr(text_said, "on rank 2 GPU 5.")); /* of the process' two */
    assert_false(is_said(0, 0, 0.89, "device_memory"));
}

static bool is_unseen_said(uint64_t wrapped, uint64_t plugged) {
    struct hand_steps hand;
    struct sensor_row row = {.call = 1, .wrapped = wrapped, .plugged = plugged};
    struct call_name call = {.id = 1, .api = API_NCCL, .name = "ncclAllReduce"};
    struct call_table table = {.calls = &call, .count = 1};
    struct rank_launches launches[RANKS] = {0};
    struct rank_times times[RANKS] = {0};
    make_steps(&hand, STEPS);
    hand.dumps[1].call_table = &table; /* its index is zeroed: every id is the first */
    hand.dumps[1].sensors = &row;
    hand.dumps[1].sensor_count = 1;
    struct match_directory directory = {.dump_count = RANKS};
    struct straggler_analysis analysis = {.directory = &directory, .launches = launches, .times = times};
    struct findings findings = {0};
    findings_add_gpu(&findings, &hand.job, &analysis);
    bool found = has(&findings, "unseen_calls");
    findings_free(&findings);
    return found;
}

static void half_a_percent_of_calls_may_go_unseen(void **state) {
    (void)state;
    assert_false(is_unseen_said(996, 1000));
    assert_true(is_unseen_said(994, 1000));
    assert_false(is_unseen_said(1000, 996));
    assert_true(is_unseen_said(1000, 994));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenth_of_the_steps_is_worth_a_note),
        cmocka_unit_test(one_ranks_collectives_stand_out_by_a_fifth),
        cmocka_unit_test(an_interval_a_fifth_above_the_mean_is_late),
        cmocka_unit_test(short_intervals_are_nobodys_trouble),
        cmocka_unit_test(who_begins_with_something_else_is_not_late),
        cmocka_unit_test(times_that_were_looked_at_seldom_make_nobody_late),
        cmocka_unit_test(who_was_enqueued_in_time_is_late_on_its_gpu),
        cmocka_unit_test(a_gpu_of_which_too_little_is_known_blames_nobody),
        cmocka_unit_test(four_steps_are_enough),
        cmocka_unit_test(most_of_eight_launches_make_a_job_host_bound),
        cmocka_unit_test(memory_is_full_at_nine_tenths),
        cmocka_unit_test(half_a_percent_of_calls_may_go_unseen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
