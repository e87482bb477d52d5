/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON of chrome://tracing ("Trace Event Format"): a rank is a process there, a track a thread. Times are
 * microseconds with the nanoseconds behind the point.
 */
#include "analyzer/traces/trace_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void add(struct trace_file *file, const char *format, ...) {
    char text[256];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    bytes_add(&file->pending, text, (size_t)(length < (int)sizeof text ? length : (int)sizeof text - 1));
}

/* A valid text (trace_text.h) holds no control characters: of what JSON escapes only these two are left. */
static void add_text(struct trace_file *file, const char *raw) {
    const struct trace_text *text = trace_text(&file->texts, raw);
    const char *at = text ? text->valid : "";
    file->no_memory |= !text;
    bytes_add(&file->pending, "\"", 1);
    for (size_t plain; *at; at += plain) {
        plain = strcspn(at, "\"\\");
        bytes_add(&file->pending, at, plain);
        if (at[plain] == '\0')
            continue;
        bytes_add(&file->pending, "\\", 1);
        bytes_add(&file->pending, at + plain, 1);
        plain++;
    }
    bytes_add(&file->pending, "\"", 1);
}

static void add_time(struct trace_file *file, const char *key, int64_t ns) {
    add(file, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

/* Beyond 2^53 JavaScript's numbers are not exact: a text is. */
static void add_number(struct trace_file *file, bool negative, uint64_t magnitude) {
    const char *quote = magnitude > UINT64_C(1) << 53 ? "\"" : "";
    add(file, "%s%s%" PRIu64 "%s", quote, negative ? "-" : "", magnitude, quote);
}

static void add_value(struct trace_file *file, const struct cell *value) {
    switch (value->kind) {
    case CELL_TEXT:
        add_text(file, value->text);
        break;
    case CELL_HEX:
        add(file, "\"%016" PRIx64 "\"", value->number);
        break;
    case CELL_INTEGER:
        add_number(file, value->integer < 0, value->integer < 0 ? -(uint64_t)value->integer : (uint64_t)value->integer);
        break;
    case CELL_UNSIGNED:
        add_number(file, false, value->number);
        break;
    case CELL_REAL:
        add(file, isfinite(value->real) ? "%.9g" : "null", value->real);
        break;
    default:
        add(file, "%s", value->kind == CELL_SWITCH && value->on ? "true" : "false");
    }
}

static void begin(struct trace_file *file) {
    add(file, "{\"otherData\":{\"writer\":\"%s\",\"run_id\":", trace_perfetto.mark);
    add_text(file, file->run_id);
    add(file,
        "},\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"commtap\",\"pid\":0,\"args\":{}}");
}

/* Processes count from 1: number 0 is the idle task to viewers. */
static void open_event(struct trace_file *file, const char *phase, size_t dump, uint32_t track) {
    add(file, ",\n{\"ph\":\"%s\",\"pid\":%zu,\"tid\":%" PRIu32, phase, dump + 1, track);
}

static void describe(struct trace_file *file, const struct trace_track *track, const char *what) {
    open_event(file, "M", track->track->dump, track->track->id);
    add(file, ",\"name\":\"%s_name\",\"args\":{\"name\":", what);
    add_text(file, track->name);
    add(file, "}}");
    open_event(file, "M", track->track->dump, track->track->id);
    add(file, ",\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%d}}", what, track->order);
}

/* A counter needs no track there: its events name it. */
static void track(struct trace_file *file, const struct trace_track *track) {
    if (!track->unit)
        describe(file, track, track->track->parent ? "thread" : "process");
}

static void add_part(struct trace_file *file, const struct slice *slice, const struct trace_part *part) {
    open_event(file, "X", slice->dump, slice->track);
    add(file, ",\"cat\":\"part\",\"name\":\"%s\"", part->name);
    add_time(file, "ts", part->begin);
    add_time(file, "dur", part->end - part->begin);
    if (part->argument)
        add(file, ",\"args\":{\"%s\":%" PRId64 "}", part->argument, part->value);
    add(file, "}");
}

/* A flow binds to the slice that holds its moment; a slice does not hold its own end. */
static void add_flow(struct trace_file *file, const struct slice *slice) {
    bool message = slice->place == FLOW_SENT || slice->place == FLOW_RECEIVED;
    const char *phase = slice->place == FLOW_FIRST || slice->place == FLOW_SENT ? "s"
                        : slice->place == FLOW_THROUGH                          ? "t"
                                                                                : "f";
    bool late = slice->place == FLOW_RECEIVED && slice->end > slice->begin;
    open_event(file, phase, slice->dump, slice->track);
    add(file, ",\"cat\":\"flow\",\"name\":\"%s\",\"id\":%" PRIu64 ",\"bp\":\"e\"", message ? "message" : "collective",
        slice->flow);
    add_time(file, "ts", late ? slice->end - 1 : slice->begin);
    add(file, "}");
}

static void event(struct trace_file *file, const struct trace_event *event) {
    const struct slice *slice = event->slice;
    open_event(file, slice->instant ? "i" : "X", slice->dump, slice->track);
    add(file, ",\"cat\":\"%s\",\"name\":", event->category);
    add_text(file, event->name);
    add_time(file, "ts", slice->begin);
    if (slice->instant)
        add(file, ",\"s\":\"t\"");
    else
        add_time(file, "dur", slice->end - slice->begin);
    add(file, ",\"args\":{");
    for (size_t i = 0; i < event->arguments.count; i++) {
        add(file, "%s\"%s\":", i ? "," : "", event->arguments.items[i].key);
        add_value(file, &event->arguments.items[i].value);
    }
    add(file, "}}");
    for (size_t i = 0; i < event->part_count; i++)
        add_part(file, slice, &event->parts[i]);
    if (slice->place != FLOW_NOT)
        add_flow(file, slice);
}

static void counter(struct trace_file *file, const struct trace_track *track, int64_t at, double value) {
    open_event(file, "C", track->track->dump, track->track->id);
    add(file, ",\"name\":");
    add_text(file, track->name);
    add_time(file, "ts", at);
    add(file, ",\"args\":{\"%s\":%.9g}}", track->unit, value);
}

static void end(struct trace_file *file) {
    add(file, "\n]}\n");
}

const struct trace_format trace_chrome = {
    .mark = "commtap timeline", .begin = begin, .track = track, .event = event, .counter = counter, .end = end};
