/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls MPI from functions that the compiler puts into their callers, and through MPI's own inline wrappers. Lines that
 * make a call bear a mark; test_calls.py knows the tree.
 */
#include <mpi.h>

#define INLINE static inline __attribute__((always_inline))

namespace app {
template <class T> struct Grid {
    INLINE void exchange(T *value) {
        MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); // @exchange
        *value /= 2;
    }
};
} // namespace app

INLINE void solve(double *value) {
    for (int i = 0; i < 5; i++)
        app::Grid<double>::exchange(value); // @solve
    *value += 1;
}

/* A library of wrappers in a header: who uses it looks for the line that uses it. */
namespace mpl {
INLINE void barrier() {
    MPI_Barrier(MPI_COMM_WORLD); // @wrapper
    asm volatile("" ::: "memory");
}
} // namespace mpl

int main(int argc, char **argv) {
    double value = 1;
    MPI_Init(&argc, &argv); // @init
    solve(&value);          // @main-solve
    mpl::barrier();         // @main-barrier
    MPI_Finalize();         // @finalize
    return value == 0;
}
