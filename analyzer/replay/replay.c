/* SPDX-License-Identifier: Apache-2.0
 *
 * The job once more, with other durations.
 * Lives here: gathering nodes and links, joining them, an order in which they can be gone through, going through.
 * Must not live here: which durations to change.
 */
#include "analyzer/replay/replay.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/hash.h"
#include "analyzer/match/match.h"
#include "analyzer/waits/delay_costs.h"

enum {
    WAIT_BACK = 8, /* nodes looked at for the call in which an operation ended: several threads have one each */
    SIZES = 66,    /* classes of bytes: 0, powers of two, unknown */
};

/* How a member of a link takes part. */
enum { GIVES = 1, TAKES = 2 };

struct member {
    int64_t enter, leave; /* as matched; afterwards the nodes: */
    uint32_t post, wait;  /* entered there, ended there; NOWHERE: nowhere */
    uint32_t dump;
    uint16_t call;
    uint8_t parts;
};

struct replay_link {
    uint32_t first, count;       /* of the worker's members */
    uint32_t from, to;           /* dumps, of a message */
    uint16_t call;               /* of a message's send */
    uint8_t size;                /* its class */
    bool blocks;                 /* a send that may have waited for its receiver */
    bool by_sender, by_receiver; /* over as soon as this end was back in the library */
};

/* Of the sends of one call and size that were there before their receives. */
struct sends {
    uint32_t waited, left;
};

/* What one worker has gathered. */
struct replay_gathered {
    struct replay_link *links;
    size_t link_count, link_room;
    struct member *members;
    size_t member_count, member_room;
    struct sends *sends; /* per call and size; NULL before the first message */
    bool no_memory;
};

/* What goes on on one lane. */
struct open_flow {
    size_t last; /* place of the node before + 1; 0: none yet */
    uint32_t flow, stretch;
    uint32_t polled_by; /* lane + 1 whose polls that node is; 0: none's */
};

/* One dump's nodes. */
struct dump_nodes {
    struct replay_node *nodes;
    size_t count, room;
    struct open_flow *open; /* per lane */
    uint32_t *stretch_of;   /* per flow */
    size_t flow_count;
    uint32_t segment;
};

struct replay_build {
    const struct match_directory *directory;
    const struct covered_time *covered;
    const struct cut *cuts; /* per dump */
    int64_t from_ns;
    bool end_only;
    struct dump_nodes *histories;
    struct replay_gathered gathered[MATCH_WORKERS_MAX];
    unsigned workers;
};

/* ---- gathering ----------------------------------------------------------------------------------- */

struct replay_build *replay_begin(const struct common_clock *clock, const struct match_directory *directory,
                                  const struct covered_time *covered, const struct cut *cuts, unsigned workers) {
    struct replay_build *build = calloc(1, sizeof *build);
    if (!build)
        return NULL;
    *build = (struct replay_build){
        .directory = directory, .covered = covered, .cuts = cuts, .from_ns = -NS_MOST, .workers = workers};
    build->end_only = delay_costs_window(clock, REPLAY_RECORDS_MOST, &build->from_ns);
    build->histories = calloc(directory->dump_count, sizeof *build->histories);
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
    }
    for (unsigned w = 0; w < build->workers; w++) {
        free(build->gathered[w].links);
        free(build->gathered[w].members);
        free(build->gathered[w].sends);
    }
    free(build->histories);
    free(build);
}

/* Never 0; the order counts. */
static uint32_t signature_mix(uint32_t signature, uint64_t value) {
    return (uint32_t)hash_mix(hash_scramble(signature), value) | 1;
}

static uint8_t size_class(uint64_t bytes) {
    if (bytes == BYTES_UNKNOWN)
        return SIZES - 1;
    return bytes ? (uint8_t)(64 - __builtin_clzll(bytes)) : 0;
}

/* What kind of node a record is; false: none. */
static bool node_kind(const struct match_record *item, const struct call_name *call, bool device,
                      enum replay_kind *kind) {
    enum record_kind record = item->record->kind;
    *kind = REPLAY_CALL;
    if (record == RECORD_GPU || record == RECORD_KERNEL)
        return true;
    if ((record != RECORD_CALL && record != RECORD_POST && record != RECORD_POLL) ||
        (call->api == API_NCCL && device) || call->call_class == CLASS_FILE)
        return false;
    if (call->call_class == CLASS_WAIT || call->call_class == CLASS_TEST || call->call_class == CLASS_PROBE)
        *kind = REPLAY_WAIT;
    else if (record == RECORD_POST || call->call_class == CLASS_START)
        *kind = REPLAY_POST;
    else if (call->call_class == CLASS_OTHER)
        *kind = REPLAY_WORK;
    return call->call_class != CLASS_OTHER || call->api == API_TRACE;
}

static uint32_t node_signature(const struct replay_build *build, const struct match_record *item) {
    struct match_place place = match_place_of(build->directory, item->dump, item->record->comm);
    uint32_t members = place.communicator == NOWHERE ? 0 : build->directory->communicators[place.communicator].size;
    uint32_t hash = signature_mix(0, build->directory->calls[item->call].base);
    hash = signature_mix(hash, (uint64_t)size_class(item->record->bytes) << 32 | members);
    return signature_mix(hash, item->record->flags & (FLAG_SEND | FLAG_RECV | FLAG_ROOT));
}

static bool is_poll(const struct replay_build *build, const struct replay_node *node) {
    enum call_class class = build->directory->calls[node->call].name->call_class;
    return class == CLASS_TEST || class == CLASS_PROBE;
}

/* What goes on on that lane; another flow in each stretch of the covered time. NULL when memory is short. */
static struct open_flow *flow_at(struct dump_nodes *history, uint32_t lane, uint32_t stretch) {
    if (!history->open)
        history->open = calloc(DUMP_LANES_MAX, sizeof *history->open);
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
        before->signature = node->signature;
        before->stack = node->stack;
        before->call = node->call;
        before->kind = node->kind;
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
    struct open_flow *open = flow_at(history, node->flow, item->stretch);
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
    if (cut_ends_at(&build->cuts[item->dump], item->record))
        build->histories[item->dump].segment = item->record->seq + 1;
}

void replay_add_record(struct replay_build *build, unsigned worker, const struct match_record *item) {
    /* the second record of a Sendrecv is of the same call */
    if (item->t0 < build->from_ns || item->call == CALL_UNKNOWN || item->record->flags & FLAG_RECEIVE_HALF)
        return;
    enum replay_kind kind;
    bool device = dump_has_device_times(build->directory->dumps[item->dump]);
    if (!node_kind(item, build->directory->calls[item->call].name, device, &kind))
        return;
    struct replay_node node = {.enter = item->since,
                               .leave = item->t1 > item->t0 ? item->t1 : item->t0,
                               .flow = device ? 0 : item->lane,
                               .signature = node_signature(build, item),
                               .stack = item->record->stack,
                               .call = item->call,
                               .kind = (uint16_t)kind};
    if (!add_node(build, &build->histories[item->dump], &node, item))
        build->gathered[worker].no_memory = true;
    pass_segment(build, item);
}

static void add_link_member(struct replay_gathered *g, uint32_t dump, const struct match_member *member, int parts) {
    if (!grow_by_one(g->members, g->member_count, g->member_room)) {
        g->no_memory = true;
        return;
    }
    g->members[g->member_count++] = (struct member){
        .enter = member->enter, .leave = member->leave, .dump = dump, .call = member->call, .parts = (uint8_t)parts};
}

static void add_link(struct replay_gathered *g, struct replay_link link) {
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
    if (call->call_class == CLASS_GROUP)
        return true;
    if (call->call_class != CLASS_COLLECTIVE && call->call_class != CLASS_RMA_SYNC)
        return false;
    return call->flow == FLOW_ALL ||
           ((call->flow == FLOW_FROM_ROOT || call->flow == FLOW_TO_ROOT) && instance->root != NOWHERE);
}

/* Whether what two ranks entered lies in one stretch of the covered time. */
static bool in_one_stretch(const struct replay_build *build, int64_t one, int64_t other) {
    return !build->covered || build->covered->whole ||
           covered_time_at(build->covered, one, one) == covered_time_at(build->covered, other, other);
}

void replay_add_instance(struct replay_build *build, unsigned worker, const struct match_instance *instance) {
    struct replay_gathered *g = &build->gathered[worker];
    if (!joins(build, instance))
        return;
    const struct call_name *call = build->directory->calls[instance->call].name;
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++)
        if (instance->members[i].enter < build->from_ns ||
            !in_one_stretch(build, instance->members[i].enter, instance->members[0].enter))
            return;
    struct replay_link link = {.first = (uint32_t)g->member_count, .from = NOWHERE, .to = NOWHERE};
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        int parts = GIVES | TAKES;
        if (instance->members[i].bystander)
            continue;
        if (call->flow == FLOW_FROM_ROOT)
            parts = i == instance->root ? GIVES : TAKES;
        else if (call->flow == FLOW_TO_ROOT)
            parts = i == instance->root ? TAKES : GIVES;
        add_link_member(g, instance->communicator->dump_of[i], &instance->members[i], parts);
    }
    add_link(g, link);
}

/* Whether sends like this one wait for their receivers shows where the receiver comes later. */
static void note_send(const struct replay_build *build, struct replay_gathered *g, const struct match_message *message,
                      uint8_t size) {
    if (!g->sends)
        g->sends = calloc(build->directory->call_count * SIZES, sizeof *g->sends);
    if (!g->sends)
        g->no_memory = true;
    if (!g->sends || message->send.call == CALL_UNKNOWN)
        return;
    struct sends *sends = &g->sends[(size_t)message->send.call * SIZES + size];
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
        !in_one_stretch(build, message->send.enter, message->receive.enter))
        return;
    note_send(build, g, message, size);
    struct replay_link link = {.first = (uint32_t)g->member_count,
                               .from = message->from_dump,
                               .to = message->to_dump,
                               .call = message->send.call,
                               .size = size,
                               .blocks = message->synchronous || message->send.leave >= message->receive.enter,
                               .by_sender = message_end_was_needed(&message->send, &message->receive),
                               .by_receiver = message_end_was_needed(&message->receive, &message->send)};
    add_link_member(g, message->from_dump, &message->send, message->synchronous ? GIVES | TAKES : GIVES);
    add_link_member(g, message->to_dump, &message->receive, TAKES);
    add_link(g, link);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int compare_nodes(const void *a, const void *b) {
    const struct replay_node *left = a, *right = b;
    if (left->enter != right->enter)
        return left->enter < right->enter ? -1 : 1;
    if (left->leave != right->leave)
        return left->leave < right->leave ? -1 : 1;
    if (left->flow != right->flow)
        return left->flow < right->flow ? -1 : 1;
    return (left->signature > right->signature) - (left->signature < right->signature);
}

static void sort_nodes(struct dump_nodes *history) {
    for (size_t i = 1; i < history->count; i++)
        if (history->nodes[i].enter < history->nodes[i - 1].enter) {
            qsort(history->nodes, history->count, sizeof *history->nodes, compare_nodes);
            return;
        }
}

/* All dumps' nodes into one array; their flows get numbers of their own. */
static bool join_nodes(struct replay *replay, struct replay_build *build) {
    for (size_t d = 0; d < replay->dump_count; d++)
        replay->node_count += build->histories[d].count;
    replay->first = calloc(replay->dump_count + 1, sizeof *replay->first);
    replay->nodes = calloc(replay->node_count + 1, sizeof *replay->nodes);
    if (!replay->first || !replay->nodes || replay->node_count > UINT32_MAX / 2)
        return false;
    for (size_t d = 0; d < replay->dump_count; d++) {
        struct dump_nodes *history = &build->histories[d];
        struct replay_node *nodes = replay->nodes + replay->first[d];
        sort_nodes(history);
        if (history->count > 0)
            memcpy(nodes, history->nodes, history->count * sizeof *nodes);
        for (size_t i = 0; i < history->count; i++) {
            nodes[i].flow += (uint32_t)replay->flow_count;
            if (i > 0 && nodes[i].segment < nodes[i - 1].segment) /* another thread's, or damage */
                nodes[i].segment = nodes[i - 1].segment;
        }
        replay->flow_count += history->flow_count;
        replay->first[d + 1] = replay->first[d] + history->count;
        free(history->nodes);
        history->nodes = NULL;
    }
    return true;
}

/* Each flow's stretch of the covered time, and when things happen in it. */
static bool find_spans(struct replay *replay, const struct replay_build *build) {
    size_t flow = 0, stretches = build->covered ? build->covered->stretches.count : 1;
    replay->span_count = (uint32_t)stretches;
    replay->spans = calloc(stretches + 1, sizeof *replay->spans);
    replay->span_of = calloc(replay->flow_count + 1, sizeof *replay->span_of);
    if (!replay->spans || !replay->span_of)
        return false;
    for (size_t d = 0; d < replay->dump_count; d++)
        for (size_t f = 0; f < build->histories[d].flow_count; f++)
            replay->span_of[flow++] = build->histories[d].stretch_of[f];
    for (size_t s = 0; s < stretches; s++)
        replay->spans[s] = (struct time_stretch){INT64_MAX, INT64_MIN};
    for (size_t n = 0; n < replay->node_count; n++) {
        const struct replay_node *node = &replay->nodes[n];
        struct time_stretch *span = &replay->spans[replay->span_of[node->flow]];
        span->from = node->enter < span->from ? node->enter : span->from;
        span->to = node->leave > span->to ? node->leave : span->to;
    }
    return true;
}

/* All spans together, at least 1; `ends` are theirs if they took another time, NULL: as recorded. */
static int64_t length_of_spans(const struct replay *replay, const int64_t *ends) {
    int64_t sum = 0;
    for (uint32_t s = 0; s < replay->span_count; s++) {
        int64_t from = replay->spans[s].from, to = ends ? ends[s] : replay->spans[s].to;
        sum = to > from ? add_ns(sum, to - from) : sum;
    }
    return sum > 0 ? sum : 1;
}

/* ---- links ----------------------------------------------------------------------------------- */

/* The dump's first node that is entered at `enter` or later. */
static size_t lower_bound(const struct replay *replay, uint32_t dump, int64_t enter) {
    size_t low = replay->first[dump], high = replay->first[dump + 1];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (replay->nodes[middle].enter < enter)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where a member came. Operations of one call to Startall, or of a batch, come at one moment. */
static uint32_t find_post(const struct replay *replay, const struct replay_build *build, const struct member *member) {
    for (size_t i = lower_bound(replay, member->dump, member->enter);
         i < replay->first[member->dump + 1] && replay->nodes[i].enter == member->enter; i++) {
        const struct replay_node *node = &replay->nodes[i];
        bool starts = build->directory->calls[node->call].name->call_class == CLASS_START;
        if (starts || (node->call == member->call && (node->kind == REPLAY_POST || node->leave == member->leave)))
            return (uint32_t)i;
    }
    return NOWHERE;
}

/* The call in which an operation was seen complete. */
static uint32_t find_wait(const struct replay *replay, const struct member *member) {
    size_t at = lower_bound(replay, member->dump, member->leave + 1);
    for (size_t back = 0; back < WAIT_BACK && at-- > replay->first[member->dump]; back++)
        if (replay->nodes[at].kind == REPLAY_WAIT && replay->nodes[at].leave >= member->leave)
            return (uint32_t)at;
    return NOWHERE;
}

/* What is known of sends like this one. */
static struct sends sends_like(const struct replay_build *build, const struct replay_link *link) {
    struct sends sum = {0};
    for (unsigned w = 0; w < build->workers && link->call != CALL_UNKNOWN; w++)
        if (build->gathered[w].sends) {
            const struct sends *sends = &build->gathered[w].sends[(size_t)link->call * SIZES + link->size];
            sum.waited += sends->waited;
            sum.left += sends->left;
        }
    return sum;
}

/* The receiver's call that let a blocking send go on: where the library moves or takes a message only while the
 * receiver is in it, in whatever call, a send ends as soon as the receiver enters one. NOWHERE where it did not wait
 * for that. */
static uint32_t find_release(const struct replay *replay, const struct replay_build *build,
                             const struct member *members) {
    const struct replay_node *send = &replay->nodes[members[0].post], *receive = &replay->nodes[members[1].post];
    if (build->directory->calls[send->call].name->call_class != CLASS_SEND || send->kind != REPLAY_CALL)
        return NOWHERE;
    int64_t until = send->leave < receive->enter ? send->leave : receive->enter;
    size_t at = lower_bound(replay, members[1].dump, until + 1);
    if (at == replay->first[members[1].dump])
        return NOWHERE;
    int64_t back = replay->nodes[at - 1].enter;
    return back > send->enter && message_over_soon(send->enter, back, send->leave) ? (uint32_t)(at - 1) : NOWHERE;
}

/* Finds the nodes of a link's members. Returns false where one is not there: the others then wait for nobody. */
static bool find_members(const struct replay *replay, const struct replay_build *build, struct replay_gathered *g,
                         const struct replay_link *link) {
    struct member *members = g->members + link->first;
    struct sends like = link->from != NOWHERE ? sends_like(build, link) : (struct sends){0};
    if (link->by_receiver || (link->blocks && !(members[0].parts & TAKES) && like.waited > like.left)) {
        members[0].parts |= TAKES;
        members[1].parts |= GIVES;
    } else if (link->from != NOWHERE && (members[0].parts & TAKES)) {
        members[1].parts |= GIVES;
    }
    for (uint32_t i = 0; i < link->count; i++) {
        members[i].post = members[i].wait = find_post(replay, build, &members[i]);
        if (members[i].post == NOWHERE)
            return false;
        if (replay->nodes[members[i].post].kind == REPLAY_POST)
            members[i].wait = find_wait(replay, &members[i]);
    }
    uint32_t release = link->from != NOWHERE ? find_release(replay, build, members) : NOWHERE;
    if (release != NOWHERE) {
        members[0].parts |= TAKES;
        members[1].parts |= GIVES;
        members[1].post = release;
    }
    if (link->by_sender && members[0].wait != NOWHERE) /* what they give they give when they are back */
        members[0].post = members[0].wait;
    if (link->by_receiver && members[1].wait != NOWHERE)
        members[1].post = members[1].wait;
    return true;
}

/* first[n] holds how many node n has; makes it where they begin, and leaves first[n] there for filling. */
static uint32_t *make_room(uint32_t *first, size_t count) {
    uint32_t sum = 0;
    for (size_t n = 0; n <= count; n++) {
        uint32_t own = first[n];
        first[n] = sum;
        sum += own;
    }
    return malloc((sum + 1u) * sizeof *first);
}

/* Filling has moved every beginning to the next one's. */
static void end_filling(uint32_t *first, size_t count) {
    memmove(first + 1, first, count * sizeof *first);
    first[0] = 0;
}

static void count_members(struct replay *replay, struct replay_build *build) {
    for (unsigned w = 0; w < build->workers; w++)
        for (size_t l = 0; l < build->gathered[w].link_count; l++) {
            struct replay_gathered *g = &build->gathered[w];
            if (!find_members(replay, build, g, &g->links[l])) {
                g->links[l].count = 0;
                continue;
            }
            replay->link_count++;
            for (uint32_t i = 0; i < g->links[l].count; i++) {
                const struct member *member = &g->members[g->links[l].first + i];
                replay->gives_first[member->post] += (member->parts & GIVES) != 0;
                if ((member->parts & TAKES) && member->wait != NOWHERE)
                    replay->takes_first[member->wait]++;
            }
        }
}

static void fill_members(struct replay *replay, const struct replay_build *build) {
    uint32_t number = 0;
    for (unsigned w = 0; w < build->workers; w++)
        for (size_t l = 0; l < build->gathered[w].link_count; l++) {
            const struct replay_gathered *g = &build->gathered[w];
            const struct replay_link *link = &g->links[l];
            if (link->count == 0)
                continue;
            for (uint32_t i = 0; i < link->count; i++) {
                const struct member *member = &g->members[link->first + i];
                if (member->parts & GIVES)
                    replay->gives[replay->gives_first[member->post]++] = number;
                if ((member->parts & TAKES) && member->wait != NOWHERE)
                    replay->takes[replay->takes_first[member->wait]++] = number;
            }
            replay->link_from[number] = link->from;
            replay->link_to[number++] = link->to;
        }
    end_filling(replay->gives_first, replay->node_count);
    end_filling(replay->takes_first, replay->node_count);
}

/* The dump's call to MPI_Finalize, NULL: it has none. */
static const struct replay_node *finalize_of(const struct replay *replay, const struct replay_build *build,
                                             size_t dump) {
    if (replay->first[dump] == replay->first[dump + 1])
        return NULL;
    const struct replay_node *last = &replay->nodes[replay->first[dump + 1] - 1];
    return strcmp(build->directory->calls[last->call].name->name, "MPI_Finalize") == 0 ? last : NULL;
}

/* Nobody leaves MPI_Finalize before all have come: where that is so, it ends the job like a barrier. */
static void link_finalize(const struct replay *replay, struct replay_build *build) {
    struct replay_gathered *g = &build->gathered[0];
    struct replay_link link = {.first = (uint32_t)g->member_count, .from = NOWHERE, .to = NOWHERE};
    int64_t last_enter = INT64_MIN, first_leave = INT64_MAX;
    bool together = true;
    for (size_t d = 0; d < replay->dump_count; d++) {
        const struct replay_node *node = finalize_of(replay, build, d);
        if (!node)
            continue;
        together = together && (last_enter == INT64_MIN || in_one_stretch(build, node->enter, last_enter));
        struct match_member member = {.enter = node->enter, .leave = node->leave, .call = node->call};
        add_link_member(g, (uint32_t)d, &member, GIVES | TAKES);
        last_enter = node->enter > last_enter ? node->enter : last_enter;
        first_leave = node->leave < first_leave ? node->leave : first_leave;
    }
    if (g->member_count > link.first && together && last_enter <= first_leave)
        add_link(g, link);
}

static bool join_links(struct replay *replay, struct replay_build *build) {
    link_finalize(replay, build);
    replay->gives_first = calloc(replay->node_count + 1, sizeof *replay->gives_first);
    replay->takes_first = calloc(replay->node_count + 1, sizeof *replay->takes_first);
    if (!replay->gives_first || !replay->takes_first || build->gathered[0].no_memory)
        return false;
    count_members(replay, build);
    replay->gives = make_room(replay->gives_first, replay->node_count);
    replay->takes = make_room(replay->takes_first, replay->node_count);
    replay->link_from = malloc((replay->link_count + 1u) * sizeof *replay->link_from);
    replay->link_to = malloc((replay->link_count + 1u) * sizeof *replay->link_to);
    if (!replay->gives || !replay->takes || !replay->link_from || !replay->link_to)
        return false;
    fill_members(replay, build);
    for (size_t n = 0; n < replay->node_count; n++)
        replay->linked +=
            replay->gives_first[n] < replay->gives_first[n + 1] || replay->takes_first[n] < replay->takes_first[n + 1];
    return true;
}

/* ---- the order on one dump ------------------------------------------------------------------- */

struct flow_end {
    int64_t at;
    uint32_t node;
};

static int compare_endings(const void *a, const void *b) {
    const struct flow_end *left = a, *right = b;
    if (left->at != right->at)
        return left->at < right->at ? -1 : 1;
    return (left->node > right->node) - (left->node < right->node);
}

/* The dump's enterings and leavings as they were recorded; of one moment, leaving comes first. */
static void order_dump(const struct replay *replay, size_t dump, struct flow_end *endings, uint32_t *events) {
    size_t first = replay->first[dump], count = replay->first[dump + 1] - first, left = 0;
    bool sorted = true;
    for (size_t i = 0; i < count; i++) {
        endings[i] = (struct flow_end){replay->nodes[first + i].leave, (uint32_t)(first + i)};
        sorted &= i == 0 || endings[i].at >= endings[i - 1].at;
    }
    if (!sorted)
        qsort(endings, count, sizeof *endings, compare_endings);
    for (size_t i = 0; i < count; i++) {
        for (; left < count && endings[left].node < first + i && endings[left].at <= replay->nodes[first + i].enter;
             left++)
            *events++ = endings[left].node << 1 | 1;
        *events++ = (uint32_t)(first + i) << 1;
    }
    for (; left < count; left++)
        *events++ = endings[left].node << 1 | 1;
}

static bool order_dumps(struct replay *replay, uint32_t *events) {
    size_t most = 0;
    for (size_t d = 0; d < replay->dump_count; d++)
        if (replay->first[d + 1] - replay->first[d] > most)
            most = replay->first[d + 1] - replay->first[d];
    struct flow_end *endings = malloc((most + 1) * sizeof *endings);
    for (size_t d = 0; endings && d < replay->dump_count; d++)
        order_dump(replay, d, endings, events + 2 * replay->first[d]);
    free(endings);
    return endings != NULL;
}

/* Own work before every node, from the recorded times. */
static bool measure_work(struct replay *replay, const uint32_t *events) {
    int64_t *ready = malloc((replay->flow_count + 1) * sizeof *ready);
    replay->flow_start = malloc((replay->flow_count + 1) * sizeof *replay->flow_start);
    if (!ready || !replay->flow_start) {
        free(ready);
        return false;
    }
    for (size_t f = 0; f < replay->flow_count; f++)
        ready[f] = INT64_MIN;
    for (size_t i = 0; i < 2 * replay->node_count; i++) {
        const struct replay_node *node = &replay->nodes[events[i] >> 1];
        if (events[i] & 1) {
            ready[node->flow] = node->leave > ready[node->flow] ? node->leave : ready[node->flow];
        } else {
            if (ready[node->flow] == INT64_MIN)
                ready[node->flow] = replay->flow_start[node->flow] = node->enter;
            replay->work_ns[events[i] >> 1] = node->enter - ready[node->flow];
        }
    }
    free(ready);
    return true;
}

/* ---- the order on all dumps ------------------------------------------------------------------ */

struct ordering {
    struct replay *replay;
    const uint32_t *events;
    size_t *at;         /* per dump: its next event */
    uint32_t *awaited;  /* per dump: the link it waits for, NOWHERE */
    uint32_t *next;     /* per dump: the next one that waits for the same link */
    uint32_t *waiting;  /* per link: the first dump that waits for it, NOWHERE */
    uint32_t *missing;  /* per link: members that have not come */
    uint32_t *runnable; /* dumps that may go on */
    size_t runnable_count, ordered;
};

static void make_runnable(struct ordering *o, uint32_t link) {
    for (uint32_t d = o->waiting[link]; d != NOWHERE; d = o->next[d]) {
        o->awaited[d] = NOWHERE;
        o->runnable[o->runnable_count++] = d;
    }
    o->waiting[link] = NOWHERE;
}

/* A link that a node cannot be left without, NOWHERE when all are complete. */
static uint32_t incomplete(const struct ordering *o, uint32_t node) {
    const struct replay *replay = o->replay;
    for (uint32_t t = replay->takes_first[node]; t < replay->takes_first[node + 1]; t++)
        if (replay->takes[t] != NOWHERE && o->missing[replay->takes[t]] > 0)
            return replay->takes[t];
    return NOWHERE;
}

static void advance_dump(struct ordering *o, uint32_t dump) {
    const struct replay *replay = o->replay;
    for (; o->at[dump] < 2 * replay->first[dump + 1]; o->at[dump]++) {
        uint32_t event = o->events[o->at[dump]], node = event >> 1;
        if (event & 1) {
            uint32_t link = incomplete(o, node);
            if (link != NOWHERE) {
                o->awaited[dump] = link;
                o->next[dump] = o->waiting[link];
                o->waiting[link] = dump;
                return;
            }
        } else {
            for (uint32_t g = replay->gives_first[node]; g < replay->gives_first[node + 1]; g++)
                if (--o->missing[replay->gives[g]] == 0)
                    make_runnable(o, replay->gives[g]);
        }
        o->replay->order[o->ordered++] = event;
    }
}

/* Records that contradict each other wait in a circle: of those who wait, the one whose call ended first stops waiting
 * for what is not there. */
static void untie(struct ordering *o) {
    const struct replay *replay = o->replay;
    uint32_t best = NOWHERE;
    for (uint32_t d = 0; d < replay->dump_count; d++) {
        if (o->awaited[d] == NOWHERE)
            continue;
        if (best == NOWHERE ||
            replay->nodes[o->events[o->at[d]] >> 1].leave < replay->nodes[o->events[o->at[best]] >> 1].leave)
            best = d;
    }
    uint32_t node = o->events[o->at[best]] >> 1, *place = &o->waiting[o->awaited[best]];
    while (*place != best)
        place = &o->next[*place];
    *place = o->next[best];
    o->awaited[best] = NOWHERE;
    for (uint32_t t = replay->takes_first[node]; t < replay->takes_first[node + 1]; t++)
        if (replay->takes[t] != NOWHERE && o->missing[replay->takes[t]] > 0)
            replay->takes[t] = NOWHERE;
    o->replay->untied++;
    o->runnable[o->runnable_count++] = best;
}

static bool begin_ordering(struct ordering *o) {
    const struct replay *replay = o->replay;
    size_t dumps = replay->dump_count, links = replay->link_count;
    o->at = malloc((dumps + 1) * sizeof *o->at);
    o->awaited = malloc((dumps + 1) * sizeof *o->awaited);
    o->next = malloc((dumps + 1) * sizeof *o->next);
    o->runnable = malloc((dumps + 1) * sizeof *o->runnable);
    o->waiting = malloc((links + 1) * sizeof *o->waiting);
    o->missing = calloc(links + 1, sizeof *o->missing);
    if (!o->at || !o->awaited || !o->next || !o->runnable || !o->waiting || !o->missing)
        return false;
    for (size_t l = 0; l < links; l++)
        o->waiting[l] = NOWHERE;
    for (uint32_t g = 0; g < replay->gives_first[replay->node_count]; g++)
        o->missing[replay->gives[g]]++;
    for (uint32_t d = 0; d < dumps; d++) {
        o->at[d] = 2 * replay->first[d];
        o->awaited[d] = NOWHERE;
        o->runnable[o->runnable_count++] = d;
    }
    return true;
}

static bool order_all(struct replay *replay, const uint32_t *events) {
    struct ordering o = {.replay = replay, .events = events};
    bool done = begin_ordering(&o);
    while (done && o.ordered < 2 * replay->node_count) {
        if (o.runnable_count == 0)
            untie(&o);
        advance_dump(&o, o.runnable[--o.runnable_count]);
    }
    free(o.at);
    free(o.awaited);
    free(o.next);
    free(o.runnable);
    free(o.waiting);
    free(o.missing);
    return done;
}

/* ---- going through --------------------------------------------------------------------------- */

int64_t *replay_arrivals(const struct replay *replay) {
    int64_t *come = malloc((replay->link_count + 1u) * sizeof *come);
    for (uint32_t l = 0; come && l < replay->link_count; l++)
        come[l] = INT64_MIN;
    for (size_t n = 0; come && n < replay->node_count; n++)
        for (uint32_t g = replay->gives_first[n]; g < replay->gives_first[n + 1]; g++)
            if (replay->nodes[n].enter > come[replay->gives[g]])
                come[replay->gives[g]] = replay->nodes[n].enter;
    return come;
}

/* What is left of a node once everybody it needs is there. */
static bool measure_tails(struct replay *replay) {
    int64_t *come = replay_arrivals(replay);
    if (!come)
        return false;
    for (size_t n = 0; n < replay->node_count; n++) {
        int64_t since = replay->nodes[n].enter;
        for (uint32_t t = replay->takes_first[n]; t < replay->takes_first[n + 1]; t++)
            if (replay->takes[t] != NOWHERE && come[replay->takes[t]] > since)
                since = come[replay->takes[t]];
        replay->tail_ns[n] = replay->nodes[n].leave - since;
    }
    free(come);
    return true;
}

struct running {
    int64_t *entered; /* per node */
    int64_t *ready;   /* per flow: all that had ended */
    int64_t *come;    /* per link: its last member */
    int64_t *ends;    /* per span: the last leaving */
};

static int64_t leave(const struct replay *replay, const struct running *run, uint32_t node, int64_t tail_ns) {
    int64_t since = run->entered[node];
    for (uint32_t t = replay->takes_first[node]; t < replay->takes_first[node + 1]; t++)
        if (replay->takes[t] != NOWHERE && run->come[replay->takes[t]] > since)
            since = run->come[replay->takes[t]];
    return add_ns(since, tail_ns);
}

static int64_t run_through(const struct replay *replay, const struct running *run, const int64_t *work_ns,
                           const int64_t *tail_ns) {
    memcpy(run->ready, replay->flow_start, replay->flow_count * sizeof *run->ready);
    for (uint32_t l = 0; l < replay->link_count; l++)
        run->come[l] = INT64_MIN;
    for (uint32_t s = 0; s < replay->span_count; s++)
        run->ends[s] = replay->spans[s].from;
    for (size_t i = 0; i < 2 * replay->node_count; i++) {
        uint32_t node = replay->order[i] >> 1, flow = replay->nodes[node].flow;
        if (replay->order[i] & 1) {
            int64_t left = leave(replay, run, node, tail_ns[node]), *end = &run->ends[replay->span_of[flow]];
            run->ready[flow] = left > run->ready[flow] ? left : run->ready[flow];
            *end = left > *end ? left : *end;
            continue;
        }
        int64_t entered = run->entered[node] = add_ns(run->ready[flow], work_ns[node]);
        for (uint32_t g = replay->gives_first[node]; g < replay->gives_first[node + 1]; g++)
            if (entered > run->come[replay->gives[g]])
                run->come[replay->gives[g]] = entered;
    }
    return length_of_spans(replay, run->ends);
}

int64_t replay_run(const struct replay *replay, const int64_t *work_ns, const int64_t *tail_ns) {
    struct running run = {.entered = malloc((replay->node_count + 1) * sizeof *run.entered),
                          .ready = malloc((replay->flow_count + 1) * sizeof *run.ready),
                          .come = malloc((replay->link_count + 1u) * sizeof *run.come),
                          .ends = malloc((replay->span_count + 1u) * sizeof *run.ends)};
    int64_t wall = -1;
    if (run.entered && run.ready && run.come && run.ends)
        wall = replay->node_count > 0 ? run_through(replay, &run, work_ns, tail_ns) : 1;
    free(run.entered);
    free(run.ready);
    free(run.come);
    free(run.ends);
    return wall;
}

/* Whether a node's tail is a transfer, or what sending and receiving costs the host. */
static bool is_transfer(const struct replay *replay, size_t node) {
    enum replay_kind kind = (enum replay_kind)replay->nodes[node].kind;
    bool linked = replay->gives_first[node] < replay->gives_first[node + 1] ||
                  replay->takes_first[node] < replay->takes_first[node + 1];
    return linked || kind == REPLAY_POST || kind == REPLAY_WAIT;
}

int64_t replay_on_ideal_network(const struct replay *replay) {
    int64_t *tails = malloc((replay->node_count + 1) * sizeof *tails);
    if (!tails)
        return -1;
    for (size_t n = 0; n < replay->node_count; n++) /* those below 0 are the clocks' error, and stay */
        tails[n] = replay->tail_ns[n] > 0 && is_transfer(replay, n) ? 0 : replay->tail_ns[n];
    int64_t wall = replay_run(replay, replay->work_ns, tails);
    free(tails);
    return wall;
}

/* ---- all of it ------------------------------------------------------------------------------- */

bool replay_finish(struct replay *replay, struct replay_build *build) {
    *replay = (struct replay){.dump_count = build->directory->dump_count,
                              .end_only = build->end_only,
                              .partial = build->end_only || (build->covered && !build->covered->whole)};
    bool done = true;
    for (unsigned w = 0; w < build->workers; w++)
        done &= !build->gathered[w].no_memory;
    done = done && join_nodes(replay, build) && find_spans(replay, build) && join_links(replay, build);
    replay_drop(build);
    size_t events_bytes = (2 * replay->node_count + 1) * sizeof(uint32_t);
    uint32_t *events = done ? malloc(events_bytes) : NULL;
    replay->order = done ? malloc(events_bytes) : NULL;
    replay->work_ns = done ? malloc((replay->node_count + 1) * sizeof *replay->work_ns) : NULL;
    replay->tail_ns = done ? malloc((replay->node_count + 1) * sizeof *replay->tail_ns) : NULL;
    done = events && replay->order && replay->work_ns && replay->tail_ns && order_dumps(replay, events) &&
           measure_work(replay, events) && order_all(replay, events) && measure_tails(replay);
    replay->wall_ns = done ? length_of_spans(replay, NULL) : 1;
    free(events);
    return done;
}

void replay_free(struct replay *replay) {
    free(replay->first);
    free(replay->nodes);
    free(replay->work_ns);
    free(replay->tail_ns);
    free(replay->gives);
    free(replay->takes);
    free(replay->gives_first);
    free(replay->takes_first);
    free(replay->link_from);
    free(replay->link_to);
    free(replay->order);
    free(replay->flow_start);
    free(replay->spans);
    free(replay->span_of);
    *replay = (struct replay){0};
}
