/* SPDX-License-Identifier: Apache-2.0
 *
 * The dump file of this process: where it lies and how it grows.
 * Lives here: creation, choice of the place, mapping of sections.
 * Must not live here: what is written into the sections, how the dump reaches the output directory (delivery.h), which
 * file systems are safe to map (storage.h).
 */
#ifndef COMMTAP_SHIM_RECORD_DUMP_FILE_H
#define COMMTAP_SHIM_RECORD_DUMP_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shim/format.h"

#define DUMP_PATH_BYTES 1280u

struct dumpfile {
    enum dump_place place;
    uint32_t mode; /* of its files: 0600, or 0640 */
    struct dump_header *header;
    uint64_t end;           /* where the next section goes; atomic */
    uint32_t section_count; /* atomic */
    dev_t device;           /* of the mapped file: growth opens it by its path, which may by then lead elsewhere */
    ino_t inode;
    char path[DUMP_PATH_BYTES];       /* of the mapped file, absolute */
    char final_path[DUMP_PATH_BYTES]; /* where it belongs */
    char stub_path[DUMP_PATH_BYTES];
    bool has_stub;
    bool is_told;                 /* where it is: the user was told on stderr, as no stub says it */
    uint64_t *room;               /* a bit per page of the mapped file: it has room; atomic */
    uint64_t taken;               /* pages that have room; atomic */
    uint64_t quota;               /* how many there may be, 0 = no limit; atomic */
    uint64_t full_at;             /* CLOCK_MONOTONIC ns: when a page last found no room, 0 = never; atomic */
    void *contents[SECTIONS_MAX]; /* of each section, where this process has it; atomic, behind the entry */
    uint32_t kept[SECTIONS_MAX];  /* enum section_kind: the file had no room for this one, so that it is in memory only;
                                     its entry in the header is filled but for `kind`. Atomic. */
};

/* Creates the file for this run in `directory` (created when missing), or stages it, or falls back to memory. `mode`:
 * 0600, or 0640 by which the group may read, whatever the job's umask; directories get 0700 or 0750. `bytes` is what
 * activation will ask for, so that a full disk shows now. Returns NULL, or why there can be no dump at all (a text for
 * one line on stderr). A fallback that the user should know of is told through `note` (or NULL). */
const char *dumpfile_create(struct dumpfile *file, const char *directory, const char *run_id, uint32_t mode,
                            uint64_t bytes, const char **note);

/* Takes a file back that was created and is not used. */
void dumpfile_discard(struct dumpfile *file);

/* The dump is whole enough to be read: it gets its name. One whose process died earlier is no dump; it keeps the suffix
 * FORMAT_UNFINISHED_SUFFIX, which no reader looks for. False: not even a name finds room, it has that suffix still. */
bool dumpfile_publish(struct dumpfile *file);

/* A new section of `count` items, zeroed and listed: mapped, or in memory only where the file cannot grow. It has no
 * room yet: dumpfile_make_room comes before whatever touches it. NULL when there is no memory either, or no entry left.
 * Safe from any thread. */
void *dumpfile_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                       uint32_t item_bytes);
/* The same for one by which the dump grows: with room for the first item, in memory only where the file has none. */
void *dumpfile_next_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                            uint32_t item_bytes);
/* The same for one that only continues another: NULL also where the quota leaves nothing to it. */
void *dumpfile_further_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                               uint32_t item_bytes);
/* A new section with room for all of it, in memory only where the file has none. */
void *dumpfile_full_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                            uint32_t item_bytes);

/* Makes room for [at, at + bytes) of a section, by pages. From then on neither a store nor a load there faults, however
 * full the disk is; before, not even a load is safe (tmpfs gives it a page, and faults where there is none). False:
 * there is no room, and nothing of it that had none before may be touched. It costs a few comparisons where there is
 * room already, else a system call or a few: for slow paths. Once there was none, the answer stays so for a second.
 * Safe from any thread; keeps errno. */
bool dumpfile_make_room(struct dumpfile *file, const void *at, uint64_t bytes);

/* From now on the file takes that many bytes on the disk at most: what is beyond finds no room. What a thread's first
 * sections take by their length alone (a page each) it takes all the same: without them its calls would not be seen. */
void dumpfile_set_quota(struct dumpfile *file, uint64_t bytes);

/* Has the page at `offset` of the section in `slot` room? What has none holds nothing, and must not be read. */
bool dumpfile_has_room(const struct dumpfile *file, uint32_t slot, uint64_t offset);

/* Opens the mapped file for writing. -1 where its path leads to another one, or to none. */
int dumpfile_open(const struct dumpfile *file);

/* Makes a directory and those above it, to be read by those who may read files of `mode`. True when it is there; else
 * errno says why: EXDEV where a link of another user's is in the way in a directory that all may write to. `path` is
 * changed meanwhile. */
bool dumpfile_make_directories(char *path, uint32_t mode);

/* Lets the group read an open file of ours where `mode` says so: the job's umask may have kept it from that. */
void dumpfile_give_mode(int fd, uint32_t mode);

/* Bytes of a section in the file. */
static inline uint64_t section_bytes(uint64_t count, uint64_t item_bytes) {
    return (count * item_bytes + SECTION_ALIGN - 1) / SECTION_ALIGN * SECTION_ALIGN;
}

#endif
