/* SPDX-License-Identifier: Apache-2.0
 *
 * The dump file of this process: where it lies, how it grows, how it reaches the output directory.
 * Lives here: creation, staging, mapping of sections, the stub, the copy at exit.
 * Must not live here: what is written into the sections.
 */
#ifndef COMMTAP_DUMPFILE_H
#define COMMTAP_DUMPFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/format.h"

enum dump_place {
    PLACE_NONE,
    PLACE_OUTPUT, /* mapped in the output directory itself */
    PLACE_STAGED, /* mapped on node-local storage, a stub in the output directory */
    PLACE_MEMORY, /* nowhere to map it: anonymous memory, written at exit */
};

struct dumpfile {
    enum dump_place place;
    struct dump_header *header;
    uint64_t end;           /* where the next section goes; atomic */
    uint32_t section_count; /* atomic */
    char path[1280];        /* of the mapped file, absolute */
    char final_path[1280];  /* where it belongs */
    char stub_path[1280];
    void *memory_base[SECTIONS_MAX]; /* mapping of each section, for the copy of a PLACE_MEMORY dump */
};

/* Creates the file for this run in `directory` (created when missing), or stages it, or falls back to memory. `bytes`
 * is what activation will ask for, so that a full disk shows now. Returns NULL, or why there can be no dump at all
 * (a text for one line on stderr). A fallback that the user should know of is told through `note` (or NULL). */
const char *dumpfile_create(struct dumpfile *file, const char *directory, const char *run_id, uint64_t bytes,
                            const char **note);

/* The dump is whole enough to be read: it gets its name. One whose process died earlier is no dump; it keeps the suffix
 * FORMAT_UNFINISHED_SUFFIX, which no reader looks for. */
void dumpfile_publish(struct dumpfile *file);

/* Maps a new section of `count` items, zeroed and backed by real blocks, and lists it. NULL when there is no room.
 * Safe from any thread. */
void *dumpfile_section(struct dumpfile *file, enum section_kind kind, uint32_t index, uint32_t count,
                       uint32_t item_bytes);

/* Writes the stub of a staged dump once the header knows host and rank. */
void dumpfile_write_stub(const struct dumpfile *file);

/* At exit: a staged or memory dump is copied into the output directory, the staged file and stub are removed. */
void dumpfile_deliver(struct dumpfile *file);

/* Bytes of a section in the file. */
static inline uint64_t section_bytes(uint64_t count, uint64_t item_bytes) {
    return (count * item_bytes + SECTION_ALIGN - 1) / SECTION_ALIGN * SECTION_ALIGN;
}

#endif
