/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/collect/incoming.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/base/output_mode.h"
#include "analyzer/base/regular_file.h"
#include "shim/format.h"

#define BLOCK       4096u /* what most file systems give room by: zeros become holes */
#define NO_REPLACE  1u    /* RENAME_NOREPLACE and RENAME_EXCHANGE of linux/fs.h */
#define EXCHANGE    2u
#define CKSUM_BEGIN 0xffffffffu /* zlib inverts what it begins with */

/* ---- partial files that are to go when a signal ends us -------------------------------------- */

enum { SLOTS = 256, NAME_TRIES = 16 };

static struct partial {
    int used; /* 0 free, 1 being filled, 2 there is such a file; atomic */
    int directory;
    char name[STUB_NAME_BYTES + 40];
} partials[SLOTS];

/* NULL where more files than slots are under way. */
static struct partial *claim_slot(int *number) {
    for (int i = 0; i < SLOTS; i++) {
        int expected = 0;
        if (__atomic_compare_exchange_n(&partials[i].used, &expected, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            *number = i;
            return &partials[i];
        }
    }
    return NULL;
}

static void free_slot(int slot) {
    __atomic_store_n(&partials[slot].used, 0, __ATOMIC_RELEASE);
}

void incoming_abandon_all(void) {
    for (int i = 0; i < SLOTS; i++)
        if (__atomic_load_n(&partials[i].used, __ATOMIC_ACQUIRE) == 2)
            unlinkat(partials[i].directory, partials[i].name, 0);
}

/* ---- which dump a file holds ----------------------------------------------------------------- */

static bool is_run_of(const struct dump_header *header, const char *dump_name) {
    size_t length = strnlen(header->run_id, sizeof header->run_id);
    const char *run_id = dump_name + strlen(FORMAT_FILE_PREFIX);
    return strncmp(run_id, header->run_id, length) == 0 && run_id[length] == '.' &&
           strlen(run_id + length) == 1 + 16 + strlen(FORMAT_FILE_SUFFIX);
}

/* Other versions may hold their identity elsewhere: of them the magic has to do. */
static const char *judge_copy(int file, const struct stub *stub) {
    struct dump_header header;
    ssize_t got = pread(file, &header, sizeof header, 0);
    if (got < (ssize_t)sizeof header || memcmp(header.magic, FORMAT_MAGIC, sizeof header.magic) != 0)
        return "is no dump";
    if (FORMAT_IS_READ(header.version) && header.byte_order == FORMAT_BYTE_ORDER &&
        (strncmp(header.boot_id, stub->boot_id, sizeof header.boot_id) != 0 || header.pid != stub->pid ||
         !is_run_of(&header, stub->dump_name)))
        return "is the dump of another process or run";
    return NULL;
}

/* What bears the dump's name already. False where that is no copy of this dump. */
static bool look_at_earlier(struct incoming *incoming) {
    int file = regular_file_open(incoming->directory, incoming->stub->dump_name, O_NOFOLLOW);
    incoming->replaces = file >= 0;
    if (file < 0)
        return errno == ENOENT;
    bool same = fstat(file, &incoming->earlier) == 0 && incoming->earlier.st_uid == geteuid() &&
                judge_copy(file, incoming->stub) == NULL;
    close(file);
    return same;
}

bool incoming_is_there(int directory, const struct stub *stub) {
    struct incoming incoming = {.directory = directory, .stub = stub};
    return look_at_earlier(&incoming) && incoming.replaces;
}

/* ---- the partial file ------------------------------------------------------------------------ */

const char *incoming_begin(struct incoming *incoming, int directory, const struct stub *stub) {
    uint64_t noise = (uint64_t)getpid();
    *incoming = (struct incoming){.directory = directory, .file = -1, .stub = stub, .slot = -1};
    if (!look_at_earlier(incoming))
        return "a file of the dump's name is there already, and is no copy of this dump";
    struct partial *partial = claim_slot(&incoming->slot);
    if (!partial)
        return "too many copies are under way";
    if (getrandom(&noise, sizeof noise, GRND_NONBLOCK) != sizeof noise)
        noise ^= (uint64_t)(uintptr_t)incoming;
    snprintf(partial->name, sizeof partial->name, "%s.%016llx.partial", stub->dump_name, (unsigned long long)noise);
    partial->directory = directory;
    incoming->file = openat(directory, partial->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (incoming->file < 0)
        return strerror(errno);
    output_give_mode(incoming->file, stub->mode);
    __atomic_store_n(&partial->used, 2, __ATOMIC_RELEASE);
    return NULL;
}

static bool all_zero(const char *data, size_t bytes) {
    return bytes == 0 || (!data[0] && !memcmp(data, data + 1, bytes - 1));
}

static bool write_at(int file, const char *data, size_t bytes, uint64_t offset) {
    while (bytes > 0) {
        ssize_t written = pwrite(file, data, bytes, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            errno = written ? errno : ENOSPC;
            return false;
        }
        data += written;
        bytes -= (size_t)written;
        offset += (uint64_t)written;
    }
    return true;
}

bool incoming_add(struct incoming *incoming, const void *data, size_t bytes) {
    const char *from = data;
    if (ftruncate(incoming->file, (off_t)(incoming->bytes + bytes)) != 0) /* first: xfs keeps room behind what grows */
        return false;
    for (size_t part; bytes > 0; from += part, bytes -= part, incoming->bytes += part) {
        part = bytes < BLOCK ? bytes : BLOCK;
        if (!all_zero(from, part) && !write_at(incoming->file, from, part, incoming->bytes))
            return false;
    }
    return true;
}

const char *incoming_judge(struct incoming *incoming) {
    return judge_copy(incoming->file, incoming->stub);
}

/* The CRC of cksum(1) is zlib's, only that it takes and gives the bits of each byte in the other order, and begins with
 * 0. `bytes` are turned where they lie. */
static uint32_t turn_bits(uint32_t value) {
    value = (value >> 1 & 0x55555555) | (value & 0x55555555) << 1;
    value = (value >> 2 & 0x33333333) | (value & 0x33333333) << 2;
    return (value >> 4 & 0x0f0f0f0f) | (value & 0x0f0f0f0f) << 4;
}

static uLong cksum_add(uLong sum, uint8_t *bytes, size_t count) {
    uint32_t word;
    size_t i = 0;
    for (; i + sizeof word <= count; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        word = turn_bits(word);
        memcpy(bytes + i, &word, sizeof word);
    }
    for (; i < count; i++)
        bytes[i] = (uint8_t)turn_bits(bytes[i]);
    return crc32(sum, bytes, (uInt)count);
}

/* POSIX cksum: the bytes, then their number, lowest byte first, without its leading zeros. */
bool incoming_sum(const struct incoming *incoming, uint32_t *sum) {
    uint8_t block[BLOCK];
    uLong so_far = CKSUM_BEGIN;
    uint64_t total = 0;
    for (ssize_t got; (got = pread(incoming->file, block, sizeof block, (off_t)total)) != 0; total += (uint64_t)got) {
        if (got < 0)
            return false;
        so_far = cksum_add(so_far, block, (size_t)got);
    }
    for (uint64_t left = total; left > 0; left >>= 8)
        so_far = cksum_add(so_far, &(uint8_t){left & 0xff}, 1);
    *sum = __builtin_bswap32(turn_bits((uint32_t)so_far));
    return true;
}

/* ---- into its place -------------------------------------------------------------------------- */

static int rename_with(int directory, const char *from, const char *to, unsigned flags) {
    return (int)syscall(SYS_renameat2, directory, from, directory, to, flags);
}

static bool is_unsupported(int error) {
    return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

/* Gives the file its name where nothing has it. Parallel file systems lack the flag but have links. */
static enum incoming_result take_free_name(const struct incoming *incoming, const char *partial) {
    const char *name = incoming->stub->dump_name;
    if (rename_with(incoming->directory, partial, name, NO_REPLACE) == 0)
        return INCOMING_IN_PLACE;
    if (is_unsupported(errno) && linkat(incoming->directory, partial, incoming->directory, name, 0) == 0) {
        unlinkat(incoming->directory, partial, 0);
        return INCOMING_IN_PLACE;
    }
    return errno == EEXIST ? INCOMING_OVERTAKEN : INCOMING_FAILED;
}

static bool is_earlier(const struct incoming *incoming, const char *name) {
    struct stat status;
    return fstatat(incoming->directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           status.st_dev == incoming->earlier.st_dev && status.st_ino == incoming->earlier.st_ino;
}

/* Takes the place of the earlier copy that was looked at, and of no other: the job's own copy at exit may have come in
 * the meantime. Where names can be exchanged, that is found out after the fact and undone. */
static enum incoming_result take_place_of_earlier(const struct incoming *incoming, const char *partial) {
    const char *name = incoming->stub->dump_name;
    if (rename_with(incoming->directory, partial, name, EXCHANGE) == 0) {
        if (is_earlier(incoming, partial)) {
            unlinkat(incoming->directory, partial, 0);
            return INCOMING_IN_PLACE;
        }
        rename_with(incoming->directory, partial, name, EXCHANGE);
        return INCOMING_OVERTAKEN;
    }
    if (!is_unsupported(errno))
        return errno == ENOENT ? INCOMING_OVERTAKEN : INCOMING_FAILED;
    if (!is_earlier(incoming, name))
        return INCOMING_OVERTAKEN;
    return renameat(incoming->directory, partial, incoming->directory, name) == 0 ? INCOMING_IN_PLACE : INCOMING_FAILED;
}

static enum incoming_result take_final_name(struct incoming *incoming, const char *partial, bool final) {
    for (int tries = 0; tries < NAME_TRIES; tries++) {
        enum incoming_result result =
            incoming->replaces ? take_place_of_earlier(incoming, partial) : take_free_name(incoming, partial);
        if (result != INCOMING_OVERTAKEN)
            return result;
        if (!look_at_earlier(incoming)) {
            errno = EEXIST;
            return INCOMING_FAILED;
        }
        if (!final)
            return result;
    }
    return INCOMING_OVERTAKEN;
}

/* Readers then know that no process maps this file. */
static bool mark_copy(int file) {
    struct dump_header header;
    if (pread(file, &header, sizeof header, 0) != sizeof header || header.byte_order != FORMAT_BYTE_ORDER)
        return true;
    header.state |= STATE_COPIED;
    return write_at(file, (const char *)&header.state, sizeof header.state, offsetof(struct dump_header, state));
}

enum incoming_result incoming_settle(struct incoming *incoming, bool final, const char **reason) {
    enum incoming_result result = INCOMING_FAILED;
    if (mark_copy(incoming->file) && fsync(incoming->file) == 0)
        result = take_final_name(incoming, partials[incoming->slot].name, final);
    if (result == INCOMING_FAILED)
        *reason = strerror(errno);
    if (result == INCOMING_IN_PLACE) {
        free_slot(incoming->slot);
        incoming->slot = -1;
        fsync(incoming->directory); /* not all file systems can; the rename was the point of no return */
    }
    return result;
}

void incoming_end(struct incoming *incoming) {
    if (incoming->slot >= 0 && incoming->file >= 0)
        unlinkat(incoming->directory, partials[incoming->slot].name, 0);
    if (incoming->slot >= 0)
        free_slot(incoming->slot);
    if (incoming->file >= 0)
        close(incoming->file);
    incoming->file = incoming->slot = -1;
}
