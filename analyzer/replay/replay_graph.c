/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/replay/replay_build.h"

enum { WAIT_BACK = 8 }; /* nodes looked at for the call in which an operation ended: several threads have one each */

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
static bool join_histories(struct replay *replay, struct replay_build *build) {
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

bool replay_join_nodes(struct replay *replay, struct replay_build *build) {
    return join_histories(replay, build) && find_spans(replay, build);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Where the dump's first node that is entered at `enter` or later can be: looked for in growing steps from the one that
 * was found last, since links come about in the order of time. */
static void bounds_near(const struct replay *replay, size_t near, int64_t enter, size_t *low, size_t *high) {
    size_t step = 1;
    if (near < *high && replay->nodes[near].enter < enter) {
        for (*low = near + 1; *high - *low > step && replay->nodes[*low + step].enter < enter; step *= 2)
            *low += step + 1;
        *high = *high - *low > step ? *low + step : *high;
    } else {
        for (*high = near; *high - *low > step && replay->nodes[*high - step].enter >= enter; step *= 2)
            *high -= step;
        *low = *high - *low > step ? *high - step + 1 : *low;
    }
}

/* The dump's first node that is entered at `enter` or later. */
static size_t lower_bound(const struct replay *replay, const struct replay_build *build, uint32_t dump, int64_t enter) {
    size_t low = replay->first[dump], high = replay->first[dump + 1];
    bounds_near(replay, build->near[dump], enter, &low, &high);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (replay->nodes[middle].enter < enter)
            low = middle + 1;
        else
            high = middle;
    }
    return build->near[dump] = low;
}

/* Where a member came. Operations of one call to Startall, or of a batch, come at one moment. */
static uint32_t find_post(const struct replay *replay, const struct replay_build *build, const struct member *member) {
    for (size_t i = lower_bound(replay, build, member->dump, member->enter);
         i < replay->first[member->dump + 1] && replay->nodes[i].enter == member->enter; i++) {
        const struct replay_node *node = &replay->nodes[i];
        bool starts = build->directory->calls[node->call].name->call_class == CLASS_START;
        if (starts || (node->call == member->call && (node->kind == REPLAY_POST || node->leave == member->leave)))
            return (uint32_t)i;
    }
    return NOWHERE;
}

/* The call in which an operation was seen complete. */
static uint32_t find_wait(const struct replay *replay, const struct replay_build *build, const struct member *member) {
    size_t at = lower_bound(replay, build, member->dump, member->leave + 1);
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
            const struct sends *sends = &build->gathered[w].sends[(size_t)link->call * REPLAY_SIZES + link->size];
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
    size_t at = lower_bound(replay, build, members[1].dump, until + 1);
    if (at == replay->first[members[1].dump])
        return NOWHERE;
    int64_t back = replay->nodes[at - 1].enter;
    return back > send->enter && message_over_soon(send->enter, back, send->leave) ? (uint32_t)(at - 1) : NOWHERE;
}

/* The same on GPUs: the receive that made room. */
static uint32_t find_making_room(const struct replay *replay, const struct replay_build *build,
                                 const struct replay_link *link, const struct member *receive) {
    size_t at = link->released != MATCH_ABSENT ? lower_bound(replay, build, receive->dump, link->released) : SIZE_MAX;
    return at < replay->first[receive->dump + 1] && replay->nodes[at].enter == link->released ? (uint32_t)at : NOWHERE;
}

/* The call in which the target came back to the library that was away when that MPI_Win_complete was entered; NOWHERE:
 * it was not away. */
static uint32_t find_return(const struct replay *replay, const struct replay_build *build,
                            const struct member *members) {
    uint32_t target = members[1].dump;
    size_t at = lower_bound(replay, build, target, members[0].enter + 1), before = at;
    for (size_t back = 0; back < WAIT_BACK && before-- > replay->first[target]; back++)
        if (replay->nodes[before].leave > members[0].enter)
            return NOWHERE;
    return at < replay->first[target + 1] ? (uint32_t)at : NOWHERE;
}

/* What is put where no hardware does it is taken by the target's library: whether an MPI_Win_complete waits for that
 * shows where the target is away. */
static void note_returns(const struct replay *replay, struct replay_build *build) {
    for (unsigned w = 0; w < build->workers; w++)
        for (size_t l = 0; l < build->gathered[w].link_count; l++) {
            const struct replay_link *link = &build->gathered[w].links[l];
            const struct member *members = build->gathered[w].members + link->first;
            uint32_t node = link->returns ? find_return(replay, build, members) : NOWHERE;
            if (node != NOWHERE && replay->nodes[node].enter > members[0].leave)
                build->completes.left++;
            else if (node != NOWHERE)
                build->completes.waited++;
        }
}

/* The nodes of an MPI_Win_complete and of the call it needed its target back in. */
static bool find_returned(const struct replay *replay, const struct replay_build *build, struct member *members) {
    if (build->completes.waited <= build->completes.left)
        return false;
    uint32_t node = find_return(replay, build, members);
    if (node == NOWHERE || replay->nodes[node].enter > members[0].leave)
        return false;
    members[0].post = members[0].wait = find_post(replay, build, &members[0]);
    members[1].post = members[1].wait = node;
    return members[0].post != NOWHERE;
}

/* Finds the nodes of a link's members. Returns false where one is not there: the others then wait for nobody. */
static bool find_members(const struct replay *replay, const struct replay_build *build, struct replay_gathered *g,
                         const struct replay_link *link) {
    struct member *members = g->members + link->first;
    if (link->returns)
        return find_returned(replay, build, members);
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
            members[i].wait = find_wait(replay, build, &members[i]);
    }
    uint32_t release = link->from == NOWHERE ? NOWHERE
                       : link->device        ? find_making_room(replay, build, link, &members[1])
                                             : find_release(replay, build, members);
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
    note_returns(replay, build);
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
        together = together && (last_enter == INT64_MIN || replay_in_one_stretch(build, node->enter, last_enter));
        struct match_member member = {.enter = node->enter, .leave = node->leave, .call = node->call};
        replay_add_link_member(g, (uint32_t)d, &member, GIVES | TAKES);
        last_enter = node->enter > last_enter ? node->enter : last_enter;
        first_leave = node->leave < first_leave ? node->leave : first_leave;
    }
    if (g->member_count > link.first && together && last_enter <= first_leave)
        replay_add_link(g, link);
}

bool replay_join_links(struct replay *replay, struct replay_build *build) {
    build->near = malloc((replay->dump_count + 1) * sizeof *build->near);
    if (!build->near)
        return false;
    memcpy(build->near, replay->first, (replay->dump_count + 1) * sizeof *build->near);
    if (!replay_find_relays(build))
        return false;
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
