/* SPDX-License-Identifier: Apache-2.0
 *
 * Which job is chosen, how its ranks ended, and what is said about it.
 * Lives here: directories with several runs, worlds and generations; killed, hanging and missing ranks.
 * Must not live here: verdicts on speed (test_stragglers.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/findings/words.h"
#include "analyzer/job/crowding.h"
#include "analyzer/job/own_cost.h"
#include "analyzer/findings/findings.h"
#include "test/unit/job_builder.h"

enum { DUMPS_MAX = 12 };

/* A directory's dumps, in the order of a set. */
struct shelf {
    struct dump_builder *builders[DUMPS_MAX];
    struct dump *dumps[DUMPS_MAX];
    bool duplicate[DUMPS_MAX];
    size_t count;
    struct dump_set set;
};

struct shelf_item {
    const char *run;
    uint64_t world;
    uint32_t generation;
    int32_t rank, size;
    uint64_t started; /* seconds */
};

/* `from`, `ends`: seconds that the dump tells of, 0 = it tells of none. */
static void put_for(struct shelf *shelf, const struct shelf_item *item, uint64_t from, uint64_t ends) {
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = item->rank, .world_size = item->size});
    struct dump_header *header = dump_builder_header(builder);
    size_t bytes;
    memset(header->run_id, 0, sizeof header->run_id);
    strcpy(header->run_id, item->run);
    header->world_id = item->world;
    header->generation = item->generation;
    header->process_start_realtime_ns = item->started * 1000000000;
    if (from > 0) {
        header->activated_ticks = from * 1000000000;
        header->exited_ticks = ends * 1000000000;
        header->state |= STATE_EXITED;
    }
    dump_builder_standard_calls(builder);
    dump_builder_anchor(builder, 1, 1, 1, 0);
    const void *data = dump_builder_data(builder, &bytes);
    shelf->builders[shelf->count] = builder;
    shelf->dumps[shelf->count++] = dump_open_buffer("shelf", data, bytes);
    shelf->set = (struct dump_set){
        .directory = (char *)"shelf", .dumps = shelf->dumps, .count = shelf->count, .duplicate = shelf->duplicate};
}

static void put(struct shelf *shelf, const struct shelf_item *item) {
    put_for(shelf, item, 0, 0);
}

static void clear(struct shelf *shelf) {
    for (size_t i = 0; i < shelf->count; i++) {
        dump_close(shelf->dumps[i]);
        dump_builder_free(shelf->builders[i]);
    }
}

static void the_newest_run_and_generation_is_chosen(void **state) {
    (void)state;
    static const struct shelf_item items[] = {
        {"a", 1, 0, 0, 2, 100}, {"a", 1, 0, 1, 2, 100}, /* an old run whose name sorts first */
        {"b", 2, 0, 0, 2, 200}, {"b", 2, 0, 1, 2, 200}, /* the newest run, before its restart */
        {"b", 3, 1, 0, 1, 300},                         /* ... and after it, one rank fewer */
        {"c", 4, 0, 0, 4, 150},
    };
    struct shelf shelf = {0};
    struct job job;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        put(&shelf, &items[i]);
    assert_int_equal(job_select(&job, &shelf.set, NULL, NULL), 0);
    assert_string_equal(job.dumps[0]->run_id, "b");
    assert_int_equal(job.count, 1);
    assert_int_equal(job.dumps[0]->header->generation, 1);
    assert_int_equal(job.runs, 3);
    assert_int_equal(job.generations, 2);
    assert_int_equal(job.worlds, 1);
    assert_int_equal(job.others, 5);
    job_free(&job);
    assert_int_equal(job_select(&job, &shelf.set, "a", NULL), 0);
    assert_int_equal(job.count, 2);
    assert_int_equal(job.generations, 1);
    job_free(&job);
    assert_int_equal(job_select(&job, &shelf.set, "nothing", NULL), -1);
    job_free(&job);
    clear(&shelf);
}

/* A launcher's restart count is taken; where members change without one, or launches follow each other, they count. */
static void starts_of_a_run_are_numbered(void **state) {
    (void)state;
    static const struct {
        struct shelf_item item;
        uint64_t from, ends;
    } starts[] = {
        {{"b", 1, 0, 0, 2, 100}, 100, 200},
        {{"b", 1, 0, 1, 2, 100}, 100, 210}, /* the first start */
        {{"b", 2, 1, 0, 1, 250}, 250, 300}, /* restarted with one rank */
        {{"b", 3, 1, 0, 2, 400}, 400, 500},
        {{"b", 3, 1, 1, 2, 400}, 401, 500}, /* grown again, and no restart counted */
        {{"c", 4, 2, 0, 1, 100}, 100, 200}, /* its first two starts are not here */
    };
    static const struct {
        unsigned generation;
        int64_t gap_seconds;
    } expected[] = {{0, -1}, {1, 40}, {2, 100}, {2, -1}};
    struct shelf shelf = {0};
    struct job job;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        put_for(&shelf, &starts[i].item, starts[i].from, starts[i].ends);
    assert_int_equal(job_select(&job, &shelf.set, "b", NULL), 0);
    const struct listed_job *listed = job.list.items;
    assert_int_equal(job.list.count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < job.list.count; i++) {
        assert_int_equal(listed[i].generation, expected[i].generation);
        assert_int_equal(listed[i].gap_ns, expected[i].gap_seconds < 0 ? -1 : expected[i].gap_seconds * 1000000000);
    }
    assert_ptr_equal(job_list_generation(&job.list, &shelf.set, &listed[0], 2), &listed[2]);
    assert_null(job_list_generation(&job.list, &shelf.set, &listed[0], 3));
    assert_ptr_equal(job_list_before(&job.list, &shelf.set, &listed[2]), &listed[1]);
    assert_null(job_list_before(&job.list, &shelf.set, &listed[0]));
    assert_null(job_list_before(&job.list, &shelf.set, &listed[3]));
    job_free(&job);
    clear(&shelf);
}

/* Each start of a requeued batch job has a run id of its own, and the batch system's restart count. */
static void starts_of_a_requeued_job_are_numbered(void **state) {
    (void)state;
    static const struct {
        struct shelf_item item;
        uint64_t from, ends;
        const char *job_id, *launcher;
    } starts[] = {
        {{"a", 1, 2, 0, 2, 600}, 600, 700, "77", "Open MPI"}, /* requeued twice */
        {{"b", 2, 0, 0, 4, 100}, 100, 150, "77", "Open MPI"},
        {{"b", 3, 0, 0, 4, 160}, 160, 200, "77", "Open MPI"}, /* two programs one after the other */
        {{"c", 4, 1, 0, 3, 300}, 300, 400, "77", "Open MPI"},
        {{"d", 5, 1, 0, 1, 100}, 100, 200, "78", "Open MPI"}, /* another job */
        {{"e", 6, 0, 0, 1, 100}, 100, 200, "79", "torchrun"},
        {{"f", 7, 1, 0, 1, 300}, 300, 400, "79", "torchrun"}, /* two of torchrun's, of which one was restarted */
    };
    static const struct {
        unsigned generation;
        int64_t gap_seconds;
        int before;
    } expected[] = {{3, 200, 3}, {0, -1, -1}, {1, 10, 1}, {2, 100, 2}, {1, -1, -1}, {0, -1, -1}, {1, -1, -1}};
    struct shelf shelf = {0};
    struct job job;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        put_for(&shelf, &starts[i].item, starts[i].from, starts[i].ends);
        struct dump *dump = shelf.dumps[i];
        dump->job_id = starts[i].job_id;
        dump->launcher = starts[i].launcher;
    }
    assert_int_equal(job_select(&job, &shelf.set, "a", NULL), 0);
    const struct listed_job *listed = job.list.items;
    assert_int_equal(job.list.count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < job.list.count; i++) {
        assert_int_equal(listed[i].generation, expected[i].generation);
        assert_int_equal(listed[i].gap_ns, expected[i].gap_seconds < 0 ? -1 : expected[i].gap_seconds * 1000000000);
        assert_ptr_equal(job_list_before(&job.list, &shelf.set, &listed[i]),
                         expected[i].before < 0 ? NULL : &listed[expected[i].before]);
    }
    assert_ptr_equal(job_list_generation(&job.list, &shelf.set, &listed[0], 1), &listed[2]);
    job_free(&job);
    clear(&shelf);
}

static void of_programs_side_by_side_the_largest_is_chosen(void **state) {
    (void)state;
    static const struct shelf_item items[] = {
        {"a", 5, 0, 0, 1, 300}, {"a", 7, 0, 0, 2, 100}, {"a", 7, 0, 1, 2, 100}, {"a", 9, 0, 0, 1, 200}};
    struct shelf shelf = {0};
    struct job job;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        put(&shelf, &items[i]);
    assert_int_equal(job_select(&job, &shelf.set, NULL, NULL), 0);
    assert_int_equal(job.count, 2);
    assert_int_equal(job.worlds, 3);
    job_free(&job);
    clear(&shelf);
}

/* A rank on a host, and the processors it may use. */
static void put_bound(struct shelf *shelf, int32_t rank, const char *boot_id, uint64_t processors) {
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = rank, .world_size = 8});
    struct dump_header *header = dump_builder_header(builder);
    size_t bytes;
    snprintf(header->boot_id, sizeof header->boot_id, "%s", boot_id);
    header->cpus[0] = processors;
    dump_builder_standard_calls(builder);
    const void *data = dump_builder_data(builder, &bytes);
    shelf->builders[shelf->count] = builder;
    shelf->dumps[shelf->count++] = dump_open_buffer("shelf", data, bytes);
}

/* Ranks that are no more than their processors share none, one more do. */
static void ranks_are_crowded_from_one_more_than_processors_on(void **state) {
    (void)state;
    static const struct {
        uint64_t masks[6]; /* of the ranks, half of them on each of `hosts` */
        size_t count, hosts, ranks, processors;
    } cases[] = {
        {{3, 3}, 2, 1, 0, 0},       {{3, 3, 3}, 3, 1, 3, 2},
        {{1, 2, 4, 8}, 4, 1, 0, 0}, {{1, 1, 4, 8}, 4, 1, 2, 1}, /* two bound to one of many */
        {{3, 3, 3, 3}, 4, 2, 0, 0}, {{3, 3, 3, 3, 3, 3}, 6, 2, 3, 2},
        {{0, 0, 0}, 3, 1, 0, 0}, /* older dumps do not tell */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct shelf shelf = {0};
        struct crowding crowding;
        for (size_t i = 0; i < cases[c].count; i++)
            put_bound(&shelf, (int32_t)i, i * cases[c].hosts / cases[c].count ? "b" : "a", cases[c].masks[i]);
        assert_int_equal(crowding_find(shelf.dumps, shelf.count, &crowding), cases[c].ranks > 0);
        if (cases[c].ranks > 0) {
            assert_int_equal(crowding.ranks, cases[c].ranks);
            assert_int_equal(crowding.processors, cases[c].processors);
        }
        clear(&shelf);
    }
}

static void a_time_that_is_there_is_never_said_to_be_none(void **state) {
    (void)state;
    static const struct {
        int64_t ns;
        const char *said;
    } cases[] = {{1, "1 ns"}, {499, "499 ns"}, {999, "999 ns"}, {1000, "1 us"}, {2499, "2 us"}, {1500000, "1.5 ms"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        say_seconds(text, sizeof text, cases[i].ns);
        assert_string_equal(text, cases[i].said);
    }
}

static void missing_ranks_and_duplicates_are_noticed(void **state) {
    (void)state;
    static const struct shelf_item items[] = {
        {"a", 1, 0, 0, 6, 1}, {"a", 1, 0, 2, 6, 1}, {"a", 1, 0, 2, 6, 1}, {"a", 1, 0, 5, 6, 1}};
    struct shelf shelf = {0};
    struct job job;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        put(&shelf, &items[i]);
    shelf.duplicate[2] = true;
    assert_int_equal(job_select(&job, &shelf.set, NULL, NULL), 0);
    assert_int_equal(job.count, 3);
    assert_int_equal(job.duplicates, 1);
    assert_int_equal(job.ranks_expected, 6);
    assert_int_equal(job.missing_count, 3);
    assert_int_equal(job.missing[0], 1);
    assert_int_equal(job.missing[2], 4);
    job_free(&job);
    clear(&shelf);
}

/* ---- endings --------------------------------------------------------------------------------- */

/* A hand-made world with everything behind it. */
struct told {
    struct hand_job hand;
    struct dump_set set;
    bool duplicate[HAND_RANKS_MAX];
    struct job job;
    struct straggler_analysis analysis;
    struct findings findings;
};

static bool always(const struct dump *dump) {
    (void)dump;
    return true;
}

static void tell(struct told *told, unsigned with_dump, bool alive) {
    hand_job_open(&told->hand, with_dump);
    told->set = (struct dump_set){
        .directory = (char *)"hand", .dumps = told->hand.dumps, .count = with_dump, .duplicate = told->duplicate};
    assert_int_equal(job_select(&told->job, &told->set, NULL, alive ? always : NULL), 0);
    assert_true(straggler_analyse(&told->analysis, &told->hand.clock, &told->hand.directory,
                                  &(struct straggler_request){.workers = 1}));
    findings_collect(&told->findings, &told->set, &told->job, &told->analysis);
    assert_false(told->findings.no_memory);
}

static void forget(struct told *told) {
    findings_free(&told->findings);
    straggler_analysis_free(&told->analysis);
    job_free(&told->job);
    hand_job_free(&told->hand);
}

static const char *text_of(const struct told *told, const char *code) {
    for (size_t i = 0; i < told->findings.count; i++)
        if (strcmp(told->findings.items[i].code, code) == 0)
            return told->findings.items[i].text;
    fail_msg("no finding '%s'", code);
    return "";
}

#define assert_says(TOLD, CODE, PART) assert_non_null(strstr(text_of(TOLD, CODE), PART))

/* Ranks 0, 1 and 3 wait in barrier #57 since 2 s; rank 2 is elsewhere since 1 s. */
static void make_hang(struct told *told) {
    hand_job_make(&told->hand, 4, (struct dump_plan){0});
    for (unsigned r = 0; r < 4; r++) {
        struct dump_builder *builder = told->hand.builders[r];
        struct in_flight *slot = dump_builder_in_flight(builder);
        dump_builder_header(builder)->activated_ticks = 1;
        dump_builder_progress(builder, 0)->enqueued = r == 2 ? 57 : 58;
        slot->last_leave = 1000000000;
        if (r == 2)
            continue;
        slot->comm = 0;
        slot->seq = 57;
        slot->flags = FLAG_COLLECTIVE;
        slot->enter = 2000000000;
        slot->call = BUILDER_BARRIER;
    }
}

/* Four bytes of a header must not become a gigabyte of missing ranks. */
static void a_world_of_which_nearly_nothing_is_here_is_not_believed(void **state) {
    (void)state;
    static const struct {
        int32_t claimed, believed;
        size_t missing;
    } worlds[] = {{1 << 20, 1 << 20, (1 << 20) - 1}, {(1 << 20) + 2, 0, 0}, {1 << 24, 0, 0}, {INT32_MAX, 0, 0}};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        struct shelf shelf = {0};
        struct job job;
        put(&shelf, &(struct shelf_item){"run", 1, 0, 0, worlds[i].claimed, 100});
        assert_int_equal(job_select(&job, &shelf.set, NULL, NULL), 0);
        assert_int_equal(job.ranks_expected, worlds[i].believed);
        assert_int_equal(job.missing_count, worlds[i].missing);
        job_free(&job);
        clear(&shelf);
    }
}

static void a_killed_job_says_what_everybody_did(void **state) {
    (void)state;
    struct told told = {0};
    make_hang(&told);
    tell(&told, 4, false);
    assert_int_equal(told.job.ends[0], END_KILLED);
    assert_int_equal(told.findings.items[0].severity, SEVERITY_ERROR);
    assert_says(&told, "killed", "ranks 0-3");
    assert_says(&told, "killed", "ranks 0, 1, 3 were inside MPI_Barrier #57 on MPI_COMM_WORLD, entered 2.0 s");
    assert_says(&told, "killed", "which rank 2 never entered");
    assert_says(&told, "killed", "rank 2 was in its own code since 1.0 s");
    forget(&told);
}

static void a_live_job_is_running(void **state) {
    (void)state;
    struct told told = {0};
    make_hang(&told);
    tell(&told, 4, true);
    assert_int_equal(told.job.ends[0], END_RUNNING);
    assert_says(&told, "running", "still running");
    forget(&told);
}

static void every_end_is_told_apart(void **state) {
    (void)state;
    static const struct {
        uint32_t state;
        enum rank_end end;
    } cases[] = {
        {STATE_ACTIVE, END_IN_INIT},
        {STATE_ACTIVE | STATE_INITIALISED | STATE_FINALISING | STATE_FINALISED | STATE_EXITED, END_FINALISED},
        {STATE_ACTIVE | STATE_INITIALISED | STATE_FINALISING | STATE_FINALISED, END_FINALISED},
        {STATE_ACTIVE | STATE_INITIALISED | STATE_FINALISING, END_IN_FINALIZE},
        {STATE_ACTIVE | STATE_INITIALISED | STATE_EXITED, END_EXITED},
        {STATE_ACTIVE | STATE_INITIALISED | STATE_ABORTING, END_ABORTED},
        {STATE_ACTIVE | STATE_INITIALISED, END_KILLED},
        {STATE_ACTIVE | STATE_INITIALISED, END_UNTOLD},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    struct told told = {0};
    hand_job_make(&told.hand, CASES, (struct dump_plan){0});
    for (unsigned r = 0; r < CASES; r++)
        dump_builder_header(told.hand.builders[r])->state = cases[r].state;
    dump_builder_header(told.hand.builders[CASES - 1])->pid = 0; /* imported */
    tell(&told, CASES, false);
    for (unsigned r = 0; r < CASES; r++)
        assert_int_equal(told.job.ends[r], cases[r].end);
    assert_says(&told, "hang_init", "rank 0 never returned from MPI_Init");
    assert_says(&told, "aborted", "rank 5 called MPI_Abort");
    assert_says(&told, "no_finalize", "rank 4 exited without MPI_Finalize");
    assert_says(&told, "killed", "rank 6 was killed");
    forget(&told);
}

static void who_left_no_dump_is_said(void **state) {
    (void)state;
    struct told told = {0};
    struct dump_stub stub = {.host = "node7", .staged_path = (char *)"/dev/shm/x.ct", .rank = 2};
    hand_job_make(&told.hand, 4, (struct dump_plan){0});
    hand_job_open(&told.hand, 2);
    char path[128];
    snprintf(path, sizeof path, "hand/commtap.%s.00000000000000cc.stub", told.hand.dumps[0]->run_id);
    stub.path = path;
    told.set = (struct dump_set){.directory = (char *)"hand",
                                 .dumps = told.hand.dumps,
                                 .count = 2,
                                 .stubs = &stub,
                                 .stub_count = 1,
                                 .duplicate = told.duplicate};
    assert_int_equal(job_select(&told.job, &told.set, NULL, NULL), 0);
    assert_true(straggler_analyse(&told.analysis, &told.hand.clock, &told.hand.directory,
                                  &(struct straggler_request){.workers = 1}));
    findings_collect(&told.findings, &told.set, &told.job, &told.analysis);
    assert_says(&told, "missing_ranks", "ranks 2, 3 left no dump here (4 expected, 2 seen)");
    assert_says(&told, "uncollected", "node7:/dev/shm/x.ct");
    assert_ptr_equal(told.job.missing_stubs[0], &stub);
    assert_null(told.job.missing_stubs[1]);
    job_free(&told.job);
    stub.path = (char *)"hand/commtap.another.00000000000000cc.stub";
    assert_int_equal(job_select(&told.job, &told.set, NULL, NULL), 0);
    assert_null(told.job.missing_stubs[0]);
    forget(&told);
}

static const struct finding *find(const struct told *told, const char *code) {
    for (size_t i = 0; i < told->findings.count; i++)
        if (strcmp(told->findings.items[i].code, code) == 0)
            return &told->findings.items[i];
    fail_msg("no finding '%s'", code);
    return NULL;
}

/* Forty collectives on rank 0, the first 40 - `missing` of them on rank 1: of 80 - `missing` records, 80 - 2 `missing`
 * are matched. */
static bool is_unmatched_said(uint32_t missing) {
    struct told told = {0};
    hand_job_make(&told.hand, 2, (struct dump_plan){0});
    for (uint32_t seq = 0; seq < 40; seq++)
        for (unsigned r = 0; r < 2; r++)
            if (r == 0 || seq < 40 - missing)
                dump_builder_collective(told.hand.builders[r], 0, BUILDER_ALLREDUCE, 0, seq, 8, 1000 * (seq + 1) + r,
                                        1000 * (seq + 1) + 500);
    tell(&told, 2, false);
    bool said = false;
    for (size_t i = 0; i < told.findings.count; i++)
        said |= strcmp(told.findings.items[i].code, "unmatched") == 0;
    forget(&told);
    return said;
}

static void a_tenth_of_the_collectives_unmatched_is_said(void **state) {
    (void)state;
    assert_false(is_unmatched_said(7)); /* 9.6 % */
    assert_true(is_unmatched_said(8));  /* 11 % */
}

/* Forty collectives so many ms apart; to the first `times` of every fourth rank 1 comes late by so many ms. Returns
 * what is said to be how often it was away. */
static unsigned times_away(unsigned apart_ms, unsigned late_ms, unsigned times) {
    const uint64_t ms = 1000000;
    struct told told = {0};
    uint64_t now = 1000 * ms;
    hand_job_make(&told.hand, 2, (struct dump_plan){0});
    for (uint32_t seq = 0; seq < 40; seq++, now += apart_ms * ms) {
        uint64_t late = seq % 4 == 3 && seq / 4 < times ? late_ms * ms : 0;
        for (unsigned r = 0; r < 2; r++)
            dump_builder_collective(told.hand.builders[r], 0, BUILDER_ALLREDUCE, 0, seq, 8, now + r * late,
                                    now + late + 1000);
        now += late;
    }
    tell(&told, 2, false);
    unsigned said = 0, named = 0;
    for (size_t i = 0; i < told.findings.count; i++) {
        const char *code = told.findings.items[i].code, *text = told.findings.items[i].text;
        if (strcmp(code, "once_away") == 0)
            said += strstr(text, "rank 1 was away once: rank 0 waited") != NULL;
        if (strcmp(code, "few_pauses") == 0)
            assert_int_equal(sscanf(text, "rank 1 was away %u times: ", &said), 1);
        named += strcmp(code, "straggler") == 0 || strcmp(code, "suspect") == 0;
    }
    assert_true(said == 0 || named == 0);
    assert_string_equal(findings_nobody(&told.findings), said > 0 ? "but for that, nobody" : "nobody");
    forget(&told);
    return said;
}

static bool is_away_once(unsigned apart_ms, unsigned late_ms, unsigned times) {
    return times_away(apart_ms, late_ms, times) == 1;
}

/* A twentieth of the run at least, a tenth of a second at least, and most of what is lost by that rank. */
static void a_single_long_wait_is_said(void **state) {
    (void)state;
    assert_true(is_away_once(50, 240, 1));   /* 10.9 % */
    assert_false(is_away_once(50, 52, 1));   /* 2.6 %, and half of a tenth of a second */
    assert_true(is_away_once(500, 2000, 1)); /* 9.3 % */
    assert_false(is_away_once(500, 500, 1)); /* 2.5 % */
    assert_true(is_away_once(5, 200, 1));
    assert_false(is_away_once(5, 50, 1)); /* 20 %, but half of a tenth of a second */
    assert_false(is_away_once(50, 0, 0));
}

/* A tenth of a second each at least, and all together a twentieth of the run. Of two ranks seven may be more than
 * chance. */
static void a_few_long_waits_are_counted(void **state) {
    (void)state;
    for (unsigned times = 2; times <= 6; times++)
        assert_int_equal(times_away(50, 240, times), times);
    assert_int_equal(times_away(50, 90, 4), 0);    /* 15 % */
    assert_int_equal(times_away(500, 600, 2), 2);  /* 5.7 % */
    assert_int_equal(times_away(1000, 600, 2), 0); /* 2.9 % */
}

static bool is_said(const struct told *told, const char *code) {
    for (size_t i = 0; i < told->findings.count; i++)
        if (strcmp(told->findings.items[i].code, code) == 0)
            return true;
    return false;
}

/* Rank 0 works 10 ms before each collective and receives what three workers send it behind it; these work 20 ms, and
 * the last one as given. */
static void tell_of_uneven_workers(struct told *told, unsigned last_ms) {
    const uint64_t ms = 1000000;
    hand_job_make(&told->hand, 4, (struct dump_plan){.ring_records = 1024});
    for (uint32_t step = 0; step < 40; step++) {
        const uint64_t began = (1000 + 60 * step) * ms, work[] = {10, 20, 20, last_ms};
        for (unsigned r = 0; r < 4; r++)
            dump_builder_collective(told->hand.builders[r], 0, BUILDER_ALLREDUCE, 0, step, 8, began + work[r] * ms,
                                    began + 50 * ms);
        for (unsigned r = 1; r < 4; r++) {
            uint64_t at = began + (50 + r) * ms;
            dump_builder_p2p(told->hand.builders[r], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 5, step, 8, at, at + 1000);
            dump_builder_p2p(told->hand.builders[0], 0, BUILDER_RECV, 0, FLAG_RECV, (int32_t)r, 5, step, 8, at,
                             at + 2000);
        }
    }
    tell(told, 4, false);
}

/* Of workers that all have more to do one may be slow beside the others, too: then it is not said that none is. */
static void a_group_with_a_slow_member_is_not_said_to_be_even(void **state) {
    (void)state;
    struct told told = {0};
    tell_of_uneven_workers(&told, 20);
    assert_non_null(strstr(text_of(&told, "uneven"), "None of them is slower than its peers."));
    assert_false(is_said(&told, "straggler"));
    forget(&told);
    tell_of_uneven_workers(&told, 40);
    assert_true(is_said(&told, "straggler"));
    const char *uneven = text_of(&told, "uneven");
    assert_null(strstr(uneven, "None of them is slower than its peers."));
    assert_non_null(strstr(uneven, "takes 30.1 ms")); /* the median of the three, with 10 of each step behind it */
    forget(&told);
}

/* Three ranks; in one of forty pairs of collectives two of them do not come out of the first one for two seconds, as
 * where one is stopped in it and keeps the other: they come late to the second one, and not by work of their own. */
static void who_was_kept_in_a_call_was_not_away(void **state) {
    (void)state;
    const uint64_t ms = 1000000;
    for (unsigned between_us = 0; between_us <= 900; between_us += 300) {
        struct told told = {0};
        uint64_t now = 1000 * ms;
        hand_job_make(&told.hand, 3, (struct dump_plan){0});
        for (uint32_t pair = 0; pair < 40; pair++, now += 20 * ms) {
            uint64_t kept = pair == 20 ? 2000 * ms : 0, between = between_us * 1000;
            for (unsigned r = 0; r < 3; r++) {
                uint64_t leave = now + ms + (r < 2 ? kept : 0);
                dump_builder_collective(told.hand.builders[r], 0, BUILDER_ALLREDUCE, 0, 2 * pair, 8, now, leave);
                dump_builder_collective(told.hand.builders[r], 0, BUILDER_ALLREDUCE, 0, 2 * pair + 1, 8,
                                        leave + between + r, now + kept + 2 * ms + between);
            }
            now += kept;
        }
        tell(&told, 3, false);
        for (size_t i = 0; i < told.findings.count; i++)
            if (strcmp(told.findings.items[i].code, "once_away") == 0)
                fail_msg("%s", told.findings.items[i].text);
        forget(&told);
    }
}

/* Forty collectives of which the ring holds sixteen; rank 1 makes another call in the last. */
static void make_overwritten(struct told *told, uint32_t windows) {
    hand_job_make(&told->hand, 2, (struct dump_plan){.ring_records = 16, .windows = windows});
    for (unsigned r = 0; r < 2; r++)
        dump_builder_header(told->hand.builders[r])->activated_ticks = 500;
    for (uint32_t seq = 0; seq < 40; seq++)
        for (unsigned r = 0; r < 2; r++)
            dump_builder_collective(told->hand.builders[r], 0,
                                    r == 1 && seq == 39 ? BUILDER_BARRIER : BUILDER_ALLREDUCE, 0, seq, 8,
                                    1000 * (seq + 1) + r, 1000 * (seq + 1) + 500);
}

static void every_finding_says_what_it_was_judged_on(void **state) {
    (void)state;
    struct told told = {0};
    make_overwritten(&told, 0);
    tell(&told, 2, false);
    assert_int_equal(told.findings.coverage.events, 80);
    assert_int_equal(told.findings.coverage.events_seen, 32);
    assert_int_equal(told.findings.coverage.kept, KEPT_LAST);
    assert_true(told.findings.coverage.known);
    assert_int_equal(told.findings.coverage.from_ns, 25500 - 500); /* the end of number 24, the first that is left */
    assert_int_equal(told.findings.coverage.to_ns, 40500 - 500);
    assert_int_equal(find(&told, "desync")->evidence, EVIDENCE_EVENTS);
    assert_says(&told, "desync", "(From the last 40 % of the events.)");
    /* where processes stood and what totals say does not depend on what was overwritten */
    assert_int_equal(find(&told, "killed")->evidence, EVIDENCE_STATE);
    assert_int_equal(find(&told, "events_lost")->evidence, EVIDENCE_TOTALS);
    assert_null(strstr(text_of(&told, "killed"), "of the events.)"));
    assert_null(strstr(text_of(&told, "events_lost"), "of the events.)"));
    forget(&told);
}

static bool has(const struct told *told, const char *code) {
    for (size_t i = 0; i < told->findings.count; i++)
        if (strcmp(told->findings.items[i].code, code) == 0)
            return true;
    return false;
}

/* Of a job of a second of which commtap took so many milliseconds on rank 1, where 10 are allowed. */
static void more_than_a_fifth_over_the_budget_is_said(void **state) {
    (void)state;
    static const struct {
        uint64_t ms;
        const char *says;
    } cases[] = {
        {9, NULL}, {11, NULL}, {13, "commtap took 1.3 % of the time of rank 1, where COMMTAP_BUDGET allows 1 %"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct told told = {0};
        make_overwritten(&told, 0);
        for (unsigned r = 0; r < 2; r++) {
            struct dump_header *header = dump_builder_header(told.hand.builders[r]);
            header->activated_ticks = 1;
            header->exited_ticks = 1000000001;
            header->own_cost = (struct own_cost){.samples = 100,
                                                 .calls = 100000,
                                                 .ticks = r == 1 ? cases[i].ms * 1000000 : 1000000,
                                                 .budget_millionths = 10000};
        }
        tell(&told, 2, false);
        if (cases[i].says)
            assert_says(&told, "over_budget", cases[i].says);
        else
            assert_false(has(&told, "over_budget"));
        assert_false(has(&told, "left_out"));
        forget(&told);
    }
}

/* What was left out, in words; what a damaged dump says of itself is not believed. */
static void what_the_budget_left_out_is_said(void **state) {
    (void)state;
    struct told told = {0};
    make_overwritten(&told, 0);
    struct dump_header *header = dump_builder_header(told.hand.builders[0]);
    header->activated_ticks = 1;
    header->exited_ticks = 1000000001;
    header->own_cost = (struct own_cost){.samples = 100,
                                         .calls = 100000,
                                         .ticks = 10000000,
                                         .budget_millionths = 10000,
                                         .shed[SHED_STACKS] = {.times = 3, .ticks = 500000000},
                                         .shed[SHED_RECORDS] = {.times = 1, .since = 900000001}};
    dump_builder_header(told.hand.builders[1])->own_cost =
        (struct own_cost){.samples = UINT64_MAX, .calls = 1, .ticks = UINT64_MAX, .budget_millionths = UINT32_MAX};
    tell(&told, 2, false);
    assert_says(&told, "left_out",
                "1 % of the time, some of the recording was left out at times: stacks on 1 rank (calls have no call "
                "site), records on 1 rank (calls are in totals alone)");
    assert_false(has(&told, "over_budget"));
    struct own_cost_sums sums = own_cost_sum(&told.job);
    assert_int_equal(sums.ranks, 1);
    assert_int_equal(sums.shed[SHED_STACKS].times, 3);
    assert_int_equal(sums.shed[SHED_STACKS].ns, 500000000);
    assert_in_range(sums.shed[SHED_RECORDS].ns, 100000000, 100000001);
    forget(&told);
}

static void what_is_in_no_total_is_said(void **state) {
    (void)state;
    static const struct {
        uint64_t calls, tables, refusals;
        const char *says;
    } cases[] = {
        {7, 0, 0, "7 calls are in no total: their tables found no room"},
        {7, 0, 3, "7 calls are in no total: COMMTAP_QUOTA or COMMTAP_NODE_QUOTA left no room."},
        {0, 2, 0, "what 2 tables held is in no total: "},
        {7, 1, 0, "7 calls and what 1 table held are in no total: "},
        {0, 0, 3, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct told told = {0};
        make_overwritten(&told, 0);
        dump_builder_lane(told.hand.builders[1], 0)->operations_lost = cases[i].calls;
        dump_builder_header(told.hand.builders[0])->losses.tables_in_memory = cases[i].tables;
        dump_builder_header(told.hand.builders[0])->losses.quota_refusals = cases[i].refusals;
        tell(&told, 2, false);
        if (cases[i].says)
            assert_says(&told, "totals_incomplete", cases[i].says);
        for (size_t f = 0; f < told.findings.count && !cases[i].says; f++)
            assert_string_not_equal(told.findings.items[f].code, "totals_incomplete");
        assert_says(&told, "events_lost",
                    cases[i].refusals > 0 ? "(COMMTAP_QUOTA or COMMTAP_NODE_QUOTA allows no more)"
                                          : "(COMMTAP_RING holds more)");
        bool all = strstr(text_of(&told, "events_lost"), "totals do not depend") != NULL;
        assert_int_equal(all, cases[i].says == NULL);
        forget(&told);
    }
}

static void samples_of_the_past_are_told_from_the_end(void **state) {
    (void)state;
    struct told told = {0};
    make_overwritten(&told, 1);
    for (unsigned r = 0; r < 2; r++) {
        struct trace_window_block *block = dump_builder_window(told.hand.builders[r], 0, 0);
        for (uint64_t ticket = 2; ticket < 10; ticket++)
            block->records[block->used++] = (struct record){.commit = ticket + 1,
                                                            .kind = RECORD_CALL,
                                                            .flags = FLAG_COLLECTIVE,
                                                            .call = BUILDER_ALLREDUCE,
                                                            .seq = (uint32_t)ticket,
                                                            .bytes = 8,
                                                            .t0 = 1000 * (ticket + 1) + r,
                                                            .t1 = 1000 * (ticket + 1) + 500};
    }
    tell(&told, 2, false);
    assert_int_equal(told.findings.coverage.events_seen, 2 * (16 + 8));
    assert_int_equal(told.findings.coverage.kept, KEPT_SAMPLES);
    assert_says(&told, "desync", "(From 60 % of the events: the last, and samples of what was before.)");
    forget(&told);
}

static void what_was_judged_on_everything_need_not_say_so(void **state) {
    (void)state;
    struct told told = {0};
    hand_job_make(&told.hand, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++)
        dump_builder_collective(told.hand.builders[r], 0, r ? BUILDER_BCAST : BUILDER_ALLREDUCE, 0, 9, 8, 100, 200);
    tell(&told, 2, false);
    assert_int_equal(told.findings.coverage.kept, KEPT_ALL);
    assert_null(strstr(text_of(&told, "desync"), "of the events"));
    /* what a diagnosis says is of how the processes stand, whatever was overwritten */
    told.findings.coverage.kept = KEPT_LAST;
    findings_put_first(&told.findings, FINDING_DESYNC, "first of all");
    assert_string_equal(told.findings.items[0].text, "first of all");
    assert_int_equal(told.findings.items[0].evidence, EVIDENCE_STATE);
    forget(&told);
}

static void a_disagreement_is_an_error(void **state) {
    (void)state;
    struct told told = {0};
    hand_job_make(&told.hand, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(told.hand.builders[r], 0, r == 2 ? BUILDER_BCAST : BUILDER_ALLREDUCE, 0, 9, 8, 100 + r,
                                200);
    tell(&told, 3, false);
    assert_says(&told, "desync", "collective #9 on MPI_COMM_WORLD: rank 2 called MPI_Bcast, 2 of 3 members called");
    forget(&told);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_crowded_from_one_more_than_processors_on),
        cmocka_unit_test(a_time_that_is_there_is_never_said_to_be_none),
        cmocka_unit_test(the_newest_run_and_generation_is_chosen),
        cmocka_unit_test(starts_of_a_run_are_numbered),
        cmocka_unit_test(starts_of_a_requeued_job_are_numbered),
        cmocka_unit_test(of_programs_side_by_side_the_largest_is_chosen),
        cmocka_unit_test(missing_ranks_and_duplicates_are_noticed),
        cmocka_unit_test(a_world_of_which_nearly_nothing_is_here_is_not_believed),
        cmocka_unit_test(a_killed_job_says_what_everybody_did),
        cmocka_unit_test(a_live_job_is_running),
        cmocka_unit_test(every_end_is_told_apart),
        cmocka_unit_test(who_left_no_dump_is_said),
        cmocka_unit_test(every_finding_says_what_it_was_judged_on),
        cmocka_unit_test(what_is_in_no_total_is_said),
        cmocka_unit_test(more_than_a_fifth_over_the_budget_is_said),
        cmocka_unit_test(what_the_budget_left_out_is_said),
        cmocka_unit_test(samples_of_the_past_are_told_from_the_end),
        cmocka_unit_test(what_was_judged_on_everything_need_not_say_so),
        cmocka_unit_test(a_disagreement_is_an_error),
        cmocka_unit_test(a_tenth_of_the_collectives_unmatched_is_said),
        cmocka_unit_test(a_single_long_wait_is_said),
        cmocka_unit_test(a_group_with_a_slow_member_is_not_said_to_be_even),
        cmocka_unit_test(a_few_long_waits_are_counted),
        cmocka_unit_test(who_was_kept_in_a_call_was_not_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
