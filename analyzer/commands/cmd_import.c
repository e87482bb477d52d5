/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap import: traces of other tools as a directory of dumps.
 * Lives here: the command's options, reading the files, telling the formats apart, messages.
 * Must not live here: formats (import/), analyses: those run on the dumps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/formats.h"
#include "analyzer/import/inputs.h"
#include "analyzer/import/json_walk.h"
#include "analyzer/import/pickle.h"
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
    uint64_t fingerprint;      /* of those, in whatever order */
    size_t unreadable;
    bool spoiled[FORMATS]; /* by a part of a document that cannot be read */
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

static bool walk(struct readers *readers, struct import_source *source, struct json_error *error) {
    return source_peek(source) == PICKLE_FIRST_BYTE ? pickle_walk(source, &readers->limits, take_piece, readers, error)
                                                    : json_walk(source, take_piece, readers, error);
}

/* What one rank's document lacks need not be the loss of the others'. */
static void forget_document(struct readers *readers, const char *name) {
    readers->unreadable++;
    for (size_t i = 0; i < FORMATS; i++) {
        if (formats[i]->forget)
            formats[i]->forget(readers->states[i], name);
        else
            readers->spoiled[i] = true;
    }
}

/* False: nothing more can be read of the file. */
static bool read_document(struct readers *readers, struct import_source *source, const char *file) {
    struct json_error error;
    uint64_t text_before = readers->limits.text, kept_before = readers->limits.kept;
    const char *name = source_document(source);
    if (!walk(readers, source, &error)) {
        char text[256];
        const char *exceeded = readers->limits.exceeded;
        snprintf(text, sizeof text, "at byte %llu: %s", (unsigned long long)error.offset,
                 exceeded[0] ? exceeded : error.text);
        complain_of_file(file, name, text);
        forget_document(readers, name);
        if (!exceeded[0])
            return true;
        limits_give_up(&readers->limits, text_before, kept_before);
        return false;
    }
    bool known = false;
    const char *lacks = NULL;
    for (size_t i = 0; i < FORMATS; i++)
        if (formats[i]->document(readers->states[i], name, source_written_ns(source), &lacks)) {
            readers->documents[i]++;
            known = true;
        }
    readers->fingerprint += source_fingerprint(source);
    if (known)
        return !readers->limits.exceeded[0];
    char text[256];
    snprintf(text, sizeof text, "nothing in it that can be imported: %s",
             lacks ? lacks
                   : "neither a trace of the PyTorch profiler, nor a flight recorder, nor a time line of "
                     "pipeline-parallel training");
    complain_of_file(file, name, text);
    forget_document(readers, name);
    return !readers->limits.exceeded[0];
}

static void read_file(struct readers *readers, const char *file) {
    struct import_source *source = source_open(file, &readers->limits);
    if (!source) {
        complain_of_file(file, NULL, regular_file_error(errno));
        forget_document(readers, file);
        return;
    }
    int next;
    while ((next = source_next(source)) > 0) {
        size_t unreadable = readers->unreadable;
        bool goes_on = read_document(readers, source, file);
        if (!goes_on || (readers->unreadable > unreadable && source_error(source))) /* that was said */
            break;
    }
    if (next < 0) {
        complain_of_file(file, source_document(source), source_error(source));
        forget_document(readers, source_document(source));
    }
    source_close(source);
}

/* The one format that all documents are of, or NULL after a message. What cannot be read was complained of. */
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
    if (!chosen && readers->unreadable == 0)
        fputs("commtap import: no trace in these files\n", stderr);
    return chosen && !readers->spoiled[*index] && !readers->limits.exceeded[0] ? chosen : NULL;
}

static int make_directory(const char *directory, mode_t mode) {
    char *path = strdup(directory);
    int error = path ? output_make_directories(path, mode) : ENOMEM;
    free(path);
    return error;
}

static int write_out(struct trace *trace, const char *directory, size_t dropped, size_t unreadable) {
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
    if (dropped > 0 && trace->left_out[0])
        printf("left out: %zu events that say too little: %s\n", dropped, trace->left_out);
    else if (dropped > 0)
        printf("left out: %zu events that say too little, or are of an unknown kind\n", dropped);
    if (unreadable > 0)
        printf("left out: %zu documents that cannot be read\n", unreadable);
    if (trace->note[0]) {
        fputs("note: ", stdout);
        escape_text(stdout, trace->note);
        fputc('\n', stdout);
    }
    fputs("next: commtap report ", stdout);
    escape_shell(stdout, directory);
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
    trace.fingerprint = readers->fingerprint;
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
        code = write_out(&trace, directory, dropped, readers->unreadable);
    trace_free(&trace);
    return code;
}

/* A directory without files is said, and takes nothing from the others. */
static int list_inputs(struct import_inputs *inputs, const struct options *options) {
    for (size_t i = 0; i < options->argument_count; i++) {
        size_t before = inputs->count;
        if (!import_inputs_add(inputs, options->arguments[i])) {
            complain_of_file(options->arguments[i], NULL, strerror(errno));
            return EXIT_UNUSABLE;
        }
        if (inputs->count == before)
            complain_of_file(options->arguments[i], NULL, "a directory without a file that could be a trace");
    }
    return inputs->count > 0 ? EXIT_FINE : EXIT_UNUSABLE;
}

static int run(const struct options *options) {
    const char *directory = option_text(options, "output");
    if (!directory) {
        fputs("commtap import: -o DIR is missing: where to write the dumps\n", stderr);
        return EXIT_USAGE;
    }
    struct import_inputs inputs = {0};
    int code = list_inputs(&inputs, options);
    struct readers readers = {.limits.stored = inputs.stored};
    for (size_t i = 0; code == EXIT_FINE && i < FORMATS; i++)
        if (!(readers.states[i] = formats[i]->begin(&readers.limits)))
            code = input_no_memory();
    for (size_t i = 0; code == EXIT_FINE && !readers.limits.exceeded[0] && i < inputs.count; i++)
        read_file(&readers, inputs.paths[i]);
    if (code == EXIT_FINE)
        code = make_dumps(&readers, options, directory);
    for (size_t i = 0; i < FORMATS; i++)
        if (readers.states[i])
            formats[i]->end(readers.states[i]);
    import_inputs_free(&inputs);
    return code;
}

static const struct option import_options[] = {
    {.name = "output", .letter = 'o', .argument = "DIR", .doc = "directory for the dumps; made where it is missing"},
    OPTION_END};

static const struct example examples[] = {
    {"commtap import rank0.json.gz rank1.json.gz -o DIR", "PyTorch profiler traces, one per rank"},
    {"commtap import log/resnet18 -o DIR", "all traces of a directory, as tensorboard_trace_handler writes it"},
    {NULL, NULL},
};

const struct command command_import = {
    .name = "import",
    .company = COMPANY_NONE,
    .summary = "traces of other tools as dumps, for every other command",
    .arguments = "FILE|DIR...",
    .details =
        "Reads PyTorch profiler traces (of each rank one, or one per cycle of the profiler's schedule, which are its\n"
        "stretches in order; also of a process that communicates with nobody), PyTorch's\n"
        "flight-recorder dumps (pickles, of which nothing is run, or JSON; the rank at the end of the file's name, "
        "before\n"
        "endings of any kind, or in a key \"rank\"; where one cannot be read the others are imported), and time lines\n"
        "of pipeline-parallel training whose threads are named 'PP rank N, TP rank N, ...'; plain, compressed with "
        "gzip,\n"
        "or packed with tar before or after that. A directory stands for the regular files in\n"
        "it. Frames come along: Python functions, modules, operators and annotations around a launch\n"
        "(profile(with_stack=True); a Python frame then has the line on which its function begins, or where only the\n"
        "operators' argument \"Call stack\" tells it the line that was executed), the frames of\n"
        "flight-recorder entries, and Chrome's stackFrames of time lines. Ranks of one host are told by the names "
        "that\n"
        "tensorboard_trace_handler gives to files, else by their GPUs. Regular files only, no pipes. What a few "
        "bytes\n"
        "could make of memory and time is bounded: text of 24 times the files' size and 16 MB, memory of 48 times it "
        "and\n"
        "256 MB, one rank per 2 KB, and single values of 16 MB. A file of more is left out.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = import_options,
    .examples = examples,
    .run = run,
};
