/* SPDX-License-Identifier: Apache-2.0
 *
 * Epochs of one-sided communication among groups in made-up dumps: who belongs to whom, and waits with answers worked
 * out by hand. Must not live here: what the library records of them (test/e2e/test_onesided.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "analyzer/match/match.h"
#include "analyzer/replay/replay.h"
#include "analyzer/stragglers/comparison_groups.h"
#include "analyzer/waits/waits.h"
#include "test/unit/job_builder.h"

enum { POST = 440, START = 438, COMPLETE = 439, WAIT = 441, TEST = 442 };

static void take_epoch(void *state, const struct match_message *need) {
    waits_add_epoch(state, need);
}

static uint32_t window_of(struct dump_builder *builder, unsigned rank, unsigned ranks) {
    static const struct {
        uint16_t id;
        uint8_t epoch;
        const char *name;
    } calls[] = {{POST, EPOCH_POST, "MPI_Win_post"},
                 {START, EPOCH_START, "MPI_Win_start"},
                 {COMPLETE, EPOCH_COMPLETE, "MPI_Win_complete"},
                 {WAIT, EPOCH_WAIT, "MPI_Win_wait"},
                 {TEST, EPOCH_WAIT, "MPI_Win_test"}};
    struct member_run all = {0, ranks, 1};
    uint32_t window = dump_builder_communicator(builder, 0x77, "", (int32_t)rank, &all, 1);
    dump_builder_definition(builder, window)->kind = COMMUNICATOR_WINDOW;
    struct call_name *names = dump_builder_contents(builder, SECTION_CALLS, 0);
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        dump_builder_call(builder, calls[i].id, calls[i].id == TEST ? CLASS_TEST : CLASS_RMA_SYNC, FLOW_NONE,
                          BUSBW_NONE, 0, calls[i].name);
        for (unsigned at = 0; at < 64; at++)
            if (names[at].id == calls[i].id)
                names[at].epoch = calls[i].epoch;
    }
    return window;
}

static void add_call(struct dump_builder *builder, uint16_t call, uint32_t window, uint64_t enter, uint64_t leave) {
    struct record *record = dump_builder_plain(builder, 0, call, enter, leave);
    record->comm = window;
    record->flags = FLAG_UNMATCHED;
}

/* Post or Start with `count` partners, each for the `ordinal`th time. */
static void begin(struct dump_builder *builder, uint16_t call, uint32_t window, const int32_t *partners, unsigned count,
                  uint32_t ordinal, uint64_t enter, uint64_t leave) {
    add_call(builder, call, window, enter, leave);
    for (unsigned i = 0; i < count; i++) {
        struct record *record = dump_builder_plain(builder, 0, call, enter, leave);
        record->kind = RECORD_PARTNER;
        record->comm = window;
        record->peer = partners[i];
        record->seq = ordinal;
        record->tag = (int32_t)i;
        record->op = count;
        record->flags = call == POST ? FLAG_SEND : FLAG_RECV;
    }
}

/* The sums of one worker, which those of several equal. */
static void analyse(struct hand_job *job, struct waits *waits) {
    static struct waits more[4];
    const struct match_sink sink = {.epoch = take_epoch};
    struct match_totals totals;
    void *states[4] = {&more[0], &more[1], &more[2], &more[3]};
    hand_job_open(job, job->ranks);
    for (unsigned w = 0; w < 4; w++)
        assert_true(waits_init(&more[w], &job->clock, &job->directory));
    assert_true(match_run(&job->clock, &job->directory, &sink, states, 4, &totals));
    assert_int_equal(totals.halves + totals.halves_alone + totals.halves_unmatchable, 0);
    for (unsigned w = 0; w < 4; w++)
        waits_finish(&more[w]);
    for (unsigned w = 1; w < 4; w++)
        waits_merge(&more[0], &more[w]);
    assert_true(waits_init(waits, &job->clock, &job->directory));
    assert_true(match_run(&job->clock, &job->directory, &sink, (void *[]){waits}, 1, &totals));
    waits_finish(waits);
    assert_memory_equal(more[0].ranks, waits->ranks, job->directory.dump_count * sizeof *waits->ranks);
    for (unsigned w = 0; w < 4; w++)
        waits_free(&more[w]);
}

static void done(struct hand_job *job, struct waits *waits) {
    waits_free(waits);
    hand_job_free(job);
}

#define assert_state(RANK, STATE, NS) assert_int_equal(waits.ranks[RANK].states_ns[STATE], NS)

/* Rank 2 writes to 0 and 1, who let it in at 3000 and 5000; it starts at 1000, completes at 7000, they wait from 4000
 * and 6500 on. */
static void make_two_targets(struct hand_job *job, uint64_t started, uint64_t complete, uint64_t completed) {
    static const int32_t origin[] = {2}, targets[] = {0, 1};
    static const uint64_t post[] = {3000, 5000}, wait[] = {4000, 6500};
    hand_job_make(job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        uint32_t window = window_of(job->builders[r], r, 3);
        begin(job->builders[r], POST, window, origin, 1, 0, post[r], post[r] + 10);
        add_call(job->builders[r], WAIT, window, wait[r], completed + 100);
    }
    uint32_t window = window_of(job->builders[2], 2, 3);
    begin(job->builders[2], START, window, targets, 2, 0, 1000, started);
    add_call(job->builders[2], COMPLETE, window, complete, completed);
}

static void start_waits_for_the_last_post_and_wait_for_the_last_complete(void **state) {
    (void)state;
    struct hand_job job;
    struct waits waits;
    make_two_targets(&job, 5100, 7000, 7100);
    analyse(&job, &waits);
    assert_state(2, WAIT_LATE_POST, 4000);
    assert_state(0, WAIT_EARLY_WAIT, 3000);
    assert_state(1, WAIT_EARLY_WAIT, 500);
    assert_int_equal(waits.ranks[1].waited_for_ns, 4000);
    assert_int_equal(waits.ranks[1].imposed_ns, 2000); /* ahead of what rank 0 would have made it wait */
    assert_int_equal(waits.ranks[2].waited_for_ns, 3500);
    assert_int_equal(waits.ranks[2].wait_ns, 4000);
    done(&job, &waits);
}

/* A library may let Start pass: then Complete is where the origin waits, and is all that it waited. */
static void a_start_that_lets_pass_waited_for_nobody(void **state) {
    (void)state;
    struct hand_job job;
    struct waits waits;
    make_two_targets(&job, 1010, 2000, 5200);
    analyse(&job, &waits);
    assert_state(2, WAIT_LATE_POST, 3000);
    assert_int_equal(waits.ranks[2].wait_ns, 3000);
    assert_state(0, WAIT_EARLY_WAIT, 0); /* Complete came before */
    done(&job, &waits);
    make_two_targets(&job, 1010, 2000, 2100); /* what was put is on its way: nobody waited */
    analyse(&job, &waits);
    assert_int_equal(waits.ranks[2].wait_ns, 0);
    done(&job, &waits);
}

/* Rank 1 writes to 0, which asks from 3000 on, at first in vain, and has it at 8100; of that it works so long. */
static void ask(struct hand_job *job, uint64_t worked) {
    static const int32_t origin[] = {1}, target[] = {0};
    hand_job_make(job, 2, (struct dump_plan){0});
    uint32_t window = window_of(job->builders[0], 0, 2);
    begin(job->builders[0], POST, window, origin, 1, 0, 1000, 1010);
    struct record *polls = dump_builder_plain(job->builders[0], 0, TEST, 3000, 8000);
    polls->kind = RECORD_POLL;
    polls->comm = window;
    polls->seq = (uint32_t)worked;
    add_call(job->builders[0], TEST, window, 8050, 8100);
    window = window_of(job->builders[1], 1, 2);
    begin(job->builders[1], START, window, target, 1, 0, 2000, 2010);
    add_call(job->builders[1], COMPLETE, window, 7000, 7100);
}

/* Test ends an epoch as Wait does, and asking is waiting, but for the work in between. */
static void who_asks_waits_since_it_first_asked_in_vain(void **state) {
    (void)state;
    for (uint64_t worked = 0; worked <= 1000; worked += 1000) {
        struct hand_job job;
        struct waits waits;
        ask(&job, worked);
        analyse(&job, &waits);
        assert_state(0, WAIT_EARLY_WAIT, 4000 - worked);
        assert_int_equal(waits.ranks[1].waited_for_ns, 4000 - worked);
        done(&job, &waits);
    }
}

/* Where a partner's record is lost it is not known whom Complete and Wait were about; Start still tells its own. */
static void of_a_group_that_is_not_whole_the_end_is_unknown(void **state) {
    (void)state;
    struct hand_job job;
    struct waits waits;
    make_two_targets(&job, 5100, 7000, 7100);
    struct record *records = dump_builder_contents(job.builders[2], SECTION_RING, 0);
    assert_int_equal(records[2].kind, RECORD_PARTNER);
    records[2].kind = RECORD_MARK;
    analyse(&job, &waits);
    assert_state(0, WAIT_EARLY_WAIT, 0);
    assert_state(1, WAIT_EARLY_WAIT, 0);
    assert_state(2, WAIT_LATE_POST, 2000);
    done(&job, &waits);
}

/* Two epochs: ordinals tell which Post is of which Start, though the first Start's records are lost. */
static void epochs_are_told_by_their_ordinals(void **state) {
    (void)state;
    static const int32_t one[] = {1}, zero[] = {0};
    struct hand_job job;
    struct waits waits;
    hand_job_make(&job, 2, (struct dump_plan){0});
    uint32_t target = window_of(job.builders[0], 0, 2), origin = window_of(job.builders[1], 1, 2);
    for (uint32_t k = 0; k < 2; k++) {
        uint64_t at = 10000 * (k + 1);
        begin(job.builders[0], POST, target, one, 1, k, at + 3000, at + 3010);
        add_call(job.builders[0], WAIT, target, at + 3500, at + 5000);
        if (k == 0)
            continue;
        begin(job.builders[1], START, origin, zero, 1, k, at + 1000, at + 3100);
        add_call(job.builders[1], COMPLETE, origin, at + 4000, at + 4900);
    }
    analyse(&job, &waits);
    assert_state(1, WAIT_LATE_POST, 2000);
    assert_state(0, WAIT_EARLY_WAIT, 500);
    done(&job, &waits);
}

/* A Complete behind records that are missing ends an epoch that nobody saw begin, not the last one that was seen. */
static void nothing_is_known_of_an_epoch_over_a_hole(void **state) {
    (void)state;
    static const int32_t one[] = {1}, zero[] = {0};
    for (unsigned hole = 0; hole < 2; hole++) {
        struct hand_job job;
        struct waits waits;
        hand_job_make(&job, 2, (struct dump_plan){0});
        uint32_t target = window_of(job.builders[0], 0, 2), origin = window_of(job.builders[1], 1, 2);
        begin(job.builders[0], POST, target, one, 1, 0, 3000, 3010);
        add_call(job.builders[0], WAIT, target, 3500, 9000);
        begin(job.builders[1], START, origin, zero, 1, 0, 1000, 3100);
        for (unsigned i = 0; i < 3; i++) /* of the first Complete and the second Start, where they are lost */
            dump_builder_plain(job.builders[1], 0, BUILDER_WAIT, 4000 + i, 4001 + i);
        add_call(job.builders[1], COMPLETE, origin, 7000, 8900);
        struct record *records = dump_builder_contents(job.builders[1], SECTION_RING, 0);
        for (unsigned i = 2; i < 5 && hole; i++)
            records[i].commit = 0;
        analyse(&job, &waits);
        assert_state(0, WAIT_EARLY_WAIT, hole ? 0 : 3500);
        done(&job, &waits);
    }
}

static void take_node(void *state, const struct match_record *record) {
    replay_add_record(state, 0, record);
}

static void take_need(void *state, const struct match_message *need) {
    replay_add_epoch(state, 0, need);
}

static struct replay replay_of(struct hand_job *job) {
    const struct match_sink sink = {.record = take_node, .epoch = take_need};
    struct comparison_groups groups;
    struct match_totals totals;
    struct replay replay;
    hand_job_open(job, job->ranks);
    assert_true(comparison_groups_choose(&groups, &job->directory));
    struct replay_build *build = replay_begin(&job->clock, &job->directory, NULL, groups.cuts, 1);
    assert_non_null(build);
    assert_true(match_run(&job->clock, &job->directory, &sink, (void *[]){build}, 1, &totals));
    assert_true(replay_finish(&replay, build));
    assert_int_equal(replay_run(&replay, replay.work_ns, replay.tail_ns), replay.wall_ns);
    comparison_groups_free(&groups);
    return replay;
}

/* Epochs in which rank 0 lets rank 1 in and is away from 10 to 500; rank 1 completes at 100, which takes that long. */
static void make_away_target(struct hand_job *job, const uint64_t *takes, unsigned epochs) {
    static const int32_t origin[] = {1}, target[] = {0};
    hand_job_make(job, 2, (struct dump_plan){0});
    uint32_t window[] = {window_of(job->builders[0], 0, 2), window_of(job->builders[1], 1, 2)};
    for (unsigned i = 0; i < epochs; i++) {
        uint64_t at = 1000 * (i + 1);
        begin(job->builders[0], POST, window[0], origin, 1, i, at, at + 10);
        add_call(job->builders[0], WAIT, window[0], at + 500, at + 520);
        begin(job->builders[1], START, window[1], target, 1, i, at + 20, at + 30);
        add_call(job->builders[1], COMPLETE, window[1], at + 100, at + 100 + takes[i]);
    }
}

enum { NODES_OF_EPOCH = 2 }; /* of each rank */

/* Without hardware that does it, the target's library has to take what was put: in whatever call. */
static void a_complete_may_need_its_target_back(void **state) {
    (void)state;
    struct hand_job job;
    make_away_target(&job, (uint64_t[]){410}, 1);
    struct replay replay = replay_of(&job);
    size_t wait = replay.first[0] + 1, complete = replay.first[1] + 1;
    assert_int_equal(replay.nodes[complete].leave, 1510);
    assert_int_equal(replay.tail_ns[complete], 10); /* since rank 0 came back, at 1500 */
    replay.work_ns[wait] -= 300;
    assert_int_equal(replay_run(&replay, replay.work_ns, replay.tail_ns), replay.wall_ns - 300);
    replay_free(&replay);
    hand_job_free(&job);
}

/* Where as many do not wait for it, it was something else. */
static void completes_that_end_without_their_target_need_nobody(void **state) {
    (void)state;
    for (unsigned epochs = 2; epochs <= 3; epochs++) {
        struct hand_job job;
        make_away_target(&job, (uint64_t[]){10, 410, 410}, epochs);
        struct replay replay = replay_of(&job);
        size_t complete = replay.first[1] + 1 + NODES_OF_EPOCH;
        assert_int_equal(replay.tail_ns[complete], epochs == 2 ? 410 : 10);
        assert_int_equal(replay.tail_ns[complete - NODES_OF_EPOCH], 10); /* of the first one: all its own */
        replay_free(&replay);
        hand_job_free(&job);
    }
}

/* Who is in a call takes what comes. */
static void a_target_in_the_library_is_not_away(void **state) {
    (void)state;
    static const int32_t origin[] = {1}, target[] = {0};
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    uint32_t window[] = {window_of(job.builders[0], 0, 2), window_of(job.builders[1], 1, 2)};
    begin(job.builders[0], POST, window[0], origin, 1, 0, 1000, 1010);
    dump_builder_plain(job.builders[0], 0, BUILDER_RECV, 1050, 1490);
    add_call(job.builders[0], WAIT, window[0], 1500, 1520);
    begin(job.builders[1], START, window[1], target, 1, 0, 1020, 1030);
    add_call(job.builders[1], COMPLETE, window[1], 1100, 1510);
    struct replay replay = replay_of(&job);
    assert_int_equal(replay.tail_ns[replay.first[1] + 1], 410);
    replay_free(&replay);
    hand_job_free(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_waits_for_the_last_post_and_wait_for_the_last_complete),
        cmocka_unit_test(who_asks_waits_since_it_first_asked_in_vain),
        cmocka_unit_test(a_start_that_lets_pass_waited_for_nobody),
        cmocka_unit_test(of_a_group_that_is_not_whole_the_end_is_unknown),
        cmocka_unit_test(epochs_are_told_by_their_ordinals),
        cmocka_unit_test(nothing_is_known_of_an_epoch_over_a_hole),
        cmocka_unit_test(a_complete_may_need_its_target_back),
        cmocka_unit_test(completes_that_end_without_their_target_need_nobody),
        cmocka_unit_test(a_target_in_the_library_is_not_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
