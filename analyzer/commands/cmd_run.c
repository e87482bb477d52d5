/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap run: a command under commtap, around a launcher or under it.
 * Lives here: the command's options, the settings they mean, the words on stderr before and after.
 * Must not live here: how launchers, processes and staged files are handled (run/), what dumps hold.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/base/output_mode.h"
#include "analyzer/base/regular_file.h"
#include "analyzer/base/text.h"
#include "analyzer/cli/knobs.h"
#include "analyzer/cli/options.h"
#include "analyzer/render/escape.h"
#include "analyzer/run/run.h"
#include "shim/base/directory_pattern.h"
#include "shim/base/knob_values.h"

extern char **environ;

struct launched_job {
    struct run_settings settings;
    struct run_notes notes;
    time_t started;
    int rank;                       /* of this process under a launcher, -1 = we stand around it */
    struct run_directory directory; /* nothing in it where only the library knows */
    char *recent;                   /* then: what was written since, found afterwards */
    bool made_directory;            /* by us */
    enum run_launcher launcher;
};

static const char *const knob_names[] = {
#define KNOB(field, name, type, fallback, doc) #name,
#include "shim/knobs.def"
#undef KNOB
};
#define KNOB_NAMES (sizeof knob_names / sizeof *knob_names)

static void print_run_notes(struct run_notes *notes) {
    for (size_t i = 0; i < notes->count; i++)
        fprintf(stderr, "commtap run: %s\n", notes->items[i]);
    run_notes_free(notes);
}

static int out_of_memory(void) {
    fputs("commtap run: out of memory\n", stderr);
    return EXIT_OUTPUT;
}

/* ---- settings -------------------------------------------------------------------------------- */

/* COMMTAP_ variables of our own environment: launchers must be told to hand these on, too. COMMTAP_LIBRARY is ours. */
static bool take_environment(struct run_settings *settings) {
    for (char **entry = environ; *entry; entry++) {
        char *equals = strchr(*entry, '=');
        if (strncmp(*entry, "COMMTAP_", 8) != 0 || !equals || !strncmp(*entry, "COMMTAP_LIBRARY=", 16))
            continue;
        char *name = strndup(*entry, (size_t)(equals - *entry));
        bool taken = name && run_settings_set(settings, name, equals + 1);
        free(name);
        if (!taken)
            return false;
    }
    return true;
}

static void warn_unknown_knob(const char *name) {
    for (size_t i = 0; i < KNOB_NAMES; i++)
        if (!strcmp(knob_names[i], name))
            return;
    const char *near = nearest_name(name, knob_names, KNOB_NAMES);
    fprintf(stderr, "commtap run: no knob is called %s (%s%s%s)\n", name, near ? "maybe: " : "see commtap env",
            near ? near : "", near ? "?" : "");
}

/* One -e COMMTAP_X=V. */
static int take_knob(struct run_settings *settings, const char *text) {
    const char *equals = strchr(text, '=');
    if (strncmp(text, "COMMTAP_", 8) != 0 || !equals) {
        fprintf(stderr, "commtap run: --env takes COMMTAP_NAME=VALUE, not '%s'\n", text);
        return EXIT_USAGE;
    }
    char *name = strndup(text, (size_t)(equals - text));
    bool taken = name && run_settings_set(settings, name, equals + 1);
    if (taken)
        warn_unknown_knob(name);
    free(name);
    return taken ? EXIT_FINE : out_of_memory();
}

/* Later sources win: environment, DeepSpeed configuration, -e, -o. */
static int gather_settings(const struct options *options, struct launched_job *job) {
    if (!take_environment(&job->settings))
        return out_of_memory();
    const char *config = option_text(options, "ds-config"), *directory = option_text(options, "output-dir");
    char error[PATH_MAX + 256];
    if (config && !run_ds_config(config, &job->settings, &job->notes, error, sizeof error)) {
        fprintf(stderr, "commtap run: %s\n", error);
        return EXIT_USAGE;
    }
    size_t position = 0;
    for (const char *text; (text = option_next(options, "env", &position));) {
        int code = take_knob(&job->settings, text);
        if (code != EXIT_FINE)
            return code;
    }
    if (directory && !run_settings_set(&job->settings, "COMMTAP_DIR", directory))
        return out_of_memory();
    return EXIT_FINE;
}

/* ---- the policy ------------------------------------------------------------------------------ */

static void say_nothing(void *context, const struct knob_complaint *complaint) {
    (void)context, (void)complaint;
}

/* Who starts a job under commtap wants its dumps and to know how they fare, whatever holds for jobs that are recorded
 * because all are. */
static const char *wanted_here(const char *name) {
    static const char *const wanted[][2] = {
        {"COMMTAP_ENABLE", "1"}, {"COMMTAP_SHARE", "100"}, {"COMMTAP_MIN_SECONDS", "0"}, {"COMMTAP_QUIET", "0"}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strcmp(wanted[i][0], name))
            return wanted[i][1];
    return NULL;
}

/* What the policy says holds where nothing else does; what it fixes holds in any case, and that is said where it is not
 * what was asked for. */
static bool heed_knob(struct launched_job *job, const char *policy, const struct knob_setting *knob) {
    const char *name = knob->knob->name, *given = run_settings_get(&job->settings, name), *wanted = wanted_here(name);
    if (knob->source != KNOB_FIXED_BY_POLICY) {
        const char *holds = !wanted && knob->source == KNOB_FROM_POLICY ? knob->value : wanted;
        return given || !holds || run_settings_set(&job->settings, name, holds);
    }
    if (!given)
        given = wanted;
    if (given && strcmp(given, knob->value) != 0)
        run_note(&job->notes, "%s=%s, as %s fixes it, and not %s", name, knob->value, policy, given);
    return run_settings_set(&job->settings, name, knob->value);
}

static int heed_policy(struct launched_job *job) {
    const char *given = run_settings_get(&job->settings, "COMMTAP_POLICY");
    struct knobs_here here;
    bool heeded = !given || setenv("COMMTAP_POLICY", given, 1) == 0;
    heeded = knobs_in_force(&here, say_nothing, NULL) && heeded;
    for (size_t i = 0; here.policy && i < KNOBS && heeded; i++)
        heeded = heed_knob(job, here.policy, &here.settings[i]);
    knobs_free(&here);
    return heeded ? EXIT_FINE : out_of_memory();
}

/* ---- run id and directory -------------------------------------------------------------------- */

/* Run ids become file names: what the library would replace in one is replaced here already, for the collection. */
static bool set_clean_run_id(struct launched_job *job, const char *given) {
    char id[64];
    snprintf(id, sizeof id, "%s", given);
    for (char *c = id; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_-", *c) && (*c != '.' || c == id))
            *c = '_';
    return run_settings_set(&job->settings, "COMMTAP_RUN_ID", id);
}

/* Under a launcher every rank has a `commtap run` of its own and all must agree: the library derives the id from what
 * the launcher tells each of them. So it is around torchrun where each node has its own. Around any other launcher
 * there is one of us, and any unique name does. */
static bool choose_run_id(struct launched_job *job, char *const *command) {
    const char *given = run_settings_get(&job->settings, "COMMTAP_RUN_ID");
    if (given && *given)
        return set_clean_run_id(job, given);
    if (job->rank >= 0 || run_is_on_several_nodes(command))
        return true;
    time_t now = time(NULL);
    struct tm local;
    unsigned noise = (unsigned)getpid();
    char id[64];
    localtime_r(&now, &local);
    if (getrandom(&noise, sizeof noise, GRND_NONBLOCK) != sizeof noise)
        noise ^= (unsigned)now;
    size_t length = strftime(id, sizeof id, "%Y%m%d-%H%M%S", &local);
    snprintf(id + length, sizeof id - length, "-%04x", noise & 0xffff);
    return run_settings_set(&job->settings, "COMMTAP_RUN_ID", id);
}

/* Makes COMMTAP_DIR absolute: ranks may start elsewhere. */
static int choose_directory(struct launched_job *job) {
    const char *given = run_settings_get(&job->settings, "COMMTAP_DIR");
    const char *run_id = run_settings_get(&job->settings, "COMMTAP_RUN_ID");
    char pattern[128];
    if (!given || !*given) {
        if (!run_id || !*run_id)
            return EXIT_FINE; /* the library chooses both */
        snprintf(pattern, sizeof pattern, "commtap-%s", run_id);
        given = pattern;
    }
    const char *mistake = directory_pattern_mistake(given);
    if (mistake) {
        fprintf(stderr,
                "commtap run: %s: '%.2s' stands for nothing: %%j %%u %%h %%p %%r do, and %%%% for a percent sign\n",
                given, mistake);
        return EXIT_USAGE;
    }
    return run_directory_make(&job->directory, given) &&
                   run_settings_set(&job->settings, "COMMTAP_DIR", job->directory.value)
               ? EXIT_FINE
               : out_of_memory();
}

/* Returns 0, or an errno. */
static int make_writable(const char *path, mode_t mode, bool *made) {
    struct stat status;
    char *copy = strdup(path);
    if (!copy)
        return ENOMEM;
    int error = output_make_directories(copy, mode);
    free(copy);
    *made = !error;
    if (error != EEXIST)
        return error;
    if (stat(path, &status))
        return errno;
    if (!S_ISDIR(status.st_mode))
        return ENOTDIR;
    return access(path, W_OK | X_OK) ? errno : 0;
}

/* A wrong directory should show before the job has run for a day, not after. */
static int prepare_directory(struct launched_job *job) {
    const char *path = job->directory.place;
    mode_t mode = output_file_mode(run_settings_get(&job->settings, "COMMTAP_MODE"));
    bool made_here;
    if (job->rank >= 0 || !path)
        return EXIT_FINE;
    int error = make_writable(path, mode, &job->made_directory);
    if (!error && job->directory.here && strcmp(job->directory.here, path) != 0)
        error = make_writable(job->directory.here, mode, &made_here);
    if (!error)
        return EXIT_FINE;
    fprintf(stderr, "commtap run: cannot write dumps to %s: %s\n", path, strerror(error));
    return EXIT_USAGE;
}

/* ---- the library ----------------------------------------------------------------------------- */

static int preload_library(struct launched_job *job) {
    char tried[PATH_MAX + 128];
    char *library = run_library_path(tried, sizeof tried);
    int code = EXIT_FINE;
    if (!library) {
        fprintf(stderr, "commtap run: no readable libcommtap.so (looked at: %s)\n", tried);
        code = EXIT_UNUSABLE;
    } else if (strpbrk(library, " :")) {
        fprintf(stderr, "commtap run: %s: LD_PRELOAD cannot hold a path with a blank or a colon\n", library);
        code = EXIT_UNUSABLE;
    } else {
        char *value = run_preload_value(library, getenv("LD_PRELOAD"));
        if (!value || !run_settings_set(&job->settings, "LD_PRELOAD", value))
            code = out_of_memory();
        free(value);
    }
    free(library);
    unsetenv("COMMTAP_LIBRARY"); /* no knob of the library: it would complain about the name */
    return code;
}

/* A program built with GCC's AddressSanitizer ends at once where its runtime is not the first library, which nothing
 * preloaded can change from outside; asked not to insist it runs as well. Others do not look at the variable. */
static int let_sanitizers_run(struct launched_job *job) {
    const char *given = getenv("ASAN_OPTIONS");
    char *value;
    if (asprintf(&value, "%s%sverify_asan_link_order=0", given ? given : "", given && *given ? ":" : "") < 0)
        return out_of_memory();
    int code = run_settings_set(&job->settings, "ASAN_OPTIONS", value) ? EXIT_FINE : out_of_memory();
    free(value);
    return code;
}

/* ---- afterwards ------------------------------------------------------------------------------ */

static void print_next_step(const char *directory) {
    fputs("; next: commtap report ", stderr);
    escape_shell(stderr, directory);
    fputc('\n', stderr);
}

static void say_end(const char *command, const struct run_end *end) {
    escape_shell(stderr, command);
    if (end->signal)
        fprintf(stderr, " was ended by signal %d, and no process had called MPI or NCCL by then", end->signal);
    else
        fprintf(stderr, " ended with exit status %d, and no process had called MPI or NCCL by then", end->status);
}

/* Whether the directory that dumps were to go to has no room for one; then `free_bytes` is what it has. */
static bool is_full(const struct launched_job *job, uint64_t *free_bytes) {
    struct statvfs status;
    if (!job->directory.place || statvfs(job->directory.place, &status) != 0)
        return false;
    *free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
    return *free_bytes < RUN_ROOM_FOR_A_DUMP;
}

static bool was_shorter(const struct launched_job *job, const char *seconds) {
    uint64_t least;
    return knob_number(seconds, &least) && (uint64_t)(time(NULL) - job->started) < least;
}

/* Says what can be established about a command that left no dump, else what may be the case. */
static void explain_nothing(const struct launched_job *job, char *const *argv, const struct run_end *end) {
    uint64_t free_bytes;
    const char *enable = run_settings_get(&job->settings, "COMMTAP_ENABLE");
    const char *share = run_settings_get(&job->settings, "COMMTAP_SHARE");
    const char *least = run_settings_get(&job->settings, "COMMTAP_MIN_SECONDS"), *missing;
    char *program = run_launched_program(job->launcher, argv, &missing);
    const char *obstacle = program ? run_program_obstacle(program) : NULL;
    fputs("commtap: no dump was written: ", stderr);
    if (enable && !strcmp(enable, "0")) {
        fputs("recording is switched off (COMMTAP_ENABLE=0)", stderr);
    } else if (share && *share && strcmp(share, "100") != 0) {
        fprintf(stderr, "COMMTAP_SHARE=%s leaves jobs out, and this may be one of them", share);
    } else if (end->status == 0 && least && was_shorter(job, least)) {
        fprintf(stderr, "COMMTAP_MIN_SECONDS=%s leaves none of a job that ends well in less", least);
    } else if (obstacle) {
        escape_shell(stderr, program);
        fprintf(stderr, " %s", obstacle);
    } else if (is_full(job, &free_bytes)) {
        escape_shell(stderr, job->directory.shown);
        fprintf(stderr,
                " has room for %" PRIu64 " KB, less than a dump takes. Where rank 0 says above that the dump "
                "is lost, that is why; else no process called MPI or NCCL",
                free_bytes >> 10);
    } else if (end->status != 0) {
        say_end(argv[0], end);
    } else {
        fputs("no process called MPI or NCCL where the library could see it. It does not see MPI and NCCL that are "
              "linked statically, or loaded with RTLD_DEEPBIND or dlmopen; setuid programs; and processes to which a "
              "launcher or container does not hand LD_PRELOAD on. Had a dump found no room, rank 0 would have said so",
              stderr);
    }
    fputs("; next: commtap doctor COMMAND..., with the same command\n", stderr);
    free(program);
}

static void print_collected(const struct launched_job *job, const struct run_collection *found) {
    fprintf(stderr, "commtap: %zu dump%s in ", found->dumps, found->dumps == 1 ? "" : "s");
    escape_shell(stderr, job->directory.shown);
    if (found->collected)
        fprintf(stderr, " (%zu collected from local storage)", found->collected);
    if (found->still_running)
        fprintf(stderr, ", %zu of processes still running", found->still_running);
    if (found->left)
        fprintf(stderr, ", %zu left where they were staged", found->left);
    if (found->other_hosts)
        fprintf(stderr, ", %zu still on other hosts (commtap-collect fetches them)", found->other_hosts);
    print_next_step(job->directory.shown);
}

/* Deaths are watched in one directory, which the ranks must share. */
static void say_unwatched(const struct launched_job *job, int status) {
    if (status != 0 && job->directory.place && !job->directory.here)
        fputs("commtap: who died first is not noted where each process has a directory of its own (%p, %r)\n", stderr);
}

/* What was made for dumps that did not come. */
static void remove_directory(const struct launched_job *job) {
    if (job->directory.here && strcmp(job->directory.here, job->directory.place) != 0)
        rmdir(job->directory.here);
    if (job->made_directory)
        rmdir(job->directory.place);
}

static void print_left(const char *shown, size_t left) {
    fputs("commtap: no dump is in ", stderr);
    escape_shell(stderr, shown);
    fprintf(stderr, ", %zu left where they were staged, for the reasons above; next: commtap collect ", left);
    escape_shell(stderr, shown);
    fputc('\n', stderr);
}

/* A pointer to a staged dump takes a block, which a full disk has not. */
static void print_without_stub(const struct launched_job *job, const struct run_collection *found) {
    const char *run_id = run_settings_get(&job->settings, "COMMTAP_RUN_ID");
    fputs("commtap: no dump is in ", stderr);
    escape_shell(stderr, job->directory.shown);
    fprintf(
        stderr,
        ", into which no pointer to one could be written; %zu of this job %s in %s of this host; next: commtap report "
        "--run %s %s\n",
        found->without_stub, found->without_stub == 1 ? "is" : "are", found->staging, run_id, found->staging);
}

/* Under a launcher the other ranks may still run: nothing is counted, and only rank 0 speaks. */
static void say_outcome(const struct launched_job *job, char *const *argv, const struct run_end *end, const char *shown,
                        const struct run_collection *found) {
    size_t known = found->dumps + found->still_running + found->other_hosts;
    if (found->without_stub > 0) {
        print_without_stub(job, found);
    } else if (known + found->left == 0) {
        explain_nothing(job, argv, end);
        remove_directory(job);
    } else if (known == 0) {
        print_left(shown, found->left);
    } else if (job->rank < 0) {
        say_unwatched(job, end->status);
        print_collected(job, found);
    } else {
        fputs("commtap: dumps are in ", stderr);
        escape_shell(stderr, shown);
        print_next_step(shown);
    }
}

static void finish_run(struct launched_job *job, char *const *argv, const struct run_end *end) {
    const char *directory = job->directory.place, *shown = job->directory.shown;
    struct run_collection found = {0};
    if (!directory)
        directory = shown = job->recent = run_recent_directory(job->started);
    if (!directory) {
        print_run_notes(&job->notes);
        if (job->rank == 0)
            explain_nothing(job, argv, end);
        return;
    }
    bool readable = run_collect(directory, run_settings_get(&job->settings, "COMMTAP_RUN_ID"), &found, &job->notes);
    if (readable && found.dumps > 0 && job->rank <= 0)
        run_store_symbols(directory, run_settings_get(&job->settings, "COMMTAP_RUN_ID"),
                          output_file_mode(run_settings_get(&job->settings, "COMMTAP_MODE")), &job->notes);
    print_run_notes(&job->notes);
    if (job->rank > 0)
        return;
    if (readable)
        say_outcome(job, argv, end, shown, &found);
    else
        fprintf(stderr, "commtap: %s: %s\n", directory, regular_file_error(errno));
}

static int run_words(struct launched_job *job, char **arguments) {
    job->launcher = run_launcher_of(arguments[0]);
    char **argv = run_launcher_arguments(job->launcher, arguments, &job->settings, &job->notes);
    if (!argv)
        return out_of_memory();
    print_run_notes(&job->notes);
    struct run_end end = run_child(argv, &job->settings, job->rank < 0 ? job->directory.here : NULL);
    run_arguments_free(argv);
    if (end.start_errno) {
        fprintf(stderr, "commtap run: %s: %s\n", arguments[0], strerror(end.start_errno));
        remove_directory(job);
    } else {
        finish_run(job, arguments, &end);
    }
    return end.status;
}

static int run(const struct options *options) {
    struct launched_job job = {.started = time(NULL), .rank = run_rank_under_launcher()};
    int code = gather_settings(options, &job);
    if (code == EXIT_FINE)
        code = heed_policy(&job);
    if (code == EXIT_FINE && !choose_run_id(&job, options->arguments))
        code = out_of_memory();
    if (code == EXIT_FINE)
        code = choose_directory(&job);
    if (code == EXIT_FINE)
        code = preload_library(&job);
    if (code == EXIT_FINE)
        code = let_sanitizers_run(&job);
    if (code == EXIT_FINE)
        code = prepare_directory(&job);
    if (code == EXIT_FINE)
        code = run_words(&job, options->arguments);
    run_settings_free(&job.settings);
    run_notes_free(&job.notes);
    run_directory_free(&job.directory);
    free(job.recent);
    return code;
}

static const struct option run_options[] = {
    {.name = "output-dir",
     .letter = 'o',
     .argument = "DIR",
     .doc = "where the dumps go (default ./commtap-<run id>); %j, %u, %h, %p and %r as in COMMTAP_DIR"},
    {.name = "ds-config",
     .argument = "FILE",
     .doc = "take what to record from the comms_logger section of a DeepSpeed configuration"},
    {.name = "env",
     .letter = 'e',
     .argument = "COMMTAP_X=V",
     .doc = "set a knob (see commtap env)",
     .repeats = true,
     .settings = knob_name_at},
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap run -o DIR -- mpirun -n 64 ./train", "around a launcher, which hands the library on to its ranks"},
    {"srun -n 64 commtap run -o DIR -- ./train", "under a launcher"},
    {"commtap run -o DIR -e COMMTAP_STACK=off -- mpirun -n 64 ./train", "with a knob set: without call stacks"},
    {NULL, NULL},
};

const struct command command_run = {
    .name = "run",
    .company = COMPANY_NONE,
    .summary = "run a job under commtap",
    .arguments = "-- COMMAND...",
    .details =
        "COMMAND may be a launcher (mpirun, mpiexec, srun, torchrun, deepspeed) or a program that a launcher\n"
        "starts: `commtap run -- mpirun -n 4 ./app` and `mpirun -n 4 commtap run -o DIR -- ./app` both work.\n"
        "Programs built with GCC's AddressSanitizer refuse preloaded libraries; so that they run all the same,\n"
        "verify_asan_link_order=0 is added to ASAN_OPTIONS.\n"
        "When the command has ended, the names and lines of all call sites are kept beside the dumps, in\n"
        "commtap.<run id>.symbols: they can be told although the program is built anew. Under a launcher rank 0\n"
        "does so, for what is there by then.\n"
        "Where a rank dies before the others, commtap.<run id>.deaths beside the dumps says which; not where %p or\n"
        "%r gives each process a directory of its own.\n"
        "COMMTAP_LIBRARY names the library to preload, in place of the one that lies beside commtap.\n"
        "Where several sources set a knob, -o and -e win over --ds-config, and that over the environment. Of the\n"
        "operator's policy (COMMTAP_POLICY) only what it fixes holds against COMMTAP_ENABLE=1, COMMTAP_SHARE=100,\n"
        "COMMTAP_MIN_SECONDS=0 and COMMTAP_QUIET=0, which are set unless you set them otherwise.\n",
    .exits = "The exit status is the command's own, 128 + N when signal N ended it, 127 when there is no such\n"
             "command, 126 when it cannot be started.\n",
    .min_arguments = 1,
    .max_arguments = UINT_MAX,
    .stops_at_argument = true,
    .options = run_options,
    .examples = examples,
    .run = run,
};
