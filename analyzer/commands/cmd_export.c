/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap export: what the dumps hold, row by row, for other programs.
 * Lives here: walking all dumps for one table, filters; when a database is written.
 * Must not live here: columns (render/export_table).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/cli/changes.h"
#include "analyzer/cli/conclusions.h"
#include "analyzer/cli/input.h"
#include "analyzer/load/rows.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"
#include "analyzer/database/database.h"
#include "analyzer/database/job_tables.h"
#include "analyzer/job/job_list.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/export_table.h"
#include "analyzer/render/scope_text.h"
#include "analyzer/cli/selection.h"

struct export {
    const struct filter *filter;
    const struct scope *scope;
    const struct column *columns;
    FILE *stream;
    bool csv;
    uint32_t generation; /* of the dump that is printed */
};

/* The sum of a peer's messages is no size. */
static uint64_t bytes_of_row(const struct export_row *row) {
    return row->record ? row->record->bytes : row->operation ? row->operation->bytes : BYTES_UNKNOWN;
}

/* Prints a row that passes the filter. Returns false when memory is short. */
static bool emit(const struct export *export, const struct export_row *of_dump) {
    struct export_row row = *of_dump;
    row.generation = export->generation;
    if (!export->csv)
        return jsonl_print_row(export->stream, export->columns, &row);
    csv_print_row(export->stream, export->columns, &row);
    return true;
}

static bool emit_call(const struct export *export, const struct export_row *row) {
    return !filter_lets_pass(export->filter, row->dump, row->call, row->communicator, bytes_of_row(row)) ||
           emit(export, row);
}

static const struct dump_communicator *communicator_of_row(const struct dump *dump, uint32_t comm_epoch) {
    return dump_communicator(dump, comm_epoch & ROW_COMM_NONE);
}

static bool walk_records(const struct export *export, const struct dump *dump, size_t d) {
    struct scope_walk walk;
    bool enough_memory = true;
    scope_walk_begin(&walk, export->scope, dump, d);
    for (const struct record *record; enough_memory && (record = scope_walk_next(&walk));) {
        const struct export_row row = {.dump = dump,
                                       .lane = walk.lane - 1,
                                       .call = record->call,
                                       .communicator = dump_communicator(dump, record->comm),
                                       .peer = record->peer,
                                       .record = record};
        enough_memory = emit_call(export, &row);
    }
    scope_walk_end(&walk);
    return enough_memory && !walk.no_memory;
}

static bool walk_operations(const struct export *export, const struct dump *dump, size_t d) {
    (void)d;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        for (uint32_t i = 0; i < dump->lanes[lane].operation_count; i++) {
            struct operation_row operation;
            enum row_state state = operation_row_read(dump, &dump->lanes[lane].operations[i], &operation);
            const struct export_row row = {.dump = dump,
                                           .lane = lane,
                                           .call = operation.call,
                                           .communicator = communicator_of_row(dump, operation.comm_epoch),
                                           .peer = PEER_NONE,
                                           .operation = &operation,
                                           .torn = state == ROW_TORN};
            if ((state == ROW_STABLE || state == ROW_TORN) && !emit_call(export, &row))
                return false;
        }
    return true;
}

static bool walk_peers(const struct export *export, const struct dump *dump, size_t d) {
    (void)d;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        for (uint32_t i = 0; i < dump->lanes[lane].peer_count; i++) {
            struct peer_row peer;
            bool used = peer_row_read(dump, &dump->lanes[lane].peers[i], &peer);
            const struct export_row row = {.dump = dump,
                                           .lane = lane,
                                           .call = peer.call,
                                           .communicator = communicator_of_row(dump, peer.comm_epoch),
                                           .peer = peer.peer,
                                           .peer_row = &peer};
            if (used && !emit_call(export, &row))
                return false;
        }
    return true;
}

/* Prints a row that is of no function, where its communicator passes. Returns false when memory is short. */
static bool emit_of_communicator(const struct export *export, const struct export_row *row) {
    const struct filter communicators = {.comm = export->filter->comm};
    return !filter_lets_pass(&communicators, row->dump, 0, row->communicator, BYTES_UNKNOWN) || emit(export, row);
}

static bool walk_transfers(const struct export *export, const struct dump *dump, size_t d) {
    (void)d;
    for (uint32_t i = 0; i < dump->transfer_count; i++) {
        const struct transfer_row transfer = dump->transfers[i];
        const struct export_row row = {.dump = dump,
                                       .communicator = dump_communicator(dump, transfer.comm),
                                       .peer = transfer.peer,
                                       .transfer = &transfer};
        if (transfer.version != 0 && transfer.version % 2 == 0 && !emit_of_communicator(export, &row))
            return false;
    }
    return true;
}

static bool walk_communicators(const struct export *export, const struct dump *dump, size_t d) {
    (void)d;
    for (uint32_t i = 0; i < dump->communicator_count; i++) {
        const struct export_row row = {.dump = dump, .communicator = dump_communicator(dump, i), .peer = PEER_NONE};
        if (row.communicator && !emit_of_communicator(export, &row))
            return false;
    }
    return true;
}

static const struct export_walk {
    const struct export_table *table;
    bool (*walk)(const struct export *export, const struct dump *dump, size_t d);
} walks[] = {
    {&export_records, walk_records},     {&export_operations, walk_operations},       {&export_peers, walk_peers},
    {&export_transfers, walk_transfers}, {&export_communicators, walk_communicators},
};

static const struct export_walk *find_walk(const char *name) {
    const struct export_walk *walk = walks;
    while (strcmp(walk->table->name, name) != 0) /* --table's choices are these names */
        walk++;
    return walk;
}

struct generations_of {
    const struct dump_set *set; /* all that were opened */
    uint32_t *numbers;          /* of each of its dumps */
    size_t at;
};

/* The caller frees the numbers. Returns false when memory is short. */
static bool find_generations(struct generations_of *found, const struct dump_set *set) {
    struct job_list list;
    *found = (struct generations_of){.set = set, .numbers = calloc(set->count + 1, sizeof *found->numbers)};
    bool built = job_list_build(&list, set), done = built && found->numbers;
    for (size_t i = 0; done && i < list.count; i++)
        for (size_t d = 0; d < list.items[i].count; d++)
            found->numbers[list.items[i].first + d] = list.items[i].generation;
    if (built)
        job_list_free(&list);
    return done;
}

/* Dumps are asked for in the order of the set, or of a part of it. */
static uint32_t generation_of(struct generations_of *found, const struct dump *dump) {
    for (size_t i = 0; i < found->set->count; i++, found->at++) {
        found->at = found->at < found->set->count ? found->at : 0;
        if (found->set->dumps[found->at] == dump)
            return found->numbers[found->at];
    }
    return dump->generation;
}

static int print(const struct options *options, const struct dump_set *set, const struct filter *filter,
                 const struct scope *scope, struct generations_of *generations) {
    const struct export_walk *walk = find_walk(option_text(options, "table"));
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    struct export export = {filter, scope, walk->table->columns, output.stream, output.format == OUTPUT_CSV, 0};
    if (export.csv)
        csv_print_header(export.stream, export.columns);
    bool enough_memory = true;
    for (size_t d = 0; d < set->count && enough_memory && !ferror(output.stream); d++)
        if (!set->duplicate[d] && filter_rank(filter, set->dumps[d]->header->rank)) {
            export.generation = generation_of(generations, set->dumps[d]);
            enough_memory = walk->walk(&export, set->dumps[d], d);
        }
    return output_close(&output, enough_memory ? changes_tell(EXIT_FINE) : input_no_memory());
}

/* Of one job, where a run or a part of its time is asked for, else of everything in the directory. */
static int export_selected(const struct options *options, const struct selection *selection, const struct dump_set *set,
                           struct generations_of *generations) {
    struct job job;
    struct selected_time time = {0};
    if (!option_given(options, "run") && !option_given(options, "generation") && !filter_is_timed(&selection->filter))
        return print(options, set, &selection->filter, NULL, generations);
    int code = selection_choose_job(&job, set, options, NULL);
    if (code == EXIT_FINE)
        code = selected_time_find(&time, &job, selection);
    if (code == EXIT_FINE && scope_is_empty(&time.scope))
        scope_print(stderr, &time.scope);
    if (code == EXIT_FINE)
        code = print(options, &job.selected, &selection->filter, &time.scope, generations);
    selected_time_free(&time);
    job_free(&job);
    return code;
}

static int export_rows(const struct options *options) {
    struct selection selection;
    struct dump_set set;
    int code = selection_read(&selection, options);
    if (code == EXIT_FINE && filter_is_timed(&selection.filter) &&
        strcmp(option_text(options, "table"), export_records.name) != 0) {
        fputs("commtap export: --from, --to, --step and --sizes go with --table records: sums have no time, nor all "
              "sizes\n",
              stderr);
        code = EXIT_USAGE;
    }
    if (code == EXIT_FINE)
        code = input_open_arguments(options, &set);
    if (code == EXIT_FINE) {
        struct generations_of generations;
        code = find_generations(&generations, &set) ? export_selected(options, &selection, &set, &generations)
                                                    : input_no_memory();
        free(generations.numbers);
        dump_set_close(&set);
    }
    selection_free(&selection);
    return code;
}

/* ---- a database ------------------------------------------------------------------------------ */

static int complain(const char *path, const char *reason) {
    fputs("commtap export: ", stderr);
    escape_text(stderr, path);
    fputs(": ", stderr);
    escape_text(stderr, reason); /* it may name files */
    fputc('\n', stderr);
    return EXIT_OUTPUT;
}

/* A database holds the whole of one job: what is wanted of it, queries choose. */
static int check_database_options(const struct options *options) {
    static const char *const refused[] = {"table", "from", "to", "step", "rank", "comm", "op"};
    const char *lacks = database_lacks();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (option_given(options, refused[i])) {
            fprintf(stderr, "commtap export: a database holds all of a job: --%s goes with csv and jsonl\n",
                    refused[i]);
            return EXIT_USAGE;
        }
    const char *path = option_text(options, "output");
    if (!path || strcmp(path, "-") == 0) {
        fputs("commtap export: --format sqlite writes to a file: name it with -o\n", stderr);
        return EXIT_USAGE;
    }
    return lacks ? complain(path, lacks) : EXIT_FINE;
}

static int write_database(const struct options *options, struct session *session) {
    const char *path = option_text(options, "output");
    struct database database;
    enum job_tables_end end = JOB_TABLES_FAILED;
    int code = EXIT_FINE;
    if (database_create(&database, path, option_given(options, "force")))
        end = job_tables_write(&database, session);
    if (end == JOB_TABLES_DONE)
        code = changes_check(options->team); /* what was read may not fit together: nothing is in its place yet */
    if (code == EXIT_FINE && end == JOB_TABLES_DONE && !database_finish(&database))
        end = JOB_TABLES_FAILED;
    if (end == JOB_TABLES_FAILED)
        code = complain(path, database.reason);
    else if (end == JOB_TABLES_NO_MEMORY)
        code = input_no_memory();
    database_close(&database);
    return code;
}

static int export_database(const struct options *options) {
    const struct advice_limits limits = advice_standard();
    struct diagnosis diagnosis = {0};
    struct diagnosis_text told = {0};
    struct session session;
    int code = check_database_options(options);
    if (code == EXIT_FINE)
        code = session_open_with(&session, options, &(struct session_wish){.steps = true});
    if (code != EXIT_FINE)
        return code;
    code = conclusions_add_advice(&session, options, &limits);
    if (code == EXIT_FINE)
        code = conclusions_add_diagnosis(&session, options, &diagnosis, &told);
    if (code == EXIT_FINE)
        code = write_database(options, &session);
    diagnosis_text_free(&told);
    diagnosis_free(&diagnosis);
    session_close(&session);
    return code;
}

static int run(const struct options *options) {
    bool database = strcmp(option_text(options, "format"), "sqlite") == 0;
    return database ? export_database(options) : export_rows(options);
}

static const struct option option_rows[] = {
    {.name = "table",
     .argument = "TABLE",
     .choices = "records|operations|peers|transfers|communicators",
     .fallback = "records",
     .doc = "what to write"},
    {.name = "format",
     .argument = "FORMAT",
     .choices = "csv|jsonl|sqlite",
     .fallback = "csv",
     .doc = "form of the output; share/commtap/commtap.schema.json declares every key of jsonl; sqlite: a database of "
            "one job, with its sums, waits, steps and findings"},
    {.name = "force", .doc = "sqlite: overwrite a file that is no database of commtap's"},
    OPTION_OUTPUT,
    {.name = "run",
     .argument = "ID",
     .doc = "this one of several runs, or of several jobs of a run (RUN/2); default: all of them; sqlite: the newest"},
    OPTION_GENERATION,
    OPTIONS_FILTER,
    OPTION_THREADS,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap export --format jsonl -o records.jsonl DIR", "every record, one JSON object per line"},
    {"commtap export --table peers DIR", "who sent how much to whom"},
    {"commtap export --table transfers DIR",
     "what NCCL's proxies moved to and from each peer, and what they waited for (with COMMTAP_GPU_TIMING=kernel)"},
    {"commtap export --format sqlite -o job.db DIR", "everything about the newest job as a database"},
    {NULL, NULL},
};

const struct command command_export = {
    .name = "export",
    .company = COMPANY_LENDERS,
    .summary = "every record of every rank, or a table of sums, for other programs",
    .arguments = "DIR...",
    .details =
        "Times: start_ns and end_ns are CLOCK_REALTIME of the rank's host, durations nanoseconds. Empty (csv) or null\n"
        "(jsonl) is unknown. Columns keep their names; new ones are added at the end. With --from, --to or --step, "
        "the\n"
        "records of the newest run (or of --run) that begin there; what a GPU did, and the calls that enqueued it, "
        "where\n"
        "it ran; a step is each rank's own.\n"
        "The database takes the place of FILE when it is complete, unless FILE-wal or FILE-journal is there: a "
        "program\n"
        "has FILE open. Its table `documentation` says what each column of\n"
        "each table means; times are nanoseconds since the job's start on the clock of all ranks; unknown is null.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .examples = examples,
    .run = run,
};
