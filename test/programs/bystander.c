/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that interposes on the C library, as sanitizers, allocators and heap profilers do, and watches who calls
 * it. Lives here: telling calls of commtap's library from others. Must not live here: MPI.
 *
 * Preloaded behind commtap. Each call of commtap's that reaches it is named on stderr; it counts on none: while such a
 * library starts its functions cannot be called, and later it would take commtap's doings for the job's. It starts
 * before commtap does, and looks a function up at once.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/tail_jump.h"

static uintptr_t low, high;

static int find_commtap(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    if (!strstr(info->dlpi_name, "libcommtap.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            high = low + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

static void watch(const char *name, uintptr_t caller) {
    if (!high) {
        high = 1; /* dl_iterate_phdr may be watched, too */
        dl_iterate_phdr(find_commtap, NULL);
    }
    if (caller < low || caller >= high)
        return;
    (void)!write(STDERR_FILENO, name, strlen(name));
    (void)!write(STDERR_FILENO, " was called by commtap\n", 23);
}

/* Functions that differ in nothing but their name: each looks at who calls and jumps to the one behind. */
#define WATCH(name)                                                                                                    \
    __attribute__((visibility("hidden"), used)) void *choose_##name(uintptr_t a, uintptr_t b, uintptr_t c,             \
                                                                    uintptr_t caller) {                                \
        static void *behind;                                                                                           \
        (void)a, (void)b, (void)c;                                                                                     \
        watch(#name, caller);                                                                                          \
        if (!behind)                                                                                                   \
            behind = dlsym(RTLD_NEXT, #name);                                                                          \
        return behind;                                                                                                 \
    }                                                                                                                  \
    TAIL_JUMP(name, choose_##name);
WATCH(access)
WATCH(clock_gettime)
WATCH(close)
WATCH(dl_iterate_phdr)
WATCH(dladdr)
WATCH(fallocate)
WATCH(ftruncate)
WATCH(getcwd)
WATCH(getenv)
WATCH(getpid)
WATCH(getrandom)
WATCH(lseek)
WATCH(madvise)
WATCH(memcmp)
WATCH(mkdir)
WATCH(munmap)
WATCH(nanosleep)
WATCH(open)
WATCH(poll)
WATCH(prctl)
WATCH(read)
WATCH(readlink)
WATCH(rename)
WATCH(sigprocmask)
WATCH(sigtimedwait)
WATCH(statfs)
WATCH(strchr)
WATCH(strcmp)
WATCH(strncmp)
WATCH(strrchr)
WATCH(sysconf)
WATCH(uname)
WATCH(unlink)
WATCH(pthread_create)
WATCH(pthread_key_create)
WATCH(__errno_location)

__attribute__((constructor)) static void look_up_early(void) {
    const char *answer = dlsym(RTLD_DEFAULT, "MPI_Init") ? "MPI is there\n" : "MPI is not there\n";
    (void)!write(STDOUT_FILENO, answer, strlen(answer));
    (void)!dlsym(RTLD_DEFAULT, "strtol");
    (void)!dlsym(RTLD_NEXT, "cudaGraphLaunch");
    dlerror();
}
