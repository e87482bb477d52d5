/* SPDX-License-Identifier: Apache-2.0
 *
 * What graphs hold, and how far their replays came, as it stands in the dump.
 * Must not live here: what follows for a job that hangs (test_captured_waits.c), times of replays (test_gpu_graphs.c).
 */
#include "gpu_fixture.h"

#include "shim/gpu/graph_replays.h"

static char graph[8], executables[8];
static struct capture_row *rows;
static struct capture_message *messages;

/* Sections of earlier tests are overwritten, and those of this one come last. */
static void *section_of(enum section_kind kind) {
    for (uint32_t i = recorder.file.section_count; i-- > 0;)
        if (recorder.header->sections[i].kind == kind)
            return recorder.file.contents[i];
    return NULL;
}

static int begin_captures(void **state) {
    begin_graphs(state);
    captures_begin();
    recorder.header->captures_untold = 0;
    rows = section_of(SECTION_CAPTURES);
    messages = section_of(SECTION_CAPTURE_MESSAGES);
    return rows && messages ? 0 : -1;
}

#define CAPTURES(test) cmocka_unit_test_setup(test, begin_captures)

static const struct capture_part to_next = {.comm = COMM, .peer = 1, .count = 1, .call = CALL + 1, .flags = FLAG_SEND};
static const struct capture_part from_next = {
    .comm = COMM, .peer = 1, .count = 1, .call = CALL + 2, .flags = FLAG_RECV};

static void begin_capture(char *into, void *stream) {
    fake.capture_graph = into;
    fake.capture_id++;
    fake_capture(stream, true);
}

static struct gpu_span *capture_collective(void *stream, uint32_t comm) {
    struct gpu_launch l = launch(1);
    struct gpu_span *span = gpu_span_begin(device, stream, 1);
    l.comm = comm;
    assert_true(gpu_span_is_captured(span));
    gpu_span_end(span, &l);
    return span;
}

/* Two collectives, and messages with one rank. */
static void capture(char *into, void *stream) {
    begin_capture(into, stream);
    capture_collective(stream, COMM);
    struct gpu_span *span = capture_collective(stream, COMM);
    gpu_span_holds(span, &to_next);
    gpu_span_holds(span, &from_next);
    gpu_span_holds(span, &to_next);
    fake_capture(stream, false);
}

static void replay(const void *executable, void *stream) {
    struct graph_launch l;
    assert_true(graphs_before_launch(&l, executable, stream));
    graphs_launched(&l, true);
}

static void end_replay(void *stream) {
    fake_replay(os_monotonic_ns(), 1000);
    fake_run(stream, 1, os_monotonic_ns(), 0);
    harvester_round();
}

static void test_what_a_graph_holds(void **state) {
    (void)state;
    capture(&graph[0], fake_stream(0, 0));
    assert_int_equal(rows[0].used, 0);
    graphs_instantiated(&executables[0], &graph[0]);
    assert_int_equal(rows[0].used, 1);
    assert_int_equal(rows[0].comm, COMM);
    assert_int_equal(rows[0].call, CALL);
    assert_int_equal(rows[0].collectives, 2);
    assert_int_equal(rows[0].message_count, 2);
    const struct capture_message *sent = &messages[rows[0].first_message], *received = sent + 1;
    assert_true(sent->peer == 1 && sent->count == 2 && sent->call == CALL + 1 && sent->flags == FLAG_SEND);
    assert_true(received->peer == 1 && received->count == 1 && received->call == CALL + 2);
    assert_int_equal(received->flags, FLAG_RECV);
    assert_int_equal(rows[1].used, 0);
}

static void test_launches_and_ends_are_counted(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture(&graph[0], stream);
    graphs_instantiated(&executables[0], &graph[0]);
    for (unsigned i = 1; i <= 5; i++) {
        uint64_t before = os_monotonic_ns();
        replay(&executables[0], stream);
        assert_int_equal(rows[0].launched, i);
        assert_int_equal(rows[0].newest, i);
        assert_in_range(rows[0].launched_ns, before, os_monotonic_ns());
        harvester_round();
        assert_int_equal(rows[0].ended, i - 1);
        end_replay(stream);
        assert_int_equal(rows[0].ended, i);
    }
    assert_int_equal(rows[0].unfollowed, 0);
    assert_true(rows[0].second_ns > 0 && rows[0].longest_ns >= rows[0].second_ns);
    struct graph_launch refused;
    assert_true(graphs_before_launch(&refused, &executables[0], stream));
    graphs_launched(&refused, false);
    assert_int_equal(rows[0].launched, 5);
}

/* As jobs do that capture each step anew. */
static void test_graphs_that_hold_the_same_share_a_row(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    for (unsigned i = 1; i <= 3000; i++) {
        capture(&graph[i % 2], stream);
        graphs_instantiated(&executables[0], &graph[i % 2]); /* or updated */
        graphs_destroyed(&graph[i % 2]);
        replay(&executables[0], stream);
        end_replay(stream);
    }
    assert_int_equal(rows[0].launched, 3000);
    assert_int_equal(rows[0].ended, 3000);
    assert_int_equal(rows[1].used, 0);
    assert_int_equal(recorder.header->captures_untold, 0);
}

static void test_an_updated_graph_holds_what_it_was_updated_to(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture(&graph[0], stream);
    begin_capture(&graph[1], stream);
    capture_collective(stream, COMM);
    fake_capture(stream, false);
    graphs_instantiated(&executables[0], &graph[0]);
    replay(&executables[0], stream);
    end_replay(stream);
    graphs_instantiated(&executables[0], &graph[1]);
    replay(&executables[0], stream);
    end_replay(stream);
    assert_true(rows[0].launched == 1 && rows[0].ended == 1 && rows[0].collectives == 2);
    assert_true(rows[1].launched == 1 && rows[1].ended == 2 && rows[1].collectives == 1);
}

/* Its place, and what it held there, may be another's by then. */
static void test_an_executable_graph_that_is_destroyed_while_it_runs(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture(&graph[0], stream);
    graphs_instantiated(&executables[0], &graph[0]);
    replay(&executables[0], stream);
    graphs_executable_destroyed(&executables[0]);
    graphs_destroyed(&graph[0]);
    begin_capture(&graph[1], stream);
    capture_collective(stream, COMM);
    fake_capture(stream, false);
    graphs_instantiated(&executables[1], &graph[1]);
    end_replay(stream);
    assert_true(rows[0].launched == 1 && rows[0].ended == 1);
    assert_true(rows[1].used == 1 && rows[1].launched == 0 && rows[1].ended == 0);
}

/* 15, and of a graph with more nothing is counted. */
static void test_each_communicator_has_a_row(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    begin_capture(&graph[0], stream);
    for (uint32_t comm = 0; comm < 15; comm++)
        capture_collective(stream, comm);
    fake_capture(stream, false);
    graphs_instantiated(&executables[0], &graph[0]);
    replay(&executables[0], stream);
    end_replay(stream);
    for (uint32_t comm = 0; comm < 15; comm++) {
        assert_int_equal(rows[comm].comm, comm);
        assert_int_equal(rows[comm].launched, 1);
        assert_int_equal(rows[comm].ended, 1); /* one launch, one number */
    }
    begin_capture(&graph[1], stream);
    for (uint32_t comm = 0; comm < 16; comm++)
        capture_collective(stream, comm);
    fake_capture(stream, false);
    graphs_instantiated(&executables[1], &graph[1]);
    assert_int_equal(recorder.header->captures_untold, 0);
    replay(&executables[1], stream);
    assert_int_equal(recorder.header->captures_untold, 1);
}

/* A graph in another one, by whichever way it came there. */
static void test_a_graph_holds_what_its_parts_hold(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture(&graph[0], stream);
    graphs_child_added(&graph[1], &graph[0]);
    graphs_child_added(&graph[1], &graph[0]);
    graphs_cloned(&graph[2], &graph[0]);
    graphs_instantiated(&executables[1], &graph[1]);
    graphs_instantiated(&executables[2], &graph[2]);
    replay(&executables[1], stream);
    end_replay(stream);
    assert_true(rows[0].collectives == 4 && rows[0].message_count == 2 && messages[rows[0].first_message].count == 4);
    assert_true(rows[0].launched == 1 && rows[0].ended == 1);
    assert_true(rows[1].collectives == 2 && rows[1].launched == 0);
    graphs_instantiated(&executables[0], &graph[0]);
    begin_capture(&graph[3], stream);
    replay(&executables[0], stream);
    fake_capture(stream, false);
    assert_int_equal(rows[1].launched, 0); /* it was captured, too */
    graphs_instantiated(&executables[3], &graph[3]);
    replay(&executables[3], stream);
    assert_int_equal(rows[1].launched, 1);
}

static void test_what_is_not_known_of_a_graph_is_told(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    begin_capture(&graph[0], stream);
    gpu_span_holds_more(capture_collective(stream, COMM));
    fake_capture(stream, false);
    graphs_instantiated(&executables[0], &graph[0]);
    replay(&executables[0], stream);
    replay(&executables[0], stream);
    assert_int_equal(rows[0].used, 0);
    assert_int_equal(recorder.header->captures_untold, 2);
}

/* A graph with a collective and messages with so many ranks, that is launched once. */
static void launch_one_with_messages(int32_t first_peer, uint32_t partners, void *stream) {
    begin_capture(&graph[0], stream);
    struct gpu_span *span = capture_collective(stream, COMM);
    for (uint32_t i = 0; i < partners; i++)
        gpu_span_holds(span, &(struct capture_part){
                                 .comm = COMM, .peer = first_peer + (int32_t)i, .count = 1, .flags = FLAG_SEND});
    fake_capture(stream, false);
    graphs_instantiated(&executables[0], &graph[0]);
    graphs_destroyed(&graph[0]);
    replay(&executables[0], stream);
}

/* 8192 kinds of operations in one graph, 32768 messages in all. */
static void test_messages_that_find_no_room_are_told(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    launch_one_with_messages(0, 8192, stream);
    assert_int_equal(recorder.header->captures_untold, 1);
    for (int32_t i = 0; i < 4; i++)
        launch_one_with_messages(i, 8191, stream);
    launch_one_with_messages(0, 4, stream);
    assert_int_equal(recorder.header->captures_untold, 1);
    assert_true(rows[4].launched == 1 && messages[rows[4].first_message + 3].peer == 3);
    launch_one_with_messages(0, 1, stream);
    assert_int_equal(recorder.header->captures_untold, 2);
    launch_one_with_messages(0, 8191, stream); /* there is a row of that */
    assert_int_equal(recorder.header->captures_untold, 2);
    assert_int_equal(rows[0].launched, 2);
}

/* 1024. */
static void test_rows_that_find_no_room_are_told(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    for (uint32_t i = 1; i <= 1025; i++) {
        assert_int_equal(recorder.header->captures_untold, 0);
        begin_capture(&graph[1], stream);
        capture_collective(stream, i);
        fake_capture(stream, false);
        graphs_instantiated(&executables[1], &graph[1]);
        graphs_destroyed(&graph[1]);
        replay(&executables[1], stream);
    }
    assert_int_equal(recorder.header->captures_untold, 1);
    assert_int_equal(rows[1023].launched, 1);
}

static void test_ends_that_nobody_looks_at_are_told(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture(&graph[0], stream);
    graphs_instantiated(&executables[0], &graph[0]);
    fake.record_error = 1;
    replay(&executables[0], stream);
    fake.record_error = 0;
    assert_true(rows[0].newest == 1 && rows[0].ended == 0 && rows[0].unfollowed == 1);
    replay(&executables[0], stream);
    end_replay(stream);
    assert_true(rows[0].newest == 2 && rows[0].ended == 2 && rows[0].unfollowed == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CAPTURES(test_what_a_graph_holds),
        CAPTURES(test_launches_and_ends_are_counted),
        CAPTURES(test_graphs_that_hold_the_same_share_a_row),
        CAPTURES(test_an_updated_graph_holds_what_it_was_updated_to),
        CAPTURES(test_an_executable_graph_that_is_destroyed_while_it_runs),
        CAPTURES(test_each_communicator_has_a_row),
        CAPTURES(test_a_graph_holds_what_its_parts_hold),
        CAPTURES(test_what_is_not_known_of_a_graph_is_told),
        CAPTURES(test_messages_that_find_no_room_are_told),
        CAPTURES(test_rows_that_find_no_room_are_told),
        CAPTURES(test_ends_that_nobody_looks_at_are_told),
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
