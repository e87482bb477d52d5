/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts on jobs that hang for a known reason, and on those that only look like it.
 * Lives here: random scenes of every fault (test/scenes/hang.h), torn ones, histories that part.
 * Must not live here: scenes by hand (test_hung_jobs.c, test_killed_jobs.c), real jobs (test/e2e/test_diagnose.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/base/and_or_graph.h"
#include "analyzer/findings/diagnosis_text.h"
#include "test/scenes/hang.h"
#include "test/scenes/scene.h"

enum { SEEDS = 40, RING = 16 };

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
        cmocka_unit_test(every_single_fault_is_found),  cmocka_unit_test(many_ranks),
        cmocka_unit_test(killed_at_any_moment),         cmocka_unit_test(torn_dumps_of_a_hang),
        cmocka_unit_test(histories_part_where_they_do), cmocka_unit_test(the_shortest_cycle_is_found),
        cmocka_unit_test(any_is_released_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
