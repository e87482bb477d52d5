/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/line.h"

#include <stdlib.h>
#include <string.h>

static const struct command *const commands[] = {
    &command_report, &command_summary, &command_stragglers, &command_steps, &command_calls,    &command_diagnose,
    &command_export, &command_check,   &command_diff,       &command_links, &command_timeline,
};
/* Kept inputs begin with none of the last bytes: those mean the commands that were added later. */
static const struct command *const later_commands[] = {&command_html, &command_top};
enum { FIRST_LATER = 240 };

/* Values that mean something, per option; "" ends a list. Options with choices bring their own. */
static const struct {
    const char *option;
    const char *values[12];
} values[] = {
    {"from", {"0", "0.0001", "0.000001", "-1", "1e18", "0.5", "nan", "1e-300"}},
    {"to", {"1", "0.0001", "0.001", "0", "1e300", "-5", "inf", "0.000002"}},
    {"step", {"0", "0-3", "1-1", "2-4294967295", "3-1", "99999999999", "1-"}},
    {"rank", {"0", "1,2", "0-7", "5", "0-2147483647", "-1", "7-3", "1,1,1"}},
    {"comm", {"*", "MPI*", "1111111111111111", "?", "[a-", "x,y,*", ""}},
    {"op", {"*", "!wait*", "all*,bcast", "nccl*", "send,recv,isend", "!*", "", "?,!?"}},
    {"marker", {"pcontrol", "pcontrol:100", "pcontrol:2147483647", "pcontrol:", "x"}},
    {"anchor", {"*reduce", "*", "MPI_Barrier", "[", "ncclAllReduce"}},
    {"by", {"op", "op,bytes,comm", "rank", "op,rank,bytes", "op,site", "site,comm,rank", "bytes", ",", "step"}},
    {"top", {"1", "3", "0", "99999999999999999999"}},
    {"sort", {"count", "rank", "wait_seconds", "time_max_us", "bytes", "nothing", "step", "comm_seconds"}},
    {"threads", {"1", "1", "1", "3", "0"}},
    {"fail-on", {"info", "warning", "error", "hang", "deadlock", "stragglers", "ok"}},
    {"wait", {"1", "2", "3600"}},
    {"interval", {"0.1", "2", "3600", "nan", "0"}},
    {"limits", {"interval=1", "communication=0,receive=0,collective=0", "link=0", "link=100", "x=1", "interval=-3"}},
    {"threshold", {"5", "0", "100", "1e9", "-1", "nan"}},
    {"run", {"testrun", "none", ""}},
    {"skip-frames", {"module:*", "function:*", "file:*.py", "/nowhere", "function:[", "module:lib*"}},
    {"limit", {"1", "511", "0", "x"}},
    {"debug-dir", {"/nowhere"}},
    {"color", {"always", "never"}},
};

/* The `number`-th of the values separated by | or listed above. */
static void value_of(const struct option *row, unsigned number, char *text, size_t size) {
    text[0] = '\0';
    if (row->choices) {
        unsigned count = 1;
        for (const char *c = row->choices; *c; c++)
            count += *c == '|';
        const char *choice = row->choices;
        for (number %= count; number > 0; number--)
            choice = strchr(choice, '|') + 1;
        snprintf(text, size, "%.*s", (int)strcspn(choice, "|"), choice);
        return;
    }
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        unsigned count = 0;
        if (strcmp(values[i].option, row->name) != 0)
            continue;
        while (count < 12 && values[i].values[count])
            count++;
        snprintf(text, size, "%s", values[i].values[number % count]);
    }
}

void line_add(struct line *line, const char *word) {
    if (line->count == LINE_WORDS_MAX)
        abort();
    snprintf(line->words[line->count], sizeof line->words[0], "%s", word);
    line->argv[line->count] = line->words[line->count];
    line->argv[++line->count] = NULL;
}

static void add_option(struct line *line, const struct option *row, unsigned number) {
    char word[64], value[64];
    snprintf(word, sizeof word, "--%s", row->name);
    line_add(line, word);
    if (!row->argument)
        return;
    value_of(row, number, value, sizeof value);
    line_add(line, value);
}

static const struct command *command_of(uint8_t byte) {
    if (byte >= FIRST_LATER)
        return later_commands[(byte - FIRST_LATER) % (sizeof later_commands / sizeof *later_commands)];
    return commands[byte % (sizeof commands / sizeof *commands)];
}

void line_make(struct line *line, const uint8_t *bytes) {
    *line = (struct line){.command = command_of(bytes[0])};
    unsigned rows = 0;
    while (line->command->options[rows].name)
        rows++;
    line_add(line, "--output");
    line_add(line, "/dev/null");
    for (size_t i = 1; i + 1 < LINE_BYTES && bytes[i] != 0; i += 2) {
        const struct option *row = &line->command->options[bytes[i] % rows];
        if (strcmp(row->name, "output") != 0)
            add_option(line, row, bytes[i + 1]);
    }
}

void line_run(struct line *line) {
    struct options options;
    if (options_parse(&options, line->command, line->count, line->argv, stderr) == EXIT_FINE && !options.help)
        line->command->run(&options);
    options_free(&options);
}
