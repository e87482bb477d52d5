/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/findings_gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/statistics.h"
#include "analyzer/findings/words.h"
#include "analyzer/load/gpu_view.h"
#include "analyzer/load/losses.h"
#include "analyzer/stragglers/verdicts.h"

enum { LAUNCHES_MIN = 8, SHARE_PERCENT = 50, MEMORY_PERCENT = 90, UNSEEN_PERMILLE = 5 };

static bool uses_nccl(const struct dump *dump) {
    return dump->header->nccl_version != 0 || dump->header->nccl_library[0] != '\0';
}

/* ---- how operations were timed --------------------------------------------------------------- */

/* Where the library says nothing: nobody had asked it to leave times out. */
static const char *why_untimed(const struct dump_header *header) {
    bool wanted = header->gpu_timing == GPU_TIMING_EVENTS || header->gpu_timing == GPU_TIMING_KERNEL;
    return wanted ? "none of them came back with a time" : "no communicator was seen being made";
}

static void add_untimed(struct findings *findings, const struct job *job) {
    const struct dump *first = NULL;
    size_t untimed = 0, users = 0;
    for (size_t d = 0; d < job->process_count; d++) {
        users += uses_nccl(job->processes[d]);
        if (!uses_nccl(job->processes[d]) || dump_has_device_times(job->processes[d]))
            continue;
        first = first ? first : job->processes[d];
        untimed++;
    }
    if (untimed == 0)
        return;
    char why[sizeof first->header->gpu_timing_why + 1];
    memcpy(why, first->header->gpu_timing_why, sizeof why - 1);
    why[sizeof why - 1] = '\0';
    findings_add(
        findings, FINDING_GPU_UNTIMED,
        "GPU operations were not timed on %zu of %zu ranks (%s): their calls only tell when they were enqueued.",
        untimed, users, why[0] ? why : why_untimed(first->header));
}

static void add_host_bound(struct findings *findings, const struct straggler_analysis *analysis) {
    uint64_t joined = 0, bound = 0;
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        joined += analysis->launches[d].joined;
        bound += analysis->launches[d].host_bound;
    }
    if (joined >= LAUNCHES_MIN && bound * 100 > joined * SHARE_PERCENT)
        findings_add(findings, FINDING_HOST_BOUND,
                     "%.0f %% of the GPU operations began before their call had returned: the hosts limit them, and "
                     "their times hold what the calls did.",
                     100.0 * (double)bound / (double)joined);
}

static void add_exposed(struct findings *findings, const struct straggler_analysis *analysis) {
    size_t most = 0;
    uint64_t waits = 0;
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        waits += analysis->launches[d].waits;
        if (analysis->launches[d].exposed_ns > analysis->launches[most].exposed_ns)
            most = d;
    }
    int64_t window = analysis->times[most].window_ns;
    if (waits == 0 || window <= 0)
        return;
    findings_add(findings, FINDING_EXPOSED,
                 "exposed communication: GPU streams waited for it %.1f %% of the time on %s"
                 ", the most of all.",
                 100.0 * (double)analysis->launches[most].exposed_ns / (double)window,
                 dump_text(analysis->clock->dumps[most]).text);
}

/* ---- what wrappers and plugin saw ------------------------------------------------------------ */

/* Calls that one of the two sensors did not see, as a finding: figures that miss calls must say so. */
static void add_unseen(struct findings *findings, const struct job *job) {
    uint64_t wrapped = 0, plugged = 0, only_plugged = 0, only_wrapped = 0;
    const char *example = NULL;
    uint64_t example_calls = 0;
    for (size_t d = 0; d < job->process_count; d++) {
        const struct dump *dump = job->processes[d];
        uint64_t of_dump = 0;
        for (uint32_t i = 0; i < dump->sensor_count; i++)
            of_dump |= dump->sensors[i].plugged;
        for (uint32_t i = 0; of_dump && i < dump->sensor_count; i++) { /* no plugin, nothing to compare */
            const struct sensor_row *row = &dump->sensors[i];
            const struct call_name *call = row->call < UINT16_MAX ? dump_call(dump, (uint16_t)row->call) : NULL;
            if (row->call == 0 || !call || row->wrapped > INT64_MAX / 4096 || row->plugged > INT64_MAX / 4096)
                continue;
            wrapped += row->wrapped;
            plugged += row->plugged;
            uint64_t missed = row->plugged > row->wrapped ? row->plugged - row->wrapped : 0;
            only_plugged += missed;
            only_wrapped += row->wrapped > row->plugged ? row->wrapped - row->plugged : 0;
            if (missed > example_calls) {
                example_calls = missed;
                example = call->name;
            }
        }
    }
    if (only_plugged * 1000 > plugged * UNSEEN_PERMILLE)
        findings_add(findings, FINDING_UNSEEN_CALLS,
                     "%.0f %% of NCCL calls were not seen by interception (%" PRIu64 " of %" PRIu64
                     ", most of them %s): a copy of NCCL is linked statically or was reached before commtap. Only "
                     "NCCL's profiler plugin counted them: they are in no other figure.",
                     100.0 * (double)only_plugged / (double)plugged, only_plugged, plugged, example ? example : "?");
    if (only_wrapped * 1000 > wrapped * UNSEEN_PERMILLE)
        findings_add(findings, FINDING_UNSEEN_CALLS,
                     "NCCL's profiler plugin was not told of %.0f %% of the calls (%" PRIu64 " of %" PRIu64
                     "): they have no in-kernel times.",
                     100.0 * (double)only_wrapped / (double)wrapped, only_wrapped, wrapped);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Which of a process' GPUs, where it has several. */
static void add_full_memory(struct findings *findings, const struct dump *dump, uint32_t device, double share) {
    char gpu[32] = "";
    if (dump->device_count > 1)
        snprintf(gpu, sizeof gpu, " GPU %" PRIu32, dump_device_number(dump, device));
    findings_add(findings, FINDING_DEVICE_MEMORY, "device memory was %.0f %% full at its peak on %s%s.", 100 * share,
                 rank_text(dump->header->rank).text, gpu);
}

static void add_memory(struct findings *findings, const struct job *job) {
    double worst = 0;
    const struct dump *where = NULL;
    uint32_t which = 0;
    for (size_t d = 0; d < job->process_count; d++)
        for (uint32_t i = 0; i < job->processes[d]->device_count; i++) {
            const struct device_state *device = &job->processes[d]->devices[i];
            if (device->version == 0 || device->capacity == 0 || device->memory_samples == 0 ||
                device->memory_peak > device->capacity)
                continue;
            double share = (double)device->memory_peak / (double)device->capacity;
            if (share > worst) {
                worst = share;
                where = job->processes[d];
                which = i;
            }
        }
    if (where && worst * 100 >= MEMORY_PERCENT)
        add_full_memory(findings, where, which, worst);
}

void findings_add_gpu(struct findings *findings, const struct job *job, const struct straggler_analysis *analysis) {
    add_unseen(findings, job);
    add_untimed(findings, job);
    add_host_bound(findings, analysis);
    add_exposed(findings, analysis);
    add_memory(findings, job);
}

/* ---- where a late rank was late -------------------------------------------------------------- */

/* What a rank's GPU did beside its launches. */
typedef int64_t gpu_time(const struct straggler_analysis *analysis, size_t dump);

/* By a profiler's trace: how long it worked. */
static int64_t recorded_work(const struct straggler_analysis *analysis, size_t dump) {
    return analysis->times[dump].gpu_work_ns;
}

/* Else: how long other work kept its launches waiting, all of them as long as those whose calls are on record. In all
 * and not for each: the ends of a pipeline have half as many as its middle. */
static int64_t all_held_up(const struct straggler_analysis *analysis, size_t dump) {
    const struct rank_launches *launches = &analysis->launches[dump];
    return ns_clamped((double)launches->held_up_ns / (double)launches->joined * (double)launches->launches);
}

/* By how much longer a straggler's ranks, on average, did that than the median (the lower one of two) of those that it
 * is compared with. Returns false where of none of these enough is known. */
static bool find_longer(const struct straggler_analysis *analysis, const struct straggler *straggler, gpu_time *time_of,
                        int64_t *longer) {
    const uint32_t *groups = analysis->comparison_groups.group_of;
    int64_t *values = malloc((analysis->directory->dump_count + 1) * sizeof *values), own = 0;
    size_t count = 0;
    for (size_t d = 0; values && d < analysis->directory->dump_count; d++)
        if (analysis->launches[d].joined < LAUNCHES_MIN)
            continue;
        else if (straggler_concerns(straggler, d))
            own = add_ns(own, time_of(analysis, d) / (int64_t)straggler->dump_count);
        else if (groups[d] == groups[straggler->dumps[0]])
            values[count++] = time_of(analysis, d);
    if (count > 0)
        *longer = own - median_low_int64(values, count);
    free(values);
    return count > 0;
}

void findings_say_where_late(const struct straggler_analysis *analysis, const struct straggler *straggler, char *text,
                             size_t size) {
    int64_t longer;
    uint64_t joined = 0, launches = 0;
    bool recorded = true;
    text[0] = '\0';
    for (size_t i = 0; i < straggler->dump_count; i++) {
        joined += analysis->launches[straggler->dumps[i]].joined;
        launches += analysis->launches[straggler->dumps[i]].launches;
        recorded = recorded && analysis->times[straggler->dumps[i]].gpu_work_ns > 0;
    }
    if (joined < LAUNCHES_MIN || straggler->extra_ns <= 0 ||
        !find_longer(analysis, straggler, recorded ? recorded_work : all_held_up, &longer))
        return;
    bool messages = analysis->comparison_groups.cuts[straggler->dumps[0]].kind == CUT_MESSAGE;
    const char *what = messages ? "messages" : "collectives";
    if (longer > straggler->extra_ns / 2)
        snprintf(text, size,
                 "; it enqueues its %s in time, but other GPU work keeps them waiting in its streams %.2f ms "
                 "longer than the others' (each)",
                 what, (double)longer * (double)straggler->dump_count / (double)launches / 1e6);
    else
        snprintf(text, size, "; it enqueues its %s late: they find its GPU idle", what);
}

/* A replay without times leaves a hole in which all ranks seem to work: who waited there looks less unlike who did not.
 * Returns how many GPU operations these held, 0 where they are too few to matter; *all: of so many in all replays. */
static uint64_t untimed_replays(const struct straggler_analysis *analysis, uint64_t *all) {
    struct loss_counts losses = {0};
    *all = 0;
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        const struct dump *dump = analysis->directory->dumps[d];
        *all += analysis->launches[d].replayed;
        if (!dump->view || dump->view->rest) /* once per process */
            losses_add(&losses, dump);
    }
    *all += losses.of[LOSS_REPLAYS];
    return losses.of[LOSS_REPLAYS] >= *all / VERDICT_SHARE ? losses.of[LOSS_REPLAYS] : 0;
}

void findings_say_untimed_replays(const struct straggler_analysis *analysis, char *text, size_t size) {
    uint64_t all, untimed = untimed_replays(analysis, &all);
    text[0] = '\0';
    if (untimed > 0)
        snprintf(text, size,
                 " That is the least: of %" PRIu64 " GPU operations of graph replays %" PRIu64
                 " were not timed, and what ranks waited in these counts as work.",
                 all, untimed);
}

/* The sentence about who is named says so of what it promises. */
static bool is_anything_promised(const struct straggler_analysis *analysis) {
    for (size_t i = 0; i < analysis->straggler_count; i++) {
        const struct straggler *named = &analysis->stragglers[i];
        if ((named->kind == STRAGGLER_RANK || named->kind == STRAGGLER_HOST) && named->what_if_speedup >= SPEEDUP_SHOWN)
            return true;
    }
    return false;
}

void findings_add_untimed_replays(struct findings *findings, const struct straggler_analysis *analysis) {
    uint64_t all, untimed = untimed_replays(analysis, &all);
    if (untimed > 0 && !is_anything_promised(analysis))
        findings_add(findings, FINDING_REPLAYS_UNTIMED,
                     "of %" PRIu64 " GPU operations of graph replays %" PRIu64
                     " were not timed: graphs are launched before the replay before is over. Work and waits are told "
                     "apart by the others alone, and what ranks waited in these counts as work: by how much ranks "
                     "differ, and what they would gain, is the least.",
                     all, untimed);
}
