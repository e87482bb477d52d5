/* SPDX-License-Identifier: Apache-2.0
 *
 * Matching: which records become one instance, what is left over, and that workers change nothing.
 * Lives here: small worlds written by hand.
 * Must not live here: waits (test_waits.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/align/align.h"
#include "analyzer/match/match.h"
#include "test/scenes/scene.h"
#include "test/unit/job_builder.h"

enum { KEPT_MAX = 64, MEMBERS_MAX = 8 };

/* The first instances handed out, copied. */
struct kept {
    struct match_instance items[KEPT_MAX];
    struct match_member members[KEPT_MAX][MEMBERS_MAX];
    size_t count;
    uint64_t sum; /* of all instances, whatever their order */
    uint64_t records;
};

static void keep_instance(void *state, const struct match_instance *instance) {
    struct kept *kept = state;
    uint64_t part = instance->seq * UINT64_C(1000003) + instance->seen * 17 + instance->complete;
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++)
        if (instance->members[i].enter != MATCH_ABSENT)
            part += (uint64_t)instance->members[i].enter * (i + 3) ^ (uint64_t)instance->members[i].leave;
    kept->sum += part * part;
    if (kept->count == KEPT_MAX || instance->communicator->dump_count > MEMBERS_MAX)
        return;
    memcpy(kept->members[kept->count], instance->members,
           instance->communicator->dump_count * sizeof(struct match_member));
    kept->items[kept->count] = *instance;
    kept->items[kept->count].members = kept->members[kept->count];
    kept->count++;
}

static void count_record(void *state, const struct match_record *record) {
    (void)record;
    ((struct kept *)state)->records++;
}

static struct match_totals match(struct hand_job *job, struct kept *kept) {
    const struct match_sink sink = {.instance = keep_instance, .record = count_record};
    struct match_totals totals;
    void *states[1] = {kept};
    *kept = (struct kept){0};
    assert_true(match_run(&job->clock, &job->directory, &sink, states, 1, &totals));
    return totals;
}

static void members_meet_by_number(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        for (uint32_t seq = 0; seq < 2; seq++)
            dump_builder_collective(job.builders[r], 0, seq ? BUILDER_BARRIER : BUILDER_ALLREDUCE, 0, seq, 64,
                                    1000 * seq + 100 + 10 * r, 1000 * seq + 200 + r);
    hand_job_open(&job, 3);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.items[0].seq, 0);
    assert_true(kept.items[0].complete);
    assert_int_equal(kept.items[0].seen, 3);
    assert_int_equal(kept.items[0].bytes, 64);
    assert_int_equal(kept.items[0].communicator->uid, BUILDER_WORLD_UID);
    assert_string_equal(job.directory.calls[kept.items[0].call].name->name, "MPI_Allreduce");
    assert_string_equal(job.directory.calls[kept.items[1].call].name->name, "MPI_Barrier");
    assert_int_equal(kept.members[1][2].enter, 1120);
    assert_int_equal(kept.members[1][2].leave, 1202);
    assert_int_equal(kept.members[1][2].wait, 1120);
    assert_int_equal(totals.matched, 6);
    assert_int_equal(totals.collective, 6);
    assert_int_equal(totals.instances, 2);
    assert_int_equal(kept.records, 6);
    hand_job_free(&job);
}

static void a_wait_call_tells_since_when_a_completion_was_waited_for(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 2, (struct dump_plan){0});
    /* rank 0: posted at 100, computes, waits from 500, complete at 900 */
    dump_builder_icollective(job.builders[0], 0, BUILDER_IALLREDUCE, 0, 0, 8, 100, 110, 900);
    dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, 500, 910);
    /* rank 1: seen complete by something that is no Wait */
    dump_builder_icollective(job.builders[1], 0, BUILDER_IALLREDUCE, 0, 0, 8, 800, 810, 950);
    dump_builder_plain(job.builders[1], 0, BUILDER_FINALIZE, 1000, 1100);
    hand_job_open(&job, 2);
    match(&job, &kept);
    assert_int_equal(kept.count, 1);
    assert_int_equal(kept.members[0][0].enter, 100);
    assert_int_equal(kept.members[0][0].wait, 500);
    assert_int_equal(kept.members[0][0].leave, 900);
    assert_int_equal(kept.members[0][1].wait, 950);
    hand_job_free(&job);
}

/* Records of rank 1 handed out so far, and how many instances came before its record in them. */
struct order {
    uint64_t records;
    unsigned instances, ahead;
};

static void note_record(void *state, const struct match_record *record) {
    ((struct order *)state)->records += record->dump == 1;
}

static void note_instance(void *state, const struct match_instance *instance) {
    struct order *order = state;
    order->instances++;
    order->ahead += instance->members[1].ticket >= order->records;
}

static struct order order_of(struct hand_job *job) {
    const struct match_sink sink = {.instance = note_instance, .record = note_record};
    struct match_totals totals;
    struct order order = {0};
    void *states[1] = {&order};
    assert_true(match_run(&job->clock, &job->directory, &sink, states, 1, &totals));
    return order;
}

static void a_member_names_its_record(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 2, (struct dump_plan){.lanes = 3});
    dump_builder_collective(job.builders[0], 0, BUILDER_ALLREDUCE, 0, 0, 8, 100, 200);
    dump_builder_plain(job.builders[1], 2, BUILDER_WAIT, 10, 20);
    dump_builder_collective(job.builders[1], 2, BUILDER_ALLREDUCE, 0, 0, 8, 150, 200);
    hand_job_open(&job, 2);
    match(&job, &kept);
    assert_int_equal(kept.count, 1);
    assert_int_equal(kept.members[0][0].lane, 0);
    assert_int_equal(kept.members[0][0].ticket, 0);
    assert_int_equal(kept.members[0][1].lane, 2);
    assert_int_equal(kept.members[0][1].ticket, 1);
    hand_job_free(&job);
}

static void a_record_comes_before_what_it_completes(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (uint32_t seq = 0; seq < 10; seq++)
        for (unsigned rank = 0; rank < 2; rank++)
            dump_builder_collective(job.builders[rank], 0, BUILDER_ALLREDUCE, 0, seq, 8, 100 * seq, 100 * seq + 50);
    hand_job_open(&job, 2);
    assert_int_equal(order_of(&job).instances, 10);
    assert_int_equal(order_of(&job).ahead, 0);
    hand_job_free(&job);
}

static void an_operation_never_seen_complete_is_in_no_instance(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 2, (struct dump_plan){0});
    dump_builder_icollective(job.builders[0], 0, BUILDER_IALLREDUCE, 0, 0, 8, 100, 110, 900);
    dump_builder_icollective(job.builders[1], 0, BUILDER_IALLREDUCE, 0, 0, 8, 100, 110, 0);
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(kept.count, 1);
    assert_false(kept.items[0].complete);
    assert_true(kept.members[0][1].enter == MATCH_ABSENT);
    assert_int_equal(totals.partial, 1);
    assert_int_equal(totals.matched, 0);
    hand_job_free(&job);
}

static void a_wrapped_ring_leaves_partial_instances(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    struct dump_plan plan = {.ring_records = 16};
    hand_job_make(&job, 2, plan);
    for (uint32_t seq = 0; seq < 40; seq++) {
        dump_builder_collective(job.builders[0], 0, BUILDER_ALLREDUCE, 0, seq, 8, 100 * seq, 100 * seq + 50);
        if (seq < 30) /* an extra record per collective: its ring goes back half as far */
            dump_builder_plain(job.builders[1], 0, BUILDER_WAIT, 100 * seq + 1, 100 * seq + 2);
        dump_builder_collective(job.builders[1], 0, BUILDER_ALLREDUCE, 0, seq, 8, 100 * seq + 10, 100 * seq + 50);
    }
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    /* rank 0 has 24..39, rank 1 has 27..39 (10 + 3 pairs) */
    assert_int_equal(totals.instances, 13);
    assert_int_equal(totals.partial, 3);
    assert_int_equal(totals.collective, 29);
    assert_int_equal(totals.matched, 26);
    hand_job_free(&job);
}

static void a_rank_without_a_dump_is_not_waited_for(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 0, 8, 100 + r, 200);
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_true(kept.items[0].complete);
    assert_int_equal(kept.items[0].seen, 2);
    assert_int_equal(kept.items[0].communicator->size, 3);
    assert_int_equal(kept.items[0].communicator->dump_count, 2);
    assert_int_equal(totals.matched, 2);
    hand_job_free(&job);
}

static void a_root_without_a_dump_is_no_member(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned i = 0; i < 2; i++) { /* rank 1 left none */
        struct dump_builder *builder = job.builders[i];
        dump_builder_definition(builder, 0)->my_rank = 2 * (int32_t)i;
        for (uint32_t seq = 0; seq < 3; seq++)
            dump_builder_collective(builder, 0, BUILDER_BCAST, 0, seq, 8, 100 * seq + i, 100 * seq + 50)->peer =
                (int32_t)seq;
    }
    hand_job_open(&job, 2);
    match(&job, &kept);
    assert_int_equal(kept.count, 3);
    assert_int_equal(kept.items[0].root, 0);
    assert_int_equal(kept.items[1].root, NOWHERE);
    assert_int_equal(kept.items[2].root, 1);
    assert_int_equal(kept.members[2][1].enter, 201);
    hand_job_free(&job);
}

/* Two dumps that claim the largest world there may be, a hundred times: memory for as many members is not to be had. */
static void memory_does_not_follow_a_claimed_size(void **state) {
    (void)state;
    enum { WORLD = 1 << 24 };
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        const struct member_run all = {0, WORLD, 1};
        dump_builder_header(job.builders[r])->world_size = WORLD;
        for (uint64_t uid = 1; uid <= 100; uid++)
            dump_builder_communicator(job.builders[r], uid, "", r ? WORLD - 1 : 0, &all, 1);
        for (uint32_t seq = 0; seq < 100; seq++)
            dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 1 + seq, 64 * seq, 8, 100 + r, 200);
    }
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.instances, 100);
    assert_int_equal(kept.items[0].communicator->rank_of[1], WORLD - 1);
    hand_job_free(&job);
}

static void different_functions_are_a_mismatch(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        dump_builder_call(job.builders[r], 1030, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE, 0, "MPI_Allreduce_c");
        dump_builder_collective(job.builders[r], 0, r == 1 ? 1030 : BUILDER_ALLREDUCE, 0, 0, 8, 100 + r, 200);
        dump_builder_collective(job.builders[r], 0, r == 2 ? BUILDER_BCAST : BUILDER_ALLREDUCE, 0, 1, 8, 300 + r, 400);
    }
    hand_job_open(&job, 3);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.mismatches, 1);
    assert_int_equal(kept.items[0].others, 0); /* the large count twin is the same function */
    assert_int_equal(kept.items[1].others, 1);
    assert_int_equal(kept.items[1].other_position, 2);
    assert_string_equal(job.directory.calls[kept.items[1].other_call].name->name, "MPI_Bcast");
    hand_job_free(&job);
}

/* A call that was refused: it has no number. `took_part`: did the others make it? */
static struct match_totals one_is_refused(struct kept *kept, uint16_t next, bool took_part) {
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        uint32_t seq = 0;
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, seq++, 8, 100 + r, 200);
        if (r == 2) {
            struct record *refused =
                dump_builder_collective(job.builders[r], 0, BUILDER_BCAST, 0, SEQ_NONE, 8, 300, 310);
            refused->flags = FLAG_FAILED;
            struct operation_row *row = dump_builder_operation(job.builders[r], 0);
            row->call = BUILDER_BCAST;
            row->source = SOURCE_HOST;
            dump_builder_count(row, 8, 10);
            row->failed = 1;
        } else if (took_part) {
            dump_builder_collective(job.builders[r], 0, BUILDER_BCAST, 0, seq++, 8, 300 + r, 400);
        }
        for (uint64_t i = 0; i < 5; i++)
            dump_builder_collective(job.builders[r], 0, next, 0, seq++, 8, 500 + 100 * i + r, 590 + 100 * i);
    }
    hand_job_open(&job, 3);
    struct match_totals totals = match(&job, kept);
    hand_job_free(&job);
    return totals;
}

static void a_rank_refused_what_others_did_falls_behind_by_one(void **state) {
    (void)state;
    struct kept kept;
    struct match_totals totals = one_is_refused(&kept, BUILDER_ALLREDUCE, true);
    assert_int_equal(totals.slips, 1);
    assert_int_equal(totals.first_slip.dump, 2);
    assert_int_equal(totals.first_slip.seq, 1);
    assert_int_equal(totals.mismatches, 0);
    assert_int_equal(totals.instances, 6);
    assert_int_equal(totals.partial, 1); /* the Bcast of two */
}

/* Nothing was missed: the others did not call it either, or it was called once more and then not refused. */
static void a_refused_call_alone_moves_nothing(void **state) {
    (void)state;
    struct kept kept;
    struct match_totals totals = one_is_refused(&kept, BUILDER_ALLREDUCE, false);
    assert_int_equal(totals.slips, 0);
    assert_int_equal(totals.instances, 6);
    assert_int_equal(totals.partial, 0);
    totals = one_is_refused(&kept, BUILDER_BCAST, true);
    assert_int_equal(totals.slips, 0);
    assert_int_equal(totals.mismatches, 0);
}

static void starts_of_a_persistent_collective_are_counted_apart(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++)
        for (int32_t start = 0; start < 3; start++) {
            struct record record = {.t0 = 100u * (unsigned)start + r,
                                    .t1 = 100u * (unsigned)start + 50,
                                    .seq = 7,
                                    .tag = start,
                                    .peer = PEER_NONE,
                                    .call = BUILDER_ALLREDUCE,
                                    .flags = FLAG_COLLECTIVE | FLAG_STARTED,
                                    .kind = RECORD_DONE};
            dump_builder_record(job.builders[r], 0, &record);
        }
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.instances, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(kept.items[i].seq, 7);
        assert_int_equal(kept.items[i].start, i);
        assert_int_equal(kept.members[i][1].enter, 100 * i + 1);
    }
    hand_job_free(&job);
}

/* Two captured collectives and a launch of their graph; `number` 0: the dump does not tell which it was. */
static void replay_graph(struct dump_builder *builder, uint32_t number, uint64_t at) {
    struct record told = {.t0 = at,
                          .t1 = at,
                          .seq = number > 0 ? number : SEQ_NONE,
                          .comm = COMM_NONE,
                          .peer = PEER_NONE,
                          .kind = RECORD_REPLAY};
    struct record launch = {
        .call = BUILDER_ALLREDUCE, .peer = PEER_NONE, .flags = FLAG_COLLECTIVE | FLAG_CAPTURED, .kind = RECORD_GPU};
    dump_builder_record(builder, 0, &told);
    for (uint32_t seq = 7; seq < 9; seq++) {
        launch.seq = seq;
        launch.t0 = at + 10 * seq;
        launch.t1 = launch.t0 + 5;
        dump_builder_record(builder, 0, &launch);
    }
}

/* They have the numbers of their capture each time. Rank 1 could not tell the third replay's, and lost all of the
 * fourth. */
static void replays_of_a_graph_are_counted_apart(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        dump_builder_lane(job.builders[r], 0)->device = 1;
        for (uint32_t replay = 1; replay <= 5; replay++)
            if (r == 0 || replay != 4)
                replay_graph(job.builders[r], r == 1 && replay == 3 ? 0 : replay, 1000 * replay + r);
    }
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.instances, 3 * 2);
    assert_int_equal(totals.unmatchable, 2);
    assert_int_equal(totals.partial, 2 * 2);
    for (size_t i = 0; i < kept.count; i++) {
        const struct match_instance *instance = &kept.items[i];
        assert_true(instance->device);
        assert_int_equal(kept.members[i][0].enter, 1000 * instance->start + 10 * instance->seq);
        assert_int_equal(instance->complete, instance->start < 3 || instance->start == 5);
        if (instance->complete)
            assert_int_equal(kept.members[i][1].enter, kept.members[i][0].enter + 1);
    }
    hand_job_free(&job);
}

/* What is behind a record that is missing may be another replay's. */
static void a_gap_ends_what_is_known_of_a_replay(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        dump_builder_lane(job.builders[r], 0)->device = 1;
        replay_graph(job.builders[r], 1, 1000 + r);
    }
    struct record *records = dump_builder_contents(job.builders[1], SECTION_RING, 0);
    records[1].commit = 0; /* the first of the two launches */
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.instances, 0);
    assert_int_equal(totals.unmatchable, 1);
    hand_job_free(&job);
}

static void lanes_of_one_process_are_merged(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    struct dump_plan plan = {.lanes = 2};
    hand_job_make(&job, 2, plan);
    for (unsigned r = 0; r < 2; r++)
        for (uint32_t seq = 0; seq < 10; seq++)
            dump_builder_collective(job.builders[r], r == 0 ? seq % 2 : 0, BUILDER_ALLREDUCE, 0, seq, 8, 100 * seq + r,
                                    100 * seq + 50);
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.instances, 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(kept.items[i].seq, i);
    hand_job_free(&job);
}

static void what_cannot_be_matched_is_counted(void **state) {
    (void)state;
    struct hand_job job;
    struct kept kept;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        struct member_run all = {0, 2, 1};
        uint32_t spawned = dump_builder_communicator(job.builders[r], 0x77, "spawned", (int32_t)r, &all, 1);
        dump_builder_definition(job.builders[r], spawned)->kind = COMMUNICATOR_INTER;
        dump_builder_definition(job.builders[r], spawned)->remote_size = 2;
        dump_builder_definition(job.builders[r], spawned)->flags = COMMUNICATOR_FOREIGN;
        uint32_t unsure = dump_builder_communicator(job.builders[r], 0x78, "unsure", (int32_t)r, &all, 1);
        dump_builder_definition(job.builders[r], unsure)->flags = COMMUNICATOR_UID_UNSURE;
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, spawned, 0, 8, 100, 200);
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, unsure, 0, 8, 300, 400);
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, SEQ_NONE, 8, 500, 600);
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 99, 0, 8, 700, 800);
    }
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.unmatchable, 8);
    assert_int_equal(totals.foreign, 2);
    assert_int_equal(totals.collective, 8);
    assert_int_equal(kept.count, 0);
    hand_job_free(&job);
}

/* One rank's ring misses the beginning: what piles up for it is closed, not kept. */
static void a_rank_far_behind_is_given_up(void **state) {
    (void)state;
    enum { ALL = 30000, MISSING = 20000 };
    struct hand_job job;
    struct kept kept;
    struct dump_plan plan = {.ring_records = 32768};
    hand_job_make(&job, 2, plan);
    for (uint32_t seq = 0; seq < ALL; seq++) {
        dump_builder_collective(job.builders[0], 0, BUILDER_ALLREDUCE, 0, seq, 8, 100 * seq, 100 * seq + 50);
        if (seq >= MISSING)
            dump_builder_collective(job.builders[1], 0, BUILDER_ALLREDUCE, 0, seq, 8, 100 * seq + 9, 100 * seq + 50);
    }
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.instances, ALL - MISSING);
    assert_int_equal(totals.partial, MISSING);
    assert_int_equal(totals.stale, 0);
    hand_job_free(&job);
}

static void only_what_touches_the_limits_is_there(void **state) {
    (void)state;
    struct hand_job job;
    static struct kept kept;
    struct match_totals totals;
    void *states[1] = {&kept};
    const struct match_sink sink = {
        .instance = keep_instance, .record = count_record, .limited = true, .from_ns = 150, .to_ns = 500};
    kept = (struct kept){0};
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++)
        for (uint32_t seq = 0; seq < 8; seq++) /* 0-50, 100-150, 200-250 ... */
            dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, seq, 0, 100 * seq, 100 * seq + 50);
    hand_job_open(&job, 2);
    assert_true(match_run(&job.clock, &job.directory, &sink, states, 1, &totals));
    assert_int_equal(totals.instances, 5);
    assert_int_equal(kept.items[0].seq, 1);
    assert_int_equal(kept.items[4].seq, 5);
    assert_int_equal(kept.records, 10);
    hand_job_free(&job);
}

static void any_number_of_workers_finds_the_same(void **state) {
    (void)state;
    struct scene scene = scene_standard();
    scene.ranks = 5;
    scene.steps = 3000;
    scene.collectives = 3;
    scene.ring_records = 8192; /* wrapped */
    struct scene_job job;
    struct common_clock clock;
    struct match_directory directory;
    struct match_totals first = {0};
    uint64_t first_sum = 0;
    scene_open(&job, &scene);
    assert_true(common_clock_build(&clock, job.dumps, job.ranks));
    assert_true(match_directory_build(&directory, job.dumps, job.ranks));
    for (unsigned workers = 1; workers <= 8; workers++) {
        const struct match_sink sink = {.instance = keep_instance, .record = count_record};
        static struct kept kept[8];
        void *states[8];
        struct match_totals totals;
        uint64_t sum = 0, records = 0;
        for (unsigned w = 0; w < 8; w++) {
            kept[w] = (struct kept){0};
            states[w] = &kept[w];
        }
        assert_true(match_run(&clock, &directory, &sink, states, workers, &totals));
        for (unsigned w = 0; w < 8; w++) {
            sum += kept[w].sum;
            records += kept[w].records;
        }
        if (workers == 1) {
            first = totals;
            first_sum = sum;
        }
        assert_memory_equal(&totals, &first, sizeof totals);
        assert_true(sum == first_sum);
        assert_int_equal(records, 5 * 8192);
    }
    assert_int_equal(first.instances, 8192);
    match_directory_free(&directory);
    common_clock_free(&clock);
    scene_close(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_meet_by_number),
        cmocka_unit_test(a_wait_call_tells_since_when_a_completion_was_waited_for),
        cmocka_unit_test(a_member_names_its_record),
        cmocka_unit_test(a_record_comes_before_what_it_completes),
        cmocka_unit_test(an_operation_never_seen_complete_is_in_no_instance),
        cmocka_unit_test(a_wrapped_ring_leaves_partial_instances),
        cmocka_unit_test(a_rank_without_a_dump_is_not_waited_for),
        cmocka_unit_test(a_root_without_a_dump_is_no_member),
        cmocka_unit_test(memory_does_not_follow_a_claimed_size),
        cmocka_unit_test(different_functions_are_a_mismatch),
        cmocka_unit_test(a_rank_refused_what_others_did_falls_behind_by_one),
        cmocka_unit_test(a_refused_call_alone_moves_nothing),
        cmocka_unit_test(starts_of_a_persistent_collective_are_counted_apart),
        cmocka_unit_test(replays_of_a_graph_are_counted_apart),
        cmocka_unit_test(a_gap_ends_what_is_known_of_a_replay),
        cmocka_unit_test(lanes_of_one_process_are_merged),
        cmocka_unit_test(what_cannot_be_matched_is_counted),
        cmocka_unit_test(a_rank_far_behind_is_given_up),
        cmocka_unit_test(only_what_touches_the_limits_is_there),
        cmocka_unit_test(any_number_of_workers_finds_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
