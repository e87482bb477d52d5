/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up rings of compact pages: what the tests' own builder packs by the words of format.h is what the loader reads,
 * whatever the records are. The shim's own pages: test_ring_pages.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "analyzer/load/dump.h"
#include "test/support/dump_builder.h"

enum { RECORDS = 20000, RING = 4096, LANE = 1 };

static uint64_t random_state = 1;
static uint64_t any(uint64_t below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 24) % below;
}

/* Calls as a job repeats them; now and then one whose times or numbers fit into no slot. */
static struct record any_record(uint64_t *now) {
    uint64_t kind = any(6);
    *now += any(200) == 0 ? UINT64_C(1) << 34 : any(5000);
    uint64_t length = any(100) == 0 ? UINT64_C(1) << 33 : any(1000);
    return (struct record){.t0 = *now > length ? *now - length : 0,
                           .t1 = any(300) == 0 ? *now / 2 : *now,
                           .bytes = kind % 3 ? 8u << kind : BYTES_UNKNOWN,
                           .seq = (uint32_t)any(UINT32_MAX),
                           .op = any(2) ? (uint32_t)(any(100) ? 500000 + any(30000) : any(UINT32_MAX)) : 0,
                           .peer = (int32_t)(any(3) ? kind : any(20)),
                           .tag = any(9) ? 0 : TAG_ANY,
                           .stack = (uint32_t)kind,
                           .call = BUILDER_SEND,
                           .flags = FLAG_SEND,
                           .kind = RECORD_CALL};
}

/* The same records in a ring of plain ones large enough for all, and in one of pages that goes round. */
static void build(struct dump_builder *builder, struct record *written) {
    uint64_t now = UINT64_C(1) << 40;
    random_state = 1;
    dump_builder_standard_calls(builder);
    dump_builder_anchor(builder, 0, 0, 1000000, 10);
    dump_builder_anchor(builder, 1000000, 1000000, 2000000, 10);
    dump_builder_world(builder);
    for (uint32_t i = 0; i < RECORDS; i++) {
        written[i] = any_record(&now);
        written[i].commit = i + 1;
        assert_null(dump_builder_record(builder, LANE, &written[i]));
    }
}

static struct dump *open_builder(const struct dump_builder *builder) {
    size_t bytes;
    const void *data = dump_builder_data(builder, &bytes);
    struct dump *dump = dump_open_buffer("made.ct", data, bytes);
    assert_non_null(dump);
    assert_non_null(dump->header);
    return dump;
}

static struct record written[RECORDS];

static struct dump_builder *new_builder(void) {
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){
        .world_size = 1, .lanes = 2, .ring_records = RING, .compact_lanes = 1u << LANE, .definition_areas = 2});
    build(builder, written);
    return builder;
}

static void every_form_is_read_as_it_was_written(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder();
    struct dump *dump = open_builder(builder);
    const struct dump_lane *lane = &dump->lanes[LANE];
    struct record_cursor cursor;
    uint64_t ticket = lane->first_ticket;
    assert_int_equal(dump->problems.count, 0);
    assert_null(dump->lanes[LANE].ring);
    assert_int_equal(lane->end_ticket, RECORDS);
    assert_in_range(lane->end_ticket - lane->first_ticket, RING / 4, RING + RING_PAGE_SLOTS);
    assert_true(record_cursor_begin(&cursor, dump, LANE));
    for (const struct record *r; (r = record_cursor_next(&cursor)); ticket++)
        assert_memory_equal(r, &written[ticket], sizeof *r);
    record_cursor_end(&cursor);
    assert_int_equal(ticket, RECORDS);
    dump_close(dump);
    dump_builder_free(builder);
}

/* How many slots of the lane's pages in use begin a record of that form. */
struct forms {
    uint32_t slot, explicit, time, whole;
};

static struct forms count_forms(struct dump_builder *builder) {
    const struct ring_page *pages = dump_builder_contents(builder, SECTION_RING_PAGES, LANE);
    uint32_t count = dump_builder_section(builder, SECTION_RING_PAGES, LANE)->count;
    struct forms forms = {0};
    for (uint32_t p = 0; p < count; p++)
        for (uint32_t i = 0; i < pages[p].used; i++) {
            uint16_t form = pages[p].slots[i].template_number;
            forms.whole += form == SLOT_WHOLE;
            forms.time += form == SLOT_TIME;
            forms.explicit += form < SLOT_WHOLE && form & SLOT_EXPLICIT;
            forms.slot += form < SLOT_EXPLICIT;
            i += form == SLOT_WHOLE ? 3 : form < SLOT_WHOLE && form & SLOT_EXPLICIT;
        }
    return forms;
}

static void every_form_is_used(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder();
    struct forms forms = count_forms(builder);
    assert_true(forms.slot > 100);
    assert_true(forms.explicit > 100);
    assert_true(forms.time > 10);
    assert_true(forms.whole > 10);
    dump_builder_free(builder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_read_as_it_was_written),
        cmocka_unit_test(every_form_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
