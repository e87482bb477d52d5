/* SPDX-License-Identifier: Apache-2.0
 *
 * Where dumps would go, and why there.
 * Lives here: the directory as it would be, its file system, the place where dumps are staged otherwise.
 * Must not live here: making anything.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "analyzer/base/planted_path.h"
#include "analyzer/doctor/doctor.h"
#include "shim/base/directory_pattern.h"
#include "shim/base/file_system.h"
#include "shim/format.h"

#define DEFAULT_NAME "commtap-<run id>"

static const char *const staging[] = {FORMAT_STAGING_DIRECTORIES};

static void name_file_system(char *name, size_t size, const char *path) {
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {{TMPFS_MAGIC, "tmpfs"},  {EXT_MAGIC, "ext4"},  {XFS_MAGIC, "xfs"},     {0x9123683E, "btrfs"},
                 {0x794C7630, "overlay"}, {0x6969, "nfs"},      {0x0BD00BD0, "lustre"}, {0x2FC12FC1, "zfs"},
                 {0x65735546, "fuse"},    {0x47504653, "gpfs"}, {0x19830326, "beegfs"}, {0x00C36400, "ceph"},
                 {0xFF534D42, "cifs"},    {0xF2F52010, "f2fs"}, {0x9FA0, "proc"},       {0x01021997, "9p"},
                 {0x73717368, "squashfs"}};
    struct statfs status;
    unsigned long magic = statfs(path, &status) == 0 ? (unsigned long)status.f_type & 0xFFFFFFFF : 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].magic == magic) {
            snprintf(name, size, "%s", known[i].name);
            return;
        }
    snprintf(name, size, "type %#lx", magic);
}

/* File systems of the kernel's own: whoever may write there makes settings, and no files that hold data. */
static bool keeps_no_files(const char *path) {
    static const unsigned long kernels[] = {PROC_SUPER_MAGIC,   SYSFS_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                                            DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC,  TRACEFS_MAGIC,      SECURITYFS_MAGIC,
                                            BPF_FS_MAGIC,       EFIVARFS_MAGIC, PSTOREFS_MAGIC,     NSFS_MAGIC,
                                            SELINUX_MAGIC,      BINFMTFS_MAGIC};
    struct statfs status;
    bool known = statfs(path, &status) == 0, found = false;
    for (size_t i = 0; known && !found && i < sizeof kernels / sizeof *kernels; i++)
        found = kernels[i] == ((unsigned long)status.f_type & 0xFFFFFFFF);
    return found;
}

/* The directory itself, or the nearest one above it that is there. */
static void find_existing(char path[PATH_MAX], const char *directory) {
    struct stat status;
    snprintf(path, PATH_MAX, "%s", directory);
    while (stat(path, &status) != 0 && errno == ENOENT && strcmp(path, "/") != 0 && strcmp(path, ".") != 0) {
        char *slash = strrchr(path, '/');
        if (slash)
            slash[slash == path] = '\0';
        else
            strcpy(path, ".");
    }
}

static const char *find_staging(void) {
    for (size_t i = 0; i < sizeof staging / sizeof *staging; i++)
        if (file_system_keeps_blocks(staging[i]) && access(staging[i], W_OK | X_OK) == 0)
            return staging[i];
    return NULL;
}

static void say_full(struct doctor *doctor, const char *place) {
    struct statvfs status;
    uint64_t bytes = statvfs(place, &status) == 0 ? (uint64_t)status.f_bavail * status.f_frsize : UINT64_MAX;
    if (bytes < RUN_ROOM_FOR_A_DUMP)
        checks_add(&doctor->checks, CHECK_BLOCKED, "dumps",
                   "%s has room for %" PRIu64 " KB, less than a dump takes\nmake room, or set COMMTAP_DIR", place,
                   bytes >> 10);
}

/* Whether words are left in it that only the job's processes know. */
static bool has_open_words(const char *pattern) {
    const char *word = strchr(pattern, '%');
    while (word && word[1] == '%')
        word = strchr(word + 2, '%');
    return word != NULL;
}

static void say_place(struct doctor *doctor, const struct run_directory *directory, const char *existing) {
    const char *shown = has_open_words(directory->value) ? directory->value : doctor->directory;
    const char *why = *knobs_value(&doctor->knobs, "COMMTAP_DIR") ? "COMMTAP_DIR" : "by default";
    name_file_system(doctor->file_system, sizeof doctor->file_system, existing);
    doctor->mapped = file_system_keeps_blocks(existing);
    doctor->staged_in = doctor->mapped ? NULL : find_staging();
    if (doctor->mapped)
        checks_add(&doctor->checks, CHECK_FINE, "dumps", "they go to %s (%s) and are written there directly: %s", shown,
                   why, doctor->file_system);
    else if (doctor->staged_in)
        checks_add(
            &doctor->checks, CHECK_FINE, "dumps",
            "they go to %s (%s), by way of %s of the node, since a write into a mapped file may fail on %s; they "
            "are copied at exit\nafter a job that was killed: commtap-collect DIR",
            shown, why, doctor->staged_in, doctor->file_system);
    else
        checks_add(
            &doctor->checks, CHECK_PART, "dumps",
            "they go to %s (%s, %s) at exit and are kept in memory until then, as no place of the node is fit: a "
            "process that is killed leaves none\nset COMMTAP_DIR to a directory on ext4 or tmpfs",
            shown, why, doctor->file_system);
}

static void look_at_place(struct doctor *doctor, const struct run_directory *directory) {
    char existing[PATH_MAX], planted[PATH_MAX];
    struct stat status;
    snprintf(doctor->directory, sizeof doctor->directory, "%s", directory->place);
    find_existing(existing, directory->place);
    snprintf(planted, sizeof planted, "%s", directory->place);
    if (planted_path_cut(planted)) {
        checks_add(&doctor->checks, CHECK_BLOCKED, "dumps",
                   "they would go to %s, behind %s, a link that another user has put there: nothing is recorded\nset "
                   "COMMTAP_DIR, or -o of commtap run",
                   doctor->directory, planted);
        return;
    }
    int error = stat(existing, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
    if (!error && access(existing, W_OK | X_OK) != 0)
        error = errno;
    if (!error && keeps_no_files(existing))
        error = EPERM; /* what making a directory there gives */
    if (error) {
        checks_add(&doctor->checks, CHECK_BLOCKED, "dumps",
                   "they cannot be written to %s: %s: %s\nset COMMTAP_DIR, or -o of commtap run", doctor->directory,
                   existing, strerror(error));
        return;
    }
    say_place(doctor, directory, existing);
    say_full(doctor, doctor->mapped || !doctor->staged_in ? existing : doctor->staged_in);
}

void doctor_look_at_dumps(struct doctor *doctor) {
    struct run_directory directory;
    const char *given = knobs_value(&doctor->knobs, "COMMTAP_DIR"), *pattern = *given ? given : DEFAULT_NAME;
    if (directory_pattern_mistake(pattern)) {
        checks_add(
            &doctor->checks, CHECK_PART, "dumps",
            "COMMTAP_DIR=%s: '%.2s' stands for nothing, so that ./commtap-<run id> is used\n%%j %%u %%h %%p %%r stand "
            "for something, and %%%% for a percent sign",
            given, directory_pattern_mistake(pattern));
        pattern = DEFAULT_NAME;
    }
    if (run_directory_make(&directory, pattern))
        look_at_place(doctor, &directory);
    else
        checks_add(&doctor->checks, CHECK_BLOCKED, "dumps",
                   "the name of their directory is too long\nshorten COMMTAP_DIR");
    run_directory_free(&directory);
}
