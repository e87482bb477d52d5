/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows a command: its options, the values of those that have a list, files for all else; a whole command line
 * behind those that stop at the first argument (run, doctor), and the words that others know behind it (ctl).
 */
#include "analyzer/cli/completion.h"

#include <string.h>

#include "analyzer/cli/options.h"
#include "analyzer/render/table.h"

static void print_choices(FILE *stream, const char *choices) {
    for (; *choices; choices++)
        fputc(*choices == '|' ? ' ' : *choices, stream);
}

/* Of the tables of all commands that have it the columns' keys are its values. */
static bool takes_column(const struct command *command, const struct option *row) {
    return command->columns && strcmp(row->name, "sort") == 0;
}

static bool has_values(const struct command *command, const struct option *row) {
    return row->choices || row->parts || row->listed || row->settings || takes_column(command, row);
}

static void print_values(FILE *stream, const struct command *command, const struct option *row) {
    if (row->choices || row->parts)
        print_choices(stream, row->choices ? row->choices : row->parts);
    else if (row->listed)
        for (size_t i = 0; row->listed(i); i++)
            fprintf(stream, "%s ", row->listed(i));
    else if (row->settings)
        for (size_t i = 0; row->settings(i); i++)
            fprintf(stream, "%s= ", row->settings(i));
    else if (takes_column(command, row))
        for (const struct column *column = command->columns; column->key; column++)
            fprintf(stream, "%s ", column->key);
}

/* A list of completions has room for the first clause of what an option means. */
static int doc_length(const char *doc) {
    return (int)strcspn(doc, ";");
}

/* ---- bash -------------------------------------------------------------------------------------- */

/* Of a list the part behind the last comma is completed, and another may follow. */
static void bash_option(FILE *stream, const struct command *command, const struct option *row) {
    fprintf(stream, "    %s:--%s", command->name, row->name);
    if (row->letter)
        fprintf(stream, "|%s:-%c", command->name, row->letter);
    fputs(") COMPREPLY=($(compgen ", stream);
    if (row->parts)
        fputs("-P \"${word%\"${word##*,}\"}\" ", stream);
    fputs("-W \"", stream);
    print_values(stream, command, row);
    fprintf(stream, "\" -- \"%s\")); %sreturn ;;\n", row->parts ? "${word##*,}" : "$word",
            row->parts || row->settings ? "compopt -o nospace 2>/dev/null; " : "");
}

static void bash_values(FILE *stream, const struct command *const *commands) {
    for (const struct command *const *command = commands; *command; command++)
        for (const struct option *row = (*command)->options; row->name; row++)
            if (has_values(*command, row))
                bash_option(stream, *command, row);
}

static void bash_options(FILE *stream, const struct command *const *commands) {
    for (const struct command *const *command = commands; *command; command++) {
        fprintf(stream, "    %s:-*) COMPREPLY=($(compgen -W \"", (*command)->name);
        for (const struct option *row = (*command)->options; row->name; row++)
            fprintf(stream, "--%s ", row->name);
        fputs("--help\" -- \"$word\")) ;;\n", stream);
    }
}

/* Counts what is no option, nor the value of one, before the word that is completed. "--wait=3" is three words here. */
static void bash_words(FILE *stream, const struct command *command) {
    fprintf(stream,
            "    %s:*)\n"
            "        local i; local -a said=()\n"
            "        for ((i = 2; i < COMP_CWORD; i++)); do\n"
            "            case ${COMP_WORDS[i]} in\n"
            "            ",
            command->name);
    const char *between = "";
    for (const struct option *row = command->options; row->name; row++)
        if (row->argument) {
            fprintf(stream, "%s--%s", between, row->name);
            if (row->letter)
                fprintf(stream, "|-%c", row->letter);
            between = "|";
        }
    fputs(") ((i += 1)); [ \"${COMP_WORDS[i]}\" != = ] || ((i += 1)) ;;\n"
          "            -*) ;;\n"
          "            *) said+=(\"${COMP_WORDS[i]}\") ;;\n"
          "            esac\n"
          "        done\n"
          "        case ${#said[@]}:${said[1]} in\n"
          "        0:*) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
          "        1:*) COMPREPLY=($(compgen -W \"",
          stream);
    for (const struct command_word *row = command->words; row->word; row++)
        fprintf(stream, "%s ", row->word);
    fputs("\" -- \"$word\")) ;;\n", stream);
    for (const struct command_word *row = command->words; row->word; row++)
        if (row->choices) {
            fprintf(stream, "        2:%s) COMPREPLY=($(compgen -W \"", row->word);
            print_choices(stream, row->choices);
            fputs("\" -- \"$word\")) ;;\n", stream);
        }
    fputs("        esac ;;\n", stream);
}

static void print_bash(FILE *stream, const struct command *const *commands) {
    fputs("_commtap() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    if [ \"$word\" = = ]; then\n"
          "        word=\n"
          "    elif [ \"$before\" = = ]; then\n"
          "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"",
          stream);
    for (const struct command *const *command = commands; *command; command++)
        fprintf(stream, "%s ", (*command)->name);
    fputs("--help --version\" -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]}:$before in\n", stream);
    bash_values(stream, commands);
    fputs("    esac\n    case ${COMP_WORDS[1]}:$word in\n", stream);
    bash_options(stream, commands);
    for (const struct command *const *command = commands; *command; command++)
        if ((*command)->words)
            bash_words(stream, *command);
    fputs("    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}\ncomplete -o filenames -F _commtap commtap\n",
          stream);
}

/* ---- zsh --------------------------------------------------------------------------------------- */

/* Part of a specification of _arguments or _describe, within single quotes. */
static void zsh_text(FILE *stream, const char *text, int length) {
    for (int i = 0; i < length; i++) {
        if (strchr("[]:\\", text[i]))
            fputc('\\', stream);
        fputs(text[i] == '\'' ? "'\\''" : (char[]){text[i], '\0'}, stream);
    }
}

static void zsh_values(FILE *stream, const struct command *command, const struct option *row) {
    fputs(row->parts                 ? ":_sequence compadd - "
          : row->settings            ? ":{ compadd -S \"\" -- "
          : has_values(command, row) ? ":("
                                     : ":_files",
          stream);
    print_values(stream, command, row);
    fputs(row->parts ? "" : row->settings ? "}" : has_values(command, row) ? ")" : "", stream);
}

/* --output and -o are one option: with one of them given the other is not offered. */
static void zsh_option(FILE *stream, const struct command *command, const struct option *row) {
    const char *takes = row->argument ? "=" : "";
    fputs("            ", stream);
    if (row->repeats)
        fputs("'*'", stream);
    else if (row->letter)
        fprintf(stream, "'(-%c --%s)'", row->letter, row->name);
    if (row->letter)
        fprintf(stream, "{-%c%s,--%s%s}", row->letter, row->argument ? "+" : "", row->name, takes);
    else
        fprintf(stream, "--%s%s", row->name, takes);
    fputs("'[", stream);
    zsh_text(stream, row->doc, doc_length(row->doc));
    fputc(']', stream);
    if (row->argument) {
        fputc(':', stream);
        zsh_text(stream, row->argument, (int)strlen(row->argument));
        zsh_values(stream, command, row);
    }
    fputs("' \\\n", stream);
}

/* _arguments keeps what stands before the cursor, options left out, in `line`. */
static void zsh_words(FILE *stream, const struct command *command) {
    fputs("            '1: :_files' \\\n            '2: :((", stream);
    for (const struct command_word *row = command->words; row->word; row++) {
        fprintf(stream, "%s\\:\"", row->word);
        zsh_text(stream, row->doc, (int)strlen(row->doc));
        fputs("\" ", stream);
    }
    fputs("))' \\\n            '3: :{ case ${line[2]} in", stream);
    for (const struct command_word *row = command->words; row->word; row++)
        if (row->choices) {
            fprintf(stream, " %s) compadd -- ", row->word);
            print_choices(stream, row->choices);
            fputs(" ;;", stream);
        }
    fputs(" esac }' ;;\n", stream);
}

static void zsh_command(FILE *stream, const struct command *command) {
    fprintf(stream, "    %s)\n        _arguments -s -S %s\\\n", command->name,
            command->stops_at_argument ? "-A '-*' " : "");
    for (const struct option *row = command->options; row->name; row++)
        zsh_option(stream, command, row);
    zsh_option(stream, command, &option_help);
    if (command->stops_at_argument)
        fputs("            '(-)1: :_command_names -e' '*:: :_normal' ;;\n", stream);
    else if (command->words)
        zsh_words(stream, command);
    else
        fputs(command->max_arguments > 0 ? "            '*: :_files' ;;\n" : "            && return ;;\n", stream);
}

/* The file is the function that it defines where zsh loads it by name, and defines it where it is sourced. A list
 * called `commands` would hide zsh's own. */
static void print_zsh(FILE *stream, const struct command *const *commands) {
    fputs("#compdef commtap\n"
          "_commtap() {\n"
          "    local -a subcommands\n"
          "    if (( CURRENT == 2 )); then\n"
          "        subcommands=(\n",
          stream);
    for (const struct command *const *command = commands; *command; command++) {
        fprintf(stream, "            '%s:", (*command)->name);
        zsh_text(stream, (*command)->summary, doc_length((*command)->summary));
        fputs("'\n", stream);
    }
    fputs("            '--help:show the commands'\n"
          "            '--version:show the version'\n"
          "        )\n"
          "        _describe -t commands 'command' subcommands\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case ${words[1]} in\n",
          stream);
    for (const struct command *const *command = commands; *command; command++)
        zsh_command(stream, *command);
    fputs("    *) _files ;;\n"
          "    esac\n"
          "}\n"
          "if [ \"${funcstack[1]}\" = _commtap ]; then\n"
          "    _commtap \"$@\"\n"
          "else\n"
          "    compdef _commtap commtap\n"
          "fi\n",
          stream);
}

/* ---- fish -------------------------------------------------------------------------------------- */

/* Within single quotes. */
static void fish_text(FILE *stream, const char *text, int length) {
    for (int i = 0; i < length; i++) {
        if (strchr("'\\", text[i]))
            fputc('\\', stream);
        fputc(text[i], stream);
    }
}

static void fish_option(FILE *stream, const struct command *command, const struct option *row) {
    fprintf(stream, "complete -c commtap -n '__commtap_is %s' -l %s", command->name, row->name);
    if (row->letter)
        fprintf(stream, " -s %c", row->letter);
    if (has_values(command, row)) {
        fputs(row->parts ? " -x -a '(__fish_append , " : " -x -a '", stream);
        print_values(stream, command, row);
        fputs(row->parts ? ")'" : "'", stream);
    } else if (row->argument) {
        fputs(" -r", stream);
    }
    fputs(" -d '", stream);
    fish_text(stream, row->doc, doc_length(row->doc));
    fputs("'\n", stream);
}

static void fish_options_with_values(FILE *stream, const struct command *command) {
    for (const struct option *row = command->options; row->name; row++)
        if (row->argument) {
            fprintf(stream, " --%s", row->name);
            if (row->letter)
                fprintf(stream, " -%c", row->letter);
        }
}

/* A command line of its own begins behind our options and what they take. */
static void fish_command_line(FILE *stream, const struct command *command) {
    fprintf(stream, "complete -c commtap -n '__commtap_is %s' -x -a '(__fish_complete_subcommand --fcs-skip=2",
            command->name);
    fish_options_with_values(stream, command);
    fputs(")'\n", stream);
}

/* Of completions that hold behind so many arguments, the last of which is `word` where one is named. */
static void fish_behind(FILE *stream, const struct command *command, int count, const char *word) {
    fprintf(stream, "complete -c commtap -n '__commtap_behind %s %d \"%s\"", command->name, count, word);
    fish_options_with_values(stream, command);
    fputs("' -f", stream);
}

static void fish_words(FILE *stream, const struct command *command) {
    for (const struct command_word *row = command->words; row->word; row++) {
        fish_behind(stream, command, 1, "");
        fprintf(stream, " -a %s -d '", row->word);
        fish_text(stream, row->doc, (int)strlen(row->doc));
        fputs("'\n", stream);
        fish_behind(stream, command, 2, row->word);
        fputs(" -a '", stream);
        print_choices(stream, row->choices ? row->choices : "");
        fputs("'\n", stream);
    }
}

static void print_fish(FILE *stream, const struct command *const *commands) {
    fputs("function __commtap_is\n"
          "    set -l words (commandline -opc)\n"
          "    test \"$words[2]\" = \"$argv[1]\"\n"
          "end\n"
          "function __commtap_behind\n" /* COMMAND COUNT WORD, then the options that take a value */
          "    __commtap_is $argv[1]; or return 1\n"
          "    set -l said\n"
          "    set -l before\n"
          "    for word in (commandline -opc)\n"
          "        if not contains -- \"$before\" $argv[4..-1]; and not string match -q -- \"-*\" $word\n"
          "            set -a said $word\n"
          "        end\n"
          "        set before $word\n"
          "    end\n"
          "    test (count $said) -eq (math $argv[2] + 2); or return 1\n"
          "    test -z \"$argv[3]\"; or test \"$argv[3]\" = \"$said[-1]\"\n"
          "end\n"
          "complete -c commtap -n '__commtap_is \"\"' -f -l help -d 'show the commands'\n"
          "complete -c commtap -n '__commtap_is \"\"' -f -l version -d 'show the version'\n",
          stream);
    for (const struct command *const *command = commands; *command; command++) {
        fprintf(stream, "complete -c commtap -n '__commtap_is \"\"' -f -a %s -d '", (*command)->name);
        fish_text(stream, (*command)->summary, doc_length((*command)->summary));
        fputs("'\n", stream);
        for (const struct option *row = (*command)->options; row->name; row++)
            fish_option(stream, *command, row);
        fish_option(stream, *command, &option_help);
        if ((*command)->stops_at_argument)
            fish_command_line(stream, *command);
        if ((*command)->words)
            fish_words(stream, *command);
    }
}

bool completion_print(FILE *stream, const struct command *const *commands, const char *shell) {
    static const struct {
        const char *name;
        void (*print)(FILE *, const struct command *const *);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print(stream, commands);
            return true;
        }
    return false;
}
