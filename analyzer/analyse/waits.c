/* SPDX-License-Identifier: Apache-2.0
 *
 * What late arrivals cost.
 * Lives here: one matched collective's waits, by how its data flows.
 * Must not live here: matching, verdicts.
 */
#include "analyzer/analyse/waits.h"

#include <stdlib.h>

bool waits_init(struct waits *waits, const struct common_clock *clock, const struct match_directory *directory) {
    *waits = (struct waits){.clock = clock, .directory = directory};
    waits->ranks = calloc(directory->dump_count, sizeof *waits->ranks);
    return waits->ranks != NULL;
}

void waits_free(struct waits *waits) {
    free(waits->ranks);
    waits->ranks = NULL;
    site_waits_free(&waits->sites);
}

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

static int64_t error_between(const struct waits *waits, const struct match_instance *instance, uint32_t a, uint32_t b) {
    size_t dump_a = instance->communicator->dump_of[a], dump_b = instance->communicator->dump_of[b];
    int64_t error = common_clock_error(waits->clock, dump_a, dump_b);
    if (!instance->device || error == CLOCK_ERROR_UNKNOWN)
        return error;
    return add_ns(error, waits->clock->device_error[dump_a] + waits->clock->device_error[dump_b]);
}

/* How long member i waited for member `cause`, 0 where the clocks cannot tell. */
static int64_t wait_for(const struct waits *waits, const struct match_instance *instance, uint32_t i, uint32_t cause) {
    const struct match_member *member = &instance->members[i];
    int64_t until = instance->members[cause].enter < member->leave ? instance->members[cause].enter : member->leave;
    int64_t wait = until - (member->wait > member->enter ? member->wait : member->enter);
    return wait > 0 && wait > error_between(waits, instance, i, cause) ? wait : 0;
}

/* Adds what `cause` made the members in [from, to) wait; returns the sum and the longest. */
static int64_t charge(struct waits *waits, const struct match_instance *instance, uint32_t cause, uint32_t from,
                      uint32_t to, int64_t *longest) {
    int64_t sum = 0;
    const uint32_t *dump_of = instance->communicator->dump_of;
    for (uint32_t i = from; i < to; i++) {
        if (i == cause || instance->members[i].enter == MATCH_ABSENT)
            continue;
        int64_t wait = wait_for(waits, instance, i, cause);
        waits->ranks[dump_of[i]].wait_ns = add_ns(waits->ranks[dump_of[i]].wait_ns, wait);
        site_waits_add(&waits->sites, dump_of[i], instance->members[i].stack, wait, 0);
        if (wait > 0 && waits->listener.wait) {
            int64_t until = instance->members[cause].enter < instance->members[i].leave ? instance->members[cause].enter
                                                                                        : instance->members[i].leave;
            waits->listener.wait(waits->listener.context, dump_of[i], dump_of[cause], until, wait,
                                 instance->communicator->uid | 1);
        }
        sum = add_ns(sum, wait);
        if (wait > *longest)
            *longest = wait;
    }
    waits->ranks[dump_of[cause]].waited_for_ns = add_ns(waits->ranks[dump_of[cause]].waited_for_ns, sum);
    site_waits_add(&waits->sites, dump_of[cause], instance->members[cause].stack, 0, sum);
    return sum;
}

/* Adds the imposed wait of the last arriver; `waiters` are those who cannot go on without it. */
static void impose(struct waits *waits, const struct match_instance *instance, struct latest latest, int64_t waiters,
                   int64_t waited, int64_t longest) {
    if (waited == 0)
        return;
    struct rank_waits *culprit = &waits->ranks[instance->communicator->dump_of[latest.last]];
    int64_t late = instance->members[latest.last].enter - instance->members[latest.second].enter;
    culprit->last++;
    if (late <= error_between(waits, instance, latest.last, latest.second))
        return;
    int64_t imposed = late > waited / waiters ? waited : late * waiters;
    imposed = imposed < waited ? imposed : waited;
    if (waits->listener.imposed)
        waits->listener.imposed(waits->listener.context, imposed);
    culprit->imposed_ns = add_ns(culprit->imposed_ns, imposed);
    culprit->mended_ns = add_ns(culprit->mended_ns, late < longest ? late : longest);
}

static void add_all_to_all(struct waits *waits, const struct match_instance *instance) {
    struct latest latest = find_latest(instance, NOWHERE);
    if (latest.second == NOWHERE)
        return;
    int64_t longest = 0;
    int64_t waited = charge(waits, instance, latest.last, 0, instance->communicator->dump_count, &longest);
    impose(waits, instance, latest, (int64_t)instance->seen - 1, waited, longest);
}

static bool has_root(const struct match_instance *instance) {
    return instance->root != NOWHERE && instance->members[instance->root].enter != MATCH_ABSENT;
}

static void add_from_root(struct waits *waits, const struct match_instance *instance) {
    if (!has_root(instance) || instance->seen < 2)
        return;
    uint32_t root = instance->root;
    int64_t longest = 0;
    int64_t waited = charge(waits, instance, root, 0, instance->communicator->dump_count, &longest);
    struct latest latest = find_latest(instance, NOWHERE);
    if (latest.last == root)
        impose(waits, instance, latest, (int64_t)instance->seen - 1, waited, longest);
}

static void add_to_root(struct waits *waits, const struct match_instance *instance) {
    if (!has_root(instance) || instance->seen < 2)
        return;
    uint32_t root = instance->root;
    uint32_t cause = find_latest(instance, root).last;
    int64_t longest = 0;
    int64_t waited = charge(waits, instance, cause, root, root + 1, &longest);
    impose(waits, instance, find_latest(instance, NOWHERE), 1, waited, longest);
}

/* ---- intercommunicators: a group waits for the other one (MPI 4.0, 6.2.3) ---------------------- */

/* Members in [from, to) waited for the last one of a group, `latest.last`. Had it come with the group's second last,
 * they would have waited less by that; where the group has no second, not at all. */
static void add_group_waits(struct waits *waits, const struct match_instance *instance, struct latest latest,
                            uint32_t from, uint32_t to) {
    if (latest.last == NOWHERE)
        return;
    int64_t longest = 0, imposed = 0, late = INT64_MAX;
    int64_t waited = charge(waits, instance, latest.last, from, to, &longest);
    if (waited == 0)
        return;
    struct rank_waits *culprit = &waits->ranks[instance->communicator->dump_of[latest.last]];
    culprit->last++;
    if (latest.second != NOWHERE) {
        late = instance->members[latest.last].enter - instance->members[latest.second].enter;
        if (late <= error_between(waits, instance, latest.last, latest.second))
            return;
    }
    for (uint32_t i = from; i < to; i++) {
        if (instance->members[i].enter == MATCH_ABSENT)
            continue;
        int64_t wait = wait_for(waits, instance, i, latest.last);
        imposed = add_ns(imposed, wait < late ? wait : late);
    }
    if (waits->listener.imposed)
        waits->listener.imposed(waits->listener.context, imposed);
    culprit->imposed_ns = add_ns(culprit->imposed_ns, imposed);
    culprit->mended_ns = add_ns(culprit->mended_ns, late < longest ? late : longest);
}

static void add_between_groups(struct waits *waits, const struct match_instance *instance, enum flow flow) {
    uint32_t root = instance->root, middle = instance->communicator->first_dumps;
    uint32_t end = instance->communicator->dump_count;
    if (flow == FLOW_ALL) {
        add_group_waits(waits, instance, find_latest_of(instance, 0, middle, NOWHERE), middle, end);
        add_group_waits(waits, instance, find_latest_of(instance, middle, end, NOWHERE), 0, middle);
        return;
    }
    if (!has_root(instance))
        return;
    bool first = root < middle; /* the root's group */
    uint32_t from = first ? middle : 0, to = first ? end : middle;
    if (flow == FLOW_FROM_ROOT)
        add_group_waits(waits, instance, (struct latest){root, NOWHERE}, from, to);
    else if (flow == FLOW_TO_ROOT)
        add_group_waits(waits, instance, find_latest_of(instance, from, to, NOWHERE), root, root + 1);
}

static void add_deepspeed(struct waits *waits, const struct match_instance *instance) {
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        const struct match_member *member = &instance->members[i];
        if (member->enter != MATCH_ABSENT && !member->bystander && member->leave - member->enter < least)
            least = member->leave - member->enter;
    }
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        const struct match_member *member = &instance->members[i];
        if (member->enter == MATCH_ABSENT || member->bystander)
            continue;
        struct rank_waits *rank = &waits->ranks[instance->communicator->dump_of[i]];
        rank->deepspeed_ns = add_ns(rank->deepspeed_ns, member->leave - member->enter - least);
    }
}

static bool earlier(const struct first_mismatch *a, const struct first_mismatch *b) {
    if (a->enter_ns != b->enter_ns)
        return a->enter_ns < b->enter_ns;
    if (a->communicator->uid != b->communicator->uid)
        return a->communicator->uid < b->communicator->uid;
    return a->seq < b->seq;
}

static void note_mismatch(struct waits *waits, const struct first_mismatch *mismatch) {
    if (mismatch->any && (!waits->mismatch.any || earlier(mismatch, &waits->mismatch)))
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
    bool group = call->call_class == CLASS_GROUP; /* of NCCL operations that all end together */
    if (call->call_class != CLASS_COLLECTIVE && call->call_class != CLASS_RMA_SYNC && !group)
        return;
    waits->judged++;
    add_deepspeed(waits, instance);
    if (instance->communicator->kind == COMMUNICATOR_INTER)
        add_between_groups(waits, instance, (enum flow)call->flow);
    else if (call->flow == FLOW_ALL || group)
        add_all_to_all(waits, instance);
    else if (call->flow == FLOW_FROM_ROOT)
        add_from_root(waits, instance);
    else if (call->flow == FLOW_TO_ROOT)
        add_to_root(waits, instance);
    struct latest latest = find_latest(instance, NOWHERE);
    if (waits->listener.met && latest.last != NOWHERE)
        waits->listener.met(waits->listener.context, instance->members[latest.last].enter,
                            instance->communicator->uid | 1);
}

/* What one side of a message waited for the other. */
static int64_t message_wait(const struct waits *waits, const struct match_member *waiting,
                            const struct match_member *late, uint32_t dump, uint32_t late_dump) {
    int64_t from = waiting->wait > waiting->enter ? waiting->wait : waiting->enter;
    int64_t wait = (late->enter < waiting->leave ? late->enter : waiting->leave) - from;
    return wait > 0 && wait > common_clock_error(waits->clock, dump, late_dump) ? wait : 0;
}

static uint64_t channel_of(uint32_t a, uint32_t b) {
    return (uint64_t)(a < b ? a : b) << 32 | (uint64_t)(a < b ? b : a) << 1; /* even: communicators' are odd */
}

static void charge_message(struct waits *waits, int64_t wait, uint32_t dump, const struct match_member *waiting,
                           uint32_t late_dump, const struct match_member *late) {
    int64_t until = late->enter < waiting->leave ? late->enter : waiting->leave;
    uint32_t stack = waiting->stack, late_stack = late->stack;
    struct rank_waits *victim = &waits->ranks[dump], *causer = &waits->ranks[late_dump];
    victim->wait_ns = add_ns(victim->wait_ns, wait);
    causer->waited_for_ns = add_ns(causer->waited_for_ns, wait);
    causer->imposed_ns = add_ns(causer->imposed_ns, wait);
    site_waits_add(&waits->sites, dump, stack, wait, 0);
    site_waits_add(&waits->sites, late_dump, late_stack, 0, wait);
    if (waits->listener.wait)
        waits->listener.wait(waits->listener.context, dump, late_dump, until, wait, channel_of(dump, late_dump));
    if (waits->listener.imposed)
        waits->listener.imposed(waits->listener.context, wait);
}

void waits_add_message(struct waits *waits, const struct match_message *message) {
    const struct match_member *send = &message->send, *receive = &message->receive;
    uint32_t from = message->from_dump, to = message->to_dump;
    waits->messages++;
    int64_t wait = message_wait(waits, receive, send, to, from);
    if (wait > 0) {
        waits->ranks[to].late_sender_ns = add_ns(waits->ranks[to].late_sender_ns, wait);
        charge_message(waits, wait, to, receive, from, send);
    }
    if (waits->listener.met)
        waits->listener.met(waits->listener.context, send->enter > receive->enter ? send->enter : receive->enter,
                            channel_of(from, to));
    if (!message->synchronous && send->leave <= receive->enter) /* sent without waiting for the receiver */
        return;
    wait = message_wait(waits, send, receive, from, to);
    if (wait > 0) {
        waits->ranks[from].late_receiver_ns = add_ns(waits->ranks[from].late_receiver_ns, wait);
        charge_message(waits, wait, from, send, to, receive);
    }
}

void waits_merge(struct waits *into, const struct waits *from) {
    for (size_t d = 0; d < into->directory->dump_count; d++) {
        struct rank_waits *sum = &into->ranks[d];
        const struct rank_waits *part = &from->ranks[d];
        sum->wait_ns = add_ns(sum->wait_ns, part->wait_ns);
        sum->imposed_ns = add_ns(sum->imposed_ns, part->imposed_ns);
        sum->waited_for_ns = add_ns(sum->waited_for_ns, part->waited_for_ns);
        sum->mended_ns = add_ns(sum->mended_ns, part->mended_ns);
        sum->deepspeed_ns = add_ns(sum->deepspeed_ns, part->deepspeed_ns);
        sum->late_sender_ns = add_ns(sum->late_sender_ns, part->late_sender_ns);
        sum->late_receiver_ns = add_ns(sum->late_receiver_ns, part->late_receiver_ns);
        sum->last += part->last;
    }
    site_waits_merge(&into->sites, &from->sites);
    into->judged += from->judged;
    into->messages += from->messages;
    note_mismatch(into, &from->mismatch);
}
