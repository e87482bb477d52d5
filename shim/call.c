/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of intercepted functions as data.
 * Lives here: the expansion of calls.def, and what a row's kind implies.
 * Must not live here: anything that runs at a call, or that is more than a look-up.
 */
#include "shim/call.h"

/* Two rows with one id are two enumerators with one name: the build stops here. */
enum id_taken {
#define CALL(id, name, arity, kind, ...) ID_TAKEN_##id = (id),
#include "shim/calls.def"
#undef CALL
    ID_TAKEN_2072 = 2072,
    ID_TAKEN_2073 = 2073,
    ID_TAKEN_2074 = 2074,
    ID_TAKEN_2075 = 2075,
    ID_TAKEN_2076 = 2076,
    ID_TAKEN_2077 = 2077,
    ID_TAKEN_2078 = 2078,
    ID_TAKEN_2100 = 2100,
    ID_TAKEN_2101 = 2101,
    ID_TAKEN_2102 = 2102,
    ID_TAKEN_2103 = 2103,
};

const struct call commtap_calls[] = {
#define CALL(...) CALL_AS_DATA(__VA_ARGS__),
#include "shim/calls.def"
#undef CALL
};

const unsigned commtap_call_count = CALL_INDEX_COUNT;

_Static_assert(sizeof(commtap_calls) / sizeof(commtap_calls[0]) == CALL_INDEX_COUNT, "one index per row");

#define TOGETHER(ID, NAME, BUSBW, TORCH)                                                                               \
    { .id = (ID), .api = API_NCCL, .kind = KIND_NCCL_GROUP_END, .busbw = (BUSBW), .name = (NAME), .torch = (TORCH) }
#define COALESCED(ID, NAME, BUSBW, TORCH) TOGETHER(ID, NAME " (coalesced)", BUSBW, TORCH)

/* Ids beside those of calls.def, which leaves them free. busbw as nccl-tests tells it: sendrecv_perf, alltoall_perf;
 * that of collectives together is that of each. */
const struct call commtap_patterns[PATTERN_COUNT] = {
    [PATTERN_EXCHANGE] = TOGETHER(2072, "ncclSend+ncclRecv", BUSBW_ONE, ""),
    [PATTERN_ALL_TO_ALL] = TOGETHER(2073, "ncclSend+ncclRecv (all-to-all)", BUSBW_SHARE, "all_to_all_single"),
    [PATTERN_ALL_REDUCES] = COALESCED(2074, "ncclAllReduce", BUSBW_ALLREDUCE, "all_reduce"),
    [PATTERN_BROADCASTS] = COALESCED(2075, "ncclBroadcast", BUSBW_ONE, "broadcast"),
    [PATTERN_REDUCES] = COALESCED(2076, "ncclReduce", BUSBW_ONE, "reduce"),
    [PATTERN_ALL_GATHERS] = COALESCED(2077, "ncclAllGather", BUSBW_SHARE, "all_gather_into_tensor"),
    [PATTERN_REDUCE_SCATTERS] = COALESCED(2078, "ncclReduceScatter", BUSBW_SHARE, "reduce_scatter_tensor"),
    [PATTERN_SENDS] = COALESCED(2100, "ncclSend", BUSBW_ONE, "send"),
    [PATTERN_RECEIVES] = COALESCED(2101, "ncclRecv", BUSBW_ONE, "recv"),
    [PATTERN_GATHER_OF_BROADCASTS] = TOGETHER(2102, "ncclBroadcast (all-gather)", BUSBW_SHARE, "all_gather"),
    [PATTERN_SCATTER_OF_REDUCES] = TOGETHER(2103, "ncclReduce (reduce-scatter)", BUSBW_SHARE, "reduce_scatter"),
};

struct kind_properties {
    uint8_t call_class; /* enum call_class */
    uint8_t nonblocking;
};

static const struct kind_properties kinds[KIND_COUNT] = {
    [KIND_PLAIN] = {CLASS_OTHER, 0},
    [KIND_INIT] = {CLASS_SETUP, 0},
    [KIND_FINALIZE] = {CLASS_SETUP, 0},
    [KIND_SESSION_FINALIZE] = {CLASS_SETUP, 0},
    [KIND_ABORT] = {CLASS_SETUP, 0},
    [KIND_COLLECTIVE] = {CLASS_COLLECTIVE, 0},
    [KIND_ICOLLECTIVE] = {CLASS_COLLECTIVE, 1},
    [KIND_COLLECTIVE_INIT] = {CLASS_COLLECTIVE, 1},
    [KIND_SEND] = {CLASS_SEND, 0},
    [KIND_RECV] = {CLASS_RECV, 0},
    [KIND_SENDRECV] = {CLASS_SENDRECV, 0},
    [KIND_ISEND] = {CLASS_SEND, 1},
    [KIND_IRECV] = {CLASS_RECV, 1},
    [KIND_ISENDRECV] = {CLASS_SENDRECV, 1},
    [KIND_SEND_INIT] = {CLASS_SEND, 1},
    [KIND_RECV_INIT] = {CLASS_RECV, 1},
    [KIND_START] = {CLASS_START, 0},
    [KIND_STARTALL] = {CLASS_START, 0},
    [KIND_WAIT] = {CLASS_WAIT, 0},
    [KIND_WAITALL] = {CLASS_WAIT, 0},
    [KIND_WAITANY] = {CLASS_WAIT, 0},
    [KIND_WAITSOME] = {CLASS_WAIT, 0},
    [KIND_TEST] = {CLASS_TEST, 0},
    [KIND_TESTALL] = {CLASS_TEST, 0},
    [KIND_TESTANY] = {CLASS_TEST, 0},
    [KIND_TESTSOME] = {CLASS_TEST, 0},
    [KIND_POLL] = {CLASS_TEST, 0},
    [KIND_REQUEST_FREE] = {CLASS_OTHER, 0},
    [KIND_CANCEL] = {CLASS_OTHER, 0},
    [KIND_PROBE] = {CLASS_PROBE, 0},
    [KIND_IPROBE] = {CLASS_PROBE, 0},
    [KIND_MPROBE] = {CLASS_PROBE, 0},
    [KIND_IMPROBE] = {CLASS_PROBE, 0},
    [KIND_MRECV] = {CLASS_RECV, 0},
    [KIND_IMRECV] = {CLASS_RECV, 1},
    [KIND_COMM_CREATE] = {CLASS_COMMUNICATOR, 0},
    [KIND_COMM_CREATE_GROUP] = {CLASS_COMMUNICATOR, 0},
    [KIND_COMM_FROM_GROUP] = {CLASS_COMMUNICATOR, 0},
    [KIND_COMM_IDUP] = {CLASS_COMMUNICATOR, 1},
    [KIND_INTERCOMM_CREATE] = {CLASS_COMMUNICATOR, 0},
    [KIND_INTERCOMM_FROM_GROUPS] = {CLASS_COMMUNICATOR, 0},
    [KIND_COMM_FREE] = {CLASS_COMMUNICATOR, 0},
    [KIND_COMM_SET_NAME] = {CLASS_OTHER, 0},
    [KIND_COMM_GET_PARENT] = {CLASS_COMMUNICATOR, 0},
    [KIND_TYPE_FREE] = {CLASS_OTHER, 0},
    [KIND_WIN_CREATE] = {CLASS_RMA_SYNC, 0},
    [KIND_WIN_FREE] = {CLASS_RMA_SYNC, 0},
    [KIND_RMA] = {CLASS_RMA, 0},
    [KIND_RMA_REQUEST] = {CLASS_RMA, 1},
    [KIND_RMA_SYNC] = {CLASS_RMA_SYNC, 0},
    [KIND_WIN_TEST] = {CLASS_TEST, 0},
    [KIND_WIN_COLLECTIVE] = {CLASS_RMA_SYNC, 0},
    [KIND_FILE_OPEN] = {CLASS_FILE, 0},
    [KIND_FILE_CLOSE] = {CLASS_FILE, 0},
    [KIND_FILE_COLLECTIVE] = {CLASS_FILE, 0},
    [KIND_FILE_IO] = {CLASS_FILE, 0},
    [KIND_FILE_IO_REQUEST] = {CLASS_FILE, 1},
    [KIND_NCCL_PLAIN] = {CLASS_OTHER, 0},
    [KIND_NCCL_WINDOW] = {CLASS_OTHER, 0},
    [KIND_NCCL_WINDOW_GONE] = {CLASS_OTHER, 0},
    [KIND_NCCL_UNIQUE_ID] = {CLASS_SETUP, 0},
    [KIND_NCCL_COLLECTIVE] = {CLASS_COLLECTIVE, 1},
    [KIND_NCCL_SEND] = {CLASS_SEND, 1},
    [KIND_NCCL_RECV] = {CLASS_RECV, 1},
    [KIND_NCCL_RMA] = {CLASS_RMA, 1},
    [KIND_NCCL_GROUP_START] = {CLASS_OTHER, 0},
    [KIND_NCCL_GROUP_END] = {CLASS_GROUP, 0},
    [KIND_NCCL_GROUP_SIMULATE] = {CLASS_OTHER, 0},
    [KIND_NCCL_INIT_RANK] = {CLASS_COMMUNICATOR, 0},
    [KIND_NCCL_INIT_ALL] = {CLASS_COMMUNICATOR, 0},
    [KIND_NCCL_SPLIT] = {CLASS_COMMUNICATOR, 0},
    [KIND_NCCL_SHRINK] = {CLASS_COMMUNICATOR, 0},
    [KIND_NCCL_GROW] = {CLASS_COMMUNICATOR, 0},
    [KIND_NCCL_DESTROY] = {CLASS_COMMUNICATOR, 0},
    [KIND_NCCL_ABORT] = {CLASS_COMMUNICATOR, 0},
    [KIND_NCCL_REVOKE] = {CLASS_COMMUNICATOR, 0},
    [KIND_NCCL_ASYNC_ERROR] = {CLASS_TEST, 0},
};

enum call_class commtap_call_class(const struct call *call) {
    return kinds[call->kind].call_class;
}

int commtap_call_nonblocking(const struct call *call) {
    return kinds[call->kind].nonblocking;
}
