/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/wait_for_graph/beats.h"

#include <stdlib.h>
#include <string.h>

/* A dump by the number in its name. */
struct numbered {
    uint64_t number;
    uint32_t party;
};

/* "...<16 hex>.ct"; 0: no such name. */
static uint64_t number_of(const struct dump *dump) {
    const size_t suffix = strlen(FORMAT_FILE_SUFFIX), digits = 16;
    size_t length = strlen(dump->path);
    if (length < suffix + digits || strcmp(dump->path + length - suffix, FORMAT_FILE_SUFFIX) != 0)
        return 0;
    char text[17] = "", *end;
    memcpy(text, dump->path + length - suffix - digits, digits);
    uint64_t number = strtoull(text, &end, 16);
    return *end ? 0 : number;
}

static int compare_numbers(const void *a, const void *b) {
    const struct numbered *left = a, *right = b;
    if (left->number != right->number)
        return left->number < right->number ? -1 : 1;
    return left->party < right->party ? -1 : left->party > right->party;
}

/* Times of one clock. */
static bool same_clock(const struct dump *a, const struct dump *b) {
    return strcmp(a->boot_id, b->boot_id) == 0 && a->header->time_namespace == b->header->time_namespace;
}

/* Of several that looked the last one to see it knows best, and the first one to miss it. */
static void take_row(struct party *party, const struct beat_row *row) {
    int64_t seen = (int64_t)row->seen_ns, gone = (int64_t)row->gone_ns;
    if (seen > party->seen_ns)
        party->seen_ns = seen;
    if (gone > 0 && (party->gone_ns == 0 || gone < party->gone_ns))
        party->gone_ns = gone;
}

static void take_rows(struct world *world, const struct dump *writer, const struct numbered *all, size_t count) {
    for (uint32_t i = 0; i < writer->beat_count; i++) {
        struct beat_row row = writer->beats[i];
        const struct numbered key = {row.dump, 0};
        size_t from = 0, to = count;
        while (from < to) {
            size_t middle = from + (to - from) / 2;
            if (compare_numbers(&all[middle], &key) < 0)
                from = middle + 1;
            else
                to = middle;
        }
        struct party *party = row.dump && from < count ? &world->parties[all[from].party] : NULL;
        if (party && all[from].number == row.dump && party->dump->header->pid == row.pid &&
            same_clock(party->dump, writer))
            take_row(party, &row);
    }
}

static int compare_boots(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool beats_ask_the_living(struct world *world) {
    const char **boots = malloc((world->dump_count + 1) * sizeof *boots);
    size_t count = 0;
    if (!boots)
        return false;
    for (uint32_t p = 0; p < world->dump_count; p++)
        if (world->parties[p].process == PROCESS_RUNS && world->parties[p].dump->beat_count > 0)
            boots[count++] = world->parties[p].dump->boot_id;
    if (count > 0)
        qsort(boots, count, sizeof *boots, compare_boots);
    for (uint32_t p = 0; count > 0 && p < world->dump_count; p++) {
        struct party *party = &world->parties[p];
        const char *boot = party->dump->boot_id;
        if (party->process == PROCESS_ELSEWHERE && party->seen_ns > 0 &&
            bsearch(&boot, boots, count, sizeof *boots, compare_boots))
            party->process = party->gone_ns > 0 ? PROCESS_GONE : PROCESS_RUNS;
    }
    free(boots);
    return true;
}

bool beats_take_in(struct world *world) {
    struct numbered *all = malloc((world->dump_count + 1) * sizeof *all);
    if (!all)
        return false;
    for (uint32_t p = 0; p < world->dump_count; p++)
        all[p] = (struct numbered){number_of(world->parties[p].dump), p};
    qsort(all, world->dump_count, sizeof *all, compare_numbers);
    for (uint32_t p = 0; p < world->dump_count; p++)
        take_rows(world, world->parties[p].dump, all, world->dump_count);
    for (uint32_t p = 0; p < world->dump_count; p++)
        if (world->parties[p].gone_ns <= world->parties[p].seen_ns) /* somebody saw it afterwards */
            world->parties[p].gone_ns = 0;
    free(all);
    return true;
}
