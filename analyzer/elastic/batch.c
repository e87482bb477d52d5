/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/elastic/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

/* DeepSpeed's list of highly composite numbers, which is not all of them. */
static const int64_t composite[] = {1,      2,      4,      6,      12,     24,     36,     48,    60,    120,
                                    180,    240,    360,    720,    840,    1260,   1680,   2520,  5040,  7560,
                                    10080,  15120,  20160,  25200,  27720,  45360,  50400,  55440, 83160, 110880,
                                    166320, 221760, 277200, 332640, 498960, 554400, 665280, 720720};
enum { COMPOSITES = sizeof composite / sizeof *composite };

/* What version 0.1 is asked for; version 0.2 asks it for nodes. */
struct request {
    const struct elastic_config *config;
    int64_t batch_most, counts_from, counts_to;
};

/* ---- counts ---------------------------------------------------------------------------------- */

static bool add_count(struct elastic_batch *batch, const struct request *request, int64_t count) {
    if (count < request->counts_from || count > request->counts_to)
        return true;
    if (!grow_list(batch->counts, batch->count))
        return false;
    batch->counts[batch->count++] = count;
    return true;
}

static int compare_counts(const void *a, const void *b) {
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static void sort_counts(struct elastic_batch *batch) {
    size_t kept = 0;
    if (batch->count > 0)
        qsort(batch->counts, batch->count, sizeof *batch->counts, compare_counts);
    for (size_t i = 0; i < batch->count; i++)
        if (kept == 0 || batch->counts[kept - 1] != batch->counts[i])
            batch->counts[kept++] = batch->counts[i];
    batch->count = kept;
}

/* Every number of ranks that gives each of them a whole number of some micro-batch. */
static bool find_counts(struct elastic_batch *batch, const struct request *request) {
    const struct elastic_config *config = request->config;
    for (size_t i = 0; i < config->micro_batch_count; i++) {
        int64_t micro_batches = batch->batch_size / config->micro_batches[i];
        if (batch->batch_size % config->micro_batches[i] != 0)
            continue;
        for (int64_t n = 1; n <= micro_batches / n; n++)
            if (micro_batches % n == 0 &&
                !(add_count(batch, request, n) && add_count(batch, request, micro_batches / n)))
                return false;
    }
    sort_counts(batch);
    return true;
}

/* ---- version 0.1 ----------------------------------------------------------------------------- */

static int64_t smallest_micro_batch(const struct elastic_config *config) {
    int64_t least = config->micro_batches[0];
    for (size_t i = 1; i < config->micro_batch_count; i++)
        least = config->micro_batches[i] < least ? config->micro_batches[i] : least;
    return least;
}

/* 0 above `most`: the batch must not be larger than allowed. */
static int64_t least_common_multiple(const struct elastic_config *config, int64_t most) {
    int64_t multiple = 1;
    for (size_t i = 0; i < config->micro_batch_count; i++) {
        int64_t a = multiple, b = config->micro_batches[i];
        while (b != 0) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (multiple / a > most / config->micro_batches[i])
            return 0;
        multiple = multiple / a * config->micro_batches[i];
    }
    return multiple;
}

/* The largest composite multiple that the bound, which is no less than the base, allows. */
static int64_t candidate_of(int64_t base, int64_t most) {
    size_t i = COMPOSITES;
    while (i > 1 && composite[i - 1] > most / base)
        i--;
    return base * composite[i - 1];
}

static bool is_better(const struct elastic_batch *batch, const struct elastic_batch *best, bool prefer_larger) {
    if (batch->count != best->count)
        return batch->count > best->count;
    return prefer_larger ? batch->batch_size > best->batch_size : batch->batch_size < best->batch_size;
}

static bool try_candidate(struct elastic_batch *best, const struct request *request, int64_t base) {
    struct elastic_batch batch = {.batch_size = candidate_of(base, request->batch_most)};
    bool done = find_counts(&batch, request);
    if (done && is_better(&batch, best, request->config->prefer_larger)) {
        free(best->counts);
        *best = batch;
    } else {
        free(batch.counts);
    }
    return done;
}

static enum elastic_result find_batch(struct elastic_batch *best, struct request *request) {
    const struct elastic_config *config = request->config;
    int64_t multiple, least = smallest_micro_batch(config);
    *best = (struct elastic_batch){.batch_size = least};
    request->counts_from = request->counts_from > 0 ? request->counts_from : 1;
    request->counts_to = request->counts_to > 0 ? request->counts_to : request->batch_most / least;
    for (size_t i = 0; i < config->micro_batch_count; i++)
        if (config->micro_batches[i] > request->batch_most)
            return ELASTIC_MICRO_BATCH_TOO_LARGE;
    multiple = least_common_multiple(config, request->batch_most);
    bool done = multiple == 0 || try_candidate(best, request, multiple);
    for (size_t i = 0; done && i < config->micro_batch_count; i++)
        done = try_candidate(best, request, config->micro_batches[i]);
    return done ? ELASTIC_OK : ELASTIC_NO_MEMORY;
}

/* ---- version 0.2 ----------------------------------------------------------------------------- */

/* No number of whole nodes fits: go on with the GPUs that are there. DeepSpeed reckons with floating-point numbers
 * here, so that part of a node may count. */
static enum elastic_result keep_present_size(struct elastic_batch *batch, const struct elastic_config *config,
                                             int64_t world_size) {
    int64_t per_node = config->gpus_per_node / config->model_parallel_size;
    double present = (double)world_size / (double)config->gpus_per_node * (double)per_node, chosen = 0;
    for (size_t i = 0; i < config->micro_batch_count; i++) {
        double least = (double)config->micro_batches[i] * present;
        double size = floor((double)config->max_train_batch_size / least) * least;
        if (i == 0 || (config->prefer_larger ? size > chosen : size < chosen))
            chosen = size;
    }
    batch->count = 0;
    batch->batch_size = (int64_t)chosen;
    if (!grow_list(batch->counts, batch->count))
        return ELASTIC_NO_MEMORY;
    batch->counts[batch->count++] = (int64_t)present;
    return ELASTIC_OK;
}

static enum elastic_result find_batch_by_node(struct elastic_batch *batch, const struct elastic_config *config,
                                              int64_t world_size) {
    int64_t per_node = config->gpus_per_node / config->model_parallel_size;
    if (config->gpus_per_node % config->model_parallel_size != 0)
        return ELASTIC_NODE_NOT_DIVISIBLE;
    struct request nodes = {config, config->max_train_batch_size / per_node, config->min_gpus / config->gpus_per_node,
                            config->max_gpus / config->gpus_per_node};
    enum elastic_result result = find_batch(batch, &nodes);
    if (result != ELASTIC_OK)
        return result;
    if (batch->count == 0 && batch->batch_size == smallest_micro_batch(config)) /* DeepSpeed fails here */
        return ELASTIC_NO_COUNT;
    batch->batch_size *= per_node;
    for (size_t i = 0; i < batch->count; i++)
        batch->counts[i] *= per_node;
    if (world_size == 0 || elastic_batch_has(batch, world_size / config->model_parallel_size))
        return ELASTIC_OK;
    return keep_present_size(batch, config, world_size);
}

/* ---- both ------------------------------------------------------------------------------------ */

int64_t elastic_micro_batch(const struct elastic_config *config, int64_t batch_size, int64_t count) {
    int64_t largest = 0, share = batch_size / count;
    for (size_t i = 0; i < config->micro_batch_count; i++)
        if (share % config->micro_batches[i] == 0 && config->micro_batches[i] > largest)
            largest = config->micro_batches[i];
    return largest;
}

int64_t elastic_accumulation(int64_t batch_size, int64_t micro_batch, int64_t count) {
    return batch_size / (micro_batch * count);
}

enum elastic_result elastic_batch_list(const struct elastic_config *config, int64_t gpus, struct elastic_batch *batch) {
    struct request request = {config, config->max_train_batch_size, config->min_gpus, config->max_gpus};
    *batch = (struct elastic_batch){0};
    enum elastic_result result =
        config->by_node ? find_batch_by_node(batch, config, gpus) : find_batch(batch, &request);
    if (result != ELASTIC_OK)
        elastic_batch_free(batch);
    return result;
}

/* Ranks for GPUs is DeepSpeed's choice: it gives one function both. */
enum elastic_result elastic_batch_find(const struct elastic_config *config, int64_t world_size,
                                       struct elastic_batch *batch) {
    enum elastic_result result = elastic_batch_list(config, world_size, batch);
    if (result == ELASTIC_OK && world_size > 0 && elastic_batch_has(batch, world_size)) {
        batch->micro_batch = elastic_micro_batch(config, batch->batch_size, world_size);
        result = batch->micro_batch > 0 ? ELASTIC_OK : ELASTIC_NO_MICRO_BATCH;
    }
    if (result != ELASTIC_OK)
        elastic_batch_free(batch);
    return result;
}

enum elastic_result elastic_batch_startable(const struct elastic_config *config, struct elastic_batch *batch) {
    enum elastic_result result = elastic_batch_list(config, 0, batch);
    size_t from = batch->count;
    for (size_t i = batch->count; i-- > 0;) { /* from above: what a count is looked up in lies below it, untouched */
        struct elastic_batch rest = {.counts = batch->counts, .count = i + 1};
        if (!config->by_node || elastic_batch_has(&rest, batch->counts[i] / config->model_parallel_size))
            batch->counts[--from] = batch->counts[i];
    }
    if (batch->count > 0)
        memmove(batch->counts, batch->counts + from, (batch->count - from) * sizeof *batch->counts);
    batch->count -= from;
    return result;
}

void elastic_batch_free(struct elastic_batch *batch) {
    free(batch->counts);
    *batch = (struct elastic_batch){0};
}

bool elastic_batch_has(const struct elastic_batch *batch, int64_t count) {
    return batch->count > 0 &&
           bsearch(&count, batch->counts, batch->count, sizeof *batch->counts, compare_counts) != NULL;
}

struct elastic_row *elastic_rows(const struct elastic_config *config, const struct elastic_batch *batch,
                                 int64_t per_node, int64_t world_size) {
    struct elastic_row *rows = calloc(batch->count + 1, sizeof *rows);
    for (size_t i = 0; rows && i < batch->count; i++) {
        int64_t count = batch->counts[i], gpus = count * config->model_parallel_size;
        int64_t micro_batch = count > 0 ? elastic_micro_batch(config, batch->batch_size, count) : 0;
        rows[i] = (struct elastic_row){
            .gpus = gpus,
            .nodes = gpus % per_node == 0 ? gpus / per_node : 0,
            .micro_batch = micro_batch,
            .accumulation = micro_batch > 0 ? elastic_accumulation(batch->batch_size, micro_batch, count) : 0,
            .samples_per_gpu = gpus > 0 ? (double)batch->batch_size / (double)gpus : 0,
            .is_asked_for = count == world_size,
        };
    }
    return rows;
}

const char *elastic_result_text(enum elastic_result result) {
    static const char *const texts[] = {
        [ELASTIC_OK] = "fine",
        [ELASTIC_NO_MEMORY] = "memory is short",
        [ELASTIC_MICRO_BATCH_TOO_LARGE] = "a micro-batch is larger than the largest batch (per node: version 0.2)",
        [ELASTIC_NODE_NOT_DIVISIBLE] = "model_parallel_size does not divide num_gpus_per_node",
        [ELASTIC_NO_COUNT] = "no number of nodes between min_gpus and max_gpus makes up a batch",
        [ELASTIC_NO_MICRO_BATCH] = "no micro-batch divides a GPU's share of the batch at this world size",
    };
    return texts[result];
}
