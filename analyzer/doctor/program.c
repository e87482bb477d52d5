/* SPDX-License-Identifier: Apache-2.0
 *
 * From the words of a command to the file that runs: launchers, programs that start others, scripts.
 * Must not live here: what that file is linked to (binary.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/doctor/doctor.h"

enum { SCRIPTS_MOST = 4 }; /* of one another, as in the kernel */

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void say_missing(struct doctor *doctor, const char *word) {
    doctor->is_missing = true;
    doctor->program[0] = '\0';
    checks_add(&doctor->checks, CHECK_BLOCKED, "program",
               "%s: there is no such program%s\nname an executable file, with its directory or by PATH", word,
               strchr(word, '/') ? ", or it may not be executed" : " in PATH");
}

/* torchrun and deepspeed are Python programs that start others by the interpreter that runs them. */
static bool launches_python(const char *word) {
    return strncmp(base_of(word), "torchrun", 8) == 0 || strncmp(base_of(word), "deepspeed", 9) == 0;
}

/* Whether this word of an env command takes the library, or all variables, from what follows. */
static bool takes_library_away(char *const *word) {
    const char *text = word[0];
    if (strncmp(text, "LD_PRELOAD=", 11) == 0)
        return !strstr(text, "commtap");
    bool next = strcmp(text, "-u") == 0 || strcmp(text, "--unset") == 0;
    return strcmp(text, "-") == 0 || strcmp(text, "-i") == 0 || strcmp(text, "--ignore-environment") == 0 ||
           strcmp(text, "-uLD_PRELOAD") == 0 || strcmp(text, "--unset=LD_PRELOAD") == 0 ||
           (next && word[1] && strcmp(word[1], "LD_PRELOAD") == 0);
}

/* Of the words before the program; returns how many there are. */
static size_t look_at_words_before(struct doctor *doctor, const char *program) {
    char path[PATH_MAX];
    bool by_env = false;
    size_t count = 0;
    for (char *const *word = doctor->launch; word[0]; word++, count++) {
        if (program_file_find(path, word[0]) && strcmp(path, program) == 0)
            break;
        by_env |= strcmp(base_of(word[0]), "env") == 0;
        if (by_env && takes_library_away(word)) {
            checks_add(
                &doctor->checks, CHECK_BLOCKED, "library",
                "env %s: what follows starts without the library\nleave that word out, or put env before commtap",
                word[0]);
            by_env = false;
        }
    }
    return count;
}

/* A launcher behind programs that start others (env, timeout) is a launcher all the same. */
static bool find_program(struct doctor *doctor) {
    const char *first = doctor->launch[0], *missing;
    char *launched;
    if (!program_file_find(doctor->program, first)) {
        say_missing(doctor, first);
        return false;
    }
    doctor->launcher = run_launcher_of(first);
    if (launches_python(first))
        return true;
    launched = run_launched_program(doctor->launcher, doctor->launch, &missing);
    if (!launched && missing) {
        say_missing(doctor, missing);
        return false;
    }
    if (!launched) {
        doctor->program[0] = '\0';
        doctor->is_missing = true;
        checks_add(&doctor->checks, CHECK_BLOCKED, "program",
                   "%s: none of the words behind its options is a program\ngive the program's name with its directory",
                   first);
        return false;
    }
    size_t before = look_at_words_before(doctor, launched);
    bool launches = run_launcher_of(launched) != LAUNCHER_NONE || launches_python(launched);
    snprintf(doctor->program, sizeof doctor->program, "%s", launched);
    free(launched);
    if (before == 0 || !launches || !doctor->launch[before])
        return true;
    doctor->launch += before;
    return find_program(doctor);
}

/* The program that runs a script with this first line: "/usr/bin/env python3", "/bin/sh -e". */
static bool find_interpreter(char path[PATH_MAX], const char *line) {
    char words[PATH_MAX], *rest;
    snprintf(words, sizeof words, "%s", line);
    char *word = strtok_r(words, " \t", &rest);
    bool by_env = word && strcmp(base_of(word), "env") == 0;
    while (by_env && (word = strtok_r(NULL, " \t", &rest)) != NULL && (word[0] == '-' || strchr(word, '=')))
        ;
    return word && program_file_find(path, word);
}

static bool follow_scripts(struct doctor *doctor) {
    snprintf(doctor->binary, sizeof doctor->binary, "%s", doctor->program);
    for (unsigned i = 0; i <= SCRIPTS_MOST; i++) {
        if (!program_file_read(&doctor->file, doctor->binary)) {
            checks_add(&doctor->checks, CHECK_PART, "program", "%s cannot be looked at: %s\nlook as who may read it",
                       doctor->binary, strerror(errno));
            return false;
        }
        if (!doctor->file.script_of[0])
            return true;
        char next[PATH_MAX];
        if (!find_interpreter(next, doctor->file.script_of)) {
            checks_add(&doctor->checks, CHECK_BLOCKED, "program",
                       "%s is a script of %s, which is not here\ninstall it, or change the script's first line",
                       doctor->binary, doctor->file.script_of);
            return false;
        }
        strcpy(doctor->binary, next);
    }
    checks_add(&doctor->checks, CHECK_BLOCKED, "program", "%s: scripts of scripts, more than the kernel follows",
               doctor->program);
    return false;
}

static bool is_shell(const char *path) {
    static const char *const shells[] = {"sh", "bash", "dash", "ksh", "mksh", "zsh", "csh", "tcsh", "fish", "busybox"};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(base_of(path), shells[i]) == 0)
            return true;
    return false;
}

static void look_at_scripts(struct doctor *doctor) {
    bool is_script = strcmp(doctor->program, doctor->binary) != 0;
    doctor->is_shell = is_shell(doctor->binary);
    if (doctor->is_shell)
        checks_add(&doctor->checks, CHECK_PART, "program",
                   "%s%s%s: what the shell starts was not looked at\nask again with the program that it starts in the "
                   "end: commtap doctor PROGRAM",
                   doctor->program, is_script ? " is a script of " : "", is_script ? doctor->binary : " is a shell");
    else if (is_script)
        checks_add(&doctor->checks, CHECK_FINE, "program", "%s is run by %s", doctor->program, doctor->binary);
}

/* MPI's way to start several programs as one job: mpirun -n 1 MASTER : -n 3 WORKER. */
static void look_for_further_programs(struct doctor *doctor) {
    for (char *const *word = doctor->launch; doctor->launcher != LAUNCHER_NONE && *word; word++)
        if (strcmp(*word, ":") == 0) {
            checks_add(&doctor->checks, CHECK_PART, "program",
                       "%s: what is behind the colon was not looked at\nask for each program by itself: commtap doctor "
                       "PROGRAM",
                       doctor->launch[0]);
            return;
        }
}

/* Whether the launcher hands our variables on, which `commtap run` arranges as far as it can. */
static void look_at_launcher(struct doctor *doctor) {
    struct run_settings settings = {0};
    struct run_notes notes = {0};
    if (run_settings_set(&settings, "LD_PRELOAD", doctor->library)) {
        char **argv = run_launcher_arguments(doctor->launcher, doctor->launch, &settings, &notes);
        run_arguments_free(argv);
    }
    for (size_t i = 0; i < notes.count; i++)
        checks_add(&doctor->checks, CHECK_PART, "launcher", "%s", notes.items[i]);
    look_for_further_programs(doctor);
    if (doctor->launcher != LAUNCHER_NONE && notes.count == 0)
        checks_add(&doctor->checks, CHECK_FINE, "launcher",
                   "%s: commtap run in front of it hands the library on to all ranks", doctor->launch[0]);
    run_settings_free(&settings);
    run_notes_free(&notes);
}

/* Ranks that another MPI's launcher has started do not find each other. */
static void compare_launcher(struct doctor *doctor) {
    bool is_open_mpi = strcmp(doctor->mpi.name.name, "Open MPI") == 0, is_known = doctor->mpi.name.name[0] != '\0';
    if (!is_known || (doctor->launcher != LAUNCHER_OPEN_MPI && doctor->launcher != LAUNCHER_HYDRA))
        return;
    if (is_open_mpi != (doctor->launcher == LAUNCHER_OPEN_MPI))
        checks_add(
            &doctor->checks, CHECK_PART, "launcher",
            "%s is not the launcher of %s: each process may become a job of its own\nlaunch it by the mpirun of %s",
            doctor->launch[0], doctor->mpi.name.name, doctor->mpi.name.name);
}

/* They are there themselves, but what they start is not started by this process, or not with its environment. */
static const struct {
    const char *name;
    enum check_state state;
    const char *text, *remedy;
} elsewhere[] = {
    {"ssh", CHECK_BLOCKED, "starts its command on another host, without this environment",
     "put commtap run behind it: ssh HOST commtap run ... COMMAND"},
    {"sbatch", CHECK_PART, "queues a job that commtap run does not wait for",
     "put commtap run in front of srun or mpirun in the job's script"},
    {"qsub", CHECK_BLOCKED, "queues a job that gets an environment of its own",
     "put commtap run in front of mpirun in the job's script"},
    {"bsub", CHECK_PART, "queues a job that commtap run does not wait for",
     "put commtap run in front of mpirun in the job's script"},
    {"docker", CHECK_BLOCKED, "starts its command in a container, without this environment",
     "install commtap in the image and put commtap run behind its name: docker run IMAGE commtap run ... COMMAND"},
    {"podman", CHECK_BLOCKED, "starts its command in a container, without this environment",
     "install commtap in the image and put commtap run behind its name: podman run IMAGE commtap run ... COMMAND"},
    {"kubectl", CHECK_BLOCKED, "starts its command in a container, without this environment",
     "install commtap in the image and put commtap run in front of the container's command"},
    {"apptainer", CHECK_PART, "hands the environment on, but in the container the library must be where it is here",
     "bind its directory and that of the dumps, as in --bind DIR, and ask for the program inside by itself"},
    {"singularity", CHECK_PART, "hands the environment on, but in the container the library must be where it is here",
     "bind its directory and that of the dumps, as in --bind DIR, and ask for the program inside by itself"},
    {"sudo", CHECK_BLOCKED, "is setuid, and starts its command without the library",
     "put commtap run behind it: sudo commtap run ... COMMAND"},
};

static bool starts_elsewhere(struct doctor *doctor) {
    const char *name = base_of(doctor->program);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(name, elsewhere[i].name) == 0) {
            checks_add(&doctor->checks, elsewhere[i].state, "launcher", "%s %s\n%s", name, elsewhere[i].text,
                       elsewhere[i].remedy);
            return true;
        }
    return false;
}

void doctor_look_at_program(struct doctor *doctor) {
    doctor->launch = doctor->command;
    if (!doctor->launch[0] || !find_program(doctor))
        return;
    look_at_launcher(doctor);
    if (starts_elsewhere(doctor) || !follow_scripts(doctor))
        return;
    look_at_scripts(doctor);
    doctor_look_at_binary(doctor);
    compare_launcher(doctor);
}
