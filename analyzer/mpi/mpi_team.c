/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/mpi/mpi_team.h"

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PIECE = 1 << 20, /* bytes of the largest message: far beyond what latency costs, far below what MPI can count */
    TAG = 1,
};

static char library[MPI_MAX_LIBRARY_VERSION_STRING];

/* ---- blocks from everybody to everybody -------------------------------------------------------------------------- */

/* The next piece of a block, `done` bytes of which have travelled, and 0 bytes behind its end. */
static int piece_of(const struct team_block *block, size_t done) {
    size_t left = block->count > done ? block->count - done : 0;
    return (int)(left < PIECE ? left : PIECE);
}

/* One block each way, piece by piece. */
static void swap_blocks(const struct team_block *to, int receiver, struct team_block *from, int sender) {
    for (size_t done = 0; done < to->count || done < from->count; done += PIECE) {
        int out = piece_of(to, done), in = piece_of(from, done);
        PMPI_Sendrecv(to->bytes + (out ? done : 0), out, MPI_BYTE, out ? receiver : MPI_PROC_NULL, TAG,
                      from->bytes + (in ? done : 0), in, MPI_BYTE, in ? sender : MPI_PROC_NULL, TAG, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE);
    }
}

static bool all_have(bool mine) {
    int have = mine;
    PMPI_Allreduce(MPI_IN_PLACE, &have, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return have;
}

/* Room for what comes, as all others have said how much it is. */
static bool make_room(const struct team *team, struct team_block *from) {
    bool enough = true;
    for (unsigned p = 0; p < team->processes; p++)
        if (p != team->number && !(from[p].bytes = malloc(from[p].count + 1)))
            enough = false;
    return enough;
}

/* In step s everybody sends to who is s places further on: each link carries one block at a time. */
static bool exchange(void *context, const struct team_block *to, struct team_block *from) {
    const struct team *team = context;
    unsigned n = team->processes;
    memset(from, 0, n * sizeof *from);
    for (unsigned step = 1; step < n; step++) {
        unsigned receiver = (team->number + step) % n, sender = (team->number + n - step) % n;
        uint64_t out = to[receiver].count, in = 0;
        PMPI_Sendrecv(&out, 1, MPI_UINT64_T, (int)receiver, TAG, &in, 1, MPI_UINT64_T, (int)sender, TAG, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE);
        from[sender].count = in;
    }
    if (!all_have(make_room(team, from))) {
        team_free(team, from);
        return false;
    }
    for (unsigned step = 1; step < n; step++) {
        unsigned receiver = (team->number + step) % n, sender = (team->number + n - step) % n;
        swap_blocks(&to[receiver], (int)receiver, &from[sender], (int)sender);
    }
    return true;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

/* Processors that no other process of the team on this machine uses; the least of all machines. A launcher may have
 * bound processes to their own ones, or have left all to all. */
static unsigned own_processors(void) {
    MPI_Comm machine;
    int beside = 1;
    cpu_set_t set;
    PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    PMPI_Comm_size(machine, &beside);
    PMPI_Comm_free(&machine);
    long share = sysconf(_SC_NPROCESSORS_ONLN) / beside;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) < share)
        share = CPU_COUNT(&set);
    int least = share < 1 ? 1 : (int)share;
    PMPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return (unsigned)least;
}

bool mpi_team_begin(struct team *team, int *argc, char ***argv) {
    int granted, processes, number, length;
    PMPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &granted);
    PMPI_Comm_size(MPI_COMM_WORLD, &processes);
    PMPI_Comm_rank(MPI_COMM_WORLD, &number);
    PMPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = '\0'; /* what else there is tells who built it */
    for (char *tab; (tab = strchr(library, '\t')) != NULL;)
        *tab = ' ';
    *team = (struct team){.processes = (unsigned)processes,
                          .number = (unsigned)number,
                          .threads = own_processors(),
                          .library = library,
                          .exchange = exchange,
                          .context = team,
                          .outgoing = calloc((size_t)processes, sizeof *team->outgoing),
                          .incoming = calloc((size_t)processes, sizeof *team->incoming)};
    return all_have(team->outgoing && team->incoming);
}

void mpi_team_end(struct team *team) {
    free(team->outgoing);
    free(team->incoming);
    PMPI_Finalize();
}
