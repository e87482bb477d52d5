/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of cells in a database, and of files that were there.
 * Must not live here: the tables of a job (test/e2e/test_database.py).
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/database/database.h"

#if __has_include(<sqlite3.h>)
#include <sqlite3.h>

struct row {
    struct cell cell;
};

#define ROW ((const struct row *)item)
static struct cell value(const void *item) {
    return ROW->cell;
}

static const struct column columns[] = {
    {"from", NULL, .value = value, .doc = "who sends"},
    {"host", NULL, .value = value, .legend = "where it ran"},
    {"wait_seconds", NULL, .value = value},
    {NULL, NULL, .value = NULL},
};

static char directory[] = "/tmp/commtap-database-XXXXXX";
static char path[64];

static int begin(void **state) {
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/job.db", directory);
    return 0;
}

static int end(void **state) {
    (void)state;
    unlink(path);
    return rmdir(directory); /* nothing is left beside it */
}

static void write_cells(const struct cell *cells, size_t count) {
    struct database database;
    assert_true(database_create(&database, path, false));
    assert_true(database_add(&database, "things", &(struct table){columns, cells, sizeof *cells, count}));
    assert_true(database_finish(&database));
    database_close(&database);
}

/* The first column of the first row. */
static void assert_answer(const char *query, int type, const char *text) {
    sqlite3 *handle;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &handle, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(handle, query, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_type(statement, 0), type);
    if (text)
        assert_string_equal(sqlite3_column_text(statement, 0), text);
    sqlite3_finalize(statement);
    assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

static void cells_keep_their_kind_and_value(void **state) {
    (void)state;
    static const struct {
        struct cell cell;
        const char *column;
        int type;
        const char *text;
    } cases[] = {
        {cell_unknown(), "from_rank", SQLITE_NULL, NULL},
        {cell_integer(-7), "from_rank", SQLITE_INTEGER, "-7"},
        {cell_unsigned(UINT64_MAX), "from_rank", SQLITE_INTEGER, "9223372036854775807"},
        {cell_switch(true), "from_rank", SQLITE_INTEGER, "1"},
        {cell_real(0.25), "wait_seconds", SQLITE_FLOAT, "0.25"},
        {cell_integer(3), "wait_seconds", SQLITE_FLOAT, "3.0"},
        {cell_hex(0xabc), "host", SQLITE_TEXT, "0000000000000abc"},
        {cell_text("it's \"one\"\n; DROP TABLE things"), "host", SQLITE_TEXT, "it's \"one\"\n; DROP TABLE things"},
        {cell_text("broken \xff\xc3"), "host", SQLITE_TEXT, "broken \xef\xbf\xbd\xef\xbf\xbd"},
        {cell_text("\xc3\xa4"), "host", SQLITE_TEXT, "\xc3\xa4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char query[64];
        write_cells(&cases[i].cell, 1);
        snprintf(query, sizeof query, "SELECT %s FROM things", cases[i].column);
        assert_answer(query, cases[i].type, cases[i].text);
    }
    assert_answer("SELECT meaning FROM documentation WHERE column_name = 'from_rank'", SQLITE_TEXT, "who sends");
    assert_answer("SELECT meaning FROM documentation WHERE column_name = 'host'", SQLITE_TEXT, "where it ran");
    assert_answer("PRAGMA application_id", SQLITE_INTEGER, "1668117616");
    assert_answer("PRAGMA user_version", SQLITE_INTEGER, "1");
}

static void what_is_not_finished_leaves_nothing(void **state) {
    (void)state;
    struct database database;
    const struct cell old = cell_integer(1);
    write_cells(&old, 1);
    assert_true(database_create(&database, path, false));
    assert_false(database_execute(&database, "no statement"));
    assert_non_null(strstr(database.reason, "syntax"));
    database_close(&database);
    assert_answer("SELECT from_rank FROM things", SQLITE_INTEGER, "1");
}

static void put(const void *content, size_t bytes) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, content, bytes), bytes);
    close(file);
}

static void files_of_others_stay(void **state) {
    (void)state;
    struct database database;
    struct stat status;
    char header[100] = "SQLite format 3"; /* of another program */
    put(header, sizeof header);
    assert_false(database_create(&database, path, false));
    assert_non_null(strstr(database.reason, "--force"));
    database_close(&database);
    put("short", 5);
    assert_false(database_create(&database, path, false));
    database_close(&database);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 5);
    assert_true(database_create(&database, path, true));
    database_close(&database);
    put("", 0); /* as mktemp leaves it */
    assert_true(database_create(&database, path, false));
    database_close(&database);
    unlink(path);
    assert_false(database_create(&database, directory, true));
    assert_non_null(strstr(database.reason, "plain file"));
    database_close(&database);
    assert_false(database_create(&database, "/proc/nonexistent/job.db", true));
    assert_non_null(strstr(database.reason, "No such file"));
    database_close(&database);
}

/* A program that was killed, or still runs, left what it wrote in a journal of its own. */
static void databases_in_use_stay(void **state) {
    (void)state;
    static const char *const endings[] = {"-wal", "-journal"};
    const struct cell old = cell_integer(1);
    for (size_t i = 0; i < 2; i++) {
        struct database database;
        char journal[80], name[32];
        snprintf(journal, sizeof journal, "%s%s", path, endings[i]);
        snprintf(name, sizeof name, "job.db%s", endings[i]);
        write_cells(&old, 1);
        assert_int_equal(close(open(journal, O_WRONLY | O_CREAT, 0600)), 0);
        assert_false(database_create(&database, path, true));
        assert_non_null(strstr(database.reason, name));
        database_close(&database);
        unlink(journal);
        assert_true(database_create(&database, path, false));
        assert_true(database_add(&database, "things", &(struct table){columns, NULL, sizeof old, 0}));
        assert_int_equal(close(open(journal, O_WRONLY | O_CREAT, 0600)), 0); /* while the new one was written */
        assert_false(database_finish(&database));
        assert_non_null(strstr(database.reason, name));
        database_close(&database);
        unlink(journal);
        assert_answer("SELECT from_rank FROM things", SQLITE_INTEGER, "1");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(databases_in_use_stay),
        cmocka_unit_test(cells_keep_their_kind_and_value),
        cmocka_unit_test(what_is_not_finished_leaves_nothing),
        cmocka_unit_test(files_of_others_stay),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

#else

static void it_says_why(void **state) {
    (void)state;
    struct database database;
    assert_non_null(strstr(database_lacks(), "libsqlite3-dev"));
    assert_false(database_create(&database, "/tmp/x", true));
    assert_string_equal(database.reason, database_lacks());
    database_close(&database);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_says_why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
