/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/links/links.h"

#include <math.h>
#include <stdlib.h>

enum {
    CORRELATED = 4,    /* messages follow each other closely: so many are worth one */
    JUDGED_SHARE = 8,  /* as in exchanges.c: the width of a size class */
    STEPS_AT_ONCE = 8, /* steps of a channel that NCCL has under way (NCCL_STEPS) */
};

/* ---- gathering ----------------------------------------------------------------------------------------------- */

bool links_init(struct links *links, const struct common_clock *clock, const struct match_directory *directory) {
    *links = (struct links){.clock = clock, .directory = directory};
    return exchanges_init(&links->exchanges, clock, directory);
}

void links_free(struct links *links) {
    hash_table_free(&links->cells);
    free(links->pairs);
    exchanges_free(&links->exchanges);
    *links = (struct links){0};
}

/* NULL: no room, and nothing is judged any more. */
static struct link_cell *cell_of(struct links *links, const struct link_key *key) {
    if (links->overflow || links->no_memory)
        return NULL;
    struct link_cell *cell = link_cells_find(&links->cells, key);
    if (cell)
        return cell;
    if (links->cells.count == LINK_CELLS_MOST) {
        links->overflow = true;
        return NULL;
    }
    cell = link_cells_add(&links->cells, key);
    links->no_memory = !cell;
    return cell;
}

static uint64_t sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* It waited in the call itself, for nothing else. */
static bool is_blocking(const struct links *links, const struct match_member *member) {
    return member->wait == member->enter &&
           (member->call == CALL_UNKNOWN || links->directory->calls[member->call].name->call_class != CLASS_SENDRECV);
}

/* Whether a GPU's clock tells a time that long to an eighth. */
static bool is_well_timed(const struct links *links, const struct match_message *message, int64_t took) {
    int64_t error = common_clock_error(links->clock, message->from_dump, message->to_dump);
    if (!message->device)
        return true;
    if (error == CLOCK_ERROR_UNKNOWN)
        return false;
    error = add_ns(error, device_error_at(links->clock, message->from_dump, message->send.enter) +
                              device_error_at(links->clock, message->to_dump, message->receive.enter));
    return error < took / JUDGED_SHARE;
}

void links_add(struct links *links, const struct match_message *message) {
    const struct match_member *send = &message->send, *receive = &message->receive;
    /* of a group, which moves several at once */
    if (message->device && (send->shared || receive->shared || send->share || receive->share))
        return;
    if (!is_blocking(links, send) || !is_blocking(links, receive)) {
        exchanges_add(&links->exchanges, message);
        return;
    }
    if (message->bytes == BYTES_UNKNOWN || message->from_dump == message->to_dump || receive->enter >= receive->leave ||
        send->leave <= receive->enter) /* it may have been there long before */
        return;
    int64_t took = receive->leave - (send->enter > receive->enter ? send->enter : receive->enter);
    struct link_key key = {message->from_dump, message->to_dump, log_bin_of(message->bytes)};
    struct link_cell *cell = took > 0 && is_well_timed(links, message, took) ? cell_of(links, &key) : NULL;
    if (!cell || cell->count == UINT32_MAX)
        return;
    cell->count++;
    cell->bytes = sum(cell->bytes, message->bytes);
    cell->took_ns = sum(cell->took_ns, (uint64_t)took);
    cell->bins[log_bin_of((uint64_t)took)]++;
}

void links_finish(struct links *links) {
    exchanges_finish(&links->exchanges);
}

void links_merge(struct links *into, const struct links *from) {
    into->overflow |= from->overflow;
    into->no_memory |= from->no_memory;
    for (size_t i = 0; i < from->cells.count; i++) {
        const struct link_cell *part = &link_cells_items(&from->cells)[i];
        struct link_cell *cell = cell_of(into, &part->key);
        if (!cell || part->count > UINT32_MAX - cell->count)
            continue;
        cell->count += part->count;
        cell->bytes = sum(cell->bytes, part->bytes);
        cell->took_ns = sum(cell->took_ns, part->took_ns);
        for (unsigned b = 0; b < LOG_BINS; b++)
            cell->bins[b] += part->bins[b];
    }
    exchanges_merge(&into->exchanges, &from->exchanges);
}

void links_parcel(struct links *links, struct parcel *parcel) {
    parcel_table(parcel, &links->cells, struct link_cell);
    exchanges_parcel(&links->exchanges, parcel);
    parcel_flag(parcel, &links->overflow);
    parcel_flag(parcel, &links->no_memory);
}

/* ---- judging --------------------------------------------------------------------------------------------------- */

/* Figures of different kinds are not compared: the exchanged ones' sizes follow the others'. */
static int compare_measures(const void *a, const void *b) {
    const struct link_measure *left = a, *right = b;
    if (left->size != right->size)
        return left->size < right->size ? -1 : 1;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

double link_cell_error(const struct link_cell *cell) {
    double quarters =
        log(log_bins_quantile(cell->bins, cell->count, 0.75)) - log(log_bins_quantile(cell->bins, cell->count, 0.25));
    return 1.2533 * quarters / 1.349 / sqrt((double)cell->count / CORRELATED); /* of a normal one's median */
}

double link_transfer_error(const struct link_transfer *transfer) {
    return 1 / sqrt((double)transfer->operations / CORRELATED);
}

static struct link_measure measure_blocking(const struct link_cell *cell) {
    return (struct link_measure){.from = cell->key.from,
                                 .to = cell->key.to,
                                 .size = cell->key.size,
                                 .count = cell->count,
                                 .bins = cell->bins,
                                 .typical = log_bins_quantile(cell->bins, cell->count, 0.5),
                                 .error = link_cell_error(cell),
                                 .weight = cell->count,
                                 .accused = true,
                                 .possible = true};
}

static struct link_measure measure_exchanged(const struct exchange_pair *pair) {
    double share = EXCHANGE_QUANTILE_PERCENT / 100.0;
    return (struct link_measure){.from = pair->from,
                                 .to = pair->to,
                                 .size = LOG_BINS + pair->size,
                                 .count = pair->count,
                                 .bins = pair->bins,
                                 .typical = log_bins_quantile(pair->bins, pair->count, share),
                                 .error =
                                     log_bins_error(pair->bins, pair->count, share, (double)pair->count / CORRELATED),
                                 .weight = pair->waited,
                                 .accused = pair->low_alone >= EXCHANGE_ENDS_MIN && 2 * pair->low_alone >= pair->low,
                                 .possible = pair->size >= log_bin_of(RENDEZVOUS_BYTES) &&
                                             pair->low_open >= EXCHANGE_ENDS_MIN && 2 * pair->low_open >= pair->low};
}

static struct link_measure measure_transfer(const struct link_transfer *transfer) {
    double steps_at_once = STEPS_AT_ONCE * (transfer->channels ? transfer->channels : 1);
    return (struct link_measure){.from = transfer->from,
                                 .to = transfer->to,
                                 .size = 2 * LOG_BINS + transfer->size,
                                 .count = transfer->steps < UINT32_MAX ? (uint32_t)transfer->steps : UINT32_MAX,
                                 .typical = (double)transfer->wire_ns / (double)transfer->steps,
                                 .error = link_transfer_error(transfer),
                                 .weight = (double)transfer->steps / steps_at_once,
                                 .accused = true,
                                 .possible = true,
                                 .steps = true};
}

static struct link_measure *list_measures(const struct links *links, const struct link_transfer *transfers,
                                          size_t transfer_count, size_t *count) {
    struct link_measure *measures =
        calloc(links->cells.count + links->pair_count + transfer_count + 1, sizeof *measures);
    *count = 0;
    const struct link_cell *cells = link_cells_items(&links->cells);
    for (size_t i = 0; measures && i < links->cells.count; i++)
        if (cells[i].count >= LINK_MESSAGES_MIN)
            measures[(*count)++] = measure_blocking(&cells[i]);
    if (measures)
        qsort(measures, *count, sizeof *measures, compare_measures);
    for (size_t i = 0; measures && i < links->pair_count; i++)
        measures[(*count)++] = measure_exchanged(&links->pairs[i]);
    for (size_t i = 0; measures && i < transfer_count; i++)
        if (transfers[i].operations >= LINK_MESSAGES_MIN)
            measures[(*count)++] = measure_transfer(&transfers[i]);
    return measures;
}

size_t links_judge(struct links *links, struct slow_link *found, size_t most) {
    size_t count = 0, kept = 0, transfer_count = 0;
    if (links->overflow || links->no_memory)
        return 0;
    free(links->pairs);
    links->pairs = exchanges_pairs(&links->exchanges, LINK_MESSAGES_MIN, &links->pair_count);
    struct link_transfer *transfers = link_transfers_list(links->directory, &transfer_count, &links->no_memory);
    struct link_measure *measures = list_measures(links, transfers, transfer_count, &count);
    kept = measures ? link_judge(links->clock, measures, count, found, most) : SIZE_MAX;
    links->no_memory |= links->exchanges.no_memory || kept == SIZE_MAX;
    free(transfers);
    free(measures);
    return links->no_memory ? 0 : kept;
}
