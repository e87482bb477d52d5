/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts of the calls that a profiler must never make, by the library that made them, and their report at exit.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test/standin/driver/engine.h"

enum { MAX_LIBRARIES = 256, MAX_FRAMES = 16 };

static const char *const count_names[STANDIN_COUNTS] = {
    [STANDIN_SYNCHRONIZE] = "synchronize",
    [STANDIN_FREE] = "free",
    [STANDIN_CREATE_CONTEXT] = "create-context",
    [STANDIN_DESTROY_BUSY] = "destroy-busy",
};

static struct {
    char *library;
    uint64_t counts[STANDIN_COUNTS];
} callers[MAX_LIBRARIES];
static size_t caller_count;
static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *library_of(void *address) {
    Dl_info info;
    return address && dladdr(address, &info) && info.dli_fname ? info.dli_fname : "?";
}

static bool is_cuda(const char *library) {
    const char *slash = strrchr(library, '/');
    const char *file = slash ? slash + 1 : library;
    return strncmp(file, "libcuda.", 8) == 0 || strncmp(file, "libcudart.", 10) == 0;
}

/* The nearest frame outside libcuda and libcudart; the stack is only walked where the direct caller is one of them. */
static const char *calling_library(void *caller) {
    const char *library = library_of(caller);
    if (!is_cuda(library))
        return library;
    void *frames[MAX_FRAMES];
    int count = backtrace(frames, MAX_FRAMES);
    for (int i = 0; i < count; i++) {
        library = library_of(frames[i]);
        if (!is_cuda(library))
            return library;
    }
    return "?";
}

void count_call(enum standin_count what, void *caller) {
    const char *library = calling_library(caller);
    pthread_mutex_lock(&calls_lock);
    size_t at = 0;
    while (at < caller_count && strcmp(callers[at].library, library) != 0)
        at++;
    if (at == caller_count && caller_count < MAX_LIBRARIES)
        callers[caller_count++].library = strdup(library);
    if (at < caller_count)
        callers[at].counts[what]++;
    pthread_mutex_unlock(&calls_lock);
}

bool caller_is(const char *name, void *caller) {
    return strstr(calling_library(caller), name) != NULL;
}

EXPORT uint64_t standin_count(enum standin_count what, const char *library) {
    uint64_t sum = 0;
    pthread_mutex_lock(&calls_lock);
    for (size_t i = 0; i < caller_count; i++)
        if (strstr(callers[i].library, library))
            sum += callers[i].counts[what];
    pthread_mutex_unlock(&calls_lock);
    return sum;
}

/* A forked child has made none of the calls. */
void calls_forget(void) {
    caller_count = 0;
    pthread_mutex_init(&calls_lock, NULL);
    memset(callers, 0, sizeof callers);
}

void calls_report(void) {
    FILE *file = knobs.report ? fopen(knobs.report, "a") : NULL;
    if (!file)
        return;
    pthread_mutex_lock(&calls_lock);
    for (size_t i = 0; i < caller_count; i++)
        for (int what = 0; what < STANDIN_COUNTS; what++)
            if (callers[i].counts[what])
                fprintf(file, "%d\t%s\t%s\t%llu\n", (int)getpid(), count_names[what], callers[i].library,
                        (unsigned long long)callers[i].counts[what]);
    pthread_mutex_unlock(&calls_lock);
    fclose(file);
}
