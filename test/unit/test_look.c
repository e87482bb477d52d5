/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a process came on between two looks, and what holds where it did not.
 * Lives here: dumps that are written to while they are opened.
 * Must not live here: judging (test_diagnose.c).
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "analyzer/load/dump.h"
#include "test/support/dump_builder.h"

enum { HELD = 200, HELD_LEAST = 20 /* on a busy machine */, TRIES = 200000, PAUSES = 64 };

static struct dump_builder *new_builder(void) {
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.world_size = 2});
    dump_builder_standard_calls(builder);
    dump_builder_anchor(builder, 0, 0, 1000000, 10);
    dump_builder_anchor(builder, 1000000, 1000000, 2000000, 10);
    dump_builder_world(builder);
    return builder;
}

static struct dump *open_builder(const struct dump_builder *builder) {
    size_t bytes;
    const void *data = dump_builder_data(builder, &bytes);
    struct dump *dump = dump_open_buffer("made.ct", data, bytes);
    assert_non_null(dump);
    return dump;
}

static void whatever_a_process_does_shows(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder();
    struct progress *progress = dump_builder_progress(builder, 0);
    struct in_flight *slot = dump_builder_in_flight(builder);
    struct dump *dump = open_builder(builder);
    uint64_t look = dump->look;
    assert_int_equal(dump_look(dump), look);
    progress->enqueued++;
    assert_int_not_equal(dump_look(dump), look);
    progress->enqueued--;
    assert_int_equal(dump_look(dump), look);
    progress->ended_op++; /* a GPU came on */
    assert_int_not_equal(dump_look(dump), look);
    progress->ended_op--;
    slot->call = BUILDER_ALLREDUCE;
    assert_int_not_equal(dump_look(dump), look);
    slot->call = 0;
    dump_builder_lane(builder, 0)->head++;
    assert_int_not_equal(dump_look(dump), look);
    dump_close(dump);
    dump_builder_free(builder);
}

static uint64_t look_at(const struct dump_builder *builder) {
    struct dump *dump = open_builder(builder);
    uint64_t look = dump_look(dump);
    dump_close(dump);
    return look;
}

/* Polls in vain take a record every few seconds; any other record is progress, also one behind them. */
static void polls_in_vain_are_no_progress(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder();
    const struct record polls = {.t0 = 500, .t1 = 900, .call = BUILDER_RECV, .kind = RECORD_POLL};
    dump_builder_collective(builder, 0, BUILDER_ALLREDUCE, 0, 0, 8, 100, 200);
    uint64_t look = look_at(builder);
    dump_builder_record(builder, 0, &polls);
    assert_int_equal(look_at(builder), look);
    dump_builder_record(builder, 0, &polls);
    assert_int_equal(look_at(builder), look);
    dump_builder_collective(builder, 0, BUILDER_ALLREDUCE, 0, 1, 8, 1000, 1100);
    assert_int_not_equal(look_at(builder), look);
    dump_builder_free(builder);
}

/* A communicator that is made, used and freed for ever, always under one index. */
struct life {
    struct in_flight *slot;
    struct communicator_freed_definition *end;
    uint32_t end_commit;
    atomic_bool over;
};

static void *live(void *argument) {
    struct life *life = argument;
    for (uint64_t lives = 1; !life->over; lives++) {
        __atomic_store_n(&life->end->head.commit, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&life->slot->enter, lives, __ATOMIC_RELAXED);
        __atomic_store_n(&life->slot->call, BUILDER_ALLREDUCE, __ATOMIC_RELEASE);
        for (uint64_t i = 0; i < lives % PAUSES; i++)
            sched_yield();
        __atomic_store_n(&life->slot->call, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&life->end->head.commit, life->end_commit, __ATOMIC_RELEASE);
        for (uint64_t i = 0; i < lives / PAUSES % PAUSES; i++)
            sched_yield();
    }
    return NULL;
}

/* When the call was entered, 0 between calls. */
static uint64_t call_in(const struct in_flight *slot) {
    return __atomic_load_n(&slot->call, __ATOMIC_ACQUIRE) ? __atomic_load_n(&slot->enter, __ATOMIC_RELAXED) : 0;
}

static void a_call_that_stands_still_is_on_what_is_defined(void **state) {
    (void)state;
    static const struct member_run both = {.start = 0, .stride = 1, .count = 2};
    struct dump_builder *builder = new_builder();
    struct life life = {.slot = dump_builder_in_flight(builder)};
    life.slot->comm = dump_builder_communicator(builder, 7, "same", 0, &both, 1);
    life.end = dump_builder_define(builder, DEFINITION_COMMUNICATOR_FREED, sizeof *life.end);
    life.end->index = life.slot->comm;
    life.end_commit = life.end->head.commit;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, live, &life), 0);
    unsigned held = 0, wrong = 0;
    for (unsigned i = 0; i < TRIES && held < HELD; i++) {
        struct dump *dump = open_builder(builder);
        uint64_t before = call_in(life.slot);
        bool still = dump_look(dump) == dump->look;
        if (still && before != 0 && call_in(life.slot) == before) {
            held++;
            wrong += dump->communicators[life.slot->comm].freed;
        }
        dump_close(dump);
    }
    life.over = true;
    pthread_join(thread, NULL);
    assert_true(held >= HELD_LEAST);
    assert_int_equal(wrong, 0);
    dump_builder_free(builder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_a_process_does_shows),
        cmocka_unit_test(polls_in_vain_are_no_progress),
        cmocka_unit_test(a_call_that_stands_still_is_on_what_is_defined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
