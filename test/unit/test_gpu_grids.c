/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs on GPUs that send and receive by NCCL: pipelines alone, and grids of data x pipeline x tensor parallel ranks.
 * Lives here: a small generator of what such streams do, which tells how long the job takes with and without its late
 * rank, and what the analysis says of it. Must not live here: single messages (test_gpu_messages.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/stragglers/stragglers.h"
#include "test/unit/job_builder.h"

enum {
    SEND = 2100,
    RECV,
    GROUP_END,
    RANKS = HAND_RANKS_MAX,
    OPS_MAX = 8192,
    BUFFERED = 4, /* messages that a connection holds */
    TRANSFER_NS = 20000,
    LAUNCH_NS = 5000,
};

struct plan {
    unsigned data, stages, tensor, steps, batches;
    int late; /* rank, -1: none */
    double factor;
    bool exchange; /* gradients are sent back in one group with receiving the next activations */
    unsigned seed;
};

enum act { WORK, REDUCE, MESSAGES };
enum { TENSOR = 1, DATA, PIPELINE }; /* communicators, by local index; 0 is the world */

struct op {
    enum act act;
    int64_t ns;       /* of work */
    int32_t comm;     /* of a reduction */
    int32_t to, from; /* stages, -1: none */
    int64_t begin;
    bool begun;
};

struct rank {
    struct op ops[OPS_MAX];
    size_t count, at;
    int64_t now;
    uint32_t sent[RANKS], received[RANKS], reduced[4]; /* by stage, by communicator */
    int64_t sent_at[RANKS][OPS_MAX], received_at[RANKS][OPS_MAX];
    int64_t entered[4][OPS_MAX];
    uint32_t op;
};

static struct rank ranks[RANKS];

static unsigned rank_count(const struct plan *plan) {
    return plan->data * plan->stages * plan->tensor;
}

static unsigned stage_of(const struct plan *plan, unsigned rank) {
    return rank / plan->tensor / plan->data;
}

static unsigned at_stage(const struct plan *plan, unsigned rank, unsigned stage) {
    return rank % (plan->tensor * plan->data) + stage * plan->tensor * plan->data;
}

/* ---- what the ranks do ------------------------------------------------------------------------------------------ */

static double uniform(unsigned long long *state) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(*state >> 11) / (double)(1ull << 53);
}

static void add(struct rank *rank, struct op op) {
    assert_true(rank->count < OPS_MAX);
    rank->ops[rank->count++] = op;
}

static void exchange(struct rank *rank, const struct plan *plan, int32_t to, int32_t from) {
    to = to < (int32_t)plan->stages ? to : -1;
    from = from < (int32_t)plan->stages ? from : -1;
    if (to >= 0 || from >= 0)
        add(rank, (struct op){.act = MESSAGES, .to = to, .from = from});
}

static void work(struct rank *rank, const struct plan *plan, unsigned number, unsigned long long *state) {
    double noise = 1 + 0.1 * (uniform(state) + uniform(state) + uniform(state) - 1.5);
    double factor = (int)number == plan->late ? plan->factor : 1;
    add(rank, (struct op){.act = WORK, .ns = (int64_t)(2e6 * noise * factor)});
    if (plan->tensor > 1)
        add(rank, (struct op){.act = REDUCE, .comm = TENSOR});
}

static void write_rank(const struct plan *plan, unsigned number) {
    struct rank *rank = &ranks[number];
    unsigned long long state = plan->seed * 7919ull + number * 104729ull + 1;
    int32_t stage = (int32_t)stage_of(plan, number);
    bool last = stage + 1 == (int32_t)plan->stages;
    memset(rank, 0, sizeof *rank);
    for (unsigned step = 0; step < plan->steps; step++) {
        for (unsigned b = 0; b < plan->batches; b++) {
            if (b == 0 || !plan->exchange || !last)
                exchange(rank, plan, -1, stage - 1);
            work(rank, plan, number, &state);
            exchange(rank, plan, stage + 1, -1);
            if (!plan->exchange || !last)
                continue;
            work(rank, plan, number, &state);
            exchange(rank, plan, stage - 1, b + 1 < plan->batches ? stage - 1 : -1);
        }
        for (unsigned b = 0; b < plan->batches && !(plan->exchange && last); b++) {
            exchange(rank, plan, -1, stage + 1);
            work(rank, plan, number, &state);
            exchange(rank, plan, stage - 1, -1);
        }
        if (plan->data > 1)
            add(rank, (struct op){.act = REDUCE, .comm = DATA});
    }
}

/* ---- when they do it, and what is recorded of it ---------------------------------------------------------------- */

static void record(struct dump_builder *builder, uint32_t lane, struct record record) {
    if (builder)
        dump_builder_record(builder, lane, &record);
}

static void record_launch(struct dump_builder *builder, struct record posted, uint64_t begin, uint64_t end) {
    posted.t0 = begin - LAUNCH_NS;
    posted.t1 = begin - LAUNCH_NS / 2;
    record(builder, 0, posted);
    posted.kind = RECORD_GPU;
    posted.tag = 0;
    posted.t0 = begin;
    posted.t1 = end;
    record(builder, 1, posted);
}

static bool is_member(const struct plan *plan, unsigned rank, unsigned other, int32_t comm) {
    bool tensor = rank / plan->tensor == other / plan->tensor;
    return comm == TENSOR
               ? tensor
               : rank % plan->tensor == other % plan->tensor && stage_of(plan, rank) == stage_of(plan, other);
}

static bool reduce(const struct plan *plan, unsigned number, struct op *op, struct dump_builder *builder) {
    struct rank *rank = &ranks[number];
    uint32_t seq = rank->reduced[op->comm];
    int64_t last = op->begin;
    rank->entered[op->comm][seq] = op->begin;
    for (unsigned other = 0; other < rank_count(plan); other++) {
        if (!is_member(plan, number, other, op->comm))
            continue;
        int64_t entered = ranks[other].entered[op->comm][seq];
        if (entered == 0)
            return false;
        last = entered > last ? entered : last;
    }
    rank->reduced[op->comm]++;
    rank->now = last + TRANSFER_NS;
    struct record posted = {.kind = RECORD_POST,
                            .call = BUILDER_NCCL_ALL_REDUCE,
                            .flags = FLAG_COLLECTIVE,
                            .comm = (uint32_t)op->comm,
                            .peer = PEER_NONE,
                            .tag = TAG_NONE,
                            .seq = seq,
                            .op = ++rank->op,
                            .bytes = 4096};
    record_launch(builder, posted, (uint64_t)op->begin, (uint64_t)rank->now);
    return true;
}

/* One end of a message, and when it is over; false: that is not known yet. */
static bool message_end(const struct plan *plan, unsigned number, const struct op *op, bool sends, int64_t *end) {
    struct rank *rank = &ranks[number];
    unsigned stage = (unsigned)(sends ? op->to : op->from), own = stage_of(plan, number);
    const struct rank *other = &ranks[at_stage(plan, number, stage)];
    uint32_t seq = sends ? rank->sent[stage] : rank->received[stage];
    int64_t over;
    if (sends) {
        rank->sent_at[stage][seq] = op->begin;
        over = seq < BUFFERED ? op->begin : other->received_at[own][seq - BUFFERED];
    } else {
        rank->received_at[stage][seq] = op->begin;
        over = other->sent_at[own][seq];
    }
    if (over == 0)
        return false;
    over = (over > op->begin ? over : op->begin) + TRANSFER_NS;
    *end = over > *end ? over : *end;
    return true;
}

static struct record message_record(struct rank *rank, int32_t stage, bool sends, uint32_t group) {
    return (struct record){.kind = RECORD_POST,
                           .call = sends ? SEND : RECV,
                           .flags = sends ? FLAG_SEND : FLAG_RECV,
                           .comm = PIPELINE,
                           .peer = stage,
                           .tag = group ? (int32_t)group : TAG_NONE,
                           .seq = sends ? rank->sent[stage]++ : rank->received[stage]++,
                           .op = ++rank->op,
                           .bytes = 4096};
}

static bool messages(const struct plan *plan, unsigned number, const struct op *op, struct dump_builder *builder) {
    struct rank *rank = &ranks[number];
    int64_t end = op->begin;
    bool known = op->to < 0 || message_end(plan, number, op, true, &end);
    known = (op->from < 0 || message_end(plan, number, op, false, &end)) && known;
    if (!known)
        return false;
    rank->now = end;
    if (op->to < 0 || op->from < 0) {
        struct record posted = message_record(rank, op->to < 0 ? op->from : op->to, op->to >= 0, 0);
        record_launch(builder, posted, (uint64_t)op->begin, (uint64_t)end);
        return true;
    }
    uint32_t group = ++rank->op;
    for (unsigned sends = 0; sends < 2; sends++) {
        struct record posted = message_record(rank, sends ? op->to : op->from, sends, group);
        posted.t0 = (uint64_t)op->begin - 2 * LAUNCH_NS;
        posted.t1 = posted.t0 + 100;
        record(builder, 0, posted);
    }
    struct record closed = {.kind = RECORD_GROUP,
                            .call = GROUP_END,
                            .comm = PIPELINE,
                            .peer = PEER_NONE,
                            .tag = TAG_NONE,
                            .seq = SEQ_NONE,
                            .op = group,
                            .bytes = 8192};
    record_launch(builder, closed, (uint64_t)op->begin, (uint64_t)end);
    return true;
}

/* Goes on with one rank as far as it can. */
static bool advance(const struct plan *plan, unsigned number, struct dump_builder *builder) {
    struct rank *rank = &ranks[number];
    size_t before = rank->at;
    for (; rank->at < rank->count; rank->at++) {
        struct op *op = &rank->ops[rank->at];
        if (!op->begun) {
            op->begin = rank->now;
            op->begun = true;
        }
        if (op->act == WORK)
            rank->now += op->ns;
        else if (op->act == REDUCE ? !reduce(plan, number, op, builder) : !messages(plan, number, op, builder))
            break;
    }
    return rank->at > before;
}

/* Plays the job into the builders, where there are any; how long it takes. */
static int64_t play(const struct plan *plan, struct dump_builder **builders) {
    int64_t end = 0;
    for (unsigned r = 0; r < rank_count(plan); r++) {
        write_rank(plan, r);
        ranks[r].now = 1000000;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (unsigned r = 0; r < rank_count(plan); r++)
            moved |= advance(plan, r, builders ? builders[r] : NULL);
    }
    for (unsigned r = 0; r < rank_count(plan); r++) {
        assert_true(ranks[r].at == ranks[r].count);
        end = ranks[r].now > end ? ranks[r].now : end;
    }
    return end - 1000000;
}

/* ---- the job ---------------------------------------------------------------------------------------------------- */

static void define_communicators(struct dump_builder *builder, const struct plan *plan, unsigned rank) {
    int32_t tensor = (int32_t)plan->tensor, data = (int32_t)plan->data, grid = tensor * data, own = (int32_t)rank;
    int32_t stage = own / grid, row = own / tensor;
    struct member_run tensors = {row * tensor, plan->tensor, 1};
    struct member_run datas = {stage * grid + own % tensor, plan->data, tensor};
    struct member_run stages = {own % grid, plan->stages, grid};
    dump_builder_communicator(builder, 0x1000u + (unsigned)row, "", own % tensor, &tensors, 1);
    dump_builder_communicator(builder, 0x2000u + (unsigned)(stage * tensor + own % tensor), "", row % data, &datas, 1);
    dump_builder_communicator(builder, 0x3000u + (unsigned)(own % grid), "", stage, &stages, 1);
}

static int64_t make(struct hand_job *job, const struct plan *plan) {
    hand_job_make(job, rank_count(plan), (struct dump_plan){.lanes = 2, .devices = 1, .ring_records = OPS_MAX});
    for (unsigned r = 0; r < rank_count(plan); r++) {
        struct dump_builder *builder = job->builders[r];
        dump_builder_header(builder)->gpu_timing = GPU_TIMING_EVENTS;
        dump_builder_lane(builder, 1)->device = 1;
        dump_builder_device(builder, 0, 2000);
        dump_builder_call(builder, SEND, CLASS_SEND, FLOW_NONE, BUSBW_ONE, 1, "ncclSend");
        dump_builder_call(builder, RECV, CLASS_RECV, FLOW_NONE, BUSBW_ONE, 1, "ncclRecv");
        dump_builder_call(builder, GROUP_END, CLASS_GROUP, FLOW_NONE, BUSBW_NONE, 1, "ncclGroupEnd");
        define_communicators(builder, plan, r);
    }
    int64_t took = play(plan, job->builders);
    hand_job_open(job, rank_count(plan));
    return took;
}

struct shape {
    unsigned data, stages, tensor;
    bool exchange;
};
static const struct shape shapes[] = {{1, 4, 1, false}, {1, 8, 1, true}, {2, 2, 2, false},
                                      {2, 2, 2, true},  {2, 4, 1, true}, {4, 2, 1, false}};

static struct plan plan_of(const struct shape *shape, unsigned seed) {
    return (struct plan){.data = shape->data,
                         .stages = shape->stages,
                         .tensor = shape->tensor,
                         .exchange = shape->exchange,
                         .steps = 40,
                         .batches = 2 + 2 * (seed % 3),
                         .late = -1,
                         .factor = 1,
                         .seed = seed};
}

static void judge(const struct plan *plan, struct straggler_analysis *analysis, struct hand_job *job, int64_t *took) {
    *took = make(job, plan);
    assert_true(straggler_analyse(analysis, &job->clock, &job->directory, &(struct straggler_request){.workers = 1}));
    assert_int_equal(analysis->judgement, JUDGED);
}

/* Mending it gives what the same job takes without it. */
static void a_late_gpu_is_named_with_what_it_costs(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (unsigned seed = 1; seed <= 6; seed++) {
            struct plan plan = plan_of(&shapes[s], seed);
            struct hand_job job;
            struct straggler_analysis analysis;
            int64_t took, mended = play(&plan, NULL);
            plan.late = (int)((seed * 5 + s) % rank_count(&plan));
            plan.factor = 1.4 + 0.2 * seed;
            judge(&plan, &analysis, &job, &took);
            assert_int_equal(analysis.straggler_count, 1);
            assert_int_equal(analysis.stragglers[0].kind, STRAGGLER_RANK);
            assert_int_equal(analysis.stragglers[0].dumps[0], plan.late);
            double gain = (double)took / (double)mended;
            assert_true(fabs(analysis.stragglers[0].what_if_speedup / gain - 1) < 0.05);
            straggler_analysis_free(&analysis);
            hand_job_free(&job);
        }
}

static void nobody_is_named_where_no_gpu_is_late(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (unsigned seed = 1; seed <= 10; seed++) {
            struct plan plan = plan_of(&shapes[s], seed);
            struct hand_job job;
            struct straggler_analysis analysis;
            int64_t took;
            judge(&plan, &analysis, &job, &took);
            assert_int_equal(analysis.straggler_count, 0);
            straggler_analysis_free(&analysis);
            hand_job_free(&job);
        }
}

/* Every receive found its send. Stages wait for each other by design while a pipeline fills; most of the waiting is for
 * the late rank. */
static void waits_go_back_to_the_late_rank(void **state) {
    (void)state;
    struct plan plan = plan_of(&shapes[2], 1);
    struct hand_job job;
    struct straggler_analysis analysis;
    int64_t took, all = 0;
    plan.late = 5;
    plan.factor = 3;
    judge(&plan, &analysis, &job, &took);
    assert_true(analysis.totals.halves > 0);
    assert_int_equal(2 * analysis.totals.messages, analysis.totals.halves);
    for (unsigned r = 0; r < rank_count(&plan); r++)
        all += analysis.delay_costs.ranks[r].delay_cost_ns;
    assert_true(analysis.delay_costs.ranks[5].delay_cost_ns > 2 * (all / 3));
    straggler_analysis_free(&analysis);
    hand_job_free(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_gpu_is_named_with_what_it_costs),
        cmocka_unit_test(nobody_is_named_where_no_gpu_is_late),
        cmocka_unit_test(waits_go_back_to_the_late_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
