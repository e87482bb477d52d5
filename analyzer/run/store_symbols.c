/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: one file of names per run, written beside it and put in its place as a whole.
 * Must not live here: looking names up (symbols/).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/output_mode.h"
#include "analyzer/dumps/set.h"
#include "analyzer/run/run.h"
#include "analyzer/symbols/symbols.h"

/* A file of ours that nobody else writes; several of a launcher's ranks may be at it at the same time. */
static FILE *create_beside(const char *path, mode_t mode, char **created) {
    if (asprintf(created, "%s.%ld.tmp", path, (long)getpid()) < 0) {
        *created = NULL;
        return NULL;
    }
    int file = open(*created, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0)
        output_give_mode(file, mode);
    FILE *stream = file >= 0 ? fdopen(file, "w") : NULL;
    if (!stream && file >= 0)
        close(file);
    return stream;
}

/* Returns 0 or an errno. */
static int write_file(const char *path, mode_t mode, const struct symbols *symbols) {
    char *created;
    FILE *stream = create_beside(path, mode, &created);
    int error = stream ? 0 : errno;
    if (stream) {
        bool any = symbols_store(symbols, stream);
        error = ferror(stream) ? EIO : 0;
        if (fclose(stream) != 0 && error == 0)
            error = errno;
        if (error == 0 && any && rename(created, path) != 0)
            error = errno;
        if (error != 0 || !any)
            unlink(created);
    }
    free(created);
    return error;
}

/* The dumps of one run, which follow each other. */
static void store_run(const char *directory, mode_t mode, struct dump *const *dumps, size_t count,
                      struct run_notes *notes) {
    struct symbols *symbols = symbols_new(dumps, count, NULL);
    char *path = NULL;
    if (strchr(dumps[0]->run_id, '/') ||
        asprintf(&path, "%s/" FORMAT_FILE_PREFIX "%s" FORMAT_SYMBOLS_SUFFIX, directory, dumps[0]->run_id) < 0)
        path = NULL;
    if (symbols && path && symbols_want_all(symbols) && symbols_resolve(symbols)) {
        int error = write_file(path, mode, symbols);
        if (error != 0)
            run_note(notes, "%s: names of call sites could not be kept there: %s", path, strerror(error));
    }
    free(path);
    symbols_free(symbols);
}

void run_store_symbols(const char *directory, const char *run_id, mode_t mode, struct run_notes *notes) {
    struct dump_set set;
    unsetenv("DEBUGINFOD_URLS"); /* who waits for the job's end should not wait for downloads */
    if (dump_set_open(directory, &set) != DUMP_SET_OK)
        return;
    for (size_t from = 0, to; from < set.count; from = to) {
        const char *id = set.dumps[from]->run_id;
        for (to = from; to < set.count && strcmp(set.dumps[to]->run_id, id) == 0;)
            to++;
        if (!run_id || strcmp(run_id, id) == 0)
            store_run(directory, mode, set.dumps + from, to - from, notes);
    }
    dump_set_close(&set);
}
