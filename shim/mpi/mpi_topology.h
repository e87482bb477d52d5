/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual topologies of communicators: who is whose neighbour.
 * Lives here: asking the library, counting the entries of neighbourhood collectives' arrays, and telling the dump from
 * whom these take. Must not live here: bytes (mpi_bytes.h), what other communicators have (mpi_communicators.h).
 *
 * Only local functions of the library are called, on communicators that it has made.
 */
#ifndef COMMTAP_MPI_TOPOLOGY_H
#define COMMTAP_MPI_TOPOLOGY_H

#include "shim/mpi/mpi_communicators.h"

/* Finds outdegree, neighbours and missing of a communicator with a topology; 0 neighbours when it has none. */
void mpi_topology_count(struct mpi_communicator *c);

/* Tells the dump from whom the neighbourhood collectives of a communicator take that was made just now, unless it has
 * said so: at its creation, since asking takes as long as there are neighbours. NULL and what has no topology are
 * accepted. */
void mpi_topology_define(struct communicator *made);

#endif
