/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps that change while they are read.
 * Lives here: the tries of a command. Must not live here: telling changes (load/).
 */
#include "analyzer/cli/changes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/cli/input.h"
#include "analyzer/load/dump.h"
#include "analyzer/render/escape.h"

enum {
    TRIES_OF_A_FILE = 3, /* somebody overwrites a file once or twice by mistake; more often it never stands still */
    TRIES = 8,           /* files that change in turn */
};

/* What changed in the present try, and how often each file changed in all. */
static struct changed {
    char *path;
    size_t times;
} * changed;
static size_t changed_count;
static bool no_memory;

static const char *name_of(enum dump_change change) {
    return change == DUMP_TRUNCATED ? "was truncated while it was read" : "was overwritten while it was read";
}

static void say_change(const char *path, enum dump_change change, const char *what_then) {
    fputs("commtap: ", stderr);
    escape_text(stderr, path);
    fprintf(stderr, ": %s: %s\n", name_of(change), what_then);
}

static struct changed *find_changed(const char *path) {
    for (size_t i = 0; i < changed_count; i++)
        if (strcmp(changed[i].path, path) == 0)
            return &changed[i];
    if (!grow_list(changed, changed_count))
        return NULL;
    changed[changed_count] = (struct changed){.path = strdup(path)};
    return changed[changed_count].path ? &changed[changed_count++] : NULL;
}

static void note_change(void *context, const char *path, enum dump_change change) {
    (void)context;
    struct changed *file = find_changed(path);
    if (!file) {
        no_memory = true;
        return;
    }
    bool again = ++file->times < TRIES_OF_A_FILE;
    say_change(path, change, again ? "everything is read again" : "it changes again and again and is left out");
    if (!again)
        no_memory |= !dump_refuse(path, change == DUMP_TRUNCATED ? "is truncated again and again while it is read"
                                                                 : "is overwritten again and again while it is read");
}

static void note_too_late(void *context, const char *path, enum dump_change change) {
    (void)context;
    say_change(path, change, "what was written of it is not complete");
}

int changes_check(void) {
    return dump_changes(note_change, NULL) > 0 ? EXIT_AGAIN : EXIT_FINE;
}

int changes_tell(int code) {
    return dump_changes(note_too_late, NULL) > 0 && code == EXIT_FINE ? EXIT_UNUSABLE : code;
}

int changes_run(const struct command *command, const struct options *options) {
    int code = EXIT_AGAIN;
    bool alone = !team_is_shared(options->team) && !team_is_shared(options->lenders);
    int tries = alone ? TRIES : 1; /* the others have gone on */
    for (int try = 0; try < tries && code == EXIT_AGAIN && !no_memory; try++)
        code = command->run(options);
    for (size_t i = 0; i < changed_count; i++)
        free(changed[i].path);
    free(changed);
    changed = NULL;
    changed_count = 0;
    if (no_memory)
        return input_no_memory();
    if (code != EXIT_AGAIN)
        return code;
    fputs("commtap: the dumps change faster than they can be read\n", stderr);
    return EXIT_UNUSABLE;
}
