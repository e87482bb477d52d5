/* SPDX-License-Identifier: Apache-2.0
 *
 * The call that a thread is in, as its in-flight slot tells it.
 * Lives here: reading slots, which calls can block and which only ask.
 * Must not live here: what they wait for.
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_SLOTS_H
#define COMMTAP_WAIT_FOR_GRAPH_SLOTS_H

#include "analyzer/load/dump.h"

/* A copy of a slot whose call did not change meanwhile; call 0 where it did not hold still. */
struct in_flight slot_read(const struct in_flight *slot);
/* The call a slot (copy) is in; NULL: none, or one that the dump does not name. */
const struct call_name *slot_call(const struct dump *dump, const struct in_flight *slot);

/* Whether a call is that function, or its twin for large counts. */
bool call_is_named(const struct call_name *call, const char *name);
/* Test, Iprobe: they return at once, whatever the answer. */
bool call_only_asks(const struct call_name *call);
/* Waitany, Waitsome. */
bool call_takes_any(const struct call_name *call);
/* Whether such calls are over when others have come. Files are not: how long one takes is the file system's affair. */
bool call_waits_for_others(const struct call_name *call);
/* Whether this call, as it was made, ends only when somebody else does something. */
bool slot_can_block(const struct call_name *call, const struct in_flight *slot);

#endif
