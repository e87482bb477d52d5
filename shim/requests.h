/* SPDX-License-Identifier: Apache-2.0
 *
 * Pending operations: posted, not yet seen complete. Handle -> entry of SECTION_PENDING.
 * A handle that is handed out again proves that the operation it stood for is complete. Libraries also have handles
 * that they hand out over and over, for operations that were complete when posted (eager sends); these are learnt.
 * Handles freed by Request_free leave the table at once.
 * Lives here: the table. Must not live here: what a Wait means.
 */
#ifndef COMMTAP_REQUESTS_H
#define COMMTAP_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/communicators.h"
#include "shim/format.h"

#define REQUEST_NO_ENTRY UINT32_MAX

/* What the dump does not hold of a pending operation. */
struct request_private {
    struct communicator *comm;
    uintptr_t output; /* Comm_idup: where the new handle will stand */
    uint32_t ordinal; /* Comm_idup: creation ordinal; persistent: starts so far */
    uint8_t topology;
    uint8_t peer_class;
    bool receive, send, collective, cancelled;
    uint32_t waits_before; /* Wait and Test calls of the process when it was posted */
    uint32_t wanted_seq;   /* persistent collectives: the number taken at initialisation */
    int32_t any_peer;      /* persistent requests: partner, tag and size as prepared, whatever the last start matched */
    int32_t any_tag;
    uint64_t posted_bytes;
    uint16_t starting_call; /* Start or Startall, 0 for requests that are no persistent ones */
};

bool requests_begin(void);

struct pending *request_entry(uint32_t index);
struct request_private *request_private(uint32_t index);

/* Posted receives with a wildcard: while there are any, ignored statuses are replaced by our own. */
extern uint32_t requests_wildcards;

/* A Wait or Test begins: from here on a handle may come back because it was completed. */
void requests_note_wait(void);

/* True for handles that a library hands out for operations complete when posted. */
bool request_is_shared(uintptr_t handle);

/* `handle` was handed out while the entry `stale` still held it: learns it as shared when nothing can have completed
 * that entry in between. Only sends can be complete when posted. */
void request_learn_shared(uintptr_t handle, uint32_t stale);

/* Takes a free entry for `handle`. *stale is the entry that held the same handle, to be completed by the caller, or
 * REQUEST_NO_ENTRY. Returns REQUEST_NO_ENTRY when the table is full (counted). The entry is private to the caller
 * until request_publish. */
uint32_t request_take(uintptr_t handle, uint32_t *stale);
void request_publish(uint32_t index, uintptr_t handle);

/* Finds the entry of a handle, leaving it in the table. */
uint32_t request_find(uintptr_t handle);

/* Finds it and takes it out of reach of other threads; the caller finishes with request_release or request_publish. */
uint32_t request_claim(uintptr_t handle);
void request_release(uint32_t index);

#endif
