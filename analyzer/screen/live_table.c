/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: columns and keys. Must not live here: sentences.
 */
#include "analyzer/screen/live_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/render/escape.h"

/* ---- columns --------------------------------------------------------------------------------- */

#define VALUE(NAME, CELL)                                                                                              \
    static struct cell value_##NAME(const void *item) {                                                                \
        const struct live_table_row *shown = item;                                                                     \
        return CELL;                                                                                                   \
    }
#define KNOWN_REAL(NUMBER)    ((NUMBER) >= 0 ? cell_real(NUMBER) : cell_unknown())
#define KNOWN_INTEGER(NUMBER) ((NUMBER) >= 0 ? cell_integer(NUMBER) : cell_unknown())
#define KNOWN_TEXT(TEXT)      ((TEXT)[0] ? cell_text(TEXT) : cell_unknown())

VALUE(rank, KNOWN_INTEGER(shown->row.rank))
VALUE(host, KNOWN_TEXT(shown->row.host))
VALUE(pid, shown->row.pid > 0 ? cell_integer(shown->row.pid) : cell_unknown())
VALUE(state, cell_text(live_state_name(shown->row.state)))
VALUE(doing, cell_text(shown->doing))
VALUE(call, KNOWN_TEXT(shown->row.call))
VALUE(comm, shown->row.has_comm ? cell_hex(shown->row.comm) : cell_unknown())
VALUE(comm_name, KNOWN_TEXT(shown->row.comm_name))
VALUE(since, shown->row.since_ns >= 0 ? cell_real((double)shown->row.since_ns / 1e9) : cell_unknown())
VALUE(calls, KNOWN_REAL(shown->row.calls_per_s))
VALUE(bytes, KNOWN_REAL(shown->row.bytes_per_s))
VALUE(wait, KNOWN_REAL(shown->row.wait_share))
VALUE(waits_for, shown->row.waits_for_count > 0 ? cell_text(shown->waits_for) : cell_unknown())
VALUE(waited_by, cell_integer(shown->row.waited_by))
VALUE(behind, KNOWN_INTEGER(shown->row.behind))
VALUE(behind_comm, shown->row.behind > 0 ? cell_hex(shown->row.behind_comm) : cell_unknown())
VALUE(behind_comm_name, shown->row.behind > 0 ? KNOWN_TEXT(shown->row.behind_comm_name) : cell_unknown())

const struct column live_columns[] = {
    {"rank", "rank", .value = value_rank, .doc = "world rank"},
    {"host", "host", .left = true, .value = value_host, .doc = "where it runs"},
    {"pid", NULL, .value = value_pid, .doc = "its process"},
    {"state", NULL, .left = true, .value = value_state,
     .doc =
         "computing, waiting (in a call that ends when others do something), polling, in_call, starting, finalizing, "
         "finished, stopped, aborted, exited, gone, no_dump, not_reachable (its dump lies on another host)"},
    {"doing", "doing", .left = true, .value = value_doing, .doc = "the call it is in, or what else it does"},
    {"since_seconds", "since", LOOK_SECONDS, .value = value_since, .doc = "for how long"},
    {"call", NULL, .left = true, .value = value_call, .doc = "the call it is in"},
    {"comm", NULL, .left = true, .value = value_comm, .doc = "communicator of the call that it waits in"},
    {"comm_name", NULL, .left = true, .value = value_comm_name, .doc = "name of its communicator"},
    {"calls_per_s", "calls/s", LOOK_NUMBER, .value = value_calls, .doc = "communication calls that ended, per second"},
    {"bytes_per_s", "bytes/s", LOOK_SIZE, .value = value_bytes,
     .doc = "bytes of these, as commtap summary counts them; of GPUs' operations as they end where those are timed"},
    {"wait_share", "wait", LOOK_PERCENT, .value = value_wait,
     .doc = "share of the time in calls that wait for others, or that a GPU's streams waited for communication: of the "
            "thread or GPU that waited most; unknown where no stream tells how long it waits"},
    {"waits_for", "waits for", .left = true, .value = value_waits_for,
     .doc = "ranks without which its call cannot end"},
    {"waited_by", "awaited by", .value = value_waited_by, .doc = "how many ranks wait for it"},
    {"behind", "behind", .value = value_behind,
     .doc = "collectives that another member of a communicator has entered and this rank has not, at least"},
    {"behind_comm", NULL, .left = true, .value = value_behind_comm, .doc = "in which communicator that is most"},
    {"behind_comm_name", "behind in", .left = true, .optional = true, .value = value_behind_comm_name,
     .doc = "name of the communicator in which that is most"},
    {.key = NULL}};

/* ---- rows ------------------------------------------------------------------------------------ */

/* "0-2,5", cut where it takes too long. */
static void say_targets(char text[40], const struct live_row *row) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0, end; i < row->waits_for_count; i = end) {
        char run[28];
        for (end = i + 1; end < row->waits_for_count && row->waits_for[end] == row->waits_for[end - 1] + 1;)
            end++;
        int length = end > i + 1 ? snprintf(run, sizeof run, "%s%" PRId32 "-%" PRId32, i ? "," : "", row->waits_for[i],
                                            row->waits_for[end - 1])
                                 : snprintf(run, sizeof run, "%s%" PRId32, i ? "," : "", row->waits_for[i]);
        if (used + (size_t)length + 3 > 24) {
            strcpy(text + used, ",..");
            return;
        }
        memcpy(text + used, run, (size_t)length + 1);
        used += (size_t)length;
    }
}

static void turn_round(struct live_table *table) {
    for (size_t i = 0; i < table->count / 2; i++) {
        struct live_table_row row = table->rows[i];
        table->rows[i] = table->rows[table->count - 1 - i];
        table->rows[table->count - 1 - i] = row;
    }
}

bool live_table_make(struct live_table *table, const struct live_rows *rows, const struct column *sort, bool reversed,
                     bool (*is_shown)(const void *context, const struct live_table_row *row), const void *context) {
    *table = (struct live_table){.rows = malloc((rows->count + 1) * sizeof *table->rows)};
    if (!table->rows)
        return false;
    for (size_t i = 0; i < rows->count; i++) {
        struct live_table_row *row = &table->rows[table->count];
        row->row = rows->items[i];
        live_text_doing(row->doing, sizeof row->doing, &row->row);
        say_targets(row->waits_for, &row->row);
        table->count += !is_shown || is_shown(context, row);
    }
    bool done = !sort || table_sort(table->rows, sizeof *table->rows, table->count, sort);
    if (reversed)
        turn_round(table);
    return done;
}

void live_table_free(struct live_table *table) {
    free(table->rows);
    *table = (struct live_table){0};
}

struct table live_table_table(const struct live_table *table) {
    return (struct table){
        .columns = live_columns, .rows = table->rows, .row_bytes = sizeof *table->rows, .count = table->count};
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *targets_to_json(const struct live_row *row) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < row->waits_for_count; i++)
        json_array_append_new(array, json_integer(row->waits_for[i]));
    return array;
}

static json_t *rows_to_json(const struct live_table *table) {
    struct table plain = live_table_table(table);
    json_t *array = table_to_json(&plain);
    for (size_t i = 0; array && i < table->count; i++)
        json_object_set_new(json_array_get(array, i), "waits_for", targets_to_json(&table->rows[i].row));
    return array;
}

static json_t *culprits_to_json(const struct live_summary *summary) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < summary->culprit_count; i++)
        json_array_append_new(
            array, json_pack("{s:o, s:s}", "rank",
                             summary->culprits[i].rank >= 0 ? json_integer(summary->culprits[i].rank) : json_null(),
                             "state", culprit_state_name(summary->culprits[i].state)));
    return array;
}

static json_t *seconds_or_null(int64_t ns) {
    return ns >= 0 ? json_real((double)ns / 1e9) : json_null();
}

json_t *live_to_json(const struct live_table *table, const struct live_summary *summary, const struct live_rows *rows,
                     const struct job *job) {
    bool twice = summary->interval_ns > 0;
    return json_pack("{s:s, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "schema", "commtap.top/1",
                     "run_id", job->count > 0 ? escape_json(job->dumps[0]->run_id) : json_null(), "ranks_expected",
                     job->ranks_expected > 0 ? json_integer(job->ranks_expected) : json_null(), "ranks_seen",
                     (json_int_t)summary->reachable, "ranks_alive", (json_int_t)summary->alive, "interval_seconds",
                     seconds_or_null(twice ? summary->interval_ns : -1), "ranks_moved",
                     twice ? json_integer((json_int_t)summary->moved) : json_null(), "standing_seconds",
                     seconds_or_null(summary->standing_ns), "verdict",
                     summary->judged ? json_string(verdict_name(summary->verdict)) : json_null(), "ranks_missing",
                     (json_int_t)rows->missing, "culprits", culprits_to_json(summary), "ranks", rows_to_json(table));
}
