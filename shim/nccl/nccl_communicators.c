/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of nccl_communicators.h. The library is asked for nothing but the size and rank of a communicator that
 * it has just handed out complete.
 */
#include "shim/nccl/nccl_communicators.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shim/nccl/nccl_abi.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/nccl/nccl_groups.h"
#include "shim/nccl/nccl_operations.h"
#include "shim/nccl/plugin.h"

static struct handle_map nothing_known;
struct handle_map *nccl_handles = &nothing_known;

/* ---- uids ------------------------------------------------------------------------------------ */

#define UID_SEED 0x4343434cu

uint64_t nccl_uid_of_id(const void *ids, uint32_t count) {
    return hash_bytes(UID_SEED, ids, (size_t)count * NCCL_UNIQUE_ID_SIZE);
}

uint64_t nccl_uid_of_child(uint64_t parent, enum nccl_child how, uint32_t ordinal, int32_t color) {
    uint64_t which = (uint64_t)how << 32 | (uint32_t)(how == NCCL_CHILD_SPLIT ? color : 0);
    return hash_combine(hash_combine(parent, ordinal), which);
}

int32_t nccl_rank_after_shrink(int32_t rank, const int32_t *excluded, uint32_t count) {
    int32_t left = rank;
    for (uint32_t i = 0; i < count; i++)
        left -= excluded[i] < rank;
    return left;
}

/* Communicators of one process's devices: nobody else has part in them. */
static uint64_t uid_of_devices(const int *devices, uint32_t count) {
    static uint32_t made;
    uint64_t h = hash_combine(recorder.header->world_id, recorder.header->process_start_realtime_ns);
    h = hash_combine(hash_combine(h, (uint64_t)recorder.header->pid), __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED));
    for (uint32_t i = 0; i < count; i++)
        h = hash_combine(h, devices ? (uint64_t)(uint32_t)devices[i] : i);
    return h;
}

/* ---- the process's rank ---------------------------------------------------------------------- */

/* The first communicator stands for the world where no launcher and no MPI has told one. A process that holds several
 * of its members is one rank all the same; members are dealt out evenly, neighbours together. */
static struct {
    uint64_t uid;
    uint32_t size, members;
    int32_t lowest;
    bool announced; /* their number was known when the first was registered */
} first;

static bool tells_world(const struct nccl_creation *creation) {
    if (first.members)
        return first.uid == creation->uid;
    return recorder.header->rank_source == RANK_FROM_NOWHERE && creation->size && creation->rank >= 0;
}

static void learn_rank(const struct nccl_creation *creation) {
    struct dump_header *h = recorder.header;
    if (!tells_world(creation))
        return;
    if (!first.members || creation->lowest < first.lowest)
        first.lowest = creation->lowest;
    first.uid = creation->uid;
    first.size = creation->size;
    first.members = first.announced ? first.members : first.members + 1;
    if (creation->local > first.members) {
        first.members = creation->local;
        first.announced = true;
    }
    if (first.size % first.members == 0 && (uint32_t)first.lowest % first.members == 0) {
        h->world_size = (int32_t)(first.size / first.members);
        h->rank = (int32_t)((uint32_t)first.lowest / first.members);
    }
    h->rank_source = RANK_FROM_LIBRARY;
    recorder.verbose = verbose_wanted(recorder.knobs.verbose, h->rank);
}

/* Communicators that the job has not destroyed, and whether it ever had one. */
static uint32_t live;
static bool any;

bool nccl_communicators_begin(void) {
    struct handle_map *handles = os_memory(sizeof *handles);
    memset(&first, 0, sizeof first);
    live = 0;
    any = false;
    if (handles)
        nccl_handles = handles;
    return communicators_open() && handles;
}

void nccl_communicators_end(void) {
    if (!*recorder_armed || recorder.header->mpi_family || !any || __atomic_load_n(&live, __ATOMIC_RELAXED))
        return;
    recorder.header->finalised_ticks = ticks();
    __atomic_fetch_or(&recorder.header->state, STATE_FINALISED, __ATOMIC_RELEASE);
}

/* ---- registering ----------------------------------------------------------------------------- */

static int ask(int copy, const char *name, uintptr_t comm) {
    int value = -1;
    int (*function)(uintptr_t, int *) = (int (*)(uintptr_t, int *))nccl_copy_symbol(copy, name);
    return function && function(comm, &value) == NCCL_SUCCESS ? value : -1;
}

static void library_is_up(void) {
    if (recorder.header->initialised_ticks == 0)
        recorder.header->initialised_ticks = ticks();
    __atomic_fetch_or(&recorder.header->state, STATE_INITIALISED, __ATOMIC_RELEASE);
}

static void ask_size_and_rank(struct nccl_communicator *c, uintptr_t handle) {
    int size = ask(c->copy, "ncclCommCount", handle);
    c->base.size = size > 0 ? (uint32_t)size : 0;
    c->base.rank = ask(c->copy, "ncclCommUserRank", handle);
}

static struct communicator *register_handle(uintptr_t handle, const struct nccl_creation *creation) {
    struct nccl_communicator *c = (struct nccl_communicator *)communicator_take();
    struct communicator *registered = NULL;
    learn_rank(creation);
    if (c) {
        c->base.uid = creation->uid;
        c->base.size = creation->size;
        c->base.rank = creation->rank;
        c->base.flags = creation->flags;
        c->device = creation->device;
        c->copy = creation->copy;
        if (!creation->size)
            ask_size_and_rank(c, handle);
        bool whole_world = !creation->parent_uid && creation->local == 1;
        registered = communicator_publish_known(&c->base, nccl_handles, handle, creation->parent_uid, creation->call,
                                                whole_world);
    }
    __atomic_fetch_add(&live, registered != NULL, __ATOMIC_RELAXED);
    any = true;
    if (registered && *creation->name)
        communicator_set_name(registered, creation->name);
    plugin_follow_mode();
    library_is_up();
    return registered;
}

void nccl_register(const struct nccl_creation *creation) {
    int saved = errno;
    uintptr_t handle = creation->output ? __atomic_load_n(creation->output, __ATOMIC_ACQUIRE) : 0;
    if (handle)
        register_handle(handle, creation);
    errno = saved;
}

struct communicator *nccl_register_unseen(uintptr_t handle, const void *function) {
    if (!communicators_have_room())
        return NULL;
    int saved = errno;
    struct nccl_creation unseen = {
        .uid = hash_combine(hash_combine(recorder.header->world_id, handle), (uint64_t)recorder.header->pid),
        .rank = RANK_UNKNOWN,
        .device = -1,
        .copy = nccl_copy_of_function(function),
        .flags = COMMUNICATOR_UID_UNSURE};
    struct communicator *c = handle ? register_handle(handle, &unseen) : NULL;
    errno = saved;
    return c;
}

/* ---- handlers: making ------------------------------------------------------------------------ */

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

/* ---- handlers: ending ------------------------------------------------------------------------ */

/* Its handle is another's as soon as the call has returned: forgotten before. What is recorded of the call names it by
 * its number, which stays. */
void nccl_destroy_before(struct call_frame *f) {
    struct communicator *c = nccl_communicator_find(argument(f, f->call->comm));
    if (!c)
        return;
    f->comm_index = c->index;
    nccl_drop_launching(c);
    communicator_forget(nccl_handles, argument(f, f->call->comm));
    __atomic_fetch_sub(&live, f->call->kind == KIND_NCCL_DESTROY, __ATOMIC_RELAXED);
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
