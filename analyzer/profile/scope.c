/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/profile/scope.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"
#include "analyzer/load/rows.h"

/* ---- windows --------------------------------------------------------------------------------- */

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* From the beginning of the rank's first step that was asked for to the end of its last one. */
static struct scope_span span_of_steps(const struct rank_steps *rank, const struct filter *filter) {
    struct scope_span span = {NS_MOST, -NS_MOST};
    for (size_t i = 0; i < rank->count; i++) {
        const struct step *step = &rank->steps[i];
        if (step->number == NO_STEP || step->number < filter->first_step || step->number > filter->last_step)
            continue;
        span.from_ns = earlier(span.from_ns, step->start_ns);
        span.to_ns = later(span.to_ns, step->end_ns);
    }
    return span;
}

static bool is_shown(const struct scope *scope, size_t d) {
    return filter_rank(scope->filter, scope->clock->dumps[d]->header->rank);
}

static bool find_steps(struct scope *scope, const struct step_marker *marker) {
    struct steps steps;
    bool done = steps_find(&steps, scope->clock, marker);
    scope->step_count = done ? steps.count : 0;
    for (size_t d = 0; done && d < steps.rank_count; d++) {
        struct scope_span own = span_of_steps(&steps.ranks[d], scope->filter), *span = &scope->spans[d];
        scope->ranks_without_step += own.from_ns >= own.to_ns && is_shown(scope, d);
        *span = (struct scope_span){later(span->from_ns, own.from_ns), earlier(span->to_ns, own.to_ns)};
    }
    steps_free(&steps);
    return done;
}

/* Epochs end where the next one begins; the first one has no beginning on record. */
static struct scope_span span_of_epochs(const struct common_clock *clock, size_t d, const struct filter *filter) {
    const struct dump *dump = clock->dumps[d];
    struct scope_span span = {filter->first_epoch == 0 ? -NS_MOST : NS_MOST, NS_MOST};
    for (size_t i = 0; i < dump->epoch_count; i++) {
        int64_t began = to_common(clock, d, dump->epochs[i]->ticks);
        if (dump->epochs[i]->epoch == filter->first_epoch)
            span.from_ns = began;
        if (dump->epochs[i]->epoch == filter->last_epoch + 1)
            span.to_ns = began;
    }
    return span;
}

static void find_epochs(struct scope *scope) {
    scope->epoch_count = 1;
    for (size_t d = 0; d < scope->clock->dump_count; d++) {
        const struct dump *dump = scope->clock->dumps[d];
        struct scope_span own = span_of_epochs(scope->clock, d, scope->filter), *span = &scope->spans[d];
        *span = (struct scope_span){later(span->from_ns, own.from_ns), earlier(span->to_ns, own.to_ns)};
        uint32_t last = dump->epoch_count > 0 ? dump->epochs[dump->epoch_count - 1]->epoch : 0;
        if (last >= scope->epoch_count)
            scope->epoch_count = last + 1;
    }
}

/* A span cut to what the job lasted. */
static struct scope_span within_job(const struct scope *scope, size_t d) {
    const struct scope_span *span = &scope->spans[d];
    return (struct scope_span){later(span->from_ns, scope->job_from_ns), earlier(span->to_ns, scope->job_to_ns)};
}

static void find_hull(struct scope *scope) {
    scope->from_ns = NS_MOST;
    scope->to_ns = -NS_MOST;
    for (size_t d = 0; d < scope->clock->dump_count; d++) {
        struct scope_span span = within_job(scope, d);
        if (span.from_ns >= span.to_ns)
            continue;
        scope->from_ns = earlier(scope->from_ns, span.from_ns);
        scope->to_ns = later(scope->to_ns, span.to_ns);
    }
}

/* ---- what is on record ----------------------------------------------------------------------- */

/* Takes what `span` shares with the holes off what was seen. */
static void subtract(struct scope *scope, struct scope_span span, const struct time_stretches *holes) {
    for (size_t i = 0; i < holes->count; i++) {
        int64_t from = later(holes->items[i].from, span.from_ns), to = earlier(holes->items[i].to, span.to_ns);
        if (holes->items[i].to < span.from_ns || holes->items[i].from > span.to_ns)
            continue;
        scope->complete = false;
        scope->seen_ns -= to > from ? to - from : 0;
    }
}

static bool find_coverage(struct scope *scope) {
    scope->complete = true;
    for (size_t d = 0; d < scope->clock->dump_count; d++) {
        struct scope_span span = within_job(scope, d);
        if (!is_shown(scope, d) || span.from_ns >= span.to_ns)
            continue;
        scope->asked_ns = add_ns(scope->asked_ns, span.to_ns - span.from_ns);
        scope->seen_ns = add_ns(scope->seen_ns, span.to_ns - span.from_ns);
        struct time_stretches holes;
        bool done = dump_holes_find(&holes, scope->clock, d);
        if (done)
            subtract(scope, span, &holes);
        time_stretches_free(&holes);
        if (!done)
            return false;
    }
    return true;
}

/* ---- the scope ------------------------------------------------------------------------------- */

bool scope_build(struct scope *scope, const struct job *job, const struct common_clock *clock,
                 const struct filter *filter, const struct step_marker *marker) {
    *scope = (struct scope){.limited = filter_is_timed(filter), .filter = filter, .clock = clock};
    if (!scope->limited)
        return true;
    job_span(job, clock, &scope->job_from_ns, &scope->job_to_ns);
    scope->spans = calloc(clock->dump_count, sizeof *scope->spans);
    for (size_t d = 0; scope->spans && d < clock->dump_count; d++)
        scope->spans[d] = (struct scope_span){
            .from_ns = filter->has_from ? add_ns(scope->job_from_ns, filter->from_ns) : -NS_MOST,
            .to_ns = filter->has_to ? add_ns(scope->job_from_ns, filter->to_ns) : NS_MOST,
        };
    if (!scope->spans || (filter->has_steps && !find_steps(scope, marker)))
        return false;
    if (filter->has_epochs)
        find_epochs(scope);
    find_hull(scope);
    return find_coverage(scope);
}

void scope_free(struct scope *scope) {
    free(scope->spans);
    *scope = (struct scope){0};
}

bool scope_is_empty(const struct scope *scope) {
    return scope_is_limited(scope) && scope->from_ns >= scope->to_ns;
}

void scope_keep_steps(const struct scope *scope, struct steps *steps) {
    for (size_t d = 0; scope->limited && d < steps->rank_count; d++) {
        struct rank_steps *rank = &steps->ranks[d];
        size_t kept = 0;
        for (size_t i = 0; i < rank->count; i++)
            if (rank->steps[i].start_ns >= scope->spans[d].from_ns && rank->steps[i].start_ns < scope->spans[d].to_ns)
                rank->steps[kept++] = rank->steps[i];
        rank->count = kept;
    }
}

bool filter_lets_pass(const struct filter *filter, const struct dump *dump, uint16_t call,
                      const struct dump_communicator *communicator, uint64_t bytes) {
    const struct call_name *name = filter->op ? dump_call(dump, call) : NULL;
    if (filter->op && !filter_op(filter, name ? name->name : ""))
        return false;
    if (!filter_bytes(filter, bytes))
        return false;
    return !filter->comm || (communicator && filter_comm(filter, communicator->definition->uid, communicator->name));
}

/* ---- walking records ------------------------------------------------------------------------- */

static int compare_launches(const void *a, const void *b) {
    const struct scope_launch *left = a, *right = b;
    return (left->op > right->op) - (left->op < right->op);
}

/* Lists where the dump's launches ran; replays of a graph run many times and say nothing about their call. */
static bool find_launches(struct scope_dump *part) {
    bool enough_memory = true;
    for (uint32_t lane = 0; enough_memory && lane < part->dump->lane_count; lane++) {
        struct record_cursor cursor;
        if (!record_cursor_begin(&cursor, part->dump, lane))
            return false;
        for (const struct record *record; enough_memory && (record = record_cursor_next(&cursor));) {
            if ((record->kind != RECORD_GPU && record->kind != RECORD_KERNEL) || record->flags & FLAG_CAPTURED)
                continue;
            enough_memory = grow_list(part->launches, part->launch_count);
            if (enough_memory)
                part->launches[part->launch_count++] =
                    (struct scope_launch){record->op, record_begin(part->scope->clock, part->d, record)};
        }
        record_cursor_end(&cursor);
    }
    if (part->launch_count > 0)
        qsort(part->launches, part->launch_count, sizeof *part->launches, compare_launches);
    return enough_memory;
}

bool scope_dump_begin(struct scope_dump *part, const struct scope *scope, const struct dump *dump, size_t d) {
    *part = (struct scope_dump){.scope = scope_is_limited(scope) ? scope : NULL, .dump = dump, .d = d};
    return !part->scope || !dump_has_device_times(dump) || find_launches(part);
}

void scope_dump_end(struct scope_dump *part) {
    free(part->launches);
    part->launches = NULL;
    part->launch_count = 0;
}

/* Where an enqueued operation ran; where that is not known, when it was enqueued. A member of a group ran with it. */
static int64_t moment_of(const struct scope_dump *part, const struct record *record) {
    int64_t begin = record_begin(part->scope->clock, part->d, record);
    if (part->launch_count == 0 || (record->kind != RECORD_POST && record->kind != RECORD_GROUP))
        return begin;
    const struct call_name *call = dump_call(part->dump, record->call);
    if (!call || call->api != API_NCCL)
        return begin;
    const struct scope_launch key = {.op = record->tag > 0 ? (uint32_t)record->tag : record->op};
    const struct scope_launch *launch =
        bsearch(&key, part->launches, part->launch_count, sizeof *part->launches, compare_launches);
    return launch ? launch->at_ns : begin;
}

bool scope_dump_holds(const struct scope_dump *part, const struct record *record) {
    if (!part->scope)
        return true;
    int64_t at = moment_of(part, record);
    return at >= part->scope->spans[part->d].from_ns && at < part->scope->spans[part->d].to_ns;
}

void scope_walk_begin(struct scope_walk *walk, const struct scope *scope, const struct dump *dump, size_t d) {
    *walk = (struct scope_walk){0};
    walk->no_memory = !scope_dump_begin(&walk->part, scope, dump, d);
}

const struct record *scope_walk_next(struct scope_walk *walk) {
    while (!walk->no_memory) {
        if (!walk->open) {
            if (walk->lane == walk->part.dump->lane_count)
                return NULL;
            walk->open = record_cursor_begin(&walk->cursor, walk->part.dump, walk->lane++);
            walk->no_memory = !walk->open;
            continue;
        }
        for (const struct record *record; (record = record_cursor_next(&walk->cursor));)
            if (scope_dump_holds(&walk->part, record))
                return record;
        record_cursor_end(&walk->cursor);
        walk->open = false;
    }
    return NULL;
}

void scope_walk_end(struct scope_walk *walk) {
    if (walk->open)
        record_cursor_end(&walk->cursor);
    scope_dump_end(&walk->part);
    walk->open = false;
}
