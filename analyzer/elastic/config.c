/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/elastic/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool wrong(char error[ELASTIC_ERROR], const char *key, const char *how) {
    snprintf(error, ELASTIC_ERROR, "elasticity.%s %s", key, how);
    return false;
}

static bool is_size(const json_t *item) {
    return json_is_integer(item) && json_integer_value(item) >= 1 && json_integer_value(item) <= ELASTIC_NUMBER_MOST;
}

static bool read_size(const json_t *section, const char *key, int64_t *value, char error[ELASTIC_ERROR]) {
    const json_t *item = json_object_get(section, key);
    if (!item)
        return true;
    *value = json_integer_value(item);
    return is_size(item) || wrong(error, key, "is not an integer from 1 to 2147483647");
}

static bool read_switch(const json_t *section, const char *key, bool *value, char error[ELASTIC_ERROR]) {
    const json_t *item = json_object_get(section, key);
    if (!item)
        return true;
    *value = json_is_true(item);
    return json_is_boolean(item) || wrong(error, key, "is not true or false");
}

static bool read_micro_batches(const json_t *section, struct elastic_config *config, char error[ELASTIC_ERROR]) {
    const json_t *list = json_object_get(section, "micro_batch_sizes");
    if (!json_is_array(list) || json_array_size(list) == 0)
        return wrong(error, "micro_batch_sizes", list ? "is not a list of numbers" : "is missing");
    if (json_array_size(list) > ELASTIC_MICRO_BATCHES)
        return wrong(error, "micro_batch_sizes", "has more than 64 entries");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (!is_size(item))
            return wrong(error, "micro_batch_sizes", "has an entry that is no integer from 1 to 2147483647");
        config->micro_batches[config->micro_batch_count++] = json_integer_value(item);
    }
    return true;
}

/* DeepSpeed takes a number or a text that is one. */
static bool read_version(const json_t *section, struct elastic_config *config, char error[ELASTIC_ERROR]) {
    const json_t *item = json_object_get(section, "version");
    char *end = "";
    double version = json_is_string(item) ? strtod(json_string_value(item), &end) : json_number_value(item);
    config->by_node = !item || version == 0.2;
    if (*end || (!config->by_node && version != 0.1))
        return wrong(error, "version", "is neither 0.1 nor 0.2");
    return true;
}

static bool read_min_time(const json_t *section, struct elastic_config *config, char error[ELASTIC_ERROR]) {
    const json_t *item = json_object_get(section, "min_time");
    config->min_time = json_number_value(item);
    return !item || (json_is_number(item) && config->min_time >= 0) ||
           wrong(error, "min_time", "is not a number from 0 up");
}

static bool are_together_sound(const struct elastic_config *config, char error[ELASTIC_ERROR]) {
    if (config->max_gpus < config->min_gpus)
        return wrong(error, "max_gpus", "is below min_gpus");
    if (config->model_parallel_size > 1 && !config->by_node)
        return wrong(error, "model_parallel_size", "is above 1, which version 0.1 does not know");
    return true;
}

bool elastic_config_read(const json_t *root, struct elastic_config *config, char error[ELASTIC_ERROR]) {
    const json_t *section = json_object_get(root, "elasticity");
    bool enabled = false;
    *config = (struct elastic_config){
        .min_gpus = 1, .max_gpus = 10000, .gpus_per_node = 1, .model_parallel_size = 1, .prefer_larger = true};
    if (!json_is_object(section)) {
        snprintf(error, ELASTIC_ERROR, "%s", section ? "elasticity is not an object" : "it has no section elasticity");
        return false;
    }
    if (!read_switch(section, "enabled", &enabled, error))
        return false;
    if (!enabled)
        return wrong(error, "enabled", "is not true");
    if (!json_object_get(section, "max_train_batch_size"))
        return wrong(error, "max_train_batch_size", "is missing");
    return read_size(section, "max_train_batch_size", &config->max_train_batch_size, error) &&
           read_micro_batches(section, config, error) && read_size(section, "min_gpus", &config->min_gpus, error) &&
           read_size(section, "max_gpus", &config->max_gpus, error) &&
           read_size(section, "num_gpus_per_node", &config->gpus_per_node, error) &&
           read_size(section, "model_parallel_size", &config->model_parallel_size, error) &&
           read_min_time(section, config, error) &&
           read_switch(section, "prefer_larger_batch", &config->prefer_larger, error) &&
           read_switch(section, "ignore_non_elastic_batch_info", &config->ignore_non_elastic, error) &&
           read_version(section, config, error) && are_together_sound(config, error);
}

json_t *elastic_config_to_json(const struct elastic_config *config) {
    json_t *micro_batches = json_array();
    for (size_t i = 0; i < config->micro_batch_count; i++)
        json_array_append_new(micro_batches, json_integer(config->micro_batches[i]));
    return json_pack("{s:I, s:o, s:I, s:I, s:I, s:I, s:f, s:b, s:b, s:f}", "max_train_batch_size",
                     (json_int_t)config->max_train_batch_size, "micro_batch_sizes", micro_batches, "min_gpus",
                     (json_int_t)config->min_gpus, "max_gpus", (json_int_t)config->max_gpus, "num_gpus_per_node",
                     (json_int_t)config->gpus_per_node, "model_parallel_size", (json_int_t)config->model_parallel_size,
                     "min_time", config->min_time, "prefer_larger_batch", config->prefer_larger,
                     "ignore_non_elastic_batch_info", config->ignore_non_elastic, "version",
                     config->by_node ? 0.2 : 0.1);
}
