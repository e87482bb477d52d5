/* SPDX-License-Identifier: Apache-2.0
 *
 * In a group the library hands a window out at the group's end, and a communicator that does not block hands it out
 * when it is done. Nobody looks then, and what stands in the job's variable until then may be another window: such a
 * window is taken to live as long as its communicator. Errors are on the side of too few times, never of a lost
 * overlap.
 */
#include "shim/nccl/nccl_windows.h"

#include "shim/nccl/nccl_frame.h"
#include "shim/nccl/nccl_groups.h"

#define WINDOWS_MAX 256u
#define SYMMETRIC   1u /* NCCL_WIN_COLL_SYMMETRIC */

enum { BUFFER = 2, SIZE = 3, WINDOW = 4, FLAGS = 5 }; /* positions in ncclCommWindowRegister */
enum { SEND_BUFFER = 1, RECEIVE_BUFFER = 2, GONE_WINDOW = 2 };

/* A place is free while `comm` is NULL, and published by it. */
static struct window {
    const struct communicator *comm;
    uintptr_t begin, end, handle; /* handle 0: not known */
} windows[WINDOWS_MAX];

static char being_written;

static bool keep(const struct communicator *c, const struct window *w) {
    for (uint32_t i = 0; i < WINDOWS_MAX; i++) {
        const struct communicator *none = NULL;
        if (!__atomic_compare_exchange_n(&windows[i].comm, &none, (const struct communicator *)&being_written, false,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        windows[i].begin = w->begin;
        windows[i].end = w->end;
        windows[i].handle = w->handle;
        __atomic_store_n(&windows[i].comm, c, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

void nccl_window_after(struct call_frame *f) {
    struct nccl_communicator *c = f->comm ? nccl_communicator(f->comm) : NULL;
    uintptr_t begin = argument(f, BUFFER);
    if (c && !f->failed && argument(f, FLAGS) & SYMMETRIC && gpu_overlaps_launches(c->device)) {
        bool later = group_is_open(f->self) || nccl_tail(f)->in_progress;
        const uintptr_t *handle = later ? NULL : (const uintptr_t *)argument(f, WINDOW);
        const struct window w = {.begin = begin, .end = begin + argument(f, SIZE), .handle = handle ? *handle : 0};
        c->windows = keep(f->comm, &w) && c->windows != NCCL_WINDOWS_ALL ? NCCL_WINDOWS_SOME : NCCL_WINDOWS_ALL;
    }
    emit_call(f);
}

void nccl_window_gone_before(struct call_frame *f) {
    uintptr_t handle = argument(f, GONE_WINDOW);
    frame_set_comm(f, nccl_communicator_find(argument(f, f->call->comm)));
    for (uint32_t i = 0; f->comm && handle && i < WINDOWS_MAX; i++)
        if (__atomic_load_n(&windows[i].comm, __ATOMIC_ACQUIRE) == f->comm && windows[i].handle == handle)
            __atomic_store_n(&windows[i].comm, NULL, __ATOMIC_RELEASE);
}

void nccl_windows_forget(const struct communicator *c) {
    for (uint32_t i = 0; nccl_communicator(c)->windows && i < WINDOWS_MAX; i++)
        if (__atomic_load_n(&windows[i].comm, __ATOMIC_RELAXED) == c)
            __atomic_store_n(&windows[i].comm, NULL, __ATOMIC_RELEASE);
}

static bool has_symmetric_kernels(const struct call *call) {
    switch (call - commtap_calls) {
    case INDEX_ncclAllReduce:
    case INDEX_ncclAllReduceConfig:
    case INDEX_ncclAllGather:
    case INDEX_ncclAllGatherConfig:
    case INDEX_ncclReduceScatter:
    case INDEX_ncclReduceScatterConfig:
        return true;
    default:
        return false;
    }
}

bool nccl_windows_overlap(const struct call_frame *f) {
    uintptr_t send = argument(f, SEND_BUFFER), receive = argument(f, RECEIVE_BUFFER);
    if (!has_symmetric_kernels(f->call) || f->comm->size == 1)
        return false;
    bool any = nccl_communicator(f->comm)->windows == NCCL_WINDOWS_ALL;
    for (uint32_t i = 0; !any && i < WINDOWS_MAX; i++) {
        const struct window *w = &windows[i];
        if (__atomic_load_n(&w->comm, __ATOMIC_ACQUIRE) == f->comm)
            any = (send >= w->begin && send < w->end) || (receive >= w->begin && receive < w->end);
    }
    return any;
}
