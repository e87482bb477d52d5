/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the sections of a dump can be true.
 * Lives here: what every section is checked for beyond its shape: times within the life of the process, known ids,
 * counts of one section against those of another. Private to load/. Must not live here: the shape of sections
 * (sections.c), single rows of tables (rows.h), anything with a second dump.
 */
#ifndef COMMTAP_LOAD_PLAUSIBLE_H
#define COMMTAP_LOAD_PLAUSIBLE_H

#include "analyzer/load/private.h"

/* Looks at all that was loaded. What cannot be true is left out of the dump and noted as a problem; so is what must be
 * there and is not. */
void plausible_check(struct loaded *loaded, const struct views *views);

#endif
