/* SPDX-License-Identifier: Apache-2.0
 *
 * run/: what `commtap run` does around a command: settings, the library, launchers, the child, collection.
 * Lives here: everything that starts a job under commtap and tidies up behind it.
 * Must not live here: option parsing and messages for the user (cmd_run.c), reading what a dump holds (load/).
 */
#ifndef COMMTAP_RUN_RUN_H
#define COMMTAP_RUN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/* ---- settings: environment variables the command is to see ----------------------------------- */

struct run_setting {
    char *name;
    char *value;
};

/* In the order of first use; each name once. Zero-initialise; run_settings_free releases. */
struct run_settings {
    struct run_setting *items;
    size_t count;
};

/* Sets `name`, replacing an earlier value. Both strings are copied. False when memory is short. */
bool run_settings_set(struct run_settings *settings, const char *name, const char *value);
/* The value of `name`, or NULL. Owned by `settings`. */
const char *run_settings_get(const struct run_settings *settings, const char *name);
void run_settings_free(struct run_settings *settings);

/* A line of words for the user, NULL-terminated strings owned by the list. */
struct run_notes {
    char **items;
    size_t count;
};

/* Appends a printf-formatted note. Notes are advice: when memory is short the note is dropped. */
void run_note(struct run_notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
void run_notes_free(struct run_notes *notes);

/* ---- the library ----------------------------------------------------------------------------- */

/* Absolute path of libcommtap.so: COMMTAP_LIBRARY, else beside this program (a build tree), else ../lib/commtap or
 * ../lib of it (an installation). NULL when none is readable; `tried` (at least 1 byte) then says where it was
 * looked for. The caller frees. */
char *run_library_path(char *tried, size_t tried_bytes);

/* `library` in front of the LD_PRELOAD value `before` (NULL or "" = none), left out where it already comes first.
 * Returns a string the caller frees, or NULL when memory is short. */
char *run_preload_value(const char *library, const char *before);

/* Why calls of the program at `path` do not come by the library ("is statically linked, so ..."): nothing can be
 * preloaded into it, or it brings its own MPI functions. NULL where nothing is known against it, or it is no program
 * file. Static text. */
const char *run_program_obstacle(const char *path);

/* ---- launchers ------------------------------------------------------------------------------- */

enum run_launcher {
    LAUNCHER_NONE = 0,  /* an ordinary command, or a launcher whose children inherit the environment everywhere */
    LAUNCHER_OPEN_MPI,  /* needs -x NAME for every variable that shall reach other hosts */
    LAUNCHER_HYDRA,     /* MPICH and its relatives: forwards unless told otherwise by -genvlist and the like */
    LAUNCHER_SRUN,      /* forwards unless --export or SLURM_EXPORT_ENV says otherwise */
    LAUNCHER_DEEPSPEED, /* forwards a fixed set of prefixes and .deepspeed_env */
};

/* Which launcher `command` (argv[0] of what is to be run) is. Runs `command --version` where the name alone does not
 * tell, which is the case for mpirun and mpiexec. */
enum run_launcher run_launcher_of(const char *command);

/* The argument vector that makes `launcher` hand every setting to all its processes. A value the user gives LD_PRELOAD
 * on the launcher's own command line is kept behind ours. Notes say what could not be arranged. Returns a vector
 * that run_arguments_free releases, or NULL when memory is short. */
char **run_launcher_arguments(enum run_launcher launcher, char *const *argv, const struct run_settings *settings,
                              struct run_notes *notes);
void run_arguments_free(char **argv);

/* The program file that the command line runs, behind the launcher's options, and those of programs that only start
 * another (env, numactl). NULL where none is found; then *missing is the word that stands in its place, NULL where that
 * is not sure. The caller frees. */
char *run_launched_program(enum run_launcher launcher, char *const *argv, const char **missing);

/* Where the options of a launcher end that begin at argv[from]: at the first word that is a program file, at ":", or at
 * the end of argv. */
size_t run_options_end(char *const *argv, size_t from);

/* Is this process itself one of a launcher's ranks? Returns its world rank, or -1 outside a launcher. */
int run_rank_under_launcher(void);

/* Is this a torchrun that is told of several nodes (--nnodes, PET_NNODES)? Each of them has one of its own then. */
bool run_is_on_several_nodes(char *const *argv);

/* ---- DeepSpeed configuration ----------------------------------------------------------------- */

/* Reads the comms_logger section of a DeepSpeed configuration and sets COMMTAP_ENABLE, COMMTAP_VERBOSE and COMMTAP_OPS
 * accordingly. The section's mere presence enables nothing: `enabled` decides, false by default. Without a section
 * nothing is set. Returns false with `error` filled ("FILE:LINE: what") when the file cannot be read, is no JSON, or
 * holds a value of the wrong type. Notes say what the section asks for that is not available. */
bool run_ds_config(const char *path, struct run_settings *settings, struct run_notes *notes, char *error,
                   size_t error_bytes);

enum { RUN_ROOM_FOR_A_DUMP = 256 << 10 }; /* bytes, of an idle rank */

/* ---- where dumps go -------------------------------------------------------------------------------- */

/* COMMTAP_DIR before the job runs. */
struct run_directory {
    char *value; /* for COMMTAP_DIR: absolute; job and user are written out where they are known here */
    char *place; /* the directory, or the one above all that it may become once the processes know the rest */
    char *shown; /* the same as the user may type it */
    char *here;  /* the one that processes of this host write to; NULL where each has its own */
};

/* Makes them of a pattern without mistakes. False: too long, or memory is short. The caller frees in every case. */
bool run_directory_make(struct run_directory *directory, const char *pattern);
void run_directory_free(struct run_directory *directory);

/* ---- the child ------------------------------------------------------------------------------- */

/* How a command ended. */
struct run_end {
    int status;      /* what a shell would say: the exit status, 128 + signal, 126 or 127 where it cannot be started */
    int signal;      /* that ended it, 0: it exited, which it may do with a status above 128, too */
    int start_errno; /* why it cannot be started, 0 otherwise */
};

/* Puts the settings into this process's environment, runs argv, hands on SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and
 * SIGUSR2 (those that a terminal already sent to the whole process group are not repeated) and waits.
 * Where `directory` (NULL: nowhere) fills with dumps of COMMTAP_RUN_ID meanwhile, the first of their processes that
 * dies is noted there (witness.h).
 */
struct run_end run_child(char *const *argv, const struct run_settings *settings, const char *directory);

/* ---- collection ------------------------------------------------------------------------------ */

struct run_collection {
    size_t dumps;         /* dump files of this run now in the directory */
    size_t collected;     /* of these, copied here by this call */
    size_t other_hosts;   /* stubs of dumps staged on other hosts */
    size_t still_running; /* stubs whose process has not ended */
    size_t left;          /* stubs of dumps of this host that could not be collected: notes say why */
    size_t without_stub;  /* where nothing at all is there: dumps of this run in `staging`, for which no stub was
                             written,  as the directory had no room for it */
    const char *staging;
};

/* Brings dumps that were staged on this host into `directory`, or those below it (dumps/directories.h), and counts what
 * is there. Only files and stubs of `run_id` are looked at (NULL: all). Safe against other processes doing the same at
 * the same time. Trouble with single files becomes notes. Returns false when the directory cannot be read. */
bool run_collect(const char *directory, const char *run_id, struct run_collection *result, struct run_notes *notes);

/* Looks up the names of all call sites in the dumps of `run_id` (NULL: all) in `directory` and keeps them there, for
 * the day when the programs are not here any more, or are others, in files of that mode. Trouble becomes a note. */
void run_store_symbols(const char *directory, const char *run_id, mode_t mode, struct run_notes *notes);

/* The directory ./commtap-* that a job started at `since` most likely wrote to, where only the library knew its name:
 * the one changed last, not before `since` (some slack for file servers' clocks). NULL when there is none. The caller
 * frees. */
char *run_recent_directory(time_t since);

#endif
