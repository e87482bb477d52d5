/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/redact.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

/* ---- what there is --------------------------------------------------------------------------- */

static bool add_once(char ***list, size_t *count, const char *text) {
    for (size_t i = 0; i < *count; i++)
        if (strcmp((*list)[i], text) == 0)
            return true;
    if (!text[0])
        return true;
    char *copy = grow_list(*list, *count) ? strdup(text) : NULL;
    if (copy)
        (*list)[(*count)++] = copy;
    return copy != NULL;
}

static int longest_first(const void *a, const void *b) {
    size_t left = strlen(*(char *const *)a), right = strlen(*(char *const *)b);
    return (left < right) - (left > right);
}

/* Where distributions keep what they install; all else may be called after a project or a user. */
static bool is_of_system(const char *path) {
    static const char *const directories[] = {"/usr/lib", "/usr/bin/", "/usr/local/cuda", "/lib"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        if (strncmp(path, directories[i], strlen(directories[i])) == 0)
            return true;
    return path[0] == '['; /* the kernel's own: [vdso] */
}

static bool add_modules(struct redaction *redaction, const struct dump *dump) {
    bool done = true;
    for (size_t i = 0; done && i < dump->module_count; i++) {
        const char *path = dump->modules[i].path, *slash = strrchr(path, '/');
        done = is_of_system(path) || add_once(&redaction->modules, &redaction->module_count, slash ? slash + 1 : path);
    }
    return done;
}

bool redaction_build(struct redaction *redaction, const struct dump_set *set, const struct job *job) {
    *redaction = (struct redaction){0};
    bool done = add_once(&redaction->places, &redaction->place_count, set->directory);
    for (size_t d = 0; done && d < job->count; d++)
        done = add_once(&redaction->names, &redaction->name_count, job->dumps[d]->host) &&
               add_once(&redaction->places, &redaction->place_count, job->dumps[d]->working_directory) &&
               add_modules(redaction, job->dumps[d]);
    /* dumps of other jobs may be spoken of, too */
    for (size_t d = 0; done && d < set->count; d++)
        done = add_once(&redaction->names, &redaction->name_count, set->dumps[d]->host);
    if (redaction->place_count > 0)
        qsort(redaction->places, redaction->place_count, sizeof *redaction->places, longest_first);
    return done;
}

void redaction_free(struct redaction *redaction) {
    for (size_t i = 0; i < redaction->name_count; i++)
        free(redaction->names[i]);
    for (size_t i = 0; i < redaction->place_count; i++)
        free(redaction->places[i]);
    for (size_t i = 0; i < redaction->module_count; i++)
        free(redaction->modules[i]);
    free(redaction->names);
    free(redaction->places);
    free(redaction->modules);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool is_of_name(char c) {
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

/* A dot within a name, as before a domain; not the one that ends a sentence. */
static bool goes_on(const char *text) {
    return is_of_name(text[0]) || (text[0] == '.' && is_of_name(text[1]));
}

static bool is_of_path(char c) {
    return c != '\0' && !isspace((unsigned char)c) && !strchr("\"'(),;<>|", c);
}

/* Bytes of a host's name at `text`, with its domain, *which of the names it is; 0: none begins here. */
static size_t name_at(const struct redaction *redaction, const char *text, size_t *which) {
    size_t longest = 0;
    for (size_t i = 0; i < redaction->name_count; i++) {
        size_t length = strlen(redaction->names[i]);
        if (length > longest && strncmp(text, redaction->names[i], length) == 0 && !is_of_name(text[length])) {
            longest = length;
            *which = i;
        }
    }
    while (longest > 0 && goes_on(text + longest))
        longest++;
    return longest;
}

/* Bytes of a directory that is known as a whole; it may have blanks. */
static size_t place_at(const struct redaction *redaction, const char *text) {
    for (size_t i = 0; i < redaction->place_count; i++) {
        size_t length = strlen(redaction->places[i]);
        if (strncmp(text, redaction->places[i], length) == 0 && !is_of_name(text[length]))
            return length;
    }
    return 0;
}

/* Whether what begins here is a path: from the root, from here or from home, or to a file with an ending. */
static bool is_path(const char *text, size_t length) {
    const char *slash = memrchr(text, '/', length);
    if (!slash || length < 2)
        return false;
    const char *dot = memchr(slash, '.', length - (size_t)(slash - text));
    return text[0] == '/' || text[0] == '.' || text[0] == '~' || (dot && isalpha((unsigned char)dot[1]));
}

/* Bytes of the path that begins at `text`, whose first part may be a directory with blanks; 0: none begins here. */
static size_t path_at(const struct redaction *redaction, const char *text) {
    size_t place = place_at(redaction, text), length = place;
    while (is_of_path(text[length]))
        length++;
    return place > 0 || is_path(text, length) ? length : 0;
}

/* Bytes of a module's name at `text`, *which of them it is; 0: none begins here. A function may be called like it: what
 * counts is a place in it, "train+0x12", or the name in parentheses, "main (train)". */
static size_t module_at(const struct redaction *redaction, const char *text, bool opened, size_t *which) {
    for (size_t i = 0; i < redaction->module_count; i++) {
        size_t length = strlen(redaction->modules[i]);
        if (strncmp(text, redaction->modules[i], length) == 0 &&
            (strncmp(text + length, "+0x", 3) == 0 || (opened && text[length] == ')'))) {
            *which = i;
            return length;
        }
    }
    return 0;
}

/* Writes the last part of a path of `length` bytes, or that it is a directory of the job's, whose last part may be
 * called after a user or a project. Returns the bytes that it is in place of. */
static size_t put_path(const struct redaction *redaction, FILE *stream, const char *text, size_t length) {
    size_t place = place_at(redaction, text);
    const char *last = memrchr(text, '/', length);
    if (last && last < text + place) {
        fputs("DIR", stream);
        return place;
    }
    const char *from = last ? last + 1 : text;
    fwrite(from, 1, (size_t)(text + length - from), stream);
    return length;
}

/* Writes what stands for what begins at `text` after `before` (none: 0). Returns the bytes that it is in
 * place of. */
static size_t put_part(const struct redaction *redaction, FILE *stream, const char *text, char before) {
    bool within = is_of_name(before);
    size_t which = 0, length = within ? 0 : module_at(redaction, text, before == '(', &which);
    if (length > 0) {
        fprintf(stream, "module %zu", which + 1);
        return length;
    }
    length = within ? 0 : path_at(redaction, text);
    if (length > 0)
        return put_path(redaction, stream, text, length);
    length = within ? 0 : name_at(redaction, text, &which);
    if (length > 0) {
        fprintf(stream, "host %zu", which + 1);
        return length;
    }
    do /* on to where the next one may begin */
        fputc(text[length++], stream);
    while (is_of_name(text[length - 1]) && text[length] && goes_on(text + length));
    return length;
}

char *redact_text(const struct redaction *redaction, const char *text) {
    char *clean = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&clean, &bytes);
    if (!stream)
        return NULL;
    char before = '\0';
    for (size_t at = 0; text[at]; before = text[at - 1])
        at += put_part(redaction, stream, text + at, before);
    if (fclose(stream) != 0) {
        free(clean);
        return NULL;
    }
    return clean;
}

/* ---- documents ------------------------------------------------------------------------------- */

/* Texts that are about the one who ran the job, whatever they say. */
static bool is_private(const char *key) {
    static const char *const keys[] = {"command", "user", "working_directory"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static bool redact_string(const struct redaction *redaction, json_t *json) {
    char *clean = redact_text(redaction, json_string_value(json));
    bool done = clean && json_string_set(json, clean) == 0;
    free(clean);
    return done;
}

/* The whole text is a module's name. */
static bool redact_module(const struct redaction *redaction, json_t *json) {
    char neutral[32];
    for (size_t i = 0; i < redaction->module_count; i++)
        if (strcmp(redaction->modules[i], json_string_value(json)) == 0) {
            snprintf(neutral, sizeof neutral, "module %zu", i + 1);
            return json_string_set(json, neutral) == 0;
        }
    return true;
}

/* What is still to be looked at: documents may be as deep as a call stack. */
struct heap {
    json_t **items;
    size_t count;
    bool no_memory;
};

static void push(struct heap *heap, json_t *json) {
    if (grow_list(heap->items, heap->count))
        heap->items[heap->count++] = json;
    else
        heap->no_memory = true;
}

static void push_parts(struct heap *heap, const struct redaction *redaction, json_t *json) {
    const char *key;
    json_t *value;
    size_t i;
    json_array_foreach(json, i, value) push(heap, value);
    if (!json_is_object(json))
        return;
    json_object_foreach(json, key, value) {
        if (is_private(key) && json_is_string(value))
            json_string_set(value, "");
        if (strcmp(key, "module") == 0 && json_is_string(value))
            heap->no_memory |= !redact_module(redaction, value);
        push(heap, value);
    }
}

bool redact_json(const struct redaction *redaction, json_t *json) {
    struct heap heap = {0};
    push(&heap, json);
    while (heap.count > 0 && !heap.no_memory) {
        json_t *part = heap.items[--heap.count];
        if (json_is_string(part))
            heap.no_memory |= !redact_string(redaction, part);
        else
            push_parts(&heap, redaction, part);
    }
    free(heap.items);
    return !heap.no_memory;
}
