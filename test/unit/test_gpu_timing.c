/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU timing over a driver that a test steps through: launches, pools, errors, graphs, waits, ends.
 * Must not live here: what only a driver that really runs can show (end-to-end tests on the stand-in).
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_gpu.h"
#include "shim/gpu/graph_replays.h"
#include "shim/gpu/graphs.h"
#include "shim/gpu/harvester.h"
#include "shim/gpu/mode.h"
#include "shim/gpu/timing.h"
#include "shim/gpu/waits.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/resolve.h"
#include "shim/record/aggregates.h"

#define MS   1000000ull
#define CALL 300
#define COMM 7

/* The job's functions (wrap_cuda.c), behind which everything succeeds. */
int cudaEventRecord(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
int cudaStreamWaitEvent(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
int cudaStreamWaitEvent_ptsz(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static uintptr_t succeed(void) {
    return 0;
}

any_function resolve_absent(const char *name, const void *caller, any_function error) {
    (void)name, (void)caller;
    return error;
}
any_function resolve_hook(const struct hook *hook, const void *caller) {
    (void)hook, (void)caller;
    return succeed;
}

static char directory[] = "/tmp/commtap-unit-XXXXXX";
static struct progress progress;
static int device;
static uint64_t seen_records;

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_RING", "16384", 1);
    knobs_read(&recorder.knobs);
    return activate_process() ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

/* A fresh engine in the running recorder, without its thread. Lanes are made once: tests use differences. */
static int begin(bool graphs) {
    fake_gpu_begin(graphs);
    memset(&gpu, 0, sizeof gpu);
    memset(&recorder.header->losses, 0, sizeof recorder.header->losses);
    memset(&recorder.lanes[LANE_DEVICE], 0, sizeof recorder.lanes[LANE_DEVICE]);
    recorder.file.section_count = 20; /* sections of earlier tests may be overwritten */
    gpu.generation = *recorder_armed;
    graphs_begin();
    assert_null(harvester_prepare());
    progress = (struct progress){.version = 2, .comm = COMM};
    device = gpu_attach_device();
    assert_int_equal(device, 0);
    harvester_round(); /* introduces the device, takes its first anchor */
    seen_records = recorder.lanes[LANE_DEVICE].head;
    return 0;
}

static int begin_plain(void **state) {
    (void)state;
    return begin(false);
}

static int begin_graphs(void **state) {
    (void)state;
    return begin(true);
}

static struct gpu_launch launch(uint32_t op) {
    return (struct gpu_launch){.bytes = 4096,
                               .seq = op,
                               .op = op,
                               .comm = COMM,
                               .peer = PEER_NONE,
                               .ranks = 4,
                               .call = CALL,
                               .flags = FLAG_COLLECTIVE,
                               .progress = &progress,
                               .collectives = 1};
}

static struct gpu_span *enqueue(void *stream, uint32_t op) {
    struct gpu_launch l = launch(op);
    struct gpu_span *span = gpu_span_begin(device, stream, 1);
    progress.enqueued++;
    gpu_span_end(span, &l);
    return span;
}

/* The next record of the kind that the test has not seen. */
static const struct record *next_record(uint8_t kind) {
    const struct lane *lane = &recorder.lanes[LANE_DEVICE];
    while (seen_records < lane->head) {
        const struct record *r = &lane->ring[seen_records++ & lane->mask];
        if (r->kind == kind)
            return r;
    }
    return NULL;
}

static const struct losses *losses(void) {
    return &recorder.header->losses;
}

static void assert_near(uint64_t a, uint64_t b, uint64_t room) {
    assert_true(a > b ? a - b <= room : b - a <= room);
}

/* ---- launches -------------------------------------------------------------------------------- */

static void test_launch_becomes_a_record_and_a_row(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    enqueue(stream, 1);
    uint64_t at = os_monotonic_ns();
    assert_false(harvester_round() && next_record(RECORD_GPU));
    assert_int_equal(progress.started, 0);
    assert_int_equal(fake_run(stream, 1, at, 0), 1);
    while (os_monotonic_ns() < at + 3 * MS)
        ;
    harvester_round();
    assert_int_equal(progress.started, 1);
    assert_int_equal(progress.completed, 0);
    fake_run(stream, 1, at + 2 * MS, 0);
    assert_true(harvester_round());
    const struct record *r = next_record(RECORD_GPU);
    assert_non_null(r);
    assert_near(r->t1 - r->t0, 2 * MS, 500);
    assert_near(r->t0, at, 200000);
    assert_int_equal(r->op, 1);
    assert_int_equal(r->comm, COMM);
    assert_int_equal(r->tag, device);
    assert_int_equal(progress.completed, 1);
    uint64_t key = operation_key(CALL, SOURCE_GPU_EVENT, PEER_CLASS_NONE, comm_and_epoch(COMM));
    const struct operation_row *row = operations_find(&recorder.lanes[LANE_DEVICE], key, 4096);
    assert_int_equal(row->count, 1);
    assert_int_equal(row->time_total, r->t1 - r->t0);
    assert_int_equal(gpu.rows[0].busy_ns, r->t1 - r->t0);
    assert_string_equal(gpu.rows[0].name, "Fake GPU");
    assert_int_equal(gpu.rows[0].capacity, 16u << 20);
    assert_int_equal(gpu.rows[0].memory_used, 13u << 20);
}

/* Only the oldest launch of a stream is asked for, and one stream does not wait for another. */
static void test_only_the_oldest_stop_is_polled(void **state) {
    (void)state;
    void *a = fake_stream(0, 0), *b = fake_stream(1, 0);
    enqueue(a, 1);
    struct gpu_span *later = enqueue(a, 2);
    enqueue(b, 3);
    struct fake_event *stop = later->stop;
    harvester_round();
    harvester_round();
    assert_int_equal(stop->queries, 0);
    fake_run(b, 2, os_monotonic_ns(), 1000);
    harvester_round();
    assert_int_equal(next_record(RECORD_GPU)->op, 3);
    fake_run(a, 4, os_monotonic_ns(), 1000);
    harvester_round();
    assert_int_equal(next_record(RECORD_GPU)->op, 1);
    assert_int_equal(next_record(RECORD_GPU)->op, 2);
    assert_null(next_record(RECORD_GPU));
}

static void test_busy_time_is_a_union(void **state) {
    (void)state;
    void *a = fake_stream(0, 0), *b = fake_stream(1, 0);
    uint64_t at = os_monotonic_ns() + 20 * MS;
    while (os_monotonic_ns() < at)
        ;
    enqueue(a, 1);
    enqueue(b, 2);
    at = os_monotonic_ns();
    while (os_monotonic_ns() < at + 8 * MS)
        ;
    fake_run(a, 2, at, 4 * MS);
    fake_run(b, 2, at + 2 * MS, 4 * MS);
    harvester_round();
    assert_near(gpu.rows[0].busy_ns, 6 * MS, 5000);
}

static void test_pool_grows_and_what_finds_no_event_is_counted(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    unsigned timed = 0, rounds = 0;
    for (unsigned i = 0; i < 300; i++)
        timed += enqueue(stream, i) != NULL;
    assert_int_equal(timed, GPU_SPANS_PER_CHUNK);
    assert_int_equal(losses()->gpu_no_event, 300 - GPU_SPANS_PER_CHUNK);
    harvester_round();
    assert_int_equal(gpu.devices[0].chunk_count, 2);
    assert_non_null(enqueue(stream, 500));
    fake_run(stream, 10000, os_monotonic_ns(), 1);
    while (harvester_round() && rounds < 10)
        rounds++;
    for (timed = 0; next_record(RECORD_GPU);)
        timed++;
    assert_int_equal(timed, GPU_SPANS_PER_CHUNK + 1);
}

/* Handles are given back and taken again for as long as one likes. */
static void test_spans_are_reused(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    unsigned created = fake.calls.events_created;
    for (unsigned i = 1; i <= 2000; i++) {
        assert_non_null(enqueue(stream, i));
        fake_run(stream, 2, os_monotonic_ns(), 10);
        harvester_round();
        assert_int_equal(next_record(RECORD_GPU)->op, i);
    }
    assert_int_equal(fake.calls.events_created, created);
    gpu_span_drop(gpu_span_begin(device, stream, 1));
    assert_int_equal(losses()->gpu_no_event + losses()->gpu_failed, 0);
}

/* Another stream in each context: the device's must be current, and the job's current context comes back. */
static void test_special_handles_mean_the_devices_stream(void **state) {
    (void)state;
    fake.current = 2;
    unsigned pushes = fake.calls.pushes;
    enqueue(NULL, 1);
    assert_int_equal(fake.current, 2);
    assert_int_equal(fake.calls.pushes - pushes, 2);
    assert_int_equal(fake.calls.pushes, fake.calls.pops);
    fake.current = 0;
    fake_run(fake_legacy_stream(0), 2, os_monotonic_ns(), 1000);
    harvester_round();
    assert_non_null(next_record(RECORD_GPU));
    assert_int_equal(losses()->gpu_failed, 0);
}

static void test_stream_of_another_device_uses_that_pool(void **state) {
    (void)state;
    void *stream = fake_stream(3, 1);
    assert_null(gpu_span_begin(device, stream, 1)); /* nobody prepared events for it */
    assert_int_equal(losses()->gpu_failed, 1);
    assert_int_equal(gpu_attach_ordinal(1), 1);
    assert_int_equal(fake.current, 0);
    assert_int_equal(gpu_attach_ordinal(3), -1); /* not in use: must not become so */
    harvester_round();
    enqueue(stream, 1);
    fake_run(stream, 2, os_monotonic_ns(), 1000);
    harvester_round();
    assert_int_equal(next_record(RECORD_GPU)->tag, 1);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void test_failed_query_is_a_loss_and_no_end(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    enqueue(stream, 1);
    fake.query_error = 700;
    harvester_round();
    assert_int_equal(losses()->gpu_failed, 1);
    assert_int_equal(progress.completed, 0);
    assert_null(next_record(RECORD_GPU));
    fake.query_error = 0;
    assert_non_null(enqueue(stream, 2));
}

static void test_vanished_context_drops_the_pool_until_it_comes_again(void **state) {
    (void)state;
    static const int deadly[] = {4, 201, 400, 709};
    void *stream = fake_stream(0, 0);
    for (unsigned i = 0; i < 4; i++) {
        enqueue(stream, 1);
        fake.query_error = deadly[i];
        harvester_round();
        assert_null(gpu_span_begin(device, stream, 1));
        fake.query_error = 0;
        unsigned queries = fake.calls.queries;
        harvester_round();
        assert_int_equal(fake.calls.queries, queries); /* nothing is asked of it any more */
        assert_int_equal(gpu_attach_device(), device); /* its old place */
        harvester_round();
        assert_non_null(enqueue(stream, 2));
        fake_run(stream, 100, os_monotonic_ns(), 1);
        harvester_round();
        assert_int_equal(next_record(RECORD_GPU)->op, 2);
    }
    assert_int_equal(losses()->gpu_failed, 8);
}

/* Destroyed by a way that is not seen: its events may be gone, too, and asking for one could end the process. */
static void test_events_of_a_destroyed_context_are_left_alone(void **state) {
    (void)state;
    enqueue(fake_stream(0, 0), 1);
    fake.current = -1; /* as in the harvester's own thread */
    fake.push_error = 709;
    unsigned queries = fake.calls.queries;
    harvester_round();
    fake.push_error = 0;
    harvester_round();
    assert_int_equal(fake.calls.queries, queries);
    assert_int_equal(losses()->gpu_failed, 1);
}

static void test_failed_record_times_nothing(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    fake.record_error = 999;
    assert_null(gpu_span_begin(device, stream, 1));
    fake.record_error = 0;
    struct gpu_span *span = gpu_span_begin(device, stream, 1);
    struct gpu_launch l = launch(1);
    fake.record_error = 999;
    gpu_span_end(span, &l);
    fake.record_error = 0;
    assert_int_equal(losses()->gpu_failed, 2);
    gpu_span_end(NULL, &l);
    fake_run(stream, 10, os_monotonic_ns(), 1);
    harvester_round();
    assert_null(next_record(RECORD_GPU));
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void test_aborted_launches_are_unfinished(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    enqueue(stream, 1);
    fake_run(stream, 2, os_monotonic_ns(), 1000);
    enqueue(stream, 2);
    gpu_abort_communicator(COMM);
    assert_int_equal(next_record(RECORD_GPU)->op, 1); /* had ended before */
    fake_run(stream, 2, os_monotonic_ns(), 1000);
    harvester_round();
    assert_null(next_record(RECORD_GPU));
    assert_int_equal(losses()->gpu_unfinished, 1);
}

static void test_quiesce_takes_what_is_done_and_loses_the_rest(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    enqueue(stream, 1);
    enqueue(stream, 2);
    fake_run(stream, 2, os_monotonic_ns(), 1000);
    harvester_quiesce(&gpu.devices[0]);
    assert_int_equal(next_record(RECORD_GPU)->op, 1);
    assert_int_equal(losses()->gpu_unfinished, 1);
    unsigned records = fake.calls.records, queries = fake.calls.queries;
    assert_null(gpu_span_begin(device, stream, 1));
    harvester_round();
    assert_int_equal(fake.calls.records, records);
    assert_int_equal(fake.calls.queries, queries);
}

static void test_end_looks_once_and_asks_nothing_more(void **state) {
    (void)state;
    void *a = fake_stream(0, 0), *b = fake_stream(1, 0);
    enqueue(a, 1);
    enqueue(b, 2);
    enqueue(b, 3);
    fake_run(a, 2, os_monotonic_ns(), 1000);
    gpu_timing_exit();
    assert_int_equal(next_record(RECORD_GPU)->op, 1);
    assert_int_equal(losses()->gpu_unfinished, 2);
    unsigned queries = fake.calls.queries;
    assert_false(harvester_round());
    assert_null(gpu_span_begin(device, a, 1));
    gpu_timing_exit();
    assert_int_equal(fake.calls.queries, queries);
    assert_int_equal(losses()->gpu_unfinished, 2);
}

static void test_forked_child_touches_nothing(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    enqueue(stream, 1);
    pid_t child = fork();
    if (child == 0) {
        bool silent = !gpu_span_begin(device, stream, 1) && !harvester_round();
        gpu_timing_exit();
        _exit(silent && losses()->gpu_unfinished == 0 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

/* The real thread, ended at all moments of its work. */
static void test_thread_ends_with_the_process_at_any_moment(void **state) {
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            fake_gpu_begin(false);
            if (!activate_process() || gpu_attach_device() != 0)
                _exit(1);
            void *stream = fake_stream(0, 0);
            for (uint32_t op = 1; op < 200 + i * 20; op++) {
                enqueue(stream, op);
                fake_run(stream, 1 + op % 3, os_monotonic_ns(), 10);
            }
            gpu_timing_exit();
            const struct lane *lane = &recorder.lanes[LANE_DEVICE];
            uint64_t timed = 0, all = losses()->gpu_unfinished + losses()->gpu_no_event;
            for (uint64_t k = 0; k < lane->head; k++)
                timed += lane->ring[k & lane->mask].kind == RECORD_GPU;
            _exit(timed + all == 199 + i * 20 && losses()->gpu_failed == 0 ? 0 : 2);
        }
        int status;
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
    }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static char graph[8], executables[8];

static void capture_two(void *stream, uint32_t streams_of_second) {
    fake.capture_graph = graph;
    fake.capture_id++;
    fake_capture(stream, true);
    for (uint32_t op = 1; op <= 2; op++) {
        struct gpu_launch l = launch(op);
        struct gpu_span *span = gpu_span_begin(device, stream, op == 2 ? streams_of_second : 1);
        assert_true(gpu_span_is_captured(span));
        gpu_span_end(span, &l);
    }
    fake_capture(stream, false);
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
        struct gpu_span *span = graphs_before_launch(&executables[0], stream);
        assert_non_null(span);
        graphs_launched(span, true);
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

static void test_unfinished_replays_are_counted(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture_two(stream, 1);
    graphs_instantiated(&executables[0], graph);
    for (unsigned i = 0; i < 10; i++)
        graphs_launched(graphs_before_launch(&executables[0], stream), true);
    assert_int_equal(losses()->replays_untimed, 9 * 2);
    fake_replay(os_monotonic_ns(), 1000);
    fake_run(stream, 10, os_monotonic_ns(), 0);
    harvester_round();
    assert_int_equal(next_record(RECORD_GPU)->op, 1);
    assert_int_equal(next_record(RECORD_GPU)->op, 2);
    assert_null(next_record(RECORD_GPU));
    assert_int_equal(losses()->replays_untimed, 9 * 2);
    graphs_launched(graphs_before_launch(&executables[0], stream), true);
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
        struct gpu_span *span = graphs_before_launch(&executables[0], stream);
        if (!span)
            continue; /* counted as a loss: no free span */
        graphs_launched(span, true);
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
    graphs_launched(graphs_before_launch(&executables[0], stream), true);
    fake_run(stream, 1, os_monotonic_ns(), 0);
    harvester_round();
    assert_null(next_record(RECORD_GPU));
    assert_int_equal(losses()->replays_untimed, 2);
}

static void test_captured_launch_of_several_streams_is_only_counted(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    capture_two(stream, 2);
    assert_int_equal(fake.calls.external_records, 2);
    graphs_instantiated(&executables[0], graph);
    graphs_launched(graphs_before_launch(&executables[0], stream), true);
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
    assert_null(graphs_before_launch(&executables[0], stream));
    graphs_destroyed(graph);
    graphs_instantiated(&executables[1], graph); /* one that holds nothing of ours */
    assert_null(graphs_before_launch(&executables[1], stream));
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

/* ---- waits ----------------------------------------------------------------------------------- */

static void test_wait_for_communication_is_exposed_until_it_ends(void **state) {
    (void)state;
    static char job_event[2];
    void *communication = fake_stream(0, 0), *compute = fake_stream(1, 0);
    enqueue(communication, 1);
    waits_event_recorded(&job_event[0], communication);
    waits_event_recorded(&job_event[1], compute);
    unsigned records = fake.calls.records;
    waits_before_wait(compute, &job_event[1]); /* behind no communication */
    assert_int_equal(fake.calls.records, records);
    waits_before_wait(compute, &job_event[0]);
    assert_int_equal(fake.calls.records, records + 1);
    uint64_t at = os_monotonic_ns();
    while (os_monotonic_ns() < at + 9 * MS)
        ;
    fake_run(communication, 2, at, 8 * MS);
    fake_run(compute, 1, at + 3 * MS, 0);
    harvester_round();
    const struct record *r = next_record(RECORD_EXPOSED);
    assert_non_null(r);
    assert_int_equal(r->op, 1);
    assert_near(r->t1 - r->t0, 5 * MS, 5000);
    assert_int_equal(gpu.rows[0].exposed_waits, 1);
    assert_near(gpu.rows[0].exposed_ns, 5 * MS, 5000);
    waits_before_wait(compute, &job_event[0]); /* it has ended, as we know by now */
    assert_int_equal(fake.calls.records, records + 1);
}

/* The wait may be harvested before the launch that it waits for; one that comes late exposes nothing. */
/* Programs built with a default stream per thread: an event of ours on the legacy one would make all streams wait. */
static void test_default_stream_of_a_thread(void **state) {
    (void)state;
    static char job_event;
    void *communication = fake_stream(0, 0);
    enqueue(communication, 1);
    cudaEventRecord((uintptr_t)&job_event, (uintptr_t)communication, 0, 0, 0);
    cudaStreamWaitEvent_ptsz(0, (uintptr_t)&job_event, 0, 0, 0);
    assert_ptr_equal(fake.recorded_on, GPU_STREAM_PER_THREAD);
    cudaStreamWaitEvent(0, (uintptr_t)&job_event, 0, 0, 0);
    assert_null(fake.recorded_on);
}

static void test_wait_that_comes_late_exposes_nothing(void **state) {
    (void)state;
    static char job_event;
    void *communication = fake_stream(0, 0), *compute = fake_stream(1, 0);
    enqueue(communication, 1);
    waits_event_recorded(&job_event, communication);
    waits_before_wait(compute, &job_event);
    uint64_t at = os_monotonic_ns();
    while (os_monotonic_ns() < at + 6 * MS)
        ;
    fake_run(compute, 1, at + 5 * MS, 0);
    harvester_round();
    assert_null(next_record(RECORD_EXPOSED));
    fake_run(communication, 2, at, 2 * MS);
    harvester_round();
    const struct record *r = next_record(RECORD_EXPOSED);
    assert_int_equal(r->t1, r->t0);
    assert_int_equal(gpu.rows[0].exposed_ns, 0);
    assert_int_equal(gpu.rows[0].exposed_waits, 1);
}

/* ---- clock and mode -------------------------------------------------------------------------- */

static void test_clock_reads_from_the_nearest_anchor_at_the_devices_rate(void **state) {
    (void)state;
    struct fake_event events[3] = {{.state = 2, .device_ns = 0},
                                   {.state = 2, .device_ns = 3600 * 1000 * MS},
                                   {.state = 2, .device_ns = 3600 * 1000 * MS + 123456}};
    struct device_clock clock = {.taken = 2, .rate = 1.0001};
    clock.anchors[0].event = &events[0];
    clock.anchors[0].monotonic_ns = 5000;
    clock.anchors[1].event = &events[1];
    clock.anchors[1].monotonic_ns = 1000 * MS;
    uint64_t ns;
    assert_int_equal(device_clock_read(&clock, &events[2], &ns), GPU_SUCCESS);
    assert_near(ns, 1000 * MS + 123468, 2); /* from the anchor an hour ago: off by up to 250000 */
    events[2].device_ns = 3600 * 1000 * MS - 2 * MS;
    assert_int_equal(device_clock_read(&clock, &events[2], &ns), GPU_SUCCESS);
    assert_near(ns, 998 * MS - 200, 2);
    clock.taken = 0;
    assert_int_equal(device_clock_read(&clock, &events[2], &ns), GPU_NOT_READY);
}

static void test_anchors_are_taken_and_listed(void **state) {
    (void)state;
    const struct device_clock *clock = &gpu.devices[0].clock;
    assert_int_equal(clock->taken, 1);
    gpu.devices[0].clock.due_ns = 0;
    harvester_round();
    assert_int_equal(clock->taken, 2);
    assert_true(clock->due_ns <= os_monotonic_ns() + 4000 * MS);
    assert_true(clock->anchors[1].monotonic_ns > clock->anchors[0].monotonic_ns);
    assert_int_equal(gpu.rows[0].last_anchor_ns, clock->anchors[1].monotonic_ns);
}

/* A full table keeps every second anchor, evenly, and goes on. */
static void test_anchor_table_is_thinned(void **state) {
    (void)state;
    const struct section *section = NULL;
    for (uint32_t i = 0; i < SECTIONS_MAX; i++)
        if (recorder.header->sections[i].kind == SECTION_DEVICE_ANCHORS)
            section = &recorder.header->sections[i];
    assert_non_null(section);
    uint32_t rows = section->count;
    while (gpu.devices[0].clock.taken < rows + rows / 2) {
        gpu.devices[0].clock.due_ns = 0;
        harvester_round();
    }
    const struct device_anchor *anchors = recorder.file.contents[section - recorder.header->sections];
    uint32_t used = 0;
    for (uint32_t i = 0; i < rows; i++)
        if (anchors[i].version) {
            assert_int_equal(anchors[i].reserved[0] % 2, 0);
            used++;
        }
    assert_true(used >= rows / 2 && used <= rows);
}

static void test_mode(void **state) {
    (void)state;
    static const struct {
        const char *wanted;
        struct gpu_surroundings around;
        enum gpu_timing mode;
        bool explained;
    } cases[] = {
        {"auto", {.driver = true}, GPU_TIMING_EVENTS, false},
        {"auto", {.driver = true, .one_connection = true}, GPU_TIMING_HOST, true},
        {"auto", {.driver = true, .one_connection = true, .kernel = true}, GPU_TIMING_KERNEL, true},
        {"auto", {.driver = false}, GPU_TIMING_HOST, true},
        {"events", {.driver = true, .one_connection = true}, GPU_TIMING_EVENTS, false},
        {"kernel", {.driver = true}, GPU_TIMING_EVENTS, true},
        {"kernel", {.driver = true, .kernel = true}, GPU_TIMING_KERNEL, false},
        {"host", {.driver = true}, GPU_TIMING_HOST, false},
        {"off", {.driver = true}, GPU_TIMING_OFF, false},
        {"evnets", {.driver = true}, GPU_TIMING_EVENTS, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why;
        assert_int_equal(gpu_mode_choose(cases[i].wanted, &cases[i].around, &why), cases[i].mode);
        assert_int_equal(why != NULL, cases[i].explained);
    }
}

#define PLAIN(test)  cmocka_unit_test_setup(test, begin_plain)
#define GRAPHS(test) cmocka_unit_test_setup(test, begin_graphs)

int main(void) {
    const struct CMUnitTest tests[] = {
        PLAIN(test_launch_becomes_a_record_and_a_row),
        PLAIN(test_only_the_oldest_stop_is_polled),
        PLAIN(test_busy_time_is_a_union),
        PLAIN(test_pool_grows_and_what_finds_no_event_is_counted),
        PLAIN(test_spans_are_reused),
        PLAIN(test_special_handles_mean_the_devices_stream),
        PLAIN(test_stream_of_another_device_uses_that_pool),
        PLAIN(test_failed_query_is_a_loss_and_no_end),
        PLAIN(test_vanished_context_drops_the_pool_until_it_comes_again),
        PLAIN(test_events_of_a_destroyed_context_are_left_alone),
        PLAIN(test_failed_record_times_nothing),
        PLAIN(test_aborted_launches_are_unfinished),
        PLAIN(test_quiesce_takes_what_is_done_and_loses_the_rest),
        PLAIN(test_end_looks_once_and_asks_nothing_more),
        PLAIN(test_forked_child_touches_nothing),
        PLAIN(test_thread_ends_with_the_process_at_any_moment),
        GRAPHS(test_each_replay_of_a_graph_is_timed),
        GRAPHS(test_unfinished_replays_are_counted),
        GRAPHS(test_no_replay_is_both_timed_and_counted),
        GRAPHS(test_stale_nodes_are_not_believed),
        GRAPHS(test_captured_launch_of_several_streams_is_only_counted),
        GRAPHS(test_graph_handles_are_reused),
        GRAPHS(test_unseen_replays_are_sampled),
        PLAIN(test_without_graph_functions_captures_are_left_alone),
        PLAIN(test_wait_for_communication_is_exposed_until_it_ends),
        PLAIN(test_default_stream_of_a_thread),
        PLAIN(test_wait_that_comes_late_exposes_nothing),
        PLAIN(test_clock_reads_from_the_nearest_anchor_at_the_devices_rate),
        PLAIN(test_anchors_are_taken_and_listed),
        PLAIN(test_anchor_table_is_thinned),
        PLAIN(test_mode),
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
