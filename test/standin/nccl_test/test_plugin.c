/* SPDX-License-Identifier: Apache-2.0
 *
 * What a profiler plugin is told, in which order and with which parents. The plugin is recorder.c.
 */
#include "test/standin/nccl_test/ranks.h"
#include "test/standin/nccl/plugin_api.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { ALL_EVENTS = 0xfff, MAX_LINES = 4096, ELEMENTS = 40000 };

struct line {
    char verb[12];
    unsigned long long value[8]; /* in the order of recorder.c */
};

/* Of a start: type, id, parent, rank, details; of a state: state, id, value; of a stop: id. */
enum { TYPE, ID, PARENT, RANK_OF, DETAIL };

static struct line lines[MAX_LINES];
static size_t line_count;

static void read_log(const char *path) {
    char text[256];
    FILE *file = fopen(path, "r");
    EXPECT(file);
    for (line_count = 0; line_count < MAX_LINES && fgets(text, sizeof text, file); line_count++) {
        struct line *l = &lines[line_count];
        unsigned long long *v = l->value;
        memset(l, 0, sizeof *l);
        EXPECT(sscanf(text, "%11s %llu %llu %llu %llu %llu %llu %llu %llu", l->verb, &v[0], &v[1], &v[2], &v[3], &v[4],
                      &v[5], &v[6], &v[7]) >= 1);
    }
    fclose(file);
}

static const struct line *find(const char *verb, unsigned long long first, size_t *from) {
    for (; *from < line_count; ++*from)
        if (strcmp(lines[*from].verb, verb) == 0 && lines[*from].value[0] == first)
            return &lines[(*from)++];
    return NULL;
}

static size_t count(const char *verb, unsigned long long first) {
    size_t from = 0, found = 0;
    while (find(verb, first, &from))
        found++;
    return found;
}

static const struct line *only(const char *verb, unsigned long long first) {
    size_t from = 0;
    EXPECT(count(verb, first) == 1);
    return find(verb, first, &from);
}

/* Position of the line, to compare orders. */
static size_t stopped(const struct line *start) {
    return (size_t)(only("stop", start->value[ID]) - lines);
}

static size_t at(const struct line *line) {
    return (size_t)(line - lines);
}

/* Rank 0 is watched. */
static char log_path[64];

static void watch(struct rank *r) {
    if (r->rank != 0) {
        unsetenv("NCCL_PROFILER_PLUGIN");
        return;
    }
    setenv("RECORDER_LOG", log_path, 1);
    setenv("NCCL_PROFILER_PLUGIN", RECORDER_PATH, 1);
}

static void run(int ranks, int mask, void (*body)(struct rank *)) {
    char number[16];
    snprintf(log_path, sizeof log_path, "/tmp/nccl-recorder-%d", (int)getpid());
    snprintf(number, sizeof number, "%d", mask);
    setenv("RECORDER_MASK", number, 1);
    ranks_succeed(ranks, body);
    read_log(log_path);
    unlink(log_path);
}

static float send[ELEMENTS * 2], recv[ELEMENTS * 2];

static void one_all_reduce(struct rank *r) {
    watch(r);
    ncclComm_t comm = rank_communicator(r);
    CUstream first = new_stream(), last = new_stream();
    EXPECT(ncclGroupStart() == ncclSuccess);
    EXPECT(ncclAllReduce(send, recv, ELEMENTS, ncclFloat32, ncclSum, comm, first) == ncclSuccess);
    EXPECT(ncclAllReduce(send, recv, 10, ncclFloat32, ncclSum, comm, last) == ncclSuccess);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    EXPECT(cuStreamSynchronize(last) == CUDA_SUCCESS);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

static void order_and_parents(void **state) {
    (void)state;
    run(2, ALL_EVENTS, one_all_reduce);
    assert_int_equal(only("init", 5)->value[0], 5);
    const struct line *group_api = only("start", PROFILER_GROUP_API);
    const struct line *launch = only("start", PROFILER_KERNEL_LAUNCH);
    const struct line *group = only("start", PROFILER_GROUP);
    size_t from = 0;
    const struct line *calls[2] = {find("start", PROFILER_COLL_API, &from), find("start", PROFILER_COLL_API, &from)};
    from = 0;
    const struct line *colls[2] = {find("start", PROFILER_COLL, &from), find("start", PROFILER_COLL, &from)};
    assert_true(calls[1] && colls[1]);
    assert_int_equal(group_api->value[DETAIL + 1], 2); /* the explicit group and the call's own */
    assert_true(at(only("state", STATE_GROUP_START_API_STOP)) < at(calls[0]));
    assert_true(stopped(calls[1]) < at(only("state", STATE_GROUP_END_API_START)));
    assert_true(at(only("state", STATE_GROUP_END_API_START)) < at(launch));
    assert_true(stopped(launch) < at(group));
    assert_true(at(group) < at(colls[0]) && stopped(colls[1]) < stopped(group) && stopped(group) < stopped(group_api));
    assert_int_equal(launch->value[PARENT], group_api->value[ID]);
    assert_int_equal(launch->value[DETAIL + 2], calls[1]->value[DETAIL + 2]); /* the last new stream launches */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(calls[i]->value[PARENT], group_api->value[ID]);
        assert_int_equal(colls[i]->value[PARENT], calls[i]->value[ID]);
        assert_int_equal(colls[i]->value[DETAIL], i); /* sequence number */
        assert_int_equal(colls[i]->value[DETAIL + 2], group->value[ID]);
    }
    /* A kernel has an event for each channel of each collective, after the collective's start. */
    from = 0;
    size_t channels[2] = {0, 0};
    for (const struct line *l; (l = find("start", PROFILER_KERNEL_CH, &from));) {
        int of = l->value[PARENT] == colls[1]->value[ID];
        assert_int_equal(l->value[PARENT], colls[of]->value[ID]);
        assert_int_equal(l->value[DETAIL], channels[of]++);
        assert_true(at(l) > at(colls[of]));
        size_t later = at(l);
        const struct line *end;
        do
            end = find("state", STATE_KERNEL_CH_STOP, &later);
        while (end && end->value[1] != l->value[ID]);
        assert_true(end && end->value[2] > l->value[DETAIL + 1]);
        assert_true(stopped(l) > at(end));
    }
    assert_int_equal(channels[0], colls[0]->value[DETAIL + 3]);
    assert_int_equal(channels[1], 1);
    assert_true(channels[0] > 1);
    assert_int_equal(count("start", PROFILER_PROXY_OP), 0); /* one host: no proxy */
    assert_int_equal(count("finalize", 0), 1);
}

static void ring(struct rank *r) {
    watch(r);
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    int next = (r->rank + 1) % r->ranks, last = (r->rank + r->ranks - 1) % r->ranks;
    EXPECT(ncclGroupStart() == ncclSuccess);
    EXPECT(ncclSend(send, ELEMENTS, ncclFloat32, next, comm, stream) == ncclSuccess);
    EXPECT(ncclRecv(recv, ELEMENTS, ncclFloat32, last, comm, stream) == ncclSuccess);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

/* Ranks 0, 1 | 2, 3 on two hosts: rank 0 receives from rank 3 through the proxy, and sends to rank 1 beside it. */
static void proxy_between_hosts(void **state) {
    (void)state;
    setenv("STANDIN_HOSTS", "2", 1);
    run(4, ALL_EVENTS, ring);
    unsetenv("STANDIN_HOSTS");
    assert_int_equal(count("start", PROFILER_P2P_API), 2);
    assert_int_equal(count("start", PROFILER_P2P), 2);
    const struct line *op = only("start", PROFILER_PROXY_OP);
    size_t from = 0, steps = 0, bytes = 0;
    for (const struct line *l; (l = find("start", PROFILER_P2P, &from));)
        if (l->value[DETAIL] == 3)
            assert_int_equal(op->value[PARENT], l->value[ID]);
    assert_int_equal(op->value[DETAIL], 3);
    assert_int_equal(op->value[DETAIL + 2], 0); /* receives */
    for (from = 0; from < line_count;) {
        const struct line *step = find("start", PROFILER_PROXY_STEP, &from);
        if (!step)
            break;
        assert_int_equal(step->value[PARENT], op->value[ID]);
        assert_int_equal(step->value[DETAIL], steps++);
        assert_true(at(step) < stopped(step) && stopped(step) < stopped(op));
    }
    assert_int_equal(steps, op->value[DETAIL + 1]);
    assert_int_equal(count("state", STATE_RECV_WAIT), steps);
    from = 0;
    for (const struct line *l; (l = find("state", STATE_RECV_GPU_WAIT, &from));)
        bytes += l->value[2];
    assert_int_equal(bytes, ELEMENTS * sizeof(float));
}

static void flips_mask(struct rank *r) {
    watch(r);
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    void *plugin = r->rank == 0 ? dlopen(RECORDER_PATH, RTLD_NOW | RTLD_NOLOAD) : NULL;
    for (int i = 0; i < 4; i++) {
        if (plugin)
            ((void (*)(int))dlsym(plugin, "recorder_set_mask"))(i == 2 ? PROFILER_COLL : 0);
        EXPECT(ncclAllReduce(send, recv, 10, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    }
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

static void mask_at_run_time(void **state) {
    (void)state;
    run(2, 0, flips_mask);
    assert_int_equal(only("start", PROFILER_COLL)->value[DETAIL], 2); /* of the third, counted all the while */
    /* Asking for Coll brings its call and group, whose handles are its parents; nothing else. */
    assert_int_equal(count("start", PROFILER_COLL_API), 1);
    assert_int_equal(count("start", PROFILER_GROUP), 1);
    assert_int_equal(count("start", PROFILER_KERNEL_CH), 0);
    assert_int_equal(count("start", PROFILER_KERNEL_LAUNCH), 0);
}

static void versions(void **state) {
    (void)state;
    setenv("STANDIN_PROFILER_VERSION", "4", 1);
    run(2, ALL_EVENTS, one_all_reduce);
    only("init", 4);
    assert_int_equal(count("start", PROFILER_COLL_API) + count("start", PROFILER_GROUP_API), 0);
    size_t from = 0;
    assert_int_equal(find("start", PROFILER_COLL, &from)->value[PARENT], only("start", PROFILER_GROUP)->value[ID]);
    assert_true(count("start", PROFILER_KERNEL_CH) > 2);
    setenv("STANDIN_PROFILER_VERSION", "6", 1);
    run(2, ALL_EVENTS, one_all_reduce);
    only("init", 6);
    assert_int_equal(count("start", PROFILER_COLL_API), 2);
    unsetenv("STANDIN_PROFILER_VERSION");
    setenv("STANDIN_NCCL_VERSION", "23007", 1);
    run(2, 0, one_all_reduce);
    only("init", 6);
    unsetenv("STANDIN_NCCL_VERSION");
}

enum { REPLAYS = 50 };

static void replays(struct rank *r) {
    watch(r);
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    CUgraph graph;
    CUgraphExec exec;
    EXPECT(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    EXPECT(ncclAllReduce(send, recv, 10, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    EXPECT(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    EXPECT(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    for (int i = 0; i < REPLAYS; i++)
        EXPECT(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

/* Every replay points at the call that was captured. Without a proxy there is one announcement, at the capture. */
static void captured_calls(void **state) {
    (void)state;
    run(2, ALL_EVENTS, replays);
    const struct line *call = only("start", PROFILER_COLL_API);
    assert_int_equal(call->value[DETAIL], 1);
    assert_int_equal(count("start", PROFILER_COLL), REPLAYS);
    assert_int_equal(count("start", PROFILER_KERNEL_CH), REPLAYS);
    size_t from = 0, sequence = 0;
    for (const struct line *l; (l = find("start", PROFILER_COLL, &from)); sequence++) {
        assert_int_equal(l->value[PARENT], call->value[ID]);
        assert_int_equal(l->value[DETAIL], sequence);
    }
    run(2, PROFILER_COLL_API | PROFILER_COLL, replays);
    assert_int_equal(count("start", PROFILER_COLL), 1);
}

static void alone(struct rank *r) {
    watch(r);
    ncclComm_t comm = rank_communicator(r);
    CUstream stream = new_stream();
    EXPECT(ncclAllReduce(send, recv, 10, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

static void one_rank_is_silent(void **state) {
    (void)state;
    run(1, ALL_EVENTS, alone);
    assert_int_equal(line_count, 2); /* init and finalize */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_parents), cmocka_unit_test(proxy_between_hosts),
        cmocka_unit_test(mask_at_run_time),  cmocka_unit_test(versions),
        cmocka_unit_test(captured_calls),    cmocka_unit_test(one_rank_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
