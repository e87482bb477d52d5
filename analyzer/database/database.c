/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/database/database.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/render/escape.h"

#if defined(__has_include)
#if __has_include(<sqlite3.h>)
#define HAVE_SQLITE
#endif
#endif

/* ---- what values are --------------------------------------------------------------------------------------------- */

static bool is_listed(const char *key, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(key, list[i]) == 0)
            return true;
    return false;
}

static bool ends_in(const char *key, const char *end) {
    size_t length = strlen(key), tail = strlen(end);
    return length >= tail && strcmp(key + length - tail, end) == 0;
}

#define LISTED(KEY, LIST) is_listed((KEY), (LIST), sizeof(LIST) / sizeof *(LIST))

/* Keys of text, and of figures that are no whole numbers; the others are integers. */
static const char *const texts[] = {"api",
                                    "code",
                                    "column_name",
                                    "comm",
                                    "comm_name",
                                    "command",
                                    "commtap_version",
                                    "counted_by",
                                    "datatype",
                                    "from_host",
                                    "host",
                                    "job_id",
                                    "kind",
                                    "launcher",
                                    "label",
                                    "library",
                                    "meaning",
                                    "method",
                                    "name",
                                    "op",
                                    "percentiles",
                                    "redop",
                                    "run_id",
                                    "severity",
                                    "site",
                                    "source",
                                    "started",
                                    "state",
                                    "table_name",
                                    "text",
                                    "to_host",
                                    "type",
                                    "uid",
                                    "unmeasured",
                                    "user",
                                    "working_directory"};
static const char *const reals[] = {"confidence", "persistence", "operations", "self_ratio"};
static const char *const units[] = {"_seconds", "_us", "_gbps", "_gb_per_s", "_share", "_ratio"};

const char *database_type_of(const char *key) {
    bool real = LISTED(key, reals);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        real |= ends_in(key, units[i]);
    return LISTED(key, texts) ? "TEXT" : real ? "REAL" : "INTEGER";
}

#ifdef HAVE_SQLITE
#include <sqlite3.h>

#include "analyzer/base/text.h"

/* ---- the file ---------------------------------------------------------------------------------------------------- */

const char *database_lacks(void) {
    return NULL;
}

static bool fail(struct database *database, const char *reason) {
    if (!database->reason[0])
        snprintf(database->reason, sizeof database->reason, "%s", reason);
    return false;
}

static bool fail_as_sqlite(struct database *database) {
    int code = sqlite3_errcode(database->handle);
    return fail(database, code == SQLITE_FULL ? strerror(ENOSPC) : sqlite3_errmsg(database->handle));
}

/* What SQLite keeps at the beginning of each file. */
enum { HEADER_BYTES = 100, APPLICATION_AT = 68 };

static bool is_ours(const char *first, size_t count) {
    const unsigned char *id = (const unsigned char *)first + APPLICATION_AT;
    return count >= HEADER_BYTES && memcmp(first, "SQLite format 3", 16) == 0 &&
           ((uint32_t)id[0] << 24 | (uint32_t)id[1] << 16 | (uint32_t)id[2] << 8 | id[3]) == DATABASE_APPLICATION;
}

bool database_execute(struct database *database, const char *statement) {
    return sqlite3_exec(database->handle, statement, NULL, NULL, NULL) == SQLITE_OK || fail_as_sqlite(database);
}

/* The file is nobody's until it is whole: no journal, and nothing is flushed in between. Indexes are sorted by threads
 * of SQLite's own. */
static bool begin(struct database *database) {
    char identity[96];
    snprintf(identity, sizeof identity, "PRAGMA application_id = %d; PRAGMA user_version = %d", DATABASE_APPLICATION,
             DATABASE_VERSION);
    return database_execute(database,
                            "PRAGMA page_size = 16384; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
                            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -65536; PRAGMA threads = 4") &&
           database_execute(database, identity) &&
           database_execute(database, "BEGIN; CREATE TABLE documentation (table_name TEXT, column_name TEXT, "
                                      "meaning TEXT, PRIMARY KEY (table_name, column_name)) WITHOUT ROWID");
}

/* SQLite would apply the journal of the database that was there to the new one. A program that has that database open
 * keeps one beside it; so does a program that was killed. Links were followed: SQLite follows them, too. */
static bool has_no_journal(struct database *database) {
    static const char *const endings[] = {"-wal", "-journal"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        struct stat there;
        char *journal;
        if (asprintf(&journal, "%s%s", database->file.path, endings[i]) < 0)
            return fail(database, strerror(ENOMEM));
        bool exists = lstat(journal, &there) == 0;
        if (exists)
            snprintf(database->reason, sizeof database->reason,
                     "%s is there: a program has the database open, or had it when it was killed: close it, or read it "
                     "once with sqlite3, or write elsewhere",
                     strrchr(journal, '/') ? strrchr(journal, '/') + 1 : journal);
        free(journal);
        if (exists)
            return false;
    }
    return true;
}

bool database_create(struct database *database, const char *path, bool force) {
    sqlite3 *handle = NULL;
    *database = (struct database){.handle = NULL};
    const char *reason = new_file_begin(&database->file, path, is_ours, force);
    if (!reason && !database->file.beside)
        reason = "is no plain file that another one can take the place of";
    if (reason)
        return fail(database, reason);
    if (!has_no_journal(database))
        return false;
    /* one thread at a time uses the handle: without that flag SQLite takes a lock for every value */
    int code = sqlite3_open_v2(database->file.beside, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    database->handle = handle;
    return code == SQLITE_OK ? begin(database) : fail(database, sqlite3_errstr(code));
}

bool database_finish(struct database *database) {
    if (!database_execute(database, "COMMIT"))
        return false;
    if (sqlite3_close(database->handle) != SQLITE_OK)
        return fail_as_sqlite(database);
    database->handle = NULL;
    if (!has_no_journal(database)) /* it may have been opened since */
        return false;
    const char *reason = new_file_place(&database->file);
    return reason ? fail(database, reason) : true;
}

void database_close(struct database *database) {
    sqlite3_close(database->handle);
    database->handle = NULL;
    new_file_end(&database->file);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* "from" and "to" would have to be quoted in every query. */
static const char *name_of(const char *key) {
    return strcmp(key, "from") == 0 ? "from_rank" : strcmp(key, "to") == 0 ? "to_rank" : key;
}

static bool prepare(struct database *database, const char *statement, sqlite3_stmt **prepared) {
    return sqlite3_prepare_v2(database->handle, statement, -1, prepared, NULL) == SQLITE_OK || fail_as_sqlite(database);
}

static bool run_once(struct database *database, sqlite3_stmt *statement) {
    bool done = sqlite3_step(statement) == SQLITE_DONE || fail_as_sqlite(database);
    sqlite3_reset(statement);
    return done;
}

static bool document(struct database *database, const char *name, const struct column *columns) {
    sqlite3_stmt *insert;
    bool done = prepare(database, "INSERT INTO documentation VALUES (?, ?, ?)", &insert);
    for (; done && columns->key; columns++) {
        sqlite3_bind_text(insert, 1, name, -1, SQLITE_STATIC);
        sqlite3_bind_text(insert, 2, name_of(columns->key), -1, SQLITE_STATIC);
        const char *meaning = columns->doc ? columns->doc : columns->legend ? columns->legend : columns->header;
        sqlite3_bind_text(insert, 3, meaning, -1, SQLITE_STATIC);
        done = run_once(database, insert);
    }
    sqlite3_finalize(insert);
    return done;
}

bool database_table_open(struct database_table *table, struct database *database, const char *name,
                         const struct column *columns) {
    char create[4096], insert[512];
    size_t used = (size_t)snprintf(create, sizeof create, "CREATE TABLE %s (", name), told;
    told = (size_t)snprintf(insert, sizeof insert, "INSERT INTO %s VALUES (", name);
    sqlite3_stmt *prepared = NULL;
    *table = (struct database_table){.database = database, .columns = columns};
    for (const struct column *column = columns; column->key && used < sizeof create - 80; column++) {
        const char *between = column == columns ? "" : ", ";
        bool id = column == columns && strcmp(column->key, "id") == 0;
        used += (size_t)snprintf(create + used, sizeof create - used, "%s%s %s%s", between, name_of(column->key),
                                 database_type_of(column->key), id ? " PRIMARY KEY" : "");
        told += (size_t)snprintf(insert + told, sizeof insert - told, "%s?", between);
    }
    snprintf(create + used, sizeof create - used, ")");
    snprintf(insert + told, sizeof insert - told, ")");
    bool done =
        database_execute(database, create) && document(database, name, columns) && prepare(database, insert, &prepared);
    table->insert = prepared;
    return done;
}

static bool is_utf8(const char *text) {
    unsigned code;
    for (size_t length; *text; text += length)
        if ((length = utf8_decode(text, &code)) == 0)
            return false;
    return true;
}

/* Programs that read the file may take no other text than UTF-8. */
static void bind_text(sqlite3_stmt *statement, int at, const char *text) {
    if (is_utf8(text)) {
        sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
        return;
    }
    json_t *made = escape_json(text);
    sqlite3_bind_text(statement, at, made ? json_string_value(made) : NULL, -1, SQLITE_TRANSIENT);
    json_decref(made);
}

static void bind(sqlite3_stmt *statement, int at, struct cell cell) {
    char hex[17];
    switch (cell.kind) {
    case CELL_TEXT:
        bind_text(statement, at, cell.text);
        break;
    case CELL_INTEGER:
        sqlite3_bind_int64(statement, at, cell.integer);
        break;
    case CELL_UNSIGNED: /* there is no larger integer */
        sqlite3_bind_int64(statement, at, cell.number < INT64_MAX ? (int64_t)cell.number : INT64_MAX);
        break;
    case CELL_REAL:
        sqlite3_bind_double(statement, at, cell.real);
        break;
    case CELL_SWITCH:
        sqlite3_bind_int(statement, at, cell.on);
        break;
    case CELL_HEX:
        snprintf(hex, sizeof hex, "%016llx", (unsigned long long)cell.number);
        sqlite3_bind_text(statement, at, hex, -1, SQLITE_TRANSIENT);
        break;
    case CELL_UNKNOWN:
        sqlite3_bind_null(statement, at);
        break;
    }
}

bool database_insert(struct database_table *table, const void *row) {
    int at = 0;
    for (const struct column *column = table->columns; column->key; column++)
        bind(table->insert, ++at, column->value(row));
    return run_once(table->database, table->insert);
}

void database_table_close(struct database_table *table) {
    sqlite3_finalize(table->insert);
    table->insert = NULL;
}

bool database_add(struct database *database, const char *name, const struct table *table) {
    struct database_table open;
    bool done = database_table_open(&open, database, name, table->columns);
    for (size_t i = 0; done && i < table->count; i++)
        done = database_insert(&open, (const char *)table->rows + i * table->row_bytes);
    database_table_close(&open);
    return done;
}

#else

const char *database_lacks(void) {
    return "this commtap was built without SQLite: install libsqlite3-dev and build it anew";
}

bool database_create(struct database *database, const char *path, bool force) {
    (void)path, (void)force;
    *database = (struct database){0};
    snprintf(database->reason, sizeof database->reason, "%s", database_lacks());
    return false;
}

bool database_finish(struct database *database) {
    (void)database;
    return false;
}

void database_close(struct database *database) {
    (void)database;
}

bool database_execute(struct database *database, const char *statement) {
    (void)database, (void)statement;
    return false;
}

bool database_table_open(struct database_table *table, struct database *database, const char *name,
                         const struct column *columns) {
    (void)name;
    *table = (struct database_table){.database = database, .columns = columns};
    return false;
}

bool database_insert(struct database_table *table, const void *row) {
    (void)table, (void)row;
    return false;
}

void database_table_close(struct database_table *table) {
    (void)table;
}

bool database_add(struct database *database, const char *name, const struct table *table) {
    (void)database, (void)name, (void)table;
    return false;
}
#endif
