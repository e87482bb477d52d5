/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cli/changes.h"

static enum format format_named(const char *name) {
    static const char *const names[] = {"text", "json", "csv", "jsonl"};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum format)i;
    return OUTPUT_TEXT;
}

int output_open(struct output *output, const struct options *options) {
    const char *color = option_text(options, "color"), *no_color = getenv("NO_COLOR");
    if (changes_check() != EXIT_FINE)
        return EXIT_AGAIN;
    *output = (struct output){.stream = stdout, .path = option_text(options, "output")};
    output->format = format_named(option_text(options, "format"));
    if (output->path && !(output->stream = fopen(output->path, "w"))) {
        fprintf(stderr, "commtap: %s: %s\n", output->path, strerror(errno));
        return EXIT_OUTPUT;
    }
    if (color && strcmp(color, "auto") != 0)
        output->color = strcmp(color, "always") == 0;
    else
        output->color = color && !(no_color && *no_color) && isatty(fileno(output->stream));
    return EXIT_FINE;
}

int output_close(struct output *output, int code) {
    int failed = ferror(output->stream), error = 0;
    if (fflush(output->stream) != 0) {
        failed = 1;
        error = errno;
    }
    if (output->path && fclose(output->stream) != 0 && !failed) {
        failed = 1;
        error = errno;
    }
    if (!failed)
        return code;
    fprintf(stderr, "commtap: %s: %s\n", output->path ? output->path : "standard output",
            error ? strerror(error) : "write error");
    return EXIT_OUTPUT;
}
