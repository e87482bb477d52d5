/* SPDX-License-Identifier: Apache-2.0
 *
 * One dump file: checking its header, what each of its sections holds, handing out safe pointers.
 * Must not live here: which sections can be used (sections.c), definitions (definitions.c, stacks.c), rings (ring.c),
 * ticks to time (clock.c), the bytes themselves (mapping.c), directories (set.c).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/base/grow.h"
#include "analyzer/load/plausible.h"
#include "analyzer/load/private.h"
#include "analyzer/load/rows.h"

enum { PROBLEMS_MAX = 64 };
#define RING_RECORDS_MAX (1u << 24)
/* The header of format 1.0, up to the end of its section table: no file may have a shorter one. */
enum { HEADER_FIRST_BYTES = 6728 };
_Static_assert(offsetof(struct dump_header, sections) + SECTIONS_MAX * sizeof(struct section) == HEADER_FIRST_BYTES,
               "minor versions add to the header behind its section table");

/* A lane whose state the file does not have. */
static const struct lane_state no_lane_state;

void problem_add(struct dump *dump, bool fatal, uint64_t offset, const char *format, ...) {
    struct problems *problems = &dump->problems;
    if (problems->count == PROBLEMS_MAX || !grow_list(problems->items, problems->count)) {
        problems->dropped++;
        return;
    }
    struct problem *item = &problems->items[problems->count++];
    item->fatal = fatal;
    item->offset = offset;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(item->text, sizeof item->text, format, arguments);
    va_end(arguments);
}

/* ---- header ------------------------------------------------------------------------------------------------ */

static void fatal_problem(struct dump *dump, uint64_t offset, const char *text) {
    problem_add(dump, true, offset, "%s", text);
}

/* `header` is the dump's own copy. */
static bool check_header(struct dump *dump, const struct dump_header *header) {
    if (memcmp(header->magic, FORMAT_MAGIC, sizeof header->magic) != 0)
        fatal_problem(dump, offsetof(struct dump_header, magic), "not a commtap dump: wrong magic");
    else if (header->byte_order == __builtin_bswap32(FORMAT_BYTE_ORDER))
        fatal_problem(dump, offsetof(struct dump_header, byte_order),
                      "written on a machine of the other byte order, which this commtap cannot read");
    else if (header->byte_order != FORMAT_BYTE_ORDER)
        problem_add(dump, true, offsetof(struct dump_header, byte_order), "invalid byte order mark 0x%08x",
                    header->byte_order);
    else if (!FORMAT_IS_READ(header->version))
        problem_add(dump, true, offsetof(struct dump_header, version),
                    "format version %u.%u, this commtap reads versions %u.x to %u.x", FORMAT_MAJOR_OF(header->version),
                    FORMAT_MINOR_OF(header->version), FORMAT_MAJOR_OLDEST, FORMAT_MAJOR);
    else if (header->header_bytes < HEADER_FIRST_BYTES || header->header_bytes > SECTION_ALIGN)
        problem_add(dump, true, offsetof(struct dump_header, header_bytes), "header of %u bytes, not %u to %u",
                    header->header_bytes, HEADER_FIRST_BYTES, SECTION_ALIGN);
    else if (header->section_bytes != sizeof(struct section))
        problem_add(dump, true, offsetof(struct dump_header, section_bytes), "section entries of %u bytes, not %zu",
                    header->section_bytes, sizeof(struct section));
    else if (header->record_bytes != sizeof(struct record))
        problem_add(dump, true, offsetof(struct dump_header, record_bytes), "records of %u bytes, not %zu",
                    header->record_bytes, sizeof(struct record));
    else
        dump->header = header;
    return dump->header != NULL;
}

/* Texts of the header, of which the dump has copies. */
#define TEXT(FIELD, FROM)                                                                                              \
    { offsetof(struct dump, FIELD), offsetof(struct dump_header, FROM), sizeof(((struct dump_header *)0)->FROM) }
static const struct {
    size_t to, from, most;
} texts[] = {TEXT(run_id, run_id),
             TEXT(host, host),
             TEXT(boot_id, boot_id),
             TEXT(command, command),
             TEXT(library, library),
             TEXT(launcher, launcher),
             TEXT(trouble, trouble),
             TEXT(writer, writer),
             TEXT(job_id, job_id),
             TEXT(user, user),
             TEXT(working_directory, working_directory),
             TEXT(library_version, library_version),
             TEXT(operations, operations),
             TEXT(region, region),
             TEXT(nccl_library, nccl_library),
             TEXT(ordered_stack, order_wishes.stack),
             TEXT(ordered_operations, order_wishes.operations)};
enum { TEXTS = sizeof texts / sizeof *texts };

static void set_text(struct dump *dump, size_t i, const char *text) {
    memcpy((char *)dump + texts[i].to, &text, sizeof text);
}

static void no_texts(struct dump *dump) {
    for (size_t i = 0; i < TEXTS; i++)
        set_text(dump, i, "");
}

/* In one block, as long as they are: there may be a hundred thousand dumps. False: memory is short. */
static bool copy_texts(struct loaded *loaded) {
    const char *header = (const char *)loaded->header;
    size_t bytes = 0;
    for (size_t i = 0; i < TEXTS; i++)
        bytes += strnlen(header + texts[i].from, texts[i].most) + 1;
    char *to = loaded->texts = malloc(bytes);
    for (size_t i = 0; to && i < TEXTS; i++) {
        size_t length = strnlen(header + texts[i].from, texts[i].most);
        memcpy(to, header + texts[i].from, length);
        to[length] = '\0';
        set_text(&loaded->dump, i, to);
        to += length + 1;
    }
    return loaded->texts != NULL;
}

static bool copy_identity(struct loaded *loaded) {
    struct dump *dump = &loaded->dump;
    const struct dump_header *header = loaded->header;
    dump->world_id = header->world_id;
    dump->generation = header->generation;
    memcpy(dump->cpus, header->cpus, sizeof dump->cpus);
    dump->unseen_calls = header->unseen_calls;
    dump->unseen_call = header->unseen_call;
    dump->pauses = header->pauses;
    dump->order_answer = header->order_answer;
    dump->lived_on_ms = header->lived_on_ms;
    dump->own_cost = header->own_cost;
    dump->pid_namespace = header->pid_namespace;
    dump->batch_starts = header->batch_starts;
    dump->captures_untold = header->captures_untold;
    return copy_texts(loaded);
}

/* ---- what the sections hold --------------------------------------------------------------------------------- */

static bool load_calls(struct dump *dump, const struct view *view) {
    bool damaged;
    uint32_t count = view->items < UINT16_MAX ? view->items : UINT16_MAX;
    dump->call_table = call_table_share((const struct call_name *)view->base, count, &damaged);
    if (!dump->call_table)
        return false;
    if (damaged)
        problem_add(dump, false, view->section.offset, "names of calls are not terminated");
    dump->calls = dump->call_table->calls;
    dump->call_count = dump->call_table->count;
    return true;
}

static struct dump_lane *lane_at(struct dump *dump, const struct view *view) {
    if (view->section.index >= DUMP_LANES_MAX) {
        problem_add(dump, false, view->entry, "%s of lane %u, there are at most %u: ignored",
                    section_name(view->section.kind), view->section.index, DUMP_LANES_MAX);
        return NULL;
    }
    struct dump_lane *lane = &dump->lanes[view->section.index];
    if (!lane->state)
        lane->state = &no_lane_state;
    if (view->section.index >= dump->lane_count)
        dump->lane_count = view->section.index + 1;
    return lane;
}

static void load_lanes(struct dump *dump, const struct view *view) {
    uint32_t count = view->items < DUMP_LANES_MAX ? view->items : DUMP_LANES_MAX;
    const struct lane_state *states = (const struct lane_state *)view->base;
    for (uint32_t i = 0; i < count; i++)
        dump->lanes[i].state = &states[i];
    if (count > dump->lane_count)
        dump->lane_count = count;
}

/* A ring that the file does not hold in full gets a zero-filled copy, so that slots can be indexed as usual. */
static bool load_ring(struct loaded *loaded, const struct view *view) {
    struct dump *dump = &loaded->dump;
    uint32_t records = view->section.count;
    if (records == 0 || (records & (records - 1)) != 0 || records > RING_RECORDS_MAX) {
        problem_add(dump, false, view->entry, "ring of %u records, which is no power of two up to %u: ignored", records,
                    RING_RECORDS_MAX);
        return true;
    }
    struct dump_lane *lane = lane_at(dump, view);
    if (!lane || view->items == 0)
        return true;
    uint32_t number = view->section.index;
    if (lane->ring_records > 0) {
        problem_add(dump, false, view->entry, "lane %u has a ring of another kind: ignored", number);
        return true;
    }
    const struct record *ring = (const struct record *)view->base;
    if (view->items < records) {
        void *region = mmap(NULL, (size_t)records * sizeof *ring, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED)
            return false;
        memcpy(region, ring, (size_t)view->items * sizeof *ring);
        ring = loaded->rings[number].own = region;
    }
    lane->ring = ring;
    lane->ring_records = records;
    loaded->rings[number].available = view->used;
    return true;
}

static bool load_ring_pages(struct loaded *loaded, const struct view *view) {
    uint32_t pages = view->section.count;
    if (pages == 0 || pages > RING_RECORDS_MAX / RING_PAGE_SLOTS + 2) {
        problem_add(&loaded->dump, false, view->entry, "ring of %u pages: ignored", pages);
        return true;
    }
    struct dump_lane *lane = lane_at(&loaded->dump, view);
    if (!lane || view->items == 0)
        return true;
    if (lane->ring) {
        problem_add(&loaded->dump, false, view->entry, "lane %u has a ring of another kind: ignored",
                    view->section.index);
        return true;
    }
    struct compact_ring *ring = compact_ring_of(loaded, view->section.index);
    if (!ring)
        return false;
    ring->pages = (const struct ring_page *)view->base;
    ring->page_count = view->used;
    lane->ring_records = pages * RING_PAGE_SLOTS;
    return true;
}

static uint32_t definition_length(const uint8_t *at, size_t left) {
    uint32_t length = __atomic_load_n(&((const struct definition *)at)->bytes, __ATOMIC_RELAXED);
    return length >= DEFINITION_STEP && length % DEFINITION_STEP == 0 && length <= left ? length : 0;
}

/* Up to the end of the last definition. One that claims more than there is ends it, with its head. */
static size_t used_bytes(const uint8_t *base, size_t bytes) {
    size_t used = 0, at = 0;
    while (at + DEFINITION_STEP <= bytes) {
        uint32_t length = definition_length(base + at, bytes - at);
        if (length == 0 && ((const struct definition *)(base + at))->bytes != 0)
            return at + DEFINITION_STEP;
        at += length > 0 ? length : DEFINITION_STEP;
        used = length > 0 ? at : used;
    }
    return used;
}

/* The writer may be alive: what is committed when it is looked at is complete. */
static void copy_definitions(uint8_t *copy, const uint8_t *base, size_t bytes) {
    for (size_t at = 0, step; at + DEFINITION_STEP <= bytes; at += step) {
        uint32_t commit = __atomic_load_n(&((const struct definition *)(base + at))->commit, __ATOMIC_ACQUIRE);
        uint32_t length = definition_length(base + at, bytes - at);
        step = length > 0 ? length : DEFINITION_STEP;
        memcpy(copy + at, base + at, step);
        ((struct definition *)(copy + at))->commit = commit;
    }
}

static bool add_area(struct loaded *loaded, const struct view *view) {
    if (!grow_list(loaded->areas, loaded->area_count))
        return false;
    struct area *areas = loaded->areas;
    size_t bytes = used_bytes(view->base, view->items);
    uint8_t *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return false;
    copy_definitions(copy, view->base, bytes);
    size_t at = loaded->area_count++;
    for (; at > 0 && areas[at - 1].index > view->section.index; at--)
        areas[at] = areas[at - 1];
    areas[at] = (struct area){view->section.index, copy, view->section.offset, bytes};
    return true;
}

#define TAKE(FIELD, COUNT, TYPE)                                                                                       \
    do {                                                                                                               \
        (FIELD) = (const TYPE *)view->base;                                                                            \
        (COUNT) = view->items;                                                                                         \
    } while (0)

static void take_lane_rows(struct dump *dump, const struct view *view) {
    struct dump_lane *lane = lane_at(dump, view);
    if (!lane)
        return;
    if (view->section.kind == SECTION_OPERATIONS)
        TAKE(lane->operations, lane->operation_count, struct operation_row);
    else if (view->section.kind == SECTION_SITES)
        TAKE(lane->sites, lane->site_count, struct site_row);
    else
        TAKE(lane->peers, lane->peer_count, struct peer_row);
}

/* Of the process as a whole. */
static void take_rows(struct dump *dump, const struct view *view) {
    if (view->section.kind == SECTION_IN_FLIGHT)
        TAKE(dump->in_flight, dump->in_flight_count, struct in_flight);
    else if (view->section.kind == SECTION_PENDING)
        TAKE(dump->pending, dump->pending_count, struct pending);
    else if (view->section.kind == SECTION_TRACE_WINDOWS)
        TAKE(dump->windows, dump->window_count, struct trace_window_block);
    else if (view->section.kind == SECTION_DEVICES)
        TAKE(dump->devices, dump->device_count, struct device_state);
    else if (view->section.kind == SECTION_DEVICE_ANCHORS)
        TAKE(dump->device_anchors, dump->device_anchor_count, struct device_anchor);
    else if (view->section.kind == SECTION_SENSORS)
        TAKE(dump->sensors, dump->sensor_count, struct sensor_row);
    else if (view->section.kind == SECTION_TRANSFERS)
        TAKE(dump->transfers, dump->transfer_count, struct transfer_row);
    else if (view->section.kind == SECTION_BEATS)
        TAKE(dump->beats, dump->beat_count, struct beat_row);
    else if (view->section.kind == SECTION_CAPTURES)
        TAKE(dump->captures, dump->capture_count, struct capture_row);
    else if (view->section.kind == SECTION_CAPTURE_MESSAGES)
        TAKE(dump->capture_messages, dump->capture_message_count, struct capture_message);
    else if (view->section.kind == SECTION_PROGRESS)
        TAKE(dump->progress, dump->progress_count, struct progress);
}

/* Definitions come last: take_definitions. */
static bool load_section(struct loaded *loaded, const struct view *view) {
    switch ((enum section_kind)view->section.kind) {
    case SECTION_CALLS:
        return load_calls(&loaded->dump, view);
    case SECTION_ANCHORS:
        return clock_load(loaded, (const struct clock_anchor *)view->base, view->items, view->section.offset);
    case SECTION_RING:
        return load_ring(loaded, view);
    case SECTION_RING_PAGES:
        return load_ring_pages(loaded, view);
    case SECTION_LANES:
        load_lanes(&loaded->dump, view);
        return true;
    case SECTION_OPERATIONS:
    case SECTION_SITES:
    case SECTION_PEERS:
        take_lane_rows(&loaded->dump, view);
        return true;
    default:
        take_rows(&loaded->dump, view);
        return true;
    }
}

static void attach_progress(struct dump *dump) {
    const struct losses *losses = &dump->header->losses;
    bool definitions_lost = losses->definitions_full > 0 || losses->tables_in_memory > 0;
    const struct progress *rows = dump->progress;
    for (uint32_t i = 0; i < dump->progress_count; i++) {
        if (__atomic_load_n(&rows[i].version, __ATOMIC_ACQUIRE) == 0)
            continue;
        uint32_t comm = __atomic_load_n(&rows[i].comm, __ATOMIC_RELAXED);
        if (dump_communicator(dump, comm))
            dump->communicators[comm].progress = &rows[i];
        else if (!definitions_lost)
            problem_add(dump, false, dump_offset_of(dump, &rows[i]),
                        "progress row of communicator %u, which is not defined", comm);
    }
}

/* Sections that may occur only once, or once per lane: a second one is ignored. */
static bool seen_before(struct dump *dump, const struct views *views, size_t at) {
    const struct section *section = &views->items[at].section;
    bool per_lane =
        (section->kind >= SECTION_RING && section->kind <= SECTION_PEERS) || section->kind == SECTION_RING_PAGES;
    if (section->kind == SECTION_DEFINITIONS)
        return false;
    for (size_t i = 0; i < at; i++) {
        const struct section *before = &views->items[i].section;
        if (before->kind == section->kind && (!per_lane || before->index == section->index)) {
            problem_add(dump, false, views->items[at].entry, "second section of %s: ignored",
                        section_name(section->kind));
            return true;
        }
    }
    return false;
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

/* Notes how many of `count` rows cannot be used, and where the first of them is. */
static void note_damaged(struct dump *dump, const char *what, uint32_t count, const void *first) {
    if (count > 0)
        problem_add(dump, false, dump_offset_of(dump, first), "%u %s make no sense and are left out", count, what);
}

static void check_operations(struct dump *dump, const struct dump_lane *lane) {
    const struct operation_row *first = NULL;
    uint32_t damaged = 0;
    for (uint32_t i = lane->operation_count; i-- > 0;) {
        struct operation_row row;
        if (operation_row_read(dump, &lane->operations[i], &row) == ROW_DAMAGED) {
            first = &lane->operations[i];
            damaged++;
        }
    }
    note_damaged(dump, "operation rows", damaged, first);
}

static void check_peers(struct dump *dump, const struct dump_lane *lane) {
    const struct peer_row *first = NULL;
    uint32_t damaged = 0;
    for (uint32_t i = lane->peer_count; i-- > 0;) {
        struct peer_row row;
        if (lane->peers[i].version != 0 && !peer_row_read(dump, &lane->peers[i], &row)) {
            first = &lane->peers[i];
            damaged++;
        }
    }
    note_damaged(dump, "peer rows", damaged, first);
}

static void check_sites(struct dump *dump, const struct dump_lane *lane) {
    const struct site_row *first = NULL;
    uint32_t damaged = 0;
    for (uint32_t i = lane->site_count; i-- > 0;) {
        struct site_row row;
        if (site_row_read(dump, &lane->sites[i], &row) == ROW_DAMAGED) {
            first = &lane->sites[i];
            damaged++;
        }
    }
    note_damaged(dump, "site rows", damaged, first);
}

static void check_pending(struct dump *dump) {
    const struct pending *first = NULL;
    uint32_t damaged = 0;
    for (uint32_t i = dump->pending_count; i-- > 0;) {
        struct pending pending;
        bool active = pending_read(dump, &dump->pending[i], &pending);
        bool inactive = pending.persistent == 1 && pending.active == 0;
        if (pending.request != 0 && !inactive && !active) {
            first = &dump->pending[i];
            damaged++;
        }
    }
    note_damaged(dump, "pending operations", damaged, first);
}

static void check_rows(struct dump *dump) {
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        check_operations(dump, &dump->lanes[i]);
        check_peers(dump, &dump->lanes[i]);
        check_sites(dump, &dump->lanes[i]);
    }
    check_pending(dump);
}

/* What the rings hold, once definitions tell what their records refer to. */
static bool scan_rings(struct loaded *loaded, const struct views *views) {
    for (size_t i = 0; i < views->count; i++) {
        const struct section *section = &views->items[i].section;
        if (section->index >= DUMP_LANES_MAX)
            continue;
        const struct compact_ring *compact = loaded->rings[section->index].compact;
        if (section->kind == SECTION_RING && loaded->dump.lanes[section->index].ring)
            ring_scan(loaded, section->index, section->offset);
        else if (section->kind == SECTION_RING_PAGES && compact && compact->pages && !compact->entries &&
                 !ring_pages_scan(loaded, section->index, section->offset))
            return false;
    }
    return true;
}

static bool take_definitions(struct loaded *loaded, const struct views *views) {
    struct dump *dump = &loaded->dump;
    if (loaded->mapping.way == MAPPING_COPIED && !(dump->header->state & (STATE_FINALISED | STATE_EXITED))) {
        mapping_reread(&loaded->mapping, dump->path);
        sections_refresh(loaded);
    }
    for (size_t i = 0; i < views->count; i++)
        if (views->items[i].section.kind == SECTION_DEFINITIONS && !add_area(loaded, &views->items[i]))
            return false;
    return definitions_load(loaded);
}

/* What the dump has copies of its own of, checked, is not kept twice. */
static void drop_what_was_taken(struct loaded *loaded, const struct views *views) {
    for (size_t i = 0; i < views->count; i++) {
        const struct section *section = &views->items[i].section;
        if (section->kind == SECTION_CALLS || section->kind == SECTION_DEFINITIONS || section->kind == SECTION_ANCHORS)
            mapping_drop(&loaded->mapping, section->offset, section->bytes);
    }
    loaded->header_dropped = loaded->mapping.way == MAPPING_COPIED && loaded->header->state & STATE_EXITED;
    if (loaded->header_dropped)
        mapping_drop(&loaded->mapping, 0, loaded->header->header_bytes);
}

static bool complete_sections(struct loaded *loaded, const struct views *views) {
    if (!take_definitions(loaded, views))
        return false;
    attach_progress(&loaded->dump);
    if (!scan_rings(loaded, views))
        return false;
    check_rows(&loaded->dump);
    plausible_check(loaded, views);
    return true;
}

/* Definitions are copied and never read again. So what changes all the time is looked at before and after, with all
 * that may turn out to be damaged: where it is the same, no row speaks of what was defined since, and the dump's look
 * is that of what is sound. Else its look is none that it will ever have. */
static bool complete_between_looks(struct loaded *loaded, const struct views *views) {
    struct dump *dump = &loaded->dump, all = *dump;
    struct dump_lane lanes[DUMP_LANES_MAX];
    memcpy(lanes, dump->lanes, sizeof lanes);
    all.lanes = lanes;
    uint64_t before = dump_look(&all);
    if (!complete_sections(loaded, views))
        return false;
    dump->look = dump_look(dump);
    dump->look = dump_look(&all) == before ? dump->look : ~dump->look;
    drop_what_was_taken(loaded, views);
    return true;
}

static bool load_sections(struct loaded *loaded) {
    struct dump *dump = &loaded->dump;
    struct views views = {.count = 0};
    if (!sections_collect(loaded, &views))
        return false;
    for (size_t i = 0; i < views.count; i++)
        if (!seen_before(dump, &views, i) && !load_section(loaded, &views.items[i]))
            return false;
    if (!loaded->clock.segments && !clock_load(loaded, NULL, 0, 0))
        return false;
    return complete_between_looks(loaded, &views);
}

/* ---- opening and closing -------------------------------------------------------------------------------------- */

static struct loaded *new_loaded(const char *path) {
    struct loaded *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return NULL;
    loaded->dump.path = strdup(path);
    loaded->dump.lanes = calloc(DUMP_LANES_MAX, sizeof *loaded->dump.lanes);
    loaded->rings = calloc(DUMP_LANES_MAX, sizeof *loaded->rings);
    loaded->ring_count = DUMP_LANES_MAX;
    no_texts(&loaded->dump);
    if (loaded->dump.path && loaded->dump.lanes && loaded->rings)
        return loaded;
    dump_close(&loaded->dump);
    return NULL;
}

/* The beginning of what was allocated as a block of its own, so that the next dump has the large one: cut to size, it
 * would leave a piece that none of its kind fits into. Returns what there is then; *done turns false when memory is
 * short. */
static void *cut_to(void *large, size_t bytes, bool *done) {
    void *small = malloc(bytes);
    if (!small) {
        *done = false;
        return large;
    }
    memcpy(small, large, bytes);
    free(large);
    return small;
}

/* Gives back what only opening needed: a directory may hold tens of thousands of dumps. */
static bool trim(struct loaded *loaded) {
    struct dump *dump = &loaded->dump;
    uint32_t lanes = dump->lane_count ? dump->lane_count : 1;
    bool done = true;
    for (uint32_t lane = lanes; lane < loaded->ring_count; lane++) /* of templates for lanes that are none */
        compact_ring_free(loaded->rings[lane].compact);
    loaded->ring_count = lanes;
    loaded->rings = cut_to(loaded->rings, lanes * sizeof *loaded->rings, &done);
    dump->lanes = cut_to(dump->lanes, lanes * sizeof *dump->lanes, &done);
    loaded->header = cut_to(loaded->header, offsetof(struct dump_header, sections), &done);
    dump->header = loaded->header;
    return done;
}

/* No writer leaves such numbers: they count as not known. */
static void drop_impossible_numbers(struct dump *dump, struct dump_header *header) {
    if (header->rank < RANK_UNKNOWN) {
        problem_add(dump, false, offsetof(struct dump_header, rank), "rank %d", (int)header->rank);
        header->rank = RANK_UNKNOWN;
    }
    if (header->world_size < RANK_UNKNOWN) {
        problem_add(dump, false, offsetof(struct dump_header, world_size), "world of %d ranks",
                    (int)header->world_size);
        header->world_size = RANK_UNKNOWN;
    }
}

/* What an earlier minor version's header lacks stays zero. Of a section that is just being added, its kind comes last.
 */
void header_copy(struct dump_header *copy, const struct dump *dump) {
    const struct dump_header *header = (const struct dump_header *)dump->base;
    size_t bytes = header->header_bytes < dump->bytes ? header->header_bytes : dump->bytes;
    if (bytes < HEADER_FIRST_BYTES)
        bytes = HEADER_FIRST_BYTES;
    memcpy(copy, header, bytes < sizeof *copy ? bytes : sizeof *copy);
    for (size_t i = 0; i < SECTIONS_MAX; i++) {
        uint32_t kind = __atomic_load_n(&header->sections[i].kind, __ATOMIC_ACQUIRE);
        copy->sections[i] = header->sections[i];
        copy->sections[i].kind = kind;
    }
}

static struct dump *load(struct loaded *loaded) {
    struct dump *dump = &loaded->dump;
    if (dump->bytes < HEADER_FIRST_BYTES) {
        problem_add(dump, true, dump->bytes, "file ends after %zu bytes, inside the header of %u", dump->bytes,
                    HEADER_FIRST_BYTES);
        return dump;
    }
    loaded->header = calloc(1, sizeof *loaded->header);
    bool enough_memory = loaded->header != NULL;
    if (enough_memory) {
        header_copy(loaded->header, dump);
        loaded->section_table = section_table_fingerprint(loaded->header);
        if (!check_header(dump, loaded->header))
            return dump;
        drop_impossible_numbers(dump, loaded->header);
        enough_memory = copy_identity(loaded) && load_sections(loaded) && trim(loaded);
    }
    if (enough_memory)
        return dump;
    dump_close(dump);
    return NULL;
}

struct dump *dump_open_buffer(const char *name, const void *data, size_t bytes) {
    struct loaded *loaded = new_loaded(name);
    if (!loaded)
        return NULL;
    loaded->dump.base = data;
    loaded->dump.bytes = bytes;
    return load(loaded);
}

static struct dump *load_mapping(struct loaded *loaded) {
    loaded->dump.base = loaded->mapping.base;
    loaded->dump.bytes = loaded->mapping.bytes;
    open_dumps_add(loaded);
    return load(loaded);
}

static struct dump *open_file(const char *path, enum mapping_way way) {
    char reason[PROBLEM_TEXT];
    struct loaded *loaded = new_loaded(path);
    if (!loaded)
        return NULL;
    if (!open_dumps_refuse(path, reason, sizeof reason) &&
        mapping_open(&loaded->mapping, path, way, reason, sizeof reason))
        return load_mapping(loaded);
    problem_add(&loaded->dump, true, 0, "%s", reason);
    return &loaded->dump;
}

struct dump *dump_unusable(const char *path, const char *reason) {
    struct loaded *loaded = new_loaded(path);
    if (!loaded)
        return NULL;
    problem_add(&loaded->dump, true, 0, "%s", reason);
    return &loaded->dump;
}

struct dump *dump_open_sent(const char *path, int archive, struct shared_room *room) {
    char reason[PROBLEM_TEXT];
    struct loaded *loaded = new_loaded(path);
    if (!loaded) {
        close(archive);
        return NULL;
    }
    if (mapping_open_sent(&loaded->mapping, archive, room, reason, sizeof reason))
        return load_mapping(loaded);
    problem_add(&loaded->dump, true, 0, "%s", reason);
    return &loaded->dump;
}

static void pack_place(struct dump *dump, struct shared_room *room, struct parcel *parcel) {
    struct loaded *loaded = loaded_of(dump);
    if (parcel_is_there(parcel, loaded->mapping.base != NULL)) {
        mapping_parcel(&loaded->mapping, room, parcel);
    } else {
        char reason[PROBLEM_TEXT] = "";
        snprintf(reason, sizeof reason, "%s", dump->problems.count ? dump->problems.items[0].text : "");
        parcel_field(parcel, &reason);
    }
}

static struct dump *unpack_place(const char *path, struct shared_room *room, struct parcel *parcel) {
    char reason[PROBLEM_TEXT] = "";
    if (!parcel_is_there(parcel, false)) {
        parcel_field(parcel, &reason);
        reason[sizeof reason - 1] = '\0';
        return parcel->failed ? NULL : dump_unusable(path, reason);
    }
    struct loaded *loaded = new_loaded(path);
    if (loaded)
        mapping_parcel(&loaded->mapping, room, parcel);
    if (loaded && !parcel->failed)
        return load_mapping(loaded);
    parcel->failed = true;
    dump_close(loaded ? &loaded->dump : NULL);
    return NULL;
}

void dump_parcel_sent(struct dump **dump, const char *path, struct shared_room *room, struct parcel *parcel) {
    if (parcel->packs)
        pack_place(*dump, room, parcel);
    else
        *dump = unpack_place(path, room, parcel);
}

struct dump *dump_open(const char *path) {
    return open_file(path, MAPPING_SHARED);
}

struct dump *dump_open_copied(const char *path) {
    return open_file(path, MAPPING_COPIED);
}

void dump_close(struct dump *dump) {
    if (!dump)
        return;
    struct loaded *loaded = loaded_of(dump);
    open_dumps_remove(loaded);
    for (uint32_t lane = 0; loaded->rings && lane < loaded->ring_count; lane++) {
        if (loaded->rings[lane].own)
            munmap(loaded->rings[lane].own, (size_t)dump->lanes[lane].ring_records * sizeof(struct record));
        compact_ring_free(loaded->rings[lane].compact);
    }
    free(loaded->rings);
    sections_close(loaded);
    mapping_close(&loaded->mapping);
    for (uint32_t i = 0; i < dump->communicator_count; i++)
        free((char *)dump->communicators[i].name);
    for (size_t i = 0; i < loaded->area_count; i++)
        free(loaded->areas[i].base);
    free(dump->communicators);
    free(dump->neighbours);
    free(dump->anchors);
    free(dump->epochs);
    stacks_free(dump);
    call_table_release(dump->call_table);
    clock_free(&loaded->clock);
    free(dump->problems.items);
    free(dump->path);
    free(dump->lanes);
    free(loaded->header);
    free(loaded->texts);
    free(loaded->areas);
    free(loaded);
}

enum trace_work trace_work_of(const struct call_name *call) {
    static const struct {
        const char *name;
        enum trace_work work;
    } names[] = {
        {GPU_WORK_KERNELS, TRACE_WORK_KERNELS}, {GPU_WORK_COPIES, TRACE_WORK_COPIES}, {GPU_WORK_NCCL, TRACE_WORK_NCCL}};
    if (call->api != API_TRACE || call->call_class != CLASS_OTHER)
        return TRACE_WORK_NONE;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(call->name, names[i].name) == 0)
            return names[i].work;
    return TRACE_WORK_OWN;
}

bool call_is_own_work(const struct call_name *call) {
    enum trace_work work = trace_work_of(call);
    return work == TRACE_WORK_OWN || work == TRACE_WORK_KERNELS;
}

const struct call_name *dump_call(const struct dump *dump, uint16_t id) {
    const struct call_table *table = dump->call_table;
    if (!table || id >= CALL_TABLE_IDS || table->index[id] >= table->count)
        return NULL;
    const struct call_name *call = &table->calls[table->index[id]];
    return call->id == id ? call : NULL;
}
