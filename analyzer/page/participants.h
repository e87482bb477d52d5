/* SPDX-License-Identifier: Apache-2.0
 *
 * Who took part: the ranks with their hosts, stages and GPUs, and the named communicators, by which programs tell how
 * they lay out their parallelism.
 * Lives here: these rows of the block "page".
 * Must not live here: stages (stragglers/rank_classes.h), what names say (base/parallel_role.h).
 */
#ifndef COMMTAP_PAGE_PARTICIPANTS_H
#define COMMTAP_PAGE_PARTICIPANTS_H

#include <jansson.h>

#include "analyzer/job/job.h"

enum {
    PARTICIPANT_GROUPS_MOST = 32,   /* GPUs, and named communicators, of one rank that a page holds */
    PARTICIPANT_NAMES_MOST = 20000, /* named communicators of all */
};

/* Adds `dumps` and `communicators` to an object. `stage_of` is per dump, 0 where it is not known. Returns false when
 * memory is short. */
bool participants_add(json_t *object, const struct job *job, const uint32_t *stage_of);

#endif
