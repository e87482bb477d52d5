/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of packed files in another order: what the order is, there and back, that it is worth it and that archives
 * without it stay readable.
 * Must not live here: dumps (test_pack).
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/archive/archive_write.h"
#include "analyzer/archive/rows.h"

#define NAME   "commtap.r.ctz"
#define MEMBER "commtap.r.0000000000000001.ct"
enum { BYTES = 3 * ROWS_BLOCK + 4 * 4096 };

static char directory[64];
static int descriptor;
static uint8_t contents[BYTES], back[BYTES];

static int make_directory(void **state) {
    (void)state;
    strcpy(directory, "/tmp/commtap-test-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return descriptor < 0 ? -1 : 0;
}

static int remove_directory(void **state) {
    (void)state;
    char command[128];
    close(descriptor);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static uint64_t noise(void) {
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
}

static void fill_with_noise(void) {
    for (size_t i = 0; i < BYTES; i++)
        contents[i] = (uint8_t)noise();
}

/* Rows of `width` bytes: times that count on, lengths that differ, the same twelve bytes in turn. */
static void fill_with_rows(size_t width) {
    uint32_t time = 1000;
    for (size_t at = 0; at < BYTES; at += width) {
        uint32_t words[4] = {time, (uint32_t)(noise() % 32), 7, (uint32_t)(noise() % 3)};
        for (size_t i = 0; i < width / sizeof words; i++)
            memcpy(contents + at + i * sizeof words, words, sizeof words);
        time += 1000 + (uint32_t)(noise() % 200);
    }
}

/* ---- the orders -------------------------------------------------------------------------------- */

static void differences_of_words_stand_in_columns(void **state) {
    (void)state;
    const uint8_t rows[35] = {
        1, 2, 3, 4, [12] = 9, [15] = 1, [16] = 2, [17] = 2, [18] = 3, [19] = 4, [28] = 8, [31] = 1, 5, 6, 7};
    uint8_t to[sizeof rows];
    rows_order(ROWS_OF_16, rows, to, sizeof rows);
    uint8_t expected[sizeof rows] = {
        1, 1, 2, 0, 3, 0, 4, 0, [24] = 9, [25] = 255, [27] = 255, [29] = 255, [30] = 1, [31] = 255, 5, 6, 7};
    assert_memory_equal(to, expected, sizeof rows);
}

static void every_order_leads_back(void **state) {
    (void)state;
    static uint8_t there[ROWS_BLOCK];
    const size_t lengths[] = {0, 1, 15, 16, 17, 63, 64, 65, 4096, ROWS_BLOCK - 1, ROWS_BLOCK};
    fill_with_noise();
    for (enum rows rows = ROWS_PLAIN; rows < ROWS_KINDS; rows++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            memset(back, 0xa5, sizeof back);
            rows_order(rows, contents, there, lengths[i]);
            rows_restore(rows, there, back, lengths[i]);
            assert_memory_equal(back, contents, lengths[i]);
            assert_int_equal(back[lengths[i]], 0xa5);
        }
}

/* ---- in archives ------------------------------------------------------------------------------- */

static const struct archive_extent extents[] = {{0, 4096}, {3 * 4096, ROWS_BLOCK + 4096}, {2 * ROWS_BLOCK, BYTES - 5}};
enum { EXTENTS = sizeof extents / sizeof *extents };

static void write_one(void) {
    struct archive_writer writer;
    struct archive_entry file = {.name = MEMBER, .size = BYTES, .mode = 0600};
    assert_true(archive_begin(&writer, descriptor, NAME));
    assert_true(archive_add(&writer, &file, contents, extents, EXTENTS));
    assert_true(archive_complete(&writer) && archive_place(&writer, 0600));
}

/* What is in the archive: the bytes of the extents at their places, nothing between them. */
static void read_one(struct archive_entry *entry) {
    struct archive archive;
    memset(back, 0, sizeof back);
    assert_true(archive_open(&archive, descriptor, NAME, 0) && archive_check_index(&archive));
    assert_true(archive_find(&archive, MEMBER, entry));
    struct archive_extent *found = archive_extents(&archive, entry);
    assert_non_null(found);
    assert_true(archive_read(&archive, entry, found, back));
    assert_true(archive_verify(&archive, entry, contents));
    contents[BYTES - 6] ^= 1;
    assert_false(archive_verify(&archive, entry, contents));
    contents[BYTES - 6] ^= 1;
    free(found);
    archive_close(&archive);
    for (size_t i = 0; i < EXTENTS; i++)
        assert_memory_equal(back + extents[i].from, contents + extents[i].from, extents[i].to - extents[i].from);
    assert_int_equal(back[4096], 0);
    assert_int_equal(back[BYTES - 5], 0);
}

/* Of a row's sixteen bytes eleven are the same in each, or count on. */
static void rows_take_a_fifth(void **state) {
    (void)state;
    for (size_t width = 16; width <= 64; width *= 4) {
        struct archive_entry entry;
        fill_with_rows(width);
        write_one();
        read_one(&entry);
        assert_int_not_equal(entry.rows, ROWS_PLAIN);
        assert_true(entry.stored_bytes < entry.data_bytes / 5);
        assert_int_equal(unlinkat(descriptor, NAME, 0), 0);
    }
}

static void set_magic(const char *magic) {
    int file = openat(descriptor, NAME, O_RDWR | O_CLOEXEC);
    off_t at = lseek(file, 0, SEEK_END) - 8;
    assert_int_equal(pwrite(file, magic, 8, at), 8);
    close(file);
}

static void archives_of_the_first_layout_are_read(void **state) {
    (void)state;
    struct archive_entry entry;
    fill_with_noise();
    write_one();
    read_one(&entry);
    assert_int_equal(entry.rows, ROWS_PLAIN); /* an entry of the first layout, then */
    set_magic("ctpack01");
    read_one(&entry);
    set_magic("ctpack03");
    struct archive archive;
    assert_false(archive_open(&archive, descriptor, NAME, 0));
    archive_close(&archive);
}

#define IN_A_DIRECTORY(TEST) cmocka_unit_test_setup_teardown(TEST, make_directory, remove_directory)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_of_words_stand_in_columns),
        cmocka_unit_test(every_order_leads_back),
        IN_A_DIRECTORY(rows_take_a_fifth),
        IN_A_DIRECTORY(archives_of_the_first_layout_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
