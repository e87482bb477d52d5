/* SPDX-License-Identifier: Apache-2.0
 *
 * control/: orders to processes that run (commtap ctl), through the headers of their dumps.
 * Lives here: which dump takes an order, writing it there, reading the answer. The only room that writes into a dump.
 * Must not live here: which processes are meant, what they do meanwhile (live/), sentences.
 */
#ifndef COMMTAP_CONTROL_CONTROL_H
#define COMMTAP_CONTROL_CONTROL_H

#include "analyzer/dumps/process_state.h"
#include "analyzer/dumps/set.h"

enum order_kind {
    ORDER_NONE, /* what is in force is only asked for */
    ORDER_PAUSE,
    ORDER_RESUME,
    ORDER_SNAPSHOT, /* a new epoch */
    ORDER_VERBOSE,  /* as COMMTAP_VERBOSE, and likewise: */
    ORDER_OPS,
    ORDER_STACK,
};

struct order {
    enum order_kind kind;
    const char *text;   /* what stands behind the word; NULL: nothing */
    uint32_t snapshots; /* ORDER_SNAPSHOT: the most that any process of the job was ordered before */
};

/* How long the text of an order may be, with its end; 0: it has none. */
size_t order_text_bytes(enum order_kind kind);

enum order_state {
    ORDER_OBEYED,    /* it is in force, and so are all before it */
    ORDER_AWAITED,   /* the process has made no call since */
    ORDER_OVER,      /* the process has ended, or makes no more calls */
    ORDER_NOT_GIVEN, /* it could not be given: `trouble` */
};

/* As documents have it ("acknowledged"), and back; -1: no state is called so. */
const char *order_state_name(enum order_state state);
int order_state_named(const char *name);

/* A process that orders are given to. */
struct controlled {
    int file; /* its dump, -1: takes no orders */
    enum order_state state;
    char trouble[192]; /* why it was not asked, "" otherwise */
    int32_t rank;
    int64_t pid;  /* in its own namespace */
    int64_t here; /* in ours; 0: not seen */
    uint64_t start_realtime_ns;
    char host[65];
    bool answers;               /* `answer` was read */
    struct order_wishes wishes; /* as last read: the texts are terminated */
    struct order_answer answer;
};

/* Opens the dump of a process for orders: a regular file, no link, of the caller's, that says of itself what `dump`
 * says. `state`: whether the process runs. The caller closes with control_close in every case. */
void control_open(struct controlled *process, const struct dump *dump, enum process_state state);
/* The same of one whose dump lies on another host, where alone it takes orders (remote.h). */
void control_open_stub(struct controlled *process, const struct dump_stub *stub);
void control_close(struct controlled *process);

/* Puts an order among the process's wishes. Whoever gives one at the same moment waits for the other, a second at most.
 * False with `trouble` where it could not be written. */
bool control_give(struct controlled *process, const struct order *order);

/* Reads what was ordered, how the process has answered, and whether it still can. */
void control_read(struct controlled *process);

#endif
