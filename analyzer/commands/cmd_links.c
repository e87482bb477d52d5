/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap links: who sent what to whom, and how fast.
 * Lives here: the command's options, what surrounds table and matrix.
 * Must not live here: figures (profile/link_table), columns (render/link_rows).
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/session.h"
#include "analyzer/documents/links_document.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/link_rows.h"

enum { LINKS_SHOWN = 20 };

/* How the rows are to be shown. */
struct view {
    bool by_host;
    size_t most; /* rows; 0: all of them */
    const struct column *sort, *matrix;
};

static int read_view(struct view *view, const struct options *options) {
    *view = (struct view){.by_host = strcmp(option_text(options, "by"), "host") == 0,
                          .most = strcmp(option_text(options, "format"), "text") == 0 ? LINKS_SHOWN : 0,
                          .matrix = table_column(link_columns, option_text(options, "matrix"))};
    size_t most = 0;
    int code = options_sort(options, link_columns, &view->sort);
    if (code == EXIT_FINE)
        code = options_top(options, &most);
    if (most > 0)
        view->most = most;
    return code;
}

/* The ranks', else that of their hosts where there are several. */
static bool print_matrix(const struct output *output, const struct session *session, const struct link_table *links,
                         const struct view *view) {
    bool fits;
    if (!link_matrix_print(output->stream, links, view->matrix, output->color, &fits))
        return false;
    if (!fits && !links->by_host && session->clock.host_count > 1) {
        struct link_table hosts;
        bool done = links_of_session(&hosts, session, true) &&
                    link_matrix_print(output->stream, &hosts, view->matrix, output->color, &fits);
        link_table_free(&hosts);
        if (!done)
            return false;
    }
    fputs(fits ? "\n" : "a matrix would be too wide here: --format csv has all rows\n\n", output->stream);
    return true;
}

/* Where there is one host nobody need be told who runs there. */
static bool print_rows(const struct output *output, const struct session *session, const struct link_table *links,
                       const struct table *table) {
    static const char *const keys[] = {"kind",
                                       "from",
                                       "to",
                                       "type",
                                       "messages",
                                       "bytes",
                                       "wait_seconds",
                                       "transfer_seconds",
                                       "bandwidth_gb_per_s",
                                       "bandwidth_at_least_gb_per_s",
                                       "method"};
    enum { KEYS = sizeof keys / sizeof *keys };
    struct column columns[KEYS + 1];
    struct table shown = *table;
    if (!links->by_host && session->clock.host_count == 1) {
        table_choose_columns(columns, link_columns, keys, KEYS);
        shown.columns = columns;
    }
    if (!table_print_text(output->stream, &shown, output->color))
        return false;
    table_print_rest(output->stream, table, links->count);
    return table_print_legend(output->stream, &shown);
}

static bool print_text(const struct output *output, const struct session *session, const struct link_table *links,
                       const struct view *view, const struct table *table) {
    FILE *stream = output->stream;
    if (links->count == 0)
        fputs("no link carried anything on record: there were no messages, and no collective whose way is known\n",
              stream);
    else if (!print_matrix(output, session, links, view) || !print_rows(output, session, links, table))
        return false;
    links_left_out_print(stream, links);
    if (links->with_another_world > 0)
        fprintf(stream, "%" PRIu64 " messages with processes of another world are in no row\n",
                links->with_another_world);
    if (!links_totals_complete(session))
        fputs("these totals do not hold every message: see the end of commtap report\n", stream);
    input_say_next(stream, "stragglers", &session->set);
    return true;
}

static int print(const struct options *options, const struct session *session, const struct link_table *links,
                 const struct view *view) {
    struct table table = link_rows_table(links);
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    bool done = true;
    table_cut(&table, view->most);
    if (output.format == OUTPUT_JSON)
        done = json_print(output.stream, links_document(session, links, &table));
    else if (output.format == OUTPUT_CSV)
        table_print_csv(output.stream, &table);
    else
        done = print_text(&output, session, links, view, &table);
    return output_close(&output, done ? session_verdict(session, options) : input_no_memory());
}

static int run(const struct options *options) {
    struct session session;
    struct view view;
    struct link_table links;
    int code = read_view(&view, options);
    if (code == EXIT_FINE)
        code = session_open(&session, options);
    if (code != EXIT_FINE)
        return code;
    bool done = links_of_session(&links, &session, view.by_host) &&
                (!view.sort || table_sort(links.rows, sizeof *links.rows, links.count, view.sort));
    code = done ? print(options, &session, &links, &view) : input_no_memory();
    link_table_free(&links);
    session_close(&session);
    return code;
}

static const struct option option_rows[] = {
    {.name = "by",
     .argument = "WHAT",
     .choices = "rank|host",
     .fallback = "rank",
     .doc = "a row per ordered pair of ranks, or of hosts"},
    OPTION_TOP("20 in text, else all"),
    {.name = "sort",
     .argument = "KEY",
     .doc = "order of the rows by a column's JSON key, largest first; default: by kind, then by bytes"},
    {.name = "matrix",
     .argument = "KEY",
     .choices = "bytes|messages|wait_seconds|transfer_seconds|bandwidth_gb_per_s",
     .fallback = "bytes",
     .doc = "what the matrix in text shows"},
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_RANK,
    OPTION_FAIL_ON,
    OPTION_RUN,
    OPTION_THREADS,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap links DIR", "matrix and table of who sent how much to whom"},
    {"commtap links --by host --sort bandwidth_gb_per_s DIR", "the fastest pairs of hosts first"},
    {"commtap links --rank 3 --format csv DIR", "every link from and to rank 3, for a spreadsheet"},
    {NULL, NULL},
};

const struct command command_links = {
    .name = "links",
    .summary = "who sent what to whom, how fast, and who waited: matrix and table of ranks or hosts",
    .arguments = "DIR...",
    .details =
        "Numbers and bytes of messages are those of the whole run. Waits and transfer times rest on the messages that\n"
        "are on record at both ends; what was not measured is empty (null), with the reason (unmeasured): algorithm\n"
        "(an estimate has no times), self (within one process), no-dump (of one end), unmatched (no message on record\n"
        "at both ends), untimed (they may have been there before, or their call may have waited for others), too-many\n"
        "(links and sizes to be kept). Rows of different kinds are about the same bytes where NCCL's network carried\n"
        "them: they are not to be added up. A collective is charged to links as if it went round a ring in the order\n"
        "of ranks; the library may have gone another way.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .columns = link_columns,
    .examples = examples,
    .run = run,
};
