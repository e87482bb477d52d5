/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables as text, CSV and JSON.
 * Lives here: printing rows through their columns.
 * Must not live here: any particular report.
 */
#include "analyzer/render/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"
#include "analyzer/render/wrapped_text.h"

/* 15 digits: what a double holds of a decimal number, without its binary tail. */
#define JSON_FORM (JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15))

static const void *row_at(const struct table *table, size_t i) {
    return (const char *)table->rows + i * table->row_bytes;
}

static double number_of(struct cell cell) {
    return cell.kind == CELL_INTEGER    ? (double)cell.integer
           : cell.kind == CELL_UNSIGNED ? (double)cell.number
                                        : cell.real;
}

static bool is_number(struct cell cell) {
    return cell.kind == CELL_INTEGER || cell.kind == CELL_UNSIGNED || cell.kind == CELL_REAL;
}

/* Writes a cell that is no text into `text`, as it is or as it looks to people. */
static void plain(struct cell cell, char text[64]) {
    switch (cell.kind) {
    case CELL_INTEGER:
        snprintf(text, 64, "%" PRId64, cell.integer);
        break;
    case CELL_UNSIGNED:
        snprintf(text, 64, "%" PRIu64, cell.number);
        break;
    case CELL_REAL:
        snprintf(text, 64, "%.15g", cell.real);
        break;
    case CELL_SWITCH:
        strcpy(text, cell.on ? "true" : "false");
        break;
    case CELL_HEX:
        snprintf(text, 64, "%016" PRIx64, cell.number);
        break;
    case CELL_UNKNOWN:
    case CELL_TEXT:
        text[0] = '\0';
        break;
    }
}

static void looking(struct cell cell, enum look look, char text[64]) {
    double number = number_of(cell);
    if (cell.kind == CELL_UNKNOWN)
        strcpy(text, "-");
    else if (!is_number(cell))
        plain(cell, text);
    else if (look == LOOK_SIZE)
        units_size(text, number < 0 ? 0 : number < 0x1p64 ? (uint64_t)number : UINT64_MAX);
    else if (look == LOOK_MICROSECONDS)
        units_time(text, number < 0 ? 0 : (uint64_t)llround(number * 1e3));
    else if (look == LOOK_SECONDS)
        units_time(text, number < 0 ? 0 : (uint64_t)llround(number * 1e9));
    else if (look == LOOK_GB_PER_S)
        units_rate(text, number * 1e9);
    else if (look == LOOK_PERCENT)
        snprintf(text, 64, "%.1f %%", number * 100);
    else if (look == LOOK_NUMBER)
        units_number(text, number);
    else if (look == LOOK_RATIO)
        snprintf(text, 64, "%.2f", number);
    else
        plain(cell, text);
}

/* Texts wider than `most` are shortened; 0: none is. */
static size_t print_cell(FILE *stream, const struct column *column, struct cell cell, size_t most) {
    char text[64];
    if (cell.kind == CELL_SWITCH && column->look == LOOK_MARK)
        cell = cell_text(cell.on ? column->header : "");
    if (cell.kind == CELL_TEXT)
        return print_shortened(stream, cell.text, most);
    looking(cell, column->look, text);
    const char *bound = cell.at_most ? "<= " : "";
    if (stream)
        fprintf(stream, "%s%s", bound, text);
    return strlen(bound) + strlen(text);
}

size_t table_print_cell(FILE *stream, const struct column *column, struct cell cell) {
    return print_cell(stream, column, cell, 0);
}

/* What makes an optional column worth showing. */
static bool has_value(const struct column *column, struct cell cell) {
    if (cell.kind == CELL_TEXT)
        return cell.text[0] != '\0';
    return column->look == LOOK_MARK ? cell.on : cell.kind != CELL_UNKNOWN;
}

/* Width of a column, 0 = left out; no text of it is wider than `most` (0: nothing bounds them). */
static size_t width_of(const struct table *table, const struct column *column, size_t most) {
    if (!column->header)
        return 0;
    size_t width = strlen(column->header);
    bool any = !column->optional;
    for (size_t i = 0; i < table->count; i++) {
        struct cell cell = column->value(row_at(table, i));
        size_t columns = print_cell(NULL, column, cell, most);
        any |= has_value(column, cell);
        if (columns > width)
            width = columns;
    }
    return any ? width : 0;
}

static void print_blanks(FILE *stream, size_t count) {
    fprintf(stream, "%*s", (int)count, "");
}

/* One line; `row` NULL is the header. Blanks are owed, and paid before the next cell, so that none trail. */
static void print_line(FILE *stream, const struct column *columns, const size_t *widths, const void *row) {
    size_t owed = 0;
    for (size_t i = 0; columns[i].key; i++) {
        if (widths[i] == 0)
            continue;
        struct cell cell = row ? columns[i].value(row) : cell_text(columns[i].header);
        size_t columns_used = print_cell(NULL, &columns[i], cell, widths[i]), rest = widths[i] - columns_used;
        if (columns_used > 0) {
            print_blanks(stream, owed + (columns[i].left ? 0 : rest));
            print_cell(stream, &columns[i], cell, widths[i]);
            owed = columns[i].left ? rest : 0;
        } else {
            owed += widths[i];
        }
        owed += 2;
    }
}

static void print_lines(FILE *stream, const struct table *table, const size_t *widths, bool color) {
    fputs(color ? "\033[1m" : "", stream);
    print_line(stream, table->columns, widths, NULL);
    fputs(color ? "\033[0m\n" : "\n", stream);
    for (size_t i = 0; i < table->count; i++) {
        print_line(stream, table->columns, widths, row_at(table, i));
        fputc('\n', stream);
    }
}

/* How many columns from `from` on have room beside those before `leading`, at least one that is shown. */
static size_t fitting(const size_t *widths, size_t count, size_t leading, size_t from, size_t screen) {
    size_t used = 0, i;
    bool any = false;
    for (i = 0; i < leading && i < from; i++)
        used += widths[i] ? widths[i] + 2 : 0;
    for (i = from; i < count; i++) {
        if (widths[i] == 0)
            continue;
        if (any && used + widths[i] > screen)
            break;
        used += widths[i] + 2;
        any = true;
    }
    return i;
}

/* Columns that say what a row is about: up to the last text among the first ones, and at least one. What they take must
 * leave room. */
enum { LEADING_MOST = 2 };
static size_t leading_columns(const struct column *columns, const size_t *widths, size_t screen) {
    size_t shown = 0, first = 0, leading = 0, used = 0;
    for (size_t i = 0; columns[i].key && shown < LEADING_MOST; i++) {
        if (widths[i] == 0)
            continue;
        used += widths[i] + 2;
        if (shown++ == 0)
            first = i + 1;
        if (columns[i].left && used <= screen / 2)
            leading = i + 1;
    }
    return leading > 0 ? leading : first;
}

/* Where a line is wider than the screen, the columns that do not fit follow below, each time with the leading ones. */
static void print_on_screen(FILE *stream, const struct table *table, const size_t *widths, size_t count, size_t screen,
                            bool color) {
    size_t leading = leading_columns(table->columns, widths, screen);
    size_t *part = calloc(count + 1, sizeof *part);
    for (size_t from = 0, to; part && from < count; from = to) {
        to = screen > 0 ? fitting(widths, count, leading, from, screen) : count;
        for (size_t i = 0; i < count; i++)
            part[i] = (i >= from && i < to) || i < leading ? widths[i] : 0;
        if (from > 0)
            fputc('\n', stream);
        print_lines(stream, table, part, color);
        while (to < count && widths[to] == 0)
            to++;
    }
    if (!part)
        print_lines(stream, table, widths, color);
    free(part);
}

bool table_print_text(FILE *stream, const struct table *table, bool color) {
    size_t count = 0, screen = screen_columns(stream);
    while (table->columns[count].key)
        count++;
    size_t *widths = calloc(count + 1, sizeof *widths);
    if (!widths)
        return false;
    for (size_t i = 0; i < count; i++)
        widths[i] = width_of(table, &table->columns[i], screen / 2);
    print_on_screen(stream, table, widths, count, screen, color);
    free(widths);
    return true;
}

size_t table_cut(struct table *table, size_t most) {
    size_t had = table->count;
    if (most > 0 && most < had)
        table->count = most;
    return had;
}

void table_print_rest(FILE *stream, const struct table *table, size_t had) {
    if (had > table->count)
        fprintf(stream, "... and %zu more: --top N, --format csv\n", had - table->count);
}

bool table_print_legend(FILE *stream, const struct table *table) {
    char *text = NULL;
    size_t bytes = 0, told = 0;
    FILE *legend = open_memstream(&text, &bytes);
    if (!legend)
        return false;
    for (const struct column *column = table->columns; column->key; column++)
        if (column->legend && width_of(table, column, 0) > 0)
            fprintf(legend, "%s%s: %s", told++ ? "; " : "", column->header, column->legend);
    bool done = fclose(legend) == 0;
    if (done && told > 0)
        print_wrapped(stream, text, 0, 0);
    free(text);
    return done;
}

void csv_print_header(FILE *stream, const struct column *columns) {
    for (const struct column *column = columns; column->key; column++)
        fprintf(stream, "%s%s", column == columns ? "" : ",", column->key);
    fputc('\n', stream);
}

void csv_print_row(FILE *stream, const struct column *columns, const void *row) {
    for (const struct column *column = columns; column->key; column++) {
        struct cell cell = column->value(row);
        char text[64];
        if (column != columns)
            fputc(',', stream);
        if (cell.kind == CELL_TEXT) {
            escape_csv(stream, cell.text);
        } else {
            plain(cell, text);
            fputs(text, stream);
        }
    }
    fputc('\n', stream);
}

void table_print_csv(FILE *stream, const struct table *table) {
    csv_print_header(stream, table->columns);
    for (size_t i = 0; i < table->count; i++)
        csv_print_row(stream, table->columns, row_at(table, i));
}

json_t *unsigned_to_json(uint64_t number) {
    return number <= INT64_MAX ? json_integer((json_int_t)number) : json_real((double)number);
}

static json_t *cell_to_json(struct cell cell) {
    char text[64];
    switch (cell.kind) {
    case CELL_TEXT:
        return escape_json(cell.text);
    case CELL_INTEGER:
        return json_integer(cell.integer);
    case CELL_UNSIGNED:
        return unsigned_to_json(cell.number);
    case CELL_REAL:
        return json_real(cell.real);
    case CELL_SWITCH:
        return json_boolean(cell.on);
    case CELL_HEX:
        plain(cell, text);
        return json_string(text);
    case CELL_UNKNOWN:
        break;
    }
    return json_null();
}

static json_t *row_to_json(const struct column *columns, const void *row) {
    json_t *object = json_object();
    for (const struct column *column = columns; column->key; column++)
        if (json_object_set_new(object, column->key, cell_to_json(column->value(row))) != 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

json_t *table_to_json(const struct table *table) {
    json_t *array = json_array();
    for (size_t i = 0; i < table->count; i++)
        if (json_array_append_new(array, row_to_json(table->columns, row_at(table, i))) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

bool jsonl_print_row(FILE *stream, const struct column *columns, const void *row) {
    json_t *object = row_to_json(columns, row);
    if (!object)
        return false;
    json_dumpf(object, stream, JSON_COMPACT | JSON_FORM);
    fputc('\n', stream);
    json_decref(object);
    return true;
}

bool json_print(FILE *stream, json_t *json) {
    if (!json)
        return false;
    int result = json_dumpf(json, stream, JSON_INDENT(1) | JSON_FORM);
    json_decref(json);
    fputc('\n', stream);
    return result == 0;
}

const struct column *table_column(const struct column *columns, const char *key) {
    for (; columns->key; columns++)
        if (strcmp(columns->key, key) == 0)
            return columns;
    return NULL;
}

void table_choose_columns(struct column *chosen, const struct column *columns, const char *const *keys, size_t count) {
    for (size_t i = 0; i < count; i++) {
        chosen[i] = *table_column(columns, keys[i]);
        if (!chosen[i].header)
            chosen[i].header = keys[i];
    }
    chosen[count] = (struct column){.key = NULL};
}

/* ---- sorting --------------------------------------------------------------------------------- */

static int compare_cells(struct cell a, struct cell b) {
    if (a.kind == CELL_UNKNOWN || b.kind == CELL_UNKNOWN)
        return (a.kind == CELL_UNKNOWN) - (b.kind == CELL_UNKNOWN);
    if (a.kind == CELL_TEXT && b.kind == CELL_TEXT)
        return strcmp(a.text, b.text);
    if (a.kind == CELL_UNSIGNED && b.kind == CELL_UNSIGNED)
        return a.number > b.number ? -1 : a.number < b.number;
    if (a.kind == CELL_HEX && b.kind == CELL_HEX)
        return a.number < b.number ? -1 : a.number > b.number;
    return number_of(a) > number_of(b) ? -1 : number_of(a) < number_of(b);
}

/* Merges two sorted halves of `rows` through `work`. */
static void merge_sort(char *rows, char *work, size_t bytes, size_t count, const struct column *column) {
    if (count < 2)
        return;
    size_t half = count / 2, left = 0, right = half, to = 0;
    merge_sort(rows, work, bytes, half, column);
    merge_sort(rows + half * bytes, work, bytes, count - half, column);
    while (left < half && right < count) {
        bool second = compare_cells(column->value(rows + left * bytes), column->value(rows + right * bytes)) > 0;
        memcpy(work + to++ * bytes, rows + (second ? right++ : left++) * bytes, bytes);
    }
    memcpy(work + to * bytes, rows + left * bytes, (half - left) * bytes);
    to += half - left;
    memcpy(work + to * bytes, rows + right * bytes, (count - right) * bytes);
    memcpy(rows, work, count * bytes);
}

bool table_sort(void *rows, size_t row_bytes, size_t count, const struct column *column) {
    char *work = malloc(row_bytes * count + 1);
    if (!work)
        return false;
    merge_sort(rows, work, row_bytes, count, column);
    free(work);
    return true;
}
