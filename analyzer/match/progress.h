/* SPDX-License-Identifier: Apache-2.0
 *
 * Non-blocking collectives that go on only while their members are in the library.
 * Lives here: which member another one waited for until it was back. Must not live here: the same of messages
 * (instances.h), how long the wait was.
 *
 * Most libraries move data only in calls (MPI 4.1, 3.5, "progress"; an adapter or a thread of the library may do it
 * behind the program's back). A member that has posted its part and computes is then waited for until it comes to its
 * Wait, by those alone to whom the algorithm hands data through it: each member's times tell for itself.
 */
#ifndef COMMTAP_MATCH_PROGRESS_H
#define COMMTAP_MATCH_PROGRESS_H

#include "analyzer/base/radix_sort.h"
#include "analyzer/match/directory.h"
#include "analyzer/match/instances.h"

/* Who was away in an instance; all zero to begin with. */
struct match_away {
    struct sort_key *keys; /* by when they were back; `count` of them, and as many for sorting */
    size_t count, room;
};

void match_away_free(struct match_away *away);

/* Lists the members that were away from the library until after the instance was posted, and may have been needed: of
 * an operation among hosts, whole, whose flow is known. Sets count; 0 where nobody was, which costs a look at each
 * member. Returns false when memory is short. */
bool match_away_list(struct match_away *away, const struct match_instance *instance, enum flow flow);

/* Whom a member waited for. */
struct match_away_cause {
    uint32_t member;  /* NOWHERE: nobody */
    int64_t back;     /* when it was back, common ns */
    int64_t previous; /* when the one before it was, MATCH_ABSENT where there is none */
};

/* The member that member i waited for until it was back: the last to be back before i was done, if i was within an
 * eighth of the time since that one had posted (as message_over_soon), and of its own wait. */
struct match_away_cause match_away_cause(const struct match_away *away, const struct match_instance *instance,
                                         enum flow flow, uint32_t i);

#endif
