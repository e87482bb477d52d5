/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/delivery.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/record/storage.h"

#define PART_SUFFIX ".part" /* of a file that is not whole yet: no reader looks for it */
#define COPY_BLOCK  4096u   /* the smallest page, and what most file systems give room by */

static void add_reason(struct text *t, int error) {
    static const struct {
        int error;
        char words[40]; /* no pointers: a table of them would be relocated in every process */
    } reasons[] = {
        {ENOSPC, "no space is left"}, {EDQUOT, "over quota"},   {EFBIG, "over the limit on the size of files"},
        {EROFS, "it is read-only"},   {EIO, "I/O error"},       {ENOENT, "it is gone"},
        {EACCES, "no permission"},    {EPERM, "no permission"}, {EEXIST, "a file of that name is there"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].error == error) {
            text_add(t, reasons[i].words);
            return;
        }
    text_add(t, "error ");
    text_add_signed(t, error);
}

static bool write_all(int fd, const void *data, uint64_t bytes, uint64_t offset) {
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = pwrite(fd, p, bytes < (1u << 20) ? bytes : 1u << 20, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return false;
        }
        p += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return true;
}

/* ---- files that appear whole or not at all --------------------------------------------------- */

/* The output directory may be missing where there was no room for it before; `path` is only changed meanwhile. */
static bool make_directory_of(char *path, uint32_t mode) {
    char *slash = strrchr(path, '/');
    *slash = '\0';
    bool made = dumpfile_make_directories(path, mode);
    *slash = '/';
    return made;
}

static bool part_begin(const char *path, uint32_t mode, char *part, int *fd) {
    static const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    struct text t;
    text_begin(&t, part, DUMP_PATH_BYTES + sizeof PART_SUFFIX);
    text_add(&t, path);
    text_add(&t, PART_SUFFIX);
    *fd = open(part, flags, 0600);
    if (*fd < 0 && errno == ENOENT && make_directory_of(part, mode))
        *fd = open(part, flags, 0600);
    if (*fd >= 0)
        dumpfile_give_mode(*fd, mode);
    return *fd >= 0;
}

/* File systems of a network tell at close() that there was no room. */
static bool part_end(const char *path, const char *part, int fd, bool written) {
    int why = errno;
    if (close(fd) != 0 && written) {
        why = errno;
        written = false;
    }
    if (written && rename(part, path) == 0)
        return true;
    if (written)
        why = errno;
    unlink(part);
    errno = why;
    return false;
}

/* ---- the stub -------------------------------------------------------------------------------- */

static void add_line(struct text *t, const char *key, const char *value) {
    text_add(t, key);
    text_add(t, value);
    text_add(t, "\n");
}

static void add_number(struct text *t, const char *key, int64_t value) {
    text_add(t, key);
    text_add_signed(t, value);
    text_add(t, "\n");
}

/* Not flushed to the disk: what it points to does not outlive a crash of the node either. */
static bool write_stub(const struct dumpfile *file) {
    char body[2048], part[DUMP_PATH_BYTES + sizeof PART_SUFFIX];
    struct held_signals held;
    struct text t;
    int fd;
    text_begin(&t, body, sizeof body);
    add_line(&t, "host=", file->header->host);
    add_line(&t, "boot_id=", file->header->boot_id);
    add_line(&t, "path=", file->path);
    add_number(&t, "pid=", file->header->pid);
    add_number(&t, "rank=", file->header->rank);
    if (!part_begin(file->stub_path, file->mode, part, &fd))
        return false;
    signals_hold(&held);
    bool written = write_all(fd, body, t.length, 0);
    signals_release(&held);
    return part_end(file->stub_path, part, fd, written);
}

static void add_directory(struct text *t, const char *path) {
    char directory[DUMP_PATH_BYTES];
    copy_text(directory, (size_t)(strrchr(path, '/') - path) + 1, path);
    text_add(t, directory);
}

/* Other ranks may have the same trouble and stay silent: the line says where to look for their dumps. */
static void add_whereabouts(struct text *t, const struct dumpfile *file) {
    text_add(t, "the dump is ");
    text_add(t, file->path);
    text_add(t, " on ");
    text_add(t, file->header->host);
    if (file->has_stub) {
        text_add(t, "; commtap-collect fetches it");
    } else if (file->place == PLACE_STAGED) {
        text_add(t, ", those of other ranks are " FORMAT_FILE_PREFIX);
        text_add(t, file->header->run_id);
        text_add(t, ".* there or on their nodes");
    }
}

bool delivery_write_stub(struct dumpfile *file, struct text *why) {
    file->has_stub = write_stub(file);
    if (file->has_stub)
        return true;
    int error = errno;
    file->is_told = true;
    text_add(why, "no pointer to the staged dump can be written into ");
    add_directory(why, file->stub_path);
    text_add(why, " (");
    add_reason(why, error);
    text_add(why, "): ");
    add_whereabouts(why, file);
    return false;
}

/* ---- the copy -------------------------------------------------------------------------------- */

static uint32_t kind_of(const struct dumpfile *file, uint32_t slot) {
    uint32_t kept = __atomic_load_n(&file->kept[slot], __ATOMIC_ACQUIRE);
    return kept ? kept : __atomic_load_n(&file->header->sections[slot].kind, __ATOMIC_ACQUIRE);
}

static bool is_zero(const char *block) {
    const uint64_t *words = (const uint64_t *)block;
    for (size_t i = 0; i < COPY_BLOCK / sizeof *words; i++)
        if (words[i])
            return false;
    return true;
}

/* What holds nothing becomes a hole, as it is in the original: most of a section that was hardly used. */
static bool copy_section(const struct dumpfile *file, uint32_t slot, int fd) {
    const struct section *section = &file->header->sections[slot];
    const char *contents = file->contents[slot];
    for (uint64_t at = 0; at < section->bytes; at += COPY_BLOCK)
        if (dumpfile_has_room(file, slot, at) && !is_zero(contents + at) &&
            !write_all(fd, contents + at, COPY_BLOCK, section->offset + at))
            return false;
    return true;
}

/* The copy's header, as it would be had all sections found room in the file; how long that makes the file. */
static uint64_t make_header(const struct dumpfile *file, struct dump_header *header) {
    uint64_t bytes = SECTION_ALIGN;
    *header = *file->header;
    header->state |= STATE_COPIED;
    header->losses.tables_in_memory = 0;
    for (uint32_t i = 0; i < SECTIONS_MAX; i++) {
        struct section *section = &header->sections[i];
        section->kind = kind_of(file, i);
        if (section->kind != SECTION_FREE && section->offset + section->bytes > bytes)
            bytes = section->offset + section->bytes;
    }
    return bytes;
}

/* It gets its length first: behind what makes a file longer, xfs keeps room. The header goes last: before, there is no
 * magic. */
static bool copy_dump(const struct dumpfile *file, int fd) {
    static struct dump_header header; /* threads may have small stacks, and only one comes here */
    if (ftruncate(fd, (off_t)make_header(file, &header)) != 0)
        return false;
    for (uint32_t i = 0; i < SECTIONS_MAX; i++)
        if (header.sections[i].kind != SECTION_FREE && !copy_section(file, i, fd))
            return false;
    return write_all(fd, &header, sizeof header, 0);
}

/* A staged dump goes when its copy is on the disk: some file systems have room until they write. */
static bool copy_out(const struct dumpfile *file) {
    char part[DUMP_PATH_BYTES + sizeof PART_SUFFIX];
    struct held_signals held;
    int fd;
    if (!part_begin(file->final_path, file->mode, part, &fd))
        return false;
    signals_hold(&held);
    bool copied = copy_dump(file, fd) && (file->place == PLACE_MEMORY || fsync(fd) == 0);
    signals_release(&held);
    return part_end(file->final_path, part, fd, copied);
}

/* ---- tables that found no room --------------------------------------------------------------- */

static bool write_kept(struct dumpfile *file, uint32_t slot, int fd) {
    struct section *entry = &file->header->sections[slot];
    struct held_signals held;
    signals_hold(&held);
    bool written = fd >= 0 && storage_extend(fd, entry->offset + entry->bytes) && copy_section(file, slot, fd);
    if (!written && fd >= 0) {
        int why = errno;
        storage_give_back(fd, entry->offset, entry->bytes);
        errno = why;
    }
    signals_release(&held);
    if (!written)
        return false;
    __atomic_store_n(&entry->kind, file->kept[slot], __ATOMIC_RELEASE);
    __atomic_store_n(&file->kept[slot], SECTION_FREE, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&file->header->losses.tables_in_memory, 1, __ATOMIC_RELAXED);
    return true;
}

static bool write_all_kept(struct dumpfile *file) {
    bool written = true;
    int fd = -1, error = 0;
    for (uint32_t i = 0; i < SECTIONS_MAX; i++) {
        if (!__atomic_load_n(&file->kept[i], __ATOMIC_ACQUIRE))
            continue;
        if (fd < 0)
            fd = dumpfile_open(file);
        if (!write_kept(file, i, fd)) {
            error = errno;
            written = false;
        }
    }
    if (fd >= 0)
        close(fd);
    errno = error;
    return written;
}

/* ---- at exit --------------------------------------------------------------------------------- */

static bool complete(struct dumpfile *file, struct text *why) {
    if (!write_all_kept(file)) {
        int error = errno;
        uint64_t tables = file->header->losses.tables_in_memory;
        text_add_unsigned(why, tables);
        text_add(why, tables == 1 ? " table" : " tables");
        text_add(why, " of the dump found no room, and what was in there is lost (");
        add_reason(why, error);
        text_add(why, "): ");
    }
    if (!dumpfile_publish(file))
        text_add(why, "the dump could not be given its name: ");
    if (why->length > 0)
        add_whereabouts(why, file);
    return why->length == 0;
}

static void add_copy_failed(const struct dumpfile *file, int error, struct text *why) {
    text_add(why, "the dump cannot be written into ");
    add_directory(why, file->final_path);
    text_add(why, " (");
    add_reason(why, error);
    text_add(why, file->place == PLACE_MEMORY ? "): it is lost, and so may be those of other ranks" : "): ");
}

static bool bring_home(struct dumpfile *file, struct text *why) {
    if (copy_out(file)) {
        if (file->place == PLACE_STAGED) {
            unlink(file->stub_path);
            unlink(file->path);
        }
        return true;
    }
    int error = errno;
    if (file->place == PLACE_STAGED)
        file->has_stub = file->has_stub || write_stub(file);
    if (file->has_stub || !file->is_told)
        add_copy_failed(file, error, why);
    if (file->place == PLACE_STAGED)
        complete(file, why);
    return false;
}

bool delivery_at_exit(struct dumpfile *file, struct text *why) {
    if (file->place == PLACE_NONE)
        return true;
    return file->place == PLACE_OUTPUT ? complete(file, why) : bring_home(file, why);
}

void delivery_withdraw(struct dumpfile *file, bool with_directory) {
    if (file->place != PLACE_MEMORY)
        unlink(file->path);
    if (file->has_stub)
        unlink(file->stub_path);
    *strrchr(file->final_path, '/') = '\0';
    if (with_directory)
        rmdir(file->final_path);
}
