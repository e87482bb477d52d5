/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/dumps/stub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"
#include "analyzer/base/text.h"
#include "shim/format.h"

enum { STUB_BYTES_MAX = 4096, HEX_DIGITS = 16, BOOT_ID_LENGTH = 36, RUN_ID_MAX = 63 };

static const char *const staging_directories[] = {FORMAT_STAGING_DIRECTORIES};

static bool is_ours(const char *name, const char *suffix) {
    return strncmp(name, FORMAT_FILE_PREFIX, strlen(FORMAT_FILE_PREFIX)) == 0 && text_ends_in(name, suffix);
}

bool stub_is_one(const char *name) {
    return is_ours(name, FORMAT_STUB_SUFFIX);
}

bool stub_is_of_a_fetched_dump(const char *name) {
    return is_ours(name, FORMAT_STAGED_SUFFIX);
}

bool stub_dump_name(const char *name, char dump_name[STUB_NAME_BYTES]) {
    static const char run_id_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const char *run_id = name + strlen(FORMAT_FILE_PREFIX);
    const char *suffix = stub_is_of_a_fetched_dump(name) ? FORMAT_STAGED_SUFFIX : FORMAT_STUB_SUFFIX;
    size_t around = strlen(FORMAT_FILE_PREFIX) + 1 + HEX_DIGITS + strlen(suffix), length = strlen(name);
    if (!is_ours(name, suffix) || length <= around || length - around > RUN_ID_MAX)
        return false;
    const char *hex = run_id + (length - around) + 1;
    if (*run_id == '.' || hex[-1] != '.' || strspn(run_id, run_id_characters) != strlen(run_id) ||
        strspn(hex, "0123456789abcdef") != HEX_DIGITS)
        return false;
    int stem = (int)(length - strlen(suffix));
    snprintf(dump_name, STUB_NAME_BYTES, "%.*s" FORMAT_FILE_SUFFIX, stem, name);
    return true;
}

/* ---- contents -------------------------------------------------------------------------------- */

/* Copies the value of `key`. False unless there is exactly one such line and it fits. */
static bool take_value(const char *text, const char *key, char *value, size_t size) {
    size_t length = strlen(key), found = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        if (strncmp(line, key, length) != 0 || line[length] != '=')
            continue;
        size_t bytes = strcspn(line + length + 1, "\n");
        if (found++ > 0 || bytes >= size)
            return false;
        memcpy(value, line + length + 1, bytes);
        value[bytes] = '\0';
    }
    return found == 1;
}

static bool take_number(const char *text, const char *key, int64_t least, int64_t most, int64_t *number) {
    char value[24], *end;
    if (!take_value(text, key, value, sizeof value) || !*value)
        return false;
    errno = 0;
    *number = strtoll(value, &end, 10);
    return !errno && !*end && *number >= least && *number <= most;
}

static const char *judge_path(const struct stub *stub) {
    const char *slash = strrchr(stub->path, '/');
    if (stub->path[0] != '/')
        return "its path is not absolute";
    if (strcmp(slash + 1, stub->dump_name) != 0)
        return "its path does not end in the stub's own name";
    for (size_t i = 0; i < sizeof staging_directories / sizeof *staging_directories; i++)
        if (strlen(staging_directories[i]) == (size_t)(slash - stub->path) &&
            strncmp(stub->path, staging_directories[i], (size_t)(slash - stub->path)) == 0)
            return NULL;
    return "its path is in no directory where the library stages dumps";
}

static const char *parse(struct stub *stub, const char *text) {
    int64_t rank = RANK_UNKNOWN;
    bool named = take_value(text, "host", stub->host, sizeof stub->host);
    bool pointed = take_value(text, "path", stub->path, sizeof stub->path);
    if (take_number(text, "rank", RANK_UNKNOWN, INT32_MAX, &rank))
        stub->rank = (int32_t)rank;
    else
        return "does not say one rank";
    if (!named || !stub->host[0])
        return "does not say one host";
    if (!take_value(text, "boot_id", stub->boot_id, sizeof stub->boot_id) || strlen(stub->boot_id) != BOOT_ID_LENGTH ||
        strspn(stub->boot_id, "0123456789abcdef-") != BOOT_ID_LENGTH)
        return "does not say one boot id";
    if (!take_number(text, "pid", 1, INT32_MAX, &stub->pid))
        return "does not say one process";
    return pointed ? judge_path(stub) : "does not say one path of a possible length";
}

static const char *judge_text(const char *text, size_t bytes) {
    if (bytes == 0)
        return "is empty";
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~'))
            return "holds bytes that are no text";
    return text[bytes - 1] == '\n' ? NULL : "ends in the middle of a line";
}

static const char *read_open(struct stub *stub, int file) {
    char text[STUB_BYTES_MAX + 1];
    struct stat status;
    if (fstat(file, &status) != 0)
        return strerror(errno);
    stub->owner = status.st_uid;
    stub->mode = (status.st_mode & 0777) == 0640 ? 0640 : 0600;
    if (status.st_size > STUB_BYTES_MAX)
        return "is larger than any stub";
    ssize_t bytes = pread(file, text, sizeof text - 1, 0);
    if (bytes < 0)
        return strerror(errno);
    text[bytes] = '\0';
    const char *damage = judge_text(text, (size_t)bytes);
    return damage ? damage : parse(stub, text);
}

const char *stub_read(int directory, const char *path, struct stub *stub) {
    const char *slash = strrchr(path, '/');
    *stub = (struct stub){.rank = RANK_UNKNOWN};
    if (!stub_dump_name(slash ? slash + 1 : path, stub->dump_name))
        return "has a name that the library does not give";
    int file = regular_file_open(directory, path, O_NOFOLLOW);
    if (file < 0)
        return errno == ELOOP ? "is a symbolic link" : regular_file_error(errno);
    const char *damage = read_open(stub, file);
    close(file);
    return damage;
}
