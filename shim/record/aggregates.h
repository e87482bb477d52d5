/* SPDX-License-Identifier: Apache-2.0
 *
 * The marginal tables: every call is counted here, whatever the ring forgets.
 * Lives here: finding and updating rows. Must not live here: what a call's bytes or peer are.
 * Rows lie in the mapped file, one behind the other in the order of their making, so that few of them take few pages;
 * they are found by an index in private memory. A row, once made, stays. In a shared lane rows are updated by atomic
 * additions instead of under their version word.
 */
#ifndef COMMTAP_SHIM_RECORD_AGGREGATES_H
#define COMMTAP_SHIM_RECORD_AGGREGATES_H

#include <stdint.h>

#include "shim/format.h"
#include "shim/record/recorder.h"

/* Rows of one table; a power of two of them. A full table is followed by a larger one in a lane of its own: keys may
 * then stand in several tables, and readers add them up. So is one whose file has no room for its next row. */
struct row_table {
    char *rows; /* struct operation_row, peer_row or site_row */
    enum section_kind kind;
    uint32_t capacity, row_bytes;
    uint32_t used;    /* rows taken, atomic */
    bool followed;    /* by a larger one, or there can be none */
    uint32_t mask;    /* of the index, whose entries are twice as many as the rows */
    uint32_t index[]; /* open addressing: number of a row, from 1; 0 = free; atomic */
};

/* What every row has behind its version word. */
struct row_key {
    uint64_t first, second;
};
#define ASSERT_KEY(row, begin, end)                                                                                    \
    _Static_assert(offsetof(struct row, begin) == 8 && offsetof(struct row, end) == 8 + sizeof(struct row_key), #row)
ASSERT_KEY(operation_row, call, count);
ASSERT_KEY(peer_row, comm_epoch, count);
ASSERT_KEY(site_row, stack, count);

/* What one finished call adds. Times in ticks. */
struct operation_sample {
    uint16_t call;
    uint8_t peer_class;
    uint32_t comm; /* local index or COMM_NONE */
    uint64_t bytes;
    uint64_t time; /* UINT64_MAX: none */
    uint64_t posting;
    uint64_t received_bytes;
    bool failed;
    bool posted_size;
};

/* Slow halves of the functions below. */
struct operation_row *operations_insert(struct lane *lane, uint64_t key, uint64_t bytes);
struct peer_row *peers_insert(struct lane *lane, const struct row_key *key);
void operation_add_rare(struct lane *lane, struct operation_row *row, const struct operation_sample *sample);

/* The calls of a table that did not reach the dump count as lost. */
void operations_count_lost(struct lane_state *state, const struct operation_row *rows, uint32_t count);
struct site_row *sites_insert(struct lane *lane, const struct row_key *key);
void site_add_shared(struct site_row *row, uint64_t bytes, uint64_t time, uint64_t posting);
void peer_add_shared(struct peer_row *row, uint64_t bytes, uint64_t time, uint64_t wait);

/* Tables of a new lane. */
bool aggregates_begin(struct lane *lane);

static inline uint32_t comm_and_epoch(uint32_t comm) {
    return (comm < ROW_COMM_NONE ? comm : ROW_COMM_NONE) | recorder.epoch_bits;
}

/* The exponent of a floating-point number and the first two bits behind its point are what a bucket is: the hardware's
 * conversion finds them. It is exact below the last bucket's end; a sign, of times from 2^63 on, counts as a larger
 * exponent. No branch for the shortest: calls of 10 ns lie at the first bucket's end. */
static inline uint32_t histogram_bucket(uint64_t t) {
    const uint64_t bias = 1023;
    double value = (double)(int64_t)t;
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    int64_t bucket = (int64_t)(bits >> 50) - (int64_t)(4 * (bias + HISTOGRAM_FIRST));
    bucket = bucket < 0 ? 0 : bucket;
    return likely(bucket < (int64_t)HISTOGRAM_BUCKETS) ? (uint32_t)bucket : HISTOGRAM_BUCKETS - 1;
}

/* What a sum takes up of a call's bytes. */
static inline uint64_t known_bytes(uint64_t bytes) {
    return bytes == BYTES_UNKNOWN ? 0 : bytes;
}

/* The words after `version`: call, source, class, comm_epoch as one key. */
static inline uint64_t operation_key(uint16_t call, uint8_t source, uint8_t peer_class, uint32_t comm_epoch) {
    return (uint64_t)call | (uint64_t)source << 16 | (uint64_t)peer_class << 24 | (uint64_t)comm_epoch << 32;
}

/* The newest table: another thread of a shared lane may have made it. */
static inline struct row_table *table_of(struct row_table *const *table) {
    return __atomic_load_n(table, __ATOMIC_ACQUIRE);
}

static inline uint32_t row_hash(uint64_t first, uint64_t second) {
    return (uint32_t)((first ^ hash_spread(second)) * 0xd6e8feb86659fd93u >> 40);
}

static inline char *table_row(const struct row_table *table, uint32_t number) {
    return table->rows + (size_t)(number - 1) * table->row_bytes;
}

/* The row with that key where it has the first place in the index that it could have; else NULL: it may be elsewhere.
 */
static inline void *row_at_once(struct row_table *const *place, uint64_t first, uint64_t second) {
    const struct row_table *table = table_of(place);
    uint32_t number = __atomic_load_n(&table->index[row_hash(first, second) & table->mask], __ATOMIC_ACQUIRE);
    struct row_key key;
    if (unlikely(!number))
        return NULL;
    char *row = table_row(table, number);
    __builtin_memcpy(&key, row + sizeof(uint64_t), sizeof key);
    return likely(key.first == first && key.second == second) ? row : NULL;
}

static inline struct operation_row *operations_find(struct lane *lane, uint64_t key, uint64_t bytes) {
    struct operation_row *row = row_at_once(&lane->operations, key, bytes);
    return likely(row != NULL) ? row : operations_insert(lane, key, bytes);
}

/* Counts one timed, successful call of `bytes` known ones in a row of an exclusive lane, between row_begin and row_end.
 */
static inline void operation_count(struct operation_row *row, uint64_t bytes, uint64_t time) {
    row->count++;
    row->bytes_total += bytes;
    row->time_total += time;
    if (time < row->time_min)
        row->time_min = time;
    if (time > row->time_max)
        row->time_max = time;
    uint32_t *bucket = &row->histogram[histogram_bucket(time)];
    *bucket += *bucket != UINT32_MAX;
}

/* The same of `count` calls of `bytes` each that took `time` together. */
static inline void operation_count_alike(struct operation_row *row, uint32_t count, uint64_t bytes, uint64_t time) {
    for (uint32_t i = 0; i < count; i++)
        operation_count(row, known_bytes(bytes), time / count + (i < time % count));
}

static inline uint64_t row_begin(uint64_t *version) {
    uint64_t before = *version;
    __atomic_store_n(version, before + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return before;
}

static inline void row_end(uint64_t *version, uint64_t before) {
    __atomic_store_n(version, before + 2, __ATOMIC_RELEASE);
}

static inline void operations_add(struct lane *lane, const struct operation_sample *s) {
    uint64_t key = operation_key(s->call, SOURCE_HOST, s->peer_class, comm_and_epoch(s->comm));
    struct operation_row *row = operations_find(lane, key, s->bytes);
    if (unlikely(!row || lane->shared || s->failed || s->time == UINT64_MAX)) {
        operation_add_rare(lane, row, s);
        return;
    }
    uint64_t before = row_begin(&row->version);
    operation_count(row, known_bytes(s->bytes), s->time);
    row->posting_total += s->posting;
    row->received_bytes += s->received_bytes;
    row->posted_size += s->posted_size;
    row_end(&row->version, before);
}

/* The row of messages with `peer`; NULL (counted) when there is no room. */
static inline struct peer_row *peers_find(struct lane *lane, uint32_t comm, int32_t peer, uint16_t call,
                                          uint16_t direction) {
    const struct row_key key = {(uint64_t)comm_and_epoch(comm) | (uint64_t)(uint32_t)peer << 32,
                                (uint64_t)call | (uint64_t)direction << 16};
    struct peer_row *row = row_at_once(&lane->peers, key.first, key.second);
    return likely(row != NULL) ? row : peers_insert(lane, &key);
}

/* Counts one message of `bytes` known ones in a row of an exclusive lane. */
static inline void peer_count(struct peer_row *row, uint64_t bytes, uint64_t time, uint64_t wait) {
    uint64_t before = row_begin(&row->version);
    row->count++;
    row->bytes_total += bytes;
    row->time_total += time;
    if (time > row->time_max)
        row->time_max = time;
    row->wait_total += wait;
    row_end(&row->version, before);
}

/* One message with `peer`, seen from here. `wait` = ticks of the Wait or Test call that saw it complete. Returns the
 * row where further ones may be counted by peer_count, else NULL. */
static inline struct peer_row *peers_add(struct lane *lane, uint32_t comm, int32_t peer, uint16_t call,
                                         uint16_t direction, uint64_t bytes, uint64_t time, uint64_t wait) {
    struct peer_row *row = peers_find(lane, comm, peer, call, direction);
    if (likely(row && !lane->shared)) {
        peer_count(row, known_bytes(bytes), time, wait);
        return row;
    }
    if (row)
        peer_add_shared(row, bytes, time, wait);
    return NULL;
}

/* Stacks are on from now on, which were off: calls are counted by call site, too. False: there is no room for it. */
bool aggregates_tell_sites(void);

/* The row of calls from a call site; NULL (counted) when there is no room. Not where the lane has no table. */
static inline struct site_row *sites_find(struct lane *lane, uint32_t stack, uint32_t comm, uint16_t call) {
    const struct row_key key = {(uint64_t)stack | (uint64_t)comm_and_epoch(comm) << 32, call};
    struct site_row *row = row_at_once(&lane->sites, key.first, key.second);
    return likely(row != NULL) ? row : sites_insert(lane, &key);
}

/* Counts one call of `bytes` known ones in a row of an exclusive lane. */
static inline void site_count(struct site_row *row, uint64_t bytes, uint64_t time, uint64_t posting) {
    uint64_t before = row_begin(&row->version);
    row->count++;
    row->bytes_total += bytes;
    row->time_total += time;
    if (time > row->time_max)
        row->time_max = time;
    row->posting_total += posting;
    row_end(&row->version, before);
}

/* One call from a call site. `time` as for operations, 0 when there is none; `posting` is 0 of a call that was complete
 * when it returned. Returns the row where further ones may be counted by site_count, else NULL. */
static inline struct site_row *sites_add(struct lane *lane, uint32_t stack, uint32_t comm, uint16_t call,
                                         uint64_t bytes, uint64_t time, uint64_t posting) {
    struct site_row *row = recorder.tells_sites && lane->sites ? sites_find(lane, stack, comm, call) : NULL;
    if (likely(row && !lane->shared)) {
        site_count(row, known_bytes(bytes), time, posting);
        return row;
    }
    if (row)
        site_add_shared(row, bytes, time, posting);
    return NULL;
}

#endif
