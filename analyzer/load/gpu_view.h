/* SPDX-License-Identifier: Apache-2.0
 *
 * A process with several GPUs, seen as one dump per GPU.
 * Lives here: which communicator ran on which GPU, and a dump that holds what one GPU did and nothing else.
 * Must not live here: which processes are to be seen so.
 *
 * Each GPU of a process is a rank of NCCL's communicators of its own, and can be late on its own. A view shares
 * everything with the dump it is of, which must outlive it, but for communicators, of which it has those of its GPU,
 * and for records, of which dump_shows tells those that are its own. What belongs to no GPU (MPI's calls, files) is in
 * one view alone: in one of its own where the process uses MPI, else in that of the first GPU. Rows of tables and
 * losses are the process's: all views have them.
 */
#ifndef COMMTAP_LOAD_GPU_VIEW_H
#define COMMTAP_LOAD_GPU_VIEW_H

#include "analyzer/load/dump.h"

#define GPU_NONE UINT32_MAX

enum { GPU_VIEWS_MOST = 64 }; /* more GPUs than a process can have: CUDA_VISIBLE_DEVICES of the largest machines */

struct gpu_view {
    struct dump *whole;     /* owns what the view shows */
    uint32_t gpu;           /* index in the dump's devices, GPU_NONE: what belongs to none */
    bool rest;              /* holds what belongs to no GPU */
    const uint32_t *gpu_of; /* per communicator: the GPU it ran on, GPU_NONE where none is known */
};

/* The views of one dump. */
struct gpu_views {
    struct dump *dumps[GPU_VIEWS_MOST + 1]; /* `count` of them, by GPU; private but for being dumps */
    uint32_t *gpu_of;                       /* private */
    uint32_t
        count; /* 0: communicators on fewer than two GPUs are known, or the dump is of no process: it stays whole */
};

/* Returns false when memory is short; the caller frees with gpu_views_free in every case. */
bool gpu_views_make(struct gpu_views *views, struct dump *dump);
void gpu_views_free(struct gpu_views *views);

/* Whether a record of the dump is to be seen in it: all are but in a view. */
bool dump_shows(const struct dump *dump, const struct record *record);

/* The GPU that the dump is a view of; NULL where it is none, or what belongs to no GPU. */
const struct device_state *dump_gpu(const struct dump *dump);

/* How a rank's numbers are told apart where a process has several GPUs: the GPU's number, -1 where it is none. */
static inline int64_t dump_gpu_number(const struct dump *dump) {
    const struct device_state *gpu = dump_gpu(dump);
    return gpu ? (int64_t)gpu->ordinal : -1;
}

/* The number of the GPU with that index in the dump, as the driver counts them in the process. */
static inline uint32_t dump_device_number(const struct dump *dump, uint32_t index) {
    return index < dump->device_count ? dump->devices[index].ordinal : index;
}

/* All that the process did. */
static inline const struct dump *dump_of_process(const struct dump *dump) {
    return dump->view ? dump->view->whole : dump;
}

/* True for one dump of each process: of the views, that with what belongs to no GPU. */
static inline bool dump_stands_for_process(const struct dump *dump) {
    return !dump->view || dump->view->rest;
}

#endif
