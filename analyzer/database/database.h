/* SPDX-License-Identifier: Apache-2.0
 *
 * An SQLite file that is written once, whole or not at all.
 * Lives here: the file, its tables and rows, by the columns that text and JSON are made of.
 * Must not live here: which tables there are (job_tables.h), options.
 *
 * Everything goes into one transaction in a file beside the one that was asked for, which then takes its name: who had
 * a database there has it until the new one is complete. The file says in its header that commtap wrote it
 * (application_id); what does not say so is not overwritten unasked. A database beside which SQLite keeps a journal
 * (-wal, -journal) is in use and stays, whatever is asked.
 */
#ifndef COMMTAP_DATABASE_DATABASE_H
#define COMMTAP_DATABASE_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/new_file.h"
#include "analyzer/render/table.h"

enum {
    DATABASE_APPLICATION = 0x636d7470, /* "cmtp" */
    DATABASE_VERSION = 1,              /* user_version: of the tables */
    DATABASE_COLUMNS_MOST = 64,
};

struct database {
    void *handle;         /* private: sqlite3 */
    struct new_file file; /* private */
    char reason[512];     /* why it failed; "" = it did not */
};

struct database_table {
    struct database *database;
    const struct column *columns;
    void *insert; /* private: sqlite3_stmt */
};

/* NULL where databases can be written; otherwise why not. */
const char *database_lacks(void);

/* Begins a database that will be called `path`; a file of that name that is not commtap's stays unless `force`. Returns
 * false with the reason; the caller ends with database_close in every case. */
bool database_create(struct database *database, const char *path, bool force);
/* Takes the place of what is called so. Returns false with the reason. */
bool database_finish(struct database *database);
/* What was not finished is removed. */
void database_close(struct database *database);

/* Any statement. Returns false with the reason. */
bool database_execute(struct database *database, const char *statement);

/* Makes a table of these columns, and what each means in the table `documentation`. The caller ends with
 * database_table_close in every case. */
bool database_table_open(struct database_table *table, struct database *database, const char *name,
                         const struct column *columns);
bool database_insert(struct database_table *table, const void *row);
void database_table_close(struct database_table *table);

/* A table of rows that are in memory. */
bool database_add(struct database *database, const char *name, const struct table *table);

/* "TEXT", "REAL" or "INTEGER": what values under that key are. */
const char *database_type_of(const char *key);

#endif
