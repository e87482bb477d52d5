/* SPDX-License-Identifier: Apache-2.0
 *
 * What all trace formats have in common.
 * Lives here: the collection, numbering operations, and placing ranks on hosts.
 * Must not live here: any format, the dumps.
 */
#include "analyzer/import/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/statistics.h"

enum {
    LACKS_MOST = 256, /* collectives at the beginning: more are no matter of when a profiler was started */
    LACKS_CLEAR = 4,  /* times nearer do their ends lie: clearly, not by chance */
};

#define YEAR_NS (INT64_C(366) * 86400 * 1000000000)

/* A communicator's collectives, or one channel's messages. */
struct key {
    uint32_t communicator;
    int32_t from, to, tag; /* a collective: all -1 */
    uint64_t order;
    int64_t enter_ns;
    struct trace_event *event;
};

bool trace_set_world(struct trace *trace, int32_t world_size) {
    if (world_size <= trace->world_size)
        return true;
    if (!grow_to(trace->ranks, trace->rank_room, (size_t)world_size))
        return false;
    memset(trace->ranks + trace->world_size, 0, (size_t)(world_size - trace->world_size) * sizeof *trace->ranks);
    trace->world_size = world_size;
    return true;
}

bool trace_see_rank(struct trace *trace, int32_t rank) {
    trace->seen_count += !trace->ranks[rank].seen;
    trace->ranks[rank].seen = true;
    return limits_ranks(trace->limits, trace->seen_count, trace->communicator_count);
}

void trace_free(struct trace *trace) {
    for (size_t i = 0; i < trace->communicator_count; i++) {
        free(trace->communicators[i].members);
        free(trace->communicators[i].order);
    }
    free(trace->communicators);
    hash_table_free(&trace->numbers);
    free(trace->events);
    trace_stacks_free(&trace->stacks);
    free(trace->marks);
    free(trace->samples);
    free(trace->ranks);
    free(trace->titles.items);
    free(trace->call_names.items);
    free(trace->own_calls);
    *trace = (struct trace){0};
}

/* SIZE_MAX: it is none of them, and there is no room for it. */
static size_t find_name(struct trace_names *names, const char *name) {
    char cut[TRACE_NAME];
    snprintf(cut, sizeof cut, "%s", name);
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], cut) == 0)
            return i;
    if (!names->items)
        names->items = calloc(TRACE_NAMES, sizeof *names->items);
    if (!names->items || names->count == TRACE_NAMES)
        return SIZE_MAX;
    memcpy(names->items[names->count], cut, sizeof cut);
    return names->count++;
}

uint16_t trace_title(struct trace *trace, const char *title) {
    size_t number = find_name(&trace->titles, title);
    return number == SIZE_MAX ? 0 : (uint16_t)(number + 1);
}

uint16_t trace_call_named(struct trace *trace, uint16_t like, const char *name) {
    struct trace_names *names = &trace->call_names;
    size_t before = trace->call_count - names->count, number = find_name(names, name);
    if (!trace->own_calls && number != SIZE_MAX) {
        trace->own_calls = calloc(before + TRACE_NAMES, sizeof *trace->own_calls);
        if (!trace->own_calls)
            return like;
        memcpy(trace->own_calls, trace->calls, before * sizeof *trace->own_calls);
        trace->calls = trace->own_calls;
    }
    if (number == SIZE_MAX)
        return like;
    struct trace_call *call = &trace->own_calls[before + number];
    if (before + number == trace->call_count) {
        *call = trace->calls[like];
        call->name = names->items[number];
        trace->call_count++;
    }
    return call->call_class == trace->calls[like].call_class ? (uint16_t)(before + number) : like;
}

/* FNV-1a over what makes a communicator. */
static uint64_t uid_of_members(const char *name, const int32_t *members, uint32_t size) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    for (uint32_t i = 0; i < size; i++)
        hash = (hash ^ (uint32_t)members[i]) * UINT64_C(0x100000001b3);
    return hash;
}

struct uid_key {
    uint64_t uid;
};

struct communicator_number {
    struct uid_key key;
    size_t index;
};

HASH_TABLE_OF(numbers, struct communicator_number, struct uid_key);

/* What `order` is sorted by: a rank that is listed twice has its first place. */
static int compare_places(const void *a, const void *b, void *members) {
    const int32_t *ranks = members;
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    if (ranks[left] != ranks[right])
        return ranks[left] < ranks[right] ? -1 : 1;
    return (left > right) - (left < right);
}

static bool fill_communicator(struct trace_communicator *communicator, const int32_t *members) {
    size_t size = communicator->size;
    communicator->members = malloc((size ? size : 1) * sizeof *communicator->members);
    communicator->order = malloc((size ? size : 1) * sizeof *communicator->order);
    if (!communicator->members || !communicator->order)
        return false;
    if (size > 0)
        memcpy(communicator->members, members, size * sizeof *members);
    bool ascending = true;
    for (uint32_t i = 0; i < size; i++) {
        communicator->order[i] = i;
        ascending &= i == 0 || members[i - 1] < members[i];
    }
    if (!ascending)
        qsort_r(communicator->order, size, sizeof *communicator->order, compare_places, communicator->members);
    return true;
}

size_t trace_communicator(struct trace *trace, const char *name, const int32_t *members, uint32_t size) {
    uint64_t uid = uid_of_members(name, members, size);
    struct uid_key key = {uid};
    const struct communicator_number *known = numbers_find(&trace->numbers, &key);
    if (known)
        return known->index;
    if (!limits_keep(trace->limits, 2 * sizeof(struct trace_communicator) + size * sizeof(int32_t) * 2))
        return SIZE_MAX;
    struct communicator_number *added = numbers_add(&trace->numbers, &key);
    if (!added || !grow_list(trace->communicators, trace->communicator_count))
        return SIZE_MAX;
    added->index = trace->communicator_count++;
    struct trace_communicator *communicator = &trace->communicators[added->index];
    *communicator = (struct trace_communicator){.uid = uid, .size = size};
    snprintf(communicator->name, sizeof communicator->name, "%s", name);
    return fill_communicator(communicator, members) ? trace->communicator_count - 1 : SIZE_MAX;
}

int32_t trace_member(const struct trace_communicator *communicator, int32_t rank) {
    uint32_t low = 0, high = communicator->size;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (communicator->members[communicator->order[middle]] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < communicator->size && communicator->members[communicator->order[low]] == rank;
    return found ? (int32_t)communicator->order[low] : -1;
}

bool trace_add(struct trace *trace, const struct trace_event *event) {
    /* the array doubles, and numbering needs a key for each */
    if (!limits_keep(trace->limits, 2 * sizeof *event + sizeof(struct key)))
        return false;
    if (!grow_list(trace->events, trace->event_count))
        return false;
    trace->events[trace->event_count++] = *event;
    return true;
}

static bool add_mark(struct trace *trace, int32_t rank, int64_t at_ns, enum trace_mark_kind kind) {
    if (!limits_keep(trace->limits, 2 * sizeof *trace->marks) || !grow_list(trace->marks, trace->mark_count))
        return false;
    trace->marks[trace->mark_count++] = (struct trace_mark){at_ns, rank, kind};
    return true;
}

bool trace_add_mark(struct trace *trace, int32_t rank, int64_t at_ns) {
    return add_mark(trace, rank, at_ns, TRACE_STEP);
}

bool trace_add_pause(struct trace *trace, int32_t rank, int64_t from_ns, int64_t to_ns) {
    if (to_ns <= from_ns)
        return true;
    trace->ranks[rank].pauses++;
    return add_mark(trace, rank, from_ns, TRACE_PAUSED) && add_mark(trace, rank, to_ns, TRACE_RESUMED);
}

bool trace_add_sample(struct trace *trace, const struct trace_sample *sample) {
    if (!limits_keep(trace->limits, 2 * sizeof *trace->samples) || !grow_list(trace->samples, trace->sample_count))
        return false;
    trace->samples[trace->sample_count++] = *sample;
    return true;
}

static int compare_samples(const void *a, const void *b) {
    const struct trace_sample *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns ? -1 : 1;
    return (left->call > right->call) - (left->call < right->call);
}

static int compare_marks(const void *a, const void *b) {
    const struct trace_mark *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns ? -1 : 1;
    return (left->kind > right->kind) - (left->kind < right->kind);
}

const char *trace_time_problem(const struct trace *trace) {
    int64_t first = INT64_MAX, last = INT64_MIN, span;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->leave_ns < event->enter_ns || (trace->device && event->returned_ns < event->posted_ns))
            return "an operation that ends before it begins";
        first = event->enter_ns < first ? event->enter_ns : first;
        last = event->leave_ns > last ? event->leave_ns : last;
        if (trace->device) {
            first = event->posted_ns < first ? event->posted_ns : first;
            last = event->returned_ns > last ? event->returned_ns : last;
        }
    }
    for (size_t i = 0; i < trace->mark_count; i++) {
        first = trace->marks[i].at_ns < first ? trace->marks[i].at_ns : first;
        last = trace->marks[i].at_ns > last ? trace->marks[i].at_ns : last;
    }
    for (size_t i = 0; i < trace->sample_count; i++) {
        first = trace->samples[i].at_ns < first ? trace->samples[i].at_ns : first;
        last = trace->samples[i].at_ns > last ? trace->samples[i].at_ns : last;
    }
    bool apart = last > first && (__builtin_sub_overflow(last, first, &span) || span > YEAR_NS);
    return apart ? "operations more than a year apart" : NULL;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static int compare_ranks(const void *a, const void *b) {
    return *(const int32_t *)a < *(const int32_t *)b ? -1 : 1;
}

/* By host, then GPU: who is on one host, and who on one GPU of it, follow each other. */
static int compare_hosts(const void *a, const void *b, void *context) {
    const struct trace_rank *ranks = context;
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    int names = strcmp(ranks[left].host_name, ranks[right].host_name);
    if (names != 0)
        return names;
    if (ranks[left].gpu != ranks[right].gpu)
        return ranks[left].gpu < ranks[right].gpu ? -1 : 1;
    return left < right ? -1 : left > right;
}

/* Two processes that see several GPUs and work on one and the same are on two hosts. Who sees a single one calls it 0
 * wherever it is. */
static bool same_gpu(const struct trace_rank *a, const struct trace_rank *b) {
    return a->gpus_seen > 1 && b->gpus_seen > 1 && a->gpu_name[0] && b->gpu_name[0] && a->gpu == b->gpu;
}

/* Whether all ranks name their hosts. Containers may all have one name. */
static bool names_tell_hosts(const struct trace_rank *ranks, const int32_t *sorted, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct trace_rank *rank = &ranks[sorted[i]], *before = i > 0 ? &ranks[sorted[i - 1]] : NULL;
        if (!rank->host_name[0] ||
            (before && strcmp(before->host_name, rank->host_name) == 0 && same_gpu(before, rank)))
            return false;
    }
    return true;
}

/* Ranks are counted host by host. Nothing tells which host it is where no rank sees more than one GPU. */
static void place_by_gpus(struct trace_rank *ranks, const int32_t *seen, size_t count) {
    int32_t first = 0; /* of this host */
    for (size_t i = 0; i < count; i++) {
        struct trace_rank *rank = &ranks[seen[i]];
        int32_t size = rank->gpus_seen > 0 ? (int32_t)rank->gpus_seen : TRACE_RANKS_MOST;
        bool next = i == 0 || seen[i] / size != seen[i - 1] / size;
        for (size_t j = rank->gpus_seen > 1 ? i : 0; !next && j-- > 0 && seen[j] >= first;)
            next = same_gpu(rank, &ranks[seen[j]]);
        first = next ? seen[i] : first;
        rank->host = next && i > 0 ? ranks[seen[i - 1]].host + 1 : i > 0 ? ranks[seen[i - 1]].host : 0;
        rank->host_name[0] = '\0';
        if (rank->gpus_seen > 1)
            snprintf(rank->host_name, sizeof rank->host_name, "host%" PRIu32, rank->host);
    }
}

bool trace_place_hosts(struct trace *trace) {
    int32_t *ranks = malloc(((size_t)trace->world_size + 1) * sizeof *ranks);
    size_t count = 0;
    if (!ranks)
        return false;
    for (int32_t rank = 0; rank < trace->world_size; rank++)
        if (trace->ranks[rank].seen)
            ranks[count++] = rank;
    qsort_r(ranks, count, sizeof *ranks, compare_hosts, trace->ranks);
    bool named = names_tell_hosts(trace->ranks, ranks, count);
    for (size_t i = 0; named && i < count; i++) {
        bool same = i > 0 && strcmp(trace->ranks[ranks[i]].host_name, trace->ranks[ranks[i - 1]].host_name) == 0;
        trace->ranks[ranks[i]].host = same ? trace->ranks[ranks[i - 1]].host : (uint32_t)i;
    }
    qsort(ranks, count, sizeof *ranks, compare_ranks);
    if (!named)
        place_by_gpus(trace->ranks, ranks, count);
    free(ranks);
    return true;
}

/* ---- numbering ------------------------------------------------------------------------------- */

static int32_t own_place(const struct trace *trace, const struct trace_event *event) {
    return trace_member(&trace->communicators[event->communicator], event->rank);
}

static struct key key_of(const struct trace *trace, struct trace_event *event) {
    struct key key = {event->communicator, -1, -1, -1, event->order, event->enter_ns, event};
    enum call_class class = trace->calls[event->call].call_class;
    if (class != CLASS_SEND && class != CLASS_RECV)
        return key;
    int32_t own = own_place(trace, event);
    key.from = class == CLASS_SEND ? own : event->peer;
    key.to = class == CLASS_SEND ? event->peer : own;
    key.tag = event->tag;
    return key;
}

/* Of all operations. The caller frees; NULL: memory is short. */
static struct key *numbering_keys(const struct trace *trace, size_t *count) {
    struct key *keys = malloc((trace->event_count ? trace->event_count : 1) * sizeof *keys);
    *count = 0;
    for (size_t i = 0; keys && i < trace->event_count; i++)
        if (trace->events[i].communicator != COMM_NONE && trace->calls[trace->events[i].call].call_class != CLASS_GROUP)
            keys[(*count)++] = key_of(trace, &trace->events[i]);
    return keys;
}

#define COMPARE(FIELD)                                                                                                 \
    if (left->FIELD != right->FIELD)                                                                                   \
    return left->FIELD < right->FIELD ? -1 : 1

static int compare_channels(const struct key *left, const struct key *right) {
    COMPARE(communicator);
    COMPARE(from);
    COMPARE(to);
    COMPARE(tag);
    return 0;
}

static int compare_orders(const void *a, const void *b) {
    const struct key *left = a, *right = b;
    int channel = compare_channels(left, right);
    if (channel != 0)
        return channel;
    COMPARE(order);
    COMPARE(enter_ns);
    return 0;
}

static int compare_entries(const void *a, const void *b) {
    const struct key *left = a, *right = b;
    int channel = compare_channels(left, right);
    if (channel != 0)
        return channel;
    COMPARE(enter_ns);
    COMPARE(order);
    return 0;
}

/* Gives all parts of one collective the earliest of their entries, so that sorting by time keeps them together. */
static void share_entries(struct key *keys, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (keys[i].from < 0 && compare_channels(&keys[i - 1], &keys[i]) == 0 && keys[i - 1].order == keys[i].order)
            keys[i].enter_ns = keys[i - 1].enter_ns;
}

static void set_numbers(const struct trace *trace, struct key *keys, size_t count) {
    uint32_t number = 0;
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && compare_channels(&keys[i - 1], &keys[i]) == 0;
        if (!same)
            number = 0;
        else if (keys[i - 1].order != keys[i].order)
            number++;
        bool given = trace->numbered || (!trace->order_by_time && keys[i].from < 0);
        keys[i].event->seq = keys[i].event->ordinal_unknown ? SEQ_NONE : given ? (uint32_t)keys[i].order : number;
    }
}

/* ---- order of what only has times ------------------------------------------------------------ */

/* One rank's side of a channel, or of a communicator's collectives, cycle by cycle. */
static int compare_sides(const struct key *left, const struct key *right) {
    int channel = compare_channels(left, right);
    if (channel != 0)
        return channel;
    COMPARE(event->cycle);
    COMPARE(event->rank);
    return 0;
}

static int compare_cycles(const void *a, const void *b) {
    const struct key *left = a, *right = b;
    int side = compare_sides(left, right);
    if (side != 0)
        return side;
    COMPARE(enter_ns);
    COMPARE(event->leave_ns);
    COMPARE(event); /* messages of one launch, in the order in which they were called */
    return 0;
}

/* The end of one rank's side in one cycle. */
static size_t end_of_side(const struct key *keys, size_t count, size_t i) {
    size_t end = i + 1;
    while (end < count && compare_sides(&keys[i], &keys[end]) == 0)
        end++;
    return end;
}

/* One rank's collectives, in a cycle. */
struct side {
    struct key *keys;
    size_t count;
};

/* How far apart the two sides' collectives end, one clock for both, where `other` lacks the first `lacks` of `whole`.
 */
static int64_t ends_apart(const struct side *other, const struct side *whole, size_t lacks, int64_t *apart) {
    for (size_t i = 0; i < other->count; i++) {
        int64_t ends = other->keys[i].event->leave_ns - whole->keys[i + lacks].event->leave_ns;
        apart[i] = ends < 0 ? -ends : ends;
    }
    return median_unsorted_int64(apart, other->count);
}

/* How many collectives it lacks at its beginning: all leave one at the same time, within some microseconds, and the
 * next one later. 0 where that is not clear. */
static size_t lacks_first(const struct side *other, const struct side *whole, int64_t *apart) {
    size_t best = 0, most = whole->count - other->count;
    int64_t as_they_are = ends_apart(other, whole, 0, apart), least = as_they_are;
    for (size_t lacks = 1; lacks <= most && lacks <= LACKS_MOST; lacks++) {
        int64_t found = ends_apart(other, whole, lacks, apart);
        if (found < least) {
            least = found;
            best = lacks;
        }
    }
    return least <= as_they_are / LACKS_CLEAR ? best : 0;
}

static void note_lack(struct trace *trace, const struct key *key, size_t lacks) {
    if (!trace->note[0])
        snprintf(trace->note, sizeof trace->note,
                 "rank %" PRId32
                 "'s trace lacks the first %zu collective%s of %.40s, by when the others of its host left them",
                 key->event->rank, lacks, lacks == 1 ? "" : "s", trace->communicators[key->communicator].name);
}

/* Compares the sides of one cycle with the longest of their host's: a side's first key gets its place. */
static bool place_sides(struct trace *trace, struct side *sides, size_t count) {
    size_t longest = 0;
    for (size_t i = 0; i < count; i++)
        longest = sides[i].count > longest ? sides[i].count : longest;
    for (size_t i = 0; i < count; i++) {
        const struct side *whole = &sides[i];
        if (whole->count == longest)
            continue;
        uint32_t host = trace->ranks[sides[i].keys->event->rank].host;
        for (size_t k = 0; k < count; k++)
            if (trace->ranks[sides[k].keys->event->rank].host == host && sides[k].count > whole->count)
                whole = &sides[k];
        if (whole->count == sides[i].count)
            continue;
        int64_t *apart = malloc(sides[i].count * sizeof *apart);
        if (!apart)
            return false;
        size_t lacks = lacks_first(&sides[i], whole, apart);
        free(apart);
        sides[i].keys->order = lacks;
        if (lacks > 0)
            note_lack(trace, sides[i].keys, lacks);
    }
    return true;
}

/* Where a rank's side begins: all at the first place, but for collectives that its trace lacks at its beginning. */
static bool find_first_places(struct trace *trace, struct key *keys, size_t count) {
    struct side *sides = malloc((count + 1) * sizeof *sides);
    size_t side_count = 0;
    bool done = sides != NULL;
    for (size_t i = 0; i < count; i++)
        keys[i].order = 0;
    for (size_t i = 0, end; done && keys[0].from < 0 && i < count; i = end) {
        end = end_of_side(keys, count, i);
        sides[side_count++] = (struct side){&keys[i], end - i};
        if (end < count && keys[end].event->cycle == keys[i].event->cycle)
            continue;
        done = place_sides(trace, sides, side_count);
        side_count = 0;
    }
    free(sides);
    return done;
}

/* Each cycle's numbers begin behind those of the one before, whoever had most: a rank that lost a trace has a gap. */
static void set_places(struct key *keys, size_t count) {
    uint64_t first = 0, next = 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        bool channel = i > 0 && compare_channels(&keys[i - 1], &keys[i]) == 0;
        bool cycle = channel && keys[i - 1].event->cycle == keys[i].event->cycle;
        if (!cycle)
            first = channel ? most : 0;
        if (!channel)
            most = 0;
        if (!cycle || keys[i - 1].event->rank != keys[i].event->rank)
            next = first + keys[i].order;
        keys[i].order = keys[i].event->order = next++;
        most = next > most ? next : most;
    }
}

/* Whether PyTorch's numbers tell all of a communicator's collectives apart. Those of a coalesced group share one. */
static bool numbers_tell(const struct key *keys, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int64_t number = keys[i].event->told_number;
        bool follows = i > 0 && compare_sides(&keys[i - 1], &keys[i]) == 0;
        if (number < 0 || number >= UINT32_MAX || (follows && number <= keys[i - 1].event->told_number))
            return false;
    }
    return true;
}

/* Of alltoall, gather and scatter each rank has its own size. */
static bool one_size(const struct trace_call *call) {
    return call->busbw != BUSBW_SHARE || strcmp(call->name, "ncclAllGather") == 0 ||
           strcmp(call->name, "ncclReduceScatter") == 0;
}

/* Whether two ranks' events can be the two sides of one operation. */
static bool can_be_one(const struct trace *trace, const struct trace_event *a, const struct trace_event *b) {
    bool message = trace->calls[a->call].call_class != CLASS_COLLECTIVE;
    bool types = a->dtype == b->dtype || a->dtype == DATATYPE_OTHER || b->dtype == DATATYPE_OTHER;
    bool bytes = a->bytes == b->bytes || a->bytes == BYTES_UNKNOWN || b->bytes == BYTES_UNKNOWN;
    return (message || a->call == b->call) && types && (bytes || !one_size(&trace->calls[a->call]));
}

/* The keys of one channel and cycle, by order. */
static void doubt_places(struct trace *trace, struct key *keys, size_t count) {
    bool agree = true;
    for (size_t i = 1; agree && i < count; i++)
        agree = keys[i - 1].order != keys[i].order || can_be_one(trace, keys[i - 1].event, keys[i].event);
    for (size_t i = 0; !agree && i < count; i++)
        keys[i].event->ordinal_unknown = true;
    if (!agree && !trace->note[0])
        snprintf(trace->note, sizeof trace->note,
                 "the ranks' traces do not hold the same operations of %.40s, and no numbers of them: nothing tells "
                 "which belong together",
                 trace->communicators[keys[0].communicator].name);
}

static bool order_channel(struct trace *trace, struct key *keys, size_t count) {
    bool numbered = keys[0].from < 0 && numbers_tell(keys, count);
    for (size_t i = 0; numbered && i < count; i++)
        keys[i].event->order = (uint64_t)keys[i].event->told_number;
    if (numbered)
        return true;
    if (!find_first_places(trace, keys, count))
        return false;
    set_places(keys, count);
    qsort(keys, count, sizeof *keys, compare_orders);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && keys[end].event->cycle == keys[i].event->cycle; end++)
            ;
        doubt_places(trace, &keys[i], end - i);
    }
    return true;
}

bool trace_order_cycles(struct trace *trace) {
    size_t count = 0;
    struct key *keys = numbering_keys(trace, &count);
    if (!keys)
        return false;
    bool done = true;
    qsort(keys, count, sizeof *keys, compare_cycles);
    for (size_t i = 0, end; done && i < count; i = end) {
        for (end = i + 1; end < count && compare_channels(&keys[i], &keys[end]) == 0; end++)
            ;
        done = order_channel(trace, &keys[i], end - i);
    }
    free(keys);
    return done;
}

/* ---- sorting --------------------------------------------------------------------------------- */

static int compare_events(const void *a, const void *b) {
    const struct trace_event *left = a, *right = b;
    COMPARE(rank);
    COMPARE(enter_ns);
    COMPARE(leave_ns);
    COMPARE(communicator);
    COMPARE(call);
    COMPARE(seq);
    return 0;
}

/* What a recorder of a job that ran notes exactly is the call; a GPU's times are when its watchdog looked. */
static int compare_calls_made(const void *a, const void *b) {
    const struct trace_event *left = a, *right = b;
    COMPARE(rank);
    COMPARE(posted_ns);
    return compare_events(a, b);
}

bool trace_number(struct trace *trace) {
    size_t count = 0;
    struct key *keys = numbering_keys(trace, &count);
    if (!keys)
        return false;
    qsort(keys, count, sizeof *keys, compare_orders);
    if (trace->order_by_time) {
        share_entries(keys, count);
        /* messages keep the order of their keys: each side has its own times */
        for (size_t i = 0; i < count; i++)
            if (keys[i].from >= 0)
                keys[i].enter_ns = 0;
        qsort(keys, count, sizeof *keys, compare_entries);
    }
    set_numbers(trace, keys, count);
    free(keys);
    qsort(trace->events, trace->event_count, sizeof *trace->events,
          trace->device && trace->running ? compare_calls_made : compare_events);
    if (trace->mark_count > 0)
        qsort(trace->marks, trace->mark_count, sizeof *trace->marks, compare_marks);
    if (trace->sample_count > 0)
        qsort(trace->samples, trace->sample_count, sizeof *trace->samples, compare_samples);
    return true;
}
