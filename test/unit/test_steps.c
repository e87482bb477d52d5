/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of hand-made ranks, with every figure worked out by hand.
 * Lives here: one rank's step trace and overlap figures, numbers across ranks, markers.
 * Must not live here: finding periods in sequences (test_step_period.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/findings/advice.h"
#include "analyzer/render/steps_table.h"
#include "analyzer/steps/step_waits.h"
#include "analyzer/steps/steps.h"
#include "test/unit/job_builder.h"

enum { STEPS = 20, STEP = 100000, US = 1000 };

static const struct step_marker found = {0};

static void reduce(struct hand_job *job, unsigned rank, uint32_t seq, uint64_t bytes, uint64_t enter, uint64_t leave) {
    dump_builder_collective(job->builders[rank], 0, BUILDER_ALLREDUCE, 0, seq, bytes, enter, leave)->redop = REDOP_SUM;
}

/* A step of 100 us: own work to 10, receive 10-30, own work to 40, gradients 40-70, own work to 90, norm 90-100. */
static void play(struct hand_job *job, unsigned rank, unsigned first_step) {
    for (uint32_t k = first_step; k < STEPS; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        dump_builder_p2p(job->builders[rank], 0, BUILDER_RECV, 0, FLAG_RECV, 1, 7, k, 512, t + 10 * US, t + 30 * US);
        reduce(job, rank, 2 * k, 4096, t + 40 * US, t + 70 * US);
        reduce(job, rank, 2 * k + 1, 8, t + 90 * US, t + 100 * US);
    }
}

static void a_step_is_divided_as_it_should_be(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){0});
    play(&job, 0, 0);
    hand_job_open(&job, 1);
    assert_true(steps_find(&steps, &job.clock, &found));
    const struct rank_steps *rank = &steps.ranks[0];
    assert_int_equal(rank->periods.levels[rank->periods.step].length, 3);
    assert_in_range(rank->count, STEPS - 3, STEPS - 1);
    for (size_t i = 0; i < rank->count; i++) {
        const struct step *step = &rank->steps[i];
        assert_int_equal(step->end_ns - step->start_ns, STEP);
        assert_int_equal(step->operations, 3);
        assert_int_equal(step->comm_ns, 60 * US);
        assert_int_equal(step->receive_alone_ns, 20 * US);
        assert_int_equal(step->collective_alone_ns, 40 * US);
        assert_int_equal(step->communication_alone_ns, 60 * US);
        assert_true(step->idle_ns == STEP_UNKNOWN);
        assert_int_equal(step->number, i);
        /* the anchor is one of the three operations, which all come once a step */
        assert_int_equal(step->first_ns + step->sync_ns + step->tail_ns, STEP);
        assert_true(step->first_ns >= 0 && step->tail_ns >= 30 * US);
    }
    steps_free(&steps);
    hand_job_free(&job);
}

/* The same step with a communicator made in 10-30 instead: it is a collective, and costs time like one. */
static void making_communicators_takes_part_of_a_step(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (uint32_t k = 0; k < STEPS; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        dump_builder_collective(job.builders[0], 0, BUILDER_COMM_DUP, 0, 3 * k, 0, t + 10 * US, t + 30 * US);
        reduce(&job, 0, 3 * k + 1, 4096, t + 40 * US, t + 70 * US);
        reduce(&job, 0, 3 * k + 2, 8, t + 90 * US, t + 100 * US);
    }
    hand_job_open(&job, 1);
    assert_true(steps_find(&steps, &job.clock, &found));
    const struct rank_steps *rank = &steps.ranks[0];
    assert_int_equal(rank->periods.levels[rank->periods.step].length, 3);
    assert_in_range(rank->count, STEPS - 3, STEPS - 1);
    for (size_t i = 0; i < rank->count; i++) {
        assert_int_equal(rank->steps[i].operations, 3);
        assert_int_equal(rank->steps[i].comm_ns, 60 * US);
        assert_int_equal(rank->steps[i].collective_alone_ns, 60 * US);
    }
    steps_free(&steps);
    hand_job_free(&job);
}

/* The same step, its message looked for from 5 on, of which 5 us are own work, and received in 29-30. */
static void polls_in_a_step_are_communication(void **state) {
    (void)state;
    enum { IPROBE = 241 };
    struct hand_job job;
    struct steps steps;
    struct record polls = {.seq = 5 * US, .call = IPROBE, .kind = RECORD_POLL};
    hand_job_make(&job, 2, (struct dump_plan){0});
    dump_builder_call(job.builders[0], IPROBE, CLASS_PROBE, FLOW_NONE, BUSBW_NONE, 0, "MPI_Iprobe");
    for (uint32_t k = 0; k < STEPS; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        polls.t0 = t + 5 * US;
        polls.t1 = t + 29 * US;
        dump_builder_record(job.builders[0], 0, &polls);
        dump_builder_p2p(job.builders[0], 0, BUILDER_RECV, 0, FLAG_RECV, 1, 7, k, 512, t + 29 * US, t + 30 * US);
        reduce(&job, 0, 2 * k, 4096, t + 40 * US, t + 70 * US);
        reduce(&job, 0, 2 * k + 1, 8, t + 90 * US, t + 100 * US);
    }
    hand_job_open(&job, 1);
    assert_true(steps_find(&steps, &job.clock, &found));
    assert_in_range(steps.ranks[0].count, STEPS - 3, STEPS - 1);
    for (size_t i = 0; i < steps.ranks[0].count; i++) {
        assert_int_equal(steps.ranks[0].steps[i].operations, 3);
        assert_int_equal(steps.ranks[0].steps[i].receive_alone_ns, 20 * US);
        assert_int_equal(steps.ranks[0].steps[i].communication_alone_ns, 60 * US);
    }
    steps_free(&steps);
    hand_job_free(&job);
}

enum { NCCL_RECV = 2050, WORK = 3000 };

/* times: it starts, ends, and a stream reaches its wait for it; 0: no wait is on record. */
static void launch(struct dump_builder *builder, uint16_t call, uint32_t op, uint32_t seq, uint64_t enqueued,
                   const uint64_t times[3]) {
    bool receive = call == NCCL_RECV;
    struct record record = {.t0 = enqueued,
                            .t1 = enqueued + US,
                            .bytes = receive ? 512 : 4096,
                            .seq = seq,
                            .op = op,
                            .peer = receive ? 1 : PEER_NONE,
                            .tag = TAG_NONE,
                            .call = call,
                            .flags = receive ? FLAG_RECV : FLAG_COLLECTIVE,
                            .redop = receive ? REDOP_NONE : REDOP_SUM,
                            .kind = RECORD_POST};
    dump_builder_record(builder, 0, &record);
    record.tag = 0;
    record.kind = RECORD_GPU;
    record.t0 = times[0];
    record.t1 = times[1];
    dump_builder_record(builder, 1, &record);
    if (times[2] == 0)
        return;
    record.kind = RECORD_EXPOSED;
    record.call = 0;
    record.t0 = times[2];
    dump_builder_record(builder, 1, &record);
}

/* Steps of 100 us on a GPU: it computes from 0 to 60 and from 95 to 100, reduces from 50 to 80, receives from 80 to 95
 * and waits for that since `reached`; 0: waits are not recorded. */
static void open_gpu_job(struct hand_job *job, uint64_t reached, bool receives) {
    hand_job_make(job, 2, (struct dump_plan){.lanes = 2, .devices = 1});
    struct dump_builder *builder = job->builders[0];
    dump_builder_call(builder, NCCL_RECV, CLASS_RECV, FLOW_NONE, BUSBW_ONE, 1, "ncclRecv");
    dump_builder_header(builder)->gpu_timing = GPU_TIMING_EVENTS;
    dump_builder_lane(builder, 1)->device = 1;
    dump_builder_device(builder, 1000 * US, 100);
    for (uint32_t k = 0; k < STEPS; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        launch(builder, BUILDER_NCCL_ALL_REDUCE, 2 * k + 1, k, t + 10 * US,
               (uint64_t[]){t + 50 * US, t + 80 * US, reached ? t + 60 * US : 0});
        if (receives)
            launch(builder, NCCL_RECV, 2 * k + 2, k, t + 20 * US,
                   (uint64_t[]){t + 80 * US, t + 95 * US, reached ? t + reached : 0});
    }
    hand_job_open(job, 1);
}

static void gpu_steps_are(uint64_t reached, bool receives, const struct step *expected) {
    struct hand_job job;
    struct steps steps;
    open_gpu_job(&job, reached, receives);
    assert_true(steps_find(&steps, &job.clock, &found));
    assert_in_range(steps.ranks[0].count, STEPS - 3, STEPS - 1);
    for (size_t i = 0; i < steps.ranks[0].count; i++) {
        const struct step *step = &steps.ranks[0].steps[i];
        assert_int_equal(step->end_ns - step->start_ns, 100 * US);
        assert_int_equal(step->receive_alone_ns, expected->receive_alone_ns);
        assert_int_equal(step->communication_alone_ns, expected->communication_alone_ns);
        assert_int_equal(step->collective_alone_ns, expected->collective_alone_ns);
        assert_true(step->idle_ns == STEP_UNKNOWN); /* what it computes is not on record */
    }
    steps_free(&steps);
    hand_job_free(&job);
}

/* The call that enqueued the reduction returned at 11, it began at 50; steps begin when the receive has ended. */
static void on_a_gpu_the_first_operation_was_enqueued_before(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    open_gpu_job(&job, 0, true);
    assert_true(steps_find(&steps, &job.clock, &(struct step_marker){.anchor = "recv"}));
    assert_true(steps.ranks[0].count >= STEPS - 2);
    for (size_t i = 0; i < steps.ranks[0].count; i++) {
        assert_int_equal(steps.ranks[0].steps[i].first_ns, 0);
        assert_int_equal(steps.ranks[0].steps[i].queued_ns, 0);
    }
    steps_free(&steps);
    assert_true(steps_find(&steps, &job.clock, &found));
    for (size_t i = 0; i < steps.ranks[0].count; i++) {
        const struct step *step = &steps.ranks[0].steps[i];
        assert_int_equal(step->first_ns, 55 * US);
        assert_int_equal(step->queued_ns, 39 * US);
    }
    steps_free(&steps);
    hand_job_free(&job);
}

static void on_a_gpu_what_streams_waited_for_is_alone(void **state) {
    (void)state;
    gpu_steps_are(
        80 * US, true, /* stage 85, computation 65 */
        &(struct step){.receive_alone_ns = 15 * US, .communication_alone_ns = 35 * US, .collective_alone_ns = 20 * US});
    gpu_steps_are(
        88 * US, true, /* it computed on while it received */
        &(struct step){.receive_alone_ns = 7 * US, .communication_alone_ns = 27 * US, .collective_alone_ns = 20 * US});
}

static void without_waits_on_record_nothing_on_a_gpu_is_known_to_be_alone(void **state) {
    (void)state;
    gpu_steps_are(0, true,
                  &(struct step){.receive_alone_ns = STEP_UNKNOWN,
                                 .communication_alone_ns = STEP_UNKNOWN,
                                 .collective_alone_ns = STEP_UNKNOWN});
    gpu_steps_are(0, false, /* who receives nothing does not do it alone either */
                  &(struct step){.communication_alone_ns = STEP_UNKNOWN, .collective_alone_ns = STEP_UNKNOWN});
}

static void name_work(struct hand_job *job, const char *name) {
    dump_builder_call(job->builders[0], WORK, CLASS_OTHER, FLOW_NONE, BUSBW_NONE, 0, name);
    struct call_name *work = dump_builder_contents(job->builders[0], SECTION_CALLS, 0);
    while (work->id != WORK)
        work++;
    work->api = API_TRACE;
}

/* The steps of `play`, of which the named work fills 0-8, 30-40 and overlaps the gradients to 45. */
static void idle_is_known_where_work_is_on_record(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){0});
    name_work(&job, "forward-compute");
    play(&job, 0, 0);
    for (uint32_t k = 0; k < STEPS; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        dump_builder_plain(job.builders[0], 0, WORK, t, t + 8 * US);
        dump_builder_plain(job.builders[0], 0, WORK, t + 30 * US, t + 45 * US);
    }
    hand_job_open(&job, 1);
    assert_true(steps_find(&steps, &job.clock, &(struct step_marker){.anchor = "recv"}));
    assert_int_equal(steps.ranks[0].count, STEPS - 1);
    for (size_t i = 0; i < steps.ranks[0].count; i++) {
        const struct step *step = &steps.ranks[0].steps[i];
        assert_int_equal(step->idle_ns, 22 * US);                /* 8-10 and 70-90 */
        assert_int_equal(step->communication_alone_ns, 55 * US); /* 10-30, 45-70, 90-100 */
        assert_int_equal(step->collective_alone_ns, 35 * US);
        assert_int_equal(step->receive_alone_ns, 20 * US);
    }
    steps_free(&steps);
    hand_job_free(&job);
}

/* Data, forward and backward fill 60 us, the gradients 40; in the middle of the former another rank's message is
 * received, or not. */
/* A send and a receive that a profiler's trace has in one kernel, as it is imported: the calls, the end of their group,
 * and where that ran. */
static void exchange(struct dump_builder *builder, uint32_t number, uint64_t launched, uint64_t from, uint64_t to) {
    struct record record = {
        .seq = number, .peer = 1, .bytes = 512, .kind = RECORD_POST, .t0 = launched, .t1 = launched + US};
    record.tag = (int32_t)(3 * number + 3);
    for (uint32_t half = 0; half < 2; half++) {
        record.op = 3 * number + 1 + half;
        record.call = half ? BUILDER_NCCL_RECV : BUILDER_NCCL_SEND;
        record.flags = half ? FLAG_RECV : FLAG_SEND;
        dump_builder_record(builder, 0, &record);
    }
    record = (struct record){.seq = SEQ_NONE,
                             .op = 3 * number + 3,
                             .peer = PEER_NONE,
                             .tag = TAG_NONE,
                             .bytes = 1024,
                             .call = BUILDER_NCCL_GROUP_END,
                             .kind = RECORD_GROUP,
                             .t0 = launched,
                             .t1 = launched + US};
    dump_builder_record(builder, 0, &record);
    record.kind = RECORD_GPU;
    record.tag = 0;
    record.t0 = from;
    record.t1 = to;
    dump_builder_record(builder, 0, &record);
}

static void mark(struct dump_builder *builder, uint64_t at) {
    dump_builder_record(
        builder, 0,
        &(struct record){.kind = RECORD_MARK, .t0 = at, .t1 = at, .tag = 100, .comm = COMM_NONE, .seq = SEQ_NONE});
}

/* In steps of 100 us the host launches at 5 and 10 what its GPU computes from 70 to 110 and exchanges from 105 to 140.
 */
static void a_group_on_a_gpu_is_of_the_step_that_launched_it(void **state) {
    (void)state;
    enum { MARKED = 3 };
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){.devices = 1});
    struct dump_builder *builder = job.builders[0];
    name_work(&job, GPU_WORK_KERNELS);
    dump_builder_header(builder)->gpu_timing = GPU_TIMING_KERNEL;
    dump_builder_device(builder, 1000 * US, 0);
    for (uint32_t k = 0; k < MARKED; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        mark(builder, t);
        exchange(builder, k, t + 10 * US, t + 105 * US, t + 140 * US);
        dump_builder_plain(builder, 0, WORK, t + 70 * US, t + 110 * US)->seq = 65;
    }
    mark(builder, 1000 * US + MARKED * STEP);
    hand_job_open(&job, 1);
    assert_true(steps_find(&steps, &job.clock, &found));
    assert_int_equal(steps.ranks[0].count, MARKED);
    for (size_t i = 0; i < MARKED; i++) {
        const struct gpu_times *gpu = &steps.ranks[0].steps[i].gpu;
        assert_true(steps.ranks[0].steps[i].gpu_known);
        assert_int_equal(gpu->span_ns, 70 * US);
        assert_int_equal(gpu->busy_ns, 70 * US);
        assert_int_equal(gpu->compute_ns, 40 * US);
        assert_int_equal(gpu->communication_ns, 35 * US);
        assert_int_equal(gpu->overlap_ns, 5 * US);
    }
    steps_free(&steps);
    hand_job_free(&job);
}

static void a_step_that_begins_with_its_gradients_has_its_data_in_the_interval(void **state) {
    (void)state;
    for (unsigned receives = 0; receives < 2; receives++) {
        struct hand_job job;
        struct steps steps;
        hand_job_make(&job, 2, (struct dump_plan){0});
        for (uint32_t k = 0; k < STEPS; k++) {
            uint64_t t = 1000 * US + (uint64_t)k * STEP;
            reduce(&job, 0, k, 4096, t, t + 40 * US);
            if (receives)
                dump_builder_p2p(job.builders[0], 0, BUILDER_RECV, 0, FLAG_RECV, 1, 7, k, 512, t + 70 * US,
                                 t + 75 * US);
        }
        hand_job_open(&job, 1);
        assert_true(steps_find(&steps, &job.clock, &(struct step_marker){.anchor = "Allreduce"}));
        assert_int_equal(steps.ranks[0].count, STEPS - 1);
        for (size_t i = 0; i < steps.ranks[0].count; i++) {
            const struct step *step = &steps.ranks[0].steps[i];
            assert_int_equal(step->tail_ns, 40 * US);
            assert_int_equal(step->first_ns, receives ? 30 * US : 60 * US);
            assert_int_equal(step->sync_ns, receives ? 30 * US : 0);
        }
        steps_free(&steps);
        hand_job_free(&job);
    }
}

/* Call sites in the order in which the program came to them. */
static void define_sites(struct hand_job *job, const uint32_t *sites, size_t count) {
    dump_builder_header(job->builders[0])->pid = 4711;
    for (size_t i = 0; i < count; i++)
        dump_builder_stack(job->builders[0], sites[i], &(uint64_t){0x1000 * sites[i]}, 1);
}

/* Step k begins at 1000 us + k * STEP: data and forward fill 30 us, a small reduction (site 1) 10, backward 10,
 * gradients (site 2) 30, optimizer 20. Gradients that are waited for are posted at 50 and waited for until `waited`. */
static void open_headed_steps(struct hand_job *job, const uint32_t order[2], uint64_t waited) {
    hand_job_make(job, 2, (struct dump_plan){0});
    define_sites(job, order, 2);
    for (uint32_t k = 0; k < STEPS; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        dump_builder_collective(job->builders[0], 0, BUILDER_ALLREDUCE, 0, 2 * k, 8, t + 30 * US, t + 40 * US)->stack =
            1;
        struct record gradients = {.kind = waited ? RECORD_POST : RECORD_CALL,
                                   .call = waited ? BUILDER_IALLREDUCE : BUILDER_ALLREDUCE,
                                   .flags = FLAG_COLLECTIVE,
                                   .peer = PEER_NONE,
                                   .tag = TAG_NONE,
                                   .seq = 2 * k + 1,
                                   .op = waited ? k + 1 : 0,
                                   .bytes = 4096,
                                   .redop = REDOP_SUM,
                                   .stack = 2,
                                   .t0 = t + 50 * US,
                                   .t1 = t + (waited ? 51 : 80) * US};
        dump_builder_record(job->builders[0], 0, &gradients);
        if (waited)
            dump_builder_plain(job->builders[0], 0, BUILDER_WAIT, t + 60 * US, t + waited);
    }
    hand_job_open(job, 1);
}

/* What fills all steps that are found. */
static void headed_steps_are(const uint32_t order[2], uint64_t waited, const struct step *expected) {
    struct hand_job job;
    struct steps steps;
    open_headed_steps(&job, order, waited);
    assert_true(steps_find(&steps, &job.clock, &found));
    const struct rank_steps *rank = &steps.ranks[0];
    assert_int_equal(rank->count, STEPS - 1);
    for (size_t i = 0; i < rank->count; i++) {
        const struct step *step = &rank->steps[i];
        int64_t setup = i == 0 ? expected->first_ns : 0; /* the first one begins with its first operation */
        setup = expected->start_ns == 40 * US ? 0 : setup;
        assert_int_equal(step->end_ns - step->start_ns, STEP - setup);
        assert_int_equal((step->start_ns - 1000 * US) % STEP, (expected->start_ns + setup) % STEP);
        assert_int_equal(step->first_ns, expected->first_ns - setup);
        assert_int_equal(step->sync_ns, expected->sync_ns);
        assert_int_equal(step->tail_ns, expected->tail_ns);
        assert_int_equal(step->seq % 2, 0); /* the collective that it has its number from */
    }
    steps_free(&steps);
    hand_job_free(&job);
}

static void a_small_collective_at_the_head_of_a_step_has_its_data_before_it(void **state) {
    (void)state;
    static const uint32_t head[] = {1, 2}, end[] = {2, 1};
    headed_steps_are(head, 0, /* from the end of the gradients on */
                     &(struct step){.start_ns = 80 * US, .first_ns = 50 * US, .sync_ns = 20 * US, .tail_ns = 30 * US});
    headed_steps_are(head, 90 * US, /* from the end of the wait for them */
                     &(struct step){.start_ns = 90 * US, .first_ns = 40 * US, .sync_ns = 20 * US, .tail_ns = 40 * US});
    headed_steps_are(end, 0, /* the same calls where the small one ends a step: a loss, a norm */
                     &(struct step){.start_ns = 40 * US, .first_ns = 10 * US, .sync_ns = 0, .tail_ns = 90 * US});
}

/* The same steps on a GPU, enqueued from 5 us on: the small reduction comes late because other work is in its stream.
 */
static void on_a_gpu_the_head_of_a_step_was_enqueued_before(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){.lanes = 2, .devices = 1});
    define_sites(&job, (const uint32_t[]){1, 2}, 2);
    dump_builder_header(job.builders[0])->gpu_timing = GPU_TIMING_EVENTS;
    dump_builder_lane(job.builders[0], 1)->device = 1;
    dump_builder_device(job.builders[0], 1000 * US, 100);
    for (uint32_t k = 0; k < 2 * STEPS; k++) {
        bool small = k % 2 == 0;
        uint64_t t = 1000 * US + (uint64_t)k / 2 * STEP;
        struct record record = {.kind = RECORD_POST,
                                .call = BUILDER_NCCL_ALL_REDUCE,
                                .flags = FLAG_COLLECTIVE,
                                .peer = PEER_NONE,
                                .tag = TAG_NONE,
                                .seq = k,
                                .op = k + 1,
                                .bytes = small ? 8 : 4096,
                                .redop = REDOP_SUM,
                                .stack = small ? 1 : 2,
                                .t0 = t + (small ? 5 : 7) * US,
                                .t1 = t + (small ? 6 : 8) * US};
        dump_builder_record(job.builders[0], 0, &record);
        record.kind = RECORD_GPU;
        record.tag = 0;
        record.t0 = t + (small ? 30 : 50) * US;
        record.t1 = t + (small ? 40 : 80) * US;
        dump_builder_record(job.builders[0], 1, &record);
    }
    hand_job_open(&job, 1);
    assert_true(steps_find(&steps, &job.clock, &found));
    assert_int_equal(steps.ranks[0].count, STEPS - 1);
    for (size_t i = 1; i < steps.ranks[0].count; i++) {
        assert_int_equal(steps.ranks[0].steps[i].first_ns, 50 * US);
        assert_int_equal(steps.ranks[0].steps[i].queued_ns, 24 * US);
        assert_int_equal(steps.ranks[0].steps[i].tail_ns, 30 * US);
    }
    steps_free(&steps);
    hand_job_free(&job);
}

static void an_imported_trace_begins_anywhere(void **state) {
    (void)state;
    static const uint32_t head[] = {1, 2};
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){0});
    define_sites(&job, head, 2);
    dump_builder_header(job.builders[0])->pid = 0;
    for (uint32_t k = 0; k < STEPS; k++)
        for (uint32_t site = 1; site <= 2; site++) {
            uint64_t t = 1000 * US + (uint64_t)k * STEP + site * 30 * US;
            struct record *record = dump_builder_collective(job.builders[0], 0, BUILDER_ALLREDUCE, 0, 2 * k + site,
                                                            site == 1 ? 8 : 4096, t, t + 10 * US);
            record->stack = site;
            record->redop = REDOP_SUM;
        }
    hand_job_open(&job, 1);
    assert_true(steps_find(&steps, &job.clock, &found));
    for (size_t i = 0; i < steps.ranks[0].count; i++)
        assert_int_equal((steps.ranks[0].steps[i].start_ns - 1000 * US) % STEP, 40 * US);
    assert_true(steps.ranks[0].count > 0);
    steps_free(&steps);
    hand_job_free(&job);
}

static void a_receive_may_last_longer_than_the_steps(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){.lanes = 2});
    play(&job, 0, 0);
    dump_builder_p2p(job.builders[0], 1, BUILDER_RECV, 0, FLAG_RECV, 1, 8, 0, 512, 500 * US, 2000 * US + STEPS * STEP);
    hand_job_open(&job, 1);
    assert_true(steps_find(&steps, &job.clock, &(struct step_marker){.anchor = "Allreduce"}));
    const struct rank_steps *rank = &steps.ranks[0];
    assert_true(rank->count > STEPS);
    for (size_t i = 0; i < rank->count; i++) {
        const struct step *step = &rank->steps[i];
        assert_int_equal(step->comm_ns, step->end_ns - step->start_ns);
        assert_int_equal(step->receive_alone_ns + step->collective_alone_ns, step->comm_ns);
        assert_true(step->collective_alone_ns == 30 * US || step->collective_alone_ns == 10 * US);
    }
    steps_free(&steps);
    hand_job_free(&job);
}

static void steps_have_one_number_on_all_ranks(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){0});
    play(&job, 0, 0);
    play(&job, 1, 6); /* this one's first steps were overwritten */
    hand_job_open(&job, 2);
    assert_true(steps_find(&steps, &job.clock, &found));
    assert_int_equal(steps.reference, 0);
    const struct rank_steps *late = &steps.ranks[1];
    assert_true(late->count > 0);
    for (size_t i = 0; i < late->count; i++) {
        assert_in_range(late->steps[i].number, 5, STEPS);
        assert_int_equal(late->steps[i].start_ns, steps.ranks[0].steps[late->steps[i].number].start_ns);
    }
    steps_free(&steps);
    hand_job_free(&job);
}

static void a_marker_overrides_what_would_be_found(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){0});
    play(&job, 0, 0);
    for (uint32_t k = 0; k < 5; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * 4 * STEP;
        dump_builder_record(
            job.builders[0], 0,
            &(struct record){
                .kind = RECORD_MARK, .t0 = t, .t1 = t, .tag = 100 + (int32_t)k, .comm = COMM_NONE, .seq = SEQ_NONE});
        t += STEP; /* a level below 100 means something else */
        dump_builder_record(
            job.builders[0], 0,
            &(struct record){.kind = RECORD_MARK, .t0 = t, .t1 = t, .tag = 99, .comm = COMM_NONE, .seq = SEQ_NONE});
    }
    hand_job_open(&job, 1);
    struct step_marker marker = {.pcontrol = true, .any_level = true};
    assert_true(steps_find(&steps, &job.clock, &marker));
    assert_int_equal(steps.ranks[0].count, 4);
    assert_int_equal(steps.ranks[0].steps[0].end_ns - steps.ranks[0].steps[0].start_ns, 4 * STEP);
    assert_int_equal(steps.ranks[0].steps[0].operations, 12);
    steps_free(&steps);
    /* without being asked, unless told not to: the operations' own order has three times as many */
    assert_true(steps_find(&steps, &job.clock, &found));
    assert_true(steps.marked);
    assert_int_equal(steps.ranks[0].count, 4);
    steps_free(&steps);
    assert_true(steps_find(&steps, &job.clock, &(struct step_marker){.operations = true}));
    assert_false(steps.marked);
    assert_true(steps.ranks[0].count > 8);
    steps_free(&steps);
    marker = (struct step_marker){.pcontrol = true, .level = 103};
    assert_true(steps_find(&steps, &job.clock, &marker));
    assert_int_equal(steps.ranks[0].count, 0); /* once is no step */
    steps_free(&steps);
    marker = (struct step_marker){.anchor = "recv"};
    assert_true(steps_find(&steps, &job.clock, &marker));
    assert_int_equal(steps.ranks[0].count, STEPS - 1);
    assert_int_equal(steps.ranks[0].steps[3].first_ns, 0);
    steps_free(&steps);
    hand_job_free(&job);
}

static void without_records_there_are_no_steps(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){0});
    hand_job_open(&job, 2);
    assert_true(steps_find(&steps, &job.clock, &found));
    assert_int_equal(steps.count, 0);
    assert_int_equal(steps.reference, steps.rank_count);
    steps_free(&steps);
    hand_job_free(&job);
}

/* Rank 0 comes to the gradients at 40, rank 1 at 50 us of each step; to the norm both at 90. Rank 1 of two receives
 * from rank 0, which sends 5 us after the receive was posted. From step `lost` on rank 1's norm is not on record. */
static struct cell wait_of(const struct step_row *row) {
    const struct column *column = step_columns;
    while (strcmp(column->key, "wait_seconds") != 0)
        column++;
    return column->value(row);
}

/* Of eight steps one waited 40 us, three for less than the clocks tell, and four lost their counterparts. */
static void an_average_of_waits_counts_what_is_below_the_clocks_error_as_none(void **state) {
    (void)state;
    struct step_row row = {.count = 8, .sum = {.wait_ns = 40 * US}, .wait_steps = 1, .unresolved_wait_steps = 3};
    assert_true(wait_of(&row).kind == CELL_REAL && wait_of(&row).real > 9.9e-6 && wait_of(&row).real < 10.1e-6);
    row = (struct step_row){.count = 8, .unresolved_wait_steps = 3};
    assert_true(wait_of(&row).kind == CELL_UNKNOWN);
}

static void play_waits(struct hand_job *job, uint32_t lost) {
    for (uint32_t k = 0; k < STEPS; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        dump_builder_p2p(job->builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 7, k, 512, t + 15 * US, t + 18 * US);
        dump_builder_p2p(job->builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 7, k, 512, t + 10 * US, t + 30 * US);
        reduce(job, 0, 2 * k, 4096, t + 40 * US, t + 70 * US);
        reduce(job, 1, 2 * k, 4096, t + 50 * US, t + 70 * US);
        reduce(job, 0, 2 * k + 1, 8, t + 90 * US, t + 100 * US);
        if (k < lost)
            reduce(job, 1, 2 * k + 1, 8, t + 90 * US, t + 100 * US);
    }
}

static void waits_are_told_by_step(void **state) {
    (void)state;
    for (unsigned workers = 1; workers <= 4; workers *= 4) {
        struct hand_job job;
        struct steps steps;
        hand_job_make(&job, 2, (struct dump_plan){0});
        play_waits(&job, STEPS - 4);
        hand_job_open(&job, 2);
        struct step_marker marker = {.anchor = "Send,Recv"};
        assert_true(steps_find(&steps, &job.clock, &marker));
        assert_true(steps.ranks[0].steps[0].wait_ns == STEP_UNKNOWN);
        assert_true(step_waits_fill(&steps, &job.clock, &job.directory, NULL, NULL, workers));
        for (size_t r = 0; r < 2; r++) {
            assert_int_equal(steps.ranks[r].count, STEPS - 1);
            for (size_t i = 0; i < STEPS - 1; i++) {
                bool known = i < STEPS - 4 || r == 1; /* what rank 1 has on record has its counterparts */
                assert_int_equal(steps.ranks[r].steps[i].wait_ns, !known ? STEP_UNKNOWN : r == 0 ? 10 * US : 5 * US);
                assert_false(steps.ranks[r].steps[i].waits_unresolved);
            }
        }
        struct filter messages = {0};
        assert_int_equal(filter_set_op(&messages, "send,recv"), 0);
        assert_true(step_waits_fill(&steps, &job.clock, &job.directory, &messages, NULL, workers));
        for (size_t i = 0; i < STEPS - 1; i++) {
            assert_int_equal(steps.ranks[0].steps[i].wait_ns, 0);
            assert_int_equal(steps.ranks[1].steps[i].wait_ns, 5 * US);
        }
        filter_free(&messages);
        steps_free(&steps);
        hand_job_free(&job);
    }
}

/* Rank 0 waits 10 us in each step, and 30 in every fourth; the clocks are good to 20. */
static void waits_below_the_clocks_error_are_unknown_in_their_steps(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        struct clock_anchor *anchor = dump_builder_contents(job.builders[r], SECTION_ANCHORS, 0);
        anchor->width_ticks = 20 * US; /* each reading to 10 us */
        for (uint32_t k = 0; k < STEPS; k++) {
            uint64_t t = 1000 * US + (uint64_t)k * STEP;
            reduce(&job, r, 2 * k, 4096, t, t + 1 * US);
            reduce(&job, r, 2 * k + 1, 8, t + 20 * US + (r == 0 ? 0 : k % 4 ? 10 * US : 30 * US), t + 60 * US);
        }
    }
    hand_job_open(&job, 2);
    assert_true(steps_find(&steps, &job.clock, &(struct step_marker){.operations = true}));
    assert_true(step_waits_fill(&steps, &job.clock, &job.directory, NULL, NULL, 2));
    unsigned unknown = 0;
    for (size_t i = 0; i < steps.ranks[0].count; i++) {
        int64_t wait = steps.ranks[0].steps[i].wait_ns;
        assert_true(wait == STEP_UNKNOWN || wait == 30 * US);
        unknown += wait == STEP_UNKNOWN;
        assert_int_equal(steps.ranks[0].steps[i].waits_unresolved, wait == STEP_UNKNOWN);
        assert_int_equal(steps.ranks[1].steps[i].wait_ns, 0);
    }
    assert_in_range(unknown, 3 * steps.ranks[0].count / 4 - 1, 3 * steps.ranks[0].count / 4 + 1);
    assert_true(steps.ranks[0].count > 8);
    steps_free(&steps);
    hand_job_free(&job);
}

/* Steps go from one gradient reduction's begin to the next: rank 0 waits for rank 1 over the border of two of them. */
static void a_wait_over_a_border_counts_on_both_sides(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    hand_job_make(&job, 2, (struct dump_plan){.lanes = 3});
    for (uint32_t k = 0; k < 3; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        for (unsigned r = 0; r < 2; r++)
            reduce(&job, r, k, 4096, t, t + 10 * US);
    }
    uint64_t at = 1000 * US + STEP;
    dump_builder_p2p(job.builders[0], 1, BUILDER_RECV, 0, FLAG_RECV, 1, 7, 0, 512, at - 30 * US, at + 25 * US);
    dump_builder_p2p(job.builders[1], 1, BUILDER_SEND, 0, FLAG_SEND, 0, 7, 0, 512, at + 20 * US, at + 21 * US);
    /* another thread waits meanwhile, and 5 us longer */
    dump_builder_p2p(job.builders[0], 2, BUILDER_RECV, 0, FLAG_RECV, 1, 8, 0, 512, at - 10 * US, at + 26 * US);
    dump_builder_p2p(job.builders[1], 2, BUILDER_SEND, 0, FLAG_SEND, 0, 8, 0, 512, at + 25 * US, at + 26 * US);
    hand_job_open(&job, 2);
    assert_true(steps_find(&steps, &job.clock, &(struct step_marker){.anchor = "allreduce"}));
    assert_true(step_waits_fill(&steps, &job.clock, &job.directory, NULL, NULL, 1));
    assert_int_equal(steps.ranks[0].count, 2);
    assert_int_equal(steps.ranks[0].steps[0].wait_ns, 30 * US);
    assert_int_equal(steps.ranks[0].steps[1].wait_ns, 25 * US);
    assert_int_equal(steps.ranks[1].steps[0].wait_ns, 0);
    steps_free(&steps);
    hand_job_free(&job);
}

static bool has(const struct findings *findings, const char *code) {
    for (size_t i = 0; i < findings->count; i++)
        if (strcmp(findings->items[i].code, code) == 0)
            return true;
    return false;
}

static const uint32_t no_stages[HAND_RANKS_MAX];

/* Of a step of 100 us, 60 are communication and 20 of these receiving; rank 1 comes 30 us later to its first. */
static void what_is_long_in_the_steps_is_said_beyond_the_limits(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    struct advice_limits limits = advice_standard();
    struct findings findings = {0}, none = {0};
    hand_job_make(&job, 2, (struct dump_plan){0});
    play(&job, 0, 0);
    for (uint32_t k = 0; k < STEPS; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 7, k, 512, t + 40 * US, t + 45 * US);
        reduce(&job, 1, 2 * k, 4096, t + 50 * US, t + 70 * US);
        reduce(&job, 1, 2 * k + 1, 8, t + 90 * US, t + 100 * US);
    }
    hand_job_open(&job, 2);
    assert_true(steps_find(&steps, &job.clock, &found));
    struct job selected = {.dumps = job.dumps, .count = 2};
    advice_add(&findings, &steps, &selected, no_stages, &limits);
    assert_true(has(&findings, "step_interval"));
    assert_true(has(&findings, "step_communication"));
    assert_true(has(&findings, "step_receive"));
    assert_true(advice_parse("interval=400,communication=61,receive=25,collective=99.5", &limits));
    advice_add(&none, &steps, &selected, no_stages, &limits);
    assert_int_equal(none.count, 0);
    assert_false(advice_parse("interval", &limits));
    assert_false(advice_parse("weather=3", &limits));
    assert_false(advice_parse("receive=-3", &limits));
    findings_free(&findings);
    findings_free(&none);
    steps_free(&steps);
    hand_job_free(&job);
}

/* Of a step of 100 us, ranks 0 and 2 spend 50 in collectives, rank 1 spends 70, rank 3 none: the ranks' mean is 42.5,
 * that of stage 1 (ranks 0 and 2) is 50, that of stage 2 is 35; likewise 60 and 50, 10 and 20. */
static void collectives_count_by_stage_where_there_are_stages(void **state) {
    (void)state;
    static const uint64_t busy[] = {50, 70, 50, 0}, uneven[] = {60, 10, 50, 20};
    static const uint32_t stages[] = {1, 2, 1, 2};
    const struct {
        const uint64_t *busy;
        const uint32_t *stages;
        const char *says;
    } cases[] = {{busy, no_stages, "rank 1 has the most exposed collectives: 70 %"},
                 {busy, stages, NULL},
                 {uneven, stages, "stage 1 has the most exposed collectives: 55 %"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct step made[4][8];
        struct rank_steps ranks[4];
        struct dump_header headers[4];
        struct dump dumps[4], *list[4];
        for (size_t r = 0; r < 4; r++) {
            headers[r].rank = (int32_t)r;
            dumps[r] = (struct dump){.header = &headers[r]};
            list[r] = &dumps[r];
            ranks[r] = (struct rank_steps){.dump = r, .steps = made[r], .count = 8};
            for (size_t i = 0; i < 8; i++)
                made[r][i] = (struct step){.end_ns = STEP,
                                           .communication_alone_ns = (int64_t)cases[c].busy[r] * US,
                                           .collective_alone_ns = (int64_t)cases[c].busy[r] * US};
        }
        struct steps steps = {.ranks = ranks, .rank_count = 4, .count = 8};
        struct job job = {.dumps = list, .count = 4};
        struct advice_limits limits = advice_standard();
        struct findings findings = {0};
        advice_add(&findings, &steps, &job, cases[c].stages, &limits);
        assert_int_equal(has(&findings, "step_collective"), cases[c].says != NULL);
        if (cases[c].says)
            assert_non_null(strstr(findings.items[findings.count - 1].text, cases[c].says));
        findings_free(&findings);
    }
}

/* Of a step of 100 us rank 0 is in a send for 50, rank 1 in the receive for 5. Who sends has no collectives. */
static void sends_are_not_called_collectives(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    struct advice_limits limits = advice_standard();
    struct findings findings = {0};
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (uint32_t k = 0; k < STEPS; k++) {
        uint64_t t = 1000 * US + (uint64_t)k * STEP;
        dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 7, k, 512, t + 10 * US, t + 60 * US);
        dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 7, k, 512, t + 55 * US, t + 60 * US);
    }
    hand_job_open(&job, 2);
    assert_true(steps_find(&steps, &job.clock, &found));
    struct job selected = {.dumps = job.dumps, .count = 2};
    advice_add(&findings, &steps, &selected, no_stages, &limits);
    assert_true(has(&findings, "step_collective"));
    assert_string_equal(findings.items[findings.count - 1].text,
                        "rank 0 has the most exposed communication other than receiving: 50 % of its steps.");
    findings_free(&findings);
    steps_free(&steps);
    hand_job_free(&job);
}

/* The first collective is before all steps, one number is not on record, another communicator's counts for nothing. */
static void collectives_lie_in_steps(void **state) {
    (void)state;
    struct hand_job job;
    struct steps steps;
    uint32_t in[4];
    hand_job_make(&job, 2, (struct dump_plan){0});
    play(&job, 0, 0);
    hand_job_open(&job, 1);
    assert_true(steps_find(&steps, &job.clock, &found));
    const uint64_t comm = steps.ranks[0].steps[0].comm;
    const uint32_t seqs[] = {0, 10, 21, 1000};
    assert_true(steps_of_collectives(in, &job.clock, 0, comm, seqs, 4));
    assert_int_equal(in[0], NO_STEP);
    assert_in_range(in[1], 3, 5);
    assert_in_range(in[2] - in[1], 5, 6);
    assert_int_equal(in[3], NO_STEP);
    assert_true(steps_of_collectives(in, &job.clock, 0, comm + 1, seqs, 4));
    assert_int_equal(in[1], NO_STEP);
    steps_free(&steps);
    hand_job_free(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_divided_as_it_should_be),
        cmocka_unit_test(making_communicators_takes_part_of_a_step),
        cmocka_unit_test(polls_in_a_step_are_communication),
        cmocka_unit_test(on_a_gpu_the_first_operation_was_enqueued_before),
        cmocka_unit_test(on_a_gpu_what_streams_waited_for_is_alone),
        cmocka_unit_test(without_waits_on_record_nothing_on_a_gpu_is_known_to_be_alone),
        cmocka_unit_test(idle_is_known_where_work_is_on_record),
        cmocka_unit_test(a_group_on_a_gpu_is_of_the_step_that_launched_it),
        cmocka_unit_test(a_step_that_begins_with_its_gradients_has_its_data_in_the_interval),
        cmocka_unit_test(a_small_collective_at_the_head_of_a_step_has_its_data_before_it),
        cmocka_unit_test(on_a_gpu_the_head_of_a_step_was_enqueued_before),
        cmocka_unit_test(an_imported_trace_begins_anywhere),
        cmocka_unit_test(a_receive_may_last_longer_than_the_steps),
        cmocka_unit_test(steps_have_one_number_on_all_ranks),
        cmocka_unit_test(a_marker_overrides_what_would_be_found),
        cmocka_unit_test(without_records_there_are_no_steps),
        cmocka_unit_test(waits_are_told_by_step),
        cmocka_unit_test(waits_below_the_clocks_error_are_unknown_in_their_steps),
        cmocka_unit_test(an_average_of_waits_counts_what_is_below_the_clocks_error_as_none),
        cmocka_unit_test(a_wait_over_a_border_counts_on_both_sides),
        cmocka_unit_test(sends_are_not_called_collectives),
        cmocka_unit_test(collectives_lie_in_steps),
        cmocka_unit_test(collectives_count_by_stage_where_there_are_stages),
        cmocka_unit_test(what_is_long_in_the_steps_is_said_beyond_the_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
