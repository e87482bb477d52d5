/* SPDX-License-Identifier: Apache-2.0
 *
 * What --stages says, held against the job's ranks.
 * Lives here: reading and refusing.
 * Must not live here: what stages are good for.
 */
#include "analyzer/cli/stage_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"
#include "analyzer/cli/input.h"
#include "analyzer/render/escape.h"

enum { FILE_BYTES_MOST = 16 << 20 }; /* a million ranks, each with a name of its own, take 8 MB */

/* ---- from text to stages ---------------------------------------------------------------------- */

/* Puts the ranks of `filter` into a stage. Returns false where one does not exist or is in another stage. */
static bool place_ranks(const struct filter *filter, uint32_t stage, uint32_t *stage_of, int32_t ranks,
                        struct stage_map_problem *problem) {
    for (size_t i = 0; i < filter->rank_count; i++) {
        const struct rank_range *range = &filter->ranks[i];
        if (range->last >= ranks) {
            snprintf(problem->text, sizeof problem->text, "there is no rank %" PRId32 ": the job has %" PRId32,
                     range->last, ranks);
            return false;
        }
        for (int32_t rank = range->first; rank <= range->last; rank++) {
            if (stage_of[rank] != 0) {
                snprintf(problem->text, sizeof problem->text, "rank %" PRId32 " is in stage %" PRIu32 " already", rank,
                         stage_of[rank]);
                return false;
            }
            stage_of[rank] = stage;
        }
    }
    return true;
}

/* The same without blanks and what follows a '#', as filter_set_ranks takes it. Returns its length. */
static size_t strip(char *to, const char *text, size_t length) {
    size_t kept = 0;
    for (size_t i = 0; i < length && text[i] != '#'; i++)
        if (!strchr(" \t\r", text[i]))
            to[kept++] = text[i];
    to[kept] = '\0';
    return kept;
}

static int place_stage(const char *ranks_text, uint32_t stage, uint32_t *stage_of, int32_t ranks,
                       struct stage_map_problem *problem) {
    struct filter filter = {0};
    int read = filter_set_ranks(&filter, ranks_text);
    if (read == -1)
        snprintf(problem->text, sizeof problem->text, "not a list of ranks, as in 0,4-7");
    else if (read == 0 && !place_ranks(&filter, stage, stage_of, ranks, problem))
        read = -1;
    filter_free(&filter);
    return read;
}

/* Whether every rank has a stage. */
static int check_complete(const uint32_t *stage_of, int32_t ranks, struct stage_map_problem *problem) {
    for (int32_t rank = 0; rank < ranks; rank++)
        if (stage_of[rank] == 0) {
            problem->place = 0;
            snprintf(problem->text, sizeof problem->text, "rank %" PRId32 " is in no stage", rank);
            return -1;
        }
    return 0;
}

int stage_map_parse(const char *text, char separator, uint32_t *stage_of, int32_t ranks,
                    struct stage_map_problem *problem) {
    char *part = malloc(strlen(text) + 1);
    uint32_t stage = 0;
    int code = part ? 0 : -2;
    *problem = (struct stage_map_problem){0};
    memset(stage_of, 0, (size_t)ranks * sizeof *stage_of);
    while (code == 0) {
        const char *end = strchr(text, separator);
        size_t length = strip(part, text, end ? (size_t)(end - text) : strlen(text));
        problem->place++;
        if (length > 0 || separator != '\n')
            code = place_stage(part, ++stage, stage_of, ranks, problem);
        if (!end)
            break;
        text = end + 1;
    }
    free(part);
    return code == 0 ? check_complete(stage_of, ranks, problem) : code;
}

/* ---- --stages --------------------------------------------------------------------------------- */

/* N stages of as many neighbouring ranks. Returns false where they do not divide. */
static bool divide(const char *text, uint32_t *stage_of, int32_t ranks) {
    errno = 0;
    long stages = strtol(text, NULL, 10);
    if (errno != 0 || stages < 1 || stages > ranks || ranks % stages != 0)
        return false;
    for (int32_t rank = 0; rank < ranks; rank++)
        stage_of[rank] = (uint32_t)(rank / (ranks / stages)) + 1;
    return true;
}

/* Reads a file into `text`, which has room for FILE_BYTES_MOST + 1. Returns 0 or an errno. */
static int read_file(FILE *file, char *text) {
    errno = EIO;
    size_t bytes = fread(text, 1, FILE_BYTES_MOST + 1, file);
    if (ferror(file))
        return errno;
    if (bytes > FILE_BYTES_MOST)
        return EFBIG;
    text[bytes] = '\0';
    return 0;
}

/* The file's text; NULL with errno set. */
static char *read_map(const char *path) {
    int fd = regular_file_open(AT_FDCWD, path, 0);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    int error = errno;
    if (!file && fd >= 0)
        close(fd);
    char *text = file ? malloc(FILE_BYTES_MOST + 1) : NULL;
    if (file) {
        error = text ? read_file(file, text) : ENOMEM;
        fclose(file);
    }
    if (error != 0) {
        free(text);
        text = NULL;
    }
    errno = error;
    return text;
}

static int refuse(const struct options *options, const char *given, bool file,
                  const struct stage_map_problem *problem) {
    fprintf(stderr, "commtap %s: --stages: ", options->command->name);
    if (file)
        escape_text(stderr, given);
    if (problem->place > 0)
        fprintf(stderr, file ? ":%u: " : "stage %u: ", problem->place);
    else if (file)
        fputs(": ", stderr);
    fprintf(stderr, "%s\n", problem->text);
    return EXIT_USAGE;
}

static int take_map(const struct options *options, const char *given, uint32_t *stage_of, int32_t ranks) {
    bool file = strspn(given, "0123456789-,/") != strlen(given);
    char *text = file ? read_map(given) : NULL;
    struct stage_map_problem problem;
    int error = errno;
    if (file && !text) {
        fprintf(stderr, "commtap %s: --stages: cannot read ", options->command->name);
        escape_text(stderr, given);
        fprintf(stderr, ": %s\n", regular_file_error(error));
        return EXIT_UNUSABLE;
    }
    int code = stage_map_parse(file ? text : given, file ? '\n' : '/', stage_of, ranks, &problem);
    free(text);
    return code == 0 ? EXIT_FINE : code == -2 ? input_no_memory() : refuse(options, given, file, &problem);
}

/* Every rank's stage into `stage_of`. */
static int take(const struct options *options, const char *given, uint32_t *stage_of, int32_t ranks) {
    if (!given[0] || strspn(given, "0123456789") != strlen(given))
        return take_map(options, given, stage_of, ranks);
    if (divide(given, stage_of, ranks))
        return EXIT_FINE;
    fprintf(stderr,
            "commtap %s: --stages takes a divisor of the number of ranks, %" PRId32 ", a list or a file, not "
            "'%.64s'\n",
            options->command->name, ranks, given);
    return EXIT_USAGE;
}

int stage_map_take(const struct options *options, struct session *session) {
    const char *given = option_text(options, "stages");
    int32_t ranks = session->job.ranks_expected;
    if (!given)
        return EXIT_FINE;
    if (ranks < 1) {
        fprintf(stderr, "commtap %s: --stages: how many ranks the job has is not known\n", options->command->name);
        return EXIT_USAGE;
    }
    uint32_t *stage_of = calloc((size_t)ranks + 1, sizeof *stage_of);
    if (!stage_of)
        return input_no_memory();
    int code = take(options, given, stage_of, ranks);
    for (size_t d = 0; code == EXIT_FINE && d < session->job.count; d++) {
        int32_t rank = session->job.dumps[d]->header->rank;
        session->analysis.stage_of[d] = rank >= 0 && rank < ranks ? stage_of[rank] : 0;
    }
    free(stage_of);
    return code;
}
