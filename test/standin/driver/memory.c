/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory, which is the host's, with the accounts of each device; pinned host memory; copies and fills.
 */
#include <stdlib.h>
#include <string.h>

#include "test/standin/driver/engine.h"

enum memory_kind { MEMORY_DEVICE, MEMORY_PINNED, MEMORY_REGISTERED };

struct range {
    uintptr_t base;
    size_t bytes;
    enum memory_kind kind;
    CUcontext context;
};

/* Sorted by address, disjoint. */
static struct range *ranges;
static size_t range_count, range_room;
static size_t used[MAX_DEVICES]; /* device memory in use, by device */

/* The first range that ends behind the address. */
static size_t range_after(uintptr_t address) {
    size_t low = 0, high = range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].base + ranges[middle].bytes > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static struct range *range_of(uintptr_t address) {
    size_t at = range_after(address);
    return at < range_count && ranges[at].base <= address ? &ranges[at] : NULL;
}

static void range_insert(struct range range) {
    if (range_count == range_room) {
        range_room = range_room ? 2 * range_room : 64;
        ranges = reallocate(ranges, range_room * sizeof *ranges);
    }
    size_t at = range_after(range.base);
    memmove(&ranges[at + 1], &ranges[at], (range_count - at) * sizeof *ranges);
    ranges[at] = range;
    range_count++;
}

static void range_remove(struct range *range) {
    if (range->kind == MEMORY_DEVICE)
        used[range->context->device] -= range->bytes;
    if (range->kind != MEMORY_REGISTERED)
        free((void *)range->base);
    size_t at = (size_t)(range - ranges);
    memmove(range, range + 1, (range_count - at - 1) * sizeof *range);
    range_count--;
}

void memory_of_context_destroyed(CUcontext context) {
    for (size_t i = range_count; i-- > 0;)
        if (ranges[i].context == context)
            range_remove(&ranges[i]);
}

static CUresult range_new(size_t bytes, enum memory_kind kind, void **pointer) {
    CUcontext context;
    CUresult result = pointer && bytes ? context_current(&context) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    if (kind == MEMORY_DEVICE && bytes > knobs.memory - used[context->device])
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (posix_memalign(pointer, 512, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (kind == MEMORY_DEVICE)
        used[context->device] += bytes;
    range_insert((struct range){(uintptr_t)*pointer, bytes, kind, context});
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
    ENTER();
    CUcontext context;
    CUresult result = context_current(&context);
    if (!result)
        result = capture_check_unsafe();
    if (!result) {
        *total = knobs.memory;
        *unused = knobs.memory - used[context->device];
    }
    LEAVE(result);
}

static CUresult allocate_device(CUdeviceptr *pointer, size_t bytes) {
    void *memory;
    CUresult result = pointer ? range_new(bytes, MEMORY_DEVICE, &memory) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pointer = (uintptr_t)memory;
    return result;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    ENTER();
    CUresult result = capture_check_unsafe();
    LEAVE(result ? result : allocate_device(pointer, bytes));
}

static CUresult allocate_host(void **pointer, size_t bytes) {
    CUresult result = capture_check_unsafe();
    return result ? result : range_new(bytes, MEMORY_PINNED, pointer);
}

EXPORT CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) {
    ENTER();
    LEAVE(allocate_host(pointer, bytes));
}

EXPORT CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    ENTER();
    (void)flags; /* all memory here is mapped and portable */
    LEAVE(allocate_host(pointer, bytes));
}

/* As in CUDA a free waits for the work of its context. */
static CUresult release(uintptr_t address, enum memory_kind kind, void *caller) {
    struct range *range = range_of(address);
    if (!address)
        return CUDA_SUCCESS;
    if (!range || range->base != address || range->kind != kind)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = capture_check_unsafe();
    if (result)
        return result;
    count_call(STANDIN_FREE, caller);
    context_wait(range->context);
    range = range_of(address); /* may have moved meanwhile, or gone in another thread */
    if (range && range->base == address)
        range_remove(range);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) {
    ENTER();
    LEAVE(release((uintptr_t)pointer, MEMORY_DEVICE, __builtin_return_address(0)));
}

EXPORT CUresult cuMemFreeHost(void *pointer) {
    ENTER();
    LEAVE(release((uintptr_t)pointer, MEMORY_PINNED, __builtin_return_address(0)));
}

/* Memory in stream order is there at once and goes when the stream has come to its free. Under capture CUDA makes
 * allocation nodes, which the stand-in has not. */
EXPORT CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream handle) {
    ENTER();
    CUstream stream;
    CUresult result = stream_of(handle, &stream);
    if (!result && stream->capture)
        result = CUDA_ERROR_NOT_SUPPORTED;
    LEAVE(result ? result : allocate_device(pointer, bytes));
}

static void free_in_order(void *address) {
    pthread_mutex_lock(&engine_lock);
    struct range *range = range_of((uintptr_t)address);
    if (range && range->base == (uintptr_t)address)
        range_remove(range);
    pthread_mutex_unlock(&engine_lock);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
    ENTER();
    CUstream stream;
    const struct range *range = range_of((uintptr_t)pointer);
    CUresult result = stream_of(handle, &stream);
    if (!result && stream->capture)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result && (!range || range->base != pointer || range->kind != MEMORY_DEVICE))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        LEAVE(result);
    struct command *command = command_new(COMMAND_HOST);
    command->function = free_in_order;
    command->argument = (void *)(uintptr_t)pointer;
    LEAVE(stream_submit(stream, command));
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host, unsigned flags) {
    ENTER();
    const struct range *range = range_of((uintptr_t)host);
    if (!pointer || flags || !range || range->kind == MEMORY_DEVICE)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    *pointer = (uintptr_t)host;
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
    ENTER();
    CUcontext context;
    (void)flags;
    CUresult result = pointer && bytes ? context_current(&context) : CUDA_ERROR_INVALID_VALUE;
    size_t next = range_after((uintptr_t)pointer);
    if (!result && next < range_count && ranges[next].base < (uintptr_t)pointer + bytes)
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (!result)
        range_insert((struct range){(uintptr_t)pointer, bytes, MEMORY_REGISTERED, context});
    LEAVE(result);
}

EXPORT CUresult cuMemHostUnregister(void *pointer) {
    ENTER();
    struct range *range = range_of((uintptr_t)pointer);
    if (!range || range->base != (uintptr_t)pointer || range->kind != MEMORY_REGISTERED)
        LEAVE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    range_remove(range);
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
    ENTER();
    const struct range *range = range_of((uintptr_t)pointer);
    if (!range || range->kind != MEMORY_DEVICE)
        LEAVE(CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = range->base;
    if (bytes)
        *bytes = range->bytes;
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
    ENTER();
    const struct range *range = range_of((uintptr_t)pointer);
    if (!value || !range)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = range->context;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = range->kind == MEMORY_DEVICE ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(CUdeviceptr *)value = pointer;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = range->context->device;
        break;
    default:
        LEAVE(CUDA_ERROR_NOT_SUPPORTED);
    }
    LEAVE(CUDA_SUCCESS);
}

static struct command *copy_command(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    struct command *command = command_new(COMMAND_COPY);
    command->to = (void *)(uintptr_t)to;
    command->from = (const void *)(uintptr_t)from;
    command->bytes = bytes;
    return command;
}

static CUresult copy_now(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *caller) {
    CUstream stream;
    CUresult result = bytes && (!to || !from) ? CUDA_ERROR_INVALID_VALUE : stream_of(CU_STREAM_LEGACY, &stream);
    if (!result)
        result = capture_check_wait(stream);
    if (result)
        return result;
    count_call(STANDIN_SYNCHRONIZE, caller);
    stream_append_done_with(stream, copy_command(to, from, bytes));
    stream_wait(stream);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    ENTER();
    LEAVE(copy_now(to, from, bytes, __builtin_return_address(0)));
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    ENTER();
    LEAVE(copy_now(to, (uintptr_t)from, bytes, __builtin_return_address(0)));
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    ENTER();
    LEAVE(copy_now((uintptr_t)to, from, bytes, __builtin_return_address(0)));
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    ENTER();
    LEAVE(copy_now(to, from, bytes, __builtin_return_address(0)));
}

/* A copy from or to memory that CUDA does not know is not asynchronous: it is staged through pinned memory. */
static CUresult copy_in_stream(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle, void *caller) {
    CUstream stream;
    CUresult result = bytes && (!to || !from) ? CUDA_ERROR_INVALID_VALUE : stream_of(handle, &stream);
    if (!result)
        result = stream_submit(stream, copy_command(to, from, bytes));
    if (!result && !stream->capture && (!range_of((uintptr_t)to) || !range_of((uintptr_t)from))) {
        count_call(STANDIN_SYNCHRONIZE, caller);
        stream_wait(stream);
    }
    return result;
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER();
    LEAVE(copy_in_stream(to, from, bytes, stream, __builtin_return_address(0)));
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    ENTER();
    LEAVE(copy_in_stream(to, (uintptr_t)from, bytes, stream, __builtin_return_address(0)));
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER();
    LEAVE(copy_in_stream((uintptr_t)to, from, bytes, stream, __builtin_return_address(0)));
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER();
    LEAVE(copy_in_stream(to, from, bytes, stream, __builtin_return_address(0)));
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                  size_t bytes, CUstream stream) {
    ENTER();
    (void)to_context, (void)from_context; /* one address space */
    LEAVE(copy_in_stream(to, from, bytes, stream, __builtin_return_address(0)));
}

static struct command *fill_command(CUdeviceptr to, unsigned value, unsigned width, size_t count) {
    struct command *command = command_new(COMMAND_FILL);
    command->to = (void *)(uintptr_t)to;
    command->value = value;
    command->width = width;
    command->bytes = width * count;
    return command;
}

/* CUDA's fills of device memory without a stream are asynchronous on the legacy stream. */
static CUresult fill_in_stream(CUdeviceptr to, unsigned value, unsigned width, size_t count, CUstream handle) {
    CUstream stream;
    CUresult result = range_of((uintptr_t)to) ? stream_of(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : stream_submit(stream, fill_command(to, value, width, count));
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
    ENTER();
    LEAVE(fill_in_stream(to, value, 1, count, CU_STREAM_LEGACY));
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
    ENTER();
    LEAVE(fill_in_stream(to, value, 4, count, CU_STREAM_LEGACY));
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    ENTER();
    LEAVE(fill_in_stream(to, value, 1, count, stream));
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    ENTER();
    LEAVE(fill_in_stream(to, value, 4, count, stream));
}
