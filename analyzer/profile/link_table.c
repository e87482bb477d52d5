/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows by rank first; those by host are sums of them.
 */
#include "analyzer/profile/link_table.h"

#include <stdlib.h>

#include "analyzer/load/rows.h"
#include "analyzer/profile/summary.h"

HASH_TABLE_OF(link_rows, struct link_row, struct link_row_key);
HASH_TABLE_OF_TEXTS(left_outs, struct link_left_out);

struct rank_place {
    int32_t key;
    uint32_t dump;
};
HASH_TABLE_OF(rank_places, struct rank_place, int32_t);

struct build {
    struct link_table *table;
    const struct link_sources *sources;
    struct hash_table rows, hosts, left_out, ranks;
};

static uint64_t sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* ---- by rank ------------------------------------------------------------------------------------------------- */

/* NULL: one of the ranks is not known, or memory is short. */
static struct link_row *row_of(struct build *build, enum link_kind kind, int32_t from, int32_t to) {
    if (from < 0 || to < 0)
        return NULL;
    struct link_row_key key = {kind, (uint32_t)from, (uint32_t)to};
    struct link_row *row = link_rows_add(&build->rows, &key);
    build->table->no_memory |= !row;
    return row;
}

static struct link_row *row_of_dumps(struct build *build, enum link_kind kind, uint32_t from, uint32_t to) {
    struct dump *const *dumps = build->sources->clock->dumps;
    return row_of(build, kind, dumps[from]->header->rank, dumps[to]->header->rank);
}

static bool list_ranks(struct build *build) {
    const struct common_clock *clock = build->sources->clock;
    for (size_t d = 0; d < clock->dump_count; d++) {
        struct rank_place *place = rank_places_add(&build->ranks, &clock->dumps[d]->header->rank);
        if (!place)
            return false;
        place->dump = (uint32_t)d;
    }
    return true;
}

/* Which rank of the world a row is about; RANK_UNKNOWN where it is none of this world. */
static int32_t partner_of(struct build *build, const struct dump_communicator *communicator,
                          const struct peer_row *peer) {
    if (communicator && communicator->definition->flags & COMMUNICATOR_FOREIGN) {
        build->table->with_another_world = sum(build->table->with_another_world, peer->count);
        return RANK_UNKNOWN;
    }
    return dump_peer_rank(communicator, peer->peer);
}

static void count_messages(struct build *build, const struct dump *dump) {
    struct peer_row peer;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        for (uint32_t i = 0; i < dump->lanes[lane].peer_count; i++) {
            if (!peer_row_read(dump, &dump->lanes[lane].peers[i], &peer) || peer.count == 0)
                continue;
            const struct dump_communicator *communicator = dump_communicator(dump, peer.comm_epoch & ROW_COMM_NONE);
            int32_t own = dump->header->rank, other = partner_of(build, communicator, &peer);
            bool sends = peer.direction & FLAG_SEND;
            struct link_row *row = row_of(build, LINK_MESSAGES, sends ? own : other, sends ? other : own);
            if (!row)
                continue;
            struct link_side *side = sends ? &row->sent : &row->received;
            side->count = sum(side->count, peer.count);
            side->bytes = sum(side->bytes, peer.bytes_total);
        }
}

/* ---- collectives --------------------------------------------------------------------------------------------- */

static bool goes_round(const struct call_name *call) {
    bool ring = call->busbw == BUSBW_ALLREDUCE || call->busbw == BUSBW_SHARE;
    return call->flow == FLOW_ALL && ring && strncmp(call->torch, "all_to_all", 10) != 0;
}

static bool leave_out(struct build *build, const struct call_name *call, const struct operation_row *row) {
    struct link_left_out *entry = left_outs_add(&build->left_out, call->name);
    if (!entry)
        return false;
    bool pairs = strncmp(call->torch, "all_to_all", 10) == 0;
    bool root = call->flow == FLOW_FROM_ROOT || call->flow == FLOW_TO_ROOT;
    entry->why = pairs ? LEFT_OUT_EVERY_PAIR : root ? LEFT_OUT_ROOT : LEFT_OUT_UNKNOWN;
    entry->calls = sum(entry->calls, row->count);
    entry->bytes = sum(entry->bytes, row->bytes_total);
    return true;
}

/* What this rank passes on to the next one. Rows of the GPU are of the same collectives as the host's, but for replays
 * of graphs, which only the GPU's have. */
static void estimate(struct build *build, const struct dump *dump, const struct dump_communicator *communicator,
                     const struct call_name *call, const struct operation_row *operation) {
    uint32_t size = communicator->definition->size;
    int32_t place = communicator->definition->my_rank;
    bool device = (operation->source & ~SOURCE_SIZE_CLASS) != SOURCE_HOST;
    if (place < 0 || (uint32_t)place >= size)
        return;
    int32_t next = dump_peer_rank(communicator, (int32_t)(((uint32_t)place + 1) % size));
    struct link_row *row = row_of(build, LINK_COLLECTIVES, dump->header->rank, next);
    if (!row)
        return;
    double bytes = busbw_factor((enum busbw)call->busbw, size) * (double)operation->bytes_total;
    uint64_t *to = device ? &row->device_bytes : &row->host_bytes;
    uint64_t *calls = device ? &row->received.count : &row->sent.count;
    *to = sum(*to, bytes < 0x1p63 ? (uint64_t)(bytes + 0.5) : UINT64_MAX);
    *calls = sum(*calls, operation->count);
}

static bool count_collectives(struct build *build, const struct dump *dump) {
    struct operation_row row;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        for (uint32_t i = 0; i < dump->lanes[lane].operation_count; i++) {
            enum row_state state = operation_row_read(dump, &dump->lanes[lane].operations[i], &row);
            if ((state != ROW_STABLE && state != ROW_TORN) || row.bytes_total == 0)
                continue;
            const struct call_name *call = dump_call(dump, row.call);
            const struct dump_communicator *communicator = dump_communicator(dump, row.comm_epoch & ROW_COMM_NONE);
            if (!call || call->call_class != CLASS_COLLECTIVE || !communicator || communicator->definition->size < 2)
                continue;
            bool ring = goes_round(call) && communicator->definition->kind == COMMUNICATOR_INTRA;
            if (ring)
                estimate(build, dump, communicator, call, &row);
            else if ((row.source & ~SOURCE_SIZE_CLASS) == SOURCE_HOST && !leave_out(build, call, &row))
                return false;
        }
    return true;
}

/* ---- what was measured --------------------------------------------------------------------------------------- */

static void add_times(struct build *build) {
    const struct links *links = build->sources->links;
    const struct link_cell *cells = link_cells_items(&links->cells);
    for (size_t i = 0; !links->overflow && i < links->cells.count; i++) {
        struct link_row *row = row_of_dumps(build, LINK_MESSAGES, cells[i].key.from, cells[i].key.to);
        if (!row)
            continue;
        row->timed += cells[i].count;
        row->timed_bytes = sum(row->timed_bytes, cells[i].bytes);
        row->timed_ns = sum(row->timed_ns, cells[i].took_ns);
    }
}

/* The least value that falls into a bin. */
static double edge_of(uint32_t bin) {
    uint64_t low = 0, high = UINT64_C(1) << 62;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (log_bin_of(middle) < bin)
            low = middle + 1;
        else
            high = middle;
    }
    return (double)low;
}

/* The messages of a pair that are held up least take less than the upper edge of their bin, and the error of the
 * clocks; they hold no less than the lower edge of theirs. So it is proved whatever the bins hide. */
static void add_bounds(struct build *build) {
    const struct links *links = build->sources->links;
    for (size_t i = 0; i < links->pair_count; i++) {
        const struct exchange_pair *pair = &links->pairs[i];
        int64_t error = common_clock_error(links->clock, pair->from, pair->to);
        struct link_row *row = row_of_dumps(build, LINK_MESSAGES, pair->from, pair->to);
        if (!row || error == CLOCK_ERROR_UNKNOWN || pair->count == 0)
            continue;
        double typical = log_bins_quantile(pair->bins, pair->count, EXCHANGE_QUANTILE_PERCENT / 100.0);
        uint32_t bin = log_bin_of((uint64_t)typical);
        double least = bin + 1 < LOG_BINS ? edge_of(pair->size) / (edge_of(bin + 1) + (double)error) : 0;
        row->least_bytes_per_ns = least > row->least_bytes_per_ns ? least : row->least_bytes_per_ns;
    }
}

static void add_waits(struct build *build) {
    const struct link_waits *waits = build->sources->waits;
    for (size_t i = 0; i < waits->rows.count; i++) {
        const struct link_waits_row *wait = &link_waits_rows_items(&waits->rows)[i];
        struct link_row *row = row_of_dumps(build, LINK_MESSAGES, wait->key.from, wait->key.to);
        if (!row)
            continue;
        row->matched = sum(row->matched, wait->messages);
        row->matched_bytes = sum(row->matched_bytes, wait->bytes);
        row->late_sender_ns = add_ns(row->late_sender_ns, wait->late_sender_ns);
        row->late_receiver_ns = add_ns(row->late_receiver_ns, wait->late_receiver_ns);
        row->waits_known = true;
    }
}

static void add_proxies(struct build *build) {
    size_t count;
    struct link_transfer *transfers =
        link_transfers_list(build->sources->links->directory, &count, &build->table->no_memory);
    for (size_t i = 0; i < count; i++) {
        struct link_row *row = row_of_dumps(build, LINK_NETWORK, transfers[i].from, transfers[i].to);
        if (!row)
            continue;
        row->messages = row->timed = sum(row->timed, transfers[i].steps);
        row->bytes = row->timed_bytes = sum(row->timed_bytes, transfers[i].bytes);
        row->timed_ns = sum(row->timed_ns, transfers[i].wire_ns);
    }
    free(transfers);
}

/* ---- what the rows say --------------------------------------------------------------------------------------- */

static uint32_t host_of_rank(const struct build *build, uint32_t rank) {
    int32_t key = (int32_t)rank;
    const struct rank_place *place = rank_places_find(&build->ranks, &key);
    return place ? build->sources->clock->host_of[place->dump] : NOWHERE;
}

static const char *host_name(const struct build *build, uint32_t host) {
    return host == NOWHERE ? NULL : build->sources->clock->hosts[host].name;
}

/* Of hosts without a name nothing tells where they are. */
static enum link_type type_of(const struct build *build, uint32_t from_host, uint32_t to_host) {
    const char *from = host_name(build, from_host), *to = host_name(build, to_host);
    if (!from || !to || !from[0] || !to[0])
        return LINK_TYPE_UNKNOWN;
    return from_host == to_host ? LINK_WITHIN_HOST : LINK_BETWEEN_HOSTS;
}

/* Whoever counts more has seen all: a dump is missing, or its table was full; records alone tell where neither end has
 * the totals. */
static void settle_messages(struct link_row *row) {
    const struct link_side counts[] = {[COUNTED_BY_SENDER] = row->sent,
                                       [COUNTED_BY_RECEIVER] = row->received,
                                       [COUNTED_BY_RECORDS] = {row->matched, row->matched_bytes}};
    row->counted_by = COUNTED_BY_SENDER;
    for (enum link_counter by = COUNTED_BY_RECEIVER; by <= COUNTED_BY_RECORDS; by++)
        if (counts[by].count > counts[row->counted_by].count)
            row->counted_by = by;
    row->messages = counts[row->counted_by].count;
    row->bytes = counts[row->counted_by].bytes;
}

static void settle_counts(struct link_row *row) {
    bool device = row->device_bytes > row->host_bytes;
    if (row->key.kind == LINK_MESSAGES) {
        settle_messages(row);
    } else if (row->key.kind == LINK_COLLECTIVES) {
        row->messages = device ? row->received.count : row->sent.count;
        row->bytes = device ? row->device_bytes : row->host_bytes;
    }
}

static enum link_method method_of(const struct link_row *row) {
    if (row->key.kind != LINK_MESSAGES)
        return row->key.kind == LINK_NETWORK ? LINK_BY_PROXIES : LINK_ESTIMATED;
    return row->timed_ns > 0 ? LINK_TIMED : row->least_bytes_per_ns > 0 ? LINK_BOUNDED : LINK_COUNTED;
}

static enum link_gap gap_of(const struct build *build, const struct link_row *row) {
    const struct links *links = build->sources->links;
    if (row->key.kind == LINK_COLLECTIVES)
        return LINK_GAP_ALGORITHM;
    if (row->timed_ns > 0)
        return LINK_GAP_NONE;
    if (row->type == LINK_WITHIN_PROCESS)
        return LINK_GAP_SELF;
    if (!row->from_host || !row->to_host)
        return LINK_GAP_NO_DUMP;
    if (links->overflow || build->sources->waits->overflow)
        return LINK_GAP_TOO_MANY;
    return row->matched == 0 ? LINK_GAP_UNMATCHED : LINK_GAP_UNTIMED;
}

static void describe(const struct build *build, struct link_row *row) {
    uint32_t from_host = host_of_rank(build, row->key.from), to_host = host_of_rank(build, row->key.to);
    row->from_rank = (int32_t)row->key.from;
    row->to_rank = (int32_t)row->key.to;
    row->from_host = host_name(build, from_host);
    row->to_host = host_name(build, to_host);
    row->type = row->key.from == row->key.to ? LINK_WITHIN_PROCESS : type_of(build, from_host, to_host);
    settle_counts(row);
    row->method = method_of(row);
    row->gap = gap_of(build, row);
}

/* ---- by host ------------------------------------------------------------------------------------------------- */

/* A host's link is known as well as the best known of its ranks' is; so is what is missing. */
static void join(struct link_row *into, const struct link_row *row) {
    bool first = into->messages == 0;
    into->messages = sum(into->messages, row->messages);
    into->bytes = sum(into->bytes, row->bytes);
    if (row->counted_by > into->counted_by)
        into->counted_by = row->counted_by;
    into->waits_known |= row->waits_known;
    into->matched = sum(into->matched, row->matched);
    into->late_sender_ns = add_ns(into->late_sender_ns, row->late_sender_ns);
    into->late_receiver_ns = add_ns(into->late_receiver_ns, row->late_receiver_ns);
    into->timed = sum(into->timed, row->timed);
    into->timed_bytes = sum(into->timed_bytes, row->timed_bytes);
    into->timed_ns = sum(into->timed_ns, row->timed_ns);
    if (row->least_bytes_per_ns > into->least_bytes_per_ns)
        into->least_bytes_per_ns = row->least_bytes_per_ns;
    into->method = first || row->method > into->method ? row->method : into->method;
    if (into->timed_ns > 0)
        into->gap = LINK_GAP_NONE;
    else
        into->gap = row->gap > into->gap ? row->gap : into->gap;
}

static bool fold_by_host(struct build *build) {
    for (size_t i = 0; i < build->rows.count; i++) {
        const struct link_row *row = &link_rows_items(&build->rows)[i];
        uint32_t from = host_of_rank(build, row->key.from), to = host_of_rank(build, row->key.to);
        struct link_row *into = link_rows_add(&build->hosts, &(struct link_row_key){row->key.kind, from, to});
        if (!into)
            return false;
        join(into, row);
        into->from_rank = into->to_rank = RANK_UNKNOWN;
        into->from_host = host_name(build, from);
        into->to_host = host_name(build, to);
        into->type = type_of(build, from, to);
    }
    return true;
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

static int compare_rows(const void *a, const void *b) {
    const struct link_row *left = a, *right = b;
    if (left->key.kind != right->key.kind)
        return left->key.kind < right->key.kind ? -1 : 1;
    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    if (left->key.from != right->key.from)
        return left->key.from < right->key.from ? -1 : 1;
    return (left->key.to > right->key.to) - (left->key.to < right->key.to);
}

static int compare_left_out(const void *a, const void *b) {
    return strcmp(((const struct link_left_out *)a)->key, ((const struct link_left_out *)b)->key);
}

static bool gather(struct build *build) {
    const struct common_clock *clock = build->sources->clock;
    bool done = list_ranks(build);
    for (size_t d = 0; done && d < clock->dump_count; d++) {
        count_messages(build, clock->dumps[d]);
        done = count_collectives(build, clock->dumps[d]);
    }
    if (done) {
        add_times(build);
        add_bounds(build);
        add_waits(build);
        add_proxies(build);
    }
    return done && !build->table->no_memory;
}

/* Leaves the links from and to the ranks asked for, each with what it is. */
static void choose_rows(struct build *build) {
    const struct filter *filter = build->sources->filter;
    struct link_row *rows = link_rows_items(&build->rows);
    size_t kept = 0;
    for (size_t i = 0; i < build->rows.count; i++) {
        if (filter && !filter_rank(filter, (int32_t)rows[i].key.from) && !filter_rank(filter, (int32_t)rows[i].key.to))
            continue;
        describe(build, &rows[i]);
        rows[kept++] = rows[i];
    }
    build->rows.count = kept;
}

/* Takes a table's items over: they have come to their order. */
static void *take_items(struct hash_table *table, size_t *count) {
    void *items = table->items;
    *count = table->count;
    table->items = NULL;
    table->count = 0;
    return items;
}

bool link_table_build(struct link_table *table, const struct link_sources *sources, bool by_host) {
    struct build build = {.table = table, .sources = sources};
    *table = (struct link_table){.by_host = by_host};
    bool done = gather(&build);
    if (done) {
        choose_rows(&build);
        done = !by_host || fold_by_host(&build);
    }
    table->no_memory |= !done;
    table->rows = take_items(by_host ? &build.hosts : &build.rows, &table->count);
    table->left_out = take_items(&build.left_out, &table->left_out_count);
    if (table->count > 1)
        qsort(table->rows, table->count, sizeof *table->rows, compare_rows);
    if (table->left_out_count > 1)
        qsort(table->left_out, table->left_out_count, sizeof *table->left_out, compare_left_out);
    hash_table_free(&build.rows);
    hash_table_free(&build.hosts);
    hash_table_free(&build.left_out);
    hash_table_free(&build.ranks);
    return !table->no_memory;
}

void link_table_free(struct link_table *table) {
    free(table->rows);
    free(table->left_out);
    *table = (struct link_table){0};
}
