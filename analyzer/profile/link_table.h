/* SPDX-License-Identifier: Apache-2.0
 *
 * Who sent what to whom, and how fast: a row per link that carried something.
 * Lives here: sums per ordered pair of ranks, or of hosts, from the dumps' tables and from what the analysis measured.
 * Must not live here: measuring (links/, waits/), who is to blame (links/link_judge.h), printing.
 *
 * Three kinds of rows, which are never added up: messages between two ranks (counted by the tables, all of them; timed
 * where records of both ends were matched); NCCL's network transfers of collectives and messages, timed by its proxies;
 * and what collectives put on a link if each goes round a ring in the order of ranks, which is an estimate and has no
 * times. Only links that carried something have a row: memory grows with the dumps, not with the square of the ranks.
 */
#ifndef COMMTAP_PROFILE_LINK_TABLE_H
#define COMMTAP_PROFILE_LINK_TABLE_H

#include "analyzer/load/filter.h"
#include "analyzer/links/links.h"
#include "analyzer/waits/link_waits.h"

enum link_kind { LINK_MESSAGES, LINK_NETWORK, LINK_COLLECTIVES };

enum link_type { LINK_TYPE_UNKNOWN, LINK_WITHIN_PROCESS, LINK_WITHIN_HOST, LINK_BETWEEN_HOSTS };

/* Where the figures of a row come from, the best of them. */
enum link_method {
    LINK_COUNTED,    /* the tables alone: no time */
    LINK_BOUNDED,    /* the calls that saw messages end bound their times from above */
    LINK_TIMED,      /* messages between blocking calls, from when both were there until the receive returned */
    LINK_BY_PROXIES, /* NCCL's network proxies */
    LINK_ESTIMATED,  /* an algorithm is assumed */
};

/* Why a row has no bandwidth. */
enum link_gap {
    LINK_GAP_NONE,
    LINK_GAP_ALGORITHM, /* an estimate has no times */
    LINK_GAP_SELF,      /* within one process */
    LINK_GAP_NO_DUMP,   /* of one of the ends */
    LINK_GAP_UNMATCHED, /* no message of it was matched on both ends' records */
    LINK_GAP_UNTIMED,   /* matched, but each may have been there before, or its call may have waited for others */
    LINK_GAP_TOO_MANY,  /* links and sizes: none was timed */
};

/* Who counted a link's messages: whoever has seen most of them. */
enum link_counter { COUNTED_BY_SENDER, COUNTED_BY_RECEIVER, COUNTED_BY_RECORDS };

struct link_side {
    uint64_t count, bytes;
};

struct link_row_key {
    uint32_t kind;
    uint32_t from, to; /* world ranks; by host: indices into the clock's hosts, NOWHERE = not known */
};

struct link_row {
    struct link_row_key key;
    int32_t from_rank, to_rank;      /* RANK_UNKNOWN: by host */
    const char *from_host, *to_host; /* NULL = not known */
    enum link_type type;
    enum link_method method;
    enum link_gap gap;
    uint64_t messages, bytes; /* of the whole run. Network: steps; collectives: calls, bytes are estimated */
    enum link_counter counted_by;
    bool waits_known;
    uint64_t matched, matched_bytes; /* messages on record at both ends, on which the waits rest */
    int64_t late_sender_ns, late_receiver_ns;
    uint64_t timed, timed_bytes, timed_ns; /* bandwidth is bytes by ns; 0: not known */
    double least_bytes_per_ns;             /* the bandwidth is at least that; 0: not known */
    struct link_side sent, received;       /* private: as either end counts */
    uint64_t host_bytes, device_bytes;     /* private: collectives' rows of host times, and of the GPU's */
};

/* Collectives that no link can be charged with. */
enum left_out { LEFT_OUT_EVERY_PAIR, LEFT_OUT_ROOT, LEFT_OUT_UNKNOWN };

struct link_left_out {
    const char *key; /* function; lives as long as the dumps */
    enum left_out why;
    uint64_t calls, bytes; /* over all ranks */
};

struct link_table {
    struct link_row *rows; /* by kind; most bytes first, then by from and to */
    size_t count;
    struct link_left_out *left_out; /* by name */
    size_t left_out_count;
    uint64_t with_another_world; /* messages: in no row */
    bool by_host;
    bool no_memory;
};

/* What it is made of. All must outlive the table. */
struct link_sources {
    const struct common_clock *clock;
    const struct links *links; /* judged */
    const struct link_waits *waits;
    const struct filter *filter; /* of it the ranks: links from or to them. NULL: all */
};

/* Fills the table. Returns false when memory is short; the caller frees with link_table_free in every case. */
bool link_table_build(struct link_table *table, const struct link_sources *sources, bool by_host);
void link_table_free(struct link_table *table);

#endif
