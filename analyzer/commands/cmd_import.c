/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap import: traces of other tools as a directory of dumps.
 * Lives here: the command's options, reading the files, telling the formats apart, messages.
 * Must not live here: formats (import/), analyses: those run on the dumps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/import/formats.h"
#include "analyzer/import/json_walk.h"
#include "analyzer/import/write_dump.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/base/output_mode.h"
#include "analyzer/base/regular_file.h"
#include "analyzer/render/escape.h"

static const struct import_format *const formats[] = {&import_timeline, &import_kineto, &import_flight};
enum { FORMATS = sizeof formats / sizeof *formats };

struct readers {
    struct import_limits limits;
    void *states[FORMATS];
    size_t documents[FORMATS]; /* that had something for the format */
};

static void complain_of_file(const char *file, const char *document, const char *text) {
    fputs("commtap import: ", stderr);
    escape_text(stderr, file);
    if (document && strcmp(file, document) != 0) {
        fputs(": ", stderr);
        escape_text(stderr, document);
    }
    fputs(": ", stderr);
    escape_text(stderr, text);
    fputc('\n', stderr);
}

static bool take_piece(void *context, const char *key, const json_t *piece) {
    struct readers *readers = context;
    for (size_t i = 0; i < FORMATS; i++)
        if (!formats[i]->piece(readers->states[i], key, piece))
            return false;
    return true;
}

static int read_document(struct readers *readers, struct import_source *source, const char *file) {
    struct json_error error;
    const char *name = source_document(source);
    if (!json_walk(source, take_piece, readers, &error)) {
        char text[256];
        const char *exceeded = readers->limits.exceeded;
        snprintf(text, sizeof text, "at byte %llu: %s", (unsigned long long)error.offset,
                 exceeded[0] ? exceeded : error.text);
        complain_of_file(file, name, text);
        return EXIT_UNUSABLE;
    }
    bool known = false;
    for (size_t i = 0; i < FORMATS; i++)
        if (formats[i]->document(readers->states[i], name)) {
            readers->documents[i]++;
            known = true;
        }
    if (known)
        return EXIT_FINE;
    complain_of_file(file, name, "nothing in it that can be imported");
    return EXIT_UNUSABLE;
}

static int read_file(struct readers *readers, const char *file) {
    struct import_source *source = source_open(file, &readers->limits);
    if (!source) {
        complain_of_file(file, NULL, regular_file_error(errno));
        return EXIT_UNUSABLE;
    }
    int code = EXIT_FINE, next = 0;
    while (code == EXIT_FINE && (next = source_next(source)) > 0)
        code = read_document(readers, source, file);
    if (code == EXIT_FINE && next < 0) {
        complain_of_file(file, source_document(source), source_error(source));
        code = EXIT_UNUSABLE;
    }
    source_close(source);
    return code;
}

/* The one format that all documents are of, or NULL after a message. */
static const struct import_format *choose_format(const struct readers *readers, size_t *index) {
    const struct import_format *chosen = NULL;
    for (size_t i = 0; i < FORMATS; i++) {
        if (readers->documents[i] == 0)
            continue;
        if (chosen) {
            fprintf(stderr, "commtap import: a %s and a %s: import traces of one kind at a time\n", chosen->name,
                    formats[i]->name);
            return NULL;
        }
        chosen = formats[i];
        *index = i;
    }
    if (!chosen)
        fputs("commtap import: no trace in these files\n", stderr);
    return chosen;
}

static int make_directory(const char *directory, mode_t mode) {
    char *path = strdup(directory);
    int error = path ? output_make_directories(path, mode) : ENOMEM;
    free(path);
    return error;
}

static int write_out(struct trace *trace, const char *directory, size_t dropped) {
    if (!trace_number(trace))
        return input_no_memory();
    mode_t mode = output_file_mode(getenv("COMMTAP_MODE"));
    int error = make_directory(directory, mode);
    if (error && error != EEXIST) {
        complain_of_file(directory, NULL, strerror(error));
        return EXIT_OUTPUT;
    }
    int written = write_dumps(trace, directory, mode);
    if (written < 0) {
        complain_of_file(directory, NULL, strerror(errno));
        return EXIT_OUTPUT;
    }
    printf("%d of %d ranks, %zu operations on %zu communicators, from: %s\n", written, (int)trace->world_size,
           trace->event_count - trace->work_count, trace->communicator_count, trace->format);
    if (dropped > 0)
        printf("left out: %zu events that say too little, or are of an unknown kind\n", dropped);
    fputs("next: commtap report ", stdout);
    escape_text(stdout, directory);
    fputc('\n', stdout);
    return EXIT_FINE;
}

static int make_dumps(struct readers *readers, const struct options *options, const char *directory) {
    size_t index = 0, dropped = 0;
    const struct import_format *format = choose_format(readers, &index);
    struct trace trace = {0};
    if (!format)
        return EXIT_UNUSABLE;
    const char *refused = format->finish(readers->states[index], &trace, &dropped);
    if (refused && readers->limits.exceeded[0])
        refused = readers->limits.exceeded;
    if (!refused && trace.event_count == 0)
        refused = "no communication that could be imported";
    if (!refused)
        refused = trace_time_problem(&trace);
    int code = EXIT_UNUSABLE;
    if (refused)
        complain_of_file(options->argument_count == 1 ? options->arguments[0] : format->name, NULL, refused);
    else
        code = write_out(&trace, directory, dropped);
    trace_free(&trace);
    return code;
}

/* Of what is there: opening tells what is not. */
static uint64_t stored_bytes(const struct options *options) {
    uint64_t sum = 0;
    struct stat status;
    for (size_t i = 0; i < options->argument_count; i++)
        if (stat(options->arguments[i], &status) == 0 && S_ISREG(status.st_mode))
            sum += (uint64_t)status.st_size;
    return sum;
}

static int run(const struct options *options) {
    const char *directory = option_text(options, "output");
    if (!directory) {
        fputs("commtap import: -o DIR is missing: where to write the dumps\n", stderr);
        return EXIT_USAGE;
    }
    struct readers readers = {.limits.stored = stored_bytes(options)};
    int code = EXIT_FINE;
    for (size_t i = 0; i < FORMATS; i++)
        if (!(readers.states[i] = formats[i]->begin(&readers.limits)))
            code = input_no_memory();
    for (size_t i = 0; code == EXIT_FINE && i < options->argument_count; i++)
        code = read_file(&readers, options->arguments[i]);
    if (code == EXIT_FINE)
        code = make_dumps(&readers, options, directory);
    for (size_t i = 0; i < FORMATS; i++)
        if (readers.states[i])
            formats[i]->end(readers.states[i]);
    return code;
}

static const struct option import_options[] = {
    {.name = "output", .letter = 'o', .argument = "DIR", .doc = "directory for the dumps; made where it is missing"},
    OPTION_END};

static const struct example examples[] = {
    {"commtap import rank0.json.gz rank1.json.gz -o DIR", "PyTorch profiler traces, one per rank"},
    {NULL, NULL},
};

const struct command command_import = {
    .name = "import",
    .summary = "traces of other tools as dumps, for every other command",
    .arguments = "FILE...",
    .details =
        "Reads PyTorch profiler traces (one per rank), PyTorch's flight-recorder dumps in JSON (rank in the file's\n"
        "name), and time lines of pipeline-parallel training whose threads are named 'PP rank N, TP rank N, ...';\n"
        "plain, compressed with gzip, or packed with tar. Frames come along: Python functions, modules, operators and\n"
        "annotations around a launch (profile(with_stack=True); a Python frame then has the line on which its "
        "function\n"
        "begins), the frames of flight-recorder entries, and Chrome's stackFrames of time lines. Regular files only, "
        "no pipes. What a few bytes could make "
        "of\n"
        "memory and time is bounded: text of 24 times the files' size and 16 MB, memory of 48 times it and 256 MB,\n"
        "one rank per 2 KB, and single values of 16 MB. More is refused.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = import_options,
    .examples = examples,
    .run = run,
};
