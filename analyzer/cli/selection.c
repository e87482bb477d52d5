/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/selection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/align/align.h"
#include "analyzer/cli/input.h"
#include "analyzer/findings/words.h"
#include "analyzer/render/escape.h"

/* ---- options --------------------------------------------------------------------------------- */

static bool parse_marker(const struct options *options, struct step_marker *marker) {
    const char *text = option_text(options, "marker");
    *marker = (struct step_marker){.anchor = option_text(options, "anchor"), .any_level = true};
    if (!text)
        return true;
    marker->operations = strcmp(text, "operations") == 0 && !marker->anchor;
    if (marker->operations)
        return true;
    if (strncmp(text, "pcontrol", 8) != 0 || marker->anchor)
        return false;
    marker->pcontrol = true;
    if (text[8] == '\0')
        return true;
    char *end;
    errno = 0;
    long level = strtol(text + 9, &end, 10);
    marker->any_level = false;
    marker->level = (int32_t)level;
    return text[8] == ':' && text[9] && *end == '\0' && errno == 0 && level >= 0 && level <= INT32_MAX;
}

int selection_read(struct selection *selection, const struct options *options) {
    *selection = (struct selection){0};
    if (!parse_marker(options, &selection->marker)) {
        fprintf(stderr, "commtap %s: --marker takes pcontrol, pcontrol:LEVEL or operations, and not with --anchor\n",
                options->command->name);
        return EXIT_USAGE;
    }
    int code = options_filter(options, &selection->filter);
    struct filter *filter = &selection->filter;
    /* the tables of whole runs put rare sizes into classes, and call sites' have none: records tell, all of them */
    if (code == EXIT_FINE && filter->has_sizes && !filter_is_timed(filter))
        filter->has_from = true;
    return code;
}

void selection_free(struct selection *selection) {
    filter_free(&selection->filter);
}

/* ---- from a directory to a window ------------------------------------------------------------ */

enum { JOBS_LISTED = 40 };

/* Their ids, as --run takes them, and what may tell them apart; the newest last. */
static void print_jobs(const struct job_list *list, const struct dump_set *set) {
    size_t first = list->count > JOBS_LISTED ? list->count - JOBS_LISTED : 0;
    if (first > 0)
        fprintf(stderr, "  ... and %zu before these\n", first);
    for (size_t i = first; i < list->count; i++) {
        const struct listed_job *job = &list->items[i];
        char began[DATE_TEXT];
        fputs("  ", stderr);
        escape_text(stderr, job->id);
        fprintf(stderr, "  %zu rank%s", job->ranks, job->ranks == 1 ? "" : "s");
        if (list->count > 1)
            fprintf(stderr, ", generation %u", job->generation);
        if (say_date(began, job->start_ns))
            fprintf(stderr, ", from %s", began);
        fputs(": ", stderr);
        escape_text(stderr, set->dumps[job->first]->command);
        fputc('\n', stderr);
    }
}

/* The run's start of that number, in place of the newest. */
static int choose_generation(struct job *job, const struct dump_set *set, const char *text,
                             bool (*alive)(const struct dump *)) {
    char id[JOB_ID], *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    const struct listed_job *wanted = text[0] >= '0' && text[0] <= '9' && !*end && number <= UINT32_MAX
                                          ? job_list_generation(&job->list, set, job->listed, (unsigned)number)
                                          : NULL;
    if (!wanted) {
        fputs("commtap: there is no generation '", stderr);
        escape_text(stderr, text);
        fputs("'; there are these jobs, each with its generation:\n", stderr);
        print_jobs(&job->list, set);
        return EXIT_UNUSABLE;
    }
    memcpy(id, wanted->id, sizeof id);
    job_free(job);
    return selection_choose_run(job, set, id, alive);
}

/* A pattern that can match nothing is most often one that was meant to match within names. */
static void note_unknown_functions(const struct job *job, const char *list) {
    char item[FILTER_ITEM];
    const char *like;
    while (list && job->count > 0 && filter_next_unknown_op(&list, job->dumps[0], item, &like)) {
        const char *pattern = item + (item[0] == '!');
        fputs("commtap: --op: no function is called '", stderr);
        escape_text(stderr, pattern);
        fputs(like ? "'; '*" : "'", stderr);
        if (like) {
            escape_text(stderr, pattern);
            fprintf(stderr, "*' is %s and the like", like);
        }
        fputc('\n', stderr);
    }
}

int selection_choose_job(struct job *job, const struct dump_set *set, const struct options *options,
                         bool (*alive)(const struct dump *)) {
    const char *generation = option_text(options, "generation");
    int code = selection_choose_run(job, set, option_text(options, "run"), alive);
    if (code == EXIT_FINE && generation)
        code = choose_generation(job, set, generation, alive);
    if (code == EXIT_FINE)
        note_unknown_functions(job, option_text(options, "op"));
    return code;
}

int selection_choose_run(struct job *job, const struct dump_set *set, const char *run,
                         bool (*alive)(const struct dump *)) {
    int selected = job_select(job, set, run, alive);
    if (selected == 0)
        return EXIT_FINE;
    if (selected != -1)
        return input_no_memory();
    fputs("commtap: no job is called '", stderr);
    escape_text(stderr, run ? run : "");
    fputs("' in ", stderr);
    input_say_places(stderr, set);
    fputs("; there are:\n", stderr);
    print_jobs(&job->list, set);
    return EXIT_UNUSABLE;
}

int selected_time_find(struct selected_time *time, const struct job *job, const struct selection *selection) {
    *time = (struct selected_time){0};
    if (!filter_is_timed(&selection->filter))
        return EXIT_FINE;
    bool done = common_clock_build(&time->clock, job->dumps, job->count) &&
                scope_build(&time->scope, job, &time->clock, &selection->filter, &selection->marker);
    return done ? EXIT_FINE : input_no_memory();
}

void selected_time_free(struct selected_time *time) {
    scope_free(&time->scope);
    common_clock_free(&time->clock);
}
