/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank's parts of a run are to take when it is as fast as its peers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/replay/usual_lengths.h"

enum { RANKS = 4, ROOM = 4096, SLOW = 2, FORWARD = 7, LOADING = 8 };

static struct work_stretch stretches[ROOM];
static size_t count;

static void add(uint32_t rank, uint32_t shape, int64_t ns, int64_t hidden) {
    stretches[count] =
        (struct work_stretch){.part = (uint32_t)count, .dump = rank, .shape = shape, .own_ns = ns, .hidden_ns = hidden};
    stretches[count++].usual_ns = -1;
}

static void match(void) {
    bool mended[RANKS] = {[SLOW] = true}, found;
    assert_true(usual_lengths_find(stretches, count, mended, RANKS, &found));
    assert_true(found);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(stretches[i].usual_ns >= 0, stretches[i].dump == SLOW);
}

/* Sum of what the slow rank is to take for its parts of a length. */
static int64_t mended(int64_t own) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += stretches[i].dump == SLOW && stretches[i].own_ns == own ? stretches[i].usual_ns : 0;
    return sum;
}

/* A slow start of every step, as long as the work later in it: it is the start that is mended. */
static void parts_are_compared_with_their_like(void **state) {
    (void)state;
    count = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        for (int i = 0; i < 20; i++) {
            add(r, LOADING, r == SLOW ? 90 : 10, 0);
            add(r, FORWARD, 80, 0);
        }
    match();
    assert_int_equal(mended(90), 20 * 10);
    assert_int_equal(mended(80), 20 * 80);
}

/* How many more parts of a shape the slow rank may have than others before shapes tell nothing: two, and one in
 * sixteen. Then it is by length alone, and the longest parts are the others' longest. */
static void ranks_without_the_same_shapes_are_compared_by_length(void **state) {
    (void)state;
    static const struct {
        int parts, more;
        bool alike;
    } cases[] = {{8, 2, true}, {8, 3, false}, {160, 12, true}, {160, 13, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        count = 0;
        for (uint32_t r = 0; r < RANKS; r++) {
            for (int i = 0; i < cases[c].parts + (r == SLOW ? cases[c].more : 0); i++)
                add(r, LOADING, r == SLOW ? 90 : 10, 0);
            for (int i = 0; i < cases[c].parts; i++)
                add(r, FORWARD, 80, 0);
        }
        match();
        assert_int_equal(mended(80) == (int64_t)80 * cases[c].parts, cases[c].alike);
    }
    count = 0; /* the same number of shapes, but others */
    for (uint32_t r = 0; r < RANKS; r++)
        for (int i = 0; i < 20; i++)
            add(r, r == SLOW ? LOADING : FORWARD, r == SLOW ? 90 : 80, 0);
    match();
    assert_int_equal(mended(90), 20 * 80);
}

/* Stages of a pipeline: nobody has another's shapes. The slow one, all of whose work takes twice as long, does most of
 * it in one part of two, the others do as much in each. `rare`: of its parts of each kind so many have a shape of their
 * own, `common`: so many the shape of another rank. */
static void add_stages(int parts, int rare, int common) {
    count = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        for (int i = 0; i < parts; i++)
            for (uint32_t kind = 0; kind < 2; kind++) {
                uint32_t own = 16 * r + kind, odd = (uint32_t)(1000 + 2 * i) + kind;
                bool slow = r == SLOW;
                add(r, slow && i < rare ? odd : slow && i < rare + common ? kind : own, slow ? kind ? 100 : 20 : 30, 0);
            }
}

static bool keeps_its_ways(void) {
    match();
    int64_t parts = (int64_t)count / RANKS / 2;
    return mended(20) == 10 * parts && mended(100) == 50 * parts;
}

/* How long one part of a stage is beside another is its own. */
static void who_does_other_things_keeps_how_its_work_is_spread(void **state) {
    (void)state;
    add_stages(20, 0, 0);
    assert_true(keeps_its_ways());
    for (size_t i = 0; i < count; i++)
        assert_true(stretches[i].alone);
}

/* That takes eight parts of a shape, of which one in eight may be rarer, and one in eight somebody else's. */
static void other_things_are_those_that_come_again_and_nobody_else_does(void **state) {
    (void)state;
    add_stages(9, 0, 0);
    assert_true(keeps_its_ways());
    add_stages(6, 0, 0);
    assert_false(keeps_its_ways());
    add_stages(100, 9, 0);
    match();
    assert_true(stretches[0].alone);
    add_stages(100, 17, 0);
    match();
    assert_false(stretches[0].alone);
    add_stages(100, 0, 9);
    assert_true(keeps_its_ways());
    add_stages(100, 0, 17);
    assert_false(keeps_its_ways());
}

/* Now and then such a rank is slow: the parts that are not usual for it come down to what is unusual for others. */
static void who_does_other_things_is_slow_now_and_then(void **state) {
    (void)state;
    add_stages(100, 0, 0);
    for (size_t i = 0, n = 0; i < count; i++)
        if (stretches[i].dump == SLOW)
            stretches[i].own_ns = n++ % 20 == 0 ? 500 : stretches[i].own_ns / 2;
    match();
    assert_int_equal(mended(500), 10 * 10);
    assert_int_equal(mended(10), 90 * 10);
    assert_int_equal(mended(50), 100 * 50);
}

/* Peers that waited may have worked meanwhile: up to that nobody is slower than they, and beyond it by the rest. */
static void work_that_a_wait_hides_is_no_less_than_others_do(void **state) {
    (void)state;
    count = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        for (int i = 0; i < 20; i++) {
            add(r, FORWARD, r == SLOW ? 25 : 0, r == SLOW ? 0 : 30);
            add(r, LOADING, r == SLOW ? 40 : 10, r == SLOW ? 0 : 15);
        }
    match();
    assert_int_equal(mended(25), 20 * 25);
    assert_int_equal(mended(40), 20 * 25);
}

static void who_has_no_peers_stays_as_it_is(void **state) {
    (void)state;
    bool everybody[RANKS] = {true, true, true, true}, found;
    count = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        add(r, FORWARD, 80, 0);
    assert_true(usual_lengths_find(stretches, count, everybody, RANKS, &found));
    assert_false(found);
    count = 0;
    assert_true(usual_lengths_find(stretches, count, everybody, RANKS, &found));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_compared_with_their_like),
        cmocka_unit_test(ranks_without_the_same_shapes_are_compared_by_length),
        cmocka_unit_test(who_does_other_things_keeps_how_its_work_is_spread),
        cmocka_unit_test(other_things_are_those_that_come_again_and_nobody_else_does),
        cmocka_unit_test(who_does_other_things_is_slow_now_and_then),
        cmocka_unit_test(work_that_a_wait_hides_is_no_less_than_others_do),
        cmocka_unit_test(who_has_no_peers_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
