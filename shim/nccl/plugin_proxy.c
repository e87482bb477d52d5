/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/plugin_proxy.h"

#include <string.h>
#include <unistd.h>

#include "shim/base/free_list.h"
#include "shim/base/os.h"
#include "shim/gpu/device_lane.h"
#include "shim/nccl/plugin_contexts.h"

enum wait { WAIT_NONE, WAIT_GPU, WAIT_PEER, WAIT_WIRE, WAIT_FLUSH, WAITS };

struct proxy_operation {
    struct proxy_operation *next; /* in the queue, then in the list of open ones */
    uint32_t number, life;
    uint32_t stopped; /* released last */

    /* The thread's that drives it. */
    struct profiler_event event;
    uint32_t comm; /* COMM_NONE: another process's, or not known */
    bool foreign;
    uint8_t quiet;   /* as its launch, where that is known */
    uint64_t t0, t1; /* CLOCK_MONOTONIC ns */
    uint64_t bytes, steps;
    uint64_t waited[WAITS];
    struct {
        uint64_t since;
        uint8_t wait; /* enum wait */
        bool open, counted;
    } in_flight[PROXY_STEPS];

    /* The harvester's. */
    bool joined;
    uint32_t seq, op;
    uint16_t call, flags;
};

static struct {
    struct free_list free;
    struct proxy_operation *operations;
    struct proxy_operation *queue; /* begun, newest first */
    struct proxy_operation *open;  /* the harvester's list */
    struct transfer_row *rows;
    uint16_t used;                          /* rows from the front */
    uint16_t index[PROXY_TRANSFER_ROWS];    /* open addressing: number of a row, from 1; 0 = free */
    uint64_t channels[PROXY_TRANSFER_ROWS]; /* of each row: bit = channel % 64 */
} proxies;

bool proxy_begin(void) {
    memset(&proxies, 0, sizeof proxies);
    proxies.operations = os_memory(PROXY_OPERATIONS * sizeof *proxies.operations);
    uint32_t *next = os_memory(PROXY_OPERATIONS * sizeof *next);
    proxies.free = (struct free_list){.capacity = PROXY_OPERATIONS, .next = next};
    proxies.rows = dumpfile_section(&recorder.file, SECTION_TRANSFERS, 0, PROXY_TRANSFER_ROWS, sizeof *proxies.rows);
    return proxies.operations && next && proxies.rows;
}

const struct transfer_row *proxy_rows(void) {
    return proxies.rows;
}

/* ---- events ---------------------------------------------------------------------------------- */

void *proxy_start(const void *context, const struct profiler_event *event) {
    uint32_t number = proxies.rows ? free_list_take(&proxies.free) : 0;
    if (!number) {
        count_loss(&recorder.header->losses.gpu_no_event);
        return NULL;
    }
    struct proxy_operation *o = &proxies.operations[number - 1];
    uint32_t life = o->life + 1;
    memset((char *)o + offsetof(struct proxy_operation, stopped), 0,
           sizeof *o - offsetof(struct proxy_operation, stopped));
    o->number = number;
    o->event = *event;
    o->foreign = event->proxy.pid != recorder.header->pid;
    o->comm = o->foreign ? COMM_NONE : plugin_comm_of(context);
    o->quiet = __atomic_load_n(&recorder.paused, __ATOMIC_RELAXED);
    o->t0 = os_monotonic_ns();
    __atomic_store_n(&o->life, life, __ATOMIC_RELEASE);
    struct proxy_operation *head = __atomic_load_n(&proxies.queue, __ATOMIC_RELAXED);
    do
        o->next = head;
    while (!__atomic_compare_exchange_n(&proxies.queue, &head, o, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    return plugin_handle_pack((struct plugin_handle){.number = number, .life = life, .kind = PLUGIN_PROXY});
}

static struct proxy_operation *operation_of(const void *handle, enum plugin_handle_kind kind) {
    struct plugin_handle h = plugin_handle_unpack(handle);
    if (h.kind != kind || h.number == 0 || h.number > free_list_limit(&proxies.free))
        return NULL;
    struct proxy_operation *o = &proxies.operations[h.number - 1];
    return __atomic_load_n(&o->life, __ATOMIC_ACQUIRE) == h.life ? o : NULL;
}

void *proxy_step_start(const struct profiler_event *event) {
    struct plugin_handle h = plugin_handle_unpack(event->parent);
    struct proxy_operation *o = operation_of(event->parent, PLUGIN_PROXY);
    if (!o)
        return NULL;
    h.kind = PLUGIN_STEP;
    h.slot = (uint8_t)((unsigned)event->step.step % PROXY_STEPS);
    o->in_flight[h.slot].since = os_monotonic_ns();
    o->in_flight[h.slot].wait = WAIT_NONE;
    o->in_flight[h.slot].open = true;
    o->in_flight[h.slot].counted = false;
    o->steps++;
    return plugin_handle_pack(h);
}

static void end_wait(struct proxy_operation *o, unsigned slot, enum wait next) {
    uint64_t now = os_monotonic_ns();
    o->waited[o->in_flight[slot].wait] += now - o->in_flight[slot].since;
    o->in_flight[slot].since = now;
    o->in_flight[slot].wait = (uint8_t)next;
}

static enum wait wait_of(int state) {
    switch (state) {
    case PROFILER_SEND_GPU_WAIT:
    case PROFILER_RECV_GPU_WAIT:
        return WAIT_GPU;
    case PROFILER_SEND_PEER_WAIT:
        return WAIT_PEER;
    case PROFILER_SEND_WAIT:
    case PROFILER_RECV_WAIT:
        return WAIT_WIRE;
    case PROFILER_RECV_FLUSH_WAIT:
        return WAIT_FLUSH;
    default:
        return WAIT_NONE;
    }
}

/* Only these states come with the size of their own step. */
static bool tells_bytes(int state) {
    return state == PROFILER_SEND_WAIT || state == PROFILER_RECV_FLUSH_WAIT;
}

void proxy_step_state(const void *handle, int state, const union profiler_state_details *details) {
    struct proxy_operation *o = operation_of(handle, PLUGIN_STEP);
    unsigned slot = plugin_handle_unpack(handle).slot;
    enum wait wait = wait_of(state);
    if (!o || wait == WAIT_NONE || !o->in_flight[slot].open)
        return;
    end_wait(o, slot, wait);
    if (details && tells_bytes(state) && !o->in_flight[slot].counted) {
        o->in_flight[slot].counted = true;
        o->bytes += details->step.bytes;
    }
}

void proxy_step_stop(const void *handle) {
    struct proxy_operation *o = operation_of(handle, PLUGIN_STEP);
    unsigned slot = plugin_handle_unpack(handle).slot;
    if (!o || !o->in_flight[slot].open)
        return;
    end_wait(o, slot, WAIT_NONE);
    o->in_flight[slot].open = false;
}

/* At the transfer's end its launch mostly is there still: a kernel ends after its transfers. True: the call that
 * launches it has not returned, its facts follow. */
static bool join_launch(struct proxy_operation *o) {
    const struct kernel_span *span = o->joined || o->foreign ? NULL : plugin_span_of(o->event.parent, PLUGIN_TASK);
    uint32_t state = span ? __atomic_load_n(&span->state, __ATOMIC_ACQUIRE) : KERNEL_FREE;
    if (state != KERNEL_LAUNCHED)
        return state == KERNEL_GATHERS;
    const struct gpu_launch launch = span->launch;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (plugin_span_of(o->event.parent, PLUGIN_TASK) != span) /* given back meanwhile: what was read may be another's */
        return false;
    o->joined = true;
    o->quiet = launch.quiet;
    o->comm = launch.comm;
    o->seq = launch.seq;
    o->op = launch.op;
    o->call = launch.call;
    o->flags = launch.flags & (FLAG_COLLECTIVE | FLAG_CAPTURED);
    return false;
}

void proxy_stop(const void *handle) {
    struct proxy_operation *o = operation_of(handle, PLUGIN_PROXY);
    if (!o)
        return;
    o->t1 = os_monotonic_ns();
    join_launch(o);
    __atomic_store_n(&o->stopped, 1, __ATOMIC_RELEASE);
}

/* ---- the look -------------------------------------------------------------------------------- */

/* Rows lie one behind the other, so that few of them take few pages. */
static struct transfer_row *new_row(const struct proxy_operation *o, uint16_t *number) {
    struct transfer_row *row = &proxies.rows[proxies.used];
    if (!dumpfile_make_room(&recorder.file, row, sizeof *row))
        return NULL;
    *number = ++proxies.used;
    row->comm = o->comm;
    row->peer = o->event.proxy.peer;
    row->sends = o->event.proxy.sends != 0;
    return row;
}

static struct transfer_row *find_row(const struct proxy_operation *o) {
    uint32_t sends = o->event.proxy.sends != 0;
    uint64_t key = hash_mix((uint64_t)o->comm << 33 ^ (uint64_t)(uint32_t)o->event.proxy.peer << 1 ^ sends);
    for (uint32_t i = 0; i < PROXY_TRANSFER_ROWS; i++) {
        uint16_t *number = &proxies.index[(key + i) % PROXY_TRANSFER_ROWS];
        if (!*number)
            return new_row(o, number);
        struct transfer_row *row = &proxies.rows[*number - 1];
        if (row->comm == o->comm && row->peer == o->event.proxy.peer && row->sends == sends)
            return row;
    }
    return NULL;
}

static void count_transfer(const struct proxy_operation *o) {
    struct transfer_row *row = find_row(o);
    if (!row) {
        count_loss(&recorder.header->losses.gpu_no_event);
        return;
    }
    uint64_t *channels = &proxies.channels[row - proxies.rows];
    uint64_t before = row->version;
    *channels |= 1ull << o->event.proxy.channel % 64;
    __atomic_store_n(&row->version, before + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    row->channels = (uint32_t)__builtin_popcountll(*channels);
    row->operations++;
    row->steps += o->steps;
    row->bytes += o->bytes;
    row->wait_gpu += o->waited[WAIT_GPU];
    row->wait_peer += o->waited[WAIT_PEER];
    row->wait_wire += o->waited[WAIT_WIRE];
    row->wait_flush += o->waited[WAIT_FLUSH];
    __atomic_store_n(&row->version, before + 2, __ATOMIC_RELEASE);
}

static void record_transfer(const struct proxy_operation *o) {
    count_transfer(o);
    device_record(&(struct record){.t0 = o->t0,
                                   .t1 = o->t1,
                                   .bytes = o->bytes,
                                   .seq = o->joined ? o->seq : SEQ_NONE,
                                   .op = o->op,
                                   .comm = o->comm,
                                   .peer = o->event.proxy.peer,
                                   .tag = o->event.proxy.channel,
                                   .call = o->call,
                                   .flags = o->flags | (o->event.proxy.sends ? FLAG_SEND : FLAG_RECV),
                                   .kind = RECORD_PROXY});
}

static void finish_transfer(struct proxy_operation *o) {
    if (!o->quiet)
        record_transfer(o);
    __atomic_store_n(&o->life, o->life + 1, __ATOMIC_RELEASE);
    free_list_put(&proxies.free, o->number);
}

bool proxy_look(void) {
    if (!proxies.rows)
        return false;
    bool any = false;
    struct proxy_operation *begun = __atomic_exchange_n(&proxies.queue, NULL, __ATOMIC_ACQUIRE);
    while (begun) {
        struct proxy_operation *next = begun->next;
        begun->next = proxies.open;
        proxies.open = begun;
        begun = next;
    }
    for (struct proxy_operation **link = &proxies.open; *link;) {
        struct proxy_operation *o = *link;
        if (!__atomic_load_n(&o->stopped, __ATOMIC_ACQUIRE) || join_launch(o)) {
            link = &o->next;
            continue;
        }
        *link = o->next;
        finish_transfer(o);
        any = true;
    }
    return any;
}
