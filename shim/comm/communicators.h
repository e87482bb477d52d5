/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators (and windows and files, which have a collective order of their own), whichever library made them.
 * Lives here: the pool, their definitions in the dump, finding and forgetting them by handle, their numbers and prefix
 * hashes.
 * Must not live here: records, requests, bytes; who is asked about a communicator, and what only one library's have
 * (mpi/mpi_communicators.h, nccl/nccl_communicators.h).
 */
#ifndef COMMTAP_SHIM_COMM_COMMUNICATORS_H
#define COMMTAP_SHIM_COMM_COMMUNICATORS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/base/handle_map.h"
#include "shim/call.h"
#include "shim/comm/members.h"
#include "shim/format.h"
#include "shim/record/recorder.h"

/* What all have. Each library's own begin with this and go on with a tail of their own, which has a place here. */
#define COMMUNICATOR_PLACE 384u

struct communicator {
    uint64_t uid;
    uint32_t taken;  /* this place of the pool is in use */
    uint32_t index;  /* what records call `comm` */
    uint32_t size;   /* of the local group */
    uint32_t others; /* ranks a collective counts: size, or the remote group's on an intercommunicator */
    int32_t rank;
    uint32_t kind;             /* enum communicator_kind */
    uint32_t flags;            /* enum communicator_flag */
    uint32_t sequence;         /* number of the next collective */
    uint32_t creations;        /* communicators, windows and files made from it */
    uint32_t being_freed;      /* by a call that is under way */
    uint64_t last_signature;   /* of that call: what the history will end with */
    struct progress *progress; /* never NULL: a spare row in private memory when the table is full */

    /* what a communicator that was freed hands on to the next one like it, see communicator_live_again */
    uint64_t likeness;                           /* how it was made and of whom, 0: none is like it */
    uint32_t lives;                              /* that have ended */
    uint32_t next_parked;                        /* number of a place, 0 = none */
    struct communicator_name_definition *name;   /* NULL: the dump knows none */
    struct communicator_freed_definition *freed; /* NULL: there is none yet */
    struct {
        uint64_t enqueued, completed, hashed, hash;
    } past; /* the progress of ended lives */
};

/* Memory for communicators of either library: once per activation, further calls find it done. False when there is
 * none. */
bool communicators_open(void);

/* False when no further one can be followed: those whose creation was seen are counted in the losses, and who meets one
 * need not ask the library about it. */
bool communicators_have_room(void);

/* A place for a new one, all of it 0; NULL (counted) when there is none. Whoever has it publishes it or gives it back.
 */
struct communicator *communicator_take(void);
void communicator_give_back(struct communicator *c);

/* Makes it known to the dump and to those who look for its handle. NULL when there is no room; its place is free again
 * then. */
struct communicator *communicator_publish(struct communicator *c, struct handle_map *map, uintptr_t handle,
                                          const struct member_groups *m, uint64_t parent_uid, uint16_t call);

/* The same for one of which its maker knows uid, size and rank from arguments alone. Its members' world ranks stand in
 * the definition where they can be told: it may be the whole world, has as many ranks and ours is the same in both. */
struct communicator *communicator_publish_known(struct communicator *c, struct handle_map *map, uintptr_t handle,
                                                uint64_t parent_uid, uint16_t call, bool may_be_world);

/* The last freed one of that likeness, to be published under `handle` by communicator_publish_again; NULL: there is
 * none. Likeness must follow from what all members know. Not where several threads make and free communicators, whose
 * order may differ between members. */
struct communicator *communicator_live_again(uint64_t likeness);
struct communicator *communicator_publish_again(struct communicator *c, struct handle_map *map, uintptr_t handle);

/* Has its place gone to another, which has another index? A watchdog may abort one that other threads are stuck in. */
static inline bool communicator_is_gone(const struct communicator *c, uint32_t index) {
    return !__atomic_load_n(&c->taken, __ATOMIC_ACQUIRE) || c->index != index;
}

/* Counts a creation on `parent` and returns its ordinal; every member of the parent must come here. */
uint32_t communicator_count_creation(struct communicator *parent);

/* Drops a handle; called when the library frees it. */
void communicator_forget(struct handle_map *map, uintptr_t handle);

/* The same in two steps, for what the library frees without telling us: hidden before the call, for the handle may be
 * another's as soon as it is free; dropped after it, or shown again where the call failed and it still is what it was.
 */
void communicator_hide(struct handle_map *map, uintptr_t handle);
void communicator_drop_hidden(struct communicator *c);
void communicator_show_again(struct handle_map *map, uintptr_t handle, struct communicator *c);

/* The call that frees it took place: its history ends with that call, once. */
void communicator_end_history(struct communicator *c);

void communicator_set_name(struct communicator *c, const char *name);

/* ---- numbers --------------------------------------------------------------------------------- */

/* A collective was entered or posted: its number, which is the next one's should it not take place. */
static inline uint32_t collective_enter(struct communicator *c, uint16_t call, uint64_t now) {
    struct progress *p = c->progress;
    uint32_t seq = c->sequence;
    p->last_call = call;
    p->last_enter = now;
    p->started = seq + 1;
    __atomic_store_n(&p->enqueued, (uint64_t)seq + 1, __ATOMIC_RELEASE);
    return seq;
}

/* NCCL: the number is taken at once, since others of its group follow before any has run; `started` and `completed` are
 * the GPU's to move. */
static inline uint32_t collective_enqueue(struct communicator *c, uint16_t call, uint64_t now) {
    struct progress *p = c->progress;
    uint32_t seq = c->sequence++;
    p->last_call = call;
    p->last_enter = now;
    __atomic_store_n(&p->enqueued, (uint64_t)seq + 1, __ATOMIC_RELEASE);
    return seq;
}

/* The history now includes `signature`. */
static inline void collective_hash(struct communicator *c, uint64_t signature) {
    struct progress *p = c->progress;
    uint64_t k = p->hashed + 1, version = p->version;
    uint64_t h = hash_combine(p->prefix_hash, signature);
    __atomic_store_n(&p->version, version + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    p->prefix_hash = h;
    p->hashed = k;
    p->recent[k % PROGRESS_RECENT] = h;
    if (unlikely(k % 64 == 0 || k < 64)) { /* powers of two from 64 on are multiples of it */
        if (k % 64 == 0)
            p->every[k / 64 % PROGRESS_EVERY] = h;
        if ((k & (k - 1)) == 0 && k >> PROGRESS_POWERS == 0)
            p->powers[63 - __builtin_clzll(k)] = h;
    }
    __atomic_store_n(&p->version, version + 2, __ATOMIC_RELEASE);
}

/* The collective entered last took place: its call has returned, or the communicator goes. */
static inline void collective_took_place(struct communicator *c, uint64_t signature) {
    c->sequence++;
    collective_hash(c, signature);
}

/* It did not: the library refused it, and no other rank will ever meet it. */
static inline void collective_withdraw(struct communicator *c) {
    c->progress->started = c->sequence;
    __atomic_store_n(&c->progress->enqueued, (uint64_t)c->sequence, __ATOMIC_RELEASE);
}

/* NCCL: collectives from `seq` on never took place: their numbers are given to the next ones. `hash` is the history
 * before them, of `hashed` collectives. */
void collective_take_back(struct communicator *c, uint32_t seq, uint64_t hashed, uint64_t hash);

static inline void collective_complete(struct communicator *c) {
    if (recorder.multithreaded)
        __atomic_fetch_add(&c->progress->completed, 1, __ATOMIC_RELAXED);
    else
        c->progress->completed++;
}

#endif
