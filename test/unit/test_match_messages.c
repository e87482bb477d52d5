/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: which send belongs to which receive, and what a late half costs.
 * Lives here: worlds by hand with integer answers, random exchanges against a matcher that tries everything.
 * Must not live here: collectives (test_match.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/waits/waits.h"
#include "analyzer/match/match.h"
#include "test/scenes/scene.h"
#include "test/unit/job_builder.h"

enum { MESSAGES_MAX = 4096 };

struct kept {
    struct waits waits;
    struct match_message items[MESSAGES_MAX];
    size_t count;
};

static void keep_message(void *state, const struct match_message *message) {
    struct kept *kept = state;
    waits_add_message(&kept->waits, message);
    assert_true(kept->count < MESSAGES_MAX);
    kept->items[kept->count++] = *message;
}

static struct match_totals match(struct hand_job *job, struct kept *kept, unsigned workers) {
    static struct kept others[4];
    const struct match_sink sink = {.message = keep_message};
    struct match_totals totals;
    void *states[4] = {kept, &others[1], &others[2], &others[3]};
    kept->count = 0;
    assert_true(waits_init(&kept->waits, &job->clock, &job->directory));
    for (unsigned w = 1; w < workers; w++) {
        others[w].count = 0;
        assert_true(waits_init(&others[w].waits, &job->clock, &job->directory));
    }
    assert_true(match_run(&job->clock, &job->directory, &sink, states, workers, &totals));
    for (unsigned w = 1; w < workers; w++) {
        memcpy(kept->items + kept->count, others[w].items, others[w].count * sizeof *kept->items);
        kept->count += others[w].count;
        waits_merge(&kept->waits, &others[w].waits);
        waits_free(&others[w].waits);
    }
    return totals;
}

static struct kept kept;

static void finish(struct hand_job *job) {
    waits_free(&kept.waits);
    hand_job_free(job);
}

static void a_receiver_waits_for_a_late_sender(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    struct record *send = dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 5, 0, 100, 900, 950);
    send->op = 0; /* as the library leaves it: nothing joins a blocking send */
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 5, 0, 100, 200, 980);
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept, 1);
    assert_int_equal(totals.halves, 2);
    assert_int_equal(totals.messages, 1);
    assert_int_equal(totals.halves_alone, 0);
    assert_int_equal(kept.items[0].from, 0);
    assert_int_equal(kept.items[0].to, 1);
    assert_int_equal(kept.items[0].tag, 5);
    assert_int_equal(kept.waits.ranks[1].wait_ns, 700);
    assert_int_equal(kept.waits.ranks[1].states_ns[WAIT_LATE_SENDER], 700);
    assert_int_equal(kept.waits.ranks[0].waited_for_ns, 700);
    assert_int_equal(kept.waits.ranks[0].wait_ns, 0);
    finish(&job);
}

/* A receive without a status knows the size of its buffer alone, whichever half is found first. */
static void a_message_has_the_size_that_was_sent(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    const uint16_t posted = FLAG_RECV | FLAG_BYTES_POSTED;
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 5, 0, 100, 100, 120);
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, posted, 0, 5, 0, 1 << 20, 200, 980);
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, posted, 0, 5, 1, 1 << 20, 1000, 2000);
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 5, 1, 200, 1990, 2010);
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 5, 2, BYTES_UNKNOWN, 3000, 3010);
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, posted, 0, 5, 2, 1 << 20, 3000, 3020);
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 5, 3, BYTES_UNKNOWN, 4000, 4010);
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 5, 3, 300, 4000, 4020);
    hand_job_open(&job, 2);
    match(&job, &kept, 1);
    const uint64_t bytes[] = {100, 200, BYTES_UNKNOWN, 300};
    assert_int_equal(kept.count, 4);
    for (size_t i = 0; i < kept.count; i++)
        assert_int_equal(kept.items[i].bytes, bytes[kept.items[i].ordinal]);
    finish(&job);
}

static void only_a_rendezvous_waits_for_a_late_receiver(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    /* eager: gone long before the receiver came; rendezvous: gone just after */
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 5, 0, 100, 100, 120);
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 5, 0, 100, 500, 510);
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 5, 1, 100, 600, 1010);
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 5, 1, 100, 1000, 1020);
    hand_job_open(&job, 2);
    match(&job, &kept, 1);
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.waits.ranks[0].states_ns[WAIT_LATE_RECEIVER], 400);
    assert_int_equal(kept.waits.ranks[1].waited_for_ns, 400);
    assert_int_equal(kept.waits.ranks[1].wait_ns, 0);
    finish(&job);
}

static void of_a_posted_receive_only_the_wait_counts(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    struct record receive = {.call = BUILDER_IRECV,
                             .comm = 0,
                             .flags = FLAG_RECV,
                             .peer = 0,
                             .tag = 1,
                             .seq = 0,
                             .op = 1,
                             .bytes = 8,
                             .kind = RECORD_POST,
                             .t0 = 100,
                             .t1 = 110};
    dump_builder_record(job.builders[1], 0, &receive);
    receive.kind = RECORD_DONE;
    receive.t1 = 1000;
    dump_builder_record(job.builders[1], 0, &receive);
    dump_builder_plain(job.builders[1], 0, BUILDER_WAIT, 600, 1000);
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 1, 0, 8, 900, 950);
    hand_job_open(&job, 2);
    match(&job, &kept, 1);
    assert_int_equal(kept.count, 1);
    assert_int_equal(kept.waits.ranks[1].wait_ns, 300);
    finish(&job);
}

/* Rank 0 posts `count` sends to rank 1, and one Waitall from `count` to 2 * `count` sees them all complete. */
static void post_sends_and_wait_for_all(struct hand_job *job, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        dump_builder_p2p(job->builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 1, i, 8, 3 * count + i, 3 * count + i + 1);
    for (uint32_t i = 0; i < count; i++) {
        struct record send = {.call = BUILDER_ISEND,
                              .comm = 0,
                              .flags = FLAG_SEND,
                              .peer = 1,
                              .tag = 1,
                              .seq = i,
                              .op = i + 1,
                              .bytes = 8,
                              .kind = RECORD_DONE,
                              .t0 = i,
                              .t1 = 2 * count};
        dump_builder_record(job->builders[0], 0, &send);
    }
    dump_builder_plain(job->builders[0], 0, BUILDER_WAITALL, count, 2 * count);
}

/* However many a call saw complete, each is handed out once; the last of them at least with the call. */
static void any_number_of_completions_may_come_before_their_wait(void **state) {
    (void)state;
    const uint32_t counts[] = {1, 255, 256, 257, 258, 512, 513, 514, 1024};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (unsigned workers = 1; workers <= 4; workers++) {
            struct hand_job job;
            uint32_t count = counts[c], seen = 0;
            hand_job_make(&job, 2, (struct dump_plan){.ring_records = 4096});
            post_sends_and_wait_for_all(&job, count);
            hand_job_open(&job, 2);
            struct match_totals totals = match(&job, &kept, workers);
            assert_int_equal(totals.messages, count);
            assert_int_equal(kept.count, count);
            for (size_t i = 0; i < kept.count; i++) {
                const struct match_member *send = &kept.items[i].send;
                assert_int_equal(send->shared, count > 1);
                assert_true(send->wait == count || send->wait == send->leave);
                seen += send->wait == count;
            }
            assert_in_range(seen, count < 256 ? count : 1, count);
            finish(&job);
        }
}

/* A damaged completion ends before it begins: that must not make what is held differ from what is counted. */
static void completions_that_end_before_they_begin_are_held_like_others(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){.ring_records = 4096});
    dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, 10, 20);
    for (uint32_t i = 0; i < 1024; i++) {
        struct record done = {.call = BUILDER_IALLREDUCE,
                              .comm = 0,
                              .flags = FLAG_COLLECTIVE,
                              .peer = PEER_NONE,
                              .seq = i,
                              .op = i + 1,
                              .kind = RECORD_DONE,
                              .t0 = i % 2 ? 500 : 0,
                              .t1 = 15};
        dump_builder_record(job.builders[0], 0, &done);
    }
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept, 1);
    assert_int_equal(totals.collective, 1024);
    assert_int_equal(totals.partial, 1024);
    finish(&job);
}

static void what_cannot_be_paired_is_counted(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 2, 5, 0, 8, 100, 120); /* 2 has no dump */
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 5, 0, 8, 130, 140); /* never received */
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, FLAG_RECV | FLAG_WILDCARD | FLAG_ORDINAL_UNKNOWN, 0, 9, 0, 8,
                     200, 300);
    struct record *forgotten =
        dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 6, SEQ_NONE, 8, 150, 160);
    forgotten->op = 0; /* its channel's number was evicted */
    hand_job_open(&job, 2);
    struct match_totals totals = match(&job, &kept, 1);
    assert_int_equal(kept.count, 0);
    assert_int_equal(totals.halves, 1);
    assert_int_equal(totals.halves_alone, 1);
    assert_int_equal(totals.halves_unmatchable, 3);
    finish(&job);
}

/* A receive of rank 1 from any source: it took a message of rank `from`. */
static void receive_any(struct hand_job *job, uint32_t op, int32_t from, uint64_t post, uint64_t seen) {
    struct record receive = {.call = BUILDER_IRECV,
                             .comm = 0,
                             .peer = from,
                             .tag = 4,
                             .seq = SEQ_NONE,
                             .op = op,
                             .flags = FLAG_RECV | FLAG_WILDCARD | FLAG_ORDINAL_UNKNOWN,
                             .bytes = 8,
                             .kind = RECORD_DONE,
                             .t0 = post,
                             .t1 = seen};
    dump_builder_record(job->builders[1], 0, &receive);
    struct operation_row *row = dump_builder_operation(job->builders[1], 0); /* the table knows of receives, too */
    row->call = BUILDER_IRECV;
    row->source = SOURCE_HOST;
    row->comm_epoch = 0;
    row->bytes = op;
    dump_builder_count(row, op, 10);
}

/* Posted in the order 1, 2, 3 but seen complete in another: each takes its channel's next message. */
static void play_any(struct hand_job *job) {
    hand_job_make(job, 3, (struct dump_plan){.lanes = 2});
    dump_builder_p2p(job->builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 4, 0, 8, 100, 101);
    dump_builder_p2p(job->builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 4, 1, 8, 200, 201);
    dump_builder_p2p(job->builders[2], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 4, 0, 8, 150, 151);
    receive_any(job, 3, 0, 30, 300);
    receive_any(job, 1, 0, 10, 310);
    receive_any(job, 2, 2, 20, 320);
}

static void receives_from_any_source_are_numbered_in_the_order_they_were_posted(void **state) {
    (void)state;
    struct hand_job job;
    play_any(&job);
    hand_job_open(&job, 3);
    struct match_totals totals = match(&job, &kept, 2);
    assert_int_equal(totals.messages, 3);
    for (size_t i = 0; i < kept.count; i++) {
        const struct match_message *m = &kept.items[i];
        assert_int_equal(m->receive.enter, m->from == 2 ? 20 : m->ordinal == 0 ? 10 : 30);
        assert_int_equal(m->send.enter, m->from == 2 ? 150 : m->ordinal == 0 ? 100 : 200);
    }
    finish(&job);
}

static void a_receive_that_is_still_out_leaves_them_unnumbered(void **state) {
    (void)state;
    struct hand_job job;
    play_any(&job);
    struct pending *pending = dump_builder_pending(job.builders[1]);
    pending->call = BUILDER_IRECV;
    pending->flags = FLAG_RECV;
    pending->op = 4;
    hand_job_open(&job, 3);
    struct match_totals totals = match(&job, &kept, 1);
    assert_int_equal(totals.messages, 0);
    assert_int_equal(totals.halves_unmatchable, 3);
    finish(&job);
}

/* A persistent receive of rank 1: prepared, and under way or not. */
static void prepare_receive(struct hand_job *job, bool started) {
    struct pending *pending = dump_builder_pending(job->builders[1]);
    pending->call = BUILDER_IRECV;
    pending->flags = FLAG_RECV;
    pending->op = 4;
    pending->persistent = 1;
    pending->active = started;
}

static void a_persistent_receive_hinders_only_while_it_is_started(void **state) {
    (void)state;
    for (int started = 0; started < 2; started++) {
        struct hand_job job;
        play_any(&job);
        prepare_receive(&job, started);
        hand_job_open(&job, 3);
        struct match_totals totals = match(&job, &kept, 1);
        assert_int_equal(totals.messages, started ? 0 : 3);
        finish(&job);
    }
}

/* A record with a partner, of no operation: a blocking call that is none, or one that prepares a persistent one. */
static void add_without_operation(struct hand_job *job, int rank, uint16_t call, uint16_t flag, int32_t peer,
                                  uint32_t seq, uint64_t at) {
    dump_builder_p2p(job->builders[rank], 0, call, 0, flag, peer, 4, seq, 8, at, at + 1)->op = 0;
}

static void what_is_no_operation_takes_no_message(void **state) {
    (void)state;
    struct hand_job job;
    play_any(&job);
    add_without_operation(&job, 1, BUILDER_RECV, FLAG_RECV, 0, SEQ_NONE, 5); /* a probe */
    add_without_operation(&job, 1, BUILDER_IRECV, FLAG_RECV, 0, SEQ_NONE, 25);
    add_without_operation(&job, 0, BUILDER_ISEND, FLAG_SEND, 1, SEQ_NONE, 26);
    hand_job_open(&job, 3);
    struct match_totals totals = match(&job, &kept, 2);
    assert_int_equal(totals.messages, 3);
    assert_int_equal(totals.halves_unmatchable, 0);
    finish(&job);
}

static void a_blocking_send_needs_no_operation(void **state) {
    (void)state;
    struct hand_job job;
    play_any(&job);
    add_without_operation(&job, 0, BUILDER_SEND, FLAG_SEND, 1, 2, 210);
    receive_any(&job, 4, 0, 40, 330);
    hand_job_open(&job, 3);
    struct match_totals totals = match(&job, &kept, 2);
    assert_int_equal(totals.messages, 4);
    finish(&job);
}

/* `other`: a thread of rank 1 in another lane received something as well. */
static uint64_t messages_of_threads(bool other, bool shared) {
    struct hand_job job;
    play_any(&job);
    for (int r = 0; r < 3; r++)
        dump_builder_header(job.builders[r])->state |= STATE_THREAD_MULTIPLE;
    dump_builder_lane(job.builders[1], 0)->shared = shared;
    if (other)
        dump_builder_p2p(job.builders[1], 1, BUILDER_RECV, 0, FLAG_RECV, 2, 7, 0, 8, 400, 410);
    hand_job_open(&job, 3);
    struct match_totals totals = match(&job, &kept, 1);
    finish(&job);
    return totals.messages;
}

static void threads_that_may_post_at_once_leave_receives_unnumbered(void **state) {
    (void)state;
    assert_int_equal(messages_of_threads(false, false), 3);
    assert_int_equal(messages_of_threads(true, false), 0);
    assert_int_equal(messages_of_threads(false, true), 0);
}

/* Whose message a freed request took nobody is told: those behind it may have moved up by one. */
static void a_receive_freed_unseen_leaves_them_unnumbered(void **state) {
    (void)state;
    struct hand_job job;
    play_any(&job);
    receive_any(&job, 4, PEER_ANY, 40, 330);
    hand_job_open(&job, 3);
    struct match_totals totals = match(&job, &kept, 1);
    assert_int_equal(totals.messages, 0);
    finish(&job);
}

/* ---- random exchanges ------------------------------------------------------------------------ */

enum { RANKS = 5, ROUNDS = 300, TAGS = 3 };

struct truth {
    uint32_t from, to, ordinal;
    int32_t tag;
    int64_t sent, received;
};

/* Every channel counts for itself, as MPI's order does; times go on at random. */
static size_t play(struct hand_job *job, uint64_t seed, struct truth *truth) {
    uint32_t sent[RANKS][RANKS][TAGS] = {{{0}}};
    uint64_t now[RANKS], random = seed * 31 + 7;
    for (unsigned r = 0; r < RANKS; r++)
        now[r] = 1000;
    for (size_t i = 0; i < ROUNDS; i++) {
        unsigned from = (unsigned)(scene_uniform(&random) * RANKS);
        unsigned to = (from + 1 + (unsigned)(scene_uniform(&random) * (RANKS - 1))) % RANKS;
        int32_t tag = (int32_t)(scene_uniform(&random) * TAGS);
        uint32_t ordinal = sent[from][to][tag]++;
        uint64_t send = now[from] += (uint64_t)(scene_uniform(&random) * 500) + 1;
        uint64_t receive = now[to] += (uint64_t)(scene_uniform(&random) * 500) + 1;
        uint64_t end = (send > receive ? send : receive) + 10;
        now[from] = send + 10;
        now[to] = end;
        dump_builder_p2p(job->builders[from], 0, BUILDER_SEND, 0, FLAG_SEND, (int32_t)to, tag, ordinal, 8, send,
                         send + 10);
        dump_builder_p2p(job->builders[to], 0, BUILDER_RECV, 0, FLAG_RECV, (int32_t)from, tag, ordinal, 8, receive,
                         end);
        truth[i] = (struct truth){from, to, ordinal, tag, (int64_t)send, (int64_t)receive};
    }
    return ROUNDS;
}

/* Tries every message of the truth. */
static bool is_true(const struct truth *truth, size_t count, const struct match_message *m) {
    for (size_t i = 0; i < count; i++)
        if (truth[i].from == m->from && truth[i].to == m->to && truth[i].tag == m->tag &&
            truth[i].ordinal == m->ordinal)
            return truth[i].sent == m->send.enter && truth[i].received == m->receive.enter;
    return false;
}

static void random_exchanges_match_as_they_were(void **state) {
    (void)state;
    static struct truth truth[ROUNDS];
    for (uint64_t seed = 1; seed <= 20; seed++)
        for (unsigned workers = 1; workers <= 4; workers++) {
            struct hand_job job;
            hand_job_make(&job, RANKS, (struct dump_plan){0});
            size_t count = play(&job, seed, truth);
            hand_job_open(&job, RANKS);
            struct match_totals totals = match(&job, &kept, workers);
            assert_int_equal(totals.messages, count);
            assert_int_equal(kept.count, count);
            for (size_t i = 0; i < kept.count; i++)
                assert_true(is_true(truth, count, &kept.items[i]));
            finish(&job);
        }
}

static void truncation_never_makes_a_false_match(void **state) {
    (void)state;
    static struct truth truth[ROUNDS];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hand_job job;
        /* rings too small for everything: each rank forgets a different beginning */
        hand_job_make(&job, RANKS, (struct dump_plan){.ring_records = 32});
        size_t count = play(&job, seed, truth);
        hand_job_open(&job, RANKS);
        struct match_totals totals = match(&job, &kept, 1);
        assert_true(totals.messages < count && totals.messages > 0);
        assert_int_equal(totals.halves, 2 * totals.messages + totals.halves_alone);
        for (size_t i = 0; i < kept.count; i++)
            assert_true(is_true(truth, count, &kept.items[i]));
        finish(&job);
    }
}

/* ---- random programs -------------------------------------------------------------------------- */

enum { PROGRAM_RANKS = 4, PROGRAM_MESSAGES = 80, PROGRAM_TAGS = 2 };

struct half {
    unsigned from, to;
    int32_t tag;
    uint64_t at; /* its call was entered; unique */
    bool taken;
};

/* A legal program: sends of all kinds, each in some order, and receives posted in an order of their own, any of which
 * may be from anywhere, seen complete in a third one. Which message a receive got is not written down anywhere. */
struct program {
    struct half sends[PROGRAM_MESSAGES];    /* as they were sent */
    struct half receives[PROGRAM_MESSAGES]; /* as they were posted */
};

static void shuffle(size_t *order, size_t count, uint64_t *random) {
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)(scene_uniform(random) * (double)i), kept_item = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept_item;
    }
}

static void write_program(struct program *program, uint64_t *random) {
    size_t order[PROGRAM_MESSAGES];
    for (size_t i = 0; i < PROGRAM_MESSAGES; i++) {
        unsigned from = (unsigned)(scene_uniform(random) * PROGRAM_RANKS);
        unsigned to = (from + 1 + (unsigned)(scene_uniform(random) * (PROGRAM_RANKS - 1))) % PROGRAM_RANKS;
        program->sends[i] =
            (struct half){from, to, (int32_t)(scene_uniform(random) * PROGRAM_TAGS), 1000 + 20 * i, false};
    }
    shuffle(order, PROGRAM_MESSAGES, random);
    for (size_t i = 0; i < PROGRAM_MESSAGES; i++) {
        program->receives[i] = program->sends[order[i]];
        program->receives[i].at = 1010 + 20 * i;
    }
}

static void play_sends(struct hand_job *job, const struct program *program, uint64_t *random) {
    uint32_t sent[PROGRAM_RANKS][PROGRAM_RANKS][PROGRAM_TAGS] = {{{0}}};
    for (size_t i = 0; i < PROGRAM_MESSAGES; i++) {
        const struct half *send = &program->sends[i];
        bool posted = scene_uniform(random) < 0.5;
        struct record record = {.call = posted ? BUILDER_ISEND : BUILDER_SEND,
                                .peer = (int32_t)send->to,
                                .tag = send->tag,
                                .seq = sent[send->from][send->to][send->tag]++,
                                .op = (uint32_t)(PROGRAM_MESSAGES + i),
                                .flags = FLAG_SEND,
                                .bytes = 8,
                                .kind = posted ? RECORD_POST : RECORD_CALL,
                                .t0 = send->at,
                                .t1 = send->at + 2};
        dump_builder_record(job->builders[send->from], 0, &record);
        if (posted) {
            record.kind = RECORD_DONE;
            record.t1 = 9000;
            dump_builder_record(job->builders[send->from], 0, &record);
        }
        struct operation_row *row = dump_builder_operation(job->builders[send->from], 0);
        row->call = record.call;
        row->source = SOURCE_HOST;
        row->bytes = i;
        dump_builder_count(row, 8, 2);
    }
}

static void play_receives(struct hand_job *job, const struct program *program, uint64_t *random) {
    size_t order[PROGRAM_MESSAGES];
    shuffle(order, PROGRAM_MESSAGES, random);
    for (size_t i = 0; i < PROGRAM_MESSAGES; i++) {
        const struct half *receive = &program->receives[order[i]];
        bool anywhere = scene_uniform(random) < 0.5;
        struct record record = {.call = BUILDER_IRECV,
                                .peer = (int32_t)receive->from,
                                .tag = receive->tag,
                                .seq = SEQ_NONE,
                                .op = (uint32_t)order[i] + 1,
                                .flags = (uint16_t)(FLAG_RECV | FLAG_ORDINAL_UNKNOWN | (anywhere ? FLAG_WILDCARD : 0)),
                                .bytes = 8,
                                .kind = RECORD_DONE,
                                .t0 = receive->at,
                                .t1 = 5000 + i};
        dump_builder_record(job->builders[receive->to], 0, &record);
        struct operation_row *row = dump_builder_operation(job->builders[receive->to], 0);
        row->call = BUILDER_IRECV;
        row->source = SOURCE_HOST;
        row->bytes = i;
        dump_builder_count(row, 8, 2);
    }
}

/* MPI's rule, and nothing else: the receives as they were posted each take the first message that is left of those that
 * fit. Returns when the message was sent. */
static uint64_t take_first(struct program *program, const struct half *receive) {
    for (size_t i = 0; i < PROGRAM_MESSAGES; i++) {
        struct half *send = &program->sends[i];
        if (!send->taken && send->from == receive->from && send->to == receive->to && send->tag == receive->tag) {
            send->taken = true;
            return send->at;
        }
    }
    return 0;
}

static void random_programs_match_as_trying_everything_does(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct program program;
        struct hand_job job;
        uint64_t random = seed * 77 + 5;
        hand_job_make(&job, PROGRAM_RANKS, (struct dump_plan){.operations = 256});
        write_program(&program, &random);
        play_sends(&job, &program, &random);
        play_receives(&job, &program, &random);
        hand_job_open(&job, PROGRAM_RANKS);
        struct match_totals totals = match(&job, &kept, 1 + (unsigned)seed % 4);
        assert_int_equal(totals.messages, PROGRAM_MESSAGES);
        for (size_t r = 0; r < PROGRAM_MESSAGES; r++) {
            size_t found = 0;
            uint64_t sent = take_first(&program, &program.receives[r]);
            for (size_t i = 0; i < kept.count; i++)
                found += kept.items[i].receive.enter == (int64_t)program.receives[r].at &&
                         kept.items[i].send.enter == (int64_t)sent && kept.items[i].from == program.receives[r].from;
            assert_int_equal(found, 1);
        }
        finish(&job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receiver_waits_for_a_late_sender),
        cmocka_unit_test(a_message_has_the_size_that_was_sent),
        cmocka_unit_test(only_a_rendezvous_waits_for_a_late_receiver),
        cmocka_unit_test(of_a_posted_receive_only_the_wait_counts),
        cmocka_unit_test(any_number_of_completions_may_come_before_their_wait),
        cmocka_unit_test(completions_that_end_before_they_begin_are_held_like_others),
        cmocka_unit_test(what_cannot_be_paired_is_counted),
        cmocka_unit_test(receives_from_any_source_are_numbered_in_the_order_they_were_posted),
        cmocka_unit_test(a_receive_that_is_still_out_leaves_them_unnumbered),
        cmocka_unit_test(a_persistent_receive_hinders_only_while_it_is_started),
        cmocka_unit_test(what_is_no_operation_takes_no_message),
        cmocka_unit_test(a_blocking_send_needs_no_operation),
        cmocka_unit_test(threads_that_may_post_at_once_leave_receives_unnumbered),
        cmocka_unit_test(a_receive_freed_unseen_leaves_them_unnumbered),
        cmocka_unit_test(random_exchanges_match_as_they_were),
        cmocka_unit_test(truncation_never_makes_a_false_match),
        cmocka_unit_test(random_programs_match_as_trying_everything_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
