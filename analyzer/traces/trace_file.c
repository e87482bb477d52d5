/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/traces/trace_file.h"

#include <string.h>

static void write_pending(struct trace_file *file) {
    file->no_memory |= file->pending.no_memory;
    fwrite(file->pending.data, 1, file->pending.count, file->stream);
    file->bytes += file->pending.count;
    file->pending.count = 0;
}

/* Writes what is pending, unless the file is full: then nothing more comes, as it may speak of what was left out. */
static void write_event(struct trace_file *file, int64_t begin) {
    if (file->cut == 0 && file->bytes + file->pending.count <= file->bytes_most) {
        write_pending(file);
        file->events++;
        return;
    }
    file->pending.count = 0;
    if (file->cut == 0 || begin < file->cut_from)
        file->cut_from = begin;
    file->cut++;
}

void trace_file_begin(struct trace_file *file) {
    file->format->begin(file);
    write_pending(file);
}

void trace_file_track(struct trace_file *file, const struct trace_track *track) {
    file->format->track(file, track);
    if (file->cut == 0)
        write_pending(file);
    file->pending.count = 0;
}

void trace_file_event(struct trace_file *file, const struct trace_event *event) {
    if (file->cut == 0)
        file->format->event(file, event);
    write_event(file, event->slice->begin);
}

void trace_file_counter(struct trace_file *file, const struct trace_track *track, int64_t at, double value) {
    if (file->cut == 0)
        file->format->counter(file, track, at, value);
    write_event(file, at);
}

void trace_file_end(struct trace_file *file) {
    file->format->end(file);
    write_pending(file);
    trace_texts_free(&file->texts);
    bytes_free(&file->pending);
    for (size_t i = 0; i < sizeof file->parts / sizeof *file->parts; i++)
        bytes_free(&file->parts[i]);
}

bool trace_file_is_ours(const char *first, size_t count) {
    const char *marks[] = {trace_perfetto.mark, trace_chrome.mark};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (memmem(first, count, marks[i], strlen(marks[i])))
            return true;
    return false;
}
