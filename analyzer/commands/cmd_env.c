/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap env: every knob of the library, its value here and its default.
 * Lives here: the list, expanded from the table of knobs; unknown COMMTAP_ names.
 * Must not live here: what a knob does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/text.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/table.h"
#include "shim/base/knob_values.h"

extern char **environ;

struct knob {
    const char *name, *type, *fallback, *doc;
};

static const struct knob knobs[] = {
#define KNOB(field, name, type, fallback, doc) {#name, #type, fallback, doc},
#include "shim/knobs.def"
#undef KNOB
};
enum { KNOBS = sizeof knobs / sizeof *knobs };

struct row {
    const struct knob *knob;
    const char *value; /* in force */
    char number[24];
};

/* What the library makes of a number. */
static uint64_t number_in_force(const char *name, uint64_t given) {
    if (strcmp(name, "COMMTAP_RING") == 0)
        return knob_ring(given);
    if (strcmp(name, "COMMTAP_STACK_DEPTH") == 0)
        return knob_stack_depth(given);
    return strcmp(name, "COMMTAP_MODE") == 0 ? knob_mode(given) : given;
}

static void warn_value(const struct row *row, const char *given, const char *why) {
    fprintf(stderr, "commtap: %s=", row->knob->name);
    escape_text(stderr, given);
    fprintf(stderr, " %s: %s is used\n", why, row->value);
}

static bool is_understood(const struct knob *knob, const char *text, uint64_t *number) {
    bool on;
    const char *words = knob_words(knob->name);
    if (strcmp(knob->type, "NUMBER") == 0)
        return knob_number(text, number);
    if (strcmp(knob->type, "SWITCH") == 0)
        return knob_switch(text, &on);
    if (strcmp(knob->name, "COMMTAP_VERBOSE") == 0)
        return knob_verbose_is_sound(text);
    return !words || knob_is_one_of(words, text);
}

/* What is given, but for a number that the library takes for another one, or what it cannot read. */
static void find_value(struct row *row) {
    const char *text = getenv(row->knob->name);
    uint64_t given = 0;
    row->value = text && *text ? text : row->knob->fallback;
    if (row->value == row->knob->fallback)
        return;
    if (!is_understood(row->knob, text, &given)) {
        row->value = row->knob->fallback;
        warn_value(row, text, "is not understood");
    } else if (strcmp(row->knob->type, "NUMBER") == 0 && number_in_force(row->knob->name, given) != given) {
        snprintf(row->number, sizeof row->number, "%s%" PRIu64, strcmp(row->knob->name, "COMMTAP_MODE") == 0 ? "0" : "",
                 number_in_force(row->knob->name, given));
        row->value = row->number;
        warn_value(row, text, "is rounded to what is possible");
    }
}

#define VALUE(NAME, EXPRESSION)                                                                                        \
    static struct cell NAME(const void *item) {                                                                        \
        const struct row *row = item;                                                                                  \
        return EXPRESSION;                                                                                             \
    }
VALUE(name, cell_text(row->knob->name))
VALUE(value, cell_text(row->value))
VALUE(set, cell_switch(getenv(row->knob->name) != NULL))
VALUE(fallback, cell_text(row->knob->fallback))
VALUE(type, cell_text(row->knob->type))
VALUE(doc, cell_text(row->knob->doc))

static const struct column columns[] = {
    {"name", "name", .value = name, .left = true},
    {"value", "value", .value = value, .left = true,
     .doc = "in force: of a value the library cannot take the one it uses"},
    {"set", NULL, .value = set, .doc = "given in the environment"},
    {"default", "default", .value = fallback, .left = true},
    {"type", NULL, .value = type},
    {"doc", "meaning", .value = doc, .left = true},
    {NULL, NULL, .value = NULL},
};

/* COMMTAP_ variables that no knob has. COMMTAP_LIBRARY tells `commtap run` which library to preload. */
static void warn_unknown(void) {
    const char *names[KNOBS];
    for (size_t i = 0; i < KNOBS; i++)
        names[i] = knobs[i].name;
    for (char **entry = environ; *entry; entry++) {
        char given[128];
        size_t length = strcspn(*entry, "="), i = 0;
        if (strncmp(*entry, "COMMTAP_", 8) != 0 || length >= sizeof given)
            continue;
        memcpy(given, *entry, length);
        given[length] = '\0';
        while (i < KNOBS && strcmp(given, names[i]) != 0)
            i++;
        if (i < KNOBS || strcmp(given, "COMMTAP_LIBRARY") == 0)
            continue;
        const char *near = nearest_name(given, names, KNOBS);
        fputs("commtap: no knob is called ", stderr);
        escape_text(stderr, given);
        fprintf(stderr, "%s%s%s\n", near ? " (maybe: " : "", near ? near : "", near ? "?)" : "");
    }
}

static int run(const struct options *options) {
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    struct row rows[KNOBS] = {{.knob = NULL}};
    for (size_t i = 0; i < KNOBS; i++) {
        rows[i].knob = &knobs[i];
        find_value(&rows[i]);
    }
    const struct table table = {columns, rows, sizeof *rows, KNOBS};
    bool enough_memory = true;
    warn_unknown();
    if (output.format == OUTPUT_JSON) {
        json_t *list = table_to_json(&table);
        enough_memory =
            list && json_print(output.stream, json_pack("{s:s, s:o}", "schema", "commtap.env/1", "knobs", list));
    } else if (output.format == OUTPUT_CSV) {
        table_print_csv(output.stream, &table);
    } else {
        enough_memory = table_print_text(output.stream, &table, output.color);
    }
    return output_close(&output, enough_memory ? EXIT_FINE : input_no_memory());
}

static const struct option option_rows[] = {
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap env", "the knobs with their values here"},
    {NULL, NULL},
};

const struct command command_env = {
    .name = "env",
    .summary = "every knob of the library: its value here, its default, its meaning",
    .arguments = "",
    .options = option_rows,
    .examples = examples,
    .run = run,
};
