/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/job/generations.h"

#include <string.h>

bool generations_are_alike(const char *a, const char *b) {
    size_t length = strcspn(a, " ");
    const char *slash = memrchr(a, '/', length);
    if (strncmp(slash ? slash + 1 : a, "python", 6) == 0 && a[length])
        length += 1 + strcspn(a + length + 1, " ");
    return strncmp(a, b, length) == 0 && (b[length] == '\0' || b[length] == ' ');
}

static size_t ranks_on(const struct listed_job *job, const struct dump_set *set, const char *host) {
    size_t ranks = 0;
    for (size_t d = job->first; d < job->first + job->count; d++)
        ranks += !set->duplicate[d] && strcmp(set->dumps[d]->host, host) == 0;
    return ranks;
}

static bool is_same(const struct generation_rank *a, const struct generation_rank *b) {
    return b->host && a->rank == b->rank && strcmp(a->host, b->host) == 0;
}

/* Which of several places of a host is gone can be told only where just one is, and whose it was. */
static enum rank_after after_of(const struct generation_rank *rank, const struct generation_rank *dead, size_t were,
                                size_t are) {
    bool died = is_same(rank, dead), dead_here = dead->host && strcmp(rank->host, dead->host) == 0;
    if (are == 0)
        return AFTER_LEFT;
    if (are >= were)
        return died ? AFTER_REPLACED : AFTER_STAYED;
    if (died)
        return AFTER_LEFT;
    return rank->rank >= 0 && dead_here && were - are == 1 ? AFTER_STAYED : AFTER_NOT_KNOWN;
}

static void follow(struct generation_rank *rank, const struct generation_rank *dead, const struct listed_job *now,
                   const struct listed_job *next, const struct dump_set *set) {
    if (rank->host)
        rank->after = after_of(rank, dead, ranks_on(now, set, rank->host), ranks_on(next, set, rank->host));
}

void generations_follow(struct generation_row *rows, size_t count, const struct dump_set *set) {
    for (size_t i = 0; i + 1 < count; i++) {
        follow(&rows[i].slow, &rows[i].dead, rows[i].listed, rows[i + 1].listed, set);
        follow(&rows[i].dead, &rows[i].dead, rows[i].listed, rows[i + 1].listed, set);
    }
}
