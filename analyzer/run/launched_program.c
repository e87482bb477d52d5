/* SPDX-License-Identifier: Apache-2.0
 *
 * Which program a command line runs: behind a launcher's options, and behind programs that only start others.
 * Lives here: options of launchers that take words of their own. Must not live here: what kind of program it is.
 */
#include "analyzer/run/program_file.h"
#include "analyzer/run/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of mpirun, mpiexec, srun, torchrun and deepspeed, with one dash or two: how many words follow. */
static const struct {
    const char *name;
    unsigned words;
} options[] = {{"n", 1},
               {"np", 1},
               {"c", 1},
               {"N", 1},
               {"H", 1},
               {"host", 1},
               {"hosts", 1},
               {"hostfile", 1},
               {"machinefile", 1},
               {"f", 1},
               {"x", 1},
               {"wd", 1},
               {"wdir", 1},
               {"map-by", 1},
               {"bind-to", 1},
               {"rank-by", 1},
               {"ppn", 1},
               {"npernode", 1},
               {"mca", 2},
               {"gmca", 2},
               {"prtemca", 2},
               {"pmixmca", 2},
               {"genv", 2},
               {"env", 2},
               {"genvlist", 1},
               {"envlist", 1},
               {"path", 1},
               {"prefix", 1},
               {"launcher", 1},
               {"iface", 1},
               {"timeout", 1},
               {"output-filename", 1},
               {"am", 1},
               {"tune", 1},
               {"p", 1},
               {"t", 1},
               {"w", 1},
               {"J", 1},
               {"A", 1},
               {"q", 1},
               {"G", 1},
               {"o", 1},
               {"e", 1},
               {"i", 1},
               {"D", 1},
               {"ntasks", 1},
               {"nodes", 1},
               {"nodelist", 1},
               {"partition", 1},
               {"mpi", 1},
               {"export", 1},
               {"include", 1},
               {"exclude", 1},
               {"num_gpus", 1},
               {"num_nodes", 1},
               {"master_port", 1},
               {"master_addr", 1},
               {"nnodes", 1},
               {"nproc_per_node", 1},
               {"nproc-per-node", 1},
               {"rdzv_backend", 1},
               {"rdzv_endpoint", 1},
               {"rdzv_id", 1},
               {"node_rank", 1}};

/* They start what follows their options. */
static const char *const starters[] = {"env",     "nice", "nohup",  "time",   "timeout",  "numactl",
                                       "taskset", "chrt", "setsid", "stdbuf", "xvfb-run", "ionice"};

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static unsigned words_behind(const char *option) {
    const char *name = option + 1 + (option[1] == '-');
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strcmp(options[i].name, name) == 0)
            return options[i].words;
    return 0;
}

static bool is_program_file(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

bool program_file_find(char path[PATH_MAX], const char *word) {
    const char *places = getenv("PATH");
    size_t size = PATH_MAX;
    if (strchr(word, '/'))
        return (size_t)snprintf(path, size, "%s", word) < size && is_program_file(path);
    for (const char *p = places ? places : ""; *p; p += strcspn(p, ":"), p += *p == ':')
        if ((size_t)snprintf(path, size, "%.*s/%s", (int)strcspn(p, ":"), p, word) < size && is_program_file(path))
            return true;
    return false;
}

static bool is_starter(const char *word) {
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++)
        if (strcmp(base_name(word), starters[i]) == 0)
            return true;
    return false;
}

static bool is_launcher(const char *word, enum run_launcher launcher) {
    return launcher != LAUNCHER_NONE || strncmp(base_name(word), "torchrun", 8) == 0;
}

size_t run_options_end(char *const *argv, size_t from) {
    char path[PATH_MAX];
    size_t i = from;
    for (; argv[i] && strcmp(argv[i], ":") != 0; i++) {
        if (argv[i][0] != '-' && program_file_find(path, argv[i]))
            break;
        for (unsigned words = argv[i][0] == '-' ? words_behind(argv[i]) : 0; words > 0 && argv[i + 1]; words--)
            i++;
    }
    return i;
}

/* An option that has what it takes in the same word ("--np=4", "-n4"), or ends all options. */
static bool has_its_value(const char *option) {
    const char letter[] = {'-', option[1], '\0'};
    return strchr(option, '=') || strcmp(option, "--") == 0 ||
           (words_behind(letter) > 0 && option[2] >= '0' && option[2] <= '9');
}

/* What programs that start others take before its name: env's settings, the numbers of timeout, taskset and chrt. */
static bool is_starters_own(const char *word) {
    return strchr(word, '=') || (word[0] >= '0' && word[0] <= '9');
}

/* Words that are no program files are what an option that is not known here takes. */
char *run_launched_program(enum run_launcher launcher, char *const *argv, const char **missing) {
    char path[PATH_MAX];
    bool by_env = false, certain = true; /* that a word here is not what an option takes */
    *missing = NULL;
    for (size_t i = is_launcher(argv[0], launcher); argv[i]; i++) {
        if (argv[i][0] == '-') {
            bool alone = by_env && strcmp(argv[i], "-i") == 0; /* srun's takes a file */
            unsigned words = alone ? 0 : words_behind(argv[i]);
            certain = alone || words > 0 || has_its_value(argv[i]);
            for (; words > 0 && argv[i + 1]; words--)
                i++;
        } else if (program_file_find(path, argv[i])) {
            by_env = strcmp(base_name(argv[i]), "env") == 0;
            certain = true;
            if (!is_starter(argv[i]))
                return strdup(path);
        } else if (certain && !is_starters_own(argv[i])) {
            *missing = argv[i];
            return NULL;
        }
    }
    return NULL;
}
