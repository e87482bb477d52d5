/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/threads.h"

#include <errno.h>

#include "shim/intercept/own_cost.h"
#include "shim/record/call_cache.h"
#include "shim/record/lanes.h"
#include "shim/record/ring.h"
#include "shim/stacks/stacks.h"
#include "shim/stacks/view.h"

static os_pthread_key thread_key;
static bool have_thread_key;

static struct thread *take_thread(uint32_t tid) {
    for (uint32_t i = 0; i < THREAD_SLOTS; i++) {
        uint32_t nobody = 0;
        if (!dumpfile_make_room(&recorder.file, &recorder.slots[i], sizeof recorder.slots[i]))
            break;
        if (__atomic_compare_exchange_n(&recorder.slots[i].tid, &nobody, tid, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            struct thread *thread = &recorder.threads[i];
            thread->slot = &recorder.slots[i];
            thread->pooled = true;
            return thread;
        }
    }
    count_loss(&recorder.header->losses.threads_without_slot);
    struct thread *thread = os_memory(sizeof *thread);
    if (thread)
        thread->slot = &thread->spare_slot;
    return thread;
}

static void free_parts(struct thread *thread, unsigned first) {
    for (unsigned i = first; i < THREAD_PARTS; i++) {
        if (thread->parts[i].memory)
            os_unmap(thread->parts[i].memory, thread->parts[i].bytes);
        thread->parts[i] = (struct thread_part){0};
    }
}

static void release_thread(struct thread *thread) {
    struct in_flight *slot = thread->slot;
    if (thread->lane)
        lanes_give_back(thread->lane);
    thread->lane = NULL;
    thread->generation = 0;
    free_parts(thread, thread->pooled ? THREAD_OWN_PARTS : 0);
    if (thread->pooled) {
        slot->call = 0;
        slot->last_leave = 0;
        __atomic_store_n(&slot->tid, 0, __ATOMIC_RELEASE);
        return;
    }
    os_unmap(thread, sizeof *thread);
}

/* Runs in the ending thread. Destructors of other keys may still communicate: they attach anew. */
static void thread_ends(void *thread) {
    this_thread = NULL;
    if (*recorder_armed && ((struct thread *)thread)->generation == *recorder_armed)
        release_thread(thread);
}

static void record_thread(struct thread *self) {
    uint64_t now = ticks();
    ring_add(self->lane, &(struct record){.t0 = now,
                                          .t1 = now,
                                          .seq = SEQ_NONE,
                                          .op = self->tid,
                                          .comm = COMM_NONE,
                                          .peer = PEER_NONE,
                                          .tag = TAG_NONE,
                                          .stack = STACK_NONE,
                                          .kind = RECORD_THREAD});
}

struct thread *thread_attach(void) {
    int saved = errno;
    uint32_t tid = (uint32_t)os_thread_id();
    struct thread *self = take_thread(tid);
    this_thread = NULL;
    if (self) {
        self->tid = tid;
        self->outer = 0;
        own_cost_attach(self);
        self->polls.next = 0; /* those of the thread that had this place before */
        self->lane = lanes_take(tid);
    }
    if (self && self->lane) {
        self->slot->lane = self->lane->index;
        self->generation = *recorder_armed;
        stacks_attach(self);
        call_cache_attach(self);
        this_thread = self;
        if (have_thread_key)
            os_pthread_setspecific(thread_key, self);
        record_thread(self);
    } else if (self) {
        release_thread(self);
        self = NULL;
    }
    errno = saved;
    return self;
}

#if defined(__x86_64__)
/* What any other call from the same function has written over. */
READS_ANY_FRAME static bool still_returns(const struct thread *self) {
    uintptr_t slot = self->outer - sizeof(uintptr_t);
    return view_is_readable(slot) && *(const uintptr_t *)slot == self->outer_return;
}
#else
static bool still_returns(const struct thread *self) {
    (void)self; /* the return address has no fixed place */
    return true;
}
#endif

/* A frame that is left keeps its words until something is stored there. So one that lies below `sp` is gone for
 * certain, and one above it unless both its words are there still: the callers of this call mostly have written over
 * one of them by now. On another stack (of a coroutine) it may be unmapped. */
READS_ANY_FRAME bool thread_is_within_call(const struct thread *self, uintptr_t sp) {
    uintptr_t owner = (uintptr_t)self->outer_owner;
    if (!thread_is_in_call(self))
        return false;
    int saved = errno;
    bool within = owner >= sp && view_is_readable(owner) && *self->outer_owner == self && still_returns(self);
    errno = saved;
    return within;
}

bool thread_stays_within_call(struct thread *self, uintptr_t sp) {
    if (self->outer != OUTER_MEASURED)
        return thread_is_within_call(self, sp);
    own_cost_enter(self);
    return false;
}

void threads_begin(void) {
    if (!have_thread_key && os_pthread_key_create && os_pthread_setspecific)
        have_thread_key = os_pthread_key_create(&thread_key, thread_ends) == 0;
}
