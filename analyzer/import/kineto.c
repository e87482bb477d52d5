/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch profiler (Kineto) traces: one document per rank.
 * Lives here: finding NCCL's kernels, the operations that launched them, and their communicators.
 * Must not live here: numbering, dumps.
 *
 * An operation is a kernel of NCCL: its GPU time. What it is stands in the kernel's arguments (PyTorch 2.2 on:
 * Collective name, Group size, Process Group Name and Ranks, In msg nelems, dtype) or in the call "record_param_comms"
 * or the annotation "nccl:..." around the launch, found by the kernel's correlation number and the time and thread of
 * that launch; else in the kernel's name. A message's partner stands there too (Dst Rank, Src Rank, or the annotation
 * "nccl:send 0->1"); kernels that do not name it are counted, and are communication that cannot be matched. Who called
 * is told by what encloses the launch on its thread: Python's functions and modules (with_stack=True), operators of the
 * framework, annotations. A Python function has the line on which it begins. Where no function is on record, the
 * argument "Call stack" of an operator tells them, as older releases and TorchScript do: with the lines that were
 * executed. What other kernels do is the rank's own work, what copies do is apart (gpu_work.h). Operations are numbered
 * as PyTorch does where it tells, else per process group in the order of their kernels (trace_order_cycles). Several
 * traces of one rank are what the profiler's schedule wrote, one per cycle (cycles.h); between them recording was
 * paused.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/import/cycles.h"
#include "analyzer/import/formats.h"
#include "analyzer/import/gpu_work.h"

enum { NAME = 96, RANKS_NAMED = 4096, ANNOTATIONS_BACK = 256 /* that ended, inside one that has not */ };
enum { GPUS_MOST = 1024 /* of a host */ };

/* What PyTorch says of a collective or a message. */
struct told {
    char name[NAME]; /* of the collective where `named`, else of the kernel */
    bool named;
    uint32_t
        group; /* process group: index of a communicator of kineto.groups, without members where they are not told */
    uint32_t group_size;
    uint64_t elements, type_bytes; /* elements UINT64_MAX = unknown */
    enum datatype_code dtype;
    int64_t number;        /* of a collective in its group, -1: not told */
    int64_t partner;       /* of a message, world rank, -1: not told */
    int64_t partner_place; /* ... rank in the group; of a collective, the own one */
};

struct kernel {
    int64_t start_ns, end_ns;
    int64_t correlation;
    struct told told;
};

struct launch {
    int64_t correlation, at_ns;
    int64_t thread;
};

/* When something was on a thread. */
struct thread_span {
    int64_t start_ns, end_ns, thread;
};

struct annotation {
    struct thread_span on;
    char name[NAME];
    uint64_t elements, type_bytes;
    enum datatype_code dtype;
};

/* "record_param_comms": the framework's call that launches a collective or a message. */
struct call_note {
    struct thread_span on;
    struct told told;
    bool launched; /* a kernel, of its own or with others */
};

#define LIST(TYPE)                                                                                                     \
    struct {                                                                                                           \
        struct TYPE *items;                                                                                            \
        size_t count;                                                                                                  \
    }

/* A frame, for as long as it was on its thread. */
struct frame_span {
    struct thread_span on;
    uint32_t frame;
    uint32_t around;     /* index + 1 of the span that encloses it, 0 = none */
    uint32_t stack;      /* once it was asked for */
    uint32_t call_stack; /* what its argument tells; TRACE_STACK_NONE also where what is around it tells the same */
    bool functions;      /* it is a function, or one is known around it */
};

struct gpu {
    int64_t ordinal;
    int64_t bytes; /* of memory */
    char name[64];
};

struct rank_trace {
    int32_t rank, world_size; /* -1: not told */
    int64_t base_ns;          /* that its times count from */
    int64_t first_step;       /* as the profiler counts them, -1: not told */
    LIST(gpu) gpus;           /* of its host */
    int64_t gpu;              /* the one that its first kernel ran on, -1: not told */
    bool messages;            /* it calls sends or receives */
    bool kineto;              /* it has what only such a trace has, whatever else is there */
    char name[NAME];
    struct process_groups groups;
    LIST(kernel) kernels;
    LIST(launch) launches;
    LIST(annotation) annotations;
    LIST(call_note) notes;
    LIST(cycle_span) steps; /* of the profiler */
    LIST(gpu_kernel) work;  /* what is no operation */
    LIST(gpu_memory) memory;
    LIST(frame_span) frames;
};

/* Why an operation is left out: what its record lacks. */
enum dropped { DROPPED_TIME, DROPPED_KIND, DROPPED_GROUP, DROPPED_MEMBER, DROPPED_PARTNER, DROPPED_REASONS };

struct kineto {
    struct import_limits *limits;
    LIST(rank_trace) ranks; /* the last one is being read */
    struct trace groups;    /* the process groups of all ranks: its communicators alone, and stacks */
    uint32_t *group_places; /* per group: index + 1 of its communicator in the finished trace, 0 = not yet there */
    int32_t *named;         /* RANKS_NAMED: members as they are read */
    size_t dropped[DROPPED_REASONS];
    bool reading;
    char refused[3 * NAME + 160];
};

/* One more item, zeroed; NULL when memory is short or a limit is exceeded. The array doubles. */
#define GROW(LIMITS, LIST_)                                                                                            \
    (limits_keep(LIMITS, 2 * sizeof *(LIST_).items) && grow_list((LIST_).items, (LIST_).count)                         \
         ? memset(&(LIST_).items[(LIST_).count++], 0, sizeof *(LIST_).items)                                           \
         : NULL)

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

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t integer_or(const json_t *object, const char *key, int64_t otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static const char *text_or(const json_t *object, const char *key, const char *otherwise) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

static bool read_span(const json_t *piece, int64_t *start_ns, int64_t *end_ns) {
    int64_t duration;
    if (!import_time(json_object_get(piece, "ts"), start_ns) ||
        !import_time(json_object_get(piece, "dur"), &duration) || duration < 0)
        return false;
    *end_ns = *start_ns + duration;
    return true;
}

/* The process group that a kernel names, as an index of kineto->groups. What the kernel does not say of it may stand in
 * the list of all groups. */
static size_t group_of(struct kineto *kineto, const struct rank_trace *rank, const json_t *arguments) {
    const char *name = text_or(arguments, "Process Group Name", "");
    const struct process_group *listed = process_groups_find(&rank->groups, name);
    const char *description = text_or(arguments, "Process Group Description", listed ? listed->description : NULL);
    uint32_t size = import_ranks(json_object_get(arguments, "Process Group Ranks"), kineto->named, RANKS_NAMED);
    const int32_t *members = size == 0 && listed ? listed->ranks : kineto->named;
    char title[NAME];
    process_group_title(title, sizeof title, name, description);
    return trace_communicator(&kineto->groups, title, members, size == 0 && listed ? listed->size : size);
}

/* False: memory is short, or a limit is exceeded. */
static bool read_told(struct kineto *kineto, const struct rank_trace *rank, const json_t *arguments, const char *name,
                      struct told *told) {
    const char *collective = text_or(arguments, "Collective name", NULL);
    *told = (struct told){.named = collective != NULL,
                          .group_size = (uint32_t)integer_or(arguments, "Group size", 0),
                          .number = integer_or(arguments, "Seq", -1),
                          .partner_place = integer_or(arguments, "Rank", -1)};
    /* PyTorch writes one of the two, a world rank */
    told->partner = integer_or(arguments, "Dst Rank", integer_or(arguments, "Src Rank", -1));
    snprintf(told->name, sizeof told->name, "%s", collective ? collective : name);
    int64_t in = integer_or(arguments, "In msg nelems", -1), out = integer_or(arguments, "Out msg nelems", -1);
    told->elements = in < 0 && out < 0 ? UINT64_MAX : (uint64_t)(in > out ? in : out);
    uint32_t bytes;
    told->dtype = import_dtype(text_or(arguments, "dtype", NULL), &bytes);
    told->type_bytes = bytes;
    size_t index = group_of(kineto, rank, arguments);
    told->group = (uint32_t)index;
    return index != SIZE_MAX;
}

static bool add_kernel(struct kineto *kineto, struct rank_trace *rank, const json_t *piece, const json_t *arguments) {
    struct kernel kernel = {.correlation = integer_or(arguments, "correlation", -1)};
    if (!read_span(piece, &kernel.start_ns, &kernel.end_ns)) {
        kineto->dropped[DROPPED_TIME]++;
        return true;
    }
    struct kernel *place = read_told(kineto, rank, arguments, text_or(piece, "name", ""), &kernel.told)
                               ? GROW(kineto->limits, rank->kernels)
                               : NULL;
    if (place)
        *place = kernel;
    return place != NULL;
}

static bool add_note(struct kineto *kineto, struct rank_trace *rank, const json_t *piece, const json_t *arguments) {
    struct call_note note = {.on.thread = integer_or(piece, "tid", -1)};
    if (!read_span(piece, &note.on.start_ns, &note.on.end_ns))
        return true;
    struct call_note *place =
        read_told(kineto, rank, arguments, "", &note.told) ? GROW(kineto->limits, rank->notes) : NULL;
    if (place)
        *place = note;
    return place != NULL;
}

static bool add_launch(struct kineto *kineto, struct rank_trace *rank, const json_t *piece, const json_t *arguments) {
    struct launch launch = {.correlation = integer_or(arguments, "correlation", -1),
                            .thread = integer_or(piece, "tid", -1)};
    if (launch.correlation < 0 || !import_time(json_object_get(piece, "ts"), &launch.at_ns))
        return true;
    struct launch *place = GROW(kineto->limits, rank->launches);
    if (place)
        *place = launch;
    return place != NULL;
}

/* Sum of the elements of all tensors: [[6144]], [[4, 2], [3]]. */
static uint64_t count_elements(const json_t *shapes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < json_array_size(shapes); i++) {
        const json_t *shape = json_array_get(shapes, i);
        uint64_t product = json_array_size(shape) > 0;
        for (size_t d = 0; d < json_array_size(shape); d++)
            if (__builtin_mul_overflow(product, (uint64_t)json_integer_value(json_array_get(shape, d)), &product))
                return UINT64_MAX;
        if (__builtin_add_overflow(sum, product, &sum))
            return UINT64_MAX;
    }
    return sum > 0 ? sum : UINT64_MAX;
}

static bool add_annotation(struct kineto *kineto, struct rank_trace *rank, const json_t *piece,
                           const json_t *arguments) {
    struct annotation annotation = {.on.thread = integer_or(piece, "tid", -1)};
    if (!read_span(piece, &annotation.on.start_ns, &annotation.on.end_ns))
        return true;
    snprintf(annotation.name, sizeof annotation.name, "%s", text_or(piece, "name", ""));
    annotation.elements = count_elements(json_object_get(arguments, "Input Dims"));
    const char *type = json_string_value(json_array_get(json_object_get(arguments, "Input type"), 0));
    uint32_t bytes;
    annotation.dtype = import_dtype(type, &bytes);
    annotation.type_bytes = bytes;
    struct annotation *place = GROW(kineto->limits, rank->annotations);
    if (place)
        *place = annotation;
    return place != NULL;
}

/* "ProfilerStep#7": what the profiler's schedule counts as a step. */
static bool add_step(struct kineto *kineto, struct rank_trace *rank, const json_t *piece, const char *number) {
    struct cycle_span span;
    if (!read_span(piece, &span.start_ns, &span.end_ns))
        return true;
    int64_t step = number[0] >= '0' && number[0] <= '9' ? strtoll(number, NULL, 10) : -1;
    if (step >= 0 && (rank->first_step < 0 || step < rank->first_step))
        rank->first_step = step;
    struct cycle_span *place = GROW(kineto->limits, rank->steps);
    if (place)
        *place = span;
    return place != NULL;
}

/* What ran on the GPU and is no operation. With room for the event that it becomes. */
static bool add_work(struct kineto *kineto, struct rank_trace *rank, const struct gpu_kernel *work) {
    struct gpu_kernel *place = work->end_ns > work->start_ns ? GROW(kineto->limits, rank->work) : NULL;
    if (place)
        *place = *work;
    return place || work->end_ns <= work->start_ns;
}

static bool read_work(struct kineto *kineto, struct rank_trace *rank, const json_t *piece, const json_t *arguments,
                      uint16_t call) {
    struct gpu_kernel work = {.correlation = integer_or(arguments, "correlation", -1), .call = call};
    return !read_span(piece, &work.start_ns, &work.end_ns) || add_work(kineto, rank, &work);
}

static bool add_gpu(struct kineto *kineto, struct rank_trace *rank, const json_t *piece) {
    struct gpu *gpu = GROW(kineto->limits, rank->gpus);
    if (!gpu)
        return false;
    gpu->ordinal = integer_or(piece, "id", -1);
    gpu->bytes = integer_or(piece, "totalGlobalMem", 0);
    snprintf(gpu->name, sizeof gpu->name, "%s", text_or(piece, "name", ""));
    return true;
}

/* The frame that an event stands for, as a number: 0 where memory is short. */
static uint32_t frame_of_piece(struct kineto *kineto, const char *category, const char *name) {
    static const char module[] = "nn.Module: ";
    struct trace_stacks *stacks = &kineto->groups.stacks;
    if (strcmp(category, "user_annotation") == 0)
        return trace_frame(stacks, kineto->limits, TRACE_FRAME_RANGE, name, "", 0);
    if (strcmp(category, "cpu_op") == 0)
        return trace_frame(stacks, kineto->limits, TRACE_FRAME_NATIVE, name, "", 0);
    if (strncmp(name, module, sizeof module - 1) == 0)
        return trace_frame(stacks, kineto->limits, TRACE_FRAME_RANGE, name + sizeof module - 1, "nn.Module", 0);
    return trace_frame_of_words(stacks, kineto->limits, name);
}

static bool add_frame(struct kineto *kineto, struct rank_trace *rank, const json_t *piece, const char *category,
                      const char *name) {
    struct frame_span span = {.on.thread = integer_or(piece, "tid", -1),
                              .functions = strcmp(category, "python_function") == 0};
    const char *words = text_or(json_object_get(piece, "args"), "Call stack", "");
    if (!read_span(piece, &span.on.start_ns, &span.on.end_ns) || rank->frames.count == UINT32_MAX)
        return true;
    span.frame = frame_of_piece(kineto, category, name);
    bool kept = span.frame && trace_stack_of_words(&kineto->groups.stacks, kineto->limits, words, &span.call_stack);
    struct frame_span *place = kept ? GROW(kineto->limits, rank->frames) : NULL;
    if (place)
        *place = span;
    return place != NULL;
}

static struct rank_trace *present(struct kineto *kineto) {
    if (kineto->reading)
        return &kineto->ranks.items[kineto->ranks.count - 1];
    struct rank_trace *rank = GROW(kineto->limits, kineto->ranks);
    if (rank) {
        rank->rank = rank->world_size = -1;
        rank->gpu = rank->first_step = -1;
        kineto->reading = true;
    }
    return rank;
}

/* Category of old traces and of new ones: "Kernel", "kernel". */
static bool is_category(const char *category, const char *is, const char *was) {
    return strcmp(category, is) == 0 || strcmp(category, was) == 0;
}

/* NCCL's and RCCL's kernels, also where a template comes first: "void ncclKernel<...>". */
static bool is_nccl_kernel(const char *name) {
    return strncmp(name, "nccl", 4) == 0 || strstr(name, "ncclKernel") || strstr(name, "ncclDevKernel");
}

/* What ran on the GPU. */
static bool add_gpu_event(struct kineto *kineto, struct rank_trace *rank, const json_t *value, const char *name,
                          bool kernel) {
    const json_t *arguments = json_object_get(value, "args");
    if (rank->gpu < 0)
        rank->gpu = integer_or(arguments, "device", -1);
    if (kernel && is_nccl_kernel(name))
        return add_kernel(kineto, rank, value, arguments);
    return read_work(kineto, rank, value, arguments, kernel ? import_gpu_work : import_gpu_copies);
}

/* A tensor came or went: "[memory]", with what the device's allocator holds since then. */
static bool add_memory(struct kineto *kineto, struct rank_trace *rank, const json_t *piece, const json_t *arguments) {
    enum { DEVICE_CUDA = 1, DEVICE_HIP = 6 /* c10::DeviceType; 0 is the host */ };
    int64_t type = integer_or(arguments, "Device Type", -1);
    int64_t allocated = integer_or(arguments, "Total Allocated", -1);
    int64_t reserved = integer_or(arguments, "Total Reserved", -1);
    struct gpu_memory sample = {.device = integer_or(arguments, "Device Id", -1)};
    if ((type != DEVICE_CUDA && type != DEVICE_HIP) || sample.device < 0 || allocated < 0 || reserved < 0 ||
        !import_time(json_object_get(piece, "ts"), &sample.at_ns))
        return true;
    sample.allocated = (uint64_t)allocated;
    sample.reserved = (uint64_t)reserved;
    struct gpu_memory *place = GROW(kineto->limits, rank->memory);
    if (place)
        *place = sample;
    return place != NULL;
}

static bool add_event(struct kineto *kineto, struct rank_trace *rank, const json_t *value) {
    const char *category = text_or(value, "cat", ""), *name = text_or(value, "name", "");
    const json_t *arguments = json_object_get(value, "args");
    if (strcmp(name, "[memory]") == 0)
        return add_memory(kineto, rank, value, arguments);
    bool kernel = is_category(category, "kernel", "Kernel");
    if (kernel || is_category(category, "gpu_memcpy", "Memcpy") || is_category(category, "gpu_memset", "Memset"))
        return add_gpu_event(kineto, rank, value, name, kernel);
    if (is_category(category, "cuda_runtime", "Runtime") || strcmp(category, "cuda_driver") == 0)
        return add_launch(kineto, rank, value, arguments);
    if (strcmp(category, "user_annotation") == 0 && strncmp(name, "nccl:", 5) == 0)
        return add_annotation(kineto, rank, value, arguments);
    if (strcmp(category, "user_annotation") == 0 && strncmp(name, "ProfilerStep#", 13) == 0)
        return add_step(kineto, rank, value, name + 13);
    if (strcmp(category, "cpu_op") == 0 && json_object_get(arguments, "Collective name") &&
        !add_note(kineto, rank, value, arguments))
        return false;
    if (strcmp(category, "user_annotation") == 0 || strcmp(category, "cpu_op") == 0 ||
        strcmp(category, "python_function") == 0)
        return add_frame(kineto, rank, value, category, name);
    return true;
}

static bool piece(void *state, const char *key, const json_t *value) {
    struct kineto *kineto = state;
    bool base = key && strcmp(key, "baseTimeNanoseconds") == 0 && json_is_integer(value);
    if (!key || (!json_is_object(value) && !base))
        return true;
    struct rank_trace *rank = present(kineto);
    if (!rank)
        return false;
    if (base) {
        json_int_t ns = json_integer_value(value);
        rank->base_ns = ns > 0 && ns < INT64_MAX / 4 ? ns : 0; /* a time's own range: import_time */
        return true;
    }
    const char *category = text_or(value, "cat", "");
    rank->kineto |= strcmp(key, "deviceProperties") == 0 || strcmp(key, "distributedInfo") == 0 ||
                    is_category(category, "cpu_op", "user_annotation");
    if (strcmp(key, "deviceProperties") == 0)
        return add_gpu(kineto, rank, value);
    if (strcmp(key, "distributedInfo") == 0) {
        rank->rank = (int32_t)integer_or(value, "rank", -1);
        rank->world_size = (int32_t)integer_or(value, "world_size", -1);
        return process_groups_read(&rank->groups, json_object_get(value, "pg_config"), kineto->limits);
    }
    return strcmp(key, "traceEvents") != 0 || add_event(kineto, rank, value);
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

/* ---- operations ------------------------------------------------------------------------------ */

static int compare_launches(const void *a, const void *b) {
    const struct launch *left = a, *right = b;
    return (left->correlation > right->correlation) - (left->correlation < right->correlation);
}

static int compare_kernels(const void *a, const void *b) {
    const struct kernel *left = a, *right = b;
    if (left->start_ns != right->start_ns)
        return left->start_ns < right->start_ns ? -1 : 1;
    return (left->correlation > right->correlation) - (left->correlation < right->correlation);
}

/* The launch of a kernel, NULL where it is not on record. */
static const struct launch *launch_of(const struct rank_trace *rank, int64_t correlation) {
    struct launch key = {.correlation = correlation};
    if (rank->launches.count == 0) /* no array to search either */
        return NULL;
    return bsearch(&key, rank->launches.items, rank->launches.count, sizeof key, compare_launches);
}

/* An outer one before what it encloses. */
static int compare_spans(const struct thread_span *left, const struct thread_span *right) {
    if (left->thread != right->thread)
        return left->thread < right->thread ? -1 : 1;
    if (left->start_ns != right->start_ns)
        return left->start_ns < right->start_ns ? -1 : 1;
    return (left->end_ns < right->end_ns) - (left->end_ns > right->end_ns);
}

static int compare_annotations(const void *a, const void *b) {
    const struct annotation *left = a, *right = b;
    int order = compare_spans(&left->on, &right->on);
    return order ? order : strcmp(left->name, right->name);
}

static int compare_frames(const void *a, const void *b) {
    const struct frame_span *left = a, *right = b;
    int order = compare_spans(&left->on, &right->on);
    return order ? order : (left->frame > right->frame) - (left->frame < right->frame);
}

static int compare_notes(const void *a, const void *b) {
    const struct call_note *left = a, *right = b;
    return compare_spans(&left->on, &right->on);
}

/* How many of the sorted items, which begin with a struct thread_span, are of the launch's thread or a lower one, and
 * began before it. */
static size_t begun_before(const void *items, size_t count, size_t item_bytes, const struct launch *launch) {
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        const struct thread_span *one = (const void *)((const char *)items + middle * item_bytes);
        if (one->thread < launch->thread || (one->thread == launch->thread && one->start_ns <= launch->at_ns))
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* The innermost of the items around a launch, NULL: none. They are sorted: it is the last that began before and has not
 * ended, and no more than a few that have ended lie between. */
static const void *item_around(const void *items, size_t count, size_t item_bytes, const struct launch *launch) {
    if (!launch)
        return NULL;
    size_t low = begun_before(items, count, item_bytes, launch);
    for (size_t back = 1; back <= low && back <= ANNOTATIONS_BACK; back++) {
        const struct thread_span *one = (const void *)((const char *)items + (low - back) * item_bytes);
        if (one->thread != launch->thread)
            return NULL;
        if (launch->at_ns <= one->end_ns)
            return one;
    }
    return NULL;
}

static const struct annotation *annotation_of(const struct rank_trace *rank, const struct launch *launch) {
    return item_around(rank->annotations.items, rank->annotations.count, sizeof *rank->annotations.items, launch);
}

/* Of a kernel that says nothing itself, what the call around its launch says. */
static const struct told *told_of(const struct rank_trace *rank, const struct kernel *kernel,
                                  const struct launch *launch) {
    if (kernel->told.named)
        return &kernel->told;
    const struct call_note *note = item_around(rank->notes.items, rank->notes.count, sizeof *rank->notes.items, launch);
    return note ? &note->told : &kernel->told;
}

/* Sorts a rank's frames, and finds which encloses which. An operator inside another one was called by the same
 * functions. */
static void nest_frames(struct rank_trace *rank) {
    struct frame_span *spans = rank->frames.items;
    if (rank->frames.count > 0)
        qsort(spans, rank->frames.count, sizeof *spans, compare_frames);
    for (size_t i = 0; i < rank->frames.count; i++) {
        uint32_t around = i > 0 && spans[i - 1].on.thread == spans[i].on.thread ? (uint32_t)i : 0;
        while (around > 0 && spans[around - 1].on.end_ns < spans[i].on.end_ns)
            around = spans[around - 1].around;
        spans[i].around = around;
        spans[i].call_stack = around > 0 && spans[around - 1].functions ? TRACE_STACK_NONE : spans[i].call_stack;
        spans[i].functions |= spans[i].call_stack != TRACE_STACK_NONE || (around > 0 && spans[around - 1].functions);
    }
}

/* Index + 1 of the innermost frame around a launch, 0 = none. */
static uint32_t frame_around(const struct rank_trace *rank, const struct launch *launch) {
    const struct frame_span *spans = rank->frames.items;
    size_t low = begun_before(spans, rank->frames.count, sizeof *spans, launch);
    uint32_t at = low > 0 && spans[low - 1].on.thread == launch->thread ? (uint32_t)low : 0;
    while (at > 0 && spans[at - 1].on.end_ns < launch->at_ns)
        at = spans[at - 1].around;
    return at;
}

/* Who launched: TRACE_STACK_NONE where nothing tells. Returns false when memory is short, or a limit is exceeded. */
static bool stack_of(struct kineto *kineto, const struct rank_trace *rank, const struct launch *launch,
                     uint32_t *stack) {
    uint32_t chain[TRACE_STACK_DEPTH + 1], count = 0;
    uint32_t at = launch ? frame_around(rank, launch) : 0;
    for (; at > 0 && count <= TRACE_STACK_DEPTH && rank->frames.items[at - 1].stack == TRACE_STACK_NONE; count++) {
        chain[count] = at - 1;
        at = rank->frames.items[at - 1].around;
    }
    *stack = at > 0 ? rank->frames.items[at - 1].stack : TRACE_STACK_NONE;
    while (count > 0) {
        struct frame_span *span = &rank->frames.items[chain[--count]];
        if (!trace_stack_join(&kineto->groups.stacks, kineto->limits, span->call_stack, stack))
            return false;
        *stack = span->stack = trace_stack(&kineto->groups.stacks, kineto->limits, span->frame, *stack);
        if (*stack == TRACE_STACK_NONE)
            return false;
    }
    return true;
}

/* nccl-tests' bytes: where only the input is known, an all-gather's result is as many times as large. */
static uint64_t told_bytes(const struct told *told, const struct annotation *annotation, int call, uint32_t size) {
    uint64_t elements = told->elements, type = told->type_bytes, bytes;
    if (elements == UINT64_MAX && annotation) {
        elements = annotation->elements;
        type = annotation->type_bytes;
        if (strcmp(import_nccl_calls[call].name, "ncclAllGather") == 0 && elements != UINT64_MAX &&
            __builtin_mul_overflow(elements, (uint64_t)size, &elements))
            return BYTES_UNKNOWN;
    }
    if (elements == UINT64_MAX || type == 0 || __builtin_mul_overflow(elements, type, &bytes))
        return BYTES_UNKNOWN;
    return bytes;
}

/* A group whose ranks are not told holds the world, if it is as large. */
static size_t add_world(struct trace *trace, const char *group) {
    int32_t *members = malloc((size_t)trace->world_size * sizeof *members);
    if (!members)
        return SIZE_MAX;
    for (int32_t i = 0; i < trace->world_size; i++)
        members[i] = i;
    size_t found =
        trace_communicator(trace, group[0] ? group : "default process group", members, (uint32_t)trace->world_size);
    free(members);
    return found;
}

/* SIZE_MAX: memory is short, or a limit is exceeded. */
static size_t communicator_of(struct kineto *kineto, struct trace *trace, uint32_t number) {
    uint32_t *place = &kineto->group_places[number];
    if (*place == 0) {
        const struct trace_communicator *group = &kineto->groups.communicators[number];
        size_t made = group->size > 0 ? trace_communicator(trace, group->name, group->members, group->size)
                                      : add_world(trace, group->name);
        if (made == SIZE_MAX || !limits_ranks(trace->limits, trace->seen_count, trace->communicator_count))
            return SIZE_MAX;
        *place = (uint32_t)made + 1;
    }
    return *place - 1;
}

static struct trace_event kernel_event(const struct rank_trace *rank, const struct kernel *kernel,
                                       const struct launch *launch, const struct told *told,
                                       const struct annotation *annotation) {
    int64_t posted = launch && launch->at_ns <= kernel->start_ns ? launch->at_ns : kernel->start_ns;
    bool known = annotation && annotation->on.start_ns <= posted;
    return (struct trace_event){
        .posted_ns = known ? annotation->on.start_ns : posted,
        .returned_ns = known ? annotation->on.end_ns : posted,
        .enter_ns = kernel->start_ns,
        .leave_ns = kernel->end_ns,
        .rank = rank->rank,
        .peer = PEER_NONE,
        .tag = TAG_NONE,
        .told_number = -1,
        .state = TRACE_FINISHED,
        .timed = true,
        .dtype = (uint8_t)(told->dtype != DATATYPE_OTHER || !annotation ? told->dtype : annotation->dtype)};
}

/* Communication all the same. */
static bool drop_operation(struct kineto *kineto, struct rank_trace *rank, const struct kernel *kernel,
                           enum dropped reason) {
    kineto->dropped[reason]++;
    return add_work(kineto, rank,
                    &(struct gpu_kernel){.start_ns = kernel->start_ns,
                                         .end_ns = kernel->end_ns,
                                         .correlation = kernel->correlation,
                                         .call = import_gpu_nccl});
}

/* Rank in its communicator of whom a message goes to or comes from, -1: not told. Where the world rank cannot be, the
 * rank in the group is there too. */
static int32_t partner_of(const struct trace_communicator *communicator, int32_t rank, const struct told *told,
                          const struct annotation *annotation) {
    int32_t own = trace_member(communicator, rank), partner = -1;
    if (told->partner >= 0 && told->partner < TRACE_RANKS_MOST)
        partner = trace_member(communicator, (int32_t)told->partner);
    if (partner >= 0 && partner != own)
        return partner;
    int64_t place = told->named ? told->partner_place : -1;
    int from, to; /* both in the group: "nccl:send 0->1", "nccl:recv 1<-0" */
    if (place < 0 && annotation &&
        (sscanf(annotation->name, "nccl:send %d->%d", &from, &to) == 2 ||
         sscanf(annotation->name, "nccl:recv %d<-%d", &from, &to) == 2))
        place = from == own ? to : -1;
    return place >= 0 && place < communicator->size && place != own ? (int32_t)place : -1;
}

/* What stands in the way of the event, DROPPED_REASONS: nothing. */
static enum dropped complete_event(struct trace_event *event, const struct trace_communicator *communicator,
                                   uint32_t cycle, const struct told *told, const struct annotation *annotation) {
    bool collective = import_nccl_calls[event->call].call_class == CLASS_COLLECTIVE;
    if (trace_member(communicator, event->rank) < 0)
        return DROPPED_MEMBER;
    event->cycle = cycle;
    event->bytes = told_bytes(told, annotation, event->call, communicator->size);
    if (collective)
        event->told_number = told->number;
    else
        event->peer = partner_of(communicator, event->rank, told, annotation);
    return collective || event->peer >= 0 ? DROPPED_REASONS : DROPPED_PARTNER;
}

/* A kernel with all that is known of it. */
struct operation {
    const struct kernel *kernel;
    const struct launch *launch;
    const struct annotation *annotation;
    const struct told *told;
};

static struct operation look_up(const struct rank_trace *rank, const struct kernel *kernel) {
    const struct launch *launch = launch_of(rank, kernel->correlation);
    return (struct operation){kernel, launch, annotation_of(rank, launch), told_of(rank, kernel, launch)};
}

/* Fills in the event. DROPPED_REASONS: nothing stands in the way. A call of -1: as the name says. */
static bool read_operation(struct kineto *kineto, struct trace *trace, const struct rank_trace *rank,
                           const struct operation *operation, int call, uint32_t cycle, struct trace_event *event,
                           enum dropped *lacks) {
    const struct told *told = operation->told;
    bool whole = kineto->groups.communicators[told->group].size > 0 || told->group_size == 0 ||
                 told->group_size == (uint32_t)trace->world_size;
    if (call < 0)
        call = import_nccl_call(operation->annotation ? operation->annotation->name : told->name);
    *lacks = call < 0 ? DROPPED_KIND : DROPPED_GROUP;
    if (call < 0 || !whole)
        return true;
    size_t index = communicator_of(kineto, trace, told->group);
    if (index == SIZE_MAX)
        return false;
    *event = kernel_event(rank, operation->kernel, operation->launch, told, operation->annotation);
    event->communicator = (uint32_t)index;
    event->call = (uint16_t)call;
    *lacks = complete_event(event, &trace->communicators[index], cycle, told, operation->annotation);
    return stack_of(kineto, rank, operation->launch, &event->stack);
}

static bool is_message_call(int call) {
    return call >= 0 &&
           (import_nccl_calls[call].call_class == CLASS_SEND || import_nccl_calls[call].call_class == CLASS_RECV);
}

/* When the batch before this one was launched from its thread. */
static int64_t batch_before(const struct rank_trace *rank, const struct annotation *batch) {
    const struct annotation *first = rank->annotations.items;
    for (const struct annotation *one = batch; one > first && batch - one < ANNOTATIONS_BACK; one--)
        if (one[-1].on.thread != batch->on.thread || strcmp(one[-1].name, batch->name) == 0)
            return one[-1].on.thread == batch->on.thread ? one[-1].on.end_ns : INT64_MIN;
    return INT64_MIN;
}

static bool is_collective_call(int call) {
    return call >= 0 && import_nccl_calls[call].call_class == CLASS_COLLECTIVE;
}

/* Whether calls of PyTorch that launched nothing of their own may have been launched together by this kernel: a batch
 * of messages (batch_isend_irecv), or several of the same collective. Without an annotation the kernel's name must
 * agree. */
static bool may_launch(const struct operation *operation, const struct call_note *note, const struct call_note *last) {
    int call = import_nccl_call(note->told.name), kernel = import_nccl_call(operation->told->name);
    if (note->on.thread != operation->launch->thread || note->launched || note->told.group != last->told.group)
        return false;
    if (is_message_call(call))
        return is_message_call(import_nccl_call(last->told.name)) &&
               (operation->annotation || kernel == import_nccl_call("sendrecv"));
    return is_collective_call(call) && strcmp(note->told.name, last->told.name) == 0 &&
           (operation->annotation || kernel == call);
}

/* The calls that a launch outside of all of them starts: those since the batch before that launched nothing. PyTorch
 * launches what it collects in a call of its own, which some versions put into the annotation "nccl:coalesced", and
 * which says nothing of groups or partners. Returns how many, *first on. */
static size_t batch_of(const struct rank_trace *rank, const struct operation *operation, size_t *first) {
    const struct annotation *batch = operation->annotation;
    if (operation->told->named || !operation->launch || (batch && strcmp(batch->name, "nccl:coalesced") != 0))
        return 0;
    int64_t since = batch ? batch_before(rank, batch) : INT64_MIN;
    size_t end = begun_before(rank->notes.items, rank->notes.count, sizeof *rank->notes.items, operation->launch);
    for (*first = end; *first > 0; --*first) {
        const struct call_note *note = &rank->notes.items[*first - 1];
        if (note->on.start_ns < since || !may_launch(operation, note, &rank->notes.items[end - 1]))
            break;
    }
    return end - *first;
}

/* Several of the same collective in one launch: one operation with the bytes of all. */
static bool add_coalesced(struct kineto *kineto, struct trace *trace, struct rank_trace *rank, uint32_t cycle,
                          const struct operation *operation, size_t first, size_t count) {
    struct operation last = *operation;
    struct trace_event event;
    enum dropped lacks;
    last.told = &rank->notes.items[first + count - 1].told;
    if (!read_operation(kineto, trace, rank, &last, import_nccl_call(last.told->name), cycle, &event, &lacks))
        return false;
    for (size_t i = first; i < first + count; i++) {
        const struct told *told = &rank->notes.items[i].told;
        rank->notes.items[i].launched = true;
        if (lacks != DROPPED_REASONS || i == first + count - 1)
            continue;
        uint64_t bytes = told_bytes(told, NULL, event.call, trace->communicators[event.communicator].size);
        event.bytes = bytes == BYTES_UNKNOWN || event.bytes == BYTES_UNKNOWN ? BYTES_UNKNOWN : event.bytes + bytes;
    }
    return lacks != DROPPED_REASONS ? drop_operation(kineto, rank, operation->kernel, lacks) : trace_add(trace, &event);
}

/* Messages that run together keep what they are; their time is the group's. */
static bool add_batch(struct kineto *kineto, struct trace *trace, struct rank_trace *rank, uint32_t cycle,
                      const struct operation *operation, size_t first, size_t count) {
    struct trace_event group = {0}, event;
    size_t before = trace->event_count;
    for (size_t i = first; i < first + count;
         i++) /* also those behind one that cannot be told: no other launch is theirs */
        rank->notes.items[i].launched = true;
    for (size_t i = first; i < first + count; i++) {
        struct operation part = *operation;
        enum dropped lacks;
        part.told = &rank->notes.items[i].told;
        if (!read_operation(kineto, trace, rank, &part, import_nccl_call(part.told->name), cycle, &event, &lacks))
            return false;
        if (lacks != DROPPED_REASONS) {
            trace->event_count = before;
            return drop_operation(kineto, rank, operation->kernel, lacks);
        }
        uint64_t bytes =
            group.bytes == BYTES_UNKNOWN || event.bytes == BYTES_UNKNOWN ? BYTES_UNKNOWN : group.bytes + event.bytes;
        group = event;
        group.bytes = bytes;
        event.batched = true;
        event.grouped = count > 1;
        event.timed = !event.grouped;
        if (!trace_add(trace, &event))
            return false;
    }
    group.call = import_nccl_group;
    group.peer = PEER_NONE;
    return count == 1 || trace_add(trace, &group);
}

/* A kernel of which nothing but its name is known may be anything that its rank does: where that uses several process
 * groups it is of no certain one, and where it sends messages a kernel that does so is no certain collective. */
static enum dropped says_too_little(const struct kineto *kineto, const struct rank_trace *rank,
                                    const struct operation *operation) {
    size_t groups = 0;
    if (operation->told->named || operation->annotation || rank->notes.count == 0)
        return DROPPED_REASONS;
    for (size_t i = 0; i < kineto->groups.communicator_count && groups < 2; i++)
        groups += kineto->groups.communicators[i].size > 0;
    if (groups > 1)
        return DROPPED_GROUP;
    bool unsure = rank->messages && import_nccl_call(operation->told->name) == import_nccl_call("sendrecv");
    return unsure ? DROPPED_KIND : DROPPED_REASONS;
}

static bool add_kernel_operation(struct kineto *kineto, struct trace *trace, struct rank_trace *rank, uint32_t cycle,
                                 const struct kernel *kernel) {
    struct operation operation = look_up(rank, kernel);
    size_t first, count = batch_of(rank, &operation, &first);
    if (count > 0 && is_message_call(import_nccl_call(rank->notes.items[first].told.name)))
        return add_batch(kineto, trace, rank, cycle, &operation, first, count);
    if (count > 0)
        return add_coalesced(kineto, trace, rank, cycle, &operation, first, count);
    struct trace_event event;
    enum dropped lacks = says_too_little(kineto, rank, &operation);
    if (lacks != DROPPED_REASONS)
        return drop_operation(kineto, rank, kernel, lacks);
    if (!read_operation(kineto, trace, rank, &operation, -1, cycle, &event, &lacks))
        return false;
    return lacks != DROPPED_REASONS ? drop_operation(kineto, rank, kernel, lacks) : trace_add(trace, &event);
}

/* What launched a kernel of its own is in no batch. */
static void mark_launched(struct rank_trace *rank) {
    for (size_t i = 0; i < rank->notes.count && !rank->messages; i++)
        rank->messages = is_message_call(import_nccl_call(rank->notes.items[i].told.name));
    for (size_t i = 0; i < rank->kernels.count; i++) {
        const struct launch *launch = launch_of(rank, rank->kernels.items[i].correlation);
        const struct call_note *note =
            item_around(rank->notes.items, rank->notes.count, sizeof *rank->notes.items, launch);
        if (note)
            rank->notes.items[note - rank->notes.items].launched = true;
    }
}

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
        const struct launch *launch = launch_of(rank, rank->work.items[i].correlation);
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
    if (rank->launches.count > 0)
        qsort(rank->launches.items, rank->launches.count, sizeof *rank->launches.items, compare_launches);
    if (rank->annotations.count > 0)
        qsort(rank->annotations.items, rank->annotations.count, sizeof *rank->annotations.items, compare_annotations);
    if (rank->notes.count > 0)
        qsort(rank->notes.items, rank->notes.count, sizeof *rank->notes.items, compare_notes);
    nest_frames(rank);
    if (rank->kernels.count > 0)
        qsort(rank->kernels.items, rank->kernels.count, sizeof *rank->kernels.items, compare_kernels);
    mark_launched(rank);
    for (size_t k = 0; k < rank->kernels.count; k++)
        if (!add_kernel_operation(kineto, trace, rank, cycle->cycle, &rank->kernels.items[k]))
            return false;
    return add_works(trace, rank) && add_marks(trace, rank) &&
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
    .piece = piece,
    .document = document,
    .forget = forget,
    .finish = finish,
    .end = end,
};
