/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/captures.h"

#include <string.h>

#include "shim/base/os.h"
#include "shim/record/recorder.h"

#define FIRST_PARTS 64u

static struct {
    struct capture_row *rows; /* NULL: there is no room for them */
    struct capture_message *messages;
    uint32_t row_count, message_count; /* given out: may lie beyond the end */
    uint64_t launches;
    uint64_t hashes[CAPTURE_ROWS]; /* of what is in each row, released when it is whole */
} captures;

void captures_begin(void) {
    captures.row_count = captures.message_count = 0;
    captures.launches = 0;
    memset(captures.hashes, 0, sizeof captures.hashes);
    captures.rows = dumpfile_section(&recorder.file, SECTION_CAPTURES, 0, CAPTURE_ROWS, sizeof *captures.rows);
    captures.messages =
        dumpfile_section(&recorder.file, SECTION_CAPTURE_MESSAGES, 0, CAPTURE_MESSAGES, sizeof *captures.messages);
    if (!captures.messages)
        captures.rows = NULL;
}

/* ---- contents -------------------------------------------------------------------------------- */

void capture_contents_clear(struct capture_contents *contents) {
    contents->count = contents->next = 0;
    contents->lost = contents->settled = false;
    contents->list.count = 0;
}

static bool is_alike(const struct capture_part *a, const struct capture_part *b) {
    return a->comm == b->comm && a->peer == b->peer && a->flags == b->flags;
}

static bool grow(struct capture_contents *contents) {
    uint32_t room = contents->room ? contents->room * 2 : FIRST_PARTS;
    struct capture_part *parts = room <= CAPTURE_PARTS ? os_memory(room * sizeof *parts) : NULL;
    if (!parts)
        return false;
    if (contents->room) {
        memcpy(parts, contents->parts, contents->count * sizeof *parts);
        os_unmap(contents->parts, contents->room * sizeof *parts);
    }
    contents->parts = parts;
    contents->room = room;
    return true;
}

static struct capture_part *find_part(struct capture_contents *contents, const struct capture_part *part) {
    for (uint32_t i = 0; i < contents->count; i++) {
        uint32_t at = (contents->next + i) % contents->count;
        if (is_alike(&contents->parts[at], part))
            return &contents->parts[at];
    }
    if (contents->count == contents->room && !grow(contents))
        return NULL;
    struct capture_part *fresh = &contents->parts[contents->count++];
    *fresh = *part;
    fresh->count = 0;
    return fresh;
}

void capture_contents_add(struct capture_contents *contents, const struct capture_part *part) {
    struct capture_part *known = contents->settled ? NULL : find_part(contents, part);
    if (!known || known->count > UINT32_MAX - part->count) {
        contents->lost = true;
        return;
    }
    known->count += part->count;
    contents->next = (uint32_t)(known - contents->parts) + 1;
}

void capture_contents_add_all(struct capture_contents *contents, const struct capture_contents *others) {
    contents->lost |= others->lost;
    for (uint32_t i = 0; i < others->count; i++)
        capture_contents_add(contents, &others->parts[i]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Those of one communicator, from the first on. */
static uint64_t hash_of(const struct capture_contents *contents, uint32_t first) {
    uint64_t h = 1;
    for (uint32_t i = first; i < contents->count; i++) {
        const struct capture_part *part = &contents->parts[i];
        if (part->comm != contents->parts[first].comm)
            continue;
        h = hash_mix(h ^ ((uint64_t)part->comm << 32 | (uint32_t)part->peer));
        h = hash_mix(h ^ ((uint64_t)part->count << 32 | (uint64_t)part->flags << 16 | part->call));
    }
    return h ? h : 1;
}

/* Two threads may make a row of the same at once: sums over both are right. */
static uint32_t find_row(uint64_t hash) {
    uint32_t count = __atomic_load_n(&captures.row_count, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < count && i < CAPTURE_ROWS; i++)
        if (__atomic_load_n(&captures.hashes[i], __ATOMIC_ACQUIRE) == hash)
            return i;
    return CAPTURE_ROWS;
}

static bool is_message_of(const struct capture_part *part, uint32_t comm) {
    return part->comm == comm && part->flags != 0;
}

/* The messages of a communicator, where there is room for them. */
static bool put_messages(const struct capture_contents *contents, uint32_t comm, struct capture_row *row) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < contents->count; i++)
        count += is_message_of(&contents->parts[i], comm);
    if (count == 0)
        return true;
    uint32_t first = __atomic_fetch_add(&captures.message_count, count, __ATOMIC_RELAXED);
    if (first > CAPTURE_MESSAGES || count > CAPTURE_MESSAGES - first) {
        __atomic_fetch_sub(&captures.message_count, count, __ATOMIC_RELAXED);
        return false;
    }
    /* given back they could be another thread's that has come behind them: they are lost */
    if (!dumpfile_make_room(&recorder.file, &captures.messages[first], count * sizeof *captures.messages))
        return false;
    row->first_message = first;
    row->message_count = count;
    for (uint32_t i = 0; i < contents->count; i++) {
        const struct capture_part *part = &contents->parts[i];
        if (is_message_of(part, comm))
            captures.messages[first++] = (struct capture_message){.peer = part->peer,
                                                                  .count = part->count,
                                                                  .stack = part->stack,
                                                                  .call = part->call,
                                                                  .flags = part->flags};
    }
    return true;
}

static uint32_t make_row(const struct capture_contents *contents, uint32_t first, uint64_t hash) {
    const struct capture_part *part = &contents->parts[first];
    uint32_t at = __atomic_fetch_add(&captures.row_count, 1, __ATOMIC_RELAXED);
    struct capture_row *row = at < CAPTURE_ROWS ? &captures.rows[at] : NULL;
    if (!row || !dumpfile_make_room(&recorder.file, row, sizeof *row) || !put_messages(contents, part->comm, row)) {
        if (!row) /* or they came round, one day */
            __atomic_fetch_sub(&captures.row_count, 1, __ATOMIC_RELAXED);
        return CAPTURE_ROWS;
    }
    for (uint32_t i = first; i < contents->count; i++)
        if (contents->parts[i].comm == part->comm && contents->parts[i].flags == 0)
            row->collectives += contents->parts[i].count;
    row->comm = part->comm;
    row->call = part->call;
    row->stack = part->stack;
    __atomic_store_n(&row->used, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&captures.hashes[at], hash, __ATOMIC_RELEASE);
    return at;
}

static bool is_first_of_communicator(const struct capture_contents *contents, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (contents->parts[k].comm == contents->parts[i].comm)
            return false;
    return true;
}

/* Nothing of a graph is counted where not all of it can be. */
void captures_settle(struct capture_contents *contents) {
    if (contents->settled)
        return;
    contents->settled = true;
    contents->lost |= contents->count > 0 && !captures.rows;
    for (uint32_t i = 0; i < contents->count && !contents->lost; i++) {
        if (!is_first_of_communicator(contents, i))
            continue;
        uint64_t hash = hash_of(contents, i);
        uint32_t row = contents->list.count < CAPTURES_OF_ONE ? find_row(hash) : CAPTURE_ROWS;
        if (row == CAPTURE_ROWS && contents->list.count < CAPTURES_OF_ONE)
            row = make_row(contents, i, hash);
        contents->lost |= row == CAPTURE_ROWS;
        if (!contents->lost)
            contents->list.rows[contents->list.count++] = (uint16_t)row;
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

uint64_t captures_launched(const struct capture_contents *contents, uint64_t now) {
    const struct capture_list *list = &contents->list;
    if (unlikely(contents->lost))
        __atomic_fetch_add(&recorder.header->captures_untold, 1, __ATOMIC_RELAXED);
    if (list->count == 0)
        return 0;
    uint64_t number = __atomic_add_fetch(&captures.launches, 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < list->count; i++) {
        struct capture_row *row = &captures.rows[list->rows[i]];
        __atomic_store_n(&row->launched_ns, now, __ATOMIC_RELAXED);
        __atomic_store_n(&row->newest, number, __ATOMIC_RELAXED);
        __atomic_fetch_add(&row->launched, 1, __ATOMIC_RELEASE);
    }
    return number;
}

void captures_unfollowed(const struct capture_list *list, uint64_t number) {
    for (uint32_t i = 0; number && i < list->count; i++)
        __atomic_store_n(&captures.rows[list->rows[i]].unfollowed, number, __ATOMIC_RELEASE);
}

void captures_ended(const struct capture_list *list, uint64_t number, uint64_t took) {
    for (uint32_t i = 0; number && i < list->count; i++) {
        struct capture_row *row = &captures.rows[list->rows[i]];
        if (took > row->longest_ns) {
            row->second_ns = row->longest_ns;
            row->longest_ns = took;
        } else if (took > row->second_ns) {
            row->second_ns = took;
        }
        if (row->ended < number)
            __atomic_store_n(&row->ended, number, __ATOMIC_RELEASE);
    }
}
