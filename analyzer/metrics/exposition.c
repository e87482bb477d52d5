/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/metrics/exposition.h"

#include <inttypes.h>

#include "analyzer/render/escape.h"

void metric_label(struct metric_labels *labels, const char *name, const char *value) {
    if (!value || labels->count == METRIC_LABELS)
        return;
    labels->items[labels->count].name = name;
    labels->items[labels->count++].value = value;
}

static void print_value_of_label(FILE *stream, const char *text) {
    for (size_t length; *text; text += length ? length : 1) {
        unsigned code;
        length = utf8_decode(text, &code);
        if (length == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0))
            fprintf(stream, "\\\\x%02x", length == 0 ? (unsigned char)*text : code);
        else if (*text == '\\' || *text == '"')
            fprintf(stream, "\\%c", *text);
        else
            fwrite(text, 1, length, stream);
    }
}

static void print_series(FILE *stream, const char *name, const struct metric_labels *labels) {
    fputs(name, stream);
    for (size_t i = 0; i < labels->count; i++) {
        fprintf(stream, "%c%s=\"", i == 0 ? '{' : ',', labels->items[i].name);
        print_value_of_label(stream, labels->items[i].value);
        fputc('"', stream);
    }
    fputs(labels->count > 0 ? "} " : " ", stream);
}

void metric_family(FILE *stream, const char *name, const char *type, const char *help) {
    fprintf(stream, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metric_sample(FILE *stream, const char *name, const struct metric_labels *labels, double value) {
    print_series(stream, name, labels);
    fprintf(stream, "%.12g\n", value);
}

void metric_count(FILE *stream, const char *name, const struct metric_labels *labels, uint64_t value) {
    print_series(stream, name, labels);
    fprintf(stream, "%" PRIu64 "\n", value);
}
