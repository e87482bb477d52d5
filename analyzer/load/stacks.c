/* SPDX-License-Identifier: Apache-2.0
 *
 * Call stacks of a dump, and what their entries point to: modules, Python code, texts of NVTX ranges.
 * Lives here: checking and looking up these definitions, which module held an address at a time.
 * Must not live here: names of addresses, what a stack says about the job.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/load/private.h"

enum { BUILD_ID_MAX = 64 };

/* How many bytes follow the fixed part of a definition. */
static uint64_t payload(const struct definition *head, size_t fixed) {
    return head->bytes - fixed;
}

static void refuse_definition(struct loaded *loaded, const char *what, uint64_t offset) {
    problem_add(&loaded->dump, false, offset, "%s does not fit its definition, or has no number: ignored", what);
}

static bool add_stack(struct loaded *loaded, const struct stack_definition *definition, uint64_t order,
                      uint64_t offset) {
    struct dump *dump = &loaded->dump;
    if (definition->id == STACK_NONE ||
        definition->depth > payload(&definition->head, sizeof *definition) / sizeof definition->entries[0]) {
        refuse_definition(loaded, "a stack", offset);
        return true;
    }
    if (!grow_list(dump->stacks, dump->stack_count))
        return false;
    dump->stacks[dump->stack_count++] =
        (struct dump_stack){definition->id, definition->depth, order, definition->entries};
    return true;
}

static bool add_code(struct loaded *loaded, const struct code_definition *definition, uint64_t offset) {
    struct dump *dump = &loaded->dump;
    if (definition->id == 0 ||
        (uint64_t)definition->name_bytes + definition->file_bytes > payload(&definition->head, sizeof *definition)) {
        refuse_definition(loaded, "a Python code object", offset);
        return true;
    }
    if (!grow_list(dump->codes, dump->code_count))
        return false;
    struct dump_code *code = &dump->codes[dump->code_count++];
    *code =
        (struct dump_code){definition->id, definition->first_line, strndup(definition->text, definition->name_bytes),
                           strndup(definition->text + definition->name_bytes, definition->file_bytes)};
    return code->name && code->file;
}

static bool add_string(struct loaded *loaded, const struct string_definition *definition, uint64_t offset) {
    struct dump *dump = &loaded->dump;
    if (definition->id == 0 || definition->length > payload(&definition->head, sizeof *definition)) {
        refuse_definition(loaded, "a text", offset);
        return true;
    }
    if (!grow_list(dump->strings, dump->string_count))
        return false;
    struct dump_string *string = &dump->strings[dump->string_count++];
    *string = (struct dump_string){definition->id, strndup(definition->text, definition->length)};
    return string->text != NULL;
}

static bool add_module(struct loaded *loaded, const struct module_definition *definition, uint64_t order,
                       uint64_t offset) {
    struct dump *dump = &loaded->dump;
    if (definition->start >= definition->end || definition->build_id_bytes > BUILD_ID_MAX ||
        (uint64_t)definition->build_id_bytes + definition->path_bytes >
            payload(&definition->head, sizeof *definition)) {
        refuse_definition(loaded, "a module", offset);
        return true;
    }
    if (!grow_list(dump->modules, dump->module_count))
        return false;
    struct dump_module *module = &dump->modules[dump->module_count++];
    *module = (struct dump_module){
        .start = definition->start,
        .end = definition->end,
        .base = definition->base,
        .from = order,
        .until = UINT64_MAX,
        .build_id = definition->data,
        .build_id_bytes = definition->build_id_bytes,
        .path = strndup((const char *)definition->data + definition->build_id_bytes, definition->path_bytes),
    };
    return module->path != NULL;
}

static void end_module(struct dump *dump, const struct module_gone_definition *definition, uint64_t order) {
    for (size_t i = dump->module_count; i-- > 0;)
        if (dump->modules[i].base == definition->base && dump->modules[i].until == UINT64_MAX) {
            dump->modules[i].until = order;
            return;
        }
}

bool stacks_add(struct loaded *loaded, const struct definition *head, uint32_t kind, uint64_t order, uint64_t offset) {
    switch (kind) {
    case DEFINITION_STACK:
        return add_stack(loaded, (const struct stack_definition *)head, order, offset);
    case DEFINITION_CODE:
        return add_code(loaded, (const struct code_definition *)head, offset);
    case DEFINITION_STRING:
        return add_string(loaded, (const struct string_definition *)head, offset);
    case DEFINITION_MODULE:
        return add_module(loaded, (const struct module_definition *)head, order, offset);
    default:
        end_module(&loaded->dump, (const struct module_gone_definition *)head, order);
        return true;
    }
}

/* ---- by id ----------------------------------------------------------------------------------- */

/* Every item here begins with its id. */
static uint32_t id_of(const void *item) {
    uint32_t id;
    memcpy(&id, item, sizeof id);
    return id;
}

static int compare_ids(const void *a, const void *b) {
    uint32_t left = id_of(a), right = id_of(b);
    return (left > right) - (left < right);
}

static const void *find(const void *items, size_t count, size_t item_bytes, uint32_t id) {
    return count > 0 ? bsearch(&id, items, count, item_bytes, compare_ids) : NULL;
}

static bool sorted_by_id(const void *items, size_t count, size_t item_bytes) {
    for (size_t i = 1; i < count; i++)
        if (id_of((const char *)items + (i - 1) * item_bytes) >= id_of((const char *)items + i * item_bytes))
            return false;
    return true;
}

/* A race may define one thing twice: both say the same, either will do. */
static void sort_by_id(void *items, size_t count, size_t item_bytes) {
    if (!sorted_by_id(items, count, item_bytes))
        qsort(items, count, item_bytes, compare_ids);
}

void stacks_finish(struct dump *dump) {
    sort_by_id(dump->stacks, dump->stack_count, sizeof *dump->stacks);
    sort_by_id(dump->codes, dump->code_count, sizeof *dump->codes);
    sort_by_id(dump->strings, dump->string_count, sizeof *dump->strings);
}

void stacks_free(struct dump *dump) {
    for (size_t i = 0; i < dump->code_count; i++) {
        free((char *)dump->codes[i].name);
        free((char *)dump->codes[i].file);
    }
    for (size_t i = 0; i < dump->string_count; i++)
        free((char *)dump->strings[i].text);
    for (size_t i = 0; i < dump->module_count; i++)
        free((char *)dump->modules[i].path);
    free(dump->stacks);
    free(dump->codes);
    free(dump->strings);
    free(dump->modules);
}

const struct dump_stack *dump_stack(const struct dump *dump, uint32_t id) {
    return find(dump->stacks, dump->stack_count, sizeof *dump->stacks, id);
}

const struct dump_code *dump_code(const struct dump *dump, uint32_t id) {
    return find(dump->codes, dump->code_count, sizeof *dump->codes, id);
}

const char *dump_string(const struct dump *dump, uint32_t id) {
    const struct dump_string *string = find(dump->strings, dump->string_count, sizeof *dump->strings, id);
    return string ? string->text : NULL;
}

const struct dump_module *dump_module_at(const struct dump *dump, const struct dump_stack *stack, uint64_t address) {
    const struct dump_module *next = NULL, *gone = NULL;
    for (size_t i = dump->module_count; i-- > 0;) {
        const struct dump_module *module = &dump->modules[i];
        if (address < module->start || address >= module->end)
            continue;
        if (module->from > stack->order)
            next = module; /* the earliest of the later ones */
        else if (module->until > stack->order)
            return module;
        else if (!gone)
            gone = module;
    }
    return next ? next : gone;
}

/* ---- the same stack elsewhere ---------------------------------------------------------------- */

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

static uint64_t mix_text(uint64_t hash, const char *text) {
    return mix_bytes(hash, text, strlen(text) + 1);
}

/* By build-id, or by the file's name: ranks may have it at different paths. */
static uint64_t mix_native(uint64_t hash, const struct dump *dump, const struct dump_stack *stack, uint64_t address) {
    const struct dump_module *module = dump_module_at(dump, stack, address - 1);
    if (!module)
        return mix_text(hash, "?");
    if (module->build_id_bytes > 0) {
        hash = mix_bytes(hash, module->build_id, module->build_id_bytes);
    } else {
        const char *slash = strrchr(module->path, '/');
        hash = mix_text(hash, slash ? slash + 1 : module->path);
    }
    uint64_t offset = address - module->base;
    return mix_bytes(hash, &offset, sizeof offset);
}

static uint64_t mix_python(uint64_t hash, const struct dump *dump, uint64_t entry) {
    const struct dump_code *code = dump_code(dump, (uint32_t)(entry >> 32) & 0x1fffffffu);
    uint32_t line = (uint32_t)entry;
    if (code)
        hash = mix_text(mix_text(hash, code->name), code->file);
    return mix_bytes(hash, &line, sizeof line);
}

uint64_t dump_stack_way(const struct dump *dump, uint32_t id) {
    const struct dump_stack *stack = id == STACK_NONE ? NULL : dump_stack(dump, id);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    if (!stack)
        return 0;
    for (uint32_t i = 0; i < stack->depth; i++) {
        uint64_t entry = stack->entries[i];
        if (entry == STACK_ENTRY_CUT)
            hash = mix_text(hash, "...");
        else if ((entry & STACK_ENTRY_KIND) == STACK_ENTRY_NATIVE)
            hash = mix_native(hash, dump, stack, entry);
        else if ((entry & STACK_ENTRY_KIND) == STACK_ENTRY_PYTHON)
            hash = mix_python(hash, dump, entry);
    }
    return hash ? hash : 1;
}
