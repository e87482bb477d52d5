/* SPDX-License-Identifier: Apache-2.0
 *
 * A program without any MPI or NCCL that asks whether they are there: the answer must be no.
 * Lives here: look-ups of every kind. Must not live here: MPI headers or libraries (this is built without).
 *
 * Prints one line per look-up; the test wants every line to end in "absent" or "right".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void say(const char *how, const char *name, const void *found) {
    printf("%s %s %s\n", how, name, found ? "PRESENT" : "absent");
}

static void look_up(const char *name) {
    void *program = dlopen(NULL, RTLD_NOW);
    dlerror();
    say("default", name, dlsym(RTLD_DEFAULT, name));
    const char *error = dlerror();
    printf("error of %s %s\n", name, error && strstr(error, name) ? "right" : "WRONG");
    say("next", name, dlsym(RTLD_NEXT, name));
    say("program", name, dlsym(program, name));
    say("versioned", name, dlvsym(RTLD_DEFAULT, name, "GLIBC_2.2.5"));
    dlerror();
    dlclose(program);
}

int main(void) {
    static const char *const names[] = {"MPI_Allreduce", "MPI_Init",      "MPI_Send",     "PMPI_Allreduce",
                                        "PMPI_Init",     "ncclAllReduce", "ncclCommCount"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        look_up(names[i]);
    /* what is there must still be found, and be the right one */
    printf("default printf %s\n", dlsym(RTLD_DEFAULT, "printf") == (void *)printf ? "right" : "WRONG");
    return 0;
}
