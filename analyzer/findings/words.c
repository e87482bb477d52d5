/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/load/gpu_view.h"

void phrase(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

struct rank_text rank_text(int32_t rank) {
    struct rank_text words;
    if (rank < 0)
        snprintf(words.text, sizeof words.text, "rank ?");
    else
        snprintf(words.text, sizeof words.text, "rank %" PRId32, rank);
    return words;
}

struct dump_text dump_text(const struct dump *dump) {
    const struct device_state *gpu = dump_gpu(dump);
    struct dump_text words;
    snprintf(words.text, sizeof words.text, "%s", rank_text(dump->header->rank).text);
    if (!gpu)
        return words;
    phrase(words.text, sizeof words.text, " GPU %" PRIu32, gpu->ordinal);
    if (gpu->bus[0])
        phrase(words.text, sizeof words.text, " (%.*s)", (int)strnlen(gpu->bus, sizeof gpu->bus), gpu->bus);
    return words;
}

bool is_nccl_alone(const struct dump *dump) {
    const struct dump_header *header = dump->header;
    return header->mpi_family == 0 && (header->nccl_version != 0 || header->nccl_library[0] != '\0');
}

void say_ranks(char *text, size_t size, const int32_t *ranks, size_t count) {
    snprintf(text, size, count == 1 ? "rank " : "ranks ");
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && ranks[end] >= 0 && ranks[end] == ranks[end - 1] + 1)
            end++;
        if (strlen(text) + 48 > size) {
            phrase(text, size, " and %zu more", count - i);
            return;
        }
        phrase(text, size, i ? ", " : "");
        if (end - i == 2) /* two neighbours read better apart */
            end = i + 1;
        if (ranks[i] < 0)
            phrase(text, size, "?");
        else if (end - i > 1)
            phrase(text, size, "%" PRId32 "-%" PRId32, ranks[i], ranks[end - 1]);
        else
            phrase(text, size, "%" PRId32, ranks[i]);
        i = end;
    }
}

void say_processes(char *text, size_t size, const struct common_clock *clock, const size_t *dumps, size_t count) {
    int32_t *ranks = malloc((count ? count : 1) * sizeof *ranks);
    if (!ranks) {
        snprintf(text, size, "%zu ranks", count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        ranks[i] = clock->dumps[dumps[i]]->header->rank;
    say_ranks(text, size, ranks, count);
    free(ranks);
}

/* One process's GPUs, whose places in `dumps` follow each other: " GPUs 0-3, 5". Returns how many there are. */
static size_t say_gpus(char *text, size_t size, const struct common_clock *clock, const size_t *dumps, size_t count) {
    const struct dump *first = clock->dumps[dumps[0]];
    size_t end = 1;
    while (end < count && clock->dumps[dumps[end]]->header == first->header && dump_gpu(clock->dumps[dumps[end]]))
        end++;
    phrase(text, size, "%s GPU%s ", rank_text(first->header->rank).text, end > 1 ? "s" : "");
    for (size_t i = 0; i < end;) {
        uint32_t from = dump_gpu(clock->dumps[dumps[i]])->ordinal, to = from;
        for (phrase(text, size, i ? ", " : ""); ++i < end && dump_gpu(clock->dumps[dumps[i]])->ordinal == to + 1;)
            to++;
        phrase(text, size, to > from ? "%" PRIu32 "-%" PRIu32 : "%" PRIu32, from, to);
    }
    return end;
}

void say_dumps(char *text, size_t size, const struct common_clock *clock, const size_t *dumps, size_t count) {
    bool gpus = false;
    for (size_t i = 0; i < count; i++)
        gpus |= clock->dumps[dumps[i]]->view != NULL;
    if (!gpus || count == 0) {
        say_processes(text, size, clock, dumps, count);
        return;
    }
    snprintf(text, size, "%s", count == 1 ? dump_text(clock->dumps[dumps[0]]).text : "");
    for (size_t i = 0; count > 1 && i < count;) {
        const struct dump *dump = clock->dumps[dumps[i]];
        if (strlen(text) + 64 > size) {
            phrase(text, size, " and %zu more", count - i);
            return;
        }
        phrase(text, size, i ? ", " : "");
        if (dump_gpu(dump))
            i += say_gpus(text, size, clock, &dumps[i], count - i);
        else
            phrase(text, size, "%s", dump_text(clock->dumps[dumps[i++]]).text);
    }
}

void say_seconds(char *text, size_t size, int64_t ns) {
    double seconds = (double)ns / 1e9;
    if (seconds >= 100)
        snprintf(text, size, "%.0f s", seconds);
    else if (seconds >= 0.99995) /* what would be rounded to 1000.0 ms */
        snprintf(text, size, "%.1f s", seconds);
    else if (seconds >= 0.9995e-3)
        snprintf(text, size, "%.1f ms", seconds * 1e3);
    else if (ns >= 1000)
        snprintf(text, size, "%.0f us", seconds * 1e6);
    else if (ns > 0)
        snprintf(text, size, "%lld ns", (long long)ns);
    else
        snprintf(text, size, "less than 1 ns");
}

bool say_date(char text[DATE_TEXT], int64_t realtime_ns) {
    const int64_t first_year_ns = INT64_C(31536000) * 1000000000;
    time_t seconds = (time_t)(realtime_ns / 1000000000);
    struct tm parts;
    text[0] = '\0';
    return realtime_ns >= first_year_ns && gmtime_r(&seconds, &parts) &&
           strftime(text, DATE_TEXT, "%Y-%m-%d %H:%M:%S UTC", &parts) > 0;
}

void say_site(char *text, size_t size, struct site_labels *labels, size_t dump, uint32_t stack) {
    const char *label = labels && stack != STACK_NONE ? site_label(labels, dump, stack) : NULL;
    text[0] = '\0';
    if (label)
        snprintf(text, size, " at %.160s", label);
}

void say_communicator(char *text, size_t size, const char *name, uint64_t uid) {
    if (name[0])
        snprintf(text, size, "%.64s", name);
    else
        snprintf(text, size, "communicator %016" PRIx64, uid);
}

void coverage_say(char *text, size_t size, const struct coverage *coverage, enum evidence evidence) {
    double share = 100 * coverage_share(coverage);
    share = share > 99.9 ? 99.9 : share; /* some are missing */
    int digits = share < 1 || share > 99;
    text[0] = '\0';
    if (evidence != EVIDENCE_EVENTS || coverage->kept == KEPT_ALL)
        return;
    if (coverage->kept == KEPT_LAST)
        snprintf(text, size, " (From the last %.*f %% of the events.)", digits, share);
    else
        snprintf(text, size, " (From %.*f %% of the events: the last, and samples of what was before.)", share < 1,
                 share);
}

const char *totals_lack(const struct job *job) {
    uint32_t states = 0;
    uint64_t unseen = 0, pauses = 0, ordered = 0, ordered_filters = 0;
    bool damaged = false, filtered = false, regions = false, imported = false;
    for (size_t d = 0; d < job->count; d++) {
        states |= job->dumps[d]->header->state;
        unseen += job->dumps[d]->unseen_calls;
        pauses += job->dumps[d]->pauses;
        ordered += job->dumps[d]->order_answer.pauses;
        ordered_filters += job->dumps[d]->order_answer.filters;
        filtered |= job->dumps[d]->operations[0];
        regions |= job->dumps[d]->region[0];
        imported |= job->dumps[d]->header->pid == 0;
        damaged |= job->dumps[d]->problems.count > 0;
    }
    if (states & STATE_SWITCHED_OFF && imported)
        return "hold every call of the ranks that could be read";
    if (states & STATE_SWITCHED_OFF)
        return "end where recording was switched off";
    if (job->losses.of[LOSS_OPERATIONS] > 0 || job->losses.of[LOSS_TABLES] > 0)
        return "do not hold every call";
    if (unseen > 0)
        return "do not hold the calls that went past commtap, to PMPI functions";
    if (filtered)
        return "hold the functions that COMMTAP_OPS names, and no other call";
    if (ordered_filters > 0)
        return "hold of some functions what was called while commtap ctl had them recorded";
    if (regions)
        return "hold what was called inside the regions that COMMTAP_REGION names, and nothing else";
    if (pauses > 0 && imported)
        return "do not hold what was called between the profiler's cycles";
    if (pauses > 0)
        return "do not hold what was called while MPI_Pcontrol(0) paused recording";
    if (ordered > 0)
        return "do not hold what was called while commtap ctl paused recording";
    if (damaged)
        return "hold what is sound in the damaged dumps";
    return job->missing_count > 0 ? "hold every call of the ranks that are here" : NULL;
}
