/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/trace_stacks.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 1024, FRAMES_MOST = 1 << 28 /* a dump's numbers have 29 bits */ };

#define FINGERPRINT UINT64_C(0x9e3779b97f4a7c15)

struct trace_text {
    const char *key;
};

HASH_TABLE_OF_TEXTS(texts, struct trace_text);
HASH_TABLE_OF(frames, struct trace_frame, struct trace_frame_key);
HASH_TABLE_OF(stacks, struct trace_stack, struct trace_stack_key);

void trace_stacks_free(struct trace_stacks *stacks) {
    for (size_t i = 0; i < stacks->texts.count; i++)
        free((char *)texts_items(&stacks->texts)[i].key);
    hash_table_free(&stacks->texts);
    hash_table_free(&stacks->frames);
    hash_table_free(&stacks->stacks);
}

static uint32_t add_text(struct trace_stacks *stacks, struct import_limits *limits, const char *words) {
    char text[TEXT_MOST];
    snprintf(text, sizeof text, "%s", words);
    const struct trace_text *known = texts_find(&stacks->texts, text);
    if (!known) {
        char *copy = limits_keep(limits, strlen(text) + 4 * sizeof *known) ? strdup(text) : NULL;
        known = copy ? texts_add(&stacks->texts, copy) : NULL;
        if (!known)
            free(copy);
    }
    return known ? (uint32_t)(known - texts_items(&stacks->texts)) + 1 : 0;
}

static uint64_t mix_words(uint64_t hash, const char *text) {
    for (; *text; text++)
        hash = hash_mix(hash, (unsigned char)*text);
    return hash_mix(hash, 0);
}

uint32_t trace_frame(struct trace_stacks *stacks, struct import_limits *limits, enum trace_frame_kind kind,
                     const char *name, const char *file, uint32_t line) {
    struct trace_frame_key key = {kind, line, add_text(stacks, limits, name), add_text(stacks, limits, file)};
    size_t known = stacks->frames.count;
    struct trace_frame *frame = key.name && key.file ? frames_add(&stacks->frames, &key) : NULL;
    if (!frame || stacks->frames.count > FRAMES_MOST ||
        (stacks->frames.count > known && !limits_keep(limits, 4 * sizeof *frame)))
        return 0;
    frame->words = mix_words(mix_words(hash_mix(hash_mix(FINGERPRINT, kind), line), name), file);
    return (uint32_t)(frame - frames_items(&stacks->frames)) + 1;
}

bool trace_file_is_python(const char *file) {
    size_t length = strlen(file);
    return file[0] == '<' || (length > 3 && strcmp(file + length - 3, ".py") == 0);
}

uint32_t trace_frame_of_words(struct trace_stacks *stacks, struct import_limits *limits, const char *words) {
    char file[TEXT_MOST];
    const char *end = strstr(words, "): "), *open = end;
    while (open && open > words && isdigit((unsigned char)open[-1]))
        open--;
    if (open && open < end && open > words && open[-1] == '(' && open - words <= TEXT_MOST) {
        snprintf(file, sizeof file, "%.*s", (int)(open - 1 - words), words);
        unsigned long line = strtoul(open, NULL, 10);
        if (trace_file_is_python(file) && line <= INT32_MAX)
            return trace_frame(stacks, limits, TRACE_FRAME_PYTHON, end + 3, file, (uint32_t)line);
    }
    return trace_frame(stacks, limits, TRACE_FRAME_NATIVE, words, "", 0);
}

uint32_t trace_stack(struct trace_stacks *stacks, struct import_limits *limits, uint32_t frame, uint32_t caller) {
    struct trace_stack_key key = {frame, caller};
    size_t known = stacks->stacks.count;
    struct trace_stack *stack = stacks_add(&stacks->stacks, &key);
    /* with what a dump holds of it */
    if (!stack || (stacks->stacks.count > known &&
                   !limits_keep(limits, 4 * sizeof *stack + TRACE_STACK_DEPTH * sizeof(uint64_t))))
        return 0;
    stack->words =
        hash_mix(hash_mix(FINGERPRINT, trace_stack_words(stacks, caller)), trace_frame_at(stacks, frame)->words);
    return (uint32_t)(stack - stacks_items(&stacks->stacks)) + 1;
}

/* `frames` are from the innermost one on. */
static bool add_frames(struct trace_stacks *stacks, struct import_limits *limits, const uint32_t *frames, size_t count,
                       uint32_t *stack) {
    while (count > 0) {
        *stack = frames[--count] > 0 ? trace_stack(stacks, limits, frames[count], *stack) : TRACE_STACK_NONE;
        if (*stack == TRACE_STACK_NONE)
            return false;
    }
    return true;
}

bool trace_stack_of_words(struct trace_stacks *stacks, struct import_limits *limits, const char *words,
                          uint32_t *stack) {
    uint32_t frames[TRACE_STACK_DEPTH];
    size_t count = 0;
    *stack = TRACE_STACK_NONE;
    for (size_t length; *words && count < TRACE_STACK_DEPTH; words += length + (words[length] == ';')) {
        char text[TEXT_MOST];
        length = strcspn(words, ";");
        snprintf(text, sizeof text, "%.*s", (int)(length < TEXT_MOST ? length : TEXT_MOST - 1), words);
        if (text[0])
            frames[count++] = trace_frame_of_words(stacks, limits, text);
    }
    return add_frames(stacks, limits, frames, count, stack);
}

bool trace_stack_join(struct trace_stacks *stacks, struct import_limits *limits, uint32_t inner, uint32_t *stack) {
    uint32_t frames[TRACE_STACK_DEPTH];
    size_t count = 0;
    for (; inner != TRACE_STACK_NONE && count < TRACE_STACK_DEPTH; inner = trace_stack_at(stacks, inner)->key.caller)
        frames[count++] = trace_stack_at(stacks, inner)->key.frame;
    return add_frames(stacks, limits, frames, count, stack);
}

const struct trace_stack *trace_stack_at(const struct trace_stacks *stacks, uint32_t number) {
    return &stacks_items(&stacks->stacks)[number - 1];
}

const struct trace_frame *trace_frame_at(const struct trace_stacks *stacks, uint32_t number) {
    return &frames_items(&stacks->frames)[number - 1];
}

const char *trace_text_at(const struct trace_stacks *stacks, uint32_t number) {
    return texts_items(&stacks->texts)[number - 1].key;
}

uint64_t trace_stack_words(const struct trace_stacks *stacks, uint32_t number) {
    return number == TRACE_STACK_NONE ? 0 : trace_stack_at(stacks, number)->words;
}
