/* SPDX-License-Identifier: Apache-2.0
 *
 * Flight-recorder dumps of PyTorch (dump_nccl_trace_json): one document per rank.
 * Lives here: entries and process groups of such a dump.
 * Must not live here: numbering, dumps.
 *
 * PyTorch writes them as pickles (pickle.h); the same content as JSON comes from
 * torch._C._distributed_c10d._dump_nccl_trace_json(). The rank is the number at the end of the file's name, as PyTorch
 * names them; where somebody added a key "rank" it is that. Times of completion are when a watchdog looked, so they are
 * known to WATCHDOG_NS only; lengths are a GPU's (TORCH_NCCL_ENABLE_TIMING=1) or unknown.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash.h"
#include "analyzer/import/flight_entries.h"
#include "analyzer/import/flight_launches.h"
#include "analyzer/import/flight_order.h"
#include "analyzer/import/formats.h"

enum { WATCHDOG_NS = 200000000, RANKS_NAMED = 16384 };

struct recorded_group {
    char name[FLIGHT_NAME]; /* "0" */
    char text[FLIGHT_NAME]; /* "default_pg" */
    int32_t *members;
    uint32_t count;
    uint32_t place; /* index + 1 of its communicator, 0 = not yet there */
};

struct unread_document {
    int32_t rank;    /* by its name, */
    uint64_t series; /* which begins so: a hash */
};

struct flight {
    struct import_limits *limits;
    struct flight_document document;
    struct recorded_group *groups; /* of the present document, by name */
    size_t group_count;
    struct trace trace; /* of the documents so far */
    int32_t rank;       /* that the present document tells, -1: none */
    bool reading, listed, no_memory, repeated;
    size_t dropped, dropped_before; /* before the present document */
    struct unread_document *unread;
    size_t unread_count;
    uint64_t series;           /* of the first document that could be read, 0: none yet */
    char newer[FLIGHT_NAME];   /* a version that is not known, empty: there was none */
    char unknown[FLIGHT_NAME]; /* the first operation of no known kind */
    int32_t *named;            /* RANKS_NAMED: members as they are read */
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
    flight->rank = -1;
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
    flight_document_free(&flight->document);
    free(flight->named);
    free(flight->unread);
    trace_free(&flight->trace);
    free(flight);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int compare_groups(const void *a, const void *b) {
    return strcmp(((const struct recorded_group *)a)->name, ((const struct recorded_group *)b)->name);
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
        struct recorded_group *group = &flight->groups[flight->group_count++];
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

static bool add_trace_entry(struct flight *flight, const json_t *piece) {
    struct flight_entry entry;
    bool known;
    if (!flight_entry_read(&entry, &flight->trace, piece, &known))
        return false;
    if (known)
        return flight_document_add(&flight->document, flight->limits, &entry);
    const char *name = json_string_value(json_object_get(piece, "profiling_name"));
    if (flight->dropped++ == 0)
        snprintf(flight->unknown, sizeof flight->unknown, "%s", name ? name : "without a name");
    return true;
}

/* Of version 1 and 2 all keys are known; a later one changes what they mean. */
static void read_version(struct flight *flight, const json_t *value) {
    const char *version = json_string_value(value);
    char *end = NULL;
    long major = version ? strtol(version, &end, 10) : 0;
    if (version && (major < 1 || major > 2 || *end != '.'))
        snprintf(flight->newer, sizeof flight->newer, "%s", version);
}

static bool piece(void *state, const char *key, const json_t *value) {
    struct flight *flight = state;
    if (key && strcmp(key, "version") == 0)
        read_version(flight, value);
    if (key && strcmp(key, "rank") == 0 && json_is_integer(value) && json_integer_value(value) >= 0 &&
        json_integer_value(value) < TRACE_RANKS_MOST)
        flight->rank = (int32_t)json_integer_value(value);
    if (!key || !json_is_object(value))
        return true;
    if (strcmp(key, "pg_status") == 0)
        return flight_document_status(&flight->document, flight->limits, value);
    if (strcmp(key, "pg_config") == 0) {
        flight->reading = flight->listed = true;
        forget_groups(flight);
        return add_groups(flight, (json_t *)value);
    }
    if (strcmp(key, "entries") != 0)
        return true;
    flight->reading = true;
    return add_trace_entry(flight, value);
}

/* ---- a rank ---------------------------------------------------------------------------------- */

/* What names of other ranks' files begin with as well, as a hash that is not 0. */
static uint64_t series_of(const char *name, size_t before_rank) {
    const char *base = strrchr(name, '/');
    uint64_t series = 1;
    for (const char *c = base ? base + 1 : name; c < name + before_rank; c++)
        series = hash_mix(series, (unsigned char)*c) | 1;
    return series;
}

static struct recorded_group *group_of(const struct flight *flight, const char *name) {
    struct recorded_group key;
    snprintf(key.name, sizeof key.name, "%s", name);
    return flight->group_count > 0 ? bsearch(&key, flight->groups, flight->group_count, sizeof key, compare_groups)
                                   : NULL;
}

/* SIZE_MAX: memory is short, or a limit is exceeded. */
static size_t communicator_of(struct flight *flight, struct recorded_group *group) {
    if (group->place == 0) {
        size_t made = trace_communicator(&flight->trace, group->text, group->members, group->count);
        if (made == SIZE_MAX ||
            !limits_ranks(flight->limits, flight->trace.seen_count, flight->trace.communicator_count))
            return SIZE_MAX;
        group->place = (uint32_t)made + 1;
    }
    return group->place - 1;
}

/* False when memory is short. Events of groups that are not listed, or that the rank is no member of, are left out. */
static bool place_event(void *context, const char *group_name, int32_t partner, struct trace_event event) {
    struct flight *flight = context;
    struct recorded_group *group = group_of(flight, group_name);
    if (!group || group->count == 0) {
        flight->dropped++;
        return true;
    }
    size_t index = communicator_of(flight, group);
    if (index == SIZE_MAX)
        return false;
    const struct trace_communicator *communicator = &flight->trace.communicators[index];
    if (trace_member(communicator, event.rank) < 0 || partner >= (int32_t)communicator->size) {
        flight->dropped++;
        return true;
    }
    if (partner >= 0)
        event.order = flight->trace.event_count; /* until they are numbered by channels: as they came */
    event.communicator = (uint32_t)index;
    event.peer = partner >= 0 ? partner : PEER_NONE;
    return trace_add(&flight->trace, &event);
}

static bool add_traced_rank(struct flight *flight, int32_t rank, const char *name, int64_t written_ns) {
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
    place->written_ns = written_ns;
    place->tells_start = flight->document.tells_start;
    flight_document_look(&flight->document);
    place->lost = flight->document.lost;
    place->only_open = flight->document.only_open;
    if (flight->document.count > 0) {
        place->first_record = flight->document.entries[0].record;
        place->last_record = flight->document.entries[flight->document.count - 1].record;
    }
    size_t before = flight->trace.event_count;
    if (!flight_document_launches(&flight->document, rank, place_event, flight))
        return false;
    flight->trace.ranks[rank].unread = flight->trace.event_count == before && flight->dropped > flight->dropped_before;
    return true;
}

static void begin_document(struct flight *flight) {
    forget_groups(flight);
    flight_document_clear(&flight->document);
    flight->reading = flight->listed = false;
    flight->rank = -1;
    flight->dropped_before = flight->dropped;
}

static void forget(void *state, const char *name) {
    struct flight *flight = state;
    struct unread_document unread;
    size_t before_rank;
    unread.rank = import_rank_of_name(name, &before_rank);
    unread.series = series_of(name, before_rank);
    begin_document(flight);
    if (unread.rank < 0 || unread.rank >= TRACE_RANKS_MOST)
        return;
    if (grow_list(flight->unread, flight->unread_count)) /* less than the document took, whose limits are exceeded */
        flight->unread[flight->unread_count++] = unread;
    else
        flight->no_memory = true;
}

static bool document(void *state, const char *name, int64_t written_ns, const char **lacks) {
    struct flight *flight = state;
    size_t before_rank;
    int32_t of_name = import_rank_of_name(name, &before_rank), rank = flight->rank >= 0 ? flight->rank : of_name;
    bool told = flight->document.count > 0 || flight->listed; /* JSON of a rank with nothing to tell has no entries */
    bool any = flight->reading && told && rank >= 0 && rank < TRACE_RANKS_MOST;
    if (flight->reading)
        *lacks = !told ? "a flight recorder without entries"
                       : "a flight recorder, and nothing tells of which rank: its name should end in the rank "
                         "(nccl_trace_rank_0)";
    if (any && flight->series == 0)
        flight->series = series_of(name, before_rank);
    if (any && !add_traced_rank(flight, rank, name, written_ns))
        flight->no_memory = true;
    begin_document(flight);
    return any;
}

/* Ranks that groups list, and whose own documents tell nothing: they may have done anything. */
static bool mark_unread(const struct flight *flight, struct trace *trace) {
    for (size_t i = 0; i < flight->unread_count; i++) {
        int32_t rank = flight->unread[i].rank;
        if (flight->unread[i].series != flight->series || rank >= trace->world_size || trace->ranks[rank].seen)
            continue; /* another file that lay there, or a rank that is known */
        if (!trace_see_rank(trace, rank))
            return false;
        trace->ranks[rank].unread = true;
        trace->ranks[rank].host = (uint32_t)rank;
    }
    return true;
}

static void note_what_is_odd(const struct flight *flight, struct trace *trace) {
    if (flight->newer[0])
        snprintf(trace->note, sizeof trace->note,
                 "version %.40s of the recorder is none that is known: read as far as its keys are", flight->newer);
    else if (trace->only_open)
        snprintf(trace->note, sizeof trace->note, "the dumps hold only operations that had not ended");
    else if (flight->dropped > 0 && flight->unknown[0])
        snprintf(trace->note, sizeof trace->note, "the first event that was left out: %.80s", flight->unknown);
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
    if (!mark_unread(flight, trace) || !flight_order(trace))
        return strerror(ENOMEM);
    note_what_is_odd(flight, trace);
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
