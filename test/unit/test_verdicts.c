/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes a suspicion a claim: cases just below and just above every limit, from figures made by hand.
 * Lives here: tables of figures of a comparison group. Must not live here: statistics (test_stragglers.c), whole jobs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/stragglers/verdicts.h"

enum { RANKS = 12, PER_HOST = 4, HOSTS = RANKS / PER_HOST, BATCHES = 16 };

#define SECOND INT64_C(1000000000)
#define WINDOW (100 * SECOND)

/* A group of ranks that nobody waits for, in 100 s; who is slow is put in by hand. */
struct hand_group {
    struct straggler_analysis analysis;
    struct common_clock clock;
    struct match_directory directory;
    struct clock_host hosts[HOSTS];
    uint32_t host_of[RANKS], class_of[RANKS];
    struct rank_waits waits[RANKS];
    struct rank_delay_costs costs[RANKS];
    struct rank_times times[RANKS];
    struct significance ranks[RANKS];
    struct rank_leads leads[RANKS];
    struct straggler stragglers[4 * RANKS], suspects[RANKS], uneven[RANKS];
    size_t dumps[RANKS], lists[4 * RANKS], sizes[1];
    bool explained[RANKS];
    int64_t self_ns[BATCHES * RANKS];
    struct time_batches batches;
    struct rank_classes classes;
};

static void make_group(struct hand_group *group) {
    memset(group, 0, sizeof *group);
    group->clock = (struct common_clock){
        .dump_count = RANKS, .hosts = group->hosts, .host_count = HOSTS, .host_of = group->host_of};
    group->directory = (struct match_directory){.dump_count = RANKS};
    group->analysis = (struct straggler_analysis){.clock = &group->clock,
                                                  .directory = &group->directory,
                                                  .window_ns = WINDOW,
                                                  .class_of = group->class_of,
                                                  .times = group->times,
                                                  .ranks = group->ranks,
                                                  .leads = group->leads,
                                                  .stragglers = group->stragglers,
                                                  .suspects = group->suspects,
                                                  .uneven = group->uneven};
    group->analysis.waits.ranks = group->waits;
    group->analysis.delay_costs.ranks = group->costs;
    group->batches =
        (struct time_batches){.dumps = group->dumps, .dump_count = RANKS, .self_ns = group->self_ns, .count = BATCHES};
    group->sizes[0] = RANKS;
    group->classes = (struct rank_classes){.count = 1, .class_of = group->class_of, .sizes = group->sizes};
    for (unsigned r = 0; r < RANKS; r++) {
        group->dumps[r] = r;
        group->host_of[r] = r / PER_HOST;
        group->times[r].self_ns = WINDOW / 2;
        group->ranks[r] = (struct significance){.ratio = 1, .p = 1};
        for (unsigned b = 0; b < BATCHES; b++) /* no order that lasts */
            group->self_ns[b * RANKS + r] = SECOND + (int64_t)(r * 7919 + b * 104729) % 1000;
    }
}

/* A rank that is named beyond doubt. */
static void slow_down(struct hand_group *group, unsigned rank) {
    group->ranks[rank] =
        (struct significance){.ratio = 1.5, .persistence = 1, .slowest = 1, .p = 0.0001, .confidence = 0.99};
    group->times[rank].self_ns = WINDOW * 3 / 4;
    group->waits[rank].waited_for_ns = 10 * SECOND;
}

static const struct straggler_analysis *judge(struct hand_group *group) {
    struct verdicts verdicts = {.analysis = &group->analysis, .lists = group->lists, .explained = group->explained};
    assert_true(verdicts_name_comparison_group(&verdicts, &group->classes, &group->batches));
    return &group->analysis;
}

static void confidence_makes_a_claim_or_a_suspicion(void **state) {
    (void)state;
    static const struct {
        double confidence;
        size_t claimed, suspected;
    } cases[] = {{0.905, 1, 0}, {0.895, 0, 1}, {0.505, 0, 1}, {0.495, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_group group;
        make_group(&group);
        slow_down(&group, 5);
        group.ranks[5].confidence = cases[i].confidence;
        const struct straggler_analysis *analysis = judge(&group);
        assert_int_equal(analysis->straggler_count, cases[i].claimed);
        assert_int_equal(analysis->suspect_count, cases[i].suspected);
    }
}

static void five_percent_slower_is_slow(void **state) {
    (void)state;
    for (unsigned slow = 0; slow < 2; slow++) {
        struct hand_group group;
        make_group(&group);
        slow_down(&group, 5);
        group.ranks[5].ratio = slow ? 1.06 : 1.04;
        assert_int_equal(judge(&group)->straggler_count, slow);
    }
}

/* What the others wait, in collectives or elsewhere, and what it works longer: each a hundredth of the time. */
static void a_hundredth_of_the_time_matters(void **state) {
    (void)state;
    static const struct {
        double waited, longer_in_communication, extra; /* seconds of 100 */
        bool claimed;
    } cases[] = {{1.1, 0, 5, true},  {0.9, 0, 5, false}, {0, 1.1, 5, true},
                 {0, 0.9, 5, false}, {5, 0, 1.1, true},  {5, 0, 0.9, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_group group;
        make_group(&group);
        slow_down(&group, 5);
        group.waits[5].waited_for_ns = (int64_t)(cases[i].waited * (double)SECOND);
        for (unsigned r = 0; r < RANKS; r++) {
            group.times[r].comm_ns =
                10 * SECOND + (r == 5 ? 0 : (int64_t)(cases[i].longer_in_communication * (double)SECOND));
            group.times[r].self_ns = (int64_t)((r == 5 ? 3 : 2) * cases[i].extra * (double)SECOND);
        }
        assert_int_equal(judge(&group)->straggler_count, cases[i].claimed);
    }
}

/* Half as long again in most batches, which end for one rank earlier in its work than for others: who has not more work
 * than they in all is not slow. */
static void who_works_no_longer_in_all_is_not_slow(void **state) {
    (void)state;
    for (unsigned slow = 0; slow < 2; slow++) {
        struct hand_group group;
        make_group(&group);
        slow_down(&group, 5);
        group.times[5].self_ns = WINDOW / 2 + (slow ? 11 : 9) * SECOND / 10;
        assert_int_equal(judge(&group)->straggler_count, slow);
    }
}

/* Of twelve ranks four may be slow; with a fifth it is how the work is dealt out. */
static void more_than_a_third_slow_is_uneven(void **state) {
    (void)state;
    for (unsigned slow = 4; slow <= 5; slow++) {
        struct hand_group group;
        make_group(&group);
        for (unsigned i = 0; i < slow; i++)
            slow_down(&group, i * 2);
        const struct straggler_analysis *analysis = judge(&group);
        assert_int_equal(analysis->straggler_count, slow == 4 ? 4 : 0);
        assert_int_equal(analysis->uneven_count, slow == 4 ? 0 : 5);
    }
}

/* Of four ranks two may be slow, of three one. */
static void two_of_four_are_stragglers(void **state) {
    (void)state;
    for (unsigned ranks = 3; ranks <= 4; ranks++) {
        struct hand_group group;
        make_group(&group);
        group.batches.dump_count = group.sizes[0] = ranks;
        slow_down(&group, 0);
        slow_down(&group, 2);
        const struct straggler_analysis *analysis = judge(&group);
        assert_int_equal(analysis->straggler_count, ranks == 4 ? 2 : 0);
        assert_int_equal(analysis->uneven_count, ranks == 4 ? 0 : 2);
    }
}

/* Of two ranks both are slow at times, beyond chance; the second takes so much longer in all, of 100 s. */
static void a_lesser_one_makes_no_uneven_work(void **state) {
    (void)state;
    for (unsigned tenths = 15; tenths <= 40; tenths += 25) { /* of 20 s that the first one takes longer: 7 and 17 % */
        struct hand_group group;
        uint32_t calls[1] = {100};
        make_group(&group);
        group.batches.dump_count = group.sizes[0] = 2;
        for (unsigned r = 0; r < 2; r++) {
            group.waits[r].waited_for_ns = 30 * SECOND;
            group.times[r].bins = (struct rank_bins){.count = 1, .calls = calls};
            group.leads[r] = (struct rank_leads){.confidence = 0.99,
                                                 .slow_ratio = 2,
                                                 .lead_ns = (r == 0 ? 20 : tenths / 10.0) * 1e9 / 100,
                                                 .self_ratio = 1.02,
                                                 .usual_ratio = 1,
                                                 .rows = 100,
                                                 .slow_rows = 10};
        }
        const struct straggler_analysis *analysis = judge(&group);
        assert_int_equal(analysis->straggler_count, tenths == 15);
        assert_int_equal(analysis->suspect_count, tenths == 15);
        assert_int_equal(analysis->uneven_count, tenths == 15 ? 0 : 2);
    }
}

/* A rank is slow at times: its confidence, how slow it is then, and what its leads cost, on both sides of each limit.
 */
static void a_rank_slow_at_times_is_judged_like_others(void **state) {
    (void)state;
    static const struct {
        double confidence, slow_ratio, lead_seconds; /* the leads of 100 s */
        size_t claimed, suspected;
    } cases[] = {{0.95, 2, 5, 1, 0},    {0.85, 2, 5, 0, 1},   {0.45, 2, 5, 0, 0},  {0.95, 1.06, 5, 1, 0},
                 {0.95, 1.04, 5, 0, 0}, {0.95, 2, 1.1, 1, 0}, {0.95, 2, 0.9, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_group group;
        uint32_t calls[1] = {100};
        make_group(&group);
        group.waits[5].waited_for_ns = 10 * SECOND;
        group.times[5].bins = (struct rank_bins){.count = 1, .calls = calls};
        group.leads[5] = (struct rank_leads){.confidence = cases[i].confidence,
                                             .slow_ratio = cases[i].slow_ratio,
                                             .lead_ns = cases[i].lead_seconds * 1e9 / 100,
                                             .self_ratio = 1.02,
                                             .usual_ratio = 1,
                                             .rows = 100,
                                             .slow_rows = 10};
        const struct straggler_analysis *analysis = judge(&group);
        assert_int_equal(analysis->straggler_count, cases[i].claimed);
        assert_int_equal(analysis->suspect_count, cases[i].suspected);
    }
}

/* What a stage of a pipeline works before one message it works less before the next: who works no longer in all is not
 * slow at times. Where all meet at the end of each stretch it is. */
static void who_works_no_longer_in_all_is_not_slow_before_some_messages(void **state) {
    (void)state;
    static const struct {
        enum cut_kind kind;
        int64_t more; /* of own work in all, tenths of a second of 100 s */
        size_t claimed;
    } cases[] = {{CUT_MESSAGE, 9, 0}, {CUT_MESSAGE, 11, 1}, {CUT_COLLECTIVE, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_group group;
        uint32_t calls[1] = {100};
        make_group(&group);
        group.waits[5].waited_for_ns = 10 * SECOND;
        group.times[5].bins = (struct rank_bins){.count = 1, .calls = calls};
        group.times[5].cut.kind = cases[i].kind;
        group.times[5].self_ns = WINDOW / 2 + cases[i].more * SECOND / 10;
        group.leads[5] = (struct rank_leads){.confidence = 0.95,
                                             .slow_ratio = 2,
                                             .lead_ns = 5e7,
                                             .self_ratio = 1.02,
                                             .usual_ratio = 1,
                                             .rows = 100,
                                             .slow_rows = 10};
        assert_int_equal(judge(&group)->straggler_count, cases[i].claimed);
    }
}

/* Who usually works less than a hundredth of what the others do has no peer: that it works no longer in all says
 * nothing. */
static void who_is_idle_usually_is_not_compared_in_all(void **state) {
    (void)state;
    for (int idle = 0; idle < 2; idle++) {
        struct hand_group group;
        uint32_t calls[1] = {100};
        make_group(&group);
        group.waits[5].waited_for_ns = 10 * SECOND;
        group.times[5].bins = (struct rank_bins){.count = 1, .calls = calls};
        group.times[5].cut.kind = CUT_MESSAGE;
        group.times[5].self_ns = WINDOW / 4;
        group.leads[5] = (struct rank_leads){.confidence = 0.95,
                                             .slow_ratio = 2,
                                             .lead_ns = 5e7,
                                             .longer_ns = 1e9,
                                             .self_ratio = 0.5,
                                             .usual_ratio = idle ? 0.009 : 0.011,
                                             .rows = 100,
                                             .slow_rows = 10};
        const struct straggler_analysis *analysis = judge(&group);
        assert_int_equal(analysis->straggler_count, idle);
        assert_true(!idle || analysis->stragglers[0].when.without_peer);
    }
}

/* Slow in its median stretch it is slow throughout, whatever its leads say; else at times, also where a long run's
 * batches are all slow since each holds a few slow stretches. */
static void who_is_slow_in_its_median_stretch_is_slow_throughout(void **state) {
    (void)state;
    static const double usual[] = {1.06, 1.04};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        struct hand_group group;
        uint32_t calls[1] = {100};
        make_group(&group);
        slow_down(&group, 5);
        group.ranks[5].persistence = 1;
        group.times[5].bins = (struct rank_bins){.count = 1, .calls = calls};
        group.leads[5] = (struct rank_leads){.confidence = 0.99,
                                             .slow_ratio = 2,
                                             .usual_ratio = usual[i],
                                             .lead_ns = 5e7,
                                             .self_ratio = 1.3,
                                             .rows = 100,
                                             .slow_rows = 50};
        const struct straggler_analysis *analysis = judge(&group);
        assert_int_equal(analysis->straggler_count, 1);
        assert_int_equal(analysis->stragglers[0].at_times, i == 1);
    }
}

/* What is known of work only by waits is of no single stretch: by leads only who works longer in all is slow, and who
 * is slow in its batches is slow throughout. From a hundredth of the time on. */
static void what_waits_tell_of_is_of_no_single_stretch(void **state) {
    (void)state;
    static const struct {
        double hidden_seconds, self_ratio;
        bool in_batches, claimed, at_times;
    } cases[] = {{0.5, 1.02, false, true, true}, {2, 1.02, false, false, false}, {2, 1.04, false, false, false},
                 {2, 1.06, false, true, true},   {2, 1.06, true, true, false},   {0.5, 1.06, true, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_group group;
        uint32_t calls[1] = {100};
        make_group(&group);
        group.waits[5].waited_for_ns = 10 * SECOND;
        if (cases[i].in_batches)
            slow_down(&group, 5);
        group.times[0].hidden_ns = (int64_t)(cases[i].hidden_seconds * (double)SECOND);
        group.times[5].bins = (struct rank_bins){.count = 1, .calls = calls};
        group.leads[5] = (struct rank_leads){.confidence = 0.99,
                                             .slow_ratio = 2,
                                             .usual_ratio = 1,
                                             .lead_ns = 5e7,
                                             .self_ratio = cases[i].self_ratio,
                                             .rows = 100,
                                             .slow_rows = 10};
        const struct straggler_analysis *analysis = judge(&group);
        assert_int_equal(analysis->straggler_count, cases[i].claimed);
        assert_int_equal(cases[i].claimed && analysis->stragglers[0].at_times, cases[i].at_times);
    }
}

/* All of host 1 takes half as long again; of its ranks so many show it by so much, in such a share of the batches. */
static void a_host_is_slow_as_a_whole(void **state) {
    (void)state;
    static const struct {
        unsigned ranks;
        double ratio, persistence;
        bool claimed;
    } cases[] = {{3, 1.03, 0.55, true}, {2, 1.03, 0.55, false}, {3, 1.02, 0.55, false}, {3, 1.03, 0.45, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_group group;
        make_group(&group);
        for (unsigned r = PER_HOST; r < 2 * PER_HOST; r++) {
            bool shows = r < PER_HOST + cases[i].ranks;
            group.waits[r].waited_for_ns = 10 * SECOND;
            group.ranks[r].ratio = shows ? cases[i].ratio : 1;
            group.ranks[r].persistence = shows ? cases[i].persistence : 0;
            group.times[r].self_ns = WINDOW * 3 / 4;
            for (unsigned b = 0; b < BATCHES; b++)
                group.self_ns[b * RANKS + r] += SECOND / 2;
        }
        const struct straggler_analysis *analysis = judge(&group);
        assert_int_equal(analysis->straggler_count, cases[i].claimed);
        if (cases[i].claimed) {
            assert_int_equal(analysis->stragglers[0].kind, STRAGGLER_HOST);
            assert_int_equal(analysis->stragglers[0].host, 1);
            assert_int_equal(analysis->stragglers[0].dump_count, PER_HOST);
        }
    }
}

/* In each of 200 collectives another rank takes three times as long. Classes of three ranks have peers enough to tell,
 * classes of two have none. */
static void three_of_a_class_can_take_turns(void **state) {
    (void)state;
    enum { COLLECTIVES = 200 };
    for (unsigned peers = 2; peers <= 3; peers++) {
        struct hand_group group;
        size_t sizes[RANKS];
        make_group(&group);
        for (unsigned r = 0; r < RANKS; r++) {
            group.class_of[r] = r / peers;
            sizes[r / peers] = peers;
            assert_true(rank_times_init(&group.times[r], &(struct cut){.kind = CUT_COLLECTIVE}, 2, 4, false));
            group.times[r].bins.count = 1;
            group.times[r].bins.calls[0] = COLLECTIVES;
            group.times[r].self_ns = WINDOW / 2;
            group.times[r].comm_ns = WINDOW / 4;
            for (uint32_t i = 0; i < COLLECTIVES; i++)
                sampled_collectives_add(&group.times[r].sampled, i,
                                        SECOND / 10 * (i * 5 % RANKS == r ? 3 : 1) + (i * 7919 + r * 104729) % 1000000);
        }
        group.classes = (struct rank_classes){.count = RANKS / peers, .class_of = group.class_of, .sizes = sizes};
        const struct straggler_analysis *analysis = judge(&group);
        assert_int_equal(analysis->straggler_count, peers == 3);
        assert_true(peers == 2 || analysis->stragglers[0].kind == STRAGGLER_ROTATING);
        for (unsigned r = 0; r < RANKS; r++)
            rank_times_free(&group.times[r]);
    }
}

/* A start that takes as long as all the rest leaves enough batches to judge by. */
static void a_long_start_does_not_eat_the_batches(void **state) {
    (void)state;
    enum { BINS = 41 };
    int64_t self_ns[BINS];
    uint32_t calls[BINS];
    for (unsigned i = 0; i < BINS; i++) {
        self_ns[i] = i ? 1000000 : 1000000000;
        calls[i] = 1;
    }
    const struct rank_bins bins = {.count = BINS, .room = BINS, .capacity = BINS, .self_ns = self_ns, .calls = calls};
    const struct cut cut = {.kind = CUT_COLLECTIVE};
    struct rank_times times[2] = {{.bins = bins, .cut = cut}, {.bins = bins, .cut = cut}};
    size_t members[2] = {0, 1};
    struct time_batches batches;
    assert_true(time_batches_make(&batches, times, members, 2, TIME_BATCHES_MOST));
    assert_in_range(batches.count, TIME_BATCHES_MIN, TIME_BATCHES_MIN + 2);
    time_batches_free(&batches);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(confidence_makes_a_claim_or_a_suspicion),
        cmocka_unit_test(five_percent_slower_is_slow),
        cmocka_unit_test(a_hundredth_of_the_time_matters),
        cmocka_unit_test(who_works_no_longer_in_all_is_not_slow),
        cmocka_unit_test(more_than_a_third_slow_is_uneven),
        cmocka_unit_test(two_of_four_are_stragglers),
        cmocka_unit_test(a_lesser_one_makes_no_uneven_work),
        cmocka_unit_test(a_rank_slow_at_times_is_judged_like_others),
        cmocka_unit_test(what_waits_tell_of_is_of_no_single_stretch),
        cmocka_unit_test(who_works_no_longer_in_all_is_not_slow_before_some_messages),
        cmocka_unit_test(who_is_idle_usually_is_not_compared_in_all),
        cmocka_unit_test(who_is_slow_in_its_median_stretch_is_slow_throughout),
        cmocka_unit_test(a_host_is_slow_as_a_whole),
        cmocka_unit_test(three_of_a_class_can_take_turns),
        cmocka_unit_test(a_long_start_does_not_eat_the_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
