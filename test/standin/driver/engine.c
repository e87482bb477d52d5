/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's lock, its life (cuInit, fork, exit) and the keeping of destroyed handles. No CUDA concept beyond that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/standin/driver/engine.h"

pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t engine_changed = PTHREAD_COND_INITIALIZER;

static atomic_int state = CUDA_ERROR_NOT_INITIALIZED; /* what engine_ready tells */
static uint64_t last_id;

enum { KEPT = 1024 };
static struct object *oldest_retired, **newest_retired = &oldest_retired;
static size_t retired;

CUresult engine_ready(void) {
    return atomic_load_explicit(&state, memory_order_relaxed);
}

uint64_t engine_next_id(void) {
    return ++last_id;
}

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void *reallocate(void *old, size_t bytes) {
    void *memory = realloc(old, bytes ? bytes : 1);
    if (!memory) {
        fputs("stand-in libcuda: out of host memory\n", stderr);
        abort();
    }
    return memory;
}

void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    return memory ? memory : reallocate(NULL, bytes);
}

uint64_t knob_number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

void object_retire(void *pointer) {
    struct object *object = pointer;
    object->destroyed = true;
    object->next = NULL;
    *newest_retired = object;
    newest_retired = &object->next;
    size_t kept = knob_number("STANDIN_HANDLES_REUSED", 0) ? 0 : KEPT;
    for (retired++; retired > kept; retired--) {
        struct object *old = oldest_retired;
        oldest_retired = old->next;
        if (!oldest_retired)
            newest_retired = &oldest_retired;
        free(old);
    }
}

/* The driver does not survive fork: the child has no workers and no device. */
static void forked(void) {
    if (engine_ready() != CUDA_ERROR_DEINITIALIZED)
        atomic_store(&state, CUDA_ERROR_NOT_INITIALIZED);
    pthread_mutex_init(&engine_lock, NULL);
}

static pthread_once_t initialized = PTHREAD_ONCE_INIT;

static void initialize(void) {
    pthread_atfork(NULL, NULL, forked);
    atomic_store(&state, CUDA_SUCCESS);
}

EXPORT CUresult cuInit(unsigned flags) {
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (engine_ready() != CUDA_ERROR_NOT_INITIALIZED)
        return engine_ready();
    if (device_count() == 0)
        return CUDA_ERROR_NO_DEVICE;
    pthread_once(&initialized, initialize);
    return engine_ready(); /* still 3 in a forked child */
}

__attribute__((destructor)) static void at_exit(void) {
    calls_report();
    atomic_store(&state, CUDA_ERROR_DEINITIALIZED);
}
