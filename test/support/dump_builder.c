/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic dumps for tests, from the words of shim/format.h.
 * Lives here: the layout of the sections and the bookkeeping of what is used.
 * Must not live here: code shared with the loader or the shim, which would hide a common mistake.
 */
#include "test/support/dump_builder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/support/page_builder.h"

#define LANES_MAX         64u
#define COMMUNICATORS_MAX 4096u

struct dump_builder {
    uint8_t *base;
    size_t bytes;
    struct dump_plan plan;
    uint32_t sections;
    uint64_t tickets[LANES_MAX];
    struct page_builder *pages[LANES_MAX]; /* NULL: the lane's ring is one of plain records */
    uint32_t operations[LANES_MAX], sites[LANES_MAX], peers[LANES_MAX];
    uint32_t calls, anchors, in_flight, pending, progress, windows, devices;
    uint32_t area;
    size_t area_used;
    uint32_t next_op;
    uint32_t communicators;
    struct communicator_definition *definitions[COMMUNICATORS_MAX];
};

static void fail(const char *what) {
    fprintf(stderr, "dump_builder: %s\n", what);
    abort();
}

static uint32_t or_default(uint32_t value, uint32_t standard) {
    return value ? value : standard;
}

static size_t align_up(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
}

static struct dump_header *header_of(const struct dump_builder *builder) {
    return (struct dump_header *)builder->base;
}

/* ---- layout -------------------------------------------------------------------------------------------------- */

struct part {
    uint32_t kind, index, count, item_bytes;
};

static bool is_compact(const struct dump_plan *plan, uint32_t lane) {
    return plan->compact_lanes >> lane & 1;
}

/* As many as hold `ring_records` of one slot each while one more is taken anew. */
static struct part ring_part(const struct dump_plan *plan, uint32_t lane) {
    uint32_t pages = (plan->ring_records + RING_PAGE_SLOTS - 1) / RING_PAGE_SLOTS + 1;
    if (is_compact(plan, lane))
        return (struct part){SECTION_RING_PAGES, lane, pages, sizeof(struct ring_page)};
    return (struct part){SECTION_RING, lane, plan->ring_records, sizeof(struct record)};
}

static size_t list_parts(const struct dump_plan *plan, struct part *parts) {
    size_t n = 0;
    parts[n++] = (struct part){SECTION_CALLS, 0, plan->calls, sizeof(struct call_name)};
    parts[n++] = (struct part){SECTION_ANCHORS, 0, plan->anchors, sizeof(struct clock_anchor)};
    parts[n++] = (struct part){SECTION_IN_FLIGHT, 0, plan->in_flight, sizeof(struct in_flight)};
    parts[n++] = (struct part){SECTION_PENDING, 0, plan->pending, sizeof(struct pending)};
    parts[n++] = (struct part){SECTION_PROGRESS, 0, plan->progress, sizeof(struct progress)};
    for (uint32_t i = 0; i < plan->definition_areas; i++)
        parts[n++] = (struct part){SECTION_DEFINITIONS, i, plan->definition_bytes, 1};
    if (plan->windows)
        parts[n++] = (struct part){SECTION_TRACE_WINDOWS, 0, plan->windows, sizeof(struct trace_window_block)};
    if (plan->devices) {
        parts[n++] = (struct part){SECTION_DEVICES, 0, plan->devices, sizeof(struct device_state)};
        parts[n++] = (struct part){SECTION_DEVICE_ANCHORS, 0, plan->devices, sizeof(struct device_anchor)};
    }
    if (plan->sensors)
        parts[n++] = (struct part){SECTION_SENSORS, 0, plan->sensors, sizeof(struct sensor_row)};
    if (plan->transfers)
        parts[n++] = (struct part){SECTION_TRANSFERS, 0, plan->transfers, sizeof(struct transfer_row)};
    if (plan->beats)
        parts[n++] = (struct part){SECTION_BEATS, 0, plan->beats, sizeof(struct beat_row)};
    if (plan->captures)
        parts[n++] = (struct part){SECTION_CAPTURES, 0, plan->captures, sizeof(struct capture_row)};
    if (plan->capture_messages)
        parts[n++] = (struct part){SECTION_CAPTURE_MESSAGES, 0, plan->capture_messages, sizeof(struct capture_message)};
    parts[n++] = (struct part){SECTION_LANES, 0, plan->lanes, sizeof(struct lane_state)};
    for (uint32_t i = 0; i < plan->lanes; i++) {
        parts[n++] = ring_part(plan, i);
        parts[n++] = (struct part){SECTION_OPERATIONS, i, plan->operations, sizeof(struct operation_row)};
        parts[n++] = (struct part){SECTION_SITES, i, plan->sites, sizeof(struct site_row)};
        parts[n++] = (struct part){SECTION_PEERS, i, plan->peers, sizeof(struct peer_row)};
    }
    return n;
}

static void fill_plan(struct dump_plan *plan) {
    plan->lanes = or_default(plan->lanes, 1);
    plan->ring_records = or_default(plan->ring_records, 1024);
    plan->operations = or_default(plan->operations, 64);
    plan->sites = or_default(plan->sites, 64);
    plan->peers = or_default(plan->peers, 64);
    plan->in_flight = or_default(plan->in_flight, 8);
    plan->pending = or_default(plan->pending, 64);
    plan->progress = or_default(plan->progress, 16);
    plan->definition_bytes = (uint32_t)align_up(or_default(plan->definition_bytes, SECTION_ALIGN), SECTION_ALIGN);
    plan->definition_areas = or_default(plan->definition_areas, 1);
    plan->calls = or_default(plan->calls, 64);
    plan->anchors = or_default(plan->anchors, 64);
    if (plan->lanes > LANES_MAX || (plan->ring_records & (plan->ring_records - 1)))
        fail("too many lanes, or a ring that is no power of two");
}

static void fill_header(struct dump_builder *builder) {
    struct dump_header *header = header_of(builder);
    memcpy(header->magic, FORMAT_MAGIC, sizeof(header->magic));
    header->version = FORMAT_VERSION;
    header->byte_order = FORMAT_BYTE_ORDER;
    header->header_bytes = sizeof(struct dump_header);
    header->section_bytes = sizeof(struct section);
    header->record_bytes = sizeof(struct record);
    header->state = STATE_ACTIVE | STATE_INITIALISED;
    strcpy(header->run_id, "testrun");
    header->world_id = 1;
    header->rank = builder->plan.rank;
    header->world_size = builder->plan.world_size;
    header->local_rank = builder->plan.rank;
    header->local_size = builder->plan.world_size;
    header->rank_source = RANK_FROM_LIBRARY;
    header->pid = 1000 + builder->plan.rank;
    header->parent_pid = 999;
    strcpy(header->launcher, "test");
    strcpy(header->writer, "dump_builder");
    strcpy(header->command, "./program");
    header->mpi_family = 1;
    header->ring_records = builder->plan.ring_records;
    header->clock_kind = CLOCK_KIND_MONOTONIC;
    header->tick_hz_hint = 1000000000u;
    header->section_limit = SECTIONS_MAX;
    dump_builder_host(builder, "host0", "00000000-0000-4000-8000-000000000000", 4026531834u);
}

struct dump_builder *dump_builder_new(const struct dump_plan *plan) {
    struct dump_builder *builder = calloc(1, sizeof(*builder));
    if (!builder)
        fail("no memory");
    builder->plan = *plan;
    fill_plan(&builder->plan);
    struct part parts[12 + 4 * LANES_MAX + SECTIONS_MAX];
    if (builder->plan.definition_areas > SECTIONS_MAX)
        fail("too many sections");
    size_t count = list_parts(&builder->plan, parts);
    if (count > SECTIONS_MAX)
        fail("too many sections");
    builder->bytes = SECTION_ALIGN;
    for (size_t i = 0; i < count; i++)
        builder->bytes += align_up((size_t)parts[i].count * parts[i].item_bytes, SECTION_ALIGN);
    builder->base = mmap(NULL, builder->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (builder->base == MAP_FAILED)
        fail("no memory");
    fill_header(builder);
    size_t offset = SECTION_ALIGN;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = align_up((size_t)parts[i].count * parts[i].item_bytes, SECTION_ALIGN);
        header_of(builder)->sections[i] = (struct section){
            .kind = parts[i].kind,
            .index = parts[i].index,
            .offset = offset,
            .bytes = bytes,
            .count = parts[i].count,
            .item_bytes = parts[i].item_bytes,
        };
        offset += bytes;
    }
    builder->sections = (uint32_t)count;
    for (uint32_t lane = 0; lane < builder->plan.lanes; lane++)
        if (is_compact(&builder->plan, lane))
            builder->pages[lane] =
                page_builder_new(builder, lane, dump_builder_contents(builder, SECTION_RING_PAGES, lane),
                                 dump_builder_section(builder, SECTION_RING_PAGES, lane)->count);
    return builder;
}

void dump_builder_free(struct dump_builder *builder) {
    if (!builder)
        return;
    for (uint32_t lane = 0; lane < LANES_MAX; lane++)
        page_builder_free(builder->pages[lane]);
    munmap(builder->base, builder->bytes);
    free(builder);
}

struct dump_header *dump_builder_header(struct dump_builder *builder) {
    return header_of(builder);
}

struct section *dump_builder_section(struct dump_builder *builder, enum section_kind kind, uint32_t index) {
    for (uint32_t i = 0; i < builder->sections; i++) {
        struct section *section = &header_of(builder)->sections[i];
        if (section->kind == kind && section->index == index)
            return section;
    }
    return NULL;
}

void *dump_builder_contents(struct dump_builder *builder, enum section_kind kind, uint32_t index) {
    struct section *section = dump_builder_section(builder, kind, index);
    if (!section)
        fail("no such section");
    return builder->base + section->offset;
}

/* Item `used` of a section, whose capacity is the section's count; counts it as used. */
static void *next_item(struct dump_builder *builder, enum section_kind kind, uint32_t index, uint32_t *used) {
    struct section *section = dump_builder_section(builder, kind, index);
    if (!section || *used >= section->count)
        fail("a table is full");
    return builder->base + section->offset + (size_t)(*used)++ * section->item_bytes;
}

void dump_builder_host(struct dump_builder *builder, const char *host, const char *boot_id, uint64_t time_namespace) {
    struct dump_header *header = header_of(builder);
    memset(header->host, 0, sizeof(header->host));
    memset(header->boot_id, 0, sizeof(header->boot_id));
    memcpy(header->host, host, strnlen(host, sizeof(header->host)));
    memcpy(header->boot_id, boot_id, strnlen(boot_id, sizeof(header->boot_id)));
    header->time_namespace = time_namespace;
}

/* ---- calls, anchors, definitions ------------------------------------------------------------------------------ */

void dump_builder_call(struct dump_builder *builder, uint16_t id, enum call_class call_class, enum flow flow,
                       enum busbw busbw, int nonblocking, const char *name) {
    struct call_name *row = next_item(builder, SECTION_CALLS, 0, &builder->calls);
    row->id = id;
    row->api = strncmp(name, "nccl", 4) == 0 ? API_NCCL : API_MPI;
    row->call_class = (uint8_t)call_class;
    row->flow = (uint8_t)flow;
    row->busbw = (uint8_t)busbw;
    row->nonblocking = nonblocking != 0;
    if (strlen(name) >= sizeof(row->name))
        fail("the name of a call is too long");
    strcpy(row->name, name);
}

void dump_builder_standard_calls(struct dump_builder *builder) {
    static const struct {
        uint16_t id;
        enum call_class call_class;
        enum flow flow;
        enum busbw busbw;
        int nonblocking;
        const char *name;
    } rows[] = {
        {BUILDER_INIT, CLASS_SETUP, FLOW_NONE, BUSBW_NONE, 0, "MPI_Init"},
        {BUILDER_FINALIZE, CLASS_SETUP, FLOW_NONE, BUSBW_NONE, 0, "MPI_Finalize"},
        {BUILDER_BARRIER, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_NONE, 0, "MPI_Barrier"},
        {BUILDER_BCAST, CLASS_COLLECTIVE, FLOW_FROM_ROOT, BUSBW_ONE, 0, "MPI_Bcast"},
        {BUILDER_REDUCE, CLASS_COLLECTIVE, FLOW_TO_ROOT, BUSBW_ONE, 0, "MPI_Reduce"},
        {BUILDER_ALLREDUCE, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE, 0, "MPI_Allreduce"},
        {BUILDER_ALLGATHER, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_SHARE, 0, "MPI_Allgather"},
        {BUILDER_IALLREDUCE, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE, 1, "MPI_Iallreduce"},
        {BUILDER_SEND, CLASS_SEND, FLOW_NONE, BUSBW_ONE, 0, "MPI_Send"},
        {BUILDER_RECV, CLASS_RECV, FLOW_NONE, BUSBW_ONE, 0, "MPI_Recv"},
        {BUILDER_ISEND, CLASS_SEND, FLOW_NONE, BUSBW_ONE, 1, "MPI_Isend"},
        {BUILDER_IRECV, CLASS_RECV, FLOW_NONE, BUSBW_ONE, 1, "MPI_Irecv"},
        {BUILDER_WAIT, CLASS_WAIT, FLOW_NONE, BUSBW_NONE, 0, "MPI_Wait"},
        {BUILDER_WAITALL, CLASS_WAIT, FLOW_NONE, BUSBW_NONE, 0, "MPI_Waitall"},
        {BUILDER_WAITANY, CLASS_WAIT, FLOW_NONE, BUSBW_NONE, 0, "MPI_Waitany"},
        {BUILDER_COMM_DUP, CLASS_COMMUNICATOR, FLOW_ALL, BUSBW_NONE, 0, "MPI_Comm_dup"},
        {BUILDER_FILE_WRITE_ALL, CLASS_FILE, FLOW_ALL, BUSBW_NONE, 0, "MPI_File_write_all"},
        {BUILDER_NCCL_ALL_REDUCE, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE, 1, "ncclAllReduce"},
        {BUILDER_NCCL_BROADCAST, CLASS_COLLECTIVE, FLOW_FROM_ROOT, BUSBW_ONE, 1, "ncclBroadcast"},
        {BUILDER_NCCL_ALL_GATHER, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_SHARE, 1, "ncclAllGather"},
        {BUILDER_NCCL_GROUP_END, CLASS_GROUP, FLOW_NONE, BUSBW_NONE, 0, "ncclGroupEnd"},
        {BUILDER_NCCL_GROUP_SIMULATE_END, CLASS_OTHER, FLOW_NONE, BUSBW_NONE, 0, "ncclGroupSimulateEnd"},
        {BUILDER_NCCL_SEND, CLASS_SEND, FLOW_NONE, BUSBW_ONE, 1, "ncclSend"},
        {BUILDER_NCCL_RECV, CLASS_RECV, FLOW_NONE, BUSBW_ONE, 1, "ncclRecv"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        dump_builder_call(builder, rows[i].id, rows[i].call_class, rows[i].flow, rows[i].busbw, rows[i].nonblocking,
                          rows[i].name);
}

void dump_builder_anchor(struct dump_builder *builder, uint64_t ticks, uint64_t monotonic_ns, uint64_t realtime_ns,
                         uint64_t width) {
    struct clock_anchor *anchor = next_item(builder, SECTION_ANCHORS, 0, &builder->anchors);
    anchor->ticks = ticks;
    anchor->monotonic_ns = monotonic_ns;
    anchor->realtime_ns = realtime_ns;
    anchor->width_ticks = width;
    anchor->version = 2;
}

void dump_builder_device(struct dump_builder *builder, uint64_t monotonic_ns, uint64_t width_ns) {
    uint32_t ordinal = builder->devices;
    struct device_state *device = next_item(builder, SECTION_DEVICES, 0, &builder->devices);
    device->version = 2;
    device->ordinal = ordinal;
    device->backend = 1;
    struct device_anchor *anchor = (struct device_anchor *)dump_builder_contents(builder, SECTION_DEVICE_ANCHORS, 0);
    anchor[ordinal] = (struct device_anchor){.version = 2,
                                             .device = ordinal,
                                             .source = SOURCE_GPU_EVENT,
                                             .monotonic_ns = monotonic_ns,
                                             .width_ns = width_ns};
}

void *dump_builder_define(struct dump_builder *builder, enum definition_kind kind, size_t bytes) {
    bytes = align_up(bytes, 16);
    if (bytes > builder->plan.definition_bytes)
        fail("a definition is larger than an area");
    if (builder->area_used + bytes > builder->plan.definition_bytes) {
        builder->area++;
        builder->area_used = 0;
    }
    if (builder->area >= builder->plan.definition_areas)
        fail("the definitions are full");
    uint8_t *area = dump_builder_contents(builder, SECTION_DEFINITIONS, builder->area);
    struct definition *definition = (struct definition *)(area + builder->area_used);
    builder->area_used += bytes;
    definition->bytes = (uint32_t)bytes;
    definition->commit = DEFINITION_MAGIC | kind;
    return definition;
}

uint32_t dump_builder_communicator(struct dump_builder *builder, uint64_t uid, const char *name, int32_t my_rank,
                                   const struct member_run *runs, uint32_t run_count) {
    if (builder->communicators == COMMUNICATORS_MAX)
        fail("too many communicators");
    uint32_t index = builder->communicators++;
    struct communicator_definition *definition = dump_builder_define(
        builder, DEFINITION_COMMUNICATOR, sizeof(*definition) + run_count * sizeof(struct member_run));
    definition->uid = uid;
    definition->index = index;
    definition->kind = COMMUNICATOR_INTRA;
    definition->my_rank = my_rank;
    definition->run_count = run_count;
    definition->members_hash = uid * 31 + run_count;
    for (uint32_t i = 0; i < run_count; i++)
        definition->size += runs[i].count;
    memcpy(definition + 1, runs, run_count * sizeof(struct member_run));
    builder->definitions[index] = definition;
    if (name && *name)
        dump_builder_name(builder, index, name);
    return index;
}

uint32_t dump_builder_intercommunicator(struct dump_builder *builder, uint64_t uid, int32_t my_rank,
                                        const struct member_run *own, const struct member_run *remote) {
    uint32_t index = dump_builder_communicator(builder, uid, NULL, my_rank, own, 1);
    struct communicator_definition *definition = builder->definitions[index];
    definition->kind = COMMUNICATOR_INTER;
    definition->remote_size = remote->count;
    definition->members_hash = (uint32_t)own->start * UINT64_C(31) + own->count;
    struct remote_group_definition *group =
        dump_builder_define(builder, DEFINITION_REMOTE_GROUP, sizeof *group + sizeof *remote);
    group->index = index;
    group->run_count = 1;
    group->size = remote->count;
    group->members_hash = (uint32_t)remote->start * UINT64_C(31) + remote->count;
    *(struct member_run *)(group + 1) = *remote;
    return index;
}

void dump_builder_neighbours(struct dump_builder *builder, uint32_t index, uint32_t first, const int32_t *sources,
                             uint32_t count) {
    struct neighbours_definition *definition = dump_builder_define(
        builder, DEFINITION_NEIGHBOURS, sizeof *definition + (sources ? count : 0) * sizeof(struct member_run));
    definition->index = index;
    definition->first = first;
    definition->count = sources ? count : NEIGHBOURS_UNKNOWN;
    definition->run_count = sources ? count : 0;
    for (uint32_t i = 0; sources && i < count; i++)
        ((struct member_run *)(definition + 1))[i] = (struct member_run){sources[i], 1, 1};
}

uint32_t dump_builder_world(struct dump_builder *builder) {
    struct member_run all = {.start = 0, .count = (uint32_t)builder->plan.world_size, .stride = 1};
    return dump_builder_communicator(builder, BUILDER_WORLD_UID, "MPI_COMM_WORLD", builder->plan.rank, &all, 1);
}

struct communicator_definition *dump_builder_definition(struct dump_builder *builder, uint32_t index) {
    if (index >= builder->communicators)
        fail("no such communicator");
    return builder->definitions[index];
}

void dump_builder_name(struct dump_builder *builder, uint32_t index, const char *name) {
    size_t length = strlen(name);
    struct communicator_name_definition *definition =
        dump_builder_define(builder, DEFINITION_COMMUNICATOR_NAME, sizeof(*definition) + length);
    definition->index = index;
    definition->length = (uint32_t)length;
    memcpy(definition->name, name, length);
}

struct communicator_freed_definition *dump_builder_freed(struct dump_builder *builder, uint32_t index, uint64_t ticks,
                                                         uint64_t completed) {
    struct communicator_freed_definition *definition =
        dump_builder_define(builder, DEFINITION_COMMUNICATOR_FREED, sizeof(*definition));
    definition->index = index;
    definition->freed_ticks = ticks;
    definition->enqueued = completed;
    definition->completed = completed;
    return definition;
}

void dump_builder_epoch(struct dump_builder *builder, uint32_t epoch, uint64_t ticks) {
    struct epoch_definition *definition = dump_builder_define(builder, DEFINITION_EPOCH, sizeof(*definition));
    definition->epoch = epoch;
    definition->ticks = ticks;
}

/* ---- call stacks ----------------------------------------------------------------------------------------------- */

void dump_builder_stack(struct dump_builder *builder, uint32_t id, const uint64_t *entries, uint32_t depth) {
    struct stack_definition *definition =
        dump_builder_define(builder, DEFINITION_STACK, sizeof(*definition) + depth * sizeof(*entries));
    definition->id = id;
    definition->depth = depth;
    memcpy(definition->entries, entries, depth * sizeof(*entries));
}

void dump_builder_code(struct dump_builder *builder, uint32_t id, const char *name, const char *file) {
    size_t name_bytes = strlen(name), file_bytes = strlen(file);
    struct code_definition *definition =
        dump_builder_define(builder, DEFINITION_CODE, sizeof(*definition) + name_bytes + file_bytes);
    definition->id = id;
    definition->first_line = 1;
    definition->name_bytes = (uint32_t)name_bytes;
    definition->file_bytes = (uint32_t)file_bytes;
    memcpy(definition->text, name, name_bytes);
    memcpy(definition->text + name_bytes, file, file_bytes);
}

void dump_builder_string(struct dump_builder *builder, uint32_t id, const char *text) {
    struct string_definition *definition =
        dump_builder_define(builder, DEFINITION_STRING, sizeof(*definition) + strlen(text));
    definition->id = id;
    definition->length = (uint32_t)strlen(text);
    memcpy(definition->text, text, strlen(text));
}

void dump_builder_module(struct dump_builder *builder, const char *path, const void *build_id, uint32_t build_id_bytes,
                         uint64_t base, uint64_t bytes) {
    struct module_definition *definition =
        dump_builder_define(builder, DEFINITION_MODULE, sizeof(*definition) + build_id_bytes + strlen(path));
    definition->start = definition->base = base;
    definition->end = base + bytes;
    definition->build_id_bytes = build_id_bytes;
    definition->path_bytes = (uint32_t)strlen(path);
    if (build_id_bytes)
        memcpy(definition->data, build_id, build_id_bytes);
    memcpy(definition->data + build_id_bytes, path, strlen(path));
}

void dump_builder_module_gone(struct dump_builder *builder, uint64_t base) {
    struct module_gone_definition *definition =
        dump_builder_define(builder, DEFINITION_MODULE_GONE, sizeof(*definition));
    definition->base = base;
}

/* ---- records --------------------------------------------------------------------------------------------------- */

struct record *dump_builder_record(struct dump_builder *builder, uint32_t lane, const struct record *record) {
    if (lane >= builder->plan.lanes)
        fail("no such lane");
    uint64_t ticket = builder->tickets[lane]++;
    dump_builder_lane(builder, lane)->head = ticket + 1;
    if (builder->pages[lane]) {
        page_builder_add(builder->pages[lane], record, ticket);
        return NULL;
    }
    struct record *ring = dump_builder_contents(builder, SECTION_RING, lane);
    struct record *slot = &ring[ticket & (builder->plan.ring_records - 1)];
    *slot = *record;
    slot->commit = ticket + 1;
    return slot;
}

struct record *dump_builder_collective(struct dump_builder *builder, uint32_t lane, uint16_t call, uint32_t comm,
                                       uint32_t seq, uint64_t bytes, uint64_t enter, uint64_t leave) {
    struct record record = {.t0 = enter,
                            .t1 = leave,
                            .bytes = bytes,
                            .seq = seq,
                            .op = ++builder->next_op,
                            .comm = comm,
                            .peer = PEER_NONE,
                            .tag = TAG_NONE,
                            .call = call,
                            .flags = FLAG_COLLECTIVE,
                            .kind = RECORD_CALL};
    return dump_builder_record(builder, lane, &record);
}

uint32_t dump_builder_icollective(struct dump_builder *builder, uint32_t lane, uint16_t call, uint32_t comm,
                                  uint32_t seq, uint64_t bytes, uint64_t post, uint64_t posted, uint64_t done) {
    struct record record = {.t0 = post,
                            .t1 = posted,
                            .bytes = bytes,
                            .seq = seq,
                            .op = ++builder->next_op,
                            .comm = comm,
                            .peer = PEER_NONE,
                            .tag = TAG_NONE,
                            .call = call,
                            .flags = FLAG_COLLECTIVE,
                            .kind = RECORD_POST};
    dump_builder_record(builder, lane, &record);
    if (done) {
        record.kind = RECORD_DONE;
        record.t1 = done;
        dump_builder_record(builder, lane, &record);
    }
    return record.op;
}

struct record *dump_builder_p2p(struct dump_builder *builder, uint32_t lane, uint16_t call, uint32_t comm,
                                uint16_t flag, int32_t peer, int32_t tag, uint32_t seq, uint64_t bytes, uint64_t enter,
                                uint64_t leave) {
    struct record record = {.t0 = enter,
                            .t1 = leave,
                            .bytes = bytes,
                            .seq = seq,
                            .op = ++builder->next_op,
                            .comm = comm,
                            .peer = peer,
                            .tag = tag,
                            .call = call,
                            .flags = flag,
                            .kind = RECORD_CALL};
    return dump_builder_record(builder, lane, &record);
}

struct record *dump_builder_plain(struct dump_builder *builder, uint32_t lane, uint16_t call, uint64_t enter,
                                  uint64_t leave) {
    struct record record = {.t0 = enter,
                            .t1 = leave,
                            .seq = SEQ_NONE,
                            .comm = COMM_NONE,
                            .peer = PEER_NONE,
                            .tag = TAG_NONE,
                            .call = call,
                            .kind = RECORD_CALL};
    return dump_builder_record(builder, lane, &record);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

struct operation_row *dump_builder_operation(struct dump_builder *builder, uint32_t lane) {
    struct operation_row *row = next_item(builder, SECTION_OPERATIONS, lane, &builder->operations[lane]);
    row->version = 2;
    row->source = SOURCE_HOST;
    row->time_min = UINT64_MAX;
    return row;
}

struct site_row *dump_builder_site(struct dump_builder *builder, uint32_t lane) {
    struct site_row *row = next_item(builder, SECTION_SITES, lane, &builder->sites[lane]);
    row->version = 2;
    return row;
}

struct peer_row *dump_builder_peer(struct dump_builder *builder, uint32_t lane) {
    struct peer_row *row = next_item(builder, SECTION_PEERS, lane, &builder->peers[lane]);
    row->version = 2;
    return row;
}

struct progress *dump_builder_progress(struct dump_builder *builder, uint32_t comm) {
    struct progress *row = next_item(builder, SECTION_PROGRESS, 0, &builder->progress);
    row->version = 2;
    row->comm = comm;
    return row;
}

struct in_flight *dump_builder_in_flight(struct dump_builder *builder) {
    struct in_flight *slot = next_item(builder, SECTION_IN_FLIGHT, 0, &builder->in_flight);
    slot->tid = 1000 + builder->in_flight;
    slot->comm = COMM_NONE;
    slot->seq = SEQ_NONE;
    slot->peer = PEER_NONE;
    slot->tag = TAG_NONE;
    return slot;
}

struct pending *dump_builder_pending(struct dump_builder *builder) {
    struct pending *row = next_item(builder, SECTION_PENDING, 0, &builder->pending);
    row->request = 0x5000 + builder->pending;
    return row;
}

struct trace_window_block *dump_builder_window(struct dump_builder *builder, uint32_t lane, uint64_t window) {
    struct trace_window_block *block = next_item(builder, SECTION_TRACE_WINDOWS, 0, &builder->windows);
    block->window = window + 1;
    block->lane = lane;
    return block;
}

struct lane_state *dump_builder_lane(struct dump_builder *builder, uint32_t lane) {
    if (lane >= builder->plan.lanes)
        fail("no such lane");
    return (struct lane_state *)dump_builder_contents(builder, SECTION_LANES, 0) + lane;
}

void dump_builder_count(struct operation_row *row, uint64_t bytes, uint64_t ticks) {
    row->count++;
    row->bytes_total += bytes;
    row->time_total += ticks;
    if (ticks < row->time_min)
        row->time_min = ticks;
    if (ticks > row->time_max)
        row->time_max = ticks;
    uint32_t bucket = 0;
    if (ticks >> HISTOGRAM_FIRST) {
        uint32_t octave = 63u - (uint32_t)__builtin_clzll(ticks);
        bucket = 4 * (octave - HISTOGRAM_FIRST) + (uint32_t)(ticks >> (octave - 2) & 3);
    }
    row->histogram[bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1]++;
}

/* ---- output ---------------------------------------------------------------------------------- */

const void *dump_builder_data(const struct dump_builder *builder, size_t *bytes) {
    *bytes = builder->bytes;
    return builder->base;
}

int dump_builder_write(const struct dump_builder *builder, const char *path, size_t bytes) {
    if (!bytes || bytes > builder->bytes)
        bytes = builder->bytes;
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    for (size_t at = 0; at < bytes;) {
        ssize_t written = write(fd, builder->base + at, bytes - at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            int error = errno;
            close(fd);
            errno = error;
            return -1;
        }
        at += (size_t)written;
    }
    return close(fd);
}
