/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs, executable graphs and their launches. A launch queues ordinary works: each branch of the graph has a stream
 * of its own, so branches run at the same time and an event of a node is recorded like any other.
 */
#include <stdlib.h>
#include <string.h>

#include "test/standin/driver/engine.h"

struct exec_node {
    struct command *command;
    unsigned lane; /* 0 = the stream of the launch */
    size_t after_count;
    size_t *after; /* indices of earlier nodes */
};

struct CUgraphExec_st {
    struct object object;
    CUcontext context;
    size_t count;
    struct exec_node *nodes;
    unsigned lanes;
    CUstream *branches;       /* lanes - 1 streams */
    struct work *last_launch; /* its end, NULL if never launched */
};

void nodes_add(struct node_list *list, CUgraphNode node) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i] == node)
            return;
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 4;
        list->items = reallocate(list->items, list->room * sizeof *list->items);
    }
    list->items[list->count++] = node;
}

void nodes_copy(struct node_list *to, const struct node_list *from) {
    to->count = 0;
    for (size_t i = 0; i < from->count; i++)
        nodes_add(to, from->items[i]);
}

void nodes_clear(struct node_list *list) {
    free(list->items);
    *list = (struct node_list){0};
}

CUgraph graph_new(void) {
    CUgraph graph = allocate(sizeof *graph);
    graph->object.kind = KIND_GRAPH;
    return graph;
}

void graph_free(CUgraph graph) {
    for (size_t i = 0; i < graph->nodes.count; i++) {
        CUgraphNode node = graph->nodes.items[i];
        command_drop(node->command);
        nodes_clear(&node->after);
        object_retire(node);
    }
    nodes_clear(&graph->nodes);
    object_retire(graph);
}

/* A new node is in no list yet, so it needs no search among the graph's. */
static void graph_append(CUgraph graph, CUgraphNode node) {
    struct node_list *nodes = &graph->nodes;
    if (nodes->count == nodes->room) {
        nodes->room = nodes->room ? 2 * nodes->room : 16;
        nodes->items = reallocate(nodes->items, nodes->room * sizeof *nodes->items);
    }
    node->index = nodes->count;
    nodes->items[nodes->count++] = node;
}

CUgraphNode graph_add(CUgraph graph, struct command *command, const struct node_list *after, unsigned lane) {
    CUgraphNode node = allocate(sizeof *node);
    node->object.kind = KIND_NODE;
    node->command = command_hold(command);
    node->lane = lane;
    nodes_copy(&node->after, after);
    graph_append(graph, node);
    return node;
}

bool graph_is_joined(CUgraph graph, size_t first, const struct node_list *ends) {
    bool *reached = allocate(graph->nodes.count);
    for (size_t i = 0; i < ends->count; i++)
        reached[ends->items[i]->index] = true;
    bool all = true;
    for (size_t i = graph->nodes.count; i-- > first;) {
        const struct node_list *after = &graph->nodes.items[i]->after;
        all = all && reached[i];
        for (size_t j = 0; j < after->count; j++)
            reached[after->items[j]->index] |= reached[i];
    }
    free(reached);
    return all;
}

static CUresult graph_check(CUgraph graph) {
    return !graph || graph->object.kind != KIND_GRAPH || graph->object.destroyed ? CUDA_ERROR_INVALID_VALUE
                                                                                 : CUDA_SUCCESS;
}

static CUresult exec_check(CUgraphExec exec) {
    return !exec || exec->object.kind != KIND_EXEC || exec->object.destroyed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    ENTER();
    if (!graph || flags)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    *graph = graph_new();
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphDestroy(CUgraph graph) {
    ENTER();
    CUresult result = graph_check(graph);
    if (!result)
        graph_free(graph);
    LEAVE(result);
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    ENTER();
    CUresult result = count ? graph_check(graph) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        LEAVE(result);
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < graph->nodes.count ? graph->nodes.items[i] : NULL;
    *count = graph->nodes.count;
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    static const CUgraphNodeType types[] = {
        [COMMAND_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,     [COMMAND_HOST] = CU_GRAPH_NODE_TYPE_HOST,
        [COMMAND_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,     [COMMAND_FILL] = CU_GRAPH_NODE_TYPE_MEMSET,
        [COMMAND_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,   [COMMAND_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        [COMMAND_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
    };
    ENTER();
    if (!node || node->object.kind != KIND_NODE || node->object.destroyed || !type)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    *type = types[node->command->kind];
    LEAVE(CUDA_SUCCESS);
}

/* Takes over the caller's reference to the command. */
static CUresult add_explicit(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                             struct command *command) {
    CUresult result = node ? graph_check(graph) : CUDA_ERROR_INVALID_VALUE;
    struct node_list list = {0};
    for (size_t i = 0; !result && i < count; i++)
        nodes_add(&list, after[i]);
    if (!result)
        *node = graph_add(graph, command, &list, 0);
    nodes_clear(&list);
    command_drop(command);
    return result;
}

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count) {
    ENTER();
    LEAVE(add_explicit(node, graph, after, count, command_new(COMMAND_EMPTY)));
}

EXPORT CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                   const CUDA_HOST_NODE_PARAMS *parameters) {
    ENTER();
    if (!parameters || !parameters->fn)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    struct command *command = command_new(COMMAND_HOST);
    command->function = parameters->fn;
    command->argument = parameters->userData;
    LEAVE(add_explicit(node, graph, after, count, command));
}

EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                          CUevent event) {
    ENTER();
    CUresult result = event_check(event);
    if (result)
        LEAVE(result);
    LEAVE(add_explicit(node, graph, after, count, command_with_event(COMMAND_RECORD, event)));
}

static void exec_copy_nodes(CUgraphExec exec, CUgraph graph) {
    exec->count = graph->nodes.count;
    exec->nodes = allocate(exec->count * sizeof *exec->nodes);
    for (size_t i = 0; i < exec->count; i++) {
        CUgraphNode node = graph->nodes.items[i];
        struct exec_node *copy = &exec->nodes[i];
        copy->command = command_hold(node->command);
        copy->lane = node->lane;
        copy->after_count = node->after.count;
        copy->after = allocate(copy->after_count * sizeof *copy->after);
        for (size_t j = 0; j < copy->after_count; j++)
            copy->after[j] = node->after.items[j]->index;
        if (copy->lane >= exec->lanes)
            exec->lanes = copy->lane + 1;
    }
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    ENTER();
    CUcontext context;
    (void)flags; /* none changes what the stand-in does */
    CUresult result = exec ? graph_check(graph) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = context_current(&context);
    if (result)
        LEAVE(result);
    CUgraphExec new = allocate(sizeof *new);
    new->object.kind = KIND_EXEC;
    new->context = context;
    new->lanes = 1;
    exec_copy_nodes(new, graph);
    new->branches = allocate((new->lanes - 1) * sizeof *new->branches);
    for (unsigned i = 0; i + 1 < new->lanes; i++)
        new->branches[i] = stream_new(context, CU_STREAM_NON_BLOCKING, 0);
    *exec = new;
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log, size_t room) {
    if (failed)
        *failed = NULL;
    if (log && room)
        *log = '\0';
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    parameters->hErrNode_out = NULL;
    parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return cuGraphInstantiateWithFlags(exec, graph, parameters->flags);
}

EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
    ENTER();
    CUstream stream;
    CUresult result = exec_check(exec);
    LEAVE(result ? result : stream_of(handle, &stream));
}

static struct work *launch_node(CUgraphExec exec, const struct exec_node *node, CUstream stream, struct work *begin,
                                struct work *const *works) {
    struct work_list after = {0};
    struct command *command = node->command;
    bool has_event = command->event && !event_check(command->event);
    works_add(&after, begin);
    for (size_t i = 0; i < node->after_count; i++)
        works_add(&after, works[node->after[i]]);
    if (command->kind == COMMAND_WAIT && has_event)
        works_add(&after, command->event->record);
    struct work *work = stream_append(node->lane ? exec->branches[node->lane - 1] : stream, command, &after);
    if (command->kind == COMMAND_RECORD && has_event)
        event_set_record(command->event, work);
    return work;
}

/* Between a beginning, after the launch before, and an end, after all branches: replays never overlap. */
static void launch(CUgraphExec exec, CUstream stream) {
    struct command *mark = command_new(COMMAND_EMPTY);
    struct work_list after = {0};
    works_add(&after, exec->last_launch);
    struct work *begin = stream_append(stream, mark, &after);
    struct work **works = allocate(exec->count * sizeof *works);
    for (size_t i = 0; i < exec->count; i++)
        works[i] = launch_node(exec, &exec->nodes[i], stream, begin, works);
    for (size_t i = 0; i < exec->count; i++)
        works_add(&after, works[i]);
    work_drop(exec->last_launch);
    exec->last_launch = stream_append(stream, mark, &after);
    for (size_t i = 0; i < exec->count; i++)
        work_drop(works[i]);
    free(works);
    work_drop(begin);
    command_drop(mark);
}

/* Launched into a capture a graph becomes part of the one being captured (CUDA: one node with a child graph). */
static CUresult launch_into_capture(CUgraphExec exec, CUstream stream) {
    struct capture *capture = stream->capture;
    if (capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUgraphNode *copies = allocate(exec->count * sizeof *copies);
    bool *has_successor = allocate(exec->count);
    for (size_t i = 0; i < exec->count; i++) {
        const struct exec_node *node = &exec->nodes[i];
        struct node_list after = {0};
        for (size_t j = 0; j < node->after_count; j++) {
            nodes_add(&after, copies[node->after[j]]);
            has_successor[node->after[j]] = true;
        }
        copies[i] = graph_add(capture->graph, node->command, node->after_count ? &after : &stream->nodes,
                              node->lane ? capture->lanes + node->lane - 1 : stream->lane);
        nodes_clear(&after);
    }
    capture->lanes += exec->lanes - 1;
    stream->nodes.count = exec->count ? 0 : stream->nodes.count;
    for (size_t i = 0; i < exec->count; i++)
        if (!has_successor[i])
            nodes_add(&stream->nodes, copies[i]);
    free(has_successor);
    free(copies);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
    ENTER();
    CUstream stream;
    CUresult result = exec_check(exec);
    if (!result)
        result = stream_of(handle, &stream);
    if (!result)
        result = context_check(exec->context);
    if (!result)
        result = capture_check_legacy(stream);
    if (result)
        LEAVE(result);
    if (stream->capture)
        LEAVE(launch_into_capture(exec, stream));
    launch(exec, stream);
    LEAVE(CUDA_SUCCESS);
}

static void exec_drop_nodes(CUgraphExec exec) {
    for (size_t i = 0; i < exec->count; i++) {
        command_drop(exec->nodes[i].command);
        free(exec->nodes[i].after);
    }
    free(exec->nodes);
}

/* The same kinds of nodes with the same dependencies. */
static bool is_alike(CUgraphExec exec, CUgraph graph) {
    bool alike = exec->count == graph->nodes.count;
    for (size_t i = 0; alike && i < exec->count; i++) {
        const struct exec_node *own = &exec->nodes[i];
        CUgraphNode node = graph->nodes.items[i];
        alike = own->command->kind == node->command->kind && own->after_count == node->after.count &&
                own->lane == node->lane;
        for (size_t j = 0; alike && j < own->after_count; j++)
            alike = own->after[j] == node->after.items[j]->index;
    }
    return alike;
}

/* What runs is not changed. */
EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
    ENTER();
    CUresult result = info ? exec_check(exec) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = graph_check(graph);
    if (result)
        LEAVE(result);
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
    if (!is_alike(exec, graph)) {
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        LEAVE(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    }
    exec_drop_nodes(exec);
    exec_copy_nodes(exec, graph);
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
    ENTER();
    CUresult result = exec_check(exec);
    if (result)
        LEAVE(result);
    for (unsigned i = 0; i + 1 < exec->lanes && !context_check(exec->context); i++)
        stream_close(exec->branches[i]);
    exec_drop_nodes(exec);
    free(exec->branches);
    work_drop(exec->last_launch);
    object_retire(exec);
    LEAVE(CUDA_SUCCESS);
}
