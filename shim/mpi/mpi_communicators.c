/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/mpi_communicators.h"

#include <errno.h>
#include <string.h>

#include "shim/base/os.h"
#include "shim/mpi/mpi_library.h"

#define GROUP_CREATIONS 512u
enum { SESSIONS_FOLLOWED = 16 }; /* at a time: of one per library that has its own */

static struct mpi_handles no_handles;
struct mpi_handles *mpi_handles = &no_handles;

static uintptr_t world_group;
static uint32_t world_group_users; /* threads that use it: one may end its session meanwhile */
static uintptr_t session_of_world; /* without MPI_Init: the one that the group is from */
static uintptr_t sessions[SESSIONS_FOLLOWED];
static int keyval;
static bool have_keyval;

/* Creations over a group: how many there were with the same parent, name and members. */
static struct {
    uint64_t key;
    uint32_t count;
} group_creations[GROUP_CREATIONS];

/* ---- members --------------------------------------------------------------------------------- */

/* For the members' own ranks, and then for those in the world. */
static int *room_for(struct members *m) {
    if (m->count <= MEMBERS_FEW)
        return m->few;
    m->bytes = (size_t)m->count * 2 * sizeof(int);
    m->memory = os_memory(m->bytes);
    return m->memory;
}

/* Has it for the caller until world_group_leave, 0: there is none. */
static uintptr_t world_group_use(void) {
    __atomic_fetch_add(&world_group_users, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&world_group, __ATOMIC_SEQ_CST);
}

static void world_group_leave(void) {
    __atomic_fetch_sub(&world_group_users, 1, __ATOMIC_SEQ_CST);
}

/* Who uses it just now may keep it: rather is it never given back. */
static void world_group_free(void) {
    uintptr_t group = __atomic_exchange_n(&world_group, 0, __ATOMIC_SEQ_CST);
    if (group && __atomic_load_n(&world_group_users, __ATOMIC_SEQ_CST) == 0)
        mpi_library.Group_free(&group);
}

/* The members' own ranks and those in the world. */
static bool translate_ranks(uintptr_t group, uintptr_t world, struct members *m) {
    int size = (int)m->count, *own = room_for(m);
    if (!own)
        return false;
    m->ranks = own + size;
    for (int i = 0; i < size; i++)
        own[i] = i;
    bool ok = size == 0 || mpi_library.Group_translate_ranks(group, size, own, world, m->ranks) == 0;
    for (int i = 0; i < size; i++)
        m->foreign |= m->ranks[i] < 0;
    m->hash = hash_bytes((uint64_t)size, m->ranks, (size_t)size * sizeof(int));
    return ok;
}

/* The world ranks of a group; takes the group over. Without a world nobody has a world rank. False when there is no
 * memory. */
static bool members_of_group(uintptr_t group, struct members *m) {
    int size = 0;
    *m = (struct members){0};
    bool ok = mpi_library.Group_size(group, &size) == 0 && size >= 0;
    uintptr_t world = world_group_use();
    m->count = (uint32_t)size;
    if (ok && world) {
        ok = translate_ranks(group, world, m);
    } else if (ok) {
        m->foreign = true;
        m->hash = hash_mix((uint64_t)size);
    }
    world_group_leave();
    mpi_library.Group_free(&group);
    return ok;
}

static bool ask_library(struct mpi_communicator *c) {
    int size = 0, rank = 0, inter = 0, remote = 0;
    if (mpi_library.Comm_size(c->handle, &size) || mpi_library.Comm_rank(c->handle, &rank) ||
        mpi_library.Comm_test_inter(c->handle, &inter))
        return false;
    if (inter && mpi_library.Comm_remote_size(c->handle, &remote))
        return false;
    c->base.size = (uint32_t)size;
    c->base.rank = rank;
    c->base.kind = inter ? COMMUNICATOR_INTER : COMMUNICATOR_INTRA;
    c->base.others = (uint32_t)(inter ? remote : size);
    return true;
}

/* The caller frees `m` in every case. */
static bool ask_members(struct mpi_communicator *c, struct member_groups *m) {
    uintptr_t group;
    *m = (struct member_groups){0};
    if (mpi_library.Comm_group(c->handle, &group) || !members_of_group(group, &m->local))
        return false;
    m->both = m->local.hash;
    if (c->base.kind == COMMUNICATOR_INTER) {
        if (mpi_library.Comm_remote_group(c->handle, &group) || !members_of_group(group, &m->remote))
            return false;
        uint64_t local = m->local.hash, remote = m->remote.hash;
        m->both = local < remote ? hash_combine(local, remote) : hash_combine(remote, local);
    }
    if (m->local.foreign || m->remote.foreign)
        c->base.flags |= COMMUNICATOR_FOREIGN;
    c->members = m->both;
    return true;
}

/* ---- attributes: the library tells us when a communicator goes ------------------------------- */

static int never_copy(uintptr_t comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return 0;
}

static int forget_attribute(uintptr_t comm, int key, void *value, void *extra) {
    (void)key, (void)value, (void)extra;
    communicator_forget(&mpi_handles->communicators, mpi_handle(comm));
    return 0;
}

bool mpi_communicators_are_watched(void) {
    return have_keyval;
}

/* ---- registration ---------------------------------------------------------------------------- */

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

/* ---- living again ---------------------------------------------------------------------------- */

/* Made by the same call from the same communicator, of the same members: all that they can tell alike. 0: there are
 * members elsewhere, of whose world nothing is known, or threads whose order may differ between members. */
static uint64_t likeness_of(const struct mpi_communicator *c, const struct mpi_creation *creation, uint64_t members) {
    const struct communicator *parent = creation->parent;
    if (recorder.multithreaded || !parent ||
        (c->base.flags | parent->flags) & (COMMUNICATOR_FOREIGN | COMMUNICATOR_UID_UNSURE))
        return 0;
    uint64_t how = (uint64_t)creation->call << 32 ^ (uint64_t)creation->topology << 8 ^ c->base.kind;
    return hash_combine(hash_combine(parent->uid, how), members) | 1;
}

/* A copy has its parent's members, so that the library need not be asked about it. */
static uint64_t likeness_of_copy(const struct mpi_creation *creation) {
    const struct mpi_communicator *parent = mpi_communicator(creation->parent);
    return creation->copies && parent ? likeness_of(parent, creation, parent->members) : 0;
}

static struct communicator *live_again(uint64_t likeness, uintptr_t handle) {
    struct mpi_communicator *c = likeness ? mpi_communicator(communicator_live_again(likeness)) : NULL;
    if (!c)
        return NULL;
    c->handle = handle;
    c->outdegree = -1; /* a topology of the same kind may have other neighbours */
    c->neighbours = 0;
    c->missing = 0;
    return communicator_publish_again(&c->base, &mpi_handles->communicators, handle);
}

/* A place for one whose handle is known. */
static struct mpi_communicator *take_communicator(uintptr_t handle) {
    struct mpi_communicator *c = (struct mpi_communicator *)communicator_take();
    if (c) {
        c->handle = handle;
        c->outdegree = -1;
    }
    return c;
}

/* What registering adds to a communicator whose handle is known; NULL and given back where that fails. */
static struct communicator *look_into(struct mpi_communicator *c, const struct mpi_creation *creation, uint32_t ordinal,
                                      bool find_ordinal) {
    uint64_t parent_uid = creation->parent ? creation->parent->uid : 0;
    struct member_groups m = {0};
    struct communicator *found = NULL;
    bool is_known = ask_library(c) && ask_members(c, &m);
    if (is_known && !find_ordinal)
        c->base.likeness = likeness_of(c, creation, m.both);
    found = live_again(c->base.likeness, c->handle);
    if (is_known && !found) {
        uint64_t key = hash_combine(hash_combine(parent_uid, creation->name), m.both);
        if (find_ordinal && !group_ordinal(key, &ordinal))
            c->base.flags |= COMMUNICATOR_UID_UNSURE;
        c->base.uid = hash_combine(key, ordinal);
        found = communicator_publish(&c->base, &mpi_handles->communicators, c->handle, &m, parent_uid, creation->call);
    } else {
        communicator_give_back(&c->base);
    }
    member_groups_free(&m);
    return found;
}

static void watch(uintptr_t handle, struct communicator *registered) {
    if (registered && have_keyval)
        mpi_library.Comm_set_attr(handle, keyval, registered);
}

static struct communicator *register_communicator(uintptr_t handle, const struct mpi_creation *creation,
                                                  uint32_t ordinal, bool find_ordinal, uint32_t flags) {
    if (handle == 0 || handle == mpi_abi.comm_null)
        return NULL;
    int saved = errno;
    struct mpi_communicator *c = take_communicator(handle);
    struct communicator *registered = NULL;
    if (c) {
        c->base.flags = flags;
        c->topology = creation->topology;
        registered = look_into(c, creation, ordinal, find_ordinal);
    }
    watch(handle, registered);
    errno = saved;
    return registered;
}

struct communicator *mpi_communicator_register(uintptr_t handle, const struct mpi_creation *creation,
                                               uint32_t ordinal) {
    if (handle == 0 || handle == mpi_abi.comm_null)
        return NULL;
    int saved = errno;
    struct communicator *again = live_again(likeness_of_copy(creation), handle);
    watch(handle, again);
    errno = saved;
    return again ? again : register_communicator(handle, creation, ordinal, false, 0);
}

struct communicator *mpi_communicator_register_group(uintptr_t handle, const struct mpi_creation *creation) {
    return register_communicator(handle, creation, 0, true, 0);
}

struct communicator *mpi_communicator_register_unseen(uintptr_t handle) {
    if (!communicators_have_room())
        return NULL;
    struct mpi_creation unseen = {0};
    return register_communicator(handle, &unseen, 0, true, COMMUNICATOR_UID_UNSURE);
}

struct communicator *mpi_sequence_register(struct handle_map *map, uintptr_t handle, struct communicator *parent,
                                           enum communicator_kind kind, uint16_t call) {
    struct member_groups m = {0};
    struct mpi_communicator *c = parent ? take_communicator(mpi_communicator(parent)->handle) : NULL;
    struct communicator *found = NULL;
    if (!c)
        return NULL;
    int saved = errno;
    c->base.size = parent->size;
    c->base.others = parent->others;
    c->base.rank = parent->rank;
    c->base.kind = kind;
    c->base.flags = parent->flags;
    c->base.uid = hash_combine(hash_combine(parent->uid, kind), communicator_count_creation(parent));
    if (ask_members(c, &m))
        found = communicator_publish(&c->base, map, handle, &m, parent->uid, call);
    else
        communicator_give_back(&c->base);
    member_groups_free(&m);
    errno = saved;
    return found;
}

static struct communicator *register_predefined(uintptr_t handle, const char *name, uint64_t uid) {
    struct member_groups m = {0};
    struct mpi_communicator *c = take_communicator(handle);
    struct communicator *found = NULL;
    if (!c)
        return NULL;
    if (ask_library(c) && ask_members(c, &m)) {
        c->base.uid = hash_combine(hash_text(uid, name), m.both);
        found = communicator_publish(&c->base, &mpi_handles->communicators, handle, &m, 0, 0);
    } else {
        communicator_give_back(&c->base);
    }
    member_groups_free(&m);
    if (found)
        communicator_set_name(found, name);
    return found;
}

static bool open_handles(void) {
    static uint32_t opened; /* activation that the memory belongs to */
    if (opened == recorder.generation)
        return true;
    struct mpi_handles *handles = os_memory(sizeof *handles);
    if (!handles)
        return false;
    mpi_handles = handles;
    opened = recorder.generation;
    return true;
}

static void know_world(int32_t size, int32_t rank) {
    recorder.header->world_size = size;
    recorder.header->rank = rank;
    recorder.header->rank_source = RANK_FROM_LIBRARY;
}

bool mpi_communicators_begin(void) {
    world_group = session_of_world = 0;
    have_keyval = false;
    memset(sessions, 0, sizeof sessions);
    memset(group_creations, 0, sizeof group_creations);
    return communicators_open() && open_handles();
}

bool mpi_world_begun(void) {
    mpi_session_ends(session_of_world);
    if (mpi_library.Comm_group(mpi_abi.comm_world, &world_group))
        return false;
    struct communicator *world = register_predefined(mpi_abi.comm_world, "MPI_COMM_WORLD", recorder.header->world_id);
    if (!world)
        return false;
    know_world((int32_t)world->size, world->rank);
    register_predefined(mpi_abi.comm_self, "MPI_COMM_SELF", world->uid);
    have_keyval = mpi_library.Comm_create_keyval && mpi_library.Comm_set_attr &&
                  !mpi_library.Comm_create_keyval((int (*)())never_copy, (int (*)())forget_attribute, &keyval, NULL);
    return true;
}

void mpi_communicators_end(void) {
    if (have_keyval && mpi_library.Comm_free_keyval)
        mpi_library.Comm_free_keyval(&keyval); /* attributes still set go with their communicators */
    have_keyval = false;
    world_group_free();
}

static bool take_world_from(uintptr_t session) {
    int size = 0, rank = 0;
    uintptr_t group = 0, none = 0;
    if (!mpi_library.Group_from_session_pset || !mpi_library.Group_rank ||
        mpi_library.Group_from_session_pset(session, "mpi://WORLD", &group) != 0)
        return false;
    bool known = mpi_library.Group_size(group, &size) == 0 && mpi_library.Group_rank(group, &rank) == 0 && rank >= 0 &&
                 rank < size;
    if (!known || !__atomic_compare_exchange_n(&world_group, &none, group, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        mpi_library.Group_free(&group); /* or another thread has just taken it from a session of its own */
        return known;
    }
    __atomic_store_n(&session_of_world, session, __ATOMIC_RELAXED);
    know_world(size, rank);
    return true;
}

/* Puts `with` where `what` stands, once. */
static void replace_session(uintptr_t what, uintptr_t with) {
    for (uint32_t i = 0; i < SESSIONS_FOLLOWED; i++) {
        uintptr_t there = what;
        if (__atomic_compare_exchange_n(&sessions[i], &there, with, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
    }
}

void mpi_session_begun(uintptr_t session) {
    replace_session(0, session);
    if (!__atomic_load_n(&world_group, __ATOMIC_RELAXED))
        take_world_from(session);
}

void mpi_session_ends(uintptr_t session) {
    if (!session)
        return;
    replace_session(session, 0);
    if (session != __atomic_load_n(&session_of_world, __ATOMIC_RELAXED))
        return;
    __atomic_store_n(&session_of_world, 0, __ATOMIC_RELAXED);
    world_group_free();
    for (uint32_t i = 0; i < SESSIONS_FOLLOWED; i++) {
        uintptr_t other = __atomic_load_n(&sessions[i], __ATOMIC_RELAXED);
        if (other && take_world_from(other))
            return;
    }
}
