/* SPDX-License-Identifier: Apache-2.0
 *
 * The account of an import.
 * Lives here: sums and sentences. Must not live here: the limits' values (limits.h).
 */
#include "analyzer/import/limits.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t grown(uint64_t least, uint64_t ratio, uint64_t stored) {
    uint64_t more;
    return __builtin_mul_overflow(ratio, stored, &more) || more > UINT64_MAX - least ? UINT64_MAX : least + more;
}

bool limits_text(struct import_limits *limits, uint64_t bytes) {
    uint64_t most = grown(LIMIT_TEXT_LEAST, LIMIT_TEXT_RATIO, limits->stored);
    limits->text += bytes;
    if (limits->text <= most)
        return true;
    snprintf(limits->exceeded, sizeof limits->exceeded,
             "decompresses to more than %" PRIu64 " MB, the most for %" PRIu64 " KB of files", most >> 20,
             limits->stored >> 10);
    return false;
}

bool limits_keep(struct import_limits *limits, uint64_t bytes) {
    uint64_t most = grown(LIMIT_MEMORY_LEAST, LIMIT_MEMORY_RATIO, limits->stored);
    limits->kept += bytes;
    if (limits->kept <= most)
        return true;
    snprintf(limits->exceeded, sizeof limits->exceeded,
             "holds so many events or members of process groups that they take more than %" PRIu64
             " MB of memory, the most for %" PRIu64 " KB of files",
             most >> 20, limits->stored >> 10);
    return false;
}

void limits_give_up(struct import_limits *limits, uint64_t text, uint64_t kept) {
    limits->given_up += limits->text - text;
    if (limits->given_up > grown(LIMIT_TEXT_LEAST, LIMIT_TEXT_RATIO, limits->stored) + limits->text - text)
        return;
    limits->text = text;
    limits->kept = kept;
    limits->exceeded[0] = '\0';
}

bool limits_ranks(struct import_limits *limits, uint64_t ranks, uint64_t communicators) {
    uint64_t most = LIMIT_RANKS_LEAST + limits->stored / LIMIT_RANK_BYTES;
    uint64_t places = grown(LIMIT_PLACES_LEAST, LIMIT_PLACES_RATIO, limits->stored);
    if (ranks > most)
        snprintf(limits->exceeded, sizeof limits->exceeded,
                 "events of more than %" PRIu64 " ranks, the most for %" PRIu64 " KB of files", most,
                 limits->stored >> 10);
    else if (ranks > 0 && communicators > places / ranks)
        snprintf(limits->exceeded, sizeof limits->exceeded,
                 "%" PRIu64 " process groups among %" PRIu64 " ranks: too many for %" PRIu64 " KB of files",
                 communicators, ranks, limits->stored >> 10);
    else
        return true;
    return false;
}
