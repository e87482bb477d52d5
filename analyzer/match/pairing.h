/* SPDX-License-Identifier: Apache-2.0
 *
 * The pairing half of matching, as one worker does it: parts become collectives, halves become messages.
 * Lives here: open channels and halves, and taking batches of arrivals to them.
 * Must not live here: records, dumps, which batch comes next (match.c).
 */
#ifndef COMMTAP_MATCH_PAIRING_H
#define COMMTAP_MATCH_PAIRING_H

#include "analyzer/base/cache_lines.h"
#include "analyzer/match/arrivals.h"
#include "analyzer/match/channel.h"
#include "analyzer/match/messages.h"

struct pairing {
    ON_OWN_LINES struct channel_owner owner;
    struct channel *channels;  /* one per communicator */
    struct hash_table started; /* channels of persistent and captured collectives */
    struct messages messages;
    struct messages sent;  /* between GPUs, for sink->sent */
    struct messages needs; /* in epochs among groups */
    uint64_t walked;       /* records, in all batches */
    bool no_memory;
    struct match_totals totals;
    struct match_totals ignored; /* messages that are counted once already; epochs count for no coverage */
};

/* Records after which an unpaired half of a message may be given up ... and at least so many per dump. */
enum { HALVES_INTERVAL = 1 << 20, HALVES_PER_DUMP = 256 };

/* One of `workers` that pair, who hands out to `sink` with `state`. Returns false when memory is short; pairing_free in
 * every case, which leaves the totals. */
bool pairing_init(struct pairing *pairing, const struct match_directory *directory, const struct match_sink *sink,
                  void *state, unsigned workers);
void pairing_free(struct pairing *pairing);

/* Takes the batch whose turn it is. Batches without arrivals for this worker are to be taken, too: they count. Memory
 * that is short shows in `no_memory`. */
void pairing_take(struct pairing *pairing, const struct arrival_batch *batch);

/* After the last batch: hands out what is still open. */
void pairing_close(struct pairing *pairing);

#endif
