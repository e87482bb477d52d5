/* SPDX-License-Identifier: Apache-2.0
 *
 * A library loaded RTLD_LOCAL that looks up names of its own with RTLD_DEFAULT: found, since its own scope counts.
 * Lives here: the loading program, and with -DLIBRARY the library. Must not live here: MPI.
 *
 *   scope LIBRARY.so       prints how many of the names were found, and the values behind them
 */
#include <dlfcn.h>
#include <stdio.h>

#ifdef LIBRARY
int scope_values(int *values);
/* Names that begin as those of intercepted functions do. */
int MPIX_of_mine = 1, PMPI_of_mine = 2, nccl_of_mine = 3, cuda_of_mine = 4, hip_of_mine = 5;

int scope_values(int *values) {
    static const char *const names[] = {"MPIX_of_mine", "PMPI_of_mine", "nccl_of_mine", "cuda_of_mine", "hip_of_mine"};
    int found = 0;
    for (int i = 0; i < 5; i++) {
        const int *value = dlsym(RTLD_DEFAULT, names[i]);
        values[i] = value ? *value : 0;
        found += value != NULL;
    }
    return found;
}
#else
int main(int argc, char **argv) {
    void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
    int (*ask)(int *) = library ? (int (*)(int *))dlsym(library, "scope_values") : NULL;
    int values[5];
    if (!ask)
        return 9;
    printf("%d", ask(values));
    for (int i = 0; i < 5; i++)
        printf(" %d", values[i]);
    printf("\n");
    return 0;
}
#endif
