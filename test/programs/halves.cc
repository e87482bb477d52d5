/* SPDX-License-Identifier: Apache-2.0
 *
 * A program whose calls are made by a library of its own (-DLIBRARY makes that). Lines that make a call bear a mark;
 * test_calls.py knows the tree.
 */
#include <mpi.h>
#include <unistd.h>

void meet();

#ifdef LIBRARY
void meet() {
    MPI_Barrier(MPI_COMM_WORLD); // @meet
    asm volatile("" ::: "memory");
}
#else
int main(int argc, char **argv) {
    if (chdir("/") != 0) /* what was loaded by a relative path is not found by it any more */
        return 1;
    MPI_Init(&argc, &argv); // @init
    meet();                 // @main-meet
    MPI_Finalize();         // @finalize
    return 0;
}
#endif
