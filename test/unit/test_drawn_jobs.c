/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs drawn by chance: what the verdict, the ranks' table, delay costs, the critical path and what-if say of the same
 * job fits together, and who is called what where the truth is known.
 * Lives here: what must hold for every job (test/scenes/drawn_job.h). Must not live here: single figures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/findings/findings_stragglers.h"
#include "analyzer/render/what_if.h"
#include "test/scenes/drawn_job.h"

enum { JOBS = 200, FIRST_SEED = 23601 };

/* ---- what must hold -------------------------------------------------------------------------- */

/* Whether the parts are the whole, to the rounding of a share of each wait. */
static bool shares_add_up(const struct straggler_analysis *analysis) {
    int64_t waits = 0, costs = 0, path = 0, ranks = (int64_t)analysis->directory->dump_count;
    bool within = true;
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        const struct rank_waits *own = &analysis->waits.ranks[d];
        const struct rank_delay_costs *cost = &analysis->delay_costs.ranks[d];
        waits += own->wait_ns;
        costs += cost->delay_cost_ns;
        path += cost->critical_path_ns;
        within &= own->wall_wait_ns <= own->wait_ns && cost->direct_ns <= cost->delay_cost_ns;
        within &= own->wall_wait_ns + own->wall_transfer_ns <= analysis->times[d].comm_ns;
    }
    int64_t apart = waits > costs ? waits - costs : costs - waits;
    return within && apart <= waits / 1000000 + ranks && path == analysis->delay_costs.path_ns &&
           path == analysis->covered_ns;
}

static bool all_is_no_less(const struct straggler_analysis *analysis, const struct straggler *parts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (parts[i].what_if_speedup > analysis->even_speedup)
            return false;
    return true;
}

static bool no_part_gains_more_than_all(const struct straggler_analysis *analysis) {
    bool fits = analysis->named_speedup <= analysis->even_speedup;
    for (size_t i = 0; i < analysis->what_if.site_count; i++)
        fits &= analysis->what_if.sites[i].speedup <= analysis->even_speedup;
    for (size_t i = 0; i < analysis->straggler_count; i++)
        fits &= analysis->stragglers[i].what_if_speedup <= analysis->named_speedup;
    return fits && analysis->what_if.slowdown <= analysis->even_speedup &&
           all_is_no_less(analysis, analysis->stragglers, analysis->straggler_count) &&
           all_is_no_less(analysis, analysis->suspects, analysis->suspect_count) &&
           all_is_no_less(analysis, analysis->uneven, analysis->uneven_count) &&
           all_is_no_less(analysis, analysis->hidden, analysis->hidden_count);
}

/* Whether more waits go back to a rank of which nothing is said than to the one that is named. */
static bool somebody_costs_more(const struct straggler_analysis *analysis, size_t named) {
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        if (analysis->delay_costs.ranks[d].delay_cost_ns > analysis->delay_costs.ranks[named].delay_cost_ns &&
            !straggler_analysis_speaks_of(analysis, d))
            return true;
    return false;
}

/* The costliest are named, or it is said why not; a named rank is slow in the ranks' table. */
static bool the_costliest_are_named(const struct straggler_analysis *analysis) {
    struct findings findings = {0};
    size_t named = 0, exceptions = 0, said = 0;
    bool slow = true;
    for (size_t i = 0; i < analysis->straggler_count; i++) {
        const struct straggler *straggler = &analysis->stragglers[i];
        if (straggler->kind != STRAGGLER_RANK)
            continue;
        named++;
        exceptions += somebody_costs_more(analysis, straggler->dumps[0]);
        const struct significance *row = &analysis->ranks[straggler->dumps[0]];
        double ratio = straggler->at_times ? straggler->when.slow_ratio : row->ratio;
        slow &= ratio >= SLOW_RATIO && row->ratio > 1 && row->confidence >= CONFIDENCE_VERDICT;
    }
    findings_add_stragglers(&findings, analysis, true, 0);
    for (size_t i = 0; i < findings.count; i++)
        said +=
            strcmp(findings.items[i].code, "straggler") == 0 && strstr(findings.items[i].text, "More waits go back");
    findings_free(&findings);
    return slow && exceptions <= named && said == exceptions;
}

static size_t count_word(const char *text, const char *word) {
    size_t count = 0;
    for (; (text = strstr(text, word)) != NULL; text++)
        count++;
    return count;
}

/* Where nobody is named, no rank is pointed at without a word of doubt. */
static bool who_is_cleared_is_not_pointed_at(const struct straggler_analysis *analysis) {
    char *text = NULL;
    size_t bytes, pointed, doubted;
    if (!straggler_analysis_clears_all(analysis) || !analysis->what_if.known)
        return true;
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    what_if_print(stream, analysis);
    assert_int_equal(fclose(stream), 0);
    pointed = count_word(text, "give") + count_word(text, "longest");
    doubted = count_word(text, "ruled");
    free(text);
    return pointed == doubted;
}

static void what_is_said_of_a_job_fits_together(void **state) {
    (void)state;
    static const struct {
        const char *what;
        bool (*holds)(const struct straggler_analysis *analysis);
    } rules[] = {{"shares add up", shares_add_up},
                 {"no part gains more than all", no_part_gains_more_than_all},
                 {"the costliest are named", the_costliest_are_named},
                 {"who is cleared is not pointed at", who_is_cleared_is_not_pointed_at}};
    unsigned wrong = 0;
    for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + JOBS; seed++) {
        struct drawn_job job = drawn_job_of(seed);
        struct drawn_result result;
        drawn_job_judge(&result, &job);
        for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
            if (!rules[r].holds(&result.analysis)) {
                print_message("seed %d: not so: %s\n", (int)seed, rules[r].what);
                wrong++;
            }
        drawn_result_free(&result);
    }
    assert_int_equal(wrong, 0);
}

/* ---- what is worth naming -------------------------------------------------------------------- */

/* Rank 0 takes twice as long, rank 1 nearly so: mending it alone gains what noise puts behind rank 0. */
static struct drawn_job two_slow_ranks(unsigned number) {
    struct drawn_job job = drawn_null_job(FIRST_SEED + number, TAIL_NORMAL);
    job.shape = DRAWN_COLLECTIVE;
    job.ranks = 8;
    job.plants[0] = (struct drawn_plant){.rank = 0, .factor = 2, .every = 1};
    job.plants[1] = (struct drawn_plant){.rank = 1, .factor = 1.6 + 0.01 * (number % 30), .every = 1};
    return job;
}

static const struct straggler *find_rank(const struct straggler *list, size_t count, size_t rank) {
    for (size_t i = 0; i < count; i++)
        if (list[i].kind == STRAGGLER_RANK && list[i].dumps[0] == rank)
            return &list[i];
    return NULL;
}

/* Whether rank 0 works so much longer than rank 1 that mending both gives no more than mending it, and the others'
 * waits for rank 1 matter. */
static bool lies_behind(const struct straggler_analysis *analysis) {
    int64_t others = (int64_t)analysis->directory->dump_count - 1;
    return (double)analysis->times[1].self_ns * SLOW_RATIO < (double)analysis->times[0].self_ns &&
           analysis->delay_costs.ranks[1].delay_cost_ns / others >= analysis->window_ns / 100;
}

/* Waited for by the others, a rank is named from a gain of half a hundredth on; with less it is hidden. */
static void a_gain_of_half_a_hundredth_is_worth_naming(void **state) {
    (void)state;
    unsigned less = 0, more = 0;
    for (unsigned i = 0; i < 60; i++) {
        struct drawn_job job = two_slow_ranks(i);
        struct drawn_result result;
        drawn_job_judge(&result, &job);
        const struct straggler_analysis *analysis = &result.analysis;
        const struct straggler *named = find_rank(analysis->stragglers, analysis->straggler_count, 1);
        const struct straggler *hidden = find_rank(analysis->hidden, analysis->hidden_count, 1);
        double gain = named || hidden ? 1 - 1 / (named ? named : hidden)->what_if_speedup : 0;
        if (lies_behind(analysis) && gain >= 0.0025 && gain < 0.01) {
            assert_int_equal(named != NULL, gain >= 0.005);
            less += gain < 0.005;
            more += gain >= 0.005;
        }
        drawn_result_free(&result);
    }
    assert_true(less > 0 && more > 0);
}

/* What is said of the one that is hidden. */
static bool is_said(const struct straggler_analysis *analysis, const char *text) {
    struct findings findings = {0};
    findings_add_stragglers(&findings, analysis, true, 0);
    size_t said = 0, right = 0;
    for (size_t i = 0; i < findings.count; i++)
        if (strcmp(findings.items[i].code, "hidden") == 0) {
            said++;
            right += strstr(findings.items[i].text, text) != NULL;
        }
    findings_free(&findings);
    return said == 1 && right == 1;
}

/* One or several, all the while or at times, behind somebody or alone: a whole sentence. */
static void assert_sentences(struct straggler_analysis *analysis) {
    struct straggler *hidden = &analysis->hidden[0];
    size_t both[] = {1, 2};
    assert_true(is_said(analysis,
                        " times as long as its peers), but mended alone it would gain the job nothing: somebody "
                        "else is there later still."));
    assert_true(is_said(analysis, " is slow, too ("));
    hidden->slowdown_ratio = 1.24;
    hidden->at_times = true;
    assert_true(is_said(analysis, " is slow, too (1.24 times"));
    hidden->slowdown_ratio = 1.004;
    hidden->when.slow_rows = 20;
    hidden->when.rows = 300;
    hidden->when.slow_ratio = 2.1;
    assert_true(
        is_said(analysis, " is slow at times, too (in 20 of 300 stretches 2.10 times as long as its peers), but"));
    hidden->kind = STRAGGLER_RANK_CLASS;
    hidden->slowdown_ratio = 1.2;
    hidden->dumps = both;
    hidden->dump_count = 2;
    hidden->communicator = NOWHERE;
    assert_true(is_said(analysis, ", which do the same part of the work, have more of it (1.20 times as long as the "
                                  "others), but mended alone they would gain the job nothing: "));
    hidden->communicator = 0;
    assert_true(is_said(analysis, ", which have a communicator of their own, are slow, too (1.20 times as long as "
                                  "the others), but mended alone they would"));
    size_t named = analysis->straggler_count;
    analysis->straggler_count = 0;
    assert_true(is_said(analysis, "are slow (1.20 times"));
    assert_true(is_said(analysis, "nothing: the others wait for something else."));
    analysis->straggler_count = named;
}

static void what_is_hidden_is_said_in_whole_sentences(void **state) {
    (void)state;
    bool found = false;
    for (unsigned i = 0; i < 60 && !found; i++) {
        struct drawn_job job = two_slow_ranks(i);
        struct drawn_result result;
        drawn_job_judge(&result, &job);
        found = result.analysis.hidden_count == 1 && result.analysis.straggler_count > 0 &&
                result.analysis.hidden[0].kind == STRAGGLER_RANK && !result.analysis.hidden[0].at_times;
        if (found)
            assert_sentences(&result.analysis);
        drawn_result_free(&result);
    }
    assert_true(found);
}

/* Two ranks take twice as long: without one of them the job gains what it is slower than the other. */
static void one_of_two_alike_promises_no_more_than_its_lead(void **state) {
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        struct drawn_job job = two_slow_ranks(i);
        struct drawn_result result;
        job.plants[1].factor = 2;
        job.tail = TAIL_QUIET;
        drawn_job_judge(&result, &job);
        const struct straggler_analysis *analysis = &result.analysis;
        for (size_t r = 0; r < 2; r++) {
            const struct straggler *named = find_rank(analysis->stragglers, analysis->straggler_count, r);
            assert_non_null(named);
            assert_true(named->what_if_speedup < 1.02);
        }
        assert_true(analysis->named_speedup > 1.5);
        drawn_result_free(&result);
    }
}

/* Nothing is certain, however clear. */
static void confidence_is_999_in_a_thousand_at_most(void **state) {
    (void)state;
    struct drawn_job job = two_slow_ranks(0), turns = drawn_job_of_turns(FIRST_SEED, false);
    struct drawn_result result;
    drawn_job_judge(&result, &job);
    assert_true(result.analysis.ranks[0].confidence > 0.9985 && result.analysis.ranks[0].confidence < 0.9995);
    drawn_result_free(&result);
    drawn_job_judge(&result, &turns);
    assert_int_equal(result.analysis.straggler_count, 1);
    assert_true(result.analysis.stragglers[0].confidence > 0.9985 && result.analysis.stragglers[0].confidence < 0.9995);
    drawn_result_free(&result);
}

/* ---- who is called what ---------------------------------------------------------------------- */

struct answers {
    unsigned turns, accused; /* jobs: said that ranks take turns; a rank, a host or a rank class is named */
};

static void count_answers(struct answers *answers, const struct drawn_job *job) {
    struct drawn_result result;
    bool turns = false, accused = false;
    drawn_job_judge(&result, job);
    for (size_t i = 0; i < result.analysis.straggler_count; i++) {
        bool rotating = result.analysis.stragglers[i].kind == STRAGGLER_ROTATING;
        turns |= rotating;
        accused |= !rotating;
    }
    accused |= result.analysis.uneven_count > 0;
    answers->turns += turns;
    answers->accused += accused;
    drawn_result_free(&result);
}

/* Each step another rank, or another one in each half, takes five times as long. */
static void turns_are_called_turns(void **state) {
    (void)state;
    for (int per_half = 0; per_half < 2; per_half++) {
        struct answers answers = {0};
        for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + 100; seed++) {
            struct drawn_job job = drawn_job_of_turns(seed, per_half);
            count_answers(&answers, &job);
        }
        assert_in_range(answers.turns, 97, 100);
        assert_in_range(answers.accused, 0, 3);
    }
}

/* Of two that are slow in the very same steps none is called innocent because of the other, nor anybody else slow. */
static void two_slow_at_once_are_both_named(void **state) {
    (void)state;
    unsigned both = 0, others = 0;
    for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + 100; seed++) {
        struct drawn_job job = drawn_job_of_two(seed);
        struct drawn_result result;
        drawn_job_judge(&result, &job);
        const struct straggler_analysis *analysis = &result.analysis;
        unsigned found = 0;
        for (unsigned i = 0; i < DRAWN_PLANTS; i++)
            found += find_rank(analysis->stragglers, analysis->straggler_count, (size_t)job.plants[i].rank) != NULL;
        both += found == DRAWN_PLANTS;
        others += analysis->straggler_count > found;
        drawn_result_free(&result);
    }
    assert_in_range(both, 94, 100);
    assert_in_range(others, 0, 3);
}

/* However seldom and far a rank of such a job is behind, it is none in particular. */
static void heavy_tails_accuse_nobody(void **state) {
    (void)state;
    for (int tail = TAIL_NORMAL; tail < DRAWN_NULLS; tail++) {
        struct answers answers = {0};
        for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + 100; seed++) {
            struct drawn_job job = drawn_null_job(seed, (enum drawn_tail)tail);
            count_answers(&answers, &job);
        }
        assert_in_range(answers.accused, 0, 3); /* one in a hundred; four or more in 2 of 100 such series */
        assert_true(tail != TAIL_NORMAL || answers.turns == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_of_a_job_fits_together),
        cmocka_unit_test(a_gain_of_half_a_hundredth_is_worth_naming),
        cmocka_unit_test(what_is_hidden_is_said_in_whole_sentences),
        cmocka_unit_test(one_of_two_alike_promises_no_more_than_its_lead),
        cmocka_unit_test(confidence_is_999_in_a_thousand_at_most),
        cmocka_unit_test(turns_are_called_turns),
        cmocka_unit_test(two_slow_at_once_are_both_named),
        cmocka_unit_test(heavy_tails_accuse_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
