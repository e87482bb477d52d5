/* SPDX-License-Identifier: Apache-2.0
 *
 * Scripts by which shells complete commtap's command line, from the option tables of its commands.
 * Lives here: one writer per shell.
 * Must not live here: parsing and help (options.h), where scripts are installed (Makefile).
 */
#ifndef COMMTAP_CLI_COMPLETION_H
#define COMMTAP_CLI_COMPLETION_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzer/cli/command.h"

/* Prints the script for "bash", "zsh" or "fish". False, and nothing is printed, for any other name. */
bool completion_print(FILE *stream, const struct command *const *commands, const char *shell);

#endif
