/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the process that wrote a dump still runs, asked of this host's kernel.
 * Lives here: pids, boot id, start time.
 * Must not live here: what a dump holds.
 */
#ifndef COMMTAP_DUMPS_PROCESS_H
#define COMMTAP_DUMPS_PROCESS_H

#include "analyzer/dumps/process_state.h"
#include "analyzer/load/dump.h"

struct process_look {
    char letter;    /* the kernel's for its state */
    bool ending;    /* dead and not yet reaped, on its way out, or a signal that ends it is pending */
    int status;     /* as wait tells it; 0 not known yet */
    double started; /* seconds after boot */
};

/* What the kernel tells of a process. False when there is none. */
bool process_look(int64_t pid, struct process_look *look);

/* Whether the process behind a pidfd has ended and been waited for by its parent, after which /proc knows nothing of it
 * any more. Then *status is how it ended, as wait tells it. False also where the kernel cannot say (before 6.15). */
bool process_was_reaped(int pidfd, int *status);

/* This boot's id, as dumps have it. False where the kernel does not tell. */
bool process_boot_id(char *text, size_t size);

/* A process of this boot with the dump's pid that started when the dump says (to 5 s), which may be stopped; gone
 * where there is none or it is about to end; elsewhere where the dump was written under another boot id, or in a PID
 * namespace (of a container) of which nothing is seen from here, and nobody has told that it is_gone. */
enum process_state process_state(const struct dump *dump);
/* The same of all dumps, at less cost where they are of other namespaces. */
void process_states(struct dump *const *dumps, size_t count, enum process_state *states);
/* The same of what a dump's header says. Texts in it are terminated. */
enum process_state process_state_of(const struct dump_header *header);

/* A live process of that pid that started then (to 5 s). */
bool process_is_that(int64_t pid, uint64_t start_realtime_ns);

/* The number that a dump's process has here, 0 where it is not seen. */
int64_t process_here(const struct dump *dump);
int64_t process_here_of(const struct dump_header *header);

/* Running or stopped. */
bool process_is_alive(const struct dump *dump);

#endif
