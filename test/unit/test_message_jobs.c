/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs whose steps hold messages and no collective: who is slow in them, and what mending gives.
 * Lives here: made-up jobs of a few kinds through the whole analysis, and the limits of choosing a channel.
 * Must not live here: collectives (test_stragglers.c, test_workloads.c), single messages (test_match_messages.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/align/align.h"
#include "analyzer/stragglers/message_cuts.h"
#include "analyzer/stragglers/stragglers.h"
#include "test/scenes/actors.h"
#include "test/scenes/scene.h"
#include "test/unit/job_builder.h"

enum { RANKS = 8, STEPS = 120, TAG = 5, BYTES = 4096, NOBODY = -1 };

enum job_kind { HALO, HALO_OVERLAPPED, RING, TREE, PIPELINE, SWEEP, PAIRS, HALVES, JOB_KINDS };

struct job {
    enum job_kind kind;
    uint64_t seed;
    unsigned ranks, steps;
    int slow[2];       /* ranks, NOBODY */
    double factors[2]; /* so many times as long */
    unsigned every;    /* the first of them only in every so many-th step; 0: in each */
    bool late;         /* and only in the second half of the run */
    double writing_ns; /* in every 20th step rank 0 writes something for so long; 0: never */
    double inside;     /* share of the work that HALO_OVERLAPPED does while its messages are under way */
    uint64_t bytes;    /* of a message */
    unsigned sums;     /* an Allreduce of all after every so many steps; 0: none */
    bool half;         /* of HALVES: the ranks of the second half are slow, by factors[0] */
};

struct play {
    const struct job *job;
    struct stage *stage;
    uint64_t random[RANKS];
    uint32_t halves[2];
};

static bool is_slow_now(const struct job *job, unsigned step) {
    return (job->every == 0 || step % job->every == job->every - 1) && (!job->late || step >= job->steps / 2);
}

static void work(struct play *play, unsigned rank, unsigned step, double share, struct script *script) {
    const struct job *job = play->job;
    double ns = 10e6 * share * (1 + 0.05 * scene_gauss(&play->random[rank]));
    for (unsigned i = 0; i < 2; i++)
        if (job->slow[i] == (int)rank && (i > 0 || is_slow_now(job, step)))
            ns *= job->factors[i];
    if (rank == 0 && step % 20 == 19)
        ns += job->writing_ns * share;
    if (job->half && rank >= RANKS / 2)
        ns *= job->factors[0];
    script_add(script, (struct action){.act = ACT_WORK, .ns = (int64_t)ns});
}

static void message(struct script *script, enum act act, unsigned peer, int32_t tag) {
    script_add(script, (struct action){.act = act, .peer = (int32_t)peer, .tag = tag, .bytes = BYTES});
}

static void large_message(struct play *play, struct script *script, enum act act, unsigned peer, int32_t tag) {
    script_add(script, (struct action){.act = act, .peer = (int32_t)peer, .tag = tag, .bytes = play->job->bytes});
}

static void exchange(struct play *play, unsigned rank, unsigned step, double inside, struct script *script) {
    unsigned left = (rank + RANKS - 1) % RANKS, right = (rank + 1) % RANKS;
    large_message(play, script, ACT_IRECEIVE, left, TAG);
    large_message(play, script, ACT_IRECEIVE, right, TAG + 1);
    large_message(play, script, ACT_ISEND, right, TAG);
    large_message(play, script, ACT_ISEND, left, TAG + 1);
    if (inside > 0)
        work(play, rank, step, inside, script);
    script_add(script, (struct action){.act = ACT_WAIT_ALL});
}

/* Up to rank 0 and down again: who has the bit `distance` as its lowest one sends there. */
static void tree(unsigned rank, struct script *script) {
    unsigned distance = 1;
    for (; distance < RANKS && rank % (2 * distance) == 0; distance *= 2)
        message(script, ACT_RECEIVE, rank + distance, TAG);
    if (rank > 0) {
        message(script, ACT_SEND, rank - distance, TAG);
        message(script, ACT_RECEIVE, rank - distance, TAG + 1);
    }
    while ((distance /= 2) > 0)
        message(script, ACT_SEND, rank + distance, TAG + 1);
}

/* Forth through all ranks and back again, each works on both ways. */
static void sweep(struct play *play, unsigned rank, unsigned step, struct script *script) {
    if (rank > 0)
        message(script, ACT_RECEIVE, rank - 1, TAG);
    work(play, rank, step, 0.5, script);
    if (rank + 1 < RANKS) {
        message(script, ACT_SEND, rank + 1, TAG);
        message(script, ACT_RECEIVE, rank + 1, TAG + 1);
    }
    work(play, rank, step, 0.5, script);
    if (rank > 0)
        message(script, ACT_SEND, rank - 1, TAG + 1);
}

static void swap(unsigned rank, unsigned partner, struct script *script) {
    message(script, rank < partner ? ACT_SEND : ACT_RECEIVE, partner, TAG);
    message(script, rank < partner ? ACT_RECEIVE : ACT_SEND, partner, TAG);
}

static void write_messages(struct play *play, unsigned rank, unsigned step, struct script *script) {
    if (play->job->kind == SWEEP) {
        sweep(play, rank, step, script);
        return;
    }
    if (play->job->kind == PIPELINE && rank > 0)
        message(script, ACT_RECEIVE, rank - 1, TAG);
    if (play->job->kind != HALO_OVERLAPPED)
        work(play, rank, step, 1, script);
    switch (play->job->kind) {
    case HALO:
        exchange(play, rank, step, 0, script);
        break;
    case HALO_OVERLAPPED:
        exchange(play, rank, step, play->job->inside, script);
        work(play, rank, step, 1 - play->job->inside, script);
        break;
    case RING:
        message(script, rank % 2 ? ACT_RECEIVE : ACT_SEND, rank % 2 ? rank - 1 : rank + 1, TAG);
        message(script, rank % 2 ? ACT_SEND : ACT_RECEIVE, rank % 2 ? (rank + 1) % RANKS : (rank + RANKS - 1) % RANKS,
                TAG);
        break;
    case TREE:
        tree(rank, script);
        break;
    case PIPELINE:
        if (rank + 1 < play->job->ranks)
            message(script, ACT_SEND, rank + 1, TAG);
        break;
    case PAIRS:
        swap(rank, rank ^ 1, script);
        break;
    default:
        script_add(script, (struct action){.act = ACT_COLLECTIVE,
                                           .call = BUILDER_ALLREDUCE,
                                           .group = play->halves[rank / (RANKS / 2)],
                                           .bytes = 8});
        swap(rank, (rank + RANKS / 2) % RANKS, script);
    }
}

static void write_step(void *context, unsigned rank, unsigned step, struct script *script) {
    struct play *play = context;
    write_messages(play, rank, step, script);
    if (play->job->sums > 0 && step % play->job->sums == play->job->sums - 1)
        script_add(script,
                   (struct action){.act = ACT_COLLECTIVE, .call = BUILDER_ALLREDUCE, .group = 0, .bytes = BYTES});
}

/* A job and what is said of it. */
struct judged {
    struct stage *stage;
    struct common_clock clock;
    struct match_directory directory;
    struct straggler_analysis analysis;
    int64_t wall_ns; /* true time from the first step to the last, of the rank that takes longest */
};

static void judge(struct judged *judged, const struct job *job) {
    struct actor_rules rules = {.seed = job->seed,
                                .ranks = job->ranks,
                                .latency = 5000,
                                .bandwidth = 10,
                                .slow_from = -1,
                                .slow_to = -1,
                                .slow_link = 1,
                                .ring_records = 1 << 13};
    struct play play = {.job = job, .stage = stage_new(&rules)};
    for (unsigned r = 0; r < RANKS; r++)
        play.random[r] = job->seed * 1000 + r + 1;
    for (unsigned h = 0; h < 2 && job->ranks == RANKS; h++)
        play.halves[h] = stage_group(play.stage, "half", h * RANKS / 2, RANKS / 2, 1);
    stage_play(play.stage, job->steps, write_step, &play);
    judged->stage = play.stage;
    judged->wall_ns = 0;
    for (unsigned r = 0; r < job->ranks; r++) {
        int64_t own = stage_step_began(play.stage, r, job->steps - 1) - stage_step_began(play.stage, r, 0);
        judged->wall_ns = own > judged->wall_ns ? own : judged->wall_ns;
    }
    struct dump **dumps = stage_open(play.stage);
    assert_true(common_clock_build(&judged->clock, dumps, job->ranks));
    assert_true(match_directory_build(&judged->directory, dumps, job->ranks));
    assert_true(straggler_analyse(&judged->analysis, &judged->clock, &judged->directory,
                                  &(struct straggler_request){.workers = 1}));
}

static void put_away(struct judged *judged) {
    straggler_analysis_free(&judged->analysis);
    match_directory_free(&judged->directory);
    common_clock_free(&judged->clock);
    stage_free(judged->stage);
}

static struct job job_of(enum job_kind kind, uint64_t seed) {
    return (struct job){.kind = kind,
                        .seed = seed,
                        .ranks = RANKS,
                        .steps = STEPS,
                        .slow = {NOBODY, NOBODY},
                        .factors = {1, 1},
                        .inside = 0.6,
                        .bytes = BYTES};
}

static bool names(const struct judged *judged, int rank) {
    for (size_t i = 0; i < judged->analysis.straggler_count; i++)
        if (judged->analysis.stragglers[i].kind == STRAGGLER_RANK &&
            judged->analysis.stragglers[i].dumps[0] == (size_t)rank)
            return true;
    return false;
}

/* 40 % slower: named, alone, and the gain is that of the job played without it. */
static void a_slow_rank_is_named_without_collectives(void **state) {
    (void)state;
    for (int kind = 0; kind < JOB_KINDS; kind++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct judged slow, without;
            struct job job = job_of((enum job_kind)kind, seed);
            judge(&without, &job);
            job.slow[0] = (int)((seed * 3 + (unsigned)kind) % RANKS);
            job.factors[0] = 1.4;
            judge(&slow, &job);
            double really = (double)slow.wall_ns / (double)without.wall_ns;
            if (slow.analysis.straggler_count != 1)
                print_message("kind %d, seed %d, really %.3f: %d named, %d hidden\n", kind, (int)seed, really,
                              (int)slow.analysis.straggler_count, (int)slow.analysis.hidden_count);
            assert_int_equal(slow.analysis.straggler_count, 1);
            assert_true(names(&slow, job.slow[0]));
            double said = slow.analysis.stragglers[0].what_if_speedup;
            if (said < really / 1.05 || said > really * 1.05)
                print_message("kind %d, seed %d: %.3f, said %.3f\n", kind, (int)seed, really, said);
            assert_true(said > really / 1.05 && said < really * 1.05);
            put_away(&slow);
            put_away(&without);
        }
}

/* Messages of 8 to 20 MB, each 1 or 2 ms on its way, pass behind 2 to 8 ms of work. */
static void gains_hold_where_messages_pass_behind_work(void **state) {
    (void)state;
    enum { JOBS = 20 };
    unsigned within = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        struct judged slow, without;
        struct job job = job_of(HALO_OVERLAPPED, 3001 + i);
        job.inside = 0.2 + 0.03 * (i * 7 % JOBS);
        job.bytes = (8 + i * 11 % 13) * UINT64_C(1000000);
        judge(&without, &job);
        job.slow[0] = (int)(i * 3 % RANKS);
        job.factors[0] = 1.2 + 0.035 * (i * 13 % JOBS);
        judge(&slow, &job);
        double really = (double)slow.wall_ns / (double)without.wall_ns;
        assert_true(names(&slow, job.slow[0]));
        double said = slow.analysis.stragglers[0].what_if_speedup;
        within += said > really / 1.05 && said < really * 1.05;
        put_away(&slow);
        put_away(&without);
    }
    assert_in_range(within, JOBS * 95 / 100, JOBS);
}

static void nobody_is_named_where_nobody_is_slow(void **state) {
    (void)state;
    for (int kind = 0; kind < JOB_KINDS; kind++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            struct judged judged;
            struct job job = job_of((enum job_kind)kind, seed + 100);
            judge(&judged, &job);
            assert_int_equal(judged.analysis.straggler_count, 0);
            assert_int_equal(judged.analysis.judgement, JUDGED);
            put_away(&judged);
        }
}

static void a_rank_slow_now_and_then_is_named(void **state) {
    (void)state;
    static const enum job_kind kinds[] = {HALO, RING, TREE};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct judged judged;
        struct job job = job_of(kinds[k], 7);
        job.slow[0] = 6;
        job.factors[0] = 7;
        job.every = 20;
        judge(&judged, &job);
        assert_int_equal(judged.analysis.straggler_count, 1);
        assert_true(names(&judged, 6));
        const struct straggler *named = &judged.analysis.stragglers[0];
        assert_true(named->at_times);
        assert_in_range(named->when.slow_rows, 5, 7);
        assert_int_equal(named->when.every, 20);
        assert_true(judged.analysis.ranks[6].ratio > SLOW_RATIO); /* the ranks' table says so, too */
        assert_true(named->what_if_speedup > 1.1);
        put_away(&judged);
    }
}

/* A rank that takes 1.3 times as long in the second half of the run, and one that writes checkpoints. */
static void half_of_the_run_and_checkpoints_are_seen(void **state) {
    (void)state;
    unsigned named[2] = {0}, when[2] = {0};
    for (unsigned i = 0; i < 2 * 2 * JOB_KINDS; i++) {
        struct judged judged;
        bool writing = i % 2;
        struct job job = job_of((enum job_kind)(i / 4), 9000 + i);
        job.steps = 160;
        job.slow[0] = writing ? 0 : (int)(i * 5 % RANKS);
        job.factors[0] = writing ? 1 : 1.3;
        job.late = !writing;
        job.writing_ns = writing ? 60e6 + 5e6 * (i % 16) : 0;
        judge(&judged, &job);
        bool found = judged.analysis.straggler_count == 1 && names(&judged, job.slow[0]);
        const struct rank_leads *leads = &judged.analysis.leads[job.slow[0]];
        bool late = leads->phase && leads->first >= 400 && leads->first <= 600;
        bool as_written = leads->every == 20 && leads->slow_rows >= 7 && leads->slow_rows <= 8 &&
                          fabs(leads->longer_ns / job.writing_ns - 1) < 0.1; /* a sweep's ranks work twice in a step */
        named[writing] += found;
        when[writing] += found && judged.analysis.stragglers[0].at_times && (writing ? as_written : late);
        put_away(&judged);
    }
    for (unsigned writing = 0; writing < 2; writing++) {
        assert_in_range(named[writing], 2 * JOB_KINDS - 1, 2 * JOB_KINDS);
        assert_in_range(when[writing], 2 * JOB_KINDS - 1, 2 * JOB_KINDS);
    }
}

/* A pipeline's stages call differently, so that a middle one of four has one peer: compared with all it is named. */
static void a_stage_slow_now_and_then_is_named(void **state) {
    (void)state;
    unsigned right = 0;
    for (uint64_t seed = 201; seed <= 210; seed++) {
        struct judged judged;
        struct job job = job_of(PIPELINE, seed);
        job.ranks = 4;
        job.steps = 160;
        job.slow[0] = 1 + (int)(seed % 2);
        job.factors[0] = 7;
        job.every = 20;
        judge(&judged, &job);
        right += judged.analysis.straggler_count == 1 && names(&judged, job.slow[0]) &&
                 judged.analysis.stragglers[0].when.every == 20;
        put_away(&judged);
    }
    assert_in_range(right, 9, 10);
}

/* Twice as long, and 1.5 times as long where it makes no difference. */
static void who_is_hidden_behind_another_is_not_named(void **state) {
    (void)state;
    struct judged judged;
    struct job job = job_of(HALO, 11);
    job.slow[0] = 2;
    job.factors[0] = 2;
    job.slow[1] = 6;
    job.factors[1] = 1.5;
    judge(&judged, &job);
    assert_int_equal(judged.analysis.straggler_count, 1);
    assert_true(names(&judged, 2));
    assert_int_equal(judged.analysis.hidden_count, 1);
    assert_int_equal(judged.analysis.hidden[0].dumps[0], 6);
    assert_true(judged.analysis.even_speedup >= judged.analysis.stragglers[0].what_if_speedup);
    put_away(&judged);
}

/* Both are named; each alone gives little, both together what the job without them takes. */
static void two_slow_ranks_are_mended_together(void **state) {
    (void)state;
    struct judged slow, without;
    struct job job = job_of(HALO, 13);
    judge(&without, &job);
    job.slow[0] = 1;
    job.slow[1] = 5;
    job.factors[0] = job.factors[1] = 1.25;
    judge(&slow, &job);
    double really = (double)slow.wall_ns / (double)without.wall_ns, said = slow.analysis.named_speedup;
    assert_int_equal(slow.analysis.straggler_count, 2);
    assert_true(names(&slow, 1) && names(&slow, 5));
    assert_true(said > really / 1.05 && said < really * 1.05);
    for (size_t i = 0; i < 2; i++)
        assert_true(slow.analysis.stragglers[i].what_if_speedup < 1 + (said - 1) / 2);
    assert_true(slow.analysis.even_speedup >= said);
    put_away(&slow);
    put_away(&without);
}

/* Two halves reduce among themselves and exchange pairwise; one of them is slow as a whole. */
static void a_slow_half_is_named_as_one(void **state) {
    (void)state;
    struct judged judged;
    struct job job = job_of(HALVES, 17);
    job.half = true;
    job.factors[0] = 1.4;
    judge(&judged, &job);
    assert_int_equal(judged.analysis.straggler_count, 1);
    const struct straggler *half = &judged.analysis.stragglers[0];
    assert_int_equal(half->kind, STRAGGLER_RANK_CLASS);
    assert_int_equal(half->dump_count, RANKS / 2);
    for (size_t i = 0; i < RANKS / 2; i++)
        assert_int_equal(half->dumps[i], RANKS / 2 + i);
    assert_true(half->what_if_speedup > 1.2);
    put_away(&judged);
}

/* Thirty Allreduces, three hundred messages each way: what happens between two of the Allreduces is told by these. */
static void messages_tell_where_collectives_are_few(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct judged judged;
        struct job job = job_of(PAIRS, seed);
        job.ranks = 2;
        job.steps = 300;
        job.sums = 10;
        job.slow[0] = (int)(seed % 2);
        job.factors[0] = 1.25;
        job.late = true;
        judge(&judged, &job);
        assert_int_equal(judged.analysis.comparison_groups.cuts[0].kind, CUT_MESSAGE);
        assert_int_equal(judged.analysis.straggler_count, 1);
        assert_true(names(&judged, job.slow[0]));
        assert_true(judged.analysis.stragglers[0].at_times && judged.analysis.stragglers[0].when.first > 400);
        put_away(&judged);
        job.slow[0] = NOBODY;
        judge(&judged, &job);
        assert_int_equal(judged.analysis.straggler_count, 0);
        put_away(&judged);
    }
}

static void say_messages(struct hand_job *job, unsigned from, unsigned to, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        uint64_t now = 1000000 + i * UINT64_C(1000000);
        dump_builder_p2p(job->builders[from], 0, BUILDER_SEND, 0, FLAG_SEND, (int32_t)to, TAG, i, 8, now, now + 500);
        dump_builder_p2p(job->builders[to], 0, BUILDER_RECV, 0, FLAG_RECV, (int32_t)from, TAG, i, 8, now, now + 500);
    }
}

/* What two ranks with so many collectives and messages of each are compared by. */
static enum cut_kind compared_by(unsigned collectives, unsigned messages) {
    struct hand_job job;
    struct comparison_groups groups;
    hand_job_make(&job, 2, (struct dump_plan){.ring_records = 1024});
    for (unsigned i = 0; i < collectives; i++)
        for (unsigned r = 0; r < 2; r++) {
            uint64_t now = 1000000 + i * UINT64_C(1000000);
            dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, i, 8, now, now + 500);
        }
    say_messages(&job, 0, 1, messages);
    hand_job_open(&job, 2);
    assert_true(comparison_groups_choose(&groups, &job.directory));
    assert_true(message_cuts_choose(&groups, &job.directory, &job.clock));
    enum cut_kind kind = groups.cuts[0].kind;
    assert_int_equal(groups.cuts[1].kind, kind);
    comparison_groups_free(&groups);
    hand_job_free(&job);
    return kind;
}

/* Fewer than two collectives for each of 32 batches, and four times as many messages. */
static void few_collectives_give_way_to_many_messages(void **state) {
    (void)state;
    assert_int_equal(compared_by(63, 300), CUT_MESSAGE);
    assert_int_equal(compared_by(64, 300), CUT_COLLECTIVE);
    assert_int_equal(compared_by(40, 160), CUT_MESSAGE);
    assert_int_equal(compared_by(40, 159), CUT_COLLECTIVE);
}

/* How many messages part the stretches of two stages with so many from the first to the second, and so many answers. */
static uint32_t parted_by(unsigned forth, unsigned answers) {
    struct hand_job job;
    struct comparison_groups groups;
    hand_job_make(&job, 2, (struct dump_plan){.ring_records = 1024});
    say_messages(&job, 0, 1, forth);
    say_messages(&job, 1, 0, answers);
    hand_job_open(&job, 2);
    assert_true(comparison_groups_choose(&groups, &job.directory));
    assert_true(message_cuts_choose(&groups, &job.directory, &job.clock));
    assert_int_equal(groups.cuts[0].kind, CUT_MESSAGE);
    uint32_t messages = groups.cuts[0].messages;
    assert_int_equal(groups.cuts[1].messages, messages);
    comparison_groups_free(&groups);
    hand_job_free(&job);
    return messages;
}

/* A pipeline's last stage answers once in several steps: fewer than two answers for each of 32 batches give way. */
static void few_answers_give_way_to_many_messages(void **state) {
    (void)state;
    assert_int_equal(parted_by(300, 63), 300);
    assert_int_equal(parted_by(300, 64), 64);
    assert_int_equal(parted_by(160, 40), 160);
    assert_int_equal(parted_by(159, 40), 40);
}

/* Two messages of a channel for each of eight batches: 15 are too few. */
static void sixteen_messages_are_enough(void **state) {
    (void)state;
    for (unsigned steps = 15; steps <= 16; steps++) {
        struct judged judged;
        struct job job = job_of(HALO, 19);
        job.steps = steps;
        judge(&judged, &job);
        assert_int_equal(judged.analysis.comparison_groups.count, steps == 16);
        put_away(&judged);
    }
}

/* A job that was ended leaves some ranks a step behind, where each has sent and received once more or less. */
static void channels_may_differ_by_two_messages(void **state) {
    (void)state;
    for (unsigned more = 2; more <= 3; more++) {
        struct hand_job job;
        struct comparison_groups groups;
        hand_job_make(&job, 3, (struct dump_plan){.ring_records = 1024});
        say_messages(&job, 0, 1, 60);
        say_messages(&job, 0, 2, 60 + more);
        hand_job_open(&job, 3);
        assert_true(comparison_groups_choose(&groups, &job.directory));
        assert_true(message_cuts_choose(&groups, &job.directory, &job.clock));
        assert_int_equal(groups.cuts[2].kind, more == 2 ? CUT_MESSAGE : CUT_TIME);
        comparison_groups_free(&groups);
        hand_job_free(&job);
    }
}

/* No number of messages is that of a channel of all three; the only anchor was taken when the job began. */
static void slices_of_time_reach_to_the_last_record(void **state) {
    (void)state;
    struct hand_job job;
    struct comparison_groups groups;
    hand_job_make(&job, 3, (struct dump_plan){.ring_records = 1024});
    say_messages(&job, 0, 1, 60);
    say_messages(&job, 0, 2, 120);
    hand_job_open(&job, 3);
    assert_true(comparison_groups_choose(&groups, &job.directory));
    assert_true(message_cuts_choose(&groups, &job.directory, &job.clock));
    assert_int_equal(groups.count, 1);
    int64_t last = to_common(&job.clock, 0, 1000000 + 119 * UINT64_C(1000000) + 500);
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(groups.cuts[r].kind, CUT_TIME);
        assert_int_equal(cut_slice_at(&groups.cuts[r], last), 255);
    }
    comparison_groups_free(&groups);
    hand_job_free(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_rank_is_named_without_collectives),
        cmocka_unit_test(gains_hold_where_messages_pass_behind_work),
        cmocka_unit_test(nobody_is_named_where_nobody_is_slow),
        cmocka_unit_test(a_rank_slow_now_and_then_is_named),
        cmocka_unit_test(half_of_the_run_and_checkpoints_are_seen),
        cmocka_unit_test(a_stage_slow_now_and_then_is_named),
        cmocka_unit_test(who_is_hidden_behind_another_is_not_named),
        cmocka_unit_test(two_slow_ranks_are_mended_together),
        cmocka_unit_test(a_slow_half_is_named_as_one),
        cmocka_unit_test(messages_tell_where_collectives_are_few),
        cmocka_unit_test(few_collectives_give_way_to_many_messages),
        cmocka_unit_test(few_answers_give_way_to_many_messages),
        cmocka_unit_test(sixteen_messages_are_enough),
        cmocka_unit_test(channels_may_differ_by_two_messages),
        cmocka_unit_test(slices_of_time_reach_to_the_last_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
