/* SPDX-License-Identifier: Apache-2.0
 *
 * Measuring what commtap takes in calls: which calls are measured, what they stand for, and what the steps of the
 * budget leave out. The calls are made here, the way the wrappers make them.
 * Must not live here: when a step is due (test_budget.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "shim/intercept/activate.h"
#include "shim/intercept/call_frame.h"
#include "shim/intercept/own_cost.h"
#include "shim/intercept/threads.h"
#include "shim/record/ring.h"
#include "shim/stacks/stacks.h"

static char directory[] = "/tmp/commtap-unit-XXXXXX";

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_STACK", "site", 1);
    setenv("COMMTAP_BUDGET", "0.5", 1);
    knobs_read(&recorder.knobs);
    return activate_process() ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static struct own_cost *cost(void) {
    return &recorder.header->own_cost;
}

/* A thread as at its first call, in a dump that knows nothing yet and has no limit. */
static struct thread *begin(void) {
    struct thread *self = current_thread();
    *cost() = (struct own_cost){.samples = 0};
    own_cost_begin();
    recorder.budget.millionths = 0;
    own_cost_attach(self);
    return self;
}

static void nothing(struct thread *self) {
    (void)self;
}

static const uintptr_t ordinary_sp = 0x10000;

/* One call, in which commtap does `work` before the real function. */
static void call(struct thread *self, void (*work)(struct thread *)) {
    if (ordinary_sp < self->outer)
        assert_false(thread_stays_within_call(self, ordinary_sp));
    self->outer = ordinary_sp;
    work(self);
    own_cost_before(self);
    own_cost_after(self, ticks());
}

/* Each call is stood for once, but for those since the last that was measured. */
static void measured_calls_stand_for_all(void **state) {
    (void)state;
    enum { CALLS = 300000, GAP_LONGEST = 2 * 1024 };
    struct thread *self = begin();
    for (int i = 0; i < CALLS; i++)
        call(self, nothing);
    assert_in_range(cost()->calls, CALLS - 4 * GAP_LONGEST, CALLS);
    assert_in_range(cost()->samples, CALLS / GAP_LONGEST, CALLS / 20);
    assert_true(cost()->ticks > 0);
}

/* Calls so short that measuring them counts: one in a thousand is measured. */
static void one_in_a_thousand_short_calls_is_measured(void **state) {
    (void)state;
    enum { CALLS = 200000 };
    struct thread *self = begin();
    for (int i = 0; i < CALLS / 2; i++)
        call(self, nothing);
    uint64_t before = cost()->samples + cost()->interrupted;
    for (int i = 0; i < CALLS; i++)
        call(self, nothing);
    assert_in_range(cost()->samples + cost()->interrupted - before, CALLS / 1024 * 7 / 10, CALLS / 1024 * 14 / 10);
}

static uint64_t apart; /* ticks */

static void come_apart(struct thread *self) {
    if (self->measured.begin)
        self->measured.last = ticks() - apart;
}

/* How many calls it is to the next one that is measured where those come so far apart, from `gap` on. */
static uint32_t gap_where(unsigned apart_ms, uint32_t gap) {
    struct thread *self = begin();
    apart = recorder.anchors.tick_hz / 1000 * apart_ms;
    self->measured.gap = gap;
    for (int i = 0; i < 50000; i++)
        call(self, come_apart);
    return self->measured.gap;
}

/* It grows below 5 ms and shrinks above 20; a thread that is kept waiting once is measured sooner. */
static void measured_calls_come_ten_milliseconds_apart(void **state) {
    (void)state;
    assert_in_range(gap_where(4, 8), 256, 1024);
    assert_int_equal(gap_where(7, 8), 8);
    assert_in_range(gap_where(15, 1024), 128, 1024);
    assert_int_equal(gap_where(25, 1024), 8);
}

static unsigned place, measured_at[4];

static void note_place(struct thread *self) {
    measured_at[place % 4] += self->measured.begin != 0;
}

/* Of a loop of four calls none is left out for ever. */
static void all_calls_of_a_loop_are_measured(void **state) {
    (void)state;
    struct thread *self = begin();
    for (place = 0; place < 400000; place++)
        call(self, note_place);
    for (int i = 0; i < 4; i++)
        assert_true(measured_at[i] * 16 > measured_at[0] + measured_at[1] + measured_at[2] + measured_at[3]);
}

static void sleep_a_millisecond(struct thread *self) {
    if (self->measured.begin)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* The processor was taken from the thread: that is nobody's cost, and the calls are stood for by the next one. */
static void interruptions_are_no_cost(void **state) {
    (void)state;
    struct thread *self = begin();
    for (int i = 0; i < 1000; i++)
        call(self, sleep_a_millisecond);
    assert_int_equal(cost()->samples, 0);
    assert_true(cost()->interrupted > 0);
    for (int i = 0; i < 100000; i++)
        call(self, nothing);
    assert_in_range(cost()->calls, 101000 - 4 * 2 * 1024, 101000);
}

static void take_long_for_once(struct thread *self) {
    thread_took(self, recorder.anchors.tick_hz); /* a second, as a stack seen for the first time */
    thread_took(self, 0);
}

/* Work that is measured whenever it is done counts once, and not for all the calls that one stands for. */
static void rare_work_counts_once(void **state) {
    (void)state;
    struct thread *self = begin();
    for (int i = 0; i < 100000; i++)
        call(self, i == 500 ? take_long_for_once : nothing);
    assert_in_range(cost()->ticks, recorder.anchors.tick_hz, recorder.anchors.tick_hz * 2);
}

static void spin(unsigned microseconds) {
    for (uint64_t end = ticks() + recorder.anchors.tick_hz / 1000000 * microseconds; ticks() < end;)
        ;
}

static unsigned spun;

/* 100 us in one of the calls that are measured, once they stand for many. */
static void spin_once(struct thread *self) {
    if (self->measured.begin && !spun && self->measured.stands_for > 500)
        spin(spun = 100);
}

/* What an interrupt took is not taken for the work of the hundreds of calls that the measured one stands for. */
static void what_took_long_once_counts_once(void **state) {
    (void)state;
    struct thread *self = begin();
    for (spun = 0; !spun;)
        call(self, spin_once);
    uint64_t microsecond = recorder.anchors.tick_hz / 1000000;
    assert_in_range(cost()->ticks, 100 * microsecond, 500 * 100 * microsecond / 4);
}

static void spin_always(struct thread *self) {
    (void)self;
    spin(20);
}

/* Calls that all become dearer by a hundred times, as when stacks are taken again, are believed after a few. */
static void what_became_usual_counts_for_all(void **state) {
    (void)state;
    enum { CALLS = 20000 };
    struct thread *self = begin();
    for (int i = 0; i < 100000; i++)
        call(self, nothing);
    uint64_t before = cost()->ticks, calls = cost()->calls;
    for (int i = 0; i < CALLS; i++)
        call(self, spin_always);
    uint64_t microsecond = recorder.anchors.tick_hz / 1000000;
    assert_true(cost()->ticks - before > (cost()->calls - calls) * 20 * microsecond * 7 / 10);
}

/* A call that goes past (PMPI_X), or is left by a jump, between the two that measuring takes. */
static void calls_that_go_past_disturb_nothing(void **state) {
    (void)state;
    struct thread *self = begin();
    for (int i = 0; i < 100000; i++) {
        if (self->outer == OUTER_MEASURED && i % 2) {
            assert_false(thread_is_in_call(self));
            assert_false(thread_is_within_call(self, ordinary_sp));
            self->outer = 0;
        }
        if (i % 5000 == 0) { /* in, and never out */
            if (ordinary_sp < self->outer)
                thread_stays_within_call(self, ordinary_sp);
            self->outer = ordinary_sp;
            own_cost_before(self);
            self->outer = 0;
        }
        call(self, nothing);
    }
    assert_true(cost()->samples > 10);
    assert_in_range(cost()->calls, 10000, 100000 + 1000);
}

/* One after the other; each is in the dump with how often and how long. */
static void steps_are_noted_in_the_dump(void **state) {
    (void)state;
    struct thread *self = begin();
    struct lane_state *lane = self->lane->state;
    own_cost_begin();
    assert_int_equal(cost()->budget_millionths, 5000);
    recorder.budget.millionths = 1; /* out of reach */
    for (int i = 0; i < 500000; i++)
        call(self, nothing);
    assert_int_equal(cost()->shed[SHED_GPU_TIMING].times, 0); /* there is no GPU */
    assert_int_equal(cost()->shed[SHED_STACKS].times, 1);
    assert_int_equal(cost()->shed[SHED_RECORDS].times, 1);
    assert_in_range(cost()->shed[SHED_STACKS].since, 1, cost()->shed[SHED_RECORDS].since);

    const uintptr_t frame[2] = {0, 0x1234};
    uint64_t records = self->lane->head;
    const struct facts facts = {{8, 0, 0, (uint64_t)RECORD_CALL << 32}};
    assert_int_equal(stack_here(self, frame, ordinary_sp), STACK_NONE);
    assert_int_equal(lane->stacks_shed, 1);
    ring_write_rare(self->lane, &facts, &(struct record_moment){1, 2, 0, 0}, true);
    assert_int_equal(lane->records_shed, 1);
    ring_write_rare(self->lane, &facts, &(struct record_moment){3, 4, 0, 0}, true);
    assert_int_equal(lane->records_shed, 2);
    assert_int_equal(self->lane->head, records + 1); /* the two have a ticket */
    record_mark(self, 100);                          /* steps are marked in any case */
    ring_write_rare(self->lane, &facts, &(struct record_moment){5, 6, 0, 0}, true);
    assert_int_equal(self->lane->head, records + 3);
    assert_int_equal(lane->stretches_shed, 2);
}

/* One record like the last; whether the short way took it. */
static bool write_again(struct thread *self, uint32_t template, const uint16_t *then) {
    uint64_t now = ticks();
    return ring_write_known(self->lane, (uint16_t) template, then, now, now, SEQ_NONE, 0);
}

static uint32_t write_first(struct thread *self, bool remembered) {
    const struct facts facts = {{16, 0, 0, (uint64_t)RECORD_CALL << KIND_SHIFT}};
    uint64_t now = ticks();
    return ring_write_rare(self->lane, &facts, &(struct record_moment){now, now, SEQ_NONE, 0}, remembered);
}

/* What is left out is counted, each one, and nothing else happens; no way leads past the leaving out, and none of it
 * outlasts it. */
static void records_are_left_out_by_a_short_way(void **state) {
    (void)state;
    struct thread *self = begin();
    struct lane *lane = self->lane;
    struct lane_state *counts = lane->state;
    recorder.records_shed = false;
    uint32_t known = write_first(self, true);
    uint64_t head = lane->head, left = counts->records_shed, stretches = counts->stretches_shed;
    assert_true(known && write_again(self, known, NULL) && lane->head == head + 1);

    recorder.records_shed = true;
    assert_int_equal(write_first(self, false), 0);
    assert_int_equal(lane->head, head + 2); /* the ticket that is missing */
    assert_int_equal(write_first(self, true), known);
    assert_true(write_again(self, known, NULL) && write_again(self, known, &(uint16_t){(uint16_t)known}));
    assert_int_equal(counts->records_shed, left + 5);
    assert_int_equal(lane->head, head + 2);

    record_mark(self, 100); /* is written; what follows begins another stretch */
    assert_false(write_again(self, known, NULL));
    assert_int_equal(lane->head, head + 3);
    assert_int_equal(write_first(self, true), known);
    assert_true(write_again(self, known, NULL));
    assert_int_equal(counts->records_shed, left + 7);
    assert_int_equal(counts->stretches_shed, stretches + 2);
    assert_int_equal(lane->head, head + 4);

    recorder.records_shed = false;
    assert_false(write_again(self, known, NULL)); /* there is no page yet */
    assert_int_equal(write_first(self, true), known);
    assert_true(write_again(self, known, NULL));
    assert_int_equal(lane->head, head + 6);
    assert_int_equal(counts->records_shed, left + 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_in_a_thousand_short_calls_is_measured),
        cmocka_unit_test(measured_calls_come_ten_milliseconds_apart),
        cmocka_unit_test(measured_calls_stand_for_all),
        cmocka_unit_test(all_calls_of_a_loop_are_measured),
        cmocka_unit_test(interruptions_are_no_cost),
        cmocka_unit_test(rare_work_counts_once),
        cmocka_unit_test(what_took_long_once_counts_once),
        cmocka_unit_test(what_became_usual_counts_for_all),
        cmocka_unit_test(calls_that_go_past_disturb_nothing),
        cmocka_unit_test(steps_are_noted_in_the_dump),
        cmocka_unit_test(records_are_left_out_by_a_short_way),
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
