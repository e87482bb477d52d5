/* SPDX-License-Identifier: Apache-2.0
 *
 * A summary from the dumps' tables of operations and call sites, which hold every call, exactly.
 * Lives here: reading rows, histograms; the records only where they tell percentiles.
 * Must not live here: sums (summary_build.c).
 */
#include <stdlib.h>

#include "analyzer/profile/summary_build.h"

/* ---- rows ------------------------------------------------------------------------------------ */

static bool add_lane(struct summary_build *build, const struct dump *dump, const struct dump_lane *lane) {
    build->summary->calls_lost += lane->state ? lane->state->operations_lost : 0;
    for (uint32_t i = 0; i < lane->operation_count; i++) {
        struct operation_row row;
        enum row_state state = operation_row_read(dump, &lane->operations[i], &row);
        if (state == ROW_UNUSED || state == ROW_DAMAGED)
            continue;
        build->summary->rows_torn += state == ROW_TORN;
        if (row.untimed > row.count) /* torn: no more calls lack a time than there are */
            row.untimed = row.count;
        const struct summary_row calls = {
            .row = &row, .in_file = &lane->operations[i], .time = operation_row_time(dump, &row), .stack = STACK_NONE};
        if (!summary_add_row(build, dump, &calls, NULL))
            return false;
    }
    return true;
}

/* A row of the sites table as a row of operations: sizes of single calls, their least time and whether they failed are
 * not known. */
static bool add_site(struct summary_build *build, const struct dump *dump, const struct dump_lane *lane,
                     const struct site_row *site) {
    struct operation_row row = {.call = site->call,
                                .source = SOURCE_HOST,
                                .comm_epoch = site->comm_epoch,
                                .count = site->count,
                                .bytes_total = site->bytes_total,
                                .time_total = site->time_total,
                                .time_min = 0,
                                .time_max = site->time_max,
                                .posting_total = site->posting_total,
                                .untimed = site->time_total == 0 ? site->count : 0}; /* nothing takes no time */
    if (dump_lane_is_device(lane))
        row.source = SOURCE_GPU_EVENT;
    return summary_add_row(
        build, dump, &(struct summary_row){.row = &row, .time = site_row_time(dump, site), .stack = site->stack}, NULL);
}

static bool add_sites(struct summary_build *build, const struct dump *dump, const struct dump_lane *lane) {
    build->summary->calls_lost += lane->state ? lane->state->sites_lost : 0;
    for (uint32_t i = 0; i < lane->site_count; i++) {
        struct site_row row;
        enum row_state state = site_row_read(dump, &lane->sites[i], &row);
        if (state == ROW_UNUSED || state == ROW_DAMAGED)
            continue;
        build->summary->rows_torn += state == ROW_TORN;
        if (!add_site(build, dump, lane, &row))
            return false;
    }
    return true;
}

/* Operations that were posted and not seen complete when the dump ended are calls all the same. */
static bool add_pending(struct summary_build *build, const struct dump *dump) {
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending pending;
        struct summary_group *group;
        if (pending_read(dump, &dump->pending[i], &pending) && !summary_add_incomplete(build, dump, &pending, &group))
            return false;
    }
    return true;
}

static bool add_dump(struct summary_build *build, const struct dump *dump, size_t d) {
    if (!summary_enter(build, dump, d))
        return false;
    for (uint32_t i = 0; i < dump->lane_count; i++)
        if (dump->lanes[i].state && !(build->labels ? add_sites : add_lane)(build, dump, &dump->lanes[i]))
            return false;
    return add_pending(build, dump);
}

/* ---- percentiles ----------------------------------------------------------------------------- */

/* Every record is there, and there are not too many to keep. */
static bool records_can_tell(const struct summary_build *build, const struct dump_set *set) {
    uint64_t records = 0;
    if (build->by & SUMMARY_BY_EPOCH)
        return false;
    for (size_t i = 0; i < set->count; i++) {
        if (!summary_counts(build, set, i))
            continue;
        if (!dump_records_complete(set->dumps[i]))
            return false;
        for (uint32_t lane = 0; lane < set->dumps[i]->lane_count; lane++)
            records += set->dumps[i]->lanes[lane].end_ticket;
    }
    return records <= SUMMARY_SAMPLES_MAX;
}

enum { GROUPS_KNOWN = 64 }; /* a power of two: what most programs call again and again */

/* What tells a dump's calls of one group, and the group; NULL: none. */
struct known_group {
    bool known, started;
    uint16_t call;
    enum source source;
    uint32_t comm, stack;
    uint64_t bytes;
    struct summary_group *group;
};

struct sample_taking {
    struct summary_build *build;
    const struct dump *dump;
    struct known_group groups[GROUPS_KNOWN];
};

static bool is_of(const struct known_group *group, const struct recorded_call *call) {
    return group->known && group->started == call->started && group->call == call->call &&
           group->source == call->source && group->comm == call->comm && group->stack == call->stack &&
           group->bytes == call->bytes;
}

static bool group_of(struct sample_taking *taking, const struct recorded_call *call, struct summary_group **group) {
    uint64_t hash = hash_mix(hash_mix(call->bytes, call->call), (uint64_t)call->comm << 32 | call->stack);
    struct known_group *known = &taking->groups[hash_scramble(hash) % GROUPS_KNOWN];
    if (is_of(known, call)) {
        *group = known->group;
        return true;
    }
    if (!summary_group_of(taking->build, taking->dump, call, group))
        return false;
    *known = (struct known_group){.known = true,
                                  .started = call->started,
                                  .call = call->call,
                                  .source = call->source,
                                  .comm = call->comm,
                                  .stack = call->stack,
                                  .bytes = call->bytes,
                                  .group = *group};
    return true;
}

static bool take_sample(void *context, const struct recorded_call *call) {
    struct sample_taking *taking = context;
    struct summary_group *group;
    return group_of(taking, call, &group) && (!group || summary_add_recorded(group, taking->dump, call));
}

static bool add_time_samples(struct summary_build *build, const struct dump *dump, size_t d) {
    struct sample_taking taking = {.build = build, .dump = dump};
    return summary_enter(build, dump, d) && recorded_calls(NULL, dump, d, take_sample, &taking);
}

static bool take_histogram(struct summary_times *times, const struct row_reference *reference) {
    uint8_t source = reference->row->source & ~SOURCE_SIZE_CLASS;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        uint32_t count = reference->row->histogram[bucket];
        uint64_t ns = summary_ns(reference->dump, source, histogram_middle(bucket));
        if (ns < times->min_ns)
            ns = times->min_ns;
        if (ns > times->max_ns)
            ns = times->max_ns;
        if (count > 0 && !summary_add_sample(times, ns, count))
            return false;
    }
    return true;
}

bool summary_take_histograms(struct summary_group *group, bool in_flight) {
    struct summary_times *times = in_flight ? &group->entry.in_flight : &group->entry.time;
    times->sample_count = 0;
    for (const struct row_reference *reference = group->rows; reference; reference = reference->next)
        if (reference->in_flight == in_flight && !take_histogram(times, reference))
            return false;
    return true;
}

/* ---- the walk -------------------------------------------------------------------------------- */

bool summary_take_tables(struct summary_build *build, const struct dump_set *set) {
    bool enough_memory = true;
    for (size_t d = 0; d < set->count && enough_memory; d++)
        if (summary_counts(build, set, d))
            enough_memory = add_dump(build, set->dumps[d], d);
    if (enough_memory && records_can_tell(build, set))
        for (size_t d = 0; d < set->count && enough_memory; d++)
            if (summary_counts(build, set, d))
                enough_memory = add_time_samples(build, set->dumps[d], d);
    return enough_memory;
}
