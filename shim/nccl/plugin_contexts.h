/* SPDX-License-Identifier: Apache-2.0
 *
 * What NCCL's profiler and its plugin hand each other: contexts, one per communicator of NCCL's, and handles of events.
 * Both are numbers that outlive what they stand for: whoever comes with one whose event is long gone is ignored.
 * Must not live here: what an event does.
 */
#ifndef COMMTAP_NCCL_PLUGIN_CONTEXTS_H
#define COMMTAP_NCCL_PLUGIN_CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/kernel_times.h"

/* ---- contexts -------------------------------------------------------------------------------- */

/* A communicator as NCCL names it to the plugin. */
struct plugin_context {
    uint32_t taken;
    uint32_t comm;  /* local index + 1, 0 = not seen with a call yet */
    uint32_t asker; /* number of the copy of NCCL that it belongs to (plugin.c) */
};

#define PLUGIN_CONTEXTS 1024u
extern struct plugin_context plugin_contexts[PLUGIN_CONTEXTS];

/* A free one, taken; NULL when there is none. */
struct plugin_context *plugin_context_take(uint32_t asker);

/* The one behind NCCL's pointer; NULL when it is none of ours. */
static inline struct plugin_context *plugin_context_of(const void *pointer) {
    uintptr_t offset = (uintptr_t)pointer - (uintptr_t)plugin_contexts;
    if (offset >= sizeof plugin_contexts || offset % sizeof *plugin_contexts)
        return NULL;
    return &plugin_contexts[offset / sizeof *plugin_contexts];
}

/* Its number, from 1; 0 when it is none. Captured launches belong to it. */
static inline uint32_t plugin_owner_number(const void *pointer) {
    const struct plugin_context *context = plugin_context_of(pointer);
    return context ? (uint32_t)(context - plugin_contexts) + 1 : 0;
}

/* The communicator (local index) that it has been seen to belong to, COMM_NONE when unknown. */
static inline uint32_t plugin_comm_of(const void *pointer) {
    const struct plugin_context *context = plugin_context_of(pointer);
    return context ? __atomic_load_n(&context->comm, __ATOMIC_RELAXED) - 1 : COMM_NONE;
}

static inline void plugin_learn_comm(const void *pointer, uint32_t comm) {
    struct plugin_context *context = plugin_context_of(pointer);
    if (context && context->comm != comm + 1)
        __atomic_store_n(&context->comm, comm + 1, __ATOMIC_RELAXED);
}

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
static inline struct kernel_span *plugin_span_of(const void *handle, enum plugin_handle_kind kind) {
    struct plugin_handle h = plugin_handle_unpack(handle);
    return h.kind == kind ? kernel_span_find(h.number, h.life) : NULL;
}

#endif
