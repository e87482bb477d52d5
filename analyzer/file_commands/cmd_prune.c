/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap prune: old, short or superfluous jobs' dumps go.
 * Lives here: options, messages. Must not live here: which ones go (fleet/prune.h).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/base/planted_path.h"
#include "analyzer/base/regular_file.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/fleet/prune.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"

/* ---- values ------------------------------------------------------------------------------------ */

struct unit {
    char letter;
    double factor;
};

/* A number from 0 up with one of the letters; 0 needs none. What is forgotten must not decide what goes. */
static bool read_value(const char *text, const struct unit *units, size_t count, double *value) {
    char *end;
    *value = strtod(text, &end);
    if (end == text || !isfinite(*value) || *value < 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (*end && *end == units[i].letter && !end[1]) {
            *value *= units[i].factor;
            return *value < 9e18;
        }
    return !*end && *value == 0;
}

static bool read_option(const struct options *options, const char *name, const struct unit *units, size_t count,
                        double *value) {
    const char *text = option_text(options, name);
    if (!text || read_value(text, units, count, value))
        return true;
    fprintf(stderr, "commtap prune: --%s takes a number with a unit, as in 30d or 500G, not '", name);
    escape_text(stderr, text);
    fputs("'\n", stderr);
    return false;
}

static bool read_rules(const struct options *options, struct prune_rules *rules) {
    static const struct unit times[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 7.0 * 86400}};
    static const struct unit sizes[] = {{'B', 1}, {'K', 0x1p10}, {'M', 0x1p20}, {'G', 0x1p30}, {'T', 0x1p40}};
    double older = -1, shorter = 0, most = -1;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!read_option(options, "older-than", times, sizeof times / sizeof *times, &older) ||
        !read_option(options, "shorter-than", times, sizeof times / sizeof *times, &shorter) ||
        !read_option(options, "keep", sizes, sizeof sizes / sizeof *sizes, &most))
        return false;
    *rules = (struct prune_rules){.now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
                                  .older_ns = older < 0 || older > 9e9 ? INT64_MAX : (int64_t)(older * 1e9),
                                  .shorter_ns = shorter > 9e9 ? INT64_MAX : (int64_t)(shorter * 1e9),
                                  .most_bytes = most < 0 ? UINT64_MAX : (uint64_t)most,
                                  .ended = option_given(options, "ended")};
    if (option_text(options, "older-than") || option_text(options, "shorter-than") || option_text(options, "keep"))
        return true;
    fputs("commtap prune: say what goes: --older-than, --shorter-than or --keep\n", stderr);
    return false;
}

/* ---- one directory ----------------------------------------------------------------------------- */

enum { BATCH = 1024 }; /* jobs that are removed before they are said */

static const char *const reasons[] = {
    [PRUNE_NOT] = "", [PRUNE_OLD] = "old", [PRUNE_SHORT] = "short", [PRUNE_ROOM] = "room for later ones"};

static void say_job(const char *place, const struct fleet_job *job, const struct pruned *pruned, bool dry) {
    char size[UNITS_TEXT];
    units_size(size, pruned->bytes);
    fputs(pruned->gone ? (dry ? "would remove " : "removed ") : dry ? "cannot remove " : "not all removed: ", stdout);
    escape_text(stdout, place);
    fputs(job->path[0] ? "/" : "", stdout);
    escape_text(stdout, job->path);
    fputs(" run ", stdout);
    escape_text(stdout, job->run_id);
    printf(": %zu file%s, %s (%s)", pruned->files, pruned->files == 1 ? "" : "s", size, reasons[pruned->reason]);
    if (pruned->error != 0)
        printf(": %s", pruned->error == ENOTSUP ? "a file is not what its name says" : strerror(pruned->error));
    fputc('\n', stdout);
}

struct sums {
    size_t jobs, failed;
    uint64_t bytes;
};

/* In batches: what is gone is said in the order of the jobs, and not long after it went. */
static struct sums remove_chosen(const char *place, int descriptor, const struct fleet *fleet, struct pruned *pruned,
                                 bool dry) {
    struct sums sums = {0};
    for (size_t first = 0; first < fleet->count; first += BATCH) {
        size_t end = fleet->count - first < BATCH ? fleet->count : first + BATCH;
        prune_remove(descriptor, &fleet->jobs[first], &pruned[first], end - first, dry);
        for (size_t i = first; i < end; i++) {
            if (pruned[i].reason == PRUNE_NOT)
                continue;
            say_job(place, &fleet->jobs[i], &pruned[i], dry);
            sums.jobs += pruned[i].gone;
            sums.failed += !pruned[i].gone;
            sums.bytes += pruned[i].bytes;
        }
    }
    return sums;
}

static int prune_jobs(const char *place, int descriptor, const struct fleet *fleet, const struct prune_rules *rules,
                      bool dry) {
    struct pruned *pruned = calloc(fleet->count + 1, sizeof *pruned);
    size_t kept_running = 0;
    char size[UNITS_TEXT];
    if (!pruned)
        return input_no_memory();
    prune_choose(fleet, rules, pruned);
    for (size_t i = 0; i < fleet->count; i++)
        kept_running += !prune_may(&fleet->jobs[i], rules);
    struct sums sums = remove_chosen(place, descriptor, fleet, pruned, dry);
    units_size(size, sums.bytes);
    escape_text(stdout, place);
    printf(": %zu of %zu jobs %s, %s; %zu run or may run and stay\n", sums.jobs, fleet->count,
           dry ? "would be removed" : "removed", size, kept_running);
    free(pruned);
    return sums.failed > 0 ? EXIT_FINDINGS : EXIT_FINE;
}

static int prune_place(const char *place, const struct prune_rules *rules, bool dry) {
    struct fleet fleet = {0};
    int descriptor = planted_path_open(place);
    if (descriptor < 0) {
        int error = errno;
        fputs("commtap prune: ", stderr);
        escape_text(stderr, place);
        fprintf(stderr, ": %s\n", regular_file_error(error));
        return EXIT_UNUSABLE;
    }
    int code = fleet_find(&fleet, descriptor) ? prune_jobs(place, descriptor, &fleet, rules, dry) : input_no_memory();
    fleet_free(&fleet);
    close(descriptor);
    return code;
}

static int run(const struct options *options) {
    struct prune_rules rules;
    int worst = EXIT_FINE;
    if (!read_rules(options, &rules))
        return EXIT_USAGE;
    for (size_t i = 0; i < options->argument_count; i++) {
        int code = prune_place(options->arguments[i], &rules, option_given(options, "dry-run"));
        worst = code > worst ? code : worst;
    }
    return worst;
}

static const struct option option_rows[] = {
    {.name = "older-than", .argument = "AGE", .doc = "jobs whose files last changed longer ago, as in 30d, 12h, 90s"},
    {.name = "shorter-than", .argument = "TIME", .doc = "jobs that ended well in less than this, as in 60s"},
    {.name = "keep",
     .argument = "SIZE",
     .doc = "the oldest jobs of each DIR, until its others take no more than this, as in 500G"},
    {.name = "ended",
     .doc = "also jobs of other hosts and containers that did not end properly: none of them runs any more"},
    {.name = "dry-run", .letter = 'n', .doc = "only say what would go"},
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap prune --older-than 30d --dry-run /scratch/commtap", "what would go"},
    {"commtap prune --shorter-than 60s --keep 500G /scratch/commtap", "short jobs, and the oldest beyond 500 GiB"},
    {NULL, NULL},
};

const struct command command_prune = {
    .name = "prune",
    .company = COMPANY_NONE,
    .summary = "remove the dumps of old or short jobs, or the oldest beyond a size",
    .arguments = "DIR...",
    .details =
        "Removes only files that commtap or its library named and that are what their names say, then the\n"
        "directories that are empty by that. A job of which a process runs stays, and so does one whose processes\n"
        "ran on another host, or in a container that is not seen from here, and did not end properly, unless\n"
        "--ended is given. No link below DIR is followed.\n",
    .exits = "Exits with 0 where all that was to go is gone, 1 where something could not be removed; with 2 on wrong\n"
             "usage, 3 where a directory cannot be read, 4 where memory is short.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .examples = examples,
    .run = run,
};
