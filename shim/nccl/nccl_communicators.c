/* SPDX-License-Identifier: Apache-2.0
 *
 * The library is asked for nothing but the size and rank of a communicator that it has just handed out complete.
 */
#include "shim/nccl/nccl_communicators.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shim/nccl/nccl_abi.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/nccl/plugin.h"
#include "shim/record/verbose.h"

static struct handle_map no_handles;
struct handle_map *nccl_handles = &no_handles;

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

void nccl_communicator_forget(uintptr_t handle, bool destroyed) {
    communicator_forget(nccl_handles, handle);
    __atomic_fetch_sub(&live, destroyed, __ATOMIC_RELAXED);
}

/* ---- registering ----------------------------------------------------------------------------- */

static int ask(int copy, const char *name, uintptr_t comm) {
    int value = -1;
    int (*function)(uintptr_t, int *) = (int (*)(uintptr_t, int *))nccl_copy_symbol(copy, name);
    return function && function(comm, &value) == NCCL_SUCCESS ? value : -1;
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
        c->windows = NCCL_WINDOWS_NONE;
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
    nccl_library_is_up();
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
