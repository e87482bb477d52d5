/* SPDX-License-Identifier: Apache-2.0
 *
 * Command line -> values, and help, from a command's option table.
 * Lives here: parsing, usage messages, help.
 * Must not live here: what any option means to a command, completion (completion.c).
 */
#include "analyzer/cli/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/text.h"

const struct option option_help = {.name = "help", .letter = 'h', .doc = "show this"};

const char *const exit_meanings[EXIT_AGAIN] = {[EXIT_FINE] = "fine",
                                               [EXIT_FINDINGS] = "findings (with --fail-on)",
                                               [EXIT_USAGE] = "usage",
                                               [EXIT_UNUSABLE] = "unusable input",
                                               [EXIT_OUTPUT] = "the result could not be written"};

static const struct option *find_long(const struct command *command, const char *name, size_t length) {
    for (const struct option *row = command->options; row->name; row++)
        if (strncmp(row->name, name, length) == 0 && row->name[length] == '\0')
            return row;
    return strncmp(option_help.name, name, length) == 0 && length == 4 ? &option_help : NULL;
}

static const struct option *find_letter(const struct command *command, char letter) {
    for (const struct option *row = command->options; row->name; row++)
        if (row->letter == letter)
            return row;
    return letter == option_help.letter ? &option_help : NULL;
}

static bool is_choice(const char *choices, const char *text) {
    size_t length = strlen(text);
    for (const char *p = choices; length > 0 && *p; p += strcspn(p, "|"), p += *p == '|')
        if (strcspn(p, "|") == length && strncmp(p, text, length) == 0)
            return true;
    return false;
}

static int complain_unknown_option(const struct command *command, const char *name, FILE *errors) {
    const char *names[64] = {option_help.name};
    size_t count = 1;
    for (const struct option *row = command->options; row->name && count < 64; row++)
        names[count++] = row->name;
    const char *near = nearest_name(name, names, count);
    if (near)
        fprintf(errors, "commtap %s: unknown option --%s (maybe: --%s?)\n", command->name, name, near);
    else
        fprintf(errors, "commtap %s: unknown option --%s (see commtap %s --help)\n", command->name, name,
                command->name);
    return EXIT_USAGE;
}

/* Stores one option whose value may be inline (`text`) or the next argument. Moves *i past what it used. */
static int take_option(struct options *options, const struct option *row, const char *text, int argc, char **argv,
                       int *i, FILE *errors) {
    const char *command = options->command->name;
    if (row == &option_help) {
        options->help = true;
        return EXIT_FINE;
    }
    if (!row->argument && text) {
        fprintf(errors, "commtap %s: --%s takes no value\n", command, row->name);
        return EXIT_USAGE;
    }
    if (row->argument && !text) {
        if (*i + 1 >= argc) {
            fprintf(errors, "commtap %s: --%s needs a value (%s)\n", command, row->name, row->argument);
            return EXIT_USAGE;
        }
        text = argv[++*i];
    }
    if (row->choices && !is_choice(row->choices, text)) {
        fprintf(errors, "commtap %s: --%s is one of %s, not '%s'\n", command, row->name, row->choices, text);
        return EXIT_USAGE;
    }
    options->given[options->given_count++] = (struct option_value){row, text ? text : ""};
    return EXIT_FINE;
}

/* One argument that starts with a single dash: letters, the last of which may take a value ("-oFILE", "-o FILE"). */
static int take_letters(struct options *options, int argc, char **argv, int *i, FILE *errors) {
    for (const char *p = argv[*i] + 1; *p; p++) {
        const struct option *row = find_letter(options->command, *p);
        if (!row) {
            fprintf(errors, "commtap %s: unknown option -%c (see commtap %s --help)\n", options->command->name, *p,
                    options->command->name);
            return EXIT_USAGE;
        }
        const char *text = row->argument && p[1] ? p + 1 : NULL;
        int result = take_option(options, row, text, argc, argv, i, errors);
        if (result != EXIT_FINE || row->argument)
            return result;
    }
    return EXIT_FINE;
}

static int take_long(struct options *options, int argc, char **argv, int *i, FILE *errors) {
    const char *name = argv[*i] + 2;
    size_t length = strcspn(name, "=");
    const struct option *row = find_long(options->command, name, length);
    if (!row) {
        char shown[65];
        snprintf(shown, sizeof shown, "%.*s", (int)(length > 64 ? 64 : length), name);
        return complain_unknown_option(options->command, shown, errors);
    }
    return take_option(options, row, name[length] == '=' ? name + length + 1 : NULL, argc, argv, i, errors);
}

static int check_argument_count(const struct options *options, FILE *errors) {
    const struct command *command = options->command;
    if (options->argument_count < command->min_arguments) {
        fprintf(errors, "commtap %s: needs %s (see commtap %s --help)\n", command->name, command->arguments,
                command->name);
        return EXIT_USAGE;
    }
    if (options->argument_count > command->max_arguments) {
        fprintf(errors, "commtap %s: does not expect '%s' (see commtap %s --help)\n", command->name,
                options->arguments[command->max_arguments], command->name);
        return EXIT_USAGE;
    }
    return EXIT_FINE;
}

int options_parse(struct options *options, const struct command *command, int argc, char **argv, FILE *errors) {
    *options = (struct options){.command = command};
    /* a word of letters holds up to its length of switches, so arguments alone do not bound the count */
    size_t capacity = 1;
    for (int i = 0; i < argc; i++)
        capacity += strlen(argv[i]) + 1;
    options->given = calloc(capacity, sizeof *options->given);
    options->arguments = calloc((size_t)argc + 1, sizeof *options->arguments);
    if (!options->given || !options->arguments) {
        fputs("commtap: out of memory\n", errors);
        return EXIT_OUTPUT;
    }
    bool only_arguments = false;
    for (int i = 0; i < argc; i++) {
        int result = EXIT_FINE;
        if (only_arguments || argv[i][0] != '-' || argv[i][1] == '\0') {
            options->arguments[options->argument_count++] = argv[i];
            only_arguments |= command->stops_at_argument;
        } else if (strcmp(argv[i], "--") == 0) {
            only_arguments = true;
        } else if (argv[i][1] == '-') {
            result = take_long(options, argc, argv, &i, errors);
        } else {
            result = take_letters(options, argc, argv, &i, errors);
        }
        if (result != EXIT_FINE)
            return result;
        if (options->help)
            return EXIT_FINE;
    }
    return check_argument_count(options, errors);
}

void options_free(struct options *options) {
    free(options->given);
    free(options->arguments);
    memset(options, 0, sizeof *options);
}

const char *option_text(const struct options *options, const char *name) {
    for (size_t i = options->given_count; i-- > 0;)
        if (strcmp(options->given[i].option->name, name) == 0)
            return options->given[i].text;
    for (const struct option *row = options->command->options; row->name; row++)
        if (strcmp(row->name, name) == 0)
            return row->fallback;
    return NULL;
}

bool option_given(const struct options *options, const char *name) {
    size_t position = 0;
    return option_next(options, name, &position) != NULL;
}

const char *option_next(const struct options *options, const char *name, size_t *position) {
    while (*position < options->given_count) {
        const struct option_value *value = &options->given[(*position)++];
        if (strcmp(value->option->name, name) == 0)
            return value->text;
    }
    return NULL;
}

int options_top(const struct options *options, size_t *most) {
    const char *text = option_text(options, "top");
    char *end;
    *most = text && isdigit((unsigned char)text[0]) ? strtoul(text, &end, 10) : 0;
    if (!text || (*most > 0 && *end == '\0'))
        return EXIT_FINE;
    fprintf(stderr, "commtap %s: --top takes a number from 1 up, not '%.64s'\n", options->command->name, text);
    return EXIT_USAGE;
}

int options_sort(const struct options *options, const struct column *columns, const struct column **column) {
    const char *key = option_text(options, "sort"), *command = options->command->name;
    *column = key ? table_column(columns, key) : NULL;
    if (!key || *column)
        return EXIT_FINE;
    fprintf(stderr, "commtap %s: no column is called '%.64s' (see commtap %s --help)\n", command, key, command);
    return EXIT_USAGE;
}

int options_filter(const struct options *options, struct filter *filter) {
    static const struct {
        const char *name;
        int (*set)(struct filter *, const char *);
        const char *takes;
    } parts[] = {
        {"rank", filter_set_ranks, "world ranks and ranges of them, as in 0,4-7"},
        {"comm", filter_set_comm, "uids and globs of names, separated by commas"},
        {"op", filter_set_op, "globs of functions, separated by commas"},
        {"sizes", filter_set_sizes, "a size or a range of sizes, as in 8, 4K-1M, 1M- or -64"},
        {"from", filter_set_from, "seconds since the start of the job, as in 1.5"},
        {"to", filter_set_to, "seconds since the start of the job, as in 1.5"},
        {"step", filter_set_steps, "a step's number or a range, as in 3-9"},
        {"epoch", filter_set_epochs, "an epoch's number or a range, as in 3-9"},
    };
    const char *command = options->command->name;
    memset(filter, 0, sizeof *filter);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *text = option_text(options, parts[i].name);
        int result = text ? parts[i].set(filter, text) : 0;
        if (result == 0)
            continue;
        if (result == -2)
            fputs("commtap: out of memory\n", stderr);
        else
            fprintf(stderr, "commtap %s: --%s takes %s, not '%.64s'\n", command, parts[i].name, parts[i].takes, text);
        filter_free(filter);
        return result == -2 ? EXIT_OUTPUT : EXIT_USAGE;
    }
    if (!filter->has_from || !filter->has_to || filter->from_ns < filter->to_ns)
        return EXIT_FINE;
    fprintf(stderr, "commtap %s: --from %s is not before --to %s\n", command, option_text(options, "from"),
            option_text(options, "to"));
    filter_free(filter);
    return EXIT_USAGE;
}

/* Prints a phrase wrapped to the text column of help. */
static void print_help_text(FILE *stream, const char *text, int column, int width) {
    int at = column;
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (at > column && at + 1 + word > width) {
            fprintf(stream, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            fputc(' ', stream);
            at++;
        }
        fprintf(stream, "%.*s", word, text);
        at += word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', stream);
}

enum { HELP_COLUMN = 28, HELP_WIDTH = 110 };

/* The left column; what leaves no two blanks before the text stands on a line of its own. */
static void print_left(FILE *stream, const char *text) {
    if ((int)strlen(text) > HELP_COLUMN - 4)
        fprintf(stream, "  %s\n%*s", text, HELP_COLUMN, "");
    else
        fprintf(stream, "  %-*s", HELP_COLUMN - 2, text);
}

void option_describe(char *text, size_t size, const struct option *row) {
    snprintf(text, size, "%s%s%s%s%s%s%s", row->doc, row->choices ? ": " : "", row->choices ? row->choices : "",
             row->fallback ? " (default " : "", row->fallback ? row->fallback : "", row->fallback ? ")" : "",
             row->repeats ? "; may be repeated" : "");
    for (size_t i = 0; row->listed && row->listed(i); i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", i ? ", " : ": ", row->listed(i));
    }
}

static void print_option(FILE *stream, const struct option *row) {
    char left[64], letter[5] = "    ", doc[OPTION_DOC];
    if (row->letter)
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name, row->argument ? " " : "",
             row->argument ? row->argument : "");
    print_left(stream, left);
    option_describe(doc, sizeof doc, row);
    print_help_text(stream, doc, HELP_COLUMN, HELP_WIDTH);
}

static void print_examples(FILE *stream, const struct example *examples) {
    fputs("\nexamples:\n", stream);
    for (; examples->line; examples++)
        fprintf(stream, "  %s\n      %s\n", examples->line, examples->doc);
}

static void print_columns(FILE *stream, const struct column *columns) {
    fputs("\ncolumns, by their name in json and, where there is one, csv:\n", stream);
    for (const struct column *column = columns; column->key; column++) {
        if (column->doc) {
            print_left(stream, column->key);
            print_help_text(stream, column->doc, HELP_COLUMN, HELP_WIDTH);
        } else {
            fprintf(stream, "  %s\n", column->key);
        }
    }
}

void options_print_help(FILE *stream, const struct command *command) {
    fprintf(stream, "usage: commtap %s [options]%s%s\n\n%s.\n\n", command->name, *command->arguments ? " " : "",
            command->arguments, command->summary);
    if (command->details || command->exits)
        fprintf(stream, "%s%s\n", command->details ? command->details : "", command->exits ? command->exits : "");
    fputs("options:\n", stream);
    for (const struct option *row = command->options; row->name; row++)
        print_option(stream, row);
    print_option(stream, &option_help);
    if (command->examples)
        print_examples(stream, command->examples);
    if (command->columns)
        print_columns(stream, command->columns);
}

void options_print_commands(FILE *stream, const struct command *const *commands) {
    fputs("usage: commtap COMMAND [options] [arguments]\n\n"
          "What a distributed job's communication costs, and who makes the others wait.\n\ncommands:\n",
          stream);
    for (; *commands; commands++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", (*commands)->name, (*commands)->arguments);
        print_left(stream, left);
        print_help_text(stream, (*commands)->summary, HELP_COLUMN, HELP_WIDTH);
    }
    fputs("\n  commtap help COMMAND      options of a command; so does commtap COMMAND --help\n"
          "  commtap --version         version\n"
          "  commtap --completion [bash|zsh|fish]\n"
          "                            completion script for a shell: source <(commtap --completion bash)\n"
          "  commtap --man [PAGE]      a manual page, or the names of all pages\n\n"
          "exit codes, where a command's own help says nothing else:\n ",
          stream);
    for (int code = 0; code < EXIT_AGAIN; code++)
        fprintf(stream, "%s %d %s", code ? "," : "", code, exit_meanings[code]);
    fputc('\n', stream);
}
