/* SPDX-License-Identifier: Apache-2.0
 *
 * Command line -> values, by a command's option table; help from the same table.
 * Lives here: parsing, usage messages, help texts.
 * Must not live here: what any option means to a command, completion (completion.h), opening files (output.h).
 */
#ifndef COMMTAP_CLI_OPTIONS_H
#define COMMTAP_CLI_OPTIONS_H

#include <stdio.h>

#include "analyzer/base/team.h"
#include "analyzer/cli/command.h"
#include "analyzer/load/filter.h"
#include "analyzer/render/table.h"

struct option_value {
    const struct option *option;
    const char *text; /* "" for switches */
};

struct options {
    const struct command *command;
    struct option_value *given; /* in the order of the command line */
    size_t given_count;
    char **arguments; /* positional; points into argv, NULL-terminated */
    size_t argument_count;
    bool help;            /* --help was given: nothing else was checked */
    struct team *team;    /* who runs the command together with this process; NULL: nobody */
    bool launched;        /* by an MPI, as one of several processes or alone */
    struct team *lenders; /* who only hand out dumps to this process, which runs it alone; NULL: nobody */
};

/* Parses argv[0..argc-1] (without program and command name), reordering nothing. Returns EXIT_FINE or, after one
 * message on `errors`, EXIT_USAGE (EXIT_OUTPUT when memory is short). The caller frees with options_free in every
 * case. argv must outlive the result. */
int options_parse(struct options *options, const struct command *command, int argc, char **argv, FILE *errors);
void options_free(struct options *options);

/* Value of an option: the last one given, else its fallback, else NULL. "" for a switch that was given. */
const char *option_text(const struct options *options, const char *name);
/* True when the option was on the command line. */
bool option_given(const struct options *options, const char *name);
/* Walks the values of an option that repeats: *position starts at 0. Returns NULL at the end. */
const char *option_next(const struct options *options, const char *name, size_t *position);

/* Builds the filter from --rank, --comm, --op, --from, --to and --step. Returns EXIT_FINE, or EXIT_USAGE (EXIT_OUTPUT
 * when memory is short) after one message on stderr. The caller frees with filter_free. */
int options_filter(const struct options *options, struct filter *filter);

/* Rows that --top asks for; without it, 0. Returns EXIT_FINE, or EXIT_USAGE after one message on stderr. */
int options_top(const struct options *options, size_t *most);

/* The column of `columns` that --sort names; without it, NULL. Returns as options_top. */
int options_sort(const struct options *options, const struct column *columns, const struct column **column);

extern const struct option option_help; /* which all commands have */
/* By exit code, below EXIT_AGAIN: what it says, in all commands that do not say otherwise. */
extern const char *const exit_meanings[EXIT_AGAIN];

enum { OPTION_DOC = 2048 };
/* An option's meaning with its choices and default, cut to `size`. */
void option_describe(char *text, size_t size, const struct option *row);

/* Prints `commtap CMD --help`, and the list of commands. */
void options_print_help(FILE *stream, const struct command *command);
void options_print_commands(FILE *stream, const struct command *const *commands);

#endif
