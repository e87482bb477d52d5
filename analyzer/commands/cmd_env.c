/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap env: every knob of the library, its value here, where that is from, and its default.
 * Lives here: the list and its messages.
 * Must not live here: what a knob does.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/cli/input.h"
#include "analyzer/cli/knobs.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/table.h"

static void complain(void *context, const struct knob_complaint *complaint) {
    (void)context;
    fputs("commtap: ", stderr);
    if (complaint->where) {
        escape_text(stderr, complaint->where);
        fputs(": ", stderr);
    }
    if (!complaint->name) {
        fprintf(stderr, "%s\n", complaint->why);
        return;
    }
    if (complaint->given) {
        fprintf(stderr, "%s=", complaint->name);
        escape_text(stderr, complaint->given);
        fprintf(stderr, " %s: %s is used\n", complaint->why, complaint->used);
        return;
    }
    fputs("no knob is called ", stderr);
    escape_text(stderr, complaint->name);
    fprintf(stderr, "%s%s%s\n", complaint->near ? " (maybe: " : "", complaint->near ? complaint->near : "",
            complaint->near ? "?)" : "");
}

static const char *const sources[] = {[KNOB_FROM_DEFAULT] = "default",
                                      [KNOB_FROM_POLICY] = "policy",
                                      [KNOB_FROM_ENVIRONMENT] = "environment",
                                      [KNOB_FIXED_BY_POLICY] = "fixed"};

#define VALUE(NAME, EXPRESSION)                                                                                        \
    static struct cell NAME(const void *item) {                                                                        \
        const struct knob_setting *row = item;                                                                         \
        return EXPRESSION;                                                                                             \
    }
VALUE(name, cell_text(row->knob->name))
VALUE(value, cell_text(row->value))
VALUE(source, cell_text(sources[row->source]))
VALUE(set, cell_switch(getenv(row->knob->name) != NULL))
VALUE(fallback, cell_text(row->knob->fallback))
VALUE(type, cell_text(row->knob->type))
VALUE(doc, cell_text(row->knob->doc))

static const struct column columns[] = {
    {"name", "name", .value = name, .left = true},
    {"value", "value", .value = value, .left = true,
     .doc = "in force: of a value the library cannot take the one it uses"},
    {"source", "from", .value = source, .left = true,
     .doc = "what says so: the environment, the policy, for which the environment may say something else, the policy "
            "whatever the environment says (fixed), or nobody (default)"},
    {"set", NULL, .value = set, .doc = "given in the environment"},
    {"default", "default", .value = fallback, .left = true},
    {"type", NULL, .value = type},
    {"doc", "meaning", .value = doc, .left = true},
    {NULL, NULL, .value = NULL},
};

static int run(const struct options *options) {
    struct output output;
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    struct knobs_here here;
    bool enough_memory = knobs_in_force(&here, complain, NULL);
    const struct table table = {columns, here.settings, sizeof *here.settings, KNOBS};
    knobs_unknown(complain, NULL);
    if (output.format == OUTPUT_JSON) {
        json_t *list = table_to_json(&table);
        enough_memory = list &&
                        json_print(output.stream, json_pack("{s:s, s:s?, s:o}", "schema", "commtap.env/1", "policy",
                                                            here.policy, "knobs", list)) &&
                        enough_memory;
    } else if (output.format == OUTPUT_CSV) {
        table_print_csv(output.stream, &table);
    } else {
        enough_memory = table_print_text(output.stream, &table, output.color) && enough_memory;
    }
    knobs_free(&here);
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
    .company = COMPANY_FIRST,
    .summary = "every knob of the library: its value here, its default, its meaning",
    .arguments = "",
    .options = option_rows,
    .examples = examples,
    .run = run,
};
