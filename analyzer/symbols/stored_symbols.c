/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/stored_symbols.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/regular_file.h"

enum { STORED_BYTES_MOST = 256 << 20 }; /* two million places of a hundred bytes and more */

static const char head[] = "commtap symbols 1";

/* ---- writing ------------------------------------------------------------------------------------------------------
 */

/* Fields end at a tab and places at a newline: in a name both are written as \t and \n, and \ as \\. */
static void write_text(FILE *stream, const char *text) {
    for (; *text; text++)
        if (*text == '\t' || *text == '\n' || *text == '\\')
            fprintf(stream, "\\%c", *text == '\t' ? 't' : *text == '\n' ? 'n' : '\\');
        else
            fputc(*text, stream);
}

void stored_symbols_write_head(FILE *stream) {
    fprintf(stream, "%s\n", head);
}

void stored_symbols_write_module(FILE *stream, const struct ran *ran) {
    fputs("module\t", stream);
    for (uint32_t i = 0; i < ran->build_id_bytes; i++)
        fprintf(stream, "%02x", ran->build_id[i]);
    fprintf(stream, "%s\t%" PRIx64 "\t", ran->build_id_bytes == 0 ? "-" : "", ran->extent);
    write_text(stream, ran->path);
    fputc('\n', stream);
}

void stored_symbols_write_place(FILE *stream, uint64_t offset, const struct symbol *innermost) {
    fprintf(stream, "%" PRIx64, offset);
    for (const struct symbol *symbol = innermost; symbol; symbol = symbol->caller) {
        fputc('\t', stream);
        write_text(stream, symbol->named ? symbol->name : "");
        fprintf(stream, "\t%" PRIu32 "\t", symbol->line);
        write_text(stream, symbol->file ? symbol->file : "");
    }
    fputc('\n', stream);
}

/* ---- reading ------------------------------------------------------------------------------------------------------
 */

struct stored_key {
    uint64_t offset, module;
};

struct stored_place {
    struct stored_key key;
    char *fields; /* the rest of its line: function, line, file and so on, each terminated */
    uint32_t field_count;
};

HASH_TABLE_OF(stored_places, struct stored_place, struct stored_key);

/* Ends the field that begins at `at`, undoing what write_text did. Returns where the next begins, NULL: it was the
 * line's last. */
static char *end_field(char *at) {
    char *to = at;
    while (*at && *at != '\t') {
        if (*at == '\\' && at[1]) {
            *to++ = (char)(at[1] == 't' ? '\t' : at[1] == 'n' ? '\n' : at[1]);
            at += 2;
        } else {
            *to++ = *at++;
        }
    }
    char *next = *at ? at + 1 : NULL;
    *to = '\0';
    return next;
}

static bool parse_number(const char *text, int base, uint64_t most, uint64_t *value) {
    char *end;
    if (!strchr(base == 16 ? "0123456789abcdef" : "0123456789", *text) || !*text || strlen(text) > 16)
        return false;
    *value = strtoull(text, &end, base);
    return *end == '\0' && *value <= most;
}

static bool parse_build_id(const char *text, struct stored_module *module) {
    size_t digits = strlen(text);
    if (strcmp(text, "-") == 0)
        return true;
    if (digits % 2 != 0 || digits == 0 || digits / 2 > ELF_BUILD_ID_MAX || strspn(text, "0123456789abcdef") != digits)
        return false;
    for (size_t i = 0; i < digits / 2; i++) {
        const char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
        module->build_id[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    module->ran.build_id_bytes = (uint32_t)(digits / 2);
    return true;
}

/* One of these per line; NULL: it was understood. */
static const char *take_module(struct stored_symbols *stored, char *line) {
    struct stored_module module = {0};
    char *extent = end_field(line), *path = extent ? end_field(extent) : NULL;
    if (!path || end_field(path) || !parse_build_id(line, &module) ||
        !parse_number(extent, 16, UINT64_MAX, &module.ran.extent))
        return "is no module";
    module.ran.path = path;
    if (!grow_list(stored->modules, stored->module_count))
        return "is more than fits into memory";
    stored->modules[stored->module_count++] = module;
    return NULL;
}

static const char *take_place(struct stored_symbols *stored, char *line) {
    struct stored_key key = {.module = stored->module_count - 1};
    char *fields = end_field(line), *next = fields;
    uint32_t count = 0;
    uint64_t number;
    if (stored->module_count == 0 || !fields || !parse_number(line, 16, UINT64_MAX, &key.offset))
        return "is no place in a module";
    for (char *to = fields; next; count++) {
        char *field = next;
        next = end_field(field);
        if (count % 3 == 1 && !parse_number(field, 10, UINT32_MAX, &number))
            return "has no line number where one belongs";
        size_t bytes = strlen(field) + 1; /* shorter than it was: the next one moves up to it */
        memmove(to, field, bytes);
        to += bytes;
    }
    if (count % 3 != 0 || count / 3 > STORED_FUNCTIONS_MOST)
        return "does not consist of functions, lines and files";
    if (stored_places_find(&stored->places, &key))
        return NULL;
    struct stored_place *place = stored_places_add(&stored->places, &key);
    if (!place)
        return "is more than fits into memory";
    place->fields = fields;
    place->field_count = count;
    return NULL;
}

static void take_lines(struct stored_symbols *stored) {
    char *line = stored->text;
    for (bool first = true; *line; first = false) {
        char *end = strchr(line, '\n');
        size_t at = (size_t)(line - stored->text);
        if (end)
            *end = '\0';
        const char *damage = !end    ? "is cut off"
                             : first ? strcmp(line, head) == 0 ? NULL : "is no beginning of such a file"
                             : strncmp(line, "module\t", 7) == 0 ? take_module(stored, line + 7)
                                                                 : take_place(stored, line);
        if (damage) {
            stored->damage = damage;
            stored->damaged_at = at;
            return;
        }
        line = end + 1;
    }
}

/* The whole file as a text, NULL when memory is short; "" where there is none, or none that can be read. */
static char *read_text(struct stored_symbols *stored, const char *path) {
    struct stat status;
    int file = regular_file_open(AT_FDCWD, path, 0);
    if (file >= 0 && (fstat(file, &status) != 0 || status.st_size > STORED_BYTES_MOST)) {
        stored->damage = "is larger than any such file";
        close(file);
        file = -1;
    }
    size_t room = file >= 0 ? (size_t)status.st_size : 0, used = 0;
    char *text = malloc(room + 1);
    for (ssize_t got; text && file >= 0 && used < room && (got = read(file, text + used, room - used)) > 0;)
        used += (size_t)got;
    if (text)
        text[used] = '\0';
    if (file >= 0)
        close(file);
    return text;
}

bool stored_symbols_read(struct stored_symbols *stored, const char *path) {
    *stored = (struct stored_symbols){0};
    stored->text = read_text(stored, path);
    if (stored->text)
        take_lines(stored);
    for (size_t i = 0; i < stored->module_count; i++) /* they stay where they are from here on */
        stored->modules[i].ran.build_id = stored->modules[i].build_id;
    return stored->text != NULL;
}

void stored_symbols_free(struct stored_symbols *stored) {
    hash_table_free(&stored->places);
    free(stored->modules);
    free(stored->text);
    *stored = (struct stored_symbols){0};
}

size_t stored_symbols_module(const struct stored_symbols *stored, const struct ran *ran) {
    for (size_t i = 0; i < stored->module_count; i++) {
        const struct ran *kept = &stored->modules[i].ran;
        if (kept->build_id_bytes == ran->build_id_bytes &&
            (ran->build_id_bytes > 0 ? memcmp(kept->build_id, ran->build_id, ran->build_id_bytes) == 0
                                     : kept->extent == ran->extent && strcmp(kept->path, ran->path) == 0))
            return i;
    }
    return stored->module_count;
}

size_t stored_symbols_find(const struct stored_symbols *stored, size_t module, uint64_t offset,
                           struct stored_function functions[STORED_FUNCTIONS_MOST]) {
    const struct stored_place *place = stored_places_find(&stored->places, &(struct stored_key){offset, module});
    if (!place)
        return 0;
    const char *field = place->fields;
    for (uint32_t i = 0; i < place->field_count; i++) {
        struct stored_function *function = &functions[i / 3];
        if (i % 3 == 0)
            function->name = field;
        else if (i % 3 == 1)
            function->line = (uint32_t)strtoul(field, NULL, 10);
        else
            function->file = field;
        field += strlen(field) + 1;
    }
    return place->field_count / 3;
}
