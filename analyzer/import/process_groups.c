/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/process_groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/import/formats.h"

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool read_group(struct process_group *group, const json_t *item, struct import_limits *limits) {
    const json_t *ranks = json_object_get(item, "ranks");
    size_t most = json_array_size(ranks);
    snprintf(group->name, sizeof group->name, "%s", text_of(item, "pg_name"));
    snprintf(group->description, sizeof group->description, "%s", text_of(item, "pg_desc"));
    if (most == 0 || most > TRACE_RANKS_MOST)
        return true;
    if (!limits_keep(limits, most * sizeof *group->ranks) || !(group->ranks = malloc(most * sizeof *group->ranks)))
        return false;
    group->size = import_ranks(ranks, group->ranks, (uint32_t)most);
    return true;
}

bool process_groups_read(struct process_groups *groups, const json_t *list, struct import_limits *limits) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!limits_keep(limits, 2 * sizeof *groups->items) || !grow_list(groups->items, groups->count))
            return false;
        struct process_group *group = &groups->items[groups->count++];
        *group = (struct process_group){0};
        if (!read_group(group, json_array_get(list, i), limits))
            return false;
    }
    return true;
}

void process_groups_free(struct process_groups *groups) {
    for (size_t i = 0; i < groups->count; i++)
        free(groups->items[i].ranks);
    free(groups->items);
    *groups = (struct process_groups){0};
}

const struct process_group *process_groups_find(const struct process_groups *groups, const char *name) {
    for (size_t i = 0; i < groups->count; i++)
        if (strcmp(groups->items[i].name, name) == 0)
            return &groups->items[i];
    return NULL;
}

void process_group_title(char *title, size_t size, const char *name, const char *description) {
    bool described = description && description[0] && strcmp(description, "undefined") != 0;
    if (described)
        snprintf(title, size, "%s%s%s", description, name[0] ? " " : "", name);
    else
        snprintf(title, size, "%s", name);
}
