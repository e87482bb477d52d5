/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of a team played by threads, which hand each other copies.
 * Lives here: their exchange. Must not live here: MPI (e2e), what they do.
 */
#ifndef COMMTAP_TEST_PLAYED_TEAM_H
#define COMMTAP_TEST_PLAYED_TEAM_H

#include <pthread.h>

#include "analyzer/base/team.h"

enum { PLAYERS_MOST = 70 };

/* What they hand each other. */
struct room {
    pthread_barrier_t barrier;
    const struct team_block *to[PLAYERS_MOST];
    unsigned exchanges; /* the first process's */
};

struct player {
    struct team team;
    struct room *room;
    struct team_block outgoing[PLAYERS_MOST], incoming[PLAYERS_MOST];
};

/* Plays `processes` processes to their end. Each thread is handed `parts` + p * part_bytes, a struct that begins with a
 * struct player. Returns how many exchanges there were. */
unsigned play_team(void *(*what)(void *), unsigned processes, void *parts, size_t part_bytes);

#endif
