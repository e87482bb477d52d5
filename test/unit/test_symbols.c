/* SPDX-License-Identifier: Apache-2.0
 *
 * From addresses to names: which file is believed, which function an address lies in, and that no file brings it down.
 * Lives here: ELF files made by hand and broken in every place, dumps that name them.
 * Must not live here: Python frames, trees (test_call_tree.c); real compilers' files (test/e2e/test_calls.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/elf_file.h"
#include "analyzer/symbols/lines.h"
#include "analyzer/symbols/symbols.h"
#include "test/support/dump_builder.h"
#include "test/support/elf_builder.h"

static char directory[] = "/tmp/commtap-symbols-XXXXXX";

static const char *in_directory(const char *name) {
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, 256, "%s/%s", directory, name);
    return path;
}

static const uint8_t seven = 7, eight = 8;
static const struct elf_builder_symbol functions[] = {
    {"_ZN3app4stepEi", 0x1000, 0x100},
    {"compute.constprop.0", 0x1100, 0x80},
    {"inner_label", 0x1110, 0},
    {"assembly", 0x5000, 0},
    {NULL, 0, 0},
};

/* One rank whose stack 1 holds the given addresses of `path`, loaded at `base`. */
struct rank {
    struct dump_builder *builder;
    struct dump *dump;
};

static struct rank make_rank(int32_t number, const char *path, const uint8_t *build_id, uint64_t base,
                             const uint64_t *offsets, uint32_t count) {
    uint8_t id[20];
    uint64_t entries[16];
    struct rank rank = {.builder = dump_builder_new(&(struct dump_plan){.rank = number, .world_size = 2})};
    dump_builder_anchor(rank.builder, 0, 0, 1000000000, 1);
    memset(id, build_id ? *build_id : 0, sizeof id);
    for (uint32_t i = 0; i < count; i++)
        entries[i] = base + offsets[i];
    dump_builder_stack(rank.builder, 1, entries, count); /* a shim may define the module after the stack */
    dump_builder_module(rank.builder, path, id, build_id ? sizeof id : 0, base, ELF_BUILDER_EXTENT);
    size_t bytes;
    const void *data = dump_builder_data(rank.builder, &bytes);
    rank.dump = dump_open_buffer("made.ct", data, bytes);
    assert_int_equal(rank.dump->problems.count, 0);
    return rank;
}

static void free_rank(struct rank *rank) {
    dump_close(rank->dump);
    dump_builder_free(rank->builder);
}

static struct symbols *look_up(struct dump *const *dumps, size_t count) {
    struct symbols *symbols = symbols_new(dumps, count, directory);
    assert_non_null(symbols);
    assert_true(symbols_want_all(symbols));
    assert_true(symbols_resolve(symbols));
    return symbols;
}

static const struct symbol *symbol_of(const struct symbols *symbols, const struct dump *dump, size_t d,
                                      uint32_t entry) {
    const struct dump_stack *stack = dump_stack(dump, 1);
    assert_non_null(stack);
    return symbols_find(symbols, d, stack, stack->entries[entry]);
}

static void an_address_is_named_after_its_call(void **state) {
    (void)state;
    elf_builder_write(in_directory("program"), functions, &seven, NULL, 0);
    const uint64_t offsets[] = {0x1001, 0x1100, 0x1101, 0x1118, 0x1181, 0x5010, 0x7000};
    struct rank rank = make_rank(0, in_directory("program"), &seven, 0x7f0000000000, offsets, 7);
    struct symbols *symbols = look_up(&rank.dump, 1);
    static const char *const names[] = {"app::step",      "app::step", "compute",       "compute",
                                        "program+0x1180", "assembly",  "program+0x6fff"};
    for (uint32_t i = 0; i < 7; i++) {
        assert_string_equal(symbol_of(symbols, rank.dump, 0, i)->name, names[i]);
        assert_string_equal(symbol_of(symbols, rank.dump, 0, i)->module, "program");
    }
    size_t notes;
    symbols_notes(symbols, &notes);
    assert_int_equal(notes, 0);
    symbols_free(symbols);
    free_rank(&rank);
}

static void ranks_share_places_wherever_their_files_were_loaded(void **state) {
    (void)state;
    elf_builder_write(in_directory("program"), functions, &seven, NULL, 0);
    const uint64_t offsets[] = {0x1010};
    struct rank ranks[2] = {make_rank(0, in_directory("program"), &seven, 0x7f0000000000, offsets, 1),
                            make_rank(1, "/elsewhere/program", &seven, 0x550000000000, offsets, 1)};
    struct dump *dumps[] = {ranks[1].dump, ranks[0].dump}; /* the first one's path is not here */
    struct symbols *symbols = look_up(dumps, 2);
    assert_ptr_equal(symbol_of(symbols, dumps[0], 0, 0), symbol_of(symbols, dumps[1], 1, 0));
    assert_string_equal(symbol_of(symbols, dumps[0], 0, 0)->name, "app::step");
    symbols_free(symbols);
    free_rank(&ranks[0]);
    free_rank(&ranks[1]);
}

static void check_refused(const char *path, const uint8_t *build_id, const char *word) {
    const uint64_t offsets[] = {0x1010, 0x1110};
    struct rank rank = make_rank(0, path, build_id, 0x7f0000000000, offsets, 2);
    struct symbols *symbols = look_up(&rank.dump, 1);
    assert_non_null(strstr(symbol_of(symbols, rank.dump, 0, 0)->name, "+0x100f"));
    assert_false(symbol_of(symbols, rank.dump, 0, 0)->named);
    size_t notes;
    const char *const *texts = symbols_notes(symbols, &notes);
    assert_int_equal(notes, 1); /* once, not per frame */
    assert_non_null(strstr(texts[0], word));
    symbols_free(symbols);
    free_rank(&rank);
}

static void a_file_that_did_not_run_is_not_believed(void **state) {
    (void)state;
    elf_builder_write(in_directory("replaced"), functions, &eight, NULL, 0);
    check_refused(in_directory("replaced"), &seven, "replaced");
    elf_builder_write(in_directory("anonymous"), functions, NULL, NULL, 0);
    check_refused(in_directory("anonymous"), &seven, "replaced");
    check_refused(in_directory("gone"), &seven, "not here");
    assert_int_equal(mkfifo(in_directory("fifo"), 0600), 0); /* must not be waited for */
    check_refused(in_directory("fifo"), &seven, "replaced");
}

static void debug_files_are_found_by_build_id_and_by_link(void **state) {
    (void)state;
    const uint64_t offsets[] = {0x1010};
    assert_int_equal(mkdir(in_directory(".build-id"), 0700) | mkdir(in_directory(".build-id/07"), 0700), 0);
    elf_builder_write(in_directory(".build-id/07/07070707070707070707070707070707070707.debug"), functions, &seven,
                      NULL, 0);
    elf_builder_write(in_directory("bare"), NULL, &seven, NULL, 0);
    struct rank rank = make_rank(0, in_directory("bare"), &seven, 0x10000, offsets, 1);
    struct symbols *symbols = look_up(&rank.dump, 1);
    assert_string_equal(symbol_of(symbols, rank.dump, 0, 0)->name, "app::step");
    symbols_free(symbols);
    free_rank(&rank);

    struct elf_file debug;
    uint32_t crc;
    elf_builder_write(in_directory("linked.debug"), functions, NULL, NULL, 0);
    assert_true(elf_open(&debug, in_directory("linked.debug")) && elf_crc(&debug, &crc));
    elf_close(&debug);
    for (int wrong = 0; wrong < 2; wrong++) {
        elf_builder_write(in_directory("linked"), NULL, NULL, "linked.debug", crc + (uint32_t)wrong);
        rank = make_rank(0, in_directory("linked"), NULL, 0x10000, offsets, 1);
        symbols = look_up(&rank.dump, 1);
        assert_string_equal(symbol_of(symbols, rank.dump, 0, 0)->name, wrong ? "linked+0x100f" : "app::step");
        symbols_free(symbols);
        free_rank(&rank);
    }
}

/* The reference value is from the end of what gzip makes of these bytes: the smallest file that passes for ELF. */
static void the_sum_of_a_file_is_crc_32(void **state) {
    (void)state;
    struct elf_file file;
    uint32_t crc;
    char bytes[73] = "\177ELF\2\1";
    memcpy(bytes + 64, "123456789", 9);
    FILE *stream = fopen(in_directory("smallest"), "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, stream), sizeof bytes);
    assert_int_equal(fclose(stream), 0);
    assert_true(elf_open(&file, in_directory("smallest")));
    assert_true(elf_crc(&file, &crc));
    assert_int_equal(crc, 0xf858836a);
    elf_close(&file);
}

static void modules_that_come_and_go_are_told_apart_by_time(void **state) {
    (void)state;
    static const struct elf_builder_symbol first[] = {{"first", 0x1000, 0x100}, {NULL, 0, 0}},
                                           second[] = {{"second", 0x1000, 0x100}, {NULL, 0, 0}};
    elf_builder_write(in_directory("first.so"), first, &seven, NULL, 0);
    elf_builder_write(in_directory("second.so"), second, &eight, NULL, 0);
    uint8_t ids[2][20];
    memset(ids[0], 7, 20);
    memset(ids[1], 8, 20);
    const uint64_t entry = 0x401010;
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.world_size = 1});
    dump_builder_anchor(builder, 0, 0, 1000000000, 1);
    dump_builder_module(builder, in_directory("first.so"), ids[0], 20, 0x400000, ELF_BUILDER_EXTENT);
    dump_builder_stack(builder, 1, &entry, 1);
    dump_builder_module_gone(builder, 0x400000);
    dump_builder_stack(builder, 2, &entry, 1); /* the module beside it follows */
    dump_builder_module(builder, in_directory("second.so"), ids[1], 20, 0x400000, ELF_BUILDER_EXTENT);
    dump_builder_stack(builder, 3, &entry, 1);
    dump_builder_module_gone(builder, 0x400000);
    size_t bytes;
    const void *data = dump_builder_data(builder, &bytes);
    struct dump *dump = dump_open_buffer("made.ct", data, bytes);
    struct symbols *symbols = look_up(&dump, 1);
    assert_string_equal(symbols_find(symbols, 0, dump_stack(dump, 1), entry)->name, "first");
    assert_string_equal(symbols_find(symbols, 0, dump_stack(dump, 2), entry)->name, "second");
    assert_string_equal(symbols_find(symbols, 0, dump_stack(dump, 3), entry)->name, "second");
    assert_string_equal(symbols_find(symbols, 0, dump_stack(dump, 2), 0x10)->name, "[unknown]");
    symbols_free(symbols);
    dump_close(dump);
    dump_builder_free(builder);
}

/* ---- hostile input ----------------------------------------------------------------------------- */

static void read_all(const char *path) {
    struct elf_file file;
    struct elf_symbols symbols;
    if (!elf_open(&file, path))
        return;
    if (elf_symbols_read(&symbols, &file))
        for (uint64_t address = 0; address < 0x6000; address += 0x123) {
            const struct elf_symbol *symbol = elf_symbol_at(&symbols, address);
            char text[FUNCTION_NAME_MAX];
            if (symbol)
                demangle(text, symbol->name);
        }
    elf_symbols_free(&symbols);
    elf_close(&file);
}

static void write_file(const char *path, const uint8_t *data, size_t bytes) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void no_elf_file_brings_the_reader_down(void **state) {
    (void)state;
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    uint8_t *data;
    size_t bytes = elf_builder_make(&data, functions, &seven, "some.debug", 1);
    const char *path = in_directory("hostile");
    for (size_t i = 0; i < bytes; i++) { /* every byte, also the last ones of every field */
        uint8_t before = data[i];
        for (size_t v = 0; v < sizeof values; v++) {
            data[i] = values[v];
            write_file(path, data, bytes);
            read_all(path);
        }
        data[i] = before;
    }
    for (size_t i = 0; i < bytes; i += 3) {
        write_file(path, data, i);
        read_all(path);
    }
    free(data);
}

/* The test program's own debug data, damaged: libdw may fall over it, the caller must not. */
static void no_debug_data_brings_the_caller_down(void **state) {
    (void)state;
    char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    FILE *file = fopen(self, "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(bytes);
    assert_int_equal(fread(data, 1, bytes, file), bytes);
    fclose(file);
    uint64_t addresses[64], seed = 1;
    struct elf_file elf;
    struct elf_symbols symbols;
    assert_true(elf_open(&elf, self) && elf_symbols_read(&symbols, &elf) && symbols.count > 64);
    for (size_t i = 0; i < 64; i++)
        addresses[i] = symbols.items[i * symbols.count / 64].address + 1;
    elf_symbols_free(&symbols);
    elf_close(&elf);
    size_t known = 0;
    for (int round = 0; round < 12; round++) {
        struct source_line lines[64] = {0};
        for (int change = 0; round > 0 && change < 2000; change++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            data[64 + (seed >> 20) % (bytes - 64)] = (uint8_t)(seed >> 56);
        }
        write_file(in_directory("damaged"), data, bytes);
        enum lines_result result = lines_find(in_directory("damaged"), addresses, 64, lines);
        assert_int_not_equal(result, LINES_NO_MEMORY);
        for (size_t i = 0; i < 64; i++) {
            known += round == 0 && lines[i].line > 0;
            source_line_free(&lines[i]);
        }
    }
    assert_true(known > 16);
    free(data);
}

static void names_are_demangled_with_an_end_to_it(void **state) {
    (void)state;
    static const struct {
        const char *mangled, *name;
    } pairs[] = {
        {"_ZN3app4HaloIdE8exchangeEPd", "app::Halo<double>::exchange"},
        {"_ZN3app4stepEi.cold", "app::step"},
        {"main", "main"},
        {"work.isra.0.part.3", "work"},
        {"_ZN5torch8autograd6Engine11thread_mainERKSt10shared_ptrINS0_9GraphTaskEE",
         "torch::autograd::Engine::thread_main"},
        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"},
        {"_Znonsense", "_Znonsense"},
        {"", ""},
    };
    char text[FUNCTION_NAME_MAX];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        demangle(text, pairs[i].mangled);
        assert_string_equal(text, pairs[i].name);
    }
    /* pairs of pairs of pairs: 2^40 names in a few hundred bytes */
    char bomb[4096] = "_Z1fI1AS_E", *at = bomb + sprintf(bomb, "_Z1fI");
    at += sprintf(at, "1PI1AS0_E");
    for (int i = 1; i < 40; i++)
        at += sprintf(at, "S_IS%c_S%c_E", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 36],
                      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 36]);
    sprintf(at, "EvT_");
    demangle(text, bomb);
    assert_true(strlen(text) < FUNCTION_NAME_MAX);
    memset(bomb, 'x', sizeof bomb - 1);
    bomb[sizeof bomb - 1] = '\0';
    demangle(text, bomb);
    assert_int_equal(strlen(text), FUNCTION_NAME_MAX - 1);
}

static void definitions_that_do_not_fit_are_left_out(void **state) {
    (void)state;
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.world_size = 1});
    dump_builder_anchor(builder, 0, 0, 1000000000, 1);
    struct stack_definition *stack = dump_builder_define(builder, DEFINITION_STACK, 32);
    stack->id = 1;
    stack->depth = UINT32_MAX;
    struct code_definition *code = dump_builder_define(builder, DEFINITION_CODE, 48);
    code->id = 1;
    code->name_bytes = code->file_bytes = UINT32_MAX;
    struct string_definition *string = dump_builder_define(builder, DEFINITION_STRING, 32);
    string->id = 1;
    string->length = 17;
    struct module_definition *module = dump_builder_define(builder, DEFINITION_MODULE, 96);
    module->start = 1;
    module->end = 2;
    module->path_bytes = 4096;
    dump_builder_define(builder, DEFINITION_MODULE, 16);
    const uint64_t entry = 5;
    dump_builder_stack(builder, 0, &entry, 1);
    dump_builder_string(builder, 2, "kept");
    dump_builder_stack(builder, 3, &entry, 1);
    dump_builder_stack(builder, 3, &entry, 1); /* a race may define one twice */
    size_t bytes;
    const void *data = dump_builder_data(builder, &bytes);
    struct dump *dump = dump_open_buffer("made.ct", data, bytes);
    assert_int_equal(dump->problems.count, 6);
    assert_null(dump_stack(dump, 1));
    assert_null(dump_stack(dump, 0));
    assert_null(dump_code(dump, 1));
    assert_null(dump_string(dump, 1));
    assert_int_equal(dump->module_count, 0);
    assert_string_equal(dump_string(dump, 2), "kept");
    assert_int_equal(dump_stack(dump, 3)->entries[0], 5);
    dump_close(dump);
    dump_builder_free(builder);
}

static int make_directory(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_named_after_its_call),
        cmocka_unit_test(ranks_share_places_wherever_their_files_were_loaded),
        cmocka_unit_test(a_file_that_did_not_run_is_not_believed),
        cmocka_unit_test(debug_files_are_found_by_build_id_and_by_link),
        cmocka_unit_test(the_sum_of_a_file_is_crc_32),
        cmocka_unit_test(modules_that_come_and_go_are_told_apart_by_time),
        cmocka_unit_test(no_elf_file_brings_the_reader_down),
        cmocka_unit_test(no_debug_data_brings_the_caller_down),
        cmocka_unit_test(names_are_demangled_with_an_end_to_it),
        cmocka_unit_test(definitions_that_do_not_fit_are_left_out),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
