/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps in jobs whose loops do not repeat exactly: solvers that converge when they do, evaluations, accumulated
 * micro-batches, messages that come and go. Each job says where its steps begin.
 * Lives here: the jobs, and how many of their steps are found. Must not live here: records, times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/steps/step_period.h"
#include "test/scenes/scene.h"

enum { OPERATIONS_MOST = 1 << 16, STEPS_MOST = 1 << 12 };

struct job {
    uint64_t symbols[OPERATIONS_MOST], order[OPERATIONS_MOST];
    uint32_t numbers[OPERATIONS_MOST];
    size_t count;
    size_t begins[STEPS_MOST]; /* of the true steps */
    size_t steps;
    uint64_t random;
    uint32_t collectives; /* so far */
};

/* `site`: the line of the program. Without a size it is a message. */
static void put(struct job *job, unsigned site, uint64_t bytes, bool collective) {
    if (job->count == OPERATIONS_MOST)
        return;
    uint64_t symbol = (site + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ bytes * UINT64_C(0xff51afd7ed558ccd);
    job->symbols[job->count] = symbol;
    job->order[job->count] = bytes << 16 | (symbol >> 40 & 0xffff);
    job->numbers[job->count++] = collective ? ++job->collectives : 0;
}

static void reduce(struct job *job, unsigned site, uint64_t bytes) {
    put(job, site, bytes, true);
}

static void exchange(struct job *job, unsigned site, unsigned neighbours, uint64_t bytes) {
    for (unsigned n = 0; n < neighbours; n++) {
        put(job, site + 2 * n, bytes, false);
        put(job, site + 2 * n + 1, bytes, false);
    }
}

static void begin_step(struct job *job) {
    if (job->steps < STEPS_MOST && job->count < OPERATIONS_MOST)
        job->begins[job->steps++] = job->count;
}

static unsigned between(struct job *job, unsigned least, unsigned most) {
    return least + (unsigned)(scene_uniform(&job->random) * (most - least + 1));
}

/* ---- solvers ------------------------------------------------------------------------------------- */

/* A time step: the right-hand side, a solve that takes as many iterations as it takes, the next time step's length. */
static void solver(struct job *job, unsigned size, unsigned least, unsigned most) {
    unsigned neighbours = 1 + size % 6;
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        exchange(job, 100, neighbours, 4096);
        unsigned iterations = between(job, least, most);
        for (unsigned i = 0; i < iterations; i++) {
            exchange(job, 200, neighbours, 4096);
            reduce(job, 300, 8);
            reduce(job, 301, 8);
        }
        reduce(job, 302, 8);
    }
}

static void conjugate_gradients(struct job *job, unsigned size) {
    solver(job, size, 5 + size % 10, 30 + size);
}

static void few_inner_solves(struct job *job, unsigned size) {
    solver(job, size, 2, 6);
}

/* The solve gets harder from step to step: 1, 2, 3 ... iterations. */
static void growing_solves(struct job *job, unsigned size) {
    unsigned neighbours = 1 + size % 4;
    for (unsigned k = 0; k < 40 + size; k++) {
        begin_step(job);
        exchange(job, 700, neighbours, 4096);
        for (unsigned i = 0; i <= k; i++) {
            exchange(job, 710, neighbours, 4096);
            reduce(job, 720, 8);
            reduce(job, 721, 8);
        }
        reduce(job, 722, 8);
    }
}

/* GMRES with modified Gram-Schmidt: the i-th iteration has i scalar products. */
static void orthogonalization(struct job *job, unsigned size) {
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        exchange(job, 730, 2, 4096);
        for (unsigned i = 1; i <= 10 + size % 20; i++) {
            exchange(job, 740, 2, 4096);
            for (unsigned q = 0; q < i; q++)
                reduce(job, 750, 8);
            reduce(job, 751, 8);
        }
        reduce(job, 752, 8);
    }
}

/* Newton's iterations around linear solves. */
static void nested_solvers(struct job *job, unsigned size) {
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        reduce(job, 400, 8);
        for (unsigned newton = between(job, 2, 6); newton > 0; newton--) {
            exchange(job, 410, 2, 8192);
            for (unsigned linear = between(job, 3, 10 + size % 10); linear > 0; linear--) {
                exchange(job, 420, 2, 8192);
                reduce(job, 430, 16);
            }
            reduce(job, 431, 8);
        }
        reduce(job, 432, 24);
    }
}

/* Particles: neighbours and sizes are others in every step. */
static void particles(struct job *job, unsigned size) {
    for (unsigned k = 0; k < 80; k++) {
        begin_step(job);
        for (unsigned n = between(job, 2, 6 + size % 8); n > 0; n--)
            put(job, 500 + between(job, 0, 3), 64 * between(job, 1, 400), false);
        reduce(job, 510, 8);
        if (k % 10 == 9)
            reduce(job, 511, 48);
    }
}

/* ---- training ------------------------------------------------------------------------------------ */

static void train_step(struct job *job, unsigned buckets) {
    begin_step(job);
    for (unsigned b = 0; b < buckets; b++)
        reduce(job, 600, (uint64_t)(1 + b) << 16);
    reduce(job, 601, 4);
}

static void evaluation(struct job *job, unsigned size) {
    unsigned buckets = 1 + size % 9, every = 5 + size % 40, batches = 3 + size % 17;
    for (unsigned k = 0; k < 8 * every; k++) {
        train_step(job, buckets);
        if (k % every == every - 1) {
            for (unsigned b = 0; b < batches; b++)
                reduce(job, 610, 8);
            reduce(job, 611, 16);
        }
    }
}

static void warm_up(struct job *job, unsigned size) {
    for (unsigned i = 0; i < 20 + size; i++)
        reduce(job, 620 + i % 3, (uint64_t)between(job, 1, 5000));
    for (unsigned k = 0; k < 60 + size; k++)
        train_step(job, 1 + size % 9);
}

static void accumulation(struct job *job, unsigned size) {
    unsigned micro_batches = 2 + size % 7, layers = 2 + size % 11;
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        for (unsigned m = 0; m < micro_batches; m++)
            for (unsigned l = 0; l < layers; l++)
                reduce(job, 630, (uint64_t)(1 + l) << 14);
        reduce(job, 631, 1 << 20);
        reduce(job, 632, 4);
    }
}

/* The sizes of what experts are sent differ each time. */
static void experts(struct job *job, unsigned size) {
    unsigned layers = 1 + size % 8;
    for (unsigned k = 0; k < 80; k++) {
        begin_step(job);
        for (unsigned l = 0; l < 2 * layers; l++)
            put(job, 640, 512 * between(job, 100, 30000), true);
        reduce(job, 641, 1 << 22);
        reduce(job, 642, 4);
    }
}

static void checkpoints(struct job *job, unsigned size) {
    unsigned every = 9 + size % 30;
    for (unsigned k = 0; k < 8 * every; k++) {
        train_step(job, 3);
        if (k % 10 == 0)
            reduce(job, 650, 12);
        if (k % every == every - 1) {
            put(job, 651, 0, true);
            reduce(job, 652, 6 << 16); /* what the gradients are of */
            put(job, 651, 0, true);
        }
    }
}

/* ---- steps of one collective, and what looks like them ------------------------------------------- */

/* All gradients in one collective; every so many steps something small. */
static void sole_collective(struct job *job, unsigned size) {
    unsigned every = 10 + size % 40, kind = size % 5;
    for (unsigned k = 0; k < 8 * every; k++) {
        bool now = k % every == every - 1;
        begin_step(job);
        reduce(job, 1000, kind == 4 ? 8 : 2048);
        if (now && kind < 3)
            reduce(job, 1010, 8);
        if (now && kind == 1)
            reduce(job, 1011, 16);
        if (now && kind != 2)
            put(job, 1012, 0, true);
        if (kind == 2 && k % (2 * every) == every)
            put(job, 1013, 0, true);
    }
}

/* Power iterations, always as many, on what the step has distributed before. */
static void fixed_iterations(struct job *job, unsigned size) {
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        reduce(job, 1020, 65536);
        for (unsigned i = 0; i < 9 + size; i++)
            reduce(job, 1021, 2048);
        reduce(job, 1022, 8);
    }
}

/* The same without anything distributed, until it has converged. */
static void power_iterations(struct job *job, unsigned size) {
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        for (unsigned i = between(job, 9 + size % 10, 30 + size); i > 0; i--)
            reduce(job, 1031, 2048);
        reduce(job, 1032, 8);
    }
}

/* Scalar products, always as many: small reductions around which nothing is larger. */
static void scalar_products(struct job *job, unsigned size) {
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        for (unsigned i = 0; i < 9 + size; i++)
            reduce(job, 1041, 8);
        reduce(job, 1042, 8);
    }
}

/* Gradients in many buckets of one size, and what was left in the last one. */
static void many_buckets(struct job *job, unsigned size) {
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        for (unsigned b = 0; b < 9 + size; b++)
            reduce(job, 1050, UINT64_C(25) << 20);
        reduce(job, 1050, UINT64_C(7) << 20);
        if (size % 2)
            reduce(job, 1051, 4);
    }
}

/* ---- evaluations in every few steps, and what looks like them ------------------------------------ */

/* Data parallel, as PyTorch's DDP does it; every few steps a validation set, whose losses are reduced batch by batch.
 */
static void validation(struct job *job, unsigned size) {
    unsigned every = 2 + size % 7, buckets = between(job, 1, 9), batches = between(job, 3, 30);
    bool metrics = size % 3 > 0, restores = size % 5 == 0;
    for (unsigned k = 0; k < 30 * every; k++) {
        begin_step(job);
        for (unsigned b = 0; b < buckets; b++)
            reduce(job, 900, b + 1 < buckets ? UINT64_C(25) << 20 : UINT64_C(7) << 20);
        if (size % 2)
            reduce(job, 901, 4);
        if (k % every != every - 1)
            continue;
        for (unsigned b = 0; b < batches; b++) {
            reduce(job, 910, 4);
            if (metrics)
                reduce(job, 911, 16);
        }
        if (restores)
            put(job, 912, 0, true);
    }
}

/* One bucket holds all gradients, and no loss is reduced but those of the validation set. */
static void one_bucket(struct job *job, unsigned size) {
    unsigned every = 2 + size % 9, least = 3 + size % 5;
    for (unsigned k = 0; k < 30 * every; k++) {
        begin_step(job);
        reduce(job, 905, UINT64_C(4) << 20);
        for (unsigned b = k % every == every - 1 ? between(job, least, least + size % 3) : 0; b > 0; b--)
            reduce(job, 915, 8);
    }
}

/* Parameters are gathered layer by layer, in the validation's forward passes, too. */
static void sharded_validation(struct job *job, unsigned size) {
    unsigned every = 2 + size % 7, layers = between(job, 2, 12), batches = between(job, 3, 8);
    for (unsigned k = 0; k < 30 * every; k++) {
        begin_step(job);
        for (unsigned pass = 0; pass < 2; pass++)
            for (unsigned l = 0; l < layers; l++) {
                reduce(job, 920 + pass, UINT64_C(8) << 20);
                if (pass == 1)
                    reduce(job, 922, UINT64_C(16) << 20);
            }
        reduce(job, 923, 4);
        for (unsigned b = 0; k % every == every - 1 && b < batches; b++) {
            for (unsigned l = 0; l < layers; l++)
                reduce(job, 924, UINT64_C(8) << 20);
            reduce(job, 925, 8);
        }
    }
}

/* The same without validation: a few micro-batches make a step, behind them the norm of the gradients, or two of them
 * for two groups of parameters. */
static void sharded_accumulation(struct job *job, unsigned size) {
    unsigned micro_batches = 2 + size % 7, layers = between(job, 2, 12);
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        for (unsigned m = 0; m < micro_batches; m++)
            for (unsigned pass = 0; pass < 2; pass++)
                for (unsigned l = 0; l < layers; l++) {
                    reduce(job, 930 + pass, UINT64_C(8) << 20);
                    if (pass == 1)
                        reduce(job, 932, UINT64_C(16) << 20);
                }
        reduce(job, 933, 4);
        for (unsigned g = 0; g < size % 3; g++)
            reduce(job, 934, 4);
    }
}

/* Gradients are reduced in buckets in every micro-batch; the optimizer's share of the parameters is gathered behind
 * the last one, in buckets of one size. */
static void sharded_optimizer(struct job *job, unsigned size) {
    unsigned micro_batches = 2 + size % 7, buckets = between(job, 2, 12), gathers = between(job, 1, 10);
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        for (unsigned m = 0; m < micro_batches; m++)
            for (unsigned b = 0; b < buckets; b++)
                reduce(job, 940, UINT64_C(100) << 20);
        reduce(job, 941, 4);
        for (unsigned g = 0; g < gathers; g++)
            reduce(job, 942, UINT64_C(50) << 20);
    }
}

/* A Runge-Kutta method's stages, then the pressure by a solver. */
static void projection(struct job *job, unsigned size) {
    unsigned stages = 2 + size % 4, neighbours = 1 + size % 3;
    for (unsigned k = 0; k < 60; k++) {
        begin_step(job);
        reduce(job, 950, 8);
        for (unsigned r = 0; r < stages; r++)
            exchange(job, 951, neighbours, 8192);
        for (unsigned i = between(job, 5, 25); i > 0; i--) {
            exchange(job, 960, neighbours, 4096);
            reduce(job, 970, 8);
        }
    }
}

static const struct kind {
    const char *name;
    void (*play)(struct job *job, unsigned size);
} kinds[] = {
    {"conjugate gradients", conjugate_gradients},
    {"few inner solves", few_inner_solves},
    {"growing solves", growing_solves},
    {"orthogonalization", orthogonalization},
    {"nested solvers", nested_solvers},
    {"particles", particles},
    {"evaluation", evaluation},
    {"warm-up", warm_up},
    {"accumulation", accumulation},
    {"experts", experts},
    {"checkpoints", checkpoints},
    {"sole collective", sole_collective},
    {"fixed iterations", fixed_iterations},
    {"power iterations", power_iterations},
    {"scalar products", scalar_products},
    {"many buckets", many_buckets},
    {"validation", validation},
    {"one bucket", one_bucket},
    {"sharded validation", sharded_validation},
    {"sharded accumulation", sharded_accumulation},
    {"sharded optimizer", sharded_optimizer},
    {"projection", projection},
};

/* Share of the true steps that hold exactly one beginning of those found; those in which the anchor may be missing or
 * come twice because the job had not settled yet, the first tenth, do not count. */
static double share_found(const struct job *job, const struct step_periods *periods) {
    if (periods->step == periods->count)
        return 0;
    uint64_t anchor = periods->levels[periods->step].anchor;
    size_t once = 0, all = 0;
    for (size_t k = job->steps / 10; k < job->steps; k++) {
        size_t end = k + 1 < job->steps ? job->begins[k + 1] : job->count, seen = 0;
        for (size_t i = job->begins[k]; i < end; i++)
            seen += job->symbols[i] == anchor;
        once += seen == 1;
        all++;
    }
    return (double)once / (double)all;
}

static void steps_are_found_as_planted(void **state) {
    (void)state;
    enum { JOBS = 40 };
    static struct job job;
    unsigned right_in_all = 0, jobs = 0;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        unsigned right = 0, none = 0;
        for (unsigned i = 0; i < JOBS; i++, jobs++) {
            struct step_periods periods;
            job.count = job.steps = job.collectives = 0;
            job.random = 1000 * i + kind;
            kinds[kind].play(&job, i);
            assert_true(step_periods_find(&periods, job.symbols, job.order, job.numbers, job.count));
            right += share_found(&job, &periods) >= 0.97;
            none += periods.step == periods.count;
        }
        printf("%-20s right %u of %u, none found in %u\n", kinds[kind].name, right, JOBS, none);
        right_in_all += right;
        assert_true(right * 20 >= 19 * JOBS);
    }
    printf("%u of %u\n", right_in_all, jobs);
    assert_true(right_in_all * 100 >= 97 * jobs);
}

/* Calls in an order that is up to chance, of 2 to 13 kinds: there are no steps. */
static void calls_by_chance_have_no_steps(void **state) {
    (void)state;
    static struct job job;
    for (unsigned seed = 0; seed < 100; seed++) {
        struct step_periods periods;
        job.count = job.steps = job.collectives = 0;
        job.random = 5000 + seed;
        for (unsigned k = 0; k < 400 + 20 * seed; k++)
            reduce(&job, 800 + between(&job, 0, 1 + seed % 12), 8);
        assert_true(step_periods_find(&periods, job.symbols, job.order, job.numbers, job.count));
        assert_int_equal(periods.step, periods.count);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_found_as_planted),
        cmocka_unit_test(calls_by_chance_have_no_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
