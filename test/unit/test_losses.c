/* SPDX-License-Identifier: Apache-2.0
 *
 * What was lost is said: summed over dumps and lanes, on the report's page and in its JSON.
 * Lives here: dumps that say they lost something, through the whole command.
 * Must not live here: how the recorder counts (test_recorder.c), overwritten events (test_load.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "analyzer/cli/options.h"
#include "test/unit/job_builder.h"

enum { RANKS = 2, TEXT_MAX = 1 << 14 };

/* A directory with the dumps of a job. */
struct shelf {
    struct hand_job job;
    char directory[32], output[48];
};

static void shelf_make(struct shelf *shelf) {
    strcpy(shelf->directory, "/tmp/losses.XXXXXX");
    assert_non_null(mkdtemp(shelf->directory));
    snprintf(shelf->output, sizeof shelf->output, "%s/page", shelf->directory);
    hand_job_make(&shelf->job, RANKS, (struct dump_plan){.lanes = 2});
    for (unsigned r = 0; r < RANKS; r++)
        dump_builder_header(shelf->job.builders[r])->state |= STATE_FINALISED;
}

static void path_of(const struct shelf *shelf, unsigned rank, char *path, size_t size) {
    snprintf(path, size, "%s/commtap.testrun.%016x.ct", shelf->directory, rank);
}

/* What `commtap report` writes about the dumps as they are now. */
static void report(struct shelf *shelf, const char *format, char *text) {
    char path[96], *words[] = {shelf->directory, (char *)"--format", (char *)format, (char *)"-o", shelf->output};
    for (unsigned r = 0; r < RANKS; r++) {
        path_of(shelf, r, path, sizeof path);
        assert_int_equal(dump_builder_write(shelf->job.builders[r], path, 0), 0);
    }
    struct options options;
    assert_int_equal(options_parse(&options, &command_report, sizeof words / sizeof *words, words, stderr), EXIT_FINE);
    assert_int_equal(command_report.run(&options), EXIT_FINE);
    options_free(&options);
    FILE *page = fopen(shelf->output, "r");
    assert_non_null(page);
    text[fread(text, 1, TEXT_MAX - 1, page)] = '\0';
    fclose(page);
}

static void shelf_clear(struct shelf *shelf) {
    char path[96];
    for (unsigned r = 0; r < RANKS; r++) {
        path_of(shelf, r, path, sizeof path);
        unlink(path);
    }
    unlink(shelf->output);
    rmdir(shelf->directory);
    hand_job_free(&shelf->job);
}

static void nothing_lost_is_not_spoken_of(void **state) {
    (void)state;
    struct shelf shelf;
    static char text[TEXT_MAX];
    shelf_make(&shelf);
    report(&shelf, "text", text);
    assert_non_null(strstr(text, "totals hold every call"));
    assert_null(strstr(text, "lost"));
    shelf_clear(&shelf);
}

static void every_counter_reaches_the_page_and_the_json(void **state) {
    (void)state;
    static const struct {
        const char *key, *line;
    } expected[] = {
        {"operations_lost", "lost: 33 calls are in no total"},
        {"tables_in_memory", "lost: 19 tables of totals, events or call sites"},
        {"sites_lost", "lost: 4 calls have no call site"},
        {"peers_lost", "lost: 5 messages "},
        {"windows_lost", "lost: 6 of the overwritten events"},
        {"threads_without_slot", "lost: 7 threads"},
        {"pending_untracked", "lost: 8 operations"},
        {"communicators_untracked", "lost: 9 communicators"},
        {"ordinals_evicted", "lost: 10 point-to-point channels"},
        {"providers_handed_raw", "lost: 11 functions"},
        {"definitions_full", "lost: 12 communicators, names"},
        {"epochs_merged", "lost: 13 phases"},
        {"gpu_no_event", "lost: 14 GPU operations"},
        {"gpu_unfinished", "lost: 15 GPU operations"},
        {"gpu_failed", "lost: 16 GPU operations"},
        {"gpu_overlapping", "lost: 23 GPU operations on symmetric memory"},
        {"replays_untimed", "lost: 17 GPU operations"},
        {"captured_unfollowed", "lost: 22 GPU operations"},
        {"stacks_truncated", "lost: 18 call stacks"},
        {"children_unrecorded", "lost: 20 processes"},
        {"quota_refusals", "lost: 21 times"},
        {"gpu_shed", "lost: 24 GPU operations"},
        {"stacks_shed", "lost: 25 calls have no call site, to stay within COMMTAP_BUDGET"},
        {"records_shed", "lost: 26 events"},
    };
    struct shelf shelf;
    static char text[TEXT_MAX];
    shelf_make(&shelf);
    dump_builder_lane(shelf.job.builders[0], 0)->operations_lost = 1;
    dump_builder_lane(shelf.job.builders[0], 1)->operations_lost = 2;
    dump_builder_lane(shelf.job.builders[1], 1)->operations_lost = 30;
    dump_builder_lane(shelf.job.builders[1], 0)->sites_lost = 4;
    dump_builder_lane(shelf.job.builders[1], 0)->peers_lost = 5;
    dump_builder_lane(shelf.job.builders[1], 0)->windows_lost = 6;
    dump_builder_header(shelf.job.builders[0])->losses = (struct losses){.threads_without_slot = 7,
                                                                         .pending_untracked = 8,
                                                                         .communicators_untracked = 9,
                                                                         .ordinals_evicted = 10,
                                                                         .providers_handed_raw = 11,
                                                                         .definitions_full = 12,
                                                                         .epochs_merged = 13,
                                                                         .gpu_no_event = 14,
                                                                         .gpu_unfinished = 15,
                                                                         .gpu_failed = 16,
                                                                         .gpu_overlapping = 23,
                                                                         .replays_untimed = 17,
                                                                         .stacks_truncated = 18,
                                                                         .tables_in_memory = 19,
                                                                         .children_unrecorded = 20,
                                                                         .quota_refusals = 21};
    dump_builder_header(shelf.job.builders[0])->captured_unfollowed = 22;
    dump_builder_header(shelf.job.builders[0])->own_cost.gpu_shed = 24;
    dump_builder_lane(shelf.job.builders[1], 0)->stacks_shed = 25;
    dump_builder_lane(shelf.job.builders[0], 0)->records_shed = 26;
    report(&shelf, "text", text);
    assert_null(strstr(text, "hold every call;"));
    assert_non_null(strstr(text, "totals do not hold every call"));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_non_null(strstr(text, expected[i].line));
    report(&shelf, "json", text);
    json_t *json = json_loads(text, 0, NULL), *losses = json_object_get(json, "losses");
    assert_int_equal(json_object_size(losses), sizeof expected / sizeof *expected);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(json_integer_value(json_object_get(losses, expected[i].key)),
                         atoi(expected[i].line + strlen("lost: ")));
    json_decref(json);
    shelf_clear(&shelf);
}

static void damaged_counters_never_turn_negative(void **state) {
    (void)state;
    struct shelf shelf;
    static char text[TEXT_MAX];
    shelf_make(&shelf);
    for (unsigned r = 0; r < RANKS; r++)
        dump_builder_header(shelf.job.builders[r])->losses.epochs_merged = UINT64_MAX - r;
    report(&shelf, "json", text);
    json_t *json = json_loads(text, 0, NULL);
    assert_true(json_integer_value(json_object_get(json_object_get(json, "losses"), "epochs_merged")) == INT64_MAX);
    json_decref(json);
    shelf_clear(&shelf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_lost_is_not_spoken_of),
        cmocka_unit_test(every_counter_reaches_the_page_and_the_json),
        cmocka_unit_test(damaged_counters_never_turn_negative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
