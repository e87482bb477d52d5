/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of other PID namespaces (containers), as far as they can be seen from here (pid_namespaces(7)).
 * Lives here: which number a process of a container has here, and whether one that is not seen can be told to be gone.
 * Must not live here: whether a process is the one that wrote a dump (process.h).
 */
#ifndef COMMTAP_DUMPS_PID_NAMESPACES_H
#define COMMTAP_DUMPS_PID_NAMESPACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A process that has another number in its own namespace than here. */
struct contained_process {
    uint64_t namespace; /* inode number of its namespace; 0: not ours to look at */
    int64_t inside, here;
};

struct pid_namespaces {
    uint64_t own;    /* inode number of ours; 0: unknown */
    bool sees_all;   /* ours is the one that all others lie in, and other users' processes are shown */
    bool incomplete; /* memory was short */
    struct contained_process *processes;
    size_t count;
};

/* Looks at all processes that are there: about 10 us each. Free it. */
void pid_namespaces_look(struct pid_namespaces *namespaces);
void pid_namespaces_free(struct pid_namespaces *namespaces);

/* The inode number of this process's own namespace; 0: unknown. */
uint64_t pid_namespace_own(void);

/* Calls `is_that` with the number here of each process that has the number `inside` in the namespace, or in one that
 * may be it, until it answers true; the answer. */
bool pid_namespaces_find(const struct pid_namespaces *namespaces, uint64_t namespace, int64_t inside,
                         bool (*is_that)(int64_t here, void *context), void *context);

/* Whether a process of that namespace that is not found is gone: we see all, or others of that namespace. */
bool pid_namespaces_would_show(const struct pid_namespaces *namespaces, uint64_t namespace);

#endif
