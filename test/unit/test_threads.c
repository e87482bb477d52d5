/* SPDX-License-Identifier: Apache-2.0
 *
 * What the shim's threads share, used by more of them than there are lanes, all at once: nothing is lost, nothing
 * counted twice. Built with the thread sanitizer, too (make check-tsan), which looks for data races on the way. Must
 * not live here: locks across fork (test_fork_page.c), the harvester (test_gpu_timing.c), NCCL's proxies
 * (test_nccl_plugin.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/dumps/set.h"
#include "analyzer/load/dump.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/threads.h"
#include "shim/mpi/requests.h"
#include "shim/record/aggregates.h"
#include "shim/record/call_cache.h"
#include "shim/record/lanes.h"
#include "shim/record/recorder.h"
#include "shim/record/ring.h"
#include "shim/stacks/stacks.h"

#define THREADS 12 /* of which LANES_EXCLUSIVE - 1 have a lane of their own: the main thread has one, too */
#define ROUNDS  2000u
#define RING    "65536" /* holds what all of them write */

static char directory[] = "/tmp/commtap-unit-XXXXXX";

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_RING", RING, 1);
    setenv("COMMTAP_STACK", "native", 1);
    knobs_read(&recorder.knobs);
    if (!activate_process())
        return -1;
    recorder.multithreaded = true;
    lanes_expect_threads();
    return current_thread() ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

/* A thread's number, and what it is to do once all are there. */
struct member {
    unsigned number;
    void (*work)(const struct member *);
    pthread_barrier_t *barrier;
};

static void *join_in(void *member) {
    struct member *m = member;
    pthread_barrier_wait(m->barrier);
    m->work(m);
    return NULL;
}

static void all_at_once(void (*work)(const struct member *)) {
    pthread_t threads[THREADS];
    struct member members[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        members[i] = (struct member){i, work, &barrier};
        assert_int_equal(pthread_create(&threads[i], NULL, join_in, &members[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static struct dump *load(void) {
    struct dump_set set;
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
    assert_int_equal(set.count, 1);
    struct dump *dump = dump_open(set.dumps[0]->path);
    dump_set_close(&set);
    assert_non_null(dump->header);
    return dump;
}

/* ---- rings and tables ------------------------------------------------------------------------ */

static void write_record(struct lane *lane, uint32_t number, uint32_t i) {
    uint64_t now = ticks();
    ring_add(lane, &(struct record){.t0 = now, .t1 = ticks(), .seq = i, .op = number, .call = 20, .kind = RECORD_CALL});
}

/* Sizes beyond the exact ones, and so many partners that tables of lanes are followed by larger ones. While one thread
 * makes such a table, others may find the old one full: what they lose is counted. */
static void record_calls(const struct member *m) {
    struct lane *lane = current_thread()->lane;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        write_record(lane, m->number, i);
        operations_add(lane, &(struct operation_sample){.call = 30, .comm = i % 40, .bytes = i % 100, .time = 10});
        peers_add(lane, 1, (int32_t)i, 30, 0, 8, 10, 1);
        sites_add(lane, 1 + i % 50, 1, 30, 8, 10, 3);
    }
}

static void count_records(const struct dump *dump, uint32_t seen[THREADS]) {
    struct record_cursor cursor;
    for (uint32_t lane = 0; lane < LANES_EXCLUSIVE + 1; lane++) {
        if (!record_cursor_begin(&cursor, dump, lane))
            continue;
        for (const struct record *r; (r = record_cursor_next(&cursor));)
            if (r->kind == RECORD_CALL && r->call == 20)
                seen[r->op] += r->seq == seen[r->op]; /* each thread's come in its own order */
        record_cursor_end(&cursor);
    }
}

static void test_every_call_is_counted_once(void **state) {
    (void)state;
    uint32_t seen[THREADS] = {0};
    uint64_t operations = 0, peers = 0, sites = 0;
    all_at_once(record_calls);
    struct dump *dump = load();
    count_records(dump, seen);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(seen[i], ROUNDS);
    for (uint32_t l = 0; l < dump->lane_count; l++) {
        const struct dump_lane *lane = &dump->lanes[l];
        operations += lane->state->operations_lost;
        peers += lane->state->peers_lost;
        sites += lane->state->sites_lost;
        for (uint32_t i = 0; i < lane->operation_count; i++)
            operations += lane->operations[i].call == 30 ? lane->operations[i].count : 0;
        for (uint32_t i = 0; i < lane->peer_count; i++)
            peers += lane->peers[i].count;
        for (uint32_t i = 0; i < lane->site_count; i++) {
            sites += lane->sites[i].count;
            assert_int_equal(lane->sites[i].posting_total, 3 * lane->sites[i].count);
        }
    }
    assert_int_equal(operations, THREADS * ROUNDS);
    assert_int_equal(peers, THREADS * ROUNDS);
    assert_int_equal(sites, THREADS * ROUNDS);
    dump_close(dump);
}

/* Lanes and slots go from hand to hand: a thread that ends leaves its own to the next. */
static void come_and_go(const struct member *m) {
    (void)m;
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        pthread_barrier_t alone;
        pthread_barrier_init(&alone, NULL, 1);
        struct member one = {m->number, record_calls, &alone};
        assert_int_equal(pthread_create(&thread, NULL, join_in, &one), 0);
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&alone);
    }
}

static void test_threads_come_and_go(void **state) {
    (void)state;
    all_at_once(come_and_go);
    for (uint32_t i = 1; i < LANES_EXCLUSIVE; i++)
        assert_int_equal(recorder.lane_states[i].owner_tid, 0);
    assert_int_equal(recorder.header->losses.threads_without_slot, 0);
}

/* ---- pending operations ---------------------------------------------------------------------- */

/* Handles as libraries have them: a few hundred, from the same heap. */
static uintptr_t handle_of(unsigned thread, unsigned i) {
    return 0x7f0000001000u + (i * THREADS + thread) * 192u;
}

static unsigned wrong_entries;

static void post_and_complete(const struct member *m) {
    for (unsigned round = 0; round < ROUNDS / 20; round++) {
        uint32_t entries[16], stale;
        for (unsigned i = 0; i < 16; i++) {
            entries[i] = request_take(handle_of(m->number, i), &stale);
            request_entry(entries[i])->bytes = m->number * 1000 + i;
            request_publish(entries[i], handle_of(m->number, i));
        }
        for (unsigned i = 0; i < 16; i++) {
            uint32_t found = request_claim(handle_of(m->number, i));
            bool right = found == entries[i] && request_entry(found)->bytes == m->number * 1000 + i;
            __atomic_fetch_add(&wrong_entries, !right, __ATOMIC_RELAXED);
            request_release(entries[i]);
        }
    }
}

static void test_each_thread_finds_the_operations_it_posted(void **state) {
    (void)state;
    assert_true(requests_begin());
    all_at_once(post_and_complete);
    assert_int_equal(wrong_entries, 0);
    for (uint32_t i = 0; i < recorder.pending_count; i++)
        assert_int_equal(*request_key(i), 0);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static void test_every_number_is_of_its_stack(void **state);

static uint32_t ids[THREADS][4];

#define PLACE ((uintptr_t)test_every_number_is_of_its_stack + 16)

/* As if called from four places that lie a byte apart. */
static void take_stacks(const struct member *m) {
    struct thread *self = current_thread();
    for (unsigned i = 0; i < ROUNDS; i++)
        ids[m->number][i % 4] = stack_take(self, PLACE + i % 4, 0, 0);
}

/* Threads that come upon a stack at the same moment may each give it a number; every number is of that stack. */
static void test_every_number_is_of_its_stack(void **state) {
    (void)state;
    all_at_once(take_stacks);
    struct dump *dump = load();
    for (unsigned i = 0; i < THREADS * 4; i++) {
        const struct dump_stack *stack = dump_stack(dump, ids[i / 4][i % 4]);
        assert_non_null(stack);
        assert_int_equal(stack->entries[0], PLACE + i % 4);
    }
    dump_close(dump);
}

/* ---- remembered calls ------------------------------------------------------------------------ */

static unsigned wrong_calls;

/* One thread keeps telling the others that handles mean something else now. */
static void repeat_calls(const struct member *m) {
    const struct call *call = &commtap_calls[INDEX_MPI_Send];
    uintptr_t words[8] = {0};
    struct thread *self = current_thread();
    for (unsigned i = 0; i < ROUNDS * 10; i++) {
        if (m->number == 0) {
            call_cache_forget();
            continue;
        }
        words[call->count] = i % 8;
        struct cached_call *s = call_cache_find(self, call, words + 1, 0x1000, 1);
        if (!s && (s = call_cache_add(self, call, words + 1, 0x1000, 1)))
            s->facts[0] = i % 8;
        if (!s || s->facts[0] != i % 8)
            __atomic_fetch_add(&wrong_calls, 1, __ATOMIC_RELAXED);
    }
}

static void test_remembered_calls_are_each_threads_own(void **state) {
    (void)state;
    all_at_once(repeat_calls);
    assert_int_equal(wrong_calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_is_counted_once),
        cmocka_unit_test(test_threads_come_and_go),
        cmocka_unit_test(test_each_thread_finds_the_operations_it_posted),
        cmocka_unit_test(test_every_number_is_of_its_stack),
        cmocka_unit_test(test_remembered_calls_are_each_threads_own),
    };
    return cmocka_run_group_tests_name("threads", tests, activate, remove_files);
}
