/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several processes died first, judged from how each of them ended.
 * Lives here: the rules. Must not live here: how ends are observed (witness.h).
 */
#ifndef COMMTAP_RUN_FIRST_DEATH_H
#define COMMTAP_RUN_FIRST_DEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum end {
    END_NONE = 0, /* lives, or ended as a job does */
    END_SAID,     /* by MPI_Abort, or without MPI_Finalize: its dump tells */
    END_BAD,      /* nothing of it is in its dump */
};

struct ending {
    enum end end;
    unsigned order; /* of ends and of what goes before them, as the kernel told; from 1, smaller is earlier */
    int status;     /* as wait tells it, without the bit of a core dump; 0 not known */
    pid_t pid;      /* of whom there may be several dumps */
    bool alone;     /* nobody else was on its way out by what may have been the same cause when it was seen to be */
};

/* Somebody wanted it to end, as a rule the same who wanted the others to. `status` as wait tells it. */
bool ending_is_requested(int status);

/* The index of the first that died; `count` where nobody did, or all as they were told. *sure: of a cause of its own.
 * Else the others went the same way at the same moment: a launcher that sees one rank die ends the rest, by SIGKILL or
 * more gently, but all may have been killed together as well. */
size_t first_death(const struct ending *endings, size_t count, bool *sure);

#endif
