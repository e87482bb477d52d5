/* SPDX-License-Identifier: Apache-2.0
 *
 * Which directories hold dumps.
 * Lives here: a directory that was named, or those below it: COMMTAP_DIR may part a run's dumps by job, user, host and
 * process. Must not live here: opening what lies in them (set.c).
 */
#ifndef COMMTAP_DUMPS_DIRECTORIES_H
#define COMMTAP_DUMPS_DIRECTORIES_H

#include <stdbool.h>
#include <stddef.h>

struct names {
    char **items; /* full paths; owned */
    size_t count, room;
};

/* Takes `name` over, also where that fails because memory is short. */
bool names_add(struct names *names, char *name);
void names_sort(struct names *names);
void names_free(struct names *names);

enum directories_result { DIRECTORIES_FOUND, DIRECTORIES_UNREADABLE, DIRECTORIES_NO_MEMORY };

/* Adds `place` to `found` where it holds dumps or what stands for them; else those of the directories below it that do,
 * down to as many levels as COMMTAP_DIR has words, in the order of their names. Links are not followed, and what cannot
 * be read below it is left out. DIRECTORIES_UNREADABLE: `place` cannot be read, errno says why, ERROR_PLANTED among
 * others (regular_file_error). */
enum directories_result directories_find(const char *place, struct names *found);

#endif
