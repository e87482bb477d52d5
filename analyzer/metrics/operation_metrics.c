/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "analyzer/metrics/exposition.h"
#include "analyzer/metrics/metrics.h"
#include "analyzer/render/summary_table.h"

/* Text of labels that are numbers. */
struct operation_words {
    char comm[17], comm_size[12], rank[12], size[24];
};

static struct metric_labels labels_of(const struct session *session, const struct operation_class *class,
                                      struct operation_words *words) {
    const struct summary_entry *like = class->like;
    struct metric_labels labels = {.count = 0};
    snprintf(words->comm, sizeof words->comm, "%016" PRIx64, like->comm);
    snprintf(words->comm_size, sizeof words->comm_size, "%" PRIu32, like->comm_size);
    snprintf(words->rank, sizeof words->rank, "%" PRId32, like->rank);
    snprintf(words->size, sizeof words->size, "%" PRIu64, class->size_log2 >= 0 ? UINT64_C(1) << class->size_log2 : 0);
    metric_label(&labels, "run", session->job.listed->id);
    metric_label(&labels, "rank", like->rank == RANK_UNKNOWN ? NULL : words->rank);
    metric_label(&labels, "api", api_name(like->api));
    metric_label(&labels, "op", like->op ? like->op : "");
    metric_label(&labels, "comm", like->has_comm ? words->comm : "");
    metric_label(&labels, "comm_name", like->has_comm ? like->comm_name : "");
    metric_label(&labels, "comm_size", like->comm_size > 0 ? words->comm_size : "");
    metric_label(&labels, "message_size_min", class->size_log2 == -2 ? "" : words->size);
    metric_label(&labels, "source", source_name(like->source));
    return labels;
}

/* One figure of all classes; below 0: it is not known. */
struct operation_family {
    const char *name, *type, *help;
    double (*value)(const struct operation_class *class);
};

static double calls_of(const struct operation_class *class) {
    return (double)class->calls;
}

static double failed_of(const struct operation_class *class) {
    return (double)class->failed;
}

static double bytes_of(const struct operation_class *class) {
    return class->size_log2 == -2 ? -1 : (double)class->bytes;
}

static double seconds_of_class(const struct operation_class *class) {
    return (double)class->time_ns / 1e9;
}

static double bus_bandwidth_of(const struct operation_class *class) {
    return class->bus_seconds > 0 ? class->bus_bytes / class->bus_seconds : -1;
}

static const struct operation_family families[] = {
    {"commtap_operation_calls_total", "counter", "Calls of communication functions, summed over ranks.", calls_of},
    {"commtap_operation_failed_total", "counter", "Calls that returned an error.", failed_of},
    {"commtap_operation_bytes_total", "counter", "Message bytes in the sense of nccl-tests, summed over ranks.",
     bytes_of},
    {"commtap_operation_seconds_total", "counter", "Time inside the calls, summed over ranks.", seconds_of_class},
    {"commtap_operation_bus_bytes_per_second", "gauge", "Mean bus bandwidth as nccl-tests defines it, waits included.",
     bus_bandwidth_of},
};

void metrics_print_operations(FILE *stream, const struct session *session, const struct operation_classes *classes) {
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        metric_family(stream, families[f].name, families[f].type, families[f].help);
        for (size_t i = 0; i < classes->count; i++) {
            struct operation_words words;
            const struct metric_labels labels = labels_of(session, &classes->items[i], &words);
            double value = families[f].value(&classes->items[i]);
            if (value >= 0)
                metric_sample(stream, families[f].name, &labels, value);
        }
    }
}
