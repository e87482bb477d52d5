/* SPDX-License-Identifier: Apache-2.0
 *
 * Hung epochs of one-sided communication in made-up dumps: exactly who is waited for, by what each rank has on record.
 * Must not live here: epochs of jobs that go on (test_epochs.c), real jobs (test/e2e/test_diagnose.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/diagnose/diagnose.h"
#include "analyzer/wait_for_graph/ranks.h"
#include "test/support/dump_builder.h"

enum { RANKS = 5, POST = 440, START = 438, COMPLETE = 439, WAIT = 441, TEST = 442, WINDOW = 1, NOW = 9000000 };

static const struct {
    uint16_t id;
    uint8_t call_class, epoch;
    const char *name;
} calls[] = {{POST, CLASS_RMA_SYNC, EPOCH_POST, "MPI_Win_post"},
             {START, CLASS_RMA_SYNC, EPOCH_START, "MPI_Win_start"},
             {COMPLETE, CLASS_RMA_SYNC, EPOCH_COMPLETE, "MPI_Win_complete"},
             {WAIT, CLASS_RMA_SYNC, EPOCH_WAIT, "MPI_Win_wait"},
             {TEST, CLASS_TEST, EPOCH_WAIT, "MPI_Win_test"}};

struct scene {
    struct dump_builder *builders[RANKS];
    struct dump *dumps[RANKS];
    struct in_flight *slots[RANKS];
    struct job job;
    struct diagnosis diagnosis;
};

static void make(struct scene *scene) {
    static const struct member_run all = {0, RANKS, 1};
    memset(scene, 0, sizeof *scene);
    for (unsigned r = 0; r < RANKS; r++) {
        const struct dump_plan plan = {.rank = (int32_t)r, .world_size = RANKS, .ring_records = 16};
        struct dump_builder *builder = scene->builders[r] = dump_builder_new(&plan);
        dump_builder_standard_calls(builder);
        dump_builder_world(builder);
        assert_int_equal(dump_builder_communicator(builder, 0x77, "", (int32_t)r, &all, 1), WINDOW);
        dump_builder_definition(builder, WINDOW)->kind = COMMUNICATOR_WINDOW;
        struct call_name *names = dump_builder_contents(builder, SECTION_CALLS, 0);
        for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
            dump_builder_call(builder, calls[i].id, (enum call_class)calls[i].call_class, FLOW_NONE, BUSBW_NONE, 0,
                              calls[i].name);
            for (unsigned at = 0; at < 64; at++)
                if (names[at].id == calls[i].id)
                    names[at].epoch = calls[i].epoch;
        }
        scene->slots[r] = dump_builder_in_flight(builder);
        scene->slots[r]->comm = COMM_NONE;
    }
}

static void add(struct scene *scene, unsigned rank, uint16_t call, enum record_kind kind, uint64_t enter) {
    struct record *record = dump_builder_plain(scene->builders[rank], 0, call, enter, enter + 10);
    record->comm = WINDOW;
    record->kind = kind;
    record->flags = FLAG_UNMATCHED;
    record->seq = kind == RECORD_POLL ? 0 : SEQ_NONE; /* of polls: their own work */
}

/* What a call that names partners leaves beside its record, each for the `ordinal`th time. */
static void name_partners(struct scene *scene, unsigned rank, uint16_t call, enum record_kind kind, uint64_t enter,
                          uint32_t ordinal, unsigned count, const int32_t *partners) {
    for (unsigned i = 0; i < count; i++) {
        struct record *record = dump_builder_plain(scene->builders[rank], 0, call, enter, enter);
        record->kind = (uint8_t)kind;
        record->comm = WINDOW;
        record->peer = partners[i];
        record->seq = ordinal;
        record->tag = (int32_t)i;
        record->op = count;
        record->flags = call == POST ? FLAG_SEND : FLAG_RECV;
    }
}

/* So many calls in the tables, whatever the ring still holds. */
static void count(struct scene *scene, unsigned rank, uint16_t call, uint64_t calls_made) {
    struct operation_row *row = dump_builder_operation(scene->builders[rank], 0);
    row->call = call;
    row->comm_epoch = WINDOW;
    row->count = calls_made;
    row->time_min = 0;
}

static void hang_in(struct scene *scene, unsigned rank, uint16_t call) {
    struct in_flight *slot = scene->slots[rank];
    *slot = (struct in_flight){
        .tid = slot->tid, .call = call, .comm = WINDOW, .peer = PEER_NONE, .tag = TAG_NONE, .seq = SEQ_NONE};
    slot->enter = NOW;
}

/* Begins and hangs in Start, which names those partners. */
static void hang_in_start(struct scene *scene, unsigned rank, uint32_t ordinal, unsigned partners,
                          const int32_t *list) {
    name_partners(scene, rank, START, RECORD_AWAITED, NOW, ordinal, partners, list);
    hang_in(scene, rank, START);
}

/* Posted or started long ago, and hangs in what ends that. */
static void hang_in_end(struct scene *scene, unsigned rank, uint16_t call, uint32_t ordinal, unsigned partners,
                        const int32_t *list) {
    uint16_t begin = call == COMPLETE ? START : POST;
    add(scene, rank, begin, RECORD_CALL, 1000);
    name_partners(scene, rank, begin, RECORD_PARTNER, 1000, ordinal, partners, list);
    hang_in(scene, rank, call);
}

static void posted(struct scene *scene, unsigned rank, int32_t partner, uint32_t ordinal) {
    add(scene, rank, POST, RECORD_CALL, 2000);
    name_partners(scene, rank, POST, RECORD_PARTNER, 2000, ordinal, 1, &partner);
    count(scene, rank, POST, ordinal + 1);
}

static void started(struct scene *scene, unsigned rank, int32_t partner, uint32_t ordinal, bool completed) {
    add(scene, rank, START, RECORD_CALL, 2000);
    name_partners(scene, rank, START, RECORD_PARTNER, 2000, ordinal, 1, &partner);
    if (completed)
        add(scene, rank, COMPLETE, RECORD_CALL, 3000);
    count(scene, rank, COMPLETE, ordinal + completed);
}

static void judge_looks(struct scene *scene, bool settled) {
    static bool duplicate[RANKS];
    enum process_state states[RANKS];
    for (unsigned r = 0; r < RANKS; r++) {
        size_t bytes;
        const void *data = dump_builder_data(scene->builders[r], &bytes);
        states[r] = settled ? PROCESS_RUNS : PROCESS_GONE;
        assert_non_null(scene->dumps[r] = dump_open_buffer("made up", data, bytes));
    }
    const struct dump_set set = {.directory = "made up", .dumps = scene->dumps, .count = RANKS, .duplicate = duplicate};
    assert_int_equal(job_select(&scene->job, &set, NULL, NULL), 0);
    assert_true(
        diagnose(&scene->diagnosis, &scene->job, &(struct diagnose_request){.states = states, .settled = settled}));
}

static void judge(struct scene *scene) {
    judge_looks(scene, true);
}

/* Exactly whom a rank waits for: as digits. */
static void assert_waits_for(const struct scene *scene, uint32_t rank, const char *expected) {
    const struct party_state *state = &scene->diagnosis.wait_for_graph.parties[rank];
    int32_t ranks[RANKS];
    char found[RANKS + 1] = "";
    assert_int_equal(state->wait_count, 1);
    const struct wait *wait = &scene->diagnosis.wait_for_graph.items[state->first_wait];
    size_t targets = wait_targets(&scene->diagnosis.wait_for_graph, wait, ranks, RANKS);
    for (size_t i = 0; i < targets; i++)
        found[i] = (char)('0' + ranks[i]);
    assert_string_equal(found, expected);
}

static void done(struct scene *scene) {
    diagnosis_free(&scene->diagnosis);
    job_free(&scene->job);
    for (unsigned r = 0; r < RANKS; r++) {
        dump_close(scene->dumps[r]);
        dump_builder_free(scene->builders[r]);
    }
}

static const int32_t three[] = {1, 2, 3};

/* Of the three that it names, one never posted, one did for the epoch before, one for this. Rank 4 is not asked. */
static void start_waits_for_those_who_have_not_posted(void **state) {
    struct scene scene;
    (void)state;
    make(&scene);
    hang_in_start(&scene, 0, 6, 3, three);
    count(&scene, 1, POST, 0);
    posted(&scene, 2, 0, 5);
    posted(&scene, 3, 0, 6);
    judge(&scene);
    assert_waits_for(&scene, 0, "12");
    assert_int_equal(scene.diagnosis.verdict, VERDICT_HANG);
    assert_int_equal(scene.diagnosis.culprit_count, 2);
    done(&scene);
}

/* What it announced for an earlier Start, which returned, is not what it waits for. */
static void start_waits_for_those_of_this_call(void **state) {
    struct scene scene;
    (void)state;
    make(&scene);
    name_partners(&scene, 0, START, RECORD_AWAITED, 1000, 5, 2, (int32_t[]){3, 4});
    hang_in_start(&scene, 0, 0, 1, (int32_t[]){1});
    judge(&scene);
    assert_waits_for(&scene, 0, "1");
    done(&scene);
}

/* A library may let Start pass. */
static void complete_waits_for_those_who_have_not_posted(void **state) {
    struct scene scene;
    (void)state;
    make(&scene);
    hang_in_end(&scene, 0, COMPLETE, 6, 3, three);
    posted(&scene, 1, 0, 6);
    posted(&scene, 2, 0, 5);
    posted(&scene, 3, 0, 7);
    judge(&scene);
    assert_waits_for(&scene, 0, "2");
    done(&scene);
}

static void wait_waits_for_those_who_have_not_completed(void **state) {
    struct scene scene;
    (void)state;
    make(&scene);
    hang_in_end(&scene, 0, WAIT, 6, 3, three);
    started(&scene, 1, 0, 6, true);
    started(&scene, 2, 0, 6, false);
    started(&scene, 3, 0, 5, true);
    judge(&scene);
    assert_waits_for(&scene, 0, "23");
    done(&scene);
}

/* By the tables alone: the ring holds nothing of it any more. Who made more calls than it needs may have made it. */
static void what_the_ring_forgot_is_counted(void **state) {
    struct scene scene;
    (void)state;
    make(&scene);
    hang_in_end(&scene, 0, WAIT, 6, 3, three);
    count(&scene, 1, COMPLETE, 6);
    count(&scene, 2, COMPLETE, 7);
    count(&scene, 3, COMPLETE, 5);
    judge(&scene);
    assert_waits_for(&scene, 0, "13");
    done(&scene);
    make(&scene); /* nobody is known not to have done his part */
    hang_in_end(&scene, 0, WAIT, 6, 3, three);
    for (unsigned r = 1; r < 4; r++)
        count(&scene, r, COMPLETE, r == 2 ? 9 : 7);
    judge(&scene);
    assert_waits_for(&scene, 0, "123");
    done(&scene);
}

/* All have posted: what is missing is that a target moves what was put. */
static void where_all_have_posted_a_target_away_from_the_library_is_waited_for(void **state) {
    struct scene scene;
    (void)state;
    make(&scene);
    hang_in_end(&scene, 0, COMPLETE, 0, 2, (int32_t[]){1, 2});
    posted(&scene, 1, 0, 0);
    posted(&scene, 2, 0, 0);
    hang_in(&scene, 1, WAIT);
    judge(&scene);
    assert_waits_for(&scene, 0, "2");
    done(&scene);
}

/* Where a group is not known, as in dumps before 2.10 and of groups beyond 64 ranks, anybody may be meant. */
static void of_an_unknown_group_it_is_anybody(void **state) {
    struct scene scene;
    (void)state;
    make(&scene);
    hang_in(&scene, 0, START);
    hang_in(&scene, 1, WAIT);
    name_partners(&scene, 1, POST, RECORD_PARTNER, 1000, 0, 3, three);
    scene.slots[1]->enter = NOW;
    judge(&scene);
    assert_waits_for(&scene, 0, "1234");
    done(&scene);
}

/* Asking in a loop is waiting, once the job was looked at twice. */
static void who_asks_in_vain_waits_for_the_same(void **state) {
    struct scene scene;
    (void)state;
    make(&scene);
    hang_in_end(&scene, 0, WAIT, 0, 2, (int32_t[]){1, 2});
    scene.slots[0]->call = 0;
    scene.slots[0]->comm = COMM_NONE;
    add(&scene, 0, TEST, RECORD_POLL, 3000);
    started(&scene, 1, 0, 0, true);
    started(&scene, 2, 0, 0, false);
    judge(&scene);
    assert_waits_for(&scene, 0, "2");
    done(&scene);
}

/* Killed at work: what a Post did is seen by others before it is on record here. Looked at twice it may wait for any of
 * the others, which are at work; it is no circle by itself. */
static void post_needs_nobody_and_is_no_circle(void **state) {
    (void)state;
    for (int looks = 1; looks <= 2; looks++) {
        struct scene scene;
        make(&scene);
        hang_in(&scene, 0, POST);
        hang_in_start(&scene, 1, 0, 1, (int32_t[]){0});
        for (unsigned r = 2; r < RANKS; r++)
            hang_in_end(&scene, r, WAIT, 0, 1, (int32_t[]){1});
        judge_looks(&scene, looks == 2);
        assert_waits_for(&scene, 0, looks == 2 ? "1234" : "");
        assert_int_equal(scene.diagnosis.verdict, looks == 2 ? VERDICT_DEADLOCK : VERDICT_HANG);
        assert_true(scene.diagnosis.cycle_count == (looks == 2 ? 2 : 0));
        done(&scene);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_waits_for_those_who_have_not_posted),
        cmocka_unit_test(start_waits_for_those_of_this_call),
        cmocka_unit_test(complete_waits_for_those_who_have_not_posted),
        cmocka_unit_test(wait_waits_for_those_who_have_not_completed),
        cmocka_unit_test(what_the_ring_forgot_is_counted),
        cmocka_unit_test(where_all_have_posted_a_target_away_from_the_library_is_waited_for),
        cmocka_unit_test(of_an_unknown_group_it_is_anybody),
        cmocka_unit_test(who_asks_in_vain_waits_for_the_same),
        cmocka_unit_test(post_needs_nobody_and_is_no_circle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
