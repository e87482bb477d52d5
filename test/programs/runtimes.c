/* SPDX-License-Identifier: Apache-2.0
 *
 * Two versions of a CUDA runtime in one process, each brought by a library loaded RTLD_LOCAL: frameworks do that.
 * Lives here: the loading program; with -DRUNTIME=n a runtime that answers n; with -DUSER a library linked to one.
 * Must not live here: a real runtime.
 *
 *   runtimes DIRECTORY     prints the answers of both, twice, and whether the first is still loaded once closed
 */
#include <dlfcn.h>
#include <stdio.h>

int cudaDeviceReset(void);
int use(void);

#if defined(RUNTIME)
int cudaDeviceReset(void) {
    return RUNTIME;
}
#elif defined(USER)
int use(void) {
    int answer = cudaDeviceReset();
    return answer + 1000;
}
#else
static void *opened(const char *directory, int number, int how) {
    char path[4096];
    snprintf(path, sizeof path, "%s/user%d.so", directory, number);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | how);
}

int main(int argc, char **argv) {
    const char *directory = argc > 1 ? argv[1] : ".";
    void *libraries[] = {opened(directory, 11, 0), opened(directory, 12, 0)};
    for (int i = 0; i < 4; i++) {
        int (*call)(void) = libraries[i % 2] ? (int (*)(void))dlsym(libraries[i % 2], "use") : NULL;
        printf("%d ", call ? call() : 0);
    }
    dlclose(libraries[0]);
    printf("%s\n", opened(directory, 11, RTLD_NOLOAD) ? "loaded" : "gone");
    return 0;
}
#endif
