/* SPDX-License-Identifier: Apache-2.0
 *
 * The append-only areas of a dump: communicators, their names, neighbours and ends, epochs.
 * Lives here: walking and checking definitions, expanding members.
 * Must not live here: progress, which sits outside these areas; call stacks and what they name (stacks.c).
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/statistics.h"
#include "analyzer/load/private.h"

/* Indices are handed out in order; a few may be missing where an area was full. */
enum { INDEX_SLACK = 4096 };
#define GROUP_SIZE_MAX (1u << 24)

struct definition_walk {
    struct loaded *loaded;
    uint64_t index_limit;
    size_t communicator_room; /* of dump->communicators */
    size_t neighbour_room;    /* of dump->neighbours */
    uint64_t order;           /* definitions met so far */
    bool short_of_memory;
};

static struct dump_communicator *slot_at(struct definition_walk *walk, uint32_t index, uint64_t offset) {
    struct dump *dump = &walk->loaded->dump;
    if (index >= walk->index_limit) {
        problem_add(dump, false, offset, "definition of communicator %u is beyond any number handed out", index);
        return NULL;
    }
    if (index >= dump->communicator_count) {
        uint32_t count = index + 1;
        if (!grow_to(dump->communicators, walk->communicator_room, count)) {
            walk->short_of_memory = true;
            return NULL;
        }
        memset(dump->communicators + dump->communicator_count, 0,
               (count - dump->communicator_count) * sizeof *dump->communicators);
        dump->communicator_count = count;
    }
    return &dump->communicators[index];
}

/* The first communicator of NCCL stands for the world until the process makes another member of it, as threads with a
 * GPU each do: then its ranks are devices, and the list of members that it was defined with is of no processes. */
static bool counts_devices(const struct dump *dump, const struct communicator_definition *definition) {
    const struct call_name *call =
        definition->created_by <= UINT16_MAX ? dump_call(dump, (uint16_t)definition->created_by) : NULL;
    return call && call->api == API_NCCL && dump->header->world_size > 0 &&
           definition->size > (uint32_t)dump->header->world_size;
}

/* No group is larger than the world, and no member beyond it, where they are of this world and its size is known. */
static uint32_t world_limit(const struct dump *dump, const struct communicator_definition *definition) {
    int32_t world_size = dump->header->world_size;
    /* Without members it may be NCCL's, whose ranks are devices: a process may hold several. */
    bool known = world_size > 0 && world_size <= (int32_t)GROUP_SIZE_MAX && definition->run_count &&
                 !(definition->flags & COMMUNICATOR_FOREIGN) && !counts_devices(dump, definition);
    return known ? (uint32_t)world_size : GROUP_SIZE_MAX;
}

/* A list of members: of `size` processes, inside a definition of `bytes` whose fixed part is `fixed` long. */
static bool runs_are_sound(const struct member_run *runs, uint32_t count, uint32_t size, int64_t limit, size_t bytes,
                           size_t fixed) {
    uint64_t members = 0;
    if ((uint64_t)count * sizeof *runs > bytes - fixed)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        int64_t last = runs[i].start + (int64_t)runs[i].stride * ((int64_t)runs[i].count - 1);
        if (runs[i].count == 0 || runs[i].count > size || runs[i].start < 0 || last < 0 || runs[i].start >= limit ||
            last >= limit)
            return false;
        members += runs[i].count;
    }
    return members == size;
}

static void define_communicator(struct definition_walk *walk, const struct communicator_definition *definition,
                                uint64_t offset) {
    struct dump *dump = &walk->loaded->dump;
    if (definition->size > world_limit(dump, definition) ||
        (definition->kind == COMMUNICATOR_INTER && definition->remote_size > GROUP_SIZE_MAX) ||
        (definition->my_rank != RANK_UNKNOWN &&
         (definition->my_rank < 0 || definition->my_rank >= (int64_t)definition->size))) {
        problem_add(dump, false, offset, "communicator %u: rank %d in a group of %u: ignored", definition->index,
                    definition->my_rank, definition->size);
        return;
    }
    struct dump_communicator *slot = slot_at(walk, definition->index, offset);
    if (!slot)
        return;
    if (slot->definition) {
        problem_add(dump, false, offset, "communicator %u is defined twice: the first counts", definition->index);
        return;
    }
    slot->definition = definition;
    if (definition->run_count == 0 || counts_devices(dump, definition))
        return;
    const struct member_run *runs = (const struct member_run *)(definition + 1);
    if (runs_are_sound(runs, definition->run_count, definition->size, world_limit(dump, definition),
                       definition->head.bytes, sizeof *definition))
        slot->runs = runs;
    else
        problem_add(dump, false, offset, "communicator %u: its list of members is not that of %u processes: ignored",
                    definition->index, definition->size);
}

/* Written behind the communicator's own definition, by the same thread. */
static void add_remote(struct definition_walk *walk, const struct remote_group_definition *remote, uint64_t offset) {
    struct dump *dump = &walk->loaded->dump;
    struct dump_communicator *slot = slot_at(walk, remote->index, offset);
    if (!slot)
        return;
    const struct communicator_definition *definition = slot->definition;
    const struct member_run *runs = (const struct member_run *)(remote + 1);
    if (!definition || definition->kind != COMMUNICATOR_INTER || definition->remote_size != remote->size ||
        (remote->run_count > 0 && !runs_are_sound(runs, remote->run_count, remote->size, world_limit(dump, definition),
                                                  remote->head.bytes, sizeof *remote))) {
        problem_add(dump, false, offset,
                    "communicator %u: its remote group is not that of an intercommunicator with %u: "
                    "ignored",
                    remote->index, remote->size);
        return;
    }
    slot->remote = remote;
    slot->remote_runs = remote->run_count > 0 ? runs : NULL;
}

/* Written behind the communicator's own definition, by the same thread. */
static void add_neighbours(struct definition_walk *walk, const struct neighbours_definition *neighbours,
                           uint64_t offset) {
    struct dump *dump = &walk->loaded->dump;
    const struct dump_communicator *communicator = dump_communicator(dump, neighbours->index);
    bool known = neighbours->count != NEIGHBOURS_UNKNOWN;
    const struct member_run *runs = (const struct member_run *)(neighbours + 1);
    if (!communicator || communicator->definition->kind != COMMUNICATOR_INTRA ||
        (known && (neighbours->count > NEIGHBOURS_MOST ||
                   !runs_are_sound(runs, neighbours->run_count, neighbours->count, communicator->definition->size,
                                   neighbours->head.bytes, sizeof *neighbours)))) {
        problem_add(dump, false, offset, "communicator %u: %u neighbours that are no members of it: ignored",
                    neighbours->index, neighbours->count);
        return;
    }
    if (!grow_by_one(dump->neighbours, dump->neighbour_count, walk->neighbour_room)) {
        walk->short_of_memory = true;
        return;
    }
    dump->neighbours[dump->neighbour_count] = (struct dump_neighbours){.index = neighbours->index,
                                                                       .first = neighbours->first,
                                                                       .order = (uint32_t)dump->neighbour_count,
                                                                       .run_count = known ? neighbours->run_count : 0,
                                                                       .runs = known ? runs : NULL};
    dump->neighbour_count++;
}

static int compare_neighbours(const void *a, const void *b) {
    const struct dump_neighbours *left = a, *right = b;
    if (left->index != right->index)
        return left->index < right->index ? -1 : 1;
    if (left->first != right->first)
        return left->first < right->first ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

static void define_name(struct definition_walk *walk, const struct communicator_name_definition *definition,
                        uint64_t offset) {
    struct dump *dump = &walk->loaded->dump;
    if (definition->length > definition->head.bytes - sizeof *definition) {
        problem_add(dump, false, offset, "name of %u bytes in a definition of %u: ignored", definition->length,
                    definition->head.bytes);
        return;
    }
    struct dump_communicator *slot = slot_at(walk, definition->index, offset);
    if (!slot)
        return;
    char *name = strndup(definition->name, definition->length);
    if (!name) {
        walk->short_of_memory = true;
        return;
    }
    free((char *)slot->name);
    slot->name = name;
}

static void add_freed(struct definition_walk *walk, const struct communicator_freed_definition *definition,
                      uint64_t offset) {
    struct dump_communicator *slot = slot_at(walk, definition->index, offset);
    if (!slot)
        return;
    slot->freed = true;
    slot->freed_ticks = definition->freed_ticks;
    slot->lives = definition->lives;
    slot->freed_enqueued = definition->enqueued;
    slot->freed_completed = definition->completed;
    slot->freed_hash = definition->prefix_hash;
}

static void add_epoch(struct definition_walk *walk, const struct epoch_definition *definition, uint64_t offset) {
    struct dump *dump = &walk->loaded->dump;
    if (definition->epoch >= EPOCHS_MAX || dump->epoch_count >= EPOCHS_MAX) {
        problem_add(dump, false, offset, "epoch %u is beyond the last number: ignored", definition->epoch);
        return;
    }
    if (!grow_list(dump->epochs, dump->epoch_count)) {
        walk->short_of_memory = true;
        return;
    }
    const struct epoch_definition **epochs = dump->epochs;
    size_t at = dump->epoch_count++;
    for (; at > 0 && epochs[at - 1]->epoch > definition->epoch; at--)
        epochs[at] = epochs[at - 1];
    epochs[at] = definition;
}

static const uint32_t least_bytes[] = {
    [DEFINITION_COMMUNICATOR] = sizeof(struct communicator_definition),
    [DEFINITION_COMMUNICATOR_NAME] = sizeof(struct communicator_name_definition),
    [DEFINITION_COMMUNICATOR_FREED] = sizeof(struct communicator_freed_definition),
    [DEFINITION_STACK] = sizeof(struct stack_definition),
    [DEFINITION_MODULE] = sizeof(struct module_definition),
    [DEFINITION_STRING] = sizeof(struct string_definition),
    [DEFINITION_EPOCH] = sizeof(struct epoch_definition),
    [DEFINITION_CODE] = sizeof(struct code_definition),
    [DEFINITION_MODULE_GONE] = sizeof(struct module_gone_definition),
    [DEFINITION_REMOTE_GROUP] = sizeof(struct remote_group_definition),
    [DEFINITION_TEMPLATE] = sizeof(struct template_definition),
    [DEFINITION_NEIGHBOURS] = sizeof(struct neighbours_definition),
};

/* Those that records refer to. Others are of a later version. Returns false when memory is short. */
static bool add_what_records_name(struct definition_walk *walk, const struct definition *head, uint32_t kind,
                                  uint64_t offset) {
    switch (kind) {
    case DEFINITION_STACK:
    case DEFINITION_CODE:
    case DEFINITION_STRING:
    case DEFINITION_MODULE:
    case DEFINITION_MODULE_GONE:
        return stacks_add(walk->loaded, head, kind, walk->order++, offset);
    case DEFINITION_TEMPLATE:
        return template_add(walk->loaded, (const struct template_definition *)head, offset);
    default:
        return true;
    }
}

static void add_definition(struct definition_walk *walk, const struct definition *head, uint32_t commit,
                           uint64_t offset) {
    struct dump *dump = &walk->loaded->dump;
    uint32_t kind = commit & 0xffff;
    if ((commit & 0xffff0000) != DEFINITION_MAGIC) {
        problem_add(dump, false, offset, "definition with commit word 0x%08x: ignored", commit);
        return;
    }
    if (kind < sizeof least_bytes / sizeof *least_bytes && head->bytes < least_bytes[kind]) {
        problem_add(dump, false, offset, "definition of kind %u in only %u bytes: ignored", kind, head->bytes);
        return;
    }
    switch (kind) {
    case DEFINITION_COMMUNICATOR:
        define_communicator(walk, (const struct communicator_definition *)head, offset);
        break;
    case DEFINITION_REMOTE_GROUP:
        add_remote(walk, (const struct remote_group_definition *)head, offset);
        break;
    case DEFINITION_NEIGHBOURS:
        add_neighbours(walk, (const struct neighbours_definition *)head, offset);
        break;
    case DEFINITION_COMMUNICATOR_NAME:
        define_name(walk, (const struct communicator_name_definition *)head, offset);
        break;
    case DEFINITION_COMMUNICATOR_FREED:
        add_freed(walk, (const struct communicator_freed_definition *)head, offset);
        break;
    case DEFINITION_EPOCH:
        add_epoch(walk, (const struct epoch_definition *)head, offset);
        break;
    default:
        if (!add_what_records_name(walk, head, kind, offset))
            walk->short_of_memory = true;
        break;
    }
}

static void walk_area(struct definition_walk *walk, const struct area *area) {
    size_t at = 0;
    while (at + DEFINITION_STEP <= area->bytes) {
        const struct definition *head = (const struct definition *)(area->base + at);
        uint32_t commit = __atomic_load_n(&head->commit, __ATOMIC_ACQUIRE);
        uint32_t bytes = __atomic_load_n(&head->bytes, __ATOMIC_RELAXED);
        if (bytes == 0 && commit == 0) {
            at += DEFINITION_STEP;
            continue;
        }
        if (bytes < DEFINITION_STEP || bytes % DEFINITION_STEP != 0 || bytes > area->bytes - at) {
            problem_add(&walk->loaded->dump, false, area->offset + at,
                        "definition of %u bytes does not fit its area: what follows is ignored", bytes);
            return;
        }
        if (commit != 0)
            add_definition(walk, head, commit, area->offset + at);
        at += bytes;
    }
}

/* Local indices whose definition was lost keep what is known of them, but no definition: nothing may use them. */
static bool finish_names(struct dump *dump) {
    for (uint32_t i = 0; i < dump->communicator_count; i++)
        if (!dump->communicators[i].name && !(dump->communicators[i].name = strdup("")))
            return false;
    return true;
}

bool definitions_load(struct loaded *loaded) {
    struct definition_walk walk = {.loaded = loaded, .index_limit = INDEX_SLACK};
    for (size_t i = 0; i < loaded->area_count; i++)
        walk.index_limit += loaded->areas[i].bytes / DEFINITION_STEP;
    for (size_t i = 0; i < loaded->area_count && !walk.short_of_memory; i++)
        walk_area(&walk, &loaded->areas[i]);
    stacks_finish(&loaded->dump);
    if (loaded->dump.neighbour_count > 0)
        qsort(loaded->dump.neighbours, loaded->dump.neighbour_count, sizeof *loaded->dump.neighbours,
              compare_neighbours);
    return !walk.short_of_memory && finish_names(&loaded->dump);
}

const struct dump_communicator *dump_communicator(const struct dump *dump, uint32_t index) {
    if (index >= dump->communicator_count || !dump->communicators[index].definition)
        return NULL;
    return &dump->communicators[index];
}

static size_t expand_runs(const struct member_run *runs, uint32_t run_count, int32_t *ranks, size_t capacity) {
    size_t count = 0;
    for (uint32_t run = 0; runs && run < run_count; run++)
        for (uint32_t i = 0; i < runs[run].count; i++, count++)
            if (count < capacity)
                ranks[count] = (int32_t)(runs[run].start + (int64_t)runs[run].stride * i);
    return count;
}

size_t dump_communicator_members(const struct dump_communicator *communicator, int32_t *ranks, size_t capacity) {
    return expand_runs(communicator->runs, communicator->definition->run_count, ranks, capacity);
}

size_t dump_communicator_remote_members(const struct dump_communicator *communicator, int32_t *ranks, size_t capacity) {
    const struct remote_group_definition *remote = communicator->remote;
    return remote ? expand_runs(communicator->remote_runs, remote->run_count, ranks, capacity) : 0;
}

/* The last one that begins at or before that collective; NULL: there is none. */
static const struct dump_neighbours *find_neighbours(const struct dump *dump, uint32_t local, uint32_t seq) {
    size_t low = 0, high = dump->neighbour_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct dump_neighbours *at = &dump->neighbours[middle];
        if (at->index < local || (at->index == local && at->first <= seq))
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && dump->neighbours[low - 1].index == local ? &dump->neighbours[low - 1] : NULL;
}

size_t dump_neighbours_at(const struct dump *dump, uint32_t local, uint32_t seq, uint32_t ranks[NEIGHBOURS_MOST]) {
    const struct dump_neighbours *neighbours = find_neighbours(dump, local, seq);
    size_t count = 0;
    if (!neighbours || !neighbours->runs)
        return SIZE_MAX;
    int32_t listed[NEIGHBOURS_MOST];
    size_t all = expand_runs(neighbours->runs, neighbours->run_count, listed, NEIGHBOURS_MOST);
    qsort(listed, all, sizeof *listed, compare_int32);
    for (size_t i = 0; i < all; i++)
        if (i == 0 || listed[i] != listed[i - 1])
            ranks[count++] = (uint32_t)listed[i];
    return count;
}

int32_t dump_peer_rank(const struct dump_communicator *communicator, int32_t peer) {
    if (!communicator || peer < 0)
        return RANK_UNKNOWN;
    bool inter = communicator->definition->kind == COMMUNICATOR_INTER;
    const struct member_run *runs = inter ? communicator->remote_runs : communicator->runs;
    uint32_t count =
        inter ? communicator->remote ? communicator->remote->run_count : 0 : communicator->definition->run_count;
    uint32_t rest = (uint32_t)peer;
    for (uint32_t i = 0; runs && i < count; i++) {
        if (rest < runs[i].count)
            return (int32_t)(runs[i].start + (int64_t)runs[i].stride * rest);
        rest -= runs[i].count;
    }
    return RANK_UNKNOWN;
}
