/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines in which a library takes a message only while its receiver is in some call: a stage's send ends when the
 * next stage comes back to the library. Whom the stages wait for, and what mending a slow one gives. Must not live
 * here: pipelines whose sends are buffered (test_message_jobs.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/stragglers/stragglers.h"
#include "test/scenes/scene.h"
#include "test/unit/job_builder.h"

enum { STAGES = 4, STEPS = 100, TAG = 6, CALL_NS = 3000, START_NS = 1000000, NOBODY = -1 };

struct pipeline {
    double work[STAGES][STEPS];
    double receive[STAGES][STEPS], received[STAGES][STEPS]; /* entering and leaving; the first stage has none */
    double send[STAGES][STEPS], sent[STAGES][STEPS];        /* the last stage has none */
};

static void draw_work(struct pipeline *p, uint64_t seed, int slow) {
    for (int s = 0; s < STAGES; s++) {
        uint64_t random = seed * 100 + (uint64_t)s + 1;
        for (int k = 0; k < STEPS; k++)
            p->work[s][k] = 10e6 * (0.9 + 0.2 * scene_uniform(&random)) * (s == slow ? 1.6 : 1);
    }
}

/* When the stage is in the library at `at` or next. */
static double next_call(const struct pipeline *p, int stage, double at) {
    for (int k = 0; k < STEPS; k++) {
        if (p->received[stage][k] >= at)
            return p->receive[stage][k] > at ? p->receive[stage][k] : at;
        if (stage + 1 < STAGES && p->sent[stage][k] >= at)
            return p->send[stage][k] > at ? p->send[stage][k] : at;
    }
    return at;
}

/* All times by how long sends were seen to take; returns whether any of those changes. */
static bool pass(struct pipeline *p) {
    bool changed = false;
    for (int s = 0; s < STAGES; s++) {
        double now = 0;
        for (int k = 0; k < STEPS; k++) {
            p->receive[s][k] = now;
            if (s > 0)
                now = CALL_NS + (p->send[s - 1][k] > now ? p->send[s - 1][k] : now);
            p->received[s][k] = now;
            p->send[s][k] = now + p->work[s][k];
            now = s + 1 < STAGES && p->sent[s][k] > p->send[s][k] ? p->sent[s][k] : p->send[s][k] + CALL_NS;
            p->sent[s][k] = now;
        }
    }
    for (int s = 0; s + 1 < STAGES; s++)
        for (int k = 0; k < STEPS; k++) {
            double over = CALL_NS + next_call(p, s + 1, p->send[s][k]);
            changed |= over > p->sent[s][k] + 1;
            p->sent[s][k] = over > p->sent[s][k] ? over : p->sent[s][k];
        }
    return changed;
}

/* Sends that take longer only make others later: the least times that hold are found by beginning with none. */
static double play(struct pipeline *p, uint64_t seed, int slow) {
    memset(p, 0, sizeof *p);
    draw_work(p, seed, slow);
    while (pass(p))
        ;
    return p->send[STAGES - 1][STEPS - 1];
}

static void write_dumps(const struct pipeline *p, struct hand_job *job) {
    hand_job_make(job, STAGES, (struct dump_plan){.ring_records = 1024});
    for (int s = 0; s < STAGES; s++)
        for (int k = 0; k < STEPS; k++) {
            if (s > 0)
                dump_builder_p2p(job->builders[s], 0, BUILDER_RECV, 0, FLAG_RECV, s - 1, TAG, (uint32_t)k, 64,
                                 START_NS + (uint64_t)p->receive[s][k], START_NS + (uint64_t)p->received[s][k]);
            if (s + 1 < STAGES)
                dump_builder_p2p(job->builders[s], 0, BUILDER_SEND, 0, FLAG_SEND, s + 1, TAG, (uint32_t)k, 64,
                                 START_NS + (uint64_t)p->send[s][k], START_NS + (uint64_t)p->sent[s][k]);
        }
    for (int s = 0; s < STAGES; s++) /* the last stage's last work is seen by what it does after it */
        dump_builder_plain(job->builders[s], 0, BUILDER_WAIT, START_NS + (uint64_t)p->send[s][STEPS - 1] + 2 * CALL_NS,
                           START_NS + (uint64_t)p->send[s][STEPS - 1] + 3 * CALL_NS);
    hand_job_open(job, STAGES);
}

/* Named, and the gain is that of the pipeline without it; those whose sends it held up waited for it. */
static void a_slow_stage_holds_up_the_sends_before_it(void **state) {
    (void)state;
    static struct pipeline p;
    for (uint64_t seed = 51; seed <= 56; seed++)
        for (int slow = 1; slow < STAGES; slow++) {
            struct hand_job job;
            struct straggler_analysis analysis;
            double without = play(&p, seed, NOBODY), with = play(&p, seed, slow);
            write_dumps(&p, &job);
            assert_true(
                straggler_analyse(&analysis, &job.clock, &job.directory, &(struct straggler_request){.workers = 1}));
            assert_int_equal(analysis.straggler_count, 1);
            assert_int_equal(analysis.stragglers[0].dumps[0], slow);
            double really = with / without, said = analysis.stragglers[0].what_if_speedup;
            if (said < really / 1.05 || said > really * 1.05)
                print_message("seed %d, stage %d: %.3f, said %.3f\n", (int)seed, slow, really, said);
            assert_true(said > really / 1.05 && said < really * 1.05);
            double wait = (double)analysis.waits.ranks[slow - 1].states_ns[WAIT_LATE_RECEIVER];
            assert_true(wait > 0.4 * 6e6 * STEPS);
            straggler_analysis_free(&analysis);
            hand_job_free(&job);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_slow_stage_holds_up_the_sends_before_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
