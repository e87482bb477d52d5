/* SPDX-License-Identifier: Apache-2.0
 *
 * The profiler plugin by hand: events in and out of order, several threads' worth of channels, replays, proxies of
 * other processes, handles that come too late, pools that run out; and the distance of a globaltimer.
 * Must not live here: a library that makes events (test/e2e/test_nccl_plugin.py).
 */
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shim/gpu/finish.h"
#include "shim/gpu/globaltimer.h"
#include "shim/gpu/harvester.h"
#include "shim/gpu/kernel_times.h"
#include "shim/intercept/activate.h"
#include "shim/nccl/nccl_begin.h"
#include "shim/nccl/nccl_frame.h"
#include "shim/nccl/nccl_groups.h"
#include "shim/nccl/nccl_sensors.h"
#include "shim/nccl/plugin.h"
#include "shim/nccl/plugin_abi.h"
#include "shim/nccl/plugin_proxy.h"
#include "test/unit/fake_gpu.h"

#define US    1000ull
#define MS    1000000ull
#define COMM  7u
#define AHEAD 5000000000000ull /* of globaltimer */
#define WIDE  (2 * GLOBALTIMER_FETCH_NS)

extern const struct profiler_v4 ncclProfiler_v4;
extern const struct profiler_v5 ncclProfiler_v5, ncclProfiler_v6;

static char directory[] = "/tmp/commtap-unit-XXXXXX";
static struct progress progress;
static struct communicator communicator;
static struct thread thread;
static struct nccl_frame frame;
static struct nccl_group group;
static struct group_launch launch_of_group;
static uint64_t seen_records;
static void *context;
static int mask;

/* What is left out with the wrappers. */
bool nccl_begin(const void *function) {
    (void)function;
    return true;
}
struct group_launch *group_find_launch(struct thread *self, struct communicator *c) {
    (void)self;
    launch_of_group.comm = c;
    return &launch_of_group;
}

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_RING", "16384", 1);
    knobs_read(&recorder.knobs);
    return activate_process() && sensors_begin() ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

/* A fresh engine that times by stamps, a communicator, and a thread in a call of it. */
static int begin(void **state) {
    (void)state;
    fake_gpu_begin(false);
    memset(&gpu, 0, sizeof gpu);
    memset(&recorder.header->losses, 0, sizeof recorder.header->losses);
    memset(&recorder.lanes[LANE_DEVICE], 0, sizeof recorder.lanes[LANE_DEVICE]);
    recorder.file.section_count = 20;
    gpu.generation = *recorder_armed;
    gpu.kernel = 1;
    assert_true(kernel_times_begin());
    harvester_also = proxy_look;
    assert_null(harvester_prepare());
    assert_true(proxy_begin());
    progress = (struct progress){.version = 2, .comm = COMM};
    assert_int_equal(gpu_attach_device(), 0);
    harvester_round();
    seen_records = recorder.lanes[LANE_DEVICE].head;
    communicator = (struct communicator){.index = COMM, .size = 4, .progress = &progress};
    thread = (struct thread){.generation = *recorder_armed, .outer = 1, .frame = &frame.call};
    frame = (struct nccl_frame){
        .call = {.self = &thread, .comm = &communicator, .call = &commtap_calls[INDEX_ncclAllReduce]}};
    group = (struct nccl_group){.depth = 1};
    launch_of_group = (struct group_launch){0};
    this_thread = &thread;
    context = NULL;
    assert_int_equal(ncclProfiler_v5.init(&context, 1, &mask, NULL, 1, 4, 0, NULL), 0);
    assert_non_null(context);
    return 0;
}

static int end(void **state) {
    (void)state;
    ncclProfiler_v5.finalize(context);
    this_thread = NULL;
    return 0;
}

/* ---- what NCCL does -------------------------------------------------------------------------- */

static void *started(const struct profiler_event *event) {
    void *handle = &handle;
    assert_int_equal(ncclProfiler_v5.start(context, &handle, event), 0);
    assert_ptr_not_equal(handle, &handle); /* always written */
    return handle;
}

static void *call(bool captured) {
    struct profiler_event event = {.type = PROFILER_COLL_API};
    event.collective_call.function = "AllReduce";
    event.collective_call.captured = captured;
    return started(&event);
}

static void *announcement(void) {
    return started(&(struct profiler_event){.type = PROFILER_GROUP});
}

static void *task(void *parent, void *announced, uint8_t channels) {
    struct profiler_event event = {.type = PROFILER_COLL, .parent = parent};
    event.collective.function = "AllReduce";
    event.collective.channels = channels;
    event.collective.group = announced;
    return started(&event);
}

static void *channel(void *parent, uint64_t host_ns) {
    struct profiler_event event = {.type = PROFILER_KERNEL_CH, .parent = parent};
    event.kernel.stamp = host_ns + AHEAD;
    return started(&event);
}

static void channel_ends(void *handle, uint64_t host_ns) {
    ncclProfiler_v5.state(handle, PROFILER_KERNEL_CH_STOP,
                          &(union profiler_state_details){.kernel = {.stamp = host_ns + AHEAD}});
    ncclProfiler_v5.stop(handle);
}

static void launched(uint32_t op) {
    progress.enqueued++;
    const struct gpu_launch facts = {.bytes = 4096,
                                     .seq = op,
                                     .op = op,
                                     .comm = COMM,
                                     .peer = PEER_NONE,
                                     .call = frame.call.call->id,
                                     .flags = FLAG_COLLECTIVE,
                                     .progress = &progress,
                                     .collectives = 1};
    kernel_span_launch(frame.kernel, 0, &facts);
    frame.kernel = NULL;
    frame.call.told = 0;
}

/* A whole launch on one channel, run at once. */
static void run(uint32_t op) {
    void *t = task(call(false), announcement(), 1);
    launched(op);
    uint64_t now = os_monotonic_ns();
    void *c = channel(t, now);
    channel_ends(c, now);
}

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

/* ---- launches -------------------------------------------------------------------------------- */

static void test_first_start_to_last_stop(void **state) {
    (void)state;
    void *t = task(call(false), announcement(), 2);
    launched(3);
    ncclProfiler_v5.stop(t); /* means enqueued */
    assert_false(harvester_round() && next_record(RECORD_KERNEL));
    assert_int_equal(progress.started, 0);
    uint64_t now = os_monotonic_ns();
    void *a = channel(t, now + 3), *b = channel(t, now);
    harvester_round();
    assert_int_equal(progress.started, 1);
    assert_int_equal(progress.completed, 0);
    assert_int_equal(progress.begun_op, 3);
    assert_int_equal(progress.ended_op, 0);
    channel_ends(a, now + 50);
    assert_false(harvester_round() && next_record(RECORD_KERNEL));
    channel_ends(b, now + 40);
    harvester_round();
    const struct record *r = next_record(RECORD_KERNEL);
    assert_non_null(r);
    assert_int_equal(r->t1 - r->t0, 50);
    assert_in_range(r->t0, now - 20 * MS, os_monotonic_ns());
    assert_int_equal(r->op, 3);
    assert_int_equal(r->comm, COMM);
    assert_int_equal(progress.completed, 1);
    assert_int_equal(progress.ended_op, 3);
    assert_null(next_record(RECORD_KERNEL));
}

static void test_stamps_before_the_facts(void **state) {
    (void)state;
    void *t = task(call(false), announcement(), 1);
    uint64_t now = os_monotonic_ns();
    channel_ends(channel(t, now), now + 9);
    assert_false(harvester_round() && next_record(RECORD_KERNEL));
    launched(1);
    harvester_round();
    const struct record *r = next_record(RECORD_KERNEL);
    assert_non_null(r);
    assert_int_equal(r->t1 - r->t0, 9);
}

static void test_a_group_is_one_launch(void **state) {
    (void)state;
    thread.parts[PART_GROUP].memory = &group;
    void *first = call(false), *second = call(false), *announced = announcement();
    assert_ptr_equal(first, second);
    frame.kernel = launch_of_group.kernel;
    void *t = task(first, announced, 1);
    uint64_t now = os_monotonic_ns();
    channel_ends(channel(t, now), now + 10);
    launched(1);
    assert_false(harvester_round() && next_record(RECORD_KERNEL)); /* its second member is to come */
    t = task(second, announced, 1);
    channel_ends(channel(t, now + 20), now + 30);
    harvester_round();
    const struct record *r = next_record(RECORD_KERNEL);
    assert_non_null(r);
    assert_int_equal(r->t1 - r->t0, 30);
}

static void test_channels_that_are_not_told(void **state) {
    (void)state;
    void *t = task(call(false), announcement(), 0);
    launched(1);
    uint64_t now = os_monotonic_ns();
    channel_ends(channel(t, now), now + 10);
    assert_false(harvester_round() && next_record(RECORD_KERNEL));
    channel_ends(channel(t, now), now + 25);
    while (os_monotonic_ns() < now + KERNEL_QUIET_NS + 10 * MS)
        ;
    harvester_round();
    const struct record *r = next_record(RECORD_KERNEL);
    assert_non_null(r);
    assert_int_equal(r->t1 - r->t0, 25);
}

static void test_a_launch_without_stamps_is_overtaken(void **state) {
    (void)state;
    task(call(false), announcement(), 1);
    launched(1);
    harvester_round();
    assert_int_equal(losses()->gpu_no_event, 0);
    run(2);
    harvester_round();
    assert_int_equal(losses()->gpu_no_event, 1);
    assert_int_equal(next_record(RECORD_KERNEL)->op, 2);
    assert_int_equal(progress.completed, 2);
}

static void test_handles_that_come_too_late(void **state) {
    (void)state;
    void *t = task(call(false), announcement(), 1);
    launched(1);
    uint64_t now = os_monotonic_ns();
    void *c = channel(t, now);
    channel_ends(c, now);
    harvester_round();
    assert_non_null(next_record(RECORD_KERNEL));
    assert_null(channel(t, now)); /* its span is free */
    void *other = task(call(false), announcement(), 1);
    assert_ptr_not_equal(other, t); /* the same span in another life */
    channel_ends(c, now + 500 * MS);
    assert_null(channel(t, now));
    launched(2);
    channel_ends(channel(other, now), now + 5);
    harvester_round();
    const struct record *r = next_record(RECORD_KERNEL);
    assert_int_equal(r->t1 - r->t0, 5);
    assert_null(channel((void *)0x7ffff7a01230, now)); /* somebody else's pointer */
    assert_null(channel(NULL, now));
    assert_null(channel((void *)UINTPTR_MAX, now));
}

static void test_an_aborted_communicator(void **state) {
    (void)state;
    task(call(false), announcement(), 1);
    launched(1);
    finish_abort(COMM);
    harvester_round();
    assert_int_equal(losses()->gpu_unfinished, 1);
    assert_null(next_record(RECORD_KERNEL));
    assert_int_equal(kernel_times_waiting(), 0);
}

static void test_more_launches_than_spans(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KERNEL_SPANS; i++) {
        frame.kernel = NULL;
        assert_non_null(call(false));
    }
    frame.kernel = NULL;
    assert_null(call(false));
    kernel_span_drop(kernel_span_find(5, 1));
    assert_non_null(call(false));
}

static void test_the_end_counts_what_is_open(void **state) {
    (void)state;
    void *t = task(call(false), announcement(), 1);
    launched(1);
    channel(t, os_monotonic_ns());
    harvester_end();
    assert_int_equal(losses()->gpu_unfinished, 1);
    assert_null(channel(t, os_monotonic_ns()));
}

/* ---- replays --------------------------------------------------------------------------------- */

static void test_replays_point_at_their_capture(void **state) {
    (void)state;
    void *captured = call(true);
    launched(9);
    assert_null(next_record(RECORD_KERNEL));
    this_thread = NULL; /* replays are announced by any thread */
    for (uint32_t i = 0; i < 3; i++) {
        void *t = task(captured, announcement(), 1);
        uint64_t now = os_monotonic_ns();
        channel_ends(channel(t, now), now + 7 + i);
        harvester_round();
        const struct record *r = next_record(RECORD_KERNEL);
        assert_non_null(r);
        assert_int_equal(r->op, 9);
        assert_int_equal(r->t1 - r->t0, 7 + i);
        assert_true(r->flags & FLAG_CAPTURED);
    }
    assert_int_equal(progress.completed, 0);
    assert_int_equal(progress.ended_op, 0);
    ncclProfiler_v5.finalize(context);
    assert_null(task(captured, announcement(), 1));
    assert_int_equal(ncclProfiler_v5.init(&context, 1, &mask, NULL, 1, 4, 0, NULL), 0);
}

static void test_replays_of_several_operations(void **state) {
    (void)state;
    thread.parts[PART_GROUP].memory = &group;
    void *a = call(true), *b = call(true);
    frame.kernel = launch_of_group.kernel;
    launched(9);
    uint64_t now = os_monotonic_ns();
    for (uint32_t i = 0; i < 2; i++) {
        void *announced = announcement(), *first = task(a, announced, 1), *second = task(b, announced, 1);
        assert_ptr_equal(first, second);
        channel_ends(channel(first, now), now + 10);
        channel_ends(channel(second, now + 10), now + 30);
    }
    harvester_round();
    for (uint32_t i = 0; i < 2; i++) {
        const struct record *r = next_record(RECORD_KERNEL);
        assert_non_null(r);
        assert_int_equal(r->t1 - r->t0, 30);
    }
    assert_null(next_record(RECORD_KERNEL));
}

/* ---- proxies --------------------------------------------------------------------------------- */

static void *proxy(void *parent, int64_t pid, bool sends, int peer) {
    struct profiler_event event = {.type = PROFILER_PROXY_OP, .parent = parent};
    event.proxy.pid = (pid_t)pid;
    event.proxy.peer = peer;
    event.proxy.channel = 3;
    event.proxy.sends = sends;
    return started(&event);
}

static void *step(void *operation, int number) {
    struct profiler_event event = {.type = PROFILER_PROXY_STEP, .parent = operation};
    event.step.step = number;
    return started(&event);
}

static void reaches(void *handle, int state, size_t bytes) {
    ncclProfiler_v5.state(handle, state, &(union profiler_state_details){.step = {.bytes = bytes}});
}

static void spend(uint64_t ns) {
    for (uint64_t from = os_monotonic_ns(); os_monotonic_ns() < from + ns;)
        ;
}

static const struct transfer_row *row_of(uint32_t comm, int peer, uint32_t sends) {
    const struct transfer_row *rows = proxy_rows();
    for (uint32_t k = 0; k < PROXY_TRANSFER_ROWS; k++)
        if (rows[k].version && rows[k].comm == comm && rows[k].peer == peer && rows[k].sends == sends)
            return &rows[k];
    return NULL;
}

static void test_steps_become_bytes_and_waits(void **state) {
    (void)state;
    void *t = task(call(false), announcement(), 1);
    void *o = proxy(t, recorder.header->pid, true, 2);
    void *first = step(o, 0), *second = step(o, 1);
    reaches(first, PROFILER_SEND_GPU_WAIT, 0);
    reaches(second, PROFILER_SEND_GPU_WAIT, 0);
    spend(MS);
    reaches(first, PROFILER_SEND_PEER_WAIT, 999); /* the size of another step */
    spend(2 * MS);
    reaches(first, PROFILER_SEND_WAIT, 100);
    reaches(second, PROFILER_SEND_WAIT, 50);
    spend(3 * MS);
    ncclProfiler_v5.stop(first);
    ncclProfiler_v5.stop(second);
    launched(4);
    ncclProfiler_v5.stop(o);
    harvester_round();
    const struct record *r = next_record(RECORD_PROXY);
    assert_non_null(r);
    assert_int_equal(r->op, 4);
    assert_int_equal(r->bytes, 150);
    assert_int_equal(r->peer, 2);
    assert_int_equal(r->tag, 3);
    assert_true(r->flags & FLAG_SEND);
    assert_true(r->t1 - r->t0 >= 6 * MS);
    const struct transfer_row *row = row_of(COMM, 2, 1);
    assert_non_null(row);
    assert_int_equal(row->steps, 2);
    assert_int_equal(row->bytes, 150);
    assert_int_equal(row->channels, 1);
    assert_in_range(row->wait_gpu, 4 * MS, 1000 * MS); /* 1 ms of the first, 3 ms of the second */
    assert_in_range(row->wait_peer, 2 * MS, 1000 * MS);
    assert_in_range(row->wait_wire, 6 * MS, 1000 * MS);
    assert_int_equal(row->wait_flush, 0);
}

static void test_received_bytes_are_counted_once(void **state) {
    (void)state;
    void *o = proxy(task(call(false), announcement(), 1), recorder.header->pid, false, 1);
    void *s = step(o, 0);
    reaches(s, PROFILER_RECV_WAIT, 7);
    reaches(s, PROFILER_RECV_FLUSH_WAIT, 64);
    reaches(s, PROFILER_RECV_FLUSH_WAIT, 64);
    reaches(s, PROFILER_RECV_GPU_WAIT, 64);
    ncclProfiler_v5.stop(s);
    reaches(s, PROFILER_RECV_WAIT, 64); /* after its end */
    ncclProfiler_v5.stop(o);
    ncclProfiler_v5.stop(o);
    launched(1);
    harvester_round();
    assert_int_equal(next_record(RECORD_PROXY)->bytes, 64);
    assert_null(next_record(RECORD_PROXY));
}

static void test_another_process_is_not_followed(void **state) {
    (void)state;
    void *t = task(call(false), announcement(), 1);
    launched(1);
    context = (void *)0x12345678; /* the other process's */
    void *o = proxy(t, recorder.header->pid + 1, true, 5);
    ncclProfiler_v5.stop(o);
    context = NULL;
    harvester_round();
    const struct record *r = next_record(RECORD_PROXY);
    assert_non_null(r);
    assert_int_equal(r->comm, COMM_NONE);
    assert_int_equal(r->op, 0);
    assert_non_null(row_of(COMM_NONE, 5, 1));
}

static void test_more_proxies_than_fit(void **state) {
    (void)state;
    void *t = task(call(false), announcement(), 1), *last = NULL;
    for (uint32_t i = 1; i < PROXY_OPERATIONS; i++)
        assert_non_null(proxy(t, recorder.header->pid, true, 1));
    assert_non_null(last = proxy(t, -1, true, 1)); /* another process's: no launch of ours is waited for */
    void *none = proxy(t, recorder.header->pid, true, 1);
    assert_null(none);
    assert_int_equal(losses()->gpu_no_event, 1);
    assert_null(step(none, 0));
    ncclProfiler_v5.stop(NULL);
    ncclProfiler_v5.stop(last);
    harvester_round();
    assert_non_null(proxy(t, recorder.header->pid, true, 1));
    assert_null(step(last, 0)); /* the operation is gone, its place another's */
}

enum { DRIVERS = 6, TRANSFERS = 300 };
static unsigned driving;

/* What one thread of NCCL's does, with a number of its own: a peer. */
static void *drive_transfers(void *peer) {
    for (unsigned i = 0; i < TRANSFERS; i++) {
        void *operation = NULL, *handle = NULL;
        struct profiler_event event = {.type = PROFILER_PROXY_OP};
        event.proxy.pid = -1; /* another process's: no launch of ours is waited for */
        event.proxy.peer = *(const int *)peer;
        ncclProfiler_v5.start(NULL, &operation, &event);
        event = (struct profiler_event){.type = PROFILER_PROXY_STEP, .parent = operation};
        ncclProfiler_v5.start(NULL, &handle, &event);
        reaches(handle, PROFILER_SEND_WAIT, 100);
        ncclProfiler_v5.stop(handle);
        ncclProfiler_v5.stop(operation);
    }
    __atomic_sub_fetch(&driving, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void test_transfers_driven_by_many_threads(void **state) {
    (void)state;
    pthread_t threads[DRIVERS];
    int peers[DRIVERS];
    driving = DRIVERS;
    for (int i = 0; i < DRIVERS; i++) {
        peers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, drive_transfers, &peers[i]), 0);
    }
    while (__atomic_load_n(&driving, __ATOMIC_ACQUIRE))
        harvester_round();
    for (int i = 0; i < DRIVERS; i++)
        pthread_join(threads[i], NULL);
    harvester_round();
    assert_int_equal(losses()->gpu_no_event, 0);
    for (int i = 0; i < DRIVERS; i++) {
        const struct transfer_row *row = row_of(COMM_NONE, i, 0);
        assert_non_null(row);
        assert_int_equal(row->operations, TRANSFERS);
        assert_int_equal(row->bytes, TRANSFERS * 100);
    }
}

/* ---- calls, masks ---------------------------------------------------------------------------- */

static uint64_t plugged(void) {
    return sensor_row(&commtap_calls[INDEX_ncclAllReduce])->plugged;
}

static void test_calls_are_counted_once(void **state) {
    (void)state;
    uint64_t before = plugged();
    call(false);
    call(false); /* made of two operations of the library's own */
    assert_int_equal(plugged(), before + 1);
    thread.outer = 0; /* in no wrapper */
    assert_null(call(false));
    assert_int_equal(plugged(), before + 2);
}

static void test_mask_follows_the_mode(void **state) {
    (void)state;
    assert_true(mask & PROFILER_KERNEL_CH && mask & PROFILER_PROXY_STEP && mask & PROFILER_COLL_API);
    gpu.kernel = 0;
    plugin_follow_mode();
    assert_int_equal(mask, PROFILER_COLL_API | PROFILER_P2P_API);
    int other = 0;
    void *second = NULL;
    assert_int_equal(ncclProfiler_v4.init(&second, &other, NULL, 1, 1, 4, 0, NULL), 0);
    assert_int_equal(other, PROFILER_COLL | PROFILER_P2P);
    gpu.kernel = 1;
    plugin_follow_mode();
    assert_true(other & PROFILER_KERNEL_CH && mask & PROFILER_KERNEL_CH);
    assert_false(other & PROFILER_COLL_API);
    ncclProfiler_v4.finalize(second);
    assert_int_equal(other, 0);
    other = 77; /* gone with its library */
    plugin_follow_mode();
    assert_int_equal(other, 77);
}

static void test_an_unarmed_process_is_left_alone(void **state) {
    (void)state;
    static const volatile uint32_t unarmed;
    const volatile uint32_t *armed = recorder_armed;
    recorder.gave_up = true;
    recorder_armed = &unarmed;
    int other = 0;
    void *second = &other;
    assert_int_equal(ncclProfiler_v6.init(&second, 1, &other, NULL, 1, 4, 0, NULL), 0);
    assert_null(second);
    assert_int_equal(other, 0);
    assert_null(call(false));
    ncclProfiler_v6.stop((void *)1);
    ncclProfiler_v6.finalize(NULL);
    recorder_armed = armed;
    recorder.gave_up = false;
}

/* ---- the clock ------------------------------------------------------------------------------- */

static void test_bounds_narrow(void **state) {
    (void)state;
    struct globaltimer clock = {0};
    int64_t distance;
    uint64_t width;
    assert_false(globaltimer_distance(&clock, &distance, &width));
    globaltimer_not_before(&clock, 1000, 1000 + AHEAD - 500 * US);
    assert_false(globaltimer_distance(&clock, &distance, &width));
    globaltimer_not_after(&clock, 1000, 1000 + AHEAD + 300 * US);
    assert_true(globaltimer_distance(&clock, &distance, &width));
    assert_int_equal(distance, AHEAD - 100 * US);
    assert_int_equal(width, 800 * US + 1);
    globaltimer_not_before(&clock, 2000, 2000 + AHEAD - 1 * US);
    globaltimer_not_after(&clock, 2000, 2000 + AHEAD + 3 * US);
    globaltimer_not_after(&clock, 3000, 3000 + AHEAD + 900 * US); /* held up */
    assert_true(globaltimer_distance(&clock, &distance, &width));
    assert_int_equal(distance, AHEAD + 1 * US);
    assert_int_equal(width, 4 * US + 1);
}

static void test_the_quickest_fetch_stands_for_a_bound(void **state) {
    (void)state;
    struct globaltimer clock = {0};
    int64_t distance;
    uint64_t width;
    for (uint64_t i = 1; i <= GLOBALTIMER_FETCHES; i++) {
        globaltimer_distance(&clock, &distance, &width);
        globaltimer_not_before(&clock, i * MS, i * MS + AHEAD - 50 * MS); /* enqueued long before */
        globaltimer_not_after(&clock, i * MS, i * MS + AHEAD + (i == 4 ? 2 * US : 100 * US));
    }
    assert_true(globaltimer_distance(&clock, &distance, &width));
    assert_in_range(distance, AHEAD - GLOBALTIMER_FETCH_NS, AHEAD + 3 * US);
    assert_int_equal(width, GLOBALTIMER_FETCH_NS + 1);
}

static void test_drift_is_followed(void **state) {
    (void)state;
    struct globaltimer clock = {0};
    int64_t distance = 0;
    uint64_t width = 0;
    for (uint64_t i = 1; i <= 1000; i++) { /* 20 ppm, either way by turns, over a quarter of an hour */
        int64_t drifted = (int64_t)(i <= 500 ? i : 1000 - i) * 20 * 1000;
        uint64_t stamp = i * 1000 * MS, host = stamp + AHEAD + (uint64_t)drifted;
        globaltimer_not_before(&clock, stamp, host - 2 * US);
        globaltimer_not_after(&clock, stamp, host + 2 * US);
        assert_true(globaltimer_distance(&clock, &distance, &width));
        assert_in_range(distance - (int64_t)AHEAD - drifted + WIDE, 0, 2 * WIDE);
    }
}

static void test_a_clock_that_was_set(void **state) {
    (void)state;
    struct globaltimer clock = {0};
    int64_t distance;
    uint64_t width;
    for (int64_t jump = -1; jump <= 1; jump++) {
        uint64_t stamp = (uint64_t)(jump + 2) * 1000 * MS, host = stamp + AHEAD + (uint64_t)(jump * 500 * (int64_t)MS);
        globaltimer_not_before(&clock, stamp, host - 2 * US);
        globaltimer_not_after(&clock, stamp, host + 2 * US);
        assert_true(globaltimer_distance(&clock, &distance, &width));
        assert_in_range(distance - (int64_t)AHEAD - jump * 500 * (int64_t)MS + WIDE, 0, 2 * WIDE);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_first_start_to_last_stop),
        TEST(test_stamps_before_the_facts),
        TEST(test_a_group_is_one_launch),
        TEST(test_channels_that_are_not_told),
        TEST(test_a_launch_without_stamps_is_overtaken),
        TEST(test_handles_that_come_too_late),
        TEST(test_an_aborted_communicator),
        TEST(test_more_launches_than_spans),
        TEST(test_the_end_counts_what_is_open),
        TEST(test_replays_point_at_their_capture),
        TEST(test_replays_of_several_operations),
        TEST(test_steps_become_bytes_and_waits),
        TEST(test_received_bytes_are_counted_once),
        TEST(test_another_process_is_not_followed),
        TEST(test_more_proxies_than_fit),
        TEST(test_transfers_driven_by_many_threads),
        TEST(test_calls_are_counted_once),
        TEST(test_mask_follows_the_mode),
        TEST(test_an_unarmed_process_is_left_alone),
        cmocka_unit_test(test_bounds_narrow),
        cmocka_unit_test(test_the_quickest_fetch_stands_for_a_bound),
        cmocka_unit_test(test_drift_is_followed),
        cmocka_unit_test(test_a_clock_that_was_set),
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
