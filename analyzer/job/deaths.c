/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/job/deaths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of ` key=` in the line, NULL when it has none. */
static const char *value_of(const char *line, const char *key) {
    size_t length = strlen(key);
    for (const char *at = line; (at = strstr(at, key)) != NULL; at += length)
        if ((at == line || at[-1] == ' ') && at[length] == '=')
            return at + length + 1;
    return NULL;
}

static int number_after(const char *line, const char *key, int most) {
    const char *value = value_of(line, key);
    long number = value ? strtol(value, NULL, 10) : -1;
    return number >= 0 && number <= most ? (int)number : -1;
}

/* The dump of that process: "...<16 hex>.ct". */
static bool find_dump(const struct job *job, const char *hex, size_t *dump) {
    const size_t suffix = strlen(FORMAT_FILE_SUFFIX), digits = 16;
    if (strnlen(hex, digits) < digits)
        return false;
    for (size_t d = 0; d < job->count; d++) {
        size_t length = strlen(job->dumps[d]->path);
        if (length < suffix + digits || strncmp(job->dumps[d]->path + length - suffix - digits, hex, digits) != 0)
            continue;
        *dump = d;
        return true;
    }
    return false;
}

static void read_death(const struct job *job, const char *line, bool sure, struct job_end *end) {
    const char *hex = value_of(line, sure ? "died" : "first");
    if (!hex || !find_dump(job, hex, &end->dead))
        return;
    end->dead_known = true;
    end->sure = sure;
    end->signal = number_after(line, "signal", 64);
    end->status = number_after(line, "status", 255);
}

static void read_end(const char *line, struct job_end *end) {
    const char *when = value_of(line, "monotonic_ns"), *boot_id = value_of(line, "boot_id");
    if (!when || !boot_id)
        return;
    long long ns = strtoll(when, NULL, 10);
    if (ns <= 0 || ns >= INT64_MAX / 2)
        return;
    end->monotonic_ns = ns;
    snprintf(end->boot_id, sizeof end->boot_id, "%.*s", (int)strcspn(boot_id, " "), boot_id);
}

/* The job had begun when that was noted: what ended before is another launch's. */
static bool had_begun(const struct job *job, const char *line) {
    const char *when = value_of(line, "realtime_ns");
    int64_t started = job->listed->start_ns;
    return started == INT64_MIN || !when || strtoll(when, NULL, 10) >= started;
}

/* Of several notes the first one counts that is of this job: launches of one run share the file. A line on who died
 * belongs to the line on the end behind it. */
bool deaths_read(char *note, const struct job *job, struct job_end *end) {
    char *rest = note, *line;
    bool of_another = false;
    *end = (struct job_end){.signal = -1, .status = -1};
    while ((line = strsep(&rest, "\n")) != NULL && end->monotonic_ns == 0) {
        bool ended = strncmp(line, "ended ", strlen("ended ")) == 0;
        if (!ended && *line && !end->dead_known) {
            read_death(job, line, value_of(line, "died") != NULL, end);
            of_another = !end->dead_known && job->launches > 1;
        }
        if (ended && !of_another && had_begun(job, line))
            read_end(line, end);
        of_another &= !ended;
    }
    return end->dead_known || end->monotonic_ns > 0;
}
