/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/aggregates.h"

#include <errno.h>
#include <string.h>

#define OPERATION_ROWS 1024u
#define PEER_ROWS      2048u
#define SITE_ROWS      2048u
#define ROWS_MAX       65536u
#define SIZE_COUNTS    4096u /* (call, communicator) pairs whose distinct sizes are counted */

#define SIZE_REACH 64u /* entries looked at: a full table costs a new pair no more than that */

/* How many exact sizes one (call, source, class, communicator, epoch) has; private memory, one table per lane. */
struct size_count {
    uint64_t key; /* 0: free; no call has the number 0 */
    uint32_t sizes;
};

static struct row_table *new_table(enum section_kind kind, uint32_t lane, uint32_t rows, uint32_t row_bytes) {
    struct row_table *table = os_memory(sizeof *table + 2 * (size_t)rows * sizeof *table->index);
    if (!table)
        return NULL;
    table->rows = (lane < LANES_MAX ? dumpfile_next_section : dumpfile_further_section)(&recorder.file, kind, lane,
                                                                                        rows, row_bytes);
    table->kind = kind;
    table->capacity = rows;
    table->row_bytes = row_bytes;
    table->mask = 2 * rows - 1;
    if (table->rows)
        return table;
    os_unmap(table, sizeof *table + 2 * (size_t)rows * sizeof *table->index);
    return NULL;
}

bool aggregates_begin(struct lane *lane) {
    lane->sizes = os_memory(SIZE_COUNTS * sizeof *lane->sizes);
    lane->operations = new_table(SECTION_OPERATIONS, lane->index, OPERATION_ROWS, sizeof(struct operation_row));
    lane->peers = new_table(SECTION_PEERS, lane->index, PEER_ROWS, sizeof(struct peer_row));
    if (recorder.tells_sites)
        lane->sites = new_table(SECTION_SITES, lane->index, SITE_ROWS, sizeof(struct site_row));
    return lane->sizes && lane->operations && lane->peers && (lane->sites || !recorder.tells_sites);
}

bool aggregates_tell_sites(void) {
    bool done = true;
    for (uint32_t i = 0; i < LANES_MAX; i++) {
        struct lane *lane = &recorder.lanes[i];
        if (!__atomic_load_n(&lane->ready, __ATOMIC_ACQUIRE) || lane->sites)
            continue;
        struct row_table *table = new_table(SECTION_SITES, i, SITE_ROWS, sizeof(struct site_row));
        done &= table != NULL;
        __atomic_store_n(&lane->sites, table, __ATOMIC_RELEASE);
    }
    recorder.tells_sites |= done;
    return done;
}

/* ---- further tables -------------------------------------------------------------------------- */

/* The next table takes the place of *place; the one before stays in the dump as it is. One thread makes it, so that the
 * others of a shared lane still find room meanwhile. */
static void grow_table(struct lane *lane, struct row_table **place, struct row_table *full) {
    if (full->capacity >= ROWS_MAX || __atomic_exchange_n(&full->followed, true, __ATOMIC_RELAXED))
        return;
    int saved = errno;
    uint32_t index = LANES_MAX + __atomic_fetch_add(&recorder.extensions, 1, __ATOMIC_RELAXED);
    struct row_table *next =
        index < LANE_STATES ? new_table(full->kind, index, full->capacity * 4, full->row_bytes) : NULL;
    if (next) {
        recorder.lane_states[index].shared = lane->shared;
        recorder.lane_states[index].extends = lane->index + 1;
        __atomic_store_n(place, next, __ATOMIC_RELEASE);
    }
    errno = saved;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* May this (call, communicator) have one more exact size? Threads of a shared lane may overshoot by a few. */
static bool one_more_size(struct lane *lane, uint64_t key) {
    uint32_t at = row_hash(key, 0);
    for (uint32_t i = 0; i < SIZE_REACH; i++) {
        struct size_count *entry = &lane->sizes[(at + i) % SIZE_COUNTS];
        uint64_t taken = 0;
        if (__atomic_compare_exchange_n(&entry->key, &taken, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
            taken == key)
            return __atomic_load_n(&entry->sizes, __ATOMIC_RELAXED) < EXACT_SIZES &&
                   __atomic_add_fetch(&entry->sizes, 1, __ATOMIC_RELAXED);
    }
    return false;
}

/* A place for one more row; NULL where the table is full, or its file: then it ends here. */
static char *new_row(struct row_table *table, uint32_t *number) {
    if (__atomic_load_n(&table->used, __ATOMIC_RELAXED) >= table->capacity)
        return NULL;
    uint32_t taken = __atomic_fetch_add(&table->used, 1, __ATOMIC_RELAXED);
    char *row = table->rows + (size_t)taken * table->row_bytes;
    if (taken >= table->capacity)
        return NULL;
    if (!dumpfile_make_room(&recorder.file, row, table->row_bytes)) {
        __atomic_store_n(&table->used, table->capacity, __ATOMIC_RELAXED);
        return NULL;
    }
    *number = taken + 1;
    return row;
}

/* The first entry of the index from `at` on that is free or leads to a row with that key, which then is *row. */
static uint32_t *find_entry(struct row_table *table, uint32_t at, const struct row_key *key, char **row) {
    for (;; at++) {
        uint32_t *entry = &table->index[at & table->mask], number = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
        *row = number ? table_row(table, number) : NULL;
        if (!*row || !memcmp(*row + sizeof(uint64_t), key, sizeof *key))
            return entry;
    }
}

/* Nobody waits for another thread of a shared lane that makes the same row: a key that then has two is added up by
 * readers. Half of the index stays free, so that every search ends. */
static void *make_row(struct row_table *table, const struct row_key *key) {
    uint32_t number, nobody = 0, at = row_hash(key->first, key->second);
    char *other, *row = new_row(table, &number);
    if (!row)
        return NULL;
    memcpy(row + sizeof(uint64_t), key, sizeof *key);
    if (table->kind == SECTION_OPERATIONS)
        ((struct operation_row *)row)->time_min = UINT64_MAX;
    __atomic_store_n((uint64_t *)row, 2, __ATOMIC_RELEASE);
    for (uint32_t *entry = find_entry(table, at, key, &other); !other; entry = find_entry(table, at, key, &other)) {
        if (__atomic_compare_exchange_n(entry, &nobody, number, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            break;
        nobody = 0;
    }
    return row;
}

static void *find_row(struct row_table *table, const struct row_key *key) {
    char *row;
    find_entry(table, row_hash(key->first, key->second), key, &row);
    return row;
}

/* The row with that key, made where it is missing. NULL: no table has room for it. */
static void *add_row(struct lane *lane, struct row_table **place, const struct row_key *key) {
    struct row_table *table = table_of(place);
    void *row = find_row(table, key);
    if (!row)
        row = make_row(table, key);
    if (__atomic_load_n(&table->used, __ATOMIC_RELAXED) >= table->capacity / 4 * 3)
        grow_table(lane, place, table);
    return row || table_of(place) == table ? row : make_row(table_of(place), key);
}

struct operation_row *operations_insert(struct lane *lane, uint64_t key, uint64_t bytes) {
    struct operation_row *row = find_row(table_of(&lane->operations), &(struct row_key){key, bytes});
    if (row)
        return row;
    if (bytes == BYTES_UNKNOWN || bytes == 0 || one_more_size(lane, key))
        return add_row(lane, &lane->operations, &(struct row_key){key, bytes});
    uint64_t size_class = 1ull << (63 - __builtin_clzll(bytes));
    return add_row(lane, &lane->operations, &(struct row_key){key | (uint64_t)SOURCE_SIZE_CLASS << 16, size_class});
}

struct peer_row *peers_insert(struct lane *lane, const struct row_key *key) {
    struct peer_row *row = add_row(lane, &lane->peers, key);
    if (!row)
        count_loss(&lane->state->peers_lost);
    return row;
}

struct site_row *sites_insert(struct lane *lane, const struct row_key *key) {
    struct site_row *row = add_row(lane, &lane->sites, key);
    if (!row)
        count_loss(&lane->state->sites_lost);
    return row;
}

static void add_atomically(uint64_t *to, uint64_t value) {
    __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

static void raise_to(uint64_t *to, uint64_t value) {
    uint64_t seen = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (value > seen && !__atomic_compare_exchange_n(to, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void lower_to(uint64_t *to, uint64_t value) {
    uint64_t seen = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (value < seen && !__atomic_compare_exchange_n(to, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void add_time(struct operation_row *row, uint64_t time) {
    if (time == UINT64_MAX) {
        add_atomically(&row->untimed, 1);
        return;
    }
    add_atomically(&row->time_total, time);
    lower_to(&row->time_min, time);
    raise_to(&row->time_max, time);
    uint32_t *bucket = &row->histogram[histogram_bucket(time)];
    if (__atomic_load_n(bucket, __ATOMIC_RELAXED) != UINT32_MAX)
        __atomic_fetch_add(bucket, 1, __ATOMIC_RELAXED);
}

void operation_add_rare(struct lane *lane, struct operation_row *row, const struct operation_sample *s) {
    uint64_t bytes = known_bytes(s->bytes);
    if (!row) {
        add_atomically(&lane->state->operations_lost, 1);
        add_atomically(&lane->state->operations_lost_bytes, bytes);
        add_atomically(&lane->state->operations_lost_ticks, s->time == UINT64_MAX ? 0 : s->time);
        return;
    }
    uint64_t version = __atomic_load_n(&row->version, __ATOMIC_RELAXED);
    if (!lane->shared)
        __atomic_store_n(&row->version, version + 1, __ATOMIC_RELEASE);
    add_atomically(&row->count, 1);
    add_atomically(&row->bytes_total, bytes);
    add_time(row, s->time);
    add_atomically(&row->posting_total, s->posting);
    add_atomically(&row->received_bytes, s->received_bytes);
    add_atomically(&row->failed, s->failed);
    add_atomically(&row->posted_size, s->posted_size);
    if (!lane->shared)
        __atomic_store_n(&row->version, version + 2, __ATOMIC_RELEASE);
}

void operations_count_lost(struct lane_state *state, const struct operation_row *rows, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].version) {
            add_atomically(&state->operations_lost, rows[i].count);
            add_atomically(&state->operations_lost_bytes, rows[i].bytes_total);
            add_atomically(&state->operations_lost_ticks, rows[i].time_total);
        }
}

void peer_add_shared(struct peer_row *row, uint64_t bytes, uint64_t time, uint64_t wait) {
    add_atomically(&row->count, 1);
    add_atomically(&row->bytes_total, known_bytes(bytes));
    add_atomically(&row->time_total, time);
    raise_to(&row->time_max, time);
    add_atomically(&row->wait_total, wait);
}

void site_add_shared(struct site_row *row, uint64_t bytes, uint64_t time, uint64_t posting) {
    add_atomically(&row->count, 1);
    add_atomically(&row->bytes_total, known_bytes(bytes));
    add_atomically(&row->time_total, time);
    raise_to(&row->time_max, time);
    add_atomically(&row->posting_total, posting);
}
