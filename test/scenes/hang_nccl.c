/* SPDX-License-Identifier: Apache-2.0
 *
 * Playing jobs that hang on GPUs.
 * Lives here: a host's program per rank, its streams, CUDA's and NCCL's rules for what begins and ends, what the shim
 * would have written.
 * Must not live here: graphs, hashes of the shim's, anything else of the analyzer's.
 */
#include "test/scenes/hang_nccl.h"

#include <stdio.h>
#include <stdlib.h>

#include "test/scenes/scene.h"

enum { COMMS = 3, STREAMS = 2, HASHES = 64, MESSAGE_TAG = 44, DEVICE_LANE = 1, GUILTY_BELOW = 64 };

enum work_kind { WORK_KERNEL, WORK_STUCK, WORK_NCCL };

/* One entry of a stream. */
struct work {
    enum work_kind kind;
    unsigned comm;
    uint16_t call;
    uint8_t dtype, redop;
    int32_t root;
    uint64_t bytes;
    bool broken; /* the network lost something of it */
    uint32_t seq;
};

enum host_kind {
    HOST_ENQUEUE, /* returns at once */
    HOST_SYNC,    /* until the stream is empty: the job's own code, for the shim */
    HOST_BARRIER, /* MPI_Barrier */
    HOST_RECEIVE, /* MPI_Recv from `peer`, who never sends */
    HOST_HALT,    /* stays in its own code */
};

struct step {
    enum host_kind kind;
    unsigned stream;
    struct work work;
    int32_t peer;
};

struct stream {
    struct work *works;
    size_t first, end, room; /* those that have not ended */
    bool begun;              /* the first one */
};

struct actor {
    struct step *steps;
    size_t count, room, at;
    bool entered; /* a barrier or a receive */
    struct stream streams[STREAMS];
    struct progress *progress[COMMS];
    uint64_t hash[COMMS], enqueued[COMMS], started[COMMS], completed[COMMS], clock;
    uint32_t barriers;
};

/* A collective as the GPUs see it. */
struct instance {
    struct work first; /* as the first to begin it was told */
    unsigned begun;
    bool differs;
};

struct play {
    const struct hang_scene *scene;
    struct hang_job *job;
    struct actor *actors;
    struct instance *instances[COMMS];
    size_t instance_room;
    uint64_t random;
    unsigned in_barrier;
    bool mixed; /* MPI as well: its world is communicator 0 of every dump */
    bool one_stream, untimed;
};

static void *need(void *memory) {
    if (memory)
        return memory;
    fputs("hang scene: no memory\n", stderr);
    abort();
}

static unsigned draw(struct play *play, unsigned below) {
    return (unsigned)(scene_random(&play->random) % below);
}

/* 0 and 1: everybody; 2: the even ranks. */
static bool is_member(unsigned comm, unsigned rank) {
    return comm < 2 || rank % 2 == 0;
}

static unsigned size_of(const struct play *play, unsigned comm) {
    return comm < 2 ? play->scene->ranks : (play->scene->ranks + 1) / 2;
}

static uint64_t uid_of(unsigned comm) {
    return UINT64_C(0x7777000000000000) + comm;
}

static uint32_t local_of(const struct play *play, unsigned comm) {
    return comm + play->mixed;
}

/* ---- writing the program --------------------------------------------------------------------- */

static void add_step(struct play *play, unsigned rank, struct step step) {
    struct actor *actor = &play->actors[rank];
    if (actor->count == actor->room) {
        actor->room = actor->room ? 2 * actor->room : 32;
        actor->steps = need(realloc(actor->steps, actor->room * sizeof *actor->steps));
    }
    actor->steps[actor->count++] = step;
}

static void add_everybody(struct play *play, struct step step) {
    for (unsigned r = 0; r < play->scene->ranks; r++)
        if (step.kind != HOST_ENQUEUE || step.work.kind != WORK_NCCL || is_member(step.work.comm, r))
            add_step(play, r, step);
}

/* A communicator's collectives all go to the same stream. `number` makes each unlike its neighbours. */
static struct step collective(struct play *play, unsigned comm, unsigned number) {
    static const uint16_t calls[] = {BUILDER_NCCL_ALL_REDUCE, BUILDER_NCCL_ALL_GATHER, BUILDER_NCCL_BROADCAST};
    uint16_t call = calls[draw(play, 3)];
    bool reduces = call == BUILDER_NCCL_ALL_REDUCE, rooted = call == BUILDER_NCCL_BROADCAST;
    return (struct step){.kind = HOST_ENQUEUE,
                         .stream = play->one_stream ? 0 : comm % STREAMS,
                         .work = {.kind = WORK_NCCL,
                                  .comm = comm,
                                  .call = call,
                                  .dtype = DATATYPE_FLOAT,
                                  .redop = reduces ? REDOP_SUM : REDOP_NONE,
                                  .root = rooted ? 0 : PEER_NONE,
                                  .bytes = 4 * (uint64_t)(number + 1)}};
}

static void add_events(struct play *play, unsigned count, unsigned first) {
    for (unsigned i = 0; i < count; i++) {
        unsigned stream = draw(play, STREAMS);
        add_everybody(play, (struct step){.kind = HOST_ENQUEUE, .stream = stream, .work = {.kind = WORK_KERNEL}});
        add_everybody(play, collective(play, draw(play, COMMS), first + i));
        if (draw(play, 4) == 0)
            add_everybody(play, (struct step){.kind = HOST_SYNC, .stream = stream});
        if (play->mixed && draw(play, 4) == 0)
            add_everybody(play, (struct step){.kind = HOST_BARRIER});
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void blame(struct play *play, unsigned rank, enum culprit_state state) {
    play->job->guilty[rank] = true;
    play->job->state = state;
    play->job->stated = true;
}

static void add_wrong(struct play *play, unsigned guilty) {
    struct step right = collective(play, 0, 7000), wrong;
    right.work.call = BUILDER_NCCL_ALL_REDUCE;
    right.work.redop = REDOP_SUM;
    right.work.root = PEER_NONE;
    if (play->scene->fault == FAULT_NCCL_ROOT) {
        right.work.call = BUILDER_NCCL_BROADCAST;
        right.work.redop = REDOP_NONE;
        right.work.root = 0;
    }
    wrong = right;
    switch (play->scene->fault) {
    case FAULT_NCCL_OPERATION:
        wrong.work.call = BUILDER_NCCL_ALL_GATHER;
        wrong.work.redop = REDOP_NONE;
        break;
    case FAULT_NCCL_COUNT:
        wrong.work.bytes += 4;
        break;
    case FAULT_NCCL_DTYPE:
        wrong.work.dtype = DATATYPE_INT32;
        break;
    default:
        wrong.work.root = 1;
    }
    for (unsigned r = 0; r < play->scene->ranks; r++)
        add_step(play, r, r == guilty ? wrong : right);
    blame(play, guilty, CULPRIT_MISMATCH);
    play->job->verdict = VERDICT_DESYNC;
}

static void add_swap(struct play *play, unsigned guilty) {
    struct step a = collective(play, 0, 7000), b = collective(play, 1, 7001);
    for (unsigned r = 0; r < play->scene->ranks; r++) {
        add_step(play, r, r == guilty ? b : a);
        add_step(play, r, r == guilty ? a : b);
    }
    play->job->guilty[guilty] = true;
    play->job->verdict = VERDICT_DEADLOCK;
    play->job->on_gpus = true;
}

static void add_skip(struct play *play, unsigned guilty) {
    struct step left_out = collective(play, 0, 7000), next;
    left_out.work.call = BUILDER_NCCL_ALL_REDUCE;
    left_out.work.redop = REDOP_SUM;
    left_out.work.root = PEER_NONE;
    next = left_out;
    next.work.call = BUILDER_NCCL_ALL_GATHER;
    next.work.redop = REDOP_NONE;
    for (unsigned r = 0; r < play->scene->ranks; r++)
        if (r != guilty)
            add_step(play, r, left_out);
    add_everybody(play, next);
    blame(play, guilty, CULPRIT_MISMATCH);
    play->job->verdict = VERDICT_DESYNC;
}

/* The guilty one's host sits in a receive from `other`, before a collective in which the GPUs of all others are. */
static void add_circle(struct play *play, unsigned guilty, unsigned other) {
    add_step(play, guilty, (struct step){.kind = HOST_RECEIVE, .peer = (int32_t)other});
    add_everybody(play, collective(play, 0, 7000));
    add_everybody(play, (struct step){.kind = HOST_SYNC, .stream = 0});
    play->job->guilty[guilty] = play->job->guilty[other] = true;
    play->job->verdict = VERDICT_DEADLOCK;
    play->job->on_gpus = true;
    play->job->in_circle = true;
}

/* The guilty one never comes to the even ranks' collective; one of these waits for its GPU, all others in a barrier. */
static void add_chain(struct play *play) {
    unsigned guilty = 2 * draw(play, 2);
    struct step step = collective(play, 2, 7000);
    add_step(play, guilty, (struct step){.kind = HOST_HALT});
    add_everybody(play, step);
    add_step(play, 2 - guilty, (struct step){.kind = HOST_SYNC, .stream = step.stream});
    add_everybody(play, (struct step){.kind = HOST_BARRIER});
    blame(play, guilty, CULPRIT_IN_USER_CODE);
    play->job->verdict = VERDICT_HANG;
}

static void add_fault(struct play *play) {
    struct hang_job *job = play->job;
    unsigned ranks = play->scene->ranks, guilty = draw(play, ranks < GUILTY_BELOW ? ranks : GUILTY_BELOW);
    unsigned other = (guilty + 1 + draw(play, (ranks < GUILTY_BELOW ? ranks : GUILTY_BELOW) - 1)) %
                     (ranks < GUILTY_BELOW ? ranks : GUILTY_BELOW);
    struct step step = collective(play, 0, 7000);
    job->verdict = VERDICT_HANG;
    switch (play->scene->fault) {
    case FAULT_NCCL_STOP:
    case FAULT_NCCL_DIE:
    case FAULT_NCCL_NO_DUMP:
        job->dies = play->scene->fault == FAULT_NCCL_DIE;
        job->lost = play->scene->fault == FAULT_NCCL_NO_DUMP;
        add_step(play, guilty, (struct step){.kind = HOST_HALT});
        blame(play, guilty, job->dies ? CULPRIT_DEAD : job->lost ? CULPRIT_NO_DUMP : CULPRIT_IN_USER_CODE);
        job->verdict = job->dies || job->lost ? VERDICT_DEAD_RANK : VERDICT_HANG;
        break;
    case FAULT_NCCL_STREAM:
        add_step(play, guilty,
                 (struct step){.kind = HOST_ENQUEUE, .stream = step.stream, .work = {.kind = WORK_STUCK}});
        blame(play, guilty, CULPRIT_BLOCKED);
        break;
    case FAULT_NCCL_TRANSPORT:
        step.work.broken = true;
        break;
    case FAULT_NCCL_SKIP:
        add_skip(play, guilty);
        break;
    case FAULT_NCCL_SWAP:
        add_swap(play, guilty);
        break;
    case FAULT_MIXED_CIRCLE:
        add_circle(play, guilty, other);
        break;
    case FAULT_MIXED_CHAIN:
        add_chain(play);
        break;
    case FAULT_NCCL_NONE:
        job->verdict = VERDICT_OK;
        break;
    default:
        add_wrong(play, guilty);
    }
    add_everybody(play, step);
    add_everybody(play, (struct step){.kind = HOST_SYNC, .stream = step.stream});
}

/* ---- what the shim writes -------------------------------------------------------------------- */

static struct dump_builder *builder_of(const struct play *play, unsigned rank) {
    return play->job->builders[rank];
}

static void define(struct play *play, unsigned rank) {
    struct actor *actor = &play->actors[rank];
    const struct member_run all = {0, play->scene->ranks, 1}, even = {0, size_of(play, 2), 2};
    if (play->mixed) {
        dump_builder_world(builder_of(play, rank));
        dump_builder_progress(builder_of(play, rank), 0)->prefix_hash = BUILDER_WORLD_UID;
    }
    for (unsigned c = 0; c < COMMS; c++) {
        if (!is_member(c, rank))
            continue;
        uint32_t local = dump_builder_communicator(builder_of(play, rank), uid_of(c), c == 0 ? "ddp" : NULL,
                                                   (int32_t)(c < 2 ? rank : rank / 2), c < 2 ? &all : &even, 1);
        actor->progress[c] = dump_builder_progress(builder_of(play, rank), local);
        actor->progress[c]->prefix_hash = actor->progress[c]->recent[0] = actor->hash[c] = uid_of(c);
    }
}

/* The host has enqueued it. Any hash will do that has equal values for equal histories. */
static void write_enqueued(struct play *play, unsigned rank, const struct work *work) {
    struct actor *actor = &play->actors[rank];
    struct progress *p = actor->progress[work->comm];
    uint64_t seed = actor->hash[work->comm] ^ work->call * UINT64_C(0x100000001b3) ^
                    (work->bytes + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uint32_t)work->root << 17 ^
                    (uint64_t)(work->dtype * 31 + work->redop) << 40;
    uint64_t k = ++actor->enqueued[work->comm], h = actor->hash[work->comm] = scene_random(&seed);
    p->enqueued = p->hashed = k;
    p->last_call = work->call;
    p->last_enter = actor->clock;
    p->prefix_hash = p->recent[k % HASHES] = h;
    if (k % 64 == 0)
        p->every[k / 64 % HASHES] = h;
    for (unsigned i = 0; i < 32; i++)
        if (k == UINT64_C(1) << i)
            p->powers[i] = h;
    if (play->untimed)
        p->started = p->completed = k;
    dump_builder_record(builder_of(play, rank), 0,
                        &(struct record){.kind = RECORD_POST,
                                         .call = work->call,
                                         .comm = local_of(play, work->comm),
                                         .seq = (uint32_t)k - 1,
                                         .op = (uint32_t)(actor->clock / 100),
                                         .bytes = work->bytes,
                                         .peer = work->root,
                                         .tag = TAG_NONE,
                                         .dtype = work->dtype,
                                         .redop = work->redop,
                                         .flags = FLAG_COLLECTIVE,
                                         .t0 = actor->clock,
                                         .t1 = actor->clock + 10});
}

static void write_started(struct play *play, unsigned rank, const struct work *work) {
    uint64_t k = ++play->actors[rank].started[work->comm];
    if (!play->untimed)
        play->actors[rank].progress[work->comm]->started = k;
}

static void write_completed(struct play *play, unsigned rank, const struct work *work) {
    struct actor *actor = &play->actors[rank];
    uint64_t k = ++actor->completed[work->comm];
    if (play->untimed)
        return;
    actor->progress[work->comm]->completed = k;
    dump_builder_record(builder_of(play, rank), DEVICE_LANE,
                        &(struct record){.kind = RECORD_GPU,
                                         .call = work->call,
                                         .comm = local_of(play, work->comm),
                                         .seq = (uint32_t)k - 1,
                                         .bytes = work->bytes,
                                         .peer = work->root,
                                         .tag = TAG_NONE,
                                         .dtype = work->dtype,
                                         .redop = work->redop,
                                         .flags = FLAG_COLLECTIVE,
                                         .t0 = actor->clock,
                                         .t1 = actor->clock + 50});
    struct operation_row *rows = dump_builder_contents(builder_of(play, rank), SECTION_OPERATIONS, DEVICE_LANE);
    unsigned at = 0;
    while (rows[at].version && rows[at].call != work->call)
        at++;
    struct operation_row *row =
        rows[at].version ? &rows[at] : dump_builder_operation(builder_of(play, rank), DEVICE_LANE);
    row->call = work->call;
    row->source = SOURCE_GPU_EVENT | SOURCE_SIZE_CLASS;
    row->comm_epoch = ROW_COMM_NONE;
    dump_builder_count(row, work->bytes, 50);
}

static void write_barrier(struct play *play, unsigned rank, bool left) {
    struct actor *actor = &play->actors[rank];
    struct progress *p = dump_builder_contents(builder_of(play, rank), SECTION_PROGRESS, 0);
    uint64_t seed = p->prefix_hash ^ BUILDER_BARRIER;
    if (!left) {
        p->enqueued = p->started = actor->barriers + 1;
        p->last_call = BUILDER_BARRIER;
        p->last_enter = actor->clock;
        return;
    }
    uint64_t k = ++actor->barriers;
    p->completed = p->hashed = k;
    p->prefix_hash = p->recent[k % HASHES] = scene_random(&seed);
    struct record *r = dump_builder_collective(builder_of(play, rank), 0, BUILDER_BARRIER, 0, (uint32_t)k - 1, 0,
                                               actor->clock, actor->clock + 10);
    r->flags |= FLAG_COLLECTIVE;
}

/* ---- CUDA's and NCCL's rules ------------------------------------------------------------------- */

static bool is_told_the_same(const struct work *a, const struct work *b) {
    return a->call == b->call && a->bytes == b->bytes && a->dtype == b->dtype && a->redop == b->redop &&
           a->root == b->root;
}

static struct instance *instance_of(struct play *play, const struct work *work) {
    if (work->seq >= play->instance_room) {
        fputs("hang scene: too many collectives\n", stderr);
        abort();
    }
    return &play->instances[work->comm][work->seq];
}

static void push(struct stream *stream, struct work work) {
    if (stream->end == stream->room) {
        stream->room = stream->room ? 2 * stream->room : 16;
        stream->works = need(realloc(stream->works, stream->room * sizeof *stream->works));
    }
    stream->works[stream->end++] = work;
}

static void pop(struct stream *stream) {
    stream->first++;
    stream->begun = false;
}

/* What is first in a stream begins, and ends if it can. True when something changed. */
static bool advance_stream(struct play *play, unsigned rank, struct stream *stream) {
    if (stream->first == stream->end || stream->works[stream->first].kind == WORK_STUCK)
        return false;
    const struct work *work = &stream->works[stream->first];
    if (work->kind == WORK_KERNEL) {
        pop(stream);
        return true;
    }
    struct instance *instance = instance_of(play, work);
    bool changed = !stream->begun;
    if (!stream->begun) {
        stream->begun = true;
        instance->first = instance->begun++ ? instance->first : *work;
        instance->differs |= work->broken || !is_told_the_same(work, &instance->first);
        write_started(play, rank, work);
    }
    if (instance->differs || instance->begun < size_of(play, work->comm))
        return changed;
    write_completed(play, rank, work);
    pop(stream);
    return true;
}

static bool advance_host(struct play *play, unsigned rank) {
    struct actor *actor = &play->actors[rank];
    struct step *step = actor->at < actor->count ? &actor->steps[actor->at] : NULL;
    if (!step || step->kind == HOST_HALT)
        return false;
    actor->clock += 100;
    if (step->kind == HOST_ENQUEUE) {
        if (step->work.kind == WORK_NCCL) {
            step->work.seq = (uint32_t)actor->enqueued[step->work.comm];
            write_enqueued(play, rank, &step->work);
        }
        push(&actor->streams[step->stream], step->work);
    } else if (step->kind == HOST_SYNC) {
        if (actor->streams[step->stream].first < actor->streams[step->stream].end)
            return false;
    } else {
        bool changed = !actor->entered;
        if (changed && step->kind == HOST_BARRIER) {
            play->in_barrier++;
            write_barrier(play, rank, false);
        }
        actor->entered = true;
        /* barrier number b is over when all have entered it, which is b + 1 times everybody */
        if (step->kind == HOST_RECEIVE || play->in_barrier < (actor->barriers + 1) * play->scene->ranks)
            return changed;
        write_barrier(play, rank, true);
        actor->entered = false;
    }
    actor->at++;
    return true;
}

static void run_for(struct play *play) {
    for (unsigned i = 0; i < play->scene->moments; i++) {
        unsigned rank = draw(play, play->scene->ranks), what = draw(play, 1 + STREAMS);
        if (what < STREAMS)
            advance_stream(play, rank, &play->actors[rank].streams[what]);
        else
            advance_host(play, rank);
    }
}

static void run(struct play *play) {
    for (bool changed = true; changed;) {
        changed = false;
        for (unsigned r = 0; r < play->scene->ranks; r++) {
            while (advance_host(play, r))
                changed = true;
            for (unsigned s = 0; s < STREAMS; s++)
                while (advance_stream(play, r, &play->actors[r].streams[s]))
                    changed = true;
        }
    }
}

/* ---- from the play to the job ------------------------------------------------------------------ */

static void write_end(struct play *play, unsigned rank) {
    const struct actor *actor = &play->actors[rank];
    const struct step *step = actor->at < actor->count ? &actor->steps[actor->at] : NULL;
    struct in_flight *slot = dump_builder_in_flight(builder_of(play, rank));
    *slot =
        (struct in_flight){.tid = slot->tid, .comm = COMM_NONE, .seq = SEQ_NONE, .peer = PEER_NONE, .tag = TAG_NONE};
    slot->last_leave = slot->enter = actor->clock;
    if (!step) {
        dump_builder_header(builder_of(play, rank))->state |= STATE_FINALISING | STATE_FINALISED | STATE_EXITED;
    } else if (step->kind == HOST_BARRIER || step->kind == HOST_RECEIVE) {
        bool barrier = step->kind == HOST_BARRIER;
        slot->call = barrier ? BUILDER_BARRIER : BUILDER_RECV;
        slot->flags = barrier ? FLAG_COLLECTIVE : FLAG_RECV;
        slot->comm = 0;
        slot->seq = barrier ? actor->barriers : 0;
        slot->peer = barrier ? PEER_NONE : step->peer;
        slot->tag = barrier ? TAG_NONE : MESSAGE_TAG;
    }
}

static void make_builders(struct play *play) {
    for (unsigned r = 0; r < play->scene->ranks; r++) {
        const struct dump_plan plan = {.rank = (int32_t)r,
                                       .world_size = (int32_t)play->scene->ranks,
                                       .ring_records = play->scene->ring_records,
                                       .lanes = 2,
                                       .devices = 1};
        play->job->builders[r] = dump_builder_new(&plan);
        dump_builder_standard_calls(builder_of(play, r));
        dump_builder_anchor(builder_of(play, r), 0, 0, 1000000000, 0);
        dump_builder_device(builder_of(play, r), 0, 1000);
        dump_builder_lane(builder_of(play, r), DEVICE_LANE)->device = 1;
        struct dump_header *header = dump_builder_header(builder_of(play, r));
        header->mpi_family = play->mixed;
        header->gpu_timing = play->untimed ? GPU_TIMING_HOST : GPU_TIMING_EVENTS;
        header->nccl_version = 22809;
        play->actors[r].clock = 1000;
        define(play, r);
    }
}

void hang_nccl_play(struct hang_job *job, const struct hang_scene *scene) {
    struct play play = {.scene = scene, .job = job, .random = scene->seed * 2654435761u + 29};
    play.mixed = scene->fault >= FAULT_MIXED_CIRCLE;
    play.one_stream = scene->fault == FAULT_NCCL_SWAP || draw(&play, 2) == 0;
    play.untimed = scene->fault == FAULT_NCCL_STOP && draw(&play, 3) == 0;
    play.instance_room = scene->before + scene->after + 8;
    job->builders = need(calloc(scene->ranks, sizeof *job->builders));
    play.actors = need(calloc(scene->ranks, sizeof *play.actors));
    for (unsigned c = 0; c < COMMS; c++)
        play.instances[c] = need(calloc(play.instance_room, sizeof *play.instances[c]));
    make_builders(&play);
    add_events(&play, scene->before, 0);
    add_fault(&play);
    add_events(&play, scene->after, scene->before + 1);
    for (unsigned s = 0; s < STREAMS; s++)
        add_everybody(&play, (struct step){.kind = HOST_SYNC, .stream = s});
    if (scene->moments)
        run_for(&play);
    else
        run(&play);
    for (unsigned r = 0; r < scene->ranks; r++) {
        write_end(&play, r);
        free(play.actors[r].steps);
        for (unsigned s = 0; s < STREAMS; s++)
            free(play.actors[r].streams[s].works);
    }
    if (job->verdict == VERDICT_DESYNC) /* the first that differs is the first that never ended */
        for (unsigned r = 0; r < GUILTY_BELOW; r++)
            if (r < scene->ranks && job->guilty[r]) {
                job->uid = uid_of(0);
                job->seq = (uint32_t)play.actors[r].completed[0];
            }
    for (unsigned c = 0; c < COMMS; c++)
        free(play.instances[c]);
    free(play.actors);
}
