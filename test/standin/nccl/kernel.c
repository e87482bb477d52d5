/* SPDX-License-Identifier: Apache-2.0
 *
 * See kernel.h. Every algorithm is a set of moves that progress together chunk by chunk: data goes straight from
 * its owner to whoever needs it. A reduction is done by one rank per block of elements, in the order of ranks, and then
 * distributed, so that all ranks hold the same bits.
 */
#include "test/standin/nccl/kernel.h"
#include "test/standin/nccl/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LARGEST_CHUNK 32768

/* One message to or from a peer. */
struct move {
    struct task *task;
    int peer;
    bool sends;
    unsigned char *data;
    size_t bytes, done;
    size_t flying; /* sent, but not off the wire before `lands` (CLOCK_MONOTONIC ns; 0 = at once) */
    uint64_t lands;
    uint64_t tag;
    const void *scale; /* multiply what is sent by this element first; NULL = as it is */
    struct proxy_trace trace;
};

/* One block that this rank reduces: the inputs of all ranks in their order, a chunk at a time. */
struct merge {
    struct task *task;
    const unsigned char *own; /* this rank's input */
    unsigned char *result;
    size_t bytes, done;
    int next; /* rank whose chunk is due */
    uint64_t tag;
    const void *scale;
    struct proxy_trace *traces; /* one per rank */
    _Alignas(16) unsigned char sum[LARGEST_CHUNK];
};

struct kernel {
    ncclComm_t comm;
    struct move *moves;
    size_t count, capacity;
    struct merge *merge;
    uint64_t *link_free; /* per peer: state of the slow link to it */
    bool *busy;          /* per direction and peer: an earlier message fills that pipe in this pass */
};

static void add_move(struct kernel *k, struct move move) {
    if (k->count == k->capacity) {
        k->capacity = k->capacity ? k->capacity * 2 : 16;
        k->moves = realloc(k->moves, k->capacity * sizeof *k->moves);
        if (!k->moves)
            abort();
    }
    k->moves[k->count++] = move;
}

static void push_chunk(struct kernel *k, struct move *m, unsigned char *room) {
    size_t most = segment_chunk_bytes(k->comm->segment), left = m->bytes - m->done;
    ncclDataType_t type = m->task->operation.type;
    m->flying = left < most ? left : most;
    memcpy(room, m->data + m->done, m->flying);
    if (m->scale)
        reduce_scale(room, m->flying / type_size(type), type, m->scale);
    uint64_t arrives = faults_of_link(k->comm, m->peer, m->flying, &k->link_free[m->peer]);
    m->lands = arrives ? k->link_free[m->peer] : 0;
    segment_push(k->comm->segment, m->peer, m->tag, m->flying, arrives);
    proxy_step_sent(&m->trace, m->flying);
}

/* The wire takes a chunk at a time: the next one follows when the last has left. */
static bool progress_send(struct kernel *k, struct move *m, uint64_t *wake) {
    bool moved = false;
    for (;;) {
        if (m->flying) {
            if (m->lands && m->lands > monotonic_ns()) {
                *wake = m->lands < *wake ? m->lands : *wake;
                return moved;
            }
            proxy_step_end(&m->trace);
            m->done += m->flying;
            m->flying = 0;
            moved = true;
        }
        if (m->done == m->bytes)
            return moved;
        proxy_step_begin(&m->trace);
        unsigned char *room = segment_room(k->comm->segment, m->peer);
        if (!room)
            return moved;
        push_chunk(k, m, room);
    }
}

static bool progress_receive(struct kernel *k, struct move *m, uint64_t *wake) {
    bool moved = false;
    size_t bytes;
    while (m->done < m->bytes) {
        proxy_step_begin(&m->trace);
        const void *chunk = segment_peek(k->comm->segment, m->peer, m->tag, &bytes, wake);
        if (!chunk)
            break;
        memcpy(m->data + m->done, chunk, bytes);
        segment_pop(k->comm->segment, m->peer);
        proxy_step_received(&m->trace, bytes);
        m->done += bytes;
        moved = true;
    }
    return moved;
}

static void merge_input(struct merge *m, const void *input, size_t bytes) {
    ncclDataType_t type = m->task->operation.type;
    if (m->next == 0)
        memcpy(m->sum, input, bytes);
    else
        reduce_into(m->sum, input, bytes / type_size(type), type, m->task->reduction.op);
}

static void merge_own(struct merge *m, size_t bytes) {
    _Alignas(16) unsigned char scaled[LARGEST_CHUNK];
    ncclDataType_t type = m->task->operation.type;
    if (!m->scale) {
        merge_input(m, m->own + m->done, bytes);
        return;
    }
    memcpy(scaled, m->own + m->done, bytes);
    reduce_scale(scaled, bytes / type_size(type), type, m->scale);
    merge_input(m, scaled, bytes);
}

static void merge_finish_chunk(struct kernel *k, struct merge *m, size_t bytes) {
    ncclDataType_t type = m->task->operation.type;
    if (m->task->reduction.op == ncclAvg)
        reduce_divide(m->sum, bytes / type_size(type), type, k->comm->ranks);
    memcpy(m->result + m->done, m->sum, bytes);
    m->done += bytes;
    m->next = 0;
}

static bool progress_merge(struct kernel *k, struct merge *m, uint64_t *wake) {
    bool moved = false;
    size_t most = segment_chunk_bytes(k->comm->segment), got;
    while (m->done < m->bytes) {
        size_t left = m->bytes - m->done, bytes = left < most ? left : most;
        if (m->next == k->comm->rank) {
            merge_own(m, bytes);
        } else {
            proxy_step_begin(&m->traces[m->next]);
            const void *chunk = segment_peek(k->comm->segment, m->next, m->tag, &got, wake);
            if (!chunk)
                break;
            merge_input(m, chunk, bytes);
            segment_pop(k->comm->segment, m->next);
            proxy_step_received(&m->traces[m->next], bytes);
        }
        moved = true;
        if (++m->next == k->comm->ranks)
            merge_finish_chunk(k, m, bytes);
    }
    return moved;
}

/* One pass over the moves, those of one pipe strictly one after the other. */
static bool progress_moves(struct kernel *k, uint64_t *wake, bool *pending) {
    bool moved = false;
    memset(k->busy, 0, 2 * (size_t)k->comm->ranks * sizeof *k->busy);
    for (struct move *m = k->moves; m < k->moves + k->count; m++) {
        bool *busy = &k->busy[2 * m->peer + m->sends];
        if (m->done == m->bytes || *busy)
            continue;
        moved |= m->sends ? progress_send(k, m, wake) : progress_receive(k, m, wake);
        *busy = m->done < m->bytes;
        *pending |= *busy;
    }
    return moved;
}

/* All moves and the merge, until every one is done. False: aborted. */
static bool progress_all(struct kernel *k) {
    for (;;) {
        uint32_t seen = segment_bell(k->comm->segment);
        uint64_t wake = UINT64_MAX;
        bool pending = false, moved = progress_moves(k, &wake, &pending);
        if (k->merge) {
            moved |= progress_merge(k, k->merge, &wake);
            pending |= k->merge->done < k->merge->bytes;
        }
        if (!pending)
            return true;
        if (k->comm->aborted)
            return false;
        if (!moved)
            segment_wait(k->comm->segment, seen, wake);
    }
}

static void open_traces(struct kernel *k) {
    for (struct move *m = k->moves; m < k->moves + k->count; m++)
        proxy_begin(&m->trace, k->comm, m->task, m->peer, m->sends, m->bytes);
    for (int peer = 0; k->merge && peer < k->comm->ranks; peer++)
        proxy_begin(&k->merge->traces[peer], k->comm, k->merge->task, peer, false, k->merge->bytes);
}

static void close_traces(struct kernel *k) {
    for (struct move *m = k->moves; m < k->moves + k->count; m++)
        proxy_end(&m->trace);
    for (int peer = 0; k->merge && peer < k->comm->ranks; peer++)
        proxy_end(&k->merge->traces[peer]);
}

static bool run_moves(struct kernel *k) {
    open_traces(k);
    bool finished = progress_all(k);
    close_traces(k);
    k->count = 0;
    return finished;
}

/* Two ranks' halves of a message carry the same tag where function, bytes and type agree, and, for reductions, the
 * operator. `part` tells the phases of one operation apart. */
static uint64_t tag_of(const struct task *t, unsigned part) {
    const struct operation *o = &t->operation;
    bool peer_to_peer = o->function == FUNCTION_SEND || o->function == FUNCTION_RECV;
    uint64_t key[6] = {peer_to_peer ? FUNCTION_SEND : o->function, o->count * type_size(o->type), part};
    if (!peer_to_peer) {
        key[3] = (uint64_t)o->root;
        key[4] = (uint64_t)o->type;
        key[5] = (uint64_t)t->reduction.op;
    }
    return hash_bytes(key, sizeof key) ^ (t->faults.mismatch ? 0x5a5aull << 40 : 0);
}

/* Elements [*first, *first + *count) of `total` that rank `rank` reduces. */
static void block_of(size_t total, int ranks, int rank, size_t *first, size_t *count) {
    size_t share = (total + (size_t)ranks - 1) / (size_t)ranks;
    *first = share * (size_t)rank < total ? share * (size_t)rank : total;
    *count = total - *first < share ? total - *first : share;
}

/* Operand of a user's operator: read now where it lives on the device. */
static const void *scale_of(const struct task *t) {
    if (!t->reduction.premultiply)
        return NULL;
    return t->reduction.scalar_on_device ? t->reduction.pointer : t->reduction.immediate;
}

static void add_send(struct kernel *k, struct task *t, int peer, const void *data, size_t bytes, unsigned part) {
    if (bytes)
        add_move(k, (struct move){.task = t,
                                  .peer = peer,
                                  .sends = true,
                                  .data = (unsigned char *)data,
                                  .bytes = bytes,
                                  .tag = tag_of(t, part)});
}

static void add_receive(struct kernel *k, struct task *t, int peer, void *data, size_t bytes, unsigned part) {
    if (bytes)
        add_move(k, (struct move){.task = t, .peer = peer, .data = data, .bytes = bytes, .tag = tag_of(t, part)});
}

/* Sends each rank its block of `send` (or the root all of it), reduces this rank's own into `result`. */
static bool reduce_blocks(struct kernel *k, struct task *t, const size_t *first, const size_t *count, void *result) {
    ncclComm_t comm = k->comm;
    size_t size = type_size(t->operation.type);
    const unsigned char *send = t->operation.send;
    for (int step = 1; step < comm->ranks; step++) {
        int peer = (comm->rank + step) % comm->ranks;
        add_send(k, t, peer, send + first[peer] * size, count[peer] * size, 0);
    }
    for (struct move *m = k->moves; m < k->moves + k->count; m++)
        m->scale = scale_of(t);
    struct merge *merge = calloc(1, sizeof *merge);
    struct proxy_trace *traces = calloc((size_t)comm->ranks, sizeof *traces);
    if (!merge || !traces)
        abort();
    merge->task = t;
    merge->own = send + first[comm->rank] * size;
    merge->result = result;
    merge->bytes = count[comm->rank] * size;
    merge->tag = tag_of(t, 0);
    merge->scale = scale_of(t);
    merge->traces = traces;
    k->merge = merge;
    bool finished = run_moves(k);
    k->merge = NULL;
    free(traces);
    free(merge);
    return finished;
}

static bool all_reduce(struct kernel *k, struct task *t) {
    const struct operation *o = &t->operation;
    size_t first[SEGMENT_MAX_RANKS], count[SEGMENT_MAX_RANKS], size = type_size(o->type);
    unsigned char *recv = o->recv;
    int me = k->comm->rank;
    for (int rank = 0; rank < k->comm->ranks; rank++)
        block_of(o->count, k->comm->ranks, rank, &first[rank], &count[rank]);
    if (!reduce_blocks(k, t, first, count, recv + first[me] * size))
        return false;
    for (int step = 1; step < k->comm->ranks; step++) {
        int peer = (me + step) % k->comm->ranks;
        add_send(k, t, peer, recv + first[me] * size, count[me] * size, 1);
        add_receive(k, t, peer, recv + first[peer] * size, count[peer] * size, 1);
    }
    return run_moves(k);
}

static bool reduce_scatter(struct kernel *k, struct task *t) {
    const struct operation *o = &t->operation;
    size_t first[SEGMENT_MAX_RANKS], count[SEGMENT_MAX_RANKS];
    for (int rank = 0; rank < k->comm->ranks; rank++) {
        first[rank] = o->count * (size_t)rank;
        count[rank] = o->count;
    }
    return reduce_blocks(k, t, first, count, o->recv);
}

static bool reduce(struct kernel *k, struct task *t) {
    const struct operation *o = &t->operation;
    size_t first[SEGMENT_MAX_RANKS] = {0}, count[SEGMENT_MAX_RANKS] = {0};
    count[o->root] = o->count;
    return reduce_blocks(k, t, first, count, o->recv);
}

static void copy_unless_in_place(void *to, const void *from, size_t bytes) {
    if (to != from)
        memmove(to, from, bytes);
}

static bool broadcast(struct kernel *k, struct task *t) {
    const struct operation *o = &t->operation;
    size_t bytes = o->count * type_size(o->type);
    if (k->comm->rank != o->root) {
        add_receive(k, t, o->root, o->recv, bytes, 0);
        return run_moves(k);
    }
    for (int step = 1; step < k->comm->ranks; step++)
        add_send(k, t, (o->root + step) % k->comm->ranks, o->send, bytes, 0);
    copy_unless_in_place(o->recv, o->send, bytes);
    return run_moves(k);
}

static bool all_gather(struct kernel *k, struct task *t) {
    const struct operation *o = &t->operation;
    size_t bytes = o->count * type_size(o->type);
    unsigned char *recv = o->recv;
    int me = k->comm->rank;
    copy_unless_in_place(recv + bytes * (size_t)me, o->send, bytes);
    for (int step = 1; step < k->comm->ranks; step++) {
        int peer = (me + step) % k->comm->ranks;
        add_send(k, t, peer, recv + bytes * (size_t)me, bytes, 0);
        add_receive(k, t, peer, recv + bytes * (size_t)peer, bytes, 0);
    }
    return run_moves(k);
}

static bool collective(struct kernel *k, struct task *t) {
    switch (t->operation.function) {
    case FUNCTION_ALL_REDUCE:
        return all_reduce(k, t);
    case FUNCTION_REDUCE_SCATTER:
        return reduce_scatter(k, t);
    case FUNCTION_REDUCE:
        return reduce(k, t);
    case FUNCTION_BROADCAST:
        return broadcast(k, t);
    default:
        return all_gather(k, t);
    }
}

void kernel_delay(ncclComm_t comm, uint64_t ns) {
    uint64_t until = monotonic_ns() + ns;
    for (uint64_t now; (now = monotonic_ns()) < until && !comm->aborted;) {
        uint64_t left = until - now;
        struct timespec nap = {.tv_nsec = (long)(left < 5000000 ? left : 5000000)};
        nanosleep(&nap, NULL);
    }
}

static void wait_for_abort(ncclComm_t comm) {
    while (!comm->aborted)
        kernel_delay(comm, 5000000);
}

/* The faults before the operation's kernel begins: those of the stream. */
static void faults_before(struct plan *p) {
    for (struct task *t = p->tasks; t < p->tasks + p->count; t++) {
        kernel_delay(p->comm, t->faults.stream_delay_ns);
        if (t->faults.drop)
            wait_for_abort(p->comm);
    }
}

static void faults_inside(struct task *t) {
    ncclComm_t comm = t->operation.comm;
    kernel_delay(comm, t->faults.inside_delay_ns);
    if (t->faults.error)
        comm->async_error = t->faults.error;
    if (t->faults.abort) {
        kernel_delay(comm, t->faults.abort_after_ns);
        comm->aborted = true;
    }
}

static bool run_peer_to_peer(struct kernel *k, struct plan *p) {
    for (struct task *t = p->tasks; t < p->tasks + p->count; t++) {
        const struct operation *o = &t->operation;
        size_t bytes = o->count * type_size(o->type);
        if (o->function == FUNCTION_SEND)
            add_send(k, t, o->root, o->recv, bytes, 0);
        else if (o->function == FUNCTION_RECV)
            add_receive(k, t, o->root, o->recv, bytes, 0);
    }
    return run_moves(k);
}

static bool run_tasks(struct kernel *k, struct plan *p) {
    for (struct task *t = p->tasks; t < p->tasks + p->count; t++) {
        faults_inside(t);
        if (p->comm->aborted)
            return false;
        if (t->operation.function != FUNCTION_SEND && t->operation.function != FUNCTION_RECV && !collective(k, t))
            return false;
    }
    return run_peer_to_peer(k, p);
}

void kernel_run(void *argument) {
    struct plan *p = argument;
    ncclComm_t comm = p->comm;
    struct kernel k = {.comm = comm,
                       .link_free = calloc((size_t)comm->ranks, sizeof *k.link_free),
                       .busy = calloc(2 * (size_t)comm->ranks, sizeof *k.busy)};
    if (!k.link_free || !k.busy)
        abort();
    if (p->capture) /* the launch of anything else counted it */
        comm->running++;
    pthread_mutex_lock(&comm->kernel);
    faults_before(p);
    if (!comm->aborted) {
        struct kernel_trace *trace = kernel_begin(p);
        run_tasks(&k, p);
        kernel_end(trace);
    }
    pthread_mutex_unlock(&comm->kernel);
    free(k.link_free);
    free(k.busy);
    free(k.moves);
    comm->running--;
}

void kernel_one_rank(void *argument) {
    struct task *t = argument;
    const struct operation *o = &t->operation;
    copy_unless_in_place(o->recv, o->send, o->count * type_size(o->type));
    if (t->reduction.premultiply)
        reduce_scale(o->recv, o->count, o->type, scale_of(t));
}
