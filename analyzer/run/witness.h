/* SPDX-License-Identifier: Apache-2.0
 *
 * Who died first: once a launcher has taken all ranks down because one of them died, no dump tells any more which one
 * it was. `commtap run` is there when it happens.
 * Lives here: following the processes of this host that write dumps, and noting the first that ends badly.
 * Must not live here: which one that is (first_death.h), reading such notes (analyzer/job/deaths.h), the command itself
 * (child.c).
 *
 * The kernel tells of new dumps (inotify) and of the ends of processes (pidfd); nothing is polled. Where it has
 * neither, nothing is noted. What is written, and when: format.h, FORMAT_DEATHS_SUFFIX.
 */
#ifndef COMMTAP_RUN_WITNESS_H
#define COMMTAP_RUN_WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct watched;

struct witness {
    int events, directory, changes; /* epoll, the output directory, inotify; -1 = not there */
    struct watched *items;
    size_t count, waiting; /* files seen; of these, without a process so far */
    size_t launch;         /* first file of the launch under way: those before it had all ended when it came */
    const char *run_id;
    mode_t mode; /* of the note */
    pid_t command;
    unsigned ends;     /* seen so far */
    int64_t settle_ms; /* when the first of those that were bad is judged, on CLOCK_MONOTONIC; 0: there was none */
    uint64_t ended_realtime_ns, ended_monotonic_ns; /* the first of these was seen; 0: there was none */
    bool asked; /* somebody was told to end, or the launcher was killed: whatever ends now is a consequence */
    bool told;  /* the command was told to end */
    bool over;  /* deaths have been judged: later ones are consequences */
};

/* Watches `directory` for dumps of `run_id` (both must outlive it; NULL: watches nothing). Call it before the command
 * starts. Always leaves something that the other functions take. */
void witness_open(struct witness *witness, const char *directory, const char *run_id, mode_t mode);
void witness_close(struct witness *witness);

/* Follows processes until `descriptor` can be read. `command` is the launcher's process. */
void witness_until(struct witness *witness, int descriptor, pid_t command);
/* From now on processes end because somebody wants them to. */
void witness_told_to_end(struct witness *witness);
/* The command has ended, with this wait status: judges what is not judged yet, which may take a moment: 300 ms, or
 * where it was told to end and its processes live on, until the first of them ends, at most five seconds. */
void witness_finish(struct witness *witness, int status);

#endif
