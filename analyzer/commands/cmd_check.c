/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap check: are these dumps sound.
 * Lives here: one row per dump, what is wrong with which file and where, what was lost, what is missing.
 * Must not live here: the checks themselves (load/).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cli/input.h"
#include "analyzer/load/rows.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/loss_list.h"
#include "analyzer/render/table.h"

struct check_row {
    const struct dump *dump;
    const char *file; /* name without directory */
    const char *state;
    char format[16]; /* "1.0" */
    uint64_t events, lost, torn, calls;
    bool duplicate;
};

struct check {
    struct dump_set set;
    struct check_row *rows;
    size_t count;
    size_t problems; /* over all files */
    size_t missing;  /* ranks of the world without a dump, beyond those not collected */
    struct loss_counts losses;
};

/* ---- what a dump says of itself --------------------------------------------------------------------------------- */

static const char *state_name(const struct dump *dump) {
    static const struct {
        uint32_t bit;
        const char *name;
    } states[] = {{STATE_SWITCHED_OFF, "switched off"},
                  {STATE_FINALISED, "finalised"},
                  {STATE_ABORTING, "aborted"},
                  {STATE_EXITED, "exited without finalise"},
                  {STATE_FINALISING, "killed in finalise"},
                  {STATE_INITIALISED, "killed or running"},
                  {STATE_ACTIVE, "killed or running, never initialised"}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (dump->header->state & states[i].bit)
            return states[i].name;
    return "never active";
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static uint64_t count_calls(const struct dump *dump, const struct dump_lane *lane) {
    uint64_t calls = lane->state ? lane->state->operations_lost : 0;
    for (uint32_t i = 0; i < lane->operation_count; i++) {
        struct operation_row row;
        enum row_state state = operation_row_read(dump, &lane->operations[i], &row);
        if (state == ROW_STABLE || state == ROW_TORN)
            calls += row.count;
    }
    return calls;
}

static struct check_row describe_dump(const struct dump *dump, bool duplicate) {
    struct check_row row = {.dump = dump, .file = base_name(dump->path), .state = "unusable", .duplicate = duplicate};
    if (!dump->header)
        return row;
    row.state = state_name(dump);
    snprintf(row.format, sizeof row.format, "%u.%u", FORMAT_MAJOR_OF(dump->header->version),
             FORMAT_MINOR_OF(dump->header->version));
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        if (!dump->lanes[i].state)
            continue;
        uint64_t lost = dump_lane_lost(dump, i);
        row.events += dump_lane_written(dump, i);
        row.lost += lost;
        row.torn += dump->lanes[i].torn;
        row.calls += count_calls(dump, &dump->lanes[i]);
    }
    return row;
}

#define VALUE(NAME, EXPRESSION)                                                                                        \
    static struct cell NAME(const void *item) {                                                                        \
        const struct check_row *row = item;                                                                            \
        return EXPRESSION;                                                                                             \
    }
#define HEADER (row->dump->header) /* NULL where the file cannot be used */
VALUE(rank, HEADER && HEADER->rank != RANK_UNKNOWN ? cell_integer(HEADER->rank) : cell_unknown())
VALUE(host, HEADER && row->dump->host[0] ? cell_text(row->dump->host) : cell_unknown())
VALUE(pid, HEADER ? cell_integer(HEADER->pid) : cell_unknown())
VALUE(run_id, HEADER ? cell_text(row->dump->run_id) : cell_unknown())
VALUE(generation, HEADER ? cell_unsigned(HEADER->generation) : cell_unknown())
VALUE(world_size, HEADER && HEADER->world_size > 0 ? cell_integer(HEADER->world_size) : cell_unknown())
VALUE(state, cell_text(row->state))
VALUE(calls, HEADER ? cell_unsigned(row->calls) : cell_unknown())
VALUE(events, HEADER ? cell_unsigned(row->events) : cell_unknown())
VALUE(lost, HEADER ? cell_unsigned(row->lost) : cell_unknown())
VALUE(torn, HEADER ? cell_unsigned(row->torn) : cell_unknown())
VALUE(problems, cell_unsigned(row->dump->problems.count + row->dump->problems.dropped))
VALUE(duplicate, cell_switch(row->duplicate))
VALUE(trouble, HEADER && row->dump->trouble[0] ? cell_text(row->dump->trouble) : cell_unknown())
VALUE(format, HEADER ? cell_text(row->format) : cell_unknown())
VALUE(file, cell_text(row->file))

static const struct column columns[] = {
    {"rank", "rank", .value = rank, .doc = "world rank"},
    {"host", "host", .value = host, .left = true, .optional = true, .doc = "where it ran"},
    {"pid", "pid", .value = pid, .doc = "process"},
    {"run_id", NULL, .value = run_id, .doc = "run"},
    {"generation", NULL, .value = generation, .doc = "elastic restart number"},
    {"world_size", NULL, .value = world_size, .doc = "ranks of the world"},
    {"state", "state", .value = state, .left = true, .doc = "how far the process came"},
    {"calls", "calls", .value = calls, .doc = "calls counted in the tables"},
    {"events", "events", .value = events, .doc = "records written"},
    {"events_lost", "lost", .value = lost, .doc = "of these, overwritten or damaged and in no sampled window",
     .legend = "events overwritten or damaged"},
    {"events_torn", "torn", .value = torn, .doc = "of these, being written when the process ended",
     .legend = "events being written when the process ended"},
    {"problems", "problems", .value = problems, .doc = "things wrong with the file",
     .legend = "things wrong with the file"},
    {"duplicate", NULL, .value = duplicate, .doc = "another dump has the same identity: left out"},
    {"trouble", "trouble", .value = trouble, .left = true, .optional = true, .doc = "why recording was switched off"},
    {"format", "format", .value = format, .left = true, .doc = "version of the file's format"},
    {"file", "file", .value = file, .left = true, .doc = "name of the file"},
    {NULL, NULL, .value = NULL},
};

/* ---- what the directory lacks ---------------------------------------------------------------- */

/* Ranks without a dump, per (run, world, generation): dumps are sorted by that and by rank. */
static size_t count_missing(const struct dump_set *set) {
    size_t missing = 0;
    for (size_t first = 0; first < set->count;) {
        const struct dump *mine = set->dumps[first];
        size_t end = first, seen = 0;
        int32_t expected = 0;
        for (; end < set->count && strcmp(set->dumps[end]->run_id, mine->run_id) == 0 &&
               set->dumps[end]->world_id == mine->world_id && set->dumps[end]->generation == mine->generation;
             end++) {
            seen += !set->duplicate[end] && set->dumps[end]->header->rank != RANK_UNKNOWN;
            if (set->dumps[end]->header->world_size > expected)
                expected = set->dumps[end]->header->world_size;
        }
        missing += (size_t)expected > seen ? (size_t)expected - seen : 0;
        first = end;
    }
    return missing;
}

static bool build_rows(struct check *check) {
    const struct dump_set *set = &check->set;
    check->rows = calloc(set->count + set->unusable_count + 1, sizeof *check->rows);
    if (!check->rows)
        return false;
    for (size_t i = 0; i < set->count; i++) {
        check->rows[check->count++] = describe_dump(set->dumps[i], set->duplicate[i]);
        losses_add(&check->losses, set->dumps[i]);
    }
    for (size_t i = 0; i < set->unusable_count; i++)
        check->rows[check->count++] = describe_dump(set->unusable[i], false);
    for (size_t i = 0; i < check->count; i++)
        check->problems += check->rows[i].dump->problems.count + check->rows[i].dump->problems.dropped;
    size_t missing = count_missing(set);
    check->missing = missing > set->stub_count ? missing - set->stub_count : 0;
    return true;
}

/* ---- output ---------------------------------------------------------------------------------- */

static json_t *problems_to_json(const struct check *check) {
    json_t *array = json_array();
    for (size_t i = 0; i < check->count; i++) {
        const struct dump *dump = check->rows[i].dump;
        for (size_t j = 0; j < dump->problems.count; j++) {
            const struct problem *problem = &dump->problems.items[j];
            json_array_append_new(array, json_pack("{s:o, s:I, s:b, s:o}", "file", escape_json(dump->path), "offset",
                                                   (json_int_t)problem->offset, "fatal", problem->fatal, "text",
                                                   escape_json(problem->text)));
        }
    }
    return array;
}

static json_t *stubs_to_json(const struct dump_set *set) {
    json_t *array = json_array();
    for (size_t i = 0; i < set->stub_count; i++)
        json_array_append_new(array, json_pack("{s:o, s:o, s:o, s:s?}", "host", escape_json(set->stubs[i].host), "path",
                                               escape_json(set->stubs[i].staged_path), "stub",
                                               escape_json(set->stubs[i].path), "damage", set->stubs[i].damage));
    return array;
}

static bool print_json(FILE *stream, const struct check *check) {
    const struct table table = {columns, check->rows, sizeof *check->rows, check->count};
    json_t *losses = loss_list_to_json(&check->losses), *rows = table_to_json(&table);
    if (!rows || !losses) {
        json_decref(rows);
        json_decref(losses);
        return false;
    }
    return json_print(stream, json_pack("{s:s, s:o, s:o, s:o, s:o, s:I}", "schema", "commtap.check/1", "dumps", rows,
                                        "problems", problems_to_json(check), "losses", losses, "not_collected",
                                        stubs_to_json(&check->set), "ranks_missing", (json_int_t)check->missing));
}

static void print_problems(FILE *stream, const struct check *check) {
    for (size_t i = 0; i < check->count; i++) {
        const struct dump *dump = check->rows[i].dump;
        for (size_t j = 0; j < dump->problems.count; j++) {
            escape_text(stream, dump->path);
            fprintf(stream, ": offset %" PRIu64 ": ", dump->problems.items[j].offset);
            escape_text(stream, dump->problems.items[j].text);
            fputc('\n', stream);
        }
        if (dump->problems.dropped > 0) {
            escape_text(stream, dump->path);
            fprintf(stream, ": %zu more problems\n", dump->problems.dropped);
        }
        if (check->rows[i].duplicate) {
            escape_text(stream, dump->path);
            fputs(": has the run, world, generation and rank of another dump and is left out\n", stream);
        }
    }
}

static bool print_text(const struct output *output, const struct check *check) {
    const struct table table = {columns, check->rows, sizeof *check->rows, check->count};
    FILE *stream = output->stream;
    size_t staged = 0;
    for (size_t i = 0; i < check->set.count; i++)
        staged += dump_set_is_staged(&check->set, check->set.dumps[i]);
    if (!table_print_text(stream, &table, output->color) || !table_print_legend(stream, &table))
        return false;
    fputc('\n', stream);
    print_problems(stream, check);
    loss_list_print(stream, &check->losses, "");
    for (size_t i = 0; i < check->set.stub_count; i++)
        input_say_stub(stream, "", &check->set.stubs[i]);
    if (staged > 0)
        fprintf(stream, "%zu dumps lie where they were staged: commtap collect brings them here\n", staged);
    if (check->missing > 0)
        fprintf(stream, "%zu ranks of the world have no dump here\n", check->missing);
    fprintf(stream, "%zu dumps, %zu unusable, %zu problems\n", check->count, check->set.unusable_count,
            check->problems);
    return true;
}

static int print(const struct options *options, const struct check *check) {
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    const struct table table = {columns, check->rows, sizeof *check->rows, check->count};
    bool enough_memory = true;
    if (output.format == OUTPUT_JSON)
        enough_memory = print_json(output.stream, check);
    else if (output.format == OUTPUT_CSV)
        table_print_csv(output.stream, &table);
    else
        enough_memory = print_text(&output, check);
    code = check->set.count == 0 ? EXIT_UNUSABLE : check->problems > 0 ? EXIT_FINDINGS : EXIT_FINE;
    return output_close(&output, enough_memory ? code : input_no_memory());
}

static int run(const struct options *options) {
    struct check check = {.count = 0};
    enum dump_set_result result =
        dump_set_open_together(options->lenders, true, options->arguments, options->argument_count, &check.set);
    if (result != DUMP_SET_OK)
        return input_refuse(options->arguments, options->argument_count, result, &check.set);
    int code = build_rows(&check) ? print(options, &check) : input_no_memory();
    free(check.rows);
    dump_set_close(&check.set);
    return code;
}

static const struct option option_rows[] = {
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap check DIR", "what is damaged, lost or missing"},
    {NULL, NULL},
};

const struct command command_check = {
    .name = "check",
    .company = COMPANY_LENDERS,
    .summary = "are these dumps sound: problems with file and offset, losses, what is missing",
    .arguments = "DIR...",
    .details =
        "One line per dump, what is wrong with which file at which offset, what was lost, and what is missing.\n",
    .exits =
        "Exits with 0 where every dump is sound (those of a killed job are), 1 where something is damaged, 3 where\n"
        "nothing can be used; with 2 on wrong usage, 4 where the result could not be written.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .columns = columns,
    .examples = examples,
    .run = run,
};
