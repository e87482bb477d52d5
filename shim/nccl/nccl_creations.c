/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/nccl_creations.h"

#include "shim/base/os.h"
#include "shim/nccl/nccl_abi.h"
#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/nccl/nccl_groups.h"
#include "shim/nccl/nccl_launches.h"
#include "shim/nccl/nccl_windows.h"

/* Communicators of one process's devices: nobody else has part in them. */
static uint64_t uid_of_devices(const int *devices, uint32_t count) {
    static uint32_t made;
    uint64_t h = hash_combine(recorder.header->world_id, recorder.header->process_start_realtime_ns);
    h = hash_combine(hash_combine(h, (uint64_t)recorder.header->pid), __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED));
    for (uint32_t i = 0; i < count; i++)
        h = hash_combine(h, devices ? (uint64_t)(uint32_t)devices[i] : i);
    return h;
}

/* ---- making ------------------------------------------------------------------------ */

static const char *name_in_config(const struct call_frame *f) {
    const struct nccl_config *config =
        f->call->config ? (const struct nccl_config *)argument(f, f->call->config) : NULL;
    bool named = config && config->magic == NCCL_CONFIG_MAGIC && config->version >= NCCL_CONFIG_HAS_NAME &&
                 config->size >= sizeof *config;
    return named ? config->comm_name : NULL;
}

static void begin_creation(const struct call_frame *f, struct nccl_creation *creation) {
    const char *name = name_in_config(f);
    *creation = (struct nccl_creation){.output = (const uintptr_t *)argument(f, f->call->output),
                                       .rank = RANK_UNKNOWN,
                                       .local = 1,
                                       .copy = nccl_copy_of_function(nccl_tail(f)->function),
                                       .call = f->id};
    if (name)
        copy_text(creation->name, sizeof creation->name, name);
}

/* In a group the handle is complete at the group's end; a child of a non-blocking communicator comes even later. */
static void created(struct call_frame *f, struct communicator *parent, const struct nccl_creation *creation) {
    if (group_is_open(f->self))
        group_add_creation(f->self, creation);
    else if (nccl_tail(f)->in_progress && parent) {
        nccl_communicator(parent)->child = *creation;
        nccl_communicator(parent)->creating = true;
    } else
        nccl_register(creation);
}

void nccl_init_rank_after(struct call_frame *f) {
    const struct call *call = f->call;
    struct nccl_creation creation;
    const void *id = (const void *)argument(f, call->unique_id);
    if (!f->failed && id) {
        begin_creation(f, &creation);
        creation.uid = nccl_uid_of_id(id, call->count ? (uint32_t)argument(f, call->count) : 1);
        creation.size = (uint32_t)argument(f, call->n);
        creation.rank = creation.lowest = (int32_t)argument(f, call->rank);
        creation.device = gpu_attach_device();
        created(f, NULL, &creation);
    }
    emit_call(f);
}

void nccl_init_all_after(struct call_frame *f) {
    const int *devices = (const int *)argument(f, f->call->devices);
    uint32_t count = (uint32_t)argument(f, f->call->n);
    struct nccl_creation creation;
    begin_creation(f, &creation);
    if (!f->failed && creation.output) {
        const uintptr_t *handles = creation.output;
        creation.uid = uid_of_devices(devices, count);
        creation.size = creation.local = count;
        for (uint32_t i = 0; i < count; i++) {
            creation.output = &handles[i];
            creation.rank = (int32_t)i;
            creation.device = gpu_attach_ordinal(devices ? devices[i] : (int)i);
            nccl_register(&creation);
        }
    }
    emit_call(f);
}

/* Every member of the parent comes here for every child, those that will not be in it too. */
void nccl_child_before(struct call_frame *f) {
    uintptr_t parent = argument(f, f->call->comm);
    frame_set_comm(f, parent ? nccl_communicator_find(parent) : NULL);
    nccl_tail(f)->ordinal = f->comm ? count_up(&f->comm->creations) : 0;
}

static void begin_child(const struct call_frame *f, struct nccl_creation *creation, enum nccl_child how,
                        int32_t color) {
    const struct communicator *parent = f->comm;
    begin_creation(f, creation);
    creation->device = parent ? nccl_communicator(parent)->device : gpu_attach_device();
    creation->parent_uid = parent ? parent->uid : 0;
    creation->uid = nccl_uid_of_child(creation->parent_uid, how, nccl_tail(f)->ordinal, color);
    creation->flags = parent ? parent->flags & COMMUNICATOR_UID_UNSURE : COMMUNICATOR_UID_UNSURE;
}

void nccl_split_after(struct call_frame *f) {
    int32_t color = (int32_t)argument(f, f->call->color);
    struct nccl_creation creation;
    if (!f->failed && color != NCCL_NO_COLOR) {
        begin_child(f, &creation, NCCL_CHILD_SPLIT, color);
        created(f, f->comm, &creation);
    }
    emit_call(f);
}

void nccl_shrink_after(struct call_frame *f) {
    const int32_t *excluded = (const int32_t *)argument(f, f->call->index);
    uint32_t count = (uint32_t)argument(f, f->call->count);
    struct nccl_creation creation;
    if (!f->failed) {
        begin_child(f, &creation, NCCL_CHILD_SHRINK, 0);
        if (f->comm && f->comm->size > count) {
            creation.size = f->comm->size - count;
            creation.rank = nccl_rank_after_shrink(f->comm->rank, excluded, count);
        }
        created(f, f->comm, &creation);
    }
    emit_call(f);
}

/* New ranks know the unique id alone, old ones (but the root) the parent alone: nothing is common to all. */
void nccl_grow_after(struct call_frame *f) {
    const void *id = (const void *)argument(f, f->call->unique_id);
    int32_t rank = (int32_t)argument(f, f->call->rank);
    struct nccl_creation creation;
    if (!f->failed) {
        begin_child(f, &creation, NCCL_CHILD_GROW, 0);
        if (id)
            creation.uid = nccl_uid_of_id(id, 1);
        creation.flags |= COMMUNICATOR_UID_UNSURE;
        creation.size = (uint32_t)argument(f, f->call->n);
        creation.rank = rank >= 0 || !f->comm ? rank : f->comm->rank;
        created(f, f->comm, &creation);
    }
    emit_call(f);
}

/* ---- ending ------------------------------------------------------------------------ */

/* Its handle is another's as soon as the call has returned: forgotten before. What is recorded of the call names it by
 * its number, which stays. */
void nccl_destroy_before(struct call_frame *f) {
    struct communicator *c = nccl_communicator_find(argument(f, f->call->comm));
    if (!c)
        return;
    f->comm_index = c->index;
    nccl_drop_launching(c);
    nccl_windows_forget(c);
    nccl_communicator_forget(argument(f, f->call->comm), f->call->kind == KIND_NCCL_DESTROY);
}

void nccl_abort_before(struct call_frame *f) {
    struct communicator *c = nccl_communicator_find(argument(f, f->call->comm));
    if (c)
        gpu_abort_communicator(c->index);
    nccl_destroy_before(f);
}

void nccl_revoke_before(struct call_frame *f) {
    struct communicator *c = nccl_communicator_find(argument(f, f->call->comm));
    frame_set_comm(f, c);
    if (!c)
        return;
    nccl_drop_launching(c);
    gpu_abort_communicator(c->index);
}
