/* SPDX-License-Identifier: Apache-2.0
 *
 * The reading half of one worker: it walks over the records of its own dumps, a batch of the dump that is furthest
 * behind at a time, and tells all workers what they are to put together. Inside of analyzer/match only.
 * Lives here: a walk's state, the order of its dumps (walk.c), what a record says about a collective or a message
 * (walk_record.c).
 * Must not live here: putting together what belongs together (pairing.h), workers and their rounds (match.c).
 */
#ifndef COMMTAP_ANALYZER_MATCH_WALK_H
#define COMMTAP_ANALYZER_MATCH_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/cache_lines.h"
#include "analyzer/base/hash_table.h"
#include "analyzer/match/arrivals.h"
#include "analyzer/match/channel.h"
#include "analyzer/match/epochs.h"
#include "analyzer/match/group_messages.h"
#include "analyzer/match/instances.h"
#include "analyzer/match/messages.h"
#include "analyzer/match/polling.h"
#include "analyzer/match/slips.h"
#include "analyzer/match/stream.h"
#include "analyzer/match/wildcards.h"

/* A completion whose Wait or Test call has not been recorded yet: that record follows. */
struct completion {
    bool message; /* half of a message; else part of a collective */
    union {
        struct channel_arrival part;
        struct message_half half;
    };
};

/* What completions were waited for in. */
struct waiting {
    int64_t from, to; /* from > to: nothing */
    uint32_t stack;
};

struct walk_lane {
    struct completion *completions; /* DONES_MAX, allocated at the first */
    uint32_t count;
    bool overrun; /* completions of the same stretch, between two calls, have been settled: there were too many */
    struct waiting wait; /* the last Wait or Test call, with the polls before it */
    int64_t called;      /* entry of the last call, MATCH_ABSENT: none yet */
    struct polling polling;
};

/* A call that enqueued GPU work: a launch begins within the few calls before it, or long after its own. */
struct enqueuing_call {
    uint32_t op;
    int64_t left; /* common ns */
};
enum { LAUNCH_CALLS = 16 };

struct walk_dump {
    ON_OWN_LINES struct record_stream stream;
    struct walk_lane *lanes;
    struct arrival_turn turn; /* of its next batch */
    struct group_messages groups;
    uint64_t walked; /* records */
    struct enqueuing_call launch_calls[LAUNCH_CALLS];
};

/* How far the numbers of a channel have come, as one worker reads them. */
struct walk_channel {
    struct channel_key key;
    bool any;
    uint32_t newest;
    uint64_t told_in; /* the batch at whose end the others are told */
};

/* The reading half of one worker. */
struct match_walk {
    ON_OWN_LINES const struct common_clock *clock;
    const struct match_directory *directory;
    const struct match_sink *sink;
    void *state;
    unsigned number, workers;
    const uint32_t *worker_of; /* per dump: who reads it, and pairs the messages to it */
    struct arrivals *told;     /* to each worker, in this round */
    struct walk_dump *dumps;   /* shared: each worker touches its own */
    uint32_t *heap;            /* own dumps that have records left, the earliest first */
    size_t heap_count;
    struct walk_channel *channels; /* one per communicator */
    struct hash_table started;     /* those of persistent and captured collectives */
    struct channel_key *to_tell;   /* of those that came further in this batch */
    size_t to_tell_count, to_tell_room;
    uint64_t batch; /* number of it, from 1 */
    uint64_t read;  /* records */
    struct epochs epochs;
    const struct wildcards *wildcards; /* per dump; shared by the workers */
    const struct slips *slips;         /* likewise */
    bool failed;
    struct match_totals totals;
};

/* Reads the dumps that worker_of gives to this walk. False when memory is short; match_walk_end also then. */
bool match_walk_begin(struct match_walk *walk);
void match_walk_end(struct match_walk *walk);
/* What a walk keeps of a dump; of one that it never began, too. */
void match_walk_end_dump(struct walk_dump *dump, const struct dump *file);

/* Up to MATCH_BATCH records of the dump that is furthest behind; there must be one. */
enum { MATCH_BATCH = 128 };
void match_walk_read_batch(struct match_walk *walk);

/* ---- between walk.c and walk_record.c ------------------------------------------------------------------------- */

/* Takes account of a dump's next record. */
void match_walk_record(struct match_walk *walk, size_t dump, const struct record *record);
/* The lane's completions were waited for in `in`, or in nothing that is on record. */
void match_walk_settle(struct match_walk *walk, struct walk_lane *lane, const struct waiting *in);
extern const struct waiting match_no_waiting;

/* A collective of that number was begun: who pairs hears of it at the end of the batch. */
void match_walk_pass_number(struct match_walk *walk, const struct channel_key *key, uint32_t seq);
/* To the worker that pairs it. */
void match_walk_tell_part(struct match_walk *walk, struct channel_arrival *part);
void match_walk_tell_half(struct match_walk *walk, enum arrival_kind kind, const struct message_half *half);

#endif
