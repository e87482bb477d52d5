/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of a trace file, each stored once: names and values that come from the job, made valid for any viewer.
 * Lives here: numbering them, making them valid.
 * Must not live here: file formats.
 */
#ifndef COMMTAP_TRACES_TRACE_TEXT_H
#define COMMTAP_TRACES_TRACE_TEXT_H

#include "analyzer/base/hash_table.h"

/* Bytes of one text; the rest is cut off and three dots say so. A call stack of FRAMES_MAX frames mostly fits. */
enum { TRACE_TEXT_MOST = 16384 };

struct trace_text {
    const char *key;   /* as it came */
    const char *valid; /* UTF-8 without control characters, escaped as for a terminal (escape.h) */
    uint32_t number;   /* 1, 2, ... */
    bool written;      /* for whoever writes definitions */
};

/* All zero is empty. */
struct trace_texts {
    struct hash_table table;
};

/* Its place holds until the next one is asked for. NULL when memory is short. */
struct trace_text *trace_text(struct trace_texts *texts, const char *text);
void trace_texts_free(struct trace_texts *texts);

#endif
