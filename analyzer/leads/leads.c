/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/leads/leads.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/side_by_side.h"
#include "analyzer/base/significance.h"
#include "analyzer/base/statistics.h"
#include "analyzer/leads/kept_rows.h"
#include "analyzer/leads/lead_chances.h"
#include "analyzer/leads/regular_rows.h"
#include "analyzer/leads/slow_part.h"
#include "analyzer/leads/slow_stretches.h"

enum {
    ROWS_MIN = 16,          /* as of turns: two for each of TIME_BATCHES_MIN batches */
    TESTS = 2,              /* this one, and that of significance.h */
    TESTS_BESIDE = 2,       /* of its leads over all, and over all but one */
    TESTS_SHARED = 4,       /* ... and of what it leads by together with one other: Bonferroni once more */
    TESTS_USUAL = 2,        /* each of these over all stretches, and without those few that take most of the time */
    TESTS_PART = 8,         /* ... and of its places in a part of the run */
    TESTS_REGULAR = 8,      /* ... and of both that they are its own and that they come regularly */
    REGULAR_RANKS = 64,     /* of more, three leads are beyond chance whenever they come */
    COLUMNS_OF_THREAD = 16, /* fewer take no longer than starting a thread */
    REGULAR_PART = 2,       /* where more than half of the ranks are slow regularly, they take turns */
};
#define ALL_COLUMNS SIZE_MAX

/* ---- ranks beside each other --------------------------------------------------------------------------------- */

/* One of the two ranks that lead most, and the table without it: beside a rank that is slow at times, too, nobody's
 * leads are more than half of all. */
struct leader {
    size_t column;
    struct lead_rows single, apart; /* without it */
};

struct judging {
    const struct leads_table *table;
    struct lead_rows single, apart;
    struct leader leaders[2]; /* the first leads most */
    double *unit;
    double *scratch;              /* two values of each column */
    struct regular_rows *regular; /* per column */
};

/* Sums of the leads by column; `unit` NULL: as they are. */
static void sum_leads(const struct lead *leads, size_t rows, size_t columns, const double *unit, double *sums) {
    for (size_t c = 0; c < columns; c++)
        sums[c] = 0;
    for (size_t row = 0; row < rows; row++)
        for (int i = 0; i < 1 + (leads[row].columns[1] != leads[row].columns[0]); i++)
            sums[leads[row].columns[i]] += leads[row].ns * (unit ? unit[leads[row].columns[i]] : 1);
}

static bool find_leaders(struct judging *judging) {
    double *sums = judging->scratch;
    sum_leads(judging->apart.leads, judging->apart.rows, judging->apart.columns, NULL, sums);
    struct leader *leaders = judging->leaders;
    for (size_t c = 1; c < judging->apart.columns; c++)
        leaders[0].column = sums[c] > sums[leaders[0].column] ? c : leaders[0].column;
    leaders[1].column = leaders[0].column == 0;
    for (size_t c = 0; c < judging->apart.columns; c++)
        if (c != leaders[0].column && sums[c] > sums[leaders[1].column])
            leaders[1].column = c;
    for (int k = 0; k < 2; k++)
        if (!rows_without(&leaders[k].single, &judging->single, leaders[k].column) ||
            !rows_at_once(&leaders[k].apart, &leaders[k].single, judging->table))
            return false;
    return true;
}

/* The one of the leaders that this rank may go unnoticed beside. */
static struct leader *leader_beside(struct judging *judging, size_t column) {
    return &judging->leaders[judging->leaders[0].column == column];
}

/* The chance of a rank's leads over all others but the leader, where those of both are more than two ranks' by chance:
 * else a rank that shares its slow stretches with the leader, as where ranks of two groups take turns, would be ahead
 * in those alone once the leader is left out. Any other rank might have been the leader. Negative: no memory. */
static double chance_beside(struct judging *judging, size_t column) {
    struct leader *leader = leader_beside(judging, column);
    size_t own = column - (column > leader->column), others = judging->apart.columns - 1;
    const struct question of_own = {own, own, false, {own, own}, false};
    double alone =
        chance_of(&leader->apart, &of_own, judging->scratch); /* first: most ranks lead in few rows, if any */
    if (alone < 0 || alone > looked_at(&leader->apart))
        return alone;
    const struct question of_both = {column, leader->column, false, {column, column}, false};
    double both = chance_of(&judging->apart, &of_both, judging->scratch);
    return both < 0 ? both : fmin(1, fmax(alone, both > CHANCE_LOOKED_AT ? both : both * (double)others));
}

/* ---- all ranks ----------------------------------------------------------------------------------------------- */

/* What a rank's leads are of a mean stretch of the run, less the median rank's. */
static double mean_lead(const struct judging *judging, const struct lead_rows *rows, const struct lead *leads,
                        size_t column, size_t without) {
    size_t n = rows->columns;
    double *unit = judging->scratch, *sums = judging->scratch + judging->single.columns;
    for (size_t c = 0; c < n; c++)
        unit[c] = judging->unit[c + (c >= without)];
    sum_leads(leads, rows->rows, n, unit, sums);
    double own = sums[column];
    return (own - median_double(sums, n)) / (double)rows->rows;
}

/* The chance of what a rank leads by together with another one: of two that are slow in the very same stretches neither
 * leads by much alone. Slow in a part of the run, that other one would make all rows resemble each other. Negative: no
 * memory. */
static double chance_shared(struct judging *judging, size_t column) {
    size_t columns = judging->single.columns;
    size_t other = columns > 4 ? leader_beside(judging, column)->column : column; /* three remain to be measured on */
    const struct question question = {column, column, true, {column, other}, false};
    return columns > 2 ? chance_of(&judging->apart, &question, judging->scratch) : 1;
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

/* Of a rank's leads over all, of those over all but one, and of those that it shares with another one. */
struct chances {
    double alone, beside, shared;
};

static bool chances_of_leads(struct judging *judging, size_t column, struct chances *out) {
    *out = (struct chances){.alone = chance_of(&judging->apart,
                                               &(struct question){column, column, false, {column, column}, true},
                                               judging->scratch),
                            .beside = judging->single.columns > 2 ? chance_beside(judging, column) : 1,
                            .shared = chance_shared(judging, column)};
    bool done = out->alone >= 0 && out->beside >= 0 && out->shared >= 0;
    out->beside *= TESTS_BESIDE;
    out->shared *= TESTS_SHARED;
    return done;
}

static double least_of(const struct chances *chances) {
    return fmin(chances->alone, fmin(chances->beside, chances->shared));
}

static double lead_of(struct judging *judging, const struct chances *chances, size_t column) {
    const struct lead_rows *single = &judging->single;
    if (chances->shared <= fmin(chances->alone, chances->beside))
        return mean_lead(judging, single, single->shared, column, single->columns);
    if (chances->beside >= chances->alone)
        return mean_lead(judging, single, single->leads, column, single->columns);
    const struct leader *leader = leader_beside(judging, column);
    return mean_lead(judging, &leader->single, leader->single.leads, column - (column > leader->column),
                     leader->column);
}

static bool judge_below(const struct judging *judging, const struct lead *leads, double least, size_t column,
                        struct rank_leads *out);

/* The chance that the large ones of the leads that tell are its own, by themselves. A single pause is anybody's: with
 * small leads that are its own beyond chance all of them together are, too, and the pause is what they seem to cost.
 * *least: of all those. Negative: no memory. */
static double chance_of_cost(struct judging *judging, const struct chances *chances, size_t column, double *least) {
    const struct leader *leader = leader_beside(judging, column);
    bool shared = chances->shared <= fmin(chances->alone, chances->beside);
    bool beside = !shared && chances->beside < chances->alone;
    size_t own = beside ? column - (column > leader->column) : column;
    const struct question question = {own, own, shared, {own, own}, true};
    return chance_of_large(beside ? &leader->apart : &judging->apart, &question, least);
}

/* Which of its leads are meant: those of the kind that tells best. */
static const struct lead *leads_that_tell(struct judging *judging, const struct chances *chances, size_t column) {
    if (chances->shared <= fmin(chances->alone, chances->beside))
        return judging->single.shared;
    return chances->beside < chances->alone ? leader_beside(judging, column)->single.leads : judging->single.leads;
}

/* What a rank is told by. */
struct evidence {
    struct chances chances;
    const struct regular_rows *regular; /* when it is slow regularly */
    double part, of_regular;
};

static bool gather_evidence(struct judging *judging, const struct slow_parts *parts, size_t column,
                            struct evidence *evidence) {
    evidence->part = TESTS_PART * slow_parts_chance(parts, column);
    evidence->regular = &judging->regular[column];
    evidence->of_regular = TESTS_REGULAR * evidence->regular->chance;
    return chances_of_leads(judging, column, &evidence->chances);
}

static double least_evidence(const struct evidence *evidence) {
    return fmin(fmin(1, evidence->of_regular), fmin(evidence->part, least_of(&evidence->chances)));
}

/* What it leads by where it is slow for a part of the run, by its usual ratio there at most: neither a pause of its own
 * counts for more, nor does one of the others make up for what it leads by elsewhere. */
static double cost_in_part(const struct judging *judging, const struct lead *leads, const struct rank_leads *found,
                           size_t column) {
    const struct leads_table *table = judging->table;
    double cost = 0, share = 1 - 1 / found->slow_ratio;
    for (size_t row = found->first * table->rows / 1000; row < found->last * table->rows / 1000; row++) {
        double own = (double)table->self_ns[row * table->columns + column] * share;
        if (leads[row].columns[0] == column || leads[row].columns[1] == column)
            cost += fmin(leads[row].ns * judging->unit[column], own);
    }
    return cost / (double)table->rows;
}

static double cost_of(struct judging *judging, const struct evidence *evidence, const struct rank_leads *found,
                      size_t column) {
    const struct chances *chances = &evidence->chances;
    bool by_part = evidence->part < least_of(chances), both = chances->shared <= CHANCE_LOOKED_AT;
    double cost =
        by_part ? cost_in_part(judging, judging->single.leads, found, column) : lead_of(judging, chances, column);
    if (both && by_part) /* of two that are slow at once one leads the other by chance alone */
        return fmax(cost, cost_in_part(judging, judging->single.shared, found, column));
    return both ? fmax(cost, lead_of(judging, &(struct chances){1, 1, 0}, column)) : cost;
}

static void describe_regular(const struct leads_table *table, const struct regular_rows *regular,
                             struct rank_leads *out) {
    out->slow_rows = regular->count;
    out->slow_ratio = regular->slow_ratio;
    out->longer_ns = regular->longer_ns;
    out->lead_ns = regular->lead_ns;
    out->phase = false;
    out->regular = true;
    out->first = regular->first;
    out->last = regular->last;
    out->every = regular->every;
    out->noted_count = 0;
    for (size_t row = 0; row < table->rows; row++)
        if (table->numbers[row] % regular->every == regular->begin)
            slow_stretches_note(table, out, table->numbers[row]);
}

/* By its leads, or for a part of the run. Returns false when memory is short. */
static bool judge_leads(struct judging *judging, const struct evidence *evidence, size_t column,
                        struct rank_leads *out) {
    double of_leads = least_of(&evidence->chances), least, most = looked_at(&judging->apart);
    out->p = fmin(1, fmin(evidence->part, of_leads));
    if (out->p > most)
        return true;
    if (out->p == of_leads) {
        double of_cost = chance_of_cost(judging, &evidence->chances, column, &least);
        if (of_cost > most)
            return judge_below(judging, leads_that_tell(judging, &evidence->chances, column), least, column, out);
        out->p = fmax(out->p, of_cost);
        if (of_cost < 0)
            return false;
    }
    out->lead_ns = cost_of(judging, evidence, out, column);
    return true;
}

/* Returns false when memory is short. */
static bool judge_column(struct judging *judging, const struct slow_parts *parts, size_t column,
                         struct rank_leads *out) {
    struct evidence evidence;
    double most = looked_at(&judging->apart);
    if (!gather_evidence(judging, parts, column, &evidence))
        return false;
    *out = (struct rank_leads){.p = least_evidence(&evidence), .slow_ratio = 1};
    if (out->p > most)
        return true;
    if (!slow_stretches_find(judging->table, column, out))
        return false;
    if (!out->phase) /* it stands higher in a part, and is not slow there */
        evidence.part = 1;
    struct rank_leads regular = *out;
    if (!judge_leads(judging, &evidence, column, out))
        return false;
    /* Told by both: by what says when, where that is most of what it costs. */
    bool by_leads = out->p <= most;
    if (evidence.of_regular <= most && (!by_leads || 2 * evidence.regular->lead_ns >= out->lead_ns)) {
        describe_regular(judging->table, evidence.regular, &regular);
        regular.p = fmin(out->p, evidence.of_regular);
        *out = regular;
    } else if (!by_leads)
        *out = (struct rank_leads){.p = out->p, .slow_ratio = 1};
    return true;
}

/* Columns that are looked at side by side. */
struct regular_search {
    struct judging *judging;
    size_t from;
    bool done[REGULAR_RANKS];
};

static void find_regular_of(void *context, size_t number) {
    struct regular_search *search = context;
    struct judging *judging = search->judging;
    size_t c = (search->from + number) % judging->table->columns;
    search->done[number] = regular_rows_find(judging->table, &judging->single, judging->unit, c, &judging->regular[c]);
}

/* Whether each rank is slow regularly, where few of them would be named for it. Where only one is judged the others are
 * asked if that matters. */
static bool find_regular(struct judging *judging, size_t only, unsigned threads) {
    size_t columns = judging->table->columns, regular = 0;
    struct regular_search search = {.judging = judging, .from = only == ALL_COLUMNS ? 0 : only};
    for (size_t c = 0; c < columns; c++)
        judging->regular[c].chance = 1;
    if (columns > REGULAR_RANKS)
        return true;
    if (only != ALL_COLUMNS) {
        find_regular_of(&search, 0);
        if (!search.done[0] || TESTS_REGULAR * judging->regular[only].chance > CHANCE_LOOKED_AT)
            return search.done[0];
    }
    side_by_side(threads, columns, find_regular_of, &search);
    bool done = true;
    for (size_t c = 0; c < columns; c++) {
        done = done && search.done[c];
        regular += TESTS * TESTS_REGULAR * (double)columns * judging->regular[c].chance <= CHANCE_SURE;
    }
    for (size_t c = 0; c < columns && REGULAR_PART * regular > columns; c++)
        judging->regular[c].chance = 1;
    return done;
}

static bool judging_begin(struct judging *judging, const struct leads_table *table, size_t only, unsigned threads) {
    *judging = (struct judging){.table = table,
                                .unit = calloc(table->columns, sizeof *judging->unit),
                                .scratch = calloc(2 * table->columns, sizeof *judging->scratch),
                                .regular = calloc(table->columns, sizeof *judging->regular)};
    return judging->unit && judging->scratch && judging->regular &&
           rows_single(&judging->single, table, judging->unit) &&
           rows_at_once(&judging->apart, &judging->single, table) && (table->columns == 2 || find_leaders(judging)) &&
           find_regular(judging, only, threads);
}

static void judging_end(struct judging *judging) {
    rows_free(&judging->single);
    rows_free(&judging->apart);
    for (int k = 0; k < 2; k++) {
        rows_free(&judging->leaders[k].single);
        rows_free(&judging->leaders[k].apart);
    }
    free(judging->unit);
    free(judging->scratch);
    free(judging->regular);
}

/* Columns that one thread judges. */
struct column_share {
    struct judging judging;
    const struct slow_parts *parts;
    size_t from, to;
    struct rank_leads *out;
    bool done;
};

static void judge_share(void *context, size_t number) {
    struct column_share *share = (struct column_share *)context + number;
    struct judging *judging = &share->judging;
    judging->scratch = calloc(2 * judging->table->columns, sizeof *judging->scratch);
    judging->apart = rows_share(&judging->apart);
    for (int k = 0; k < 2; k++)
        judging->leaders[k].apart = rows_share(&judging->leaders[k].apart);
    share->done = judging->scratch != NULL;
    for (size_t c = share->from; share->done && c < share->to; c++)
        share->done = judge_column(judging, share->parts, c, &share->out[c]);
    free(judging->scratch);
    rows_share_end(&judging->apart);
    for (int k = 0; k < 2; k++)
        rows_share_end(&judging->leaders[k].apart);
}

/* Columns from `from` on up to `to`, each by itself. */
static bool judge_columns(const struct judging *judging, const struct slow_parts *parts, size_t from, size_t to,
                          unsigned threads, struct rank_leads *out) {
    size_t wanted = (to - from) / COLUMNS_OF_THREAD + 1, most = threads > 1 ? threads : 1;
    size_t count = wanted < most ? wanted : most;
    struct column_share *shares = calloc(count, sizeof *shares);
    bool done = shares != NULL;
    for (size_t i = 0; done && i < count; i++)
        shares[i] = (struct column_share){
            *judging, parts, from + i * (to - from) / count, from + (i + 1) * (to - from) / count, out, false};
    if (done)
        side_by_side(threads, count, judge_share, shares);
    for (size_t i = 0; shares && i < count; i++)
        done = done && shares[i].done;
    free(shares);
    return done;
}

/* Judges one column, or, with ALL_COLUMNS, all. */
static bool judge_table(const struct leads_table *table, size_t only, unsigned threads, struct rank_leads *out) {
    struct judging judging;
    const struct lead_rows *apart = &judging.apart;
    struct slow_parts parts = {0};
    for (size_t c = 0; c < table->columns; c++)
        out[c] = (struct rank_leads){.p = 1, .slow_ratio = 1};
    if (table->columns < 2 || table->rows < ROWS_MIN)
        return true;
    bool done = judging_begin(&judging, table, only, threads) &&
                slow_parts_find(&parts, apart->self, apart->places, apart->rows, apart->columns, table->level);
    bool all = only == ALL_COLUMNS;
    done = done && judge_columns(&judging, &parts, all ? 0 : only, all ? table->columns : only + 1, threads, out);
    slow_parts_free(&parts);
    judging_end(&judging);
    return done;
}

/* ---- all stretches, and the usual ones ------------------------------------------------------------------------- */

/* Judges the stretches of a table that were kept, and says so of all of them. */
static bool judge_kept(const struct kept_rows *kept, const struct leads_table *table, size_t only, unsigned threads,
                       struct rank_leads *out) {
    size_t rows = table->rows;
    bool done = judge_table(&kept->table, only, threads, out);
    for (size_t c = 0; done && c < table->columns; c++) {
        struct rank_leads *leads = &out[c], of_all = {.self_ratio = 0};
        leads->p = fmin(1, TESTS_USUAL * leads->p);
        leads->lead_ns *= (double)kept->table.rows / (double)rows;
        if (leads->rows == 0)
            continue;
        done = slow_stretches_find(table, c, &of_all);
        leads->self_ratio = of_all.self_ratio;
        size_t first = leads->first * kept->table.rows / 1000, last = leads->last * kept->table.rows / 1000;
        leads->rows = rows;
        leads->first = (uint32_t)(1000 * kept->row_of[first] / rows);
        leads->last = (uint32_t)(1000 * (kept->row_of[last > 0 ? last - 1 : 0] + 1) / rows);
    }
    return done;
}

static bool judge_below(const struct judging *judging, const struct lead *leads, double least, size_t column,
                        struct rank_leads *out) {
    struct kept_rows kept;
    struct rank_leads *found = calloc(judging->table->columns, sizeof *found);
    bool done = kept_rows_below(&kept, judging->table, leads, least) && found &&
                judge_kept(&kept, judging->table, column, 1, found);
    if (done)
        *out = found[column];
    free(found);
    kept_rows_free(&kept);
    return done;
}

/* Whether the rank is beyond doubt over all stretches, whichever others are tested: what it is in the usual ones is
 * little beside that. */
static bool is_sure(const struct rank_leads *leads, size_t columns) {
    return leads->p * TESTS * (double)columns <= CHANCE_SURE;
}

static bool judge_usual(const struct leads_table *table, unsigned threads, struct rank_leads *out) {
    struct kept_rows kept;
    bool done = kept_rows_usual(&kept, table) && judge_kept(&kept, table, ALL_COLUMNS, threads, out);
    kept_rows_free(&kept);
    return done;
}

/* Over all stretches, and over the usual ones. */
struct both {
    const struct leads_table *table;
    unsigned threads;
    struct rank_leads *found[2];
    bool done[2];
};

static void judge_one(void *context, size_t number) {
    struct both *both = context;
    both->done[number] = number == 0 ? judge_table(both->table, ALL_COLUMNS, both->threads, both->found[0])
                                     : judge_usual(both->table, both->threads, both->found[1]);
}

bool leads_judge(const struct leads_table *table, unsigned threads, struct rank_leads *out) {
    struct rank_leads *usual = calloc(table->columns + 1, sizeof *usual);
    struct both both = {table, threads, {out, usual}, {false, table->level}};
    if (usual)
        side_by_side(threads, table->level ? 1 : 2, judge_one, &both);
    for (size_t c = 0; !table->level && both.done[0] && both.done[1] && c < table->columns; c++)
        if (usual[c].p < out[c].p && !is_sure(&out[c], table->columns))
            out[c] = usual[c];
    free(usual);
    return both.done[0] && both.done[1];
}

bool leads_correct(struct rank_leads *const *ranks, size_t count) {
    struct significance *copies = calloc(count + 1, sizeof *copies);
    struct significance **list = calloc(count + 1, sizeof *list);
    bool done = copies && list;
    for (size_t i = 0; done && i < count; i++) {
        copies[i].p = fmin(1, TESTS * ranks[i]->p);
        list[i] = &copies[i];
    }
    done = done && significance_correct(list, count);
    for (size_t i = 0; done && i < count; i++)
        ranks[i]->confidence = copies[i].confidence;
    free(copies);
    free(list);
    return done;
}
