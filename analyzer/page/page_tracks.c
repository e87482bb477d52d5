/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/page_tracks.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/ns.h"
#include "analyzer/cli/progress.h"
#include "analyzer/load/gpu_view.h"
#include "analyzer/tracks/draw.h"

/* ---- which part ------------------------------------------------------------------------------ */

/* One step over all ranks. */
struct step_sum {
    int64_t begin_ns, end_ns, waited_ns; /* common ns; begin > end: no rank has it */
    uint64_t operations;
};

static void sum_steps(struct step_sum *sums, const struct steps *steps) {
    for (uint32_t i = 0; i < steps->count; i++)
        sums[i] = (struct step_sum){.begin_ns = INT64_MAX, .end_ns = INT64_MIN};
    for (size_t r = 0; r < steps->rank_count; r++)
        for (size_t i = 0; i < steps->ranks[r].count; i++) {
            const struct step *step = &steps->ranks[r].steps[i];
            if (step->number == NO_STEP || step->number - steps->first >= steps->count)
                continue;
            struct step_sum *sum = &sums[step->number - steps->first];
            sum->begin_ns = step->start_ns < sum->begin_ns ? step->start_ns : sum->begin_ns;
            sum->end_ns = step->end_ns > sum->end_ns ? step->end_ns : sum->end_ns;
            sum->waited_ns = add_ns(sum->waited_ns, step->wait_ns == STEP_UNKNOWN ? 0 : step->wait_ns);
            sum->operations += step->operations;
        }
}

/* The steps round the one with the longest waits, to both sides as long as there is room. */
static void choose_steps(const struct step_sum *sums, uint32_t count, int64_t *from_ns, int64_t *to_ns) {
    uint32_t first = 0, last;
    for (uint32_t i = 0; i < count; i++)
        if (sums[i].waited_ns > sums[first].waited_ns)
            first = i;
    last = first;
    uint64_t held = sums[first].operations;
    for (bool grew = true; grew;) {
        grew = false;
        if (first > 0 && held + sums[first - 1].operations <= OPERATIONS_MOST) {
            held += sums[--first].operations;
            grew = true;
        }
        if (last + 1 < count && held + sums[last + 1].operations <= OPERATIONS_MOST) {
            held += sums[++last].operations;
            grew = true;
        }
    }
    for (uint32_t i = first; i <= last; i++) {
        *from_ns = sums[i].begin_ns < *from_ns ? sums[i].begin_ns : *from_ns;
        *to_ns = sums[i].end_ns > *to_ns ? sums[i].end_ns : *to_ns;
    }
}

/* Sets what part of the job's time is held operation by operation. */
static bool choose_part(struct operations *operations, const struct session *session, const struct steps *steps) {
    int64_t start = session->start_ns, end = session->end_ns > start ? session->end_ns : start;
    int64_t from = INT64_MAX, to = INT64_MIN;
    uint64_t on_record = session->job.events - session->job.events_lost;
    if (on_record <= OPERATIONS_MOST) {
        from = start;
        to = end;
    } else if (steps->count > 0) {
        struct step_sum *sums = malloc(steps->count * sizeof *sums);
        if (!sums)
            return false;
        sum_steps(sums, steps);
        choose_steps(sums, steps->count, &from, &to);
        free(sums);
    }
    if (from >= to) {
        from = end - (int64_t)((double)(end - start) * OPERATIONS_MOST / (double)(on_record ? on_record : 1));
        to = end;
    }
    operations->from = from - start;
    operations->to = to - start + 1;
    return true;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void take_track(void *context, const struct track *track) {
    struct page_tracks *tracks = context;
    if (!grow_to(tracks->tracks, tracks->track_room, (size_t)track->id + 1))
        tracks->operations.no_memory = true;
    else
        tracks->tracks[track->id] = *track;
}

/* What only shows again what a call waits for, or what a call began, is no more time of the rank. */
static bool is_of_rank(enum track_kind kind) {
    return kind == TRACK_THREAD || kind == TRACK_DEVICE;
}

/* An imported trace has on its tracks what a rank did beside communication, too. */
static bool is_communication(const struct page_tracks *tracks, const struct slice *slice) {
    const struct call_name *call = dump_call(tracks->operations.directory->dumps[slice->dump], slice->record->call);
    enum trace_work work = call ? trace_work_of(call) : TRACE_WORK_NONE;
    return work == TRACE_WORK_NONE || work == TRACE_WORK_NCCL;
}

static void take_slice(void *context, const struct slice *slice) {
    struct page_tracks *tracks = context;
    if (slice->track >= tracks->track_room || !slice->record)
        return;
    const struct track *track = &tracks->tracks[slice->track];
    if (is_of_rank(track->kind) && is_communication(tracks, slice))
        heat_add(&tracks->heat, slice);
    operations_add(&tracks->operations, track, slice);
}

static void take_counter(void *context, const struct track *track, int64_t at, double value) {
    struct page_tracks *tracks = context;
    const struct dump *dump = tracks->operations.directory->dumps[track->dump];
    const struct call_name *part = track->call ? dump_call(dump, track->call) : NULL;
    const struct memory_source source = {track->dump, dump_device_number(dump, track->which), track->call,
                                         part ? part->name : NULL};
    if (track->kind == TRACK_MEMORY && value >= 0)
        memory_add(&tracks->memory, &source, at, value < 0x1p63 ? (uint64_t)value : INT64_MAX);
}

bool page_tracks_build(struct page_tracks *tracks, const struct session *session, const struct steps *steps) {
    *tracks = (struct page_tracks){.operations = {.directory = &session->directory,
                                                  .labels = session->labels,
                                                  .most = (size_t)2 * OPERATIONS_MOST}};
    operations_begin(&tracks->operations);
    if (!heat_init(&tracks->heat, session->job.count, session->end_ns - session->start_ns) ||
        !choose_part(&tracks->operations, session, steps))
        return false;
    tracks->memory.intervals = tracks->heat.intervals;
    tracks->memory.span_ns = tracks->heat.span_ns;
    struct progress_line line = progress_begin("writing");
    const struct track_request request = {.clock = &session->clock,
                                          .directory = &session->directory,
                                          .scope = &session->scope,
                                          .filter = &session->selection.filter,
                                          .marker = &session->selection.marker,
                                          .without_steps = true,
                                          .without_bandwidths = true,
                                          .origin_ns = session->start_ns,
                                          .sink = {tracks, take_track, take_slice, take_counter},
                                          .progress = progress_show,
                                          .progress_context = &line};
    struct track_totals totals;
    bool done = tracks_draw(&request, &totals);
    progress_end(&line);
    return done && !tracks->operations.no_memory;
}

void page_tracks_free(struct page_tracks *tracks) {
    operations_free(&tracks->operations);
    memory_free(&tracks->memory);
    heat_free(&tracks->heat);
    free(tracks->tracks);
}
