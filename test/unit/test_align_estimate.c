/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks of many hosts whose truth is known: how near the estimate comes, and that no bound is a lie.
 * Lives here: scenes of clocks. Must not live here: dumps (test_align.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/align/estimate.h"
#include "test/scenes/clocks.h"

static struct clock_verdict play(const char *what, const struct clock_scene *scene) {
    struct clock_job *job = malloc(sizeof *job);
    assert_non_null(job);
    clock_scene_play(job, scene);
    assert_true(clock_estimate(job->hosts, scene->hosts, &job->observations));
    struct clock_verdict v = clock_scene_judge(job);
    printf("%-36s rms %7.2f us, worst %8.2f us, violated %u, beyond %u, contradicted %u, unknown %u, stretches %u\n",
           what, v.rms_us, v.worst_us, v.violated, v.beyond, v.contradicted, v.unknown, v.stretches);
    clock_scene_free(job);
    free(job);
    return v;
}

static void assert_sound(struct clock_verdict v) {
    assert_int_equal(v.violated, 0);
    assert_int_equal(v.beyond, 0);
    assert_int_equal(v.unknown, 0);
}

static void many_hosts_are_right_to_microseconds(void **state) {
    (void)state;
    struct clock_scene scene = clock_scene_standard();
    struct clock_verdict v = play("arrivals at random", &scene);
    assert_sound(v);
    assert_true(v.rms_us <= 5);
    assert_int_equal(v.contradicted, 0);
}

static void a_host_that_is_always_late_is_not_taken_for_a_wrong_clock(void **state) {
    (void)state;
    for (int straggler = 0; straggler < 8; straggler += 5) {
        struct clock_scene scene = clock_scene_standard();
        scene.straggler = straggler;
        struct clock_verdict v = play(straggler ? "host 5 late by 5 ms" : "first host late by 5 ms", &scene);
        assert_sound(v);
        assert_true(v.rms_us <= 5);
    }
}

static void few_operations_are_enough(void **state) {
    (void)state;
    struct clock_scene scene = clock_scene_standard();
    scene.operations = 100;
    scene.seconds = 60;
    struct clock_verdict v = play("100 operations in a minute", &scene);
    assert_sound(v);
    assert_true(v.rms_us <= 8);
}

static void a_wandering_clock_is_followed_piece_by_piece(void **state) {
    (void)state;
    struct clock_scene scene = clock_scene_standard();
    scene.hosts = 8;
    scene.operations = 20000;
    scene.wander = 200e-6;
    struct clock_verdict v = play("clocks wander by 200 us", &scene);
    assert_int_equal(v.beyond, 0);
    assert_true(v.stretches >= 2 * (scene.hosts - 1)); /* no single line fits: it must have been seen */
    assert_true(v.rms_us <= 20);
}

static void a_false_match_is_seen_and_does_no_harm(void **state) {
    (void)state;
    struct clock_scene scene = clock_scene_standard();
    scene.hosts = 4;
    scene.false_matches = 1;
    struct clock_verdict v = play("one false match", &scene);
    assert_int_equal(v.contradicted, 1);
    assert_int_equal(v.violated, 0);
    assert_int_equal(v.beyond, 0);
    assert_true(v.rms_us <= 8);
}

static void hosts_that_meet_only_through_others_find_their_place(void **state) {
    (void)state;
    struct clock_scene scene = clock_scene_standard();
    scene.hosts = 8;
    scene.operations = 7000;
    scene.traffic = TRAFFIC_NEIGHBOURS;
    struct clock_verdict v = play("neighbours only", &scene);
    assert_sound(v);
    assert_true(v.rms_us <= 25); /* biases of up to 8 us add up over seven hosts */
}

static void messages_both_ways_are_enough(void **state) {
    (void)state;
    struct clock_scene scene = clock_scene_standard();
    scene.hosts = 3;
    scene.operations = 4000;
    scene.traffic = TRAFFIC_MESSAGES;
    struct clock_verdict v = play("messages only", &scene);
    assert_sound(v);
    assert_true(v.rms_us <= 15);
}

static void without_operations_nothing_is_claimed(void **state) {
    (void)state;
    struct clock_scene scene = clock_scene_standard();
    scene.hosts = 3;
    scene.operations = 2;
    struct clock_verdict v = play("two operations", &scene);
    assert_int_equal(v.unknown, 2);
}

static void random_scenes_never_violate_a_bound(void **state) {
    (void)state;
    for (unsigned seed = 1; seed <= 12; seed++) {
        struct clock_scene scene = clock_scene_standard();
        scene.seed = seed;
        scene.hosts = 2 + seed % 7;
        scene.operations = 50 << seed % 6;
        scene.seconds = 30 * seed;
        scene.outliers = seed % 3 ? 0.01 : 0.2;
        scene.straggler = seed % 4 == 3 ? 1 : -1;
        struct clock_verdict v = play("a scene by chance", &scene);
        assert_int_equal(v.violated, 0);
        assert_int_equal(v.beyond, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_hosts_are_right_to_microseconds),
        cmocka_unit_test(a_host_that_is_always_late_is_not_taken_for_a_wrong_clock),
        cmocka_unit_test(few_operations_are_enough),
        cmocka_unit_test(a_wandering_clock_is_followed_piece_by_piece),
        cmocka_unit_test(a_false_match_is_seen_and_does_no_harm),
        cmocka_unit_test(hosts_that_meet_only_through_others_find_their_place),
        cmocka_unit_test(messages_both_ways_are_enough),
        cmocka_unit_test(without_operations_nothing_is_claimed),
        cmocka_unit_test(random_scenes_never_violate_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
