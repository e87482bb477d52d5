/* SPDX-License-Identifier: Apache-2.0
 *
 * One walk over all dumps: the workers and their rounds.
 * Must not live here: what a worker reads (walk.c), putting together what belongs together (pairing.c), what a late
 * arrival costs.
 */
#include "analyzer/match/match.h"

#include <stdlib.h>

#include "analyzer/base/cache_lines.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/match/between.h"
#include "analyzer/match/pairing.h"
#include "analyzer/match/shares.h"
#include "analyzer/match/walk.h"

enum {
    ROUND_BATCHES = 64, /* that a worker reads in a round ... */
    SHARED_ROUND = 512, /* ... where other processes wait for it: milliseconds, beside which messages are short */
    PROGRESS_RECORDS = 1 << 17,
};

/* ---- rounds: everybody pairs what all have read by then, and reads on ---------------------------------------------
 */

/* The walk as all workers share it. */
struct match_workers {
    unsigned count;
    unsigned first, own;     /* those of this process */
    struct between *between; /* the others, NULL: there are none */
    unsigned round_batches;
    struct walk_dump *dumps;
    struct match_walk *walks;
    struct pairing *pairings;
    struct arrivals *told;        /* by worker w to worker v: told[w * count + v], to be paired */
    struct arrivals *told_now[2]; /* the same, from this round and from the last one, in turns */
    unsigned now;                 /* told_now[now] is this round's */
    unsigned batches;             /* read in this round by all of this process */
    uint32_t *worker_of;          /* per dump */
    struct arrival_turn *next;    /* per worker: of its next batch that was not read before this round */
    uint64_t records;             /* of all dumps */
};

/* The turn of what is not there. */
static const struct arrival_turn never = {INT64_MAX, UINT32_MAX};

/* Reading ends for all at the same time: who has less to pair reads more. But nobody gets far ahead, or hardly on. */
static bool is_round_read(struct match_workers *all, unsigned own) {
    unsigned least = all->round_batches / 2, most = all->round_batches + least;
    return own >= most ||
           (own > least && __atomic_load_n(&all->batches, __ATOMIC_RELAXED) >= all->own * all->round_batches);
}

/* A worker alone pairs each batch while it is warm. One whose batches wait for others to come so far reads no more. */
static void read_on(struct match_workers *all, size_t worker) {
    struct match_walk *walk = &all->walks[worker];
    bool ahead = all->told[worker * all->count + worker].batches >= all->round_batches;
    walk->told = all->told_now[all->now] + worker * all->count;
    for (unsigned own = 0; !ahead && walk->heap_count > 0 && !walk->failed && !is_round_read(all, own); own++) {
        match_walk_read_batch(walk);
        __atomic_add_fetch(&all->batches, 1, __ATOMIC_RELAXED);
    }
}

/* The worker whose oldest batch to this one comes first, unless one that has not been read yet comes before; `count`:
 * none. */
static unsigned first_teller(const struct match_workers *all, size_t worker) {
    struct arrival_turn first = never;
    unsigned teller = all->count;
    for (unsigned w = 0; w < all->count; w++) {
        const struct arrival_batch *batch = arrivals_front(&all->told[(size_t)w * all->count + worker]);
        const struct arrival_turn *turn = batch ? &batch->turn : &all->next[w];
        if (!arrival_turn_before(turn, &first))
            continue;
        first = *turn;
        teller = batch ? w : all->count;
    }
    return teller;
}

/* Adds what worker w told worker v in the last round to what is to be paired. */
static bool take_over(const struct match_workers *all, size_t w, size_t v) {
    struct arrivals *told = &all->told[w * all->count + v];
    arrivals_move(told, &all->told_now[1 - all->now][w * all->count + v]);
    return !told->no_memory;
}

/* What own workers told: what those of other processes did has come already. */
static void pair(const struct match_workers *all, size_t worker) {
    struct pairing *pairing = &all->pairings[worker];
    for (size_t w = all->first; w < all->first + all->own; w++)
        pairing->no_memory |= !take_over(all, w, worker);
    for (unsigned w; !pairing->no_memory && (w = first_teller(all, worker)) < all->count;) {
        struct arrivals *told = &all->told[(size_t)w * all->count + worker];
        pairing_take(pairing, arrivals_front(told));
        arrivals_pop(told);
    }
}

static void do_round(void *context, size_t number) {
    struct match_workers *all = context;
    pair(all, all->first + number);
    read_on(all, all->first + number);
}

static void close_round(void *context, size_t number) {
    struct match_workers *all = context;
    pair(all, all->first + number);
    if (!all->pairings[all->first + number].no_memory)
        pairing_close(&all->pairings[all->first + number]);
}

/* What was read now is for the next round; what is for other processes is made ready. False when memory is short. */
static bool end_round(struct match_workers *all) {
    bool done = true;
    all->now = 1 - all->now;
    all->batches = 0;
    for (unsigned w = all->first; w < all->first + all->own; w++) {
        const struct match_walk *walk = &all->walks[w];
        all->next[w] = walk->heap_count > 0 ? walk->dumps[walk->heap[0]].turn : never;
        for (unsigned v = 0; v < all->count; v++)
            done = (v >= all->first && v < all->first + all->own) || take_over(all, w, v) ? done : false;
    }
    return done;
}

/* How far own workers have come. Returns false when memory was short. */
static bool look_at_own(const struct match_workers *all, struct between_round *round) {
    bool failed = false;
    *round = (struct between_round){0};
    for (unsigned w = all->first; w < all->first + all->own; w++) {
        failed |= all->walks[w].failed || all->pairings[w].no_memory;
        round->more |= all->walks[w].heap_count > 0;
        round->read += all->walks[w].read;
    }
    return !failed;
}

/* What one worker alone reads is paired while it is warm. */
static bool walk_rounds(struct match_workers *all, struct crew *crew, const struct match_sink *sink) {
    uint64_t shown = PROGRESS_RECORDS;
    struct between_round round;
    bool done = look_at_own(all, &round);
    for (round.more = done; done && round.more;) {
        crew_do(crew, all->own, do_round, all);
        done = end_round(all) && look_at_own(all, &round);
        if (all->between)
            done = between_rounds(all->between, !done, &round);
        if (sink->progress && round.read >= shown) {
            sink->progress(sink->progress_context,
                           round.read < all->records ? (unsigned)(round.read * 1000 / all->records) : 1000);
            shown = round.read + PROGRESS_RECORDS;
        }
    }
    if (done)
        crew_do(crew, all->own, close_round, all);
    return done && look_at_own(all, &round);
}

static bool walk_all(struct match_workers *all, const struct match_sink *sink) {
    struct crew *crew = crew_begin(all->own);
    bool done = walk_rounds(all, crew, sink);
    crew_end(crew);
    return done;
}

void match_totals_add(struct match_totals *sum, const struct match_totals *part) {
    sum->records += part->records;
    sum->collective += part->collective;
    sum->matched += part->matched;
    sum->unmatchable += part->unmatchable;
    sum->instances += part->instances;
    sum->partial += part->partial;
    sum->stale += part->stale;
    sum->mismatches += part->mismatches;
    sum->halves += part->halves;
    sum->messages += part->messages;
    sum->halves_alone += part->halves_alone;
    sum->halves_unmatchable += part->halves_unmatchable;
    sum->foreign += part->foreign;
}

static void count_slips(struct match_totals *totals, const struct match_directory *directory, size_t dump,
                        const struct slips *slips) {
    if (slips->count && !totals->slips)
        totals->first_slip = (struct match_slip){.dump = dump,
                                                 .communicator = match_place_of(directory, dump, slips->items[0].comm),
                                                 .call = slips->items[0].call,
                                                 .seq = slips->items[0].seq};
    totals->slips += slips->count;
}

unsigned match_workers(unsigned wish) {
    return wish < 1 ? 1 : wish < MATCH_THREADS_MAX ? wish : MATCH_THREADS_MAX;
}

/* Processes that have workers, and how many each of them has. */
static unsigned reading_processes(const struct team *team) {
    unsigned processes = team_is_shared(team) ? team->processes : 1;
    return processes < MATCH_WORKERS_MAX ? processes : MATCH_WORKERS_MAX;
}
static unsigned workers_of_each(const struct team *team, unsigned threads) {
    unsigned most = MATCH_WORKERS_MAX / reading_processes(team), workers = match_workers(threads);
    return workers < most ? workers : most;
}

unsigned match_workers_among(const struct team *team, unsigned threads) {
    unsigned all = reading_processes(team) * workers_of_each(team, threads), alone = match_workers(threads);
    return all > alone ? all : alone; /* which is what is needed where the states cannot travel */
}

/* What every worker needs to know of each of its dumps before the walk begins. */
struct foreknowledge {
    const struct match_directory *directory;
    const struct match_workers *all;
    struct wildcards *wildcards;
    struct slips *slips;
    bool no_memory;
};

static bool is_own(const struct match_workers *all, uint32_t worker) {
    return worker >= all->first && worker < all->first + all->own;
}

static void number_wildcards(void *context, size_t dump) {
    struct foreknowledge *known = context;
    if (is_own(known->all, known->all->worker_of[dump]) &&
        !wildcards_number(&known->wildcards[dump], known->directory->dumps[dump]))
        __atomic_store_n(&known->no_memory, true, __ATOMIC_RELAXED);
}

static bool foresee(struct foreknowledge *known, const struct match_directory *directory,
                    const struct match_workers *all) {
    size_t count = directory->dump_count ? directory->dump_count : 1;
    *known = (struct foreknowledge){.directory = directory,
                                    .all = all,
                                    .wildcards = calloc(count, sizeof *known->wildcards),
                                    .slips = calloc(count, sizeof *known->slips)};
    if (!all->worker_of || !known->wildcards || !known->slips || !slips_find(known->slips, directory))
        return false;
    side_by_side(all->own, directory->dump_count, number_wildcards, known);
    return !known->no_memory;
}

static void foreknowledge_free(struct foreknowledge *known, const struct match_directory *directory) {
    for (size_t d = 0; known->wildcards && d < directory->dump_count; d++)
        wildcards_free(&known->wildcards[d]);
    for (size_t d = 0; known->slips && d < directory->dump_count; d++)
        slips_free(&known->slips[d]);
    free(known->wildcards);
    free(known->slips);
}

static bool workers_begin(struct match_workers *all, const struct common_clock *clock, const struct match_sink *sink,
                          void *const *states, const struct foreknowledge *known) {
    const struct match_directory *directory = known->directory;
    bool done = all->dumps && all->told && all->told_now[0] && all->told_now[1] && all->worker_of;
    for (size_t d = 0; d < directory->dump_count; d++)
        all->records += share_records(directory->dumps[d]);
    for (unsigned w = all->first; done && w < all->first + all->own; w++) {
        all->walks[w] = (struct match_walk){.clock = clock,
                                            .directory = directory,
                                            .sink = sink,
                                            .state = states[w],
                                            .number = w,
                                            .workers = all->count,
                                            .worker_of = all->worker_of,
                                            .dumps = all->dumps,
                                            .wildcards = known->wildcards,
                                            .slips = known->slips};
        done =
            match_walk_begin(&all->walks[w]) && pairing_init(&all->pairings[w], directory, sink, states[w], all->count);
    }
    return done;
}

static void workers_end(struct match_workers *all, const struct match_directory *directory,
                        struct match_totals *totals) {
    for (size_t d = 0; all->dumps && d < directory->dump_count; d++)
        match_walk_end_dump(&all->dumps[d], directory->dumps[d]);
    for (unsigned w = 0; w < all->count; w++) {
        match_walk_end(&all->walks[w]);
        pairing_free(&all->pairings[w]);
        match_totals_add(totals, &all->walks[w].totals);
        match_totals_add(totals, &all->pairings[w].totals);
    }
    struct arrivals *const queues[] = {all->told, all->told_now[0], all->told_now[1]};
    for (size_t k = 0; k < sizeof queues / sizeof *queues; k++) {
        for (size_t i = 0; queues[k] && i < (size_t)all->count * all->count; i++)
            arrivals_free(&queues[k][i]);
        free(queues[k]);
    }
    free(all->dumps);
    free(all->worker_of);
}

/* Dumps, how far each of their lanes has come, and what they have in common. */
static uint64_t fingerprint_of(const struct match_directory *directory, unsigned workers) {
    uint64_t fingerprint = hash_mix(hash_mix(1, workers), directory->communicator_count);
    for (size_t d = 0; d < directory->dump_count; d++)
        fingerprint = hash_mix(fingerprint, share_records(directory->dumps[d]));
    return hash_mix(hash_mix(fingerprint, directory->call_count), directory->dump_count);
}

/* `all` with its counts set. */
static bool run_workers(struct match_workers *all, const struct common_clock *clock,
                        const struct match_directory *directory, const struct match_sink *sink, void *const *states,
                        struct match_totals *totals) {
    struct match_walk walks[MATCH_WORKERS_MAX] = {0};
    struct pairing pairings[MATCH_WORKERS_MAX] = {0};
    struct arrival_turn next[MATCH_WORKERS_MAX];
    struct foreknowledge known;
    all->walks = walks;
    all->pairings = pairings;
    all->next = next;
    all->dumps = calloc_on_own_lines(directory->dump_count + 1, sizeof *all->dumps);
    size_t queues = (size_t)all->count * all->count;
    all->told = calloc_on_own_lines(queues, sizeof *all->told);
    all->told_now[0] = calloc_on_own_lines(queues, sizeof *all->told);
    all->told_now[1] = calloc_on_own_lines(queues, sizeof *all->told);
    all->worker_of = shares_deal(directory, all->count);
    if (all->between) {
        all->between->told = all->told;
        all->between->next = next;
    }
    *totals = (struct match_totals){0};
    bool done =
        foresee(&known, directory, all) && workers_begin(all, clock, sink, states, &known) && walk_all(all, sink);
    workers_end(all, directory, totals);
    if (all->between)
        done = between_states(all->between, !done, sink, states, totals);
    for (size_t d = 0; done && d < directory->dump_count; d++)
        count_slips(totals, directory, d, &known.slips[d]);
    foreknowledge_free(&known, directory);
    return done;
}

bool match_run(const struct common_clock *clock, const struct match_directory *directory, const struct match_sink *sink,
               void *const *states, unsigned workers, struct match_totals *totals) {
    unsigned count = match_workers(workers);
    struct match_workers all = {.count = count, .own = count, .round_batches = count == 1 ? 1 : ROUND_BATCHES};
    return run_workers(&all, clock, directory, sink, states, totals);
}

bool match_run_among(struct team *team, const struct common_clock *clock, const struct match_directory *directory,
                     const struct match_sink *sink, void *const *states, unsigned threads,
                     struct match_totals *totals) {
    if (!team_is_shared(team) || !sink->parcel)
        return match_run(clock, directory, sink, states, threads, totals);
    unsigned each = workers_of_each(team, threads), count = reading_processes(team) * each;
    struct between between = {
        .team = team, .count = count, .own = each, .fingerprint = fingerprint_of(directory, count)};
    struct match_workers all = {.count = count,
                                .first = between_first(&between, team->number),
                                .own = between_own(&between, team->number),
                                .between = &between,
                                .round_batches = SHARED_ROUND};
    return run_workers(&all, clock, directory, sink, states, totals);
}
