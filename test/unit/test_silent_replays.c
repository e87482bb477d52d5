/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that replay CUDA graphs: what may be said of a job that stands there.
 * Lives here: for how long nothing is seen of their communication, below and above what may be.
 * Must not live here: jobs that run (test/e2e/test_diagnose_nccl.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/played_diagnosis.h"

enum { RANKS = 2, REPLAYS = 6 };

#define MS    INT64_C(1000000)
#define START (1000 * MS)

static struct played_diagnosis play;

static int64_t last_end(int64_t apart_ns) {
    return START + REPLAYS * apart_ns;
}

/* Ranks in their own code. `captures`: what they called was captured, else it ran at once. */
static void make(bool captures, int64_t apart_ns) {
    play = (struct played_diagnosis){0};
    for (int32_t r = 0; r < RANKS; r++) {
        const struct dump_plan plan = {.rank = r, .world_size = RANKS, .lanes = 2, .devices = 1, .sensors = 1};
        struct dump_builder *builder = played_rank(&play, &plan);
        *(struct sensor_row *)dump_builder_contents(builder, SECTION_SENSORS, 0) =
            (struct sensor_row){.call = BUILDER_NCCL_ALL_REDUCE, .wrapped = 1, .captured = captures};
        for (uint32_t i = 1; i <= REPLAYS; i++) {
            uint64_t end = (uint64_t)(START + i * apart_ns);
            dump_builder_record(builder, 1,
                                &(struct record){.t0 = end - 20, .t1 = end - 10, .seq = i, .kind = RECORD_REPLAY});
            dump_builder_record(builder, 1,
                                &(struct record){.t0 = end - 10,
                                                 .t1 = end,
                                                 .call = BUILDER_NCCL_ALL_REDUCE,
                                                 .peer = PEER_NONE,
                                                 .flags = FLAG_COLLECTIVE | FLAG_CAPTURED,
                                                 .kind = RECORD_GPU});
        }
    }
}

/* The harvester looks at the memory all the time. */
static void sample_memory(int64_t ns) {
    for (unsigned r = 0; r < RANKS; r++)
        dump_builder_record(play.builders[r], 1,
                            &(struct record){.t0 = (uint64_t)ns, .t1 = (uint64_t)ns, .kind = RECORD_MEMORY});
}

static enum verdict judge(enum process_state state, int64_t moment_ns) {
    return played_judge(&play, state, moment_ns);
}

static void leave(void) {
    played_leave(&play);
}

static void after(enum process_state state, int64_t apart_ns, int64_t silent_ns, enum verdict verdict) {
    make(true, apart_ns);
    sample_memory(last_end(apart_ns) + silent_ns);
    assert_int_equal(judge(state, last_end(apart_ns) + silent_ns), verdict);
    assert_int_equal(play.diagnosis.in_graphs, verdict == VERDICT_UNKNOWN);
    leave();
}

/* As of waits: three times what is usual, and 100 ms. */
static void silence_is_long_beyond_three_times_the_usual(void **state) {
    (void)state;
    static const enum process_state states[] = {PROCESS_RUNS, PROCESS_GONE};
    for (unsigned i = 0; i < 2; i++) {
        after(states[i], 10 * MS, 90 * MS, VERDICT_OK);
        after(states[i], 10 * MS, 110 * MS, VERDICT_UNKNOWN);
        after(states[i], 1000 * MS, 2900 * MS, VERDICT_OK);
        after(states[i], 1000 * MS, 3100 * MS, VERDICT_UNKNOWN);
    }
}

static void what_is_said_of_it(void **state) {
    (void)state;
    make(true, 10 * MS);
    judge(PROCESS_GONE, last_end(10 * MS) + 5000 * MS);
    assert_non_null(strstr(play.text.sentences[0], "nothing of rank 0's communication is on record for the last 5.0 s, "
                                                   "behind replay 6; before that its operations ended at most 10.0 ms "
                                                   "apart."));
    assert_int_equal(diagnosis_severity(&play.diagnosis), SEVERITY_WARNING);
    leave();
}

/* Its calls would show a wait. */
static void who_replays_nothing_is_in_its_own_code(void **state) {
    (void)state;
    make(false, 10 * MS);
    assert_int_equal(judge(PROCESS_RUNS, last_end(10 * MS) + 5000 * MS), VERDICT_OK);
    leave();
}

/* Which lies behind the graphs. */
static void a_call_is_a_sign_of_communication(void **state) {
    (void)state;
    make(true, 10 * MS);
    for (unsigned r = 0; r < RANKS; r++) {
        uint64_t moment = (uint64_t)(last_end(10 * MS) + 4990 * MS);
        dump_builder_plain(play.builders[r], 0, BUILDER_COMM_DUP, moment, moment + 10);
    }
    assert_int_equal(judge(PROCESS_RUNS, last_end(10 * MS) + 5000 * MS), VERDICT_OK);
    leave();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_long_beyond_three_times_the_usual),
        cmocka_unit_test(what_is_said_of_it),
        cmocka_unit_test(who_replays_nothing_is_in_its_own_code),
        cmocka_unit_test(a_call_is_a_sign_of_communication),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
