/* SPDX-License-Identifier: Apache-2.0
 *
 * What workers gather can travel: where another process walks the dumps, and only its workers' parcels come back,
 * every command says the same, byte for byte.
 * Lives here: match_run_among in a process of its own (the linker's --wrap), the commands over played jobs, parcels
 * that were cut short or damaged. Must not live here: parcels themselves (test_parcel.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/base/parcel.h"
#include "analyzer/cli/options.h"
#include "analyzer/match/match.h"
#include "analyzer/links/group_links.h"
#include "analyzer/links/links.h"
#include "analyzer/waits/waits.h"
#include "test/scenes/workload.h"
#include "test/unit/job_builder.h"

enum { WORKERS = 3, CUTS = 60 };

/* malloc gives NULL for what no machine has, instead of ending the test. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

/* ---- the walk, somewhere else ------------------------------------------------------------------------------------ */

static bool elsewhere;     /* another process walks */
static bool damaged;       /* ... and its parcels do not arrive whole */
static size_t walks_moved; /* so far */

bool __real_match_run_among(struct team *team, const struct common_clock *clock,
                            const struct match_directory *directory, const struct match_sink *sink, void *const *states,
                            unsigned threads, struct match_totals *totals);
bool __wrap_match_run_among(struct team *team, const struct common_clock *clock,
                            const struct match_directory *directory, const struct match_sink *sink, void *const *states,
                            unsigned threads, struct match_totals *totals);

static void tell(FILE *to, const void *data, size_t size) {
    if (fwrite(data, 1, size, to) != size)
        _exit(2);
}

static void hear(FILE *from, void *data, size_t size) {
    assert_int_equal(fread(data, 1, size, from), size);
}

/* Ends the process. */
static void send_all(FILE *to, const struct match_sink *sink, void *const *states, unsigned workers) {
    for (unsigned w = 0; w < workers; w++) {
        struct parcel parcel = parcel_to_pack();
        sink->parcel(states[w], &parcel);
        parcel_seal(&parcel);
        if (parcel.failed)
            _exit(3);
        tell(to, &parcel.size, sizeof parcel.size);
        tell(to, parcel.bytes, parcel.size);
    }
    if (fflush(to) != 0)
        _exit(4);
    _exit(0);
}

/* Sealed again, or the checksum would keep all of it from the states. */
static void take_damaged(const struct match_sink *sink, void *state, const unsigned char *bytes, size_t size) {
    size_t body = size - sizeof(uint64_t);
    for (size_t cut = 0; cut < CUTS; cut++) {
        size_t at = body * cut / CUTS;
        struct parcel forged = parcel_to_pack();
        parcel_bytes(&forged, (void *)bytes, at);
        parcel_seal(&forged);
        struct parcel parcel = parcel_to_unpack(forged.bytes, forged.size);
        sink->parcel(state, &parcel);
        assert_true(parcel.failed);
        forged.size = 0;
        parcel_bytes(&forged, (void *)bytes, body);
        for (size_t i = at; i < body && i < at + sizeof(uint64_t); i++)
            forged.bytes[i] ^= 0xff;
        parcel_seal(&forged);
        parcel = parcel_to_unpack(forged.bytes, forged.size);
        sink->parcel(state, &parcel); /* may be taken: some number was another one */
        parcel_free(&forged);
    }
}

static void take_all(FILE *from, const struct match_sink *sink, void *const *states, unsigned workers) {
    for (unsigned w = 0; w < workers; w++) {
        size_t size;
        hear(from, &size, sizeof size);
        unsigned char *bytes = malloc(size);
        assert_non_null(bytes);
        hear(from, bytes, size);
        if (damaged)
            take_damaged(sink, states[w], bytes, size);
        struct parcel parcel = parcel_to_unpack(bytes, size);
        if (!damaged) {
            sink->parcel(states[w], &parcel);
            assert_true(parcel_is_used_up(&parcel));
        }
        free(bytes);
    }
}

bool __wrap_match_run_among(struct team *team, const struct common_clock *clock,
                            const struct match_directory *directory, const struct match_sink *sink, void *const *states,
                            unsigned threads, struct match_totals *totals) {
    int ends[2], status;
    bool done;
    if (!elsewhere || !sink->parcel)
        return __real_match_run_among(team, clock, directory, sink, states, threads, totals);
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        FILE *to = fdopen(ends[1], "w");
        done = to && __real_match_run_among(team, clock, directory, sink, states, threads, totals);
        tell(to, &done, sizeof done);
        tell(to, totals, sizeof *totals);
        send_all(to, sink, states, match_workers(threads));
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    assert_non_null(from);
    hear(from, &done, sizeof done);
    hear(from, totals, sizeof *totals);
    take_all(from, sink, states, match_workers(threads));
    fclose(from);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    walks_moved++;
    return done && !damaged;
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

/* With `pattern` also what only some of the calls waited for. */
static const struct question {
    const struct command *command;
    const char *pattern;
    const char *further; /* an option */
    bool threads;        /* it has that one */
} questions[] = {
    {&command_report, NULL, NULL, true},
    {&command_stragglers, "*all*,*end*", NULL, true},
    {&command_steps, NULL, NULL, true},
    {&command_summary, NULL, "--transfers", false},
};
enum { QUESTIONS = sizeof questions / sizeof *questions };

static char directory[64];

/* Returns the exit status. */
static int ask(const struct question *question, unsigned threads, const char *output) {
    char number[16], path[96];
    const char *words[12] = {directory, "--format", "json", "-o", path};
    size_t count = 5;
    snprintf(number, sizeof number, "%u", threads);
    snprintf(path, sizeof path, "%s/%s", directory, output);
    if (question->threads) {
        words[count++] = "--threads";
        words[count++] = number;
    }
    if (question->pattern) {
        words[count++] = "--op";
        words[count++] = question->pattern;
    }
    if (question->further)
        words[count++] = question->further;
    struct options options;
    assert_int_equal(options_parse(&options, question->command, (int)count, (char **)words, stderr), EXIT_FINE);
    int status = question->command->run(&options);
    options_free(&options);
    return status;
}

static char *contents(const char *name, size_t *size) {
    char path[96];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *size, file), *size);
    fclose(file);
    return text;
}

static void expect_same(const struct question *question, unsigned threads) {
    size_t here_size, there_size, before = walks_moved;
    elsewhere = false;
    assert_int_equal(ask(question, threads, "here"), EXIT_FINE);
    elsewhere = true;
    assert_int_equal(ask(question, threads, "there"), EXIT_FINE);
    elsewhere = false;
    assert_true(walks_moved > before);
    char *here = contents("here", &here_size), *there = contents("there", &there_size);
    assert_int_equal(here_size, there_size);
    assert_memory_equal(here, there, here_size);
    free(here);
    free(there);
}

static void make_directory(void) {
    strcpy(directory, "/tmp/commtap-parcels-XXXXXX");
    assert_non_null(mkdtemp(directory));
}

static void remove_directory(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

static void write_workload(enum workload_kind kind) {
    struct workload workload = workload_standard(kind);
    workload.steps = 12;
    workload.plant = PLANT_RANK;
    workload.who = 3;
    workload.factor = 2;
    struct stage *stage = workload_play(&workload);
    make_directory();
    assert_int_equal(stage_write(stage, directory), 0);
    stage_free(stage);
}

static void every_command_says_the_same_of_every_kind_of_job(void **state) {
    (void)state;
    for (int kind = 0; kind < WORKLOADS; kind++) {
        write_workload((enum workload_kind)kind);
        for (size_t q = 0; q < QUESTIONS; q++)
            expect_same(&questions[q], WORKERS);
        expect_same(&questions[0], 1);
        remove_directory();
    }
}

/* Where records are gone, some steps' waits are not known. */
static void steps_with_records_missing_are_told_alike(void **state) {
    (void)state;
    struct workload workload = workload_standard(WORKLOAD_STENCIL);
    workload.steps = 12;
    workload.ring_records = 64;
    struct stage *stage = workload_play(&workload);
    make_directory();
    assert_int_equal(stage_write(stage, directory), 0);
    stage_free(stage);
    for (size_t q = 0; q < QUESTIONS; q++)
        expect_same(&questions[q], WORKERS);
    remove_directory();
}

/* Of the first mismatch, its communicator is known again. */
static void ranks_that_disagree_are_told_alike(void **state) {
    (void)state;
    struct hand_job job;
    char path[128];
    hand_job_make(&job, 3, (struct dump_plan){0});
    make_directory();
    for (unsigned r = 0; r < job.ranks; r++) {
        for (uint32_t i = 0; i < 8; i++)
            dump_builder_collective(job.builders[r], 0, i == 5 && r == 1 ? BUILDER_BARRIER : BUILDER_ALLREDUCE, 0, i, 8,
                                    1000000 * (i + 1) + 1000 * r, 1000000 * (i + 1) + 5000);
        snprintf(path, sizeof path, "%s/commtap.testrun.%016x.ct", directory, r);
        assert_int_equal(dump_builder_write(job.builders[r], path, 0), 0);
    }
    expect_same(&questions[0], WORKERS);
    size_t size;
    char *text = contents("there", &size);
    text[size] = '\0';
    assert_non_null(strstr(text, "MPI_Barrier"));
    free(text);
    remove_directory();
    hand_job_free(&job);
}

/* ---- what few jobs have ------------------------------------------------------------------------------------------ */

/* Both ends of what `PART_parcel` does. */
#define CARRY(PART, FROM, TO)                                                                                          \
    do {                                                                                                               \
        struct parcel sent_ = parcel_to_pack();                                                                        \
        PART##_parcel((FROM), &sent_);                                                                                 \
        parcel_seal(&sent_);                                                                                           \
        struct parcel got_ = parcel_to_unpack(sent_.bytes, sent_.size);                                                \
        PART##_parcel((TO), &got_);                                                                                    \
        assert_true(parcel_is_used_up(&got_));                                                                         \
        parcel_free(&sent_);                                                                                           \
    } while (0)

static void communicators_keep_their_histograms(void **state) {
    (void)state;
    struct group_links sent = {.overflow = true}, got = {0};
    struct group_cell *cell = group_cells_add(&sent.cells, &(struct group_key){1, 2, 3, 1});
    assert_non_null(cell);
    cell->count = 7;
    cell->bins[5] = 7;
    CARRY(group_links, &sent, &got);
    cell = group_cells_find(&got.cells, &(struct group_key){1, 2, 3, 1});
    assert_true(cell && cell->count == 7 && cell->bins[5] == 7 && got.overflow && !got.no_memory);
    group_links_free(&sent);
    group_links_free(&got);
}

/* The last call of a rank is closed where its worker's state is finished. */
static void the_call_at_hand_is_closed_elsewhere(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    hand_job_open(&job, 2);
    struct links sent, got;
    assert_true(links_init(&sent, &job.clock, &job.directory) && links_init(&got, &job.clock, &job.directory));
    const struct record done = {.kind = RECORD_DONE, .peer = 0};
    links_note(&sent, &(struct match_record){.record = &done, .dump = 1, .t0 = 10, .t1 = 20}, NULL);
    CARRY(links, &sent, &got);
    links_finish(&got);
    assert_int_equal(got.exchanges.count, 1);
    assert_int_equal(got.exchanges.ends[0].operations, 1);
    links_free(&sent);
    links_free(&got);
    hand_job_free(&job);
}

/* A Wait call that several receives completed in: which one it waited for is told at the end. */
static void waits_at_hand_are_settled_elsewhere(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    hand_job_open(&job, 2);
    struct waits sent, got;
    assert_true(waits_init(&sent, &job.clock, &job.directory) && waits_init(&got, &job.clock, &job.directory));
    const struct match_message message = {
        .from_dump = 0,
        .to_dump = 1,
        .bytes = 8,
        .send = {.enter = 5000, .leave = 6000, .wait = 5000, .call = CALL_UNKNOWN, .stack = STACK_NONE},
        .receive =
            {.enter = 1000, .leave = 7000, .wait = 1000, .call = CALL_UNKNOWN, .stack = STACK_NONE, .shared = true},
        .released = MATCH_ABSENT};
    waits_add_message(&sent, &message);
    assert_int_equal(sent.ranks[1].wait_ns, 0);
    CARRY(waits, &sent, &got);
    waits_finish(&got);
    assert_int_equal(got.ranks[1].wait_ns, 4000);
    assert_int_equal(got.ranks[0].waited_for_ns, 4000);
    assert_int_equal(got.messages, 1);
    waits_free(&sent);
    waits_free(&got);
    hand_job_free(&job);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void damaged_parcels_are_refused_by_every_part(void **state) {
    (void)state;
    static const enum workload_kind kinds[] = {WORKLOAD_STENCIL, WORKLOAD_GPU};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        write_workload(kinds[k]);
        for (size_t q = 0; q < QUESTIONS; q++) {
            size_t before = walks_moved;
            elsewhere = damaged = true;
            int status = ask(&questions[q], WORKERS, "damaged");
            elsewhere = damaged = false;
            assert_true(walks_moved > before);
            assert_int_not_equal(status, EXIT_FINE);
        }
        remove_directory();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_says_the_same_of_every_kind_of_job),
        cmocka_unit_test(steps_with_records_missing_are_told_alike),
        cmocka_unit_test(ranks_that_disagree_are_told_alike),
        cmocka_unit_test(communicators_keep_their_histograms),
        cmocka_unit_test(the_call_at_hand_is_closed_elsewhere),
        cmocka_unit_test(waits_at_hand_are_settled_elsewhere),
        cmocka_unit_test(damaged_parcels_are_refused_by_every_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
