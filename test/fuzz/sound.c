/* SPDX-License-Identifier: Apache-2.0
 *
 * What both fuzz targets damage: a small dump with something in every section, and how an input damages it.
 * Lives here: the dump, the patches.
 * Must not live here: what is run over it.
 */
#include "test/fuzz/sound.h"

#include <string.h>

enum { PATCH_BYTES = 12, CUT = 255 };

/* Lanes from HOST_LANES up carry no tables of their own: their sections become those of the GPUs. */
enum { HOST_LANES = 2, DEVICE_LANE = HOST_LANES, LANES = HOST_LANES + 4, NCCL_ALL_REDUCE = 2001, LAUNCHES = 40 };

static void *turn_section(struct dump_builder *builder, uint32_t lane, enum section_kind kind, uint32_t item_bytes) {
    struct section *section = dump_builder_section(builder, SECTION_SITES, lane);
    void *contents = dump_builder_contents(builder, SECTION_SITES, lane);
    section->kind = kind;
    section->index = 0;
    section->item_bytes = item_bytes;
    section->count = (uint32_t)(section->bytes / item_bytes);
    return contents;
}

static void add_device(struct dump_builder *builder) {
    struct device_state *device =
        turn_section(builder, DEVICE_LANE, SECTION_DEVICES, (uint32_t)sizeof(struct device_state));
    *device =
        (struct device_state){.version = 2, .backend = 1, .bus = "0000:3b:00.0", .name = "GPU", .capacity = 1 << 30};
    struct device_anchor *anchors =
        turn_section(builder, DEVICE_LANE + 1, SECTION_DEVICE_ANCHORS, (uint32_t)sizeof(struct device_anchor));
    for (uint64_t i = 0; i < 4; i++)
        anchors[i] = (struct device_anchor){
            .version = 2, .source = SOURCE_GPU_EVENT, .monotonic_ns = 1000 * i, .width_ns = 10, .reserved = {i}};
    struct sensor_row *sensor =
        turn_section(builder, DEVICE_LANE + 2, SECTION_SENSORS, (uint32_t)sizeof(struct sensor_row));
    *sensor = (struct sensor_row){.call = NCCL_ALL_REDUCE, .wrapped = LAUNCHES, .plugged = LAUNCHES - 1};
    struct transfer_row *transfer =
        turn_section(builder, DEVICE_LANE + 3, SECTION_TRANSFERS, (uint32_t)sizeof(struct transfer_row));
    *transfer =
        (struct transfer_row){.version = 2, .comm = 2, .sends = 1, .operations = 3, .bytes = 4096, .wait_wire = 9};
    dump_builder_lane(builder, DEVICE_LANE)->device = 1;
}

/* Reductions of NCCL, each enqueued, run, and waited for by a stream. */
static void add_gpu(struct dump_builder *builder, int32_t rank) {
    add_device(builder);
    dump_builder_call(builder, NCCL_ALL_REDUCE, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE, 1, "ncclAllReduce");
    struct call_name *calls = dump_builder_contents(builder, SECTION_CALLS, 0);
    for (uint32_t i = 0; i < dump_builder_section(builder, SECTION_CALLS, 0)->count; i++)
        if (calls[i].id == NCCL_ALL_REDUCE)
            calls[i].api = API_NCCL;
    const struct member_run all = {0, 8, 1};
    uint32_t comm = dump_builder_communicator(builder, 77, "", rank, &all, 1);
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        uint64_t start = 30 * i + (uint64_t)rank;
        struct record record = {.kind = RECORD_POST,
                                .call = NCCL_ALL_REDUCE,
                                .comm = comm,
                                .seq = i,
                                .op = 1000 + i,
                                .t0 = start,
                                .t1 = start + 2,
                                .bytes = 256,
                                .peer = PEER_NONE,
                                .tag = 1000 + (int32_t)i,
                                .flags = FLAG_COLLECTIVE,
                                .redop = 1,
                                .stack = 1};
        dump_builder_record(builder, 0, &record);
        record.kind = i % 2 ? RECORD_GPU : RECORD_KERNEL;
        record.t0 = start + 5;
        record.t1 = start + 25;
        record.tag = 0;
        dump_builder_record(builder, DEVICE_LANE, &record);
        record.kind = i % 8 ? RECORD_EXPOSED : RECORD_MEMORY;
        record.comm = COMM_NONE;
        dump_builder_record(builder, DEVICE_LANE, &record);
    }
    struct operation_row *row = dump_builder_operation(builder, DEVICE_LANE);
    row->call = NCCL_ALL_REDUCE;
    row->source = SOURCE_GPU_EVENT;
    row->bytes = 256;
    row->comm_epoch = comm;
    for (uint32_t i = 0; i < LAUNCHES; i++)
        dump_builder_count(row, 256, 20);
    dump_builder_progress(builder, comm)->enqueued = LAUNCHES;
}

/* Sends and receives around a ring of all ranks, with marks between them. */
static void add_messages(struct dump_builder *builder, int32_t rank) {
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t start = 60 * i + 20 + (uint64_t)rank;
        dump_builder_p2p(builder, 1, BUILDER_ISEND, 0, FLAG_SEND, (rank + 1) % 8, 7, i, 64, start, start + 3);
        dump_builder_p2p(builder, 1, BUILDER_RECV, 0, FLAG_RECV, (rank + 7) % 8, 7, i, 64, start + 4, start + 9);
        const struct record mark = {.kind = RECORD_MARK, .t0 = start, .t1 = start, .tag = 100, .comm = COMM_NONE};
        dump_builder_record(builder, 1, &mark);
    }
}

/* A small dump with something in every section. */
struct dump_builder *fuzz_sound_dump(int32_t rank) {
    struct dump_builder *builder = dump_builder_new(
        &(struct dump_plan){.rank = rank, .world_size = 8, .lanes = LANES, .ring_records = 256, .windows = 4});
    const struct member_run runs[] = {{0, 3, 2}, {1, 1, 1}};
    if (rank % 2)
        dump_builder_host(builder, "host1", "00000000-0000-4000-8000-000000000001", 4026531834u);
    dump_builder_standard_calls(builder);
    for (uint64_t i = 0; i < 8; i++)
        dump_builder_anchor(builder, 1000 * i, 1000 * i, 5000 + 1000 * i, 3);
    dump_builder_world(builder);
    uint32_t other = dump_builder_communicator(builder, 42, "other", 0, runs, 2);
    dump_builder_freed(builder, other, 99, 3);
    dump_builder_epoch(builder, 1, 50);
    for (uint32_t lane = 0; lane < 2; lane++) {
        struct operation_row *row = dump_builder_operation(builder, lane);
        row->call = BUILDER_ALLREDUCE;
        row->source = SOURCE_HOST;
        row->bytes = 8;
        for (uint32_t i = 0; i < 100; i++) {
            dump_builder_count(row, 8, 10 + i);
            dump_builder_collective(builder, lane, BUILDER_ALLREDUCE, 0, i, 8, 20 * i, 20 * i + 10);
        }
        struct site_row *site = dump_builder_site(builder, lane);
        site->count = 1;
        site->call = BUILDER_ALLREDUCE;
        site->stack = lane + 1;
        dump_builder_peer(builder, lane)->count = 1;
    }
    /* a file that is not there: what is in files is test_symbols' to break */
    dump_builder_module(builder, "/nowhere/lib.so", "identity", 8, 0x400000, 0x1000);
    dump_builder_stack(builder, 1,
                       (const uint64_t[]){0x400010, 0x400020, STACK_ENTRY_PYTHON | STACK_PYTHON_ENTRY | 1ull << 32 | 7,
                                          STACK_ENTRY_CUT, STACK_ENTRY_LABEL | 1},
                       5);
    dump_builder_module_gone(builder, 0x400000);
    dump_builder_stack(builder, 2, (const uint64_t[]){0x400010}, 1);
    dump_builder_code(builder, 1, "forward", "/x/torch/utils/checkpoint.py");
    dump_builder_string(builder, 1, "range");
    struct window_block *block = dump_builder_window(builder, 0, 5);
    for (uint64_t ticket = 3; ticket < 20; ticket++)
        block->records[block->used++] = (struct record){.commit = ticket + 1, .kind = RECORD_CALL};
    dump_builder_progress(builder, 0)->enqueued = 3;
    dump_builder_in_flight(builder)->call = BUILDER_BARRIER;
    dump_builder_pending(builder)->call = BUILDER_IALLREDUCE;
    add_messages(builder, rank);
    add_gpu(builder, rank);
    return builder;
}

/* Applies one patch. Returns the file's new length. */
static size_t apply(uint8_t *file, size_t bytes, const struct dump_header *sound, const uint8_t *data) {
    static const size_t widths[] = {1, 2, 4, 8};
    uint64_t value;
    uint16_t units;
    memcpy(&units, data + 2, sizeof units);
    memcpy(&value, data + 4, sizeof value);
    size_t start = 0, offset = units * (size_t)4 % SECTION_ALIGN, width = widths[data[1] % 4];
    if (data[0] == CUT)
        return value % (bytes + 1);
    if (data[0] > 0 && data[0] <= SECTIONS_MAX)
        start = sound->sections[data[0] - 1].offset;
    if (start + offset + width <= bytes)
        memcpy(file + start + offset, &value, width);
    return bytes;
}

size_t fuzz_damage(uint8_t *file, size_t bytes, const void *original, const uint8_t *data, size_t size) {
    size_t length = bytes;
    for (size_t at = 0; at + PATCH_BYTES <= size; at += PATCH_BYTES) {
        size_t end = apply(file, bytes, original, data + at);
        length = end < length ? end : length;
    }
    return length;
}
