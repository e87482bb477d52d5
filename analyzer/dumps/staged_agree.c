/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: what processes tell each other before dumps travel, and what they conclude from it. Must not live here:
 * the journey (staged.c).
 */
#include "analyzer/dumps/staged.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/archive/codec.h"
#include "analyzer/base/hash.h"
#include "analyzer/dumps/process.h"

enum { HOST_BYTES = sizeof(((struct staged_need *)0)->host) };

/* ---- who can open what ------------------------------------------------------------------------------------------- */

/* What a process brings to the meeting; behind it `here` of each dump. */
struct staged_note {
    struct team_head head;
    uint64_t fingerprint, count;
    uint64_t bytes, memory, disk;
    struct shared_room_place in_memory, on_disk; /* rooms that it has made */
    char host[HOST_BYTES], boot_id[63];
};
_Static_assert(sizeof(struct staged_note) % sizeof(uint64_t) == 0, "what comes behind it is aligned");

static const struct staged_note *note_of(const struct team_block *block) {
    return (const void *)block->bytes;
}

static uint64_t here_of(const struct team_block *block, size_t number) {
    return ((const uint64_t *)(const void *)(block->bytes + sizeof(struct staged_note)))[number];
}

static struct team_block make_note(const struct staged *staged) {
    size_t bytes = sizeof(struct staged_note) + staged->count * sizeof(uint64_t);
    struct team_block block = {calloc(1, bytes), bytes};
    if (!block.bytes)
        return (struct team_block){0};
    struct staged_note *note = (void *)block.bytes;
    uint64_t *here = (void *)(block.bytes + sizeof *note);
    *note = (struct staged_note){.count = staged->count,
                                 .bytes = staged->bytes,
                                 .memory = staged->memory,
                                 .disk = shared_room_free_bytes(staged->on_disk),
                                 .in_memory = shared_room_place(staged->in_memory),
                                 .on_disk = shared_room_place(staged->on_disk)};
    gethostname(note->host, sizeof note->host - 1);
    if (!process_boot_id(note->boot_id, sizeof note->boot_id))
        note->boot_id[0] = '\0';
    for (size_t i = 0; i < staged->count; i++) {
        note->fingerprint = hash_mix(note->fingerprint, staged->dumps[i].fingerprint);
        here[i] = staged->dumps[i].here;
    }
    return block;
}

static bool see_the_same(const struct team *team, const struct team_block *all) {
    bool same = true;
    for (unsigned p = 1; p < team->processes; p++)
        same = same && note_of(&all[p])->count == note_of(&all[0])->count &&
               note_of(&all[p])->fingerprint == note_of(&all[0])->fingerprint;
    return same;
}

/* Of those that can open it the next one each time: the processes of a host share the packing. */
static unsigned choose_source(const struct team *team, const struct team_block *all, size_t number) {
    unsigned able = 0;
    for (unsigned p = 0; p < team->processes; p++)
        able += here_of(&all[p], number) > 0;
    if (able == 0)
        return STAGED_NOWHERE;
    unsigned turn = (unsigned)(number % able), p = 0;
    while (here_of(&all[p], number) == 0 || turn-- > 0)
        p++;
    return p;
}

static bool lacks(const struct staged *staged, const struct team_block *all, unsigned process, size_t number) {
    return !(staged->for_first && process > 0) && here_of(&all[process], number) == 0;
}

static void choose_sources(const struct team *team, const struct team_block *all, struct staged *staged) {
    for (size_t i = 0; i < staged->count; i++) {
        struct staged_dump *dump = &staged->dumps[i];
        dump->from = choose_source(team, all, i);
        for (unsigned p = 0; dump->from != STAGED_NOWHERE && p < team->processes; p++)
            dump->travels |= lacks(staged, all, p, i);
        dump->wanted = dump->travels && lacks(staged, all, team->number, i);
    }
}

static bool are_neighbours(const struct staged_note *a, const struct staged_note *b) {
    return a == b || (a->boot_id[0] && strcmp(a->boot_id, b->boot_id) == 0);
}

/* ---- who keeps for whom ------------------------------------------------------------------------------------------ */

/* The processes as they have introduced themselves. */
struct round_table {
    struct team *team;
    struct staged *staged;
    struct team_block *notes; /* per process */
    unsigned *keepers;        /* per process: whose copies it reads, its own number where it keeps them itself */
};

static bool want_the_same(const struct round_table *table, unsigned one, unsigned other) {
    bool same = true;
    for (size_t i = 0; same && i < table->staged->count; i++)
        same = lacks(table->staged, table->notes, one, i) == lacks(table->staged, table->notes, other, i);
    return same;
}

static bool wants_any(const struct round_table *table, unsigned process) {
    bool any = false;
    for (size_t i = 0; !any && i < table->staged->count; i++)
        any = table->staged->dumps[i].travels && lacks(table->staged, table->notes, process, i);
    return any;
}

/* The first process of a host keeps for all that lack what it lacks. */
static void choose_keepers(struct round_table *table) {
    for (unsigned p = 0; p < table->team->processes; p++) {
        table->keepers[p] = p;
        for (unsigned q = 0; wants_any(table, p) && q < p; q++)
            if (table->keepers[q] == q && are_neighbours(note_of(&table->notes[p]), note_of(&table->notes[q])) &&
                want_the_same(table, p, q)) {
                table->keepers[p] = q;
                break;
            }
    }
}

static bool anybody_reads_anothers(const struct round_table *table) {
    bool any = false;
    for (unsigned p = 0; p < table->team->processes; p++)
        any |= table->keepers[p] != p;
    return any;
}

/* In containers of its own a process may see nothing of another one of its host. Keeps a room of the other's instead of
 * the own ones. */
static bool finds_rooms_of(struct staged *staged, const struct staged_note *keeper) {
    struct shared_room *in_memory = shared_room_open(staged->processes, &keeper->in_memory), *on_disk = NULL;
    bool has_disk = keeper->on_disk.inode != 0;
    if (in_memory && has_disk)
        on_disk = shared_room_open(staged->processes, &keeper->on_disk);
    if (!in_memory || (has_disk && !on_disk)) {
        shared_room_release(in_memory);
        return false;
    }
    shared_room_release(staged->in_memory);
    shared_room_release(staged->on_disk);
    staged->in_memory = in_memory;
    staged->on_disk = on_disk;
    return true;
}

struct staged_answer {
    struct team_head head;
    uint64_t found;
};

/* False: another process failed. */
static bool see_who_finds_whom(struct round_table *table) {
    struct team *team = table->team;
    unsigned keeper = table->keepers[team->number];
    struct staged_answer answer = {.found = keeper != team->number &&
                                            finds_rooms_of(table->staged, note_of(&table->notes[keeper]))};
    if (!team_meet(team, TEAM_STAGED, false, &(struct team_block){(char *)&answer, sizeof answer}, team->incoming))
        return false;
    for (unsigned p = 0; p < team->processes; p++)
        if (!((const struct staged_answer *)(const void *)team->incoming[p].bytes)->found)
            table->keepers[p] = p;
    team_free(team, team->incoming);
    return true;
}

/* ---- what that takes --------------------------------------------------------------------------------------------- */

/* Adds what a process keeps to the need of its host. */
static void add_need(const struct round_table *table, unsigned process, struct staged_need *need) {
    const struct staged *staged = table->staged;
    const struct staged_note *note = note_of(&table->notes[process]);
    size_t dumps = 0;
    for (size_t i = 0; table->keepers[process] == process && i < staged->count; i++)
        if (staged->dumps[i].travels && lacks(staged, table->notes, process, i)) {
            need->bytes += here_of(&table->notes[staged->dumps[i].from], i) - 1;
            dumps++;
        }
    need->other_bytes += note->bytes;
    need->memory = note->memory < need->memory ? note->memory : need->memory;
    if (dumps == 0)
        return;
    need->disk = note->disk < need->disk ? note->disk : need->disk;
    need->dumps = dumps > need->dumps ? dumps : need->dumps;
    need->copies++;
}

/* Of the host that process number `process` is on. */
static struct staged_need need_of(const struct round_table *table, unsigned process) {
    const struct staged_note *note = note_of(&table->notes[process]);
    struct staged_need need = {.memory = note->memory, .disk = UINT64_MAX};
    memcpy(need.host, note->host, sizeof need.host);
    for (unsigned p = 0; p < table->team->processes; p++)
        if (are_neighbours(note, note_of(&table->notes[p])))
            add_need(table, p, &need);
    return need;
}

/* The other half is for what reading them takes, and for others. */
static bool fits_into_memory(const struct staged_need *need) {
    return need->bytes + need->other_bytes <= need->memory / 2;
}

static bool fits_onto_disk(const struct staged_need *need) {
    return need->bytes <= need->disk / 2 && need->other_bytes <= need->memory / 2;
}

/* The need of the host that has no room, else that of this process's own host. */
static enum staged_result judge_room(const struct round_table *table) {
    struct staged *staged = table->staged;
    for (unsigned p = 0; p < table->team->processes; p++) {
        staged->need = need_of(table, p);
        if (staged->need.dumps > 0 && codec_lacks())
            return STAGED_CANNOT_PACK;
        if (staged->need.dumps > 0 && !fits_into_memory(&staged->need) && !fits_onto_disk(&staged->need))
            return STAGED_TOO_MUCH;
    }
    staged->need = need_of(table, table->team->number);
    return STAGED_DONE;
}

/* ---- conclusions ------------------------------------------------------------------------------------------------- */

/* False: memory is short. */
static bool choose_receivers(const struct round_table *table) {
    const struct team *team = table->team;
    struct staged *staged = table->staged;
    staged->receivers = calloc(team->processes, sizeof *staged->receivers);
    for (size_t i = 0; staged->receivers && i < staged->count; i++)
        for (unsigned p = 0; p < team->processes && staged->dumps[i].from == team->number; p++)
            staged->receivers[p] |= table->keepers[p] == p && lacks(staged, table->notes, p, i);
    return staged->receivers != NULL;
}

/* The room that all who read there have agreed on; none where a process keeps them for itself, in its memory. */
static bool choose_room(const struct round_table *table) {
    const struct team *team = table->team;
    struct staged *staged = table->staged;
    bool wants = wants_any(table, team->number), shared = false;
    staged->keeper = table->keepers[team->number];
    staged->readers = anybody_reads_anothers(table) ? calloc(team->processes, sizeof *staged->readers) : NULL;
    for (unsigned p = 0; staged->readers && p < team->processes; p++) {
        staged->readers[p] = p != team->number && table->keepers[p] == team->number;
        shared |= staged->readers[p];
    }
    if (wants && !fits_into_memory(&staged->need))
        staged->room = shared_room_hold(staged->on_disk);
    else if (shared || staged->keeper != team->number)
        staged->room = shared_room_hold(staged->in_memory);
    return staged->readers || !anybody_reads_anothers(table);
}

static enum staged_result conclude(struct round_table *table) {
    struct staged *staged = table->staged;
    bool any = false;
    choose_sources(table->team, table->notes, staged);
    for (size_t i = 0; i < staged->count; i++)
        any |= staged->dumps[i].travels;
    if (!any)
        return STAGED_DONE;
    choose_keepers(table);
    if (anybody_reads_anothers(table) && !see_who_finds_whom(table))
        return STAGED_PARTED;
    enum staged_result result = judge_room(table);
    if (result == STAGED_DONE && !(choose_receivers(table) && choose_room(table)))
        result = STAGED_NO_MEMORY;
    return result;
}

bool staged_begin(struct staged *staged, size_t count) {
    *staged = (struct staged){.dumps = calloc(count ? count : 1, sizeof *staged->dumps), .count = count};
    for (size_t i = 0; staged->dumps && i < count; i++)
        staged->dumps[i].file = -1;
    return staged->dumps != NULL;
}

/* Alone, or where others see other stubs. */
static void keep_to_oneself(const struct team *team, struct staged *staged) {
    staged->keeper = team_number(team);
    for (size_t i = 0; i < staged->count; i++)
        staged->dumps[i].from = staged->dumps[i].here > 0 ? team_number(team) : STAGED_NOWHERE;
}

/* Where what comes may be kept, if anything does. */
static void make_rooms(const struct team *team, struct staged *staged) {
    bool lacking = false;
    for (size_t i = 0; i < staged->count; i++)
        lacking |= staged->dumps[i].here == 0;
    if (!lacking || (staged->for_first && team->number > 0))
        return;
    staged->in_memory = shared_room_make(NULL);
    staged->on_disk = staged->disk ? shared_room_make(staged->disk) : NULL;
}

enum staged_result staged_agree(struct team *team, struct staged *staged) {
    keep_to_oneself(team, staged);
    if (!team_is_shared(team))
        return STAGED_DONE;
    struct staged_note nothing;
    struct round_table table = {team, staged, calloc(team->processes, sizeof *table.notes),
                                calloc(team->processes, sizeof *table.keepers)};
    make_rooms(team, staged);
    struct team_block mine = make_note(staged), *all = table.notes ? table.notes : team->incoming;
    bool failed = !mine.bytes || !table.notes || !table.keepers;
    struct team_block told = failed ? (struct team_block){(char *)&nothing, sizeof nothing} : mine;
    enum staged_result result = failed ? STAGED_NO_MEMORY : STAGED_PARTED;
    if (team_meet(team, TEAM_STAGED, failed, &told, all))
        result = see_the_same(team, all) ? conclude(&table) : STAGED_DONE;
    team_free(team, all);
    free(mine.bytes);
    free(table.notes);
    free(table.keepers);
    shared_room_release(staged->in_memory);
    shared_room_release(staged->on_disk);
    staged->in_memory = staged->on_disk = NULL;
    return result;
}
