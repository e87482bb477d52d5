/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace files whose names come from a hostile job, and protobuf's wire format.
 * Must not live here: what is drawn (test_tracks.c), whole files of real jobs (test/e2e/test_timeline.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "analyzer/render/escape.h"
#include "analyzer/traces/trace_file.h"

/* ---- the wire format: examples of protobuf.dev, "Encoding" --------------------------------------- */

static void fields_are_encoded_as_protobuf_says(void **state) {
    (void)state;
    struct bytes inner = {0}, bytes = {0};
    protobuf_varint(&inner, 1, 150);
    assert_memory_equal(inner.data, "\x08\x96\x01", 3);
    protobuf_message(&bytes, 3, &inner);
    protobuf_text(&bytes, 2, "testing");
    protobuf_fixed64(&bytes, 47, 0x0102030405060708);
    protobuf_varint(&bytes, 1, UINT64_MAX);
    static const char wanted[] = "\x1a\x03\x08\x96\x01"
                                 "\x12\x07testing"
                                 "\xf9\x02\x08\x07\x06\x05\x04\x03\x02\x01"
                                 "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_int_equal(bytes.count, sizeof wanted - 1);
    assert_memory_equal(bytes.data, wanted, bytes.count);
    bytes_free(&inner);
    bytes_free(&bytes);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void assert_valid(const char *text) {
    size_t bytes = strlen(text);
    assert_true(bytes <= TRACE_TEXT_MOST);
    for (size_t i = 0; i < bytes;) {
        unsigned code;
        size_t length = utf8_decode(text + i, &code);
        assert_true(length > 0 && code >= 0x20 && code != 0x7f);
        i += length;
    }
}

static void any_text_becomes_valid_and_equal_ones_are_one(void **state) {
    (void)state;
    struct trace_texts texts = {0};
    char long_one[TRACE_TEXT_MOST + 5000];
    for (size_t i = 0; i + 3 < sizeof long_one; i += 3)
        memcpy(long_one + i, "\xe2\x82\xac", 4);
    const char *const hostile[] = {"\xff\xfe", "a\x01\x1f\nb", "\xed\xa0\x80", "</script>\"\\", long_one,
                                   "",         "\xe2\x82"};
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct trace_text *text = trace_text(&texts, hostile[i]);
        assert_int_equal(text->number, i + 1);
        assert_valid(text->valid);
    }
    assert_int_equal(trace_text(&texts, "\xff\xfe")->number, 1);
    assert_string_equal(trace_text(&texts, "a\x01\x1f\nb")->valid, "a\\x01\\x1f\\x0ab");
    const char *cut = trace_text(&texts, long_one)->valid;
    assert_true(strlen(cut) > TRACE_TEXT_MOST - 8);
    assert_string_equal(cut + strlen(cut) - 3, "...");
    trace_texts_free(&texts);
}

/* ---- files ----------------------------------------------------------------------------------- */

static const struct slice slice = {.track = 1, .begin = 1005, .end = 3000};

static void write_some(struct trace_file *file, const char *name, unsigned events) {
    const struct track track = {.id = 1, .kind = TRACK_RANK};
    struct trace_event event = {.slice = &slice, .name = name, .category = "mpi"};
    event.arguments.items[event.arguments.count++] = (struct trace_argument){"key", cell_text(name)};
    event.arguments.items[event.arguments.count++] = (struct trace_argument){"most", cell_unsigned(UINT64_MAX)};
    event.arguments.items[event.arguments.count++] = (struct trace_argument){"least", cell_integer(INT64_MIN)};
    trace_file_begin(file);
    trace_file_track(file, &(struct trace_track){.track = &track, .name = name});
    for (unsigned i = 0; i < events; i++)
        trace_file_event(file, &event);
    trace_file_end(file);
}

/* Writes to memory; the caller frees. */
static char *written(const struct trace_format *format, const char *name, unsigned events, uint64_t most,
                     struct trace_file *file, size_t *bytes) {
    char *data = NULL;
    FILE *stream = open_memstream(&data, bytes);
    assert_non_null(stream);
    *file = (struct trace_file){.stream = stream, .format = format, .run_id = name, .bytes_most = most};
    write_some(file, name, events);
    assert_int_equal(fclose(stream), 0);
    assert_false(file->no_memory);
    return data;
}

static void hostile_names_leave_json_that_can_be_read(void **state) {
    (void)state;
    struct trace_file file;
    size_t bytes;
    const char *name = "\xff</script>\"\\\n\x01";
    char *data = written(&trace_chrome, name, 1, 1 << 20, &file, &bytes);
    json_error_t error;
    json_t *root = json_loads(data, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("%s", error.text);
    json_t *events = json_object_get(root, "traceEvents"), *last = json_array_get(events, json_array_size(events) - 1);
    assert_string_equal(json_string_value(json_object_get(last, "name")), "\\xff</script>\"\\\\x0a\\x01");
    assert_true(json_number_value(json_object_get(last, "ts")) == 1.005);
    assert_true(json_number_value(json_object_get(last, "dur")) == 1.995);
    json_t *arguments = json_object_get(last, "args");
    assert_string_equal(json_string_value(json_object_get(arguments, "most")), "18446744073709551615");
    assert_string_equal(json_string_value(json_object_get(arguments, "least")), "-9223372036854775808");
    json_decref(root);
    free(data);
}

static void a_full_file_takes_nothing_more_and_counts_it(void **state) {
    (void)state;
    const struct trace_format *const formats[] = {&trace_perfetto, &trace_chrome};
    for (size_t i = 0; i < 2; i++) {
        struct trace_file file;
        size_t bytes;
        char *data = written(formats[i], "name", 1000, 4096, &file, &bytes);
        assert_true(bytes <= 4096 + 8 && bytes > 3500);
        assert_int_equal(file.events + file.cut, 1000);
        assert_true(file.events > 10 && file.cut > 500);
        assert_int_equal(file.cut_from, slice.begin);
        assert_true(trace_file_is_ours(data, TRACE_MARK_WITHIN));
        assert_false(trace_file_is_ours("dear diary, commtap", 19));
        free(data);
    }
}

static void the_largest_file_is_one_that_viewers_take(void **state) {
    (void)state;
    const uint64_t bytes = (uint64_t)TRACE_MIB_MOST << 20;
    assert_true(bytes < (UINT64_C(1) << 29) - 24); /* the longest string of V8 */
    assert_true(4 * bytes <= UINT64_C(1) << 31);   /* in Perfetto's memory, at its largest */
    assert_true(5 * bytes > UINT64_C(1) << 31);    /* and no smaller than need be */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_encoded_as_protobuf_says),
        cmocka_unit_test(any_text_becomes_valid_and_equal_ones_are_one),
        cmocka_unit_test(hostile_names_leave_json_that_can_be_read),
        cmocka_unit_test(a_full_file_takes_nothing_more_and_counts_it),
        cmocka_unit_test(the_largest_file_is_one_that_viewers_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
