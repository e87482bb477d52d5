/* SPDX-License-Identifier: Apache-2.0
 *
 * What graphs hold of each communicator, and how far their replays came (format.h, struct capture_row).
 * Lives here: a graph's contents while it is captured, their rows in the dump, counting launches and ends of replays.
 * Must not live here: which graph is meant (graphs.h), when a replay has ended (graph_replays.h).
 *
 * Graphs that hold the same of a communicator share a row, so that a job may capture anew for ever. Rows and messages
 * are given out from the front and never changed: a launch is one addition and three stores in each row of its graph.
 * What finds no room is counted where such graphs are launched (dump_header.captures_untold).
 */
#ifndef COMMTAP_GPU_CAPTURES_H
#define COMMTAP_GPU_CAPTURES_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/format.h"

#define CAPTURE_ROWS     1024u
#define CAPTURE_MESSAGES 32768u
#define CAPTURE_PARTS    8192u /* of one graph: an exchange of every rank with every other one, of 4096 ranks */
#define CAPTURES_OF_ONE  15u   /* communicators of one graph */

/* Rows that a graph's replays count in. */
struct capture_list {
    uint16_t count;
    uint16_t rows[CAPTURES_OF_ONE];
};

/* Operations of one kind that a graph holds: collectives of a communicator, or messages with one partner. */
struct capture_part {
    uint32_t comm;
    int32_t peer; /* PEER_NONE: collectives */
    uint32_t count;
    uint32_t stack; /* of the first */
    uint16_t call;  /* likewise */
    uint16_t flags; /* FLAG_SEND or FLAG_RECV; 0: collectives */
};

struct capture_contents {
    struct capture_part *parts; /* kept for the next graph that has this place */
    uint32_t count, room;
    uint32_t next; /* behind the part that was added to last: what follows there as a rule comes again in that order */
    bool lost;     /* some of what it holds is not here */
    bool settled;  /* `list` was made; parts that come after that are lost */
    struct capture_list list;
};

/* Once per activation: makes the tables and forgets everything. */
void captures_begin(void);

void capture_contents_clear(struct capture_contents *contents);
/* Adds `part->count` more such operations. */
void capture_contents_add(struct capture_contents *contents, const struct capture_part *part);
/* Adds all that another graph holds, which becomes a part of this one. */
void capture_contents_add_all(struct capture_contents *contents, const struct capture_contents *others);

/* The graph is made executable: finds or makes its rows. */
void captures_settle(struct capture_contents *contents);

/* A graph was launched. Returns the number of that launch, 0 where it has no rows. */
uint64_t captures_launched(const struct capture_contents *contents, uint64_t now_ns);
/* Nobody will learn when that replay ends. */
void captures_unfollowed(const struct capture_list *list, uint64_t number);
/* It has ended, `took_ns` after its launch. For the harvester's place alone. */
void captures_ended(const struct capture_list *list, uint64_t number, uint64_t took_ns);

#endif
