/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a command writes: standard output or a file, in which format, with colours or not.
 * Lives here: opening and closing it. Must not live here: what is written (render/).
 */
#ifndef COMMTAP_CLI_OUTPUT_H
#define COMMTAP_CLI_OUTPUT_H

#include <stdio.h>

#include "analyzer/cli/options.h"

enum format { OUTPUT_TEXT = 0, OUTPUT_JSON, OUTPUT_CSV, OUTPUT_JSONL };

/* Where a command writes. */
struct output {
    FILE *stream;
    const char *path; /* NULL = standard output */
    char *beside;     /* private: what will be called so once it is complete; NULL = it is written in place */
    enum format format;
    bool color;
};

/* A plain file is written under another name beside it and renamed when it is complete, so that a full disk leaves what
 * was there; devices, pipes and symbolic links are written in place.
 * Opens --output (or standard output) and notes --format and --color. Returns EXIT_FINE, EXIT_OUTPUT after one message
 * on stderr, or EXIT_AGAIN where dumps changed while they were read: the command ends with that, having freed all. */
int output_open(struct output *output, const struct options *options);
/* Flushes and closes; a full disk shows here. Returns `code`, or EXIT_OUTPUT after one message on stderr. */
int output_close(struct output *output, int code);

#endif
