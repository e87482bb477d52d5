/* SPDX-License-Identifier: Apache-2.0
 *
 * Which staged dumps processes of this host have mapped: theirs still grow.
 * Lives here: reading /proc.
 * Must not live here: what follows from it.
 */
#ifndef COMMTAP_COLLECT_MAPPED_H
#define COMMTAP_COLLECT_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

struct mapped {
    char **paths; /* any number of times each */
    size_t count;
};

/* Looks once, at the processes whose maps may be read. False when memory is short. mapped_free releases in any case. */
bool mapped_list(struct mapped *mapped);
bool mapped_holds(const struct mapped *mapped, const char *path);
void mapped_free(struct mapped *mapped);

#endif
