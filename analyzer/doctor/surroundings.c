/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job finds here whatever its program is: the library, knobs, places that another tool may have taken, limits.
 * Must not live here: the place for dumps (places.c).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "analyzer/cli/knobs.h"
#include "analyzer/doctor/child.h"
#include "analyzer/doctor/doctor.h"
#include "analyzer/load/filter.h"
#include "shim/base/directory_pattern.h"
#include "shim/base/knob_values.h"
#include "shim/call.h"

/* ---- the library ----------------------------------------------------------------------------- */

void doctor_find_library(struct doctor *doctor) {
    char tried[PATH_MAX + 128];
    char *path = run_library_path(tried, sizeof tried);
    if (!path) {
        checks_add(&doctor->checks, CHECK_BLOCKED, "library",
                   "there is no readable libcommtap.so (looked at: %s)\ninstall it beside commtap, or name it in "
                   "COMMTAP_LIBRARY",
                   tried);
    } else if (strpbrk(path, " :")) {
        checks_add(&doctor->checks, CHECK_BLOCKED, "library",
                   "%s: LD_PRELOAD cannot hold a path with a blank or a colon\nmove it to a directory without them",
                   path);
    } else {
        snprintf(doctor->library, sizeof doctor->library, "%s", path);
        checks_add(&doctor->checks, CHECK_FINE, "library", "%s", path);
    }
    free(path);
}

/* ---- knobs ----------------------------------------------------------------------------------- */

static void complain_of_policy(struct doctor *doctor, const struct knob_complaint *complaint) {
    static const char remedy[] = "commtap env says what a policy may hold and whose it may be";
    if (!complaint->name)
        checks_add(&doctor->checks, CHECK_PART, "knobs", "%s: %s\n%s", complaint->where, complaint->why, remedy);
    else if (!complaint->given)
        checks_add(&doctor->checks, CHECK_PART, "knobs", "%s: no knob is called %s\n%s", complaint->where,
                   complaint->name, remedy);
    else
        checks_add(&doctor->checks, CHECK_PART, "knobs", "%s: %s=%s %s: %s is used\n%s", complaint->where,
                   complaint->name, complaint->given, complaint->why, complaint->used, remedy);
}

static void complain(void *context, const struct knob_complaint *complaint) {
    struct doctor *doctor = context;
    if (complaint->where) {
        complain_of_policy(doctor, complaint);
        return;
    }
    if (complaint->given)
        checks_add(&doctor->checks, CHECK_PART, "knobs", "%s=%s %s: %s is used\ncommtap env says what it takes",
                   complaint->name, complaint->given, complaint->why, complaint->used);
    else if (complaint->near)
        checks_add(&doctor->checks, CHECK_PART, "knobs", "no knob is called %s\n%s may be meant", complaint->name,
                   complaint->near);
    else
        checks_add(&doctor->checks, CHECK_PART, "knobs", "no knob is called %s\ncommtap env lists those that there are",
                   complaint->name);
}

/* How many of the functions that are intercepted a pattern lets through. */
static size_t functions_left(const char *patterns) {
    static const char *const names[] = {
#define CALL(NUMBER, NAME, ...) #NAME,
#include "shim/calls.def"
#undef CALL
    };
    const struct filter filter = {.op = (char *)patterns};
    size_t left = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        left += filter_op(&filter, names[i]);
    return left;
}

static void look_at_operations(struct doctor *doctor, const char *patterns) {
    if (functions_left(patterns) == 0) {
        checks_add(&doctor->checks, CHECK_BLOCKED, "knobs",
                   "COMMTAP_OPS=%s leaves no function to record\nname functions, as in allreduce,send*", patterns);
        return;
    }
    for (const char *at = patterns; *at;) {
        char pattern[256];
        size_t length = strcspn(at, ","), mark = *at == '!';
        snprintf(pattern, sizeof pattern, "%.*s", (int)(length - mark), at + mark);
        if (pattern[0] && functions_left(pattern) == 0)
            checks_add(&doctor->checks, CHECK_PART, "knobs",
                       "COMMTAP_OPS: %s matches no function that is intercepted\nfunctions are listed in shim/CALLS.md",
                       pattern);
        at += length + (at[length] == ',');
    }
}

/* How to have another value of a knob: what the policy fixes, the environment cannot set. */
static const char *remedy_of(const struct doctor *doctor, const char *name, const char *otherwise, char *text,
                             size_t size) {
    for (size_t i = 0; i < KNOBS; i++)
        if (strcmp(doctor->knobs.settings[i].knob->name, name) == 0 &&
            doctor->knobs.settings[i].source == KNOB_FIXED_BY_POLICY) {
            snprintf(text, size, "change the policy, which fixes it: %s", doctor->knobs.policy);
            return text;
        }
    return otherwise;
}

/* What leaves a job without dumps although all is well. */
static void look_at_bounds(struct doctor *doctor) {
    const char *share = knobs_value(&doctor->knobs, "COMMTAP_SHARE");
    const char *seconds = knobs_value(&doctor->knobs, "COMMTAP_MIN_SECONDS");
    char remedy[PATH_MAX + 64];
    uint64_t number = 0;
    if (knob_percent(share, &number) && number == 0)
        checks_add(
            &doctor->checks, CHECK_BLOCKED, "knobs", "no job is recorded: COMMTAP_SHARE is 0\n%s",
            remedy_of(doctor, "COMMTAP_SHARE", "set COMMTAP_SHARE=100, as commtap run does", remedy, sizeof remedy));
    else if (knob_percent(share, &number) && number < 1000000)
        checks_add(
            &doctor->checks, CHECK_PART, "knobs", "%s %% of the jobs are recorded: COMMTAP_SHARE\n%s", share,
            remedy_of(doctor, "COMMTAP_SHARE", "set COMMTAP_SHARE=100, as commtap run does", remedy, sizeof remedy));
    if (knob_number(seconds, &number) && number > 0)
        checks_add(&doctor->checks, CHECK_PART, "knobs",
                   "jobs that end well in less than %s s leave no dump: COMMTAP_MIN_SECONDS\n%s", seconds,
                   remedy_of(doctor, "COMMTAP_MIN_SECONDS", "set COMMTAP_MIN_SECONDS=0, as commtap run does", remedy,
                             sizeof remedy));
}

void doctor_look_at_knobs(struct doctor *doctor) {
    size_t before = doctor->checks.count;
    char remedy[PATH_MAX + 64];
    bool on = true;
    doctor->checks.no_memory |= !knobs_in_force(&doctor->knobs, complain, doctor);
    knobs_unknown(complain, doctor);
    const char *enable = knobs_value(&doctor->knobs, "COMMTAP_ENABLE");
    if (knob_switch(enable, &on) && !on)
        checks_add(&doctor->checks, CHECK_BLOCKED, "knobs", "recording is switched off: COMMTAP_ENABLE=%s\n%s", enable,
                   remedy_of(doctor, "COMMTAP_ENABLE", "set COMMTAP_ENABLE=1", remedy, sizeof remedy));
    look_at_operations(doctor, knobs_value(&doctor->knobs, "COMMTAP_OPS"));
    look_at_bounds(doctor);
    if (doctor->checks.count == before)
        checks_add(&doctor->checks, CHECK_FINE, "knobs", "all that are set mean what they say");
}

/* ---- places that NCCL and NVTX have for one tool only ------------------------------------------ */

enum { PLUGIN_FROM = 22700 }; /* NCCL's interface for profilers in the form that the library speaks */

/* 20703 of "2.7.3", -1 where it is not known. */
static long version_code(const char *version) {
    unsigned major, minor, patch;
    return sscanf(version, "%u.%u.%u", &major, &minor, &patch) == 3
               ? (long)major * 10000 + (long)minor * 100 + (long)patch
               : -1;
}

/* Is the variable set to something that is not our library? */
static const char *taken_by(const struct doctor *doctor, const char *variable) {
    const char *value = getenv(variable);
    return value && *value && strcmp(value, doctor->library) != 0 ? value : NULL;
}

static void look_at_profiler(struct doctor *doctor) {
    const char *timing = knobs_value(&doctor->knobs, "COMMTAP_GPU_TIMING"),
               *other = taken_by(doctor, "NCCL_PROFILER_PLUGIN");
    long code = version_code(doctor->nccl.name.version);
    if (strcmp(timing, "off") == 0)
        checks_add(&doctor->checks, CHECK_PART, "plugin",
                   "GPU times are switched off: COMMTAP_GPU_TIMING=off\nunset COMMTAP_GPU_TIMING");
    else if (other)
        checks_add(
            &doctor->checks, CHECK_PART, "plugin",
            "NCCL's profiler plugin is another one's: NCCL_PROFILER_PLUGIN=%s. Times from inside NCCL's kernels and "
            "calls that interception missed are not known; GPU operations are timed by events\nunset "
            "NCCL_PROFILER_PLUGIN",
            other);
    else if (code >= 0 && code < PLUGIN_FROM)
        checks_add(&doctor->checks, CHECK_PART, "plugin",
                   "NCCL %s has no interface for profilers that commtap speaks (2.27 has): GPU operations are timed by "
                   "events",
                   doctor->nccl.name.version);
    else
        checks_add(&doctor->checks, CHECK_FINE, "plugin", "NCCL's profiler plugin is free: commtap becomes it");
}

void doctor_look_at_plugins(struct doctor *doctor) {
    const char *stack = knobs_value(&doctor->knobs, "COMMTAP_STACK"),
               *other = taken_by(doctor, "NVTX_INJECTION64_PATH");
    look_at_profiler(doctor);
    if (other)
        checks_add(&doctor->checks, CHECK_PART, "nvtx",
                   "NVTX ranges go to another tool: NVTX_INJECTION64_PATH=%s\nunset NVTX_INJECTION64_PATH", other);
    else if (strcmp(stack, "full") != 0)
        checks_add(&doctor->checks, CHECK_FINE, "nvtx", "NVTX ranges are no part of stacks: COMMTAP_STACK=%s", stack);
    else
        checks_add(&doctor->checks, CHECK_FINE, "nvtx", "NVTX is free: the job's ranges become frames and steps");
}

/* ---- the process ----------------------------------------------------------------------------- */

/* The number behind `name` in /proc/self/status, 0 where there is none. */
static long status_of(const char *name) {
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long value = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name), NULL, 10);
    if (file)
        fclose(file);
    return value;
}

/* System calls that few programs make, as the library makes them: a filter may kill for them. */
static void make_rare_calls(const void *nothing, int fd) {
    long page = sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)nothing;
    syscall(SYS_rt_sigprocmask, ~0, memory, NULL, 8);
    if (memory != MAP_FAILED)
        madvise(memory, (size_t)page, 23); /* MADV_POPULATE_WRITE */
    if (fallocate(fd, 0, 0, 1) == 0 || write(fd, "fine", 4) != 4)
        _exit(1);
}

static void look_at_filter(struct doctor *doctor) {
    char text[16];
    bool survived = child_call(make_rare_calls, NULL, text, sizeof text);
    long mode = status_of("Seccomp:");
    if (!survived)
        checks_add(
            &doctor->checks, CHECK_BLOCKED, "process",
            "system calls that the library makes end a process here%s\nallow rt_sigprocmask, madvise and fallocate, "
            "or run without the filter",
            mode ? ": a seccomp filter is in force" : "");
    else
        checks_add(&doctor->checks, CHECK_FINE, "process",
                   "%s; commtap attaches to no process, so that limits on ptrace do not matter",
                   mode ? "the seccomp filter here lets the library's system calls pass"
                        : "no seccomp filter is in force");
}

/* A dump with COMMTAP_RING as it is by default is 3.7 MB long, most of it holes. */
enum { DUMP_BYTES = 4 << 20 };

static void look_at_limits(struct doctor *doctor) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < DUMP_BYTES)
        checks_add(&doctor->checks, CHECK_PART, "limits",
                   "files may be %llu KB long, less than a dump (ulimit -f)\nraise it to 4 MB or more, or make "
                   "COMMTAP_RING smaller",
                   (unsigned long long)limit.rlim_cur >> 10);
    else
        checks_add(&doctor->checks, CHECK_FINE, "limits", "files may be as long as a dump");
}

void doctor_look_at_process(struct doctor *doctor) {
    long tracer = status_of("TracerPid:");
    look_at_filter(doctor);
    if (tracer > 0)
        checks_add(
            &doctor->checks, CHECK_PART, "process",
            "process %ld traces this one, as strace and gdb do: times of a job started here include that\nstart it "
            "without the tracer",
            tracer);
    look_at_limits(doctor);
}
