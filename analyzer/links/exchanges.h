/* SPDX-License-Identifier: Apache-2.0
 *
 * How long messages take whose completion is only seen when a call returns that may have waited for several: Waitall,
 * Waitany, Wait, Test, Sendrecv.
 * Lives here: a sample of such messages, and which of the operations that a call completed it must have waited for.
 * Must not live here: comparing pairs of ranks (link_judge.h), matching.
 *
 * All operations that one call saw complete end, as far as is known, when it returned: that bounds each of them from
 * above, and one of them took that long. A message counts as judged when its begin is known to an eighth of that: all
 * four of sent, received, and each side waiting lie close together or before. Then
 *   - the low quantile of a pair's bounds is what its messages take at most when they are not held up by others;
 *   - the call waited for one message alone when every other operation would, at its pair's bound and from the latest
 *     moment at which it can have begun, have been over well before: by elimination.
 * A pair is accused only by calls that waited for it alone. Where calls never tell which it was, nobody is.
 *
 * Calls are sampled by a hash: the same for any number of workers.
 */
#ifndef COMMTAP_LINKS_EXCHANGES_H
#define COMMTAP_LINKS_EXCHANGES_H

#include "analyzer/base/log_bins.h"
#include "analyzer/base/parcel.h"
#include "analyzer/match/instances.h"

enum {
    EXCHANGE_ENDS_MOST = 1 << 19,  /* ends of messages that are kept: 16 MB */
    EXCHANGE_ENDS_MIN = 8,         /* that a call must have waited for alone, to accuse their pair */
    RENDEZVOUS_BYTES = 1 << 20,    /* no library buffers so much: the send is over only when the bytes have moved */
    EXCHANGE_QUANTILE_PERCENT = 12 /* of a pair's bounds: what it takes when not held up */
};

/* One end of a message, or the number of operations that a call completed. */
struct exchange_end {
    uint64_t call; /* hash of the rank and the moment its call returned */
    uint32_t from, to;
    uint32_t bound; /* ns from the message's begin to when it was over at the latest */
    uint32_t slack; /* ns from the latest moment at which it can have begun to the call's return */
    uint32_t after; /* ns from when it was over at the latest to the call's return */
    uint16_t operations;
    uint8_t size;
    uint8_t flags;
};

struct exchanges {
    const struct common_clock *clock;
    const struct match_directory *directory;
    struct exchange_end *ends;
    size_t count, room;
    uint64_t limit;             /* calls with a larger hash are not kept */
    struct exchange_call *open; /* per dump: the call at hand */
    bool no_memory;
};

/* A pair of ranks and a size. */
struct exchange_pair {
    uint32_t from, to; /* indices of dumps */
    uint32_t size;     /* log bin of the bytes */
    uint32_t count;    /* messages judged */
    uint32_t bins[LOG_BINS];
    uint32_t low;       /* of them, no slower than the pair's quantile by much */
    uint32_t low_alone; /* of those, which a call waited for alone */
    uint32_t low_open;  /* ... or may have waited for */
    double alone;       /* messages of the whole run, not of the sample, for which a call waited alone */
    double waited;      /* the same, with their share in calls that may have waited for several */
};

/* Clock and directory must outlive it; freed with exchanges_free. False: memory is short. */
bool exchanges_init(struct exchanges *exchanges, const struct common_clock *clock,
                    const struct match_directory *directory);
void exchanges_free(struct exchanges *exchanges);

/* Takes every record of a dump in order: how many operations each call completed. `call` may be NULL. */
void exchanges_note(struct exchanges *exchanges, const struct match_record *item, const struct call_name *call);
/* Takes a message that is not blocking on both sides. */
void exchanges_add(struct exchanges *exchanges, const struct match_message *message);
/* After the last record. */
void exchanges_finish(struct exchanges *exchanges);
/* Adds another worker's, finished. */
void exchanges_merge(struct exchanges *into, const struct exchanges *from);
/* Packs or unpacks one worker's, finished or not. */
void exchanges_parcel(struct exchanges *exchanges, struct parcel *parcel);

/* The pairs with at least `least` judged messages, sorted by size, from, to; to be freed. Reorders what was gathered.
 * NULL: none, or memory is short (no_memory is set then). */
struct exchange_pair *exchanges_pairs(struct exchanges *exchanges, uint32_t least, size_t *count);

#endif
