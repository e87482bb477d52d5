/* SPDX-License-Identifier: Apache-2.0
 *
 * Launchers and the environment: who forwards what, and how to make them forward our settings.
 * Lives here: recognising a launcher, rewriting its command line, recognising that we run under one.
 * Must not live here: which settings there are, starting the command.
 */
#include "analyzer/base/grow.h"
#include "analyzer/run/run.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- which launcher -------------------------------------------------------------------------------------- */

/* Names before a suffix such as ".openmpi" or ".hydra". LAUNCHER_NONE here: several launchers share the name, ask it.
 */
static const struct {
    const char *name;
    enum run_launcher launcher;
} launcher_names[] = {
    {"mpirun", LAUNCHER_NONE},      {"mpiexec", LAUNCHER_NONE},        {"orterun", LAUNCHER_OPEN_MPI},
    {"prterun", LAUNCHER_OPEN_MPI}, {"prun", LAUNCHER_NONE},           {"oshrun", LAUNCHER_OPEN_MPI},
    {"srun", LAUNCHER_SRUN},        {"deepspeed", LAUNCHER_DEEPSPEED},
};

static const struct {
    const char *text; /* in the output of --version */
    enum run_launcher launcher;
} launcher_versions[] = {
    {"Open MPI", LAUNCHER_OPEN_MPI}, {"OpenRTE", LAUNCHER_OPEN_MPI}, {"PRRTE", LAUNCHER_OPEN_MPI},
    {"PRTE", LAUNCHER_OPEN_MPI},     {"HYDRA", LAUNCHER_HYDRA},      {"Intel(R) MPI", LAUNCHER_HYDRA},
    {"MVAPICH", LAUNCHER_HYDRA},
};

/* First bytes of what `command --version` prints; empty where it cannot be run. */
static void read_version(const char *command, char *text, size_t bytes) {
    int ends[2];
    text[0] = 0;
    if (pipe2(ends, O_CLOEXEC))
        return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    char *argv[] = {(char *)command, "--version", NULL};
    pid_t child;
    int failed = posix_spawnp(&child, command, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; !failed && used < bytes - 1 && (got = read(ends[0], text + used, bytes - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    close(ends[0]);
    if (!failed)
        waitpid(child, NULL, 0);
}

enum run_launcher run_launcher_of(const char *command) {
    const char *slash = strrchr(command, '/');
    const char *name = slash ? slash + 1 : command;
    size_t length = strcspn(name, ".-");
    for (size_t i = 0; i < sizeof launcher_names / sizeof *launcher_names; i++) {
        if (strlen(launcher_names[i].name) != length || strncmp(name, launcher_names[i].name, length) != 0)
            continue;
        if (launcher_names[i].launcher != LAUNCHER_NONE)
            return launcher_names[i].launcher;
        char version[2048];
        read_version(command, version, sizeof version);
        for (size_t k = 0; k < sizeof launcher_versions / sizeof *launcher_versions; k++)
            if (strstr(version, launcher_versions[k].text))
                return launcher_versions[k].launcher;
    }
    return LAUNCHER_NONE;
}

/* ---- an argument vector under construction ------------------------------------------------------------------ */

struct vector {
    char **items;
    size_t count, room;
    bool failed;
};

static void push_owned(struct vector *vector, char *item) {
    if (!item || !grow_to(vector->items, vector->room, vector->count + 2)) {
        free(item);
        vector->failed = true;
        return;
    }
    vector->items[vector->count++] = item;
    vector->items[vector->count] = NULL;
}

static void push_word(struct vector *vector, const char *item) {
    push_owned(vector, strdup(item));
}

void run_arguments_free(char **argv) {
    for (size_t i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}

static char **finish_words(struct vector *vector) {
    if (!vector->failed)
        return vector->items;
    run_arguments_free(vector->items);
    return NULL;
}

/* ---- Open MPI -------------------------------------------------------------------------------------------------- */

/* Where the value of an `-x NAME[=VALUE]` at argv[i] stands, NULL when argv[i] is no -x. */
static const char *exported_variable(char *const *argv, size_t i) {
    return (!strcmp(argv[i], "-x") || !strcmp(argv[i], "--x")) ? argv[i + 1] : NULL;
}

/* True when `variable` ("NAME" or "NAME=VALUE") is `name`. */
static bool names(const char *variable, const char *name) {
    size_t length = strcspn(variable, "=");
    return !strncmp(variable, name, length) && !name[length];
}

/* -x belongs to one application context; contexts are separated by ":". */
static bool context_exports(char *const *argv, size_t from, const char *name) {
    for (size_t i = from; argv[i] && strcmp(argv[i], ":") != 0; i++) {
        const char *variable = exported_variable(argv, i);
        if (variable && names(variable, name))
            return true;
    }
    return false;
}

static void export_settings(struct vector *out, char *const *argv, size_t from, const struct run_settings *settings) {
    for (size_t i = 0; i < settings->count; i++) {
        if (context_exports(argv, from, settings->items[i].name))
            continue;
        push_word(out, "-x");
        push_word(out, settings->items[i].name);
    }
}

/* What the user exports under one of our names: a library of their own stays behind ours, all else is replaced. */
static char *merged_variable(const char *variable, const struct run_settings *settings) {
    const char *equals = strchr(variable, '=');
    for (size_t i = 0; equals && i < settings->count; i++) {
        const struct run_setting *setting = &settings->items[i];
        char *text = NULL;
        if (!names(variable, setting->name))
            continue;
        if (!strcmp(setting->name, "LD_PRELOAD")) {
            char *library = strndup(setting->value, strcspn(setting->value, ": "));
            char *value = library ? run_preload_value(library, equals + 1) : NULL;
            if (value && asprintf(&text, "LD_PRELOAD=%s", value) < 0)
                text = NULL;
            free(library);
            free(value);
            return text;
        }
        return asprintf(&text, "%s=%s", setting->name, setting->value) < 0 ? NULL : text;
    }
    return strdup(variable);
}

static char **open_mpi_arguments(char *const *argv, const struct run_settings *settings) {
    struct vector out = {0};
    push_word(&out, argv[0]);
    export_settings(&out, argv, 1, settings);
    for (size_t i = 1; argv[i]; i++) {
        push_word(&out, argv[i]);
        if (!strcmp(argv[i], ":"))
            export_settings(&out, argv, i + 1, settings);
        if (exported_variable(argv, i))
            push_owned(&out, merged_variable(argv[++i], settings));
    }
    return finish_words(&out);
}

/* ---- the others ---------------------------------------------------------------------------------------------------
 */

static char **copy_arguments(char *const *argv) {
    struct vector out = {0};
    for (size_t i = 0; argv[i]; i++)
        push_word(&out, argv[i]);
    return finish_words(&out);
}

static char **hydra_arguments(char *const *argv, const struct run_settings *settings) {
    static const char *const limits[] = {"-genvlist", "-genvnone", "-envlist", "-envnone"};
    bool limited = false;
    for (size_t i = 1; argv[i]; i++)
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
            limited |= !strcmp(argv[i], limits[k]);
    if (!limited)
        return copy_arguments(argv);
    struct vector out = {0};
    push_word(&out, argv[0]);
    for (size_t i = 0; i < settings->count; i++) {
        push_word(&out, "-genv");
        push_word(&out, settings->items[i].name);
        push_word(&out, settings->items[i].value);
    }
    for (size_t i = 1; argv[i]; i++)
        push_word(&out, argv[i]);
    return finish_words(&out);
}

/* ---- Slurm -----------------------------------------------------------------------------------------------------
 *
 * srun hands on what its --export lists, the last one of them, or else SLURM_EXPORT_ENV; a name alone stands for its
 * value in srun's own environment, which has all settings.
 */

/* A comma between quotes parts nothing. */
static size_t length_of_item(const char *list) {
    size_t length = 0;
    for (char quote = 0; list[length] && (quote || list[length] != ','); length++) {
        if (!quote && (list[length] == '\'' || list[length] == '"'))
            quote = list[length];
        else if (list[length] == quote)
            quote = 0;
    }
    return length;
}

/* One item of the list. Left out are those that stand for nothing, and ours, which follow by name. */
static void write_item(FILE *out, const char *item, const struct run_settings *settings, bool *has_library) {
    for (size_t i = 0; i < settings->count; i++) {
        if (!names(item, settings->items[i].name))
            continue;
        char *merged = strncmp(item, "LD_PRELOAD=", 11) == 0 ? merged_variable(item, settings) : NULL;
        if (merged)
            fprintf(out, ",%s", merged);
        *has_library |= merged != NULL;
        free(merged);
        return;
    }
    if (*item && strcasecmp(item, "NONE") != 0 && strcasecmp(item, "NIL") != 0)
        fprintf(out, ",%s", item);
}

/* `list` and all settings, behind "--export". NULL when memory is short. */
static char *srun_export(const char *list, const struct run_settings *settings) {
    char *text = NULL;
    size_t bytes = 0;
    bool has_library = false;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (size_t length; *list; list += length, list += *list == ',') {
        length = length_of_item(list);
        char *item = strndup(list, length);
        if (item)
            write_item(out, item, settings, &has_library);
        free(item);
    }
    for (size_t i = 0; i < settings->count; i++)
        if (!has_library || strcmp(settings->items[i].name, "LD_PRELOAD") != 0)
            fprintf(out, ",%s", settings->items[i].name);
    fclose(out);
    char *option = NULL;
    if (text && asprintf(&option, "--export=%s", text + 1) < 0)
        option = NULL;
    free(text);
    return option;
}

/* Which list an option at argv[i] gives, NULL: it is another one. *words: how many it consists of. */
static const char *srun_list(char *const *argv, size_t i, size_t *words) {
    *words = 1;
    if (strncmp(argv[i], "--export=", 9) == 0)
        return argv[i] + 9;
    if (strcmp(argv[i], "--export") != 0 || !argv[i + 1])
        return NULL;
    *words = 2;
    return argv[i + 1];
}

/* The options of one component of the job, from argv[i] to argv[end]. */
static void push_srun_options(struct vector *out, char *const *argv, size_t i, size_t end,
                              const struct run_settings *settings) {
    const char *list = NULL, *before = getenv("SLURM_EXPORT_ENV");
    size_t words;
    for (; i < end; i += words) {
        const char *given = srun_list(argv, i, &words);
        list = given ? given : list;
        if (!given)
            push_word(out, argv[i]);
    }
    list = list ? list : before;
    if (list)
        push_owned(out, srun_export(list, settings));
}

/* Components are separated by ":". What is behind a program is its own. */
static char **srun_arguments(char *const *argv, const struct run_settings *settings) {
    struct vector out = {0};
    push_word(&out, argv[0]);
    for (size_t i = 1; argv[i];) {
        size_t end = run_options_end(argv, i);
        push_srun_options(&out, argv, i, end, settings);
        for (i = end; argv[i] && (i == end || strcmp(argv[i - 1], ":") != 0); i++)
            push_word(&out, argv[i]);
    }
    return finish_words(&out);
}

static char **deepspeed_arguments(char *const *argv, const struct run_settings *settings, struct run_notes *notes) {
    bool several_hosts = !access("/job/hostfile", R_OK);
    for (size_t i = 1; argv[i]; i++)
        several_hosts |= !strcmp(argv[i], "-H") || !strncmp(argv[i], "--hostfile", 10);
    if (several_hosts) {
        run_note(notes, "deepspeed hands variables to other hosts only through a file .deepspeed_env; it needs:");
        for (size_t i = 0; i < settings->count; i++)
            run_note(notes, "    %s=%s", settings->items[i].name, settings->items[i].value);
    }
    return copy_arguments(argv);
}

char **run_launcher_arguments(enum run_launcher launcher, char *const *argv, const struct run_settings *settings,
                              struct run_notes *notes) {
    switch (launcher) {
    case LAUNCHER_OPEN_MPI:
        return open_mpi_arguments(argv, settings);
    case LAUNCHER_HYDRA:
        return hydra_arguments(argv, settings);
    case LAUNCHER_SRUN:
        return srun_arguments(argv, settings);
    case LAUNCHER_DEEPSPEED:
        return deepspeed_arguments(argv, settings, notes);
    case LAUNCHER_NONE:
        break;
    }
    return copy_arguments(argv);
}

/* ---- under a launcher ---------------------------------------------------------------------------------------------
 */

/* `rank` holds the world rank; `also`, where given, must be set too for the launcher to be there. */
static const struct {
    const char *rank;
    const char *also;
} rank_variables[] = {
    {"OMPI_COMM_WORLD_RANK", NULL}, {"PMIX_RANK", NULL},   {"PMI_RANK", NULL},      {"SLURM_PROCID", "SLURM_STEP_ID"},
    {"FLUX_TASK_RANK", NULL},       {"PALS_RANKID", NULL}, {"RANK", "MASTER_ADDR"},
};

int run_rank_under_launcher(void) {
    for (size_t i = 0; i < sizeof rank_variables / sizeof *rank_variables; i++) {
        const char *rank = getenv(rank_variables[i].rank);
        if (rank && *rank && (!rank_variables[i].also || getenv(rank_variables[i].also)))
            return atoi(rank);
    }
    return -1;
}

/* By its name or as a module of Python's; its options follow. NULL: it is none. */
static char *const *torchrun_options(char *const *argv) {
    for (; *argv; argv++) {
        const char *slash = strrchr(*argv, '/');
        if (strncmp(slash ? slash + 1 : *argv, "torchrun", 8) == 0 || strcmp(*argv, "torch.distributed.run") == 0 ||
            strcmp(*argv, "torch.distributed.launch") == 0)
            return argv + 1;
    }
    return NULL;
}

/* "1" and "1:1" are one node, "2" and "1:4" several, or as many as come. */
static bool is_several(const char *nodes) {
    return nodes && *nodes && strcmp(nodes, "1") != 0 && strcmp(nodes, "1:1") != 0;
}

/* Options end at the first word that is none, nor behind one. Where another launcher starts it there is one of us. */
bool run_is_on_several_nodes(char *const *argv) {
    static const char name[] = "--nnodes";
    const char *nodes = getenv("PET_NNODES");
    char *const *word = torchrun_options(argv);
    for (bool behind = false; word && *word && (**word == '-' || behind); word++) {
        behind = **word == '-' && !strchr(*word, '=');
        if (strncmp(*word, name, strlen(name)) != 0)
            continue;
        const char *rest = *word + strlen(name);
        nodes = *rest == '=' ? rest + 1 : !*rest ? word[1] : nodes;
    }
    return word && is_several(nodes) && run_launcher_of(argv[0]) == LAUNCHER_NONE;
}
