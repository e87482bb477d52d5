/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON document of `commtap elastic`.
 * Must not live here: text for people, how the figures come about (elastic/).
 */
#ifndef COMMTAP_DOCUMENTS_ELASTIC_DOCUMENT_H
#define COMMTAP_DOCUMENTS_ELASTIC_DOCUMENT_H

#include <jansson.h>

#include "analyzer/elastic/eviction.h"
#include "analyzer/render/table.h"

/* What was asked, and what came out. */
struct elastic_answer {
    struct elastic_config config;
    struct elastic_batch batch;   /* DeepSpeed's own list, and the micro-batch where the job starts */
    struct elastic_batch goes_on; /* version 0.2, which does not start: sizes with which it does */
    struct elastic_row *rows;     /* of elastic_answer_sizes */
    int64_t gpus;                 /* that the job has; 0: not known */
    int64_t world_size;           /* data-parallel ranks; 0: not known, or the GPUs are no whole number of them */
    bool starts;                  /* or nothing was asked */
    int64_t gpus_per_node;
    const char *host; /* whose eviction was judged; NULL: none */
    struct eviction eviction;
    const char *advice; /* the same in words */
};

static inline bool elastic_answer_was_asked(const struct elastic_answer *answer) {
    return answer->world_size > 0 || answer->gpus > 0;
}

/* What the rows are of. */
static inline const struct elastic_batch *elastic_answer_sizes(const struct elastic_answer *answer) {
    return answer->starts || !answer->config.by_node ? &answer->batch : &answer->goes_on;
}

/* `sizes`: the rows. NULL when memory is short. */
json_t *elastic_document(const struct elastic_answer *answer, const struct table *sizes);

#endif
