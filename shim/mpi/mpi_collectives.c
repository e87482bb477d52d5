/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives of all sorts: on communicators, windows and files; creations of these; what frees them.
 * Must not live here: point-to-point, waiting.
 */
#include "shim/mpi/mpi_collectives.h"

#include <string.h>

#include "shim/comm/ordinals.h"
#include "shim/mpi/mpi_library.h"
#include "shim/mpi/mpi_topology.h"

/* ---- what all collectives share -------------------------------------------------------------- */

static void find_root(struct call_frame *f) {
    int32_t root = (int32_t)argument(f, f->call->root);
    const struct communicator *comm = f->comm;
    bool is_root;
    f->peer = root;
    if (comm && comm->kind == COMMUNICATOR_INTER) {
        is_root = root == mpi_abi.root;
        if (root < 0)
            f->peer = is_root ? PEER_ROOT : PEER_NULL;
    } else {
        is_root = comm && root == comm->rank;
    }
    if (is_root) {
        f->flags |= FLAG_ROOT;
        f->peer_class = PEER_CLASS_ROOT;
    }
}

static uint64_t bytes_of(const struct call_frame *f, bool ask) {
    if (f->peer == PEER_NULL) /* an intercommunicator's bystander: no argument but root is significant */
        return 0;
    return mpi_bytes(f->call, f->a, f->comm, (f->flags & FLAG_ROOT) != 0, ask);
}

/* What all ranks must agree on: the function, large counts or not; the root, a predefined reduction, the size where one
 * size rules. Not counts and datatypes: these may differ between ranks as long as they describe the same data. On an
 * intercommunicator the two sides, and bystanders, pass different things, on a file each rank its own size. */
static uint64_t signature(const struct call_frame *f) {
    static const bool same_everywhere[BYTES_FORMULAS] = {
        [BYTES_ZERO] = true, [BYTES_COUNT] = true,  [BYTES_COUNT_N] = true,
        [BYTES_SUM] = true,  [BYTES_GATHER] = true, [BYTES_SCATTER] = true};
    uint16_t id = f->call->bits & CALL_LARGE ? (uint16_t)(f->call->id - LARGE_COUNT_IDS) : f->call->id;
    uint64_t h = (uint64_t)id << 8;
    if (f->comm->kind == COMMUNICATOR_INTRA) {
        h |= f->redop;
        h ^= (uint64_t)(uint32_t)f->peer << 32;
        if (same_everywhere[f->call->bytes])
            h ^= hash_spread(f->bytes);
    }
    return h;
}

void collective_find_facts(struct call_frame *f) {
    const struct call *call = f->call;
    frame_set_comm(f, frame_find_comm(f));
    if (call->root)
        find_root(f);
    if (call->redop)
        f->redop = (uint8_t)mpi_abi_redop(mpi_handle(argument(f, call->redop)));
    if (f->peer == PEER_NULL || !mpi_bytes_quick(call, f->a, &f->bytes, &f->dtype)) {
        f->bytes = bytes_of(f, false);
        f->t0 = ticks(); /* adding up the counts of thousands of ranks is not the library's time */
    }
    if (f->comm && call_is_cached(call))
        remember_frame(f, signature(f));
}

/* A call that the library refused took no part in a collective: its number is the next one's, as it is on the ranks
 * that never made the call. Where a call that did communicate fails, the others have counted it too, and it keeps its
 * number. What only begins an operation has not communicated when it returns an error. */
static bool takes_part(const struct call_frame *f, bool only_begins) {
    return likely(!f->failed) || !(only_begins || mpi_library_refused(mpi_tail(f)->error));
}

static void withdraw(struct call_frame *f) {
    if (f->comm)
        collective_withdraw(f->comm);
    f->seq = SEQ_NONE;
    f->flags &= (uint16_t)~FLAG_COLLECTIVE;
}

/* After the call took place: an unknown communicator gets its number, unknown sizes may be asked for. */
static void settle_collective(struct call_frame *f) {
    if (unlikely(!f->comm) && !f->failed) {
        frame_find_unseen(f);
        if (f->comm) {
            if (f->call->root)
                find_root(f);
            number_collective(f);
            f->bytes = BYTES_UNKNOWN;
        }
    }
    if (unlikely(f->bytes == BYTES_UNKNOWN))
        f->bytes = bytes_of(f, true);
    if (likely(f->comm))
        collective_took_place(f->comm, likely(f->cached) ? f->cached->signature : signature(f));
}

void collective_settle_after(struct call_frame *f) {
    if (takes_part(f, false)) {
        settle_collective(f);
        if (likely(f->comm))
            collective_complete(f->comm);
    } else {
        withdraw(f);
    }
    emit_call(f);
}

static void emit_refused(struct call_frame *f) {
    withdraw(f);
    emit_call(f);
}

void icollective_after(struct call_frame *f) {
    if (!takes_part(f, true)) {
        emit_refused(f);
        return;
    }
    settle_collective(f);
    operation_posted(f, REQUEST_COLLECTIVE);
}

void collective_init_after(struct call_frame *f) {
    if (!takes_part(f, true)) {
        emit_refused(f);
        return;
    }
    settle_collective(f);
    if (f->comm)
        collective_complete(f->comm);
    operation_prepared(f, REQUEST_COLLECTIVE);
}

/* ---- creating communicators ------------------------------------------------------------------ */

static uint8_t new_topology(const struct call_frame *f) {
    if (f->call->bits & CALL_COPIES_TOPOLOGY)
        return f->comm ? mpi_communicator(f->comm)->topology : TOPOLOGY_NONE;
    return f->call->topology;
}

void comm_create_before(struct call_frame *f) {
    collective_before(f);
    f->bytes = 0;
}

void comm_create_after(struct call_frame *f) {
    if (takes_part(f, false))
        mpi_tail(f)->ordinal = communicator_count_creation(f->comm);
    if (!f->failed) {
        struct mpi_creation creation = {.call = f->call->id,
                                        .parent = f->comm,
                                        .topology = new_topology(f),
                                        .copies = (f->call->bits & CALL_COPIES_TOPOLOGY) != 0};
        mpi_topology_define(
            mpi_communicator_register(mpi_handle_at(argument(f, f->call->output), 0), &creation, mpi_tail(f)->ordinal));
    }
    collective_after(f);
}

/* Collective over a group of the communicator only: no number on it. */
void comm_create_group_before(struct call_frame *f) {
    frame_set_comm(f, frame_find_comm(f));
    if (f->call->tag)
        f->tag = (int32_t)argument(f, f->call->tag);
}

static struct communicator *register_over_group(struct call_frame *f, struct communicator *parent, uint64_t name) {
    struct mpi_creation creation = {.call = f->call->id, .parent = parent, .name = name};
    struct communicator *made = NULL;
    if (!f->failed)
        made = mpi_communicator_register_group(mpi_handle_at(argument(f, f->call->output), 0), &creation);
    emit_call(f);
    return made;
}

void comm_create_group_after(struct call_frame *f) {
    register_over_group(f, f->comm, hash_mix((uint32_t)f->tag));
}

/* The two sides of an intercommunicator have different local communicators: neither is its parent. */
void intercomm_create_after(struct call_frame *f) {
    register_over_group(f, NULL, hash_mix(1ull << 32 | (uint32_t)f->tag));
}

void comm_from_group_after(struct call_frame *f) {
    const char *text = (const char *)argument(f, f->call->text);
    struct communicator *made = register_over_group(f, NULL, text ? hash_text(2, text) : 0);
    if (made && text)
        communicator_set_name(made, text); /* until the job gives it another */
}

void comm_idup_after(struct call_frame *f) {
    if (!takes_part(f, true)) {
        emit_refused(f);
        return;
    }
    mpi_tail(f)->ordinal = communicator_count_creation(f->comm);
    settle_collective(f);
    mpi_tail(f)->topology = new_topology(f);
    operation_posted(f, REQUEST_COLLECTIVE | REQUEST_CREATES);
}

void comm_get_parent_after(struct call_frame *f) {
    emit_call(f);
    if (f->failed)
        return;
    uintptr_t handle = mpi_handle_at(argument(f, f->call->output), 0);
    if (!mpi_communicator_find(handle))
        mpi_communicator_register_unseen(handle);
}

void comm_set_name_after(struct call_frame *f) {
    const char *name = (const char *)argument(f, f->call->text);
    if (!f->failed && f->comm && name)
        communicator_set_name(f->comm, name);
    emit_call(f);
}

/* ---- freeing: the history ends in the call, since afterwards the communicator is gone ----------- */

static void free_before(struct call_frame *f, struct communicator *comm) {
    frame_set_comm(f, comm);
    if (!comm)
        return;
    number_collective(f);
    comm->last_signature = signature(f);
    __atomic_store_n(&comm->being_freed, 1, __ATOMIC_RELEASE);
}

/* After a call that left it where it was: it failed, or the library still has use for it. */
static void still_there(struct call_frame *f) {
    if (takes_part(f, false)) {
        communicator_end_history(f->comm);
        return;
    }
    f->comm->being_freed = 0;
    withdraw(f);
}

void comm_free_before(struct call_frame *f) {
    mpi_tail(f)->handle = mpi_handle_at(argument(f, f->call->output), 0);
    free_before(f, mpi_communicator_find(mpi_tail(f)->handle));
}

/* Where the library tells us, this has happened inside the call, but for operations in flight: then it is only the
 * handle that has gone. One that may live again goes now nevertheless, as on the ranks without such operations. */
void comm_free_after(struct call_frame *f) {
    if (!f->failed && (!mpi_communicators_are_watched() || (f->comm && f->comm->likeness)))
        communicator_forget(&mpi_handles->communicators, mpi_tail(f)->handle);
    if (f->comm && mpi_communicator_find(mpi_tail(f)->handle) == f->comm && f->comm->index == f->comm_index)
        still_there(f);
    f->comm = NULL; /* its place may already hold another one */
    emit_call(f);
}

/* Windows and files: nobody tells us when they go, and another thread may get the handle as soon as they have. */
static void hide_before(struct call_frame *f, struct handle_map *map, struct communicator *sequence) {
    free_before(f, sequence);
    if (sequence)
        communicator_hide(map, mpi_tail(f)->handle);
}

static void drop_after(struct call_frame *f, struct handle_map *map, uintptr_t handle_now) {
    if (f->comm && f->failed && handle_now == mpi_tail(f)->handle) {
        still_there(f);
        communicator_show_again(map, mpi_tail(f)->handle, f->comm);
    } else if (f->comm) {
        communicator_drop_hidden(f->comm);
    }
    f->comm = NULL; /* its place may already hold another one */
    emit_call(f);
}

void win_free_before(struct call_frame *f) {
    mpi_tail(f)->handle = mpi_handle_at(argument(f, f->call->output), 0);
    hide_before(f, &mpi_handles->windows, mpi_window_find(mpi_tail(f)->handle));
}

void win_free_after(struct call_frame *f) {
    drop_after(f, &mpi_handles->windows, mpi_handle_at(argument(f, f->call->output), 0));
}

/* MPI_File is a pointer in every MPI. */
static uintptr_t file_handle(const struct call_frame *f) {
    const uintptr_t *handle = (const uintptr_t *)argument(f, f->call->output);
    return handle ? *handle : 0;
}

void file_close_before(struct call_frame *f) {
    mpi_tail(f)->handle = file_handle(f);
    hide_before(f, &mpi_handles->files, mpi_file_find(mpi_tail(f)->handle));
}

void file_close_after(struct call_frame *f) {
    drop_after(f, &mpi_handles->files, file_handle(f));
}

/* ---- windows and files ----------------------------------------------------------------------- */

/* One that failed on some ranks only is counted on all, as siblings made later are told apart by their ordinals. */
static void sequence_created(struct call_frame *f, struct handle_map *map, uintptr_t handle,
                             enum communicator_kind kind) {
    if (!f->failed)
        mpi_sequence_register(map, handle, f->comm, kind, f->call->id);
    else if (takes_part(f, false))
        communicator_count_creation(f->comm);
}

void win_create_after(struct call_frame *f) {
    collective_after(f);
    sequence_created(f, &mpi_handles->windows, f->failed ? 0 : mpi_handle_at(argument(f, f->call->output), 0),
                     COMMUNICATOR_WINDOW);
}

void file_open_after(struct call_frame *f) {
    collective_after(f);
    sequence_created(f, &mpi_handles->files, f->failed ? 0 : file_handle(f), COMMUNICATOR_FILE);
}

/* Nobody leaves a fence before all have entered it, but where it is known to end no epoch (MPI 4.1, 12.5.1):
 * MPI_MODE_NOPRECEDE says so, or no fence has begun one. */
void win_collective_before(struct call_frame *f) {
    collective_before(f);
    if (!f->call->assertion || !f->comm)
        return;
    struct mpi_communicator *window = mpi_communicator(f->comm);
    int32_t assertion = (int32_t)argument(f, f->call->assertion);
    if (window->fenced && !(assertion & mpi_abi.no_precede))
        f->result = FENCE_IS_BARRIER;
    window->fenced = !(assertion & mpi_abi.no_succeed);
}

static int32_t target(const struct call_frame *f) {
    int32_t peer = (int32_t)argument(f, f->call->peer);
    return peer == mpi_abi.proc_null ? PEER_NULL : peer;
}

/* The members of an epoch's group as ranks of the window, beside the call's record. Larger groups stay unknown. */
enum { EPOCH_PARTNERS_MOST = 64 };
static int partners_of(const struct call_frame *f, int *ranks) {
    uintptr_t group = mpi_handle(argument(f, f->call->group)), all = 0;
    int own[EPOCH_PARTNERS_MOST], count = 0;
    if (group == mpi_abi.group_null) /* only the job's own call may fail for it; Open MPI's does not */
        return 0;
    if (!mpi_library.Win_get_group || mpi_library.Group_size(group, &count) || count <= 0 ||
        count > EPOCH_PARTNERS_MOST || mpi_library.Win_get_group(argument(f, f->call->win), &all))
        return 0;
    for (int i = 0; i < count; i++)
        own[i] = i;
    if (mpi_library.Group_translate_ranks(group, count, own, all, ranks))
        count = 0;
    mpi_library.Group_free(&all);
    return count;
}

static void record_partners(const struct call_frame *f, enum record_kind kind) {
    int ranks[EPOCH_PARTNERS_MOST], count = partners_of(f, ranks);
    bool post = f->call->epoch == EPOCH_POST;
    struct call_frame partner = *f;
    for (int i = 0; i < count; i++) {
        uint32_t (*ordinal)(uint32_t, int32_t, int32_t, bool) = kind == RECORD_PARTNER ? ordinal_next : ordinal_peek;
        partner.peer = ranks[i];
        partner.tag = i;
        partner.op = (uint32_t)count;
        partner.seq = ranks[i] < 0 ? SEQ_NONE : ordinal(f->comm_index, ranks[i], f->call->epoch, post);
        partner.flags =
            (uint16_t)((post ? FLAG_SEND : FLAG_RECV) | (partner.seq == SEQ_NONE ? FLAG_ORDINAL_UNKNOWN : 0));
        record_frame(&partner, kind);
    }
}

/* Start may never return. */
static void announce_partners(struct call_frame *f) {
    f->t1 = f->t0;
    record_partners(f, RECORD_AWAITED);
}

/* One-sided and independent file operations: no number, no counterpart. */
void independent_before(struct call_frame *f) {
    frame_set_comm(f, frame_find_comm(f));
    f->flags |= FLAG_UNMATCHED;
    if (f->call->peer)
        f->peer = target(f);
    f->bytes = f->peer == PEER_NULL ? 0 : mpi_bytes(f->call, f->a, f->comm, false, false);
    if (unlikely(f->call->epoch == EPOCH_START) && f->comm && !f->quiet)
        announce_partners(f);
}

static void settle_independent(struct call_frame *f) {
    if (!f->failed && f->bytes == BYTES_UNKNOWN)
        f->bytes = mpi_bytes(f->call, f->a, f->comm, false, true);
}

void independent_after(struct call_frame *f) {
    settle_independent(f);
    emit_call(f);
    if (unlikely(f->call->epoch && f->call->group) && f->comm && !f->failed && !f->quiet)
        record_partners(f, RECORD_PARTNER);
    if (f->call->bytes != BYTES_ZERO && f->peer >= 0 && !f->quiet && !f->failed)
        peers_add(f->self->lane, f->comm_index, f->peer, f->call->id, FLAG_SEND, f->bytes, f->t1 - f->t0, 0);
}

/* Asked in vain it ends nothing, and is asked again. */
void win_test_after(struct call_frame *f) {
    if (f->failed || *(const int32_t *)argument(f, f->call->flag)) {
        emit_call(f);
    } else if (!f->quiet) {
        record_poll(f);
        aggregate_frame(f, 0);
    }
}

void independent_request_before(struct call_frame *f) {
    if (f->call->flow == FLOW_NONE)
        independent_before(f);
    else
        collective_before(f);
}

void independent_request_after(struct call_frame *f) {
    bool collective = f->call->flow != FLOW_NONE;
    if (f->failed && !collective) {
        emit_call(f);
        return;
    }
    if (!takes_part(f, true)) {
        emit_refused(f);
        return;
    }
    if (collective)
        settle_collective(f);
    else
        settle_independent(f);
    operation_posted(f, collective ? REQUEST_COLLECTIVE : 0);
}
