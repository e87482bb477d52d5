/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps that lie where they were staged, read by several processes: each sees those of its own host alone.
 * Lives here: who can open which, whether memory is enough, how those that not everybody can open come to the others.
 * Must not live here: stubs and what may be believed of them (stub.h), the list of dumps (set.h), how bytes get from
 * one process to another (base/team.h).
 *
 * Who hands a dump out packs it as an archive of one member (archive/), which travels in pieces: what is under way is
 * bounded, however much there is. Who gets it unpacks it, where it stays. Of the processes of a host that lack the
 * same dumps one keeps them, in a room (base/shared_room.h) in which the others read them: in memory, or, where that is
 * too little, on a disk. A process of which the others see nothing, as in a container of its own, keeps its own copies.
 */
#ifndef COMMTAP_DUMPS_STAGED_H
#define COMMTAP_DUMPS_STAGED_H

#include "analyzer/base/team.h"
#include "analyzer/load/dump.h"
#include "analyzer/base/shared_room.h"

struct staged_dump {
    const char *path;     /* on the host that it lies on; the caller's */
    uint64_t fingerprint; /* of what its stub says */
    uint64_t here;        /* what it takes in memory, and one; 0: this process cannot open it */
    /* what they agree on */
    unsigned from;     /* who hands it out; STAGED_NOWHERE: no process can open it */
    bool travels;      /* there is one that needs it and cannot open it */
    bool wanted;       /* by this process */
    struct dump *dump; /* that came; whoever reads takes it over and leaves NULL. NULL: none came */
    /* private: the archive on its way here */
    int file;
    uint64_t arrived;
};
#define STAGED_NOWHERE UINT32_MAX
enum { STAGED_ROUND_BYTES = 64 << 20 };

/* What dumps that come from other hosts take on one host. */
struct staged_need {
    size_t dumps;         /* that come there */
    unsigned copies;      /* which are kept, one by each process that does not read another's */
    uint64_t bytes;       /* that all copies take */
    uint64_t other_bytes; /* that its processes read into memory beside */
    uint64_t memory;      /* that is free there */
    uint64_t disk;        /* that is free where copies may lie on a disk; 0 where they may not */
    char host[65];
};

struct staged {
    struct staged_dump *dumps; /* in an order that is the same in all processes; owned */
    size_t count;
    uint64_t bytes;        /* that this process reads into memory of other dumps */
    uint64_t memory;       /* that is free here */
    const char *disk;      /* a directory on a disk for what memory is too little for; NULL: none. The caller's */
    const char *processes; /* where the kernel tells of processes: /proc. The caller's */
    bool for_first;        /* the first process alone needs them, the others only lend */
    unsigned openers;      /* threads that open what came */
    size_t round_bytes;    /* that come to a process in one round, from all others together: STAGED_ROUND_BYTES */
    /* what they agree on */
    struct staged_need need; /* of this host; of the one that has too little room */
    unsigned keeper;         /* the process that gets what this one wants: itself, or another of its host */
    /* private */
    bool *receivers; /* per process: it keeps something that this one hands out; owned. NULL: nothing travels */
    bool *readers;   /* per process: it reads what this one keeps; owned. NULL: nobody reads what another one keeps */
    struct shared_room *room;                /* where that lies; NULL: in this process's memory */
    struct shared_room *in_memory, *on_disk; /* among which they choose */
};

enum staged_result {
    STAGED_DONE = 0,
    STAGED_NO_MEMORY,
    STAGED_TOO_MUCH,    /* there is not enough room on a host: `need` says where. The same in all processes */
    STAGED_CANNOT_PACK, /* there is something to send, and this program packs nothing (codec.h). The same in all */
    STAGED_PARTED,      /* another process failed */
};

/* Room for so many dumps. False: memory is short. staged_free in any case. */
bool staged_begin(struct staged *staged, size_t count);
/* A meeting about who can open what: fills in from, travels and wanted. Where processes do not see the same stubs each
 * is left with what it can open itself: that they see different dumps shows later. Nothing is sent yet. */
enum staged_result staged_agree(struct team *team, struct staged *staged);
/* Sends and gets what travels, after staged_agree. A dump that its owner cannot read any more comes as one that cannot
 * be used, with what the owner says of it. */
enum staged_result staged_exchange(struct team *team, struct staged *staged);
/* Closes dumps that nobody took over. */
void staged_free(struct staged *staged);

#endif
