/* SPDX-License-Identifier: Apache-2.0
 *
 * Every worker has counts of its own for all steps and keeps the waits it is told of;
 * what several threads, or operations under way at once, wait at the same time counts once.
 */
#include "analyzer/steps/step_waits.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/parcel.h"
#include "analyzer/match/match.h"
#include "analyzer/waits/waits.h"

enum { WAITS_MOST = 1 << 23 }; /* that are kept: 200 MB; where there are more, nothing is known */

struct tally {
    uint64_t parts, matched; /* in collectives and messages; those that found their counterparts */
    uint64_t unresolved;     /* waits that are shorter than the clocks' error */
};

/* A step's time alone: looking for one among steps as they are would touch their whole width. */
struct step_span {
    int64_t start, end;
};

struct kept_wait {
    int64_t from, to;
    uint32_t dump;
};

struct step_worker {
    const struct steps *steps;
    const struct match_directory *directory;
    const struct filter *counted;
    const size_t *first_of;        /* per dump: its first step's tally and span */
    const struct step_span *spans; /* of all steps */
    size_t *last;                  /* per dump: the step asked for last */
    bool ascending;                /* no step ends before the one before it */
    struct tally *tallies;         /* of all steps */
    size_t tally_count;
    struct waits waits;
    struct kept_wait *kept;
    size_t kept_count, kept_room;
    size_t told;         /* of waits, whether they were kept or not */
    size_t *kept_in_all; /* by all workers */
    bool no_memory;
};

/* The dump's first step that ends after that moment; its number of steps where none does. */
static size_t step_at(const struct rank_steps *rank, int64_t at) {
    size_t low = 0, high = rank->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rank->steps[middle].end_ns <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL outside of all steps. */
static struct tally *tally_at(const struct step_worker *worker, size_t dump, int64_t at) {
    const struct rank_steps *rank = &worker->steps->ranks[dump];
    const struct step_span *spans = worker->spans + worker->first_of[dump];
    size_t step = worker->last[dump]; /* most often it is the same again */
    if (!worker->ascending || step >= rank->count || spans[step].end <= at || (step > 0 && spans[step - 1].end > at))
        step = worker->last[dump] = step_at(rank, at);
    return step < rank->count && spans[step].start <= at ? &worker->tallies[worker->first_of[dump] + step] : NULL;
}

static void take_wait(void *context, const struct told_wait *wait) {
    struct step_worker *worker = context;
    worker->told++;
    if (__atomic_add_fetch(worker->kept_in_all, 1, __ATOMIC_RELAXED) > WAITS_MOST)
        return;
    if (!grow_by_one(worker->kept, worker->kept_count, worker->kept_room)) {
        worker->no_memory = true;
        return;
    }
    worker->kept[worker->kept_count++] =
        (struct kept_wait){.from = wait->until - wait->length, .to = wait->until, .dump = wait->dump};
}

static void take_unresolved(void *context, uint32_t dump, int64_t since) {
    struct tally *tally = tally_at(context, dump, since);
    if (tally)
        tally->unresolved++;
}

/* `name` is the communicator's, NULL where the dump does not define it: it is then none that was asked for. */
static bool is_wait_counted(const struct step_worker *worker, uint16_t call, const char *name, uint64_t uid,
                            uint64_t bytes) {
    return !worker->counted ||
           (call != CALL_UNKNOWN && filter_op(worker->counted, worker->directory->calls[call].name->name) &&
            filter_bytes(worker->counted, bytes) &&
            (!worker->counted->comm || (name && filter_comm(worker->counted, uid, name))));
}

static void add_match(const struct step_worker *worker, size_t dump, const struct match_member *member) {
    struct tally *tally = tally_at(worker, dump, member->enter);
    if (tally)
        tally->matched++;
}

static void take_instance(void *state, const struct match_instance *instance) {
    struct step_worker *worker = state;
    const struct match_communicator *communicator = instance->communicator;
    if (!instance->complete || instance->others > 0 ||
        !is_wait_counted(worker, instance->call, communicator->name, communicator->uid, instance->bytes))
        return;
    waits_add(&worker->waits, instance);
    for (uint32_t i = 0; i < communicator->dump_count; i++)
        add_match(worker, communicator->dump_of[i], &instance->members[i]);
}

static bool is_message_counted(const struct step_worker *worker, const struct match_message *message) {
    const struct match_communicator *communicator = &worker->directory->communicators[message->communicator];
    return is_wait_counted(worker, message->receive.call, communicator->name, communicator->uid, message->bytes) ||
           is_wait_counted(worker, message->send.call, communicator->name, communicator->uid, message->bytes);
}

static void take_sent(void *state, const struct match_message *message) {
    struct step_worker *worker = state;
    if (is_message_counted(worker, message))
        waits_add_sent(&worker->waits, message);
}

static void take_message(void *state, const struct match_message *message) {
    struct step_worker *worker = state;
    if (!is_message_counted(worker, message))
        return;
    waits_add_message(&worker->waits, message);
    add_match(worker, message->from_dump, &message->send);
    add_match(worker, message->to_dump, &message->receive);
}

static void take_epoch(void *state, const struct match_message *need) {
    struct step_worker *worker = state;
    const struct match_communicator *communicator = &worker->directory->communicators[need->communicator];
    if (is_wait_counted(worker, need->receive.call, communicator->name, communicator->uid, 0))
        waits_add_epoch(&worker->waits, need);
}

/* What would be part of an instance or a message (match.c). */
static bool is_part(const struct match_record *item) {
    const struct record *record = item->record;
    bool message = (record->flags & (FLAG_SEND | FLAG_RECV)) && record->peer != PEER_NULL;
    if (record->flags & (FLAG_CANCELLED | FLAG_FAILED | FLAG_UNMATCHED))
        return false;
    return (message || item->message_count > 0 || record->flags & FLAG_COLLECTIVE) &&
           (record->kind == RECORD_CALL || record->kind == RECORD_DONE || record->kind == RECORD_GPU ||
            record->kind == RECORD_KERNEL);
}

static void take_record(void *state, const struct match_record *item) {
    const struct step_worker *worker = state;
    const struct dump_communicator *c = dump_communicator(worker->directory->dumps[item->dump], item->record->comm);
    struct tally *tally = is_part(item) && is_wait_counted(worker, item->call, c ? c->name : NULL,
                                                           c ? c->definition->uid : 0, item->record->bytes)
                              ? tally_at(worker, item->dump, item->t0)
                              : NULL;
    if (tally)
        tally->parts += item->message_count > 0 ? item->message_count : 1;
}

static void worker_parcel(void *state, struct parcel *parcel) {
    struct step_worker *worker = state;
    waits_parcel(&worker->waits, parcel);
    parcel_items(parcel, worker->tallies, worker->tally_count, sizeof *worker->tallies);
    parcel_array(parcel, worker->kept, worker->kept_count, worker->kept_room);
    parcel_field(parcel, &worker->told);
    parcel_flag(parcel, &worker->no_memory);
    if (!parcel->packs)
        __atomic_add_fetch(worker->kept_in_all, worker->told, __ATOMIC_RELAXED);
}

/* ---- by step ----------------------------------------------------------------------------------------------------- */

static int compare_waits(const void *a, const void *b) {
    const struct kept_wait *left = a, *right = b;
    if (left->dump != right->dump)
        return left->dump < right->dump ? -1 : 1;
    return (left->from > right->from) - (left->from < right->from);
}

/* To each step what of [from, to) lies in it. */
static void add_stretch(const struct rank_steps *rank, int64_t from, int64_t to) {
    for (size_t i = step_at(rank, from); i < rank->count && rank->steps[i].start_ns < to; i++) {
        struct step *step = &rank->steps[i];
        int64_t begin = from > step->start_ns ? from : step->start_ns;
        int64_t end = to < step->end_ns ? to : step->end_ns;
        if (step->wait_ns != STEP_UNKNOWN)
            step->wait_ns += end - begin;
    }
}

/* Sorted by dump and begin. */
static void add_kept_waits(struct steps *steps, const struct kept_wait *waits, size_t count) {
    for (size_t i = 0, end; i < count; i = end) {
        int64_t to = waits[i].to;
        for (end = i + 1; end < count && waits[end].dump == waits[i].dump && waits[end].from <= to; end++)
            to = waits[end].to > to ? waits[end].to : to;
        add_stretch(&steps->ranks[waits[i].dump], waits[i].from, to);
    }
}

static void mark_known(struct steps *steps, const struct step_worker *workers, unsigned count, const size_t *first_of) {
    for (size_t r = 0; r < steps->rank_count; r++)
        for (size_t i = 0; i < steps->ranks[r].count; i++) {
            struct tally sum = {0};
            for (unsigned w = 0; w < count; w++) {
                sum.parts += workers[w].tallies[first_of[r] + i].parts;
                sum.matched += workers[w].tallies[first_of[r] + i].matched;
            }
            steps->ranks[r].steps[i].wait_ns = sum.matched >= sum.parts ? 0 : STEP_UNKNOWN;
        }
}

/* A step in which the clocks tell no wait, and there was one: how long it was is not known. */
static void mark_unresolved(struct steps *steps, const struct step_worker *workers, unsigned count,
                            const size_t *first_of) {
    for (size_t r = 0; r < steps->rank_count; r++)
        for (size_t i = 0; i < steps->ranks[r].count; i++) {
            struct step *step = &steps->ranks[r].steps[i];
            bool known = step->wait_ns != STEP_UNKNOWN;
            for (unsigned w = 0; w < count && step->wait_ns == 0; w++)
                if (workers[w].tallies[first_of[r] + i].unresolved > 0)
                    step->wait_ns = STEP_UNKNOWN;
            step->waits_unresolved = known && step->wait_ns == STEP_UNKNOWN;
        }
}

static bool set_waits(struct steps *steps, const struct step_worker *workers, unsigned count, const size_t *first_of) {
    size_t all = 0;
    for (unsigned w = 0; w < count; w++)
        all += workers[w].kept_count;
    struct kept_wait *waits = malloc((all + 1) * sizeof *waits);
    if (!waits)
        return false;
    all = 0;
    for (unsigned w = 0; w < count; w++)
        for (size_t i = 0; i < workers[w].kept_count; i++)
            waits[all++] = workers[w].kept[i];
    qsort(waits, all, sizeof *waits, compare_waits);
    mark_known(steps, workers, count, first_of);
    add_kept_waits(steps, waits, all);
    mark_unresolved(steps, workers, count, first_of);
    free(waits);
    return true;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

static bool walk_waits(struct step_worker *work, const struct common_clock *clock, struct team *team,
                       unsigned threads) {
    const struct match_sink sink = {.instance = take_instance,
                                    .message = take_message,
                                    .sent = take_sent,
                                    .epoch = take_epoch,
                                    .record = take_record,
                                    .parcel = worker_parcel};
    void *states[MATCH_WORKERS_MAX];
    struct match_totals totals;
    unsigned workers = match_workers_among(team, threads);
    for (unsigned w = 0; w < workers; w++)
        states[w] = &work[w];
    bool done = match_run_among(team, clock, work[0].directory, &sink, states, threads, &totals);
    for (unsigned w = 0; done && w < workers; w++) {
        waits_finish(&work[w].waits);
        done = !work[w].waits.no_memory && !work[w].no_memory;
    }
    return done;
}

static struct step_span *spans_of(const struct steps *steps, const size_t *first_of, bool *ascending) {
    struct step_span *spans = malloc((first_of[steps->rank_count] + 1) * sizeof *spans);
    for (size_t r = 0; spans && r < steps->rank_count; r++)
        for (size_t i = 0; i < steps->ranks[r].count; i++) {
            const struct step *step = &steps->ranks[r].steps[i];
            spans[first_of[r] + i] = (struct step_span){step->start_ns, step->end_ns};
            *ascending &= i == 0 || step[-1].end_ns <= step->end_ns;
        }
    return spans;
}

static void worker_free(struct step_worker *worker) {
    waits_free(&worker->waits);
    free(worker->tallies);
    free(worker->last);
    free(worker->kept);
}

bool step_waits_fill(struct steps *steps, const struct common_clock *clock, const struct match_directory *directory,
                     const struct filter *counted, struct team *team, unsigned threads) {
    struct step_worker work[MATCH_WORKERS_MAX] = {0};
    size_t all = 0, kept_in_all = 0, *first_of = calloc(steps->rank_count + 1, sizeof *first_of);
    bool ascending = true;
    for (size_t r = 0; first_of && r < steps->rank_count; r++)
        first_of[r + 1] = all += steps->ranks[r].count;
    struct step_span *spans = first_of ? spans_of(steps, first_of, &ascending) : NULL;
    bool done = spans != NULL;
    unsigned workers = match_workers_among(team, threads);
    for (unsigned w = 0; w < workers; w++) {
        work[w] = (struct step_worker){.steps = steps,
                                       .directory = directory,
                                       .counted = counted && filter_chooses_calls(counted) ? counted : NULL,
                                       .first_of = first_of,
                                       .spans = spans,
                                       .ascending = ascending,
                                       .last = calloc(steps->rank_count + 1, sizeof *work[w].last),
                                       .kept_in_all = &kept_in_all,
                                       .tally_count = all,
                                       .tallies = calloc(all + 1, sizeof *work[w].tallies)};
        done = waits_init(&work[w].waits, clock, directory) && work[w].tallies && work[w].last && done;
        work[w].waits.listener =
            (struct wait_listener){.context = &work[w], .wait = take_wait, .unresolved = take_unresolved};
    }
    if (done && all > 0)
        done = walk_waits(work, clock, team, threads) &&
               (kept_in_all > WAITS_MOST || set_waits(steps, work, workers, first_of));
    for (unsigned w = 0; w < workers; w++)
        worker_free(&work[w]);
    free(spans);
    free(first_of);
    return done;
}
