/* SPDX-License-Identifier: Apache-2.0
 *
 * Flight-recorder dumps of PyTorch (dump_nccl_trace_json): one document per rank.
 * Lives here: entries and process groups of such a dump.
 * Must not live here: numbering, dumps.
 *
 * PyTorch writes them as pickles (pickle.h); the same content as JSON comes from
 * torch._C._distributed_c10d._dump_nccl_trace_json(). The rank is the number at the end of the file's name, as PyTorch
 * names them. Times of completion are when a watchdog looked, so they are known to WATCHDOG_NS only;
 * lengths are a GPU's (TORCH_NCCL_ENABLE_TIMING=1) or unknown.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash.h"
#include "analyzer/import/formats.h"

enum { WATCHDOG_NS = 200000000, NAME = 96, RANKS_NAMED = 16384 };

struct process_group {
    char name[NAME]; /* "0" */
    char text[NAME]; /* "default_pg" */
    int32_t *members;
    uint32_t count;
    uint32_t place; /* index + 1 of its communicator, 0 = not yet there */
};

struct entry {
    struct trace_event event; /* communicator and peer are not yet known */
    char group[NAME];
    int32_t partner; /* of a message, rank in the group; -1 = none */
    bool seen_started;
};

struct flight {
    struct import_limits *limits;
    struct entry *entries;
    size_t count, document_first;
    struct process_group *groups; /* of the present document, by name */
    size_t group_count;
    struct trace trace; /* of the documents so far */
    bool reading, no_memory, repeated;
    size_t dropped;
    int32_t *named; /* RANKS_NAMED: members as they are read */
};

static void *begin(struct import_limits *limits) {
    struct flight *flight = calloc(1, sizeof *flight);
    int32_t *named = malloc(RANKS_NAMED * sizeof *named);
    if (!flight || !named) {
        free(flight);
        free(named);
        return NULL;
    }
    flight->limits = limits;
    flight->named = named;
    flight->trace = (struct trace){.limits = limits,
                                   .format = import_flight.name,
                                   .calls = import_nccl_calls,
                                   .call_count = import_nccl_call_count,
                                   .device = true,
                                   .running = true,
                                   .resolution_ns = WATCHDOG_NS};
    return flight;
}

static void forget_groups(struct flight *flight) {
    for (size_t i = 0; i < flight->group_count; i++)
        free(flight->groups[i].members);
    free(flight->groups);
    flight->groups = NULL;
    flight->group_count = 0;
}

static void end(void *state) {
    struct flight *flight = state;
    forget_groups(flight);
    free(flight->entries);
    free(flight->named);
    trace_free(&flight->trace);
    free(flight);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t integer_or(const json_t *object, const char *key, int64_t otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static int compare_groups(const void *a, const void *b) {
    return strcmp(((const struct process_group *)a)->name, ((const struct process_group *)b)->name);
}

static bool add_groups(struct flight *flight, json_t *groups) {
    const char *name;
    json_t *value;
    size_t room = json_object_size(groups) + 1;
    if (!limits_keep(flight->limits, room * sizeof *flight->groups))
        return false;
    flight->groups = calloc(room, sizeof *flight->groups);
    if (!flight->groups)
        return false;
    json_object_foreach(groups, name, value) {
        struct process_group *group = &flight->groups[flight->group_count++];
        const char *text = json_string_value(json_object_get(value, "desc"));
        snprintf(group->name, sizeof group->name, "%s", name);
        snprintf(group->text, sizeof group->text, "%s", text ? text : name);
        group->count = import_ranks(json_object_get(value, "ranks"), flight->named, RANKS_NAMED);
        size_t bytes = group->count * sizeof *group->members;
        if (!limits_keep(flight->limits, bytes) || !(group->members = malloc(bytes + 1)))
            return false;
        memcpy(group->members, flight->named, bytes);
    }
    qsort(flight->groups, flight->group_count, sizeof *flight->groups, compare_groups);
    return true;
}

/* Elements of all tensors times the size of their type. */
static uint64_t tensor_bytes(const json_t *sizes, const json_t *types, enum datatype_code *dtype) {
    uint64_t sum = 0;
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        const json_t *shape = json_array_get(sizes, i);
        uint32_t type_bytes;
        *dtype = import_dtype(json_string_value(json_array_get(types, i)), &type_bytes);
        uint64_t product = type_bytes;
        for (size_t d = 0; d < json_array_size(shape); d++)
            if (__builtin_mul_overflow(product, (uint64_t)json_integer_value(json_array_get(shape, d)), &product))
                return BYTES_UNKNOWN;
        if (type_bytes == 0 || __builtin_add_overflow(sum, product, &sum))
            return BYTES_UNKNOWN;
    }
    return json_array_size(sizes) > 0 ? sum : BYTES_UNKNOWN;
}

static void read_times(struct trace_event *event, const json_t *piece) {
    const char *state = json_string_value(json_object_get(piece, "state"));
    int64_t started = integer_or(piece, "time_discovered_started_ns", 0);
    int64_t completed = integer_or(piece, "time_discovered_completed_ns", 0);
    event->state = completed > 0 || (state && strcmp(state, "completed") == 0) ? TRACE_FINISHED
                   : started > 0 || (state && strcmp(state, "started") == 0)   ? TRACE_STARTED
                                                                               : TRACE_POSTED;
    event->posted_ns = event->returned_ns = event->enter_ns = event->leave_ns;
    double length = json_number_value(json_object_get(piece, "duration_ms"));
    if (completed < event->posted_ns || !(length > 0 && length < 1e9))
        return;
    event->timed = true;
    event->leave_ns = completed;
    event->enter_ns = completed - (int64_t)(length * 1e6);
    if (event->enter_ns < event->posted_ns)
        event->enter_ns = event->posted_ns;
}

/* "nccl:send 0->1", "nccl:recv 1<-0" */
static int32_t partner_of(const char *name) {
    const char *arrow = strstr(name, "->");
    arrow = arrow ? arrow : strstr(name, "<-");
    return arrow && isdigit((unsigned char)arrow[2]) ? (int32_t)(strtol(arrow + 2, NULL, 10) & 0xffffff) : -1;
}

/* [{"name": "step", "filename": "train.py", "line": 12}, ...], innermost first. C++ frames have files that are not
 * Python's, or none. Returns false when memory is short, or a limit is exceeded. */
static bool read_frames(struct flight *flight, const json_t *frames, uint32_t *stack) {
    struct trace_stacks *stacks = &flight->trace.stacks;
    size_t count = json_array_size(frames);
    *stack = TRACE_STACK_NONE;
    for (size_t i = count < TRACE_STACK_DEPTH ? count : TRACE_STACK_DEPTH; i-- > 0;) {
        const json_t *one = json_array_get(frames, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        const char *file = json_string_value(json_object_get(one, "filename"));
        int64_t line = integer_or(one, "line", 0);
        bool python = file && trace_file_is_python(file);
        if (!name)
            continue;
        uint32_t frame = trace_frame(stacks, flight->limits, python ? TRACE_FRAME_PYTHON : TRACE_FRAME_NATIVE, name,
                                     file && strcmp(file, "??") != 0 ? file : "",
                                     line > 0 && line <= INT32_MAX ? (uint32_t)line : 0);
        *stack = frame ? trace_stack(stacks, flight->limits, frame, *stack) : TRACE_STACK_NONE;
        if (*stack == TRACE_STACK_NONE)
            return false;
    }
    return true;
}

/* What PyTorch's own analysis compares (torch/distributed/flight_recorder/components/types.py, Op.match), as far as
 * members must agree: who scatters or gathers has tensors that others have not, and parts of an all-to-all may differ.
 */
static uint64_t signature_of(const struct trace_event *event) {
    const char *name = import_nccl_calls[event->call].name;
    uint64_t signature = hash_mix(1, event->call);
    if (strcmp(name, "ncclScatter") == 0 || strcmp(name, "ncclGather") == 0)
        return signature;
    signature = hash_mix(signature, event->dtype);
    return strcmp(name, "ncclAlltoAll") == 0 ? signature : hash_mix(signature, event->bytes);
}

/* Everything about an operation but where it belongs. */
static struct trace_event read_event(const json_t *piece, int call, bool message, int64_t created, int64_t number) {
    enum datatype_code dtype = DATATYPE_OTHER;
    bool output = strcmp(import_nccl_calls[call].name, "ncclAllGather") == 0;
    struct trace_event event = {.enter_ns = created,
                                .leave_ns = created,
                                .order = (uint64_t)number, /* PyTorch's own, from 1 */
                                .bytes = tensor_bytes(json_object_get(piece, output ? "output_sizes" : "input_sizes"),
                                                      json_object_get(piece, output ? "output_dtypes" : "input_dtypes"),
                                                      &dtype),
                                .peer = PEER_NONE,
                                .tag = message ? 0 : TAG_NONE,
                                .call = (uint16_t)call};
    event.dtype = (uint8_t)dtype;
    event.signature = signature_of(&event);
    read_times(&event, piece);
    return event;
}

static bool add_trace_entry(struct flight *flight, const json_t *piece) {
    const char *name = json_string_value(json_object_get(piece, "profiling_name"));
    const json_t *group = json_object_get(piece, "process_group");
    const char *group_name = json_string_value(json_is_array(group) ? json_array_get(group, 0) : group);
    int64_t created = integer_or(piece, "time_created_ns", -1), number = integer_or(piece, "collective_seq_id", -1);
    bool message = json_is_true(json_object_get(piece, "is_p2p"));
    int call = name ? import_nccl_call(name) : -1;
    if (message)
        number = integer_or(piece, "p2p_seq_id", -1);
    if (call < 0 || !group_name || created < 0 || created > INT64_MAX / 4 || number < 1 || number > UINT32_MAX / 2 ||
        message != (import_nccl_calls[call].call_class != CLASS_COLLECTIVE) || (message && partner_of(name) < 0)) {
        flight->dropped++;
        return true;
    }
    if (!limits_keep(flight->limits, 2 * sizeof *flight->entries)) /* the array doubles */
        return false;
    if (!grow_list(flight->entries, flight->count))
        return false;
    struct entry *entry = &flight->entries[flight->count++];
    *entry = (struct entry){.event = read_event(piece, call, message, created, number),
                            .partner = message ? partner_of(name) : -1};
    entry->seen_started = entry->event.state == TRACE_STARTED || integer_or(piece, "time_discovered_started_ns", 0) > 0;
    snprintf(entry->group, sizeof entry->group, "%s", group_name);
    return read_frames(flight, json_object_get(piece, "frames"), &entry->event.stack);
}

static bool piece(void *state, const char *key, const json_t *value) {
    struct flight *flight = state;
    if (!key || !json_is_object(value))
        return true;
    if (strcmp(key, "pg_config") == 0) {
        flight->reading = true;
        forget_groups(flight);
        return add_groups(flight, (json_t *)value);
    }
    if (strcmp(key, "entries") != 0)
        return true;
    flight->reading = true;
    return add_trace_entry(flight, value);
}

/* ---- a rank ---------------------------------------------------------------------------------- */

/* The number at the end of a name ("nccl_trace_rank_12", "rank3.json"), -1 = none. */
static int32_t parse_rank(const char *name) {
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    const char *dot = strstr(base, ".json");
    const char *last = dot ? dot : base + strlen(base), *first = last;
    while (first > base && isdigit((unsigned char)first[-1]))
        first--;
    if (first == last || last - first > 6)
        return -1;
    return (int32_t)strtol(first, NULL, 10);
}

static struct process_group *group_of(const struct flight *flight, const char *name) {
    struct process_group key;
    snprintf(key.name, sizeof key.name, "%s", name);
    return flight->group_count > 0 ? bsearch(&key, flight->groups, flight->group_count, sizeof key, compare_groups)
                                   : NULL;
}

/* SIZE_MAX: memory is short, or a limit is exceeded. */
static size_t communicator_of(struct flight *flight, struct process_group *group) {
    if (group->place == 0) {
        size_t made = trace_communicator(&flight->trace, group->text, group->members, group->count);
        if (made == SIZE_MAX ||
            !limits_ranks(flight->limits, flight->trace.seen_count, flight->trace.communicator_count))
            return SIZE_MAX;
        group->place = (uint32_t)made + 1;
    }
    return group->place - 1;
}

static bool place_entry(struct flight *flight, const struct entry *entry, int32_t rank) {
    struct process_group *group = group_of(flight, entry->group);
    struct trace_event event = entry->event;
    if (!group || group->count == 0) {
        flight->dropped++;
        return true;
    }
    size_t index = communicator_of(flight, group);
    if (index == SIZE_MAX)
        return false;
    const struct trace_communicator *communicator = &flight->trace.communicators[index];
    if (trace_member(communicator, rank) < 0 || entry->partner >= (int32_t)communicator->size) {
        flight->dropped++;
        return true;
    }
    event.rank = rank;
    event.communicator = (uint32_t)index;
    event.peer = entry->partner >= 0 ? entry->partner : PEER_NONE;
    return trace_add(&flight->trace, &event);
}

static bool add_traced_rank(struct flight *flight, int32_t rank, const char *name) {
    int32_t world = rank + 1;
    for (size_t g = 0; g < flight->group_count; g++)
        for (uint32_t i = 0; i < flight->groups[g].count; i++)
            if (flight->groups[g].members[i] >= world)
                world = flight->groups[g].members[i] + 1;
    if (!trace_set_world(&flight->trace, world))
        return false;
    struct trace_rank *place = &flight->trace.ranks[rank];
    flight->repeated |= place->seen;
    if (!trace_see_rank(&flight->trace, rank))
        return false;
    place->host = (uint32_t)rank; /* nothing says which ranks share a clock */
    snprintf(place->where, sizeof place->where, "%s", name);
    for (size_t i = 0; i < flight->count; i++) {
        place->tells_start |= flight->entries[i].seen_started;
        if (!place_entry(flight, &flight->entries[i], rank))
            return false;
    }
    return true;
}

static void forget(void *state) {
    struct flight *flight = state;
    forget_groups(flight);
    flight->count = 0;
    flight->reading = false;
}

static bool document(void *state, const char *name) {
    struct flight *flight = state;
    int32_t rank = parse_rank(name);
    bool any = flight->reading && flight->count > 0 && rank >= 0 && rank < TRACE_RANKS_MOST;
    if (any && !add_traced_rank(flight, rank, name))
        flight->no_memory = true;
    forget(flight);
    return any;
}

static const char *finish(void *state, struct trace *trace, size_t *dropped) {
    struct flight *flight = state;
    if (flight->no_memory)
        return strerror(ENOMEM);
    if (flight->repeated)
        return "two dumps of one rank: import the dumps of one moment only";
    *dropped = flight->dropped;
    *trace = flight->trace;
    flight->trace = (struct trace){0};
    return trace->event_count > 0 ? NULL : "no entry of a process group whose ranks are listed";
}

const struct import_format import_flight = {
    .name = "flight recorder",
    .begin = begin,
    .piece = piece,
    .document = document,
    .forget = forget,
    .finish = finish,
    .end = end,
};
