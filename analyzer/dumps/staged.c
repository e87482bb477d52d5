/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/dumps/staged.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/archive/archive_write.h"
#include "analyzer/archive/codec.h"
#include "analyzer/base/hash.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/dumps/process.h"
#include "analyzer/load/mapping.h"

enum {
    ROUND_LEAST = 64 << 10, /* that one process sends in a round, however many they are */
    ARRIVED_AT_ONCE = 64,   /* archives that are open at a time: far from how many files a process may have */
    HOST_BYTES = sizeof(((struct staged_need *)0)->host),
};

/* ---- who can open what ------------------------------------------------------------------------------------------- */

/* What a process brings to the meeting; behind it `here` of each dump. */
struct staged_note {
    struct team_head head;
    uint64_t fingerprint, count;
    uint64_t bytes, memory;
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
    *note = (struct staged_note){.count = staged->count, .bytes = staged->bytes, .memory = staged->memory};
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

/* False: memory is short. */
static bool choose_receivers(const struct team *team, const struct team_block *all, struct staged *staged) {
    bool any = false;
    for (size_t i = 0; i < staged->count; i++)
        any |= staged->dumps[i].travels;
    if (any && !(staged->receivers = calloc(team->processes, sizeof *staged->receivers)))
        return false;
    for (size_t i = 0; any && i < staged->count; i++)
        for (unsigned p = 0; p < team->processes && staged->dumps[i].from == team->number; p++)
            staged->receivers[p] |= lacks(staged, all, p, i);
    return true;
}

static bool are_neighbours(const struct staged_note *a, const struct staged_note *b) {
    return a == b || (a->boot_id[0] && strcmp(a->boot_id, b->boot_id) == 0);
}

/* Of the host that process number `process` is on. Its processes keep a copy each. */
static struct staged_need need_of(const struct team *team, const struct team_block *all, const struct staged *staged,
                                  unsigned process) {
    const struct staged_note *note = note_of(&all[process]);
    struct staged_need need = {.memory = note->memory};
    memcpy(need.host, note->host, sizeof need.host);
    for (unsigned p = 0; p < team->processes; p++) {
        const struct staged_note *other = note_of(&all[p]);
        size_t dumps = 0;
        if (!are_neighbours(note, other))
            continue;
        for (size_t i = 0; i < staged->count; i++)
            if (staged->dumps[i].travels && lacks(staged, all, p, i)) {
                need.bytes += here_of(&all[staged->dumps[i].from], i) - 1;
                dumps++;
            }
        need.bytes += other->bytes;
        need.memory = other->memory < need.memory ? other->memory : need.memory;
        need.dumps = dumps > need.dumps ? dumps : need.dumps;
        need.processes++;
    }
    return need;
}

/* The other half is for what reading them takes. */
static enum staged_result judge_memory(const struct team *team, const struct team_block *all, struct staged *staged) {
    for (unsigned p = 0; p < team->processes; p++) {
        staged->need = need_of(team, all, staged, p);
        if (staged->need.dumps > 0 && codec_lacks())
            return STAGED_CANNOT_PACK;
        if (staged->need.dumps > 0 && staged->need.bytes > staged->need.memory / 2)
            return STAGED_TOO_MUCH;
    }
    return STAGED_DONE;
}

bool staged_begin(struct staged *staged, size_t count) {
    *staged = (struct staged){.dumps = calloc(count ? count : 1, sizeof *staged->dumps), .count = count};
    for (size_t i = 0; staged->dumps && i < count; i++)
        staged->dumps[i].file = -1;
    return staged->dumps != NULL;
}

/* Alone, or where others see other stubs. */
static void keep_to_oneself(const struct team *team, struct staged *staged) {
    for (size_t i = 0; i < staged->count; i++)
        staged->dumps[i].from = staged->dumps[i].here > 0 ? team_number(team) : STAGED_NOWHERE;
}

enum staged_result staged_agree(struct team *team, struct staged *staged) {
    keep_to_oneself(team, staged);
    if (!team_is_shared(team))
        return STAGED_DONE;
    struct staged_note nothing;
    struct team_block mine = make_note(staged), *all = team->incoming;
    bool failed = !mine.bytes;
    if (failed)
        mine = (struct team_block){(char *)&nothing, sizeof nothing};
    enum staged_result result = failed ? STAGED_NO_MEMORY : STAGED_PARTED;
    if (team_meet(team, TEAM_STAGED, failed, &mine, all)) {
        result = STAGED_DONE;
        if (see_the_same(team, all)) {
            choose_sources(team, all, staged);
            result = judge_memory(team, all, staged);
            if (result == STAGED_DONE && !choose_receivers(team, all, staged))
                result = STAGED_NO_MEMORY;
        }
    }
    team_free(team, all);
    if (!failed)
        free(mine.bytes);
    return result;
}

/* ---- what leaves ------------------------------------------------------------------------------------------------- */

/* In front of bytes of an archive, of which there are `length`; 0: they say why there is none. */
struct piece {
    uint64_t number, length, bytes;
};

struct journey {
    struct team *team;
    struct staged *staged;
    size_t next;           /* dump that leaves from here */
    int file;              /* what is leaving, packed; -1: nothing is */
    uint64_t length, left; /* its bytes, and how many of them have not left */
    struct archive_writer writer;
    char *block; /* of this round */
    size_t used, room;
    size_t arrived[ARRIVED_AT_ONCE]; /* dumps that are all here */
    size_t arrived_count;
    bool failed;
};

/* Writes what the file holds, which may have become shorter, into an archive. False: there is no room for it. */
static bool pack_into(struct archive_writer *writer, int file, const char *path, const struct mapping *mapping) {
    struct archive_entry entry = {.size = mapping->bytes};
    struct archive_extent *extents = calloc(mapping->data_count + 1, sizeof *extents);
    snprintf(entry.name, sizeof entry.name, "%s", strrchr(path, '/') + 1);
    size_t count = 0;
    for (size_t i = 0; extents && i < mapping->data_count && mapping->data[i].from < mapping->bytes; i++) {
        const struct mapping_data *data = &mapping->data[i];
        extents[count++] = (struct archive_extent){data->from, data->to < mapping->bytes ? data->to : mapping->bytes};
    }
    bool done = archive_begin_file(writer, file) && extents &&
                archive_add(writer, &entry, mapping->base, extents, count) && archive_complete(writer);
    archive_leave(writer);
    free(extents);
    return done;
}

static int new_file(void) {
    return memfd_create("commtap-staged", MFD_CLOEXEC);
}

/* False with the reason where the dump cannot be read; where memory is short the journey has failed. */
static bool pack(struct journey *journey, const char *path, char *reason, size_t size) {
    struct mapping mapping;
    if (!mapping_open(&mapping, path, MAPPING_SHARED, reason, size))
        return false;
    journey->file = new_file();
    bool done = journey->file >= 0 && pack_into(&journey->writer, journey->file, path, &mapping);
    off_t length = done ? lseek(journey->file, 0, SEEK_END) : -1;
    mapping_close(&mapping);
    journey->failed = length <= 0;
    journey->length = journey->left = journey->failed ? 0 : (uint64_t)length;
    if (journey->failed && journey->file >= 0)
        close(journey->file);
    if (journey->failed)
        journey->file = -1;
    return true;
}

static char *put_piece(struct journey *journey, size_t bytes) {
    const struct piece piece = {journey->next, journey->length, bytes};
    char *to = journey->block + journey->used + sizeof piece;
    memcpy(to - sizeof piece, &piece, sizeof piece);
    journey->used += sizeof piece + bytes;
    return to;
}

/* As much of the archive as there is room for. */
static void put_archive(struct journey *journey) {
    size_t room = journey->room - journey->used - sizeof(struct piece);
    size_t bytes = journey->left < room ? (size_t)journey->left : room;
    char *to = put_piece(journey, bytes);
    journey->failed = pread(journey->file, to, bytes, (off_t)(journey->length - journey->left)) != (ssize_t)bytes;
    journey->left -= bytes;
    if (journey->left > 0 && !journey->failed)
        return;
    close(journey->file);
    journey->file = -1;
    journey->next++;
}

static void begin_next(struct journey *journey) {
    char reason[PROBLEM_TEXT] = "";
    const char *path = journey->staged->dumps[journey->next].path;
    if (pack(journey, path, reason, sizeof reason))
        return;
    journey->length = 0;
    memcpy(put_piece(journey, sizeof reason), reason, sizeof reason);
    journey->next++;
}

static bool has_more(struct journey *journey) {
    const struct staged *staged = journey->staged;
    while (journey->next < staged->count &&
           !(staged->dumps[journey->next].travels && staged->dumps[journey->next].from == journey->team->number))
        journey->next++;
    return journey->next < staged->count;
}

static void fill_block(struct journey *journey) {
    journey->used = 0;
    while (!journey->failed && journey->room - journey->used > sizeof(struct piece) + PROBLEM_TEXT &&
           has_more(journey)) {
        if (journey->file < 0)
            begin_next(journey);
        else
            put_archive(journey);
    }
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

static void open_arrived(void *context, size_t task) {
    struct journey *journey = context;
    struct staged_dump *dump = &journey->staged->dumps[journey->arrived[task]];
    dump->dump = dump_open_sent(dump->path, dump->file);
    dump->file = -1;
}

static void open_all_arrived(struct journey *journey) {
    side_by_side(journey->staged->openers, journey->arrived_count, open_arrived, journey);
    for (size_t i = 0; i < journey->arrived_count; i++)
        journey->failed |= !journey->staged->dumps[journey->arrived[i]].dump;
    journey->arrived_count = 0;
}

static bool append(int file, const char *bytes, uint64_t count, uint64_t at) {
    while (count > 0) {
        ssize_t written = pwrite(file, bytes, count, (off_t)at);
        if (written <= 0 && errno != EINTR)
            return false;
        bytes += written > 0 ? written : 0;
        count -= written > 0 ? (uint64_t)written : 0;
        at += written > 0 ? (uint64_t)written : 0;
    }
    return true;
}

static bool take_piece(struct journey *journey, const struct piece *piece, const char *bytes) {
    struct staged_dump *dump = &journey->staged->dumps[piece->number];
    if (!dump->wanted)
        return true;
    if (piece->length == 0) {
        dump->dump = dump_unusable(dump->path, bytes);
        return dump->dump != NULL;
    }
    if (dump->file < 0)
        dump->file = new_file();
    if (dump->file < 0 || !append(dump->file, bytes, piece->bytes, dump->arrived))
        return false;
    dump->arrived += piece->bytes;
    if (dump->arrived < piece->length)
        return true;
    journey->arrived[journey->arrived_count++] = piece->number;
    if (journey->arrived_count == ARRIVED_AT_ONCE)
        open_all_arrived(journey);
    return true;
}

static bool take_block(struct journey *journey, const struct team_block *block) {
    struct piece piece;
    bool done = true;
    for (size_t at = 0; done && at < block->count; at += sizeof piece + piece.bytes) {
        memcpy(&piece, block->bytes + at, sizeof piece);
        done = take_piece(journey, &piece, block->bytes + at + sizeof piece);
    }
    return done;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

struct round_note {
    struct team_head head;
    uint64_t bytes; /* that the process is about to send */
};

/* Whether anybody has something to send. */
static bool meet(struct journey *journey, bool *more) {
    struct team *team = journey->team;
    struct round_note note = {.bytes = journey->used};
    *more = false;
    if (!team_meet(team, TEAM_STAGED, journey->failed, &(struct team_block){(char *)&note, sizeof note},
                   team->incoming))
        return false;
    for (unsigned p = 0; p < team->processes; p++)
        *more |= ((const struct round_note *)(const void *)team->incoming[p].bytes)->bytes > 0;
    team_free(team, team->incoming);
    return true;
}

/* Who can open all of what this process hands out gets nothing. */
static bool exchange(struct journey *journey) {
    struct team *team = journey->team;
    for (unsigned p = 0; p < team->processes; p++)
        team->outgoing[p] =
            journey->staged->receivers[p] ? (struct team_block){journey->block, journey->used} : (struct team_block){0};
    bool done = team->exchange(team->context, team->outgoing, team->incoming);
    memset(team->outgoing, 0, team->processes * sizeof *team->outgoing);
    for (unsigned p = 0; done && p < team->processes && !journey->failed; p++)
        journey->failed = p != team->number && !take_block(journey, &team->incoming[p]);
    open_all_arrived(journey);
    team_free(team, team->incoming);
    return done;
}

static enum staged_result go_rounds(struct journey *journey) {
    for (bool more = true; more;) {
        if (!journey->failed)
            fill_block(journey);
        if (!meet(journey, &more))
            return journey->failed ? STAGED_NO_MEMORY : STAGED_PARTED;
        if (more && !exchange(journey))
            return STAGED_NO_MEMORY;
    }
    return STAGED_DONE;
}

enum staged_result staged_exchange(struct team *team, struct staged *staged) {
    if (!staged->receivers)
        return STAGED_DONE;
    struct journey journey = {.team = team, .staged = staged, .file = -1, .writer = {.file = -1}};
    size_t share = staged->round_bytes / team->processes;
    journey.room = share > ROUND_LEAST ? share : ROUND_LEAST;
    journey.block = malloc(journey.room);
    journey.failed = !journey.block;
    enum staged_result result = go_rounds(&journey);
    if (journey.file >= 0)
        close(journey.file);
    archive_abandon(&journey.writer);
    free(journey.block);
    return journey.failed ? STAGED_NO_MEMORY : result;
}

void staged_free(struct staged *staged) {
    for (size_t i = 0; staged->dumps && i < staged->count; i++) {
        dump_close(staged->dumps[i].dump);
        if (staged->dumps[i].file >= 0)
            close(staged->dumps[i].file);
    }
    free(staged->dumps);
    free(staged->receivers);
    *staged = (struct staged){0};
}
