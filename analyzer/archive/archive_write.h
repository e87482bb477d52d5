/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing an archive: under a name that no reader takes until it is whole, or into a file without a name.
 * Lives here: adding members, going on where an earlier writer was stopped, taking over the members of the archive that
 * there is, giving it its name. Must not live here: which files are packed, whether originals go (pack/).
 *
 * What is written has the archive's name with ".part" at its end, and is locked. A writer that is killed leaves it with
 * all members that were complete; one that fails removes it: a full disk gets its room back.
 */
#ifndef COMMTAP_ARCHIVE_ARCHIVE_WRITE_H
#define COMMTAP_ARCHIVE_ARCHIVE_WRITE_H

#include "analyzer/archive/archive.h"

#define ARCHIVE_PART_SUFFIX ".part"

struct archive_writer {
    int directory; /* not owned */
    int file;
    char name[ARCHIVE_NAME_BYTES], part[ARCHIVE_NAME_BYTES + sizeof ARCHIVE_PART_SUFFIX];
    uint64_t at; /* behind the last complete member */
    struct archive_entry *entries;
    size_t count, room;
    size_t resumed; /* members that an earlier writer had left */
    struct encoder *encoder;
    struct archive_blocks *blocks; /* owned */
    char reason[2 * ARCHIVE_REASON];
};

/* Begins the archive `name` below `directory`, or goes on with it. False with writer->reason; archive_abandon or
 * archive_place in any case. */
bool archive_begin(struct archive_writer *writer, int directory, const char *name);

/* Begins one in an open, empty file that has no name and is the caller's still; archive_leave in any case. The writer
 * is all zero but for its file (-1), or has left another file: what it packs with is made once. */
bool archive_begin_file(struct archive_writer *writer, int file);
/* Lets go of that file, complete (archive_complete) or not; archive_abandon after the last one. */
void archive_leave(struct archive_writer *writer);

/* The member of that name, NULL: there is none. */
const struct archive_entry *archive_has(const struct archive_writer *writer, const char *name);

/* Adds a file: its entry's name, size, mtime_ns and mode, and what its extents hold in `base`. */
bool archive_add(struct archive_writer *writer, const struct archive_entry *file, const uint8_t *base,
                 const struct archive_extent *extents, size_t count);

/* Writes the index and has all of it on the disk. It keeps its unfinished name. */
bool archive_complete(struct archive_writer *writer);
/* Gives it its name and mode, and closes it. */
bool archive_place(struct archive_writer *writer, mode_t mode);
/* Removes what was written, and closes it. */
void archive_abandon(struct archive_writer *writer);

#endif
