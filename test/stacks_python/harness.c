/* SPDX-License-Identifier: Apache-2.0
 *
 * The shim's Python frames, callable from Python through ctypes: compare.py holds them against traceback.
 * Lives here: the dump's place for definitions, played by memory; frames as text; the interpreter's native frames
 * counted; what a key costs. Must not live here: what is right.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/record/recorder.h"
#include "shim/stacks/modules.h"
#include "shim/stacks/python.h"

#define EXPORT    __attribute__((visibility("default")))
#define CODES_MAX 65536u
#define KEYS_MAX  65536u

struct recorder recorder;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct code_definition *codes[CODES_MAX];
static struct {
    uint64_t key;
    char *text;
} keys[KEYS_MAX];

/* Another library at every look: an interpreter is looked for each time. */
uint32_t modules_count(void) {
    static uint32_t count;
    return ++count;
}

void *definitions_reserve(struct definitions *d, size_t bytes) {
    (void)d;
    return calloc(1, bytes);
}

void definitions_commit(void *definition, enum definition_kind kind) {
    struct code_definition *code = definition;
    if (kind != DEFINITION_CODE || code->id >= CODES_MAX)
        abort();
    __atomic_store_n(&codes[code->id], code, __ATOMIC_RELEASE);
}

/* 1: an interpreter was found, or may still be; 0: it is refused. */
EXPORT int harness_begin(void) {
    return python_source.begin();
}

static size_t print_entry(uint64_t entry, char *to, size_t room) {
    uint32_t id = entry >> 32 & 0x1fffffff;
    const struct code_definition *code = id < CODES_MAX ? codes[id] : NULL;
    if (entry == STACK_ENTRY_CUT)
        return (size_t)snprintf(to, room, "cut\n");
    if ((entry & STACK_ENTRY_KIND) != STACK_ENTRY_PYTHON || !code)
        return (size_t)snprintf(to, room, "undefined\n");
    return (size_t)snprintf(to, room, "%.*s\t%u\t%.*s\t%d\t%u\n", (int)code->file_bytes, code->text + code->name_bytes,
                            (uint32_t)entry, (int)code->name_bytes, code->text, (entry & STACK_PYTHON_ENTRY) != 0,
                            code->first_line);
}

/* A key must mean one list for good. Returns false when it had another meaning before. */
static bool remember(uint64_t key, const char *text) {
    bool same = true;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < KEYS_MAX; i++) {
        uint32_t at = (uint32_t)(key + i) % KEYS_MAX;
        if (!keys[at].key) {
            keys[at].key = key;
            keys[at].text = strdup(text);
            break;
        }
        if (keys[at].key == key) {
            same = !strcmp(keys[at].text, text);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return same;
}

/* The calling thread's frames as lines "file, line, name, entry, first line"; returns their number, 0 for none, -1 when
 * the key had meant others. */
EXPORT int harness_stack(char *text, size_t size) {
    uint64_t entries[STACK_SOURCE_ROOM], key = python_source.key(NULL);
    size_t length = 0;
    text[0] = '\0';
    if (!key)
        return 0;
    size_t n = python_source.entries(NULL, key, entries, STACK_SOURCE_ROOM);
    for (size_t i = 0; i < n && length < size; i++)
        length += print_entry(entries[i], text + length, size - length);
    if (length >= size || python_source.key(NULL) != key)
        return -1;
    return remember(key, text) ? (int)n : -1;
}

/* Return addresses of the calling thread that lie in the interpreter's evaluation function, -1 when it cannot be told.
 */
EXPORT int harness_native_loops(void) {
    void *addresses[4096];
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;
    char *start = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    int n = backtrace(addresses, 4096), loops = 0;
    if (!start || n == 4096 || !dladdr1(start, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
        return -1;
    for (int i = 0; i < n; i++)
        loops += (char *)addresses[i] > start && (char *)addresses[i] <= start + symbol->st_size;
    return loops;
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds per key, the least of several runs. */
EXPORT double harness_key_ns(void) {
    double best = 1e9;
    for (int run = 0; run < 20; run++) {
        double from = now_ns();
        for (int i = 0; i < 2000; i++)
            (void)python_source.key(NULL);
        double took = (now_ns() - from) / 2000;
        best = took < best ? took : best;
    }
    return best;
}

/* In a thread that Python knows nothing of: how many frames it has. */
static void *foreign(void *result) {
    char text[256];
    *(int *)result = harness_stack(text, sizeof text);
    return NULL;
}

EXPORT int harness_foreign_thread(void) {
    pthread_t thread;
    int result = -2;
    if (pthread_create(&thread, NULL, foreign, &result) == 0)
        pthread_join(thread, NULL);
    return result;
}
