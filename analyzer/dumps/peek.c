/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/dumps/peek.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"
#include "analyzer/dumps/process.h"
#include "analyzer/dumps/stub.h"

#define TERMINATE(TEXT) ((TEXT)[sizeof(TEXT) - 1] = '\0')

static const char *judge(struct dump_header *header, size_t bytes) {
    if (bytes < offsetof(struct dump_header, job_id) || memcmp(header->magic, FORMAT_MAGIC, sizeof header->magic) != 0)
        return "is no dump";
    if (header->byte_order != FORMAT_BYTE_ORDER || !FORMAT_IS_READ(header->version))
        return "is a dump of a version that this commtap cannot read";
    if (header->header_bytes < bytes && header->header_bytes >= offsetof(struct dump_header, job_id))
        memset((char *)header + header->header_bytes, 0, sizeof *header - header->header_bytes);
    TERMINATE(header->run_id);
    TERMINATE(header->host);
    TERMINATE(header->boot_id);
    TERMINATE(header->command);
    TERMINATE(header->job_id);
    TERMINATE(header->user);
    return NULL;
}

const char *peek_dump(int directory, const char *name, struct peek *peek) {
    *peek = (struct peek){0};
    int file = regular_file_open(directory, name, O_NOFOLLOW);
    if (file < 0)
        return errno == ELOOP ? "is a symbolic link" : regular_file_error(errno);
    ssize_t got = fstat(file, &peek->status) == 0 ? pread(file, &peek->header, sizeof peek->header, 0) : -1;
    const char *reason = got < 0 ? strerror(errno) : judge(&peek->header, (size_t)got);
    close(file);
    return reason;
}

bool peek_staged(int directory, const char *name, struct peek *peek) {
    struct stub stub;
    char here[sizeof stub.boot_id];
    return stub_read(directory, name, &stub) == NULL && process_boot_id(here, sizeof here) &&
           strcmp(stub.boot_id, here) == 0 && faccessat(directory, stub.dump_name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
           peek_dump(AT_FDCWD, stub.path, peek) == NULL;
}

bool peek_packed(struct archive *archive, const struct archive_entry *entry, struct peek *peek) {
    *peek = (struct peek){.status = archive->status};
    return judge(&peek->header, archive_read_start(archive, entry, &peek->header, sizeof peek->header)) == NULL;
}

enum process_state peek_process(const struct peek *peek) {
    const struct dump_header *header = &peek->header;
    return header->state & STATE_EXITED ? PROCESS_GONE : process_state_of(header);
}
