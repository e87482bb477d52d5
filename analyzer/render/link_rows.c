/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/render/link_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"
#include "analyzer/render/wrapped_text.h"

static const char *const kinds[] = {
    [LINK_MESSAGES] = "messages", [LINK_NETWORK] = "network", [LINK_COLLECTIVES] = "collectives"};
static const char *const types[] = {
    [LINK_WITHIN_PROCESS] = "process", [LINK_WITHIN_HOST] = "host", [LINK_BETWEEN_HOSTS] = "network"};
static const char *const methods[] = {[LINK_COUNTED] = "counted",
                                      [LINK_BOUNDED] = "bounded",
                                      [LINK_TIMED] = "timed",
                                      [LINK_BY_PROXIES] = "proxies",
                                      [LINK_ESTIMATED] = "estimated"};
static const char *const gaps[] = {
    [LINK_GAP_ALGORITHM] = "algorithm", [LINK_GAP_SELF] = "self",       [LINK_GAP_NO_DUMP] = "no-dump",
    [LINK_GAP_UNMATCHED] = "unmatched", [LINK_GAP_UNTIMED] = "untimed", [LINK_GAP_TOO_MANY] = "too-many"};
static const char *const counters[] = {
    [COUNTED_BY_SENDER] = "sender", [COUNTED_BY_RECEIVER] = "receiver", [COUNTED_BY_RECORDS] = "records"};
static const char *const reasons[] = {
    [LEFT_OUT_EVERY_PAIR] = "every-pair", [LEFT_OUT_ROOT] = "root", [LEFT_OUT_UNKNOWN] = "unknown"};

/* ---- columns ------------------------------------------------------------------------------------------------- */

static struct cell text_cell(const char *text) {
    return text ? cell_text(text) : cell_unknown();
}

static struct cell rank_cell(int32_t rank) {
    return rank == RANK_UNKNOWN ? cell_unknown() : cell_integer(rank);
}

static struct cell wait_cell(const struct link_row *row, int64_t ns) {
    return row->waits_known ? cell_real(seconds_of(ns)) : cell_unknown();
}

static struct cell rate_cell(const struct link_row *row) {
    return row->timed_ns > 0 ? cell_real((double)row->timed_bytes / (double)row->timed_ns) : cell_unknown();
}

static bool is_counted(const struct link_row *row) {
    return row->key.kind == LINK_MESSAGES;
}

#define ROW ((const struct link_row *)item)
#define VALUE(NAME, CELL)                                                                                              \
    static struct cell NAME(const void *item) { return CELL; }
VALUE(kind, cell_text(kinds[ROW->key.kind]))
VALUE(from, rank_cell(ROW->from_rank))
VALUE(to, rank_cell(ROW->to_rank))
VALUE(from_host, text_cell(ROW->from_host && ROW->from_host[0] ? ROW->from_host : NULL))
VALUE(to_host, text_cell(ROW->to_host && ROW->to_host[0] ? ROW->to_host : NULL))
VALUE(type, text_cell(types[ROW->type]))
VALUE(messages, cell_unsigned(ROW->messages))
VALUE(bytes, cell_bound(ROW->bytes, is_counted(ROW) && ROW->counted_by == COUNTED_BY_RECEIVER))
VALUE(wait, wait_cell(ROW, add_ns(ROW->late_sender_ns, ROW->late_receiver_ns)))
VALUE(late_sender, wait_cell(ROW, ROW->late_sender_ns))
VALUE(late_receiver, wait_cell(ROW, ROW->late_receiver_ns))
VALUE(matched, is_counted(ROW) ? cell_unsigned(ROW->matched) : cell_unknown())
VALUE(timed, cell_unsigned(ROW->timed))
VALUE(timed_bytes, cell_unsigned(ROW->timed_bytes))
VALUE(transfer, ROW->timed_ns > 0 ? cell_real((double)ROW->timed_ns / 1e9) : cell_unknown())
VALUE(bandwidth, rate_cell(ROW))
VALUE(at_least, ROW->least_bytes_per_ns > 0 ? cell_real(ROW->least_bytes_per_ns) : cell_unknown())
VALUE(method, cell_text(methods[ROW->method]))
VALUE(unmeasured, text_cell(gaps[ROW->gap]))
VALUE(counted_by, is_counted(ROW) ? cell_text(counters[ROW->counted_by]) : cell_unknown())

/* clang-format off */
const struct column link_columns[] = {
    {"kind", "kind", .left = true, .value = kind, .doc = "messages: sends and receives; network: steps of NCCL's proxies; collectives: what they would put on the link in a ring, an estimate", .legend = "network: NCCL's; collectives: estimate for a ring"},
    {"from", "from", .optional = true, .value = from, .doc = "world rank that sends"},
    {"to", "to", .optional = true, .value = to, .doc = "world rank that receives"},
    {"from_host", "from host", .left = true, .optional = true, .value = from_host, .doc = "where the sender ran"},
    {"to_host", "to host", .left = true, .optional = true, .value = to_host, .doc = "where the receiver ran"},
    {"type", "type", .left = true, .value = type, .doc = "process: a rank with itself; host: within one; network: between two"},
    {"messages", "messages", .value = messages, .doc = "messages of the whole run; network: steps; collectives: calls of the sender"},
    {"bytes", "bytes", LOOK_SIZE, .value = bytes, .doc = "of these; in text <= where the receiver alone counted them, which may know no more than its buffers"},
    {"wait_seconds", "waited", LOOK_SECONDS, .value = wait, .doc = "what either end waited for the other, of the messages matched", .legend = "for the other end, of messages on record"},
    {"late_sender_seconds", NULL, LOOK_SECONDS, .value = late_sender, .doc = "of it, the receiver for the sender"},
    {"late_receiver_seconds", NULL, LOOK_SECONDS, .value = late_receiver, .doc = "of it, the sender for the receiver"},
    {"messages_matched", NULL, .value = matched, .doc = "messages on record at both ends"},
    {"messages_timed", NULL, .value = timed, .doc = "messages, or steps, whose transfer was timed"},
    {"bytes_timed", NULL, LOOK_SIZE, .value = timed_bytes, .doc = "of these"},
    {"transfer_seconds", "transfer", LOOK_SECONDS, .value = transfer, .doc = "sum of their transfer times: from when both ends were there until the receive returned; network: on the wire", .legend = "of the messages that could be timed"},
    {"bandwidth_gb_per_s", "bandwidth", LOOK_GB_PER_S, .value = bandwidth, .doc = "bytes_timed by transfer_seconds: of one message or step at a time", .legend = "one message at a time"},
    {"bandwidth_at_least_gb_per_s", "at least", LOOK_GB_PER_S, .optional = true, .value = at_least, .doc = "where calls that may have waited for others saw the messages end: what those prove that are held up least", .legend = "bandwidth proved by the messages held up least"},
    {"method", "measured", .left = true, .value = method, .doc = "where the best of the figures come from"},
    {"unmeasured", NULL, .left = true, .value = unmeasured, .doc = "why there is no bandwidth"},
    {"counted_by", NULL, .left = true, .value = counted_by, .doc = "whose number and bytes they are: sender's totals, receiver's (receives without a status have the size of their buffers), or those of the records"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

struct table link_rows_table(const struct link_table *links) {
    return (struct table){link_columns, links->rows, sizeof *links->rows, links->count};
}

/* ---- matrix -------------------------------------------------------------------------------------------------- */

struct matrix {
    const struct column *column;
    uint32_t ends[LINK_MATRIX_MOST]; /* ascending */
    char names[LINK_MATRIX_MOST][24];
    const struct link_row *rows[LINK_MATRIX_MOST][LINK_MATRIX_MOST];
    size_t widths[LINK_MATRIX_MOST];
    size_t count, label;
};

/* False: there are more than fit. */
static bool add_end(struct matrix *matrix, uint32_t end) {
    size_t at = 0;
    while (at < matrix->count && matrix->ends[at] < end)
        at++;
    if (at < matrix->count && matrix->ends[at] == end)
        return true;
    if (matrix->count == LINK_MATRIX_MOST)
        return false;
    memmove(&matrix->ends[at + 1], &matrix->ends[at], (matrix->count - at) * sizeof *matrix->ends);
    matrix->ends[at] = end;
    matrix->count++;
    return true;
}

static size_t place_of(const struct matrix *matrix, uint32_t end) {
    size_t at = 0;
    while (matrix->ends[at] != end)
        at++;
    return at;
}

static struct cell cell_at(const struct matrix *matrix, size_t from, size_t to) {
    const struct link_row *row = matrix->rows[from][to];
    return row ? matrix->column->value(row) : cell_text(".");
}

/* Sets names and widths; returns the columns of a line. Hosts' names may be long, and are told once. */
static size_t measure(struct matrix *matrix, bool by_host) {
    size_t all = 0;
    for (size_t i = 0; i < matrix->count; i++) {
        const char *form = matrix->ends[i] == NOWHERE ? "?" : by_host ? "[%" PRIu32 "]" : "%" PRIu32;
        snprintf(matrix->names[i], sizeof matrix->names[i], form, matrix->ends[i]);
        size_t width = strlen(matrix->names[i]);
        matrix->label = width > matrix->label ? width : matrix->label;
        for (size_t from = 0; from < matrix->count; from++) {
            size_t cell = table_print_cell(NULL, matrix->column, cell_at(matrix, from, i));
            width = cell > width ? cell : width;
        }
        matrix->widths[i] = width;
        all += width + 2;
    }
    return all + matrix->label;
}

static void print_matrix(FILE *stream, const struct matrix *matrix, bool color) {
    fprintf(stream, "%s%*s", color ? "\033[1m" : "", (int)matrix->label, "");
    for (size_t to = 0; to < matrix->count; to++)
        fprintf(stream, "  %*s", (int)matrix->widths[to], matrix->names[to]);
    fputs(color ? "\033[0m\n" : "\n", stream);
    for (size_t from = 0; from < matrix->count; from++) {
        fprintf(stream, "%*s", (int)matrix->label, matrix->names[from]);
        for (size_t to = 0; to < matrix->count; to++) {
            struct cell cell = cell_at(matrix, from, to);
            size_t used = table_print_cell(NULL, matrix->column, cell);
            fprintf(stream, "  %*s", (int)(matrix->widths[to] - used), "");
            table_print_cell(stream, matrix->column, cell);
        }
        fputc('\n', stream);
    }
}

static void print_hosts(FILE *stream, const struct matrix *matrix) {
    for (size_t i = 0; i < matrix->count; i++)
        for (size_t j = 0; j < matrix->count; j++) {
            const struct link_row *row = matrix->rows[i][j] ? matrix->rows[i][j] : matrix->rows[j][i];
            if (!row)
                continue;
            const char *name = matrix->rows[i][j] ? row->from_host : row->to_host;
            fprintf(stream, "%s: ", matrix->names[i]);
            escape_text(stream, !name ? "ranks without a dump" : name[0] ? name : "not known which");
            fputc('\n', stream);
            break;
        }
}

bool link_matrix_print(FILE *stream, const struct link_table *links, const struct column *column, bool color,
                       bool *fits) {
    struct matrix *matrix = calloc(1, sizeof *matrix);
    *fits = links->count > 0;
    if (!matrix)
        return false;
    matrix->column = column;
    uint32_t shown = links->count > 0 ? links->rows[0].key.kind : 0;
    for (size_t i = 0; i < links->count && *fits && links->rows[i].key.kind == shown; i++)
        *fits = add_end(matrix, links->rows[i].key.from) && add_end(matrix, links->rows[i].key.to);
    for (size_t i = 0; i < links->count && *fits && links->rows[i].key.kind == shown; i++)
        matrix->rows[place_of(matrix, links->rows[i].key.from)][place_of(matrix, links->rows[i].key.to)] =
            &links->rows[i];
    size_t screen = screen_columns(stream);
    *fits = *fits && measure(matrix, links->by_host) <= (screen > 0 ? screen : SENTENCE_COLUMNS);
    if (*fits) {
        fprintf(stream, "%s of %s, from %s (down) to %s (across)\n", column->header, kinds[shown],
                links->by_host ? "host" : "rank", links->by_host ? "host" : "rank");
        print_matrix(stream, matrix, color);
        if (links->by_host)
            print_hosts(stream, matrix);
    }
    free(matrix);
    return true;
}

/* ---- left out ------------------------------------------------------------------------------------------------ */

json_t *links_left_out_to_json(const struct link_table *links) {
    json_t *array = json_array();
    for (size_t i = 0; i < links->left_out_count; i++) {
        const struct link_left_out *left_out = &links->left_out[i];
        json_array_append_new(array, json_pack("{s:o, s:o, s:o, s:s}", "op", escape_json(left_out->key), "calls",
                                               unsigned_to_json(left_out->calls), "bytes",
                                               unsigned_to_json(left_out->bytes), "reason", reasons[left_out->why]));
    }
    return array;
}

void links_left_out_print(FILE *stream, const struct link_table *links) {
    static const char *const words[] = {[LEFT_OUT_EVERY_PAIR] = "an equal share goes between each pair of ranks",
                                        [LEFT_OUT_ROOT] = "totals do not tell the root",
                                        [LEFT_OUT_UNKNOWN] = "its way between the ranks is not known"};
    for (size_t i = 0; i < links->left_out_count; i++) {
        const struct link_left_out *left_out = &links->left_out[i];
        char size[UNITS_TEXT];
        units_size(size, left_out->bytes);
        fputs("on no link: ", stream);
        escape_text(stream, left_out->key);
        fprintf(stream, ", %s in %" PRIu64 " calls (%s)\n", size, left_out->calls, words[left_out->why]);
    }
}
