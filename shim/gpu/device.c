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

/* The place of a device that was reset is its own again; otherwise a new one. *ours: not another thread's, which claims
 * it for the same context at the same time: its place comes before the first free one. */
static struct gpu_device *claim_place(void *context, int ordinal, bool *ours) {
    uint32_t limit = gpu_device_limit();
    *ours = true;
    for (uint32_t i = 0; i < limit; i++)
        if (gpu.devices[i].ordinal == ordinal && claim_context(&gpu.devices[i], &gone_context, context))
            return &gpu.devices[i];
    for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++)
        if (claim_context(&gpu.devices[i], NULL, context)) {
            while (limit <= i && !__atomic_compare_exchange_n(&gpu.device_limit, &limit, i + 1, false, __ATOMIC_ACQ_REL,
                                                              __ATOMIC_ACQUIRE))
                ;
            return &gpu.devices[i];
        } else if (__atomic_load_n(&gpu.devices[i].context, __ATOMIC_ACQUIRE) == context) {
            *ours = false;
            return &gpu.devices[i];
        }
    return NULL;
}

struct gpu_device *gpu_device_attach(void *context, int ordinal) {
    struct gpu_device *device = gpu_device_of_context(context);
    if (device)
        return device;
    bool ours;
    device = claim_place(context, ordinal, &ours);
    if (!device || !ours)
        return device;
    device->ordinal = ordinal;
    device->incarnation++;
    __atomic_store_n(&device->span_count, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&device->missed, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&device->free, (device->free >> 32) << 32, __ATOMIC_RELEASE);
    device->spans = gpu.kernel ? NULL : os_memory(GPU_SPANS_MAX * sizeof *device->spans);
    if (!gpu.kernel && (!device->spans || !gpu_pool_grow(device))) {
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
    return &device->spans[number - 1];
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

/* So many numbers from the returned one on are the caller's; fewer where there is no more room, 0: none. */
static uint32_t reserve_numbers(struct gpu_device *device, uint32_t *count) {
    uint32_t before = __atomic_load_n(&device->span_count, __ATOMIC_RELAXED), taken;
    do
        taken = before + *count < GPU_SPANS_MAX ? *count : GPU_SPANS_MAX - before;
    while (!__atomic_compare_exchange_n(&device->span_count, &before, before + taken, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    *count = taken;
    return taken ? before + 1 : 0;
}

/* False: the driver makes no more events; the number remains without a span. */
static bool make_span(struct gpu_device *device, uint32_t number) {
    struct gpu_span *span = numbered(device, number);
    if (gpu_driver.event_create(&span->start, 0) || gpu_driver.event_create(&span->stop, 0))
        return false;
    span->incarnation = device->incarnation;
    span->number = number;
    __atomic_store_n(&span->device, device, __ATOMIC_RELEASE);
    return true;
}

static struct gpu_span *make_one(struct gpu_device *device) {
    uint32_t one = 1, number = device->spans ? reserve_numbers(device, &one) : 0;
    bool entered = number && gpu_context_enter(device);
    bool made = number && gpu_device_is_live(device) && make_span(device, number);
    gpu_context_leave(entered);
    return made ? numbered(device, number) : NULL;
}

struct gpu_span *gpu_span_take(struct gpu_device *device) {
    uint64_t head = __atomic_load_n(&device->free, __ATOMIC_ACQUIRE);
    struct gpu_span *span;
    do {
        if (!(uint32_t)head) {
            __atomic_fetch_add(&device->missed, 1, __ATOMIC_RELAXED);
            return make_one(device);
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
        uint32_t count = __atomic_load_n(&device->span_count, __ATOMIC_ACQUIRE);
        for (uint32_t number = 1; number <= count; number++) {
            struct gpu_span *span = numbered(device, number);
            /* NULL: it is not made yet, or the driver made no event for it */
            if (__atomic_load_n(&span->device, __ATOMIC_ACQUIRE) && gpu_span_claim(span))
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
    uint32_t count = GPU_SPANS_PER_CHUNK, first = reserve_numbers(device, &count), made = 0;
    while (made < count && make_span(device, first + made))
        made++;
    if (!made)
        return false;
    for (uint32_t i = made; i > 0; i--)
        gpu_span_put(numbered(device, first + i - 1));
    device->newest = first;
    gpu_pool_watch(device);
    return true;
}

void gpu_pool_watch(struct gpu_device *device) {
    __atomic_store_n(&device->wake_at, device->newest + GPU_SPANS_PER_CHUNK / 2 - 1, __ATOMIC_RELAXED);
}
