/* SPDX-License-Identifier: Apache-2.0
 *
 * A running job as a table of its ranks, for a screen, and as JSON (schema commtap.top/1).
 * Lives here: its columns and keys. Must not live here: sentences, the terminal.
 */
#ifndef COMMTAP_SCREEN_LIVE_TABLE_H
#define COMMTAP_SCREEN_LIVE_TABLE_H

#include "analyzer/findings/live_text.h"
#include "analyzer/render/table.h"

/* A row with what the table makes of it. */
struct live_table_row {
    struct live_row row;
    char doing[112], waits_for[40];
};

struct live_table {
    struct live_table_row *rows;
    size_t count;
};

extern const struct column live_columns[];

/* Takes the rows that `is_shown` lets pass (NULL: all), sorted by a column (NULL: by rank). Returns false when memory
 * is short; the caller frees with live_table_free in every case. */
bool live_table_make(struct live_table *table, const struct live_rows *rows, const struct column *sort, bool reversed,
                     bool (*is_shown)(const void *context, const struct live_table_row *row), const void *context);
void live_table_free(struct live_table *table);
struct table live_table_table(const struct live_table *table);

/* The document; NULL when memory is short. */
json_t *live_to_json(const struct live_table *table, const struct live_summary *summary, const struct live_rows *rows,
                     const struct job *job);

#endif
