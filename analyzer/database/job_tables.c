/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/database/job_tables.h"

#include <stdlib.h>

#include "analyzer/cli/user.h"
#include "analyzer/database/record_tables.h"
#include "analyzer/findings/words.h"
#include "analyzer/job/library.h"
#include "analyzer/profile/link_table.h"
#include "analyzer/profile/summary.h"
#include "analyzer/profile/summary_transfers.h"
#include "analyzer/render/link_rows.h"
#include "analyzer/render/steps_table.h"
#include "analyzer/render/straggler_table.h"
#include "analyzer/render/summary_table.h"
#include "analyzer/render/units.h"

static struct cell text_cell(const char *text) {
    return text && text[0] ? cell_text(text) : cell_unknown();
}

/* ---- run and hosts ------------------------------------------------------------------------------------------- */

struct run_row {
    const struct session *session;
    const char *version; /* of the commtap that writes */
    char started[DATE_TEXT], library[128], user[USER_BYTES];
};

static struct cell wall_cell(const struct session *session) {
    return session->end_ns >= session->start_ns ? cell_real(seconds_of(session->end_ns - session->start_ns))
                                                : cell_unknown();
}

static struct cell clock_error_cell(const struct session *session) {
    int64_t error = common_clock_worst_error(&session->clock);
    return error == CLOCK_ERROR_UNKNOWN ? cell_unknown() : cell_real((double)error / 1e3);
}

#define RUN ((const struct run_row *)item)
#define JOB (&RUN->session->job)
#define VALUE(NAME, CELL)                                                                                              \
    static struct cell NAME(const void *item) { return CELL; }
VALUE(run_id, cell_text(JOB->dumps[0]->run_id))
VALUE(run_started, text_cell(RUN->started))
VALUE(run_wall, wall_cell(RUN->session))
VALUE(run_command, text_cell(JOB->dumps[0]->command))
VALUE(run_job, text_cell(JOB->dumps[0]->job_id))
VALUE(run_user, text_cell(RUN->user))
VALUE(run_directory, text_cell(JOB->dumps[0]->working_directory))
VALUE(run_launcher, text_cell(JOB->dumps[0]->launcher))
VALUE(run_library, text_cell(RUN->library))
VALUE(run_expected, JOB->ranks_expected > 0 ? cell_integer(JOB->ranks_expected) : cell_unknown())
VALUE(run_seen, cell_unsigned(JOB->process_count))
VALUE(run_generation, cell_unsigned(JOB->listed->generation))
VALUE(run_events, cell_unsigned(JOB->events))
VALUE(run_lost, cell_unsigned(JOB->events_lost))
VALUE(run_error, clock_error_cell(RUN->session))
VALUE(run_writer, cell_text(RUN->version))

/* clang-format off */
static const struct column run_columns[] = {
    {"run_id", NULL, .value = run_id, .doc = "name of the run"},
    {"started", NULL, .value = run_started, .doc = "when, UTC"},
    {"wall_seconds", NULL, .value = run_wall, .doc = "first to last moment that the dumps tell of"},
    {"command", NULL, .value = run_command, .doc = "command line of the first rank"},
    {"job_id", NULL, .value = run_job, .doc = "the launcher's number of the job"},
    {"user", NULL, .value = run_user, .doc = "who ran it"},
    {"working_directory", NULL, .value = run_directory, .doc = "where"},
    {"launcher", NULL, .value = run_launcher, .doc = "what started the ranks"},
    {"library", NULL, .value = run_library, .doc = "MPI, else NCCL, with its version"},
    {"ranks_expected", NULL, .value = run_expected, .doc = "ranks of the job"},
    {"ranks_seen", NULL, .value = run_seen, .doc = "of them, with a dump"},
    {"generation", NULL, .value = run_generation, .doc = "elastic restart within the run"},
    {"events", NULL, .value = run_events, .doc = "records ever written"},
    {"events_lost", NULL, .value = run_lost, .doc = "of them, overwritten: in no table"},
    {"clock_error_us", NULL, .value = run_error, .doc = "worst error of the common clock; null: unknown"},
    {"commtap_version", NULL, .value = run_writer, .doc = "which commtap wrote this file"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

static bool add_run(struct database *database, const struct session *session) {
    struct run_row row = {.session = session, .version = COMMTAP_VERSION};
    struct library library;
    const struct dump *dump = session->job.dumps[0];
    say_date(row.started, session->job.listed->start_ns);
    char name[USER_BYTES];
    snprintf(row.user, sizeof row.user, "%s", user_named(dump->user, name));
    if (library_of_mpi(dump, &library) || library_of_nccl(dump, &library))
        snprintf(row.library, sizeof row.library, "%s %s", library.name, library.version);
    return database_add(database, "runs", &(struct table){run_columns, &row, sizeof row, 1});
}

struct host_row {
    size_t id, ranks;
    const char *name;
};

#define HOST ((const struct host_row *)item)
VALUE(host_id, cell_unsigned(HOST->id))
VALUE(host_name, cell_text(HOST->name))
VALUE(host_ranks, cell_unsigned(HOST->ranks))

static const struct column host_columns[] = {
    {"id", NULL, .value = host_id, .doc = "number of the host"},
    {"name", NULL, .value = host_name, .doc = "by which its first rank knows it"},
    {"ranks", NULL, .value = host_ranks, .doc = "that ran there and left a dump"},
    {NULL, NULL, .value = NULL},
};

static bool add_hosts(struct database *database, const struct common_clock *clock) {
    struct host_row *rows = calloc(clock->host_count + 1, sizeof *rows);
    for (size_t h = 0; rows && h < clock->host_count; h++)
        rows[h] = (struct host_row){.id = h, .name = clock->hosts[h].name};
    for (size_t d = 0; rows && d < clock->dump_count; d++)
        rows[clock->host_of[d]].ranks += dump_stands_for_process(clock->dumps[d]);
    bool done =
        rows && database_add(database, "hosts", &(struct table){host_columns, rows, sizeof *rows, clock->host_count});
    free(rows);
    return done;
}

/* ---- what a report has, too ---------------------------------------------------------------------------------- */

static bool add_ranks(struct database *database, const struct session *session) {
    size_t count;
    struct rank_row *rows = rank_rows(&session->job, &session->analysis, &session->selection.filter, &count);
    bool done = rows && database_add(database, "ranks", &(struct table){rank_columns, rows, sizeof *rows, count});
    free(rows);
    return done;
}

static bool add_operations(struct database *database, struct session *session) {
    struct summary summary;
    if (!summary_build(&summary, &session->job.selected, &session->selection.filter, SUMMARY_BY_DEFAULT))
        return false;
    summary_add_transfers(&summary, &session->analysis.waits.transfers, &session->directory);
    struct table table = summary_table(&summary);
    bool done = database_add(database, "operations", &table);
    summary_free(&summary);
    return done;
}

/* Calls by the line that made them, and what was waited there. */
static bool add_sites(struct database *database, struct session *session) {
    struct summary summary;
    if (!symbols_want_all(session->sites.symbols) || !symbols_resolve(session->sites.symbols) ||
        !summary_build_sites(&summary, &session->job.selected, &session->selection.filter,
                             SUMMARY_BY_SITE | SUMMARY_BY_OP | SUMMARY_BY_COMM, session->labels))
        return false;
    struct table table = summary_table(&summary);
    struct table waits = {hot_site_columns, session->hot.items, sizeof *session->hot.items, session->hot.count};
    bool done = database_add(database, "sites", &table) && database_add(database, "site_waits", &waits);
    summary_free(&summary);
    return done;
}

static bool add_links(struct database *database, const struct session *session) {
    const struct link_sources sources = {
        .clock = &session->clock, .links = &session->analysis.links, .waits = &session->analysis.waits.links};
    struct link_table links;
    bool done = link_table_build(&links, &sources, false);
    struct table table = link_rows_table(&links);
    done = done && database_add(database, "links", &table);
    link_table_free(&links);
    return done;
}

static bool add_steps(struct database *database, const struct session *session) {
    const struct filter *filter = &session->selection.filter;
    size_t count = 0;
    struct step_row *rows = step_rows(&session->steps, &session->job, session->analysis.stage_of, filter, STEPS_BY_BOTH,
                                      session->start_ns, &count);
    bool done = rows && database_add(database, "steps", &(struct table){step_columns, rows, sizeof *rows, count});
    free(rows);
    return done;
}

/* ---- waits and findings -------------------------------------------------------------------------------------- */

struct wait_row {
    const struct dump *dump;
    enum wait_state state;
    int64_t ns;
};

static const char *const state_names[] = {[WAIT_AT_NXN] = "wait at NxN",
                                          [WAIT_AT_FENCE] = "wait at fence",
                                          [WAIT_LATE_BROADCAST] = "late broadcast",
                                          [WAIT_AT_NX1] = "wait at Nx1",
                                          [WAIT_EARLY_SCAN] = "early scan",
                                          [WAIT_AT_NEIGHBOURS] = "wait at neighbours",
                                          [WAIT_LATE_SENDER] = "late sender",
                                          [WAIT_LATE_RECEIVER] = "late receiver",
                                          [WAIT_LATE_POST] = "late post",
                                          [WAIT_EARLY_WAIT] = "early wait"};

#define WAIT ((const struct wait_row *)item)
VALUE(wait_rank, WAIT->dump->header->rank == RANK_UNKNOWN ? cell_unknown() : cell_integer(WAIT->dump->header->rank))
VALUE(wait_gpu, gpu_cell(WAIT->dump))
VALUE(wait_state, cell_text(state_names[WAIT->state]))
VALUE(wait_seconds, cell_real(seconds_of(WAIT->ns)))

static const struct column wait_columns[] = {
    {"rank", NULL, .value = wait_rank, .doc = "world rank that waited"},
    {"gpu", NULL, .value = wait_gpu, .doc = "its GPU, as its process counts them, where it has several"},
    {"state", NULL, .value = wait_state, .doc = "what for: doc/GLOSSARY.md"},
    {"wait_seconds", NULL, .value = wait_seconds, .doc = "summed over threads and streams"},
    {NULL, NULL, .value = NULL},
};

static bool add_waits(struct database *database, const struct session *session) {
    const struct waits *waits = &session->analysis.waits;
    struct wait_row *rows = calloc(session->job.count * WAIT_STATES + 1, sizeof *rows);
    size_t count = 0;
    bool known = waits->judged + waits->messages > 0;
    for (size_t d = 0; rows && known && d < session->job.count; d++)
        for (enum wait_state state = 0; state < WAIT_STATES; state++)
            if (waits->ranks[d].states_ns[state] > 0)
                rows[count++] = (struct wait_row){session->job.dumps[d], state, waits->ranks[d].states_ns[state]};
    bool done = rows && database_add(database, "waits", &(struct table){wait_columns, rows, sizeof *rows, count});
    free(rows);
    return done;
}

#define FINDING ((const struct finding *)item)
VALUE(finding_severity, cell_text(severity_name(FINDING->severity)))
VALUE(finding_code, cell_text(FINDING->code))
VALUE(finding_text, cell_text(FINDING->text))

static const struct column finding_columns[] = {
    {"severity", NULL, .value = finding_severity, .doc = "info, warning or error"},
    {"code", NULL, .value = finding_code, .doc = "the finding's name, as --fail-on takes it"},
    {"text", NULL, .value = finding_text, .doc = "what was found"},
    {NULL, NULL, .value = NULL},
};

static bool add_findings(struct database *database, const struct findings *findings) {
    return database_add(database, "findings",
                        &(struct table){finding_columns, findings->items, sizeof *findings->items, findings->count});
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

static const char indexes[] = "CREATE INDEX ranks_by_rank ON ranks (rank);"
                              "CREATE INDEX operations_by_op ON operations (op);"
                              "CREATE INDEX sites_by_site ON sites (site);"
                              "CREATE INDEX links_by_ends ON links (kind, from_rank, to_rank);"
                              "CREATE INDEX steps_by_step ON steps (step, rank);"
                              "CREATE INDEX waits_by_rank ON waits (rank);";

enum job_tables_end job_tables_write(struct database *database, struct session *session) {
    bool done = add_run(database, session) && add_hosts(database, &session->clock) && add_ranks(database, session) &&
                add_operations(database, session) && add_sites(database, session) && add_links(database, session) &&
                add_steps(database, session) && add_waits(database, session) &&
                add_findings(database, &session->findings) && database_execute(database, indexes) &&
                record_tables_add(database, session);
    return done ? JOB_TABLES_DONE : database->reason[0] ? JOB_TABLES_FAILED : JOB_TABLES_NO_MEMORY;
}
