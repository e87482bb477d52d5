/* SPDX-License-Identifier: Apache-2.0
 *
 * From a stack definition to frames.
 * Lives here: the splice, the pass, the label.
 * Must not live here: what an address is called.
 */
#include "analyzer/symbols/frames.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/text.h"

#define MISSING "[missing frames]"

const char *pass_name(enum pass pass) {
    static const char *const names[PASSES] = {NULL, "forward", "backward", "checkpointing"};
    return names[pass];
}

/* ---- what functions are ---------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* A native frame of the interpreter's loop, whatever was inlined into it there. */
static bool is_eval(const struct symbol *symbol) {
    while (symbol->caller)
        symbol = symbol->caller;
    return symbol->named && starts_with(symbol->name, "_PyEval_EvalFrameDefault");
}

/* What runs the backward pass of PyTorch, by its C++ name and by what its profiler calls it. */
static bool is_engine(const char *name) {
    return starts_with(name, "torch::autograd::Engine") || starts_with(name, "autograd::engine::evaluate_function");
}

static bool is_commtap(const struct symbol *symbol) {
    return starts_with(symbol->module, "libcommtap.so");
}

static bool is_python_module(const char *module) {
    return starts_with(module, "libpython") || starts_with(module, "python");
}

/* ---- the three lists of a stack -------------------------------------------------------------- */

/* One stack while it is being read: entries [0, native), [native, python), [python, end). */
struct reading {
    struct frames *frames; /* innermost first until the end */
    const struct symbols *symbols;
    const struct skip_list *skip;
    size_t dump;
    const struct dump_stack *stack;
    uint32_t native, python, next; /* `next` Python entry to be spliced in */
    const char *interpreter;       /* module of the interpreter's loop, NULL = none on this stack */
    bool engine, checkpoint, torch;
    enum pass range_pass; /* as the innermost range says that says one */
};

static uint64_t entry_kind(uint64_t entry) {
    return entry & STACK_ENTRY_KIND;
}

/* A cut belongs to the list it stands in. */
static void split_reading(struct reading *reading) {
    const struct dump_stack *stack = reading->stack;
    uint32_t at = 0;
    while (at < stack->depth && (stack->entries[at] == STACK_ENTRY_CUT || entry_kind(stack->entries[at]) == 0))
        at++;
    reading->native = reading->next = at;
    while (at < stack->depth &&
           (stack->entries[at] == STACK_ENTRY_CUT || entry_kind(stack->entries[at]) == STACK_ENTRY_PYTHON))
        at++;
    reading->python = at;
}

static bool append_frame(struct reading *reading, struct frame frame) {
    struct frames *frames = reading->frames;
    if (frames->count == FRAMES_MAX)
        return true;
    if (frames->count == FRAMES_MAX - 1)
        frame = (struct frame){.kind = FRAME_NATIVE, .plumbing = true, .name = MISSING, .module = ""};
    if (!grow_by_one(frames->items, frames->count, frames->room))
        return false;
    frames->items[frames->count++] = frame;
    return true;
}

static bool add_cut(struct reading *reading) {
    return append_frame(reading, (struct frame){.kind = FRAME_NATIVE, .plumbing = true, .name = MISSING, .module = ""});
}

static bool add_python(struct reading *reading, uint64_t entry) {
    const struct dump *dump = symbols_dump(reading->symbols, reading->dump);
    const struct dump_code *code = dump_code(dump, (uint32_t)(entry >> 32) & 0x1fffffffu);
    bool python = !code || code->first_line != CODE_NOT_PYTHON;
    struct frame frame = {.kind = python ? FRAME_PYTHON : FRAME_NATIVE,
                          .named = true,
                          .name = code && code->name[0] ? code->name : "[unknown]",
                          .module = "",
                          .file = code && code->file[0] ? code->file : NULL,
                          .line = (uint32_t)entry};
    const char *file = frame.file ? frame.file : "";
    frame.plumbing = skip_python(reading->skip, file, frame.name);
    reading->frames->has_python |= python;
    reading->engine |= !python && is_engine(frame.name);
    reading->torch |= strstr(file, "/torch/") != NULL;
    reading->checkpoint |= text_ends_in(file, "torch/utils/checkpoint.py");
    reading->engine |= text_ends_in(file, "torch/autograd/graph.py") && starts_with(frame.name, "_engine_run_backward");
    return append_frame(reading, frame);
}

/* The Python frames of one run of the interpreter's loop. */
static bool add_loop(struct reading *reading) {
    while (reading->next < reading->python) {
        uint64_t entry = reading->stack->entries[reading->next++];
        if (entry == STACK_ENTRY_CUT ? !add_cut(reading) : !add_python(reading, entry))
            return false;
        if (entry != STACK_ENTRY_CUT && entry & STACK_PYTHON_ENTRY)
            break;
    }
    return true;
}

static bool add_native(struct reading *reading, uint64_t entry) {
    const struct symbol *symbol = symbols_find(reading->symbols, reading->dump, reading->stack, entry);
    bool python = reading->native < reading->python;
    reading->engine |= is_engine(symbol->name);
    reading->torch |= starts_with(symbol->module, "libtorch");
    if (is_commtap(symbol))
        return true;
    if (python && is_eval(symbol))
        return add_loop(reading);
    if (python && reading->interpreter && strcmp(symbol->module, reading->interpreter) == 0)
        return true;
    for (; symbol; symbol = symbol->caller)
        if (!append_frame(reading, (struct frame){.kind = FRAME_NATIVE,
                                                  .plumbing = skip_native(reading->skip, symbol->module, symbol->name),
                                                  .named = symbol->named,
                                                  .name = symbol->name,
                                                  .module = symbol->module,
                                                  .file = symbol->file,
                                                  .line = symbol->line}))
            return false;
    return true;
}

/* The file that holds the interpreter's loop: told by a frame of the loop, else by its name. */
static void find_interpreter(struct reading *reading) {
    for (uint32_t i = 0; i < reading->native; i++) {
        if (reading->stack->entries[i] == STACK_ENTRY_CUT)
            continue;
        const struct symbol *symbol =
            symbols_find(reading->symbols, reading->dump, reading->stack, reading->stack->entries[i]);
        if (is_eval(symbol)) {
            reading->interpreter = symbol->module;
            return;
        }
        if (is_python_module(symbol->module))
            reading->interpreter = symbol->module;
    }
}

/* Whether `word` stands in a text on its own, in any case. */
static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = strcasestr(text, word); at; at = strcasestr(at + 1, word))
        if ((at == text || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[length]))
            return true;
    return false;
}

static enum pass pass_of_words(const char *text) {
    static const struct {
        const char *word;
        enum pass pass;
    } words[] = {{"recompute", PASS_CHECKPOINT}, {"recomputation", PASS_CHECKPOINT}, {"backward", PASS_BACKWARD},
                 {"bwd", PASS_BACKWARD},         {"forward", PASS_FORWARD},          {"fwd", PASS_FORWARD}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (has_word(text, words[i].word))
            return words[i].pass;
    return PASS_NONE;
}

static bool add_label(struct reading *reading, uint64_t entry) {
    const struct dump *dump = symbols_dump(reading->symbols, reading->dump);
    const char *text = dump_string(dump, (uint32_t)entry);
    const char *domain = dump_string(dump, (uint32_t)(entry >> 32) & 0x3fffffffu);
    if (reading->range_pass == PASS_NONE)
        reading->range_pass = pass_of_words(text ? text : "");
    return append_frame(reading, (struct frame){.kind = FRAME_NVTX,
                                                .named = true,
                                                .name = text ? text : "[unknown]",
                                                .module = domain ? domain : ""});
}

static bool read_entries(struct reading *reading) {
    const struct dump_stack *stack = reading->stack;
    for (uint32_t i = 0; i < reading->native; i++)
        if (stack->entries[i] == STACK_ENTRY_CUT ? !add_cut(reading) : !add_native(reading, stack->entries[i]))
            return false;
    /* what no native frame stood for: the native list was cut, or there is none */
    while (reading->next < reading->python)
        if (!add_loop(reading))
            return false;
    for (uint32_t i = reading->python; i < stack->depth; i++) {
        bool label = stack->entries[i] != STACK_ENTRY_CUT && entry_kind(stack->entries[i]) == STACK_ENTRY_LABEL;
        reading->frames->has_python |= label;
        if (label && !add_label(reading, stack->entries[i]))
            return false;
    }
    return true;
}

static void reverse(struct frames *frames) {
    for (size_t i = 0; i < frames->count / 2; i++) {
        struct frame outer = frames->items[i];
        frames->items[i] = frames->items[frames->count - 1 - i];
        frames->items[frames->count - 1 - i] = outer;
    }
}

bool frames_of(struct frames *frames, const struct symbols *symbols, const struct skip_list *skip, size_t dump,
               uint32_t stack) {
    frames->count = 0;
    frames->pass = PASS_NONE;
    frames->has_python = false;
    struct reading reading = {.frames = frames,
                              .symbols = symbols,
                              .skip = skip,
                              .dump = dump,
                              .stack = dump_stack(symbols_dump(symbols, dump), stack)};
    if (!reading.stack)
        return true;
    split_reading(&reading);
    find_interpreter(&reading);
    if (!read_entries(&reading))
        return false;
    reverse(frames);
    if (reading.engine)
        frames->pass = reading.checkpoint ? PASS_CHECKPOINT : PASS_BACKWARD;
    else if (reading.range_pass != PASS_NONE)
        frames->pass = reading.range_pass;
    else if (reading.torch && symbols_dump(symbols, dump)->header->pid != 0)
        frames->pass = PASS_FORWARD; /* autograd's engine would be there; what was imported has no frames of it */
    return true;
}

void frames_free(struct frames *frames) {
    free(frames->items);
    *frames = (struct frames){0};
}

const struct frame *frames_nearest(const struct frames *frames) {
    const struct frame *named = NULL;
    for (size_t i = frames->count; i-- > 0;) {
        const struct frame *frame = &frames->items[i];
        if (!frame->plumbing && frame->kind != FRAME_NVTX)
            return frame;
        if (!named && frame->named)
            named = frame;
    }
    return named ? named : frames->count > 0 ? &frames->items[frames->count - 1] : NULL;
}

void frame_label(const struct frame *frame, char *text, size_t size) {
    if (!frame) {
        snprintf(text, size, "(no call stack)");
        return;
    }
    const char *slash = frame->file ? strrchr(frame->file, '/') : NULL;
    const char *file = slash && slash[1] ? slash + 1 : frame->file;
    if (file && frame->line > 0)
        snprintf(text, size, "%s (%s:%u)", frame->name, file, frame->line);
    else if (file)
        snprintf(text, size, "%s (%s)", frame->name, file);
    else if (frame->module[0] && strncmp(frame->name, frame->module, strlen(frame->module)) != 0)
        snprintf(text, size, "%s (%s)", frame->name, frame->module);
    else
        snprintf(text, size, "%s", frame->name);
}
