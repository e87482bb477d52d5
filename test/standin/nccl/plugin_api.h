/* SPDX-License-Identifier: Apache-2.0
 *
 * The profiler plugin's binary interface, versions 4 (NCCL 2.27), 5 (2.28.3) and 6 (2.29.2): own declarations of the
 * layouts published in src/include/plugin/profiler/profiler_v4.h, _v5.h and _v6.h.
 * Must not live here: when the stand-in calls what.
 */
#ifndef STANDIN_NCCL_PLUGIN_API_H
#define STANDIN_NCCL_PLUGIN_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum profiler_event {
    PROFILER_GROUP = 1 << 0,
    PROFILER_COLL = 1 << 1,
    PROFILER_P2P = 1 << 2,
    PROFILER_PROXY_OP = 1 << 3,
    PROFILER_PROXY_STEP = 1 << 4,
    PROFILER_PROXY_CTRL = 1 << 5,
    PROFILER_KERNEL_CH = 1 << 6,
    PROFILER_NET_PLUGIN = 1 << 7,
    PROFILER_GROUP_API = 1 << 8,
    PROFILER_COLL_API = 1 << 9,
    PROFILER_P2P_API = 1 << 10,
    PROFILER_KERNEL_LAUNCH = 1 << 11
};

enum profiler_state {
    STATE_SEND_GPU_WAIT = 8,
    STATE_SEND_WAIT = 9,
    STATE_RECV_WAIT = 10,
    STATE_RECV_FLUSH_WAIT = 11,
    STATE_RECV_GPU_WAIT = 12,
    STATE_PROXY_OP_IN_PROGRESS = 19,
    STATE_SEND_PEER_WAIT = 20,
    STATE_KERNEL_CH_STOP = 22,
    STATE_GROUP_START_API_STOP = 23,
    STATE_GROUP_END_API_START = 24
};

/* Members that versions 4 to 6 share in layout. */
#define PROFILER_PROXY_MEMBERS                                                                                         \
    struct {                                                                                                           \
        pid_t pid;                                                                                                     \
        uint8_t channelId;                                                                                             \
        int peer;                                                                                                      \
        int nSteps;                                                                                                    \
        int chunkSize;                                                                                                 \
        int isSend;                                                                                                    \
    } proxyOp;                                                                                                         \
    struct {                                                                                                           \
        int step;                                                                                                      \
    } proxyStep;                                                                                                       \
    struct {                                                                                                           \
        uint8_t channelId;                                                                                             \
        uint64_t pTimer;                                                                                               \
    } kernelCh;                                                                                                        \
    struct {                                                                                                           \
        int64_t id;                                                                                                    \
        void *data;                                                                                                    \
    } netPlugin

struct profiler_event_v4 {
    uint8_t type;
    void *parentObj;
    int rank;
    union {
        struct {
            uint64_t seqNumber;
            const char *func;
            void const *sendBuff;
            void *recvBuff;
            size_t count;
            int root;
            const char *datatype;
            uint8_t nChannels;
            uint8_t nWarps;
            const char *algo;
            const char *proto;
        } coll;
        struct {
            const char *func;
            void *buff;
            const char *datatype;
            size_t count;
            int peer;
            uint8_t nChannels;
        } p2p;
        PROFILER_PROXY_MEMBERS;
    };
};

/* Versions 5 and 6: version 6 appends members to the union, of which ceColl is the largest. */
struct profiler_event_v6 {
    uint64_t type;
    void *parentObj;
    int rank;
    union {
        struct {
            bool graphCaptured;
            int groupDepth;
        } groupApi;
        struct {
            const char *func;
            size_t count;
            const char *datatype;
            int root;
            void *stream;
            bool graphCaptured;
        } collApi;
        struct {
            const char *func;
            size_t count;
            const char *datatype;
            void *stream;
            bool graphCaptured;
        } p2pApi;
        struct {
            void *stream;
        } kernelLaunch;
        struct {
            uint64_t seqNumber;
            const char *func;
            void const *sendBuff;
            void *recvBuff;
            size_t count;
            int root;
            const char *datatype;
            uint8_t nChannels;
            uint8_t nWarps;
            const char *algo;
            const char *proto;
            void *parentGroup;
        } coll;
        struct {
            const char *func;
            void *buff;
            const char *datatype;
            size_t count;
            int peer;
            uint8_t nChannels;
            void *parentGroup;
        } p2p;
        PROFILER_PROXY_MEMBERS;
        struct {
            uint64_t seqNumber;
            const char *func;
            void const *sendBuff;
            void *recvBuff;
            size_t count;
            int root;
            const char *datatype;
            const char *syncStrategy;
            bool intraBatchSync;
            uint32_t batchSize;
            uint32_t numBatches;
            uint32_t ceSeqNum;
            void *stream;
        } ceColl;
    };
};

/* Versions 4 to 6. */
union profiler_state_args {
    struct {
        size_t transSize;
    } proxyStep;
    struct {
        int appendedProxyOps;
    } proxyCtrl;
    struct {
        void *data;
    } netPlugin;
    struct {
        uint64_t pTimer;
    } kernelCh;
};

typedef void (*profiler_logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

struct profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm_hash, int nodes, int ranks, int rank,
                profiler_logger log);
    int (*startEvent)(void *context, void **handle, struct profiler_event_v4 *event);
    int (*stopEvent)(void *handle);
    int (*recordEventState)(void *handle, int state, union profiler_state_args *args);
    int (*finalize)(void *context);
};

struct profiler_v6 { /* and version 5, whose event's union is shorter */
    const char *name;
    int (*init)(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nodes, int ranks, int rank,
                profiler_logger log);
    int (*startEvent)(void *context, void **handle, struct profiler_event_v6 *event);
    int (*stopEvent)(void *handle);
    int (*recordEventState)(void *handle, int state, union profiler_state_args *args);
    int (*finalize)(void *context);
};

#endif
