/* SPDX-License-Identifier: Apache-2.0
 *
 * The analyzer's command line: picks the command and parses its options.
 * Lives here: the table of commands.
 * Must not live here: anything a command does.
 */
#include "analyzer/program.h"

#include <errno.h>
#include <string.h>

#include "analyzer/base/text.h"
#include "analyzer/cli/changes.h"
#include "analyzer/cli/completion.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/man_page.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/processes.h"

/* clang-format off */
static const struct command *const commands[] = {
    &command_run,
    &command_report,
    &command_stragglers,
    &command_html,
    &command_diagnose,
    &command_top,
    &command_ctl,
    &command_steps,
    &command_links,
    &command_summary,
    &command_calls,
    &command_timeline,
    &command_export,
    &command_diff,
    &command_metrics,
    &command_elastic,
    &command_import,
    &command_collect,
    &command_pack,
    &command_list,
    &command_prune,
    &command_check,
    &command_doctor,
    &command_env,
    NULL,
};
/* clang-format on */

static const struct command *find_command(const char *name) {
    for (const struct command *const *command = commands; *command; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

static int complain_unknown_command(const char *name) {
    const char *names[sizeof commands / sizeof *commands] = {NULL};
    size_t count = 0;
    for (; commands[count]; count++)
        names[count] = commands[count]->name;
    const char *near = nearest_name(name, names, count);
    fprintf(stderr, "commtap: unknown command '%s' (%s%s%s)\n", name, near ? "maybe: " : "see commtap --help",
            near ? near : "", near ? "?" : "");
    return EXIT_USAGE;
}

/* Several processes run what they have to share out; some commands are the first one's alone, others nobody's. */
static int run_together(const struct command *command, struct options *options, struct team *team) {
    options->launched = true;
    if (command->company == COMPANY_NONE) {
        fprintf(stderr, "commtap-mpi: %s is for one process: commtap %s\n", command->name, command->name);
        return EXIT_USAGE;
    }
    if (command->company == COMPANY_ALL) {
        options->team = team;
        return changes_run(command, options);
    }
    bool lent = command->company == COMPANY_LENDERS && team_is_shared(team);
    options->lenders = lent ? team : NULL;
    if (team->number == 0)
        return changes_run(command, options);
    int code = lent ? input_lend(team, options->arguments, options->argument_count) : EXIT_FINE;
    team->bystander |= code == EXIT_FINE;
    return code;
}

static int run_command(const struct command *command, int argc, char **argv, struct team *team) {
    struct options options;
    int code = options_parse(&options, command, argc, argv, stderr);
    if (code == EXIT_FINE && options.help)
        options_print_help(stdout, command);
    else if (code == EXIT_FINE)
        code = team ? run_together(command, &options, team) : changes_run(command, &options);
    options_free(&options);
    return code;
}

/* One page, or, where none is named, the names of all. */
static int print_man(const char *page) {
    if (!page) {
        man_print_names(stdout, commands);
    } else if (!man_print_page(stdout, commands, page)) {
        fprintf(stderr, "commtap: no manual page is called '%.64s' (commtap --man names them)\n", page);
        return EXIT_USAGE;
    }
    return EXIT_FINE;
}

/* For bash, where no shell is named. */
static int print_completion(const char *shell) {
    if (completion_print(stdout, commands, shell ? shell : "bash"))
        return EXIT_FINE;
    fprintf(stderr, "commtap: no completion for '%.64s' (bash, zsh, fish)\n", shell);
    return EXIT_USAGE;
}

/* A full disk may show only when the last buffer is written. */
static int flush_output(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (code != EXIT_OUTPUT)
        fprintf(stderr, "commtap: standard output: %s\n", strerror(errno));
    return EXIT_OUTPUT;
}

static void print_version(const struct team *team) {
    if (!team) {
        printf("commtap %s\n", COMMTAP_VERSION);
        return;
    }
    printf("commtap-mpi %s, %u process%s, %s\n", COMMTAP_VERSION, team->processes, team->processes > 1 ? "es" : "",
           team->library);
}

static int do_as_told(int argc, char **argv, struct team *team) {
    if (argc < 2) {
        options_print_commands(stderr, commands);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 && argc > 2) {
        const struct command *about = find_command(argv[2]);
        if (about)
            options_print_help(stdout, about);
        return flush_output(about ? EXIT_FINE : complain_unknown_command(argv[2]));
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        options_print_commands(stdout, commands);
        return flush_output(EXIT_FINE);
    }
    if (strcmp(name, "--version") == 0) {
        print_version(team);
        return flush_output(EXIT_FINE);
    }
    if (strcmp(name, "--completion") == 0)
        return flush_output(print_completion(argv[2]));
    if (strcmp(name, "--man") == 0)
        return flush_output(print_man(argv[2]));
    const struct command *command = find_command(name);
    return command ? flush_output(run_command(command, argc - 2, argv + 2, team)) : complain_unknown_command(name);
}

int program_run(int argc, char **argv, struct team *team) {
    struct processes processes;
    processes_begin(&processes, team);
    return processes_end(&processes, do_as_told(argc, argv, team));
}
