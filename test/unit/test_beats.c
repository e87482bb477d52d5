/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows for a job that was killed from who was alive when, as its own processes noted it.
 * Lives here: made-up rows. Must not live here: noting them (test_heartbeat.c), real jobs (test/e2e/test_heartbeat.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/findings/diagnosis_text.h"
#include "test/support/dump_builder.h"

enum { RANKS = 3, HUNG_AT = 1000 /* ms */, CALL_MS = 20, ROWS = 8 };
#define MS UINT64_C(1000000)

/* Ranks 0 and 1 wait since HUNG_AT in an Allreduce for rank 2, which is elsewhere. Such calls used to take CALL_MS. */
struct scene {
    struct dump_builder *builders[RANKS];
    struct dump *dumps[RANKS];
    enum process_state states[RANKS];
    struct job job;
    struct diagnosis diagnosis;
    struct diagnosis_text text;
};

static void make(struct scene *scene) {
    *scene = (struct scene){.states = {PROCESS_GONE, PROCESS_GONE, PROCESS_GONE}};
    for (unsigned r = 0; r < RANKS; r++) {
        struct dump_builder *builder = scene->builders[r] =
            dump_builder_new(&(struct dump_plan){.rank = (int32_t)r, .world_size = RANKS, .beats = ROWS});
        dump_builder_standard_calls(builder);
        dump_builder_world(builder);
        dump_builder_host(builder, "host0", "the boot", 7);
        dump_builder_anchor(builder, 0, 0, 0, 0);
        struct progress *progress = dump_builder_progress(builder, 0);
        progress->prefix_hash = BUILDER_WORLD_UID;
        progress->enqueued = 11 + (r < 2);
        struct operation_row *row = dump_builder_operation(builder, 0);
        row->call = BUILDER_ALLREDUCE;
        row->source = SOURCE_HOST;
        for (unsigned i = 0; i < 11; i++)
            dump_builder_count(row, 8, CALL_MS * MS);
        dump_builder_header(builder)->activated_ticks = (HUNG_AT - 100) * MS;
        struct in_flight *slot = dump_builder_in_flight(builder);
        slot->comm = COMM_NONE;
        slot->last_leave = HUNG_AT * MS;
        if (r < 2)
            *slot = (struct in_flight){.tid = slot->tid,
                                       .call = BUILDER_ALLREDUCE,
                                       .flags = FLAG_COLLECTIVE,
                                       .peer = PEER_NONE,
                                       .tag = TAG_NONE,
                                       .seq = 11,
                                       .enter = HUNG_AT * MS};
    }
}

/* `writer` notes that the process of `rank` lived so many ms after HUNG_AT, and (0: not) that it had gone then. */
static struct beat_row *note(struct scene *scene, unsigned writer, unsigned rank, unsigned seen_ms, unsigned gone_ms) {
    struct beat_row *row = (struct beat_row *)dump_builder_contents(scene->builders[writer], SECTION_BEATS, 0) + rank;
    *row = (struct beat_row){.dump = rank + 1,
                             .seen_ns = (HUNG_AT + seen_ms) * MS,
                             .gone_ns = gone_ms ? (HUNG_AT + gone_ms) * MS : 0,
                             .pid = dump_builder_header(scene->builders[rank])->pid};
    return row;
}

static const struct diagnosis *judge_with(struct scene *scene, const struct job_end *end) {
    for (unsigned r = 0; r < RANKS; r++) {
        size_t bytes;
        const void *data = dump_builder_data(scene->builders[r], &bytes);
        char name[64];
        snprintf(name, sizeof name, "commtap.testrun.%016x.ct", r + 1);
        assert_non_null(scene->dumps[r] = dump_open_buffer(name, data, bytes));
    }
    bool duplicate[RANKS] = {false};
    const struct dump_set set = {.directory = "made", .dumps = scene->dumps, .count = RANKS, .duplicate = duplicate};
    const struct diagnose_request request = {.states = scene->states, .end = end};
    assert_int_equal(job_select(&scene->job, &set, NULL, NULL), 0);
    assert_true(diagnose(&scene->diagnosis, &scene->job, &request));
    assert_true(diagnosis_text_make(&scene->text, &scene->diagnosis, &request, NULL));
    return &scene->diagnosis;
}

static const struct diagnosis *judge(struct scene *scene) {
    return judge_with(scene, NULL);
}

static bool says(const struct scene *scene, const char *words) {
    for (size_t i = 0; i < scene->text.sentence_count; i++)
        if (strstr(scene->text.sentences[i], words))
            return true;
    return false;
}

static void drop(struct scene *scene) {
    diagnosis_text_free(&scene->text);
    diagnosis_free(&scene->diagnosis);
    job_free(&scene->job);
    for (unsigned r = 0; r < RANKS; r++) {
        dump_close(scene->dumps[r]);
        dump_builder_free(scene->builders[r]);
    }
}

static void expect_blamed(const struct diagnosis *diagnosis, enum verdict verdict, enum standing_kind kind) {
    assert_int_equal(diagnosis->verdict, verdict);
    assert_int_equal(diagnosis->standing.kind, kind);
    assert_int_equal(diagnosis_severity(diagnosis), verdict == VERDICT_HANG ? SEVERITY_WARNING : SEVERITY_ERROR);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 2);
}

/* Of a host that is not seen from here what a living process of it notes holds, and that of a dead one does not. */
static void who_lives_on_another_host_is_told_by_who_beats_there(void **state) {
    (void)state;
    for (int alive = 0; alive < 2; alive++) {
        struct scene scene;
        make(&scene);
        for (unsigned r = 0; r < RANKS; r++)
            scene.states[r] = PROCESS_ELSEWHERE;
        if (alive)
            scene.states[1] = PROCESS_RUNS;
        note(&scene, 1, 0, 5000, 0);
        note(&scene, 1, 1, 5000, 0);
        note(&scene, 1, 2, 1000, 3000);
        const struct diagnosis *diagnosis = judge(&scene);
        assert_int_equal(diagnosis->world.parties[0].process, alive ? PROCESS_RUNS : PROCESS_ELSEWHERE);
        assert_int_equal(diagnosis->world.parties[2].process, alive ? PROCESS_GONE : PROCESS_ELSEWHERE);
        assert_int_equal(diagnosis->verdict, alive ? VERDICT_DEAD_RANK : VERDICT_HANG); /* it stood already */
        assert_int_equal(diagnosis->culprits[0].party, 2);
        assert_int_equal(says(&scene, "None of the processes is seen to live"), !alive);
        drop(&scene);
    }
}

/* A tenth of a second is long where 20 ms are usual. */
static void waits_are_as_old_as_all_are_known_to_have_lived(void **state) {
    (void)state;
    for (unsigned seen_ms = 50; seen_ms <= 200; seen_ms += 150) {
        struct scene scene;
        make(&scene);
        for (unsigned r = 0; r < RANKS; r++)
            note(&scene, 1, r, seen_ms, 0);
        const struct diagnosis *diagnosis = judge(&scene);
        expect_blamed(diagnosis, VERDICT_HANG, seen_ms > 100 ? STANDING_LONG : STANDING_UNTOLD);
        assert_int_equal(diagnosis->standing.age_ns, seen_ms * MS);
        assert_int_equal(says(&scene, "unless it was killed at work"), seen_ms < 100);
        drop(&scene);
    }
}

/* The one that is waited for may have died right after its last sign, in which case it did not hang. */
static void who_is_not_looked_after_may_have_been_gone(void **state) {
    (void)state;
    for (unsigned noted = 2; noted <= RANKS; noted++) {
        struct scene scene;
        make(&scene);
        for (unsigned r = 0; r < noted; r++)
            note(&scene, 0, r, r < 2 ? 5000 : 50, 0);
        expect_blamed(judge(&scene), VERDICT_HANG, STANDING_UNTOLD);
        drop(&scene);
    }
}

/* Both of a node note; one of them ends before the other. */
static void the_last_one_to_look_counts(void **state) {
    (void)state;
    struct scene scene;
    make(&scene);
    for (unsigned r = 0; r < RANKS; r++) {
        note(&scene, 0, r, 60, 0);
        note(&scene, 1, r, 5000, 0);
    }
    expect_blamed(judge(&scene), VERDICT_HANG, STANDING_LONG);
    drop(&scene);
}

static void rows_of_others_are_left_out(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct scene scene;
        make(&scene);
        for (unsigned r = 0; r < RANKS; r++) {
            struct beat_row *row = note(&scene, 0, r, 5000, 0);
            row->pid += way == 0;
            row->dump += way == 1 ? 100 : 0;
        }
        if (way >= 2)
            dump_builder_host(scene.builders[0], "host0", way == 2 ? "another boot" : "the boot", way == 2 ? 7 : 8);
        expect_blamed(judge(&scene), VERDICT_HANG, STANDING_UNTOLD);
        drop(&scene);
    }
}

/* It was missed when nothing stood yet, and the others went on for seconds. */
static void who_is_missed_at_work_is_dead(void **state) {
    (void)state;
    struct scene scene;
    make(&scene);
    note(&scene, 0, 2, 30, 60);
    for (unsigned r = 0; r < 2; r++)
        note(&scene, 0, r, 5000, 0);
    const struct diagnosis *diagnosis = judge(&scene);
    expect_blamed(diagnosis, VERDICT_DEAD_RANK, STANDING_NONE);
    assert_int_equal(diagnosis->culprits[0].state, CULPRIT_DEAD);
    assert_false(says(&scene, "nobody is to blame"));
    drop(&scene);
}

static void who_is_missed_in_a_job_that_stands_is_not_the_cause(void **state) {
    (void)state;
    for (unsigned missed = 0; missed < RANKS; missed++) {
        struct scene scene;
        make(&scene);
        for (unsigned r = 0; r < RANKS; r++)
            note(&scene, 1, r, r == missed ? 2900 : 9000, r == missed ? 3000 : 0);
        const struct diagnosis *diagnosis = judge(&scene);
        expect_blamed(diagnosis, VERDICT_HANG, STANDING_LONG);
        assert_true(diagnosis->stood_before_death);
        assert_int_equal(diagnosis->standing.age_ns, 2900 * MS);
        char words[64];
        snprintf(words, sizeof words, "was that of rank %u: the job stood already", missed);
        assert_true(says(&scene, words));
        drop(&scene);
    }
}

/* Within a second of each other: nothing is older than the last moment of both. That they went before all others did is
 * known where both were missed while somebody lived on. */
static void several_that_go_together(void **state) {
    (void)state;
    static const struct {
        unsigned lived_ms, missed_ms; /* rank 0's, whose end may have been noted, too */
        enum verdict verdict;
    } ends[] = {{560, 0, VERDICT_HANG}, {2060, 0, VERDICT_DEAD_RANK}, {50, 60, VERDICT_DEAD_RANK}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct scene scene;
        make(&scene);
        note(&scene, 1, 2, 30, 60);
        note(&scene, 1, 0, ends[i].lived_ms, ends[i].missed_ms);
        note(&scene, 1, 1, 9000, 0);
        expect_blamed(judge(&scene), ends[i].verdict,
                      ends[i].verdict == VERDICT_HANG ? STANDING_UNTOLD : STANDING_NONE);
        drop(&scene);
    }
}

/* The end of one that said so itself is known better than that it was missed. */
static void an_exit_within_the_same_beat_comes_first(void **state) {
    (void)state;
    struct scene scene;
    make(&scene);
    struct dump_header *header = dump_builder_header(scene.builders[2]);
    header->mpi_family = 1;
    header->state |= STATE_EXITED;
    header->exited_ticks = (HUNG_AT + 40) * MS;
    note(&scene, 1, 0, 30, 60);
    note(&scene, 1, 1, 9000, 0);
    note(&scene, 1, 2, 30, 60);
    expect_blamed(judge(&scene), VERDICT_DEAD_RANK, STANDING_NONE);
    drop(&scene);
}

/* Of processes that can still be asked nothing is taken from what was noted. */
static void a_job_that_runs_is_asked_itself(void **state) {
    (void)state;
    struct scene scene;
    make(&scene);
    scene.states[0] = scene.states[1] = PROCESS_RUNS;
    note(&scene, 0, 2, 2900, 3000);
    for (unsigned r = 0; r < 2; r++)
        note(&scene, 0, r, 9000, 0);
    expect_blamed(judge(&scene), VERDICT_DEAD_RANK, STANDING_NONE);
    assert_false(scene.diagnosis.first_death.known);
    drop(&scene);
}

/* A job that is stopped as a whole notes nothing any more: ended so, its waits are as old as they were then. Where a
 * process has exited it may be the one that took the notes. */
static void a_job_that_missed_three_beats_was_stopped(void **state) {
    (void)state;
    for (unsigned beats = 2; beats <= 5; beats += beats < 4 ? 2 : 1) {
        bool hung = beats < 3 || beats == 5;
        struct scene scene;
        struct job_end end = {.monotonic_ns = (HUNG_AT + 10 + 2000 * beats) * MS, .boot_id = "the boot"};
        make(&scene);
        for (unsigned r = 0; r < RANKS; r++)
            note(&scene, 1, r, 10, 0);
        if (beats == 5)
            dump_builder_header(scene.builders[0])->state |= STATE_EXITED;
        const struct diagnosis *diagnosis = judge_with(&scene, &end);
        assert_int_equal(diagnosis->verdict == VERDICT_OK, !hung);
        assert_int_equal(diagnosis->standing.kind, hung ? STANDING_LONG : STANDING_BRIEF);
        drop(&scene);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_missed_three_beats_was_stopped),
        cmocka_unit_test(who_lives_on_another_host_is_told_by_who_beats_there),
        cmocka_unit_test(waits_are_as_old_as_all_are_known_to_have_lived),
        cmocka_unit_test(who_is_not_looked_after_may_have_been_gone),
        cmocka_unit_test(the_last_one_to_look_counts),
        cmocka_unit_test(rows_of_others_are_left_out),
        cmocka_unit_test(who_is_missed_at_work_is_dead),
        cmocka_unit_test(who_is_missed_in_a_job_that_stands_is_not_the_cause),
        cmocka_unit_test(several_that_go_together),
        cmocka_unit_test(an_exit_within_the_same_beat_comes_first),
        cmocka_unit_test(a_job_that_runs_is_asked_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
