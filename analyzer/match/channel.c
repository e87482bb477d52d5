/* SPDX-License-Identifier: Apache-2.0
 *
 * The open instances of one communicator, as one worker sees them.
 * Lives here: slots by sequence number, growth, closing.
 * Must not live here: records, threads, order between communicators.
 */
#include "analyzer/match/channel.h"

#include <stdlib.h>
#include <string.h>

static uint32_t reach_of_members(uint32_t members) {
    uint32_t reach = CHANNEL_REACH_MAX;
    while (reach > CHANNEL_REACH_MIN && (uint64_t)reach * members > CHANNEL_CELLS)
        reach /= 2;
    return reach;
}

void channel_init(struct channel *channel, const struct match_communicator *communicator) {
    *channel = (struct channel){.communicator = communicator, .reach = reach_of_members(communicator->dump_count)};
}

void channel_free(struct channel *channel) {
    free(channel->slots);
    free(channel->members);
    channel->slots = NULL;
    channel->members = NULL;
}

/* The worker's own count of numbers before `seq`, rounded to its blocks. */
static uint32_t local_number(uint32_t seq, unsigned workers) {
    const uint32_t in_block = (1u << CHANNEL_BLOCK_SHIFT) - 1;
    return ((seq >> CHANNEL_BLOCK_SHIFT) / workers) << CHANNEL_BLOCK_SHIFT | (seq & in_block);
}

static size_t slot_of(const struct channel *channel, uint32_t seq, unsigned workers) {
    return local_number(seq, workers) & (channel->capacity - 1);
}

static struct match_member *members_of(const struct channel *channel, size_t slot) {
    return channel->members + slot * channel->communicator->dump_count;
}

static void deliver(struct channel *channel, const struct channel_owner *owner, size_t at) {
    struct channel_slot *slot = &channel->slots[at];
    struct match_instance instance = {
        .communicator = channel->communicator,
        .seq = channel->started ? channel->start_of : slot->seq,
        .start = channel->started ? slot->seq : 0,
        .call = slot->call,
        .complete = slot->seen == channel->communicator->dump_count,
        .others = slot->others,
        .other_call = slot->other_call,
        .other_position = slot->other_position,
        .seen = slot->seen,
        .bytes = slot->bytes,
        .device = slot->device,
        .fence = slot->fence,
        .root = match_position_of(channel->communicator, slot->root),
        .members = members_of(channel, at),
    };
    struct match_totals *totals = owner->totals;
    totals->mismatches += instance.others > 0;
    totals->instances += instance.complete;
    totals->partial += !instance.complete;
    totals->matched += instance.complete ? instance.seen : 0;
    slot->seen = 0;
    if (owner->sink->instance)
        owner->sink->instance(owner->state, &instance);
}

static bool grow(struct channel *channel, unsigned workers) {
    struct channel old = *channel;
    uint32_t capacity = old.capacity ? old.capacity * 2 : CHANNEL_FIRST;
    channel->slots = calloc(capacity, sizeof *channel->slots);
    channel->members = malloc((size_t)capacity * old.communicator->dump_count * sizeof *channel->members);
    if (!channel->slots || !channel->members) {
        channel_free(channel);
        channel->slots = old.slots;
        channel->members = old.members;
        return false;
    }
    channel->capacity = capacity;
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.slots[i].seen == 0)
            continue;
        size_t at = slot_of(channel, old.slots[i].seq, workers);
        channel->slots[at] = old.slots[i];
        memcpy(members_of(channel, at), members_of(&old, i), old.communicator->dump_count * sizeof *old.members);
    }
    channel_free(&old);
    return true;
}

/* Makes the slot of `seq` its own: grows up to the reach, then closes the number that lies a whole reach behind. */
static bool take_slot(struct channel *channel, const struct channel_owner *owner, uint32_t seq, size_t *at) {
    while (channel->capacity == 0 ||
           (channel->slots[ *at = slot_of(channel, seq, owner->workers)].seen > 0 && channel->slots[*at].seq != seq)) {
        if ((uint64_t)channel->capacity * owner->workers >= channel->reach && channel->capacity > 0)
            deliver(channel, owner, *at);
        else if (!grow(channel, owner->workers))
            return false;
    }
    return true;
}

static void open_slot(struct channel *channel, size_t at, const struct channel_arrival *arrival) {
    channel->slots[at] = (struct channel_slot){.seq = arrival->seq,
                                               .call = arrival->call,
                                               .root = arrival->root,
                                               .bytes = arrival->bytes,
                                               .device = arrival->device,
                                               .fence = arrival->fence};
    struct match_member *members = members_of(channel, at);
    for (uint32_t i = 0; i < channel->communicator->dump_count; i++)
        members[i].enter = MATCH_ABSENT;
}

/* One member may group several operations that another starts one by one. */
static bool is_group(const struct channel_owner *owner, uint16_t call) {
    return call != CALL_UNKNOWN && owner->directory->calls[call].name->call_class == CLASS_GROUP;
}

static void compare_call(struct channel_slot *slot, const struct channel_owner *owner,
                         const struct channel_arrival *arrival) {
    uint16_t base = slot->call == CALL_UNKNOWN ? CALL_UNKNOWN : owner->directory->calls[slot->call].base;
    if (base == arrival->base || is_group(owner, slot->call) || is_group(owner, arrival->call))
        return;
    if (slot->others++ == 0) {
        slot->other_call = arrival->call;
        slot->other_position = arrival->position;
    }
}

bool channel_arrive(struct channel *channel, const struct channel_owner *owner, const struct channel_arrival *arrival) {
    size_t at = 0;
    if (channel->newest - arrival->seq >= channel->reach) {
        owner->totals->stale++;
        return true;
    }
    if (!take_slot(channel, owner, arrival->seq, &at))
        return false;
    struct channel_slot *slot = &channel->slots[at];
    if (slot->seen == 0)
        open_slot(channel, at, arrival);
    struct match_member *member = &members_of(channel, at)[arrival->position];
    if (member->enter != MATCH_ABSENT) {
        owner->totals->stale++;
        return true;
    }
    *member = arrival->member;
    compare_call(slot, owner, arrival);
    slot->fence &= arrival->fence;
    if (slot->root < 0)
        slot->root = arrival->root;
    if (arrival->bytes != BYTES_UNKNOWN && (slot->bytes == BYTES_UNKNOWN || arrival->bytes > slot->bytes))
        slot->bytes = arrival->bytes;
    if (++slot->seen == channel->communicator->dump_count)
        deliver(channel, owner, at);
    return true;
}

void channel_close(struct channel *channel, const struct channel_owner *owner) {
    for (size_t i = 0; i < channel->capacity; i++)
        if (channel->slots[i].seen > 0)
            deliver(channel, owner, i);
}
