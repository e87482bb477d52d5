/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary as a table: one list of columns for text, CSV and JSON.
 * Lives here: keys and looks of the summary's columns.
 * Must not live here: sums.
 */
#ifndef COMMTAP_RENDER_SUMMARY_TABLE_H
#define COMMTAP_RENDER_SUMMARY_TABLE_H

#include <stdio.h>

#include "analyzer/profile/summary.h"
#include "analyzer/render/table.h"

/* Columns over struct summary_entry; keys as in DESIGN's report.summary, further ones after them. */
extern const struct column summary_columns[];

/* The table of all entries. */
struct table summary_table(const struct summary *summary);

/* Lines that tell of receives whose sizes are those of their buffers, and of times that are shares of an interval;
 * nothing where there are none. */
void summary_print_notes(FILE *stream, const struct summary *summary);

/* "mpi", "nccl"; "host", "gpu-event", "in-kernel", "inferred"; NULL for other values. */
const char *api_name(uint8_t api);
const char *source_name(uint8_t source);

#endif
