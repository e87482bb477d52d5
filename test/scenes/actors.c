/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of actors.h: every rank is played until it must wait for another that has not come yet.
 */
#include "test/scenes/actors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/scenes/scene.h"

enum {
    START_NS = 1000000000,
    CALL_NS = 1000,       /* what a call takes that waits for nobody */
    LAUNCH_NS = 8000,     /* from the enqueueing call to the stream */
    EAGER_BYTES = 65536,  /* longer messages are not buffered */
    OUTLIER_NS = 1000000, /* mean */
    ANCHOR_STEPS = 16,    /* anchors are taken so often in a run */
    HOST_LANE = 0,
    DEVICE_LANE = 1,
};
#define REALTIME UINT64_C(1700000000000000000)
#define UNKNOWN  INT64_MIN

struct group {
    unsigned start, count, stride;
    uint32_t *local; /* by member: index in its dump */
    int64_t *enter;  /* by member */
    unsigned arrived;
    uint32_t seq;
    bool weak;      /* the slow link is between neighbours of its ring */
    double latency; /* the longest between neighbours */
};

/* Both halves; UNKNOWN until they are posted. */
struct message {
    int64_t sent, received;
    uint64_t bytes;
};

struct channel {
    uint32_t group;
    unsigned from, to; /* members */
    int32_t tag;
    uint32_t sends, receives;
    struct message *messages; /* by ordinal */
    size_t room;
};

struct request {
    struct channel *channel;
    uint32_t ordinal, op;
    bool send;
    int64_t post;
};

struct actor {
    int64_t now;  /* of its stream where it has a GPU */
    int64_t host; /* where it has a GPU */
    struct script script;
    size_t at;
    unsigned step;
    bool entered, released, queued; /* the action at hand; in the work list */
    struct request *requests;
    size_t request_count, request_room;
    uint32_t op, tickets[2];
    struct trace_window_block *block[2];
    uint64_t block_window[2];
    int64_t *began;
    struct dump_builder *builder;
};

struct stage {
    struct actor_rules rules;
    unsigned steps;
    struct actor *actors;
    struct group *groups;
    size_t group_count;
    struct channel **channels; /* open addressing */
    size_t channel_count, channel_room;
    unsigned *queue; /* ranks that can go on */
    size_t queued;
    struct dump **dumps;
    void (*write)(void *context, unsigned rank, unsigned step, struct script *script);
    void *context;
};

static void *checked(void *memory) {
    if (!memory) {
        fputs("actors: no memory\n", stderr);
        abort();
    }
    return memory;
}

void script_add(struct script *script, struct action action) {
    if (script->count == script->room) {
        script->room = script->room ? script->room * 2 : 64;
        script->items = checked(realloc(script->items, script->room * sizeof *script->items));
    }
    script->items[script->count++] = action;
}

/* ---- clocks ---------------------------------------------------------------------------------- */

unsigned stage_host(const struct stage *stage, unsigned rank) {
    return stage->rules.ranks_per_host ? rank / stage->rules.ranks_per_host : 0;
}

/* In [-1, 1), one per host and purpose. */
static double of_host(const struct stage *stage, unsigned host, unsigned purpose) {
    uint64_t state = stage->rules.seed * 1000003 + host * 31 + purpose;
    return 2 * scene_uniform(&state) - 1;
}

int64_t stage_shown(const struct stage *stage, unsigned rank, int64_t when) {
    const struct actor_clocks *c = &stage->rules.clocks;
    unsigned host = stage_host(stage, rank);
    double t = (double)when / 1e9;
    double error =
        c->offset * of_host(stage, host, 1) + c->drift * of_host(stage, host, 2) * t + c->wander * sin(t / 60 + host);
    return START_NS + 5 * (int64_t)START_NS + when + (int64_t)(error * 1e9);
}

static uint64_t shown(const struct stage *stage, unsigned rank, int64_t when) {
    return (uint64_t)stage_shown(stage, rank, when);
}

static void take_anchor(struct stage *stage, unsigned rank, int64_t when) {
    int64_t wrong = (int64_t)(stage->rules.clocks.realtime * of_host(stage, stage_host(stage, rank), 3) * 1e9);
    uint64_t ticks = shown(stage, rank, when);
    dump_builder_anchor(stage->actors[rank].builder, ticks, ticks, REALTIME + (uint64_t)(when + wrong), 40);
}

/* ---- records --------------------------------------------------------------------------------- */

/* What is about to be overwritten is kept where its window is. */
static void keep_in_window(struct stage *stage, struct actor *actor, uint32_t lane, unsigned rank) {
    uint32_t size = stage->rules.ring_records;
    const struct record *ring = dump_builder_contents(actor->builder, SECTION_RING, lane);
    const struct record *old = &ring[actor->tickets[lane] & (size - 1)];
    if (actor->tickets[lane] < size)
        return;
    uint64_t window = (REALTIME + old->t0 - shown(stage, rank, 0)) / 1000000000u / TRACE_WINDOW_SECONDS;
    if (window & ((1u << stage->rules.trace_window_level) - 1))
        return;
    struct trace_window_block *block = actor->block[lane];
    if (!block || actor->block_window[lane] != window || block->used == TRACE_WINDOW_RECORDS) {
        block = actor->block[lane] = dump_builder_window(actor->builder, lane, window);
        actor->block_window[lane] = window;
    }
    block->records[block->used++] = *old;
}

static void put(struct stage *stage, unsigned rank, uint32_t lane, const struct record *record) {
    struct actor *actor = &stage->actors[rank];
    if (stage->rules.windows)
        keep_in_window(stage, actor, lane, rank);
    dump_builder_record(actor->builder, lane, record);
    actor->tickets[lane]++;
}

static struct record blank(struct stage *stage, unsigned rank, uint16_t call, int64_t from, int64_t to) {
    return (struct record){.t0 = shown(stage, rank, from),
                           .t1 = shown(stage, rank, to),
                           .seq = SEQ_NONE,
                           .comm = COMM_NONE,
                           .peer = PEER_NONE,
                           .tag = TAG_NONE,
                           .call = call,
                           .kind = RECORD_CALL};
}

static struct record of_collective(struct stage *stage, unsigned rank, const struct action *action, int64_t from,
                                   int64_t to) {
    const struct group *group = &stage->groups[action->group];
    struct record record = blank(stage, rank, action->call, from, to);
    record.seq = group->seq;
    record.comm = group->local[(rank - group->start) / group->stride];
    record.bytes = action->bytes;
    record.flags = FLAG_COLLECTIVE;
    if (action->call == BUILDER_ALLREDUCE || action->call == BUILDER_NCCL_ALL_REDUCE)
        record.redop = REDOP_SUM;
    record.op = stage->actors[rank].op;
    return record;
}

static struct record of_message(struct stage *stage, unsigned rank, const struct request *request, uint16_t call,
                                int64_t from, int64_t to) {
    const struct channel *channel = request->channel;
    const struct group *group = &stage->groups[channel->group];
    struct record record = blank(stage, rank, call, from, to);
    record.seq = request->ordinal;
    record.comm = group->local[(rank - group->start) / group->stride];
    record.peer = (int32_t)(request->send ? channel->to : channel->from);
    record.tag = channel->tag;
    record.bytes = channel->messages[request->ordinal].bytes;
    record.flags = request->send ? FLAG_SEND : FLAG_RECV;
    record.op = request->op;
    return record;
}

/* ---- who can go on --------------------------------------------------------------------------- */

static void wake(struct stage *stage, unsigned rank) {
    if (!stage->actors[rank].queued) {
        stage->actors[rank].queued = true;
        stage->queue[stage->queued++] = rank;
    }
}

/* ---- collectives ----------------------------------------------------------------------------- */

static bool is_slow_pair(const struct stage *stage, unsigned a, unsigned b) {
    const struct actor_rules *rules = &stage->rules;
    unsigned here = stage_host(stage, a), there = stage_host(stage, b);
    if ((rules->slow_from == (int)a && rules->slow_to == (int)b) ||
        (rules->slow_from == (int)b && rules->slow_to == (int)a))
        return true;
    if (!rules->between_hosts || here == there)
        return false;
    if (rules->slow_hosts[0] == rules->slow_hosts[1])
        return here == rules->slow_hosts[0] || there == rules->slow_hosts[0];
    return (here == rules->slow_hosts[0] && there == rules->slow_hosts[1]) ||
           (here == rules->slow_hosts[1] && there == rules->slow_hosts[0]);
}

static double latency(const struct stage *stage, unsigned a, unsigned b) {
    unsigned size = stage->rules.hosts_per_switch;
    bool far = size && stage_host(stage, a) / size != stage_host(stage, b) / size;
    return stage->rules.latency + (far ? stage->rules.switch_latency : 0);
}

static double transfer(const struct stage *stage, uint64_t bytes, bool slow) {
    return (double)bytes / (stage->rules.bandwidth * (slow ? stage->rules.slow_link : 1));
}

static unsigned member_rank(const struct group *group, unsigned member) {
    return group->start + member * group->stride;
}

static void leave_all(struct stage *stage, struct group *group, const struct action *action) {
    uint64_t random = stage->rules.seed * 77 + group->start * 131 + group->stride * 17 + group->seq * 1009;
    int64_t last = group->enter[0];
    for (unsigned m = 1; m < group->count; m++)
        last = group->enter[m] > last ? group->enter[m] : last;
    double ring = 2.0 * (group->count - 1) / group->count;
    double end = (double)last + group->latency + ring * transfer(stage, action->bytes, group->weak);
    unsigned outlier = scene_uniform(&random) < stage->rules.outliers
                           ? (unsigned)(scene_uniform(&random) * group->count)
                           : group->count;
    for (unsigned m = 0; m < group->count; m++) {
        unsigned rank = member_rank(group, m);
        struct actor *actor = &stage->actors[rank];
        double late = m == outlier ? -OUTLIER_NS * log(1 - scene_uniform(&random)) : 0;
        int64_t leave = (int64_t)(end + scene_uniform(&random) * stage->rules.latency / 4 + late);
        struct record record = of_collective(stage, rank, action, group->enter[m], leave);
        if (stage->rules.gpu) {
            record.kind = RECORD_GPU;
            record.tag = 0;
        }
        put(stage, rank, stage->rules.gpu ? DEVICE_LANE : HOST_LANE, &record);
        actor->now = leave;
        actor->released = true;
        wake(stage, rank);
    }
    group->arrived = 0;
    group->seq++;
}

static bool meet(struct stage *stage, unsigned rank, const struct action *action) {
    struct actor *actor = &stage->actors[rank];
    struct group *group = &stage->groups[action->group];
    if (actor->released)
        return true;
    if (actor->entered)
        return false;
    actor->entered = true;
    actor->op++;
    if (stage->rules.gpu) {
        struct record post = of_collective(stage, rank, action, actor->host, actor->host + 4 * CALL_NS);
        post.kind = RECORD_POST;
        put(stage, rank, HOST_LANE, &post);
        actor->host += 4 * CALL_NS;
        if (actor->now < actor->host + LAUNCH_NS)
            actor->now = actor->host + LAUNCH_NS;
    }
    group->enter[(rank - group->start) / group->stride] = actor->now;
    if (++group->arrived < group->count)
        return false;
    leave_all(stage, group, action);
    return actor->released;
}

/* ---- messages -------------------------------------------------------------------------------- */

static size_t channel_place(const struct stage *stage, uint32_t group, unsigned from, unsigned to, int32_t tag) {
    uint64_t state = ((uint64_t)from << 40) + ((uint64_t)to << 16) + (uint64_t)tag + group * UINT64_C(0x10001000100);
    size_t at = scene_random(&state) & (stage->channel_room - 1);
    for (struct channel *c; (c = stage->channels[at]) != NULL; at = (at + 1) & (stage->channel_room - 1))
        if (c->group == group && c->from == from && c->to == to && c->tag == tag)
            break;
    return at;
}

static struct channel *find_channel(struct stage *stage, uint32_t group, unsigned from, unsigned to, int32_t tag) {
    if (2 * stage->channel_count >= stage->channel_room) {
        struct channel **old = stage->channels;
        size_t room = stage->channel_room;
        stage->channel_room = room ? room * 2 : 256;
        stage->channels = checked(calloc(stage->channel_room, sizeof *stage->channels));
        for (size_t i = 0; i < room; i++)
            if (old[i])
                stage->channels[channel_place(stage, old[i]->group, old[i]->from, old[i]->to, old[i]->tag)] = old[i];
        free(old);
    }
    size_t at = channel_place(stage, group, from, to, tag);
    if (!stage->channels[at]) {
        stage->channels[at] = checked(calloc(1, sizeof *stage->channels[at]));
        *stage->channels[at] = (struct channel){.group = group, .from = from, .to = to, .tag = tag};
        stage->channel_count++;
    }
    return stage->channels[at];
}

static struct message *message_of(struct channel *channel, uint32_t ordinal) {
    while (ordinal >= channel->room) {
        size_t room = channel->room ? channel->room * 2 : 64;
        channel->messages = checked(realloc(channel->messages, room * sizeof *channel->messages));
        for (size_t i = channel->room; i < room; i++)
            channel->messages[i] = (struct message){UNKNOWN, UNKNOWN, 0};
        channel->room = room;
    }
    return &channel->messages[ordinal];
}

/* When a half is done, UNKNOWN while that depends on what has not happened yet. */
static int64_t done_at(const struct stage *stage, const struct request *request) {
    const struct channel *channel = request->channel;
    const struct message *m = &channel->messages[request->ordinal];
    const struct group *group = &stage->groups[channel->group];
    unsigned from = member_rank(group, channel->from), to = member_rank(group, channel->to);
    double move = latency(stage, from, to) + transfer(stage, m->bytes, is_slow_pair(stage, from, to));
    bool buffered = m->bytes <= EAGER_BYTES;
    if (request->send && buffered)
        return m->sent + CALL_NS;
    if (m->sent == UNKNOWN || m->received == UNKNOWN)
        return UNKNOWN;
    if (!buffered)
        return (m->sent > m->received ? m->sent : m->received) + (int64_t)move;
    int64_t there = m->sent + (int64_t)move;
    return (there > m->received ? there : m->received) + CALL_NS;
}

static struct request post(struct stage *stage, unsigned rank, const struct action *action) {
    struct actor *actor = &stage->actors[rank];
    const struct group *group = &stage->groups[action->group];
    bool send = action->act == ACT_SEND || action->act == ACT_ISEND;
    unsigned me = (rank - group->start) / group->stride, peer = (unsigned)action->peer;
    struct channel *channel = find_channel(stage, action->group, send ? me : peer, send ? peer : me, action->tag);
    uint32_t ordinal = send ? channel->sends++ : channel->receives++;
    struct message *message = message_of(channel, ordinal);
    *(send ? &message->sent : &message->received) = actor->now;
    message->bytes = action->bytes;
    wake(stage, member_rank(group, peer));
    return (struct request){channel, ordinal, ++actor->op, send, actor->now};
}

static struct request *new_request(struct actor *actor) {
    if (actor->request_count == actor->request_room) {
        actor->request_room = actor->request_room ? actor->request_room * 2 : 16;
        actor->requests = checked(realloc(actor->requests, actor->request_room * sizeof *actor->requests));
    }
    return &actor->requests[actor->request_count++];
}

static bool exchange(struct stage *stage, unsigned rank, const struct action *action) {
    struct actor *actor = &stage->actors[rank];
    if (!actor->entered) {
        actor->entered = true;
        *new_request(actor) = post(stage, rank, action);
    }
    struct request *request = &actor->requests[actor->request_count - 1];
    int64_t done = done_at(stage, request);
    if (done == UNKNOWN)
        return false;
    struct record record =
        of_message(stage, rank, request, request->send ? BUILDER_SEND : BUILDER_RECV, request->post, done);
    put(stage, rank, HOST_LANE, &record);
    actor->now = done;
    actor->request_count--;
    return true;
}

static void begin_exchange(struct stage *stage, unsigned rank, const struct action *action) {
    struct actor *actor = &stage->actors[rank];
    struct request *request = new_request(actor);
    *request = post(stage, rank, action);
    struct record record = of_message(stage, rank, request, request->send ? BUILDER_ISEND : BUILDER_IRECV, actor->now,
                                      actor->now + CALL_NS);
    record.kind = RECORD_POST;
    put(stage, rank, HOST_LANE, &record);
    actor->now += CALL_NS;
}

static bool wait_all(struct stage *stage, unsigned rank) {
    struct actor *actor = &stage->actors[rank];
    int64_t leave = actor->now + CALL_NS;
    for (size_t i = 0; i < actor->request_count; i++) {
        int64_t done = done_at(stage, &actor->requests[i]);
        if (done == UNKNOWN)
            return false;
        leave = done + CALL_NS > leave ? done + CALL_NS : leave;
    }
    for (size_t i = 0; i < actor->request_count; i++) {
        const struct request *request = &actor->requests[i];
        struct record record =
            of_message(stage, rank, request, request->send ? BUILDER_ISEND : BUILDER_IRECV, request->post, leave);
        record.kind = RECORD_DONE;
        put(stage, rank, HOST_LANE, &record);
    }
    struct record record = blank(stage, rank, BUILDER_WAITALL, actor->now, leave);
    put(stage, rank, HOST_LANE, &record);
    actor->request_count = 0;
    actor->now = leave;
    return true;
}

/* ---- playing --------------------------------------------------------------------------------- */

/* False: not before another rank has come. */
static bool perform(struct stage *stage, unsigned rank, const struct action *action) {
    struct actor *actor = &stage->actors[rank];
    switch (action->act) {
    case ACT_WORK:
        if (stage->rules.gpu && actor->now < actor->host + LAUNCH_NS)
            actor->now = actor->host + LAUNCH_NS;
        actor->now += action->ns > 1 ? action->ns : 1;
        return true;
    case ACT_HOST:
        actor->host += action->ns;
        return true;
    case ACT_SYNC:
        actor->host = actor->now > actor->host ? actor->now : actor->host;
        return true;
    case ACT_COLLECTIVE:
        return meet(stage, rank, action);
    case ACT_SEND:
    case ACT_RECEIVE:
        return exchange(stage, rank, action);
    case ACT_ISEND:
    case ACT_IRECEIVE:
        begin_exchange(stage, rank, action);
        return true;
    case ACT_WAIT_ALL:
        return wait_all(stage, rank);
    }
    return true;
}

static void advance(struct stage *stage, unsigned rank) {
    struct actor *actor = &stage->actors[rank];
    for (;;) {
        if (actor->at == actor->script.count) {
            if (actor->step == stage->steps)
                return;
            if (actor->step % (stage->steps / ANCHOR_STEPS + 1) == 0)
                take_anchor(stage, rank, actor->now);
            actor->began[actor->step] = actor->now;
            actor->script.count = actor->at = 0;
            stage->write(stage->context, rank, actor->step++, &actor->script);
            continue;
        }
        if (!perform(stage, rank, &actor->script.items[actor->at]))
            return;
        actor->entered = actor->released = false;
        actor->at++;
    }
}

static void finish(struct stage *stage, unsigned rank) {
    struct actor *actor = &stage->actors[rank];
    struct dump_header *header = dump_builder_header(actor->builder);
    if (actor->at != actor->script.count || actor->step != stage->steps) {
        fprintf(stderr, "actors: rank %u cannot go on: the scripts do not fit together\n", rank);
        abort();
    }
    int64_t end = actor->now > actor->host ? actor->now : actor->host;
    take_anchor(stage, rank, end + CALL_NS);
    header->finalise_ticks = shown(stage, rank, end + CALL_NS);
    header->finalised_ticks = header->exited_ticks = shown(stage, rank, end + 2 * CALL_NS);
    header->state |= STATE_FINALISING | STATE_FINALISED | STATE_EXITED;
}

void stage_play(struct stage *stage, unsigned steps,
                void (*write)(void *context, unsigned rank, unsigned step, struct script *script), void *context) {
    stage->steps = steps;
    stage->write = write;
    stage->context = context;
    for (unsigned r = stage->rules.ranks; r-- > 0;) {
        stage->actors[r].began = checked(calloc(steps + 1, sizeof *stage->actors[r].began));
        wake(stage, r);
    }
    while (stage->queued > 0) {
        unsigned rank = stage->queue[--stage->queued];
        stage->actors[rank].queued = false;
        advance(stage, rank);
    }
    for (unsigned r = 0; r < stage->rules.ranks; r++)
        finish(stage, r);
    for (size_t g = 0; g < stage->group_count; g++)
        for (unsigned m = 0; m < stage->groups[g].count; m++) {
            unsigned rank = member_rank(&stage->groups[g], m);
            struct progress *row = dump_builder_progress(stage->actors[rank].builder, stage->groups[g].local[m]);
            row->enqueued = row->started = row->completed = stage->groups[g].seq;
        }
}

int64_t stage_step_began(const struct stage *stage, unsigned rank, unsigned step) {
    return stage->actors[rank].began[step];
}

/* ---- making and opening ---------------------------------------------------------------------- */

static void make_actor(struct stage *stage, unsigned rank) {
    const struct actor_rules *rules = &stage->rules;
    struct dump_plan plan = {.rank = (int32_t)rank,
                             .world_size = (int32_t)rules->ranks,
                             .lanes = rules->gpu ? 2 : 1,
                             .ring_records = rules->ring_records,
                             .compact_lanes = rules->compact ? 1u << HOST_LANE : 0,
                             .windows = rules->windows,
                             .devices = rules->gpu};
    struct dump_builder *builder = stage->actors[rank].builder = dump_builder_new(&plan);
    char host[32], boot[40];
    snprintf(host, sizeof host, "node%u", stage_host(stage, rank));
    snprintf(boot, sizeof boot, "00000000-0000-4000-8000-%012u", stage_host(stage, rank));
    dump_builder_host(builder, host, boot, 4026531834u);
    dump_builder_standard_calls(builder);
    struct dump_header *header = dump_builder_header(builder);
    header->activated_ticks = header->initialised_ticks = shown(stage, rank, 0);
    header->process_start_realtime_ns = REALTIME;
    dump_builder_lane(builder, HOST_LANE)->trace_window_level = rules->trace_window_level;
    if (rules->gpu) {
        header->mpi_family = 0;
        header->gpu_timing = GPU_TIMING_EVENTS;
        dump_builder_lane(builder, DEVICE_LANE)->device = 1;
        dump_builder_device(builder, shown(stage, rank, 0), 2000);
    }
}

struct stage *stage_new(const struct actor_rules *rules) {
    struct stage *stage = checked(calloc(1, sizeof *stage));
    stage->rules = *rules;
    stage->actors = checked(calloc(rules->ranks, sizeof *stage->actors));
    stage->queue = checked(calloc(rules->ranks, sizeof *stage->queue));
    for (unsigned r = 0; r < rules->ranks; r++)
        make_actor(stage, r);
    stage_group(stage, "MPI_COMM_WORLD", 0, rules->ranks, 1);
    return stage;
}

uint32_t stage_group(struct stage *stage, const char *name, unsigned start, unsigned count, unsigned stride) {
    stage->groups = checked(realloc(stage->groups, (stage->group_count + 1) * sizeof *stage->groups));
    struct group *group = &stage->groups[stage->group_count];
    *group = (struct group){.start = start,
                            .count = count,
                            .stride = stride,
                            .local = checked(calloc(count, sizeof *group->local)),
                            .enter = checked(calloc(count, sizeof *group->enter))};
    struct member_run run = {(int32_t)start, count, (int32_t)stride};
    for (unsigned m = 0; m < count; m++) {
        struct dump_builder *builder = stage->actors[member_rank(group, m)].builder;
        group->local[m] = stage->group_count == 0 ? dump_builder_world(builder)
                                                  : dump_builder_communicator(builder, 0xabc000 + stage->group_count,
                                                                              name, (int32_t)m, &run, 1);
        unsigned next = member_rank(group, (m + 1) % count);
        group->weak |= count > 1 && is_slow_pair(stage, member_rank(group, m), next);
        group->latency = fmax(group->latency, latency(stage, member_rank(group, m), next));
    }
    return (uint32_t)stage->group_count++;
}

struct dump_builder *stage_builder(struct stage *stage, unsigned rank) {
    return stage->actors[rank].builder;
}

struct dump **stage_open(struct stage *stage) {
    stage->dumps = checked(calloc(stage->rules.ranks, sizeof *stage->dumps));
    for (unsigned r = 0; r < stage->rules.ranks; r++) {
        size_t bytes;
        const void *data = dump_builder_data(stage->actors[r].builder, &bytes);
        stage->dumps[r] = dump_open_buffer("scene", data, bytes);
        if (!stage->dumps[r] || !stage->dumps[r]->header) {
            fputs("actors: a dump cannot be opened\n", stderr);
            abort();
        }
    }
    return stage->dumps;
}

int stage_write(struct stage *stage, const char *directory) {
    for (unsigned r = 0; r < stage->rules.ranks; r++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/commtap.scene.%016x.ct", directory, r);
        if (dump_builder_write(stage->actors[r].builder, path, 0))
            return -1;
    }
    return 0;
}

void stage_free(struct stage *stage) {
    for (unsigned r = 0; r < stage->rules.ranks; r++) {
        if (stage->dumps && stage->dumps[r])
            dump_close(stage->dumps[r]);
        dump_builder_free(stage->actors[r].builder);
        free(stage->actors[r].script.items);
        free(stage->actors[r].requests);
        free(stage->actors[r].began);
    }
    for (size_t g = 0; g < stage->group_count; g++) {
        free(stage->groups[g].local);
        free(stage->groups[g].enter);
    }
    for (size_t i = 0; i < stage->channel_room; i++)
        if (stage->channels[i]) {
            free(stage->channels[i]->messages);
            free(stage->channels[i]);
        }
    free(stage->channels);
    free(stage->groups);
    free(stage->actors);
    free(stage->queue);
    free(stage->dumps);
    free(stage);
}
