/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls MPI from where a call tree is hard to tell: templates, virtual functions, recursion, a callback from libc, a
 * handler of an exception. Lines that make a call bear a mark; test_calls.py knows the tree.
 */
#include <cstdlib>
#include <mpi.h>
#include <stdexcept>

#define NOINLINE __attribute__((noinline))
#define STAY     asm volatile("" ::: "memory") /* no tail call */

namespace app {
struct Exchange {
    virtual ~Exchange() = default;
    virtual void run(double *value) = 0;
};

template <class T> struct Halo : Exchange {
    NOINLINE void run(double *value) override {
        MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); // @halo
        STAY;
    }
};

NOINLINE void step(Exchange &exchange, int number) {
    double value = number;
    exchange.run(&value); // @step
    STAY;
}
} // namespace app

static NOINLINE void recurse(int depth) {
    if (depth > 0)
        recurse(depth - 1); // @again
    else
        MPI_Barrier(MPI_COMM_WORLD); // @barrier
    STAY;
}

static NOINLINE int compare(const void *a, const void *b) {
    int value = 1;
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD); // @compare
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

static NOINLINE void fail() {
    throw std::runtime_error("on purpose");
}

static NOINLINE void handle() {
    try {
        fail();
    } catch (const std::exception &) {
        MPI_Barrier(MPI_COMM_WORLD); // @handle
    }
    STAY;
}

int main(int argc, char **argv) {
    int numbers[] = {2, 1};
    app::Halo<double> halo;
    MPI_Init(&argc, &argv); // @init
    for (int i = 0; i < 5; i++)
        app::step(halo, i);                            // @loop
    recurse(3);                                        // @recurse
    qsort(numbers, 2, sizeof numbers[0], compare);     // @sort
    handle();                                          // @main-handle
    MPI_Finalize();                                    // @finalize
    return 0;
}
