/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/chrome_frames.h"

#include <stdlib.h>
#include <string.h>

uint32_t chrome_frame_number(const json_t *value) {
    const char *text = json_string_value(value);
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (text && text[0] && strspn(text, "0123456789") == strlen(text))
        number = strtoll(text, NULL, 10);
    return number >= 0 && number < CHROME_FRAME_NONE ? (uint32_t)number : CHROME_FRAME_NONE;
}

static int compare_numbers(const void *a, const void *b) {
    const struct chrome_frame *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

bool chrome_frames_read(struct chrome_frames *frames, const json_t *object, struct trace_stacks *stacks,
                        struct import_limits *limits) {
    const char *id;
    json_t *value;
    size_t room = json_object_size(object);
    chrome_frames_free(frames);
    if (room == 0)
        return true;
    frames->items = limits_keep(limits, room * sizeof *frames->items) ? malloc(room * sizeof *frames->items) : NULL;
    if (!frames->items)
        return false;
    json_object_foreach((json_t *)object, id, value) {
        const char *name = json_string_value(json_object_get(value, "name"));
        bool number = id[0] && strspn(id, "0123456789") == strlen(id);
        uint32_t frame = name && number ? trace_frame_of_words(stacks, limits, name) : 0;
        if (!name || !number)
            continue;
        if (!frame)
            return false;
        frames->items[frames->count++] = (struct chrome_frame){
            (uint32_t)strtoul(id, NULL, 10), chrome_frame_number(json_object_get(value, "parent")), frame};
    }
    if (frames->count > 0)
        qsort(frames->items, frames->count, sizeof *frames->items, compare_numbers);
    return true;
}

void chrome_frames_free(struct chrome_frames *frames) {
    free(frames->items);
    *frames = (struct chrome_frames){0};
}

static const struct chrome_frame *find(const struct chrome_frames *frames, uint32_t number) {
    const struct chrome_frame key = {.id = number};
    return frames->count > 0 && number != CHROME_FRAME_NONE
               ? bsearch(&key, frames->items, frames->count, sizeof key, compare_numbers)
               : NULL;
}

bool chrome_frames_stack(const struct chrome_frames *frames, uint32_t number, struct trace_stacks *stacks,
                         struct import_limits *limits, uint32_t *stack) {
    uint32_t chain[TRACE_STACK_DEPTH], count = 0;
    *stack = TRACE_STACK_NONE;
    for (const struct chrome_frame *one = find(frames, number); one && count < TRACE_STACK_DEPTH;
         one = find(frames, one->parent))
        chain[count++] = one->frame;
    while (count > 0) {
        *stack = trace_stack(stacks, limits, chain[--count], *stack);
        if (*stack == TRACE_STACK_NONE)
            return false;
    }
    return true;
}
