/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/man_page.h"

#include <string.h>

#include "analyzer/cli/options.h"
#include "analyzer/render/roff.h"
#include "analyzer/render/table.h"
#include "shim/base/policy_file.h"

/* ---- what no table of a command holds ------------------------------------------------------------------------ */

static const char purpose[] = "what a distributed job's communication costs, and who makes the others wait";
static const char library_purpose[] = "records what an MPI or NCCL job communicates";

static const char overview[] =
    "commtap finds out what a distributed job's communication costs, who makes the others wait, and why a job hangs,\n"
    "on the unmodified job. commtap run preloads a library into its processes, which times each call of MPI and NCCL\n"
    "and writes one dump per process; the other commands read a directory of such dumps. What was recorded survives\n"
    "however the job ends, and can be read while it runs.";

static const char together[] =
    "commtap-mpi.openmpi and commtap-mpi.mpich are commtap as a program of that MPI, with the same commands and "
    "options:\n"
    "mpirun -n 16 commtap-mpi.openmpi report DIR. All processes must see the directory under the same name, on a file\n"
    "system that they share, and its job must be over. The first process writes what commtap alone would write.\n"
    "Dumps that were staged on the hosts of processes are read where they lie: those that not all can open are sent "
    "to\n"
    "the others, which keep them in memory. check, export, timeline, list, env and doctor are run by the first "
    "process\n"
    "alone, the first three with what is staged on the hosts of all; run, top, ctl, import, collect, pack and prune "
    "are\n"
    "refused. Where processes see different dumps, or one fails, that is said and all end with the same exit status.";

static const char library_overview[] =
    "The library is preloaded into the processes of a job, by commtap run or by LD_PRELOAD, which is given to the "
    "ranks\n"
    "and not to their launcher. It times each call of MPI and NCCL, notes who made it, and writes it into one dump "
    "per\n"
    "process. It never ends, blocks or fails the job: where it meets trouble of its own it stops recording and says\n"
    "so. Processes that do not communicate leave nothing behind. The dumps are read by commtap(1).";

/* Looked at by commands that have the option. */
static const struct {
    const char *option, *name, *doc;
} variables[] = {
    {"color", "NO_COLOR", "where it is set and not empty there are no colours, unless --color always asks for them"},
    {"debug-dir", "DEBUGINFOD_URLS", "servers that are asked for debug files; none is where it is not set"},
    {"env", "COMMTAP_LIBRARY", "the library to preload, in place of the libcommtap.so that lies beside commtap"},
    {"env", "COMMTAP_*", "knobs of the library: libcommtap(7)"},
};
enum { VARIABLES = sizeof variables / sizeof *variables };

static const struct {
    const char *name, *doc;
} dump_files[] = {
    {"commtap.RUN.ID.ct", "a dump: what one process recorded. RUN is the name of the run, ID 16 hexadecimal digits"},
    {"commtap.RUN.ID.stub", "where a process staged its dump on its node, until it is collected"},
    {"commtap.RUN.deaths", "when the job ended and which process went first, as commtap run saw it"},
};

static const struct {
    const char *name, *fallback, *doc;
} knobs[] = {
#define KNOB(field, name, type, fallback, doc) {#name, fallback, doc},
#include "shim/knobs.def"
#undef KNOB
};
enum { KNOBS = sizeof knobs / sizeof *knobs };

/* ---- parts of pages ------------------------------------------------------------------------------------------ */

static void begin_page(FILE *stream, const char *name, char section, const char *what) {
    roff_begin(stream, name, section, COMMTAP_VERSION);
    roff_section(stream, "NAME");
    roff_plain(stream, name);
    fputs(" \\- ", stream);
    roff_text(stream, what);
    roff_section(stream, "SYNOPSIS");
}

static void print_item(FILE *stream, const char *name, const char *doc) {
    roff_item(stream);
    roff_bold(stream, name);
    fputc('\n', stream);
    roff_text(stream, doc);
}

static void print_reference(FILE *stream, const char *name, char section, const char *after) {
    roff_bold(stream, name);
    fprintf(stream, "(%c)%s\n", section, after);
}

static void print_command_reference(FILE *stream, const struct command *command, const char *after) {
    char name[64];
    snprintf(name, sizeof name, "commtap-%s", command->name);
    print_reference(stream, name, '1', after);
}

static bool has_option(const struct command *command, const char *name) {
    for (const struct option *row = command->options; row->name; row++)
        if (strcmp(row->name, name) == 0)
            return true;
    return false;
}

static void print_option(FILE *stream, const struct option *row) {
    char doc[OPTION_DOC], letter[] = {'-', row->letter, '\0'}, name[64];
    snprintf(name, sizeof name, "--%s", row->name);
    roff_item(stream);
    if (row->letter) {
        roff_bold(stream, letter);
        fputs(", ", stream);
    }
    roff_bold(stream, name);
    if (row->argument) {
        fputc(' ', stream);
        roff_italic(stream, row->argument);
    }
    fputc('\n', stream);
    option_describe(doc, sizeof doc, row);
    roff_text(stream, doc);
}

static void print_options(FILE *stream, const struct command *command) {
    roff_section(stream, "OPTIONS");
    for (const struct option *row = command->options; row->name; row++)
        print_option(stream, row);
    print_option(stream, &option_help);
}

static void print_columns(FILE *stream, const struct column *columns) {
    roff_section(stream, "COLUMNS");
    roff_text(stream, "By their name in csv and json:");
    for (const struct column *column = columns; column->key; column++)
        if (column->doc)
            print_item(stream, column->key, column->doc);
}

static void print_exit_codes(FILE *stream, const char *instead) {
    roff_section(stream, "EXIT STATUS");
    if (instead)
        roff_text(stream, instead);
    for (int code = 0; !instead && code < EXIT_AGAIN; code++)
        print_item(stream, (char[]){(char)('0' + code), '\0'}, exit_meanings[code]);
}

static void print_dump_files(FILE *stream) {
    for (size_t i = 0; i < sizeof dump_files / sizeof *dump_files; i++)
        print_item(stream, dump_files[i].name, dump_files[i].doc);
}

static void print_schema_file(FILE *stream) {
    print_item(stream, "share/commtap/commtap.schema.json",
               "declares every key of what --format json prints, below where commtap is installed");
}

/* Those that the command looks at, all of them for NULL. */
static void print_variables(FILE *stream, const struct command *command) {
    bool begun = false;
    for (size_t i = 0; i < VARIABLES; i++) {
        if (command && !has_option(command, variables[i].option))
            continue;
        if (!begun)
            roff_section(stream, "ENVIRONMENT");
        begun = true;
        print_item(stream, variables[i].name, variables[i].doc);
    }
}

static void print_example(FILE *stream, const struct example *example) {
    roff_paragraph(stream);
    roff_plain(stream, example->doc);
    fputs(":\n", stream);
    roff_command_line(stream, example->line);
}

static void print_examples(FILE *stream, const struct command *command) {
    if (!command->examples)
        return;
    roff_section(stream, "EXAMPLES");
    for (const struct example *example = command->examples; example->line; example++)
        print_example(stream, example);
}

/* ---- the pages ----------------------------------------------------------------------------------------------- */

static void print_command_page(FILE *stream, const struct command *command) {
    char name[64];
    snprintf(name, sizeof name, "commtap-%s", command->name);
    begin_page(stream, name, '1', command->summary);
    fputs("\\fBcommtap ", stream);
    roff_plain(stream, command->name);
    fputs("\\fR [\\fIoptions\\fR] ", stream);
    roff_plain(stream, command->arguments);
    fputc('\n', stream);
    roff_section(stream, "DESCRIPTION");
    roff_text(stream, command->details ? command->details : command->summary);
    print_options(stream, command);
    if (command->columns)
        print_columns(stream, command->columns);
    print_exit_codes(stream, command->exits);
    roff_section(stream, "FILES");
    if (command->max_arguments > 0)
        print_dump_files(stream);
    if (has_option(command, "format"))
        print_schema_file(stream);
    print_variables(stream, command);
    print_examples(stream, command);
    roff_section(stream, "SEE ALSO");
    print_reference(stream, "commtap", '1', ",");
    print_reference(stream, "libcommtap", '7', "");
}

/* One whose argument may be left out. */
static void print_program_option(FILE *stream, const char *name, const char *argument, const char *doc) {
    roff_item(stream);
    roff_bold(stream, name);
    fprintf(stream, " [\\fI%s\\fR]\n", argument);
    roff_text(stream, doc);
}

static void print_program_options(FILE *stream) {
    roff_section(stream, "OPTIONS");
    print_item(stream, "--help", "show the commands; after a command, its options");
    print_item(stream, "--version", "show the version");
    print_program_option(stream, "--completion", "SHELL",
                         "print a completion script for bash, the default, zsh or fish");
    print_program_option(stream, "--man", "PAGE", "print a manual page, or the names of all pages");
}

static void print_program_page(FILE *stream, const struct command *const *commands) {
    begin_page(stream, "commtap", '1', purpose);
    fputs("\\fBcommtap\\fR \\fICOMMAND\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]\n", stream);
    roff_section(stream, "DESCRIPTION");
    roff_text(stream, overview);
    roff_section(stream, "COMMANDS");
    for (const struct command *const *command = commands; *command; command++) {
        roff_item(stream);
        print_command_reference(stream, *command, "");
        roff_text(stream, (*command)->summary);
    }
    print_program_options(stream);
    roff_section(stream, "SEVERAL PROCESSES");
    roff_text(stream, together);
    print_exit_codes(stream, NULL);
    roff_section(stream, "FILES");
    print_dump_files(stream);
    print_schema_file(stream);
    print_variables(stream, NULL);
    roff_section(stream, "EXAMPLES");
    for (const struct command *const *command = commands; *command; command++)
        if ((*command)->examples)
            print_example(stream, (*command)->examples);
    roff_section(stream, "SEE ALSO");
    for (const struct command *const *command = commands; *command; command++)
        print_command_reference(stream, *command, ",");
    print_reference(stream, "libcommtap", '7', "");
}

static void print_knobs(FILE *stream) {
    roff_section(stream, "ENVIRONMENT");
    for (size_t i = 0; i < KNOBS; i++) {
        print_item(stream, knobs[i].name, knobs[i].doc);
        if (!*knobs[i].fallback)
            continue; /* the text says what is done without it */
        fputs("(default ", stream);
        roff_plain(stream, knobs[i].fallback);
        fputs(")\n", stream);
    }
}

/* What stands in the operator's file is for the page to say that has the knobs. */
static void print_policy_file(FILE *stream) {
    print_item(
        stream, POLICY_FILE,
        "the operator's policy, where COMMTAP_POLICY names no other file: knobs for all jobs of the machine. A line "
        "is NAME=VALUE, which holds where the environment does not set that variable, or the word fixed and "
        "NAME=VALUE, which holds in any case; # begins a comment, and there are no quotes. It is a regular file of "
        "root's or the user's, no link, shorter than 16 KB, and nobody else may write to it; otherwise it is not "
        "used, which is said. A line that is not understood is said and skipped");
}

static void print_library_page(FILE *stream) {
    begin_page(stream, "libcommtap", '7', library_purpose);
    roff_text(stream, "commtap run -o DIR -- COMMAND...");
    fputs(".br\n", stream);
    roff_text(stream, "LD_PRELOAD=libcommtap.so COMMTAP_DIR=DIR COMMAND...");
    roff_section(stream, "DESCRIPTION");
    roff_text(stream, library_overview);
    print_knobs(stream);
    roff_section(stream, "FILES");
    print_policy_file(stream);
    print_dump_files(stream);
    roff_section(stream, "SEE ALSO");
    print_reference(stream, "commtap", '1', ",");
    print_reference(stream, "commtap-run", '1', ",");
    print_reference(stream, "commtap-env", '1', "");
}

static void command_page_name(char *name, size_t size, const struct command *command) {
    snprintf(name, size, "commtap-%s.1", command->name);
}

void man_print_names(FILE *stream, const struct command *const *commands) {
    fputs("commtap.1\n", stream);
    for (; *commands; commands++) {
        char name[64];
        command_page_name(name, sizeof name, *commands);
        fprintf(stream, "%s\n", name);
    }
    fputs("libcommtap.7\n", stream);
}

bool man_print_page(FILE *stream, const struct command *const *commands, const char *name) {
    char own[64];
    if (strcmp(name, "commtap.1") == 0) {
        print_program_page(stream, commands);
        return true;
    }
    if (strcmp(name, "libcommtap.7") == 0) {
        print_library_page(stream);
        return true;
    }
    for (; *commands; commands++) {
        command_page_name(own, sizeof own, *commands);
        if (strcmp(name, own) == 0) {
            print_command_page(stream, *commands);
            return true;
        }
    }
    return false;
}
