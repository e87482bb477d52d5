/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs that launches were captured into: their replays are timed, or counted as lost.
 * Must not live here: what only a driver that really runs can show (end-to-end tests on the stand-in).
 */
#include "gpu_fixture.h"

#include <pthread.h>

#include "shim/gpu/graph_replays.h"

static char graph[8], executables[8];

static void capture_two(void *stream, uint32_t streams_of_second) {
    fake.capture_graph = graph;
    fake.capture_id++;
    fake_capture(stream, true);
    for (uint32_t op = 1; op <= 2; op++) {
        struct gpu_launch l = launch(op);
        l.quiet = recorder.paused;
        struct gpu_span *span = gpu_span_begin(device, stream, op == 2 ? streams_of_second : 1);
        assert_true(gpu_span_is_captured(span));
        gpu_span_end(span, &l);
    }
    fake_capture(stream, false);
}

static void capture_one(char *into, void *stream) {
    struct gpu_launch l = launch(1);
    fake.capture_graph = into;
    fake.capture_id++;
    fake_capture(stream, true);
    gpu_span_end(gpu_span_begin(device, stream, 1), &l);
    fake_capture(stream, false);
}

static void replay(const void *executable, void *stream) {
    struct graph_launch l;
    assert_true(graphs_before_launch(&l, executable, stream));
    graphs_launched(&l, true);
}

static void test_each_replay_of_a_graph_is_timed(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    unsigned records = fake.calls.records;
    capture_two(stream, 1);
    assert_int_equal(fake.calls.records, records); /* an ordinary record would poison its event */
    assert_int_equal(fake.calls.external_records, 4);
    graphs_instantiated(&executables[0], graph);
    graphs_destroyed(graph); /* the executable graph lives on without it */
    for (unsigned i = 0; i < 1000; i++) {
        replay(&executables[0], stream);
        fake_replay(os_monotonic_ns(), 1000);
        fake_run(stream, 1, os_monotonic_ns(), 0);
        if (i % 2) /* the next launch reads what the harvester has not come to */
            harvester_round();
    }
    harvester_round();
    for (unsigned i = 0; i < 2000; i++) {
        const struct record *r = next_record(RECORD_GPU);
        assert_int_equal(r->op, 1 + i % 2);
        assert_int_equal(r->t1 - r->t0, 1000);
        assert_true(r->flags & FLAG_CAPTURED);
    }
    assert_null(next_record(RECORD_GPU));
    assert_int_equal(losses()->replays_untimed, 0);
}

/* A graph is captured at the start, and of interest where it runs. */
static void test_replays_are_recorded_by_where_they_are_launched(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    recorder.paused = QUIET_OUTSIDE;
    capture_two(stream, 1);
    graphs_instantiated(&executables[0], graph);
    for (unsigned i = 0; i < 20; i++) {
        recorder.paused = i % 4 ? QUIET_OUTSIDE : 0;
        replay(&executables[0], stream);
        recorder.paused = QUIET_OUTSIDE;
        fake_replay(os_monotonic_ns(), 1000 + i);
        fake_run(stream, 1, os_monotonic_ns(), 0);
        if (i % 2)
            harvester_round();
    }
    harvester_round();
    recorder.paused = 0;
    for (unsigned i = 0; i < 20; i += 4)
        for (unsigned op = 1; op <= 2; op++) {
            const struct record *r = next_record(RECORD_GPU);
            assert_non_null(r);
            assert_int_equal(r->op, op);
            assert_int_equal(r->t1 - r->t0, 1000 + i);
        }
    assert_null(next_record(RECORD_GPU));
}

/* The number and the time of the graph's launch, before the launches that it replayed; a later graph in the place of an
 * earlier one begins with 1. */
static void test_replays_are_numbered(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    for (unsigned tenant = 0; tenant < 2; tenant++) {
        capture_two(stream, 1);
        graphs_instantiated(&executables[0], graph);
        graphs_destroyed(graph);
        for (unsigned i = 1; i <= 3; i++) {
            uint64_t before = os_monotonic_ns();
            replay(&executables[0], stream);
            uint64_t after = os_monotonic_ns();
            while (os_monotonic_ns() < after + 2 * MS)
                ;
            fake_replay(os_monotonic_ns(), 1000);
            fake_run(stream, 1, os_monotonic_ns(), 0);
            harvester_round();
            uint64_t at = seen_records;
            const struct record *told = next_record(RECORD_REPLAY);
            assert_non_null(told);
            assert_int_equal(told->seq, i);
            assert_true(before <= told->t0 && told->t0 <= after);
            assert_true(told->t1 > after);
            const struct record *first = next_record(RECORD_GPU), *second = next_record(RECORD_GPU);
            assert_ptr_equal(first, told + 1); /* right behind it */
            assert_ptr_equal(second, told + 2);
            assert_true(first->flags & second->flags & FLAG_CAPTURED);
            assert_int_equal(told->t1, first->t0);
            assert_true(seen_records > at);
            assert_null(next_record(RECORD_REPLAY));
        }
        graphs_executable_destroyed(&executables[0]);
    }
}

static void test_unfinished_replays_are_counted(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture_two(stream, 1);
    graphs_instantiated(&executables[0], graph);
    for (unsigned i = 0; i < 10; i++)
        replay(&executables[0], stream);
    assert_int_equal(losses()->replays_untimed, 9 * 2);
    fake_replay(os_monotonic_ns(), 1000);
    fake_run(stream, 10, os_monotonic_ns(), 0);
    harvester_round();
    assert_int_equal(next_record(RECORD_GPU)->op, 1);
    assert_int_equal(next_record(RECORD_GPU)->op, 2);
    assert_null(next_record(RECORD_GPU));
    assert_int_equal(losses()->replays_untimed, 9 * 2);
    replay(&executables[0], stream);
    gpu_timing_exit();
    assert_int_equal(losses()->replays_untimed, 10 * 2);
}

static void *harvest_until_stopped(void *stopped) {
    while (!__atomic_load_n((bool *)stopped, __ATOMIC_ACQUIRE))
        harvester_round();
    return NULL;
}

/* The harvester reads a replay while the next one is launched: each launch is a record or a loss, never both. */
static void test_no_replay_is_both_timed_and_counted(void **state) {
    (void)state;
    enum { REPLAYS = 5000 };
    void *stream = fake_stream(0, 0);
    pthread_t harvester;
    bool stopped = false;
    uint64_t timed = 0;
    capture_two(stream, 1);
    graphs_instantiated(&executables[0], graph);
    assert_int_equal(pthread_create(&harvester, NULL, harvest_until_stopped, &stopped), 0);
    for (unsigned i = 0; i < REPLAYS; i++) {
        replay(&executables[0], stream);
        fake_replay(os_monotonic_ns(), 1000);
        fake_run(stream, 1, os_monotonic_ns(), 0);
    }
    __atomic_store_n(&stopped, true, __ATOMIC_RELEASE);
    pthread_join(harvester, NULL);
    harvester_round();
    while (next_record(RECORD_GPU))
        timed++;
    assert_int_equal(timed + losses()->replays_untimed, 2 * REPLAYS);
    assert_true(timed > 0);
}

/* Nodes that this replay did not write are no times of it. */
static void test_stale_nodes_are_not_believed(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture_two(stream, 1);
    graphs_instantiated(&executables[0], graph);
    fake_replay(os_monotonic_ns() - 50 * MS, 1000);
    replay(&executables[0], stream);
    fake_run(stream, 1, os_monotonic_ns(), 0);
    harvester_round();
    assert_null(next_record(RECORD_GPU));
    assert_int_equal(losses()->replays_untimed, 2);
}

/* On a machine short of cores an anchor may be wide: what is read to have begun earlier by no more than that did not.
 */
static void test_replays_are_timed_by_a_wide_anchor(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture_two(stream, 1);
    graphs_instantiated(&executables[0], graph);
    replay(&executables[0], stream);
    uint64_t launched = os_monotonic_ns();
    gpu.devices[0].clock.anchors[0].monotonic_ns -= 4 * MS;
    gpu.devices[0].clock.anchors[0].width_ns = 8 * MS;
    fake_replay(launched, 1000);
    fake_run(stream, 1, launched, 0);
    harvester_round();
    for (unsigned i = 0; i < 2; i++) {
        const struct record *r = next_record(RECORD_GPU);
        assert_non_null(r);
        assert_in_range(r->t0, launched - MS, launched + 1000);
        assert_int_equal(r->t1 - r->t0, 1000);
    }
    assert_int_equal(losses()->replays_untimed, 0);
}

static void test_captured_launch_of_several_streams_is_only_counted(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture_two(stream, 2);
    assert_int_equal(fake.calls.external_records, 2);
    graphs_instantiated(&executables[0], graph);
    replay(&executables[0], stream);
    fake_replay(os_monotonic_ns(), 1000);
    fake_run(stream, 1, os_monotonic_ns(), 0);
    harvester_round();
    assert_int_equal(next_record(RECORD_GPU)->op, 1);
    assert_null(next_record(RECORD_GPU));
    assert_int_equal(losses()->replays_untimed, 1);
}

/* A graph's handle comes again for another graph. */
static void test_graph_handles_are_reused(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    unsigned created = 0;
    for (unsigned i = 0; i < 3000; i++) {
        capture_two(stream, 1);
        if (i == 0)
            created = fake.calls.events_created;
        graphs_instantiated(&executables[0], graph);
        if (i % 2)
            graphs_destroyed(graph);
        graphs_executable_destroyed(&executables[0]);
    }
    assert_true(fake.calls.events_created - created <= 4);
    struct graph_launch none;
    assert_false(graphs_before_launch(&none, &executables[0], stream));
    graphs_destroyed(graph);
    graphs_instantiated(&executables[1], graph); /* one that holds nothing of ours */
    assert_false(graphs_before_launch(&none, &executables[1], stream));
}

static uint64_t timed_replays(void) {
    uint64_t timed = 0;
    for (const struct record *r; (r = next_record(RECORD_GPU));)
        timed += (r->flags & FLAG_CAPTURED) != 0;
    return timed;
}

/* As many as a server of language models keeps, one for each size of a batch and each layer. */
static void test_each_of_many_live_graphs_is_followed(void **state) {
    (void)state;
    enum { GRAPHS = 3000 };
    static char graphs[GRAPHS], made[GRAPHS];
    void *stream = fake_stream(0, 0);
    uint64_t timed = 0;
    for (unsigned i = 0; i < GRAPHS; i++) {
        capture_one(&graphs[i], stream);
        graphs_instantiated(&made[i], &graphs[i]);
        replay(&made[i], stream);
        fake_replay(os_monotonic_ns(), 1000);
        fake_run(stream, 1, os_monotonic_ns(), 0);
        harvester_round();
        timed += timed_replays();
    }
    assert_int_equal(timed, GRAPHS);
    for (unsigned i = 0; i < GRAPHS; i++) /* nobody looks */
        replay(&made[i], stream);
    gpu_timing_exit();
    assert_int_equal(losses()->replays_untimed, GRAPHS);
    assert_int_equal(recorder.header->captured_unfollowed, 0);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median_of(uint64_t *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

/* Taking a place takes no longer with thousands of graphs before it. Medians: a machine that is busy takes single ones
 * up for milliseconds. */
static void test_many_graphs_take_no_longer_each(void **state) {
    (void)state;
    enum { GRAPHS = 16000, PART = GRAPHS / 8 }; /* the fake has events for 21,000 */
    static char graphs[GRAPHS];
    static uint64_t took[GRAPHS];
    void *stream = fake_stream(0, 0);
    for (unsigned i = 0; i < GRAPHS; i++) {
        uint64_t begun = os_monotonic_ns();
        capture_one(&graphs[i], stream);
        took[i] = os_monotonic_ns() - begun;
    }
    assert_true(median_of(&took[GRAPHS - PART], PART) < median_of(took, PART) * 4);
}

/* What cannot be launched is no replay. */
static void test_refused_launches_of_graphs_are_not_counted(void **state) {
    (void)state;
    struct graph_launch l;
    void *stream = fake_stream(0, 0);
    capture_two(stream, 1);
    graphs_instantiated(&executables[0], graph);
    assert_true(graphs_before_launch(&l, &executables[0], stream));
    graphs_launched(&l, false);
    fake.push_error = fake.record_error = GPU_INVALID_HANDLE; /* the event behind it */
    replay(&executables[0], stream);
    assert_int_equal(losses()->replays_untimed, 2);
    gpu_timing_exit();
    assert_int_equal(losses()->replays_untimed, 2);
}

/* Two captures into one graph; executable graphs hold what was there when they were made. Event nodes might be
 * forbidden there, so nothing is timed. */
static void test_repeated_capture_into_one_graph(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    for (unsigned i = 0; i < 2; i++) {
        graphs_captured_into(graph);
        capture_two(stream, 1);
        assert_int_equal(recorder.header->captured_unfollowed, 2);
        graphs_instantiated(&executables[i], graph);
        assert_int_equal(recorder.header->captured_unfollowed, 0);
    }
    assert_int_equal(fake.calls.external_records, 0);
    for (unsigned i = 0; i < 5; i++)
        replay(&executables[0], stream);
    replay(&executables[1], stream);
    graphs_destroyed(graph);
    graphs_executable_destroyed(&executables[0]);
    graphs_executable_destroyed(&executables[1]);
    assert_int_equal(losses()->replays_untimed, 5 * 2 + 4);
    assert_int_equal(timed_replays(), 0);
    capture_two(stream, 1); /* its handle comes again */
    assert_int_equal(fake.calls.external_records, 4);
}

/* A graph of two launches, in a capture beside one more: three for each replay of the whole. */
static void test_graph_launched_inside_a_capture(void **state) {
    (void)state;
    static char whole;
    void *stream = fake_stream(0, 0);
    capture_two(stream, 1);
    graphs_instantiated(&executables[0], graph);
    capture_one(&whole, stream);
    fake_capture(stream, true);
    replay(&executables[0], stream);
    fake_capture(stream, false);
    assert_int_equal(recorder.header->captured_unfollowed, 3);
    graphs_instantiated(&executables[1], &whole);
    assert_int_equal(recorder.header->captured_unfollowed, 0);
    assert_int_equal(losses()->replays_untimed, 0); /* nothing has run */
    replay(&executables[0], stream);                /* its events are the whole's as well */
    assert_int_equal(losses()->replays_untimed, 2);
    for (unsigned i = 0; i < 4; i++)
        replay(&executables[1], stream);
    gpu_timing_exit();
    assert_int_equal(losses()->replays_untimed, 2 + 4 * 3);
    assert_int_equal(timed_replays(), 0);
}

static void test_clones_and_child_graphs_are_counted(void **state) {
    (void)state;
    static char clone, whole;
    void *stream = fake_stream(0, 0);
    capture_two(stream, 1);
    graphs_cloned(&clone, graph);
    graphs_instantiated(&executables[0], &clone);
    replay(&executables[0], stream);
    assert_int_equal(losses()->replays_untimed, 2);
    graphs_child_added(&whole, graph);
    graphs_child_added(&whole, graph);
    graphs_instantiated(&executables[1], &whole);
    replay(&executables[1], stream);
    assert_int_equal(losses()->replays_untimed, 2 + 4);
    assert_int_equal(recorder.header->captured_unfollowed, 0);
}

/* More launches in one graph than are timed. */
static void test_launches_beyond_the_last_place_are_counted(void **state) {
    (void)state;
    enum { PLACES = LAUNCHES_PER_CHUNK * LAUNCH_CHUNKS, LAUNCHES = PLACES + 10 };
    void *stream = fake_stream(0, 0);
    struct gpu_launch l = launch(1);
    fake.capture_graph = graph;
    fake_capture(stream, true);
    for (unsigned i = 0; i < LAUNCHES; i++)
        gpu_span_end(gpu_span_begin(device, stream, 2), &l);
    fake_capture(stream, false);
    graphs_instantiated(&executables[0], graph);
    replay(&executables[0], stream);
    replay(&executables[0], stream);
    gpu_timing_exit();
    assert_int_equal(losses()->replays_untimed, 2 * LAUNCHES);
}

static void test_captures_that_nobody_makes_executable_are_told(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture_two(stream, 1);
    fake.capture_id++;
    fake_capture(stream, true);
    gpu_span_drop(gpu_span_begin(device, stream, 1)); /* the call failed */
    fake_capture(stream, false);
    assert_int_equal(recorder.header->captured_unfollowed, 2);
}

static void *look_once(void *nothing) {
    harvester_round();
    return nothing;
}

/* The thread hangs in the driver when the process ends, and comes back after all. */
static void test_hanging_queries_are_lost_once(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0), *other = fake_stream(1, 0);
    pthread_t harvester;
    capture_two(stream, 1);
    graphs_instantiated(&executables[0], graph);
    enqueue(other, 1);
    replay(&executables[0], stream);
    __atomic_store_n(&fake.hang, true, __ATOMIC_RELEASE);
    assert_int_equal(pthread_create(&harvester, NULL, look_once, NULL), 0);
    while (!__atomic_load_n(&fake.hanging, __ATOMIC_ACQUIRE))
        ;
    replay(&executables[0], stream); /* takes account of the one before */
    enqueue(other, 2);
    gpu_timing_exit();
    assert_int_equal(losses()->gpu_unfinished, 2);
    assert_int_equal(losses()->replays_untimed, 2 * 2);
    fake_replay(os_monotonic_ns(), 1000);
    fake_run(stream, 2, os_monotonic_ns(), 0);
    fake_run(other, 4, os_monotonic_ns(), 1000);
    __atomic_store_n(&fake.hang, false, __ATOMIC_RELEASE);
    pthread_join(harvester, NULL);
    assert_null(next_record(RECORD_GPU));
    assert_int_equal(losses()->gpu_unfinished, 2);
    assert_int_equal(losses()->replays_untimed, 2 * 2);
}

static void test_without_graph_functions_captures_are_left_alone(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    unsigned records = fake.calls.records;
    fake_capture(stream, true);
    assert_null(gpu_span_begin(device, stream, 1));
    assert_true(gpu_stream_is_capturing(device, stream));
    fake_capture(stream, false);
    assert_false(gpu_stream_is_capturing(device, stream));
    assert_int_equal(fake.calls.records, records);
}

/* Launched by a runtime that we do not see: the nodes alone tell, and each replay found is told once. */
static void test_unseen_replays_are_sampled(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    uint64_t later = os_monotonic_ns() + 6000 * MS;
    capture_two(stream, 1);
    for (unsigned i = 0; i < 3; i++) {
        graphs_sample(&gpu.devices[device], later += 100 * MS);
        assert_null(next_record(RECORD_GPU));
        uint64_t at = os_monotonic_ns();
        fake_replay(at, 1000);
        graphs_sample(&gpu.devices[device], later += 100 * MS);
        assert_int_equal(next_record(RECORD_GPU)->op, 1);
        assert_int_equal(next_record(RECORD_GPU)->op, 2);
        while (os_monotonic_ns() < at + 2 * MS)
            ;
    }
    graphs_instantiated(&executables[0], graph);
    fake_replay(os_monotonic_ns(), 1000);
    graphs_sample(&gpu.devices[device], later += 100 * MS);
    assert_null(next_record(RECORD_GPU));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        GRAPHS(test_each_replay_of_a_graph_is_timed),
        GRAPHS(test_replays_are_recorded_by_where_they_are_launched),
        GRAPHS(test_unfinished_replays_are_counted),
        GRAPHS(test_no_replay_is_both_timed_and_counted),
        GRAPHS(test_stale_nodes_are_not_believed),
        GRAPHS(test_replays_are_timed_by_a_wide_anchor),
        GRAPHS(test_replays_are_numbered),
        GRAPHS(test_captured_launch_of_several_streams_is_only_counted),
        GRAPHS(test_graph_handles_are_reused),
        GRAPHS(test_each_of_many_live_graphs_is_followed),
        GRAPHS(test_many_graphs_take_no_longer_each),
        GRAPHS(test_refused_launches_of_graphs_are_not_counted),
        GRAPHS(test_repeated_capture_into_one_graph),
        GRAPHS(test_graph_launched_inside_a_capture),
        GRAPHS(test_clones_and_child_graphs_are_counted),
        GRAPHS(test_launches_beyond_the_last_place_are_counted),
        GRAPHS(test_captures_that_nobody_makes_executable_are_told),
        GRAPHS(test_hanging_queries_are_lost_once),
        GRAPHS(test_unseen_replays_are_sampled),
        PLAIN(test_without_graph_functions_captures_are_left_alone),
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
