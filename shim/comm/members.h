/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is in a communicator, as world ranks in rank order.
 * Lives here: the list and its description by runs. Must not live here: how a library tells its members.
 */
#ifndef COMMTAP_SHIM_COMM_MEMBERS_H
#define COMMTAP_SHIM_COMM_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/format.h"

#define MEMBERS_FEW 32u

struct members {
    int *ranks; /* NULL: only how many there are is known */
    uint32_t count;
    uint64_t hash;
    bool foreign; /* some are of another world, or have no world rank */
    void *memory; /* NULL: `few` is enough */
    size_t bytes;
    int few[2 * MEMBERS_FEW]; /* a communicator of few is made within microseconds, a mapping takes several */
};

/* `both` identifies local and remote members together, whichever side asks. */
struct member_groups {
    struct members local, remote; /* remote: of an intercommunicator */
    uint64_t both;
};

void member_groups_free(struct member_groups *m);

/* How many runs describe the members; `runs`, unless NULL, gets them. */
uint32_t members_count_runs(const struct members *m, struct member_run *runs);

#endif
