/* SPDX-License-Identifier: Apache-2.0
 *
 * How long it takes to name 3000 addresses of a large file.
 * Lives here: a dump with one stack per few addresses, spread over all functions of the file given; the clock.
 * Must not live here: repetition, tables (bench.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analyzer/symbols/elf_file.h"
#include "analyzer/symbols/symbols.h"
#include "test/support/dump_builder.h"

enum { ADDRESSES = 3000, DEPTH = 15 };
#define BASE UINT64_C(0x7f0000000000)

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    struct elf_file file;
    struct elf_symbols functions;
    if (argc != 2 || !elf_open(&file, argv[1]) || !elf_symbols_read(&functions, &file) || functions.count < ADDRESSES) {
        fprintf(stderr, "usage: symbols ELF-FILE, an absolute path, with at least %d functions\n", ADDRESSES);
        return 2;
    }
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.world_size = 1, .definition_areas = 4});
    dump_builder_module(builder, argv[1], file.build_id, file.build_id_bytes, BASE + file.low, file.high - file.low);
    for (uint32_t i = 0; i < ADDRESSES; i += DEPTH) {
        uint64_t entries[DEPTH];
        for (uint32_t j = 0; j < DEPTH; j++)
            entries[j] = BASE + functions.items[(i + j) * functions.count / ADDRESSES].address + 5;
        dump_builder_stack(builder, i + 1, entries, DEPTH);
    }
    size_t bytes, named = 0, lines = 0;
    const void *data = dump_builder_data(builder, &bytes);
    struct dump *dump = dump_open_buffer("bench.ct", data, bytes);
    double start = seconds();
    struct symbols *symbols = symbols_new(&dump, 1, NULL);
    if (!symbols || !symbols_want_all(symbols) || !symbols_resolve(symbols))
        return 1;
    double end = seconds();
    for (size_t i = 0; i < dump->stack_count; i++)
        for (uint32_t j = 0; j < dump->stacks[i].depth; j++) {
            const struct symbol *symbol = symbols_find(symbols, 0, &dump->stacks[i], dump->stacks[i].entries[j]);
            named += symbol->named;
            lines += symbol->line > 0;
        }
    printf("seconds %.4f named %zu lines %zu functions %zu\n", end - start, named, lines, functions.count);
    symbols_free(symbols);
    dump_close(dump);
    dump_builder_free(builder);
    elf_symbols_free(&functions);
    elf_close(&file);
    return 0;
}
