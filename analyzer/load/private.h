/* SPDX-License-Identifier: Apache-2.0
 *
 * What the loader's files share with each other and hide from everybody else.
 * Lives here: the private part of a dump, how problems are noted.
 * Must not live here: anything another stage needs (dump.h).
 */
#ifndef COMMTAP_LOAD_PRIVATE_H
#define COMMTAP_LOAD_PRIVATE_H

#include "analyzer/load/dump.h"
#include "analyzer/load/mapping.h"

/* Ticks -> ns from one anchor up to the next: ns + ((ticks - this.ticks) * rate >> RATE_SHIFT). */
struct clock_segment {
    uint64_t ticks;
    uint64_t ns;
    uint64_t rate;
};

struct clock_model {
    struct clock_segment *segments; /* one per anchor; the last one's rate is the mean rate */
    size_t segment_count;
    uint64_t mean_rate;
    uint32_t *grid; /* (ticks - first) >> grid_shift -> a segment that begins at or before */
    unsigned grid_shift;
};

enum { DEFINITION_STEP = 16 }; /* what definitions are aligned to */

struct area {
    uint32_t index;
    uint8_t *base;   /* owned */
    uint64_t offset; /* in the file, for messages */
    size_t bytes;
};

/* A dump as dump_open made it; struct dump is its first member. */
struct loaded {
    struct dump dump;
    struct mapping mapping;     /* not open when the bytes belong to the caller */
    struct dump_header *header; /* the dump's own */
    struct area *areas;         /* definitions, by index; their bytes are the dump's own copies */
    size_t area_count;
    struct loaded *next, *before; /* all dumps opened from files */
    /* rings that go beyond the end of the file are copied into a zero-filled region of full size */
    struct record *own_rings[DUMP_LANES_MAX];
    uint32_t ring_available[DUMP_LANES_MAX]; /* slots that the file really has */
    uint64_t ring_valid[DUMP_LANES_MAX];     /* committed records in [first_ticket, end_ticket) */
    struct clock_model clock;
    struct converted *converted; /* sections brought to this version's layout; their bytes are the dump's own */
    size_t converted_count;
};

static inline struct loaded *loaded_of(const struct dump *dump) {
    return (struct loaded *)dump;
}

/* Notes something wrong. The text is cut to size. */
void problem_add(struct dump *dump, bool fatal, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A section that passed the checks: `items` of its items lie at `base`, each as this version lays them out. */
struct view {
    struct section section; /* as the file has it */
    uint64_t entry;         /* offset of its table entry */
    const uint8_t *base;
    uint32_t items;
    uint32_t used; /* of these, from the front: the file holds nothing of the others */
};

struct views {
    struct view items[SECTIONS_MAX];
    size_t count;
};

/* A section's name for messages. `kind` is one that sections_collect took. */
const char *section_name(uint32_t kind);
/* Fills `views` with the sections that can be used; notes the others as problems, but for kinds that only a later minor
 * version has. Returns false when memory is short. */
bool sections_collect(struct loaded *loaded, struct views *views);
/* Takes what a live writer has put meanwhile into sections of another minor version's layout. */
void sections_refresh(struct loaded *loaded);
void sections_close(struct loaded *loaded);
/* Where in the file an item of a section lies, for messages. */
uint64_t dump_offset_of(const struct dump *dump, const void *item);

/* The list of all dumps opened from files, and what must not be opened (open_dumps.c). */
void open_dumps_add(struct loaded *loaded);
void open_dumps_remove(struct loaded *loaded); /* fine for one that is not in it */
/* Whether the path is refused; `reason` then says why. */
bool open_dumps_refuse(const char *path, char *reason, size_t size);

/* Walks the definition areas (sorted by index) into communicators, names and epochs. Returns false when memory is
 * short. */
bool definitions_load(struct loaded *loaded);

/* Takes a definition of kind STACK, CODE, STRING, MODULE or MODULE_GONE, `order`-th of the dump, at least as long as
 * its struct. Returns false when memory is short. */
bool stacks_add(struct loaded *loaded, const struct definition *head, uint32_t kind, uint64_t order, uint64_t offset);
/* Sorts what stacks_add took. */
void stacks_finish(struct dump *dump);
void stacks_free(struct dump *dump);

/* Whether ring pages may be given back to the file. */
static inline bool loaded_is_mapped(const struct loaded *loaded) {
    return loaded->mapping.base && loaded->mapping.way == MAPPING_SHARED;
}

/* Finds what a lane's ring holds, by its commit words. `offset` is the ring's place in the file. */
void ring_scan(struct loaded *loaded, uint32_t lane, uint64_t offset);
/* Gives back the pages of slots [first, last) of a lane's ring: they are read again from the file when needed. */
void ring_release(const struct loaded *loaded, uint32_t lane, uint64_t first, uint64_t last);

/* Copies the sane anchors of a section, sorts them and prepares the conversion. Returns false when memory is short. */
bool clock_load(struct loaded *loaded, const struct clock_anchor *anchors, uint32_t count, uint64_t offset);
void clock_free(struct clock_model *clock);

#endif
