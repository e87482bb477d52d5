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
static int64_t clock_start;
struct knobs knobs;

enum { KEPT = 1024 };
static struct object *oldest_retired, **newest_retired = &oldest_retired;
static size_t retired;

CUresult engine_ready(void) {
    return atomic_load_explicit(&state, memory_order_acquire);
}

uint64_t engine_next_id(void) {
    return ++last_id;
}

static int64_t host_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

uint64_t device_clock(void) {
    int64_t now = host_clock();
    return (uint64_t)(now + (now - clock_start) / 1000 * knobs.clock_drift / 1000);
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

static const char *text_knob(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static int64_t number_knob(const char *name, int64_t otherwise) {
    const char *text = text_knob(name);
    return text ? strtoll(text, NULL, 0) : otherwise;
}

static void read_knobs(void) {
    int64_t devices = number_knob("STANDIN_DEVICES", 4);
    knobs = (struct knobs){
        .devices = devices < 0             ? 0
                   : devices > MAX_DEVICES ? MAX_DEVICES
                                           : (int)devices,
        .memory = (uint64_t)number_knob("STANDIN_MEMORY", INT64_C(16) << 30),
        .handles_reused = number_knob("STANDIN_HANDLES_REUSED", 0) != 0,
        .destroy_hangs = number_knob("STANDIN_EVENT_DESTROY_HANG", 0) != 0,
        .query_hangs_for = text_knob("STANDIN_EVENT_QUERY_HANG"),
        .clock_drift = number_knob("STANDIN_CLOCK_DRIFT", 0),
        .report = text_knob("STANDIN_REPORT"),
    };
    clock_start = host_clock();
}

void object_retire(void *pointer) {
    struct object *object = pointer;
    object->destroyed = true;
    object->next = NULL;
    *newest_retired = object;
    newest_retired = &object->next;
    size_t kept = knobs.handles_reused ? 0 : KEPT;
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
    calls_forget();
}

static pthread_once_t initialized = PTHREAD_ONCE_INIT;

static void initialize(void) {
    read_knobs();
    if (!knobs.devices)
        return;
    pthread_atfork(NULL, NULL, forked);
    atomic_store(&state, CUDA_SUCCESS);
}

EXPORT CUresult cuInit(unsigned flags) {
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (engine_ready() != CUDA_ERROR_NOT_INITIALIZED)
        return engine_ready();
    pthread_once(&initialized, initialize);
    return knobs.devices ? engine_ready() /* still 3 in a forked child */ : CUDA_ERROR_NO_DEVICE;
}

__attribute__((destructor)) static void at_exit(void) {
    if (engine_ready() == CUDA_SUCCESS)
        calls_report();
    atomic_store(&state, CUDA_ERROR_DEINITIALIZED);
}
