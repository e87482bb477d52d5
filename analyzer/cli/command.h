/* SPDX-License-Identifier: Apache-2.0
 *
 * What a subcommand is: its name, its options, its function. One option table per command is the only place where
 * its options are spelt: parsing, --help, the completion script, the manual page and the usage line are expanded from
 * it. Lives here: struct command, struct option, exit codes, option rows that several commands share. Must not live
 * here: parsing (options.c), the list of commands (main.c), anything a stage below could need.
 *
 * To add a command: write cmd_<name>.c defining `const struct command command_<name>`, declare it below, and add
 * its address to the table in main.c.
 */
#ifndef COMMTAP_CLI_COMMAND_H
#define COMMTAP_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum exit_code {
    EXIT_FINE = 0,
    EXIT_FINDINGS = 1, /* something was found that the caller asked to fail on, or `check` found problems */
    EXIT_USAGE = 2,
    EXIT_UNUSABLE = 3, /* unusable input */
    EXIT_OUTPUT = 4,   /* the result could not be written, or memory is short */
    EXIT_AGAIN = 5,    /* never leaves the program: nothing was printed, the command is to be run again (changes.h) */
};

/* Which of several processes (commtap-mpi) run a command. */
enum company {
    COMPANY_ALL = 0, /* all, and one writes what they come to */
    COMPANY_FIRST,   /* the first one: there is nothing to share out */
    COMPANY_LENDERS, /* the first one, and the others hand out the dumps that are staged on their hosts */
    COMPANY_NONE,    /* it follows or changes a job, or makes, moves or removes dumps: that is for one process alone */
};

enum { ARGUMENTS_MOST = 65536 }; /* where there may be any number */

struct option {
    const char *name;                    /* long name without dashes, NULL ends a table */
    char letter;                         /* one-letter form, 0 = none */
    const char *argument;                /* name of the value in help ("FILE"), NULL = a switch */
    const char *choices;                 /* allowed values "text|json|csv", NULL = any */
    const char *fallback;                /* value when not given, NULL = none */
    const char *doc;                     /* one lowercase phrase */
    bool repeats;                        /* may be given several times; otherwise the last one counts */
    const char *(*listed)(size_t index); /* values that help lists behind `doc`, NULL behind the last; NULL = none */
    /* what completion offers beside those, NULL = nothing: */
    const char *parts;                     /* words that a value holds several of, with commas between: "op|bytes" */
    const char *(*settings)(size_t index); /* names that a value begins with, "=" behind; as `listed` */
};

/* Something to type, and what it is good for. */
struct example {
    const char *line; /* the whole command line, NULL ends a table */
    const char *doc;  /* one lowercase phrase */
};

/* A word that may stand behind the first argument, as an order of ctl does. */
struct command_word {
    const char *word;    /* NULL ends a table */
    int number;          /* the command's own for it */
    const char *doc;     /* one lowercase phrase */
    const char *wants;   /* what stands behind the word, in messages; NULL: nothing */
    const char *choices; /* of these those that have names, "on|off"; NULL = none */
};

struct options;
struct column;

struct command {
    const char *name;
    const char *summary;   /* one line for the list of commands */
    const char *arguments; /* usage of the positional arguments, as "DIR" or "[-- COMMAND...]" */
    const char *details;   /* further help, whole lines; NULL = none */
    const char *exits;     /* what it exits with, whole lines; NULL = as all commands do (exit_meanings) */
    unsigned min_arguments, max_arguments;
    enum company company;
    bool stops_at_argument; /* options end at the first positional argument (run) */
    const struct option *options;
    const struct command_word *words; /* behind the first argument; NULL: more of the same */
    const struct column *columns;     /* of its table, for help; NULL = none */
    const struct example *examples;   /* the first one stands on commtap's own page, too; NULL = none */
    /* Runs it; `options` are parsed and their counts and choices checked. Returns an enum exit_code. */
    int (*run)(const struct options *options);
};

/* Rows for option tables. Text is the default format everywhere. */
/* clang-format off */
#define OPTION_FORMAT(CHOICES) \
    {.name = "format", .argument = "FORMAT", .choices = CHOICES, .fallback = "text", \
     .doc = "form of the output; share/commtap/commtap.schema.json declares every key of json"}
#define OPTION_OUTPUT \
    {.name = "output", .letter = 'o', .argument = "FILE", .doc = "write there instead of standard output (-); FILE.XXXXXX until it is whole, which stays, and is nobody's, where the command is killed"}
#define OPTION_COLOR \
    {.name = "color", .argument = "WHEN", .choices = "auto|always|never", .fallback = "auto", \
     .doc = "colours; auto: on a terminal where NO_COLOR is not set"}
#define OPTION_TOP(DEFAULT) \
    {.name = "top", .argument = "N", .doc = "so many rows; default: " DEFAULT}
#define OPTION_RANK \
    {.name = "rank", .argument = "LIST", .doc = "only these world ranks, as in 0,4-7"}
#define OPTION_COMM \
    {.name = "comm", .argument = "UID|NAME", .doc = "only communicators with this uid or a name matching this glob; comma-separated"}
#define OPTION_OP \
    {.name = "op", .argument = "GLOB", .doc = "only these functions: comma-separated globs, MPI_ and nccl may be left out, a leading ! excludes"}
#define OPTION_SIZES \
    {.name = "sizes", .argument = "LOW-HIGH", .doc = "only messages of so many bytes, both bounds included, as in 4K-1M, 1M- or 8; counted from the calls on record"}
#define OPTION_FROM \
    {.name = "from", .argument = "SECONDS", .doc = "only what begins at this moment of the job or later"}
#define OPTION_TO \
    {.name = "to", .argument = "SECONDS", .doc = "only what begins before this moment of the job"}
#define OPTION_STEP \
    {.name = "step", .argument = "N|N-M", .doc = "only these steps, numbered as commtap steps prints them"}
#define OPTION_MARKER \
    {.name = "marker", .argument = "WHAT", \
     .doc = "what begins a step: pcontrol (levels from 100 up, and NVTX ranges named in COMMTAP_STEP), or pcontrol:LEVEL, or operations, which tell by their order; default: marks where there are any, else operations"}
#define OPTION_ANCHOR \
    {.name = "anchor", .argument = "GLOB", .doc = "a step goes from one call of such a function to the next"}
/* The filters of every command, several rows in one. */
#define OPTIONS_TIME OPTION_FROM, OPTION_TO, OPTION_STEP, OPTION_MARKER, OPTION_ANCHOR
#define OPTIONS_FILTER OPTIONS_TIME, OPTION_RANK, OPTION_COMM, OPTION_OP, OPTION_SIZES
#define OPTION_END {.name = NULL}
/* clang-format on */

extern const struct command command_report, command_stragglers, command_steps, command_diagnose, command_summary,
    command_calls, command_export, command_check, command_env, command_run, command_import, command_diff,
    command_collect, command_links, command_timeline, command_html, command_elastic, command_metrics, command_top,
    command_doctor, command_pack, command_list, command_prune, command_ctl;

#endif
