/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of workload.h.
 */
#include "test/scenes/workload.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyzer/align/align.h"
#include "analyzer/steps/steps.h"
#include "test/scenes/scene.h"

enum { SMALL_BYTES = 8, HALO_BYTES = 16384, EDGE_TAG = 7, FORWARD_TAG = 11, BACKWARD_TAG = 12 };

/* What the script's writer needs. */
struct play {
    const struct workload *workload;
    uint64_t *random; /* per rank */
    uint32_t *tensor_group, *data_group, *pipe_group;
};

struct workload workload_standard(enum workload_kind kind) {
    struct workload w = {.seed = 1,
                         .kind = kind,
                         .ranks = 8,
                         .ranks_per_host = 4,
                         .steps = 100,
                         .stages = 1,
                         .tensor = 1,
                         .pieces = 4,
                         .step_ns = 20000000,
                         .noise = 0.05,
                         .bytes = 1 << 20,
                         .overlap = 0.6,
                         .factor = 1,
                         .clocks = {.offset = 1, .drift = 100e-6, .realtime = 2e-3}};
    if (kind == WORKLOAD_PIPELINE) {
        w.ranks = 16;
        w.stages = 2;
        w.tensor = 2;
        w.bytes = 1 << 18;
    }
    return w;
}

const char *workload_name(enum workload_kind kind) {
    static const char *const names[WORKLOADS] = {"data parallel", "sharded", "pipeline", "stencil", "solver", "gpu"};
    return names[kind];
}

/* ---- who is slow ----------------------------------------------------------------------------- */

static unsigned host_of(const struct workload *w, unsigned rank) {
    return w->ranks_per_host ? rank / w->ranks_per_host : 0;
}

/* Ranks of a stage are neighbours: tensor parallel innermost, then data parallel. */
static unsigned stage_of(const struct workload *w, unsigned rank) {
    return rank / (w->ranks / w->stages);
}

static bool is_slow(const struct workload *w, unsigned rank, unsigned step) {
    uint64_t chance = w->seed * 31 + step;
    switch (w->plant) {
    case PLANT_RANK:
        return rank == w->who;
    case PLANT_HOST:
        return host_of(w, rank) == w->who;
    case PLANT_ROTATING:
        return rank == scene_random(&chance) % w->ranks;
    case PLANT_PAUSES:
        chance = w->seed * 131 + rank;
        return (step + scene_random(&chance)) % w->who == 0;
    case PLANT_RANK_CLASS:
        return stage_of(w, rank) == w->who;
    default:
        return false;
    }
}

static void work(const struct play *play, unsigned rank, unsigned step, double share, struct script *script) {
    const struct workload *w = play->workload;
    double ns = (double)w->step_ns * share * (1 + w->noise * scene_gauss(&play->random[rank]));
    if (is_slow(w, rank, step))
        ns *= w->factor;
    script_add(script, (struct action){.act = ACT_WORK, .ns = (int64_t)ns});
}

/* ---- what they do ---------------------------------------------------------------------------- */

static void collective(struct script *script, uint16_t call, uint32_t group, uint64_t bytes) {
    script_add(script, (struct action){.act = ACT_COLLECTIVE, .call = call, .group = group, .bytes = bytes});
}

static void message(struct script *script, enum act act, uint32_t group, unsigned peer, int32_t tag, uint64_t bytes) {
    script_add(script, (struct action){.act = act, .group = group, .peer = (int32_t)peer, .tag = tag, .bytes = bytes});
}

static void data_parallel(const struct play *play, unsigned rank, unsigned step, struct script *script) {
    const struct workload *w = play->workload;
    work(play, rank, step, 0.4, script);
    for (unsigned b = 0; b < w->pieces; b++) {
        work(play, rank, step, 0.5 / w->pieces, script);
        collective(script, BUILDER_ALLREDUCE, 0, w->bytes + b * 4096);
    }
    work(play, rank, step, 0.1, script);
}

static void sharded(const struct play *play, unsigned rank, unsigned step, struct script *script) {
    const struct workload *w = play->workload;
    for (unsigned l = 0; l < w->pieces; l++) {
        collective(script, BUILDER_ALLGATHER, 0, w->bytes + l % 3 * 4096);
        work(play, rank, step, 0.3 / w->pieces, script);
    }
    for (unsigned l = w->pieces; l-- > 0;) {
        collective(script, BUILDER_ALLGATHER, 0, w->bytes + l % 3 * 4096);
        work(play, rank, step, 0.6 / w->pieces, script);
        collective(script, BUILDER_ALLREDUCE, 0, w->bytes + l % 3 * 4096);
    }
    work(play, rank, step, 0.1, script);
    collective(script, BUILDER_ALLREDUCE, 0, SMALL_BYTES);
}

/* One micro-batch through one stage, forward or backward; messages go between ranks of equal place in their stages. */
static void pass(const struct play *play, unsigned rank, unsigned step, bool forward, struct script *script) {
    const struct workload *w = play->workload;
    unsigned per_stage = w->ranks / w->stages, stage = stage_of(w, rank);
    bool first = forward ? stage == 0 : stage == w->stages - 1, last = forward ? stage == w->stages - 1 : stage == 0;
    int32_t tag = forward ? FORWARD_TAG : BACKWARD_TAG;
    uint32_t pipe = play->pipe_group[rank % per_stage];
    if (!first)
        message(script, ACT_RECEIVE, pipe, forward ? stage - 1 : stage + 1, tag, HALO_BYTES);
    for (unsigned half = 0; half < 2; half++) {
        work(play, rank, step, (forward ? 0.3 : 0.6) / w->pieces / 2, script);
        if (w->tensor > 1)
            collective(script, BUILDER_ALLREDUCE, play->tensor_group[rank / w->tensor], w->bytes);
    }
    if (!last)
        message(script, ACT_SEND, pipe, forward ? stage + 1 : stage - 1, tag, HALO_BYTES);
}

static void pipeline(const struct play *play, unsigned rank, unsigned step, struct script *script) {
    const struct workload *w = play->workload;
    unsigned stage = stage_of(w, rank), ahead = w->stages - 1 - stage;
    if (ahead > w->pieces)
        ahead = w->pieces;
    for (unsigned m = 0; m < ahead; m++)
        pass(play, rank, step, true, script);
    for (unsigned m = ahead; m < w->pieces; m++) {
        pass(play, rank, step, true, script);
        pass(play, rank, step, false, script);
    }
    for (unsigned m = 0; m < ahead; m++)
        pass(play, rank, step, false, script);
    collective(script, BUILDER_ALLREDUCE, play->data_group[stage * w->tensor + rank % w->tensor], 4 * w->bytes);
    work(play, rank, step, 0.1, script);
    collective(script, BUILDER_ALLREDUCE, 0, SMALL_BYTES);
}

/* Neighbours on a torus as near to a square as the ranks allow. */
static void neighbours_of(const struct workload *w, unsigned rank, unsigned neighbours[4]) {
    unsigned width = 1;
    for (unsigned i = 1; i * i <= w->ranks; i++)
        if (w->ranks % i == 0)
            width = w->ranks / i;
    unsigned column = rank % width, row = rank / width, rows = w->ranks / width;
    neighbours[0] = row * width + (column + 1) % width;
    neighbours[1] = row * width + (column + width - 1) % width;
    neighbours[2] = (row + 1) % rows * width + column;
    neighbours[3] = (row + rows - 1) % rows * width + column;
}

static void exchange(const struct play *play, unsigned rank, uint64_t bytes, double inside, unsigned step,
                     struct script *script) {
    unsigned neighbours[4];
    neighbours_of(play->workload, rank, neighbours);
    for (unsigned n = 0; n < 4; n++) /* what comes from the right was sent to the left */
        if (neighbours[n] != rank)
            message(script, ACT_IRECEIVE, 0, neighbours[n], EDGE_TAG + (int32_t)(n ^ 1), bytes);
    for (unsigned n = 0; n < 4; n++)
        if (neighbours[n] != rank)
            message(script, ACT_ISEND, 0, neighbours[n], EDGE_TAG + (int32_t)n, bytes);
    if (inside > 0)
        work(play, rank, step, inside, script);
    script_add(script, (struct action){.act = ACT_WAIT_ALL});
}

static void stencil(const struct play *play, unsigned rank, unsigned step, struct script *script) {
    double overlap = play->workload->overlap;
    exchange(play, rank, play->workload->bytes, overlap, step, script);
    work(play, rank, step, 1 - overlap, script);
    collective(script, BUILDER_ALLREDUCE, 0, SMALL_BYTES);
}

static void solver(const struct play *play, unsigned rank, unsigned step, struct script *script) {
    exchange(play, rank, HALO_BYTES, 0, step, script);
    work(play, rank, step, 0.7, script);
    collective(script, BUILDER_ALLREDUCE, 0, SMALL_BYTES);
    work(play, rank, step, 0.3, script);
    collective(script, BUILDER_ALLREDUCE, 0, SMALL_BYTES);
}

static void gpu(const struct play *play, unsigned rank, unsigned step, struct script *script) {
    const struct workload *w = play->workload;
    bool late = w->plant == PLANT_LATE_HOST && rank == w->who;
    int64_t host = w->step_ns / 20 + (late ? (int64_t)((double)w->step_ns * w->factor) : 0);
    for (unsigned b = 0; b < w->pieces; b++) {
        script_add(script, (struct action){.act = ACT_HOST, .ns = host / w->pieces});
        work(play, rank, step, 0.9 / w->pieces, script);
        collective(script, BUILDER_NCCL_ALL_REDUCE, 0, w->bytes + b * 4096);
    }
    work(play, rank, step, 0.1, script);
    script_add(script, (struct action){.act = ACT_SYNC});
}

/* A third of a step's work, and a reduction of its own size. */
static void evaluate(const struct play *play, unsigned rank, unsigned step, struct script *script) {
    work(play, rank, step, 0.3, script);
    collective(script, play->workload->kind == WORKLOAD_GPU ? BUILDER_NCCL_ALL_REDUCE : BUILDER_ALLREDUCE, 0, 12345);
}

static void write_step(void *context, unsigned rank, unsigned step, struct script *script) {
    static void (*const kinds[WORKLOADS])(const struct play *, unsigned, unsigned,
                                          struct script *) = {data_parallel, sharded, pipeline, stencil, solver, gpu};
    const struct play *play = context;
    kinds[play->workload->kind](play, rank, step, script);
    if (play->workload->evaluation && step % play->workload->evaluation == play->workload->evaluation - 1)
        evaluate(play, rank, step, script);
}

/* ---- playing --------------------------------------------------------------------------------- */

static uint32_t ring_for(const struct workload *w) {
    unsigned most = w->kind == WORKLOAD_PIPELINE ? 8 * w->pieces + 2 : 3 * w->pieces + 2;
    unsigned need = w->steps * ((w->kind == WORKLOAD_STENCIL || w->kind == WORKLOAD_SOLVER ? 19 : most) + 1), size = 64;
    while (size < need)
        size *= 2;
    return w->ring_records ? w->ring_records : size;
}

static void make_groups(struct play *play, struct stage *stage) {
    const struct workload *w = play->workload;
    if (w->kind != WORKLOAD_PIPELINE)
        return;
    unsigned per_stage = w->ranks / w->stages;
    play->tensor_group = malloc(w->ranks / w->tensor * sizeof *play->tensor_group);
    play->data_group = malloc(w->stages * w->tensor * sizeof *play->data_group);
    play->pipe_group = malloc(per_stage * sizeof *play->pipe_group);
    if (!play->tensor_group || !play->data_group || !play->pipe_group)
        abort();
    for (unsigned i = 0; i < per_stage; i++)
        play->pipe_group[i] = stage_group(stage, "pipeline", i, w->stages, per_stage);
    for (unsigned i = 0; i < w->ranks / w->tensor; i++)
        play->tensor_group[i] = stage_group(stage, "tensor", i * w->tensor, w->tensor, 1);
    for (unsigned s = 0; s < w->stages; s++)
        for (unsigned t = 0; t < w->tensor; t++)
            play->data_group[s * w->tensor + t] =
                stage_group(stage, "data", s * per_stage + t, per_stage / w->tensor, w->tensor);
}

struct stage *workload_play(const struct workload *w) {
    struct play play = {.workload = w, .random = malloc(w->ranks * sizeof *play.random)};
    bool link = w->plant == PLANT_LINK, between_hosts = w->plant == PLANT_HOST_LINK || w->plant == PLANT_NETWORK;
    struct actor_rules rules = {.seed = w->seed,
                                .ranks = w->ranks,
                                .ranks_per_host = w->ranks_per_host,
                                .latency = 15000,
                                .bandwidth = 10,
                                .slow_from = link ? (int)w->who : -1,
                                .slow_to = link ? (int)w->whom : -1,
                                .slow_link = link || between_hosts ? w->factor : 1,
                                .slow_hosts = {w->who, w->plant == PLANT_NETWORK ? w->who : w->whom},
                                .between_hosts = between_hosts,
                                .hosts_per_switch = w->hosts_per_switch,
                                .switch_latency = w->switch_latency,
                                .outliers = w->outliers,
                                .gpu = w->kind == WORKLOAD_GPU,
                                .clocks = w->clocks,
                                .ring_records = ring_for(w),
                                .windows = w->windows,
                                .trace_window_level = w->trace_window_level};
    struct stage *stage = stage_new(&rules);
    if (!play.random)
        abort();
    for (unsigned r = 0; r < w->ranks; r++) {
        uint64_t state = w->seed * 1000033 + r;
        play.random[r] = scene_random(&state);
    }
    make_groups(&play, stage);
    stage_play(stage, w->steps, write_step, &play);
    free(play.random);
    free(play.tensor_group);
    free(play.data_group);
    free(play.pipe_group);
    return stage;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* It is slow both ways. */
static bool is_planted_link(const struct workload *w, const struct slow_link *link) {
    static const enum link_scope scopes[] = {
        [PLANT_LINK] = LINK_RANKS, [PLANT_HOST_LINK] = LINK_HOSTS, [PLANT_NETWORK] = LINK_HOST};
    if (link->scope != scopes[w->plant])
        return false;
    if (w->plant == PLANT_NETWORK)
        return link->from == w->who;
    return (link->from == w->who && link->to == w->whom) || (link->from == w->whom && link->to == w->who);
}

/* Whether it is one of those that slow communicators accuse. */
static bool is_suspected(const struct workload *w, const struct slow_group *group) {
    for (size_t i = 0; i < group->suspect_count && i < GROUP_SUSPECTS_MOST; i++) {
        const struct group_suspect *suspect = &group->suspects[i];
        bool rank = suspect->kind == SUSPECT_RANK || suspect->kind == SUSPECT_NEIGHBOUR;
        if ((w->plant == PLANT_LINK && rank && (suspect->a == w->who || suspect->a == w->whom)) ||
            (w->plant == PLANT_NETWORK && suspect->kind == SUSPECT_HOST && suspect->a == w->who) ||
            (w->plant == PLANT_HOST_LINK && suspect->kind == SUSPECT_PAIR && suspect->a == w->who &&
             suspect->b == w->whom))
            return true;
    }
    return false;
}

bool workload_planted(const struct workload *w, const struct straggler *straggler) {
    if (w->plant == PLANT_HOST)
        return straggler->kind == STRAGGLER_HOST && host_of(w, (unsigned)straggler->dumps[0]) == w->who;
    if (w->plant == PLANT_RANK_CLASS)
        return straggler->kind == STRAGGLER_RANK_CLASS && straggler->dump_count == w->ranks / w->stages &&
               stage_of(w, (unsigned)straggler->dumps[0]) == w->who;
    if (w->plant == PLANT_ROTATING || w->plant == PLANT_PAUSES)
        return straggler->kind == STRAGGLER_ROTATING;
    if (w->plant == PLANT_LINK || w->plant == PLANT_HOST_LINK || w->plant == PLANT_NETWORK)
        return straggler->kind == STRAGGLER_LINK && is_planted_link(w, &straggler->link);
    return (w->plant == PLANT_RANK || w->plant == PLANT_LATE_HOST) && straggler->kind == STRAGGLER_RANK &&
           straggler->dumps[0] == w->who;
}

static bool is_somebody_planted(const struct workload *w) {
    return w->plant == PLANT_RANK || w->plant == PLANT_HOST || w->plant == PLANT_RANK_CLASS ||
           w->plant == PLANT_LATE_HOST || w->plant == PLANT_ROTATING || w->plant == PLANT_PAUSES;
}

static void count(const struct workload *w, const struct straggler_analysis *analysis, struct workload_result *result) {
    unsigned right = 0, wrong = 0;
    bool rotating = false;
    for (size_t i = 0; i < analysis->straggler_count; i++) {
        rotating |= analysis->stragglers[i].kind == STRAGGLER_ROTATING;
        *(workload_planted(w, &analysis->stragglers[i]) ? &right : &wrong) += 1;
    }
    bool suspected = false;
    for (size_t i = 0; i < analysis->slow_group_count; i++)
        suspected |= is_suspected(w, &analysis->slow_groups[i]);
    result->groups += analysis->slow_group_count > 0;
    result->groups_right += suspected;
    result->jobs++;
    result->rotating += rotating;
    result->named_right += right;
    result->named_wrong += wrong;
    result->found += right > 0;
    result->jobs_wrong += wrong > 0;
    result->right += wrong == 0 && right == (unsigned)is_somebody_planted(w);
    result->uneven += analysis->uneven_count > 0;
}

static void try_one(const struct workload *w, struct workload_result *result) {
    struct stage *stage = workload_play(w);
    struct dump **dumps = stage_open(stage);
    struct common_clock clock;
    struct match_directory directory;
    struct straggler_analysis analysis;
    if (!common_clock_build(&clock, dumps, w->ranks) || !match_directory_build(&directory, dumps, w->ranks) ||
        !straggler_analyse(&analysis, &clock, &directory, &(struct straggler_request){.workers = 2})) {
        fputs("workload: no memory\n", stderr);
        abort();
    }
    count(w, &analysis, result);
    straggler_analysis_free(&analysis);
    match_directory_free(&directory);
    common_clock_free(&clock);
    stage_free(stage);
}

struct workload_result workload_try(const struct workload *workload, unsigned jobs, uint64_t first_seed) {
    struct workload_result result = {0};
    for (unsigned i = 0; i < jobs; i++) {
        struct workload w = *workload;
        w.seed = first_seed + i;
        try_one(&w, &result);
    }
    return result;
}

/* Steps of a rank against the truth: at most two are missing, and between two found ones lies one true beginning. */
static bool is_exact(const struct stage *stage, const struct common_clock *clock, const struct rank_steps *rank,
                     unsigned rank_number, unsigned steps) {
    if (rank->count + 2 < steps || rank->count > steps)
        return false;
    unsigned next = 0;
    for (size_t i = 0; i < rank->count; i++) {
        unsigned inside = 0;
        for (; next < steps; next++) {
            int64_t shown = stage_shown(stage, rank_number, stage_step_began(stage, rank_number, next));
            int64_t began = to_common(clock, rank_number, (uint64_t)shown);
            if (began >= rank->steps[i].end_ns)
                break;
            inside += began >= rank->steps[i].start_ns;
        }
        if (inside != 1)
            return false;
    }
    return true;
}

bool workload_steps_are_exact(const struct workload *w) {
    struct stage *stage = workload_play(w);
    struct dump **dumps = stage_open(stage);
    struct common_clock clock;
    struct steps steps;
    bool exact = true;
    if (!common_clock_build(&clock, dumps, w->ranks) || !steps_find(&steps, &clock, &(struct step_marker){0})) {
        fputs("workload: no memory\n", stderr);
        abort();
    }
    for (unsigned r = 0; r < w->ranks; r++)
        exact = exact && is_exact(stage, &clock, &steps.ranks[r], r, w->steps);
    steps_free(&steps);
    common_clock_free(&clock);
    stage_free(stage);
    return exact;
}
