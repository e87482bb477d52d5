/* SPDX-License-Identifier: Apache-2.0
 *
 * Escaping, numbers for people, tables in their three forms.
 * Lives here: hostile names and what may become of them, layouts written out.
 * Must not live here: figures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/render/escape.h"
#include "analyzer/render/link_rows.h"
#include "analyzer/render/roff.h"
#include "analyzer/render/summary_table.h"
#include "analyzer/render/table.h"
#include "analyzer/render/units.h"
#include "analyzer/render/wrapped_text.h"
#include "analyzer/render/what_if.h"

/* What `print` writes, as a string that the caller frees. */
struct capture {
    char *text;
    size_t bytes;
    FILE *stream;
};

static FILE *capture_begin(struct capture *capture) {
    capture->stream = open_memstream(&capture->text, &capture->bytes);
    assert_non_null(capture->stream);
    return capture->stream;
}

static void assert_captured(struct capture *capture, const char *expected) {
    fclose(capture->stream);
    assert_string_equal(capture->text, expected);
    free(capture->text);
}

static void control_characters_do_not_reach_the_terminal(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"plain", "plain"},
        {"\033[31mred\a", "\\x1b[31mred\\x07"},
        {"two\nlines\r\t", "two\\x0alines\\x0d\\x09"},
        {"\x7f", "\\x7f"},
        {"\xc2\x9b"
         "0m",
         "\\u{009b}0m"},                              /* a C1 control sequence introducer */
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"}, /* letters stay */
        {"\xff\xc3", "\\xff\\xc3"},                   /* no UTF-8, and a cut character */
        {"\xe2\x80\xae"
         "evil",
         "\\u{202e}evil"},                   /* right-to-left override */
        {"\xd8\x9c", "\\u{061c}"},           /* Arabic letter mark */
        {"\xc0\xaf", "\\xc0\\xaf"},          /* overlong */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"}, /* surrogate */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct capture capture;
        escape_text(capture_begin(&capture), cases[i].from);
        assert_captured(&capture, cases[i].to);
    }
    assert_int_equal(escape_text(NULL, "gr\xc3\xbc\n"), 7);
}

static void text_is_no_command_to_roff(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"plain", "plain\n"},
        {"", ""},
        {"one line\n", "one line\n"},
        {".SH planted", "\\&.SH planted\n"},
        {"a sentence.\n.so /etc/passwd\n", "a sentence.\n\\&.so /etc/passwd\n"},
        {"'macro", "\\(aqmacro\n"},
        {"\\fB --op 'all*'", "\\efB \\-\\-op \\(aqall*\\(aq\n"},
        {"\"a\"", "\\(dqa\\(dq\n"},
        {"`a` ^ ~", "\\(gaa\\(ga \\(ha \\(ti\n"},
        {"text|json", "text|\\:json\n"}, /* where a line may end */
        {"gr\xc3\xbc\xc3\x9f", "gr\\[u00FC]\\[u00DF]\n"},
        {"\xff", "?\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct capture capture;
        roff_text(capture_begin(&capture), cases[i].from);
        assert_captured(&capture, cases[i].to);
    }
    struct capture capture;
    roff_bold(capture_begin(&capture), "-o");
    assert_captured(&capture, "\\fB\\-o\\fR");
}

static void csv_fields_are_quoted_and_no_formulas(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"plain", "plain"},        {"a,b", "\"a,b\""}, {"say \"no\"", "\"say \"\"no\"\"\""},
        {"=cmd()", "\"'=cmd()\""}, {"-1", "\"'-1\""},  {"@x", "\"'@x\""},
        {"a\nb", "a\\x0ab"},       {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct capture capture;
        escape_csv(capture_begin(&capture), cases[i].from);
        assert_captured(&capture, cases[i].to);
    }
}

static void shells_take_words_as_they_are(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"/a/b-c_1.2", "/a/b-c_1.2"},
        {"a b", "'a b'"},
        {"", "''"},
        {"it's", "'it'\\''s'"},
        {"~", "'~'"},
        {"$(x)\\", "'$(x)\\'"},
        {"\xc3\xa9", "'\xc3\xa9'"},
        {"a\n\xff'\\1", "$'a\\012\\377\\'\\\\1'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct capture capture;
        escape_shell(capture_begin(&capture), cases[i].from);
        assert_captured(&capture, cases[i].to);
    }
}

static void json_strings_hold_any_bytes(void **state) {
    (void)state;
    json_t *json = escape_json("a\xff\033");
    assert_non_null(json);
    char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    assert_string_equal(text, "\"a\\uFFFD\\u001B\"");
    free(text);
    json_decref(json);
}

static void deepspeeds_sizes_are_as_it_writes_them(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0B"},
                 {1, "1.0 B"},
                 {1023, "1023.0 B"},
                 {2048, "2.0 KB"},
                 {6 << 20, "6.0 MB"},
                 {711833272, "678.86 MB"},
                 {1536, "1.5 KB"},
                 {UINT64_C(1) << 40, "1.0 TB"},
                 {UINT64_MAX, "16.0 EB"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[UNITS_TEXT];
        units_deepspeed_size(text, cases[i].bytes);
        assert_string_equal(text, cases[i].text);
    }
}

static void sizes_have_three_digits_in_powers_of_a_thousand(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {1, "1 B"},
                 {999, "999 B"},
                 {1000, "1.00 kB"},
                 {2048, "2.05 kB"},
                 {65536, "65.5 kB"},
                 {999499, "999 kB"},
                 {999500, "1.00 MB"},
                 {6 << 20, "6.29 MB"},
                 {UINT64_C(1) << 40, "1.10 TB"},
                 {UINT64_MAX, "18.4 EB"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[UNITS_TEXT];
        units_size(text, cases[i].bytes);
        assert_string_equal(text, cases[i].text);
    }
}

static void what_is_too_wide_loses_its_middle(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t most;
        const char *expected;
    } cases[] = {{"exchange_halo (halo.c:312)", 0, "exchange_halo (halo.c:312)"},
                 {"exchange_halo (halo.c:312)", 26, "exchange_halo (halo.c:312)"},
                 {"exchange_halo (halo.c:312)", 20, "exchange_..lo.c:312)"},
                 {"gr\xc3\xbc\xc3\x9f"
                  "e, W\xc3\xb6rld",
                  8, "gr\xc3\xbc..rld"},
                 {"a\nb", 6, "a\\x0ab"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct capture capture;
        FILE *stream = capture_begin(&capture);
        size_t columns = print_shortened(stream, cases[i].text, cases[i].most);
        assert_int_equal(columns, print_shortened(NULL, cases[i].text, cases[i].most));
        assert_true(cases[i].most == 0 || columns <= cases[i].most);
        assert_captured(&capture, cases[i].expected);
    }
}

static void times_have_three_digits(void **state) {
    (void)state;
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {{0, "0 ns"},           {999, "999 ns"},       {1000, "1.00 us"},       {9994, "9.99 us"},
                 {9996, "10.0 us"},     {99960, "100 us"},     {999499, "999 us"},      {999500, "1.00 ms"},
                 {34100000, "34.1 ms"}, {999600000, "1.00 s"}, {12000000000, "12.0 s"}, {360000000000, "360 s"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[UNITS_TEXT];
        units_time(text, cases[i].ns);
        assert_string_equal(text, cases[i].text);
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

struct row {
    const char *name;
    uint64_t bytes;
    double us;
    bool known;
};

static struct cell name(const void *row) {
    return cell_text(((const struct row *)row)->name);
}

static struct cell bytes(const void *row) {
    return cell_unsigned(((const struct row *)row)->bytes);
}

static struct cell us(const void *row) {
    return ((const struct row *)row)->known ? cell_real(((const struct row *)row)->us) : cell_unknown();
}

static struct cell never(const void *row) {
    (void)row;
    return cell_unknown();
}

static const struct column columns[] = {
    {"name", "name", .value = name, .left = true},
    {"bytes", "size", LOOK_SIZE, .value = bytes},
    {"time_us", "time", LOOK_MICROSECONDS, .value = us},
    {"hidden", NULL, .value = never},
    {"nothing", "nothing", .value = never, .optional = true},
    {NULL, NULL, .value = NULL},
};

static const struct row rows[] = {{"one", 2048, 1.5, true},
                                  {"gr\xc3\xbc\xc3\x9f"
                                   "e\n",
                                   8, 0, false}};
static const struct table table = {columns, rows, sizeof *rows, 2};

static void text_tables_are_aligned(void **state) {
    (void)state;
    struct capture capture;
    assert_true(table_print_text(capture_begin(&capture), &table, false));
    assert_captured(&capture, "name          size     time\n"
                              "one        2.05 kB  1.50 us\n"
                              "gr\xc3\xbc\xc3\x9f"
                              "e\\x0a      8 B        -\n");
}

static struct cell mark(const void *row) {
    return cell_switch(((const struct row *)row)->known);
}

static void marks_show_only_where_they_are_on(void **state) {
    (void)state;
    static const struct column marked[] = {
        {"name", "name", .value = name, .left = true},
        {"known", "yes", LOOK_MARK, .value = mark, .left = true, .optional = true},
        {NULL, NULL, .value = NULL},
    };
    static const struct row off[] = {{"one", 0, 0, false}, {"two", 0, 0, true}};
    struct table both = {marked, off, sizeof *off, 2}, none = {marked, off, sizeof *off, 1};
    struct capture capture;
    assert_true(table_print_text(capture_begin(&capture), &both, false));
    assert_captured(&capture, "name  yes\none\ntwo   yes\n");
    assert_true(table_print_text(capture_begin(&capture), &none, false));
    assert_captured(&capture, "name\none\n");
}

static void legends_are_of_the_columns_that_are_shown(void **state) {
    (void)state;
    static const struct column told[] = {
        {"name", "name", .value = name, .left = true},
        {"bytes", "size", LOOK_SIZE, .value = bytes, .legend = "of one call"},
        {"hidden", NULL, .value = never, .legend = "never told"},
        {"nothing", "nothing", .value = never, .optional = true, .legend = "not shown, not told"},
        {"time_us", "time", LOOK_MICROSECONDS, .value = us,
         .legend = "a phrase so long that it does not fit into what "
                   "is left of a screen of a hundred columns"},
        {NULL, NULL, .value = NULL},
    };
    struct table with = {told, rows, sizeof *rows, 2}, without = {told, rows, sizeof *rows, 0};
    struct capture capture;
    assert_true(table_print_legend(capture_begin(&capture), &with));
    assert_captured(&capture, "size: of one call; time: a phrase so long that it does not fit into what is left of a "
                              "screen of a\nhundred columns\n");
    without.columns = columns;
    assert_true(table_print_legend(capture_begin(&capture), &without));
    assert_captured(&capture, "");
}

static void columns_are_chosen_by_key_and_all_have_a_header(void **state) {
    (void)state;
    static const char *const keys[] = {"hidden", "name"};
    struct column chosen[3];
    table_choose_columns(chosen, columns, keys, 2);
    struct table table = {chosen, rows, sizeof *rows, 1};
    struct capture capture;
    assert_true(table_print_text(capture_begin(&capture), &table, false));
    assert_captured(&capture, "hidden  name\n     -  one\n");
}

static void csv_tables_have_raw_values_under_keys(void **state) {
    (void)state;
    struct capture capture;
    table_print_csv(capture_begin(&capture), &table);
    assert_captured(&capture, "name,bytes,time_us,hidden,nothing\none,2048,1.5,,\ngr\xc3\xbc\xc3\x9f"
                              "e\\x0a,8,,,\n");
}

static void json_tables_say_null_for_unknown(void **state) {
    (void)state;
    json_t *json = table_to_json(&table), *second = json_array_get(json, 1);
    assert_int_equal(json_array_size(json), 2);
    assert_int_equal(json_integer_value(json_object_get(second, "bytes")), 8);
    assert_true(json_is_null(json_object_get(second, "time_us")));
    assert_string_equal(json_string_value(json_object_get(second, "name")), "gr\xc3\xbc\xc3\x9f"
                                                                            "e\n");
    json_decref(json);
}

static void rows_sort_by_any_column(void **state) {
    (void)state;
    struct row some[] = {{"b", 1, 2, true}, {"a", 3, 0, false}, {"c", 3, 9, true}};
    assert_true(table_sort(some, sizeof *some, 3, table_column(columns, "bytes")));
    assert_string_equal(some[0].name, "a"); /* stable: before c */
    assert_string_equal(some[2].name, "b");
    assert_true(table_sort(some, sizeof *some, 3, table_column(columns, "time_us")));
    assert_string_equal(some[0].name, "c");
    assert_string_equal(some[2].name, "a"); /* unknown last */
    assert_true(table_sort(some, sizeof *some, 3, table_column(columns, "name")));
    assert_string_equal(some[0].name, "a");
    assert_null(table_column(columns, "size"));
}

static void the_summary_has_the_keys_others_rely_on(void **state) {
    (void)state;
    static const char *const keys[] = {"api",         "op",          "comm",           "comm_name",      "comm_size",
                                       "bytes",       "count",       "bytes_total",    "time_total_us",  "time_avg_us",
                                       "time_min_us", "time_max_us", "time_p50_us",    "time_p95_us",    "time_p99_us",
                                       "algbw_gbps",  "busbw_gbps",  "algbw_gb_per_s", "busbw_gb_per_s", "source"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_non_null(table_column(summary_columns, keys[i]));
}

static void sizes_of_buffers_are_told(void **state) {
    (void)state;
    struct summary_entry entries[] = {{.estimated_bytes = 2}, {.estimated_bytes = 0}, {.estimated_bytes = 40}};
    const struct summary some = {.entries = entries, .count = 3}, none = {.entries = &entries[1], .count = 1};
    struct capture capture;
    summary_print_notes(capture_begin(&capture), &none);
    assert_captured(&capture, "");
    summary_print_notes(capture_begin(&capture), &some);
    fclose(capture.stream);
    assert_non_null(strstr(capture.text, "42 receives had no status"));
    assert_non_null(strstr(capture.text, "bandwidth"));
    free(capture.text);
    assert_int_equal(table_column(summary_columns, "posted_sizes")->value(&entries[2]).number, 40);
}

static void times_that_are_shares_are_told(void **state) {
    (void)state;
    struct summary_entry entries[] = {{.shared_times = 2}, {.shared_times = 0}, {.shared_times = 40}};
    const struct summary some = {.entries = entries, .count = 3};
    struct capture capture;
    summary_print_notes(capture_begin(&capture), &some);
    fclose(capture.stream);
    assert_non_null(strstr(capture.text, "42 GPU operations are shares"));
    assert_null(strstr(capture.text, "receives"));
    free(capture.text);
}

static void assert_looks(const struct column *column, const void *row, const char *expected) {
    struct capture capture;
    size_t wide = table_print_cell(capture_begin(&capture), column, column->value(row));
    assert_captured(&capture, expected);
    assert_int_equal(wide, strlen(expected));
}

static void sizes_of_buffers_are_bounds(void **state) {
    (void)state;
    const struct summary_entry told = {.bytes = 800000, .bytes_total = 1600000, .count = 2};
    struct summary_entry posted = told, class = told;
    posted.estimated_bytes = 1;
    class.estimated_bytes = 1;
    class.size_class = true; /* the size is its lower bound */
    const struct column *bytes = table_column(summary_columns, "bytes");
    assert_looks(bytes, &told, "800 kB");
    assert_looks(bytes, &posted, "<= 800 kB");
    assert_looks(bytes, &class, "800 kB");
    assert_int_equal(bytes->value(&posted).number, 800000); /* CSV and JSON have numbers */
    struct link_row link = {.key.kind = LINK_MESSAGES, .bytes = 1200, .counted_by = COUNTED_BY_SENDER};
    const struct column *carried = table_column(link_columns, "bytes");
    assert_looks(carried, &link, "1.20 kB");
    link.counted_by = COUNTED_BY_RECEIVER;
    assert_looks(carried, &link, "<= 1.20 kB");
    link.key.kind = LINK_COLLECTIVES; /* counted by nobody */
    assert_looks(carried, &link, "1.20 kB");
}

/* Three ways through a program to one call of one rank, and another rank's way to it. */
static void what_if_says_no_line_twice(void **state) {
    (void)state;
    static const struct call_name name = {.name = "MPI_Barrier"};
    static struct match_call calls[] = {{.name = &name}};
    static struct dump_header headers[2] = {{.rank = 0}, {.rank = 1}};
    struct dump dumps[2] = {{.header = &headers[0]}, {.header = &headers[1]}}, *list[] = {&dumps[0], &dumps[1]};
    struct common_clock clock = {.dumps = list, .dump_count = 2};
    struct match_directory directory = {.dumps = list, .dump_count = 2, .calls = calls, .call_count = 1};
    struct straggler_analysis analysis = {.clock = &clock,
                                          .directory = &directory,
                                          .judgement = JUDGED_TOO_SHORT,
                                          .what_if = {.known = true,
                                                      .slowdown = 1.5,
                                                      .worst_workers_share = -1,
                                                      .site_count = 4,
                                                      .sites = {{.dump = 1, .stack = STACK_NONE, .speedup = 1.25},
                                                                {.dump = 1, .stack = STACK_NONE, .speedup = 1.2},
                                                                {.dump = 0, .stack = STACK_NONE, .speedup = 1.15},
                                                                {.dump = 1, .stack = STACK_NONE, .speedup = 1.1}}}};
    struct capture capture;
    what_if_print(capture_begin(&capture), &analysis);
    assert_captured(&capture,
                    "  1.50 times as fast if the same work and transfers took every rank the mean time\n"
                    "  1.25 times as fast if the work before MPI_Barrier took every rank as long as its peers (rank 1\n"
                    "    takes longest; of 3 ways to get there this one costs most)\n"
                    "  1.15 times as fast if the work before MPI_Barrier took every rank as long as its peers (rank 0\n"
                    "    takes longest)\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
        cmocka_unit_test(text_is_no_command_to_roff),
        cmocka_unit_test(csv_fields_are_quoted_and_no_formulas),
        cmocka_unit_test(shells_take_words_as_they_are),
        cmocka_unit_test(json_strings_hold_any_bytes),
        cmocka_unit_test(deepspeeds_sizes_are_as_it_writes_them),
        cmocka_unit_test(sizes_have_three_digits_in_powers_of_a_thousand),
        cmocka_unit_test(what_is_too_wide_loses_its_middle),
        cmocka_unit_test(times_have_three_digits),
        cmocka_unit_test(text_tables_are_aligned),
        cmocka_unit_test(marks_show_only_where_they_are_on),
        cmocka_unit_test(legends_are_of_the_columns_that_are_shown),
        cmocka_unit_test(columns_are_chosen_by_key_and_all_have_a_header),
        cmocka_unit_test(csv_tables_have_raw_values_under_keys),
        cmocka_unit_test(json_tables_say_null_for_unknown),
        cmocka_unit_test(rows_sort_by_any_column),
        cmocka_unit_test(the_summary_has_the_keys_others_rely_on),
        cmocka_unit_test(sizes_of_buffers_are_told),
        cmocka_unit_test(times_that_are_shares_are_told),
        cmocka_unit_test(sizes_of_buffers_are_bounds),
        cmocka_unit_test(what_if_says_no_line_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
