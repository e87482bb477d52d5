/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that change under the reader: truncated, overwritten, too many to be mapped.
 * Lives here: dumps as files, changed between opening and reading.
 * Must not live here: commands that are run again (test/e2e/test_changes.py).
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/dumps/set.h"
#include "analyzer/load/dump.h"
#include "analyzer/load/rows.h"
#include "test/support/dump_builder.h"

enum { RECORDS = 2000, CALLS = 3 };

static char directory[64], file[128];

static int make_directory(void **state) {
    (void)state;
    strcpy(directory, "/tmp/commtap-test-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(file, sizeof file, "%s/commtap.r.a.ct", directory);
    return 0;
}

static int remove_directory(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

/* A dump with records, rows and a communicator. */
static struct dump_builder *make_dump(int32_t rank, uint32_t more_state) {
    struct dump_builder *builder =
        dump_builder_new(&(struct dump_plan){.rank = rank, .world_size = 4, .ring_records = 4096});
    dump_builder_standard_calls(builder);
    dump_builder_anchor(builder, 0, 0, 1000000000, 1);
    dump_builder_world(builder);
    dump_builder_header(builder)->state |= more_state;
    for (uint32_t i = 0; i < RECORDS; i++)
        dump_builder_collective(builder, 0, BUILDER_ALLREDUCE, 0, i, 8, 100 * i, 100 * i + 50);
    struct operation_row *row = dump_builder_operation(builder, 0);
    row->call = BUILDER_ALLREDUCE;
    row->source = SOURCE_HOST;
    row->count = CALLS;
    dump_builder_progress(builder, 0)->enqueued = CALLS;
    return builder;
}

static void write_dump(const char *path, int32_t rank, uint32_t more_state) {
    struct dump_builder *builder = make_dump(rank, more_state);
    assert_int_equal(dump_builder_write(builder, path, 0), 0);
    dump_builder_free(builder);
}

static size_t count_records(const struct dump *dump) {
    struct record_cursor cursor;
    size_t count = 0;
    assert_true(record_cursor_begin(&cursor, dump, 0));
    while (record_cursor_next(&cursor))
        count++;
    record_cursor_end(&cursor);
    return count;
}

static uint64_t count_calls(const struct dump *dump) {
    struct operation_row row;
    return operation_row_read(dump, &dump->lanes[0].operations[0], &row) == ROW_STABLE ? row.count : 0;
}

struct told {
    size_t count;
    enum dump_change change;
    char path[128];
};

static void note(void *context, const char *path, enum dump_change change) {
    struct told *told = context;
    told->count++;
    told->change = change;
    snprintf(told->path, sizeof told->path, "%s", path);
}

static struct told changes(void) {
    struct told told = {0};
    size_t changed = dump_changes(note, &told);
    assert_int_equal(changed, told.count);
    return told;
}

static void bytes_that_are_cut_off_while_they_are_read_are_zeros(void **state) {
    (void)state;
    write_dump(file, 0, STATE_EXITED);
    struct dump *dump = dump_open(file);
    assert_non_null(dump->header);
    assert_int_equal(count_records(dump), RECORDS);
    assert_int_equal(changes().count, 0);
    assert_int_equal(truncate(file, 70000), 0);
    assert_int_equal(count_records(dump), 0);
    assert_int_equal(count_calls(dump), 0);
    assert_int_equal(dump->header->rank, 0); /* what was checked at opening is the dump's own */
    assert_string_equal(dump_communicator(dump, 0)->name, "MPI_COMM_WORLD");
    assert_string_equal(dump_call(dump, BUILDER_ALLREDUCE)->name, "MPI_Allreduce");
    struct told told = changes();
    assert_int_equal(told.count, 1);
    assert_int_equal(told.change, DUMP_TRUNCATED);
    assert_string_equal(told.path, file);
    dump_close(dump);
    assert_int_equal(changes().count, 0);
}

/* Cut and grown again before anybody looks, zeros are where records were: the size tells nothing, the time does. */
static void a_finished_dump_that_is_written_to_has_changed(void **state) {
    (void)state;
    write_dump(file, 0, STATE_EXITED);
    struct dump *dump = dump_open(file);
    size_t bytes = dump->bytes;
    usleep(30000); /* the times of files step by up to 10 ms */
    assert_int_equal(truncate(file, 0), 0);
    assert_int_equal(truncate(file, (off_t)bytes), 0);
    assert_int_equal(count_records(dump), 0);
    struct told told = changes();
    assert_int_equal(told.count, 1);
    assert_int_equal(told.change, DUMP_OVERWRITTEN);
    dump_close(dump);
}

static void overwrite(size_t at, const void *bytes, size_t count) {
    FILE *stream = fopen(file, "r+");
    assert_non_null(stream);
    fseek(stream, (long)at, SEEK_SET);
    assert_int_equal(fwrite(bytes, 1, count, stream), count);
    fclose(stream);
}

static void a_living_writer_changes_nothing_but_identity_stays(void **state) {
    (void)state;
    write_dump(file, 0, 0);
    struct dump *dump = dump_open(file);
    usleep(30000);
    overwrite(offsetof(struct dump_header, state), &(uint32_t){STATE_ACTIVE | STATE_FINALISED}, 4);
    assert_int_equal(changes().count, 0);
    assert_false(dump->header->state & STATE_FINALISED);
    dump_refresh(dump);
    assert_true(dump->header->state & STATE_FINALISED);
    overwrite(offsetof(struct dump_header, run_id), "another", 8);
    assert_int_equal(changes().change, DUMP_OVERWRITTEN);
    assert_string_equal(dump->run_id, "testrun");
    dump_close(dump);
}

static void definitions_that_change_after_they_were_checked_do_no_harm(void **state) {
    (void)state;
    write_dump(file, 0, 0);
    struct dump *dump = dump_open(file);
    uint8_t garbage[4096];
    memset(garbage, 0xee, sizeof garbage);
    for (size_t at = SECTION_ALIGN; at + sizeof garbage <= dump->bytes; at += sizeof garbage)
        overwrite(at, garbage, sizeof garbage);
    int32_t ranks[4] = {-1, -1, -1, -1};
    assert_int_equal(dump_communicator_members(dump_communicator(dump, 0), ranks, 4), 4);
    assert_int_equal(ranks[3], 3);
    assert_int_equal(dump_peer_rank(dump_communicator(dump, 0), 2), 2);
    assert_string_equal(dump_call(dump, BUILDER_SEND)->name, "MPI_Send");
    assert_int_equal(count_records(dump), 0);
    assert_int_equal(count_calls(dump), 0);
    dump_close(dump);
}

/* Who else reads a file that shrinks gets the signal as ever. */
static void a_fault_elsewhere_is_not_ours(void **state) {
    (void)state;
    write_dump(file, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        struct dump *dump = dump_open(file);
        FILE *other = tmpfile();
        if (!dump || !dump->header || !other || ftruncate(fileno(other), 4096) != 0)
            _exit(2);
        volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(other), 0);
        if (ftruncate(fileno(other), 0) != 0)
            _exit(3);
        _exit(page[0] ? 4 : 5);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

/* Pages of a dump's bytes that are in memory. */
static size_t pages_in_memory(const struct dump *dump) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (dump->bytes + page - 1) / page, found = 0;
    unsigned char *there = calloc(pages, 1);
    assert_non_null(there);
    assert_int_equal(mincore((void *)dump->base, dump->bytes, there), 0);
    for (size_t i = 0; i < pages; i++)
        found += there[i] & 1;
    free(there);
    return found;
}

/* Calls, definitions and anchors are the dump's own after it was opened, in a table each. */
static void a_copy_keeps_nothing_twice(void **state) {
    (void)state;
    struct dump_set copied;
    snprintf(file, sizeof file, "%s/commtap.r.0.ct", directory);
    write_dump(file, 0, 0);
    assert_int_equal(dump_set_open_within(directory, &copied, 0), DUMP_SET_OK);
    size_t all = copied.dumps[0]->bytes / (size_t)sysconf(_SC_PAGESIZE);
    assert_in_range(pages_in_memory(copied.dumps[0]), all / 2, all - 3);
    assert_int_equal(count_records(copied.dumps[0]), RECORDS);
    assert_int_equal(count_calls(copied.dumps[0]), CALLS);
    dump_refresh(copied.dumps[0]);
    assert_in_range(pages_in_memory(copied.dumps[0]), all / 2, all - 3);
    assert_int_equal(count_calls(copied.dumps[0]), CALLS);
    assert_int_equal(copied.dumps[0]->problems.count, 0);
    dump_set_close(&copied);
}

static void more_dumps_than_may_be_mapped_are_read_into_memory(void **state) {
    (void)state;
    struct dump_set mapped, copied;
    for (int32_t rank = 0; rank < 3; rank++) {
        snprintf(file, sizeof file, "%s/commtap.r.%d.ct", directory, rank);
        write_dump(file, rank, 0);
    }
    assert_int_equal(dump_set_open_within(directory, &mapped, 3), DUMP_SET_OK);
    assert_int_equal(mapped.excess.bytes, 0);
    assert_int_equal(dump_set_open_within(directory, &copied, 2), DUMP_SET_OK);
    assert_true(copied.excess.bytes > 0);
    assert_int_equal(copied.count, 3);
    for (int32_t rank = 0; rank < 3; rank++) { /* the first two are mapped */
        snprintf(file, sizeof file, "%s/commtap.r.%d.ct", directory, rank);
        overwrite(offsetof(struct dump_header, finalised_ticks), &(uint64_t){7}, 8);
        const struct dump_header *now = (const struct dump_header *)copied.dumps[rank]->base;
        assert_int_equal(now->finalised_ticks == 7, rank < 2);
    }
    assert_int_equal(truncate(file, 100), 0); /* a copy stays what it was, and says so */
    for (size_t d = 0; d < 3; d++) {
        assert_int_equal(copied.dumps[d]->header->rank, d);
        assert_int_equal(copied.dumps[d]->problems.count, 0);
        assert_int_equal(count_records(copied.dumps[d]), RECORDS);
        assert_int_equal(count_calls(copied.dumps[d]), CALLS);
    }
    assert_int_equal(changes().count, 2); /* of either set */
    dump_set_close(&mapped);
    dump_set_close(&copied);
}

static void a_copy_is_taken_anew_where_its_writer_lives(void **state) {
    (void)state;
    write_dump(file, 0, 0);
    struct dump *dump = dump_open_copied(file);
    overwrite(offsetof(struct dump_header, state), &(uint32_t){STATE_ACTIVE | STATE_FINALISED}, 4);
    dump_refresh(dump);
    assert_true(dump->header->state & STATE_FINALISED);
    dump_close(dump);
}

static void a_refused_file_is_not_opened_again(void **state) {
    (void)state;
    write_dump(file, 0, 0);
    assert_true(dump_refuse(file, "never stands still"));
    struct dump *dump = dump_open(file);
    assert_null(dump->header);
    assert_true(dump->problems.items[0].fatal);
    assert_string_equal(dump->problems.items[0].text, "never stands still");
    dump_close(dump);
}

#define IN_DIRECTORY(TEST) cmocka_unit_test_setup_teardown(TEST, make_directory, remove_directory)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(bytes_that_are_cut_off_while_they_are_read_are_zeros),
        IN_DIRECTORY(a_finished_dump_that_is_written_to_has_changed),
        IN_DIRECTORY(a_living_writer_changes_nothing_but_identity_stays),
        IN_DIRECTORY(definitions_that_change_after_they_were_checked_do_no_harm),
        IN_DIRECTORY(a_fault_elsewhere_is_not_ours),
        IN_DIRECTORY(a_copy_keeps_nothing_twice),
        IN_DIRECTORY(more_dumps_than_may_be_mapped_are_read_into_memory),
        IN_DIRECTORY(a_copy_is_taken_anew_where_its_writer_lives),
        IN_DIRECTORY(a_refused_file_is_not_opened_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
