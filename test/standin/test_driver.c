/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in libcuda.so.1 by its driver API: what it promises to behave like CUDA. Only effects of milliseconds are
 * timed, and only in one direction: nothing here fails because a machine is slow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/standin/cuda_api.h"
#include "test/standin/standin.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

/* A gate in a stream: work behind it waits until the test opens it. */
struct gate {
    atomic_int entered, open, passed;
};

static void pass_gate(void *argument) {
    struct gate *gate = argument;
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open))
        usleep(100);
    atomic_fetch_add(&gate->passed, 1);
}

static void put_gate(CUstream stream, struct gate *gate) {
    OK(cuLaunchHostFunc(stream, pass_gate, gate));
}

static void open_gate(struct gate *gate) {
    atomic_store(&gate->open, 1);
}

static void sleep_ms(void *milliseconds) {
    usleep((useconds_t)(1000 * (intptr_t)milliseconds));
}

static void put_sleep(CUstream stream, int milliseconds) {
    OK(cuLaunchHostFunc(stream, sleep_ms, (void *)(intptr_t)milliseconds));
}

static void count_one(void *counter) {
    atomic_fetch_add((atomic_int *)counter, 1);
}

static CUstream new_stream(unsigned flags) {
    CUstream stream;
    OK(cuStreamCreate(&stream, flags));
    return stream;
}

static CUevent new_event(unsigned flags) {
    CUevent event;
    OK(cuEventCreate(&event, flags));
    return event;
}

static CUcontext primary;

static int set_up(void **state) {
    (void)state;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    OK(cuDevicePrimaryCtxReset_v2(0));
    return cuCtxSetCurrent(NULL);
}

/* ---- devices and contexts ---- */

static void devices_have_names_and_places(void **state) {
    int count;
    char id[32];
    CUdevice device;
    (void)state;
    OK(cuDeviceGetCount(&count));
    assert_int_equal(count, 4);
    OK(cuDeviceGetPCIBusId(id, sizeof id, 2));
    OK(cuDeviceGetByPCIBusId(&device, id));
    assert_int_equal(device, 2);
    assert_int_equal(cuDeviceGet(&device, 4), CUDA_ERROR_INVALID_DEVICE);
}

static void contexts_stack_per_thread(void **state) {
    CUcontext second, current;
    CUdevice device;
    (void)state;
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent_v2(second));
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    OK(cuCtxPopCurrent_v2(&current));
    assert_ptr_equal(current, second);
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 0);
    OK(cuCtxSetCurrent(NULL));
    assert_int_equal(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxPopCurrent_v2(&current), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxGetCurrent(&current));
    assert_null(current);
    OK(cuDevicePrimaryCtxRelease_v2(1));
    OK(cuCtxSetCurrent(primary));
}

static void *without_context(void *result) {
    CUevent event;
    *(CUresult *)result = cuEventCreate(&event, 0);
    return NULL;
}

static void new_threads_have_no_context(void **state) {
    pthread_t thread;
    CUresult result = CUDA_SUCCESS;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, without_context, &result), 0);
    pthread_join(thread, NULL);
    assert_int_equal(result, CUDA_ERROR_INVALID_CONTEXT);
}

static void primary_context_is_created_once_and_counted(void **state) {
    unsigned flags;
    int active;
    CUcontext a, b;
    (void)state;
    uint64_t before = standin_count(STANDIN_CREATE_CONTEXT, "test_driver");
    OK(cuDevicePrimaryCtxGetState(3, &flags, &active));
    assert_int_equal(active, 0);
    OK(cuDevicePrimaryCtxRetain(&a, 3));
    OK(cuDevicePrimaryCtxRetain(&b, 3));
    assert_ptr_equal(a, b);
    assert_int_equal(standin_count(STANDIN_CREATE_CONTEXT, "test_driver"), before + 1);
    assert_int_equal(standin_count(STANDIN_CREATE_CONTEXT, "libcommtap"), 0);
    OK(cuDevicePrimaryCtxRelease_v2(3));
    OK(cuDevicePrimaryCtxGetState(3, &flags, &active));
    assert_int_equal(active, 1);
    OK(cuDevicePrimaryCtxRelease_v2(3));
    OK(cuDevicePrimaryCtxGetState(3, &flags, &active));
    assert_int_equal(active, 0);
}

static void reset_destroys_everything(void **state) {
    CUstream stream = new_stream(0);
    CUevent event = new_event(0);
    CUcontext context;
    CUdeviceptr memory;
    size_t unused, total;
    (void)state;
    OK(cuMemAlloc_v2(&memory, 1 << 20));
    OK(cuEventRecord(event, stream));
    OK(cuDevicePrimaryCtxReset_v2(0));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cuEventRecord(event, 0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cuStreamGetCtx(0, &context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    OK(cuMemGetInfo_v2(&unused, &total));
    assert_int_equal(unused, total);
}

static void reset_drops_what_has_not_begun(void **state) {
    struct gate gate = {0};
    atomic_int ran = 0;
    CUstream stream = new_stream(0);
    (void)state;
    put_sleep(stream, 20);
    put_gate(stream, &gate);
    OK(cuLaunchHostFunc(stream, count_one, &ran));
    usleep(5000);
    OK(cuDevicePrimaryCtxReset_v2(0));
    usleep(30000); /* long enough for what ran at the reset to end, and more to begin */
    assert_int_equal(gate.entered, 0);
    assert_int_equal(ran, 0);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
}

/* ---- streams and events ---- */

static void streams_are_asynchronous(void **state) {
    struct gate gate = {0};
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(0);
    (void)state;
    OK(cuEventQuery(event)); /* never recorded */
    put_gate(stream, &gate);
    OK(cuEventRecord(event, stream));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    open_gate(&gate);
    OK(cuEventSynchronize(event));
    assert_int_equal(gate.passed, 1);
    OK(cuEventQuery(event));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamQuery(stream));
}

static void streams_run_at_the_same_time(void **state) {
    struct gate first = {0}, second = {0};
    CUstream a = new_stream(0), b = new_stream(0);
    (void)state;
    put_gate(a, &first);
    put_gate(b, &second);
    while (!first.entered || !second.entered)
        usleep(100);
    open_gate(&second);
    OK(cuStreamSynchronize(b));
    assert_int_equal(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    open_gate(&first);
    OK(cuStreamSynchronize(a));
}

static void events_order_streams(void **state) {
    struct gate gate = {0};
    atomic_int ran = 0;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
    (void)state;
    OK(cuStreamWaitEvent(b, event, 0)); /* never recorded: nothing to wait for */
    put_gate(a, &gate);
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuEventRecord(event, b)); /* b waits for the record at the time of its call */
    OK(cuLaunchHostFunc(b, count_one, &ran));
    usleep(10000);
    assert_int_equal(ran, 0);
    open_gate(&gate);
    OK(cuStreamSynchronize(b));
    assert_int_equal(gate.passed, 1);
    assert_int_equal(ran, 1);
}

static void legacy_stream_waits_and_is_waited_for(void **state) {
    struct gate blocking_gate = {0}, legacy_gate = {0};
    atomic_int on_blocking = 0, on_other = 0;
    CUstream blocking = new_stream(0), other = new_stream(CU_STREAM_NON_BLOCKING);
    (void)state;
    put_gate(blocking, &blocking_gate);
    put_gate(NULL, &legacy_gate);
    OK(cuLaunchHostFunc(blocking, count_one, &on_blocking));
    OK(cuLaunchHostFunc(other, count_one, &on_other));
    OK(cuStreamSynchronize(other));
    assert_int_equal(on_other, 1);
    assert_int_equal(legacy_gate.entered, 0);
    open_gate(&blocking_gate);
    while (!legacy_gate.entered)
        usleep(100);
    usleep(5000);
    assert_int_equal(on_blocking, 0);
    assert_int_equal(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    open_gate(&legacy_gate);
    OK(cuStreamSynchronize(blocking));
    assert_int_equal(on_blocking, 1);
    put_sleep(blocking, 10);
    OK(cuStreamSynchronize(NULL)); /* nothing of its own, yet it waits for the blocking ones */
    OK(cuStreamQuery(blocking));
}

static void special_handles_are_the_current_contexts(void **state) {
    CUcontext second, context;
    CUevent event = new_event(0);
    (void)state;
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    for (uintptr_t handle = 0; handle <= 2; handle++) {
        OK(cuStreamGetCtx((CUstream)handle, &context));
        assert_ptr_equal(context, primary);
        OK(cuEventRecord(event, (CUstream)handle));
        OK(cuCtxPushCurrent_v2(second));
        OK(cuStreamGetCtx((CUstream)handle, &context));
        assert_ptr_equal(context, second);
        assert_int_equal(cuEventRecord(event, (CUstream)handle), CUDA_ERROR_INVALID_HANDLE);
        OK(cuCtxPopCurrent_v2(NULL));
    }
    OK(cuDevicePrimaryCtxRelease_v2(1));
}

static void elapsed_time_is_that_of_the_stream(void **state) {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent start = new_event(0), end = new_event(0);
    float milliseconds = -1;
    (void)state;
    OK(cuEventRecord(start, stream));
    put_sleep(stream, 30);
    OK(cuEventRecord(end, stream));
    assert_int_equal(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime_v2(&milliseconds, start, end));
    assert_true(milliseconds >= 30);
    OK(cuEventElapsedTime_v2(&milliseconds, end, start));
    assert_true(milliseconds <= -30);
}

static void elapsed_time_refuses_what_has_no_time(void **state) {
    CUstream stream = new_stream(0);
    CUevent timed = new_event(0), untimed = new_event(CU_EVENT_DISABLE_TIMING), never = new_event(0);
    CUcontext second;
    float milliseconds;
    (void)state;
    OK(cuEventRecord(timed, stream));
    OK(cuEventRecord(untimed, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(cuEventElapsedTime(&milliseconds, timed, untimed), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventElapsedTime(&milliseconds, timed, never), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventElapsedTime(&milliseconds, NULL, timed), CUDA_ERROR_INVALID_HANDLE);
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent_v2(second));
    CUevent foreign = new_event(0);
    OK(cuEventRecord(foreign, NULL));
    OK(cuEventSynchronize(foreign));
    assert_int_equal(cuEventElapsedTime(&milliseconds, timed, foreign), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventRecord(foreign, stream), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxPopCurrent_v2(NULL));
    OK(cuStreamWaitEvent(stream, foreign, 0)); /* across devices is fine */
    OK(cuDevicePrimaryCtxRelease_v2(1));
    assert_int_equal(cuEventQuery(foreign), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void stale_handles_are_recognized(void **state) {
    struct gate gate = {0};
    CUstream stream = new_stream(0);
    CUevent event = new_event(0);
    (void)state;
    put_gate(stream, &gate);
    OK(cuEventRecord(event, stream));
    uint64_t before = standin_count(STANDIN_DESTROY_BUSY, "");
    OK(cuEventDestroy_v2(event));
    assert_int_equal(standin_count(STANDIN_DESTROY_BUSY, ""), before + 1);
    OK(cuStreamDestroy_v2(stream));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventRecord(event, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
    open_gate(&gate);
    OK(cuCtxSynchronize()); /* waits for the destroyed stream's work too */
    assert_int_equal(gate.passed, 1);
    assert_int_equal(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void synchronizing_calls_are_counted_for_the_caller(void **state) {
    CUstream stream = new_stream(0);
    CUevent event = new_event(0);
    int word = 0;
    CUdeviceptr memory;
    (void)state;
    OK(cuMemAlloc_v2(&memory, sizeof word));
    uint64_t before = standin_count(STANDIN_SYNCHRONIZE, "test_driver");
    OK(cuStreamQuery(stream));
    OK(cuEventQuery(event));
    OK(cuEventRecord(event, stream));
    assert_int_equal(standin_count(STANDIN_SYNCHRONIZE, "test_driver"), before);
    OK(cuStreamSynchronize(stream));
    OK(cuCtxSynchronize());
    OK(cuEventSynchronize(event));
    OK(cuMemcpyHtoD_v2(memory, &word, sizeof word));
    assert_int_equal(standin_count(STANDIN_SYNCHRONIZE, "test_driver"), before + 4);
    uint64_t freed = standin_count(STANDIN_FREE, "test_driver");
    OK(cuMemFree_v2(memory));
    assert_int_equal(standin_count(STANDIN_FREE, "test_driver"), freed + 1);
    assert_int_equal(standin_count(STANDIN_SYNCHRONIZE, "libcommtap"), 0);
}

static void owned_work_is_released_once_it_has_run(void **state) {
    atomic_int ran = 0;
    CUstream stream = new_stream(0);
    (void)state;
    OK(standin_stream_enqueue_owned(stream, count_one, &ran, count_one));
    OK(standin_stream_enqueue(stream, count_one, &ran));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(ran, 3);
}

/* ---- memory ---- */

static void memory_is_accounted_and_copied_in_order(void **state) {
    size_t before, after, total;
    unsigned host[1024], back[1024];
    CUdeviceptr memory;
    unsigned type;
    (void)state;
    OK(cuMemGetInfo_v2(&before, &total));
    OK(cuMemAlloc_v2(&memory, sizeof host));
    OK(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before - after, sizeof host);
    assert_int_equal(cuMemAlloc_v2(&memory, total + 1), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 4));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    memset(host, 0x11, sizeof host);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemcpyHtoDAsync_v2(memory, host, sizeof host, stream));
    memset(host, 0, sizeof host); /* pageable: the copy has been made */
    OK(cuMemsetD32Async(memory, 7, 2, stream));
    OK(cuMemcpyDtoHAsync_v2(back, memory, sizeof back, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(back[0], 7);
    assert_int_equal(back[1], 7);
    assert_int_equal(back[2], 0x11111111);
    OK(cuMemFree_v2(memory));
    assert_int_equal(cuMemFree_v2(memory), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
}

/* ---- capture and graphs ---- */

static CUgraph end_capture(CUstream stream) {
    CUgraph graph;
    OK(cuStreamEndCapture(stream, &graph));
    assert_non_null(graph);
    return graph;
}

static CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

static void assert_capture_is_broken(CUstream stream) {
    CUgraph graph = (CUgraph)1;
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(cuLaunchHostFunc(stream, count_one, NULL), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    OK(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

static void captured_work_runs_at_every_launch(void **state) {
    atomic_int ran = 0;
    CUstream stream = new_stream(0);
    uint64_t id = 0;
    CUgraph building = NULL;
    CUstreamCaptureStatus status;
    const CUgraphNode *last = NULL;
    size_t count = 9;
    (void)state;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &building, &last, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_true(id > 0);
    assert_int_equal(count, 0);
    OK(cuLaunchHostFunc(stream, count_one, &ran));
    OK(standin_stream_enqueue_owned(stream, count_one, &ran, count_one));
    OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &building, &last, &count));
    assert_int_equal(count, 1);
    CUgraph graph = end_capture(stream);
    assert_ptr_equal(graph, building);
    OK(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 2);
    CUgraphExec exec = instantiate(graph);
    OK(cuStreamSynchronize(stream));
    assert_int_equal(ran, 0);
    for (int i = 0; i < 1000; i++)
        OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(ran, 2000);
    OK(cuGraphExecDestroy(exec)); /* the last one that could run the work: it is released */
    assert_int_equal(ran, 2001);
    assert_int_equal(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

struct overlap {
    atomic_int inside, most;
};

static void enter_alone(void *argument) {
    struct overlap *overlap = argument;
    int inside = atomic_fetch_add(&overlap->inside, 1) + 1;
    if (inside > overlap->most)
        atomic_store(&overlap->most, inside);
    usleep(2000);
    atomic_fetch_sub(&overlap->inside, 1);
}

static void replays_are_serialized_across_streams(void **state) {
    struct overlap overlap = {0};
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    (void)state;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuLaunchHostFunc(stream, enter_alone, &overlap));
    CUgraphExec exec = instantiate(end_capture(stream));
    for (int i = 0; i < 5; i++) {
        OK(cuGraphLaunch(exec, stream));
        OK(cuGraphLaunch(exec, other));
    }
    OK(cuCtxSynchronize());
    assert_int_equal(overlap.most, 1);
    OK(cuGraphExecDestroy(exec));
}

/* stream -> fork to other -> both work -> join */
static void capture_fork(CUstream stream, CUstream other, struct gate *on_stream, struct gate *on_other) {
    CUevent fork = new_event(CU_EVENT_DISABLE_TIMING), join = new_event(CU_EVENT_DISABLE_TIMING);
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    put_gate(stream, on_stream);
    put_gate(other, on_other);
    OK(cuEventRecord(join, other));
    OK(cuStreamWaitEvent(stream, join, 0));
}

static void branches_of_a_graph_run_at_the_same_time(void **state) {
    struct gate first = {0}, second = {0};
    atomic_int ran = 0;
    CUstream stream = new_stream(0), other = new_stream(0);
    (void)state;
    capture_fork(stream, other, &first, &second);
    OK(cuLaunchHostFunc(stream, count_one, &ran));
    CUgraphExec exec = instantiate(end_capture(stream));
    OK(cuGraphLaunch(exec, stream));
    while (!first.entered || !second.entered)
        usleep(100);
    OK(cuStreamQuery(other)); /* what was captured there runs where the graph does */
    open_gate(&first);
    usleep(5000);
    assert_int_equal(ran, 0);
    open_gate(&second);
    OK(cuStreamSynchronize(stream));
    assert_int_equal(ran, 1);
    OK(cuGraphExecDestroy(exec));
}

static void a_launch_under_capture_joins_the_graph(void **state) {
    struct gate first = {.open = 1}, second = {.open = 1}, last = {0};
    atomic_int ran = 0;
    CUstream stream = new_stream(0), other = new_stream(0);
    size_t count;
    (void)state;
    capture_fork(stream, other, &first, &second);
    CUgraphExec inner = instantiate(end_capture(stream));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    put_gate(stream, &last);
    OK(cuGraphLaunch(inner, stream));
    OK(cuLaunchHostFunc(stream, count_one, &ran));
    CUgraph graph = end_capture(stream);
    OK(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 4);
    CUgraphExec outer = instantiate(graph);
    OK(cuGraphExecDestroy(inner));
    OK(cuGraphLaunch(outer, stream));
    usleep(5000);
    assert_int_equal(first.entered + second.entered, 0); /* both wait for what came before them */
    open_gate(&last);
    OK(cuGraphLaunch(outer, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(first.passed, 2);
    assert_int_equal(second.passed, 2);
    assert_int_equal(ran, 2);
    OK(cuGraphExecDestroy(outer));
}

static void external_records_give_the_time_of_the_last_replay(void **state) {
    CUstream stream = new_stream(0);
    CUevent start = new_event(0), end = new_event(0);
    float milliseconds;
    (void)state;
    assert_int_equal(cuEventRecordWithFlags(start, stream, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecordWithFlags(start, stream, CU_EVENT_RECORD_EXTERNAL));
    put_sleep(stream, 10);
    OK(cuEventRecordWithFlags(end, stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraphExec exec = instantiate(end_capture(stream));
    assert_int_equal(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE); /* not yet recorded */
    for (int replay = 0; replay < 3; replay++) {
        OK(cuGraphLaunch(exec, stream));
        assert_int_equal(cuEventQuery(end), CUDA_ERROR_NOT_READY);
        OK(cuStreamSynchronize(stream));
        OK(cuEventElapsedTime(&milliseconds, start, end));
        assert_true(milliseconds >= 10);
    }
    OK(cuEventDestroy_v2(end)); /* a launch after that records what is left */
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
}

static void captured_events_cannot_be_asked(void **state) {
    CUstream stream = new_stream(0);
    CUevent event = new_event(0), timed = new_event(0);
    CUgraph graph;
    float milliseconds;
    (void)state;
    OK(cuEventRecord(timed, stream));
    OK(cuEventSynchronize(timed));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, stream));
    graph = end_capture(stream);
    size_t count;
    OK(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 0); /* it made no node */
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    assert_int_equal(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
    assert_int_equal(cuEventElapsedTime(&milliseconds, timed, event), CUDA_ERROR_CAPTURED_EVENT);
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuEventRecord(event, stream)); /* a normal record heals it */
    OK(cuEventSynchronize(event));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, stream));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    assert_capture_is_broken(stream);
}

static void unjoined_work_fails_the_capture(void **state) {
    CUstream stream = new_stream(0), other = new_stream(0);
    CUevent fork = new_event(0), timer = new_event(0);
    CUgraph graph;
    (void)state;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuEventRecordWithFlags(timer, other, CU_EVENT_RECORD_EXTERNAL));
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_null(graph);
    OK(cuStreamQuery(other)); /* out of the capture again */
}

static void captures_are_isolated(void **state) {
    CUstream a = new_stream(0), b = new_stream(0);
    CUevent outside = new_event(0), in_a = new_event(0);
    CUgraph graph;
    (void)state;
    OK(cuEventRecord(outside, b));
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuStreamWaitEvent(a, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    assert_capture_is_broken(a);
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(in_a, a));
    assert_int_equal(cuStreamWaitEvent(b, in_a, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    assert_capture_is_broken(a);
    assert_capture_is_broken(b);
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(in_a, a));
    OK(cuStreamWaitEvent(b, in_a, 0));
    assert_int_equal(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_capture_is_broken(a);
}

static void legacy_stream_breaks_captures_of_blocking_streams(void **state) {
    CUstream blocking = new_stream(0), free_stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(0);
    CUstreamCaptureStatus status;
    (void)state;
    assert_int_equal(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    OK(cuStreamIsCapturing(blocking, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE); /* asking did no harm */
    assert_int_equal(cuEventRecord(event, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_capture_is_broken(blocking);
    OK(cuStreamBeginCapture_v2(free_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, NULL));
    OK(cuEventSynchronize(event)); /* relaxed */
    OK(cuGraphDestroy(end_capture(free_stream)));
}

static void asking_a_captured_stream_breaks_the_capture(void **state) {
    CUstream stream = new_stream(0);
    CUdevice device;
    (void)state;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_capture_is_broken(stream);
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_capture_is_broken(stream);
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuStreamGetDevice(stream, &device), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_capture_is_broken(stream);
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_capture_is_broken(stream);
}

/* What a thread other than the capturing one may do, by its own mode. */
struct asker {
    CUstreamCaptureMode mode;
    CUevent event;
    CUresult result;
};

static void *ask(void *argument) {
    struct asker *asker = argument;
    CUstreamCaptureMode mode = asker->mode;
    OK(cuCtxSetCurrent(primary));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL); /* what threads begin with */
    asker->result = cuEventQuery(asker->event);
    return NULL;
}

static CUresult ask_in_thread(CUstreamCaptureMode mode, CUevent event) {
    struct asker asker = {mode, event, CUDA_ERROR_UNKNOWN};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask, &asker), 0);
    pthread_join(thread, NULL);
    return asker.result;
}

static void unsafe_calls_break_captures_by_mode(void **state) {
    enum { GLOBAL = CU_STREAM_CAPTURE_MODE_GLOBAL, LOCAL, RELAXED };
    static const struct {
        CUstreamCaptureMode capture, asker;
        CUresult result;
    } cases[] = {
        {GLOBAL, GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {GLOBAL, LOCAL, CUDA_SUCCESS},
        {GLOBAL, RELAXED, CUDA_SUCCESS},
        {LOCAL, GLOBAL, CUDA_SUCCESS},
        {RELAXED, GLOBAL, CUDA_SUCCESS},
    };
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(0);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(cuStreamBeginCapture_v2(stream, cases[i].capture));
        assert_int_equal(ask_in_thread(cases[i].asker, event), cases[i].result);
        if (cases[i].result)
            assert_capture_is_broken(stream);
        else
            OK(cuGraphDestroy(end_capture(stream)));
    }
}

static void unsafe_calls_of_the_capturing_thread(void **state) {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(0);
    CUdeviceptr memory;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)state;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_capture_is_broken(stream);
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(cuMemAlloc_v2(&memory, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_capture_is_broken(stream);
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuEventQuery(event));
    OK(cuMemAlloc_v2(&memory, 4096));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    CUevent made_meanwhile = new_event(0); /* never unsafe */
    OK(cuEventDestroy_v2(made_meanwhile));
    OK(cuGraphDestroy(end_capture(stream)));
}

struct ender {
    CUstream stream;
    CUresult result;
};

static void *end_from_here(void *argument) {
    struct ender *ender = argument;
    CUgraph graph;
    ender->result = cuStreamEndCapture(ender->stream, &graph);
    return NULL;
}

static void captures_end_in_their_thread(void **state) {
    struct ender ender = {new_stream(0), CUDA_ERROR_UNKNOWN};
    pthread_t thread;
    (void)state;
    OK(cuStreamBeginCapture_v2(ender.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(pthread_create(&thread, NULL, end_from_here, &ender), 0);
    pthread_join(thread, NULL);
    assert_int_equal(ender.result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    OK(cuGraphDestroy(end_capture(ender.stream)));
}

static void graphs_can_be_built_by_hand(void **state) {
    atomic_int ran = 0;
    CUgraph graph;
    CUgraphNode empty, host, record;
    CUgraphNodeType type;
    CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {0};
    CUgraphExec exec;
    CUevent event = new_event(0);
    (void)state;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&empty, graph, NULL, 0));
    OK(cuGraphAddHostNode(&host, graph, &empty, 1, &(CUDA_HOST_NODE_PARAMS){count_one, &ran}));
    OK(cuGraphAddEventRecordNode(&record, graph, &host, 1, event));
    OK(cuGraphNodeGetType(record, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    OK(cuGraphInstantiateWithParams(&exec, graph, &parameters));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuEventSynchronize(event));
    assert_int_equal(ran, 1);
    OK(cuGraphDestroy(graph));
    OK(cuGraphLaunch(exec, NULL)); /* lives on without its graph */
    OK(cuCtxSynchronize());
    assert_int_equal(ran, 2);
    OK(cuGraphExecDestroy(exec));
}

/* ---- everything at once ---- */

enum { THREADS = 4, ROUNDS = 60 };

struct crowd {
    CUevent shared[THREADS]; /* recorded by one thread, waited for by the next */
    atomic_int ran;
    atomic_int failures;
};

struct member {
    struct crowd *crowd;
    int index;
};

static void note(struct crowd *crowd, CUresult result) {
    if (result && result != CUDA_ERROR_NOT_READY)
        atomic_fetch_add(&crowd->failures, 1);
}

/* One replay of a captured graph and one more destroyed in flight. */
static void replay(struct crowd *crowd, CUstream stream) {
    CUgraph graph;
    CUgraphExec exec;
    note(crowd, cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    note(crowd, cuLaunchHostFunc(stream, count_one, &crowd->ran));
    note(crowd, cuStreamEndCapture(stream, &graph));
    note(crowd, cuGraphInstantiateWithFlags(&exec, graph, 0));
    note(crowd, cuGraphDestroy(graph));
    note(crowd, cuGraphLaunch(exec, stream));
    note(crowd, cuGraphLaunch(exec, stream));
    note(crowd, cuGraphExecDestroy(exec));
}

static void *crowd_member(void *argument) {
    const struct member *member = argument;
    struct crowd *crowd = member->crowd;
    CUevent own;
    note(crowd, cuCtxSetCurrent(primary));
    for (int round = 0; round < ROUNDS; round++) {
        CUstream stream;
        note(crowd, cuStreamCreate(&stream, round % 2 ? CU_STREAM_NON_BLOCKING : 0));
        note(crowd, cuEventCreate(&own, 0));
        note(crowd, cuLaunchHostFunc(stream, count_one, &crowd->ran));
        note(crowd, cuEventRecord(own, stream));
        note(crowd, cuStreamWaitEvent(stream, crowd->shared[(member->index + 1) % THREADS], 0));
        note(crowd, cuEventRecord(crowd->shared[member->index], stream));
        if (round % 2)
            replay(crowd, stream);
        note(crowd, cuLaunchHostFunc(round % 3 ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD, count_one, &crowd->ran));
        note(crowd, cuEventQuery(crowd->shared[(member->index + 2) % THREADS]));
        if (round % 5 == 0)
            note(crowd, cuEventSynchronize(own));
        note(crowd, cuEventDestroy_v2(own));
        note(crowd, cuStreamDestroy_v2(stream));
    }
    return NULL;
}

static void threads_use_everything_at_once(void **state) {
    struct crowd crowd = {0};
    struct member members[THREADS];
    pthread_t threads[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        crowd.shared[i] = new_event(CU_EVENT_DISABLE_TIMING);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){&crowd, i};
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_member, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(cuCtxSynchronize());
    assert_int_equal(crowd.failures, 0);
    assert_int_equal(crowd.ran, THREADS * (2 * ROUNDS + 2 * (ROUNDS / 2)));
}

/* ---- names, processes ---- */

static void functions_are_found_by_name_and_version(void **state) {
    void *function;
    CUdriverProcAddressQueryResult status;
    (void)state;
    OK(cuGetProcAddress_v2("cuStreamDestroy", &function, 13000, 0, &status));
    assert_ptr_equal(function, (void *)cuStreamDestroy_v2);
    OK(cuGetProcAddress_v2("cuStreamGetCaptureInfo", &function, 11030, 0, NULL));
    assert_ptr_equal(function, (void *)cuStreamGetCaptureInfo_v2);
    OK(cuGetProcAddress_v2("cuEventElapsedTime", &function, 12070, 0, NULL));
    assert_ptr_equal(function, (void *)cuEventElapsedTime);
    OK(cuGetProcAddress("cuEventElapsedTime", &function, 12080, 0));
    assert_ptr_equal(function, (void *)cuEventElapsedTime_v2);
    assert_int_equal(cuGetProcAddress_v2("cuNoSuchThing", &function, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(function);
}

static void errors_have_names(void **state) {
    const char *text;
    (void)state;
    OK(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, &text));
    assert_string_equal(text, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
    OK(cuGetErrorString(CUDA_ERROR_NOT_READY, &text));
    assert_string_equal(text, "device not ready");
    assert_int_equal(cuGetErrorString(12345, &text), CUDA_ERROR_INVALID_VALUE);
}

/* The exit status of a child that does this; the driver does not survive fork, so its own is tested with exec. */
static int in_child(int (*body)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int use_after_fork(void) {
    int count;
    return cuInit(0) == CUDA_ERROR_NOT_INITIALIZED && cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1;
}

static void driver_does_not_survive_fork(void **state) {
    (void)state;
    assert_int_equal(in_child(use_after_fork), 0);
}

/* Run as another process: it ends while its streams hold work that never finishes. */
static int exit_with_work_in_flight(void) {
    static struct gate gate;
    CUstream stream;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&primary, 0) || cuCtxSetCurrent(primary) || cuStreamCreate(&stream, 0))
        return 2;
    cuLaunchHostFunc(stream, pass_gate, &gate);
    cuLaunchHostFunc(NULL, pass_gate, &gate);
    cuMemcpyHtoD_v2(0, NULL, 0) ? exit(3) : exit(4); /* never reached: it waits behind the gate */
}

static void *exit_soon(void *unused) {
    usleep(20000);
    exit(7);
    return unused;
}

static int run_exit_case(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, exit_soon, NULL);
    return exit_with_work_in_flight();
}

static char *own_path;

static int reexecute(void) {
    setenv("STANDIN_TEST_EXIT", "1", 1);
    execl("/proc/self/exe", own_path, (char *)NULL);
    return 126;
}

static void process_exits_with_work_in_flight(void **state) {
    (void)state;
    assert_int_equal(in_child(reexecute), 7);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(devices_have_names_and_places),
        TEST(contexts_stack_per_thread),
        TEST(new_threads_have_no_context),
        TEST(primary_context_is_created_once_and_counted),
        TEST(reset_destroys_everything),
        TEST(reset_drops_what_has_not_begun),
        TEST(streams_are_asynchronous),
        TEST(streams_run_at_the_same_time),
        TEST(events_order_streams),
        TEST(legacy_stream_waits_and_is_waited_for),
        TEST(special_handles_are_the_current_contexts),
        TEST(elapsed_time_is_that_of_the_stream),
        TEST(elapsed_time_refuses_what_has_no_time),
        TEST(stale_handles_are_recognized),
        TEST(synchronizing_calls_are_counted_for_the_caller),
        TEST(owned_work_is_released_once_it_has_run),
        TEST(memory_is_accounted_and_copied_in_order),
        TEST(captured_work_runs_at_every_launch),
        TEST(replays_are_serialized_across_streams),
        TEST(branches_of_a_graph_run_at_the_same_time),
        TEST(a_launch_under_capture_joins_the_graph),
        TEST(external_records_give_the_time_of_the_last_replay),
        TEST(captured_events_cannot_be_asked),
        TEST(unjoined_work_fails_the_capture),
        TEST(captures_are_isolated),
        TEST(legacy_stream_breaks_captures_of_blocking_streams),
        TEST(asking_a_captured_stream_breaks_the_capture),
        TEST(unsafe_calls_break_captures_by_mode),
        TEST(unsafe_calls_of_the_capturing_thread),
        TEST(captures_end_in_their_thread),
        TEST(graphs_can_be_built_by_hand),
        TEST(threads_use_everything_at_once),
        TEST(functions_are_found_by_name_and_version),
        TEST(errors_have_names),
        TEST(driver_does_not_survive_fork),
        TEST(process_exits_with_work_in_flight),
    };
    (void)argc;
    own_path = argv[0];
    if (getenv("STANDIN_TEST_EXIT"))
        return run_exit_case();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
