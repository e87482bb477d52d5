/* SPDX-License-Identifier: Apache-2.0
 *
 * One command that several processes run together: they come to one result, which one of them writes.
 * Lives here: whose output is seen, whether all see the same dumps, the exit code that all agree on.
 * Must not live here: how processes meet (base/team.h), what a command does.
 *
 * Process 0 writes standard output and files. What processes say on standard error is kept until the end: there it
 * shows whether they say the same.
 */
#ifndef COMMTAP_CLI_PROCESSES_H
#define COMMTAP_CLI_PROCESSES_H

#include "analyzer/base/team.h"
#include "analyzer/dumps/set.h"

/* The standard streams of this process while the command runs. */
struct processes {
    struct team *team;
    int words;  /* what stands for standard error, -1: it is itself */
    int errors; /* standard error as it was */
};

/* Before the command, and after it with its exit code: returns what all exit with, after process 0 has said what there
 * is to say. A team that is not shared changes nothing. */
void processes_begin(struct processes *processes, struct team *team);
int processes_end(struct processes *processes, int code);

/* To be called by every process with the dumps that it has opened. Returns EXIT_FINE where all have the same ones and
 * nobody writes to them any more, each then with what others know of its process; else EXIT_UNUSABLE (EXIT_OUTPUT:
 * memory), after a message. */
int processes_compare_input(struct team *team, struct dump_set *set);

#endif
