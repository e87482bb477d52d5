/* SPDX-License-Identifier: Apache-2.0
 *
 * What is not touched costs nothing where there is no policy. The path is copied: programs write their titles over
 * their environment.
 */
#include "shim/record/policy.h"

#include <errno.h>

#include "shim/base/os.h"
#include "shim/base/system_call.h"

static struct {
    const char *trouble;
    bool holds_zero; /* one of its bytes is: */
    long zero_at;
    char path[1024]; /* "": there is none */
    char text[POLICY_BYTES];
} policy;

/* Where the process has rights that its user lacks, the user names no file. */
AT_START static bool has_users_rights(void) {
    return system_call(SYS_getuid, 0, 0, 0, 0) == system_call(SYS_geteuid, 0, 0, 0, 0) &&
           system_call(SYS_getgid, 0, 0, 0, 0) == system_call(SYS_getegid, 0, 0, 0, 0);
}

AT_START static bool read_text(int fd) {
    long used = 0, got = 0;
    do {
        used += got;
        got = system_call(SYS_read, fd, (long)(policy.text + used), (long)sizeof policy.text - 1 - used, 0);
    } while (got > 0);
    policy.text[used] = '\0';
    policy.zero_at = (long)strlen(policy.text);
    policy.holds_zero = policy.zero_at < used;
    return got == 0;
}

AT_START static const char *read_open(int fd) {
    struct stat status = {0}; /* on 64-bit machines the kernel's structure is libc's */
    if (system_call(SYS_fstat, fd, (long)&status, 0, 0) < 0)
        return "it cannot be read";
    const char *objection = policy_objection(&status, (uid_t)system_call(SYS_geteuid, 0, 0, 0, 0));
    return objection ? objection : !read_text(fd) ? "it cannot be read" : policy.holds_zero ? POLICY_ZERO_BEFORE : NULL;
}

/* Most machines have none: then this is one system call, and nothing is written. */
AT_START bool policy_read(const char *named) {
    const char *path = named && *named && has_users_rights() ? named : POLICY_FILE;
    if (policy_is_off(path))
        return false;
    long fd = system_call(SYS_openat, AT_FDCWD, (long)path, POLICY_OPEN_FLAGS, 0);
    if (fd < 0 && path != named && fd == -ENOENT)
        return false;
    copy_text(policy.path, sizeof policy.path, path);
    policy.trouble = fd >= 0 ? read_open((int)fd) : fd == -ELOOP ? "it is a link" : "it cannot be opened";
    if (fd >= 0)
        system_call(SYS_close, fd, 0, 0, 0);
    if (policy.trouble)
        policy.text[0] = '\0';
    return !policy.trouble;
}

AT_START bool policy_line_next(const char **at, struct policy_line *line) {
    if (!*at)
        *at = policy.text;
    return policy_next(at, line);
}

const char *policy_path(void) {
    return policy.path[0] ? policy.path : NULL;
}

const char *policy_trouble(void) {
    return policy.trouble;
}

void policy_add_trouble(struct text *t) {
    text_add(t, policy.trouble);
    if (!policy.holds_zero)
        return;
    text_add_unsigned(t, (uint64_t)policy.zero_at);
    text_add(t, POLICY_ZERO_BEHIND);
}
