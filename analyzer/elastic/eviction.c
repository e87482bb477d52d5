/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/elastic/eviction.h"

static struct elastic_size size_of(const struct elastic_config *config, const struct elastic_batch *batch,
                                   int64_t count, int64_t gpus_now) {
    struct elastic_size size = {.gpus = count * config->model_parallel_size, .batch_size = batch->batch_size};
    size.micro_batch = elastic_micro_batch(config, batch->batch_size, count);
    if (size.micro_batch == 0)
        return (struct elastic_size){0};
    size.accumulation = elastic_accumulation(batch->batch_size, size.micro_batch, count);
    size.cost_ratio = (double)gpus_now / (double)size.gpus;
    return size;
}

/* The largest count whose GPUs are so many at most, and a multiple of `unit`. */
static struct elastic_size largest_size(const struct elastic_config *config, const struct elastic_batch *batch,
                                        int64_t gpus_most, int64_t unit, int64_t gpus_now) {
    for (size_t i = batch->count; i-- > 0;) {
        int64_t gpus = batch->counts[i] * config->model_parallel_size;
        if (gpus > 0 && gpus <= gpus_most && gpus % unit == 0)
            return size_of(config, batch, batch->counts[i], gpus_now);
    }
    return (struct elastic_size){0};
}

/* Version 0.2 goes on with all GPUs that are left, with another batch where they are not in its list; of a model that
 * is split only with those that it starts with. */
static enum elastic_result find_sizes(const struct elastic_config *config, int64_t left, int64_t per_node,
                                      struct eviction *eviction) {
    struct elastic_batch batch;
    enum elastic_result result = config->model_parallel_size > 1 ? elastic_batch_startable(config, &batch)
                                                                 : elastic_batch_find(config, left, &batch);
    if (result != ELASTIC_OK)
        return result;
    eviction->next = largest_size(config, &batch, left, 1, eviction->gpus);
    eviction->whole_node = largest_size(config, &batch, left, per_node, eviction->gpus);
    elastic_batch_free(&batch);
    return ELASTIC_OK;
}

static enum eviction_verdict judge(const struct eviction *eviction) {
    if (eviction->next.gpus == 0)
        return EVICTION_NO_SIZE;
    if (eviction->straggler_speedup <= 1)
        return EVICTION_NO_STRAGGLER;
    return eviction->gain_ratio > 1 ? EVICTION_WORTH_IT : EVICTION_NOT_WORTH_IT;
}

enum elastic_result eviction_judge(const struct elastic_config *config, int64_t gpus, int64_t leaving, int64_t per_node,
                                   double straggler_speedup, struct eviction *eviction) {
    *eviction = (struct eviction){.gpus = gpus, .leaving = leaving, .straggler_speedup = straggler_speedup};
    int64_t left = gpus - leaving;
    if (left > 0 && find_sizes(config, left, per_node > 0 ? per_node : 1, eviction) == ELASTIC_NO_MEMORY)
        return ELASTIC_NO_MEMORY;
    if (eviction->next.gpus > 0)
        eviction->gain_ratio = straggler_speedup / eviction->next.cost_ratio;
    eviction->verdict = judge(eviction);
    return ELASTIC_OK;
}

const char *eviction_verdict_name(enum eviction_verdict verdict) {
    static const char *const names[] = {[EVICTION_WORTH_IT] = "evict",
                                        [EVICTION_NOT_WORTH_IT] = "keep",
                                        [EVICTION_NO_STRAGGLER] = "no_straggler",
                                        [EVICTION_NO_SIZE] = "no_size"};
    return names[verdict];
}
