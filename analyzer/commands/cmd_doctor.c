/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap doctor: what would be seen of a command here, what would not, and what to do about it.
 * Lives here: the order of looking, text and JSON. Must not live here: looking (doctor/).
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"
#include "analyzer/doctor/doctor.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/table.h"
#include "analyzer/render/wrapped_text.h"

/* ---- text ------------------------------------------------------------------------------------ */

enum { TEXT_COLUMN = 19, REMEDY_COLUMN = 23 };

static void print_check(FILE *stream, const struct check *check, bool color) {
    static const char *const starts[] = {"\033[2m", "\033[1;33m", "\033[1;31m"};
    fprintf(stream, "%s%-7s%s  %-8s  ", color ? starts[check->state] : "", check_state_name(check->state),
            color ? "\033[0m" : "", check->subject);
    print_wrapped(stream, check->text, TEXT_COLUMN, TEXT_COLUMN);
    if (check->remedy) {
        fprintf(stream, "%*s", TEXT_COLUMN, "to do: ");
        print_wrapped(stream, check->remedy, TEXT_COLUMN, TEXT_COLUMN);
    }
}

static void print_text(const struct output *output, const struct doctor *doctor) {
    static const char *const conclusions[] = {
        "\nNothing stands in the way.\n",
        "\nRecording works, but for what is marked 'part'.\n",
        "\nWhat is marked 'blocked' keeps commtap from seeing the job.\n",
    };
    for (int state = CHECK_BLOCKED; state >= CHECK_FINE; state--)
        for (size_t i = 0; i < doctor->checks.count; i++)
            if (doctor->checks.items[i].state == (enum check_state)state)
                print_check(output->stream, &doctor->checks.items[i], output->color);
    fputs(conclusions[checks_worst(&doctor->checks)], output->stream);
    if (!doctor->command[0])
        fputs("next: commtap doctor COMMAND..., with the command as you would run it\n", output->stream);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *text_or_null(const char *text) {
    return text && *text ? escape_json(text) : json_null();
}

static json_t *library_to_json(const struct found_library *found, enum bound bound) {
    static const char *const names[] = {"not", "start", "running", "static"};
    if (bound == BOUND_NOT)
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:o}", "bound", names[bound], "name", text_or_null(found->name.name), "version",
                     text_or_null(found->name.version), "path", text_or_null(found->path));
}

static json_t *checks_to_json(const struct checks *checks) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < checks->count; i++) {
        const struct check *check = &checks->items[i];
        json_t *row =
            json_pack("{s:s, s:s, s:o, s:o}", "state", check_state_name(check->state), "subject", check->subject,
                      "text", escape_json(check->text), "remedy", text_or_null(check->remedy));
        if (json_array_append_new(list, row) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *command_to_json(char *const *command) {
    json_t *words = json_array();
    for (; words && *command; command++)
        if (json_array_append_new(words, escape_json(*command)) != 0) {
            json_decref(words);
            return NULL;
        }
    return words;
}

static json_t *dumps_to_json(const struct doctor *doctor) {
    return json_pack("{s:o, s:o, s:o, s:o}", "directory", text_or_null(doctor->directory), "file_system",
                     text_or_null(doctor->file_system), "mapped",
                     doctor->file_system[0] ? json_boolean(doctor->mapped) : json_null(), "staged_in",
                     text_or_null(doctor->staged_in));
}

static json_t *doctor_to_json(const struct doctor *doctor) {
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "commtap.doctor/1", "state",
                     check_state_name(checks_worst(&doctor->checks)), "command", command_to_json(doctor->command),
                     "program", text_or_null(doctor->program), "binary", text_or_null(doctor->binary), "library",
                     text_or_null(doctor->library), "mpi", library_to_json(&doctor->mpi, doctor->mpi_bound), "nccl",
                     library_to_json(&doctor->nccl, doctor->nccl_bound), "dumps", dumps_to_json(doctor), "checks",
                     checks_to_json(&doctor->checks));
}

/* ---- the command ----------------------------------------------------------------------------- */

static void look(struct doctor *doctor) {
    doctor_find_library(doctor);
    doctor_look_at_program(doctor);
    doctor_look_at_knobs(doctor);
    doctor_look_at_plugins(doctor);
    doctor_look_at_dumps(doctor);
    doctor_look_at_process(doctor);
}

static int code_of(const struct doctor *doctor) {
    if (doctor->is_missing)
        return EXIT_UNUSABLE;
    return checks_worst(&doctor->checks) == CHECK_BLOCKED ? EXIT_FINDINGS : EXIT_FINE;
}

static int run(const struct options *options) {
    struct output output;
    int code = output_open(&output, options);
    struct doctor *doctor = calloc(1, sizeof *doctor);
    if (code != EXIT_FINE || !doctor) {
        free(doctor);
        return code != EXIT_FINE ? code : output_close(&output, input_no_memory());
    }
    doctor->command = options->arguments;
    look(doctor);
    bool enough_memory = !doctor->checks.no_memory;
    if (output.format == OUTPUT_JSON)
        enough_memory &= json_print(output.stream, doctor_to_json(doctor));
    else
        print_text(&output, doctor);
    code = enough_memory ? code_of(doctor) : input_no_memory();
    knobs_free(&doctor->knobs);
    checks_free(&doctor->checks);
    free(doctor);
    return output_close(&output, code);
}

static const struct option option_rows[] = {
    OPTION_FORMAT("text|json"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap doctor -- mpirun -n 64 ./train", "what would be seen of this job, and what would not"},
    {"commtap doctor -- python3 train.py", "the same of a Python program, by the modules that its interpreter has"},
    {"commtap doctor", "what holds here for every job"},
    {NULL, NULL},
};

const struct command command_doctor = {
    .name = "doctor",
    .company = COMPANY_FIRST,
    .summary = "what commtap would see of a job here, what not, and what to do about it",
    .arguments = "[COMMAND...]",
    .details =
        "COMMAND as it would be run, launcher included. It is not run: its dynamic loader lists its libraries, MPI\n"
        "and NCCL are asked for their versions, a launcher for its own, Python for its modules (mpi4py is imported,\n"
        "without MPI_Init). Ask where the job will run, with its environment: modules loaded, COMMTAP_ variables\n"
        "set. Options stand in front of COMMAND.\n"
        "Each line begins with fine, part (something will not be seen) or blocked (nothing will be, or the job\n"
        "will not start), and 'to do' says what helps.\n",
    .exits = "Exits with 0 where nothing blocks, 1 where something does, 3 where there is no such program.\n",
    .min_arguments = 0,
    .max_arguments = UINT_MAX,
    .stops_at_argument = true,
    .options = option_rows,
    .examples = examples,
    .run = run,
};
