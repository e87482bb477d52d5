/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/profile/summary_transfers.h"

#include <string.h>

#include "analyzer/align/align.h"
#include "analyzer/match/match.h"

static bool is_device(const struct summary_entry *entry) {
    return entry->source == SOURCE_GPU_EVENT || entry->source == SOURCE_IN_KERNEL;
}

static bool is_row_of(const struct summary_entry *entry, const struct transfer *row,
                      const struct match_directory *directory) {
    return entry->bytes == row->key.bytes && entry->size_class == row->key.size_class && entry->has_comm &&
           entry->comm == directory->communicators[row->key.communicator].uid && is_device(entry) == row->key.device &&
           entry->op && strcmp(entry->op, directory->calls[row->key.call].name->name) == 0;
}

static void fill_in(struct summary_entry *entry, const struct transfer *row, const struct match_directory *directory) {
    const struct call_name *call = directory->calls[row->key.call].name;
    enum busbw kind = (enum busbw)call->busbw;
    entry->transfer_members = row->members;
    entry->transfer_ns = row->transfer_ns;
    entry->completion_ns = row->completion_ns;
    entry->transfer_wait_ns = row->wait_ns;
    bool enqueued = call->api == API_NCCL && !row->key.device; /* returns before anything has moved */
    if (kind == BUSBW_NONE || enqueued || row->own_ns <= 0 || row->key.bytes == BYTES_UNKNOWN || row->key.size_class)
        return;
    entry->transfer_algbw_bytes_per_s = (double)row->key.bytes * (double)row->own_members / ((double)row->own_ns / 1e9);
    entry->transfer_busbw_bytes_per_s =
        entry->transfer_algbw_bytes_per_s * busbw_factor(kind, directory->communicators[row->key.communicator].size);
}

void summary_add_transfers(struct summary *summary, const struct transfers *transfers,
                           const struct match_directory *directory) {
    for (size_t i = 0; i < transfers->rows.count; i++) {
        const struct transfer *row = &transfer_rows_items(&transfers->rows)[i];
        for (size_t e = 0; e < summary->count; e++)
            if (is_row_of(&summary->entries[e], row, directory)) {
                fill_in(&summary->entries[e], row, directory);
                break;
            }
    }
}

static void take_instance(void *state, const struct match_instance *instance) {
    waits_add(state, instance);
}

static void worker_parcel(void *state, struct parcel *parcel) {
    waits_parcel(state, parcel);
}

static bool walk_instances(struct waits *sum, const struct common_clock *clock, const struct match_directory *directory,
                           struct team *team, unsigned threads) {
    const struct match_sink sink = {.instance = take_instance, .parcel = worker_parcel};
    struct waits waits[MATCH_WORKERS_MAX] = {0};
    void *states[MATCH_WORKERS_MAX];
    struct match_totals totals;
    unsigned workers = match_workers_among(team, threads);
    bool done = waits_init(sum, clock, directory);
    for (unsigned w = 0; w < workers; w++) {
        states[w] = &waits[w];
        done = done && waits_init(&waits[w], clock, directory);
    }
    done = done && match_run_among(team, clock, directory, &sink, states, threads, &totals);
    for (unsigned w = 0; w < workers; w++) {
        if (done)
            waits_merge(sum, &waits[w]);
        waits_free(&waits[w]);
    }
    return done && !sum->no_memory;
}

bool summary_measure_transfers(struct summary *summary, struct dump *const *dumps, size_t count, struct team *team,
                               unsigned threads) {
    struct common_clock clock = {0};
    struct match_directory directory = {0};
    struct waits waits = {0};
    bool done = common_clock_build(&clock, dumps, count) && match_directory_build(&directory, dumps, count) &&
                walk_instances(&waits, &clock, &directory, team, threads);
    if (done)
        summary_add_transfers(summary, &waits.transfers, &directory);
    waits_free(&waits);
    match_directory_free(&directory);
    common_clock_free(&clock);
    return done;
}
