/* SPDX-License-Identifier: Apache-2.0
 *
 * Before which of its calls a rank works longer than its peers.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/replay/usual_work.h"

enum { RANKS = 3, SLOW = 1, ROOM = 4096, KIND = 7, OTHER_KIND = 9 };

/* What the ranks work, node by node and part by part. */
static struct scene {
    struct replay_node nodes[ROOM];
    int64_t work[ROOM], tails[ROOM];
    size_t first[RANKS + 1];
    struct replay replay;
    struct work_kinds kinds;
    struct usual_work usual;
    size_t asked; /* the slow rank's first node of the part that was asked for */
} scene;

static void begin(void) {
    memset(&scene, 0, sizeof scene);
    scene.replay = (struct replay){
        .dump_count = RANKS, .nodes = scene.nodes, .work_ns = scene.work, .tail_ns = scene.tails, .first = scene.first};
}

/* Rank after rank. */
static void add(uint32_t rank, uint32_t part, uint32_t kind, int64_t work) {
    scene.nodes[scene.replay.node_count] = (struct replay_node){.flow = rank, .segment = part, .before = kind};
    scene.work[scene.replay.node_count++] = work;
    for (uint32_t r = rank + 1; r <= RANKS; r++)
        scene.first[r] = scene.replay.node_count;
}

/* The excess of the slow rank's part. */
static int64_t excess_of(uint32_t part, bool by_length) {
    static const uint32_t peers[RANKS] = {0};
    static const bool left_out[RANKS] = {[SLOW] = true};
    size_t from = scene.first[SLOW];
    assert_true(by_length ? work_kinds_find_one(&scene.kinds, &scene.replay)
                          : work_kinds_find(&scene.kinds, &scene.replay));
    assert_true(usual_work_begin(&scene.usual, &scene.replay, &scene.kinds, peers, left_out, by_length));
    usual_work_of(&scene.usual, SLOW);
    while (scene.nodes[from].segment != part)
        from++;
    scene.asked = from;
    size_t to = from;
    while (to < scene.first[SLOW + 1] && scene.nodes[to].segment == part)
        to++;
    return usual_work_excess(&scene.usual, from, to);
}

/* Of that, what lies before the node of that place in the part. */
static double before(size_t place) {
    size_t node = scene.asked + place;
    return usual_work_share(&scene.usual, node) * (double)scene.work[node];
}

static void end(void) {
    usual_work_free(&scene.usual);
    work_kinds_free(&scene.kinds);
}

static bool near(double a, double b) {
    return fabs(a - b) < 1e-6;
}

/* Parts of four calls; the slow rank is as much longer before each as given. */
static void add_parts(uint32_t parts, const int64_t more[4]) {
    begin();
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t part = 1; part <= parts; part++)
            for (int turn = 0; turn < 4; turn++)
                add(r, part, KIND, 100 + (r == SLOW ? more[turn] : 0));
}

/* Who is late before a graph is late before the first of what it holds. */
static void what_a_rank_takes_longer_lies_before_the_call_it_is_late_to(void **state) {
    (void)state;
    add_parts(20, (const int64_t[]){1200, 0, 0, 0});
    assert_int_equal(excess_of(5, false), 1200);
    assert_true(near(before(0), 1200) && near(before(1), 0) && near(before(3), 0));
    end();
    add_parts(20, (const int64_t[]){40, 40, 40, 40});
    assert_int_equal(excess_of(5, false), 160);
    assert_true(near(before(0), 40) && near(before(3), 40));
    end();
}

/* In fewer parts than eight it may be chance before which of them. */
static void eight_parts_tell_turns_apart(void **state) {
    (void)state;
    add_parts(8, (const int64_t[]){1200, 0, 0, 0});
    assert_int_equal(excess_of(5, false), 1200);
    assert_true(near(before(0), 1200));
    end();
    add_parts(7, (const int64_t[]){1200, 0, 0, 0});
    assert_true(excess_of(5, false) < 1200);
    assert_true(before(0) < 600 && before(3) > 50);
    end();
}

/* 10 less here and 10 more there is chance, and comes off what stands out: (1200 + 10 - 10) is shared out over what is
 * more than 5. */
static void what_some_take_less_others_take_more_by_chance(void **state) {
    (void)state;
    add_parts(20, (const int64_t[]){1200, -10, 10, 0});
    assert_int_equal(excess_of(5, false), 1200);
    assert_true(near(before(0), 1195) && near(before(2), 5) && near(before(1), 0) && near(before(3), 0));
    end();
}

/* A call that no peer makes is not told by its turns; nor is a part in which the rank is no longer as a rule. */
static void without_peers_there_is_no_excess(void **state) {
    (void)state;
    begin();
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t part = 1; part <= 20; part++) {
            add(r, part, KIND, r == SLOW && part == 5 ? 150 : r == SLOW ? 90 : 100);
            add(r, part, r == SLOW ? OTHER_KIND : KIND, 500);
        }
    assert_int_equal(excess_of(7, false), 0);
    end();
}

/* The first stage of a pipeline sends three micro-batches and then works three back; the last takes three, and sends
 * what comes of them: as much, in another order. One of its parts in `odd` has another call. */
static void add_stages(uint32_t parts, uint32_t odd, int64_t late) {
    static const int64_t first[] = {0, 20, 20, 20, 50, 50, 50}, last[] = {50, 50, 20, 20, 50, 20, 0};
    begin();
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t part = 1; part <= parts; part++) {
            for (uint32_t i = 0; i < 7; i++)
                add(r, part, r * 16 + i + 1, r == SLOW ? first[i] + (i == 6 ? late : 0) : last[i]);
            if (r == SLOW && part <= odd)
                add(r, part, 99, 0);
        }
}

static void other_things_are_compared_by_length(void **state) {
    (void)state;
    add_stages(16, 0, 300);
    assert_int_equal(excess_of(9, true), 300);
    assert_true(near(before(6), 300) && near(before(5), 0) && near(before(1), 0));
    end();
}

/* The slow rank works twice before its two calls, about as long, where the others work once: the same of the two is the
 * excess in each part, though the other one is the longer now and then. */
static void two_that_are_as_long_do_not_trade_places(void **state) {
    (void)state;
    begin();
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t part = 1; part <= 16; part++) {
            int64_t wobble = part % 2 ? 60 : -60;
            add(r, part, r * 16 + 1, r == SLOW ? 500 + wobble : 0);
            add(r, part, r * 16 + 2, r == SLOW ? 520 - wobble : 520);
        }
    for (uint32_t part = 8; part <= 9; part++) {
        assert_true(excess_of(part, true) > 400);
        assert_true(before(0) > 400 && near(before(1), 0));
        end();
    }
}

/* Up to one part in eight may have another number of calls: those are no part of it. */
static void nearly_all_parts_have_as_many_calls(void **state) {
    (void)state;
    add_stages(16, 2, 300);
    assert_true(excess_of(9, true) > 290);
    assert_true(before(6) > 290);
    end();
    add_stages(16, 3, 300);
    assert_int_equal(excess_of(9, true), 0);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_rank_takes_longer_lies_before_the_call_it_is_late_to),
        cmocka_unit_test(eight_parts_tell_turns_apart),
        cmocka_unit_test(what_some_take_less_others_take_more_by_chance),
        cmocka_unit_test(without_peers_there_is_no_excess),
        cmocka_unit_test(other_things_are_compared_by_length),
        cmocka_unit_test(two_that_are_as_long_do_not_trade_places),
        cmocka_unit_test(nearly_all_parts_have_as_many_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
