/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: which of the verdicts holds: what is asked first, and what comes before what.
 * Must not live here: sentences, how waits are found (wait_for_graph/graph_build.c).
 */
#include "analyzer/diagnose/diagnose.h"

#include <stdlib.h>

#include "analyzer/diagnose/blame.h"
#include "analyzer/diagnose/weigh.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/beats.h"

/* No MPI lets a process out of MPI_Finalize before all have come to it. */
static void judge_finalize(struct diagnosis *diagnosis) {
    for (uint32_t p = 0; p < diagnosis->world.party_count; p++)
        if (is_at_work(&diagnosis->wait_for_graph.parties[p]) &&
            !(diagnosis->world.parties[p].dump->header->state & STATE_SWITCHED_OFF)) {
            diagnosis->verdict = VERDICT_HANG;
            blame_awaited(diagnosis, p);
        }
}

/* Whether ranks wait in MPI_Finalize, or did. A library that has lost its launcher gives that up: in a job that is
 * over, whoever never came to it was waited for. */
static bool waits_in_finalize(const struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    for (uint32_t p = 0; p < diagnosis->world.dump_count; p++)
        if (waits->parties[p].doing == DOING_FINALIZE ||
            (!waits->any_alive && waits->parties[p].doing == DOING_FINISHED &&
             diagnosis->world.parties[p].dump->header->finalise_ticks > 0))
            return true;
    return false;
}

/* Whether all are on record, and exited while nobody waited: a program may end so that has done its work. */
static bool all_left_by_exit(const struct world *world) {
    bool finalised = true;
    for (uint32_t p = 0; p < world->dump_count; p++) {
        if (!exited_at_work(world->parties[p].dump))
            return false;
        finalised &= has_finished(world->parties[p].dump);
    }
    return !finalised && world->party_count == world->dump_count;
}

/* Nobody waits in a call that tells for whom; what can still be said. */
static void judge_the_rest(struct diagnosis *diagnosis) {
    diagnosis->left_by_exit = certain_death(diagnosis) == NOBODY && all_left_by_exit(&diagnosis->world);
    if (diagnosis->left_by_exit) {
        diagnosis->verdict = VERDICT_UNKNOWN;
        return;
    }
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    uint32_t in_init = 0, gone = 0, missing = 0;
    for (uint32_t p = 0; p < diagnosis->world.party_count; p++) {
        in_init += waits->parties[p].doing == DOING_INIT;
        gone += waits->parties[p].doing == DOING_GONE;
        missing += waits->parties[p].doing == DOING_UNKNOWN;
    }
    bool dead = gone > 0 || (in_init > 0 && missing > 0);
    diagnosis->verdict = dead ? VERDICT_DEAD_RANK : in_init > 0 ? VERDICT_HANG : VERDICT_OK;
    if (diagnosis->verdict == VERDICT_OK && waits_in_finalize(diagnosis))
        judge_finalize(diagnosis);
    for (uint32_t p = 0; dead && p < diagnosis->world.party_count; p++)
        if (waits->parties[p].doing == DOING_GONE || (in_init > 0 && waits->parties[p].doing == DOING_UNKNOWN)) {
            blame_awaited(diagnosis, p);
        }
}

static bool anybody_waits(const struct diagnosis *diagnosis) {
    for (uint32_t p = 0; p < diagnosis->world.party_count; p++)
        if (diagnosis->wait_for_graph.parties[p].doing == DOING_BLOCKED || diagnosis->wait_for_graph.parties[p].stopped)
            return true;
    return false;
}

static bool lane_has_failed_collectives(const struct dump *dump, const struct dump_lane *lane) {
    for (uint32_t i = 0; i < lane->operation_count; i++) {
        struct operation_row row;
        enum row_state read = operation_row_read(dump, &lane->operations[i], &row);
        if ((read == ROW_STABLE || read == ROW_TORN) && row.failed > 0 &&
            dump_call(dump, row.call)->call_class == CLASS_COLLECTIVE)
            return true;
    }
    return false;
}

/* Ranks whose collectives returned errors have been told that they disagree: by lengths that do not fit, or by a call
 * that the others made and they did not. */
static bool collectives_failed(const struct diagnosis *diagnosis) {
    for (uint32_t p = 0; p < diagnosis->world.party_count; p++) {
        const struct dump *dump = diagnosis->world.parties[p].dump;
        for (uint32_t lane = 0; dump && lane < dump->lane_count; lane++)
            if (lane_has_failed_collectives(dump, &dump->lanes[lane]))
                return true;
    }
    return false;
}

/* NCCL moves as many bytes as both sides say; where they differ it never ends, or overwrites something. */
static bool find_unequal_message(struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    for (size_t i = 0; i < waits->count; i++) {
        const struct wait *wait = &waits->items[i];
        if (!wait->unequal || wait->peer_party == NOBODY)
            continue;
        bool sends = wait->call->call_class == CLASS_SEND;
        const struct signature own = {
            .call = wait->call, .bytes = wait->bytes, .root = PEER_NONE, .stack = wait->stack};
        const struct signature other = {
            .call = wait->other_call, .bytes = wait->other_bytes, .root = PEER_NONE, .stack = wait->other_stack};
        bool done = mismatch_of_message(&diagnosis->mismatch, wait->communicator, wait->seq,
                                        sends ? wait->party : wait->peer_party, sends ? &own : &other,
                                        sends ? wait->peer_party : wait->party, sends ? &other : &own);
        diagnosis->mismatch.number = wait->number;
        diagnosis->mismatch.number_party = wait->party;
        return done;
    }
    return true;
}

/* A collective that all have come to, and that cannot end as they called it. */
static bool find_unfit_sizes(struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    bool done = true;
    for (size_t i = 0; done && i < waits->stalled_count && !diagnosis->mismatch.communicator; i++)
        if (waits->stalled[i].device && !waits->stalled[i].replayed && waits->stalled[i].missing == 0)
            done = mismatch_of_sizes(&diagnosis->mismatch, &diagnosis->world, waits->stalled[i].communicator,
                                     waits->stalled[i].seq);
    return done;
}

static bool judge_waits(struct diagnosis *diagnosis) {
    if (!desync_find(&diagnosis->mismatch, &diagnosis->overcome, &diagnosis->world))
        return false;
    /* a job may come to its end with it, and wrong results */
    bool differ = diagnosis->mismatch.communicator || diagnosis->overcome.communicator;
    if (differ && !anybody_waits(diagnosis) && collectives_failed(diagnosis)) {
        mismatch_free(&diagnosis->mismatch);
        mismatch_free(&diagnosis->overcome);
    }
    if (!diagnosis->mismatch.communicator && (!find_unequal_message(diagnosis) || !find_unfit_sizes(diagnosis)))
        return false;
    if (diagnosis->mismatch.communicator) {
        blame_mismatch(diagnosis);
        return true;
    }
    if (!anybody_waits(diagnosis)) {
        judge_the_rest(diagnosis);
        return true;
    }
    if (find_cycle(diagnosis)) {
        blame_cycle(diagnosis);
        return true;
    }
    return blame_sinks(diagnosis);
}

/* Which parties came on between two looks, or may have: of processes that cannot be asked there may be just a copy.
 * NULL when none is known to. *unknown is set where one is not known by its rank. */
static bool *moving_parties(struct diagnosis *diagnosis, const struct diagnose_request *request, bool *unknown) {
    const struct world *world = &diagnosis->world;
    bool *moving = request->moving_count > 0 ? calloc((size_t)world->party_count + 1, sizeof *moving) : NULL;
    diagnosis->no_memory |= request->moving_count > 0 && !moving;
    for (uint32_t p = 0; moving && p < world->dump_count; p++)
        moving[p] = world->parties[p].process != PROCESS_RUNS && world->parties[p].process != PROCESS_STOPPED;
    for (size_t i = 0; moving && i < request->moving_count; i++) {
        int32_t rank = request->moving[i];
        uint32_t party = rank >= 0 && (uint32_t)rank < world->rank_count ? world->party_of_rank[rank] : NOBODY;
        if (party == NOBODY)
            *unknown = true;
        else
            moving[party] = true;
    }
    return moving;
}

/* Whoever waits for one that moves may be released; a circle of those that do not never is. */
static void judge_those_that_stand(struct diagnosis *diagnosis) {
    diagnosis->verdict = VERDICT_OK;
    if (find_cycle(diagnosis))
        blame_cycle(diagnosis);
}

static bool find_waits(struct diagnosis *diagnosis, const struct diagnose_request *request, bool deaths_left_out) {
    bool unknown = false, *moving = moving_parties(diagnosis, request, &unknown);
    const struct circumstances circumstances = {.settled = request->settled || (request->moving_count > 0 && !unknown),
                                                .moving = moving,
                                                .now = request->settled ? request->now : NULL,
                                                .dead = certain_death(diagnosis),
                                                .first = &diagnosis->first_death,
                                                .deaths_left_out = deaths_left_out,
                                                .suspended = diagnosis->suspended};
    bool done = wait_for_graph_build(&diagnosis->wait_for_graph, &diagnosis->world, &circumstances);
    free(moving);
    return done && !diagnosis->no_memory;
}

/* ---- before the first death ------------------------------------------------------------------ */

static bool is_blamed(const struct diagnosis *diagnosis, uint32_t party) {
    for (size_t i = 0; i < diagnosis->culprit_count; i++)
        if (diagnosis->culprits[i].party == party)
            return true;
    return false;
}

/* Whether the job stood already when the first of its processes ended. A circle of waits never opens, however young it
 * is. Other waits are more than work where they are older than is usual, unless they are for the one that ended, of
 * itself: the longer its work took. */
static bool judge_as_it_stood(struct diagnosis *diagnosis, bool *stood) {
    if (!judge_waits(diagnosis))
        return false;
    bool circle = diagnosis->verdict == VERDICT_DEADLOCK && !circle_has_gpus(diagnosis);
    *stood = circle || diagnosis->verdict == VERDICT_DESYNC;
    if (diagnosis->verdict == VERDICT_DESYNC || diagnosis->verdict == VERDICT_OK)
        return true;
    if (!standing_find_before(&diagnosis->standing, &diagnosis->wait_for_graph, &diagnosis->first_death.when))
        return false;
    bool explains = diagnosis->first_death.of_itself && is_blamed(diagnosis, diagnosis->first_death.party);
    *stood |= diagnosis->standing.kind == STANDING_LONG && !explains;
    return true;
}

static void forget_judgement(struct diagnosis *diagnosis) {
    free(diagnosis->culprits);
    free(diagnosis->cycle);
    mismatch_free(&diagnosis->mismatch);
    mismatch_free(&diagnosis->overcome);
    wait_for_graph_free(&diagnosis->wait_for_graph);
    diagnosis->culprits = NULL;
    diagnosis->cycle = NULL;
    diagnosis->culprit_count = diagnosis->cycle_count = 0;
    diagnosis->standing = (struct standing){.party = NOBODY};
    diagnosis->verdict = VERDICT_UNKNOWN;
    diagnosis->partner_untold = false;
}

/* What holds a job up comes before its end: launchers and users end what stands, one process after the other. */
static bool judge(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    diagnosis->first_death = first_death_find(&diagnosis->world, request->end);
    if (diagnosis->first_death.known) {
        if (!find_waits(diagnosis, request, true) || !judge_as_it_stood(diagnosis, &diagnosis->stood_before_death))
            return false;
        if (diagnosis->stood_before_death)
            return true;
        forget_judgement(diagnosis);
    }
    return find_waits(diagnosis, request, false) && judge_waits(diagnosis) && weigh(diagnosis, request);
}

/* A job that is stopped as a whole waits for none of its ranks. */
static bool is_stopped_as_a_whole(const struct world *world) {
    for (uint32_t p = 0; p < world->dump_count; p++)
        if (world->parties[p].process != PROCESS_STOPPED)
            return false;
    return world->dump_count > 0;
}

/* Where ranks disagree, or wait in a circle, that stays true when they go on. */
static void judge_suspended(struct diagnosis *diagnosis) {
    diagnosis->suspended &= diagnosis->verdict == VERDICT_HANG || diagnosis->verdict == VERDICT_OK;
    if (!diagnosis->suspended)
        return;
    diagnosis->verdict = VERDICT_OK;
    diagnosis->culprit_count = 0;
}

/* What ranks did whose dumps are on other hosts is known there: that others wait for them says nothing of them. */
static void judge_uncollected(struct diagnosis *diagnosis) {
    diagnosis->uncollected = (diagnosis->verdict == VERDICT_HANG || diagnosis->verdict == VERDICT_DEAD_RANK) &&
                             diagnosis->culprit_count > 0 && diagnosis->cycle_count == 0;
    for (size_t i = 0; i < diagnosis->culprit_count; i++)
        diagnosis->uncollected &= diagnosis->culprits[i].state == CULPRIT_NOT_COLLECTED;
    if (diagnosis->uncollected)
        diagnosis->verdict = VERDICT_UNKNOWN;
}

/* Where nothing holds the job up, that ranks disagreed is what there is to say. */
static void judge_overcome(struct diagnosis *diagnosis) {
    bool nobody = diagnosis->verdict == VERDICT_OK || diagnosis->verdict == VERDICT_UNKNOWN;
    if (!diagnosis->overcome.communicator || !nobody || diagnosis->culprit_count > 0)
        return;
    diagnosis->mismatch = diagnosis->overcome;
    diagnosis->overcome = (struct mismatch){0};
    blame_mismatch(diagnosis);
}

/* A rank that reads its modules, or is on a node that comes up late, has no dump yet. */
static void judge_starting(struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    diagnosis->starting = waits->any_alive && diagnosis->verdict == VERDICT_DEAD_RANK;
    for (uint32_t p = 0; p < diagnosis->world.dump_count; p++)
        diagnosis->starting &= waits->parties[p].doing == DOING_INIT;
    if (diagnosis->starting)
        diagnosis->verdict = VERDICT_UNKNOWN;
}

/* Whether nothing but that no rank waits in a call speaks for the verdict, or against another one. */
static bool nothing_is_seen(const struct diagnosis *diagnosis) {
    bool untold = diagnosis->verdict == VERDICT_UNKNOWN && !diagnosis->partner_untold && !diagnosis->left_by_exit &&
                  !diagnosis->starting && !diagnosis->uncollected;
    return (diagnosis->verdict == VERDICT_OK || untold) && diagnosis->standing.kind == STANDING_NONE &&
           !diagnosis->suspended && diagnosis->culprit_count == 0;
}

/* What graphs replay shows where it has ended. Ranks that replay some, and of which nothing has been seen for long, may
 * wait for each other there. */
static bool judge_silence(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    bool stands = request->settled && request->now, over = !diagnosis->wait_for_graph.any_alive;
    if (request->moving_count > 0 || (!stands && !over) || !nothing_is_seen(diagnosis))
        return true;
    if (!standing_find_silence(&diagnosis->silence, &diagnosis->wait_for_graph, request->end,
                               stands ? request->now : NULL))
        return false;
    enum standing_kind kind = diagnosis->silence.standing.kind;
    diagnosis->in_graphs = kind == STANDING_LONG || kind == STANDING_UNTOLD;
    if (diagnosis->in_graphs)
        diagnosis->verdict = VERDICT_UNKNOWN;
    return true;
}

static int compare_culprits(const void *a, const void *b) {
    const struct culprit *left = a, *right = b;
    return left->party < right->party ? -1 : left->party > right->party;
}

bool diagnose(struct diagnosis *diagnosis, const struct job *job, const struct diagnose_request *request) {
    *diagnosis = (struct diagnosis){.verdict = VERDICT_UNKNOWN};
    if (request->end)
        diagnosis->end = *request->end;
    if (!world_build(&diagnosis->world, job, request->states) || !beats_take_in(&diagnosis->world) ||
        !beats_ask_the_living(&diagnosis->world))
        return false;
    diagnosis->suspended = is_stopped_as_a_whole(&diagnosis->world);
    if (request->moving_count > 0) {
        if (!find_waits(diagnosis, request, false))
            return false;
        judge_those_that_stand(diagnosis);
    } else if (!judge(diagnosis, request)) {
        return false;
    }
    judge_suspended(diagnosis);
    judge_uncollected(diagnosis);
    judge_starting(diagnosis);
    judge_overcome(diagnosis);
    if (!judge_silence(diagnosis, request))
        return false;
    weigh_absences(diagnosis, request);
    if (diagnosis->culprit_count > 0 && diagnosis->verdict != VERDICT_DEADLOCK)
        qsort(diagnosis->culprits, diagnosis->culprit_count, sizeof *diagnosis->culprits, compare_culprits);
    bool waits = diagnosis->verdict != VERDICT_OK && diagnosis->verdict != VERDICT_UNKNOWN;
    return !diagnosis->no_memory &&
           (!waits || unmatched_messages_find(&diagnosis->unmatched, &diagnosis->wait_for_graph));
}

bool diagnose_waits(struct diagnosis *diagnosis, const struct job *job, const struct diagnose_request *request) {
    *diagnosis = (struct diagnosis){.verdict = VERDICT_UNKNOWN};
    if (request->end)
        diagnosis->end = *request->end;
    if (!world_build(&diagnosis->world, job, request->states))
        return false;
    diagnosis->first_death = first_death_find(&diagnosis->world, request->end);
    return find_waits(diagnosis, request, false);
}
