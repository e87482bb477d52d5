/* SPDX-License-Identifier: Apache-2.0
 *
 * Prometheus' text format: names that come from a job, and rows of a summary put together by size.
 * Must not live here: whole documents (test/e2e/test_metrics.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/metrics/exposition.h"
#include "analyzer/metrics/operation_classes.h"

static void names_from_a_job_cannot_break_a_line(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    struct metric_labels labels = {.count = 0};
    metric_label(&labels, "op", "a\"b\\c\nd\xff\xc3\xa9");
    metric_label(&labels, "left_out", NULL);
    metric_label(&labels, "rank", "3");
    metric_sample(stream, "commtap_x_seconds", &labels, 0.5);
    metric_count(stream, "commtap_y_total", &(struct metric_labels){.count = 0}, UINT64_MAX);
    fclose(stream);
    assert_string_equal(text, "commtap_x_seconds{op=\"a\\\"b\\\\c\\\\x0ad\\\\xff\xc3\xa9\",rank=\"3\"} 0.5\n"
                              "commtap_y_total 18446744073709551615\n");
    free(text);
}

static void sizes_are_put_together_by_powers_of_two(void **state) {
    (void)state;
    struct summary_entry entries[] = {
        {.op = "a", .bytes = 8, .count = 1, .bytes_total = 8, .time.total_ns = 1000000000, .busbw_bytes_per_s = 10},
        {.op = "a", .bytes = 15, .count = 2, .bytes_total = 30, .time.total_ns = 3000000000, .busbw_bytes_per_s = 2},
        {.op = "a", .bytes = 16, .count = 4, .bytes_total = 64, .busbw_bytes_per_s = -1},
        {.op = "a", .bytes = 0, .count = 8, .busbw_bytes_per_s = -1},
        {.op = "a", .bytes = 1, .count = 16, .bytes_total = 16, .busbw_bytes_per_s = -1},
        {.op = "a", .bytes = BYTES_UNKNOWN, .count = 32, .busbw_bytes_per_s = -1},
        {.op = "a", .bytes = 8, .has_comm = true, .count = 64, .bytes_total = 512, .busbw_bytes_per_s = -1},
        {.op = "b", .bytes = 9, .count = 128, .bytes_total = 1152, .busbw_bytes_per_s = -1},
    };
    static const struct {
        int size_log2;
        uint64_t calls, bytes;
    } expected[] = {{-2, 32, 0}, {-1, 8, 0}, {0, 16, 16}, {3, 3, 38}, {4, 4, 64}, {3, 64, 512}, {3, 128, 1152}};
    struct summary summary = {.entries = entries, .count = sizeof entries / sizeof *entries};
    struct operation_classes classes;
    assert_true(operation_classes_build(&classes, &summary));
    assert_int_equal(classes.count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < classes.count; i++) {
        assert_int_equal(classes.items[i].size_log2, expected[i].size_log2);
        assert_int_equal(classes.items[i].calls, expected[i].calls);
        assert_int_equal(classes.items[i].bytes, expected[i].bytes);
    }
    assert_float_equal(classes.items[3].bus_bytes / classes.items[3].bus_seconds, 4, 1e-9); /* 10 for 1 s, 2 for 3 s */
    assert_float_equal(classes.items[4].bus_seconds, 0, 0);
    operation_classes_free(&classes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_from_a_job_cannot_break_a_line),
        cmocka_unit_test(sizes_are_put_together_by_powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
