/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of the exported columns.
 * Lives here: one dump made by hand, cells by their column's name.
 * Must not live here: CSV and JSON (test_render.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/render/export_table.h"
#include "test/support/dump_builder.h"

static struct dump_builder *builder;
static struct dump *dump;

static int begin(void **state) {
    (void)state;
    builder = dump_builder_new(&(struct dump_plan){.rank = 5, .world_size = 16});
    const struct member_run odd = {1, 8, 2};
    dump_builder_standard_calls(builder);
    dump_builder_anchor(builder, 0, 0, 1000000, 1);
    dump_builder_anchor(builder, 1000, 1000, 1001000, 1);
    dump_builder_world(builder);
    dump_builder_communicator(builder, 0xabc, "odd", 2, &odd, 1);
    size_t bytes;
    const void *data = dump_builder_data(builder, &bytes);
    dump = dump_open_buffer("made.ct", data, bytes);
    return dump && dump->header ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    dump_close(dump);
    dump_builder_free(builder);
    return 0;
}

static struct cell cell(const struct export_table *table, const struct export_row *row, const char *key) {
    const struct column *column = table_column(table->columns, key);
    assert_non_null(column);
    return column->value(row);
}

static struct export_row row_of(const struct record *record) {
    return (struct export_row){.dump = dump,
                               .call = record->call,
                               .communicator = dump_communicator(dump, record->comm),
                               .peer = record->peer,
                               .record = record};
}

static void a_record_names_ranks_of_the_world(void **state) {
    (void)state;
    const struct record record = {.commit = 8,
                                  .t0 = 100,
                                  .t1 = 350,
                                  .bytes = 12,
                                  .seq = 3,
                                  .op = 9,
                                  .comm = 1,
                                  .peer = 4,
                                  .tag = 77,
                                  .call = BUILDER_ISEND,
                                  .flags = FLAG_SEND,
                                  .kind = RECORD_POST};
    struct export_row row = row_of(&record);
    assert_int_equal(cell(&export_records, &row, "ticket").number, 7);
    assert_string_equal(cell(&export_records, &row, "kind").text, "post");
    assert_string_equal(cell(&export_records, &row, "op").text, "MPI_Isend");
    assert_int_equal(cell(&export_records, &row, "comm").number, 0xabc);
    assert_int_equal(cell(&export_records, &row, "peer").integer, 4);
    assert_int_equal(cell(&export_records, &row, "peer_rank").integer, 9);
    assert_int_equal(cell(&export_records, &row, "tag").integer, 77);
    assert_int_equal(cell(&export_records, &row, "start_ns").integer, 1000100);
    assert_int_equal(cell(&export_records, &row, "duration_ns").integer, 250);
    assert_true(cell(&export_records, &row, "send").on);
    assert_false(cell(&export_records, &row, "collective").on);
}

static void what_a_record_does_not_know_is_unknown(void **state) {
    (void)state;
    static const char *const unknown[] = {"seq",   "operation", "peer", "peer_rank", "tag",         "comm",
                                          "bytes", "op",        "kind", "datatype",  "duration_ns", "result"};
    const struct record record = {.commit = 1,
                                  .t0 = 9,
                                  .t1 = 3,
                                  .bytes = BYTES_UNKNOWN,
                                  .seq = SEQ_NONE,
                                  .comm = COMM_NONE,
                                  .peer = PEER_ANY,
                                  .tag = TAG_ANY,
                                  .call = 999,
                                  .kind = 200,
                                  .dtype = 250};
    struct export_row row = row_of(&record);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_int_equal(cell(&export_records, &row, unknown[i]).kind, CELL_UNKNOWN);
}

static void a_peer_beyond_the_group_has_no_rank(void **state) {
    (void)state;
    const struct record record = {.commit = 1, .comm = 1, .peer = 8, .call = BUILDER_SEND};
    struct export_row row = row_of(&record);
    assert_int_equal(cell(&export_records, &row, "peer").integer, 8);
    assert_int_equal(cell(&export_records, &row, "peer_rank").kind, CELL_UNKNOWN);
}

static void a_communicator_says_its_place(void **state) {
    (void)state;
    struct export_row row = {.dump = dump, .communicator = dump_communicator(dump, 1), .peer = PEER_NONE};
    assert_int_equal(cell(&export_communicators, &row, "comm_size").number, 8);
    assert_int_equal(cell(&export_communicators, &row, "my_rank").integer, 2);
    assert_string_equal(cell(&export_communicators, &row, "kind").text, "intra");
    assert_int_equal(cell(&export_communicators, &row, "enqueued").kind, CELL_UNKNOWN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_names_ranks_of_the_world),
        cmocka_unit_test(what_a_record_does_not_know_is_unknown),
        cmocka_unit_test(a_peer_beyond_the_group_has_no_rank),
        cmocka_unit_test(a_communicator_says_its_place),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
