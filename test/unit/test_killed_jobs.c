/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts on jobs that are over, and that nobody saw stand.
 * Lives here: which of them hung before they were killed, and who is to blame.
 * Must not live here: jobs that live (test_hung_jobs.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/hung_job.h"

enum { HUNG_AT = 1000 /* ms */, CALL_MS = 20 };
#define MS UINT64_C(1000000)

/* ---- killed, and nobody saw it stand --------------------------------------------------------- */

/* Ranks 0 and 1 wait in an Allreduce since HUNG_AT; 2 was last seen in a call `after_ms` later. A process needed up to
 * `call_ms` (0: it made none) for ten such calls before, and once a second. */
static void hung_kill(struct hung_job *hung, unsigned after_ms, unsigned call_ms) {
    bool with_history = call_ms > 0;
    hung_make_living(hung, 3);
    for (unsigned r = 0; r < 3; r++) {
        struct operation_row *row = dump_builder_operation(hung->builders[r], 0);
        row->call = BUILDER_ALLREDUCE;
        row->source = SOURCE_HOST;
        for (unsigned i = 0; i < 10 && with_history; i++)
            dump_builder_count(row, 8, (i < 2 ? call_ms : 1) * MS);
        if (with_history)
            dump_builder_count(row, 8, 1000 * MS);
        hung->states[r] = PROCESS_GONE;
        dump_builder_header(hung->builders[r])->activated_ticks = (HUNG_AT - 100) * MS;
        struct progress *p = dump_builder_contents(hung->builders[r], SECTION_PROGRESS, 0);
        p->enqueued = with_history ? 11 + (r < 2) : r < 2;
    }
    for (unsigned r = 0; r < 2; r++) {
        hung_enter(hung, r, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, with_history ? 11 : 0);
        hung->slots[r]->enter = HUNG_AT * MS;
    }
    hung->slots[2]->last_leave = (HUNG_AT + after_ms) * MS;
}

/* Judges it with the job's end noted at `end_ms` (0: not noted) on the host of that boot id. */
static void expect_standing(unsigned after_ms, unsigned call_ms, unsigned end_ms, const char *boot_id,
                            enum verdict verdict, enum standing_kind kind) {
    struct hung_job hung;
    struct job_end end = {.signal = -1, .status = -1, .monotonic_ns = (int64_t)(end_ms * MS)};
    hung_kill(&hung, after_ms, call_ms);
    for (unsigned r = 0; r < 3; r++)
        dump_builder_host(hung.builders[r], "host0", "the boot", 0);
    strcpy(end.boot_id, boot_id);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.end = end_ms ? &end : NULL});
    assert_int_equal(diagnosis->verdict, verdict);
    assert_int_equal(diagnosis->standing.kind, kind);
    assert_int_equal(diagnosis->standing.usual_ns >= 0, call_ms > 0);
    /* rank 2 is away for no longer than work may take */
    assert_int_equal(diagnosis_severity(diagnosis), verdict == VERDICT_OK ? SEVERITY_INFO : SEVERITY_WARNING);
    assert_int_equal(diagnosis->may_come_back, verdict != VERDICT_OK);
    assert_int_equal(diagnosis->culprit_count, verdict == VERDICT_OK ? 0 : 1);
    hung_free(&hung);
}

static void a_job_killed_at_work(void **state) {
    (void)state;
    expect_standing(10, CALL_MS, HUNG_AT + 30, "the boot", VERDICT_OK, STANDING_BRIEF);
    expect_standing(10, CALL_MS, HUNG_AT + 90, "the boot", VERDICT_OK, STANDING_BRIEF); /* whatever was usual */
}

static void a_job_that_stood_before_it_was_killed(void **state) {
    (void)state;
    expect_standing(10, CALL_MS, HUNG_AT + 500, "the boot", VERDICT_HANG, STANDING_LONG);
    expect_standing(500, CALL_MS, 0, "", VERDICT_HANG, STANDING_LONG);
    expect_standing(500, CALL_MS, HUNG_AT + 10, "another boot", VERDICT_HANG, STANDING_LONG);
}

/* The dumps may have stopped telling when the hang began: the verdict is kept, but it is a warning. */
static void a_job_whose_end_is_not_known(void **state) {
    (void)state;
    expect_standing(10, CALL_MS, 0, "", VERDICT_HANG, STANDING_UNTOLD);
    expect_standing(10, CALL_MS, HUNG_AT + 30, "another boot", VERDICT_HANG, STANDING_UNTOLD);
}

/* All are in the first collective of the job: nothing says how long it may take. */
static void a_first_collective_that_has_no_history(void **state) {
    (void)state;
    expect_standing(10, 0, HUNG_AT + 500, "the boot", VERDICT_HANG, STANDING_UNTOLD);
    expect_standing(10, 0, HUNG_AT + 20000, "the boot", VERDICT_HANG, STANDING_LONG);
}

/* What happened once, a second long, is no measure; twice is. */
static void the_longest_call_is_left_out(void **state) {
    (void)state;
    struct hung_job hung;
    hung_kill(&hung, 0, CALL_MS);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = false});
    assert_in_range(diagnosis->standing.usual_ns, CALL_MS * MS * 3 / 4, CALL_MS * MS * 5 / 4);
    hung_free(&hung);
}

/* Three times the usual 200 ms; a tenth of a second where 20 ms are usual; ten seconds where nothing is. */
static void a_wait_is_long_beyond_three_times_the_usual(void **state) {
    (void)state;
    expect_standing(10, 200, HUNG_AT + 480, "the boot", VERDICT_OK, STANDING_BRIEF);
    expect_standing(10, 200, HUNG_AT + 720, "the boot", VERDICT_HANG, STANDING_LONG);
    expect_standing(10, CALL_MS, HUNG_AT + 120, "the boot", VERDICT_HANG, STANDING_LONG);
    expect_standing(10, 0, HUNG_AT + 9000, "the boot", VERDICT_HANG, STANDING_UNTOLD);
    expect_standing(10, 0, HUNG_AT + 11000, "the boot", VERDICT_HANG, STANDING_LONG);
}

/* With two processors for three ranks, and three. */
static void ranks_that_share_processors_wait_for_these(void **state) {
    (void)state;
    static const struct {
        uint64_t processors;
        unsigned stood_ms;
        enum verdict verdict;
    } cases[] = {{3, 400, VERDICT_OK}, {3, 600, VERDICT_HANG}, {7, 400, VERDICT_HANG}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hung_job hung;
        struct job_end end = {
            .signal = -1, .status = -1, .monotonic_ns = (int64_t)((HUNG_AT + cases[i].stood_ms) * MS)};
        hung_kill(&hung, 10, CALL_MS);
        for (unsigned r = 0; r < 3; r++) {
            dump_builder_host(hung.builders[r], "host0", "the boot", 0);
            dump_builder_header(hung.builders[r])->cpus[0] = cases[i].processors;
        }
        strcpy(end.boot_id, "the boot");
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, cases[i].verdict);
        hung_free(&hung);
    }
}

/* A GPU's memory is sampled every two seconds: its host lived 2.5 s at most beyond the last sign of it. Where 900 ms
 * are usual a wait of 10 ms was still young then, one of half a second may not have been. */
static void a_gpus_memory_tells_when_the_job_ended(void **state) {
    (void)state;
    for (unsigned after_ms = 10; after_ms <= 510; after_ms += 500) {
        struct hung_job hung;
        hung_kill(&hung, after_ms, 900);
        for (unsigned r = 0; r < 3; r++) {
            dump_builder_device(hung.builders[r], 0, 1000);
            struct device_state *device = dump_builder_contents(hung.builders[r], SECTION_DEVICES, 0);
            device->memory_samples = 2;
        }
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = false});
        assert_int_equal(diagnosis->standing.kind, after_ms == 10 ? STANDING_BRIEF : STANDING_UNTOLD);
        hung_free(&hung);
    }
}

/* Nobody waits, and nobody finalised: who went first is not known, unless all are known to have been ended together,
 * and that anything is wrong is not said of a job that lives, came to its end, or did not record to its end. */
static void a_job_that_ended_at_work_without_a_trace(void **state) {
    (void)state;
    static const struct {
        bool end_noted;
        enum process_state process;
        uint32_t state;
        enum verdict verdict;
    } ends[] = {{false, PROCESS_GONE, 0, VERDICT_UNKNOWN},
                {false, PROCESS_ELSEWHERE, 0, VERDICT_UNKNOWN},
                {true, PROCESS_GONE, 0, VERDICT_OK},
                {false, PROCESS_RUNS, 0, VERDICT_OK},
                {false, PROCESS_GONE, STATE_FINALISING | STATE_FINALISED, VERDICT_OK},
                {false, PROCESS_GONE, STATE_SWITCHED_OFF, VERDICT_OK}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct hung_job hung;
        struct job_end end = {.signal = -1, .status = -1, .monotonic_ns = (int64_t)(HUNG_AT * MS)};
        hung_make_living(&hung, 3);
        for (unsigned r = 0; r < 3; r++) {
            hung.states[r] = ends[i].process;
            dump_builder_header(hung.builders[r])->state |= ends[i].state;
        }
        const struct diagnosis *diagnosis =
            hung_judge(&hung, (struct diagnose_request){.end = ends[i].end_noted ? &end : NULL});
        assert_int_equal(diagnosis->verdict, ends[i].verdict);
        assert_int_equal(diagnosis->culprit_count, 0);
        hung_free(&hung);
    }
}

/* Rank 2 came out of the Allreduce that the others are in: they were about to leave it as well when all left by
 * _exit(). Older than usual they would have stood in it. Where rank 2 waits in the next one, the transport fails. */
static void a_call_that_somebody_came_out_of_is_no_hang(void **state) {
    (void)state;
    static const struct {
        unsigned end_ms;
        bool next;
        enum verdict verdict;
    } ends[] = {{0, false, VERDICT_UNKNOWN}, {HUNG_AT + 500, false, VERDICT_HANG}, {0, true, VERDICT_HANG}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct hung_job hung;
        struct job_end end = {.signal = -1, .status = -1, .monotonic_ns = (int64_t)(ends[i].end_ms * MS)};
        strcpy(end.boot_id, "the boot");
        hung_kill(&hung, 10, CALL_MS);
        for (unsigned r = 0; r < 3; r++)
            dump_builder_host(hung.builders[r], "host0", "the boot", 0);
        struct progress *progress = dump_builder_contents(hung.builders[2], SECTION_PROGRESS, 0);
        progress->enqueued = progress->completed = 12;
        if (ends[i].next) {
            progress->enqueued = 13;
            hung_enter(&hung, 2, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, 12);
            hung.slots[2]->enter = (HUNG_AT + 10) * MS;
        }
        const struct diagnosis *diagnosis =
            hung_judge(&hung, (struct diagnose_request){.end = ends[i].end_ms ? &end : NULL});
        assert_int_equal(diagnosis->verdict, ends[i].verdict);
        assert_true(ends[i].next || diagnosis->culprit_count == 0);
        hung_free(&hung);
    }
}

/* Ranks 0 and 1 wait for 2, which made its last call at 2000 s; between two calls before it was away for so long. */
static void hung_away(struct hung_job *hung, unsigned away_s, unsigned longest_s, struct job_end *end) {
    hung_kill(hung, 0, CALL_MS);
    for (unsigned r = 0; r < 3; r++) {
        dump_builder_host(hung->builders[r], "host0", "the boot", 0);
        if (r < 2)
            hung->slots[r]->enter = 2000000 * MS;
        else
            hung->slots[r]->last_leave = 2000000 * MS;
    }
    for (unsigned i = 0; i < 2; i++) {
        struct record call = {.t0 = (1000000 + i * 1000 * longest_s) * MS,
                              .comm = COMM_NONE,
                              .peer = PEER_NONE,
                              .tag = TAG_NONE,
                              .stack = STACK_NONE,
                              .call = BUILDER_ALLREDUCE,
                              .kind = RECORD_CALL};
        call.t1 = call.t0;
        dump_builder_record(hung->builders[2], 0, &call);
    }
    *end = (struct job_end){.signal = -1, .status = -1, .monotonic_ns = (int64_t)((2000000 + 1000 * away_s) * MS)};
    strcpy(end->boot_id, "the boot");
}

/* Ten minutes, or three times as long as it is known to have been away before: so long it may have been at work. */
static void who_is_away_may_come_back(void **state) {
    (void)state;
    static const struct {
        unsigned away_s, longest_s;
        bool may;
    } jobs[] = {{20, 1, true}, {550, 1, true}, {650, 1, false}, {650, 250, true}, {850, 250, false}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct hung_job hung;
        struct job_end end;
        hung_away(&hung, jobs[i].away_s, jobs[i].longest_s, &end);
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, VERDICT_HANG);
        assert_int_equal(diagnosis->standing.kind, STANDING_LONG);
        assert_int_equal(diagnosis->culprits[0].absence.away_ns, jobs[i].away_s * 1000 * MS);
        assert_int_equal(diagnosis->culprits[0].absence.longest_ns, jobs[i].longest_s * 1000 * MS);
        assert_int_equal(diagnosis_severity(diagnosis), jobs[i].may ? SEVERITY_WARNING : SEVERITY_ERROR);
        assert_int_equal(hung_says(&hung, "a long pause"), jobs[i].may);
        assert_true(hung_says(&hung, "away from the library for"));
        hung_free(&hung);
    }
}

/* The same while it lives: what was seen to stand twice may be a rank at work all the same. */
static void who_is_away_now_may_come_back(void **state) {
    (void)state;
    static const struct {
        unsigned away_s, longest_s;
        bool may;
    } jobs[] = {{20, 1, true}, {550, 1, true}, {650, 1, false}, {650, 250, true}, {850, 250, false}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct hung_job hung;
        struct job_end end;
        hung_away(&hung, jobs[i].away_s, jobs[i].longest_s, &end);
        for (unsigned r = 0; r < 3; r++)
            hung.states[r] = PROCESS_RUNS;
        const struct moment now = {"the boot", end.monotonic_ns, 0};
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true, .now = &now});
        assert_int_equal(diagnosis->verdict, VERDICT_HANG);
        assert_int_equal(diagnosis->culprits[0].absence.away_ns, jobs[i].away_s * 1000 * MS);
        assert_int_equal(diagnosis_severity(diagnosis), jobs[i].may ? SEVERITY_WARNING : SEVERITY_ERROR);
        assert_int_equal(hung_says(&hung, "hang, or a long pause"), jobs[i].may);
        assert_int_equal(hung_says(&hung, "Look again later"), jobs[i].may);
        assert_true(hung_says(&hung, "by now"));
        hung_free(&hung);
    }
}

/* A process that a signal stopped does not come back by itself. */
static void who_is_stopped_does_not_come_back(void **state) {
    (void)state;
    struct hung_job hung;
    struct job_end end;
    hung_away(&hung, 20, 1, &end);
    hung.states[0] = hung.states[1] = PROCESS_RUNS;
    hung.states[2] = PROCESS_STOPPED;
    const struct moment now = {"the boot", end.monotonic_ns, 0};
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true, .now = &now});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis_severity(diagnosis), SEVERITY_ERROR);
    hung_free(&hung);
}

/* Whoever is in another call that waits for others, or in MPI_Finalize, is not away. */
static void who_is_elsewhere_in_the_library_does_not_come_back(void **state) {
    (void)state;
    for (int finalises = 0; finalises < 2; finalises++) {
        struct hung_job hung;
        struct job_end end;
        hung_away(&hung, 20, 1, &end);
        if (finalises) {
            dump_builder_header(hung.builders[2])->state |= STATE_FINALISING;
            dump_builder_header(hung.builders[2])->finalise_ticks = 2000001 * MS;
        } else {
            hung_enter(&hung, 2, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
        }
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, finalises ? VERDICT_HANG : VERDICT_DEADLOCK);
        assert_int_equal(diagnosis_severity(diagnosis), SEVERITY_ERROR);
        hung_free(&hung);
    }
}

static void a_job_that_was_seen_to_stand_needs_no_age(void **state) {
    (void)state;
    struct hung_job hung;
    hung_kill(&hung, 10, CALL_MS);
    for (unsigned r = 0; r < 3; r++)
        hung.states[r] = PROCESS_RUNS;
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->standing.kind, STANDING_NONE);
    assert_int_equal(diagnosis_severity(diagnosis), SEVERITY_ERROR);
    hung_free(&hung);
}

/* Rank 1 receives what rank 2 would send after the Allreduce that 0 and 2 are in, since HUNG_AT. */
static void hung_circle(struct hung_job *hung) {
    hung_kill(hung, 10, CALL_MS);
    for (unsigned r = 0; r < 3; r++)
        dump_builder_host(hung->builders[r], "host0", "the boot", 0);
    struct progress *first = dump_builder_contents(hung->builders[1], SECTION_PROGRESS, 0),
                    *second = dump_builder_contents(hung->builders[2], SECTION_PROGRESS, 0);
    second->enqueued = first->enqueued--;
    hung_enter(hung, 1, BUILDER_RECV, FLAG_RECV, 2, 77, 0);
    hung_enter(hung, 2, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, 11);
    hung->slots[1]->enter = hung->slots[2]->enter = HUNG_AT * MS;
}

/* However young it was a circle stays one; how long it stood is told where that is known. */
static void for_how_long_a_circle_stood(void **state) {
    (void)state;
    static const struct {
        unsigned end_ms; /* after HUNG_AT; 0: not noted */
        bool died;       /* rank 0 did, and the others went on for long */
        enum standing_kind kind;
        const char *said;
    } ends[] = {{500, false, STANDING_LONG, "when they ended, the oldest wait, MPI_"},
                {500, true, STANDING_LONG, "when the first of them ended, the oldest wait, MPI_"},
                {30, true, STANDING_BRIEF, "when the first of them ended, the oldest wait, MPI_"},
                {30, false, STANDING_BRIEF, "nobody is to blame"},
                {0, false, STANDING_UNTOLD, "nothing tells how long they went on"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct hung_job hung;
        struct job_end end = {.signal = ends[i].died ? 9 : -1,
                              .status = -1,
                              .dead_known = ends[i].died,
                              .sure = ends[i].died,
                              .monotonic_ns = (int64_t)((HUNG_AT + ends[i].end_ms) * MS)};
        hung_circle(&hung);
        strcpy(end.boot_id, "the boot");
        const struct diagnosis *diagnosis =
            hung_judge(&hung, (struct diagnose_request){.end = ends[i].end_ms ? &end : NULL});
        assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
        assert_int_equal(diagnosis_severity(diagnosis), SEVERITY_ERROR);
        assert_int_equal(diagnosis->standing.kind, ends[i].kind);
        assert_int_equal(diagnosis->standing.age_ns, ends[i].end_ms * MS);
        assert_int_equal(diagnosis->stood_before_death, ends[i].died);
        assert_true(hung_says(&hung, ends[i].said));
        assert_int_equal(hung_says(&hung, "nobody is to blame"), !ends[i].died && ends[i].end_ms < 500);
        hung_free(&hung);
    }
}

/* ---- killed one after the other -------------------------------------------------------------- */

/* Ranks 0 and 1 wait in an Allreduce since HUNG_AT for rank 2, which is in its own code; `dead` is noted as the first
 * that died, `after_ms` later. Returns who is blamed, -1 for nobody or several. */
static int blamed_when_killed(unsigned dead, unsigned after_ms, int number, int status, enum verdict *verdict) {
    struct hung_job hung;
    struct job_end end = {.dead_known = true,
                          .dead = dead,
                          .sure = true,
                          .signal = number,
                          .status = status,
                          .monotonic_ns = (int64_t)((HUNG_AT + after_ms) * MS)};
    hung_kill(&hung, 10, CALL_MS);
    for (unsigned r = 0; r < 3; r++)
        dump_builder_host(hung.builders[r], "host0", "the boot", 0);
    strcpy(end.boot_id, "the boot");
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.end = &end});
    int blamed = diagnosis->culprit_count == 1 ? (int)diagnosis->culprits[0].party : -1;
    *verdict = diagnosis->verdict;
    /* in its own code, it may have come */
    assert_int_equal(diagnosis_severity(diagnosis), *verdict == VERDICT_HANG ? SEVERITY_WARNING : SEVERITY_ERROR);
    bool said = false;
    for (size_t i = 0; i < hung.text.sentence_count; i++)
        said |= strstr(hung.text.sentences[i], "first process to end was that of rank") != NULL;
    assert_int_equal(said, diagnosis->stood_before_death);
    hung_free(&hung);
    return blamed;
}

static void what_stood_before_the_first_death_is_the_cause(void **state) {
    (void)state;
    enum verdict verdict;
    assert_int_equal(blamed_when_killed(0, 500, 9, -1, &verdict), 2);
    assert_int_equal(verdict, VERDICT_HANG);
    assert_int_equal(blamed_when_killed(1, 500, 11, -1, &verdict), 2); /* for a core dump, say */
    assert_int_equal(verdict, VERDICT_HANG);
    assert_int_equal(blamed_when_killed(2, 500, 9, -1, &verdict), 2);
    assert_int_equal(verdict, VERDICT_HANG);
}

static void a_death_at_work_is_the_cause(void **state) {
    (void)state;
    enum verdict verdict;
    assert_int_equal(blamed_when_killed(0, 30, 9, -1, &verdict), 0);
    assert_int_equal(verdict, VERDICT_DEAD_RANK);
    assert_int_equal(blamed_when_killed(1, 30, -1, 1, &verdict), 1);
    assert_int_equal(verdict, VERDICT_DEAD_RANK);
}

/* However long its work took for which the others wait: it came to an end of its own. */
static void who_is_waited_for_and_fails_is_dead(void **state) {
    (void)state;
    enum verdict verdict;
    assert_int_equal(blamed_when_killed(2, 500, 11, -1, &verdict), 2);
    assert_int_equal(verdict, VERDICT_DEAD_RANK);
    assert_int_equal(blamed_when_killed(2, 500, -1, 3, &verdict), 2);
    assert_int_equal(verdict, VERDICT_DEAD_RANK);
}

/* Rank r leaves by exit() so long after HUNG_AT; 0: it does not. */
static const struct diagnosis *hung_exit(struct hung_job *hung, const unsigned *after_ms) {
    hung_kill(hung, 10, CALL_MS);
    for (unsigned r = 0; r < 3; r++) {
        if (after_ms[r] == 0)
            continue;
        struct dump_header *header = dump_builder_header(hung->builders[r]);
        header->mpi_family = 1;
        header->state |= STATE_EXITED;
        header->exited_ticks = (HUNG_AT + after_ms[r]) * MS;
    }
    return hung_judge(hung, (struct diagnose_request){.settled = false});
}

/* A library that has lost its launcher gives up in the middle of a call, and in every process. */
static void exits_out_of_calls_are_no_cause(void **state) {
    (void)state;
    struct hung_job hung;
    const struct diagnosis *diagnosis = hung_exit(&hung, (unsigned[]){600, 610, 590});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 2);
    hung_free(&hung);
    diagnosis = hung_exit(&hung, (unsigned[]){600, 0, 0});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprits[0].party, 2);
    hung_free(&hung);
}

/* One that leaves alone is the cause, soon or late; others within a second are not alone. */
static void an_exit_of_ones_own_is_the_cause(void **state) {
    (void)state;
    static const struct {
        unsigned after_ms[3];
        enum verdict verdict;
    } exits[] = {{{0, 0, 30}, VERDICT_DEAD_RANK},
                 {{0, 0, 600}, VERDICT_DEAD_RANK},
                 {{2600, 0, 600}, VERDICT_DEAD_RANK},
                 {{2000, 0, 600}, VERDICT_DEAD_RANK},
                 {{1200, 0, 600}, VERDICT_HANG}};
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++) {
        struct hung_job hung;
        const struct diagnosis *diagnosis = hung_exit(&hung, exits[i].after_ms);
        assert_int_equal(diagnosis->verdict, exits[i].verdict);
        assert_int_equal(diagnosis->culprit_count, 1);
        assert_int_equal(diagnosis->culprits[0].party, 2);
        hung_free(&hung);
    }
}

/* Rank 0 dies on another host than those that wait, whose clocks are only so well together: a second is not enough. */
static void a_death_on_another_host(void **state) {
    (void)state;
    for (unsigned after_ms = 700; after_ms <= 1500; after_ms += 800) {
        struct hung_job hung;
        struct job_end end = {.dead_known = true, .sure = true, .signal = 9, .status = -1, .dead = 2};
        hung_kill(&hung, 10, CALL_MS);
        for (unsigned r = 0; r < 3; r++) { /* the monotonic clock of the second host began 50 s earlier */
            dump_builder_host(hung.builders[r], r < 2 ? "host0" : "host1", r < 2 ? "a boot" : "another", 0);
            dump_builder_anchor(hung.builders[r], 0, r < 2 ? 0 : 50000 * MS, 100000 * MS, 0);
        }
        strcpy(end.boot_id, "another");
        end.monotonic_ns = (int64_t)((50000 + HUNG_AT + after_ms) * MS);
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, after_ms > 1000 ? VERDICT_HANG : VERDICT_DEAD_RANK);
        hung_free(&hung);
    }
}

/* They wait in the first Allreduce, but have waited in Barriers before, a second longest of 20 ms. */
static void calls_of_other_kinds_are_compared_with(void **state) {
    (void)state;
    for (unsigned stood_ms = 800; stood_ms <= 1500; stood_ms += 700) {
        struct hung_job hung;
        struct job_end end = {.signal = -1, .status = -1, .monotonic_ns = (int64_t)((HUNG_AT + stood_ms) * MS)};
        hung_kill(&hung, 10, 0);
        for (unsigned r = 0; r < 3; r++) {
            struct operation_row *row = dump_builder_operation(hung.builders[r], 0);
            row->call = BUILDER_BARRIER;
            row->source = SOURCE_HOST;
            for (unsigned i = 0; i < 2; i++)
                dump_builder_count(row, 0, CALL_MS * MS);
            dump_builder_host(hung.builders[r], "host0", "the boot", 0);
        }
        strcpy(end.boot_id, "the boot");
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, VERDICT_HANG);
        assert_true(diagnosis->standing.unlike);
        assert_int_equal(diagnosis->standing.kind, stood_ms > 1000 ? STANDING_LONG : STANDING_UNTOLD);
        hung_free(&hung);
    }
}

/* Two ranks came out of MPI_Finalize, given up where the launcher was gone, to which one never came. Of that one
 * nothing is known where its recording had ended before. */
static void finalize_given_up(void **state) {
    (void)state;
    for (int off = 0; off < 2; off++) {
        struct hung_job hung;
        hung_make_living(&hung, 3);
        for (unsigned r = 0; r < 3; r++)
            hung.states[r] = PROCESS_GONE;
        for (unsigned r = 0; r < 2; r++) {
            struct dump_header *header = dump_builder_header(hung.builders[r]);
            header->mpi_family = 1;
            header->state |= STATE_FINALISING | STATE_FINALISED | STATE_EXITED;
            header->finalise_ticks = HUNG_AT * MS;
            header->finalised_ticks = header->exited_ticks = (HUNG_AT + 1300) * MS;
        }
        dump_builder_header(hung.builders[2])->state |= off ? STATE_SWITCHED_OFF : 0;
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = false});
        assert_int_equal(diagnosis->verdict, off ? VERDICT_OK : VERDICT_HANG);
        assert_int_equal(diagnosis->culprit_count, off ? 0 : 1);
        if (!off) {
            assert_int_equal(diagnosis->culprits[0].party, 2);
            assert_int_equal(diagnosis->standing.age_ns, 1300 * MS);
            assert_int_equal(diagnosis_severity(diagnosis), SEVERITY_WARNING);
        }
        hung_free(&hung);
    }
}

/* Ranks 0 and 1 are in MPI_Finalize; one of them is killed that much later. Ranks used to wait 20 ms in Barriers. */
static void a_death_in_finalize(void **state) {
    (void)state;
    for (unsigned stood_ms = 800; stood_ms <= 1500; stood_ms += 700) {
        struct hung_job hung;
        struct job_end end = {.dead_known = true, .sure = true, .signal = 9, .status = -1, .boot_id = "the boot"};
        end.monotonic_ns = (int64_t)((HUNG_AT + stood_ms) * MS);
        hung_make_living(&hung, 3);
        for (unsigned r = 0; r < 3; r++) {
            struct operation_row *row = dump_builder_operation(hung.builders[r], 0);
            row->call = BUILDER_BARRIER;
            row->source = SOURCE_HOST;
            for (unsigned i = 0; i < 2; i++)
                dump_builder_count(row, 0, CALL_MS * MS);
            dump_builder_host(hung.builders[r], "host0", "the boot", 0);
            hung.states[r] = PROCESS_GONE;
        }
        for (unsigned r = 0; r < 2; r++) {
            dump_builder_header(hung.builders[r])->state |= STATE_FINALISING;
            dump_builder_header(hung.builders[r])->finalise_ticks = HUNG_AT * MS;
        }
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.end = &end});
        assert_int_equal(diagnosis->verdict, stood_ms > 1000 ? VERDICT_HANG : VERDICT_DEAD_RANK);
        assert_int_equal(diagnosis->culprit_count, 1);
        assert_int_equal(diagnosis->culprits[0].party, stood_ms > 1000 ? 2 : 0);
        hung_free(&hung);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_killed_at_work),
        cmocka_unit_test(a_job_that_stood_before_it_was_killed),
        cmocka_unit_test(a_job_whose_end_is_not_known),
        cmocka_unit_test(a_first_collective_that_has_no_history),
        cmocka_unit_test(the_longest_call_is_left_out),
        cmocka_unit_test(a_wait_is_long_beyond_three_times_the_usual),
        cmocka_unit_test(ranks_that_share_processors_wait_for_these),
        cmocka_unit_test(a_gpus_memory_tells_when_the_job_ended),
        cmocka_unit_test(a_job_that_ended_at_work_without_a_trace),
        cmocka_unit_test(a_call_that_somebody_came_out_of_is_no_hang),
        cmocka_unit_test(who_is_away_may_come_back),
        cmocka_unit_test(who_is_away_now_may_come_back),
        cmocka_unit_test(who_is_stopped_does_not_come_back),
        cmocka_unit_test(who_is_elsewhere_in_the_library_does_not_come_back),
        cmocka_unit_test(a_job_that_was_seen_to_stand_needs_no_age),
        cmocka_unit_test(for_how_long_a_circle_stood),
        cmocka_unit_test(what_stood_before_the_first_death_is_the_cause),
        cmocka_unit_test(a_death_at_work_is_the_cause),
        cmocka_unit_test(who_is_waited_for_and_fails_is_dead),
        cmocka_unit_test(exits_out_of_calls_are_no_cause),
        cmocka_unit_test(an_exit_of_ones_own_is_the_cause),
        cmocka_unit_test(a_death_on_another_host),
        cmocka_unit_test(calls_of_other_kinds_are_compared_with),
        cmocka_unit_test(finalize_given_up),
        cmocka_unit_test(a_death_in_finalize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
