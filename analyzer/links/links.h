/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow links: how long messages take between each pair of ranks, and which pair stands out.
 * Lives here: gathering transfers per pair and size from matched messages.
 * Must not live here: matching, waiting for late senders and receivers (waits.h), comparing (link_judge.h), printing.
 *
 * Between blocking calls a transfer lasts from when both sides are there until the receive returns; its median over a
 * pair's messages of one size is compared with that of other pairs. What else is known only to be over when a call
 * returns that may have waited for several is judged by exchanges.h; NCCL's transfers by its proxies' own times
 * (link_transfers.h). Pairs whose sender has no other receiver, or whose receiver has no other sender, cannot be told
 * from them and are only suspected.
 */
#ifndef COMMTAP_LINKS_LINKS_H
#define COMMTAP_LINKS_LINKS_H

#include "analyzer/base/hash_table.h"
#include "analyzer/links/exchanges.h"
#include "analyzer/links/link_judge.h"
#include "analyzer/links/link_transfers.h"

enum {
    LINK_MESSAGES_MIN = 32,  /* of a pair and size, to judge it */
    LINK_CELLS_MOST = 32768, /* pairs and sizes: 28 MB; where there are more, nothing is judged */
};

struct link_key {
    uint32_t from, to; /* indices of dumps */
    uint32_t size;     /* bin of the bytes */
};

/* What is known of the messages of one size, up to an eighth, from one rank to another. */
struct link_cell {
    struct link_key key;
    uint32_t count;
    uint64_t bytes, took_ns; /* sums */
    uint32_t bins[LOG_BINS]; /* of what they took */
};

HASH_TABLE_OF(link_cells, struct link_cell, struct link_key);

struct links {
    const struct common_clock *clock;
    const struct match_directory *directory;
    struct hash_table cells;
    struct exchanges exchanges;
    struct exchange_pair *pairs; /* what the exchanges tell, sorted by size, from, to; NULL until links_judge */
    size_t pair_count;
    bool overflow;  /* more than LINK_CELLS_MOST */
    bool no_memory; /* nothing is judged then */
};

/* Clock and directory must outlive it. Freed with links_free. False: memory is short. */
bool links_init(struct links *links, const struct common_clock *clock, const struct match_directory *directory);
void links_free(struct links *links);

/* Takes one message. Those that say nothing of the link (sent and gone before the receive was posted, no time between)
 * are left out. */
void links_add(struct links *links, const struct match_message *message);

/* Takes every record of a dump in order. `call` may be NULL. */
static inline void links_note(struct links *links, const struct match_record *item, const struct call_name *call) {
    exchanges_note(&links->exchanges, item, call);
}

/* After the last record. */
void links_finish(struct links *links);

/* Adds another worker's, finished: the same in any order. */
void links_merge(struct links *into, const struct links *from);
/* Packs or unpacks one worker's, finished or not. */
void links_parcel(struct links *links, struct parcel *parcel);

/* Standard deviation of ln of the median, where count >= LINK_MESSAGES_MIN. */
double link_cell_error(const struct link_cell *cell);
/* The same of what a proxy's step takes, as if they spread like an exponential. */
double link_transfer_error(const struct link_transfer *transfer);

/* Writes the slow links with confidence CONFIDENCE_VERDICT, the costliest first, at most `most`; returns their number.
 * None where memory is short (no_memory is set then). */
size_t links_judge(struct links *links, struct slow_link *found, size_t most);

#endif
