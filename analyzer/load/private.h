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
#include "analyzer/load/ring_page.h"

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

/* A page of a compact ring that can be read. */
struct page_entry {
    uint64_t number, first_ticket;
    uint32_t records;
    uint32_t page; /* where it lies in the ring */
};

/* A lane's ring of pages. Its records stay in the file; they are taken out of their slots whenever they are read. */
struct compact_ring {
    const struct ring_page *pages; /* NULL: the lane has templates only */
    uint32_t page_count;           /* of them that the file really has */
    struct page_entry *entries;    /* in the order of tickets; owned */
    size_t entry_count;
    struct lane_templates templates; /* owned */
};

#define SHED_MOST (UINT64_C(1) << 48) /* records and calls of a lane: years of them */

/* Records that were left out for COMMTAP_BUDGET's sake and took no ticket. */
static inline uint64_t lane_shed_without_ticket(const struct lane_state *state) {
    uint64_t shed = state->records_shed < SHED_MOST ? state->records_shed : SHED_MOST;
    return shed > state->stretches_shed ? shed - state->stretches_shed : 0;
}

/* A dump as dump_open made it; struct dump is its first member. */
/* What holds a lane's records. */
struct lane_ring {
    /* a ring that goes beyond the end of the file is copied into a zero-filled region of full size */
    struct record *own;
    uint32_t available;           /* slots that the file really has */
    uint64_t valid;               /* committed records in [first_ticket, end_ticket) */
    struct compact_ring *compact; /* NULL: the ring is one of plain records; owned */
};

struct loaded {
    struct dump dump;
    struct mapping mapping;     /* not open when the bytes belong to the caller */
    struct dump_header *header; /* the dump's own */
    char *texts;                /* that its texts lie in */
    bool header_dropped;        /* the mapping is without it: its process has ended, and nothing in it changes */
    uint64_t section_table;     /* fingerprint of the file's, which the dump's own header does without */
    struct area *areas;         /* definitions, by index; their bytes are the dump's own copies */
    size_t area_count;
    struct loaded *next, *before; /* all dumps opened from files */
    struct lane_ring *rings;      /* per lane */
    uint32_t ring_count;          /* DUMP_LANES_MAX until all is loaded */
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

/* Copies the header as it is in the file now. */
void header_copy(struct dump_header *copy, const struct dump *dump);
/* A number that changes when the file gets a section more. */
uint64_t section_table_fingerprint(const struct dump_header *header);

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
/* Appends where in the file those sections lie, up to `most` parts. */
void sections_add_sources(const struct loaded *loaded, struct mapping_data *parts, size_t *count, size_t most);
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
/* Gives memory back that lies between two places of the mapping: it is read again from the file when needed. */
void loaded_release(const struct loaded *loaded, const void *from, const void *to);
/* The same with slots [first, last) of a lane's ring of plain records. */
void ring_release(const struct loaded *loaded, uint32_t lane, uint64_t first, uint64_t last);
/* Notes what was found in a lane's ring: `valid` records of those from ticket `first` to before `end`. */
void ring_found(struct loaded *loaded, uint32_t lane, uint64_t offset, uint64_t first, uint64_t end, uint64_t valid);

/* The lane's compact ring, made when it has none. NULL: memory is short. */
struct compact_ring *compact_ring_of(struct loaded *loaded, uint32_t lane);
/* Takes a template, of a definition at least as long as its struct. Returns false when memory is short. */
bool template_add(struct loaded *loaded, const struct template_definition *definition, uint64_t offset);
/* Finds which pages of a lane's ring can be read; the templates are there. Returns false when memory is short. */
bool ring_pages_scan(struct loaded *loaded, uint32_t lane, uint64_t offset);
void compact_ring_free(struct compact_ring *ring);
/* Fills a reader with the page that holds a ticket, as far as it is still there. */
void ring_pages_read(const struct compact_ring *ring, uint64_t ticket, struct record_reader *reader);

/* Copies a slot and checks that it held that ticket all the while: the writer may be alive. NULL: it does not. */
const struct record *ring_copy_record(struct record *copy, const struct record *slot, uint64_t ticket);
/* How many records of a lane only windows have kept. */
uint64_t records_in_windows(const struct dump *dump, uint32_t lane);

/* Copies the sane anchors of a section, sorts them and prepares the conversion. Returns false when memory is short. */
bool clock_load(struct loaded *loaded, const struct clock_anchor *anchors, uint32_t count, uint64_t offset);
void clock_free(struct clock_model *clock);

#endif
