/* SPDX-License-Identifier: Apache-2.0
 *
 * A job in which nobody is slow, though no two steps are alike: every rank's pauses come from one distribution.
 * Lives here: the null case of the straggler test. Must not live here: any difference between ranks but the seed.
 *
 *   balanced SEED [STEPS]
 */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

static unsigned long long state;

/* Uniform in [0, 1). */
static double uniform(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

static void pause_ms(double ms) {
    struct timespec pause = {0, (long)(ms * 1e6)};
    nanosleep(&pause, NULL);
}

int main(int argc, char **argv) {
    int me, steps = argc > 2 ? atoi(argv[2]) : 30;
    double in[128] = {0}, out[128];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    state = 88172645463325252ull + 7919ull * (unsigned long long)(argc > 1 ? atoi(argv[1]) : 0);
    for (int i = 0; i <= 10 * me; i++)
        uniform();
    for (int step = 0; step < steps; step++) {
        /* Usually 24 to 36 ms, now and then much longer, as real steps are. Long enough for what a busy machine
         * really adds to one rank, a millisecond a step, to stay small beside it. */
        pause_ms(24.0 + 12.0 * uniform() + (uniform() < 0.03 ? 40.0 : 0.0));
        MPI_Allreduce(in, out, 128, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
