/* SPDX-License-Identifier: Apache-2.0
 *
 * One table of launchers says which variables each of them sets.
 */
#include "shim/record/identity.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "shim/base/directory_pattern.h"
#include "shim/base/os.h"

/* The first launcher whose rank variable is set (and whose condition, if any, is) is taken: torchrun may run below
 * srun or mpirun, so the innermost comes first. `job` variables together name the job step, whenever it is started
 * anew; `start` what may be another one then, as torchrun's port: it names the world and not the run. */
static const struct launcher { /* arrays: pointers would be relocations */
    char name[12], rank[24], size[24], local_rank[28], local_size[28], condition[24];
    char job[3][28], start[2][12];
} launchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "TORCHELASTIC_RUN_ID",
     {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"},
     {"MASTER_ADDR", "MASTER_PORT"}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     "",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"},
     {""}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     "",
     "SLURM_STEP_ID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     {""}},
    {"PALS", "PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "", {"PALS_APID", "PBS_JOBID"}, {""}},
    {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "", "", {"FLUX_JOB_ID"}, {""}},
    {"PMIx", "PMIX_RANK", "", "", "", "", {"PMIX_NAMESPACE"}, {""}},
    {"hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", {"PMI_JOBID", "SLURM_JOB_ID"}, {""}},
    {"torch",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "",
     "MASTER_PORT",
     {"MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID"},
     {""}},
};

static const char *environment(const char *name) {
    const char *value = *name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

static int32_t environment_number(const char *name, int32_t fallback) {
    const char *value = environment(name);
    int64_t number;
    return value && parse_signed(value, &number) && number >= 0 && number <= INT32_MAX ? (int32_t)number : fallback;
}

static const struct launcher *find_launcher(void) {
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (environment_number(launchers[i].rank, -1) >= 0 &&
            (!*launchers[i].condition || environment(launchers[i].condition)))
            return &launchers[i];
    return NULL;
}

/* What /proc/PID/stat tells: name, parent, start time in clock ticks since boot. */
struct process {
    char name[32];
    int64_t parent;
    uint64_t start;
};

/* `pid` 0: this process, whatever its number is where /proc was mounted. */
static bool read_process(int64_t pid, struct process *p) {
    char path[64], line[1024];
    struct text t;
    text_begin(&t, path, sizeof path);
    text_add(&t, "/proc/");
    if (pid)
        text_add_signed(&t, pid);
    else
        text_add(&t, "self");
    text_add(&t, "/stat");
    if (read_small_file(path, line, sizeof line) <= 0)
        return false;
    char *open = strchr(line, '('), *close = strrchr(line, ')');
    if (!open || !close)
        return false;
    *close = '\0';
    copy_text(p->name, sizeof p->name, open + 1);
    int field = 2; /* proc(5): 2 = comm, 4 = ppid, 22 = starttime */
    for (char *word = strtok_r(close + 1, " ", &close); word; word = strtok_r(NULL, " ", &close)) {
        uint64_t value = 0;
        field++;
        if (field == 4 && parse_signed(word, &p->parent))
            continue;
        if (field == 22)
            return parse_unsigned(word, &value) && (p->start = value, true);
    }
    return false;
}

/* The proxies of one hydra mpiexec share the address of its control port, on all hosts. */
static uint64_t control_port_hash(int64_t proxy) {
    static const char option[] = "--control-port";
    char path[64], arguments[512];
    struct text t;
    text_begin(&t, path, sizeof path);
    text_add(&t, "/proc/");
    text_add_signed(&t, proxy);
    text_add(&t, "/cmdline");
    ssize_t n = read_small_file(path, arguments, sizeof arguments);
    for (char *word = arguments; n > 0 && word < arguments + n; word += strlen(word) + 1)
        if (!strcmp(word, option) && word + sizeof option < arguments + n)
            return hash_text(1, word + sizeof option);
    return 0;
}

/* Without a job id from the launcher: what the processes of a job have in common above them. Under hydra that is the
 * control port, whatever shells stand between; elsewhere the parent, by number and start: what starts within a clock
 * tick (10 ms) has one start. */
static uint64_t parent_hash(void) {
    struct process p = {.parent = 0};
    uint64_t parent = 0, port;
    for (int up = 0; up < 8; up++) {
        int64_t pid = p.parent;
        if ((up > 0 && pid == 0) || !read_process(pid, &p))
            break;
        if (up == 1)
            parent = hash_combine((uint64_t)pid, p.start);
        if (!strncmp(p.name, "hydra_pmi_proxy", 14) && (port = control_port_hash(pid)) != 0)
            return port;
    }
    return parent;
}

static bool add_variable(uint64_t *h, const char *name) {
    const char *value = environment(name);
    *h = value ? hash_text(*h, value) : *h;
    return value != NULL;
}

static bool named_by_launcher(const struct launcher *launcher, uint64_t *h) {
    bool named = false;
    for (size_t i = 0; launcher && i < sizeof launcher->job / sizeof *launcher->job; i++)
        named |= add_variable(h, launcher->job[i]);
    return named;
}

static uint64_t start_hash(const struct launcher *launcher, uint64_t job) {
    for (size_t i = 0; launcher && i < sizeof launcher->start / sizeof *launcher->start; i++)
        add_variable(&job, launcher->start[i]);
    return job;
}

/* torchrun calls a job so that was given no name. */
static bool is_nameless(const struct launcher *launcher) {
    const char *name = environment("TORCHELASTIC_RUN_ID");
    return launcher && !strcmp(launcher->name, "torchrun") && name && !strcmp(name, "none");
}

/* Of what started the job again; a requeued job of Slurm's may hold one that torchrun started. */
static uint32_t restarts(void) {
    return (uint32_t)environment_number("TORCHELASTIC_RESTART_COUNT", environment_number("SLURM_RESTART_COUNT", 0));
}

/* Slurm counts a job's restarts beside its number, from the second start on. */
static uint32_t batch_starts(void) {
    int32_t count = environment_number("SLURM_RESTART_COUNT", 0);
    return environment("SLURM_JOB_ID") && count < INT32_MAX ? (uint32_t)count + 1 : 0;
}

static uint64_t job_hash(const struct launcher *launcher, const char *host) {
    uint64_t h = hash_text(0, "commtap job"), parent = parent_hash();
    if (named_by_launcher(launcher, &h))
        return h;
    if (launcher && !strcmp(launcher->name, "hydra"))
        return hash_combine(h, parent);
    char cwd[1024] = "";
    if (!getcwd(cwd, sizeof cwd))
        cwd[0] = '\0';
    return hash_combine(hash_text(hash_text(h, host), cwd), parent);
}

/* Run ids become file names. */
static void set_run_id(char *to, size_t size, const char *knob, uint64_t job) {
    struct text t;
    text_begin(&t, to, size);
    if (!*knob) {
        text_add_hex16(&t, job);
        return;
    }
    text_add(&t, knob);
    for (char *c = to; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("_-", *c) ||
              (*c == '.' && c != to)))
            *c = '_';
}

/* Words end with zeros: without what follows the first one it is the program's name. */
static void read_command(char *to, size_t size, bool arguments) {
    ssize_t n = read_small_file("/proc/self/cmdline", to, size);
    for (ssize_t i = 0; arguments && i + 1 < n; i++)
        if (to[i] == '\0')
            to[i] = ' ';
    if (n < 0)
        to[0] = '\0';
    size_t length = strlen(to);
    memset(to + length, 0, size - length);
}

static void name_by_number(char *to, size_t size) {
    struct text t;
    text_begin(&t, to, size);
    text_add_unsigned(&t, getuid());
}

static void read_owner(struct dump_header *header) {
    const char *job = directory_job_id(), *user = directory_user();
    copy_text(header->job_id, sizeof header->job_id, job ? job : "");
    if (user)
        copy_text(header->user, sizeof header->user, user);
    else
        name_by_number(header->user, sizeof header->user);
    if (!getcwd(header->working_directory, sizeof header->working_directory))
        header->working_directory[0] = '\0';
}

/* Of the main thread: the launcher's choice, unless the program has made another one. Asked of the kernel itself: the
 * C library has two functions of that name, with different arguments. */
static void read_cpus(struct dump_header *header) {
    memset(header->cpus, 0, sizeof header->cpus);
    syscall(SYS_sched_getaffinity, header->pid, sizeof header->cpus, header->cpus);
}

static uint64_t start_realtime_ns(void) {
    struct process self;
    char uptime[64];
    long hertz = sysconf(_SC_CLK_TCK);
    if (hertz <= 0 || !read_process(0, &self) || read_small_file("/proc/uptime", uptime, sizeof uptime) <= 0)
        return os_realtime_ns();
    uint64_t up_seconds = 0;
    char *dot = strchr(uptime, '.');
    if (dot)
        *dot = '\0';
    parse_unsigned(uptime, &up_seconds);
    uint64_t started = self.start * 1000000000u / (uint64_t)hertz, up = up_seconds * 1000000000u;
    return os_realtime_ns() - (up > started ? up - started : 0);
}

/* Of a link like "time:[4026531834]"; 0: there is none. */
static uint64_t namespace_number(const char *path) {
    char link[64];
    uint64_t number = 0;
    ssize_t n = readlink(path, link, sizeof link - 1);
    for (ssize_t i = 0; i < n; i++)
        if (link[i] >= '0' && link[i] <= '9')
            number = number * 10 + (uint64_t)(link[i] - '0');
    return number;
}

static void read_host(struct dump_header *header) {
    struct utsname name;
    if (uname(&name) == 0)
        copy_text(header->host, sizeof header->host, name.nodename);
    ssize_t n = read_small_file("/proc/sys/kernel/random/boot_id", header->boot_id, sizeof header->boot_id);
    if (n > 0 && header->boot_id[n - 1] == '\n')
        header->boot_id[n - 1] = '\0';
    header->time_namespace = namespace_number("/proc/self/ns/time");
    header->pid_namespace = namespace_number("/proc/self/ns/pid");
}

void identity_fill(struct dump_header *header, const char *run_id_knob, bool arguments) {
    const struct launcher *launcher = find_launcher();
    read_host(header);
    read_command(header->command, sizeof header->command, arguments);
    read_owner(header);
    header->pid = getpid();
    read_cpus(header);
    header->parent_pid = getppid();
    header->process_start_realtime_ns = start_realtime_ns();
    header->rank = launcher ? environment_number(launcher->rank, RANK_UNKNOWN) : RANK_UNKNOWN;
    header->world_size = launcher ? environment_number(launcher->size, RANK_UNKNOWN) : RANK_UNKNOWN;
    header->local_rank = launcher ? environment_number(launcher->local_rank, RANK_UNKNOWN) : RANK_UNKNOWN;
    header->local_size = launcher ? environment_number(launcher->local_size, RANK_UNKNOWN) : RANK_UNKNOWN;
    header->rank_source = header->rank >= 0 ? RANK_FROM_LAUNCHER : RANK_FROM_NOWHERE;
    header->generation = restarts();
    header->batch_starts = batch_starts();
    copy_text(header->launcher, sizeof header->launcher, launcher ? launcher->name : "");
    uint64_t job = job_hash(launcher, header->host), start = start_hash(launcher, job);
    set_run_id(header->run_id, sizeof header->run_id, run_id_knob, is_nameless(launcher) ? start : job);
    header->world_id = hash_combine(start, header->generation);
}
