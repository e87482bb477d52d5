/* SPDX-License-Identifier: Apache-2.0 */
#include "test/crash/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/dump.h"
#include "test/crash/hammer.h"

struct check {
    const struct dump *dump;
    struct crash_totals *totals;
    uint64_t reductions[HAMMER_THREADS]; /* newest Allreduce found in the rings, + 1 */
};

__attribute__((format(printf, 2, 3))) static void fail(const struct check *check, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("%s: ", check->dump->path);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    check->totals->failures++;
}

/* Which thread's communicator that is, or -1. */
static int thread_of(const struct dump *dump, uint32_t comm) {
    const struct dump_communicator *communicator = dump_communicator(dump, comm);
    if (!communicator || strncmp(communicator->name, HAMMER_NAME, strlen(HAMMER_NAME)))
        return -1;
    int thread = atoi(communicator->name + strlen(HAMMER_NAME));
    return thread < HAMMER_THREADS ? thread : -1;
}

static bool is_call(const struct dump *dump, uint16_t id, const char *name) {
    const struct call_name *call = dump_call(dump, id);
    return call && !strcmp(call->name, name);
}

/* ---- single records ---------------------------------------------------------------------------------------------- */

static bool reduction_agrees(const struct record *r) {
    return r->kind == RECORD_CALL && r->bytes == 8 * HAMMER_REDUCE_COUNT((uint64_t)r->seq) &&
           r->redop == (r->seq % 2 ? REDOP_MAX : REDOP_SUM) && r->dtype == DATATYPE_DOUBLE &&
           (r->flags & FLAG_COLLECTIVE);
}

static bool message_agrees(const struct record *r, uint16_t direction) {
    uint64_t i = HAMMER_ITERATION((uint64_t)r->seq, (uint64_t)r->tag);
    return (r->kind == RECORD_POST || r->kind == RECORD_DONE) && (r->flags & direction) &&
           !(r->flags & FLAG_ORDINAL_UNKNOWN) && r->peer == 0 && r->tag >= 0 && r->tag < HAMMER_TAGS &&
           r->bytes == 8 * HAMMER_MESSAGE_COUNT(i) && r->op != 0;
}

/* True when the record can only be what one call of the hammer wrote. */
static bool record_agrees(const struct dump *dump, const struct record *r) {
    if (!dump_call(dump, r->call) && r->kind != RECORD_THREAD)
        return false;
    if (r->t1 < r->t0)
        return false;
    if (thread_of(dump, r->comm) < 0)
        return true;
    if (is_call(dump, r->call, "MPI_Allreduce"))
        return reduction_agrees(r);
    if (is_call(dump, r->call, "MPI_Isend"))
        return message_agrees(r, FLAG_SEND);
    if (is_call(dump, r->call, "MPI_Irecv"))
        return message_agrees(r, FLAG_RECV);
    return true;
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* Straight from the ring, trusting nothing but commit words: of the newest N - 1 tickets none may be missing, and what
 * lies in a slot must belong there. */
static void check_ring(struct check *check, uint32_t index) {
    const struct dump_lane *lane = &check->dump->lanes[index];
    uint64_t newest = 0, size = lane->ring_records;
    for (uint64_t slot = 0; slot < size; slot++) {
        uint64_t commit = lane->ring[slot].commit;
        if (commit && (commit - 1) % size != slot)
            fail(check, "lane %u: slot %lu holds ticket %lu", index, slot, commit - 1);
        else if (commit > newest)
            newest = commit;
    }
    uint64_t oldest = newest > size - 1 ? newest - (size - 1) : 0;
    for (uint64_t ticket = oldest; ticket < newest; ticket++)
        if (lane->ring[ticket % size].commit != ticket + 1)
            fail(check, "lane %u: ticket %lu of %lu is missing", index, ticket, newest);
    if (newest > size)
        check->totals->wrapped++;
    if (newest && !lane->ring[newest % size].commit && newest >= size)
        check->totals->in_progress++;
    if (newest && lane->end_ticket != newest)
        fail(check, "lane %u: the loader ends at ticket %lu, the ring at %lu", index, lane->end_ticket, newest);
}

static const struct section *pages_section(const struct dump *dump, uint32_t lane) {
    const struct section *sections = ((const struct dump_header *)dump->base)->sections;
    for (uint32_t i = 0; i < SECTIONS_MAX; i++)
        if (sections[i].kind == SECTION_RING_PAGES && sections[i].index == lane)
            return &sections[i];
    return NULL;
}

static const struct ring_page *page_numbered(const struct ring_page *pages, uint32_t count, uint64_t number) {
    for (uint32_t i = 0; i < count; i++)
        if (pages[i].number == number)
            return &pages[i];
    return NULL;
}

/* The same of a ring of pages, trusting nothing but their numbers: of the newest N - 1 pages none may be missing, those
 * before the newest are full but for what no record fitted into, and no ticket between the first and the last is. */
static void check_pages(struct check *check, uint32_t index, const struct section *section) {
    const struct dump_lane *lane = &check->dump->lanes[index];
    const struct ring_page *pages = (const struct ring_page *)(check->dump->base + section->offset);
    const uint32_t largest = sizeof(struct ring_slots_whole) / sizeof(struct ring_slot);
    uint64_t newest = 0;
    for (uint32_t i = 0; i < section->count; i++)
        newest = pages[i].number > newest ? pages[i].number : newest;
    uint64_t oldest = newest > section->count - 1 ? newest - (section->count - 1) + 1 : 1;
    for (uint64_t number = oldest; number <= newest; number++) {
        const struct ring_page *page = page_numbered(pages, section->count, number);
        if (!page || page->used > RING_PAGE_SLOTS || (number < newest && page->used + largest <= RING_PAGE_SLOTS))
            fail(check, "lane %u: page %lu of %lu is missing or not full", index, number, newest);
    }
    check->totals->wrapped += newest > section->count;
    check->totals->in_progress +=
        newest >= section->count && !page_numbered(pages, section->count, newest + 1 - section->count);
    if (newest && lane->torn)
        fail(check, "lane %u: %lu tickets from %lu to %lu are missing", index, lane->torn, lane->first_ticket,
             lane->end_ticket);
}

/* The loader's walk: gapless at the end, every record consistent, every thread's reductions in unbroken order. */
static void check_walk(struct check *check, uint32_t index) {
    const struct dump_lane *lane = &check->dump->lanes[index];
    struct record_cursor cursor;
    uint64_t walked = 0;
    if (!record_cursor_begin(&cursor, check->dump, index)) {
        fail(check, "lane %u: cannot be walked", index);
        return;
    }
    uint64_t expected_ticket = 0, reductions[HAMMER_THREADS] = {0};
    for (const struct record *r; (r = record_cursor_next(&cursor)); walked++) {
        int thread = thread_of(check->dump, r->comm);
        check->totals->records++;
        if (!record_agrees(check->dump, r))
            fail(
                check,
                "lane %u: ticket %lu contradicts itself (call %u kind %u comm %u seq %u peer %d tag %d bytes %lu op %u "
                "flags %x, %ld ticks long)",
                index, r->commit - 1, r->call, r->kind, r->comm, r->seq, r->peer, r->tag, r->bytes, r->op, r->flags,
                (int64_t)(r->t1 - r->t0));
        if (r->commit - 1 != expected_ticket) /* older records come from sampled windows and have gaps */
            memset(reductions, 0, sizeof reductions);
        expected_ticket = r->commit;
        if (thread < 0 || !is_call(check->dump, r->call, "MPI_Allreduce"))
            continue;
        if (reductions[thread] && r->seq != reductions[thread])
            fail(check, "lane %u: reduction %u follows %lu", index, r->seq, reductions[thread] - 1);
        reductions[thread] = (uint64_t)r->seq + 1;
    }
    for (int thread = 0; thread < HAMMER_THREADS; thread++)
        if (reductions[thread] > check->reductions[thread])
            check->reductions[thread] = reductions[thread];
    record_cursor_end(&cursor);
    uint64_t expected = lane->end_ticket - lane->first_ticket - lane->torn;
    if (walked < expected)
        fail(check, "lane %u: %lu records walked, at least %lu were committed", index, walked, expected);
}

/* ---- aggregates ------------------------------------------------------------------------------ */

/* Of the first `calls` iterations, how many have this size. */
static uint64_t calls_of_size(uint64_t calls, uint64_t bytes) {
    uint64_t residue = bytes / 8 - 1;
    return calls / HAMMER_SIZES + (calls % HAMMER_SIZES > residue);
}

/* Every size's row counts what the newest number says it must; the call that was cut short may be in one of the two
 * only, and a row caught in the middle of its update is told by its version. */
static void check_aggregates(struct check *check) {
    uint64_t counted[HAMMER_THREADS] = {0};
    for (uint32_t l = 0; l < check->dump->lane_count; l++) {
        const struct dump_lane *lane = &check->dump->lanes[l];
        for (uint32_t i = 0; i < lane->operation_count; i++) {
            const struct operation_row *row = &lane->operations[i];
            int thread = row->version ? thread_of(check->dump, row->comm_epoch & ROW_COMM_NONE) : -1;
            check->totals->in_progress += row->version % 2;
            if (thread < 0 || !is_call(check->dump, row->call, "MPI_Allreduce"))
                continue;
            counted[thread] += row->count;
            uint64_t expected = calls_of_size(check->reductions[thread], row->bytes);
            if (row->count + 1 < expected || row->count > expected + 1)
                fail(check, "lane %u: row of %lu bytes counts %lu calls, the ring says %lu", l, row->bytes, row->count,
                     expected);
        }
    }
    for (int thread = 0; thread < HAMMER_THREADS; thread++)
        if (counted[thread] + 1 < check->reductions[thread] || counted[thread] > check->reductions[thread] + 1)
            fail(check, "thread %d: the tables count %lu reductions, the rings %lu", thread, counted[thread],
                 check->reductions[thread]);
}

static void check_definitions(const struct check *check, bool hammering) {
    for (size_t i = 0; i < check->dump->problems.count; i++)
        fail(check, "offset %lu: %s", check->dump->problems.items[i].offset, check->dump->problems.items[i].text);
    for (int thread = 0; hammering && thread < HAMMER_THREADS; thread++)
        if (!check->reductions[thread])
            fail(check, "no record of thread %d", thread);
}

/* Killed while the library was laying it out: the magic is written last. */
static bool is_unborn(const char *path) {
    char magic[8] = "?";
    FILE *file = fopen(path, "rb");
    bool read = file && fread(magic, sizeof magic, 1, file) == 1;
    if (file)
        fclose(file);
    return read && !memcmp(magic, (char[sizeof magic]){0}, sizeof magic);
}

void crash_check(const char *path, bool hammering, struct crash_totals *totals) {
    struct dump *dump = dump_open(path);
    struct check check = {.dump = dump, .totals = totals};
    if (!dump || !dump->header) {
        if (hammering || !is_unborn(path)) {
            printf("%s: not loadable: %s\n", path,
                   dump && dump->problems.count ? dump->problems.items[0].text : "no reason given");
            totals->failures++;
        }
        dump_close(dump);
        return;
    }
    totals->dumps++;
    for (uint32_t l = 0; l < dump->lane_count; l++) {
        if (dump->lanes[l].ring)
            check_ring(&check, l);
        else if (pages_section(dump, l))
            check_pages(&check, l, pages_section(dump, l));
        check_walk(&check, l);
    }
    check_aggregates(&check);
    check_definitions(&check, hammering);
    dump_close(dump);
}
