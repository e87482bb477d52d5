/* SPDX-License-Identifier: Apache-2.0
 *
 * Who was it really: waits passed on to those who caused them, and the critical path.
 * Lives here: small worlds with integer answers, invariants over worlds by chance.
 * Must not live here: single waits (test_waits.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/match/match.h"
#include "analyzer/waits/delay_costs.h"
#include "test/scenes/scene.h"
#include "test/unit/job_builder.h"

struct worker {
    struct delay_costs_build *build;
    unsigned number;
    struct waits waits;
};

static void take_instance(void *state, const struct match_instance *instance) {
    struct worker *worker = state;
    waits_add(&worker->waits, instance);
}

static void take_message(void *state, const struct match_message *message) {
    struct worker *worker = state;
    waits_add_message(&worker->waits, message);
}

static void take_record(void *state, const struct match_record *record) {
    struct worker *worker = state;
    delay_costs_add_record(worker->build, worker->number, record);
}

static size_t parts_most = 100000;

static struct delay_costs walk(struct hand_job *job, unsigned workers) {
    struct covered_time covered;
    const struct match_sink sink = {
        .covered = &covered, .instance = take_instance, .record = take_record, .message = take_message};
    struct worker work[4] = {0};
    void *states[4];
    struct match_totals totals;
    struct delay_costs costs;
    assert_true(covered_time_find(&covered, &job->clock));
    struct delay_costs_build *build = delay_costs_begin(&job->clock, &job->directory, &covered, workers);
    assert_non_null(build);
    delay_costs_keep_parts(build, parts_most);
    for (unsigned w = 0; w < workers; w++) {
        work[w].build = build;
        work[w].number = w;
        states[w] = &work[w];
        assert_true(waits_init(&work[w].waits, &job->clock, &job->directory));
        work[w].waits.listener = delay_costs_listener(build, w);
    }
    assert_true(match_run(&job->clock, &job->directory, &sink, states, workers, &totals));
    for (unsigned w = 0; w < workers; w++) {
        waits_finish(&work[w].waits);
        waits_free(&work[w].waits);
    }
    assert_true(delay_costs_finish(&costs, build, workers));
    covered_time_free(&covered);
    return costs;
}

/* The same for one worker and for four. */
static struct delay_costs analyse(struct hand_job *job, unsigned with_dump) {
    hand_job_open(job, with_dump);
    struct delay_costs costs = walk(job, 1), again = walk(job, 4);
    assert_memory_equal(costs.ranks, again.ranks, with_dump * sizeof *costs.ranks);
    assert_int_equal(costs.waits_ns, again.waits_ns);
    assert_int_equal(costs.path_pieces, again.path_pieces);
    assert_int_equal(costs.site_count, again.site_count);
    for (size_t i = 0; i < costs.site_count; i++) {
        const struct site_delay_costs *one = &costs.sites[i], *other = &again.sites[i];
        assert_true(one->dump == other->dump && one->stack == other->stack && one->call == other->call);
        assert_int_equal(one->path_inside_ns, other->path_inside_ns);
        assert_int_equal(one->path_before_ns, other->path_before_ns);
        assert_int_equal(one->delay_cost_inside_ns, other->delay_cost_inside_ns);
        assert_int_equal(one->delay_cost_before_ns, other->delay_cost_before_ns);
    }
    assert_int_equal(costs.part_count, again.part_count);
    assert_int_equal(costs.parts_left_out, again.parts_left_out);
    for (size_t i = 0; i < costs.part_count; i++) {
        const struct path_part *one = &costs.parts[i], *other = &again.parts[i];
        assert_true(one->from_ns == other->from_ns && one->to_ns == other->to_ns && one->inside == other->inside);
        assert_true(one->dump == other->dump && one->stack == other->stack && one->call == other->call);
    }
    delay_costs_free(&again);
    return costs;
}

static void done(struct hand_job *job, struct delay_costs *costs) {
    delay_costs_free(costs);
    hand_job_free(job);
}

static void send(struct hand_job *job, unsigned from, unsigned to, uint32_t ordinal, uint64_t enter, uint64_t leave) {
    dump_builder_p2p(job->builders[from], 0, BUILDER_SEND, 0, FLAG_SEND, (int32_t)to, 0, ordinal, 8, enter, leave);
}

static void receive(struct hand_job *job, unsigned from, unsigned to, uint32_t ordinal, uint64_t enter,
                    uint64_t leave) {
    dump_builder_p2p(job->builders[to], 0, BUILDER_RECV, 0, FLAG_RECV, (int32_t)from, 0, ordinal, 8, enter, leave);
}

/* The row of a function on one rank; all zeros where it has none. */
static struct site_delay_costs find_site(const struct hand_job *job, const struct delay_costs *costs, unsigned rank,
                                         const char *call) {
    for (size_t i = 0; i < costs->site_count; i++) {
        const struct site_delay_costs *site = &costs->sites[i];
        if (site->dump == rank && site->call != CALL_UNKNOWN &&
            strcmp(job->directory.calls[site->call].name->name, call) == 0)
            return *site;
    }
    return (struct site_delay_costs){0};
}

#define assert_site(JOB, CAUSES, RANK, CALL, FIELD, NS) assert_int_equal(find_site(JOB, CAUSES, RANK, CALL).FIELD, NS)

static int64_t caused_at_stack(const struct delay_costs *costs, unsigned rank, uint32_t stack) {
    int64_t sum = 0;
    for (size_t i = 0; i < costs->site_count; i++)
        if (costs->sites[i].dump == rank && costs->sites[i].stack == stack)
            sum += costs->sites[i].delay_cost_before_ns + costs->sites[i].delay_cost_inside_ns;
    return sum;
}

/* A pipeline 0 -> 1 -> 2: stage 0 works 1000, the others 100 each. Stage 2 waits for stage 1 directly, but stage 1 has
 * only been kept waiting by stage 0. */
static void a_slow_first_stage_is_charged_for_waits_further_down(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    dump_builder_collective(job.builders[0], 0, BUILDER_BARRIER, 0, 0, 0, 90, 100);
    dump_builder_collective(job.builders[1], 0, BUILDER_BARRIER, 0, 0, 0, 90, 100);
    dump_builder_collective(job.builders[2], 0, BUILDER_BARRIER, 0, 0, 0, 90, 100);
    send(&job, 0, 1, 0, 1100, 1101);
    receive(&job, 0, 1, 0, 100, 1110);
    send(&job, 1, 2, 0, 1210, 1211);
    receive(&job, 1, 2, 0, 100, 1220);
    struct delay_costs costs = analyse(&job, 3);
    /* stage 1 waited 1000, stage 2 1110 */
    assert_int_equal(costs.waits_ns, 2110);
    /* for stage 2's wait: stage 1 worked 100 before its send, and 10 went by in its receive after the message had been
     * sent; that stands against the 1000 that it waited */
    assert_site(&job, &costs, 1, "MPI_Send", delay_cost_before_ns, 100);
    assert_site(&job, &costs, 1, "MPI_Recv", delay_cost_inside_ns, 10);
    assert_int_equal(costs.ranks[1].delay_cost_ns, 110);
    assert_int_equal(costs.ranks[1].passed_on_ns, 1000);
    assert_int_equal(costs.ranks[1].direct_ns, 110);
    /* the 1000 that stage 1 waited, and the 1000 of stage 2's wait that it passes on */
    assert_site(&job, &costs, 0, "MPI_Send", delay_cost_before_ns, 2000);
    assert_int_equal(costs.ranks[0].delay_cost_ns, 2000);
    assert_int_equal(costs.ranks[0].direct_ns, 1000);
    assert_int_equal(costs.ranks[2].delay_cost_ns, 0);
    /* the path: stage 2 from 1210, stage 1 from 1100, stage 0 from the beginning at 90 */
    assert_int_equal(costs.from_ns, 90);
    assert_int_equal(costs.to_ns, 1220);
    assert_int_equal(costs.ranks[2].critical_path_ns, 10);
    assert_int_equal(costs.ranks[1].critical_path_ns, 110);
    assert_int_equal(costs.ranks[0].critical_path_ns, 1010);
    assert_site(&job, &costs, 0, "MPI_Barrier", path_inside_ns, 10);
    assert_site(&job, &costs, 0, "MPI_Send", path_before_ns, 1000);
    assert_site(&job, &costs, 1, "MPI_Recv", path_inside_ns, 10);
    assert_site(&job, &costs, 1, "MPI_Send", path_before_ns, 100);
    assert_site(&job, &costs, 2, "MPI_Recv", path_inside_ns, 10);
    assert_int_equal(costs.site_count, 5);
    done(&job, &costs);
}

/* Two kinds of work, each before a call of its own. Rank 1 takes 300 longer before its reduction and 50 less before
 * its barrier: only the first is what the other waited for. */
static void a_delay_belongs_to_the_call_that_the_work_leads_to(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 0, 0, 90, 100);
    /* messages each sends itself stand for calls that nobody waits in */
    for (unsigned r = 0; r < 2; r++) {
        uint64_t reached = r ? 600 : 300; /* 500 or 200 of work */
        send(&job, r, 1 - r, 0, reached, reached + 10);
        dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 1, 0, r ? 710 : 460, 720); /* 100 or 150 */
    }
    struct delay_costs costs = analyse(&job, 2);
    assert_int_equal(costs.waits_ns, 250);
    assert_site(&job, &costs, 1, "MPI_Send", delay_cost_before_ns, 250);
    assert_int_equal(costs.ranks[1].delay_cost_ns, 250);
    assert_int_equal(costs.ranks[0].delay_cost_ns, 0);
    /* on rank 1 throughout: it came last to the second barrier; the first one, where none waited, on it as well */
    assert_site(&job, &costs, 1, "MPI_Send", path_before_ns, 500);
    assert_site(&job, &costs, 1, "MPI_Send", path_inside_ns, 10);
    assert_site(&job, &costs, 1, "MPI_Barrier", path_before_ns, 100);
    done(&job, &costs);
}

/* Three ranks: of a wait for two delays each bears its part. */
static void a_wait_is_shared_in_proportion_to_the_delays(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        bool late = r == 2;
        dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 0, 0, 90, 100);
        dump_builder_plain(job.builders[r], 0, BUILDER_WAIT, late ? 500 : 200, late ? 700 : 300); /* 400/100, 200/100 */
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 1, 8, late ? 800 : 400, 810); /* 100/100 */
    }
    struct delay_costs costs = analyse(&job, 3);
    assert_int_equal(costs.waits_ns, 2 * 400);
    assert_site(&job, &costs, 2, "MPI_Wait", delay_cost_before_ns, 2 * 300);
    assert_site(&job, &costs, 2, "MPI_Wait", delay_cost_inside_ns, 2 * 100);
    assert_int_equal(costs.ranks[2].delay_cost_ns, 2 * 400);
    assert_int_equal(costs.ranks[2].imposed_ns, 2 * 400);
    done(&job, &costs);
}

/* The same functions from other places in the program are other ways, and the same way is the same on every rank
 * although stacks have other numbers there and libraries lie elsewhere. */
static void ways_are_told_apart_by_the_stack(void **state) {
    (void)state;
    enum { LATE = 1 };
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        uint64_t base = 0x1000000 * (r + 1), first = base + 0x100, second = base + 0x200;
        uint32_t a = r ? 7 : 3, b = r ? 3 : 7;
        dump_builder_module(job.builders[r], "/lib/program", "id", 2, base, 0x1000);
        dump_builder_stack(job.builders[r], a, &first, 1);
        dump_builder_stack(job.builders[r], b, &second, 1);
        dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 0, 0, 90, 100);
        /* at `a` rank 1 comes 200 early, at `b` 500 late */
        dump_builder_plain(job.builders[r], 0, BUILDER_WAIT, r ? 200 : 400, r ? 210 : 410)->stack = a;
        dump_builder_plain(job.builders[r], 0, BUILDER_WAIT, r == LATE ? 900 : 600, r == LATE ? 910 : 610)->stack = b;
        dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 1, 0, r == LATE ? 1000 : 700, 1010);
    }
    struct delay_costs costs = analyse(&job, 2);
    assert_int_equal(costs.waits_ns, 300);
    assert_int_equal(caused_at_stack(&costs, LATE, 3), 300);
    assert_int_equal(caused_at_stack(&costs, LATE, 7), 0);
    done(&job, &costs);
}

static void a_rank_that_is_late_by_itself_bears_all(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 0, 0, 90, 100);
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 1, 8, r == 1 ? 900 : 200 + r, 910);
    }
    struct delay_costs costs = analyse(&job, 3);
    assert_int_equal(costs.waits_ns, 700 + 698);
    assert_int_equal(costs.ranks[1].delay_cost_ns, 700 + 698);
    assert_int_equal(costs.ranks[1].imposed_ns, 2 * (900 - 202));
    assert_int_equal(costs.ranks[1].passed_on_ns, 0);
    done(&job, &costs);
}

/* ---- whatever happens ------------------------------------------------------------------------ */

enum { RANKS = 6, ROUNDS = 120 };

/* Work of any length, then a collective of all or a message between two: nobody leaves before who it waits for came. */
static void play(struct hand_job *job, uint64_t seed) {
    uint64_t now[RANKS], random = seed * 97 + 3;
    uint32_t ordinal[RANKS][RANKS] = {{0}}, seq = 0;
    for (unsigned r = 0; r < RANKS; r++)
        now[r] = 1000 + r;
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned r = 0; r < RANKS; r++)
            now[r] += 1 + (uint64_t)(scene_uniform(&random) * 300);
        if (scene_uniform(&random) < 0.3) {
            uint64_t last = 0;
            for (unsigned r = 0; r < RANKS; r++)
                last = now[r] > last ? now[r] : last;
            for (unsigned r = 0; r < RANKS; r++) {
                dump_builder_collective(job->builders[r], 0, BUILDER_ALLREDUCE, 0, seq, 8, now[r], last + 5);
                now[r] = last + 5;
            }
            seq++;
            continue;
        }
        unsigned from = (unsigned)(scene_uniform(&random) * RANKS), to = (from + 1 + i % (RANKS - 1)) % RANKS;
        uint64_t end = (now[from] > now[to] ? now[from] : now[to]) + 7;
        send(job, from, to, ordinal[from][to], now[from], now[from] + 2);
        receive(job, from, to, ordinal[from][to]++, now[to], end);
        now[from] += 2;
        now[to] = end;
    }
}

/* Each begins where the one before it ended, and together they are what ranks and sites were on the path. */
static void assert_parts_make_the_path(const struct delay_costs *costs) {
    int64_t on_rank[RANKS] = {0}, inside = 0, before = 0;
    assert_int_equal(costs->parts_left_out, 0);
    assert_int_equal(costs->parts[0].from_ns, costs->from_ns);
    assert_int_equal(costs->parts[costs->part_count - 1].to_ns, costs->to_ns);
    for (size_t i = 0; i < costs->part_count; i++) {
        const struct path_part *part = &costs->parts[i];
        assert_true(part->to_ns > part->from_ns);
        if (i > 0)
            assert_int_equal(part->from_ns, part[-1].to_ns);
        on_rank[part->dump] += part->to_ns - part->from_ns;
        *(part->inside ? &inside : &before) += part->to_ns - part->from_ns;
    }
    for (unsigned r = 0; r < RANKS; r++)
        assert_int_equal(on_rank[r], costs->ranks[r].critical_path_ns);
    for (size_t i = 0; i < costs->site_count; i++) {
        inside -= costs->sites[i].path_inside_ns;
        before -= costs->sites[i].path_before_ns;
    }
    assert_true(inside == 0 && before == 0);
}

static void of_many_parts_the_last_are_kept_and_none_where_none_are_asked_for(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, RANKS, (struct dump_plan){0});
    play(&job, 7);
    struct delay_costs all = analyse(&job, RANKS);
    parts_most = 5;
    struct delay_costs few = walk(&job, 1);
    parts_most = 0;
    struct delay_costs none = walk(&job, 1);
    parts_most = 100000;
    assert_true(all.part_count > 10);
    assert_int_equal(few.part_count, 5);
    assert_int_equal(few.parts_left_out, all.part_count - 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(few.parts[i].from_ns, all.parts[all.part_count - 5 + i].from_ns);
        assert_int_equal(few.parts[i].to_ns, all.parts[all.part_count - 5 + i].to_ns);
    }
    assert_null(none.parts);
    assert_int_equal(none.part_count + none.parts_left_out, 0);
    assert_int_equal(none.path_ns, all.path_ns);
    delay_costs_free(&few);
    delay_costs_free(&none);
    done(&job, &all);
}

static void costs_sum_to_the_waits_and_the_path_to_the_time(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct hand_job job;
        int64_t caused = 0, direct = 0, passed = 0, path = 0, caused_at = 0, path_at = 0;
        hand_job_make(&job, RANKS, (struct dump_plan){0});
        play(&job, seed);
        struct delay_costs costs = analyse(&job, RANKS);
        for (unsigned r = 0; r < RANKS; r++) {
            assert_true(costs.ranks[r].delay_cost_ns >= 0 && costs.ranks[r].critical_path_ns >= 0);
            assert_in_range(costs.ranks[r].direct_ns, 0, costs.ranks[r].delay_cost_ns);
            direct += costs.ranks[r].direct_ns;
            passed += costs.ranks[r].passed_on_ns;
            caused += costs.ranks[r].delay_cost_ns;
            path += costs.ranks[r].critical_path_ns;
        }
        for (size_t i = 0; i < costs.site_count; i++) {
            const struct site_delay_costs *site = &costs.sites[i];
            assert_true(site->delay_cost_before_ns >= 0 && site->delay_cost_inside_ns >= 0);
            caused_at += site->delay_cost_before_ns + site->delay_cost_inside_ns;
            path_at += site->path_before_ns + site->path_inside_ns;
        }
        assert_int_equal(caused_at, caused);
        assert_int_equal(path_at, path);
        assert_true(costs.waits_ns > 0);
        assert_int_equal(caused, costs.waits_ns);
        assert_in_range(costs.waits_ns - (direct + passed), 0, RANKS); /* each wait is the one or the other */
        assert_int_equal(path, costs.to_ns - costs.from_ns);
        assert_true(costs.path_pieces > 5);
        assert_parts_make_the_path(&costs);
        done(&job, &costs);
    }
}

static void rooted(struct hand_job *job, uint16_t call, uint32_t seq, const uint64_t times[3][2]) {
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(job->builders[r], 0, call, 0, seq, 8, times[r][0], times[r][1])->peer = 0;
}

/* Rank 2 comes late to a reduction that its root alone waits for; rank 1 waits for the root in the broadcast that
 * follows, from before rank 2 came on. That the three met in the reduction meanwhile does not make it the root's delay.
 */
static void a_root_that_was_kept_in_a_reduction_passes_on_the_wait_behind_it(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 0, 0, 90, 100);
    rooted(&job, BUILDER_REDUCE, 1, (const uint64_t[3][2]){{110, 1105}, {110, 111}, {1100, 1101}});
    rooted(&job, BUILDER_BCAST, 2, (const uint64_t[3][2]){{1110, 1112}, {115, 1120}, {1110, 1120}});
    struct delay_costs costs = analyse(&job, 3);
    assert_int_equal(costs.waits_ns, 990 + 995);
    /* of rank 1's 995: the root's 990, and 4 in the reduction and 1 before the broadcast that the root took longer */
    assert_int_equal(costs.ranks[2].delay_cost_ns, 990 + 990);
    assert_int_equal(costs.ranks[0].delay_cost_ns, 5);
    assert_int_equal(costs.ranks[0].passed_on_ns, 990);
    done(&job, &costs);
}

/* Rank 1 waits for rank 2, and rank 0, beside it, for rank 1. Ranks 0 and 1 exchange `messages` each way, those of rank
 * 0 all while rank 1 waits, and the last of rank 1 ends what rank 0 waits for. */
static void play_exchange(struct hand_job *job, unsigned messages) {
    hand_job_make(job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(job->builders[r], 0, BUILDER_BARRIER, 0, 0, 0, 90, 100);
    send(job, 2, 1, 0, 10100, 10101);
    receive(job, 2, 1, 0, 100, 10101);
    for (unsigned m = 0; m < messages; m++) {
        send(job, 0, 1, m, 110 + 2 * m, 111 + 2 * m);
        receive(job, 0, 1, m, 10110 + 2 * m, 10111 + 2 * m);
    }
    send(job, 1, 0, 0, 10200, 10201);
    receive(job, 1, 0, 0, 200, 10201);
}

/* However many of rank 0's messages come in while it waits for rank 1: the delay is rank 2's. */
static void messages_that_go_the_other_way_end_no_wait(void **state) {
    (void)state;
    for (unsigned messages = 1; messages <= 12; messages++) {
        struct hand_job job;
        play_exchange(&job, messages);
        struct delay_costs costs = analyse(&job, 3);
        assert_int_equal(costs.waits_ns, 10000 + 10000);
        assert_true(costs.ranks[2].delay_cost_ns > 19800);
        assert_true(costs.ranks[1].delay_cost_ns < 200);
        assert_int_equal(costs.ranks[1].delay_cost_ns + costs.ranks[2].delay_cost_ns, costs.waits_ns);
        done(&job, &costs);
    }
}

static void nothing_is_charged_where_nothing_happened(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){0});
    struct delay_costs costs = analyse(&job, 2);
    assert_int_equal(costs.waits_ns, 0);
    assert_true(costs.from_ns > costs.to_ns);
    assert_int_equal(costs.path_pieces, 0);
    done(&job, &costs);
}

/* Rank 1 comes 50 late to each of 20 collectives, of which the first three and the last four are on record. */
static void nothing_goes_on_in_a_hole(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){.ring_records = 4, .windows = 1});
    for (unsigned r = 0; r < 2; r++) {
        struct trace_window_block *block = dump_builder_window(job.builders[r], 0, 1);
        for (unsigned n = 0; n < 20; n++) {
            struct record *record =
                dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, n, 0, 100 * n + 50 * r, 100 * n + 60);
            if (n < 3)
                block->records[block->used++] = *record;
        }
        dump_builder_lane(job.builders[r], 0)->head = 20;
    }
    struct delay_costs costs = analyse(&job, 2);
    /* the fourth last only tells since when the ranks are known: until it ended others may be missing */
    assert_int_equal(costs.waits_ns, 6 * 50);
    assert_int_equal(costs.ranks[1].delay_cost_ns, 6 * 50);
    /* from 0 to 260 and from 1660 to 1960; each path ends with the last 10 on rank 0 */
    assert_int_equal(costs.path_ns, 260 + 300);
    assert_int_equal(costs.from_ns, 0);
    assert_int_equal(costs.to_ns, 1960);
    assert_int_equal(costs.ranks[0].critical_path_ns, 20);
    assert_int_equal(costs.ranks[1].critical_path_ns, 540);
    assert_site(&job, &costs, 1, "MPI_Barrier", path_before_ns, 50 + 2 * 90 + 3 * 90);
    assert_true(costs.partial && !costs.end_only);
    unsigned gaps = 0;
    for (size_t i = 1; i < costs.part_count; i++)
        gaps += costs.parts[i].from_ns != costs.parts[i - 1].to_ns;
    assert_int_equal(gaps, 1);
    assert_int_equal(costs.parts[0].from_ns, 0);
    assert_int_equal(costs.parts[costs.part_count - 1].to_ns, 1960);
    done(&job, &costs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_first_stage_is_charged_for_waits_further_down),
        cmocka_unit_test(a_delay_belongs_to_the_call_that_the_work_leads_to),
        cmocka_unit_test(a_wait_is_shared_in_proportion_to_the_delays),
        cmocka_unit_test(ways_are_told_apart_by_the_stack),
        cmocka_unit_test(a_rank_that_is_late_by_itself_bears_all),
        cmocka_unit_test(costs_sum_to_the_waits_and_the_path_to_the_time),
        cmocka_unit_test(of_many_parts_the_last_are_kept_and_none_where_none_are_asked_for),
        cmocka_unit_test(a_root_that_was_kept_in_a_reduction_passes_on_the_wait_behind_it),
        cmocka_unit_test(messages_that_go_the_other_way_end_no_wait),
        cmocka_unit_test(nothing_is_charged_where_nothing_happened),
        cmocka_unit_test(nothing_goes_on_in_a_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
