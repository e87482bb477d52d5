/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries that work with and without MPI refer to it weakly and ask MPI_Initialized whether it runs.
 * Lives here: such a library's first call, in a program without MPI. Must not live here: MPI headers or libraries.
 *
 * A preloaded wrapper makes the weak reference non-null: the question must then be answered with "no", without harm.
 */
#include <stdio.h>

extern int MPI_Initialized(int *flag) __attribute__((weak));
extern int MPI_Finalized(int *flag) __attribute__((weak));
extern int MPI_Barrier(void *comm) __attribute__((weak));

int main(void) {
    int flag = 0;
    if (MPI_Initialized && (MPI_Initialized(&flag) != 0 || flag)) {
        puts("MPI_Initialized claims that MPI runs");
        return 1;
    }
    flag = 0;
    if (MPI_Finalized && (MPI_Finalized(&flag) != 0 || flag)) {
        puts("MPI_Finalized claims that MPI ran");
        return 1;
    }
    if (MPI_Barrier && MPI_Barrier(NULL) == 0) {
        puts("MPI_Barrier claims to have worked");
        return 1;
    }
    puts("no MPI here");
    return 0;
}
