/* SPDX-License-Identifier: Apache-2.0
 *
 * A job played step by step.
 * Lives here: what each step makes the ranks record.
 * Must not live here: damage (faults.c).
 */
#include "test/fuzz/job.h"

#include <stdlib.h>

#include "test/fuzz/faults.h"
#include "test/fuzz/staged.h"

/* RECORDS_MAX bounds what one input costs; a ring may still be overwritten many times. */
enum {
    COMMUNICATORS = 16,
    TAGS = 4,
    OPEN_MAX = 2048,
    ROWS_MAX = 24,
    RECORDS_MAX = 12000,
    DEVICE_LANE = JOB_LANES_MAX,
    LANES = JOB_LANES_MAX + 1,
    STACKS = 4,
    TEXT_MAX = 9
};

struct communicator {
    uint8_t members; /* a bit per world rank */
    bool freed;
};

struct rank {
    struct dump_builder *builder;
    uint64_t now[LANES];
    uint32_t op;
    uint32_t number[COMMUNICATORS]; /* of the next collective */
    uint64_t hash[COMMUNICATORS];
    struct progress *progress[COMMUNICATORS];
    int32_t index[COMMUNICATORS]; /* local, -1 = no member */
    uint32_t sent[JOB_RANKS_MAX][TAGS], received[JOB_RANKS_MAX][TAGS];
    struct record *open; /* posted, not complete: a ring of OPEN_MAX */
    size_t open_first, open_count;
    uint32_t operations, sites, peers, in_flight, pending, windows, devices, sensors, transfers, anchors;
    size_t definition_bytes;
    bool dropped;
    size_t bytes; /* of the file, as cut */
};

struct job {
    struct rank ranks[JOB_RANKS_MAX];
    unsigned count, lanes;
    struct communicator communicators[COMMUNICATORS];
    unsigned communicator_count;
    unsigned records;
    bool compact; /* rings are of pages, but for the device's */
    struct played *played;
};

#define CALLS(X)                                                                                                       \
    X(COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE, 0, "MPI_Allreduce")                                                       \
    X(COLLECTIVE, FLOW_ALL, BUSBW_NONE, 0, "MPI_Barrier")                                                              \
    X(COLLECTIVE, FLOW_FROM_ROOT, BUSBW_ONE, 0, "MPI_Bcast")                                                           \
    X(COLLECTIVE, FLOW_TO_ROOT, BUSBW_ONE, 0, "MPI_Reduce")                                                            \
    X(COLLECTIVE, FLOW_PREFIX, BUSBW_ONE, 0, "MPI_Scan")                                                               \
    X(COLLECTIVE, FLOW_NEIGHBOURS, BUSBW_ONE, 0, "MPI_Neighbor_alltoall")                                              \
    X(COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE, 1, "MPI_Iallreduce")                                                      \
    X(COLLECTIVE, FLOW_ALL, BUSBW_NONE, 1, "MPI_Ibarrier")                                                             \
    X(COMMUNICATOR, FLOW_ALL, BUSBW_NONE, 0, "MPI_Comm_dup")                                                           \
    X(COMMUNICATOR, FLOW_ALL, BUSBW_NONE, 0, "MPI_Comm_free")                                                          \
    X(FILE, FLOW_ALL, BUSBW_NONE, 0, "MPI_File_write_all")                                                             \
    X(RMA_SYNC, FLOW_ALL, BUSBW_NONE, 0, "MPI_Win_fence")                                                              \
    X(SEND, FLOW_NONE, BUSBW_ONE, 0, "MPI_Send")                                                                       \
    X(SEND, FLOW_NONE, BUSBW_ONE, 0, "MPI_Ssend")                                                                      \
    X(SEND, FLOW_NONE, BUSBW_ONE, 1, "MPI_Isend")                                                                      \
    X(SEND, FLOW_NONE, BUSBW_ONE, 1, "MPI_Ibsend")                                                                     \
    X(RECV, FLOW_NONE, BUSBW_ONE, 0, "MPI_Recv")                                                                       \
    X(RECV, FLOW_NONE, BUSBW_ONE, 1, "MPI_Irecv")                                                                      \
    X(SENDRECV, FLOW_NONE, BUSBW_ONE, 0, "MPI_Sendrecv")                                                               \
    X(WAIT, FLOW_NONE, BUSBW_NONE, 0, "MPI_Wait")                                                                      \
    X(WAIT, FLOW_NONE, BUSBW_NONE, 0, "MPI_Waitall")                                                                   \
    X(WAIT, FLOW_NONE, BUSBW_NONE, 0, "MPI_Waitany")                                                                   \
    X(TEST, FLOW_NONE, BUSBW_NONE, 0, "MPI_Test")                                                                      \
    X(PROBE, FLOW_NONE, BUSBW_NONE, 0, "MPI_Probe")                                                                    \
    X(START, FLOW_NONE, BUSBW_NONE, 0, "MPI_Startall")                                                                 \
    X(RMA, FLOW_NONE, BUSBW_ONE, 0, "MPI_Put")                                                                         \
    X(SETUP, FLOW_NONE, BUSBW_NONE, 0, "MPI_Init")                                                                     \
    X(SETUP, FLOW_NONE, BUSBW_NONE, 0, "MPI_Finalize")                                                                 \
    X(SETUP, FLOW_NONE, BUSBW_NONE, 0, "MPI_Abort")                                                                    \
    X(OTHER, FLOW_NONE, BUSBW_NONE, 0, "MPI_Pcontrol")                                                                 \
    X(COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE, 1, "ncclAllReduce")                                                       \
    X(COLLECTIVE, FLOW_ALL, BUSBW_SHARE, 1, "ncclAllGather")                                                           \
    X(COLLECTIVE, FLOW_FROM_ROOT, BUSBW_ONE, 1, "ncclBroadcast")                                                       \
    X(SEND, FLOW_NONE, BUSBW_ONE, 1, "ncclSend")                                                                       \
    X(RECV, FLOW_NONE, BUSBW_ONE, 1, "ncclRecv")                                                                       \
    X(GROUP, FLOW_NONE, BUSBW_NONE, 1, "ncclGroupEnd")

static const struct {
    uint8_t call_class, flow, busbw, nonblocking;
    const char *name;
} calls[] = {
#define CALL(CLASS, FLOW, BUSBW, NONBLOCKING, NAME) {CLASS_##CLASS, FLOW, BUSBW, NONBLOCKING, NAME},
    CALLS(CALL)
#undef CALL
};
enum { CALL_COUNT = sizeof calls / sizeof *calls, FIRST_CALL = 10 };

/* The `number`-th call of a class, modulo how many there are; its id. NCCL's come behind MPI's. */
static uint16_t call_of(enum call_class class, unsigned number) {
    unsigned having = 0;
    for (unsigned i = 0; i < CALL_COUNT; i++)
        having += calls[i].call_class == class;
    number %= having;
    for (unsigned i = 0; i < CALL_COUNT; i++)
        if (calls[i].call_class == class && number-- == 0)
            return (uint16_t)(FIRST_CALL + i);
    return FIRST_CALL;
}

static bool is_nccl(uint16_t call) {
    return calls[call - FIRST_CALL].name[0] == 'n';
}

static bool takes_part(const struct fuzz_step *step, unsigned rank) {
    return step->who >> rank & 1;
}

/* Sizes that tables tell apart, and those at the ends of what fits. */
static uint64_t size_of(uint16_t code) {
    return code & 0x8000 ? code == 0xffff ? BYTES_UNKNOWN : UINT64_C(1) << (code & 63) : code & 0xfff;
}

static uint64_t delay_of(const struct fuzz_step *step, unsigned rank) {
    static const uint64_t units[] = {1, 100, 10000, 1000000};
    return (step->value >> 8 * rank & 0xff) * units[step->what >> 6];
}

/* ---- records and rows -------------------------------------------------------------------------------------------- */

static uint32_t row_comm(const struct record *record) {
    return record->comm < ROW_COMM_NONE ? record->comm : ROW_COMM_NONE;
}

static void count_site(struct rank *rank, uint32_t lane, const struct record *record) {
    struct site_row *rows = dump_builder_contents(rank->builder, SECTION_SITES, lane), *row = NULL;
    for (uint32_t i = 0; i < ROWS_MAX && rows[i].version != 0; i++)
        if (rows[i].call == record->call && rows[i].stack == record->stack && rows[i].comm_epoch == row_comm(record))
            row = &rows[i];
    if (!row && rank->sites < ROWS_MAX) {
        row = dump_builder_site(rank->builder, lane);
        rank->sites++;
        row->call = record->call;
        row->stack = record->stack;
        row->comm_epoch = row_comm(record);
    }
    if (!row)
        return;
    row->count++;
    row->bytes_total += record->bytes;
    row->time_total += record->t1 - record->t0;
}

static void count_peer(struct rank *rank, uint32_t lane, const struct record *record) {
    struct peer_row *rows = dump_builder_contents(rank->builder, SECTION_PEERS, lane), *row = NULL;
    uint16_t direction = record->flags & (FLAG_SEND | FLAG_RECV);
    if (direction == 0 || record->peer < 0)
        return;
    for (uint32_t i = 0; i < ROWS_MAX && rows[i].version != 0; i++)
        if (rows[i].call == record->call && rows[i].peer == record->peer && rows[i].comm_epoch == row_comm(record))
            row = &rows[i];
    if (!row && rank->peers < ROWS_MAX) {
        row = dump_builder_peer(rank->builder, lane);
        rank->peers++;
        row->call = record->call;
        row->peer = record->peer;
        row->direction = direction;
        row->comm_epoch = row_comm(record);
    }
    if (!row)
        return;
    row->count++;
    row->bytes_total += record->bytes;
    row->time_total += record->t1 - record->t0;
}

static void count_operation(struct rank *rank, uint32_t lane, const struct record *record, enum source source) {
    struct operation_row *rows = dump_builder_contents(rank->builder, SECTION_OPERATIONS, lane), *row = NULL;
    for (uint32_t i = 0; i < ROWS_MAX && rows[i].version != 0; i++)
        if (rows[i].call == record->call && rows[i].bytes == record->bytes && rows[i].source == source &&
            rows[i].comm_epoch == row_comm(record))
            row = &rows[i];
    if (!row && rank->operations < ROWS_MAX) {
        row = dump_builder_operation(rank->builder, lane);
        rank->operations++;
        row->call = record->call;
        row->bytes = record->bytes;
        row->source = (uint8_t)source;
        row->comm_epoch = row_comm(record);
    }
    if (!row)
        return;
    dump_builder_count(row, record->bytes == BYTES_UNKNOWN ? 0 : record->bytes, record->t1 - record->t0);
    row->failed += (record->flags & FLAG_FAILED) != 0;
}

static void put(struct job *job, struct rank *rank, uint32_t lane, const struct record *record) {
    if (job->records >= RECORDS_MAX)
        return;
    job->records++;
    dump_builder_record(rank->builder, lane, record);
    if (record->kind == RECORD_CALL || record->kind == RECORD_DONE) {
        count_operation(rank, lane, record, SOURCE_HOST);
        count_site(rank, lane, record);
        count_peer(rank, lane, record);
    } else if (record->kind == RECORD_GPU) {
        count_operation(rank, lane, record, SOURCE_GPU_EVENT);
    }
}

static struct record call_record(struct rank *rank, uint16_t call, uint32_t comm, uint64_t enter, uint64_t leave) {
    return (struct record){.kind = RECORD_CALL,
                           .call = call,
                           .comm = comm,
                           .seq = SEQ_NONE,
                           .op = ++rank->op,
                           .t0 = enter,
                           .t1 = leave,
                           .peer = PEER_NONE,
                           .tag = TAG_NONE,
                           .stack = rank->op % (STACKS + 1)};
}

static void keep_open(struct rank *rank, const struct record *record) {
    if (rank->open_count < OPEN_MAX)
        rank->open[(rank->open_first + rank->open_count++) % OPEN_MAX] = *record;
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

static void note_progress(struct rank *rank, unsigned comm, const struct record *record) {
    struct progress *progress = rank->progress[comm];
    if (!progress)
        return;
    uint64_t k = ++progress->hashed;
    rank->hash[comm] = (rank->hash[comm] ^ record->call) * UINT64_C(0x100000001b3) + record->bytes;
    progress->prefix_hash = progress->recent[k % PROGRESS_RECENT] = rank->hash[comm];
    if (k % PROGRESS_EVERY == 0)
        progress->every[k / PROGRESS_EVERY % PROGRESS_EVERY] = rank->hash[comm];
    if ((k & (k - 1)) == 0)
        progress->powers[__builtin_ctzll(k) % PROGRESS_POWERS] = rank->hash[comm];
    progress->enqueued = progress->started = rank->number[comm];
    progress->completed = record->kind == RECORD_CALL ? rank->number[comm] : progress->completed;
    progress->last_call = record->call;
    progress->last_enter = record->t0;
}

static void record_gpu(struct job *job, struct rank *rank, const struct fuzz_step *step, const struct record *post,
                       uint64_t start, uint64_t end) {
    struct record record = *post;
    record.kind = step->where & 0x80 ? RECORD_KERNEL : RECORD_GPU;
    record.t0 = start;
    record.t1 = end;
    record.tag = 0;
    record.flags |= (step->where & 0xc0) == 0xc0 ? FLAG_CAPTURED : 0;
    put(job, rank, DEVICE_LANE, &record);
    if (step->where & 0x40) {
        record.kind = RECORD_EXPOSED;
        record.comm = COMM_NONE;
        record.t1 = end + 5;
        put(job, rank, DEVICE_LANE, &record);
    }
}

static void one_collective(struct job *job, const struct fuzz_step *step, unsigned comm, uint16_t call) {
    uint8_t who = step->who & job->communicators[comm].members;
    uint32_t lane = (step->where >> 4 & 3) % job->lanes;
    uint64_t last = 0;
    for (unsigned r = 0; r < job->count; r++)
        if (who >> r & 1 && job->ranks[r].now[lane] + delay_of(step, r) > last)
            last = job->ranks[r].now[lane] + delay_of(step, r);
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (!(who >> r & 1) || rank->index[comm] < 0)
            continue;
        uint64_t enter = rank->now[lane] + delay_of(step, r);
        bool nonblocking = calls[call - FIRST_CALL].nonblocking;
        struct record record = call_record(rank, call, (uint32_t)rank->index[comm], enter, last + 50);
        bool refused = step->x >> 8 == 0x80u + r; /* the library returned an error: the call takes no number */
        record.seq = refused ? SEQ_NONE : rank->number[comm]++;
        record.bytes = size_of(step->y);
        record.flags = refused ? FLAG_FAILED : FLAG_COLLECTIVE;
        record.peer = calls[call - FIRST_CALL].flow == FLOW_FROM_ROOT ? (int32_t)(step->what >> 4 & 3) : PEER_NONE;
        record.dtype = DATATYPE_FLOAT;
        if (nonblocking) {
            record.kind = RECORD_POST;
            record.t1 = enter + 2;
        }
        put(job, rank, lane, &record);
        note_progress(rank, comm, &record);
        rank->now[lane] = record.t1;
        if (nonblocking && is_nccl(call))
            record_gpu(job, rank, step, &record, enter + 5, last + 50);
        else if (nonblocking)
            keep_open(rank, &record);
    }
}

static void step_collective(struct job *job, const struct fuzz_step *step) {
    unsigned comm = (step->where & 0xf) % job->communicator_count;
    static const uint8_t classes[] = {CLASS_COLLECTIVE,   CLASS_COLLECTIVE, CLASS_COLLECTIVE,
                                      CLASS_COMMUNICATOR, CLASS_FILE,       CLASS_RMA_SYNC};
    unsigned class = step->what & 0xf;
    uint16_t call = call_of(class < 11 ? CLASS_COLLECTIVE : classes[class - 10], class);
    for (unsigned i = 0; i < 1u + (step->x & 0xff); i++)
        one_collective(job, step, comm, call);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

enum { MESSAGE_NO_SEND = 1, MESSAGE_NO_RECV = 2, MESSAGE_ANY_SOURCE = 4, MESSAGE_ANY_TAG = 8, MESSAGE_SWAPPED = 16 };

static void one_side(struct job *job, const struct fuzz_step *step, unsigned own, unsigned other, bool send) {
    struct rank *rank = &job->ranks[own];
    uint32_t lane = (step->where >> (send ? 0 : 2) & 3) % job->lanes;
    unsigned tag = step->what >> 6;
    unsigned form = step->where >> (send ? 4 : 6) & 3;
    uint16_t call = call_of(send ? CLASS_SEND : CLASS_RECV, form);
    uint64_t enter = rank->now[lane] + (step->value >> (send ? 0 : 16) & 0xffff);
    uint64_t leave = enter + (step->value >> 32 & 0xffff);
    struct record record = call_record(rank, call, (uint32_t)rank->index[0], enter, leave);
    record.peer = (int32_t)other;
    record.tag = (int32_t)tag;
    record.bytes = size_of(step->y);
    record.flags = send ? FLAG_SEND : FLAG_RECV;
    record.seq = send ? rank->sent[other][tag]++ : rank->received[other][tag]++;
    if (send && form == 1)
        record.flags |= FLAG_SYNCHRONOUS;
    if (!send && step->what & (MESSAGE_ANY_SOURCE | MESSAGE_ANY_TAG))
        record.flags |= FLAG_WILDCARD | FLAG_ORDINAL_UNKNOWN;
    if (calls[call - FIRST_CALL].nonblocking) {
        record.kind = RECORD_POST;
        record.t1 = enter + 1;
        struct record done = record;
        if (!send && step->what & MESSAGE_ANY_SOURCE)
            record.peer = PEER_ANY;
        if (!send && step->what & MESSAGE_ANY_TAG)
            record.tag = TAG_ANY;
        put(job, rank, lane, &record);
        keep_open(rank, &done);
    } else {
        put(job, rank, lane, &record);
    }
    rank->now[lane] = record.t1;
}

static void step_message(struct job *job, const struct fuzz_step *step) {
    unsigned source = (step->who & 7) % job->count, target = (step->who >> 3 & 7) % job->count;
    unsigned many = 1 + (step->x & 0x3ff) * (step->x >> 15 ? 1 : 0) + (step->x & 7);
    for (unsigned i = 0; i < many; i++) {
        if (step->what & MESSAGE_SWAPPED && !(step->what & MESSAGE_NO_RECV))
            one_side(job, step, target, source, false);
        if (!(step->what & MESSAGE_NO_SEND))
            one_side(job, step, source, target, true);
        if (!(step->what & (MESSAGE_SWAPPED | MESSAGE_NO_RECV)))
            one_side(job, step, target, source, false);
    }
}

static void step_sendrecv(struct job *job, const struct fuzz_step *step) {
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (!takes_part(step, r))
            continue;
        uint32_t lane = (step->where & 3) % job->lanes;
        unsigned to = (r + 1 + (step->what & 3)) % job->count,
                 from = (r + 2 * job->count - 1 - (step->what & 3)) % job->count;
        struct record record = call_record(rank, call_of(CLASS_SENDRECV, 0), (uint32_t)rank->index[0], rank->now[lane],
                                           rank->now[lane] + 1 + delay_of(step, r));
        record.peer = (int32_t)to;
        record.tag = 0;
        record.bytes = size_of(step->y);
        record.flags = FLAG_SEND;
        record.seq = rank->sent[to][0]++;
        put(job, rank, lane, &record);
        if (step->what & 4)
            continue;
        record.peer = (int32_t)from;
        record.flags = FLAG_RECV | FLAG_RECEIVE_HALF;
        record.seq = rank->received[from][0]++;
        put(job, rank, lane, &record);
        rank->now[lane] = record.t1;
    }
}

/* Operations that were posted complete: the oldest first, the newest first, or one and leave one. */
static void step_complete(struct job *job, const struct fuzz_step *step) {
    static const enum call_class seen_by[] = {CLASS_WAIT, CLASS_TEST};
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (!takes_part(step, r))
            continue;
        uint32_t lane = (step->where & 3) % job->lanes;
        uint64_t enter = rank->now[lane], leave = enter + 1 + delay_of(step, r);
        size_t many = 1 + step->x % OPEN_MAX;
        for (size_t i = 0; i < many && rank->open_count > 0; i++) {
            size_t newest = (rank->open_first + rank->open_count - 1) % OPEN_MAX;
            bool last_first = step->what & 1;
            struct record record = rank->open[last_first ? newest : rank->open_first];
            rank->open_count--;
            rank->open_first = (rank->open_first + !last_first) % OPEN_MAX;
            if (step->what & 2 && i % 2)
                continue;
            record.kind = RECORD_DONE;
            record.t1 = leave;
            record.flags |= step->what & 4 ? FLAG_UNOBSERVED : 0;
            record.flags |= step->what & 8 ? FLAG_CANCELLED : 0;
            put(job, rank, lane, &record);
        }
        struct record wait =
            call_record(rank, call_of(seen_by[step->what >> 4 & 1], step->what >> 5), COMM_NONE, enter, leave);
        put(job, rank, lane, &wait);
        rank->now[lane] = leave;
    }
}

/* ---- other records ----------------------------------------------------------------------------------------------- */

static void step_plain(struct job *job, const struct fuzz_step *step) {
    static const uint8_t classes[] = {CLASS_WAIT, CLASS_TEST,  CLASS_PROBE, CLASS_START,
                                      CLASS_RMA,  CLASS_SETUP, CLASS_OTHER, CLASS_SETUP};
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (!takes_part(step, r))
            continue;
        uint32_t lane = (step->where & 3) % job->lanes;
        for (unsigned i = 0; i < 1u + (step->x & 0x1f); i++) {
            uint64_t leave = rank->now[lane] + 1 + delay_of(step, r);
            struct record record = call_record(rank, call_of(classes[step->what & 7], step->what >> 3 & 3), COMM_NONE,
                                               rank->now[lane], leave);
            record.flags = step->what & 0x20 ? FLAG_FAILED : 0;
            put(job, rank, lane, &record);
            rank->now[lane] = leave;
        }
    }
}

/* Marks, threads that take over a ring, device memory, network operations of the proxy: each a record of its own. */
static void step_special(struct job *job, const struct fuzz_step *step) {
    static const uint8_t kinds[] = {RECORD_MARK,  RECORD_THREAD,  RECORD_MEMORY, RECORD_PROXY,
                                    RECORD_GROUP, RECORD_EXPOSED, RECORD_REPLAY};
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (!takes_part(step, r))
            continue;
        uint8_t kind = kinds[step->what % sizeof kinds];
        bool device = kind == RECORD_MEMORY || kind == RECORD_PROXY || kind == RECORD_EXPOSED || kind == RECORD_REPLAY;
        uint32_t lane = device ? DEVICE_LANE : (step->where & 3) % job->lanes;
        struct record record =
            call_record(rank, call_of(CLASS_COLLECTIVE, step->y), COMM_NONE, rank->now[0], rank->now[0]);
        record.kind = kind;
        record.op = kind == RECORD_THREAD ? 2000u + (step->x & 7) : rank->op - (step->x & 3);
        record.tag = kind == RECORD_MARK ? 99 + (step->x & 3) : (int32_t)(step->x & 3);
        record.bytes = size_of(step->y);
        record.peer = (int32_t)(step->where >> 4 & 7);
        record.comm = step->where & 8 ? (uint32_t)rank->index[0] : COMM_NONE;
        record.t1 += kind == RECORD_MARK ? 0 : delay_of(step, r);
        record.seq = kind == RECORD_REPLAY ? step->value & 7 : record.seq;
        if (kind == RECORD_GROUP)
            record.call = call_of(CLASS_GROUP, 0);
        put(job, rank, lane, &record);
    }
}

static void step_time(struct job *job, const struct fuzz_step *step) {
    for (unsigned r = 0; r < job->count; r++)
        for (unsigned lane = 0; lane < LANES && takes_part(step, r); lane++)
            job->ranks[r].now[lane] += step->what & 1 ? step->value : delay_of(step, r) + step->x * UINT64_C(1000);
}

/* One of the ring's pages becomes a window's block: only the window is the block's own. */
static void keep_page(struct rank *rank, uint32_t lane, struct trace_window_block *block,
                      const struct fuzz_step *step) {
    const struct section *ring = dump_builder_section(rank->builder, SECTION_RING_PAGES, lane);
    const struct ring_page *pages = dump_builder_contents(rank->builder, SECTION_RING_PAGES, lane);
    uint64_t window = block->window;
    memcpy(block, &pages[step->x % ring->count], sizeof *block);
    block->window = window;
    block->lane = lane;
}

static void step_window(struct job *job, const struct fuzz_step *step) {
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (!takes_part(step, r) || rank->windows == 4)
            continue;
        uint32_t lane = (step->where & 3) % job->lanes;
        struct trace_window_block *block = dump_builder_window(rank->builder, lane, step->y);
        rank->windows++;
        if (job->compact) {
            keep_page(rank, lane, block, step);
            continue;
        }
        struct section *ring = dump_builder_section(rank->builder, SECTION_RING, lane);
        const struct record *records = dump_builder_contents(rank->builder, SECTION_RING, lane);
        for (uint32_t i = 0; i < 1u + step->x % TRACE_WINDOW_RECORDS; i++)
            block->records[block->used++] = records[(step->x + i) % ring->count];
    }
}

/* ---- definitions ------------------------------------------------------------------------------------------------- */

/* What is left of a rank's definitions; a step that finds no room does nothing. */
static bool take_room(struct rank *rank, size_t bytes) {
    rank->definition_bytes += bytes;
    return rank->definition_bytes < SECTION_ALIGN - 1024;
}

static void text_of(uint64_t value, char text[TEXT_MAX]) {
    memcpy(text, &value, sizeof value);
    text[sizeof value] = '\0';
}

static uint32_t runs_of(uint8_t members, struct member_run *runs) {
    uint32_t count = 0;
    for (int32_t r = 0; r < JOB_RANKS_MAX; r++) {
        if (!(members >> r & 1))
            continue;
        if (count > 0 && runs[count - 1].start + (int32_t)runs[count - 1].count == r)
            runs[count - 1].count++;
        else
            runs[count++] = (struct member_run){r, 1, 1};
    }
    return count;
}

/* Up to four, of which some may be no members; or nobody knows. */
static void define_neighbours(const struct rank *rank, unsigned comm, const struct fuzz_step *step) {
    const int32_t sources[] = {(int32_t)(step->value & 7), (int32_t)(step->value >> 3 & 3),
                               (int32_t)(step->value >> 5 & 3), (int32_t)(step->value >> 7 & 3)};
    dump_builder_neighbours(rank->builder, (uint32_t)rank->index[comm], step->y >> 9 & 3, step->y & 16 ? NULL : sources,
                            step->y >> 5 & 3);
}

static void define(struct job *job, unsigned r, unsigned comm, const struct fuzz_step *step) {
    struct rank *rank = &job->ranks[r];
    struct member_run runs[JOB_RANKS_MAX];
    uint8_t members = job->communicators[comm].members;
    uint32_t count = runs_of(members, runs);
    int32_t place = __builtin_popcount(members & ((1u << r) - 1));
    char name[TEXT_MAX];
    text_of(step->value, name);
    if (!takes_part(step, r) || !take_room(rank, 384))
        return;
    uint64_t uid = step->x | (uint64_t)comm << 32;
    if (step->what & 1) {
        const struct member_run own = runs[0], remote = runs[count - 1];
        rank->index[comm] = (int32_t)dump_builder_intercommunicator(rank->builder, uid, 0, &own, &remote);
    } else {
        rank->index[comm] = (int32_t)dump_builder_communicator(rank->builder, uid, step->what & 2 ? name : "", place,
                                                               runs, step->what & 4 ? 0 : count);
    }
    struct communicator_definition *definition = dump_builder_definition(rank->builder, (uint32_t)rank->index[comm]);
    if (step->what & 4)
        definition->size = (uint32_t)__builtin_popcount(members);
    if (step->what & 8)
        definition->kind = step->what & 16 ? COMMUNICATOR_WINDOW : COMMUNICATOR_FILE;
    definition->flags = step->y & 7;
    if (step->y & 8)
        define_neighbours(rank, comm, step);
    rank->progress[comm] = dump_builder_progress(rank->builder, (uint32_t)rank->index[comm]);
    rank->hash[comm] = uid;
}

static void step_communicator(struct job *job, const struct fuzz_step *step) {
    uint8_t members = step->where & ((1u << job->count) - 1);
    if (job->communicator_count == COMMUNICATORS || members == 0)
        return;
    unsigned comm = job->communicator_count++;
    job->communicators[comm].members = members;
    for (unsigned r = 0; r < job->count; r++)
        if (members >> r & 1)
            define(job, r, comm, step);
}

static void step_free(struct job *job, const struct fuzz_step *step) {
    unsigned comm = step->where % job->communicator_count;
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (takes_part(step, r) && rank->index[comm] >= 0 && take_room(rank, 64))
            dump_builder_freed(rank->builder, (uint32_t)rank->index[comm], rank->now[0], rank->number[comm]);
    }
}

static void step_definition(struct job *job, const struct fuzz_step *step) {
    char text[TEXT_MAX];
    text_of(step->value, text);
    for (unsigned r = 0; r < job->count; r++) {
        struct dump_builder *builder = job->ranks[r].builder;
        if (!takes_part(step, r) || !take_room(&job->ranks[r], 256))
            continue;
        const uint64_t entries[] = {step->value,
                                    step->y,
                                    STACK_ENTRY_PYTHON | (uint64_t)step->y << 32 | step->x,
                                    STACK_ENTRY_LABEL | step->y,
                                    STACK_ENTRY_CUT,
                                    step->value ^ step->x};
        switch (step->what & 7) {
        case 0:
            dump_builder_stack(builder, step->x & 15, entries, step->what >> 3 & 7 ? 1 + (step->what >> 3) % 6 : 6);
            break;
        case 1:
            dump_builder_code(builder, step->x & 15, text, text);
            break;
        case 2:
            dump_builder_string(builder, step->x & 15, text);
            break;
        case 3:
            dump_builder_module(builder, "/nowhere/lib.so", text, step->x & 7, step->value, step->y);
            break;
        case 4:
            dump_builder_module_gone(builder, step->value);
            break;
        case 5:
            dump_builder_epoch(builder, step->x & 15, step->value);
            break;
        case 6:
            dump_builder_name(builder, step->x & 15, text);
            break;
        default:
            dump_builder_define(builder, step->x, 16 + (step->y & 0xff));
        }
    }
}

/* ---- state beside the records ------------------------------------------------------------------------------------ */

/* A thread is inside a call that has no end yet: in a collective, a message, a wait, or nothing. */
static void step_stuck(struct job *job, const struct fuzz_step *step) {
    static const uint8_t classes[] = {CLASS_COLLECTIVE, CLASS_RECV,  CLASS_SEND,  CLASS_WAIT,
                                      CLASS_SENDRECV,   CLASS_PROBE, CLASS_SETUP, CLASS_GROUP};
    unsigned comm = (step->where & 0xf) % job->communicator_count;
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (!takes_part(step, r) || rank->in_flight == 8 || rank->index[comm] < 0)
            continue;
        struct in_flight *slot = dump_builder_in_flight(rank->builder);
        rank->in_flight++;
        uint16_t call = call_of(classes[step->what & 7], step->what >> 3);
        slot->call = step->x & 1 ? 0 : call;
        slot->enter = rank->now[0];
        slot->last_leave = rank->now[0];
        slot->bytes = size_of(step->y);
        slot->comm = (uint32_t)rank->index[comm];
        slot->seq = rank->number[comm];
        slot->stack = 1 + r % STACKS;
        slot->op = (uint32_t)(step->value & 0xffff);
        slot->peer = step->value >> 16 & 8 ? PEER_ANY : (int32_t)((r + (step->value >> 16 & 7)) % job->count);
        slot->tag = (int32_t)(step->value >> 24 & 0xf);
        slot->flags = (uint32_t)(step->value >> 32 & 0xffff);
        if ((step->what & 7) == 0) {
            slot->flags |= FLAG_COLLECTIVE;
            if (rank->progress[comm])
                rank->progress[comm]->enqueued = rank->number[comm] + 1;
        }
    }
}

/* What is open goes to the table of pending operations. */
static void step_pending(struct job *job, const struct fuzz_step *step) {
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        for (size_t i = 0; takes_part(step, r) && i < rank->open_count && rank->pending < 64; i++) {
            const struct record *record = &rank->open[(rank->open_first + i) % OPEN_MAX];
            struct pending *row = dump_builder_pending(rank->builder);
            rank->pending++;
            *row = (struct pending){.request = row->request,
                                    .t0 = record->t0,
                                    .bytes = record->bytes,
                                    .seq = record->seq,
                                    .op = record->op,
                                    .comm = record->comm,
                                    .peer = record->peer,
                                    .tag = record->tag,
                                    .call = record->call,
                                    .flags = record->flags,
                                    .tid = 1000,
                                    .persistent = step->what & 1,
                                    .active = step->what >> 1 & 1};
        }
    }
}

static void step_state(struct job *job, const struct fuzz_step *step) {
    static const uint32_t states[] = {STATE_FINALISED,    STATE_FINALISED | STATE_EXITED,
                                      STATE_EXITED,       STATE_FINALISING,
                                      STATE_ABORTING,     STATE_COPIED,
                                      STATE_SWITCHED_OFF, STATE_THREAD_MULTIPLE};
    for (unsigned r = 0; r < job->count; r++) {
        struct dump_header *header = dump_builder_header(job->ranks[r].builder);
        if (!takes_part(step, r))
            continue;
        header->state |= states[step->what & 7];
        if (step->what & 8)
            header->finalise_ticks = header->exited_ticks = job->ranks[r].now[0];
        if (step->what & 16)
            header->gpu_timing = step->x & 7;
        if (step->what & 32)
            ((uint64_t *)&header->losses)[step->y % (sizeof header->losses / 8)] = step->value;
    }
}

static void step_identity(struct job *job, const struct fuzz_step *step) {
    for (unsigned r = 0; r < job->count; r++) {
        struct dump_header *header = dump_builder_header(job->ranks[r].builder);
        if (!takes_part(step, r))
            continue;
        switch (step->what & 7) {
        case 0:
            job->ranks[r].dropped = true;
            break;
        case 1:
            header->rank = (int32_t)(step->x & 15) - 1;
            break;
        case 2:
            header->world_size = step->x & 0x8000 ? (int32_t)step->value : (int32_t)(step->x & 31);
            break;
        case 3:
            header->generation = step->x & 3;
            break;
        case 4:
            header->run_id[0] = (char)step->x;
            break;
        case 5:
            header->boot_id[0] = (char)step->x;
            header->time_namespace += step->y & 3;
            header->host[0] = (char)step->x;
            break;
        case 6:
            header->world_id = step->x;
            break;
        default:
            memcpy(header->command + (step->x & 15), &step->value, sizeof step->value);
        }
    }
}

static void step_anchor(struct job *job, const struct fuzz_step *step) {
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (!takes_part(step, r) || rank->anchors == 32)
            continue;
        rank->anchors++;
        uint64_t rate = 90 + (step->what & 31), at = rank->now[0];
        dump_builder_anchor(rank->builder, at, at / 100 * rate + step->x, at / 100 * rate + step->value,
                            step->y & 0xff);
    }
}

static void step_device(struct job *job, const struct fuzz_step *step) {
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (!takes_part(step, r))
            continue;
        if ((step->what & 3) == 0 && rank->devices < 2) {
            dump_builder_device(rank->builder, step->value, step->x);
            rank->devices++;
        } else if ((step->what & 3) == 1 && rank->sensors < 8) {
            struct sensor_row *rows = dump_builder_contents(rank->builder, SECTION_SENSORS, 0);
            rows[rank->sensors++] = (struct sensor_row){.call = FIRST_CALL + step->x % CALL_COUNT,
                                                        .wrapped = step->y,
                                                        .plugged = step->value,
                                                        .captured = step->y};
        } else if ((step->what & 3) > 1 && rank->transfers < 8) {
            struct transfer_row *rows = dump_builder_contents(rank->builder, SECTION_TRANSFERS, 0);
            rows[rank->transfers++] = (struct transfer_row){.version = 2,
                                                            .comm = step->what & 4 ? COMM_NONE : step->where & 3u,
                                                            .peer = (int32_t)(step->x & 7),
                                                            .sends = step->x >> 3 & 1,
                                                            .channels = step->x >> 4 & 3,
                                                            .operations = 1 + (step->y & 0xff),
                                                            .steps = step->y,
                                                            .bytes = step->value >> 16,
                                                            .wait_gpu = step->value & 0xffff,
                                                            .wait_wire = step->value & 0xff,
                                                            .wait_peer = step->y};
        }
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void (*const steps[])(struct job *, const struct fuzz_step *) = {
    step_collective, step_message, step_sendrecv,     step_complete, step_plain,      step_special,
    step_time,       step_window,  step_communicator, step_free,     step_definition, step_stuck,
    step_pending,    step_state,   step_identity,     step_anchor,   step_device};
enum { STEPS = sizeof steps / sizeof *steps, STEP_REPEAT = STEPS, STEP_FAULT, OPERATIONS = STEP_FAULT + FAULTS };

static void start_rank(struct job *job, unsigned r, const struct fuzz_step *first) {
    struct rank *rank = &job->ranks[r];
    static struct record open[JOB_RANKS_MAX][OPEN_MAX];
    rank->open = open[r];
    rank->builder = job->played->builders[r] =
        dump_builder_new(&(struct dump_plan){.rank = (int32_t)r,
                                             .world_size = (int32_t)job->count,
                                             .lanes = LANES,
                                             .ring_records = 16u << first->what % 7,
                                             .compact_lanes = job->compact ? (1u << JOB_LANES_MAX) - 1 : 0,
                                             .definition_areas = job->compact ? 2 : 1, /* templates take room, too */
                                             .windows = 4,
                                             .devices = 2,
                                             .sensors = 8,
                                             .transfers = 8});
    bool elsewhere = first->x >> r & 1;
    if (elsewhere)
        dump_builder_host(rank->builder, "host1", "00000000-0000-4000-8000-000000000001", 4026531834u);
    for (unsigned i = 0; i < CALL_COUNT; i++)
        dump_builder_call(rank->builder, (uint16_t)(FIRST_CALL + i), calls[i].call_class, calls[i].flow, calls[i].busbw,
                          calls[i].nonblocking, calls[i].name);
    for (uint64_t i = 0; i < 4; i++)
        dump_builder_anchor(rank->builder, 1000000 * i, 1000000 * i + (elsewhere ? first->y : 0),
                            1000000 * i + first->y, 10);
    for (unsigned lane = 0; lane < LANES; lane++)
        rank->now[lane] = 1000 + r;
    dump_builder_lane(rank->builder, DEVICE_LANE)->device = 1;
    memset(rank->index, -1, sizeof rank->index);
    rank->index[0] = (int32_t)dump_builder_world(rank->builder);
    rank->progress[0] = dump_builder_progress(rank->builder, 0);
    rank->hash[0] = BUILDER_WORLD_UID;
    dump_builder_module(rank->builder, "/nowhere/program", "identity", 8, 0x400000, 0x10000);
    for (uint64_t id = 1; id <= STACKS; id++)
        dump_builder_stack(rank->builder, (uint32_t)id,
                           (const uint64_t[]){0x400000 + 16 * id, STACK_ENTRY_PYTHON | id << 32 | 7, 0x400100}, 3);
    dump_builder_code(rank->builder, 1, "forward", "model.py");
}

/* Plays one step; a repetition plays those before it again. */
static void play(struct job *job, const uint8_t *data, size_t size, size_t at) {
    struct fuzz_step step = step_at(data, size, at);
    unsigned op = step.op % OPERATIONS;
    if (op < STEPS) {
        steps[op](job, &step);
        return;
    }
    if (op != STEP_REPEAT)
        return;
    size_t back = 1 + step.what % 8;
    for (unsigned i = 0; i < (step.x & 63) && job->records < RECORDS_MAX; i++)
        for (size_t k = back < at ? at - back : 1; k < at; k++) {
            struct fuzz_step again = step_at(data, size, k);
            if (again.op % OPERATIONS < STEPS)
                steps[again.op % OPERATIONS](job, &again);
        }
}

static void damage(struct job *job, const struct fuzz_step *step) {
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        if (takes_part(step, r))
            rank->bytes = fault_apply((enum fault)(step->op % OPERATIONS - STEP_FAULT), rank->builder,
                                      job->ranks[step->what % job->count].builder, rank->bytes, step);
    }
}

static void list_dumps(struct job *job, const struct fuzz_step *first) {
    struct played *played = job->played;
    for (unsigned r = 0; r < job->count; r++) {
        struct rank *rank = &job->ranks[r];
        size_t allocated;
        const void *data = dump_builder_data(rank->builder, &allocated);
        struct memory_dump dump = {(void *)(uintptr_t)data, rank->bytes, allocated};
        if (!rank->dropped)
            played->dumps[played->count++] = dump;
    }
    if (first->where & 0x80 && played->count > 0) { /* the same process twice */
        played->dumps[played->count] = played->dumps[first->where % played->count];
        played->count++;
    }
}

static void play_all(struct job *job, const uint8_t *data, size_t size, const struct fuzz_step *first) {
    for (unsigned r = 0; r < job->count; r++)
        start_rank(job, r, first);
    for (size_t i = 1; i < step_count(size); i++)
        play(job, data, size, i);
}

static void stage_ranks(struct job *job, const uint8_t *data, size_t size) {
    job->played->stage = staged_play(data, size, job->count, job->compact);
    for (unsigned r = 0; r < job->count; r++)
        job->ranks[r].builder = job->played->builders[r] = stage_builder(job->played->stage, r);
}

void job_play(struct played *played, const uint8_t *data, size_t size, bool faults) {
    static struct job job;
    struct fuzz_step first = step_at(data, size, 0);
    *played = (struct played){0};
    memset(&job, 0, sizeof job);
    job.played = played;
    job.count = 1 + first.op % JOB_RANKS_MAX;
    job.lanes = 1 + first.where % JOB_LANES_MAX;
    job.communicator_count = 1;
    job.compact = (first.op >> 3 & 3) == 2;
    job.communicators[0].members = (uint8_t)((1u << job.count) - 1);
    size_t count = step_count(size);
    if (first.where & 0x40)
        stage_ranks(&job, data, size);
    else
        play_all(&job, data, size, &first);
    for (unsigned r = 0; r < job.count; r++)
        dump_builder_data(job.ranks[r].builder, &job.ranks[r].bytes);
    for (size_t i = 1; faults && i < count; i++) {
        struct fuzz_step step = step_at(data, size, i);
        if (step.op % OPERATIONS >= STEP_FAULT)
            damage(&job, &step);
    }
    list_dumps(&job, &first);
}

void played_free(struct played *played) {
    memory_release();
    if (played->stage)
        stage_free(played->stage);
    for (size_t i = 0; i < JOB_RANKS_MAX && !played->stage; i++)
        dump_builder_free(played->builders[i]);
    *played = (struct played){0};
}
