/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/page_data.h"

#include <stdlib.h>

#include "analyzer/cli/session.h"
#include "analyzer/documents/links_document.h"
#include "analyzer/documents/report_document.h"
#include "analyzer/page/page_file.h"
#include "analyzer/page/page_tracks.h"
#include "analyzer/page/participants.h"
#include "analyzer/page/path_parts.h"
#include "analyzer/page/standstill.h"
#include "analyzer/page/step_cells.h"
#include "analyzer/render/call_tree.h"
#include "analyzer/render/diagnosis.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/steps_table.h"

enum {
    LINKS_MOST = 20000,       /* rows of the links that a page holds, about 500 bytes each */
    CALL_RECORDS_MOST = 5000, /* of a job whose call tree has every record, about 150 bytes each */
};

/* Takes over the reference. */
static bool add_block(FILE *stream, const struct page_request *request, const char *id, json_t *json) {
    if (!json || !request->redaction || redact_json(request->redaction, json))
        return page_add(stream, id, json);
    json_decref(json);
    return false;
}

/* What every view needs: who took part, and where. */
static bool add_page(FILE *stream, const struct page_request *request) {
    const struct session *session = request->session;
    json_t *page =
        json_pack("{s:s, s:s, s:o, s:b}", "schema", "commtap.page/1", "version", COMMTAP_VERSION, "title",
                  escape_json(request->redaction ? "a job" : request->title), "redacted", request->redaction != NULL);
    if (page && participants_add(page, &session->job, session->analysis.stage_of))
        return add_block(stream, request, "page", page);
    json_decref(page);
    return false;
}

static bool add_report(FILE *stream, const struct page_request *request) {
    struct report_figures figures;
    bool done = report_figures_build(&figures, request->session, request->diagnosis) &&
                add_block(stream, request, "report", report_document(&figures));
    report_figures_free(&figures);
    return done;
}

static bool add_diagnosis(FILE *stream, const struct page_request *request) {
    static const struct filter everything;
    return add_block(stream, request, "diagnosis",
                     diagnosis_to_json(request->diagnosis, request->told, &request->session->job, 1, &everything)) &&
           add_block(stream, request, "standstill", standstill_to_json(request->diagnosis, request->session->labels));
}

static bool add_links(FILE *stream, const struct page_request *request) {
    struct link_table links;
    bool done = links_of_session(&links, request->session, false);
    struct table table = link_rows_table(&links);
    if (table.count > LINKS_MOST)
        table.count = LINKS_MOST;
    done = done && add_block(stream, request, "links", links_document(request->session, &links, &table));
    link_table_free(&links);
    return done;
}

/* The document of commtap calls --waits at that noise. */
static bool add_call_tree(FILE *stream, const struct page_request *request, const char *id, unsigned noise) {
    struct session *session = request->session;
    struct call_tree tree;
    struct call_tree_context context = {
        .noise = noise, .waits = true, .scope = &session->scope, .run_id = session->job.dumps[0]->run_id};
    const struct call_tree_request of = {.job = &session->job,
                                         .symbols = session->sites.symbols,
                                         .skip = &session->sites.skip,
                                         .filter = &session->selection.filter,
                                         .scope = &session->scope,
                                         .waits = &session->analysis.waits.sites,
                                         .noise = context.noise};
    context.notes = symbols_notes(session->sites.symbols, &context.note_count);
    bool done = !of.waits->no_memory && call_tree_build(&tree, &of);
    done = done && add_block(stream, request, id, call_tree_to_json(&tree, &context));
    call_tree_free(&tree);
    return done;
}

static bool add_calls(FILE *stream, const struct page_request *request) {
    const struct job *job = &request->session->job;
    bool few = job->events - job->events_lost <= CALL_RECORDS_MOST;
    return add_call_tree(stream, request, "calls", 1) && add_call_tree(stream, request, "frames", few ? 3 : 2);
}

/* One row per step, over all ranks: what `commtap steps --by step` prints. */
static json_t *overview_to_json(const struct session *session, const struct steps *steps) {
    size_t count;
    struct step_row *rows = step_rows(steps, &session->job, session->analysis.stage_of, &session->selection.filter,
                                      STEPS_BY_STEP, session->start_ns, &count);
    struct table table = {step_columns, rows, sizeof *rows, count};
    json_t *json = rows ? table_to_json(&table) : NULL;
    free(rows);
    return json;
}

static bool add_steps(FILE *stream, const struct page_request *request, const struct steps *steps) {
    const struct session *session = request->session;
    json_t *cells = step_cells_to_json(steps, &session->job, session->start_ns);
    return add_block(stream, request, "steps", cells) &&
           add_block(stream, request, "overview", overview_to_json(session, steps));
}

static bool add_path(FILE *stream, const struct page_request *request, const struct operations *shown) {
    const struct session *session = request->session;
    const struct path_window window = {session->start_ns, shown->from, shown->to};
    return add_block(stream, request, "path",
                     path_parts_to_json(&session->analysis.delay_costs, &session->directory, session->labels, &window));
}

static bool add_tracks(FILE *stream, const struct page_request *request, const struct steps *steps) {
    struct page_tracks tracks;
    bool done = page_tracks_build(&tracks, request->session, steps) &&
                add_block(stream, request, "heat", heat_to_json(&tracks.heat)) &&
                add_block(stream, request, "memory", memory_to_json(&tracks.memory)) &&
                add_block(stream, request, "operations", operations_to_json(&tracks.operations)) &&
                add_path(stream, request, &tracks.operations);
    page_tracks_free(&tracks);
    return done;
}

static bool add_by_time(FILE *stream, const struct page_request *request) {
    struct session *session = request->session;
    scope_keep_steps(&session->scope, &session->steps);
    return add_steps(stream, request, &session->steps) && add_tracks(stream, request, &session->steps);
}

bool page_write_data(FILE *stream, const struct page_request *request) {
    struct symbols *symbols = request->session->sites.symbols;
    return symbols_want_all(symbols) && symbols_resolve(symbols) && add_page(stream, request) &&
           add_report(stream, request) && add_diagnosis(stream, request) && add_by_time(stream, request) &&
           add_links(stream, request) && add_calls(stream, request);
}
