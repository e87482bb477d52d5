/* SPDX-License-Identifier: Apache-2.0
 *
 * What the calls cost.
 * Lives here: grouping of calls, sums, percentiles, bandwidth.
 * Must not live here: where the calls come from (summary_tables.c, summary_records.c), anything that needs matched
 * calls or clocks of several processes; printing.
 */
#include "analyzer/profile/summary_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash_table.h"

/* ---- strings that outlive the dumps ---------------------------------------------------------- */

struct string {
    const char *key;
};

HASH_TABLE_OF_TEXTS(strings, struct string);

static const char *intern(struct summary *summary, const char *text) {
    if (!summary->strings && !(summary->strings = calloc(1, sizeof(struct hash_table))))
        return NULL;
    const struct string *known = strings_find(summary->strings, text);
    if (known)
        return known->key;
    char *copy = strdup(text);
    if (!copy || !strings_add(summary->strings, copy)) {
        free(copy);
        return NULL;
    }
    return copy;
}

static void free_strings(struct hash_table *texts) {
    for (size_t i = 0; texts && i < texts->count; i++)
        free((char *)strings_items(texts)[i].key);
    if (texts)
        hash_table_free(texts);
    free(texts);
}

/* ---- entries by key -------------------------------------------------------------------------- */

/* Texts are those of intern(): one text, one address. */
struct summary_group_key {
    uint64_t op, site, caller, comm, bytes;
    uint32_t source, rank;
    uint8_t api, has_comm, size_class, zero;
    uint32_t epoch;
};
_Static_assert(sizeof(struct summary_group_key) == 56, "keys have no padding");

struct keyed_group {
    struct summary_group_key key;
    struct summary_group *group;
};

HASH_TABLE_OF(keyed_groups, struct keyed_group, struct summary_group_key);

static struct summary_group_key key_of(const struct summary_entry *entry) {
    return (struct summary_group_key){.op = (uintptr_t)entry->op,
                                      .site = (uintptr_t)entry->site,
                                      .caller = (uintptr_t)entry->caller,
                                      .comm = entry->comm,
                                      .bytes = entry->bytes,
                                      .source = entry->source,
                                      .rank = (uint32_t)entry->rank,
                                      .api = (uint8_t)entry->api,
                                      .has_comm = entry->has_comm,
                                      .size_class = entry->size_class,
                                      .epoch = entry->epoch};
}

/* The group with that key; a new one is made when `create`. NULL when there is none or memory is short. */
static struct summary_group *find_group(struct summary_build *build, const struct summary_entry *entry, bool create) {
    struct summary_group_key key = key_of(entry);
    const struct keyed_group *known = keyed_groups_find(&build->by_key, &key);
    if (known || !create)
        return known ? known->group : NULL;
    if (!grow_list(build->groups, build->count))
        return NULL;
    struct summary_group *group = calloc(1, sizeof *group);
    struct keyed_group *added = group ? keyed_groups_add(&build->by_key, &key) : NULL;
    if (!added) {
        free(group);
        return NULL;
    }
    group->entry = *entry;
    added->group = group;
    build->groups[build->count++] = group;
    return group;
}

/* ---- keys ------------------------------------------------------------------------------------ */

const struct dump_communicator *summary_communicator(const struct dump *dump,
                                                     const struct dump_communicator *communicator, uint64_t *uid) {
    if (!communicator)
        return NULL;
    const struct communicator_definition *definition = communicator->definition;
    *uid = definition->uid;
    if (definition->kind != COMMUNICATOR_WINDOW && definition->kind != COMMUNICATOR_FILE)
        return communicator;
    *uid = definition->parent_uid;
    for (uint32_t i = 0; i < dump->communicator_count; i++) {
        const struct dump_communicator *candidate = dump_communicator(dump, i);
        if (candidate && candidate->definition->uid == *uid && candidate->definition->kind != COMMUNICATOR_WINDOW &&
            candidate->definition->kind != COMMUNICATOR_FILE)
            return candidate;
    }
    return NULL;
}

static const char *name_of_call(struct summary_build *build, const struct dump *dump, uint16_t id) {
    const struct call_name *call = dump_call(dump, id);
    if (!call) {
        char text[32];
        snprintf(text, sizeof text, "call %u", id);
        return intern(build->summary, text);
    }
    const char **name = &build->call_names[call - dump->calls];
    if (!*name)
        *name = intern(build->summary, call->name);
    return *name;
}

static struct summary_subject subject_of(const struct dump *dump, uint16_t call, uint32_t comm) {
    struct summary_subject subject = {.call = dump_call(dump, call)};
    const struct dump_communicator *own = dump_communicator(dump, comm);
    if (!own)
        return subject;
    subject.has_comm = true;
    if (own->definition->kind != COMMUNICATOR_INTER) /* what bandwidths are told by is the size of one group */
        subject.size = own->definition->size;
    subject.communicator = summary_communicator(dump, own, &subject.uid);
    return subject;
}

/* False when memory is short. */
static bool name_site(struct summary_build *build, uint32_t stack, struct summary_entry *key) {
    if (build->by & SUMMARY_BY_SITE) {
        const char *label = site_label(build->labels, build->d, stack);
        key->site = label ? intern(build->summary, label) : NULL;
        if (!key->site)
            return false;
    }
    if (build->by & SUMMARY_BY_CALLER) {
        const char *caller = site_caller(build->labels, build->d, stack);
        key->caller = caller ? intern(build->summary, caller) : NULL;
        if (!key->caller)
            return false;
    }
    return true;
}

/* Fills the key of a call. Returns 1, 0 when the filter leaves it out, -1 when memory is short. */
static int make_key(struct summary_build *build, const struct dump *dump, const struct summary_subject *subject,
                    uint16_t call, uint8_t source, uint64_t bytes, uint32_t stack, struct summary_entry *key) {
    const char *name = name_of_call(build, dump, call);
    if (!name)
        return -1;
    if (build->filter &&
        (!filter_op(build->filter, name) || !filter_bytes(build->filter, bytes) ||
         (build->filter->comm &&
          (!subject->has_comm ||
           !filter_comm(build->filter, subject->uid, subject->communicator ? subject->communicator->name : "")))))
        return 0;
    *key = (struct summary_entry){.bytes = BYTES_UNKNOWN, .rank = RANK_UNKNOWN, .epoch = EPOCH_SEVERAL};
    if (build->by & SUMMARY_BY_OP) {
        key->api = subject->call ? subject->call->api : 0;
        key->source = source & ~SOURCE_SIZE_CLASS;
        key->op = name;
    }
    if (build->by & SUMMARY_BY_BYTES) {
        key->bytes = bytes;
        key->size_class = (source & SOURCE_SIZE_CLASS) != 0;
    }
    if (build->by & SUMMARY_BY_COMM && subject->has_comm) {
        key->has_comm = true;
        key->comm = subject->uid;
    }
    if (build->by & SUMMARY_BY_RANK)
        key->rank = dump->header->rank;
    return name_site(build, stack, key) ? 1 : -1;
}

/* What is told beside the key comes from the first dump that knows it. */
static bool describe_group(struct summary_build *build, struct summary_group *group,
                           const struct summary_subject *subject) {
    struct summary_entry *entry = &group->entry;
    if (!entry->torch || !*entry->torch)
        entry->torch = intern(build->summary, subject->call && entry->op ? subject->call->torch : "");
    if (entry->has_comm && entry->comm_size == 0)
        entry->comm_size = subject->communicator ? dump_communicator_size(subject->communicator) : subject->size;
    if (!entry->comm_name || !*entry->comm_name)
        entry->comm_name =
            intern(build->summary, entry->has_comm && subject->communicator ? subject->communicator->name : "");
    if (entry->comm_name)
        parallel_role(entry->comm_role, entry->comm_name);
    return entry->torch && entry->comm_name;
}

/* ---- sums ------------------------------------------------------------------------------------ */

uint64_t summary_ns(const struct dump *dump, uint8_t source, uint64_t time) {
    uint8_t from = source & (uint8_t)~SOURCE_SIZE_CLASS;
    bool device = from == SOURCE_GPU_EVENT || from == SOURCE_IN_KERNEL;
    return device ? time : (uint64_t)dump_duration_ns(dump, time);
}

double busbw_factor(enum busbw kind, uint32_t n) {
    switch (kind) {
    case BUSBW_ONE:
        return 1;
    case BUSBW_ALLREDUCE:
        return 2.0 * (n - 1) / n;
    case BUSBW_SHARE:
        return (double)(n - 1) / n;
    case BUSBW_NONE:
        break;
    }
    return -1;
}

/* Of calls whose time is their own. */
static void add_bandwidth(struct summary_group *group, const struct dump *dump, const struct summary_subject *subject,
                          const struct operation_row *row, uint64_t ns) {
    uint64_t timed = row->count - row->untimed, own = timed > row->shares ? timed - row->shares : 0;
    if (!subject->call || subject->call->busbw == BUSBW_NONE || row->bytes == BYTES_UNKNOWN || own == 0)
        return;
    /* NCCL's calls return before anything has moved: their time says nothing about bandwidth */
    if (subject->call->api == API_NCCL && (row->source & ~SOURCE_SIZE_CLASS) == SOURCE_HOST)
        return;
    uint64_t bytes = row->bytes_total;
    if (own < row->count)
        bytes = (uint64_t)((unsigned __int128)row->bytes_total * own / row->count);
    group->band_bytes += bytes;
    group->band_ns += ns - summary_ns(dump, row->source, row->shares_total);
    if (subject->call->busbw != BUSBW_ONE && subject->size == 0)
        group->bus_unknown = true;
    else
        group->bus_bytes += (double)bytes * busbw_factor(subject->call->busbw, subject->size);
}

/* What calls took that each have a time, all together `ns`. */
static void add_times(struct summary_times *times, const struct dump *dump, const struct operation_row *row,
                      uint64_t ns) {
    uint64_t timed = row->count > row->untimed ? row->count - row->untimed : 0;
    uint64_t least = summary_ns(dump, row->source, row->time_min), most = summary_ns(dump, row->source, row->time_max);
    if (timed > 0 && (times->count == times->sums_only || least < times->min_ns))
        times->min_ns = least;
    if (timed > 0 && most > times->max_ns)
        times->max_ns = most;
    times->count += timed;
    times->total_ns += ns;
}

/* Of what they took inside, operations that were posted leave only the sum in their row. */
static void add_posting(struct summary_times *times, uint64_t count, uint64_t ns) {
    times->count += count;
    times->sums_only += count;
    times->total_ns += ns;
}

/* Inside a group of NCCL's a call only gathers. Its row keeps that out of its times, and has the sum. */
static void add_gathering(struct summary_entry *entry, const struct dump *dump, const struct operation_row *row) {
    uint64_t ticks = row->posting_total > row->time_total ? row->posting_total - row->time_total : 0;
    add_posting(&entry->time, row->untimed, summary_ns(dump, row->source, ticks));
}

static bool gathers(const struct summary_subject *subject, const struct operation_row *row) {
    return subject->call && subject->call->api == API_NCCL && (row->source & ~SOURCE_SIZE_CLASS) == SOURCE_HOST;
}

static void add_counts(struct summary_entry *entry, const struct dump *dump, const struct summary_row *calls,
                       const struct summary_subject *subject, uint64_t ns) {
    const struct operation_row *row = calls->row;
    uint64_t posting = summary_ns(dump, row->source, row->posting_total);
    bool gathering = row->untimed > 0 && gathers(subject, row);
    add_times(calls->time == ROW_TIME_INSIDE ? &entry->time : &entry->in_flight, dump, row, ns);
    if (calls->time == ROW_TIME_IN_FLIGHT)
        add_posting(&entry->time, row->count, posting);
    if (gathering)
        add_gathering(entry, dump, row);
    entry->count += row->count;
    entry->untimed += gathering ? 0 : row->untimed;
    entry->failed += row->failed;
    entry->estimated_bytes += row->posted_size;
    entry->shared_times += row->shares;
    entry->shared_ns += summary_ns(dump, row->source, row->shares_total);
    entry->bytes_total += row->bytes_total;
    entry->received_bytes += row->received_bytes;
    entry->posting_total_ns += posting;
}

static bool refer_to_row(struct summary_group *group, const struct dump *dump, const struct summary_row *calls) {
    struct row_reference *reference = malloc(sizeof *reference);
    if (reference) {
        *reference = (struct row_reference){group->rows, dump, calls->in_file, calls->time != ROW_TIME_INSIDE};
        group->rows = reference;
    }
    return reference != NULL;
}

bool summary_add_row(struct summary_build *build, const struct dump *dump, const struct summary_row *calls,
                     struct summary_group **to) {
    const struct operation_row *row = calls->row;
    uint32_t comm = row->comm_epoch & 0xffffff;
    struct summary_subject subject = subject_of(dump, row->call, comm == ROW_COMM_NONE ? COMM_NONE : comm);
    struct summary_entry key;
    int wanted = make_key(build, dump, &subject, row->call, row->source, row->bytes, calls->stack, &key);
    if (to)
        *to = NULL;
    if (wanted <= 0)
        return wanted == 0;
    if (build->by & SUMMARY_BY_EPOCH)
        key.epoch = row->comm_epoch >> 24;
    struct summary_group *group = find_group(build, &key, true);
    if (!group || !describe_group(build, group, &subject) || (calls->in_file && !refer_to_row(group, dump, calls)))
        return false;
    if (to)
        *to = group;
    uint64_t ns = summary_ns(dump, row->source, row->time_total);
    add_counts(&group->entry, dump, calls, &subject, ns);
    add_bandwidth(group, dump, &subject, row, ns);
    return true;
}

bool summary_add_incomplete(struct summary_build *build, const struct dump *dump, const struct pending *pending,
                            struct summary_group **to) {
    struct summary_subject subject = subject_of(dump, pending->call, pending->comm);
    struct summary_entry key;
    int wanted = make_key(build, dump, &subject, pending->call, SOURCE_HOST, pending->bytes, pending->stack, &key);
    *to = NULL;
    if (wanted <= 0)
        return wanted == 0;
    struct summary_group *group = find_group(build, &key, true);
    if (!group || !describe_group(build, group, &subject))
        return false;
    uint64_t posting = summary_ns(dump, SOURCE_HOST, pending->posting_ticks);
    group->entry.count++;
    group->entry.untimed++;
    group->entry.bytes_total += pending->bytes == BYTES_UNKNOWN ? 0 : pending->bytes;
    group->entry.posting_total_ns += posting;
    add_posting(&group->entry.time, 1, posting);
    build->summary->pending++;
    *to = group;
    return true;
}

bool summary_enter(struct summary_build *build, const struct dump *dump, size_t d) {
    free(build->call_names);
    build->d = d;
    build->call_names = calloc(dump->call_count + 1, sizeof *build->call_names);
    return build->call_names != NULL;
}

/* ---- times of single calls ------------------------------------------------------------------- */

bool summary_add_sample(struct summary_times *times, uint64_t ns, uint64_t count) {
    if (!grow_list(times->samples, times->sample_count))
        return false;
    times->samples[times->sample_count++] = (struct summary_sample){ns, count};
    return true;
}

bool summary_counts(const struct summary_build *build, const struct dump_set *set, size_t d) {
    return !set->duplicate[d] && (!build->filter || filter_rank(build->filter, set->dumps[d]->header->rank));
}

bool summary_group_of(struct summary_build *build, const struct dump *dump, const struct recorded_call *call,
                      struct summary_group **group) {
    struct summary_subject subject = subject_of(dump, call->call, call->comm);
    struct summary_entry key;
    *group = NULL;
    if (call->started) /* its row is that of MPI_Start */
        return true;
    int wanted = make_key(build, dump, &subject, call->call, call->source, call->bytes, call->stack, &key);
    if (wanted > 0)
        *group = find_group(build, &key, false); /* none: its row is a size class */
    return wanted >= 0;
}

bool summary_add_recorded(struct summary_group *group, const struct dump *dump, const struct recorded_call *call) {
    struct summary_entry *entry = &group->entry;
    uint64_t ns = summary_ns(dump, call->source, call->ticks / call->count);
    for (uint64_t i = 0; i < call->count && call->timed; i++)
        if (!summary_add_sample(call->in_flight ? &entry->in_flight : &entry->time, ns, 1))
            return false;
    return !call->in_flight || !call->posting_known ||
           summary_add_sample(&entry->time, summary_ns(dump, call->source, call->posting_ticks), 1);
}

static int compare_samples(const void *a, const void *b) {
    const struct summary_sample *left = a, *right = b;
    return left->ns < right->ns ? -1 : left->ns > right->ns;
}

/* Nearest rank: the least time that at least `percent` % of the calls do not exceed. */
static uint64_t percentile(const struct summary_times *times, uint64_t total, unsigned percent) {
    uint64_t wanted = (uint64_t)(((unsigned __int128)total * percent + 99) / 100), seen = 0;
    for (size_t i = 0; i < times->sample_count; i++) {
        seen += times->samples[i].count;
        if (seen >= wanted)
            return times->samples[i].ns;
    }
    return 0;
}

/* The middle of a bucket is at most a ninth off: a percentile from the tail that lies so little below the mean of all,
 * which is exact, is taken for the mean. */
static uint64_t not_below_mean(const struct summary_times *times, uint64_t ns) {
    uint64_t mean = times->total_ns / times->count;
    return times->percentiles == PERCENTILES_APPROXIMATE && ns < mean && mean - ns <= ns / 9 ? mean : ns;
}

static bool choose_samples(struct summary_group *group, struct summary_times *times) {
    bool exact = times->count > 0 && times->sample_count == times->count;
    bool known = exact || (times->count > 0 && times->sums_only == 0);
    times->percentiles = exact ? PERCENTILES_EXACT : known ? PERCENTILES_APPROXIMATE : PERCENTILES_NONE;
    if (!known)
        times->sample_count = 0;
    return exact || !known || summary_take_histograms(group, times == &group->entry.in_flight);
}

static bool add_percentiles(struct summary_group *group, struct summary_times *times) {
    uint64_t total = 0;
    if (!choose_samples(group, times))
        return false;
    for (size_t i = 0; i < times->sample_count; i++)
        total += times->samples[i].count;
    if (total == 0) { /* rows without a histogram */
        times->percentiles = PERCENTILES_NONE;
        return true;
    }
    qsort(times->samples, times->sample_count, sizeof *times->samples, compare_samples);
    if (times->percentiles == PERCENTILES_EXACT) {
        times->min_ns = times->samples[0].ns;
        times->max_ns = times->samples[times->sample_count - 1].ns;
    }
    times->p50_ns = percentile(times, total, 50);
    times->p95_ns = not_below_mean(times, percentile(times, total, 95));
    times->p99_ns = not_below_mean(times, percentile(times, total, 99));
    return true;
}

/* ---- the result ------------------------------------------------------------------------------ */

static void add_rates(struct summary_group *group) {
    struct summary_entry *entry = &group->entry;
    entry->algbw_bytes_per_s = entry->busbw_bytes_per_s = -1;
    entry->transfer_algbw_bytes_per_s = entry->transfer_busbw_bytes_per_s = -1;
    if (group->band_bytes == 0 || group->band_ns == 0 || entry->estimated_bytes > 0)
        return;
    entry->algbw_bytes_per_s = (double)group->band_bytes * 1e9 / (double)group->band_ns;
    if (!group->bus_unknown)
        entry->busbw_bytes_per_s = group->bus_bytes * 1e9 / (double)group->band_ns;
}

static int compare_numbers(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int compare_entries(const void *a, const void *b) {
    const struct summary_entry *left = &(*(struct summary_group *const *)a)->entry,
                               *right = &(*(struct summary_group *const *)b)->entry;
    int order = compare_numbers(right->time.total_ns, left->time.total_ns);
    if (order == 0)
        order = compare_numbers(left->api, right->api);
    if (order == 0 && left->op && right->op)
        order = strcmp(left->op, right->op);
    if (order == 0)
        order = left->has_comm - right->has_comm;
    if (order == 0)
        order = compare_numbers(left->comm, right->comm);
    if (order == 0)
        order = compare_numbers(left->bytes, right->bytes);
    if (order == 0)
        order = left->size_class - right->size_class;
    if (order == 0)
        order = compare_numbers(left->source, right->source);
    if (order == 0)
        order = compare_numbers(left->epoch, right->epoch);
    if (order == 0 && left->site && right->site)
        order = strcmp(left->site, right->site);
    if (order == 0 && left->caller && right->caller)
        order = strcmp(left->caller, right->caller);
    return order != 0 ? order : left->rank < right->rank ? -1 : left->rank > right->rank;
}

static bool finish_groups(struct summary_build *build) {
    struct summary *summary = build->summary;
    if (build->count > 0)
        qsort(build->groups, build->count, sizeof *build->groups, compare_entries);
    summary->entries = calloc(build->count + 1, sizeof *summary->entries);
    if (!summary->entries)
        return false;
    for (size_t i = 0; i < build->count; i++) {
        struct summary_entry *entry = &build->groups[i]->entry;
        if (!add_percentiles(build->groups[i], &entry->time) || !add_percentiles(build->groups[i], &entry->in_flight))
            return false;
        add_rates(build->groups[i]);
        summary->entries[summary->count++] = *entry;
        entry->time.samples = entry->in_flight.samples = NULL;
    }
    return true;
}

static void free_build(struct summary_build *build) {
    for (size_t i = 0; i < build->count; i++) {
        for (struct row_reference *row = build->groups[i]->rows, *next; row; row = next) {
            next = row->next;
            free(row);
        }
        free(build->groups[i]->entry.time.samples);
        free(build->groups[i]->entry.in_flight.samples);
        free(build->groups[i]);
    }
    free(build->groups);
    hash_table_free(&build->by_key);
    free(build->call_names);
}

/* `scope` NULL: from the tables. */
static bool build_all(struct summary *summary, const struct dump_set *set, const struct scope *scope,
                      const struct filter *filter, unsigned by, struct site_labels *labels) {
    *summary = (struct summary){.by = by};
    struct summary_build build = {.summary = summary, .filter = filter, .by = by, .labels = labels};
    bool enough_memory = scope ? summary_take_records(&build, set, scope) : summary_take_tables(&build, set);
    enough_memory = enough_memory && finish_groups(&build);
    free_build(&build);
    if (!enough_memory)
        summary_free(summary);
    return enough_memory;
}

bool summary_build(struct summary *summary, const struct dump_set *set, const struct filter *filter, unsigned by) {
    return build_all(summary, set, NULL, filter, by & ~(unsigned)SUMMARY_BY_SITES, NULL);
}

bool summary_build_sites(struct summary *summary, const struct dump_set *set, const struct filter *filter, unsigned by,
                         struct site_labels *labels) {
    return build_all(summary, set, NULL, filter, by & ~(unsigned)SUMMARY_BY_BYTES, labels);
}

bool summary_build_scope(struct summary *summary, const struct dump_set *set, const struct scope *scope, unsigned by,
                         struct site_labels *labels) {
    return build_all(summary, set, scope, scope->filter, by, labels);
}

void summary_free(struct summary *summary) {
    for (size_t i = 0; i < summary->count; i++) {
        free(summary->entries[i].time.samples);
        free(summary->entries[i].in_flight.samples);
    }
    free(summary->entries);
    free_strings(summary->strings);
    memset(summary, 0, sizeof *summary);
}
