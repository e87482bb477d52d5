/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrappers of all functions of NCCL and RCCL, expanded from calls.def, and the way every call takes through them.
 * Lives here: the expansion (an exported entry and one entry per copy of the library), coming up, entering and
 * leaving, the table of handlers by kind.
 * Must not live here: what a kind of call does (nccl/).
 */
#include <errno.h>
#include <time.h>

#include "shim/base/arguments.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/orders.h"
#include "shim/intercept/threads.h"
#include "shim/nccl/nccl_abi.h"
#include "shim/nccl/nccl_begin.h"
#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/nccl/nccl_creations.h"
#include "shim/nccl/nccl_frame.h"
#include "shim/nccl/nccl_group_calls.h"
#include "shim/nccl/nccl_operations.h"
#include "shim/nccl/nccl_windows.h"

/* ---- coming up ------------------------------------------------------------------------------- */

/* What a job does before it uses a communicator: it makes one. Anything else is not worth a dump. */
static bool wakes(const struct call *call) {
    return call->kind != KIND_NCCL_PLAIN && call->kind != KIND_NCCL_WINDOW && call->kind != KIND_NCCL_WINDOW_GONE &&
           call->kind != KIND_NCCL_ASYNC_ERROR;
}

/* Another thread's activation is waited for: what this one is about to do takes longer. */
static struct thread *wake(const struct call *call) {
    int saved = errno;
    struct thread *self = NULL;
    for (int i = 0; i < NCCL_PATIENCE_MS && wakes(call) && !recorder.gave_up; i++) {
        if (activate_process() || *recorder_armed) {
            self = current_thread();
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    errno = saved;
    return self;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static void nothing(struct call_frame *f) {
    (void)f;
}

static void plain_before(struct call_frame *f) {
    if (f->call->comm)
        frame_set_comm(f, nccl_communicator_find(argument(f, f->call->comm)));
}

static void plain_after(struct call_frame *f) {
    emit_call(f);
}

/* What is done before and after the real function, by kind. A list and not a table of pointers: each pointer would
 * be a relocation in every process below a preload. */
#define NCCL_HANDLERS(X)                                                                                               \
    X(KIND_NCCL_PLAIN, plain_before, plain_after)                                                                      \
    X(KIND_NCCL_WINDOW, plain_before, nccl_window_after)                                                               \
    X(KIND_NCCL_WINDOW_GONE, nccl_window_gone_before, plain_after)                                                     \
    X(KIND_NCCL_UNIQUE_ID, nothing, plain_after)                                                                       \
    X(KIND_NCCL_COLLECTIVE, nccl_collective_before, nccl_collective_after)                                             \
    X(KIND_NCCL_SEND, nccl_p2p_before, nccl_p2p_after)                                                                 \
    X(KIND_NCCL_RECV, nccl_p2p_before, nccl_p2p_after)                                                                 \
    X(KIND_NCCL_RMA, nccl_rma_before, nccl_rma_after)                                                                  \
    X(KIND_NCCL_GROUP_START, nothing, group_start_after)                                                               \
    X(KIND_NCCL_GROUP_END, group_end_before, group_end_after)                                                          \
    X(KIND_NCCL_GROUP_SIMULATE, nothing, group_simulate_after)                                                         \
    X(KIND_NCCL_INIT_RANK, nothing, nccl_init_rank_after)                                                              \
    X(KIND_NCCL_INIT_ALL, nothing, nccl_init_all_after)                                                                \
    X(KIND_NCCL_SPLIT, nccl_child_before, nccl_split_after)                                                            \
    X(KIND_NCCL_SHRINK, nccl_child_before, nccl_shrink_after)                                                          \
    X(KIND_NCCL_GROW, nccl_child_before, nccl_grow_after)                                                              \
    X(KIND_NCCL_DESTROY, nccl_destroy_before, plain_after)                                                             \
    X(KIND_NCCL_ABORT, nccl_abort_before, plain_after)                                                                 \
    X(KIND_NCCL_REVOKE, nccl_revoke_before, plain_after)                                                               \
    X(KIND_NCCL_ASYNC_ERROR, nccl_async_error_before, nccl_async_error_after)

/* ---- in and out ------------------------------------------------------------------------------ */

static any_function find_in_copy(const struct call *call, unsigned index, unsigned entry, const uintptr_t *a,
                                 const void *caller) {
    const struct communicator *c = call->comm ? nccl_communicator_find(a[call->comm - 1]) : NULL;
    int copy;
    return nccl_find_function(index, entry, caller, c ? nccl_communicator(c)->copy : -1, &copy);
}

/* Decides whether a call is recorded, publishes it and starts its clock. Returns the real function in any case.
 * `frame`, `sp`: the wrapper's own, as stack_here wants them. */
static ALWAYS_INLINE any_function enter(struct call_frame *f, unsigned index, unsigned entry, uintptr_t *a,
                                        const uintptr_t *frame, uintptr_t sp, enum call_kind kind,
                                        void (*before)(struct call_frame *)) {
    const struct call *call = &commtap_calls[index];
    any_function real = entry == NCCL_BY_CALLER ? nccl_global_functions[index] : nccl_functions[entry][index];
    struct thread *self = current_thread();
    f->self = NULL;
    if (unlikely(!real))
        real = find_in_copy(call, index, entry, a, (const void *)frame[1]);
    if (unlikely(!self) && !(self = wake(call)))
        return real;
    if (unlikely(nccl_generation != self->generation) && (!wakes(call) || !nccl_begin((void *)real)))
        return real;
    /* Calls that a library makes itself are part of the outer one. A stack not deeper than the outer one's means that
     * an exception or longjmp has left it without our seeing it, and so does a deeper one where its frame is gone. */
    if (unlikely(sp < self->outer) && thread_stays_within_call(self, sp))
        return real;
    begin_outer_call(self, f, frame, sp);
    uint32_t stack = stack_here(self, frame, sp);
    struct cached_call *cached = nccl_kind_is_cached(kind) ? call_cache_find(self, call, a, frame[1], stack) : NULL;
    if (unlikely(orders_wait())) { /* nothing that was remembered may hold any more */
        orders_follow();
        cached = NULL;
        stack = stack_here(self, frame, sp);
    }
    begin_frame_like(f, call, a, self, cached);
    place_frame(f, frame, stack, recorder_quiet(index));
    nccl_tail(f)->function = (void *)real;
    before(f);
    self->frame = f;
    if (kind != KIND_NCCL_COLLECTIVE) /* these have read it, to number themselves */
        f->t0 = ticks();              /* last: recording a start event is not the library's time */
    publish_in_flight(f);
    return real;
}

static ALWAYS_INLINE void leave(struct call_frame *f, uintptr_t result, void (*after)(struct call_frame *)) {
    clear_in_flight(f);
    nccl_tail(f)->in_progress = (int)result == NCCL_IN_PROGRESS;
    if (unlikely((int)result != NCCL_SUCCESS)) {
        f->failed = !nccl_tail(f)->in_progress;
        f->flags |= f->failed ? FLAG_FAILED : 0;
        f->result = (uint8_t)result;
    }
    after(f);
    end_outer_call(f);
    f->self->frame = NULL;
}

/* Each kind goes in and out by functions of its own. */
#define X(kind, before, after)                                                                                         \
    static any_function enter_##kind(struct call_frame *f, unsigned index, unsigned entry, uintptr_t *a,               \
                                     const uintptr_t *frame, uintptr_t sp) {                                           \
        return enter(f, index, entry, a, frame, sp, kind, before);                                                     \
    }                                                                                                                  \
    static void leave_##kind(struct call_frame *f, uintptr_t result) {                                                 \
        leave(f, result, after);                                                                                       \
    }
NCCL_HANDLERS(X)
#undef X

/* ---- the wrappers ---------------------------------------------------------------------------- */

/* Calls that take the unique id by value: 128 bytes, in memory that the machine's calling convention chooses. */
#define IDP4 uintptr_t a1, uintptr_t a2, struct nccl_unique_id a3, uintptr_t a4
#define IDP5 IDP4, uintptr_t a5
#define IDV4 a1, a2, (uintptr_t)&a3, a4
#define IDV5 IDV4, a5
#define IDA4 a[0], a[1], a3, a[3]
#define IDA5 IDA4, a[4]

/* `how` is empty, or ID. The word before the first argument is what a row's position 0, "has none", finds. */
#define THROUGH(index, entry, how, arity, kind)                                                                        \
    uintptr_t words[] = {0, how##V##arity}, *a = words + 1;                                                            \
    struct nccl_frame f;                                                                                               \
    any_function real =                                                                                                \
        enter_##kind(&f.call, index, entry, a, __builtin_frame_address(0), (uintptr_t)__builtin_dwarf_cfa());          \
    uintptr_t result = ((uintptr_t(*)(how##P##arity))real)(how##A##arity);                                             \
    if (f.call.self)                                                                                                   \
        leave_##kind(&f.call, result);                                                                                 \
    return result;

#define ENTRY_OF_COPY(name, copy, how, arity, kind)                                                                    \
    static uintptr_t name##_of_##copy(how##P##arity) {                                                                 \
        THROUGH(INDEX_##name, copy, how, arity, kind)                                                                  \
    }

/* The exported entry, one for each copy of the library, and the list of them all. */
#define ENTRIES(name, how, arity, kind)                                                                                \
    EXPORTED uintptr_t name(how##P##arity);                                                                            \
    uintptr_t name(how##P##arity){THROUGH(INDEX_##name, NCCL_BY_CALLER, how, arity, kind)} ENTRY_OF_COPY(              \
        name, 0, how, arity, kind) ENTRY_OF_COPY(name, 1, how, arity, kind) ENTRY_OF_COPY(name, 2, how, arity, kind)   \
        ENTRY_OF_COPY(name, 3, how, arity, kind) static any_function entry_of_##name(unsigned entry) {                 \
        switch (entry) {                                                                                               \
        case 0:                                                                                                        \
            return (any_function)name##_of_0;                                                                          \
        case 1:                                                                                                        \
            return (any_function)name##_of_1;                                                                          \
        case 2:                                                                                                        \
            return (any_function)name##_of_2;                                                                          \
        case 3:                                                                                                        \
            return (any_function)name##_of_3;                                                                          \
        default:                                                                                                       \
            return (any_function)name;                                                                                 \
        }                                                                                                              \
    }

#define CALL(...)
#define NCCL(id, name, arity, kind, ...)          ENTRIES(name, , arity, kind)
#define NCCL_BY_VALUE(id, name, arity, kind, ...) ENTRIES(name, ID, arity, kind)
#include "shim/calls.def"
#undef CALL

any_function nccl_entry(unsigned index, unsigned entry) {
    switch (index) {
#define CALL(...)
#define NCCL(id, name, arity, kind, ...)                                                                               \
    case INDEX_##name:                                                                                                 \
        return entry_of_##name(entry);
#include "shim/calls.def"
#undef CALL
    default:
        return NULL;
    }
}
