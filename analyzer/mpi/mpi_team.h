/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of MPI_COMM_WORLD as a team.
 * Lives here: MPI, by the names that nobody records (PMPI_): its beginning and end, and blocks from everybody to
 * everybody. Must not live here: what processes tell each other.
 */
#ifndef COMMTAP_MPI_MPI_TEAM_H
#define COMMTAP_MPI_MPI_TEAM_H

#include "analyzer/base/team.h"

/* Begins MPI. Returns false when memory is short; mpi_team_end in every case. */
bool mpi_team_begin(struct team *team, int *argc, char ***argv);
void mpi_team_end(struct team *team);

#endif
