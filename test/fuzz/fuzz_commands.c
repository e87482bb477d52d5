/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: every command of the analyzer over a directory with one damaged dump among sound ones of two hosts.
 * Lives here: the directory, the table of command lines.
 * Must not live here: expectations; a crash, a hang or a sanitizer's report is the finding.
 *
 * Input: one byte that picks the command line, then patches over the dump of rank 0 (sound.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/options.h"
#include "test/fuzz/sound.h"

enum { RANKS = 4, WORDS_MAX = 8 };

static char directory[64];

static const struct {
    const struct command *command;
    const char *words[WORDS_MAX];
} lines[] = {
    {&command_report, {"--threads", "1"}},
    {&command_report, {"--format", "json", "--threads", "2"}},
    {&command_stragglers, {"--from", "0.0000001", "--threads", "1"}},
    {&command_stragglers, {"--format", "csv", "--threads", "1"}},
    {&command_steps, {"--threads", "1"}},
    {&command_steps, {"--by", "both", "--format", "json", "--threads", "1"}},
    {&command_steps, {"--marker", "pcontrol", "--by", "step", "--format", "csv", "--threads", "1"}},
    {&command_steps, {"--anchor", "*AllReduce", "--threads", "1"}},
    {&command_calls, {"--noise", "3", "--waits"}},
    {&command_calls, {"--format", "json", "--weight", "bytes"}},
    {&command_summary, {"--by", "op,rank,bytes"}},
    {&command_summary, {"--format", "json"}},
    {&command_summary, {"--compat", "deepspeed"}},
    {&command_summary, {"--from", "0", "--by", "op,site"}},
    {&command_summary, {"--step", "0-9", "--compat", "deepspeed"}},
    {&command_report, {"--step", "1-3", "--anchor", "*reduce", "--threads", "1"}},
    {&command_calls, {"--to", "1", "--noise", "1"}},
    {&command_steps, {"--op", "*reduce", "--comm", "MPI*", "--threads", "1"}},
    {&command_stragglers, {"--op", "!wait*", "--step", "0-99", "--threads", "1"}},
    {&command_export, {"--from", "0.000001"}},
    {&command_export, {"--table", "records"}},
    {&command_export, {"--table", "operations", "--format", "jsonl"}},
    {&command_check, {"--format", "json"}},
};

static void remove_directory(void) {
    char path[128];
    for (int32_t rank = 0; rank < RANKS; rank++) {
        snprintf(path, sizeof path, "%s/commtap.t.%d.ct", directory, rank);
        remove(path);
    }
    remove(directory);
}

static const struct dump_builder *make_directory(void) {
    const char *root = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/commtap-fuzz-XXXXXX", root ? root : "/dev/shm");
    if (!mkdtemp(directory))
        abort();
    atexit(remove_directory);
    struct dump_builder *first = NULL;
    for (int32_t rank = 0; rank < RANKS; rank++) {
        char path[128];
        struct dump_builder *builder = fuzz_sound_dump(rank);
        snprintf(path, sizeof path, "%s/commtap.t.%d.ct", directory, rank);
        if (dump_builder_write(builder, path, 0) != 0)
            abort();
        if (rank == 0)
            first = builder;
        else
            dump_builder_free(builder);
    }
    return first;
}

static void write_damaged(const struct dump_builder *sound, const uint8_t *data, size_t size) {
    static uint8_t *file;
    size_t bytes;
    const void *original = dump_builder_data(sound, &bytes);
    if (!file && !(file = malloc(bytes)))
        abort();
    memcpy(file, original, bytes);
    size_t length = fuzz_damage(file, bytes, original, data, size);
    char path[128];
    snprintf(path, sizeof path, "%s/commtap.t.0.ct", directory);
    FILE *stream = fopen(path, "w");
    if (!stream || fwrite(file, 1, length, stream) != length || fclose(stream) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct dump_builder *sound;
    if (!sound)
        sound = make_directory();
    if (size == 0)
        return 0;
    write_damaged(sound, data + 1, size - 1);
    size_t line = data[0] % (sizeof lines / sizeof *lines);
    char *words[WORDS_MAX + 3] = {(char *)"--output", (char *)"/dev/null"};
    int count = 2;
    for (size_t i = 0; i < WORDS_MAX && lines[line].words[i]; i++)
        words[count++] = (char *)lines[line].words[i];
    words[count++] = directory;
    struct options options;
    if (options_parse(&options, lines[line].command, count, words, stderr) == EXIT_FINE)
        lines[line].command->run(&options);
    else
        abort(); /* the table above is wrong */
    options_free(&options);
    return 0;
}
