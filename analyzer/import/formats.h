/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace formats that can be imported.
 * Lives here: their common contract.
 * Must not live here: reading files, writing dumps.
 *
 * A format looks at every piece of every document (json_walk.h) and keeps what it knows; after each document, and after
 * all of them, it is asked what became of it. Formats are told apart by what they find, not by the files' names.
 */
#ifndef COMMTAP_IMPORT_FORMATS_H
#define COMMTAP_IMPORT_FORMATS_H

#include <jansson.h>

#include "analyzer/import/trace.h"

struct import_format {
    const char *name; /* "PyTorch profiler trace" */
    /* What is kept counts against the limits. */
    void *(*begin)(struct import_limits *limits);
    /* Returns false when memory is short, or a limit is exceeded: the limits say so. */
    bool (*piece)(void *state, const char *key, const json_t *piece);
    /* A document ended; `name` is its. Returns true when there was something in it for this format; it is then part of
     * what `finish` makes. Else *lacks, where it is of this format all the same, is what is missing in it. */
    bool (*document)(void *state, const char *name, int64_t written_ns, const char **lacks);
    /* The present document, `name`, cannot be read: nothing of it remains. NULL where pieces cannot be taken back:
     * nothing of that format can be imported then. */
    void (*forget)(void *state, const char *name);
    /* Makes the trace. Returns NULL, or what stands in the way. `dropped` counts events that were not understood. */
    const char *(*finish)(void *state, struct trace *trace, size_t *dropped);
    void (*end)(void *state);
};

extern const struct import_format import_timeline, import_kineto, import_flight;

/* Microseconds of a JSON number -> ns. Returns false where it is no number or out of range (+-73 years). */
bool import_time(const json_t *microseconds, int64_t *ns);
/* "[0, 1, 2]" or an array of numbers, or "0-3". Returns how many, 0 where it is none of these; at most `most`. */
uint32_t import_ranks(const json_t *value, int32_t *ranks, uint32_t most);
/* "host_4711.1700000000000000000.pt.trace.json", as tensorboard_trace_handler names a file: how long the worker's name
 * is, and that of its host where the worker has PyTorch's own name. 0 = the document has another name. */
size_t import_worker_name(const char *name);
size_t import_host_name(const char *name);
/* The number at the end of a file's name, before what tells its kind ("nccl_trace_rank_12", "rank3.json.gz",
 * "trace_0.pkl"), -1 = none. *before: how many letters stand before it. */
int32_t import_rank_of_name(const char *name, size_t *before);
/* PyTorch's name of a data type, as "float", "Float", "BFloat16", "long int" -> code and size in bytes (0 = unknown).
 */
enum datatype_code import_dtype(const char *name, uint32_t *bytes);
/* Index in import_nccl_calls of an operation by the words for it ("nccl:all_reduce", "ncclDevKernel_AllReduce_...",
 * "_allgather_base"), -1 = none of them. */
int import_nccl_call(const char *name);
extern const struct trace_call import_nccl_calls[];
extern const size_t import_nccl_call_count;
/* Of these, what a GPU does beside operations: computation, copies, communication that does not say with whom. */
extern const uint16_t import_gpu_work, import_gpu_copies, import_gpu_nccl;
/* ... several messages that are launched together. */
extern const uint16_t import_nccl_group;
/* ... and what samples of its memory are of. */
extern const uint16_t import_memory_allocated, import_memory_reserved;

/* ---- PyTorch's process groups, as a trace's "distributedInfo" lists them ("pg_config") ------------ */

enum { PROCESS_GROUP_NAME = 96 };

struct process_group {
    char name[PROCESS_GROUP_NAME];
    char description[PROCESS_GROUP_NAME]; /* "mesh_tp", empty: there is none */
    int32_t *ranks;                       /* NULL: not told */
    uint32_t size;
};

/* Of one document. All zero: none. */
struct process_groups {
    struct process_group *items;
    size_t count;
};

/* Reads the list, anything else is none. Returns false when memory is short, or a limit is exceeded. */
bool process_groups_read(struct process_groups *groups, const json_t *list, struct import_limits *limits);
void process_groups_free(struct process_groups *groups);
/* NULL: not listed. */
const struct process_group *process_groups_find(const struct process_groups *groups, const char *name);

/* "mesh_tp 3" of a description and a name: groups of one kind have one description, and names of their own. Just the
 * name where PyTorch was told no description (NULL, "undefined"). */
void process_group_title(char *title, size_t size, const char *name, const char *description);

#endif
