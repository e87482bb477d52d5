/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs of a whole cluster: thousands of directories, of which no dump is opened beyond its header.
 * Lives here: finding jobs and what belongs to each. Must not live here: removing (prune.h), words.
 *
 * The directories belong to whoever ran the jobs, and any of them may change or be planted meanwhile. All is reached
 * from the directory that was named by descriptors, and no link below it is followed.
 */
#ifndef COMMTAP_FLEET_FLEET_H
#define COMMTAP_FLEET_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shim/format.h"

/* Threads that look into directories, or remove what is in them. They wait for the file system and take hardly any of a
 * processor, so this is not a number of processors: doc/METHODS.md has what it was measured by. */
enum { FLEET_THREADS = 64 };

enum fleet_state {
    FLEET_ENDED = 0, /* all its processes ended properly */
    FLEET_KILLED,    /* some did not, and are gone */
    FLEET_UNKNOWN,   /* some ran on another host or boot and did not end properly: they may still run */
    FLEET_RUNS,
};

struct fleet_file {
    char *name;     /* owned */
    uint64_t bytes; /* on the disk */
};

/* What a dump's header tells of the launch that it is of. */
struct fleet_process {
    uint64_t world_id;
    uint32_t generation;
    int32_t rank;
    int64_t forked; /* processes forked from it that left dumps */
};

/* The files of one run in one directory. */
struct fleet_job {
    char *path;   /* of the directory below the one named; "" is that one itself; owned */
    dev_t device; /* of the directory */
    ino_t inode;
    char run_id[64], job_id[64], user[32], host[64], command[128];
    uid_t owner;       /* of its files */
    bool other_owners; /* not all of them are */
    enum fleet_state state;
    bool unfinished;          /* a process came to no MPI_Finalize, or gave up */
    struct fleet_file *files; /* sorted by name; owned */
    size_t file_count;
    size_t dumps, packed; /* packed: files of packed dumps */
    bool untold;          /* the header of a packed dump cannot be read */
    size_t launches; /* of programs: each is a job of its own to those who look inside; 0: no dump's header was read */
    struct fleet_process *processes; /* of all dumps; owned; gone once launches are counted */
    size_t process_count;
    uint64_t bytes;
    int64_t started_ns, ended_ns; /* CLOCK_REALTIME; INT64_MAX, INT64_MIN: not known. ended: last change of a file */
    int64_t exited_ns; /* the last exit of its processes, as their dumps tell it, which copies keep: early by the time
                          that a process took until its library woke; INT64_MIN: no dump tells */
};

struct fleet {
    struct fleet_job *jobs; /* sorted by start, path and run */
    size_t count, room;
    size_t unreadable; /* directories that could not be looked into */
};

/* Finds what there is in the directory that `descriptor` has open, and below. False where memory is short or it cannot
 * be read (errno); fleet_free in any case. */
bool fleet_find(struct fleet *fleet, int descriptor);
void fleet_free(struct fleet *fleet);

/* The run that a file of ours belongs to; false where the library and commtap give no file such a name. */
bool fleet_run_of(const char *name, char run_id[64]);

#endif
