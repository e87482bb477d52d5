/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/flight_entries.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/hash.h"
#include "analyzer/import/formats.h"

/* Numbers are digits in a string where a dump went through other tools. */
static int64_t integer_or(const json_t *object, const char *key, int64_t otherwise) {
    const json_t *value = json_object_get(object, key);
    const char *digits = json_string_value(value);
    if (digits && isdigit((unsigned char)digits[0]) && strlen(digits) <= 18)
        return strtoll(digits, NULL, 10);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
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
static bool read_frames(struct trace *trace, const json_t *frames, uint32_t *stack) {
    struct trace_stacks *stacks = &trace->stacks;
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
        uint32_t frame = trace_frame(stacks, trace->limits, python ? TRACE_FRAME_PYTHON : TRACE_FRAME_NATIVE, name,
                                     file && strcmp(file, "??") != 0 ? file : "",
                                     line > 0 && line <= INT32_MAX ? (uint32_t)line : 0);
        *stack = frame ? trace_stack(stacks, trace->limits, frame, *stack) : TRACE_STACK_NONE;
        if (*stack == TRACE_STACK_NONE)
            return false;
    }
    return true;
}

/* What PyTorch's own analysis compares (torch/distributed/flight_recorder/components/types.py, Op.match), as far as
 * members must agree: who scatters or gathers has tensors that others have not, and parts of an all-to-all may differ.
 */
static uint64_t signature_of(const struct trace_event *event, const char *title) {
    const char *name = import_nccl_calls[event->call].name;
    uint64_t signature = hash_mix(1, event->call);
    for (const char *c = strcmp(name, "other collective") == 0 ? title : ""; *c; c++)
        signature = hash_mix(signature, (unsigned char)*c);
    if (strcmp(name, "ncclScatter") == 0 || strcmp(name, "ncclGather") == 0)
        return signature;
    signature = hash_mix(signature, event->dtype);
    return strcmp(name, "ncclAlltoAll") == 0 ? signature : hash_mix(signature, event->bytes);
}

/* "nccl:" or another library's prefix does not belong to the name. */
static const char *bare_name(const char *name) {
    const char *colon = strchr(name, ':');
    return colon ? colon + 1 : name;
}

/* Of several launched together the last entry tells the state of all: "coalesced", "ALLGATHER_coalesced". Names that
 * begin small are calls that take lists of tensors ("allreduce_coalesced"). */
static bool closes_a_launch(const char *name) {
    size_t length = strlen(name), tail = strlen("_coalesced");
    return strcmp(name, "coalesced") == 0 ||
           (isupper((unsigned char)name[0]) && length > tail && strcmp(name + length - tail, "_coalesced") == 0);
}

static int call_named(const char *name) {
    for (size_t i = 0; i < import_nccl_call_count; i++)
        if (strcmp(import_nccl_calls[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* -1: a message of no known kind. */
static int call_of(const char *name, bool message, bool closing) {
    int call = import_nccl_call(name);
    if (!message && strstr(name, "barrier"))
        return call_named("barrier");
    bool fits = call >= 0 && message == (import_nccl_calls[call].call_class != CLASS_COLLECTIVE);
    if (closing && message)
        return call_named("ncclGroupEnd");
    if (fits && !(closing && strcmp(name, "coalesced") == 0))
        return call;
    return message ? -1 : call_named(closing ? "coalesced collectives" : "other collective");
}

/* What is sent is told as input, what is received as output; both are the same tensor. Of a gather the output is all.
 */
static void read_tensors(struct trace_event *event, const json_t *piece) {
    const char *call = import_nccl_calls[event->call].name;
    enum datatype_code dtype = DATATYPE_OTHER;
    const char *sizes[] = {"input_sizes", "output_sizes"}, *types[] = {"input_dtypes", "output_dtypes"};
    bool output = strcmp(call, "ncclAllGather") == 0 || strcmp(call, "ncclRecv") == 0;
    output |= json_array_size(json_object_get(piece, "input_sizes")) == 0;
    output &= json_array_size(json_object_get(piece, "output_sizes")) > 0;
    event->bytes = tensor_bytes(json_object_get(piece, sizes[output]), json_object_get(piece, types[output]), &dtype);
    event->dtype = (uint8_t)dtype;
    if (strcmp(call, "barrier") == 0) /* of one number, which is nobody's data */
        event->bytes = 0;
    event->bytes_out = output
                           ? BYTES_UNKNOWN
                           : tensor_bytes(json_object_get(piece, sizes[1]), json_object_get(piece, types[1]), &dtype);
}

/* What PyTorch calls a collective; with the backend's name, which is all that tells of another than NCCL. */
static uint16_t title_of(struct trace *trace, const char *profiling_name, bool message) {
    bool nccl = strncmp(profiling_name, "nccl", 4) == 0 || !strchr(profiling_name, ':');
    char title[TRACE_NAME];
    snprintf(title, sizeof title, "%s", nccl ? bare_name(profiling_name) : profiling_name);
    title[strcspn(title, " ")] = '\0'; /* of a message "0->1" follows */
    return nccl && message ? 0 : trace_title(trace, title);
}

/* Since 2.1 collectives and messages have numbers of their own, before there was one for both. */
static int64_t number_of(const json_t *piece, bool message) {
    int64_t number = integer_or(piece, message ? "p2p_seq_id" : "collective_seq_id", -1);
    return number >= 0 ? number : integer_or(piece, "seq_id", -1);
}

bool flight_entry_read(struct flight_entry *entry, struct trace *trace, const json_t *piece, bool *known) {
    const char *title = json_string_value(json_object_get(piece, "profiling_name"));
    const json_t *group = json_object_get(piece, "process_group"), *p2p = json_object_get(piece, "is_p2p");
    const char *group_name = json_string_value(json_is_array(group) ? json_array_get(group, 0) : group);
    const char *name = title ? bare_name(title) : "";
    int64_t created = integer_or(piece, "time_created_ns", -1);
    bool closing = closes_a_launch(name);
    bool message = p2p ? json_is_true(p2p) : partner_of(name) >= 0;
    int64_t number = number_of(piece, message);
    int call = title ? call_of(name, message, closing) : -1;
    *known = call >= 0 && group_name && created >= 0 && created <= INT64_MAX / 4 && number >= 0 &&
             number <= UINT32_MAX / 2 && (!message || closing || partner_of(name) >= 0);
    if (!*known)
        return true;
    *entry = (struct flight_entry){.event = {.enter_ns = created,
                                             .leave_ns = created,
                                             .order = (uint64_t)number,
                                             .number = (uint32_t)number,
                                             .peer = PEER_NONE,
                                             .tag = message ? 0 : TAG_NONE,
                                             .call = (uint16_t)call},
                                   .partner = message && !closing ? partner_of(name) : -1,
                                   .record = integer_or(piece, "record_id", -1),
                                   .others = integer_or(piece, message ? "collective_seq_id" : "p2p_seq_id", -1),
                                   .process_group = integer_or(piece, "pg_id", -1),
                                   .message = message,
                                   .closing = closing};
    read_tensors(&entry->event, piece);
    entry->event.signature = signature_of(&entry->event, name);
    read_times(&entry->event, piece);
    entry->event.title = title_of(trace, title, message);
    entry->seen_started = entry->event.state == TRACE_STARTED || integer_or(piece, "time_discovered_started_ns", 0) > 0;
    entry->event.begun_seen = entry->seen_started;
    snprintf(entry->group, sizeof entry->group, "%s", group_name);
    return read_frames(trace, json_object_get(piece, "frames"), &entry->event.stack);
}
