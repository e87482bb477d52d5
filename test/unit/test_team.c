/* SPDX-License-Identifier: Apache-2.0
 *
 * Several processes walk one job together: each comes to what one comes to alone, and nobody waits for one that failed.
 * Lives here: walks of played processes (played_team.h). Must not live here: MPI (e2e), consumers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/align/align.h"
#include "analyzer/base/parcel.h"
#include "analyzer/base/team.h"
#include "analyzer/match/match.h"
#include "analyzer/steps/steps.h"
#include "analyzer/stragglers/stragglers.h"
#include "test/unit/job_builder.h"
#include "test/unit/played_team.h"

enum { MOST = PLAYERS_MOST, RANKS = 5, SLOW = 2 };

/* ---- a consumer -------------------------------------------------------------------------------------------------- */

struct sums {
    uint64_t instances, messages, records;
};

static void take_instance(void *state, const struct match_instance *instance) {
    uint64_t part = instance->seq * UINT64_C(1000003) + instance->seen * 17 + instance->complete;
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++)
        if (instance->members[i].enter != MATCH_ABSENT)
            part += (uint64_t)instance->members[i].enter * (i + 3) ^ (uint64_t)instance->members[i].leave;
    ((struct sums *)state)->instances += part * part;
}

static void take_message(void *state, const struct match_message *message) {
    uint64_t part = message->from * UINT64_C(31) + message->to * UINT64_C(7) + message->ordinal;
    part += (uint64_t)message->send.enter * 3 ^ (uint64_t)message->receive.leave;
    ((struct sums *)state)->messages += part * part;
}

static void take_record(void *state, const struct match_record *record) {
    (void)record;
    ((struct sums *)state)->records++;
}

static void pack_sums(void *state, struct parcel *parcel) {
    parcel_field(parcel, (struct sums *)state);
}

static const struct match_sink sink = {
    .instance = take_instance, .message = take_message, .record = take_record, .parcel = pack_sums};

/* ---- a walk ------------------------------------------------------------------------------------------------------ */

struct job {
    struct common_clock clock;
    struct match_directory directory;
};

/* What a job comes to. */
struct outcome {
    double slowdown, named, even, alone, transfer;
    uint64_t stragglers, sites, workers;
    uint64_t steps, of_steps;
};

/* What one process does, and comes to. */
struct part {
    struct player player;
    const struct job *job; /* NULL: it has failed before the walk */
    unsigned threads;
    struct sums sums;
    struct match_totals totals;
    bool walked;
    struct outcome outcome;
    int32_t numbers[MOST];
    bool shared;
    int32_t last_words[MOST]; /* of all processes, at the end */
};

struct word {
    struct team_head head;
    int32_t number;
};

/* As a command ends: once more for everybody who has come for something else. */
static void meet_at_end(struct part *part) {
    struct team *team = &part->player.team;
    struct word word = {.number = (int32_t)team->number};
    for (bool together = false; !together;) {
        struct team_block *all = team->incoming;
        together = team_meet(team, TEAM_END, false, &(struct team_block){(char *)&word, sizeof word}, all);
        for (unsigned p = 0; p < team->processes; p++) {
            const struct word *other = (const void *)all[p].bytes;
            together = together && other->head.purpose == TEAM_END;
            part->last_words[p] = together ? other->number : -1;
        }
        team_free(team, all);
    }
}

static void *play(void *argument) {
    struct part *part = argument;
    struct sums each[MATCH_WORKERS_MAX] = {0};
    void *states[MATCH_WORKERS_MAX];
    for (unsigned w = 0; w < MATCH_WORKERS_MAX; w++)
        states[w] = &each[w];
    struct team *team = &part->player.team;
    if (part->job)
        part->walked = match_run_among(team, &part->job->clock, &part->job->directory, &sink, states, part->threads,
                                       &part->totals);
    for (unsigned w = 0; w < match_workers_among(team, part->threads); w++) {
        part->sums.instances += each[w].instances;
        part->sums.messages += each[w].messages;
        part->sums.records += each[w].records;
    }
    if (team->processes > 1)
        meet_at_end(part);
    return NULL;
}

/* ---- an outcome ------------------------------------------------------------------------------------------------- */

static void find_stragglers(struct part *part) {
    struct straggler_analysis analysis;
    struct outcome *to = &part->outcome;
    const struct straggler_request request = {.workers = part->threads, .team = &part->player.team};
    assert_true(straggler_analyse(&analysis, &part->job->clock, &part->job->directory, &request));
    to->slowdown = analysis.what_if.slowdown;
    to->workers = analysis.what_if.worst_workers;
    to->sites = analysis.what_if.site_count;
    to->named = analysis.named_speedup;
    to->even = analysis.even_speedup;
    to->stragglers = analysis.straggler_count;
    to->alone = analysis.straggler_count > 0 ? analysis.stragglers[0].what_if_speedup : 0;
    to->transfer = analysis.efficiencies.transfer;
    straggler_analysis_free(&analysis);
}

static void find_steps(struct part *part) {
    struct steps steps;
    struct outcome *to = &part->outcome;
    const struct steps_request request = {
        .marker = &(const struct step_marker){0}, .team = &part->player.team, .threads = part->threads};
    assert_true(steps_find_as_asked(&steps, &part->job->clock, &request));
    to->steps = steps.count;
    for (size_t r = 0; r < steps.rank_count; r++) {
        assert_non_null(steps.ranks[r].anchor);
        assert_int_equal(steps.ranks[r].dump, r);
        for (size_t i = 0; i < steps.ranks[r].count; i++)
            to->of_steps = to->of_steps * 31 +
                           ((uint64_t)steps.ranks[r].steps[i].start_ns ^ (uint64_t)steps.ranks[r].steps[i].tail_ns * 7);
    }
    steps_free(&steps);
}

static void *judge(void *argument) {
    find_stragglers(argument);
    find_steps(argument);
    return NULL;
}

/* ---- parts of one work ------------------------------------------------------------------------------------------- */

static void number_part(void *context, unsigned process, struct parcel *parcel) {
    struct part *part = context;
    parcel_field(parcel, &part->numbers[process]);
}

/* Without a job it has failed before. */
static void *share(void *argument) {
    struct part *part = argument;
    struct team *team = &part->player.team;
    part->numbers[team->number] = 7 * (int32_t)team->number;
    part->shared = team_share(team, TEAM_STEPS, !part->job, number_part, part);
    if (team->processes > 1)
        meet_at_end(part);
    return NULL;
}

/* ---- all processes ----------------------------------------------------------------------------------------------- */

/* So many processes, each with what `jobs` has for it. Returns their parts, to be freed; *exchanges: how many. */
static struct part *all_do(void *(*what)(void *), unsigned processes, unsigned threads, const struct job *const *jobs,
                           unsigned *exchanges) {
    struct part *parts = calloc(processes, sizeof *parts);
    assert_non_null(parts);
    for (unsigned p = 0; p < processes; p++) {
        parts[p].job = jobs[p];
        parts[p].threads = threads;
    }
    *exchanges = play_team(what, processes, parts, sizeof *parts);
    return parts;
}

static struct part *play_all(unsigned processes, unsigned threads, const struct job *const *jobs, unsigned *exchanges) {
    return all_do(play, processes, threads, jobs, exchanges);
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

static struct hand_job hand;
static struct job whole, fewer;

/* More than a worker of two processes reads in a round. */
enum { STEPS = 10000, RECORDS = RANKS * STEPS * 3 };

/* A collective, a message to the next rank, one from the rank before; everybody late at times. */
static void make_step(uint32_t step) {
    for (unsigned r = 0; r < RANKS; r++) {
        struct dump_builder *builder = hand.builders[r];
        uint64_t from = 10000 * (uint64_t)step + (r * 7 + step) % 13 * 100;
        dump_builder_collective(builder, 0, BUILDER_ALLREDUCE, 0, step, 8, from, 10000 * (uint64_t)step + 2000);
        dump_builder_p2p(builder, 0, BUILDER_SEND, 0, FLAG_SEND, (int32_t)((r + 1) % RANKS), 1, step, 8, from + 3000,
                         from + 3010);
        dump_builder_p2p(builder, 0, BUILDER_RECV, 0, FLAG_RECV, (int32_t)((r + RANKS - 1) % RANKS), 1, step, 8,
                         from + 4000, from + 6000);
    }
}

static void open_job(struct job *job, size_t count) {
    assert_true(common_clock_build(&job->clock, hand.dumps, count));
    assert_true(match_directory_build(&job->directory, hand.dumps, count));
}

static int set_up(void **state) {
    (void)state;
    hand_job_make(&hand, RANKS, (struct dump_plan){.ring_records = 32768});
    for (uint32_t step = 0; step < STEPS; step++)
        make_step(step);
    hand_job_open(&hand, RANKS);
    open_job(&whole, RANKS);
    open_job(&fewer, RANKS - 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    struct job *const both[] = {&whole, &fewer};
    for (int i = 0; i < 2; i++) {
        match_directory_free(&both[i]->directory);
        common_clock_free(&both[i]->clock);
    }
    hand_job_free(&hand);
    return 0;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void every_process_comes_to_what_one_comes_to(void **state) {
    (void)state;
    static const unsigned counts[][2] = {{1, 1}, {2, 1}, {2, 2}, {3, 1}, {4, 3}, {8, 1}, {66, 1}};
    const struct job *jobs[MOST];
    struct part *first = NULL;
    unsigned exchanges;
    for (unsigned p = 0; p < MOST; p++)
        jobs[p] = &whole;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct part *parts = play_all(counts[i][0], counts[i][1], jobs, &exchanges);
        first = first ? first : parts;
        for (unsigned p = 0; p < counts[i][0]; p++) {
            assert_true(parts[p].walked);
            assert_false(parts[p].player.team.parted);
            assert_memory_equal(&parts[p].totals, &first->totals, sizeof first->totals);
            assert_memory_equal(&parts[p].sums, &first->sums, sizeof first->sums);
        }
        /* two in each round, one before the states and one for each thread, one at the end */
        assert_true(counts[i][0] == 1 ? exchanges == 0 : exchanges >= 4 && exchanges <= 12);
        assert_true(counts[i][0] != 2 || counts[i][1] != 1 || exchanges >= 6);
        if (parts != first)
            free(parts);
    }
    assert_int_equal(first->sums.records, RECORDS);
    assert_int_equal(first->totals.instances, STEPS);
    assert_int_equal(first->totals.messages, RANKS * STEPS);
    free(first);
}

/* It says what it has to say at the end, where all others come as well: theirs is not the failure. */
static void nobody_waits_for_one_that_has_failed(void **state) {
    (void)state;
    const struct job *jobs[] = {&whole, NULL, &whole};
    unsigned exchanges;
    struct part *parts = play_all(3, 1, jobs, &exchanges);
    for (unsigned p = 0; p < 3; p++) {
        assert_false(parts[p].walked);
        assert_true(parts[p].player.team.bystander == (p != 1));
        for (unsigned other = 0; other < 3; other++)
            assert_int_equal(parts[p].last_words[other], other);
    }
    assert_int_equal(exchanges, 2);
    free(parts);
}

static void processes_that_see_different_dumps_do_not_walk_together(void **state) {
    (void)state;
    const struct job *jobs[] = {&whole, &whole, &fewer};
    unsigned exchanges;
    struct part *parts = play_all(3, 2, jobs, &exchanges);
    for (unsigned p = 0; p < 3; p++) {
        assert_false(parts[p].walked);
        assert_true(parts[p].player.team.parted);
    }
    free(parts);
}

/* Each packs its own part. Where one has failed nobody takes what others packed. */
static void parts_are_told_to_all(void **state) {
    (void)state;
    const struct job *jobs[] = {&whole, &whole, &whole, &whole};
    unsigned exchanges;
    struct part *parts = all_do(share, 4, 1, jobs, &exchanges);
    for (unsigned p = 0; p < 4; p++) {
        assert_true(parts[p].shared);
        for (int32_t other = 0; other < 4; other++)
            assert_int_equal(parts[p].numbers[other], 7 * other);
    }
    assert_int_equal(exchanges, 2);
    free(parts);
    jobs[1] = NULL;
    parts = all_do(share, 4, 1, jobs, &exchanges);
    for (unsigned p = 0; p < 4; p++) {
        assert_false(parts[p].shared);
        assert_true(parts[p].player.team.bystander == (p != 1));
        assert_int_equal(parts[p].numbers[3], p == 3 ? 21 : 0);
    }
    free(parts);
    jobs[0] = NULL;
    parts = all_do(share, 1, 1, jobs, &exchanges);
    assert_false(parts->shared);
    free(parts);
}

/* A rank that works longer before each collective. */
static void make_late_step(struct hand_job *job, uint32_t step) {
    uint64_t begin = 5000000 * (uint64_t)step, met = begin + 3000000;
    for (unsigned r = 0; r < RANKS; r++) {
        uint64_t from = begin + (r == SLOW ? 2500000 : 1000000) + (r * 7 + step) % 13 * 15000;
        dump_builder_collective(job->builders[r], 0, BUILDER_ALLREDUCE, 0, step, 8, from, met);
        dump_builder_p2p(job->builders[r], 0, BUILDER_SEND, 0, FLAG_SEND, (int32_t)((r + 1) % RANKS), 1, step, 8,
                         met + 3000, met + 3010);
        dump_builder_p2p(job->builders[r], 0, BUILDER_RECV, 0, FLAG_RECV, (int32_t)((r + RANKS - 1) % RANKS), 1, step,
                         8, met + 4000, met + 6000);
    }
}

/* What replays and steps come to is put together from all processes: bit by bit the same. */
static void every_process_judges_as_one_does(void **state) {
    (void)state;
    static const unsigned counts[][2] = {{1, 1}, {1, 3}, {2, 1}, {3, 2}, {7, 1}};
    struct hand_job late;
    struct job job;
    const struct job *jobs[MOST];
    struct outcome first;
    unsigned exchanges;
    hand_job_make(&late, RANKS, (struct dump_plan){.ring_records = 4096});
    for (uint32_t step = 0; step < 600; step++)
        make_late_step(&late, step);
    hand_job_open(&late, RANKS);
    assert_true(common_clock_build(&job.clock, late.dumps, RANKS));
    assert_true(match_directory_build(&job.directory, late.dumps, RANKS));
    for (unsigned p = 0; p < MOST; p++)
        jobs[p] = &job;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct part *parts = all_do(judge, counts[i][0], counts[i][1], jobs, &exchanges);
        if (i == 0)
            first = parts->outcome;
        for (unsigned p = 0; p < counts[i][0]; p++)
            assert_memory_equal(&parts[p].outcome, &first, sizeof first);
        free(parts);
    }
    assert_int_equal(first.stragglers, 1);
    assert_true(first.alone > 1.2 && first.slowdown > 1.1 && first.sites > 0 && first.steps > 500);
    match_directory_free(&job.directory);
    common_clock_free(&job.clock);
    hand_job_free(&late);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_process_comes_to_what_one_comes_to),
        cmocka_unit_test(nobody_waits_for_one_that_has_failed),
        cmocka_unit_test(processes_that_see_different_dumps_do_not_walk_together),
        cmocka_unit_test(parts_are_told_to_all),
        cmocka_unit_test(every_process_judges_as_one_does),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
