/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/shares.h"

#include <stdlib.h>

struct share {
    uint64_t records;
    uint32_t dump;
};

uint64_t share_records(const struct dump *dump) {
    uint64_t records = 0;
    for (uint32_t l = 0; l < dump->lane_count; l++)
        records += dump->lanes[l].end_ticket - dump->lanes[l].first_ticket;
    return records;
}

static int compare_shares(const void *a, const void *b) {
    const struct share *left = a, *right = b;
    if (left->records != right->records)
        return left->records > right->records ? -1 : 1;
    return left->dump < right->dump ? -1 : left->dump > right->dump;
}

uint32_t *shares_deal(const struct match_directory *directory, unsigned workers) {
    size_t count = directory->dump_count;
    uint32_t *worker_of = calloc(count + 1, sizeof *worker_of);
    struct share *shares = calloc(count + 1, sizeof *shares);
    uint64_t *dealt = calloc(workers, sizeof *dealt);
    if (!worker_of || !shares || !dealt) {
        free(worker_of);
        worker_of = NULL;
        count = 0;
    }
    for (uint32_t d = 0; d < count; d++)
        shares[d] = (struct share){share_records(directory->dumps[d]), d};
    if (count > 1)
        qsort(shares, count, sizeof *shares, compare_shares);
    for (size_t i = 0; i < count; i++) {
        unsigned least = 0;
        for (unsigned w = 1; w < workers; w++)
            if (dealt[w] < dealt[least])
                least = w;
        worker_of[shares[i].dump] = least;
        dealt[least] += shares[i].records + 1; /* one: a dump without records is work, too */
    }
    free(dealt);
    free(shares);
    return worker_of;
}
