/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/nccl_group_calls.h"

#include "shim/base/os.h"
#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/nccl_groups.h"
#include "shim/nccl/nccl_launches.h"

/* ---- start ----------------------------------------------------------------------------------- */

void group_start_after(struct call_frame *f) {
    struct thread *self = f->self;
    struct nccl_group *group = group_of(self);
    if (!group) {
        group = os_memory(sizeof *group);
        self->parts[PART_GROUP] = (struct thread_part){group, sizeof *group};
    }
    if (!f->failed && group)
        group->depth++;
    count_call(f);
}

/* ---- end ------------------------------------------------------------------------------------- */

static bool is_outermost(const struct thread *self) {
    const struct nccl_group *group = group_of(self);
    return group && group->depth == 1;
}

/* A thread stuck in the end is stuck in the operations that it launches. */
static void stand_for(struct call_frame *f, const struct gpu_launch *facts) {
    f->id = facts->call;
    f->op = facts->op;
    f->seq = facts->seq;
    f->bytes = facts->bytes;
    f->comm_index = facts->comm;
    f->peer = facts->peer;
    f->flags = facts->flags;
}

void group_end_before(struct call_frame *f) {
    struct nccl_group *group = group_of(f->self);
    if (!is_outermost(f->self))
        return;
    for (uint32_t i = 0; i < group->launch_count; i++) {
        struct group_launch *launch = &group->launches[i];
        kernel_span_enqueue(launch->kernel);
        if (launch->operations)
            launch->span = nccl_span_begin(launch->comm, launch->stream, launch->stream_count, launch->facts.overlaps);
    }
    if (group->launch_count && group->launches[0].operations)
        stand_for(f, &group->launches[0].facts);
}

static void record_group(const struct call_frame *f, const struct group_launch *launch, uint16_t flags) {
    struct call_frame g;
    begin_frame(&g, f->call, NULL, f->self);
    g.t0 = f->t0;
    g.t1 = f->t1;
    g.bytes = launch->facts.bytes;
    g.op = launch->group_op;
    g.seq = launch->facts.seq;
    g.comm_index = launch->facts.comm;
    g.stack = f->stack;
    g.flags = launch->facts.flags | flags;
    g.result = f->result;
    if (!f->quiet)
        record_frame(&g, RECORD_GROUP);
}

static bool on_one_stream(const struct group_launch *a, const struct group_launch *b) {
    return a->stream == b->stream && nccl_communicator(a->comm)->device == nccl_communicator(b->comm)->device;
}

/* NCCL launches the communicators of a group one after the other. Events in between are not to be had: those on one
 * stream have the same two events, and share what lies between them by their numbers of operations. */
static void share_interval(struct nccl_group *group, uint32_t number) {
    struct group_launch *own = &group->launches[number];
    struct gpu_launch *facts = &own->facts;
    for (uint32_t i = 0; i < group->launch_count; i++) {
        const struct group_launch *other = &group->launches[i];
        if (!on_one_stream(own, other))
            continue;
        facts->share_all += other->operations;
        facts->share_before += i < number ? other->operations : 0;
    }
    facts->share_own = own->operations;
}

/* A graph holds them from now on. */
static void tell_messages(const struct call_frame *f, const struct group_launch *launch) {
    const struct nccl_group *group = group_of(f->self);
    uint32_t count = group->message_count < GROUP_MESSAGES ? group->message_count : GROUP_MESSAGES;
    if (count < group->message_count)
        gpu_span_holds_more(launch->span);
    for (uint32_t i = 0; i < count; i++) {
        const struct group_message *message = &group->messages[i];
        if (message->launch != launch - group->launches)
            continue;
        gpu_span_holds(launch->span, &(struct capture_part){.comm = launch->facts.comm,
                                                            .peer = message->peer,
                                                            .count = 1,
                                                            .stack = f->stack,
                                                            .call = message->call,
                                                            .flags = message->sends ? FLAG_SEND : FLAG_RECV});
    }
}

static void finish_launch(const struct call_frame *f, struct group_launch *launch) {
    uint16_t flags = 0;
    if (gpu_span_is_captured(launch->span))
        tell_messages(f, launch);
    if (gpu_span_is_captured(launch->span) || (launch->kernel && launch->kernel->captured)) {
        flags |= FLAG_CAPTURED;
        launch->facts.flags |= FLAG_CAPTURED;
        if (!launch->group_op)
            ring_amend(f->self->lane, &launch->first, NULL, FLAG_CAPTURED);
    }
    struct gpu_launch facts = launch->facts;
    if (launch->group_op) {
        facts.stack = f->stack;
        group_pattern_settle(&launch->pattern, launch->operations, &facts);
    }
    nccl_launched(launch->comm, launch->span, launch->kernel, &facts, nccl_tail(f)->in_progress);
    if (launch->group_op)
        record_group(f, launch, flags);
}

/* Nothing ran: the numbers of its collectives are given again, and each operation is seen to be part of a group that
 * was only simulated, or that failed. */
static void take_back(const struct call_frame *f, struct group_launch *launch) {
    gpu_span_drop(launch->span);
    kernel_span_drop(launch->kernel);
    if (launch->facts.collectives && !communicator_is_gone(launch->comm, launch->facts.comm))
        collective_take_back(launch->comm, launch->first_sequence, launch->hashed, launch->prefix_hash);
    if (!launch->group_op)
        group_become_one(launch, f->self);
    record_group(f, launch, f->failed ? FLAG_FAILED : 0);
}

/* Back to the call itself, which is about no communicator in particular. */
static void stand_for_itself(struct call_frame *f) {
    f->id = f->call->id;
    f->op = 0;
    f->seq = SEQ_NONE;
    f->bytes = 0;
    f->comm_index = COMM_NONE;
    f->peer = PEER_NONE;
    f->flags = f->failed ? FLAG_FAILED : 0;
}

/* The usual way to use several devices in one process: their communicators are made in one group. */
static void register_creations(struct nccl_group *group) {
    for (uint32_t i = 0; i < group->creation_count; i++) {
        struct nccl_creation *creation = &group->creations[i];
        for (uint32_t j = 0; j < group->creation_count; j++) {
            const struct nccl_creation *other = &group->creations[j];
            creation->local += j != i && other->uid == creation->uid;
            if (other->uid == creation->uid && other->rank < creation->lowest)
                creation->lowest = other->rank;
        }
        nccl_register(creation);
    }
    group->creation_count = 0;
}

/* The library leaves the group even when it reports an error. */
static void end_group(struct call_frame *f, bool simulated) {
    struct nccl_group *group = group_of(f->self);
    bool outermost = is_outermost(f->self), busy = outermost && (group->launch_count || group->creation_count);
    if (group && group->depth)
        group->depth--;
    if (outermost) {
        for (uint32_t i = 0; i < group->launch_count; i++) {
            struct group_launch *launch = &group->launches[i];
            if (launch->operations == 0) { /* its only operation was refused */
                kernel_span_drop(launch->kernel);
                continue;
            }
            if (simulated || f->failed) {
                take_back(f, launch);
                continue;
            }
            if (group->launch_count > 1)
                share_interval(group, i);
            finish_launch(f, launch);
        }
        if (!f->failed && !simulated)
            register_creations(group);
        group->launch_count = group->creation_count = group->message_count = 0;
    }
    stand_for_itself(f);
    if (busy)
        emit_call(f);
    else
        count_call(f);
}

void group_end_after(struct call_frame *f) {
    end_group(f, false);
}

void group_simulate_after(struct call_frame *f) {
    end_group(f, true);
}
