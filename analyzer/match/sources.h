/* SPDX-License-Identifier: Apache-2.0
 *
 * From whom a member of a neighbourhood collective takes.
 * Lives here: its neighbours as members of the instance. Must not live here: who waits (waits/waits.h), what dumps say
 * of neighbours (load/dump.h).
 */
#ifndef COMMTAP_MATCH_SOURCES_H
#define COMMTAP_MATCH_SOURCES_H

#include "analyzer/match/instances.h"

/* Writes the positions of those with a dump, itself left out, in ascending order, each once; returns how many.
 * SIZE_MAX: nobody knows (dumps before 2.11, a topology that the library did not tell). */
size_t match_sources(const struct match_directory *directory, const struct match_instance *instance, uint32_t position,
                     uint32_t positions[NEIGHBOURS_MOST]);

#endif
