/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that run one command together (commtap-mpi), each with the same arguments.
 * Lives here: who they are, and their meetings: everybody comes to the same ones in the same order, and a process that
 * has failed shows there, so that nobody waits for it.
 * Must not live here: how bytes get from one process to another (mpi/), what they mean.
 *
 * The processes are of one binary on machines of one kind: what they tell each other is memory as it is. Whoever calls
 * is the thread that began the program: no other one may take part in a meeting.
 */
#ifndef COMMTAP_BASE_TEAM_H
#define COMMTAP_BASE_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct team_block {
    char *bytes;
    size_t count;
};

/* What a meeting is for. */
enum team_purpose {
    TEAM_END = 1, /* the command has ended */
    TEAM_STAGED,  /* which dumps only some can open, and sending those */
    TEAM_INPUT,   /* what dumps there are */
    TEAM_ROUND,   /* of a walk */
    TEAM_STATES,  /* what a walk's consumers have gathered */
    TEAM_GAINS,   /* what replays came to */
    TEAM_MARKS,   /* which ranks mark their steps */
    TEAM_STEPS,   /* the steps of ranks */
    TEAM_CHANGES, /* dumps that changed while they were read */
};

/* With this every block of a meeting begins. */
struct team_head {
    uint32_t purpose; /* enum team_purpose */
    uint32_t failed;
};

struct team {
    unsigned processes, number; /* this one is `number`, from 0 */
    unsigned threads;           /* that each process has processors for; the same in all */
    const char *library;        /* what they talk by, in a line */
    /* Hands to[p] to every other process p and gets from[p] from it, to be freed; to[number] and from[number] are left
     * alone. False, in all processes alike, where memory is short in one; from[] then holds nothing. */
    bool (*exchange)(void *context, const struct team_block *to, struct team_block *from);
    void *context;
    struct team_block *outgoing, *incoming; /* one per process: room for meetings, which need no memory to begin */
    bool parted;    /* not all came to a meeting as they should: there is no other one before the end */
    bool bystander; /* what this process did or says is due to another one's failure, or it had nothing to do */
};

/* Whether there is anybody else; NULL is nobody. */
static inline bool team_is_shared(const struct team *team) {
    return team && team->processes > 1;
}

/* How work is dealt out: this process's number among so many; alone it is 0 of 1. */
static inline unsigned team_number(const struct team *team) {
    return team_is_shared(team) ? team->number : 0;
}
static inline unsigned team_size(const struct team *team) {
    return team_is_shared(team) ? team->processes : 1;
}

/* A meeting: everybody gets everybody's block, all[number] being `mine` itself. `mine` begins with a struct team_head,
 * which is filled in. Returns true when all came for the same purpose and none has failed; otherwise, where the purpose
 * is not TEAM_END, the processes have parted, and `all` holds nothing. For TEAM_END it returns whether there was a
 * meeting; whoever else had come to it for what reason stands in the heads. team_free in every case. */
bool team_meet(struct team *team, enum team_purpose purpose, bool failed, const struct team_block *mine,
               struct team_block *all);

/* A meeting at which each process tells all others its part of what they do together: `part` packs that of this
 * process, and unpacks those of the others (parcel.h). Returns false, where there is nobody else too, when this process
 * or another has failed or memory is short. */
struct parcel;
typedef void team_part(void *context, unsigned process, struct parcel *parcel);
bool team_share(struct team *team, enum team_purpose purpose, bool failed, team_part *part, void *context);

/* Frees what other processes sent, of a meeting or an exchange. */
void team_free(const struct team *team, struct team_block *blocks);

#endif
