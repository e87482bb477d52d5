/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of many pairs of ranks is slow, or is it a host, a pair of hosts, or how the network is laid out?
 * Lives here: comparing what messages of one size take between pairs of ranks.
 * Must not live here: where the figures come from (links.h, exchanges.h), printing.
 *
 * Pairs within hosts and between hosts are compared with their like. What all messages from one rank, to one rank, from
 * one host or to one host have in common is taken out first: a slow rank is no slow link. Where most pairs between two
 * hosts are slow, the hosts are named; where a host is slow to all others, it is.
 *
 * Where both ends of a message bound it, only what goes between ranks that are all held up is hidden: the ways inside
 * the hosts, where those between two hosts are slow. A pair of hosts, or a host, that explains all of it is named
 * although no single pair of ranks is accused; every other explanation takes several faults.
 *
 * Networks have switches: hosts of one switch are nearer to each other than to the rest. But who is near is near all
 * round: where two hosts are joined by a chain of usual pairs and yet slow to each other, no layout explains it.
 * Otherwise it is only suspected.
 */
#ifndef COMMTAP_LINKS_LINK_JUDGE_H
#define COMMTAP_LINKS_LINK_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/align/common_clock.h"

enum {
    LINK_PAIRS_MIN = 8,     /* of a size, to have something to compare with */
    LINK_STEP_PAIRS_MIN = 4 /* of steps of proxies: with three others their spread is known, however poorly */
};

#define LINK_RATIO 1.25 /* a link is slow from here on: a fifth less bandwidth */

/* Messages of one size from one rank to another. */
struct link_measure {
    uint32_t from, to;    /* indices of dumps */
    uint32_t size;        /* what is compared has this in common: kind of figure and size of message */
    uint32_t count;       /* messages judged */
    const uint32_t *bins; /* log bins of what they take; NULL: only the sum is known */
    double typical;       /* ns that they take, comparable within a size */
    double error;         /* sd of its ln */
    double weight;        /* messages of the whole run that others waited for: each costs what it takes longer */
    bool accused;         /* they were really waited for */
    bool possible;        /* they may have been, and both ends bound what they take */
    bool steps;           /* of NCCL's proxies, not messages */
};

enum link_scope {
    LINK_RANKS, /* from one rank to another */
    LINK_HOSTS, /* from one host to another */
    LINK_HOST,  /* between a host and all others */
};

struct slow_link {
    enum link_scope scope;
    uint32_t from, to;  /* indices of dumps or of hosts; LINK_HOST: equal */
    bool layout;        /* it may be how the network is laid out: suspected only */
    bool alone;         /* LINK_RANKS: it may be one of the ends, which have no other partner: suspected only */
    bool both;          /* LINK_HOSTS: both ways */
    bool steps;         /* judged on steps of NCCL's proxies, not messages */
    uint64_t messages;  /* that it was judged on */
    uint64_t pairs;     /* of ranks */
    double ratio;       /* its messages' time against that of comparable pairs, >= LINK_RATIO */
    double confidence;  /* corrected for the number of pairs and sizes */
    double persistence; /* share of its messages that take longer than SLOW_RATIO times what is usual; NAN: unknown */
    int64_t extra_ns;   /* that all messages that were waited for took longer */
};

/* Judges `count` measures, sorted by size, from, to. Writes the slow links with confidence CONFIDENCE_VERDICT, the
 * costliest first, at most `most`; returns their number, SIZE_MAX where memory is short. */
size_t link_judge(const struct common_clock *clock, const struct link_measure *measures, size_t count,
                  struct slow_link *found, size_t most);

#endif
