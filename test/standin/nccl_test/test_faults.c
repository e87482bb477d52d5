/* SPDX-License-Identifier: Apache-2.0
 *
 * The faults of STANDIN_NCCL_FAULTS as the ranks' GPU timings show them, and ranks that die or abort.
 * Delays are 120 ms and the thresholds are far from them: two busy cores are late by tens of milliseconds.
 */
#include "test/standin/nccl_test/ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { RANKS = 3, OPERATIONS = 3, ELEMENTS = 4096 };

#define LONG  80 /* ms: the fault is in it */
#define SHORT 60 /* ms: it is not */

/* What each rank measured, by operation. */
struct measured {
    double host[RANKS][OPERATIONS], stream[RANKS][OPERATIONS];
};

/* AllReduces in a row, each between two events; meets before every one, so that only the fault makes a difference. */
static void measure(struct rank *r) {
    struct measured *m = (struct measured *)r->shared;
    int *arrivals = (int *)(m + 1);
    static float send[ELEMENTS], recv[ELEMENTS];
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    for (int i = 0; i < OPERATIONS; i++) {
        __atomic_fetch_add(&arrivals[i], 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&arrivals[i], __ATOMIC_SEQ_CST) < r->ranks)
            sleep_ms(0.1);
        double begin = now_ms();
        CUevent start = recorded(stream);
        EXPECT(ncclAllReduce(send, recv, ELEMENTS, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
        CUevent stop = recorded(stream);
        m->host[r->rank][i] = now_ms() - begin;
        EXPECT(cuEventSynchronize(stop) == CUDA_SUCCESS); /* not the stream: a delay lies behind it */
        m->stream[r->rank][i] = elapsed_ms(start, stop);
    }
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

static struct measured result;

static void keep(struct rank *r) {
    measure(r);
    /* The last one out takes the figures with it. */
    int *done = (int *)(r->shared + 2048);
    __atomic_fetch_add(done, 1, __ATOMIC_SEQ_CST);
    while (r->rank == 0 && __atomic_load_n(done, __ATOMIC_SEQ_CST) < r->ranks)
        sleep_ms(0.1);
    if (r->rank == 0) {
        FILE *file = fopen(getenv("FIGURES"), "wb");
        EXPECT(file && fwrite(r->shared, sizeof result, 1, file) == 1 && fclose(file) == 0);
    }
}

static void run_with(const char *faults) {
    char path[] = "/tmp/nccl-standin-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    setenv("FIGURES", path, 1);
    setenv("STANDIN_NCCL_FAULTS", faults, 1);
    ranks_succeed(RANKS, keep);
    assert_int_equal(read(fd, &result, sizeof result), sizeof result);
    close(fd);
    unlink(path);
    unsetenv("STANDIN_NCCL_FAULTS");
}

static void late_on_the_stream(void **state) {
    (void)state;
    run_with("stream-delay rank=2 op=1 count=1 ms=120");
    for (int rank = 0; rank < RANKS; rank++) {
        assert_true(result.stream[rank][0] < SHORT && result.stream[rank][2] < SHORT);
        /* The late rank's own operation is short: the delay came before its first event. */
        assert_true(rank == 2 ? result.stream[rank][1] < SHORT : result.stream[rank][1] > LONG);
        assert_true(result.host[rank][1] < SHORT);
    }
}

static void late_on_the_host(void **state) {
    (void)state;
    run_with("host-delay rank=1 op=1 count=1 ms=120");
    assert_true(result.host[1][1] > LONG);
    assert_true(result.host[0][1] < SHORT && result.host[2][1] < SHORT);
    assert_true(result.stream[0][1] > LONG);
}

static void slow_inside(void **state) {
    (void)state;
    run_with("inside-delay rank=0 op=2 ms=120");
    for (int rank = 0; rank < RANKS; rank++)
        assert_true(result.stream[rank][1] < SHORT && result.stream[rank][2] > LONG && result.host[rank][2] < SHORT);
}

/* 16 KiB in blocks of a third pass the link from 0 to 1 twice: 2 * 5464 bytes at 80 kB/s = 137 ms. */
static void slow_link(void **state) {
    (void)state;
    run_with("link from=0 to=1 rate=80000 ms=1");
    for (int i = 0; i < OPERATIONS; i++)
        assert_true(result.stream[1][i] > LONG);
    run_with("link from=1 to=0 ms=120"); /* latency alone */
    assert_true(result.stream[0][0] > LONG && result.stream[2][0] > LONG);
}

/* Messages between two ranks do not overtake each other, however long the first one is on the wire. */
static void two_messages(struct rank *r) {
    enum { WORDS = 24576 }; /* three chunks each */
    static int data[2][WORDS];
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    for (int i = 0; i < 2 * WORDS && r->rank == 0; i++)
        data[i / WORDS][i % WORDS] = i;
    EXPECT(ncclGroupStart() == ncclSuccess);
    for (int i = 0; i < 2; i++)
        EXPECT((r->rank == 0 ? ncclSend(data[i], WORDS, ncclInt32, 1, comm, stream)
                             : ncclRecv(data[i], WORDS, ncclInt32, 0, comm, stream)) == ncclSuccess);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    for (int i = 0; i < 2 * WORDS; i++)
        EXPECT(data[i / WORDS][i % WORDS] == i);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

static void order_on_a_slow_link(void **state) {
    (void)state;
    setenv("STANDIN_NCCL_FAULTS", "link rate=4000000", 1);
    ranks_succeed(2, two_messages);
    unsetenv("STANDIN_NCCL_FAULTS");
}

/* A rank's operation that never ends: the others hang too, until each aborts. */
static void hang_until_abort(struct rank *r) {
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    float send = 1, recv = 0;
    EXPECT(ncclAllReduce(&send, &recv, 1, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    recv = -1;
    EXPECT(ncclAllReduce(&send, &recv, 1, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    sleep_ms(40);
    EXPECT(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    ncclResult_t error;
    EXPECT(ncclCommGetAsyncError(comm, &error) == ncclSuccess);
    const char *expected = getenv("EXPECTED_ERROR");
    EXPECT((int)error == (expected && r->rank == 1 ? atoi(expected) : 0));
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    EXPECT(recv == -1);
}

static void hangs(void **state) {
    (void)state;
    setenv("STANDIN_NCCL_FAULTS", "drop rank=1 op=1", 1);
    ranks_succeed(RANKS, hang_until_abort);
    setenv("STANDIN_NCCL_FAULTS", "mismatch rank=1 op=1", 1);
    ranks_succeed(RANKS, hang_until_abort);
    setenv("STANDIN_NCCL_FAULTS", "error rank=1 op=1 code=6", 1);
    setenv("EXPECTED_ERROR", "6", 1);
    ranks_succeed(RANKS, hang_until_abort);
    unsetenv("EXPECTED_ERROR");
    unsetenv("STANDIN_NCCL_FAULTS");
}

/* Ranks that call different things hang as well: another count, another function. */
static void mismatched_calls(struct rank *r) {
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    float send[2] = {1, 1}, recv[2];
    size_t count = r->rank == 0 ? 2 : 1;
    ncclResult_t result = r->shared[0] && r->rank == 0
                              ? ncclBroadcast(send, recv, 1, ncclFloat32, 1, comm, stream)
                              : ncclAllReduce(send, recv, count, ncclFloat32, ncclSum, comm, stream);
    EXPECT(result == ncclSuccess);
    sleep_ms(30);
    EXPECT(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
}

static void another_function(struct rank *r) {
    r->shared[0] = 1;
    mismatched_calls(r);
}

static void mismatches(void **state) {
    (void)state;
    ranks_succeed(2, mismatched_calls);
    ranks_succeed(2, another_function);
}

/* The rank that aborts goes on at once; the fault ends the operation without data. */
static void aborted_inside(struct rank *r) {
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    float send = 1, recv = -1;
    CUevent start = recorded(stream);
    EXPECT(ncclAllReduce(&send, &recv, 1, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    CUevent stop = recorded(stream);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    EXPECT(recv == -1 && elapsed_ms(start, stop) > 15);
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
}

static void aborts(void **state) {
    (void)state;
    setenv("STANDIN_NCCL_FAULTS", "abort op=0 ms=20", 1);
    ranks_succeed(2, aborted_inside);
    unsetenv("STANDIN_NCCL_FAULTS");
}

/* A skipped operation: rank 0 is one ahead, and the last one of the others finds no partner. */
static void skipped(struct rank *r) {
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    float send = 1, recv[2] = {-1, -1};
    for (int i = 0; i < 2; i++)
        EXPECT(ncclAllReduce(&send, &recv[i], 1, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    sleep_ms(30);
    EXPECT(cuStreamQuery(stream) == (r->rank == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY));
    EXPECT(recv[r->rank == 0] == 2 && recv[r->rank != 0] == -1);
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
}

static void skips(void **state) {
    (void)state;
    setenv("STANDIN_NCCL_FAULTS", "skip rank=0 op=0", 1);
    ranks_succeed(2, skipped);
    unsetenv("STANDIN_NCCL_FAULTS");
}

/* One rank is killed in the middle of a long transfer: the others hang in good order and can abort. */
static void survive(struct rank *r) {
    enum { MANY = 4 << 20 };
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    float *data = calloc(MANY, sizeof *data);
    EXPECT(ncclAllReduce(data, data, 16, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    for (int i = 0; i < 20; i++)
        EXPECT(ncclAllReduce(data, data, MANY, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    if (r->rank == 1) {
        sleep_ms(10);
        raise(SIGKILL);
    }
    sleep_ms(60);
    EXPECT(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
}

static void killed_rank(void **state) {
    (void)state;
    enum outcome outcomes[RANKS];
    ranks_run(RANKS, 10, survive, outcomes);
    assert_int_equal(outcomes[0], RANK_OK);
    assert_int_equal(outcomes[1], RANK_KILLED);
    assert_int_equal(outcomes[2], RANK_OK);
}

static void create_only(struct rank *r) {
    rank_communicator(r);
}

static void typing_error(void **state) {
    (void)state;
    enum outcome outcomes[1];
    setenv("STANDIN_NCCL_FAULTS", "stream-delay rang=2", 1);
    ranks_run(1, 10, create_only, outcomes);
    assert_int_equal(outcomes[0], RANK_FAILED);
    unsetenv("STANDIN_NCCL_FAULTS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_on_the_stream),
        cmocka_unit_test(late_on_the_host),
        cmocka_unit_test(slow_inside),
        cmocka_unit_test(slow_link),
        cmocka_unit_test(hangs),
        cmocka_unit_test(mismatches),
        cmocka_unit_test(aborts),
        cmocka_unit_test(skips),
        cmocka_unit_test(killed_rank),
        cmocka_unit_test(typing_error),
        cmocka_unit_test(order_on_a_slow_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
