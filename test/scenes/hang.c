/* SPDX-License-Identifier: Apache-2.0
 *
 * Playing jobs that hang.
 * Lives here: a program per rank, MPI's rules for when a call returns, what the shim would have written.
 * Must not live here: graphs, hashes of the shim's, anything else of the analyzer's.
 */
#include "test/scenes/hang.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/scenes/hang_nccl.h"
#include "test/scenes/scene.h"

enum { COMMUNICATORS = 4, LARGE = 1 << 20, SMALL = 64, HASHES = 64 };
enum step_kind { STEP_COLLECTIVE, STEP_SEND, STEP_RECV, STEP_HALT };

struct step {
    enum step_kind kind;
    uint16_t call;
    unsigned comm;
    int32_t peer, tag; /* root; partner (PEER_ANY: anybody) */
    uint64_t bytes;
    unsigned way; /* receives: 0 Recv, 1 Irecv and Wait, 2 Irecv, Isend that is buffered, and Waitall */
};

struct channel { /* messages from one rank to another with one tag */
    unsigned sent, received;
};

struct actor {
    struct step *steps;
    size_t count, room, at;
    bool entered;                    /* the step at hand has been begun */
    uint64_t numbers[COMMUNICATORS]; /* collectives begun */
    uint64_t done[COMMUNICATORS];
    uint64_t hash[COMMUNICATORS];
    struct progress *progress[COMMUNICATORS];
    uint64_t clock;
};

struct play {
    const struct hang_scene *scene;
    struct hang_job *job;
    struct actor *actors;
    uint64_t random;
    bool member[COMMUNICATORS][4096]; /* beyond the first 4096 ranks: of the first two only */
    int32_t next_tag;
};

static void fail(const char *what) {
    fprintf(stderr, "hang scene: %s\n", what);
    abort();
}

const char *fault_name(enum fault fault) {
    static const char *const names[] = {
        "none",           "stop",       "freeze",     "die",          "no dump",     "skip",           "operation",
        "count",          "root",       "swap",       "ring",         "send ring",   "no message",     "wildcard",
        "NCCL none",      "NCCL stop",  "NCCL die",   "NCCL no dump", "NCCL stream", "NCCL transport", "NCCL skip",
        "NCCL operation", "NCCL count", "NCCL dtype", "NCCL root",    "NCCL swap",   "mixed circle",   "mixed chain"};
    return names[fault];
}

static unsigned draw(struct play *play, unsigned below) {
    return (unsigned)(scene_random(&play->random) % below);
}

static bool is_member(const struct play *play, unsigned comm, unsigned rank) {
    return comm < 2 || (rank < 4096 && play->member[comm][rank]);
}

/* ---- writing the program --------------------------------------------------------------------- */

static void add_step(struct play *play, unsigned rank, struct step step) {
    struct actor *actor = &play->actors[rank];
    if (actor->count == actor->room) {
        actor->room = actor->room ? 2 * actor->room : 64;
        actor->steps = realloc(actor->steps, actor->room * sizeof *actor->steps);
        if (!actor->steps)
            fail("no memory");
    }
    actor->steps[actor->count++] = step;
}

/* Everybody's order is the order of the events: no legal program waits for a later one. `number` makes each collective
 * unlike its neighbours. */
static struct step collective(struct play *play, unsigned comm, unsigned number) {
    static const uint16_t calls[] = {BUILDER_ALLREDUCE, BUILDER_ALLGATHER, BUILDER_BARRIER};
    uint16_t call = calls[draw(play, 3)];
    return (struct step){.kind = STEP_COLLECTIVE,
                         .call = call,
                         .comm = comm,
                         .peer = PEER_NONE,
                         .bytes = call == BUILDER_BARRIER ? 0 : 8 * (number + 1)};
}

static void add_collective(struct play *play, struct step step) {
    for (unsigned r = 0; r < play->scene->ranks; r++)
        if (is_member(play, step.comm, r))
            add_step(play, r, step);
}

static void add_message(struct play *play, unsigned from, unsigned to, uint64_t bytes) {
    int32_t tag = (int32_t)draw(play, 3);
    add_step(play, from,
             (struct step){.kind = STEP_SEND, .call = BUILDER_SEND, .peer = (int32_t)to, .tag = tag, .bytes = bytes});
    add_step(play, to,
             (struct step){.kind = STEP_RECV,
                           .call = BUILDER_RECV,
                           .peer = (int32_t)from,
                           .tag = tag,
                           .bytes = bytes,
                           .way = draw(play, 3)});
}

static void add_events(struct play *play, unsigned count, unsigned first) {
    unsigned ranks = play->scene->ranks;
    for (unsigned i = 0; i < count; i++) {
        if (draw(play, 2)) {
            add_collective(play, collective(play, draw(play, COMMUNICATORS), first + i));
            continue;
        }
        unsigned from = draw(play, ranks), to = (from + 1 + draw(play, ranks - 1)) % ranks;
        add_message(play, from, to, draw(play, 4) ? SMALL : LARGE);
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void blame(struct play *play, unsigned rank) {
    if (rank < sizeof play->job->guilty)
        play->job->guilty[rank] = true;
}

/* A ring of three or more neighbours in a random order. */
static void add_ring(struct play *play, bool sends_first) {
    unsigned ranks = play->scene->ranks, members[8], count = 2 + draw(play, ranks < 8 ? ranks - 1 : 7);
    unsigned first = draw(play, ranks);
    for (unsigned i = 0; i < count; i++)
        members[i] = (first + i) % ranks;
    for (unsigned i = count - 1; i > 0; i--) {
        unsigned j = draw(play, i + 1), swap = members[i];
        members[i] = members[j];
        members[j] = swap;
    }
    unsigned way = draw(play, 3);
    for (unsigned i = 0; i < count; i++) {
        struct step send = {.kind = STEP_SEND, .call = BUILDER_SEND, .tag = 90, .bytes = sends_first ? LARGE : SMALL};
        struct step receive = {.kind = STEP_RECV, .call = BUILDER_RECV, .tag = 90, .bytes = send.bytes, .way = way};
        send.peer = (int32_t)members[(i + 1) % count];
        receive.peer = (int32_t)members[(i + count - 1) % count];
        add_step(play, members[i], sends_first ? send : receive);
        add_step(play, members[i], sends_first ? receive : send);
        blame(play, members[i]);
    }
    play->job->verdict = VERDICT_DEADLOCK;
    play->job->in_circle = true;
}

static void add_wrong_collective(struct play *play, unsigned guilty) {
    bool rooted = play->scene->fault == FAULT_ROOT;
    struct step right = {.kind = STEP_COLLECTIVE,
                         .call = rooted ? BUILDER_BCAST : BUILDER_ALLREDUCE,
                         .comm = draw(play, 2),
                         .peer = rooted ? 0 : PEER_NONE,
                         .bytes = 24};
    struct step wrong = right;
    if (rooted)
        wrong.peer = 1;
    else if (play->scene->fault == FAULT_COUNT)
        wrong.bytes = 32;
    else
        wrong.call = BUILDER_ALLGATHER;
    for (unsigned r = 0; r < play->scene->ranks; r++)
        add_step(play, r, r == guilty ? wrong : right);
    blame(play, guilty);
    play->job->verdict = VERDICT_DESYNC;
    play->job->uid = right.comm; /* its uid once the communicators exist */
}

static void add_fault(struct play *play) {
    unsigned ranks = play->scene->ranks, guilty = draw(play, ranks),
             other = (guilty + 1 + draw(play, ranks - 1)) % ranks;
    struct step halt = {.kind = STEP_HALT}, a = collective(play, 0, 5000), b = collective(play, 1, 5001);
    switch (play->scene->fault) {
    case FAULT_STOP:
    case FAULT_FREEZE:
    case FAULT_DIE:
    case FAULT_NO_DUMP:
        add_step(play, guilty, halt);
        blame(play, guilty);
        play->job->dies = play->scene->fault == FAULT_DIE;
        play->job->lost = play->scene->fault == FAULT_NO_DUMP;
        play->job->frozen = play->scene->fault == FAULT_FREEZE;
        play->job->verdict = play->job->dies || play->job->lost ? VERDICT_DEAD_RANK : VERDICT_HANG;
        break;
    case FAULT_SKIP: /* and goes on to another one on the same communicator */
        a.call = BUILDER_ALLREDUCE, a.bytes = 48;
        for (unsigned r = 0; r < ranks; r++)
            if (r != guilty)
                add_step(play, r, a);
        a.call = BUILDER_ALLGATHER;
        add_collective(play, a);
        blame(play, guilty);
        play->job->verdict = VERDICT_DESYNC;
        break;
    case FAULT_OPERATION:
    case FAULT_COUNT:
    case FAULT_ROOT:
        add_wrong_collective(play, guilty);
        break;
    case FAULT_SWAP:
        for (unsigned r = 0; r < ranks; r++) {
            add_step(play, r, r == guilty ? b : a);
            add_step(play, r, r == guilty ? a : b);
        }
        blame(play, guilty);
        play->job->verdict = VERDICT_DEADLOCK;
        break;
    case FAULT_RING:
    case FAULT_SEND_RING:
        add_ring(play, play->scene->fault == FAULT_SEND_RING);
        break;
    case FAULT_NO_MESSAGE:
        add_step(play, guilty,
                 (struct step){.kind = STEP_RECV,
                               .call = BUILDER_RECV,
                               .peer = (int32_t)other,
                               .tag = 91,
                               .bytes = SMALL,
                               .way = draw(play, 3)});
        add_collective(play, a);
        blame(play, guilty);
        blame(play, other);
        play->job->verdict = VERDICT_DEADLOCK;
        play->job->in_circle = true;
        break;
    case FAULT_WILDCARD:
        for (unsigned r = 0; r < ranks; r++)
            if (r != guilty && r != other)
                add_step(play, r,
                         (struct step){.kind = STEP_RECV, .call = BUILDER_RECV, .peer = (int32_t)other, .tag = 92});
        add_step(
            play, other,
            (struct step){.kind = STEP_RECV, .call = BUILDER_RECV, .peer = PEER_ANY, .tag = 93, .way = draw(play, 2)});
        add_step(play, guilty, halt);
        blame(play, guilty);
        play->job->verdict = VERDICT_HANG;
        break;
    default:
        play->job->verdict = VERDICT_OK;
        break;
    }
}

/* ---- what the shim writes -------------------------------------------------------------------- */

static uint64_t uid_of(unsigned comm) {
    return comm == 0 ? BUILDER_WORLD_UID : UINT64_C(0x2222000000000000) + comm;
}

static struct dump_builder *builder_of(const struct play *play, unsigned rank) {
    return play->job->builders[rank];
}

static void define_communicators(struct play *play, unsigned rank) {
    struct actor *actor = &play->actors[rank];
    const struct member_run all = {0, play->scene->ranks, 1};
    for (unsigned c = 0; c < COMMUNICATORS; c++) {
        if (!is_member(play, c, rank))
            continue;
        struct member_run runs[4096];
        uint32_t count = 0;
        int32_t my_rank = 0;
        for (unsigned r = 0; c >= 2 && r < play->scene->ranks && r < 4096; r++)
            if (is_member(play, c, r)) {
                my_rank = r == rank ? (int32_t)count : my_rank;
                runs[count++] = (struct member_run){(int32_t)r, 1, 1};
            }
        uint32_t local =
            c == 0   ? dump_builder_world(builder_of(play, rank))
            : c == 1 ? dump_builder_communicator(builder_of(play, rank), uid_of(1), "dup", (int32_t)rank, &all, 1)
                     : dump_builder_communicator(builder_of(play, rank), uid_of(c), c == 2 ? "even" : NULL, my_rank,
                                                 runs, count);
        actor->progress[c] = dump_builder_progress(builder_of(play, rank), local);
        actor->progress[c]->prefix_hash = actor->progress[c]->recent[0] = actor->hash[c] = uid_of(c);
    }
}

/* Which of its own communicators it is: those it is not in have no number. */
static uint32_t local_of(const struct play *play, unsigned rank, unsigned comm) {
    uint32_t local = 0;
    for (unsigned c = 0; c < comm; c++)
        local += is_member(play, c, rank);
    return local;
}

static void write_enter(struct play *play, unsigned rank, const struct step *step) {
    struct progress *p = play->actors[rank].progress[step->comm];
    p->enqueued = p->started = ++play->actors[rank].numbers[step->comm];
    p->last_call = step->call;
}

/* Any hash will do that has equal values for equal histories. */
static void write_collective(struct play *play, unsigned rank, const struct step *step) {
    struct actor *actor = &play->actors[rank];
    struct progress *p = actor->progress[step->comm];
    uint64_t seed = actor->hash[step->comm] ^ step->call * UINT64_C(0x100000001b3) ^
                    (step->bytes + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uint32_t)step->peer << 17;
    uint64_t k = ++actor->done[step->comm], h = actor->hash[step->comm] = scene_random(&seed);
    p->completed = p->hashed = k;
    p->prefix_hash = p->recent[k % HASHES] = h;
    if (k % 64 == 0)
        p->every[k / 64 % HASHES] = h;
    for (unsigned i = 0; i < 32; i++)
        if (k == UINT64_C(1) << i)
            p->powers[i] = h;
    struct record *r = dump_builder_collective(builder_of(play, rank), 0, step->call, local_of(play, rank, step->comm),
                                               (uint32_t)k - 1, step->bytes, actor->clock, actor->clock + 10);
    r->flags |= FLAG_COLLECTIVE;
    r->peer = step->peer;
}

/* Messages are numbered per partner and tag; both ends count alike. */
static uint32_t *channel_number(struct play *play, unsigned rank, int32_t peer, int32_t tag, bool send) {
    static struct {
        uint64_t key;
        uint32_t number;
        const struct play *play;
    } table[1 << 18];
    uint64_t key = (uint64_t)rank << 40 | (uint64_t)(uint32_t)peer << 16 | (uint64_t)(uint32_t)tag << 1 | send;
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40) % (1 << 18);
    if (play->next_tag == 0) { /* the first of a scene clears it */
        memset(table, 0, sizeof table);
        play->next_tag = 1;
    }
    while (table[at].play && table[at].key != key)
        at = (at + 1) % (1 << 18);
    table[at].play = play;
    table[at].key = key;
    return &table[at].number;
}

static void write_message(struct play *play, unsigned rank, const struct step *step) {
    struct actor *actor = &play->actors[rank];
    bool send = step->kind == STEP_SEND;
    uint32_t number = (*channel_number(play, rank, step->peer, step->tag, send))++;
    uint16_t flag = send ? FLAG_SEND : FLAG_RECV;
    dump_builder_p2p(builder_of(play, rank), 0, step->call, 0, flag, step->peer, step->tag, number, step->bytes,
                     actor->clock, actor->clock + 10);
    struct peer_row *row = NULL, *rows = dump_builder_contents(builder_of(play, rank), SECTION_PEERS, 0);
    for (uint32_t i = 0; i < 64 && rows[i].version; i++)
        if (rows[i].peer == step->peer && rows[i].direction == flag)
            row = &rows[i];
    row = row ? row : dump_builder_peer(builder_of(play, rank), 0);
    row->peer = step->peer;
    row->direction = flag;
    row->call = step->call;
    row->count++;
}

static struct pending *write_pending(struct play *play, unsigned rank, uint16_t call, uint16_t flag, int32_t peer,
                                     int32_t tag, uint32_t op) {
    struct pending *p = dump_builder_pending(builder_of(play, rank));
    p->call = call;
    p->flags = flag;
    p->peer = peer;
    p->tag = tag;
    p->op = op;
    p->active = 1;
    p->bytes = SMALL;
    p->seq = *channel_number(play, rank, peer, tag, flag == FLAG_SEND);
    return p;
}

/* The call that a rank never came out of. */
static void write_in_flight(struct play *play, unsigned rank) {
    const struct actor *actor = &play->actors[rank];
    const struct step *step = &actor->steps[actor->at];
    struct in_flight *slot = dump_builder_in_flight(builder_of(play, rank));
    *slot =
        (struct in_flight){.tid = slot->tid, .comm = COMM_NONE, .seq = SEQ_NONE, .peer = PEER_NONE, .tag = TAG_NONE};
    slot->last_leave = slot->enter = actor->clock;
    if (actor->at == actor->count || !actor->entered)
        return;
    slot->call = step->call;
    slot->comm = local_of(play, rank, step->comm);
    slot->peer = step->peer;
    slot->bytes = step->bytes;
    if (step->kind == STEP_COLLECTIVE) {
        slot->flags = FLAG_COLLECTIVE | (step->peer == (int32_t)rank ? FLAG_ROOT : 0);
        slot->seq = (uint32_t)actor->numbers[step->comm] - 1;
        return;
    }
    slot->tag = step->tag;
    slot->flags = step->kind == STEP_SEND ? FLAG_SEND : FLAG_RECV;
    bool any = step->peer == PEER_ANY;
    slot->seq = any ? SEQ_NONE : *channel_number(play, rank, step->peer, step->tag, step->kind == STEP_SEND);
    if (step->kind == STEP_SEND || step->way == 0)
        return;
    struct pending *p = write_pending(play, rank, BUILDER_IRECV, FLAG_RECV, step->peer, step->tag, 77);
    p->seq = slot->seq;
    *slot =
        (struct in_flight){.tid = slot->tid, .comm = COMM_NONE, .seq = SEQ_NONE, .peer = PEER_NONE, .tag = TAG_NONE};
    slot->enter = actor->clock;
    slot->call = step->way == 1 ? BUILDER_WAIT : BUILDER_WAITALL;
    slot->op = 77;
    if (step->way == 1)
        return;
    write_pending(play, rank, BUILDER_ISEND, FLAG_SEND, (int32_t)((rank + 1) % play->scene->ranks), 500, 78);
    slot->seq = 78;
    slot->tag = 2;
}

/* ---- MPI's rules ----------------------------------------------------------------------------- */

static const struct step *current(const struct play *play, unsigned rank) {
    const struct actor *actor = &play->actors[rank];
    return actor->at < actor->count ? &actor->steps[actor->at] : NULL;
}

static bool same_collective(const struct step *a, const struct step *b) {
    return a->call == b->call && a->bytes == b->bytes && a->peer == b->peer;
}

/* Nobody leaves before all members are in it, with the same arguments. */
static bool all_are_in(const struct play *play, unsigned rank, const struct step *step) {
    for (unsigned r = 0; r < play->scene->ranks; r++) {
        if (!is_member(play, step->comm, r))
            continue;
        const struct actor *actor = &play->actors[r];
        const struct step *other = current(play, r);
        bool past = actor->done[step->comm] > play->actors[rank].done[step->comm];
        bool in = other && actor->entered && other->kind == STEP_COLLECTIVE && other->comm == step->comm &&
                  actor->done[step->comm] == play->actors[rank].done[step->comm] && same_collective(step, other);
        if (!past && !in)
            return false;
    }
    return true;
}

/* A send that is never buffered returns when the receiver has come to its receive. */
static bool receiver_is_there(struct play *play, unsigned rank, const struct step *step) {
    const struct step *other = current(play, (unsigned)step->peer);
    uint32_t number = *channel_number(play, rank, step->peer, step->tag, true);
    uint32_t received = *channel_number(play, (unsigned)step->peer, (int32_t)rank, step->tag, false);
    return received > number || (other && play->actors[step->peer].entered && other->kind == STEP_RECV &&
                                 other->peer == (int32_t)rank && other->tag == step->tag && received == number);
}

static bool message_is_there(struct play *play, unsigned rank, const struct step *step) {
    if (step->peer == PEER_ANY)
        return false; /* nobody sends what the wildcard scenes wait for */
    uint32_t number = *channel_number(play, rank, step->peer, step->tag, false);
    uint32_t sent = *channel_number(play, (unsigned)step->peer, (int32_t)rank, step->tag, true);
    const struct step *other = current(play, (unsigned)step->peer);
    return sent > number || (other && play->actors[step->peer].entered && other->kind == STEP_SEND &&
                             other->peer == (int32_t)rank && other->tag == step->tag && sent == number);
}

static bool can_leave(struct play *play, unsigned rank, const struct step *step) {
    switch (step->kind) {
    case STEP_COLLECTIVE:
        return all_are_in(play, rank, step);
    case STEP_SEND:
        return step->bytes < LARGE || receiver_is_there(play, rank, step);
    case STEP_RECV:
        return message_is_there(play, rank, step);
    default:
        return false;
    }
}

/* One step of one rank, if it can; true when something changed. */
static bool advance(struct play *play, unsigned rank) {
    struct actor *actor = &play->actors[rank];
    const struct step *step = current(play, rank);
    if (!step || step->kind == STEP_HALT)
        return false;
    bool changed = !actor->entered;
    if (!actor->entered && step->kind == STEP_COLLECTIVE)
        write_enter(play, rank, step);
    actor->entered = true;
    if (!can_leave(play, rank, step))
        return changed;
    if (step->kind == STEP_COLLECTIVE)
        write_collective(play, rank, step);
    else
        write_message(play, rank, step);
    actor->clock += 100;
    actor->at++;
    actor->entered = false;
    return true;
}

static void run_for(struct play *play) {
    for (unsigned i = 0; i < play->scene->moments; i++)
        advance(play, draw(play, play->scene->ranks));
}

static void run(struct play *play) {
    for (bool changed = true; changed;) {
        changed = false;
        for (unsigned r = 0; r < play->scene->ranks; r++)
            while (advance(play, r))
                changed = true;
    }
}

/* ---- from the play to the job ---------------------------------------------------------------- */

static void write_end(struct play *play, unsigned rank) {
    struct dump_header *header = dump_builder_header(builder_of(play, rank));
    if (play->actors[rank].at == play->actors[rank].count)
        header->state |= STATE_FINALISING | STATE_FINALISED | STATE_EXITED;
    write_in_flight(play, rank);
}

static double seconds_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void open_dumps(struct hang_job *job) {
    job->dumps = calloc(job->ranks, sizeof *job->dumps);
    job->states = calloc(job->ranks, sizeof *job->states);
    job->set = (struct dump_set){.directory = "made up", .duplicate = calloc(job->ranks, sizeof(bool))};
    if (!job->dumps || !job->states || !job->set.duplicate)
        fail("no memory");
    double begun = seconds_now();
    for (unsigned r = 0; r < job->ranks; r++) {
        size_t bytes;
        bool guilty = r < sizeof job->guilty && job->guilty[r];
        if (guilty && job->lost)
            continue;
        const void *data = dump_builder_data(job->builders[r], &bytes);
        job->states[job->set.count] = PROCESS_RUNS;
        if (guilty && (job->dies || job->frozen))
            job->states[job->set.count] = job->dies ? PROCESS_GONE : PROCESS_STOPPED;
        if (!(job->dumps[job->set.count++] = dump_open_buffer("hang", data, bytes)))
            fail("no memory");
    }
    job->set.dumps = job->dumps;
    job->open_seconds = seconds_now() - begun;
}

/* Where a rank that skipped a collective is stuck in its next one on the same communicator, the two differ; if it is
 * stuck before, it waits for those who wait for it. */
static void settle_truth(struct play *play) {
    struct hang_job *job = play->job;
    job->seq = SEQ_NONE;
    if (job->verdict != VERDICT_DESYNC)
        return;
    job->uid = uid_of((unsigned)job->uid);
    for (unsigned r = 0; r < job->ranks && r < sizeof job->guilty; r++)
        if (job->guilty[r])
            job->seq = (uint32_t)play->actors[r].numbers[current(play, r)->comm] - 1;
}

static void play_mpi(struct hang_job *job, const struct hang_scene *scene) {
    static struct play play;
    play = (struct play){.scene = scene, .job = job, .random = scene->seed * 2654435761u + 17};
    job->builders = calloc(scene->ranks, sizeof *job->builders);
    play.actors = calloc(scene->ranks, sizeof *play.actors);
    if (!job->builders || !play.actors)
        fail("no memory");
    for (unsigned r = 0; r < scene->ranks && r < 4096; r++) {
        play.member[2][r] = r % 2 == 0;
        play.member[3][r] = r >= scene->ranks / 2;
    }
    for (unsigned r = 0; r < scene->ranks; r++) {
        const struct dump_plan plan = {
            .rank = (int32_t)r, .world_size = (int32_t)scene->ranks, .ring_records = scene->ring_records};
        job->builders[r] = dump_builder_new(&plan);
        dump_builder_standard_calls(job->builders[r]);
        dump_builder_anchor(job->builders[r], 0, 0, 1000000000, 0);
        play.actors[r].clock = 1000;
        define_communicators(&play, r);
    }
    add_events(&play, scene->before, 0);
    add_fault(&play);
    add_events(&play, scene->after, scene->before + 1);
    add_collective(&play, collective(&play, 0, 9999)); /* everybody comes together at the end */
    if (scene->moments)
        run_for(&play);
    else
        run(&play);
    settle_truth(&play);
    for (unsigned r = 0; r < scene->ranks; r++) {
        write_end(&play, r);
        free(play.actors[r].steps);
    }
    free(play.actors);
}

void hang_open(struct hang_job *job, const struct hang_scene *scene) {
    *job = (struct hang_job){.ranks = scene->ranks, .seq = SEQ_NONE};
    if (scene->fault >= FAULT_NCCL_NONE)
        hang_nccl_play(job, scene);
    else
        play_mpi(job, scene);
    open_dumps(job);
}

void hang_close(struct hang_job *job) {
    for (size_t d = 0; d < job->set.count; d++)
        dump_close(job->dumps[d]);
    for (unsigned r = 0; r < job->ranks; r++)
        dump_builder_free(job->builders[r]);
    free(job->builders);
    free(job->dumps);
    free(job->states);
    free(job->set.duplicate);
    *job = (struct hang_job){0};
}
