/* SPDX-License-Identifier: Apache-2.0
 *
 * What every command does first: open the directory of dumps and say on stderr what cannot be used.
 * Lives here: messages about the input, the exit code for input that cannot be used at all.
 * Must not live here: anything about what the dumps hold.
 */
#ifndef COMMTAP_CLI_INPUT_H
#define COMMTAP_CLI_INPUT_H

#include <stdio.h>

#include "analyzer/base/team.h"
#include "analyzer/cli/options.h"
#include "analyzer/dumps/set.h"
#include "analyzer/load/dump.h"

/* Opens `count` directories, which all processes of `team` (NULL: nobody else) must see alike. Names unusable files,
 * dumps with problems (one line each), duplicates and dumps that were not collected on stderr. Returns EXIT_FINE when
 * at least one dump is usable; the caller then closes with dump_set_close. Otherwise EXIT_UNUSABLE or EXIT_OUTPUT
 * (memory), after a message, and nothing is open. */
int input_open(struct team *team, char *const *directories, size_t count, struct dump_set *set);

/* The same of the directories that a command was given, by whoever runs it: with lenders they are read by this process
 * alone, also those of a job that runs still. */
int input_open_arguments(const struct options *options, struct dump_set *set);
/* What lenders do meanwhile: they hand out what is staged on their hosts. Returns EXIT_FINE or, after a message, what
 * the process ends with. */
int input_lend(struct team *team, char *const *directories, size_t count);

/* Says on stderr why dump_set_open did not succeed. Returns the command's exit code. Call it before anything that could
 * change errno. */
int input_refuse(char *const *directories, size_t count, enum dump_set_result result, const struct dump_set *set);

/* One line, after the text `before`, on a dump that was not collected. */
void input_say_stub(FILE *stream, const char *before, const struct dump_stub *stub);

/* Says on stderr that memory is short. Returns EXIT_OUTPUT. */
int input_no_memory(void);

/* Writes the directories that were named, as words of a shell. */
void input_say_places(FILE *stream, const struct dump_set *set);
/* "next: commtap COMMAND DIR..." */
void input_say_next(FILE *stream, const char *command, const struct dump_set *set);

#endif
