/* SPDX-License-Identifier: Apache-2.0
 *
 * Field numbers are those of protos/perfetto/trace in github.com/google/perfetto. Names, keys and values are interned:
 * the first packet that uses one defines it.
 */
#include "analyzer/traces/trace_file.h"

#include <inttypes.h>

enum { TRACE_PACKET = 1 };
enum trace_packet {
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,
};
enum sequence_flags { SEQUENCE_STATE_CLEARED = 1, SEQUENCE_NEEDS_STATE = 2 };
enum track_descriptor {
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PARENT_UUID = 5,
    DESCRIPTOR_COUNTER = 8,
    DESCRIPTOR_CHILD_ORDERING = 11,
    DESCRIPTOR_SIBLING_ORDER_RANK = 12,
    DESCRIPTOR_SIBLING_MERGE_BEHAVIOR = 15,
};
enum { CHILD_ORDERING_EXPLICIT = 3, SIBLING_MERGE_NONE = 2, COUNTER_UNIT_NAME = 6 };
enum track_event {
    EVENT_CATEGORY_IID = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK_UUID = 11,
    EVENT_DOUBLE_COUNTER_VALUE = 44,
    EVENT_FLOW_ID = 47,
};
enum event_type { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum annotation {
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_BOOL = 2,
    ANNOTATION_UINT = 3,
    ANNOTATION_INT = 4,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_STRING_IID = 17,
};
enum interned {
    INTERNED_CATEGORY = 1,
    INTERNED_EVENT_NAME = 2,
    INTERNED_ANNOTATION_NAME = 3,
    INTERNED_ANNOTATION_STRING = 29,
};
enum { INTERNED_IID = 1, INTERNED_TEXT = 2 };
/* Packets of one writer; any number but 0 */
enum { SEQUENCE_ID = 1 };
/* Track 0 is the trace's own default track. */
enum { FIRST_UUID = 1000 };

/* Messages that are being made. */
enum part { PART_EVENT, PART_INTERNED, PART_SMALL };

/* The number of a text, which is defined in this packet where none before did. A text that is used as a name, as a key
 * and as a value is one number in each of these lists: all of them are defined at once. */
static uint64_t number_of(struct trace_file *file, const char *raw) {
    static const enum interned lists[] = {INTERNED_CATEGORY, INTERNED_EVENT_NAME, INTERNED_ANNOTATION_NAME,
                                          INTERNED_ANNOTATION_STRING};
    struct trace_text *text = trace_text(&file->texts, raw);
    if (!text) {
        file->no_memory = true;
        return 0;
    }
    if (text->written)
        return text->number;
    struct bytes entry = {0};
    protobuf_varint(&entry, INTERNED_IID, text->number);
    protobuf_text(&entry, INTERNED_TEXT, text->valid);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        protobuf_message(&file->parts[PART_INTERNED], lists[i], &entry);
    bytes_free(&entry);
    text->written = true;
    return text->number;
}

/* Adds a packet with the message that was made. */
static void end_packet(struct trace_file *file, enum trace_packet field, struct bytes *message, bool timed,
                       int64_t at) {
    struct bytes *interned = &file->parts[PART_INTERNED], packet = {0};
    if (timed)
        protobuf_varint(&packet, PACKET_TIMESTAMP, (uint64_t)at);
    protobuf_varint(&packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
    protobuf_varint(&packet, PACKET_SEQUENCE_FLAGS,
                    file->bytes + file->pending.count == 0 ? SEQUENCE_STATE_CLEARED : SEQUENCE_NEEDS_STATE);
    if (interned->count > 0)
        protobuf_message(&packet, PACKET_INTERNED_DATA, interned);
    protobuf_message(&packet, field, message);
    protobuf_message(&file->pending, TRACE_PACKET, &packet);
    bytes_free(&packet);
    interned->count = 0;
    message->count = 0;
}

/* ---- tracks ---------------------------------------------------------------------------------- */

/* A track without events, which viewers do not show: it says who wrote the file. */
static void begin(struct trace_file *file) {
    struct bytes *descriptor = &file->parts[PART_EVENT];
    struct trace_text *run = trace_text(&file->texts, file->run_id);
    protobuf_varint(descriptor, DESCRIPTOR_UUID, FIRST_UUID);
    protobuf_text(descriptor, DESCRIPTOR_NAME, trace_perfetto.mark);
    end_packet(file, PACKET_TRACK_DESCRIPTOR, descriptor, false, 0);
    file->no_memory |= !run;
}

static void track(struct trace_file *file, const struct trace_track *track) {
    struct bytes *descriptor = &file->parts[PART_EVENT], *counter = &file->parts[PART_SMALL];
    const struct trace_text *name = trace_text(&file->texts, track->name);
    protobuf_varint(descriptor, DESCRIPTOR_UUID, FIRST_UUID + track->track->id);
    protobuf_text(descriptor, DESCRIPTOR_NAME, name ? name->valid : "");
    if (track->track->parent)
        protobuf_varint(descriptor, DESCRIPTOR_PARENT_UUID, FIRST_UUID + track->track->parent);
    else
        protobuf_varint(descriptor, DESCRIPTOR_CHILD_ORDERING, CHILD_ORDERING_EXPLICIT);
    if (track->unit) {
        protobuf_text(counter, COUNTER_UNIT_NAME, track->unit);
        protobuf_message(descriptor, DESCRIPTOR_COUNTER, counter);
        counter->count = 0;
    }
    protobuf_varint(descriptor, DESCRIPTOR_SIBLING_ORDER_RANK, (uint64_t)track->order);
    protobuf_varint(descriptor, DESCRIPTOR_SIBLING_MERGE_BEHAVIOR, SIBLING_MERGE_NONE);
    end_packet(file, PACKET_TRACK_DESCRIPTOR, descriptor, false, 0);
    file->no_memory |= !name;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void annotate(struct trace_file *file, const char *key, const struct cell *value) {
    struct bytes *annotation = &file->parts[PART_SMALL];
    char hex[17];
    protobuf_varint(annotation, ANNOTATION_NAME_IID, number_of(file, key));
    switch (value->kind) {
    case CELL_TEXT:
        protobuf_varint(annotation, ANNOTATION_STRING_IID, number_of(file, value->text));
        break;
    case CELL_HEX:
        snprintf(hex, sizeof hex, "%016" PRIx64, value->number);
        protobuf_varint(annotation, ANNOTATION_STRING_IID, number_of(file, hex));
        break;
    case CELL_INTEGER:
        protobuf_varint(annotation, ANNOTATION_INT, (uint64_t)value->integer);
        break;
    case CELL_UNSIGNED:
        protobuf_varint(annotation, ANNOTATION_UINT, value->number);
        break;
    case CELL_REAL:
        protobuf_double(annotation, ANNOTATION_DOUBLE, value->real);
        break;
    default:
        protobuf_varint(annotation, ANNOTATION_BOOL, value->kind == CELL_SWITCH && value->on);
    }
    protobuf_message(&file->parts[PART_EVENT], EVENT_ANNOTATION, annotation);
    annotation->count = 0;
}

static struct bytes *open_event(struct trace_file *file, enum event_type type, uint32_t track) {
    struct bytes *event = &file->parts[PART_EVENT];
    protobuf_varint(event, EVENT_TYPE, type);
    protobuf_varint(event, EVENT_TRACK_UUID, (uint64_t)FIRST_UUID + track);
    return event;
}

static void add_end(struct trace_file *file, uint32_t track, int64_t at, uint64_t flow) {
    struct bytes *event = open_event(file, TYPE_SLICE_END, track);
    if (flow)
        protobuf_fixed64(event, EVENT_FLOW_ID, flow);
    end_packet(file, PACKET_TRACK_EVENT, event, true, at);
}

static void add_part(struct trace_file *file, uint32_t track, const struct trace_part *part) {
    struct bytes *event = open_event(file, TYPE_SLICE_BEGIN, track);
    protobuf_varint(event, EVENT_NAME_IID, number_of(file, part->name));
    if (part->argument)
        annotate(file, part->argument, &cell_integer(part->value));
    end_packet(file, PACKET_TRACK_EVENT, event, true, part->begin);
    add_end(file, track, part->end, 0);
}

static void event(struct trace_file *file, const struct trace_event *event) {
    const struct slice *slice = event->slice;
    bool received = slice->place == FLOW_RECEIVED;
    struct bytes *message = open_event(file, slice->instant ? TYPE_INSTANT : TYPE_SLICE_BEGIN, slice->track);
    protobuf_varint(message, EVENT_NAME_IID, number_of(file, event->name));
    protobuf_varint(message, EVENT_CATEGORY_IID, number_of(file, event->category));
    if (slice->place != FLOW_NOT && !received)
        protobuf_fixed64(message, EVENT_FLOW_ID, slice->flow);
    for (size_t i = 0; i < event->arguments.count; i++)
        annotate(file, event->arguments.items[i].key, &event->arguments.items[i].value);
    end_packet(file, PACKET_TRACK_EVENT, message, true, slice->begin);
    for (size_t i = 0; i < event->part_count; i++)
        add_part(file, slice->track, &event->parts[i]);
    if (!slice->instant)
        add_end(file, slice->track, slice->end, received ? slice->flow : 0);
}

static void counter(struct trace_file *file, const struct trace_track *track, int64_t at, double value) {
    struct bytes *message = open_event(file, TYPE_COUNTER, track->track->id);
    protobuf_double(message, EVENT_DOUBLE_COUNTER_VALUE, value);
    end_packet(file, PACKET_TRACK_EVENT, message, true, at);
}

static void end(struct trace_file *file) {
    (void)file;
}

const struct trace_format trace_perfetto = {
    .mark = "commtap timeline", .begin = begin, .track = track, .event = event, .counter = counter, .end = end};
