/* SPDX-License-Identifier: Apache-2.0
 *
 * Where steps begin, and their numbers. Of each thread one rank's records are in memory at a time.
 */
#include "analyzer/steps/steps_build.h"

#include <stdlib.h>

#include "analyzer/base/parcel.h"
#include "analyzer/base/side_by_side.h"

/* ---- where steps begin ----------------------------------------------------------------------- */

/* A step begins where the function that the user names begins. */
static void find_anchors(struct step_walk *w) {
    for (size_t i = 0; w->marker->anchor && i < w->operation_count; i++)
        if (filter_op(&w->anchor, dump_call(w->clock->dumps[w->dump], w->operations[i].call)->name))
            step_walk_add_start(w, w->operations[i].enter, &w->operations[i]);
}

/* Where all members leave the anchor together, whoever came late. On a GPU the next launch may seem to begin before
 * that by as much as two readings of its clock are off: it belongs to the new step all the same. */
static int64_t step_start(const struct step_walk *w, size_t anchor) {
    const struct step_operation *at = &w->operations[anchor], *next = at + 1;
    int64_t off = w->device ? 2 * w->clock->device_error[w->dump] : 0;
    bool early = anchor + 1 < w->operation_count && next->enter > at->enter && next->enter < at->leave &&
                 at->leave - next->enter <= off;
    return early ? next->enter : at->leave;
}

/* Whether steps begin with the anchor and do not end with it: the call sites of all other operations were come to for
 * the first time after the anchor's. Dumps define call sites as they come, and lose none; imported traces begin
 * anywhere. */
static bool begins_with_anchor(const struct step_walk *w, uint64_t anchor) {
    const struct dump *dump = w->clock->dumps[w->dump];
    size_t first = 0, last = w->operation_count;
    while (first < last && w->operations[first].symbol != anchor)
        first++;
    while (last > first && w->operations[last - 1].symbol != anchor)
        last--;
    const struct dump_stack *own = first < last ? dump_stack(dump, w->operations[first].stack) : NULL;
    if (!own || dump->header->pid == 0 || w->operations[first].seq == SEQ_NONE || step_walk_gradient(w) == anchor)
        return false;
    for (size_t i = first; i < last; i++) {
        const struct dump_stack *site = dump_stack(dump, w->operations[i].stack);
        if (w->operations[i].symbol != anchor && (!site || site->order <= own->order))
            return false;
    }
    return true;
}

/* The step before it ended with the operation before it: what comes then, until the anchor, begins an iteration. */
static int64_t start_before(const struct step_walk *w, size_t anchor) {
    const struct step_operation *at = &w->operations[anchor], *last = at - 1;
    bool in_stream = last->enqueued != STEP_UNKNOWN || at->before == STEP_UNKNOWN;
    int64_t left = in_stream ? last->leave : at->before;
    return left < at->enter ? left : at->enter;
}

/* A step from each anchor on. Before the first one that is at the head of its step the program may have set itself up:
 * that step begins with it. */
static void add_starts(struct step_walk *w, struct rank_steps *rank, uint64_t anchor) {
    bool head = begins_with_anchor(w, anchor);
    for (size_t i = 0; i < w->operation_count; i++) {
        const struct step_operation *operation = &w->operations[i];
        if (operation->symbol != anchor)
            continue;
        bool first = !rank->anchor;
        int64_t at = !head ? step_start(w, i) : first ? operation->enter : start_before(w, i);
        step_walk_add_start(w, at, operation);
        rank->anchor = dump_call(w->clock->dumps[w->dump], operation->call);
    }
}

/* Periods are those of the order of the calls; steps go by where the operations ran. */
static bool find_starts(struct step_walk *w, struct rank_steps *rank) {
    if (w->marker->pcontrol || w->marker->anchor) {
        step_walk_move_to_device(w);
        find_anchors(w);
        return !w->no_memory;
    }
    uint64_t *symbols = malloc((2 * w->operation_count + 1) * sizeof *symbols), *order = symbols + w->operation_count;
    uint32_t *numbers = malloc((w->operation_count + 1) * sizeof *numbers);
    if (!symbols || !numbers) {
        free(symbols);
        free(numbers);
        return false;
    }
    for (size_t i = 0; i < w->operation_count; i++) {
        symbols[i] = w->operations[i].symbol;
        order[i] = w->operations[i].order;
        numbers[i] = w->operations[i].number;
    }
    bool done = step_periods_find(&rank->periods, symbols, order, numbers, w->operation_count);
    free(symbols);
    free(numbers);
    step_walk_move_to_device(w);
    if (!done || rank->periods.step == rank->periods.count)
        return done;
    add_starts(w, rank, rank->periods.levels[rank->periods.step].anchor);
    return !w->no_memory;
}

/* Index of the step that a moment lies in. */
static size_t step_at(const struct rank_steps *rank, int64_t at) {
    size_t low = 0, high = rank->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rank->steps[middle].start_ns <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && at < rank->steps[low - 1].end_ns ? low - 1 : GPU_NO_STEP;
}

static void sum_gpu_spans(struct rank_steps *rank) {
    struct gpu_span *spans = rank->gpu_spans;
    gpu_spans_sort_by_step(spans, rank->gpu_span_count);
    for (size_t from = 0, to; from < rank->gpu_span_count && spans[from].step != GPU_NO_STEP; from = to) {
        struct step *step = &rank->steps[spans[from].step];
        for (to = from + 1; to < rank->gpu_span_count && spans[to].step == spans[from].step;)
            to++;
        step->gpu_known = gpu_times_sum(&step->gpu, spans + from, to - from, NULL);
    }
}

/* Nobody knows whether a GPU was idle between two cycles of a profiler. */
static bool find_stretches(struct step_walk *w) {
    struct time_stretches holes;
    bool done = dump_holes_find(&holes, w->clock, w->dump);
    for (size_t i = 0; done && holes.count > 0 && i < w->gpu_span_count; i++)
        while (w->gpu_spans[i].stretch < holes.count &&
               holes.items[w->gpu_spans[i].stretch].from <= w->gpu_spans[i].from)
            w->gpu_spans[i].stretch++;
    time_stretches_free(&holes);
    return done;
}

/* What ran on the GPU becomes the rank's, each with its step. False: memory is short. */
static bool give_gpu_spans(struct step_walk *w, struct rank_steps *rank) {
    if (!w->gpu_work)
        return true;
    bool done = find_stretches(w);
    for (size_t i = 0; i < w->gpu_span_count; i++) {
        struct gpu_span *span = &w->gpu_spans[i];
        if (!w->marker->pcontrol)
            span->step = step_at(rank, span->from);
        else if (span->launched != GPU_LAUNCH_UNKNOWN)
            span->step = step_at(rank, span->launched);
    }
    rank->gpu_spans = w->gpu_spans;
    rank->gpu_span_count = w->gpu_span_count;
    w->gpu_spans = NULL;
    sum_gpu_spans(rank);
    gpu_spans_sort(rank->gpu_spans, rank->gpu_span_count);
    return done;
}

static bool find_rank(struct step_walk *w, struct rank_steps *rank) {
    bool done = step_walk_read(w) && find_starts(w, rank);
    if (done) {
        step_walk_sort(w);
        done = step_walk_make_steps(w, rank);
        done = give_gpu_spans(w, rank) && done;
        rank->operations = w->operation_count;
        rank->device = w->device;
    }
    step_walk_free(w);
    return done;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int64_t middle_of(const struct step *step) {
    return step->start_ns + (step->end_ns - step->start_ns) / 2;
}

static int compare_collectives(const void *a, const void *b) {
    const struct step *left = *(struct step *const *)a, *right = *(struct step *const *)b;
    if (left->comm != right->comm)
        return left->comm < right->comm ? -1 : 1;
    return (left->seq > right->seq) - (left->seq < right->seq);
}

/* The reference's steps that collectives begin, by those. Returns how many. */
static size_t sort_by_collective(const struct rank_steps *reference, struct step **sorted) {
    size_t count = 0;
    for (size_t i = 0; i < reference->count; i++)
        if (reference->steps[i].seq != SEQ_NONE)
            sorted[count++] = &reference->steps[i];
    if (count > 0)
        qsort(sorted, count, sizeof *sorted, compare_collectives);
    return count;
}

static void number_rank(struct rank_steps *rank, const struct rank_steps *reference, struct step *const *sorted,
                        size_t sorted_count) {
    size_t at = 0;
    for (size_t i = 0; i < rank->count; i++) {
        struct step *step = &rank->steps[i];
        struct step *const *same = step->seq != SEQ_NONE && sorted_count > 0
                                       ? bsearch(&step, sorted, sorted_count, sizeof *sorted, compare_collectives)
                                       : NULL;
        if (same) {
            step->number = (uint32_t)(*same - reference->steps);
            continue;
        }
        int64_t middle = middle_of(step);
        while (at + 1 < reference->count &&
               llabs(middle_of(&reference->steps[at + 1]) - middle) < llabs(middle_of(&reference->steps[at]) - middle))
            at++;
        int64_t length = reference->steps[at].end_ns - reference->steps[at].start_ns;
        if (llabs(middle_of(&reference->steps[at]) - middle) <= length / 2)
            step->number = (uint32_t)at;
    }
}

/* The rank with most steps gives the numbers. Another's step has the number of the one that the same collective begins;
 * where there is none such, of the one its middle lies nearest to, at most half a step away. */
static bool number_steps(struct steps *steps) {
    steps->reference = steps->rank_count;
    for (size_t r = 0; r < steps->rank_count; r++)
        if (steps->ranks[r].count > 0 &&
            (steps->reference == steps->rank_count || steps->ranks[r].count > steps->ranks[steps->reference].count))
            steps->reference = r;
    if (steps->reference == steps->rank_count)
        return true;
    const struct rank_steps *reference = &steps->ranks[steps->reference];
    struct step **sorted = malloc(reference->count * sizeof *sorted);
    if (!sorted)
        return false;
    size_t count = sort_by_collective(reference, sorted);
    steps->count = (uint32_t)reference->count;
    for (size_t r = 0; r < steps->rank_count; r++)
        number_rank(&steps->ranks[r], reference, sorted, count);
    free(sorted);
    return true;
}

/* Whether a rank has two marks, which make a step. */
static bool has_marks(const struct dump *dump) {
    size_t marks = 0;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        struct record_reader reader;
        record_reader_begin(&reader, dump, lane);
        for (uint64_t t = dump->lanes[lane].first_ticket; t < dump->lanes[lane].end_ticket && marks < 2; t++) {
            const struct record *record = record_reader_at(&reader, t);
            marks += record && record->kind == RECORD_MARK && record->tag >= STEP_MARK_LEVEL;
        }
    }
    return marks >= 2;
}

/* ---- where collectives lie --------------------------------------------------------------------------------------- */

/* How many of the rank's steps have begun by then. */
static size_t steps_begun(const struct step_walk *w, int64_t at) {
    size_t low = 0, high = w->start_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->starts[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void place_collectives(const struct step_walk *w, uint32_t *steps, uint64_t comm, const uint32_t *seqs,
                              size_t count) {
    for (size_t i = 0; i < count; i++)
        steps[i] = NO_STEP;
    for (size_t o = 0; o < w->operation_count; o++) {
        const struct step_operation *operation = &w->operations[o];
        size_t low = 0, high = operation->comm == comm ? count : 0, begun = steps_begun(w, operation->enter);
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (seqs[middle] < operation->seq)
                low = middle + 1;
            else
                high = middle;
        }
        if (operation->comm == comm && low < count && seqs[low] == operation->seq && begun > 0)
            steps[low] = (uint32_t)(begun - 1);
    }
}

bool steps_of_collectives(uint32_t *steps, const struct common_clock *clock, size_t dump, uint64_t comm,
                          const uint32_t *seqs, size_t count) {
    bool marked = has_marks(clock->dumps[dump]);
    const struct step_marker marker = {.pcontrol = marked, .any_level = marked};
    struct rank_steps rank = {.dump = dump};
    struct step_walk walk = {
        .clock = clock, .marker = &marker, .dump = dump, .last_ns = INT64_MIN, .called_ns = STEP_UNKNOWN};
    bool done = step_walk_read(&walk) && find_starts(&walk, &rank);
    if (done) {
        step_walk_sort(&walk);
        place_collectives(&walk, steps, comm, seqs, count);
    }
    step_walk_free(&walk);
    return done;
}

/* ---- all ranks --------------------------------------------------------------------------------------------------- */

/* What is looked for: ranks know nothing of each other. Process p of P has the ranks p, p + P ... */
struct steps_work {
    const struct steps_request *request;
    const struct common_clock *clock;
    const struct step_marker *marker;
    const struct filter *counted; /* NULL: all */
    const struct covered_time *covered;
    struct filter anchor;
    struct steps *steps;
    bool *marked, *done; /* per dump */
};

static void do_own(struct steps_work *work, side_by_side_task *task) {
    const struct steps_request *request = work->request;
    size_t first = team_number(request->team), processes = team_size(request->team), dumps = work->clock->dump_count;
    side_by_side(request->threads < STEPS_AT_ONCE ? request->threads : STEPS_AT_ONCE,
                 dumps > first ? (dumps - first + processes - 1) / processes : 0, task, work);
}

static size_t own_dump(const struct steps_work *work, size_t number) {
    return team_number(work->request->team) + number * team_size(work->request->team);
}

static void look_for_marks(void *context, size_t number) {
    struct steps_work *work = context;
    size_t d = own_dump(work, number);
    work->marked[d] = has_marks(work->clock->dumps[d]);
}

static void marks_part(void *context, unsigned process, struct parcel *parcel) {
    struct steps_work *work = context;
    for (size_t d = process; d < work->clock->dump_count; d += work->request->team->processes)
        parcel_flag(parcel, &work->marked[d]);
}

/* What begins a step: whoever marks his steps need not ask for them. */
static bool choose_marker(struct steps_work *work, struct step_marker *marker) {
    *marker = *work->request->marker;
    if (marker->operations || marker->anchor || marker->pcontrol)
        return true;
    do_own(work, look_for_marks);
    bool done = team_share(work->request->team, TEAM_MARKS, false, marks_part, work);
    for (size_t d = 0; d < work->clock->dump_count && !marker->pcontrol; d++)
        marker->pcontrol = marker->any_level = work->marked[d];
    return done;
}

static void find_steps(void *context, size_t number) {
    struct steps_work *work = context;
    size_t d = own_dump(work, number);
    struct step_walk walk = {.clock = work->clock,
                             .covered = work->covered,
                             .marker = work->marker,
                             .counted = work->counted,
                             .anchor = work->anchor,
                             .dump = d,
                             .last_ns = INT64_MIN,
                             .called_ns = STEP_UNKNOWN};
    work->done[d] = find_rank(&walk, &work->steps->ranks[d]);
}

static void rank_part(struct rank_steps *rank, const struct dump *dump, struct parcel *parcel) {
    uint16_t anchor = rank->anchor ? rank->anchor->id : 0;
    bool any = parcel_is_there(parcel, rank->anchor != NULL);
    parcel_field(parcel, &anchor);
    rank->anchor = any ? dump_call(dump, anchor) : NULL;
    parcel_list(parcel, rank->steps, rank->count);
    parcel_field(parcel, &rank->periods);
    parcel_field(parcel, &rank->operations);
    parcel_flag(parcel, &rank->device);
    if (parcel_is_there(parcel, rank->gpu_spans != NULL))
        parcel_list(parcel, rank->gpu_spans, rank->gpu_span_count);
}

static void steps_part(void *context, unsigned process, struct parcel *parcel) {
    struct steps_work *work = context;
    for (size_t d = process; d < work->clock->dump_count; d += work->request->team->processes)
        rank_part(&work->steps->ranks[d], work->clock->dumps[d], parcel);
}

static bool find_all(struct steps_work *work) {
    bool failed = false;
    do_own(work, find_steps);
    for (size_t d = team_number(work->request->team); d < work->clock->dump_count; d += team_size(work->request->team))
        failed = failed || !work->done[d];
    return team_share(work->request->team, TEAM_STEPS, failed, steps_part, work);
}

static bool begin_work(struct steps_work *work, struct covered_time *covered, const struct step_marker *marker) {
    bool done = covered_time_find(covered, work->clock);
    work->marked = calloc(work->clock->dump_count + 1, sizeof *work->marked);
    work->done = calloc(work->clock->dump_count + 1, sizeof *work->done);
    return done && work->steps->ranks && work->marked && work->done &&
           (!marker->anchor || filter_set_op(&work->anchor, marker->anchor) == 0);
}

bool steps_find_as_asked(struct steps *steps, const struct common_clock *clock, const struct steps_request *request) {
    struct step_marker marker;
    struct covered_time covered;
    bool all = !request->counted || !filter_chooses_calls(request->counted);
    struct steps_work work = {.request = request,
                              .clock = clock,
                              .marker = &marker,
                              .counted = all ? NULL : request->counted,
                              .covered = &covered,
                              .steps = steps};
    *steps = (struct steps){.ranks = calloc(clock->dump_count, sizeof *steps->ranks), .rank_count = clock->dump_count};
    for (size_t d = 0; steps->ranks && d < clock->dump_count; d++)
        steps->ranks[d].dump = d;
    bool done = begin_work(&work, &covered, request->marker) && choose_marker(&work, &marker);
    steps->marked = done && marker.pcontrol;
    done = done && find_all(&work);
    filter_free(&work.anchor);
    covered_time_free(&covered);
    free(work.marked);
    free(work.done);
    return done && number_steps(steps);
}

bool steps_find(struct steps *steps, const struct common_clock *clock, const struct step_marker *marker) {
    return steps_find_as_asked(steps, clock, &(struct steps_request){.marker = marker, .threads = 1});
}

void steps_free(struct steps *steps) {
    for (size_t r = 0; steps->ranks && r < steps->rank_count; r++) {
        free(steps->ranks[r].steps);
        free(steps->ranks[r].gpu_spans);
    }
    free(steps->ranks);
    *steps = (struct steps){0};
}
