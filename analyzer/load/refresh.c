/* SPDX-License-Identifier: Apache-2.0
 *
 * What a dump that is written to says now.
 * Lives here: taking it anew, all of it or the counters alone, and telling when that is not enough.
 * Must not live here: when to do so.
 */
#include <string.h>

#include "analyzer/base/hash.h"
#include "analyzer/load/gpu_view.h"
#include "analyzer/load/private.h"

uint64_t section_table_fingerprint(const struct dump_header *header) {
    uint64_t h = hash_scramble(1);
    for (size_t i = 0; i < SECTIONS_MAX; i++) {
        const struct section *section = &header->sections[i];
        if (section->kind != SECTION_FREE)
            h = hash_mix(hash_mix(hash_mix(h, section->kind), section->index), section->offset);
    }
    return h;
}

/* False where it is no longer the file that was opened. */
static bool refresh_header(struct loaded *loaded, struct dump_header *now) {
    header_copy(now, &loaded->dump);
    if (memcmp(now->magic, FORMAT_MAGIC, sizeof now->magic) != 0)
        return false;
    loaded->header->state = now->state;
    loaded->header->initialised_ticks = now->initialised_ticks;
    loaded->header->finalise_ticks = now->finalise_ticks;
    loaded->header->finalised_ticks = now->finalised_ticks;
    loaded->header->exited_ticks = now->exited_ticks;
    loaded->header->losses = now->losses;
    loaded->header->captured_unfollowed = now->captured_unfollowed;
    loaded->dump.own_cost = now->own_cost;
    loaded->dump.captures_untold = now->captures_untold;
    loaded->dump.order_answer = now->order_answer;
    return true;
}

/* What a view of one GPU shows is the whole dump's, which alone may be read again: it owns the memory. */
static struct loaded *owner_of(struct dump *dump) {
    return loaded_of(dump->view ? dump->view->whole : dump);
}

void dump_refresh(struct dump *dump) {
    struct loaded *loaded = owner_of(dump);
    struct dump_header now = {0};
    if (!dump->header || loaded->header_dropped)
        return;
    mapping_reread(&loaded->mapping, dump->path);
    sections_refresh(loaded);
    refresh_header(loaded, &now);
    dump->own_cost = loaded->dump.own_cost;
    dump->order_answer = loaded->dump.order_answer;
}

/* ---- counters alone -------------------------------------------------------------------------- */

enum { PARTS_MOST = SECTIONS_MAX + 1 };

struct parts {
    struct mapping_data items[PARTS_MOST];
    size_t count;
};

/* What lies outside of the mapping are copies of a section in another version's layout: sections_refresh takes them
 * from where they came. */
static void add_part(struct parts *parts, const struct dump *dump, const void *first, size_t count, size_t item_bytes) {
    uintptr_t at = (uintptr_t)first - (uintptr_t)dump->base;
    if (first && at < dump->bytes && count <= dump->bytes / item_bytes && parts->count < PARTS_MOST)
        parts->items[parts->count++] = (struct mapping_data){at, at + count * item_bytes};
}

static void reread_counters(struct loaded *loaded) {
    const struct dump *dump = &loaded->dump;
    struct parts parts = {.items = {{0, sizeof(struct dump_header)}}, .count = 1};
    add_part(&parts, dump, dump->in_flight, dump->in_flight_count, sizeof *dump->in_flight);
    add_part(&parts, dump, dump->pending, dump->pending_count, sizeof *dump->pending);
    add_part(&parts, dump, dump->progress, dump->progress_count, sizeof *dump->progress);
    add_part(&parts, dump, dump->devices, dump->device_count, sizeof *dump->devices);
    add_part(&parts, dump, dump->captures, dump->capture_count, sizeof *dump->captures);
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        const struct dump_lane *lane = &dump->lanes[i];
        add_part(&parts, dump, lane->state, 1, sizeof *lane->state);
        add_part(&parts, dump, lane->operations, lane->operation_count, sizeof *lane->operations);
    }
    sections_add_sources(loaded, parts.items, &parts.count, PARTS_MOST);
    mapping_reread_parts(&loaded->mapping, dump->path, parts.items, parts.count);
}

/* Rows are given out from the front of a table, and the file has room for as many pages of them as were used. */
static bool rows_may_go_on(const struct dump *dump) {
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        const struct dump_lane *lane = &dump->lanes[i];
        if (lane->operation_count > 0 &&
            __atomic_load_n(&lane->operations[lane->operation_count - 1].version, __ATOMIC_RELAXED) != 0)
            return true;
    }
    return dump->capture_count > 0 &&
           __atomic_load_n(&dump->captures[dump->capture_count - 1].used, __ATOMIC_RELAXED) != 0;
}

/* Whether the process uses communicators that were made, ended or began to live again after the dump was opened. */
static bool has_new_communicators(const struct dump *dump) {
    for (uint32_t i = 0; i < dump->progress_count; i++) {
        const struct progress *row = &dump->progress[i];
        if (__atomic_load_n(&row->version, __ATOMIC_ACQUIRE) == 0)
            continue;
        const struct dump_communicator *known = dump_communicator(dump, row->comm);
        if (!known || known->freed || known->progress != row)
            return true;
    }
    return false;
}

bool dump_refresh_counters(struct dump *dump) {
    struct loaded *loaded = owner_of(dump);
    const struct dump *whole = &loaded->dump;
    struct dump_header now = {0};
    if (!dump->header || loaded->header_dropped)
        return true;
    reread_counters(loaded);
    sections_refresh(loaded);
    bool same = refresh_header(loaded, &now) && section_table_fingerprint(&now) == loaded->section_table &&
                !has_new_communicators(whole) &&
                !(rows_may_go_on(whole) && mapping_has_grown(&loaded->mapping, dump->path));
    dump->own_cost = whole->own_cost;
    dump->order_answer = whole->order_answer;
    return same;
}
