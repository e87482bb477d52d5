/* SPDX-License-Identifier: Apache-2.0
 *
 * The few functions of a GPU driver that timing needs, found in the process.
 * Lives here: the table of backends (CUDA's driver API, HIP), status codes, declarations that match the vendors'
 * headers. Must not live here: what is done with events.
 *
 * Handles are opaque pointers. Every function returns 0 or the driver's error. HIP has no contexts of its own worth
 * the name: there a "context" is the device's ordinal + 1. HIP has not been run against a library: unproven.
 */
#ifndef COMMTAP_GPU_DRIVER_H
#define COMMTAP_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpu_backend { GPU_BACKEND_NONE = 0, GPU_BACKEND_CUDA = 1, GPU_BACKEND_HIP = 2 }; /* device_state.backend */

/* CUDA's numbers; HIP's are the same where both have one. */
enum gpu_status {
    GPU_SUCCESS = 0,
    GPU_DEINITIALIZED = 4,
    GPU_INVALID_CONTEXT = 201,
    GPU_INVALID_HANDLE = 400,
    GPU_NOT_READY = 600,
    GPU_CONTEXT_IS_DESTROYED = 709,
};

#define GPU_EVENT_RECORD_EXTERNAL     1u /* CU_EVENT_RECORD_EXTERNAL: the record becomes a node of the captured graph */
#define GPU_STREAM_NON_BLOCKING       1u /* CU_STREAM_NON_BLOCKING: not ordered with the legacy stream */
#define GPU_CAPTURE_STATUS_NONE       0
#define GPU_CAPTURE_STATUS_ACTIVE     1
#define GPU_CAPTURE_MODE_RELAXED      2
#define GPU_STREAM_PER_THREAD         ((void *)2)                 /* CU_STREAM_PER_THREAD */
#define GPU_STREAM_IS_SPECIAL(stream) ((uintptr_t)(stream) <= 2u) /* NULL, legacy, per thread */

struct gpu_driver {
    enum gpu_backend backend;
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_record_flags)(void *event, void *stream, unsigned flags); /* NULL: nothing can be timed in graphs */
    int (*event_query)(void *event);
    int (*event_elapsed)(float *milliseconds, void *start, void *end);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_context)(void *stream, void **context);
    int (*stream_is_capturing)(void *stream, int *status);
    int (*stream_capture)(void *stream, int *status, uint64_t *id, void **graph, const void ***nodes,
                          size_t *node_count); /* NULL as above */
    int (*capture_mode)(int *mode);
    int (*context_current)(void **context);
    int (*context_device)(int *ordinal);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*primary_context)(void **context, int ordinal); /* NULL in *context where the device is not in use */
    int (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    int (*attribute)(int *value, int which, int ordinal); /* these two: NULL where not known */
    int (*version)(int *version);
    int (*device_name)(char *name, int bytes, int ordinal);
    int (*device_bus)(char *bus, int bytes, int ordinal);
};

extern struct gpu_driver gpu_driver;

/* Fills gpu_driver from a driver library that the process has loaded; loads nothing. False when there is none, or when
 * it lacks a function that timing cannot do without. Several threads may call it at once. */
bool gpu_driver_find(void);

#endif
