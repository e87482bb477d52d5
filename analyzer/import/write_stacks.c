/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/write_stacks.h"

#include <stdlib.h>
#include <string.h>

enum { UNIT = 16 /* definitions begin at multiples of it */ };

struct writer {
    uint8_t *at; /* NULL: only counts */
    size_t bytes;
    const struct trace_stacks *stacks;
    struct written_stacks *written;
};

bool written_stacks_init(struct written_stacks *written, const struct trace *trace) {
    *written = (struct written_stacks){
        .stacks = calloc(trace->stacks.stacks.count + 1, sizeof *written->stacks),
        .frames = calloc(trace->stacks.frames.count + 1, sizeof *written->frames),
    };
    return written->stacks && written->frames;
}

void written_stacks_free(struct written_stacks *written) {
    free(written->stacks);
    free(written->frames);
}

/* The place of the next definition, with its head; NULL where nothing is written. */
static void *next_definition(struct writer *writer, uint32_t kind, size_t bytes) {
    bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    struct definition *head = writer->at ? (struct definition *)(writer->at + writer->bytes) : NULL;
    writer->bytes += bytes;
    if (head)
        *head = (struct definition){.commit = DEFINITION_MAGIC | kind, .bytes = (uint32_t)bytes};
    return head;
}

static void write_string(struct writer *writer, uint32_t id, const char *text) {
    struct string_definition *definition =
        next_definition(writer, DEFINITION_STRING, sizeof *definition + strlen(text));
    if (!definition)
        return;
    definition->id = id;
    definition->length = (uint32_t)strlen(text);
    memcpy(definition->text, text, definition->length);
}

static void write_code(struct writer *writer, uint32_t id, const struct trace_frame *frame) {
    const char *name = trace_text_at(writer->stacks, frame->key.name);
    const char *file = trace_text_at(writer->stacks, frame->key.file);
    struct code_definition *definition =
        next_definition(writer, DEFINITION_CODE, sizeof *definition + strlen(name) + strlen(file));
    if (!definition)
        return;
    definition->id = id;
    definition->first_line = frame->key.kind == TRACE_FRAME_NATIVE ? CODE_NOT_PYTHON : frame->key.line;
    definition->name_bytes = (uint32_t)strlen(name);
    definition->file_bytes = (uint32_t)strlen(file);
    memcpy(definition->text, name, definition->name_bytes);
    memcpy(definition->text + definition->name_bytes, file, definition->file_bytes);
}

/* Texts of a range have two numbers of their own, so that they need no table. */
static uint32_t range_text(uint32_t frame) {
    return 2 * frame;
}

static uint32_t range_domain(const struct trace_stacks *stacks, uint32_t frame) {
    const char *domain = trace_text_at(stacks, trace_frame_at(stacks, frame)->key.file);
    return domain[0] ? 2 * frame + 1 : 0;
}

static void write_frame(struct writer *writer, uint32_t number) {
    if (writer->written->frames[number] == writer->written->writing)
        return;
    writer->written->frames[number] = writer->written->writing;
    const struct trace_frame *frame = trace_frame_at(writer->stacks, number);
    if (frame->key.kind != TRACE_FRAME_RANGE) {
        write_code(writer, number, frame);
        return;
    }
    write_string(writer, range_text(number), trace_text_at(writer->stacks, frame->key.name));
    if (range_domain(writer->stacks, number))
        write_string(writer, range_domain(writer->stacks, number), trace_text_at(writer->stacks, frame->key.file));
}

static uint64_t entry_of(const struct trace_stacks *stacks, uint32_t number) {
    const struct trace_frame *frame = trace_frame_at(stacks, number);
    if (frame->key.kind == TRACE_FRAME_RANGE)
        return STACK_ENTRY_LABEL | (uint64_t)range_domain(stacks, number) << 32 | range_text(number);
    return STACK_ENTRY_PYTHON | (uint64_t)number << 32 | frame->key.line;
}

/* The entries of one list: of ranges, or of all other frames. Innermost first, and a cut where the stack is longer. */
static uint32_t list_entries(struct writer *writer, uint32_t stack, bool ranges, uint64_t *entries) {
    uint32_t count = 0, seen = 0;
    for (; stack != TRACE_STACK_NONE && seen < TRACE_STACK_DEPTH; seen++) {
        const struct trace_stack *one = trace_stack_at(writer->stacks, stack);
        bool range = trace_frame_at(writer->stacks, one->key.frame)->key.kind == TRACE_FRAME_RANGE;
        if (range == ranges) {
            write_frame(writer, one->key.frame);
            entries[count++] = entry_of(writer->stacks, one->key.frame);
        }
        stack = one->key.caller;
    }
    if (stack != TRACE_STACK_NONE && !ranges)
        entries[count++] = STACK_ENTRY_CUT;
    return count;
}

static void write_stack(struct writer *writer, uint32_t number) {
    uint64_t entries[TRACE_STACK_DEPTH + 1];
    if (writer->written->stacks[number] == writer->written->writing)
        return;
    writer->written->stacks[number] = writer->written->writing;
    uint32_t depth = list_entries(writer, number, false, entries);
    depth += list_entries(writer, number, true, entries + depth);
    struct stack_definition *definition =
        next_definition(writer, DEFINITION_STACK, sizeof *definition + depth * sizeof entries[0]);
    if (!definition)
        return;
    definition->id = number;
    definition->depth = depth;
    memcpy(definition->entries, entries, depth * sizeof entries[0]);
}

size_t write_stacks(uint8_t *at, const struct trace *trace, const struct trace_event *events, size_t count,
                    struct written_stacks *written) {
    struct writer writer = {.at = at, .stacks = &trace->stacks, .written = written};
    written->writing++;
    for (size_t i = 0; i < count; i++)
        if (events[i].stack != TRACE_STACK_NONE)
            write_stack(&writer, events[i].stack);
    return writer.bytes;
}
