/* SPDX-License-Identifier: Apache-2.0
 *
 * elastic/: on how many GPUs a job can go on, as DeepSpeed's elastic training works it out.
 * Lives here: the batch size and the GPU counts of a configuration (versions 0.1 and 0.2), micro-batch and
 * accumulation. Must not live here: reading JSON (config.h), what a count costs (eviction.h), printing.
 *
 * Results equal those of deepspeed/elasticity/elasticity.py of DeepSpeed 0.19.7, its peculiarities included: version
 * 0.2 asks the number of GPUs where a comment speaks of data-parallel ranks. DeepSpeed before 0.19.6 may choose the
 * least common multiple of the micro-batches as the batch although it is above the largest one allowed.
 */
#ifndef COMMTAP_ELASTIC_BATCH_H
#define COMMTAP_ELASTIC_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ELASTIC_MICRO_BATCHES = 64,     /* a list that somebody wrote has a handful */
    ELASTIC_NUMBER_MOST = INT32_MAX /* of every number in a configuration; DeepSpeed's own table ends at 720720 */
};

/* The section "elasticity" of a DeepSpeed configuration. */
struct elastic_config {
    int64_t max_train_batch_size;
    int64_t micro_batches[ELASTIC_MICRO_BATCHES]; /* as written */
    size_t micro_batch_count;
    int64_t min_gpus, max_gpus;
    int64_t gpus_per_node, model_parallel_size;
    double min_time; /* minutes */
    bool prefer_larger, ignore_non_elastic;
    bool by_node; /* version 0.2: whole nodes come and go */
};

struct elastic_batch {
    int64_t batch_size;
    int64_t *counts; /* valid ones, ascending; of version 0.2 data-parallel sizes: GPUs / model_parallel_size */
    size_t count;
    int64_t micro_batch; /* for the world size that was asked for; 0: none was, or it is not valid */
};

enum elastic_result {
    ELASTIC_OK = 0,
    ELASTIC_NO_MEMORY,
    ELASTIC_MICRO_BATCH_TOO_LARGE, /* one is above the largest batch allowed */
    ELASTIC_NODE_NOT_DIVISIBLE,    /* model parallelism does not divide the GPUs of a node */
    ELASTIC_NO_COUNT,              /* version 0.2 finds no number of nodes at all */
    ELASTIC_NO_MICRO_BATCH,        /* the world size is valid, and no micro-batch divides its share */
};

/* What DeepSpeed answers a scheduler (or ds_elastic without -w) that has so many GPUs, model-parallel ones included: no
 * micro-batch. 0 = of no number: version 0.2 then lists the counts of whole nodes. On ELASTIC_OK the caller frees with
 * elastic_batch_free. */
enum elastic_result elastic_batch_list(const struct elastic_config *config, int64_t gpus, struct elastic_batch *batch);
/* What it answers a job that starts with `world_size` data-parallel ranks (or ds_elastic -w), 0 = as
 * elastic_batch_list. It ends the job where these are not in the list. Freed as there. */
enum elastic_result elastic_batch_find(const struct elastic_config *config, int64_t world_size,
                                       struct elastic_batch *batch);
/* Counts of whole nodes with which a job of version 0.2 starts: it divides its data-parallel ranks by
 * model_parallel_size once more before it looks them up, so that it does not start with all that it lists. */
enum elastic_result elastic_batch_startable(const struct elastic_config *config, struct elastic_batch *batch);
void elastic_batch_free(struct elastic_batch *batch);

bool elastic_batch_has(const struct elastic_batch *batch, int64_t count);
/* The largest micro-batch with which so many GPUs make up the batch, 0 = none does. */
int64_t elastic_micro_batch(const struct elastic_config *config, int64_t batch_size, int64_t count);
/* Micro-batches that each GPU takes one after the other for one batch. */
int64_t elastic_accumulation(int64_t batch_size, int64_t micro_batch, int64_t count);

/* One of the valid counts. */
struct elastic_row {
    int64_t gpus;                      /* model-parallel ones included */
    int64_t nodes;                     /* 0: no whole number of them */
    int64_t micro_batch, accumulation; /* 0: no micro-batch divides a GPU's share */
    double samples_per_gpu;            /* of one batch; model-parallel GPUs share theirs */
    bool is_asked_for;
};

/* A row for each count, `per_node` GPUs to a node. NULL when memory is short; the caller frees. */
struct elastic_row *elastic_rows(const struct elastic_config *config, const struct elastic_batch *batch,
                                 int64_t per_node, int64_t world_size);

const char *elastic_result_text(enum elastic_result result);

#endif
