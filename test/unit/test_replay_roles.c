/* SPDX-License-Identifier: Apache-2.0
 *
 * Who of two ranks that exchange messages begins, told by the messages of one of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/replay/replay_build.h"

enum { UP = 2, DOWN = 0, STEPS = 4, BATCHES = 3 };

static struct replay_roles roles;

static enum replay_role role_of(uint16_t flags, int32_t peer, uint32_t number, uint32_t replay) {
    const struct record record = {.kind = RECORD_GPU, .flags = flags, .comm = 1, .peer = peer, .seq = number};
    const struct match_record item = {.record = &record, .replay = replay};
    enum replay_role role;
    assert_true(replay_find_role(&roles, &item, &role));
    return role;
}

static void messages(uint16_t flags, int32_t peer, uint32_t first, uint32_t replay, enum replay_role role) {
    for (uint32_t m = 0; m < BATCHES; m++)
        assert_int_equal(role_of(flags, peer, first + m, replay), role);
}

static void forget(void) {
    replay_roles_free(&roles);
    memset(&roles, 0, sizeof roles);
}

/* The middle one of three: micro-batches go up, and their gradients come back down. */
static void a_stage_answers_the_one_before_it(void **state) {
    (void)state;
    for (uint32_t step = 0; step < STEPS; step++) {
        messages(FLAG_RECV, DOWN, BATCHES * step, 0, REPLAY_ANSWERS);
        messages(FLAG_SEND, UP, BATCHES * step, 0, REPLAY_ASKS);
        messages(FLAG_RECV, UP, BATCHES * step, 0, REPLAY_ASKS);
        messages(FLAG_SEND, DOWN, BATCHES * step, 0, REPLAY_ANSWERS);
    }
    forget();
}

/* What a graph holds has its numbers from the capture, the same in each replay. */
static void replays_of_a_graph_go_on(void **state) {
    (void)state;
    for (uint32_t replay = 1; replay <= STEPS; replay++) {
        messages(FLAG_RECV, DOWN, 0, replay, REPLAY_ANSWERS);
        messages(FLAG_SEND, UP, 0, replay, REPLAY_ASKS);
        messages(FLAG_RECV, UP, 0, replay, REPLAY_ASKS);
        messages(FLAG_SEND, DOWN, 0, replay, REPLAY_ANSWERS);
    }
    forget();
}

/* Both ends of an exchange send before they receive: neither answers. */
static void who_sends_first_asks(void **state) {
    (void)state;
    for (uint32_t step = 0; step < STEPS; step++) {
        assert_int_equal(role_of(FLAG_SEND, UP, step, 0), REPLAY_ASKS);
        assert_int_equal(role_of(FLAG_RECV, UP, step, 0), REPLAY_ASKS);
    }
    forget();
}

/* A record that begins within the run has the messages' numbers. */
static void numbers_tell_what_came_before_the_record(void **state) {
    (void)state;
    assert_int_equal(role_of(FLAG_SEND, UP, 100, 0), REPLAY_ASKS);
    assert_int_equal(role_of(FLAG_RECV, UP, 97, 0), REPLAY_ASKS);
    assert_int_equal(role_of(FLAG_SEND, UP, 101, 0), REPLAY_ASKS);
    forget();
}

static void what_is_no_message_of_one_way_has_no_role(void **state) {
    (void)state;
    assert_int_equal(role_of(FLAG_SEND | FLAG_RECV, UP, 0, 0), REPLAY_NO_ROLE);
    assert_int_equal(role_of(FLAG_COLLECTIVE, UP, 0, 0), REPLAY_NO_ROLE);
    assert_int_equal(role_of(FLAG_SEND, UP, SEQ_NONE, 0), REPLAY_NO_ROLE);
    assert_int_equal(roles.partners.count, 0);
}

static void posted(uint32_t op, uint16_t flags, int32_t peer, uint32_t number) {
    const struct record record = {
        .kind = RECORD_POST, .op = op, .flags = flags, .comm = 1, .peer = peer, .seq = number};
    enum replay_role role;
    assert_true(replay_find_role(&roles, &(struct match_record){.record = &record}, &role));
}

static enum replay_role ran(uint32_t op, uint16_t flags, int32_t peer, uint32_t number) {
    const struct record record = {.kind = RECORD_GPU, .op = op, .flags = flags, .comm = 1, .peer = peer, .seq = number};
    enum replay_role role;
    assert_true(replay_find_role(&roles, &(struct match_record){.record = &record}, &role));
    return role;
}

/* On streams of their own a send and what answers it run in any order: who is late changes it on its GPU alone. */
static void the_order_of_calls_tells_and_not_that_of_a_gpu(void **state) {
    (void)state;
    for (uint32_t step = 0; step < STEPS; step++) {
        posted(2 * step, FLAG_SEND, UP, step);
        posted(2 * step + 1, FLAG_RECV, UP, step);
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        bool first = step % 2;
        if (first)
            assert_int_equal(ran(2 * step, FLAG_SEND, UP, step), REPLAY_ASKS);
        assert_int_equal(ran(2 * step + 1, FLAG_RECV, UP, step), REPLAY_ASKS);
        if (!first)
            assert_int_equal(ran(2 * step, FLAG_SEND, UP, step), REPLAY_ASKS);
    }
    forget();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_answers_the_one_before_it),
        cmocka_unit_test(the_order_of_calls_tells_and_not_that_of_a_gpu),
        cmocka_unit_test(replays_of_a_graph_go_on),
        cmocka_unit_test(who_sends_first_asks),
        cmocka_unit_test(numbers_tell_what_came_before_the_record),
        cmocka_unit_test(what_is_no_message_of_one_way_has_no_role),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
