/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/comm/communicators.h"

#include <string.h>

#include "shim/base/free_list.h"
#include "shim/base/os.h"
#include "shim/record/call_cache.h"

#define POOL         4096u
#define PARKED_LISTS 256u
#define PARKED_MOST  (POOL / 2)
#define RUNS_LONG    1024u /* an irregular member list longer than this is written by few ranks only */
#define NAME_MOST    256u
#define RUNS_WRITERS 4

static char *pool;              /* places of COMMUNICATOR_PLACE bytes */
static struct free_list places; /* of the pool */
static struct free_list rows;   /* of recorder.progress */
static uint32_t next_index;
static uint32_t parked[PARKED_LISTS]; /* freed ones that may live again: the number of each list's last one */
static uint32_t parked_count;
static bool parked_all = true;         /* of those that might have been */
static struct progress spare_progress; /* shared by communicators beyond the table: counted, never read */

/* ---- definitions ----------------------------------------------------------------------------- */

/* Room for the definition with `runs` member runs, all else filled in. */
static struct communicator_definition *begin_definition(const struct communicator *c, const struct members *m,
                                                        uint32_t runs, uint64_t parent_uid, uint16_t created_by) {
    struct communicator_definition *d =
        definitions_reserve(&recorder.definitions, sizeof *d + runs * sizeof(struct member_run));
    if (!d)
        return NULL;
    d->uid = c->uid;
    d->parent_uid = parent_uid;
    d->members_hash = m->hash;
    d->created_ticks = ticks();
    d->index = c->index;
    d->kind = c->kind;
    d->flags = c->flags;
    d->size = c->size;
    d->my_rank = c->rank;
    d->remote_size = c->kind == COMMUNICATOR_INTER ? c->others : 0;
    d->created_by = created_by;
    d->run_count = runs;
    return d;
}

static bool are_elsewhere(const struct communicator *c, uint32_t runs) {
    return runs > RUNS_LONG && c->rank >= RUNS_WRITERS;
}

static bool define_communicator(const struct communicator *c, const struct members *m, uint64_t parent_uid,
                                uint16_t created_by) {
    uint32_t runs = m->foreign ? 0 : members_count_runs(m, NULL);
    bool elsewhere = are_elsewhere(c, runs);
    struct communicator_definition *d = begin_definition(c, m, elsewhere ? 0 : runs, parent_uid, created_by);
    if (!d)
        return false;
    if (elsewhere)
        d->flags |= COMMUNICATOR_MEMBERS_ELSEWHERE;
    else if (runs)
        members_count_runs(m, (struct member_run *)(d + 1));
    definitions_commit(d, DEFINITION_COMMUNICATOR);
    return true;
}

static void define_remote(const struct communicator *c, const struct members *m) {
    uint32_t runs = members_count_runs(m, NULL);
    if (are_elsewhere(c, runs))
        runs = 0;
    struct remote_group_definition *d =
        definitions_reserve(&recorder.definitions, sizeof *d + runs * sizeof(struct member_run));
    if (!d)
        return;
    d->index = c->index;
    d->members_hash = m->hash;
    d->size = m->count;
    d->run_count = runs;
    if (runs)
        members_count_runs(m, (struct member_run *)(d + 1));
    definitions_commit(d, DEFINITION_REMOTE_GROUP);
}

static bool define_known(const struct communicator *c, const struct members *m, bool like_world, uint64_t parent_uid,
                         uint16_t created_by) {
    struct communicator_definition *d = begin_definition(c, m, like_world, parent_uid, created_by);
    if (!d)
        return false;
    if (like_world)
        *(struct member_run *)(d + 1) = (struct member_run){0, c->size, 1};
    definitions_commit(d, DEFINITION_COMMUNICATOR);
    return true;
}

/* A job may give one communicator new names for ever: what has no room where the first one stands gets room for any. */
static struct communicator_name_definition *room_for_name(const struct communicator *c, uint32_t length) {
    struct communicator_name_definition *d = c->name;
    if (d && sizeof *d + length <= d->head.bytes)
        return d;
    return definitions_reserve(&recorder.definitions, sizeof *d + (d ? NAME_MOST : length));
}

static bool is_named(const struct communicator *c, const char *name, uint32_t length) {
    return c->name && c->name->length == length && !memcmp(c->name->name, name, length);
}

void communicator_set_name(struct communicator *c, const char *name) {
    uint32_t length = (uint32_t)strnlen(name, NAME_MOST);
    if (is_named(c, name, length))
        return;
    struct communicator_name_definition *d = room_for_name(c, length);
    if (!d)
        return;
    if (c->name)
        __atomic_store_n(&c->name->head.commit, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    d->index = c->index;
    d->length = length;
    memcpy(d->name, name, length);
    definitions_commit(d, DEFINITION_COMMUNICATOR_NAME);
    c->name = d;
}

/* Where it ends again, by the definition that there is. */
static void define_freed(struct communicator *c) {
    struct communicator_freed_definition *d = c->freed;
    c->lives++;
    if (!d && !(d = c->freed = definitions_reserve(&recorder.definitions, sizeof *d)))
        return;
    d->index = c->index;
    d->lives = c->lives;
    d->freed_ticks = ticks();
    d->enqueued = c->progress->enqueued;
    d->completed = c->progress->completed;
    d->prefix_hash = c->progress->prefix_hash;
    definitions_commit(d, DEFINITION_COMMUNICATOR_FREED);
}

/* ---- the pool -------------------------------------------------------------------------------- */

static struct progress *take_progress(const struct communicator *c, bool defined) {
    uint32_t row = defined ? free_list_take(&rows) : 0; /* without a definition nobody could read it */
    struct progress *p = row ? &recorder.progress[row - 1] : NULL;
    if (!p || !dumpfile_make_room(&recorder.file, p, sizeof *p)) {
        if (p)
            free_list_put(&rows, row);
        count_loss(&recorder.header->losses.communicators_untracked);
        return &spare_progress;
    }
    __atomic_store_n(&p->version, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memset((char *)p + sizeof p->version, 0, sizeof *p - sizeof p->version);
    p->comm = c->index;
    p->enqueued = p->started = c->past.enqueued;
    p->completed = c->past.completed;
    p->prefix_hash = c->past.hash;
    p->hashed = c->past.hashed;
    p->recent[p->hashed % PROGRESS_RECENT] = p->prefix_hash;
    __atomic_store_n(&p->version, 2, __ATOMIC_RELEASE);
    return p;
}

static void give_back_progress(struct progress *p) {
    if (p == &spare_progress)
        return;
    __atomic_store_n(&p->version, 0, __ATOMIC_RELEASE);
    free_list_put(&rows, (uint32_t)(p - recorder.progress) + 1);
}

static uint32_t number_of(const struct communicator *c) {
    return (uint32_t)(((const char *)c - pool) / COMMUNICATOR_PLACE) + 1;
}

static struct communicator *place_of(uint32_t number) {
    return (struct communicator *)(pool + (size_t)(number - 1) * COMMUNICATOR_PLACE);
}

/* Threads that create communicators never wait for each other. */
struct communicator *communicator_take(void) {
    uint32_t place = free_list_take(&places);
    if (!place || __atomic_load_n(&next_index, __ATOMIC_RELAXED) >= ROW_COMM_NONE - POOL) {
        if (place)
            free_list_put(&places, place);
        count_loss(&recorder.header->losses.communicators_untracked);
        return NULL;
    }
    struct communicator *c = place_of(place);
    memset(c, 0, COMMUNICATOR_PLACE);
    c->taken = 1;
    return c;
}

void communicator_give_back(struct communicator *c) {
    __atomic_store_n(&c->taken, 0, __ATOMIC_RELEASE);
    free_list_put(&places, number_of(c));
}

void communicator_end_history(struct communicator *c) {
    if (!__atomic_exchange_n(&c->being_freed, 0, __ATOMIC_ACQ_REL))
        return;
    collective_took_place(c, c->last_signature);
    collective_complete(c);
}

/* ---- freed ones that may live again ---------------------------------------------------------- */

static uint32_t *parked_of(uint64_t likeness) {
    return &parked[likeness % PARKED_LISTS];
}

/* False: it will not live again. That others are parked instead may differ between ranks, so that from then on nobody
 * can be sure of meeting the same uid there. */
static bool park(struct communicator *c) {
    if (!c->likeness)
        return false;
    if (parked_count == PARKED_MOST) {
        parked_all = false;
        return false;
    }
    const struct progress *p = c->progress;
    c->past.enqueued = p->enqueued;
    c->past.completed = p->completed;
    c->past.hashed = p->hashed;
    c->past.hash = p->prefix_hash;
    __atomic_store_n(&c->taken, 0, __ATOMIC_RELEASE);
    c->next_parked = *parked_of(c->likeness);
    *parked_of(c->likeness) = number_of(c);
    parked_count++;
    return true;
}

struct communicator *communicator_live_again(uint64_t likeness) {
    for (uint32_t *link = parked_of(likeness); *link; link = &place_of(*link)->next_parked) {
        struct communicator *c = place_of(*link);
        if (c->likeness != likeness)
            continue;
        *link = c->next_parked;
        parked_count--;
        c->taken = 1;
        return c;
    }
    return NULL;
}

/* The end of a communicator that the dump knows. */
static void retire(struct communicator *c) {
    call_cache_forget();
    communicator_end_history(c);
    define_freed(c);
    bool is_parked = park(c);
    give_back_progress(c->progress);
    c->progress = &spare_progress; /* operations may be in flight still */
    if (!is_parked)
        communicator_give_back(c);
}

void communicator_forget(struct handle_map *map, uintptr_t handle) {
    if (!*recorder_armed)
        return;
    struct communicator *c = (struct communicator *)handle_map_get(map, handle);
    if (!c)
        return;
    handle_map_remove(map, handle);
    retire(c);
}

void communicator_hide(struct handle_map *map, uintptr_t handle) {
    handle_map_remove(map, handle);
    call_cache_forget();
}

void communicator_drop_hidden(struct communicator *c) {
    retire(c);
}

void communicator_show_again(struct handle_map *map, uintptr_t handle, struct communicator *c) {
    if (!handle_map_set(map, handle, (uintptr_t)c))
        retire(c);
}

/* ---- publishing ------------------------------------------------------------------------------ */

static void give_index(struct communicator *c) {
    c->index = __atomic_fetch_add(&next_index, 1, __ATOMIC_RELAXED);
    c->past.hash = c->uid;
    if (c->size > 1 && !parked_all && c->likeness)
        c->flags |= COMMUNICATOR_UID_UNSURE;
}

/* Known to the dump and to those who look for its handle, or lost when there is no room. */
static struct communicator *publish(struct communicator *c, struct handle_map *map, uintptr_t handle) {
    call_cache_forget(); /* one that went unseen may have had the handle */
    if (handle_map_set(map, handle, (uintptr_t)c))
        return c;
    count_loss(&recorder.header->losses.communicators_untracked);
    retire(c);
    return NULL;
}

struct communicator *communicator_publish(struct communicator *c, struct handle_map *map, uintptr_t handle,
                                          const struct member_groups *m, uint64_t parent_uid, uint16_t call) {
    give_index(c);
    c->progress = take_progress(c, define_communicator(c, &m->local, parent_uid, call));
    if (c->kind == COMMUNICATOR_INTER && !(c->flags & COMMUNICATOR_FOREIGN))
        define_remote(c, &m->remote);
    return publish(c, map, handle);
}

struct communicator *communicator_publish_again(struct communicator *c, struct handle_map *map, uintptr_t handle) {
    if (c->freed)
        __atomic_store_n(&c->freed->head.commit, 0, __ATOMIC_RELEASE);
    c->progress = take_progress(c, true);
    return publish(c, map, handle);
}

/* All of the world in its order: the one group whose members need not be told. */
static bool is_like_world(const struct communicator *c) {
    const struct dump_header *h = recorder.header;
    return h->rank >= 0 && h->rank == c->rank && h->world_size > 0 && (uint32_t)h->world_size == c->size;
}

struct communicator *communicator_publish_known(struct communicator *c, struct handle_map *map, uintptr_t handle,
                                                uint64_t parent_uid, uint16_t call, bool may_be_world) {
    const struct members m = {.count = c->size, .hash = hash_mix(c->size)};
    c->kind = COMMUNICATOR_INTRA;
    c->others = c->size;
    give_index(c);
    c->progress = take_progress(c, define_known(c, &m, may_be_world && is_like_world(c), parent_uid, call));
    communicator_forget(map, handle); /* a handle that was freed unseen and handed out again */
    return publish(c, map, handle);
}

bool communicators_have_room(void) {
    return free_list_has_any(&places);
}

uint32_t communicator_count_creation(struct communicator *parent) {
    return parent ? count_up(&parent->creations) : 0;
}

bool communicators_open(void) {
    static uint32_t opened; /* activation that the memory belongs to */
    if (opened == recorder.generation)
        return true;
    pool = os_memory((size_t)POOL * COMMUNICATOR_PLACE);
    uint32_t *next = os_memory((POOL + recorder.progress_count) * sizeof *next);
    if (!pool || !next)
        return false;
    places = (struct free_list){.capacity = POOL, .next = next};
    rows = (struct free_list){.capacity = recorder.progress_count, .next = next + POOL};
    next_index = 0;
    memset(parked, 0, sizeof parked);
    parked_count = 0;
    parked_all = true;
    opened = recorder.generation;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Entries of longer histories are 0, unknown: what stood there of shorter ones is lost. */
void collective_take_back(struct communicator *c, uint32_t seq, uint64_t hashed, uint64_t hash) {
    struct progress *p = c->progress;
    uint64_t version = p->version, end = p->hashed;
    __atomic_store_n(&p->version, version + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (uint64_t k = hashed + 1; k <= end; k++) {
        p->recent[k % PROGRESS_RECENT] = 0;
        if (k % 64 == 0)
            p->every[k / 64 % PROGRESS_EVERY] = 0;
    }
    c->sequence = seq;
    p->prefix_hash = hash;
    p->hashed = hashed;
    p->recent[hashed % PROGRESS_RECENT] = hash;
    __atomic_store_n(&p->enqueued, seq, __ATOMIC_RELEASE);
    __atomic_store_n(&p->version, version + 2, __ATOMIC_RELEASE);
}
