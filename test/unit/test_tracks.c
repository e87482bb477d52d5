/* SPDX-License-Identifier: Apache-2.0
 *
 * What is drawn of a few ranks made by hand: tracks, slices, waits, flows, counters.
 * Must not live here: real jobs and file formats (test/e2e/test_timeline.py, test_trace_file.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/tracks/draw.h"
#include "analyzer/tracks/held.h"
#include "test/unit/job_builder.h"

enum { DRAWN_MOST = 512 };

struct drawn {
    struct track tracks[DRAWN_MOST];
    struct slice slices[DRAWN_MOST];
    struct record records[DRAWN_MOST]; /* of the slices */
    double values[DRAWN_MOST];
    int64_t at[DRAWN_MOST];
    size_t track_count, slice_count, value_count;
    struct track_totals totals;
};

static void keep_track(void *context, const struct track *track) {
    struct drawn *drawn = context;
    assert_int_equal(track->id, drawn->track_count + 1);
    assert_true(track->parent <= drawn->track_count);
    drawn->tracks[drawn->track_count++] = *track;
}

static void keep_slice(void *context, const struct slice *slice) {
    struct drawn *drawn = context;
    assert_in_range(slice->track, 1, drawn->track_count);
    drawn->slices[drawn->slice_count] = *slice;
    if (slice->record) {
        drawn->records[drawn->slice_count] = *slice->record;
        drawn->slices[drawn->slice_count].record = &drawn->records[drawn->slice_count];
    }
    drawn->slice_count++;
}

static void keep_value(void *context, const struct track *track, int64_t at, double value) {
    struct drawn *drawn = context;
    assert_true(track->kind == TRACK_BANDWIDTH || track->kind == TRACK_MEMORY);
    drawn->at[drawn->value_count] = at;
    drawn->values[drawn->value_count++] = value;
}

static struct drawn *draw(struct hand_job *job, const struct filter *filter) {
    static const struct filter all = {0};
    static const struct scope unlimited = {0};
    static const struct step_marker marker = {.pcontrol = true};
    struct drawn *drawn = calloc(1, sizeof *drawn);
    assert_non_null(drawn);
    const struct track_request request = {.clock = &job->clock,
                                          .directory = &job->directory,
                                          .scope = &unlimited,
                                          .filter = filter ? filter : &all,
                                          .marker = &marker,
                                          .sink = {drawn, keep_track, keep_slice, keep_value}};
    assert_true(tracks_draw(&request, &drawn->totals));
    assert_int_equal(drawn->totals.slices, drawn->slice_count);
    return drawn;
}

/* The slice of that rank's call that begins then. */
static const struct slice *slice_at(const struct drawn *drawn, size_t dump, unsigned kind, int64_t begin) {
    for (size_t i = 0; i < drawn->slice_count; i++)
        if (drawn->slices[i].dump == dump && drawn->slices[i].begin == begin && drawn->records[i].kind == kind)
            return &drawn->slices[i];
    fail_msg("no slice of kind %u begins at %lld on rank %zu", kind, (long long)begin, dump);
    return NULL;
}

static const struct track *track_of(const struct drawn *drawn, const struct slice *slice) {
    return &drawn->tracks[slice->track - 1];
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void who_comes_early_waits_and_then_transfers(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    const uint64_t enter[] = {100, 900, 300};
    for (unsigned rank = 0; rank < 3; rank++)
        dump_builder_collective(job.builders[rank], 0, BUILDER_ALLREDUCE, 0, 0, 4000, enter[rank], 1100);
    hand_job_open(&job, 3);
    struct drawn *drawn = draw(&job, NULL);
    const struct slice *early = slice_at(drawn, 0, RECORD_CALL, 100), *last = slice_at(drawn, 1, RECORD_CALL, 900);
    assert_true(early->waited && early->transferred);
    assert_int_equal(early->wait_from, 100);
    assert_int_equal(early->wait_to, 900);
    assert_int_equal(early->waited_for, 1);
    assert_int_equal(early->transfer_from, 900);
    assert_true(!last->waited && last->transferred);
    assert_int_equal(last->transfer_from, 900);
    assert_int_equal(drawn->value_count, 6);
    for (size_t i = 0; i < drawn->value_count; i += 2) { /* bytes by the 200 ns behind the wait */
        assert_int_equal(drawn->at[i], 900);
        assert_true(drawn->values[i] == 20 && drawn->values[i + 1] == 0 && drawn->at[i + 1] == 1100);
    }
    free(drawn);
    hand_job_free(&job);
}

static void a_wait_for_several_messages_names_the_last_sender(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned from = 1; from < 3; from++) {
        struct record receive = {.kind = RECORD_POST,
                                 .call = BUILDER_IRECV,
                                 .flags = FLAG_RECV,
                                 .peer = (int)from,
                                 .tag = 5,
                                 .op = from,
                                 .bytes = 8,
                                 .t0 = 10 * from,
                                 .t1 = 10 * from + 5};
        dump_builder_record(job.builders[0], 0, &receive);
    }
    for (unsigned from = 1; from < 3; from++) {
        struct record done = {.kind = RECORD_DONE,
                              .call = BUILDER_IRECV,
                              .flags = FLAG_RECV,
                              .peer = (int)from,
                              .tag = 5,
                              .op = from,
                              .bytes = 8,
                              .t0 = 10 * from,
                              .t1 = 995};
        dump_builder_record(job.builders[0], 0, &done);
        dump_builder_p2p(job.builders[from], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 5, 0, 8, from == 1 ? 500 : 800,
                         from == 1 ? 550 : 850);
    }
    dump_builder_plain(job.builders[0], 0, BUILDER_WAITALL, 100, 1000);
    hand_job_open(&job, 3);
    struct drawn *drawn = draw(&job, NULL);
    const struct slice *waitall = slice_at(drawn, 0, RECORD_CALL, 100);
    assert_true(waitall->waited);
    assert_int_equal(waitall->wait_from, 100);
    assert_int_equal(waitall->wait_to, 800);
    assert_int_equal(waitall->waited_for, 2);
    assert_int_equal(drawn->totals.flows, 2);
    assert_false(slice_at(drawn, 0, RECORD_DONE, 10)->transferred); /* in flight: its time is not the rank's */
    free(drawn);
    hand_job_free(&job);
}

static void a_gpu_waits_on_the_track_of_its_communicator(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){.lanes = 2, .devices = 1});
    for (unsigned rank = 0; rank < 2; rank++) {
        dump_builder_header(job.builders[rank])->gpu_timing = GPU_TIMING_KERNEL;
        dump_builder_device(job.builders[rank], 0, 2);
        uint32_t other = dump_builder_communicator(job.builders[rank], 0xabc, "other", (int32_t)rank,
                                                   &(struct member_run){0, 2, 1}, 1);
        for (unsigned launched = 0; launched < 2; launched++) {
            uint32_t comm = launched == 0 ? other : 0;
            struct record launch = {.kind = RECORD_KERNEL,
                                    .call = BUILDER_NCCL_ALL_REDUCE,
                                    .flags = FLAG_COLLECTIVE,
                                    .comm = comm,
                                    .op = comm + 1,
                                    .tag = 0,
                                    .bytes = 64,
                                    .peer = PEER_NONE,
                                    .t0 = 1000 + 4000 * rank * (comm == other),
                                    .t1 = 9000 + comm};
            dump_builder_record(job.builders[rank], 1, &launch);
        }
    }
    hand_job_open(&job, 2);
    struct drawn *drawn = draw(&job, NULL);
    unsigned waiting = 0, all_waiting = 0;
    for (size_t i = 0; i < drawn->slice_count; i++) {
        const struct track *track = track_of(drawn, &drawn->slices[i]);
        assert_int_equal(track->kind, TRACK_DEVICE);
        assert_int_equal(track->comm, drawn->records[i].comm);
        assert_int_equal(track->number, 0);
        all_waiting += drawn->slices[i].waited;
        waiting += drawn->slices[i].waited && drawn->slices[i].dump == 0 && track->comm == 1 &&
                   drawn->slices[i].wait_to == 5000;
    }
    assert_int_equal(drawn->slice_count, 4);
    assert_int_equal(waiting, 1);
    assert_int_equal(all_waiting, 1); /* not the other communicator's launch, which runs at the same time */
    free(drawn);
    hand_job_free(&job);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A receive without a status knows the size of its buffer alone: that has no bandwidth. */
static void a_receive_has_the_size_that_was_sent(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    const uint16_t posted = FLAG_RECV | FLAG_BYTES_POSTED;
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 5, 0, 100, 500, 700);
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, posted, 0, 5, 0, 1 << 20, 500, 600);
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, posted, 0, 9, 0, 1 << 20, 800, 900); /* not matched */
    hand_job_open(&job, 2);
    struct drawn *drawn = draw(&job, NULL);
    assert_int_equal(slice_at(drawn, 1, RECORD_CALL, 500)->record->bytes, 100);
    assert_int_equal(drawn->value_count, 4);
    for (size_t i = 0; i < drawn->value_count; i += 2) {
        assert_int_equal(drawn->at[i], 500);
        assert_true(drawn->values[i] == (drawn->at[i + 1] == 600 ? 1 : 0.5));
    }
    free(drawn);
    hand_job_free(&job);
}

static void a_share_of_an_interval_has_no_bandwidth(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 1, (struct dump_plan){0});
    struct record launch = {.kind = RECORD_GPU,
                            .call = BUILDER_ALLREDUCE,
                            .flags = FLAG_COLLECTIVE,
                            .peer = PEER_NONE,
                            .bytes = 100,
                            .op = 1,
                            .t0 = 500,
                            .t1 = 600};
    dump_builder_record(job.builders[0], 0, &launch);
    launch = (struct record){.kind = RECORD_GPU,
                             .call = BUILDER_ALLREDUCE,
                             .flags = FLAG_COLLECTIVE | FLAG_SHARE,
                             .peer = PEER_NONE,
                             .bytes = 100,
                             .op = 2,
                             .seq = 1,
                             .t0 = 700,
                             .t1 = 800};
    dump_builder_record(job.builders[0], 0, &launch);
    hand_job_open(&job, 1);
    struct drawn *drawn = draw(&job, NULL);
    assert_int_equal(drawn->value_count, 2);
    assert_int_equal(drawn->at[0], 500);
    assert_int_equal(drawn->at[1], 600);
    free(drawn);
    hand_job_free(&job);
}

/* ---- tracks ---------------------------------------------------------------------------------- */

static void sixty_four_overlapping_operations_are_drawn(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 1, (struct dump_plan){0});
    enum { POSTED = 70 };
    for (uint32_t i = 0; i < POSTED; i++) {
        struct record post = {.kind = RECORD_POST,
                              .call = BUILDER_ISEND,
                              .flags = FLAG_SEND,
                              .peer = 0,
                              .op = i + 1,
                              .seq = i,
                              .t0 = 10 * i,
                              .t1 = 10 * i + 10};
        dump_builder_record(job.builders[0], 0, &post);
    }
    for (uint32_t i = 0; i < POSTED; i++) {
        struct record done = {.kind = RECORD_DONE,
                              .call = BUILDER_ISEND,
                              .flags = FLAG_SEND,
                              .peer = 0,
                              .op = i + 1,
                              .seq = i,
                              .t0 = 10 * i,
                              .t1 = 5000 + i};
        dump_builder_record(job.builders[0], 0, &done);
    }
    hand_job_open(&job, 1);
    struct drawn *drawn = draw(&job, NULL);
    unsigned flying = 0, threads = 0;
    for (size_t i = 0; i < drawn->track_count; i++) {
        flying += drawn->tracks[i].kind == TRACK_IN_FLIGHT;
        threads += drawn->tracks[i].kind == TRACK_THREAD;
    }
    assert_int_equal(flying, 64);
    assert_int_equal(threads, 1); /* calls that touch do not overlap */
    assert_int_equal(drawn->totals.left_out, POSTED - 64);
    assert_int_equal(drawn->slice_count, POSTED + 64);
    free(drawn);
    hand_job_free(&job);
}

static void slices_of_a_track_follow_each_other_whatever_the_records_say(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    uint64_t noise = 12345;
    for (unsigned i = 0; i < 200; i++) {
        noise = noise * UINT64_C(6364136223846793005) + 1442695040888963407u;
        struct record any = {.kind = (uint8_t)(1 + (noise >> 33) % 14),
                             .call = (uint16_t)((noise >> 37) % 300),
                             .flags = (uint16_t)(noise >> 20),
                             .comm = (uint32_t)(noise >> 41) % 3,
                             .op = i % 7,
                             .seq = (uint32_t)(noise >> 50),
                             .peer = (int32_t)(noise >> 45) % 4,
                             .tag = (int32_t)i % 3,
                             .bytes = noise % 3 ? noise % 9000 : BYTES_UNKNOWN,
                             .t0 = (noise >> 22) % 100000,
                             .t1 = (noise >> 12) % 100000};
        dump_builder_record(job.builders[i % 2], 0, &any);
    }
    hand_job_open(&job, 2);
    struct drawn *drawn = draw(&job, NULL);
    int64_t ended[DRAWN_MOST] = {0};
    assert_true(drawn->slice_count > 100);
    for (size_t i = 0; i < drawn->slice_count; i++) {
        const struct slice *slice = &drawn->slices[i];
        assert_true(slice->begin >= ended[slice->track] && slice->end >= slice->begin);
        ended[slice->track] = slice->end;
        if (slice->waited)
            assert_true(slice->begin <= slice->wait_from && slice->wait_from < slice->wait_to &&
                        slice->wait_to <= slice->end);
        if (slice->transferred)
            assert_true(slice->transfer_from >= (slice->waited ? slice->wait_to : slice->begin) &&
                        slice->transfer_from < slice->end);
    }
    free(drawn);
    hand_job_free(&job);
}

/* ---- flows ----------------------------------------------------------------------------------- */

static void a_flow_leads_through_a_collective_in_the_order_of_entry(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    const uint64_t enter[] = {200, 300, 100};
    for (unsigned rank = 0; rank < 3; rank++)
        dump_builder_collective(job.builders[rank], 0, BUILDER_BARRIER, 0, 0, 0, enter[rank], 400);
    hand_job_open(&job, 3);
    struct drawn *drawn = draw(&job, NULL);
    assert_int_equal(slice_at(drawn, 2, RECORD_CALL, 100)->place, FLOW_FIRST);
    assert_int_equal(slice_at(drawn, 0, RECORD_CALL, 200)->place, FLOW_THROUGH);
    assert_int_equal(slice_at(drawn, 1, RECORD_CALL, 300)->place, FLOW_LAST);
    assert_int_equal(drawn->slices[0].flow, drawn->slices[2].flow);
    assert_int_equal(drawn->totals.flows, 1);
    free(drawn);
    hand_job_free(&job);
}

static void a_flow_needs_two_ends_that_are_shown(void **state) {
    (void)state;
    struct hand_job job;
    struct filter one = {0};
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned rank = 0; rank < 2; rank++)
        dump_builder_collective(job.builders[rank], 0, BUILDER_BARRIER, 0, 0, 0, 100, 200);
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 3, 0, 8, 300, 400);
    dump_builder_p2p(job.builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 3, 0, 8, 250, 450);
    dump_builder_p2p(job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 4, 0, 8, 500, 600); /* never received */
    hand_job_open(&job, 2);
    struct drawn *both = draw(&job, NULL);
    assert_int_equal(both->totals.flows, 2);
    assert_int_equal(slice_at(both, 0, RECORD_CALL, 300)->place, FLOW_SENT);
    assert_int_equal(slice_at(both, 1, RECORD_CALL, 250)->place, FLOW_RECEIVED);
    assert_int_equal(slice_at(both, 0, RECORD_CALL, 300)->flow, slice_at(both, 1, RECORD_CALL, 250)->flow);
    assert_int_equal(slice_at(both, 0, RECORD_CALL, 500)->place, FLOW_NOT);
    assert_int_equal(filter_set_ranks(&one, "1"), 0);
    struct drawn *alone = draw(&job, &one);
    assert_int_equal(alone->slice_count, 2);
    assert_int_equal(alone->totals.flows, 0);
    assert_int_equal(alone->slices[0].place + alone->slices[1].place, FLOW_NOT);
    assert_true(slice_at(alone, 1, RECORD_CALL, 250)->waited); /* for a rank that is not shown */
    filter_free(&one);
    free(both);
    free(alone);
    hand_job_free(&job);
}

/* ---- records that are held ----------------------------------------------------------------------- */

static struct held_lane lane_of_ends(const int64_t *ends, size_t count) {
    struct held_lane lane = {0};
    for (size_t i = 0; i < count; i++)
        assert_non_null(held_push(&lane, 10 + i, ends[i]));
    return lane;
}

static void a_held_record_is_found_by_its_ticket_though_others_are_missing(void **state) {
    (void)state;
    static const uint64_t tickets[] = {10, 11, 14, 15, 20};
    struct held_lane lane = {0};
    for (size_t i = 0; i < sizeof tickets / sizeof *tickets; i++)
        assert_non_null(held_push(&lane, tickets[i], (int64_t)tickets[i]));
    for (size_t popped = 0; popped < sizeof tickets / sizeof *tickets; popped++) {
        for (uint64_t ticket = 8; ticket < 22; ticket++) {
            bool there = false;
            for (size_t i = popped; i < sizeof tickets / sizeof *tickets; i++)
                there |= tickets[i] == ticket;
            const struct held_record *held = held_find(&lane, ticket);
            assert_int_equal(held != NULL, there);
            assert_true(!held || held->end == (int64_t)ticket);
        }
        held_pop(&lane);
    }
    free(lane.items);
}

static void the_first_record_that_ends_by_a_moment_is_found_at_any_distance(void **state) {
    (void)state;
    enum { RECORDS = 45 };
    int64_t ends[RECORDS];
    for (int64_t i = 0; i < RECORDS; i++)
        ends[i] = 100 + 10 * (i / 2); /* each moment twice */
    for (size_t count = 0; count <= RECORDS; count++) {
        struct held_lane lane = lane_of_ends(ends, count);
        for (int64_t at = 90; at < 350; at += 5) {
            size_t wanted = 0;
            while (wanted < count && ends[wanted] < at)
                wanted++;
            assert_int_equal(held_ending_from(&lane, at), lane.first + wanted);
        }
        free(lane.items);
    }
}

static void a_record_that_ends_late_is_found_behind_later_ones(void **state) {
    (void)state;
    static const int64_t ends[] = {100, 110, 500, 120, 130, 140, 150, 160, 170, 180};
    struct held_lane lane = lane_of_ends(ends, sizeof ends / sizeof *ends);
    assert_true(held_ending_from(&lane, 165) <= lane.first + 2);
    free(lane.items);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_early_waits_and_then_transfers),
        cmocka_unit_test(a_wait_for_several_messages_names_the_last_sender),
        cmocka_unit_test(a_gpu_waits_on_the_track_of_its_communicator),
        cmocka_unit_test(a_receive_has_the_size_that_was_sent),
        cmocka_unit_test(a_share_of_an_interval_has_no_bandwidth),
        cmocka_unit_test(sixty_four_overlapping_operations_are_drawn),
        cmocka_unit_test(slices_of_a_track_follow_each_other_whatever_the_records_say),
        cmocka_unit_test(a_flow_leads_through_a_collective_in_the_order_of_entry),
        cmocka_unit_test(a_flow_needs_two_ends_that_are_shown),
        cmocka_unit_test(a_held_record_is_found_by_its_ticket_though_others_are_missing),
        cmocka_unit_test(the_first_record_that_ends_by_a_moment_is_found_at_any_distance),
        cmocka_unit_test(a_record_that_ends_late_is_found_behind_later_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
