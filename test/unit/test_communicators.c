/* SPDX-License-Identifier: Apache-2.0
 *
 * The places of the communicators that a process follows: given back, counted where there are none, found quickly.
 * Lives here: one activated process with a made-up library. Must not live here: what a communicator is (test/e2e).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/diagnose/desync.h"
#include "analyzer/load/dump.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/resolve.h"
#include "shim/mpi/mpi_communicators.h"
#include "shim/mpi/mpi_library.h"
#include "shim/mpi/mpi_topology.h"
#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/nccl_copies.h"
#include "test/unit/no_library.h"

static char directory[] = "/tmp/commtap-unit-XXXXXX";

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    return activate_process() && nccl_communicators_begin() ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static struct communicator *make_communicator(uintptr_t handle) {
    struct communicator *c = communicator_take();
    if (!c)
        return NULL;
    c->uid = handle;
    c->size = 2;
    nccl_communicator(c)->device = nccl_communicator(c)->copy = -1;
    return communicator_publish_known(c, nccl_handles, handle, 0, 0, false);
}

static unsigned groups_held;

static int two(uintptr_t comm, int *value) {
    (void)comm;
    *value = 2;
    return 0;
}

static int zero(uintptr_t comm, int *value) {
    (void)comm;
    *value = 0;
    return 0;
}

static int one(uintptr_t comm, int *value) {
    (void)comm;
    *value = 1;
    return 0;
}

static int give_group(uintptr_t comm, uintptr_t *group) {
    (void)comm;
    groups_held++;
    *group = 7;
    return 0;
}

static int refuse_group(uintptr_t comm, uintptr_t *group) {
    (void)comm, (void)group;
    return 5;
}

static int take_group(uintptr_t *group) {
    groups_held--;
    *group = 0;
    return 0;
}

/* An intercommunicator whose remote group cannot be had, again and again. */
static void what_cannot_be_registered_keeps_no_place(void **state) {
    (void)state;
    const struct mpi_library before = mpi_library;
    struct mpi_creation creation = {0};
    mpi_library.Comm_size = mpi_library.Comm_remote_size = mpi_library.Group_size = two;
    mpi_library.Comm_rank = zero;
    mpi_library.Comm_test_inter = one;
    mpi_library.Comm_group = give_group;
    mpi_library.Comm_remote_group = refuse_group;
    mpi_library.Group_free = take_group;
    for (uintptr_t i = 0; i < 10000; i++)
        assert_null(mpi_communicator_register(0x1000 + i, &creation, 0));
    assert_int_equal(groups_held, 0);
    assert_int_equal(recorder.header->losses.communicators_untracked, 0);
    mpi_library.Comm_remote_group = give_group;
    for (uintptr_t i = 0; i < 5000; i++) {
        assert_non_null(mpi_communicator_register(0x1000 + i, &creation, 0));
        communicator_forget(&mpi_handles->communicators, 0x1000 + i);
    }
    assert_int_equal(groups_held, 0);
    assert_int_equal(recorder.header->losses.communicators_untracked, 0);
    mpi_library = before;
}

static uint64_t definitions_used(void) {
    uint64_t used = 0;
    for (uint32_t i = 0; i < recorder.definitions.area_count; i++)
        used += recorder.definitions.used[i];
    return used;
}

/* ---- neighbours ---------------------------------------------------------------------------------- */

enum { COMM_OF_GRAPH = 0x5000, NUMBER_OF_SOURCES = 3 };
static int made_sources[NUMBER_OF_SOURCES];
static unsigned lists_asked;

static int count_sources(uintptr_t comm, int *in, int *out, int *weighted) {
    *in = comm == COMM_OF_GRAPH ? NUMBER_OF_SOURCES : 0;
    *out = 1;
    *weighted = 1;
    return 0;
}

static int list_sources(uintptr_t comm, int most_in, int *sources, int *weights, int most_out, int *destinations,
                        int *other_weights) {
    (void)comm;
    lists_asked++;
    for (int i = 0; i < most_in; i++) {
        sources[i] = made_sources[i];
        weights[i] = 1000;
    }
    assert_int_equal(most_out, 1);
    destinations[0] = other_weights[0] = 1000;
    return 0;
}

static int four(uintptr_t comm, int *value) {
    (void)comm;
    *value = 4;
    return 0;
}

static int same_ranks(uintptr_t group, int n, const int *ranks, uintptr_t other, int *translated) {
    (void)group, (void)other;
    memcpy(translated, ranks, (size_t)n * sizeof *ranks);
    return 0;
}

static void make_graph(struct communicator *parent, int shift) {
    const struct mpi_creation creation = {.call = 332, .parent = parent, .topology = TOPOLOGY_DIST_GRAPH};
    for (int i = 0; i < NUMBER_OF_SOURCES; i++)
        made_sources[i] = (i + shift) % 4;
    struct communicator *graph = mpi_communicator_register(COMM_OF_GRAPH, &creation, 0);
    assert_non_null(graph);
    mpi_topology_define(graph);
    collective_enter(graph, 42, 0);
    collective_took_place(graph, 42);
    communicator_forget(&mpi_handles->communicators, COMM_OF_GRAPH);
}

static void assert_sources(const struct dump *dump, uint32_t index, uint32_t seq, int shift) {
    uint32_t ranks[NEIGHBOURS_MOST];
    assert_int_equal(dump_neighbours_at(dump, index, seq, ranks), NUMBER_OF_SOURCES);
    for (unsigned r = 0, i = 0; r < 4; r++)
        if ((r + 4 - (unsigned)shift) % 4 < NUMBER_OF_SOURCES)
            assert_int_equal(ranks[i++], r);
}

/* A graph that is made again and again lives again under its index: each life's collectives have its neighbours, what
 * stays the same is said once, and without end it is said of none. */
static void every_life_has_its_neighbours(void **state) {
    (void)state;
    const struct mpi_library before = mpi_library;
    struct communicator parent = {.uid = 99, .size = 4};
    mpi_library.Comm_size = mpi_library.Group_size = four;
    mpi_library.Comm_rank = mpi_library.Comm_test_inter = zero;
    mpi_library.Comm_group = give_group;
    mpi_library.Group_free = take_group;
    mpi_library.Group_translate_ranks = same_ranks;
    mpi_library.Dist_graph_neighbors_count = count_sources;
    mpi_library.Dist_graph_neighbors = list_sources;
    assert_true(mpi_world_begun());
    static const int shifts[] = {0, 1, 1, 2};
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++)
        make_graph(&parent, shifts[i]);
    struct dump *dump = dump_open(recorder.file.path);
    uint32_t index = dump->communicator_count - 1;
    assert_int_equal(dump->neighbour_count, 3);
    for (uint32_t seq = 0; seq < sizeof shifts / sizeof *shifts; seq++)
        assert_sources(dump, index, seq, shifts[seq]);
    dump_close(dump);
    uint64_t used = definitions_used();
    for (int i = 0; i < 1000; i++)
        make_graph(&parent, i);
    assert_true(definitions_used() - used < UINT64_C(64) * 64);
    assert_int_equal(lists_asked, 64 + 1); /* one life had the neighbours of the one before */
    uint32_t ranks[NEIGHBOURS_MOST];
    dump = dump_open(recorder.file.path);
    assert_true(dump_neighbours_at(dump, index, 1003, ranks) == SIZE_MAX);
    assert_sources(dump, index, 3, 2);
    assert_int_equal(dump->problems.count, 0);
    dump_close(dump);
    mpi_communicators_end();
    mpi_library = before;
}

/* ---- the pool ------------------------------------------------------------------------------------ */

/* Beyond what can be followed: each is counted once, its operations cost no look at the library, and places that are
 * given back serve again, however many handles there have been. */
static void communicators_beyond_the_pool_are_counted_once(void **state) {
    (void)state;
    enum { MADE = 5000, KEPT = 3 /* the world, MPI_COMM_SELF, a graph that may live again */, FOLLOWED = 4096 - KEPT };
    enum { TIMES = 20000 };
    uint64_t *untracked = &recorder.header->losses.communicators_untracked;
    uintptr_t first = 0x10000000, at = first;
    unsigned followed = 0;
    for (int i = 0; i < TIMES; i++, at += 0x940) { /* as an allocator hands them out */
        followed += make_communicator(at) != NULL;
        communicator_forget(nccl_handles, at);
    }
    assert_int_equal(followed, TIMES);
    assert_int_equal(*untracked, 0);
    followed = 0;
    for (int i = 0; i < MADE; i++)
        followed += make_communicator(first + (uintptr_t)i * 0x940) != NULL;
    assert_int_equal(followed, FOLLOWED);
    assert_false(communicators_have_room());
    uint64_t before = *untracked;
    for (int i = 0; i < 1000; i++)
        assert_null(nccl_register_unseen(at + (uintptr_t)i, NULL));
    assert_int_equal(*untracked, before);
    communicator_forget(nccl_handles, first);
    assert_true(communicators_have_room());
    assert_non_null(make_communicator(at));
}

static void assert_name(uint32_t index, const char *name) {
    struct dump *dump = dump_open(recorder.file.path);
    assert_non_null(dump_communicator(dump, index));
    assert_string_equal(dump_communicator(dump, index)->name, name);
    assert_int_equal(dump->problems.count, 0);
    dump_close(dump);
}

/* Ever new names, of every length, for one communicator: the last one counts, and they take the room of two. */
static void names_without_end_take_no_room_without_end(void **state) {
    (void)state;
    struct communicator *c = make_communicator(0x77770000);
    char name[301];
    uint64_t before = definitions_used();
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "%0*u", (int)(i % 300), i);
        communicator_set_name(c, name);
        if (i % 1000 == 7)
            assert_name(c->index, name);
    }
    communicator_set_name(c, "last");
    assert_name(c->index, "last");
    assert_true(definitions_used() - before <= 2 * (256 + 32));
    communicator_forget(nccl_handles, 0x77770000);
}

/* Two ranks with the same history, though one of them was for a while further than that: whatever is known of both is
 * the same. */
static void numbers_taken_back_leave_no_false_history(void **state) {
    (void)state;
    for (unsigned back = 1; back < 200; back += 9) {
        struct progress straight = {.prefix_hash = 7, .recent[0] = 7}, detour = straight;
        struct communicator a = {.progress = &straight}, b = {.progress = &detour};
        uint64_t equal, differ;
        for (unsigned i = 0; i < 300; i++) {
            collective_enqueue(&a, 1, 0);
            collective_hash(&a, i);
            collective_enqueue(&b, 1, 0);
            collective_hash(&b, i);
        }
        uint64_t hashed = detour.hashed, hash = detour.prefix_hash;
        uint32_t seq = b.sequence;
        for (unsigned i = 0; i < back; i++) {
            collective_enqueue(&b, 1, 0);
            collective_hash(&b, 1000 + i);
        }
        collective_take_back(&b, seq, hashed, hash);
        assert_int_equal(detour.enqueued, 300);
        assert_false(histories_differ(&straight, &detour, 7, &equal, &differ));
        assert_int_equal(equal, 300);
    }
}

/* MPI: a number is only used up by a collective that took place. */
static void a_withdrawn_collective_leaves_its_number(void **state) {
    (void)state;
    struct progress progress = {.prefix_hash = 7};
    struct communicator c = {.progress = &progress};
    assert_int_equal(collective_enter(&c, 1, 0), 0);
    collective_took_place(&c, 5);
    assert_int_equal(collective_enter(&c, 1, 0), 1);
    assert_int_equal(progress.enqueued, 2);
    collective_withdraw(&c);
    assert_int_equal(progress.enqueued, 1);
    assert_int_equal(progress.started, 1);
    assert_int_equal(progress.hashed, 1);
    assert_int_equal(collective_enter(&c, 1, 0), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_registered_keeps_no_place),
        cmocka_unit_test(every_life_has_its_neighbours),
        cmocka_unit_test(names_without_end_take_no_room_without_end),
        cmocka_unit_test(numbers_taken_back_leave_no_false_history),
        cmocka_unit_test(a_withdrawn_collective_leaves_its_number),
        cmocka_unit_test(communicators_beyond_the_pool_are_counted_once),
    };
    return cmocka_run_group_tests_name("communicators", tests, activate, remove_files);
}
