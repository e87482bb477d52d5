/* SPDX-License-Identifier: Apache-2.0
 *
 * Computation beside communication of which only the waits for communication tell.
 * Lives here: single operations and waits with round numbers, and the stretches that a rank's own work counts in.
 * Must not live here: what is said of whole jobs (test_nccl_overlap.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/stragglers/ranks.h"

enum { SIDE, MAIN }; /* communicators whose operations have streams of their own, and that of the computation */

struct taken {
    int64_t begin_ns, hidden_ns;
    unsigned count;
};

static void take(void *context, int64_t begin_ns, int64_t hidden_ns) {
    struct taken *taken = context;
    taken->begin_ns = taken->count++ == 0 ? begin_ns : taken->begin_ns;
    taken->hidden_ns += hidden_ns;
}

static struct hidden_work work;
static struct taken taken;

static int begin(void **state) {
    (void)state;
    work = (struct hidden_work){0};
    taken = (struct taken){0};
    return 0;
}

static void ran(uint32_t op, uint32_t comm, int64_t begin_ns, int64_t end_ns) {
    const struct hidden_operation operation = {.begin_ns = begin_ns, .end_ns = end_ns, .op = op, .comm = comm};
    hidden_work_launched(&work, &operation, take, &taken);
}

static void reached(uint32_t op, int64_t at_ns) {
    hidden_work_reached(&work, op, at_ns, take, &taken);
}

static void what_ran_before_its_stream_came_to_the_wait_was_hidden(void **state) {
    (void)state;
    hidden_work_posted(&work, 1, 0);
    ran(1, SIDE, 100, 900);
    reached(1, 600);
    assert_int_equal(taken.hidden_ns, 500);
    assert_int_equal(taken.begin_ns, 100);
}

static void a_wait_that_was_there_first_hides_nothing(void **state) {
    (void)state;
    reached(1, 50);
    ran(1, SIDE, 100, 900);
    assert_int_equal(taken.count, 0);
}

/* The host that ran ahead had enqueued what follows, and with it the wait. One that came later than the operation's end
 * may have waited for that end itself. */
static void a_wait_after_the_end_tells_something_where_the_host_ran_ahead(void **state) {
    (void)state;
    hidden_work_posted(&work, 2, 0);
    ran(1, SIDE, 100, 300);
    reached(1, 600);
    assert_int_equal(taken.hidden_ns, 200);
    ran(3, SIDE, 700, 900);
    hidden_work_posted(&work, 4, 899);
    reached(3, 1000);
    assert_int_equal(taken.hidden_ns, 400);
    ran(5, SIDE, 1100, 1200);
    hidden_work_posted(&work, 6, 1200);
    reached(5, 1300);
    assert_int_equal(taken.hidden_ns, 400);
}

/* Behind an operation that was awaited a stream of another communication may wait again, at any time. */
static void only_the_first_wait_tells(void **state) {
    (void)state;
    ran(1, MAIN, 100, 300);
    hidden_work_posted(&work, 2, 100);
    reached(1, 90);
    reached(1, 600);
    assert_int_equal(taken.count, 0);
}

/* Streams keep order: a wait for the last of several is one for all. What another communicator's operations share is
 * not computation: the stream may have been in these. */
static void a_wait_is_for_all_before_it_on_its_communicator(void **state) {
    (void)state;
    hidden_work_posted(&work, 9, 0);
    ran(1, SIDE, 100, 400);
    ran(2, MAIN, 200, 250);
    ran(3, SIDE, 400, 700);
    ran(4, MAIN, 650, 750);
    reached(5, 750);
    assert_int_equal(taken.count, 0);
    ran(5, SIDE, 800, 1000);
    assert_int_equal(taken.hidden_ns, 300 - 50 + 300 - 50);
    assert_int_equal(taken.count, 2);
}

/* ---- in a rank's own time ------------------------------------------------------------------------------------ */

static void add(struct rank_times *times, const struct call_name *call, struct record record) {
    const struct match_record item = {
        .record = &record, .t0 = (int64_t)record.t0, .begin = (int64_t)record.t0, .t1 = (int64_t)record.t1};
    rank_times_add(times, &item, call);
}

static void gpu(struct rank_times *times, uint32_t number, uint64_t begin_ns, uint64_t end_ns) {
    static const struct call_name all_reduce = {.api = API_NCCL, .call_class = CLASS_COLLECTIVE};
    add(times, &all_reduce,
        (struct record){.t0 = begin_ns,
                        .t1 = end_ns,
                        .op = number,
                        .seq = number,
                        .comm = SIDE,
                        .kind = RECORD_GPU,
                        .flags = FLAG_COLLECTIVE});
}

static void wait(struct rank_times *times, uint32_t op, uint64_t at_ns) {
    add(times, NULL, (struct record){.t0 = at_ns, .t1 = at_ns, .op = op, .comm = COMM_NONE, .kind = RECORD_EXPOSED});
}

/* Steps of 1000 ns whose operation, of that many ns, runs beside the computation; two steps are awaited at once. Into
 * `stretches` what counts in each. */
static void run_steps(uint64_t length, int64_t *self_ns, int64_t stretches[3]) {
    const struct cut cut = {.kind = CUT_COLLECTIVE, .comm = SIDE, .device = true};
    struct rank_times times;
    assert_true(rank_times_init(&times, &cut, 8, 2, true));
    add(&times, &(struct call_name){.api = API_NCCL, .call_class = CLASS_COLLECTIVE},
        (struct record){.op = 99, .comm = SIDE, .kind = RECORD_POST});
    for (uint32_t i = 1; i <= 4; i++) {
        gpu(&times, i, 1000 * i, 1000 * i + length);
        if (i % 2 == 0)
            wait(&times, i, 1000 * i + 950);
    }
    rank_times_finish(&times);
    *self_ns = times.self_ns;
    assert_int_equal(times.bins.count, 3);
    for (unsigned i = 0; i < 3; i++) {
        stretches[i] = times.bins.self_ns[i];
        assert_int_equal(sampled_collectives_segment(&times.sampled, 0)[2 + i], stretches[i]);
    }
    assert_int_equal(times.hidden_ns, 4 * length);
    rank_times_free(&times);
}

static void who_waits_within_communication_works_as_long(void **state) {
    (void)state;
    int64_t self_ns[2], stretches[2][3];
    run_steps(100, &self_ns[0], stretches[0]);
    run_steps(900, &self_ns[1], stretches[1]);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(stretches[0][i], 1000);
        assert_int_equal(stretches[1][i], 1000);
    }
    /* but for the last operation's own part, after which nothing is on record */
    assert_int_equal(self_ns[0], 3000 + 100);
    assert_int_equal(self_ns[1], 3000 + 900);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_ran_before_its_stream_came_to_the_wait_was_hidden, begin),
        cmocka_unit_test_setup(a_wait_that_was_there_first_hides_nothing, begin),
        cmocka_unit_test_setup(a_wait_after_the_end_tells_something_where_the_host_ran_ahead, begin),
        cmocka_unit_test_setup(only_the_first_wait_tells, begin),
        cmocka_unit_test_setup(a_wait_is_for_all_before_it_on_its_communicator, begin),
        cmocka_unit_test(who_waits_within_communication_works_as_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
