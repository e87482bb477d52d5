/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of communicators.h. Only local functions of the library are called, and only on handles that a
 * successful call has just produced.
 */
#include "shim/comm/communicators.h"

#include <errno.h>
#include <string.h>

#include "shim/base/free_list.h"
#include "shim/base/os.h"
#include "shim/mpi/mpi_library.h"
#include "shim/record/call_cache.h"

#define POOL            4096u
#define RUNS_LONG       1024u /* an irregular member list longer than this is written by few ranks only */
#define RUNS_WRITERS    4
#define GROUP_CREATIONS 512u

static struct handle_maps nothing_known;
struct handle_maps *handle_maps = &nothing_known;

static struct communicator *pool;
static struct free_list places; /* of the pool */
static struct free_list rows;   /* of recorder.progress */
static uint32_t next_index;
static uintptr_t world_group;
static int keyval;
static bool have_keyval;
static struct progress spare_progress; /* shared by communicators beyond the table: counted, never read */

/* Creations over a group: how many there were with the same parent, name and members. */
static struct {
    uint64_t key;
    uint32_t count;
} group_creations[GROUP_CREATIONS];

/* ---- members --------------------------------------------------------------------------------- */

struct members {
    int *ranks; /* world ranks in rank order; MPI_UNDEFINED where the member is of another world */
    uint32_t count;
    uint64_t hash;
    bool foreign;
    void *memory;
    size_t bytes;
};

/* The world ranks of a group; takes the group over. Without a world (sessions only) nobody has a world rank. False
 * when there is no memory. */
static bool members_of_group(uintptr_t group, struct members *m) {
    int size = 0;
    memset(m, 0, sizeof *m);
    bool ok = mpi_library.Group_size(group, &size) == 0 && size >= 0;
    m->count = (uint32_t)size;
    if (ok && !world_group) {
        m->foreign = true;
        m->hash = hash_mix((uint64_t)size);
        mpi_library.Group_free(&group);
        return true;
    }
    m->bytes = ((size_t)size + 1) * 2 * sizeof(int);
    m->memory = ok ? os_memory(m->bytes) : NULL;
    if (m->memory) {
        int *own = m->memory;
        m->ranks = own + size + 1;
        for (int i = 0; i < size; i++)
            own[i] = i;
        ok = size == 0 || mpi_library.Group_translate_ranks(group, size, own, world_group, m->ranks) == 0;
        for (int i = 0; i < size; i++)
            m->foreign |= m->ranks[i] < 0;
        m->hash = hash_bytes((uint64_t)size, m->ranks, (size_t)size * sizeof(int));
    }
    mpi_library.Group_free(&group);
    return ok && m->memory != NULL;
}

static void members_free(struct members *m) {
    if (m->memory)
        os_unmap(m->memory, m->bytes);
}

static uint32_t count_runs(const struct members *m, struct member_run *runs) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->count; count++) {
        int stride = i + 1 < m->count ? m->ranks[i + 1] - m->ranks[i] : 1;
        uint32_t length = 1;
        while (i + length < m->count && m->ranks[i + length] - m->ranks[i + length - 1] == stride)
            length++;
        if (length == 2 && i + 2 < m->count) /* two are no pattern yet: the second may begin one */
            length = 1;
        if (runs)
            runs[count] = (struct member_run){m->ranks[i], length, stride};
        i += length;
    }
    return count;
}

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

static void define(const struct communicator *c, const struct members *m, uint64_t parent_uid, uint16_t created_by) {
    uint32_t runs = m->foreign ? 0 : count_runs(m, NULL);
    bool elsewhere = are_elsewhere(c, runs);
    struct communicator_definition *d = begin_definition(c, m, elsewhere ? 0 : runs, parent_uid, created_by);
    if (!d)
        return;
    if (elsewhere)
        d->flags |= COMMUNICATOR_MEMBERS_ELSEWHERE;
    else if (runs)
        count_runs(m, (struct member_run *)(d + 1));
    definitions_commit(d, DEFINITION_COMMUNICATOR);
}

static void define_remote(const struct communicator *c, const struct members *m) {
    uint32_t runs = count_runs(m, NULL);
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
        count_runs(m, (struct member_run *)(d + 1));
    definitions_commit(d, DEFINITION_REMOTE_GROUP);
}

static void define_known(const struct communicator *c, const struct members *m, bool like_world, uint64_t parent_uid,
                         uint16_t created_by) {
    struct communicator_definition *d = begin_definition(c, m, like_world, parent_uid, created_by);
    if (!d)
        return;
    if (like_world)
        *(struct member_run *)(d + 1) = (struct member_run){0, c->size, 1};
    definitions_commit(d, DEFINITION_COMMUNICATOR);
}

void communicator_set_name(const struct communicator *c, const char *name) {
    uint32_t length = (uint32_t)strnlen(name, 256);
    struct communicator_name_definition *d = definitions_reserve(&recorder.definitions, sizeof *d + length);
    if (!d)
        return;
    d->index = c->index;
    d->length = length;
    memcpy(d->name, name, length);
    definitions_commit(d, DEFINITION_COMMUNICATOR_NAME);
}

static void define_freed(const struct communicator *c) {
    struct communicator_freed_definition *d = definitions_reserve(&recorder.definitions, sizeof *d);
    if (!d)
        return;
    d->index = c->index;
    d->freed_ticks = ticks();
    d->enqueued = c->progress->enqueued;
    d->completed = c->progress->completed;
    d->prefix_hash = c->progress->prefix_hash;
    definitions_commit(d, DEFINITION_COMMUNICATOR_FREED);
}

/* ---- the pool -------------------------------------------------------------------------------- */

static struct progress *take_progress(const struct communicator *c) {
    uint32_t row = free_list_take(&rows);
    if (!row) {
        count_loss(&recorder.header->losses.communicators_untracked);
        return &spare_progress;
    }
    struct progress *p = &recorder.progress[row - 1];
    __atomic_store_n(&p->version, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memset((char *)p + sizeof p->version, 0, sizeof *p - sizeof p->version);
    p->comm = c->index;
    p->prefix_hash = c->uid;
    p->recent[0] = c->uid;
    __atomic_store_n(&p->version, 2, __ATOMIC_RELEASE);
    return p;
}

static void give_back_progress(struct progress *p) {
    if (p == &spare_progress)
        return;
    __atomic_store_n(&p->version, 0, __ATOMIC_RELEASE);
    free_list_put(&rows, (uint32_t)(p - recorder.progress) + 1);
}

/* Threads that create communicators never wait for each other. */
static struct communicator *take_from_pool(void) {
    uint32_t place = free_list_take(&places);
    uint32_t index = place ? __atomic_fetch_add(&next_index, 1, __ATOMIC_RELAXED) : ROW_COMM_NONE;
    if (index >= ROW_COMM_NONE) {
        if (place)
            free_list_put(&places, place);
        count_loss(&recorder.header->losses.communicators_untracked);
        return NULL;
    }
    struct communicator *c = &pool[place - 1];
    *c = (struct communicator){.taken = 1, .index = index, .outdegree = -1};
    return c;
}

static void give_back(struct communicator *c) {
    __atomic_store_n(&c->taken, 0, __ATOMIC_RELEASE);
    free_list_put(&places, (uint32_t)(c - pool) + 1);
}

void communicator_end_history(struct communicator *c) {
    if (!__atomic_exchange_n(&c->being_freed, 0, __ATOMIC_ACQ_REL))
        return;
    collective_took_place(c, c->last_signature);
    collective_complete(c);
}

/* The end of a communicator that the dump knows. */
static void retire(struct communicator *c) {
    shapes_forget();
    communicator_end_history(c);
    define_freed(c);
    give_back_progress(c->progress);
    give_back(c);
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
    shapes_forget();
}

void communicator_drop_hidden(struct communicator *c) {
    retire(c);
}

void communicator_show_again(struct handle_map *map, uintptr_t handle, struct communicator *c) {
    if (!handle_map_set(map, handle, (uintptr_t)c))
        retire(c);
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

/* ---- attributes: the library tells us when a communicator goes ------------------------------- */

static int never_copy(uintptr_t comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return 0;
}

static int forget_attribute(uintptr_t comm, int key, void *value, void *extra) {
    (void)key, (void)value, (void)extra;
    communicator_forget(&handle_maps->communicators, mpi_handle(comm));
    return 0;
}

bool communicators_are_watched(void) {
    return have_keyval;
}

/* ---- registration ---------------------------------------------------------------------------- */

static bool ask_library(struct communicator *c) {
    int size = 0, rank = 0, inter = 0, remote = 0;
    if (mpi_library.Comm_size(c->handle, &size) || mpi_library.Comm_rank(c->handle, &rank) ||
        mpi_library.Comm_test_inter(c->handle, &inter))
        return false;
    if (inter && mpi_library.Comm_remote_size(c->handle, &remote))
        return false;
    c->size = (uint32_t)size;
    c->rank = rank;
    c->kind = inter ? COMMUNICATOR_INTER : COMMUNICATOR_INTRA;
    c->others = (uint32_t)(inter ? remote : size);
    return true;
}

/* Who is in a communicator. `both` identifies local and remote members together, whichever side asks. */
struct membership {
    struct members local, remote; /* remote: of an intercommunicator */
    uint64_t both;
};

static void membership_free(struct membership *m) {
    members_free(&m->local);
    members_free(&m->remote);
}

/* The caller frees `m` in every case. */
static bool ask_members(struct communicator *c, struct membership *m) {
    uintptr_t group;
    *m = (struct membership){0};
    if (mpi_library.Comm_group(c->handle, &group) || !members_of_group(group, &m->local))
        return false;
    m->both = m->local.hash;
    if (c->kind == COMMUNICATOR_INTER) {
        if (mpi_library.Comm_remote_group(c->handle, &group) || !members_of_group(group, &m->remote))
            return false;
        uint64_t local = m->local.hash, remote = m->remote.hash;
        m->both = local < remote ? hash_combine(local, remote) : hash_combine(remote, local);
    }
    if (m->local.foreign || m->remote.foreign)
        c->flags |= COMMUNICATOR_FOREIGN;
    return true;
}

/* Known to the dump and to those who look for its handle. NULL when there is no room; its place is free again then. */
static struct communicator *publish(struct communicator *c, struct handle_map *map, uintptr_t handle,
                                    const struct membership *m, uint64_t parent_uid, uint16_t call) {
    c->progress = take_progress(c);
    define(c, &m->local, parent_uid, call);
    if (c->kind == COMMUNICATOR_INTER && !(c->flags & COMMUNICATOR_FOREIGN))
        define_remote(c, &m->remote);
    shapes_forget(); /* one that went unseen may have had the handle */
    if (handle_map_set(map, handle, (uintptr_t)c))
        return c;
    count_loss(&recorder.header->losses.communicators_untracked);
    retire(c);
    return NULL;
}

/* False when there were too many different ones: other members may still count theirs. */
static bool group_ordinal(uint64_t key, uint32_t *ordinal) {
    key |= 1; /* 0 marks a free place */
    for (uint32_t i = 0; i < GROUP_CREATIONS; i++) {
        uint32_t at = (uint32_t)(key + i) % GROUP_CREATIONS;
        uint64_t free = 0;
        if (group_creations[at].key == key ||
            __atomic_compare_exchange_n(&group_creations[at].key, &free, key, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED) ||
            free == key) {
            *ordinal = __atomic_fetch_add(&group_creations[at].count, 1, __ATOMIC_RELAXED);
            return true;
        }
    }
    return false;
}

/* What registering adds to a communicator whose handle is known; NULL and given back where that fails. */
static struct communicator *look_into(struct communicator *c, const struct creation *creation, uint32_t ordinal,
                                      bool find_ordinal) {
    uint64_t parent_uid = creation->parent ? creation->parent->uid : 0;
    struct membership m = {0};
    struct communicator *found = NULL;
    if (ask_library(c) && ask_members(c, &m)) {
        uint64_t key = hash_combine(hash_combine(parent_uid, creation->name), m.both);
        if (find_ordinal && !group_ordinal(key, &ordinal))
            c->flags |= COMMUNICATOR_UID_UNSURE;
        c->uid = hash_combine(key, ordinal);
        found = publish(c, &handle_maps->communicators, c->handle, &m, parent_uid, creation->call);
    } else {
        give_back(c);
    }
    membership_free(&m);
    return found;
}

static struct communicator *register_handle(uintptr_t handle, const struct creation *creation, uint32_t ordinal,
                                            bool find_ordinal, uint32_t flags) {
    if (handle == 0 || handle == mpi_abi.comm_null)
        return NULL;
    int saved = errno;
    struct communicator *c = take_from_pool();
    if (c) {
        c->handle = handle;
        c->flags = flags;
        c->topology = creation->topology;
        c = look_into(c, creation, ordinal, find_ordinal);
    }
    if (c && have_keyval)
        mpi_library.Comm_set_attr(handle, keyval, c);
    errno = saved;
    return c;
}

uint32_t communicator_count_creation(struct communicator *parent) {
    return parent ? count_up(&parent->creations) : 0;
}

struct communicator *communicator_register(uintptr_t handle, const struct creation *creation, uint32_t ordinal) {
    return register_handle(handle, creation, ordinal, false, 0);
}

struct communicator *communicator_register_group(uintptr_t handle, const struct creation *creation) {
    return register_handle(handle, creation, 0, true, 0);
}

bool communicators_have_room(void) {
    return free_list_has_any(&places);
}

struct communicator *communicator_register_unseen(uintptr_t handle) {
    if (!communicators_have_room())
        return NULL;
    struct creation unseen = {0};
    return register_handle(handle, &unseen, 0, true, COMMUNICATOR_UID_UNSURE);
}

struct communicator *sequence_register(struct handle_map *map, uintptr_t handle, struct communicator *parent,
                                       enum communicator_kind kind, uint16_t call) {
    struct membership m = {0};
    struct communicator *c = parent ? take_from_pool() : NULL, *found = NULL;
    if (!c)
        return NULL;
    int saved = errno;
    c->handle = parent->handle;
    c->size = parent->size;
    c->others = parent->others;
    c->rank = parent->rank;
    c->kind = kind;
    c->flags = parent->flags;
    c->windows_of = parent->index;
    c->uid = hash_combine(hash_combine(parent->uid, kind), communicator_count_creation(parent));
    if (ask_members(c, &m))
        found = publish(c, map, handle, &m, parent->uid, call);
    else
        give_back(c);
    membership_free(&m);
    errno = saved;
    return found;
}

/* All of the world in its order: the one group whose members need not be told. */
static bool is_like_world(const struct communicator *c) {
    const struct dump_header *h = recorder.header;
    return h->rank >= 0 && h->rank == c->rank && h->world_size > 0 && (uint32_t)h->world_size == c->size;
}

struct communicator *communicator_register_known(struct handle_map *map, uintptr_t handle,
                                                 const struct communicator *facts, uint64_t parent_uid, uint16_t call,
                                                 bool may_be_world) {
    struct members m = {.count = facts->size, .hash = hash_mix(facts->size)};
    struct communicator *c = handle ? take_from_pool() : NULL;
    if (!c)
        return NULL;
    uint32_t index = c->index;
    *c = *facts;
    c->taken = 1;
    c->index = index;
    c->handle = handle;
    c->outdegree = -1;
    c->kind = COMMUNICATOR_INTRA;
    c->others = c->size;
    c->progress = take_progress(c);
    define_known(c, &m, may_be_world && is_like_world(c), parent_uid, call);
    communicator_forget(map, handle); /* a handle that was freed unseen and handed out again */
    shapes_forget();
    if (handle_map_set(map, handle, (uintptr_t)c))
        return c;
    count_loss(&recorder.header->losses.communicators_untracked);
    retire(c);
    return NULL;
}

static struct communicator *register_predefined(uintptr_t handle, const char *name, uint64_t uid) {
    struct membership m = {0};
    struct communicator *c = take_from_pool(), *found = NULL;
    if (!c)
        return NULL;
    c->handle = handle;
    if (ask_library(c) && ask_members(c, &m)) {
        c->uid = hash_combine(hash_text(uid, name), m.both);
        found = publish(c, &handle_maps->communicators, handle, &m, 0, 0);
    } else {
        give_back(c);
    }
    membership_free(&m);
    if (found)
        communicator_set_name(found, name);
    return found;
}

bool communicators_open(void) {
    static uint32_t opened; /* activation that the memory belongs to */
    if (opened == recorder.generation)
        return true;
    struct handle_maps *maps = os_memory(sizeof *maps);
    pool = os_memory(POOL * sizeof *pool);
    uint32_t *next = os_memory((POOL + recorder.progress_count) * sizeof *next);
    if (!maps || !pool || !next)
        return false;
    places = (struct free_list){.capacity = POOL, .next = next};
    rows = (struct free_list){.capacity = recorder.progress_count, .next = next + POOL};
    next_index = 0;
    handle_maps = maps;
    opened = recorder.generation;
    return true;
}

bool communicators_begin(bool with_world) {
    world_group = 0;
    have_keyval = false;
    memset(group_creations, 0, sizeof group_creations);
    if (!communicators_open())
        return false;
    if (!with_world)
        return true;
    if (mpi_library.Comm_group(mpi_abi.comm_world, &world_group))
        return false;
    struct communicator *world = register_predefined(mpi_abi.comm_world, "MPI_COMM_WORLD", recorder.header->world_id);
    if (!world)
        return false;
    recorder.header->world_size = (int32_t)world->size;
    recorder.header->rank = world->rank;
    recorder.header->rank_source = RANK_FROM_LIBRARY;
    register_predefined(mpi_abi.comm_self, "MPI_COMM_SELF", world->uid);
    have_keyval = mpi_library.Comm_create_keyval && mpi_library.Comm_set_attr &&
                  !mpi_library.Comm_create_keyval((int (*)())never_copy, (int (*)())forget_attribute, &keyval, NULL);
    return true;
}

void communicators_end(void) {
    if (have_keyval && mpi_library.Comm_free_keyval)
        mpi_library.Comm_free_keyval(&keyval); /* attributes still set go with their communicators */
    have_keyval = false;
    if (world_group)
        mpi_library.Group_free(&world_group);
    world_group = 0;
}

/* ---- topologies ------------------------------------------------------------------------------ */

/* A grid's array entries come in pairs per dimension: the neighbour below, the neighbour above (MPI 4.0, 8.6). */
static void ask_grid(struct communicator *c) {
    int dimensions = 0, below, above;
    if (!mpi_library.Cartdim_get || !mpi_library.Cart_shift || mpi_library.Cartdim_get(c->handle, &dimensions))
        return;
    c->neighbours = 2 * (uint32_t)dimensions;
    for (int d = 0; d < dimensions && d < 32; d++) {
        if (mpi_library.Cart_shift(c->handle, d, 1, &below, &above))
            return;
        c->missing |= (uint64_t)(below == mpi_abi.proc_null) << 2 * d;
        c->missing |= (uint64_t)(above == mpi_abi.proc_null) << (2 * d + 1);
    }
}

void communicator_ask_topology(struct communicator *c) {
    int degree = 0, in = 0, weighted = 0;
    if (c->outdegree >= 0)
        return;
    if (c->topology == TOPOLOGY_CART)
        ask_grid(c);
    else if (c->topology == TOPOLOGY_GRAPH && mpi_library.Graph_neighbors_count)
        mpi_library.Graph_neighbors_count(c->handle, c->rank, &degree);
    else if (c->topology == TOPOLOGY_DIST_GRAPH && mpi_library.Dist_graph_neighbors_count)
        mpi_library.Dist_graph_neighbors_count(c->handle, &in, &degree, &weighted);
    if (c->topology != TOPOLOGY_CART)
        c->neighbours = (uint32_t)degree;
    c->outdegree = (int32_t)c->neighbours - __builtin_popcountll(c->missing);
}
