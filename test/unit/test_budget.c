/* SPDX-License-Identifier: Apache-2.0
 *
 * COMMTAP_BUDGET on a made clock: a process whose calls cost so much with each step in force.
 * Must not live here: what the steps leave out (test_own_cost.c, end-to-end tests).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>

#include "shim/base/knob_values.h"
#include "shim/record/budget.h"

enum { SECOND = 1000000000, EVERY = SECOND / 100, STEPS = 3, ALL = (1 << STEPS) - 1 };

/* Shares of the time, in millionths, that commtap takes with 0 to STEPS steps in force. */
struct process {
    struct budget budget;
    uint32_t costs[STEPS + 1];
    uint32_t available;
    uint64_t now;
    uint32_t changes, steps_back;
};

static struct process process_with(uint32_t millionths, uint32_t none, uint32_t one, uint32_t two, uint32_t all) {
    struct process p = {.costs = {none, one, two, all}, .available = ALL, .now = 12345};
    budget_begin(&p.budget, millionths, SECOND, p.now);
    return p;
}

static uint32_t in_force(const struct process *p) {
    return (uint32_t)__builtin_popcount(p->budget.shed);
}

/* Runs on; a measured call every 10 ms. Returns the share taken, in millionths. */
static uint32_t run(struct process *p, uint32_t seconds) {
    uint64_t taken = 0;
    for (uint64_t i = 0; i < (uint64_t)seconds * SECOND / EVERY; i++) {
        uint32_t before = p->budget.shed;
        uint64_t spent = (uint64_t)EVERY * p->costs[in_force(p)] / 1000000;
        p->now += EVERY;
        taken += spent;
        if (budget_spend(&p->budget, spent, p->now, p->available)) {
            p->changes++;
            p->steps_back += p->budget.shed < before;
            assert_int_not_equal(p->budget.shed, before);
        } else {
            assert_int_equal(p->budget.shed, before);
        }
        assert_int_equal(p->budget.shed & ~p->available, 0);
    }
    return (uint32_t)(taken / seconds / (SECOND / 1000000));
}

/* Whatever the budget between what all costs and what the least costs: within 20 % of it, over minutes and from the
 * beginning on. */
static void it_is_kept_within_a_fifth(void **state) {
    (void)state;
    static const uint32_t budgets[] = {12000, 15000, 20000, 29000, 35000, 49000};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        struct process p = process_with(budgets[i], 50000, 30000, 15000, 10000);
        uint32_t first = run(&p, 60), then = run(&p, 600);
        assert_in_range(first, budgets[i] * 4 / 5, budgets[i] * 6 / 5);
        assert_in_range(then, budgets[i] * 4 / 5, budgets[i] * 6 / 5);
    }
}

static void with_room_nothing_is_shed(void **state) {
    (void)state;
    struct process p = process_with(51000, 50000, 30000, 15000, 10000);
    assert_int_equal(run(&p, 600), 50000);
    assert_int_equal(p.changes, 0);
    p = process_with(0, 900000, 900000, 900000, 900000); /* no limit */
    run(&p, 60);
    assert_int_equal(p.changes, 0);
}

/* One after the other, and no further than needed: what the first two leave is within the budget. */
static void steps_are_taken_in_order(void **state) {
    (void)state;
    struct process p = process_with(20000, 50000, 30000, 15000, 10000);
    uint32_t seen = 0;
    for (int i = 0; i < 600; i++) {
        run(&p, 1);
        assert_true(p.budget.shed == 0 || p.budget.shed == 1 || p.budget.shed == 3);
        seen |= 1u << p.budget.shed;
    }
    assert_int_equal(seen & 1u << 3, 1u << 3);
    assert_int_equal(seen & 1u << 7, 0);
}

static void out_of_reach_all_are_in_force_for_good(void **state) {
    (void)state;
    struct process p = process_with(9000, 50000, 30000, 15000, 10000);
    run(&p, 600);
    assert_int_equal(p.budget.shed, ALL);
    assert_int_equal(p.changes, STEPS);
}

static void what_leaves_nothing_out_is_no_step(void **state) {
    (void)state;
    struct process p = process_with(9000, 50000, 30000, 15000, 10000);
    p.available = 1u << 1;
    run(&p, 60);
    assert_int_equal(p.budget.shed, 1u << 1);
    assert_int_equal(p.changes, 1);
}

/* A budget that lies between two steps makes them take turns, but seldom. */
static void steps_do_not_flap(void **state) {
    (void)state;
    struct process p = process_with(29000, 50000, 30000, 15000, 10000);
    run(&p, 600);
    p.changes = 0;
    run(&p, 600);
    assert_in_range(p.changes, 10, 300);
}

/* A step lasts a second, though what it leaves costs nothing at all. */
static void a_step_lasts_a_second_at_least(void **state) {
    (void)state;
    struct process p = process_with(10000, 50000, 0, 0, 0);
    while (p.budget.shed == 0)
        run(&p, 1);
    p = process_with(10000, 50000, 0, 0, 0);
    uint64_t taken = 0;
    for (int i = 0; i < 100000; i++) {
        uint32_t before = p.budget.shed;
        p.now += SECOND / 1000;
        budget_spend(&p.budget, p.budget.shed ? 0 : SECOND / 20000, p.now, ALL);
        if (p.budget.shed > before)
            taken = p.now;
        if (p.budget.shed < before)
            assert_in_range(p.now - taken, SECOND, INT64_MAX);
    }
    /* and not much longer where the job is young: a tenth of a second in, 20 % of the budget are made up for at once */
    p = process_with(10000, 50000, 0, 0, 0);
    while (p.budget.shed == 0) {
        p.now += SECOND / 1000;
        budget_spend(&p.budget, SECOND / 20000, p.now, ALL);
    }
    taken = p.now;
    while (p.budget.shed) {
        p.now += SECOND / 1000;
        budget_spend(&p.budget, 0, p.now, ALL);
    }
    assert_in_range(p.now - taken, SECOND, UINT64_C(3) * SECOND / 2);
}

/* Chance must not shed: seven measured calls are too few to judge by, eight are not. */
static void eight_measured_calls_judge_a_step(void **state) {
    (void)state;
    struct process p = process_with(10000, 0, 0, 0, 0);
    for (int i = 1; i <= BUDGET_SAMPLES; i++) {
        p.now += EVERY;
        assert_int_equal(budget_spend(&p.budget, EVERY / 2, p.now, ALL), i == 8);
    }
}

/* After a quiet hour a busy minute is judged as any other: what came before the last minute or so is forgotten. */
static void a_quiet_hour_is_no_credit(void **state) {
    (void)state;
    struct process p = process_with(10000, 0, 0, 0, 0);
    run(&p, 3600);
    p.costs[0] = 50000;
    uint32_t seconds = 0;
    for (; p.budget.shed == 0; seconds++)
        run(&p, 1);
    /* 30 to 60 s are remembered: credit for x s at 5 % where 1 % is allowed, x = (30 + x) / 5 to (60 + x) / 5 */
    assert_in_range(seconds, 7, 16);
}

static void the_knob_is_in_per_cent(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool sound;
        uint32_t millionths;
    } cases[] = {{"0", true, 0},
                 {"1", true, 10000},
                 {"0.5", true, 5000},
                 {"100", true, 1000000},
                 {"12.3456", true, 123456},
                 {".25", false, 0},
                 {"2.", true, 20000},
                 {"0.0001", true, 1},
                 {"", false, 0},
                 {".", false, 0},
                 {"100.0001", false, 0},
                 {"1%", false, 0},
                 {"-1", false, 0},
                 {"0.00001", false, 0},
                 {"1e2", false, 0},
                 {"1.2.3", false, 0},
                 {"99999999999999999999", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t value = 7;
        assert_int_equal(knob_percent(cases[i].text, &value), cases[i].sound);
        assert_int_equal(value, cases[i].sound ? cases[i].millionths : 7);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_kept_within_a_fifth),          cmocka_unit_test(with_room_nothing_is_shed),
        cmocka_unit_test(steps_are_taken_in_order),           cmocka_unit_test(out_of_reach_all_are_in_force_for_good),
        cmocka_unit_test(what_leaves_nothing_out_is_no_step), cmocka_unit_test(steps_do_not_flap),
        cmocka_unit_test(a_step_lasts_a_second_at_least),     cmocka_unit_test(eight_measured_calls_judge_a_step),
        cmocka_unit_test(a_quiet_hour_is_no_credit),          cmocka_unit_test(the_knob_is_in_per_cent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
