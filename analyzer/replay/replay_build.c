/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "analyzer/base/cache_lines.h"
#include "analyzer/base/grow.h"
#include "analyzer/base/hash.h"
#include "analyzer/match/sources.h"
#include "analyzer/replay/replay_build.h"
#include "analyzer/waits/delay_costs.h"

struct replay_build *replay_begin(const struct common_clock *clock, const struct match_directory *directory,
                                  const struct covered_time *covered, const struct cut *cuts, unsigned workers) {
    struct replay_build *build = calloc_on_own_lines(1, sizeof *build);
    if (!build)
        return NULL;
    *build = (struct replay_build){
        .directory = directory, .covered = covered, .cuts = cuts, .from_ns = -NS_MOST, .workers = workers};
    build->end_only = delay_costs_window(clock, REPLAY_RECORDS_MOST, &build->from_ns);
    build->histories = calloc_on_own_lines(directory->dump_count, sizeof *build->histories);
    if (build->histories)
        return build;
    replay_drop(build);
    return NULL;
}

void replay_drop(struct replay_build *build) {
    if (!build)
        return;
    for (size_t d = 0; build->histories && d < build->directory->dump_count; d++) {
        free(build->histories[d].nodes);
        free(build->histories[d].open);
        free(build->histories[d].stretch_of);
        replay_roles_free(&build->histories[d].roles);
    }
    for (unsigned w = 0; w < build->workers; w++) {
        free(build->gathered[w].links);
        free(build->gathered[w].members);
        free(build->gathered[w].sends);
    }
    free(build->histories);
    free(build->near);
    free(build);
}

/* Never 0; the order counts. */
static uint32_t signature_mix(uint32_t signature, uint64_t value) {
    return (uint32_t)hash_mix(hash_scramble(signature), value) | 1;
}

static uint8_t size_class(uint64_t bytes) {
    if (bytes == BYTES_UNKNOWN)
        return REPLAY_SIZES - 1;
    return bytes ? (uint8_t)(64 - __builtin_clzll(bytes)) : 0;
}

static bool is_launch(const struct match_record *item) {
    return item->record->kind == RECORD_GPU || item->record->kind == RECORD_KERNEL;
}

/* What kind of node a record is; false: none. */
static bool node_kind(const struct match_record *item, const struct call_name *call, bool device,
                      enum replay_kind *kind) {
    enum record_kind record = item->record->kind;
    *kind = REPLAY_CALL;
    if (is_launch(item))
        return true;
    if ((record != RECORD_CALL && record != RECORD_POST && record != RECORD_POLL) ||
        (call->api == API_NCCL && device) || call->call_class == CLASS_FILE)
        return false;
    if (call->call_class == CLASS_WAIT || call->call_class == CLASS_TEST || call->call_class == CLASS_PROBE)
        *kind = REPLAY_WAIT;
    else if (record == RECORD_POST || call->call_class == CLASS_START)
        *kind = REPLAY_POST;
    else if (call->call_class == CLASS_OTHER)
        *kind = trace_work_of(call) == TRACE_WORK_KERNELS ? REPLAY_KERNELS : REPLAY_WORK;
    return call->call_class != CLASS_OTHER || call_is_own_work(call);
}

static uint32_t node_signature(const struct replay_build *build, const struct match_record *item) {
    struct match_place place = match_place_of(build->directory, item->dump, item->record->comm);
    uint32_t members = place.communicator == NOWHERE ? 0 : build->directory->communicators[place.communicator].size;
    /* the bytes of a group tell what its collectives are, which has no name */
    bool group = build->directory->calls[item->call].name->call_class == CLASS_GROUP;
    bool exact = group && item->record->flags & FLAG_COLLECTIVE;
    uint32_t hash = signature_mix(0, build->directory->calls[item->call].base);
    hash = exact ? signature_mix(hash, item->record->bytes) : hash;
    hash = signature_mix(hash, (uint64_t)size_class(item->record->bytes) << 32 | members);
    return signature_mix(hash, item->record->flags & (FLAG_SEND | FLAG_RECV | FLAG_ROOT));
}

static bool is_poll(const struct replay_build *build, const struct replay_node *node) {
    enum call_class class = build->directory->calls[node->call].name->call_class;
    return class == CLASS_TEST || class == CLASS_PROBE;
}

/* What goes on on that lane, one of so many; another flow in each stretch of the covered time. NULL when memory is
 * short. */
static struct open_flow *flow_at(struct dump_nodes *history, uint32_t lanes, uint32_t lane, uint32_t stretch) {
    if (!history->open)
        history->open = calloc(lanes ? lanes : 1, sizeof *history->open);
    struct open_flow *open = history->open ? &history->open[lane] : NULL;
    if (open && (open->last == 0 || open->stretch != stretch)) {
        if (!grow_list(history->stretch_of, history->flow_count))
            return NULL;
        *open = (struct open_flow){.flow = (uint32_t)history->flow_count, .stretch = stretch};
        history->stretch_of[history->flow_count++] = stretch;
    }
    return open;
}

/* Makes one node of the flow's last one, `before`, and this one where they are one wait: polls and what they got, or
 * two polls with hardly anything between them. */
static bool merge_polls(const struct replay_build *build, const struct open_flow *open, struct replay_node *before,
                        const struct replay_node *node, const struct match_record *item) {
    if (item->since < item->t0 && open->polled_by == item->lane + 1) {
        before->enter = node->enter;
        before->leave = node->leave;
        before->launched_ns = node->launched_ns;
        before->signature = node->signature;
        before->stack = node->stack;
        before->call = node->call;
        before->kind = node->kind;
        before->launch = node->launch;
        before->role = node->role;
        return true;
    }
    if (item->record->kind == RECORD_POLL || !is_poll(build, node) || !is_poll(build, before) ||
        node->enter - before->leave >= POLL_GAP_NS)
        return false;
    before->leave = node->leave > before->leave ? node->leave : before->leave;
    return true;
}

static bool add_node(struct replay_build *build, struct dump_nodes *history, struct replay_node *node,
                     const struct match_record *item) {
    struct open_flow *open =
        flow_at(history, build->directory->dumps[item->dump]->lane_count, node->flow, item->stretch);
    if (!open || !grow_by_one(history->nodes, history->count, history->room))
        return false;
    node->flow = open->flow;
    bool merged = open->last > 0 && merge_polls(build, open, &history->nodes[open->last - 1], node, item);
    open->polled_by = is_poll(build, node) ? item->lane + 1 : 0;
    if (merged)
        return true;
    node->before = open->last > 0 ? signature_mix(history->nodes[open->last - 1].signature, node->signature) : 0;
    node->segment = history->segment;
    history->nodes[history->count++] = *node;
    open->last = history->count;
    return true;
}

/* Each cut ends a segment of the same number on all ranks that are compared. */
static void pass_segment(struct replay_build *build, const struct match_record *item) {
    uint32_t number = cut_ends_at(&build->cuts[item->dump], item);
    if (number != SEQ_NONE)
        build->histories[item->dump].segment = number + 1;
}

/* When that was enqueued which ran on a GPU. A launch comes right behind the call that enqueued it; of other work the
 * record tells how long before (shim/format.h). */
static int64_t launched_at(const struct dump_nodes *history, const struct match_record *item, enum replay_kind kind) {
    if (kind == REPLAY_KERNELS && item->record->seq != SEQ_NONE)
        return add_ns(item->t0, -(int64_t)item->record->seq * 1000);
    if (is_launch(item) && item->record->op == history->posted_op && history->posted_ns < item->since)
        return history->posted_ns;
    return item->since;
}

static enum replay_launch launch_of(const struct replay_build *build, const struct match_record *item) {
    if (!is_launch(item))
        return REPLAY_NO_LAUNCH;
    switch (build->directory->calls[item->call].name->call_class) {
    case CLASS_SEND:
        return REPLAY_SEND;
    case CLASS_RECV:
        return REPLAY_RECEIVE;
    case CLASS_COLLECTIVE:
        return REPLAY_COLLECTIVE;
    default:
        return REPLAY_TOGETHER;
    }
}

static void note_post(struct dump_nodes *history, const struct match_record *item) {
    if (item->record->kind != RECORD_POST && item->record->kind != RECORD_GROUP)
        return;
    history->posted_op = item->record->op;
    history->posted_ns = item->t0;
}

void replay_add_record(struct replay_build *build, unsigned worker, const struct match_record *item) {
    /* the second record of a Sendrecv is of the same call */
    if (item->t0 < build->from_ns || item->call == CALL_UNKNOWN || item->record->flags & FLAG_RECEIVE_HALF)
        return;
    enum replay_kind kind;
    enum replay_role role;
    bool device = dump_has_device_times(build->directory->dumps[item->dump]);
    if (item->record->kind == RECORD_PARTNER)
        pass_segment(build, item);
    note_post(&build->histories[item->dump], item);
    if (!replay_find_role(&build->histories[item->dump].roles, item, &role))
        build->gathered[worker].no_memory = true;
    if (!node_kind(item, build->directory->calls[item->call].name, device, &kind))
        return;
    struct replay_node node = {.enter = item->since,
                               .leave = item->t1 > item->t0 ? item->t1 : item->t0,
                               .launched_ns = launched_at(&build->histories[item->dump], item, kind),
                               .flow = device ? 0 : item->lane,
                               .signature = node_signature(build, item),
                               .stack = item->record->stack,
                               .call = item->call,
                               .kind = (uint8_t)kind,
                               .launch = (uint8_t)launch_of(build, item),
                               .role = (uint8_t)role,
                               .communicator = item->record->comm,
                               .peer = item->record->peer};
    if (!add_node(build, &build->histories[item->dump], &node, item))
        build->gathered[worker].no_memory = true;
    pass_segment(build, item);
}

void replay_add_member(struct replay_gathered *g, const struct member *member, int parts) {
    if (!grow_by_one(g->members, g->member_count, g->member_room)) {
        g->no_memory = true;
        return;
    }
    g->members[g->member_count] = *member;
    g->members[g->member_count++].parts = (uint8_t)parts;
}

void replay_add_link_member(struct replay_gathered *g, uint32_t dump, const struct match_member *member, int parts) {
    struct member added = {.enter = member->enter, .leave = member->leave, .dump = dump, .call = member->call};
    replay_add_member(g, &added, parts);
}

void replay_add_link(struct replay_gathered *g, struct replay_link link) {
    if (!grow_by_one(g->links, g->link_count, g->link_room)) {
        g->no_memory = true;
        return;
    }
    link.count = (uint32_t)(g->member_count - link.first);
    g->links[g->link_count++] = link;
}

static bool joins(const struct replay_build *build, const struct match_instance *instance) {
    if (instance->others > 0 || !instance->complete || instance->seen < 2 || instance->call == CALL_UNKNOWN)
        return false;
    const struct call_name *call = build->directory->calls[instance->call].name;
    if (call->call_class != CLASS_COLLECTIVE && call->call_class != CLASS_RMA_SYNC && call->call_class != CLASS_GROUP &&
        !call_makes_communicator(call))
        return false;
    enum flow flow = match_instance_flow(instance, call);
    return flow == FLOW_ALL || flow == FLOW_NEIGHBOURS ||
           ((flow == FLOW_FROM_ROOT || flow == FLOW_TO_ROOT) && instance->root != NOWHERE);
}

bool replay_in_one_stretch(const struct replay_build *build, int64_t one, int64_t other) {
    return !build->covered || build->covered->whole ||
           covered_time_at(build->covered, one, one) == covered_time_at(build->covered, other, other);
}

/* Each member needs those that it takes from, and came while it was there. */
static void add_neighbours(const struct replay_build *build, struct replay_gathered *g,
                           const struct match_instance *instance) {
    const struct match_communicator *communicator = instance->communicator;
    uint32_t sources[NEIGHBOURS_MOST];
    for (uint32_t i = 0; i < communicator->dump_count; i++) {
        struct replay_link link = {.first = (uint32_t)g->member_count, .from = NOWHERE, .to = NOWHERE};
        size_t count = match_sources(build->directory, instance, i, sources);
        for (size_t k = 0; count != SIZE_MAX && k < count; k++)
            if (instance->members[sources[k]].enter <= instance->members[i].leave)
                replay_add_link_member(g, communicator->dump_of[sources[k]], &instance->members[sources[k]], GIVES);
        if (g->member_count == link.first)
            continue;
        replay_add_link_member(g, communicator->dump_of[i], &instance->members[i], TAKES);
        replay_add_link(g, link);
    }
}

void replay_add_instance(struct replay_build *build, unsigned worker, const struct match_instance *instance) {
    struct replay_gathered *g = &build->gathered[worker];
    if (!joins(build, instance))
        return;
    enum flow flow = match_instance_flow(instance, build->directory->calls[instance->call].name);
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++)
        if (instance->members[i].enter < build->from_ns ||
            !replay_in_one_stretch(build, instance->members[i].enter, instance->members[0].enter))
            return;
    if (flow == FLOW_NEIGHBOURS) {
        add_neighbours(build, g, instance);
        return;
    }
    struct replay_link link = {.first = (uint32_t)g->member_count,
                               .from = NOWHERE,
                               .to = NOWHERE,
                               .call = instance->call,
                               .size = size_class(instance->bytes),
                               .has_root = flow != FLOW_ALL && !instance->device};
    if (link.has_root) {
        link.rooted.communicator = (uint32_t)(instance->communicator - build->directory->communicators);
        link.rooted.root = instance->root;
    }
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        int parts = GIVES | TAKES;
        /* who may do something else meanwhile tells nothing by the time at which it was over */
        link.has_root =
            link.has_root && !instance->members[i].bystander && instance->members[i].wait == instance->members[i].enter;
        if (instance->members[i].bystander)
            continue;
        if (flow == FLOW_FROM_ROOT)
            parts = i == instance->root ? GIVES : TAKES;
        else if (flow == FLOW_TO_ROOT)
            parts = i == instance->root ? TAKES : GIVES;
        replay_add_link_member(g, instance->communicator->dump_of[i], &instance->members[i], parts);
    }
    replay_add_link(g, link);
}

/* Whether sends like this one wait for their receivers shows where the receiver comes later. */
static void note_send(const struct replay_build *build, struct replay_gathered *g, const struct match_message *message,
                      uint8_t size) {
    if (!g->sends)
        g->sends = calloc(build->directory->call_count * REPLAY_SIZES, sizeof *g->sends);
    if (!g->sends)
        g->no_memory = true;
    if (!g->sends || message->send.call == CALL_UNKNOWN)
        return;
    struct sends *sends = &g->sends[(size_t)message->send.call * REPLAY_SIZES + size];
    if (message->receive.enter > message->send.enter) {
        if (message->send.leave < message->receive.enter)
            sends->left++;
        else
            sends->waited++;
    }
}

void replay_add_message(struct replay_build *build, unsigned worker, const struct match_message *message) {
    struct replay_gathered *g = &build->gathered[worker];
    uint8_t size = size_class(message->bytes);
    if (message->send.enter < build->from_ns || message->receive.enter < build->from_ns ||
        !replay_in_one_stretch(build, message->send.enter, message->receive.enter))
        return;
    note_send(build, g, message, size);
    struct replay_link link = {.first = (uint32_t)g->member_count,
                               .from = message->from_dump,
                               .to = message->to_dump,
                               .call = message->send.call,
                               .size = size,
                               .device = message->device,
                               .released = message->released,
                               .blocks = message->synchronous || message->send.leave >= message->receive.enter,
                               .by_sender = message_end_was_needed(&message->send, &message->receive),
                               .by_receiver = message_end_was_needed(&message->receive, &message->send)};
    replay_add_link_member(g, message->from_dump, &message->send, message->synchronous ? GIVES | TAKES : GIVES);
    replay_add_link_member(g, message->to_dump, &message->receive, TAKES);
    replay_add_link(g, link);
}

/* Who left before the other one came did not need it. */
void replay_add_epoch(struct replay_build *build, unsigned worker, const struct match_message *need) {
    struct replay_gathered *g = &build->gathered[worker];
    if (need->send.enter < build->from_ns || need->receive.enter < build->from_ns ||
        need->receive.leave < need->send.enter || !replay_in_one_stretch(build, need->send.enter, need->receive.enter))
        return;
    struct replay_link link = {.first = (uint32_t)g->member_count, .from = NOWHERE, .to = NOWHERE};
    replay_add_link_member(g, need->from_dump, &need->send, GIVES);
    replay_add_link_member(g, need->to_dump, &need->receive, TAKES);
    replay_add_link(g, link);
    if (need->tag != EPOCH_COMPLETE_TO_WAIT)
        return;
    link = (struct replay_link){.first = (uint32_t)g->member_count, .from = NOWHERE, .to = NOWHERE, .returns = true};
    replay_add_link_member(g, need->from_dump, &need->send, TAKES);
    replay_add_link_member(g, need->to_dump, &need->receive, GIVES);
    replay_add_link(g, link);
}

/* ---- several processes ------------------------------------------------------------------------------------------- */

void replay_parcel(struct replay_build *build, unsigned worker, struct parcel *parcel) {
    struct replay_gathered *g = &build->gathered[worker];
    size_t kinds = build->directory->call_count * REPLAY_SIZES;
    parcel_array(parcel, g->links, g->link_count, g->link_room);
    parcel_array(parcel, g->members, g->member_count, g->member_room);
    if (parcel_is_there(parcel, g->sends != NULL)) {
        if (!g->sends)
            g->sends = calloc(kinds, sizeof *g->sends);
        if (g->sends)
            parcel_items(parcel, g->sends, kinds, sizeof *g->sends);
        else
            parcel->failed = true;
    }
    parcel_flag(parcel, &g->no_memory);
}

/* What is open on the lanes, and the segment at hand, is of use only to who adds records. */
void replay_parcel_dump(struct replay_build *build, size_t dump, struct parcel *parcel) {
    struct dump_nodes *history = &build->histories[dump];
    parcel_array(parcel, history->nodes, history->count, history->room);
    parcel_list(parcel, history->stretch_of, history->flow_count);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

bool replay_finish(struct replay *replay, struct replay_build *build) {
    *replay = (struct replay){.dump_count = build->directory->dump_count,
                              .end_only = build->end_only,
                              .partial = build->end_only || (build->covered && !build->covered->whole)};
    bool done = true;
    for (unsigned w = 0; w < build->workers; w++)
        done &= !build->gathered[w].no_memory;
    done = done && replay_join_nodes(replay, build) && replay_join_links(replay, build);
    replay_drop(build);
    done = done && replay_place_launches(replay) && replay_order(replay) && replay_find_behind(replay) &&
           replay_measure_tails(replay);
    replay->wall_ns = done ? replay_length(replay, NULL) : 1;
    return done;
}
