/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a library with RTLD_DEEPBIND whose calls of MPI then reach MPI before anything that is preloaded.
 *
 *   deepbind LIBRARY     LIBRARY is this source built as a library (-DLIBRARY), linked to MPI
 */
#ifdef LIBRARY
#include <mpi.h>

int work(void) {
    double mine = 1, sum = 0;
    MPI_Init(0, 0);
    for (int i = 0; i < 10; i++)
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum < 1;
}
#else
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : NULL;
    int (*work)(void) = library ? (int (*)(void))dlsym(library, "work") : NULL;
    if (!work) {
        fprintf(stderr, "deepbind: %s\n", dlerror());
        return 1;
    }
    return work();
}
#endif
