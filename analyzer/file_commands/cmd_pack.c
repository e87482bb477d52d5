/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap pack: the dumps of a directory in one compressed file per run, and back.
 * Lives here: options, messages. Must not live here: what is packed (pack/), how (archive/).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/dumps/directories.h"
#include "analyzer/pack/pack.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"

static void say_item(const struct pack_item *item, const char *directory) {
    fputs("commtap pack: ", stderr);
    escape_text(stderr, directory);
    fputc('/', stderr);
    escape_text(stderr, item->name);
    fputs(": ", stderr);
    escape_text(stderr, item->reason);
    fputc('\n', stderr);
}

static int say_packed(const struct packing *packing, const char *directory, bool unpacked) {
    size_t done = 0, removed = 0, left = 0;
    uint64_t data = 0, stored = 0;
    char data_text[UNITS_TEXT], stored_text[UNITS_TEXT];
    for (size_t i = 0; i < packing->count; i++) {
        const struct pack_item *item = &packing->items[i];
        if (item->state == PACK_LEFT)
            say_item(item, directory);
        left += item->state == PACK_LEFT;
        done += item->state == PACK_DONE;
        removed += item->removed;
        data += item->state == PACK_DONE ? item->data_bytes : 0;
        stored += item->state == PACK_DONE ? item->stored_bytes : 0;
    }
    units_size(data_text, data);
    units_size(stored_text, stored);
    escape_text(stdout, directory);
    printf(": %zu dumps %s, %s %s %s; %zu were before, %zu left as they are%s\n", done,
           unpacked ? "unpacked" : "packed and compared", unpacked ? stored_text : data_text,
           unpacked ? "became" : "in", unpacked ? data_text : stored_text, packing->count - done - left, left,
           removed == 0 ? ""
           : unpacked   ? "; archives are removed"
                        : "; originals are removed");
    return left > 0 ? EXIT_FINDINGS : EXIT_FINE;
}

static int refuse_directory(const char *shown, int code) {
    int error = errno;
    fputs("commtap pack: ", stderr);
    escape_text(stderr, shown);
    fprintf(stderr, ": %s\n", regular_file_error(error));
    return code;
}

static int pack_one(const char *directory, const struct pack_request *request, bool unpack) {
    struct packing packing;
    int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return refuse_directory(directory, EXIT_UNUSABLE);
    int code = (unpack ? unpack_directory : pack_directory)(&packing, directory, descriptor, request)
                   ? say_packed(&packing, directory, unpack)
                   : refuse_directory(directory, EXIT_OUTPUT);
    packing_free(&packing);
    close(descriptor);
    return code;
}

/* A directory that was named, or those below it that hold dumps. */
static int pack_place(const char *place, const struct pack_request *request, bool unpack) {
    struct names found = {0};
    int worst = EXIT_FINE;
    enum directories_result search = directories_find(place, &found);
    if (search == DIRECTORIES_UNREADABLE)
        worst = refuse_directory(place, EXIT_UNUSABLE);
    else if (search == DIRECTORIES_NO_MEMORY)
        worst = input_no_memory();
    else if (found.count == 0) {
        fputs("commtap pack: ", stderr);
        escape_text(stderr, place);
        fputs(": holds no dumps, nor do the directories below\n", stderr);
        worst = EXIT_UNUSABLE;
    }
    for (size_t i = 0; search == DIRECTORIES_FOUND && i < found.count; i++) {
        int code = pack_one(found.items[i], request, unpack);
        worst = code > worst ? code : worst;
    }
    names_free(&found);
    return worst;
}

static int run(const struct options *options) {
    const struct pack_request request = {.remove = option_given(options, "delete"),
                                         .ended = option_given(options, "ended")};
    int worst = EXIT_FINE;
    for (size_t i = 0; i < options->argument_count; i++) {
        int code = pack_place(options->arguments[i], &request, option_given(options, "unpack"));
        worst = code > worst ? code : worst;
    }
    return worst;
}

static const struct option option_rows[] = {
    {.name = "delete",
     .doc = "remove the originals once the packed file is on the disk and was compared with them; "
            "with --unpack the packed file"},
    {.name = "ended",
     .doc = "the job has ended: pack also what was killed on other hosts, which their dumps cannot tell"},
    {.name = "unpack", .doc = "make files of what is packed"},
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap pack DIR", "one compressed file per run beside the dumps"},
    {"commtap pack --delete DIR", "likewise, and in their place"},
    {NULL, NULL},
};

const struct command command_pack = {
    .name = "pack",
    .company = COMPANY_NONE,
    .summary = "one compressed file per run, which all commands read as they read dumps",
    .arguments = "DIR...",
    .details =
        "The dumps commtap.<run id>.<16 hex>.ct of a directory go into commtap.<run id>.ctz beside them, each "
        "compressed\n"
        "by itself (Zstandard), so that one is read without the others. Stubs, names of call sites and notes stay as "
        "they\n"
        "are, and are looked for beside the packed file. What a process still writes to is left out. A call that was\n"
        "interrupted is gone on with by the next one, which also adds what came since. What is packed is read back "
        "from\n"
        "the disk and compared with its original before the packed file gets its name; a full disk loses nothing.\n"
        "Of a dump that is there packed and unpacked, commands read the unpacked one.\n",
    .exits = "Exits with 0 where all is packed, 1 where something was left as it is; with 2 on wrong usage, 3 where a\n"
             "directory holds no dumps or cannot be read, 4 where memory is short.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .examples = examples,
    .run = run,
};
