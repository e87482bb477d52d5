/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines from a few bytes, by the commands' own option tables.
 * Lives here: which command, which of its options with which values.
 * Must not live here: directories, running it.
 */
#ifndef COMMTAP_TEST_FUZZ_LINE_H
#define COMMTAP_TEST_FUZZ_LINE_H

#include <stdint.h>

#include "analyzer/cli/options.h"

enum { LINE_WORDS_MAX = 40, LINE_BYTES = 16 };

struct line {
    const struct command *command;
    char words[LINE_WORDS_MAX][96];
    char *argv[LINE_WORDS_MAX + 1];
    int count;
};

/* A command that reads dumps, with options, written to nowhere: made of LINE_BYTES bytes. Without its directories. */
void line_make(struct line *line, const uint8_t *bytes);
void line_add(struct line *line, const char *word);
/* Runs it, as main does. */
void line_run(struct line *line);

#endif
