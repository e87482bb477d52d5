/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs that sit in a replay of a CUDA graph which another rank has not launched.
 * Lives here: who is named, who is not, from when on.
 * Must not live here: what launches come to in a dump (test_gpu_captures.c), jobs that run (test/e2e).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/diagnose/standing.h"
#include "test/unit/played_diagnosis.h"

enum { RANKS = 3, LATE = 1, LAUNCHES = 42 };

#define MS    INT64_C(1000000)
#define START (1000 * MS)

static struct played_diagnosis play;
static struct capture_row *rows[RANKS];
static struct capture_message *messages[RANKS];
static struct progress *progress[RANKS];

/* All ranks have launched what they captured, and it has ended. */
static void make(void) {
    play = (struct played_diagnosis){0};
    for (int32_t r = 0; r < RANKS; r++) {
        const struct dump_plan plan = {
            .rank = r, .world_size = RANKS, .lanes = 2, .devices = 1, .captures = 4, .capture_messages = 8};
        struct dump_builder *builder = played_rank(&play, &plan);
        progress[r] = dump_builder_progress(builder, 0);
        rows[r] = dump_builder_contents(builder, SECTION_CAPTURES, 0);
        messages[r] = dump_builder_contents(builder, SECTION_CAPTURE_MESSAGES, 0);
        *rows[r] = (struct capture_row){.used = 1,
                                        .collectives = 3,
                                        .call = BUILDER_NCCL_ALL_REDUCE,
                                        .launched = LAUNCHES - 1,
                                        .launched_ns = START,
                                        .newest = LAUNCHES - 1,
                                        .ended = LAUNCHES - 1,
                                        .longest_ns = 400 * MS,
                                        .second_ns = 200 * MS};
    }
}

/* ... and it launches it once more, which does not end. */
static void launch(unsigned r) {
    rows[r]->launched++;
    rows[r]->newest++;
    rows[r]->launched_ns += 100 * MS;
}

static void launch_but_late(void) {
    for (unsigned r = 0; r < RANKS; r++)
        if (r != LATE)
            launch(r);
}

/* Each sends to the next one and receives from the one before, instead of collectives. */
static void pass_on(void) {
    for (int32_t r = 0; r < RANKS; r++) {
        rows[r]->collectives = 0;
        rows[r]->call = BUILDER_NCCL_SEND;
        rows[r]->message_count = 2;
        messages[r][0] = (struct capture_message){
            .peer = (r + 1) % RANKS, .count = 2, .call = BUILDER_NCCL_SEND, .flags = FLAG_SEND};
        messages[r][1] = (struct capture_message){
            .peer = (r + RANKS - 1) % RANKS, .count = 2, .call = BUILDER_NCCL_RECV, .flags = FLAG_RECV};
    }
}

/* As the job was seen to stand so long after the last launch, or to have ended then. */
static enum verdict judge(enum process_state state, int64_t after_ns) {
    enum verdict verdict = played_judge(&play, state, START + 100 * MS + after_ns);
    for (unsigned r = 0; r < RANKS; r++)
        assert_true(play.dumps[r]->capture_count > 0);
    return verdict;
}

static void leave(void) {
    played_leave(&play);
}

static void assert_late_is_named(void) {
    assert_int_equal(play.diagnosis.culprit_count, 1);
    assert_int_equal(play.diagnosis.culprits[0].party, LATE);
    assert_int_equal(play.diagnosis.culprits[0].state, CULPRIT_IN_USER_CODE);
}

static bool is_said(const char *words) {
    for (size_t i = 0; i < play.text.sentence_count; i++)
        if (strstr(play.text.sentences[i], words))
            return true;
    return false;
}

static const enum process_state states[] = {PROCESS_RUNS, PROCESS_GONE};

static void nobody_is_named(void) {
    for (unsigned i = 0; i < 2; i++) {
        assert_int_not_equal(judge(states[i], 20000 * MS), VERDICT_HANG);
        assert_int_equal(play.diagnosis.wait_for_graph.count, 0);
        assert_int_equal(play.diagnosis.culprit_count, 0);
        diagnosis_text_free(&play.text);
        diagnosis_free(&play.diagnosis);
        job_free(&play.job);
        for (unsigned r = 0; r < RANKS; r++)
            dump_close(play.dumps[r]);
    }
    for (unsigned r = 0; r < RANKS; r++)
        dump_builder_free(play.builders[r]);
}

static void who_has_not_launched_its_collectives_is_named(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        make();
        launch_but_late();
        assert_int_equal(judge(states[i], 5000 * MS), VERDICT_HANG);
        assert_late_is_named();
        assert_true(
            is_said("ncclAllReduce #123 in CUDA graphs on MPI_COMM_WORLD: ranks 0, 2 wait; rank 1 never launched "
                    "it."));
        assert_true(
            is_said("having launched CUDA graphs with ncclAllReduce on MPI_COMM_WORLD 41 times, rank 0 42 times"));
        leave();
    }
}

static void who_has_not_launched_its_messages_is_named(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        make();
        pass_on();
        launch_but_late();
        assert_int_equal(judge(states[i], 5000 * MS), VERDICT_HANG);
        assert_late_is_named();
        assert_true(is_said("rank 0 in ncclSend(destination 1) in a CUDA graph on MPI_COMM_WORLD, on its GPU waits for "
                            "rank 1."));
        assert_true(is_said("rank 2 in ncclRecv(source 1) in a CUDA graph on MPI_COMM_WORLD, on its GPU waits for rank "
                            "1."));
        leave();
    }
}

/* Graphs that divide the same collectives in another way. */
static void the_same_may_be_divided_otherwise(void **state) {
    (void)state;
    make();
    launch_but_late();
    rows[LATE]->collectives = 1;
    rows[LATE]->launched = rows[LATE]->newest = rows[LATE]->ended = 3 * (LAUNCHES - 1) + 1;
    assert_int_equal(judge(PROCESS_GONE, 5000 * MS), VERDICT_HANG);
    assert_late_is_named();
    leave();
    make();
    launch_but_late();
    rows[LATE]->collectives = 1;
    rows[LATE]->launched = rows[LATE]->newest = rows[LATE]->ended = 3 * LAUNCHES;
    nobody_is_named();
}

static void nobody_is_named_where_all_have_launched_as_much(void **state) {
    (void)state;
    make();
    for (unsigned r = 0; r < RANKS; r++)
        launch(r);
    nobody_is_named();
    make();
    nobody_is_named();
}

/* What the others wait for may be before that. */
static void who_is_in_a_replay_itself_is_not_named(void **state) {
    (void)state;
    for (unsigned messages = 0; messages < 2; messages++) {
        make();
        if (messages)
            pass_on();
        for (unsigned r = 0; r < RANKS; r++)
            launch(r);
        launch_but_late();
        nobody_is_named();
    }
}

static void whose_counts_are_not_complete_is_not_named(void **state) {
    (void)state;
    make();
    launch_but_late();
    dump_builder_header(play.builders[LATE])->captures_untold = 1;
    nobody_is_named();
    make();
    launch_but_late();
    dump_builder_header(play.builders[LATE])->captured_unfollowed = 1;
    nobody_is_named();
    make();
    launch_but_late();
    rows[LATE]->ended--;
    rows[LATE]->unfollowed = rows[LATE]->newest;
    nobody_is_named();
    make();
    launch_but_late();
    for (unsigned r = 0; r < RANKS; r++) /* nor does anything tell that others wait */
        rows[r]->unfollowed = rows[r]->newest;
    nobody_is_named();
    make();
    launch_but_late();
    rows[LATE]->used = 0;
    nobody_is_named();
}

/* It may have called outside of a graph what the others have in theirs. */
static void who_has_called_more_of_itself_is_not_named(void **state) {
    (void)state;
    make();
    launch_but_late();
    progress[LATE]->enqueued = progress[LATE]->completed = progress[LATE]->started = 1;
    progress[LATE]->last_call = BUILDER_NCCL_ALL_REDUCE;
    nobody_is_named();
    make();
    pass_on();
    launch_but_late();
    struct peer_row *row = dump_builder_peer(play.builders[LATE], 0);
    row->call = BUILDER_NCCL_RECV;
    row->direction = FLAG_RECV;
    row->peer = 0;
    row->count = 1;
    row = dump_builder_peer(play.builders[LATE], 0);
    row->call = BUILDER_NCCL_SEND;
    row->direction = FLAG_SEND;
    row->peer = 2;
    row->count = 1;
    nobody_is_named();
}

static void stands_after(int64_t second_ns, int64_t after_ns, bool named) {
    for (unsigned i = 0; i < (second_ns > 0 ? 2 : 1); i++) { /* without history the end of a job is told with a doubt */
        make();
        launch_but_late();
        for (unsigned r = 0; r < RANKS; r++) {
            rows[r]->second_ns = (uint64_t)second_ns;
            rows[r]->longest_ns = 60000 * (uint64_t)MS;
        }
        enum verdict verdict = judge(states[i], after_ns);
        assert_int_equal(verdict, named ? VERDICT_HANG : VERDICT_OK);
        assert_int_equal(play.diagnosis.culprit_count, named);
        leave();
    }
}

/* As of other waits: three times what is usual, and 100 ms; without history 10 s. */
static void a_replay_is_long_beyond_three_times_the_usual(void **state) {
    (void)state;
    stands_after(1000 * MS, 2900 * MS, false);
    stands_after(1000 * MS, 3100 * MS, true);
    stands_after(MS, 90 * MS, false);
    stands_after(MS, 110 * MS, true);
    stands_after(0, 9900 * MS, false);
    stands_after(0, 10100 * MS, true);
}

static void damaged_rows_are_left_out(void **state) {
    (void)state;
    enum { SOUND = 8 };
    for (unsigned damage = 0; damage <= SOUND; damage++) {
        size_t bytes;
        make();
        pass_on();
        struct capture_row *row = rows[0];
        row->used = damage == 0 ? 2 : 1;
        row->comm = damage == 1 ? 77 : 0;
        row->call = damage == 2 ? 9999 : BUILDER_NCCL_SEND;
        row->ended += damage == 3;
        row->launched += damage == 4;
        row->first_message = damage == 5 ? 7 : 0;
        row->second_ns = damage == 6 ? row->longest_ns + 1 : 0;
        messages[0][1].flags = damage == 7 ? FLAG_SEND | FLAG_RECV : FLAG_RECV;
        const void *data = dump_builder_data(play.builders[0], &bytes);
        struct dump *dump = dump_open_buffer("made", data, bytes);
        assert_int_equal(dump->capture_count, damage == SOUND ? 4 : 0);
        dump_close(dump);
        for (unsigned r = 0; r < RANKS; r++)
            dump_builder_free(play.builders[r]);
    }
}

static void a_process_that_only_launches_graphs_comes_on(void **state) {
    (void)state;
    size_t bytes;
    make();
    const void *data = dump_builder_data(play.builders[0], &bytes);
    struct dump *dump = dump_open_buffer("made", data, bytes);
    uint64_t before = dump_look(dump);
    rows[0]->launched++;
    assert_int_not_equal(dump_look(dump), before);
    dump_close(dump);
    for (unsigned r = 0; r < RANKS; r++)
        dump_builder_free(play.builders[r]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_not_launched_its_collectives_is_named),
        cmocka_unit_test(who_has_not_launched_its_messages_is_named),
        cmocka_unit_test(the_same_may_be_divided_otherwise),
        cmocka_unit_test(nobody_is_named_where_all_have_launched_as_much),
        cmocka_unit_test(who_is_in_a_replay_itself_is_not_named),
        cmocka_unit_test(whose_counts_are_not_complete_is_not_named),
        cmocka_unit_test(who_has_called_more_of_itself_is_not_named),
        cmocka_unit_test(a_replay_is_long_beyond_three_times_the_usual),
        cmocka_unit_test(damaged_rows_are_left_out),
        cmocka_unit_test(a_process_that_only_launches_graphs_comes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
