/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/kineto/kineto.h"

#include <errno.h>
#include <stdio.h>

static void free_rank(struct rank_trace *rank) {
    free(rank->kernels.items);
    free(rank->launches.items);
    free(rank->annotations.items);
    free(rank->notes.items);
    free(rank->steps.items);
    free(rank->work.items);
    free(rank->memory.items);
    free(rank->frames.items);
    free(rank->gpus.items);
    process_groups_free(&rank->groups);
}

static void end(void *state) {
    struct kineto *kineto = state;
    for (size_t i = 0; i < kineto->ranks.count; i++)
        free_rank(&kineto->ranks.items[i]);
    free(kineto->ranks.items);
    trace_free(&kineto->groups);
    free(kineto->group_places);
    free(kineto->named);
    free(kineto);
}

static void *begin(struct import_limits *limits) {
    struct kineto *kineto = calloc(1, sizeof *kineto);
    if (!kineto)
        return NULL;
    kineto->limits = kineto->groups.limits = limits;
    kineto->named = malloc(RANKS_NAMED * sizeof *kineto->named);
    if (kineto->named)
        return kineto;
    end(kineto);
    return NULL;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Newer traces count from a moment of the last months, which traces of one job need not have in common. It may stand
 * behind the events. */
static void move_to_base(struct rank_trace *rank) {
    int64_t base = rank->base_ns;
    for (size_t i = 0; i < rank->kernels.count; i++) {
        rank->kernels.items[i].start_ns += base;
        rank->kernels.items[i].end_ns += base;
    }
    for (size_t i = 0; i < rank->work.count; i++) {
        rank->work.items[i].start_ns += base;
        rank->work.items[i].end_ns += base;
    }
    for (size_t i = 0; i < rank->steps.count; i++) {
        rank->steps.items[i].start_ns += base;
        rank->steps.items[i].end_ns += base;
    }
    for (size_t i = 0; i < rank->annotations.count; i++) {
        rank->annotations.items[i].on.start_ns += base;
        rank->annotations.items[i].on.end_ns += base;
    }
    for (size_t i = 0; i < rank->notes.count; i++) {
        rank->notes.items[i].on.start_ns += base;
        rank->notes.items[i].on.end_ns += base;
    }
    for (size_t i = 0; i < rank->frames.count; i++) {
        rank->frames.items[i].on.start_ns += base;
        rank->frames.items[i].on.end_ns += base;
    }
    for (size_t i = 0; i < rank->launches.count; i++)
        rank->launches.items[i].at_ns += base;
    for (size_t i = 0; i < rank->memory.count; i++)
        rank->memory.items[i].at_ns += base;
}

static void widen(struct cycle_trace *cycle, int64_t from_ns, int64_t to_ns) {
    cycle->from_ns = from_ns < cycle->from_ns ? from_ns : cycle->from_ns;
    cycle->to_ns = to_ns > cycle->to_ns ? to_ns : cycle->to_ns;
}

/* Frames are left out: a function that runs on is in both traces. */
static struct cycle_trace cycle_of(const struct kineto *kineto, size_t index) {
    const struct rank_trace *rank = &kineto->ranks.items[index];
    struct cycle_trace cycle = {rank->rank, INT64_MAX, INT64_MIN, rank->first_step, rank->name, index, 0};
    for (size_t i = 0; i < rank->kernels.count; i++)
        widen(&cycle, rank->kernels.items[i].start_ns, rank->kernels.items[i].end_ns);
    for (size_t i = 0; i < rank->work.count; i++)
        widen(&cycle, rank->work.items[i].start_ns, rank->work.items[i].end_ns);
    for (size_t i = 0; i < rank->steps.count; i++)
        widen(&cycle, rank->steps.items[i].start_ns, rank->steps.items[i].end_ns);
    for (size_t i = 0; i < rank->launches.count; i++)
        widen(&cycle, rank->launches.items[i].at_ns, rank->launches.items[i].at_ns);
    return cycle;
}

/* ---- documents ------------------------------------------------------------------------------- */

static void drop_last(struct kineto *kineto) {
    free_rank(&kineto->ranks.items[--kineto->ranks.count]);
}

static void forget(void *state, const char *name) {
    (void)name;
    struct kineto *kineto = state;
    if (kineto->reading)
        drop_last(kineto);
    kineto->reading = false;
}

static bool document(void *state, const char *name, int64_t written_ns, const char **lacks) {
    (void)written_ns;
    struct kineto *kineto = state;
    if (!kineto->reading)
        return false;
    kineto->reading = false;
    struct rank_trace *rank = &kineto->ranks.items[kineto->ranks.count - 1];
    const char *base = strrchr(name, '/');
    snprintf(rank->name, sizeof rank->name, "%s", base ? base + 1 : name);
    move_to_base(rank);
    if (rank->kernels.count > 0 || rank->work.count > 0)
        return true;
    if (rank->kineto)
        *lacks = "a PyTorch profiler trace without a kernel or a copy of a GPU (profile with ProfilerActivity.CUDA)";
    drop_last(kineto);
    return false;
}

/* ---- ranks ------------------------------------------------------------------------------------- */

/* Whether nothing tells of more than one process. */
static bool of_one_worker(const struct kineto *kineto) {
    const struct rank_trace *ranks = kineto->ranks.items;
    for (size_t i = 0; i < kineto->ranks.count; i++) {
        size_t length = import_worker_name(ranks[i].name);
        bool same = i == 0 || (length > 0 && length == import_worker_name(ranks[0].name) &&
                               strncmp(ranks[i].name, ranks[0].name, length) == 0);
        if (ranks[i].rank >= 0 || ranks[i].world_size >= 0 || !same)
            return false;
    }
    return true;
}

/* Traces that were taken without torch.distributed say nothing of ranks: those of one worker alone are of a world of
 * one. Some name the rank alone: the world is then as large as the others' or the ranks tell. */
static void complete_ranks(struct kineto *kineto) {
    int32_t world = 1;
    bool one = of_one_worker(kineto);
    for (size_t i = 0; i < kineto->ranks.count; i++) {
        struct rank_trace *rank = &kineto->ranks.items[i];
        rank->rank = one ? 0 : rank->rank;
        world = rank->world_size > world ? rank->world_size : world;
        world = rank->rank >= world && rank->rank < TRACE_RANKS_MOST ? rank->rank + 1 : world;
    }
    for (size_t i = 0; i < kineto->ranks.count; i++)
        if (kineto->ranks.items[i].rank >= 0 && kineto->ranks.items[i].world_size < 0)
            kineto->ranks.items[i].world_size = world;
}

static const char *check_ranks(struct kineto *kineto) {
    for (size_t i = 0; i < kineto->ranks.count; i++) {
        const struct rank_trace *rank = &kineto->ranks.items[i];
        if (rank->rank >= 0 && rank->world_size > rank->rank && rank->world_size <= TRACE_RANKS_MOST)
            continue;
        snprintf(kineto->refused, sizeof kineto->refused,
                 "nothing tells of which rank %s is: its distributedInfo has no sound rank and world_size", rank->name);
        return kineto->refused;
    }
    return NULL;
}

static int compare_moments(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* What a rank's GPU did that is no operation. */
static bool add_works(struct trace *trace, struct rank_trace *rank) {
    int64_t *steps = malloc((rank->steps.count + 1) * sizeof *steps);
    if (!steps)
        return false;
    for (size_t i = 0; i < rank->steps.count; i++)
        steps[i] = rank->steps.items[i].start_ns;
    qsort(steps, rank->steps.count, sizeof *steps, compare_moments);
    for (size_t i = 0; i < rank->work.count; i++) {
        const struct launch *launch = kineto_launch_of(rank, rank->work.items[i].correlation);
        rank->work.items[i].launched_ns = launch ? launch->at_ns : GPU_LAUNCH_UNKNOWN;
    }
    bool added = gpu_work_add(trace, rank->rank, rank->work.items, rank->work.count, steps, rank->steps.count);
    free(steps);
    return added;
}

/* A mark at the beginning of each step, and one at the end of the last: a trace may hold a single step. */
static bool add_marks(struct trace *trace, const struct rank_trace *rank) {
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < rank->steps.count; i++) {
        last = rank->steps.items[i].end_ns > last ? rank->steps.items[i].end_ns : last;
        if (!trace_add_mark(trace, rank->rank, rank->steps.items[i].start_ns))
            return false;
    }
    return rank->steps.count == 0 || trace_add_mark(trace, rank->rank, last);
}

static void name_gpu(struct trace_rank *place, const struct rank_trace *rank) {
    const char *name = "GPU";
    if (rank->gpu < 0 || rank->gpu >= GPUS_MOST)
        return;
    place->gpu = (uint32_t)rank->gpu;
    for (size_t i = 0; i < rank->gpus.count; i++) {
        const struct gpu *gpu = &rank->gpus.items[i];
        if (gpu->ordinal == rank->gpu && gpu->name[0])
            name = gpu->name;
        if (gpu->ordinal == rank->gpu && gpu->bytes > 0)
            place->gpu_bytes = (uint64_t)gpu->bytes;
    }
    snprintf(place->gpu_name, sizeof place->gpu_name, "%s", name);
}

static void place_rank(struct trace_rank *place, const struct rank_trace *rank) {
    place->gpus_seen = (uint32_t)rank->gpus.count;
    snprintf(place->host_name, sizeof place->host_name, "%.*s", (int)import_host_name(rank->name), rank->name);
    snprintf(place->where, sizeof place->where, "%s", rank->name);
    name_gpu(place, rank);
}

static bool add_rank_trace(struct kineto *kineto, struct trace *trace, const struct cycle_trace *cycle) {
    struct rank_trace *rank = &kineto->ranks.items[cycle->index];
    if (!trace->ranks[rank->rank].seen)
        place_rank(&trace->ranks[rank->rank], rank);
    if (!trace_see_rank(trace, rank->rank))
        return false;
    return kineto_add_operations(kineto, trace, rank, cycle->cycle) && add_works(trace, rank) &&
           add_marks(trace, rank) &&
           gpu_memory_add(trace, rank->rank, rank->gpu, rank->memory.items, rank->memory.count);
}

/* Between two cycles nobody's recording went on, and a rank whose trace of a cycle is not there was paused in it. */
static bool add_pauses(struct trace *trace, const struct cycle_trace *traces, size_t count) {
    const struct cycle_trace **before = calloc((size_t)trace->world_size, sizeof *before); /* per rank */
    struct cycle_span *cycles = malloc((count + 1) * sizeof *cycles);
    bool added = before && cycles;
    if (added)
        cycles_extents(traces, count, cycles);
    uint32_t last = count > 0 ? traces[count - 1].cycle : 0;
    for (size_t i = 0; added && i < count; i++) {
        const struct cycle_trace *own = before[traces[i].rank];
        if (traces[i].cycle > 0)
            added = trace_add_pause(trace, traces[i].rank, own ? cycles_end(own, cycles) : cycles[0].start_ns,
                                    cycles_start(&traces[i], cycles));
        before[traces[i].rank] = &traces[i];
    }
    for (int32_t rank = 0; added && rank < trace->world_size; rank++)
        if (before[rank] && before[rank]->cycle < last)
            added = trace_add_pause(trace, rank, cycles_end(before[rank], cycles), cycles[last].end_ns);
    free(before);
    free(cycles);
    return added;
}

/* Returns NULL, or what stands in the way. */
static const char *add_traces(struct kineto *kineto, struct trace *trace) {
    struct cycle_trace *traces = malloc((kineto->ranks.count + 1) * sizeof *traces);
    kineto->group_places = calloc(kineto->groups.communicator_count + 1, sizeof *kineto->group_places);
    bool added = traces && kineto->group_places;
    for (size_t i = 0; added && i < kineto->ranks.count; i++) {
        traces[i] = cycle_of(kineto, i);
        added = trace_set_world(trace, kineto->ranks.items[i].world_size);
    }
    const char *refused =
        added ? cycles_order(traces, kineto->ranks.count, kineto->refused, sizeof kineto->refused) : NULL;
    for (size_t i = 0; added && !refused && i < kineto->ranks.count; i++)
        added = add_rank_trace(kineto, trace, &traces[i]);
    added = added && (refused || add_pauses(trace, traces, kineto->ranks.count));
    free(traces);
    return added ? refused : strerror(ENOMEM);
}

/* What was left out, and for what: "12 messages that do not name their partner". */
static void count_dropped(const struct kineto *kineto, struct trace *trace, size_t *dropped) {
    static const char *const lacks[][2] = {
        [DROPPED_TIME] = {"without a time", "without a time"},
        [DROPPED_KIND] = {"that does not say what it does", "that do not say what they do"},
        [DROPPED_GROUP] = {"whose process group does not tell its ranks",
                           "whose process group does not tell its ranks"},
        [DROPPED_MEMBER] = {"of a process group that its rank is not in", "of a process group that its rank is not in"},
        [DROPPED_PARTNER] = {"that sends or receives and does not say with whom",
                             "that send or receive and do not say with whom"},
    };
    size_t length = 0;
    *dropped = 0;
    for (int i = 0; i < DROPPED_REASONS; i++) {
        *dropped += kineto->dropped[i];
        if (kineto->dropped[i] > 0 && length < sizeof trace->left_out)
            length += (size_t)snprintf(trace->left_out + length, sizeof trace->left_out - length, "%s%zu kernel%s %s",
                                       length > 0 ? ", " : "", kineto->dropped[i], kineto->dropped[i] == 1 ? "" : "s",
                                       lacks[i][kineto->dropped[i] != 1]);
    }
}

static const char *finish(void *state, struct trace *trace, size_t *dropped) {
    struct kineto *kineto = state;
    *trace = (struct trace){.limits = kineto->limits,
                            .format = import_kineto.name,
                            .calls = import_nccl_calls,
                            .call_count = import_nccl_call_count,
                            .device = true,
                            .kernels = true,
                            .resolution_ns = 1000};
    complete_ranks(kineto);
    const char *refused = check_ranks(kineto);
    if (!refused)
        refused = add_traces(kineto, trace);
    if (!refused && (!trace_place_hosts(trace) || !trace_order_cycles(trace)))
        refused = strerror(ENOMEM);
    count_dropped(kineto, trace, dropped);
    trace->stacks = kineto->groups.stacks;
    kineto->groups.stacks = (struct trace_stacks){0};
    return refused;
}

const struct import_format import_kineto = {
    .name = "PyTorch profiler trace",
    .begin = begin,
    .piece = kineto_piece,
    .document = document,
    .forget = forget,
    .finish = finish,
    .end = end,
};
