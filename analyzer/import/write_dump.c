/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank of a trace as a dump file.
 * Lives here: the layout, the ring (all events are kept).
 * Must not live here: trace formats, tables of what all operations add up to (aggregates.h).
 */
#include "analyzer/base/output_mode.h"
#include "analyzer/import/aggregates.h"
#include "analyzer/import/formats.h"
#include "analyzer/import/write_dump.h"
#include "analyzer/import/write_stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/base/hash.h"
#include "analyzer/import/histories.h"

enum { PAUSE_MARK = 0, RESUME_MARK = 1, STEP_MARK = 100 /* and above: levels of MPI_Pcontrol */ };
enum { ANCHORS = 2, LEAD_NS = 1000000000, PATH_BYTES = 4096, PART_BYTES = 4096 /* divides every section */ };

/* What one rank needs. */
struct plan {
    mode_t mode; /* of the files */
    const struct trace *trace;
    int32_t rank;
    const struct trace_event *events;
    size_t event_count;
    const struct trace_mark *marks;
    size_t mark_count;
    const struct trace_sample *samples;
    size_t sample_count;
    int64_t base_ns, from_ns, to_ns; /* of the whole trace; ticks count from base_ns */
    int64_t begin_ns, end_ns;        /* the first and the newest moment that are on record of the rank */
    uint64_t run;
    uint32_t ring_records, definition_bytes;
    struct written_stacks *stacks;
    const uint32_t *history_first; /* histories_begin */
    const uint64_t *open_from; /* per communicator: the first collective that has not ended on some rank; none: behind
                                  the newest; UINT64_MAX: there are no collectives */
    uint32_t *ops;             /* of the rank's events */
    uint32_t *launched;        /* the events in the order of their ops, and in return */
    uint32_t *places;          /* where each is in that */
};

struct dump_image {
    uint8_t *base;
    size_t bytes;
    uint32_t sections;
};

static size_t align_up(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
}

static uint64_t ticks_of(const struct plan *plan, int64_t ns) {
    return (uint64_t)(ns - plan->base_ns);
}

/* ---- layout ---------------------------------------------------------------------------------- */

struct planned_section {
    uint32_t kind, count, item_bytes;
};

enum {
    PART_CALLS,
    PART_ANCHORS,
    PART_IN_FLIGHT,
    PART_PENDING,
    PART_PROGRESS,
    PART_DEFINITIONS,
    PART_LANES,
    PART_RING,
    PART_OPERATIONS,
    PART_SITES,
    PART_PEERS,
    PART_DEVICES,
    PART_DEVICE_ANCHORS,
    PARTS
};

static void list_parts(const struct plan *plan, const struct aggregates *aggregates,
                       struct planned_section parts[PARTS]) {
    uint32_t communicators = (uint32_t)plan->trace->communicator_count;
    parts[PART_CALLS] =
        (struct planned_section){SECTION_CALLS, (uint32_t)plan->trace->call_count, sizeof(struct call_name)};
    parts[PART_ANCHORS] = (struct planned_section){SECTION_ANCHORS, ANCHORS, sizeof(struct clock_anchor)};
    parts[PART_IN_FLIGHT] = (struct planned_section){SECTION_IN_FLIGHT, 1, sizeof(struct in_flight)};
    parts[PART_PENDING] = (struct planned_section){SECTION_PENDING, 1, sizeof(struct pending)};
    parts[PART_PROGRESS] = (struct planned_section){SECTION_PROGRESS, communicators + 1, sizeof(struct progress)};
    parts[PART_DEFINITIONS] = (struct planned_section){SECTION_DEFINITIONS, plan->definition_bytes, 1};
    parts[PART_LANES] = (struct planned_section){SECTION_LANES, 1, sizeof(struct lane_state)};
    parts[PART_RING] = (struct planned_section){SECTION_RING, plan->ring_records, sizeof(struct record)};
    parts[PART_OPERATIONS] =
        (struct planned_section){SECTION_OPERATIONS, aggregates->rows, sizeof(struct operation_row)};
    parts[PART_SITES] = (struct planned_section){SECTION_SITES, aggregates->site_rows, sizeof(struct site_row)};
    parts[PART_PEERS] = (struct planned_section){SECTION_PEERS, aggregates->peer_rows, sizeof(struct peer_row)};
    parts[PART_DEVICES] = (struct planned_section){SECTION_DEVICES, 1, sizeof(struct device_state)};
    parts[PART_DEVICE_ANCHORS] =
        (struct planned_section){SECTION_DEVICE_ANCHORS, ANCHORS, sizeof(struct device_anchor)};
}

static bool lay_out(struct dump_image *image, const struct plan *plan, const struct aggregates *aggregates) {
    struct planned_section parts[PARTS];
    list_parts(plan, aggregates, parts);
    image->bytes = SECTION_ALIGN;
    for (size_t i = 0; i < PARTS; i++)
        image->bytes += align_up((size_t)parts[i].count * parts[i].item_bytes, SECTION_ALIGN);
    image->base = mmap(NULL, image->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (image->base == MAP_FAILED) {
        image->base = NULL;
        return false;
    }
    struct dump_header *header = (struct dump_header *)image->base;
    uint64_t offset = SECTION_ALIGN;
    for (size_t i = 0; i < PARTS; i++) {
        size_t bytes = align_up((size_t)parts[i].count * parts[i].item_bytes, SECTION_ALIGN);
        header->sections[i] = (struct section){.kind = parts[i].kind,
                                               .offset = offset,
                                               .bytes = bytes,
                                               .count = parts[i].count,
                                               .item_bytes = parts[i].item_bytes};
        offset += bytes;
    }
    return true;
}

static void *contents(const struct dump_image *image, int part) {
    return image->base + ((const struct dump_header *)image->base)->sections[part].offset;
}

/* ---- header and clocks ----------------------------------------------------------------------- */

/* Ranks are dumped one after the other, and what each one's file holds has a beginning and an end of its own. Where the
 * time of the file is not known the rank is taken to have lived until the newest moment of all. */
static void find_span_of_rank(struct plan *plan) {
    bool known = plan->trace->ranks[plan->rank].written_ns > 0;
    plan->begin_ns = plan->from_ns;
    plan->end_ns = plan->to_ns;
    if (!plan->trace->running)
        return;
    int64_t first = INT64_MAX, last = plan->from_ns;
    for (size_t i = 0; i < plan->event_count; i++) {
        const struct trace_event *event = &plan->events[i];
        int64_t end = event->leave_ns > event->returned_ns ? event->leave_ns : event->returned_ns;
        first = event->posted_ns < first ? event->posted_ns : first;
        last = end > last ? end : last;
    }
    plan->begin_ns = first < INT64_MAX ? first : plan->from_ns;
    plan->end_ns = known ? last : plan->to_ns;
}

/* Whatever was copied later has a later time: it is a bound. */
static uint32_t lived_on(const struct plan *plan, const struct trace_rank *rank) {
    if (!plan->trace->running || rank->written_ns <= 0)
        return 0;
    int64_t ms = rank->written_ns > plan->end_ns ? (rank->written_ns - plan->end_ns + 999999) / 1000000 : 0;
    return ms < UINT32_MAX ? (uint32_t)ms + 1 : 0;
}

static void fill_gpu_timing(struct dump_header *header, const struct plan *plan) {
    header->gpu_timing = plan->trace->kernels  ? GPU_TIMING_KERNEL
                         : plan->trace->device ? GPU_TIMING_EVENTS
                                               : GPU_TIMING_OFF;
    if (plan->trace->running && !plan->trace->ranks[plan->rank].tells_start)
        snprintf(header->gpu_timing_why, sizeof header->gpu_timing_why,
                 "no beginning is on record: TORCH_NCCL_ENABLE_TIMING=1 has them noted");
}

static void fill_header(const struct dump_image *image, const struct plan *plan) {
    const struct trace_rank *rank = &plan->trace->ranks[plan->rank];
    struct dump_header *header = (struct dump_header *)image->base;
    memcpy(header->magic, FORMAT_MAGIC, sizeof header->magic);
    header->version = FORMAT_VERSION;
    header->byte_order = FORMAT_BYTE_ORDER;
    header->header_bytes = sizeof *header;
    header->section_bytes = sizeof(struct section);
    header->record_bytes = sizeof(struct record);
    header->state = STATE_ACTIVE | STATE_INITIALISED;
    if (rank->unread) {
        header->state |= STATE_SWITCHED_OFF;
        snprintf(header->trouble, sizeof header->trouble, "nothing in its file could be read");
    }
    if (!plan->trace->running)
        header->state |= STATE_FINALISED | STATE_EXITED;
    snprintf(header->run_id, sizeof header->run_id, "import-%016" PRIx64, plan->run);
    header->world_id = plan->run;
    header->rank = plan->rank;
    header->world_size = plan->trace->world_size;
    header->local_rank = header->local_size = -1;
    header->rank_source = RANK_FROM_LIBRARY;
    snprintf(header->host, sizeof header->host, "%s", rank->host_name);
    snprintf(header->boot_id, sizeof header->boot_id, "%08" PRIx32 "-0000-4000-8000-%012" PRIx64, rank->host,
             plan->run >> 16);
    header->activated_ticks = header->initialised_ticks = ticks_of(plan, plan->begin_ns);
    header->exited_ticks = plan->trace->running ? 0 : ticks_of(plan, plan->to_ns);
    header->lived_on_ms = lived_on(plan, rank);
    snprintf(header->launcher, sizeof header->launcher, "import");
    snprintf(header->writer, sizeof header->writer, "commtap import");
    snprintf(header->command, sizeof header->command, "%s: %s", plan->trace->format, rank->where);
    header->ring_records = plan->ring_records;
    header->clock_kind = CLOCK_KIND_MONOTONIC;
    header->tick_hz_hint = 1000000000;
    fill_gpu_timing(header, plan);
    header->section_limit = SECTIONS_MAX;
    header->pauses = rank->pauses;
}

/* What PyTorch reserved is the least that was in use. A capacity that this exceeds is none. */
static void fill_memory(struct device_state *device, const struct plan *plan) {
    for (size_t i = 0; i < plan->sample_count; i++) {
        uint64_t bytes = plan->samples[i].bytes;
        if (plan->samples[i].call != import_memory_reserved)
            continue;
        device->memory_used = bytes;
        device->memory_peak = bytes > device->memory_peak ? bytes : device->memory_peak;
        device->memory_samples++;
    }
    uint64_t capacity = plan->trace->ranks[plan->rank].gpu_bytes;
    device->capacity = capacity >= device->memory_peak ? capacity : 0;
}

/* 1 tick is 1 ns of the trace; its precision is a microsecond. */
static void fill_clocks(const struct dump_image *image, const struct plan *plan) {
    struct clock_anchor *anchors = contents(image, PART_ANCHORS);
    struct device_anchor *devices = contents(image, PART_DEVICE_ANCHORS);
    int64_t moments[ANCHORS] = {plan->begin_ns, plan->end_ns > plan->begin_ns ? plan->end_ns : plan->begin_ns + 1};
    uint64_t epoch = plan->base_ns > 0 ? (uint64_t)plan->base_ns : 0; /* some traces count from their beginning */
    for (size_t i = 0; i < ANCHORS; i++) {
        uint64_t ticks = ticks_of(plan, moments[i]);
        anchors[i] = (struct clock_anchor){2, ticks, ticks, ticks + epoch, 1, {0}};
        if (plan->trace->device)
            devices[i] = (struct device_anchor){.version = 2,
                                                .source = SOURCE_GPU_EVENT,
                                                .monotonic_ns = ticks,
                                                .width_ns = (uint64_t)plan->trace->resolution_ns};
    }
    if (!plan->trace->device)
        return;
    struct device_state *device = contents(image, PART_DEVICES);
    const struct trace_rank *rank = &plan->trace->ranks[plan->rank];
    *device = (struct device_state){.version = 2, .backend = 1, .memory_used = BYTES_UNKNOWN};
    device->ordinal = rank->gpu_name[0] ? rank->gpu : 0;
    snprintf(device->name, sizeof device->name, "%s", rank->gpu_name);
    fill_memory(device, plan);
}

static void fill_calls(const struct dump_image *image, const struct trace *trace) {
    struct call_name *names = contents(image, PART_CALLS);
    for (size_t i = 0; i < trace->call_count; i++) {
        const struct trace_call *call = &trace->calls[i];
        names[i] = (struct call_name){.id = (uint16_t)(i + 1),
                                      .api = (uint8_t)call->api,
                                      .call_class = (uint8_t)call->call_class,
                                      .busbw = (uint8_t)call->busbw,
                                      .flow = (uint8_t)call->flow,
                                      .nonblocking = call->api == API_NCCL};
        snprintf(names[i].name, sizeof names[i].name, "%s", call->name);
        if (call->torch)
            snprintf(names[i].torch, sizeof names[i].torch, "%s", call->torch);
    }
}

/* ---- communicators --------------------------------------------------------------------------- */

/* Members as runs of equal distance. Returns their number; `runs` may be NULL. */
static uint32_t make_runs(const struct trace_communicator *communicator, struct member_run *runs) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < communicator->size;) {
        const int32_t *members = communicator->members + i;
        uint32_t left = communicator->size - i, length = 1;
        int32_t stride = left > 1 ? members[1] - members[0] : 1;
        while (length < left && members[length] - members[length - 1] == stride)
            length++;
        if (runs)
            runs[count] = (struct member_run){members[0], length, stride};
        count++;
        i += length;
    }
    return count;
}

static size_t definition_bytes(const struct trace_communicator *communicator) {
    return align_up(sizeof(struct communicator_definition) + make_runs(communicator, NULL) * sizeof(struct member_run),
                    16) +
           align_up(sizeof(struct communicator_name_definition) + strlen(communicator->name), 16);
}

/* The rank's place in a communicator, as far as it is known what it did there; else -1. */
static int32_t own_place(const struct plan *plan, const struct trace_communicator *communicator) {
    return plan->trace->ranks[plan->rank].unread ? -1 : trace_member(communicator, plan->rank);
}

/* Local indices are the trace's. Returns where the next definition goes. */
static uint8_t *define_communicators(const struct dump_image *image, const struct plan *plan) {
    uint8_t *at = contents(image, PART_DEFINITIONS);
    for (size_t i = 0; i < plan->trace->communicator_count; i++) {
        const struct trace_communicator *communicator = &plan->trace->communicators[i];
        int32_t own = own_place(plan, communicator);
        if (own < 0)
            continue;
        struct communicator_definition *definition = (struct communicator_definition *)at;
        definition->uid = communicator->uid;
        definition->members_hash = communicator->uid;
        definition->created_ticks = ticks_of(plan, plan->begin_ns);
        definition->index = (uint32_t)i;
        definition->kind = COMMUNICATOR_INTRA;
        definition->size = communicator->size;
        definition->my_rank = own;
        definition->run_count = make_runs(communicator, (struct member_run *)(definition + 1));
        definition->head.bytes =
            (uint32_t)align_up(sizeof *definition + definition->run_count * sizeof(struct member_run), 16);
        definition->head.commit = DEFINITION_MAGIC | DEFINITION_COMMUNICATOR;
        at += definition->head.bytes;
        struct communicator_name_definition *name = (struct communicator_name_definition *)at;
        name->index = (uint32_t)i;
        name->length = (uint32_t)strlen(communicator->name);
        memcpy(name->name, communicator->name, name->length);
        name->head.bytes = (uint32_t)align_up(sizeof *name + name->length, 16);
        name->head.commit = DEFINITION_MAGIC | DEFINITION_COMMUNICATOR_NAME;
        at += name->head.bytes;
    }
    return at;
}

static void note_collective(struct progress *row, const struct plan *plan, const struct trace_event *event) {
    uint64_t number = event->seq == SEQ_NONE ? row->enqueued : event->seq + UINT64_C(1);
    if (number > row->enqueued) {
        row->enqueued = number;
        row->last_call = event->call + 1u;
        row->last_enter = ticks_of(plan, plan->trace->device ? event->posted_ns : event->enter_ns);
    }
    if (event->state >= TRACE_STARTED && number > row->started)
        row->started = number;
    if (event->state == TRACE_FINISHED && number > row->completed)
        row->completed = number;
}

/* Launches are numbered so that what has ended comes first, and what has begun before what has not. */
static void note_launch(struct progress *row, const struct plan *plan, size_t number) {
    const struct trace_event *event = &plan->events[number];
    uint32_t op = plan->ops[number];
    bool message = plan->trace->calls[event->call].call_class != CLASS_COLLECTIVE;
    if (event->grouped) /* the group is the launch */
        return;
    row->launched_op = op > row->launched_op ? op : row->launched_op;
    if (event->state == TRACE_FINISHED && op > row->ended_op)
        row->ended_op = op;
    if ((event->state == TRACE_FINISHED || (event->state == TRACE_STARTED && message)) && op > row->begun_op)
        row->begun_op = op;
}

/* What comes before the first that has not ended has ended, whether a recorder still has it or not. Of operations that
 * have not ended alone, who has none has ended all, and has not called what others are in. Nor has, of a recorder that
 * keeps the newest, who has none left of that communicator. */
static void raise_to_open(const struct plan *plan, struct progress *rows, const uint64_t *first_open) {
    for (size_t c = 0; c < plan->trace->communicator_count; c++) {
        struct progress *row = &rows[c];
        bool member = own_place(plan, &plan->trace->communicators[c]) >= 0;
        bool none_left = plan->trace->running && plan->trace->ranks[plan->rank].lost && row->enqueued == 0;
        uint64_t ended = first_open[c] < UINT64_MAX                        ? first_open[c]
                         : member && (plan->trace->only_open || none_left) ? plan->open_from[c]
                                                                           : UINT64_MAX;
        if (ended == UINT64_MAX || ended <= row->completed)
            continue;
        row->version = 2;
        row->comm = (uint32_t)c;
        row->completed = ended;
        row->started = row->started > ended ? row->started : ended;
        row->enqueued = row->enqueued > ended ? row->enqueued : ended;
    }
}

/* How far the rank came on each communicator: there all operations count, also those that never ended. In a trace of
 * a job that went on all have ended, wherever it begins: nothing is left to compare, and of no history a hash is known.
 */
static bool fill_progress(const struct dump_image *image, const struct plan *plan) {
    struct progress *rows = contents(image, PART_PROGRESS);
    size_t communicators = plan->trace->communicator_count;
    uint64_t *first_open = malloc((communicators + 1) * sizeof *first_open);
    if (!first_open)
        return false;
    memset(first_open, 0xff, (communicators + 1) * sizeof *first_open);
    for (size_t i = 0; i < plan->event_count; i++) {
        const struct trace_event *event = &plan->events[i];
        bool collective = plan->trace->calls[event->call].call_class == CLASS_COLLECTIVE;
        if (event->communicator == COMM_NONE || (!collective && !plan->trace->running))
            continue;
        struct progress *row = &rows[event->communicator];
        row->version = 2;
        row->comm = event->communicator;
        if (collective)
            note_collective(row, plan, event);
        if (plan->trace->running)
            note_launch(row, plan, i);
        if (collective && plan->trace->running && event->state != TRACE_FINISHED &&
            event->seq < first_open[event->communicator])
            first_open[event->communicator] = event->seq;
    }
    if (plan->trace->running)
        raise_to_open(plan, rows, first_open);
    for (size_t c = 0; c < communicators && !plan->trace->running; c++)
        rows[c].hashed = rows[c].enqueued;
    free(first_open);
    return !plan->trace->running ||
           histories_fill(plan->trace, plan->history_first, plan->events, plan->event_count, rows);
}

/* ---- records --------------------------------------------------------------------------------- */

static uint16_t flags_of(const struct plan *plan, const struct trace_event *event) {
    enum call_class class = plan->trace->calls[event->call].call_class;
    if (class == CLASS_OTHER || class == CLASS_GROUP)
        return 0;
    uint16_t flags = class == CLASS_SEND ? FLAG_SEND : class == CLASS_RECV ? FLAG_RECV : FLAG_COLLECTIVE;
    int32_t own = trace_member(&plan->trace->communicators[event->communicator], plan->rank);
    return flags == FLAG_COLLECTIVE && event->peer == own ? flags | FLAG_ROOT : flags;
}

static void put_record(const struct dump_image *image, struct record record) {
    struct lane_state *lane = contents(image, PART_LANES);
    record.commit = ++lane->head;
    ((struct record *)contents(image, PART_RING))[lane->head - 1] = record;
}

/* Of the group that a message belongs to: it follows its messages. */
static uint32_t group_op(const struct plan *plan, size_t number) {
    size_t at = plan->places[number];
    while (plan->events[plan->launched[at]].grouped)
        at++;
    return plan->ops[plan->launched[at]];
}

/* Beside an operation that had not ended: what only the other tool tells of it. */
static void put_told(const struct dump_image *image, const struct plan *plan, const struct trace_event *event,
                     uint32_t op) {
    uint64_t at = ticks_of(plan, event->posted_ns);
    put_record(image, (struct record){.t0 = at,
                                      .t1 = at,
                                      .bytes = event->bytes_out,
                                      .seq = event->number,
                                      .op = op,
                                      .comm = event->communicator,
                                      .peer = PEER_NONE,
                                      .tag = TAG_NONE,
                                      .kind = RECORD_TOLD,
                                      .result = event->begun_seen ? TOLD_BEGUN : 0});
}

/* A trace of the host: a blocking call. A GPU's: the enqueueing call, and where it ran. Own work is never waited for.
 */
static void put_event(const struct dump_image *image, const struct plan *plan, size_t number) {
    const struct trace_event *event = &plan->events[number];
    struct record record = {.bytes = event->bytes,
                            .seq = event->seq,
                            .op = plan->ops[number],
                            .comm = event->communicator,
                            .peer = event->peer,
                            .tag = event->tag,
                            .stack = event->stack,
                            .call = (uint16_t)(event->call + 1),
                            .flags = flags_of(plan, event),
                            .kind = RECORD_CALL,
                            .dtype = event->dtype};
    if (plan->trace->device && event->communicator != COMM_NONE) {
        bool group = plan->trace->calls[event->call].call_class == CLASS_GROUP;
        /* of a recorder of open operations, that it ended is concluded */
        bool unsure = event->state != TRACE_FINISHED || plan->trace->ranks[plan->rank].only_open;
        if (plan->trace->running && unsure)
            put_told(image, plan, event, record.op);
        record.kind = group ? RECORD_GROUP : RECORD_POST;
        record.t0 = ticks_of(plan, event->posted_ns);
        record.t1 = ticks_of(plan, event->returned_ns);
        record.tag = event->grouped ? (int32_t)group_op(plan, number) : TAG_NONE;
        put_record(image, record);
        if (!event->timed)
            return;
        record.kind = RECORD_GPU;
        record.tag = 0;
    }
    record.t0 = ticks_of(plan, event->enter_ns);
    record.t1 = ticks_of(plan, event->leave_ns);
    put_record(image, record);
}

static void put_mark(const struct dump_image *image, const struct plan *plan, const struct trace_mark *mark) {
    static const int32_t levels[] = {
        [TRACE_PAUSED] = PAUSE_MARK, [TRACE_RESUMED] = RESUME_MARK, [TRACE_STEP] = STEP_MARK};
    uint64_t at = ticks_of(plan, mark->at_ns);
    put_record(image, (struct record){.t0 = at,
                                      .t1 = at,
                                      .comm = COMM_NONE,
                                      .seq = SEQ_NONE,
                                      .peer = PEER_NONE,
                                      .tag = levels[mark->kind],
                                      .kind = RECORD_MARK});
}

static void put_sample(const struct dump_image *image, const struct plan *plan, const struct trace_sample *sample) {
    uint64_t at = ticks_of(plan, sample->at_ns);
    put_record(image, (struct record){.t0 = at,
                                      .t1 = at,
                                      .bytes = sample->bytes,
                                      .comm = COMM_NONE,
                                      .seq = SEQ_NONE,
                                      .peer = PEER_NONE,
                                      .tag = 0,
                                      .call = (uint16_t)(sample->call + 1),
                                      .kind = RECORD_MEMORY});
}

/* The rank's events, and its marks and samples among them. */
static void put_records(const struct dump_image *image, const struct plan *plan) {
    size_t mark = 0, sample = 0;
    for (size_t i = 0; i < plan->event_count; i++) {
        const struct trace_event *event = &plan->events[i];
        int64_t begin = plan->trace->device ? event->posted_ns : event->enter_ns;
        for (; mark < plan->mark_count && plan->marks[mark].at_ns <= begin; mark++)
            put_mark(image, plan, &plan->marks[mark]);
        for (; sample < plan->sample_count && plan->samples[sample].at_ns <= begin; sample++)
            put_sample(image, plan, &plan->samples[sample]);
        put_event(image, plan, i);
    }
    for (; mark < plan->mark_count; mark++)
        put_mark(image, plan, &plan->marks[mark]);
    for (; sample < plan->sample_count; sample++)
        put_sample(image, plan, &plan->samples[sample]);
}

/* ---- one file -------------------------------------------------------------------------------- */

static int write_part(int fd, const uint8_t *base, size_t from, size_t to) {
    while (from < to) {
        ssize_t written = pwrite(fd, base + from, to - from, (off_t)from);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return -1;
        from += (size_t)written;
    }
    return 0;
}

static bool is_zero(const uint8_t *bytes, size_t count) {
    static const uint8_t zeros[PART_BYTES];
    return memcmp(bytes, zeros, count) == 0;
}

/* Most of an image is room that nothing needed: it stays a hole. */
static int write_all(int fd, const uint8_t *base, size_t bytes) {
    if (ftruncate(fd, (off_t)bytes) != 0)
        return -1;
    for (size_t at = 0; at < bytes; at += PART_BYTES)
        if (!is_zero(base + at, PART_BYTES) && write_part(fd, base, at, at + PART_BYTES) != 0)
            return -1;
    return 0;
}

/* Under another name first: what bears the dump's name may be a link to another file, or a FIFO. */
static int write_file(const struct dump_image *image, const struct plan *plan, const char *directory) {
    char path[PATH_BYTES], partial[PATH_BYTES + 32];
    int length =
        snprintf(path, sizeof path, "%s/" FORMAT_FILE_PREFIX "import-%016" PRIx64 ".%016" PRIx64 FORMAT_FILE_SUFFIX,
                 directory, plan->run, (uint64_t)plan->rank);
    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(partial, sizeof partial, "%s.%ld.partial", path, (long)getpid());
    int fd = open(partial, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    output_give_mode(fd, plan->mode);
    int result = write_all(fd, image->base, image->bytes), error = errno;
    if (close(fd) != 0 && result == 0) {
        result = -1;
        error = errno;
    }
    if (result == 0 && rename(partial, path) == 0)
        return 0;
    error = result == 0 ? errno : error;
    unlink(partial);
    errno = error;
    return -1;
}

static bool plan_sizes(struct plan *plan, struct aggregates *aggregates) {
    size_t definitions = 0,
           records = plan->event_count * (1 + (size_t)plan->trace->device) + plan->mark_count + plan->sample_count;
    for (size_t i = 0; i < plan->trace->communicator_count; i++)
        if (own_place(plan, &plan->trace->communicators[i]) >= 0)
            definitions += definition_bytes(&plan->trace->communicators[i]);
    definitions += write_stacks(NULL, plan->trace, plan->events, plan->event_count, plan->stacks);
    plan->ring_records = 64;
    while (plan->ring_records < records && plan->ring_records < 1u << 30)
        plan->ring_records *= 2;
    aggregates_measure(aggregates);
    plan->definition_bytes = (uint32_t)align_up(definitions + 1, SECTION_ALIGN);
    if (records <= plan->ring_records && definitions < UINT32_MAX / 2)
        return true;
    errno = EFBIG;
    return false;
}

/* Ended, then messages that have begun, then other things that have, then what has not. */
static int stage_of(const struct plan *plan, const struct trace_event *event) {
    bool collective =
        event->communicator != COMM_NONE && plan->trace->calls[event->call].call_class == CLASS_COLLECTIVE;
    return event->state == TRACE_FINISHED ? 0 : event->state == TRACE_POSTED ? 3 : collective ? 2 : 1;
}

static int compare_ops(const void *a, const void *b, void *context) {
    const struct plan *plan = context;
    const struct trace_event *left = &plan->events[*(const uint32_t *)a], *right = &plan->events[*(const uint32_t *)b];
    int stages = stage_of(plan, left) - stage_of(plan, right);
    if (stages != 0)
        return stages;
    if (left->launch != right->launch)
        return left->launch < right->launch ? -1 : 1;
    if (left->grouped != right->grouped)
        return left->grouped ? -1 : 1;
    return (left > right) - (left < right);
}

static bool number_ops(struct plan *plan) {
    size_t room = plan->event_count + 1;
    plan->ops = malloc(room * sizeof *plan->ops);
    plan->launched = malloc(room * sizeof *plan->launched);
    plan->places = malloc(room * sizeof *plan->places);
    if (!plan->ops || !plan->launched || !plan->places)
        return false;
    for (uint32_t i = 0; i < plan->event_count; i++)
        plan->launched[i] = i;
    if (plan->trace->running && plan->event_count > 0)
        qsort_r(plan->launched, plan->event_count, sizeof *plan->launched, compare_ops, plan);
    for (uint32_t i = 0; i < plan->event_count; i++) {
        plan->places[plan->launched[i]] = i;
        plan->ops[plan->launched[i]] = i + 1;
    }
    return true;
}

static int write_rank(struct plan *plan, const char *directory) {
    struct aggregates aggregates;
    struct dump_image image = {0};
    int result = -1;
    if (!aggregates_take(&aggregates, plan->trace, plan->events, plan->event_count))
        return -1;
    if (number_ops(plan) && plan_sizes(plan, &aggregates) && lay_out(&image, plan, &aggregates)) {
        fill_header(&image, plan);
        fill_clocks(&image, plan);
        fill_calls(&image, plan->trace);
        uint8_t *next = define_communicators(&image, plan);
        write_stacks(next, plan->trace, plan->events, plan->event_count, plan->stacks);
        bool enough_memory = fill_progress(&image, plan);
        struct lane_state *lane = contents(&image, PART_LANES);
        lane->threads = 1;
        lane->shared = plan->trace->running; /* `op` does not grow with time */
        put_records(&image, plan);
        aggregates_fill(&aggregates, contents(&image, PART_OPERATIONS), contents(&image, PART_SITES),
                        contents(&image, PART_PEERS));
        result = enough_memory ? write_file(&image, plan, directory) : -1;
    }
    int error = errno;
    if (image.base)
        munmap(image.base, image.bytes);
    free(plan->ops);
    free(plan->launched);
    free(plan->places);
    aggregates_free(&aggregates);
    errno = error;
    return result;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Imports that differ are different runs, also where they differ in what is not understood. Which rank a document is of
 * may stand in its name. */
static uint64_t run_of(const struct trace *trace) {
    uint64_t hash = hash_mix(trace->fingerprint, (uint64_t)trace->world_size);
    for (int32_t rank = 0; rank < trace->world_size; rank++)
        hash = hash_mix(hash, trace->ranks[rank].seen);
    return hash;
}

static void find_span(const struct trace *trace, struct plan *plan) {
    plan->from_ns = INT64_MAX;
    plan->to_ns = INT64_MIN;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        int64_t first = trace->device && event->posted_ns < event->enter_ns ? event->posted_ns : event->enter_ns;
        plan->from_ns = first < plan->from_ns ? first : plan->from_ns;
        plan->to_ns = event->leave_ns > plan->to_ns ? event->leave_ns : plan->to_ns;
        if (trace->device && event->returned_ns > plan->to_ns)
            plan->to_ns = event->returned_ns;
    }
    for (size_t i = 0; i < trace->mark_count; i++) {
        plan->from_ns = trace->marks[i].at_ns < plan->from_ns ? trace->marks[i].at_ns : plan->from_ns;
        plan->to_ns = trace->marks[i].at_ns > plan->to_ns ? trace->marks[i].at_ns : plan->to_ns;
    }
    for (size_t i = 0; i < trace->sample_count; i++) {
        plan->from_ns = trace->samples[i].at_ns < plan->from_ns ? trace->samples[i].at_ns : plan->from_ns;
        plan->to_ns = trace->samples[i].at_ns > plan->to_ns ? trace->samples[i].at_ns : plan->to_ns;
    }
    plan->base_ns = plan->from_ns - LEAD_NS;
}

/* Returns how many were written that tell something, -1 with errno set. */
static int write_ranks(const struct trace *trace, struct plan *plan, const char *directory) {
    int written = 0;
    size_t at = 0, mark = 0, sample = 0;
    for (int32_t rank = 0; rank < trace->world_size; rank++) {
        size_t end = at, mark_end = mark, sample_end = sample;
        while (end < trace->event_count && trace->events[end].rank == rank)
            end++;
        while (mark_end < trace->mark_count && trace->marks[mark_end].rank == rank)
            mark_end++;
        while (sample_end < trace->sample_count && trace->samples[sample_end].rank == rank)
            sample_end++;
        plan->rank = rank;
        plan->events = trace->events + at;
        plan->event_count = end - at;
        find_span_of_rank(plan);
        plan->marks = trace->marks ? trace->marks + mark : NULL;
        plan->mark_count = mark_end - mark;
        plan->samples = trace->samples ? trace->samples + sample : NULL;
        plan->sample_count = sample_end - sample;
        at = end;
        mark = mark_end;
        sample = sample_end;
        if (!trace->ranks[rank].seen)
            continue;
        if (write_rank(plan, directory) != 0)
            return -1;
        written += !trace->ranks[rank].unread;
    }
    return written;
}

/* Per communicator, the first collective of anybody that has not ended. */
static uint64_t *find_open(const struct trace *trace) {
    uint64_t *open = malloc((trace->communicator_count + 1) * sizeof *open);
    uint64_t *behind = calloc(trace->communicator_count + 1, sizeof *behind);
    for (size_t c = 0; open && c < trace->communicator_count; c++)
        open[c] = UINT64_MAX;
    for (size_t i = 0; open && behind && i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->communicator >= trace->communicator_count || event->seq == SEQ_NONE ||
            trace->calls[event->call].call_class != CLASS_COLLECTIVE)
            continue;
        if (event->state != TRACE_FINISHED && event->seq < open[event->communicator])
            open[event->communicator] = event->seq;
        if (event->seq >= behind[event->communicator])
            behind[event->communicator] = event->seq + UINT64_C(1);
    }
    for (size_t c = 0; open && behind && c < trace->communicator_count; c++)
        if (open[c] == UINT64_MAX && behind[c] > 0)
            open[c] = behind[c];
    if (!behind) {
        free(open);
        open = NULL;
    }
    free(behind);
    return open;
}

int write_dumps(const struct trace *trace, const char *directory, mode_t mode) {
    struct written_stacks stacks;
    struct plan plan = {.trace = trace, .mode = mode, .run = run_of(trace), .stacks = &stacks};
    int written = -1;
    find_span(trace, &plan);
    uint32_t *history_first = histories_begin(trace);
    uint64_t *open_from = find_open(trace);
    plan.history_first = history_first;
    plan.open_from = open_from;
    if (written_stacks_init(&stacks, trace) && history_first && open_from)
        written = write_ranks(trace, &plan, directory);
    int error = errno;
    written_stacks_free(&stacks);
    free(history_first);
    free(open_from);
    errno = error;
    return written;
}
