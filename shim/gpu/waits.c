/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables are small and forget: a wait that cannot be told is one less in the figure, never a wrong one.
 */
#include "shim/gpu/waits.h"

#include <errno.h>
#include <string.h>

#include "shim/base/os.h"
#include "shim/gpu/device_lane.h"

#define STREAM_SLOTS 256u
#define EVENT_SLOTS  4096u
#define ENDED_SLOTS  4096u
#define OPEN_MAX     256u

/* handle -> op in a slot of two words. A writer empties the value first and a reader looks at the key last, so that no
 * handle is given another's value. */
struct slot {
    uintptr_t handle;
    uint64_t op; /* + 1; 0 = none */
};

static struct slot last_launch[STREAM_SLOTS], behind[EVENT_SLOTS];

/* Launches that ended, by op. */
static struct {
    uint32_t op;
    uint64_t t1;
} ended[ENDED_SLOTS];

/* Streams that reached a wait for a launch that has not ended yet; the oldest gives way. */
static struct open_wait {
    struct gpu_device *device;
    uint64_t reached;
    struct gpu_launch launch;
} open_waits[OPEN_MAX];
static uint32_t open_next;

static void put(struct slot *slot, const void *handle, uint64_t value) {
    if (__atomic_load_n(&slot->handle, __ATOMIC_RELAXED) != (uintptr_t)handle) {
        __atomic_store_n(&slot->op, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&slot->handle, (uintptr_t)handle, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&slot->op, value, __ATOMIC_RELEASE);
}

static uint64_t get(const struct slot *slot, const void *handle) {
    if (__atomic_load_n(&slot->handle, __ATOMIC_ACQUIRE) != (uintptr_t)handle)
        return 0;
    uint64_t value = __atomic_load_n(&slot->op, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&slot->handle, __ATOMIC_ACQUIRE) == (uintptr_t)handle ? value : 0;
}

static struct slot *stream_slot(const void *stream) {
    return &last_launch[hash_mix((uintptr_t)stream) % STREAM_SLOTS];
}

static struct slot *event_slot(const void *event) {
    return &behind[hash_mix((uintptr_t)event) % EVENT_SLOTS];
}

void waits_launched(const void *stream, uint32_t op) {
    if (!GPU_STREAM_IS_SPECIAL(stream) && op)
        put(stream_slot(stream), stream, op + 1ull);
}

void waits_event_recorded(const void *event, const void *stream) {
    struct slot *slot = event_slot(event);
    uint64_t op = GPU_STREAM_IS_SPECIAL(stream) ? 0 : get(stream_slot(stream), stream);
    if (op || __atomic_load_n(&slot->handle, __ATOMIC_RELAXED) == (uintptr_t)event)
        put(slot, event, op);
}

static bool has_ended(uint32_t op) {
    return __atomic_load_n(&ended[op % ENDED_SLOTS].op, __ATOMIC_ACQUIRE) == op;
}

static struct gpu_device *waiting_device(void *stream) {
    void *context = NULL;
    if (!GPU_STREAM_IS_SPECIAL(stream))
        return gpu_device_of_stream(NULL, stream);
    return gpu_driver.context_current(&context) == GPU_SUCCESS ? gpu_device_of_context(context) : NULL;
}

/* Our event in front of the job's wait; none while the stream is captured. */
static void record_reached(void *stream, uint32_t op) {
    int capturing = GPU_CAPTURE_STATUS_ACTIVE;
    if (gpu_driver.stream_is_capturing(stream, &capturing) != GPU_SUCCESS || capturing != GPU_CAPTURE_STATUS_NONE)
        return;
    struct gpu_device *device = waiting_device(stream);
    struct gpu_span *span = device && gpu_device_is_live(device) ? gpu_span_take(device) : NULL;
    if (!span)
        return;
    span->kind = SPAN_WAIT;
    span->started = 1;
    span->stream = stream;
    span->enqueued_ns = os_monotonic_ns();
    span->launch = (struct gpu_launch){.op = op, .comm = COMM_NONE, .peer = PEER_NONE, .seq = SEQ_NONE};
    if (gpu_driver.event_record(span->stop, stream) == GPU_SUCCESS)
        gpu_span_push(span);
    else
        gpu_span_put(span);
}

void waits_before_wait(void *stream, const void *event) {
    uint64_t op = get(event_slot(event), event);
    if (!op || has_ended((uint32_t)(op - 1)))
        return;
    int saved = errno;
    record_reached(stream, (uint32_t)(op - 1));
    errno = saved;
}

/* ---- harvester ------------------------------------------------------------------------------- */

void waits_begin(void) {
    memset(last_launch, 0, sizeof last_launch);
    memset(behind, 0, sizeof behind);
    memset(ended, 0, sizeof ended);
    memset(open_waits, 0, sizeof open_waits);
}

/* The stream was there at `reached`, the launch ended at `ended`. */
static void record_wait(struct gpu_device *device, const struct gpu_launch *launch, uint64_t reached, uint64_t ended) {
    struct device_state *row = &gpu.rows[gpu_device_index(device)];
    uint64_t until = ended > reached ? ended : reached;
    row->exposed_waits++;
    row->exposed_ns += until - reached;
    device_record(&(struct record){.t0 = reached,
                                   .t1 = until,
                                   .seq = launch->seq,
                                   .op = launch->op,
                                   .comm = launch->comm,
                                   .peer = launch->peer,
                                   .tag = (int32_t)gpu_device_index(device),
                                   .kind = RECORD_EXPOSED});
}

void waits_ended(uint32_t op, uint64_t t1) {
    ended[op % ENDED_SLOTS].t1 = t1;
    __atomic_store_n(&ended[op % ENDED_SLOTS].op, op, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < OPEN_MAX; i++)
        if (open_waits[i].device && open_waits[i].launch.op == op) {
            record_wait(open_waits[i].device, &open_waits[i].launch, open_waits[i].reached, t1);
            open_waits[i].device = NULL;
        }
}

int waits_reached(const struct gpu_span *span) {
    uint64_t reached;
    int status = device_clock_read(&span->device->clock, span->stop, &reached, NULL);
    if (status != GPU_SUCCESS)
        return status;
    if (reached < span->enqueued_ns)
        reached = span->enqueued_ns;
    if (has_ended(span->launch.op))
        record_wait(span->device, &span->launch, reached, ended[span->launch.op % ENDED_SLOTS].t1);
    else
        open_waits[open_next++ % OPEN_MAX] =
            (struct open_wait){.device = span->device, .reached = reached, .launch = span->launch};
    return GPU_SUCCESS;
}
