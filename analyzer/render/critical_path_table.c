/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path as a table and as JSON.
 * Lives here: keys and looks of its call sites.
 * Must not live here: figures.
 */
#include "analyzer/render/critical_path_table.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/load/gpu_view.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"

static double share_of(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

static int64_t path_length(const struct delay_costs *costs) {
    return costs->path_pieces > 0 ? costs->path_ns : 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* One line of the table. */
struct path_line {
    const struct critical_path_site *site;
    int64_t length; /* of the whole path */
    char most[48];  /* rank on which it was on the path longest, and for which share of that */
};

#define LINE ((const struct path_line *)row)
#define VALUE(NAME, CELL)                                                                                              \
    static struct cell NAME(const void *row) { return CELL; }
VALUE(where, LINE->site->where ? cell_text(LINE->site->where) : cell_unknown())
VALUE(op, LINE->site->op ? cell_text(LINE->site->op) : cell_text("(small ones)"))
VALUE(seconds, cell_real(seconds_of(critical_path_sums_path(&LINE->site->sums))))
VALUE(share, cell_real(share_of(critical_path_sums_path(&LINE->site->sums), LINE->length)))
VALUE(work, cell_real(seconds_of(LINE->site->sums.path_before)))
VALUE(inside, cell_real(seconds_of(LINE->site->sums.path_inside)))
VALUE(caused, cell_real(seconds_of(critical_path_sums_delay_cost(&LINE->site->sums))))
VALUE(most, LINE->most[0] ? cell_text(LINE->most) : cell_unknown())

/* clang-format off */
static const struct column columns[] = {
    {"where", "call site", .left = true, .optional = true, .value = where},
    {"op", "op", .left = true, .value = op},
    {"seconds", "on path", LOOK_SECONDS, .value = seconds},
    {"share", "share", LOOK_PERCENT, .value = share},
    {"work_seconds", "work before", LOOK_SECONDS, .value = work, .legend = "own work that leads to the call"},
    {"communication_seconds", "in call", LOOK_SECONDS, .value = inside},
    {"caused_seconds", "delay cost", LOOK_SECONDS, .value = caused, .legend = "waits of all ranks that go back to here"},
    {"most", "most on rank", .left = true, .value = most},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

static void say_most(char *text, size_t size, const struct straggler_analysis *analysis,
                     const struct critical_path_site *site) {
    const struct critical_path_row *row = critical_path_sites_most(site);
    int64_t path = critical_path_sums_path(&site->sums);
    const struct device_state *of = row ? dump_gpu(analysis->clock->dumps[row->dump]) : NULL;
    char gpu[16] = "";
    text[0] = '\0';
    if (of)
        snprintf(gpu, sizeof gpu, " GPU %" PRIu32, of->ordinal);
    if (row && path > 0)
        snprintf(text, size, "%" PRId32 "%s (%.0f %%)", analysis->clock->dumps[row->dump]->header->rank, gpu,
                 100 * share_of(critical_path_sums_path(&row->sums), path));
}

bool critical_path_print(FILE *stream, const struct straggler_analysis *analysis,
                         const struct critical_path_sites *sites, size_t most, bool color) {
    const struct delay_costs *costs = &analysis->delay_costs;
    size_t shown = sites->count < most ? sites->count : most;
    struct path_line *lines = calloc(shown + 1, sizeof *lines);
    if (!lines)
        return false;
    for (size_t i = 0; i < shown; i++) {
        lines[i] = (struct path_line){.site = &sites->items[i], .length = path_length(costs)};
        say_most(lines[i].most, sizeof lines[i].most, analysis, lines[i].site);
    }
    struct table table = {columns, lines, sizeof *lines, shown};
    bool done = table_print_text(stream, &table, color);
    if (sites->count > shown)
        fprintf(stream, "... and %zu more: --format json\n", sites->count - shown);
    done = done && table_print_legend(stream, &table);
    free(lines);
    return done;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *rank_number(const struct straggler_analysis *analysis, size_t dump) {
    int32_t rank = analysis->clock->dumps[dump]->header->rank;
    return rank >= 0 ? json_integer(rank) : json_null();
}

static json_t *gpu_number(const struct straggler_analysis *analysis, size_t dump) {
    int64_t number = dump_gpu_number(analysis->clock->dumps[dump]);
    return number >= 0 ? json_integer(number) : json_null();
}

static json_t *path_ranks_to_json(const struct straggler_analysis *analysis) {
    const struct delay_costs *costs = &analysis->delay_costs;
    json_t *array = json_array();
    for (size_t d = 0; array && !costs->unresolved && d < analysis->directory->dump_count; d++) {
        const struct rank_delay_costs *rank = &costs->ranks[d];
        json_array_append_new(array, json_pack("{s:o, s:o, s:f, s:f, s:f}", "rank", rank_number(analysis, d), "gpu",
                                               gpu_number(analysis, d), "seconds", seconds_of(rank->critical_path_ns),
                                               "share", share_of(rank->critical_path_ns, path_length(costs)),
                                               "caused_seconds", seconds_of(rank->delay_cost_ns)));
    }
    return array;
}

/* The keys that a site has in all and on each rank. */
static json_t *path_sums_to_json(const struct critical_path_sums *sums) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "seconds", seconds_of(critical_path_sums_path(sums)),
                     "work_seconds", seconds_of(sums->path_before), "communication_seconds",
                     seconds_of(sums->path_inside), "caused_seconds", seconds_of(critical_path_sums_delay_cost(sums)),
                     "caused_by_work_seconds", seconds_of(sums->delay_cost_before), "caused_in_call_seconds",
                     seconds_of(sums->delay_cost_inside));
}

static json_t *path_site_to_json(const struct straggler_analysis *analysis, const struct critical_path_site *site) {
    json_t *object = path_sums_to_json(&site->sums), *ranks = json_array();
    for (size_t i = 0; i < site->row_count; i++) {
        json_t *row = path_sums_to_json(&site->rows[i].sums);
        json_object_set_new(row, "rank", rank_number(analysis, site->rows[i].dump));
        json_object_set_new(row, "gpu", gpu_number(analysis, site->rows[i].dump));
        json_array_append_new(ranks, row);
    }
    json_object_set_new(object, "where", site->where ? escape_json(site->where) : json_null());
    json_object_set_new(object, "op", site->op ? escape_json(site->op) : json_null());
    json_object_set_new(object, "share",
                        json_real(share_of(critical_path_sums_path(&site->sums), path_length(&analysis->delay_costs))));
    json_object_set_new(object, "ranks", ranks);
    return object;
}

json_t *critical_path_to_json(const struct straggler_analysis *analysis, const struct critical_path_sites *sites,
                              int64_t start_ns) {
    const struct delay_costs *costs = &analysis->delay_costs;
    bool known = costs->path_pieces > 0;
    json_t *array = json_array();
    for (size_t i = 0; array && i < sites->count; i++)
        json_array_append_new(array, path_site_to_json(analysis, &sites->items[i]));
    return json_pack("{s:o, s:o, s:o, s:b, s:f, s:o, s:o}", "seconds",
                     known ? json_real(seconds_of(path_length(costs))) : json_null(), "from_seconds",
                     known ? json_real(seconds_of(costs->from_ns - start_ns)) : json_null(), "to_seconds",
                     known ? json_real(seconds_of(costs->to_ns - start_ns)) : json_null(), "partial", costs->partial,
                     "waits_seconds", seconds_of(costs->waits_ns), "ranks", path_ranks_to_json(analysis), "sites",
                     array);
}
