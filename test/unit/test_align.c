/* SPDX-License-Identifier: Apache-2.0
 *
 * The common clock: who shares one, what offset other hosts get, how wrong it can be.
 * Lives here: dumps of hosts whose true offset is known.
 * Must not live here: one process's clock (test_load_clock.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/align/align.h"
#include "analyzer/align/common_clock.h"
#include "test/scenes/scene.h"

static struct scene two_hosts(void) {
    struct scene scene = scene_standard();
    scene.ranks = 4;
    scene.ranks_per_host = 2;
    scene.steps = 100;
    scene.host_offset_ns = -700000000;
    scene.realtime_error_ns = 4000000;
    return scene;
}

static void ranks_of_one_host_share_a_clock(void **state) {
    (void)state;
    struct scene scene = scene_standard();
    struct scene_job job;
    struct common_clock clock;
    scene_open(&job, &scene);
    assert_true(common_clock_build(&clock, job.dumps, job.ranks));
    assert_int_equal(clock.host_count, 1);
    assert_int_equal(clock.domains[0].offset_ns, 0);
    assert_int_equal(clock.domains[0].dump_count, 8);
    assert_int_equal(to_common(&clock, 3, 1234567890), 1234567890);
    /* anchors 40 ticks wide: each clock is read to 20 ns */
    assert_int_equal(common_clock_error(&clock, 0, 7), 40);
    assert_int_equal(common_clock_worst_error(&clock), 40);
    common_clock_free(&clock);
    scene_close(&job);
}

static void a_time_namespace_is_a_clock_of_its_own(void **state) {
    (void)state;
    struct scene scene = scene_standard();
    scene.ranks = 2;
    struct scene_job job;
    struct common_clock clock;
    scene_play(&job, &scene);
    dump_builder_header(job.builders[1])->time_namespace++;
    strcpy(dump_builder_header(job.builders[1])->host, "pod1");
    for (unsigned r = 0; r < 2; r++) {
        size_t bytes;
        const void *data = dump_builder_data(job.builders[r], &bytes);
        job.dumps[r] = dump_open_buffer("scene", data, bytes);
    }
    assert_true(common_clock_build(&clock, job.dumps, job.ranks));
    assert_int_equal(clock.domain_count, 2);
    assert_int_equal(clock.domain_of[1], 1);
    /* which is the same host, whatever the container calls it */
    assert_int_equal(clock.host_count, 1);
    assert_int_equal(clock.host_of[1], 0);
    assert_string_equal(clock.hosts[0].name, "node0");
    common_clock_free(&clock);
    scene_close(&job);
}

/* Boot ids tell hosts apart; where they cannot be read, names have to. */
static void without_boot_ids_names_tell_hosts_apart(void **state) {
    (void)state;
    struct scene scene = two_hosts();
    struct scene_job job;
    struct common_clock clock;
    scene_play(&job, &scene);
    for (unsigned r = 0; r < scene.ranks; r++) {
        struct dump_header *header = dump_builder_header(job.builders[r]);
        memset(header->boot_id, 0, sizeof header->boot_id);
        size_t bytes;
        const void *data = dump_builder_data(job.builders[r], &bytes);
        job.dumps[r] = dump_open_buffer("scene", data, bytes);
    }
    assert_true(common_clock_build(&clock, job.dumps, job.ranks));
    assert_int_equal(clock.host_count, 2);
    assert_int_equal(clock.domain_count, 2);
    common_clock_free(&clock);
    scene_close(&job);
}

static void exits_give_another_hosts_offset(void **state) {
    (void)state;
    struct scene scene = two_hosts();
    struct scene_job job;
    struct common_clock clock;
    scene_open(&job, &scene);
    assert_true(common_clock_build(&clock, job.dumps, job.ranks));
    assert_int_equal(clock.host_count, 2);
    assert_int_equal(clock.domain_count, 2);
    int64_t wrong = clock.domains[1].offset_ns - 700000000;
    /* members leave within a quarter of the latency of each other */
    assert_true(llabs(wrong) < scene.latency_ns / 4);
    assert_true(clock.domains[1].error_ns >= llabs(wrong));
    assert_true(clock.domains[1].error_ns < 2 * scene.latency_ns);
    assert_int_equal(clock.domains[1].samples, 100);
    assert_int_equal(common_clock_error(&clock, 0, 2), clock.domains[0].error_ns + clock.domains[1].error_ns);
    assert_true(common_clock_worst_error(&clock) == common_clock_error(&clock, 0, 2));
    common_clock_free(&clock);
    scene_close(&job);
}

static void without_common_exits_the_error_is_unknown(void **state) {
    (void)state;
    struct scene scene = two_hosts();
    scene.steps = 0;
    struct scene_job job;
    struct common_clock clock;
    scene_open(&job, &scene);
    assert_true(common_clock_build(&clock, job.dumps, job.ranks));
    assert_int_equal(clock.domains[1].offset_ns, 700000000 + 4000000);
    assert_true(common_clock_error(&clock, 0, 1) == 40);
    assert_true(common_clock_error(&clock, 1, 2) == CLOCK_ERROR_UNKNOWN);
    assert_true(common_clock_worst_error(&clock) == CLOCK_ERROR_UNKNOWN);
    common_clock_free(&clock);
    scene_close(&job);
}

static void many_exits_are_thinned_alike_on_both_hosts(void **state) {
    (void)state;
    struct scene scene = two_hosts();
    scene.ranks = 2;
    scene.ranks_per_host = 1;
    scene.steps = 20000;
    struct scene_job job;
    struct common_clock clock;
    scene_open(&job, &scene);
    assert_true(common_clock_build(&clock, job.dumps, job.ranks));
    assert_in_range(clock.domains[1].samples, 2000, 8192);
    assert_true(llabs(clock.domains[1].offset_ns - 700000000) < scene.latency_ns / 4);
    common_clock_free(&clock);
    scene_close(&job);
}

/* How far off the GPUs of a process of two are at `at_ns`. GPU 0's anchors are `first` ns wide at the beginning and 20
 * us a second later, GPU 1 has one of `other` ns alone. */
static int64_t error_of_gpus(uint64_t first, uint64_t other, int64_t at_ns) {
    const struct dump_plan plan = {.world_size = 1, .devices = 8};
    struct dump_builder *builder = dump_builder_new(&plan);
    dump_builder_anchor(builder, 0, 0, 1000000000, 0);
    dump_builder_device(builder, 1000, first);
    dump_builder_device(builder, 1000, other);
    struct device_anchor *anchors = dump_builder_contents(builder, SECTION_DEVICE_ANCHORS, 0);
    anchors[2] = (struct device_anchor){
        .version = 2, .device = 0, .source = SOURCE_GPU_EVENT, .monotonic_ns = 1000000000, .width_ns = 20000};
    size_t bytes;
    const void *data = dump_builder_data(builder, &bytes);
    struct dump *dump = dump_open_buffer("gpus", data, bytes);
    struct common_clock clock;
    assert_non_null(dump);
    assert_true(common_clock_build(&clock, &dump, 1));
    int64_t error = device_error_at(&clock, 0, at_ns);
    common_clock_free(&clock);
    dump_close(dump);
    dump_builder_free(builder);
    return error;
}

/* The next anchor of a GPU whose first is narrow comes after the end of a short job. */
static void a_wide_first_anchor_of_one_gpu_counts_until_its_second(void **state) {
    (void)state;
    const int64_t early = 900000000, late = 1100000000;
    assert_int_equal(error_of_gpus(2000000, 80000, early), 1000000);
    assert_int_equal(error_of_gpus(2000000, 80000, late), 40000);
    assert_int_equal(error_of_gpus(2000000, 160000, late), 1000000); /* nothing better is known of GPU 1 */
    assert_int_equal(error_of_gpus(90000, 80000, early), 45000);
    assert_int_equal(error_of_gpus(90000, 80000, late), 45000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_one_host_share_a_clock),
        cmocka_unit_test(a_time_namespace_is_a_clock_of_its_own),
        cmocka_unit_test(without_boot_ids_names_tell_hosts_apart),
        cmocka_unit_test(exits_give_another_hosts_offset),
        cmocka_unit_test(without_common_exits_the_error_is_unknown),
        cmocka_unit_test(many_exits_are_thinned_alike_on_both_hosts),
        cmocka_unit_test(a_wide_first_anchor_of_one_gpu_counts_until_its_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
