/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the peers of a rank take for the same piece of their GPUs' work.
 * Lives here: pieces of work of a GPU by their number on it, and the median of the peers'.
 * Must not live here: other own work (usual_lengths.h), and what is made of it (what_if.h).
 *
 * Where computation overlaps communication, which piece of work lies between which two collectives depends on who came
 * late: a rank that waits works on meanwhile, and has all of it in one stretch. By its number a piece is the same on
 * all ranks, whoever waited.
 */
#ifndef COMMTAP_REPLAY_USUAL_KERNELS_H
#define COMMTAP_REPLAY_USUAL_KERNELS_H

#include "analyzer/replay/replay.h"

/* Sets the tails of the pieces of work of a GPU of those that `mended` marks to the median of the same pieces of those
 * with the same number in `peers` that are not marked and have as many pieces. That is done where at least half of
 * these have; else, and where a rank of the same number is marked that they are not peers of in this way, the tails
 * stay. by_number: one per dump; whether its peers' pieces are compared so. Returns false when memory is short. */
bool usual_kernels_find(const struct replay *replay, const uint32_t *peers, const bool *mended, int64_t *tail_ns,
                        bool *by_number);

#endif
