/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: the directory and its stubs. Must not live here: fetching.
 */
#include "analyzer/collect/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool scratch_open(struct scratch *scratch) {
    const char *base = getenv("TMPDIR");
    *scratch = (struct scratch){.directory = -1};
    int length =
        snprintf(scratch->path, sizeof scratch->path, "%s/commtap-top-XXXXXX", base && base[0] ? base : "/tmp");
    if (length >= (int)sizeof scratch->path)
        snprintf(scratch->path, sizeof scratch->path, "/tmp/commtap-top-XXXXXX");
    if (!mkdtemp(scratch->path)) {
        scratch->path[0] = '\0';
        return false;
    }
    scratch->directory = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scratch->directory < 0)
        scratch_close(scratch);
    return scratch->directory >= 0;
}

void scratch_close(struct scratch *scratch) {
    if (!scratch->path[0])
        return;
    DIR *stream = scratch->directory >= 0 ? fdopendir(scratch->directory) : NULL;
    for (struct dirent *entry; stream && (entry = readdir(stream));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(stream), entry->d_name, 0);
    if (stream)
        closedir(stream);
    rmdir(scratch->path);
    *scratch = (struct scratch){.directory = -1};
}

/* "commtap.<run id>.<16 hex>" of a path. */
static void stem_of(const char *path, const char *suffix, char stem[STUB_NAME_BYTES]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name), end = strlen(suffix);
    snprintf(stem, STUB_NAME_BYTES, "%.*s", (int)(length > end ? length - end : 0), name);
}

static bool is_there(const struct scratch *scratch, const char *stem, const char *suffix) {
    char name[STUB_NAME_BYTES + 16];
    snprintf(name, sizeof name, "%s%s", stem, suffix);
    return faccessat(scratch->directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Writes what a stub was found to say, and not the file itself, which may be another one by now. */
static void write_stub(const struct scratch *scratch, const struct stub *stub, const char *stem) {
    char name[STUB_NAME_BYTES + 16];
    snprintf(name, sizeof name, "%s%s", stem, FORMAT_STUB_SUFFIX);
    int file = openat(scratch->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    bool done = dprintf(file, "host=%s\nboot_id=%s\npath=%s\npid=%" PRId64 "\nrank=%" PRId32 "\n", stub->host,
                        stub->boot_id, stub->path, stub->pid, stub->rank) > 0;
    if (close(file) != 0 || !done)
        unlinkat(scratch->directory, name, 0);
}

/* A stub that somebody else wrote is not made ours. */
static void take_stub(const struct scratch *scratch, const struct dump_stub *found) {
    char stem[STUB_NAME_BYTES], text[256];
    struct stub stub;
    stem_of(found->path, FORMAT_STUB_SUFFIX, stem);
    if (is_there(scratch, stem, FORMAT_STAGED_SUFFIX) || is_there(scratch, stem, FORMAT_STUB_SUFFIX))
        return;
    const char *damage = stub_read(AT_FDCWD, found->path, &stub);
    if (!collect_refusal(&stub, damage, text, sizeof text))
        write_stub(scratch, &stub, stem);
}

size_t scratch_fetch(struct scratch *scratch, const struct dump_stub *stubs, size_t count,
                     const struct collect_request *request) {
    struct collection collection;
    size_t fetched = 0;
    for (size_t i = 0; i < count; i++)
        take_stub(scratch, &stubs[i]);
    if (collect_all(&collection, scratch->directory, request))
        for (size_t i = 0; i < collection.count; i++)
            fetched += collection.items[i].state != COLLECT_NOT;
    collect_free(&collection);
    return fetched;
}

bool scratch_is_used(const struct scratch *scratch, const char *dump_path) {
    char stem[STUB_NAME_BYTES];
    size_t length = strlen(scratch->path);
    if (length == 0 || strncmp(dump_path, scratch->path, length) != 0)
        return false;
    stem_of(dump_path, FORMAT_FILE_SUFFIX, stem);
    return is_there(scratch, stem, FORMAT_STUB_SUFFIX);
}
