/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/links/group_links.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash.h"
#include "analyzer/base/statistics.h"
#include "analyzer/links/link_judge.h"
#include "analyzer/base/significance.h"

enum {
    CORRELATED = 4,     /* collectives follow each other closely: so many are worth one */
    PAIRS_OF_HOSTS = 8, /* more hosts in one communicator: its pairs are too many to suspect any */
    OCTAVE = 8,         /* log bins */
    SLOW_SHARE = 2,     /* more than one in so many alike slow, on different hosts: how the network is */
};

#define SPREAD_LEAST 0.05                      /* of ln between communicators: no network is more even */
#define FAST_RATIO   (LINK_RATIO / 3 + 2. / 3) /* as fast as usual up to here */

/* ---- gathering ------------------------------------------------------------------------------- */

void group_links_init(struct group_links *groups, const struct common_clock *clock,
                      const struct match_directory *directory) {
    *groups = (struct group_links){.clock = clock, .directory = directory};
}

void group_links_free(struct group_links *groups) {
    hash_table_free(&groups->cells);
    *groups = (struct group_links){0};
}

/* NULL: no room, and nothing is judged any more. */
static struct group_cell *cell_of(struct group_links *groups, const struct group_key *key) {
    if (groups->overflow || groups->no_memory)
        return NULL;
    struct group_cell *cell = group_cells_find(&groups->cells, key);
    if (cell)
        return cell;
    if (groups->cells.count == GROUP_CELLS_MOST) {
        groups->overflow = true;
        return NULL;
    }
    cell = group_cells_add(&groups->cells, key);
    groups->no_memory = !cell;
    return cell;
}

void group_links_add(struct group_links *groups, const struct match_instance *instance) {
    const struct match_communicator *communicator = instance->communicator;
    if (!instance->complete || instance->others > 0 || instance->call == CALL_UNKNOWN ||
        instance->bytes == BYTES_UNKNOWN || communicator->dump_count < 2 ||
        communicator->dump_count != communicator->size)
        return;
    const struct call_name *call = groups->directory->calls[instance->call].name;
    if (call->call_class != CLASS_GROUP && (call->call_class != CLASS_COLLECTIVE || call->flow != FLOW_ALL))
        return;
    int64_t took = INT64_MAX;
    for (uint32_t i = 0; i < communicator->dump_count; i++) {
        const struct match_member *member = &instance->members[i];
        bool is_known = instance->device ? !member->share : member->wait == member->enter; /* how long it took */
        if (!is_known)
            return;
        if (member->leave - member->enter < took)
            took = member->leave - member->enter;
    }
    struct group_key key = {.communicator = (uint32_t)(communicator - groups->directory->communicators),
                            .size = log_bin_of(instance->bytes),
                            .call = instance->call,
                            .device = instance->device};
    struct group_cell *cell = took > 0 ? cell_of(groups, &key) : NULL;
    if (!cell || cell->count == UINT32_MAX)
        return;
    cell->count++;
    cell->bins[log_bin_of((uint64_t)took)]++;
}

void group_links_merge(struct group_links *into, const struct group_links *from) {
    into->overflow |= from->overflow;
    into->no_memory |= from->no_memory;
    for (size_t i = 0; i < from->cells.count; i++) {
        const struct group_cell *part = &group_cells_items(&from->cells)[i];
        struct group_cell *cell = cell_of(into, &part->key);
        if (!cell || part->count > UINT32_MAX - cell->count)
            continue;
        cell->count += part->count;
        for (unsigned b = 0; b < LOG_BINS; b++)
            cell->bins[b] += part->bins[b];
    }
}

void group_links_parcel(struct group_links *groups, struct parcel *parcel) {
    parcel_table(parcel, &groups->cells, struct group_cell);
    parcel_flag(parcel, &groups->overflow);
    parcel_flag(parcel, &groups->no_memory);
}

/* ---- communicators against their like -------------------------------------------------------- */

/* A communicator as one function and size shows it; of all its, the one that took most time. */
struct judged_group {
    const struct group_cell *cell;
    const struct match_communicator *communicator;
    uint64_t hosts_hash;
    uint32_t hosts; /* how many */
    double typical; /* ns */
    double apart;   /* ln less that of its like */
    double error;
    double confidence; /* that it is slow */
    bool compared, slow, fast;
};

/* What a slow communicator may owe it to. */
struct accused {
    struct group_suspect suspect;
    size_t group; /* the slow one */
};

struct testing {
    const struct group_links *links;
    struct judged_group *groups;
    size_t count;
    struct accused *accused;
    size_t accused_count;
    struct cleared *cleared;
    size_t cleared_count;
    uint32_t *near;          /* per host: one of those it is joined with by fast communicators */
    uint64_t *stamps, stamp; /* per host: the last group that it was listed of */
    bool no_memory;
};

struct cleared {
    struct group_suspect suspect;
    uint32_t size;
};

static uint32_t member_host(const struct testing *t, const struct judged_group *group, uint32_t member) {
    return t->links->clock->host_of[group->communicator->dump_of[member]];
}

/* Members' hosts, each once; the first `most` of them into `hosts`. Returns how many there are. */
static uint32_t list_hosts(struct testing *t, const struct judged_group *group, uint32_t *hosts, uint32_t most) {
    uint32_t count = 0;
    t->stamp++;
    for (uint32_t i = 0; i < group->communicator->dump_count; i++) {
        uint32_t host = member_host(t, group, i);
        if (t->stamps[host] == t->stamp)
            continue;
        t->stamps[host] = t->stamp;
        if (count < most)
            hosts[count] = host;
        count++;
    }
    return count;
}

static int compare_alike(const void *a, const void *b) {
    const struct judged_group *left = a, *right = b;
    const struct group_key *l = &left->cell->key, *r = &right->cell->key;
    if (l->call != r->call)
        return l->call < r->call ? -1 : 1;
    if (l->device != r->device)
        return l->device ? 1 : -1;
    if (l->size != r->size)
        return l->size < r->size ? -1 : 1;
    if (left->communicator->dump_count != right->communicator->dump_count)
        return left->communicator->dump_count < right->communicator->dump_count ? -1 : 1;
    if (left->hosts != right->hosts)
        return left->hosts < right->hosts ? -1 : 1;
    return l->communicator < r->communicator ? -1 : l->communicator > r->communicator;
}

static bool are_alike(const struct judged_group *a, const struct judged_group *b) {
    return a->cell->key.call == b->cell->key.call && a->cell->key.device == b->cell->key.device &&
           a->cell->key.size == b->cell->key.size && a->communicator->dump_count == b->communicator->dump_count &&
           a->hosts == b->hosts;
}

/* On how many different sets of hosts [from, to) run: all of them, or the slow ones. */
static size_t count_sets(const struct testing *t, size_t from, size_t to, bool slow, uint64_t *hashes) {
    size_t count = 0, sets = 0;
    for (size_t i = from; i < to; i++)
        if (t->groups[i].slow || !slow)
            hashes[count++] = t->groups[i].hosts_hash;
    qsort(hashes, count, sizeof *hashes, compare_uint64);
    for (size_t i = 0; i < count; i++)
        sets += i == 0 || hashes[i] != hashes[i - 1];
    return sets;
}

/* Those alike, [from, to). */
static void compare_like(struct testing *t, size_t from, size_t to, double *values, uint64_t *hashes) {
    size_t count = to - from;
    if (count < GROUP_COMMUNICATORS_MIN)
        return;
    for (size_t i = 0; i < count; i++)
        values[i] = log(t->groups[from + i].typical);
    double usual = median_low_double(values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = fabs(log(t->groups[from + i].typical) - usual);
    double middle = SD_OF_MEDIAN_DISTANCE * median_low_double(values, count);
    /* a third of them may be slow */
    double spread = fmax(middle, quantile_low_double(values, count, 60) / NORMAL_DISTANCE_P60);
    spread = fmax(1.4 * (1 + 4.0 / (double)count) * spread, SPREAD_LEAST); /* few tell little of how far they spread */
    for (size_t i = from; i < to; i++) {
        struct judged_group *group = &t->groups[i];
        group->compared = true;
        group->apart = log(group->typical) - usual;
        double z = group->apart / sqrt(spread * spread + group->error * group->error);
        group->confidence = 1 - (double)t->count * erfc(z / sqrt(2)) / 2;
        group->slow = group->apart >= log(LINK_RATIO) && group->confidence >= CONFIDENCE_VERDICT;
        group->fast = group->apart <= log(FAST_RATIO);
    }
    size_t sets = count_sets(t, from, to, false, hashes), slow = count_sets(t, from, to, true, hashes);
    if (slow > (sets / SLOW_SHARE > 1 ? sets / SLOW_SHARE : 1) && sets > 1)
        for (size_t i = from; i < to; i++)
            t->groups[i].slow = false;
}

static bool compare_groups(struct testing *t) {
    double *values = calloc(t->count + 1, sizeof *values);
    uint64_t *hashes = calloc(t->count + 1, sizeof *hashes);
    if (values && hashes) {
        qsort(t->groups, t->count, sizeof *t->groups, compare_alike);
        for (size_t i = 0, end; i < t->count; i = end) {
            for (end = i + 1; end < t->count && are_alike(&t->groups[i], &t->groups[end]);)
                end++;
            compare_like(t, i, end, values, hashes);
        }
    }
    bool done = values && hashes;
    free(values);
    free(hashes);
    return done;
}

static double time_of(const struct judged_group *group) {
    return group->typical * group->cell->count;
}

static int compare_weight(const void *a, const void *b) {
    const struct judged_group *left = a, *right = b;
    if (left->cell->key.communicator != right->cell->key.communicator)
        return left->cell->key.communicator < right->cell->key.communicator ? -1 : 1;
    if (left->compared != right->compared)
        return left->compared ? -1 : 1;
    if (time_of(left) != time_of(right))
        return time_of(left) > time_of(right) ? -1 : 1;
    return compare_alike(a, b);
}

/* Each communicator is what its costliest compared operations say. */
static void keep_heaviest(struct testing *t) {
    size_t kept = 0;
    qsort(t->groups, t->count, sizeof *t->groups, compare_weight);
    for (size_t i = 0; i < t->count; i++)
        if (t->groups[i].compared && (kept == 0 || t->groups[kept - 1].communicator != t->groups[i].communicator))
            t->groups[kept++] = t->groups[i];
    t->count = kept;
}

static bool list_groups(struct testing *t, const bool *explained) {
    const struct group_links *links = t->links;
    t->groups = calloc(links->cells.count + 1, sizeof *t->groups);
    for (size_t i = 0; t->groups && i < links->cells.count; i++) {
        const struct group_cell *cell = &group_cells_items(&links->cells)[i];
        const struct match_communicator *communicator = &links->directory->communicators[cell->key.communicator];
        bool known = false;
        for (uint32_t m = 0; m < communicator->dump_count; m++)
            known |= explained[communicator->dump_of[m]];
        if (cell->count < GROUP_COLLECTIVES_MIN || known)
            continue;
        struct judged_group *group = &t->groups[t->count++];
        *group = (struct judged_group){
            .cell = cell,
            .communicator = communicator,
            .typical = log_bins_quantile(cell->bins, cell->count, 0.5),
            .error = log_bins_error(cell->bins, cell->count, 0.5, (double)cell->count / CORRELATED)};
        group->hosts = list_hosts(t, group, NULL, 0);
        for (uint32_t m = 0; m < communicator->dump_count; m++) /* whatever their order */
            group->hosts_hash += hash_scramble(member_host(t, group, m) + 1);
    }
    return t->groups != NULL;
}

/* ---- who is accused, who is cleared ---------------------------------------------------------- */

static int compare_suspects(const struct group_suspect *left, const struct group_suspect *right) {
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    if (left->a != right->a)
        return left->a < right->a ? -1 : 1;
    return left->b < right->b ? -1 : left->b > right->b;
}

static void note_suspect(struct testing *t, const struct judged_group *group, enum suspect_kind kind, uint32_t a,
                         uint32_t b) {
    struct group_suspect suspect = {kind, a, b};
    if (group->slow) {
        if (grow_list(t->accused, t->accused_count))
            t->accused[t->accused_count++] = (struct accused){suspect, (size_t)(group - t->groups)};
        else
            t->no_memory = true;
        return;
    }
    if (grow_list(t->cleared, t->cleared_count))
        t->cleared[t->cleared_count++] = (struct cleared){suspect, group->cell->key.size};
    else
        t->no_memory = true;
}

static uint32_t root_of(uint32_t *near, uint32_t host) {
    while (near[host] != host)
        host = near[host] = near[near[host]];
    return host;
}

static void note_all(struct testing *t, const struct judged_group *group) {
    uint32_t hosts[PAIRS_OF_HOSTS] = {0};
    uint32_t count = list_hosts(t, group, hosts, PAIRS_OF_HOSTS);
    bool inside = count == 1;
    for (uint32_t i = 0; i < group->communicator->dump_count; i++) {
        uint32_t dump = group->communicator->dump_of[i], host = member_host(t, group, i);
        note_suspect(t, group, inside ? SUSPECT_NEIGHBOUR : SUSPECT_RANK, dump, dump);
        note_suspect(t, group, inside ? SUSPECT_INSIDE : SUSPECT_HOST, host, host);
        if (group->fast)
            t->near[root_of(t->near, host)] = root_of(t->near, hosts[0]);
    }
    /* who talks to whom among more than two hosts is not known: that accuses all pairs, and clears none */
    for (uint32_t h = 0; h < count && count <= PAIRS_OF_HOSTS && (group->slow || count == 2); h++)
        for (uint32_t other = 0; other < h; other++)
            note_suspect(t, group, SUSPECT_PAIR, hosts[other] < hosts[h] ? hosts[other] : hosts[h],
                         hosts[other] < hosts[h] ? hosts[h] : hosts[other]);
}

static int compare_cleared(const void *a, const void *b) {
    const struct cleared *left = a, *right = b;
    int order = compare_suspects(&left->suspect, &right->suspect);
    return order ? order : left->size > right->size ? -1 : left->size < right->size;
}

static int compare_accused(const void *a, const void *b) {
    const struct accused *left = a, *right = b;
    int order = compare_suspects(&left->suspect, &right->suspect);
    return order ? order : left->group < right->group ? -1 : left->group > right->group;
}

/* Takes out what fast communicators clear. Small operations do not show what large ones suffer from. */
static void clear_accused(struct testing *t) {
    size_t kept = 0, at = 0;
    if (t->accused_count > 0)
        qsort(t->accused, t->accused_count, sizeof *t->accused, compare_accused);
    if (t->cleared_count > 0)
        qsort(t->cleared, t->cleared_count, sizeof *t->cleared, compare_cleared);
    for (size_t i = 0; i < t->accused_count; i++) {
        const struct accused *accused = &t->accused[i];
        if (kept > 0 && compare_accused(&t->accused[kept - 1], accused) == 0) /* two ranks of one host */
            continue;
        while (at < t->cleared_count && compare_suspects(&t->cleared[at].suspect, &accused->suspect) < 0)
            at++;
        bool cleared = at < t->cleared_count && compare_suspects(&t->cleared[at].suspect, &accused->suspect) == 0 &&
                       t->cleared[at].size + OCTAVE >= t->groups[accused->group].cell->key.size;
        if (!cleared)
            t->accused[kept++] = *accused;
    }
    t->accused_count = kept;
}

/* ---- what explains most ---------------------------------------------------------------------- */

static size_t end_of_suspect(const struct testing *t, size_t from) {
    size_t end = from + 1;
    while (end < t->accused_count && compare_suspects(&t->accused[from].suspect, &t->accused[end].suspect) == 0)
        end++;
    return end;
}

/* How many slow communicators that nothing explains yet it is in. */
static size_t count_open(const struct testing *t, size_t from, size_t to) {
    size_t open = 0;
    for (size_t i = from; i < to; i++)
        open += t->groups[t->accused[i].group].slow;
    return open;
}

static bool in_the_same(const struct testing *t, size_t from, size_t to, size_t other, size_t other_end) {
    for (size_t i = from; i < to; i++) {
        bool found = !t->groups[t->accused[i].group].slow;
        for (size_t k = other; k < other_end && !found; k++)
            found = t->accused[k].group == t->accused[i].group;
        if (!found)
            return false;
    }
    return true;
}

static bool is_layout(struct testing *t, const struct group_suspect *suspect) {
    return suspect->kind == SUSPECT_PAIR && root_of(t->near, suspect->a) != root_of(t->near, suspect->b);
}

/* Lists all that are in as many slow communicators as [from, to), and in the same. */
static void list_suspects(struct testing *t, size_t from, size_t to, size_t open, struct slow_group *found) {
    for (size_t i = 0, end; i < t->accused_count; i = end) {
        end = end_of_suspect(t, i);
        if (count_open(t, i, end) != open || !in_the_same(t, from, to, i, end))
            continue;
        if (found->suspect_count < GROUP_SUSPECTS_MOST)
            found->suspects[found->suspect_count] = t->accused[i].suspect;
        found->suspect_count++;
        found->layout |= is_layout(t, &t->accused[i].suspect);
    }
}

/* Adds what a slow communicator says, ln of the ratio too; it is explained then. */
static void explain_group(struct judged_group *group, struct slow_group *found) {
    double extra = group->typical * (1 - exp(-group->apart));
    if (found->slow++ == 0 || group->cell->key.communicator < found->communicator)
        found->communicator = group->cell->key.communicator;
    found->collectives += group->cell->count;
    found->extra_ns = add_ns(found->extra_ns, ns_clamped(extra * group->cell->count));
    found->confidence = fmin(found->confidence, group->confidence);
    found->ratio += group->apart;
    group->slow = false;
}

static void begin_found(const struct testing *t, struct slow_group *found) {
    *found = (struct slow_group){.confidence = 1};
    for (size_t i = 0; i < t->count; i++)
        found->cleared_by += t->groups[i].fast;
}

/* A slow communicator of which every member, host and pair of hosts is fast elsewhere. False: none is left. */
static bool find_alone(struct testing *t, struct slow_group *found) {
    for (size_t i = 0; i < t->count; i++) {
        if (!t->groups[i].slow)
            continue;
        uint32_t communicator = t->groups[i].cell->key.communicator;
        begin_found(t, found);
        found->suspects[found->suspect_count++] = (struct group_suspect){SUSPECT_MEMBERS, communicator, communicator};
        explain_group(&t->groups[i], found);
        found->ratio = exp(found->ratio);
        return true;
    }
    return false;
}

/* The suspect in most slow communicators, and those that cannot be told from it. False: none is left. */
static bool find_next_suspect(struct testing *t, struct slow_group *found) {
    size_t most = 0, from = 0, to = 0;
    for (size_t i = 0, end; i < t->accused_count; i = end) {
        end = end_of_suspect(t, i);
        size_t open = count_open(t, i, end);
        if (open <= most)
            continue;
        most = open;
        from = i;
        to = end;
    }
    if (most == 0)
        return find_alone(t, found);
    begin_found(t, found);
    list_suspects(t, from, to, most, found);
    for (size_t i = from; i < to; i++)
        if (t->groups[t->accused[i].group].slow)
            explain_group(&t->groups[t->accused[i].group], found);
    found->ratio = exp(found->ratio / (double)found->slow);
    return true;
}

static int compare_found(const void *a, const void *b) {
    const struct slow_group *left = a, *right = b;
    if (left->extra_ns != right->extra_ns)
        return left->extra_ns > right->extra_ns ? -1 : 1;
    return left->communicator < right->communicator ? -1 : left->communicator > right->communicator;
}

size_t group_links_judge(struct group_links *groups, const bool *explained, struct slow_group *found, size_t most) {
    struct testing t = {.links = groups};
    size_t count = 0;
    if (groups->overflow || groups->no_memory || groups->cells.count < GROUP_COMMUNICATORS_MIN)
        return 0;
    t.near = calloc(groups->clock->host_count, sizeof *t.near);
    t.stamps = calloc(groups->clock->host_count, sizeof *t.stamps);
    bool done = t.near && t.stamps && list_groups(&t, explained) && compare_groups(&t);
    if (done) {
        for (uint32_t h = 0; h < groups->clock->host_count; h++)
            t.near[h] = h;
        keep_heaviest(&t);
        for (size_t i = 0; i < t.count; i++)
            if (t.groups[i].slow || t.groups[i].fast)
                note_all(&t, &t.groups[i]);
        clear_accused(&t);
        while (count < most && find_next_suspect(&t, &found[count]))
            count++;
        qsort(found, count, sizeof *found, compare_found);
    }
    groups->no_memory = !done || t.no_memory;
    free(t.near);
    free(t.stamps);
    free(t.groups);
    free(t.accused);
    free(t.cleared);
    return groups->no_memory ? 0 : count;
}
