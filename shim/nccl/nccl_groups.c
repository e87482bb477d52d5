/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/nccl_groups.h"

#include "shim/nccl/nccl_launches.h"

void group_note_stream(struct group_launch *launch, void *stream) {
    uint32_t known = launch->stream_count < GROUP_STREAMS ? launch->stream_count : GROUP_STREAMS;
    for (uint32_t i = 0; i < known; i++)
        if (launch->streams[i] == stream)
            return;
    if (known < GROUP_STREAMS)
        launch->streams[known] = stream;
    launch->stream_count++;
    launch->stream = stream;
}

struct group_launch *group_find_launch(struct thread *self, struct communicator *c) {
    struct nccl_group *group = group_of(self);
    for (uint32_t i = 0; i < group->launch_count; i++)
        if (group->launches[i].comm == c)
            return &group->launches[i];
    if (group->launch_count == GROUP_LAUNCHES) {
        count_loss(&recorder.header->losses.gpu_no_event);
        return NULL;
    }
    struct group_launch *launch = &group->launches[group->launch_count++];
    *launch = (struct group_launch){.comm = c,
                                    .first = {.ticket = UINT64_MAX},
                                    .first_sequence = c->sequence,
                                    .hashed = c->progress->hashed,
                                    .prefix_hash = c->progress->prefix_hash};
    return launch;
}

/* The second operation makes a group of it: the first one's record learns of that. */
void group_become_one(struct group_launch *launch, struct thread *self) {
    launch->group_op = nccl_next_op();
    ring_amend(self->lane, &launch->first, &(int32_t){(int32_t)launch->group_op}, 0);
    launch->facts.op = launch->group_op;
    launch->facts.call = commtap_calls[INDEX_ncclGroupEnd].id;
    launch->facts.peer = PEER_NONE;
    launch->facts.dtype = DATATYPE_OTHER;
    launch->facts.redop = REDOP_NONE;
    launch->facts.flags &= FLAG_COLLECTIVE;
    if (!launch->facts.flags) /* a message's ordinal says nothing of the group */
        launch->facts.seq = SEQ_NONE;
}

static void note_message(const struct group_launch *launch, const struct call_frame *f) {
    struct nccl_group *group = group_of(f->self);
    if (group->message_count < GROUP_MESSAGES)
        group->messages[group->message_count] = (struct group_message){.peer = f->peer,
                                                                       .call = f->id,
                                                                       .launch = (uint8_t)(launch - group->launches),
                                                                       .sends = (f->flags & FLAG_SEND) != 0};
    group->message_count++;
}

void group_join(struct group_launch *launch, struct call_frame *f) {
    if (f->flags & (FLAG_SEND | FLAG_RECV))
        note_message(launch, f);
    group_note_stream(launch, nccl_tail(f)->stream);
    group_pattern_note(&launch->pattern, launch->operations, f);
    if (launch->operations++ == 0) {
        nccl_fill_launch(&launch->facts, f);
        return;
    }
    if (launch->operations == 2)
        group_become_one(launch, f->self);
    f->tag = (int32_t)launch->group_op;
    launch->facts.quiet &= f->quiet;
    launch->facts.overlaps |= nccl_tail(f)->overlaps;
    if (f->bytes == BYTES_UNKNOWN || launch->facts.bytes == BYTES_UNKNOWN)
        launch->facts.bytes = BYTES_UNKNOWN;
    else
        launch->facts.bytes += f->bytes;
    if (f->flags & FLAG_COLLECTIVE) {
        launch->facts.flags |= FLAG_COLLECTIVE;
        if (launch->facts.collectives++ == 0)
            launch->facts.seq = f->seq;
    }
}

void group_add_creation(struct thread *self, const struct nccl_creation *creation) {
    struct nccl_group *group = group_of(self);
    if (group->creation_count < GROUP_CREATIONS)
        group->creations[group->creation_count++] = *creation;
    else
        count_loss(&recorder.header->losses.communicators_untracked);
}
