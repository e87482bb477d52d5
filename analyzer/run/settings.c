/* SPDX-License-Identifier: Apache-2.0
 *
 * The two small lists `commtap run` hands around: environment settings and notes for the user.
 * Lives here: their memory.
 * Must not live here: what is set or noted, printing.
 */
#include "analyzer/base/grow.h"
#include "analyzer/run/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct run_setting *find_setting(const struct run_settings *settings, const char *name) {
    for (size_t i = 0; i < settings->count; i++)
        if (!strcmp(settings->items[i].name, name))
            return &settings->items[i];
    return NULL;
}

bool run_settings_set(struct run_settings *settings, const char *name, const char *value) {
    char *copy = strdup(value);
    if (!copy)
        return false;
    struct run_setting *known = find_setting(settings, name);
    if (known) {
        free(known->value);
        known->value = copy;
        return true;
    }
    char *name_copy = grow_list(settings->items, settings->count) ? strdup(name) : NULL;
    if (!name_copy) {
        free(copy);
        return false;
    }
    settings->items[settings->count++] = (struct run_setting){name_copy, copy};
    return true;
}

const char *run_settings_get(const struct run_settings *settings, const char *name) {
    const struct run_setting *known = find_setting(settings, name);
    return known ? known->value : NULL;
}

void run_settings_free(struct run_settings *settings) {
    for (size_t i = 0; i < settings->count; i++) {
        free(settings->items[i].name);
        free(settings->items[i].value);
    }
    free(settings->items);
    *settings = (struct run_settings){0};
}

void run_note(struct run_notes *notes, const char *format, ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if (grow_list(notes->items, notes->count))
        notes->items[notes->count++] = text;
    else
        free(text);
}

void run_notes_free(struct run_notes *notes) {
    for (size_t i = 0; i < notes->count; i++)
        free(notes->items[i]);
    free(notes->items);
    *notes = (struct run_notes){0};
}
