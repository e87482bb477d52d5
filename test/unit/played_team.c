/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/played_team.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool exchange(void *context, const struct team_block *to, struct team_block *from) {
    struct player *me = context;
    unsigned number = me->team.number;
    me->room->to[number] = to;
    me->room->exchanges += number == 0;
    pthread_barrier_wait(&me->room->barrier);
    for (unsigned p = 0; p < me->team.processes; p++) {
        const struct team_block *block = &me->room->to[p][number];
        if (p == number)
            continue;
        from[p] = (struct team_block){malloc(block->count + 1), block->count};
        if (block->count > 0)
            memcpy(from[p].bytes, block->bytes, block->count);
    }
    pthread_barrier_wait(&me->room->barrier);
    return true;
}

unsigned play_team(void *(*what)(void *), unsigned processes, void *parts, size_t part_bytes) {
    struct room room = {.exchanges = 0};
    pthread_t started[PLAYERS_MOST];
    pthread_barrier_init(&room.barrier, NULL, processes);
    for (unsigned p = 0; p < processes; p++) {
        struct player *player = (void *)((char *)parts + p * part_bytes);
        player->room = &room;
        player->team = (struct team){.processes = processes,
                                     .number = p,
                                     .exchange = exchange,
                                     .context = player,
                                     .outgoing = player->outgoing,
                                     .incoming = player->incoming};
        assert_int_equal(pthread_create(&started[p], NULL, what, player), 0);
    }
    for (unsigned p = 0; p < processes; p++)
        pthread_join(started[p], NULL);
    pthread_barrier_destroy(&room.barrier);
    return room.exchanges;
}
