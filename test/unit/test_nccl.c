/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's pure rules: uids, ranks of children, message sizes, signatures, the stream that a group is launched on,
 * what a group is together.
 * Must not live here: what a whole process records (test/e2e/test_nccl_calls.py).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "shim/intercept/activate.h"
#include "shim/intercept/threads.h"
#include "shim/nccl/nccl_abi.h"
#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/nccl/nccl_groups.h"
#include "shim/nccl/nccl_operations.h"
#include "test/unit/no_library.h"

static void uids_tell_communicators_apart(void **state) {
    (void)state;
    struct nccl_unique_id one[2], other[2];
    memset(one, 1, sizeof one);
    memset(other, 1, sizeof other);
    assert_int_equal(nccl_uid_of_id(one, 1), nccl_uid_of_id(other, 1));
    assert_int_not_equal(nccl_uid_of_id(one, 1), nccl_uid_of_id(one, 2));
    other[0].internal[NCCL_UNIQUE_ID_SIZE - 1] ^= 1; /* the whole id counts */
    assert_int_not_equal(nccl_uid_of_id(one, 1), nccl_uid_of_id(other, 1));
    uint64_t parent = nccl_uid_of_id(one, 1),
             seen[6] = {
                 nccl_uid_of_child(parent, NCCL_CHILD_SPLIT, 0, 0), nccl_uid_of_child(parent, NCCL_CHILD_SPLIT, 0, 1),
                 nccl_uid_of_child(parent, NCCL_CHILD_SPLIT, 1, 0), nccl_uid_of_child(parent, NCCL_CHILD_SHRINK, 0, 0),
                 nccl_uid_of_child(parent, NCCL_CHILD_GROW, 0, 0),  parent,
             };
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    assert_int_equal(nccl_uid_of_child(parent, NCCL_CHILD_SHRINK, 0, 5), seen[3]); /* a shrink has no color */
}

static void shrinking_closes_ranks(void **state) {
    (void)state;
    const int32_t excluded[] = {5, 0, 2};
    assert_int_equal(nccl_rank_after_shrink(1, excluded, 3), 0);
    assert_int_equal(nccl_rank_after_shrink(3, excluded, 3), 1);
    assert_int_equal(nccl_rank_after_shrink(4, excluded, 3), 2);
    assert_int_equal(nccl_rank_after_shrink(7, excluded, 3), 4);
    assert_int_equal(nccl_rank_after_shrink(7, NULL, 0), 7);
}

/* Message sizes by the nccl-tests convention: 1000 elements on 4 ranks. */
static void bytes_follow_the_table(void **state) {
    (void)state;
    static const struct {
        unsigned index;
        uint64_t bytes;
    } known[] = {
        {INDEX_ncclAllReduce, 2000}, {INDEX_ncclBroadcast, 2000}, {INDEX_ncclBcast, 2000},
        {INDEX_ncclReduce, 2000},    {INDEX_ncclAllGather, 8000}, {INDEX_ncclReduceScatter, 8000},
        {INDEX_ncclAlltoAll, 8000},  {INDEX_ncclGather, 8000},    {INDEX_ncclScatter, 8000},
        {INDEX_ncclAllToAll, 8000},  {INDEX_ncclSend, 2000},      {INDEX_ncclRecv, 2000},
        {INDEX_ncclPutSignal, 2000}, {INDEX_ncclSignal, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct call *call = &commtap_calls[known[i].index];
        uintptr_t a[13] = {0};
        if (call->count)
            a[call->count - 1] = 1000;
        if (call->type)
            a[call->type - 1] = 6; /* ncclFloat16 */
        assert_int_equal(nccl_bytes(call, a, 4), known[i].bytes);
        if (call->bytes == BYTES_COUNT_N)
            assert_int_equal(nccl_bytes(call, a, 0), BYTES_UNKNOWN);
        if (call->type) {
            a[call->type - 1] = NCCL_DATATYPES; /* of a newer library */
            assert_int_equal(nccl_bytes(call, a, 4), BYTES_UNKNOWN);
        }
    }
    const size_t counts[4] = {1, 2, 3, 4};
    uintptr_t a[9] = {0, (uintptr_t)counts, 0, 0, 0, 0, 7};
    assert_int_equal(nccl_bytes(&commtap_calls[INDEX_ncclAllToAllv], a, 4), 40);
    for (unsigned type = 0; type < NCCL_DATATYPES; type++)
        assert_in_range(nccl_datatypes[type].size, 1, 8);
}

static struct call_frame frame_of(unsigned index) {
    struct call_frame f = {
        .call = &commtap_calls[index], .id = commtap_calls[index].id, .bytes = 64, .peer = PEER_NONE};
    return f;
}

static void signatures_hold_what_ranks_must_agree_on(void **state) {
    (void)state;
    struct call_frame f = frame_of(INDEX_ncclAllReduce), g = f;
    assert_int_equal(nccl_signature(&f), nccl_signature(&g));
    g.redop = REDOP_MAX;
    assert_int_not_equal(nccl_signature(&f), nccl_signature(&g));
    g = f;
    g.bytes = 128;
    assert_int_not_equal(nccl_signature(&f), nccl_signature(&g));
    g = f;
    g.dtype = DATATYPE_HALF;
    assert_int_not_equal(nccl_signature(&f), nccl_signature(&g));
    f = frame_of(INDEX_ncclBroadcast), g = frame_of(INDEX_ncclBcast);
    f.peer = g.peer = 2;
    assert_int_equal(nccl_signature(&f), nccl_signature(&g)); /* two names of one operation */
    g.peer = 1;
    assert_int_not_equal(nccl_signature(&f), nccl_signature(&g));
    f = frame_of(INDEX_ncclReduceScatter), g = frame_of(INDEX_ncclReduceScatterConfig);
    assert_int_equal(nccl_signature(&f), nccl_signature(&g));
    g = frame_of(INDEX_ncclAllGatherConfig);
    assert_int_not_equal(nccl_signature(&f), nccl_signature(&g));
    f = frame_of(INDEX_ncclAllToAllv), g = f;
    g.bytes = 1; /* each rank sends what it likes */
    assert_int_equal(nccl_signature(&f), nccl_signature(&g));
}

static void the_last_new_stream_is_launched_on(void **state) {
    (void)state;
    struct group_launch launch = {0};
    char streams[12];
    group_note_stream(&launch, NULL); /* the default stream is a stream */
    assert_ptr_equal(launch.stream, NULL);
    assert_int_equal(launch.stream_count, 1);
    group_note_stream(&launch, &streams[1]);
    group_note_stream(&launch, &streams[2]);
    group_note_stream(&launch, &streams[1]);
    group_note_stream(&launch, NULL);
    assert_ptr_equal(launch.stream, &streams[2]);
    assert_int_equal(launch.stream_count, 3);
    for (int i = 3; i < 12; i++)
        group_note_stream(&launch, &streams[i]);
    assert_ptr_equal(launch.stream, &streams[11]);
}

/* An operation of a group on a communicator of four, of which this rank is 1: partner or root, bytes, call site. */
struct member {
    unsigned index;
    int32_t peer;
    uint64_t bytes;
    uint32_t stack;
};
#define S(peer)                                                                                                        \
    { INDEX_ncclSend, peer, 64, 5 }
#define R(peer)                                                                                                        \
    { INDEX_ncclRecv, peer, 64, 5 }
#define B(root, bytes)                                                                                                 \
    { INDEX_ncclBroadcast, root, bytes, 5 }
#define A(bytes, stack)                                                                                                \
    { INDEX_ncclAllReduce, PEER_NONE, bytes, stack }

/* What a group of these is counted under: 64 bytes each where alike, by their sum. */
static struct gpu_launch settle(const struct member *members, uint32_t count) {
    struct communicator comm = {.rank = 1, .size = 4};
    struct group_pattern pattern = {0};
    struct gpu_launch launch = {
        .ranks = 4, .call = commtap_calls[INDEX_ncclGroupEnd].id, .peer = PEER_NONE, .stack = 99};
    for (uint32_t i = 0; i < count; i++) {
        struct call_frame f = frame_of(members[i].index);
        f.comm = &comm;
        f.peer = members[i].peer;
        f.bytes = members[i].bytes;
        f.stack = members[i].stack;
        f.flags = f.call->kind == KIND_NCCL_SEND ? FLAG_SEND : f.call->kind == KIND_NCCL_RECV ? FLAG_RECV : 0;
        f.peer_class = f.peer == 1 ? PEER_CLASS_SELF : PEER_CLASS_RANK;
        launch.flags |= f.flags ? 0 : FLAG_COLLECTIVE;
        launch.bytes += f.bytes;
        group_pattern_note(&pattern, i, &f);
    }
    group_pattern_settle(&pattern, count, &launch);
    return launch;
}

static void groups_are_named_for_what_they_are_together(void **state) {
    (void)state;
    enum { ALL_TO_ALL = 2073, EXCHANGE = 2072, GROUP = 2031, SEND = 2070, RECV = 2071, ALL_REDUCE = 2040 };
    enum { ALL_REDUCES = 2074, BROADCASTS = 2075, ALL_GATHERS = 2077, SENDS = 2100, RECEIVES = 2101 };
    enum { GATHER_OF_BROADCASTS = 2102, SCATTER_OF_REDUCES = 2103 };
    static const struct {
        uint16_t call;
        uint32_t operations, rows; /* how many its row counts */
        uint64_t each;
        struct member members[8];
    } cases[] = {
        {ALL_TO_ALL, 8, 1, 256, {S(0), R(0), S(1), R(1), S(2), R(2), S(3), R(3)}},
        {ALL_TO_ALL, 8, 1, 256, {R(3), R(2), R(1), R(0), S(1), S(3), S(0), S(2)}},
        {ALL_TO_ALL, 6, 1, 256, {S(0), R(0), S(2), R(2), S(3), R(3)}}, /* its own part it copies itself */
        {ALL_TO_ALL,
         8,
         1,
         256,
         {{INDEX_ncclSend, 0, 100, 5}, {INDEX_ncclRecv, 0, 28, 5}, S(1), R(1), S(2), R(2), S(3), R(3)}},
        {EXCHANGE, 8, 4, 64, {S(0), R(0), S(0), R(0), S(2), R(2), S(3), R(3)}}, /* one of them twice */
        {EXCHANGE, 6, 3, 64, {S(0), R(0), S(0), R(0), S(3), R(3)}},
        {EXCHANGE, 2, 1, 64, {S(2), R(0)}},
        {EXCHANGE, 3, 1, 96, {S(2), R(0), R(3)}}, /* what goes one way, where that is not the same */
        {EXCHANGE, 2, 1, 82, {S(2), {INDEX_ncclRecv, 0, 100, 5}}},
        {GROUP, 3, 1, 192, {S(2), R(0), A(64, 5)}},
        {EXCHANGE,
         6,
         1,
         210,
         {{INDEX_ncclSend, 0, 100, 5}, R(0), S(2), R(2), S(3), R(3)}}, /* size of its own part unknown */
        {SEND, 3, 3, 64, {S(0), S(2), S(3)}},
        {RECV, 2, 2, 64, {R(2), R(2)}},
        {SENDS, 2, 1, 164, {S(0), {INDEX_ncclSend, 0, 100, 5}}},
        {RECEIVES, 2, 1, 164, {R(0), {INDEX_ncclRecv, 3, 100, 5}}},
        {ALL_REDUCE, 3, 3, 64, {A(64, 5), A(64, 5), A(64, 5)}},
        {ALL_REDUCES, 2, 1, 192, {A(64, 5), A(128, 5)}},
        {ALL_GATHERS, 2, 1, 192, {{INDEX_ncclAllGather, PEER_NONE, 64, 5}, {INDEX_ncclAllGather, PEER_NONE, 128, 5}}},
        {BROADCASTS, 2, 1, 192, {B(0, 64), B(0, 128)}},
        {BROADCASTS, 2, 1, 192, {{INDEX_ncclBcast, 2, 64, 5}, {INDEX_ncclBcast, 2, 128, 5}}},
        {GATHER_OF_BROADCASTS, 4, 1, 264, {B(0, 64), B(1, 128), B(2, 0), B(3, 72)}}, /* parts of different sizes */
        {GATHER_OF_BROADCASTS, 4, 1, 256, {B(3, 64), B(1, 64), B(2, 64), B(0, 64)}},
        {SCATTER_OF_REDUCES,
         4,
         1,
         256,
         {{INDEX_ncclReduce, 0, 32, 5},
          {INDEX_ncclReduce, 1, 64, 5},
          {INDEX_ncclReduce, 2, 96, 5},
          {INDEX_ncclReduce, 3, 64, 5}}},
        {GROUP, 4, 1, 256, {B(0, 64), B(1, 64), B(2, 64), B(2, 64)}}, /* not everybody's */
        {GROUP, 3, 1, 192, {B(0, 64), B(1, 64), B(2, 64)}},
        {GROUP, 2, 1, 192, {B(0, 64), B(1, 128)}},
        {GROUP, 2, 1, 128, {A(64, 5), {INDEX_ncclReduce, 0, 64, 5}}},
        {GROUP, 2, 1, 128, {{INDEX_ncclReduce, 1, 64, 5}, {INDEX_ncclReduce, 0, 64, 5}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpu_launch launch = settle(cases[i].members, cases[i].operations);
        assert_int_equal(launch.call, cases[i].call);
        assert_int_equal(launch_count(&launch), cases[i].rows);
        assert_int_equal(launch_bytes_of_one(&launch), cases[i].each);
        assert_int_equal(launch.stack, cases[i].call == GROUP ? 99 : 5);
    }
    struct member many[257];
    for (unsigned i = 0; i < 257; i++)
        many[i] = (struct member)A(64, 5);
    assert_int_equal(settle(many, 256).call, ALL_REDUCE);
    assert_int_equal(launch_count(&(struct gpu_launch){.count = settle(many, 256).count}), 256);
    assert_int_equal(settle(many, 257).call, ALL_REDUCES); /* more than a record can count */
    assert_int_equal(settle(many, 257).bytes, 257 * 64);
    assert_int_equal(settle(many, 257).count, 0);
    struct gpu_launch places = settle((struct member[]){A(64, 5), A(64, 6)}, 2);
    assert_int_equal(places.call, ALL_REDUCE);
    assert_int_equal(places.stack, 99); /* of no call site in particular */
    struct gpu_launch unknown = settle((struct member[]){A(64, 5), A(BYTES_UNKNOWN - 64, 5)}, 2);
    assert_int_equal(unknown.call, GROUP);
}

static uintptr_t never(void) {
    return 0;
}

/* Look-ups are answered with an entry per copy; a copy beyond the entries is handed over as it is. */
static void copies_have_entries_of_their_own(void **state) {
    (void)state;
    char *libraries = (char *)(uintptr_t)0x10000;
    int numbers[NCCL_COPIES + 1];
    for (unsigned i = 0; i <= NCCL_COPIES; i++)
        numbers[i] = nccl_copy_of_function(libraries + 0x10000 * i + 8);
    for (unsigned i = 0; i < NCCL_COPIES; i++)
        assert_int_equal(numbers[i], i);
    assert_int_equal(numbers[NCCL_COPIES], -1);
    assert_int_equal(nccl_copy_of_function(libraries + 0x10000 + 0x800), 1);
    nccl_functions[2][INDEX_ncclAllReduce] = never;
    int copy;
    assert_ptr_equal(nccl_find_function(INDEX_ncclAllReduce, 2, NULL, -1, &copy), never);
    assert_int_equal(copy, 2);
    /* a caller that no library explains: what made the communicator decides */
    assert_ptr_equal(nccl_find_function(INDEX_ncclAllReduce, NCCL_BY_CALLER, libraries, 2, &copy), never);
    assert_ptr_equal(nccl_find_function(INDEX_ncclAllReduce, NCCL_BY_CALLER, libraries, -1, &copy), never);
    any_function none = nccl_find_function(INDEX_ncclSend, NCCL_BY_CALLER, libraries, -1, &copy);
    assert_int_equal(none(), NCCL_SYSTEM_ERROR);
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

/* A thread stuck in a collective, a watchdog that aborts the communicator, a new one in its place. */
static void failed_calls_leave_the_next_tenant_alone(void **state) {
    (void)state;
    char directory[] = "/tmp/commtap-unit-XXXXXX", command[64];
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_STACK", "off", 1);
    knobs_read(&recorder.knobs);
    assert_true(activate_process() && nccl_communicators_begin());
    struct communicator *c = make_communicator(0x1000);
    uintptr_t words[] = {0, 0, 0, 4, 7, 0, 0x1000, 0}, *a = words + 1;
    struct nccl_frame f;
    begin_frame(&f.call, &commtap_calls[INDEX_ncclAllReduce], a, current_thread());
    nccl_collective_before(&f.call);
    assert_int_equal(c->sequence, 1);
    communicator_forget(nccl_handles, 0x1000);
    assert_ptr_equal(make_communicator(0x2000), c);
    for (int i = 0; i < 3; i++)
        collective_enqueue(c, 0, 0);
    f.call.failed = true;
    nccl_collective_after(&f.call);
    assert_int_equal(c->sequence, 3);
    assert_int_equal(c->progress->enqueued, 3);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uids_tell_communicators_apart),
        cmocka_unit_test(shrinking_closes_ranks),
        cmocka_unit_test(bytes_follow_the_table),
        cmocka_unit_test(signatures_hold_what_ranks_must_agree_on),
        cmocka_unit_test(the_last_new_stream_is_launched_on),
        cmocka_unit_test(groups_are_named_for_what_they_are_together),
        cmocka_unit_test(copies_have_entries_of_their_own),
        cmocka_unit_test(failed_calls_leave_the_next_tenant_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
