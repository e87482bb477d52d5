/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes of this job step run on this node, and until when they lived.
 * Lives here: finding them by their dumps, which lie beside this process's own; looking whether they live; the rows.
 * Must not live here: who looks, and when (heartbeat.h).
 *
 * One thread at a time. It opens files: none of the job's threads may share its table of descriptors.
 */
#ifndef COMMTAP_SHIM_INTERCEPT_NEIGHBOURS_H
#define COMMTAP_SHIM_INTERCEPT_NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>

/* Makes room for rows in this process's dump, and the first one, its own. False: there is none. */
bool neighbours_begin(void);

/* Looks for processes that have begun to record: same job step, same machine, same user, process ids of the same
 * namespace. Of those that are gone already, and did not end as they should, that is noted. Those whose dumps lie
 * elsewhere are not found. */
void neighbours_find(void);

/* Notes which of them live, in turns where they are many; this one does. */
void neighbours_look(void);

/* Of those that come before this process, by the launcher's number on the node or, where it gives none, by process id,
 * how many live, having looked. `pids`: of the first `most` of these. *known: how many were ever found. */
uint32_t neighbours_before(int64_t *pids, uint32_t most, uint32_t *known);

#endif
