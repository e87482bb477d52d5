/* SPDX-License-Identifier: Apache-2.0
 *
 * Names kept beside the dumps: what is written is what is read, the build-id decides, and no file brings the reader
 * down. Lives here: files written by the writer, by hand, and damaged. Must not live here: real jobs
 * (test/e2e/test_calls.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/symbols/stored_symbols.h"

static char path[] = "/tmp/commtap-stored-XXXXXX";
static const uint8_t seven[20] = {7, 7, 7}, eight[20] = {8};

static void write_file(const char *text, size_t bytes) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* One module with a build-id, one without; names with everything that separates fields. */
static void write_two_modules(void) {
    const struct symbol outer = {.name = "main", .named = true, .file = "/src/a\tb\\n.c", .line = 3};
    const struct symbol middle = {.name = "step", .named = true, .file = NULL, .line = 0, .caller = &outer};
    const struct symbol inner = {
        .name = "operator\t\n\\t", .named = true, .file = "/src/b.h", .line = UINT32_MAX, .caller = &middle};
    const struct symbol unknown = {.name = "x+0x5", .named = false, .file = "/src/c.c", .line = 9};
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    stored_symbols_write_head(stream);
    stored_symbols_write_module(stream, &(struct ran){"/bin/with\ta tab", seven, 20, 0x1000});
    stored_symbols_write_place(stream, UINT64_MAX, &inner);
    stored_symbols_write_place(stream, 0x10, &outer);
    stored_symbols_write_module(stream, &(struct ran){"/bin/without", NULL, 0, 0x2000});
    stored_symbols_write_place(stream, 0x10, &unknown);
    assert_int_equal(fclose(stream), 0);
}

static void what_was_written_is_read(void **state) {
    (void)state;
    struct stored_symbols stored;
    struct stored_function at[STORED_FUNCTIONS_MOST];
    write_two_modules();
    assert_true(stored_symbols_read(&stored, path));
    assert_null(stored.damage);
    assert_int_equal(stored.module_count, 2);
    assert_int_equal(stored_symbols_find(&stored, 0, UINT64_MAX, at), 3);
    assert_string_equal(at[0].name, "operator\t\n\\t");
    assert_string_equal(at[0].file, "/src/b.h");
    assert_true(at[0].line == UINT32_MAX);
    assert_string_equal(at[1].name, "step");
    assert_string_equal(at[1].file, "");
    assert_int_equal(at[1].line, 0);
    assert_string_equal(at[2].name, "main");
    assert_string_equal(at[2].file, "/src/a\tb\\n.c");
    assert_int_equal(at[2].line, 3);
    assert_int_equal(stored_symbols_find(&stored, 0, 0x10, at), 1);
    assert_int_equal(stored_symbols_find(&stored, 1, 0x10, at), 1);
    assert_string_equal(at[0].name, "");
    assert_int_equal(at[0].line, 9);
    assert_int_equal(stored_symbols_find(&stored, 0, 0x11, at), 0);
    stored_symbols_free(&stored);
}

static void the_build_id_tells_modules_apart(void **state) {
    (void)state;
    struct stored_symbols stored;
    write_two_modules();
    assert_true(stored_symbols_read(&stored, path));
    assert_string_equal(stored.modules[0].ran.path, "/bin/with\ta tab");
    assert_int_equal(stored_symbols_module(&stored, &(struct ran){"/elsewhere", seven, 20, 0x1000}), 0);
    assert_int_equal(stored_symbols_module(&stored, &(struct ran){"/bin/with\ta tab", eight, 20, 0x1000}), 2);
    assert_int_equal(stored_symbols_module(&stored, &(struct ran){"/bin/with\ta tab", seven, 16, 0x1000}), 2);
    /* without one: path and extent, both */
    assert_int_equal(stored_symbols_module(&stored, &(struct ran){"/bin/without", NULL, 0, 0x2000}), 1);
    assert_int_equal(stored_symbols_module(&stored, &(struct ran){"/bin/without", NULL, 0, 0x2001}), 2);
    assert_int_equal(stored_symbols_module(&stored, &(struct ran){"/bin/other", NULL, 0, 0x2000}), 2);
    assert_int_equal(stored_symbols_module(&stored, &(struct ran){"/bin/without", eight, 20, 0x2000}), 2);
    stored_symbols_free(&stored);
}

/* What precedes the damage is kept, and where it begins is known. */
static void damage_is_told_by_byte_and_reason(void **state) {
    (void)state;
#define SOUND "commtap symbols 1\nmodule\t-\t10\t/a\n5\tf\t1\tf.c\n"
    static const struct {
        const char *text, *word;
        size_t sound; /* bytes before the damage */
    } files[] = {
        {"commtap symbols 2\n", "no beginning", 0},
        {"commtap symbols 1\n5\tf\t1\tf.c\n", "no place in a module", 18},
        {SOUND "6\tf\t1\n", "does not consist", sizeof SOUND - 1},
        {SOUND "6\tf\tone\tf.c\n", "no line number", sizeof SOUND - 1},
        {SOUND "6\tf\t4294967296\tf.c\n", "no line number", sizeof SOUND - 1},
        {SOUND "g\tf\t1\tf.c\n", "no place", sizeof SOUND - 1},
        {SOUND "11112222333344445\tf\t1\tf.c\n", "no place", sizeof SOUND - 1},
        {SOUND "-6\tf\t1\tf.c\n", "no place", sizeof SOUND - 1},
        {SOUND "\n", "no place", sizeof SOUND - 1},
        {SOUND "module\tabc\t10\t/b\n", "no module", sizeof SOUND - 1},
        {SOUND "module\t-\t10\n", "no module", sizeof SOUND - 1},
        {SOUND "6\tf\t1\tf.c", "cut off", sizeof SOUND - 1},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct stored_symbols stored;
        struct stored_function at[STORED_FUNCTIONS_MOST];
        write_file(files[i].text, strlen(files[i].text));
        assert_true(stored_symbols_read(&stored, path));
        assert_non_null(stored.damage);
        assert_non_null(strstr(stored.damage, files[i].word));
        assert_int_equal(stored.damaged_at, files[i].sound);
        assert_int_equal(stored_symbols_find(&stored, 0, 5, at), files[i].sound == sizeof SOUND - 1);
        stored_symbols_free(&stored);
    }
}

/* As many functions at one place as the reader has room for, and one more. */
static void chains_have_an_end(void **state) {
    (void)state;
    for (int more = 0; more < 2; more++) {
        char text[512] = "commtap symbols 1\nmodule\t-\t10\t/a\n5";
        for (int i = 0; i < STORED_FUNCTIONS_MOST + more; i++)
            strcat(text, "\tf\t1\tf.c");
        strcat(text, "\n");
        struct stored_symbols stored;
        struct stored_function at[STORED_FUNCTIONS_MOST];
        write_file(text, strlen(text));
        assert_true(stored_symbols_read(&stored, path));
        assert_int_equal(stored_symbols_find(&stored, 0, 5, at), more ? 0 : STORED_FUNCTIONS_MOST);
        assert_int_equal(stored.damage != NULL, more);
        stored_symbols_free(&stored);
    }
}

static void no_file_is_no_names(void **state) {
    (void)state;
    struct stored_symbols stored;
    assert_true(stored_symbols_read(&stored, "/nowhere/commtap.x.symbols"));
    assert_null(stored.damage);
    assert_int_equal(stored.module_count, 0);
    stored_symbols_free(&stored);
}

/* Under the sanitizers: nothing is read or written outside of the file's own text. */
static void damaged_files_bring_nothing_down(void **state) {
    (void)state;
    char text[4096];
    uint64_t seed = 3;
    write_two_modules();
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(text, 1, sizeof text, file), read = 0;
    fclose(file);
    for (int round = 0; round < 3000; round++) {
        char damaged[sizeof text];
        memcpy(damaged, text, bytes);
        for (int change = 0; change < 1 + round % 4; change++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            damaged[(seed >> 33) % bytes] = "\t\n\\0af \xff"[seed >> 20 & 7];
        }
        write_file(damaged, bytes - (round % 3 == 0 ? (seed >> 40) % bytes : 0));
        struct stored_symbols stored;
        struct stored_function at[STORED_FUNCTIONS_MOST];
        assert_true(stored_symbols_read(&stored, path));
        for (size_t m = 0; m < stored.module_count; m++)
            read += stored_symbols_find(&stored, m, 0x10, at) > 0;
        stored_symbols_free(&stored);
    }
    assert_in_range(read, 1000, 6000);
}

static int make_file(void **state) {
    (void)state;
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(the_build_id_tells_modules_apart),
        cmocka_unit_test(damage_is_told_by_byte_and_reason),
        cmocka_unit_test(chains_have_an_end),
        cmocka_unit_test(no_file_is_no_names),
        cmocka_unit_test(damaged_files_bring_nothing_down),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
