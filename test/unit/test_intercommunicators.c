/* SPDX-License-Identifier: Apache-2.0
 *
 * Intercommunicators: one collective of two groups, messages to the other group, who waits for whom.
 * Lives here: a world of five ranks by hand, with integer answers.
 * Must not live here: other communicators (test_match.c, test_waits.c), real jobs (test/e2e).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/diagnose/diagnose.h"
#include "analyzer/dumps/set.h"
#include "analyzer/load/dump.h"
#include "analyzer/match/match.h"
#include "analyzer/wait_for_graph/ranks.h"
#include "analyzer/waits/waits.h"
#include "test/unit/job_builder.h"

/* Ranks 0 and 1 are one group, ranks 2 to 4 the other; in it they are numbered from 0. */
enum { RANKS = 5, LEFT = 2, UID = 0x77, KEPT = 16 };

static const struct member_run left = {0, LEFT, 1}, right = {LEFT, RANKS - LEFT, 1};

struct kept {
    struct waits waits;
    struct match_instance instances[KEPT];
    size_t instance_count;
    struct match_message messages[KEPT];
    size_t message_count;
};

static struct hand_job job;
static struct kept kept;
static uint32_t inter;

static void keep_instance(void *state, const struct match_instance *instance) {
    (void)state;
    waits_add(&kept.waits, instance);
    assert_true(kept.instance_count < KEPT);
    kept.instances[kept.instance_count++] = *instance;
}

static void keep_message(void *state, const struct match_message *message) {
    (void)state;
    waits_add_message(&kept.waits, message);
    assert_true(kept.message_count < KEPT);
    kept.messages[kept.message_count++] = *message;
}

static int make(void **state) {
    (void)state;
    hand_job_make(&job, RANKS, (struct dump_plan){0});
    for (int32_t r = 0; r < RANKS; r++)
        inter = dump_builder_intercommunicator(job.builders[r], UID, r < LEFT ? r : r - LEFT, r < LEFT ? &left : &right,
                                               r < LEFT ? &right : &left);
    return 0;
}

static struct match_totals match(unsigned with_dump) {
    const struct match_sink sink = {.instance = keep_instance, .message = keep_message};
    struct match_totals totals;
    void *states[1] = {NULL};
    hand_job_open(&job, with_dump);
    kept = (struct kept){0};
    assert_true(waits_init(&kept.waits, &job.clock, &job.directory));
    assert_true(match_run(&job.clock, &job.directory, &sink, states, 1, &totals));
    return totals;
}

static int finish(void **state) {
    (void)state;
    waits_free(&kept.waits);
    hand_job_free(&job);
    return 0;
}

/* Everybody's part; `peer` is what the ranks pass as root. */
static void collective(uint16_t call, const uint64_t enter[RANKS], const uint64_t leave[RANKS], const int32_t *peer) {
    for (unsigned r = 0; r < RANKS; r++) {
        struct record *record = dump_builder_collective(job.builders[r], 0, call, inter, 0, 8, enter[r], leave[r]);
        if (!peer)
            continue;
        record->peer = peer[r];
        record->flags |= peer[r] == PEER_ROOT ? FLAG_ROOT : 0;
    }
}

#define assert_waits(R, WAIT, IMPOSED, WAITED_FOR)                                                                     \
    do {                                                                                                               \
        assert_int_equal(kept.waits.ranks[R].wait_ns, WAIT);                                                           \
        assert_int_equal(kept.waits.ranks[R].imposed_ns, IMPOSED);                                                     \
        assert_int_equal(kept.waits.ranks[R].waited_for_ns, WAITED_FOR);                                               \
    } while (0)

static void a_group_waits_for_the_last_of_the_other(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {100, 400, 900, 200, 600}, leave[RANKS] = {1000, 1000, 1000, 1000, 1000};
    collective(BUILDER_BARRIER, enter, leave, NULL);
    struct match_totals totals = match(RANKS);
    assert_int_equal(totals.instances, 1);
    assert_int_equal(totals.matched, RANKS);
    assert_int_equal(kept.instances[0].communicator->size, RANKS);
    /* the left wait for rank 2 (900), which had a second, rank 4, 300 before; the right for rank 1 (400), 300 later
     * than rank 0: rank 3 alone came before that */
    assert_waits(0, 800, 0, 0);
    assert_waits(1, 500, 200, 200);
    assert_waits(2, 0, 2 * 300, 800 + 500);
    assert_waits(3, 200, 0, 0);
    assert_waits(4, 0, 0, 0);
    assert_int_equal(kept.waits.ranks[2].mended_ns, 300);
}

static void the_other_group_waits_for_the_root(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {50, 700, 100, 800, 300}, leave[RANKS] = {60, 1000, 1000, 1000, 1000};
    static const int32_t roots[RANKS] = {PEER_NULL, PEER_ROOT, 1, 1, 1};
    collective(BUILDER_BCAST, enter, leave, roots);
    assert_int_equal(match(RANKS).instances, 1);
    assert_int_equal(kept.instances[0].root, 1);
    assert_waits(0, 0, 0, 0); /* stands by */
    assert_waits(1, 0, 600 + 400, 600 + 400);
    assert_waits(2, 600, 0, 0);
    assert_waits(3, 0, 0, 0);
    assert_waits(4, 400, 0, 0);
    assert_int_equal(kept.waits.ranks[0].deepspeed_ns, 0);
    assert_int_equal(kept.waits.ranks[4].deepspeed_ns, 700 - 200); /* rank 3 was the quickest of those who took part */
}

static void the_root_waits_for_the_last_of_the_other_group(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {100, 900, 5000, 200, 5000}, leave[RANKS] = {110, 910, 5010, 1000, 5010};
    static const int32_t roots[RANKS] = {1, 1, PEER_NULL, PEER_ROOT, PEER_NULL};
    collective(BUILDER_REDUCE, enter, leave, roots);
    assert_int_equal(match(RANKS).instances, 1);
    assert_int_equal(kept.instances[0].root, 3);
    assert_waits(3, 700, 0, 0);
    assert_waits(1, 0, 700, 700); /* 800 later than rank 0, but no more than was waited */
    assert_waits(0, 0, 0, 0);
    assert_waits(2, 0, 0, 0); /* stands by, however late */
    assert_waits(4, 0, 0, 0);
}

static void nobody_is_charged_without_the_roots_dump(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {100, 900, 100, 100, 800}, leave[RANKS] = {1000, 1000, 110, 110, 1000};
    static const int32_t roots[RANKS] = {2, 2, PEER_NULL, PEER_NULL, PEER_ROOT};
    collective(BUILDER_BCAST, enter, leave, roots);
    assert_int_equal(match(RANKS - 1).instances, 1);
    assert_int_equal(kept.instances[0].root, NOWHERE);
    for (unsigned r = 0; r < RANKS - 1; r++)
        assert_waits(r, 0, 0, 0);
}

static void a_peer_is_of_the_other_group(void **state) {
    (void)state;
    /* rank 1 sends to rank 1 of the other group, world rank 3; rank 4 to rank 0, world rank 0 */
    dump_builder_p2p(job.builders[1], 0, BUILDER_SEND, inter, FLAG_SEND, 1, 9, 0, 8, 500, 510);
    dump_builder_p2p(job.builders[3], 0, BUILDER_RECV, inter, FLAG_RECV, 1, 9, 0, 8, 100, 520);
    dump_builder_p2p(job.builders[4], 0, BUILDER_SEND, inter, FLAG_SEND, 0, 9, 0, 8, 600, 610);
    dump_builder_p2p(job.builders[0], 0, BUILDER_RECV, inter, FLAG_RECV, 2, 9, 0, 8, 300, 620);
    struct match_totals totals = match(RANKS);
    assert_int_equal(totals.halves, 4);
    assert_int_equal(totals.messages, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct match_message *message = &kept.messages[i];
        bool first = message->from_dump == 1;
        assert_int_equal(message->from_dump, first ? 1 : 4);
        assert_int_equal(message->to_dump, first ? 3 : 0);
        assert_int_equal(message->from, message->from_dump); /* numbered on behind the first group */
        assert_int_equal(message->to, message->to_dump);
    }
    assert_waits(3, 400, 0, 0);
    assert_waits(1, 0, 400, 400);
    assert_waits(0, 300, 0, 0);
    assert_waits(4, 0, 300, 300);
    const struct dump_communicator *own = dump_communicator(job.dumps[1], inter);
    assert_int_equal(dump_peer_rank(own, 2), 4);
    assert_int_equal(dump_peer_rank(own, 3), RANK_UNKNOWN);
    assert_int_equal(dump_peer_rank(own, PEER_NULL), RANK_UNKNOWN);
    assert_int_equal(dump_peer_rank(dump_communicator(job.dumps[1], 0), 3), 3);
}

static void a_peer_beyond_the_other_group_is_nobody(void **state) {
    (void)state;
    dump_builder_p2p(job.builders[3], 0, BUILDER_SEND, inter, FLAG_SEND, LEFT, 9, 0, 8, 500, 510);
    struct match_totals totals = match(RANKS);
    assert_int_equal(totals.halves, 0);
    assert_int_equal(totals.halves_unmatchable, 1);
}

static void groups_that_contradict_each_other_are_left_out(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {100, 400, 900, 200, 600}, leave[RANKS] = {1000, 1000, 1000, 1000, 1000};
    collective(BUILDER_BARRIER, enter, leave, NULL);
    dump_builder_definition(job.builders[4], inter)->remote_size = 7;
    dump_builder_definition(job.builders[3], inter)->size = 4;
    struct match_totals totals = match(RANKS);
    assert_int_equal(totals.collective, RANKS);
    assert_int_equal(totals.unmatchable, 2);
    assert_int_equal(totals.matched, 3);
    /* its remote group is not that of a group of seven */
    assert_non_null(dump_communicator(job.dumps[2], inter)->remote);
    assert_null(dump_communicator(job.dumps[4], inter)->remote);
    assert_null(dump_communicator(job.dumps[3], inter)->runs);
}

/* ---- who is missing -------------------------------------------------------------------------- */

/* `came` are in the call; `waits` says what they pass as root. */
static void stall(uint16_t call, const bool came[RANKS], const int32_t *roots) {
    for (unsigned r = 0; r < RANKS; r++) {
        struct progress *progress = dump_builder_progress(job.builders[r], inter);
        progress->enqueued = progress->started = came[r];
        dump_builder_header(job.builders[r])->activated_ticks = 1;
        struct in_flight *slot = dump_builder_in_flight(job.builders[r]);
        slot->last_leave = 500;
        if (!came[r] || (roots && roots[r] == PEER_NULL)) /* who stands by is through */
            continue;
        slot->comm = inter;
        slot->enter = 1000;
        slot->seq = 0;
        slot->peer = roots ? roots[r] : PEER_NONE;
        slot->tag = TAG_NONE;
        slot->flags = FLAG_COLLECTIVE | (roots && roots[r] == PEER_ROOT ? FLAG_ROOT : 0);
        slot->call = call;
    }
}

/* World ranks that the verdict blames, as a set of bits. */
static unsigned blamed(enum verdict expected, unsigned *missing) {
    enum process_state states[RANKS];
    struct dump_set set = {0};
    struct dump *dumps[RANKS];
    bool duplicate[RANKS] = {false};
    struct job selected;
    struct diagnosis diagnosis;
    unsigned ranks = 0;
    hand_job_open(&job, RANKS);
    for (unsigned r = 0; r < RANKS; r++) {
        states[r] = PROCESS_RUNS;
        dumps[r] = job.dumps[r];
    }
    set.dumps = dumps;
    set.count = RANKS;
    set.duplicate = duplicate;
    assert_int_equal(job_select(&selected, &set, NULL, NULL), 0);
    assert_true(diagnose(&diagnosis, &selected, &(struct diagnose_request){.states = states, .settled = true}));
    assert_int_equal(diagnosis.verdict, expected);
    for (size_t i = 0; i < diagnosis.culprit_count; i++)
        ranks |= 1u << diagnosis.world.parties[diagnosis.culprits[i].party].rank;
    *missing = 0;
    for (size_t i = 0; i < diagnosis.wait_for_graph.stalled_count; i++) {
        int32_t list[RANKS];
        size_t count =
            stalled_ranks(&diagnosis.wait_for_graph, &diagnosis.wait_for_graph.stalled[i], true, list, RANKS);
        for (size_t k = 0; k < count; k++)
            *missing |= 1u << list[k];
    }
    diagnosis_free(&diagnosis);
    job_free(&selected);
    kept.waits = (struct waits){0};
    return ranks;
}

static void who_of_the_other_group_has_not_come_is_named(void **state) {
    (void)state;
    static const bool came[RANKS] = {true, true, true, false, true};
    unsigned missing;
    stall(BUILDER_BARRIER, came, NULL);
    assert_int_equal(blamed(VERDICT_HANG, &missing), 1u << 3);
    assert_int_equal(missing, 1u << 3);
}

static void a_missing_root_is_named_and_who_stands_by_is_not(void **state) {
    (void)state;
    static const bool came[RANKS] = {false, false, true, true, true};
    static const int32_t roots[RANKS] = {PEER_NULL, PEER_ROOT, 1, 1, 1};
    unsigned missing;
    stall(BUILDER_BCAST, came, roots);
    assert_int_equal(blamed(VERDICT_HANG, &missing), 1u << 1);
    assert_int_equal(missing, 1u << 1);
}

static void a_root_waits_for_the_other_group_alone(void **state) {
    (void)state;
    static const bool came[RANKS] = {true, false, false, true, false};
    static const int32_t roots[RANKS] = {1, 1, PEER_NULL, PEER_ROOT, PEER_NULL};
    unsigned missing;
    stall(BUILDER_REDUCE, came, roots);
    assert_int_equal(blamed(VERDICT_HANG, &missing), 1u << 1);
    assert_int_equal(missing, 1u << 1);
}

int main(void) {
#define TEST(F) cmocka_unit_test_setup_teardown(F, make, finish)
    const struct CMUnitTest tests[] = {
        TEST(a_group_waits_for_the_last_of_the_other),
        TEST(the_other_group_waits_for_the_root),
        TEST(the_root_waits_for_the_last_of_the_other_group),
        TEST(nobody_is_charged_without_the_roots_dump),
        TEST(a_peer_is_of_the_other_group),
        TEST(a_peer_beyond_the_other_group_is_nobody),
        TEST(groups_that_contradict_each_other_are_left_out),
        TEST(who_of_the_other_group_has_not_come_is_named),
        TEST(a_missing_root_is_named_and_who_stands_by_is_not),
        TEST(a_root_waits_for_the_other_group_alone),
    };
    return cmocka_run_group_tests_name("intercommunicators", tests, NULL, NULL);
}
