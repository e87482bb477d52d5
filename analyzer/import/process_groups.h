/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's process groups as a trace's "distributedInfo" lists them ("pg_config").
 * Lives here: their names, descriptions and members.
 * Must not live here: communicators of the finished trace.
 */
#ifndef COMMTAP_IMPORT_PROCESS_GROUPS_H
#define COMMTAP_IMPORT_PROCESS_GROUPS_H

#include <jansson.h>

#include "analyzer/import/trace.h"

enum { PROCESS_GROUP_NAME = 96 };

struct process_group {
    char name[PROCESS_GROUP_NAME];
    char description[PROCESS_GROUP_NAME]; /* "mesh_tp", empty: there is none */
    int32_t *ranks;                       /* NULL: not told */
    uint32_t size;
};

/* Of one document. All zero: none. */
struct process_groups {
    struct process_group *items;
    size_t count;
};

/* Reads the list, anything else is none. Returns false when memory is short, or a limit is exceeded. */
bool process_groups_read(struct process_groups *groups, const json_t *list, struct import_limits *limits);
void process_groups_free(struct process_groups *groups);
/* NULL: not listed. */
const struct process_group *process_groups_find(const struct process_groups *groups, const char *name);

/* "mesh_tp 3" of a description and a name: groups of one kind have one description, and names of their own. Just the
 * name where PyTorch was told no description (NULL, "undefined"). */
void process_group_title(char *title, size_t size, const char *name, const char *description);

#endif
