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

#include <dirent.h>
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
    setenv("COMMTAP_HEARTBEAT", "off", 1); /* the test forks, which the thread sanitizer takes of one thread alone */
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
    recorder.header->captured_unfollowed = 0;
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

static const struct operation_row *row_of(uint16_t call, uint64_t bytes) {
    uint64_t key = operation_key(call, SOURCE_GPU_EVENT, PEER_CLASS_NONE, comm_and_epoch(COMM));
    return operations_find(&recorder.lanes[LANE_DEVICE], key, bytes);
}

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
    assert_int_equal(progress.begun_op, 1);
    assert_in_range(progress.begun_ns, at, os_monotonic_ns());
    assert_int_equal(progress.ended_op, 0);
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
    assert_int_equal(progress.ended_op, 1);
    const struct operation_row *row = row_of(CALL, 4096);
    assert_int_equal(row->count, 1);
    assert_int_equal(row->time_total, r->t1 - r->t0);
    assert_int_equal(gpu.rows[0].busy_ns, r->t1 - r->t0);
    assert_string_equal(gpu.rows[0].name, "Fake GPU");
    assert_int_equal(gpu.rows[0].capacity, 16u << 20);
    assert_int_equal(gpu.rows[0].memory_used, 13u << 20);
}

static void enqueue_launch(void *stream, const struct gpu_launch *l) {
    struct gpu_span *span = gpu_span_begin(device, stream, 1);
    progress.enqueued++;
    gpu_span_end(span, l);
}

/* Three of 1000 bytes in 6 ms are three of 2 ms. */
static void test_alike_operations_of_a_launch_are_counted_each(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    struct gpu_launch l = launch(1);
    l.call = CALL + 1;
    l.bytes = 3000;
    l.parts = l.count = 3;
    enqueue_launch(stream, &l);
    fake_run(stream, 2, os_monotonic_ns(), 6 * MS);
    harvester_round();
    const struct record *r = next_record(RECORD_GPU);
    assert_int_equal(r->bytes, 3000);
    assert_int_equal(r->result, 2);
    assert_null(next_record(RECORD_GPU));
    const struct operation_row *row = row_of(CALL + 1, 1000);
    assert_int_equal(row->count, 3);
    assert_int_equal(row->bytes_total, 3000);
    assert_int_equal(row->time_total, r->t1 - r->t0);
    assert_false(r->flags & FLAG_SHARE);
    assert_int_equal(row->shares + row->shares_total, 0);
    assert_near(row->time_max, 2 * MS, 1000);
}

/* Two communicators of one group between the same two events: 8 ms are 2 ms of one operation and 6 ms of three. */
static void test_launches_of_one_stream_share_its_interval(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    struct gpu_launch one = launch(1), three = launch(2);
    one.share_own = 1;
    three.share_before = 1;
    three.share_own = 3;
    one.share_all = three.share_all = 4;
    struct gpu_span *first = gpu_span_begin(device, stream, 1), *second = gpu_span_begin(device, stream, 1);
    gpu_span_end(first, &one);
    gpu_span_end(second, &three);
    uint64_t at = os_monotonic_ns();
    fake_run(stream, 2, at, 0);
    fake_run(stream, 2, at + 8 * MS, 0);
    while (os_monotonic_ns() < at + 9 * MS) /* what has not happened yet would be moved */
        ;
    uint64_t busy = gpu.rows[0].busy_ns;
    const struct operation_row *row = row_of(CALL, 4096), before = *row;
    harvester_round();
    const struct record *a = next_record(RECORD_GPU), *b = next_record(RECORD_GPU);
    assert_near(a->t1 - a->t0, 2 * MS, 1000);
    assert_near(b->t1 - b->t0, 6 * MS, 1000);
    assert_near(a->t1, b->t0, 1000);
    assert_true(a->flags & b->flags & FLAG_SHARE);
    assert_int_equal(row->shares - before.shares, 2);
    assert_int_equal(row->shares_total - before.shares_total, row->time_total - before.time_total);
    assert_near(gpu.rows[0].busy_ns - busy, 8 * MS, 2000);
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

/* The harvester may sleep for longer than a burst takes: the threads that launch make what is missing, and lose
 * nothing. */
static void test_a_burst_makes_what_the_pool_lacks(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    enum { BURST = 3000 };
    unsigned timed = 0;
    for (unsigned i = 0; i < BURST; i++)
        timed += enqueue(stream, i) != NULL;
    assert_int_equal(timed, BURST);
    assert_int_equal(gpu.devices[0].span_count, BURST);
    fake_run(stream, 2 * BURST, os_monotonic_ns(), 1);
    while (harvester_round())
        ;
    uint32_t there = gpu.devices[0].span_count;
    assert_in_range(there, BURST + 1, 2 * BURST + GPU_SPANS_PER_CHUNK); /* at most twice those that waited */
    for (unsigned i = 0; i < BURST; i++)
        enqueue(stream, i);
    assert_int_equal(gpu.devices[0].span_count, there); /* the same burst finds them free */
    assert_int_equal(losses()->gpu_no_event, 0);
}

/* In the context of the stream, whichever the calling thread is in. */
static void test_events_are_made_in_the_context_of_their_device(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    for (unsigned i = 0; i < GPU_SPANS_PER_CHUNK; i++)
        enqueue(stream, i);
    fake.current = 1;
    enqueue(stream, GPU_SPANS_PER_CHUNK);
    assert_int_equal(fake.current, 1);
    fake.current = 0;
    fake_run(stream, 2 * GPU_SPANS_PER_CHUNK + 2, os_monotonic_ns(), 1);
    unsigned timed = 0;
    while (harvester_round())
        ;
    while (next_record(RECORD_GPU))
        timed++;
    assert_int_equal(timed, GPU_SPANS_PER_CHUNK + 1);
}

static void test_what_finds_no_event_is_counted(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    unsigned timed = 0;
    for (unsigned i = 0; i < GPU_SPANS_MAX + 10; i++)
        timed += enqueue(stream, i) != NULL;
    assert_int_equal(timed, GPU_SPANS_MAX);
    assert_int_equal(losses()->gpu_no_event, 10);
}

/* Nobody waits for the harvester: it is woken while there is still half of a chunk left, once for each look. */
static void test_a_pool_that_runs_low_wakes_the_harvester(void **state) {
    (void)state;
    void *stream = fake_stream(0, 0);
    for (unsigned i = 1; i < GPU_SPANS_PER_CHUNK / 2; i++)
        enqueue(stream, i);
    assert_int_equal(gpu.wanted, 0);
    enqueue(stream, GPU_SPANS_PER_CHUNK / 2);
    assert_int_equal(gpu.wanted, 1);
    assert_int_equal(gpu.devices[0].wake_at, 0);
    for (unsigned looks = 0; looks < 20;
         looks++) { /* more than a look's worth between two of them: still none is lost */
        gpu.wanted = 0;
        harvester_round();
        for (unsigned i = 0; i < 1000 && !gpu.wanted; i++)
            enqueue(stream, i);
    }
    assert_int_equal(losses()->gpu_no_event, 0);
    assert_true(gpu.devices[0].span_count > 10 * GPU_SPANS_PER_CHUNK);
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
    assert_int_equal(progress.ended_op, 0);
    assert_int_equal(progress.unfollowed_op, 1);
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

static bool has_thread(const char *name) {
    bool found = false;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && !found && (task = readdir(tasks)) != NULL;) {
        char path[300], text[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        found = file && fgets(text, sizeof text, file) && strncmp(text, name, strlen(name)) == 0;
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

/* Once the thread has ended: on a busy machine the process does not wait for the round that it is at. Its end is seen
 * by the kernel's word alone, which the thread sanitizer does not know. */
static __attribute__((no_sanitize("thread"))) uint64_t launches_accounted_for(void) {
    const struct lane *lane = &recorder.lanes[LANE_DEVICE];
    while (has_thread("commtap-gpu"))
        usleep(1000);
    uint64_t count = losses()->gpu_unfinished + losses()->gpu_no_event;
    for (uint64_t k = 0; k < lane->head; k++)
        count += lane->ring[k & lane->mask].kind == RECORD_GPU;
    return count;
}

/* The real thread, ended at all moments of its work. */
static void test_thread_ends_with_the_process_at_any_moment(void **state) {
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            fake_gpu_begin(false);
            if (!activate_process() || gpu_attach_device() != 0)
                _exit(1);
            void *stream = fake_stream(0, 0);
            for (uint32_t op = 1; op < 200 + i * 20; op++) {
                enqueue(stream, op);
                fake_run(stream, 1 + op % 3, os_monotonic_ns(), 10);
            }
            gpu_timing_exit();
            _exit(launches_accounted_for() == 199 + i * 20 && losses()->gpu_failed == 0 ? 0 : 2);
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
    assert_int_equal(device_clock_read(&clock, &events[2], &ns, NULL), GPU_SUCCESS);
    assert_near(ns, 1000 * MS + 123468, 2); /* from the anchor an hour ago: off by up to 250000 */
    events[2].device_ns = 3600 * 1000 * MS - 2 * MS;
    assert_int_equal(device_clock_read(&clock, &events[2], &ns, NULL), GPU_SUCCESS);
    assert_near(ns, 998 * MS - 200, 2);
    clock.taken = 0;
    assert_int_equal(device_clock_read(&clock, &events[2], &ns, NULL), GPU_NOT_READY);
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

/* Where all rests on one wide anchor the next one is tried for again and again, soon at first; a narrow one is enough.
 */
static void test_a_wide_anchor_is_replaced_soon(void **state) {
    (void)state;
    struct device_clock *clock = &gpu.devices[0].clock;
    clock->anchors[0].width_ns = 8 * MS;
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t after[] = {5 * MS, 40 * MS, 900 * MS}, until[] = {10 * MS, 40 * MS, 250 * MS};
        uint64_t now = clock->anchors[0].monotonic_ns + after[i];
        fake.query_error = GPU_NOT_READY;
        assert_false(device_clock_take(clock, now));
        fake.query_error = 0;
        assert_int_equal(clock->due_ns, now + until[i]);
    }
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
        {"host", {.driver = true}, GPU_TIMING_HOST, true},
        {"off", {.driver = true}, GPU_TIMING_OFF, true},
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
        PLAIN(test_alike_operations_of_a_launch_are_counted_each),
        PLAIN(test_launches_of_one_stream_share_its_interval),
        PLAIN(test_only_the_oldest_stop_is_polled),
        PLAIN(test_busy_time_is_a_union),
        PLAIN(test_a_burst_makes_what_the_pool_lacks),
        PLAIN(test_events_are_made_in_the_context_of_their_device),
        PLAIN(test_what_finds_no_event_is_counted),
        PLAIN(test_a_pool_that_runs_low_wakes_the_harvester),
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
        PLAIN(test_wait_for_communication_is_exposed_until_it_ends),
        PLAIN(test_default_stream_of_a_thread),
        PLAIN(test_wait_that_comes_late_exposes_nothing),
        PLAIN(test_clock_reads_from_the_nearest_anchor_at_the_devices_rate),
        PLAIN(test_anchors_are_taken_and_listed),
        PLAIN(test_a_wide_anchor_is_replaced_soon),
        PLAIN(test_anchor_table_is_thinned),
        PLAIN(test_mode),
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
