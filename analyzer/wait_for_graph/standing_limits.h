/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a wait may last at work: longer ones stand.
 * Lives here: the limits. Must not live here: which waits there are, how long they have lasted.
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_STANDING_LIMITS_H
#define COMMTAP_WAIT_FOR_GRAPH_STANDING_LIMITS_H

#include "analyzer/wait_for_graph/world.h"

/* How old waits have to be, in usual lengths, and at least, to be more than what happens at work. */
#define STANDING_FEW           3
#define STANDING_LEAST_NS      INT64_C(100000000)
#define STANDING_CROWDED_NS    INT64_C(500000000)   /* ... where ranks share processors: they take turns */
#define STANDING_UNCOMPARED_NS INT64_C(10000000000) /* ... where there is nothing to compare with */
#define STANDING_UNLIKE_NS     INT64_C(1000000000)  /* ... where there are other calls only */

/* What a wait may last at work beside others that took `usual_ns` at least twice (-1: none did); `unlike`: these were
 * of other calls. */
int64_t standing_most_ns(const struct world *world, int64_t usual_ns, bool unlike);

#endif
