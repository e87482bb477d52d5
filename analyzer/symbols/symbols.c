/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking up addresses of all ranks.
 * Lives here: modules told apart by build-id, places in them, and what is found for each place.
 * Must not live here: the formats of the files.
 */
#include "analyzer/symbols/symbols.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash_table.h"
#include "analyzer/base/statistics.h"
#include "analyzer/dumps/set.h"
#include "analyzer/symbols/debug_files.h"
#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/lines.h"
#include "analyzer/symbols/stored_symbols.h"

enum { PATHS_MAX = 4 };

/* One file, however often and wherever the ranks loaded it. */
struct module {
    struct ran ran; /* path of the first dump that has it */
    const char *paths[PATHS_MAX];
    size_t path_count;
    const char *short_name;
};

/* A place in a module: what a symbol is found by. */
struct module_place {
    uint32_t module;
    bool resolved;
    uint64_t offset;
    struct symbol symbol;   /* the function that is there as such */
    struct symbol *inlined; /* functions inlined into it there, innermost first; NULL = none */
    size_t inlined_count;
};

struct place_key {
    uint64_t offset, module;
};

struct wanted {
    struct place_key key;
    struct module_place *place; /* an allocation of its own, so that it stays where it is */
};

HASH_TABLE_OF(wanted, struct wanted, struct place_key);

struct text {
    struct text *next;
    char text[];
};

/* What lies beside the dumps of one run. */
struct stored_file {
    char *path;
    struct stored_symbols symbols;
};

struct symbols {
    struct dump *const *dumps;
    size_t dump_count;
    char *debug_directory;
    uint32_t **module_of; /* per dump: index of each of its modules */
    struct module *modules;
    size_t module_count;
    struct hash_table places; /* in order of appearance */
    size_t resolved_count;
    struct stored_file *stored;
    size_t stored_count;
    struct text *texts;
    char **notes;
    size_t note_count;
};

static const struct symbol unknown_symbol = {.name = "[unknown]", .module = ""};

/* ---- texts ----------------------------------------------------------------------------------- */

static const char *keep(struct symbols *symbols, const char *text) {
    size_t bytes = strlen(text) + 1;
    struct text *kept = malloc(sizeof *kept + bytes);
    if (!kept)
        return NULL;
    memcpy(kept->text, text, bytes);
    kept->next = symbols->texts;
    symbols->texts = kept;
    return kept->text;
}

__attribute__((format(printf, 2, 3))) static bool note(struct symbols *symbols, const char *format, ...) {
    if (!grow_list(symbols->notes, symbols->note_count))
        return false;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&symbols->notes[symbols->note_count], format, arguments);
    va_end(arguments);
    symbols->note_count += length >= 0;
    return length >= 0;
}

const char *const *symbols_notes(const struct symbols *symbols, size_t *count) {
    *count = symbols->note_count;
    return (const char *const *)symbols->notes;
}

/* ---- modules --------------------------------------------------------------------------------- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool same_module(const struct module *module, const struct dump_module *other) {
    if (module->ran.build_id_bytes != other->build_id_bytes)
        return false;
    if (other->build_id_bytes > 0)
        return memcmp(module->ran.build_id, other->build_id, other->build_id_bytes) == 0;
    return module->ran.extent == other->end - other->start && strcmp(module->ran.path, other->path) == 0;
}

static void add_path(struct module *module, const char *path) {
    for (size_t i = 0; i < module->path_count; i++)
        if (strcmp(module->paths[i], path) == 0)
            return;
    if (module->path_count < PATHS_MAX)
        module->paths[module->path_count++] = path;
}

/* Index of the module a dump speaks of; a new one is made. UINT32_MAX when memory is short. */
static uint32_t identify(struct symbols *symbols, const struct dump_module *seen) {
    for (size_t i = 0; i < symbols->module_count; i++)
        if (same_module(&symbols->modules[i], seen)) {
            add_path(&symbols->modules[i], seen->path);
            return (uint32_t)i;
        }
    if (!grow_list(symbols->modules, symbols->module_count))
        return UINT32_MAX;
    struct module *module = &symbols->modules[symbols->module_count];
    *module = (struct module){.ran = {.path = seen->path,
                                      .build_id = seen->build_id,
                                      .build_id_bytes = seen->build_id_bytes,
                                      .extent = seen->end - seen->start},
                              .short_name = seen->path[0] ? last_part(seen->path) : "[no name]"};
    add_path(module, seen->path);
    return (uint32_t)symbols->module_count++;
}

static bool identify_all(struct symbols *symbols, size_t d) {
    const struct dump *dump = symbols->dumps[d];
    symbols->module_of[d] = malloc((dump->module_count + 1) * sizeof *symbols->module_of[d]);
    for (size_t i = 0; symbols->module_of[d] && i < dump->module_count; i++)
        if ((symbols->module_of[d][i] = identify(symbols, &dump->modules[i])) == UINT32_MAX)
            return false;
    return symbols->module_of[d] != NULL;
}

/* Names stored beside the dumps: one file per run and directory. Dumps of one run follow each other. */
static bool read_stored(struct symbols *symbols, const struct dump *dump) {
    char *path = dump_set_beside(dump, FORMAT_SYMBOLS_SUFFIX);
    if (!path || (symbols->stored_count > 0 && strcmp(symbols->stored[symbols->stored_count - 1].path, path) == 0)) {
        free(path);
        return true;
    }
    if (!grow_list(symbols->stored, symbols->stored_count)) {
        free(path);
        return false;
    }
    struct stored_file *file = &symbols->stored[symbols->stored_count++];
    file->path = path;
    return stored_symbols_read(&file->symbols, path) &&
           (!file->symbols.damage || note(symbols, "%s: byte %zu: what begins there %s; what is before it is used",
                                          path, file->symbols.damaged_at, file->symbols.damage));
}

struct symbols *symbols_new(struct dump *const *dumps, size_t count, const char *debug_directory) {
    struct symbols *symbols = calloc(1, sizeof *symbols);
    if (!symbols)
        return NULL;
    symbols->dumps = dumps;
    symbols->dump_count = count;
    symbols->debug_directory = strdup(debug_directory ? debug_directory : SYMBOLS_DEBUG_DIRECTORY);
    symbols->module_of = calloc(count + 1, sizeof *symbols->module_of);
    bool enough_memory = symbols->debug_directory && symbols->module_of;
    for (size_t d = 0; enough_memory && d < count; d++)
        enough_memory = identify_all(symbols, d) && read_stored(symbols, dumps[d]);
    if (enough_memory)
        return symbols;
    symbols_free(symbols);
    return NULL;
}

void symbols_free(struct symbols *symbols) {
    if (!symbols)
        return;
    for (size_t d = 0; symbols->module_of && d < symbols->dump_count; d++)
        free(symbols->module_of[d]);
    for (size_t i = 0; i < symbols->places.count; i++) {
        free(wanted_items(&symbols->places)[i].place->inlined);
        free(wanted_items(&symbols->places)[i].place);
    }
    for (struct text *text = symbols->texts, *next; text; text = next) {
        next = text->next;
        free(text);
    }
    for (size_t i = 0; i < symbols->stored_count; i++) {
        stored_symbols_free(&symbols->stored[i].symbols);
        free(symbols->stored[i].path);
    }
    free(symbols->stored);
    for (size_t i = 0; i < symbols->note_count; i++)
        free(symbols->notes[i]);
    free(symbols->notes);
    free(symbols->module_of);
    free(symbols->modules);
    hash_table_free(&symbols->places);
    free(symbols->debug_directory);
    free(symbols);
}

const struct dump *symbols_dump(const struct symbols *symbols, size_t dump) {
    return symbols->dumps[dump];
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool want_place(struct symbols *symbols, uint32_t module, uint64_t offset) {
    struct place_key key = {offset, module};
    if (wanted_find(&symbols->places, &key))
        return true;
    struct module_place *place = calloc(1, sizeof *place);
    struct wanted *wanted = place ? wanted_add(&symbols->places, &key) : NULL;
    if (!wanted) {
        free(place);
        return false;
    }
    *place = (struct module_place){.module = module, .offset = offset, .symbol = unknown_symbol};
    wanted->place = place;
    return true;
}

/* Where a return address lies: the call is the instruction before it. False when it is in no module. */
static bool locate(const struct symbols *symbols, size_t d, const struct dump_stack *stack, uint64_t return_address,
                   uint32_t *module, uint64_t *offset) {
    const struct dump *dump = symbols->dumps[d];
    const struct dump_module *found = dump_module_at(dump, stack, return_address - 1);
    if (!found)
        return false;
    *module = symbols->module_of[d][found - dump->modules];
    *offset = return_address - 1 - found->base;
    return true;
}

static bool want_stack(struct symbols *symbols, size_t d, const struct dump_stack *stack) {
    for (uint32_t i = 0; i < stack->depth; i++) {
        uint32_t module;
        uint64_t offset;
        if ((stack->entries[i] & STACK_ENTRY_KIND) == STACK_ENTRY_NATIVE &&
            locate(symbols, d, stack, stack->entries[i], &module, &offset) && !want_place(symbols, module, offset))
            return false;
    }
    return true;
}

bool symbols_want(struct symbols *symbols, size_t dump, uint32_t stack) {
    const struct dump_stack *found = dump_stack(symbols->dumps[dump], stack);
    return !found || want_stack(symbols, dump, found);
}

bool symbols_want_all(struct symbols *symbols) {
    for (size_t d = 0; d < symbols->dump_count; d++)
        for (size_t i = 0; i < symbols->dumps[d]->stack_count; i++)
            if (!want_stack(symbols, d, &symbols->dumps[d]->stacks[i]))
                return false;
    return true;
}

const struct symbol *symbols_find(const struct symbols *symbols, size_t dump, const struct dump_stack *stack,
                                  uint64_t return_address) {
    uint32_t module;
    uint64_t offset;
    if (!locate(symbols, dump, stack, return_address, &module, &offset))
        return &unknown_symbol;
    const struct wanted *wanted = wanted_find(&symbols->places, &(struct place_key){offset, module});
    if (!wanted)
        return &unknown_symbol;
    return wanted->place->inlined_count > 0 ? &wanted->place->inlined[0] : &wanted->place->symbol;
}

/* ---- looking up ------------------------------------------------------------------------------ */

/* The places of one module that wait for it. */
struct batch {
    struct module_place **places; /* ascending by offset */
    size_t count;
};

static bool name_places(struct symbols *symbols, const struct elf_file *file, const struct batch *batch) {
    struct elf_symbols functions;
    const struct elf_symbol *before = NULL;
    const char *name = NULL;
    bool enough_memory = elf_symbols_read(&functions, file);
    for (size_t i = 0; enough_memory && i < batch->count; i++) {
        struct module_place *place = batch->places[i];
        const struct elf_symbol *function = place->symbol.named ? NULL : elf_symbol_at(&functions, place->offset);
        if (!function)
            continue;
        if (function != before) { /* neighbours are often of one function */
            char text[FUNCTION_NAME_MAX];
            demangle(text, function->name);
            name = keep(symbols, text);
            before = function;
            enough_memory = name != NULL;
        }
        place->symbol.name = name;
        place->symbol.named = true;
    }
    elf_symbols_free(&functions);
    return enough_memory;
}

/* Each inlined function is at the line that the one inside it was called from, the innermost at the address's own. */
static bool take_inlined_calls(struct symbols *symbols, struct module_place *place, const struct source_line *line) {
    place->inlined = calloc(line->call_count, sizeof *place->inlined);
    if (!place->inlined)
        return false;
    for (size_t i = 0; i < line->call_count; i++) {
        struct symbol *here = &place->inlined[i];
        struct symbol *caller = i + 1 < line->call_count ? &place->inlined[i + 1] : &place->symbol;
        char text[FUNCTION_NAME_MAX];
        demangle(text, line->calls[i].function);
        if (i == 0) {
            here->file = place->symbol.file;
            here->line = place->symbol.line;
        }
        here->named = true;
        here->name = keep(symbols, text);
        here->caller = caller;
        caller->file = line->calls[i].file ? keep(symbols, line->calls[i].file) : NULL;
        caller->line = line->calls[i].line;
        if (!here->name || (line->calls[i].file && !caller->file))
            return false;
    }
    place->inlined_count = line->call_count;
    return true;
}

static bool take_lines(struct symbols *symbols, const struct batch *batch, struct source_line *lines) {
    const char *file = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        struct module_place *place = batch->places[i];
        if (lines[i].file && (!file || strcmp(file, lines[i].file) != 0) && !(file = keep(symbols, lines[i].file)))
            return false;
        if (lines[i].file) {
            place->symbol.file = file;
            place->symbol.line = lines[i].line;
        }
        if (lines[i].call_count > 0 && !place->inlined && !take_inlined_calls(symbols, place, &lines[i]))
            return false;
    }
    return true;
}

static bool find_lines(struct symbols *symbols, const struct module *module, const char *path,
                       const struct batch *batch) {
    uint64_t *addresses = malloc(batch->count * sizeof *addresses);
    struct source_line *lines = calloc(batch->count, sizeof *lines);
    bool enough_memory = addresses && lines;
    if (enough_memory) {
        for (size_t i = 0; i < batch->count; i++)
            addresses[i] = batch->places[i]->offset;
        enum lines_result result = lines_find(path, addresses, batch->count, lines);
        enough_memory = result != LINES_NO_MEMORY && take_lines(symbols, batch, lines) &&
                        (result != LINES_DAMAGED || note(symbols,
                                                         "the debug data of %s is damaged or takes too long: source "
                                                         "lines are missing",
                                                         module->short_name));
    }
    for (size_t i = 0; lines && i < batch->count; i++)
        source_line_free(&lines[i]);
    free(lines);
    free(addresses);
    return enough_memory;
}

/* ---- what was stored ------------------------------------------------------------------------- */

static bool take_stored_functions(struct module_place *place, const struct stored_function *functions, size_t count) {
    free(place->inlined);
    place->inlined_count = 0;
    place->inlined = count > 1 ? calloc(count - 1, sizeof *place->inlined) : NULL;
    if (count > 1 && !place->inlined)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct symbol *symbol = i + 1 < count ? &place->inlined[i] : &place->symbol;
        *symbol = (struct symbol){.name = functions[i].name[0] ? functions[i].name : unknown_symbol.name,
                                  .module = "",
                                  .named = functions[i].name[0] != '\0',
                                  .file = functions[i].file[0] ? functions[i].file : NULL,
                                  .line = functions[i].line,
                                  .caller = i + 2 < count   ? symbol + 1
                                            : i + 1 < count ? &place->symbol
                                                            : NULL};
    }
    place->inlined_count = count - 1;
    return true;
}

/* Gives places of which the files here do not tell the line what was found when the job ended. *missing: places that
 * have no name even then. */
static bool take_stored(struct symbols *symbols, const struct module *module, const struct batch *batch,
                        size_t *missing) {
    struct stored_function functions[STORED_FUNCTIONS_MOST];
    for (size_t f = 0; f < symbols->stored_count; f++) {
        const struct stored_symbols *stored = &symbols->stored[f].symbols;
        size_t number = stored_symbols_module(stored, &module->ran);
        for (size_t i = 0; number < stored->module_count && i < batch->count; i++) {
            struct module_place *place = batch->places[i];
            size_t count = place->symbol.file ? 0 : stored_symbols_find(stored, number, place->offset, functions);
            if (count > 0 && !take_stored_functions(place, functions, count))
                return false;
        }
    }
    for (size_t i = 0; i < batch->count; i++)
        *missing += !batch->places[i]->symbol.named;
    return true;
}

static bool note_state(struct symbols *symbols, const struct module *module, enum file_state state) {
    if (state == FILE_SOUND || module->ran.path[0] != '/') /* what has no path is the kernel's own */
        return true;
    return note(symbols,
                state == FILE_GONE ? "%s is not here: its frames are shown as %s+offset"
                                   : "%s is not the file that ran (it was replaced): its frames are shown as %s+offset",
                module->ran.path, module->short_name);
}

static enum file_state open_module(struct elf_file *file, const struct module *module, struct ran *ran) {
    enum file_state state = FILE_GONE;
    for (size_t i = 0; i < module->path_count; i++) {
        *ran = module->ran;
        ran->path = module->paths[i];
        enum file_state found = debug_files_open(file, ran);
        if (found == FILE_SOUND)
            return FILE_SOUND;
        state = found > state ? found : state;
    }
    *ran = module->ran;
    return state;
}

/* `path`: of the separate file with debug data. Either file may be NULL. */
static bool look_up_in(struct symbols *symbols, const struct module *module, const struct batch *batch,
                       const struct elf_file *file, const char *ran, const struct elf_file *debug, const char *path) {
    if (debug && debug->has_symtab && !(file && file->has_symtab) && !name_places(symbols, debug, batch))
        return false;
    if (file && !name_places(symbols, file, batch)) /* .dynsym names what is left */
        return false;
    if (file && file->has_lines)
        return find_lines(symbols, module, ran, batch);
    return !debug || !debug->has_lines || find_lines(symbols, module, path, batch);
}

static bool look_up_batch(struct symbols *symbols, const struct module *module, const struct batch *batch) {
    struct elf_file file, debug;
    struct ran ran;
    char path[4096];
    enum file_state state = open_module(&file, module, &ran);
    bool sound = state == FILE_SOUND, separate = false;
    if (!sound || !file.has_symtab || !file.has_lines)
        separate = debug_files_find(&debug, path, &ran, sound ? &file : NULL, symbols->debug_directory);
    bool enough_memory =
        look_up_in(symbols, module, batch, sound ? &file : NULL, ran.path, separate ? &debug : NULL, path);
    if (separate)
        elf_close(&debug);
    if (sound)
        elf_close(&file);
    size_t missing = 0;
    return enough_memory && take_stored(symbols, module, batch, &missing) &&
           (sound || separate || missing == 0 || note_state(symbols, module, state));
}

static bool name_rest(struct symbols *symbols, const struct module *module, const struct batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        struct module_place *place = batch->places[i];
        place->symbol.module = module->short_name;
        for (size_t k = 0; k < place->inlined_count; k++)
            place->inlined[k].module = module->short_name;
        place->resolved = true;
        if (place->symbol.named)
            continue;
        char text[FUNCTION_NAME_MAX];
        snprintf(text, sizeof text, "%.900s+0x%" PRIx64, module->short_name, place->offset);
        place->symbol.name = keep(symbols, text);
        if (!place->symbol.name)
            return false;
    }
    return true;
}

static int compare_places(const void *a, const void *b) {
    const struct module_place *left = *(struct module_place *const *)a, *right = *(struct module_place *const *)b;
    if (left->module != right->module)
        return left->module < right->module ? -1 : 1;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

bool symbols_resolve(struct symbols *symbols) {
    if (symbols->resolved_count == symbols->places.count)
        return true;
    struct module_place **open = malloc((symbols->places.count + 1) * sizeof *open);
    size_t count = 0;
    if (!open)
        return false;
    for (size_t i = 0; i < symbols->places.count; i++)
        if (!wanted_items(&symbols->places)[i].place->resolved)
            open[count++] = wanted_items(&symbols->places)[i].place;
    qsort(open, count, sizeof *open, compare_places);
    bool enough_memory = true;
    for (size_t i = 0, end; enough_memory && i < count; i = end) {
        for (end = i; end < count && open[end]->module == open[i]->module; end++)
            ;
        struct batch batch = {open + i, end - i};
        const struct module *module = &symbols->modules[open[i]->module];
        enough_memory = look_up_batch(symbols, module, &batch) && name_rest(symbols, module, &batch);
    }
    free(open);
    symbols->resolved_count = symbols->places.count;
    if (symbols->note_count > 0)
        qsort(symbols->notes, symbols->note_count, sizeof *symbols->notes, compare_text);
    return enough_memory;
}

bool symbols_store(const struct symbols *symbols, FILE *stream) {
    bool any = false;
    stored_symbols_write_head(stream);
    for (size_t m = 0; m < symbols->module_count; m++) {
        bool begun = false;
        for (size_t i = 0; i < symbols->places.count; i++) {
            const struct module_place *place = wanted_items(&symbols->places)[i].place;
            if (place->module != m || (!place->symbol.named && !place->symbol.file))
                continue;
            if (!begun)
                stored_symbols_write_module(stream, &symbols->modules[m].ran);
            begun = any = true;
            stored_symbols_write_place(stream, place->offset,
                                       place->inlined_count > 0 ? &place->inlined[0] : &place->symbol);
        }
    }
    return any;
}
