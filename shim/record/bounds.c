/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/bounds.h"

#include <stdlib.h>
#include <unistd.h>

#include "shim/base/os.h"

#define WHOLE 1000000u /* as knob_percent has it */

bool bounds_choose_job(const struct dump_header *identity, uint64_t share) {
    const char *job = identity->job_id[0] ? identity->job_id : identity->run_id;
    return share >= WHOLE || hash_text(hash_text(0, "commtap share"), job) % WHOLE < share;
}

/* ---- how much ---------------------------------------------------------------------------------- */

/* Until MPI_Init a rank without a launcher counts as the only one. */
static uint64_t part_of(uint64_t quota, int64_t processes) {
    uint64_t part = quota / (processes > 0 ? (uint64_t)processes : 1);
    return quota && part == 0 ? 1 : part;
}

/* Processors of this node that Slurm has given to the job, 0: it does not tell. */
static int64_t processors_given(void) {
    const char *text = getenv("SLURM_CPUS_ON_NODE");
    int64_t given;
    return text && parse_signed(text, &given) && given > 0 ? given : 0;
}

/* Other jobs may run on the node, and know nothing of this one. Each keeps to its part of the processors, none of which
 * is given out twice: by Slurm to jobs, by launchers to processes, unless told otherwise. */
static uint64_t part_of_node(uint64_t quota, const struct dump_header *identity) {
    int64_t online = sysconf(_SC_NPROCESSORS_ONLN), given = processors_given(), processes = identity->local_size;
    if (given == 0)
        return part_of(quota, processes > online ? processes : online);
    if (given > online)
        given = online;
    if (processes <= 0)
        processes = identity->world_size < given ? identity->world_size : given;
    uint64_t of_job =
        quota / (uint64_t)online * (uint64_t)given + quota % (uint64_t)online * (uint64_t)given / (uint64_t)online;
    return part_of(of_job > 0 ? of_job : 1, processes);
}

uint64_t bounds_quota(const struct dump_header *identity, const struct knobs *knobs) {
    uint64_t of_job = part_of(knobs->quota, identity->world_size);
    uint64_t of_node = knobs->node_quota ? part_of_node(knobs->node_quota, identity) : 0;
    return !of_job || (of_node && of_node < of_job) ? of_node : of_job;
}

/* ---- how long ---------------------------------------------------------------------------------- */

static bool succeeded;

static void note_status(int status, void *unused) {
    (void)unused;
    succeeded = status == 0;
}

/* The destructor is not told the status. A forked child has its parent's handler. */
void bounds_watch_exit(const struct knobs *knobs) {
    static bool watched;
    if (knobs->min_seconds > 0 && !watched)
        watched = on_exit(note_status, NULL) == 0;
}

/* NCCL alone: nothing need be finalised. */
static bool ended_well(const struct dump_header *header) {
    uint32_t well = header->mpi_family ? STATE_FINALISED : STATE_INITIALISED;
    return succeeded && header->state & well && !(header->state & (STATE_ABORTING | STATE_SWITCHED_OFF));
}

bool bounds_leave_nothing(const struct dump_header *header, const struct knobs *knobs, uint64_t started_ns) {
    uint64_t now = os_realtime_ns();
    return knobs->min_seconds > 0 && ended_well(header) && now > started_ns &&
           (now - started_ns) / 1000000000u < knobs->min_seconds;
}
