/* SPDX-License-Identifier: Apache-2.0
 *
 * A dump file that cannot grow, cannot be pointed to, or cannot be delivered. A limit on the size of files plays the
 * full disk.
 * Must not live here: real file systems (test/e2e/test_filesystems.py), what is recorded (test_recorder.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/record/delivery.h"
#include "shim/record/storage.h"

#define START_BYTES (4u * SECTION_ALIGN)

/* Kernels before 5.14 do not know MADV_POPULATE_WRITE. */
static bool old_kernel;

int madvise(void *address, size_t bytes, int advice) {
    if (old_kernel && advice == 23) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, address, bytes, advice);
}

struct place {
    char directory[40], output[48];
    struct dumpfile file;
    char line[4096];
    struct text why;
};

/* A dump mapped in a directory of its own; `output` below it is there for those that are delivered elsewhere. */
static int make_place(void **state) {
    static struct place place;
    const char *note;
    strcpy(place.directory, "/dev/shm/commtap-unit-XXXXXX"); /* tmpfs on every Linux */
    if (!mkdtemp(place.directory))
        return -1;
    snprintf(place.output, sizeof place.output, "%s/output", place.directory);
    if (mkdir(place.output, 0700) != 0 ||
        dumpfile_create(&place.file, place.directory, "unit", 0600, START_BYTES, &note) || note)
        return -1;
    text_begin(&place.why, place.line, sizeof place.line);
    memcpy(place.file.header->magic, FORMAT_MAGIC, sizeof place.file.header->magic);
    strcpy(place.file.header->host, "here");
    strcpy(place.file.header->run_id, "unit");
    *state = &place;
    return dumpfile_publish(&place.file) ? 0 : -1;
}

static int remove_place(void **state) {
    const struct place *place = *state;
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", place->directory);
    return system(command);
}

static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static uint64_t bytes_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? (uint64_t)status.st_size : UINT64_MAX;
}

static int names_in(const char *directory) {
    int names = 0;
    DIR *stream = opendir(directory);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream));)
        names += entry->d_name[0] != '.';
    closedir(stream);
    return names;
}

/* As if it had been staged: it belongs into `output`. */
static void let_it_be_staged(struct place *place) {
    place->file.place = PLACE_STAGED;
    snprintf(place->file.final_path, sizeof place->file.final_path, "%s/commtap.unit.1.ct", place->output);
    snprintf(place->file.stub_path, sizeof place->file.stub_path, "%s/commtap.unit.1.stub", place->output);
}

static uint64_t allocated(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? (uint64_t)status.st_blocks * 512 : UINT64_MAX;
}

static void test_a_new_dump_is_long_and_small(void **state) {
    struct place *place = *state;
    assert_int_equal(bytes_of(place->file.path), START_BYTES);
    assert_in_range(allocated(place->file.path), 1, sizeof *place->file.header + 4096);
    limit_files(START_BYTES); /* what was asked for at the start needs nothing more */
    char *section = dumpfile_section(&place->file, SECTION_TRACE_WINDOWS, 0, 3 * SECTION_ALIGN, 1);
    limit_files(RLIM_INFINITY);
    assert_non_null(section);
    assert_int_equal(place->file.header->losses.tables_in_memory, 0);
}

/* Whole pages around what was asked for, and no others. */
static void test_room_is_made_by_pages(void **state) {
    struct place *place = *state;
    uint64_t before, page = storage_page_bytes();
    char *section = dumpfile_section(&place->file, SECTION_TRACE_WINDOWS, 0, 2 * SECTION_ALIGN, 1);
    before = allocated(place->file.path);
    assert_true(dumpfile_make_room(&place->file, section + 2 * page - 8, 16));
    assert_int_equal(allocated(place->file.path) - before, 2 * page);
    for (uint64_t i = 0; i < 2 * SECTION_ALIGN / page; i++)
        assert_int_equal(dumpfile_has_room(&place->file, 0, i * page), i == 1 || i == 2);
    memset(section + page, 1, 2 * page);
    assert_true(dumpfile_make_room(&place->file, section, 4 * page));
    assert_int_equal(section[page], 1); /* what lies there stays */
    assert_int_equal(allocated(place->file.path) - before, 4 * page);
    assert_false(dumpfile_make_room(&place->file, section + 2 * SECTION_ALIGN, 1)); /* of no section */
}

static void test_an_old_kernel_makes_room_by_the_files_path(void **state) {
    struct place *place = *state;
    uint64_t page = storage_page_bytes();
    char *section = dumpfile_section(&place->file, SECTION_TRACE_WINDOWS, 0, SECTION_ALIGN, 1);
    uint64_t before = allocated(place->file.path);
    old_kernel = true;
    bool made = dumpfile_make_room(&place->file, section + page, page);
    assert_int_equal(allocated(place->file.path) - before, made ? page : 0);
    unlink(place->file.path); /* another's, or nobody's: it cannot be asked any more */
    bool again = dumpfile_make_room(&place->file, section + 2 * page, page);
    old_kernel = false;
    assert_true(made);
    assert_false(again);
    assert_false(dumpfile_has_room(&place->file, 0, 2 * page));
    section[page] = 1;
}

static void test_a_quota_holds_for_the_file_as_it_lies_on_the_disk(void **state) {
    struct place *place = *state;
    uint64_t page = storage_page_bytes(), pages = 6;
    if (place->file.place == PLACE_MEMORY)
        return;
    dumpfile_set_quota(&place->file, (place->file.taken + pages) * page);
    uint64_t before = allocated(place->file.path);
    unsigned made = 0;
    for (uint32_t i = 0; i < 10; i++)
        made += dumpfile_further_section(&place->file, SECTION_OPERATIONS, i, SECTION_ALIGN, 1) != NULL;
    assert_in_range(made, 1, 9);
    assert_true(allocated(place->file.path) - before <= pages * page);
    assert_int_equal(place->file.header->losses.tables_in_memory, 0);
    assert_true(place->file.header->losses.quota_refusals > 0);
}

static void test_no_room_stays_so_for_a_while(void **state) {
    struct place *place = *state;
    uint64_t page = storage_page_bytes();
    char *section = dumpfile_section(&place->file, SECTION_TRACE_WINDOWS, 0, SECTION_ALIGN, 1);
    dumpfile_set_quota(&place->file, place->file.taken * page + 2 * page);
    errno = ENOTTY;
    assert_true(dumpfile_make_room(&place->file, section, 1));
    assert_false(dumpfile_make_room(&place->file, section + page, 1));
    assert_int_equal(errno, ENOTTY); /* the job's is kept */
    assert_int_equal(place->file.header->losses.quota_refusals, 1);
    dumpfile_set_quota(&place->file, 1 << 20);
    assert_false(dumpfile_make_room(&place->file, section + page, 1)); /* it is not asked for */
    assert_int_equal(place->file.header->losses.quota_refusals, 1);
    assert_true(dumpfile_make_room(&place->file, section, page)); /* what there is stays */
    place->file.full_at = 1;
    assert_true(dumpfile_make_room(&place->file, section + page, 1));
}

static void test_a_copy_is_as_small_as_the_dump(void **state) {
    struct place *place = *state;
    uint64_t page = storage_page_bytes();
    char *section = dumpfile_section(&place->file, SECTION_TRACE_WINDOWS, 0, 3 * SECTION_ALIGN, 1);
    assert_true(dumpfile_make_room(&place->file, section + 2 * SECTION_ALIGN, 1));
    strcpy(section + 2 * SECTION_ALIGN, "here");
    uint64_t before = allocated(place->file.path);
    char original[64];
    snprintf(original, sizeof original, "%s/original", place->directory);
    assert_int_equal(link(place->file.path, original), 0);
    let_it_be_staged(place);
    assert_true(delivery_at_exit(&place->file, &place->why));
    assert_int_equal(allocated(original), before); /* of tmpfs, which gives a page to whoever reads a hole */
    assert_int_equal(bytes_of(place->file.final_path), 4 * SECTION_ALIGN);
    assert_true(allocated(place->file.final_path) <= before + page);
    assert_int_equal(allocated(place->file.path), UINT64_MAX);
}

static void test_a_full_section_has_all_its_room(void **state) {
    struct place *place = *state;
    char *section = dumpfile_full_section(&place->file, SECTION_TRACE_WINDOWS, 0, SECTION_ALIGN + 1, 1);
    assert_non_null(section);
    for (uint64_t at = 0; at <= SECTION_ALIGN; at += storage_page_bytes())
        assert_true(dumpfile_has_room(&place->file, 0, at));
}

static void test_a_table_without_room_is_kept_in_memory_and_counted(void **state) {
    struct place *place = *state;
    limit_files(START_BYTES);
    char *table = dumpfile_section(&place->file, SECTION_TRACE_WINDOWS, 7, START_BYTES, 1);
    limit_files(RLIM_INFINITY);
    assert_non_null(table);
    strcpy(table + START_BYTES - 8, "last");
    assert_int_equal(place->file.header->losses.tables_in_memory, 1);
    assert_int_equal(place->file.header->sections[0].kind, SECTION_FREE);
    assert_int_equal(bytes_of(place->file.path), START_BYTES);
}

static void test_it_reaches_the_file_where_there_is_room_at_exit(void **state) {
    struct place *place = *state;
    test_a_table_without_room_is_kept_in_memory_and_counted(state);
    assert_true(delivery_at_exit(&place->file, &place->why));
    const struct section *section = &place->file.header->sections[0];
    assert_int_equal(section->kind, SECTION_TRACE_WINDOWS);
    assert_int_equal(section->index, 7);
    assert_int_equal(place->file.header->losses.tables_in_memory, 0);
    char last[8];
    int fd = open(place->file.path, O_RDONLY);
    assert_int_equal(pread(fd, last, sizeof last, (off_t)(section->offset + section->bytes - 8)), 8);
    close(fd);
    assert_string_equal(last, "last");
    assert_string_equal(place->line, "");
}

static void test_it_is_said_to_be_lost_where_there_is_none(void **state) {
    struct place *place = *state;
    test_a_table_without_room_is_kept_in_memory_and_counted(state);
    limit_files(START_BYTES);
    assert_false(delivery_at_exit(&place->file, &place->why));
    limit_files(RLIM_INFINITY);
    assert_non_null(strstr(place->line, "1 table of the dump found no room"));
    assert_non_null(strstr(place->line, place->file.path));
    assert_int_equal(place->file.header->losses.tables_in_memory, 1);
    assert_int_equal(place->file.header->sections[0].kind, SECTION_FREE);
}

/* What is in memory alone has its end then. */
static void test_what_was_kept_in_memory_and_cannot_be_written_says_why(void **state) {
    struct place *place = *state;
    let_it_be_staged(place);
    place->file.place = PLACE_MEMORY;
    limit_files(1000);
    assert_false(delivery_at_exit(&place->file, &place->why));
    limit_files(RLIM_INFINITY);
    assert_non_null(strstr(place->line, "it is lost"));
    assert_non_null(strstr(place->line, "over the limit on the size of files"));
    assert_non_null(strstr(place->line, place->output));
    assert_int_equal(names_in(place->output), 0);
}

static void test_growth_leaves_other_files_alone(void **state) {
    struct place *place = *state;
    char other[64];
    snprintf(other, sizeof other, "%s/other", place->directory);
    assert_int_equal(close(open(other, O_CREAT | O_WRONLY, 0600)), 0);
    unlink(place->file.path);
    assert_int_equal(symlink(other, place->file.path), 0);
    assert_non_null(dumpfile_section(&place->file, SECTION_TRACE_WINDOWS, 0, SECTION_ALIGN, 1));
    unlink(place->file.path);
    assert_int_equal(rename(other, place->file.path), 0);
    assert_non_null(dumpfile_section(&place->file, SECTION_TRACE_WINDOWS, 1, SECTION_ALIGN, 1));
    assert_int_equal(bytes_of(place->file.path), 0);
    assert_int_equal(place->file.header->losses.tables_in_memory, 2);
}

static void test_a_stub_is_whole_or_not_there(void **state) {
    struct place *place = *state;
    let_it_be_staged(place);
    limit_files(20); /* room for a part of it */
    assert_false(delivery_write_stub(&place->file, &place->why));
    limit_files(RLIM_INFINITY);
    assert_int_equal(names_in(place->output), 0);
    assert_non_null(strstr(place->line, place->file.path));
    assert_non_null(strstr(place->line, "over the limit on the size of files"));
    assert_true(delivery_write_stub(&place->file, &place->why));
    assert_int_equal(names_in(place->output), 1);
    assert_true(bytes_of(place->file.stub_path) > 20);
}

static void test_a_planted_link_is_not_written_through(void **state) {
    struct place *place = *state;
    char link[DUMP_PATH_BYTES + 8], target[64];
    let_it_be_staged(place);
    snprintf(link, sizeof link, "%s.part", place->file.stub_path);
    snprintf(target, sizeof target, "%s/target", place->directory);
    assert_int_equal(symlink(target, link), 0);
    assert_false(delivery_write_stub(&place->file, &place->why));
    assert_int_equal(bytes_of(target), UINT64_MAX);
}

static void test_a_staged_dump_stays_until_it_is_copied(void **state) {
    struct place *place = *state;
    char *table = dumpfile_full_section(&place->file, SECTION_TRACE_WINDOWS, 0, SECTION_ALIGN, 1);
    strcpy(table, "here");
    let_it_be_staged(place);
    assert_true(delivery_write_stub(&place->file, &place->why));
    limit_files(2 * SECTION_ALIGN - 1);
    assert_false(delivery_at_exit(&place->file, &place->why));
    limit_files(RLIM_INFINITY);
    assert_non_null(strstr(place->line, place->file.path));
    assert_int_equal(names_in(place->output), 1);
    assert_int_equal(bytes_of(place->file.path), START_BYTES);
    assert_true(delivery_at_exit(&place->file, &place->why));
    assert_int_equal(names_in(place->output), 1);
    assert_int_equal(bytes_of(place->file.final_path), 2 * SECTION_ALIGN);
    assert_int_equal(bytes_of(place->file.path), UINT64_MAX);
}

static void test_a_missing_output_directory_is_made_at_exit(void **state) {
    struct place *place = *state;
    let_it_be_staged(place);
    assert_int_equal(rmdir(place->output), 0);
    assert_true(delivery_at_exit(&place->file, &place->why));
    assert_int_equal(bytes_of(place->file.final_path), SECTION_ALIGN);
}

static void test_a_dump_in_memory_is_lost_aloud(void **state) {
    struct place *place = *state;
    let_it_be_staged(place);
    place->file.place = PLACE_MEMORY;
    limit_files(0);
    assert_false(delivery_at_exit(&place->file, &place->why));
    limit_files(RLIM_INFINITY);
    assert_non_null(strstr(place->line, "it is lost"));
    assert_int_equal(names_in(place->output), 0);
}

static void test_what_is_known_of_file_systems(void **state) {
    (void)state;
    assert_true(storage_is_mappable("/dev/shm"));
    assert_false(storage_is_mappable("/proc"));
    assert_false(storage_is_mappable("/dev/shm/commtap-not-there"));
    int fd = open("/dev/shm", O_RDONLY | O_DIRECTORY);
    assert_true(storage_is_shared_fairly(fd, SECTION_ALIGN));
    assert_false(storage_is_shared_fairly(fd, UINT64_MAX / 16));
    close(fd);
}

#define WITH_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_PLACE(test_a_new_dump_is_long_and_small),
        WITH_PLACE(test_room_is_made_by_pages),
        WITH_PLACE(test_an_old_kernel_makes_room_by_the_files_path),
        WITH_PLACE(test_a_quota_holds_for_the_file_as_it_lies_on_the_disk),
        WITH_PLACE(test_no_room_stays_so_for_a_while),
        WITH_PLACE(test_a_copy_is_as_small_as_the_dump),
        WITH_PLACE(test_a_full_section_has_all_its_room),
        WITH_PLACE(test_a_table_without_room_is_kept_in_memory_and_counted),
        WITH_PLACE(test_it_reaches_the_file_where_there_is_room_at_exit),
        WITH_PLACE(test_it_is_said_to_be_lost_where_there_is_none),
        WITH_PLACE(test_what_was_kept_in_memory_and_cannot_be_written_says_why),
        WITH_PLACE(test_growth_leaves_other_files_alone),
        WITH_PLACE(test_a_stub_is_whole_or_not_there),
        WITH_PLACE(test_a_planted_link_is_not_written_through),
        WITH_PLACE(test_a_staged_dump_stays_until_it_is_copied),
        WITH_PLACE(test_a_missing_output_directory_is_made_at_exit),
        WITH_PLACE(test_a_dump_in_memory_is_lost_aloud),
        cmocka_unit_test(test_what_is_known_of_file_systems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
