/* SPDX-License-Identifier: Apache-2.0
 *
 * Prometheus' text format, version 0.0.4.
 * Lives here: families with help and type, samples with labels. Must not live here: which families there are
 * (metrics.h).
 *
 * No timestamps: node exporter's textfile collector refuses them. Text from the job is made harmless: bytes that
 * are no UTF-8 and control characters become \xNN.
 */
#ifndef COMMTAP_METRICS_EXPOSITION_H
#define COMMTAP_METRICS_EXPOSITION_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { METRIC_LABELS = 12 };

/* Labels of a sample; NULL values are left out. */
struct metric_labels {
    struct {
        const char *name, *value;
    } items[METRIC_LABELS];
    size_t count;
};

void metric_label(struct metric_labels *labels, const char *name, const char *value);

/* "# HELP" and "# TYPE"; the samples of the family follow. `type`: "counter" or "gauge". */
void metric_family(FILE *stream, const char *name, const char *type, const char *help);
void metric_sample(FILE *stream, const char *name, const struct metric_labels *labels, double value);
void metric_count(FILE *stream, const char *name, const struct metric_labels *labels, uint64_t value);

#endif
