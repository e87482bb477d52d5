/* SPDX-License-Identifier: Apache-2.0
 *
 * Bandwidth of links, as MindSpore Insight's assistant compares it: each with the mean of links of its type.
 * Lives here: bytes and time per ordered pair of ranks, set against what links of the same type give the same messages.
 * Must not live here: gathering (links.h, link_transfers.h), who is to blame (link_judge.h), thresholds (advice.h).
 *
 * A link's bandwidth is the sum of its messages' bytes by the sum of their times, never a sum of bandwidths. Types are:
 * within a host, between hosts; messages of MPI and steps of NCCL's proxies each for themselves. What a link is
 * compared with is made of its own messages: each would take its bytes by the mean bandwidth that links of the type
 * have for messages of that size, to an eighth. So a link is not slow for carrying small messages.
 *
 * Messages below LINK_BANDWIDTH_BYTES measure latency and are left out; so are those whose completion was only seen by
 * a call that may have waited for others (exchanges.h), whose times are bounds. Sizes that fewer than LINKS_LIKE_MIN
 * links carry often enough are compared with nothing.
 */
#ifndef COMMTAP_LINKS_LINK_BANDWIDTH_H
#define COMMTAP_LINKS_LINK_BANDWIDTH_H

#include "analyzer/links/links.h"

enum {
    LINK_BANDWIDTH_BYTES = 1 << 16,
    LINKS_LIKE_MIN = 4, /* of a type and size, for a mean */
};

struct link_bandwidth {
    uint32_t from, to; /* indices of dumps */
    bool between_hosts;
    bool steps;        /* of NCCL's proxies */
    uint64_t messages; /* or steps */
    uint64_t bytes;
    uint64_t took_ns; /* > 0 */
    double share;     /* of the mean of its type; by the sums or by the messages that are not held up (a low quantile),
                         whichever is nearer to it: only what makes all messages slow is the link's */
    double error;     /* sd of ln(share): of its own messages, and by how much links of its type differ anyway */
};

/* The links that there is something to compare with, sorted by kind, from, to; to be freed. NULL: none, or memory is
 * short (no_memory is set then). Bandwidth in GB/s is bytes / took_ns. */
struct link_bandwidth *link_bandwidths(const struct links *links, size_t *count, bool *no_memory);

#endif
