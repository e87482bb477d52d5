/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/aggregates.h"

#include <errno.h>

#define OPERATION_ROWS 1024u
#define PEER_ROWS      2048u
#define SITE_ROWS      2048u
#define ROWS_MAX       65536u
#define SIZE_COUNTS    4096u /* (call, communicator) pairs whose distinct sizes are counted */

/* How many exact sizes one (call, source, class, communicator, epoch) has; private memory, one table per lane. */
struct size_count {
    uint64_t key; /* 0: free; no call has the number 0 */
    uint32_t sizes;
};

static bool table_begin(struct row_table **table, struct dumpfile *file, enum section_kind kind, uint32_t lane,
                        uint32_t rows, uint32_t row_bytes) {
    struct row_table *made = os_memory(sizeof *made);
    if (!made)
        return false;
    made->rows = dumpfile_section(file, kind, lane, rows, row_bytes);
    made->mask = rows - 1;
    __atomic_store_n(table, made, __ATOMIC_RELEASE);
    return made->rows != NULL;
}

bool aggregates_begin(struct lane *lane, struct dumpfile *file) {
    lane->sizes = os_memory(SIZE_COUNTS * sizeof *lane->sizes);
    return lane->sizes &&
           table_begin(&lane->operations, file, SECTION_OPERATIONS, lane->index, OPERATION_ROWS,
                       sizeof(struct operation_row)) &&
           table_begin(&lane->peers, file, SECTION_PEERS, lane->index, PEER_ROWS, sizeof(struct peer_row)) &&
           (!recorder.tells_sites ||
            table_begin(&lane->sites, file, SECTION_SITES, lane->index, SITE_ROWS, sizeof(struct site_row)));
}

/* ---- further tables -------------------------------------------------------------------------- */

static bool is_full(const struct row_table *table) {
    return __atomic_load_n(&table->used, __ATOMIC_RELAXED) > table->mask / 8 * 7;
}

/* Rows of the next table; 0 when there may be no more. Whoever brings the count to three quarters makes it, so that
 * other threads of a shared lane still find room meanwhile. */
static uint32_t next_rows(uint32_t used, uint32_t mask) {
    return used == (mask + 1) / 4 * 3 && mask + 1 < ROWS_MAX ? (mask + 1) * 4 : 0;
}

/* The next table takes the place of *table; the full one stays in the dump as it is. */
static void grow_table(struct lane *lane, struct row_table **table, enum section_kind kind, uint32_t rows,
                       uint32_t row_bytes) {
    int saved = errno;
    uint32_t index = LANES_MAX + __atomic_fetch_add(&recorder.extensions, 1, __ATOMIC_RELAXED);
    struct row_table *next = index < LANE_STATES ? os_memory(sizeof *next) : NULL;
    void *section = next ? dumpfile_section(&recorder.file, kind, index, rows, row_bytes) : NULL;
    if (section) {
        recorder.lane_states[index].shared = lane->shared;
        recorder.lane_states[index].extends = lane->index + 1;
        next->rows = section;
        next->mask = rows - 1;
        __atomic_store_n(table, next, __ATOMIC_RELEASE);
    }
    errno = saved;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* May this (call, communicator) have one more exact size? Threads of a shared lane may overshoot by a few. */
static bool one_more_size(struct lane *lane, uint64_t key) {
    uint32_t at = row_hash(key, 0);
    for (uint32_t i = 0; i < SIZE_COUNTS; i++) {
        struct size_count *entry = &lane->sizes[(at + i) % SIZE_COUNTS];
        uint64_t taken = 0;
        if (__atomic_compare_exchange_n(&entry->key, &taken, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
            taken == key)
            return __atomic_load_n(&entry->sizes, __ATOMIC_RELAXED) < EXACT_SIZES &&
                   __atomic_add_fetch(&entry->sizes, 1, __ATOMIC_RELAXED);
    }
    return false;
}

static void fill_operation_row(struct operation_row *row, uint64_t key, uint64_t bytes) {
    row->call = (uint16_t)key;
    row->source = (uint8_t)(key >> 16);
    row->peer_class = (uint8_t)(key >> 24);
    row->comm_epoch = (uint32_t)(key >> 32);
    row->bytes = bytes;
    row->time_min = UINT64_MAX;
}

/* For the caller to make; false where another thread of a shared lane was quicker. Nobody waits for such a row: the
 * next free one is taken, and a key that then has two rows is added up by readers. */
static bool row_claim(uint64_t *version) {
    uint64_t free = 0;
    return __atomic_compare_exchange_n(version, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* The row with that key, made when it is missing and `make` says so. */
static struct operation_row *operations_probe(struct lane *lane, uint64_t key, uint64_t bytes, bool make) {
    struct row_table *table = table_of(&lane->operations);
    uint32_t at = row_hash(key, bytes);
    for (uint32_t i = 0; i <= table->mask; i++) {
        struct operation_row *row = (struct operation_row *)table->rows + ((at + i) & table->mask);
        uint64_t version = __atomic_load_n(&row->version, __ATOMIC_ACQUIRE);
        if (version > 1 && row->bytes == bytes && row_key(&row->call) == key)
            return row;
        if (version)
            continue;
        if (!make || is_full(table))
            return NULL;
        if (!row_claim(&row->version))
            continue;
        uint32_t rows = next_rows(__atomic_add_fetch(&table->used, 1, __ATOMIC_RELAXED), table->mask);
        fill_operation_row(row, key, bytes);
        __atomic_store_n(&row->version, 2, __ATOMIC_RELEASE);
        if (rows)
            grow_table(lane, &lane->operations, SECTION_OPERATIONS, rows, sizeof *row);
        return row;
    }
    return NULL;
}

struct operation_row *operations_insert(struct lane *lane, uint64_t key, uint64_t bytes) {
    struct operation_row *row = operations_probe(lane, key, bytes, false);
    if (row)
        return row;
    if (bytes == BYTES_UNKNOWN || bytes == 0 || one_more_size(lane, key))
        return operations_probe(lane, key, bytes, true);
    uint64_t size_class = 1ull << (63 - __builtin_clzll(bytes));
    return operations_probe(lane, key | (uint64_t)SOURCE_SIZE_CLASS << 16, size_class, true);
}

struct peer_row *peers_insert(struct lane *lane, uint64_t key, uint16_t call, uint16_t direction) {
    struct row_table *table = table_of(&lane->peers);
    uint32_t at = row_hash(key, call * 4u + direction);
    for (uint32_t i = 0; i <= table->mask; i++) {
        struct peer_row *row = (struct peer_row *)table->rows + ((at + i) & table->mask);
        uint64_t version = __atomic_load_n(&row->version, __ATOMIC_ACQUIRE);
        if (version > 1 && row_key(&row->comm_epoch) == key && row->call == call && row->direction == direction)
            return row;
        if (version)
            continue;
        if (is_full(table))
            break;
        if (!row_claim(&row->version))
            continue;
        uint32_t rows = next_rows(__atomic_add_fetch(&table->used, 1, __ATOMIC_RELAXED), table->mask);
        row->comm_epoch = (uint32_t)key;
        row->peer = (int32_t)(key >> 32);
        row->call = call;
        row->direction = direction;
        __atomic_store_n(&row->version, 2, __ATOMIC_RELEASE);
        if (rows)
            grow_table(lane, &lane->peers, SECTION_PEERS, rows, sizeof *row);
        return row;
    }
    count_loss(&lane->state->peers_lost);
    return NULL;
}

struct site_row *sites_insert(struct lane *lane, uint64_t key, uint16_t call) {
    struct row_table *table = table_of(&lane->sites);
    uint32_t at = row_hash(key, call);
    for (uint32_t i = 0; i <= table->mask; i++) {
        struct site_row *row = (struct site_row *)table->rows + ((at + i) & table->mask);
        uint64_t version = __atomic_load_n(&row->version, __ATOMIC_ACQUIRE);
        if (version > 1 && row_key(&row->stack) == key && row->call == call)
            return row;
        if (version)
            continue;
        if (is_full(table))
            break;
        if (!row_claim(&row->version))
            continue;
        uint32_t rows = next_rows(__atomic_add_fetch(&table->used, 1, __ATOMIC_RELAXED), table->mask);
        row->stack = (uint32_t)key;
        row->comm_epoch = (uint32_t)(key >> 32);
        row->call = call;
        __atomic_store_n(&row->version, 2, __ATOMIC_RELEASE);
        if (rows)
            grow_table(lane, &lane->sites, SECTION_SITES, rows, sizeof *row);
        return row;
    }
    count_loss(&lane->state->sites_lost);
    return NULL;
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
    uint64_t known_bytes = s->bytes == BYTES_UNKNOWN ? 0 : s->bytes;
    if (!row) {
        add_atomically(&lane->state->operations_lost, 1);
        add_atomically(&lane->state->operations_lost_bytes, known_bytes);
        add_atomically(&lane->state->operations_lost_ticks, s->time == UINT64_MAX ? 0 : s->time);
        return;
    }
    uint64_t version = __atomic_load_n(&row->version, __ATOMIC_RELAXED);
    if (!lane->shared)
        __atomic_store_n(&row->version, version + 1, __ATOMIC_RELEASE);
    add_atomically(&row->count, 1);
    add_atomically(&row->bytes_total, known_bytes);
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
    add_atomically(&row->bytes_total, bytes == BYTES_UNKNOWN ? 0 : bytes);
    add_atomically(&row->time_total, time);
    raise_to(&row->time_max, time);
    add_atomically(&row->wait_total, wait);
}

void site_add_shared(struct site_row *row, uint64_t bytes, uint64_t time) {
    add_atomically(&row->count, 1);
    add_atomically(&row->bytes_total, bytes == BYTES_UNKNOWN ? 0 : bytes);
    add_atomically(&row->time_total, time);
    raise_to(&row->time_max, time);
}
