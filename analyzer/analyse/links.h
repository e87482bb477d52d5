/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow links: how long messages take between each pair of ranks, and which pair stands out.
 * Lives here: gathering transfers per pair and size from matched messages, judging them against the other pairs.
 * Must not live here: matching, waiting for late senders and receivers (waits.h), printing.
 *
 * A transfer lasts from when both sides are there until the receive returns. Its median over a pair's messages of one
 * size is compared with that of the other pairs of that size within hosts, or between hosts. What all messages from one
 * rank, to one rank, from one host or to one host have in common is taken out first: a slow rank or host is no slow
 * link. Pairs whose sender has no other receiver, or whose receiver has no other sender, cannot be told from them and
 * are never named.
 */
#ifndef COMMTAP_ANALYSE_LINKS_H
#define COMMTAP_ANALYSE_LINKS_H

#include "analyzer/match/match.h"

enum {
    LINK_BINS = 200,         /* 8 to an octave from 512 ns on: 17 s */
    LINK_MESSAGES_MIN = 32,  /* of a pair and size, to judge it */
    LINK_PAIRS_MIN = 8,      /* of a size, to have something to compare with */
    LINK_CELLS_MOST = 32768, /* pairs and sizes: 27 MB; where there are more, nothing is judged */
};

#define LINK_RATIO 1.25 /* a link is slow from here on */

/* What is known of the messages of one size, up to an eighth, from one rank to another. */
struct link_cell {
    uint32_t from, to; /* indices of dumps */
    uint32_t size;     /* bin of the bytes */
    uint32_t count;    /* 0: free place in the table */
    uint32_t bins[LINK_BINS];
};

struct links {
    const struct common_clock *clock;
    struct link_cell *cells; /* open addressing, `room` a power of two */
    size_t room, used;
    bool overflow;  /* more than LINK_CELLS_MOST */
    bool no_memory; /* nothing is judged then */
};

struct slow_link {
    uint32_t from, to;  /* indices of dumps */
    uint64_t messages;  /* that it was judged on */
    double ratio;       /* its transfers against those of comparable pairs, >= LINK_RATIO */
    double confidence;  /* corrected for the number of pairs and sizes */
    double persistence; /* share of its messages that take longer than SLOW_RATIO times what is usual */
    int64_t extra_ns;   /* that all these messages took longer */
};

/* The clock must outlive it. Freed with links_free. */
void links_init(struct links *links, const struct common_clock *clock);
void links_free(struct links *links);

/* Takes one message. Those that say nothing of the link (sent and gone before the receive was posted, no time between)
 * are left out. */
void links_add(struct links *links, const struct match_message *message);

/* Sums: the same in any order. */
void links_merge(struct links *into, const struct links *from);

/* Writes the slow links with confidence CONFIDENCE_CLAIM, the costliest first, at most `most`; returns their number.
 * None where memory is short (no_memory is set then). */
size_t links_judge(struct links *links, struct slow_link *found, size_t most);

#endif
