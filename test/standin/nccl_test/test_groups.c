/* SPDX-License-Identifier: Apache-2.0
 *
 * When and where the stand-in NCCL launches: groups, streams, one rank, several devices in one process, non-blocking
 * communicators, graphs; and how communicators come from others.
 */
#include "test/standin/nccl_test/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void nap(void *ms) {
    sleep_ms(*(double *)ms);
}

static void set_flag(void *flag) {
    __atomic_store_n((int *)flag, 1, __ATOMIC_SEQ_CST);
}

static int is_set(const int *flag) {
    return __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}

static void all_reduce(ncclComm_t comm, float *send, float *recv, CUstream stream) {
    EXPECT(ncclAllReduce(send, recv, 1, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
}

static void finish(CUstream stream) {
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
}

/* Launches happen in the outermost end, and a failed or simulated group launches nothing. */
static void launch_at_outermost_end(struct rank *r) {
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    float send = 1, recv = -1;
    EXPECT(ncclGroupStart() == ncclSuccess);
    EXPECT(ncclGroupStart() == ncclSuccess);
    all_reduce(comm, &send, &recv, stream);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    finish(stream);
    sleep_ms(5);
    EXPECT(recv == -1);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    finish(stream);
    EXPECT(recv == (float)r->ranks);

    recv = -1;
    ncclSimInfo_t info = {.size = sizeof info, .magic = NCCL_SIM_INFO_MAGIC, .estimatedTime = -1};
    EXPECT(ncclGroupStart() == ncclSuccess);
    all_reduce(comm, &send, &recv, stream);
    EXPECT(ncclGroupSimulateEnd(&info) == ncclSuccess);
    EXPECT(info.estimatedTime > 0);
    EXPECT(ncclGroupStart() == ncclSuccess);
    all_reduce(comm, &send, &recv, stream);
    EXPECT(ncclBroadcast(&send, &recv, 1, ncclFloat32, r->ranks, comm, stream) == ncclInvalidArgument);
    EXPECT(ncclGroupEnd() == ncclInvalidArgument);
    finish(stream);
    sleep_ms(5);
    EXPECT(recv == -1);
    all_reduce(comm, &send, &recv, stream); /* the next one is sound */
    finish(stream);
    EXPECT(recv == (float)r->ranks);
    EXPECT(ncclGroupEnd() == ncclInvalidUsage);
    EXPECT(ncclAllReduce(&send, &recv, 1, ncclFloat32, ncclSum, NULL, stream) == ncclInvalidArgument);
    EXPECT(ncclAllReduce(&send, &recv, 1, (ncclDataType_t)99, ncclSum, comm, stream) == ncclInvalidArgument);
    EXPECT(ncclAllReduce(&send, &recv, 1, ncclFloat32, (ncclRedOp_t)7, comm, stream) == ncclInvalidArgument);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

/* A group waits for all its streams, all its streams wait for it, and the next launch waits for the last. */
static void streams_of_a_group(struct rank *r) {
    ncclComm_t comm = rank_communicator(r);
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    float send = 1, recv[3] = {-1, -1, -1};
    double late = 20;
    int after_a = 0, after_c = 0;
    EXPECT(cuLaunchHostFunc(a, nap, &late) == CUDA_SUCCESS);
    CUevent begin = recorded(b);
    EXPECT(ncclGroupStart() == ncclSuccess);
    all_reduce(comm, &send, &recv[0], a);
    all_reduce(comm, &send, &recv[1], b);
    all_reduce(comm, &send, &recv[0], a);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    CUevent end = recorded(b);
    EXPECT(cuLaunchHostFunc(a, set_flag, &after_a) == CUDA_SUCCESS);
    all_reduce(comm, &send, &recv[2], c);
    EXPECT(cuLaunchHostFunc(c, set_flag, &after_c) == CUDA_SUCCESS);
    sleep_ms(5);
    EXPECT(!is_set(&after_a) && !is_set(&after_c) && recv[1] == -1 && recv[2] == -1);
    finish(a);
    finish(b);
    finish(c);
    EXPECT(elapsed_ms(begin, end) > 15);
    EXPECT(recv[0] == (float)r->ranks && recv[1] == recv[0] && recv[2] == recv[0]);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

/* A communicator of one rank does not wait for the end of the group. */
static void one_rank_inside_the_call(struct rank *r) {
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    float send = 3, recv = -1;
    EXPECT(ncclGroupStart() == ncclSuccess);
    all_reduce(comm, &send, &recv, stream);
    finish(stream);
    EXPECT(recv == 3);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    /* In place there is nothing to do, even on a stream that is stuck. */
    double late = 20;
    EXPECT(cuLaunchHostFunc(stream, nap, &late) == CUDA_SUCCESS);
    double begin = now_ms();
    all_reduce(comm, &send, &send, stream);
    EXPECT(now_ms() - begin < 15);
    finish(stream);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

/* One process, one thread, four devices; stream 0 means the device of the communicator. */
static void several_devices(struct rank *r) {
    enum { DEVICES = 4 };
    ncclComm_t comms[DEVICES];
    CUstream streams[DEVICES];
    float send[DEVICES], recv[DEVICES];
    (void)r;
    use_device(0);
    EXPECT(ncclCommInitAll(comms, DEVICES, NULL) == ncclSuccess);
    for (int i = 0; i < DEVICES; i++) {
        int device, rank, count;
        EXPECT(ncclCommCuDevice(comms[i], &device) == ncclSuccess && device == i);
        EXPECT(ncclCommUserRank(comms[i], &rank) == ncclSuccess && rank == i);
        EXPECT(ncclCommCount(comms[i], &count) == ncclSuccess && count == DEVICES);
        use_device(i);
        streams[i] = new_stream();
        send[i] = (float)i;
    }
    EXPECT(ncclGroupStart() == ncclSuccess);
    for (int i = 0; i < DEVICES; i++)
        all_reduce(comms[i], &send[i], &recv[i], streams[i]);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    for (int i = 0; i < DEVICES; i++) {
        finish(streams[i]);
        EXPECT(recv[i] == 6);
    }
    use_device(0);
    memset(recv, 0, sizeof recv);
    EXPECT(ncclGroupStart() == ncclSuccess);
    for (int i = 0; i < DEVICES; i++)
        all_reduce(comms[i], &send[i], &recv[i], NULL);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    for (int i = 0; i < DEVICES; i++) {
        use_device(i);
        finish(NULL);
        EXPECT(recv[i] == 6);
    }
    for (int i = 0; i < DEVICES; i++)
        EXPECT(ncclCommDestroy(comms[i]) == ncclSuccess);
}

static void until_ready(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    for (double begin = now_ms(); state != ncclSuccess && now_ms() - begin < 5000; sleep_ms(0.2))
        EXPECT(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    EXPECT(state == ncclSuccess);
}

static void non_blocking(struct rank *r) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;
    float send = 2, recv = -1;
    config.blocking = 0;
    use_device(r->rank);
    CUstream stream = new_stream();
    if (r->rank == 1)
        sleep_ms(20);
    double begin = now_ms();
    EXPECT(ncclCommInitRankConfig(&comm, r->ranks, r->id, r->rank, &config) == ncclInProgress);
    EXPECT(now_ms() - begin < 15);
    if (r->rank == 0) /* its partner is late */
        EXPECT(ncclAllReduce(&send, &recv, 1, ncclFloat32, ncclSum, comm, stream) == ncclInvalidArgument);
    until_ready(comm);
    for (int i = 0; i < 20; i++) {
        EXPECT(ncclGroupStart() == ncclSuccess);
        ncclResult_t inside = ncclAllReduce(&send, &recv, 1, ncclFloat32, ncclSum, comm, stream);
        EXPECT(inside == ncclSuccess);
        EXPECT(ncclGroupEnd() == ncclInProgress);
        until_ready(comm);
    }
    finish(stream);
    EXPECT(recv == 4);
    EXPECT(ncclCommFinalize(comm) == ncclInProgress);
    until_ready(comm);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

static void counter(void *value) {
    ++*(float *)value;
}

/* Nothing runs while it is captured; every replay runs it all. */
static void captured(struct rank *r) {
    enum { REPLAYS = 1000 };
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream(), other = new_stream();
    float send = 0, recv[2] = {-1, -1};
    CUgraph graph;
    CUgraphExec exec;
    all_reduce(comm, &send, &recv[0], stream);
    finish(stream);
    recv[0] = -1;
    EXPECT(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    EXPECT(cuLaunchHostFunc(stream, counter, &send) == CUDA_SUCCESS);
    EXPECT(ncclGroupStart() == ncclSuccess);
    all_reduce(comm, &send, &recv[0], stream);
    EXPECT(ncclBroadcast(&send, &recv[1], 1, ncclFloat32, 0, comm, stream) == ncclSuccess);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    /* An uncaptured stream in a captured group is refused, and the capture goes on. */
    EXPECT(ncclGroupStart() == ncclSuccess);
    all_reduce(comm, &send, &recv[0], stream);
    EXPECT(ncclAllReduce(&send, &recv[0], 1, ncclFloat32, ncclSum, comm, other) == ncclInvalidUsage);
    EXPECT(ncclGroupEnd() == ncclInvalidUsage);
    EXPECT(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    sleep_ms(5);
    EXPECT(recv[0] == -1 && send == 0);
    EXPECT(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    for (int i = 0; i < REPLAYS; i++)
        EXPECT(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    all_reduce(comm, &send, &recv[1], other); /* beside the graph */
    finish(stream);
    finish(other);
    EXPECT(send == REPLAYS && recv[0] == (float)(r->ranks * REPLAYS));
    EXPECT(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
    EXPECT(cuGraphDestroy(graph) == CUDA_SUCCESS);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

static void expect_place(ncclComm_t comm, int rank, int ranks, CUstream stream) {
    int mine, all;
    float one = 1, sum = 0;
    EXPECT(ncclCommUserRank(comm, &mine) == ncclSuccess && mine == rank);
    EXPECT(ncclCommCount(comm, &all) == ncclSuccess && all == ranks);
    all_reduce(comm, &one, &sum, stream);
    finish(stream);
    EXPECT(sum == (float)ranks);
}

static void split(struct rank *r) {
    ncclComm_t comm = rank_communicator(r), child = comm, again;
    CUstream stream = new_stream();
    EXPECT(ncclCommSplit(comm, r->rank == 3 ? NCCL_SPLIT_NOCOLOR : r->rank == 1, -r->rank, &child, NULL) ==
           ncclSuccess);
    if (r->rank == 3)
        EXPECT(child == NULL);
    else
        expect_place(child, r->rank == 0 ? 1 : 0, r->rank == 1 ? 1 : 2, stream); /* keys turn 0 and 2 round */
    EXPECT(ncclCommSplit(comm, 7, 0, &again, NULL) == ncclSuccess);
    expect_place(again, r->rank, 4, stream);
    EXPECT(ncclCommSplit(comm, -2, 0, &again, NULL) == ncclInvalidArgument);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess); /* children live on */
    if (child)
        expect_place(child, r->rank == 0 ? 1 : 0, r->rank == 1 ? 1 : 2, stream);
}

static void shrink_and_revoke(struct rank *r) {
    ncclComm_t comm = rank_communicator(r), child;
    CUstream stream = new_stream();
    int gone[] = {1};
    if (r->rank == 1) {
        EXPECT(ncclCommShrink(comm, gone, 1, &child, NULL, 0) == ncclInvalidArgument);
        return;
    }
    EXPECT(ncclCommShrink(comm, gone, 1, &child, NULL, 0) == ncclSuccess);
    expect_place(child, r->rank ? r->rank - 1 : 0, 3, stream);
    EXPECT(ncclCommRevoke(child, 0) == ncclSuccess);
    float one = 1;
    EXPECT(ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, child, stream) == ncclInvalidUsage);
    EXPECT(ncclCommRevoke(child, 0) == ncclInvalidArgument);
    EXPECT(ncclCommDestroy(child) == ncclSuccess);
}

/* Ranks 0 and 1 first, then rank 2 joins with the id that rank 1 made. */
static void grow(struct rank *r) {
    ncclComm_t comm = NULL, grown;
    ncclUniqueId id;
    int *ready = (int *)r->shared;
    use_device(r->rank);
    CUstream stream = new_stream();
    if (r->rank < 2)
        EXPECT(ncclCommInitRank(&comm, 2, r->id, r->rank) == ncclSuccess);
    if (r->rank == 1) {
        EXPECT(ncclCommGetUniqueId(comm, &id) == ncclSuccess);
        EXPECT(ncclCommGetUniqueId(comm, &id) == ncclInvalidUsage);
        memcpy(r->shared + sizeof(int), &id, sizeof id);
        set_flag(ready);
    }
    while (r->rank == 2 && !is_set(ready))
        sleep_ms(1);
    memcpy(&id, r->shared + sizeof(int), sizeof id);
    int old = r->rank < 2;
    EXPECT(ncclCommGrow(comm, 3, r->rank == 0 ? NULL : &id, old ? -1 : 2, &grown, NULL) == ncclSuccess);
    expect_place(grown, r->rank, 3, stream);
}

static void memory_and_registration(struct rank *r) {
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    enum { ELEMENTS = 1024 };
    float *buffer = NULL;
    void *handle;
    ncclWindow_t window;
    EXPECT(ncclMemAlloc((void **)&buffer, ELEMENTS * sizeof *buffer) == ncclSuccess && buffer);
    EXPECT(ncclCommRegister(comm, buffer, ELEMENTS * sizeof *buffer, &handle) == ncclSuccess);
    EXPECT(ncclCommWindowRegister(comm, buffer, ELEMENTS * sizeof *buffer, &window, 0) == ncclSuccess);
    EXPECT(cuMemsetD32_v2((CUdeviceptr)(uintptr_t)buffer, 0x3f800000, ELEMENTS) == CUDA_SUCCESS); /* 1.0f */
    finish(NULL); /* the fill is asynchronous, and `stream` does not wait for the default stream */
    EXPECT(ncclAllReduce(buffer, buffer, ELEMENTS, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    finish(stream);
    float last;
    EXPECT(cuMemcpyDtoH_v2(&last, (CUdeviceptr)(uintptr_t)(buffer + ELEMENTS - 1), sizeof last) == CUDA_SUCCESS);
    EXPECT(last == (float)r->ranks);
    EXPECT(ncclCommWindowDeregister(comm, window) == ncclSuccess);
    EXPECT(ncclCommDeregister(comm, handle) == ncclSuccess);
    EXPECT(ncclCommDeregister(NULL, handle) == ncclInvalidArgument);
    EXPECT(ncclMemFree(buffer) == ncclSuccess);
    EXPECT(ncclDevCommCreate(comm, NULL, NULL) == ncclInvalidUsage);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

/* Several ids make one communicator; a named one by its configuration. */
static void other_ways_in(struct rank *r) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId ids[2] = {r->id, r->id};
    ncclComm_t comm;
    config.commName = "scalable";
    use_device(r->rank);
    EXPECT(ncclCommInitRankScalable(&comm, r->ranks, r->rank, 2, ids, &config) == ncclSuccess);
    expect_place(comm, r->rank, r->ranks, new_stream());
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
    config.magic = 0;
    EXPECT(ncclCommInitRankConfig(&comm, r->ranks, r->id, r->rank, &config) == ncclInvalidArgument);
    EXPECT(ncclCommInitRank(&comm, r->ranks, r->id, r->ranks) == ncclInvalidArgument);
}

static void same_device_is_refused(struct rank *r) {
    ncclComm_t comm;
    use_device(0);
    EXPECT(ncclCommInitRank(&comm, r->ranks, r->id, r->rank) == ncclInvalidUsage);
}

#define RANKS_TEST(body, ranks)                                                                                        \
    static void test_##body(void **state) {                                                                            \
        (void)state;                                                                                                   \
        ranks_succeed(ranks, body);                                                                                    \
    }

RANKS_TEST(launch_at_outermost_end, 2)
RANKS_TEST(streams_of_a_group, 2)
RANKS_TEST(one_rank_inside_the_call, 1)
RANKS_TEST(several_devices, 1)
RANKS_TEST(non_blocking, 2)
RANKS_TEST(captured, 2)
RANKS_TEST(split, 4)
RANKS_TEST(shrink_and_revoke, 4)
RANKS_TEST(grow, 3)
RANKS_TEST(memory_and_registration, 2)
RANKS_TEST(other_ways_in, 2)
RANKS_TEST(same_device_is_refused, 2)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launch_at_outermost_end),
        cmocka_unit_test(test_streams_of_a_group),
        cmocka_unit_test(test_one_rank_inside_the_call),
        cmocka_unit_test(test_several_devices),
        cmocka_unit_test(test_non_blocking),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_shrink_and_revoke),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_memory_and_registration),
        cmocka_unit_test(test_other_ways_in),
        cmocka_unit_test(test_same_device_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
