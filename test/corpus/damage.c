/* SPDX-License-Identifier: Apache-2.0
 *
 * The corpus: ways in which a dump can be wrong.
 * Lives here: one function per damage.
 * Must not live here: running commands.
 */
#include "test/corpus/damage.h"

#include <string.h>

struct dump_builder *damage_base(int32_t rank) {
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = rank,
                                                                        .world_size = 2,
                                                                        .ring_records = 64,
                                                                        .windows = 4,
                                                                        .lanes = 2,
                                                                        .devices = 1,
                                                                        .sensors = 4,
                                                                        .transfers = 4,
                                                                        .beats = 4});
    dump_builder_header(builder)->state |= STATE_FINALISED;
    if (rank == 1) /* a clock of its own, which has to be found */
        dump_builder_host(builder, "host1", "00000000-0000-4000-8000-000000000001", 4026531835u);
    dump_builder_standard_calls(builder);
    for (uint64_t i = 0; i < 4; i++)
        dump_builder_anchor(builder, 100000 * i, 100000 * i, 100000 * i + 5, 1);
    dump_builder_world(builder);
    struct operation_row *row = dump_builder_operation(builder, 0);
    row->call = BUILDER_ALLREDUCE;
    row->source = SOURCE_HOST;
    row->bytes = 512;
    for (uint32_t i = 0; i < 100; i++) {
        dump_builder_count(row, 512, 100);
        dump_builder_collective(builder, 0, BUILDER_ALLREDUCE, 0, i, 512, 1000 * i, 1000 * i + 100);
    }
    dump_builder_progress(builder, 0)->enqueued = 100;
    dump_builder_device(builder, 1000, 10);
    dump_builder_lane(builder, 0)->threads = 1;
    dump_builder_lane(builder, 0)->trace_window_level = 1; /* what the ring overwrote lay in no window that is kept */
    return builder;
}

static struct section *section_of(struct dump_builder *builder, enum section_kind kind) {
    return dump_builder_section(builder, kind, 0);
}

/* Fills with the same arbitrary bytes every time. */
static void scribble(void *to, size_t bytes) {
    uint8_t *p = to;
    uint32_t state = 12345;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (uint8_t)(state >> 24);
    }
}

static void scribble_section(struct dump_builder *builder, enum section_kind kind) {
    scribble(dump_builder_contents(builder, kind, 0), section_of(builder, kind)->bytes);
}

static size_t one_byte(struct dump_builder *builder) {
    (void)builder;
    return 1;
}

static size_t cut_in_header(struct dump_builder *builder) {
    (void)builder;
    return offsetof(struct dump_header, sections) + 100;
}

static size_t header_never_written(struct dump_builder *builder) {
    memset(dump_builder_header(builder), 0, sizeof(struct dump_header));
    return SECTION_ALIGN;
}

static size_t not_a_dump(struct dump_builder *builder) {
    memset(dump_builder_header(builder), 'x', sizeof(struct dump_header));
    return SECTION_ALIGN;
}

static size_t later_version(struct dump_builder *builder) {
    dump_builder_header(builder)->version = FORMAT_VERSION + 1;
    return SECTION_ALIGN;
}

static size_t other_byte_order(struct dump_builder *builder) {
    dump_builder_header(builder)->byte_order = 0x04030201;
    return SECTION_ALIGN;
}

static size_t only_a_header(struct dump_builder *builder) {
    (void)builder;
    return sizeof(struct dump_header);
}

static size_t cut_in_ring(struct dump_builder *builder) {
    return section_of(builder, SECTION_RING)->offset + 1000;
}

static size_t table_of_sections_scribbled(struct dump_builder *builder) {
    scribble(dump_builder_header(builder)->sections, sizeof dump_builder_header(builder)->sections);
    return 0;
}

static size_t sections_overlap(struct dump_builder *builder) {
    section_of(builder, SECTION_PEERS)->offset = section_of(builder, SECTION_RING)->offset;
    return 0;
}

static size_t section_at_the_end_of_the_world(struct dump_builder *builder) {
    section_of(builder, SECTION_PENDING)->offset = UINT64_MAX - SECTION_ALIGN + 1;
    return 0;
}

static size_t items_without_number(struct dump_builder *builder) {
    section_of(builder, SECTION_OPERATIONS)->count = UINT32_MAX;
    return 0;
}

static size_t ring_of_a_crooked_size(struct dump_builder *builder) {
    section_of(builder, SECTION_RING)->count = 63;
    return 0;
}

static size_t ring_scribbled(struct dump_builder *builder) {
    scribble_section(builder, SECTION_RING);
    return 0;
}

static size_t lane_beyond_the_last(struct dump_builder *builder) {
    section_of(builder, SECTION_SITES)->index = 4000000000u;
    return 0;
}

static size_t definitions_scribbled(struct dump_builder *builder) {
    scribble_section(builder, SECTION_DEFINITIONS);
    return 0;
}

static size_t members_from_nowhere(struct dump_builder *builder) {
    struct communicator_definition *world = dump_builder_definition(builder, 0);
    ((struct member_run *)(world + 1))->start = -5;
    return 0;
}

static size_t group_without_end(struct dump_builder *builder) {
    dump_builder_definition(builder, 0)->size = UINT32_MAX;
    return 0;
}

static size_t anchors_contradict(struct dump_builder *builder) {
    struct clock_anchor *anchors = dump_builder_contents(builder, SECTION_ANCHORS, 0);
    anchors[2].monotonic_ns = UINT64_MAX;
    return 0;
}

static size_t no_anchors(struct dump_builder *builder) {
    memset(dump_builder_contents(builder, SECTION_ANCHORS, 0), 0, section_of(builder, SECTION_ANCHORS)->bytes);
    dump_builder_header(builder)->tick_hz_hint = 0;
    return 0;
}

static size_t calls_scribbled(struct dump_builder *builder) {
    scribble_section(builder, SECTION_CALLS);
    return 0;
}

static size_t tables_scribbled(struct dump_builder *builder) {
    static const enum section_kind kinds[] = {SECTION_OPERATIONS, SECTION_SITES, SECTION_PEERS,        SECTION_PENDING,
                                              SECTION_IN_FLIGHT,  SECTION_LANES, SECTION_TRACE_WINDOWS};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        scribble_section(builder, kinds[i]);
    return 0;
}

static size_t progress_of_nobody(struct dump_builder *builder) {
    ((struct progress *)dump_builder_contents(builder, SECTION_PROGRESS, 0))->comm = 77;
    return 0;
}

static size_t slot_from_the_future(struct dump_builder *builder) {
    *dump_builder_in_flight(builder) =
        (struct in_flight){.tid = 5, .call = BUILDER_WAIT, .comm = COMM_NONE, .enter = UINT64_MAX / 2};
    return 0;
}

static size_t thread_without_a_slot(struct dump_builder *builder) {
    dump_builder_lane(builder, 0)->owner_tid = 5;
    return 0;
}

static size_t wait_for_nothing(struct dump_builder *builder) {
    *dump_builder_in_flight(builder) =
        (struct in_flight){.tid = 5, .call = BUILDER_WAIT, .comm = COMM_NONE, .enter = 1000, .op = 3};
    return 0;
}

static size_t gpu_that_is_overfull(struct dump_builder *builder) {
    struct device_state *device = dump_builder_contents(builder, SECTION_DEVICES, 0);
    device->capacity = 100;
    device->memory_used = 101;
    device->memory_samples = 1;
    return 0;
}

static size_t anchor_of_no_gpu(struct dump_builder *builder) {
    ((struct device_anchor *)dump_builder_contents(builder, SECTION_DEVICE_ANCHORS, 0))->device = 1;
    return 0;
}

static size_t sensor_of_no_call(struct dump_builder *builder) {
    ((struct sensor_row *)dump_builder_contents(builder, SECTION_SENSORS, 0))->call = 9999;
    return 0;
}

static size_t transfers_that_waited_too_long(struct dump_builder *builder) {
    *(struct transfer_row *)dump_builder_contents(builder, SECTION_TRANSFERS, 0) =
        (struct transfer_row){.version = 2, .operations = 1, .bytes = 8, .wait_wire = UINT64_MAX / 4};
    return 0;
}

static size_t beats_of_the_far_future(struct dump_builder *builder) {
    *(struct beat_row *)dump_builder_contents(builder, SECTION_BEATS, 0) =
        (struct beat_row){.dump = 1, .seen_ns = UINT64_MAX / 4, .pid = 1000};
    return 0;
}

static size_t lane_that_lost_too_much(struct dump_builder *builder) {
    dump_builder_lane(builder, 0)->operations_lost = 1u << 20;
    return 0;
}

static size_t lane_that_counts_too_little(struct dump_builder *builder) {
    dump_builder_lane(builder, 0)->head = 10;
    return 0;
}

static size_t sums_lost(struct dump_builder *builder) {
    memset(dump_builder_contents(builder, SECTION_OPERATIONS, 0), 0, section_of(builder, SECTION_OPERATIONS)->bytes);
    return 0;
}

static size_t sums_dropped(struct dump_builder *builder) {
    section_of(builder, SECTION_OPERATIONS)->kind = SECTION_FREE;
    return 0;
}

static size_t ring_emptied(struct dump_builder *builder) {
    memset(dump_builder_contents(builder, SECTION_RING, 0), 0, section_of(builder, SECTION_RING)->bytes);
    return 0;
}

static size_t ring_with_a_hole(struct dump_builder *builder) {
    memset(dump_builder_contents(builder, SECTION_RING, 0), 0, 20 * sizeof(struct record));
    return 0;
}

static size_t progress_ahead_of_itself(struct dump_builder *builder) {
    ((struct progress *)dump_builder_contents(builder, SECTION_PROGRESS, 0))->hashed = 1u << 20;
    return 0;
}

static size_t progress_lost(struct dump_builder *builder) {
    memset(dump_builder_contents(builder, SECTION_PROGRESS, 0), 0, section_of(builder, SECTION_PROGRESS)->bytes);
    return 0;
}

static size_t window_of_no_lane(struct dump_builder *builder) {
    dump_builder_window(builder, 0, 8)->lane = 7;
    return 0;
}

static size_t no_pending_operations(struct dump_builder *builder) {
    section_of(builder, SECTION_PENDING)->kind = SECTION_FREE;
    return 0;
}

static size_t clock_that_races(struct dump_builder *builder) {
    struct clock_anchor *anchors = dump_builder_contents(builder, SECTION_ANCHORS, 0);
    anchors[3].monotonic_ns = anchors[3].realtime_ns = UINT64_C(3600) * 1000000000;
    return 0;
}

static size_t names_that_bite(struct dump_builder *builder) {
    struct dump_header *header = dump_builder_header(builder);
    memset(header->host, '\033', sizeof header->host);
    memset(header->run_id, '"', sizeof header->run_id);
    memset(header->command, '\n', sizeof header->command);
    dump_builder_name(builder, 0, "=cmd|'/C calc'!A0\033]0;owned\a\xff\xe2\x80\xae,\"<script>");
    struct call_name *calls = dump_builder_contents(builder, SECTION_CALLS, 0);
    for (uint32_t i = 0; i < 16; i++)
        memcpy(calls[i].name, "@\033[2J\r\n", 8);
    return 0;
}

const struct damage damages[] = {
    {"one byte", one_byte, "inside the header", true},
    {"cut in the header", cut_in_header, "inside the header", true},
    {"header never written", header_never_written, "wrong magic", true},
    {"not a dump", not_a_dump, "wrong magic", true},
    {"later version", later_version, "format version 3", true},
    {"other byte order", other_byte_order, "other byte order", true},
    {"only a header", only_a_header, "file ends inside", false},
    {"cut in the ring", cut_in_ring, "file ends inside ring", false},
    {"table of sections scribbled", table_of_sections_scribbled, "section of unknown kind", false},
    {"sections overlap", sections_overlap, "overlaps", false},
    {"section at the end of the world", section_at_the_end_of_the_world, "do not fit", false},
    {"items without number", items_without_number, "do not fit", false},
    {"ring of a crooked size", ring_of_a_crooked_size, "no power of two", false},
    {"ring scribbled", ring_scribbled, "foreign ticket", false},
    {"lane beyond the last", lane_beyond_the_last, "lane 4000000000", false},
    {"definitions scribbled", definitions_scribbled, "definition", false},
    {"members from nowhere", members_from_nowhere, "list of members", false},
    {"group without end", group_without_end, "in a group of", false},
    {"anchors contradict", anchors_contradict, "contradict", false},
    {"no anchors", no_anchors, "no clock anchors", false},
    {"calls scribbled", calls_scribbled, "not terminated", false},
    {"tables scribbled", tables_scribbled, "make no sense", false},
    {"progress of nobody", progress_of_nobody, "not defined", false},
    {"slot from the future", slot_from_the_future, "in-flight slots make no sense", false},
    {"thread without a slot", thread_without_a_slot, "has no in-flight slot", false},
    {"wait for nothing", wait_for_nothing, "none is pending", false},
    {"GPU that is overfull", gpu_that_is_overfull, "said of GPUs makes no sense", false},
    {"anchor of no GPU", anchor_of_no_gpu, "anchors of a GPU's clock make no sense", false},
    {"sensor of no call", sensor_of_no_call, "sensor rows make no sense", false},
    {"transfers that waited too long", transfers_that_waited_too_long, "network transfers make no sense", false},
    {"beats of the far future", beats_of_the_far_future, "beats make no sense", false},
    {"lane that lost too much", lane_that_lost_too_much, "what lane 0 counts cannot be", false},
    {"lane that counts too little", lane_that_counts_too_little, "what lane 0 counts cannot be", false},
    {"sums lost", sums_lost, "sums are incomplete", false},
    {"sums dropped", sums_dropped, "sums are incomplete", false},
    {"ring emptied", ring_emptied, "ring of lane 0 is empty", false},
    {"ring with a hole", ring_with_a_hole, "records of lane 0 are missing", false},
    {"progress ahead of itself", progress_ahead_of_itself, "progress of communicator 0 makes no sense", false},
    {"progress lost", progress_lost, "has no progress row", false},
    {"window of no lane", window_of_no_lane, "trace windows make no sense", false},
    {"no pending operations", no_pending_operations, "no section of pending operations", false},
    {"clock that races", clock_that_races, "run at another rate", false},
    {"names that bite", names_that_bite, NULL, false},
};
const size_t damage_count = sizeof damages / sizeof *damages;
