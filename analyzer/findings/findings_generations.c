/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/findings_generations.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/findings/words.h"
#include "analyzer/job/generations.h"

enum { HOSTS_SAID = 4, MEMBERS_TEXT = 480 };

/* The host of every rank of a job, sorted. */
struct host_names {
    const char **items;
    size_t count;
};

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool host_names_of(struct host_names *names, const struct dump_set *set, const struct listed_job *job) {
    *names = (struct host_names){.items = calloc(job->count + 1, sizeof(const char *))};
    for (size_t d = job->first; names->items && d < job->first + job->count; d++)
        if (!set->duplicate[d])
            names->items[names->count++] = set->dumps[d]->host;
    if (names->count > 0)
        qsort(names->items, names->count, sizeof *names->items, compare_names);
    return names->items != NULL;
}

/* How many of `names` from *at on are `host`; *at is moved past them. */
static size_t take_host(const struct host_names *names, size_t *at, const char *host) {
    size_t first = *at;
    while (*at < names->count && strcmp(names->items[*at], host) == 0)
        ++*at;
    return *at - first;
}

/* "2 of 4 ranks on a left, 3 joined on b". */
static void say_members(char *text, const struct host_names *before, const struct host_names *now) {
    size_t said = 0, old_at = 0, new_at = 0;
    while (old_at < before->count || new_at < now->count) {
        bool is_old =
            new_at == now->count || (old_at < before->count && strcmp(before->items[old_at], now->items[new_at]) <= 0);
        const char *host = is_old ? before->items[old_at] : now->items[new_at];
        size_t were = take_host(before, &old_at, host), are = take_host(now, &new_at, host);
        if (were == are || said++ >= HOSTS_SAID)
            continue;
        const char *comma = said > 1 ? ", " : "";
        if (were > are)
            phrase(text, MEMBERS_TEXT, "%s%zu of %zu ranks on %.64s left", comma, were - are, were, host);
        else
            phrase(text, MEMBERS_TEXT, "%s%zu joined on %.64s", comma, are - were, host);
    }
    if (said == 0)
        phrase(text, MEMBERS_TEXT, "it has as many ranks on each host as before");
    if (said > HOSTS_SAID)
        phrase(text, MEMBERS_TEXT, " and so on, on %zu more", said - HOSTS_SAID);
}

void findings_add_generations(struct findings *findings, const struct dump_set *set, const struct job *job) {
    const struct listed_job *now = job->listed, *before = job_list_before(&job->list, set, now);
    struct host_names old = {0}, new = {0};
    char members[MEMBERS_TEXT] = "", gap[64] = "";
    if (!before || !generations_are_alike(set->dumps[before->first]->command, set->dumps[now->first]->command))
        return;
    if (host_names_of(&old, set, before) && host_names_of(&new, set, now)) {
        say_members(members, &old, &new);
        if (now->gap_ns >= 0)
            say_seconds(gap, sizeof gap, now->gap_ns);
        findings_add(
            findings, FINDING_GENERATION_BEFORE,
            "this is generation %u of the job, of %zu rank%s; generation %u, of %zu, had ended %s%sbefore: %s. "
            "--generation %u shows it.",
            now->generation, now->ranks, now->ranks == 1 ? "" : "s", before->generation, before->ranks, gap,
            gap[0] ? " " : "", members, before->generation);
    } else {
        findings->no_memory = true;
    }
    free(old.items);
    free(new.items);
}
