/* SPDX-License-Identifier: Apache-2.0
 *
 * One table of columns drives a report's text, CSV and JSON, its help and what it can be sorted by.
 * Lives here: the column, printing rows in each form.
 * Must not live here: any particular report.
 */
#ifndef COMMTAP_RENDER_TABLE_H
#define COMMTAP_RENDER_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cell_kind {
    CELL_UNKNOWN = 0, /* null in JSON, empty in CSV, "-" in text */
    CELL_TEXT,
    CELL_INTEGER,
    CELL_UNSIGNED,
    CELL_REAL,
    CELL_SWITCH,
    CELL_HEX, /* 16 digits, a string in JSON */
};

struct cell {
    enum cell_kind kind;
    union {
        const char *text; /* from anywhere: escaped where it is printed */
        int64_t integer;
        uint64_t number; /* CELL_UNSIGNED, CELL_HEX */
        double real;
        bool on;
    };
    bool at_most; /* of a number: a bound of what is not known, which text says ("<= 6.29 MB") */
};

#define cell_unknown()             ((struct cell){.kind = CELL_UNKNOWN})
#define cell_text(VALUE)           ((struct cell){.kind = CELL_TEXT, .text = (VALUE)})
#define cell_integer(VALUE)        ((struct cell){.kind = CELL_INTEGER, .integer = (VALUE)})
#define cell_unsigned(VALUE)       ((struct cell){.kind = CELL_UNSIGNED, .number = (VALUE)})
#define cell_bound(VALUE, AT_MOST) ((struct cell){.kind = CELL_UNSIGNED, .number = (VALUE), .at_most = (AT_MOST)})
#define cell_real(VALUE)           ((struct cell){.kind = CELL_REAL, .real = (VALUE)})
#define cell_switch(VALUE)         ((struct cell){.kind = CELL_SWITCH, .on = (VALUE)})
#define cell_hex(VALUE)            ((struct cell){.kind = CELL_HEX, .number = (VALUE)})

/* How a cell looks in text. CSV and JSON always have the raw value in the unit that the key names. */
enum look {
    LOOK_PLAIN = 0,
    LOOK_SIZE,         /* bytes -> "6.29 MB" */
    LOOK_MICROSECONDS, /* us -> "1.25 ms" */
    LOOK_SECONDS,      /* s -> "1.25 ms" */
    LOOK_GB_PER_S,     /* 1e9 bytes/s -> "12.34 GB/s" */
    LOOK_PERCENT,      /* a share -> "12.3 %" */
    LOOK_RATIO,        /* two decimals */
    LOOK_NUMBER,       /* three digits -> "12.3", "4.56 k" */
    LOOK_MARK,         /* a switch: its header where it is on, nothing where it is off */
};

struct column {
    const char *key;    /* JSON key and CSV header, as in DESIGN.md */
    const char *header; /* text; NULL = not in text */
    enum look look;
    bool left;     /* text: left-aligned */
    bool optional; /* text: left out when no row has a value */
    struct cell (*value)(const void *row);
    const char *doc;    /* one phrase for help, NULL = none */
    const char *legend; /* a few words below the table, NULL = the header says it all */
};

struct table {
    const struct column *columns; /* ends with a NULL key */
    const void *rows;
    size_t row_bytes;
    size_t count;
};

/* Text with a header line, columns as wide as their cells; no trailing blanks. `color` makes the header bold. Returns
 * false when memory is short. */
bool table_print_text(FILE *stream, const struct table *table, bool color);
/* One cell as text shows it. Returns the columns that it takes; `stream` NULL: only that. */
size_t table_print_cell(FILE *stream, const struct column *column, struct cell cell);
/* "header: legend; header: legend", wrapped, of the columns that the text shows; nothing where none has a legend.
 * Returns false when memory is short. */
bool table_print_legend(FILE *stream, const struct table *table);
/* Cuts the table to its first `most` rows, where that is not 0. Returns how many it had. */
size_t table_cut(struct table *table, size_t most);
/* "... and 12 more: --top N" where rows were cut. */
void table_print_rest(FILE *stream, const struct table *table, size_t had);
/* A header line of keys, then one line per row. */
void table_print_csv(FILE *stream, const struct table *table);
/* An array of objects, one per row, in the order of the columns. NULL when memory is short. */
json_t *table_to_json(const struct table *table);

/* A number that a dump may claim to be anything: beyond what JSON's integers hold here it becomes a real. */
json_t *unsigned_to_json(uint64_t number);

/* The same in parts, for rows that are never all in memory. */
void csv_print_header(FILE *stream, const struct column *columns);
void csv_print_row(FILE *stream, const struct column *columns, const void *row);
bool jsonl_print_row(FILE *stream, const struct column *columns, const void *row); /* false: memory is short */

/* The columns with these keys, which exist, in this order, into chosen[count + 1]; a header where one has none is its
 * key. */
void table_choose_columns(struct column *chosen, const struct column *columns, const char *const *keys, size_t count);
/* The column with that key, NULL when there is none. */
const struct column *table_column(const struct column *columns, const char *key);
/* Sorts rows in place by a column: numbers largest first, text ascending, unknown last; stable. Returns false when
 * memory is short. */
bool table_sort(void *rows, size_t row_bytes, size_t count, const struct column *column);

/* Writes a JSON document and a newline; takes over the reference. Returns false when `json` is NULL (memory is short)
 * or it could not be written. */
bool json_print(FILE *stream, json_t *json);

#endif
