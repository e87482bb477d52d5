/* SPDX-License-Identifier: Apache-2.0
 *
 * The few functions of CUDA that are intercepted: what tells a graph's replays, what makes streams wait for events,
 * what takes contexts away, and what tells a profiler when to look.
 * Must not live here: what is done about it (graphs.c, waits.c, harvester.c).
 *
 * A program whose CUDA runtime is linked statically calls none of these by name; and cuGetProcAddress is not
 * intercepted. There replays are not seen, nor waits, and contexts vanish unannounced (the driver's errors tell).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/gpu/device.h"
#include "shim/gpu/graphs.h"
#include "shim/gpu/harvester.h"
#include "shim/gpu/waits.h"
#include "shim/intercept/orders.h"
#include "shim/intercept/region.h"
#include "shim/intercept/resolve.h"

#define EXPORTED    __attribute__((visibility("default")))
#define NO_PROVIDER 302 /* cudaErrorSharedObjectSymbolNotFound, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND */

/* Integers and pointers all; a function with fewer never looks at the others. */
struct arguments {
    uintptr_t a[6];
    bool per_thread; /* a function for programs built with a default stream per thread: that is what their 0 means */
};

/* The stream among the arguments as the functions without _ptsz name it. Taking a thread's own stream for the legacy
 * one would not only tell wrong times: an event of ours there makes all streams wait for each other. */
static void *stream_at(const struct arguments *x, unsigned i) {
    return x->per_thread && !x->a[i] ? GPU_STREAM_PER_THREAD : (void *)x->a[i];
}

static int pass_on(any_function real, const struct arguments *x) {
    return (int)real(x->a[0], x->a[1], x->a[2], x->a[3], x->a[4], x->a[5]);
}

/* The runtime may come back to us with the driver's function, and a communication library with what is its own. */
static __thread bool inside;

static bool is_the_jobs(void) {
    return !inside && gpu_is_live() && !(this_thread && thread_is_in_call(this_thread));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static int instantiate(any_function real, const struct arguments *x) { /* executable *, graph, ... */
    int result = pass_on(real, x);
    if (result == GPU_SUCCESS)
        graphs_instantiated(*(void **)x->a[0], (void *)x->a[1]);
    return result;
}

static int update(any_function real, const struct arguments *x) { /* executable, graph, ... */
    int result = pass_on(real, x);
    if (result == GPU_SUCCESS)
        graphs_instantiated((void *)x->a[0], (void *)x->a[1]);
    return result;
}

static int launch(any_function real, const struct arguments *x) { /* executable, stream */
    struct graph_launch launch;
    orders_look(); /* a program may do nothing else for hours */
    bool ours = graphs_before_launch(&launch, (void *)x->a[0], stream_at(x, 1));
    int result = pass_on(real, x);
    if (ours)
        graphs_launched(&launch, result == GPU_SUCCESS);
    return result;
}

static int capture_into(any_function real, const struct arguments *x) { /* stream, graph, ... */
    int result = pass_on(real, x);
    if (result == GPU_SUCCESS)
        graphs_captured_into((void *)x->a[1]);
    return result;
}

static int clone(any_function real, const struct arguments *x) { /* graph *, graph */
    int result = pass_on(real, x);
    if (result == GPU_SUCCESS)
        graphs_cloned(*(void **)x->a[0], (void *)x->a[1]);
    return result;
}

static int add_child(any_function real, const struct arguments *x) { /* node *, graph, nodes, count, child */
    int result = pass_on(real, x);
    if (result == GPU_SUCCESS)
        graphs_child_added((void *)x->a[1], (void *)x->a[4]);
    return result;
}

static int destroy_executable(any_function real, const struct arguments *x) {
    graphs_executable_destroyed((void *)x->a[0]);
    return pass_on(real, x);
}

static int destroy_graph(any_function real, const struct arguments *x) {
    graphs_destroyed((void *)x->a[0]);
    return pass_on(real, x);
}

/* ---- events ---------------------------------------------------------------------------------- */

static int record(any_function real, const struct arguments *x) { /* event, stream, ... */
    int result = pass_on(real, x);
    if (result == GPU_SUCCESS)
        waits_event_recorded((void *)x->a[0], stream_at(x, 1));
    return result;
}

static int wait(any_function real, const struct arguments *x) { /* stream, event, ... */
    waits_before_wait(stream_at(x, 0), (void *)x->a[1]);
    return pass_on(real, x);
}

/* ---- ends of contexts ------------------------------------------------------------------------ */

static void quiesce(const void *context, int ordinal) {
    for (uint32_t i = 0; i < gpu_device_limit(); i++)
        if (gpu_device_is_live(&gpu.devices[i]) &&
            (gpu.devices[i].context == context || gpu.devices[i].ordinal == ordinal))
            harvester_quiesce(&gpu.devices[i]);
}

static int reset_current(any_function real, const struct arguments *x) {
    int ordinal;
    if (gpu_driver.context_device(&ordinal) == GPU_SUCCESS)
        quiesce(NULL, ordinal);
    return pass_on(real, x);
}

static int reset_primary(any_function real, const struct arguments *x) { /* device */
    quiesce(NULL, (int)x->a[0]);
    return pass_on(real, x);
}

static int destroy_context(any_function real, const struct arguments *x) { /* context */
    if (x->a[0])
        quiesce((void *)x->a[0], -1);
    return pass_on(real, x);
}

/* ---- the functions --------------------------------------------------------------------------- */

static uintptr_t no_provider(void) {
    return NO_PROVIDER;
}

#define CUDA(name, handler)      CUDA_FUNCTION(name, handler, false)
#define CUDA_PTSZ(name, handler) CUDA_FUNCTION(name##_ptsz, handler, true)
#define CUDA_FUNCTION(name, handler, per_thread)                                                                       \
    EXPORTED int name(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);                               \
    HOOK(name, real_##name);                                                                                           \
    int name(uintptr_t a1, uintptr_t a2, uintptr_t a3, uintptr_t a4, uintptr_t a5, uintptr_t a6) {                     \
        const void *caller = __builtin_return_address(0);                                                              \
        any_function real = resolve_hook(&hook_##name, caller);                                                        \
        if (unlikely(!real))                                                                                           \
            real = resolve_absent(#name, caller, (any_function)no_provider);                                           \
        return dispatch(real, handler, &(struct arguments){{a1, a2, a3, a4, a5, a6}, per_thread});                     \
    }

static inline int dispatch(any_function real, int (*handler)(any_function, const struct arguments *),
                           const struct arguments *x) {
    if (likely(!is_the_jobs()))
        return pass_on(real, x);
    inside = true;
    int result = handler(real, x);
    inside = false;
    return result;
}

CUDA(cudaGraphInstantiate, instantiate)
CUDA(cudaGraphInstantiateWithFlags, instantiate)
CUDA(cudaGraphInstantiateWithParams, instantiate)
CUDA_PTSZ(cudaGraphInstantiateWithParams, instantiate)
CUDA(cuGraphInstantiate, instantiate)
CUDA(cuGraphInstantiate_v2, instantiate)
CUDA(cuGraphInstantiateWithFlags, instantiate)
CUDA(cuGraphInstantiateWithParams, instantiate)
CUDA_PTSZ(cuGraphInstantiateWithParams, instantiate)
CUDA(cudaGraphExecUpdate, update)
CUDA(cuGraphExecUpdate, update)
CUDA(cuGraphExecUpdate_v2, update)
CUDA(cudaGraphLaunch, launch)
CUDA_PTSZ(cudaGraphLaunch, launch)
CUDA(cuGraphLaunch, launch)
CUDA_PTSZ(cuGraphLaunch, launch)
CUDA(cudaGraphExecDestroy, destroy_executable)
CUDA(cuGraphExecDestroy, destroy_executable)
CUDA(cudaStreamBeginCaptureToGraph, capture_into)
CUDA_PTSZ(cudaStreamBeginCaptureToGraph, capture_into)
CUDA(cuStreamBeginCaptureToGraph, capture_into)
CUDA_PTSZ(cuStreamBeginCaptureToGraph, capture_into)
CUDA(cudaGraphClone, clone)
CUDA(cuGraphClone, clone)
CUDA(cudaGraphAddChildGraphNode, add_child)
CUDA(cuGraphAddChildGraphNode, add_child)
CUDA(cudaGraphDestroy, destroy_graph)
CUDA(cuGraphDestroy, destroy_graph)

CUDA(cudaEventRecord, record)
CUDA_PTSZ(cudaEventRecord, record)
CUDA(cudaEventRecordWithFlags, record)
CUDA_PTSZ(cudaEventRecordWithFlags, record)
CUDA(cuEventRecord, record)
CUDA_PTSZ(cuEventRecord, record)
CUDA(cuEventRecordWithFlags, record)
CUDA_PTSZ(cuEventRecordWithFlags, record)
CUDA(cudaStreamWaitEvent, wait)
CUDA_PTSZ(cudaStreamWaitEvent, wait)
CUDA(cuStreamWaitEvent, wait)
CUDA_PTSZ(cuStreamWaitEvent, wait)

CUDA(cudaDeviceReset, reset_current)
CUDA(cuDevicePrimaryCtxReset, reset_primary)
CUDA(cuDevicePrimaryCtxReset_v2, reset_primary)
CUDA(cuCtxDestroy, destroy_context)
CUDA(cuCtxDestroy_v2, destroy_context)

/* ---- regions --------------------------------------------------------------------------------- */

/* With or without a GPU that is recorded: the first region may begin before the first communicator. */
#define PROFILER(name, inside)                                                                                         \
    EXPORTED int name(void);                                                                                           \
    HOOK(name, real_##name);                                                                                           \
    int name(void) {                                                                                                   \
        const void *caller = __builtin_return_address(0);                                                              \
        any_function real = resolve_hook(&hook_##name, caller);                                                        \
        if (unlikely(!real))                                                                                           \
            real = resolve_absent(#name, caller, (any_function)no_provider);                                           \
        if (region_marked_by(&recorder.knobs) == REGION_PROFILER)                                                      \
            region_set(inside);                                                                                        \
        return (int)real();                                                                                            \
    }

PROFILER(cudaProfilerStart, true)
PROFILER(cudaProfilerStop, false)
PROFILER(cuProfilerStart, true)
PROFILER(cuProfilerStop, false)
