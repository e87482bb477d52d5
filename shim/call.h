/* SPDX-License-Identifier: Apache-2.0
 *
 * What calls.def says about one intercepted function: the columns of THE table.
 * Lives here: struct call, the kinds and byte formulas a row may name, the way a row is expanded.
 * Must not live here: anything that records, or that knows a particular library's handles.
 *
 * Argument positions are 1-based, as the standard's bindings count them; 0 means "has none".
 */
#ifndef COMMTAP_CALL_H
#define COMMTAP_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "shim/format.h"

/* How the shim treats a call. Each kind has one handler (wrap_mpi.c); a kind fixes the call's class, too. */
enum call_kind {
    KIND_PLAIN = 0, /* counted and timed */
    KIND_INIT,      /* Init, Init_thread, Session_init: output, the session */
    KIND_FINALIZE,
    KIND_SESSION_FINALIZE, /* output: the handle's address; the world, or other sessions, may live on */
    KIND_ABORT,
    KIND_COLLECTIVE,      /* blocking collective */
    KIND_ICOLLECTIVE,     /* non-blocking: has `request` */
    KIND_COLLECTIVE_INIT, /* makes a persistent request */
    KIND_SEND,
    KIND_RECV,
    KIND_SENDRECV,
    KIND_ISEND,
    KIND_IRECV,
    KIND_ISENDRECV,
    KIND_SEND_INIT,
    KIND_RECV_INIT,
    KIND_START,    /* request */
    KIND_STARTALL, /* n, requests */
    KIND_WAIT,     /* request, status */
    KIND_WAITALL,  /* n, requests, statuses */
    KIND_WAITANY,  /* n, requests, index, status */
    KIND_WAITSOME, /* n, requests, outcount, indices, statuses */
    KIND_TEST,     /* request, flag, status */
    KIND_TESTALL,  /* n, requests, flag, statuses */
    KIND_TESTANY,  /* n, requests, index, flag, status */
    KIND_TESTSOME, /* n, requests, outcount, indices, statuses */
    KIND_POLL,     /* request by value (with `n`: the array), flag or outcount: completes nothing */
    KIND_REQUEST_FREE,
    KIND_CANCEL,
    KIND_PROBE,   /* peer, tag, comm, status */
    KIND_IPROBE,  /* peer, tag, comm, flag, status */
    KIND_MPROBE,  /* peer, tag, comm, message, status */
    KIND_IMPROBE, /* peer, tag, comm, flag, message, status */
    KIND_MRECV,
    KIND_IMRECV,
    KIND_COMM_CREATE,       /* new communicator at `output`, collective over `comm` */
    KIND_COMM_CREATE_GROUP, /* collective over a group only: comm, group, tag, output */
    KIND_COMM_FROM_GROUP,   /* no parent: group, text (string tag), output */
    KIND_COMM_IDUP,         /* output is valid when request completes */
    KIND_INTERCOMM_CREATE,
    KIND_INTERCOMM_FROM_GROUPS,
    KIND_COMM_FREE, /* output: the handle's address */
    KIND_COMM_SET_NAME,
    KIND_COMM_GET_PARENT, /* a link to another world at `output`, no parent: Comm_get_parent, Comm_join */
    KIND_TYPE_FREE,       /* output: the handle's address */
    KIND_WIN_CREATE,      /* collective over comm, window at output */
    KIND_WIN_FREE,        /* output: the handle's address */
    KIND_RMA,             /* one-sided: win, peer, count, type */
    KIND_RMA_REQUEST,     /* ... with request */
    KIND_RMA_SYNC,        /* Lock, Flush, Start, Post ...: not collective */
    KIND_WIN_TEST,        /* may end an exposure epoch */
    KIND_WIN_COLLECTIVE,  /* win; Win_fence: assertion */
    KIND_FILE_OPEN,       /* collective over comm, file at output */
    KIND_FILE_CLOSE,      /* collective, output: the handle's address */
    KIND_FILE_COLLECTIVE, /* file, collective */
    KIND_FILE_IO,         /* file (none: File_delete), independent */
    KIND_FILE_IO_REQUEST, /* ... with request; collective when `flow` says so */

    /* NCCL (wrap_nccl.c). Operations are enqueued: the call returns before they ran. */
    KIND_NCCL_PLAIN,  /* counted and timed; `comm` where it has one */
    KIND_NCCL_WINDOW, /* comm: symmetric memory */
    KIND_NCCL_WINDOW_GONE,
    KIND_NCCL_UNIQUE_ID,      /* the first thing that a job without MPI does */
    KIND_NCCL_COLLECTIVE,     /* comm, stream */
    KIND_NCCL_SEND,           /* comm, peer, stream */
    KIND_NCCL_RECV,           /* comm, peer, stream */
    KIND_NCCL_RMA,            /* one-sided, enqueued: comm, stream */
    KIND_NCCL_GROUP_START,    /* operations wait for the outermost end */
    KIND_NCCL_GROUP_END,      /* the row that a group of several operations is counted under, too */
    KIND_NCCL_GROUP_SIMULATE, /* ends a group; nothing runs */
    KIND_NCCL_INIT_RANK,      /* new communicator at `output` of `n` ranks, this one being `rank`, by `unique_id` */
    KIND_NCCL_INIT_ALL,       /* `n` communicators at `output`, on `devices` */
    KIND_NCCL_SPLIT,          /* comm, color, new communicator at `output` */
    KIND_NCCL_SHRINK,         /* comm, excluded ranks `index`, of which `count`, new communicator at `output` */
    KIND_NCCL_GROW,           /* comm (none on new ranks), n, unique_id, rank, new communicator at `output` */
    KIND_NCCL_DESTROY,        /* comm: its handle may come back as another's */
    KIND_NCCL_ABORT,          /* ... and what it had in flight will not end */
    KIND_NCCL_REVOKE,         /* what it had in flight will not end */
    KIND_NCCL_ASYNC_ERROR,    /* comm, status: how the job learns that non-blocking work was enqueued, or failed */
    KIND_COUNT
};

/* Message size of one call (DESIGN's definition of bytes). c, t = `count`, `type`; c2, t2 = `count2`, `type2`. */
enum byte_formula {
    BYTES_ZERO = 0,    /* Barrier, Wait, Test: 0 */
    BYTES_COUNT,       /* c * size(t) */
    BYTES_ELEMENT,     /* size(t): Fetch_and_op, Compare_and_swap */
    BYTES_COUNT_N,     /* c * size(t) * n */
    BYTES_SUM,         /* sum(c[0..n-1]) * size(t): Allgatherv, Reduce_scatter */
    BYTES_GATHER,      /* root: c2 * size(t2) * n, others c * size(t) * n; only these arguments are significant */
    BYTES_SCATTER,     /* root: c * size(t) * n, others c2 * size(t2) * n */
    BYTES_GATHERV,     /* root: sum(c2[]) * size(t2), others c * size(t) */
    BYTES_SCATTERV,    /* root: sum(c[]) * size(t), others c2 * size(t2) */
    BYTES_ALLTOALLV,   /* sum(c[]) * size(t); in place: c2[], t2 */
    BYTES_ALLTOALLW,   /* sum(c[i] * size(t[i])) over c[i] > 0; in place: c2[], t2[] */
    BYTES_NEIGHBOR,    /* c * size(t) * outdegree */
    BYTES_NEIGHBOR_V,  /* sum(c[0..outdegree-1]) * size(t) */
    BYTES_NEIGHBOR_W,  /* sum(c[i] * size(t[i])) over outdegree */
    BYTES_PARTITIONED, /* partitions (`count2`, an int) * c (an MPI_Count in every binding) * size(t) */
    BYTES_FORMULAS
};

#define LARGE_COUNT_IDS 1000 /* id of a CALL_LARGE function minus that of its twin; ranks may mix the two */
#define NCCL_CONFIG_IDS 10   /* the same of a CALL_CONFIG function */

enum call_bits {
    CALL_LARGE = 1u << 0,       /* counts are MPI_Count (64 bit), an `_c` function */
    CALL_SYNCHRONOUS = 1u << 1, /* Ssend and its like */
    CALL_UNORDERED = 1u << 2,   /* communicator creation that is not collective over all of `comm` */
    CALL_COPIES_TOPOLOGY = 1u << 3,
    CALL_COUNT_SENT = 1u << 4, /* documentation only: the size is what this rank sends */
    CALL_CONFIG = 1u << 5,     /* its last argument configures this one call, otherwise as its twin without */
};

/* Virtual topology that a communicator creation attaches: decides how neighbours are counted. */
enum topology { TOPOLOGY_NONE = 0, TOPOLOGY_CART, TOPOLOGY_GRAPH, TOPOLOGY_DIST_GRAPH };

struct call {
    uint16_t id; /* explicit, append-only, never reused; in every dump */
    uint8_t api; /* enum api */
    uint8_t arity;
    uint8_t kind;  /* enum call_kind */
    uint8_t bytes; /* enum byte_formula */
    uint8_t flow;  /* enum flow: collectives only */
    uint8_t busbw; /* enum busbw */
    uint8_t bits;  /* enum call_bits */
    uint8_t topology;
    uint8_t epoch; /* enum epoch_part */

    /* argument positions, 1-based */
    uint8_t comm, win, file;
    uint8_t count, type, count2, type2;
    uint8_t inplace; /* buffer that may be MPI_IN_PLACE */
    uint8_t root, peer, tag;
    uint8_t peer2, tag2; /* Sendrecv: source and its tag */
    uint8_t redop;
    uint8_t assertion;             /* of one-sided synchronisation: MPI_MODE_NOPRECEDE and its like */
    uint8_t request;               /* MPI_Request *, or the array of them */
    uint8_t n;                     /* length of that array */
    uint8_t status;                /* MPI_Status *, or the array of them */
    uint8_t flag, index, outcount; /* outputs of Test*, Waitany ... (indices: `index`) */
    uint8_t message;               /* MPI_Message * */
    uint8_t group, group2;         /* group2: the remote group of Intercomm_create_from_groups */
    uint8_t text;                  /* const char *: a communicator's name, a string tag */
    uint8_t output;                /* address of the created or freed handle */
    uint8_t stream;                /* cudaStream_t */
    uint8_t rank;                  /* own rank in a new communicator */
    uint8_t unique_id;             /* const ncclUniqueId * (wrappers of calls that take it by value pass its address) */
    uint8_t config;                /* const ncclConfig_t * */
    uint8_t color;
    uint8_t devices; /* const int *: CUDA device numbers */

    char name[sizeof((struct call_name *)0)->name]; /* "MPI_Allreduce"; arrays, so that the table needs no relocation */
    char torch[sizeof((struct call_name *)0)->torch]; /* torch.distributed's name, or empty */
};

/* A row of calls.def as data. The row's own columns come last; the prefix tells the interface: MPI_X, ncclX. */
#define CALL_AS_DATA(row_id, row_name, row_arity, row_kind, ...)                                                       \
    {                                                                                                                  \
        .id = (row_id), .api = (#row_name)[0] == 'n' ? API_NCCL : API_MPI, .arity = row_arity, .kind = row_kind,       \
        .name = #row_name, __VA_ARGS__                                                                                 \
    }

/* THE table, ordered as in calls.def. */
extern const struct call commtap_calls[];
extern const unsigned commtap_call_count;

/* What a launch of several calls is counted under that are one operation together. No function: nothing is intercepted.
 * Dumps list them behind the table. */
enum launch_pattern {
    PATTERN_EXCHANGE,
    PATTERN_ALL_TO_ALL,
    PATTERN_ALL_REDUCES, /* from here on collectives of one kind that differ in size, or are too many to be counted each
                          */
    PATTERN_BROADCASTS,
    PATTERN_REDUCES,
    PATTERN_ALL_GATHERS,
    PATTERN_REDUCE_SCATTERS,
    PATTERN_SENDS, /* the same of messages that go one way */
    PATTERN_RECEIVES,
    PATTERN_GATHER_OF_BROADCASTS, /* every rank is the root of one */
    PATTERN_SCATTER_OF_REDUCES,
    PATTERN_COUNT
};
extern const struct call commtap_patterns[PATTERN_COUNT];

/* Index of each row in commtap_calls, so that wrappers reach their row without a search. */
enum call_index {
#define CALL(id, name, arity, kind, ...) INDEX_##name,
#include "shim/calls.def"
#undef CALL
    CALL_INDEX_COUNT
};

/* Class the analyzer sees (format.h) for a kind, from the table of kinds in call.c. */
enum call_class commtap_call_class(const struct call *call);

/* 1 when the call returns before its operation is complete. */
int commtap_call_nonblocking(const struct call *call);

#endif
