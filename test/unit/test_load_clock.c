/* SPDX-License-Identifier: Apache-2.0
 *
 * Ticks to nanoseconds: interpolation, damaged anchors, no anchors.
 * Lives here: one dump's clock.
 * Must not live here: clocks of several processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/load/dump.h"
#include "test/support/dump_builder.h"

static struct dump_builder *builder;
static struct dump *dump;

static void begin(void) {
    builder = dump_builder_new(&(struct dump_plan){.world_size = 1, .anchors = 2048});
}

static void open_it(void) {
    size_t bytes;
    const void *data = dump_builder_data(builder, &bytes);
    dump = dump_open_buffer("made.ct", data, bytes);
    assert_non_null(dump->header);
}

static void end(void) {
    dump_close(dump);
    dump_builder_free(builder);
}

static struct clock_anchor *anchors(void) {
    return dump_builder_contents(builder, SECTION_ANCHORS, 0);
}

static void time_is_interpolated_between_anchors_and_extended_beyond(void **state) {
    (void)state;
    begin();
    /* 2 ticks per ns, then 4; not in order */
    dump_builder_anchor(builder, 6000, 2500, 102500, 1);
    dump_builder_anchor(builder, 2000, 1000, 101000, 1);
    dump_builder_anchor(builder, 4000, 2000, 102000, 1);
    open_it();
    assert_int_equal(dump->anchor_count, 3);
    assert_int_equal(dump_monotonic_ns(dump, 2000), 1000);
    assert_int_equal(dump_monotonic_ns(dump, 3000), 1500);
    assert_int_equal(dump_monotonic_ns(dump, 4000), 2000);
    assert_int_equal(dump_monotonic_ns(dump, 5000), 2250);
    assert_int_equal(dump_monotonic_ns(dump, 6000), 2500);
    /* outside, and for lengths, the whole run's rate: 4000 ticks are 1500 ns */
    assert_int_equal(dump_monotonic_ns(dump, 14000), 5500);
    assert_in_range(dump_monotonic_ns(dump, 0) + 1000, 1249, 1251);
    assert_int_equal(dump_duration_ns(dump, 8000), 3000);
    assert_int_equal(dump_duration_ns(dump, 1), 0);
    assert_int_equal(dump_duration_ns(dump, 2), 1);
    assert_int_equal(dump_realtime_ns(dump, 3000), 101500);
    end();
}

static void the_realtime_clock_may_drift_and_step(void **state) {
    (void)state;
    begin();
    dump_builder_anchor(builder, 0, 0, 1000000, 1);
    dump_builder_anchor(builder, 1000, 1000, 1001100, 1); /* slewed: 100 ns in 1000 */
    dump_builder_anchor(builder, 2000, 2000, 500000, 1);  /* set back */
    open_it();
    assert_int_equal(dump_realtime_ns(dump, 500), 1000550);
    assert_int_equal(dump_realtime_ns(dump, 2000), 500000);
    assert_int_equal(dump_realtime_ns(dump, 3000), 501000);
    end();
}

static void time_never_goes_back(void **state) {
    (void)state;
    begin();
    uint64_t ticks = 12345, ns = 777;
    for (int i = 0; i < 500; i++) {
        dump_builder_anchor(builder, ticks, ns, ns, 1);
        ticks += 1 + (uint64_t)(i * 7919 % 1000) * (i % 13 ? 1 : 1000);
        ns += (uint64_t)(i * 104729 % 400);
    }
    open_it();
    assert_int_equal(dump->anchor_count, 500);
    int64_t last = INT64_MIN;
    for (uint64_t at = 0; at < ticks + 50000; at += 17) {
        int64_t now = dump_monotonic_ns(dump, at);
        assert_true(now >= last);
        last = now;
    }
    for (size_t i = 0; i < dump->anchor_count; i++)
        assert_int_equal(dump_monotonic_ns(dump, dump->anchors[i].ticks), dump->anchors[i].monotonic_ns);
    end();
}

static void days_and_large_tick_counts_do_not_overflow(void **state) {
    (void)state;
    begin();
    const uint64_t boot = UINT64_C(0xfff0000000000000), day = UINT64_C(86400) * 3000000000;
    dump_builder_anchor(builder, boot, 1000000000, 1000000000, 1);
    dump_builder_anchor(builder, boot + day, UINT64_C(86401) * 1000000000, UINT64_C(86401) * 1000000000, 1);
    open_it();
    assert_in_range(dump_monotonic_ns(dump, boot + day / 2), INT64_C(43201) * 1000000000 - 1,
                    INT64_C(43201) * 1000000000);
    assert_true(dump_monotonic_ns(dump, UINT64_MAX) > dump_monotonic_ns(dump, boot + day));
    assert_true(dump_monotonic_ns(dump, 0) < 0);
    assert_in_range(dump_duration_ns(dump, day), INT64_C(86400) * 1000000000 - 1, INT64_C(86400) * 1000000000 + 1);
    end();
}

static void a_damaged_anchor_costs_only_itself(void **state) {
    (void)state;
    begin();
    for (uint64_t i = 0; i < 10; i++)
        dump_builder_anchor(builder, 1000 * i, 1000 * i, 1000 * i, 1);
    anchors()[0].monotonic_ns = UINT64_C(1) << 60;
    anchors()[5].monotonic_ns = 3;
    anchors()[7].version = 5; /* being written */
    open_it();
    assert_int_equal(dump->anchor_count, 7);
    assert_int_equal(dump_monotonic_ns(dump, 5500), 5500);
    assert_int_equal(dump->problems.count, 1);
    end();
}

static void without_anchors_the_estimate_serves(void **state) {
    (void)state;
    begin();
    dump_builder_header(builder)->tick_hz_hint = 2000000000;
    open_it();
    assert_int_equal(dump_monotonic_ns(dump, 4000), 2000);
    assert_int_equal(dump_duration_ns(dump, 4000), 2000);
    assert_int_equal(dump->problems.count, 1); /* it was initialised: there should be some */
    end();
}

static void a_process_that_died_early_may_have_no_anchors(void **state) {
    (void)state;
    begin();
    dump_builder_header(builder)->state = STATE_ACTIVE;
    dump_builder_header(builder)->tick_hz_hint = 1000000000;
    open_it();
    assert_int_equal(dump->problems.count, 0);
    assert_int_equal(dump_realtime_ns(dump, 70), 70);
    end();
}

static void absurd_rates_are_survived(void **state) {
    (void)state;
    begin();
    dump_builder_header(builder)->tick_hz_hint = 1;
    dump_builder_anchor(builder, 5, UINT64_C(1) << 60, 0, 1);
    dump_builder_anchor(builder, 6, (UINT64_C(1) << 60) + 5, UINT64_C(1) << 60, 1);
    open_it();
    assert_true(dump_monotonic_ns(dump, UINT64_MAX) >= dump_monotonic_ns(dump, 6));
    assert_true(dump_duration_ns(dump, UINT64_MAX) >= 0);
    (void)dump_realtime_ns(dump, UINT64_MAX);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_is_interpolated_between_anchors_and_extended_beyond),
        cmocka_unit_test(the_realtime_clock_may_drift_and_step),
        cmocka_unit_test(time_never_goes_back),
        cmocka_unit_test(days_and_large_tick_counts_do_not_overflow),
        cmocka_unit_test(a_damaged_anchor_costs_only_itself),
        cmocka_unit_test(without_anchors_the_estimate_serves),
        cmocka_unit_test(a_process_that_died_early_may_have_no_anchors),
        cmocka_unit_test(absurd_rates_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
