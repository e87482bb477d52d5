/* SPDX-License-Identifier: Apache-2.0
 *
 * A page that may be handed on: names of machines, people and places taken out of every text of it.
 * Lives here: what is such a name, and what stands in its place. Must not live here: which texts a page has.
 *
 * Hosts become "host 1", "host 2" and so on, in the order of the ranks; of a path its last part stays, of the job's own
 * directories "DIR"; command lines, users and working directories go. Files of code that are no part of the system (the
 * program, its libraries) become "module 1" and so on. Names that the program gave (functions, ranges, communicators)
 * stay.
 */
#ifndef COMMTAP_PAGE_REDACT_H
#define COMMTAP_PAGE_REDACT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "analyzer/dumps/set.h"
#include "analyzer/job/job.h"

struct redaction {
    char **names; /* of hosts, each once; names[i] becomes "host i + 1" */
    size_t name_count;
    char **modules; /* last parts of the paths of the program and its libraries; modules[i] becomes "module i + 1" */
    size_t module_count;
    char **places; /* directories that are told as a whole, the longest first */
    size_t place_count;
};

/* What there is to be taken out of texts about a job of a set. Returns false when memory is short; the caller frees
 * with redaction_free in every case. */
bool redaction_build(struct redaction *redaction, const struct dump_set *set, const struct job *job);
void redaction_free(struct redaction *redaction);

/* The text without those names. NULL when memory is short; the caller frees. */
char *redact_text(const struct redaction *redaction, const char *text);

/* Takes them out of every text of a document, in place. Returns false when memory is short. */
bool redact_json(const struct redaction *redaction, json_t *json);

#endif
