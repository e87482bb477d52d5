/* SPDX-License-Identifier: Apache-2.0
 *
 * What late arrivals cost.
 * Lives here: one matched collective's waits, by how its data flows.
 * Must not live here: matching, verdicts.
 */
#include "analyzer/waits/waits.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/match/sources.h"

bool waits_init(struct waits *waits, const struct common_clock *clock, const struct match_directory *directory) {
    *waits = (struct waits){.clock = clock, .directory = directory};
    waits->ranks = calloc(directory->dump_count, sizeof *waits->ranks);
    waits->receiving = calloc(directory->dump_count, sizeof *waits->receiving);
    waits->gains = calloc(directory->dump_count, sizeof *waits->gains);
    return wall_times_init(&waits->wall, directory->dump_count) && waits->ranks && waits->receiving && waits->gains;
}

void waits_free(struct waits *waits) {
    for (size_t d = 0; waits->receiving && d < waits->directory->dump_count; d++)
        free(waits->receiving[d]);
    free(waits->receiving);
    free(waits->gains);
    free(waits->members);
    match_away_free(&waits->away);
    free(waits->ranks);
    site_waits_free(&waits->sites);
    link_waits_free(&waits->links);
    wall_times_free(&waits->wall);
    transfers_free(&waits->transfers);
    *waits = (struct waits){0};
}

/* ---- who meets where ------------------------------------------------------------------------- */

static uint64_t channel_of(uint32_t a, uint32_t b) {
    return (uint64_t)(a < b ? a : b) << 32 | (uint64_t)(a < b ? b : a) << 1; /* even: communicators' are odd */
}

/* Of two members: neighbours meet each other, in all else all do. */
static uint64_t channel_in(const struct match_instance *instance, enum wait_state state, uint32_t a, uint32_t b) {
    const uint32_t *dump_of = instance->communicator->dump_of;
    return state == WAIT_AT_NEIGHBOURS ? channel_of(dump_of[a], dump_of[b]) : instance->communicator->uid | 1;
}

/* ---- one wait -------------------------------------------------------------------------------- */

/* Who waited for whom, and where both called from. */
struct waiting_pair {
    uint32_t dump, cause;
    uint32_t stack, cause_stack;
    uint32_t lane; /* of who waited */
};

/* Of equal ones the earlier: it must not matter who comes upon them in which order. */
static bool is_longer(const struct longest_wait *a, const struct longest_wait *b) {
    if (a->length_ns != b->length_ns)
        return a->length_ns > b->length_ns;
    return a->until_ns != b->until_ns ? a->until_ns < b->until_ns : a->dump < b->dump;
}

static void keep_longest(struct longest_wait *longest, const struct longest_wait *wait) {
    if (wait->length_ns > 0 && is_longer(wait, longest))
        *longest = *wait;
}

/* Adds one wait to all sums but the causer's imposed ones. */
static void add_single_wait(struct waits *waits, const struct waiting_pair *pair, enum wait_state state,
                            const struct told_wait *wait) {
    struct rank_waits *victim = &waits->ranks[pair->dump], *causer = &waits->ranks[pair->cause];
    victim->wait_ns = add_ns(victim->wait_ns, wait->length);
    victim->states_ns[state] = add_ns(victim->states_ns[state], wait->length);
    causer->waited_for_ns = add_ns(causer->waited_for_ns, wait->length);
    causer->imposed_ns = add_ns(causer->imposed_ns, wait->imposed);
    keep_longest(&causer->longest, &(struct longest_wait){wait->length, wait->until, pair->dump, pair->cause_stack});
    wall_times_add(&waits->wall, pair->dump, WALL_WAIT, wait->until - wait->length, wait->until);
    site_waits_add(&waits->sites, pair->dump, pair->stack, wait->length, 0);
    site_waits_add(&waits->sites, pair->cause, pair->cause_stack, 0, wait->length);
    if (waits->listener.wait)
        waits->listener.wait(waits->listener.context, wait);
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* The two members who came last; NOWHERE where there is none. Equal times: the lower rank came earlier. */
struct latest {
    uint32_t last, second;
};

/* Of the members in [from, to). */
static struct latest find_latest_of(const struct match_instance *instance, uint32_t from, uint32_t to, uint32_t skip) {
    struct latest found = {NOWHERE, NOWHERE};
    const struct match_member *members = instance->members;
    for (uint32_t i = from; i < to; i++) {
        if (members[i].enter == MATCH_ABSENT || members[i].bystander || i == skip)
            continue;
        if (found.last == NOWHERE || members[i].enter >= members[found.last].enter) {
            found.second = found.last;
            found.last = i;
        } else if (found.second == NOWHERE || members[i].enter >= members[found.second].enter) {
            found.second = i;
        }
    }
    return found;
}

/* `skip` is left out. */
static struct latest find_latest(const struct match_instance *instance, uint32_t skip) {
    return find_latest_of(instance, 0, instance->communicator->dump_count, skip);
}

/* Between when two dumps came to something, on their GPUs where `device`. */
static int64_t clocks_error(const struct waits *waits, size_t dump_a, const struct match_member *a, size_t dump_b,
                            const struct match_member *b, bool device) {
    int64_t error = common_clock_error(waits->clock, dump_a, dump_b);
    if (!device || error == CLOCK_ERROR_UNKNOWN)
        return error;
    return add_ns(error,
                  device_error_at(waits->clock, dump_a, a->enter) + device_error_at(waits->clock, dump_b, b->enter));
}

static int64_t error_between(const struct waits *waits, const struct match_instance *instance, uint32_t a, uint32_t b) {
    const uint32_t *dump_of = instance->communicator->dump_of;
    const struct match_member *members = instance->members;
    return clocks_error(waits, dump_of[a], &members[a], dump_of[b], &members[b], instance->device);
}

/* Since when a member was blocked. */
static int64_t blocked_since(const struct match_member *member) {
    return member->wait > member->enter ? member->wait : member->enter;
}

/* A wait of a rank as the clocks have it; 0 where they cannot tell it. */
static int64_t resolve_wait(struct waits *waits, uint32_t dump, int64_t since, int64_t wait, int64_t error) {
    if (wait <= 0 || wait > error)
        return wait > 0 ? wait : 0;
    struct rank_waits *rank = &waits->ranks[dump];
    rank->unresolved_ns = add_ns(rank->unresolved_ns, wait);
    if (waits->listener.unresolved)
        waits->listener.unresolved(waits->listener.context, dump, since);
    return 0;
}

/* How long member i waited for member `cause`, as the clocks have it. */
static int64_t wait_for(const struct match_instance *instance, uint32_t i, uint32_t cause) {
    const struct match_member *member = &instance->members[i];
    int64_t until = instance->members[cause].enter < member->leave ? instance->members[cause].enter : member->leave;
    return until - blocked_since(member);
}

/* By how much the last one came after the second last: without end where there is none, 0 within the clocks' error. */
static int64_t lead_of(const struct waits *waits, const struct match_instance *instance, struct latest latest) {
    if (latest.second == NOWHERE)
        return NS_MOST;
    int64_t lead = instance->members[latest.last].enter - instance->members[latest.second].enter;
    return lead > error_between(waits, instance, latest.last, latest.second) ? lead : 0;
}

/* Adds what `cause` made the members in [from, to) wait; had it come `lead` earlier, each would have waited so much
 * less. Returns the longest wait. */
static int64_t charge_waits(struct waits *waits, const struct match_instance *instance, enum wait_state state,
                            uint32_t cause, int64_t lead, uint32_t from, uint32_t to) {
    int64_t longest = 0;
    const uint32_t *dump_of = instance->communicator->dump_of;
    for (uint32_t i = from; i < to; i++) {
        const struct match_member *member = &instance->members[i];
        if (i == cause || member->enter == MATCH_ABSENT)
            continue;
        int64_t length = resolve_wait(waits, dump_of[i], blocked_since(member), wait_for(instance, i, cause),
                                      error_between(waits, instance, i, cause));
        if (length == 0)
            continue;
        struct rank_waits *victim = &waits->ranks[dump_of[i]];
        victim->transfer_ns = add_ns(victim->transfer_ns, -length);
        add_single_wait(waits,
                        &(struct waiting_pair){dump_of[i], dump_of[cause], match_member_waited_at(member),
                                               instance->members[cause].stack, member->lane},
                        state,
                        &(struct told_wait){.dump = dump_of[i],
                                            .lane = member->lane,
                                            .cause = dump_of[cause],
                                            .until = blocked_since(member) + length,
                                            .length = length,
                                            .imposed = length < lead ? length : lead,
                                            .channel = channel_in(instance, state, i, cause)});
        if (length > longest)
            longest = length;
    }
    return longest;
}

/* Notes that `cause` was the one waited for, and what the job would have gained without its lead. */
static void note_last(struct waits *waits, const struct match_instance *instance, uint32_t cause, int64_t lead,
                      int64_t longest) {
    struct rank_waits *culprit = &waits->ranks[instance->communicator->dump_of[cause]];
    if (longest == 0)
        return;
    culprit->last++;
    culprit->mended_ns = add_ns(culprit->mended_ns, lead < longest ? lead : longest);
}

static void add_for_last(struct waits *waits, const struct match_instance *instance, enum wait_state state,
                         struct latest latest, uint32_t from, uint32_t to) {
    if (latest.last == NOWHERE)
        return;
    int64_t lead = lead_of(waits, instance, latest);
    note_last(waits, instance, latest.last, lead, charge_waits(waits, instance, state, latest.last, lead, from, to));
}

static bool has_root(const struct match_instance *instance) {
    return instance->root != NOWHERE && instance->members[instance->root].enter != MATCH_ABSENT;
}

/* The root imposes waits only as the last of all. */
static void add_from_root(struct waits *waits, const struct match_instance *instance) {
    struct latest latest = find_latest(instance, NOWHERE);
    uint32_t root = instance->root, end = instance->communicator->dump_count;
    if (latest.last == root)
        add_for_last(waits, instance, WAIT_LATE_BROADCAST, latest, 0, end);
    else
        charge_waits(waits, instance, WAIT_LATE_BROADCAST, root, 0, 0, end);
}

/* Until the first of the others in [from, to) came, the root can have done nothing at all. */
static void add_early_reduce(struct waits *waits, const struct match_instance *instance, uint32_t from, uint32_t to) {
    uint32_t first = NOWHERE;
    for (uint32_t i = from; i < to; i++)
        if (i != instance->root && instance->members[i].enter != MATCH_ABSENT && !instance->members[i].bystander &&
            (first == NOWHERE || instance->members[i].enter < instance->members[first].enter))
            first = i;
    if (first == NOWHERE)
        return;
    struct rank_waits *root = &waits->ranks[instance->communicator->dump_of[instance->root]];
    int64_t wait = wait_for(instance, instance->root, first);
    if (wait > 0 && wait > error_between(waits, instance, instance->root, first))
        root->early_reduce_ns = add_ns(root->early_reduce_ns, wait);
}

static void add_to_root(struct waits *waits, const struct match_instance *instance) {
    uint32_t root = instance->root, end = instance->communicator->dump_count;
    struct latest latest = find_latest(instance, NOWHERE);
    add_early_reduce(waits, instance, 0, end);
    if (latest.last != root) /* else nobody waits */
        add_for_last(waits, instance, WAIT_AT_NX1, latest, root, root + 1);
}

/* Every member needs those of lower rank. */
static void add_scan(struct waits *waits, const struct match_instance *instance) {
    struct latest latest = {NOWHERE, NOWHERE};
    int64_t longest = 0, lead = 0; /* of those that latest.last kept waiting */
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        if (instance->members[i].enter == MATCH_ABSENT)
            continue;
        if (latest.last != NOWHERE) {
            lead = lead_of(waits, instance, latest);
            int64_t length = charge_waits(waits, instance, WAIT_EARLY_SCAN, latest.last, lead, i, i + 1);
            longest = length > longest ? length : longest;
        }
        if (latest.last == NOWHERE || instance->members[i].enter >= instance->members[latest.last].enter) {
            if (latest.last != NOWHERE)
                note_last(waits, instance, latest.last, lead, longest);
            latest = (struct latest){i, latest.last};
            longest = 0;
        } else if (latest.second == NOWHERE || instance->members[i].enter >= instance->members[latest.second].enter) {
            latest.second = i;
        }
    }
    if (latest.last != NOWHERE)
        note_last(waits, instance, latest.last, lead, longest);
}

/* The two of those that member i takes from who came last, while it was there: a message of no bytes is none. */
static struct latest find_latest_source(const struct waits *waits, const struct match_instance *instance, uint32_t i,
                                        const uint32_t *sources, size_t count) {
    struct latest found = {NOWHERE, NOWHERE};
    const struct match_member *members = instance->members;
    for (size_t k = 0; k < count; k++) {
        uint32_t s = sources[k];
        if (members[s].enter == MATCH_ABSENT ||
            (members[s].enter > members[i].leave &&
             members[s].enter - members[i].leave > error_between(waits, instance, i, s)))
            continue;
        if (found.last == NOWHERE || members[s].enter >= members[found.last].enter)
            found = (struct latest){s, found.last};
        else if (found.second == NOWHERE || members[s].enter >= members[found.second].enter)
            found.second = s;
    }
    return found;
}

static void tell_met(const struct waits *waits, const struct match_instance *instance, uint32_t a, uint32_t b) {
    int64_t one = instance->members[a].enter, other = instance->members[b].enter;
    if (waits->listener.met && one != MATCH_ABSENT && other != MATCH_ABSENT)
        waits->listener.met(waits->listener.context, one > other ? one : other,
                            channel_in(instance, WAIT_AT_NEIGHBOURS, a, b));
}

/* What member i waited for one that came so late, which is noted for the instance. */
static void charge_member(struct waits *waits, const struct match_instance *instance, enum wait_state state, uint32_t i,
                          uint32_t cause, int64_t lead) {
    int64_t length = charge_waits(waits, instance, state, cause, lead, i, i + 1), gain = lead < length ? lead : length;
    int64_t *most = &waits->gains[instance->communicator->dump_of[cause]];
    if (length > 0 && gain >= *most)
        *most = gain + 1;
}

/* Each counts once as the last that others waited for, whatever their number. */
static void note_last_sources(struct waits *waits, const struct match_instance *instance) {
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        uint32_t dump = instance->communicator->dump_of[i];
        if (waits->gains[dump] == 0)
            continue;
        waits->ranks[dump].last++;
        waits->ranks[dump].mended_ns = add_ns(waits->ranks[dump].mended_ns, waits->gains[dump] - 1);
        waits->gains[dump] = 0;
    }
}

static void add_among_neighbours(struct waits *waits, const struct match_instance *instance) {
    uint32_t sources[NEIGHBOURS_MOST];
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        size_t count =
            instance->members[i].enter == MATCH_ABSENT ? 0 : match_sources(waits->directory, instance, i, sources);
        count = count == SIZE_MAX ? 0 : count;
        for (size_t k = 0; k < count; k++)
            tell_met(waits, instance, i, sources[k]);
        struct latest latest = find_latest_source(waits, instance, i, sources, count);
        if (latest.last == NOWHERE)
            continue;
        charge_member(waits, instance, WAIT_AT_NEIGHBOURS, i, latest.last, lead_of(waits, instance, latest));
    }
    note_last_sources(waits, instance);
}

/* An intercommunicator: a group waits for the other one (MPI 4.0, 6.2.3). Where a group has no second last, all that
 * its last one was waited for is imposed. */
static void add_between_groups(struct waits *waits, const struct match_instance *instance, enum flow flow) {
    uint32_t root = instance->root, middle = instance->communicator->first_dumps;
    uint32_t end = instance->communicator->dump_count;
    if (flow == FLOW_ALL) {
        add_for_last(waits, instance, WAIT_AT_NXN, find_latest_of(instance, 0, middle, NOWHERE), middle, end);
        add_for_last(waits, instance, WAIT_AT_NXN, find_latest_of(instance, middle, end, NOWHERE), 0, middle);
        return;
    }
    if (!has_root(instance))
        return;
    bool first = root < middle; /* the root's group */
    uint32_t from = first ? middle : 0, to = first ? end : middle;
    if (flow == FLOW_FROM_ROOT) {
        add_for_last(waits, instance, WAIT_LATE_BROADCAST, (struct latest){root, NOWHERE}, from, to);
    } else if (flow == FLOW_TO_ROOT) {
        add_early_reduce(waits, instance, from, to);
        add_for_last(waits, instance, WAIT_AT_NX1, find_latest_of(instance, from, to, NOWHERE), root, root + 1);
    }
}

static void add_waits(struct waits *waits, const struct match_instance *instance, enum flow flow) {
    if (instance->communicator->kind == COMMUNICATOR_INTER)
        add_between_groups(waits, instance, flow);
    else if (instance->seen < 2)
        return;
    else if (flow == FLOW_ALL)
        add_for_last(waits, instance, instance->communicator->kind == COMMUNICATOR_WINDOW ? WAIT_AT_FENCE : WAIT_AT_NXN,
                     find_latest(instance, NOWHERE), 0, instance->communicator->dump_count);
    else if (flow == FLOW_PREFIX)
        add_scan(waits, instance);
    else if (flow == FLOW_NEIGHBOURS)
        add_among_neighbours(waits, instance);
    else if (flow == FLOW_FROM_ROOT && has_root(instance))
        add_from_root(waits, instance);
    else if (flow == FLOW_TO_ROOT && has_root(instance))
        add_to_root(waits, instance);
}

/* Where members were away from the library each one waits for somebody of its own: for who was back last before it was
 * done, or came last. */
static void add_where_away(struct waits *waits, const struct match_instance *instance, enum flow flow) {
    uint32_t members = instance->communicator->dump_count;
    enum wait_state state = flow == FLOW_FROM_ROOT ? WAIT_LATE_BROADCAST
                            : flow == FLOW_TO_ROOT ? WAIT_AT_NX1
                                                   : WAIT_AT_NXN;
    struct latest latest =
        flow == FLOW_FROM_ROOT ? (struct latest){instance->root, NOWHERE} : find_latest(instance, NOWHERE);
    struct match_instance seen = *instance;
    if (!grow_to(waits->members, waits->member_room, members)) {
        waits->no_memory = true;
        return;
    }
    memcpy(waits->members, instance->members, members * sizeof *waits->members);
    seen.members = waits->members;
    for (uint32_t i = 0; i < members; i++) {
        struct match_away_cause away = match_away_cause(&waits->away, instance, flow, i);
        int64_t came = instance->members[latest.last].enter;
        if (away.member != NOWHERE && away.back > came) {
            struct match_member *late = &waits->members[away.member], as_posted = *late;
            late->enter = away.back;
            late->stack = match_member_waited_at(late);
            charge_member(waits, &seen, state, i, away.member,
                          away.back - (away.previous > came ? away.previous : came));
            *late = as_posted;
        } else if (flow != FLOW_TO_ROOT || i == instance->root) {
            charge_member(waits, instance, state, i, latest.last, lead_of(waits, instance, latest));
        }
    }
    note_last_sources(waits, instance);
}

/* ---- times in collectives -------------------------------------------------------------------- */

/* What all members' times in one instance are compared with. */
struct instance_times {
    enum flow flow;
    int64_t shortest;    /* time of any member */
    uint32_t first_left; /* member */
    int64_t came[2];     /* last entry of those that the first and the second group need; without groups the same */
    int64_t lower;       /* last entry of the lower ranks, while members are gone through in order */
};

static struct instance_times find_times(const struct match_instance *instance, enum flow flow) {
    const struct match_communicator *communicator = instance->communicator;
    bool inter = communicator->kind == COMMUNICATOR_INTER, rooted = flow == FLOW_TO_ROOT && has_root(instance);
    struct instance_times times = {flow, INT64_MAX, NOWHERE, {-NS_MOST, -NS_MOST}, -NS_MOST};
    for (uint32_t i = 0; i < communicator->dump_count; i++) {
        const struct match_member *member = &instance->members[i];
        if (member->enter == MATCH_ABSENT || member->bystander)
            continue;
        if (member->leave - member->enter < times.shortest)
            times.shortest = member->leave - member->enter;
        if (times.first_left == NOWHERE || member->leave < instance->members[times.first_left].leave)
            times.first_left = i;
        if (rooted && i == instance->root)
            continue;
        for (unsigned group = 0; group < 2; group++)
            if (member->enter > times.came[group] && (!inter || (i < communicator->first_dumps) == (group == 1)))
                times.came[group] = member->enter;
    }
    return times;
}

/* When the last one that member i needs had come; its own entry where it needs nobody. */
static int64_t ready_at(const struct instance_times *times, const struct match_instance *instance, uint32_t i) {
    int64_t own = instance->members[i].enter, needed = own;
    if (times->flow == FLOW_ALL || (times->flow == FLOW_TO_ROOT && i == instance->root))
        needed = times->came[i >= instance->communicator->first_dumps];
    else if (times->flow == FLOW_FROM_ROOT && has_root(instance))
        needed = instance->members[instance->root].enter;
    else if (times->flow == FLOW_PREFIX)
        needed = times->lower;
    return needed > own ? needed : own;
}

/* N to N: how long member i was still in it after the first one had left. */
static int64_t completion_of(const struct waits *waits, const struct instance_times *times,
                             const struct match_instance *instance, uint32_t i) {
    const struct match_member *member = &instance->members[i];
    int64_t first = instance->members[times->first_left].leave, since = blocked_since(member);
    int64_t length = member->leave - (first > since ? first : since);
    if (times->flow != FLOW_ALL || length <= 0 || length <= error_between(waits, instance, i, times->first_left))
        return 0;
    return length;
}

/* That one record of a member stands for; members that ran something else are told elsewhere. */
static uint32_t operations_of(const struct match_instance *instance) {
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++)
        if (instance->members[i].enter != MATCH_ABSENT && instance->members[i].parts > 1)
            return instance->members[i].parts;
    return 1;
}

/* What members spend in the collective. The waits are taken out of `transfer_ns` afterwards (charge). */
static void add_times(struct waits *waits, const struct match_instance *instance, enum flow flow) {
    struct instance_times times = find_times(instance, flow);
    const uint32_t operations = operations_of(instance);
    struct transfer sums = {
        .key = {.communicator = (uint32_t)(instance->communicator - waits->directory->communicators),
                .call = instance->call,
                .device = instance->device,
                .bytes = instance->bytes == BYTES_UNKNOWN ? BYTES_UNKNOWN : instance->bytes / operations},
        .collectives = operations,
        .least_ns = INT64_MAX};
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        const struct match_member *member = &instance->members[i];
        if (member->enter == MATCH_ABSENT || member->bystander)
            continue;
        struct rank_waits *rank = &waits->ranks[instance->communicator->dump_of[i]];
        int64_t completion = completion_of(waits, &times, instance, i), ready = ready_at(&times, instance, i);
        int64_t transfer = member->leave > ready ? member->leave - ready : 0;
        rank->deepspeed_ns = add_ns(rank->deepspeed_ns, member->leave - member->enter - times.shortest);
        rank->transfer_ns = add_ns(rank->transfer_ns, member->leave - blocked_since(member));
        rank->completion_ns = add_ns(rank->completion_ns, completion);
        wall_times_add(&waits->wall, instance->communicator->dump_of[i], WALL_COLLECTIVE, blocked_since(member),
                       member->leave);
        sums.members += operations;
        sums.wait_ns = add_ns(sums.wait_ns, (member->leave < ready ? member->leave : ready) - member->enter);
        sums.transfer_ns = add_ns(sums.transfer_ns, transfer);
        sums.own_members += member->share ? 0 : operations;
        sums.own_ns = add_ns(sums.own_ns, member->share ? 0 : transfer);
        sums.completion_ns = add_ns(sums.completion_ns, completion);
        sums.least_ns = transfer < sums.least_ns ? transfer : sums.least_ns;
        sums.most_ns = transfer > sums.most_ns ? transfer : sums.most_ns;
        times.lower = member->enter > times.lower ? member->enter : times.lower;
    }
    bool all_seen = instance->communicator->dump_count == instance->communicator->size; /* else who came last? */
    if (all_seen && sums.members > 0 && flow != FLOW_NONE && flow != FLOW_NEIGHBOURS)
        transfers_add(&waits->transfers, &sums);
}

/* ---- mismatches ------------------------------------------------------------------------------ */

static bool earlier_mismatch(const struct first_mismatch *a, const struct first_mismatch *b) {
    if (a->enter_ns != b->enter_ns)
        return a->enter_ns < b->enter_ns;
    if (a->communicator->uid != b->communicator->uid)
        return a->communicator->uid < b->communicator->uid;
    return a->seq < b->seq;
}

static void note_mismatch(struct waits *waits, const struct first_mismatch *mismatch) {
    if (mismatch->any && (!waits->mismatch.any || earlier_mismatch(mismatch, &waits->mismatch)))
        waits->mismatch = *mismatch;
}

static void add_mismatch(struct waits *waits, const struct match_instance *instance) {
    struct first_mismatch mismatch = {.any = true,
                                      .enter_ns = INT64_MAX,
                                      .communicator = instance->communicator,
                                      .seq = instance->seq,
                                      .others = instance->others,
                                      .seen = instance->seen,
                                      .other_position = instance->other_position,
                                      .call = instance->call,
                                      .other_call = instance->other_call,
                                      .dump = SIZE_MAX,
                                      .other_dump = instance->communicator->dump_of[instance->other_position],
                                      .other_stack = instance->members[instance->other_position].stack};
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        const struct match_member *member = &instance->members[i];
        if (member->enter == MATCH_ABSENT)
            continue;
        if (member->enter < mismatch.enter_ns)
            mismatch.enter_ns = member->enter;
        if (mismatch.dump == SIZE_MAX && member->call == instance->call) {
            mismatch.dump = instance->communicator->dump_of[i];
            mismatch.stack = member->stack;
        }
    }
    note_mismatch(waits, &mismatch);
}

void waits_add(struct waits *waits, const struct match_instance *instance) {
    if (instance->others > 0) {
        add_mismatch(waits, instance);
        return;
    }
    if (!instance->complete || instance->call == CALL_UNKNOWN)
        return;
    const struct call_name *call = waits->directory->calls[instance->call].name;
    bool collective = call->call_class == CLASS_COLLECTIVE || call->call_class == CLASS_GROUP;
    if (!collective && call->call_class != CLASS_RMA_SYNC && !call_makes_communicator(call))
        return;
    enum flow flow = match_instance_flow(instance, call);
    if (!collective && flow == FLOW_NONE) /* who needs whom in it is not known */
        return;
    waits->judged++;
    add_times(waits, instance, flow);
    waits->no_memory |= !match_away_list(&waits->away, instance, flow);
    if (waits->away.count > 0)
        add_where_away(waits, instance, flow);
    else
        add_waits(waits, instance, flow);
    struct latest latest = find_latest(instance, NOWHERE);
    if (waits->listener.met && latest.last != NOWHERE && flow != FLOW_NEIGHBOURS)
        waits->listener.met(waits->listener.context, instance->members[latest.last].enter,
                            instance->communicator->uid | 1);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* What one side of a message waited for the other. */
static int64_t message_wait(struct waits *waits, const struct match_member *waiting, const struct match_member *late,
                            uint32_t dump, uint32_t late_dump, bool device) {
    int64_t wait = (late->enter < waiting->leave ? late->enter : waiting->leave) - blocked_since(waiting);
    return resolve_wait(waits, dump, blocked_since(waiting), wait,
                        clocks_error(waits, dump, waiting, late_dump, late, device));
}

static void charge_message(struct waits *waits, enum wait_state state, const struct waiting_pair *pair, int64_t until,
                           int64_t length, int64_t imposed) {
    struct link_waits_row row = {.key = {pair->cause, pair->dump}, .late_sender_ns = length};
    if (state == WAIT_LATE_RECEIVER)
        row = (struct link_waits_row){.key = {pair->dump, pair->cause}, .late_receiver_ns = length};
    if (state == WAIT_LATE_SENDER || state == WAIT_LATE_RECEIVER)
        link_waits_add(&waits->links, &row);
    add_single_wait(waits, pair, state,
                    &(struct told_wait){.dump = pair->dump,
                                        .lane = pair->lane,
                                        .cause = pair->cause,
                                        .until = until,
                                        .length = length,
                                        .imposed = imposed,
                                        .channel = channel_of(pair->dump, pair->cause)});
}

/* A Wait call that several receives completed in, a group of sends and receives on a GPU, or a call that needed several
 * partners of an epoch; who came last is known when no more of them can turn up. */
struct receive_wait {
    enum wait_state state;
    int64_t since, until;
    int64_t second; /* until when it would have waited without the one that came last */
    struct waiting_pair pair;
};
enum { RECEIVE_WAITS = 64 }; /* kept per rank: messages are paired within a few hundred records */
struct receive_waits {
    struct receive_wait items[RECEIVE_WAITS]; /* a ring */
    uint32_t count, next;
};

static void settle_receive_wait(struct waits *waits, const struct receive_wait *wait) {
    charge_message(waits, wait->state, &wait->pair, wait->until, wait->until - wait->since, wait->until - wait->second);
}

/* Sends and receives of a group end together. */
static bool is_same_wait(const struct receive_wait *wait, enum wait_state state, int64_t since) {
    bool messages = (wait->state == WAIT_LATE_SENDER || wait->state == WAIT_LATE_RECEIVER) &&
                    (state == WAIT_LATE_SENDER || state == WAIT_LATE_RECEIVER);
    return wait->since == since && (wait->state == state || messages);
}

/* Whether that one ended the wait, and not the one noted so far: in whatever order they turn up, the same one does. */
static bool came_later(const struct receive_wait *wait, enum wait_state state, uint32_t cause, int64_t until) {
    if (until != wait->until)
        return until > wait->until;
    return cause != wait->pair.cause ? cause < wait->pair.cause : state < wait->state;
}

static void note_receive_wait(struct waits *waits, enum wait_state state, const struct waiting_pair *pair,
                              int64_t since, int64_t until) {
    struct receive_waits **receiving = &waits->receiving[pair->dump];
    if (!*receiving)
        *receiving = calloc(1, sizeof **receiving);
    if (!*receiving) {
        waits->no_memory = true;
        return;
    }
    struct receive_wait *items = (*receiving)->items;
    for (uint32_t i = 0; i < (*receiving)->count; i++) {
        if (!is_same_wait(&items[i], state, since))
            continue;
        bool later = came_later(&items[i], state, pair->cause, until);
        int64_t second = later ? items[i].until : until;
        if (pair->cause != items[i].pair.cause && second > items[i].second)
            items[i].second = second;
        if (later) {
            items[i].until = until;
            items[i].pair = *pair;
            items[i].state = state;
        }
        return;
    }
    struct receive_wait *place = &items[(*receiving)->next];
    if ((*receiving)->count == RECEIVE_WAITS)
        settle_receive_wait(waits, place);
    else
        (*receiving)->count++;
    (*receiving)->next = ((*receiving)->next + 1) % RECEIVE_WAITS;
    *place = (struct receive_wait){.state = state, .since = since, .until = until, .second = since, .pair = *pair};
}

void waits_finish(struct waits *waits) {
    for (size_t d = 0; d < waits->directory->dump_count; d++) {
        struct receive_waits *receiving = waits->receiving[d];
        for (uint32_t i = 0; receiving && i < receiving->count; i++)
            settle_receive_wait(waits, &receiving->items[i]);
        free(receiving);
        waits->receiving[d] = NULL;
    }
}

/* Whether a send's time is its own, so that it can tell of waiting for the receiver. */
static bool sends_alone(const struct waits *waits, const struct match_member *send) {
    return !send->shared && send->call != CALL_UNKNOWN &&
           waits->directory->calls[send->call].name->call_class != CLASS_SENDRECV;
}

void waits_add_message(struct waits *waits, const struct match_message *message) {
    const struct match_member *send = &message->send, *receive = &message->receive;
    uint32_t from = message->from_dump, to = message->to_dump;
    waits->messages++;
    uint64_t bytes = message->bytes == BYTES_UNKNOWN ? 0 : message->bytes;
    link_waits_add(&waits->links, &(struct link_waits_row){.key = {from, to}, .messages = 1, .bytes = bytes});
    struct match_member left = *send;
    if (message_end_was_needed(send, receive)) {
        left.enter = send->wait;
        left.stack = match_member_waited_at(send);
    }
    int64_t since = blocked_since(receive);
    int64_t wait = receive->in_collective ? 0 : message_wait(waits, receive, &left, to, from, message->device);
    struct waiting_pair late_sender = {to, from, match_member_waited_at(receive), left.stack, receive->lane};
    if (wait > 0 && receive->shared)
        note_receive_wait(waits, WAIT_LATE_SENDER, &late_sender, since, since + wait);
    else if (wait > 0)
        charge_message(waits, WAIT_LATE_SENDER, &late_sender, since + wait, wait, wait);
    if (waits->listener.met)
        waits->listener.met(waits->listener.context, left.enter > receive->enter ? left.enter : receive->enter,
                            channel_of(from, to));
    struct match_member came = *receive;
    bool held = message_send_was_held(send, receive) || message->released != MATCH_ABSENT;
    if (held)
        came.enter = message->released != MATCH_ABSENT ? message->released : receive->before;
    bool rendezvous = message->synchronous || held || send->leave > receive->enter;
    wait = rendezvous && sends_alone(waits, send) ? message_wait(waits, send, &came, from, to, message->device) : 0;
    if (wait > 0)
        charge_message(waits, WAIT_LATE_RECEIVER,
                       &(struct waiting_pair){from, to, match_member_waited_at(send), receive->stack, send->lane},
                       blocked_since(send) + wait, wait, wait);
}

/* A group is over when all of it is: what it waited for one receiver that came after it, no longer than until all was
 * over, it may have waited for another, or for a sender. */
void waits_add_sent(struct waits *waits, const struct match_message *message) {
    const struct match_member *send = &message->send, *receive = &message->receive;
    uint32_t from = message->from_dump, to = message->to_dump;
    int64_t came = message->released != MATCH_ABSENT ? message->released : receive->enter;
    bool rendezvous = message->released != MATCH_ABSENT || send->leave > came;
    if (!message->device || !send->shared || send->in_collective || !rendezvous)
        return;
    came = came < send->leave ? came : send->leave;
    if (came - send->enter <= clocks_error(waits, from, send, to, receive, true)) /* counted with what it receives */
        return;
    struct waiting_pair pair = {from, to, send->stack, receive->stack, send->lane};
    note_receive_wait(waits, WAIT_LATE_RECEIVER, &pair, send->enter, came);
}

/* Who left before the other one came did not need it. */
void waits_add_epoch(struct waits *waits, const struct match_message *need) {
    const struct match_member *waiting = &need->receive, *late = &need->send;
    uint32_t from = need->from_dump, to = need->to_dump;
    enum wait_state state = need->tag == EPOCH_COMPLETE_TO_WAIT ? WAIT_EARLY_WAIT : WAIT_LATE_POST;
    waits->judged++;
    int64_t wait = waiting->leave >= late->enter ? message_wait(waits, waiting, late, to, from, false) : 0;
    struct waiting_pair pair = {to, from, waiting->stack, late->stack, waiting->lane};
    if (wait > 0 && waiting->shared)
        note_receive_wait(waits, state, &pair, waiting->enter, waiting->enter + wait);
    else if (wait > 0)
        charge_message(waits, state, &pair, waiting->enter + wait, wait, wait);
    if (waits->listener.met)
        waits->listener.met(waits->listener.context, late->enter > waiting->enter ? late->enter : waiting->enter,
                            channel_of(from, to));
}

/* ---- several workers ------------------------------------------------------------------------- */

static void add_rank_waits(struct rank_waits *sum, const struct rank_waits *part) {
    sum->wait_ns = add_ns(sum->wait_ns, part->wait_ns);
    for (unsigned s = 0; s < WAIT_STATES; s++)
        sum->states_ns[s] = add_ns(sum->states_ns[s], part->states_ns[s]);
    sum->unresolved_ns = add_ns(sum->unresolved_ns, part->unresolved_ns);
    sum->early_reduce_ns = add_ns(sum->early_reduce_ns, part->early_reduce_ns);
    sum->transfer_ns = add_ns(sum->transfer_ns, part->transfer_ns);
    sum->completion_ns = add_ns(sum->completion_ns, part->completion_ns);
    sum->imposed_ns = add_ns(sum->imposed_ns, part->imposed_ns);
    sum->waited_for_ns = add_ns(sum->waited_for_ns, part->waited_for_ns);
    sum->mended_ns = add_ns(sum->mended_ns, part->mended_ns);
    sum->deepspeed_ns = add_ns(sum->deepspeed_ns, part->deepspeed_ns);
    keep_longest(&sum->longest, &part->longest);
    sum->last += part->last;
}

void waits_merge(struct waits *into, const struct waits *from) {
    for (size_t d = 0; d < into->directory->dump_count; d++)
        add_rank_waits(&into->ranks[d], &from->ranks[d]);
    site_waits_merge(&into->sites, &from->sites);
    link_waits_merge(&into->links, &from->links);
    transfers_merge(&into->transfers, &from->transfers);
    wall_times_merge(&into->wall, &from->wall);
    into->judged += from->judged;
    into->messages += from->messages;
    into->no_memory |= from->no_memory || into->sites.no_memory || into->links.no_memory || into->transfers.no_memory ||
                       into->wall.no_memory;
    note_mismatch(into, &from->mismatch);
}

/* ---- several processes ----------------------------------------------------------------------- */

static void mismatch_parcel(struct waits *waits, struct parcel *parcel) {
    const struct match_directory *directory = waits->directory;
    struct first_mismatch mismatch = waits->mismatch;
    if (!parcel_is_there(parcel, mismatch.any))
        return;
    uint32_t index = parcel->packs ? (uint32_t)(mismatch.communicator - directory->communicators) : 0;
    mismatch.communicator = NULL;
    parcel_field(parcel, &index);
    parcel_field(parcel, &mismatch);
    if (index >= directory->communicator_count)
        parcel->failed = true;
    if (parcel->failed)
        return;
    mismatch.any = true;
    mismatch.communicator = &directory->communicators[index];
    waits->mismatch = mismatch;
}

static void receiving_parcel(struct receive_waits **receiving, struct parcel *parcel) {
    if (!parcel_is_there(parcel, *receiving != NULL))
        return;
    if (!*receiving)
        *receiving = calloc(1, sizeof **receiving);
    if (!*receiving) {
        parcel->failed = true;
        return;
    }
    struct receive_waits *waits = *receiving;
    parcel_field(parcel, &waits->count);
    parcel_field(parcel, &waits->next);
    if (waits->count > RECEIVE_WAITS || waits->next >= RECEIVE_WAITS) {
        *waits = (struct receive_waits){0};
        parcel->failed = true;
    }
    parcel_bytes(parcel, waits->items, waits->count * sizeof *waits->items);
}

void waits_parcel(struct waits *waits, struct parcel *parcel) {
    parcel_items(parcel, waits->ranks, waits->directory->dump_count, sizeof *waits->ranks);
    site_waits_parcel(&waits->sites, parcel);
    link_waits_parcel(&waits->links, parcel);
    wall_times_parcel(&waits->wall, parcel);
    transfers_parcel(&waits->transfers, parcel);
    for (size_t d = 0; d < waits->directory->dump_count; d++)
        receiving_parcel(&waits->receiving[d], parcel);
    parcel_field(parcel, &waits->judged);
    parcel_field(parcel, &waits->messages);
    mismatch_parcel(waits, parcel);
    parcel_flag(parcel, &waits->no_memory);
}

void waits_measure_wall(struct waits *waits, size_t dump, int64_t comm_ns) {
    struct rank_waits *rank = &waits->ranks[dump];
    struct wall_sums sums;
    if (wall_times_sum(&waits->wall, dump, &sums)) {
        rank->wall_wait_ns = sums.wait_ns;
        rank->wall_transfer_ns = sums.transfer_ns;
        return;
    }
    rank->wall_wait_ns = rank->wait_ns < comm_ns ? rank->wait_ns : comm_ns;
    int64_t rest = comm_ns - rank->wall_wait_ns;
    rank->wall_transfer_ns = rank->transfer_ns < rest ? rank->transfer_ns : rest;
}
