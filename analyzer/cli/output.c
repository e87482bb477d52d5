/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cli/changes.h"
#include "analyzer/render/escape.h"

static enum format format_named(const char *name) {
    static const char *const names[] = {"text", "json", "csv", "jsonl"};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum format)i;
    return OUTPUT_TEXT;
}

static int complain(const struct output *output, const char *reason) {
    fputs("commtap: ", stderr);
    escape_text(stderr, output->path ? output->path : "standard output");
    fprintf(stderr, ": %s\n", reason);
    return EXIT_OUTPUT;
}

static int open_file(struct output *output, new_file_is_ours is_ours, bool force) {
    const char *reason = new_file_begin(&output->file, output->path, is_ours, force);
    if (reason)
        return complain(output, reason);
    output->stream = fopen(new_file_name(&output->file), "we");
    if (output->stream)
        return EXIT_FINE;
    int code = complain(output, strerror(errno));
    new_file_end(&output->file);
    return code;
}

static int open_stream(struct output *output, const struct options *options, new_file_is_ours is_ours, bool force) {
    const char *color = option_text(options, "color"), *no_color = getenv("NO_COLOR");
    *output = (struct output){.stream = stdout, .path = option_text(options, "output")};
    if (!output->path) /* what metrics calls it, after the collector that reads it */
        output->path = option_text(options, "textfile");
    if (output->path && strcmp(output->path, "-") == 0) /* standard output, as with other programs; ./- is a file */
        output->path = NULL;
    if (options->team && options->team->number > 0) /* whose standard output leads nowhere: the first process writes */
        output->path = NULL;
    output->format = format_named(option_text(options, "format"));
    const char *top = option_text(options, "top");
    output->top = top ? strtoul(top, NULL, 10) : 0;
    int code = output->path ? open_file(output, is_ours, force) : EXIT_FINE;
    if (code != EXIT_FINE)
        return code;
    if (color && strcmp(color, "auto") != 0)
        output->color = strcmp(color, "always") == 0;
    else if (options->launched) /* launchers put a terminal between themselves and a process, whatever is behind them */
        output->color = false;
    else
        output->color = color && !(no_color && *no_color) && isatty(fileno(output->stream));
    return EXIT_FINE;
}

int output_open(struct output *output, const struct options *options) {
    return changes_check(options->team) == EXIT_FINE ? open_stream(output, options, NULL, true) : EXIT_AGAIN;
}

int output_open_first(struct output *output, const struct options *options, new_file_is_ours is_ours) {
    return open_stream(output, options, is_ours, option_given(options, "force"));
}

/* Why writing failed; the stream remembers only that it did, but what is in the way is met again by one byte more. */
static const char *write_failure(FILE *stream) {
    clearerr(stream);
    return putc('\n', stream) == EOF || fflush(stream) != 0 ? strerror(errno) : "write error";
}

int output_close(struct output *output, int code) {
    const char *reason = ferror(output->stream) ? write_failure(output->stream) : NULL;
    if (fflush(output->stream) != 0)
        reason = strerror(errno);
    if (output->path && fclose(output->stream) != 0 && !reason)
        reason = strerror(errno);
    if (!reason && output->path && code != EXIT_OUTPUT && code != EXIT_AGAIN)
        reason = new_file_place(&output->file);
    new_file_end(&output->file);
    return reason ? complain(output, reason) : code;
}
