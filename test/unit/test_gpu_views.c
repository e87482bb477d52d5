/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes with several GPUs: each GPU is seen on its own, and what belongs to none stays with the process.
 * Lives here: dumps by hand with integer answers. Must not live here: whole jobs (test/e2e/test_nccl_gpus.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/align/align.h"
#include "analyzer/findings/words.h"
#include "analyzer/job/crowding.h"
#include "analyzer/job/job.h"
#include "analyzer/load/gpu_view.h"
#include "analyzer/match/match.h"
#include "analyzer/waits/waits.h"
#include "test/unit/job_builder.h"

enum { GPUS = 3, COMM_INIT = 2200, ROUNDS = 4 };
#define UID UINT64_C(0x6770757300000001)

static const char *const buses[GPUS] = {"0000:41:00.0", "0000:42:00.0", "0000:43:00.0"};

/* A process whose host has lane 0 and whose GPUs share lane 1. Device i has the number GPUS - 1 - i, as where the last
 * one was used first; communicator 1 + g is its GPU g's, on device GPUS - 1 - g. */
static void make(struct hand_job *job, unsigned ranks) {
    hand_job_make(job, ranks, (struct dump_plan){.lanes = 2, .devices = GPUS});
    for (unsigned r = 0; r < ranks; r++) {
        struct dump_builder *builder = job->builders[r];
        struct dump_header *header = dump_builder_header(builder);
        header->gpu_timing = GPU_TIMING_EVENTS;
        header->mpi_family = 0;
        header->pid = 4711 + (int)r;
        dump_builder_lane(builder, 1)->device = 1;
        dump_builder_call(builder, COMM_INIT, CLASS_COMMUNICATOR, FLOW_NONE, BUSBW_NONE, 0, "ncclCommInitRank");
        struct device_state *devices = dump_builder_contents(builder, SECTION_DEVICES, 0);
        for (unsigned i = 0; i < GPUS; i++) {
            dump_builder_device(builder, 0, 0);
            devices[i].ordinal = GPUS - 1 - i;
            strcpy(devices[i].bus, buses[GPUS - 1 - i]);
        }
        for (unsigned g = 0; g < GPUS; g++) {
            uint32_t comm =
                dump_builder_communicator(builder, UID, "", (int32_t)(r * GPUS + g), &(struct member_run){0}, 0);
            dump_builder_definition(builder, comm)->size = ranks * GPUS;
        }
    }
}

/* AllReduce number `seq` of a process's GPU: enqueued, and there from `enter` to `leave`. */
static void reduce(struct hand_job *job, unsigned rank, unsigned gpu, uint32_t seq, uint64_t enter, uint64_t leave) {
    struct record record = {.kind = RECORD_POST,
                            .call = BUILDER_NCCL_ALL_REDUCE,
                            .flags = FLAG_COLLECTIVE,
                            .comm = 1 + gpu,
                            .peer = PEER_NONE,
                            .seq = seq,
                            .op = 1 + seq * GPUS + gpu,
                            .tag = TAG_NONE,
                            .bytes = 4096,
                            .t0 = enter - 50,
                            .t1 = enter - 49};
    dump_builder_record(job->builders[rank], 0, &record);
    record.kind = RECORD_GPU;
    record.tag = (int32_t)(GPUS - 1 - gpu);
    record.t0 = enter;
    record.t1 = leave;
    dump_builder_record(job->builders[rank], 1, &record);
}

static uint32_t shown_in(const struct dump *dump) {
    uint32_t count = 0;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        struct record_cursor cursor;
        assert_true(record_cursor_begin(&cursor, dump, lane));
        for (const struct record *record; (record = record_cursor_next(&cursor)) != NULL;)
            count += dump_shows(dump, record);
        record_cursor_end(&cursor);
    }
    return count;
}

/* The memory that a copied dump was read into is the whole dump's, however often its views are taken anew. */
static void views_of_a_dump_that_is_written_to_are_refreshed(void **state) {
    (void)state;
    struct hand_job job;
    struct gpu_views views;
    make(&job, 1);
    for (unsigned g = 0; g < GPUS; g++)
        reduce(&job, 0, g, 0, 1000, 1100);
    char path[] = "/tmp/commtap-views-XXXXXX";
    close(mkstemp(path));
    assert_int_equal(dump_builder_write(job.builders[0], path, 0), 0);
    struct dump *whole = dump_open_copied(path);
    assert_true(gpu_views_make(&views, whole));
    assert_int_equal(views.count, GPUS);
    for (unsigned i = 0; i < 2 * GPUS; i++) {
        dump_refresh(views.dumps[i % GPUS]);
        assert_true(dump_refresh_counters(views.dumps[i % GPUS]));
        assert_int_equal(shown_in(views.dumps[i % GPUS]), 2);
    }
    gpu_views_free(&views);
    dump_close(whole);
    unlink(path);
    hand_job_free(&job);
}

static void each_gpu_has_its_communicators_and_records(void **state) {
    (void)state;
    struct hand_job job;
    struct gpu_views views;
    make(&job, 1);
    for (unsigned g = 0; g < GPUS; g++)
        for (uint32_t seq = 0; seq <= g; seq++) /* one of the first GPU's, three of the last one's */
            reduce(&job, 0, g, seq, 1000 * (seq + 1), 1000 * (seq + 1) + 100);
    dump_builder_plain(job.builders[0], 0, BUILDER_FILE_WRITE_ALL, 9000, 9100);
    hand_job_open(&job, 1);
    assert_true(gpu_views_make(&views, job.dumps[0]));
    assert_int_equal(views.count, GPUS);
    for (unsigned g = 0; g < GPUS; g++) {
        const struct dump *view = views.dumps[g];
        assert_int_equal(dump_gpu_number(view), g);
        assert_string_equal(dump_gpu(view)->bus, buses[g]);
        for (unsigned c = 0; c < GPUS; c++)
            assert_int_equal(dump_communicator(view, 1 + c) != NULL, c == g);
        assert_int_equal(dump_communicator(view, 0) != NULL, g == 0); /* it is on no GPU */
        assert_int_equal(shown_in(view), 2 * (g + 1) + (g == 0));
        assert_int_equal(dump_stands_for_process(view), g == 0);
    }
    assert_true(dump_stands_for_process(job.dumps[0]));
    assert_int_equal(dump_gpu_number(job.dumps[0]), -1);
    gpu_views_free(&views);
    hand_job_free(&job);
}

static void what_mpi_does_is_the_processs_own(void **state) {
    (void)state;
    struct hand_job job;
    struct gpu_views views;
    make(&job, 1);
    dump_builder_header(job.builders[0])->mpi_family = 1;
    for (unsigned g = 0; g < GPUS; g++)
        reduce(&job, 0, g, 0, 1000, 1100);
    dump_builder_collective(job.builders[0], 0, BUILDER_BARRIER, 0, 0, 0, 2000, 2100);
    hand_job_open(&job, 1);
    assert_true(gpu_views_make(&views, job.dumps[0]));
    assert_int_equal(views.count, GPUS + 1);
    assert_null(dump_gpu(views.dumps[0]));
    assert_true(dump_stands_for_process(views.dumps[0]));
    assert_non_null(dump_communicator(views.dumps[0], 0));
    assert_int_equal(shown_in(views.dumps[0]), 1);
    for (unsigned g = 0; g < GPUS; g++) {
        assert_int_equal(shown_in(views.dumps[1 + g]), 2);
        assert_null(dump_communicator(views.dumps[1 + g], 0));
        assert_false(dump_stands_for_process(views.dumps[1 + g]));
    }
    gpu_views_free(&views);
    hand_job_free(&job);
}

static void a_process_stays_whole(void (*change)(struct hand_job *job), bool second_gpu) {
    struct hand_job job;
    struct gpu_views views;
    make(&job, 1);
    reduce(&job, 0, 0, 0, 1000, 1100);
    if (second_gpu)
        reduce(&job, 0, 1, 0, 1000, 1100);
    if (change)
        change(&job);
    hand_job_open(&job, 1);
    assert_true(gpu_views_make(&views, job.dumps[0]));
    assert_int_equal(views.count, change || !second_gpu ? 0 : 2);
    gpu_views_free(&views);
    hand_job_free(&job);
}

static void no_process(struct hand_job *job) {
    dump_builder_header(job->builders[0])->pid = 0;
}

static void host_times(struct hand_job *job) {
    dump_builder_header(job->builders[0])->gpu_timing = GPU_TIMING_HOST;
}

static void damaged_devices(struct hand_job *job) {
    struct record *ring = dump_builder_contents(job->builders[0], SECTION_RING, 1);
    ring[0].tag = GPUS;
    ring[1].tag = -5;
}

static void one_gpu_imports_and_host_times_stay_whole(void **state) {
    (void)state;
    a_process_stays_whole(NULL, true);
    a_process_stays_whole(NULL, false);
    a_process_stays_whole(no_process, true);
    a_process_stays_whole(host_times, true);
    a_process_stays_whole(damaged_devices, true);
}

/* ---- the stages -------------------------------------------------------------------------------------------------- */

struct seen {
    struct waits waits;
    uint64_t records[8];
    bool gap;
};

static void see_instance(void *state, const struct match_instance *instance) {
    waits_add(&((struct seen *)state)->waits, instance);
}

static void see_record(void *state, const struct match_record *item) {
    struct seen *seen = state;
    seen->records[item->dump]++;
    seen->gap |= item->gap;
}

/* Two processes of three GPUs, one of which comes 400 later each time: the other five wait for it. */
static void each_gpu_waits_for_the_late_one_alone(void **state) {
    (void)state;
    enum { LATE = 4, LATER = 400, ALL = 2 * GPUS }; /* the second process's GPU 1 */
    struct hand_job job;
    struct gpu_views views[2];
    struct dump *dumps[ALL];
    struct common_clock clock;
    struct match_directory directory;
    make(&job, 2);
    for (uint32_t seq = 0; seq < ROUNDS; seq++)
        for (unsigned m = 0; m < ALL; m++)
            reduce(&job, m / GPUS, m % GPUS, seq, 1000 * (seq + 1) + (m == LATE ? LATER : 0), 1000 * (seq + 1) + 500);
    hand_job_open(&job, 2);
    for (unsigned p = 0; p < 2; p++) {
        assert_true(gpu_views_make(&views[p], job.dumps[p]));
        memcpy(&dumps[p * GPUS], views[p].dumps, GPUS * sizeof *dumps);
    }
    assert_true(common_clock_build(&clock, dumps, ALL));
    assert_true(match_directory_build(&directory, dumps, ALL));
    struct seen seen = {.gap = false};
    const struct match_sink sink = {.instance = see_instance, .record = see_record};
    struct match_totals totals;
    void *states[] = {&seen};
    assert_true(waits_init(&seen.waits, &clock, &directory));
    assert_true(match_run(&clock, &directory, &sink, states, 1, &totals));
    waits_finish(&seen.waits);
    assert_int_equal(totals.instances, ROUNDS);
    assert_int_equal(totals.matched, ROUNDS * ALL);
    assert_int_equal(totals.unmatchable, 0);
    assert_false(seen.gap); /* records of the other GPUs between two of this one's are not missing */
    for (unsigned m = 0; m < ALL; m++) {
        assert_int_equal(seen.records[m], 2 * ROUNDS);
        assert_int_equal(seen.waits.ranks[m].wait_ns, m == LATE ? 0 : ROUNDS * LATER);
        assert_int_equal(seen.waits.ranks[m].waited_for_ns, m == LATE ? ROUNDS * (ALL - 1) * LATER : 0);
    }
    waits_free(&seen.waits);
    match_directory_free(&directory);
    common_clock_free(&clock);
    for (unsigned p = 0; p < 2; p++)
        gpu_views_free(&views[p]);
    hand_job_free(&job);
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static void split(struct hand_job *hand, struct job *job, bool *duplicate) {
    static struct dump_set set;
    set = (struct dump_set){
        .directory = (char *)"hand", .dumps = hand->dumps, .count = hand->ranks, .duplicate = duplicate};
    assert_int_equal(job_select(job, &set, NULL, NULL), 0);
    assert_int_equal(job->count, hand->ranks);
    assert_true(job_split(job));
}

/* The first process has one GPU, the second one three. */
static void only_processes_with_several_gpus_are_split(void **state) {
    (void)state;
    struct hand_job hand;
    struct job job;
    bool duplicate[2] = {false};
    char text[160];
    make(&hand, 2);
    reduce(&hand, 0, 0, 0, 1000, 1100);
    for (unsigned g = 0; g < GPUS; g++)
        reduce(&hand, 1, g, 0, 1000, 1100);
    hand_job_open(&hand, 2);
    split(&hand, &job, duplicate);
    assert_int_equal(job.process_count, 2);
    assert_int_equal(job.count, 1 + GPUS);
    assert_int_equal(job_gpus(&job), GPUS);
    assert_ptr_equal(job.dumps[0], hand.dumps[0]);
    for (size_t d = 0; d < job.count; d++) {
        assert_int_equal(job.process_of[d], d > 0);
        assert_ptr_equal(job.selected.dumps[d], hand.dumps[d > 0]); /* sums are the whole process's, once */
        assert_int_equal(job.selected.duplicate[d], d > 1);
    }
    struct common_clock clock = {.dumps = job.dumps, .dump_count = job.count};
    say_dumps(text, sizeof text, &clock, (size_t[]){0}, 1);
    assert_string_equal(text, "rank 0");
    say_dumps(text, sizeof text, &clock, (size_t[]){2}, 1);
    assert_string_equal(text, "rank 1 GPU 1 (0000:42:00.0)");
    say_dumps(text, sizeof text, &clock, (size_t[]){0, 1, 2, 3}, 4);
    assert_string_equal(text, "rank 0, rank 1 GPUs 0-2");
    say_dumps(text, sizeof text, &clock, (size_t[]){1, 3}, 2);
    assert_string_equal(text, "rank 1 GPUs 0, 2");
    job_free(&job);
    hand_job_free(&hand);
}

/* Four GPUs of two processes want no more than two processors. */
static void gpus_do_not_crowd_processors(void **state) {
    (void)state;
    struct hand_job hand;
    struct job job;
    struct crowding crowding;
    bool duplicate[2] = {false};
    make(&hand, 2);
    for (unsigned r = 0; r < 2; r++) {
        dump_builder_header(hand.builders[r])->cpus[0] = 3;
        for (unsigned g = 0; g < GPUS; g++)
            reduce(&hand, r, g, 0, 1000, 1100);
    }
    hand_job_open(&hand, 2);
    split(&hand, &job, duplicate);
    assert_int_equal(job.count, 2 * GPUS);
    assert_false(crowding_find(job.dumps, job.count, &crowding));
    job_free(&job);
    hand_job_free(&hand);
}

/* ---- communicators that a process made for the world ------------------------------------------------------------- */

/* A definition of eight members as processes of the world, in a process that turned out to be one of two. */
static struct dump *open_with_world_of_devices(struct hand_job *job, uint32_t created_by) {
    hand_job_make(job, 2, (struct dump_plan){0});
    dump_builder_call(job->builders[0], COMM_INIT, CLASS_COMMUNICATOR, FLOW_NONE, BUSBW_NONE, 0, "ncclCommInitRank");
    uint32_t comm = dump_builder_communicator(job->builders[0], UID, "", 3, &(struct member_run){0, 8, 1}, 1);
    dump_builder_definition(job->builders[0], comm)->created_by = created_by;
    hand_job_open(job, 1);
    return job->dumps[0];
}

static void a_list_of_devices_is_no_list_of_processes(void **state) {
    (void)state;
    struct hand_job job;
    const struct dump *dump = open_with_world_of_devices(&job, COMM_INIT);
    assert_int_equal(dump->problems.count, 0);
    assert_int_equal(dump_communicator(dump, 1)->definition->my_rank, 3);
    assert_null(dump_communicator(dump, 1)->runs);
    hand_job_free(&job);
    dump = open_with_world_of_devices(&job, BUILDER_COMM_DUP); /* of MPI it is damage */
    assert_int_equal(dump->problems.count, 1);
    assert_null(dump_communicator(dump, 1));
    hand_job_free(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gpu_has_its_communicators_and_records),
        cmocka_unit_test(views_of_a_dump_that_is_written_to_are_refreshed),
        cmocka_unit_test(what_mpi_does_is_the_processs_own),
        cmocka_unit_test(one_gpu_imports_and_host_times_stay_whole),
        cmocka_unit_test(each_gpu_waits_for_the_late_one_alone),
        cmocka_unit_test(only_processes_with_several_gpus_are_split),
        cmocka_unit_test(gpus_do_not_crowd_processors),
        cmocka_unit_test(a_list_of_devices_is_no_list_of_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
