/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends and receives of NCCL that were timed on GPUs: alone, in groups, on several streams.
 * Lives here: dumps by hand with integer answers. Must not live here: messages of hosts (test_match_messages.c), whole
 * jobs (test_gpu_grids.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/links/links.h"
#include "analyzer/match/match.h"
#include "analyzer/match/stream.h"
#include "analyzer/waits/waits.h"
#include "test/unit/job_builder.h"

enum { SEND = 2100, RECV, GROUP_END, MESSAGES_MAX = 256 };

struct kept {
    struct waits waits;
    struct match_message items[MESSAGES_MAX];
    size_t count;
    uint32_t in_groups; /* messages that came with the records of launches */
    int64_t last_begin[HAND_RANKS_MAX];
    bool unordered;
};

static void keep_message(void *state, const struct match_message *message) {
    struct kept *kept = state;
    waits_add_message(&kept->waits, message);
    assert_true(kept->count < MESSAGES_MAX);
    kept->items[kept->count++] = *message;
}

static void keep_sent(void *state, const struct match_message *message) {
    waits_add_sent(&((struct kept *)state)->waits, message);
}

static void keep_record(void *state, const struct match_record *item) {
    struct kept *kept = state;
    kept->in_groups += item->message_count;
    if (item->record->kind != RECORD_GPU)
        return;
    kept->unordered |= item->begin < kept->last_begin[item->dump];
    kept->last_begin[item->dump] = item->begin;
}

static struct match_totals match(struct hand_job *job, struct kept *kept) {
    const struct match_sink sink = {.message = keep_message, .sent = keep_sent, .record = keep_record};
    struct match_totals totals;
    void *state = kept;
    memset(kept, 0, sizeof *kept);
    assert_true(waits_init(&kept->waits, &job->clock, &job->directory));
    assert_true(match_run(&job->clock, &job->directory, &sink, &state, 1, &totals));
    waits_finish(&kept->waits);
    return totals;
}

static void finish(struct hand_job *job, struct kept *kept) {
    waits_free(&kept->waits);
    hand_job_free(job);
}

/* Lane 0 is the host's, lane 1 the GPU's. */
static void describe(struct dump_builder *builder) {
    dump_builder_header(builder)->gpu_timing = GPU_TIMING_EVENTS;
    dump_builder_lane(builder, 1)->device = 1;
    dump_builder_call(builder, SEND, CLASS_SEND, FLOW_NONE, BUSBW_ONE, 1, "ncclSend");
    dump_builder_call(builder, RECV, CLASS_RECV, FLOW_NONE, BUSBW_ONE, 1, "ncclRecv");
    dump_builder_call(builder, GROUP_END, CLASS_GROUP, FLOW_NONE, BUSBW_NONE, 1, "ncclGroupEnd");
}

/* The GPU's clock is known to `error` ns. */
static void make(struct hand_job *job, unsigned ranks, uint64_t error) {
    hand_job_make(job, ranks, (struct dump_plan){.lanes = 2, .devices = 1});
    for (unsigned r = 0; r < ranks; r++) {
        describe(job->builders[r]);
        dump_builder_device(job->builders[r], 0, 2 * error);
    }
}

/* A call that enqueues at `posted`; of a group where `group` is not 0. */
static struct record posted(uint16_t flag, int32_t peer, uint32_t seq, uint32_t op, uint32_t group, uint64_t at) {
    return (struct record){.kind = RECORD_POST,
                           .call = flag == FLAG_SEND ? SEND : RECV,
                           .flags = flag,
                           .peer = peer,
                           .seq = seq,
                           .op = op,
                           .tag = group ? (int32_t)group : TAG_NONE,
                           .bytes = 4096,
                           .t0 = at,
                           .t1 = at + 1};
}

/* A message alone: its call, and where it ran. */
static void single(struct hand_job *job, unsigned rank, uint16_t flag, int32_t peer, uint32_t seq, uint32_t op,
                   uint64_t enter, uint64_t leave) {
    struct record record = posted(flag, peer, seq, op, 0, enter > 50 ? enter - 50 : 0);
    dump_builder_record(job->builders[rank], 0, &record);
    record.kind = RECORD_GPU;
    record.tag = (int32_t)rank; /* the device's number */
    record.t0 = enter;
    record.t1 = leave;
    dump_builder_record(job->builders[rank], 1, &record);
}

/* The launch of a group, and the end of it on the host at `at`. */
static void launch(struct hand_job *job, unsigned rank, uint32_t group, uint64_t at, uint64_t enter, uint64_t leave) {
    struct record record = {.kind = RECORD_GROUP,
                            .call = GROUP_END,
                            .peer = PEER_NONE,
                            .seq = SEQ_NONE,
                            .op = group,
                            .tag = TAG_NONE,
                            .t0 = at,
                            .t1 = at + 5};
    dump_builder_record(job->builders[rank], 0, &record);
    record.kind = RECORD_GPU;
    record.tag = 0;
    record.t0 = enter;
    record.t1 = leave;
    dump_builder_record(job->builders[rank], 1, &record);
}

static struct kept kept;

static void a_gpu_waits_for_a_late_sender(void **state) {
    (void)state;
    struct hand_job job;
    make(&job, 2, 0);
    single(&job, 0, FLAG_SEND, 1, 0, 1, 900, 950);
    single(&job, 1, FLAG_RECV, 0, 0, 1, 200, 960);
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.halves, 2);
    assert_int_equal(totals.messages, 1);
    assert_true(kept.items[0].device);
    assert_int_equal(kept.waits.ranks[1].states_ns[WAIT_LATE_SENDER], 700);
    assert_int_equal(kept.waits.ranks[0].waited_for_ns, 700);
    finish(&job, &kept);
}

static void a_wait_within_the_error_of_both_gpus_clocks_is_none(void **state) {
    (void)state;
    struct hand_job job;
    make(&job, 2, 360);
    single(&job, 0, FLAG_SEND, 1, 0, 1, 900, 950);
    single(&job, 1, FLAG_RECV, 0, 0, 1, 200, 960);
    hand_job_open(&job, 2);
    match(&job, &kept);
    assert_int_equal(kept.count, 1);
    assert_int_equal(kept.waits.ranks[1].wait_ns, 0);
    assert_int_equal(kept.waits.ranks[1].unresolved_ns, 700);
    finish(&job, &kept);
}

/* The first anchor, 1000 ns off, tells of nothing once there is a second one: a wait of 700 ns is known from then on.
 */
static void a_wide_first_anchor_hides_waits_until_the_second(void **state) {
    (void)state;
    for (unsigned later = 0; later < 2; later++) {
        struct hand_job job;
        uint64_t at = later ? 20000 : 1000;
        hand_job_make(&job, 2, (struct dump_plan){.lanes = 2, .devices = 2});
        for (unsigned r = 0; r < 2; r++) {
            describe(job.builders[r]);
            dump_builder_device(job.builders[r], 100, 2000);
            dump_builder_device(job.builders[r], 9000, 20);
            struct device_anchor *anchors = dump_builder_contents(job.builders[r], SECTION_DEVICE_ANCHORS, 0);
            anchors[1].device = 0;
        }
        single(&job, 0, FLAG_SEND, 1, 0, 1, at + 700, at + 750);
        single(&job, 1, FLAG_RECV, 0, 0, 1, at, at + 760);
        hand_job_open(&job, 2);
        assert_int_equal(match(&job, &kept).messages, 1);
        assert_int_equal(kept.waits.ranks[1].wait_ns, later ? 700 : 0);
        assert_int_equal(kept.waits.ranks[1].unresolved_ns, later ? 0 : 700);
        finish(&job, &kept);
    }
}

/* Which of the messages between two ranks it is, their order tells: also where a later one ended first. */
static void messages_are_numbered_by_their_calls(void **state) {
    (void)state;
    struct hand_job job;
    make(&job, 2, 0);
    single(&job, 0, FLAG_SEND, 1, 0, 1, 1000, 1010);
    single(&job, 0, FLAG_SEND, 1, 1, 2, 2000, 2010);
    single(&job, 1, FLAG_RECV, 0, 1, 2, 1900, 2020);
    single(&job, 1, FLAG_RECV, 0, 0, 1, 700, 1020);
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.messages, 2);
    assert_false(kept.unordered);
    assert_int_equal(kept.waits.ranks[1].wait_ns, 300 + 100);
    finish(&job, &kept);
}

static void replayed(struct hand_job *job, unsigned rank, const struct record *launch, uint32_t replay) {
    dump_builder_record(job->builders[rank], 1,
                        &(struct record){.t0 = launch->t0 - 50,
                                         .t1 = launch->t0,
                                         .seq = replay,
                                         .comm = COMM_NONE,
                                         .peer = PEER_NONE,
                                         .kind = RECORD_REPLAY});
    dump_builder_record(job->builders[rank], 1, launch);
}

/* Its ordinal is that of the capture: which replay it was must be known. */
static void what_graphs_replay_is_matched_by_the_number_of_the_replay(void **state) {
    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        struct hand_job job;
        make(&job, 2, 0);
        for (unsigned rank = 0; rank < 2; rank++)
            for (unsigned i = 1; i <= 3; i++) {
                struct record record = posted(rank ? FLAG_RECV : FLAG_SEND, rank ? 0 : 1, 0, 1, 0, 100);
                record.kind = RECORD_GPU;
                record.flags |= FLAG_CAPTURED;
                record.t0 = 1000 * i + (rank ? 200 : 900);
                record.t1 = 1000 * i + 950;
                if (i > known)
                    replayed(&job, rank, &record, known || rank ? i : SEQ_NONE);
            }
        hand_job_open(&job, 2);
        struct match_totals totals = match(&job, &kept);
        assert_int_equal(totals.messages, known ? 2 : 0);
        assert_int_equal(kept.waits.ranks[1].states_ns[WAIT_LATE_SENDER], known ? 2 * 700 : 0);
        finish(&job, &kept);
    }
}

/* Two ranks swap in one group each; rank 1's launch is 600 ns late. */
static void a_group_waits_for_the_one_that_came_late(void **state) {
    (void)state;
    struct hand_job job;
    make(&job, 2, 0);
    for (unsigned rank = 0; rank < 2; rank++) {
        struct record send = posted(FLAG_SEND, 1 - (int32_t)rank, 0, 1, 2, 100);
        struct record receive = posted(FLAG_RECV, 1 - (int32_t)rank, 0, 3, 2, 110);
        dump_builder_record(job.builders[rank], 0, &send);
        dump_builder_record(job.builders[rank], 0, &receive);
        launch(&job, rank, 2, 120, 300 + 600 * rank, 950);
    }
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(kept.in_groups, 4);
    assert_int_equal(totals.messages, 2);
    assert_true(kept.items[0].send.shared && kept.items[0].receive.shared);
    assert_int_equal(kept.waits.ranks[0].states_ns[WAIT_LATE_SENDER], 600);
    assert_int_equal(kept.waits.ranks[0].wait_ns, 600);
    assert_int_equal(kept.waits.ranks[1].wait_ns, 0);
    finish(&job, &kept);
}

/* A graph holds the same: its messages were posted at the capture, and are those of each replay. Rank 1 is late by 600
 * in the first replay, by 700 in the second. */
static void a_captured_group_waits_in_each_replay(void **state) {
    (void)state;
    struct hand_job job;
    make(&job, 2, 0);
    for (unsigned rank = 0; rank < 2; rank++) {
        struct record send = posted(FLAG_SEND, 1 - (int32_t)rank, 0, 1, 2, 100);
        struct record receive = posted(FLAG_RECV, 1 - (int32_t)rank, 0, 3, 2, 110);
        struct record end = {.kind = RECORD_GROUP,
                             .call = GROUP_END,
                             .flags = FLAG_CAPTURED,
                             .peer = PEER_NONE,
                             .seq = SEQ_NONE,
                             .op = 2,
                             .tag = TAG_NONE,
                             .t0 = 120,
                             .t1 = 125};
        dump_builder_record(job.builders[rank], 0, &send);
        dump_builder_record(job.builders[rank], 0, &receive);
        dump_builder_record(job.builders[rank], 0, &end);
        end.kind = RECORD_GPU;
        end.tag = 0;
        for (unsigned i = 1; i <= 2; i++) {
            end.t0 = 1000 * (uint64_t)i + (500 + 100 * (uint64_t)i) * rank;
            end.t1 = 1000 * (uint64_t)i + 950;
            replayed(&job, rank, &end, i);
        }
    }
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(kept.in_groups, 8);
    assert_int_equal(totals.messages, 4);
    assert_int_equal(totals.halves_alone + totals.halves_unmatchable, 0);
    assert_int_equal(kept.waits.ranks[0].wait_ns, 600 + 700);
    assert_int_equal(kept.waits.ranks[1].waited_for_ns, 600 + 700);
    finish(&job, &kept);
}

/* A group of a rank with `count` messages, each to or from another one, and its launch. */
static void group_of(struct hand_job *job, unsigned rank, const uint16_t *flags, const int32_t *peers, unsigned count,
                     uint64_t enter, uint64_t leave) {
    for (unsigned i = 0; i < count; i++) {
        struct record record = posted(flags[i], peers[i], 0, i ? 2 + i : 1, 2, 100 + 10 * (uint64_t)i);
        dump_builder_record(job->builders[rank], 0, &record);
    }
    launch(job, rank, 2, 140, enter, leave);
}

/* Whom a group waited for that reduces, too, the reduction tells: the same time is not counted for its messages again.
 */
static void a_group_that_reduces_too_waits_once(void **state) {
    (void)state;
    struct hand_job job;
    make(&job, 2, 0);
    for (unsigned rank = 0; rank < 2; rank++) {
        const struct record reduced = {.kind = RECORD_GPU,
                                       .call = GROUP_END,
                                       .flags = FLAG_COLLECTIVE,
                                       .peer = PEER_NONE,
                                       .op = 2,
                                       .t0 = 300 + 600 * rank,
                                       .t1 = 950};
        struct record send = posted(FLAG_SEND, 1 - (int32_t)rank, 0, 1, 2, 100);
        struct record receive = posted(FLAG_RECV, 1 - (int32_t)rank, 0, 3, 2, 110);
        dump_builder_record(job.builders[rank], 0, &send);
        dump_builder_record(job.builders[rank], 0, &receive);
        dump_builder_record(job.builders[rank], 1, &reduced);
    }
    hand_job_open(&job, 2);
    assert_int_equal(match(&job, &kept).messages, 2);
    assert_int_equal(kept.waits.ranks[0].wait_ns, 0); /* of the messages: reductions are not looked at here */
    assert_int_equal(kept.waits.ranks[1].waited_for_ns, 0);
    finish(&job, &kept);
}

/* Rank 0 sends to ranks 1 and 2, of which the second comes last; rank 3 has nothing to do with it. */
static void a_group_of_sends_waits_for_the_last_receiver(void **state) {
    (void)state;
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        static struct kept parts[4];
        const struct match_sink sink = {.message = keep_message, .sent = keep_sent};
        struct match_totals totals;
        struct hand_job job;
        void *states[4] = {&parts[0], &parts[1], &parts[2], &parts[3]};
        make(&job, 4, 0);
        group_of(&job, 0, (uint16_t[]){FLAG_SEND, FLAG_SEND}, (int32_t[]){1, 2}, 2, 200, 950);
        group_of(&job, 1, (uint16_t[]){FLAG_RECV}, (int32_t[]){0}, 1, 500, 520);
        group_of(&job, 2, (uint16_t[]){FLAG_RECV}, (int32_t[]){0}, 1, 900, 940);
        hand_job_open(&job, 4);
        memset(parts, 0, sizeof parts);
        for (unsigned w = 0; w < workers; w++)
            assert_true(waits_init(&parts[w].waits, &job.clock, &job.directory));
        assert_true(match_run(&job.clock, &job.directory, &sink, states, workers, &totals));
        for (unsigned w = 0; w < workers; w++) {
            waits_finish(&parts[w].waits);
            if (w > 0)
                waits_merge(&parts[0].waits, &parts[w].waits);
        }
        assert_int_equal(totals.messages, 2);
        assert_int_equal(parts[0].waits.ranks[0].states_ns[WAIT_LATE_RECEIVER], 700);
        assert_int_equal(parts[0].waits.ranks[0].wait_ns, 700);
        assert_int_equal(parts[0].waits.ranks[2].waited_for_ns, 700);
        assert_int_equal(parts[0].waits.ranks[2].imposed_ns, 400); /* had it come with rank 1 */
        assert_int_equal(parts[0].waits.ranks[1].waited_for_ns, 0);
        for (unsigned w = 0; w < workers; w++)
            waits_free(&parts[w].waits);
        hand_job_free(&job);
    }
}

/* Each worker keeps the messages that it will be asked for, and no others. */
static void workers_share_the_messages_of_groups(void **state) {
    (void)state;
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        static struct kept others[4];
        const struct match_sink sink = {.message = keep_message, .record = keep_record};
        struct match_totals totals;
        struct hand_job job;
        uint32_t in_groups = 0;
        void *states[4] = {&others[0], &others[1], &others[2], &others[3]};
        make(&job, 4, 0);
        for (unsigned rank = 0; rank < 4; rank++) {
            struct record send = posted(FLAG_SEND, (int32_t)(rank + 1) % 4, 0, 1, 2, 100);
            struct record receive = posted(FLAG_RECV, (int32_t)(rank + 3) % 4, 0, 3, 2, 110);
            dump_builder_record(job.builders[rank], 0, &send);
            dump_builder_record(job.builders[rank], 0, &receive);
            launch(&job, rank, 2, 120, 300 + 100 * rank, 950);
        }
        hand_job_open(&job, 4);
        memset(others, 0, sizeof others);
        for (unsigned w = 0; w < workers; w++)
            assert_true(waits_init(&others[w].waits, &job.clock, &job.directory));
        assert_true(match_run(&job.clock, &job.directory, &sink, states, workers, &totals));
        for (unsigned w = 0; w < workers; w++) {
            in_groups += others[w].in_groups;
            waits_free(&others[w].waits);
        }
        assert_int_equal(totals.messages, 4);
        assert_int_equal(totals.halves_alone + totals.halves_unmatchable, 0);
        assert_int_equal(in_groups, 8);
        hand_job_free(&job);
    }
}

/* By its own clock the GPU began before the host had enqueued; the host's records have to come first even so. */
static void a_gpus_clock_may_be_ahead_of_the_host(void **state) {
    (void)state;
    static const struct {
        uint64_t ahead;
        uint64_t messages;
    } cases[] = {{0, 2}, {150000, 2}, {350000, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hand_job job;
        make(&job, 2, 0);
        for (unsigned rank = 0; rank < 2; rank++) {
            struct record send = posted(FLAG_SEND, 1 - (int32_t)rank, 0, 1, 2, 1000000);
            struct record receive = posted(FLAG_RECV, 1 - (int32_t)rank, 0, 3, 2, 1000010);
            dump_builder_record(job.builders[rank], 0, &send);
            dump_builder_record(job.builders[rank], 0, &receive);
            launch(&job, rank, 2, 1000020, 1000025 - cases[i].ahead, 1100000);
        }
        hand_job_open(&job, 2);
        struct match_totals totals = match(&job, &kept);
        assert_int_equal(totals.messages, cases[i].messages);
        finish(&job, &kept);
    }
}

/* What one stream did while another was at one thing is written before it: some sixty are put in order. */
static void streams_are_put_in_order(void **state) {
    (void)state;
    static const struct {
        uint32_t others;
        bool unordered;
    } cases[] = {{10, false}, {60, false}, {100, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hand_job job;
        make(&job, 2, 0);
        for (uint32_t k = 0; k < cases[i].others; k++)
            single(&job, 0, FLAG_SEND, 1, k, k + 2, 1000 + 10 * k, 1005 + 10 * k);
        single(&job, 0, FLAG_RECV, 1, 0, 1, 500, 90000);
        hand_job_open(&job, 2);
        match(&job, &kept);
        assert_int_equal(kept.unordered, cases[i].unordered);
        finish(&job, &kept);
    }
}

/* The buffer holds one message: the second send is over when the first is taken, which is late. */
static void a_send_waits_for_room(void **state) {
    (void)state;
    static const struct {
        uint64_t left;
        int64_t waited;
    } cases[] = {
        {1010, 800}, /* right after the receive that made room had begun */
        {995, 795},  /* as it began, by clocks that are off by a little */
        {1101, 800}, /* within an eighth */
        {1210, 0},   /* no more */
        {220, 0},    /* there was room */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hand_job job;
        make(&job, 2, 5);
        single(&job, 0, FLAG_SEND, 1, 0, 1, 100, 105);
        single(&job, 0, FLAG_SEND, 1, 1, 2, 200, cases[i].left);
        single(&job, 1, FLAG_RECV, 0, 0, 1, 1000, 1010);
        single(&job, 1, FLAG_RECV, 0, 1, 2, 3000, 3010);
        hand_job_open(&job, 2);
        match(&job, &kept);
        assert_int_equal(kept.count, 2);
        assert_int_equal(kept.waits.ranks[0].states_ns[WAIT_LATE_RECEIVER], cases[i].waited);
        assert_int_equal(kept.waits.ranks[1].waited_for_ns, cases[i].waited);
        finish(&job, &kept);
    }
}

/* A connection that holds twelve messages: send k ends when receive k - 12 begins. */
static void room_is_made_by_receives_long_before(void **state) {
    (void)state;
    enum { HELD = 12, SENDS = 24 };
    struct hand_job job;
    make(&job, 2, 0);
    for (uint32_t k = 0; k < SENDS; k++) {
        uint64_t taken = 10000 + 1000 * (uint64_t)k, posted = k < HELD ? 100 + k : taken - HELD * 1000 - 900;
        single(&job, 0, FLAG_SEND, 1, k, k + 1, posted, k < HELD ? posted + 1 : taken - HELD * 1000 + 5);
        single(&job, 1, FLAG_RECV, 0, k, k + 1, taken, taken + 10);
    }
    hand_job_open(&job, 2);
    match(&job, &kept);
    assert_int_equal(kept.waits.ranks[0].states_ns[WAIT_LATE_RECEIVER], (SENDS - HELD) * 900);
    finish(&job, &kept);
}

/* Between two GPUs whose clocks may each be off by 10 ns, what takes 161 ns is timed well enough. */
static void a_link_between_gpus_is_timed_to_an_eighth(void **state) {
    (void)state;
    for (uint64_t took = 160; took <= 176; took += 16) {
        struct hand_job job;
        struct links links;
        make(&job, 2, 10);
        single(&job, 0, FLAG_SEND, 1, 0, 1, 1000, 1000 + took);
        single(&job, 1, FLAG_RECV, 0, 0, 1, 1000, 1000 + took);
        hand_job_open(&job, 2);
        match(&job, &kept);
        assert_true(links_init(&links, &job.clock, &job.directory));
        links_add(&links, &kept.items[0]);
        assert_int_equal(links.cells.count, took > 160);
        links_free(&links);
        finish(&job, &kept);
    }
}

/* Groups whose launches were lost must not be taken for others' later on. */
static void launches_that_were_lost_leave_messages_unmatched(void **state) {
    (void)state;
    struct hand_job job;
    make(&job, 2, 0);
    for (uint32_t k = 0; k < 20; k++)
        for (unsigned rank = 0; rank < 2; rank++) {
            struct record half = posted(rank ? FLAG_RECV : FLAG_SEND, rank ? 0 : 1, k, 3 * k + 1, 3 * k + 2, 1000 * k);
            dump_builder_record(job.builders[rank], 0, &half);
            if (rank == 0 || k % 2)
                launch(&job, rank, 3 * k + 2, 1000 * k + 10, 1000 * k + 20, 1000 * k + 90);
        }
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept);
    assert_int_equal(totals.messages, 10);
    for (size_t i = 0; i < kept.count; i++)
        assert_int_equal(kept.items[i].ordinal % 2, 1);
    finish(&job, &kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpu_waits_for_a_late_sender),
        cmocka_unit_test(a_wait_within_the_error_of_both_gpus_clocks_is_none),
        cmocka_unit_test(messages_are_numbered_by_their_calls),
        cmocka_unit_test(what_graphs_replay_is_matched_by_the_number_of_the_replay),
        cmocka_unit_test(a_group_waits_for_the_one_that_came_late),
        cmocka_unit_test(a_wide_first_anchor_hides_waits_until_the_second),
        cmocka_unit_test(a_captured_group_waits_in_each_replay),
        cmocka_unit_test(a_group_of_sends_waits_for_the_last_receiver),
        cmocka_unit_test(a_group_that_reduces_too_waits_once),
        cmocka_unit_test(workers_share_the_messages_of_groups),
        cmocka_unit_test(a_gpus_clock_may_be_ahead_of_the_host),
        cmocka_unit_test(streams_are_put_in_order),
        cmocka_unit_test(a_send_waits_for_room),
        cmocka_unit_test(room_is_made_by_receives_long_before),
        cmocka_unit_test(a_link_between_gpus_is_timed_to_an_eighth),
        cmocka_unit_test(launches_that_were_lost_leave_messages_unmatched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
