/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: the small readers of text that others wrote.
 * Lives here: DeepSpeed configurations, command lines, lists of frames to skip, launchers' command lines, what lies
 * beside dumps (stubs, the note of deaths), and the programs that their stacks lead into.
 * Must not live here: expectations; a crash, a hang or a sanitizer's report is the finding.
 *
 * Input: a byte that says which, then the text. In stubs and notes, @B is this boot's id and @P the path of a file; for
 * a program it is what to put over a sound one.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/findings/advice.h"
#include "analyzer/cli/options.h"
#include "analyzer/dumps/process.h"
#include "analyzer/run/run.h"
#include "analyzer/symbols/skip_list.h"
#include "test/fuzz/job.h"
#include "test/fuzz/line.h"
#include "test/support/elf_builder.h"

enum { ARGUMENTS_MAX = 64, TEXT_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_configuration(const char *text, size_t length) {
    struct run_settings settings = {0};
    struct run_notes notes = {0};
    char error[8192];
    run_ds_config(memory_file("config.json", text, length), &settings, &notes, error, sizeof error);
    run_settings_free(&settings);
    run_notes_free(&notes);
}

/* Lines become arguments. */
static int split(char *text, char **arguments) {
    int count = 0;
    for (char *line; count < ARGUMENTS_MAX && (line = strsep(&text, "\n"));)
        arguments[count++] = line;
    arguments[count] = NULL;
    return count;
}

static void parse_line(char *text) {
    static const struct command *const commands[] = {
        &command_report, &command_stragglers, &command_steps,    &command_diagnose, &command_summary,
        &command_calls,  &command_export,     &command_timeline, &command_check,    &command_env,
        &command_run,    &command_import,     &command_diff,     &command_links};
    char *arguments[ARGUMENTS_MAX + 1];
    struct options options;
    struct filter filter;
    const struct command *command = commands[(unsigned char)text[0] % (sizeof commands / sizeof *commands)];
    int count = split(text + (text[0] != '\0'), arguments);
    if (options_parse(&options, command, count, arguments, stderr) == EXIT_FINE && !options.help &&
        options_filter(&options, &filter) == EXIT_FINE) {
        filter_rank(&filter, 3);
        filter_comm(&filter, BUILDER_WORLD_UID, "MPI_COMM_WORLD");
        filter_op(&filter, "MPI_Allreduce");
        filter_free(&filter);
    }
    options_free(&options);
    struct advice_limits limits = advice_standard();
    for (int i = 0; i < count; i++)
        advice_parse(arguments[i], &limits);
}

static void read_skip_list(const char *text, size_t length) {
    struct skip_list list;
    if (skip_list_init(&list)) {
        skip_list_add(&list, text);
        skip_list_add(&list, memory_file("frames", text, length));
        skip_native(&list, "libmpi.so.40", "opal_progress");
        skip_python(&list, "/x/torch/nn/module.py", "forward");
    }
    skip_list_free(&list);
}

static void arrange_launcher(char *text) {
    char *arguments[ARGUMENTS_MAX + 1];
    struct run_settings settings = {0};
    struct run_notes notes = {0};
    enum run_launcher launcher = (enum run_launcher)((unsigned char)text[0] % (LAUNCHER_DEEPSPEED + 1));
    int count = split(text + (text[0] != '\0'), arguments);
    if (count > 0 && run_settings_set(&settings, "COMMTAP_DIR", "/nowhere") &&
        run_settings_set(&settings, "LD_PRELOAD", "/nowhere/libcommtap.so"))
        run_arguments_free(run_launcher_arguments(launcher, arguments, &settings, &notes));
    run_settings_free(&settings);
    run_notes_free(&notes);
}

/* ---- beside dumps ------------------------------------------------------------------------------------------------ */

static void write_beside(const char *directory, const char *name, const char *text, const char *staged) {
    char path[256], boot_id[64] = "";
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *stream = fopen(path, "w");
    if (!stream || !process_boot_id(boot_id, sizeof boot_id))
        abort();
    for (; *text; text++) {
        if (text[0] == '@' && (text[1] == 'B' || text[1] == 'P'))
            fputs(*++text == 'B' ? boot_id : staged, stream);
        else
            fputc(*text, stream);
    }
    fclose(stream);
}

static void remove_beside(const char *directory, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    unlink(path);
}

/* Two stubs and a note, with form feeds between them. */
static void look_beside(char *text) {
    static const char *const names[] = {"commtap.x.00000000000000aa.stub", "commtap.testrun.deaths",
                                        "commtap.x.00000000000000bb.stub"};
    static const struct command *const commands[] = {&command_diagnose, &command_check, &command_report};
    static const uint8_t steps[] = {1, 0xff, 0, 0, 0, 0, 0, 0};
    struct played played;
    struct line line = {.command = commands[(unsigned char)text[0] % 3]};
    job_play(&played, steps, sizeof steps, false);
    const char *directory = memory_directory(0, played.dumps, played.count);
    const char *staged = memory_file("staged.ct", "nothing", 7);
    char *rest = text + (text[0] != '\0'), *part;
    size_t count = 0;
    while (count < 3 && (part = strsep(&rest, "\f")))
        write_beside(directory, names[count++], part, staged);
    line_add(&line, "--output");
    line_add(&line, "/dev/null");
    line_add(&line, directory);
    line_run(&line);
    while (count > 0)
        remove_beside(directory, names[--count]);
    played_free(&played);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* A small ELF file with pieces put over it: two bytes of offset, one of length, so many bytes. */
static size_t make_program(uint8_t **file, const uint8_t *data, size_t size) {
    static const struct elf_builder_symbol symbols[] = {
        {"main", 0x1000, 0x100}, {"_Z3fooIiEvT_", 0x2000, 0x80}, {"_RNvC4core3fmt", 0x3000, 0}, {NULL, 0, 0}};
    static const uint8_t build_id[] = {0xab};
    size_t bytes = elf_builder_make(file, symbols, build_id, size % 2 ? "lib.debug" : NULL, 0x12345678);
    for (size_t at = 0; at + 3 < size;) {
        size_t offset = data[at] | (size_t)data[at + 1] << 8, length = data[at + 2];
        at += 3;
        if (length == 0xff) {
            bytes = offset < bytes ? offset : bytes;
            continue;
        }
        length = length < size - at ? length : size - at;
        if (offset < bytes && length <= bytes - offset)
            memcpy(*file + offset, data + at, length);
        at += length;
    }
    return bytes;
}

static void look_into_program(const uint8_t *data, size_t size) {
    static const uint64_t addresses[] = {0x10001010, 0x10002001, 0x10003004, 0x100fffff};
    uint8_t *file, build_id[20];
    size_t bytes = make_program(&file, data, size);
    struct played played;
    struct line line = {.command = &command_calls};
    job_play(&played, (const uint8_t *)"", 0, false);
    memset(build_id, 0xab, sizeof build_id);
    struct dump_builder *builder = played.builders[0];
    dump_builder_module(builder, memory_file("program", file, bytes), build_id, sizeof build_id, 0x10000000,
                        ELF_BUILDER_EXTENT);
    dump_builder_stack(builder, 9, addresses, sizeof addresses / sizeof *addresses);
    dump_builder_plain(builder, 0, BUILDER_WAIT, 2000, 3000)->stack = 9;
    struct site_row *site = dump_builder_site(builder, 0);
    site->stack = 9;
    site->call = 10;
    site->count = 1;
    line_add(&line, "--output");
    line_add(&line, "/dev/null");
    line_add(&line, memory_directory(0, played.dumps, played.count));
    line_run(&line);
    played_free(&played);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[TEXT_MAX];
    if (size < 2 || size > TEXT_MAX)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 6) {
    case 0:
        read_configuration(text, size - 1);
        break;
    case 1:
        parse_line(text);
        break;
    case 2:
        read_skip_list(text, size - 1);
        break;
    case 3:
        arrange_launcher(text);
        break;
    case 4:
        look_beside(text);
        break;
    default:
        look_into_program(data + 1, size - 1);
    }
    return 0;
}
