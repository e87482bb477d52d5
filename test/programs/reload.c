/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads two libraries in turn, ten times each, calls back through them into MPI, and unloads them: the second comes to
 * lie where the first was.
 *
 *   reload FIRST.so SECOND.so      each has a function step(int (*)(void))
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

static int allreduce(void) {
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    return sum;
}

int main(int argc, char **argv) {
    int in_place = 0;
    void *before = NULL;
    MPI_Init(&argc, &argv);
    for (int i = 0; argc > 2 && i < 20; i++) {
        void *library = dlopen(argv[1 + i % 2], RTLD_NOW);
        int (*step)(int (*)(void)) = library ? (int (*)(int (*)(void)))dlsym(library, "step") : NULL;
        if (!step)
            return 9;
        step(allreduce);
        in_place += (void *)step == before;
        before = (void *)step;
        dlclose(library);
    }
    printf("in place %d\n", in_place);
    MPI_Finalize();
    return 0;
}
