/* SPDX-License-Identifier: Apache-2.0
 *
 * The binary interface of NCCL's profiler plugins, versions 4 (NCCL 2.27), 5 (2.28.3) and 6 (2.29.2): own declarations
 * of the layouts published in src/include/plugin/profiler/profiler_v4.h, _v5.h and _v6.h of NVIDIA/nccl.
 * Version 5 is that of 2.28. Versions 4 and 6 are as published, unproven: so far the stand-in library of the tests
 * alone has called them. Must not live here: what is done with events (plugin.c).
 */
#ifndef COMMTAP_NCCL_PLUGIN_ABI_H
#define COMMTAP_NCCL_PLUGIN_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum profiler_event_type {
    PROFILER_GROUP = 1 << 0,
    PROFILER_COLL = 1 << 1,
    PROFILER_P2P = 1 << 2,
    PROFILER_PROXY_OP = 1 << 3,
    PROFILER_PROXY_STEP = 1 << 4,
    PROFILER_KERNEL_CH = 1 << 6,
    PROFILER_COLL_API = 1 << 9, /* the calls' events exist since version 5 */
    PROFILER_P2P_API = 1 << 10,
};

enum profiler_state {
    PROFILER_SEND_GPU_WAIT = 8,
    PROFILER_SEND_WAIT = 9,
    PROFILER_RECV_WAIT = 10,
    PROFILER_RECV_FLUSH_WAIT = 11,
    PROFILER_RECV_GPU_WAIT = 12,
    PROFILER_SEND_PEER_WAIT = 20,
    PROFILER_KERNEL_CH_STOP = 22,
};

/* What is read of an event. In all three versions the details begin at the same place; the type is one byte in version
 * 4 and eight bytes from version 5 on. Later members of `coll` and of the union are not read. */
struct profiler_event {
    union {
        uint8_t type_v4;
        uint64_t type;
    };
    void *parent;
    int rank;
    union {
        struct {
            const char *function;
            size_t count;
            const char *datatype;
            int root;
            void *stream;
            bool captured;
        } collective_call;
        struct {
            const char *function;
            size_t count;
            const char *datatype;
            void *stream;
            bool captured;
        } message_call;
        struct {
            uint64_t sequence;
            const char *function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *datatype;
            uint8_t channels;
            uint8_t warps;
            const char *algorithm;
            const char *protocol;
            void *group; /* since version 5; in version 4 the parent is the group */
        } collective;
        struct {
            const char *function;
            void *buffer;
            const char *datatype;
            size_t count;
            int peer;
            uint8_t channels; /* left unset by libraries that call a plugin of version 4 */
            void *group;      /* as above */
        } message;
        struct {
            pid_t pid; /* of the process that the operation, context and parent belong to */
            uint8_t channel;
            int peer;
            int steps;
            int chunk_bytes;
            int sends;
        } proxy;
        struct {
            int step;
        } step;
        struct {
            uint8_t channel;
            uint64_t stamp; /* ns of the GPU's globaltimer */
        } kernel;
    };
};
_Static_assert(offsetof(struct profiler_event, parent) == 8 && offsetof(struct profiler_event, rank) == 16 &&
                   offsetof(struct profiler_event, collective) == 24,
               "as published");

union profiler_state_details {
    struct {
        size_t bytes;
    } step;
    struct {
        uint64_t stamp;
    } kernel;
};

typedef void (*profiler_logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

struct profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm_hash, int nodes, int ranks, int rank,
                profiler_logger log);
    int (*start)(void *context, void **handle, const struct profiler_event *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, const union profiler_state_details *details);
    int (*finalize)(void *context);
};

struct profiler_v5 { /* and version 6 */
    const char *name;
    int (*init)(void **context, uint64_t comm_hash, int *mask, const char *comm_name, int nodes, int ranks, int rank,
                profiler_logger log);
    int (*start)(void *context, void **handle, const struct profiler_event *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, const union profiler_state_details *details);
    int (*finalize)(void *context);
};

#endif
