/* SPDX-License-Identifier: Apache-2.0
 *
 * The job once more with other durations: what waits for what, and how much faster it would be.
 * Lives here: small worlds with integer answers, what holds of any world, mending against jobs played without the
 * plant. Must not live here: single waits (test_waits.c), who is named (test_workloads.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/align/align.h"
#include "analyzer/match/match.h"
#include "analyzer/stragglers/comparison_groups.h"
#include "analyzer/replay/replay_build.h"
#include "analyzer/replay/what_if.h"
#include "test/scenes/mended.h"
#include "test/scenes/scene.h"
#include "test/unit/job_builder.h"

struct worker {
    struct replay_build *build;
    unsigned number;
};

static void take_instance(void *state, const struct match_instance *instance) {
    const struct worker *worker = state;
    replay_add_instance(worker->build, worker->number, instance);
}

static void take_message(void *state, const struct match_message *message) {
    const struct worker *worker = state;
    replay_add_message(worker->build, worker->number, message);
}

static void take_record(void *state, const struct match_record *record) {
    const struct worker *worker = state;
    replay_add_record(worker->build, worker->number, record);
}

static struct replay walk(const struct common_clock *clock, const struct match_directory *directory, unsigned workers) {
    const struct match_sink sink = {.instance = take_instance, .record = take_record, .message = take_message};
    struct worker work[4];
    void *states[4];
    struct match_totals totals;
    struct comparison_groups groups;
    struct replay replay;
    assert_true(comparison_groups_choose(&groups, directory));
    struct replay_build *build = replay_begin(clock, directory, NULL, groups.cuts, workers);
    assert_non_null(build);
    for (unsigned w = 0; w < workers; w++) {
        work[w] = (struct worker){build, w};
        states[w] = &work[w];
    }
    assert_true(match_run(clock, directory, &sink, states, workers, &totals));
    assert_true(replay_finish(&replay, build));
    comparison_groups_free(&groups);
    return replay;
}

static int64_t unchanged(const struct replay *replay) {
    return replay_run(replay, replay->work_ns, replay->tail_ns);
}

/* Opens the job, and makes its graph with one worker and with four: they say the same. */
static struct replay replay_of(struct hand_job *job, unsigned with_dump) {
    hand_job_open(job, with_dump);
    struct replay replay = walk(&job->clock, &job->directory, 1), again = walk(&job->clock, &job->directory, 4);
    assert_int_equal(replay.node_count, again.node_count);
    assert_memory_equal(replay.work_ns, again.work_ns, replay.node_count * sizeof *replay.work_ns);
    assert_memory_equal(replay.tail_ns, again.tail_ns, replay.node_count * sizeof *replay.tail_ns);
    assert_int_equal(unchanged(&replay), replay.wall_ns);
    assert_int_equal(unchanged(&again), unchanged(&replay));
    replay_free(&again);
    return replay;
}

static void done(struct hand_job *job, struct replay *replay) {
    replay_free(replay);
    hand_job_free(job);
}

/* All ranks are each other's peers. */
static const uint32_t one_class[64] = {0};
static const struct what_if_peers all_peers = {one_class, one_class};

static bool measure_sites(struct what_if *what_if, const struct what_if_basis *basis) {
    double speedups[WHAT_IF_SITES];
    struct what_if_site_list *sites = what_if_list_sites(basis, &all_peers);
    bool done = sites != NULL;
    for (size_t i = 0; done && i < what_if_site_count(sites); i++)
        done = (speedups[i] = what_if_site_mended(basis, sites, i)) > 0;
    if (done)
        what_if_keep_sites(what_if, basis, sites, speedups);
    what_if_free_sites(sites);
    return done;
}

static bool measure(struct what_if *what_if, struct replay *replay) {
    struct what_if_basis basis;
    bool done = what_if_prepare(&basis, replay);
    what_if_begin(what_if, replay);
    done = done && (!what_if->known || (what_if_measure_slowdown(what_if, &basis) && measure_sites(what_if, &basis)));
    what_if_free(&basis);
    return done;
}

static double mended(struct replay *replay, const struct what_if_peers *peers, const struct what_if_mend *mend) {
    struct what_if_basis basis;
    assert_true(what_if_prepare(&basis, replay));
    double faster = what_if_mended(&basis, peers, mend);
    what_if_free(&basis);
    return faster;
}

static double mend(struct replay *replay, size_t dump) {
    return mended(replay, &all_peers, &(struct what_if_mend){.dumps = &dump, .count = 1});
}

static double ends_mended(struct replay *replay, const struct what_if_ends *ends, double ratio) {
    struct what_if_basis basis;
    assert_true(what_if_prepare(&basis, replay));
    double faster = what_if_link(&basis, ends, ratio);
    what_if_free(&basis);
    return faster;
}

static double link_mended(struct replay *replay, uint32_t from, uint32_t to, double ratio) {
    return ends_mended(replay, &(struct what_if_ends){.from = from, .to = to}, ratio);
}

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

/* Nothing but this node's own work or tail is changed; returns how long all of it takes then. */
static int64_t with_work(const struct replay *replay, size_t node, int64_t work_ns) {
    int64_t kept = replay->work_ns[node];
    replay->work_ns[node] = work_ns;
    int64_t time = unchanged(replay);
    replay->work_ns[node] = kept;
    return time;
}

static void barrier(struct hand_job *job, unsigned rank, uint32_t seq, uint64_t enter, uint64_t leave) {
    dump_builder_collective(job->builders[rank], 0, BUILDER_BARRIER, 0, seq, 0, enter, leave);
}

static void send(struct hand_job *job, unsigned from, unsigned to, uint32_t ordinal, uint64_t enter, uint64_t leave) {
    dump_builder_p2p(job->builders[from], 0, BUILDER_SEND, 0, FLAG_SEND, (int32_t)to, 0, ordinal, 8, enter, leave);
}

static void receive(struct hand_job *job, unsigned from, unsigned to, uint32_t ordinal, uint64_t enter,
                    uint64_t leave) {
    dump_builder_p2p(job->builders[to], 0, BUILDER_RECV, 0, FLAG_RECV, (int32_t)from, 0, ordinal, 8, enter, leave);
}

/* One thing ties ranks that never came to MPI_Finalize: their barrier. */
static void links_are_what_was_recorded(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++)
        barrier(&job, r, 0, 100, 200);
    struct replay replay = replay_of(&job, 2);
    assert_int_equal(replay.link_count, 1);
    done(&job, &replay);
}

/* Rank 2 takes 400 before the second barrier where the others take 100; before the third all take 100. */
static void make_late_rank(struct hand_job *job) {
    hand_job_make(job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        barrier(job, r, 0, 90, 100);
        barrier(job, r, 1, r == 2 ? 500 : 200, 510);
        barrier(job, r, 2, 610, 620);
    }
}

/* One rank, whose messages to itself and collectives with nobody else take 100 and 900 by turns. */
static void one_rank_has_nobody_to_be_like(void **state) {
    (void)state;
    struct hand_job job;
    struct what_if what_if;
    hand_job_make(&job, 1, (struct dump_plan){0});
    uint64_t at = 100;
    for (uint32_t i = 0; i < 20; i++) {
        send(&job, 0, 0, i, at, at + 10);
        receive(&job, 0, 0, i, at + 20, at + 30);
        barrier(&job, 0, i, at + 40, at + 50);
        at += i % 2 ? 950 : 150;
    }
    struct replay replay = replay_of(&job, 1);
    assert_true(replay.linked > 0);
    assert_true(measure(&what_if, &replay));
    assert_false(what_if.known);
    replay_free(&replay);
    hand_job_free(&job);
}

static void a_slow_rank_is_all_there_is_to_gain(void **state) {
    (void)state;
    struct hand_job job;
    struct what_if what_if;
    make_late_rank(&job);
    struct replay replay = replay_of(&job, 3);
    assert_int_equal(replay.wall_ns, 530);
    assert_int_equal(replay.linked, 9);
    assert_int_equal(replay.work_ns[1], 100);
    assert_int_equal(replay.work_ns[7], 400);
    assert_int_equal(replay.tail_ns[1], 10); /* its wait from 200 to 500 is none of it */
    assert_int_equal(with_work(&replay, 7, 150), 280);
    assert_int_equal(with_work(&replay, 7, 50), 230);  /* the others take 100 */
    assert_int_equal(with_work(&replay, 1, 350), 530); /* rank 0 has 300 to spare */
    assert_int_equal(with_work(&replay, 1, 450), 580);
    /* six stretches before a barrier, 900 in all: 150 each; then 10 + 150 + 10 + 150 + 10 */
    assert_true(measure(&what_if, &replay));
    assert_true(what_if.known && !what_if.partial);
    assert_true(near(what_if.slowdown, 530.0 / 330));
    assert_int_equal(what_if.worst_workers, 1);
    assert_true(near(what_if.worst_workers_share, 1));
    assert_true(near(mend(&replay, 2), 530.0 / 230));
    assert_true(near(mend(&replay, 0), 1));
    /* before this call: its pieces become those of the others */
    assert_int_equal(what_if.site_count, 1);
    assert_int_equal(what_if.sites[0].dump, 2);
    assert_int_equal(what_if.sites[0].extra_ns, 300);
    assert_true(near(what_if.sites[0].speedup, 530.0 / 230));
    done(&job, &replay);
}

/* Rank 2 works 290 longer before the second of two collectives. Were what is saved taken from its work before the first
 * one as well, for which it takes as long as the others, it would still come late to the second. */
static void what_is_saved_is_saved_where_the_peers_are_faster(void **state) {
    (void)state;
    static const size_t slow = 2;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        barrier(&job, r, 0, 90, 100);
        for (unsigned step = 0; step < 2; step++) {
            uint64_t began = 100 + 420 * step, late = r == slow ? 290 : 0;
            barrier(&job, r, 2 * step + 1, began + 100, began + 110);
            dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 2 * step + 2, 8, began + 120 + late,
                                    began + 420);
        }
    }
    struct replay replay = replay_of(&job, 3);
    assert_int_equal(replay.wall_ns, 850);
    const struct what_if_mend mend = {.dumps = &slow, .count = 1, .collectives = 8};
    assert_true(near(mended(&replay, &all_peers, &mend), 850.0 / 270));
    done(&job, &replay);
}

static void mending_nobody_gains_nothing(void **state) {
    (void)state;
    struct hand_job job;
    make_late_rank(&job);
    struct replay replay = replay_of(&job, 3);
    assert_true(mended(&replay, &all_peers, &(struct what_if_mend){0}) == 1);
    assert_true(link_mended(&replay, 0, 1, 2) == 1); /* there are no messages */
    /* all of them at once: nobody is left to compare with */
    static const size_t everybody[] = {0, 1, 2};
    assert_true(mended(&replay, &all_peers, &(struct what_if_mend){.dumps = everybody, .count = 3}) == 1);
    done(&job, &replay);
}

/* A whole rank class is compared with the other rank class of its comparison group. */
static void a_rank_class_is_mended_to_the_others(void **state) {
    (void)state;
    static const uint32_t classes[] = {0, 0, 1}, group[] = {0, 0, 0};
    static const size_t last = 2;
    struct hand_job job;
    make_late_rank(&job);
    struct replay replay = replay_of(&job, 3);
    const struct what_if_peers peers = {classes, group};
    assert_true(near(mended(&replay, &peers, &(struct what_if_mend){.dumps = &last, .count = 1}), 530.0 / 230));
    done(&job, &replay);
}

/* Rank 0 is slow in the second stretch, rank 1 in the third: of each, what stands out is cut. */
static void turns_are_mended_where_they_stand_out(void **state) {
    (void)state;
    static const size_t both[] = {0, 1};
    struct hand_job job;
    hand_job_make(&job, 4, (struct dump_plan){0});
    for (unsigned r = 0; r < 4; r++) {
        barrier(&job, r, 0, 90, 100);
        barrier(&job, r, 1, r == 0 ? 300 : 200, 310);
        barrier(&job, r, 2, r == 1 ? 510 : 410, 520);
        barrier(&job, r, 3, r == 1 ? 640 : 620, 650); /* 120 against 100 is no turn */
    }
    struct replay replay = replay_of(&job, 4);
    assert_int_equal(replay.wall_ns, 560);
    struct what_if_mend turns = {.dumps = both, .count = 2, .now_and_then = 1.5};
    assert_true(near(mended(&replay, &all_peers, &turns), 560.0 / 360));
    turns.count = 1;
    assert_true(near(mended(&replay, &all_peers, &turns), 560.0 / 460));
    done(&job, &replay);
}

enum { STAGES = 3, MICRO_BATCHES = 4, SWEEPS = 40 };

/* What a micro-batch takes a stage, forwards and back, and what one stage takes longer: before each, or before a sweep.
 */
struct stages {
    uint64_t forward, back;
    unsigned slow;
    uint64_t more, before_sweep;
};

/* One stage works all micro-batches of a sweep one way: from each, once it has come, to the next stage. `come`: when
 * they do, replaced by when they leave; each call takes 1. */
static uint64_t play_stage(struct hand_job *job, unsigned r, int way, uint32_t sweep, uint64_t now, uint64_t work,
                           uint64_t come[MICRO_BATCHES]) {
    int from = (int)r - way, to = (int)r + way;
    for (uint32_t b = 0; b < MICRO_BATCHES; b++) {
        uint32_t number = MICRO_BATCHES * sweep + b;
        uint64_t begun = come[b] > now ? come[b] : now;
        if (from >= 0 && from < STAGES) {
            receive(job, (unsigned)from, r, number, now, begun + 1);
            now = begun + 1;
        }
        come[b] = now += work;
        if (to >= 0 && to < STAGES) {
            send(job, r, (unsigned)to, number, now, now + 1);
            now++;
        }
    }
    return now;
}

/* A pipeline: every stage works all micro-batches forwards, then all of them back. `now` is where each stage is. */
static void play_sweep(struct hand_job *job, const struct stages *stages, uint32_t sweep, uint64_t now[STAGES]) {
    uint64_t come[MICRO_BATCHES] = {0}, back[MICRO_BATCHES] = {0};
    for (unsigned r = 0; r < STAGES; r++) {
        uint64_t before = r == stages->slow ? stages->before_sweep : 0, more = r == stages->slow ? stages->more : 0;
        now[r] = play_stage(job, r, 1, sweep, now[r] + before, stages->forward + more, come);
    }
    for (unsigned r = STAGES; r-- > 0;)
        now[r] = play_stage(job, r, -1, sweep, now[r], stages->back + (r == stages->slow ? stages->more : 0), back);
}

/* Ranks are compared from one first send of a sweep to the next. */
static void cut_at_first_sends(struct replay *replay) {
    static const size_t until[STAGES] = {1, 2, MICRO_BATCHES + 1};
    for (size_t r = 0; r < STAGES; r++) {
        size_t count = replay->first[r + 1] - replay->first[r], sweep = count / SWEEPS;
        for (size_t i = 0; i < count; i++)
            replay->nodes[replay->first[r] + i].segment = (uint32_t)((i + sweep - until[r]) / sweep);
    }
}

/* What it takes altogether; *faster: where that is asked for, what mending the slow stage is said to give. */
static double play_stages(const struct stages *stages, double *faster) {
    struct hand_job job;
    uint64_t now[STAGES] = {100, 100, 100};
    hand_job_make(&job, STAGES, (struct dump_plan){0});
    for (uint32_t sweep = 0; sweep < SWEEPS; sweep++)
        play_sweep(&job, stages, sweep, now);
    struct replay replay = replay_of(&job, STAGES);
    double wall = (double)replay.wall_ns;
    cut_at_first_sends(&replay);
    if (faster)
        *faster = mend(&replay, stages->slow);
    done(&job, &replay);
    return wall;
}

/* The ends of a pipeline make the same calls in the same order, and work at other places: what the first does before
 * its sends the last does before its receives. */
static void stages_of_a_pipeline_are_no_models_of_where_work_lies(void **state) {
    (void)state;
    static const struct stages slow[] = {
        {1000, 2000, 0, 1000, 0}, {1000, 2000, 2, 1000, 0}, {1000, 2000, 0, 0, 15000}, {1000, 2000, 2, 600, 0}};
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        double faster, truth = play_stages(&slow[i], &faster);
        truth /= play_stages(&(struct stages){slow[i].forward, slow[i].back, 0, 0, 0}, NULL);
        assert_true(truth > 1.15);
        assert_true(faster > truth * 0.97 && faster < truth * 1.01);
    }
}

/* Sends of this size never wait: the receiver's lateness is not the sender's. */
static void a_buffered_send_waits_for_nobody(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    send(&job, 0, 1, 0, 100, 110); /* left before the receive came: buffered */
    receive(&job, 0, 1, 0, 200, 210);
    send(&job, 0, 1, 1, 1000, 1010); /* the receiver waits: late sender */
    receive(&job, 0, 1, 1, 300, 1020);
    send(&job, 0, 1, 2, 1110, 1120);
    receive(&job, 0, 1, 2, 1120, 1130);
    struct replay replay = replay_of(&job, 2);
    assert_int_equal(replay.wall_ns, 1030);
    /* the second send after 90 instead of 890: at 200, the receive at 300 does not wait; 1020 -> 320, 1130 -> 430 */
    assert_int_equal(with_work(&replay, 1, 90), 430 - 100);
    /* the second receive 800 later, at 1100 and until 1120; the senders do not care: 1230 is the end */
    assert_int_equal(with_work(&replay, 4, 890), 1230 - 100);
    done(&job, &replay);
}

/* A send that waited for its receiver does so in the replay, in both directions of change. */
static void a_rendezvous_waits_for_its_receiver(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    barrier(&job, 0, 0, 0, 10);
    barrier(&job, 1, 0, 0, 10);
    send(&job, 0, 1, 0, 100, 510);
    receive(&job, 0, 1, 0, 500, 510);
    barrier(&job, 0, 1, 600, 620);
    barrier(&job, 1, 1, 610, 620);
    struct replay replay = replay_of(&job, 2);
    assert_int_equal(replay.tail_ns[1], 10);
    assert_int_equal(with_work(&replay, 4, 50), 220); /* there at 60, sent at 100: both at 110, then 100 and 10 */
    assert_int_equal(with_work(&replay, 4, 590), 720);
    /* 590 of work become the 180 of rank 0: 149 and 30. There at 159, rank 0 sends until 169, comes at 259 */
    assert_true(near(mend(&replay, 1), 620.0 / 269));
    done(&job, &replay);
}

static uint32_t post(struct hand_job *job, unsigned rank, uint16_t call, uint16_t flag, unsigned peer, uint32_t op,
                     uint64_t at) {
    dump_builder_record(job->builders[rank], 0,
                        &(struct record){.t0 = at,
                                         .t1 = at + 1,
                                         .bytes = 8,
                                         .op = op,
                                         .peer = (int32_t)peer,
                                         .tag = 0,
                                         .call = call,
                                         .flags = flag,
                                         .kind = RECORD_POST});
    return op;
}

static void complete(struct hand_job *job, unsigned rank, uint16_t call, uint16_t flag, unsigned peer, uint32_t op,
                     uint64_t posted, uint64_t seen) {
    dump_builder_record(job->builders[rank], 0,
                        &(struct record){.t0 = posted,
                                         .t1 = seen,
                                         .bytes = 8,
                                         .op = op,
                                         .peer = (int32_t)peer,
                                         .tag = 0,
                                         .call = call,
                                         .flags = flag,
                                         .kind = RECORD_DONE});
}

/* Rank 1 waits in one Waitall for two receives; both are seen complete when the later one is. */
static void a_wait_needs_the_last_of_what_ends_in_it(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        barrier(&job, r, 0, 0, 10);
    send(&job, 0, 1, 0, 200, 201);
    send(&job, 2, 1, 0, 700, 701);
    post(&job, 1, BUILDER_IRECV, FLAG_RECV, 0, 1, 20);
    post(&job, 1, BUILDER_IRECV, FLAG_RECV, 2, 2, 21);
    complete(&job, 1, BUILDER_IRECV, FLAG_RECV, 0, 1, 20, 710);
    complete(&job, 1, BUILDER_IRECV, FLAG_RECV, 2, 2, 21, 710);
    dump_builder_plain(job.builders[1], 0, BUILDER_WAITALL, 100, 710);
    struct replay replay = replay_of(&job, 3);
    assert_int_equal(replay.wall_ns, 710);
    size_t wait = replay.first[2] - 1, late = replay.first[3] - 1;
    assert_int_equal(replay.nodes[wait].kind, REPLAY_WAIT);
    assert_int_equal(replay.tail_ns[wait], 10);
    assert_int_equal(replay.takes_first[wait + 1] - replay.takes_first[wait], 2);
    assert_int_equal(with_work(&replay, late, 90), 210); /* sent at 100; rank 0's at 200 is the last now */
    assert_int_equal(with_work(&replay, late, 790), 810);
    assert_true(near(mend(&replay, 2), 710.0 / 210));
    done(&job, &replay);
}

/* From the root: nobody but those who receive waits. To the root: only the root does. */
static void roots_are_waited_for_and_wait(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        struct record *bcast =
            dump_builder_collective(job.builders[r], 0, BUILDER_BCAST, 0, 0, 8, r == 0 ? 500 : 100, r == 0 ? 505 : 510);
        bcast->peer = 0;
        struct record *reduce = dump_builder_collective(job.builders[r], 0, BUILDER_REDUCE, 0, 1, 8, r == 2 ? 900 : 600,
                                                        r == 1   ? 905
                                                        : r == 2 ? 902
                                                                 : 605);
        reduce->peer = 1;
    }
    struct replay replay = replay_of(&job, 3);
    assert_int_equal(replay.takes_first[1] - replay.takes_first[0], 0); /* the root of the broadcast */
    assert_int_equal(replay.tail_ns[0], 5);
    assert_int_equal(replay.tail_ns[2], 10);                    /* rank 1, from 500 */
    assert_int_equal(replay.tail_ns[3], 5);                     /* rank 1 as the root of the reduction, from 900 */
    assert_int_equal(replay.tail_ns[1], 5);                     /* rank 0 only sends */
    assert_int_equal(with_work(&replay, 5, 95), 605 - 100 + 5); /* 510 + 95; rank 1 comes at 600 itself: 605, + 5 */
    done(&job, &replay);
}

/* One rank's part in a broadcast of 8 bytes, the barrier at the beginning was number 0. */
static void broadcast(struct hand_job *job, unsigned rank, uint32_t seq, int32_t root, uint64_t enter, uint64_t leave) {
    dump_builder_collective(job->builders[rank], 0, BUILDER_BCAST, 0, seq, 8, enter, leave)->peer = root;
}

static void begin_together(struct hand_job *job, unsigned ranks) {
    hand_job_make(job, ranks, (struct dump_plan){0});
    for (unsigned r = 0; r < ranks; r++)
        barrier(job, r, 0, 0, 10);
}

enum {
    RELAYED = 4
}; /* ranks of the next broadcasts: the root hands on to the next two, the first of them to the last */

/* The first one behind the root comes 400 late, and the last one gets its data from there. */
static void relay_late(struct hand_job *job, uint32_t seq, unsigned root, uint64_t at) {
    broadcast(job, root, seq, (int32_t)root, at, at + 2);
    broadcast(job, (root + 1) % RELAYED, seq, (int32_t)root, at + 400, at + 402);
    broadcast(job, (root + 2) % RELAYED, seq, (int32_t)root, at, at + 3);
    broadcast(job, (root + 3) % RELAYED, seq, (int32_t)root, at, at + 410);
}

/* The same, and the last one is gone by then. */
static void nobody_relays(struct hand_job *job, uint32_t seq, unsigned root, uint64_t at) {
    broadcast(job, root, seq, (int32_t)root, at, at + 2);
    broadcast(job, (root + 1) % RELAYED, seq, (int32_t)root, at + 400, at + 402);
    broadcast(job, (root + 2) % RELAYED, seq, (int32_t)root, at, at + 3);
    broadcast(job, (root + 3) % RELAYED, seq, (int32_t)root, at, at + 10);
}

/* Libraries hand data on from rank to rank, in the same way seen from each root. */
static void who_hands_data_on_is_waited_for(void **state) {
    (void)state;
    struct hand_job job;
    begin_together(&job, RELAYED);
    relay_late(&job, 1, 0, 100);
    relay_late(&job, 2, 1, 1000);
    struct replay replay = replay_of(&job, RELAYED);
    size_t late = replay.first[2] + 2, waits = replay.first[3] + 1;
    assert_int_equal(replay.nodes[waits].leave, 510);
    assert_int_equal(replay.tail_ns[waits], 10);                                    /* since rank 1 came, at 500 */
    assert_int_equal(replay.takes_first[waits + 1] - replay.takes_first[waits], 2); /* the root, and rank 1 */
    assert_int_equal(replay.takes_first[waits] - replay.takes_first[waits - 1], 1); /* all at the barrier */
    assert_int_equal(replay.tail_ns[replay.first[0] + 2], 10);                      /* rank 0 behind rank 2 */
    assert_int_equal(replay.tail_ns[replay.first[2] + 1], 3);                       /* has it from the root */
    /* rank 2 comes to the second one 100 later, and rank 0 gets it from there */
    assert_int_equal(with_work(&replay, late, replay.work_ns[late] + 100), replay.wall_ns + 100);
    done(&job, &replay);
}

static void what_happened_once_makes_no_relay(void **state) {
    (void)state;
    struct hand_job job;
    begin_together(&job, RELAYED);
    relay_late(&job, 1, 0, 100);
    struct replay replay = replay_of(&job, RELAYED);
    assert_int_equal(replay.tail_ns[replay.first[3] + 1], 410);
    done(&job, &replay);
}

/* Who as often goes without waiting was held up by something else. */
static void who_leaves_as_often_needs_no_relay(void **state) {
    (void)state;
    for (unsigned times = 1; times <= 2; times++) {
        struct hand_job job;
        begin_together(&job, RELAYED);
        relay_late(&job, 1, 0, 100);
        relay_late(&job, 2, 0, 1000);
        for (unsigned i = 0; i < times; i++)
            nobody_relays(&job, 3 + i, 0, 2000 + 1000 * i);
        struct replay replay = replay_of(&job, RELAYED);
        assert_int_equal(replay.tail_ns[replay.first[3] + 1], times == 1 ? 10 : 410);
        done(&job, &replay);
    }
}

/* A root that sends much is held up by who has not come to take it. */
static void a_root_waits_for_who_takes_from_it(void **state) {
    (void)state;
    struct hand_job job;
    begin_together(&job, 2);
    for (unsigned i = 0; i < 2; i++) {
        broadcast(&job, 0, 1 + i, 0, 100 + 1000 * i, 510 + 1000 * i);
        broadcast(&job, 1, 1 + i, 0, 500 + 1000 * i, 512 + 1000 * i);
    }
    struct replay replay = replay_of(&job, 2);
    assert_int_equal(replay.tail_ns[1], 10);
    assert_int_equal(with_work(&replay, replay.first[1] + 1, 90), replay.wall_ns - 400);
    done(&job, &replay);
}

/* On a chain each waits for all between it and the root: of five that were seen, four are kept. */
static void a_member_has_four_relays(void **state) {
    (void)state;
    enum { CHAIN = 7 };
    struct hand_job job;
    begin_together(&job, CHAIN);
    uint32_t seq = 1;
    for (unsigned whom = 1; whom < CHAIN - 1; whom++) /* seen 2 + whom times */
        for (unsigned times = 0; times < 2 + whom; times++, seq++)
            for (unsigned r = 0; r < CHAIN; r++)
                broadcast(&job, r, seq, 0, 1000 * seq + (r == whom ? 400 : 0), 1000 * seq + (r >= whom ? 410 : 5));
    struct replay replay = replay_of(&job, CHAIN);
    size_t last = replay.first[CHAIN - 1] + 1; /* rank 1 is late, which was seen least often */
    assert_int_equal(replay.tail_ns[last], 410);
    assert_int_equal(replay.tail_ns[last + 3], 10); /* rank 2 is */
    done(&job, &replay);
}

/* Clocks may show an end before the beginning that it needs. The recorded times come out all the same. */
static void wrong_clocks_change_nothing(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned k = 0; k < 4; k++) {
        barrier(&job, 0, k, 100 + 100 * k, 110 + 100 * k);
        barrier(&job, 1, k, 130 + 100 * k, 140 + 100 * k); /* entered after rank 0 has left */
    }
    struct replay replay = replay_of(&job, 2);
    assert_int_equal(replay.untied, 0);
    assert_int_equal(replay.tail_ns[0], -20);
    assert_int_equal(replay.tail_ns[4], 10);
    done(&job, &replay);
}

/* Each receives first what the other sends only afterwards: such a job cannot have run. */
static void a_circle_is_untied(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        receive(&job, 1 - r, r, 0, 100, 110 + r);
        send(&job, r, 1 - r, 0, 200, 210);
    }
    struct replay replay = replay_of(&job, 2);
    assert_int_equal(replay.untied, 1);
    assert_int_equal(replay.wall_ns, 110);
    done(&job, &replay);
}

/* Polls that follow each other closely are one wait. */
static void polling_is_waiting(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        dump_builder_call(job.builders[r], 240, CLASS_TEST, FLOW_NONE, BUSBW_NONE, 0, "MPI_Test");
        barrier(&job, r, 0, 0, 10);
    }
    send(&job, 0, 1, 0, 1000, 1001);
    post(&job, 1, BUILDER_IRECV, FLAG_RECV, 0, 1, 20);
    for (uint64_t t = 100; t < 1010; t += 100)
        dump_builder_plain(job.builders[1], 0, 240, t, t + 1);
    complete(&job, 1, BUILDER_IRECV, FLAG_RECV, 0, 1, 20, 1100);
    dump_builder_plain(job.builders[1], 0, 240, 1099, 1101);
    struct replay replay = replay_of(&job, 2);
    assert_int_equal(replay.first[2] - replay.first[1], 3);
    assert_int_equal(replay.wall_ns, 1101);
    assert_int_equal(with_work(&replay, 1, 190), 301); /* sent at 200 */
    done(&job, &replay);
}

/* The receiver asks by Test, or by Iprobe before it receives, from 150 to 1010, 50 of which it works. */
static void polls_and_what_they_got_are_one_node(void **state) {
    (void)state;
    for (int probes = 0; probes < 2; probes++) {
        struct hand_job job;
        struct record polls = {.t0 = 150000, .t1 = 1010000, .seq = 51000, .call = 240, .kind = RECORD_POLL};
        hand_job_make(&job, 2, (struct dump_plan){0});
        for (unsigned r = 0; r < 2; r++) {
            dump_builder_call(job.builders[r], 240, probes ? CLASS_PROBE : CLASS_TEST, FLOW_NONE, BUSBW_NONE, 0, "Ask");
            barrier(&job, r, 0, 0, 1000);
        }
        send(&job, 0, 1, 0, 1000000, 1001000);
        if (!probes)
            post(&job, 1, BUILDER_IRECV, FLAG_RECV, 0, 1, 2000);
        dump_builder_record(job.builders[1], 0, &polls);
        dump_builder_plain(job.builders[1], 0, 240, 1011000, 1012000)->comm = 0;
        if (probes)
            receive(&job, 0, 1, 0, 1013000, 1020000);
        else
            complete(&job, 1, BUILDER_IRECV, FLAG_RECV, 0, 1, 2000, 1012000);
        struct replay replay = replay_of(&job, 2);
        assert_int_equal(replay.first[2] - replay.first[1], probes ? 2 : 3);
        assert_int_equal(replay.wall_ns, probes ? 1020000 : 1012000);
        /* sent at 200000 it comes while the receiver works, which it does until 201000 */
        assert_int_equal(with_work(&replay, 1, 199000), probes ? 201000 + 20000 : 201000 + 12000);
        done(&job, &replay);
    }
}

/* Nothing came of them, and the rank would not have been earlier at its barrier without: they stay as long. */
static void polls_in_vain_are_a_node(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    dump_builder_call(job.builders[0], 240, CLASS_TEST, FLOW_NONE, BUSBW_NONE, 0, "MPI_Test");
    for (unsigned r = 0; r < 2; r++)
        barrier(&job, r, 0, 0, 10);
    dump_builder_record(job.builders[0], 0, &(struct record){.t0 = 100, .t1 = 900, .call = 240, .kind = RECORD_POLL});
    for (unsigned r = 0; r < 2; r++)
        barrier(&job, r, 1, 1000, 1010);
    struct replay replay = replay_of(&job, 2);
    assert_int_equal(replay.first[1], 3);
    assert_int_equal(replay.work_ns[1], 90);
    assert_int_equal(replay.work_ns[2], 100);
    done(&job, &replay);
}

/* ---- links ----------------------------------------------------------------------------------- */

static void a_link_is_mended_by_its_transfers(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    barrier(&job, 0, 0, 0, 10);
    barrier(&job, 1, 0, 0, 10);
    for (uint32_t k = 0; k < 3; k++) {
        send(&job, 0, 1, k, 20 + 100 * k, 21 + 100 * k);
        receive(&job, 0, 1, k, 15 + 100 * k, 100 + 100 * k); /* 80 after the send */
    }
    barrier(&job, 0, 1, 310, 320);
    barrier(&job, 1, 1, 310, 320);
    struct replay replay = replay_of(&job, 2);
    /* four times as fast: 20 for each. Rank 1 receives at 40, 140, 240, and comes 10 later: rank 0 at 310 is the last.
     */
    assert_true(near(link_mended(&replay, 0, 1, 4), 1));
    size_t last = replay.first[1] - 1;
    replay.work_ns[last] -= 60; /* rank 0 at 250, rank 1 at 310, mended at 250 */
    assert_true(near(link_mended(&replay, 0, 1, 4), 320.0 / 260));
    assert_true(near(link_mended(&replay, 1, 0, 4), 1));
    /* the same between their hosts; and between one host and all others */
    static const uint32_t host_of[] = {4, 5};
    struct what_if_ends hosts = {.host_of = host_of, .from = 5, .to = 4};
    assert_true(near(ends_mended(&replay, &hosts, 4), 1));
    hosts.both = true;
    assert_true(near(ends_mended(&replay, &hosts, 4), 320.0 / 260));
    hosts = (struct what_if_ends){.host_of = host_of, .from = 5, .to = 5};
    assert_true(near(ends_mended(&replay, &hosts, 4), 320.0 / 260));
    done(&job, &replay);
}

/* To the last bit: what is said must not depend on the number of workers. */
static void assert_same(const struct what_if *a, const struct what_if *b) {
    assert_true(a->slowdown == b->slowdown && a->worst_workers_share == b->worst_workers_share);
    assert_int_equal(a->worst_workers, b->worst_workers);
    assert_int_equal(a->site_count, b->site_count);
    for (size_t i = 0; i < a->site_count; i++) {
        assert_true(a->sites[i].speedup == b->sites[i].speedup);
        assert_int_equal(a->sites[i].extra_ns, b->sites[i].extra_ns);
        assert_int_equal(a->sites[i].dump, b->sites[i].dump);
        assert_int_equal(a->sites[i].call, b->sites[i].call);
    }
}

/* ---- any world ------------------------------------------------------------------------------- */

static void replaying_gives_what_was_recorded(void **state) {
    (void)state;
    for (int kind = 0; kind < WORKLOADS; kind++) {
        struct workload w = workload_standard((enum workload_kind)kind);
        w.steps = 20;
        w.plant = PLANT_RANK;
        w.who = 2;
        w.factor = 1.3;
        w.outliers = 0.01;
        w.seed = 77;
        struct stage *stage = workload_play(&w);
        struct dump **dumps = stage_open(stage);
        struct common_clock clock;
        struct match_directory directory;
        assert_true(common_clock_build(&clock, dumps, w.ranks));
        assert_true(match_directory_build(&directory, dumps, w.ranks));
        struct replay one = walk(&clock, &directory, 1), four = walk(&clock, &directory, 4);
        struct what_if said, again;
        assert_true(one.linked > one.node_count / 2);
        assert_int_equal(one.untied, 0);
        assert_int_equal(unchanged(&one), one.wall_ns);
        assert_true(measure(&said, &one) && measure(&again, &four));
        assert_true(said.slowdown >= 1.02 && said.slowdown < 1.6);
        assert_same(&said, &again);
        replay_free(&one);
        replay_free(&four);
        match_directory_free(&directory);
        common_clock_free(&clock);
        stage_free(stage);
    }
}

/* A rank that joins in the middle, ranks without dumps, rings that wrapped at different moments. */
static void torn_worlds_replay_what_is_there(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct workload w = workload_standard((enum workload_kind)(seed % WORKLOADS));
        w.steps = 60;
        w.seed = seed;
        w.ring_records = 64;
        struct stage *stage = workload_play(&w);
        struct dump **dumps = stage_open(stage);
        struct common_clock clock;
        struct match_directory directory;
        unsigned some = 2 + (unsigned)seed % 5;
        assert_true(common_clock_build(&clock, dumps, some));
        assert_true(match_directory_build(&directory, dumps, some));
        struct replay replay = walk(&clock, &directory, 2);
        if (replay.node_count > 0)
            assert_int_equal(unchanged(&replay), replay.wall_ns);
        struct what_if said;
        assert_true(measure(&said, &replay));
        assert_true(said.slowdown >= 1);
        replay_free(&replay);
        match_directory_free(&directory);
        common_clock_free(&clock);
        stage_free(stage);
    }
}

/* ---- the truth ------------------------------------------------------------------------------- */

static void mended_is_what_the_job_takes_without_the_plant(void **state) {
    (void)state;
    static const struct {
        enum plant plant;
        unsigned who;
    } plants[] = {{PLANT_RANK, 3}, {PLANT_HOST, 1}, {PLANT_RANK_CLASS, 1}, {PLANT_ROTATING, 0}};
    for (size_t p = 0; p < sizeof plants / sizeof *plants; p++)
        for (int kind = 0; kind < WORKLOADS; kind++) {
            struct workload w = workload_standard((enum workload_kind)kind);
            if (plants[p].plant == PLANT_RANK_CLASS && w.kind != WORKLOAD_PIPELINE)
                continue;
            w.ranks = plants[p].plant == PLANT_HOST || plants[p].plant == PLANT_ROTATING ? 16 : 8;
            w.ranks_per_host = 4;
            w.plant = plants[p].plant;
            w.who = plants[p].who;
            w.factor = 1.5;
            w.seed = 31;
            struct mended mended = mended_try(&w);
            if (mended.said < mended.really / 1.05 || mended.said > mended.really * 1.05)
                print_message("plant %d, %s: %.3f, said %.3f\n", (int)p, workload_name(w.kind), mended.really,
                              mended.said);
            assert_true(mended.really > 1.15);
            assert_true(mended.said > mended.really / 1.1 && mended.said < mended.really * 1.1);
        }
}

/* Exchanges with all neighbours behind half of the step's work: what of a slow link is not hidden. */
static void a_mended_link_is_what_the_job_takes_without_the_plant(void **state) {
    (void)state;
    static const struct {
        uint64_t megabytes;
        double share;
    } links[] = {{16, 0.5}, {64, 0.2}, {128, 0.7}, {128, 0.5}};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        struct workload w = workload_standard(WORKLOAD_STENCIL);
        double walls[2], said = 1;
        w.ranks = 16;
        w.steps = 40;
        w.bytes = links[i].megabytes << 20;
        w.factor = links[i].share;
        w.who = 3;
        w.whom = 2;
        for (int planted = 0; planted < 2; planted++) {
            w.plant = planted ? PLANT_LINK : PLANT_NOBODY;
            struct stage *stage = workload_play(&w);
            struct dump **dumps = stage_open(stage);
            struct common_clock clock;
            struct match_directory directory;
            assert_true(common_clock_build(&clock, dumps, w.ranks));
            assert_true(match_directory_build(&directory, dumps, w.ranks));
            struct replay replay = walk(&clock, &directory, 1);
            walls[planted] = (double)replay.wall_ns;
            if (planted)
                said = ends_mended(&replay, &(struct what_if_ends){.from = 3, .to = 2, .both = true}, 1 / w.factor);
            replay_free(&replay);
            match_directory_free(&directory);
            common_clock_free(&clock);
            stage_free(stage);
        }
        assert_true(links[i].megabytes == 16 || walls[1] > 1.2 * walls[0]);
        assert_true(said > walls[1] / walls[0] / 1.05 && said < walls[1] / walls[0] * 1.05);
    }
}

/* ---- thresholds ------------------------------------------------------------------------------ */

/* Twenty steps of two barriers: before the first everybody works so long, before the second 100, rank 2 as many more as
 * given. */
static struct replay play_steps(struct hand_job *job, uint64_t work, uint64_t more_in_first, uint64_t more_in_second) {
    hand_job_make(job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        uint64_t now = 100, most = work + more_in_first;
        barrier(job, r, 0, 90, now);
        for (uint32_t step = 0; step < 20; step++) {
            barrier(job, r, 2 * step + 1, now + (r == 2 ? most : work), now + most + 10);
            now += most + 10;
            dump_builder_collective(job->builders[r], 0, BUILDER_ALLREDUCE, 0, 2 * step + 2, 8,
                                    now + 100 + (r == 2 ? more_in_second : 0), now + 110 + more_in_second);
            now += 110 + more_in_second;
        }
    }
    return replay_of(job, 3);
}

static struct what_if ask(uint64_t work, uint64_t more_in_first, uint64_t more_in_second) {
    struct hand_job job;
    struct what_if what_if;
    struct replay replay = play_steps(&job, work, more_in_first, more_in_second);
    assert_true(measure(&what_if, &replay));
    done(&job, &replay);
    return what_if;
}

static void call_sites_matter_from_five_percent_on(void **state) {
    (void)state;
    assert_int_equal(ask(10000, 600, 0).site_count, 1);
    assert_int_equal(ask(10000, 400, 0).site_count, 0);
}

/* What is twice as long but takes next to nothing is not worth a replay. */
static void call_sites_matter_from_a_hundredth_of_the_time_on(void **state) {
    (void)state;
    assert_int_equal(ask(10000, 0, 130).site_count, 1);
    assert_int_equal(ask(10000, 0, 85).site_count, 0);
}

/* Twenty steps of four ranks: rank 3 works 600 longer before the first barrier, rank 2 490, which is no more than what
 * identical processors differ by; before the second all work so long. */
static struct what_if ask_beside_another(uint64_t rest) {
    struct hand_job job;
    struct what_if what_if;
    hand_job_make(&job, 4, (struct dump_plan){0});
    for (unsigned r = 0; r < 4; r++) {
        uint64_t now = 100;
        barrier(&job, r, 0, 90, now);
        for (uint32_t step = 0; step < 20; step++) {
            barrier(&job, r, 2 * step + 1, now + 10000 + (r == 3 ? 600 : r == 2 ? 490 : 0), now + 10610);
            now += 10610;
            dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 2 * step + 2, 8, now + rest,
                                    now + rest + 10);
            now += rest + 10;
        }
    }
    struct replay replay = replay_of(&job, 4);
    assert_true(measure(&what_if, &replay));
    done(&job, &replay);
    return what_if;
}

/* Mending rank 3 leaves rank 2: 110 of 20620 or 27620 are saved, 0.53 or 0.40 %. */
static void call_sites_are_shown_from_half_a_percent_on(void **state) {
    (void)state;
    struct what_if shown = ask_beside_another(10000);
    assert_int_equal(shown.site_count, 1);
    assert_int_equal(shown.sites[0].dump, 3);
    assert_int_equal(ask_beside_another(17000).site_count, 0);
}

/* A trace that names work so, and ten barriers of 10, one of them so long: what is taken off it before it is replayed.
 */
static int64_t taken_off(const char *work, uint64_t longest) {
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        uint64_t now = 100;
        dump_builder_call(job.builders[r], 240, CLASS_OTHER, FLOW_NONE, BUSBW_NONE, 0, work);
        for (struct call_name *call = dump_builder_contents(job.builders[r], SECTION_CALLS, 0);; call++)
            if (call->id == 240) {
                call->api = API_TRACE;
                break;
            }
        for (uint32_t step = 0; step < 10; step++) {
            uint64_t tail = step == 5 ? longest : 10;
            dump_builder_plain(job.builders[r], 0, 240, now, now + 100);
            barrier(&job, r, step, now + 100, now + 100 + tail);
            now += 100 + tail;
        }
    }
    struct replay replay = replay_of(&job, 2);
    int64_t recorded_ns = replay.wall_ns;
    struct what_if_basis basis;
    assert_true(what_if_prepare(&basis, &replay));
    what_if_free(&basis);
    int64_t off = recorded_ns - replay.wall_ns;
    done(&job, &replay);
    return off;
}

/* Beyond four times the usual a transfer has waited for something that the trace does not name. */
static void delays_that_a_trace_does_not_name_are_left_out(void **state) {
    (void)state;
    assert_int_equal(taken_off("forward-compute", 39), 0);
    assert_int_equal(taken_off("forward-compute", 60), 60 - 4 * 10);
}

/* A profiler names the work of a GPU alone: between its kernels the host may be late. */
static void what_lies_between_kernels_may_be_the_hosts(void **state) {
    (void)state;
    assert_int_equal(taken_off(GPU_WORK_KERNELS, 60), 0);
}

/* Two thirds of what one of three ranks takes longer are to be gained by all alike: 0.6 or 0.4 % of the time. */
static void a_slowdown_is_shared_out_from_half_a_percent_on(void **state) {
    (void)state;
    double share = ask(100000, 900, 0).worst_workers_share;
    assert_true(share > 0 && share <= 1);
    assert_true(ask(100000, 600, 0).worst_workers_share < 0);
}

/* Three of a hundred ranks, and one more where that is no whole number. */
static void the_worst_workers_are_three_in_a_hundred(void **state) {
    (void)state;
    struct scene_job job;
    struct common_clock clock;
    struct match_directory directory;
    struct what_if what_if;
    struct scene scene = scene_standard();
    scene.ranks = 64;
    scene.steps = 20;
    scene_open(&job, &scene);
    assert_true(common_clock_build(&clock, job.dumps, job.ranks));
    assert_true(match_directory_build(&directory, job.dumps, job.ranks));
    struct replay replay = walk(&clock, &directory, 1);
    assert_true(measure(&what_if, &replay));
    assert_int_equal(what_if.worst_workers, 2);
    replay_free(&replay);
    match_directory_free(&directory);
    common_clock_free(&clock);
    scene_close(&job);
}

/* Two questions 40 us apart are one wait, what lies between 60 us apart is work. */
static void polls_within_50_us_are_one_node(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        dump_builder_call(job.builders[r], 240, CLASS_TEST, FLOW_NONE, BUSBW_NONE, 0, "MPI_Test");
        barrier(&job, r, 0, 0, 10);
    }
    dump_builder_plain(job.builders[1], 0, 240, 100, 101);
    dump_builder_plain(job.builders[1], 0, 240, 40101, 40102);
    dump_builder_plain(job.builders[1], 0, 240, 100102, 100103);
    struct replay replay = replay_of(&job, 2);
    assert_int_equal(replay.first[2] - replay.first[1], 3);
    done(&job, &replay);
}

/* ---- launches -------------------------------------------------------------------------------------- */

enum { LAUNCHES_MOST = 1024 };

/* What one GPU ran, launch by launch. */
struct launched {
    struct replay_node nodes[LAUNCHES_MOST];
    struct replay replay;
};

static void launch(struct launched *gpu, enum replay_launch launch, int32_t peer, int64_t enter, int64_t leave) {
    size_t number = gpu->replay.node_count++;
    gpu->nodes[number] = (struct replay_node){.enter = enter,
                                              .leave = leave,
                                              .launched_ns = (int64_t)number * 10000,
                                              .kind = launch == REPLAY_NO_LAUNCH ? REPLAY_KERNELS : REPLAY_CALL,
                                              .launch = (uint8_t)launch,
                                              .communicator = 1,
                                              .peer = peer};
}

/* Up to where the node of that number needs sends. */
static uint32_t needs_sends(struct launched *gpu, size_t number) {
    gpu->replay.nodes = gpu->nodes;
    gpu->replay.flow_count = 1;
    assert_true(replay_place_launches(&gpu->replay));
    uint32_t reach = gpu->replay.reach_sends[number];
    gpu->replay.nodes = NULL; /* not on the heap */
    replay_free(&gpu->replay);
    return reach;
}

/* So many sends that end late, then work that begins early: so often. The last of them is what it is asked for. */
static uint32_t needed_behind(uint32_t sends, uint32_t times) {
    struct launched *gpu = calloc(1, sizeof *gpu);
    assert_non_null(gpu);
    for (uint32_t time = 0; time < times; time++) {
        for (uint32_t s = 0; s < sends; s++)
            launch(gpu, REPLAY_SEND, 3, 1000000, 9000000);
        launch(gpu, REPLAY_NO_LAUNCH, -1, 2000000 + 10000 * time, 2005000 + 10000 * time);
    }
    launch(gpu, REPLAY_SEND, 3, 1000000, 1500000); /* had ended: counts for nothing else */
    launch(gpu, REPLAY_NO_LAUNCH, -1, 3000000, 3005000);
    uint32_t last = (uint32_t)gpu->replay.node_count, reach = needs_sends(gpu, last - 1);
    free(gpu);
    return last - reach;
}

/* Once may be another stream's work; that many were under way twice is what work need not wait for. Itself, the sends
 * before it, and the work between. */
static void what_began_twice_beside_sends_did_not_wait_for_them(void **state) {
    (void)state;
    assert_int_equal(needed_behind(1, 1), 0);
    assert_int_equal(needed_behind(1, 2), 1 + 1 + 1); /* all but the last send, which is behind other work */
    assert_int_equal(needed_behind(3, 2), 1 + 1 + 1 + 2);
    assert_int_equal(needed_behind(64, 4), 1 + 1 + 1 + 63);
    assert_int_equal(needed_behind(80, 4), 1 + 1 + 1 + 63); /* no further than that is looked at */
}

/* Work twice beside sends, a send to that rank, and then what is asked for. */
static bool passes_send(int32_t sent_to, enum replay_launch kind, int32_t peer) {
    struct launched *gpu = calloc(1, sizeof *gpu);
    assert_non_null(gpu);
    for (uint32_t time = 0; time < 2; time++) {
        launch(gpu, REPLAY_SEND, 3, 1000000, 9000000);
        launch(gpu, REPLAY_NO_LAUNCH, -1, 2000000, 2005000);
        launch(gpu, REPLAY_RECEIVE, 2, 3000000, 3005000);
        launch(gpu, REPLAY_COLLECTIVE, -1, 3000000, 3005000);
        gpu->nodes[gpu->replay.node_count - 1].communicator = 2;
    }
    launch(gpu, REPLAY_SEND, sent_to, 4000000, 4100000);
    launch(gpu, kind, peer, 5000000, 5005000);
    uint32_t last = (uint32_t)gpu->replay.node_count, reach = needs_sends(gpu, last - 1);
    free(gpu);
    return reach < last - 1;
}

/* Receives from whom a rank sends to, and collectives of the same communicator, may lie behind the sends on one
 * stream; launches of several operations may hold such. */
static void what_may_share_a_stream_with_sends_follows_them(void **state) {
    (void)state;
    assert_true(passes_send(3, REPLAY_NO_LAUNCH, -1));
    assert_true(passes_send(3, REPLAY_RECEIVE, 2));
    assert_false(passes_send(2, REPLAY_RECEIVE, 2));
    assert_false(passes_send(3, REPLAY_COLLECTIVE, -1));
    assert_false(passes_send(3, REPLAY_TOGETHER, -1));
    assert_false(passes_send(3, REPLAY_SEND, 3));
}

/* Where a trace rounds, what is launched within a microsecond and a half may have come first. */
static void work_needs_nothing_that_was_launched_later(void **state) {
    (void)state;
    struct launched *gpu = calloc(1, sizeof *gpu);
    assert_non_null(gpu);
    launch(gpu, REPLAY_NO_LAUNCH, -1, 50000, 60000);
    launch(gpu, REPLAY_RECEIVE, 1, 20000, 30000);
    launch(gpu, REPLAY_RECEIVE, 1, 20000, 30000);
    gpu->nodes[1].launched_ns = TRACE_ROUNDED_NS;
    gpu->nodes[2].launched_ns = TRACE_ROUNDED_NS + 1;
    gpu->replay.nodes = gpu->nodes;
    gpu->replay.flow_count = 1;
    assert_true(replay_place_launches(&gpu->replay));
    assert_int_equal(gpu->replay.place[2], 3);
    assert_int_equal(gpu->replay.reach[0], 2);
    gpu->replay.nodes = NULL;
    replay_free(&gpu->replay);
    free(gpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_what_was_recorded),
        cmocka_unit_test(one_rank_has_nobody_to_be_like),
        cmocka_unit_test(a_slow_rank_is_all_there_is_to_gain),
        cmocka_unit_test(what_is_saved_is_saved_where_the_peers_are_faster),
        cmocka_unit_test(mending_nobody_gains_nothing),
        cmocka_unit_test(a_rank_class_is_mended_to_the_others),
        cmocka_unit_test(turns_are_mended_where_they_stand_out),
        cmocka_unit_test(stages_of_a_pipeline_are_no_models_of_where_work_lies),
        cmocka_unit_test(a_buffered_send_waits_for_nobody),
        cmocka_unit_test(a_rendezvous_waits_for_its_receiver),
        cmocka_unit_test(a_wait_needs_the_last_of_what_ends_in_it),
        cmocka_unit_test(roots_are_waited_for_and_wait),
        cmocka_unit_test(who_hands_data_on_is_waited_for),
        cmocka_unit_test(what_happened_once_makes_no_relay),
        cmocka_unit_test(who_leaves_as_often_needs_no_relay),
        cmocka_unit_test(a_root_waits_for_who_takes_from_it),
        cmocka_unit_test(a_member_has_four_relays),
        cmocka_unit_test(wrong_clocks_change_nothing),
        cmocka_unit_test(a_circle_is_untied),
        cmocka_unit_test(polling_is_waiting),
        cmocka_unit_test(polls_in_vain_are_a_node),
        cmocka_unit_test(polls_and_what_they_got_are_one_node),
        cmocka_unit_test(call_sites_matter_from_five_percent_on),
        cmocka_unit_test(call_sites_matter_from_a_hundredth_of_the_time_on),
        cmocka_unit_test(call_sites_are_shown_from_half_a_percent_on),
        cmocka_unit_test(delays_that_a_trace_does_not_name_are_left_out),
        cmocka_unit_test(what_lies_between_kernels_may_be_the_hosts),
        cmocka_unit_test(a_slowdown_is_shared_out_from_half_a_percent_on),
        cmocka_unit_test(the_worst_workers_are_three_in_a_hundred),
        cmocka_unit_test(polls_within_50_us_are_one_node),
        cmocka_unit_test(what_began_twice_beside_sends_did_not_wait_for_them),
        cmocka_unit_test(what_may_share_a_stream_with_sends_follows_them),
        cmocka_unit_test(work_needs_nothing_that_was_launched_later),
        cmocka_unit_test(a_link_is_mended_by_its_transfers),
        cmocka_unit_test(replaying_gives_what_was_recorded),
        cmocka_unit_test(torn_worlds_replay_what_is_there),
        cmocka_unit_test(mended_is_what_the_job_takes_without_the_plant),
        cmocka_unit_test(a_mended_link_is_what_the_job_takes_without_the_plant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
