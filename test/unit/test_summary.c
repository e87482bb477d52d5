/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over dumps, and DeepSpeed's figures from them.
 * Lives here: dumps of a few ranks made by hand, with figures worked out by hand.
 * Must not live here: how they are printed (test_render.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/profile/summary.h"
#include "analyzer/profile/summary_deepspeed.h"
#include "test/support/dump_builder.h"

enum { RANKS_MAX = 4 };

/* A job of a few ranks, one tick = 1 ns. */
struct job {
    struct dump_builder *builders[RANKS_MAX];
    struct dump *dumps[RANKS_MAX];
    bool duplicate[RANKS_MAX];
    struct dump_set set;
    int32_t ranks;
};

static void job_begin(struct job *job, int32_t ranks, uint32_t ring_records) {
    memset(job, 0, sizeof *job);
    job->ranks = ranks;
    for (int32_t rank = 0; rank < ranks; rank++) {
        struct dump_builder *builder =
            dump_builder_new(&(struct dump_plan){.rank = rank, .world_size = ranks, .ring_records = ring_records});
        job->builders[rank] = builder;
        dump_builder_standard_calls(builder);
        struct call_name *calls = dump_builder_contents(builder, SECTION_CALLS, 0);
        for (uint32_t i = 0; i < 32; i++) {
            if (calls[i].id == BUILDER_ALLREDUCE)
                strcpy(calls[i].torch, "all_reduce");
            if (calls[i].id == BUILDER_ALLGATHER)
                strcpy(calls[i].torch, "all_gather_into_tensor");
        }
        dump_builder_anchor(builder, 0, 0, 1000000000, 1);
        dump_builder_anchor(builder, 1u << 30, 1u << 30, (1u << 30) + 1000000000u, 1);
        dump_builder_world(builder);
    }
}

static void job_open(struct job *job) {
    for (int32_t rank = 0; rank < job->ranks; rank++) {
        size_t bytes;
        const void *data = dump_builder_data(job->builders[rank], &bytes);
        job->dumps[rank] = dump_open_buffer("made.ct", data, bytes);
        assert_non_null(job->dumps[rank]->header);
    }
    job->set = (struct dump_set){.dumps = job->dumps, .count = (size_t)job->ranks, .duplicate = job->duplicate};
}

static void job_end(struct job *job) {
    for (int32_t rank = 0; rank < job->ranks; rank++) {
        dump_close(job->dumps[rank]);
        dump_builder_free(job->builders[rank]);
    }
}

static struct operation_row *new_row(struct job *job, int32_t rank, uint16_t call, uint32_t comm, uint64_t bytes) {
    struct operation_row *row = dump_builder_operation(job->builders[rank], 0);
    row->call = call;
    row->source = SOURCE_HOST;
    row->comm_epoch = comm;
    row->bytes = bytes;
    return row;
}

/* One blocking collective, in the table and in the ring. */
static void add_call(struct job *job, struct operation_row *row, int32_t rank, uint32_t seq, uint64_t ticks) {
    dump_builder_count(row, row->bytes, ticks);
    dump_builder_collective(job->builders[rank], 0, row->call, row->comm_epoch & 0xffffff, seq, row->bytes, 1000 * seq,
                            1000 * seq + ticks);
}

static void calls_are_summed_over_ranks(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 2, 1024);
    struct operation_row *first = new_row(&job, 0, BUILDER_ALLREDUCE, 0, 1000);
    struct operation_row *second = new_row(&job, 1, BUILDER_ALLREDUCE, 0, 1000);
    for (uint32_t i = 0; i < 100; i++)
        add_call(&job, i < 60 ? first : second, i < 60 ? 0 : 1, i, 100 + i);
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    assert_int_equal(summary.count, 1);
    const struct summary_entry *entry = &summary.entries[0];
    assert_string_equal(entry->op, "MPI_Allreduce");
    assert_int_equal(entry->comm, BUILDER_WORLD_UID);
    assert_string_equal(entry->comm_name, "MPI_COMM_WORLD");
    assert_int_equal(entry->comm_size, 2);
    assert_int_equal(entry->count, 100);
    assert_int_equal(entry->bytes_total, 100000);
    assert_int_equal(entry->time.total_ns, 14950);
    assert_int_equal(entry->time.min_ns, 100);
    assert_int_equal(entry->time.max_ns, 199);
    assert_int_equal(entry->time.percentiles, PERCENTILES_EXACT);
    assert_int_equal(entry->time.p50_ns, 149); /* the 50th of 100, 101, ... */
    assert_int_equal(entry->time.p95_ns, 194);
    assert_int_equal(entry->time.p99_ns, 198);
    /* 1e5 bytes in 14.95 us; a ring of two moves each byte once */
    assert_int_equal((int)(entry->algbw_bytes_per_s / 1e6), 6688);
    assert_int_equal((int)(entry->busbw_bytes_per_s / 1e6), 6688);
    summary_free(&summary);
    job_end(&job);
}

static void without_all_records_percentiles_are_approximate(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 16);
    struct operation_row *row = new_row(&job, 0, BUILDER_ALLREDUCE, 0, 1000);
    for (uint32_t i = 0; i < 100; i++)
        add_call(&job, row, 0, i, i < 90 ? 1000 : 100000);
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    const struct summary_entry *entry = &summary.entries[0];
    assert_int_equal(entry->count, 100);
    assert_int_equal(entry->time.percentiles, PERCENTILES_APPROXIMATE);
    assert_in_range(entry->time.p50_ns, 1000, 1190); /* within a quarter of an octave */
    assert_in_range(entry->time.p95_ns, 84000, 100000);
    summary_free(&summary);
    job_end(&job);
}

static void records_that_do_not_tell_all_calls_are_not_believed(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 1024);
    struct operation_row *row = new_row(&job, 0, BUILDER_ALLREDUCE, 0, 8);
    add_call(&job, row, 0, 0, 10);
    dump_builder_count(row, 8, 5000); /* a call that left no record */
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    assert_int_equal(summary.entries[0].time.percentiles, PERCENTILES_APPROXIMATE);
    assert_int_equal(summary.entries[0].time.max_ns, 5000);
    summary_free(&summary);
    job_end(&job);
}

/* One operation: posted in `posting` ticks, seen complete `ticks` after that began; in the table and in the ring. */
static void add_posted(struct job *job, struct operation_row *row, uint32_t seq, uint64_t posting, uint64_t ticks) {
    dump_builder_count(row, row->bytes, ticks);
    row->posting_total += posting;
    dump_builder_icollective(job->builders[0], 0, row->call, 0, seq, row->bytes, 1000000 * seq, 1000000 * seq + posting,
                             1000000 * seq + ticks);
}

static void operations_cost_what_passes_inside_their_calls(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 1024);
    struct operation_row *posted = new_row(&job, 0, BUILDER_IALLREDUCE, 0, 64);
    for (uint32_t i = 0; i < 100; i++)
        add_posted(&job, posted, i, 100 + i, 500000 + 1000 * i);
    add_call(&job, new_row(&job, 0, BUILDER_BCAST, 0, 8), 0, 0, 100000);
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    assert_string_equal(summary.entries[0].op, "MPI_Bcast"); /* 100 us inside, against 15 us */
    const struct summary_entry *entry = &summary.entries[1];
    assert_int_equal(entry->time.count, 100);
    assert_int_equal(entry->time.total_ns, 100 * 100 + 99 * 50);
    assert_int_equal(entry->time.percentiles, PERCENTILES_EXACT);
    assert_int_equal(entry->time.min_ns, 100);
    assert_int_equal(entry->time.max_ns, 199);
    assert_int_equal(entry->time.p99_ns, 198);
    assert_int_equal(entry->in_flight.count, 100);
    assert_int_equal(entry->in_flight.total_ns, 100 * 500000 + 99 * 50 * 1000);
    assert_int_equal(entry->in_flight.percentiles, PERCENTILES_EXACT);
    assert_int_equal(entry->in_flight.p50_ns, 549000);
    assert_int_equal(summary.entries[0].in_flight.count, 0);
    summary_free(&summary);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_RANK));
    assert_int_equal(summary.entries[0].time.total_ns, 100000 + 100 * 100 + 99 * 50);
    assert_int_equal(summary.entries[0].in_flight.count, 100);
    summary_free(&summary);
    job_end(&job);
}

static void of_overwritten_operations_only_the_sum_inside_is_known(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 16);
    struct operation_row *posted = new_row(&job, 0, BUILDER_IALLREDUCE, 0, 64);
    for (uint32_t i = 0; i < 100; i++)
        add_posted(&job, posted, i, 100, 500000);
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    const struct summary_entry *entry = &summary.entries[0];
    assert_int_equal(entry->time.total_ns, 100 * 100);
    assert_int_equal(entry->time.sums_only, 100);
    assert_int_equal(entry->time.percentiles, PERCENTILES_NONE);
    assert_int_equal(entry->in_flight.percentiles, PERCENTILES_APPROXIMATE);
    assert_in_range(entry->in_flight.p50_ns, 440000, 560000);
    summary_free(&summary);
    job_end(&job);
}

/* Nearly all calls alike, one far shorter: the middle of their bucket lies below their mean. */
static void no_approximate_percentile_contradicts_the_mean(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 16);
    struct operation_row *row = new_row(&job, 0, BUILDER_ALLREDUCE, 0, 8);
    add_call(&job, row, 0, 0, 100);
    for (uint32_t i = 1; i < 1000; i++)
        add_call(&job, row, 0, i, 1270);
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    const struct summary_times *times = &summary.entries[0].time;
    assert_int_equal(times->percentiles, PERCENTILES_APPROXIMATE);
    assert_true(times->p99_ns >= times->total_ns / times->count);
    assert_true(times->p99_ns <= times->max_ns);
    summary_free(&summary);
    job_end(&job);
}

/* One receive of a row without a status: how much the row's receives got is not known. */
static void sizes_of_buffers_have_no_bandwidth(void **state) {
    (void)state;
    for (uint64_t posted = 0; posted < 2; posted++) {
        struct job job;
        struct summary summary;
        job_begin(&job, 1, 1024);
        struct operation_row *row = new_row(&job, 0, BUILDER_RECV, 0, 1 << 20);
        dump_builder_count(row, 1 << 20, 1000);
        dump_builder_count(row, 1 << 20, 1000);
        row->posted_size = posted;
        job_open(&job);
        assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
        assert_int_equal(summary.count, 1);
        assert_int_equal(summary.entries[0].estimated_bytes, posted);
        assert_int_equal(summary.entries[0].algbw_bytes_per_s<0, posted> 0);
        assert_int_equal(summary.entries[0].busbw_bytes_per_s<0, posted> 0);
        summary_free(&summary);
        job_end(&job);
    }
}

/* Four calls of 1000 bytes: of a row, of which two took 100 ns each and two have 300 ns of what others have, too. */
static void shares_of_an_interval_have_no_bandwidth(void **state) {
    (void)state;
    for (uint64_t shares = 0; shares <= 4; shares += 2) {
        struct job job;
        struct summary summary;
        job_begin(&job, 1, 1024);
        struct operation_row *row = new_row(&job, 0, BUILDER_SEND, 0, 1000);
        for (uint64_t i = 0; i < 4; i++) {
            dump_builder_count(row, 1000, i < shares ? 300 : 100);
            row->shares += i < shares;
            row->shares_total += i < shares ? 300 : 0;
        }
        job_open(&job);
        assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
        const struct summary_entry *entry = &summary.entries[0];
        assert_int_equal(entry->shared_times, shares);
        assert_int_equal(entry->time.total_ns - entry->shared_ns, 100 * (4 - shares));
        if (shares == 4)
            assert_true(entry->algbw_bytes_per_s < 0 && entry->busbw_bytes_per_s < 0);
        else
            assert_true(entry->algbw_bytes_per_s == 1e10 && entry->busbw_bytes_per_s == 1e10);
        summary_free(&summary);
        job_end(&job);
    }
}

static void pending_operations_count_without_a_time(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 1024);
    struct pending *pending = dump_builder_pending(job.builders[0]);
    pending->call = BUILDER_IALLREDUCE;
    pending->bytes = 64;
    struct pending *inactive = dump_builder_pending(job.builders[0]);
    inactive->call = BUILDER_IALLREDUCE;
    inactive->persistent = 1;
    pending->posting_ticks = 7;
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    assert_int_equal(summary.count, 1);
    assert_int_equal(summary.entries[0].count, 1);
    assert_int_equal(summary.entries[0].untimed, 1);
    assert_int_equal(summary.entries[0].time.total_ns, 7); /* of posting it */
    assert_int_equal(summary.entries[0].in_flight.count, 0);
    assert_int_equal(summary.entries[0].in_flight.percentiles, PERCENTILES_NONE);
    assert_true(summary.entries[0].algbw_bytes_per_s < 0);
    assert_int_equal(summary.pending, 1);
    summary_free(&summary);
    job_end(&job);
}

static void epochs_and_lanes_are_added_up(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 1024);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        struct operation_row *row = new_row(&job, 0, BUILDER_BCAST, epoch << 24, 16);
        dump_builder_count(row, 16, 10);
    }
    struct operation_row *none = new_row(&job, 0, BUILDER_WAIT, ROW_COMM_NONE, 0);
    dump_builder_count(none, 0, 1);
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    assert_int_equal(summary.count, 2);
    assert_string_equal(summary.entries[0].op, "MPI_Bcast"); /* the longest first */
    assert_int_equal(summary.entries[0].count, 3);
    assert_false(summary.entries[1].has_comm);
    assert_true(summary.entries[1].algbw_bytes_per_s < 0);
    summary_free(&summary);
    job_end(&job);
}

static void epochs_can_be_told_apart(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 1024);
    for (uint32_t epoch = 0; epoch < 3; epoch++)
        for (uint32_t i = 0; i <= epoch; i++)
            dump_builder_count(new_row(&job, 0, BUILDER_BCAST, epoch << 24, 16 + i), 16, 10 * (epoch + 1));
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_OP | SUMMARY_BY_EPOCH));
    assert_int_equal(summary.count, 3);
    for (uint32_t i = 0; i < 3; i++) { /* the longest first */
        assert_int_equal(summary.entries[i].epoch, 2 - i);
        assert_int_equal(summary.entries[i].count, 3 - i);
        assert_int_equal(summary.entries[i].time.total_ns, 10 * (3 - i) * (3 - i));
    }
    summary_free(&summary);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_OP));
    assert_int_equal(summary.count, 1);
    assert_true(summary.entries[0].epoch == EPOCH_SEVERAL);
    summary_free(&summary);
    job_end(&job);
}

static void windows_count_for_their_communicator(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 1024);
    const struct member_run run = {0, 1, 1};
    uint32_t window = dump_builder_communicator(job.builders[0], 99, "a window", 0, &run, 1);
    dump_builder_definition(job.builders[0], window)->kind = COMMUNICATOR_WINDOW;
    dump_builder_definition(job.builders[0], window)->parent_uid = BUILDER_WORLD_UID;
    dump_builder_count(new_row(&job, 0, BUILDER_BARRIER, window, 0), 0, 10);
    dump_builder_count(new_row(&job, 0, BUILDER_BARRIER, 0, 0), 0, 10);
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    assert_int_equal(summary.count, 1);
    assert_int_equal(summary.entries[0].comm, BUILDER_WORLD_UID);
    assert_string_equal(summary.entries[0].comm_name, "MPI_COMM_WORLD");
    assert_int_equal(summary.entries[0].count, 2);
    summary_free(&summary);
    job_end(&job);
}

static void any_subset_of_keys_groups(void **state) {
    (void)state;
    static const struct {
        unsigned by;
        size_t entries;
    } cases[] = {{SUMMARY_BY_OP, 2},
                 {SUMMARY_BY_BYTES, 3},
                 {SUMMARY_BY_RANK, 2},
                 {SUMMARY_BY_COMM, 1},
                 {SUMMARY_BY_OP | SUMMARY_BY_RANK, 4},
                 {SUMMARY_BY_OP | SUMMARY_BY_BYTES, 4},
                 {SUMMARY_BY_DEFAULT | SUMMARY_BY_RANK, 8}};
    struct job job;
    job_begin(&job, 2, 1024);
    for (int32_t rank = 0; rank < 2; rank++) {
        dump_builder_count(new_row(&job, rank, BUILDER_ALLREDUCE, 0, 8), 8, 10);
        dump_builder_count(new_row(&job, rank, BUILDER_ALLREDUCE, 0, 16), 16, 10);
        dump_builder_count(new_row(&job, rank, BUILDER_BCAST, 0, 8), 8, 10);
        dump_builder_count(new_row(&job, rank, BUILDER_BCAST, 0, 24), 24, 10);
    }
    job_open(&job);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct summary summary;
        uint64_t count = 0;
        assert_true(summary_build(&summary, &job.set, NULL, cases[i].by));
        assert_int_equal(summary.count, cases[i].entries);
        for (size_t j = 0; j < summary.count; j++)
            count += summary.entries[j].count;
        assert_int_equal(count, 8);
        summary_free(&summary);
    }
    job_end(&job);
}

/* Of four calls one was by itself (50 ticks), three only gathered in a group (4 ticks each). */
static void calls_in_groups_have_the_time_inside_them(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 1024);
    struct operation_row *row = new_row(&job, 0, BUILDER_NCCL_ALL_REDUCE, 0, 8);
    dump_builder_count(row, 8, 50);
    row->count += 3;
    row->untimed = 3;
    row->bytes_total += 24;
    row->posting_total = 50 + 12;
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    const struct summary_entry *entry = &summary.entries[0];
    assert_int_equal(entry->source, SOURCE_HOST);
    assert_int_equal(entry->count, 4);
    assert_int_equal(entry->untimed, 0);
    assert_int_equal(entry->time.count, 4);
    assert_int_equal(entry->time.total_ns, 62);
    assert_true(entry->busbw_bytes_per_s < 0);
    summary_free(&summary);
    job_end(&job);
}

static void filters_leave_out(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 2, 1024);
    for (int32_t rank = 0; rank < 2; rank++) {
        dump_builder_count(new_row(&job, rank, BUILDER_ALLREDUCE, 0, 8), 8, 10);
        dump_builder_count(new_row(&job, rank, BUILDER_WAIT, ROW_COMM_NONE, 0), 0, 10);
    }
    job_open(&job);
    struct filter filter = {0};
    filter_set_op(&filter, "all*");
    filter_set_ranks(&filter, "1");
    assert_true(summary_build(&summary, &job.set, &filter, SUMMARY_BY_DEFAULT));
    assert_int_equal(summary.count, 1);
    assert_int_equal(summary.entries[0].count, 1);
    summary_free(&summary);
    filter_free(&filter);
    filter_set_comm(&filter, "MPI_COMM_*");
    assert_true(summary_build(&summary, &job.set, &filter, SUMMARY_BY_DEFAULT));
    assert_int_equal(summary.count, 1);
    assert_int_equal(summary.entries[0].count, 2);
    summary_free(&summary);
    filter_free(&filter);
    job_end(&job);
}

static void rows_torn_and_lost_are_told(void **state) {
    (void)state;
    struct job job;
    struct summary summary;
    job_begin(&job, 1, 1024);
    struct operation_row *row = new_row(&job, 0, BUILDER_BCAST, 0, 8);
    dump_builder_count(row, 8, 10);
    row->version = 3;
    dump_builder_lane(job.builders[0], 0)->operations_lost = 7;
    job_open(&job);
    assert_true(summary_build(&summary, &job.set, NULL, SUMMARY_BY_DEFAULT));
    assert_int_equal(summary.entries[0].count, 1);
    assert_int_equal(summary.rows_torn, 1);
    assert_int_equal(summary.calls_lost, 7);
    summary_free(&summary);
    job_end(&job);
}

/* ---- DeepSpeed's formulas: 64 MiB, 2 ms, 8 ranks ----------------------------------------------------------------- */

static void bandwidths_are_deepspeeds(void **state) {
    (void)state;
    static const struct {
        const char *op;
        int tput, busbw; /* hundredths of Gbit/s */
    } cases[] = {{"all_to_all_single", 26844, 23488},
                 {"all_gather", 214748, 187905},
                 {"reduce_scatter_tensor", 214748, 187905},
                 {"all_reduce", 53687, 46976},
                 {"broadcast", 26844, 26844},
                 {"barrier", 26844, 26844},
                 {"no such op", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double tput, busbw;
        deepspeed_bandwidth(cases[i].op, 64 << 20, 2000000, 8, &tput, &busbw);
        assert_int_equal((int)(tput * 100 + 0.5), cases[i].tput);
        assert_int_equal((int)(busbw * 100 + 0.5), cases[i].busbw);
    }
}

static double identity(uint64_t ns, const void *argument) {
    (void)argument;
    return (double)ns;
}

static void means_are_trimmed_by_a_tenth_rounded_half_to_even(void **state) {
    (void)state;
    static const struct {
        size_t n;
        int sum, stay; /* of the squares that stay, and how many those are */
    } cases[] = {{5, 30, 5}, {6, 30, 4}, {15, 649, 11}, {25, 3794, 21}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct summary_sample samples[25];
        for (size_t j = 0; j < cases[i].n; j++)
            samples[j] = (struct summary_sample){j * j, 1};
        double mean = deepspeed_trimmed_mean(samples, cases[i].n, identity, NULL);
        assert_int_equal((int)(mean * cases[i].stay + 0.5), cases[i].sum);
    }
}

static void trimming_cuts_through_buckets(void **state) {
    (void)state;
    const struct summary_sample samples[] = {{10, 3}, {20, 14}, {1000, 3}};
    /* of 20 calls two go at each end: 10, 14 times 20, 1000 stay */
    assert_int_equal((int)(deepspeed_trimmed_mean(samples, 3, identity, NULL) * 16), 10 + 14 * 20 + 1000);
}

static void stragglers_are_joined_by_number(void **state) {
    (void)state;
    struct job job;
    struct deepspeed log;
    const struct filter all = {0};
    job_begin(&job, 2, 1024);
    static const uint64_t milliseconds[2][2] = {{5, 9}, {3, 12}};
    for (int32_t rank = 0; rank < 2; rank++) {
        struct operation_row *row = new_row(&job, rank, BUILDER_ALLREDUCE, 0, 4096);
        for (uint32_t seq = 0; seq < 2; seq++)
            add_call(&job, row, rank, seq, milliseconds[rank][seq] * 1000000);
        /* a broadcast has no name in this table of calls: it is nobody's business here */
        dump_builder_collective(job.builders[rank], 0, BUILDER_BCAST, 0, 2, 8, 0, 5);
    }
    job_open(&job);
    assert_true(deepspeed_build(&log, &job.set, NULL, &all, NULL));
    assert_int_equal(log.rank, 0);
    assert_int_equal(log.world_size, 2);
    assert_int_equal(log.count, 1);
    assert_string_equal(log.rows[0].op, "all_reduce");
    assert_int_equal(log.rows[0].msg_bytes, 4096);
    assert_int_equal(log.rows[0].count, 2);
    assert_int_equal((int)(log.rows[0].total_ms * 100 + 0.5), 1400);
    assert_int_equal(log.rows[0].matched, 2);
    assert_int_equal((int)(log.rows[0].comm_total_ms * 100 + 0.5), 1200);
    assert_int_equal((int)(log.rows[0].straggler_total_ms * 100 + 0.5), 200);
    assert_false(log.rows[0].approximate);
    deepspeed_free(&log);
    struct filter second = {0};
    filter_set_ranks(&second, "1");
    assert_true(deepspeed_build(&log, &job.set, NULL, &second, NULL));
    assert_int_equal(log.rank, 1);
    assert_int_equal((int)(log.rows[0].straggler_total_ms * 100 + 0.5), 300);
    deepspeed_free(&log);
    filter_free(&second);
    job_end(&job);
}

static void collectives_without_their_counterpart_are_not_joined(void **state) {
    (void)state;
    struct job job;
    struct deepspeed log;
    const struct filter all = {0};
    job_begin(&job, 2, 1024);
    struct operation_row *row = new_row(&job, 0, BUILDER_ALLREDUCE, 0, 4096);
    add_call(&job, row, 0, 0, 100);
    job_open(&job);
    assert_true(deepspeed_build(&log, &job.set, NULL, &all, NULL));
    assert_int_equal(log.rows[0].matched, 0);
    assert_int_equal(log.unmatched, 1);
    deepspeed_free(&log);
    job_end(&job);
}

static void gathered_tensors_are_shares(void **state) {
    (void)state;
    struct job job;
    struct deepspeed log;
    const struct filter all = {0};
    job_begin(&job, 4, 1024);
    add_call(&job, new_row(&job, 0, BUILDER_ALLGATHER, 0, 4000), 0, 0, 1000);
    job_open(&job);
    assert_true(deepspeed_build(&log, &job.set, NULL, &all, NULL));
    assert_int_equal(log.rows[0].msg_bytes, 1000);
    assert_int_equal((int)(log.rows[0].tput_gbps * 100 + 0.5), 3200);
    assert_int_equal((int)(log.rows[0].busbw_gbps * 100 + 0.5), 2400);
    deepspeed_free(&log);
    job_end(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_summed_over_ranks),
        cmocka_unit_test(without_all_records_percentiles_are_approximate),
        cmocka_unit_test(operations_cost_what_passes_inside_their_calls),
        cmocka_unit_test(of_overwritten_operations_only_the_sum_inside_is_known),
        cmocka_unit_test(no_approximate_percentile_contradicts_the_mean),
        cmocka_unit_test(records_that_do_not_tell_all_calls_are_not_believed),
        cmocka_unit_test(sizes_of_buffers_have_no_bandwidth),
        cmocka_unit_test(shares_of_an_interval_have_no_bandwidth),
        cmocka_unit_test(pending_operations_count_without_a_time),
        cmocka_unit_test(epochs_and_lanes_are_added_up),
        cmocka_unit_test(epochs_can_be_told_apart),
        cmocka_unit_test(windows_count_for_their_communicator),
        cmocka_unit_test(any_subset_of_keys_groups),
        cmocka_unit_test(calls_in_groups_have_the_time_inside_them),
        cmocka_unit_test(filters_leave_out),
        cmocka_unit_test(rows_torn_and_lost_are_told),
        cmocka_unit_test(bandwidths_are_deepspeeds),
        cmocka_unit_test(means_are_trimmed_by_a_tenth_rounded_half_to_even),
        cmocka_unit_test(trimming_cuts_through_buckets),
        cmocka_unit_test(stragglers_are_joined_by_number),
        cmocka_unit_test(collectives_without_their_counterpart_are_not_joined),
        cmocka_unit_test(gathered_tensors_are_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
