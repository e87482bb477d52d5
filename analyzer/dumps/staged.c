/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: how dumps travel, and where those are that a process of the same host keeps. Must not live here: what the
 * processes agree on before (staged_agree.c).
 */
#include "analyzer/dumps/staged.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/archive/archive_write.h"
#include "analyzer/base/parcel.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/load/mapping.h"

enum {
    ROUND_LEAST = 64 << 10, /* that one process sends in a round, however many they are */
    ARRIVED_AT_ONCE = 64,   /* archives that are open at a time: far from how many files a process may have */
};

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
    dump->dump = dump_open_sent(dump->path, dump->file, journey->staged->room);
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
    if (!dump->wanted || journey->staged->keeper != journey->team->number)
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

/* ---- what a process of the same host keeps ------------------------------------------------------------------------
 */

static void places_parcel(struct staged *staged, struct parcel *parcel) {
    for (size_t i = 0; i < staged->count && !parcel->failed; i++)
        if (staged->dumps[i].wanted)
            dump_parcel_sent(&staged->dumps[i].dump, staged->dumps[i].path, staged->room, parcel);
}

static bool take_places(struct staged *staged, const struct team_block *block) {
    struct parcel parcel = parcel_to_unpack(block->bytes, block->count);
    places_parcel(staged, &parcel);
    return parcel_is_used_up(&parcel);
}

/* Who keeps what others of its host read tells these where it is. */
static enum staged_result tell_places(struct team *team, struct staged *staged) {
    struct parcel places = parcel_to_pack();
    bool reads = staged->keeper != team->number, failed = false;
    memset(team->outgoing, 0, team->processes * sizeof *team->outgoing);
    for (unsigned p = 0; p < team->processes; p++) {
        if (!staged->readers[p])
            continue;
        if (places.size == 0) {
            places_parcel(staged, &places);
            parcel_seal(&places);
        }
        team->outgoing[p] = (struct team_block){(char *)places.bytes, places.size};
    }
    bool done = team->exchange(team->context, team->outgoing, team->incoming);
    memset(team->outgoing, 0, team->processes * sizeof *team->outgoing);
    failed = done && (places.failed || (reads && !take_places(staged, &team->incoming[staged->keeper])));
    if (done)
        team_free(team, team->incoming);
    parcel_free(&places);
    struct team_head head;
    if (done && !team_meet(team, TEAM_STAGED, failed, &(struct team_block){(char *)&head, sizeof head}, team->incoming))
        return failed ? STAGED_NO_MEMORY : STAGED_PARTED;
    if (done)
        team_free(team, team->incoming);
    return done ? STAGED_DONE : STAGED_NO_MEMORY;
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
    if (journey.failed)
        return STAGED_NO_MEMORY;
    return result == STAGED_DONE && staged->readers ? tell_places(team, staged) : result;
}

void staged_free(struct staged *staged) {
    for (size_t i = 0; staged->dumps && i < staged->count; i++) {
        dump_close(staged->dumps[i].dump);
        if (staged->dumps[i].file >= 0)
            close(staged->dumps[i].file);
    }
    free(staged->dumps);
    shared_room_release(staged->room);
    free(staged->receivers);
    free(staged->readers);
    *staged = (struct staged){0};
}
