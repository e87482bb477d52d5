/* SPDX-License-Identifier: Apache-2.0
 *
 * From when to when a process was there, and which dumps are of one launch.
 * Lives here: the first and last moment that a dump tells of; parting launches of one program that have the same names.
 * Must not live here: which job is looked at (analyzer/job).
 */
#ifndef COMMTAP_DUMPS_LIFETIME_H
#define COMMTAP_DUMPS_LIFETIME_H

#include "analyzer/load/dump.h"

/* CLOCK_REALTIME of the process's host. */
struct lifetime {
    bool known;
    bool ended; /* properly: then nothing came after `end_ns`; of others it is the last that is known */
    int64_t start_ns, end_ns;
};
struct lifetime dump_lifetime(const struct dump *dump);

/* Whether the process came to the end of its communication: by MPI_Finalize; NCCL alone has none, and a normal exit is
 * its end. */
bool dump_has_finished(const struct dump_header *header);

/* Numbers the launches of each (run, world, generation) in dump->launch, from 0, and tells dump->is_duplicate. A
 * process that began on its host when all the others there had ended, or whose rank another one had that ended before,
 * belongs to a later launch: launchers without a job id of their own give the second one of a script the names of the
 * first. Those that a process of the launch has forked belong to it whenever they began. The dumps are sorted by run,
 * world, generation and rank. False: memory is short. */
bool launches_part(struct dump **dumps, size_t count);

#endif
