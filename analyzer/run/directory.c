/* SPDX-License-Identifier: Apache-2.0
 *
 * COMMTAP_DIR of a job: what of its words is known before the job runs, and where to look for the dumps then.
 * Lives here: writing out the pattern, cutting it where only the processes know more.
 * Must not live here: making the directory, messages.
 */
#include "analyzer/run/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "shim/base/directory_pattern.h"

/* The directory above the first part that has a % left: all that it may mean lies below. In place. */
static void cut_at_unknown(char *path) {
    char *unknown = strchr(path, '%');
    if (!unknown)
        return;
    *unknown = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        strcpy(path, ".");
    else
        slash[slash == path] = '\0';
}

/* Percent signs of a directory's own name, where a pattern is made of it. */
static bool escape_percent(char *to, size_t size, const char *from) {
    size_t used = 0;
    for (; *from && used + 2 < size; from++) {
        to[used++] = *from;
        if (*from == '%')
            to[used++] = '%';
    }
    to[used] = '\0';
    return !*from;
}

static bool make_absolute(char *to, size_t size, const char *pattern) {
    char here[PATH_MAX], escaped[2 * PATH_MAX];
    if (pattern[0] == '/' || !getcwd(here, sizeof here))
        return (size_t)snprintf(to, size, "%s", pattern) < size;
    return escape_percent(escaped, sizeof escaped, here) &&
           (size_t)snprintf(to, size, "%s/%s", escaped, pattern) < size;
}

/* With percent signs as they are; what is not known yet has its letter behind "\1", which no word holds. */
static char *write_out(const char *pattern, const char *host, bool cut) {
    char text[PATH_MAX];
    const struct directory_words words = {"\1", "\1", host, "\1", "\1", "\2"};
    if (!directory_pattern_expand(text, sizeof text, pattern, &words))
        return NULL;
    if (!cut && strchr(text, '\1'))
        return NULL;
    for (char *c = text; *c; c++)
        *c = (char)(*c == '\1' ? '%' : *c);
    cut_at_unknown(text);
    for (char *c = text; *c; c++)
        *c = (char)(*c == '\2' ? '%' : *c);
    return strdup(text);
}

bool run_directory_make(struct run_directory *directory, const char *pattern) {
    char job[64] = "%j", user[64], host[64] = "x", value[2 * PATH_MAX], known[2 * PATH_MAX];
    struct utsname name;
    if (directory_job_id())
        directory_clean_word(job, sizeof job, directory_job_id());
    directory_user_word(user, sizeof user, directory_user());
    if (uname(&name) == 0)
        directory_clean_word(host, sizeof host, name.nodename);
    const struct directory_words words = {job, user, "%h", "%p", "%r", "%%"};
    *directory = (struct run_directory){0};
    if (!directory_pattern_expand(known, sizeof known, pattern, &words) || !make_absolute(value, sizeof value, known))
        return false;
    directory->value = strdup(value);
    directory->place = write_out(value, "\1", true);
    directory->shown = write_out(known, "\1", true);
    directory->here = write_out(value, host, false);
    return directory->value && directory->place && directory->shown;
}

void run_directory_free(struct run_directory *directory) {
    free(directory->value);
    free(directory->place);
    free(directory->shown);
    free(directory->here);
    *directory = (struct run_directory){0};
}
