/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/kineto/kineto.h"

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
const struct launch *kineto_launch_of(const struct rank_trace *rank, int64_t correlation) {
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
    return kineto_add_work(kineto, rank,
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
    const struct launch *launch = kineto_launch_of(rank, kernel->correlation);
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
        const struct launch *launch = kineto_launch_of(rank, rank->kernels.items[i].correlation);
        const struct call_note *note =
            item_around(rank->notes.items, rank->notes.count, sizeof *rank->notes.items, launch);
        if (note)
            rank->notes.items[note - rank->notes.items].launched = true;
    }
}

bool kineto_add_operations(struct kineto *kineto, struct trace *trace, struct rank_trace *rank, uint32_t cycle) {
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
        if (!add_kernel_operation(kineto, trace, rank, cycle, &rank->kernels.items[k]))
            return false;
    return true;
}
