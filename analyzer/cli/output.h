/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a command writes: standard output or a file, in which format, with colours or not.
 * Lives here: opening and closing it. Must not live here: what is written (render/).
 */
#ifndef COMMTAP_CLI_OUTPUT_H
#define COMMTAP_CLI_OUTPUT_H

#include <stdio.h>

#include "analyzer/base/new_file.h"
#include "analyzer/cli/options.h"

enum format { OUTPUT_TEXT = 0, OUTPUT_JSON, OUTPUT_CSV, OUTPUT_JSONL };

/* Where a command writes. */
struct output {
    FILE *stream;
    const char *path;     /* NULL = standard output */
    struct new_file file; /* private */
    enum format format;
    bool color;
    size_t top; /* rows that --top asks for; 0: it is not given, or no number, which commands look for before */
};

/* Opens --output (or standard output) and notes --format and --color. A file takes its name when it is complete
 * (base/new_file.h). Returns EXIT_FINE, EXIT_OUTPUT after one message on stderr, or EXIT_AGAIN where dumps changed
 * while they were read: the command ends with that, having freed all. */
int output_open(struct output *output, const struct options *options);
/* The same for a file that a command is about to take long for: what is_ours does not know stays unless --force is
 * given, and whether dumps changed is for the command to ask before it closes. */
int output_open_first(struct output *output, const struct options *options, new_file_is_ours is_ours);
/* Flushes and closes; a full disk shows here. A file gets its name unless `code` is EXIT_OUTPUT or EXIT_AGAIN. Returns
 * `code`, or EXIT_OUTPUT after one message on stderr. */
int output_close(struct output *output, int code);

#endif
