/* SPDX-License-Identifier: Apache-2.0
 *
 * A dump's sections: which of them can be used, and bringing those of other minor versions to this one's layout.
 * Lives here: the table of section kinds. Must not live here: what sections hold (dump_file.c and its neighbours).
 *
 * A minor version may lengthen the items of a section: what it adds stands behind what was there before, and zeros mean
 * "not known". Items of another length are therefore copied one by one, cut or filled up with zeros. The rules are
 * those of doc/FORMAT.md.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyzer/base/grow.h"
#include "analyzer/load/private.h"

/* `first_bytes` is an item's length in the first version that had it: no file may have shorter ones. A struct that
 * grows leaves it as it is. Where `fixed`, items are addressed by their length in the file (rings) or have one of their
 * own (definitions). */
static const struct {
    const char *name;
    uint32_t item_bytes, first_bytes;
    bool fixed;
} section_kinds[] = {
    [SECTION_CALLS] = {"calls", sizeof(struct call_name), 72, false},
    [SECTION_ANCHORS] = {"clock anchors", sizeof(struct clock_anchor), 64, false},
    [SECTION_IN_FLIGHT] = {"in-flight slots", sizeof(struct in_flight), 64, false},
    [SECTION_PENDING] = {"pending operations", sizeof(struct pending), 64, false},
    [SECTION_PROGRESS] = {"progress rows", sizeof(struct progress), 1344, false},
    [SECTION_DEFINITIONS] = {"definitions", 1, 1, true},
    [SECTION_TRACE_WINDOWS] = {"sampled windows", sizeof(struct trace_window_block), 4096, true},
    [SECTION_LANES] = {"lanes", sizeof(struct lane_state), 128, false},
    [SECTION_RING] = {"ring", sizeof(struct record), 64, true},
    [SECTION_OPERATIONS] = {"operation rows", sizeof(struct operation_row), 768, false},
    [SECTION_SITES] = {"site rows", sizeof(struct site_row), 64, false},
    [SECTION_PEERS] = {"peer rows", sizeof(struct peer_row), 64, false},
    [SECTION_DEVICES] = {"devices", sizeof(struct device_state), 200, false},
    [SECTION_DEVICE_ANCHORS] = {"device anchors", sizeof(struct device_anchor), 64, false},
    [SECTION_SENSORS] = {"sensor rows", sizeof(struct sensor_row), 32, false},
    [SECTION_TRANSFERS] = {"transfer rows", sizeof(struct transfer_row), 128, false},
    [SECTION_RING_PAGES] = {"ring pages", sizeof(struct ring_page), 4096, true},
    [SECTION_BEATS] = {"beats", sizeof(struct beat_row), 32, false},
    [SECTION_CAPTURES] = {"captures", sizeof(struct capture_row), 96, false},
    [SECTION_CAPTURE_MESSAGES] = {"captured messages", sizeof(struct capture_message), 16, false},
};
enum { LAST_MINOR_OF_1 = 1 };
enum { SECTION_KINDS = sizeof section_kinds / sizeof *section_kinds };

struct converted {
    const uint8_t *from; /* in the file */
    uint8_t *base;
    uint64_t offset;
    uint32_t items;
    uint32_t from_bytes; /* of one item in the file */
    uint32_t own_bytes;
};

const char *section_name(uint32_t kind) {
    return section_kinds[kind].name;
}

/* ---- which sections can be used ---------------------------------------------------------------------------- */

static bool is_of_a_later_version(const struct dump *dump, const struct section *section) {
    uint32_t version = dump->header->version;
    uint32_t known_minor = FORMAT_MAJOR_OF(version) == FORMAT_MAJOR ? FORMAT_MINOR : LAST_MINOR_OF_1;
    return section->kind >= SECTION_KINDS && FORMAT_MINOR_OF(version) > known_minor;
}

static bool section_is_sound(struct dump *dump, const struct section *section, uint64_t entry) {
    if (section->kind >= SECTION_KINDS) {
        if (!is_of_a_later_version(dump, section))
            problem_add(dump, false, entry, "section of unknown kind %u is ignored", section->kind);
        return false;
    }
    const char *name = section_name(section->kind);
    uint32_t own = section_kinds[section->kind].item_bytes, first = section_kinds[section->kind].first_bytes;
    if (section->item_bytes < first || (section_kinds[section->kind].fixed && section->item_bytes != own))
        problem_add(dump, false, entry, "%s: items of %u bytes, not %u: ignored", name, section->item_bytes, own);
    else if (section->offset % SECTION_ALIGN != 0 || section->offset < SECTION_ALIGN)
        problem_add(dump, false, entry, "%s: offset %llu is no section boundary: ignored", name,
                    (unsigned long long)section->offset);
    else if ((uint64_t)section->count * section->item_bytes > section->bytes ||
             section->bytes > UINT64_MAX - section->offset)
        problem_add(dump, false, entry, "%s: %u items do not fit its %llu bytes: ignored", name, section->count,
                    (unsigned long long)section->bytes);
    else
        return true;
    return false;
}

static bool overlaps(const struct section *a, const struct section *b) {
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool overlaps_any(struct dump *dump, const struct views *views, const struct section *section, uint64_t entry) {
    for (size_t i = 0; i < views->count; i++)
        if (overlaps(&views->items[i].section, section)) {
            problem_add(dump, false, entry, "%s at %llu overlaps %s at %llu: ignored", section_name(section->kind),
                        (unsigned long long)section->offset, section_name(views->items[i].section.kind),
                        (unsigned long long)views->items[i].section.offset);
            return true;
        }
    return false;
}

static uint32_t table_length(struct dump *dump) {
    uint32_t limit = dump->header->section_limit;
    if (limit <= SECTIONS_MAX)
        return limit;
    problem_add(dump, false, offsetof(struct dump_header, section_limit), "section table of %u entries, not %u", limit,
                SECTIONS_MAX);
    return SECTIONS_MAX;
}

/* How many of the section's items the file holds. */
static uint32_t items_there(struct dump *dump, const struct section *section) {
    uint64_t available = section->offset < dump->bytes ? dump->bytes - section->offset : 0;
    uint64_t items = available / section->item_bytes;
    if (items >= section->count)
        return section->count;
    problem_add(dump, false, dump->bytes, "file ends inside %s at %llu: %llu of %u items are there",
                section_name(section->kind), (unsigned long long)section->offset, (unsigned long long)items,
                section->count);
    return (uint32_t)items;
}

/* How many of the `items` that are there may be in use. Most sections are used from their front on, and the file has
 * nothing but a hole behind: walking that would take as long as if it were full. Slots and pending operations may be
 * taken anywhere, at any moment. */
static uint32_t items_used(const struct loaded *loaded, const struct section *section, uint32_t items) {
    if (!loaded->mapping.base || section->kind == SECTION_IN_FLIGHT || section->kind == SECTION_PENDING)
        return items;
    size_t bytes = mapping_data_bytes(&loaded->mapping, section->offset, (size_t)items * section->item_bytes);
    return (uint32_t)((bytes + section->item_bytes - 1) / section->item_bytes);
}

/* ---- other minor versions ------------------------------------------------------------------------------------ */

/* A live writer may be at the item: it is whole once two copies agree. One that changes all the time is left as the
 * last copy, which its own version word or commit word tells to be half written. */
static void copy_item(const struct converted *converted, uint32_t item) {
    enum { TRIES = 16 };
    const uint8_t *from = converted->from + (size_t)item * converted->from_bytes;
    uint8_t *to = converted->base + (size_t)item * converted->own_bytes;
    size_t bytes = converted->from_bytes < converted->own_bytes ? converted->from_bytes : converted->own_bytes;
    for (int i = 0; i < TRIES; i++) {
        memcpy(to, from, bytes);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (memcmp(to, from, bytes) == 0)
            return;
    }
}

static void copy_items(const struct converted *converted) {
    for (uint32_t i = 0; i < converted->items; i++)
        copy_item(converted, i);
}

static bool convert(struct loaded *loaded, struct view *view) {
    uint32_t own_bytes = section_kinds[view->section.kind].item_bytes;
    if (view->section.item_bytes == own_bytes || view->items == 0)
        return true;
    if (!grow_list(loaded->converted, loaded->converted_count))
        return false;
    struct converted *converted = &loaded->converted[loaded->converted_count];
    *converted = (struct converted){.from = view->base,
                                    .offset = view->section.offset,
                                    .items = view->items,
                                    .from_bytes = view->section.item_bytes,
                                    .own_bytes = own_bytes};
    converted->base = mmap(NULL, (size_t)view->items * own_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (converted->base == MAP_FAILED)
        return false;
    loaded->converted_count++;
    copy_items(converted);
    view->base = converted->base;
    return true;
}

bool sections_collect(struct loaded *loaded, struct views *views) {
    struct dump *dump = &loaded->dump;
    uint32_t limit = table_length(dump);
    for (uint32_t i = 0; i < limit; i++) {
        struct section section = dump->header->sections[i];
        uint64_t entry = offsetof(struct dump_header, sections) + i * sizeof section;
        if (section.kind == SECTION_FREE || !section_is_sound(dump, &section, entry) ||
            overlaps_any(dump, views, &section, entry))
            continue;
        struct view *view = &views->items[views->count++];
        uint32_t items = items_there(dump, &section);
        *view = (struct view){section, entry, dump->base + (items > 0 ? section.offset : 0), items,
                              items_used(loaded, &section, items)};
        if (section.kind != SECTION_RING) /* which is indexed by its length */
            view->items = view->used;
        if (!convert(loaded, view))
            return false;
    }
    return true;
}

void sections_refresh(struct loaded *loaded) {
    for (size_t i = 0; i < loaded->converted_count; i++)
        copy_items(&loaded->converted[i]);
}

void sections_add_sources(const struct loaded *loaded, struct mapping_data *parts, size_t *count, size_t most) {
    for (size_t i = 0; i < loaded->converted_count && *count < most; i++) {
        const struct converted *converted = &loaded->converted[i];
        size_t bytes = (size_t)converted->items * converted->from_bytes;
        parts[(*count)++] = (struct mapping_data){converted->offset, converted->offset + bytes};
    }
}

void sections_close(struct loaded *loaded) {
    for (size_t i = 0; i < loaded->converted_count; i++)
        munmap(loaded->converted[i].base, (size_t)loaded->converted[i].items * loaded->converted[i].own_bytes);
    free(loaded->converted);
}

uint64_t dump_offset_of(const struct dump *dump, const void *item) {
    const struct loaded *loaded = loaded_of(dump);
    uintptr_t at = (uintptr_t)item;
    for (size_t i = 0; i < loaded->converted_count; i++) {
        const struct converted *converted = &loaded->converted[i];
        uintptr_t base = (uintptr_t)converted->base;
        if (at >= base && at - base < (uintptr_t)converted->items * converted->own_bytes)
            return converted->offset + (at - base) / converted->own_bytes * converted->from_bytes;
    }
    return (uint64_t)(at - (uintptr_t)dump->base);
}
