/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes of an elastic job were started together.
 * Lives here: putting together what torchrun's agents count differently. Must not live here: which job is looked at
 * (analyzer/job); parting launches by time (lifetime.h).
 */
#ifndef COMMTAP_DUMPS_STARTS_H
#define COMMTAP_DUMPS_STARTS_H

#include "analyzer/load/dump.h"

/* torchrun's agent of each node counts the restarts of its own workers alone: where a worker of one node fails, those
 * of the others are started again and not counted, so that one start has several counts. Processes that are members of
 * one communicator of NCCL were started together whatever they count: in runs with several counts dump->generation
 * becomes the largest of them, dump->world_id that of a process that counts so, and launches and duplicates are told
 * anew by it. The dumps are sorted by run, world, generation and launch, and no longer afterwards. False: memory is
 * short. */
bool starts_join(struct dump **dumps, size_t count);

#endif
