/* SPDX-License-Identifier: Apache-2.0
 *
 * This library as NCCL's profiler plugin: a second sensor, inside of NCCL. It counts calls, so that those which the
 * wrappers miss show; and where launches are not timed by events, it times them by the stamps of the kernels' channels
 * and tells what the network proxies waited for.
 * Lives here: being loaded, the event mask, the calls' and tasks' events. Must not live here: what becomes of stamps
 * (gpu/kernel_times.h), proxies (plugin_proxy.h).
 *
 * NCCL's threads call in here: no locks, no memory, no waiting. Handles that NCCL keeps for us are numbers: who comes
 * with one whose event is long gone is ignored. NCCL only asks for events that the mask names; it is one int in each
 * copy of the library, whose address is kept, and set when the way of timing is known:
 *
 *   COMMTAP_GPU_TIMING=off     nothing
 *   kernel times in force      calls, tasks, channels, proxies
 *   otherwise                  calls: they are counted, no more
 *
 * Version 4 of the interface (2.27) has no events of calls. There a task belongs to the call that its thread is in;
 * replays of graphs, announced by other threads, cannot be told from each other and are not timed.
 */
#ifndef COMMTAP_NCCL_PLUGIN_H
#define COMMTAP_NCCL_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/kernel_times.h"
#include "shim/record/knobs.h"

/* For the constructor: names this library in NCCL_PROFILER_PLUGIN, unless the user has a plugin or wants no timing.
 * `knobs` is NULL where none is given. */
void plugin_offer(const struct knobs *knobs);

/* Once per activation, when NCCL's version is known. */
void plugin_begin(void);

/* How launches are timed is known: asks NCCL for the events that it takes. */
void plugin_follow_mode(void);

/* NCCL has loaded the plugin in this process. */
bool plugin_is_used(void);

/* Communicator (local index) that a context of NCCL's has been seen to belong to, COMM_NONE when unknown. */
uint32_t plugin_comm_of(const void *context);

/* ---- handles --------------------------------------------------------------------------------- */

enum plugin_handle_kind {
    PLUGIN_NOTHING = 0,
    PLUGIN_CALL,    /* a span: the launch that a call's operation will be part of */
    PLUGIN_TASK,    /* a span: the launch that it is part of, in this replay */
    PLUGIN_CHANNEL, /* likewise */
    PLUGIN_GROUP,   /* number of an announcement, nothing behind it */
    PLUGIN_PROXY,   /* number of a proxy operation */
    PLUGIN_STEP,    /* likewise; `slot` is the step's */
};

struct plugin_handle {
    uint32_t number; /* 24 bits */
    uint32_t life;
    uint8_t kind; /* 4 bits */
    uint8_t slot; /* 4 bits */
};

static inline void *plugin_handle_pack(struct plugin_handle h) {
    return (void *)((uintptr_t)h.life << 32 | (uintptr_t)h.kind << 28 | (uintptr_t)h.slot << 24 | h.number);
}

static inline struct plugin_handle plugin_handle_unpack(const void *handle) {
    uintptr_t value = (uintptr_t)handle;
    return (struct plugin_handle){.number = value & 0xffffff,
                                  .life = (uint32_t)(value >> 32),
                                  .kind = value >> 28 & 15,
                                  .slot = value >> 24 & 15};
}

/* The span behind a handle of a call, task or channel; NULL when it is none, or gone. */
struct kernel_span *plugin_span_of(const void *handle, enum plugin_handle_kind kind);

#endif
