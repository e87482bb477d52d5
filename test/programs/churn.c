/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators that are made, used once and freed, over and over, as libraries do that keep none.
 * Must not live here: what a dump should hold afterwards (test/e2e).
 *
 *   churn MODE ROUNDS
 *
 *   self    copies of MPI_COMM_SELF
 *   world   copies of MPI_COMM_WORLD, each with a name
 *   halves  two groups of ranks, by turns of equal size and one of them rank 0 alone, and copies of them
 *   crossed two copies of the world at a time, freed in the order of their making
 *   busy    copies of the world that are freed with a receive posted, which is cancelled when the next one is in use
 *   hang    like world, but rank 1 stays away from the last one's Allreduce
 */
#include <mpi.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"

static int me, n, in;

static void use(MPI_Comm comm) {
    int mine = 1, sum = 0, size;
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != size)
        MPI_Abort(MPI_COMM_WORLD, 8);
}

static void copy_of(MPI_Comm parent, const char *name) {
    MPI_Comm comm;
    MPI_Comm_dup(parent, &comm);
    if (name)
        MPI_Comm_set_name(comm, name);
    use(comm);
    MPI_Comm_free(&comm);
}

static void halves(int round) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, round % 2 ? me == 0 : me < n / 2, 0, &half);
    use(half);
    copy_of(half, NULL);
    MPI_Comm_free(&half);
}

static void crossed(void) {
    MPI_Comm first, second;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    use(second);
    use(first);
    use(second);
    MPI_Comm_free(&first);
    use(second);
    MPI_Comm_free(&second);
}

static MPI_Request earlier;

static void cancel_earlier(void) {
    if (earlier != MPI_REQUEST_NULL) {
        MPI_Cancel(&earlier);
        MPI_Wait(&earlier, MPI_STATUS_IGNORE);
    }
}

/* On odd ranks only, so that ranks differ in when the library really lets go of the communicator. */
static void busy(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    use(comm);
    cancel_earlier();
    if (me % 2)
        MPI_Irecv(&in, 1, MPI_INT, me - 1, 0, comm, &earlier);
    MPI_Comm_free(&comm);
}

static void stay_away(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "the last");
    while (me == 1)
        sleep(1);
    use(comm);
}

static void do_round(const char *mode, int round) {
    if (!strcmp(mode, "self"))
        copy_of(MPI_COMM_SELF, NULL);
    else if (!strcmp(mode, "halves"))
        halves(round);
    else if (!strcmp(mode, "crossed"))
        crossed();
    else if (!strcmp(mode, "busy"))
        busy();
    else
        copy_of(MPI_COMM_WORLD, "passing");
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    earlier = MPI_REQUEST_NULL;
    for (int round = 0; round < atoi(argv[2]); round++)
        do_round(argv[1], round);
    cancel_earlier();
    if (!strcmp(argv[1], "hang"))
        stay_away();
    MPI_Finalize();
    return 0;
}
