/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/traces/trace_events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/gpu_view.h"
#include "analyzer/render/export_table.h"
#include "analyzer/render/summary_table.h"

struct stack_key {
    uint32_t dump, stack;
};

struct stack_text {
    struct stack_key key;
    char *text; /* innermost frame first; NULL: it has none */
};

HASH_TABLE_OF(stack_texts, struct stack_text, struct stack_key);

void trace_events_free(struct trace_events *events) {
    for (size_t i = 0; i < events->stacks.count; i++)
        free(stack_texts_items(&events->stacks)[i].text);
    hash_table_free(&events->stacks);
    frames_free(&events->frames);
}

/* ---- tracks ---------------------------------------------------------------------------------- */

enum { TRACK_NAME = 320 };

static void name_rank(char *name, const struct dump *dump) {
    char host[TRACK_NAME / 2] = "";
    if (dump->host[0])
        snprintf(host, sizeof host, " (%s)", dump->host);
    if (dump->header->rank == RANK_UNKNOWN)
        snprintf(name, TRACK_NAME, "process %" PRId64 " of unknown rank%s", dump->header->pid, host);
    else
        snprintf(name, TRACK_NAME, "rank %" PRId32 "%s", dump->header->rank, host);
}

static void name_lane(char *name, const struct dump *dump, uint32_t lane) {
    const struct lane_state *state = dump->lanes[lane].state;
    if (state && state->shared)
        snprintf(name, TRACK_NAME, "further threads");
    else if (state && state->owner_tid)
        snprintf(name, TRACK_NAME, "thread %" PRIu32, state->owner_tid);
    else
        snprintf(name, TRACK_NAME, "thread of lane %" PRIu32, lane);
}

static void name_device(char *name, const struct dump *dump, const struct track *track) {
    const struct dump_communicator *communicator = dump_communicator(dump, track->comm);
    uint32_t gpu = dump_device_number(dump, track->which);
    if (communicator && communicator->name[0])
        snprintf(name, TRACK_NAME, "GPU %" PRIu32 ", communicator %.200s", gpu, communicator->name);
    else if (communicator)
        snprintf(name, TRACK_NAME, "GPU %" PRIu32 ", communicator %016" PRIx64, gpu, communicator->definition->uid);
    else
        snprintf(name, TRACK_NAME, "GPU %" PRIu32, gpu);
}

static void name_memory(char *name, const struct dump *dump, const struct track *track) {
    const struct call_name *part = track->call ? dump_call(dump, track->call) : NULL;
    snprintf(name, TRACK_NAME, "GPU %" PRIu32 ", %.200s", dump_device_number(dump, track->which),
             part ? part->name : "memory in use");
}

static void name_track(char *name, const struct dump *dump, const struct track *track) {
    switch (track->kind) {
    case TRACK_RANK:
        name_rank(name, dump);
        return;
    case TRACK_THREAD:
        name_lane(name, dump, track->which);
        break;
    case TRACK_IN_FLIGHT:
        name_lane(name, dump, track->which);
        strncat(name, ", in flight", TRACK_NAME - strlen(name) - 1);
        break;
    case TRACK_DEVICE:
        name_device(name, dump, track);
        break;
    case TRACK_EXPOSED:
        snprintf(name, TRACK_NAME, "GPU %" PRIu32 ", waiting for communication",
                 dump_device_number(dump, track->which));
        break;
    case TRACK_MEMORY:
        name_memory(name, dump, track);
        break;
    case TRACK_PROXY:
        snprintf(name, TRACK_NAME, "network proxy");
        break;
    case TRACK_BANDWIDTH:
        snprintf(name, TRACK_NAME, "bandwidth of track %" PRIu32, track->beside);
        break;
    default:
        snprintf(name, TRACK_NAME, "steps");
    }
    if (track->number > 0 && track->kind != TRACK_BANDWIDTH) {
        size_t used = strlen(name);
        snprintf(name + used, TRACK_NAME - used, " (%" PRIu32 ")", track->number + 1);
    }
}

static struct trace_track described(const struct trace_events *events, char *name, const struct track *track) {
    static const char *const units[TRACK_KINDS] = {[TRACK_BANDWIDTH] = "GB/s", [TRACK_MEMORY] = "bytes"};
    name_track(name, events->directory->dumps[track->dump], track);
    bool parent = track->kind == TRACK_RANK;
    return (struct trace_track){.track = track,
                                .name = name,
                                .order =
                                    parent ? (int)track->dump : (int)track->kind * 65536 + (int)(track->id % 65536),
                                .unit = units[track->kind]};
}

static void take_track(void *context, const struct track *track) {
    struct trace_events *events = context;
    char name[TRACK_NAME];
    const struct trace_track trace = described(events, name, track);
    trace_file_track(events->file, &trace);
}

static void take_counter(void *context, const struct track *track, int64_t at, double value) {
    struct trace_events *events = context;
    char name[TRACK_NAME];
    const struct trace_track trace = described(events, name, track);
    trace_file_counter(events->file, &trace, at, value);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* "a (x.c:3) < b (y.c:4)", the innermost first. */
static char *stack_text_of(struct trace_events *events, size_t dump, uint32_t stack) {
    char *text = NULL, label[512];
    size_t bytes;
    if (!frames_of(&events->frames, events->symbols, events->skip, dump, stack)) {
        events->no_memory = true;
        return NULL;
    }
    FILE *stream = events->frames.count > 0 ? open_memstream(&text, &bytes) : NULL;
    if (!stream)
        return NULL;
    for (size_t i = events->frames.count; i-- > 0;) {
        frame_label(&events->frames.items[i], label, sizeof label);
        fprintf(stream, "%s%s", label, i ? " < " : "");
    }
    events->no_memory |= fclose(stream) != 0;
    return text;
}

static const char *call_stack(struct trace_events *events, size_t dump, uint32_t stack) {
    const struct stack_key key = {(uint32_t)dump, stack};
    if (stack == STACK_NONE)
        return NULL;
    struct stack_text *known = stack_texts_find(&events->stacks, &key);
    if (!known) {
        known = stack_texts_add(&events->stacks, &key);
        events->no_memory |= !known;
        if (known)
            known->text = stack_text_of(events, dump, stack);
    }
    return known ? known->text : NULL;
}

static void add_argument(struct trace_event *event, const char *key, struct cell value) {
    if (event->arguments.count < TRACE_ARGUMENTS_MOST)
        event->arguments.items[event->arguments.count++] = (struct trace_argument){key, value};
}

static void add_columns(const struct trace_events *events, struct trace_event *event, const struct dump *dump) {
    const struct slice *slice = event->slice;
    const struct export_row row = {.dump = dump,
                                   .lane = slice->lane,
                                   .call = slice->record->call,
                                   .communicator = dump_communicator(dump, slice->record->comm),
                                   .peer = slice->record->peer,
                                   .record = slice->record};
    for (size_t i = 0; i < events->column_count; i++) {
        struct cell value = events->columns[i]->value(&row);
        if (value.kind != CELL_UNKNOWN && (value.kind != CELL_SWITCH || value.on))
            add_argument(event, events->columns[i]->key, value);
    }
}

static void add_parts(const struct trace_events *events, struct trace_event *event) {
    const struct slice *slice = event->slice;
    if (slice->waited) {
        int32_t rank = events->directory->dumps[slice->waited_for]->header->rank;
        event->parts[event->part_count++] = (struct trace_part){.name = "waiting",
                                                                .begin = slice->wait_from,
                                                                .end = slice->wait_to,
                                                                .argument = rank == RANK_UNKNOWN ? NULL : "for_rank",
                                                                .value = rank};
    }
    if (slice->transferred)
        event->parts[event->part_count++] =
            (struct trace_part){.name = "transferring", .begin = slice->transfer_from, .end = slice->end};
}

static const char *name_of(const struct dump *dump, const struct record *record) {
    const struct call_name *call = dump_call(dump, record->call);
    if (record->kind == RECORD_THREAD)
        return "thread begins";
    if (record->kind == RECORD_EXPOSED)
        return "exposed communication";
    return call && call->name[0] ? call->name : "unknown call";
}

static void take_slice(void *context, const struct slice *slice) {
    struct trace_events *events = context;
    const struct dump *dump = events->directory->dumps[slice->dump];
    struct trace_event event = {.slice = slice, .category = "step"};
    char step[32];
    snprintf(step, sizeof step, "step %" PRIu32, slice->step);
    event.name = slice->step == NO_STEP ? "step" : step;
    if (slice->record) {
        const struct call_name *call = dump_call(dump, slice->record->call);
        const char *api = call ? api_name(call->api) : NULL;
        event.name = name_of(dump, slice->record);
        event.category = api ? api : "other";
        add_columns(events, &event, dump);
        const char *stack = call_stack(events, slice->dump, slice->record->stack);
        if (stack)
            add_argument(&event, "call_stack", cell_text(stack));
        add_parts(events, &event);
    }
    trace_file_event(events->file, &event);
}

/* What a slice's track, name and length say. */
static bool is_said(const char *key) {
    static const char *const said[] = {"run_id", "generation", "rank",     "host",   "api",
                                       "op",     "comm_size",  "start_ns", "end_ns", "duration_ns"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (strcmp(key, said[i]) == 0)
            return true;
    return false;
}

struct track_sink trace_events_sink(struct trace_events *events) {
    for (const struct column *column = export_records.columns; column->key; column++)
        if (!is_said(column->key) && events->column_count < TRACE_ARGUMENTS_MOST)
            events->columns[events->column_count++] = column;
    return (struct track_sink){events, take_track, take_slice, take_counter};
}
