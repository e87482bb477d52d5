/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/dumps/pid_namespaces.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/grow.h"

#define FIRST_NAMESPACE UINT64_C(0xeffffffc) /* linux/proc_ns.h: PROC_PID_INIT_INO */

/* "pid:[4026531836]" */
static uint64_t number_of(int directory, const char *path) {
    char link[64];
    ssize_t length = readlinkat(directory, path, link, sizeof link - 1);
    link[length > 0 ? length : 0] = '\0';
    const char *number = strchr(link, '[');
    return number ? strtoull(number + 1, NULL, 10) : 0;
}

uint64_t pid_namespace_own(void) {
    return number_of(AT_FDCWD, "/proc/self/ns/pid");
}

/* The last number of the line "NSpid:	here ... inside"; 0 where there is but one, or none. */
static int64_t number_inside(int process) {
    char text[4096];
    int file = openat(process, "status", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = '\0';
    char *line = strstr(text, "\nNSpid:");
    if (!line)
        return 0;
    line[1 + strcspn(line + 1, "\n")] = '\0';
    char *first = strchr(line, '\t'), *last = strrchr(line, '\t');
    return last && last != first ? strtoll(last + 1, NULL, 10) : 0;
}

static void look_at(struct pid_namespaces *namespaces, int proc, const char *name) {
    int process = openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int64_t inside = process >= 0 ? number_inside(process) : 0;
    if (inside > 0 && grow_list(namespaces->processes, namespaces->count))
        namespaces->processes[namespaces->count++] = (struct contained_process){
            .namespace = number_of(process, "ns/pid"), .inside = inside, .here = strtoll(name, NULL, 10)};
    else if (inside > 0)
        namespaces->incomplete = true;
    if (process >= 0)
        close(process);
}

void pid_namespaces_look(struct pid_namespaces *namespaces) {
    DIR *proc = opendir("/proc");
    *namespaces = (struct pid_namespaces){.own = pid_namespace_own(), .incomplete = !proc};
    if (!proc)
        return;
    /* where other users' processes are hidden (hidepid), the first one's is, too */
    namespaces->sees_all = namespaces->own == FIRST_NAMESPACE && access("/proc/1/status", R_OK) == 0;
    for (const struct dirent *entry; (entry = readdir(proc));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            look_at(namespaces, dirfd(proc), entry->d_name);
    closedir(proc);
}

void pid_namespaces_free(struct pid_namespaces *namespaces) {
    free(namespaces->processes);
    *namespaces = (struct pid_namespaces){0};
}

bool pid_namespaces_find(const struct pid_namespaces *namespaces, uint64_t namespace, int64_t inside,
                         bool (*is_that)(int64_t here, void *context), void *context) {
    for (size_t i = 0; i < namespaces->count; i++) {
        const struct contained_process *process = &namespaces->processes[i];
        bool may_be = process->namespace == namespace || process->namespace == 0;
        if (may_be && process->inside == inside && is_that(process->here, context))
            return true;
    }
    return false;
}

bool pid_namespaces_would_show(const struct pid_namespaces *namespaces, uint64_t namespace) {
    bool shown = namespaces->sees_all;
    for (size_t i = 0; i < namespaces->count && !shown; i++)
        shown = namespaces->processes[i].namespace == namespace;
    return shown && !namespaces->incomplete;
}
