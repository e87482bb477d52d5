/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/tracks/draw.h"

#include <stdlib.h>

#include "analyzer/match/match.h"
#include "analyzer/tracks/layout.h"
#include "analyzer/waits/waits.h"

enum {
    HELD_MOST = 1 << 20,   /* records that may be walked until one is let go of which nothing was told ... */
    HELD_PER_DUMP = 256,   /* ... and at least so many per dump; both as matching does with halves of messages */
    SWEEP_EVERY = 1 << 16, /* records between looks for such */
};

struct drawing {
    const struct track_request *request;
    struct track_totals *totals;
    struct layout layout;
    struct held held;
    struct waits waits;
    struct scope_dump *parts; /* per dump: what of it lies in the scope */
    bool *shown;              /* per dump: its rank is asked for */
    uint64_t walked;
    bool no_memory;
};

/* ---- letting go ------------------------------------------------------------------------------ */

static void draw_front(struct drawing *drawing, size_t d, uint32_t lane, struct held_lane *held) {
    layout_draw_record(&drawing->layout, d, lane, held_front(held), &held->last_track);
    held_pop(held);
}

static void draw_settled(struct drawing *drawing, size_t d, uint32_t lane) {
    struct held_lane *held = held_lane_of(&drawing->held, d, lane);
    while (held && held->count > 0 && held_front(held)->settled)
        draw_front(drawing, d, lane, held);
}

/* Lets go what was held when `walked` records had been walked, settled or not. */
static void draw_older(struct drawing *drawing, uint64_t walked) {
    struct held_lane *held;
    for (size_t d = 0; d < drawing->held.dump_count; d++)
        for (uint32_t lane = 0; (held = held_lane_of(&drawing->held, d, lane)); lane++)
            while (held->count > 0 && (held_front(held)->settled || held_front(held)->walked < walked))
                draw_front(drawing, d, lane, held);
}

static uint64_t held_most(const struct drawing *drawing) {
    uint64_t most = (uint64_t)drawing->held.dump_count * HELD_PER_DUMP;
    return most > HELD_MOST ? most : HELD_MOST;
}

/* ---- records --------------------------------------------------------------------------------- */

/* Partners of an epoch stand beside the record of the call that named them. */
static bool is_asked_for(const struct drawing *drawing, const struct match_record *item) {
    const struct dump *dump = drawing->request->directory->dumps[item->dump];
    return drawing->shown[item->dump] && !record_is_of_a_call(item->record) &&
           filter_lets_pass(drawing->request->filter, dump, item->record->call,
                            dump_communicator(dump, item->record->comm), item->record->bytes) &&
           scope_dump_holds(&drawing->parts[item->dump], item->record);
}

/* Whether matching may have something to tell: of what takes part in an operation, and of what may wait for one. */
static bool may_be_told_of(const struct drawing *drawing, const struct match_record *item) {
    const struct record *record = item->record;
    if (record->kind == RECORD_POLL)
        return true;
    if (record->kind != RECORD_CALL && record->kind != RECORD_DONE && record->kind != RECORD_GPU &&
        record->kind != RECORD_KERNEL)
        return false;
    if (record->flags & (FLAG_COLLECTIVE | FLAG_SEND | FLAG_RECV) || item->call == CALL_UNKNOWN)
        return true;
    const struct call_name *call = drawing->request->directory->calls[item->call].name;
    enum call_class class = call->call_class;
    return class == CLASS_WAIT || class == CLASS_TEST || class == CLASS_PROBE || item->message_count > 0 ||
           call->epoch > EPOCH_POST;
}

static int64_t within(int64_t at, int64_t from, int64_t to) {
    return at < from ? from : at > to ? to : at;
}

static void take_record(void *state, const struct match_record *item) {
    struct drawing *drawing = state;
    if (++drawing->walked % SWEEP_EVERY == 0 && drawing->walked > held_most(drawing))
        draw_older(drawing, drawing->walked - held_most(drawing));
    struct held_lane *lane = held_lane_of(&drawing->held, item->dump, item->lane);
    if (!lane || !is_asked_for(drawing, item))
        return;
    int64_t end = item->t1 > item->begin ? item->t1 : item->begin;
    struct held_record *held = held_push(lane, item->record->commit - 1, end);
    if (!held) {
        drawing->no_memory = true;
        return;
    }
    held->record = *item->record;
    held->begin = item->begin;
    held->arrival = within(item->t0, held->begin, held->end);
    held->walked = drawing->walked;
    held->messages = item->message_count > 0 || (item->record->flags & (FLAG_SEND | FLAG_RECV));
    held->settled = !may_be_told_of(drawing, item);
    draw_settled(drawing, item->dump, item->lane);
}

/* ---- waits ----------------------------------------------------------------------------------- */

/* Whether this is a call, or a launch, that the wait was spent in. */
static bool may_wait(const struct drawing *drawing, const struct told_wait *wait, const struct held_record *held) {
    const struct record *record = &held->record;
    if (record->kind == RECORD_CALL || record->kind == RECORD_POLL)
        return true;
    if (record->kind != RECORD_GPU && record->kind != RECORD_KERNEL)
        return false;
    if (!(wait->channel & 1)) /* between two ranks */
        return held->messages;
    const struct match_directory *directory = drawing->request->directory;
    struct match_place place = match_place_of(directory, wait->dump, record->comm);
    return place.communicator != NOWHERE && (directory->communicators[place.communicator].uid | 1) == wait->channel;
}

/* Of several waits in one call, which overlap, the whole is kept, and who was waited for longest. */
static void add_wait(struct held_record *held, const struct told_wait *wait) {
    int64_t from = within(wait->until - wait->length, held->begin, held->end);
    int64_t to = within(wait->until, held->begin, held->end);
    if (from >= to)
        return;
    bool any = held->wait_from < held->wait_to;
    if (!any || to > held->wait_to)
        held->waited_for = wait->cause;
    held->wait_from = any && held->wait_from < from ? held->wait_from : from;
    held->wait_to = any && held->wait_to > to ? held->wait_to : to;
}

static void take_wait(void *context, const struct told_wait *wait) {
    struct drawing *drawing = context;
    struct held_lane *lane = held_lane_of(&drawing->held, wait->dump, wait->lane);
    if (!lane)
        return;
    size_t end = lane->first + lane->count;
    for (size_t i = held_ending_from(lane, wait->until - wait->length); i < end; i++) {
        struct held_record *held = &lane->items[i];
        if (held->begin >= wait->until && held->record.kind == RECORD_CALL)
            break;
        if (may_wait(drawing, wait, held))
            add_wait(held, wait);
    }
}

/* ---- collectives and messages ---------------------------------------------------------------- */

static struct held_record *record_of(const struct drawing *drawing, size_t dump, const struct match_member *member) {
    struct held_lane *lane = member->enter == MATCH_ABSENT ? NULL : held_lane_of(&drawing->held, dump, member->lane);
    return lane ? held_find(lane, member->ticket) : NULL;
}

/* Leads a flow through those members whose records are shown; nothing more will be told of them. One walk for both: of
 * thousands of ranks each member is far from the one before. */
static void settle_members(struct drawing *drawing, const struct match_instance *instance) {
    struct held_record *first = NULL, *last = NULL;
    uint64_t flow = drawing->totals->flows + 1;
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        struct held_record *held = record_of(drawing, instance->communicator->dump_of[i], &instance->members[i]);
        if (!held)
            continue;
        held->settled = held->matched = true;
        held->flow = flow;
        held->place = FLOW_THROUGH;
        first = !first || held->begin < first->begin ? held : first;
        last = !last || held->begin >= last->begin ? held : last;
    }
    if (first && first != last) {
        first->place = FLOW_FIRST;
        last->place = FLOW_LAST;
        drawing->totals->flows++;
    } else if (first) {
        first->place = FLOW_NOT;
    }
}

static void take_instance(void *state, const struct match_instance *instance) {
    struct drawing *drawing = state;
    waits_add(&drawing->waits, instance);
    settle_members(drawing, instance);
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++)
        if (instance->members[i].enter != MATCH_ABSENT)
            draw_settled(drawing, instance->communicator->dump_of[i], instance->members[i].lane);
}

/* What came is what was sent, where the receive knows its buffer's size alone. */
static void take_size(struct held_record *received, uint64_t bytes) {
    if (!(received->record.flags & FLAG_BYTES_POSTED) || bytes == BYTES_UNKNOWN)
        return;
    received->record.bytes = bytes;
    received->record.flags &= (uint16_t)~FLAG_BYTES_POSTED;
}

/* A wait of several receives in one call is told only when no more of them can turn up: then the call is held, too, as
 * is the launch of an NCCL group. */
static void take_message(void *state, const struct match_message *message) {
    struct drawing *drawing = state;
    waits_add_message(&drawing->waits, message);
    struct held_record *sent = record_of(drawing, message->from_dump, &message->send);
    struct held_record *received = record_of(drawing, message->to_dump, &message->receive);
    if (sent && received && sent != received) {
        sent->flow = received->flow = ++drawing->totals->flows;
        sent->place = FLOW_SENT;
        received->place = FLOW_RECEIVED;
    }
    if (received)
        take_size(received, message->bytes);
    if (sent && (!message->device || !message->send.shared))
        sent->settled = sent->matched = true;
    if (received && (!message->device || !message->receive.shared))
        received->settled = received->matched = true;
    draw_settled(drawing, message->from_dump, message->send.lane);
    draw_settled(drawing, message->to_dump, message->receive.lane);
}

static void take_sent(void *state, const struct match_message *message) {
    waits_add_sent(&((struct drawing *)state)->waits, message);
}

static void take_epoch(void *state, const struct match_message *need) {
    waits_add_epoch(&((struct drawing *)state)->waits, need);
}

/* ---- the drawing ----------------------------------------------------------------------------- */

static bool draw_steps(struct drawing *drawing) {
    const struct track_request *request = drawing->request;
    struct steps steps;
    bool done = steps_find(&steps, request->clock, request->marker);
    if (done)
        scope_keep_steps(request->scope, &steps);
    for (size_t d = 0; done && d < steps.rank_count; d++)
        for (size_t i = 0; drawing->shown[d] && i < steps.ranks[d].count; i++)
            layout_draw_step(&drawing->layout, d, &steps.ranks[d].steps[i]);
    steps_free(&steps);
    return done;
}

/* Calls that enqueued what ran in the window may lie before it. */
static bool may_be_limited(const struct drawing *drawing) {
    for (size_t d = 0; d < drawing->held.dump_count; d++)
        if (drawing->shown[d] && dump_has_device_times(drawing->request->directory->dumps[d]))
            return false;
    return scope_is_limited(drawing->request->scope);
}

static bool walk(struct drawing *drawing) {
    const struct track_request *request = drawing->request;
    const struct match_sink sink = {.instance = take_instance,
                                    .record = take_record,
                                    .message = take_message,
                                    .sent = take_sent,
                                    .epoch = take_epoch,
                                    .progress = request->progress,
                                    .progress_context = request->progress_context,
                                    .limited = may_be_limited(drawing),
                                    .from_ns = request->scope->from_ns,
                                    .to_ns = request->scope->to_ns};
    void *states[1] = {drawing};
    struct match_totals totals;
    if (!match_run(request->clock, request->directory, &sink, states, 1, &totals))
        return false;
    waits_finish(&drawing->waits);
    draw_older(drawing, UINT64_MAX);
    return true;
}

static bool prepare(struct drawing *drawing) {
    const struct track_request *request = drawing->request;
    size_t count = request->directory->dump_count;
    drawing->parts = calloc(count ? count : 1, sizeof *drawing->parts);
    drawing->shown = calloc(count ? count : 1, sizeof *drawing->shown);
    bool done = waits_init(&drawing->waits, request->clock, request->directory) && drawing->parts && drawing->shown &&
                held_init(&drawing->held, request->directory);
    drawing->waits.listener = (struct wait_listener){.context = drawing, .wait = take_wait};
    for (size_t d = 0; done && d < count; d++) {
        drawing->shown[d] = filter_rank(request->filter, request->directory->dumps[d]->header->rank);
        if (drawing->shown[d])
            done = scope_dump_begin(&drawing->parts[d], request->scope, request->directory->dumps[d], d);
    }
    return done;
}

bool tracks_draw(const struct track_request *request, struct track_totals *totals) {
    struct drawing drawing = {.request = request, .totals = totals, .layout = {request, totals, .last_id = 0}};
    *totals = (struct track_totals){0};
    bool done = prepare(&drawing) && (request->without_steps || draw_steps(&drawing)) && walk(&drawing) &&
                !drawing.no_memory && !drawing.layout.no_memory && !drawing.waits.no_memory;
    for (size_t d = 0; drawing.parts && d < request->directory->dump_count; d++)
        scope_dump_end(&drawing.parts[d]);
    free(drawing.parts);
    free(drawing.shown);
    held_free(&drawing.held);
    waits_free(&drawing.waits);
    layout_free(&drawing.layout);
    return done;
}
