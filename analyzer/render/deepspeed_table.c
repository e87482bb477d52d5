/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSpeed's two tables and its dictionary.
 * Lives here: their layout, column widths and keys.
 * Must not live here: their figures.
 */
#include "analyzer/render/deepspeed_table.h"

#include <inttypes.h>
#include <string.h>

#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"

enum { WIDTH = 20 };

static void print_header(FILE *stream, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "%-*s", WIDTH, names[i]);
    fputc('\n', stream);
}

static void print_row(FILE *stream, const struct deepspeed_row *row, uint64_t count, const double values[4]) {
    char size[UNITS_TEXT];
    units_deepspeed_size(size, row->msg_bytes);
    fprintf(stream, "%*s%-*s%-*" PRIu64, WIDTH, "", WIDTH, size, WIDTH, count);
    for (int i = 0; i < 4; i++)
        fprintf(stream, "%-*.2f", WIDTH, values[i]);
    fputc('\n', stream);
}

static bool has_name_of(const struct deepspeed_row *row, const struct deepspeed_row *other) {
    return strcmp(row->op, other->op) == 0 && (!row->caller || strcmp(row->caller, other->caller) == 0);
}

/* An operation's name stands alone, above its first row: `before` is the one printed last, NULL = none. Returns `row`.
 */
static const struct deepspeed_row *print_name(FILE *stream, const struct deepspeed_row *before,
                                              const struct deepspeed_row *row) {
    if (before && has_name_of(row, before))
        return row;
    escape_text(stream, row->op);
    if (row->caller) {
        fputs(" | [Caller Func: ", stream);
        escape_text(stream, row->caller);
        fputc(']', stream);
    }
    fputc('\n', stream);
    return row;
}

static void print_summary(FILE *stream, const struct deepspeed *log) {
    static const char *const names[] = {"Comm. Op",        "Message Size",    "Count",           "Total Latency(ms)",
                                        "Avg Latency(ms)", "tput_avg (Gbps)", "busbw_avg (Gbps)"};
    const struct deepspeed_row *before = NULL;
    print_header(stream, names, sizeof names / sizeof *names);
    for (size_t i = 0; i < log->count; i++) {
        const struct deepspeed_row *row = &log->rows[i];
        before = print_name(stream, before, row);
        print_row(stream, row, row->count, (double[]){row->total_ms, row->avg_ms, row->tput_gbps, row->busbw_gbps});
    }
}

static void print_stragglers(FILE *stream, const struct deepspeed *log) {
    static const char *const names[] = {"Comm. Op",           "Message Size",        "Count",
                                        "Total comm lat(ms)", "Total straggler(ms)", "Avg comm lat(ms)",
                                        "Avg straggler(ms)"};
    fputs("_______________________________\nBreakdown with straggler effect\n-------------------------------\n",
          stream);
    const struct deepspeed_row *before = NULL;
    print_header(stream, names, sizeof names / sizeof *names);
    for (size_t i = 0; i < log->count; i++) {
        const struct deepspeed_row *row = &log->rows[i];
        if (row->matched == 0)
            continue;
        before = print_name(stream, before, row);
        print_row(stream, row, row->matched,
                  (double[]){row->comm_total_ms, row->straggler_total_ms, row->comm_avg_ms, row->straggler_avg_ms});
    }
}

static bool any_approximate(const struct deepspeed *log) {
    for (size_t i = 0; i < log->count; i++)
        if (log->rows[i].approximate)
            return true;
    return false;
}

void deepspeed_print_text(FILE *stream, const struct deepspeed *log) {
    print_summary(stream, log);
    if (log->stragglers_known)
        print_stragglers(stream, log);
    fprintf(
        stream,
        "\nrank %d's figures as DeepSpeed's comms logger computes them, bug for bug: bandwidth with the world's size, "
        "the wait of this rank named straggler.\n",
        log->rank);
    if (any_approximate(log))
        fputs("averages are approximate: not every call's record is left, so they come from histograms\n", stream);
    if (log->not_on_record > 0)
        fprintf(stream, "%" PRId64 " calls are not here: by caller the records tell, and theirs are overwritten\n",
                log->not_on_record);
    if (!log->stragglers_known)
        fputs("no straggler table: there are too many records to join\n", stream);
    if (log->unmatched > 0)
        fprintf(stream,
                "%" PRIu64 " collectives are not in the straggler table: another rank's record of them is missing\n",
                log->unmatched);
}

/* The object `name` of `parent`, made when it is not there. NULL when memory is short. */
static json_t *member(json_t *parent, const char *name) {
    json_t *object = json_object_get(parent, name);
    if (!object && json_object_set_new(parent, name, json_object()) == 0)
        object = json_object_get(parent, name);
    return object;
}

static int set_row(json_t *parent, const struct deepspeed_row *row, json_t *figures) {
    char key[24], size[UNITS_TEXT];
    snprintf(key, sizeof key, "%" PRIu64, row->msg_bytes);
    units_deepspeed_size(size, row->msg_bytes);
    json_t *name = row->caller ? json_sprintf("%s | [Caller Func: %s]", row->op, row->caller) : json_string(row->op);
    json_t *sizes = name ? member(parent, json_string_value(name)) : NULL;
    json_decref(name);
    json_object_set_new(figures, "msg_size_bytes", json_integer((json_int_t)row->msg_bytes));
    json_object_set_new(figures, "msg_size_str", json_string(size));
    return json_object_set_new(sizes, key, figures);
}

static int add_row(json_t *summary, json_t *stragglers, const struct deepspeed_row *row) {
    int failed = set_row(summary, row,
                         json_pack("{s:I, s:f, s:f, s:f, s:f, s:b}", "count", (json_int_t)row->count,
                                   "total_latency_ms", row->total_ms, "avg_latency_ms", row->avg_ms, "tput_avg_gbps",
                                   row->tput_gbps, "busbw_avg_gbps", row->busbw_gbps, "approximate", row->approximate));
    if (row->matched > 0)
        failed |= set_row(stragglers, row,
                          json_pack("{s:I, s:f, s:f, s:f, s:f}", "count", (json_int_t)row->matched, "total_comm_lat_ms",
                                    row->comm_total_ms, "total_straggler_ms", row->straggler_total_ms,
                                    "avg_comm_lat_ms", row->comm_avg_ms, "avg_straggler_ms", row->straggler_avg_ms));
    return failed;
}

static json_t *number_or_null(bool known, int64_t number) {
    return known ? json_integer(number) : json_null();
}

json_t *deepspeed_to_json(const struct deepspeed *log) {
    json_t *summary = json_object(), *stragglers = json_object();
    int failed = !summary || !stragglers;
    for (size_t i = 0; i < log->count && !failed; i++)
        failed = add_row(summary, stragglers, &log->rows[i]);
    if (failed) {
        json_decref(summary);
        json_decref(stragglers);
        return NULL;
    }
    if (!log->stragglers_known) {
        json_decref(stragglers);
        stragglers = json_null();
    }
    return json_pack("{s:o, s:o, s:{s:o, s:o, s:I, s:o, s:s}}", "summary", summary, "straggler_analysis", stragglers,
                     "metadata", "world_size", number_or_null(log->world_size > 0, log->world_size), "rank",
                     number_or_null(log->rank >= 0, log->rank), "timestamp", (json_int_t)log->ended_realtime_s,
                     "calls_not_on_record", number_or_null(log->not_on_record >= 0, log->not_on_record), "formulas",
                     "DeepSpeed's, bug for bug: bandwidth with the world's size, the waiting rank named straggler");
}
