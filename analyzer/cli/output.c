/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/cli/changes.h"

static enum format format_named(const char *name) {
    static const char *const names[] = {"text", "json", "csv", "jsonl"};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum format)i;
    return OUTPUT_TEXT;
}

/* As open with O_CREAT gives it, or as the file that was there has it. */
static void give_mode(int file, const struct stat *before) {
    mode_t hidden = umask(0);
    umask(hidden);
    if (fchmod(file, before ? before->st_mode & 07777 : 0666 & ~hidden) != 0)
        return; /* readable for its owner alone */
}

/* NULL: it cannot be written beside, and is written in place. */
static FILE *open_beside(struct output *output) {
    struct stat before;
    bool exists = lstat(output->path, &before) == 0;
    if ((exists && !S_ISREG(before.st_mode)) || asprintf(&output->beside, "%s.XXXXXX", output->path) < 0) {
        output->beside = NULL;
        return NULL;
    }
    int file = exists && access(output->path, W_OK) != 0 ? -1 : mkstemp(output->beside);
    FILE *stream = file < 0 ? NULL : fdopen(file, "w");
    if (stream) {
        give_mode(file, exists ? &before : NULL);
        return stream;
    }
    if (file >= 0) {
        close(file);
        unlink(output->beside);
    }
    free(output->beside);
    output->beside = NULL;
    return NULL;
}

int output_open(struct output *output, const struct options *options) {
    const char *color = option_text(options, "color"), *no_color = getenv("NO_COLOR");
    if (changes_check() != EXIT_FINE)
        return EXIT_AGAIN;
    *output = (struct output){.stream = stdout, .path = option_text(options, "output")};
    output->format = format_named(option_text(options, "format"));
    if (output->path && !(output->stream = open_beside(output)) && !(output->stream = fopen(output->path, "w"))) {
        fprintf(stderr, "commtap: %s: %s\n", output->path, strerror(errno));
        return EXIT_OUTPUT;
    }
    if (color && strcmp(color, "auto") != 0)
        output->color = strcmp(color, "always") == 0;
    else
        output->color = color && !(no_color && *no_color) && isatty(fileno(output->stream));
    return EXIT_FINE;
}

/* Gives what was written beside its name, or removes it. Returns an errno, or 0. */
static int settle(struct output *output, bool complete) {
    int error = 0;
    if (output->beside && complete && rename(output->beside, output->path) != 0)
        error = errno;
    if (output->beside && (!complete || error))
        unlink(output->beside);
    free(output->beside);
    output->beside = NULL;
    return error;
}

int output_close(struct output *output, int code) {
    bool failed = ferror(output->stream);
    int error = 0;
    if (fflush(output->stream) != 0) {
        failed = true;
        error = errno;
    }
    if (output->path && fclose(output->stream) != 0 && !failed) {
        failed = true;
        error = errno;
    }
    int renamed = settle(output, !failed && code != EXIT_OUTPUT);
    if (!failed && !renamed)
        return code;
    error = renamed ? renamed : error;
    fprintf(stderr, "commtap: %s: %s\n", output->path ? output->path : "standard output",
            error ? strerror(error) : "write error");
    return EXIT_OUTPUT;
}
