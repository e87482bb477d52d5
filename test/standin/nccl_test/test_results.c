/* SPDX-License-Identifier: Apache-2.0
 *
 * Every operation of the stand-in NCCL on 1 to 4 processes against an answer computed by brute force.
 * Inputs are small integers, so that sums and products are exact in every float type (integers wrap alike) and the
 * comparison is bit for bit.
 */
#include "test/standin/nccl_test/ranks.h"

#include <math.h>
#include <stdbool.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* Conversions of their own, so that a mistake of the library's does not cancel out; of positive integers to 2048 only.
 */
static uint16_t double_to_half(double value) {
    unsigned integer = (unsigned)value, exponent = 0;
    while (integer >> (exponent + 1))
        exponent++;
    return integer ? (uint16_t)((exponent + 15) << 10 | ((integer << 10 >> exponent) & 1023)) : 0;
}

static uint16_t double_to_bfloat(double value) {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static void store(void *buffer, size_t index, ncclDataType_t type, double value) {
    void *at = (char *)buffer + index * sizes[type];
    int64_t integer = (int64_t)value;
    uint16_t half;
    float single = (float)value;
    switch (type) {
    case ncclFloat16:
        half = double_to_half(value);
        memcpy(at, &half, 2);
        break;
    case ncclBfloat16:
        half = double_to_bfloat(value);
        memcpy(at, &half, 2);
        break;
    case ncclFloat32:
        memcpy(at, &single, 4);
        break;
    case ncclFloat64:
        memcpy(at, &value, 8);
        break;
    default:
        memcpy(at, &integer, sizes[type]);
    }
}

static double input(int rank, size_t index) {
    return (double)((index * 7 + (size_t)rank * 3) % 5 + 1);
}

static double combine(ncclRedOp_t op, int ranks, size_t index) {
    double result = input(0, index);
    for (int rank = 1; rank < ranks; rank++) {
        double other = input(rank, index);
        result = op == ncclProd  ? result * other
                 : op == ncclMax ? fmax(result, other)
                 : op == ncclMin ? fmin(result, other)
                                 : result + other;
    }
    return result;
}

struct scene {
    ncclComm_t comm;
    CUstream stream;
    int rank, ranks;
    size_t count;
    ncclDataType_t type;
    char *send, *recv, *expected;
};

#define MOST_ELEMENTS 70001

static void fill_input(struct scene *s, size_t count) {
    for (size_t i = 0; i < count; i++)
        store(s->send, i, s->type, input(s->rank, i));
}

static void clear(struct scene *s) {
    memset(s->recv, 0xee, MOST_ELEMENTS * 4 * 8);
    memset(s->expected, 0xee, MOST_ELEMENTS * 4 * 8);
}

static void check(struct scene *s, ncclResult_t result, size_t elements, const char *what) {
    EXPECT(result == ncclSuccess);
    EXPECT(cuStreamSynchronize(s->stream) == CUDA_SUCCESS);
    if (memcmp(s->recv, s->expected, elements * sizes[s->type]) != 0) {
        fprintf(stderr, "%s: rank %d of %d, %zu elements of type %d\n", what, s->rank, s->ranks, s->count, s->type);
        _Exit(1);
    }
    /* Nothing behind the result was touched. */
    EXPECT(memcmp(s->recv + elements * sizes[s->type], s->expected + elements * sizes[s->type], 64) == 0);
}

static void reductions(struct scene *s) {
    static const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMax, ncclMin};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        clear(s);
        fill_input(s, s->count);
        for (size_t j = 0; j < s->count; j++)
            store(s->expected, j, s->type, combine(ops[i], s->ranks, j));
        check(s, ncclAllReduce(s->send, s->recv, s->count, s->type, ops[i], s->comm, s->stream), s->count, "AllReduce");
        clear(s);
        int root = s->ranks - 1;
        for (size_t j = 0; s->rank == root && j < s->count; j++)
            store(s->expected, j, s->type, combine(ops[i], s->ranks, j));
        check(s, ncclReduce(s->send, s->recv, s->count, s->type, ops[i], root, s->comm, s->stream),
              s->rank == root ? s->count : 0, "Reduce");
    }
}

static void reduce_scatter(struct scene *s) {
    clear(s);
    fill_input(s, s->count * (size_t)s->ranks);
    for (size_t j = 0; j < s->count; j++)
        store(s->expected, j, s->type, combine(ncclSum, s->ranks, s->count * (size_t)s->rank + j));
    check(s, ncclReduceScatter(s->send, s->recv, s->count, s->type, ncclSum, s->comm, s->stream), s->count,
          "ReduceScatter");
}

static void in_place(struct scene *s) {
    clear(s);
    fill_input(s, s->count);
    memcpy(s->recv, s->send, s->count * sizes[s->type]);
    for (size_t j = 0; j < s->count; j++)
        store(s->expected, j, s->type, combine(ncclSum, s->ranks, j));
    check(s, ncclAllReduce(s->recv, s->recv, s->count, s->type, ncclSum, s->comm, s->stream), s->count,
          "AllReduce in place");
}

/* Average, and a user's operator that weighs each rank's input by its rank + 1. */
static void weighted(struct scene *s) {
    clear(s);
    for (size_t j = 0; j < s->count; j++) {
        store(s->send, j, s->type, (double)(s->ranks * (s->rank + 1)));
        store(s->expected, j, s->type, s->ranks * (s->ranks + 1) / 2);
    }
    check(s, ncclAllReduce(s->send, s->recv, s->count, s->type, ncclAvg, s->comm, s->stream), s->count, "average");
    clear(s);
    ncclRedOp_t op;
    char scalar[8];
    store(scalar, 0, s->type, s->rank + 1);
    double sum = 0;
    for (int rank = 0; rank < s->ranks; rank++)
        sum += (rank + 1) * 2.0;
    for (size_t j = 0; j < s->count; j++) {
        store(s->send, j, s->type, 2);
        store(s->expected, j, s->type, sum);
    }
    EXPECT(ncclRedOpCreatePreMulSum(&op, scalar, s->type, ncclScalarHostImmediate, s->comm) == ncclSuccess);
    ncclResult_t result = ncclAllReduce(s->send, s->recv, s->count, s->type, op, s->comm, s->stream);
    EXPECT(ncclRedOpDestroy(op, s->comm) == ncclSuccess);
    check(s, result, s->count, "premultiplied sum");
    EXPECT(ncclRedOpDestroy(op, s->comm) == ncclInvalidArgument);
}

static unsigned char moved(int from, int to, size_t index) {
    return (unsigned char)((size_t)from * 17 + (size_t)to * 5 + index);
}

/* Bytes that go from `from` to `to`, whatever the type. */
static void bytes_between(struct scene *s, char *at, int from, int to) {
    for (size_t i = 0; i < s->count * sizes[s->type]; i++)
        at[i] = (char)moved(from, to, i);
}

static void movements(struct scene *s) {
    size_t bytes = s->count * sizes[s->type];
    int root = s->ranks / 2;
    clear(s);
    bytes_between(s, s->send, s->rank, 0);
    for (int from = 0; from < s->ranks; from++)
        bytes_between(s, s->expected + bytes * (size_t)from, from, 0);
    check(s, ncclAllGather(s->send, s->recv, s->count, s->type, s->comm, s->stream), s->count * (size_t)s->ranks,
          "AllGather");
    clear(s);
    if (s->rank == root)
        for (int from = 0; from < s->ranks; from++)
            bytes_between(s, s->expected + bytes * (size_t)from, from, 0);
    check(s, ncclGather(s->send, s->recv, s->count, s->type, root, s->comm, s->stream),
          s->rank == root ? s->count * (size_t)s->ranks : 0, "Gather");
    clear(s);
    bytes_between(s, s->expected, root, 0);
    check(s, ncclBroadcast(s->send, s->recv, s->count, s->type, root, s->comm, s->stream), s->count, "Broadcast");
    clear(s);
    bytes_between(s, s->expected, root, 0);
    memcpy(s->recv, s->send, bytes);
    check(s, ncclBcast(s->recv, s->count, s->type, root, s->comm, s->stream), s->count, "Bcast");
    clear(s);
    for (int to = 0; to < s->ranks; to++)
        bytes_between(s, s->send + bytes * (size_t)to, s->rank, to);
    for (int from = 0; from < s->ranks; from++)
        bytes_between(s, s->expected + bytes * (size_t)from, from, s->rank);
    check(s, ncclAlltoAll(s->send, s->recv, s->count, s->type, s->comm, s->stream), s->count * (size_t)s->ranks,
          "AlltoAll");
    clear(s);
    bytes_between(s, s->expected, root, s->rank);
    check(s, ncclScatter(s->send, s->recv, s->count, s->type, root, s->comm, s->stream), s->count, "Scatter");
}

/* A ring of sends and receives, two messages to the same peer in one group. */
static void peers(struct scene *s) {
    size_t bytes = s->count * sizes[s->type];
    int next = (s->rank + 1) % s->ranks, last = (s->rank + s->ranks - 1) % s->ranks;
    clear(s);
    bytes_between(s, s->send, s->rank, next);
    bytes_between(s, s->send + bytes, s->rank + 100, next);
    bytes_between(s, s->expected, last, s->rank);
    bytes_between(s, s->expected + bytes, last + 100, s->rank);
    EXPECT(ncclGroupStart() == ncclSuccess);
    EXPECT(ncclSend(s->send, s->count, s->type, next, s->comm, s->stream) == ncclSuccess);
    EXPECT(ncclSend(s->send + bytes, s->count, s->type, next, s->comm, s->stream) == ncclSuccess);
    EXPECT(ncclRecv(s->recv, s->count, s->type, last, s->comm, s->stream) == ncclSuccess);
    EXPECT(ncclRecv(s->recv + bytes, s->count, s->type, last, s->comm, s->stream) == ncclSuccess);
    check(s, ncclGroupEnd(), 2 * s->count, "Send and Recv");
}

static void every_operation(struct rank *r) {
    static const size_t counts[] = {0, 1, 5, 1000};
    struct scene s = {.rank = r->rank, .ranks = r->ranks, .comm = rank_communicator(r)};
    s.stream = new_stream();
    s.send = calloc(MOST_ELEMENTS * 4 + 8, 8);
    s.recv = calloc(MOST_ELEMENTS * 4 + 8, 8);
    s.expected = calloc(MOST_ELEMENTS * 4 + 8, 8);
    for (int type = 0; type < ncclNumTypes; type++) {
        s.type = (ncclDataType_t)type;
        bool reduces = s.type != ncclFloat8e4m3 && s.type != ncclFloat8e5m2;
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            s.count = counts[i];
            movements(&s);
            peers(&s);
            if (!reduces)
                continue;
            reductions(&s);
            reduce_scatter(&s);
            in_place(&s);
            weighted(&s);
        }
        if (!reduces)
            EXPECT(ncclAllReduce(s.send, s.recv, 1, s.type, ncclSum, s.comm, s.stream) == ncclInvalidArgument);
    }
    s.type = ncclFloat32; /* more than the pipes hold */
    s.count = MOST_ELEMENTS;
    reductions(&s);
    movements(&s);
    peers(&s);
    EXPECT(ncclCommDestroy(s.comm) == ncclSuccess);
}

static void one_to_four_ranks(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        ranks_succeed(ranks, every_operation);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_to_four_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
