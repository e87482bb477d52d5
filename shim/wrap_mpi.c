/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrappers of all MPI functions, expanded from calls.def, and the way every call takes through them.
 * Lives here: the expansion, entering and leaving, the table of handlers by kind, Init and Finalize, and the two
 * functions that need a hand-written body (Pcontrol, Initialized).
 * Must not live here: what a kind of call does (mpi_*.c).
 */
#include "shim/base/arguments.h"
#include "shim/base/tail_jump.h"
#include "shim/comm/ordinals.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/orders.h"
#include "shim/intercept/region.h"
#include "shim/intercept/resolve.h"
#include "shim/intercept/threads.h"
#include "shim/mpi/mpi_collectives.h"
#include "shim/mpi/mpi_frame.h"
#include "shim/mpi/mpi_library.h"
#include "shim/mpi/mpi_p2p.h"
#include "shim/mpi/mpi_requests.h"
#include "shim/record/epochs.h"
#include "shim/record/lanes.h"
#include "shim/record/ring.h"

#include <string.h>

/* ---- coming up and going down ---------------------------------------------------------------- */

static uint32_t library_generation; /* activation for which the library was asked for its world */
static bool finalized;
/* Calls of PMPI_X by the program, or a tool, before anything was recorded. */
static struct {
    uint64_t calls;
    uint32_t first; /* an id of calls.def */
} unseen_before;
static bool sessions_only; /* no MPI_Init: the last session's end is the job's */

/* The first line of what the library says of itself; the longest there is are MPICH's 8192 bytes. */
static void note_library_version(void) {
    static char text[16384];
    struct dump_header *header = recorder.header;
    int length = 0;
    if (!mpi_library.Get_library_version || mpi_library.Get_library_version(text, &length) != 0 || length < 0 ||
        length >= (int)sizeof text)
        return;
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    copy_text(header->library_version, sizeof header->library_version, text);
}

/* What belongs to the world, or to a session where there is none. `session`: where the handle of one stands that has
 * just begun, 0: none has. */
static bool begin_world(bool with_world, uintptr_t session) {
    if (with_world)
        return mpi_world_begun();
    if (session)
        mpi_session_begun(mpi_handle_at(session, 0));
    return true;
}

static bool begin_tables(bool with_world, uintptr_t session) {
    return requests_begin() && ordinals_begin() && mpi_bytes_begin() && mpi_communicators_begin() &&
           begin_world(with_world, session);
}

/* Sessions, and MPI_Init after the first of them. */
static void begin_more(bool with_world, uintptr_t session) {
    if (!recorder.ready || (with_world && !session && !sessions_only))
        return;
    if (sessions_only)
        begin_world(with_world, session);
    sessions_only &= !with_world;
}

/* With MPI initialised: who we are, what its handles look like. Trouble here ends recording, not the job. */
static void begin_library(bool with_world, uintptr_t session) {
    int provided = 0;
    if (library_generation == recorder.generation) {
        begin_more(with_world, session);
        return;
    }
    library_generation = recorder.generation;
    if (!mpi_library_resolve() || !mpi_abi_detect()) {
        recorder_switch_off("this MPI library is not one commtap knows; nothing is recorded");
        return;
    }
    /* Sessions may ask for threads without saying so here. */
    if (!with_world || !mpi_library.Query_thread || mpi_library.Query_thread(&provided) != 0 ||
        provided == mpi_abi.thread_multiple)
        recorder.multithreaded = true;
    if (!begin_tables(with_world, session)) {
        recorder_switch_off("no memory for commtap's tables; nothing is recorded");
        return;
    }
    if (recorder.multithreaded)
        lanes_expect_threads();
    copy_text(recorder.header->library, sizeof recorder.header->library, resolve_provider_path());
    note_library_version();
    recorder.header->mpi_family = mpi_abi.family;
    recorder.header->unseen_calls = unseen_before.calls;
    recorder.header->unseen_call = unseen_before.first;
    activation_share_quota();
    recorder.header->initialised_ticks = ticks();
    __atomic_fetch_or(&recorder.header->state, STATE_INITIALISED | (recorder.multithreaded ? STATE_THREAD_MULTIPLE : 0),
                      __ATOMIC_RELEASE);
    recorder.ready = true;
    sessions_only = !with_world;
    recorder.verbose = verbose_wanted(recorder.knobs.verbose, recorder.header->rank);
}

static bool mpi_is_initialised(const void *caller) {
    int flag = 0, over = 0;
    int (*initialized)(int *) = (int (*)(int *))resolve_name("PMPI_Initialized", caller);
    int (*was_finalized)(int *) = (int (*)(int *))resolve_name("PMPI_Finalized", caller);
    return initialized && initialized(&flag) == 0 && flag && was_finalized && was_finalized(&over) == 0 && !over;
}

/* A call in a process that does not record yet. Init may have been invisible: then the first call starts us. */
static struct thread *wake(const struct call *call, const void *caller) {
    bool ends = call->kind == KIND_ABORT || call->kind == KIND_FINALIZE;
    if (ends && recorder.generation) /* in a forked child, where locks of the library may be held for ever */
        return NULL;
    if (recorder.gave_up || finalized || (call->kind != KIND_INIT && !mpi_is_initialised(caller)))
        return NULL;
    if (!activate_process())
        return NULL;
    if (call->kind != KIND_INIT)
        begin_library(true, 0);
    return current_thread();
}

static void init_after(struct call_frame *f) {
    int world = 0;
    if (f->failed)
        return;
    if (!mpi_library_resolve() || mpi_library.Initialized(&world) != 0)
        world = 0;
    begin_library(world, f->call->output ? argument(f, f->call->output) : 0);
    if (*recorder_armed)
        emit_call(f);
}

static void begin_finalize(void) {
    recorder.header->finalise_ticks = ticks();
    __atomic_fetch_or(&recorder.header->state, STATE_FINALISING, __ATOMIC_RELEASE);
    mpi_communicators_end();
    anchors_take(&recorder.anchors);
}

static void end_finalize(uint64_t at) {
    recorder.ready = false;
    recorder.header->finalised_ticks = at;
    __atomic_fetch_or(&recorder.header->state, STATE_FINALISED, __ATOMIC_RELEASE);
    finalized = true;
}

static void finalize_before(struct call_frame *f) {
    (void)f;
    begin_finalize();
}

static void finalize_after(struct call_frame *f) {
    emit_call(f);
    if (!f->failed)
        end_finalize(f->t1);
}

static void session_finalize_before(struct call_frame *f) {
    mpi_session_ends(mpi_handle_at(argument(f, f->call->output), 0));
}

static void session_finalize_after(struct call_frame *f) {
    emit_call(f);
    if (f->failed || !sessions_only)
        return;
    recorder.header->finalised_ticks = f->t1;
    __atomic_fetch_or(&recorder.header->state, STATE_FINALISED, __ATOMIC_RELEASE);
}

/* It does not return: recorded on the way in. */
static void abort_before(struct call_frame *f) {
    frame_set_comm(f, frame_find_comm(f));
    f->t0 = f->t1 = ticks();
    emit_call(f);
    __atomic_fetch_or(&recorder.header->state, STATE_ABORTING, __ATOMIC_RELEASE);
}

/* ---- kinds with little to do ----------------------------------------------------------------- */

static void nothing(struct call_frame *f) {
    (void)f;
}

static void plain_before(struct call_frame *f) {
    frame_set_comm(f, frame_find_comm(f));
}

static void plain_after(struct call_frame *f) {
    emit_call(f);
}

/* Before the call: after it, another thread may have made a new datatype with the same handle. */
static void type_free_before(struct call_frame *f) {
    mpi_bytes_forget_type(mpi_handle_at(argument(f, f->call->output), 0));
}

void frame_find_unseen(struct call_frame *f) {
    if (f->call->comm && *recorder_armed && library_generation == recorder.generation)
        frame_set_comm(f, mpi_communicator_register_unseen(mpi_handle(argument(f, f->call->comm))));
}

/* What is done before and after the real function, by kind. A list and not a table of pointers: each pointer would be
 * a relocation in every process below a preload. */
#define MPI_HANDLERS(X)                                                                                                \
    X(KIND_PLAIN, plain_before, plain_after)                                                                           \
    X(KIND_INIT, nothing, init_after)                                                                                  \
    X(KIND_FINALIZE, finalize_before, finalize_after)                                                                  \
    X(KIND_SESSION_FINALIZE, session_finalize_before, session_finalize_after)                                          \
    X(KIND_ABORT, abort_before, nothing)                                                                               \
    X(KIND_COLLECTIVE, collective_before, collective_after)                                                            \
    X(KIND_ICOLLECTIVE, collective_before, icollective_after)                                                          \
    X(KIND_COLLECTIVE_INIT, collective_before, collective_init_after)                                                  \
    X(KIND_SEND, send_before, send_after)                                                                              \
    X(KIND_RECV, recv_before, recv_after)                                                                              \
    X(KIND_SENDRECV, sendrecv_before, sendrecv_after)                                                                  \
    X(KIND_ISEND, send_before, isend_after)                                                                            \
    X(KIND_IRECV, irecv_before, irecv_after)                                                                           \
    X(KIND_ISENDRECV, isendrecv_before, isendrecv_after)                                                               \
    X(KIND_SEND_INIT, send_init_before, send_init_after)                                                               \
    X(KIND_RECV_INIT, recv_init_before, recv_init_after)                                                               \
    X(KIND_START, nothing, start_after)                                                                                \
    X(KIND_STARTALL, nothing, startall_after)                                                                          \
    X(KIND_WAIT, wait_before, waitall_after)                                                                           \
    X(KIND_WAITALL, waitall_before, waitall_after)                                                                     \
    X(KIND_WAITANY, waits_before, wait_after)                                                                          \
    X(KIND_WAITSOME, waits_before, wait_after)                                                                         \
    X(KIND_TEST, wait_before, wait_after)                                                                              \
    X(KIND_TESTALL, waits_before, wait_after)                                                                          \
    X(KIND_TESTANY, waits_before, wait_after)                                                                          \
    X(KIND_TESTSOME, waits_before, wait_after)                                                                         \
    X(KIND_REQUEST_FREE, request_free_before, request_free_after)                                                      \
    X(KIND_CANCEL, nothing, cancel_after)                                                                              \
    X(KIND_POLL, nothing, poll_after)                                                                                  \
    X(KIND_PROBE, probe_before, probe_after)                                                                           \
    X(KIND_IPROBE, probe_before, probe_after)                                                                          \
    X(KIND_MPROBE, mprobe_before, mprobe_after)                                                                        \
    X(KIND_IMPROBE, mprobe_before, mprobe_after)                                                                       \
    X(KIND_MRECV, mrecv_before, mrecv_after)                                                                           \
    X(KIND_IMRECV, mrecv_before, imrecv_after)                                                                         \
    X(KIND_COMM_CREATE, comm_create_before, comm_create_after)                                                         \
    X(KIND_COMM_CREATE_GROUP, comm_create_group_before, comm_create_group_after)                                       \
    X(KIND_COMM_FROM_GROUP, nothing, comm_from_group_after)                                                            \
    X(KIND_COMM_IDUP, comm_create_before, comm_idup_after)                                                             \
    X(KIND_INTERCOMM_CREATE, comm_create_group_before, intercomm_create_after)                                         \
    X(KIND_INTERCOMM_FROM_GROUPS, nothing, comm_from_group_after)                                                      \
    X(KIND_COMM_FREE, comm_free_before, comm_free_after)                                                               \
    X(KIND_COMM_SET_NAME, plain_before, comm_set_name_after)                                                           \
    X(KIND_COMM_GET_PARENT, nothing, comm_get_parent_after)                                                            \
    X(KIND_TYPE_FREE, type_free_before, plain_after)                                                                   \
    X(KIND_WIN_CREATE, collective_before, win_create_after)                                                            \
    X(KIND_WIN_FREE, win_free_before, win_free_after)                                                                  \
    X(KIND_RMA, independent_before, independent_after)                                                                 \
    X(KIND_RMA_REQUEST, independent_before, independent_request_after)                                                 \
    X(KIND_RMA_SYNC, independent_before, independent_after)                                                            \
    X(KIND_WIN_TEST, independent_before, win_test_after)                                                               \
    X(KIND_WIN_COLLECTIVE, win_collective_before, collective_after)                                                    \
    X(KIND_FILE_OPEN, collective_before, file_open_after)                                                              \
    X(KIND_FILE_CLOSE, file_close_before, file_close_after)                                                            \
    X(KIND_FILE_COLLECTIVE, collective_before, collective_after)                                                       \
    X(KIND_FILE_IO, independent_before, independent_after)                                                             \
    X(KIND_FILE_IO_REQUEST, independent_request_before, independent_request_after)

/* ---- in and out ------------------------------------------------------------------------------ */

/* The table once more, for the compiler: what a wrapper's row says of its arguments is then part of its code. */
static const struct call rows[] = {
#define CALL(...) CALL_AS_DATA(__VA_ARGS__),
#include "shim/calls.def"
#undef CALL
};

/* What is known of a call before its frame is begun. */
struct entered {
    struct thread *self;
    const struct call *call;
    uintptr_t *a;
    const uintptr_t *frame; /* the wrapper's own, and */
    uintptr_t sp;           /* its canonical frame address, as stack_here wants them */
    unsigned index;
    uint32_t stack;
    struct cached_call *cached;
};

/* Begins the frame, and tells what the thread is about to do. Reading the counter waits for earlier work; what follows
 * overlaps with it. Atomic loads stand in front: behind them the compiler knows nothing of what memory holds. */
static ALWAYS_INLINE void begin(struct call_frame *f, const struct entered *e, bool by_counter,
                                void (*before)(struct call_frame *)) {
    uint8_t quiet = recorder_quiet(e->index);
    uint64_t t0 = by_counter ? cycle_counter() : ticks();
    begin_frame_like(f, e->call, e->a, e->self, e->cached);
    place_frame(f, e->frame, e->stack, quiet);
    f->t0 = t0;
    before(f);
    publish_in_flight(f);
}

/* The same of any call. What was ordered until now is done first; nothing that was remembered may hold then. */
static ALWAYS_INLINE void begin_as_ordered(struct call_frame *f, struct entered e,
                                           void (*before)(struct call_frame *)) {
    if (unlikely(orders_wait())) {
        orders_follow();
        e.cached = NULL;
        e.stack = stack_here(e.self, e.frame, e.sp);
    }
    begin(f, &e, false, before);
}

/* Decides whether a call is recorded, publishes it and starts its clock. Returns the real function in any case.
 * `frame`, `sp`: the wrapper's own, as stack_here wants them. */
static ALWAYS_INLINE any_function enter(struct call_frame *f, unsigned index, bool profiling, uintptr_t *a,
                                        const uintptr_t *frame, uintptr_t sp, enum call_kind kind,
                                        void (*before)(struct call_frame *),
                                        void (*begin_rare)(struct call_frame *, struct entered)) {
    const struct call *call = &rows[index];
    any_function real = profiling ? real_profiling_functions[index] : real_functions[index];
    struct thread *self = current_thread();
    f->self = NULL;
    if (unlikely(!real)) {
        bool recorded;
        real = resolve_call(index, profiling, (const void *)frame[1], &recorded);
        if (!recorded)
            return real;
    }
    if (unlikely(!self) && !(self = wake(call, (const void *)frame[1])))
        return real;
    if (unlikely(!recorder.ready) && kind != KIND_INIT)
        return real;
    /* Calls that the library makes itself are part of the outer one. A stack not deeper than the outer one's means that
     * an exception or longjmp has left it without our seeing it, and so does a deeper one where its frame is gone. */
    if (unlikely(sp < self->outer) && thread_stays_within_call(self, sp))
        return real;
    begin_outer_call(self, f, frame, sp);
    uint32_t stack = stack_here(self, frame, sp); /* before the clock is read: never part of a call's time */
    struct cached_call *cached = kind_is_cached(kind) ? call_cache_find(self, call, a, frame[1], stack) : NULL;
    const struct entered e = {self, call, a, frame, sp, index, stack, cached};
    /* What was seen before has a way of its own, on which the compiler knows the frame by heart. Orders are in force
     * that were given until now: looked for here, after most of the work, that costs a third of what it does in front
     * of it. */
    if (likely(cached && !orders_wait() && !clock_is_monotonic))
        begin(f, &e, true, before);
    else if (kind_is_cached(kind))
        begin_rare(f, e);
    else
        begin_as_ordered(f, e, before);
    return real;
}

static ALWAYS_INLINE void leave(struct call_frame *f, uintptr_t result, void (*after)(struct call_frame *)) {
    clear_in_flight(f);
    if (unlikely((int)result != 0)) {
        f->failed = true;
        f->flags |= FLAG_FAILED;
        f->result = (uint8_t)result;
        mpi_tail(f)->error = (int)result;
    }
    after(f);
    end_outer_call(f);
}

/* Each kind goes in and out by functions of its own; what is called often comes in by code of each wrapper's own. */
#define X(kind, before, after)                                                                                         \
    static __attribute__((noinline)) void begin_rare_##kind(struct call_frame *f, struct entered e) {                  \
        begin_as_ordered(f, e, before);                                                                                \
    }                                                                                                                  \
    static __attribute__((noinline)) any_function enter_rare_##kind(                                                   \
        struct call_frame *f, unsigned index, bool profiling, uintptr_t *a, const uintptr_t *frame, uintptr_t sp) {    \
        return enter(f, index, profiling, a, frame, sp, kind, before, begin_rare_##kind);                              \
    }                                                                                                                  \
    static ALWAYS_INLINE any_function enter_##kind(struct call_frame *f, unsigned index, bool profiling, uintptr_t *a, \
                                                   const uintptr_t *frame, uintptr_t sp) {                             \
        if (!kind_is_cached(kind))                                                                                     \
            return enter_rare_##kind(f, index, profiling, a, frame, sp);                                               \
        return enter(f, index, profiling, a, frame, sp, kind, before, begin_rare_##kind);                              \
    }                                                                                                                  \
    static __attribute__((noinline)) void leave_##kind(struct call_frame *f, uintptr_t result) {                       \
        leave(f, result, after);                                                                                       \
    }
MPI_HANDLERS(X)
#undef X

/* ---- the wrappers ---------------------------------------------------------------------------- */

/* The word before the first argument is what a row's position 0, "has none", finds. */
#define THROUGH(index, arity, kind, profiling)                                                                         \
    uintptr_t words[] = {0, V##arity}, *a = words + 1;                                                                 \
    struct mpi_frame f;                                                                                                \
    any_function real =                                                                                                \
        enter_##kind(&f.call, index, profiling, a, __builtin_frame_address(0), (uintptr_t)__builtin_dwarf_cfa());      \
    uintptr_t result = real(A##arity);                                                                                 \
    if (f.call.self)                                                                                                   \
        leave_##kind(&f.call, result);                                                                                 \
    return result;

static void note_unseen(uint64_t *calls, uint32_t *first, unsigned index) {
    if (__atomic_fetch_add(calls, 1, __ATOMIC_RELAXED) == 0)
        *first = rows[index].id;
}

/* A call of PMPI_X that no MPI_X of ours has seen: the program, or a tool in front of us, has an MPI_X of its own. It
 * is not recorded, for the tool may make of it what it likes, but counted; what the library calls within is part of it.
 * `frame`, `sp`: the wrapper's own; `owner`, in its frame, is set to the thread whose call it is then. */
static __attribute__((noinline)) void unseen_begin(unsigned index, enum resolved_caller caller, const uintptr_t *frame,
                                                   uintptr_t sp, struct thread **owner) {
    struct thread *self = current_thread();
    if (caller != CALLER_OTHER || (self && sp < self->outer && thread_is_within_call(self, sp)))
        return;
    if (!self || !recorder.ready) {
        note_unseen(&unseen_before.calls, &unseen_before.first, index);
        return;
    }
    bool paused = __atomic_load_n(&recorder.paused, __ATOMIC_RELAXED) != 0;
    if (paused && rows[index].kind != KIND_FINALIZE)
        return;
    if (!paused)
        note_unseen(&recorder.header->unseen_calls, &recorder.header->unseen_call, index);
    *owner = self;
    self->outer = sp;
    self->outer_owner = owner;
    self->outer_return = frame[1];
    if (rows[index].kind == KIND_FINALIZE)
        begin_finalize();
}

static __attribute__((noinline)) void unseen_end(unsigned index, uintptr_t result, struct thread *owner) {
    owner->outer = 0;
    if (rows[index].kind == KIND_FINALIZE && (int)result == 0)
        end_finalize(ticks());
}

/* PMPI_X: what a Fortran binding calls for its program is recorded, all else goes straight through. */
#define CALL(id, name, arity, kind, ...)                                                                               \
    EXPORTED uintptr_t name(P##arity);                                                                                 \
    EXPORTED uintptr_t P##name(P##arity);                                                                              \
    uintptr_t name(P##arity){THROUGH(INDEX_##name, arity, kind, false)} uintptr_t P##name(P##arity) {                  \
        enum resolved_caller caller = resolve_caller(__builtin_return_address(0));                                     \
        if (caller == CALLER_FORTRAN) {                                                                                \
            THROUGH(INDEX_##name, arity, kind, true)                                                                   \
        }                                                                                                              \
        uintptr_t a[] = {V##arity};                                                                                    \
        (void)a;                                                                                                       \
        struct thread *owner = NULL;                                                                                   \
        bool recorded;                                                                                                 \
        any_function real = resolve_call(INDEX_##name, true, __builtin_return_address(0), &recorded);                  \
        if (recorded)                                                                                                  \
            unseen_begin(INDEX_##name, caller, __builtin_frame_address(0), (uintptr_t)__builtin_dwarf_cfa(), &owner);  \
        uintptr_t result = real(A##arity);                                                                             \
        if (owner)                                                                                                     \
            unseen_end(INDEX_##name, result, owner);                                                                   \
        return result;                                                                                                 \
    }
#define NCCL(...)
#include "shim/calls.def"
#undef CALL

/* ---- hand-written ---------------------------------------------------------------------------- */

/* MPI_Pcontrol is variadic: its arguments are never read, the real one is reached by a jump. */

static void pause_or_resume(bool resume) {
    if (region_marked_by(&recorder.knobs) == REGION_PCONTROL) {
        region_set(resume);
    } else if (resume) {
        __atomic_fetch_and(&recorder.paused, (uint8_t)~QUIET_PAUSED, __ATOMIC_RELAXED);
    } else {
        uint8_t before = __atomic_fetch_or(&recorder.paused, QUIET_PAUSED, __ATOMIC_RELAXED);
        recorder.header->pauses += !(before & QUIET_PAUSED);
    }
}

static void control(int level) {
    struct thread *self = current_thread();
    if (!self || thread_is_in_call(self))
        return;
    if (level == 0 || level == 1)
        pause_or_resume(level == 1);
    else if (level == 2)
        epoch_begin();
    record_mark(self, level);
}

/* The slots are what all callers reach. */
HOOK(MPI_Pcontrol, pcontrol_of_all);
HOOK(PMPI_Pcontrol, profiling_pcontrol_of_all);
HOOK(MPI_Initialized, initialized_of_all);

static any_function find(any_function *slot, const char *name, const void *caller, any_function error, bool *recorded) {
    any_function real = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    *recorded = true;
    if (!real)
        real = resolve_shared(slot, name, caller, recorded);
    return real ? real : resolve_absent(name, caller, error);
}

static uintptr_t no_pcontrol(void) {
    return 0;
}

__attribute__((visibility("hidden"), used)) void *choose_pcontrol(uintptr_t level, uintptr_t a2, uintptr_t a3,
                                                                  const void *caller) {
    (void)a2, (void)a3;
    bool recorded;
    any_function real = find(&pcontrol_of_all, "MPI_Pcontrol", caller, (any_function)no_pcontrol, &recorded);
    if (recorded)
        control((int)level);
    return (void *)real;
}

__attribute__((visibility("hidden"), used)) void *choose_profiling_pcontrol(uintptr_t level, uintptr_t a2, uintptr_t a3,
                                                                            const void *caller) {
    (void)a2, (void)a3;
    bool recorded;
    any_function real = find(&profiling_pcontrol_of_all, "PMPI_Pcontrol", caller, (any_function)no_pcontrol, &recorded);
    if (recorded && resolve_caller(caller) == CALLER_FORTRAN)
        control((int)level);
    return (void *)real;
}

TAIL_JUMP(MPI_Pcontrol, choose_pcontrol);
TAIL_JUMP(PMPI_Pcontrol, choose_profiling_pcontrol);

static uintptr_t not_initialized(uintptr_t flag) {
    *(int *)flag = 0;
    return 0;
}

EXPORTED uintptr_t MPI_Initialized(uintptr_t flag);
uintptr_t MPI_Initialized(uintptr_t flag) {
    bool recorded;
    return find(&initialized_of_all, "MPI_Initialized", __builtin_return_address(0), (any_function)not_initialized,
                &recorded)(flag);
}
