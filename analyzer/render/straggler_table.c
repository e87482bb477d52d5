/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks and stragglers as tables and JSON.
 * Lives here: keys and looks of the ranks' columns, the JSON of stragglers.
 * Must not live here: figures, sentences.
 */
#include "analyzer/render/straggler_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/job/generations.h"
#include "analyzer/findings/findings_stragglers.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/finding_list.h"
#include "analyzer/render/steps_table.h"
#include "analyzer/render/units.h"

enum { EVIDENCE = 640 };

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

#define ROW ((const struct rank_row *)row)
#define VALUE(NAME, CELL)                                                                                              \
    static struct cell NAME(const void *row) { return CELL; }
#define WAIT(FIELD) (ROW->waits ? cell_real(seconds_of(ROW->waits->FIELD)) : cell_unknown())
#define TIME(FIELD)                                                                                                    \
    (ROW->times->from_ns <= ROW->times->to_ns ? cell_real(seconds_of(ROW->times->FIELD)) : cell_unknown())
VALUE(rank, ROW->rank >= 0 ? cell_integer(ROW->rank) : cell_unknown())
VALUE(host, ROW->host[0] ? cell_text(ROW->host) : cell_unknown())
VALUE(comm, TIME(comm_ns))
/* Where all waits were too short for the clocks nothing is known. */
#define RESOLVED(FIELD)                                                                                                \
    (ROW->waits && ROW->waits->FIELD == 0 && ROW->waits->unresolved_ns > 0 ? cell_unknown() : WAIT(FIELD))
VALUE(wait, RESOLVED(wall_wait_ns))
VALUE(wait_threads, RESOLVED(wait_ns))
VALUE(unresolved, WAIT(unresolved_ns))
#define CAUSE(FIELD) (ROW->costs ? cell_real(seconds_of(ROW->costs->FIELD)) : cell_unknown())
VALUE(imposed, CAUSE(imposed_ns))
VALUE(caused, CAUSE(delay_cost_ns))
VALUE(direct, CAUSE(direct_ns))
VALUE(propagated, CAUSE(delay_cost_ns - ROW->costs->direct_ns))
VALUE(passed_on, CAUSE(passed_on_ns))
VALUE(path, CAUSE(critical_path_ns))
VALUE(waited_for, WAIT(waited_for_ns))
VALUE(wait_all, WAIT(states_ns[WAIT_AT_NXN]))
VALUE(wait_at_fence, WAIT(states_ns[WAIT_AT_FENCE]))
VALUE(late_broadcast, WAIT(states_ns[WAIT_LATE_BROADCAST]))
VALUE(wait_to_root, WAIT(states_ns[WAIT_AT_NX1]))
VALUE(early_reduce, WAIT(early_reduce_ns))
VALUE(wait_scan, WAIT(states_ns[WAIT_EARLY_SCAN]))
VALUE(wait_at_neighbours, WAIT(states_ns[WAIT_AT_NEIGHBOURS]))
VALUE(late_sender, WAIT(states_ns[WAIT_LATE_SENDER]))
VALUE(late_receiver, WAIT(states_ns[WAIT_LATE_RECEIVER]))
VALUE(late_post, WAIT(states_ns[WAIT_LATE_POST]))
VALUE(early_wait, WAIT(states_ns[WAIT_EARLY_WAIT]))
VALUE(transfer, WAIT(wall_transfer_ns))
VALUE(transfer_threads, WAIT(transfer_ns))
VALUE(completion, WAIT(completion_ns))
VALUE(window, TIME(window_ns))
VALUE(self_ratio, ROW->verdict->ratio > 0 ? cell_real(ROW->verdict->ratio) : cell_unknown())
VALUE(self, TIME(self_ns))
VALUE(deepspeed, WAIT(deepspeed_ns))
VALUE(last, ROW->waits ? cell_unsigned(ROW->waits->last) : cell_unknown())
VALUE(persistence, ROW->verdict->ratio > 0 ? cell_real(ROW->verdict->persistence) : cell_unknown())
VALUE(confidence, ROW->verdict->ratio > 0 ? cell_real(ROW->verdict->confidence) : cell_unknown())
VALUE(gpu, ROW->gpu ? cell_unsigned(ROW->gpu->ordinal) : cell_unknown())
VALUE(gpu_name, ROW->gpu ? cell_text(ROW->gpu->name) : cell_unknown())
VALUE(end, ROW->end ? cell_text(ROW->end) : cell_unknown())

/* clang-format off */
const struct column rank_columns[] = {
    {"rank", "rank", .value = rank, .doc = "world rank"},
    {"host", "host", .left = true, .optional = true, .value = host},
    {"gpu", "GPU", .optional = true, .value = gpu, .doc = "number of its GPU, as its process counts them"},
    {"gpu_name", NULL, .left = true, .optional = true, .value = gpu_name, .doc = "the GPU's model"},
    {"comm_seconds", "comm", LOOK_SECONDS, .value = comm, .doc = "time in communication calls, Init, Finalize, file I/O, and communicator creation that is no collective of MPI left out"},
    {"wait_seconds", "waited", LOOK_SECONDS, .value = wait, .doc = "of it, waiting for a later rank: in collectives, for messages; what waits at the same time counts once", .legend = "for later ranks"},
    {"wait_thread_seconds", NULL, LOOK_SECONDS, .value = wait_threads, .doc = "the same summed over threads, streams and operations that wait at the same time"},
    {"unresolved_wait_seconds", NULL, LOOK_SECONDS, .value = unresolved, .doc = "waits shorter than the error of the clocks, by these clocks; not in waited"},
    {"imposed_wait_seconds", "imposed wait", LOOK_SECONDS, .value = imposed, .doc = "as the last arriver: its lead over the second last, times those who waited; what it had itself been kept waiting for is charged to who kept it", .legend = "waits it caused as the last to arrive"},
    {"waited_for_seconds", "waited for", LOOK_SECONDS, .value = waited_for, .doc = "sum of the others' waits for this rank", .legend = "by the others, summed"},
    {"caused_seconds", "delay cost", LOOK_SECONDS, .value = caused, .doc = "delay cost: of all ranks' waits, those that go back to this rank in the end", .legend = "all waits that go back to it"},
    {"delay_cost_direct_seconds", "direct", LOOK_SECONDS, .value = direct, .doc = "of caused_seconds: the others waited for this rank itself", .legend = "of delay cost, waits for this rank itself"},
    {"delay_cost_propagated_seconds", NULL, LOOK_SECONDS, .value = propagated, .doc = "of caused_seconds: they waited for ranks that this one had kept waiting"},
    {"passed_on_seconds", NULL, LOOK_SECONDS, .value = passed_on, .doc = "the others waited for it because it had been kept waiting itself: charged to who kept it"},
    {"critical_path_seconds", "crit. path", LOOK_SECONDS, .value = path, .doc = "of the critical path, time on this rank: over all ranks the time looked at", .legend = "time of the critical path on it"},
    {"wait_all_seconds", NULL, LOOK_SECONDS, .value = wait_all, .doc = "of wait_thread_seconds: N to N, for the last one to come"},
    {"wait_at_fence_seconds", NULL, LOOK_SECONDS, .value = wait_at_fence, .doc = "of wait_thread_seconds: in fences, for the last one to come"},
    {"late_broadcast_seconds", NULL, LOOK_SECONDS, .value = late_broadcast, .doc = "of wait_thread_seconds: for a root that sends"},
    {"wait_to_root_seconds", NULL, LOOK_SECONDS, .value = wait_to_root, .doc = "of wait_thread_seconds: as a root, for the last one that sends to it"},
    {"early_reduce_seconds", NULL, LOOK_SECONDS, .value = early_reduce, .doc = "of it, until the first one had come (Scalasca's early reduce)"},
    {"wait_scan_seconds", NULL, LOOK_SECONDS, .value = wait_scan, .doc = "of wait_thread_seconds: in scans, for lower ranks"},
    {"wait_at_neighbours_seconds", NULL, LOOK_SECONDS, .value = wait_at_neighbours, .doc = "of wait_thread_seconds: in neighbourhood collectives, for the last one that it takes from"},
    {"late_sender_seconds", NULL, LOOK_SECONDS, .value = late_sender, .doc = "of wait_thread_seconds: receiving what was sent later"},
    {"late_receiver_seconds", NULL, LOOK_SECONDS, .value = late_receiver, .doc = "of wait_thread_seconds: sending what was received later"},
    {"late_post_seconds", NULL, LOOK_SECONDS, .value = late_post, .doc = "of wait_thread_seconds: starting or completing an epoch that its target opened later"},
    {"early_wait_seconds", NULL, LOOK_SECONDS, .value = early_wait, .doc = "of wait_thread_seconds: in MPI_Win_wait, for the last one to complete its epoch"},
    {"transfer_seconds", NULL, LOOK_SECONDS, .value = transfer, .doc = "in collectives and not waiting: after the last one had come"},
    {"transfer_thread_seconds", NULL, LOOK_SECONDS, .value = transfer_threads, .doc = "the same summed over threads, streams and operations under way at the same time"},
    {"completion_seconds", NULL, LOOK_SECONDS, .value = completion, .doc = "of transfer_thread_seconds, N to N: after the first one had left"},
    {"window_seconds", "recorded", LOOK_SECONDS, .value = window, .doc = "time that the recorded events cover", .legend = "time that its events cover"},
    {"self_ratio", "work ratio", LOOK_RATIO, .value = self_ratio, .doc = "own time between collectives / median of the others', median over the run", .legend = "own work / its peers'"},
    {"self_seconds", NULL, LOOK_SECONDS, .value = self, .doc = "time outside of calls"},
    {"deepspeed_straggler_seconds", "DeepSpeed", LOOK_SECONDS, .value = deepspeed, .doc = "DeepSpeed's figure, sum(t - min t): high for those who wait, not for the cause", .legend = "its straggler figure, high for who waits"},
    {"times_last", NULL, .value = last, .doc = "collectives in which it was the one that others waited for"},
    {"persistence", NULL, LOOK_PERCENT, .value = persistence, .doc = "share of the run's parts in which it was slower than the others by 5 %", .legend = "time batches in which it was slower"},
    {"confidence", NULL, LOOK_RATIO, .value = confidence, .doc = "that it is slower than the others: 0.9 = one false alarm in a hundred jobs", .legend = "that it is slower"},
    {"state", "ended", .left = true, .optional = true, .value = end, .doc = "how the process ended"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

/* NULL: nobody knows. */
static const char *end_name(enum rank_end end) {
    static const char *const names[] = {
        [END_FINALISED] = "normally",      [END_RUNNING] = "running", [END_IN_INIT] = "in init",
        [END_IN_FINALIZE] = "in finalize", [END_ABORTED] = "aborted", [END_EXITED] = "no finalize",
        [END_KILLED] = "killed",           [END_UNTOLD] = NULL};
    return names[end];
}

struct rank_row *rank_rows(const struct job *job, const struct straggler_analysis *analysis,
                           const struct filter *filter, size_t *count) {
    bool some = analysis->shown.ranks != NULL;
    const struct waits *waits = some ? &analysis->shown : &analysis->waits;
    bool known = waits->judged + waits->messages > 0;
    struct rank_row *rows = calloc(job->count + 1, sizeof *rows);
    *count = 0;
    for (size_t d = 0; rows && d < job->count; d++)
        if (filter_rank(filter, job->dumps[d]->header->rank))
            rows[(*count)++] = (struct rank_row){
                .rank = job->dumps[d]->header->rank,
                .gpu = gpu_of(job->dumps[d]),
                .host = job->dumps[d]->host,
                .times = &analysis->times[d],
                .waits = known ? &waits->ranks[d] : NULL,
                .costs = known && !some && !analysis->delay_costs.unresolved ? &analysis->delay_costs.ranks[d] : NULL,
                .verdict = &analysis->ranks[d],
                .end = end_name(job->ends[job->process_of[d]]),
            };
    return rows;
}

/* ---- stragglers and findings as JSON --------------------------------------------------------- */

const char *straggler_kind_name(enum straggler_kind kind) {
    static const char *const names[] = {[STRAGGLER_RANK] = "rank",
                                        [STRAGGLER_HOST] = "host",
                                        [STRAGGLER_RANK_CLASS] = "role",
                                        [STRAGGLER_ROTATING] = "rotating",
                                        [STRAGGLER_LINK] = "link"};
    return names[kind];
}

static json_t *rank_to_json(const struct straggler_analysis *analysis, size_t dump) {
    int32_t rank = analysis->clock->dumps[dump]->header->rank;
    return rank >= 0 ? json_integer(rank) : json_null();
}

static json_t *gpu_to_json(const struct straggler_analysis *analysis, size_t dump) {
    int64_t number = dump_gpu_number(analysis->clock->dumps[dump]);
    return number >= 0 ? json_integer(number) : json_null();
}

json_t *hosts_to_json(struct dump *const *dumps, const size_t *which, size_t count) {
    json_t *hosts = json_array();
    for (size_t i = 0; i < count; i++) {
        const char *name = dumps[which ? which[i] : i]->host;
        bool listed = false;
        for (size_t j = 0; j < i && !listed; j++)
            listed = strcmp(dumps[which ? which[j] : j]->host, name) == 0;
        if (!listed && name[0])
            json_array_append_new(hosts, escape_json(name));
    }
    return hosts;
}

static bool is_on_one_host(const struct common_clock *clock, const struct straggler *straggler) {
    size_t i = 1;
    while (i < straggler->dump_count && clock->host_of[straggler->dumps[i]] == clock->host_of[straggler->dumps[0]])
        i++;
    return i >= straggler->dump_count;
}

/* What a link's ends are. */
static const char *const link_scopes[] = {[LINK_RANKS] = "ranks", [LINK_HOSTS] = "hosts", [LINK_HOST] = "host"};

/* {src, dst}: ranks; names of hosts; or one host, and null for all others. null: no link. */
static json_t *link_to_json(const struct straggler_analysis *analysis, const struct straggler *straggler) {
    const struct slow_link *link = &straggler->link;
    if (straggler->kind != STRAGGLER_LINK)
        return json_null();
    if (link->scope == LINK_RANKS)
        return json_pack("{s:o, s:o, s:o, s:o}", "src", rank_to_json(analysis, link->from), "dst",
                         rank_to_json(analysis, link->to), "src_gpu", gpu_to_json(analysis, link->from), "dst_gpu",
                         gpu_to_json(analysis, link->to));
    const struct clock_host *hosts = analysis->clock->hosts;
    return json_pack("{s:o, s:o, s:n, s:n}", "src", escape_json(hosts[link->from].name), "dst",
                     link->scope == LINK_HOSTS ? escape_json(hosts[link->to].name) : json_null(), "src_gpu", "dst_gpu");
}

/* When it is slow, where that is not all the while. */
static json_t *when_to_json(const struct straggler *straggler) {
    const struct rank_leads *when = &straggler->when;
    if (!straggler->at_times)
        return json_null();
    return json_pack("{s:I, s:I, s:f, s:f, s:o, s:o, s:f, s:f}", "steps", (json_int_t)when->rows, "slow_steps",
                     (json_int_t)when->slow_rows, "longer_seconds", when->longer_ns / 1e9, "slow_ratio",
                     when->slow_ratio, "every", when->every > 0 ? json_integer(when->every) : json_null(),
                     "every_steps", when->every_steps > 0 ? json_integer(when->every_steps) : json_null(), "from_share",
                     when->first / 1000.0, "to_share", when->last / 1000.0);
}

static json_t *straggler_to_json(const struct straggler_analysis *analysis, const struct coverage *coverage,
                                 const struct straggler *straggler) {
    char evidence[EVIDENCE];
    json_t *hosts = hosts_to_json(analysis->clock->dumps, straggler->dumps, straggler->dump_count);
    json_t *only = is_on_one_host(analysis->clock, straggler) ? json_array_get(hosts, 0) : NULL;
    json_t *host = only ? json_incref(only) : json_null();
    json_t *ranks = json_array(), *gpus = json_array();
    for (size_t i = 0; i < straggler->dump_count; i++) {
        json_array_append_new(ranks, rank_to_json(analysis, straggler->dumps[i]));
        json_array_append_new(gpus, gpu_to_json(analysis, straggler->dumps[i]));
    }
    findings_evidence(analysis, straggler, evidence, sizeof evidence);
    const char *site = findings_site(analysis, straggler);
    bool one = straggler->kind == STRAGGLER_RANK;
    bool compared = straggler->kind != STRAGGLER_ROTATING && straggler->kind != STRAGGLER_LINK;
    bool a_link = straggler->kind == STRAGGLER_LINK;
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:o, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "kind", straggler_kind_name(straggler->kind), "rank",
        one ? rank_to_json(analysis, straggler->dumps[0]) : json_null(), "gpu",
        one ? gpu_to_json(analysis, straggler->dumps[0]) : json_null(), "ranks", ranks, "gpus", gpus, "host", host,
        "hosts", hosts, "link", link_to_json(analysis, straggler), "imposed_wait_seconds",
        seconds_of(straggler->imposed_ns), "waited_for_seconds", seconds_of(straggler->waited_for_ns), "slowdown_ratio",
        straggler->slowdown_ratio, "persistence",
        isnan(straggler->persistence) ? json_null() : json_real(straggler->persistence), "confidence",
        straggler->confidence, "what_if_speedup", straggler->what_if_speedup, "evidence", escape_json(evidence),
        "others_longer_in_communication_seconds",
        compared ? json_real(seconds_of(straggler->others_comm_ns)) : json_null(), "site",
        site ? escape_json(site) : json_null(), "link_scope",
        a_link ? json_string(link_scopes[straggler->link.scope]) : json_null(), "messages",
        a_link ? json_integer((json_int_t)straggler->link.messages) : json_null(), "coverage",
        findings_coverage_to_json(coverage, EVIDENCE_EVENTS), "when", when_to_json(straggler));
}

json_t *stragglers_to_json(const struct straggler_analysis *analysis, const struct coverage *coverage,
                           const struct straggler *stragglers, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++)
        if (json_array_append_new(array, straggler_to_json(analysis, coverage, &stragglers[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

#define SITE ((const struct hot_site *)row)
VALUE(site, cell_text(SITE->site))
VALUE(site_wait, cell_real(seconds_of(SITE->wait_ns)))
VALUE(site_waited_for, cell_real(seconds_of(SITE->waited_for_ns)))

/* clang-format off */
const struct column hot_site_columns[] = {
    {"site", "call site", .left = true, .value = site},
    {"wait_seconds", "waited here", LOOK_SECONDS, .value = site_wait, .legend = "in this call, by all ranks"},
    {"waited_for_seconds", "waited for", LOOK_SECONDS, .value = site_waited_for, .legend = "by the others, for a rank that came here late"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

/* ---- starts of an elastic job ---------------------------------------------------------------- */

static struct cell rank_of_start(const struct generation_rank *rank) {
    return rank->host && rank->rank >= 0 ? cell_integer(rank->rank) : cell_unknown();
}

static struct cell host_of_start(const struct generation_rank *rank) {
    return rank->host ? cell_text(rank->host) : cell_unknown();
}

static struct cell after_of_start(const struct generation_rank *rank) {
    static const char *const names[] = {NULL, "stayed", "left", "replaced"};
    return rank->host && names[rank->after] ? cell_text(names[rank->after]) : cell_unknown();
}

#define START_ROW ((const struct generation_row *)row)
VALUE(start_number, cell_unsigned(START_ROW->listed->generation))
VALUE(start_ranks, cell_unsigned(START_ROW->listed->ranks))
VALUE(start_hosts, cell_unsigned(START_ROW->hosts))
VALUE(start_recorded, START_ROW->listed->start_ns != INT64_MIN
                          ? cell_real(((double)START_ROW->listed->end_ns - (double)START_ROW->listed->start_ns) / 1e9)
                          : cell_unknown())
VALUE(start_gap, START_ROW->listed->gap_ns >= 0 ? cell_real((double)START_ROW->listed->gap_ns / 1e9) : cell_unknown())
VALUE(start_slow_rank, rank_of_start(&START_ROW->slow))
VALUE(start_slow_host, host_of_start(&START_ROW->slow))
VALUE(start_slowdown, START_ROW->slow.host ? cell_real(START_ROW->slowdown_ratio) : cell_unknown())
VALUE(start_slow_after, after_of_start(&START_ROW->slow))
VALUE(start_dead_rank, rank_of_start(&START_ROW->dead))
VALUE(start_dead_host, host_of_start(&START_ROW->dead))
VALUE(start_dead_after, after_of_start(&START_ROW->dead))

/* clang-format off */
const struct column generation_columns[] = {
    {"generation", "generation", .value = start_number},
    {"ranks_seen", "ranks", .value = start_ranks},
    {"hosts", "hosts", .value = start_hosts},
    {"recorded_seconds", "recorded", LOOK_SECONDS, .value = start_recorded},
    {"gap_seconds", "lost before", LOOK_SECONDS, .value = start_gap, .legend = "from the end of the start before to this one"},
    {"slow_rank", "slow rank", .value = start_slow_rank, .legend = "who cost the others most; no number: all ranks of its host"},
    {"slow_host", "slow on", .left = true, .value = start_slow_host},
    {"slowdown_ratio", "slowdown", LOOK_RATIO, .value = start_slowdown},
    {"slow_after", "slow then", .left = true, .value = start_slow_after, .legend = "whether its place was there in the next start; -: its host had fewer there, and nothing tells whose is gone"},
    {"dead_rank", "died first", .value = start_dead_rank, .optional = true},
    {"dead_host", "died on", .left = true, .value = start_dead_host, .optional = true},
    {"dead_after", "died then", .left = true, .value = start_dead_after, .optional = true, .legend = "replaced: its host has as many ranks again"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */
