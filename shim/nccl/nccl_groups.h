/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: between ncclGroupStart and the outermost ncclGroupEnd of a thread operations only gather; the end launches
 * them, one launch per communicator, on the stream that was last seen new among that communicator's operations.
 * Lives here: the thread's open group and what it gathers.
 * Must not live here: single operations (nccl_operations.h), a group's beginning and end (nccl_group_calls.h).
 */
#ifndef COMMTAP_NCCL_GROUPS_H
#define COMMTAP_NCCL_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/nccl_frame.h"
#include "shim/nccl/nccl_group_patterns.h"

#define GROUP_LAUNCHES  64u /* communicators of one group; the operations of further ones are not timed */
#define GROUP_STREAMS   8u  /* of one communicator; further ones all look new */
#define GROUP_CREATIONS 64u
#define GROUP_MESSAGES  8192u /* of all communicators; an exchange of 4096 ranks */

/* The operations that one communicator gets from one group. */
struct group_launch {
    struct communicator *comm;
    void *stream; /* what they are launched on */
    void *streams[GROUP_STREAMS];
    uint32_t stream_count;
    uint32_t operations;
    uint32_t group_op;         /* number of the group, 0 while it is a single operation */
    struct record_place first; /* of the first operation's record */
    uint32_t first_sequence;   /* communicator's numbers and history before the group */
    uint64_t hashed, prefix_hash;
    struct group_pattern pattern;
    struct gpu_launch facts; /* of the one operation, or of the group */
    struct gpu_span *span;
    struct kernel_span *kernel; /* stamps from inside its kernels; NULL: none are told */
};

/* A send or a receive: a graph that the group is captured into holds it. */
struct group_message {
    int32_t peer;
    uint16_t call;
    uint8_t launch; /* number of its communicator's */
    bool sends;
};
_Static_assert(GROUP_LAUNCHES <= UINT8_MAX, "a launch's number has room");

struct nccl_group {
    uint32_t depth;
    uint32_t launch_count;
    uint32_t creation_count;
    struct group_launch launches[GROUP_LAUNCHES];
    struct nccl_creation creations[GROUP_CREATIONS];
    uint32_t message_count; /* may be more than there is room for */
    struct group_message messages[GROUP_MESSAGES];
};

/* The thread's group, NULL before its first one. */
static inline struct nccl_group *group_of(const struct thread *self) {
    return self->parts[PART_GROUP].memory;
}

static inline bool group_is_open(const struct thread *self) {
    const struct nccl_group *group = group_of(self);
    return group && group->depth > 0;
}

/* The open group's launch of a communicator, begun when it has none; NULL when there are too many. Before the
 * operation takes its number. */
struct group_launch *group_find_launch(struct thread *self, struct communicator *c);

/* An operation has joined: `f` as it will be recorded. Sets f->tag to the group's number where it is one of several. */
void group_join(struct group_launch *launch, struct call_frame *f);

/* It was recorded in the ring at that place. */
static inline void group_joined(struct group_launch *launch, const struct record_place *place) {
    if (launch->operations == 1)
        launch->first = *place;
}

void group_add_creation(struct thread *self, const struct nccl_creation *creation);

/* Notes a stream of an operation: the one seen last for the first time is launched on (pure). */
void group_note_stream(struct group_launch *launch, void *stream);

/* Several operations of one launch are a group with a number of its own; the first one's record learns of that. */
void group_become_one(struct group_launch *launch, struct thread *self);

#endif
