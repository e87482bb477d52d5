/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU timing over a driver that a test steps through: launches, pools, errors, waits, ends. Graphs: test_gpu_graphs.c.
 * Must not live here: what only a driver that really runs can show (end-to-end tests on the stand-in).
 */
#include "gpu_fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>

#include "shim/gpu/waits.h"

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
