/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that runs: can the library be preloaded into it, and by which way do MPI and NCCL come?
 * Must not live here: Python's modules (python.c).
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/doctor/doctor.h"

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_AARCH64
#endif

/* ---- what keeps the library out -------------------------------------------------------------- */

/* What is wrong with the file, and the remedy, parted by '\n'; NULL: nothing. */
static const char *obstacle_of(const struct program_file *file) {
    if (!file->is_elf)
        return "is no program that this kernel starts\nname the program that runs it";
    if (file->is_cut)
        return "is cut off: its headers tell of more than the file has\ncopy it again, or build it anew";
    if (!file->is_64_bits)
        return "is no 64-bit program: commtap knows no other ones\nbuild it for 64 bits";
    if (file->machine != OUR_MACHINE)
        return "is built for another processor than commtap\nask on a node that runs it";
    if (!file->interpreter[0])
        return "is statically linked, so nothing can be preloaded into it\nlink it without -static, and to the shared "
               "libraries of MPI and NCCL";
    if (strstr(file->interpreter, "ld-musl"))
        return "is linked to musl, and libcommtap.so needs glibc 2.28 or newer\nbuild it on a system with glibc";
    if (file->is_setuid)
        return "is setuid or setgid, and the loader ignores LD_PRELOAD then\nrecord a copy without these rights (cp "
               "makes one)";
    if (file->has_capabilities)
        return "has file capabilities, and the loader ignores LD_PRELOAD then\nrecord a copy without them (cp makes "
               "one)";
    return NULL;
}

static void say_obstacle(struct doctor *doctor, const char *obstacle) {
    int length = (int)strcspn(obstacle, "\n");
    checks_add(&doctor->checks, CHECK_BLOCKED, "program", "%s %.*s\n%s", doctor->binary, length, obstacle,
               obstacle + length + 1);
}

static bool is_preloaded(struct doctor *doctor, const struct loaded_libraries *list) {
    char line[1024];
    if (libraries_complaint(list, "=> not found", line, sizeof line) ||
        libraries_complaint(list, "error while loading", line, sizeof line)) {
        checks_add(&doctor->checks, CHECK_BLOCKED, "program",
                   "%s does not start here: %s\nload its module, or set LD_LIBRARY_PATH, as for the job",
                   doctor->binary, line);
        return false;
    }
    if (!doctor->library[0] || libraries_hold(list, doctor->library))
        return true;
    bool known = libraries_complaint(list, "LD_PRELOAD", line, sizeof line) ||
                 libraries_complaint(list, "GLIBC_", line, sizeof line);
    checks_add(&doctor->checks, CHECK_BLOCKED, "library", "%s cannot be preloaded into %s%s%s\n%s", doctor->library,
               doctor->binary, known ? ": " : "", known ? line : "",
               "the library needs glibc 2.28 or newer and the program's own processor");
    return false;
}

/* ---- MPI and NCCL ---------------------------------------------------------------------------- */

static const char *bound_text(enum bound bound) {
    static const char *const texts[] = {"not", "linked to it", "loaded while it runs", "linked statically"};
    return texts[bound];
}

static bool find_mpi(struct doctor *doctor, const struct loaded_libraries *list) {
    static const char *const names[] = {"libmpi.so", "libmpich.so", "libmpi_abi.so", "libmpi_", "libmpi"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (libraries_find(list, names[i], path)) {
            doctor->mpi_bound = BOUND_AT_START;
            library_ask_mpi(&doctor->mpi, path);
            return true;
        }
    return false;
}

static void look_for_mpi(struct doctor *doctor, const struct loaded_libraries *list) {
    const struct program_file *file = &doctor->file;
    if (file->defines_pmpi) {
        doctor->mpi_bound = BOUND_STATIC;
        checks_add(&doctor->checks, CHECK_BLOCKED, "mpi",
                   "%s has MPI linked into it statically: its calls do not come by a library\nlink it to the shared "
                   "library of MPI",
                   doctor->binary);
    } else if (!find_mpi(doctor, list) && file->names_mpi) {
        doctor->mpi_bound = BOUND_WHILE_RUNNING;
    }
    if (file->is_commtap_mpi)
        checks_add(&doctor->checks, CHECK_BLOCKED, "mpi",
                   "%s is a part of commtap, which is never recorded\nrun it without commtap", doctor->binary);
    else if (file->calls_pmpi && !file->defines_pmpi)
        checks_add(&doctor->checks, CHECK_PART, "mpi",
                   "%s calls PMPI functions itself, which commtap does not see\ncall the MPI functions of that name",
                   doctor->binary);
}

static void look_for_nccl(struct doctor *doctor, const struct loaded_libraries *list) {
    char path[PATH_MAX];
    if (doctor->file.defines_nccl) {
        doctor->nccl_bound = BOUND_STATIC;
        checks_add(&doctor->checks, CHECK_BLOCKED, "nccl",
                   "%s has NCCL linked into it statically: its calls do not come by a library; from 2.27 on its "
                   "profiler plugin at least counts them\nlink it to libnccl.so",
                   doctor->binary);
    } else if (libraries_find(list, "libnccl.so", path) || libraries_find(list, "librccl.so", path)) {
        doctor->nccl_bound = BOUND_AT_START;
        library_ask_nccl(&doctor->nccl, path);
    } else if (doctor->file.names_nccl) {
        doctor->nccl_bound = BOUND_WHILE_RUNNING;
    }
}

static void say_library(struct doctor *doctor, const char *subject, const char *what, const struct found_library *found,
                        enum bound bound) {
    if (bound == BOUND_NOT || bound == BOUND_STATIC)
        return;
    const char *name = found->name.name[0] ? found->name.name : what;
    if (found->path[0])
        checks_add(&doctor->checks, CHECK_FINE, subject, "%s%s%s is %s and seen: %s", name,
                   found->name.version[0] ? " " : "", found->name.version, bound_text(bound), found->path);
    else
        checks_add(&doctor->checks, CHECK_FINE, subject,
                   "%s is %s; which one is not known before. It is seen, unless it is loaded with RTLD_DEEPBIND or "
                   "dlmopen",
                   name, bound_text(bound));
}

/* ---- what else is loaded --------------------------------------------------------------------- */

static void look_for_others(struct doctor *doctor, const struct loaded_libraries *list) {
    static const char *const unseen[][2] = {
        {"libgloo", "Gloo"}, {"libccl.so", "oneCCL"}, {"libnvshmem", "NVSHMEM"}, {"libhccl", "HCCL"}};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++)
        if (libraries_find(list, unseen[i][0], path))
            checks_add(&doctor->checks, CHECK_PART, "others", "%s communicates out of commtap's sight: %s",
                       unseen[i][1], path);
    if (libraries_find(list, "libasan.so", path))
        checks_add(&doctor->checks, CHECK_PART, "program",
                   "GCC's AddressSanitizer is in it, which refuses preloaded libraries\nuse commtap run, or set "
                   "ASAN_OPTIONS=verify_asan_link_order=0");
}

static bool is_python(const char *path) {
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, "python", 6) == 0 || strncmp(slash ? slash + 1 : path, "pypy", 4) == 0;
}

void doctor_look_at_binary(struct doctor *doctor) {
    struct loaded_libraries list;
    const char *obstacle = obstacle_of(&doctor->file);
    if (!obstacle && access(doctor->file.interpreter, X_OK) != 0)
        obstacle = "needs a dynamic loader that is not here\nask on a node that runs it";
    if (obstacle) {
        say_obstacle(doctor, obstacle);
        return;
    }
    char *preload = run_preload_value(doctor->library, getenv("LD_PRELOAD"));
    libraries_list(&list, doctor->file.interpreter, doctor->binary, preload ? preload : "");
    free(preload);
    if (!is_preloaded(doctor, &list))
        return;
    look_for_mpi(doctor, &list);
    look_for_nccl(doctor, &list);
    look_for_others(doctor, &list);
    if (is_python(doctor->binary))
        doctor_ask_python(doctor);
    say_library(doctor, "mpi", "MPI", &doctor->mpi, doctor->mpi_bound);
    say_library(doctor, "nccl", "NCCL", &doctor->nccl, doctor->nccl_bound);
    if (doctor->mpi_bound == BOUND_NOT && doctor->nccl_bound == BOUND_NOT && !doctor->is_shell)
        checks_add(&doctor->checks, CHECK_PART, "program",
                   "%s shows no sign of MPI or NCCL: what it loads or starts while it runs is seen all the same",
                   doctor->binary);
}
