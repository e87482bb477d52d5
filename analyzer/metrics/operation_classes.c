/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/metrics/operation_classes.h"

#include <stdlib.h>
#include <string.h>

static int size_log2_of(const struct summary_entry *entry) {
    if (entry->bytes == BYTES_UNKNOWN)
        return -2;
    return entry->bytes == 0 ? -1 : 63 - __builtin_clzll(entry->bytes);
}

static int compare_numbers(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int compare_classes(const void *a, const void *b) {
    const struct operation_class *left = a, *right = b;
    const struct summary_entry *one = left->like, *other = right->like;
    int order = strcmp(one->op ? one->op : "", other->op ? other->op : "");
    const uint64_t keys[][2] = {
        {one->api, other->api},       {one->has_comm, other->has_comm},
        {one->comm, other->comm},     {(uint32_t)one->rank, (uint32_t)other->rank},
        {one->source, other->source}, {(uint64_t)(left->size_log2 + 2), (uint64_t)(right->size_log2 + 2)}};
    for (size_t i = 0; order == 0 && i < sizeof keys / sizeof *keys; i++)
        order = compare_numbers(keys[i][0], keys[i][1]);
    return order;
}

static struct operation_class class_of(const struct summary_entry *entry) {
    struct operation_class class = {.like = entry,
                                    .size_log2 = size_log2_of(entry),
                                    .calls = entry->count,
                                    .failed = entry->failed,
                                    .bytes = entry->bytes_total,
                                    .time_ns = entry->time.total_ns};
    const struct summary_times *time = entry->time.total_ns > 0 ? &entry->time : &entry->in_flight;
    if (entry->busbw_bytes_per_s >= 0) {
        class.bus_seconds = (double)(time->total_ns - entry->shared_ns) / 1e9;
        class.bus_bytes = entry->busbw_bytes_per_s * class.bus_seconds;
    }
    return class;
}

static void add_class(struct operation_class *sum, const struct operation_class *class) {
    sum->calls += class->calls;
    sum->failed += class->failed;
    sum->bytes += class->bytes;
    sum->time_ns += class->time_ns;
    sum->bus_bytes += class->bus_bytes;
    sum->bus_seconds += class->bus_seconds;
}

bool operation_classes_build(struct operation_classes *classes, const struct summary *summary) {
    size_t kept = 0;
    *classes = (struct operation_classes){.items = calloc(summary->count + 1, sizeof *classes->items)};
    if (!classes->items)
        return false;
    for (size_t i = 0; i < summary->count; i++)
        classes->items[i] = class_of(&summary->entries[i]);
    qsort(classes->items, summary->count, sizeof *classes->items, compare_classes);
    for (size_t i = 0; i < summary->count; i++)
        if (kept > 0 && compare_classes(&classes->items[kept - 1], &classes->items[i]) == 0)
            add_class(&classes->items[kept - 1], &classes->items[i]);
        else
            classes->items[kept++] = classes->items[i];
    classes->count = kept;
    return true;
}

void operation_classes_free(struct operation_classes *classes) {
    free(classes->items);
    *classes = (struct operation_classes){0};
}
