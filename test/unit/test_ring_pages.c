/* SPDX-License-Identifier: Apache-2.0
 *
 * Compact records: what the shim writes into a lane's pages is what the loader reads, whatever the records are; pages
 * that were damaged are told of and never believed.
 * Must not live here: plain rings (test_load.c), windows of a long run (test_recorder.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/load/dump.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/call_frame.h"
#include "shim/intercept/threads.h"
#include "shim/record/ring.h"

#define RING "4096"

static char directory[] = "/tmp/commtap-unit-XXXXXX";

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_RUN_ID", "unit", 1);
    setenv("COMMTAP_RING", RING, 1);
    knobs_read(&recorder.knobs);
    if (!activate_process())
        return -1;
    current_thread()->lane->state->threads =
        0; /* a lane in use would have to count in its tables what the ring holds */
    return 0;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static struct lane *my_lane(void) {
    return current_thread()->lane;
}

/* ---- what was written ------------------------------------------------------------------------ */

#define WRITTEN_MAX 100000u
static struct record written[WRITTEN_MAX]; /* by ticket */

static void write_record(const struct record *record) {
    struct lane *lane = my_lane();
    assert_true(lane->head < WRITTEN_MAX);
    written[lane->head] = *record;
    written[lane->head].commit = lane->head + 1;
    ring_add(lane, record);
}

static uint64_t random_state = 1;
static uint64_t any(uint64_t below) {
    random_state = hash_mix(random_state + 0x9e3779b97f4a7c15u);
    return random_state % below;
}

/* Slots in use on all pages of the lane, and the records in them. */
static void count_slots(uint64_t *slots, uint64_t *records) {
    const struct page_writer *p = &my_lane()->pages;
    uint64_t oldest = UINT64_MAX;
    *slots = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        if (!p->pages[i].number)
            continue;
        *slots += p->pages[i].used;
        oldest = p->pages[i].first_ticket < oldest ? p->pages[i].first_ticket : oldest;
    }
    *records = my_lane()->head - oldest;
}

static void assert_same(const struct record *read, uint64_t ticket) {
    assert_memory_equal(read, &written[ticket], sizeof *read);
}

/* Every ticket from the ring's first on is there, by the cursor and one by one, and is what was written. */
static void check_all(const struct dump *dump, uint64_t from) {
    const struct dump_lane *lane = &dump->lanes[my_lane()->index];
    struct record_cursor cursor;
    struct record_reader reader;
    uint64_t last = 0;
    assert_int_equal(dump->problems.count, 0);
    assert_int_equal(lane->end_ticket, my_lane()->head);
    assert_int_equal(lane->torn, 0);
    assert_true(record_cursor_begin(&cursor, dump, my_lane()->index));
    for (const struct record *r; (r = record_cursor_next(&cursor)); last = r->commit) {
        assert_true(r->commit > last);
        assert_true(r->commit - 1 <= lane->first_ticket || r->commit == last + 1);
        if (r->commit - 1 >= from)
            assert_same(r, r->commit - 1);
    }
    record_cursor_end(&cursor);
    assert_int_equal(last, lane->end_ticket);
    record_reader_begin(&reader, dump, my_lane()->index);
    for (int i = 0; i < 500; i++) {
        uint64_t ticket = lane->first_ticket + any(lane->end_ticket - lane->first_ticket);
        const struct record *r = record_reader_at(&reader, ticket);
        assert_non_null(r);
        if (ticket >= from)
            assert_same(r, ticket);
    }
    assert_null(record_reader_at(&reader, lane->end_ticket));
    assert_null(lane->first_ticket > 0 ? record_reader_at(&reader, lane->first_ticket - 1) : NULL);
}

static struct dump *load(void) {
    struct dump *dump = dump_open(recorder.file.path);
    assert_non_null(dump->header);
    return dump;
}

/* ---- forms of records ------------------------------------------------------------------------ */

/* One of a few dozen calls as a job repeats them. */
static struct record common_record(uint64_t *now) {
    uint64_t kind = any(40);
    *now += any(5000);
    return (struct record){.t0 = *now - any(3000),
                           .t1 = *now,
                           .bytes = kind % 3 ? 8ull << kind % 7 : BYTES_UNKNOWN,
                           .seq = (uint32_t)any(UINT32_MAX),
                           .op = kind % 2 ? ++recorder.next_op : 0,
                           .comm = (uint32_t)(kind % 5),
                           .peer = (int32_t)kind - 5,
                           .tag = kind % 7 ? (int32_t)(kind % 3) : TAG_NONE,
                           .stack = (uint32_t)kind,
                           .call = (uint16_t)(200 + kind % 4),
                           .flags = (uint16_t)(1u << kind % 16),
                           .kind = (uint8_t)(1 + kind % 3),
                           .dtype = (uint8_t)(kind % 5),
                           .redop = (uint8_t)(kind % 4),
                           .result = (uint8_t)(kind % 11 == 0)};
}

/* Makes it unlike others, in one way or another. */
static void make_odd(struct record *r, uint64_t *now) {
    switch (any(8)) {
    case 0: /* after a long pause */
        *now += 1ull << (32 + any(8));
        r->t1 = r->t0 = *now;
        break;
    case 1: /* longer than 32 bits */
        r->t0 = r->t1 - (1ull << (32 + any(6))) - any(1000);
        break;
    case 2: /* seen complete before what is already written */
        r->t1 -= any(1u << 28);
        r->t0 = r->t1 - any(1000);
        break;
    case 3: /* a clock that went back */
        r->t1 = r->t0 - 1 - any(1000);
        break;
    case 4: /* an operation of long ago, or of another counter */
        r->op = (uint32_t)any(UINT32_MAX);
        break;
    case 5: /* near the ends of what counts from a base */
        r->op = recorder.next_op - 40000 + (uint32_t)any(150000);
        break;
    case 6:
        r->bytes = any(UINT64_MAX);
        break;
    default:
        r->peer = (int32_t)any(UINT32_MAX);
        r->tag = (int32_t)any(UINT32_MAX);
    }
}

static void test_all_forms_read_back(void **state) {
    (void)state;
    for (int round = 0; round < 8; round++) {
        uint64_t now = (1ull << 45) + any(1ull << 40), from = my_lane()->head;
        unsigned odd = 1u << round; /* from one in two to one in 256 */
        for (int i = 0; i < 3000; i++) {
            struct record r = common_record(&now);
            if (any(odd * 2) == 0)
                make_odd(&r, &now);
            write_record(&r);
        }
        struct dump *dump = load();
        check_all(dump, from);
        dump_close(dump);
    }
}

/* Numbers of operations go round, and those of another activation begin anew. */
static void test_operations_go_round(void **state) {
    (void)state;
    uint64_t from = my_lane()->head, now = ticks();
    recorder.next_op = UINT32_MAX - 1000;
    for (uint32_t i = 0; i < 3000; i++) {
        struct record r = common_record(&now);
        write_record(&r);
    }
    struct dump *dump = load();
    check_all(dump, from);
    dump_close(dump);
}

/* ---- room ------------------------------------------------------------------------------------ */

static struct record one_message(uint32_t i, bool send, enum record_kind kind) {
    return (struct record){.bytes = 4096,
                           .seq = i / 4,
                           .op = i,
                           .peer = send ? 1 : 3,
                           .tag = (int32_t)(i % 4),
                           .stack = send ? 7 : 8,
                           .call = send ? 202 : 203,
                           .flags = send ? FLAG_SEND : FLAG_RECV,
                           .kind = (uint8_t)kind};
}

static void write_at(struct record r, uint64_t t0, uint64_t t1) {
    r.t0 = t0;
    r.t1 = t1;
    write_record(&r);
}

/* ---- polls that found nothing ---------------------------------------------------------------- */

static const struct facts poll_facts = {{0, COMM_NONE | (uint64_t)(uint32_t)PEER_NONE << 32, (uint32_t)TAG_NONE,
                                         286 | (uint64_t)RECORD_POLL << KIND_SHIFT}};

static void poll(struct poll_series *series, uint64_t t0, uint64_t t1) {
    if (!ring_add_poll(my_lane(), series, t0, t1))
        ring_add_poll_rare(my_lane(), series, &poll_facts, t0, t1);
}

/* The lane's record of that ticket as a reader sees it. */
static struct record read_back(uint64_t ticket) {
    struct dump *dump = load();
    struct record_reader reader;
    record_reader_begin(&reader, dump, my_lane()->index);
    const struct record *found = record_reader_at(&reader, ticket);
    assert_non_null(found);
    struct record record = *found;
    dump_close(dump);
    return record;
}

#define assert_series(TICKET, FROM, TO, WORKED)                                                                        \
    do {                                                                                                               \
        struct record series = read_back(TICKET);                                                                      \
        assert_int_equal(series.kind, RECORD_POLL);                                                                    \
        assert_int_equal(series.call, 286);                                                                            \
        assert_int_equal(series.t0, FROM);                                                                             \
        assert_int_equal(series.t1, TO);                                                                               \
        assert_int_equal(series.seq, WORKED);                                                                          \
    } while (0)

/* However many polls there are, and whatever work lies between them. */
static void test_polls_in_a_row_are_one_record(void **state) {
    (void)state;
    struct poll_series series = {0};
    uint64_t now = ticks(), start = now, gap = recorder.poll_gap, head = my_lane()->head;
    for (int i = 0; i < 1000; i++, now += gap)
        poll(&series, now, now + 100);
    assert_int_equal(my_lane()->head, head + 1);
    assert_series(head, start, now - gap + 100, 0);
    poll(&series, now + 5 * gap, now + 5 * gap + 100); /* after work */
    poll(&series, now + 5 * gap + 200, now + 5 * gap + 300);
    assert_int_equal(my_lane()->head, head + 1);
    assert_series(head, start, now + 5 * gap + 300, 6 * gap - 100);
}

/* A poll so much later than the one before. */
static void poll_later(struct poll_series *series, uint64_t *now, uint64_t ticks_later) {
    *now += ticks_later;
    poll(series, *now, *now + 100);
}

static void run_for(uint64_t ns) {
    for (uint64_t until = os_thread_ran_ns() + ns; os_thread_ran_ns() < until;)
        ;
}

/* What is gone by on the clock of the polls here, the thread has not run for, but where the test makes it. */
static void test_naps_between_polls_are_no_work(void **state) {
    (void)state;
    struct poll_series series = {0};
    uint64_t nap = recorder.anchors.tick_hz / 800 /* 1.25 ms */, now = ticks(), start = now, head = my_lane()->head,
             worked;
    poll(&series, now, now + 100);
    poll_later(&series, &now, nap / 2); /* nothing is known of the first gap */
    worked = nap / 2 - 100;
    assert_int_equal(series.worked, worked);
    poll_later(&series, &now, nap * 3 / 4);
    assert_in_range(series.worked, worked, worked + nap / 4);
    worked = series.worked;
    run_for(625000);
    poll_later(&series, &now, nap * 3 / 4);
    assert_in_range(series.worked, worked + nap / 4, worked + nap * 3 / 4);
    worked = series.worked;
    poll_later(&series, &now, nap * 3 / 2); /* too long for one */
    assert_series(head, start, now + 100, worked + nap * 3 / 2 - 100);
}

static void test_another_record_ends_a_series(void **state) {
    (void)state;
    struct poll_series series = {0};
    uint64_t now = ticks(), head = my_lane()->head;
    poll(&series, now, now + 10);
    write_at((struct record){.call = 231, .kind = RECORD_CALL}, now + 20, now + 30);
    poll(&series, now + 40, now + 50);
    poll(&series, now + 60, now + 70);
    assert_int_equal(my_lane()->head, head + 3);
    assert_series(head, now, now + 10, 0);
    assert_series(head + 2, now + 40, now + 70, 0);
}

/* Lengths have 32 bits: a longer series is told in several records, without a gap. The first one's base may lie back.
 */
static void test_a_series_beyond_32_bits_goes_on_in_another_record(void **state) {
    (void)state;
    struct poll_series series = {0};
    uint64_t now = ticks(), ends[2] = {0}, head = my_lane()->head;
    for (; my_lane()->head < head + 3; now += recorder.poll_gap) {
        if (my_lane()->head > head)
            ends[my_lane()->head - head - 1] = series.left;
        poll(&series, now, now + 100);
    }
    struct record second = read_back(head + 1);
    assert_int_equal(read_back(head).t1, ends[0]);
    assert_int_equal(second.t0, ends[0] - 100 + recorder.poll_gap);
    assert_int_equal(second.t1, ends[1]);
    assert_int_equal(second.seq, 0);
    assert_true(second.t1 - second.t0 > UINT32_MAX - RING_BASE_MARGIN - 2 * recorder.poll_gap);
    assert_int_equal(read_back(head + 2).t0, ends[1] - 100 + recorder.poll_gap);
}

/* A clock that is behind on another processor tells of no work. */
static void test_a_clock_that_goes_back_is_no_work(void **state) {
    (void)state;
    struct poll_series series = {0};
    uint64_t now = ticks(), head = my_lane()->head;
    poll(&series, now, now + 1000);
    poll(&series, now + 900, now + 1100);
    assert_int_equal(my_lane()->head, head + 1);
    assert_series(head, now, now + 1100, 0);
}

/* Lanes that hold plain records hold none of polls, and are left alone. */
static void test_plain_lanes_have_no_series(void **state) {
    (void)state;
    struct lane_state lane_state = {0};
    struct lane lane = {.state = &lane_state};
    struct poll_series series = {0};
    ring_begin_nothing(&lane);
    for (uint64_t now = ticks(), i = 0; i < 3; i++, now += 100)
        if (!ring_add_poll(&lane, &series, now, now + 10))
            ring_add_poll_rare(&lane, &series, &poll_facts, now, now + 10);
    assert_ptr_equal(series.slot, &series.nowhere);
    assert_int_equal(lane.head, 0);
    assert_int_equal(lane_state.head, 0);
}

/* ---- how much room they take ----------------------------------------------------------------- */

/* Four messages each way, Waitall, Allreduce: 18 records, of which nothing is new. A quarter of 64 bytes each, and
 * never more than a third with what pages and templates add. */
static void test_a_repeated_exchange_takes_a_quarter(void **state) {
    (void)state;
    uint64_t now = ticks(), slots, records;
    uint32_t templates = my_lane()->pages.templates->count;
    recorder.next_op = 1000;
    for (int step = 0; step < 400; step++) {
        uint32_t first = recorder.next_op + 1;
        uint64_t start = now;
        for (uint32_t i = 0; i < 8; i++, now += 900)
            write_at(one_message(++recorder.next_op, i >= 4, RECORD_POST), now, now + 800);
        now += 50000;
        write_at((struct record){.seq = SEQ_NONE, .call = 231, .stack = 9, .kind = RECORD_CALL}, start, now);
        for (uint32_t i = 0; i < 8; i++)
            write_at(one_message(first + i, i >= 4, RECORD_DONE), start + i * 900, now);
        write_at((struct record){.bytes = 8, .seq = (uint32_t)step, .call = 30, .stack = 10, .kind = RECORD_CALL}, now,
                 now + 9000);
        now += 20000;
    }
    count_slots(&slots, &records);
    assert_true(records >= 4096 && slots * 100 <= records * 101);
    uint64_t bytes = my_lane()->pages.count * sizeof(struct ring_page) +
                     (my_lane()->pages.templates->count - templates) * sizeof(struct template_definition);
    assert_true(bytes * 3 <= records * sizeof(struct record));
}

/* A job that never sends the same twice fills neither the table nor the definitions, and still takes half. */
static void test_ever_new_sizes_take_half(void **state) {
    (void)state;
    uint64_t from = my_lane()->head, now = ticks(), slots, records;
    uint32_t templates = my_lane()->pages.templates->count;
    for (uint32_t i = 0; i < 5000; i++, now += 1000)
        write_record(&(struct record){.t0 = now,
                                      .t1 = now + 500,
                                      .bytes = 1000 + i,
                                      .peer = (int32_t)(i % 3),
                                      .tag = (int32_t)i,
                                      .stack = 4711,
                                      .call = 200,
                                      .kind = RECORD_CALL});
    assert_in_range(my_lane()->pages.templates->count - templates, 2, TEMPLATE_VARIANTS);
    count_slots(&slots, &records);
    assert_in_range(slots, records * 19 / 10, records * 2);
    struct dump *dump = load();
    check_all(dump, from);
    dump_close(dump);
}

/* More kinds of calls than the table holds: records are then as long as plain ones, and complete. */
static void test_a_full_table_loses_nothing(void **state) {
    (void)state;
    uint64_t from = my_lane()->head, now = ticks(), slots, records;
    for (uint32_t i = 0; i < TEMPLATES_MAX + 4096; i++, now += 1000)
        write_record(
            &(struct record){.t0 = now, .t1 = now + 500, .comm = i, .stack = 1, .call = 30, .kind = RECORD_CALL});
    assert_int_equal(my_lane()->pages.templates->count, TEMPLATES_MAX);
    count_slots(&slots, &records);
    assert_in_range(slots, records * 3, records * 4);
    struct dump *dump = load();
    check_all(dump, from);
    assert_int_equal(recorder.header->losses.definitions_full, 0);
    dump_close(dump);
}

/* ---- damage ---------------------------------------------------------------------------------- */

struct image {
    uint8_t *bytes;
    size_t length;
    struct section *ring, *definitions;
    struct ring_page *pages;
    uint64_t newest; /* number */
};

static struct section *section_of(const struct image *image, uint32_t kind) {
    struct section *sections = ((struct dump_header *)image->bytes)->sections;
    for (uint32_t i = 0; i < SECTIONS_MAX; i++)
        if (sections[i].kind == kind)
            return &sections[i];
    return NULL;
}

static struct image read_image(void) {
    struct image image = {0};
    FILE *file = fopen(recorder.file.path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    image.length = (size_t)ftell(file);
    rewind(file);
    image.bytes = aligned_alloc(SECTION_ALIGN, image.length);
    assert_int_equal(fread(image.bytes, 1, image.length, file), image.length);
    fclose(file);
    image.ring = section_of(&image, SECTION_RING_PAGES);
    image.definitions = section_of(&image, SECTION_DEFINITIONS);
    image.pages = (struct ring_page *)(image.bytes + image.ring->offset);
    for (uint32_t i = 0; i < image.ring->count; i++)
        image.newest = image.pages[i].number > image.newest ? image.pages[i].number : image.newest;
    return image;
}

/* The page before the newest ones, with one-slot records alone. */
static struct ring_page *page_before(const struct image *image, uint64_t back) {
    for (uint32_t i = 0; i < image->ring->count; i++)
        if (image->pages[i].number == image->newest - back)
            return &image->pages[i];
    return NULL;
}

static void fill_with_common(void) {
    uint64_t now = ticks();
    for (uint32_t i = 0; i < 6000; i++, now += 1000)
        write_record(&(struct record){.t0 = now, .t1 = now + 5, .seq = i, .comm = 1, .call = 30, .kind = RECORD_CALL});
}

static uint64_t walk(const struct dump *dump, uint32_t lane) {
    struct record_cursor cursor;
    uint64_t count = 0, last = 0;
    if (!record_cursor_begin(&cursor, dump, lane))
        return 0;
    for (const struct record *r; (r = record_cursor_next(&cursor)); count++, last = r->commit)
        assert_true(r->commit > last);
    record_cursor_end(&cursor);
    return count;
}

static bool says(const struct dump *dump, const char *text, uint64_t offset) {
    for (size_t i = 0; i < dump->problems.count; i++)
        if (strstr(dump->problems.items[i].text, text) && dump->problems.items[i].offset == offset)
            return true;
    return false;
}

/* What lies before a slot that cannot be read is used, as are the other pages; file and offset are told. */
static void check_damage(struct ring_slot damaged, const char *text) {
    enum { BEFORE = 100 };
    struct image image = read_image();
    struct ring_page *page = page_before(&image, 3);
    uint64_t first = page->first_ticket, lost = page->used - BEFORE;
    page->slots[BEFORE] = damaged;
    struct dump *dump = dump_open_buffer("damaged", image.bytes, image.length);
    const struct dump_lane *lane = &dump->lanes[0];
    struct record_reader reader;
    assert_true(says(dump, text, (uint64_t)((uint8_t *)&page->slots[BEFORE] - image.bytes)));
    assert_int_equal(lane->torn, lost);
    record_reader_begin(&reader, dump, 0);
    assert_same(record_reader_at(&reader, first + BEFORE - 1), first + BEFORE - 1);
    assert_null(record_reader_at(&reader, first + BEFORE));
    assert_null(record_reader_at(&reader, first + BEFORE + lost - 1));
    assert_same(record_reader_at(&reader, first + BEFORE + lost), first + BEFORE + lost);
    dump_close(dump);
    free(image.bytes);
}

static void test_a_bad_slot_ends_its_page(void **state) {
    (void)state;
    fill_with_common();
    check_damage((struct ring_slot){.template_number = 0}, "a template that is not defined");
    check_damage((struct ring_slot){.template_number = TEMPLATES_MAX}, "a template that is not defined");
    check_damage((struct ring_slot){.template_number = 0x7fff}, "a template that is not defined");
    check_damage((struct ring_slot){.template_number = 0xfffd}, "a template that is not defined");
    struct ring_slot time;
    memcpy(&time, &(struct ring_slot_time){.base_ticks = UINT64_MAX - 7, .form = SLOT_TIME}, sizeof time);
    check_damage(time, "a base of times beyond any clock");
}

/* A record that claims slots which nobody wrote, a page that claims more than it has. */
static void test_claims_are_bounded(void **state) {
    (void)state;
    fill_with_common();
    struct image image = read_image();
    struct ring_page *last = page_before(&image, 2), *full = page_before(&image, 4);
    last->slots[last->used - 1].template_number = SLOT_WHOLE;
    full->used = RING_PAGE_SLOTS + 1;
    struct dump *dump = dump_open_buffer("claims", image.bytes, image.length);
    assert_true(
        says(dump, "goes beyond the slots in use", (uint64_t)((uint8_t *)&last->slots[last->used - 1] - image.bytes)));
    assert_true(says(dump, "more slots than a page has", (uint64_t)((uint8_t *)full->slots - image.bytes)));
    assert_int_equal(dump->lanes[0].torn, 1 + RING_PAGE_SLOTS);
    dump_close(dump);
    free(image.bytes);
}

/* Pages of another lane, of another round, with tickets that others have: left out, the rest stays. */
static void test_foreign_pages_are_left_out(void **state) {
    (void)state;
    fill_with_common();
    struct image image = read_image();
    page_before(&image, 5)->lane = 3;
    page_before(&image, 7)->number = image.newest - 100;
    page_before(&image, 9)->first_ticket += 10;
    page_before(&image, 11)->first_ticket = 1ull << 62;
    struct dump *dump = dump_open_buffer("foreign", image.bytes, image.length);
    assert_true(says(dump, "4 pages that do not belong there", image.ring->offset));
    assert_int_equal(dump->lanes[0].torn, 4 * RING_PAGE_SLOTS);
    assert_int_equal(dump->lanes[0].end_ticket, my_lane()->head);
    dump_close(dump);
    free(image.bytes);
}

/* The process died while it took a page anew. */
static void test_a_page_being_taken_is_lost_alone(void **state) {
    (void)state;
    fill_with_common();
    struct image image = read_image();
    struct dump *whole = dump_open_buffer("whole", image.bytes, image.length);
    uint64_t first = whole->lanes[0].first_ticket, lost = dump_lane_lost(whole, 0);
    dump_close(whole);
    for (uint32_t i = 0; i < image.ring->count; i++)
        if (image.pages[i].number && image.pages[i].first_ticket == first)
            image.pages[i].number = 0;
    struct dump *dump = dump_open_buffer("taken", image.bytes, image.length);
    assert_int_equal(dump->problems.count, 0);
    assert_int_equal(dump->lanes[0].first_ticket, first + RING_PAGE_SLOTS);
    assert_int_equal(dump->lanes[0].torn, 0);
    assert_int_equal(dump_lane_lost(dump, 0), lost + RING_PAGE_SLOTS);
    dump_close(dump);
    free(image.bytes);
}

/* The writer lives, and takes a page anew that is being read: of it nothing more is believed, the next one follows. */
static void test_a_page_taken_while_it_is_read(void **state) {
    (void)state;
    enum { READ = 10 };
    struct image image = read_image();
    struct dump *dump = dump_open_buffer("live", image.bytes, image.length);
    uint64_t first = dump->lanes[0].first_ticket;
    struct record_cursor cursor;
    const struct record *r = NULL;
    assert_true(record_cursor_begin(&cursor, dump, 0));
    while (!r || r->commit - 1 < first + READ)
        assert_non_null(r = record_cursor_next(&cursor));
    for (uint32_t i = 0; i < image.ring->count; i++)
        if (image.pages[i].number && image.pages[i].first_ticket == first)
            image.pages[i].number += image.ring->count;
    assert_non_null(r = record_cursor_next(&cursor));
    assert_int_equal(r->commit - 1, first + RING_PAGE_SLOTS);
    assert_same(r, r->commit - 1);
    record_cursor_end(&cursor);
    dump_close(dump);
    free(image.bytes);
}

/* Any words in any place: no crash (sanitizers are on), and tickets still come in order. */
static void test_random_damage(void **state) {
    (void)state;
    static const uint64_t words[] = {0, 1, 0xffff, 0xfffe, 0x8001, UINT32_MAX, UINT64_MAX, 1ull << 63, 252, 253};
    struct image image = read_image();
    uint8_t *sound = malloc(image.length);
    memcpy(sound, image.bytes, image.length);
    const struct section *windows = section_of(&image, SECTION_TRACE_WINDOWS);
    for (int round = 0; round < 150; round++) {
        for (int i = 0; i < 20; i++) {
            const struct section *section = i % 3 == 0 ? image.ring : i % 3 == 1 ? image.definitions : windows;
            uint64_t at = section->offset + any(section->bytes / (any(2) ? 1 : 8) - 8) / 2 * 2;
            uint64_t word = any(2) ? words[any(sizeof words / sizeof *words)] : any(UINT64_MAX);
            memcpy(image.bytes + at, &word, any(2) ? 2 : 8);
        }
        struct dump *dump = dump_open_buffer("random", image.bytes, any(4) ? image.length : any(image.length));
        for (uint32_t lane = 0; lane < dump->lane_count; lane++)
            walk(dump, lane);
        dump_close(dump);
        memcpy(image.bytes, sound, image.length);
    }
    free(sound);
    free(image.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_forms_read_back),
        cmocka_unit_test(test_operations_go_round),
        cmocka_unit_test(test_polls_in_a_row_are_one_record),
        cmocka_unit_test(test_naps_between_polls_are_no_work),
        cmocka_unit_test(test_another_record_ends_a_series),
        cmocka_unit_test(test_a_series_beyond_32_bits_goes_on_in_another_record),
        cmocka_unit_test(test_a_clock_that_goes_back_is_no_work),
        cmocka_unit_test(test_plain_lanes_have_no_series),
        cmocka_unit_test(test_a_repeated_exchange_takes_a_quarter),
        cmocka_unit_test(test_ever_new_sizes_take_half),
        cmocka_unit_test(test_a_bad_slot_ends_its_page),
        cmocka_unit_test(test_claims_are_bounded),
        cmocka_unit_test(test_foreign_pages_are_left_out),
        cmocka_unit_test(test_a_page_being_taken_is_lost_alone),
        cmocka_unit_test(test_a_page_taken_while_it_is_read),
        cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_a_full_table_loses_nothing),
    };
    return cmocka_run_group_tests_name("ring pages", tests, activate, remove_files);
}
