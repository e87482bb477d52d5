/* SPDX-License-Identifier: Apache-2.0
 *
 * Common time: one constant offset per host.
 * Lives here: grouping dumps by host clock, estimating offsets from CLOCK_REALTIME and from exits of collectives.
 * Must not live here: drift between hosts (the spread of the exits shows it as error), matching for analysis.
 */
#include "analyzer/align/common_clock.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES_MAX = 8192, SAMPLES_MIN = 3 };

/* One exit of a collective, keyed so that both hosts keep the same ones. */
struct exit_sample {
    uint64_t uid;
    uint64_t key; /* sequence number, ordinal of the start where persistent */
    int64_t ns;
};

struct exit_samples {
    struct exit_sample *items;
    size_t count;
    uint64_t mask; /* kept are the keys whose mixed low bits are zero */
};

static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static bool same_clock(const struct dump *a, const struct dump *b) {
    return strcmp(a->boot_id, b->boot_id) == 0 && a->header->time_namespace == b->header->time_namespace;
}

static bool group_hosts(struct common_clock *clock) {
    clock->hosts = calloc(clock->dump_count, sizeof *clock->hosts);
    clock->host_of = calloc(clock->dump_count, sizeof *clock->host_of);
    clock->reading_error = calloc(clock->dump_count, sizeof *clock->reading_error);
    if (!clock->hosts || !clock->host_of || !clock->reading_error)
        return false;
    for (size_t i = 0; i < clock->dump_count; i++) {
        const struct dump *dump = clock->dumps[i];
        size_t host = clock->host_count; /* neighbours in rank order are mostly on one host: look there first */
        while (host > 0 && !same_clock(dump, clock->dumps[clock->hosts[host - 1].first_dump]))
            host--;
        if (host == 0) {
            host = ++clock->host_count;
            clock->hosts[host - 1] = (struct clock_host){.name = dump->host, .first_dump = i};
        }
        clock->hosts[host - 1].dump_count++;
        clock->host_of[i] = (uint32_t)(host - 1);
    }
    return true;
}

static int compare_times(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Half the width of the anchors that a dump's clock rests on: the median, because one wide anchor between narrow ones
 * moves only its own neighbourhood. */
static int64_t anchor_error(const struct dump *dump) {
    int64_t widths[64];
    size_t count = dump->anchor_count < 64 ? dump->anchor_count : 64;
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        widths[i] = dump_duration_ns(dump, dump->anchors[i * dump->anchor_count / count].width_ticks);
    qsort(widths, count, sizeof widths[0], compare_times);
    return (widths[count / 2] + 1) / 2;
}

static void bound_by_anchors(struct common_clock *clock) {
    for (size_t i = 0; i < clock->dump_count; i++) {
        struct clock_host *host = &clock->hosts[clock->host_of[i]];
        clock->reading_error[i] = anchor_error(clock->dumps[i]);
        if (clock->reading_error[i] > host->error_ns)
            host->error_ns = clock->reading_error[i];
    }
}

/* CLOCK_REALTIME minus CLOCK_MONOTONIC of a host: the median over the anchors of its first dump. */
static int64_t realtime_offset(const struct dump *dump) {
    int64_t offsets[64];
    size_t count = dump->anchor_count < 64 ? dump->anchor_count : 64;
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const struct clock_anchor *anchor = &dump->anchors[i * dump->anchor_count / count];
        offsets[i] = (int64_t)anchor->realtime_ns - (int64_t)anchor->monotonic_ns;
    }
    qsort(offsets, count, sizeof offsets[0], compare_times);
    return offsets[count / 2];
}

/* ---- exits ------------------------------------------------------------------------------------------------------- */

static bool is_exit(const struct dump *dump, const struct record *record) {
    if (record->kind != RECORD_CALL || !(record->flags & FLAG_COLLECTIVE) || record->seq == SEQ_NONE)
        return false;
    const struct call_name *call = dump_call(dump, record->call);
    return call && call->call_class == CLASS_COLLECTIVE && call->flow == FLOW_ALL;
}

/* Halves what is kept. */
static void thin(struct exit_samples *samples) {
    samples->mask = samples->mask * 2 + 1;
    size_t kept = 0;
    for (size_t i = 0; i < samples->count; i++)
        if ((mix(samples->items[i].key ^ samples->items[i].uid) & samples->mask) == 0)
            samples->items[kept++] = samples->items[i];
    samples->count = kept;
}

static void add_exit(struct exit_samples *samples, uint64_t uid, uint64_t key, int64_t ns) {
    if ((mix(key ^ uid) & samples->mask) != 0)
        return;
    while (samples->count == SAMPLES_MAX && samples->mask != UINT64_MAX)
        thin(samples);
    if (samples->count < SAMPLES_MAX && (mix(key ^ uid) & samples->mask) == 0)
        samples->items[samples->count++] = (struct exit_sample){uid, key, ns};
}

static int compare_samples(const void *a, const void *b) {
    const struct exit_sample *left = a, *right = b;
    if (left->uid != right->uid)
        return left->uid < right->uid ? -1 : 1;
    return left->key < right->key ? -1 : left->key > right->key;
}

static bool collect_exits(struct exit_samples *samples, const struct common_clock *clock, size_t index) {
    const struct dump *dump = clock->dumps[index];
    *samples = (struct exit_samples){.items = malloc(SAMPLES_MAX * sizeof *samples->items)};
    if (!samples->items)
        return false;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        struct record_cursor cursor;
        if (!record_cursor_begin(&cursor, dump, lane))
            return false;
        const struct record *record;
        while ((record = record_cursor_next(&cursor)) != NULL) {
            const struct dump_communicator *communicator =
                is_exit(dump, record) ? dump_communicator(dump, record->comm) : NULL;
            if (communicator && !(communicator->definition->flags & (COMMUNICATOR_FOREIGN | COMMUNICATOR_UID_UNSURE)))
                add_exit(samples, communicator->definition->uid, record->seq, to_common(clock, index, record->t1));
        }
        record_cursor_end(&cursor);
    }
    qsort(samples->items, samples->count, sizeof *samples->items, compare_samples);
    return true;
}

/* Differences reference - host of the exits that both have. */
static size_t join_exits(const struct exit_samples *reference, const struct exit_samples *host, int64_t *differences) {
    size_t count = 0;
    for (size_t i = 0, j = 0; i < reference->count && j < host->count;) {
        int order = compare_samples(&reference->items[i], &host->items[j]);
        if (order == 0)
            differences[count++] = reference->items[i].ns - host->items[j].ns;
        i += order <= 0;
        j += order >= 0;
    }
    return count;
}

static void refine(struct clock_host *host, int64_t reference_error, int64_t *differences, size_t count) {
    host->samples = count;
    if (count < SAMPLES_MIN) {
        host->error_ns = CLOCK_ERROR_UNKNOWN;
        return;
    }
    qsort(differences, count, sizeof *differences, compare_times);
    host->offset_ns += differences[count / 2];
    int64_t spread = differences[count - 1 - count / 20] - differences[count / 20];
    host->error_ns += reference_error + (spread + 1) / 2;
}

static bool estimate_offsets(struct common_clock *clock) {
    int64_t reference_realtime = realtime_offset(clock->dumps[0]);
    for (size_t h = 1; h < clock->host_count; h++)
        clock->hosts[h].offset_ns = realtime_offset(clock->dumps[clock->hosts[h].first_dump]) - reference_realtime;
    struct exit_samples reference = {0}, samples = {0};
    int64_t *differences = malloc(SAMPLES_MAX * sizeof *differences);
    bool done = differences && collect_exits(&reference, clock, 0);
    for (size_t h = 1; done && h < clock->host_count; h++) {
        done = collect_exits(&samples, clock, clock->hosts[h].first_dump);
        if (done)
            refine(&clock->hosts[h], clock->hosts[0].error_ns, differences,
                   join_exits(&reference, &samples, differences));
        free(samples.items);
    }
    free(reference.items);
    free(differences);
    return done;
}

bool common_clock_build(struct common_clock *clock, struct dump *const *dumps, size_t count) {
    *clock = (struct common_clock){.dumps = dumps, .dump_count = count};
    if (group_hosts(clock)) {
        bound_by_anchors(clock);
        if (clock->host_count == 1 || estimate_offsets(clock))
            return true;
    }
    common_clock_free(clock);
    return false;
}

void common_clock_free(struct common_clock *clock) {
    free(clock->hosts);
    free(clock->host_of);
    free(clock->reading_error);
    *clock = (struct common_clock){0};
}

/* ---- error ----------------------------------------------------------------------------------- */

static int64_t add_errors(int64_t a, int64_t b) {
    return a == CLOCK_ERROR_UNKNOWN || b == CLOCK_ERROR_UNKNOWN ? CLOCK_ERROR_UNKNOWN : a + b;
}

int64_t common_clock_error(const struct common_clock *clock, size_t dump_a, size_t dump_b) {
    const struct clock_host *a = &clock->hosts[clock->host_of[dump_a]], *b = &clock->hosts[clock->host_of[dump_b]];
    if (a == b) /* the offset cancels out: what is left is reading two clocks */
        return clock->reading_error[dump_a] + clock->reading_error[dump_b];
    return add_errors(a->error_ns, b->error_ns);
}

int64_t common_clock_worst_error(const struct common_clock *clock) {
    int64_t first = 0, second = 0; /* the two largest errors of hosts */
    for (size_t h = 0; h < clock->host_count; h++) {
        int64_t error = clock->hosts[h].error_ns;
        if (error > first) {
            second = first;
            first = error;
        } else if (error > second) {
            second = error;
        }
    }
    return clock->host_count > 1 ? add_errors(first, second) : 2 * first;
}
