/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said of a gain where a part of the replays of graphs was not timed.
 * Lives here: figures made by hand. Must not live here: how replays are timed (test_gpu_graphs.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/findings/findings_gpu.h"
#include "test/unit/job_builder.h"

enum { RANKS = 2 };

static struct rank_launches launches[RANKS];

static void make(struct hand_job *job, uint64_t timed, uint64_t untimed) {
    hand_job_make(job, RANKS, (struct dump_plan){0});
    for (unsigned r = 0; r < RANKS; r++) {
        launches[r] = (struct rank_launches){.replayed = timed};
        dump_builder_header(job->builders[r])->losses.replays_untimed = untimed;
    }
    hand_job_open(job, RANKS);
}

static void say(uint64_t timed, uint64_t untimed, char *text, size_t size) {
    struct hand_job job;
    make(&job, timed, untimed);
    findings_say_untimed_replays(&(struct straggler_analysis){.directory = &job.directory, .launches = launches}, text,
                                 size);
    hand_job_free(&job);
}

/* Whether a sentence of its own says so. */
static bool is_said(uint64_t timed, uint64_t untimed, struct straggler *named) {
    struct hand_job job;
    struct findings findings = {0};
    bool said = false;
    make(&job, timed, untimed);
    const struct straggler_analysis analysis = {
        .directory = &job.directory, .launches = launches, .stragglers = named, .straggler_count = named ? 1 : 0};
    findings_add_untimed_replays(&findings, &analysis);
    for (size_t i = 0; i < findings.count; i++)
        said |= strcmp(findings.items[i].code, "replays_untimed") == 0 &&
                strstr(findings.items[i].text, "of 480 GPU operations of graph replays 360 were not timed") != NULL;
    findings_free(&findings);
    hand_job_free(&job);
    return said;
}

static void a_gain_is_the_least_where_replays_are_missing(void **state) {
    (void)state;
    char text[160];
    say(60, 180, text, sizeof text);
    assert_string_equal(text,
                        " That is the least: of 480 GPU operations of graph replays 360 were not timed, and what ranks "
                        "waited in these counts as work.");
    say(240, 0, text, sizeof text);
    assert_string_equal(text, "");
    say(993, 7, text, sizeof text);
    assert_string_equal(text, "");
    say(985, 15, text, sizeof text);
    assert_non_null(strstr(text, "of 2000 GPU operations of graph replays 30 were"));
}

static void the_longest_sentence_is_whole(void **state) {
    (void)state;
    char text[160];
    say(1000000000, 1000000000, text, sizeof text);
    assert_non_null(strstr(text, "counts as work."));
}

/* Also where nobody is named, or nothing is promised for who is. */
static void what_is_left_is_said_where_nobody_is_named(void **state) {
    (void)state;
    struct straggler named = {.kind = STRAGGLER_RANK, .what_if_speedup = 1.5};
    assert_true(is_said(60, 180, NULL));
    assert_false(is_said(240, 0, NULL));
    assert_false(is_said(60, 180, &named)); /* the sentence about that one does */
    named.what_if_speedup = 1;
    assert_true(is_said(60, 180, &named));
    named = (struct straggler){.kind = STRAGGLER_LINK, .what_if_speedup = 1.5};
    assert_true(is_said(60, 180, &named));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gain_is_the_least_where_replays_are_missing),
        cmocka_unit_test(the_longest_sentence_is_whole),
        cmocka_unit_test(what_is_left_is_said_where_nobody_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
