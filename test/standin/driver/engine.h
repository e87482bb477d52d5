/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine behind the stand-in libcuda.so.1: its objects and what the files of this folder offer each other. CUDA's
 * functions themselves are in the file of their concern (device, context, stream, event, capture, graph, memory).
 *
 * One lock guards every object; functions named here expect it to be held unless they say "takes the lock". Work runs
 * outside it, one thread per stream.
 */
#ifndef COMMTAP_TEST_STANDIN_ENGINE_H
#define COMMTAP_TEST_STANDIN_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/standin/cuda_api.h"
#include "test/standin/standin.h"

#define EXPORT __attribute__((visibility("default")))

enum { MAX_DEVICES = 64 };

/* What a handle points at; the first member of every object, so that a stale or foreign handle is told apart. */
enum kind { KIND_CONTEXT = 0x43545843, KIND_STREAM, KIND_EVENT, KIND_GRAPH, KIND_NODE, KIND_EXEC };
struct object {
    enum kind kind;
    bool destroyed;
    struct object *next; /* among the destroyed ones that are kept a while */
};

/* One thing to do, shared by a stream's work and a graph's nodes. */
struct command {
    atomic_uint references;
    enum { COMMAND_EMPTY, COMMAND_HOST, COMMAND_COPY, COMMAND_FILL, COMMAND_KERNEL, COMMAND_RECORD, COMMAND_WAIT } kind;
    void (*function)(void *); /* COMMAND_HOST */
    void *argument;
    void (*release)(void *); /* NULL or called with argument when the last reference goes */
    void *to;                /* COMMAND_COPY, COMMAND_FILL */
    const void *from;
    size_t bytes;
    unsigned value; /* COMMAND_FILL: repeated every `width` bytes (1 or 4) */
    unsigned width;
    CUevent event; /* COMMAND_RECORD, COMMAND_WAIT: only in graphs, where the event is EXTERNAL */
};

/* A command in a stream's queue, or done and still of interest (an event's latest record). */
struct work {
    atomic_uint references;
    bool done;
    uint64_t time; /* of device_clock, at which it was done */
    struct command *command;
    struct work *next;
    size_t after_count; /* works of other streams that come first */
    struct work *after[];
};

/* Works that a new work must come after; owns a reference to each. */
struct work_list {
    size_t count, room;
    struct work **items;
};

struct node_list {
    size_t count, room;
    CUgraphNode *items;
};

struct capture {
    struct capture *next;
    uint64_t id;
    CUstreamCaptureMode mode;
    bool invalidated;
    CUstream origin;
    pthread_t thread; /* that began it */
    CUgraph graph;
    bool into;        /* ... is the caller's: it lives on whatever happens */
    size_t first;     /* of its nodes that this capture made */
    CUstream streams; /* that take part, the newest first */
    unsigned lanes;   /* streams that joined so far; the origin's lane is 0 */
};

struct CUctx_st {
    struct object object;
    uint64_t id;
    CUdevice device;
    unsigned flags;
    CUstream streams; /* all, also the default ones and destroyed ones with work left */
    CUstream legacy;
    CUcontext primary; /* of a green context's handle: that of its device, whose events are good for it; else NULL */
};

struct CUstream_st {
    struct object object;
    CUcontext context;
    CUstream next; /* of the context */
    uint64_t id;
    unsigned flags;
    int priority;
    bool implicit;         /* a default stream: never destroyed by the job */
    const void *thread;    /* the default stream of one thread: that thread's mark, else NULL */
    bool started, closing; /* its worker runs; it ends once the queue is empty */
    bool abandoned;        /* what has not begun is not to run */
    pthread_cond_t arrived;
    struct work *head, *tail; /* queue; the head is the one that runs */
    struct work *last;        /* newest work of all, NULL if none or done */
    struct command *late;     /* standin_stream_enqueue_late: not yet in the queue */
    struct capture *capture;  /* NULL unless being captured */
    CUstream next_captured;   /* in the same capture */
    struct node_list nodes;   /* captured: what the next node depends on */
    unsigned lane;            /* captured: this stream's number in the capture */
};

struct CUevent_st {
    struct object object;
    CUcontext context;
    unsigned flags;
    unsigned commands;   /* in graphs that name it: its memory outlives them */
    struct work *record; /* newest record, NULL if none */
    uint64_t capture;    /* id of the capture it was last recorded in, 0 if in none */
    struct node_list nodes;
};

struct CUgraph_st {
    struct object object;
    struct node_list nodes; /* in an order that respects their dependencies */
};

struct CUgraphNode_st {
    struct object object;
    struct command *command;
    struct node_list after;
    size_t index; /* in its graph */
    unsigned lane;
};

extern pthread_mutex_t engine_lock;
extern pthread_cond_t engine_changed; /* some work was done */

/* engine.c */

/* 0 when calls may proceed: 3 before cuInit and in a forked child, 4 at exit. Does not need the lock. */
CUresult engine_ready(void);
uint64_t engine_next_id(void);
/* Memory that is never NULL: a test machine out of memory ends with a message. */
void *allocate(size_t bytes);
void *reallocate(void *old, size_t bytes);
/* Makes a handle stale; its memory is freed once many more were destroyed (STANDIN_HANDLES_REUSED: at once). */
void object_retire(void *object);
/* The environment as cuInit found it (standin.h). */
struct knobs {
    int devices;
    uint64_t memory;
    bool handles_reused;
    bool destroy_hangs;
    const char *query_hangs_for; /* NULL for nobody */
    int64_t clock_drift;         /* parts per million */
    const char *report;          /* NULL for none */
};
extern struct knobs knobs;
/* The devices' clock, ns: CLOCK_MONOTONIC from cuInit on, faster by the drift. Needs no lock. */
uint64_t device_clock(void);

/* Enters a CUDA function: returns from it unless the library is ready, else takes the lock. */
#define ENTER()                                                                                                        \
    do {                                                                                                               \
        CUresult ready_ = engine_ready();                                                                              \
        if (ready_)                                                                                                    \
            return ready_;                                                                                             \
        pthread_mutex_lock(&engine_lock);                                                                              \
    } while (0)
/* Leaves it with a result, evaluated under the lock. */
#define LEAVE(result)                                                                                                  \
    do {                                                                                                               \
        CUresult result_ = (result);                                                                                   \
        pthread_mutex_unlock(&engine_lock);                                                                            \
        return result_;                                                                                                \
    } while (0)

/* calls.c: counts by library. Both take their own lock. `caller` = the return address of CUDA's function. */
void count_call(enum standin_count what, void *caller);
bool caller_is(const char *name, void *caller);
void calls_report(void);
void calls_forget(void);

/* context.c */
/* All work of the context; releases the lock meanwhile. */
void context_wait(CUcontext context);
/* The calling thread's current context: 0, 201 if none, 709 if destroyed. */
CUresult context_current(CUcontext *context);
CUresult context_check(CUcontext context);
/* The context whose events its streams take: a green context has those of its device's primary one. */
CUcontext context_of_events(CUcontext context);

/* queue.c */
struct command *command_new(int kind);
struct command *command_with_event(int kind, CUevent event); /* keeps the event's memory */
struct command *command_hold(struct command *command);
void command_drop(struct command *command);
struct work *work_hold(struct work *work);
void work_drop(struct work *work);
void works_add(struct work_list *list, struct work *work); /* NULL and done ones are left out */
void works_clear(struct work_list *list);
/* Appends the command to the stream, after `after` (cleared; may be NULL) and by the legacy stream's rule. Keeps its
 * own reference to the command. Returns the work with a reference for the caller. */
struct work *stream_append(CUstream stream, struct command *command, struct work_list *after);
void stream_append_done_with(CUstream stream, struct command *command); /* the same, dropping both references */
void work_wait(struct work *work);                                      /* releases the lock meanwhile */
void stream_wait(CUstream stream); /* all work of it; releases the lock meanwhile */
bool stream_is_idle(CUstream stream);
/* A stream without a handle for a graph's branch, or one of the job's. Never NULL. */
CUstream stream_new(CUcontext context, unsigned flags, int priority);
/* Its worker ends when the queue is empty and frees it. */
void stream_close(CUstream stream);
/* Drops what has not begun on any of the context's streams, waits for what runs, frees them; releases the lock
 * meanwhile. */
void context_abandon_work(CUcontext context);

/* stream.c */
/* The stream of a handle, special ones included: 0, 201, 400 or 709. */
CUresult stream_of(CUstream handle, CUstream *stream);
/* Gives the stream a command: to its queue or, captured, as a node. Takes over the caller's reference in any case. */
CUresult stream_submit(CUstream stream, struct command *command);

/* capture.c */
/* 900, and the captures are invalidated, where a call that may synchronize is unsafe (CUstreamCaptureMode). */
CUresult capture_check_unsafe(void);
/* 906, and the captures are invalidated, where the legacy stream would come to depend on a captured one. */
CUresult capture_check_legacy(CUstream stream);
/* 900/901 and invalidation if the stream is being captured, 906 by capture_check_legacy, else capture_check_unsafe:
 * for calls that ask about or wait for a stream. */
CUresult capture_check_wait(CUstream stream);
/* The same for all streams of a context. */
CUresult capture_check_wait_context(CUcontext context);
/* Adds a node of this command at the end of a captured stream; keeps its own reference to the command. 0 or 901. */
CUresult capture_add(CUstream stream, struct command *command);
/* cuEventRecord and cuStreamWaitEvent where the stream or the event is captured. */
CUresult capture_record(CUstream stream, CUevent event);
CUresult capture_wait(CUstream stream, CUevent event);
struct capture *capture_find(uint64_t id);
void capture_invalidate(struct capture *capture);
/* The stream is going away: a capture it takes part in is invalidated and left. */
void capture_leave(CUstream stream);

/* event.c */
CUresult event_check(CUevent event);
void event_unname(CUevent event); /* a command that named it is gone */
/* The work is the event's record from now on (keeps its own reference). */
void event_set_record(CUevent event, struct work *work);

/* graph.c */
void nodes_add(struct node_list *list, CUgraphNode node); /* each once */
void nodes_copy(struct node_list *to, const struct node_list *from);
void nodes_clear(struct node_list *list);
CUgraph graph_new(void);
void graph_free(CUgraph graph);
CUgraphNode graph_add(CUgraph graph, struct command *command, const struct node_list *after, unsigned lane);
/* Whether every node leads to one of these. */
bool graph_is_joined(CUgraph graph, size_t first, const struct node_list *ends);

/* memory.c */
/* Its allocations are freed; nothing runs any more. */
void memory_of_context_destroyed(CUcontext context);

#endif
