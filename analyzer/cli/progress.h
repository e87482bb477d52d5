/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a command has come, as a line on a terminal; nothing where stderr is none.
 * Lives here: that line.
 * Must not live here: counting what is done.
 */
#ifndef COMMTAP_CLI_PROGRESS_H
#define COMMTAP_CLI_PROGRESS_H

#include <stdbool.h>

struct progress_line {
    const char *doing; /* "reading" */
    bool terminal, shown;
    unsigned percent;
};

struct progress_line progress_begin(const char *doing);
/* Shows how much is done, in 1/1000; `line` is a struct progress_line, as struct match_sink has it. */
void progress_show(void *line, unsigned permille);
/* Takes the line away. */
void progress_end(struct progress_line *line);

#endif
