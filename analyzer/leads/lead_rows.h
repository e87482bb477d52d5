/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of self times as leads are tested on it: who is ahead in each row, and by how much.
 * Lives here: levelling, rows added up, how much rows resemble each other. Must not live here: chances
 * (lead_chances.h), who is slow (leads.h).
 */
#ifndef COMMTAP_LEADS_LEAD_ROWS_H
#define COMMTAP_LEADS_LEAD_ROWS_H

#include "analyzer/leads/leads_table.h"

enum {
    LEAD_PARTS = 8,     /* of the run, whose means are compared: TIME_BATCHES_MIN */
    LEAD_ADDED_KEPT = 4 /* widths of rows added up: most ranks ask for the same one or two */
};

/* Who is ahead in a row, and by how much. */
struct lead {
    double ns;
    uint32_t columns[2]; /* of a single rank: the same twice */
};

/* The table as it is tested: levelled, several rows added up. */
struct lead_rows {
    size_t rows, columns;
    double *self;
    double *places;      /* of each value in its row, from 0; ties share the mean place */
    struct lead *leads;  /* of the slowest, over the second */
    struct lead *shared; /* of the two slowest, over the third; without three columns 0 */
    struct added_rows {
        struct lead_rows *rows; /* the same with `width` of them as one; NULL: not asked for */
        size_t width;
    } added[LEAD_ADDED_KEPT]; /* by width, modulo how many are kept */
};

/* Two columns that are left out; one: the same twice. */
struct left_out {
    size_t a, b;
};

/* Takes the table's rows one by one, levelled where it says so; `unit` gets, per column, by how much its values were
 * divided. These functions return false when memory is short; rows_free is due either way. */
bool rows_single(struct lead_rows *rows, const struct leads_table *table, double *unit);

/* Stretches that follow each other within a few time slices become one row; what is left over at the end is left
 * out. */
bool rows_at_once(struct lead_rows *rows, const struct lead_rows *single, const struct leads_table *table);

/* The same without one column. */
bool rows_without(struct lead_rows *rows, const struct lead_rows *from, size_t column);

/* Every `width` rows become one; what is left over at the end is left out. Belongs to `rows`, until it is freed or
 * asked for other widths. NULL: no memory. */
const struct lead_rows *rows_of_width(struct lead_rows *rows, size_t width);

/* How many rows count as one, at least 1. `scratch` has room for all columns. */
double rows_alike(const struct lead_rows *rows, struct left_out judged, double *scratch);

void rows_free(struct lead_rows *rows);

/* The same rows for another thread, with rows added up of its own; ended with rows_share_end, before `rows` is freed.
 */
struct lead_rows rows_share(const struct lead_rows *rows);
void rows_share_end(struct lead_rows *share);

#endif
