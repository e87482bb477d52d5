/* SPDX-License-Identifier: Apache-2.0
 *
 * Are the stacks right? A random walk through frames of every kind compares each stack that the shim writes down with
 * what glibc's backtrace() says at the same moment. Prints what was compared; exits 1 on a wrong frame, on too few
 * stacks, or when stacks end early where they need not.
 * Must not live here: the functions that are walked through (the other files), any figure of speed.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "shim/base/lookup.h"
#include "shim/base/unloads.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/threads.h"
#include "shim/record/recorder.h"
#include "shim/stacks/modules.h"
#include "shim/stacks/stacks.h"
#include "test/stacks/steps.h"

#define WANTED   120000u
#define LIMIT    64
#define THEIRS   (LIMIT + 16)
#define IDS      (1u << 20)
#define RELOADS  60
#define FIBRE_KB 512
#define WALKS    600 /* different ones: most stacks come more than once, as in a program */

static struct {
    unsigned stacks, frames, wrong, missed, cut, longer, no_id;
    unsigned signals, jumps, reloads_in_place, chains;
} seen;

/* What the shim asks for the full unwinder by; the library's own way is tested with the library. */
void *lookup_in_loaded(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    return handle ? dlsym(handle, name) : NULL;
}

/* ---- what the shim has written down ---------------------------------------------------------- */

static const struct stack_definition *definitions[IDS];
static unsigned modules_gone;

static void read_definitions(void) {
    static uint64_t read_to[DEFINITION_AREAS];
    for (unsigned a = 0; a < recorder.definitions.area_count; a++) {
        uint64_t end = recorder.definitions.used[a];
        while (read_to[a] < end && read_to[a] < recorder.definitions.sizes[a]) {
            const struct definition *d = (const void *)(recorder.definitions.areas[a] + read_to[a]);
            if (!d->commit)
                break;
            const struct stack_definition *stack = (const void *)d;
            if (d->commit == (DEFINITION_MAGIC | DEFINITION_STACK) && stack->id < IDS)
                definitions[stack->id] = stack;
            modules_gone += d->commit == (DEFINITION_MAGIC | DEFINITION_MODULE_GONE);
            read_to[a] += d->bytes;
        }
    }
}

static const struct stack_definition *definition_of(uint32_t id) {
    if (id < IDS && !definitions[id])
        read_definitions();
    return id && id < IDS ? definitions[id] : NULL;
}

/* ---- the comparison -------------------------------------------------------------------------- */

static bool is_same(uint64_t ours, void *const *theirs, int at) {
    uintptr_t pc = (uintptr_t)theirs[at];
    return ours == pc || ours == pc + 1; /* behind the interrupted instruction, not at it */
}

static void complain(const char *what, const struct stack_definition *ours, void *const *theirs, int n) {
    if (seen.wrong + seen.missed + seen.longer > 3)
        return;
    printf("%s\n", what);
    for (int i = 0; i < n || i < (int)ours->depth; i++)
        printf("  %2d %16lx %16lx\n", i, i < (int)ours->depth ? (unsigned long)ours->entries[i] : 0ul,
               i < n ? (unsigned long)theirs[i] : 0ul);
    backtrace_symbols_fd(theirs, n, 1);
}

static void compare(uint32_t id, void *const *theirs, int n) {
    const struct stack_definition *ours = definition_of(id);
    seen.stacks++;
    if (!ours) {
        seen.no_id++;
        return;
    }
    int depth = (int)ours->depth, i = 0;
    bool cut = ours->entries[depth - 1] == STACK_ENTRY_CUT;
    depth -= cut;
    while (i < depth && i < n && is_same(ours->entries[i], theirs, i))
        i++;
    seen.frames += (unsigned)i;
    if (i < depth && i < n) {
        seen.wrong++;
        complain("wrong frame", ours, theirs, n);
    } else if (i < depth) {
        seen.longer++;
        complain("goes on where glibc's ends", ours, theirs, n);
    } else if (cut && depth == LIMIT) {
        seen.cut++;
    } else if (i < n) {
        seen.missed++;
        complain("ends early", ours, theirs, n);
    }
}

__attribute__((noinline)) void look(void) {
    void *theirs[THEIRS];
    uint32_t id = stack_here(current_thread(), __builtin_frame_address(0), (uintptr_t)__builtin_dwarf_cfa());
    int n = backtrace(theirs, THEIRS);
    compare(id, theirs + 1, n - 1); /* theirs begins here, ours with the caller */
}

/* ---- the walk -------------------------------------------------------------------------------- */

extern const step_function frames_0[], frames_1[], frames_2[], frames_3[], frames_0_fp[], frames_1_fp[], frames_2_fp[],
    frames_3_fp[];
#ifdef THROWING
extern const step_function throwing_steps[];
#else
static const step_function throwing_steps[] = {go_on, NULL};
#endif

static const step_function *const tables[] = {frames_0,    frames_1,    frames_2,    frames_3,      frames_0_fp,
                                              frames_1_fp, frames_2_fp, frames_3_fp, throwing_steps};
#define TABLES (sizeof tables / sizeof *tables)

static __thread jmp_buf *target;
static __thread uint64_t state;

unsigned draw(unsigned n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

void jump_back(void) {
    if (target)
        longjmp(*target, 1);
}

/* Longjmp from far below leads back here. */
static long jumper(int depth) {
    jmp_buf here, *outer = target;
    if (setjmp(here) == 0) {
        target = &here;
        go_on(depth);
    } else {
        seen.jumps++;
    }
    target = outer;
    look();
    return 1;
}

static void handler(int number) {
    jmp_buf *outer = target;
    (void)number;
    target = NULL;
    look();
    go_on(1);
    seen.signals++;
    target = outer;
}

static long signalled(int depth) {
    raise(draw(2) ? SIGUSR1 : SIGUSR2);
    return go_on(depth);
}

#if defined(__x86_64__)
/* A frame that is found through a register which rules do not follow: the full unwinder's turn. */
long by_another_register(int depth);
__asm__(".text\n"
        "by_another_register:\n"
        "    .cfi_startproc\n"
        "    push %rbx\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbx, -16\n"
        "    lea 16(%rsp), %rbx\n"
        "    .cfi_def_cfa %rbx, 0\n"
        "    sub $48, %rsp\n"
        "    call go_on\n"
        "    lea -16(%rbx), %rsp\n"
        "    .cfi_def_cfa %rsp, 16\n"
        "    pop %rbx\n"
        "    .cfi_def_cfa_offset 8\n"
        "    ret\n"
        "    .cfi_endproc\n");
#else
#define by_another_register go_on
#endif

static long through_table(int depth) {
    unsigned number = draw(TABLES), count = 0;
    const step_function *table = tables[number];
    jmp_buf *outer = target;
    while (table[count])
        count++;
    if (table == throwing_steps)
        target = NULL; /* a jump over destructors is not defined */
    long below = table[draw(count)](depth);
    target = outer;
    return below;
}

__attribute__((noinline)) long go_on(int depth) {
    if (depth <= 0 || seen.stacks >= WANTED) {
        look();
        if (draw(4) == 0)
            jump_back();
        return 1;
    }
    switch (draw(16)) {
    case 0:
        return jumper(depth - 1) + 1;
    case 1:
        return signalled(depth - 1) + 1;
    case 2:
        look();
        return through_table(depth - 1) + through_table(depth - 2);
    case 3:
        return draw(8) ? through_table(depth - 1) : by_another_register(depth - 1) + 1;
    default:
        return through_table(depth - 1) + 1;
    }
}

static void *walk(void *stacks) {
    stack_t alternate = {.ss_sp = malloc(1 << 20), .ss_size = 1 << 20};
    sigaltstack(&alternate, NULL);
    unsigned end = seen.stacks + (unsigned)(uintptr_t)stacks;
    for (unsigned round = 0; seen.stacks < end && seen.stacks < WANTED; round++) {
        state = round % WALKS;
        go_on((int)draw(12));
    }
    alternate.ss_flags = SS_DISABLE;
    sigaltstack(&alternate, NULL);
    free(alternate.ss_sp);
    return NULL;
}

/* ---- special places -------------------------------------------------------------------------- */

__attribute__((noinline)) static long deep(int depth) {
    long below = depth ? deep(depth - 1) : go_on(3);
    look();
    return below + 1;
}

static ucontext_t outside;

static void fibre(void) {
    for (int i = 0; i < 40; i++)
        go_on(6);
}

static void on_another_stack(void) {
    for (int i = 0; i < 20; i++) {
        ucontext_t inside;
        getcontext(&inside);
        inside.uc_stack = (stack_t){.ss_sp = malloc(FIBRE_KB << 10), .ss_size = FIBRE_KB << 10};
        inside.uc_link = &outside;
        makecontext(&inside, fibre, 0);
        swapcontext(&outside, &inside);
        free(inside.uc_stack.ss_sp);
    }
}

static uint32_t plugin_id;

static long look_from_plugin(int depth) {
    (void)depth;
    look();
    plugin_id = stack_here(current_thread(), __builtin_frame_address(0), (uintptr_t)__builtin_dwarf_cfa());
    return 1;
}

/* Libraries that come to lie where another one was: neither rules nor stacks of the old one may be believed. */
static void reload(const char *directory) {
    uint32_t id_before = 0;
    void *address_before = NULL;
    for (int i = 0; i < RELOADS; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/plugin%d.so", directory, i % 2 + 1);
        void *handle = dlopen(path, RTLD_NOW);
        void (*use)(long (*)(int)) = handle ? (void (*)(long (*)(int)))dlsym(handle, "plugin_use") : NULL;
        long (*step)(int) = handle ? (long (*)(int))dlsym(handle, "plugin_step") : NULL;
        if (!use || !step) {
            printf("%s\n", dlerror());
            exit(1);
        }
        use(look_from_plugin);
        step(2);
        if ((void *)step == address_before) {
            seen.reloads_in_place++;
            seen.wrong += plugin_id == id_before;
        }
        id_before = plugin_id;
        address_before = (void *)step;
        dlclose(handle);
        unloads_look(); /* what the hook does */
    }
}

long silent(long (*next)(int), int depth);
long silent_fp(long (*next)(int), int depth);

static void *outer_frames[THEIRS];
static int outer_count;

/* Below a function without tables: what lies above it must be what it was, or missing. */
static long look_below_silence(int depth) {
    (void)depth;
    uint32_t id = stack_here(current_thread(), __builtin_frame_address(0), (uintptr_t)__builtin_dwarf_cfa());
    const struct stack_definition *ours = definition_of(id);
    if (!ours || ours->depth < 2)
        exit(1);
    if (ours->entries[1] == STACK_ENTRY_CUT)
        return 0;
    seen.chains++;
    for (int i = 1; i < outer_count && i + 1 < (int)ours->depth && ours->entries[i + 1] != STACK_ENTRY_CUT; i++)
        seen.wrong += ours->entries[i + 1] != (uintptr_t)outer_frames[i];
    return 0;
}

static void through_silence(void) {
    outer_count = backtrace(outer_frames, THEIRS);
    silent(look_below_silence, 1);
    unsigned before = seen.chains;
    silent_fp(look_below_silence, 1);
    if (seen.chains == before) {
        printf("a chain of frame pointers was not followed\n");
        exit(1);
    }
}

int main(int argc, char **argv) {
    char directory[] = "/tmp/commtap-stacks-XXXXXX", command[64];
    void *warm[2];
    backtrace(warm, 2); /* loads libgcc_s now, not during the walk */
    if (argc != 2 || !mkdtemp(directory))
        return 2;
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_STACK", "native", 1);
    knobs_read(&recorder.knobs);
    if (!activate_process())
        return 2;
    signal(SIGUSR1, handler);
    struct sigaction on_alternate = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR2, &on_alternate, NULL);

    walk((void *)(uintptr_t)(WANTED / 2));
    deep(LIMIT / 2);
    deep(3 * LIMIT);
    through_silence();
    reload(argv[1]);
    on_another_stack();
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, walk, (void *)(uintptr_t)(WANTED / 10)) == 0)
            pthread_join(thread, NULL);
    walk((void *)(uintptr_t)WANTED);
    read_definitions();
    printf(
        "stacks %u frames %u wrong %u missed %u without id %u cut %u longer %u signals %u jumps %u reloads in place %u "
        "modules gone %u\n",
        seen.stacks, seen.frames, seen.wrong, seen.missed, seen.no_id, seen.cut, seen.longer, seen.signals, seen.jumps,
        seen.reloads_in_place, modules_gone);
    snprintf(command, sizeof command, "rm -rf %s", directory);
#if defined(__aarch64__)
    seen.reloads_in_place |= 1; /* where an emulator puts libraries is its own affair */
#endif
    bool good = seen.stacks >= 100000 && !seen.wrong && !seen.longer && seen.missed <= seen.stacks / 1000 &&
                seen.no_id <= seen.stacks / 1000 && seen.cut && seen.signals && seen.jumps && seen.reloads_in_place &&
                modules_gone;
    return system(command) == 0 && good ? 0 : 1;
}
