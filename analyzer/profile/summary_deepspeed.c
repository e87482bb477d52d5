/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of DeepSpeed's comms logger.
 * Lives here: its formulas (deepspeed/utils/comms_logging.py), the join behind its straggler figure.
 * Must not live here: commtap's own bandwidth, printing.
 */
#include "analyzer/profile/summary_deepspeed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash_table.h"
#include "analyzer/profile/scope.h"

enum { JOINED_RECORDS_MAX = 2000000 };

/* What the logger takes for the size of an operation, and what it makes of it. */
static const struct formula {
    const char *op;
    bool share;      /* the tensor is one process's share of what commtap calls bytes */
    bool times_n;    /* the logger multiplies by the size of the world */
    int tput_factor; /* 1, 2 */
    enum busbw busbw;
} formulas[] = {
    {"all_reduce", false, false, 2, BUSBW_ALLREDUCE},
    {"all_gather", true, true, 1, BUSBW_SHARE},
    {"all_gather_into_tensor", true, true, 1, BUSBW_SHARE},
    {"reduce_scatter", false, true, 1, BUSBW_SHARE},
    {"reduce_scatter_tensor", false, true, 1, BUSBW_SHARE},
    {"all_to_all_single", false, false, 1, BUSBW_SHARE},
    {"gather", true, false, 1, BUSBW_ONE},
    {"scatter", true, false, 1, BUSBW_ONE},
    {"send", false, false, 1, BUSBW_ONE},
    {"recv", false, false, 1, BUSBW_ONE},
    {"isend", false, false, 1, BUSBW_ONE},
    {"irecv", false, false, 1, BUSBW_ONE},
    {"broadcast", false, false, 1, BUSBW_ONE},
    {"reduce", false, false, 1, BUSBW_ONE},
    {"barrier", false, false, 1, BUSBW_ONE},
};

static const struct formula *formula_of(const char *op) {
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (strcmp(formulas[i].op, op) == 0)
            return &formulas[i];
    return NULL;
}

void deepspeed_bandwidth(const char *op, uint64_t msg_bytes, uint64_t ns, int32_t n, double *tput_gbps,
                         double *busbw_gbps) {
    const struct formula *formula = formula_of(op);
    *tput_gbps = *busbw_gbps = 0;
    if (!formula || ns == 0 || n < 1)
        return;
    double bits_per_ns = (double)msg_bytes * 8 / (double)ns * (formula->times_n ? n : 1);
    *tput_gbps = bits_per_ns * formula->tput_factor;
    *busbw_gbps = bits_per_ns * busbw_factor(formula->busbw, (uint32_t)n);
}

double deepspeed_trimmed_mean(const struct summary_sample *samples, size_t count,
                              double (*value)(uint64_t ns, const void *argument), const void *argument) {
    uint64_t total = 0, seen = 0;
    for (size_t i = 0; i < count; i++)
        total += samples[i].count;
    uint64_t cut = (uint64_t)nearbyint((double)total * 0.1);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t first = seen > cut ? seen : cut;
        seen += samples[i].count;
        uint64_t last = seen < total - cut ? seen : total - cut;
        if (last > first)
            sum += value(samples[i].ns, argument) * (double)(last - first);
    }
    return total > 0 ? sum / (double)(total - 2 * cut) : 0;
}

/* Bytes of the tensor argument behind `bytes` of an operation on a communicator of `size` processes. The variants with
 * a count per process already say this process's share. */
static uint64_t message_bytes(const char *torch, const char *op, uint64_t bytes, uint32_t size) {
    const struct formula *formula = formula_of(torch);
    bool own_share = strstr(op, "Gatherv") || strstr(op, "Igatherv") || strstr(op, "catterv");
    return formula && formula->share && !own_share && size > 0 ? bytes / size : bytes;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Times of the calls behind one row. */
struct collected {
    struct summary_sample *latencies, *least, *waits;
    size_t latency_count, latency_room, matched_count;
};

struct deepspeed_build {
    struct deepspeed *log;
    const struct dump_set *set;
    const struct scope *scope; /* NULL: all of the time */
    const struct filter *filter;
    struct site_labels *labels;  /* NULL: callers are not told apart */
    struct collected *collected; /* beside log->rows */
};

static int compare_samples(const void *a, const void *b) {
    const struct summary_sample *left = a, *right = b;
    return left->ns < right->ns ? -1 : left->ns > right->ns;
}

/* By name, caller and size. */
static int compare_rows(const void *a, const void *b) {
    const struct deepspeed_row *left = a, *right = b;
    int order = strcmp(left->op, right->op);
    if (order == 0 && left->caller && right->caller)
        order = strcmp(left->caller, right->caller);
    return order != 0 ? order : left->msg_bytes < right->msg_bytes ? -1 : left->msg_bytes > right->msg_bytes;
}

static size_t find_row(const struct deepspeed *log, const struct deepspeed_row *wanted) {
    size_t i = 0;
    while (i < log->count && compare_rows(&log->rows[i], wanted) != 0)
        i++;
    return i;
}

/* DeepSpeed waits for every operation: its latency is the whole of it. */
static const struct summary_times *latency_of(const struct summary_entry *entry) {
    return entry->in_flight.count > 0 ? &entry->in_flight : &entry->time;
}

static bool add_latencies(struct collected *collected, const struct summary_times *times) {
    size_t count = collected->latency_count + times->sample_count;
    if (!grow_to(collected->latencies, collected->latency_room, count))
        return false;
    if (times->sample_count > 0)
        memcpy(collected->latencies + collected->latency_count, times->samples,
               times->sample_count * sizeof *times->samples);
    collected->latency_count = count;
    return true;
}

static bool add_logged(struct deepspeed_build *build, const struct summary_entry *entry) {
    struct deepspeed *log = build->log;
    const struct summary_times *times = latency_of(entry);
    bool host = entry->source == SOURCE_HOST;
    if (!entry->torch[0] || times->count == 0 || (entry->api == API_MPI) != host)
        return true;
    uint64_t bytes = entry->bytes == BYTES_UNKNOWN ? 0 : entry->bytes;
    struct deepspeed_row wanted = {.op = entry->torch,
                                   .caller = entry->caller,
                                   .msg_bytes = message_bytes(entry->torch, entry->op, bytes, entry->comm_size)};
    size_t at = find_row(log, &wanted);
    if (at == log->count) {
        if (!grow_list(log->rows, at) || !grow_list(build->collected, at))
            return false;
        log->rows[at] = wanted;
        build->collected[at] = (struct collected){.latency_count = 0};
        log->count++;
    }
    struct deepspeed_row *row = &log->rows[at];
    row->count += times->count;
    row->total_ms += (double)times->total_ns / 1e6;
    row->approximate |= times->percentiles != PERCENTILES_EXACT;
    return add_latencies(&build->collected[at], times);
}

/* ---- straggler: the same collective on all ranks --------------------------------------------- */

struct instance_key {
    uint64_t uid;
    uint32_t seq;
    int32_t start; /* ordinal of the start of a persistent collective, else 0 */
};

struct instance {
    struct instance_key key;
    uint32_t seen;
    uint32_t size; /* 0: new */
    uint64_t least_ns;
};

HASH_TABLE_OF(instances, struct instance, struct instance_key);

static struct instance_key key_of(const struct communicator_definition *definition, const struct record *record) {
    return (struct instance_key){definition->uid, record->seq, record->flags & FLAG_STARTED ? record->tag : 0};
}

static uint64_t bytes_of_one(const struct record *record) {
    return record->bytes == BYTES_UNKNOWN ? BYTES_UNKNOWN : record->bytes / record_parts(record);
}

/* A completed, numbered collective with a name in torch.distributed; NULL communicator otherwise. */
static const struct dump_communicator *joinable(const struct deepspeed_build *build, const struct dump *dump,
                                                const struct record *record, const struct call_name **call) {
    bool timed = record->kind == RECORD_CALL || record->kind == RECORD_DONE ||
                 ((record->kind == RECORD_GPU || record->kind == RECORD_KERNEL) && !(record->flags & FLAG_CAPTURED));
    const struct dump_communicator *communicator = dump_communicator(dump, record->comm);
    *call = dump_call(dump, record->call);
    if (!timed || !(record->flags & FLAG_COLLECTIVE) || record->flags & FLAG_UNOBSERVED || record->seq == SEQ_NONE ||
        record->t1 < record->t0 || !communicator || !*call || !(*call)->torch[0])
        return NULL;
    bool wanted = communicator->definition->size > 0 && filter_op(build->filter, (*call)->name) &&
                  filter_bytes(build->filter, bytes_of_one(record)) &&
                  filter_comm(build->filter, communicator->definition->uid, communicator->name);
    return wanted ? communicator : NULL;
}

static uint64_t length_ns(const struct dump *dump, const struct record *record) {
    uint64_t length = record->t1 - record->t0;
    return record_is_device(record) ? length : (uint64_t)dump_duration_ns(dump, length);
}

/* False when memory is short. */
static bool enter_record(struct hash_table *join, const struct dump *dump, const struct record *record,
                         const struct dump_communicator *communicator) {
    struct instance_key key = key_of(communicator->definition, record);
    struct instance *instance = instances_add(join, &key);
    uint64_t ns = length_ns(dump, record);
    if (!instance)
        return false;
    if (instance->size == 0) {
        instance->size = communicator->definition->size;
        instance->least_ns = ns;
    }
    instance->seen++;
    if (ns < instance->least_ns)
        instance->least_ns = ns;
    return true;
}

/* `count` calls that took and waited as long, each. */
static bool add_matched(struct collected *collected, uint64_t count, uint64_t least, uint64_t wait) {
    if (!grow_list(collected->least, collected->matched_count) ||
        !grow_list(collected->waits, collected->matched_count))
        return false;
    collected->least[collected->matched_count] = (struct summary_sample){least, count};
    collected->waits[collected->matched_count++] = (struct summary_sample){wait, count};
    return true;
}

/* Number of the row that counts a record of dump `d`; log->count where there is none, SIZE_MAX when memory is short. */
static size_t row_of(const struct deepspeed_build *build, size_t d, const struct record *record,
                     const struct communicator_definition *definition, const struct call_name *call) {
    uint64_t bytes = record->bytes == BYTES_UNKNOWN ? 0 : bytes_of_one(record);
    struct deepspeed_row wanted = {.op = call->torch,
                                   .caller = build->labels ? site_caller(build->labels, d, record->stack) : NULL,
                                   .msg_bytes = message_bytes(call->torch, call->name, bytes, definition->size)};
    return build->labels && !wanted.caller ? SIZE_MAX : find_row(build->log, &wanted);
}

static bool compare_with_least(struct deepspeed_build *build, const struct hash_table *join, size_t d,
                               const struct record *record, const struct dump_communicator *communicator,
                               const struct call_name *call) {
    struct deepspeed *log = build->log;
    const struct communicator_definition *definition = communicator->definition;
    struct instance_key key = key_of(definition, record);
    const struct instance *instance = instances_find(join, &key);
    uint32_t parts = record_parts(record);
    size_t at = row_of(build, d, record, definition, call);
    if (at == SIZE_MAX)
        return false;
    if (at == log->count || !instance || instance->seen != definition->size) {
        log->unmatched += parts;
        return true;
    }
    uint64_t ns = length_ns(build->set->dumps[d], record);
    struct deepspeed_row *row = &log->rows[at];
    row->matched += parts;
    row->comm_total_ms += (double)instance->least_ns / 1e6;
    row->straggler_total_ms += (double)(ns - instance->least_ns) / 1e6;
    return add_matched(&build->collected[at], parts, instance->least_ns / parts, (ns - instance->least_ns) / parts);
}

/* Walks one dump's joinable records: enters them, or compares them where `compare`. */
static bool walk_dump(struct deepspeed_build *build, struct hash_table *join, size_t d, bool compare) {
    const struct dump *dump = build->set->dumps[d];
    struct scope_walk walk;
    bool enough_memory = true;
    scope_walk_begin(&walk, build->scope, dump, d);
    for (const struct record *record; enough_memory && (record = scope_walk_next(&walk));) {
        const struct call_name *call;
        const struct dump_communicator *communicator = joinable(build, dump, record, &call);
        if (communicator && compare)
            enough_memory = compare_with_least(build, join, d, record, communicator, call);
        else if (communicator)
            enough_memory = enter_record(join, dump, record, communicator);
    }
    scope_walk_end(&walk);
    return enough_memory && !walk.no_memory;
}

static bool add_stragglers(struct deepspeed_build *build, size_t own) {
    uint64_t records = 0;
    for (size_t i = 0; i < build->set->count; i++)
        for (uint32_t lane = 0; lane < build->set->dumps[i]->lane_count; lane++)
            records += build->set->dumps[i]->lanes[lane].end_ticket - build->set->dumps[i]->lanes[lane].first_ticket;
    build->log->stragglers_known = records <= JOINED_RECORDS_MAX;
    if (!build->log->stragglers_known)
        return true;
    struct hash_table join = {0};
    bool enough_memory = true;
    for (size_t i = 0; i < build->set->count && enough_memory; i++)
        if (!build->set->duplicate[i])
            enough_memory = walk_dump(build, &join, i, false);
    enough_memory = enough_memory && walk_dump(build, &join, own, true);
    hash_table_free(&join);
    return enough_memory;
}

/* ---- the log --------------------------------------------------------------------------------- */

static double milliseconds(uint64_t ns, const void *argument) {
    (void)argument;
    return (double)ns / 1e6;
}

struct bandwidth_of {
    const struct deepspeed_row *row;
    int32_t world_size;
    bool bus;
};

static double gbps(uint64_t ns, const void *argument) {
    const struct bandwidth_of *of = argument;
    double tput, busbw;
    deepspeed_bandwidth(of->row->op, of->row->msg_bytes, ns, of->world_size, &tput, &busbw);
    return of->bus ? busbw : tput;
}

static double trimmed(struct summary_sample *samples, size_t count, double (*value)(uint64_t, const void *),
                      const void *argument) {
    if (count > 0)
        qsort(samples, count, sizeof *samples, compare_samples);
    return deepspeed_trimmed_mean(samples, count, value, argument);
}

static void average(struct deepspeed_row *row, struct collected *collected, int32_t world_size) {
    struct bandwidth_of tput = {row, world_size, false}, bus = {row, world_size, true};
    row->avg_ms = trimmed(collected->latencies, collected->latency_count, milliseconds, NULL);
    row->tput_gbps = deepspeed_trimmed_mean(collected->latencies, collected->latency_count, gbps, &tput);
    row->busbw_gbps = deepspeed_trimmed_mean(collected->latencies, collected->latency_count, gbps, &bus);
    row->comm_avg_ms = trimmed(collected->least, collected->matched_count, milliseconds, NULL);
    row->straggler_avg_ms = trimmed(collected->waits, collected->matched_count, milliseconds, NULL);
    free(collected->latencies);
    free(collected->least);
    free(collected->waits);
}

/* Number of the dump whose figures are shown: of the lowest known rank that passes the filter; set->count when there is
 * none. */
static size_t own_dump(const struct dump_set *set, const struct filter *filter) {
    size_t own = set->count;
    for (size_t i = 0; i < set->count; i++) {
        const struct dump_header *header = set->dumps[i]->header;
        if (header->rank != RANK_UNKNOWN && !set->duplicate[i] && filter_rank(filter, header->rank) &&
            (own == set->count || header->rank < set->dumps[own]->header->rank))
            own = i;
    }
    return own;
}

/* REALTIME ns of the last of the moments that a dump's header knows. */
static int64_t last_moment_of(const struct dump *dump) {
    const struct dump_header *header = dump->header;
    const uint64_t moments[] = {header->activated_ticks, header->initialised_ticks, header->finalised_ticks,
                                header->exited_ticks};
    uint64_t last = 0;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        last = moments[i] > last ? moments[i] : last;
    return dump_realtime_ns(dump, last);
}

static uint64_t calls_of(const struct summary *summary) {
    uint64_t calls = 0;
    for (size_t i = 0; i < summary->count; i++)
        calls += summary->entries[i].torch[0] ? summary->entries[i].count : 0;
    return calls;
}

/* By caller, from all records that pass the filter; the tables tell how many calls there were. */
static bool summarise_callers(const struct deepspeed_build *build, const struct dump_set *alone) {
    const struct scope all = {.filter = build->filter};
    struct summary *summary = &build->log->summary, tables;
    if (!summary_build_scope(summary, alone, build->scope ? build->scope : &all, SUMMARY_BY_DEFAULT | SUMMARY_BY_CALLER,
                             build->labels))
        return false;
    if (build->scope)
        return true;
    if (!summary_build(&tables, alone, build->filter, SUMMARY_BY_DEFAULT))
        return false;
    uint64_t counted = calls_of(&tables), recorded = calls_of(summary);
    build->log->not_on_record = counted > recorded ? (int64_t)(counted - recorded) : 0;
    summary_free(&tables);
    return true;
}

/* The summary of one dump alone: the others count as duplicates. */
static bool summarise_row(const struct deepspeed_build *build, size_t own) {
    struct summary *summary = &build->log->summary;
    struct dump_set alone = *build->set;
    alone.duplicate = malloc(alone.count * sizeof *alone.duplicate);
    for (size_t d = 0; alone.duplicate && d < alone.count; d++)
        alone.duplicate[d] = d != own;
    bool done = alone.duplicate &&
                (build->labels  ? summarise_callers(build, &alone)
                 : build->scope ? summary_build_scope(summary, &alone, build->scope, SUMMARY_BY_DEFAULT, NULL)
                                : summary_build(summary, &alone, build->filter, SUMMARY_BY_DEFAULT));
    free(alone.duplicate);
    return done;
}

bool deepspeed_build(struct deepspeed *log, const struct dump_set *set, const struct scope *scope,
                     const struct filter *filter, struct site_labels *labels) {
    *log = (struct deepspeed){.rank = RANK_UNKNOWN, .stragglers_known = true, .not_on_record = scope ? -1 : 0};
    struct deepspeed_build build = {.log = log, .set = set, .scope = scope, .filter = filter, .labels = labels};
    size_t own = own_dump(set, filter);
    if (own == set->count)
        return true;
    log->rank = set->dumps[own]->header->rank;
    log->world_size = set->dumps[own]->header->world_size;
    log->ended_realtime_s = last_moment_of(set->dumps[own]) / 1000000000;
    if (!summarise_row(&build, own))
        return false;
    bool enough_memory = true;
    for (size_t i = 0; i < log->summary.count && enough_memory; i++)
        enough_memory = add_logged(&build, &log->summary.entries[i]);
    enough_memory = enough_memory && add_stragglers(&build, own);
    for (size_t i = 0; i < log->count; i++)
        average(&log->rows[i], &build.collected[i], log->world_size);
    free(build.collected);
    if (log->count > 0)
        qsort(log->rows, log->count, sizeof *log->rows, compare_rows);
    if (!enough_memory)
        deepspeed_free(log);
    return enough_memory;
}

void deepspeed_free(struct deepspeed *log) {
    free(log->rows);
    summary_free(&log->summary);
    memset(log, 0, sizeof *log);
}
