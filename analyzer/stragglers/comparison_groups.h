/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranks are compared with each other, and by which communicator's collectives.
 * Lives here: choosing for every rank at most one reference communicator, by a sample of the records.
 * Must not live here: times.
 *
 * Ranks that take part in the same collectives form a cohort. The largest communicator that is used often enough
 * comes first; ranks it does not hold may form further cohorts on others.
 */
#ifndef COMMTAP_STRAGGLERS_COMPARISON_GROUPS_H
#define COMMTAP_STRAGGLERS_COMPARISON_GROUPS_H

#include "analyzer/match/directory.h"

struct cohorts {
    size_t count;
    uint32_t *communicators; /* per cohort: index into the directory */
    uint32_t *cohort_of;     /* per dump: cohort or NOWHERE */
    uint32_t *reference;     /* per dump: local index of its reference communicator, COMM_NONE */
};

/* Returns false when memory is short; the caller frees with cohorts_free in every case. */
bool cohorts_choose(struct cohorts *cohorts, const struct match_directory *directory);
void cohorts_free(struct cohorts *cohorts);

#endif
