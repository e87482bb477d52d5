/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/device.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/base/os.h"

struct gpu_engine gpu;

/* ---- contexts and streams -------------------------------------------------------------------- */

/* What a gone device's place holds instead of its context, so that a later context at the same address is told apart.
 */
static char gone_context;

struct gpu_device *gpu_device_of_context(const void *context) {
    for (uint32_t i = 0; i < gpu_device_limit(); i++)
        if (__atomic_load_n(&gpu.devices[i].context, __ATOMIC_ACQUIRE) == context)
            return &gpu.devices[i];
    return NULL;
}

static bool claim_context(struct gpu_device *device, void *expected, void *context) {
    return __atomic_compare_exchange_n(&device->context, &expected, context, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* The place of a device that was reset is its own again; otherwise a new one. */
static struct gpu_device *claim_place(void *context, int ordinal) {
    uint32_t limit = gpu_device_limit();
    for (uint32_t i = 0; i < limit; i++)
        if (gpu.devices[i].ordinal == ordinal && claim_context(&gpu.devices[i], &gone_context, context))
            return &gpu.devices[i];
    for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++)
        if (claim_context(&gpu.devices[i], NULL, context)) {
            while (limit <= i && !__atomic_compare_exchange_n(&gpu.device_limit, &limit, i + 1, false, __ATOMIC_ACQ_REL,
                                                              __ATOMIC_ACQUIRE))
                ;
            return &gpu.devices[i];
        }
    return NULL;
}

struct gpu_device *gpu_device_attach(void *context, int ordinal) {
    struct gpu_device *device = gpu_device_of_context(context);
    if (device)
        return device;
    device = claim_place(context, ordinal);
    if (!device)
        return NULL;
    device->ordinal = ordinal;
    device->incarnation++;
    __atomic_store_n(&device->chunk_count, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&device->missed, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&device->free, (device->free >> 32) << 32, __ATOMIC_RELEASE);
    if (!gpu.kernel && !gpu_pool_grow(device)) {
        gpu_device_drop(device);
        return NULL;
    }
    __atomic_store_n(&device->life, DEVICE_LIVE, __ATOMIC_RELEASE);
    return device;
}

void gpu_device_drop(struct gpu_device *device) {
    __atomic_store_n(&device->life, DEVICE_GONE, __ATOMIC_RELEASE);
    __atomic_store_n(&device->context, (void *)&gone_context, __ATOMIC_RELEASE);
}

void gpu_device_error(struct gpu_device *device, int status) {
    if (status == GPU_DEINITIALIZED || status == GPU_INVALID_CONTEXT || status == GPU_INVALID_HANDLE ||
        status == GPU_CONTEXT_IS_DESTROYED)
        gpu_device_drop(device);
}

/* stream -> device, in one word each: the handle below, the device's number + 1 in the byte above (user addresses have
 * at most 56 bits). Handles are reused, so what stands here is believed only until a record fails. */
#define STREAM_CACHE 256u
#define HANDLE_BITS  56
static uint64_t stream_cache[STREAM_CACHE];

static uint64_t *cache_slot(const void *stream) {
    return &stream_cache[hash_mix((uintptr_t)stream) % STREAM_CACHE];
}

struct gpu_device *gpu_device_of_stream(struct gpu_device *fallback, void *stream) {
    if (GPU_STREAM_IS_SPECIAL(stream))
        return fallback;
    uint64_t *slot = cache_slot(stream), seen = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (likely(seen << (64 - HANDLE_BITS) == (uint64_t)(uintptr_t)stream << (64 - HANDLE_BITS) && seen)) {
        struct gpu_device *device = &gpu.devices[(seen >> HANDLE_BITS) - 1];
        if (gpu_device_is_live(device))
            return device;
    }
    void *context = NULL;
    if (gpu_driver.stream_context(stream, &context) != GPU_SUCCESS || !context)
        return NULL;
    struct gpu_device *device = gpu_device_of_context(context);
    if (device)
        __atomic_store_n(slot, (uint64_t)(uintptr_t)stream | (uint64_t)(gpu_device_index(device) + 1) << HANDLE_BITS,
                         __ATOMIC_RELAXED);
    return device;
}

void gpu_stream_forget(void *stream) {
    __atomic_store_n(cache_slot(stream), 0, __ATOMIC_RELAXED);
}

/* ---- the pool -------------------------------------------------------------------------------- */

static struct gpu_span *numbered(const struct gpu_device *device, uint32_t number) {
    return &device->chunks[(number - 1) / GPU_SPANS_PER_CHUNK][(number - 1) % GPU_SPANS_PER_CHUNK];
}

/* The count of changes keeps a thread that was held up from taking a span that meanwhile came and went. */
static uint64_t next_free(uint64_t before, uint32_t number) {
    return ((before >> 32) + 1) << 32 | number;
}

/* Asleep it may be for much longer than a burst of launches takes to use up the pool. */
static void wake_harvester(struct gpu_device *device, uint32_t number) {
    if (__atomic_compare_exchange_n(&device->wake_at, &number, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
        !__atomic_exchange_n(&gpu.wanted, 1, __ATOMIC_RELEASE))
        syscall(SYS_futex, &gpu.wanted, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

struct gpu_span *gpu_span_take(struct gpu_device *device) {
    uint64_t head = __atomic_load_n(&device->free, __ATOMIC_ACQUIRE);
    struct gpu_span *span;
    do {
        if (!(uint32_t)head) {
            __atomic_fetch_add(&device->missed, 1, __ATOMIC_RELAXED);
            return NULL;
        }
        span = numbered(device, (uint32_t)head);
    } while (!__atomic_compare_exchange_n(&device->free, &head,
                                          next_free(head, __atomic_load_n(&span->free_next, __ATOMIC_RELAXED)), true,
                                          __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
    if (unlikely(span->number == __atomic_load_n(&device->wake_at, __ATOMIC_RELAXED)))
        wake_harvester(device, span->number);
    return span;
}

void gpu_span_put(struct gpu_span *span) {
    struct gpu_device *device = span->device;
    __atomic_store_n(&span->pushed, 0, __ATOMIC_RELAXED);
    if (span->incarnation != device->incarnation)
        return;
    uint64_t head = __atomic_load_n(&device->free, __ATOMIC_RELAXED);
    do
        __atomic_store_n(&span->free_next, (uint32_t)head, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&device->free, &head, next_free(head, span->number), true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
}

void gpu_spans_claim_all(void (*lost)(const struct gpu_span *span)) {
    for (uint32_t d = 0; d < gpu_device_limit(); d++) {
        struct gpu_device *device = &gpu.devices[d];
        uint32_t count = __atomic_load_n(&device->chunk_count, __ATOMIC_ACQUIRE) * GPU_SPANS_PER_CHUNK;
        for (uint32_t number = 1; number <= count; number++) {
            struct gpu_span *span = numbered(device, number);
            if (span->device && gpu_span_claim(span)) /* NULL: the driver made no event for it */
                lost(span);
        }
    }
}

void gpu_span_push(struct gpu_span *span) {
    __atomic_store_n(&span->pushed, 1, __ATOMIC_RELAXED);
    struct gpu_span *head = __atomic_load_n(&gpu.queue, __ATOMIC_RELAXED);
    do
        span->next = head;
    while (!__atomic_compare_exchange_n(&gpu.queue, &head, span, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

bool gpu_pool_grow(struct gpu_device *device) {
    uint32_t chunk = device->chunk_count;
    struct gpu_span *spans = chunk < GPU_CHUNKS_MAX ? os_memory(GPU_SPANS_PER_CHUNK * sizeof *spans) : NULL;
    if (!spans)
        return false;
    uint32_t made = 0;
    for (; made < GPU_SPANS_PER_CHUNK; made++) {
        struct gpu_span *span = &spans[made];
        if (gpu_driver.event_create(&span->start, 0) || gpu_driver.event_create(&span->stop, 0))
            break;
        span->device = device;
        span->incarnation = device->incarnation;
        span->number = chunk * GPU_SPANS_PER_CHUNK + made + 1;
    }
    if (!made)
        return false;
    device->chunks[chunk] = spans;
    __atomic_store_n(&device->chunk_count, chunk + 1, __ATOMIC_RELEASE);
    for (uint32_t i = made; i > 0; i--)
        gpu_span_put(&spans[i - 1]);
    gpu_pool_watch(device);
    return true;
}

void gpu_pool_watch(struct gpu_device *device) {
    uint32_t before = (device->chunk_count - 1) * GPU_SPANS_PER_CHUNK;
    __atomic_store_n(&device->wake_at, before + GPU_SPANS_PER_CHUNK / 2, __ATOMIC_RELAXED);
}
