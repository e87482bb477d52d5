/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow links that only collectives show: communicators that take longer than their like, and what they have in common.
 * Lives here: how long each communicator's collectives take once everybody has come, and group testing over ranks,
 * hosts and pairs of hosts.
 * Must not live here: messages between two ranks (links.h), matching, printing.
 *
 * A collective's transfer is the shortest of its members' times: nobody leaves before the last one has come, and the
 * last one waits for nobody. That needs no common clock. Communicators of equal size on equally many hosts are compared
 * by function and size of the operation. A slow one accuses all that it holds: its ranks, its hosts, the pairs of its
 * hosts; a fast one clears what it holds, of operations at least as large: its ranks and hosts, and the pair where it
 * has two hosts (who talks to whom among more is not known). What is left of the slow ones and in most of them is the
 * suspect; where several are in the same ones, they cannot be told apart and all are listed.
 *
 * That is weaker evidence than messages are: a communicator knows nothing of ways and algorithms inside the library.
 */
#ifndef COMMTAP_LINKS_GROUP_LINKS_H
#define COMMTAP_LINKS_GROUP_LINKS_H

#include "analyzer/base/hash_table.h"
#include "analyzer/base/log_bins.h"
#include "analyzer/base/parcel.h"
#include "analyzer/match/instances.h"

enum {
    GROUP_COLLECTIVES_MIN = 16,  /* of a communicator, function and size, to judge it */
    GROUP_COMMUNICATORS_MIN = 4, /* alike, to have something to compare with */
    GROUP_CELLS_MOST = 16384,    /* communicators, functions and sizes: 13 MB; where there are more, none is judged */
    GROUP_SUSPECTS_MOST = 8,     /* that are listed */
};

struct group_key {
    uint32_t communicator; /* index into the directory */
    uint32_t size;         /* log bin of the bytes */
    uint32_t call;         /* index into the directory's calls */
    uint32_t device;       /* 0, 1 */
};

struct group_cell {
    struct group_key key;
    uint32_t count;
    uint32_t bins[LOG_BINS];
};

HASH_TABLE_OF(group_cells, struct group_cell, struct group_key);

struct group_links {
    const struct common_clock *clock;
    const struct match_directory *directory;
    struct hash_table cells;
    bool overflow;  /* more than GROUP_CELLS_MOST */
    bool no_memory; /* nothing is judged then */
};

enum suspect_kind {
    SUSPECT_PAIR,      /* what lies between two hosts */
    SUSPECT_HOST,      /* a host's way to the others */
    SUSPECT_RANK,      /* a rank's way to other hosts */
    SUSPECT_INSIDE,    /* ways inside of a host */
    SUSPECT_NEIGHBOUR, /* a rank's way to others on its host */
    SUSPECT_MEMBERS,   /* nothing else is left: what lies between the members of this one communicator */
};

struct group_suspect {
    enum suspect_kind kind;
    uint32_t a, b; /* hosts, a dump or a communicator, by index; a pair's hosts with a < b, else b == a */
};

struct slow_group {
    struct group_suspect suspects[GROUP_SUSPECTS_MOST]; /* one: that is it; more: they cannot be told apart */
    size_t suspect_count;                               /* may be more than are listed */
    uint32_t communicator;                              /* the first of the slow ones */
    size_t slow, cleared_by; /* communicators that accuse it; all that are as fast as usual and were compared */
    uint64_t collectives;    /* of the slow ones, that they were judged on */
    double ratio;            /* the slow ones' time against the usual, the median of them */
    double confidence;       /* the least of theirs */
    bool layout;             /* it may be how the network is laid out (link_judge.h) */
    int64_t extra_ns;        /* that these collectives took longer */
};

/* Clock and directory must outlive it. */
void group_links_init(struct group_links *groups, const struct common_clock *clock,
                      const struct match_directory *directory);
void group_links_free(struct group_links *groups);

/* Takes one instance: what is complete, blocking or on GPUs, and left by nobody before all have come. */
void group_links_add(struct group_links *groups, const struct match_instance *instance);
/* Sums: the same in any order. */
void group_links_merge(struct group_links *into, const struct group_links *from);
/* Packs or unpacks one worker's. */
void group_links_parcel(struct group_links *groups, struct parcel *parcel);

/* Writes what slow communicators accuse, the costliest first, at most `most`; returns how many. `explained` (per dump):
 * communicators with such a member are left out, for something else makes them slow. None where memory is short
 * (no_memory is set then). */
size_t group_links_judge(struct group_links *groups, const bool *explained, struct slow_group *found, size_t most);

#endif
