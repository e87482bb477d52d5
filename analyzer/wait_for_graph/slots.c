/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: reading slots, kinds of calls.
 * Must not live here: what they wait for.
 */
#include "analyzer/wait_for_graph/slots.h"

#include <string.h>

enum { READ_TRIES = 64 };

/* A copy of a slot whose call did not change meanwhile; call 0 where it did not hold still. */
struct in_flight slot_read(const struct in_flight *slot) {
    struct in_flight copy = {0};
    for (int i = 0; i < READ_TRIES; i++) {
        uint32_t call = __atomic_load_n(&slot->call, __ATOMIC_ACQUIRE);
        copy = *slot;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (copy.call == call && __atomic_load_n(&slot->call, __ATOMIC_RELAXED) == call)
            return copy;
    }
    copy.call = 0;
    return copy;
}

const struct call_name *slot_call(const struct dump *dump, const struct in_flight *slot) {
    return slot->call && slot->call <= UINT16_MAX ? dump_call(dump, (uint16_t)slot->call) : NULL;
}

bool call_is_named(const struct call_name *call, const char *name) {
    size_t length = strlen(name);
    return strncmp(call->name, name, length) == 0 &&
           (call->name[length] == '\0' || strcmp(call->name + length, "_c") == 0);
}

bool call_only_asks(const struct call_name *call) {
    return call->call_class == CLASS_TEST || call_is_named(call, "MPI_Iprobe") || call_is_named(call, "MPI_Improbe");
}

bool call_takes_any(const struct call_name *call) {
    return call_is_named(call, "MPI_Waitany") || call_is_named(call, "MPI_Waitsome");
}

bool call_waits_for_others(const struct call_name *call) {
    if (call->nonblocking || call_only_asks(call))
        return false;
    switch (call->call_class) {
    case CLASS_COLLECTIVE:
    case CLASS_SEND:
    case CLASS_RECV:
    case CLASS_SENDRECV:
    case CLASS_WAIT:
    case CLASS_PROBE:
    case CLASS_COMMUNICATOR:
    case CLASS_RMA_SYNC:
        return true;
    default:
        return false;
    }
}

bool slot_can_block(const struct call_name *call, const struct in_flight *slot) {
    if (call->call_class == CLASS_FILE)
        return !call->nonblocking && (slot->flags & FLAG_COLLECTIVE);
    if (call->call_class == CLASS_COMMUNICATOR || call->call_class == CLASS_RMA_SYNC)
        return call_waits_for_others(call) && slot->comm != COMM_NONE;
    return call_waits_for_others(call);
}
