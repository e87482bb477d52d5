/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts on jobs that hang for a known reason, and on those that only look like it.
 * Lives here: random scenes of every fault (test/scenes/hang.h), small ones by hand, histories that part.
 * Must not live here: real jobs (test/e2e/test_diagnose.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/base/and_or_graph.h"
#include "analyzer/findings/diagnosis_text.h"
#include "analyzer/wait_for_graph/ranks.h"
#include "test/scenes/hang.h"
#include "test/scenes/scene.h"

enum { SEEDS = 40, RING = 16, HUNG_AT = 1000 /* ms */, CALL_MS = 20 };
#define MS UINT64_C(1000000)

/* ---- judging --------------------------------------------------------------------------------- */

struct judged {
    struct job job;
    struct diagnosis diagnosis;
    struct diagnosis_text text;
};

static void judge_asked(struct judged *judged, const struct dump_set *set, const struct diagnose_request *request) {
    assert_int_equal(job_select(&judged->job, set, NULL, NULL), 0);
    assert_true(diagnose(&judged->diagnosis, &judged->job, request));
    assert_true(diagnosis_text_make(&judged->text, &judged->diagnosis, request, NULL));
}

static void judge(struct judged *judged, const struct dump_set *set, const enum process_state *states, bool settled) {
    judge_asked(judged, set, &(struct diagnose_request){.states = states, .settled = settled});
}

static void judged_free(struct judged *judged) {
    diagnosis_text_free(&judged->text);
    diagnosis_free(&judged->diagnosis);
    job_free(&judged->job);
}

static void say_wrong(const struct hang_scene *scene, const struct judged *judged, const char *what) {
    fprintf(stderr, "%s, seed %llu, %u ranks: wrong %s: %s\n", fault_name(scene->fault),
            (unsigned long long)scene->seed, scene->ranks, what, verdict_name(judged->diagnosis.verdict));
    for (size_t i = 0; i < judged->text.sentence_count; i++)
        fprintf(stderr, "    %s\n", judged->text.sentences[i]);
}

/* The guilty ranks are named and, where they are all the circle, nobody else. Where the truth has it, as what they
 * are; of a job that was killed as a whole, nobody was seen dead. */
static bool names_the_guilty(const struct hang_job *job, const struct diagnosis *diagnosis) {
    bool named[64] = {false};
    for (size_t i = 0; i < diagnosis->culprit_count; i++) {
        named[diagnosis->world.parties[diagnosis->culprits[i].party].rank] = true;
        if (job->stated && diagnosis->culprits[i].state != job->state)
            return false;
    }
    bool exact = job->verdict != VERDICT_DEADLOCK || job->in_circle;
    for (unsigned r = 0; r < job->ranks; r++)
        if (job->guilty[r] ? !named[r] : named[r] && exact)
            return false;
    return true;
}

static bool names_the_collective(const struct hang_job *job, const struct diagnosis *diagnosis) {
    const struct mismatch *mismatch = &diagnosis->mismatch;
    return job->seq == SEQ_NONE || (mismatch->communicator && mismatch->communicator->uid == job->uid &&
                                    mismatch->from_seq == job->seq && mismatch->to_seq == job->seq);
}

static unsigned try_scene(const struct hang_scene *scene) {
    struct hang_job job;
    struct judged judged;
    unsigned wrong = 0;
    hang_open(&job, scene);
    judge(&judged, &job.set, job.states, true);
    const char *what = judged.diagnosis.verdict != job.verdict          ? "verdict"
                       : !names_the_guilty(&job, &judged.diagnosis)     ? "culprits"
                       : !names_the_collective(&job, &judged.diagnosis) ? "collective"
                                                                        : NULL;
    if (what)
        say_wrong(scene, &judged, what);
    wrong += what != NULL;
    judged_free(&judged);
    if (!job.dies) { /* killed as a whole: who was dead before is not known then */
        enum process_state *gone = calloc(job.ranks, sizeof *gone);
        enum verdict verdict = job.on_gpus ? VERDICT_HANG : job.verdict;
        judge(&judged, &job.set, gone, false);
        if (judged.diagnosis.verdict != verdict || !names_the_guilty(&job, &judged.diagnosis)) {
            say_wrong(scene, &judged, "once killed");
            wrong++;
        }
        judged_free(&judged);
        free(gone);
    }
    hang_close(&job);
    return wrong;
}

static void every_single_fault_is_found(void **state) {
    unsigned wrong = 0;
    (void)state;
    for (int fault = FAULT_NONE; fault < FAULTS; fault++)
        for (unsigned seed = 0; seed < SEEDS; seed++) {
            const struct hang_scene scene = {.seed = seed * 100 + (unsigned)fault,
                                             .ranks = 4 + seed % 9,
                                             .before = seed % 5 * 40,
                                             .after = 30,
                                             .fault = (enum fault)fault,
                                             .ring_records = RING};
            wrong += try_scene(&scene);
        }
    assert_int_equal(wrong, 0);
}

static void many_ranks(void **state) {
    (void)state;
    static const enum fault faults[] = {FAULT_STOP,         FAULT_RING,      FAULT_NCCL_STREAM, FAULT_NCCL_TRANSPORT,
                                        FAULT_MIXED_CIRCLE, FAULT_NCCL_SWAP, FAULT_NCCL_DTYPE};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct hang_job job;
        struct judged judged;
        const struct hang_scene scene = {
            .seed = 5, .ranks = 512, .before = 4, .after = 4, .fault = faults[i], .ring_records = RING};
        hang_open(&job, &scene);
        judge(&judged, &job.set, job.states, true);
        assert_int_equal(judged.diagnosis.verdict, job.verdict);
        judged_free(&judged);
        hang_close(&job);
    }
}

/* ---- torn ------------------------------------------------------------------------------------ */

enum { TORN_RANKS = 16 };

/* Opens a job's dumps again, each second one of them cut somewhere: those that are still dumps. */
static void tear(const struct hang_job *job, struct dump **dumps, struct dump_set *set, uint64_t *random) {
    *set = (struct dump_set){.directory = "torn", .dumps = dumps, .duplicate = job->set.duplicate};
    for (unsigned r = 0; r < job->ranks; r++) {
        size_t bytes;
        const void *data = dump_builder_data(job->builders[r], &bytes);
        if (scene_random(random) % 2)
            bytes = scene_random(random) % bytes;
        struct dump *dump = dump_open_buffer("torn", data, bytes);
        assert_non_null(dump);
        if (dump->header)
            dumps[set->count++] = dump;
        else
            dump_close(dump);
    }
}

/* Plays a scene, tears the dumps and judges what is left of a job that is gone. Returns false where nothing is. */
static bool judge_torn(const struct hang_scene *scene, uint64_t *random, enum verdict *truth, enum verdict *said) {
    const enum process_state gone[TORN_RANKS] = {PROCESS_GONE};
    struct hang_job job;
    struct judged judged;
    struct dump *dumps[TORN_RANKS];
    struct dump_set set;
    hang_open(&job, scene);
    tear(&job, dumps, &set, random);
    bool some = set.count > 0;
    *truth = job.verdict;
    if (some) {
        judge(&judged, &set, gone, false);
        *said = judged.diagnosis.verdict;
        if ((*said == VERDICT_DEADLOCK || *said == VERDICT_DESYNC) && *said != *truth)
            say_wrong(scene, &judged, "once torn");
        judged_free(&judged);
    }
    for (size_t d = 0; d < set.count; d++)
        dump_close(dumps[d]);
    hang_close(&job);
    return some;
}

/* A legal program that is killed at any moment: no deadlock, no mismatch and nobody dead, whatever part is missing. */
static void killed_at_any_moment(void **state) {
    uint64_t random = 12;
    unsigned wrong = 0, torn = 0;
    (void)state;
    for (unsigned seed = 0; seed < 300; seed++) {
        const enum process_state gone[TORN_RANKS] = {PROCESS_GONE};
        const struct hang_scene scene = {.seed = seed,
                                         .ranks = 4 + seed % 9,
                                         .before = 60,
                                         .moments = 1 + (unsigned)(scene_random(&random) % 2000),
                                         .fault = seed % 2 ? FAULT_NCCL_NONE : FAULT_NONE,
                                         .ring_records = RING};
        struct hang_job job;
        struct judged judged;
        enum verdict truth, said;
        hang_open(&job, &scene);
        judge(&judged, &job.set, gone, false);
        said = judged.diagnosis.verdict;
        if (said != VERDICT_OK && said != VERDICT_HANG && said != VERDICT_UNKNOWN) {
            say_wrong(&scene, &judged, "at work");
            wrong++;
        }
        judged_free(&judged);
        hang_close(&job);
        bool some = judge_torn(&scene, &random, &truth, &said);
        torn += some;
        wrong += some && (said == VERDICT_DEADLOCK || said == VERDICT_DESYNC);
    }
    assert_int_equal(wrong, 0);
    assert_true(torn > 250);
}

/* Of a job that hangs, the same is said or less: whoever's dump is torn may be to blame. */
static void torn_dumps_of_a_hang(void **state) {
    uint64_t random = 13;
    unsigned wrong = 0, same = 0, torn = 0;
    (void)state;
    for (unsigned i = 0; i < 540; i++) {
        const struct hang_scene scene = {.seed = i,
                                         .ranks = 4 + i % 9,
                                         .before = 40,
                                         .after = 10,
                                         .fault = (enum fault)(1 + i % (FAULTS - 1)),
                                         .ring_records = RING};
        enum verdict truth, said;
        if (!judge_torn(&scene, &random, &truth, &said))
            continue;
        torn++;
        wrong += (said == VERDICT_DEADLOCK || said == VERDICT_DESYNC) && said != truth;
        same += said == truth;
    }
    assert_int_equal(wrong, 0);
    assert_in_range(same, torn / 10, torn);
}

/* ---- histories ------------------------------------------------------------------------------- */

/* A row of `length` collectives that has another one at `odd` (none: UINT64_MAX). */
static struct progress history(uint64_t length, uint64_t odd) {
    struct progress p = {.version = 2, .prefix_hash = 1};
    p.recent[0] = 1;
    for (uint64_t k = 1; k <= length; k++) {
        uint64_t mixed = p.prefix_hash * 31 + (k - 1 == odd ? 7 : 5) * k;
        p.prefix_hash = p.recent[k % 64] = scene_random(&mixed);
        if (k % 64 == 0)
            p.every[k / 64 % 64] = p.prefix_hash;
        if ((k & (k - 1)) == 0)
            p.powers[63 - __builtin_clzll(k)] = p.prefix_hash;
    }
    p.hashed = p.enqueued = length;
    return p;
}

static void histories_part_where_they_do(void **state) {
    (void)state;
    uint64_t random = 3, equal, differ;
    for (int i = 0; i < 400; i++) {
        uint64_t length = 1 + scene_random(&random) % 9000, odd = scene_random(&random) % length;
        uint64_t longer = length + scene_random(&random) % (i % 2 ? 300 : 8);
        struct progress a = history(length, UINT64_MAX), b = history(longer, odd);
        bool differs = histories_differ(&a, &b, 1, &equal, &differ);
        if (!differs) { /* too far apart to have a checkpoint in common behind the odd one */
            assert_true(longer - length >= PROGRESS_RECENT && odd / 64 == length / 64);
            continue;
        }
        assert_true(equal <= odd && odd < differ);
        if (longer - odd < PROGRESS_RECENT)
            assert_int_equal(differ - equal, 1);
        else if (longer < PROGRESS_EVERY * 64 - 64)
            assert_true(differ - equal <= 64);
        b = history(longer, UINT64_MAX);
        assert_false(histories_differ(&a, &b, 1, &equal, &differ));
    }
}

/* ---- by hand --------------------------------------------------------------------------------- */

struct hand {
    unsigned ranks;
    struct dump_builder *builders[8];
    struct dump *dumps[8];
    struct in_flight *slots[8];
    enum process_state states[8];
    bool duplicate[8];
    struct judged judged;
};

/* So many dumps, of worlds of `size`: generation after generation. */
/* Rings of so many records. */
static void hand_make_rings(struct hand *hand, unsigned ranks, unsigned size, uint32_t records) {
    *hand = (struct hand){.ranks = ranks};
    for (unsigned r = 0; r < ranks; r++) {
        const struct dump_plan plan = {
            .rank = (int32_t)(r % size), .world_size = (int32_t)size, .ring_records = records, .devices = 1};
        hand->builders[r] = dump_builder_new(&plan);
        dump_builder_header(hand->builders[r])->generation = r / size;
        dump_builder_standard_calls(hand->builders[r]);
        dump_builder_world(hand->builders[r]);
        dump_builder_progress(hand->builders[r], 0)->prefix_hash = BUILDER_WORLD_UID;
        hand->slots[r] = dump_builder_in_flight(hand->builders[r]);
        hand->slots[r]->comm = COMM_NONE;
        hand->states[r] = PROCESS_RUNS;
    }
}

static void hand_make_generations(struct hand *hand, unsigned ranks, unsigned size) {
    hand_make_rings(hand, ranks, size, RING);
}

static void hand_make(struct hand *hand, unsigned ranks) {
    hand_make_generations(hand, ranks, ranks);
}

static void hand_call(struct hand *hand, unsigned rank, uint16_t call, uint32_t flags, int32_t peer, int32_t tag,
                      uint32_t seq) {
    struct in_flight *slot = hand->slots[rank];
    *slot = (struct in_flight){.tid = slot->tid, .call = call, .flags = flags, .peer = peer, .tag = tag, .seq = seq};
    slot->comm = call == BUILDER_WAITALL || call == BUILDER_WAITANY ? COMM_NONE : 0;
}

static struct pending *hand_pending(struct hand *hand, unsigned rank, uint16_t call, uint16_t flag, int32_t peer,
                                    uint32_t op, uint32_t seq) {
    struct pending *p = dump_builder_pending(hand->builders[rank]);
    p->call = call;
    p->flags = flag;
    p->peer = peer;
    p->tag = 1;
    p->op = op;
    p->seq = seq;
    p->active = 1;
    return p;
}

static const struct diagnosis *hand_judge_asked(struct hand *hand, struct diagnose_request request) {
    for (unsigned r = 0; r < hand->ranks; r++) {
        size_t bytes;
        const void *data = dump_builder_data(hand->builders[r], &bytes);
        assert_non_null(hand->dumps[r] = dump_open_buffer("hand", data, bytes));
    }
    const struct dump_set set = {
        .directory = "hand", .dumps = hand->dumps, .count = hand->ranks, .duplicate = hand->duplicate};
    request.states = hand->states;
    judge_asked(&hand->judged, &set, &request);
    return &hand->judged.diagnosis;
}

static const struct diagnosis *hand_judge(struct hand *hand, bool settled) {
    return hand_judge_asked(hand, (struct diagnose_request){.settled = settled});
}

static void hand_free(struct hand *hand) {
    judged_free(&hand->judged);
    for (unsigned r = 0; r < hand->ranks; r++) {
        dump_close(hand->dumps[r]);
        dump_builder_free(hand->builders[r]);
    }
}

static bool says(const struct judged *judged, const char *text) {
    for (size_t i = 0; i < judged->text.sentence_count; i++)
        if (strstr(judged->text.sentences[i], text))
            return true;
    return false;
}

enum { ALLREDUCE_INIT = 242, STARTS = 50 };

/* All of three ranks prepared an allreduce as their collective #0 and started it 50 times, the last but `fewer` times.
 * Those that are ahead wait. */
static void hand_starts(struct hand *hand, int32_t fewer, bool inside) {
    hand_make(hand, 3);
    for (unsigned r = 0; r < 3; r++) {
        bool behind = r == 2 && fewer > 0;
        dump_builder_call(hand->builders[r], ALLREDUCE_INIT, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE, 1,
                          "MPI_Allreduce_init");
        struct progress *progress = dump_builder_progress(hand->builders[r], 0);
        progress->enqueued = progress->started = 1;
        progress->completed = STARTS - 1;
        struct pending *p = hand_pending(hand, r, ALLREDUCE_INIT, FLAG_COLLECTIVE, PEER_NONE, 7, 0);
        p->flags |= fewer < STARTS || r < 2 ? FLAG_STARTED : 0;
        p->tag = STARTS - 1 - (behind ? fewer : 0);
        p->persistent = 1;
        p->active = !behind || inside;
        if (behind && !inside)
            continue;
        hand_call(hand, r, BUILDER_WAIT, 0, PEER_NONE, TAG_NONE, SEQ_NONE);
        hand->slots[r]->op = 7;
        hand->slots[r]->comm = COMM_NONE;
    }
}

/* Who made fewer starts is missing in the newest, though all made the request. */
static void who_has_not_started_a_persistent_collective_is_missing(void **state) {
    (void)state;
    static const int32_t fewer[] = {1, 2, STARTS};
    for (size_t i = 0; i < sizeof fewer / sizeof *fewer; i++) {
        struct hand hand;
        hand_starts(&hand, fewer[i], false);
        const struct diagnosis *diagnosis = hand_judge(&hand, true);
        assert_int_equal(diagnosis->verdict, VERDICT_HANG);
        assert_int_equal(diagnosis->culprit_count, 1);
        assert_int_equal(diagnosis->culprits[0].party, 2);
        assert_int_equal(diagnosis->wait_for_graph.stalled_count, 1);
        assert_true(diagnosis->wait_for_graph.stalled[0].started);
        assert_int_equal(diagnosis->wait_for_graph.stalled[0].start, STARTS - 1);
        assert_true(says(&hand.judged, "start #49, on"));
        assert_true(says(&hand.judged, "rank 2 never started it"));
        hand_free(&hand);
    }
}

/* All in the same start: nobody is missing. One of them in an earlier start: that, too, is a collective of its own. */
static void a_start_that_all_have_made_misses_nobody(void **state) {
    (void)state;
    struct hand hand;
    hand_starts(&hand, 0, false);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->culprit_count, 0);
    assert_int_equal(diagnosis->wait_for_graph.stalled_count, 1);
    assert_int_equal(diagnosis->wait_for_graph.stalled[0].missing, 0);
    hand_free(&hand);
    hand_starts(&hand, 1, true);
    diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->wait_for_graph.stalled_count, 2);
    assert_int_equal(diagnosis->wait_for_graph.stalled[0].start, STARTS - 2);
    assert_int_equal(diagnosis->wait_for_graph.stalled[0].missing, 0);
    assert_int_equal(diagnosis->wait_for_graph.stalled[1].missing, 1);
    hand_free(&hand);
}

enum { EXCHANGE = 243 };

/* Each of a ring, or of a chain from rank 0 on, is in its neighbourhood collective #count[rank] - 1, or, where
 * `inside` does not have it, in its own code. */
static void hand_exchange(struct hand *hand, bool ring, const uint32_t count[4], unsigned inside) {
    hand_make(hand, 4);
    for (int32_t r = 0; r < 4; r++) {
        const int32_t sources[] = {(r + 3) % 4, (r + 1) % 4};
        struct dump_builder *builder = hand->builders[r];
        dump_builder_call(builder, EXCHANGE, CLASS_COLLECTIVE, FLOW_NEIGHBOURS, BUSBW_NONE, 0, "MPI_Neighbor_alltoall");
        dump_builder_neighbours(builder, 0, 0, sources, ring ? 2 : r > 0);
        struct progress *progress = dump_builder_progress(builder, 0);
        progress->enqueued = progress->started = count[r];
        progress->completed = count[r] - (inside >> r & 1);
        if (inside >> r & 1)
            hand_call(hand, (unsigned)r, EXCHANGE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, count[r] - 1);
    }
}

static void assert_missing(struct hand *hand, size_t which, const char *expected) {
    struct diagnosis *diagnosis = &hand->judged.diagnosis;
    int32_t ranks[4];
    char text[16] = "";
    size_t count = stalled_ranks(&diagnosis->wait_for_graph, &diagnosis->wait_for_graph.stalled[which], true, ranks, 4);
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", ranks[i]);
    assert_string_equal(text, expected);
}

/* Rank 1 is at work. 0 and 2 wait for it; 3, whose neighbours these are, is one collective further and waits for them.
 */
static void only_neighbours_are_missing_among_neighbours(void **state) {
    (void)state;
    static const uint32_t count[4] = {7, 6, 7, 8};
    struct hand hand;
    hand_exchange(&hand, true, count, 1 | 4 | 8);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 1);
    assert_int_equal(diagnosis->wait_for_graph.stalled_count, 2);
    assert_missing(&hand, 0, "1 ");
    assert_missing(&hand, 1, "0 2 ");
    assert_true(says(&hand.judged, "rank 3 waits; ranks 0, 2 never entered it"));
    hand_free(&hand);
}

/* Of a chain nobody needs who comes behind: rank 3 at work holds nobody up that takes only from those before it, unless
 * one of them has all it takes and still sits there: then what it gives may need the one that takes it. */
static void who_gives_to_a_rank_may_wait_for_it(void **state) {
    (void)state;
    static const uint32_t first_is_missing[4] = {6, 7, 7, 7}, last_is_missing[4] = {7, 7, 7, 6};
    struct hand hand;
    hand_exchange(&hand, false, first_is_missing, 2 | 4 | 8);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 0);
    assert_missing(&hand, 0, "0 ");
    hand_free(&hand);
    hand_exchange(&hand, false, last_is_missing, 4);
    diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 3);
    assert_missing(&hand, 0, "3 ");
    hand_free(&hand);
}

/* Rank 0 waits for a message of 1, which it has though nobody looked, and one of 2, which is at work; 1 waits for 0. */
static void a_message_that_has_come_is_not_waited_for(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand, 3);
    hand_call(&hand, 0, BUILDER_WAITALL, 0, PEER_NONE, 2, 6);
    hand.slots[0]->op = 5;
    hand_pending(&hand, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
    hand_pending(&hand, 0, BUILDER_IRECV, FLAG_RECV, 2, 6, 0);
    dump_builder_p2p(hand.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 1, 0, 8, 10, 20);
    hand_call(&hand, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 2);
    hand_free(&hand);
}

enum { TEST = 240, IPROBE = 241 };

/* A series of polls of 100 ms that found nothing, of which so many per cent passed in own work. */
static void hand_polls(struct hand *hand, unsigned rank, uint16_t call, int32_t source, uint32_t own_percent) {
    struct record polls = {.t0 = 1000000,
                           .t1 = 101000000,
                           .seq = own_percent * 1000000,
                           .comm = call == IPROBE ? 0 : COMM_NONE,
                           .peer = source,
                           .tag = 1,
                           .stack = STACK_NONE,
                           .call = call,
                           .kind = RECORD_POLL};
    dump_builder_call(hand->builders[rank], TEST, CLASS_TEST, FLOW_NONE, BUSBW_NONE, 0, "MPI_Test");
    dump_builder_call(hand->builders[rank], IPROBE, CLASS_PROBE, FLOW_NONE, BUSBW_NONE, 0, "MPI_Iprobe");
    dump_builder_record(hand->builders[rank], 0, &polls);
}

/* Rank 0 tests a receive from 1, which asks whether 2 has sent; 2 is at work. */
static void who_only_polls_waits(void **state) {
    (void)state;
    for (int settled = 0; settled < 2; settled++) {
        struct hand hand;
        hand_make(&hand, 3);
        hand_polls(&hand, 0, TEST, PEER_NONE, 0);
        hand_pending(&hand, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
        hand_polls(&hand, 1, IPROBE, 2, 0);
        const struct diagnosis *diagnosis = hand_judge(&hand, settled);
        assert_int_equal(diagnosis->verdict, settled ? VERDICT_HANG : VERDICT_OK); /* one look proves nothing */
        assert_int_equal(diagnosis->culprit_count, settled);
        assert_true(!settled || diagnosis->culprits[0].party == 2);
        hand_free(&hand);
    }
}

static void polling_in_a_circle_is_a_deadlock(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand, 3);
    for (unsigned r = 0; r < 3; r++) {
        hand_polls(&hand, r, TEST, PEER_NONE, 0);
        hand_pending(&hand, r, BUILDER_IRECV, FLAG_RECV, (int32_t)(r + 1) % 3, 5, 0);
    }
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->cycle_count, 3);
    hand_free(&hand);
}

/* Who works for more than half of the time between its polls does not wait. */
static void who_works_between_polls_does_not_wait(void **state) {
    (void)state;
    for (uint32_t own = 40; own <= 60; own += 20) {
        struct hand hand;
        hand_make(&hand, 2);
        hand_polls(&hand, 0, TEST, PEER_NONE, own);
        hand_pending(&hand, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
        const struct diagnosis *diagnosis = hand_judge(&hand, true);
        assert_int_equal(diagnosis->verdict, own < 50 ? VERDICT_HANG : VERDICT_OK);
        hand_free(&hand);
    }
}

/* The same without the message is a deadlock. */
static void a_message_that_never_comes_is(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand, 3);
    hand_call(&hand, 0, BUILDER_WAITALL, 0, PEER_NONE, 2, 6);
    hand.slots[0]->op = 5;
    hand_pending(&hand, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
    hand_pending(&hand, 0, BUILDER_IRECV, FLAG_RECV, 2, 6, 0);
    hand_call(&hand, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->cycle_count, 2);
    hand_free(&hand);
}

/* Rank 0 takes what comes first of 1, which waits for it, and of 2, which is at work or waits for it as well. */
static void hand_waitany(struct hand *hand, bool at_work) {
    hand_make(hand, 3);
    hand_call(hand, 0, BUILDER_WAITANY, 0, PEER_NONE, 2, 6);
    hand->slots[0]->op = 5;
    hand_pending(hand, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
    hand_pending(hand, 0, BUILDER_IRECV, FLAG_RECV, 2, 6, 0);
    hand_call(hand, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    if (!at_work)
        hand_call(hand, 2, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
}

static void a_waitany_needs_only_one(void **state) {
    (void)state;
    struct hand hand;
    hand_waitany(&hand, true);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 2);
    hand_free(&hand);
}

static void a_waitany_that_none_can_end(void **state) {
    (void)state;
    struct hand hand;
    hand_waitany(&hand, false);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->cycle_count, 2);
    hand_free(&hand);
}

/* An elastic job came up again: what its first generation waited for is past. */
static void only_the_newest_generation_is_judged(void **state) {
    (void)state;
    struct hand hand;
    hand_make_generations(&hand, 6, 3);
    hand_call(&hand, 0, BUILDER_RECV, FLAG_RECV, 1, 1, 0);
    hand_call(&hand, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    hand_call(&hand, 3, BUILDER_RECV, FLAG_RECV, 2, 1, 0);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->world.dump_count, 3);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->world.parties[diagnosis->culprits[0].party].rank, 2);
    hand_free(&hand);
}

/* A request that the Wait is not about does not count: 0 has a receive from 1 pending, but waits for 2. */
static void a_pending_request_outside_the_list_does_not_count(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand, 3);
    hand_call(&hand, 0, BUILDER_WAITALL, 0, PEER_NONE, 1, 6);
    hand.slots[0]->op = 6;
    hand_pending(&hand, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
    hand_pending(&hand, 0, BUILDER_IRECV, FLAG_RECV, 2, 6, 0);
    hand_call(&hand, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    assert_int_equal(hand_judge(&hand, true)->verdict, VERDICT_HANG);
    hand_free(&hand);
}

/* Two that receive from each other with a message under way: no deadlock once killed, where it may just have come. */
static void a_message_under_way_when_all_were_killed(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand, 2);
    hand_call(&hand, 0, BUILDER_RECV, FLAG_RECV, 1, 1, 0);
    hand_call(&hand, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    dump_builder_p2p(hand.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 1, 0, 8, 10, 20);
    hand.states[0] = hand.states[1] = PROCESS_GONE;
    assert_int_equal(hand_judge(&hand, false)->verdict, VERDICT_HANG);
    hand_free(&hand);
}

static void a_send_to_a_posted_receive_is_no_deadlock(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand, 3);
    hand_call(&hand, 0, BUILDER_SEND, FLAG_SEND, 1, 1, 0);
    hand.slots[0]->bytes = 1 << 20;
    hand_pending(&hand, 1, BUILDER_IRECV, FLAG_RECV, 0, 9, 0);
    hand_call(&hand, 1, BUILDER_RECV, FLAG_RECV, 2, 1, 0);
    hand_call(&hand, 2, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    assert_int_equal(hand_judge(&hand, true)->verdict, VERDICT_HANG);
    hand_free(&hand);
}

/* 0 waits for its sends to 1 and to 2; 1 waits for something else from 0; 2 is in its own code. Sends that may be
 * buffered need not be waited for both: 2 may be all that 0 lacks. From 256 KiB on they are: a deadlock of 0 and 1. */
static void sends_of_a_quarter_megabyte_wait_for_their_receivers(void **state) {
    (void)state;
    for (unsigned large = 0; large < 2; large++) {
        struct hand hand;
        hand_make(&hand, 3);
        hand_call(&hand, 0, BUILDER_WAITALL, 0, PEER_NONE, 2, 6);
        hand.slots[0]->op = 5;
        hand_pending(&hand, 0, BUILDER_ISEND, FLAG_SEND, 1, 5, 0)->bytes = (256 << 10) - 1 + large;
        hand_pending(&hand, 0, BUILDER_ISEND, FLAG_SEND, 2, 6, 0)->bytes = (256 << 10) - 1 + large;
        hand_call(&hand, 1, BUILDER_RECV, FLAG_RECV, 0, 9, 0);
        assert_int_equal(hand_judge(&hand, true)->verdict, large ? VERDICT_DEADLOCK : VERDICT_HANG);
        hand_free(&hand);
    }
}

static void waiting_for_oneself(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand, 2);
    hand_call(&hand, 0, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->cycle_count, 1);
    hand_free(&hand);
}

/* 0 and 1 receive from each other; 2 and 3 come on all the time, and 4 waits for one of these. */
static void a_circle_beside_ranks_that_move(void **state) {
    (void)state;
    struct hand hand;
    const int32_t moving[] = {2, 3};
    hand_make(&hand, 5);
    hand_call(&hand, 0, BUILDER_RECV, FLAG_RECV, 1, 1, 0);
    hand_call(&hand, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    hand_call(&hand, 2, BUILDER_RECV, FLAG_RECV, 3, 1, 0);
    hand_call(&hand, 3, BUILDER_RECV, FLAG_RECV, 2, 1, 0);
    hand_call(&hand, 4, BUILDER_RECV, FLAG_RECV, 2, 1, 0);
    const struct diagnosis *diagnosis =
        hand_judge_asked(&hand, (struct diagnose_request){.moving = moving, .moving_count = 2});
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->culprit_count, 2);
    assert_int_equal(diagnosis->culprits[0].party + diagnosis->culprits[1].party, 1);
    hand_free(&hand);
}

/* The same where one of the two may have been sent something by one that moves, or receives from anybody. */
static void waiting_for_ranks_that_move_is_no_hang(void **state) {
    (void)state;
    struct hand hand;
    const int32_t moving[] = {2};
    hand_make(&hand, 3);
    hand_call(&hand, 0, BUILDER_RECV, FLAG_RECV, PEER_ANY, 1, 0);
    hand_call(&hand, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    assert_int_equal(hand_judge_asked(&hand, (struct diagnose_request){.moving = moving, .moving_count = 1})->verdict,
                     VERDICT_OK);
    hand_free(&hand);
}

/* All are gone; who had gone first is the cause, though the others wait for somebody else. */
static void the_first_that_died_is_to_blame(void **state) {
    (void)state;
    struct hand hand;
    const struct job_end end = {.dead_known = true, .dead = 2, .sure = true, .signal = 11, .status = -1};
    hand_make(&hand, 3);
    for (unsigned r = 0; r < 3; r++)
        hand.states[r] = PROCESS_GONE;
    hand_call(&hand, 0, BUILDER_RECV, FLAG_RECV, 1, 1, 0);
    const struct diagnosis *diagnosis = hand_judge_asked(&hand, (struct diagnose_request){.end = &end});
    assert_int_equal(diagnosis->verdict, VERDICT_DEAD_RANK);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 2);
    assert_string_equal(hand.judged.text.culprits[0].reason, "was the first to die, of signal 11");
    hand_free(&hand);
}

/* All have come to collective `behind`; from rank `others` on they are still in it, the ranks before have gone on to
 * the next one. */
static void hand_leave_behind(struct hand *hand, unsigned ranks, unsigned others, uint32_t behind) {
    hand_make(hand, ranks);
    for (unsigned r = 0; r < ranks; r++) {
        struct progress *p = dump_builder_contents(hand->builders[r], SECTION_PROGRESS, 0);
        uint32_t seq = r < others ? behind + 1 : behind;
        p->enqueued = seq + 1;
        hand_call(hand, r, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, seq);
    }
}

static void who_is_left_behind_is_named(void **state) {
    (void)state;
    struct hand hand;
    hand_leave_behind(&hand, 4, 3, 7);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 3);
    assert_int_equal(diagnosis->culprits[0].state, CULPRIT_BLOCKED);
    hand_free(&hand);
}

/* All are in it: which of them does not go on cannot be told. */
static void a_collective_that_all_are_in_names_nobody(void **state) {
    (void)state;
    struct hand hand;
    hand_leave_behind(&hand, 4, 0, 7);
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 0);
    hand_free(&hand);
}

/* Ranks that sit in one collective by two names of it have not disagreed; by names of two they have. */
static void twins_of_a_collective_are_one_operation(void **state) {
    (void)state;
    static const struct {
        const char *others, *last;
        enum verdict verdict;
    } pairs[] = {{"ncclAllReduce", "ncclAllReduceConfig", VERDICT_HANG},
                 {"MPI_Bcast", "MPI_Bcast_c", VERDICT_HANG},
                 {"ncclAllReduce", "ncclReduceConfig", VERDICT_DESYNC},
                 {"ncclAllGatherConfig", "ncclReduceScatterConfig", VERDICT_DESYNC}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct hand hand;
        hand_leave_behind(&hand, 3, 0, 7);
        for (unsigned r = 0; r < 3; r++) {
            struct progress *p = dump_builder_contents(hand.builders[r], SECTION_PROGRESS, 0);
            p->hashed = p->completed = 7;
            dump_builder_call(hand.builders[r], 3000, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ONE, 0,
                              r < 2 ? pairs[i].others : pairs[i].last);
            hand_call(&hand, r, 3000, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, 7);
        }
        assert_int_equal(hand_judge(&hand, true)->verdict, pairs[i].verdict);
        hand_free(&hand);
    }
}

/* A communicator was freed, and the job came to its end: of its history the length and the last hash are left, which
 * tell where the lengths are equal and nothing was in flight. */
static void ranks_may_have_disagreed_on_a_freed_communicator(void **state) {
    (void)state;
    static const struct {
        uint64_t enqueued, completed, hash; /* of rank 2; the others: 6, 6, 111 */
        enum verdict verdict;
    } freed[] = {
        {6, 6, 222, VERDICT_DESYNC}, {6, 6, 111, VERDICT_OK}, {5, 5, 222, VERDICT_OK}, {6, 5, 222, VERDICT_OK}};
    for (size_t i = 0; i < sizeof freed / sizeof *freed; i++) {
        struct hand hand;
        const struct member_run all = {0, 3, 1};
        hand_make(&hand, 3);
        for (unsigned r = 0; r < 3; r++) {
            dump_builder_communicator(hand.builders[r], 77, "second", (int32_t)r, &all, 1);
            struct communicator_freed_definition *end = dump_builder_freed(hand.builders[r], 1, HUNG_AT, 6);
            end->prefix_hash = r < 2 ? 111 : freed[i].hash;
            end->enqueued = r < 2 ? 6 : freed[i].enqueued;
            end->completed = r < 2 ? 6 : freed[i].completed;
            dump_builder_header(hand.builders[r])->state |= STATE_FINALISING | STATE_FINALISED;
            hand.states[r] = PROCESS_GONE;
        }
        const struct diagnosis *diagnosis = hand_judge(&hand, false);
        assert_int_equal(diagnosis->verdict, freed[i].verdict);
        assert_int_equal(diagnosis->culprit_count, freed[i].verdict == VERDICT_DESYNC);
        assert_true(diagnosis->culprit_count == 0 || diagnosis->culprits[0].party == 2);
        hand_free(&hand);
    }
}

/* ---- killed, and nobody saw it stand --------------------------------------------------------- */

/* Ranks 0 and 1 wait in an Allreduce since HUNG_AT; 2 was last seen in a call `after_ms` later. A process needed up to
 * `call_ms` (0: it made none) for ten such calls before, and once a second. */
static void hand_kill(struct hand *hand, unsigned after_ms, unsigned call_ms) {
    bool with_history = call_ms > 0;
    hand_make(hand, 3);
    for (unsigned r = 0; r < 3; r++) {
        struct operation_row *row = dump_builder_operation(hand->builders[r], 0);
        row->call = BUILDER_ALLREDUCE;
        row->source = SOURCE_HOST;
        for (unsigned i = 0; i < 10 && with_history; i++)
            dump_builder_count(row, 8, (i < 2 ? call_ms : 1) * MS);
        if (with_history)
            dump_builder_count(row, 8, 1000 * MS);
        hand->states[r] = PROCESS_GONE;
        dump_builder_header(hand->builders[r])->activated_ticks = (HUNG_AT - 100) * MS;
        struct progress *p = dump_builder_contents(hand->builders[r], SECTION_PROGRESS, 0);
        p->enqueued = with_history ? 11 + (r < 2) : r < 2;
    }
    for (unsigned r = 0; r < 2; r++) {
        hand_call(hand, r, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, with_history ? 11 : 0);
        hand->slots[r]->enter = HUNG_AT * MS;
    }
    hand->slots[2]->last_leave = (HUNG_AT + after_ms) * MS;
}

/* Judges it with the job's end noted at `end_ms` (0: not noted) on the host of that boot id. */
static void expect_standing(unsigned after_ms, unsigned call_ms, unsigned end_ms, const char *boot_id,
                            enum verdict verdict, enum standing_kind kind) {
    struct hand hand;
    struct job_end end = {.signal = -1, .status = -1, .monotonic_ns = (int64_t)(end_ms * MS)};
    hand_kill(&hand, after_ms, call_ms);
    for (unsigned r = 0; r < 3; r++)
        dump_builder_host(hand.builders[r], "host0", "the boot", 0);
    strcpy(end.boot_id, boot_id);
    const struct diagnosis *diagnosis = hand_judge_asked(&hand, (struct diagnose_request){.end = end_ms ? &end : NULL});
    assert_int_equal(diagnosis->verdict, verdict);
    assert_int_equal(diagnosis->standing.kind, kind);
    assert_int_equal(diagnosis->standing.usual_ns >= 0, call_ms > 0);
    /* rank 2 is away for no longer than work may take */
    assert_int_equal(diagnosis_severity(diagnosis), verdict == VERDICT_OK ? SEVERITY_INFO : SEVERITY_WARNING);
    assert_int_equal(diagnosis->may_come_back, verdict != VERDICT_OK);
    assert_int_equal(diagnosis->culprit_count, verdict == VERDICT_OK ? 0 : 1);
    hand_free(&hand);
}

static void a_job_killed_at_work(void **state) {
    (void)state;
    expect_standing(10, CALL_MS, HUNG_AT + 30, "the boot", VERDICT_OK, STANDING_BRIEF);
    expect_standing(10, CALL_MS, HUNG_AT + 90, "the boot", VERDICT_OK, STANDING_BRIEF); /* whatever was usual */
}

static void a_job_that_stood_before_it_was_killed(void **state) {
    (void)state;
    expect_standing(10, CALL_MS, HUNG_AT + 500, "the boot", VERDICT_HANG, STANDING_LONG);
    expect_standing(500, CALL_MS, 0, "", VERDICT_HANG, STANDING_LONG);
    expect_standing(500, CALL_MS, HUNG_AT + 10, "another boot", VERDICT_HANG, STANDING_LONG);
}

/* The dumps may have stopped telling when the hang began: the verdict is kept, but it is a warning. */
static void a_job_whose_end_is_not_known(void **state) {
    (void)state;
    expect_standing(10, CALL_MS, 0, "", VERDICT_HANG, STANDING_UNTOLD);
    expect_standing(10, CALL_MS, HUNG_AT + 30, "another boot", VERDICT_HANG, STANDING_UNTOLD);
}

/* All are in the first collective of the job: nothing says how long it may take. */
static void a_first_collective_that_has_no_history(void **state) {
    (void)state;
    expect_standing(10, 0, HUNG_AT + 500, "the boot", VERDICT_HANG, STANDING_UNTOLD);
    expect_standing(10, 0, HUNG_AT + 20000, "the boot", VERDICT_HANG, STANDING_LONG);
}

/* What happened once, a second long, is no measure; twice is. */
static void the_longest_call_is_left_out(void **state) {
    (void)state;
    struct hand hand;
    hand_kill(&hand, 0, CALL_MS);
    const struct diagnosis *diagnosis = hand_judge(&hand, false);
    assert_in_range(diagnosis->standing.usual_ns, CALL_MS * MS * 3 / 4, CALL_MS * MS * 5 / 4);
    hand_free(&hand);
}

/* Three times the usual 200 ms; a tenth of a second where 20 ms are usual; ten seconds where nothing is. */
static void a_wait_is_long_beyond_three_times_the_usual(void **state) {
    (void)state;
    expect_standing(10, 200, HUNG_AT + 480, "the boot", VERDICT_OK, STANDING_BRIEF);
    expect_standing(10, 200, HUNG_AT + 720, "the boot", VERDICT_HANG, STANDING_LONG);
    expect_standing(10, CALL_MS, HUNG_AT + 120, "the boot", VERDICT_HANG, STANDING_LONG);
    expect_standing(10, 0, HUNG_AT + 9000, "the boot", VERDICT_HANG, STANDING_UNTOLD);
    expect_standing(10, 0, HUNG_AT + 11000, "the boot", VERDICT_HANG, STANDING_LONG);
}

/* With two processors for three ranks, and three. */
static void ranks_that_share_processors_wait_for_these(void **state) {
    (void)state;
    static const struct {
        uint64_t processors;
        unsigned stood_ms;
        enum verdict verdict;
    } cases[] = {{3, 400, VERDICT_OK}, {3, 600, VERDICT_HANG}, {7, 400, VERDICT_HANG}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand hand;
        struct job_end end = {
            .signal = -1, .status = -1, .monotonic_ns = (int64_t)((HUNG_AT + cases[i].stood_ms) * MS)};
        hand_kill(&hand, 10, CALL_MS);
        for (unsigned r = 0; r < 3; r++) {
            dump_builder_host(hand.builders[r], "host0", "the boot", 0);
            dump_builder_header(hand.builders[r])->cpus[0] = cases[i].processors;
        }
        strcpy(end.boot_id, "the boot");
        const struct diagnosis *diagnosis = hand_judge_asked(&hand, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, cases[i].verdict);
        hand_free(&hand);
    }
}

/* A GPU's memory is sampled every two seconds: its host lived 2.5 s at most beyond the last sign of it. Where 900 ms
 * are usual a wait of 10 ms was still young then, one of half a second may not have been. */
static void a_gpus_memory_tells_when_the_job_ended(void **state) {
    (void)state;
    for (unsigned after_ms = 10; after_ms <= 510; after_ms += 500) {
        struct hand hand;
        hand_kill(&hand, after_ms, 900);
        for (unsigned r = 0; r < 3; r++) {
            dump_builder_device(hand.builders[r], 0, 1000);
            struct device_state *device = dump_builder_contents(hand.builders[r], SECTION_DEVICES, 0);
            device->memory_samples = 2;
        }
        const struct diagnosis *diagnosis = hand_judge(&hand, false);
        assert_int_equal(diagnosis->standing.kind, after_ms == 10 ? STANDING_BRIEF : STANDING_UNTOLD);
        hand_free(&hand);
    }
}

/* Nobody waits, and nobody finalised: who went first is not known, unless all are known to have been ended together,
 * and that anything is wrong is not said of a job that lives, came to its end, or did not record to its end. */
static void a_job_that_ended_at_work_without_a_trace(void **state) {
    (void)state;
    static const struct {
        bool end_noted;
        enum process_state process;
        uint32_t state;
        enum verdict verdict;
    } ends[] = {{false, PROCESS_GONE, 0, VERDICT_UNKNOWN},
                {false, PROCESS_ELSEWHERE, 0, VERDICT_UNKNOWN},
                {true, PROCESS_GONE, 0, VERDICT_OK},
                {false, PROCESS_RUNS, 0, VERDICT_OK},
                {false, PROCESS_GONE, STATE_FINALISING | STATE_FINALISED, VERDICT_OK},
                {false, PROCESS_GONE, STATE_SWITCHED_OFF, VERDICT_OK}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct hand hand;
        struct job_end end = {.signal = -1, .status = -1, .monotonic_ns = (int64_t)(HUNG_AT * MS)};
        hand_make(&hand, 3);
        for (unsigned r = 0; r < 3; r++) {
            hand.states[r] = ends[i].process;
            dump_builder_header(hand.builders[r])->state |= ends[i].state;
        }
        const struct diagnosis *diagnosis =
            hand_judge_asked(&hand, (struct diagnose_request){.end = ends[i].end_noted ? &end : NULL});
        assert_int_equal(diagnosis->verdict, ends[i].verdict);
        assert_int_equal(diagnosis->culprit_count, 0);
        hand_free(&hand);
    }
}

/* Rank 2 came out of the Allreduce that the others are in: they were about to leave it as well when all left by
 * _exit(). Older than usual they would have stood in it. Where rank 2 waits in the next one, the transport fails. */
static void a_call_that_somebody_came_out_of_is_no_hang(void **state) {
    (void)state;
    static const struct {
        unsigned end_ms;
        bool next;
        enum verdict verdict;
    } ends[] = {{0, false, VERDICT_UNKNOWN}, {HUNG_AT + 500, false, VERDICT_HANG}, {0, true, VERDICT_HANG}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct hand hand;
        struct job_end end = {.signal = -1, .status = -1, .monotonic_ns = (int64_t)(ends[i].end_ms * MS)};
        strcpy(end.boot_id, "the boot");
        hand_kill(&hand, 10, CALL_MS);
        for (unsigned r = 0; r < 3; r++)
            dump_builder_host(hand.builders[r], "host0", "the boot", 0);
        struct progress *progress = dump_builder_contents(hand.builders[2], SECTION_PROGRESS, 0);
        progress->enqueued = progress->completed = 12;
        if (ends[i].next) {
            progress->enqueued = 13;
            hand_call(&hand, 2, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, 12);
            hand.slots[2]->enter = (HUNG_AT + 10) * MS;
        }
        const struct diagnosis *diagnosis =
            hand_judge_asked(&hand, (struct diagnose_request){.end = ends[i].end_ms ? &end : NULL});
        assert_int_equal(diagnosis->verdict, ends[i].verdict);
        assert_true(ends[i].next || diagnosis->culprit_count == 0);
        hand_free(&hand);
    }
}

/* Ranks 0 and 1 wait for 2, which made its last call at 2000 s; between two calls before it was away for so long. */
static void hand_away(struct hand *hand, unsigned away_s, unsigned longest_s, struct job_end *end) {
    hand_kill(hand, 0, CALL_MS);
    for (unsigned r = 0; r < 3; r++) {
        dump_builder_host(hand->builders[r], "host0", "the boot", 0);
        if (r < 2)
            hand->slots[r]->enter = 2000000 * MS;
        else
            hand->slots[r]->last_leave = 2000000 * MS;
    }
    for (unsigned i = 0; i < 2; i++) {
        struct record call = {.t0 = (1000000 + i * 1000 * longest_s) * MS,
                              .comm = COMM_NONE,
                              .peer = PEER_NONE,
                              .tag = TAG_NONE,
                              .stack = STACK_NONE,
                              .call = BUILDER_ALLREDUCE,
                              .kind = RECORD_CALL};
        call.t1 = call.t0;
        dump_builder_record(hand->builders[2], 0, &call);
    }
    *end = (struct job_end){.signal = -1, .status = -1, .monotonic_ns = (int64_t)((2000000 + 1000 * away_s) * MS)};
    strcpy(end->boot_id, "the boot");
}

/* Ten minutes, or three times as long as it is known to have been away before: so long it may have been at work. */
static void who_is_away_may_come_back(void **state) {
    (void)state;
    static const struct {
        unsigned away_s, longest_s;
        bool may;
    } jobs[] = {{20, 1, true}, {550, 1, true}, {650, 1, false}, {650, 250, true}, {850, 250, false}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct hand hand;
        struct job_end end;
        hand_away(&hand, jobs[i].away_s, jobs[i].longest_s, &end);
        const struct diagnosis *diagnosis = hand_judge_asked(&hand, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, VERDICT_HANG);
        assert_int_equal(diagnosis->standing.kind, STANDING_LONG);
        assert_int_equal(diagnosis->culprits[0].absence.away_ns, jobs[i].away_s * 1000 * MS);
        assert_int_equal(diagnosis->culprits[0].absence.longest_ns, jobs[i].longest_s * 1000 * MS);
        assert_int_equal(diagnosis_severity(diagnosis), jobs[i].may ? SEVERITY_WARNING : SEVERITY_ERROR);
        assert_int_equal(says(&hand.judged, "a long pause"), jobs[i].may);
        assert_true(says(&hand.judged, "away from the library for"));
        hand_free(&hand);
    }
}

/* The same while it lives: what was seen to stand twice may be a rank at work all the same. */
static void who_is_away_now_may_come_back(void **state) {
    (void)state;
    static const struct {
        unsigned away_s, longest_s;
        bool may;
    } jobs[] = {{20, 1, true}, {550, 1, true}, {650, 1, false}, {650, 250, true}, {850, 250, false}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct hand hand;
        struct job_end end;
        hand_away(&hand, jobs[i].away_s, jobs[i].longest_s, &end);
        for (unsigned r = 0; r < 3; r++)
            hand.states[r] = PROCESS_RUNS;
        const struct moment now = {"the boot", end.monotonic_ns, 0};
        const struct diagnosis *diagnosis =
            hand_judge_asked(&hand, (struct diagnose_request){.settled = true, .now = &now});
        assert_int_equal(diagnosis->verdict, VERDICT_HANG);
        assert_int_equal(diagnosis->culprits[0].absence.away_ns, jobs[i].away_s * 1000 * MS);
        assert_int_equal(diagnosis_severity(diagnosis), jobs[i].may ? SEVERITY_WARNING : SEVERITY_ERROR);
        assert_int_equal(says(&hand.judged, "hang, or a long pause"), jobs[i].may);
        assert_int_equal(says(&hand.judged, "Look again later"), jobs[i].may);
        assert_true(says(&hand.judged, "by now"));
        hand_free(&hand);
    }
}

/* A process that a signal stopped does not come back by itself. */
static void who_is_stopped_does_not_come_back(void **state) {
    (void)state;
    struct hand hand;
    struct job_end end;
    hand_away(&hand, 20, 1, &end);
    hand.states[0] = hand.states[1] = PROCESS_RUNS;
    hand.states[2] = PROCESS_STOPPED;
    const struct moment now = {"the boot", end.monotonic_ns, 0};
    const struct diagnosis *diagnosis =
        hand_judge_asked(&hand, (struct diagnose_request){.settled = true, .now = &now});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis_severity(diagnosis), SEVERITY_ERROR);
    hand_free(&hand);
}

/* Whoever is in another call that waits for others, or in MPI_Finalize, is not away. */
static void who_is_elsewhere_in_the_library_does_not_come_back(void **state) {
    (void)state;
    for (int finalises = 0; finalises < 2; finalises++) {
        struct hand hand;
        struct job_end end;
        hand_away(&hand, 20, 1, &end);
        if (finalises) {
            dump_builder_header(hand.builders[2])->state |= STATE_FINALISING;
            dump_builder_header(hand.builders[2])->finalise_ticks = 2000001 * MS;
        } else {
            hand_call(&hand, 2, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
        }
        const struct diagnosis *diagnosis = hand_judge_asked(&hand, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, finalises ? VERDICT_HANG : VERDICT_DEADLOCK);
        assert_int_equal(diagnosis_severity(diagnosis), SEVERITY_ERROR);
        hand_free(&hand);
    }
}

static void a_job_that_was_seen_to_stand_needs_no_age(void **state) {
    (void)state;
    struct hand hand;
    hand_kill(&hand, 10, CALL_MS);
    for (unsigned r = 0; r < 3; r++)
        hand.states[r] = PROCESS_RUNS;
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->standing.kind, STANDING_NONE);
    assert_int_equal(diagnosis_severity(diagnosis), SEVERITY_ERROR);
    hand_free(&hand);
}

/* Rank 1 receives what rank 2 would send after the Allreduce that 0 and 2 are in, since HUNG_AT. */
static void hand_circle(struct hand *hand) {
    hand_kill(hand, 10, CALL_MS);
    for (unsigned r = 0; r < 3; r++)
        dump_builder_host(hand->builders[r], "host0", "the boot", 0);
    struct progress *first = dump_builder_contents(hand->builders[1], SECTION_PROGRESS, 0),
                    *second = dump_builder_contents(hand->builders[2], SECTION_PROGRESS, 0);
    second->enqueued = first->enqueued--;
    hand_call(hand, 1, BUILDER_RECV, FLAG_RECV, 2, 77, 0);
    hand_call(hand, 2, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, 11);
    hand->slots[1]->enter = hand->slots[2]->enter = HUNG_AT * MS;
}

/* However young it was a circle stays one; how long it stood is told where that is known. */
static void for_how_long_a_circle_stood(void **state) {
    (void)state;
    static const struct {
        unsigned end_ms; /* after HUNG_AT; 0: not noted */
        bool died;       /* rank 0 did, and the others went on for long */
        enum standing_kind kind;
        const char *said;
    } ends[] = {{500, false, STANDING_LONG, "when they ended, the oldest wait, MPI_"},
                {500, true, STANDING_LONG, "when the first of them ended, the oldest wait, MPI_"},
                {30, true, STANDING_BRIEF, "when the first of them ended, the oldest wait, MPI_"},
                {30, false, STANDING_BRIEF, "nobody is to blame"},
                {0, false, STANDING_UNTOLD, "nothing tells how long they went on"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct hand hand;
        struct job_end end = {.signal = ends[i].died ? 9 : -1,
                              .status = -1,
                              .dead_known = ends[i].died,
                              .sure = ends[i].died,
                              .monotonic_ns = (int64_t)((HUNG_AT + ends[i].end_ms) * MS)};
        hand_circle(&hand);
        strcpy(end.boot_id, "the boot");
        const struct diagnosis *diagnosis =
            hand_judge_asked(&hand, (struct diagnose_request){.end = ends[i].end_ms ? &end : NULL});
        assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
        assert_int_equal(diagnosis_severity(diagnosis), SEVERITY_ERROR);
        assert_int_equal(diagnosis->standing.kind, ends[i].kind);
        assert_int_equal(diagnosis->standing.age_ns, ends[i].end_ms * MS);
        assert_int_equal(diagnosis->stood_before_death, ends[i].died);
        assert_true(says(&hand.judged, ends[i].said));
        assert_int_equal(says(&hand.judged, "nobody is to blame"), !ends[i].died && ends[i].end_ms < 500);
        hand_free(&hand);
    }
}

/* ---- killed one after the other -------------------------------------------------------------- */

/* Ranks 0 and 1 wait in an Allreduce since HUNG_AT for rank 2, which is in its own code; `dead` is noted as the first
 * that died, `after_ms` later. Returns who is blamed, -1 for nobody or several. */
static int blamed_when_killed(unsigned dead, unsigned after_ms, int number, int status, enum verdict *verdict) {
    struct hand hand;
    struct job_end end = {.dead_known = true,
                          .dead = dead,
                          .sure = true,
                          .signal = number,
                          .status = status,
                          .monotonic_ns = (int64_t)((HUNG_AT + after_ms) * MS)};
    hand_kill(&hand, 10, CALL_MS);
    for (unsigned r = 0; r < 3; r++)
        dump_builder_host(hand.builders[r], "host0", "the boot", 0);
    strcpy(end.boot_id, "the boot");
    const struct diagnosis *diagnosis = hand_judge_asked(&hand, (struct diagnose_request){.end = &end});
    int blamed = diagnosis->culprit_count == 1 ? (int)diagnosis->culprits[0].party : -1;
    *verdict = diagnosis->verdict;
    /* in its own code, it may have come */
    assert_int_equal(diagnosis_severity(diagnosis), *verdict == VERDICT_HANG ? SEVERITY_WARNING : SEVERITY_ERROR);
    bool said = false;
    for (size_t i = 0; i < hand.judged.text.sentence_count; i++)
        said |= strstr(hand.judged.text.sentences[i], "first process to end was that of rank") != NULL;
    assert_int_equal(said, diagnosis->stood_before_death);
    hand_free(&hand);
    return blamed;
}

static void what_stood_before_the_first_death_is_the_cause(void **state) {
    (void)state;
    enum verdict verdict;
    assert_int_equal(blamed_when_killed(0, 500, 9, -1, &verdict), 2);
    assert_int_equal(verdict, VERDICT_HANG);
    assert_int_equal(blamed_when_killed(1, 500, 11, -1, &verdict), 2); /* for a core dump, say */
    assert_int_equal(verdict, VERDICT_HANG);
    assert_int_equal(blamed_when_killed(2, 500, 9, -1, &verdict), 2);
    assert_int_equal(verdict, VERDICT_HANG);
}

static void a_death_at_work_is_the_cause(void **state) {
    (void)state;
    enum verdict verdict;
    assert_int_equal(blamed_when_killed(0, 30, 9, -1, &verdict), 0);
    assert_int_equal(verdict, VERDICT_DEAD_RANK);
    assert_int_equal(blamed_when_killed(1, 30, -1, 1, &verdict), 1);
    assert_int_equal(verdict, VERDICT_DEAD_RANK);
}

/* However long its work took for which the others wait: it came to an end of its own. */
static void who_is_waited_for_and_fails_is_dead(void **state) {
    (void)state;
    enum verdict verdict;
    assert_int_equal(blamed_when_killed(2, 500, 11, -1, &verdict), 2);
    assert_int_equal(verdict, VERDICT_DEAD_RANK);
    assert_int_equal(blamed_when_killed(2, 500, -1, 3, &verdict), 2);
    assert_int_equal(verdict, VERDICT_DEAD_RANK);
}

/* Rank r leaves by exit() so long after HUNG_AT; 0: it does not. */
static const struct diagnosis *hand_exit(struct hand *hand, const unsigned *after_ms) {
    hand_kill(hand, 10, CALL_MS);
    for (unsigned r = 0; r < 3; r++) {
        if (after_ms[r] == 0)
            continue;
        struct dump_header *header = dump_builder_header(hand->builders[r]);
        header->mpi_family = 1;
        header->state |= STATE_EXITED;
        header->exited_ticks = (HUNG_AT + after_ms[r]) * MS;
    }
    return hand_judge(hand, false);
}

/* A library that has lost its launcher gives up in the middle of a call, and in every process. */
static void exits_out_of_calls_are_no_cause(void **state) {
    (void)state;
    struct hand hand;
    const struct diagnosis *diagnosis = hand_exit(&hand, (unsigned[]){600, 610, 590});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 2);
    hand_free(&hand);
    diagnosis = hand_exit(&hand, (unsigned[]){600, 0, 0});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprits[0].party, 2);
    hand_free(&hand);
}

/* One that leaves alone is the cause, soon or late; others within a second are not alone. */
static void an_exit_of_ones_own_is_the_cause(void **state) {
    (void)state;
    static const struct {
        unsigned after_ms[3];
        enum verdict verdict;
    } exits[] = {{{0, 0, 30}, VERDICT_DEAD_RANK},
                 {{0, 0, 600}, VERDICT_DEAD_RANK},
                 {{2600, 0, 600}, VERDICT_DEAD_RANK},
                 {{2000, 0, 600}, VERDICT_DEAD_RANK},
                 {{1200, 0, 600}, VERDICT_HANG}};
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++) {
        struct hand hand;
        const struct diagnosis *diagnosis = hand_exit(&hand, exits[i].after_ms);
        assert_int_equal(diagnosis->verdict, exits[i].verdict);
        assert_int_equal(diagnosis->culprit_count, 1);
        assert_int_equal(diagnosis->culprits[0].party, 2);
        hand_free(&hand);
    }
}

/* Rank 0 dies on another host than those that wait, whose clocks are only so well together: a second is not enough. */
static void a_death_on_another_host(void **state) {
    (void)state;
    for (unsigned after_ms = 700; after_ms <= 1500; after_ms += 800) {
        struct hand hand;
        struct job_end end = {.dead_known = true, .sure = true, .signal = 9, .status = -1, .dead = 2};
        hand_kill(&hand, 10, CALL_MS);
        for (unsigned r = 0; r < 3; r++) { /* the monotonic clock of the second host began 50 s earlier */
            dump_builder_host(hand.builders[r], r < 2 ? "host0" : "host1", r < 2 ? "a boot" : "another", 0);
            dump_builder_anchor(hand.builders[r], 0, r < 2 ? 0 : 50000 * MS, 100000 * MS, 0);
        }
        strcpy(end.boot_id, "another");
        end.monotonic_ns = (int64_t)((50000 + HUNG_AT + after_ms) * MS);
        const struct diagnosis *diagnosis = hand_judge_asked(&hand, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, after_ms > 1000 ? VERDICT_HANG : VERDICT_DEAD_RANK);
        hand_free(&hand);
    }
}

/* They wait in the first Allreduce, but have waited in Barriers before, a second longest of 20 ms. */
static void calls_of_other_kinds_are_compared_with(void **state) {
    (void)state;
    for (unsigned stood_ms = 800; stood_ms <= 1500; stood_ms += 700) {
        struct hand hand;
        struct job_end end = {.signal = -1, .status = -1, .monotonic_ns = (int64_t)((HUNG_AT + stood_ms) * MS)};
        hand_kill(&hand, 10, 0);
        for (unsigned r = 0; r < 3; r++) {
            struct operation_row *row = dump_builder_operation(hand.builders[r], 0);
            row->call = BUILDER_BARRIER;
            row->source = SOURCE_HOST;
            for (unsigned i = 0; i < 2; i++)
                dump_builder_count(row, 0, CALL_MS * MS);
            dump_builder_host(hand.builders[r], "host0", "the boot", 0);
        }
        strcpy(end.boot_id, "the boot");
        const struct diagnosis *diagnosis = hand_judge_asked(&hand, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, VERDICT_HANG);
        assert_true(diagnosis->standing.unlike);
        assert_int_equal(diagnosis->standing.kind, stood_ms > 1000 ? STANDING_LONG : STANDING_UNTOLD);
        hand_free(&hand);
    }
}

/* Two ranks came out of MPI_Finalize, given up where the launcher was gone, to which one never came. Of that one
 * nothing is known where its recording had ended before. */
static void finalize_given_up(void **state) {
    (void)state;
    for (int off = 0; off < 2; off++) {
        struct hand hand;
        hand_make(&hand, 3);
        for (unsigned r = 0; r < 3; r++)
            hand.states[r] = PROCESS_GONE;
        for (unsigned r = 0; r < 2; r++) {
            struct dump_header *header = dump_builder_header(hand.builders[r]);
            header->mpi_family = 1;
            header->state |= STATE_FINALISING | STATE_FINALISED | STATE_EXITED;
            header->finalise_ticks = HUNG_AT * MS;
            header->finalised_ticks = header->exited_ticks = (HUNG_AT + 1300) * MS;
        }
        dump_builder_header(hand.builders[2])->state |= off ? STATE_SWITCHED_OFF : 0;
        const struct diagnosis *diagnosis = hand_judge(&hand, false);
        assert_int_equal(diagnosis->verdict, off ? VERDICT_OK : VERDICT_HANG);
        assert_int_equal(diagnosis->culprit_count, off ? 0 : 1);
        if (!off) {
            assert_int_equal(diagnosis->culprits[0].party, 2);
            assert_int_equal(diagnosis->standing.age_ns, 1300 * MS);
            assert_int_equal(diagnosis_severity(diagnosis), SEVERITY_WARNING);
        }
        hand_free(&hand);
    }
}

/* Ranks 0 and 1 are in MPI_Finalize; one of them is killed that much later. Ranks used to wait 20 ms in Barriers. */
static void a_death_in_finalize(void **state) {
    (void)state;
    for (unsigned stood_ms = 800; stood_ms <= 1500; stood_ms += 700) {
        struct hand hand;
        struct job_end end = {.dead_known = true, .sure = true, .signal = 9, .status = -1, .boot_id = "the boot"};
        end.monotonic_ns = (int64_t)((HUNG_AT + stood_ms) * MS);
        hand_make(&hand, 3);
        for (unsigned r = 0; r < 3; r++) {
            struct operation_row *row = dump_builder_operation(hand.builders[r], 0);
            row->call = BUILDER_BARRIER;
            row->source = SOURCE_HOST;
            for (unsigned i = 0; i < 2; i++)
                dump_builder_count(row, 0, CALL_MS * MS);
            dump_builder_host(hand.builders[r], "host0", "the boot", 0);
            hand.states[r] = PROCESS_GONE;
        }
        for (unsigned r = 0; r < 2; r++) {
            dump_builder_header(hand.builders[r])->state |= STATE_FINALISING;
            dump_builder_header(hand.builders[r])->finalise_ticks = HUNG_AT * MS;
        }
        const struct diagnosis *diagnosis = hand_judge_asked(&hand, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, stood_ms > 1000 ? VERDICT_HANG : VERDICT_DEAD_RANK);
        assert_int_equal(diagnosis->culprit_count, 1);
        assert_int_equal(diagnosis->culprits[0].party, stood_ms > 1000 ? 2 : 0);
        hand_free(&hand);
    }
}

/* ---- circles of collectives ------------------------------------------------------------------ */

/* Of so many ranks the last `others` are in a collective of another communicator, for which all others wait. */
static void expect_absent(unsigned ranks, unsigned others, size_t culprits) {
    struct hand hand;
    hand_make(&hand, ranks);
    const struct member_run all = {0, ranks, 1};
    for (unsigned r = 0; r < ranks; r++) {
        dump_builder_communicator(hand.builders[r], 77, "second", (int32_t)r, &all, 1);
        dump_builder_progress(hand.builders[r], 1)->prefix_hash = 77;
        bool other = r >= ranks - others;
        hand_call(&hand, r, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, 0);
        hand.slots[r]->comm = other;
        ((struct progress *)dump_builder_contents(hand.builders[r], SECTION_PROGRESS, 0))[other].enqueued = 1;
    }
    const struct diagnosis *diagnosis = hand_judge(&hand, true);
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->culprit_count, culprits);
    for (size_t i = 0; 2 * others != ranks && i < culprits; i++) {
        assert_in_range(diagnosis->culprits[i].party, ranks - others, ranks - 1);
        assert_int_equal(diagnosis->culprits[i].state, CULPRIT_NEVER_ENTERED);
    }
    hand_free(&hand);
}

static void who_is_not_where_most_are_is_to_blame(void **state) {
    (void)state;
    expect_absent(4, 1, 1);
    expect_absent(5, 2, 2);
    expect_absent(4, 2, 2); /* a tie: the circle itself, of one on each side */
}

/* ---- messages that nobody received ----------------------------------------------------------- */

/* Rank 0 receives from 1 with tag 24 on the world; rank `from` has sent it one with `tag` on communicator `comm`. All
 * but 0 wait in a collective. `received`: 0 has it. */
static const struct diagnosis *hand_sent(struct hand *hand, unsigned from, int32_t tag, uint32_t comm, bool received) {
    hand_make(hand, 3);
    const struct member_run all = {0, 3, 1};
    for (unsigned r = 0; r < 3; r++) {
        dump_builder_communicator(hand->builders[r], 77, "second", (int32_t)r, &all, 1);
        dump_builder_collective(hand->builders[r], 0, BUILDER_BARRIER, 0, 0, 0, 10, 20);
        struct progress *p = dump_builder_contents(hand->builders[r], SECTION_PROGRESS, 0);
        p->enqueued = r > 0 ? 2 : 1;
        hand_call(hand, r, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, 1);
    }
    hand_call(hand, 0, BUILDER_RECV, FLAG_RECV, 1, 24, 0);
    dump_builder_p2p(hand->builders[from], 0, BUILDER_SEND, comm, FLAG_SEND, 0, tag, 0, 8, 30, 40);
    if (received)
        dump_builder_p2p(hand->builders[0], 0, BUILDER_RECV, comm, FLAG_RECV, (int32_t)from, tag, 0, 8, 35, 45);
    return hand_judge(hand, true);
}

static void a_message_with_a_wrong_tag_is_shown(void **state) {
    (void)state;
    static const struct {
        unsigned from;
        int32_t tag;
        uint32_t comm;
        enum message_difference difference;
    } sent[] = {{1, 42, 0, DIFFERENT_TAG}, {1, 24, 1, DIFFERENT_COMMUNICATOR}, {2, 24, 0, DIFFERENT_SOURCE}};
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        struct hand hand;
        const struct diagnosis *diagnosis = hand_sent(&hand, sent[i].from, sent[i].tag, sent[i].comm, false);
        assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
        assert_int_equal(diagnosis->unmatched.count, 1);
        const struct unmatched_message *message = &diagnosis->unmatched.items[0];
        assert_int_equal(message->difference, sent[i].difference);
        assert_int_equal(message->wanted.tag, 24);
        assert_int_equal(message->sent.tag, sent[i].tag);
        assert_int_equal(message->sent.party, sent[i].from);
        bool said = false;
        for (size_t k = 0; k < hand.judged.text.sentence_count; k++)
            said |= strncmp(hand.judged.text.sentences[k], "not received: rank", 18) == 0;
        assert_true(said);
        hand_free(&hand);
    }
}

static void messages_that_were_received_are_not(void **state) {
    (void)state;
    struct hand hand;
    assert_int_equal(hand_sent(&hand, 1, 42, 0, true)->unmatched.count, 0);
    hand_free(&hand);
    assert_int_equal(hand_sent(&hand, 2, 42, 0, false)->unmatched.count, 0); /* differs in two points */
    hand_free(&hand);
    assert_int_equal(hand_sent(&hand, 1, 24, 0, false)->unmatched.count, 0); /* it is what is waited for */
    hand_free(&hand);
}

/* A receive that was posted before the send, and ended; or is posted still, but not what is waited for. */
static void messages_that_were_awaited_are_not(void **state) {
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct hand hand;
        hand_make(&hand, 2);
        dump_builder_collective(hand.builders[0], 0, BUILDER_BARRIER, 0, 0, 0, 10, 20);
        struct record record = {.kind = RECORD_POST, .call = BUILDER_IRECV, .flags = FLAG_RECV, .peer = 1, .tag = 42};
        record.t0 = 21, record.t1 = 22, record.op = 5;
        dump_builder_record(hand.builders[0], 0, &record);
        record.kind = RECORD_DONE, record.t1 = 50;
        if (over) { /* beside a send that was over at once */
            dump_builder_record(hand.builders[0], 0, &record);
            record.flags = FLAG_SEND, record.t1 = 25, record.op = 6;
            dump_builder_record(hand.builders[0], 0, &record);
        }
        if (!over)
            hand_pending(&hand, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0)->tag = 42;
        dump_builder_p2p(hand.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 42, 0, 8, 30, 40);
        hand_call(&hand, 0, BUILDER_RECV, FLAG_RECV, 1, 24, 0);
        assert_int_equal(hand_judge(&hand, true)->unmatched.count, 0);
        hand_free(&hand);
    }
}

/* The receive came 20 ticks after the send, by the counter that both share; by what each process knows of its rate it
 * came before. */
static void clocks_that_drift_lose_no_message(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand, 2);
    for (unsigned r = 0; r < 2; r++) {
        dump_builder_host(hand.builders[r], "host0", "the boot", 0);
        dump_builder_header(hand.builders[r])->clock_kind = CLOCK_KIND_TSC;
        dump_builder_anchor(hand.builders[r], 0, 1000, 1000 * MS, 0);
        dump_builder_anchor(hand.builders[r], 1000000, 1000000 + (r ? 1000 : 0), 1001 * MS, 0);
    }
    dump_builder_p2p(hand.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 42, 0, 8, 500000, 500010);
    dump_builder_p2p(hand.builders[0], 0, BUILDER_RECV, 0, FLAG_RECV, 1, 42, 0, 8, 500005, 500020);
    dump_builder_collective(hand.builders[0], 0, BUILDER_BARRIER, 0, 0, 0, 500022, 500030);
    hand_call(&hand, 0, BUILDER_RECV, FLAG_RECV, 1, 24, 0);
    assert_int_equal(hand_judge(&hand, true)->unmatched.count, 0);
    hand_free(&hand);
}

/* Where the receiver's ring does not go back to the send, it may have been received. */
static void messages_of_long_ago_are_not_said_to_be_left(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand, 2);
    dump_builder_p2p(hand.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 42, 0, 8, 30, 40);
    for (unsigned i = 0; i < 2 * RING; i++)
        dump_builder_collective(hand.builders[0], 0, BUILDER_BARRIER, 0, i, 0, 100 + 10 * i, 105 + 10 * i);
    hand_call(&hand, 0, BUILDER_RECV, FLAG_RECV, 1, 24, 0);
    assert_int_equal(hand_judge(&hand, true)->unmatched.count, 0);
    hand_free(&hand);
}

/* Rank 1 has made so many calls since it sent what nobody received. */
static void sends_are_looked_for_among_the_last_calls(void **state) {
    (void)state;
    for (unsigned since = 1000; since <= 1100; since += 100) {
        struct hand hand;
        hand_make_rings(&hand, 2, 2, 4096);
        dump_builder_collective(hand.builders[0], 0, BUILDER_BARRIER, 0, 0, 0, 10, 20);
        dump_builder_p2p(hand.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 42, 0, 8, 30, 40);
        for (unsigned i = 0; i < since; i++)
            dump_builder_plain(hand.builders[1], 0, BUILDER_WAIT, 100 + 10 * i, 105 + 10 * i);
        hand_call(&hand, 0, BUILDER_RECV, FLAG_RECV, 1, 24, 0);
        assert_int_equal(hand_judge(&hand, true)->unmatched.count, since == 1000);
        hand_free(&hand);
    }
}

/* Rank 0 and 1 receive from each other; both have sent one, `tag`, that the other has not got. Once they were killed it
 * may just have come where it is the one that is waited for. */
static void a_message_of_another_tag_is_not_the_one_under_way(void **state) {
    (void)state;
    for (int32_t tag = 24; tag <= 42; tag += 18) {
        struct hand hand;
        hand_make(&hand, 2);
        for (unsigned r = 0; r < 2; r++) {
            int32_t other = 1 - (int32_t)r;
            for (unsigned i = 0; i < 2 * RING; i++) /* the ring does not hold all there was */
                dump_builder_collective(hand.builders[r], 0, BUILDER_BARRIER, 0, i, 0, 10 + i, 11 + i);
            dump_builder_p2p(hand.builders[r], 0, BUILDER_SEND, 0, FLAG_SEND, other, tag, 0, 8, 90, 95);
            struct peer_row *row = dump_builder_peer(hand.builders[r], 0);
            row->peer = other;
            row->direction = FLAG_SEND;
            row->call = BUILDER_SEND;
            row->count = 1;
            hand_call(&hand, r, BUILDER_RECV, FLAG_RECV, other, 24, SEQ_NONE);
            hand.states[r] = PROCESS_GONE;
        }
        assert_int_equal(hand_judge(&hand, false)->verdict, tag == 24 ? VERDICT_HANG : VERDICT_DEADLOCK);
        hand_free(&hand);
    }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void the_shortest_cycle_is_found(void **state) {
    (void)state;
    struct and_or_graph graph = {0};
    uint32_t nodes[8];
    for (int i = 0; i < 6; i++)
        and_or_graph_node(&graph, false);
    for (uint32_t i = 0; i < 5; i++) /* 0 > 1 > 2 > 3 > 4 > 0, and 4 > 3 */
        and_or_graph_wait(&graph, i, (i + 1) % 5);
    and_or_graph_wait(&graph, 4, 3);
    and_or_graph_wait(&graph, 4, 5); /* 5 is free */
    assert_true(and_or_graph_release(&graph));
    assert_true(graph.released[5]);
    assert_false(graph.released[0]);
    assert_int_equal(and_or_graph_cycle(&graph, 0, nodes, 8), 2);
    assert_int_equal(nodes[0] + nodes[1], 7);
    and_or_graph_free(&graph);
}

static void any_is_released_by_one(void **state) {
    (void)state;
    struct and_or_graph graph = {0};
    uint32_t any = and_or_graph_node(&graph, true), stuck = and_or_graph_node(&graph, false),
             runs = and_or_graph_node(&graph, false);
    and_or_graph_wait(&graph, any, stuck);
    and_or_graph_wait(&graph, any, runs);
    and_or_graph_wait(&graph, stuck, stuck);
    assert_true(and_or_graph_release(&graph));
    assert_true(graph.released[any]);
    assert_false(graph.released[stuck]);
    and_or_graph_free(&graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_single_fault_is_found),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(killed_at_any_moment),
        cmocka_unit_test(torn_dumps_of_a_hang),
        cmocka_unit_test(histories_part_where_they_do),
        cmocka_unit_test(a_waitany_needs_only_one),
        cmocka_unit_test(a_waitany_that_none_can_end),
        cmocka_unit_test(only_the_newest_generation_is_judged),
        cmocka_unit_test(who_has_not_started_a_persistent_collective_is_missing),
        cmocka_unit_test(a_start_that_all_have_made_misses_nobody),
        cmocka_unit_test(only_neighbours_are_missing_among_neighbours),
        cmocka_unit_test(who_gives_to_a_rank_may_wait_for_it),
        cmocka_unit_test(a_message_that_has_come_is_not_waited_for),
        cmocka_unit_test(a_message_that_never_comes_is),
        cmocka_unit_test(who_only_polls_waits),
        cmocka_unit_test(polling_in_a_circle_is_a_deadlock),
        cmocka_unit_test(who_works_between_polls_does_not_wait),
        cmocka_unit_test(a_pending_request_outside_the_list_does_not_count),
        cmocka_unit_test(a_message_under_way_when_all_were_killed),
        cmocka_unit_test(a_send_to_a_posted_receive_is_no_deadlock),
        cmocka_unit_test(sends_of_a_quarter_megabyte_wait_for_their_receivers),
        cmocka_unit_test(waiting_for_oneself),
        cmocka_unit_test(a_circle_beside_ranks_that_move),
        cmocka_unit_test(waiting_for_ranks_that_move_is_no_hang),
        cmocka_unit_test(the_first_that_died_is_to_blame),
        cmocka_unit_test(who_is_left_behind_is_named),
        cmocka_unit_test(twins_of_a_collective_are_one_operation),
        cmocka_unit_test(a_collective_that_all_are_in_names_nobody),
        cmocka_unit_test(ranks_may_have_disagreed_on_a_freed_communicator),
        cmocka_unit_test(a_job_killed_at_work),
        cmocka_unit_test(a_job_that_stood_before_it_was_killed),
        cmocka_unit_test(a_job_whose_end_is_not_known),
        cmocka_unit_test(a_first_collective_that_has_no_history),
        cmocka_unit_test(the_longest_call_is_left_out),
        cmocka_unit_test(a_wait_is_long_beyond_three_times_the_usual),
        cmocka_unit_test(ranks_that_share_processors_wait_for_these),
        cmocka_unit_test(a_gpus_memory_tells_when_the_job_ended),
        cmocka_unit_test(a_job_that_ended_at_work_without_a_trace),
        cmocka_unit_test(a_call_that_somebody_came_out_of_is_no_hang),
        cmocka_unit_test(who_is_away_may_come_back),
        cmocka_unit_test(who_is_away_now_may_come_back),
        cmocka_unit_test(who_is_stopped_does_not_come_back),
        cmocka_unit_test(who_is_elsewhere_in_the_library_does_not_come_back),
        cmocka_unit_test(a_job_that_was_seen_to_stand_needs_no_age),
        cmocka_unit_test(for_how_long_a_circle_stood),
        cmocka_unit_test(what_stood_before_the_first_death_is_the_cause),
        cmocka_unit_test(a_death_at_work_is_the_cause),
        cmocka_unit_test(who_is_waited_for_and_fails_is_dead),
        cmocka_unit_test(exits_out_of_calls_are_no_cause),
        cmocka_unit_test(an_exit_of_ones_own_is_the_cause),
        cmocka_unit_test(a_death_on_another_host),
        cmocka_unit_test(calls_of_other_kinds_are_compared_with),
        cmocka_unit_test(finalize_given_up),
        cmocka_unit_test(a_death_in_finalize),
        cmocka_unit_test(who_is_not_where_most_are_is_to_blame),
        cmocka_unit_test(a_message_with_a_wrong_tag_is_shown),
        cmocka_unit_test(messages_that_were_received_are_not),
        cmocka_unit_test(messages_that_were_awaited_are_not),
        cmocka_unit_test(clocks_that_drift_lose_no_message),
        cmocka_unit_test(messages_of_long_ago_are_not_said_to_be_left),
        cmocka_unit_test(sends_are_looked_for_among_the_last_calls),
        cmocka_unit_test(a_message_of_another_tag_is_not_the_one_under_way),
        cmocka_unit_test(the_shortest_cycle_is_found),
        cmocka_unit_test(any_is_released_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
