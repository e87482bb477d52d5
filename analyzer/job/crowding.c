/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/job/crowding.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/load/gpu_view.h"

static size_t count_processors(const uint64_t mask[CPU_MASK_WORDS]) {
    size_t count = 0;
    for (size_t i = 0; i < CPU_MASK_WORDS; i++)
        count += (size_t)__builtin_popcountll(mask[i]);
    return count;
}

/* By host, then by the processors they may use. */
static int compare_places(const void *a, const void *b) {
    const struct dump *left = *(struct dump *const *)a, *right = *(struct dump *const *)b;
    int order = strcmp(left->boot_id, right->boot_id);
    if (order == 0)
        order = memcmp(left->cpus, right->cpus, sizeof left->cpus);
    return order ? order : strcmp(left->path, right->path);
}

static bool same_host(const struct dump *a, const struct dump *b) {
    return strcmp(a->boot_id, b->boot_id) == 0;
}

/* Takes the group where it is more crowded than the worst so far. */
static void judge_group(struct crowding *worst, const struct dump *on, size_t ranks, size_t processors) {
    if (processors == 0 || ranks <= processors || ranks * worst->processors <= worst->ranks * processors)
        return;
    *worst = (struct crowding){on, ranks, processors};
}

/* Hosts whose ranks do not all tell their processors are left out: the union would be too small. */
static void judge_host(struct crowding *worst, struct dump *const *dumps, size_t count) {
    uint64_t all[CPU_MASK_WORDS] = {0};
    size_t alike = 0;
    for (size_t i = 0; i < count; i++)
        if (count_processors(dumps[i]->cpus) == 0)
            return;
    for (size_t i = 0; i < count; i++) {
        const uint64_t *mask = dumps[i]->cpus;
        bool same = i > 0 && memcmp(dumps[i - 1]->cpus, mask, sizeof all) == 0;
        for (size_t word = 0; word < CPU_MASK_WORDS; word++)
            all[word] |= mask[word];
        alike = same ? alike + 1 : 1;
        judge_group(worst, dumps[i], alike, count_processors(mask));
    }
    judge_group(worst, dumps[0], count, count_processors(all));
}

bool crowding_find(struct dump *const *dumps, size_t count, struct crowding *worst) {
    struct dump **sorted = calloc(count + 1, sizeof(struct dump *));
    *worst = (struct crowding){.ranks = 1, .processors = 1};
    size_t processes = 0;
    for (size_t i = 0; sorted && i < count; i++)
        if (dump_stands_for_process(dumps[i]))
            sorted[processes++] = dumps[i];
    count = processes;
    if (sorted && count > 0)
        qsort(sorted, count, sizeof *sorted, compare_places);
    for (size_t first = 0, end; sorted && first < count; first = end) {
        for (end = first + 1; end < count && same_host(sorted[first], sorted[end]);)
            end++;
        judge_host(worst, sorted + first, end - first);
    }
    free(sorted);
    return worst->on != NULL;
}
