/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/nccl_group_patterns.h"

#include "shim/base/os.h"
#include "shim/call.h"

#define PARTS_MAX 256u /* of one launch: a record has one byte for them */

static uint64_t partner(int32_t peer) {
    return hash_mix((uint64_t)(uint32_t)peer + 1);
}

static void note_message(struct group_pattern *pattern, const struct call_frame *f) {
    if (f->flags & FLAG_SEND) {
        pattern->sends++;
        pattern->sent_to += partner(f->peer);
        pattern->self |= f->peer_class == PEER_CLASS_SELF;
    } else {
        pattern->receives++;
        pattern->received_from += partner(f->peer);
    }
}

void group_pattern_note(struct group_pattern *pattern, uint32_t number, const struct call_frame *f) {
    if (f->flags & (FLAG_SEND | FLAG_RECV))
        note_message(pattern, f);
    else
        pattern->roots += partner(f->peer);
    if (number == 0) {
        pattern->one_call = f->id;
        pattern->one_bytes = f->bytes;
        pattern->one_dtype = f->dtype;
        pattern->one_redop = f->redop;
        pattern->one_peer = f->peer;
        pattern->one_stack = f->stack;
        pattern->own_rank = f->comm->rank;
        return;
    }
    pattern->other_call |= pattern->one_call != f->id || pattern->one_redop != f->redop;
    pattern->other_peer |= pattern->one_peer != f->peer;
    pattern->other_size |= pattern->one_bytes != f->bytes || pattern->one_dtype != f->dtype;
    pattern->other_place |= pattern->one_stack != f->stack;
}

/* The sum of all members' hashes. */
static uint64_t everybody(uint32_t ranks) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ranks; i++)
        sum += partner((int32_t)i);
    return sum;
}

/* Something is sent to and received from every member. What a rank has for itself may be left out where it does not
 * make an exchange between two of it; of the size of that part nothing is known unless all are alike. */
static bool is_all_to_all(const struct group_pattern *p, uint32_t operations, uint32_t ranks) {
    if (p->sends != p->receives || p->sends + p->receives != operations || p->sent_to != p->received_from || ranks < 2)
        return false;
    if (p->self)
        return p->sends == ranks && p->sent_to == everybody(ranks);
    return ranks > 2 && p->sends == ranks - 1 && !p->other_size &&
           p->sent_to == everybody(ranks) - partner(p->own_rank);
}

static void count_as(struct gpu_launch *launch, const struct call *call, uint32_t parts, uint32_t count) {
    launch->call = call->id;
    launch->parts = (uint16_t)parts;
    launch->count = (uint16_t)count;
}

/* Both ways, with whom and of what sizes ever: what goes one way, of equally many alike each for itself. */
static void settle_exchange(const struct group_pattern *p, uint32_t operations, struct gpu_launch *launch) {
    const struct call *exchange = &commtap_patterns[PATTERN_EXCHANGE];
    if (!p->other_size && p->sends == p->receives && operations <= PARTS_MAX)
        count_as(launch, exchange, operations, operations / 2);
    else
        count_as(launch, exchange, 2, 1);
}

/* True where the operations are messages and nothing else. */
static bool settle_messages(const struct group_pattern *p, uint32_t operations, struct gpu_launch *launch) {
    if (p->sends + p->receives != operations)
        return false;
    if (is_all_to_all(p, operations, launch->ranks)) {
        if (!p->self)
            launch->bytes += 2 * p->one_bytes;
        count_as(launch, &commtap_patterns[PATTERN_ALL_TO_ALL], 2, 1);
    } else if (p->sends && p->receives) {
        settle_exchange(p, operations, launch);
    } else {
        count_as(launch, &commtap_patterns[p->sends ? PATTERN_SENDS : PATTERN_RECEIVES], 0, 0);
    }
    return true;
}

/* Sends alone, or receives alone, may have different partners. */
static bool are_alike(const struct group_pattern *p, uint32_t operations) {
    bool one_way = p->sends == operations || p->receives == operations;
    bool collectives = !p->sends && !p->receives && !p->other_peer;
    return !p->other_size && !p->other_call && operations <= PARTS_MAX && (one_way || collectives);
}

/* Every rank is the root of one: what PyTorch makes of gathers and scatters whose parts differ in size. */
static bool each_is_root(const struct group_pattern *p, uint32_t operations, const struct gpu_launch *launch) {
    return operations > 1 && operations == launch->ranks && p->roots == everybody(launch->ranks);
}

/* Collectives of one kind that are not alike, as gradients and parameters of different sizes are reduced and gathered
 * in one group: one operation of the sum of their bytes. True where they are that. */
static bool settle_collectives(const struct group_pattern *p, uint32_t operations, struct gpu_launch *launch) {
    static const struct {
        uint16_t index;
        uint16_t pattern;
        uint16_t of_each; /* pattern where every rank is the root of one */
    } kinds[] = {{INDEX_ncclAllReduce, PATTERN_ALL_REDUCES, 0},
                 {INDEX_ncclBroadcast, PATTERN_BROADCASTS, PATTERN_GATHER_OF_BROADCASTS},
                 {INDEX_ncclBcast, PATTERN_BROADCASTS, PATTERN_GATHER_OF_BROADCASTS},
                 {INDEX_ncclReduce, PATTERN_REDUCES, PATTERN_SCATTER_OF_REDUCES},
                 {INDEX_ncclAllGather, PATTERN_ALL_GATHERS, 0},
                 {INDEX_ncclReduceScatter, PATTERN_REDUCE_SCATTERS, 0}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !p->other_call && !p->sends && !p->receives; i++) {
        uint16_t id = commtap_calls[kinds[i].index].id;
        if (p->one_call != id && p->one_call != id + NCCL_CONFIG_IDS)
            continue;
        bool of_each = p->other_peer && kinds[i].of_each && each_is_root(p, operations, launch);
        if (p->other_peer && !of_each)
            return false;
        launch->call = commtap_patterns[of_each ? kinds[i].of_each : kinds[i].pattern].id;
        return true;
    }
    return false;
}

void group_pattern_settle(const struct group_pattern *p, uint32_t operations, struct gpu_launch *launch) {
    if (launch->bytes == BYTES_UNKNOWN)
        return;
    if (are_alike(p, operations)) {
        launch->call = p->one_call;
        launch->parts = launch->count = (uint16_t)operations;
    } else if (!settle_collectives(p, operations, launch) && !settle_messages(p, operations, launch)) {
        return;
    }
    launch->dtype = p->other_size ? launch->dtype : p->one_dtype;
    if (launch->flags & FLAG_COLLECTIVE) {
        launch->redop = p->one_redop;
        launch->peer = p->other_peer ? PEER_NONE : p->one_peer;
    }
    if (!p->other_place)
        launch->stack = p->one_stack;
}
