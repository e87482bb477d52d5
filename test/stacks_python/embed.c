/* SPDX-License-Identifier: Apache-2.0
 *
 * A C program that embeds Python: loads it late and out of sight (RTLD_LOCAL), ends it while another thread is in a
 * call, and starts it again. Linked to harness.c.   usage: embed LIBPYTHON
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

int harness_begin(void);
int harness_stack(char *text, size_t size);

static void (*initialise)(int);
static int (*finalise)(void);
static int (*run)(const char *);
static void *(*save_thread)(void);
static void (*restore_thread)(void *);
static int (*ensure)(void);
static void *(*add_module)(const char *);
static int (*add_object)(void *, const char *, void *);
static void *(*new_function)(void *, void *, void *);
static void *(*new_number)(long);

/* PyMethodDef; part of Python's stable binary interface. */
struct method {
    const char *name;
    void *(*function)(void *, void *);
    int flags;
    const char *doc;
};
#define NO_ARGUMENTS 4

static atomic_int lingering, inside_frames, stop;
static atomic_long frames_after_the_end;

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "embed: not so: %s (line %d)\n", #condition, __LINE__);                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static int frames(void) {
    static _Thread_local char text[1 << 16];
    return harness_stack(text, sizeof text);
}

/* The functions that Python calls. */
static void *count_frames(void *self, void *unused) {
    (void)self, (void)unused;
    atomic_store(&inside_frames, frames());
    return new_number(0);
}

/* Without the GIL: stays in C while the interpreter ends around it. Back in Python the thread would be ended by it. */
static void *linger(void *self, void *unused) {
    (void)self, (void)unused;
    save_thread();
    atomic_store(&lingering, frames());
    while (!atomic_load(&stop))
        if (atomic_load(&lingering) < 0)
            atomic_fetch_add(&frames_after_the_end, frames() != 0);
    pthread_exit(NULL);
}

static void add_functions(void) {
    static struct method methods[] = {{"count_frames", count_frames, NO_ARGUMENTS, NULL},
                                      {"linger", linger, NO_ARGUMENTS, NULL}};
    for (int i = 0; i < 2; i++)
        EXPECT(add_object(add_module("__main__"), methods[i].name, new_function(&methods[i], NULL, NULL)) == 0);
}

static void *other_thread(void *unused) {
    (void)unused;
    ensure();
    EXPECT(run("def f():\n  linger()\nf()") == 0);
    return NULL;
}

static void load(const char *path) {
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&initialise = dlsym(library, "Py_InitializeEx");
    *(void **)&finalise = dlsym(library, "Py_FinalizeEx");
    *(void **)&run = dlsym(library, "PyRun_SimpleString");
    *(void **)&save_thread = dlsym(library, "PyEval_SaveThread");
    *(void **)&restore_thread = dlsym(library, "PyEval_RestoreThread");
    *(void **)&ensure = dlsym(library, "PyGILState_Ensure");
    *(void **)&add_module = dlsym(library, "PyImport_AddModule");
    *(void **)&add_object = dlsym(library, "PyModule_AddObject");
    *(void **)&new_function = dlsym(library, "PyCFunction_NewEx");
    *(void **)&new_number = dlsym(library, "PyLong_FromLong");
}

static void inside(void) {
    atomic_store(&inside_frames, -1);
    add_functions();
    EXPECT(run("def g():\n  count_frames()\ng()") == 0);
    EXPECT(atomic_load(&inside_frames) == 2);
}

int main(int argc, char **argv) {
    pthread_t thread;
    EXPECT(argc == 2 && harness_begin() && frames() == 0);
    load(argv[1]);
    EXPECT(frames() == 0); /* loaded, not initialised */
    initialise(0);
    for (int i = 0; i < 4; i++) /* found at the latest by the next power of two */
        EXPECT(frames() == 0);
    inside();
    void *state = save_thread();
    EXPECT(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    while (!atomic_load(&lingering))
        ;
    EXPECT(atomic_load(&lingering) == 2);
    restore_thread(state);
    inside();
    finalise();
    EXPECT(frames() == 0);
    atomic_store(&lingering, -1); /* from here on no frames, though the thread has never left its call */
    for (int i = 0; i < 100; i++)
        EXPECT(frames() == 0);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    EXPECT(atomic_load(&frames_after_the_end) == 0);
    initialise(0);
    inside();
    finalise();
    EXPECT(frames() == 0);
    return 0;
}
