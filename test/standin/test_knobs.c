/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-in does by its environment and by who calls. The environment is read once, so each test runs this
 * program again with the variable set and looks at its exit status.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/standin/cuda_api.h"
#include "test/standin/cudart_api.h"
#include "test/standin/standin.h"

int caller_query(CUevent event);
int caller_synchronize(CUstream stream);
int caller_make_context(void);

enum { MS = 1000000 };

/* The children: each returns 0 if what it was started for is so. */

static bool begin(CUstream *stream, CUevent *event) {
    return cudaFree(NULL) || cuStreamCreate(stream, 0) || cuEventCreate(event, 0);
}

static int no_devices(void) {
    int count = 9;
    return cuInit(0) == CUDA_ERROR_NO_DEVICE && cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0 &&
                   cudaFree(NULL) == cudaErrorNoDevice
               ? 0
               : 1;
}

static int memory_is_small(void) {
    size_t unused, total;
    void *memory;
    if (cudaMemGetInfo(&unused, &total) || total != 1 << 20)
        return 1;
    return cudaMalloc(&memory, (1 << 20) + 1) == cudaErrorMemoryAllocation && cudaMalloc(&memory, 1 << 20) == 0 &&
                   cudaMalloc(&memory, 1) == cudaErrorMemoryAllocation
               ? 0
               : 2;
}

static int handles_come_back(void) {
    CUstream stream, other;
    CUevent event;
    if (begin(&stream, &event))
        return 1;
    for (int i = 0; i < 100; i++) {
        if (cuStreamDestroy_v2(stream) || cuStreamCreate(&other, 0))
            return 2;
        if (other == stream)
            return 0;
        stream = other;
    }
    return 3;
}

static int handles_do_not_come_back(void) {
    return handles_come_back() == 3 ? 0 : 1;
}

static void *query_from_caller(void *event) {
    caller_query(event);
    exit(9); /* it must not return */
}

static int only_that_librarys_queries_hang(void) {
    CUstream stream;
    CUevent event;
    pthread_t thread;
    if (begin(&stream, &event) || pthread_create(&thread, NULL, query_from_caller, event))
        return 1;
    usleep(20000);
    return cuEventQuery(event);
}

static int destroying_waits(void) {
    CUstream stream;
    CUevent event;
    if (begin(&stream, &event) || standin_stream_busy(stream, 20 * MS) || cuEventRecord(event, stream))
        return 1;
    if (cuEventDestroy_v2(event))
        return 2;
    return cuStreamQuery(stream); /* all done once destroyed */
}

/* Twice as fast as the host's clock, which sleeps at least 30 ms. */
static int clock_runs_fast(void) {
    CUstream stream;
    CUevent start, end;
    float milliseconds;
    if (begin(&stream, &start) || cuEventCreate(&end, 0))
        return 1;
    if (cuEventRecord(start, stream) || standin_stream_busy(stream, 30 * MS) || cuEventRecord(end, stream) ||
        cuEventSynchronize(end) || cuEventElapsedTime(&milliseconds, start, end))
        return 2;
    return milliseconds >= 60 ? 0 : 3;
}

static void *make_context(void *unused) {
    caller_make_context();
    return unused;
}

/* A thread of another library that calls the runtime makes a context, and that library is named for it. */
static int calls_are_reported(void) {
    CUstream stream;
    CUevent event;
    pthread_t thread;
    if (pthread_create(&thread, NULL, make_context, NULL) || pthread_join(thread, NULL))
        return 1;
    if (begin(&stream, &event) || caller_synchronize(stream) || cuCtxSynchronize())
        return 2;
    if (standin_count(STANDIN_CREATE_CONTEXT, "libcaller") != 1 ||
        standin_count(STANDIN_CREATE_CONTEXT, "test_knobs") != 0)
        return 3;
    if (standin_count(STANDIN_SYNCHRONIZE, "libcaller") != 2 || standin_count(STANDIN_SYNCHRONIZE, "test_knobs") != 1)
        return 4;
    if (fork() == 0)
        exit(0); /* a child that made no calls reports none */
    wait(NULL);
    return 0;
}

static const struct {
    const char *name;
    int (*body)(void);
} children[] = {
    {"no_devices", no_devices},
    {"memory_is_small", memory_is_small},
    {"handles_come_back", handles_come_back},
    {"handles_do_not_come_back", handles_do_not_come_back},
    {"only_that_librarys_queries_hang", only_that_librarys_queries_hang},
    {"destroying_waits", destroying_waits},
    {"clock_runs_fast", clock_runs_fast},
    {"calls_are_reported", calls_are_reported},
};

static int run_child(const char *name, const char *variable, const char *value) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        setenv(variable, value, 1);
        execl("/proc/self/exe", "test_knobs", name, (char *)NULL);
        _exit(126);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_environment_is_obeyed(void **state) {
    (void)state;
    assert_int_equal(run_child("no_devices", "STANDIN_DEVICES", "0"), 0);
    assert_int_equal(run_child("memory_is_small", "STANDIN_MEMORY", "0x100000"), 0);
    assert_int_equal(run_child("handles_come_back", "STANDIN_HANDLES_REUSED", "1"), 0);
    assert_int_equal(run_child("handles_do_not_come_back", "STANDIN_HANDLES_REUSED", ""), 0);
    assert_int_equal(run_child("only_that_librarys_queries_hang", "STANDIN_EVENT_QUERY_HANG", "libcaller"), 0);
    assert_int_equal(run_child("only_that_librarys_queries_hang", "STANDIN_EVENT_QUERY_HANG", "libother"), 9);
    assert_int_equal(run_child("destroying_waits", "STANDIN_EVENT_DESTROY_HANG", "1"), 0);
    assert_int_equal(run_child("destroying_waits", "STANDIN_EVENT_DESTROY_HANG", "0"), CUDA_ERROR_NOT_READY & 0xff);
    assert_int_equal(run_child("clock_runs_fast", "STANDIN_CLOCK_DRIFT", "1000000"), 0);
}

static void the_report_names_libraries(void **state) {
    char path[] = "/tmp/standin_report_XXXXXX", line[4096];
    int lines = 0, of_caller = 0;
    (void)state;
    close(mkstemp(path));
    assert_int_equal(run_child("calls_are_reported", "STANDIN_REPORT", path), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        lines++;
        of_caller += strstr(line, "libcaller.so\t2\n") && strstr(line, "\tsynchronize\t");
        of_caller += strstr(line, "libcaller.so\t1\n") && strstr(line, "\tcreate-context\t");
    }
    fclose(file);
    unlink(path);
    assert_int_equal(of_caller, 2);
    assert_int_equal(lines, 3); /* and this program's one synchronization */
}

/* What benchmark programs and simple C programs need of libcudart, under its version. */
static const char *const needed[] = {
    "__cudaGetKernel",
    "__cudaLaunchKernel",
    "__cudaPopCallConfiguration",
    "__cudaPushCallConfiguration",
    "__cudaRegisterFatBinary",
    "__cudaRegisterFatBinaryEnd",
    "__cudaRegisterFunction",
    "__cudaUnregisterFatBinary",
    "cudaDeviceGetAttribute",
    "cudaDeviceReset",
    "cudaDeviceSynchronize",
    "cudaEventCreate",
    "cudaEventDestroy",
    "cudaEventElapsedTime",
    "cudaEventRecord",
    "cudaFreeHost",
    "cudaGetDeviceCount",
    "cudaGetDeviceProperties",
    "cudaGetErrorString",
    "cudaGraphDestroy",
    "cudaGraphExecDestroy",
    "cudaGraphInstantiate",
    "cudaGraphLaunch",
    "cudaHostAlloc",
    "cudaLaunchKernel",
    "cudaMemGetInfo",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemset",
    "cudaSetDevice",
    "cudaStreamBeginCapture",
    "cudaStreamCreateWithFlags",
    "cudaStreamEndCapture",
    "cudaStreamQuery",
    "cudaMalloc",
    "cudaFree",
    "cudaGetDevice",
    "cudaStreamCreate",
    "cudaStreamDestroy",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
    "cudaStreamIsCapturing",
    "cudaStreamGetCaptureInfo",
    "cudaEventCreateWithFlags",
    "cudaEventQuery",
    "cudaEventSynchronize",
    "cudaEventRecordWithFlags",
    "cudaLaunchHostFunc",
    "cudaThreadExchangeStreamCaptureMode",
    "cudaGetLastError",
    "cudaGraphInstantiateWithFlags",
    "cudaGraphInstantiateWithParams",
};

static void libraries_have_the_symbols_and_versions(void **state) {
    (void)state;
    void *cudart = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD),
         *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(cudart);
    assert_non_null(cuda);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!dlvsym(cudart, needed[i], "libcudart.so.13"))
            fail_msg("libcudart has no %s", needed[i]);
    assert_non_null(dlsym(cuda, "cuEventElapsedTime_v2"));
    assert_null(dlsym(cuda, "cuStreamDestroy_v3"));
    assert_null(dlsym(cuda, "stream_append")); /* nothing of the engine shows */
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_is_obeyed),
        cmocka_unit_test(the_report_names_libraries),
        cmocka_unit_test(libraries_have_the_symbols_and_versions),
    };
    for (size_t i = 0; argc > 1 && i < sizeof children / sizeof *children; i++)
        if (strcmp(argv[1], children[i].name) == 0)
            return children[i].body();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
