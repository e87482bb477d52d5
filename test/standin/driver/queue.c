/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands, works and the thread of each stream that runs them: the only place where anything executes. CUDA's rules
 * about which calls are allowed are elsewhere; here is the rule of the legacy stream, which is one of order.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "test/standin/driver/engine.h"

struct command *command_new(int kind) {
    struct command *command = allocate(sizeof *command);
    command->references = 1;
    command->kind = kind;
    return command;
}

struct command *command_with_event(int kind, CUevent event) {
    struct command *command = command_new(kind);
    command->event = event;
    event->commands++;
    return command;
}

struct command *command_hold(struct command *command) {
    atomic_fetch_add(&command->references, 1);
    return command;
}

void command_drop(struct command *command) {
    if (atomic_fetch_sub(&command->references, 1) != 1)
        return;
    if (command->release)
        command->release(command->argument);
    if (command->event)
        event_unname(command->event);
    free(command);
}

struct work *work_hold(struct work *work) {
    atomic_fetch_add(&work->references, 1);
    return work;
}

void work_drop(struct work *work) {
    if (work && atomic_fetch_sub(&work->references, 1) == 1)
        free(work);
}

void works_add(struct work_list *list, struct work *work) {
    if (!work || work->done)
        return;
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 8;
        list->items = reallocate(list->items, list->room * sizeof *list->items);
    }
    list->items[list->count++] = work_hold(work);
}

void works_clear(struct work_list *list) {
    for (size_t i = 0; i < list->count; i++)
        work_drop(list->items[i]);
    free(list->items);
    *list = (struct work_list){0};
}

static void command_run(const struct command *command) {
    switch (command->kind) {
    case COMMAND_HOST:
        command->function(command->argument);
        break;
    case COMMAND_COPY:
        memmove(command->to, command->from, command->bytes);
        break;
    case COMMAND_FILL:
        for (size_t i = 0; i + command->width <= command->bytes; i += command->width)
            memcpy((char *)command->to + i, &command->value, command->width);
        break;
    default: /* its place in the queue is all it is */
        break;
    }
}

static void work_finish(struct work *work) {
    work->time = device_clock();
    work->done = true;
    for (size_t i = 0; i < work->after_count; i++)
        work_drop(work->after[i]);
    work->after_count = 0;
    struct command *command = work->command;
    work->command = NULL;
    pthread_cond_broadcast(&engine_changed);
    if (command->release) {
        /* release is the job's code, so it runs outside the lock. */
        pthread_mutex_unlock(&engine_lock);
        command_drop(command);
        pthread_mutex_lock(&engine_lock);
    } else {
        command_drop(command);
    }
}

static void stream_run_head(CUstream stream) {
    struct work *work = stream->head;
    for (size_t i = 0; i < work->after_count; i++)
        work_wait(work->after[i]);
    if (!stream->abandoned) {
        pthread_mutex_unlock(&engine_lock);
        command_run(work->command);
        pthread_mutex_lock(&engine_lock);
    }
    work_finish(work);
    stream->head = work->next;
    if (!stream->head)
        stream->tail = NULL;
    if (stream->last == work) {
        stream->last = NULL;
        work_drop(work);
    }
    work_drop(work);
}

static void stream_unlink(CUstream stream) {
    CUstream *link = &stream->context->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
}

static void stream_free(CUstream stream) {
    if (stream->late)
        command_drop(stream->late);
    stream_unlink(stream);
    pthread_cond_destroy(&stream->arrived);
    nodes_clear(&stream->nodes);
    object_retire(stream);
}

static void *worker(void *argument) {
    CUstream stream = argument;
    pthread_setname_np(pthread_self(), "standin stream");
    pthread_mutex_lock(&engine_lock);
    while (stream->head || !stream->closing) {
        if (stream->head)
            stream_run_head(stream);
        else
            pthread_cond_wait(&stream->arrived, &engine_lock);
    }
    stream_free(stream);
    pthread_cond_broadcast(&engine_changed);
    pthread_mutex_unlock(&engine_lock);
    return NULL;
}

static void stream_start(CUstream stream) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &attributes, worker, stream))
        abort();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    stream->started = true;
}

/* Work of the legacy stream waits for all blocking streams of the context and they for it. */
static void add_implicit_order(CUstream stream, struct work_list *after) {
    CUcontext context = stream->context;
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return;
    if (stream != context->legacy) {
        works_add(after, context->legacy->last);
        return;
    }
    for (CUstream other = context->streams; other; other = other->next)
        if (other != stream && !(other->flags & CU_STREAM_NON_BLOCKING))
            works_add(after, other->last);
}

static void append_late(CUstream stream) {
    struct command *late = stream->late;
    stream->late = NULL;
    if (late)
        stream_append_done_with(stream, late);
}

struct work *stream_append(CUstream stream, struct command *command, struct work_list *after) {
    struct work_list none = {0};
    bool record = command->kind == COMMAND_RECORD;
    if (!record)
        append_late(stream);
    if (!after)
        after = &none;
    add_implicit_order(stream, after);
    struct work *work = allocate(sizeof *work + after->count * sizeof *work->after);
    work->references = 3; /* the queue's, the stream's `last` and the caller's */
    work->command = command_hold(command);
    work->after_count = after->count;
    for (size_t i = 0; i < after->count; i++)
        work->after[i] = work_hold(after->items[i]);
    works_clear(after);
    if (stream->tail)
        stream->tail->next = work;
    else
        stream->head = work;
    stream->tail = work;
    work_drop(stream->last);
    stream->last = work;
    if (!stream->started)
        stream_start(stream);
    pthread_cond_signal(&stream->arrived);
    if (record)
        append_late(stream);
    return work;
}

void stream_append_done_with(CUstream stream, struct command *command) {
    work_drop(stream_append(stream, command, NULL));
    command_drop(command);
}

void work_wait(struct work *work) {
    while (!work->done)
        pthread_cond_wait(&engine_changed, &engine_lock);
}

void stream_wait(CUstream stream) {
    if (!stream->last)
        return;
    struct work *last = work_hold(stream->last);
    work_wait(last);
    work_drop(last);
}

bool stream_is_idle(CUstream stream) {
    return !stream->last || stream->last->done;
}

CUstream stream_new(CUcontext context, unsigned flags, int priority) {
    CUstream stream = allocate(sizeof *stream);
    stream->object.kind = KIND_STREAM;
    stream->context = context;
    stream->id = engine_next_id();
    stream->flags = flags;
    stream->priority = priority;
    pthread_cond_init(&stream->arrived, NULL);
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

void stream_close(CUstream stream) {
    stream->object.destroyed = true;
    stream->closing = true;
    if (stream->started)
        pthread_cond_signal(&stream->arrived);
    else
        stream_free(stream);
}

void context_abandon_work(CUcontext context) {
    for (CUstream stream = context->streams, next; stream; stream = next) {
        next = stream->next;
        stream->abandoned = true;
        if (!stream->closing)
            stream_close(stream);
    }
    while (context->streams)
        pthread_cond_wait(&engine_changed, &engine_lock);
}
