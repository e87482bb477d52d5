/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/kineto/kineto.h"

#include <stdio.h>

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

bool kineto_add_work(struct kineto *kineto, struct rank_trace *rank, const struct gpu_kernel *work) {
    struct gpu_kernel *place = work->end_ns > work->start_ns ? GROW(kineto->limits, rank->work) : NULL;
    if (place)
        *place = *work;
    return place || work->end_ns <= work->start_ns;
}

static bool read_work(struct kineto *kineto, struct rank_trace *rank, const json_t *piece, const json_t *arguments,
                      uint16_t call) {
    struct gpu_kernel work = {.correlation = integer_or(arguments, "correlation", -1), .call = call};
    return !read_span(piece, &work.start_ns, &work.end_ns) || kineto_add_work(kineto, rank, &work);
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

bool kineto_piece(void *state, const char *key, const json_t *value) {
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
