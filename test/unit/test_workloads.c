/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs as people run them, with something wrong planted: who is named, and what never changes.
 * Lives here: test/scenes/workload in small numbers, with room; output for any number of threads; torn files.
 * Must not live here: single waits (test_waits.c), statistics (test_stragglers.c).
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/align/align.h"
#include "analyzer/findings/findings_gpu.h"
#include "analyzer/match/match.h"
#include "test/scenes/scene.h"
#include "test/scenes/workload.h"

static struct workload_result add(struct workload_result a, struct workload_result b) {
    return (struct workload_result){.jobs = a.jobs + b.jobs,
                                    .right = a.right + b.right,
                                    .found = a.found + b.found,
                                    .named_right = a.named_right + b.named_right,
                                    .named_wrong = a.named_wrong + b.named_wrong,
                                    .rotating = a.rotating + b.rotating,
                                    .jobs_wrong = a.jobs_wrong + b.jobs_wrong,
                                    .groups = a.groups + b.groups,
                                    .groups_right = a.groups_right + b.groups_right,
                                    .uneven = a.uneven + b.uneven};
}

/* Tries one plant on all kinds of jobs. */
static struct workload_result try_kinds(enum plant plant, double factor, unsigned jobs, uint64_t seed) {
    struct workload_result sum = {0};
    for (int kind = 0; kind < WORKLOADS; kind++) {
        struct workload w = workload_standard((enum workload_kind)kind);
        w.steps = 60;
        w.plant = plant;
        w.factor = factor;
        w.who = plant == PLANT_HOST ? 1 : 3;
        w.outliers = 0.01;
        struct workload_result result = workload_try(&w, jobs, seed);
        if (result.right < jobs)
            printf("    %s: %u of %u right, %u name somebody else\n", workload_name(w.kind), result.right, jobs,
                   result.jobs_wrong);
        sum = add(sum, result);
    }
    return sum;
}

static void nobody_is_named_where_nobody_is_slow(void **state) {
    (void)state;
    struct workload_result result = try_kinds(PLANT_NOBODY, 1, 5, 100);
    assert_true(result.jobs_wrong <= 1); /* of 30; one in a hundred may */
}

static void a_slow_rank_is_named_in_all_kinds_of_jobs(void **state) {
    (void)state;
    struct workload_result tenth = try_kinds(PLANT_RANK, 1.1, 4, 200), half = try_kinds(PLANT_RANK, 1.5, 2, 300);
    assert_true(tenth.right + 1 >= tenth.jobs);
    assert_int_equal(half.right, half.jobs);
}

static void a_slow_host_is_named(void **state) {
    (void)state;
    static const enum workload_kind kinds[] = {WORKLOAD_DATA_PARALLEL, WORKLOAD_STENCIL, WORKLOAD_GPU};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct workload w = workload_standard(kinds[i]);
        w.ranks = 16;
        w.plant = PLANT_HOST;
        w.who = 2;
        w.factor = 1.2;
        struct workload_result result = workload_try(&w, 3, 400);
        assert_int_equal(result.right, 3);
    }
}

/* What slows a job down without one rank being slow: nobody is to be named for it. */
static void what_is_no_slow_rank_names_none(void **state) {
    (void)state;
    struct workload_result link = {0};
    for (int kind = 0; kind < WORKLOADS; kind++) {
        struct workload w = workload_standard((enum workload_kind)kind);
        w.steps = 60;
        w.plant = PLANT_LINK;
        w.factor = 0.5;
        w.who = 3;
        w.whom = w.kind == WORKLOAD_PIPELINE ? 11 : 4;
        link = add(link, workload_try(&w, 3, 600));
    }
    assert_true(link.jobs_wrong <= 1);
}

/* Another rank slow each step, or everybody now and then: they take turns, and nobody is named for it. */
static void ranks_that_take_turns_are_told_from_slow_ones(void **state) {
    (void)state;
    struct workload_result rotating = try_kinds(PLANT_ROTATING, 1.5, 3, 500), pauses = {0};
    assert_int_equal(rotating.jobs_wrong, 0);
    assert_true(rotating.right + 1 >= rotating.jobs);
    for (int kind = 0; kind < WORKLOADS; kind++) {
        struct workload w = workload_standard((enum workload_kind)kind);
        w.plant = PLANT_PAUSES;
        w.factor = 2;
        w.who = 30; /* steps from one pause of a rank to the next */
        pauses = add(pauses, workload_try(&w, 2, 550));
    }
    assert_true(pauses.right + 1 >= pauses.jobs);
    for (enum plant plant = PLANT_RANK; plant <= PLANT_HOST; plant++)
        assert_int_equal(try_kinds(plant, 1.5, 2, 560).rotating, 0);
}

/* A slow host holds whole tensor parallel groups, whose ranks are slow together; a stage with more work is nobody's
 * fault. */
static void pipelines_are_compared_across_their_groups(void **state) {
    (void)state;
    struct workload w = workload_standard(WORKLOAD_PIPELINE);
    w.ranks = 32;
    w.stages = 4;
    w.plant = PLANT_HOST;
    w.who = 3;
    w.factor = 1.2;
    for (w.tensor = 1; w.tensor <= 4; w.tensor *= 4)
        assert_int_equal(workload_try(&w, 2, 700).right, 2);
    w.plant = PLANT_RANK_CLASS;
    w.factor = 1.6;
    w.who = 1;
    for (w.tensor = 1; w.tensor <= 4; w.tensor *= 2)
        assert_int_equal(workload_try(&w, 2, 750).right, 2);
}

/* Only the end of the run, or that and samples of what came before, is left. */
static void wrapped_rings_and_samples_are_enough(void **state) {
    (void)state;
    struct workload w = workload_standard(WORKLOAD_DATA_PARALLEL);
    w.plant = PLANT_RANK;
    w.who = 6;
    w.factor = 1.2;
    w.steps = 2000; /* 40 s, 4 records a step */
    w.ring_records = 512;
    struct workload_result wrapped = workload_try(&w, 2, 800);
    assert_int_equal(wrapped.right, 2);
    w.windows = 160;
    w.trace_window_level = 1;
    struct workload_result sampled = workload_try(&w, 2, 800);
    assert_int_equal(sampled.right, 2);
    w.plant = PLANT_NOBODY;
    assert_int_equal(workload_try(&w, 2, 810).right, 2);
}

static void steps_are_found_in_whole_dumps(void **state) {
    (void)state;
    unsigned exact = 0, streams = 0;
    for (int kind = 0; kind < WORKLOADS; kind++)
        for (unsigned i = 0; i < 3; i++, streams++) {
            struct workload w = workload_standard((enum workload_kind)kind);
            w.seed = i + 1;
            w.steps = 40 + 20 * i;
            w.pieces = 3 + 4 * i;
            w.evaluation = i * 10;
            exact += workload_steps_are_exact(&w);
        }
    assert_true(exact * 100 >= streams * 95 - 100); /* 95 % and one */
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

static void say_where(enum plant plant, char *text, size_t size) {
    struct workload w = workload_standard(WORKLOAD_GPU);
    w.plant = plant;
    w.who = 2;
    w.factor = 1.5;
    struct stage *stage = workload_play(&w);
    struct dump **dumps = stage_open(stage);
    struct common_clock clock;
    struct match_directory directory;
    struct straggler_analysis analysis;
    assert_true(common_clock_build(&clock, dumps, w.ranks) && match_directory_build(&directory, dumps, w.ranks));
    assert_true(straggler_analyse(&analysis, &clock, &directory, &(struct straggler_request){.workers = 1}));
    assert_int_equal(analysis.straggler_count, 1);
    assert_int_equal(analysis.stragglers[0].dumps[0], 2);
    findings_say_where_late(&analysis, &analysis.stragglers[0], text, size);
    straggler_analysis_free(&analysis);
    match_directory_free(&directory);
    common_clock_free(&clock);
    stage_free(stage);
}

static void a_late_host_is_told_from_a_late_gpu(void **state) {
    (void)state;
    char host[300], stream[300];
    say_where(PLANT_LATE_HOST, host, sizeof host);
    say_where(PLANT_RANK, stream, sizeof stream);
    assert_true(host[0] && stream[0]);
    assert_string_not_equal(host, stream);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

/* One moment of true time is one moment of common time on all ranks, up to the claimed error. */
static void moments_agree_up_to_the_claimed_error(void **state) {
    (void)state;
    static const struct actor_clocks clocks[] = {{0, 0, 0, 0}, {1, 100e-6, 0, 2e-3}, {1, 100e-6, 300e-6, 2e-3}};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++)
        for (int kind = 0; kind < WORKLOADS; kind++) {
            struct workload w = workload_standard((enum workload_kind)kind);
            w.steps = 300;
            w.clocks = clocks[i];
            w.outliers = 0.01;
            w.ranks_per_host = w.ranks / 2;
            struct stage *stage = workload_play(&w);
            struct common_clock clock;
            assert_true(common_clock_build(&clock, stage_open(stage), w.ranks));
            int64_t error = common_clock_error(&clock, 0, w.ranks - 1);
            for (unsigned s = 0; s < w.steps; s += 10) {
                int64_t when = stage_step_began(stage, 0, s);
                int64_t a = to_common(&clock, 0, (uint64_t)stage_shown(stage, 0, when));
                int64_t b = to_common(&clock, w.ranks - 1, (uint64_t)stage_shown(stage, w.ranks - 1, when));
                assert_true(llabs(a - b) <= error);
            }
            common_clock_free(&clock);
            stage_free(stage);
        }
}

/* ---- torn files ------------------------------------------------------------------------------ */

enum { TORN_RANKS = 4, TORN_STEPS = 40, TORN_SEQS = 200 };

/* When each member entered each collective of the world; 0 = not seen. */
struct entries {
    int64_t enter[TORN_SEQS][TORN_RANKS];
    unsigned complete, parts, wrong;
    const struct entries *truth;
};

static void note_entries(void *state, const struct match_instance *instance) {
    struct entries *entries = state;
    if (instance->communicator->uid != BUILDER_WORLD_UID || instance->seq >= TORN_SEQS)
        return;
    entries->complete += instance->complete;
    for (uint32_t m = 0; m < instance->communicator->dump_count; m++) {
        uint32_t rank = instance->communicator->rank_of[m];
        if (instance->members[m].enter == MATCH_ABSENT || rank >= TORN_RANKS)
            continue;
        entries->parts++;
        entries->enter[instance->seq][rank] = instance->members[m].enter;
        if (entries->truth)
            entries->wrong += entries->truth->enter[instance->seq][rank] != instance->members[m].enter;
    }
}

static void match_all(struct dump **dumps, size_t count, struct entries *entries) {
    struct common_clock clock;
    struct match_directory directory;
    struct match_totals totals;
    struct match_sink sink = {.instance = note_entries};
    void *states[1] = {entries};
    assert_true(common_clock_build(&clock, dumps, count) && match_directory_build(&directory, dumps, count));
    assert_true(match_run(&clock, &directory, &sink, states, 1, &totals));
    struct straggler_analysis analysis; /* whatever it says: it must come to an end */
    assert_true(straggler_analyse(&analysis, &clock, &directory, &(struct straggler_request){.workers = 2}));
    straggler_analysis_free(&analysis);
    match_directory_free(&directory);
    common_clock_free(&clock);
}

/* Anywhere in the first `bytes`, or among the records. */
static size_t cut_at(struct dump_builder *builder, size_t bytes, uint64_t *random) {
    const struct section *ring = dump_builder_section(builder, SECTION_RING, 0);
    size_t from = bytes ? 0 : ring->offset, length = bytes ? bytes : TORN_STEPS * 4 * sizeof(struct record);
    return from + (size_t)(scene_uniform(random) * (double)length);
}

static void torn_files_never_make_a_false_match(void **state) {
    (void)state;
    static const enum workload_kind kinds[] = {WORKLOAD_DATA_PARALLEL, WORKLOAD_STENCIL};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct workload w = workload_standard(kinds[k]);
        w.ranks = TORN_RANKS;
        w.ranks_per_host = 0; /* one clock: entries are the same whatever is cut off */
        w.steps = TORN_STEPS;
        struct stage *stage = workload_play(&w);
        struct entries truth = {.complete = 0}, torn;
        uint64_t random = 11;
        unsigned less = 0;
        match_all(stage_open(stage), TORN_RANKS, &truth);
        assert_true(truth.complete >= TORN_STEPS);
        for (unsigned i = 0; i < 60; i++) {
            struct dump *dumps[TORN_RANKS];
            size_t usable = 0;
            for (unsigned r = 0; r < TORN_RANKS; r++) {
                size_t bytes;
                const void *data = dump_builder_data(stage_builder(stage, r), &bytes);
                if (r <= i % TORN_RANKS)
                    bytes = cut_at(stage_builder(stage, r), i % 5 == 0 ? bytes : 0, &random);
                struct dump *dump = dump_open_buffer("torn", data, bytes);
                assert_non_null(dump);
                if (dump->header)
                    dumps[usable++] = dump;
                else
                    dump_close(dump);
            }
            torn = (struct entries){.truth = &truth};
            if (usable > 0)
                match_all(dumps, usable, &torn);
            assert_int_equal(torn.wrong, 0);
            less += torn.parts < truth.parts;
            for (size_t d = 0; d < usable; d++)
                dump_close(dumps[d]);
        }
        assert_true(less > 20); /* something was really cut off */
        stage_free(stage);
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

static char *run(const char *command) {
    FILE *pipe = popen(command, "r");
    size_t used = 0, room = 1 << 16;
    char *text = malloc(room);
    assert_true(pipe && text);
    for (size_t got; (got = fread(text + used, 1, room - used - 1, pipe)) > 0;) {
        used += got;
        if (used + 1 == room)
            text = realloc(text, room *= 2);
        assert_non_null(text);
    }
    text[used] = 0;
    int status = pclose(pipe);
    assert_true(status == 0);
    return text;
}

static void remove_directory(const char *path) {
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.')
            assert_int_equal(unlinkat(dirfd(directory), entry->d_name, 0), 0);
    closedir(directory);
    assert_int_equal(rmdir(path), 0);
}

/* Commands that take --threads: whatever they print is the same for any number of them. */
static void output_is_the_same_for_any_number_of_threads(void **state) {
    (void)state;
    static const char *const commands[] = {"report", "stragglers", "steps", "calls", "diagnose", "summary"};
    static const enum workload_kind kinds[] = {WORKLOAD_PIPELINE, WORKLOAD_STENCIL, WORKLOAD_GPU};
    const char *binary = getenv("COMMTAP_BINARY");
    if (!binary)
        skip();
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char directory[] = "/tmp/commtap-workload-XXXXXX", command[600];
        struct workload w = workload_standard(kinds[k]);
        w.plant = PLANT_RANK;
        w.who = 3;
        w.factor = 1.2;
        w.steps = 40;
        struct stage *stage = workload_play(&w);
        assert_non_null(mkdtemp(directory));
        assert_int_equal(stage_write(stage, directory), 0);
        for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
            snprintf(command, sizeof command, "%s %s --format json --threads 1 %s", binary, commands[c], directory);
            char help[300];
            snprintf(help, sizeof help, "%s %s --help", binary, commands[c]);
            char *knows = run(help);
            bool threads = strstr(knows, "--threads") != NULL;
            free(knows);
            if (!threads) /* one thread does it all */
                continue;
            char *one = run(command);
            assert_true(strlen(one) > 100);
            for (unsigned n = 2; n <= 4; n *= 2) {
                snprintf(command, sizeof command, "%s %s --format json --threads %u %s", binary, commands[c], n,
                         directory);
                char *more = run(command);
                assert_string_equal(one, more);
                free(more);
            }
            free(one);
        }
        remove_directory(directory);
        stage_free(stage);
    }
}

/* ---- links ----------------------------------------------------------------------------------- */

enum { RING_RANKS = 8, RING_BYTES = 1 << 20, RING_STEPS = 120 };

/* Even ranks send first, odd ones receive first: to and from either neighbour, one message at a time. */
static void ring_step(void *context, unsigned rank, unsigned step, struct script *script) {
    (void)step;
    uint64_t *random = context;
    for (unsigned way = 0; way < 2; way++) {
        unsigned next = (rank + (way ? RING_RANKS - 1 : 1)) % RING_RANKS;
        unsigned before = (rank + (way ? 1 : RING_RANKS - 1)) % RING_RANKS;
        double ns = 1e6 * (1 + 0.2 * scene_gauss(&random[rank]));
        script_add(script, (struct action){.act = ACT_WORK, .ns = (int64_t)ns});
        for (unsigned turn = 0; turn < 2; turn++) {
            bool send = (rank + turn) % 2 == 0;
            script_add(script, (struct action){.act = send ? ACT_SEND : ACT_RECEIVE,
                                               .peer = (int32_t)(send ? next : before),
                                               .tag = (int32_t)way,
                                               .bytes = RING_BYTES});
        }
    }
    script_add(script, (struct action){.act = ACT_COLLECTIVE, .call = BUILDER_ALLREDUCE, .bytes = 8});
}

static struct stage *play_ring(int from, int to, double bandwidth) {
    uint64_t random[RING_RANKS];
    for (unsigned r = 0; r < RING_RANKS; r++)
        random[r] = 77 + r;
    struct stage *stage = stage_new(&(struct actor_rules){.seed = 5,
                                                          .ranks = RING_RANKS,
                                                          .ranks_per_host = RING_RANKS / 2,
                                                          .latency = 15000,
                                                          .bandwidth = 10,
                                                          .slow_from = from,
                                                          .slow_to = to,
                                                          .slow_link = bandwidth,
                                                          .clocks = {.offset = 1, .drift = 100e-6, .realtime = 2e-3},
                                                          .ring_records = 1024});
    stage_play(stage, RING_STEPS, ring_step, random);
    return stage;
}

static char *say_stragglers(struct stage *stage, const char *binary, unsigned threads) {
    char directory[] = "/tmp/commtap-workload-XXXXXX", command[600];
    assert_non_null(mkdtemp(directory));
    assert_int_equal(stage_write(stage, directory), 0);
    snprintf(command, sizeof command, "%s stragglers --format json --threads %u %s", binary, threads, directory);
    char *text = run(command);
    remove_directory(directory);
    return text;
}

/* From the records to the answer, both ways of a link, within and between hosts; nobody where all links are even. */
static void a_slow_link_is_named_and_no_rank(void **state) {
    (void)state;
    const char *binary = getenv("COMMTAP_BINARY");
    if (!binary)
        skip();
    for (int from = 2; from <= 3; from++) {
        struct stage *stage = play_ring(from, from + 1, 0.5);
        char *text = say_stragglers(stage, binary, 1), there[60], back[60];
        snprintf(there, sizeof there, "messages from rank %d (node0) to rank %d", from, from + 1);
        snprintf(back, sizeof back, "messages from rank %d (%s) to rank %d", from + 1, from == 3 ? "node1" : "node0",
                 from);
        assert_non_null(strstr(text, there));
        assert_non_null(strstr(text, back));
        assert_non_null(strstr(text, "slow_link"));
        assert_null(strstr(text, "\"straggler\""));
        free(text);
        stage_free(stage);
    }
    struct stage *stage = play_ring(-1, -1, 1);
    char *text = say_stragglers(stage, binary, 2);
    assert_null(strstr(text, "slow_link"));
    free(text);
    stage_free(stage);
}

/* Four neighbours each, non-blocking, one Waitall for all; and groups in which only collectives show anything. */
static void links_are_told_where_calls_wait_for_several(void **state) {
    (void)state;
    static const struct {
        enum workload_kind kind;
        enum plant plant;
        unsigned who, whom, hosts_per_switch;
    } jobs[] = {{WORKLOAD_STENCIL, PLANT_LINK, 3, 11, 0},    {WORKLOAD_STENCIL, PLANT_HOST_LINK, 4, 6, 0},
                {WORKLOAD_STENCIL, PLANT_NETWORK, 5, 0, 0},  {WORKLOAD_STENCIL, PLANT_NOBODY, 0, 0, 8},
                {WORKLOAD_PIPELINE, PLANT_NETWORK, 5, 0, 0}, {WORKLOAD_PIPELINE, PLANT_NOBODY, 0, 0, 0}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct workload w = workload_standard(jobs[i].kind);
        bool groups = w.kind == WORKLOAD_PIPELINE, planted = jobs[i].plant != PLANT_NOBODY;
        w.ranks = 64;
        w.steps = 120;
        w.noise = 0.02;
        w.overlap = 0;
        w.bytes = 8 << 20;
        w.stages = groups ? 4 : 1;
        w.tensor = groups ? 4 : 1;
        w.plant = jobs[i].plant;
        w.who = jobs[i].who;
        w.whom = jobs[i].whom;
        w.factor = planted ? 0.5 : 1;
        w.hosts_per_switch = jobs[i].hosts_per_switch;
        w.switch_latency = 100000;
        struct workload_result result = workload_try(&w, 1, 31 + i);
        assert_int_equal(result.jobs_wrong, 0);
        assert_int_equal(result.found, planted && !groups);
        assert_int_equal(result.groups, planted && groups);
        assert_int_equal(result.groups_right, planted && groups);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_named_where_nobody_is_slow),
        cmocka_unit_test(a_slow_rank_is_named_in_all_kinds_of_jobs),
        cmocka_unit_test(a_slow_host_is_named),
        cmocka_unit_test(what_is_no_slow_rank_names_none),
        cmocka_unit_test(ranks_that_take_turns_are_told_from_slow_ones),
        cmocka_unit_test(pipelines_are_compared_across_their_groups),
        cmocka_unit_test(wrapped_rings_and_samples_are_enough),
        cmocka_unit_test(steps_are_found_in_whole_dumps),
        cmocka_unit_test(a_late_host_is_told_from_a_late_gpu),
        cmocka_unit_test(moments_agree_up_to_the_claimed_error),
        cmocka_unit_test(torn_files_never_make_a_false_match),
        cmocka_unit_test(output_is_the_same_for_any_number_of_threads),
        cmocka_unit_test(a_slow_link_is_named_and_no_rank),
        cmocka_unit_test(links_are_told_where_calls_wait_for_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
