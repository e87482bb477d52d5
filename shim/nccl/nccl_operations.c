/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/nccl_operations.h"

#include "shim/comm/ordinals.h"
#include "shim/nccl/nccl_abi.h"
#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/nccl_groups.h"
#include "shim/nccl/nccl_launches.h"
#include "shim/nccl/nccl_sensors.h"
#include "shim/nccl/nccl_windows.h"

/* ---- facts ----------------------------------------------------------------------------------- */

static uint64_t sum_of_sizes(const size_t *counts, uint32_t n) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += counts[i];
    return total;
}

uint64_t nccl_bytes(const struct call *call, const uintptr_t *a, uint32_t ranks) {
    uint32_t type = call->type ? (uint32_t)a[call->type - 1] : 0;
    uint64_t count = call->count ? (uint64_t)a[call->count - 1] : 0;
    if (call->bytes == BYTES_ZERO)
        return 0;
    if (type >= NCCL_DATATYPES || (call->bytes != BYTES_COUNT && !ranks))
        return BYTES_UNKNOWN;
    uint64_t size = nccl_datatypes[type].size;
    if (call->bytes == BYTES_SUM)
        return count ? sum_of_sizes((const size_t *)a[call->count - 1], ranks) * size : BYTES_UNKNOWN;
    return call->bytes == BYTES_COUNT_N ? count * size * ranks : count * size;
}

/* Two names of one operation: ranks may mix them. */
static uint16_t operation_id(const struct call *call) {
    uint16_t id = call->bits & CALL_CONFIG ? (uint16_t)(call->id - NCCL_CONFIG_IDS) : call->id;
    if (id == commtap_calls[INDEX_ncclBcast].id)
        return commtap_calls[INDEX_ncclBroadcast].id;
    return id == commtap_calls[INDEX_ncclAllToAll].id ? commtap_calls[INDEX_ncclAlltoAll].id : id;
}

uint64_t nccl_signature(const struct call_frame *f) {
    uint64_t h = (uint64_t)operation_id(f->call) << 16 | (uint64_t)f->dtype << 8 | f->redop;
    h ^= (uint64_t)(uint32_t)f->peer << 32;
    return f->call->bytes == BYTES_SUM ? h : h ^ hash_spread(f->bytes);
}

static void find_nccl_root(struct call_frame *f) {
    f->peer = (int32_t)argument(f, f->call->root);
    if (f->comm && f->peer == f->comm->rank) {
        f->flags |= FLAG_ROOT;
        f->peer_class = PEER_CLASS_ROOT;
    }
}

static void find_partner(struct call_frame *f) {
    f->peer = (int32_t)argument(f, f->call->peer);
    f->peer_class = f->comm && f->peer == f->comm->rank ? PEER_CLASS_SELF : PEER_CLASS_RANK;
}

/* What follows from the arguments. */
static void find_facts(struct call_frame *f) {
    const struct call *call = f->call;
    frame_set_comm(f, nccl_communicator_find(argument(f, call->comm)));
    f->bytes = nccl_bytes(call, f->a, f->comm ? f->comm->size : 0);
    if (call->type && (uint32_t)argument(f, call->type) < NCCL_DATATYPES)
        f->dtype = nccl_datatypes[(uint32_t)argument(f, call->type)].code;
    if (call->redop && (uint32_t)argument(f, call->redop) < NCCL_REDOPS)
        f->redop = nccl_redops[(uint32_t)argument(f, call->redop)];
    if (call->root)
        find_nccl_root(f);
    if (call->peer)
        find_partner(f);
    if (f->comm && nccl_kind_is_cached((enum call_kind)call->kind) && call->bytes <= BYTES_COUNT_N)
        remember_frame(f, nccl_signature(f));
}

/* Before an operation: its facts, and what every one has for itself. */
static void begin_operation(struct call_frame *f) {
    if (unlikely(!f->cached))
        find_facts(f);
    nccl_tail(f)->stream = (void *)argument(f, f->call->stream);
    f->op = nccl_next_op();
    nccl_tail(f)->span = NULL;
    nccl_tail(f)->kernel = NULL;
    nccl_tail(f)->overlaps = f->comm && unlikely(nccl_communicator(f->comm)->windows) && nccl_windows_overlap(f);
    if (f->comm && unlikely(nccl_communicator(f->comm)->launching))
        nccl_drop_launching(f->comm);
}

/* ---- launches --------------------------------------------------------------------------------- */

/* On one rank a collective runs inside its call, group or not. */
static bool runs_alone(const struct call_frame *f) {
    return !group_is_open(f->self) || ((f->flags & FLAG_COLLECTIVE) && f->comm->size == 1);
}

static void begin_launch(struct call_frame *f) {
    if (f->comm && runs_alone(f))
        nccl_tail(f)->span = nccl_span_begin(f->comm, nccl_tail(f)->stream, 1, nccl_tail(f)->overlaps);
}

/* ---- recording ------------------------------------------------------------------------------- */

/* The host's time is that of the enqueueing call. In a group it has none: the call only gathers, the end launches. */
static void aggregate_posted(const struct call_frame *f) {
    uint64_t posting = f->t1 - f->t0;
    struct lane *lane = f->self->lane;
    count_site(lane, f->cached, f->stack, f->comm_index, f->id, f->bytes, posting, 0);
    if (f->flags & (FLAG_SEND | FLAG_RECV))
        count_peer(lane, f->cached, f->comm_index, f->peer, f->id, f->flags & (FLAG_SEND | FLAG_RECV), f->bytes, 0, 0);
    bool timed = !group_is_open(f->self);
    if (likely(!f->failed) && cached_call_has_row(f->cached, f->bytes)) {
        if (timed)
            cached_call_count(f->cached, f->bytes, posting, posting, false);
        else
            cached_call_count_untimed(f->cached, posting);
        return;
    }
    const struct operation_sample sample = {.call = f->id,
                                            .peer_class = f->peer_class,
                                            .comm = f->comm_index,
                                            .bytes = f->bytes,
                                            .time = timed ? posting : UINT64_MAX,
                                            .posting = posting,
                                            .failed = f->failed};
    operations_add(lane, &sample);
    cached_call_learn(f->cached, lane, &sample);
}

/* Without times of the GPU nobody else prints the operation. */
static void print_untimed(const struct call_frame *f) {
    struct call plain = *f->call;
    plain.busbw = BUSBW_NONE; /* the time is that of enqueueing: no bandwidth follows from it */
    verbose_line(&plain, f->comm ? f->comm->size : 0, f->bytes, f->t1 - f->t0);
}

/* The record of a group's first operation may have to be changed: the second one makes a group of it. */
static struct record_place record_posted(const struct call_frame *f, bool is_first_of_group) {
    struct record_place nowhere = {.ticket = UINT64_MAX};
    if (f->quiet)
        return nowhere;
    aggregate_posted(f);
    if (unlikely(recorder.verbose && (!f->comm || nccl_communicator(f->comm)->device < 0)))
        print_untimed(f);
    if (is_first_of_group) {
        const struct facts facts = frame_facts(f, RECORD_POST, f->tag);
        return ring_write_amendable(f->self->lane, &facts, &(struct record_moment){f->t0, f->t1, f->seq, f->op});
    }
    record_frame(f, RECORD_POST);
    return nowhere;
}

/* ---- what all operations share --------------------------------------------------------------- */

static void settle_unseen(struct call_frame *f) {
    if (nccl_tail(f)->in_progress) /* not to be asked anything now */
        return;
    frame_set_comm(f, nccl_register_unseen(argument(f, f->call->comm), nccl_tail(f)->function));
    f->bytes = nccl_bytes(f->call, f->a, f->comm ? f->comm->size : 0);
}

/* A communicator that another thread destroyed or aborted meanwhile (a watchdog, while we were stuck) is none any more:
 * its place and its progress may be another's. */
static ALWAYS_INLINE bool is_gone(const struct call_frame *f) {
    return f->comm && communicator_is_gone(f->comm, f->comm_index);
}

static bool is_captured(const struct call_frame *f) {
    const struct gpu_span *span = nccl_tail(f)->span;
    if (gpu_span_is_captured(span) && f->flags & (FLAG_SEND | FLAG_RECV))
        gpu_span_holds(span, &(struct capture_part){.comm = f->comm_index,
                                                    .peer = f->peer,
                                                    .count = 1,
                                                    .stack = f->stack,
                                                    .call = f->id,
                                                    .flags = f->flags & (FLAG_SEND | FLAG_RECV)});
    return gpu_span_is_captured(span) || (nccl_tail(f)->kernel && nccl_tail(f)->kernel->captured);
}

/* The call has returned: its launch is under way, or waits for the end of the group. */
static void operation_after(struct call_frame *f) {
    struct group_launch *launch = NULL;
    if (unlikely(is_gone(f)))
        f->comm = NULL;
    if (unlikely(f->failed || !f->comm)) {
        gpu_span_drop(nccl_tail(f)->span);
        kernel_span_drop(nccl_tail(f)->kernel);
    } else if (!nccl_tail(f)->span && !nccl_tail(f)->kernel && nccl_communicator(f->comm)->device < 0 &&
               runs_alone(f)) {
        if (f->flags & FLAG_COLLECTIVE)
            nccl_progress_untimed(f->comm->progress);
    } else if (runs_alone(f)) {
        struct gpu_launch facts;
        if (is_captured(f))
            f->flags |= FLAG_CAPTURED;
        nccl_fill_launch(&facts, f);
        nccl_launched(f->comm, nccl_tail(f)->span, nccl_tail(f)->kernel, &facts, nccl_tail(f)->in_progress);
    } else if ((launch = group_find_launch(f->self, f->comm))) {
        group_join(launch, f);
    }
    sensors_count(f);
    struct record_place place = record_posted(f, launch && launch->operations == 1);
    if (launch)
        group_joined(launch, &place);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void take_number(struct call_frame *f) {
    f->flags |= FLAG_COLLECTIVE;
    f->seq = collective_enqueue(f->comm, f->id, f->t0);
}

void nccl_collective_before(struct call_frame *f) {
    begin_operation(f);
    if (f->comm && group_is_open(f->self) && f->comm->size != 1)
        group_find_launch(f->self, f->comm); /* remembers the numbers before this one */
    f->t0 = ticks();
    if (unlikely(!f->comm))
        return;
    take_number(f);
    begin_launch(f);
    if (nccl_tail(f)->span) /* recording a start event is not the library's time */
        f->t0 = ticks();
}

void nccl_collective_after(struct call_frame *f) {
    bool gone = is_gone(f);
    if (unlikely(f->failed && f->comm)) {
        struct progress *p = f->comm->progress;
        if (!gone)
            collective_take_back(f->comm, f->seq, p->hashed, p->prefix_hash);
        f->seq = SEQ_NONE;
        f->flags &= (uint16_t)~FLAG_COLLECTIVE;
    } else if (unlikely(!f->comm && !f->failed)) {
        settle_unseen(f);
        if (f->comm)
            take_number(f);
    }
    if (likely(!f->failed && f->comm && !gone))
        collective_hash(f->comm, likely(f->cached) ? f->cached->signature : nccl_signature(f));
    operation_after(f);
}

/* ---- point to point, one-sided --------------------------------------------------------------- */

void nccl_p2p_before(struct call_frame *f) {
    bool send = f->call->kind == KIND_NCCL_SEND;
    begin_operation(f);
    f->flags |= send ? FLAG_SEND : FLAG_RECV;
    begin_launch(f);
}

void nccl_p2p_after(struct call_frame *f) {
    if (unlikely(!f->comm && !f->failed))
        settle_unseen(f);
    if (likely(!f->failed && f->comm)) {
        f->seq = ordinal_next(f->comm_index, f->peer, 0, (f->flags & FLAG_SEND) != 0);
        if (f->seq == SEQ_NONE)
            f->flags |= FLAG_ORDINAL_UNKNOWN;
    }
    operation_after(f);
}

void nccl_rma_before(struct call_frame *f) {
    begin_operation(f);
    f->flags |= FLAG_UNMATCHED;
    begin_launch(f);
}

void nccl_rma_after(struct call_frame *f) {
    if (unlikely(!f->comm && !f->failed))
        settle_unseen(f);
    operation_after(f);
}

/* ---- non-blocking communicators, errors ------------------------------------------------------ */

void nccl_async_error_before(struct call_frame *f) {
    frame_set_comm(f, nccl_communicator_find(argument(f, f->call->comm)));
}

/* The job was told that the library is done with what it was at. */
static void settle_in_progress(struct communicator *c) {
    struct gpu_span *span = __atomic_exchange_n(&nccl_communicator(c)->launching, NULL, __ATOMIC_ACQ_REL);
    if (span)
        gpu_span_end(span, &nccl_communicator(c)->launch);
    if (nccl_communicator(c)->creating) {
        nccl_communicator(c)->creating = false;
        nccl_register(&nccl_communicator(c)->child);
    }
}

void nccl_async_error_after(struct call_frame *f) {
    const int *told = (const int *)argument(f, f->call->status);
    int status = !f->failed && told ? *told : NCCL_SUCCESS;
    if (status != NCCL_SUCCESS && status != NCCL_IN_PROGRESS) {
        if (f->comm)
            nccl_drop_launching(f->comm);
        f->failed = true; /* what it told, not what it returned */
        f->flags |= FLAG_FAILED;
        f->result = (uint8_t)status;
        emit_call(f);
        return;
    }
    if (f->comm && !f->failed && status == NCCL_SUCCESS)
        settle_in_progress(f->comm);
    count_call(f);
}
