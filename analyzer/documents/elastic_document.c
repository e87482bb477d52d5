/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/documents/elastic_document.h"

#include "analyzer/elastic/config.h"
#include "analyzer/render/escape.h"

static json_t *number_or_null(int64_t number) {
    return number > 0 ? json_integer(number) : json_null();
}

static json_t *counts_to_json(const struct elastic_batch *batch) {
    json_t *counts = json_array();
    for (size_t i = 0; i < batch->count; i++)
        json_array_append_new(counts, json_integer(batch->counts[i]));
    return counts;
}

static json_t *size_to_json(const struct elastic_size *size) {
    if (size->gpus == 0)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:f}", "gpus", (json_int_t)size->gpus, "final_batch_size",
                     (json_int_t)size->batch_size, "micro_batch_size", (json_int_t)size->micro_batch,
                     "gradient_accumulation_steps", (json_int_t)size->accumulation, "cost_ratio", size->cost_ratio);
}

static json_t *eviction_to_json(const struct elastic_answer *answer) {
    const struct eviction *eviction = &answer->eviction;
    if (!answer->host)
        return json_null();
    return json_pack("{s:o, s:s, s:I, s:I, s:o, s:o, s:f, s:o, s:o}", "host", escape_json(answer->host), "verdict",
                     eviction_verdict_name(eviction->verdict), "gpus", (json_int_t)eviction->gpus, "leaving_gpus",
                     (json_int_t)eviction->leaving, "next", size_to_json(&eviction->next), "next_whole_nodes",
                     size_to_json(&eviction->whole_node), "straggler_speedup", eviction->straggler_speedup,
                     "gain_ratio", eviction->gain_ratio > 0 ? json_real(eviction->gain_ratio) : json_null(), "text",
                     escape_json(answer->advice));
}

static json_t *goes_on_to_json(const struct elastic_answer *answer) {
    if (elastic_answer_sizes(answer) != &answer->goes_on)
        return json_null();
    return json_pack("{s:I, s:o}", "final_batch_size", (json_int_t)answer->goes_on.batch_size, "valid_gpus",
                     counts_to_json(&answer->goes_on));
}

json_t *elastic_document(const struct elastic_answer *answer, const struct table *sizes) {
    const struct elastic_batch *batch = &answer->batch;
    int64_t accumulation =
        batch->micro_batch > 0 ? elastic_accumulation(batch->batch_size, batch->micro_batch, answer->world_size) : 0;
    return json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "schema", "commtap.elastic/1",
                     "config", elastic_config_to_json(&answer->config), "world_size",
                     number_or_null(answer->world_size), "world_size_valid",
                     elastic_answer_was_asked(answer) ? json_boolean(answer->starts) : json_null(), "final_batch_size",
                     (json_int_t)batch->batch_size, "valid_gpus", counts_to_json(batch), "micro_batch_size",
                     number_or_null(batch->micro_batch), "gradient_accumulation_steps", number_or_null(accumulation),
                     "goes_on", goes_on_to_json(answer), "gpus_per_node", (json_int_t)answer->gpus_per_node, "sizes",
                     table_to_json(sizes), "eviction", eviction_to_json(answer));
}
