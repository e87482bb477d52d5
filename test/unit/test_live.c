/* SPDX-License-Identifier: Apache-2.0
 *
 * What commtap top says of each rank: one made-up job, read twice, changed between the readings as its processes would.
 * Must not live here: real jobs and the terminal (test/e2e/test_top.py), verdicts (test_diagnose.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/findings/live_text.h"
#include "analyzer/live/summary.h"
#include "analyzer/screen/live_table.h"
#include "test/support/dump_builder.h"

enum { RANKS = 4, OTHER_HOST = 3 };
#define SECOND INT64_C(1000000000)

/* Ticks are ns of CLOCK_MONOTONIC; CLOCK_REALTIME is AHEAD of it, on the other host by as much and a day. */
#define AHEAD (1000 * SECOND)
#define DAY   (86400 * SECOND)

static struct {
    struct dump_builder *builders[RANKS];
    struct in_flight *slots[RANKS];
    struct progress *progress[RANKS];
    struct operation_row *rows[RANKS];
    struct dump *dumps[RANKS];
    bool duplicate[RANKS];
    struct dump_set set;
    struct job job;
    enum process_state states[RANKS];
    struct live_sample sample;
    struct live_rows rows_made;
    struct live_summary summary;
    struct dump_stub stub;
    bool staged;          /* the last rank left a stub only */
    int64_t elsewhere_ns; /* CLOCK_REALTIME when copies were taken */
} j;

static const struct dump_plan plan = {.world_size = RANKS, .lanes = 3, .devices = 1};

static int setup(void **state) {
    (void)state;
    memset(&j, 0, sizeof j);
    for (int r = 0; r < RANKS; r++) {
        struct dump_plan own = plan;
        own.rank = r;
        struct dump_builder *builder = j.builders[r] = dump_builder_new(&own);
        dump_builder_standard_calls(builder);
        dump_builder_call(builder, 240, CLASS_TEST, FLOW_NONE, BUSBW_NONE, 0, "MPI_Test");
        int64_t ahead = AHEAD + (r == OTHER_HOST ? DAY : 0);
        dump_builder_anchor(builder, 0, 0, (uint64_t)ahead, 0);
        dump_builder_anchor(builder, (uint64_t)SECOND, (uint64_t)SECOND, (uint64_t)(ahead + SECOND), 0);
        dump_builder_world(builder);
        dump_builder_header(builder)->pid = 100 + r;
        dump_builder_header(builder)->activated_ticks = 1;
        j.slots[r] = dump_builder_in_flight(builder);
        j.slots[r]->last_leave = (uint64_t)SECOND;
        j.progress[r] = dump_builder_progress(builder, 0);
        j.rows[r] = dump_builder_operation(builder, 0);
        *j.rows[r] = (struct operation_row){.version = 2,
                                            .call = BUILDER_RECV,
                                            .source = SOURCE_HOST,
                                            .comm_epoch = ROW_COMM_NONE,
                                            .time_min = UINT64_MAX};
        j.states[r] = PROCESS_RUNS;
    }
    return 0;
}

static void open_job(size_t count) {
    for (size_t r = 0; r < count; r++) {
        size_t bytes;
        const void *data = dump_builder_data(j.builders[r], &bytes);
        j.dumps[r] = dump_open_buffer("made.ct", data, bytes);
        assert_non_null(j.dumps[r]);
        assert_int_equal(j.dumps[r]->problems.count, 0);
    }
    j.set = (struct dump_set){.dumps = j.dumps, .count = count, .duplicate = j.duplicate};
    assert_int_equal(job_select(&j.job, &j.set, NULL, NULL), 0);
    assert_int_equal(j.job.count, count);
}

static int teardown(void **state) {
    (void)state;
    live_rows_free(&j.rows_made);
    live_sample_free(&j.sample);
    job_free(&j.job);
    for (int r = 0; r < RANKS; r++) {
        dump_close(j.dumps[r]);
        dump_builder_free(j.builders[r]);
    }
    return 0;
}

/* What happens between reading how far everybody came and the rest; NULL nothing. */
static void (*meanwhile)(void);

static void look(int64_t now) {
    const struct diagnose_request request = {.states = j.states};
    const struct live_clock clock = {j.dumps[0]->boot_id, now, j.elsewhere_ns ? j.elsewhere_ns : now + AHEAD + DAY};
    struct diagnosis waits;
    struct live_sample sample;
    assert_true(diagnose_waits(&waits, &j.job, &request));
    struct live_head *heads = live_heads_read(&waits.world);
    assert_non_null(heads);
    if (meanwhile)
        meanwhile();
    assert_true(live_sample_take(&sample, &j.job, &clock, &j.sample));
    const struct live_request rows = {
        .job = &j.job, .waits = &waits, .now = &sample, .heads = heads, .stubs = &j.stub, .stub_count = j.staged};
    live_rows_free(&j.rows_made);
    assert_true(live_rows_make(&j.rows_made, &rows));
    live_summary_make(&j.summary, &j.rows_made, &rows);
    free(heads);
    diagnosis_free(&waits);
    live_sample_free(&j.sample);
    j.sample = sample;
}

static const struct live_row *row(size_t rank) {
    assert_true(rank < j.rows_made.count);
    assert_int_equal(j.rows_made.items[rank].rank, (int)rank);
    return &j.rows_made.items[rank];
}

static void enter(int rank, uint32_t call, int64_t when) {
    j.slots[rank]->enter = (uint64_t)when;
    j.slots[rank]->comm = 0;
    j.slots[rank]->peer = PEER_NONE;
    j.slots[rank]->call = call;
}

/* As number j.progress->enqueued of the world. */
static void enter_collective(int rank, int64_t when) {
    enter(rank, BUILDER_ALLREDUCE, when);
    j.slots[rank]->flags = FLAG_COLLECTIVE;
    j.slots[rank]->seq = (uint32_t)j.progress[rank]->enqueued++;
    j.progress[rank]->last_enter = (uint64_t)when;
}

static void leave(int rank, int64_t when) {
    j.slots[rank]->call = 0;
    j.slots[rank]->last_leave = (uint64_t)when;
}

#define assert_close(A, B) assert_true((A) > (B)-1e-6 && (A) < (B) + 1e-6)

/* ---- rates ----------------------------------------------------------------------------------- */

static void rates_are_what_two_readings_differ_by(void **state) {
    (void)state;
    struct operation_row *sends = dump_builder_operation(j.builders[0], 1);
    *sends = (struct operation_row){.version = 2,
                                    .call = BUILDER_ISEND,
                                    .source = SOURCE_HOST,
                                    .comm_epoch = ROW_COMM_NONE,
                                    .count = 7,
                                    .posting_total = 5,
                                    .time_total = 5};
    j.rows[1]->call = 240; /* asks, and waits for nobody */
    j.rows[0]->count = 100;
    j.rows[0]->bytes_total = 5000;
    j.rows[0]->time_total = 7 * SECOND;
    open_job(RANKS);
    look(10 * SECOND);
    assert_true(row(0)->calls_per_s < 0 && row(0)->bytes_per_s < 0 && row(0)->wait_share < 0); /* not known yet */
    j.rows[0]->count += 10;
    j.rows[0]->bytes_total += 3000;
    j.rows[0]->time_total += SECOND / 2;
    sends->count += 4;
    sends->bytes_total += 1000;
    sends->time_total += 2 * SECOND; /* in flight: nobody waited */
    sends->posting_total += SECOND / 4;
    j.rows[1]->time_total += SECOND;
    look(12 * SECOND);
    assert_close(row(0)->calls_per_s, 7);
    assert_close(row(0)->bytes_per_s, 2000);
    assert_close(row(0)->wait_share, 0.25);
    assert_close(row(1)->calls_per_s, 0);
    assert_close(row(1)->wait_share, 0);
    look(13 * SECOND);
    assert_close(row(0)->calls_per_s, 0);
}

static void a_call_that_lasts_counts_as_far_as_it_came(void **state) {
    (void)state;
    enter(0, BUILDER_RECV, 9 * SECOND);
    enter(1, 240, 9 * SECOND); /* asks, and waits for nobody */
    open_job(RANKS);
    look(10 * SECOND);
    look(12 * SECOND);
    assert_close(row(0)->wait_share, 1);
    assert_close(row(1)->wait_share, 0);
    leave(0, 13 * SECOND); /* four seconds, of which three were counted before */
    j.rows[0]->count++;
    j.rows[0]->time_total += 4 * SECOND;
    look(14 * SECOND);
    assert_close(row(0)->wait_share, 0.5);
    assert_close(row(0)->calls_per_s, 0.5);
}

static void of_several_threads_the_one_that_waits_most_counts(void **state) {
    (void)state;
    for (uint32_t lane = 1; lane < 3; lane++) {
        struct operation_row *own = dump_builder_operation(j.builders[0], lane);
        *own = *j.rows[0];
    }
    open_job(RANKS);
    look(10 * SECOND);
    struct operation_row *first = dump_builder_contents(j.builders[0], SECTION_OPERATIONS, 1),
                         *second = dump_builder_contents(j.builders[0], SECTION_OPERATIONS, 2);
    first->time_total += SECOND;
    second->time_total += SECOND / 2;
    look(12 * SECOND);
    assert_close(row(0)->wait_share, 0.5);
    /* the second table goes on where the first is full */
    dump_builder_lane(j.builders[0], 2)->extends = 2;
    look(14 * SECOND);
    first->time_total += SECOND;
    second->time_total += SECOND / 2;
    look(16 * SECOND);
    assert_close(row(0)->wait_share, 0.75);
    dump_builder_lane(j.builders[0], 1)->shared = 1;
    dump_builder_lane(j.builders[0], 1)->threads = 0; /* no thread has come to it */
    look(18 * SECOND);
    assert_close(row(0)->wait_share, 0);
    dump_builder_lane(j.builders[0], 1)->threads = 1;
    look(20 * SECOND);
    assert_true(row(0)->wait_share < 0);
}

static void what_a_gpu_does_counts_once(void **state) {
    (void)state;
    struct operation_row *timed = dump_builder_operation(j.builders[0], 1);
    struct device_state *device = dump_builder_contents(j.builders[0], SECTION_DEVICES, 0);
    dump_builder_device(j.builders[0], 1, 1);
    j.rows[0]->call = BUILDER_NCCL_ALL_REDUCE;
    *timed = *j.rows[0];
    timed->source = SOURCE_GPU_EVENT;
    dump_builder_lane(j.builders[0], 1)->device = 1;
    open_job(RANKS);
    look(10 * SECOND);
    j.rows[0]->count += 2;
    j.rows[0]->bytes_total += 2000;
    timed->count += 6; /* four of them in replays of a graph, which the host does not call */
    timed->bytes_total += 6000;
    timed->time_total += SECOND;
    device->exposed_ns += SECOND / 2;
    look(12 * SECOND);
    assert_close(row(0)->calls_per_s, 1);
    assert_close(row(0)->bytes_per_s, 3000);
    assert_close(row(0)->wait_share, 0.25);
    timed->bytes_total += 1000; /* what ended now, nobody waited for */
    look(14 * SECOND);
    assert_close(row(0)->wait_share, 0);
    look(16 * SECOND); /* nothing ended: it may wait */
    assert_true(row(0)->wait_share < 0);
}

static void a_gpu_whose_streams_never_waited_does_not_tell(void **state) {
    (void)state;
    struct operation_row *timed = dump_builder_operation(j.builders[0], 1);
    dump_builder_device(j.builders[0], 1, 1);
    j.rows[0]->call = BUILDER_NCCL_ALL_REDUCE;
    *timed = *j.rows[0];
    timed->source = SOURCE_GPU_EVENT;
    dump_builder_lane(j.builders[0], 1)->device = 1;
    open_job(RANKS);
    look(10 * SECOND);
    j.rows[0]->bytes_total += 2000;
    timed->bytes_total += 2000;
    look(12 * SECOND);
    assert_true(row(0)->wait_share < 0);
    assert_close(row(1)->wait_share, 0); /* MPI alone */
}

static void a_copy_that_was_not_taken_anew_keeps_its_rates(void **state) {
    (void)state;
    dump_builder_host(j.builders[OTHER_HOST], "away", "another-boot-id", 0);
    open_job(RANKS);
    j.elsewhere_ns = 10 * SECOND + AHEAD + DAY;
    look(10 * SECOND);
    j.rows[OTHER_HOST]->count += 8;
    j.elsewhere_ns += 4 * SECOND;
    look(15 * SECOND);
    assert_close(row(OTHER_HOST)->calls_per_s, 2);
    look(17 * SECOND);
    assert_close(row(OTHER_HOST)->calls_per_s, 2);
    assert_close(row(0)->calls_per_s, 0);
}

static void a_process_is_known_again_at_another_place(void **state) {
    (void)state;
    open_job(RANKS);
    look(10 * SECOND);
    for (int r = 0; r < RANKS; r++)
        j.rows[r]->count += (uint64_t)r + 1;
    for (int r = 0; r < RANKS; r++)
        dump_builder_header(j.builders[r])->rank = RANKS - 1 - r;
    job_free(&j.job);
    for (int r = 0; r < RANKS; r++)
        dump_close(j.dumps[r]);
    struct dump_builder *first = j.builders[0], *last = j.builders[RANKS - 1];
    j.builders[0] = last;
    j.builders[RANKS - 1] = first;
    open_job(RANKS);
    look(11 * SECOND);
    assert_close(row(0)->calls_per_s, RANKS);
    assert_close(row(RANKS - 1)->calls_per_s, 1);
}

/* ---- what a rank does ------------------------------------------------------------------------ */

static void who_makes_no_call_computes(void **state) {
    (void)state;
    leave(0, 6 * SECOND);
    enter(1, 240, 8 * SECOND);
    enter(2, BUILDER_FILE_WRITE_ALL, 7 * SECOND);
    j.states[3] = PROCESS_STOPPED;
    open_job(RANKS);
    look(10 * SECOND);
    char text[64];
    assert_int_equal(row(0)->state, LIVE_COMPUTING);
    assert_int_equal(row(0)->since_ns, 4 * SECOND);
    live_text_doing(text, sizeof text, row(0));
    assert_string_equal(text, "computing");
    assert_int_equal(row(1)->state, LIVE_POLLING);
    live_text_doing(text, sizeof text, row(1));
    assert_string_equal(text, "polling, MPI_Test");
    assert_int_equal(row(2)->state, LIVE_IN_CALL);
    assert_int_equal(row(2)->since_ns, 3 * SECOND);
    assert_string_equal(row(2)->call, "MPI_File_write_all");
    assert_int_equal(row(3)->state, LIVE_STOPPED);
    assert_int_equal(j.summary.alive, RANKS);
}

static void beginning_and_end(void **state) {
    (void)state;
    struct dump_header *first = dump_builder_header(j.builders[0]), *second = dump_builder_header(j.builders[1]);
    first->state = STATE_ACTIVE;
    first->activated_ticks = (uint64_t)(8 * SECOND);
    enter(0, BUILDER_INIT, 8 * SECOND);
    second->state |= STATE_FINALISING;
    second->finalise_ticks = (uint64_t)(9 * SECOND);
    dump_builder_header(j.builders[2])->state |= STATE_FINALISING | STATE_FINALISED;
    dump_builder_header(j.builders[2])->finalise_ticks = (uint64_t)(4 * SECOND);
    dump_builder_header(j.builders[2])->finalised_ticks = (uint64_t)(5 * SECOND);
    j.states[3] = PROCESS_GONE;
    open_job(RANKS);
    look(10 * SECOND);
    assert_int_equal(row(0)->state, LIVE_STARTING);
    assert_int_equal(row(0)->since_ns, 2 * SECOND);
    assert_int_equal(row(1)->state, LIVE_FINALIZING);
    assert_int_equal(row(1)->since_ns, SECOND);
    assert_int_equal(row(2)->state, LIVE_FINISHED);
    assert_int_equal(row(2)->since_ns, 5 * SECOND);
    assert_int_equal(row(3)->state, LIVE_GONE);
    assert_true(row(3)->since_ns < 0 && row(3)->calls_per_s < 0);
    assert_int_equal(j.summary.alive, 2);
    dump_builder_header(j.builders[3])->state |= STATE_EXITED;
    dump_refresh_counters(j.dumps[3]);
    look(11 * SECOND);
    assert_int_equal(row(3)->state, LIVE_EXITED);
    dump_builder_header(j.builders[3])->state |= STATE_ABORTING;
    dump_refresh_counters(j.dumps[3]);
    look(12 * SECOND);
    assert_int_equal(row(3)->state, LIVE_ABORTED);
}

static void what_is_on_another_host_is_never_idle(void **state) {
    (void)state;
    char text[64];
    j.states[2] = PROCESS_ELSEWHERE; /* a copy, taken whenever */
    j.staged = true;
    j.stub = (struct dump_stub){.host = "node7", .rank = 3, .pid = 77};
    open_job(3);
    look(10 * SECOND);
    look(11 * SECOND);
    assert_int_equal(j.rows_made.count, RANKS);
    assert_int_equal(j.rows_made.missing, 0);
    for (size_t rank = 2; rank < 4; rank++) {
        assert_int_equal(row(rank)->state, LIVE_NOT_REACHABLE);
        assert_true(row(rank)->calls_per_s < 0 && row(rank)->since_ns < 0);
    }
    live_text_doing(text, sizeof text, row(3));
    assert_string_equal(text, "on node7, not reachable");
    assert_int_equal(j.summary.reachable, 2);
    j.staged = false;
    look(12 * SECOND);
    assert_int_equal(j.rows_made.count, RANKS);
    assert_int_equal(row(3)->state, LIVE_NO_DUMP);
    assert_int_equal(j.rows_made.missing, 1);
}

static void who_is_waited_for(void **state) {
    (void)state;
    for (int r = 0; r < 3; r++)
        enter_collective(r, (9 - r) * SECOND);
    leave(3, 4 * SECOND);
    open_job(RANKS);
    look(10 * SECOND);
    for (size_t r = 0; r < 3; r++) {
        assert_int_equal(row(r)->state, LIVE_WAITING);
        assert_string_equal(row(r)->call, "MPI_Allreduce");
        assert_string_equal(row(r)->comm_name, "MPI_COMM_WORLD");
        assert_int_equal(row(r)->since_ns, (1 + (int64_t)r) * SECOND);
        assert_int_equal(row(r)->waits_for_count, 1);
        assert_int_equal(row(r)->waits_for[0], 3);
    }
    assert_int_equal(row(3)->waited_by, 3);
    assert_int_equal(row(3)->state, LIVE_COMPUTING);
    assert_ptr_equal(j.summary.awaited, row(3));
    struct live_text words;
    live_text_make(&words, &j.summary, &j.rows_made, &j.job);
    assert_string_equal(words.awaited, "3 wait for rank 3: computing since 6.0 s");
}

/* ---- who is behind --------------------------------------------------------------------------- */

static void how_many_collectives_a_rank_is_behind(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        j.progress[r]->enqueued = 50;
        j.progress[r]->last_enter = (uint64_t)SECOND;
    }
    j.progress[1]->enqueued = 54;
    j.progress[2]->enqueued = 49;
    open_job(RANKS);
    look(10 * SECOND);
    assert_int_equal(row(0)->behind, 4);
    assert_int_equal(row(1)->behind, 0);
    assert_int_equal(row(2)->behind, 5);
    assert_int_equal(row(2)->behind_comm, BUILDER_WORLD_UID);
    assert_string_equal(row(2)->behind_comm_name, "MPI_COMM_WORLD");
    j.states[2] = PROCESS_GONE;
    look(11 * SECOND);
    assert_true(row(2)->behind < 0);
}

static void all_go_on(void) {
    for (int r = 0; r < RANKS; r++)
        j.progress[r]->enqueued += 1000;
}

/* Between the first rank's reading and the last one's a fast job does thousands of collectives. */
static void nobody_is_behind_who_was_only_read_earlier(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++)
        j.progress[r]->enqueued = 50;
    open_job(RANKS);
    meanwhile = all_go_on;
    look(10 * SECOND);
    for (size_t r = 0; r < RANKS; r++)
        assert_int_equal(row(r)->behind, 0);
    meanwhile = NULL;
    /* entered after this rank was read, as far as the clocks tell */
    j.progress[1]->enqueued += 5;
    j.progress[1]->last_enter = (uint64_t)(11 * SECOND) + 1;
    look(11 * SECOND);
    assert_int_equal(row(0)->behind, 0);
    look(12 * SECOND);
    assert_int_equal(row(0)->behind, 5);
}

/* Their clocks are known to a second. */
static void on_another_host_a_rank_is_behind_a_second_later(void **state) {
    (void)state;
    dump_builder_host(j.builders[OTHER_HOST], "away", "another-boot-id", 0);
    j.progress[OTHER_HOST]->enqueued = 3;
    j.progress[OTHER_HOST]->last_enter = (uint64_t)(9 * SECOND + SECOND / 2);
    open_job(RANKS);
    /* its 9.5 s are 9.5 s and a day here */
    look(DAY + 10 * SECOND);
    assert_int_equal(row(0)->behind, 0);
    look(DAY + 11 * SECOND);
    assert_int_equal(row(0)->behind, 3);
}

/* ---- whether it comes on --------------------------------------------------------------------- */

static void a_job_stands_from_a_second_on(void **state) {
    (void)state;
    int32_t moving[RANKS];
    for (int r = 0; r < RANKS; r++)
        leave(r, 10 * SECOND - r);
    open_job(RANKS);
    look(10 * SECOND);
    assert_true(j.summary.interval_ns == 0 && j.summary.standing_ns < 0);
    assert_int_equal(live_moving(&j.sample, moving), RANKS);
    enter(0, BUILDER_RECV, 11 * SECOND);
    enter(1, BUILDER_RECV, 11 * SECOND);
    look(12 * SECOND);
    assert_int_equal(j.summary.moved, 2);
    assert_int_equal(j.summary.interval_ns, 2 * SECOND);
    assert_true(j.summary.standing_ns < 0);
    assert_int_equal(live_moving(&j.sample, moving), 2);
    assert_int_equal(moving[0] + moving[1], 1);
    look(12 * SECOND + LIVE_STANDS_NS / 2);
    assert_int_equal(live_moving(&j.sample, moving), 2);
    assert_int_equal(j.summary.moved, 0);
    look(12 * SECOND + LIVE_STANDS_NS);
    assert_int_equal(live_moving(&j.sample, moving), 0);
    assert_int_equal(j.summary.standing_ns, 2 * SECOND); /* since they entered their calls */
    assert_int_equal(live_last_move_ns(&j.sample), 12 * SECOND);
    assert_true(LIVE_STANDS_NS == SECOND); /* as far apart as the looks of commtap diagnose */
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool is_odd(const void *context, const struct live_table_row *shown) {
    (void)context;
    return shown->row.rank % 2 == 1;
}

static void tables_are_sorted_and_filtered(void **state) {
    (void)state;
    static const uint64_t calls[RANKS] = {4, 12, 0, 8};
    struct live_table table;
    for (int r = 0; r < 3; r++)
        enter_collective(r, 9 * SECOND);
    open_job(RANKS);
    look(10 * SECOND);
    for (int r = 0; r < RANKS; r++)
        j.rows[r]->count += calls[r];
    look(12 * SECOND);
    assert_true(live_table_make(&table, &j.rows_made, table_column(live_columns, "calls_per_s"), false, NULL, NULL));
    assert_int_equal(table.rows[0].row.rank, 1);
    assert_int_equal(table.rows[3].row.rank, 2);
    live_table_free(&table);
    assert_true(live_table_make(&table, &j.rows_made, NULL, true, is_odd, NULL));
    assert_int_equal(table.count, 2);
    assert_int_equal(table.rows[0].row.rank, 3);
    live_table_free(&table);
}

static void the_document_has_lists_and_nulls(void **state) {
    (void)state;
    struct live_table table;
    for (int r = 1; r < 3; r++)
        enter_collective(r, 9 * SECOND);
    open_job(RANKS);
    look(10 * SECOND);
    assert_true(live_table_make(&table, &j.rows_made, NULL, false, NULL, NULL));
    json_t *json = live_to_json(&table, &j.summary, &j.rows_made, &j.job);
    assert_non_null(json);
    json_t *ranks = json_object_get(json, "ranks"), *second = json_array_get(ranks, 1);
    assert_int_equal(json_array_size(ranks), RANKS);
    assert_int_equal(json_array_size(json_object_get(second, "waits_for")), 2);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(second, "waits_for"), 1)), 3);
    assert_true(json_is_null(json_object_get(second, "calls_per_s")));
    assert_true(json_is_null(json_object_get(json, "verdict")));
    assert_true(json_is_null(json_object_get(json, "interval_seconds")));
    assert_string_equal(table.rows[1].waits_for, "0,3");
    json_decref(json);
    live_table_free(&table);
}

/* ---- dumps that grow ------------------------------------------------------------------------- */

static void counters_alone_do_for_a_dump_that_has_no_new_parts(void **state) {
    (void)state;
    open_job(RANKS);
    j.progress[0]->enqueued += 3;
    assert_true(dump_refresh_counters(j.dumps[0]));
    struct progress *more = dump_builder_progress(j.builders[0], 7); /* of a communicator that is not defined yet */
    assert_false(dump_refresh_counters(j.dumps[0]));
    more->version = 0;
    assert_true(dump_refresh_counters(j.dumps[0]));
    struct section *sections = dump_builder_header(j.builders[0])->sections;
    size_t used = 0;
    while (sections[used].kind != SECTION_FREE)
        used++;
    sections[used] = sections[used - 1];
    assert_false(dump_refresh_counters(j.dumps[0]));
    sections[used].kind = SECTION_FREE;
    dump_builder_freed(j.builders[1], 0, 5, 0);
    assert_true(dump_refresh_counters(j.dumps[1]));
    job_free(&j.job);
    for (int r = 0; r < RANKS; r++)
        dump_close(j.dumps[r]);
    open_job(RANKS);
    assert_false(dump_refresh_counters(j.dumps[1])); /* it lives again, and was opened as freed */
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(rates_are_what_two_readings_differ_by),
        TEST(a_call_that_lasts_counts_as_far_as_it_came),
        TEST(of_several_threads_the_one_that_waits_most_counts),
        TEST(what_a_gpu_does_counts_once),
        TEST(a_gpu_whose_streams_never_waited_does_not_tell),
        TEST(a_copy_that_was_not_taken_anew_keeps_its_rates),
        TEST(a_process_is_known_again_at_another_place),
        TEST(who_makes_no_call_computes),
        TEST(beginning_and_end),
        TEST(what_is_on_another_host_is_never_idle),
        TEST(who_is_waited_for),
        TEST(how_many_collectives_a_rank_is_behind),
        TEST(nobody_is_behind_who_was_only_read_earlier),
        TEST(on_another_host_a_rank_is_behind_a_second_later),
        TEST(a_job_stands_from_a_second_on),
        TEST(tables_are_sorted_and_filtered),
        TEST(the_document_has_lists_and_nulls),
        TEST(counters_alone_do_for_a_dump_that_has_no_new_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
