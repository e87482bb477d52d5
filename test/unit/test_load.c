/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading one dump: header, sections, definitions, rings, windows, losses.
 * Lives here: sound and damaged dumps made by hand, and what the loader must say of them.
 * Must not live here: clocks (test_load_clock.c), directories (test_load_set.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/load/dump.h"
#include "test/support/dump_builder.h"

static struct dump *open_builder(const struct dump_builder *builder) {
    size_t bytes;
    const void *data = dump_builder_data(builder, &bytes);
    struct dump *dump = dump_open_buffer("made.ct", data, bytes);
    assert_non_null(dump);
    return dump;
}

static struct dump_builder *new_builder(struct dump_plan plan) {
    struct dump_builder *builder = dump_builder_new(&plan);
    dump_builder_standard_calls(builder);
    dump_builder_anchor(builder, 0, 0, 1000000, 10);
    dump_builder_anchor(builder, 1000000, 1000000, 2000000, 10);
    dump_builder_world(builder);
    return builder;
}

static bool says(const struct dump *dump, const char *part) {
    for (size_t i = 0; i < dump->problems.count; i++)
        if (strstr(dump->problems.items[i].text, part))
            return true;
    return false;
}

static void assert_fatal(const struct dump *dump, uint64_t offset, const char *part) {
    assert_null(dump->header);
    assert_int_equal(dump->problems.count, 1);
    assert_true(dump->problems.items[0].fatal);
    assert_int_equal(dump->problems.items[0].offset, offset);
    assert_true(says(dump, part));
}

static void a_sound_dump_has_no_problems(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.rank = 2, .world_size = 4});
    struct dump *dump = open_builder(builder);
    assert_int_equal(dump->problems.count, 0);
    assert_string_equal(dump->run_id, "testrun");
    assert_string_equal(dump->host, "host0");
    assert_int_equal(dump->header->rank, 2);
    assert_string_equal(dump_call(dump, BUILDER_ALLREDUCE)->name, "MPI_Allreduce");
    assert_null(dump_call(dump, 999));
    assert_null(dump_call(dump, 5000));
    const struct dump_communicator *world = dump_communicator(dump, 0);
    assert_string_equal(world->name, "MPI_COMM_WORLD");
    int32_t ranks[4];
    assert_int_equal(dump_communicator_members(world, ranks, 4), 4);
    assert_int_equal(ranks[3], 3);
    assert_null(dump_communicator(dump, 1));
    assert_null(dump_communicator(dump, COMM_NONE));
    assert_true(dump_records_complete(dump));
    dump_close(dump);
    dump_builder_free(builder);
}

static void wrong_headers_are_fatal_and_say_where(void **state) {
    (void)state;
    static const struct {
        size_t offset;
        const char *says;
    } cases[] = {
        {offsetof(struct dump_header, magic), "magic"},
        {offsetof(struct dump_header, version), "format version"},
        {offsetof(struct dump_header, byte_order), "byte order"},
        {offsetof(struct dump_header, header_bytes), "header of"},
        {offsetof(struct dump_header, section_bytes), "section entries"},
        {offsetof(struct dump_header, record_bytes), "records of"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 1});
        memset((uint8_t *)dump_builder_header(builder) + cases[i].offset, 0, sizeof(uint32_t));
        struct dump *dump = open_builder(builder);
        assert_fatal(dump, cases[i].offset, cases[i].says);
        dump_close(dump);
        dump_builder_free(builder);
    }
}

static void the_other_byte_order_is_named(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 1});
    dump_builder_header(builder)->byte_order = 0x04030201;
    struct dump *dump = open_builder(builder);
    assert_fatal(dump, offsetof(struct dump_header, byte_order), "other byte order");
    dump_close(dump);
    dump_builder_free(builder);
}

static void numbers_that_no_writer_leaves_are_not_believed(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.rank = 2, .world_size = 4});
    dump_builder_header(builder)->rank = -7;
    dump_builder_header(builder)->world_size = -3;
    struct dump *dump = open_builder(builder);
    assert_int_equal(dump->header->rank, RANK_UNKNOWN);
    assert_int_equal(dump->header->world_size, RANK_UNKNOWN);
    assert_int_equal(dump->problems.count, 2);
    assert_int_equal(dump->problems.items[0].offset, offsetof(struct dump_header, rank));
    assert_int_equal(dump->problems.items[1].offset, offsetof(struct dump_header, world_size));
    assert_false(dump->problems.items[0].fatal || dump->problems.items[1].fatal);
    assert_true(says(dump, "rank -7") && says(dump, "world of -3 ranks"));
    dump_close(dump);
    dump_builder_header(builder)->rank = dump_builder_header(builder)->world_size = RANK_UNKNOWN;
    dump = open_builder(builder);
    assert_int_equal(dump->problems.count, 0);
    dump_close(dump);
    dump_builder_free(builder);
}

static void a_file_may_end_anywhere(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 3, .windows = 2});
    for (uint64_t i = 0; i < 100; i++)
        dump_builder_collective(builder, 0, BUILDER_ALLREDUCE, 0, (uint32_t)i, 8, 1000 * i, 1000 * i + 10);
    size_t bytes;
    const void *data = dump_builder_data(builder, &bytes);
    for (size_t end = 0; end < bytes; end += end < 70000 ? 4096 : 30011) {
        /* a copy of exactly that size, so that the sanitizer sees every step beyond the end */
        void *copy = aligned_alloc(64, (end + 63) / 64 * 64 + 64);
        memcpy(copy, data, end);
        struct dump *dump = dump_open_buffer("cut.ct", copy, end);
        assert_non_null(dump);
        for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
            struct record_cursor cursor;
            assert_true(record_cursor_begin(&cursor, dump, lane));
            while (record_cursor_next(&cursor))
                ;
            record_cursor_end(&cursor);
        }
        dump_close(dump);
        free(copy);
    }
    dump_builder_free(builder);
}

static void a_cut_ring_keeps_what_is_there(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 1, .ring_records = 1024});
    for (uint64_t i = 0; i < 100; i++)
        dump_builder_plain(builder, 0, BUILDER_WAIT, 10 * i, 10 * i + 1);
    struct section *ring = dump_builder_section(builder, SECTION_RING, 0);
    size_t bytes, end = ring->offset + 60 * sizeof(struct record) + 7;
    const uint8_t *data = dump_builder_data(builder, &bytes);
    struct dump *dump = dump_open_buffer("cut.ct", data, end);
    assert_true(says(dump, "file ends inside ring"));
    assert_int_equal(dump->lanes[0].end_ticket, 60);
    assert_int_equal(dump->lanes[0].ring_records, 1024);
    assert_int_equal(dump_lane_lost(dump, 0), 40);
    assert_false(dump_records_complete(dump));
    dump_close(dump);
    dump_builder_free(builder);
}

static void overlapping_and_misplaced_sections_are_left_out(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 1});
    struct section *peers = dump_builder_section(builder, SECTION_PEERS, 0);
    peers->offset = dump_builder_section(builder, SECTION_SITES, 0)->offset;
    struct section *pending = dump_builder_section(builder, SECTION_PENDING, 0);
    pending->offset += 64;
    struct section *in_flight = dump_builder_section(builder, SECTION_IN_FLIGHT, 0);
    in_flight->count = 0x10000000;
    struct section *operations = dump_builder_section(builder, SECTION_OPERATIONS, 0);
    operations->item_bytes = 8;
    struct dump *dump = open_builder(builder);
    assert_non_null(dump->header);
    assert_true(says(dump, "overlaps"));
    assert_null(dump->lanes[0].peers);
    assert_non_null(dump->lanes[0].sites);
    assert_true(says(dump, "no section boundary"));
    assert_int_equal(dump->pending_count, 0);
    assert_true(says(dump, "do not fit"));
    assert_int_equal(dump->in_flight_count, 0);
    assert_true(says(dump, "operation rows: items of 8 bytes"));
    assert_int_equal(dump->lanes[0].operation_count, 0);
    dump_close(dump);
    dump_builder_free(builder);
}

static void a_section_far_beyond_the_file_is_empty(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 1});
    dump_builder_section(builder, SECTION_PENDING, 0)->offset = UINT64_C(1) << 62;
    struct dump *dump = open_builder(builder);
    assert_int_equal(dump->pending_count, 0);
    assert_true(says(dump, "file ends inside pending operations"));
    dump_close(dump);
    dump_builder_free(builder);
}

/* ---- rings ----------------------------------------------------------------------------------- */

static size_t walk(const struct dump *dump, uint64_t *tickets, size_t capacity) {
    struct record_cursor cursor;
    size_t count = 0;
    assert_true(record_cursor_begin(&cursor, dump, 0));
    for (const struct record *record; (record = record_cursor_next(&cursor)); count++) {
        assert_true(count < capacity);
        tickets[count] = record->commit - 1;
    }
    record_cursor_end(&cursor);
    return count;
}

static struct dump_builder *wrapped_ring(void) {
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 1, .ring_records = 16, .windows = 4});
    for (uint64_t i = 0; i < 40; i++)
        dump_builder_plain(builder, 0, BUILDER_WAIT, 100 * i, 100 * i + 5);
    return builder;
}

static struct record *ring_of(struct dump_builder *builder) {
    return dump_builder_contents(builder, SECTION_RING, 0);
}

static void a_wrapped_ring_is_walked_in_ticket_order(void **state) {
    (void)state;
    struct dump_builder *builder = wrapped_ring();
    struct dump *dump = open_builder(builder);
    uint64_t tickets[16];
    assert_int_equal(walk(dump, tickets, 16), 16);
    for (uint64_t i = 0; i < 16; i++)
        assert_int_equal(tickets[i], 24 + i);
    assert_int_equal(dump_lane_lost(dump, 0), 24);
    assert_int_equal(dump->lanes[0].torn, 0);
    dump_close(dump);
    dump_builder_free(builder);
}

static void the_ring_is_recovered_without_its_head(void **state) {
    (void)state;
    struct dump_builder *builder = wrapped_ring();
    dump_builder_lane(builder, 0)->head = 0;
    struct dump *dump = open_builder(builder);
    assert_int_equal(dump->lanes[0].first_ticket, 24);
    assert_int_equal(dump->lanes[0].end_ticket, 40);
    dump_close(dump);
    dump_builder_free(builder);
}

static void slots_being_written_are_not_accepted(void **state) {
    (void)state;
    struct dump_builder *builder = wrapped_ring();
    ring_of(builder)[40 % 16].commit = 0; /* ticket 24 was being overwritten by 40 */
    ring_of(builder)[30 % 16].commit = 0; /* a hole: the writer of ticket 30 died */
    struct dump *dump = open_builder(builder);
    uint64_t tickets[16];
    assert_int_equal(walk(dump, tickets, 16), 14);
    assert_int_equal(tickets[0], 25);
    assert_int_equal(dump->lanes[0].first_ticket, 25);
    assert_int_equal(dump->lanes[0].torn, 1);
    assert_int_equal(dump_lane_lost(dump, 0), 26);
    dump_close(dump);
    dump_builder_free(builder);
}

static void foreign_tickets_are_not_accepted(void **state) {
    (void)state;
    struct dump_builder *builder = wrapped_ring();
    ring_of(builder)[3].commit = 6;   /* belongs to slot 5 */
    ring_of(builder)[10].commit = 11; /* right slot, one round old: its writer died before it began */
    ring_of(builder)[9].commit = (UINT64_C(1) << 60) + 9 + 1; /* right slot, far beyond the head */
    struct dump *dump = open_builder(builder);
    uint64_t tickets[16];
    assert_int_equal(walk(dump, tickets, 16), 13);
    assert_int_equal(dump->lanes[0].first_ticket, 24);
    assert_int_equal(dump->lanes[0].end_ticket, 40);
    assert_true(says(dump, "2 slots with a foreign ticket"));
    assert_int_equal(dump->lanes[0].torn, 3);
    dump_close(dump);
    dump_builder_free(builder);
}

static void windows_and_ring_give_each_ticket_once(void **state) {
    (void)state;
    struct dump_builder *builder = wrapped_ring();
    /* blocks out of order; the second overlaps the ring */
    struct trace_window_block *late = dump_builder_window(builder, 0, 7), *early = dump_builder_window(builder, 0, 3);
    for (uint64_t ticket = 20; ticket < 28; ticket++)
        late->records[late->used++] = (struct record){.commit = ticket + 1, .kind = RECORD_CALL};
    for (uint64_t ticket = 2; ticket < 6; ticket++)
        early->records[early->used++] = (struct record){.commit = ticket + 1, .kind = RECORD_CALL};
    early->records[early->used++].commit = 0;
    *dump_builder_window(builder, 0, 9) =
        (struct trace_window_block){.window = UINT64_MAX, .used = 1, .records = {{.commit = 9}}};
    struct dump *dump = open_builder(builder);
    uint64_t tickets[64], expected[64];
    size_t count = 0;
    for (uint64_t ticket = 2; ticket < 6; ticket++)
        expected[count++] = ticket;
    for (uint64_t ticket = 20; ticket < 40; ticket++)
        expected[count++] = ticket;
    assert_int_equal(walk(dump, tickets, 64), count);
    assert_memory_equal(tickets, expected, count * sizeof *expected);
    assert_int_equal(dump_lane_lost(dump, 0), 16); /* 0, 1 and 6 to 19 */
    dump_close(dump);
    dump_builder_free(builder);
}

static void windows_with_a_block_that_claims_too_much_are_left_out(void **state) {
    (void)state;
    struct dump_builder *builder = wrapped_ring();
    struct trace_window_block *block = dump_builder_window(builder, 0, 7);
    block->used = UINT32_MAX;
    for (uint32_t i = 0; i < TRACE_WINDOW_RECORDS; i++)
        block->records[i].commit = 1; /* all the same ticket */
    struct dump *dump = open_builder(builder);
    uint64_t tickets[64];
    assert_int_equal(walk(dump, tickets, 64), 16);
    assert_int_equal(dump->window_count, 0);
    assert_int_equal(dump->problems.count, 1);
    dump_close(dump);
    dump_builder_free(builder);
}

/* ---- definitions ----------------------------------------------------------------------------- */

static void members_are_expanded_from_runs(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 64});
    const struct member_run runs[] = {{40, 3, -2}, {1, 2, 5}};
    uint32_t index = dump_builder_communicator(builder, 77, "odd", 1, runs, 2);
    struct dump *dump = open_builder(builder);
    const int32_t expected[] = {40, 38, 36, 1, 6};
    int32_t ranks[5];
    assert_int_equal(dump_communicator_members(dump_communicator(dump, index), ranks, 5), 5);
    assert_memory_equal(ranks, expected, sizeof expected);
    ranks[2] = -7;
    assert_int_equal(dump_communicator_members(dump_communicator(dump, index), ranks, 2), 5);
    assert_int_equal(ranks[2], -7);
    dump_close(dump);
    dump_builder_free(builder);
}

static void member_lists_that_lie_are_left_out(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 64});
    const struct member_run beyond[] = {{4, 3, -3}}, good[] = {{0, 4, 1}};
    uint32_t negative = dump_builder_communicator(builder, 1, NULL, 0, beyond, 1);
    uint32_t wrong_size = dump_builder_communicator(builder, 2, NULL, 0, good, 1);
    uint32_t wrong_runs = dump_builder_communicator(builder, 3, NULL, 0, good, 1);
    uint32_t wrong_rank = dump_builder_communicator(builder, 4, NULL, 0, good, 1);
    dump_builder_definition(builder, wrong_size)->size = 5;
    dump_builder_definition(builder, wrong_runs)->run_count = 1000000;
    dump_builder_definition(builder, wrong_rank)->my_rank = 4;
    const struct member_run elsewhere[] = {{62, 4, 1}};
    uint32_t beyond_world = dump_builder_communicator(builder, 5, NULL, 0, elsewhere, 1);
    uint32_t foreign = dump_builder_communicator(builder, 6, NULL, 0, elsewhere, 1);
    dump_builder_definition(builder, foreign)->flags = COMMUNICATOR_FOREIGN;
    struct dump *dump = open_builder(builder);
    int32_t ranks[8];
    assert_int_equal(dump_communicator_members(dump_communicator(dump, negative), ranks, 8), 0);
    assert_int_equal(dump_communicator_members(dump_communicator(dump, wrong_size), ranks, 8), 0);
    assert_int_equal(dump_communicator_members(dump_communicator(dump, wrong_runs), ranks, 8), 0);
    assert_null(dump_communicator(dump, wrong_rank));
    assert_int_equal(dump_communicator_members(dump_communicator(dump, beyond_world), ranks, 8), 0);
    assert_int_equal(dump_communicator_members(dump_communicator(dump, foreign), ranks, 8), 4);
    assert_int_equal(dump->problems.count, 5);
    dump_close(dump);
    dump_builder_free(builder);
}

static void definitions_whose_writer_died_are_skipped(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 4});
    const struct member_run runs[] = {{0, 4, 1}};
    uint32_t first = dump_builder_communicator(builder, 1, "first", 0, runs, 1);
    uint32_t second = dump_builder_communicator(builder, 2, "second", 0, runs, 1);
    dump_builder_definition(builder, first)->head.commit = 0;
    struct dump *dump = open_builder(builder);
    assert_null(dump_communicator(dump, first));
    assert_string_equal(dump_communicator(dump, second)->name, "second");
    assert_int_equal(dump->problems.count, 0);
    dump_close(dump);
    dump_builder_free(builder);
}

static void a_definition_that_leaves_its_area_ends_the_walk(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 4});
    const struct member_run runs[] = {{0, 4, 1}};
    uint32_t index = dump_builder_communicator(builder, 1, "first", 0, runs, 1);
    struct communicator_definition *definition = dump_builder_definition(builder, index);
    definition->head.bytes = 0x7ffffff0;
    struct dump *dump = open_builder(builder);
    assert_non_null(dump_communicator(dump, 0));
    assert_null(dump_communicator(dump, index));
    assert_true(says(dump, "does not fit its area"));
    assert_int_equal(dump->problems.items[0].offset, (uint8_t *)definition - (uint8_t *)dump_builder_header(builder));
    dump_close(dump);
    dump_builder_free(builder);
}

static void names_ends_and_epochs_are_kept(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 4, .progress = 4});
    dump_builder_name(builder, 0, "renamed");
    dump_builder_freed(builder, 0, 555, 3);
    dump_builder_epoch(builder, 2, 20);
    dump_builder_epoch(builder, 1, 10);
    dump_builder_epoch(builder, 70000, 10);
    dump_builder_progress(builder, 0)->enqueued = 9;
    struct dump *dump = open_builder(builder);
    const struct dump_communicator *world = dump_communicator(dump, 0);
    assert_string_equal(world->name, "renamed");
    assert_true(world->freed);
    assert_int_equal(world->freed_ticks, 555);
    assert_int_equal(world->progress->enqueued, 9);
    assert_int_equal(dump->epoch_count, 2);
    assert_int_equal(dump->epochs[0]->epoch, 1);
    assert_int_equal(dump->epochs[1]->ticks, 20);
    assert_true(says(dump, "epoch 70000"));
    dump_close(dump);
    dump_builder_free(builder);
}

static void names_of_calls_are_always_terminated(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 1});
    struct call_name *calls = dump_builder_contents(builder, SECTION_CALLS, 0);
    memset(calls[1].name, 'x', sizeof calls[1].name);
    memset(calls[1].torch, 'y', sizeof calls[1].torch);
    struct dump *dump = open_builder(builder);
    assert_int_equal(strlen(dump_call(dump, calls[1].id)->name), sizeof calls[1].name - 1);
    assert_int_equal(strlen(dump_call(dump, calls[1].id)->torch), sizeof calls[1].torch - 1);
    dump_close(dump);
    dump_builder_free(builder);
}

static void problems_are_bounded(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 1, .definition_bytes = 1 << 20});
    for (uint32_t i = 0; i < 1000; i++)
        dump_builder_epoch(builder, 70000 + i, 1);
    struct dump *dump = open_builder(builder);
    assert_int_equal(dump->problems.count + dump->problems.dropped, 1000);
    assert_true(dump->problems.count <= 100);
    dump_close(dump);
    dump_builder_free(builder);
}

/* As a later minor version would write it: 16 bytes that nobody knows behind every item. */
static void longer_items_keep_every_byte_that_is_known(void **state) {
    (void)state;
    enum { MORE = 16 };
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 1});
    struct section *section = dump_builder_section(builder, SECTION_PEERS, 0);
    size_t bytes, item = sizeof(struct peer_row), count = section->count;
    uint8_t *known = (uint8_t *)dump_builder_data(builder, &bytes) + section->offset;
    for (size_t i = 0; i < count * item; i++)
        known[i] = (uint8_t)(i * 7 + i / item);
    size_t room = (count * (item + MORE) + SECTION_ALIGN - 1) / SECTION_ALIGN * SECTION_ALIGN;
    uint8_t *image = malloc(bytes + room);
    assert_non_null(image);
    section->item_bytes += MORE;
    memset(image + bytes, 0xee, room);
    for (size_t i = 0; i < count; i++)
        memcpy(image + bytes + i * (item + MORE), known + i * item, item);
    uint64_t offset = section->offset;
    section->offset = bytes;
    section->bytes = room;
    memcpy(image, dump_builder_data(builder, &bytes), bytes);
    struct dump *dump = dump_open_buffer("longer", image, bytes + room);
    assert_non_null(dump->header);
    assert_int_equal(dump->lanes[0].peer_count, count);
    assert_memory_equal(dump->lanes[0].peers, image + offset, count * item);
    dump_close(dump);
    free(image);
    dump_builder_free(builder);
}

/* Started 5000 times, numbered once. */
static void a_persistent_collective_completes_more_often_than_it_is_numbered(void **state) {
    (void)state;
    struct dump_builder *builder = new_builder((struct dump_plan){.world_size = 4, .progress = 4});
    struct progress *row = dump_builder_progress(builder, 0);
    row->enqueued = 1;
    row->completed = 5000;
    struct dump *dump = open_builder(builder);
    assert_int_equal(dump->problems.count, 0);
    assert_int_equal(dump_communicator(dump, 0)->progress->completed, 5000);
    dump_close(dump);
    dump_builder_free(builder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_dump_has_no_problems),
        cmocka_unit_test(wrong_headers_are_fatal_and_say_where),
        cmocka_unit_test(the_other_byte_order_is_named),
        cmocka_unit_test(numbers_that_no_writer_leaves_are_not_believed),
        cmocka_unit_test(a_file_may_end_anywhere),
        cmocka_unit_test(a_cut_ring_keeps_what_is_there),
        cmocka_unit_test(overlapping_and_misplaced_sections_are_left_out),
        cmocka_unit_test(a_section_far_beyond_the_file_is_empty),
        cmocka_unit_test(a_wrapped_ring_is_walked_in_ticket_order),
        cmocka_unit_test(the_ring_is_recovered_without_its_head),
        cmocka_unit_test(slots_being_written_are_not_accepted),
        cmocka_unit_test(foreign_tickets_are_not_accepted),
        cmocka_unit_test(windows_and_ring_give_each_ticket_once),
        cmocka_unit_test(windows_with_a_block_that_claims_too_much_are_left_out),
        cmocka_unit_test(members_are_expanded_from_runs),
        cmocka_unit_test(member_lists_that_lie_are_left_out),
        cmocka_unit_test(definitions_whose_writer_died_are_skipped),
        cmocka_unit_test(a_definition_that_leaves_its_area_ends_the_walk),
        cmocka_unit_test(names_ends_and_epochs_are_kept),
        cmocka_unit_test(names_of_calls_are_always_terminated),
        cmocka_unit_test(problems_are_bounded),
        cmocka_unit_test(longer_items_keep_every_byte_that_is_known),
        cmocka_unit_test(a_persistent_collective_completes_more_often_than_it_is_numbered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
