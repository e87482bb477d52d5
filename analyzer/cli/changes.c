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
#include "analyzer/base/parcel.h"
#include "analyzer/base/team.h"
#include "analyzer/cli/input.h"
#include "analyzer/load/dump.h"
#include "analyzer/render/escape.h"

enum {
    TRIES_OF_A_FILE = 3, /* somebody overwrites a file once or twice by mistake; more often it never stands still */
    TRIES = 8,           /* files that change in turn */
};

/* What changed in the present try, and in how many each file did. */
static struct changed {
    char *path;
    size_t times;
    enum dump_change change;
    bool now; /* in the present one */
} * changed;
static size_t changed_count;
static bool no_memory;
static bool together; /* the other processes know of all that, and begin anew as well */

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

/* Counts it once in a try. Returns whether it is news. */
static bool count_change(const char *path, enum dump_change change) {
    struct changed *file = find_changed(path);
    no_memory |= !file;
    if (!file || file->now)
        return false;
    file->now = true;
    file->change = change;
    if (++file->times == TRIES_OF_A_FILE)
        no_memory |= !dump_refuse(path, change == DUMP_TRUNCATED ? "is truncated again and again while it is read"
                                                                 : "is overwritten again and again while it is read");
    return true;
}

static void note_change(void *context, const char *path, enum dump_change change) {
    (void)context;
    if (count_change(path, change))
        say_change(path, change,
                   find_changed(path)->times < TRIES_OF_A_FILE ? "everything is read again"
                                                               : "it changes again and again and is left out");
}

/* One file that changed in this try; another process has said so. */
static void change_part(struct parcel *parcel, struct changed *file) {
    char *path = file ? file->path : NULL;
    size_t bytes = path ? strlen(path) + 1 : 0;
    enum dump_change change = file ? file->change : DUMP_TRUNCATED;
    parcel_list(parcel, path, bytes);
    parcel_field(parcel, &change);
    if (parcel->packs)
        return;
    if (path && bytes > 0 && path[bytes - 1] == '\0')
        count_change(path, change);
    free(path);
}

/* Whether this process, and afterwards any, has to begin anew, and how many files it saw change. */
struct said {
    bool again;
    size_t files;
};

static void changes_part(void *context, unsigned process, struct parcel *parcel) {
    (void)process;
    struct said *own = context;
    size_t count = own->files;
    bool again = own->again;
    parcel_flag(parcel, &again);
    parcel_field(parcel, &count);
    own->again |= !parcel->packs && again;
    for (size_t i = 0; parcel->packs && i < changed_count; i++)
        if (changed[i].now)
            change_part(parcel, &changed[i]);
    for (size_t i = 0; !parcel->packs && !parcel->failed && i < count; i++)
        change_part(parcel, NULL);
}

static size_t changed_now(void) {
    size_t now = 0;
    for (size_t i = 0; i < changed_count; i++)
        now += changed[i].now;
    return now;
}

static void note_too_late(void *context, const char *path, enum dump_change change) {
    (void)context;
    say_change(path, change, "what was written of it is not complete");
}

int changes_agree(struct team *team, int code) {
    dump_changes(note_change, NULL);
    struct said said = {code == EXIT_AGAIN || changed_now() > 0, changed_now()};
    if (team_is_shared(team))
        together =
            team_share(team, TEAM_CHANGES, no_memory || (code != EXIT_FINE && code != EXIT_AGAIN), changes_part, &said);
    return said.again ? EXIT_AGAIN : code;
}

int changes_check(struct team *team) {
    return changes_agree(team, EXIT_FINE);
}

int changes_tell(int code) {
    return dump_changes(note_too_late, NULL) > 0 && code == EXIT_FINE ? EXIT_UNUSABLE : code;
}

int changes_run(const struct command *command, const struct options *options) {
    int code = EXIT_AGAIN;
    bool alone = !team_is_shared(options->team) && !team_is_shared(options->lenders);
    for (int try = 0; try < TRIES && code == EXIT_AGAIN && !no_memory && (try == 0 || alone || together); try++) {
        for (size_t i = 0; i < changed_count; i++)
            changed[i].now = false;
        together = false; /* else the others have gone on */
        code = command->run(options);
    }
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
