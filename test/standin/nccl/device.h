/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver as the stand-in NCCL reaches it: like the real library (whose CUDA runtime is linked in), by dlopen and
 * cuGetProcAddress, so that a preloaded tool does not see these calls as the job's.
 * Lives here: the table of entry points and the few steps made of several. Must not live here: NCCL's rules.
 */
#ifndef STANDIN_NCCL_DEVICE_H
#define STANDIN_NCCL_DEVICE_H

#include "test/standin/nccl_api.h"

#include <stdbool.h>

typedef struct CUctx_st *device_context;
typedef struct CUevent_st *device_event;

/* name in the table, name in the driver, parameters; every one returns a CUresult. */
#define DEVICE_FUNCTIONS(X)                                                                                            \
    X(init, "cuInit", unsigned flags)                                                                                  \
    X(count, "cuDeviceGetCount", int *count)                                                                           \
    X(retain, "cuDevicePrimaryCtxRetain", device_context *context, int device)                                         \
    X(current, "cuCtxGetCurrent", device_context *context)                                                             \
    X(current_device, "cuCtxGetDevice", int *device)                                                                   \
    X(push, "cuCtxPushCurrent", device_context context)                                                                \
    X(pop, "cuCtxPopCurrent", device_context *context)                                                                 \
    X(event_create, "cuEventCreate", device_event *event, unsigned flags)                                              \
    X(event_destroy, "cuEventDestroy", device_event event)                                                             \
    X(event_record, "cuEventRecord", device_event event, cudaStream_t stream)                                          \
    X(event_record_with_flags, "cuEventRecordWithFlags", device_event event, cudaStream_t stream, unsigned flags)      \
    X(stream_wait, "cuStreamWaitEvent", cudaStream_t stream, device_event event, unsigned flags)                       \
    X(capture_info, "cuStreamGetCaptureInfo", cudaStream_t stream, int *status, uint64_t *id, void **graph,            \
      const void **dependencies, size_t *count)                                                                        \
    X(memory_allocate, "cuMemAlloc", void **pointer, size_t bytes)                                                     \
    X(memory_free, "cuMemFree", void *pointer)                                                                         \
    X(enqueue_owned, "standin_stream_enqueue_owned", cudaStream_t stream, void (*work)(void *), void *argument,        \
      void (*release)(void *))                                                                                         \
    X(enqueue_late, "standin_stream_enqueue_late", cudaStream_t stream, void (*work)(void *), void *argument,          \
      void (*release)(void *))

struct device_functions {
#define DEVICE_MEMBER(name, symbol, ...) int (*name)(__VA_ARGS__);
    DEVICE_FUNCTIONS(DEVICE_MEMBER)
#undef DEVICE_MEMBER
};

/* The driver, loaded and initialised at the first call; NULL where there is none or no device. */
const struct device_functions *device_driver(void);

/* The primary context of `device`, kept for the life of the process; NULL on an error. */
device_context device_primary(int device);
/* The calling thread's device: that of its current context, 0 where none is current (as in the CUDA runtime). */
int device_of_thread(void);
/* Between enter and leave the context is current to this thread. */
void device_enter(device_context context);
void device_leave(void);
/* The capture that stream is part of: an id, 0 for none. Error where the capture is invalid. */
bool device_capture(cudaStream_t stream, uint64_t *id);

#endif
