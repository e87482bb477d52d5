/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual pages, from the tables of commands, options, columns and knobs.
 * Lives here: which pages there are, their sections, what no table holds.
 * Must not live here: roff (render/roff.h), help on the terminal (options.h).
 */
#ifndef COMMTAP_CLI_MAN_PAGE_H
#define COMMTAP_CLI_MAN_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzer/cli/command.h"

/* Names of all pages as files have them, one per line: "commtap.1", "commtap-report.1", ..., "libcommtap.7". */
void man_print_names(FILE *stream, const struct command *const *commands);

/* Prints the page of that name. Returns false where there is none. */
bool man_print_page(FILE *stream, const struct command *const *commands, const char *name);

#endif
