/* SPDX-License-Identifier: Apache-2.0
 *
 * The names without _ptsz: NCCL, too, takes stream 0 for the legacy stream.
 */
#include "shim/gpu/driver.h"

#include "shim/base/lookup.h"
#include "shim/base/os.h"

struct gpu_driver gpu_driver;

/* Functions whose form differs from the table's. One set per process, like the driver. */
static struct {
    int (*primary_state)(int ordinal, unsigned *flags, int *active);
    int (*primary_retain)(void **context, int ordinal);
    int (*primary_release)(int ordinal);
    int (*capture_info_v3)(void *, int *, uint64_t *, void **, const void ***, const void **, size_t *);
    int (*stream_contexts)(void *stream, void **context, void **green);
    int (*hip_get_device)(int *ordinal);
    int (*hip_set_device)(int ordinal);
    int (*hip_stream_device)(void *stream, int *ordinal);
} foreign;

/* A function of the table: where it goes, whether timing is impossible without it, its names by preference. */
struct driver_function {
    size_t offset;
    bool needed;
    char cuda[2][40]; /* arrays: pointers would be relocations */
    char hip[40];
};

#define IN_TABLE(field) offsetof(struct gpu_driver, field)
static const struct driver_function functions[] = {
    {IN_TABLE(event_create), true, {"cuEventCreate"}, "hipEventCreateWithFlags"},
    {IN_TABLE(event_record), true, {"cuEventRecord"}, "hipEventRecord"},
    {IN_TABLE(event_record_flags), false, {"cuEventRecordWithFlags"}, ""},
    {IN_TABLE(event_query), true, {"cuEventQuery"}, "hipEventQuery"},
    {IN_TABLE(event_elapsed), true, {"cuEventElapsedTime_v2", "cuEventElapsedTime"}, "hipEventElapsedTime"},
    {IN_TABLE(stream_create), true, {"cuStreamCreate"}, "hipStreamCreateWithFlags"},
    {IN_TABLE(stream_context), false, {"cuStreamGetCtx"}, ""},
    {IN_TABLE(stream_is_capturing), true, {"cuStreamIsCapturing"}, "hipStreamIsCapturing"},
    {IN_TABLE(stream_capture), false, {"cuStreamGetCaptureInfo_v2"}, ""},
    {IN_TABLE(capture_mode), true, {"cuThreadExchangeStreamCaptureMode"}, "hipThreadExchangeStreamCaptureMode"},
    {IN_TABLE(context_current), false, {"cuCtxGetCurrent"}, ""},
    {IN_TABLE(context_device), true, {"cuCtxGetDevice"}, "hipGetDevice"},
    {IN_TABLE(context_push), false, {"cuCtxPushCurrent_v2"}, ""},
    {IN_TABLE(context_pop), false, {"cuCtxPopCurrent_v2"}, ""},
    {IN_TABLE(memory_info), false, {"cuMemGetInfo_v2"}, "hipMemGetInfo"},
    {IN_TABLE(attribute), false, {"cuDeviceGetAttribute"}, ""},
    {IN_TABLE(version), false, {"cuDriverGetVersion"}, ""},
    {IN_TABLE(device_name), false, {"cuDeviceGetName"}, "hipDeviceGetName"},
    {IN_TABLE(device_bus), false, {"cuDeviceGetPCIBusId"}, "hipDeviceGetPCIBusId"},
};

static bool fill(struct gpu_driver *driver, const char *library, enum gpu_backend backend) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const struct driver_function *f = &functions[i];
        const char *name = backend == GPU_BACKEND_CUDA ? f->cuda[0] : f->hip;
        void *found = *name ? lookup_in_loaded(library, name) : NULL;
        if (!found && backend == GPU_BACKEND_CUDA && *f->cuda[1])
            found = lookup_in_loaded(library, f->cuda[1]);
        if (!found && f->needed)
            return false;
        *(void **)((char *)driver + f->offset) = found;
    }
    driver->backend = backend;
    return true;
}

/* ---- CUDA ------------------------------------------------------------------------------------ */

/* The primary context where it is in use. Asking takes and returns a reference: it never makes one. */
static int cuda_primary_context(void **context, int ordinal) {
    unsigned flags;
    int active = 0, error = foreign.primary_state(ordinal, &flags, &active);
    *context = NULL;
    if (error || !active)
        return error;
    error = foreign.primary_retain(context, ordinal);
    if (!error)
        foreign.primary_release(ordinal);
    return error;
}

static int capture_info_by_v3(void *stream, int *status, uint64_t *id, void **graph, const void ***nodes,
                              size_t *node_count) {
    const void *edges; /* must be taken where edges carry data, or the call fails */
    return foreign.capture_info_v3(stream, status, id, graph, nodes, &edges, node_count);
}

/* Of a stream of a green context: the primary context of its device, whose events may be recorded there. Without this
 * function (12.5) a driver tells a handle of the green context's own. */
static int context_beside_green(void *stream, void **context) {
    void *green;
    return foreign.stream_contexts(stream, context, &green);
}

static bool find_cuda(struct gpu_driver *driver) {
    static const char library[] = "libcuda.so.1";
    if (!fill(driver, library, GPU_BACKEND_CUDA) || !driver->stream_context || !driver->context_current ||
        !driver->context_push || !driver->context_pop)
        return false;
    *(void **)&foreign.primary_state = lookup_in_loaded(library, "cuDevicePrimaryCtxGetState");
    *(void **)&foreign.primary_retain = lookup_in_loaded(library, "cuDevicePrimaryCtxRetain");
    *(void **)&foreign.primary_release = lookup_in_loaded(library, "cuDevicePrimaryCtxRelease_v2");
    *(void **)&foreign.capture_info_v3 = lookup_in_loaded(library, "cuStreamGetCaptureInfo_v3");
    *(void **)&foreign.stream_contexts = lookup_in_loaded(library, "cuStreamGetCtx_v2");
    if (foreign.stream_contexts)
        driver->stream_context = context_beside_green;
    if (foreign.primary_state && foreign.primary_retain && foreign.primary_release)
        driver->primary_context = cuda_primary_context;
    if (!driver->stream_capture && foreign.capture_info_v3)
        driver->stream_capture = capture_info_by_v3;
    return true;
}

/* ---- HIP (unproven) -------------------------------------------------------------------------- */

static void *hip_context(int ordinal) {
    return (void *)((uintptr_t)ordinal + 1);
}

static int hip_context_current(void **context) {
    int ordinal = 0, error = foreign.hip_get_device(&ordinal);
    *context = hip_context(ordinal);
    return error;
}

static __thread int hip_device_before;

static int hip_context_push(void *context) {
    int error = foreign.hip_get_device(&hip_device_before);
    return error ? error : foreign.hip_set_device((int)((uintptr_t)context - 1));
}

static int hip_context_pop(void **context) {
    *context = NULL;
    return foreign.hip_set_device(hip_device_before);
}

static int hip_stream_context(void *stream, void **context) {
    int ordinal = 0, error = foreign.hip_stream_device(stream, &ordinal);
    *context = hip_context(ordinal);
    return error;
}

static int hip_primary_context(void **context, int ordinal) {
    *context = hip_context(ordinal);
    return GPU_SUCCESS;
}

/* Times in replayed graphs are not to be had there, so the two functions for them stay NULL. */
static bool find_hip(struct gpu_driver *driver) {
    static const char libraries[][20] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        *(void **)&foreign.hip_get_device = lookup_in_loaded(libraries[i], "hipGetDevice");
        *(void **)&foreign.hip_set_device = lookup_in_loaded(libraries[i], "hipSetDevice");
        *(void **)&foreign.hip_stream_device = lookup_in_loaded(libraries[i], "hipStreamGetDevice");
        if (!foreign.hip_get_device || !foreign.hip_set_device || !foreign.hip_stream_device ||
            !fill(driver, libraries[i], GPU_BACKEND_HIP))
            continue;
        driver->context_current = hip_context_current;
        driver->context_push = hip_context_push;
        driver->context_pop = hip_context_pop;
        driver->stream_context = hip_stream_context;
        driver->primary_context = hip_primary_context;
        return true;
    }
    return false;
}

bool gpu_driver_find(void) {
    static uint32_t found;
    if (__atomic_load_n(&found, __ATOMIC_ACQUIRE))
        return true;
    struct gpu_driver driver = {0}; /* threads that race here fill in the same values */
    if (!find_cuda(&driver)) {
        driver = (struct gpu_driver){0};
        if (!find_hip(&driver))
            return false;
    }
    gpu_driver = driver;
    __atomic_store_n(&found, 1, __ATOMIC_RELEASE);
    return true;
}
