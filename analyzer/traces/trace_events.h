/* SPDX-License-Identifier: Apache-2.0
 *
 * What is drawn of a job, as a person reads it in a viewer: names of tracks and slices, arguments, call stacks.
 * Lives here: from tracks and slices (tracks/) to the events of a trace file.
 * Must not live here: file formats.
 *
 * The arguments of a slice are the columns of `commtap export --table records` with their names, without those that its
 * place says, that are not known and switches that are off.
 */
#ifndef COMMTAP_TRACES_TRACE_EVENTS_H
#define COMMTAP_TRACES_TRACE_EVENTS_H

#include "analyzer/traces/trace_file.h"
#include "analyzer/symbols/frames.h"

struct trace_events {
    struct trace_file *file;
    const struct match_directory *directory;
    const struct symbols *symbols; /* looked up */
    const struct skip_list *skip;
    bool no_memory;
    /* private */
    struct hash_table stacks;                           /* their texts */
    const struct column *columns[TRACE_ARGUMENTS_MOST]; /* that become arguments */
    size_t column_count;
    struct frames frames;
};

/* Starts zeroed but for the first four; freed with trace_events_free. */
struct track_sink trace_events_sink(struct trace_events *events);
void trace_events_free(struct trace_events *events);

#endif
