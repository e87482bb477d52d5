/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in libcudart.so.13 as a host program sees it. Built with our declarations and, where CUDA's headers are,
 * once more with theirs (REAL_HEADERS): the same source must run with both.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#ifdef REAL_HEADERS
#include <cuda_runtime.h>
void **__cudaRegisterFatBinary(void *binary); /* in no header of theirs for C */
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function, const char *name,
                            int thread_limit, uint3 *thread, uint3 *block, dim3 *block_size, dim3 *grid_size,
                            int *warp_size);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
#else
#include "test/standin/cudart_api.h"
#endif
#include "test/standin/standin.h"

#define OK(call) assert_int_equal(call, cudaSuccess)

static int tear_down(void **state) {
    (void)state;
    for (int device = 0; device < 2; device++) {
        OK(cudaSetDevice(device));
        OK(cudaDeviceReset());
    }
    cudaGetLastError();
    return cudaSetDevice(0);
}

static void sleep_ms(void *milliseconds) {
    usleep((useconds_t)(1000 * (intptr_t)milliseconds));
}

static void count_one(void *counter) {
    atomic_fetch_add((atomic_int *)counter, 1);
}

static void the_usual_program_runs(void **state) {
    enum { COUNT = 1000 };
    float *device, *host, milliseconds;
    cudaStream_t stream;
    cudaEvent_t start, end;
    (void)state;
    OK(cudaMalloc((void **)&device, COUNT * sizeof *device));
    OK(cudaHostAlloc((void **)&host, COUNT * sizeof *host, 0));
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    OK(cudaEventRecord(start, stream));
    OK(cudaMemcpyAsync(device, host, COUNT * sizeof *host, cudaMemcpyHostToDevice, stream));
    OK(cudaLaunchHostFunc(stream, sleep_ms, (void *)20));
    OK(cudaMemsetAsync(device, 0, sizeof *device, stream));
    OK(cudaMemcpyAsync(host, device, COUNT * sizeof *host, cudaMemcpyDeviceToHost, stream));
    OK(cudaEventRecord(end, stream));
    assert_int_equal(cudaEventQuery(end), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&milliseconds, start, end));
    assert_true(milliseconds >= 20);
    assert_true(host[0] == 0);
    assert_true(host[COUNT - 1] == COUNT - 1);
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(end));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(device));
    OK(cudaFreeHost(host));
}

static void devices_and_their_properties(void **state) {
    struct cudaDeviceProp properties;
    int count, device, value;
    (void)state;
    OK(cudaGetDeviceCount(&count));
    assert_int_equal(count, 4);
    OK(cudaGetDeviceProperties(&properties, 3));
    assert_string_equal(properties.name, "Stand-in GPU");
    assert_int_equal(properties.warpSize, 32);
    OK(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)10, 3)); /* warp size */
    assert_int_equal(value, 32);
    OK(cudaSetDevice(3));
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 3);
    assert_int_equal(cudaSetDevice(4), cudaErrorInvalidDevice);
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 3);
    assert_string_equal(cudaGetErrorName(cudaErrorStreamCaptureUnjoined), "cudaErrorStreamCaptureUnjoined");
    assert_string_equal(cudaGetErrorString(cudaErrorNotReady), "device not ready");
}

struct thread_case {
    cudaError_t result;
    int device;
    uint64_t contexts;
};

/* A thread that never chose a device works on device 0, whatever the others chose. */
static void *fresh_thread(void *argument) {
    struct thread_case *result = argument;
    result->result = cudaFree(NULL);
    cudaGetDevice(&result->device);
    result->contexts = standin_count(STANDIN_CREATE_CONTEXT, "test_runtime");
    return NULL;
}

static void fresh_threads_make_a_context_on_device_0(void **state) {
    struct thread_case result = {cudaErrorUnknown, -1, 0};
    pthread_t thread;
    (void)state;
    OK(cudaDeviceReset());
    OK(cudaSetDevice(1));
    uint64_t before = standin_count(STANDIN_CREATE_CONTEXT, "test_runtime");
    assert_int_equal(pthread_create(&thread, NULL, fresh_thread, &result), 0);
    pthread_join(thread, NULL);
    OK(result.result);
    assert_int_equal(result.device, 0);
    assert_int_equal(result.contexts, before + 1); /* counted for this program, not for libcudart */
    assert_int_equal(standin_count(STANDIN_CREATE_CONTEXT, "libcudart"), 0);
}

static void runtime_calls_count_for_their_caller(void **state) {
    char memory[8];
    void *device;
    (void)state;
    OK(cudaMalloc(&device, sizeof memory));
    uint64_t before = standin_count(STANDIN_SYNCHRONIZE, "test_runtime");
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(device, memory, sizeof memory, cudaMemcpyDefault));
    OK(cudaStreamSynchronize(0));
    assert_int_equal(standin_count(STANDIN_SYNCHRONIZE, "test_runtime"), before + 3);
    assert_int_equal(standin_count(STANDIN_SYNCHRONIZE, "libcuda"), 0);
}

static void reset_starts_afresh(void **state) {
    cudaStream_t stream;
    cudaEvent_t event;
    void *memory;
    (void)state;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaDeviceReset());
    assert_int_equal(cudaEventRecord(event, stream), cudaErrorContextIsDestroyed);
    assert_int_equal(cudaStreamDestroy(stream), cudaErrorContextIsDestroyed);
    OK(cudaMalloc(&memory, 16));
    OK(cudaEventCreate(&event));
    OK(cudaEventRecord(event, 0));
    OK(cudaEventSynchronize(event));
}

static void graphs_replay(void **state) {
    atomic_int ran = 0;
    cudaStream_t stream;
    cudaEvent_t event;
    cudaGraph_t graph;
    cudaGraphExec_t exec, second, third;
    cudaGraphInstantiateParams parameters = {0};
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    (void)state;
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_true(id != 0);
    OK(cudaLaunchHostFunc(stream, count_one, &ran));
    OK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaStreamIsCapturing(stream, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphInstantiateWithFlags(&second, graph, 0));
    OK(cudaGraphInstantiateWithParams(&third, graph, &parameters));
    for (int i = 0; i < 100; i++) {
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaGraphLaunch(second, stream));
        OK(cudaGraphLaunch(third, stream));
    }
    OK(cudaEventSynchronize(event));
    assert_int_equal(ran, 300);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphExecDestroy(second));
    OK(cudaGraphExecDestroy(third));
    OK(cudaGraphDestroy(graph));
}

static void own_stub(void) {
}

static void kernels_are_launched_by_their_stub(void **state) {
    void **module = __cudaRegisterFatBinary("module");
    dim3 one = {1, 1, 1}, none = {0, 1, 1}, grid, block;
    size_t shared;
    cudaStream_t stream = NULL, popped;
    (void)state;
    const void *stub = (const void *)(uintptr_t)own_stub;
    assert_int_equal(cudaLaunchKernel(stub, one, one, NULL, 0, 0), cudaErrorInvalidDeviceFunction);
    __cudaRegisterFunction(module, stub, NULL, "own", -1, NULL, NULL, NULL, NULL, NULL);
    OK(cudaStreamCreate(&stream));
    assert_int_equal(__cudaPushCallConfiguration(one, one, 64, stream), 0);
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &popped));
    assert_ptr_equal(popped, stream);
    assert_int_equal(shared, 64);
    OK(cudaLaunchKernel(stub, grid, block, NULL, shared, popped));
    assert_int_equal(cudaLaunchKernel(stub, none, one, NULL, 0, stream), cudaErrorInvalidConfiguration);
    OK(cudaStreamSynchronize(stream));
    __cudaUnregisterFatBinary(module);
    assert_int_equal(cudaLaunchKernel(stub, one, one, NULL, 0, 0), cudaErrorInvalidDeviceFunction);
}

static void memory_is_known_by_its_address(void **state) {
    struct cudaPointerAttributes attributes;
    size_t before, after, total;
    void *device;
    int on_stack;
    (void)state;
    OK(cudaSetDevice(1));
    OK(cudaMemGetInfo(&before, &total));
    OK(cudaMalloc(&device, 1 << 20));
    OK(cudaMemGetInfo(&after, &total));
    assert_int_equal(before - after, 1 << 20);
    OK(cudaPointerGetAttributes(&attributes, device));
    assert_int_equal(attributes.type, cudaMemoryTypeDevice);
    assert_int_equal(attributes.device, 1);
    OK(cudaPointerGetAttributes(&attributes, &on_stack));
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
    OK(cudaFree(device));
}

static void driver_functions_are_handed_out(void **state) {
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult result;
    int version = 0;
    (void)state;
    OK(cudaGetDriverEntryPointByVersion("cuDriverGetVersion", &function, 13000, 0, &result));
    assert_int_equal(result, cudaDriverEntryPointSuccess);
    ((int (*)(int *))(uintptr_t)function)(&version);
    assert_int_equal(version, 13000);
    OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 13000, 0, &result));
    assert_int_equal(result, cudaDriverEntryPointSymbolNotFound);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_usual_program_runs),
        TEST(devices_and_their_properties),
        TEST(fresh_threads_make_a_context_on_device_0),
        TEST(runtime_calls_count_for_their_caller),
        TEST(reset_starts_afresh),
        TEST(graphs_replay),
        TEST(kernels_are_launched_by_their_stub),
        TEST(memory_is_known_by_its_address),
        TEST(driver_functions_are_handed_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
