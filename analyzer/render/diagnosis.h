/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis as text and as JSON (schema commtap.diagnose/1).
 * Lives here: its keys and looks.
 * Must not live here: judging, sentences.
 */
#ifndef COMMTAP_RENDER_DIAGNOSIS_H
#define COMMTAP_RENDER_DIAGNOSIS_H

#include <jansson.h>
#include <stdio.h>

#include "analyzer/findings/diagnosis_text.h"
#include "analyzer/load/filter.h"

/* DESIGN's object; further keys: run_id, looks, text, mismatch, unmatched, and waits: where the filter names ranks,
 * communicators or functions, what those wait in, else null. NULL when memory is short. */
json_t *diagnosis_to_json(struct diagnosis *diagnosis, const struct diagnosis_text *told, const struct job *job,
                          unsigned looks, const struct filter *filter);

/* Of it the verdict, its severity, and the culprits with their states: what a report holds. */
json_t *diagnosis_brief_to_json(const struct diagnosis *diagnosis);

/* The sentences, the verdict coloured, each wrapped for a screen of 100 columns. */
void diagnosis_print(FILE *stream, const struct diagnosis *diagnosis, const struct diagnosis_text *told, bool color);
/* A line for each wait that the filter names, `top` of them (0: all); nothing where it names none. */
void diagnosis_print_waits(FILE *stream, const struct diagnosis *diagnosis, const struct filter *filter, size_t top);

#endif
