/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls with small hashes are kept, sorted by pair for the bounds, by call
 * for the elimination, and by pair again.
 */
#include "analyzer/links/exchanges.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"

enum end_flag {
    END_RECEIVE = 1 << 0,
    END_JUDGED = 1 << 1, /* the message's begin is known to an eighth */
    END_SINGLE = 1 << 2, /* a blocking receive: nothing else can have been waited for */
    END_ALONE = 1 << 3,  /* the call waited for this message alone */
    END_OPEN = 1 << 4,   /* ... or for one of `slack` partners' */
};

enum {
    JUDGED_SHARE = 8, /* the begin's uncertainty, of the message's time */
    OPERATIONS_MANY = UINT16_MAX,
};
#define ROOM_FOR_NOISE 1.25 /* of a bound: what an operation that is over by then cannot have exceeded */

/* The call at hand of one dump, and the last Test, which does not wait. Common ns. */
struct exchange_call {
    int64_t left, tested;
    uint32_t operations;
    bool any;
};

bool exchanges_init(struct exchanges *exchanges, const struct common_clock *clock,
                    const struct match_directory *directory) {
    *exchanges = (struct exchanges){.clock = clock, .directory = directory, .limit = UINT64_MAX};
    exchanges->open = calloc(clock->dump_count + 1, sizeof *exchanges->open);
    return exchanges->open != NULL;
}

void exchanges_free(struct exchanges *exchanges) {
    free(exchanges->ends);
    free(exchanges->open);
    *exchanges = (struct exchanges){0};
}

/* ---- sampling ------------------------------------------------------------------------------------------------ */

static uint64_t hash_of_call(uint32_t dump, int64_t left) {
    uint64_t h = (uint64_t)left * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(dump + 1) * UINT64_C(0xc2b2ae3d27d4eb4f);
    h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 32) * UINT64_C(0x94d049bb133111eb);
    return h ^ h >> 31;
}

static int compare_by_call(const void *a, const void *b) {
    const struct exchange_end *left = a, *right = b;
    if (left->call != right->call)
        return left->call < right->call ? -1 : 1;
    if (left->operations != right->operations) /* the call's own entry last */
        return left->operations < right->operations ? -1 : 1;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

static void drop_above(struct exchanges *exchanges) {
    size_t kept = 0;
    for (size_t i = 0; i < exchanges->count; i++)
        if (exchanges->ends[i].call <= exchanges->limit)
            exchanges->ends[kept++] = exchanges->ends[i];
    exchanges->count = kept;
}

/* Gives up half of the calls until few enough are left. Every worker has part of all ends and so stops no later than
 * who has all. */
static void thin_out(struct exchanges *exchanges, size_t most) {
    while (exchanges->count > most) {
        exchanges->limit /= 2;
        drop_above(exchanges);
    }
}

static void keep_end(struct exchanges *exchanges, const struct exchange_end *end) {
    if (end->call > exchanges->limit)
        return;
    if (!grow_by_one(exchanges->ends, exchanges->count, exchanges->room)) {
        exchanges->no_memory = true;
        return;
    }
    exchanges->ends[exchanges->count++] = *end;
    thin_out(exchanges, EXCHANGE_ENDS_MOST);
}

static void close_call(struct exchanges *exchanges, uint32_t dump) {
    struct exchange_call *open = &exchanges->open[dump];
    if (open->any && open->operations > 0)
        keep_end(exchanges, &(struct exchange_end){.call = hash_of_call(dump, open->left),
                                                   .from = UINT32_MAX,
                                                   .to = UINT32_MAX,
                                                   .operations = (uint16_t)(open->operations < OPERATIONS_MANY
                                                                                ? open->operations
                                                                                : OPERATIONS_MANY)});
    open->any = false;
}

void exchanges_note(struct exchanges *exchanges, const struct match_record *item, const struct call_name *call) {
    const struct record *record = item->record;
    struct exchange_call *open = &exchanges->open[item->dump];
    bool both = record->kind == RECORD_CALL && call && call->call_class == CLASS_SENDRECV;
    if (record->kind == RECORD_CALL && call && call->call_class == CLASS_TEST)
        open->tested = item->t1;
    if (!both && (record->kind != RECORD_DONE || record->flags & FLAG_UNOBSERVED))
        return;
    if (!open->any || open->left != item->t1) {
        close_call(exchanges, (uint32_t)item->dump);
        *open = (struct exchange_call){.left = item->t1, .tested = open->tested, .any = true};
    }
    if (item->gap || open->tested == item->t1) /* how many came before, or whether it waited, is not known */
        open->operations = OPERATIONS_MANY;
    if (record->peer != PEER_NULL && open->operations < OPERATIONS_MANY)
        open->operations++;
}

void exchanges_finish(struct exchanges *exchanges) {
    for (size_t d = 0; d < exchanges->clock->dump_count; d++)
        close_call(exchanges, (uint32_t)d);
}

void exchanges_merge(struct exchanges *into, const struct exchanges *from) {
    into->no_memory |= from->no_memory;
    if (from->limit < into->limit) { /* what lies above is not all there */
        into->limit = from->limit;
        drop_above(into);
    }
    for (size_t i = 0; i < from->count; i++)
        keep_end(into, &from->ends[i]);
}

void exchanges_parcel(struct exchanges *exchanges, struct parcel *parcel) {
    parcel_array(parcel, exchanges->ends, exchanges->count, exchanges->room);
    parcel_field(parcel, &exchanges->limit);
    parcel_items(parcel, exchanges->open, exchanges->clock->dump_count, sizeof *exchanges->open);
    parcel_flag(parcel, &exchanges->no_memory);
}

/* ---- messages ------------------------------------------------------------------------------------------------ */

static uint32_t clamped(int64_t ns) {
    return ns < 0 ? 0 : ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

/* The latest of the four moments before `until`: no later can the message have begun. */
static int64_t latest_begin(const struct match_message *message, int64_t begin, int64_t until) {
    const int64_t moments[] = {message->send.wait, message->receive.enter, message->receive.wait};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        if (moments[i] > begin && moments[i] < until)
            begin = moments[i];
    return begin;
}

static bool is_both_ways(const struct exchanges *exchanges, const struct match_member *member) {
    return member->call != CALL_UNKNOWN && exchanges->directory->calls[member->call].name->call_class == CLASS_SENDRECV;
}

void exchanges_add(struct exchanges *exchanges, const struct match_message *message) {
    const struct match_member *send = &message->send, *receive = &message->receive;
    bool send_blocks = send->wait == send->enter && !is_both_ways(exchanges, send);
    bool receive_blocks = receive->wait == receive->enter && !is_both_ways(exchanges, receive);
    bool moved = message->synchronous || message->bytes >= RENDEZVOUS_BYTES; /* the send ends with the transfer */
    bool met = send_blocks && send->enter < receive->enter && receive->enter < send->leave;
    if (message->bytes == BYTES_UNKNOWN)
        return;
    int64_t begin = (moved || met) && receive->enter > send->enter ? receive->enter : send->enter;
    int64_t done = moved && send->leave > begin && send->leave < receive->leave ? send->leave : receive->leave;
    int64_t latest = latest_begin(message, begin, done);
    if (done <= begin)
        return;
    bool judged = latest - begin <= (done - begin) / JUDGED_SHARE;
    struct exchange_end end = {.from = message->from_dump,
                               .to = message->to_dump,
                               .bound = clamped(done - begin),
                               .size = (uint8_t)log_bin_of(message->bytes)};
    end.call = hash_of_call(message->to_dump, receive->leave);
    end.slack = clamped(receive->leave - latest_begin(message, begin, receive->leave));
    end.after = clamped(receive->leave - done);
    end.flags = (uint8_t)(END_RECEIVE | (judged ? END_JUDGED : 0) | (receive_blocks ? END_SINGLE : 0));
    keep_end(exchanges, &end);
    if (send_blocks)
        return;
    end.call = hash_of_call(message->from_dump, send->leave);
    end.slack = clamped(send->leave - latest_begin(message, begin, send->leave));
    end.after = clamped(send->leave - done);
    end.flags = 0;
    keep_end(exchanges, &end);
}

/* ---- which one a call waited for ----------------------------------------------------------------------------- */

static int compare_by_pair(const void *a, const void *b) {
    const struct exchange_end *left = a, *right = b;
    if (left->size != right->size)
        return left->size < right->size ? -1 : 1;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    if (left->to != right->to)
        return left->to < right->to ? -1 : 1;
    if (left->bound != right->bound)
        return left->bound < right->bound ? -1 : 1;
    return left->call < right->call ? -1 : left->call > right->call;
}

static bool same_pair(const struct exchange_end *a, const struct exchange_end *b) {
    return a->size == b->size && a->from == b->from && a->to == b->to;
}

static size_t end_of_pair(const struct exchanges *exchanges, size_t from) {
    size_t end = from + 1;
    while (end < exchanges->count && same_pair(&exchanges->ends[from], &exchanges->ends[end]))
        end++;
    return end;
}

/* Replaces `slack` by whether the operation was over well before the call returned: 1, or 0 where it may have been the
 * one. Sorted by pair. */
static void exclude(struct exchanges *exchanges) {
    for (size_t i = 0, end; i < exchanges->count; i = end) {
        end = end_of_pair(exchanges, i);
        size_t received = 0, place = 0;
        for (size_t j = i; j < end; j++)
            received += (exchanges->ends[j].flags & END_RECEIVE) != 0;
        bool known = received >= EXCHANGE_ENDS_MIN;
        for (size_t j = i, seen = 0; j < end && known; j++)
            if (exchanges->ends[j].flags & END_RECEIVE && seen++ == received * EXCHANGE_QUANTILE_PERCENT / 100)
                place = j;
        double bound = exchanges->ends[place].bound, error = 0;
        if (exchanges->ends[i].from != exchanges->ends[i].to)
            error = (double)common_clock_error(exchanges->clock, exchanges->ends[i].from, exchanges->ends[i].to);
        for (size_t j = i; j < end; j++) {
            struct exchange_end *e = &exchanges->ends[j];
            double alone = known ? bound : e->bound;
            bool over = known && e->slack > ROOM_FOR_NOISE * bound + error;
            e->slack = over || e->after > (ROOM_FOR_NOISE - 1) * alone + error;
        }
    }
}

static bool same_ranks(const struct exchange_end *a, const struct exchange_end *b) {
    return (a->from == b->from && a->to == b->to) || (a->from == b->to && a->to == b->from);
}

/* Whether an operation with the same partner before this one may also have been what the call waited for. What goes
 * between the same two ranks at the same time is one suspect. */
static bool is_repeated(const struct exchange_end *ends, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (!ends[i].slack && same_ranks(&ends[i], &ends[at]))
            return true;
    return false;
}

/* Marks the receives of one call that it may have waited for. The call's own entry is the last. */
static void eliminate(struct exchange_end *ends, size_t count) {
    size_t operations = 0;
    uint32_t suspects = 0;
    bool single = false;
    for (; operations < count && !ends[operations].operations; operations++) {
        single |= (ends[operations].flags & END_SINGLE) != 0;
        suspects += !ends[operations].slack && !is_repeated(ends, operations);
    }
    bool whole = single ? count == 1 : operations + 1 == count && ends[count - 1].operations == operations;
    for (size_t i = 0; i < operations && whole; i++) {
        if (ends[i].slack || !(ends[i].flags & END_RECEIVE))
            continue;
        ends[i].flags |= suspects == 1 ? END_OPEN | END_ALONE : END_OPEN;
    }
    for (size_t i = 0; i < operations; i++)
        if (ends[i].flags & END_OPEN)
            ends[i].slack = suspects;
}

static void eliminate_all(struct exchanges *exchanges) {
    for (size_t i = 0, end; i < exchanges->count; i = end) {
        for (end = i + 1; end < exchanges->count && exchanges->ends[end].call == exchanges->ends[i].call;)
            end++;
        eliminate(&exchanges->ends[i], end - i);
    }
}

/* ---- pairs --------------------------------------------------------------------------------------------------- */

/* Sorted by bound within the pair. */
static void fill_pair(const struct exchanges *exchanges, size_t from, size_t to, struct exchange_pair *pair) {
    uint32_t quantile = 0, seen = 0, alone = 0;
    double waited = 0, sampled = (double)exchanges->limit / (double)UINT64_MAX;
    for (size_t i = from; i < to; i++)
        if (exchanges->ends[i].flags & END_JUDGED && seen++ == pair->count * EXCHANGE_QUANTILE_PERCENT / 100)
            quantile = exchanges->ends[i].bound;
    for (size_t i = from; i < to; i++) {
        const struct exchange_end *end = &exchanges->ends[i];
        if (!(end->flags & END_JUDGED))
            continue;
        bool low = end->bound <= ROOM_FOR_NOISE * quantile;
        pair->bins[log_bin_of(end->bound)]++;
        pair->low += low;
        pair->low_alone += low && end->flags & END_ALONE;
        pair->low_open += low && end->flags & END_OPEN;
        alone += (end->flags & END_ALONE) != 0;
        waited += end->flags & END_OPEN ? 1.0 / end->slack : 0;
    }
    pair->alone = alone / sampled;
    pair->waited = waited / sampled;
}

static size_t count_judged(const struct exchanges *exchanges, size_t from, size_t to) {
    size_t judged = 0;
    for (size_t i = from; i < to; i++)
        judged += (exchanges->ends[i].flags & END_JUDGED) != 0;
    return judged;
}

struct exchange_pair *exchanges_pairs(struct exchanges *exchanges, uint32_t least, size_t *count) {
    struct exchange_pair *pairs = NULL;
    *count = 0;
    if (exchanges->no_memory || exchanges->count == 0)
        return NULL;
    qsort(exchanges->ends, exchanges->count, sizeof *exchanges->ends, compare_by_pair);
    exclude(exchanges);
    qsort(exchanges->ends, exchanges->count, sizeof *exchanges->ends, compare_by_call);
    eliminate_all(exchanges);
    qsort(exchanges->ends, exchanges->count, sizeof *exchanges->ends, compare_by_pair);
    for (size_t i = 0, end; i < exchanges->count; i = end) {
        end = end_of_pair(exchanges, i);
        size_t judged = count_judged(exchanges, i, end);
        if (judged < least || exchanges->ends[i].from == exchanges->ends[i].to)
            continue;
        if (!grow_list(pairs, *count)) {
            exchanges->no_memory = true;
            break;
        }
        struct exchange_pair *pair = &pairs[(*count)++];
        *pair = (struct exchange_pair){.from = exchanges->ends[i].from,
                                       .to = exchanges->ends[i].to,
                                       .size = exchanges->ends[i].size,
                                       .count = (uint32_t)judged};
        fill_pair(exchanges, i, end, pair);
    }
    return pairs;
}
