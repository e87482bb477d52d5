/* SPDX-License-Identifier: Apache-2.0
 *
 * What one rank's own records say about its time.
 * Lives here: unions of intervals in one pass, and the bins of self time.
 * Must not live here: other ranks, waits, verdicts.
 */
#include "analyzer/stragglers/ranks.h"

#include <stdlib.h>
#include <string.h>

/* How a class of calls counts. */
static const struct {
    bool communication; /* in comm_seconds */
    bool busy;          /* may wait for others: not self time */
    bool poll;
} classes[] = {
    [CLASS_OTHER] = {false, false, false},  [CLASS_COLLECTIVE] = {true, true, false},
    [CLASS_SEND] = {true, true, false},     [CLASS_RECV] = {true, true, false},
    [CLASS_SENDRECV] = {true, true, false}, [CLASS_WAIT] = {true, true, false},
    [CLASS_TEST] = {true, true, true},      [CLASS_PROBE] = {true, true, true},
    [CLASS_START] = {true, true, false},    [CLASS_COMMUNICATOR] = {false, true, false},
    [CLASS_RMA] = {true, true, false},      [CLASS_RMA_SYNC] = {true, true, false},
    [CLASS_FILE] = {false, false, false},   [CLASS_SETUP] = {false, true, false},
    [CLASS_GROUP] = {true, true, false},
};

enum { BINS_FIRST = 8 }; /* many jobs are short, and their ranks many */

static bool make_room(struct rank_bins *bins, uint32_t wanted) {
    uint32_t room = bins->room ? bins->room : BINS_FIRST;
    while (room < wanted)
        room *= 2;
    room = room < bins->capacity ? room : bins->capacity;
    int64_t *self_ns = realloc(bins->self_ns, room * sizeof *self_ns);
    bins->self_ns = self_ns ? self_ns : bins->self_ns;
    uint32_t *calls = self_ns ? realloc(bins->calls, room * sizeof *calls) : NULL;
    bins->calls = calls ? calls : bins->calls;
    bins->room = calls ? room : bins->room;
    return calls != NULL;
}

bool rank_times_init(struct rank_times *times, const struct cut *cut, uint32_t bins, uint32_t segments, bool device) {
    *times = (struct rank_times){.from_ns = INT64_MAX, .to_ns = INT64_MIN, .cut = *cut};
    if (device && !(times->device = calloc(1, sizeof *times->device)))
        return false;
    if (cut->kind == CUT_NONE)
        return true;
    times->bins.capacity = times->beside.capacity = bins;
    return sampled_collectives_init(&times->sampled, segments) && make_room(&times->bins, BINS_FIRST);
}

void rank_times_free(struct rank_times *times) {
    free(times->bins.self_ns);
    free(times->bins.calls);
    free(times->beside.self_ns);
    free(times->beside.calls);
    free(times->device);
    times->bins = times->beside = (struct rank_bins){0};
    times->device = NULL;
    sampled_collectives_free(&times->sampled);
    own_steps_free(&times->steps);
}

void rank_bins_coarsen(struct rank_bins *bins, unsigned shift) {
    if (shift <= bins->shift)
        return;
    unsigned by = shift - bins->shift;
    uint32_t first = by < 32 ? bins->first >> by : 0, count = 0;
    for (uint32_t i = 0; i < bins->count; i++) {
        uint32_t to = (by < 32 ? (bins->first + i) >> by : 0) - first;
        int64_t self = bins->self_ns[i];
        uint32_t calls = bins->calls[i];
        if (to >= count) {
            bins->self_ns[to] = 0;
            bins->calls[to] = 0;
            count = to + 1;
        }
        bins->self_ns[to] = add_ns(bins->self_ns[to], self);
        bins->calls[to] += calls;
    }
    bins->shift = shift;
    bins->first = first;
    bins->count = count;
}

/* `stretches` is 1 where one ends with this time. */
static void add_to_bins(struct rank_bins *bins, uint32_t seq, int64_t self, unsigned stretches) {
    if (bins->count == 0)
        bins->first = seq >> bins->shift;
    if (seq >> bins->shift < bins->first) /* numbers rise; one that does not is damage */
        return;
    while (
        (seq >> bins->shift) - bins->first >= bins->capacity ||
        ((seq >> bins->shift) - bins->first >= bins->room && !make_room(bins, (seq >> bins->shift) - bins->first + 1)))
        rank_bins_coarsen(bins, bins->shift + 1); /* where memory is short, too */
    uint32_t at = (seq >> bins->shift) - bins->first;
    while (bins->count <= at) {
        bins->self_ns[bins->count] = 0;
        bins->calls[bins->count++] = 0;
    }
    bins->self_ns[at] = add_ns(bins->self_ns[at], self);
    bins->calls[at] += stretches;
}

static void open_stretch(struct rank_times *times, int64_t at) {
    times->open = true;
    times->since_ns = times->comm_to_ns = times->busy_to_ns = times->work_to_ns = times->gpu_work_to_ns = at;
    times->pending_self_ns = times->pending_beside_ns = 0;
    times->after_cut = false;
    times->polled = false;
    times->slice = cut_slice_at(&times->cut, at) + 1; /* the one that it begins in is not whole */
}

static void close_stretch(struct rank_times *times, int64_t at) {
    if (times->open && at > times->since_ns)
        times->window_ns = add_ns(times->window_ns, at - times->since_ns);
    times->open = false;
}

static int64_t later_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t earlier_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* CUT_TIME: shares own work out to the slices that it lies in. */
static void add_to_slices(struct rank_times *times, int64_t from, int64_t to) {
    const struct cut *cut = &times->cut;
    while (from < to) {
        uint32_t slice = cut_slice_at(cut, from);
        int64_t end = slice == UINT32_MAX ? to : cut->from_ns + (int64_t)(slice + UINT64_C(1)) * cut->slice_ns;
        end = end < to && end > from ? end : to;
        if (slice >= times->slice)
            add_to_bins(&times->bins, slice, end - from, 0);
        from = end;
    }
}

/* CUT_TIME: counts the slices that are over at `at`. */
static void end_slices(struct rank_times *times, int64_t at) {
    uint32_t now = cut_slice_at(&times->cut, at);
    for (; times->slice < now; times->slice++)
        add_to_bins(&times->bins, times->slice, 0, 1);
}

static void add_self(struct rank_times *times, int64_t from, int64_t to) {
    if (from >= to)
        return;
    times->self_ns = add_ns(times->self_ns, to - from);
    times->pending_self_ns = add_ns(times->pending_self_ns, to - from);
    if (times->cut.kind == CUT_TIME)
        add_to_slices(times, from, to);
}

/* Work on record that goes on while the rank communicates. */
static void add_beside(struct rank_times *times, int64_t from, int64_t to) {
    if (from >= to)
        return;
    add_self(times, from, to);
    times->beside_ns = add_ns(times->beside_ns, to - from);
    times->pending_beside_ns = add_ns(times->pending_beside_ns, to - from);
    if (times->work_step)
        times->work_step->beside_ns = add_ns(times->work_step->beside_ns, to - from);
}

/* Time between the calls so far and this one was the rank's own, unless both only poll: the loop around polls is not
 * work. */
static void count_self(struct rank_times *times, int64_t t0, bool poll) {
    if (poll && times->polled && t0 - times->busy_to_ns < POLL_GAP_NS)
        return;
    add_self(times, times->busy_to_ns, t0);
    own_steps_add(times->step, later_of(times->busy_to_ns, times->work_to_ns), t0);
}

/* Work that has a name is a rank's own also while the rank communicates. Records come in the order of their beginnings:
 * whatever lasts until busy_to_ns or work_to_ns has begun. */
static void count_work(struct rank_times *times, int64_t t0, int64_t t1) {
    times->work_step = times->step;
    own_steps_add(times->step, later_of(times->busy_to_ns, times->work_to_ns), t0);
    own_steps_add(times->step, later_of(t0, times->work_to_ns), t1);
    add_beside(times, later_of(t0, times->work_to_ns), earlier_of(t1, times->busy_to_ns));
    times->work_to_ns = later_of(times->work_to_ns, t1);
}

static void count_gpu_work(struct rank_times *times, const struct call_name *call, int64_t t0, int64_t t1) {
    enum trace_work work = trace_work_of(call);
    int64_t from = later_of(t0, times->gpu_work_to_ns);
    if ((work != TRACE_WORK_KERNELS && work != TRACE_WORK_COPIES) || from >= t1)
        return;
    times->gpu_work_ns = add_ns(times->gpu_work_ns, t1 - from);
    times->gpu_work_to_ns = t1;
}

static void note_cut(struct rank_device *device, struct rank_cut cut) {
    device->cuts[device->next_cut] = cut;
    device->next_cut = (device->next_cut + 1) % RANK_CUTS;
}

static void pass_cut(struct rank_times *times, const struct match_record *item) {
    uint32_t number = cut_ends_at(&times->cut, item);
    if (number == SEQ_NONE || !times->bins.capacity)
        return;
    if (times->after_cut) {
        add_to_bins(&times->bins, number, times->pending_self_ns, 1);
        sampled_collectives_add(&times->sampled, number, times->pending_self_ns);
        if (times->pending_beside_ns > 0)
            add_to_bins(&times->beside, number, times->pending_beside_ns, 1);
    }
    if (times->device)
        note_cut(times->device, (struct rank_cut){item->t0, number, times->after_cut});
    times->after_cut = true;
    times->pending_self_ns = times->pending_beside_ns = 0;
}

/* Whether a record says when something ran. Where GPU operations have records of their own, those of their calls only
 * say when they were enqueued. */
static bool tells_time(const struct rank_times *times, const struct record *record, const struct call_name *call) {
    bool device = record->kind == RECORD_GPU || record->kind == RECORD_KERNEL;
    if (record->kind == RECORD_POST && times->device && call && call->api == API_NCCL)
        return false;
    return device || record->kind == RECORD_CALL || record->kind == RECORD_POST || record->kind == RECORD_POLL;
}

/* What is made of a communicator by all of its members is a collective like others. */
static enum call_class class_of(const struct call_name *call, const struct record *record) {
    if (call && record_makes_communicator(record, call))
        return CLASS_COLLECTIVE;
    return call && call->call_class < sizeof classes / sizeof classes[0] ? call->call_class : CLASS_OTHER;
}

/* The stretch that is open while all records are there. */
static void open_at(struct rank_times *times, uint32_t stretch, enum call_class class, int64_t t0, int64_t t1) {
    if (times->from_ns > times->to_ns) {
        times->from_ns = t0;
        own_steps_add(times->step, times->step ? times->step->begin_ns : t0, t0);
    } else if (stretch != times->stretch)
        close_stretch(times, times->to_ns);
    times->stretch = stretch;
    if (!times->open) /* Init is not part of the job's own time */
        open_stretch(times, class == CLASS_SETUP ? t1 : t0);
    if (t1 > times->to_ns)
        times->to_ns = t1;
}

static void count_call(struct rank_times *times, enum call_class class, int64_t t0, int64_t t1) {
    count_self(times, t0, classes[class].poll);
    if (times->cut.kind == CUT_TIME)
        end_slices(times, t0);
    times->polled = classes[class].poll;
    if (t1 > times->busy_to_ns)
        times->busy_to_ns = t1;
    if (classes[class].communication && t1 > times->comm_to_ns) {
        times->comm_ns = add_ns(times->comm_ns, t1 - (t0 > times->comm_to_ns ? t0 : times->comm_to_ns));
        times->comm_to_ns = t1;
    }
}

/* The end of the stretch that the rank was in at `at`; NULL: it has not ended, or is forgotten. */
static const struct rank_cut *cut_after(const struct rank_device *device, int64_t at) {
    const struct rank_cut *first = NULL;
    for (unsigned i = 0; i < RANK_CUTS; i++) {
        const struct rank_cut *cut = &device->cuts[i];
        if (cut->at_ns > at && (!first || cut->at_ns < first->at_ns))
            first = cut;
    }
    return first;
}

/* Known only when the wait is, in a later stretch, it counts in the one in which it was. */
static void take_hidden(void *context, int64_t begin_ns, int64_t hidden_ns) {
    struct rank_times *times = context;
    const struct rank_cut *cut = cut_after(times->device, begin_ns);
    struct own_step *step = own_steps_at(&times->steps, begin_ns);
    if (!times->open)
        return;
    if (step)
        step->self_ns = add_ns(step->self_ns, hidden_ns);
    times->self_ns = add_ns(times->self_ns, hidden_ns);
    times->hidden_ns = add_ns(times->hidden_ns, hidden_ns);
    if (!cut) {
        times->pending_self_ns = add_ns(times->pending_self_ns, hidden_ns);
    } else if (cut->counted) {
        add_to_bins(&times->bins, cut->number, hidden_ns, 0);
        sampled_collectives_raise(&times->sampled, cut->number, hidden_ns);
    }
}

/* A stream that came to its wait for an operation after that had begun was at work meanwhile, or a late host left it
 * idle: both are the rank's own. */
static void count_hidden(struct rank_times *times, const struct match_record *item) {
    const struct record *record = item->record;
    if (record->kind == RECORD_POST || record->kind == RECORD_GROUP)
        hidden_work_posted(&times->device->hidden, record->op, item->t0);
    if ((record->kind == RECORD_GPU || record->kind == RECORD_KERNEL) && !(record->flags & FLAG_CAPTURED)) {
        const struct hidden_operation operation = {
            .begin_ns = item->t0, .end_ns = item->t1, .op = record->op, .comm = record->comm};
        hidden_work_launched(&times->device->hidden, &operation, take_hidden, times);
    }
    if (record->kind == RECORD_EXPOSED)
        hidden_work_reached(&times->device->hidden, record->op, item->t0, take_hidden, times);
}

/* A step begins, by a mark or where all meet. Where there come to be too many of them none is left. */
static bool begin_step(struct rank_times *times, const struct record *record, int64_t at) {
    bool done = record->kind == RECORD_MARK ? own_steps_mark(&times->steps, at) : own_steps_meet(&times->steps, at);
    if (times->steps.count <= 1)
        times->work_step = NULL;
    return done;
}

static bool begins_step(const struct rank_times *times, const struct record *record) {
    const struct own_steps *steps = &times->steps;
    return record->kind == RECORD_MARK ? record->tag >= STEP_MARK_LEVEL
                                       : record->kind == RECORD_POST && steps->meets &&
                                             record->flags & FLAG_COLLECTIVE && record->comm == steps->meeting;
}

/* Finds the step that the record's work was launched in. A replayed operation was launched anew, when nobody knows. */
static bool find_step(struct rank_times *times, const struct match_record *item, const struct call_name *call) {
    const struct record *record = item->record;
    bool device = record->kind == RECORD_GPU || record->kind == RECORD_KERNEL;
    bool done = !begins_step(times, record) || begin_step(times, record, item->t0);
    if (record->kind == RECORD_POST || record->kind == RECORD_GROUP)
        own_steps_launched(&times->steps, record->op, item->t0);
    if (device && item->replay == 0)
        times->step = own_steps_of_launch(&times->steps, record->op);
    else if (call && call_is_own_work(call) && record->seq != SEQ_NONE) /* us from its launch (import/write_dump.c) */
        times->step = own_steps_at(&times->steps, add_ns(item->t0, -(int64_t)record->seq * 1000));
    else
        times->step = own_steps_at(&times->steps, item->t0);
    return done;
}

bool rank_times_add(struct rank_times *times, const struct match_record *item, const struct call_name *call) {
    bool done = find_step(times, item, call);
    if (item->record->kind == RECORD_PARTNER) /* of the call before it */
        pass_cut(times, item);
    if (times->device)
        count_hidden(times, item);
    if (!tells_time(times, item->record, call))
        return done;
    enum call_class class = class_of(call, item->record);
    int64_t t0 = item->t0, t1 = item->t1 > item->t0 ? item->t1 : item->t0;
    open_at(times, item->stretch, class, t0, t1);
    if (call && call_is_own_work(call))
        count_work(times, t0, t1);
    if (call)
        count_gpu_work(times, call, t0, t1);
    if (!classes[class].busy && !(class == CLASS_FILE && (item->record->flags & FLAG_COLLECTIVE)))
        return done;
    int64_t new_from = later_of(t0, times->busy_to_ns);
    count_call(times, class, t0, t1);
    pass_cut(times, item);
    add_beside(times, new_from, earlier_of(t1, times->work_to_ns));
    if (class == CLASS_SETUP && times->open && t0 > times->since_ns) /* Finalize ends the stretch at its entry */
        close_stretch(times, t0);
    return done;
}

static void rank_bins_parcel(struct rank_bins *bins, struct parcel *parcel) {
    parcel_field(parcel, &bins->shift);
    parcel_field(parcel, &bins->first);
    parcel_field(parcel, &bins->count);
    if (bins->count > bins->capacity || (bins->count > bins->room && !make_room(bins, bins->count))) {
        bins->count = 0;
        parcel->failed = true;
    }
    parcel_bytes(parcel, bins->self_ns, bins->count * sizeof *bins->self_ns);
    parcel_bytes(parcel, bins->calls, bins->count * sizeof *bins->calls);
}

/* Beside what was counted, only what the end of the last stretch needs. */
void rank_times_parcel(struct rank_times *times, struct parcel *parcel) {
    parcel_field(parcel, &times->from_ns);
    parcel_field(parcel, &times->to_ns);
    parcel_field(parcel, &times->window_ns);
    parcel_field(parcel, &times->comm_ns);
    parcel_field(parcel, &times->self_ns);
    parcel_field(parcel, &times->beside_ns);
    parcel_field(parcel, &times->hidden_ns);
    parcel_field(parcel, &times->gpu_work_ns);
    rank_bins_parcel(&times->bins, parcel);
    rank_bins_parcel(&times->beside, parcel);
    sampled_collectives_parcel(&times->sampled, parcel);
    own_steps_parcel(&times->steps, parcel);
    parcel_flag(parcel, &times->open);
    parcel_field(parcel, &times->since_ns);
}

void rank_times_finish(struct rank_times *times) {
    close_stretch(times, times->to_ns);
}

/* Beside communication a rank does no more than in all. */
static void count_beside(struct rank_times *times, int sign) {
    struct rank_bins *bins = &times->bins, *beside = &times->beside;
    rank_bins_coarsen(bins, beside->shift);
    rank_bins_coarsen(beside, bins->shift);
    for (uint32_t i = 0; i < beside->count; i++) {
        uint32_t at = beside->first + i - bins->first;
        if (beside->first + i >= bins->first && at < bins->count)
            bins->self_ns[at] = add_ns(bins->self_ns[at], sign * beside->self_ns[i]);
    }
    times->self_ns = add_ns(times->self_ns, sign * times->beside_ns);
    own_steps_count_beside(&times->steps, sign);
}

void rank_times_leave_out_beside(struct rank_times *times) {
    count_beside(times, -1);
    times->left_out_ns = times->beside_ns;
    sampled_collectives_free(&times->sampled);
}

void rank_times_put_beside_back(struct rank_times *times) {
    count_beside(times, 1);
    times->left_out_ns = 0;
}
