/* SPDX-License-Identifier: Apache-2.0
 *
 * The heartbeat: a thread that sleeps, and every BEAT_NS notes which processes of the job are alive on its node. A job
 * that hangs makes no calls, and leaves nothing else from which to tell how long it stood before it was killed.
 * Lives here: which processes have such a thread, and when it wakes.
 * Must not live here: what it notes (neighbours.h).
 *
 * Two processes of each node do so, local ranks 0 and 1, and both note the same: no lock, nothing shared. Two more,
 * local ranks 2 and 3, have such a thread that sleeps until one of those before it ends, which the kernel tells
 * (pidfd_open, Linux 5.9 for a table of descriptors of its own), and beats from then on where fewer than two before it
 * are left: so the two can end at once. Where the launcher does not number them, each process begins with a thread, and
 * after the first look all but the four with the lowest process ids let it end.
 *
 * They wake at multiples of BEAT_NS of the calendar: on all nodes at once, which costs a job of many nodes whose ranks
 * wait for each other one interruption, and not one for each node.
 */
#ifndef COMMTAP_SHIM_INTERCEPT_HEARTBEAT_H
#define COMMTAP_SHIM_INTERCEPT_HEARTBEAT_H

/* The process records from now on: starts the thread where this is one of those that have one. Where there is no room
 * for it or its notes, the job goes on without. Nothing is noted any more, but for a beat that is under way, once the
 * header says that the process exits or records no longer. */
void heartbeat_begin(void);

#endif
