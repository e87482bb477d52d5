/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample per link and size, means per size, sums per link.
 */
#include "analyzer/links/link_bandwidth.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/base/statistics.h"
#include "analyzer/links/link_transfers.h"

/* Messages of one size of a link. */
struct sample {
    struct link_bandwidth link;   /* share is not known yet; error: sd of ln(typical) */
    uint32_t size;                /* log bin */
    double typical;               /* ns of one message that is not held up: a low quantile */
    double like_ns, like_typical; /* the same by the means of their type; 0: too few links */
};

static int compare_links(const struct sample *a, const struct sample *b) {
    if (a->link.from != b->link.from)
        return a->link.from < b->link.from ? -1 : 1;
    return a->link.to < b->link.to ? -1 : a->link.to > b->link.to;
}

static int compare_by_size(const void *a, const void *b) {
    const struct sample *left = a, *right = b;
    if (left->link.steps != right->link.steps)
        return left->link.steps ? 1 : -1;
    if (left->link.between_hosts != right->link.between_hosts)
        return left->link.between_hosts ? 1 : -1;
    if (left->size != right->size)
        return left->size < right->size ? -1 : 1;
    return compare_links(left, right);
}

static int compare_by_link(const void *a, const void *b) {
    const struct sample *left = a, *right = b;
    if (left->link.steps != right->link.steps)
        return left->link.steps ? 1 : -1;
    int order = compare_links(left, right);
    return order ? order : (left->size > right->size) - (left->size < right->size);
}

static bool is_like(const struct sample *a, const struct sample *b) {
    return a->link.steps == b->link.steps && a->link.between_hosts == b->link.between_hosts && a->size == b->size;
}

static struct sample sample_messages(const struct link_cell *cell) {
    return (struct sample){.link = {.from = cell->key.from,
                                    .to = cell->key.to,
                                    .messages = cell->count,
                                    .bytes = cell->bytes,
                                    .took_ns = cell->took_ns,
                                    .error = link_cell_error(cell)},
                           .size = cell->key.size,
                           .typical = log_bins_quantile(cell->bins, cell->count, EXCHANGE_QUANTILE_PERCENT / 100.0)};
}

static struct sample sample_steps(const struct link_transfer *transfer) {
    return (struct sample){.link = {.from = transfer->from,
                                    .to = transfer->to,
                                    .steps = true,
                                    .messages = transfer->steps,
                                    .bytes = transfer->bytes,
                                    .took_ns = transfer->wire_ns,
                                    .error = link_transfer_error(transfer)},
                           .size = transfer->size,
                           .typical = (double)transfer->wire_ns / (double)transfer->steps};
}

static struct sample *list_samples(const struct links *links, const struct link_transfer *transfers,
                                   size_t transfer_count, size_t *count) {
    uint32_t least = log_bin_of(LINK_BANDWIDTH_BYTES);
    struct sample *samples = calloc(links->cells.count + transfer_count + 1, sizeof *samples);
    *count = 0;
    const struct link_cell *cells = link_cells_items(&links->cells);
    for (size_t i = 0; samples && i < links->cells.count; i++)
        if (cells[i].count >= LINK_MESSAGES_MIN && cells[i].key.size >= least)
            samples[(*count)++] = sample_messages(&cells[i]);
    for (size_t i = 0; samples && i < transfer_count; i++)
        if (transfers[i].operations >= LINK_MESSAGES_MIN && transfers[i].size >= least)
            samples[(*count)++] = sample_steps(&transfers[i]);
    for (size_t i = 0; i < *count; i++)
        samples[i].link.between_hosts =
            links->clock->host_of[samples[i].link.from] != links->clock->host_of[samples[i].link.to];
    return samples;
}

/* What links of the type need for the messages of each sample. Sorted by size. */
static void compare_samples(struct sample *samples, size_t count) {
    for (size_t i = 0, end; i < count; i = end) {
        double bandwidth = 0, rate = 0;
        for (end = i; end < count && is_like(&samples[i], &samples[end]); end++) {
            bandwidth += (double)samples[end].link.bytes / (double)samples[end].link.took_ns;
            rate += 1 / samples[end].typical;
        }
        double links = (double)(end - i);
        for (size_t j = i; j < end && end - i >= LINKS_LIKE_MIN; j++) {
            samples[j].like_ns = (double)samples[j].link.bytes * links / bandwidth;
            samples[j].like_typical = links / rate;
        }
    }
}

/* Joins the sizes of one link that have something to be compared with. Returns false where none has. */
static bool join_samples(const struct sample *samples, size_t count, struct link_bandwidth *link) {
    double like = 0, typical = 0, like_typical = 0;
    *link = samples[0].link;
    link->messages = link->bytes = link->took_ns = 0;
    link->error = 0;
    for (size_t i = 0; i < count; i++) {
        const struct sample *sample = &samples[i];
        double messages = (double)sample->link.messages;
        if (sample->like_ns <= 0)
            continue;
        link->messages += sample->link.messages;
        link->bytes += sample->link.bytes;
        link->took_ns += sample->link.took_ns;
        link->error = fmax(link->error, sample->link.error);
        like += sample->like_ns;
        typical += messages * sample->typical;
        like_typical += messages * sample->like_typical;
    }
    if (link->messages == 0)
        return false;
    double by_sum = like / (double)link->took_ns, by_quantile = like_typical / typical;
    link->share = fabs(log(by_sum)) < fabs(log(by_quantile)) ? by_sum : by_quantile;
    return true;
}

/* The links of one type of them differ by that much anyway: from the median distance to their median. */
static double spread_of_links(const struct link_bandwidth *links, size_t count, const struct link_bandwidth *type,
                              double *scratch) {
    size_t like = 0;
    for (size_t i = 0; i < count; i++)
        if (links[i].steps == type->steps && links[i].between_hosts == type->between_hosts)
            scratch[like++] = log(links[i].share);
    distances_from(scratch, like, median_high_double(scratch, like));
    return SD_OF_MEDIAN_DISTANCE * median_high_double(scratch, like);
}

/* What a link's own messages leave open, and what links of its type differ by. */
static bool widen_errors(struct link_bandwidth *links, size_t count) {
    double *scratch = malloc((count + 1) * sizeof *scratch), spreads[2][2];
    bool known[2][2] = {{false}};
    for (size_t i = 0; scratch && i < count; i++) {
        bool steps = links[i].steps, between = links[i].between_hosts;
        if (!known[steps][between])
            spreads[steps][between] = spread_of_links(links, count, &links[i], scratch);
        known[steps][between] = true;
        links[i].error = hypot(links[i].error, spreads[steps][between]);
    }
    bool done = scratch != NULL;
    free(scratch);
    return done;
}

struct link_bandwidth *link_bandwidths(const struct links *links, size_t *count, bool *no_memory) {
    size_t transfer_count = 0, sample_count = 0;
    *count = 0;
    if (links->overflow)
        return NULL;
    struct link_transfer *transfers = link_transfers_list(links->directory, &transfer_count, no_memory);
    struct sample *samples = list_samples(links, transfers, transfer_count, &sample_count);
    struct link_bandwidth *found = calloc(sample_count + 1, sizeof *found);
    *no_memory |= !samples || !found;
    if (samples && found) {
        qsort(samples, sample_count, sizeof *samples, compare_by_size);
        compare_samples(samples, sample_count);
        qsort(samples, sample_count, sizeof *samples, compare_by_link);
        for (size_t i = 0, end; i < sample_count; i = end) {
            for (end = i; end < sample_count && samples[end].link.steps == samples[i].link.steps &&
                          compare_links(&samples[end], &samples[i]) == 0;)
                end++;
            *count += join_samples(&samples[i], end - i, &found[*count]);
        }
        *no_memory |= !widen_errors(found, *count);
    }
    free(transfers);
    free(samples);
    return found;
}
