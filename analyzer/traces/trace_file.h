/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace file for a viewer of time lines: tracks, slices and what lies in them, flows, counters, one after the other.
 * Lives here: writing them as TrackEvent protobuf (Perfetto) or as Chrome's JSON, the largest size a viewer takes.
 * Must not live here: what is drawn (tracks/), what it is called (trace_events.h), opening files.
 *
 * A slice is written as a whole, with what lies in it, so that a file that reached its largest size is still sound.
 */
#ifndef COMMTAP_TRACES_TRACE_FILE_H
#define COMMTAP_TRACES_TRACE_FILE_H

#include <stdio.h>

#include "analyzer/traces/protobuf.h"
#include "analyzer/render/table.h"
#include "analyzer/traces/trace_text.h"
#include "analyzer/tracks/tracks.h"

/* MiB. Perfetto's documentation (large-traces) gives a browser's trace processor 2 GB and says that a trace takes 2 to
 * 4 times its size there; Chrome's viewer reads the file into one string, of at most 2^29 - 24 characters in V8. */
enum { TRACE_MIB_MOST = 511 };

struct trace_argument {
    const char *key;
    struct cell value;
};

enum { TRACE_ARGUMENTS_MOST = 48 };

struct trace_arguments {
    struct trace_argument items[TRACE_ARGUMENTS_MOST];
    size_t count;
};

/* What lies in a slice: waiting, transferring. */
struct trace_part {
    const char *name;
    int64_t begin, end;
    const char *argument; /* NULL: none */
    int64_t value;
};

struct trace_event {
    const struct slice *slice;
    const char *name, *category;
    struct trace_arguments arguments;
    struct trace_part parts[2]; /* one behind the other */
    size_t part_count;
};

struct trace_track {
    const struct track *track;
    const char *name;
    int order;        /* among its siblings */
    const char *unit; /* of a counter; NULL: it has slices */
};

struct trace_file;

struct trace_format {
    const char *mark; /* what the first bytes of a file of commtap's hold */
    void (*begin)(struct trace_file *file);
    void (*track)(struct trace_file *file, const struct trace_track *track);
    void (*event)(struct trace_file *file, const struct trace_event *event);
    void (*counter)(struct trace_file *file, const struct trace_track *track, int64_t at, double value);
    void (*end)(struct trace_file *file);
};

extern const struct trace_format trace_perfetto, trace_chrome;

struct trace_file {
    FILE *stream;
    const struct trace_format *format;
    const char *run_id;
    uint64_t bytes_most;
    /* what came of it */
    uint64_t bytes, events; /* written */
    uint64_t cut;           /* events that found no room */
    int64_t cut_from;       /* the earliest begin of those, ns since the origin */
    bool no_memory;
    /* private */
    struct trace_texts texts;
    struct bytes pending;  /* what is written as one */
    struct bytes parts[3]; /* messages that are being made, the inner ones first */
};

/* `file` starts zeroed but for what is to be set: stream, format, run_id, bytes_most. */
void trace_file_begin(struct trace_file *file);
void trace_file_track(struct trace_file *file, const struct trace_track *track);
void trace_file_event(struct trace_file *file, const struct trace_event *event);
void trace_file_counter(struct trace_file *file, const struct trace_track *track, int64_t at, double value);
/* Ends the file, and frees what the writing took. What the stream could not take it tells itself. */
void trace_file_end(struct trace_file *file);

/* Whether a file that begins with these bytes is a trace that commtap wrote. */
enum { TRACE_MARK_WITHIN = 256 };
bool trace_file_is_ours(const char *first, size_t count);

#endif
