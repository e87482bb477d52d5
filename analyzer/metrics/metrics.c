/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/metrics/metrics.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/cli/user.h"
#include "analyzer/job/library.h"
#include "analyzer/load/rows.h"
#include "analyzer/metrics/exposition.h"
#include "analyzer/render/straggler_table.h"
#include "analyzer/render/units.h"

/* ---- the job --------------------------------------------------------------------------------- */

static struct metric_labels labels_of_job(const struct session *session) {
    struct metric_labels labels = {.count = 0};
    metric_label(&labels, "run", session->job.listed->id);
    return labels;
}

static void print_info(FILE *stream, const struct session *session) {
    const struct dump *dump = session->job.dumps[0];
    struct metric_labels labels = labels_of_job(session);
    struct library mpi, nccl;
    char generation[12], name[USER_BYTES];
    snprintf(generation, sizeof generation, "%u", session->job.listed->generation);
    metric_label(&labels, "job_id", dump->job_id);
    metric_label(&labels, "user", user_named(dump->user, name));
    metric_label(&labels, "launcher", dump->launcher);
    metric_label(&labels, "generation", generation);
    metric_label(&labels, "mpi", library_of_mpi(dump, &mpi) ? mpi.name : "");
    metric_label(&labels, "nccl", library_of_nccl(dump, &nccl) ? nccl.version : "");
    metric_family(stream, "commtap_job_info", "gauge", "The job these metrics are about; always 1.");
    metric_sample(stream, "commtap_job_info", &labels, 1);
}

static void print_of_job(FILE *stream, const struct session *session, const char *name, const char *help, bool known,
                         double value) {
    const struct metric_labels labels = labels_of_job(session);
    metric_family(stream, name, "gauge", help);
    if (known)
        metric_sample(stream, name, &labels, value);
}

static void print_job(FILE *stream, const struct session *session, size_t running) {
    const struct job *job = &session->job;
    print_info(stream, session);
    print_of_job(stream, session, "commtap_job_ranks", "Ranks that left a dump.", true, (double)job->process_count);
    print_of_job(stream, session, "commtap_job_ranks_expected", "Ranks of the job's world.", job->ranks_expected > 0,
                 job->ranks_expected);
    print_of_job(stream, session, "commtap_job_ranks_running", "Ranks whose process is seen to be alive.", true,
                 (double)running);
    print_of_job(stream, session, "commtap_job_start_time_seconds", "Start of the job since the Unix epoch.",
                 job->listed->start_ns > 0, (double)job->listed->start_ns / 1e9);
    print_of_job(stream, session, "commtap_job_duration_seconds", "From the first moment on record to the last.",
                 session->end_ns >= session->start_ns, seconds_of(session->end_ns - session->start_ns));
    print_of_job(stream, session, "commtap_clock_error_seconds", "Worst error of the clock that all ranks share.",
                 common_clock_worst_error(&session->clock) != CLOCK_ERROR_UNKNOWN,
                 seconds_of(common_clock_worst_error(&session->clock)));
}

static void print_findings(FILE *stream, const struct session *session) {
    metric_family(stream, "commtap_findings", "gauge", "Findings that commtap report prints, by severity.");
    for (int severity = SEVERITY_INFO; severity <= SEVERITY_ERROR; severity++) {
        struct metric_labels labels = labels_of_job(session);
        uint64_t count = 0;
        for (size_t i = 0; i < session->findings.count; i++)
            count += session->findings.items[i].severity == (enum severity)severity;
        metric_label(&labels, "severity", severity_name((enum severity)severity));
        metric_count(stream, "commtap_findings", &labels, count);
    }
}

/* ---- ranks ----------------------------------------------------------------------------------- */

struct rank_family {
    const char *name, *type, *help;
    double (*value)(const struct session *session, size_t dump); /* below 0: not known */
};

static bool is_on_record(const struct session *session, size_t dump) {
    return session->analysis.times[dump].from_ns <= session->analysis.times[dump].to_ns;
}

static bool are_waits_known(const struct session *session) {
    return session->analysis.waits.judged + session->analysis.waits.messages > 0;
}

/* Sums over a process's lanes: told once of each. */
static double sum_of_lanes(const struct dump *dump, uint64_t (*of_lane)(const struct dump *dump, uint32_t lane)) {
    uint64_t events = 0;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        events += of_lane(dump, lane);
    return dump_stands_for_process(dump) ? (double)events : -1;
}

static double events_of(const struct session *session, size_t dump) {
    return sum_of_lanes(session->job.dumps[dump], dump_lane_written);
}

static double events_lost_of(const struct session *session, size_t dump) {
    return sum_of_lanes(session->job.dumps[dump], dump_lane_lost);
}

static double recorded_of(const struct session *session, size_t dump) {
    return is_on_record(session, dump) ? seconds_of(session->analysis.times[dump].window_ns) : -1;
}

static double communication_of(const struct session *session, size_t dump) {
    return is_on_record(session, dump) ? seconds_of(session->analysis.times[dump].comm_ns) : -1;
}

static double wait_of(const struct session *session, size_t dump) {
    return are_waits_known(session) ? seconds_of(session->analysis.waits.ranks[dump].wall_wait_ns) : -1;
}

static double delay_cost_of(const struct session *session, size_t dump) {
    return are_waits_known(session) && !session->analysis.delay_costs.unresolved
               ? seconds_of(session->analysis.delay_costs.ranks[dump].delay_cost_ns)
               : -1;
}

static double work_ratio_of(const struct session *session, size_t dump) {
    return session->analysis.ranks[dump].ratio > 0 ? session->analysis.ranks[dump].ratio : -1;
}

static const struct rank_family rank_families[] = {
    {"commtap_rank_events_total", "counter", "Records written by the rank.", events_of},
    {"commtap_rank_events_lost_total", "counter", "Of these, records that no ring or trace window holds any more.",
     events_lost_of},
    {"commtap_rank_recorded_seconds", "gauge", "Time that the rank's records cover.", recorded_of},
    {"commtap_rank_communication_seconds", "gauge", "Of the recorded time, in communication calls.", communication_of},
    {"commtap_rank_wait_seconds", "gauge", "Of the recorded time, waiting for later ranks.", wait_of},
    {"commtap_rank_delay_cost_seconds", "gauge", "All ranks' waits that go back to this rank in the end.",
     delay_cost_of},
    {"commtap_rank_work_ratio", "gauge", "Own work between collectives, relative to the rank's peers.", work_ratio_of},
};

/* Where the process has several. */
static void label_gpu(struct metric_labels *labels, const struct dump *dump) {
    const struct device_state *gpu = dump_gpu(dump);
    char number[12];
    if (!gpu)
        return;
    snprintf(number, sizeof number, "%" PRIu32, gpu->ordinal);
    metric_label(labels, "gpu", number);
}

static void print_ranks(FILE *stream, const struct session *session) {
    for (size_t f = 0; f < sizeof rank_families / sizeof *rank_families; f++) {
        const struct rank_family *family = &rank_families[f];
        metric_family(stream, family->name, family->type, family->help);
        for (size_t d = 0; d < session->job.count; d++) {
            const struct dump *dump = session->job.dumps[d];
            struct metric_labels labels = labels_of_job(session);
            char rank[12];
            double value = family->value(session, d);
            snprintf(rank, sizeof rank, "%" PRId32, dump->header->rank);
            metric_label(&labels, "rank", rank);
            label_gpu(&labels, dump);
            metric_label(&labels, "host", dump->host);
            if (dump->header->rank != RANK_UNKNOWN && value >= 0)
                metric_sample(stream, family->name, &labels, value);
        }
    }
}

/* ---- stragglers ------------------------------------------------------------------------------ */

static void print_straggler(FILE *stream, const struct session *session, const char *name, size_t at, double value) {
    const struct straggler *straggler = &session->analysis.stragglers[at];
    const struct dump *first = straggler->dump_count > 0 ? session->job.dumps[straggler->dumps[0]] : NULL;
    struct metric_labels labels = labels_of_job(session);
    char number[24], rank[12];
    snprintf(number, sizeof number, "%zu", at + 1);
    snprintf(rank, sizeof rank, "%" PRId32, first ? first->header->rank : RANK_UNKNOWN);
    metric_label(&labels, "number", number);
    metric_label(&labels, "kind", straggler_kind_name(straggler->kind));
    metric_label(&labels, "rank", straggler->kind == STRAGGLER_RANK && first ? rank : "");
    if (straggler->kind == STRAGGLER_RANK && first)
        label_gpu(&labels, first);
    metric_label(&labels, "host", first ? first->host : "");
    metric_sample(stream, name, &labels, value);
}

static void print_stragglers(FILE *stream, const struct session *session) {
    static const char speedup[] = "commtap_straggler_speedup_ratio",
                      confidence[] = "commtap_straggler_confidence_ratio";
    const struct straggler_analysis *analysis = &session->analysis;
    metric_family(stream, speedup, "gauge", "How much faster the job would run with this straggler mended.");
    for (size_t i = 0; i < analysis->straggler_count; i++)
        print_straggler(stream, session, speedup, i, analysis->stragglers[i].what_if_speedup);
    metric_family(stream, confidence, "gauge", "How sure it is that this is no chance, 0 to 1.");
    for (size_t i = 0; i < analysis->straggler_count; i++)
        print_straggler(stream, session, confidence, i, analysis->stragglers[i].confidence);
}

bool metrics_print(FILE *stream, const struct session *session, size_t running, bool per_rank) {
    struct summary summary;
    struct operation_classes classes;
    if (!summary_build(&summary, &session->job.selected, NULL, SUMMARY_BY_DEFAULT | (per_rank ? SUMMARY_BY_RANK : 0)))
        return false;
    bool done = operation_classes_build(&classes, &summary);
    if (done) {
        print_job(stream, session, running);
        print_findings(stream, session);
        print_stragglers(stream, session);
        print_ranks(stream, session);
        metrics_print_operations(stream, session, &classes);
        operation_classes_free(&classes);
    }
    summary_free(&summary);
    return done;
}
