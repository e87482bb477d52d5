/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding of CPython's objects, over objects made here: texts of every width, line tables and their ends, what 3.13
 * and 3.14 publish about themselves. Must not live here: real interpreters (make check-python).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "shim/stacks/python_code.h"

static struct python_runtime python_of(unsigned version) {
    const struct python_layout *layout = python_layout_of(version);
    assert_non_null(layout);
    return (struct python_runtime){.at = *layout, .code_type = 0x1000, .text_type = 0x2000, .bytes_type = 0x3000};
}

static void put(void *object, uint16_t offset, uintptr_t word) {
    memcpy((char *)object + offset, &word, sizeof word);
}

/* A str exactly as large as it is, so that reading beyond it shows. */
static void *text(const struct python_runtime *python, unsigned kind, bool ascii, const void *data, size_t length) {
    uint16_t from = ascii ? python->at.text_ascii : python->at.text_other;
    char *object = calloc(1, from + kind * length);
    uint32_t state = kind << 2 | 1u << 5 | (uint32_t)ascii << 6;
    put(object, python->at.object_type, python->text_type);
    put(object, python->at.text_length, length);
    memcpy(object + python->at.text_state, &state, sizeof state);
    memcpy(object + from, data, kind * length);
    return object;
}

static void expect_text(unsigned version, unsigned kind, bool ascii, const void *data, size_t length,
                        const char *expected) {
    struct python_runtime python = python_of(version);
    void *object = text(&python, kind, ascii, data, length);
    char buffer[64];
    size_t n = python_text(&python, (uintptr_t)object, buffer, sizeof buffer);
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(buffer, expected, n);
    assert_int_equal(python_text(&python, (uintptr_t)object, NULL, sizeof buffer), n);
    for (size_t room = 0; room < n; room++) { /* never part of a character */
        size_t part = python_text(&python, (uintptr_t)object, buffer, room);
        assert_true(part <= room && room - part < 4 && ((unsigned char)expected[part] & 0xc0) != 0x80);
    }
    free(object);
}

static void test_texts_become_utf8(void **state) {
    (void)state;
    static const uint16_t wide[] = {0x65e5, 'a', 0x0416, 0xd800};
    static const uint32_t widest[] = {0x1d523, 0xe9, 0x110000};
    for (unsigned version = 0x0308; version <= 0x030e; version++) {
        expect_text(version, 1, true, "plain", 5, "plain");
        expect_text(version, 1, true, "", 0, "");
        expect_text(version, 1, false, "na\xefve", 5, "na\xc3\xafve");
        expect_text(version, 2, false, wide, 4,
                    "\xe6\x97\xa5"
                    "a\xd0\x96\xef\xbf\xbd");
        expect_text(version, 4, false, widest, 3, "\xf0\x9d\x94\xa3\xc3\xa9\xef\xbf\xbd");
    }
}

static void test_what_is_no_text_is_empty(void **state) {
    (void)state;
    struct python_runtime python = python_of(0x030c);
    char *object = text(&python, 1, true, "abc", 3);
    put(object, python.at.object_type, 0x4000);
    assert_int_equal(python_text(&python, (uintptr_t)object, NULL, 100), 0);
    assert_int_equal(python_text(&python, 0, NULL, 100), 0);
    free(object);
}

/* Line of each of `count` offsets into the code (in the unit of the frames of that version), by this table. */
static void expect_lines(unsigned version, const char *table, size_t bytes, const uint32_t *lines, size_t count) {
    struct python_runtime python = python_of(version);
    char *code = calloc(1, 256), *object = calloc(1, python.at.bytes_data + bytes);
    put(object, python.at.object_type, python.bytes_type);
    put(object, python.at.bytes_size, bytes);
    memcpy(object + python.at.bytes_data, table, bytes);
    put(code, python.at.code_lines, (uintptr_t)object);
    memcpy(code + python.at.code_first_line, &(uint32_t){10}, 4);
    for (size_t i = 0; i < count; i++) {
        uintptr_t at = version < 0x030a ? i : version == 0x030a ? i / 2 : (uintptr_t)code + python.at.code_start + i;
        assert_int_equal(python_line(&python, (uintptr_t)code, at), lines[i]);
    }
    uintptr_t before = version < PYTHON_INTERPRETER_FRAMES ? (uint32_t)-1 : (uintptr_t)code + python.at.code_start - 2;
    assert_int_equal(python_line(&python, (uintptr_t)code, before), 10); /* not begun */
    put(object, python.at.object_type, 0x5000);
    assert_int_equal(python_line(&python, (uintptr_t)code, before), 0);
    free(object);
    free(code);
}

static void test_line_tables(void **state) {
    (void)state;
    static const uint32_t pairs[] = {10, 10, 11, 11, 9, 9, 9, 9};
    expect_lines(0x0308, "\x02\x01\x02\xfe", 4, pairs, 8);
    expect_lines(0x0309, "\x02\x01\x02\xfe", 4, pairs, 8);
    static const uint32_t stretches[] = {10, 10, 11, 11, 0, 0, 9, 9, 0};
    expect_lines(0x030a, "\x02\x00\x02\x01\x02\x80\x02\xfe", 8, stretches, 9);
    /* one line +1, columns, of 2 units; short form of 1; long form -2 of 1; none of 1; no columns +70 of 1 */
    static const uint32_t locations[] = {11, 11, 11, 11, 11, 11, 9, 9, 0, 0, 79, 79, 0};
    for (unsigned version = 0x030b; version <= 0x030e; version++)
        expect_lines(version, "\xd9\x01\x02\x80\x00\xf0\x05\x00\x00\x00\xf8\xe8\x4c\x02", 14, locations, 13);
}

/* Damaged tables end, and are not read beyond their end. */
static void test_cut_line_tables(void **state) {
    (void)state;
    static const char table[] = "\xd9\x01\x02\x80\x00\xf0\x45\x40\x40\x40\xf8\xe8\x4c\x42";
    static const uint32_t anything[1] = {11};
    for (size_t bytes = 1; bytes < sizeof table; bytes++)
        for (unsigned version = 0x030b; version <= 0x030e; version++)
            expect_lines(version, table, bytes, anything, 1);
}

/* What an interpreter publishes, filled from the table of another layout: each member at its place and no other. */
static void fill_descriptor(uint64_t *d, bool newer, const struct python_layout *at, uint64_t free_threaded) {
    uint64_t *thread = d + 6 + (newer ? 16 : 13), *frame = thread + 9, *code = frame + (newer ? 8 : 6);
    uint64_t *object = code + (newer ? 11 : 10), *bytes = object + 2 + (newer ? 22 : 18), *string = bytes + 3;
    memset(d, 0xff, 200 * sizeof *d);
    memcpy(d, "xdebugpy", 8);
    d[1] = (uint64_t)at->version << 16 | 0xf0;
    d[2] = free_threaded;
    thread[4] = at->state_frame;
    thread[5] = at->state_thread;
    frame[1] = at->frame_previous;
    frame[2] = at->frame_code;
    frame[3] = at->frame_instruction;
    frame[4] = 80;
    frame[5] = at->frame_owner;
    code[1] = at->code_file;
    code[2] = at->code_name;
    code[3] = at->code_qualified;
    code[4] = at->code_lines;
    code[5] = at->code_first_line;
    code[6] = code[7] = code[8] = 0;
    code[9] = at->code_start;
    object[1] = at->object_type;
    bytes[1] = at->bytes_size;
    bytes[2] = at->bytes_data;
    string[1] = at->text_state;
    string[2] = at->text_length;
    string[3] = at->text_ascii;
}

static void test_published_layouts(void **state) {
    (void)state;
    for (unsigned version = 0x030d; version <= 0x030e; version++) {
        bool newer = version == 0x030e;
        uint64_t descriptor[200];
        struct python_layout table = *python_layout_of(version), moved = table, got = table;
        uint16_t *offsets = &moved.state_frame;
        for (size_t i = 0; i < (sizeof moved - offsetof(struct python_layout, state_frame)) / 2; i++)
            if (&offsets[i] != &moved.holder_frame && &offsets[i] != &moved.frame_entry)
                offsets[i] += 16;
        fill_descriptor(descriptor, newer, &moved, 0);
        assert_true(python_layout_published(&got, descriptor));
        assert_memory_equal(&got, &moved, sizeof got);
        got = table;
        fill_descriptor(descriptor, newer, &moved, 1);
        assert_int_equal(python_layout_published(&got, descriptor), !newer); /* 3.14 runs copies of the code then */
        fill_descriptor(descriptor, newer, &moved, 0);
        descriptor[0] ^= 1;
        assert_false(python_layout_published(&got, descriptor));
        fill_descriptor(descriptor, !newer, &moved, 0);
        assert_false(python_layout_published(&got, descriptor));
    }
    assert_null(python_layout_of(0x0307));
    assert_null(python_layout_of(0x030f));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_become_utf8), cmocka_unit_test(test_what_is_no_text_is_empty),
        cmocka_unit_test(test_line_tables),       cmocka_unit_test(test_cut_line_tables),
        cmocka_unit_test(test_published_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
